package audit

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiffApplies: patch and git make of the old text the new one.
func TestDiffApplies(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	text := func(from []string) []string {
		lines := []string{}
		for _, l := range from {
			switch random.IntN(12) {
			case 0:
			case 1:
				lines = append(lines, l, "new é\n")
			case 2:
				lines = append(lines, "other\r\n")
			default:
				lines = append(lines, l)
			}
		}
		return lines
	}
	dir := t.TempDir()
	for round := range 40 {
		var old []string
		for range random.IntN(50) {
			old = append(old, []string{"a\n", "b\n", "\n", "a\n", "-- x\n", "+c\r\n",
				"\tlong line é\n"}[random.IntN(7)])
		}
		before := strings.Join(old, "")
		after := strings.Join(text(old), "")
		if random.IntN(3) == 0 {
			before = strings.TrimSuffix(before, "\n")
		}
		if random.IntN(3) == 0 {
			after = strings.TrimSuffix(after, "\n")
		}
		if before == after || before == "" || after == "" { // patch would make or remove the file
			continue
		}
		diff := Diff("x.py", []byte(before), []byte(after))
		for _, tool := range [][]string{{"patch", "--binary", "-s", "-p0"},
			{"git", "apply", "-p0", "--whitespace=nowarn", "-"}} {
			put(t, filepath.Join(dir, "x.py"), before)
			cmd := exec.Command(tool[0], tool[1:]...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("round %d: %v: %v %s\n%s", round, tool, err, out, diff)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "x.py")); err != nil || string(got) != after {
				t.Fatalf("round %d: %v made %q of %q, want %q\n%s", round, tool, got, before, after, diff)
			}
		}
	}
}
