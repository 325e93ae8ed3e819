package guest

import (
	"path/filepath"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestGuest: what a script can see of its own process, by its stack, its warnings, its modes, its profiler, the methods
// of its own that are asked, is what it sees without assay; and no deadline that a signal sets is lost in a hook.
func TestGuest(t *testing.T) {
	for _, c := range []struct {
		script  string
		environ []string
		short   bool // in the short set too
	}{
		{"stands.py", nil, true},
		{"sees.py", nil, false},
		{"asked.py", nil, false},
		{"strict.py", []string{"PYTHONWARNINGS=error", "PYTHONDEVMODE=1"}, false},
		{"deadlines.py", nil, true},
	} {
		t.Run(c.script, func(t *testing.T) {
			if !c.short {
				testset.FullOnly(t)
			}
			t.Parallel()
			run := testkit.SameBehaviour(t, filepath.Join("faults", c.script), c.environ...)
			if len(run.Steps.Number) == 0 {
				t.Error("no step was seen: the test would prove nothing")
			}
		})
	}
}
