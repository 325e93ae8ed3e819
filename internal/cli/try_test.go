package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/testkit"
	"assay/internal/testset"
)

const tryModels = `
import torch
from torch import nn

class Pool(nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.size = size
    def forward(self, x):
        return {"pooled": [nn.functional.max_pool3d(x, self.size)]}

class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3, dtype=torch.float64))
    def forward(self, x):
        return x * self.scale

class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x)

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
    def forward(self, batch):
        return self.table(batch["ids"]) * batch["mask"][..., None]

class Crash(nn.Module):
    def forward(self, x):
        import os
        os.abort()

def pair():
    return nn.Linear(3, 2), (torch.ones(2, 3),)
`

// try calls the command in a folder with tryModels.
func try(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "models.py"), []byte(tryModels), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, narration bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &narration, Environ: os.Environ(), Dir: dir, Now: time.Now}
	status = Main(env, append([]string{"try", "--python", testkit.Python(t)}, args...))
	return status, out.String(), narration.String()
}

// TestTry: outcomes by cause. What MPS of 2.8 has no kernel for is the atlas's, and the atlas is derived from wheels.
func TestTry(t *testing.T) {
	for _, c := range []struct {
		name, outcome, operator, phase, where, cpu string
		status                                     int
		args                                       []string
	}{
		{"missing", outcomeMissing, "aten::max_pool3d_with_indices", "forward", "models.py:10", "ok", 3, []string{"models.py:Pool", "--input", "1,1,4,4,4", "--args", "size=2"}},
		{"newer", outcomeOK, "", "done", "", "", 0, []string{"models.py:Pool", "--input", "1,1,4,4,4", "--torch", "2.15"}},
		{"float64", "dtype", "aten::_to_copy", "move", "scale, which is torch.float64", "ok", 3, []string{"models.py:Double", "--input", "2,3"}},
		{"cpu-too", outcomeCPU, "", "forward", "models.py:24", "shapes cannot be multiplied", 3, []string{"models.py:Wrong", "--input", "2,3"}},
		{"dictionary", outcomeOK, "", "done", "", "", 0, []string{"models.py:Tokens", "--input", "batch.ids:2x3", "--input", "batch.mask:2x3"}},
		{"with-inputs", outcomeOK, "", "done", "", "", 0, []string{"models.py:pair"}},
		{"shapes", outcomeOK, "", "done", "", "", 0, []string{"models.py:Wrong", "--input", "2,4", "--shape-only"}},
		{"module", outcomeOK, "", "done", "", "", 0, []string{"torch.nn:Linear", "--args", "in_features=3", "--args", "out_features=2", "--input", "input:2,3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "missing" && c.name != "with-inputs" {
				testset.FullOnly(t)
			}
			args := append(c.args, "--json")
			if c.name != "newer" {
				args = append(args, "--torch", "2.8")
			}
			status, stdout, stderr := try(t, args...)
			var r tried
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || len(r.Models) != 1 {
				t.Fatalf("%v: %s%s", err, stdout, stderr)
			}
			m := r.Models[0]
			if status != c.status || m.Outcome != c.outcome || m.Operator != c.operator && c.operator != "" || m.Phase != c.phase || !strings.HasSuffix(m.Where, c.where) || !strings.Contains(m.CPU, c.cpu) {
				t.Errorf("status %d, %+v", status, m)
			}
			if r.Basis != evidence.Rehearsed || r.Counts[c.outcome] != 1 {
				t.Errorf("basis %s, counts %v", r.Basis, r.Counts)
			}
			if c.outcome == outcomeMissing {
				if m.NativeFrom != "2.9" || m.Fallback == nil || m.Fallback.Outcome != outcomeOK || !strings.Contains(m.Remedy, "PYTORCH_ENABLE_MPS_FALLBACK") {
					t.Errorf("native from %q, fallback %+v, remedy %q", m.NativeFrom, m.Fallback, m.Remedy)
				}
			}
		})
	}
}

// TestTryAll: a model that crashes ends itself alone, and the status counts what runs on the CPU.
func TestTryAll(t *testing.T) {
	status, stdout, stderr := try(t, "models.py", "--all", "--input", "1,1,4,4,4", "--torch", "2.8")
	for _, want := range []string{"Pool    missing operator", "aten::max_pool3d_with_indices in forward; native from 2.9", "Crash   CPU too", "signal 6", "pair", "1 ok, 1 missing operator"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
		}
	}
	if status != fault.GateFailed {
		t.Errorf("status %d", status)
	}
}

// TestTryErrors: what cannot be tried is said in one line, and in what to do about it.
func TestTryErrors(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
		short  bool // in the short set too
	}{
		{[]string{"nowhere:Net"}, fault.Failed, "no module named nowhere", true},
		{[]string{"models.py:Pol"}, fault.Failed, "models.py has no Pol; near it: Pool", true},
		{[]string{"other.py:Net"}, fault.Failed, "no such file: other.py", false},
		{[]string{"models.py:Wrong"}, fault.Usage, "no --input", false},
		{[]string{"models.py:Wrong", "--input", "2;3"}, fault.Usage, "--input 2;3: write [NAME:]SHAPE[:TYPE]", false},
		{[]string{"models.py:Wrong", "--input", "2,3:float17"}, fault.Usage, "torch has no type float17", false},
		{[]string{"models.py:Pool", "--args", "size=a.b", "--input", "1"}, fault.Usage, "the value is no literal", true},
		{[]string{"models.py:Wrong", "--on", "cpu", "--torch", "2.8"}, fault.Usage, "the try is --on cpu", true},
		{[]string{"models.py"}, fault.Usage, "write MODULE:MODEL", true},
	} {
		t.Run(c.want, func(t *testing.T) {
			if !c.short {
				testset.FullOnly(t)
			}
			status, stdout, stderr := try(t, c.args...)
			if status != c.status || !strings.Contains(stderr, c.want) || stdout != "" || strings.Count(stderr, "\n") > 2 {
				t.Errorf("%v: status %d, %s%s", c.args, status, stdout, stderr)
			}
		})
	}
}
