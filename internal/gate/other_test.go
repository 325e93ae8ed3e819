package gate

import (
	"testing"

	"assay/internal/evidence"
)

// TestRunOnAnotherFramework: what a rule about MPS asks for a script of JAX's cannot give, and no command is named that
// would not answer it.
func TestRunOnAnotherFramework(t *testing.T) {
	run := evidence.NewRun("")
	run.Subject = evidence.Subject{Kind: "script", Command: []string{"train.py"}, Script: "train.py"}
	for _, c := range []struct{ framework, backend, device, want string }{
		{"torch", "", "mps", "assay run --on mps -- train.py"},
		{"jax", "", "mps", "the same training in PyTorch, under assay run --on mps"},
		{"jax", "", "double", "the same training in PyTorch, under assay run --on double"},
		{"jax", "", "cpu", "assay run --on cpu -- train.py"},
		{"jax", "", "jax-mps", "assay run -- train.py"},
		{"keras", "tensorflow", "double", "the same training in PyTorch, under assay run --on double"},
		{"keras", "torch", "mps", "assay run --on mps -- train.py"},
	} {
		run.Target.Framework, run.Target.Backend = c.framework, c.backend
		if got := RunOn(run, c.device); got != c.want {
			t.Errorf("%s on %s, %s: %q", c.framework, c.backend, c.device, got)
		}
	}
}
