package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/internal/fault"
	"assay/internal/file"
)

// maxFile is what is read of a result: some 200,000 tests on several releases.
const maxFile = 512 << 20

// Open reads a result: a file, or the folder that holds one.
func Open(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, Name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("read the result of a suite: %w", err), "assay test writes one")
	}
	defer f.Close()
	r := &Result{}
	if err := json.NewDecoder(io.LimitReader(f, maxFile)).Decode(r); err != nil {
		return nil, fault.Hint(fmt.Errorf("read the result of a suite: %s: %w", path, err),
			"it is no result of assay test, or was cut off")
	}
	if r.Version != Version {
		return nil, fmt.Errorf("read the result of a suite: %s: version %d, and this assay reads %d", path, r.Version,
			Version)
	}
	for _, run := range r.Runs {
		for i, t := range run.Tests {
			if t.ID == "" {
				return nil, fmt.Errorf("read the result of a suite: %s: test %d of %s %s: no id", path, i, run.On,
					run.Torch)
			}
		}
	}
	return r, nil
}

// Write writes it whole, readable by others.
func (r *Result) Write(path string) error {
	if r.Version != Version {
		return errors.New("write the result of a suite: a version that is not this one's")
	}
	return file.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(r)
	})
}
