package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// ComplexOnMetal finds complex numbers in TensorFlow.
var ComplexOnMetal = &audit.Rule{Name: "tensorflow-complex", Title: "complex numbers in TensorFlow",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "tensorflow-metal has no kernels for complex types: such operators run on the CPU, with copies, or raise " +
			"where they were placed on the GPU.",
		Bad:    "import tensorflow as tf\nx = tf.complex(a, b)\n",
		Good:   "import tensorflow as tf\nx = tf.stack([a, b], -1)\n",
		Source: "Apple, Getting started with tensorflow-metal; the kernels registered in its binaries (`assay ops`)",
	}, Calls: []audit.Ask{
		on(either(named("tensorflow.complex", "tensorflow.signal.stft", "tensorflow.signal.inverse_stft",
			"tensorflow.linalg.eig", "tensorflow.linalg.eigvals"),
			both(under("tensorflow.signal."), func(path string) bool { return strings.Contains(path, "fft") })),
			onMetal(reportComplex)),
		on(named("tensorflow.cast"), onMetal(func(p *audit.Pass, c *abstract.Call) {
			if dtypeText(c.Arg(1, "dtype"), "complex") {
				reportComplex(p, c)
			}
		})),
	}}

func reportComplex(p *audit.Pass, c *abstract.Call) {
	p.Report(c.At, audit.Finding{Sure: false, Text: "tf." + strings.TrimPrefix(c.Path, "tensorflow.") +
		" makes complex numbers, which tensorflow-metal does not have",
		Hint: "put it on the CPU: with tf.device(\"/CPU:0\")"})
}

func dtypeText(v *abstract.Value, part string) bool {
	return v != nil && (v.Kind == abstract.API && strings.Contains(v.Path, part) || v.Kind == abstract.Str &&
		strings.Contains(v.Text, part))
}
