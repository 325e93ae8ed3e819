package symptom

import (
	"assay/internal/facts"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"assay/internal/evidence"
)

// TestLinesAsTheyCome: a log says the same however it arrives, and lines are counted as an editor counts them, empty
// ones and those that a progress bar overwrites too.
func TestLinesAsTheyCome(t *testing.T) {
	const known = "NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device."
	for _, c := range []struct {
		log   string
		lines int
		at    int // line of the error; 0: none is there
	}{
		{"", 0, 0}, {"\n", 1, 0}, {"\n\n\n" + known, 4, 4}, {"\n\n\n" + known + "\n", 4, 4}, {known, 1, 1},
		{"50 %\r100 %\r\n\r\n" + known + "\n\n", 4, 3}, {"a\n" + known + "\r\nb", 3, 2},
		{"Frob\nFrobError: it\n\n", 3, 2}, {"x\n\n\nFrobError:\nit", 5, 4},
		{"Traceback (most recent call last):\n  File \"/u/t.py\", line 3, in f\n    g()\n" + known + "\n", 4, 4},
	} {
		whole, err := Scan("x", strings.NewReader(c.log))
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, s := range whole.Symptoms {
			at = s.Found[0].Line
		}
		for _, u := range whole.Unknown {
			at = u.Line
		}
		if whole.Lines != c.lines || at != c.at || len(whole.Symptoms)+len(whole.Unknown) > 1 {
			t.Errorf("%q: %d lines, want %d; error on %d, want %d", c.log, whole.Lines, c.lines, at, c.at)
		}
		bytewise, err := Scan("x", iotest.OneByteReader(strings.NewReader(c.log)))
		if err != nil || !reflect.DeepEqual(whole, bytewise) {
			t.Errorf("%q: a byte at a time it says %+v, %v", c.log, bytewise, err)
		}
	}
	if _, err := Scan("x", iotest.ErrReader(os.ErrPermission)); err == nil {
		t.Error("a log that cannot be read is not said to be")
	}
}

