package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/verdict"
)

func TestVerdictCommand(t *testing.T) {
	dir := t.TempDir()
	recordedRun(t, "../verdict/testdata/missing-operator.json", dir, "missing")
	recordedRun(t, "../verdict/testdata/too-large.json", dir, "large")
	recordedRun(t, "../verdict/testdata/fits.json", dir, "fits")
	for _, c := range []struct {
		args  string
		code  int
		says  string
		error string
	}{
		{"verdict missing", 4, "MPS is out, by the rule missing-operator", ""},
		{"verdict missing", 4, "(rehearsed; aten::linalg_eig; of rehearsal-eigen)", ""},
		{"verdict missing", 4, "to know: assay run --on cpu -- python eigen.py", ""},
		{"verdict large", 0, "verdict: remote", ""},
		{"verdict fits", 4, "to know: assay run --on mps -- python train.py --device mps --epochs 3", ""},
		{"verdict fits --declare service", 0, "service was declared (declared)", ""},
		{"verdict fits --declare service,inference", 0, "verdict: remote", ""},
		{"verdict fits --declare queue", 2, "", "what can be declared is inference"},
		{"verdict --rules", 0, "when refusals(missing) >= 1", ""},
		{"verdict nowhere", 1, "", "nowhere"},
		{"verdict", 4, "", "assay run --on double -- python train.py"},
	} {
		out, errs, code := command(t, dir, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), c.says) || !strings.Contains(errs, c.error) {
			t.Errorf("assay %s: status %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
	// Without a run named it is the newest that is kept.
	recordedRun(t, "../verdict/testdata/too-large.json", filepath.Join(dir, ".assay", "runs"), "one")
	out, errs, code := command(t, dir, nil, "verdict", "--json")
	var rep verdict.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 || rep.Lane != verdict.Remote || len(rep.Runs) != 1 {
		t.Errorf("%v, status %d, %+v\n%s", err, code, rep.Lane, errs)
	}
}
