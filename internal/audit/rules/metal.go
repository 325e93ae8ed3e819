package rules

import (
	"slices"
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// ChannelsFirst finds channels_first in Keras and TensorFlow code.
var ChannelsFirst = &audit.Rule{Name: "channels-first", Title: "channels_first in TensorFlow", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why: "TensorFlow's convolutions on the CPU take NHWC alone, and those of tensorflow-metal are written for it: with channels_first a model raises, or copies each input to the other order. " +
		"Weights have the same shape in both, so that a model saved with one can be loaded by the other.",
	Bad: "import keras\nlayer = keras.layers.Conv2D(8, 3, data_format=\"channels_first\")\n", Good: "import keras\nlayer = keras.layers.Conv2D(8, 3, data_format=\"channels_last\")\n",
	Source: "tensorflow/core/kernels/conv_ops.cc: the CPU implementation supports NHWC",
}, Names: under("keras.", "tensorflow."), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	if strings.HasPrefix(c.Path, "keras.") && strings.HasSuffix(c.Path, "set_image_data_format") {
		if v := c.Arg(0, "data_format"); v != nil && v.Kind == audit.Str && v.Text == "channels_first" {
			p.Report(c.At, audit.Finding{Sure: true, Text: "channels_first for the whole program: convolutions raise on the CPU and copy on Metal", Hint: "channels_last is what both are written for"})
		}
		return
	}
	if !strings.HasPrefix(c.Path, "keras.") && !strings.HasPrefix(c.Path, "tensorflow.") {
		return
	}
	v := c.Arg(-1, "data_format")
	if v == nil || v.Kind != audit.Str || v.Text != "channels_first" && v.Text != "NCHW" {
		return
	}
	p.Report(c.ArgNode(-1, "data_format"), audit.Finding{Sure: !v.Soft, Text: v.Text + ": convolutions raise on the CPU and copy on Metal", Hint: "write the model channels_last (NHWC), and turn the input once"})
})}

// SessionGraph finds TensorFlow 1 graphs.
var SessionGraph = &audit.Rule{Name: "tensorflow-v1-graph", Title: "graphs and sessions of TensorFlow 1", Severity: audit.Warning, Doc: audit.Doc{
	Why: "tensorflow-metal does not support graphs of TensorFlow 1 (tf.compat.v1 sessions): Apple lists them among what it leaves out.",
	Bad: "import tensorflow as tf\ntf.compat.v1.disable_eager_execution()\n", Good: "import tensorflow as tf\n@tf.function\ndef step(x):\n    return x\n",
	Source: "Apple, Getting started with tensorflow-metal: features not supported",
}, Names: under("tensorflow."), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	switch strings.TrimPrefix(c.Path, "tensorflow.") {
	case "compat.v1.Session", "Session", "compat.v1.disable_eager_execution", "compat.v1.disable_v2_behavior", "disable_v2_behavior", "disable_eager_execution",
		"compat.v1.InteractiveSession", "compat.v1.train.MonitoredTrainingSession":
		if strings.HasPrefix(c.Path, "tensorflow.") {
			p.Report(c.At, audit.Finding{Sure: true, Text: "a graph of TensorFlow 1: tensorflow-metal does not support it", Hint: "write it with tf.function"})
		}
	}
})}

// ComplexOnMetal finds complex numbers in TensorFlow.
var ComplexOnMetal = &audit.Rule{Name: "tensorflow-complex", Title: "complex numbers in TensorFlow", Severity: audit.Warning, Doc: audit.Doc{
	Why: "tensorflow-metal has no kernels for complex types: such operators run on the CPU, with copies, or raise where they were placed on the GPU.",
	Bad: "import tensorflow as tf\nx = tf.complex(a, b)\n", Good: "import tensorflow as tf\nx = tf.stack([a, b], -1)\n",
	Source: "Apple, Getting started with tensorflow-metal; the kernels registered in its binaries (`assay ops`)",
}, Names: under("tensorflow."), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	rest, ok := strings.CutPrefix(c.Path, "tensorflow.")
	if !ok {
		return
	}
	switch {
	case rest == "complex", rest == "cast" && dtypeText(c.Arg(1, "dtype"), "complex"), strings.HasPrefix(rest, "signal.") && strings.Contains(rest, "fft"),
		rest == "signal.stft", rest == "signal.inverse_stft", rest == "linalg.eig", rest == "linalg.eigvals":
		p.Report(c.At, audit.Finding{Sure: false, Text: "tf." + rest + " makes complex numbers, which tensorflow-metal does not have", Hint: "put it on the CPU: with tf.device(\"/CPU:0\")"})
	}
})}

