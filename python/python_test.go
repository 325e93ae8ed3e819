// Package python_test runs the tests of the Python package of the wheel.
package python_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"assay/internal/testkit"
)

// TestPackage runs them, which are written for pytest.
func TestPackage(t *testing.T) {
	for _, dir := range []string{"assay_mps", "tests"} { // go test keeps a result until a file changes that was opened
		if _, err := os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testkit.Python(t), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), " passed") {
		t.Errorf("no test ran:\n%s", out)
	}
	t.Log(testkit.Tail(string(out)))
}
