package python

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// Frameworks that are only as true as the gates' program needs; lists stand for matrices.
const (
	fakeTorch = `
import os
__version__ = "2.15.0"
float32 = "float32"
class Device:
    def __init__(self, t): self.type = t
    def __str__(self): return self.type + ":0"
class Tensor:
    def __init__(self, rows, device="cpu"):
        if device == os.environ.get("FAKE_NO_MEMORY"): raise RuntimeError("MPS backend out of memory\nmore")
        self.rows, self.device = rows, Device(device)
    def t(self): return Tensor([list(c) for c in zip(*self.rows)], self.device.type)
    def contiguous(self): return self
    def to(self, d): return Tensor(self.rows, d)
    def cpu(self): return Tensor(self.rows)
    def flatten(self): return self
    def tolist(self): return [x for r in self.rows for x in r]
    def __matmul__(self, o):
        if self.device.type == "mps" and os.environ.get("FAKE_CRASH"): os.abort()
        if self.device.type == "mps" and os.environ.get("FAKE_HANG"): import signal; signal.pause()
        cols = list(zip(*o.rows))
        wrong = float(os.environ.get("FAKE_WRONG") or 0) if self.device.type == "mps" else 0.0
        where = os.environ.get("FAKE_DEVICE") or self.device.type
        return Tensor([[sum(a * b for a, b in zip(r, c)) + wrong for c in cols] for r in self.rows], where)
def tensor(rows, dtype=None): return Tensor(rows)
class _mps:
    is_built = staticmethod(lambda: not os.environ.get("FAKE_UNBUILT"))
    is_available = staticmethod(lambda: not os.environ.get("FAKE_UNAVAILABLE") and not os.environ.get("FAKE_UNBUILT"))
class backends: mps = _mps
class cuda: is_available = staticmethod(lambda: False)
print("a library that talks while it is imported")
if os.environ.get("FAKE_BROKEN"): raise ImportError("libtorch.dylib: no such file")
`
	fakeMLX = `
import os
__version__ = "0.32.4"
gpu, cpu, float32 = "gpu", "cpu", "float32"
class Device:
    def __init__(self, k): self.k = k
    def __eq__(self, o): return self.k == o.k
    def __repr__(self): return "Device(%s, 0)" % self.k
class array(list):
    def __init__(self, rows, dtype=None): list.__init__(self, rows)
    def tolist(self): return list(self)
def default_device(): return Device(os.environ.get("FAKE_MLX") or "gpu")
def transpose(a): return array([list(c) for c in zip(*a)])
def matmul(a, b):
    wrong = float(os.environ.get("FAKE_MLX_WRONG") or 0)
    return array([[sum(x * y for x, y in zip(r, c)) + wrong for c in zip(*b)] for r in a])
def flatten(a): return array([x for r in a for x in r])
def eval(*a): pass
`
)

