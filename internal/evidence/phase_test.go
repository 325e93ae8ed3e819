package evidence

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestFormerSteps: documents that were written while there was PyTorch alone have a column for each of its phases.
func TestFormerSteps(t *testing.T) {
	data, err := os.ReadFile("../fold/testdata/former/evidence.json")
	if err != nil {
		t.Fatal(err)
	}
	var run Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	var columns struct {
		Steps map[string]any `json:"steps"`
	}
	if err := json.Unmarshal(data, &columns); err != nil {
		t.Fatal(err)
	}
	if len(run.Steps.Phases) != 6 || len(run.Steps.Total) != 30 {
		t.Fatalf("%d phases, %d steps", len(run.Steps.Phases), len(run.Steps.Total))
	}
	for _, p := range run.Steps.Phases {
		column, _ := columns.Steps[p.Name].([]any)
		if len(p.Seconds) != 30 || len(column) != 30 || p.Title == "" || p.Doc == "" {
			t.Fatalf("%s: %d of %d", p.Name, len(p.Seconds), len(column))
		}
		for i, v := range p.Seconds {
			if v != column[i] {
				t.Errorf("%s of step %d: %g, written as %v", p.Name, i+1, v, column[i])
			}
		}
	}
}

func TestSteps(t *testing.T) {
	for name, c := range map[string]struct{ text, phases string }{
		"declared":      {`{"number":[1],"phases":[{"name":"load","title":"Load","doc":"d","seconds":[1.5]},{"name":"rest"}],"data":[9]}`, "load rest"},
		"none declared": {`{"number":[],"phases":[]}`, ""},
		"former": {`{"number":[1],"data":[1],"h2d":[2],"forward":[3],"backward":[4],"optimizer":[5],"rest":[6]}`,
			"data h2d forward backward optimizer rest"},
		"nothing": {`{}`, "data h2d forward backward optimizer rest"},
	} {
		var s StepSeries
		if err := json.Unmarshal([]byte(c.text), &s); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range s.Phases {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.phases {
			t.Errorf("%s: %s, want %s", name, got, c.phases)
		}
		written, err := json.Marshal(s)
		if err != nil || strings.Contains(string(written), `"seconds":null`) != (name == "declared") ||
			strings.Contains(string(written), `"h2d":`) {
			t.Errorf("%s: %s %v", name, written, err)
		}
	}
	var s StepSeries
	if err := json.Unmarshal([]byte(`{"data":[1],"h2d":[2],"forward":[3],"backward":[4],"optimizer":[5],"rest":[6]}`),
		&s); err != nil {
		t.Fatal(err)
	}
	for i, p := range s.Phases {
		if len(p.Seconds) != 1 || p.Seconds[0] != float64(i+1) {
			t.Errorf("%+v", p)
		}
	}
	if p, ok := s.Phase("backward"); !ok || p.Seconds[0] != 4 {
		t.Errorf("%+v %v", p, ok)
	}
	if _, ok := s.Phase("load"); ok {
		t.Error("a phase that is not there was found")
	}
	for _, text := range []string{`{"phases":3}`, `{"data":"x"}`, `{"number":"x"}`} {
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s: read", text)
		}
	}
}

// TestFormerFramework: what was PyTorch's own is read as that of a framework.
func TestFormerFramework(t *testing.T) {
	var run Run
	text := `{"schema":"assay.evidence/1","target":{"framework":"torch","release":"2.8.0"},"processes":[{"pid":1,"steps":3,"torch":"2.8.0"},{"pid":2},{"pid":3,"framework":"mlx","release":"1"}],
		"provenance":{"torch":"2.8.0","torch_build":"abc","assay":"0.1","packages":["a==1"]}}`
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		t.Fatal(err)
	}
	if p := run.Processes[0]; p.Framework != "torch" || p.Release != "2.8.0" || p.PID != 1 || p.Steps != 3 {
		t.Errorf("%+v", p)
	}
	if p := run.Processes[1]; p.Framework != "" || p.Release != "" {
		t.Errorf("%+v", p)
	}
	if p := run.Processes[2]; p.Framework != "mlx" || p.Release != "1" {
		t.Errorf("%+v", p)
	}
	if p := run.Provenance; p.Build != "abc" || p.Assay != "0.1" || len(p.Packages) != 1 {
		t.Errorf("%+v", p)
	}
	var again Run
	if written, err := json.Marshal(&run); err != nil || json.Unmarshal(written, &again) != nil ||
		!reflect.DeepEqual(again.Processes, run.Processes) ||
		!reflect.DeepEqual(again.Provenance, run.Provenance) {
		t.Errorf("written and read again it is another: %s, %v", written, err)
	}
	var p Provenance
	if err := json.Unmarshal([]byte(`{"build":"new","torch_build":"old"}`), &p); err != nil || p.Build != "new" {
		t.Errorf("%+v %v", p, err)
	}
	for _, broken := range []string{`{"schema":"assay.evidence/1","processes":[{"torch":3}]}`,
		`{"schema":"assay.evidence/1","provenance":{"torch_build":3}}`,
		`{"schema":"assay.evidence/2","provenance":{"packages":3}}`} {
		if json.Unmarshal([]byte(broken), &run) == nil {
			t.Errorf("%s: read", broken)
		}
	}
}
