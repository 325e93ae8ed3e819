// Package examples carries the example that `assay demo` trains.
package examples

import _ "embed"

// Digits is examples/digits/train.py.
//
//go:embed digits/train.py
var Digits []byte
