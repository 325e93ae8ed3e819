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
)

// TestStoppingRuleHasLinks: of the two iterations that end the tuning, one lies in a folder and one in the logbook;
// both are pointed at.
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
	if code != 3 || !strings.Contains(text, "change the contract") || !strings.Contains(text, "record "+id[:12]) ||
		!strings.Contains(text, folder) {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
}
