package attempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/target"
)

// answered decodes a line, as it would come.
func answered(t *testing.T, line string) *attemptAnswer {
	t.Helper()
	a, err := decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return a.(*attemptAnswer)
}

// refusedBy is an answer about a model that the double refused.
func refusedBy(op, cause, text string) string {
	return strings.Replace(raised("A", "", text), `"refusal":null`, `"refusal":{"op":"`+op+`","cause":"`+cause+`"}`, 1)
}

// TestOutcome: the cause by how the process ended, or by the double's refusal.
func TestOutcome(t *testing.T) {
	at := func(phase, line string) string { return strings.Replace(line, `"forward"`, `"`+phase+`"`, 1) }
	for line, want := range map[string]string{
		told("A"): "ok", raised("A", "crash", "x"): "crash", raised("A", "late", "x"): "not done in time",
		raised("A", "target", "x"): "not built",
		raised("A", "input", "x"):  "not built", at("build", raised("A", "", "x")): "not built",
		at("inputs", raised("A", "", "x")): "not built",
		at("move", raised("A", "", "x")):   "other", at("backward", raised("A", "", "x")): "other",
		refusedBy("aten::mm", "missing", "x"): "missing operator", refusedBy("aten::mm", "rank", "x"): "argument",
		refusedBy("aten::mm", "dtype", "x"):  "dtype",
		refusedBy("aten::mm", "memory", "x"): "memory", at("build", refusedBy("aten::mm", "device", "x")): "device",
	} {
		if got := answered(t, line).outcome(); got != want {
			t.Errorf("%s, want %s: %s", got, want, line)
		}
	}
}

// TestOutcomeOnAMac: by the words of PyTorch's own errors.
func TestOutcomeOnAMac(t *testing.T) {
	for text, want := range map[string]string{
		"The operator 'aten::frob' is not currently implemented for the MPS device.": "missing operator",

		"MPS backend out of memory (MPS allocated: 1.00 GB)":                                         "memory",
		"Invalid buffer size: 74.51 GB":                                                              "memory",
		"Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64":  "dtype",
		"Expected all tensors to be on the same device, but found at least two devices, mps and cpu": "device",
		"Placeholder storage has not been allocated on MPS device!":                                  "device",
		"missing kernel for mps": "missing operator",
	} {
		if got := answered(t, raised("A", "", text)).outcome(); got != want {
			t.Errorf("%s, want %s: %s", got, want, text)
		}
	}
}

