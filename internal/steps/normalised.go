package steps

import (
	"math"
	"slices"
	"strings"
)

// normalises says whether a row is of an operator that makes what it is fed have mean 0 and deviation 1, before its
// weights: what it gives has a size that rounding of its input hardly moves, so that a fault of it shows where sketches
// drown in what the input differs by, as behind a convolution with TF32. A batch norm does it
// in training alone, and then keeps the means.
func normalises(x *line) bool {
	name := strings.TrimPrefix(x.Op, "aten::")
	switch {
	case x.Kind != kindOp || x.Phase == backward || len(x.Out) == 0 || x.Out[0] == nil || !isFloat(x.Out[0].DType):
		return false
	case strings.Contains(name, "batch_norm"):
		return len(x.Out) > 1 && x.Out[1] != nil && !slices.Equal(x.Out[1].Shape, []int64{0})
	}
	return name == "native_layer_norm" || name == "native_group_norm" || name == "_fused_rms_norm" || name == "rms_norm"
}

// normalised is how far the size of what such an operator gives may be off, relative: where the input is as small as
// epsilon, it moves with the input's own size, and with a weight by as much as that is off. A batch norm has a weight
// for all that is normalised together. In others one weighs more than another, and what the input differs by, in
// elements that know nothing of each other, moves the size by that over the root of their number.
func normalised(x *line, args []argument, out known) float64 {
	most := by * precisions["float32"][0]
	for k, arg := range args {
		switch {
		case arg.state == unknown:
			return math.Inf(1)
		case k > 0:
			most = max(most, by*arg.relative)
		default:
			most = max(most, arg.grown, out.within)
			if !strings.Contains(x.Op, "batch_norm") {
				most = max(most, by*arg.relative/math.Sqrt(max(1, out.elements)))
			}
		}
	}
	return most
}

// grown is how far the roots of the mean squares of two tensors are apart, relative.
func grown(x, y *Tensor) float64 {
	a, b := x.rms(), y.rms()
	if most := max(a, b); most > 0 {
		return math.Abs(a-b) / most
	}
	return 0
}
