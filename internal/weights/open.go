package weights

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"assay/internal/fault"
)

// A format is a kind of file: how it is known, and what opens it.
type format struct {
	name string
	// is says whether a file is of this kind, by its first bytes (up to 512) and its name in lower case.
	is func(head []byte, name string) bool
	// open reads what lies in the file; it closes f, or hands it on in File.Closers.
	open func(f *os.File, size int64) (*File, error)
}

// formats, in the order in which they are asked. Each is declared in a file of its own.
var formats = []format{
	torchFormat,
}

// Open opens a file of weights, whatever its kind.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := open(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading weights from %s: %w", path, err)
	}
	file.Path = path
	return file, nil
}

func open(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	name, names := strings.ToLower(f.Name()), make([]string, 0, len(formats))
	for _, kind := range formats {
		if kind.is(head[:n], name) {
			return kind.open(f, info.Size())
		}
		names = append(names, kind.name)
	}
	return nil, fault.Hint(errors.New("it is of no kind that is known"), "known are "+strings.Join(names, ", "))
}
