package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// MLXLayout finds NCHW input for MLX's convolutions.
var MLXLayout = &audit.Rule{Name: "mlx-channels-first", Title: "NCHW input for an MLX convolution",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "mlx.nn.Conv2d takes NHWC: an input in PyTorch's order raises about the number of channels, or convolves " +
			"over the wrong axes where the numbers happen to fit.",
		Bad:    "import mlx.core as mx\nimport mlx.nn as nn\nconv = nn.Conv2d(3, 8, 3)\ny = conv(mx.zeros((1, 3, 32, 32)))\n",
		Good:   "import mlx.core as mx\nimport mlx.nn as nn\nconv = nn.Conv2d(3, 8, 3)\ny = conv(mx.zeros((1, 32, 32, 3)))\n",
		Source: "MLX documentation, nn.Conv2d",
	}, Kinds: []pyast.Kind{pyast.KindCall}, Node: func(p *audit.Pass, n pyast.Node) {
		c := n.(*pyast.Call)
		if !p.Imported("mlx") || len(c.Args) != 1 {
			return
		}
		f := p.Value(c.Func)
		if f.Kind != abstract.Made || f.Path != "mlx.nn.Conv2d" || f.Made == nil {
			return
		}
		in, ok := number(f.Made.Arg(0, "in_channels"))
		shape := madeShape(p, p.Value(c.Args[0]))
		if !ok || len(shape) != 4 || shape[3] == in || shape[1] != in {
			return
		}
		p.Report(c.Args[0], audit.Finding{Sure: true, Text: "this input is NCHW, and mlx.nn.Conv2d takes NHWC",
			Hint: "turn it: mx.transpose(x, (0, 2, 3, 1))"})
	}}

// madeShape is the shape of an array that was made by mx.zeros and the like.
func madeShape(p *audit.Pass, v *abstract.Value) []float64 {
	if v.Made == nil || !strings.HasPrefix(v.Made.Path, "mlx.core.") {
		return nil
	}
	s := v.Made.Arg(0, "shape")
	if strings.HasSuffix(v.Made.Path, "random.normal") || strings.HasSuffix(v.Made.Path, "random.uniform") {
		s = v.Made.Arg(0, "shape")
	}
	if s == nil || s.Kind != abstract.Seq {
		return nil
	}
	var shape []float64
	for _, i := range s.Items {
		n, ok := number(i)
		if !ok {
			return nil
		}
		shape = append(shape, n)
	}
	return shape
}
