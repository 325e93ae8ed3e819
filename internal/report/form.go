// Package report writes the evidence of a run for a reader: a terminal, a browser, another program. One file per form.
package report

import (
	"io"

	"assay/internal/evidence"
)

// Form is one way to write the evidence down. The same evidence gives the same bytes.
type Form interface {
	Name() string
	Write(w io.Writer, run *evidence.Run) error
}

// Forms is the explicit list, each with its defaults.
func Forms() []Form { return []Form{Text{}, JSON{}, HTML{}} }
