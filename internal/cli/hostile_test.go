package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// evil is what a stranger's text may hold against a terminal: a title, a clipboard, a bell, a backspace, colours, C1,
// direction, lines of its own, and bytes that are no UTF-8.
const evil = "\x1b]0;owned\x07\x1b]52;c;cm0=\x1b\\\x1b[2J\x1b[31m\a\b\b\x7f\u009b31m\u0085\u202e\u2066\u200f\u061c\u2028\u2029\r\xff\x9d"

func harmless(t *testing.T, name, out string) {
	t.Helper()
	at := strings.IndexFunc(out, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
			strings.ContainsRune("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
				r)
	})
	if at >= 0 || !utf8.ValidString(out) {
		from := max(0, at-80)
		t.Errorf("%s: a terminal obeys what is printed: %q", name, out[from:min(len(out), from+200)])
	}
}

// TestNothingStrangeReachesTheTerminal: whatever a log, a run, a source, a policy, a record or an argument holds, the
// text forms show it and a terminal does not obey it.
func TestNothingStrangeReachesTheTerminal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("x.log",
		"epoch"+evil+"\nTraceback (most recent call last):\n  File \"/u/"+evil+".py\", line 3, in f\nFrobError: "+evil+"it\n"+
			"NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device."+evil+"\n[ERROR] "+evil+" gone\n"+
			"RuntimeError: MPS backend out of memory (MPS allocated: 1.00 GB, other allocations: 0 bytes, max allowed: 2.00 GB). Tried to allocate 7.00 GB on "+evil+" pool\n")
	run := *evidence.NewRun("r" + evil)
	run.Started = time.Now()
	run.Subject = evidence.Subject{Kind: "script", Script: "t" + evil + ".py", Command: []string{"python", evil}}
	run.Target = evidence.Target{Device: "mps" + evil, Framework: "torch", Release: "2.8.0" + evil, Asked: evil,
		System: evil}
	run.Outcome = evidence.Outcome{Started: true, Error: "FrobError: " + evil, Where: evil + ":3", Reason: evil}
	run.Figures = []evidence.Figure{evidence.Unknown("step.time", "s", evil)}
	run.Findings = []evidence.Finding{{Name: "n" + evil, Severity: evidence.Warning, Text: evil, Hint: evil,
		Where: evil, Basis: evidence.Measured}}
	run.Syncs = []evidence.SyncPoint{{Call: evil, Where: evil, Count: 3}}
	run.Fallbacks = []evidence.Fallback{{Operator: evil, Where: evil, Count: 1}}
	run.Operators = []evidence.Operator{{Name: evil, Self: 1}}
	run.Profile.Trace = evil + ".json"
	run.Provenance = evidence.Provenance{Build: evil, Dirty: evil, Commit: evil}
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	write("run/evidence.json", string(data))
	for name, loss := range map[string]float64{"here": 1, "there": 2} { // to be compared
		l, rate := run, 0.1
		l.ID, l.Outcome = name+evil, evidence.Outcome{Started: true, Complete: true}
		l.Loss = evidence.LossSeries{Step: []int{1}, Value: []*float64{&loss}, Note: evil}
		l.Logged = []evidence.Series{{Door: evil, Name: evil, Step: []int{1}, Value: []*float64{&loss}, Note: evil},
			{Door: evidence.DoorOptimizer, Name: evil, Step: []int{1}, Value: []*float64{&rate}}}
		l.Provenance.Datasets = []evidence.Dataset{{Type: evil, Missing: evil}}
		l.Provenance.Randomness = []evidence.Setting{{Name: evil, Value: evil, State: evidence.Set, Note: evil},
			{Name: evil + "x", Note: evil, State: evidence.StateUnknown}}
		l.Provenance.Environment = map[string]string{name + evil: evil}
		l.Provenance.Packages = []string{name + evil + "==" + evil}
		if data, err = json.Marshal(l); err != nil {
			t.Fatal(err)
		}
		write(name+"/evidence.json", string(data))
	}
	write("trace/evidence.json", strings.ReplaceAll(string(data), `"trace":"`, `"trace":"x\u001b]0;o\u0007`))
	write("trace/\x1b]0;owned\x07\u202ejson", "{}")
	two := run
	two.Profile.Trace = "\x1b]0;owned\x07\u202ejson"
	if data, err = json.Marshal(two); err != nil {
		t.Fatal(err)
	}
	write("trace/evidence.json", string(data))
	rehearsal := run
	rehearsal.Target.Double = &evidence.Double{Release: evil, Installed: evil, MacOS: evil, Chip: evil, Memory: 1 << 34,
		Assumed: []string{evil}, Limits: []string{evil}}
	rehearsal.Rehearsal = &evidence.Rehearsal{
		Operators: []evidence.RehearsedOp{{Operator: evil, Calls: 1, State: evil}},
		Refusals: []evidence.Refusal{{Operator: evil, Cause: "missing" + evil, Error: evil, Text: evil, Where: evil,
			Count: 1, Remedy: evil, Ended: true},
			{Operator: "aten::frob", Cause: "missing", Error: "NotImplementedError", Text: evil + "\n" + evil,
				Where: evil, Count: 1}},
		Remarks: []evidence.RehearsedNote{{Operator: evil, Kind: evil, Text: evil, Where: evil, Count: 1}},
		Tests: &evidence.Tests{Failed: 1, Causes: []evidence.TestCause{{Cause: evil, Operator: evil, Tests: 1,
			Where: evil, Remedy: evil}},
			Failures: []evidence.TestFailure{{ID: evil, Cause: evil, Operator: evil, Error: evil, Text: evil,
				Where: evil, OnCPU: "passed"}}, CPU: evil}}
	rehearsal.Host = evidence.HostReport{Facts: []evidence.Fact{{Name: "chip", Value: evil, Source: evil},
		{Name: evil, Missing: evil}},
		Apps: []evidence.App{{Name: evil, Bytes: 1}}, AppsEnd: []evidence.App{{Name: evil, Bytes: 1}}}
	rehearsal.Limits = []evidence.Limit{{Name: evil, Unit: evil, Source: evil},
		{Name: "long-epoch", Value: 1, Unit: evil, Source: evil}}
	rehearsal.Windows = []evidence.Window{{Name: "steady", First: 1, Last: 2, Steps: 2, Excluded: evil}}
	rehearsal.Figures = []evidence.Figure{{Name: "step.time", Value: new(float64), Unit: "s", Window: "steady",
		Note: evil, Disturbed: evil, Basis: evidence.Basis(evil)},
		{Name: "x" + evil, Value: new(float64), Unit: evil, Basis: evidence.Measured}}
	if data, err = json.Marshal(rehearsal); err != nil {
		t.Fatal(err)
	}
	write("rehearsal/evidence.json", string(data))
	write("baseline.json", "{\"version\": \""+`\u001b[31m\u202e`+"\"}")
	write("requirements.txt", "torch==2.8.0"+evil+"\n"+evil+"\n")
	write("src/t.py", "import torch\nx = torch.zeros(3, dtype=torch.float64).to('mps')  # "+evil+"\n")
	write("src/"+strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return -1
		}
		return r
	}, "a"+evil)+".py", "import torch\nx = torch.zeros(3, dtype=torch.float64).to('mps')\n")
	write("src/::error ::y.py", "import torch\nx = torch.zeros(3, dtype=torch.float64).to('mps')\n")
	write("src/bad.py", "x = (\n"+evil)
	write("bad.toml", "[[gate]]\nname = \"a\"\nrule = \"step.time <= "+`\u001b[31m`+" 3\"\n")
	write("gates.toml",
		"[[gate]]\nname = \"a\\u001b[31m\\u202e\"\nrule = \"failures == 0\\u0009\"\nbecause = \"b\\u001b]0;x\\u0007\"\nsource = \"\\u009b\"\n")
	write("keys.toml", "[[gate]]\nname = \"a\"\n\"\\u001b[31m\\u202e\" = 3\n")

	for _, args := range [][]string{
		{"explain", "x.log"}, {"explain", "run"}, {"explain", "no such " + evil},
		{"explain", "nothing" + strings.ReplaceAll(evil, "\x00", "")},
		{"show", "run"}, {"show", "--trace", "run"}, {"show", "--trace", "trace"}, {"show", "no" + evil},
		{"check", "src"}, {"check", "--format", "concise", "src"}, {"check", "no" + evil},
		{"gate", "run", "--policy", "bad.toml"}, {"gate", "run", "--policy", "gates.toml"},
		{"gate", "run", "--policy", "keys.toml"}, {"gate", "run", "--policy", evil},
		{"show", "rehearsal"}, {"explain", "rehearsal"}, {"gate", "rehearsal", "run"}, {"verdict", "rehearsal", "run"},
		{"log", "import", "rehearsal"},
		{"log", "diff", "run", "rehearsal"}, {"log", "verify"}, {"gate", "--against", evil, "run"},
		{"verdict", "--declare", evil, "run"},
		{"doctor", "--require", evil}, {"doctor", "--python", evil}, {"doctor"}, {"check", "requirements.txt"},
		{"check", "--baseline", "baseline.json", "src"},
		{"check", "--torch", evil, "src"}, {"init", "--torch", evil}, {"run", "--on", evil, "--", "true"},
		{"run", "--warn-epoch", evil, "--", "true"},
		{"run", "--out", "o" + strings.ReplaceAll(evil, "\x00", ""), "--", "no" + evil}, {"try", evil},
		{"try", "m:" + evil, "--input", evil},
		{"ops", "conv2d", "--torch", evil}, {"ops", "--diff", evil, evil}, {"ops", "--api", evil},
		{"verdict", "run"}, {"ops", evil}, {"ops", "--diff", "2.7", "2.8" + evil}, {"rule", evil}, {evil},
		{"show", "--" + evil},
		{"try", evil}, {"try", "a:b", "--on", evil}, {"try", "a:b", "--python", "/no/" +
			strings.ReplaceAll(evil, "\x00", "")},
		{"log", "reject", "h" + evil, "--because", evil}, {"log", "import", "run"}, {"log"}, {"log", "show", evil},
		{"log", "note", "r", "n" + evil},
		{"log", "query", "SELECT title AS 'a\u202e\x1b[31m', '" + evil + "' FROM record"}, {"log", "query", evil},
		{"log", "export", "--markdown"},
		{"compare", "run", "rehearsal"}, {"compare", "here", "there"}, {"compare", "here", "there", "--markdown", "-"},
		{"compare", "here", "there", "--html", "-"}, {"compare", "here", "there", "--metric", evil},
		{"compare", "here", "there", "--with", evil}, {"compare", "here", "there", "--allow", evil},
		{"compare", "here", "there", "--with", "here"},
	} {
		var out, errs bytes.Buffer
		env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: dir, Now: time.Now,
			Environ: []string{"PATH=" + os.Getenv("PATH"),
				"HOME=" + dir, "TMPDIR=" + t.TempDir(), "PYTORCH_ENABLE_MPS_FALLBACK=" + evil, "PYTORCH_MPS_" + evil +
					"=1",
				"PYTHONPATH=" + evil, "COLUMNS=" + evil}}
		Main(env, args)
		name := args[0]
		if len(args) > 1 && len(args[1]) < 12 {
			name += " " + args[1]
		}
		harmless(t, name+", standard output", out.String())
		harmless(t, name+", standard error", errs.String())
		if out.Len()+errs.Len() == 0 && args[0] != "rule" {
			t.Errorf("%q printed nothing", args)
		}
		for line := range strings.Lines(out.String() + errs.String()) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") {
				t.Errorf("%s: a workflow's command: %q", name, line)
			}
		}
	}
}

