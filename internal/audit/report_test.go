package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/abstract"
	"assay/internal/atlas"
)

// asked finds calls of names of one package: lib.error() is an error, lib.warning() a warning, lib.guess() only
// suspected.
var asked = &Rule{Name: "asked", Title: "a call of lib", Severity: Error, Calls: []Ask{
	{Names: func(path string) bool { return path == "lib.warning" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Severity: Warning, Sure: true, Text: "found"})
	}},
	{Names: func(path string) bool { return path == "lib.guess" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Text: "found"})
	}},
	{Names: func(path string) bool { return path == "lib.note" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Severity: Notice, Text: "found"})
	}},
	// once so, once surely
	{Names: func(path string) bool { return path == "lib.twice" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Text: "found"})
		p.Report(c.At, Finding{Sure: true, Text: "found"})
		p.Report(c.At, Finding{Text: "found"})
	}},
	{Names: func(path string) bool { return path == "lib.home" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Sure: p.AtHome(), Text: "found"})
	}},
	{Names: func(path string) bool { return path == "lib.two" }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Text: "a guess"})
		p.Report(c.At, Finding{Sure: true, Text: "b is known"})
		p.Report(c.At, Finding{Text: "c guess"})
	}},
	{Names: func(path string) bool { return path == "lib.panic" },
		Look: func(*Pass, *abstract.Call) { panic("a mistake") }},
	{Names: func(path string) bool { return path == "lib.elsewhere" }, Look: func(p *Pass, c *abstract.Call) {
		p.Unless(func(p *Pass) bool { return strings.Contains(p.Text(c.Node), "keep_silent") }, func(p *Pass) string {
			if strings.Contains(p.Text(c.Node), "doubt") {
				return ", unless it rains"
			}
			return ""
		}, func(p *Pass, c *abstract.Call) { p.Report(c.At, Finding{Sure: true, Text: "found"}) }, c)
	}},
	{Names: func(path string) bool { return strings.HasPrefix(path, "lib.") }, Look: func(p *Pass, c *abstract.Call) {
		p.Report(c.At, Finding{Sure: true, Text: "found"})
	}},
}}

// findings are what that rule finds in a file, as LINE sure or LINE suspected, with what its text has beside "found".
func findings(t *testing.T, o Options, files map[string]string) string {
	t.Helper()
	o.Base = t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(o.Base, name), "import torch, lib\n"+text)
		if !strings.HasPrefix(name, "_") {
			o.Files = append(o.Files, name)
		}
	}
	o.Rules, o.Target.Device = []*Rule{asked}, "mps"
	r, err := Check(&o)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, i := range r.Items {
		list = append(list, fmt.Sprintf("%d %s%s", i.Line, i.Certainty, strings.TrimPrefix(i.Text, "found")))
	}
	for _, trouble := range r.Troubles {
		list = append(list, "trouble "+trouble.Text)
	}
	return strings.Join(list, " | ")
}

// TestHowSure: an error whose exception the program takes, and whatever stands where only an error leads, is suspected
// and says why; nothing else is.
func TestHowSure(t *testing.T) {
	const caught, handler = " suspected; the error is caught here", " suspected, if the error before it gets here"
	for source, want := range map[string]string{
		"lib.error()":   "2 sure",
		"lib.warning()": "2 sure",
		"lib.guess()":   "2 suspected",
		"lib.two()":     "2 sureb is known",
		"lib.twice()":   "2 sure",
		"try:\n    lib.error()\nexcept RuntimeError:\n    pass":                                 "3" + caught,
		"try:\n    lib.error()\nexcept (ImportError, RuntimeError):\n    pass":                  "3" + caught,
		"try:\n    lib.error()\nexcept:\n    pass":                                              "3" + caught,
		"try:\n    lib.warning()\nexcept RuntimeError:\n    pass":                               "3 sure",
		"try:\n    lib.error()\nexcept ImportError:\n    pass":                                  "3 sure",
		"try:\n    lib.error()\nexcept KeyError:\n    pass":                                     "3 sure",
		"try:\n    lib.error()\nfinally:\n    pass":                                             "3 sure",
		"try:\n    x = 1\nexcept KeyError:\n    lib.error()":                                    "5" + handler,
		"try:\n    x = 1\nexcept KeyError:\n    lib.warning()":                                  "5" + handler,
		"try:\n    x = 1\nexcept RuntimeError:\n    pass\nelse:\n    lib.error()":               "7 sure",
		"try:\n    x = 1\nexcept RuntimeError:\n    pass\nlib.error()":                          "6 sure",
		"def f():\n    lib.error()\ntry:\n    f()\nexcept RuntimeError:\n    pass":              "3" + caught,
		"def f():\n    try:\n        x = 1\n    except RuntimeError:\n        lib.guess()\nf()": "6 suspected",
		"lib.elsewhere()":                   "2 sure",
		"lib.elsewhere(keep_silent)":        "",
		"lib.elsewhere(doubt)":              "2 suspected, unless it rains",
		"lib.elsewhere(doubt)\nlib.error()": "2 suspected, unless it rains | 3 sure",
		"for i in x:\n    lib.error()":      "3 sure",
		"import lib as other\nother.x()":    "3 sure",
	} {
		if got := findings(t, Options{}, map[string]string{"x.py": source}); got != want {
			t.Errorf("%s\ngives %q, want %q", source, got, want)
		}
	}
}