// TestJudged: what the CPU says turns the outcome, unless it speaks of MPS or nothing was built.
func TestJudged(t *testing.T) {
	j := newJudge(&atlas.Atlas{}, "2.8.0")
	missing := refusedBy("aten::max_pool3d_with_indices", "missing", "is not implemented")
	for _, c := range []struct {
		name, line, cpu       string // cpu: "" where it was not tried
		outcome, onCPU, do    string
		operator, from, where string
	}{
		{"fails there alone", raised("A", "", "x"), told("A"), "other", "ok", "", "", "", "net.py:7"},
		{"not asked", raised("A", "", "x"), "", "other", "", "", "", "", "net.py:7"},
		{"CPU too", raised("A", "", "x"), raised("A", "", "shapes"), "CPU too", "RuntimeError: shapes",
			"mend it there first", "", "", "net.py:7"},
		{"asks for MPS by name", raised("A", "", "x"), raised("A", "", "no device mps"), "other",
			"RuntimeError: no device mps", "", "", "", "net.py:7"},
		{"not built there either", raised("A", "target", "x"), raised("A", "", "shapes"), "not built",
			"RuntimeError: shapes", "", "", "", "net.py:7"},
		{"missing", missing, told("A"), "missing operator", "ok", "native from torch 2.9 on",
			"aten::max_pool3d_with_indices", "2.9", "net.py:7"},
		{"dtype", refusedBy("aten::max_pool3d_with_indices", "device", "x"), told("A"), "device", "ok",
			"move the tensors to one device", "aten::max_pool3d_with_indices", "", "net.py:7"},
		{"CUDA by name", refusedBy("aten::add", "device", "Torch not compiled with CUDA enabled"),
			raised("A", "", "Torch not compiled with CUDA enabled"), "CPU too",
			"RuntimeError: Torch not compiled with CUDA enabled", "take the device from an option", "aten::add", "",
			"net.py:7"},
		{"a library's line", strings.Replace(raised("A", "", "x"), `"where":"net.py:7","via":""`,
			`"where":"","via":"lib.py:2"`, 1), "", "other", "", "", "", "", "lib.py:2"},
	} {
		var cpu *attemptAnswer
		if c.cpu != "" {
			cpu = answered(t, c.cpu)
		}
		m := j.attempt(answered(t, c.line), cpu)
		if m.Outcome != c.outcome || m.CPU != c.onCPU || !strings.Contains(m.Remedy, c.do) ||
			c.do == "" && m.Remedy != "" || m.Operator != c.operator ||
			m.NativeFrom != c.from || m.Where != c.where {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

// TestJudgedRows: shares, remarks and fallbacks, the busiest first.
func TestJudgedRows(t *testing.T) {
	const (
		ops = `"ops":[{"op":"aten::mm","n":3,"state":"N","cpu_ns":3000000000,"flops":30},` +
			`{"op":"aten::frob","n":1,"state":"-","cpu_ns":1000000000,"flops":10}]`
		fbs = `"fallbacks":[{"op":"aten::a","where":"x.py:1","n":1,"cpu_ns":1,"bytes":1},` +
			`{"op":"aten::b","where":"","n":5,"cpu_ns":1,"bytes":1}]`
		ns = `"notes":[{"op":"aten::item","kind":"stand-in","text":"zero","where":"","n":1},` +
			`{"op":"aten::std","kind":"wrong","text":"another value","where":"","n":1}]`
	)
	j := newJudge(&atlas.Atlas{}, "2.8.0")
	line := told("A", `"ops":[]`, ops, `"fallbacks":[]`, fbs, `"notes":[]`, ns, `"backward":true`, `"backward":false`)
	m := j.attempt(answered(t, line), nil)
	if s := m.Ran; s.Operators != 2 || s.Calls != 4 || *s.OfCalls != 0.25 || *s.OfFLOPs != 0.25 ||
		*s.OfTime != 0.25 || s.FLOPs != 40 {
		t.Errorf("%+v", s)
	}
	if s := answered(t, line).shares(); s.Seconds != 4 {
		t.Errorf("%v s, of 4", s.Seconds)
	}
	notes := []string{"aten::std: another value", "forward alone: no float of its output needs a gradient"}
	if !slices.Equal(m.Notes, notes) {
		t.Errorf("notes %q", m.Notes)
	}
	if f := m.Fallback; f.Outcome != "ok" || len(f.Operators) != 2 || f.Operators[0] != (FellBack{"aten::b", 5, ""}) {
		t.Errorf("%+v", f)
	}
	// Without data no operator has computed, and its time tells nothing.
	shapes := strings.Replace(line, `"data":true`, `"data":false`, 1)
	if m := j.attempt(answered(t, shapes), nil); m.Ran.OfTime != nil || m.Ran.OfCalls == nil {
		t.Errorf("%+v", m.Ran)
	}
	again := strings.Replace(raised("A", "", "still wrong"), `"answer":"attempt",`, "", 1)
	missing := refusedBy("aten::frob", "missing", "x")
	m = j.attempt(answered(t, strings.Replace(missing, `"fallback":null`, `"fallback":`+again, 1)), nil)
	if m.Fallback == nil || m.Fallback.Outcome != "other" || m.Fallback.Text != "RuntimeError: still wrong" ||
		m.Outcome != "missing operator" {
		t.Errorf("%+v", m.Fallback)
	}
}

// TestStatus: of a package, models that the CPU does not run either, or that cannot be built, are nobody's failure.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		outcomes string
		of       string
		want     int
	}{
		{"ok", "", fault.OK}, {"CPU too", "", fault.GateFailed}, {"missing operator", "", fault.GateFailed},
		{"not built", "", fault.Failed}, {"crash", "", fault.GateFailed},
		{"ok,CPU too,not built", "p", fault.OK}, {"CPU too", "p", fault.OK}, {"not built", "p", fault.Failed},
		{"ok,not done in time", "p", fault.GateFailed},
		{"ok,dtype", "p", fault.GateFailed}, {"not built,other", "p", fault.GateFailed},
	} {
		r := &Result{Tried: Tried{Package: c.of}}
		for _, o := range strings.Split(c.outcomes, ",") {
			r.Models = append(r.Models, &Attempt{Outcome: o})
		}
		if got := r.Status(); got != c.want {
			t.Errorf("%s of %q: %d, want %d", c.outcomes, c.of, got, c.want)
		}
	}
}

// TestAsksForValues: what may have failed for want of a value is tried again with data, and nothing else.
func TestAsksForValues(t *testing.T) {
	at := func(phase, line string) string { return strings.Replace(line, `"forward"`, `"`+phase+`"`, 1) }
	for line, want := range map[string]bool{
		told("A"): false, told("A", `"stand_ins":0`, `"stand_ins":1`): true,
		raised("A", "", "x"): true, at("backward", raised("A", "", "x")): true,
		at("build", raised("A", "", "x")): false, at("move", raised("A", "", "x")): false,
		raised("A", "crash", "x"):                 false,
		refusedBy("aten::nonzero", "values", "x"): true, refusedBy("aten::mm", "dtype", "x"): false,
	} {
		if got := answered(t, line).asksForValues(); got != want {
			t.Errorf("%v: %s", got, line)
		}
	}
}

// TestKnownWrongIsAnOutcome: a model that runs and meets a known wrong result for sure is not ok, whatever else it
// meets; what is not sure, slower or goes to the CPU leaves it ok and is told.
func TestKnownWrongIsAnOutcome(t *testing.T) {
	row := func(fact string, sure bool) string {
		return fmt.Sprintf(`{"op":"aten::frob","fact":%q,"sure":%v,"where":"net.py:7","n":2}`, fact, sure)
	}
	const failed = `{"kind":"","type":"RuntimeError","text":"no","where":"net.py:3","via":""}`
	for name, c := range map[string]struct {
		rows, err, outcome string
		status             int
		says               []string
	}{
		"sure": {row("roi-backward-accumulates", true), "null", "wrong", fault.GateFailed, []string{
			"operator  aten::frob", "where     net.py:7", "wrong     gradients too large", "more than 512 gradients",
			"torch 2.1.0 to 2.13.0",
			"vision PR 9510", "do        take torch 2.14", "[roi-backward-accumulates]"}},
		"not sure": {row("roi-backward-accumulates", false), "null", "ok", fault.OK,
			[]string{"perhaps   known wrong results that one call does not tell (1): ",
				"roi-backward-accumulates when more than 512"}},
		"ends the process": {row("cumsum-far-dimension", true), "null", "aborts", fault.GateFailed,
			[]string{"aborts    the process ends on a Mac", "movedim"}},
		"wrong goes before aborts": {row("cumsum-far-dimension", true) + "," + row("linear-strided-weight", true),
			"null", "wrong", fault.GateFailed, []string{"[linear-strided-weight]", "aborts    aten::frob at net.py:7"}},
		"slow": {row("mm-known-issue", true), "null", "ok", fault.OK,
			[]string{"slow      aten::frob at net.py:7"}},
		"on the CPU": {row("eigh-small", true), "null", "ok", fault.OK,
			[]string{"on the CPU aten::frob at net.py:7"}},
		"a fact of another assay": {row("of-tomorrow", true), "null", "ok", fault.OK, nil},
		"raised as well": {row("linear-strided-weight", true), failed, "other", fault.GateFailed,
			[]string{"wrong     aten::frob at net.py:7"}},
	} {
		line := told("A", `"met":[]`, `"met":[`+c.rows+`]`, `"error":null`, `"error":`+c.err)
		m := newJudge(&atlas.Atlas{}, "2.8.0").attempt(answered(t, line), nil)
		r := &Result{Tried: Tried{Models: []*Attempt{m}, Double: &target.Settings{}}}
		var b strings.Builder
		if err := r.Text(&b, 400); err != nil {
			t.Fatal(err)
		}
		if m.Outcome != c.outcome || r.Status() != c.status || !strings.Contains(b.String(), "A: "+c.outcome+";") {
			t.Errorf("%s: %s, status %d: %s", name, m.Outcome, r.Status(), b.String())
		}
		for _, want := range c.says {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in %s", name, want, b.String())
			}
		}
	}
}

// TestKnownWrongUnderTheFallback: the same model with the fallback is not ok either.
func TestKnownWrongUnderTheFallback(t *testing.T) {
	fell := strings.Replace(told("A", `"met":[]`,
		`"met":[{"op":"a","fact":"linear-strided-weight","sure":true,"where":"","n":1}]`), `"answer":"attempt",`, "", 1)
	line := told("A", `"error":null`, `"error":{"kind":"","type":"NotImplementedError","text":"x","where":"","via":""}`,
		`"refusal":null`, `"refusal":{"op":"aten::frob","cause":"missing"}`, `"fallback":null`, `"fallback":`+fell)
	if m := newJudge(&atlas.Atlas{}, "2.8.0").attempt(answered(t, line), nil); m.Fallback.Outcome != "wrong" {
		t.Errorf("%+v", m.Fallback)
	}
}