// TestReportNotWritten: the summary names the page and the evidence only where they are.
func TestReportNotWritten(t *testing.T) {
	for _, c := range []struct {
		inTheWay, names string
		not             []string
	}{
		{"report.html evidence.json", "was not written", []string{"report     "}},
		{"report.html", "evidence   ", []string{"report     "}},
		{"evidence.json", "report     ", []string{"evidence.json beside"}},
		{"", "report     ", []string{"was not written"}},
	} {
		dir := t.TempDir()
		script := "for f in " + c.inTheWay + "; do mkdir -p r/$f/x; done"
		var out, errs bytes.Buffer
		env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: dir, Now: time.Now,
			Environ: append(os.Environ(), "ASSAY_CACHE="+t.TempDir())}
		if got := Main(env, []string{"run", "--logbook", "off", "--out", "r", "--", "sh", "-c", script}); got != 0 {
			t.Fatalf("%q: status %d: %s", c.inTheWay, got, errs.String())
		}
		if !strings.Contains(errs.String(), c.names) {
			t.Errorf("%q in the way: does not say %q:\n%s", c.inTheWay, c.names, errs.String())
		}
		for _, not := range c.not {
			if strings.Contains(errs.String(), not) {
				t.Errorf("%q in the way: says %q:\n%s", c.inTheWay, not, errs.String())
			}
		}
		for _, line := range strings.Split(errs.String(), "\n") {
			if path, ok := strings.CutPrefix(line, "report     "); ok {
				if info, err := os.Stat(filepath.Join(dir, strings.Split(path, ",")[0])); err != nil || info.IsDir() {
					t.Errorf("%q in the way: %s is not there", c.inTheWay, path)
				}
			}
		}
	}
}