// TestWhatIsLeftOut: --sure leaves out what is suspected; notes that are suspected want --all.
func TestWhatIsLeftOut(t *testing.T) {
	files := map[string]string{"x.py": "lib.error()\nlib.guess()\nlib.note()\n"}
	for want, o := range map[string]Options{"2 sure": {Sure: true}, "2 sure | 3 suspected": {},
		"2 sure | 3 suspected | 4 suspected": {All: true}} {
		if got := findings(t, o, files); got != want {
			t.Errorf("%+v gives %q, want %q", o, got, want)
		}
	}
	if got := findings(t, Options{Sure: true, All: true}, files); got != "2 sure" {
		t.Errorf("--sure with --all gives %q", got)
	}
}

// TestFollowedFiles: what is found in a file that another calls is reported once, where the file itself is checked,
// and nowhere where it is not.
func TestFollowedFiles(t *testing.T) {
	helper := "def f(x):\n    lib.error()\n"
	caller := "from %s import f\nf(1)\n"
	if got := findings(t, Options{}, map[string]string{"a.py": fmt.Sprintf(caller, "_helper"),
		"_helper.py": helper}); got != "" {
		t.Errorf("a file that was not asked about: %q", got)
	}
	if got := findings(t, Options{}, map[string]string{"a.py": fmt.Sprintf(caller, "helper"),
		"b.py": fmt.Sprintf(caller, "helper"), "helper.py": helper}); got != "3 sure" {
		t.Errorf("found by three: %q", got)
	}
	// At home it is sure, called from elsewhere suspected: it is sure, whichever file is checked first.
	helper = "def f(x):\n    lib.home()\nf(2)\n"
	for _, name := range []string{"a.py", "z.py"} {
		files := map[string]string{name: fmt.Sprintf(caller, "helper"), "helper.py": helper}
		if got := findings(t, Options{}, files); got != "3 sure" {
			t.Errorf("beside %s: %q", name, got)
		}
	}
}

// TestAMistakeOfOurs in one file is said, and hides nothing of the others.
func TestAMistakeOfOurs(t *testing.T) {
	got := findings(t, Options{}, map[string]string{"a.py": "lib.panic()\n", "b.py": "lib.error()\n"})
	if !strings.HasPrefix(got, "2 sure | trouble a mistake in assay: a mistake (internal/audit/report_test.go:") ||
		!strings.Contains(got, "please report it") {
		t.Error(got)
	}
}

// TestManySyntaxErrors: twenty are listed, the rest is counted.
func TestManySyntaxErrors(t *testing.T) {
	got := strings.Split(findings(t, Options{}, map[string]string{"a.py": strings.Repeat("x = = 1\n", 50)}), " | ")
	if len(got) != 21 || !strings.HasPrefix(got[19], "trouble syntax error") ||
		got[20] != "trouble 30 more syntax errors" {
		t.Errorf("%d: %q", len(got), got[len(got)-1])
	}
}

// TestNotRead: what is no file, or too large for a program, is refused in one line, and a folder's other files are
// checked.
func TestNotRead(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "good.py"),
		"import torch, lib, large\nlarge.f()\nfrom large import g\ng()\nlib.error()\n")
	large := filepath.Join(dir, "large.py")
	put(t, large, "import torch\n")
	if err := os.Truncate(large, maxSource+1); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge.py") // more than can be read: it must not be tried
	put(t, huge, "import torch\n")
	if err := os.Truncate(huge, 1<<42); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Base: dir, Files: []string{"good.py", "large.py", "huge.py", "folder.py", "none.py", "-"},
		Rules:  []*Rule{asked},
		Target: Target{Device: "mps"},
		Stdin:  &endless{}, StdinAs: "in.py"}
	r, err := Check(&o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, trouble := range r.Troubles {
		got = append(got, trouble.File+": "+trouble.Text)
	}
	const tooLarge = "16 MB is more than a program has: at most 16 MB are read"
	want := []string{"large.py: " + tooLarge, "huge.py: 4194304 MB is more than a program has: at most 16 MB are read",
		"folder.py: no regular file", "none.py: no such file or directory",
		"-: " + tooLarge}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(r.Items) != 1 {
		t.Errorf("%q, want %q; %d found", got, want, len(r.Items))
	}
}

