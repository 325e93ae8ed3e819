// Package examples carries the example that `assay demo` trains, and those that it rehearses.
package examples

import "embed"

// Digits is examples/digits/train.py.
//
//go:embed digits/train.py
var Digits []byte

// Double are examples/double/*.py: scripts that meet something on MPS.
//
//go:embed double/*.py
var Double embed.FS
