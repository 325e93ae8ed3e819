package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/golden"
)

// answer puts it together.
func (c *comparer) answer() {
	r := c.r
	say := func(answer, why string) { r.Answer, r.Why = answer, why }
	cause, bad, low, causes := "", "", "", 0
	for _, s := range r.Start {
		switch {
		case s.Weighs == spoils && bad == "":
			bad = s.Why
		case s.Weighs == loosens && low == "":
			low = s.Why
		case s.Weighs == explains && cause == "":
			cause = s.Why
		case s.Weighs == explains:
			causes++
		}
	}
	if causes > 0 {
		cause += fmt.Sprintf("; and %d more", causes)
	}
	first := r.Operators.First
	if m := r.Modules.First; first == nil {
		first = m
	}
	if first == nil {
		first = r.Weights.First
	}
	ends := c.ends()
	equal := r.Operators.Equal == r.Operators.Compared && r.Modules.Equal == r.Modules.Compared &&
		r.Weights.Equal == r.Weights.Compared && r.Gradients.Equal == r.Gradients.Compared
	edge := c.edge
	compared := r.Operators.Compared + r.Modules.Compared
	found := first != nil && (first.Input != departs || first.Origin != "")
	switch {
	case compared == 0:
		say(golden.NotKnown, "no operator and no module of A has a partner in B")
	case bad != "":
		say(golden.NotKnown, bad)
	case len(r.Random) > 0 && (first == nil || r.Random[0].A < first.A) && r.settingOf(r.Random[0].Module) != "":
		say(golden.Departs, r.Random[0].title()+" drew other random numbers"+r.settingOf(r.Random[0].Module))
	case len(r.Random) > 0 && (first == nil || r.Random[0].A < first.A):
		say(golden.NotKnown, r.Random[0].title()+" drew other random numbers: what comes of them cannot be compared")
	case c.endless != "" && first == nil && edge == nil:
		say(golden.NotKnown, c.endless+" is not finite on both sides: what comes of it cannot be compared")
	case cause != "" && !equal && r.startDeparts():
		say(golden.Departs, cause)
	case edge != nil && (first == nil || edge.A <= first.A):
		say(golden.Departs, strings.TrimSuffix(edge.title()+" is fed otherwise: its input departs, and comes of "+
			edge.InputFrom+": "+edge.InputNote, ": "))
	case cause != "" && !equal && (found || len(ends) > 0 || r.Operators.Beyond+r.Modules.Beyond > 0):
		if first == nil {
			cause += "; " + c.drift()
		}
		say(golden.Departs, cause)
	case first != nil && first.What == "weight":
		say(golden.Departs, fmt.Sprintf("%s is moved otherwise by step %d, by %.1e, where what it is moved by agrees",
			first.Name, first.Step, first.Relative))
	case first != nil:
		said := "its input agrees"
		if first.Input != agrees {
			said = "its input " + first.Input
		}
		say(golden.Departs, fmt.Sprintf("%s is the first whose output departs, by %.1e; %s", first.title(), first.Relative, said)+
			r.settingOf(first.Module))
	case len(ends) > 0 && low != "":
		say(golden.Departs, low+"; "+c.drift()+"; beyond the tolerance are "+strings.Join(ends, ", "))
	case len(ends) > 0:
		say(Drifts, c.drift()+"; beyond the tolerance are "+strings.Join(ends, ", "))
	case !r.A.Complete || !r.B.Complete:
		say(golden.NotKnown, "what was recorded agrees, and a recording is not whole: "+cmp.Or(r.B.Why, r.A.Why))
	case len(r.AloneA)+len(r.AloneB) > 0 && r.Modules.Compared == 0:
		say(golden.NotKnown, "what was compared agrees, and some modules or weights have no partner")
	case equal && len(r.Unaligned) == 0:
		say(golden.Same, "bitwise: every hash is equal")
	case equal:
		say(golden.Same, "bitwise, as far as compared; some operators have no partner, and their modules were compared")
	case r.Operators.Beyond+r.Modules.Beyond > 0:
		say(golden.Same, fmt.Sprintf("equal within: loss, gradients and updates of step 1 agree, and the losses after it; %d "+
			"operators and modules are further apart than their type lets, none of them by itself: they pass on what they were fed", r.Operators.Beyond+
			r.Modules.Beyond))
	default:
		say(golden.Same, "equal within the tolerances, not bitwise")
	}
	rehearsed := slices.IndexFunc(r.Start, func(s Start) bool { return s.What == "rehearsed" })
	if i := rehearsed; i >= 0 && r.Answer == golden.Same {
		r.Answer, r.Why = golden.NotKnown, r.Start[i].Why+"; as computed here: "+r.Why
	}
	if r.Answer == golden.Same && len(r.Settings) > 0 {
		r.Why += "; settings of modules differ, which these numbers do not show"
	}
}