func dtypeText(v *audit.Value, part string) bool {
	return v != nil && (v.Kind == audit.API && strings.Contains(v.Path, part) || v.Kind == audit.Str && strings.Contains(v.Text, part))
}

// MLXWithoutEval finds training loops whose graphs are never evaluated.
var MLXWithoutEval = &audit.Rule{Name: "mlx-without-eval", Title: "an MLX loop that never evaluates", Severity: audit.Warning, Doc: audit.Doc{
	Why:    "MLX is lazy: optimizer.update records what to compute, and nothing runs before mx.eval, or something reads a value. Without it the graph grows from step to step.",
	Bad:    "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    opt.update(model, grads)\n",
	Good:   "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    opt.update(model, grads)\n    mx.eval(model.parameters(), opt.state)\n",
	Source: "MLX documentation, Lazy evaluation",
}, Names: either(under("mlx."), ending("update", "item", "tolist")), Call: func(p *audit.Pass, c *audit.Call) {
	if !p.AtHome() || !p.Imported("mlx") {
		return
	}
	switch {
	case len(own(p)) > 0 && last(c.Path) == "update" && (strings.HasPrefix(c.Path, "mlx.optimizers.") || c.Path == "?.update" && len(c.Args) == 2):
		audit.Note(p, newLog).calls = append(audit.Note(p, newLog).calls, seen{c.At, p.Func(), "update", strings.HasPrefix(c.Path, "mlx.")})
	case c.Path == "mlx.core.eval", c.Path == "mlx.core.async_eval", last(c.Path) == "item", last(c.Path) == "tolist", c.Path == "mlx.core.compile",
		c.Path == "builtins.float", c.Path == "builtins.print", c.Path == "numpy.array", c.Path == "numpy.asarray":
		audit.Note(p, newLog).calls = append(audit.Note(p, newLog).calls, seen{c.At, p.Func(), "eval", true})
	}
}, File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	for _, s := range l.calls {
		if s.name == "update" && len(l.in(s.fn, "eval")) == 0 {
			elsewhere := slices.ContainsFunc(l.calls, func(e seen) bool { return e.name == "eval" }) // in a function that the loop may call
			p.Report(s.at, audit.Finding{Sure: s.sure && !elsewhere, Text: "nothing in this loop evaluates: the graph grows with every step", Hint: "call mx.eval(model.parameters(), optimizer.state) once a step"})
			return
		}
	}
}}

// MLXLayout finds NCHW input for MLX's convolutions.
var MLXLayout = &audit.Rule{Name: "mlx-channels-first", Title: "NCHW input for an MLX convolution", Severity: audit.Error, Doc: audit.Doc{
	Why:    "mlx.nn.Conv2d takes NHWC: an input in PyTorch's order raises about the number of channels, or convolves over the wrong axes where the numbers happen to fit.",
	Bad:    "import mlx.core as mx\nimport mlx.nn as nn\nconv = nn.Conv2d(3, 8, 3)\ny = conv(mx.zeros((1, 3, 32, 32)))\n",
	Good:   "import mlx.core as mx\nimport mlx.nn as nn\nconv = nn.Conv2d(3, 8, 3)\ny = conv(mx.zeros((1, 32, 32, 3)))\n",
	Source: "MLX documentation, nn.Conv2d",
}, Kinds: []pyast.Kind{pyast.KindCall}, Node: func(p *audit.Pass, n pyast.Node) {
	c := n.(*pyast.Call)
	if !p.Imported("mlx") || len(c.Args) != 1 {
		return
	}
	f := p.Value(c.Func)
	if f.Kind != audit.Made || f.Path != "mlx.nn.Conv2d" || f.Made == nil {
		return
	}
	in, ok := number(f.Made.Arg(0, "in_channels"))
	shape := madeShape(p, p.Value(c.Args[0]))
	if !ok || len(shape) != 4 || shape[3] == in || shape[1] != in {
		return
	}
	p.Report(c.Args[0], audit.Finding{Sure: true, Text: "this input is NCHW, and mlx.nn.Conv2d takes NHWC", Hint: "turn it: mx.transpose(x, (0, 2, 3, 1))"})
}}

// madeShape is the shape of an array that was made by mx.zeros and the like.
func madeShape(p *audit.Pass, v *audit.Value) []float64 {
	if v.Made == nil || !strings.HasPrefix(v.Made.Path, "mlx.core.") {
		return nil
	}
	s := v.Made.Arg(0, "shape")
	if strings.HasSuffix(v.Made.Path, "random.normal") || strings.HasSuffix(v.Made.Path, "random.uniform") {
		s = v.Made.Arg(0, "shape")
	}
	if s == nil || s.Kind != audit.Seq {
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
