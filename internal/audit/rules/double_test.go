package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// statements runs a script's statements one by one, and says which raise.
const statements = `import ast, sys, warnings
warnings.simplefilter("ignore")
with open(sys.argv[1]) as f:
    tree, names = ast.parse(f.read()), {}
for s in tree.body:
    try:
        exec(compile(ast.Module([s], []), sys.argv[1], "exec"), names)
    except Exception as err:
        print("raised", s.lineno, type(err).__name__, str(err).splitlines()[0])
`

// TestShownOnDouble: what the fixture of shown arguments says is refused for sure is refused by the double of that
// release as well, line by line, and nothing else of it is. Within functions, that is the line that calls them.
func TestShownOnDouble(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	fixture, err := filepath.Abs("testdata/shown/calls.py")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	release, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# torch: "), "\n")
	dir := t.TempDir()
	script := filepath.Join(dir, "statements.py")
	if err := os.WriteFile(script, []byte(statements), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(assay, "run", "--on", "double", "--torch", release, "--", python, script, fixture)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var raised, want []int
	for _, m := range regexp.MustCompile(`(?m)^raised (\d+) .*$`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		raised = append(raised, n)
	}
	for i, line := range strings.Split(string(text), "\n") {
		top := line != "" && line[0] != ' '
		if top && strings.Contains(line, "# sure: refused-call") || strings.Contains(line, "# raises") {
			want = append(want, i+1)
		}
	}
	if !slices.Equal(raised, want) {
		t.Errorf("the double refuses %v, check %v:\n%s", raised, want, string(out))
	}
	if len(want) < 10 {
		t.Errorf("only %d lines: the test says little", len(want))
	}
}
