package suite

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"assay/internal/ci"
	"assay/internal/fault"
)

func TestSum(t *testing.T) {
	r := sample()
	s := SumOf(&r.Runs[0])
	var titles []string
	for _, g := range s.Groups {
		titles = append(titles, g.Title())
	}
	if got, want := strings.Join(titles, "|"),
		"aten::svd: missing|aten::to: dtype|ended the process|hung|ValueError"; got != want {
		t.Errorf("groups %s", got)
	}
	if s.Passed != 3 || s.Failed != 7 || len(s.CPU) != 1 || s.Untouched != 1 || s.Skipped != 1 || s.XFailed != 1 ||
		s.XPassed != 1 || s.CPUUnknown != 1 || s.Groups[0].Met != 1 || len(s.Wrong) != 1 {
		t.Errorf("%+v", s)
	}
	if s.Groups[0].Places[0] != (Place{"lib/linalg.py", 12}) {
		t.Errorf("places %v", s.Groups[0].Places)
	}
	has(t, s.Lead(), "7 of 10 tests that used the device fail.", "1 passing test met")
}

// TestPlaces: what lies outside the repository shows at the test's own line.
func TestPlaces(t *testing.T) {
	r := &Result{Folder: "python"}
	for where, want := range map[string]string{"lib/a.py:3": "python/lib/a.py:3", "../src/a.py:4": "src/a.py:4",
		"../../out.py:4": "python/tests/t.py:9", "/usr/a.py:1": "python/tests/t.py:9", "": "python/tests/t.py:9",
		"<string>:1": "python/tests/t.py:9", "a.py:x": "python/tests/t.py:9", "a.py:-3": "python/tests/t.py:9"} {
		test := &Test{ID: "tests/t.py::test", Where: where, Line: 9}
		if got := r.placeOf(&Group{Tests: []*Test{test}, Places: places([]*Test{test})}).String(); got != want {
			t.Errorf("%q shows at %s, want %s", where, got, want)
		}
	}
}

func TestGitHub(t *testing.T) {
	got := written(t, func(b *bytes.Buffer) error { return sample().WriteGitHub(b, nil, nil) })
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	want := []string{
		"::error title=assay%3A aten%3A%3Asvd%3A missing,file=python/lib/linalg.py,line=12::2 tests fail here on MPS " +
			"2.14, rehearsed; MPS 2.6, rehearsed, as NotImplementedError: aten::svd%0Atests/test_b.py::TestB::" +
			"test_svd[x::y], tests/test_b.py::TestB::test_svd[z]",
		"::error title=assay%3A aten%3A%3Ato%3A dtype,file=python/tests/test_b.py,line=9::",
		"::error title=assay%3A ended the process,file=python/tests/test_a.py,line=50::",
		"::error title=assay%3A hung,file=python/tests/test_a.py,line=60::",
		"::error title=assay%3A ValueError,file=python/tests/test_a.py,line=31::",
		"::error title=assay%3A aten%3A%3Asvd%3A missing,file=python/tests/test_a.py,line=41::",
		"::warning title=assay%3A known wrong result%3A cumsum-2.14,file=python/tests/test_a.py,line=80::",
		"::warning title=assay%3A not known on MPS 2.6%2C rehearsed::stopped: Ctrl-C",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), got)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
}

// TestGitHubHostile: whatever the tests say, no more than ten of a level are printed, each line is one command of ours,
// and the last says what was left out.
func TestGitHubHostile(t *testing.T) {
	got := written(t, func(b *bytes.Buffer) error { return hostileResult().WriteGitHub(b, nil, nil) })
	command := regexp.MustCompile(`^::(error|warning) title=[^,:]*(,file=[^,:]*)?(,line=\d+)?::[^\r\n]*$`)
	count := map[string]int{}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for _, line := range lines {
		m := command.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no command of ours: %q", line)
		}
		count[m[1]]++
	}
	if count["error"] != 10 || count["warning"] != 10 {
		t.Errorf("%v", count)
	}
	last := lines[len(lines)-1]
	has(t, last, "not shown beside the lines", "further lines with", "known wrong results")
	hasNot(t, got, "\x1b", "\x00", "\u202e")
}

