package cli

import (
	"strings"
	"testing"

	"assay/internal/fault"
)

// TestDoctorNoInterpreter: where PATH has no Python, that is what is found, and how to name one.
func TestDoctorNoInterpreter(t *testing.T) {
	out, errs, code := command(t, t.TempDir(), []string{"PATH=" + t.TempDir()}, "doctor")
	if code != fault.GateFailed || !strings.Contains(out, "FAIL  find python") ||
		!strings.Contains(out, "--python PATH") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
}
