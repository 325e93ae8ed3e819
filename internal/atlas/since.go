package atlas

import (
	"slices"
	"strings"
)

// nativeOnce is the last run of releases in which the operator had a kernel: 2.1 to 2.5; "" where none had.
func (op Operator) nativeOnce() string {
	for _, s := range slices.Backward(op.Spans) {
		if s.State == Native && s.From != s.To {
			return s.From + " to " + s.To
		} else if s.State == Native {
			return s.From
		}
	}
	return ""
}

// Runs says from which column on MPS runs an operator, up to the newest, and how in which releases: by a kernel of its
// own, composed of operators that run, or by itself on the CPU. None where the newest release does not run it, or where
// it is not known what a composed operator calls.
func (a *Atlas) Runs(op Operator) []Span {
	var runs []Span
	for i, column := range op.Columns {
		state := State(op.cells[i])
		ok := state == Native || state == CPU || state == Composed && a.Calls(op.Name) != nil &&
			(op.Package != "torch" || a.Lacks(column, op.Name) == "")
		switch n := len(runs); {
		case !ok:
			runs = nil
		case n > 0 && runs[n-1].State == state:
			runs[n-1].To = column
		default:
			runs = append(runs, Span{State: state, Is: state.String(), From: column, To: column})
		}
	}
	return runs
}

// Since says in words from which release on MPS runs an operator, and how, or that no release does; "" where the atlas
// does not know it.
func (a *Atlas) Since(operator string) string {
	op, ok := a.Operator(operator)
	if !ok {
		return ""
	}
	if runs := a.Runs(op); len(runs) > 0 {
		return Words(op.Package, runs)
	}
	last := op.Spans[len(op.Spans)-1]
	newest := op.Package + " " + op.Columns[len(op.Columns)-1]
	switch {
	case last.State == Undefined:
		return newest + " has no such operator any more"
	case last.State == Unknown || last.State == Composed && a.Calls(op.Name) == nil:
		return "not known whether " + newest + " runs it on MPS"
	case last.State == Composed:
		return "composed in " + newest + " of " + a.Lacks(last.To, op.Name) + ", which is missing"
	case op.nativeOnce() != "":
		return "native in " + op.Package + " " + op.nativeOnce() + " alone"
	}
	return "no release up to " + newest + " has a kernel"
}

// Later says in words what the releases after that of a column do better with an operator that is not native there;
// where none does, whether the newest has a kernel. "" for one that the column has a kernel for, or composes.
func (a *Atlas) Later(op Operator, column string) string {
	state, runs := op.At(column), a.Runs(op)
	later := slices.DeleteFunc(slices.Clone(runs),
		func(s Span) bool { return CompareReleases(s.From, column) <= 0 })
	switch {
	case state == Native:
		return ""
	case len(later) > 0:
		return Words(op.Package, later)
	case state == Composed:
		return ""
	case len(runs) > 0:
		return "no release up to " + op.Package + " " + op.Columns[len(op.Columns)-1] + " has a kernel"
	}
	return a.Since(op.Name)
}

// Words says in words since when MPS runs an operator of a package, from what Runs says.
func Words(pkg string, runs []Span) string {
	var list []string
	for i, s := range runs {
		release := s.From
		if i == 0 {
			release = pkg + " " + release
		}
		how := map[State]string{Native: "native", Composed: "composed of others", CPU: "on the CPU by itself"}
		list = append(list, how[s.State]+" from "+release+" on")
	}
	return strings.Join(list, ", ")
}
