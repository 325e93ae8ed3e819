package python

import (
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestJAXAndKerasGates: what was computed on a GPU passes; on a CPU it does not, and on a Mac it is said what would.
func TestJAXAndKerasGates(t *testing.T) {
	mac := Interpreter{Platform: "darwin", System: "15.5"}
	linux := Interpreter{Platform: "linux"}
	proof := func(name, on string, agrees bool) []gateDevice {
		return []gateDevice{{Name: name, On: on, Agrees: agrees, Finite: true, Worst: 0.5, Largest: 1}}
	}
	packages := func(names ...string) []Package {
		var list []Package
		for i := 0; i < len(names); i += 2 {
			list = append(list, Package{Name: names[i], Version: names[i+1]})
		}
		return list
	}
	jax := func(in Interpreter, platform string, agrees bool, with ...string) Gate {
		return jaxGate(in, packages(with...), gateAnswer{Version: "0.11.1", Default: platform,
			Devices: proof("jax", platform+":0", agrees)})
	}
	keras := func(in Interpreter, backend, on string, with ...string) Gate {
		return kerasGate(in, packages(with...), gateAnswer{Version: "3.15.1", Default: backend,
			Devices: proof("keras", on, true)})
	}
	for name, c := range map[string]struct {
		got    Gate
		state  State
		detail string
		hint   string
		basis  evidence.Basis
	}{
		"jax-mps": {jax(mac, "mps", true, "jax-mps", "0.11.1", "jaxlib", "0.11.0"), Pass,
			"jax 0.11.1 with jax-mps 0.11.1: 64×64 matrix product on mps:0, equal to Python's arithmetic", "",
			evidence.Measured},
		"jax-mps wrong": {jax(mac, "mps", false, "jax-mps", "0.11.1", "jaxlib", "0.11.0"), Fail, "differs from", "",
			evidence.Measured},
		"jax-mps of another jaxlib": {jax(mac, "mps", true, "jax-mps", "0.10.1", "jaxlib", "0.11.0"), Pass, "mps:0",
			"jax-mps 0.10.1 is made for jaxlib 0.10, and 0.11.0 is installed", evidence.Measured},
		"jax-metal": {jax(mac, "METAL", true, "jax-metal", "0.1.1"), Pass, "jax-metal 0.1.1", "jax-metal is dead",
			evidence.Measured},
		"jax-metal, CPU": {jax(mac, "cpu", true, "jax-metal", "0.1.1"), Fail, "the default device is the CPU",
			"take jax-mps", evidence.Measured},
		"jax on a Mac's CPU": {jax(mac, "cpu", true), Fail, "the default device is the CPU",
			"jax-mps computes on the GPU", evidence.Measured},
		"jax-mps passed over": {jax(mac, "cpu", true, "jax-mps", "0.11.1", "jaxlib", "0.11.0"), Fail,
			"the default device is the CPU", "JAX_PLATFORMS=mps says why", evidence.Measured},
		"jax on Linux": {jax(linux, "cpu", true), Fail, "JAX has no GPU here; jax 0.11.1: 64×64 matrix product on cpu:0",
			"", evidence.Derived},
		"jax, CUDA":     {jax(linux, "gpu", true), Pass, "64×64", "", evidence.Measured},
		"jax not tried": {jaxGate(mac, nil, gateAnswer{}), Unknown, "was not tried", "", evidence.Measured},
		"jax absent": {jaxGate(mac, nil, gateAnswer{Stage: "absent"}), Unknown, "jax is not installed", "",
			evidence.Measured},
		"keras absent": {kerasGate(mac, nil, gateAnswer{Stage: "absent"}), Unknown, "keras is not installed", "",
			evidence.Measured},
		"keras not tried": {kerasGate(mac, nil, gateAnswer{}), Unknown, "was not tried", "", evidence.Measured},
		"jax fails": {jaxGate(mac, packages("jax-mps", "0.10.1", "jaxlib", "0.11.0"), gateAnswer{Stage: "failed",
			Error: "E"}), Fail, "E", "made for jaxlib 0.10", evidence.Measured},
		"keras on MPS": {keras(mac, "torch", "mps:0"), Pass, "keras 3.15.1 on torch: 64×64 matrix product on mps:0", "",
			evidence.Measured},
		"keras-mlx": {keras(mac, "mlx", "Device(gpu, 0)", "keras-mlx", "0.0.1"), Pass, "on mlx by keras-mlx 0.0.1", "",
			evidence.Measured},
		"keras on a Mac's CPU": {keras(mac, "tensorflow", "/device:CPU:0"), Fail, "not the GPU", "KERAS_BACKEND=torch",
			evidence.Measured},
		"keras on Linux": {keras(linux, "jax", "cpu:0"), Fail, "no GPU for Keras here; keras 3.15.1 on jax", "",
			evidence.Derived},
		"keras without its backend": {kerasGate(mac, nil, gateAnswer{Stage: "failed", Error: "ModuleNotFoundError",
			FailedAt: "importing"}), Fail, "ModuleNotFoundError (importing)", "KERAS_BACKEND", evidence.Measured},
	} {
		g := c.got
		if g.State != c.state || !strings.Contains(g.Detail, c.detail) || g.Basis != c.basis ||
			(c.hint == "") != (g.Hint == "") || !strings.Contains(g.Hint, c.hint) {
			t.Errorf("%s: %+v", name, g)
		}
	}
}