func TestJUnit(t *testing.T) {
	got := written(t, func(b *bytes.Buffer) error { return sample().WriteJUnit(b, nil) })
	has(t, got, `<testsuite name="MPS 2.14, rehearsed" tests="14" failures="4" errors="3" skipped="3" time="3.142">`,
		`<property name="torch installed" value="2.15.0+cpu"></property>`,
		`<testcase name="test_svd[x::y]" classname="tests.test_b.TestB"`,
		`type="aten::svd (missing): NotImplementedError"`, `<skipped message="fails on the CPU too: KeyError: &#39;a&#39;"`,
		`<error message="no, no" type="ValueError">`, `<error message="SIGABRT" type="ended">`,
		`passed, and met a known wrong result of the device: cumsum-2.14`, `type="not known"`, `type="not run"`)
}

// TestJUnitLikePytest: every element and attribute is one that pytest's own writer has, in the places where it has
// them; testdata/pytest.xml is what pytest 9.2 wrote (SOURCES.md). Names of tests are told as there.
func TestJUnitLikePytest(t *testing.T) {
	raw, err := os.ReadFile("testdata/pytest.xml")
	if err != nil {
		t.Fatal(err)
	}
	known := shapeOf(t, string(raw))
	for _, r := range []*Result{sample(), hostileResult(), green(), {Version: 1}} {
		text := written(t, func(b *bytes.Buffer) error { return r.WriteJUnit(b, nil) })
		for shape := range shapeOf(t, text) {
			if !known[shape] {
				t.Errorf("pytest does not write %s", shape)
			}
		}
		hasNot(t, text, "\x1b", "\x00", "<script", "\ufffe", "\u202e")
	}
	var theirs, ours ci.JUnit
	if err := xml.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	r := &Result{Version: 1, Runs: []Run{{Tests: []Test{{ID: "test_shapes.py::test_pass", Outcome: Passed},
		{ID: "test_shapes.py::test_fail", Outcome: Failed}, {ID: "test_shapes.py::test_setup", Outcome: Failed,
			Phase: "setup"}, {ID: "test_shapes.py::test_skip", Outcome: Skipped},
		{ID: "test_shapes.py::test_xfail", Outcome: XFailed},
		{ID: "test_shapes.py::TestIn::test_in[a::b]", Outcome: Passed}}}}}
	if err := xml.Unmarshal([]byte(written(t, func(b *bytes.Buffer) error { return r.WriteJUnit(b, nil) })),
		&ours); err != nil {
		t.Fatal(err)
	}
	var a, b []string
	for _, c := range theirs.Suites[0].Cases {
		a = append(a, describe(c))
	}
	for _, c := range ours.Suites[0].Cases {
		b = append(b, describe(c))
	}
	if !slices.Equal(a, b) {
		t.Errorf("pytest: %q\nassay:  %q", a, b)
	}
	x, y := theirs.Suites[0], ours.Suites[0]
	if x.Tests != y.Tests || x.Failures != y.Failures || x.Errors != y.Errors || x.Skipped != y.Skipped {
		t.Errorf("pytest counts %d %d %d %d, assay %d %d %d %d", x.Tests, x.Failures, x.Errors, x.Skipped, y.Tests,
			y.Failures, y.Errors, y.Skipped)
	}
}

func describe(c ci.JUnitCase) string {
	what := "passed"
	switch {
	case c.Failure != nil:
		what = "failure"
	case c.Error != nil:
		what = "error"
	case c.Skipped != nil:
		what = "skipped"
	}
	return c.Class + "." + c.Name + " " + what
}

