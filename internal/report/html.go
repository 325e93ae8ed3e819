package report

import (
	"io"

	"assay/internal/evidence"
)

type HTML struct{}

func (HTML) Name() string                               { return "html" }
func (HTML) Write(w io.Writer, run *evidence.Run) error { return nil }
