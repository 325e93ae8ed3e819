package facts

import (
	"regexp"
	"strings"

	"assay/internal/atlas"
)

// Remedies says what to do about what a release of PyTorch refuses on MPS.
type Remedies struct {
	table   *Table
	atlas   *atlas.Atlas
	release string
	facts   []worded
}

// worded is a fact whose text can be found in an error.
type worded struct {
	*Fact
	text *regexp.Regexp
}

var blank = regexp.MustCompile(`\{[^{}]*\}`)

// minText is how many bytes of a fact's text must be fixed before it is looked for in an error.
const minText = 12

// Values is the double's word for the cause of an error that is its own and not the device's: a call needs values, and
// shapes alone are carried.
const Values = "values"

// generalRemedy is what to do where no fact says more: by cause.
var generalRemedy = map[string]string{
	"device": "move the tensors to one device before the call",
	"memory": "try a smaller batch, gradient checkpointing, or a Mac with more memory (--chip)",
	Values:   "rehearse it with data: without --shape-only",
}

// layout finds the backend of tensors that are not dense, which the fallback to the CPU does not serve.
var layout = regexp.MustCompile(`['"](Sparse|SparseCsr|Quantized|NestedTensor)MPS['"] backend`)

var layouts = map[string]string{"Sparse": "sparse", "SparseCsr": "sparse", "Quantized": "quantised",
	"NestedTensor": "nested"}

// Remedies of one release: 2.8.0. Facts that do not hold in it are left out.
func (t *Table) Remedies(a *atlas.Atlas, release string) *Remedies {
	return &Remedies{table: t, atlas: a, release: release, facts: wordings(t.All, release)}
}

// wordings are the facts that hold in a release, say what to do, and can be told by their text.
func wordings(rows []*Fact, release string) []worded {
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
// argument, rank, device, memory, values), text the error's. "" where nothing is known.
func (r *Remedies) Of(operator, cause, text string) string {
	if m := layout.FindStringSubmatch(text); m != nil {
		return "PYTORCH_ENABLE_MPS_FALLBACK does not reach a " + layouts[m[1]] + " tensor: keep it on the CPU, or " +
			"make it a plain one before it goes to MPS"
	}
	if cause == Values {
		return generalRemedy[cause]
	}
	if cause == "missing" {
		return strings.TrimPrefix(r.table.Since(r.atlas, operator)+"; "+r.fallback(operator), "; ")
	}
	var best *worded
	for i, c := range r.facts {
		// The longest text that fits says most; a row about this operator goes before one about any.
		if c.text.MatchString(text) && (best == nil || c.rank(operator) > best.rank(operator)) {
			best = &r.facts[i]
		}
	}
	if best != nil {
		return best.ToDo()
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
			if state := op.At(column.Column); state == atlas.NoStub || state == atlas.Raises {
				return "PYTORCH_ENABLE_MPS_FALLBACK does not reach it: call it on CPU tensors"
			}
		}
	}
	return "PYTORCH_ENABLE_MPS_FALLBACK=1, set before Python starts, runs it on the CPU"
}

func (c worded) rank(operator string) int {
	rank := 2 * len(c.Text)
	switch {
	case c.About(operator):
		rank += 20_000
	case c.Everywhere():
		rank++ // of two that say the same, not the one about other operators
	}
	return rank
}

var namesMPS = regexp.MustCompile(`\bMPS\b|\bmps\b`)

// NamesMPS reports whether an error that was raised on a CPU says that the code asked for MPS by name: such a failure
// tells nothing about the CPU.
func NamesMPS(text string) bool { return namesMPS.MatchString(text) }
