package attempt

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/target"
)

func share(x float64) *float64 { return &x }

// result is one of each kind of outcome, on the double.
func result() *Result {
	return &Result{Envelope: evidence.NewEnvelope(evidence.KindAttempt),
		Tried: Tried{Basis: evidence.Rehearsed, On: evidence.OnDouble, Torch: "2.15.0", Python: "3.11.7",
			Package: "net", Counts: map[string]int{"ok": 1, "missing operator": 2, "dtype": 1, "CPU too": 1},
			Double: &target.Settings{Release: "2.8.0", ChipName: "Apple M1", Memory: 16 << 30,
				MacOS:     target.MacOS{15, 0},
				ShapeOnly: true},
			Models: []*Attempt{
				{Name: "Fine", Outcome: "ok", Phase: "done", Model: "Net", Inputs: []string{"2,3 float32"},
					Parameters: 6,
					Data:       true, Peak: 1 << 20,
					Ran:   &Shares{Operators: 4, Calls: 9, OfCalls: share(0)},
					Notes: []string{"aten::std: another value"}},
				{Name: "Lacks", Peak: 1 << 20, Ran: &Shares{Operators: 1, Calls: 2}, Outcome: "missing operator",
					Phase: "forward", Operator: "aten::frob", NativeFrom: "2.9", Error: "NotImplementedError",
					Text:  "The operator\nis not there",
					Where: "net.py:7", Remedy: "native from torch 2.9 on", CPU: "ok",
					Fallback: &Fallback{Outcome: "ok", Shares: Shares{OfCalls: share(0.25), OfTime: share(0.5)},
						Operators: []FellBack{{"aten::frob", 3, "net.py:7"}}}},
				{Name: "Never", Outcome: "missing operator", Phase: "backward", Operator: "aten::gone",
					Error: "NotImplementedError", Text: "no",
					Fallback: &Fallback{Outcome: "other", Text: "RuntimeError: no"}},
				{Name: "Wide", Outcome: "dtype", Phase: "move", Operator: "aten::_to_copy", Error: "TypeError",
					Text: "no float64\nat all"},
				{Name: "Wrong", Outcome: "CPU too", Phase: "forward", Operator: "aten::mm", Error: "RuntimeError",
					Text: "shapes\nmore", CPU: "RuntimeError: shapes"},
			}}}
}

