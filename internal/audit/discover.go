package audit

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// skipped are folders that hold no source of the project.
var skipped = []string{".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__",
	"__pypackages__", "node_modules", "site-packages", ".ipynb_checkpoints", ".assay", "_build", "buck-out"}

// Discover lists the files below the paths that can be checked, each once, sorted within each path. Folders are searched as git would:
// what .gitignore names is left out, and exclude's patterns (in gitignore's form, below base) as well. A file that is named is always taken.
func Discover(base string, paths, exclude []string) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	add := func(path string) {
		if !seen[path] {
			seen[path] = true
			found = append(found, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(filepath.Join(base, path))
		if filepath.IsAbs(path) {
			info, err = os.Stat(path)
		}
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", path, err)
		}
		if !info.IsDir() {
			add(filepath.Clean(path))
			continue
		}
		root := path
		if !filepath.IsAbs(root) {
			root = filepath.Join(base, root)
		}
		list, err := walk(root, exclude)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", path, err)
		}
		for _, name := range list {
			add(filepath.Join(path, name))
		}
	}
	return found, nil
}

// walk lists the files below root, with the patterns of every .gitignore from the repository's top on.
func walk(root string, exclude []string) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	top := root
	for dir := root; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			top = dir
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	split := func(path string) []string {
		rel, err := filepath.Rel(top, path)
		if err != nil || rel == "." {
			return nil
		}
		return strings.Split(filepath.ToSlash(rel), "/")
	}
	var patterns []gitignore.Pattern
	read := func(dir string) {
		text, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
		if err != nil || len(text) > 1<<20 {
			return
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			if line != "" && line[0] != '#' {
				patterns = append(patterns, gitignore.ParsePattern(line, split(dir)))
			}
		}
	}
	for _, dir := range between(top, root) {
		read(dir)
	}
	for _, e := range exclude {
		patterns = append(patterns, gitignore.ParsePattern(e, split(root)))
	}
	var found []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() && path != root {
				return fs.SkipDir // a folder that cannot be read
			}
			return err
		}
		if path != root {
			if d.IsDir() && (slices.Contains(skipped, d.Name()) || isEnvironment(path)) || len(patterns) > 0 && gitignore.NewMatcher(patterns).Match(split(path), d.IsDir()) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
		}
		if d.IsDir() {
			if path != root {
				read(path)
			}
			return nil
		}
		if d.Type().IsRegular() && KindOf(d.Name()) != "" {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, rel)
		}
		return nil
	})
	return found, err
}

// between lists the folders from top down to dir.
func between(top, dir string) []string {
	list := []string{dir}
	for dir != top && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

func isEnvironment(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "pyvenv.cfg"))
	return err == nil
}

// KindOf says what a file is to the audit: python, notebook, requirements, pyproject, environment; "" for others.
func KindOf(name string) string {
	name = filepath.Base(name)
	switch ext := filepath.Ext(name); {
	case ext == ".py" || ext == ".pyw":
		return "python"
	case ext == ".ipynb":
		return "notebook"
	case name == "pyproject.toml":
		return "pyproject"
	case ext == ".txt" && (strings.Contains(name, "requirements") || strings.HasPrefix(name, "constraints")):
		return "requirements"
	case (ext == ".yml" || ext == ".yaml") && (strings.HasPrefix(name, "environment") || strings.HasPrefix(name, "conda")):
		return "environment"
	}
	return ""
}

// IsPython tells a script without an ending by its first line.
func IsPython(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("python"))
}
