package evidence

import "testing"

// TestDeviceOfAnotherFramework: a lane of PyTorch's or MLX's is taken only by what is computed by them.
func TestDeviceOfAnotherFramework(t *testing.T) {
	for _, c := range []struct{ framework, backend, device, want, with string }{
		{"torch", "", "mps", "mps", "torch 1.0"},
		{"jax", "", "mps", "jax-mps", "jax 1.0"},
		{"jax", "", "metal", "jax-metal", "jax 1.0"},
		{"jax", "", "cpu", "cpu", "jax 1.0"},
		{"jax", "", "cuda", "cuda", "jax 1.0"},
		{"keras", "jax", "mps", "jax-mps", "keras 1.0 on jax 2.0"},
		{"keras", "tensorflow", "metal", "tensorflow-metal", "keras 1.0 on tensorflow 2.0"},
		{"keras", "torch", "mps", "mps", "keras 1.0 on torch 2.0"},
		{"keras", "mlx", "gpu", "mlx", "keras 1.0 on mlx 2.0"},
		{"", "", "", "", ""},
	} {
		run := NewRun("")
		run.Target = Target{Framework: c.framework, Backend: c.backend, Device: c.device, System: "darwin/arm64"}
		if c.framework != "" {
			run.Target.Release = "1.0"
		}
		if c.backend != "" {
			run.Target.BackendRelease = "2.0"
		}
		if got := Device(run); got != c.want || run.Target.With() != c.with {
			t.Errorf("%s on %s, %s: %q with %q", c.framework, c.backend, c.device, got, run.Target.With())
		}
	}
}

func TestAnotherBackendIsUnlike(t *testing.T) {
	keras := func(backend, release string) *Run {
		return someRun(func(r *Run) {
			r.Target.Framework, r.Target.Backend, r.Target.BackendRelease = "keras", backend, release
			r.Target.Device = "cpu"
		})
	}
	if got := Unlike(keras("jax", "0.10.2"), keras("tensorflow", "2.21.0")); got !=
		"backend tensorflow 2.21.0 there, jax 0.10.2 here" {
		t.Error(got)
	}
	if got := Unlike(keras("jax", "0.10.2"), keras("jax", "0.10.2")); got != "" {
		t.Error(got)
	}
}
