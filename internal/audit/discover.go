package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// skipped are folders that hold no source of the project.
var skipped = []string{".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache",
	".pytest_cache", "__pycache__",
	"__pypackages__", "node_modules", "site-packages", ".ipynb_checkpoints", ".assay", "_build", "buck-out"}

// Exclude is a list of patterns in gitignore's form, and the folder that they speak of.
type Exclude struct {
	Dir      string // absolute
	Patterns []string
}

// Discover lists the files below the paths that can be checked, each once, sorted within each path. Folders are
// searched as git would:
// what .gitignore and .git/info/exclude name is left out, and what is excluded as well. A file that is named is always
// taken.
func Discover(base string, paths []string, exclude []Exclude) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	add := func(path string) {
		if !seen[path] {
			seen[path] = true
			found = append(found, path)
		}
	}
	for _, path := range paths {
		root := path
		if !filepath.IsAbs(root) {
			root = filepath.Join(base, root)
		}
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", path, plain(err))
		}
		if !info.IsDir() {
			add(filepath.Clean(path))
			continue
		}
		root, err = filepath.Abs(root)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", path, err)
		}
		w := &walker{exclude: excluding(exclude), found: func(rel string) { add(filepath.Join(path, rel)) }}
		if err := w.walk(root, "", above(root)); err != nil {
			return nil, fmt.Errorf("check %s: %w", path, err)
		}
	}
	return found, nil
}

// Excluded reports whether a search of the folder base would leave the file out.
func Excluded(base, path string, exclude []Exclude) bool {
	rel, err := filepath.Rel(base, path)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	w := &walker{exclude: excluding(exclude)}
	ignored := above(base)
	dir := base
	names := strings.Split(rel, string(filepath.Separator))
	for i, name := range names {
		if i > 0 {
			ignored = ignored.read(dir)
		}
		dir = filepath.Join(dir, name)
		if isDir := i < len(names)-1; isDir && unwanted(dir) || ignored.match(dir, isDir) ||
			w.exclude.match(dir, isDir) {
			return true
		}
	}
	return false
}

// walker searches a folder.
type walker struct {
	exclude *ignoring
	found   func(rel string)
}

func (w *walker) walk(dir, rel string, ignored *ignoring) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		if rel != "" {
			return nil // a folder that cannot be read
		}
		return plain(err)
	}
	if rel != "" {
		ignored = ignored.read(dir)
	}
	for _, d := range list {
		path, isDir := filepath.Join(dir, d.Name()), d.IsDir()
		if !isDir && (!d.Type().IsRegular() || KindOf(d.Name()) == "") {
			continue
		}
		if isDir && unwanted(path) || ignored.match(path, isDir) || w.exclude.match(path, isDir) {
			continue
		}
		if !isDir {
			w.found(filepath.Join(rel, d.Name()))
		} else if err := w.walk(path, filepath.Join(rel, d.Name()), ignored); err != nil {
			return err
		}
	}
	return nil
}

// unwanted are folders that hold no source of the project: by their names, and virtual environments.
func unwanted(dir string) bool {
	return slices.Contains(skipped, filepath.Base(dir)) || isEnvironment(dir)
}

// ignoring are patterns in the order in which they were read; the last one that matches counts. More of a deeper
// folder are linked in front.
type ignoring struct {
	rules []ignoreRule
	outer *ignoring
}

type ignoreRule struct {
	dir     string // its paths begin with it
	not     bool   // !pattern
	folders bool   // pattern/
	whole   bool   // the pattern speaks of the path below dir, not of a name
	literal string // without wildcards
	suffix  string // *suffix
	re      *regexp.Regexp
}

// above are the patterns that hold at the top of a search: those of the repository's folders from its own top down to
// dir.
func above(dir string) *ignoring {
	top := ""
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	var list *ignoring
	if top == "" {
		return list.read(dir)
	}
	if text, err := os.ReadFile(filepath.Join(top, ".git", "info", "exclude")); err == nil {
		list = list.with(top, strings.Split(string(text), "\n"))
	}
	for _, d := range foldersBetween(top, dir) {
		list = list.read(d)
	}
	return list
}

func excluding(list []Exclude) *ignoring {
	var all *ignoring
	for _, e := range list {
		all = all.with(e.Dir, e.Patterns)
	}
	return all
}

// maxIgnore bounds a .gitignore.
const maxIgnore = 1 << 20

