package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/text"
)

// Difference is what became of a suite's tests since an earlier result of it, run by run.
type Difference struct {
	Runs []RunDifference
	// Remarks are what a reader of the difference has to know: other arguments, other commits.
	Remarks []string
}

// RunDifference is the difference of one run. Each test stands in one list at most.
type RunDifference struct {
	Run          *Run
	NewlyFailing []*Test // Bad here, and it was there and was not
	NewFailing   []*Test // Bad here, and was not in the base at all, or did not run there: not known to be old
	StillFailing []*Test
	NewlyPassing []*Test
	New          []*Test // other tests that the base does not have
	Gone         []*Test // of the base, not collected here
	NotRun       []*Test // here; what they would have come to is not known
}

// Red are the tests that fail and are not known to have failed before.
func (d *RunDifference) Red() []*Test { return slices.Concat(d.NewlyFailing, d.NewFailing) }

// Red counts them over all runs.
func (d *Difference) Red() (n int) {
	for i := range d.Runs {
		n += len(d.Runs[i].Red())
	}
	return n
}

// Unknown says whether a run did not run to its end: what is missing may be new failures.
func (d *Difference) Unknown() bool {
	return slices.ContainsFunc(d.Runs, func(r RunDifference) bool { return r.Run.Missing != "" || len(r.NotRun) > 0 })
}

// Since holds a result beside an earlier one of the same suite. It is an error where they are not comparable: another
// folder, a device or release that the base does not have, no test in common.
func (r *Result) Since(base *Result) (*Difference, error) {
	const again = "make the base with the same command on the base branch"
	refuse := func(format string, args ...any) error {
		return fault.Hint(fmt.Errorf("compare with the base: "+format, args...), again)
	}
	if r.Folder != base.Folder {
		return nil, refuse("another suite: its tests are below %q, those of the base below %q",
			text.Short(r.Folder, 200), text.Short(base.Folder, 200))
	}
	if len(r.Runs) == 0 {
		return nil, fault.Hint(errors.New("compare with the base: the result has no run"), "assay test makes one")
	}
	d := &Difference{}
	if !slices.Equal(r.Command, base.Command) {
		d.Remarks = append(d.Remarks, fmt.Sprintf("the command differs: the base was made with %q, this with %q",
			text.Short(strings.Join(base.Command, " "), 300), text.Short(strings.Join(r.Command, " "), 300)))
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		at := slices.IndexFunc(base.Runs, func(b Run) bool { return b.On == run.On && b.Torch == run.Torch })
		if at < 0 {
			var has []string
			for _, b := range base.Runs {
				has = append(has, text.Short(b.Label(), 100))
			}
			return nil, refuse("the base has no run on %s; it has %s", text.Short(run.Label(), 100),
				strings.Join(has, "; "))
		}
		one, common := since(run, &base.Runs[at])
		if common == 0 && len(run.Tests) > 0 && len(base.Runs[at].Tests) > 0 {
			return nil, refuse("another suite: no test of %s is in the base", text.Short(run.Label(), 100))
		}
		if why := base.Runs[at].Missing; why != "" {
			d.Remarks = append(d.Remarks, fmt.Sprintf("the base of %s is not whole: %s", text.Short(run.Label(), 100),
				text.Short(why, 300)))
		}
		if was := base.Runs[at].Installed; was != run.Installed {
			d.Remarks = append(d.Remarks, fmt.Sprintf("the base of %s ran with torch %s installed, this with %s",
				text.Short(run.Label(), 100), text.Short(was, 50), text.Short(run.Installed, 50)))
		}
		d.Runs = append(d.Runs, one)
	}
	return d, nil
}

func since(run, base *Run) (d RunDifference, common int) {
	d.Run = run
	before := map[string]*Test{}
	for i := range base.Tests {
		before[base.Tests[i].ID] = &base.Tests[i]
	}
	for i := range run.Tests {
		t := &run.Tests[i]
		was := before[t.ID]
		if was != nil {
			common++
			delete(before, t.ID)
		}
		switch known := was != nil && was.Outcome != NotRun; {
		case t.Outcome == NotRun:
			d.NotRun = append(d.NotRun, t)
		case t.Bad() && !known:
			d.NewFailing = append(d.NewFailing, t)
		case t.Bad() && was.Bad():
			d.StillFailing = append(d.StillFailing, t)
		case t.Bad():
			d.NewlyFailing = append(d.NewlyFailing, t)
		case was == nil:
			d.New = append(d.New, t)
		case was.Bad() && (t.Outcome == Passed || t.Outcome == XPassed):
			d.NewlyPassing = append(d.NewlyPassing, t)
		}
	}
	for i := range base.Tests {
		if t := &base.Tests[i]; before[t.ID] == t {
			d.Gone = append(d.Gone, t)
		}
	}
	return d, common
}

// Lists are those of the difference with what each is called, what matters first.
func (d *RunDifference) Lists() []Changed {
	return []Changed{{Name: "newly failing", Tests: d.NewlyFailing},
		{Name: "failing, not known before", Tests: d.NewFailing}, {Name: "newly passing", Tests: d.NewlyPassing},
		{Name: "gone", Tests: d.Gone}, {Name: "new", Tests: d.New}, {Name: "not run", Tests: d.NotRun},
		{Name: "still failing", Tests: d.StillFailing, Still: true}}
}

// Changed are the tests of a run that changed in one way.
type Changed struct {
	Name  string
	Tests []*Test
	Still bool // they are as they were
}

// shownOfList is how many tests of a list the text names.
const shownOfList = 10

// Text is the difference for a terminal.
func (d *Difference) Text() string {
	b := &strings.Builder{}
	for i := range d.Runs {
		run := &d.Runs[i]
		fmt.Fprintf(b, "Since the base, %s: %s\n", text.Short(run.Run.Label(), 100), run.Tally())
		for _, l := range run.Lists()[:3] {
			for n, t := range l.Tests {
				if n == shownOfList {
					fmt.Fprintf(b, "  %s: %d more\n", l.Name, len(l.Tests)-n)
					break
				}
				fmt.Fprintf(b, "  %s: %s\n", l.Name, text.Short(t.ID, 300))
			}
		}
	}
	for _, r := range d.Remarks {
		fmt.Fprintf(b, "  note: %s\n", r)
	}
	return b.String()
}

// Tally counts what changed, in words.
func (d *RunDifference) Tally() string {
	var parts []string
	for _, l := range d.Lists() {
		if len(l.Tests) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", len(l.Tests), l.Name))
		}
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}
