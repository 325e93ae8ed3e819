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
	r := &Result{}
	path, err := readJSON(path, Name, "the result of a suite", "assay test", r)
	if err != nil {
		return nil, err
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

// readJSON reads JSON from a file, or from the one of that name in a folder, and gives its path. what it is, and which
// command writes it, are for the error.
func readJSON(path, name, what, command string, into any) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, name)
	}
	f, err := os.Open(path)
	if err != nil {
		return path, fault.Hint(fmt.Errorf("read %s: %w", what, err), command+" writes one")
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxFile)).Decode(into); err != nil {
		return path, fault.Hint(fmt.Errorf("read %s: %s: %w", what, path, err),
			"it is none that "+command+" wrote, or was cut off")
	}
	return path, nil
}

// Write writes it whole, readable by others.
func (r *Result) Write(path string) error {
	if r.Version != Version {
		return errors.New("write the result of a suite: a version that is not this one's")
	}
	return writeJSON(path, r)
}

func writeJSON(path string, what any) error {
	return file.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(what)
	})
}
