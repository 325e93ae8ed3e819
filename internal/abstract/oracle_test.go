package abstract

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// inexact are lines where the interpreter takes a value for something else, knowingly.
var inexact = map[string]string{
	`see(nn.utils.clip_grad_norm_(model.parameters(), 1.0))`: "what torch.nn.utils gives is taken for what it got",
	`see(torch.device("mps") == "mps")`: "a device's type, and a name that may be either, are " +
		"devices too",
	`see(np.random.randint(5))`: "one draw is taken for many",
}

// TestAgainstPyTorch runs the same lines with PyTorch and NumPy: what is taken for a tensor is one, on the CPU and of
// that dtype, and the same of arrays, modules, numbers and texts. Where nothing is known, or the value is on a device
// that is not here, anything may be.
func TestAgainstPyTorch(t *testing.T) {
	atLeast := map[string]int{"torch.py": 60, "numpy.py": 25, "python.py": 60, "shapes.py": 60}
	met, lines, compared := map[string]map[int][]string{}, map[string][]string{}, map[string]int{}
	for name := range atLeast {
		met[name] = seenIn(t, "testdata/values", name, "mps")
		text, err := os.ReadFile("testdata/values/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines[name] = strings.Split(string(text), "\n")
	}
	command := exec.Command(testkit.Python(t), "../oracle.py", "torch.py", "numpy.py", "python.py", "shapes.py")
	command.Dir = "testdata/values"
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		real := strings.Fields(line)
		name, number, _ := strings.Cut(real[0], ":")
		n, err := strconv.Atoi(number)
		if err != nil || len(real) != 4 {
			t.Fatalf("the oracle says %q", line)
		}
		code, _, _ := strings.Cut(lines[name][n-1], "  #")
		for _, ours := range met[name][n] {
			words := strings.Fields(ours)
			elsewhere := func(word string) bool {
				return word == "soft" || word == "none" || word == "mps" ||
					word == "cuda"
			}
			if slices.ContainsFunc(words, elsewhere) {
				continue
			}
			compared[name]++
			switch right := agree(words, real[1:]); {
			case !right && inexact[code] == "":
				t.Errorf("%s is %s, and taken for %s", real[0], strings.Join(real[1:], " "), ours)
			case right && inexact[code] != "":
				t.Errorf("%s is in the list of what is inexact, and right", real[0])
			}
		}
	}
	for name, n := range atLeast {
		if compared[name] < n {
			t.Errorf("%s: only %d values compared:\n%s", name, compared[name], out)
		}
	}
}

// agree reports whether what is known of a value holds of the real one: its kind, place and dtype.
func agree(ours, real []string) bool {
	if real[0] == "shape" {
		return agreeShapes(ours, real[1:])
	}
	switch ours[0] {
	case "unknown", "api":
		return true
	case "tensor":
		if real[0] != "tensor" || !slices.Contains(ours, "open") && !slices.Contains(ours, real[1]) {
			return false
		}
		i := slices.IndexFunc(ours, isType)
		return i < 0 || ours[i] == real[2]
	case "array":
		i := slices.IndexFunc(ours, isType)
		return real[0] == "array" && (i < 0 || ours[i] == real[2])
	case "module", "number", "text", "true", "false":
		return real[0] == ours[0]
	}
	return real[0] == "other"
}

// agreeShapes reports whether what is known of a tensor's dimensions holds of the real one.
func agreeShapes(ours, real []string) bool {
	if ours[0] == "nothing" {
		return true
	}
	sizes, others := strings.Split(ours[0], "x"), strings.Split(real[0], "x")
	return len(sizes) == len(others) && (ours[1] == "unknown" || ours[1] == real[1]) &&
		!slices.ContainsFunc(sizes, func(n string) bool { return n != "?" && !slices.Contains(others, n) }) &&
		(strings.Contains(ours[0], "?") || ours[0] == real[0])
}

func isType(word string) bool { return dtypeNames[word] == word }