// endless is a standard input that never ends. It gives up for the reader that asks for more than it may.
type endless struct{ given int }

func (e *endless) Read(p []byte) (int, error) {
	if e.given > 2*maxSource {
		return 0, fmt.Errorf("asked for %d bytes", e.given)
	}
	for i := range p {
		p[i] = '#'
	}
	e.given += len(p)
	return len(p), nil
}

// TestTreesAreNotKept: the sources whose trees are kept for others are bounded, in two generations; what is asked for
// again stays.
func TestTreesAreNotKept(t *testing.T) {
	dir := t.TempDir()
	pr := &project{base: dir, files: map[string]*parsed{}}
	text := "import torch\n" + strings.Repeat("# a comment\n", 1<<16)
	for i := range 40 {
		path := filepath.Join(dir, fmt.Sprintf("m%d.py", i))
		put(t, path, text)
		pr.load(path)
		pr.load(filepath.Join(dir, "m0.py"))
		size := 0
		for _, files := range []map[string]*parsed{pr.files, pr.older} {
			for _, f := range files {
				size += len(f.src.Text)
			}
		}
		if size > 2*keepBytes {
			t.Fatalf("%d bytes are kept after %d files", size, i+1)
		}
	}
	if pr.kept(filepath.Join(dir, "m0.py")) == nil {
		t.Error("what was asked for all the time is gone")
	}
}

// TestNamesAreBounded: who looks at the calls of a name is remembered for so many names.
func TestNamesAreBounded(t *testing.T) {
	s := sorted([]*Rule{asked})
	for i := range keepNames + 10 {
		s.of(fmt.Sprint("lib.", i))
		if len(s.named) > keepNames {
			t.Fatal(len(s.named))
		}
	}
	if len(s.of("lib.guess")) != 1 || len(s.of("other.guess")) != 0 {
		t.Error("the wrong rules look")
	}
}

// TestAnswers: what the atlas knows by another name is no operator of this one, and a star binds what two modules of
// PyTorch have.
func TestAnswers(t *testing.T) {
	a := &atlas.Atlas{}
	r, err := a.Release("torch", "2.8")
	if err != nil {
		t.Fatal(err)
	}
	says := &answers{target: &Target{Device: "mps", Torch: r, Atlas: a}, ops: map[string]operators{}}
	for path, want := range map[string]bool{"torch.linalg.eigvals": true, "torch.nn.Linear": true,
		"linalg.eigvals": false, "nn.Linear": false, "eigvals": false,
		"torch.Linear": false, "torch.unheard_of": false} {
		if got := says.operators(path).known; got != want {
			t.Errorf("%s is known: %v", path, got)
		}
	}
	for module, name := range map[string]string{"torch.nn": "Linear", "torch.nn.functional": "relu"} {
		if list := strings.Join(says.star(module), " "); !strings.Contains(" "+list+" ", " "+name+" ") ||
			strings.ContainsAny(list, ".(") {
			t.Errorf("from %s import * binds %q", module, list)
		}
	}
	if list := says.star("torch"); list != nil {
		t.Errorf("from torch import * binds %q", list)
	}
}

// TestExitStatus: a check fails for what is sure and more than a note, and for what Python itself cannot read.
func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		report Report
		bad    bool
	}{
		{Report{}, false},
		{Report{Items: []Item{{Certainty: "sure", Severity: Error}}}, true},
		{Report{Items: []Item{{Certainty: "sure", Severity: Warning}}}, true},
		{Report{Items: []Item{{Certainty: "sure", Severity: Notice}}}, false},
		{Report{Items: []Item{{Certainty: "suspected", Severity: Error}}}, false},
		{Report{Troubles: []Trouble{{syntax: true}}}, true},
		{Report{Troubles: []Trouble{{}}}, false},
	} {
		if c.report.Bad() != c.bad {
			t.Errorf("%+v", c.report)
		}
	}
}

