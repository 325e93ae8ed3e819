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
	"syscall"

	"assay/internal/pyast"
)

// parsed is a file with its tree; it is shared and not changed.
type parsed struct {
	src      *Source
	file     *pyast.File
	err      error
	relevant bool
	once     sync.Once
	names    top
}

// project finds and parses the files that others import.
type project struct {
	base    string
	names   map[string]string // by absolute path: how those that are checked were named
	changed map[string][]byte // content that is not on the disk
	mu      sync.Mutex
	files   map[string]*parsed // by absolute path: those asked for of late
	older   map[string]*parsed // and before that
	stems   map[string]string  // the file that an import of a path without ending gets; "" is none
	bytes   int                // of the sources in files

	imports map[[2]string]string              // and that an import in a folder gets
	folders map[string]map[string]fs.FileMode // what folders hold, by type; nil: too much
}

// keepBytes bounds the sources whose trees are kept for others to import, in each of the two generations.
const keepBytes = 6 << 20

// find is the file of a module whose path without ending is given, as Python looks for it: a package's __init__.py, else the .py, else the
// __init__.py that a namespace package could have. It is "" where there is none.
func (pr *project) find(stem string) string {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	path, asked := pr.stems[stem]
	if asked {
		return path
	}
	folder := filepath.Join(stem, "__init__.py")
	dir := pr.isDir(stem)
	switch {
	case dir && pr.isFile(folder):
		path = folder
	case pr.isFile(stem + ".py"):
		path = stem + ".py"
	case dir:
		path = folder
	}
	pr.stems[stem] = path
	return path
}

// locate is the file of a module that is imported in a folder; "" is none of the project's.
func (pr *project) locate(folder, name string) string {
	key := [2]string{folder, name}
	pr.mu.Lock()
	path, asked := pr.imports[key]
	pr.mu.Unlock()
	if asked {
		return path
	}
	below := strings.ReplaceAll(name, ".", string(filepath.Separator))
	for dir := folder; path == "" && (len(dir) >= len(pr.base) || strings.HasPrefix(pr.base, dir)); dir = filepath.Dir(dir) {
		path = pr.find(filepath.Join(dir, below))
		if dir == pr.base || dir == filepath.Dir(dir) {
			break
		}
	}
	pr.mu.Lock()
	pr.imports[key] = path
	pr.mu.Unlock()
	return path
}

// packageOf lists the packages that a folder is, the innermost last: those above it count as long as they have an __init__.py.
func (pr *project) packageOf(dir string) string {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	name := ""
	for pr.isFile(filepath.Join(dir, "__init__.py")) && dir != filepath.Dir(dir) {
		name = filepath.Base(dir) + "/" + name
		dir = filepath.Dir(dir)
	}
	return name
}

func (pr *project) isFile(path string) bool { return pr.typeOf(path).IsRegular() }
func (pr *project) isDir(path string) bool  { return pr.typeOf(path).IsDir() }

// listed bounds the entries of a folder that is read whole; in larger ones, which hold data, each name is asked for.
const listed = 2000

// missing is the type of what is not there.
const missing = fs.ModeIrregular

// typeOf is the type of what a path names. Most imports are of nothing beside the file: a folder is read once, instead of asked for each.
func (pr *project) typeOf(path string) fs.FileMode {
	dir, name := filepath.Split(path)
	entries, read := pr.folders[dir]
	if !read {
		if f, err := os.Open(dir); err == nil {
			if list, err := f.ReadDir(listed); err == nil && len(list) < listed || err == io.EOF {
				entries = make(map[string]fs.FileMode, len(list))
				for _, e := range list {
					entries[e.Name()] = e.Type()
				}
			}
			f.Close()
		} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			entries = map[string]fs.FileMode{}
		}
		pr.folders[dir] = entries
	}
	if entries != nil {
		mode, there := entries[name]
		if !there {
			return missing
		}
		if mode&fs.ModeSymlink == 0 {
			return mode
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return missing
	}
	return info.Mode().Type()
}

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
		return nil, fmt.Errorf("%d MB is more than a program has: at most %d MB are read", info.Size()>>20, maxSource>>20)
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
	if len(file.Text) != len(src.Text) || file.Encoding != "utf-8" && file.Text != string(src.Text) { // another encoding: offsets are of the decoded text
		src.Text, src.fixed = []byte(file.Text), true
	}
	return &parsed{src: src, file: file, relevant: relevant}
}

// relevant words, and mlx: a file that has none of them says nothing that a rule asks for.
var relevant = strings.Fields(`torch tensorflow keras cuda PYTORCH multiprocessing device flash_attn triton contextmanager pickle assay: "mps 'mps`)

// A search for all words at once (Wu and Manber, A fast algorithm for multi-pattern searching, 1994, with the words cut to four bytes): skips says
// how far it may go on where a pair of bytes ends a window of four; 0 is a place where a word may be. Bytes of no word share a class, so that the
// table stays small. The one shorter word is sought by its rarest letter.
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