// TestNothingStrangeInFormsForMachines: whatever a source and its name hold, GitHub gets one command a finding, JUnit
// is XML, SARIF and JSON are JSON.
func TestNothingStrangeInFormsForMachines(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a.py", "::error ::y.py", "a,b=c:d.py", "a%0A::error::x.py", "a\n::error::z.py",
		"a\r::error::z.py", "]]>&<x a=\"b\">.py", "a\x1b[31m\u202e.py", "a\xff\u2028.py", "a\x01\ufffe.py"}
	for _, name := range names {
		source := "import torch\n# ]]> <x> ::error::x \x1b[31m\nx = torch.zeros(3, dtype=torch.float64).to('mps')\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(format string) string {
		var out, errs bytes.Buffer
		env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: dir, Now: time.Now}
		if got := Main(env, []string{"check", "--format", format, "."}); got != fault.GateFailed {
			t.Fatalf("%s: status %d: %s", format, got, errs.String())
		}
		return out.String()
	}
	lines := strings.Split(strings.TrimRight(check("github"), "\n"), "\n")
	if len(lines) != len(names) {
		t.Errorf("%d commands for %d findings: %q", len(lines), len(names), lines)
	}
	for _, line := range lines {
		properties, _, _ := strings.Cut(strings.TrimPrefix(line, "::"), "::")
		if !strings.HasPrefix(line, "::error ") || strings.ContainsAny(line, "\r\n") ||
			strings.Count(properties, ",") != 5 {
			t.Errorf("no command of one finding: %q", line)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(check("junit")))
	cases := 0
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("junit: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "testcase" {
			cases++
		}
	}
	if cases != len(names) {
		t.Errorf("junit: %d cases", cases)
	}
	for _, format := range []string{"sarif", "json"} {
		if out := check(format); !json.Valid([]byte(out)) || strings.Count(out, "float64-on-mps") < len(names) {
			t.Errorf("%s: %s", format, out)
		}
	}
}