// TestSuspectedErrors are warnings to those who know three words alone: a suspicion breaks nobody's build.
func TestSuspectedErrors(t *testing.T) {
	item := Item{Rule: "asked", Certainty: "suspected", Severity: Error, File: "::x.py", Line: 1, Column: 1,
		Text: "found", excerpt: []string{"x"}}
	r := &Report{Items: []Item{item}, Counts: Counts{Errors: 1, Suspected: 1}}
	for name, want := range map[string]string{"github": "::warning title=assay asked", "sarif": `"level": "warning"`,
		"junit": `failures="0"`, "text": "./::x.py:1:1: suspected error",
		"concise": "./::x.py:1:1: suspected error"} {
		for _, f := range Forms {
			var b bytes.Buffer
			if f.Name != name {
				continue
			}
			if err := f.Write(&b, r); err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("%s: %v\n%s", name, err, b.String())
			}
		}
	}
}

// TestFixesChosen: a fix that is only shown is never applied, one of two that overlap waits for the next pass, and
// what two need is written once.
func TestFixesChosen(t *testing.T) {
	src, err := NewSource("x.py", []byte("a = b\nc = d\n"))
	if err != nil {
		t.Fatal(err)
	}
	fix := func(s Safety, edits ...Edit) Finding { return Finding{Fix: &Fix{Safety: s, Edits: edits}} }
	both := Edit{0, 0, "import x\n"}
	for _, c := range []struct {
		list  []Finding
		trust Safety
		want  string
		left  int
	}{
		{[]Finding{fix(Manual, Edit{0, 1, "z"}), {}}, Unsafe, "", 2},
		{[]Finding{fix(Unsafe, Edit{0, 1, "z"})}, Safe, "", 1},
		{[]Finding{fix(Unsafe, Edit{0, 1, "z"})}, Unsafe, "z = b\nc = d\n", 0},
		{[]Finding{fix(Safe, Edit{0, 1, "z"}), fix(Safe, Edit{0, 5, "y = 1"})}, Safe, "z = b\nc = d\n", 1},
		{[]Finding{fix(Safe, both, Edit{4, 5, "y"}), fix(Safe, both, Edit{10, 11, "z"})}, Safe,
			"import x\na = y\nc = z\n", 0},
	} {
		content, left, err := applyFixes(src, c.list, c.trust)
		if err != nil || string(content) != c.want || len(left) != c.left {
			t.Errorf("%+v: %v, %q and %d left", c.list, err, content, len(left))
		}
	}
	for _, edit := range []Edit{{2, 1, ""}, {-1, 0, ""}, {0, 13, ""}} {
		if _, err := src.Apply([]Edit{edit}); err == nil {
			t.Errorf("%v was applied", edit)
		}
	}
}

// TestLargeDiff: where comparing would take too much, all goes and all comes.
func TestLargeDiff(t *testing.T) {
	a, b := make([]string, 1<<13), make([]string, 1<<12)
	for i := range a {
		a[i] = fmt.Sprint(i)
	}
	copy(b, a)
	if ops := script(a, b); len(ops) != len(a)+len(b) || ops[0].op != '-' || ops[len(ops)-1].op != '+' {
		t.Error(len(ops))
	}
	if ops := script(a[:100], b[:100]); len(ops) != 100 {
		t.Error(len(ops))
	}
}

// TestOtherEncoding: what was decoded cannot be written back, and no fix is offered that could not be made.
func TestOtherEncoding(t *testing.T) {
	dir := t.TempDir()
	text := "# coding: latin-1\nimport torch  # \xe9\nBAD\nx = 1  # assay: allow bad-word -- not there\n"
	put(t, filepath.Join(dir, "x.py"), text)
	r, o := checked(t, dir, Unsafe, "x.py")
	if len(r.Items) != 2 || r.Counts.Fixed+r.Counts.Fixable+r.Counts.Unsafe > 0 || len(o.Changed) > 0 {
		t.Errorf("%+v", r)
	}
	for _, i := range r.Items {
		if i.Fix != nil {
			t.Errorf("%s offers a fix", i.Rule)
		}
	}
}

// TestContentAtHand: what an editor holds counts, not what lies on the disk.
func TestContentAtHand(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.py")
	put(t, path, "import torch\nBAD\n")
	o := &Options{Base: dir, Files: []string{"x.py"}, Rules: []*Rule{wanted}, Target: Target{Device: "mps"},
		Changed: map[string][]byte{path: []byte("import torch\n\nBAD\nBAD\n")}}
	r, err := Check(o)
	if err != nil || len(r.Items) != 2 || r.Items[0].Line != 3 {
		t.Errorf("%v %+v", err, r)
	}
}