// shapeOf are the paths of elements and attributes of a file of XML; a property's value and name count as such.
func shapeOf(t *testing.T, text string) map[string]bool {
	t.Helper()
	shapes := map[string]bool{}
	var path []string
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return shapes
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			at := strings.Join(path, "/")
			shapes[at] = true
			for _, a := range token.Attr {
				// pytest gives a cause its type where it skips; the schema of Jenkins has it for all three.
				if a.Name.Local == "type" {
					continue
				}
				shapes[at+"@"+a.Name.Local] = true
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

func TestSARIF(t *testing.T) {
	raw, err := os.ReadFile("../audit/testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	big := green()
	for i := range ci.SARIFResults + 7 {
		big.Runs[0].Tests = append(big.Runs[0].Tests, Test{ID: "tests/t.py::test", Outcome: Failed, Line: i + 1})
	}
	for _, r := range []*Result{sample(), green(), {Version: 1}, hostileResult()} {
		text := written(t, func(b *bytes.Buffer) error { return r.WriteSARIF(b) })
		log, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(log); err != nil {
			t.Errorf("%.2000v", err)
		}
		hasNot(t, text, "\x1b", "\u202e")
	}
	var log struct {
		Runs []struct {
			Results     []struct{ RuleID string }
			Invocations []struct {
				ToolExecutionNotifications []struct{ Message struct{ Text string } }
			}
		}
	}
	text := written(t, func(b *bytes.Buffer) error { return big.WriteSARIF(b) })
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	if n := len(log.Runs[0].Results); n != ci.SARIFResults {
		t.Errorf("%d results", n)
	}
	has(t, text, "7 results beyond GitHub's limits were left out")
	has(t, written(t, func(b *bytes.Buffer) error { return sample().WriteSARIF(b) }), `"uri": "python/lib/linalg.py"`,
		`"ruleId": "suite-aten-svd-missing"`, `"ruleId": "suite-wrong-cumsum-2.14"`, "2 tests fail here on")
}

func TestSummary(t *testing.T) {
	text := sample().Summary(nil, nil, SummaryLimit)
	has(t, text, "| ❌ MPS 2.14, rehearsed | 3 | 7 | 1 | 1 | 1 |  |", `stopped: Ctrl-C`,
		"7 of 10 tests that used the device fail.",
		`| aten::svd | missing | 3 (1 met it, and failed by something else) | 2.0 | lib/linalg.py:12 and 1 other line |`,
		"| ended the process | 1 |", "Known wrong results that passing tests met", "cumsum-2.14")
	if a, b := strings.Index(text, "Refused by the device"), strings.Index(text, "Other failures"); a < 0 || a > b {
		t.Error("operators are not first")
	}
	has(t, green().Summary(nil, nil, SummaryLimit), "✅ MPS 2.14")
}

// TestSummaryLimit: GitHub takes a mebibyte of a step or nothing; the file may have something in it already.
func TestSummaryLimit(t *testing.T) {
	whole := hostileOf(100).Summary(nil, nil, SummaryLimit)
	big := hostileOf(220)
	for i := range big.Runs {
		for k := range big.Runs[i].Tests {
			t := &big.Runs[i].Tests[k]
			t.Text, t.Operator, t.Cause = strings.Repeat(hostile, 6), "", ""
		}
	}
	for len(big.Runs) < 30 {
		big.Runs = append(big.Runs, Run{On: "mps", Torch: big.Runs[0].Torch, Tests: big.Runs[0].Tests})
	}
	for _, limit := range []int{SummaryLimit, 150, 0} {
		text := big.Summary(nil, nil, limit)
		if len(text) > limit {
			t.Errorf("%d bytes of %d", len(text), limit)
		}
		if limit >= 150 {
			has(t, text, "did not fit into GitHub's limit")
		}
	}
	hasNot(t, whole, "<script", "\x1b", "\x00", "\u202e", "\r")

	step := filepath.Join(t.TempDir(), "summary.md")
	before := strings.Repeat("x", SummaryLimit-120_000) + "\n"
	if err := os.WriteFile(step, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := big.SummaryTo(step, step, nil, nil); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(step)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(after), before+"## assay test") || len(after) > SummaryLimit {
		t.Errorf("%d bytes: %.30q", len(after), after[len(before):])
	}
	if err := big.SummaryTo(step, "", nil, nil); err != nil {
		t.Fatal(err)
	}
	if after, _ = os.ReadFile(step); !strings.HasPrefix(string(after), "## assay test") {
		t.Error("a file of the user's own is not written anew")
	}
}

func TestBadge(t *testing.T) {
	for name, one := range map[string]struct {
		of    func(*Result)
		value string
		state State
	}{
		"all is well": {func(*Result) {}, "1 of 1", StateGood},
		"a known wrong result beside it": {func(r *Result) { r.Runs[0].Tests[0].Wrong = []string{"a"} },
			"1 of 1, 1 known wrong", StateWrong},
		"cut off":              {func(r *Result) { r.Runs[0].Missing = "C" }, "1 passed, others unknown", StateUnknown},
		"none used the device": {func(r *Result) { r.Runs[0].Tests[0].Device = false }, "unknown", StateUnknown},
		"one did not run": {func(r *Result) {
			r.Runs[0].Tests = append(r.Runs[0].Tests, Test{ID: "b", Outcome: NotRun})
		}, "1 passed, others unknown", StateUnknown},
		"a word that is not known": {func(r *Result) {
			r.Runs[0].Tests = append(r.Runs[0].Tests, Test{ID: "b", Outcome: "splendid", Device: true})
		}, "1 passed, others unknown", StateUnknown},
		"one failed": {func(r *Result) {
			r.Runs[0].Tests = append(r.Runs[0].Tests, Test{ID: "b", Outcome: Failed, Device: true})
		}, "1 of 2", StateBad},
		"no run":           {func(r *Result) { r.Runs = nil }, "unknown", StateUnknown},
		"the worst of two": {func(r *Result) { r.Runs = sample().Runs }, "3 of 10, 1 known wrong on 2.14", StateBad},
	} {
		r := green()
		one.of(r)
		_, value, state := r.badge()
		if value != one.value || state != one.state {
			t.Errorf("%s: %q, %d", name, value, state)
		}
		svg := written(t, func(b *bytes.Buffer) error { return r.WriteBadge(b) })
		if isGreen := strings.Contains(svg, colours[StateGood]); isGreen != (state == StateGood) {
			t.Errorf("%s: green is %t", name, isGreen)
		}
	}
	svg := written(t, func(b *bytes.Buffer) error { return hostileResult().WriteBadge(b) })
	hasNot(t, svg, "<script", "\x1b", "\x00", "\u202e")
	if shapeOf(t, svg); !utf8.ValidString(svg) {
		t.Error("no UTF-8")
	}
}

func TestSince(t *testing.T) {
	base, now := sample(), sample()
	if d, err := now.Since(base); err != nil || d.Red() != 0 || len(d.Runs[0].StillFailing) != 7 {
		t.Errorf("against itself: %+v, %v", d, err)
	}
	tests := now.Runs[0].Tests
	tests[0].Outcome, tests[0].Error = Failed, "ValueError" // was passed
	tests[8].Outcome = Passed                               // was failed
	tests[5].CPU = Passed                                   // failed on the CPU too
	tests = append(tests, Test{ID: "tests/test_b.py::test_zz_new", Outcome: Failed, Device: true},
		Test{ID: "tests/test_b.py::test_zz_new_fine", Outcome: Passed, Device: true})
	now.Runs[0].Tests = slices.Delete(tests, 11, 12) // test_skip
	now.Runs[1].Tests[2].Outcome = Failed            // did not run in the base
	d, err := now.Since(base)
	if err != nil {
		t.Fatal(err)
	}
	has(t, d.Text(), "MPS 2.14, rehearsed: 2 newly failing, 1 failing, not known before, 1 newly passing, "+
		"1 gone, 1 new, 6 still failing\n", "  newly failing: tests/test_a.py::test_fine\n  newly failing: tests/test_a.py::test_too\n",
		"  failing, not known before: tests/test_b.py::test_zz_new\n", "MPS 2.6, rehearsed: 1 failing, not known before",
		"note: the base of MPS 2.6, rehearsed is not whole: stopped: Ctrl-C\n")
	if d.Red() != 4 || !d.Unknown() {
		t.Errorf("red %d, unknown %t", d.Red(), d.Unknown())
	}
	got := written(t, func(b *bytes.Buffer) error { return now.WriteGitHub(b, d, nil) })
	has(t, got, "::error title=assay%3A ValueError,file=python/tests/test_a.py",
		"6 tests of MPS 2.14, rehearsed that failed")
	hasNot(t, got, "linalg.py")
	has(t, now.Summary(d, nil, SummaryLimit), "### Since the base",
		"<summary>2 newly failing on MPS 2.14, rehearsed</summary>")
}

// TestSinceRefuses what is no earlier result of the same suite.
func TestSinceRefuses(t *testing.T) {
	for want, change := range map[string]func(*Result){
		`another suite: its tests are below "python", those of the base below "src"`: func(r *Result) { r.Folder = "src" },
		"the base has no run on MPS 2.6, rehearsed; it has MPS 2.14, rehearsed":      func(r *Result) { r.Runs = r.Runs[:1] },
		"the base has no run on MPS 2.14, rehearsed; it has MPS 2.14; MPS 2.6, rehearsed": func(r *Result) {
			r.Runs[0].On = "mps"
		},
		"another suite: no test of MPS 2.14, rehearsed is in the base": func(r *Result) {
			r.Runs[0].Tests = []Test{{ID: "other.py::test", Outcome: Passed}}
		},
	} {
		base := sample()
		change(base)
		_, err := sample().Since(base)
		if err == nil || !strings.Contains(err.Error(), want) || fault.HintOf(err) == "" {
			t.Errorf("%v, want %s", err, want)
		}
	}
	base := sample()
	base.Command = []string{"pytest"}
	d, err := sample().Since(base)
	if err != nil {
		t.Fatal(err)
	}
	has(t, d.Text(), `note: the command differs: the base was made with "pytest", this with "pytest -q tests"`)
}

// TestFormsWithManifest: what the manifest expects is no error, and what departs from it is.
func TestFormsWithManifest(t *testing.T) {
	r := sample()
	run := &r.Runs[0]
	j := &Judgement{Expected: 6, Departures: []Departure{
		{Kind: NewFailure, ID: "tests/test_b.py::test_double", Run: run},
		{Kind: UnexpectedRun, ID: "tests/test_a.py::test_fine", Run: run}, {Kind: Gone, ID: "tests/gone.py::test"}}}
	got := written(t, func(b *bytes.Buffer) error { return r.WriteGitHub(b, nil, j) })
	has(t, got, "::error title=assay%3A aten%3A%3Ato%3A dtype,file=python/tests/test_b.py,line=9::",
		"::error title=assay%3A passes against the manifest,file=python/tests/test_a.py,line=3::",
		"6 failures that the manifest expects")
	if n := strings.Count(got, "::error"); n != 2 {
		t.Errorf("%d errors:\n%s", n, got)
	}
	got = written(t, func(b *bytes.Buffer) error { return r.WriteJUnit(b, j) })
	has(t, got, `tests="14" failures="2" errors="0" skipped="9"`, `type="expected by the manifest"`,
		`message="passes, and the manifest expects a failure"`)
	has(t, r.Summary(nil, j, SummaryLimit), "6 failures as it expects, 3 not.",
		`- new failure: tests/test\_b.py::test\_double on MPS 2.14, rehearsed`)
}
