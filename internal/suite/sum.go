package suite

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/target"
)

// Sum is what the tests of a run come to. Only a test that had a tensor on the device, or that the device failed, says
// something about the device: Passed and Failed count those alone.
type Sum struct {
	Run *Run
	// Blind: on a real device it is not recorded which tests had a tensor there. Passed then counts all that passed,
	// and nothing is known of how many say anything about the device.
	Blind  bool
	Passed int     // of those that had a tensor on the device; xpassed ones too
	Failed int     // Test.Bad
	Groups []Group // of the failed ones: operators first, then ended, hung, other exceptions; each: most tests first
	CPU    []*Test // failed here, and on the CPU too
	// Untouched passed without a tensor on the device.
	Untouched, Skipped, XFailed, XPassed, NotRun int
	// CPUUnknown are of Failed those of which it is not known whether they fail on the CPU too.
	CPUUnknown int
	Wrong      []Known // met by tests that passed, most tests first
}

// Group is tests that failed for one cause.
type Group struct {
	Kind     Kind
	Operator string // of KindOperator
	Cause    string // of KindOperator: evidence.Refusal.Cause; of KindError: the class of the exception
	Tests    []*Test
	Places   []Place // where it was raised, most tests first
	Met      int     // of Tests, those that met the refusal and failed by something else
	From     string  // after Advise, of KindOperator: first release that runs it, as 2.9; "": none, or not known
	Remedy   string  // after Advise, of KindOperator: what to do; "": not known
}

// Kind is what a group is of.
type Kind int

// The kinds, in the order in which they are told.
const (
	KindOperator Kind = iota
	KindEnded
	KindHung
	KindError
)

// Known is a known wrong result that tests met and passed.
type Known struct {
	Name  string // as the knowledge names it
	Tests []*Test
}

// Place is a line of the user's, from rootdir; a Line of 0: not known.
type Place struct {
	File string
	Line int
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Title says in a few words what the tests of the group failed for.
func (g *Group) Title() string {
	switch g.Kind {
	case KindOperator:
		return strings.TrimSuffix(cmp.Or(g.Operator, "a refusal")+": "+g.Cause, ": ")
	case KindEnded:
		return "ended the process"
	case KindHung:
		return "hung"
	}
	return g.Cause
}

// SumOf adds a run up.
func SumOf(run *Run) Sum {
	s := Sum{Run: run}
	s.Blind = !run.Rehearsed() && !run.onCPU() && !slices.ContainsFunc(run.Tests, func(t Test) bool { return t.Device })
	groups, wrong := map[groupKey]*Group{}, map[string]*Known{}
	for i := range run.Tests {
		t := &run.Tests[i]
		switch t.Outcome {
		case Passed, XPassed:
			if t.Outcome == XPassed {
				s.XPassed++
			}
			if !t.Device && !s.Blind && !run.onCPU() {
				s.Untouched++
				continue
			}
			s.Passed++
			for _, name := range t.Wrong {
				if wrong[name] == nil {
					wrong[name] = &Known{Name: name}
				}
				if k := wrong[name]; len(k.Tests) == 0 || k.Tests[len(k.Tests)-1] != t {
					k.Tests = append(k.Tests, t)
				}
			}
			continue
		case Skipped:
			s.Skipped++
			continue
		case XFailed:
			s.XFailed++
			continue
		case Failed, Ended, Hung:
		default: // what this assay has no word for is not known either
			s.NotRun++
			continue
		}
		if !t.Bad() {
			s.CPU = append(s.CPU, t)
			continue
		}
		s.Failed++
		if t.CPU == "" {
			s.CPUUnknown++
		}
		k := keyOf(t)
		g := groups[k]
		if g == nil {
			g = &Group{Kind: k.kind, Operator: k.operator, Cause: k.cause}
			groups[k] = g
		}
		g.Tests = append(g.Tests, t)
		if t.How == "met" {
			g.Met++
		}
	}
	for _, g := range groups {
		g.Places = places(g.Tests)
		s.Groups = append(s.Groups, *g)
	}
	slices.SortFunc(s.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), len(b.Tests)-len(a.Tests), strings.Compare(a.Operator, b.Operator),
			strings.Compare(a.Cause, b.Cause))
	})
	for _, k := range wrong {
		s.Wrong = append(s.Wrong, *k)
	}
	slices.SortFunc(s.Wrong, func(a, b Known) int {
		return cmp.Or(len(b.Tests)-len(a.Tests), strings.Compare(a.Name, b.Name))
	})
	return s
}

type groupKey struct {
	kind            Kind
	operator, cause string
}

func keyOf(t *Test) groupKey {
	switch {
	case t.Operator != "" || t.Cause != "":
		return groupKey{KindOperator, t.Operator, t.Cause}
	case t.Phase == Collecting:
		return groupKey{KindError, "", "not collected: " + cmp.Or(t.Error, "exception not known")}
	case t.Outcome == Ended:
		return groupKey{kind: KindEnded}
	case t.Outcome == Hung:
		return groupKey{kind: KindHung}
	}
	return groupKey{KindError, "", cmp.Or(t.Error, "exception not known")}
}