func shown(t *testing.T, r *Result, width int) string {
	t.Helper()
	var b strings.Builder
	if err := r.Text(&b, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const list = `Fine   ok                aten::std: another value
Lacks  missing operator  aten::frob in forward; native from 2.9; with the fallback: ok
Never  missing operator  aten::gone in backward; in no release; with the fallback: other
Wide   dtype             aten::_to_copy in move; no float64
Wrong  CPU too           RuntimeError: shapes

5 models of net, rehearsed, on a double of torch 2.8.0 MPS, Apple M1 with 16.0 GiB, macOS 15, shapes
  alone, torch 2.15.0 installed: 1 ok, 2 missing operator, 1 dtype, 1 CPU too.
`

var alone = []string{
	`Fine: ok; rehearsed, on a double of torch 2.8.0 MPS, Apple M1 with 16.0 GiB, macOS 15, shapes alone,
  torch 2.15.0 installed.
  input     2,3 float32; Net, 6 parameters
  called    4 operators 9 times, each with a kernel
  memory    1.00 MiB at the peak, as Metal's driver counts
  note      aten::std: another value
`, `Lacks: missing operator; rehearsed, on a double of torch 2.8.0 MPS, Apple M1 with 16.0 GiB, macOS
  15, shapes alone, torch 2.15.0 installed.
  operator  aten::frob
  where     forward at net.py:7
  error     NotImplementedError: The operator is not there
  do        native from torch 2.9 on
  fallback  with PYTORCH_ENABLE_MPS_FALLBACK=1: ok; on the CPU: aten::frob 3×: 25.0 % of the calls,
            50.0 % of the CPU time
  CPU       ok
`, `Never: missing operator; rehearsed, on a double of torch 2.8.0 MPS, Apple M1 with 16.0 GiB, macOS
  15, shapes alone, torch 2.15.0 installed.
  operator  aten::gone
  where     backward
  error     NotImplementedError: no
  fallback  with PYTORCH_ENABLE_MPS_FALLBACK=1: other (RuntimeError: no)
`}

// TestText: the list of a package, and one model at length.
func TestText(t *testing.T) {
	r := result()
	if got := shown(t, r, 60); got != list {
		t.Errorf("%s", got)
	}
	for i, want := range alone {
		one := *r
		one.Package, one.Models = "", r.Models[i:i+1]
		if got := shown(t, &one, 100); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	fell := *r
	fell.Package, fell.Models = "", []*Attempt{{Name: "Fell", Outcome: "ok", Ran: &Shares{Operators: 4, Calls: 9},
		Fallback: r.Models[1].Fallback}}
	if got := shown(t, &fell, 100); strings.Contains(got, "each with a kernel") ||
		!strings.Contains(got, "on the CPU: aten::frob 3×") {
		t.Errorf("%s", got)
	}
	one := Result{Envelope: evidence.NewEnvelope(evidence.KindAttempt),
		Tried: Tried{Basis: evidence.Measured, On: evidence.OnCPU, Torch: "2.15.0",
			Models: []*Attempt{{Name: "Net", Outcome: "ok", Phase: "done"}}}}
	if got := shown(t, &one, 100); got != "Net: ok; measured, on cpu with torch 2.15.0.\n" {
		t.Errorf("%q", got)
	}
}

// TestStrangersText: whatever a package calls its models and whatever these raise, a terminal obeys none of it, and
// none of it begins a line.
func TestStrangersText(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[2J\u202e\u009b31m\r\n::error::x\n\xff"
	r := result()
	r.Torch, r.Package = evil, evil
	for _, m := range r.Models {
		m.Name, m.Operator, m.Error, m.Text, m.Where, m.CPU, m.Model, m.Phase, m.NativeFrom = evil, evil, evil, evil,
			evil, evil, evil, evil, evil
		m.Notes, m.Inputs = []string{evil}, []string{evil}
		if m.Fallback != nil {
			m.Fallback.Text, m.Fallback.Operators = evil, []FellBack{{evil, 1, evil}}
		}
	}
	check := func(got string, lines int) {
		t.Helper()
		if strings.ContainsAny(got, "\x1b\a\r\u202e\u009b") || !utf8.ValidString(got) {
			t.Errorf("a terminal obeys %q", got)
		}
		if strings.Contains(got, "\n::") || lines > 0 && strings.Count(got, "\n") != lines {
			t.Errorf("lines of its own: %q", got)
		}
	}
	whole := shown(t, r, 100)
	models, _, _ := strings.Cut(whole, "\n\n")
	check(models+"\n", 5)
	check(whole, 0)
	for i := range r.Models {
		one := *r
		one.Package, one.Models = "", r.Models[i:i+1]
		check(shown(t, &one, 100), 0)
	}
}

// TestJSON: the names that others read, tools/double/models.py among them.
func TestJSON(t *testing.T) {
	var b strings.Builder
	r := result()
	r.document()
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Schema, Kind string
		Figures      []evidence.Figure
		Findings     []evidence.Finding
		Body         struct {
			Basis, On, Torch, Python, Package string
			Double                            map[string]any
			Counts                            map[string]int
			Models                            []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &document); err != nil {
		t.Fatal(err)
	}
	got := document.Body
	if document.Schema != evidence.Schema || document.Kind != evidence.KindAttempt || len(document.Findings) != 4 {
		t.Errorf("%+v", document)
	}
	for _, f := range document.Figures {
		if row, ok := catalogue.Find(f.Name); !ok || row.Unit != f.Unit || f.Labels["model"] == "" ||
			f.Basis != evidence.Rehearsed {
			t.Errorf("%+v: not as the catalogue has it, or of no model", f)
		}
	}
	if got.Basis != "rehearsed" || got.Double["release"] != "2.8.0" ||
		got.Counts["ok"] != 1 || len(got.Models) != 5 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"name", "outcome", "phase", "inputs", "parameters", "data", "backward", "seconds",
		"operator", "native_from", "error", "text", "where", "remedy",
		"cpu", "fallback"} {
		if _, there := got.Models[1][name]; !there {
			t.Errorf("no %s in %v", name, got.Models[1])
		}
	}
	shares := got.Models[1]["fallback"].(map[string]any)["shares"].(map[string]any)
	if shares["share_of_calls"] != 0.25 || shares["share_of_flops"] != nil || shares["share_of_time"] != 0.5 {
		t.Errorf("%v", shares)
	}
	if !strings.Contains(b.String(), "\n  \"models\": [\n   {\n") {
		t.Error("it is not indented")
	}
}
