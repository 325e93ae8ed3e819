package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	safetensorsFormat,
	npyFormat,
	npzFormat,
	ggufFormat,
	kerasFormat,
	hdf5Format,
	torchFormat,
}

// Open opens a file of weights, whatever its kind; of a folder the file in it that names the others, or the one
// safetensors file that it has.
func Open(path string) (*File, error) {
	file, err := open(path)
	if err != nil {
		if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Path == path {
			err = at.Err // the path stands before it
		}
		return nil, fmt.Errorf("reading weights from %s: %w", path, err)
	}
	return file, nil
}

func open(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if path, err = inFolder(path); err != nil {
			return nil, err
		}
	}
	return openRegular(path)
}

// openRegular opens a file that is one.
func openRegular(path string) (*File, error) {
	info, err := os.Stat(path) // before it is opened: to open a pipe waits for its writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := openFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	file.Path = path
	return file, nil
}

// inFolder is the file of a folder that stands for all that are in it.
func inFolder(folder string) (string, error) {
	for _, pattern := range []string{"*.safetensors.index.json", "*.index.json", "*" + kerasIndexName,
		"*.safetensors"} {
		found, err := filepath.Glob(filepath.Join(globEscape(folder), pattern))
		if err != nil {
			return "", err
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return "", fault.Hint(fmt.Errorf("it is a folder with %d files %s", len(found), pattern),
				"name one of them, as "+found[0])
		}
	}
	return "", fault.Hint(errors.New("it is a folder without a *.safetensors.index.json or a *.safetensors"),
		"name the file of weights in it")
}

// globEscape makes a pattern of a path that stands for that path alone.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func openFile(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if head = head[:n]; bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")) {
		return nil, fault.Hint(errors.New("it is a pointer of Git LFS, and not the file that it stands for"),
			"fetch that: git lfs pull")
	}
	name, names := strings.ToLower(f.Name()), []string{"index.json and .weights.json of several"}
	if strings.HasSuffix(name, indexName) { // no row of formats, since it opens files of each of them
		return openIndex(f, info.Size())
	}
	if strings.HasSuffix(name, kerasIndexName) {
		return openKerasIndex(f, info.Size())
	}
	for _, kind := range formats {
		if kind.is(head, name) {
			return kind.open(f, info.Size())
		}
		names = append(names, kind.name)
	}
	return nil, fault.Hint(errors.New("it is of no kind that is known"), "known are "+strings.Join(names, ", "))
}