// TestSpan: the releases that a condition holds for are said as far as they are known.
func TestSpan(t *testing.T) {
	for want, c := range map[string]*facts.Fact{
		"":                                       {},
		"PyTorch 2.1":                            {From: "2.1", Until: "2.1"},
		"PyTorch 2.1 to 2.3":                     {From: "2.1", Until: "2.3"},
		"PyTorch from 2.1 on":                    {From: "2.1"},
		"PyTorch 2.1 to 2.3, right from 2.4 on":  {From: "2.1", Until: "2.3", Fixed: "2.4"},
		"PyTorch from 2.1 on, on macOS up to 14": {From: "2.1", MacOS: "up to 14"},
	} {
		if got := span(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	if got := span(&facts.Fact{MacOS: "up to 14"}); got != "" {
		t.Errorf("a macOS alone: %q", got)
	}
}

// TestShortened: of a long line the part with the match is shown, of the length that is allowed, and whole letters.
func TestShortened(t *testing.T) {
	for _, n := range []int{mostKept - 1, mostKept, mostKept + 1} {
		line := strings.Repeat("x", n)
		if got := shorten(line); len(got) > mostKept+len(" …") || strings.HasSuffix(got, " …") != (n > mostKept) {
			t.Errorf("%d: %d bytes", n, len(got))
		}
		if got := excerpt(line, 0, 5); strings.HasSuffix(got, " …") != (n > mostKept) {
			t.Errorf("%d: %q", n, got)
		}
	}
	long := strings.Repeat("é", 2000) + "FROB" + strings.Repeat("é", 2000)
	for _, at := range []int{0, 79, 4000, 7999} {
		if got := excerpt(long, at, at+4); len(got) > mostKept+10 || strings.Contains(got, "�") ||
			(at == 4000) != strings.Contains(got, "FROB") {
			t.Errorf("at %d: %d bytes, %q", at, len(got), got)
		}
	}
}

// TestOfAtlas: what the atlas knows fills in what a rule does not say itself: conditions of the release that ran, where
// any holds, and for a rule of its own those whose text the line has.
func TestOfAtlas(t *testing.T) {
	rows := []*facts.Fact{
		{Kind: "dtype", When: "an old case", Until: "2.3.0", From: "2.1.0", Source: "a; binary text",
			Remedy: "do this."},
		{Kind: "dtype", When: "a new case", From: "2.5.0", Source: "b; a", Remedy: "do that"},
		{Kind: "size", When: "a new case", From: "2.5.0", Source: "binary text"},
	}
	texts := []*regexp.Regexp{regexp.MustCompile("old"), regexp.MustCompile("new"), regexp.MustCompile("huge")}
	const likely = "On MPS these words mean this"
	for _, c := range []struct {
		name, torch, line       string
		own, likely             bool
		cause, releases, source string
		remedies                int
	}{
		{"all", "", "x", false, false, "an old case; or a new case", "PyTorch 2.1.0 to 2.3.0; PyTorch from 2.5.0 on",
			"rule; a; b; binary text", 2},
		{"of a release", "2.2.0", "x", false, false, "an old case", "PyTorch 2.1.0 to 2.3.0", "rule; a", 1},
		{"of a release that none holds for", "2.4.0", "x", false, false, "an old case; or a new case",
			"PyTorch 2.1.0 to 2.3.0; PyTorch from 2.5.0 on", "rule; a; b; binary text", 2},
		{"likely", "2.2.0", "x", false, true, "an old case", "PyTorch 2.1.0 to 2.3.0", "rule; a", 1},
		{"the rule's own, by its text", "", "new", true, true, "", "PyTorch from 2.5.0 on", "rule; b; a", 0},
		{"the rule's own, of another text", "", "x", true, false, "", "", "rule", 0},
	} {
		s := &scanner{atlas: &operators{}, rep: &Report{}}
		s.rep.Context.Torch = c.torch
		sym := Symptom{Source: "rule"}
		s.ofAtlas(&Rule{atlas: rows, texts: texts, Likely: c.likely}, &sym, c.own, c.line)
		if !strings.Contains(sym.Cause, c.cause) || (sym.Cause == "") != c.own || len(sym.Remedy) != c.remedies ||
			strings.HasPrefix(sym.Cause, likely) != (c.likely && !c.own) ||
			strings.Join(sym.Releases, "; ") != c.releases || sym.Source != c.source {
			t.Errorf("%s: %+v", c.name, sym)
		}
	}
	sym := Symptom{}
	(&scanner{atlas: &operators{}, rep: &Report{}}).ofAtlas(&Rule{atlas: rows[2:], texts: texts[2:]}, &sym, false, "x")
	if len(sym.Remedy) != 1 || sym.Remedy[0] != byKind["size"] {
		t.Errorf("what can be done where the atlas names nothing: %q", sym.Remedy)
	}
}

// TestFill: what a message does not say is left open, and what is no hole stays.
func TestFill(t *testing.T) {
	groups := map[string]string{"op": " mm ", "what": " "}
	for text, want := range map[string]string{"plain": "plain", "{op} and {op}": "mm and mm", "{what}": "…",
		"{other}": "{other}"} {
		if got := fill(text, groups); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSameErrorAgain: an unknown error that comes again with other numbers is counted, not listed twice; a symptom's
// places are listed as far as there is room, and all are counted.
func TestSameErrorAgain(t *testing.T) {
	rep := scan(t, "FrobError: it 1\nFrobError: it 22\nGrobError: it 1\n")
	if len(rep.Unknown) != 2 || rep.Unknown[0].Count != 2 || rep.Unknown[1].Count != 1 || rep.Unknown[0].Line != 1 {
		t.Errorf("%+v", rep.Unknown)
	}
	const known = "NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device.\n"
	rep = scan(t, strings.Repeat(known, mostSeen+2))
	if s := rep.Symptoms; len(s) != 1 || s[0].Count != mostSeen+2 || len(s[0].Found) != mostSeen {
		t.Errorf("%+v", s)
	}
}

// TestOneOperator: an operator is said to take most of the time from three fifths on, fallbacks from three tenths on;
// what was not measured on the device is not said of it.
func TestOneOperator(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*evidence.Run)
		seen   bool
	}{
		{"three fifths", func(*evidence.Run) {}, true},
		{"less", func(r *evidence.Run) { r.Operators[1].Self = 5.9 }, false},
		{"on the CPU", func(r *evidence.Run) { r.Target.Device = "cpu" }, false},
		{"a rehearsal", func(r *evidence.Run) { r.Rehearsal = &evidence.Rehearsal{} }, false},
		{"no table", func(r *evidence.Run) { r.Operators = nil }, false},
		{"no time", func(r *evidence.Run) { r.Operators = []evidence.Operator{{Name: "x"}} }, false},
		{"fallbacks", func(r *evidence.Run) {
			r.Operators, r.Fallbacks = nil, []evidence.Fallback{{Operator: "aten::frob"}}
			r.Figures = []evidence.Figure{evidence.Known("fallback.time", 0.3, "ratio", evidence.Rehearsed)}
		}, true},
		{"few fallbacks", func(r *evidence.Run) {
			r.Operators, r.Fallbacks = nil, []evidence.Fallback{{Operator: "aten::frob"}}
			r.Figures = []evidence.Figure{evidence.Known("fallback.time", 0.29, "ratio", evidence.Rehearsed)}
		}, false},
	} {
		run := evidence.NewRun("r")
		run.Target.Device = "mps"
		run.Operators = []evidence.Operator{{Name: "a", Self: 4}, {Name: "b", Self: 6}}
		c.change(run)
		if text, seen := oneOperator(run); seen != c.seen {
			t.Errorf("%s: %v %q", c.name, seen, text)
		}
	}
}
