package steps

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"assay/internal/fault"
	"assay/internal/golden"
)

// texts are the recordings of testdata/faults.gz, cut behind the first forward pass, by the name of their fault. They
// were made by testdata/record.py with PyTorch 2.15.
var texts = sync.OnceValues(func() (map[string]string, error) { return unpacked("testdata/faults.gz") })

func unpacked(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	of := map[string]*strings.Builder{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		names, line, _ := strings.Cut(lines.Text(), "\t")
		for _, name := range strings.Fields(names) {
			if of[name] == nil {
				of[name] = &strings.Builder{}
			}
			of[name].WriteString(line + "\n")
		}
	}
	all := map[string]string{}
	for name, text := range of {
		all[name] = text.String() + `{"k":"end","steps":1}` + "\n"
	}
	return all, lines.Err()
}

// packed gives the folders of those recordings.
func packed(t testing.TB, names ...string) map[string]string {
	t.Helper()
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	folders, root := map[string]string{}, t.TempDir()
	for _, name := range append(names, "right") {
		folders[name] = filepath.Join(root, name+".steps")
		write(t, folders[name], all[name])
	}
	return folders
}

func write(t testing.TB, folder, text string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, rowsName), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func opened(t testing.TB, folder string) *Recording {
	t.Helper()
	r, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func compared(t testing.TB, a, b string, options Options) *Result {
	t.Helper()
	r, err := Compare(opened(t, a), opened(t, b), options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func textOf(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Text(&b, 100_000); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// faults of testdata/train.py: what is said of each, in that order.
var faults = map[string][]string{
	"epsilon": {"departs", "aten::native_batch_norm in first.bn, step 1, forward", "its eps is 0.00001 in A and 0.001 in B",
		"its input is equal", "module       first.bn (BatchNorm2d)"},
	"swapped": {"departs", "aten::native_batch_norm in first.bn", "is fed otherwise", "aten::transpose in first in B",
		"in another order"},
	"mask": {"departs", "is fed otherwise", "aten::tril in attend in A", "aten::triu in attend in B",
		"module       attend"},
	"twice": {"departs", "aten::masked_fill in attend", "is fed otherwise", "aten::div in attend in A",
		"aten::transpose in attend in B"},
	"dropped": {"departs", "aten::convolution in stem", "stem.bias is in A alone", "module       stem (Conv2d)"},
	"kernel":  {"departs", "second.conv.weight is ", "off at the start", "in another order"},
	"stale":   {"departs", "second.bn.running_var is ", "off at the start"},
	"nan":     {"departs", "aten::relu in first", "0 NaN and 0 infinite in A", "module       first (Block)"},
	"eval":    {"departs", "first.bn (BatchNorm2d)", "its training is true in A and false in B"},
}

func (r *Result) says(t *testing.T, wanted []string) {
	t.Helper()
	text := textOf(t, r)
	rest := text
	for _, w := range wanted {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("it does not say %q there:\n%s", w, text)
		}
		rest = after
	}
}

func TestFaults(t *testing.T) {
	for name, wanted := range faults {
		t.Run(name, func(t *testing.T) {
			folders := packed(t, name)
			r := compared(t, folders["right"], folders[name], Options{})
			r.says(t, wanted)
			if r.Status() != fault.GateFailed {
				t.Errorf("the exit status is %d", r.Status())
			}
		})
	}
}

func TestSameIsSaidToBeBitwise(t *testing.T) {
	folders := packed(t)
	r := compared(t, folders["right"], folders["right"], Options{})
	r.says(t, []string{"the same", "bitwise: every hash is equal"})
	if r.Status() != fault.OK {
		t.Errorf("the exit status is %d", r.Status())
	}
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Schema, Kind string
		Body         struct {
			Answer    string
			Operators struct{ Compared, Equal int }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if o := document.Body.Operators; document.Kind != KindDepartures || o.Compared < 20 || o.Compared != o.Equal {
		t.Errorf("the document is %+v", document)
	}
	if strings.Contains(b.String(), "null") && strings.Contains(b.String(), "[null") {
		t.Error("a list is null")
	}
}

// B rounds what convolutions and products are fed to TF32, as testdata/tf32.py does: that is no alarm. A fault behind
// them is named first, though what it does is a tenth of what they differ by.
func TestTF32IsLetByOperator(t *testing.T) {
	all, err := unpacked("testdata/tf32.gz")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, text := range all {
		write(t, filepath.Join(root, name), text)
	}
	against := func(b string) *Result { return compared(t, filepath.Join(root, "right"), b, Options{}) }
	against(filepath.Join(root, "tf32-right")).says(t, []string{"the same", "TF32 in matrix products is on in B"})
	against(filepath.Join(root, "tf32-epsilon")).says(t, []string{"departs", "aten::native_batch_norm in first.bn",
		"its eps is 0.00001 in A and 0.001 in B", "the root of its mean square is"})
	against(filepath.Join(root, "tf32-turned")).says(t, []string{"departs", "aten::convolution in second.conv",
		"is fed otherwise", "aten::transpose in B"})
	against(filepath.Join(root, "tf32-nan")).says(t, []string{"departs", "aten::relu in first"})
	// where TF32 is off, a convolution that is off as much is at fault, and so is what another device computes
	for _, head := range []func(int, string) string{head(`"cudnn_tf32": true`, `"cudnn_tf32": false`),
		head(`"device": "cuda:0"`, `"device": "mps:0"`)} {
		r := against(edited(t, filepath.Join(root, "tf32-right"), head))
		if first := r.Operators.First; first == nil || first.Name != "aten::convolution" || first.Module != "stem" {
			t.Errorf("%s: %s", r.Answer, r.Why)
		}
	}
}

// Devices have a batch norm and an attention each: they are partners, and what a library keeps for itself is left out.
func TestDevicesHaveOperatorsOfTheirOwn(t *testing.T) {
	folders := packed(t, "epsilon")
	cudnn := func(name string) string {
		return edited(t, folders[name], func(_ int, line string) string {
			return strings.Replace(line, `"op":"aten::native_batch_norm"`, `"op":"aten::cudnn_batch_norm"`, 1)
		})
	}
	if r := compared(t, folders["right"], cudnn("right"), Options{}); r.Answer != golden.Same || len(r.Unaligned) > 0 {
		t.Errorf("%s: %s; %d unaligned", r.Answer, r.Why, len(r.Unaligned))
	}
	compared(t, folders["right"], cudnn("epsilon"), Options{}).says(t,
		[]string{"departs", "aten::native_batch_norm in first.bn", "its eps is"})
	for op, wanted := range map[string]string{
		"aten::cudnn_batch_norm_backward":                                 "1 0 2 3 4 5 6 | 3",
		"aten::native_batch_norm_backward":                                "0 1 2 3 4 5 6 7 | 3",
		"aten::_scaled_dot_product_efficient_attention":                   "0 1 2 | 1",
		"aten::_scaled_dot_product_flash_attention_for_cpu_backward":      "0 1 2 3 | 3",
		"aten::_scaled_dot_product_cudnn_attention_backward":              "0 1 2 3 | 3",
		"aten::_scaled_dot_product_fused_attention_overrideable_backward": "0 1 2 3 | 3",
	} {
		l := line{Kind: kindOp, Op: op, Out: make([]*Tensor, 3)}
		for i := range 8 {
			l.In.from = append(l.In.from, source{row: i})
		}
		l.alike()
		var in []string
		for _, s := range l.In.from {
			in = append(in, strconv.Itoa(s.row))
		}
		if got := strings.Join(in, " ") + " | " + strconv.Itoa(len(l.Out)); got != wanted {
			t.Errorf("%s has %s, not %s", op, got, wanted)
		}
	}
}

// What is not finite on both sides, and not alike, is told as that: no operator is at fault.
func TestWithoutEndOnBothSides(t *testing.T) {
	folders := packed(t, "nan")
	fewer := edited(t, folders["nan"], func(_ int, line string) string {
		if strings.Contains(line, `"op":"aten::relu"`) && strings.Contains(line, `"module":"first"`) {
			line = strings.Replace(line, `"nan":`, `"nan":1`, 1)
			return strings.Replace(line, `"hash":"`, `"hash":"0`, 1)
		}
		return line
	})
	r := compared(t, folders["nan"], fewer, Options{})
	if r.Answer != golden.NotKnown || !strings.Contains(r.Why, "aten::relu in first, step 1, forward") ||
		!strings.Contains(r.Why, "is not finite on both sides") {
		t.Errorf("%s: %s", r.Answer, r.Why)
	}
}

// What a double computes is no Mac's: that it agrees is never called the same.
func TestARehearsalIsNoProof(t *testing.T) {
	a := packed(t)["right"]
	b := edited(t, a, head(`"double": null`, `"double": {"release": "2.8.0", "macos": [15, 0]}`))
	r := compared(t, a, b, Options{})
	if r.Answer != golden.NotKnown || r.Status() != fault.CannotTell {
		t.Errorf("%s: %s", r.Answer, r.Why)
	}
	r.says(t, []string{"B is a rehearsal: the double of PyTorch 2.8.0, macOS 15 computes on the CPU"})
}

// A wider tolerance than the fault lets it pass, and the setting is told even so.
func TestWithin(t *testing.T) {
	folders := packed(t, "epsilon")
	r := compared(t, folders["right"], folders["epsilon"], Options{Within: 0.5})
	r.says(t, []string{"the same", "settings of modules differ", "eps of first.bn"})
}

// edited is a recording with its lines changed.
func edited(t *testing.T, folder string, edit func(n int, line string) string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, rowsName))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if line = edit(n, line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	to := filepath.Join(t.TempDir(), "edited.steps")
	write(t, to, b.String())
	return to
}

// head changes the first line alone.
func head(old, with string) func(int, string) string {
	return func(n int, line string) string {
		if n > 0 {
			return line
		}
		return strings.Replace(line, old, with, 1)
	}
}

// What the two did not begin alike with is the finding.
func TestStart(t *testing.T) {
	folders := packed(t, "epsilon")
	right := folders["right"]
	for _, c := range []struct {
		name, b string
		wanted  []string
		status  int
	}{
		{"a policy that changed nothing", edited(t, right, head(`"matmul_tf32": false`, `"matmul_tf32": true`)),
			[]string{"the same", "TF32 in matrix products is on in B"}, fault.OK},
		{"another batch size", edited(t, right, head(`"batch": 2`, `"batch": 8`)),
			[]string{"not known", "the batches have 2 and 8 examples"}, fault.CannotTell},
		{"cut off", edited(t, right, func(_ int, line string) string {
			if strings.Contains(line, `"k":"end"`) {
				return ""
			}
			return line
		}), []string{"not known", "not whole"}, fault.CannotTell},
		{"a release", edited(t, right, head(`"torch": "2.15.0`, `"torch": "2.9.1`)),
			[]string{"the same", "release", "2.9.1"}, fault.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compared(t, right, c.b, Options{})
			for _, w := range c.wanted {
				if !strings.Contains(textOf(t, r), w) {
					t.Errorf("it does not say %q:\n%s", w, textOf(t, r))
				}
			}
			if r.Status() != c.status {
				t.Errorf("the exit status is %d, not %d", r.Status(), c.status)
			}
		})
	}
	tf32 := compared(t, right, edited(t, folders["epsilon"], func(n int, line string) string {
		return head(`"cudnn_tf32": true`, `"cudnn_tf32": false`)(n, line)
	}), Options{})
	tf32.says(t, []string{"departs", "TF32 in convolutions is on in A"})
}

// Recordings from others are refused with one error, or compared; never more.
func TestHostile(t *testing.T) {
	right := packed(t)["right"]
	on := func(n int, old, with string) func(int, string) string {
		return func(m int, line string) string {
			if m == n {
				return strings.Replace(line, old, with, 1)
			}
			return line
		}
	}
	op := -1
	edited(t, right, func(n int, line string) string {
		if op < 0 && strings.Contains(line, `"k":"op"`) && strings.Contains(line, `"in":[["`) {
			op = n
		}
		return line
	})
	for name, c := range map[string]struct {
		edit   func(int, string) string
		wanted string
	}{
		"another version":  {on(0, `"steps": 2`, `"steps": 7`), "version 7"},
		"no head":          {on(0, `"steps": 2`, `"stops": 1`), "does not say so"},
		"no JSON":          {on(3, `{`, `[`), "line 4"},
		"another number":   {on(3, `"i":2`, `"i":9`), "says that it is row 9"},
		"a row after it":   {on(op, `"in":[["`, `"in":[["op",4000000,0],["`), "none before it"},
		"below nothing":    {on(op, `"in":[["`, `"in":[["op",-1,0],["`), "below 0"},
		"of no kind":       {on(op, `"in":[["`, `"in":[["disk",1],["`), "where it is from"},
		"a shape below 0":  {on(2, `"shape":[`, `"shape":[-4,`), "shape is"},
		"a cut sketch":     {on(2, `"sketch":"`, `"sketch":"AAAA`), "sketch"},
		"steps beyond all": {on(1, `"n":1`, `"n":1000000000`), "1000000 are possible"},
		"an unknown kind":  {on(1, `"k":"step"`, `"k":"shell"`), "no kind of row"},
		"a long name":      {on(2, `"what":"`, `"what":"`+strings.Repeat("x", 2000)), "1024 is the most"},
		"a long line":      {on(2, `"what":"`, `"what":"`+strings.Repeat("x", mostLine)), "the most"},
		"more behind":      {on(1, `{"k":"step"`, `{"k":"end","steps":1}`+"\n"+`{"k":"step"`), "behind its end"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(edited(t, right, c.edit))
			if err == nil {
				r.Close()
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), c.wanted) || fault.HintOf(err) == "" {
				t.Errorf("the error is %v, its hint %q", err, fault.HintOf(err))
			}
		})
	}
	if _, err := Open(t.TempDir()); err == nil || fault.HintOf(err) == "" {
		t.Errorf("of an empty folder: %v", err)
	}
	linked := filepath.Join(t.TempDir(), "linked.steps")
	os.Mkdir(linked, 0o755)
	if err := os.Symlink("/dev/zero", filepath.Join(linked, rowsName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(linked); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("of a link: %v", err)
	}
	// names that a terminal would obey
	shown := edited(t, right, func(_ int, line string) string {
		return strings.ReplaceAll(line, `"module":"first.bn"`, `"module":"\u001b[2Jfirst"`)
	})
	if text := textOf(t, compared(t, right, shown, Options{})); strings.Contains(text, "\x1b") {
		t.Errorf("it prints an escape:\n%q", text)
	}
}

// A sketch says how far two tensors are apart as well as it is said to: one standard error in about two of three, three
// in nearly all.
func TestSketchErrorIsAsSaid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const tensors, elements = 2000, 4096
	within := 0
	for range tensors {
		var sums [sketchNumbers]float64
		var square float64
		for i := range elements {
			x := r.NormFloat64()
			square += x * x
			if r.IntN(2) == 0 {
				x = -x
			}
			sums[i%sketchNumbers] += x
		}
		var d off
		d.sum(sums[:], make([]float64, sketchNumbers))
		ratio := math.Sqrt(d.a / square)
		if math.Abs(ratio-1) < sketchError {
			within++
		}
		if ratio > sure || ratio < 2-sure-0.05 {
			t.Logf("an estimate is %.2f of the norm", ratio)
		}
	}
	if part := float64(within) / tensors; part < 0.63 || part > 0.73 {
		t.Errorf("%.2f of the estimates are within one standard error", part)
	}
}

