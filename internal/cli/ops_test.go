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
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: []string{"COLUMNS=100"},
		Dir: t.TempDir(), Now: time.Now}
	code = Main(env, append([]string{"ops"}, args...))
	return out.String(), errs.String(), code
}

// TestOpsJSON: the record has what the page has, each state with its releases and each answer with the wheel that it
// was read from.
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
	if op.Name != "aten::grid_sampler_3d" || op.State != "missing" || op.NativeFrom != "2.9" || len(op.History) != 2 ||
		op.History[0].To != "2.8" {
		t.Errorf("%+v", op)
	}
	if len(a.Sources) != 1 || a.Sources[0].Version != "2.8.0" || len(a.Sources[0].SHA256) != 64 {
		t.Errorf("%+v", a.Sources)
	}
}
