package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// TestEnvironment: the environment of the tests is there, or is made now. CI runs it alone first, with time enough for
// a slow network.
func TestEnvironment(t *testing.T) {
	out, err := exec.Command(testkit.Python(t), "-c",
		"import sys; print(sys.prefix != sys.base_prefix)").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "True" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestForked: what a fork does is what a start of its own does: output, status, signal.
func TestForked(t *testing.T) {
	testset.FullOnly(t) // it starts as many as it spares
	dir := t.TempDir()
	for _, c := range []struct{ name, source string }{
		{"looks", lookingScript},
		{"leaves", "import os\nprint('seen', flush=True)\nprint('not seen')\nos._exit(9)"},
		{"killed", "import os, signal\nprint('seen', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"},
	} {
		script := c.name + ".py"
		if err := os.WriteFile(filepath.Join(dir, script), []byte(c.source), 0o644); err != nil {
			t.Fatal(err)
		}
		forked, alone := testkit.Forked(t, dir, []string{"ONE=1"}, script),
			testkit.Execute(t, dir, []string{"ONE=1"}, testkit.Python(t), script)
		if forked != alone {
			t.Errorf("%s: forked %+v, alone %+v", c.name, forked, alone)
		}
	}
}

const lookingScript = `
import atexit, os, pickle, sys, torch
class Mine: pass
print(torch.ones(2).sum().item(), __name__, __file__, sys.argv, sys.path[0], os.environ["ONE"], os.getcwd())
print(type(pickle.loads(pickle.dumps(Mine()))) is Mine)
atexit.register(print, "last")
sys.stderr.write("said")
sys.exit(7)
`