// A tie is told and is nobody's fault: where an integer differs since a float nearly did.
func TestTieIsNoFault(t *testing.T) {
	right := packed(t)["right"]
	change := func(row string, from, to string) func(int, string) string {
		return func(_ int, line string) string {
			if !strings.Contains(line, row) {
				return line
			}
			var l map[string]any
			if json.Unmarshal([]byte(line), &l) != nil {
				t.Fatal("no JSON")
			}
			for _, o := range l["out"].([]any) {
				if o := o.(map[string]any); o["dtype"] == from {
					o["hash"] = to
					if from == "int64" { // another index of as many
						o["sample"] = "AAAAAAAACEAAAAAAAAAUQAAAAAAAABhA" + o["sample"].(string)[32:]
					}
				}
			}
			b, _ := json.Marshal(l)
			return string(b)
		}
	}
	moved := edited(t, right, change(`"module":"second"`, "float32", "0000000000000001"))
	moved = edited(t, moved, change(`aten::max_pool2d_with_indices"`, "int64", "0000000000000002"))
	r := compared(t, right, moved, Options{})
	if r.Answer != golden.Same || len(r.Ties) != 1 || r.Ties[0].Name != "aten::max_pool2d_with_indices" {
		t.Errorf("%s: %s; ties %+v", r.Answer, r.Why, r.Ties)
	}
}

