package agent_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/agent"
	"assay/internal/testkit"
)

// TestAgent runs the agent's own tests, which are written for pytest. conftest.py has what the short set leaves out.
func TestAgent(t *testing.T) {
	// go test keeps a result until a file changes that the test itself opened; pytest opens these, and the Go files are
	// the embedded agent.
	for _, dir := range []string{"tests", "tests/toy", "tests/toy/adapter", "../internal/testkit",
		"../internal/atlas/tables", "../tools/double", "../tools/double/testdata"} {
		if _, err := os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(testkit.Python(t), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), " passed") {
		t.Errorf("no test ran:\n%s", out)
	}
	t.Log(testkit.Tail(string(out))) // what was left out of the short set, and why
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
	for _, folder := range []string{"boot", "assay_agent"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (strings.HasSuffix(path, ".py") || strings.HasSuffix(path, ".txt")) {
				_, err = os.Stat(filepath.Join(filepath.Dir(first.Boot), path))
			}
			return err
		})
		if err != nil {
			t.Errorf("not every file was unpacked: %v", err)
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

// TestInstallSweeps: what a killed unpacking left is removed when it is old, and left alone while it may still be going
// on.
func TestInstallSweeps(t *testing.T) {
	cache := t.TempDir()
	old, young := filepath.Join(cache, "agent", ".new-1"), filepath.Join(cache, "agent", ".new-2")
	for _, folder := range []string{old, young} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Install(cache); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old one is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
}
