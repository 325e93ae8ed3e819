package facts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atlas"
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
	Torch string  // the release of torch that goes with Sound, or with the newest release where that is ""
	Wrong []*Fact // what is known to be wrong between Runs and Sound, or in the newest
	Maybe bool    // it is composed of operators that nobody has traced: whether all of them run is not known
}

// Upgrade says which release to go to for an operator; false where the atlas does not know it.
func (t *Table) Upgrade(a *atlas.Atlas, operator string) (Upgrade, bool) {
	op, ok := a.Operator(operator)
	if !ok {
		return Upgrade{}, false
	}
	u := Upgrade{Package: op.Package}
	sound := true
	for _, torch := range slices.Backward(a.Releases("torch")) {
		r, ok := a.Beside(op.Package, torch.Version)
		native, traced := runs(a, op, r, torch)
		if !ok || !native {
			break
		}
		u.Maybe = u.Maybe || !traced
		wrong := t.wrongOf(a, op, r, torch)
		if len(wrong) > 0 || !sound {
			sound = false
			for _, c := range wrong {
				if !slices.Contains(u.Wrong, c) {
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
		u.Wrong = t.wrongOf(a, op, r, newest[len(newest)-1])
	}
	return u, true
}

// runs says whether a release runs an operator on MPS, and whether all that it is composed of is known.
func runs(a *atlas.Atlas, op atlas.Operator, r, torch atlas.Release) (runs, traced bool) {
	switch op.At(r.Column) {
	case atlas.Native, atlas.CPU:
		return true, true
	case atlas.Composed:
		needs, untraced := a.Needs(torch, []atlas.Call{{Operator: op.Name}})
		return !slices.ContainsFunc(needs, func(n atlas.Need) bool { return n.State != atlas.Native && n.State != atlas.CPU && !n.Sometimes }),
			len(untraced) == 0
	}
	return false, true
}

// wrongOf is Wrong, of what an operator is composed of as well.
func (t *Table) wrongOf(a *atlas.Atlas, op atlas.Operator, r, torch atlas.Release) []*Fact {
	list := t.Wrong(op.Name, torch.Version)
	if op.At(r.Column) != atlas.Composed {
		return list
	}
	needs, _ := a.Needs(torch, []atlas.Call{{Operator: op.Name}})
	for _, n := range needs {
		for _, c := range t.Wrong(n.Operator, torch.Version) {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// Wrong lists what a release of torch, and what goes with it, is known to compute wrongly of an operator or of its
// gradient: rows of which that is known there. What holds for every operator is left out.
func (t *Table) Wrong(operator, torch string) []*Fact {
	names := withGradients(operator)
	var list []*Fact
	for _, c := range t.All {
		if c.Outcome == Wrong && !c.Everywhere() && c.leads(torch) && slices.ContainsFunc(names, c.About) {
			list = append(list, c)
		}
	}
	return list
}

// leads says whether who goes to a release comes into the row: where it is certain there, and where it is known when it
// was mended and not when it began, for nobody has seen it right before.
func (f *Fact) leads(torch string) bool {
	return f.Holds(torch) && (f.Certain(torch) || f.From == "" && f.Fixed != "")
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
func (t *Table) Warned(a *atlas.Atlas, remedy string, of []string) string {
	list := a.Releases("torch")
	var wrong []*Fact
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
				for _, c := range t.Wrong(name, r) {
					if !slices.Contains(wrong, c) {
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

// mostWrong is how many wrong results stand in a remedy: who reads on is told where the others are.
const mostWrong = 3

// Wrongly lists in words known wrong results, the first of them where they are many.
func Wrongly(rows []*Fact) string {
	var list []string
	for _, c := range rows[:min(mostWrong, len(rows))] {
		list = append(list, c.Wrong+", when "+strings.TrimPrefix(c.When, "when "))
	}
	text := strings.Join(list, "; or ")
	if more := len(rows) - mostWrong; more > 0 {
		text += fmt.Sprintf("; and %d more, of which `assay ops %s` tells", more, rows[mostWrong].Name)
		if more > 1 {
			text += " the first"
		}
	}
	return text
}

// Since says in words from which release on MPS runs an operator, and what is known to be wrong there, or that none
// does; "" where the atlas does not know it.
func (t *Table) Since(a *atlas.Atlas, operator string) string {
	text := a.Since(operator)
	u, ok := t.Upgrade(a, operator)
	if op, _ := a.Operator(operator); !ok || len(u.Wrong) == 0 || len(a.Runs(op)) == 0 {
		return text
	}
	if u.Sound != "" {
		text += ", with wrong results until " + u.Package + " " + atlas.Series(u.Sound)
	} else {
		text += ", with wrong results of which no release up to torch " + atlas.Series(u.Torch) + " is known to be free"
	}
	return text + " (" + u.Wrong[0].When + ": " + u.Wrong[0].Wrong + ")"
}
