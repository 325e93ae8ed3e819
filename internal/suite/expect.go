package suite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/text"
)

// Selection is what a command line chooses of a suite.
type Selection struct {
	Why   string   // what chooses: -k, a path; "": nothing does, the whole suite is meant
	paths []string // folders and files that were named, where nothing else chooses
}

// names of the command: words that it begins with.
var names = []string{"pytest", "py.test"}

// choosers are pytest's options that leave tests out, and those of plugins for that.
var choosers = []string{"-k", "-m", "--deselect", "--ignore", "--ignore-glob", "--lf", "--last-failed", "--sw",
	"--stepwise", "--collect-only", "--co", "--testmon", "--picked", "--splits", "--shard-id", "--num-shards"}

// valued are pytest's options whose value, the next word, may be the path of a file that is no test.
var valued = []string{"-c", "--config-file", "--rootdir", "--confcutdir", "--junitxml", "--junit-xml", "--basetemp",
	"--cov", "--cov-config", "-o", "-p", "-n", "-W"}

// Select says what a command chooses of its suite: its words after pytest, and those of PYTEST_ADDOPTS before them.
// exists tells of a word whether there is such a file or folder.
func Select(command []string, addopts string, exists func(string) bool) Selection {
	at := slices.IndexFunc(command, func(w string) bool { return slices.Contains(names, path.Base(w)) })
	words := append(strings.Fields(addopts), command[at+1:]...)
	var s Selection
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, _, _ := strings.Cut(w, "=")
		switch {
		case slices.Contains(valued, w):
			i++
		case slices.Contains(choosers, name):
			return Selection{Why: name}
		case len(w) > 2 && (strings.HasPrefix(w, "-k") || strings.HasPrefix(w, "-m")):
			return Selection{Why: w[:2]}
		case strings.HasPrefix(w, "-"):
		case strings.Contains(w, "::"):
			return Selection{Why: w}
		case exists(w):
			s.Why = cmp.Or(s.Why, w)
			s.paths = append(s.paths, path.Clean(w))
		}
	}
	if slices.Contains(s.paths, ".") {
		return Selection{}
	}
	return s
}

// among keeps of the paths that were named those under which a test was run: ids there begin with them as they were
// typed.
func (s Selection) among(tests map[string]*Test) Selection {
	s.paths = slices.DeleteFunc(slices.Clone(s.paths), func(p string) bool {
		for id := range tests {
			if under(p, id) {
				return false
			}
		}
		return true
	})
	return s
}

// whole says whether a test of that id, were there one, would have been among those of the run.
func (s Selection) whole(id string) bool {
	return s.Why == "" || slices.ContainsFunc(s.paths, func(p string) bool { return under(p, id) })
}

func under(path, id string) bool {
	return strings.HasPrefix(id, path+"/") || strings.HasPrefix(id, path+"::") || id == path
}

// Kinds of what does not go by a manifest.
const (
	NewFailure    = "new failure"
	OtherFailure  = "fails otherwise"
	UnexpectedRun = "passes"
	Untold        = "cannot be told"
	Gone          = "is no longer there"
)

// kinds in the order in which they are shown, each with what to do.
var kinds = []struct{ kind, title string }{
	{NewFailure, "New failures, which the manifest does not have"},
	{OtherFailure, "Fail otherwise than the manifest says"},
	{UnexpectedRun, "Pass, and the manifest expects a failure"},
	{Untold, "Expected to fail, and what they do on the device is not known"},
	{Gone, "In the manifest, and no longer in the suite"},
}

// Departure is a test that does not do what the manifest says, on one release.
type Departure struct {
	Kind, ID string
	Run      *Run
	Text     string // how
}

// Judgement is a result held against a manifest.
type Judgement struct {
	Expected   int // failures as the manifest has them, of all runs
	CPUToo     int // failures that it does not have, and which the CPU has too: they are not MPS's
	NotChosen  int // entries whose tests were left out by what the command line chose
	Why        string
	Departures []Departure
}