// Advise fills in what is known about the refusals: it reads the tables of facts and operators.
func (s *Sum) Advise() {
	if !slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Kind == KindOperator }) {
		return
	}
	known := map[groupKey]Row{}
	for _, row := range s.Run.Rows() {
		known[groupKey{KindOperator, row.Operator, row.Cause}] = row
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		row := known[groupKey{g.Kind, g.Operator, g.Cause}]
		g.From, g.Remedy = row.From, row.Remedy
	}
}

// places are the lines at which tests failed, most tests first.
func places(tests []*Test) []Place {
	count := map[Place]int{}
	for _, t := range tests {
		count[t.Place()]++
	}
	var list []Place
	for p := range count {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Place) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return list
}

// File is the test's file, from rootdir.
func (t *Test) File() string {
	file, _, _ := strings.Cut(t.ID, "::")
	return file
}

// Place is the user's line at which the test failed, or else the test's own.
func (t *Test) Place() Place {
	if at := strings.LastIndexByte(t.Where, ':'); at > 0 {
		if line, err := strconv.Atoi(t.Where[at+1:]); err == nil && line > 0 {
			return Place{t.Where[:at], line}
		}
	}
	return Place{t.File(), max(0, t.Line)}
}

// InRepository is a place from the top of the repository, with slashes. ok is false where it lies outside: installed
// packages, generated code.
func (r *Result) InRepository(p Place) (Place, bool) {
	name := filepath.ToSlash(p.File)
	full := path.Join(filepath.ToSlash(r.Folder), name)
	if p.File == "" || path.IsAbs(name) || path.IsAbs(full) || full == "." || full == ".." ||
		strings.HasPrefix(full, "../") || strings.HasPrefix(name, "<") {
		return Place{}, false
	}
	return Place{full, p.Line}, true
}

// placeOf is where a group shows in the repository: its first line that lies there, or else the first test's own.
func (r *Result) placeOf(g *Group) Place {
	for _, p := range g.Places {
		if in, ok := r.InRepository(p); ok {
			return in
		}
	}
	for _, t := range g.Tests {
		if in, ok := r.InRepository(Place{t.File(), max(0, t.Line)}); ok {
			return in
		}
	}
	return Place{}
}

// Unknown says what is not known of a run, "" where all of it is.
func (s *Sum) Unknown() string {
	switch {
	case s.Run.Missing != "":
		return s.Run.Missing
	case s.NotRun > 0:
		return count(s.NotRun, "test") + " did not run"
	case s.Passed+s.Failed == 0:
		return "no test had a tensor on the device"
	case s.Blind:
		return "which tests had a tensor on the device is not recorded on a real one"
	}
	return ""
}

// devices are what a run's device is called; another is called what the file calls it.
var devices = map[string]string{"double": "MPS", "mps": "MPS", "cuda": "CUDA", "cpu": "CPU"}

// Label is what the run was on, as "MPS 2.14, rehearsed": what the double answers is no measurement on a Mac.
func (r *Run) Label() string {
	name := cmp.Or(devices[r.On], r.On, "device not known")
	if r.Torch != "" {
		name += " " + r.Release()
	}
	if r.Rehearsed() {
		name += ", rehearsed"
	}
	return name
}

// Rehearsed says whether the run was on the double.
func (r *Run) Rehearsed() bool { return target.Target{Device: r.On}.Rehearsal() }

// onCPU says whether it was on the CPU, where each test has its tensors on the device.
func (r *Run) onCPU() bool { return target.Target{Device: r.On}.IsCPU() }

// Release is the release as people say it: 2.14 for 2.14.0.
func (r *Run) Release() string {
	if strings.Count(r.Torch, ".") == 2 {
		return strings.TrimSuffix(r.Torch, ".0")
	}
	return r.Torch
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// Lead is the run in one sentence.
func (s *Sum) Lead() string {
	of := s.Passed + s.Failed
	var lead string
	used := " that used the device"
	if s.Blind || s.Run.onCPU() {
		used = ""
	}
	switch {
	case of == 0:
		lead = "No test had a tensor on the device."
	case s.Failed == 0:
		lead = "None of " + count(of, "test") + used + " failed."
	default:
		fail := "fail"
		if s.Failed == 1 {
			fail = "fails"
		}
		lead = strconv.Itoa(s.Failed) + " of " + count(of, "test") + used + " " + fail + "."
	}
	if len(s.Wrong) > 0 {
		tests := map[*Test]bool{}
		for _, k := range s.Wrong {
			for _, t := range k.Tests {
				tests[t] = true
			}
		}
		lead += " " + count(len(tests), "passing test") + " met an operator with a known wrong result."
	}
	if why := s.Unknown(); why != "" && of > 0 {
		lead += " Not all is known: " + why + "."
	}
	return lead
}

// Beside are the tests that the lead does not count, in words, "" where there are none.
func (s *Sum) Beside() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{s.CPUUnknown, "of the failed not known on the CPU"}, {len(s.CPU), "fail on the CPU too"},
		{s.Untouched, "passed without a tensor on the device"},
		{s.Skipped, "skipped"}, {s.XFailed, "failed as expected"}, {s.XPassed, "passed against expectation"},
		{s.NotRun, "not run"}} {
		if p.n > 0 {
			parts = append(parts, strconv.Itoa(p.n)+" "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}
