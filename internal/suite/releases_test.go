package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/events"
)

// recorded is a folder with these lines of events.
func recordedAs(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, events.FileName), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestForecast: what one run says of other releases is what came of the same tests on the double of each, operator for
// operator: testdata/SOURCES.md says how both were recorded.
func TestForecast(t *testing.T) {
	f, err := ForecastOf("testdata/releases")
	if err != nil {
		t.Fatal(err)
	}
	came, err := os.ReadFile("testdata/releases/came.txt")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]Foreseen{}
	for _, release := range f.Asked {
		for _, e := range f.At(release) {
			_, name, _ := strings.Cut(e.ID, "::")
			said[release+" "+name] = e
		}
	}
	rows := 0
	for line := range strings.Lines(string(came)) {
		w := strings.Fields(line)
		e, there := said[w[0]+" "+w[1]]
		if !there {
			continue // a release whose last patch release was not the one run
		}
		rows++
		// by which operator is told where the release of the run does not refuse it too
		if string(e.Outcome) != w[2] || e.Refuse != nil && e.Outcome == Failed && e.Refuse.Operator != w[3] {
			t.Errorf("%s %s: %q by %v; it came out %s by %s", w[0], w[1], e.Outcome, e.Refuse, w[2], w[3])
		}
	}
	if rows < 60 {
		t.Errorf("%d rows of came.txt were held against the forecast", rows)
	}
	if f.Lowest() != "" || f.Settled() != "2.14.1" {
		t.Errorf("lowest %q, settled %q", f.Lowest(), f.Settled())
	}
	var text strings.Builder
	if err := f.Text(&text, 100); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.3.1 - 2.12.1       3        -", "  2.0.1                7",
		"  2.1.2          2  aten::roll\n",
		"on the newest, torch 2.15.0, 1 fail; from torch 2.14.1 on it is the same"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, text.String())
		}
	}
}

const asks = `{"c":1,"e":{"ev":"hello","token":"a","version":2}}
{"c":1,"e":{"ev":"releases","on":"2.15.0","asked":["2.8.0","2.14.1","2.15.0"]}}
{"c":1,"e":{"ev":"release_call","n":0,"op":"aten::roll","call":"","aside":[],"refused":[{"op":"aten::roll","cause":"missing","error":"NotImplementedError","text":"no","in":[0]}]}}
{"c":1,"e":{"ev":"release_call","n":1,"op":"aten::flip","call":"","aside":[],"refused":[{"op":"aten::flip","cause":"missing","error":"NotImplementedError","text":"no","in":[0,2]}]}}
`

