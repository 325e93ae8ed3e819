package steps

import "strings"

// kindOf is the name under which an operator is paired: that of the kind, where devices have an operator each for it.
func kindOf(name string) string {
	bare := strings.TrimPrefix(name, "aten::")
	switch bare {
	case "cudnn_batch_norm", "miopen_batch_norm":
		return "aten::native_batch_norm"
	case "cudnn_batch_norm_backward", "miopen_batch_norm_backward":
		return "aten::native_batch_norm_backward"
	}
	if strings.HasPrefix(bare, "_scaled_dot_product_") && strings.Contains(bare, "attention") {
		if strings.HasSuffix(bare, "_backward") {
			return "attention backward"
		}
		return "attention"
	}
	return name
}

// alike has an operator's tensors stand as they do in the others of its kind: what a library keeps for itself is left
// out, and the gradient comes first. native_functions.yaml of PyTorch 2.15 has their schemas.
func (l *line) alike() {
	if l.Kind != kindOp || kindOf(l.Op) == l.Op {
		return
	}
	in, out := len(l.In.from), len(l.Out)
	switch kindOf(l.Op) {
	case "attention": // of query, key, value
		in, out = 3, 1
	case "attention backward": // of gradient, query, key, value
		in, out = 4, 3
	case "aten::native_batch_norm_backward": // cuDNN's and MIOpen's have the input before the gradient
		if in > 1 {
			l.In.from[0], l.In.from[1] = l.In.from[1], l.In.from[0]
		}
		in = 7
	}
	l.In.from, l.Out = l.In.from[:min(in, len(l.In.from))], l.Out[:min(out, len(l.Out))]
}