// Pairs of two batch sizes say from which on they depart.
func TestBatches(t *testing.T) {
	folders := packed(t, "nan")
	larger := func(name string) string {
		return edited(t, folders[name], head(`"batch": 2`, `"batch": 32`))
	}
	small, big := folders["right"], [2]string{larger("right"), larger("nan")}
	r, err := CompareBatches([][2]*Recording{{opened(t, big[0]), opened(t, big[1])},
		{opened(t, small), opened(t, small)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.says(t, []string{"departs", "agrees at a batch of 2, departs at a batch of 32",
		"aten::relu in first", "batch 2: the same", "batch 32: departs, first in aten::relu in first"})
}

// A release that calls other operators within a module is compared by modules, and that is said.
func TestOtherOperatorsAreSaid(t *testing.T) {
	right := packed(t)["right"]
	other := edited(t, right, func(_ int, line string) string {
		return strings.Replace(line, `"op":"aten::convolution"`, `"op":"aten::another"`, 1)
	})
	r := compared(t, right, other, Options{})
	r.says(t, []string{"the same", "some operators have no partner", "unaligned",
		"aten::convolution in A, aten::another in B"})
	if r.Operators.Compared == 0 || r.Modules.Compared == 0 || len(r.Unaligned) != 3 {
		t.Errorf("%d operators, %d modules, %d unaligned", r.Operators.Compared, r.Modules.Compared, len(r.Unaligned))
	}
}

// A moved recording says how far a row moves by itself; one that is none is refused.
func TestMoved(t *testing.T) {
	folders := packed(t, "epsilon")
	_, err := Compare(opened(t, folders["right"]), opened(t, folders["epsilon"]),
		Options{Moved: opened(t, folders["right"])})
	if err == nil || fault.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	var first struct{ Start string }
	text, _ := os.ReadFile(filepath.Join(folders["right"], rowsName))
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if json.Unmarshal(line, &first) != nil || first.Start == "" {
		t.Fatal("no start")
	}
	asMoved := func(name string) *Recording {
		return opened(t, edited(t, folders[name], func(n int, line string) string {
			line = head(`"moved": 0`, `"moved": 1`)(n, line)
			return head(`"started_from": ""`, `"started_from": "`+first.Start+`"`)(n, line)
		}))
	}
	a, b := opened(t, folders["right"]), opened(t, folders["epsilon"])
	r, err := Compare(a, b, Options{Moved: asMoved("epsilon")}) // moves as far as the fault does
	if err != nil || r.Answer != golden.Same {
		t.Errorf("%v: %+v", err, r)
	}
	if r, err = Compare(a, b, Options{Moved: asMoved("right")}); err != nil || r.Answer != golden.Departs {
		t.Errorf("%v: %+v", err, r)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"steps":2}` + "\n" + `{"k":"op","i":0,"n":1,"op":"aten::mul","in":[["other"]],"out":[{"shape":[2]}]}` + "\n"))
	f.Add([]byte(`{"steps":2}` + "\n" + `{"k":"weight","i":0,"n":0,"what":"w","t":{"shape":[9223372036854775807,2]}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		folder := t.TempDir()
		write(t, folder, string(text))
		a, err := Open(folder)
		if err != nil {
			return
		}
		defer a.Close()
		b := opened(t, folder)
		r, err := Compare(a, b, Options{})
		if err == nil {
			textOf(t, r)
			if !slices.Contains([]string{golden.Same, golden.NotKnown, golden.Departs, Drifts}, r.Answer) {
				t.Errorf("the answer is %q", r.Answer)
			}
		}
	})
}