// Judge holds the runs against the manifest.
func (m *Manifest) Judge(runs []Run, chosen Selection) (*Judgement, error) {
	j := &Judgement{Why: chosen.Why}
	expected := m.byID()
	gone, left := map[*Expected]bool{}, map[*Expected]bool{}
	for i := range runs {
		run := &runs[i]
		on, tests, err := run.indexed()
		if err != nil {
			return nil, err
		}
		for k := range run.Tests {
			t := &run.Tests[k]
			at := slices.IndexFunc(expected[t.ID], func(e *Expected) bool { return e.on.has(on) })
			switch {
			case at >= 0:
				if kind, how := expected[t.ID][at].judge(t, run.device()); kind != "" {
					j.Departures = append(j.Departures, Departure{kind, t.ID, run, how})
				} else {
					j.Expected++
				}
			case t.Bad():
				how := failure(t)
				if listed := expected[t.ID]; len(listed) > 0 {
					how += fmt.Sprintf("; listed for torch %s alone", listed[0].on)
				}
				j.Departures = append(j.Departures, Departure{NewFailure, t.ID, run, how})
			case t.Outcome.fails():
				j.CPUToo++
			}
		}
		asked := chosen.among(tests)
		for _, e := range m.entries {
			if !e.on.has(on) || tests[e.ID] != nil {
				continue
			}
			if !asked.whole(e.ID) {
				left[e] = true
			} else if !gone[e] {
				gone[e] = true
				j.Departures = append(j.Departures, Departure{Gone, e.ID, run, ""})
			}
		}
	}
	j.NotChosen = len(left)
	slices.SortStableFunc(j.Departures, func(a, b Departure) int { return strings.Compare(a.ID, b.ID) })
	return j, nil
}

// device is what the tests ran on.
func (r *Run) device() target.Target { return target.Target{Device: r.On} }

// indexed are the release of a run and its tests by id; an error where it is no run on MPS or its double.
func (r *Run) indexed() (series, map[string]*Test, error) {
	if !r.device().IsMPS() {
		return 0, nil, fmt.Errorf("hold the tests against the manifest: it is of MPS, and they ran on %s", r.On)
	}
	on, ok := seriesOf(cmp.Or(r.Torch, r.Installed))
	if !ok {
		return 0, nil, fmt.Errorf("hold the tests against the manifest: %q is no release of PyTorch",
			cmp.Or(r.Torch, r.Installed))
	}
	tests := make(map[string]*Test, len(r.Tests))
	for i := range r.Tests {
		tests[r.Tests[i].ID] = &r.Tests[i]
	}
	return on, tests, nil
}

// judge says how a test departs from its entry; "" where it fails as expected.
func (e *Expected) judge(t *Test, device target.Target) (kind, how string) {
	switch t.Outcome {
	case Failed, Ended, Hung:
		if k := kindOf(t); k != e.Error {
			return OtherFailure, failure(t) + "; expected: " + e.expectation()
		}
		if e.Operator != "" && !e.refused(t, device) {
			return OtherFailure, failure(t) + "; expected: " + e.expectation()
		}
		return "", ""
	case Passed, XPassed:
		if device.Rehearsal() && !t.Device {
			return Untold, "it passed without a tensor on the device"
		}
		return UnexpectedRun, "expected: " + e.expectation()
	case XFailed:
		return UnexpectedRun, "its own mark expects the failure: the manifest need not"
	default:
		return Untold, "it was " + string(t.Outcome)
	}
}

// notImplemented is PyTorch's message for an operator without a kernel: aten/src/ATen/mps/MPSFallback.mm, 2.0 to 2.15.
var notImplemented = regexp.MustCompile(`The operator '(\w+::[\w.]+)' is not currently (?:implemented|supported)`)

// refused says whether a failure is of the operator that is expected. On a real device only the message can tell: where
// it names no operator the failure counts as the one expected.
func (e *Expected) refused(t *Test, device target.Target) bool {
	met := t.Operator
	if met == "" && !device.Rehearsal() {
		said := notImplemented.FindStringSubmatch(t.Text)
		if said == nil {
			return true
		}
		met = said[1]
	}
	base, _, _ := strings.Cut(met, ".")
	return met == e.Operator || base == e.Operator
}

func (e *Expected) expectation() string {
	if e.Operator != "" {
		return e.Error + " by " + e.Operator
	}
	return e.Error
}

// kindOf is what a manifest has in its first column for a failure.
func kindOf(t *Test) string {
	switch t.Outcome {
	case Ended:
		return endedKind
	case Hung:
		return hungKind
	}
	return cmp.Or(t.Error, failedKind)
}

// failure says how a test failed, in a few words.
func failure(t *Test) string {
	s := kindOf(t)
	if t.Operator != "" {
		s += " by " + t.Operator
	}
	if t.Text != "" {
		s += ": " + text.Short(t.Text, 120)
	}
	return s
}

