package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// SessionGraph finds TensorFlow 1 graphs.
var SessionGraph = &audit.Rule{Name: "tensorflow-v1-graph", Title: "graphs and sessions of TensorFlow 1",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "tensorflow-metal does not support graphs of TensorFlow 1 (tf.compat.v1 sessions): Apple lists them among " +
			"what it leaves out.",
		Bad:    "import tensorflow as tf\ntf.compat.v1.disable_eager_execution()\n",
		Good:   "import tensorflow as tf\n@tf.function\ndef step(x):\n    return x\n",
		Source: "Apple, Getting started with tensorflow-metal: features not supported",
	}, Calls: asks(named("tensorflow.Session", "tensorflow.disable_eager_execution", "tensorflow.disable_v2_behavior",
		"tensorflow.compat.v1.Session", "tensorflow.compat.v1.InteractiveSession",
		"tensorflow.compat.v1.train.MonitoredTrainingSession",
		"tensorflow.compat.v1.disable_eager_execution", "tensorflow.compat.v1.disable_v2_behavior"),
		onMetal(func(p *audit.Pass, c *abstract.Call) {
			p.Report(c.At, audit.Finding{Sure: true,
				Text: "a graph of TensorFlow 1: tensorflow-metal does not support it",
				Hint: "write it with tf.function"})
		}))}
