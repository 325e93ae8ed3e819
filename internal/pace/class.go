package pace

import "strings"

// Class is what operators have in common that are bounded by the same thing, as the table of efficiencies has them.
type Class string

const (
	Matmul      Class = "matmul"
	Convolution Class = "convolution"
	Attention   Class = "attention"   // scaled dot products, softmax
	Reduction   Class = "reduction"   // sums, norms, losses, pooling
	Elementwise Class = "elementwise" // everything else that computes
	Copying     Class = "copying"     // concatenations, copies, fills
	Gathering   Class = "gathering"   // gather, scatter, index, embedding
	Sorting     Class = "sorting"     // sort, topk, unique, nonzero
	waiting     Class = "waiting"     // the host asks for a value
	nothing     Class = "nothing"     // only makes a view, or memory
)

// Classes lists those that take the device's time, as the page shows them.
func Classes() []Class {
	return []Class{Matmul, Convolution, Attention, Reduction, Elementwise, Copying, Gathering, Sorting}
}

// noKernel are operators that start nothing on the device: they make views, or memory that nobody has written yet.
var noKernel = set("view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute", "expand",
	"unsqueeze", "squeeze",
	"select", "slice", "split", "split_with_sizes", "chunk", "unbind", "narrow", "detach", "detach_", "alias",
	"as_strided", "diagonal",
	"unfold", "movedim", "swapaxes", "swapdims", "numpy_T", "mT", "lift_fresh", "view_as", "expand_as",
	"view_as_real", "view_as_complex",
	"real", "imag", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_",
	"is_same_size")

// parts are the words of an operator's name by which its class is told, in the order in which they are tried; of an
// operator that none fits, Elementwise is taken: nearly all of ATen's others compute each element from those at its
// place.
var parts = []struct {
	class Class
	words []string
}{
	{Convolution, []string{"convolution", "conv1d", "conv2d", "conv3d", "conv_transpose"}},
	{Attention, []string{"attention", "softmax"}},
	{Sorting, []string{"sort", "topk", "unique", "nonzero", "kthvalue", "median", "mode", "bincount", "histc",
		"searchsorted"}},
	{Gathering, []string{"embedding", "index", "gather", "scatter", "take", "put_", "masked_select"}},
	{Copying, []string{"copy", "clone", "contiguous", "cat", "stack", "fill", "zero", "ones", "full", "arange",
		"select_backward",
		"slice_backward", "roll", "flip", "repeat", "constant_pad", "tril", "triu"}},
	{Reduction, []string{"norm", "sum", "mean", "argm", "amax", "amin", "aminmax", "logsumexp", "var", "std", "prod",
		"loss", "pool", "all",
		"any", "upsample", "entropy"}},
}

// matmuls are named whole: "mm" alone is a part of other names.
var matmuls = set("mm", "addmm", "bmm", "baddbmm", "addbmm", "linear", "linear_backward", "matmul", "mv", "addmv",
	"dot", "addr", "einsum",
	"_addmm_activation")

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// ClassOf tells an operator's class by its name, with or without namespace and overload: aten::add_.Tensor.
func ClassOf(operator string) Class {
	name := operator
	if _, after, found := strings.Cut(name, "::"); found {
		name = after
	}
	name, _, _ = strings.Cut(name, ".")
	switch {
	case noKernel[name]:
		return nothing
	case name == "_local_scalar_dense":
		return waiting
	case matmuls[name]:
		return Matmul
	case name == "max" || name == "min":
		return Reduction
	}
	for _, p := range parts {
		for _, word := range p.words {
			if strings.Contains(name, word) {
				return p.class
			}
		}
	}
	return Elementwise
}