// Status is the exit status of runs that were judged: 0 where all tests were run, and none departs from the manifest;
// pytest's own where that says more than that tests failed.
func (j *Judgement) Status(runs []Run) int {
	worst := 0
	for i := range runs {
		if runs[i].Status > 1 {
			worst = max(worst, runs[i].Status)
		} else if runs[i].Missing != "" || len(j.Departures) > 0 {
			worst = max(worst, 1)
		}
	}
	return worst
}

// maxDepartures is how many tests of a kind are named.
const maxDepartures = 50

// Text writes what a judgement comes to, in lines of at most width columns where their words allow.
func (j *Judgement) Text(out io.Writer, name string, width int) error {
	var b strings.Builder
	for _, k := range kinds {
		n := 0
		for _, d := range j.Departures {
			if d.Kind != k.kind {
				continue
			}
			if n++; n == 1 {
				b.WriteString(k.title + ":\n")
			}
			if n <= maxDepartures {
				line := d.ID + "  torch " + cmp.Or(d.Run.Torch, d.Run.Installed)
				if d.Text != "" {
					line += "  " + d.Text
				}
				b.WriteString(text.Wrapped(line, "  ", "      ", width))
			}
		}
		if n > maxDepartures {
			fmt.Fprintf(&b, "  and %d more: suite.json has all tests\n", n-maxDepartures)
		}
	}
	said := fmt.Sprintf("%s: %d expected failures", name, j.Expected)
	if n := len(j.Departures); n > 0 {
		said += fmt.Sprintf(", %d tests depart from it", n)
	} else {
		said += ", and nothing else fails on MPS"
	}
	if j.CPUToo > 0 {
		said += fmt.Sprintf("; %d other failures are on the CPU too", j.CPUToo)
	}
	if j.NotChosen > 0 {
		said += fmt.Sprintf("; %d of its tests were not asked for (%s)", j.NotChosen, j.Why)
	}
	b.WriteString(text.Wrapped(said+".", "", "  ", width))
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

// Change is what an update did to a manifest: lines that are new, and those that are gone.
type Change struct {
	Added, Removed []string
	Left           []string // ids of tests that cannot stand in a manifest
}

// Update makes the manifest say what the runs came to. asked is how many runs there were to be. An entry stays as it is
// where no run says otherwise: of other releases, of tests that the command left out, that were skipped or had no
// tensor on the device. An error where a run is not complete: nothing is changed then.
func (m *Manifest) Update(runs []Run, asked int, chosen Selection) (Change, error) {
	if len(runs) < asked {
		return Change{}, notComplete(fmt.Sprintf("%d of %d runs were made", len(runs), asked))
	}
	for i := range runs {
		switch {
		case runs[i].Missing != "":
			return Change{}, notComplete(runs[i].Missing)
		case runs[i].Status > 1:
			return Change{}, notComplete(fmt.Sprintf("pytest ended with status %d", runs[i].Status))
		case len(runs[i].Tests) == 0:
			return Change{}, notComplete("no test was run")
		}
	}
	before := m.lines()
	onlyBare := len(m.entries) > 0 && len(runs) == 1 &&
		!slices.ContainsFunc(m.entries, func(e *Expected) bool { return e.on != nil })
	removed, err := m.dropped(runs, chosen)
	if err != nil {
		return Change{}, err
	}
	var c Change
	expected := m.byID()
	for i := range runs {
		on, _, _ := runs[i].indexed()
		for k := range runs[i].Tests {
			t := &runs[i].Tests[k]
			covered := func(e *Expected) bool { return e.on.has(on) }
			if !t.Bad() || slices.ContainsFunc(expected[t.ID], covered) {
				continue
			}
			e := &Expected{ID: t.ID, Error: kindOf(t), on: releases{{on, on}}}
			if t.How == "raised" { // one met on the way may be another in another order of the tests
				e.Operator = t.Operator
			}
			if _, err := parseExpected(e.Error + "\t" + e.ID); err != nil || harmless(e.ID+e.Error) != nil ||
				strings.ContainsRune(e.ID, '\t') {
				c.Left = append(c.Left, t.ID)
				continue
			}
			if onlyBare {
				e.on = nil
			}
			same := func(o *Expected) bool { return o.Error == e.Error && o.Operator == e.Operator }
			if at := slices.IndexFunc(expected[t.ID], same); at >= 0 {
				o := expected[t.ID][at]
				o.on, o.raw = o.on.with(on), ""
				continue
			}
			if old := removed[t.ID]; old != nil {
				e.Reason, e.above = old.Reason, old.above
				delete(removed, t.ID)
			}
			m.entries = append(m.entries, e)
			expected[t.ID] = append(expected[t.ID], e)
		}
	}
	m.Bytes() // sorted
	after := m.lines()
	for line := range after {
		if !before[line] {
			c.Added = append(c.Added, line)
		}
	}
	for line := range before {
		if !after[line] {
			c.Removed = append(c.Removed, line)
		}
	}
	byTest := func(a, b string) int {
		return cmp.Or(strings.Compare(column(a, 1), column(b, 1)), strings.Compare(a, b))
	}
	slices.SortFunc(c.Added, byTest)
	slices.SortFunc(c.Removed, byTest)
	return c, nil
}

func column(line string, n int) string {
	if fields := strings.Split(line, "\t"); n < len(fields) {
		return fields[n]
	}
	return ""
}

// dropped takes from each entry the releases on which a run says otherwise, and the entries of which nothing is left;
// these it gives, by test.
func (m *Manifest) dropped(runs []Run, chosen Selection) (map[string]*Expected, error) {
	for i := range runs {
		if _, _, err := runs[i].indexed(); err != nil {
			return nil, err
		}
	}
	held := map[*Expected]releases{} // of entries for every release: those on which this result has the failure
	gone, there, wrong := map[*Expected]bool{}, map[*Expected]bool{}, map[*Expected]bool{}
	for i := range runs {
		on, tests, _ := runs[i].indexed()
		asked := chosen.among(tests)
		for _, e := range m.entries {
			if !e.on.has(on) {
				continue
			}
			t := tests[e.ID]
			if t == nil && !asked.whole(e.ID) {
				continue
			}
			if t == nil {
				gone[e] = true
			} else {
				there[e] = true
				if kind, _ := e.judge(t, runs[i].device()); kind == "" || kind == Untold {
					held[e] = append(held[e], span{on, on})
					continue
				}
			}
			if e.on == nil {
				wrong[e] = true
			} else {
				e.on, e.raw = e.on.without(on), ""
			}
		}
	}
	removed := map[string]*Expected{}
	kept := m.entries[:0]
	var comments []string // that were no entry's own: they stay
	for _, e := range m.entries {
		if wrong[e] {
			e.on, e.raw = held[e].joined(), ""
		}
		if e.on != nil && len(e.on) == 0 || gone[e] && !there[e] {
			removed[e.ID] = e
			if at := lastEmpty(e.above); at >= 0 {
				comments = append(comments, e.above[:at+1]...)
				e.above = e.above[at+1:]
			}
			continue
		}
		e.above = append(comments, e.above...)
		comments = nil
		kept = append(kept, e)
	}
	m.tail = append(comments, m.tail...)
	m.entries = kept
	return removed, nil
}

// lastEmpty is where the last empty line is; -1 where there is none. What stands above it is of more than one entry.
func lastEmpty(lines []string) int {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i] == "" {
			return i
		}
	}
	return -1
}

