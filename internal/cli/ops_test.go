package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
)

// opsRun runs assay ops as Main would.
func opsRun(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: []string{"COLUMNS=100"}, Dir: t.TempDir(), Now: time.Now}
	code = Main(env, append([]string{"ops"}, args...))
	return out.String(), errs.String(), code
}

func TestOps(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"grid_sampler_3d --torch 2.8", []string{"missing 2.0 to 2.8, native since 2.9", "Native from torch 2.9 on", "torch.nn.functional.grid_sample", "derived from the macOS wheels of torch 2.8.0"}},
		{"linalg_matrix_exp", []string{"native since 2.14"}},
		{"_adaptive_avg_pool3d", []string{"missing in all, 2.0 to 2.15", "No release up to torch 2.15"}},
		{"kthvalue --torch 2.8", []string{"needs aten::kthvalue.values: missing, native since 2.9"}},
		{"--api torch.linalg.eig", []string{"forward: missing", "needs aten::linalg_eig: missing"}},
		{"torch.nn.AdaptiveAvgPool3d", []string{"aten::_adaptive_avg_pool3d", "backward: missing"}},
		{"nms --torch 2.0", []string{"torchvision::nms", "wheels of torchvision 0.15.2"}},
		{"--diff 2.7 2.8 col2im", []string{"torch 2.7.1 to 2.8.0", "aten::col2im", "native, was on the CPU"}},
		{"linalg_* --missing --torch 2.8", []string{"aten::linalg_eig ", "aten::linalg_lu_solve "}},
		{"_adaptive_avg_pool2d --torch 2.8", []string{"Adaptive pool MPS: input sizes must be divisible by output sizes", "96056"}},
		{"sgn.out --torch 2.0", []string{"on the CPU, registered to run there"}},
	} {
		out, errs, code := opsRun(t, strings.Fields(c.args)...)
		if code != fault.OK {
			t.Errorf("ops %s: exit %d, %s", c.args, code, errs)
			continue
		}
		flat := strings.Join(strings.Fields(out), " ")
		for _, want := range c.want {
			if !strings.Contains(flat, want) && !strings.Contains(out, want) {
				t.Errorf("ops %s: no %q in\n%s", c.args, want, out)
			}
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > 160 {
				t.Errorf("ops %s: a line of %d columns", c.args, len([]rune(line)))
			}
		}
	}
}

func TestOpsRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
		code int
	}{
		{"", []string{"no pattern"}, fault.Usage},
		{"sgn --torch 2.99", []string{"torch 2.99 is not in the atlas", "nearest it has is 2.15", "2.0.1"}, fault.Usage},
		{"sgn --torch banana", []string{"torch banana is not in the atlas"}, fault.Usage},
		{"grid_sampler3d", []string{`no operator is called "grid_sampler3d"`, "near:", "grid_sampler_3d"}, fault.Failed},
		{"--api torch.linalg.eigg", []string{`"torch.linalg.eigg" was not traced`, "torch.linalg.eig"}, fault.Failed},
		{"--diff 2.7", []string{"name two releases"}, fault.Usage},
		{"--diff 2.7 2.99", []string{"2.99 is not in the atlas"}, fault.Usage},
		{"a b", []string{"2 patterns"}, fault.Usage},
		{"qqqqqqqqqqqq", []string{"no operator is called"}, fault.Failed},
	} {
		out, errs, code := opsRun(t, strings.Fields(c.args)...)
		if code != c.code || out != "" {
			t.Errorf("ops %s: exit %d, want %d; printed %q", c.args, code, c.code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("ops %s: no %q in\n%s", c.args, want, errs)
			}
		}
	}
}

// TestOpsJSON: the record has what the page has, each state with its releases and each answer with the wheel that it was read from.
func TestOpsJSON(t *testing.T) {
	out, errs, code := opsRun(t, "grid_sampler_3d", "--torch", "2.8", "--json")
	if code != fault.OK {
		t.Fatal(errs)
	}
	var a opsAnswer
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Schema != opsSchema || a.Torch != "2.8.0" || a.Basis != "derived" || len(a.Operators) == 0 {
		t.Fatalf("%+v", a)
	}
	op := a.Operators[0]
	if op.Name != "aten::grid_sampler_3d" || op.State != "missing" || op.NativeFrom != "2.9" || len(op.History) != 2 || op.History[0].To != "2.8" {
		t.Errorf("%+v", op)
	}
	if len(a.Sources) != 1 || a.Sources[0].Version != "2.8.0" || len(a.Sources[0].SHA256) != 64 {
		t.Errorf("%+v", a.Sources)
	}
}
