package steps

import (
	"math"
	"strings"
)

// lowered says which operators compute float32 with TF32, of 10 bits of mantissa. Only CUDA does that.
type lowered struct {
	convolutions, recurrent, products bool
}

// tf32 is what this side's policy says of it.
func (r *Recording) tf32() lowered {
	if !strings.HasPrefix(r.Device, "cuda") {
		return lowered{}
	}
	on := func(name string) bool { return r.Policy[name] == true }
	return lowered{convolutions: on("cudnn_tf32"), recurrent: on("rnn_tf32"), products: on("matmul_tf32")}
}

func (l lowered) or(m lowered) lowered {
	return lowered{l.convolutions || m.convolutions, l.recurrent || m.recurrent, l.products || m.products}
}

func (l lowered) any() bool { return l != lowered{} }

// String is what computes with it.
func (l lowered) String() string {
	var names []string
	for _, kind := range []struct {
		on   bool
		name string
	}{
		{l.convolutions, "convolutions"}, {l.recurrent, "recurrent layers"},
		{l.products, "matrix products and attention"},
	} {
		if kind.on {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, ", ")
}

// of says whether a row may have been computed with it: an operator of that kind, or a module, which may have one.
func (l lowered) of(x *line) bool {
	if x.Kind == kindModule {
		return l.any()
	}
	name := strings.TrimPrefix(x.Op, "aten::")
	switch {
	case strings.Contains(name, "_rnn") || strings.Contains(name, "miopen_rnn"):
		return l.recurrent
	case isConvolution(name):
		return l.convolutions
	case strings.Contains(name, "attention"):
		return l.products
	}
	return l.products && products[name]
}

// products are operators that multiply matrices by cuBLAS, which torch.backends.cuda.matmul rules.
var products = map[string]bool{
	"mm": true, "bmm": true, "addmm": true, "addmm_": true, "baddbmm": true, "baddbmm_": true, "addbmm": true,
	"addbmm_": true, "mv": true, "addmv": true, "addmv_": true, "dot": true, "vdot": true, "_addmm_activation": true,
	"linear": true, "linear_backward": true, "matmul": true, "matmul_backward": true, "_trilinear": true,
	"_euclidean_dist": true, "_cdist_forward": true, "_cdist_backward": true,
}

// cancelled is how many times larger the products that an operator sums are together than what is left of them, 1 at
// least: they are rounded, and what they come to is as uncertain as they are. Of factors with n and m elements of which
// k of each are summed for one of o outputs, n·m/o is k² (of (a,k)·(k,b), a·k·k·b / a·b), and k products of random
// signs come to √k times one.
func cancelled(args []argument, back bool, x, y *Tensor) float64 {
	left := max(x.rms(), y.rms())
	if left == 0 {
		return 1
	}
	var most float64
	for i, a := range args {
		for _, b := range args[i+1:] {
			if back && !a.back && !b.back {
				continue // the gradient is in each product of a backward pass
			}
			k := math.Sqrt(a.elements * b.elements / x.size())
			most = max(most, a.rms*b.rms*math.Sqrt(k))
		}
	}
	return max(1, most/left)
}
