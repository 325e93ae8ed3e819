package report

import (
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestWhatOtherFrameworksDoNotTell: what was not looked for is not said to be absent.
func TestWhatOtherFrameworksDoNotTell(t *testing.T) {
	run := evidence.NewRun("")
	for _, c := range []struct{ framework, backend, device, retained, fallbacks string }{
		{"jax", "", "cuda", "not looked for", "not known: PyTorch alone"},
		{"keras", "tensorflow", "metal", "not looked for", "not known: PyTorch alone"},
		{"jax", "", "cpu", "not looked for", "the run was on the CPU"},
		{"keras", "torch", "cpu", "none was seen", "the run was on the CPU"},
	} {
		run.Target.Framework, run.Target.Backend, run.Target.Device = c.framework, c.backend, c.device
		run.Steps.Number = []int{1}
		if got := noFallbacks(run); !strings.Contains(got, c.fallbacks) {
			t.Errorf("%+v: %s", c, got)
		}
		if got := noRetained(run); c.backend != "torch" && !strings.Contains(got, c.retained) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
