package attempt

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/testkit"
	"assay/internal/testset"
)

const models = `
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

class Leaves(nn.Module):
    def forward(self, x):
        import os
        os._exit(0)

def pair():
    return nn.Linear(3, 2), (torch.ones(2, 3),)

__all__ = ["Pool", "Pool", "Crash", "pair"]
`

// real are options with the tests' Python in a folder with the models; torch is the release on the double, "" for the
// CPU.
func real(t *testing.T, torch, name string, inputs, args []string) (Options, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "models.py"), []byte(models), 0o644); err != nil {
		t.Fatal(err)
	}
	var narration bytes.Buffer
	o := Options{Name: name, On: target.CPU(), Inputs: inputs, Args: args, Limit: 10 * time.Minute,
		Interpreter: testkit.Python(t), Cache: t.TempDir(),
		Environ: os.Environ(), Dir: dir, Narration: &narration}
	if torch == "" {
		return o, &narration
	}
	a := &atlas.Atlas{}
	release, err := a.Release("torch", torch)
	if err != nil {
		t.Fatal(err)
	}
	chip, err := target.ParseChip(target.DefaultChip)
	if err != nil {
		t.Fatal(err)
	}
	o.On = target.Target{Device: evidence.OnDouble}
	o.Double = &target.Double{Settings: target.NewSettings(release, chip, target.DefaultMacOS),
		Table: target.NewTable(a, release, "")}
	return o, &narration
}

// TestModels: outcomes by cause. What MPS of 2.8 has no kernel for is the atlas's, and the atlas is derived from
// wheels.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		name, outcome, operator, phase, where, cpu string
		torch, model                               string
		inputs, args                               []string
		shapes                                     bool
	}{
		{"missing", outcomeMissing, "aten::max_pool3d_with_indices", "forward", "models.py:10", "ok", "2.8",
			"models.py:Pool", []string{"1,1,4,4,4"}, []string{"size=2"}, false},
		{"newer", outcomeOK, "", "done", "", "", "2.15", "models.py:Pool", []string{"1,1,4,4,4"}, nil, false},
		{"float64", outcomeDtype, "aten::_to_copy", "move", "scale, which is torch.float64", "ok", "2.8",
			"models.py:Double", []string{"2,3"}, nil, false},
		{"cpu-too", outcomeCPU, "", "forward", "models.py:24", "shapes cannot be multiplied", "2.8",
			"models.py:Wrong", []string{"2,3"}, nil, false},
		{"dictionary", outcomeOK, "", "done", "", "", "2.8", "models.py:Tokens",
			[]string{"batch.ids:2x3", "batch.mask:2x3"}, nil, false},
		{"with-inputs", outcomeOK, "", "done", "", "", "2.8", "models.py:pair", nil, nil, false},
		{"on-cpu", outcomeOK, "", "done", "", "", "", "models.py:pair", nil, nil, false},
		{"left", outcomeCrash, "", "", "", "", "", "models.py:Leaves", []string{"2,3"}, nil, false},
		{"shapes", outcomeOK, "", "done", "", "", "2.8", "models.py:Wrong", []string{"2,4"}, nil, true},
		{"module", outcomeOK, "", "done", "", "", "2.8", "torch.nn:Linear", []string{"input:2,3"},
			[]string{"in_features=3", "out_features=2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "missing" && c.name != "left" {
				testset.FullOnly(t)
			}
			t.Parallel()
			o, narration := real(t, c.torch, c.model, c.inputs, c.args)
			if o.Double != nil {
				o.Double.Settings.ShapeOnly = c.shapes
			}
			r, err := Run(t.Context(), o)
			if err != nil || len(r.Models) != 1 {
				t.Fatalf("%v\n%s", err, narration)
			}
			m := r.Models[0]
			if m.Outcome != c.outcome || m.Operator != c.operator && c.operator != "" || m.Phase != c.phase ||
				!strings.HasSuffix(m.Where, c.where) ||
				!strings.Contains(m.CPU, c.cpu) || r.Counts[c.outcome] != 1 {
				t.Errorf("%+v, counts %v", m, r.Counts)
			}
			if want := map[bool]evidence.Basis{true: evidence.Rehearsed,
				false: evidence.Measured}[c.torch != ""]; r.Basis != want {
				t.Errorf("basis %s", r.Basis)
			}
			if c.outcome == outcomeMissing {
				if m.NativeFrom != "2.9" || m.Fallback == nil || m.Fallback.Outcome != outcomeOK ||
					!strings.Contains(m.Remedy, "PYTORCH_ENABLE_MPS_FALLBACK") {
					t.Errorf("native from %q, fallback %+v, remedy %q", m.NativeFrom, m.Fallback, m.Remedy)
				}
				if s := m.Fallback.Shares; s.Calls == 0 || s.OfCalls == nil || *s.OfCalls <= 0 || *s.OfCalls >= 1 ||
					s.OfTime == nil {
					t.Errorf("shares %+v", s)
				}
			}
			if m.Data == c.shapes {
				t.Errorf("data %v", m.Data)
			}
		})
	}
}

// TestEveryModel: a model that crashes ends itself alone; the status counts what runs on the CPU.
func TestEveryModel(t *testing.T) {
	t.Parallel()
	o, narration := real(t, "2.8", "models.py", []string{"1,1,4,4,4"}, nil)
	o.All = true
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, narration)
	}
	var out strings.Builder
	if err := r.Text(&out, 100); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Pool   missing operator",
		"aten::max_pool3d_with_indices in forward; native from 2.9", "Crash  CPU too", "signal 6",
		"pair", "3 models of models.py", "1 missing operator"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s%s", want, out.String(), narration)
		}
	}
	if r.Status() != fault.GateFailed {
		t.Errorf("status %d", r.Status())
	}
}

// TestCannotBeTried: what cannot be tried is said in one line, and in what to do about it.
func TestCannotBeTried(t *testing.T) {
	for _, c := range []struct {
		model        string
		inputs, args []string
		status       int
		want         string
		short        bool // in the short set too
	}{
		{"nowhere:Net", nil, nil, fault.Failed, "no module named nowhere", false},
		{"models.py:Pol", nil, nil, fault.Failed, "models.py has no Pol; near it: Pool", true},
		{"other.py:Net", nil, nil, fault.Failed, "no such file: other.py", false},
		{"models.py:Wrong", nil, nil, fault.Usage, "no --input", true},
		{"models.py:Wrong", []string{"2;3"}, nil, fault.Usage, "--input 2;3: write [NAME:]SHAPE[:TYPE]", false},
		{"models.py:Wrong", []string{"2,3:float17"}, nil, fault.Usage, "torch has no type float17", false},
		{"models.py:Pool", []string{"1"}, []string{"size=a.b"}, fault.Usage, "the value is no literal", true},
	} {
		t.Run(c.want, func(t *testing.T) {
			if !c.short {
				testset.FullOnly(t)
			}
			t.Parallel()
			o, narration := real(t, "", c.model, c.inputs, c.args)
			_, err := Run(t.Context(), o)
			if fault.CodeOf(err) != c.status || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n") || fault.HintOf(err) == "" {
				t.Errorf("status %d, %v, hint %q\n%s", fault.CodeOf(err), err, fault.HintOf(err), narration)
			}
		})
	}
}