func (m *Manifest) lines() map[string]bool {
	lines := map[string]bool{}
	for _, e := range m.entries {
		lines[e.String()] = true
	}
	return lines
}

func notComplete(why string) error {
	return fault.Hint(errors.New("update the manifest: not all tests were run ("+why+"): it stays as it was"),
		"a manifest is written from a whole run; what fails is told without --update too")
}

// Text says what an update did.
func (c Change) Text(out io.Writer, name string, width int) error {
	var b strings.Builder
	for _, part := range []struct {
		sign  string
		lines []string
	}{{"-", c.Removed}, {"+", c.Added}} {
		for i, line := range part.lines {
			if i == maxDepartures {
				fmt.Fprintf(&b, "%s and %d more\n", part.sign, len(part.lines)-i)
				break
			}
			b.WriteString(text.Wrapped(strings.ReplaceAll(line, "\t", "  "), part.sign+" ", "      ", width))
		}
	}
	for _, id := range c.Left {
		said := fmt.Sprintf("%q fails, and its id cannot stand in a manifest.", id)
		b.WriteString(text.Wrapped(said, "", "  ", width))
	}
	said := fmt.Sprintf("%s: %d added, %d taken away.", name, len(c.Added), len(c.Removed))
	if len(c.Added)+len(c.Removed) == 0 {
		said = name + ": nothing to change."
	}
	b.WriteString(text.Wrapped(said, "", "  ", width))
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}
