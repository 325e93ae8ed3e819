package abstract

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Finder finds the files of a project that an import gets. It may be asked by several interpreters at once.
type Finder struct {
	base    string
	mu      sync.Mutex
	stems   map[string]string                 // the file that an import of a path without ending gets; "" is none
	imports map[[2]string]string              // and that an import in a folder gets
	folders map[string]map[string]fs.FileMode // what folders hold, by type; nil: too much
}

// NewFinder finds files of the project below base, which is an absolute path.
func NewFinder(base string) *Finder {
	return &Finder{base: base, stems: map[string]string{}, imports: map[[2]string]string{},
		folders: map[string]map[string]fs.FileMode{}}
}

// find is the file of a module whose path without ending is given, as Python looks for it: a package's __init__.py,
// else the .py, else the
// __init__.py that a namespace package could have. It is "" where there is none.
func (f *Finder) find(stem string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, asked := f.stems[stem]
	if asked {
		return path
	}
	folder := filepath.Join(stem, "__init__.py")
	dir := f.isDir(stem)
	switch {
	case dir && f.isFile(folder):
		path = folder
	case f.isFile(stem + ".py"):
		path = stem + ".py"
	case dir:
		path = folder
	}
	f.stems[stem] = path
	return path
}

// locate is the file of a module that is imported in a folder; "" is none of the project's.
func (f *Finder) locate(folder, name string) string {
	key := [2]string{folder, name}
	f.mu.Lock()
	path, asked := f.imports[key]
	f.mu.Unlock()
	if asked {
		return path
	}
	below := strings.ReplaceAll(name, ".", string(filepath.Separator))
	for dir := folder; path == "" && (len(dir) >= len(f.base) || strings.HasPrefix(f.base,
		dir)); dir = filepath.Dir(dir) {
		path = f.find(filepath.Join(dir, below))
		if dir == f.base || dir == filepath.Dir(dir) {
			break
		}
	}
	f.mu.Lock()
	f.imports[key] = path
	f.mu.Unlock()
	return path
}

// Package lists the packages that a folder is, the innermost last: those above it count as long as they have an
// __init__.py.
func (f *Finder) Package(dir string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := ""
	for f.isFile(filepath.Join(dir, "__init__.py")) && dir != filepath.Dir(dir) {
		name = filepath.Base(dir) + "/" + name
		dir = filepath.Dir(dir)
	}
	return name
}

func (f *Finder) isFile(path string) bool { return f.typeOf(path).IsRegular() }

func (f *Finder) isDir(path string) bool { return f.typeOf(path).IsDir() }

// listed bounds the entries of a folder that is read whole; in larger ones, which hold data, each name is asked for.
const listed = 2000

// missing is the type of what is not there.
const missing = fs.ModeIrregular

// typeOf is the type of what a path names. Most imports are of nothing beside the file: a folder is read once, instead
// of asked for each.
func (f *Finder) typeOf(path string) fs.FileMode {
	dir, name := filepath.Split(path)
	entries, read := f.folders[dir]
	if !read {
		if folder, err := os.Open(dir); err == nil {
			if list, err := folder.ReadDir(listed); err == nil && len(list) < listed || err == io.EOF {
				entries = make(map[string]fs.FileMode, len(list))
				for _, e := range list {
					entries[e.Name()] = e.Type()
				}
			}
			folder.Close()
		} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			entries = map[string]fs.FileMode{}
		}
		f.folders[dir] = entries
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
