package suite

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"assay/internal/text"
)

// problem is one cause at one line of the repository, over all runs: what an annotation or a result of SARIF is about.
type problem struct {
	Group Group // of the first run that has it; its Tests are those of that run alone
	Place Place // from the top of the repository; no File: nowhere in it
	On    []string
	Tests []string // ids, over all runs, each once
	Text  string   // of the first test
	first bool     // of its cause
}

// problems lists them, in the order in which they matter: a line for each operator first, the operator with most tests
// before the others, then ends, hangs and other exceptions, then the further lines of each. keep says which tests
// count; nil: all.
func (r *Result) problems(keep map[*Test]bool) []*problem {
	type at struct {
		cause groupKey
		place Place
	}
	known := map[at]*problem{}
	seen := map[at]map[string]bool{}
	tests := map[groupKey]map[string]bool{} // of a cause, at all lines
	var list []*problem
	for i := range r.Runs {
		run := &r.Runs[i]
		sum := SumOf(run)
		sum.Advise()
		for _, g := range sum.Groups {
			cause := groupKey{g.Kind, g.Operator, g.Cause}
			if tests[cause] == nil {
				tests[cause] = map[string]bool{}
			}
			for _, t := range g.Tests {
				if keep != nil && !keep[t] {
					continue
				}
				tests[cause][t.ID] = true
				one := Group{Kind: g.Kind, Operator: g.Operator, Cause: g.Cause, Tests: []*Test{t},
					Places: []Place{t.Place()}}
				k := at{cause, r.placeOf(&one)}
				p := known[k]
				if p == nil {
					one.From, one.Remedy = g.From, g.Remedy
					p = &problem{Group: one, Place: k.place, Text: t.Short()}
					known[k], seen[k] = p, map[string]bool{}
					list = append(list, p)
				}
				if !slices.Contains(p.On, run.Label()) {
					p.On = append(p.On, run.Label())
				}
				if !seen[k][t.ID] {
					seen[k][t.ID] = true
					p.Tests = append(p.Tests, t.ID)
				}
			}
		}
	}
	key := func(p *problem) groupKey { return groupKey{p.Group.Kind, p.Group.Operator, p.Group.Cause} }
	slices.SortStableFunc(list, func(a, b *problem) int {
		return cmp.Or(cmp.Compare(a.Group.Kind, b.Group.Kind), len(tests[key(b)])-len(tests[key(a)]),
			strings.Compare(a.Group.Operator, b.Group.Operator), strings.Compare(a.Group.Cause, b.Group.Cause),
			len(b.Tests)-len(a.Tests), strings.Compare(a.Place.File, b.Place.File), a.Place.Line-b.Place.Line)
	})
	for i, p := range list {
		p.first = i == 0 || key(list[i-1]) != key(p)
	}
	slices.SortStableFunc(list, func(a, b *problem) int {
		if a.first == b.first {
			return 0
		}
		if a.first {
			return -1
		}
		return 1
	})
	return list
}

// says is the problem in a sentence or two, n tests named at most.
func (p *problem) says(n int) string {
	var names []string
	for i, id := range p.Tests {
		if i == n {
			names = append(names, fmt.Sprintf("and %d more", len(p.Tests)-n))
			break
		}
		names = append(names, text.Short(id, 200))
	}
	fail := " fail here on "
	if len(p.Tests) == 1 {
		fail = " fails here on "
	}
	return count(len(p.Tests), "test") + fail + text.Short(strings.Join(p.On, "; "), 300) + ", as " +
		text.Short(p.Text, 400) + "\n" + strings.Join(names, ", ") + p.remedy()
}

func (p *problem) remedy() string {
	if p.Group.Remedy == "" {
		return ""
	}
	return "\n" + text.Short(p.Group.Remedy, 500)
}

// failing are the tests that fail, and not as the manifest says.
func (j *Judgement) failing() map[*Test]bool {
	keep := map[*Test]bool{}
	for t := range j.departed(NewFailure, OtherFailure) {
		keep[t] = true
	}
	return keep
}

// passing are the tests that pass against the manifest, in its order; none without one.
func (j *Judgement) passing() iter.Seq2[*Test, *Run] { return j.departed(UnexpectedRun) }

// departed are the tests that depart from the manifest in one of these ways, in its order.
func (j *Judgement) departed(kinds ...string) iter.Seq2[*Test, *Run] {
	return func(yield func(*Test, *Run) bool) {
		if j == nil {
			return
		}
		byID := map[*Run]map[string]*Test{}
		for _, d := range j.Departures {
			if d.Run == nil || !slices.Contains(kinds, d.Kind) {
				continue
			}
			if byID[d.Run] == nil {
				byID[d.Run] = map[string]*Test{}
				for i := range d.Run.Tests {
					byID[d.Run][d.Run.Tests[i].ID] = &d.Run.Tests[i]
				}
			}
			if t := byID[d.Run][d.ID]; t != nil && !yield(t, d.Run) {
				return
			}
		}
	}
}

// failing are the tests of a difference that are red, for problems; nil without a difference.
func (d *Difference) failing() map[*Test]bool {
	if d == nil {
		return nil
	}
	keep := map[*Test]bool{}
	for i := range d.Runs {
		for _, t := range d.Runs[i].Red() {
			keep[t] = true
		}
	}
	return keep
}
