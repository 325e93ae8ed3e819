package steps

import (
	"strings"
)

// cancels is how many times an operator may make what its inputs are off by larger, relative, by rounding alone, since
// what it gives is what is left of larger values that cancel: 1 at least. Of an operator of which nothing is known that
// is how many times smaller the output is than the input; so it is of all that moves no value by more than its input
// is moved: activations, sums of two, means.
func cancels(x *line, args []argument, out known) float64 {
	name := strings.TrimPrefix(x.Op, "aten::")
	if len(args) == 0 || out.rms == 0 {
		return 1
	}
	var scale, product float64
	product = 1
	for _, arg := range args {
		if arg.state != unknown && arg.rms < filled {
			scale = max(scale, arg.rms)
			product *= max(1, arg.rms)
		}
	}
	most := scale / out.rms
	switch {
	case normalises(x) && len(x.Out) > 2: // behind the output stand mean and inverse deviation
		most = args[0].rms * x.Out[2].rms()
	case isConvolution(name) || products[name]:
		most = cancelled(args, false, x.Out[0], x.Out[0])
	case strings.Contains(name, "softmax") || name == "exp": // its power is off, relative, by as much as an exponent
		most = max(scale, most)
	case name == "mul" || name == "mul_":
		most = product / out.rms
	case name == "sum" || strings.HasPrefix(name, "sum.") || strings.HasPrefix(name, "cumsum"):
		most *= max(1, args[0].elements/max(1, out.elements))
	}
	return max(1, most)
}

func isConvolution(name string) bool { return strings.Contains(name, "conv") }

// stretched is how much larger than its gradient what a normalisation gives back would be if nothing cancelled: by its
// weight and the inverse deviation, whose places among its tensors are those of its schema.
func stretched(x *line, args []argument) float64 {
	places := [2]int{4, 3} // native_layer_norm_backward, native_group_norm_backward: weight, inverse deviation
	if strings.Contains(x.Op, "batch_norm_backward") {
		places = [2]int{2, 6}
	} else if !strings.Contains(x.Op, "norm_backward") {
		return 1
	}
	by := 1.0
	for _, k := range places {
		if k < len(args) && args[k].state != unknown && args[k].rms > 0 {
			by *= args[k].rms
		}
	}
	return max(1, by)
}
