package signature

import (
	"bytes"
	"fmt"
	"io"

	"assay/internal/file"
)

// Write writes a file whole: whoever reads it finds all of it, or what lay there before.
func Write(path string, h Header, list []*Signature) error {
	h.Version = Version
	return file.Write(path, 0o644, func(w io.Writer) error {
		head, err := plain(h)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", head); err != nil {
			return err
		}
		for _, s := range list {
			line, err := s.line()
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Signature) line() ([]byte, error) {
	data, err := plain(s)
	return bytes.TrimSpace(data), err
}