// TestForecastOfWhatIsNotKnown: what was not seen is not known, and keeps a release from being one on which all pass.
func TestForecastOfWhatIsNotKnown(t *testing.T) {
	test := func(id, rest string) string {
		return `{"c":1,"e":{"ev":"test_releases","id":"` + id + `",` + rest + "}}\n"
	}
	for _, c := range []struct {
		name, line string
		want       [3]Outcome // on 2.8.0, 2.14.1, 2.15.0
	}{
		{"all pass", test("t.py::a", `"outcome":"passed","calls":[]`), [3]Outcome{Passed, Passed, Passed}},
		{"refused before", test("t.py::a", `"outcome":"passed","calls":[0]`), [3]Outcome{Failed, Passed, Passed}},
		{"refused by the run's release alone", test("t.py::a", `"outcome":"failed","calls":[1]`),
			[3]Outcome{Failed, "", Failed}},
		{"the first call counts", test("t.py::a", `"outcome":"failed","calls":[0,1]`), [3]Outcome{Failed, "", Failed}},
		{"not all kept", test("t.py::a", `"outcome":"passed","calls":[],"cut":true`), [3]Outcome{"", "", Passed}},
		{"a call that is not there", test("t.py::a", `"outcome":"passed","calls":[7]`), [3]Outcome{"", "", Passed}},
		{"skipped after a call", test("t.py::a", `"outcome":"skipped","calls":[0]`),
			[3]Outcome{Failed, Skipped, Skipped}},
		{"expected to fail", test("t.py::a", `"outcome":"xpassed","calls":[0],"xfail":["NotImplementedError"]`),
			[3]Outcome{XFailed, XPassed, XPassed}},
		{"expected to fail otherwise", test("t.py::a", `"outcome":"xfailed","calls":[0],"xfail":["ValueError"]`),
			[3]Outcome{Failed, XFailed, XFailed}},
	} {
		f, err := ForecastOf(recordedAs(t, asks+c.line))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i, release := range f.Asked {
			if e := f.At(release)[0]; e.Outcome != c.want[i] || e.Outcome == "" && e.Why == "" {
				t.Errorf("%s: torch %s: %q (%s), want %q", c.name, release, e.Outcome, e.Why, c.want[i])
			}
		}
		if lowest := f.Lowest(); (lowest == "2.8.0") != (c.name == "all pass" || c.name == "expected to fail") {
			t.Errorf("%s: all pass from %q on", c.name, lowest)
		}
	}
	// a test that ended its process told nothing: it is not known elsewhere, and not a pass
	f, err := ForecastOf(recordedAs(t, asks))
	if err != nil {
		t.Fatal(err)
	}
	f.With(&Run{Tests: []Test{{ID: "t.py::a", Outcome: Ended}, {ID: "t.py::b", Outcome: Failed, CPU: Failed}}})
	if e := f.At("2.8.0"); e[0].Outcome != "" || e[0].Why == "" {
		t.Errorf("of one that ended its process: %+v", e[0])
	}
	f.With(&Run{On: "double", Tests: []Test{{ID: "t.py::c", Outcome: Passed}}})
	if f.Missing != "no test had a tensor on the device" {
		t.Errorf("of a suite without a tensor on the device: %q", f.Missing)
	}
	if f, err = ForecastOf(recordedAs(t, asks)); err != nil {
		t.Fatal(err)
	}
	f.With(&Run{On: "double", Tests: []Test{{ID: "t.py::a", Outcome: Ended, Device: true}}})
	if f.Lowest() != "" {
		t.Errorf("all pass from %q on, and one ended its process", f.Lowest())
	}
}

// TestForecastOfStrangers: what is no forecast is one clear error, or left out and said.
func TestForecastOfStrangers(t *testing.T) {
	if _, err := ForecastOf(recordedAs(t, `{"c":1,"e":{"ev":"hello","token":"a"}}`+"\n")); err == nil ||
		!strings.Contains(err.Error(), "it asked none") {
		t.Errorf("a run that asked no release: %v", err)
	}
	f, err := ForecastOf(recordedAs(t, asks+`{"c":1,"e":{"ev":"test_releases","id":7}}`+"\n"))
	if err != nil || f.Missing == "" {
		t.Errorf("a line of another form: %v, %q", err, f.Missing)
	}
	for name, file := range map[string]string{
		"no JSON":           "x",
		"another version":   `{"releases":2}`,
		"a call beyond":     `{"releases":1,"calls":[],"tests":[{"id":"a","calls":[0]}]}`,
		"a call before all": `{"releases":1,"calls":[],"tests":[{"id":"a","calls":[-1]}]}`,
	} {
		path := filepath.Join(t.TempDir(), ReleasesName)
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenForecast(path); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	f.Calls, f.Tests = nil, nil
	path := filepath.Join(t.TempDir(), ReleasesName)
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenForecast(filepath.Dir(path)); err != nil || again.On != "2.15.0" {
		t.Errorf("read back: %v", err)
	}
}

// TestSample: a sample has a test of each change before it has a second of one, and each with both releases.
func TestSample(t *testing.T) {
	f, err := ForecastOf("testdata/releases")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Sample(4, 1)
	if p.Tests != 4 || len(p.Rows) != 8 {
		t.Fatalf("%d tests, %d rows", p.Tests, len(p.Rows))
	}
	by := map[string]bool{}
	for _, r := range p.Rows {
		if r.Operator != "" {
			by[r.Operator] = true
		}
	}
	if len(by) != 4 {
		t.Errorf("of the operators %v", by)
	}
	for release, ids := range p.Runs() {
		run := &Run{}
		for _, id := range ids {
			run.Tests = append(run.Tests, Test{ID: id, Outcome: Passed})
		}
		p.Came(release, run)
	}
	agree := 0
	for _, r := range p.Rows {
		if r.Agrees() {
			agree++
		}
	}
	if agree != 4 {
		t.Errorf("%d of 8 agree where all passed", agree)
	}
}
