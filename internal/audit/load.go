package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"assay/internal/abstract"
	"assay/internal/pyast"
)

// plain is an error without the path that is said beside it.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// parsed is a file with its tree; it is shared and not changed.
type parsed struct {
	src  *Source
	file *abstract.File
	err  error
}

// project reads and parses the files that are checked and those that they import.
type project struct {
	base    string
	finder  *abstract.Finder
	names   map[string]string // by absolute path: how those that are checked were named
	changed map[string][]byte // content that is not on the disk
	mu      sync.Mutex
	files   map[string]*parsed // by absolute path: those asked for of late
	older   map[string]*parsed // and before that
	bytes   int                // of the sources in files
}

// keepBytes bounds the sources whose trees are kept for others to import, in each of the two generations.
const keepBytes = 6 << 20

// kept is a file's tree where it is still at hand.
func (pr *project) kept(path string) *parsed {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	f := pr.files[path]
	if f == nil {
		if f = pr.older[path]; f != nil {
			pr.keep(path, f)
		}
	}
	return f
}

func (pr *project) read(path string) ([]byte, error) {
	if raw, ok := pr.changed[path]; ok {
		return raw, nil
	}
	return readBounded(path)
}

// load reads and parses a file, unless its tree is at hand.
func (pr *project) load(path string) *parsed {
	f := pr.kept(path)
	if f != nil {
		return f
	}
	if raw, err := pr.read(path); err != nil {
		f = &parsed{err: plain(err)}
	} else if name := pr.names[path]; name != "" {
		f = parse(name, raw)
	} else if rel, err := filepath.Rel(pr.base, path); err == nil {
		f = parse(rel, raw)
	} else {
		f = parse(path, raw)
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.keep(path, f)
	return f
}

func (pr *project) keep(path string, f *parsed) {
	size := 256
	if f.src != nil {
		size = len(f.src.Text)
	}
	if pr.bytes+size > keepBytes {
		pr.files, pr.older, pr.bytes = map[string]*parsed{}, pr.files, 0
	}
	pr.files[path] = f
	pr.bytes += size
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	if info.Size() > maxSource {
		return nil, fmt.Errorf("%d MB is more than a program has: at most %d MB are read", info.Size()>>20,
			maxSource>>20)
	}
	raw := make([]byte, info.Size()+1) // one more, to see that it ends there
	n, err := io.ReadFull(f, raw)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return raw[:n], nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxSource-info.Size()+1)) // it grew
	return append(raw, rest...), err
}

func parse(path string, raw []byte) *parsed {
	src, err := NewSource(path, raw)
	if err != nil {
		return &parsed{err: err}
	}
	relevant := isRelevant(src.Text)
	file := pyast.Parse(src.Text, pyast.Options{ErrorsOnly: !relevant})
	// another encoding: offsets are of the decoded text
	if len(file.Text) != len(src.Text) || file.Encoding != "utf-8" && file.Text != string(src.Text) {
		src.Text, src.fixed = []byte(file.Text), true
	}
	return &parsed{src: src, file: &abstract.File{Tree: file, Idle: !relevant}}
}

// relevant words, and mlx: a file that has none of them says nothing that a rule asks for.
var relevant = strings.Fields(`torch tensorflow keras cuda PYTORCH multiprocessing device flash_attn triton
	contextmanager pickle assay: "mps 'mps`)

// A search for all words at once (Wu and Manber, A fast algorithm for multi-pattern searching, 1994, with the words
// cut to four bytes): skips says how far it may go on where a pair of bytes ends a window of four; 0 is a place where
// a word may be. Bytes of no word share a class, so that the table stays small. The one shorter word is sought by its
// rarest letter.
var (
	classes [256]uint8
	skips   [32 * 32]uint8
)

const window = 4

func init() {
	next := uint8(1)
	for i := range skips {
		skips[i] = window - 1
	}
	for _, w := range relevant {
		for i := range window {
			if classes[w[i]] == 0 {
				classes[w[i]] = next
				next++
			}
			if i > 0 {
				pair := int(classes[w[i-1]])<<5 | int(classes[w[i]])
				skips[pair] = min(skips[pair], uint8(window-1-i))
			}
		}
	}
}

func isRelevant(text []byte) bool {
	for i := window - 1; i < len(text); {
		skip := skips[int(classes[text[i-1]])<<5|int(classes[text[i]])&31]
		if skip > 0 {
			i += int(skip)
			continue
		}
		at := i - window + 1
		for _, w := range relevant {
			if w[0] == text[at] && len(text)-at >= len(w) && string(text[at:at+len(w)]) == w {
				return true
			}
		}
		i++
	}
	for at := 2; at < len(text); at++ {
		i := bytes.IndexByte(text[at:], 'x')
		if i < 0 {
			return false
		}
		if at += i; text[at-2] == 'm' && text[at-1] == 'l' {
			return true
		}
	}
	return false
}
