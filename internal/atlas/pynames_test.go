package atlas

import "testing"

// TestPythonNames: since when a name is there, as PyTorch's release notes and documentation say.
func TestPythonNames(t *testing.T) {
	a := &Atlas{}
	for _, c := range []struct {
		module, name string
		want         Name
		there, read  bool
	}{
		{"torch.mps", "empty_cache", Name{Since: "2.0"}, true, true},
		{"torch.mps", "compile_shader", Name{Since: "2.7"}, true, true},
		{"torch.mps", "is_metal_capture_enabled", Name{}, false, true},
		{"torch.mps.profiler", "is_metal_capture_enabled", Name{Since: "2.7"}, true, true},
		{"torch.mps", "memory_allocated", Name{}, false, true},
		{"torch.backends.mps", "is_macos_or_newer", Name{Since: "2.3"}, true, true},
		{"torch", "accelerator", Name{Since: "2.6"}, true, true},
		{"torch", "uint16", Name{Since: "2.3"}, true, true},
		{"torch", "compiler", Name{Since: "2.1"}, true, true},
		{"torch", "uint3", Name{}, true, true},
		{"torch.nn.functional", "rms_norm", Name{Since: "2.4"}, true, true},
		{"torch.amp", "GradScaler", Name{Since: "2.3"}, true, true},
		{"torch.nn", "RMSNorm", Name{Since: "2.4"}, true, true},
		{"torch.no.module", "x", Name{}, false, false},
	} {
		n, there, read := a.PythonName(c.module, c.name)
		if n != c.want || there != c.there || read != c.read {
			t.Errorf("%s.%s: %+v %v %v, want %+v", c.module, c.name, n, there, read, c)
		}
	}
}
