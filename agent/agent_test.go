package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/agent"
	"assay/internal/testkit"
)

// TestAgent runs the agent's own tests, which are written for pytest.
func TestAgent(t *testing.T) {
	cmd := exec.Command(testkit.Python(t), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), " passed") {
		t.Errorf("no test ran:\n%s", out)
	}
}

// TestInstall: the agent appears whole, once, and is found again.
func TestInstall(t *testing.T) {
	cache := t.TempDir()
	first, err := agent.Install(cache)
	if err != nil {
		t.Fatal(err)
	}
	again, err := agent.Install(cache)
	if err != nil || again != first {
		t.Errorf("%+v, %v; first %+v", again, err, first)
	}
	for _, path := range []string{filepath.Join(first.Boot, "sitecustomize.py"), first.Notebook, filepath.Join(filepath.Dir(first.Notebook), "__init__.py"), filepath.Join(filepath.Dir(first.Notebook), "watch", "__init__.py")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(cache, "agent", ".new-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := agent.Install(filepath.Join(first.Boot, "sitecustomize.py")); err == nil {
		t.Error("no error where the cache is a file")
	}
}
