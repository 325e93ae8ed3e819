package evidence

import (
	"encoding/json"
	"os"
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
		"former":        {`{"number":[1],"data":[1],"h2d":[2],"forward":[3],"backward":[4],"optimizer":[5],"rest":[6]}`, "data h2d forward backward optimizer rest"},
		"nothing":       {`{}`, "data h2d forward backward optimizer rest"},
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
		if err != nil || strings.Contains(string(written), `"seconds":null`) != (name == "declared") || strings.Contains(string(written), `"h2d":`) {
			t.Errorf("%s: %s %v", name, written, err)
		}
	}
	var s StepSeries
	if err := json.Unmarshal([]byte(`{"data":[1],"h2d":[2],"forward":[3],"backward":[4],"optimizer":[5],"rest":[6]}`), &s); err != nil {
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
