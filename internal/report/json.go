package report

import (
	"fmt"
	"io"

	"assay/internal/evidence"
)

// JSON writes the record itself, indented. docs/formats/evidence.md describes it.
type JSON struct{}

// Name of the form.
func (JSON) Name() string { return "json" }

// Write the record. Every list is written as a list: an empty one as [], so that a reader needs no case for null.
func (JSON) Write(w io.Writer, run *evidence.Run) error {
	if err := evidence.Write(w, listed(run)); err != nil {
		return fmt.Errorf("write evidence as JSON: %w", err)
	}
	return nil
}
