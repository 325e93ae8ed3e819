// Package python_test runs the tests of the Python package of the wheel.
package python_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/internal/testkit"
	"assay/internal/testset"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// run is what a command in dir says, with these variables, and its status.
func run(t *testing.T, dir string, environ []string, command ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), append(environ, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1")...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestPackage runs them, which are written for pytest.
func TestPackage(t *testing.T) {
	for _, dir := range []string{"assay_mps", "tests"} { // go test keeps a result until a file changes that was opened
		if _, err := os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	out, status := run(t, ".", nil, testkit.Python(t), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests")
	if status != 0 || !strings.Contains(out, " passed") {
		t.Fatalf("status %d\n%s", status, out)
	}
	t.Log(testkit.Tail(out))
}

const someTests = `
import os
import signal

import pytest
import torch

def test_runs(mps_device):
    assert torch.ones(3, device=mps_device).sum() == 3

def test_float64(mps_device):
    torch.ones(3, device=mps_device, dtype=torch.float64)

@pytest.mark.parametrize("n", [10, 1])
def test_eigh(mps_device, n):
    torch.linalg.eigh(torch.eye(n, device=mps_device))

def test_ends(mps_device):
    if mps_device.type == "mps":
        os.kill(os.getpid(), signal.SIGABRT)

def test_broken():
    assert False

@pytest.mark.mps(min_torch="2.8")
def test_new(mps_device):
    torch.zeros(1, device=mps_device)

@pytest.mark.mps_xfail(op="aten::linalg_lstsq", until="2.14", reason="no kernel")
def test_lstsq(mps_device):
    torch.linalg.lstsq(torch.eye(3, device=mps_device), torch.eye(3, device=mps_device))
`

// TestSuite: a suite with pytest's own command line on two releases, its manifest written, kept to and left.
func TestSuite(t *testing.T) {
	testset.FullOnly(t)
	dir, here := t.TempDir(), testkit.Python(t)
	source, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pytest.ini", "[pytest]\naddopts = -q -p assay_mps.pytest_plugin -p no:cacheprovider --strict-markers "+
		"--mps=2.6,2.15 --mps-manifest=known.txt\n")
	write("test_a.py", someTests)
	environ := []string{"PYTHONPATH=" + source,
		"PATH=" + filepath.Dir(testkit.Assay(t)) + string(os.PathListSeparator) + os.Getenv("PATH")}
	pytest := func(want int, says string, words ...string) string {
		t.Helper()
		// the script, which the test environment has beside its interpreter
		command := append([]string{here, filepath.Join(filepath.Dir(here), "pytest")}, words...)
		out, status := run(t, dir, environ, command...)
		if status != want || !regexp.MustCompile(says).MatchString(out) {
			t.Fatalf("pytest %v: status %d, want %d and %s\n%s", words, status, want, says, out)
		}
		return out
	}
	pytest(125, "read the manifest: open .*known.txt")
	pytest(0, `known.txt: 4 added, 0 taken away`, "--mps-update")
	data, err := os.ReadFile(filepath.Join(dir, "known.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			entries = append(entries, strings.TrimSpace(line))
		}
	}
	want := []string{
		"NotImplementedError\ttest_a.py::test_eigh[10]\top=aten::_linalg_eigh.eigenvalues\ttorch=2.6",
		"NotImplementedError\ttest_a.py::test_eigh[1]\top=aten::_linalg_eigh.eigenvalues\ttorch=2.6",
		"ended\ttest_a.py::test_ends\ttorch=2.6,2.15",
		"TypeError\ttest_a.py::test_float64\top=aten::ones\ttorch=2.6,2.15",
	}
	if got := strings.Join(entries, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s", data)
	}
	pytest(0, `known.txt: 2 expected failures, and nothing else fails on MPS; 1 other failures are on the CPU too`,
		"--mps=2.15")
	write("known.txt", strings.Replace(string(data), want[3]+"\n", "", 1))
	pytest(1, `New failures, which the manifest does not have:\s+test_a.py::test_float64`, "--mps=2.15", "-k", "float64")
	write("known.txt", string(data)+"RuntimeError\ttest_a.py::test_runs\nRuntimeError\ttest_b.py::test_none\n")
	out := pytest(1, `Pass, and the manifest expects a failure:\s+test_a.py::test_runs`, "--mps=2.15", ".")
	if !strings.Contains(out, "no longer in the suite:\n  test_b.py::test_none") {
		t.Error(out)
	}
	write("known.txt", string(data)+"what is this\n")
	pytest(125, `known.txt: line 7: no tab in it`, "--mps=2.15")
}
