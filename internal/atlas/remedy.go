package atlas

import (
	"regexp"
	"slices"
	"strings"
)

// Remedies says what to do about what a release of PyTorch refuses on MPS.
type Remedies struct {
	atlas      *Atlas
	release    string
	conditions []worded
}

// worded is a condition whose text can be found in an error.
type worded struct {
	Condition
	text *regexp.Regexp
}

var blank = regexp.MustCompile(`\{[^{}]*\}`)

// minText is how many bytes of a condition's text must be fixed before it is looked for in an error.
const minText = 12

// generalRemedy is what to do where no condition says more: by cause.
var generalRemedy = map[string]string{
	"device": "move the tensors to one device before the call",
	"memory": "try a smaller batch, gradient checkpointing, or a Mac with more memory (--chip)",
}

// Remedies of one release: 2.8.0. What a condition does not hold in is left out.
func (a *Atlas) Remedies(release string) *Remedies {
	return &Remedies{atlas: a, release: release, conditions: wordings(a.Conditions(), release)}
}

// wordings are the conditions that hold in a release, say what to do, and can be told by their text.
func wordings(rows []Condition, release string) []worded {
	var list []worded
	for _, c := range rows {
		if len(blank.ReplaceAllString(c.Text, "")) < minText || !c.Holds(release) || c.Remedy == "" && c.Fixed == "" {
			continue
		}
		parts := blank.Split(c.Text, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		list = append(list, worded{c, regexp.MustCompile(`(?s)` + strings.Join(parts, ".*?"))})
	}
	return list
}

// Of is what to do about a refusal: operator is full (aten::sgn), cause the double's word for it (missing, dtype,
// argument, rank, device, memory), text the error's. "" where nothing is known.
func (r *Remedies) Of(operator, cause, text string) string {
	if cause == "missing" {
		return strings.TrimPrefix(r.atlas.Since(operator)+"; "+r.fallback(operator), "; ")
	}
	var best *worded
	for i, c := range r.conditions {
		// The longest text that fits says most; a row about this operator goes before one about any.
		if c.text.MatchString(text) && (best == nil || c.rank(operator) > best.rank(operator)) {
			best = &r.conditions[i]
		}
	}
	switch {
	case best != nil && best.Fixed != "" && best.Remedy != "":
		return best.Remedy + "; right from torch " + best.Fixed + " on"
	case best != nil && best.Fixed != "":
		return "right from torch " + best.Fixed + " on"
	case best != nil:
		return best.Remedy
	}
	if strings.Contains(text, "CUDA") {
		return "it asks for CUDA by name: take the device from an option, " +
			"or from a tensor at hand, as x.to(weight.device)"
	}
	return generalRemedy[cause]
}

// fallback says whether PyTorch's own fallback helps where an operator is missing.
func (r *Remedies) fallback(operator string) string {
	if op, ok := r.atlas.Operator(operator); ok {
		if column, err := r.atlas.Release("torch", r.release); err == nil && op.Package == "torch" {
			if state := op.At(column.Column); state == NoStub || state == Raises {
				return "PYTORCH_ENABLE_MPS_FALLBACK does not reach it: call it on CPU tensors"
			}
		}
	}
	return "PYTORCH_ENABLE_MPS_FALLBACK=1, set before Python starts, runs it on the CPU"
}

func (c worded) rank(operator string) int {
	rank := len(c.Text)
	if c.about(operator) {
		rank += 10_000
	}
	return rank
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

var namesMPS = regexp.MustCompile(`\bMPS\b|\bmps\b`)

// NamesMPS reports whether an error that was raised on a CPU says that the code asked for MPS by name: such a failure
// tells nothing about the CPU.
func NamesMPS(text string) bool { return namesMPS.MatchString(text) }
