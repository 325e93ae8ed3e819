package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/logbook"
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

// TestStoppingRuleHasLinks: of the two iterations that end the tuning, one lies in a folder and one in the logbook; both are pointed at.
func TestStoppingRuleHasLinks(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../gate/testdata/cuda.json")
	if err != nil {
		t.Fatal(err)
	}
	iteration := func(id string, day int) []byte {
		var run evidence.Run
		if err := json.Unmarshal(data, &run); err != nil {
			t.Fatal(err)
		}
		run.ID, run.Started, run.Target.Device = id, time.Date(2026, 3, day, 9, 0, 0, 0, time.UTC), "mps"
		doc, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	folder := filepath.Join(".assay", "runs", "second")
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, folder, "evidence.json"), string(iteration("second", 12)))
	book, err := logbook.Open(t.Context(), filepath.Join(dir, ".assay", "logbook.db"))
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := book.Add(t.Context(), iteration("first", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "gates.toml"), "[[gate]]\nname = \"fast\"\nrule = \"step.time <= 1 ns\"\n")
	out, errs, code := command(t, dir, nil, "verdict")
	text := strings.Join(strings.Fields(out), " ")
	if code != 3 || !strings.Contains(text, "change the contract") || !strings.Contains(text, "record "+id[:12]) || !strings.Contains(text, folder) {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
}
