package evidence

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func formerDocument(t *testing.T) (data []byte, flat map[string]json.RawMessage) {
	t.Helper()
	data, err := os.ReadFile("../fold/testdata/former/evidence.json")
	if err == nil {
		err = json.Unmarshal(data, &flat)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data, flat
}

// TestFormerRun: a document of the former form is read whole. What is written of it in today's form has the same
// fields, each in its place.
func TestFormerRun(t *testing.T) {
	data, flat := formerDocument(t)
	var run Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	if !run.IsRun() || run.ID == "" || run.Started.IsZero() || len(run.Figures) < 30 || run.Outcome.Exit != 0 ||
		len(run.Epochs) != 3 {
		t.Fatalf("%+v", run.Envelope)
	}
	again, err := json.Marshal(&run)
	if err != nil {
		t.Fatal(err)
	}
	var now struct {
		Body map[string]json.RawMessage `json:"body"`
	}
	top := map[string]json.RawMessage{}
	if err := json.Unmarshal(again, &now); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &top); err != nil {
		t.Fatal(err)
	}
	for name, value := range flat {
		if name == "schema" || name == "steps" || name == "processes" || name == "provenance" {
			// TestFormerSteps, TestFormerFramework
			continue
		}
		got, enveloped := top[name]
		if inBody, ok := now.Body[name]; ok == enveloped {
			t.Errorf("%s stands in the envelope: %v, in the body: %v", name, enveloped, ok)
		} else if ok {
			got = inBody
		}
		var x, y any
		if json.Unmarshal(value, &x) != nil || json.Unmarshal(got, &y) != nil || !reflect.DeepEqual(x, y) {
			t.Errorf("%s: %s, written as %s", name, got, value)
		}
	}
	var read Run
	if err := json.Unmarshal(again, &read); err != nil || !reflect.DeepEqual(read, run) {
		t.Errorf("read again it is another: %v", err)
	}
}

// TestOtherForms: what is neither form is not taken for a run, and no field of one form is read in a document of the
// other.
func TestOtherForms(t *testing.T) {
	for _, text := range []string{`{}`, `{"schema":"assay.evidence/3","kind":"run"}`, `{"schema":"assay.evidence/2"}`,
		`{"schema":"assay.evidence/2","kind":"sweep"}`,
		`{"schema":"assay.gate/1"}`, `{"schema":""}`} {
		var run Run
		if err := json.Unmarshal([]byte(text), &run); err != nil || run.IsRun() {
			t.Errorf("%s: taken for a run, or %v", text, err)
		}
	}
	for _, text := range []string{`[]`, `{"schema":3}`, `{"schema":"assay.evidence/1","figures":"x"}`,
		`{"schema":"assay.evidence/1","epochs":"x"}`,
		`{"schema":"assay.evidence/2","body":[]}`, `{"schema":"assay.evidence/2","body":{"epochs":3}}`} {
		if err := json.Unmarshal([]byte(text), new(Run)); err == nil {
			t.Errorf("%s: read", text)
		}
	}
	var run Run
	if err := json.Unmarshal([]byte(`{"schema":"assay.evidence/2","kind":"run","outcome":{"exit":7}}`),
		&run); err != nil || run.Outcome.Exit != 0 {
		t.Errorf("a field of the body was read beside it: %+v, %v", run.Outcome, err)
	}
}

// TestDocument: evidence of a kind that is still to come has the same envelope, and whoever does not know the kind
// reads that.
func TestDocument(t *testing.T) {
	type sweep struct {
		Batches []int `json:"batches"`
	}
	doc := Document[sweep]{Envelope: NewEnvelope("sweep"), Body: sweep{[]int{8, 16}}}
	doc.ID, doc.Started = "s", time.Unix(1000, 0).UTC()
	fig := Known("step.time", 0.1, "s", Measured)
	fig.Labels = Labels{"batch": "16", "dtype": "float16"}
	doc.Figures = append(doc.Figures, Known("step.time", 0.2, "s", Measured), fig)
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"schema":"assay.evidence/2"`, `"kind":"sweep"`, `"findings":[]`, `"limits":[]`,
		`"packages":[]`,
		`"labels":{"batch":"16","dtype":"float16"}`, `"body":{"batches":[8,16]}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
	if strings.Contains(string(data), "ended") || strings.Contains(string(data), "null") {
		t.Errorf("%s", data)
	}
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil || e.Kind != "sweep" || !reflect.DeepEqual(e, doc.Envelope) {
		t.Errorf("%+v, %v", e, err)
	}
	if f := e.Figure("step.time"); *f.Value != 0.2 {
		t.Errorf("the name alone names one with labels: %+v", f)
	}
	if f := e.Figure("step.time{batch=16,dtype=float16}"); !f.Known() || *f.Value != 0.1 {
		t.Errorf("%+v", f)
	}
	if f := e.Figure("step.time{batch=16}"); f.Known() || f.Missing == "" {
		t.Errorf("%+v", f)
	}
}

// TestKey: two figures have one key where name and labels are the same, and only there.
func TestKey(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range []Figure{{Name: "a"}, {Name: "a", Labels: Labels{"x": "1"}},
		{Name: "a", Labels: Labels{"x": "1", "y": "2"}}, {Name: "a", Labels: Labels{"x": "1,y=2"}},
		{Name: "a", Labels: Labels{"x": ""}}, {Name: "a", Labels: Labels{"x": "1}"}},
		{Name: "a", Labels: Labels{"x": `"1"`}}} {
		if seen[f.Key()] {
			t.Errorf("%s twice: %+v", f.Key(), f)
		}
		seen[f.Key()] = true
	}
	if !seen["a"] || !seen["a{x=1,y=2}"] {
		t.Errorf("%v", seen)
	}
}