// read adds the patterns of a folder's .gitignore.
func (g *ignoring) read(dir string) *ignoring {
	text, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	if err != nil || len(text) > maxIgnore {
		return g
	}
	return g.with(dir, strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n"))
}

func (g *ignoring) with(dir string, lines []string) *ignoring {
	more := &ignoring{outer: g}
	for _, line := range lines {
		if r, ok := parseIgnore(dir, line); ok {
			more.rules = append(more.rules, r)
		}
	}
	if len(more.rules) == 0 {
		return g
	}
	return more
}

func (g *ignoring) match(path string, isDir bool) bool {
	for ; g != nil; g = g.outer {
		for i := len(g.rules) - 1; i >= 0; i-- {
			if r := &g.rules[i]; (isDir || !r.folders) && r.match(path) {
				return !r.not
			}
		}
	}
	return false
}

func (r *ignoreRule) match(path string) bool {
	rel, below := strings.CutPrefix(path, r.dir)
	if !below || rel == "" || rel[0] != filepath.Separator && !strings.HasSuffix(r.dir, string(filepath.Separator)) {
		return false
	}
	rel = filepath.ToSlash(strings.TrimPrefix(rel, string(filepath.Separator)))
	if !r.whole {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	switch {
	case r.re != nil:
		return r.re.MatchString(bytewise(rel))
	case r.suffix != "":
		return strings.HasSuffix(rel, r.suffix)
	}
	return rel == r.literal
}

// parseIgnore reads a line as gitignore(5) says.
func parseIgnore(dir, line string) (ignoreRule, bool) {
	r := ignoreRule{dir: filepath.Clean(dir)}
	line = strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.not, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.folders, line = true, line[:len(line)-1]
	}
	r.whole = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	if !strings.ContainsAny(line, `*?[\`) {
		r.literal = line
		return r, true
	}
	if rest, ok := strings.CutPrefix(line, "*"); ok && !r.whole && rest != "" && !strings.ContainsAny(rest, `*?[\`) {
		r.suffix = rest
		return r, true
	}
	re, err := regexp.Compile("^" + wildcard(bytewise(line)) + "$")
	r.re = re
	return r, err == nil
}

// bytewise makes each byte a character: to git, a wildcard stands for a byte.
func bytewise(s string) string {
	if isASCII([]byte(s)) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// wildcard is a pattern as a regular expression.
func wildcard(p string) string {
	var b strings.Builder
	b.WriteString("(?s)")
	for i := 0; i < len(p); i++ {
		rest := p[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || p[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 2
		case rest == "**" && i > 0 && p[i-1] == '/':
			b.WriteString(".+")
			i++
		case p[i] == '*':
			b.WriteString("[^/]*")
		case p[i] == '?':
			b.WriteString("[^/]")
		case p[i] == '\\' && i+1 < len(p):
			i++
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		case p[i] == '[':
			set, n := bracket(rest)
			if n == 0 {
				return nothing // it has no end
			}
			b.WriteString(set)
			i += n - 1
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	return b.String()
}

// nothing is an expression that never matches.
const nothing = `[^\s\S]`

// bracket is a set of characters ([a-c], [!a], [[:digit:]]) as a regular expression, and its length; 0 where it has no
// end.
func bracket(p string) (string, int) {
	i := 1
	set := "["
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		set += "^/"
		i++
	}
	for first := true; i < len(p); first = false {
		switch {
		case p[i] == ']' && !first && set == "[":
			return nothing, i + 1
		case p[i] == ']' && !first:
			return set + "]", i + 1
		case p[i] == '/': // no set has it
		case strings.HasPrefix(p[i:], "[:") && strings.Contains(p[i:], ":]"):
			n := strings.Index(p[i:], ":]") + 2
			set += p[i : i+n]
			i += n
			continue
		case p[i] == '\\' && i+1 < len(p):
			i++
			set += regexp.QuoteMeta(p[i : i+1])
		case p[i] == '-':
			if first || i+1 < len(p) && p[i+1] == ']' {
				set += `\`
			}
			set += "-"
		default:
			set += regexp.QuoteMeta(p[i : i+1])
		}
		i++
	}
	return "", 0
}

// foldersBetween lists the folders from top down to dir.
func foldersBetween(top, dir string) []string {
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
	case (ext == ".yml" || ext == ".yaml") && (strings.HasPrefix(name, "environment") ||
		strings.HasPrefix(name, "conda")):
		return "environment"
	}
	return ""
}
