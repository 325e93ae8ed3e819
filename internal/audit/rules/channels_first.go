package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// ChannelsFirst finds channels_first in Keras and TensorFlow code.
var ChannelsFirst = &audit.Rule{Name: "channels-first", Title: "channels_first in TensorFlow",
	Claims: []string{"14", "15"}, Severity: audit.Warning,
	Fixable: true, Doc: audit.Doc{
		Why: "TensorFlow's convolutions on the CPU take NHWC alone: with channels_first a model raises wherever a layer is " +
			"not on the GPU. Whether those of tensorflow-metal take NCHW nobody has shown. " +
			"Weights have the same shape in both, so that a model saved with one can be loaded by the other.",
		Bad:    "import keras\nlayer = keras.layers.Conv2D(8, 3, data_format=\"channels_first\")\n",
		Good:   "import keras\nlayer = keras.layers.Conv2D(8, 3, data_format=\"channels_last\")\n",
		Source: "tensorflow/core/kernels/conv_ops.cc: the CPU implementation supports NHWC",
	}, Calls: []audit.Ask{
		on(both(under("keras."), ending("set_image_data_format")), onMetal(channelsForAll)),
		on(under("keras.", "tensorflow."), onMetal(channelsOfLayer)),
	}}

func channelsForAll(p *audit.Pass, c *abstract.Call) {
	v := c.Arg(0, "data_format")
	if v == nil || v.Kind != abstract.Str || v.Text != "channels_first" {
		return
	}
	f := audit.Finding{Sure: true,
		Text: "channels_first for the whole program: convolutions raise on the CPU; whether tensorflow-metal takes them is not known",
		Hint: "channels_last runs on both"}
	if _, written := c.ArgNode(0, "data_format").(*pyast.Constant); !written { // K.set_image_data_format(old)
		f.Sure, f.Text = false, f.Text+", unless this only sets it back"
	}
	p.Report(c.At, f)
}

func channelsOfLayer(p *audit.Pass, c *abstract.Call) {
	v := c.Arg(-1, "data_format")
	if v == nil || v.Kind != abstract.Str || v.Text != "channels_first" && v.Text != "NCHW" {
		return
	}
	p.Report(c.ArgNode(-1, "data_format"), audit.Finding{Sure: !v.Soft,
		Text: v.Text + ": convolutions raise on the CPU; whether tensorflow-metal takes them is not known",
		Hint: "write the model channels_last (NHWC), and turn the input once"})
}