func TestGates(t *testing.T) {
	in := realPython(t)
	root := t.TempDir()
	tree(t, root, map[string]string{"torch/__init__.py": fakeTorch, "mlx/__init__.py": "", "mlx/core.py": fakeMLX,
		"empty/x": ""})
	// As if on a Mac: the programs are Python's own, and know nothing of the device.
	no := false
	in.Platform, in.Machine, in.System, in.Translated, in.Site = "darwin", "arm64", "15.5", &no, nil
	for _, c := range []struct {
		environ, gate string
		state         State
		detail        string
	}{
		{"", "native", Pass, "runs as arm64"},
		{"", "mps", Pass, "torch 2.15.0: 64×64 matrix product on mps:0"},
		{"", "cuda", Fail, "no CUDA on a Mac"},
		{"", "mlx", Pass, "mlx 0.32.4"},
		{"", "tensorflow", Unknown, "is not installed"},
		{"FAKE_NO_MEMORY=mps", "mps", Fail,
			"says the device is available, and the matrix product failed: RuntimeError: MPS backend out of memory"},
		{"FAKE_WRONG=1.5", "mps", Fail, "differs from the CPU's by 1.5"},
		{"FAKE_WRONG=nan", "mps", Fail, "not finite"},
		{"FAKE_DEVICE=cpu", "mps", Fail, "the result is on cpu"},
		{"FAKE_UNAVAILABLE=1", "mps", Fail, "is_available() is False"},
		{"FAKE_UNBUILT=1", "mps", Fail, "built without MPS"},
		{"FAKE_BROKEN=1", "mps", Fail, "ImportError: libtorch.dylib"},
		{"FAKE_CRASH=1", "mps", Fail, "while trying mps"},
		{"PYTHONHASHSEED=x", "mps", Unknown, "PYTHONHASHSEED"},
		{"FAKE_MLX=cpu", "mlx", Fail, "the default device is Device(cpu, 0)"},
		{"FAKE_MLX_WRONG=2.5", "mlx", Fail, "differs from Python's arithmetic by 2.5"},
		{"PYTHONPATH=" + filepath.Join(root, "empty"), "mps", Unknown, "torch is not installed"},
	} {
		environ := append(os.Environ(), "PYTHONPATH="+root, c.environ)
		var got Gate
		for _, g := range Gates(t.Context(), in, environ) {
			if g.Name == c.gate {
				got = g
			}
		}
		if got.State != c.state || !strings.Contains(got.Detail, c.detail) || got.Basis == "" {
			t.Errorf("%s %s: %+v", c.environ, c.gate, got)
		}
	}
	// A child that never answers is unknown, and says where it stood. On a busy machine it may not have come there: it
	// gets more time.
	for limit := time.Second; limit < 5*time.Minute; limit *= 2 {
		g := mpsGate(in, runGate(t.Context(), in, append(os.Environ(), "PYTHONPATH="+root, "FAKE_HANG=1"), "torch",
			limit))
		if g.State != Unknown || !strings.Contains(g.Detail, fmt.Sprintf("no answer within %s", limit)) {
			t.Errorf("%+v", g)
		}
		if strings.Contains(g.Detail, "(trying mps)") {
			break
		}
		if limit > time.Minute {
			t.Errorf("it does not say where it stood: %+v", g)
		}
	}
	in.NotAsked = "exec format error"
	for _, g := range Gates(t.Context(), in, nil) {
		if g.Name != "native" && g.State != Unknown {
			t.Errorf("%+v", g)
		}
	}
}

func TestGatesOnLinux(t *testing.T) {
	in := Interpreter{Platform: "linux", Version: "3.11.7"}
	if g := mpsGate(in, gateAnswer{Version: "2.15.0+cu132"}); g.State != Fail || g.Basis != evidence.Derived ||
		g.Detail != "no Metal on linux; torch 2.15.0+cu132 is built without MPS" {
		t.Errorf("%+v", g)
	}
	if _, ok := nativeGate(in); ok {
		t.Error("Rosetta does not arise on Linux")
	}
	if g := tensorflowGate(gateAnswer{Stage: "done", Version: "2.20.0"}); g.State != Fail {
		t.Errorf("%+v", g)
	}
}

func TestJudgePair(t *testing.T) {
	for _, c := range []struct {
		macos, python, tf, metal string
		want                     State
	}{
		{"15.1", "3.11.4", "2.15.0", "1.1.0", Pass},
		{"15.1", "3.11.4", "2.18.0", "1.1.0", Fail},
		{"15.1", "3.12.4", "2.18.1", "1.2.0", Pass},
		{"15.1", "3.13.0", "2.18.1", "1.2.0", Fail},
		{"15.1", "3.12.4", "2.19.0", "1.2.0", Unknown},
		{"15.1", "3.12.4", "2.20.0", "1.2.0", Fail},
		{"15.1", "3.12.4", "2.21.0", "1.2.0", Unknown},
		{"12.0", "3.9.1", "2.9.0", "0.5.1", Fail},
		{"12.0", "3.8.1", "2.5.0", "0.1.2", Pass},
		{"15.1", "3.11.4", "2.14.0", "0.5.0", Unknown},
	} {
		if g := judgePair(c.macos, c.python, c.tf, c.metal); g.State != c.want || g.Detail == "" {
			t.Errorf("%+v: %+v", c, g)
		}
	}
	packages := []Package{{Name: "tensorflow_metal", Version: "1.2.0"}, {Name: "tensorflow", Version: "2.18.1"}}
	if g, ok := pairGate(Interpreter{Version: "3.12.1", System: "15.1"}, packages); !ok || g.State != Pass {
		t.Errorf("%+v", g)
	}
	if g, ok := pairGate(Interpreter{}, packages[:1]); !ok || g.State != Unknown {
		t.Errorf("%+v", g)
	}
	if _, ok := pairGate(Interpreter{}, packages[1:]); ok {
		t.Error("no plug-in, and a gate for it")
	}
}
