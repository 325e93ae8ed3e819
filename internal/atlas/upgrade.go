package atlas

import (
	"regexp"
	"slices"
	"strings"
)

// Upgrade is what a newer release does for an operator that MPS lacks in an older one.
type Upgrade struct {
	Package string // torch, torchvision, torchaudio
	// first release from which on it runs on MPS, by a kernel of its own or composed of operators that have one; ""
	// where the newest does not
	Runs string
	// first release of those from which on nothing is known to be wrong in it or in its gradient; "" where something
	// is in the newest
	Sound string
	Torch string      // the release of torch that goes with Sound, or with the newest release where that is ""
	Wrong []Condition // what is known to be wrong between Runs and Sound, or in the newest
	Maybe bool        // it is composed of operators that nobody has traced: whether all of them run is not known
}

// Upgrade says which release to go to for an operator; false where the atlas does not know it.
func (a *Atlas) Upgrade(operator string) (Upgrade, bool) {
	op, ok := a.Operator(operator)
	if !ok {
		return Upgrade{}, false
	}
	u := Upgrade{Package: op.Package}
	sound := true
	for _, torch := range slices.Backward(a.Releases("torch")) {
		r, ok := a.Beside(op.Package, torch.Version)
		runs, traced := a.runs(op, r, torch)
		if !ok || !runs {
			break
		}
		u.Maybe = u.Maybe || !traced
		wrong := a.wrongOf(op, r, torch)
		if len(wrong) > 0 || !sound {
			sound = false
			for _, c := range wrong {
				if !slices.ContainsFunc(u.Wrong, func(o Condition) bool { return o.Name == c.Name }) {
					u.Wrong = append(u.Wrong, c)
				}
			}
		} else {
			u.Sound, u.Torch = r.Version, torch.Version
		}
		if u.Torch == "" {
			u.Torch = torch.Version
		}
		u.Runs = r.Version
	}
	if u.Sound == "" && u.Runs != "" { // what older releases did is not what an upgrade leads to
		newest := a.Releases("torch")
		r, _ := a.Beside(op.Package, u.Torch)
		u.Wrong = a.wrongOf(op, r, newest[len(newest)-1])
	}
	return u, true
}

// runs says whether a release runs an operator on MPS, and whether all that it is composed of is known.
func (a *Atlas) runs(op Operator, r, torch Release) (runs, traced bool) {
	switch op.At(r.Column) {
	case Native:
		return true, true
	case Composed:
		needs, untraced := a.Needs(torch, []Call{{Operator: op.Name}})
		return !slices.ContainsFunc(needs, func(n Need) bool { return n.State != Native && !n.Sometimes }),
			len(untraced) == 0
	}
	return false, true
}

// wrongOf is Wrong, of what an operator is composed of as well.
func (a *Atlas) wrongOf(op Operator, r, torch Release) []Condition {
	list := a.Wrong(op.Name, torch.Version)
	if op.At(r.Column) != Composed {
		return list
	}
	needs, _ := a.Needs(torch, []Call{{Operator: op.Name}})
	for _, n := range needs {
		for _, c := range a.Wrong(n.Operator, torch.Version) {
			if !slices.ContainsFunc(list, func(o Condition) bool { return o.Name == c.Name }) {
				list = append(list, c)
			}
		}
	}
	return list
}

// Wrong lists what a release of torch, and what goes with it, is known to compute wrongly of an operator or of its
// gradient. What holds for every operator is left out.
func (a *Atlas) Wrong(operator, torch string) []Condition {
	names := withGradients(operator)
	var list []Condition
	for _, c := range a.Bugs() {
		if !slices.Contains(c.Operators, "*") && c.Holds(torch) && slices.ContainsFunc(names, c.about) {
			list = append(list, c)
		}
	}
	return list
}

// withGradients is an operator, the one behind it (_embedding_bag), and those of a backward pass that are named after
// it: convolution_backward, _roi_align_backward, embedding_dense_backward.
func withGradients(operator string) []string {
	base, _, _ := strings.Cut(operator, ".")
	space, name, _ := strings.Cut(base, "::")
	inner := space + "::_" + name
	return []string{operator, inner, base + "_backward", inner + "_backward", base + "_dense_backward"}
}

// named finds the releases of torch that a remedy of the atlas sends somebody to.
var named = regexp.MustCompile(`(?:or|use|release|choose|upgrade to|PyTorch|torch>=|right from torch) ?(?:release )?` +
	`(2\.\d{1,2}(?:\.\d{1,2})?)( or later| on)?`)

// Warned is a remedy with what is known to be wrong in the release that it names, or in the newest, of the operators
// that it is about, or of their gradients.
func (a *Atlas) Warned(remedy string, of []string) string {
	list := a.Releases("torch")
	var wrong []Condition
	for _, m := range named.FindAllStringSubmatch(remedy, -1) {
		release := m[1]
		if strings.Count(release, ".") == 1 {
			release += ".0"
		}
		releases := []string{release}
		if m[2] != "" {
			releases = append(releases, list[len(list)-1].Version)
		}
		for _, name := range of {
			for _, r := range releases {
				for _, c := range a.Wrong(name, r) {
					if !slices.ContainsFunc(wrong, func(w Condition) bool { return w.Name == c.Name }) {
						wrong = append(wrong, c)
					}
				}
			}
		}
	}
	if len(wrong) == 0 {
		return remedy
	}
	if strings.HasSuffix(remedy, ".") {
		return remedy + " Compare with the CPU there: wrong results are known: " + Wrongly(wrong) + "."
	}
	return remedy + "; compare with the CPU there: wrong results are known: " + Wrongly(wrong)
}

// Wrongly lists in words known wrong results.
func Wrongly(rows []Condition) string {
	var list []string
	for _, c := range rows {
		list = append(list, c.Wrong+", when "+strings.TrimPrefix(c.When, "when "))
	}
	return strings.Join(list, "; or ")
}