// settingOf is what differs in the settings of a module.
func (r *Result) settingOf(module string) string {
	var said string
	for _, s := range r.Settings {
		if s.Module == module && module != "" {
			said += fmt.Sprintf("; its %s is %s in A and %s in B", s.What, s.A, s.B)
		}
	}
	for _, side := range []struct {
		name  string
		alone []string
	}{{"A", r.AloneA}, {"B", r.AloneB}} {
		for _, name := range side.alone {
			if weight, ok := strings.CutPrefix(name, "weight "); ok {
				if at, _ := cutLast(weight); at == module && module != "" {
					said += fmt.Sprintf("; %s is in %s alone", weight, side.name)
				}
			}
		}
	}
	return said
}

// ends are the results of the steps that are beyond their tolerance.
func (c *comparer) ends() []string {
	var ends []string
	for _, s := range c.r.Steps {
		w := c.whole(s.Step)
		w.moved.settle()
		drifted, passed := w.drifted, min(max(math.Sqrt(w.ties), by*w.drifted), mostLimit)
		if s.Step == 1 {
			drifted = min(drifted, golden.Usual.Update)
		}
		// a loss is off by no more than what it is computed of, and gradients by what ties made of them, or by as many
		// times what the loss is computed of as one operator is let
		if s.Loss > max(c.lossWithin(s.Step), by*w.lossMoved, drifted) {
			ends = append(ends, fmt.Sprintf("the loss of step %d (%.1e)", s.Step, s.Loss))
		}
		// behind an update the gradients of two runs that are right may have nothing in common: MobileNet v2 with
		// itself, on one thread and two, differs by 0.8 in the second step, where the losses agree to 5e-3
		if s.Gradients > max(c.gradientsWithin(), by*w.moved.relative, passed)*sure && s.Step == 1 {
			ends = append(ends, fmt.Sprintf("the gradients of step %d (%.1e)", s.Step, s.Gradients))
		}
		if s.Updates > max(c.updatesWithin(), 2*passed)*sure && s.Step == 1 {
			ends = append(ends, fmt.Sprintf("the updates of step %d (%.1e)", s.Step, s.Updates))
		}
		if len(ends) > 0 {
			break
		}
	}
	return ends
}

// drift says from where to where the difference grows.
func (c *comparer) drift() string {
	var rows []Depth
	for _, d := range c.r.Depth {
		if d.Phase == "forward" && d.Median > 0 || d.Phase == "forward" && len(rows) > 0 {
			rows = append(rows, d)
		}
	}
	if len(rows) == 0 {
		return "the difference comes in behind the forward pass, of no single operator"
	}
	first, last := rows[0], rows[len(rows)-1]
	return fmt.Sprintf("drift: it grows from %.1e at %s to %.1e at %s, of no single operator", first.Median, first.From,
		last.Median, last.To)
}

// mostLimit is the tolerance beyond which a row says nothing: what is let so much is rounding alone.
const mostLimit = 0.2

// larger says whether a row is nearer to its tolerance than the one that was nearest.
func (j *Judged) larger(row *Row) bool {
	l := j.Largest
	if row.Tolerance > mostLimit {
		return false
	}
	return l == nil || row.Relative*l.limit() > l.Relative*row.limit()
}

// title names a row.
func (r *Row) title() string {
	s := r.Name
	if r.What == "module" {
		s = cmp.Or(r.Module, "the model") + " (" + r.Name + ")"
	} else if r.Module != "" {
		s += " in " + r.Module
	}
	return fmt.Sprintf("%s, step %d, %s, row %d,", s, r.Step, cmp.Or(r.Phase, "forward"), r.A)
}

// startDeparts says whether something that the steps begin with is not the same.
func (r *Result) startDeparts() bool {
	return slices.ContainsFunc(r.Start, func(s Start) bool { return s.Weighs == explains && s.Begins })
}

// Status is the exit status that the result deserves.
func (r *Result) Status() int {
	switch r.Answer {
	case golden.Same:
		return fault.OK
	case golden.Departs:
		return fault.GateFailed
	}
	return fault.CannotTell
}

// fill makes lists that are not there empty ones.
func (r *Result) fill() {
	r.Start, r.Settings, r.Unaligned = listOf(r.Start), listOf(r.Settings), listOf(r.Unaligned)
	r.Ties, r.Random, r.Depth, r.Steps = listOf(r.Ties), listOf(r.Random), listOf(r.Depth), listOf(r.Steps)
	for _, j := range []*Judged{&r.Operators, &r.Modules, &r.Weights, &r.Gradients} {
		j.Others, j.LeftOut = listOf(j.Others), listOf(j.LeftOut)
	}
}

func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
