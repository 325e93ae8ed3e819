package atlas

import (
	"regexp"
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

// layout finds the backend of tensors that are not dense, which the fallback to the CPU does not serve.
var layout = regexp.MustCompile(`['"](Sparse|SparseCsr|Quantized|NestedTensor)MPS['"] backend`)

var layouts = map[string]string{"Sparse": "sparse", "SparseCsr": "sparse", "Quantized": "quantised",
	"NestedTensor": "nested"}

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
	if m := layout.FindStringSubmatch(text); m != nil {
		return "PYTORCH_ENABLE_MPS_FALLBACK does not reach a " + layouts[m[1]] + " tensor: keep it on the CPU, or " +
			"make it a plain one before it goes to MPS"
	}
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
		return r.atlas.Warned(best.Remedy+"; right from torch "+best.Fixed+" on", best.Operators)
	case best != nil && best.Fixed != "":
		return r.atlas.Warned("right from torch "+best.Fixed+" on", best.Operators)
	case best != nil:
		return r.atlas.Warned(best.Remedy, best.Operators)
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

// Since says in words from which release on MPS runs an operator, and what is known to be wrong there, or that none
// has a kernel; "" where the atlas does not know it.
func (a *Atlas) Since(operator string) string {
	u, ok := a.Upgrade(operator)
	if !ok {
		return ""
	}
	if u.Runs == "" {
		all := a.Releases(u.Package)
		return "no release up to " + Series(all[len(all)-1].Version) + " has a kernel"
	}
	how := "native"
	if op, _ := a.Operator(operator); op.NativeFrom() == "" {
		how = "composed of other operators"
	}
	text := how + " from " + u.Package + " " + Series(u.Runs) + " on"
	if len(u.Wrong) > 0 {
		if u.Sound != "" {
			text += ", with wrong results until " + u.Package + " " + Series(u.Sound)
		} else {
			text += ", with wrong results of which no release up to torch " + Series(u.Torch) + " is known to be free"
		}
		text += " (" + u.Wrong[0].When + ": " + u.Wrong[0].Wrong + ")"
	}
	return text
}

var namesMPS = regexp.MustCompile(`\bMPS\b|\bmps\b`)

// NamesMPS reports whether an error that was raised on a CPU says that the code asked for MPS by name: such a failure
// tells nothing about the CPU.
func NamesMPS(text string) bool { return namesMPS.MatchString(text) }
