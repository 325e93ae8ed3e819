package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"assay/internal/atlas"
	"assay/internal/pyast"
)

// Options of a check.
type Options struct {
	Base     string // folder that paths are relative to
	Files    []string
	Rules    []*Rule // that are looked for
	Known    []*Rule // all there are: a comment may allow those that are not looked for
	Target   Target
	Sure     bool // leave out what is only suspected
	All      bool // and notes that are only suspected
	Baseline *Baseline
	Version  string    // of assay
	Fix      Safety    // "": none; Safe: safe fixes; Unsafe: these too
	Stdin    io.Reader // the content of the file "-"
	StdinAs  string    // the name that it goes by

	Changed map[string][]byte // by absolute path: what fixes made of files, instead of what stands on the disk
}

// ruleSet is the rules by what they look at.
type ruleSet struct {
	all   []*Rule
	calls []*Rule
	nodes [256][]*Rule
	ends  []*Rule // of the place where a program gives up for want of CUDA
	files []*Rule
	texts []*Rule
	named map[string][]*Rule // of calls, those that ask for a name
}

// keepNames bounds the names whose rules are kept.
const keepNames = 50_000

// of lists the rules that ask for calls of a name.
func (s *ruleSet) of(path string) []*Rule {
	list, known := s.named[path]
	if !known {
		for _, r := range s.calls {
			if r.Names == nil || r.Names(path) {
				list = append(list, r)
			}
		}
		if len(s.named) >= keepNames {
			clear(s.named)
		}
		s.named[path] = list
	}
	return list
}

func sorted(rules []*Rule) *ruleSet {
	s := &ruleSet{all: rules, named: map[string][]*Rule{}}
	for _, r := range rules {
		if r.Call != nil {
			s.calls = append(s.calls, r)
		}
		if r.File != nil {
			s.files = append(s.files, r)
		}
		if r.Text != nil {
			s.texts = append(s.texts, r)
		}
		if r.Node != nil {
			if len(r.Kinds) == 0 {
				s.ends = append(s.ends, r)
			}
			for _, k := range r.Kinds {
				s.nodes[k] = append(s.nodes[k], r)
			}
		}
	}
	return s
}

// Unit is a file of the project that has been parsed, as one Pass sees it.
type Unit struct {
	Path    string
	Src     *Source
	File    *pyast.File
	env     *env
	funcs   map[*pyast.FunctionDef]*Func
	classes map[*pyast.ClassDef]*Class
	order   []*Func
	parsed  *parsed
	asked   map[string]bool // names at the top of a file that others import, which have been asked for
	ran     []bool          // the statements at its top that have been interpreted for them
	within  *string         // Package
}

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

// Pass is the interpretation of one file, with what it calls of others.
type Pass struct {
	Target *Target
	Src    *Source // of the code that is being looked at
	Main   *Unit   // the file that is checked

	rules   *ruleSet
	memo    *memo
	rule    *Rule              // that is looking
	unless  func(*Pass) bool   // where this holds, the rule keeps silent
	doubt   func(*Pass) string // why a finding of the rule is only suspected here; "" where it is not
	project *project
	shared  *answers
	mod     *Unit
	modules map[string]*Unit
	env     *env
	frame   *currentFrame
	loops   []Loop
	blocks  []Block
	found   map[place]*Finding
	sources map[string]*Source

	defaultDevice Devices
	defaultType   string
	quiet         bool
	nesting       int
	steps         int
	depth         int
	calls         int
	maybe         int
	guarded       int        // try blocks around that take a failed import
	caughtErrors  int        // and those that take a failed call
	main          int        // if __name__ == "__main__" around
	tests         []openTest // of the ifs around whose outcome is open
	handlers      int        // except clauses around
	lone          bool       // a function is looked at that the file itself never calls
	imports       map[string]bool
	notes         map[string]any // of rules, by name: Note
	print         []byte         // fingerprint's buffer
	numbers       map[any]uint32 // and its numbers: identity
	spare         []*Call        // calls that are done with
	callRoom      []Call         // room for more
	argRoom       []*Value
}

type place struct {
	path string
	rule *Rule
	from int
	text string
}

// Package is the path of the code that is being looked at within its outermost package, without its file: "" for a script. Folders that hold the
// project, whatever they are called, do not count.
func (p *Pass) Package() string {
	if p.mod.within == nil {
		within := p.project.packageOf(filepath.Dir(p.mod.Path))
		p.mod.within = &within
	}
	return *p.mod.within
}

// Func is the function around, nil at the top of a file.
func (p *Pass) Func() *Func {
	if p.frame == nil {
		return nil
	}
	return p.frame.fn
}

// File is the tree of the code that is being looked at.
func (p *Pass) File() *pyast.File { return p.mod.File }

// Loops around, the innermost last: those of callers too. Func says which are the function's own.
func (p *Pass) Loops() []Loop { return p.loops }

// Blocks are the with blocks around, the innermost last.
func (p *Pass) Blocks() []Block { return p.blocks }

// Guarded reports whether a failing import is caught here; Caught the same of a failing call.
func (p *Pass) Guarded() bool { return p.guarded > 0 }

// Caught reports whether an exception of a call is caught here.
func (p *Pass) Caught() bool { return p.caughtErrors > 0 }

// InMain reports whether `if __name__ == "__main__"` stands around, or a function runs that only such code calls.
func (p *Pass) InMain() bool { return p.main > 0 }

// Maybe reports whether the code runs under a condition that is not known.
func (p *Pass) Maybe() bool { return p.maybe > 0 }

// Imported reports whether the package has been imported so far, here or in a file that is imported.
func (p *Pass) Imported(name string) bool { return p.imports[name] }

// Note is a place for what a rule must remember through a file; make makes it.
func Note[T any](p *Pass, make func() T) T {
	if v, ok := p.notes[p.rule.Name]; ok {
		return v.(T)
	}
	v := make()
	p.notes[p.rule.Name] = v
	return v
}

// Report keeps a finding. From and To are taken of at, unless they are set.
func (p *Pass) Report(at pyast.Node, f Finding) {
	if p.quiet {
		return
	}
	if p.doubt != nil && f.Sure {
		if why := p.doubt(p); why != "" {
			f.Sure, f.Text = false, f.Text+why
		}
	}
	r := p.rule
	f.Rule = r
	if f.Severity == "" {
		f.Severity = r.Severity
	}
	if f.To == 0 {
		f.From, f.To = at.Pos(), at.End()
	}
	switch { // what is caught, and what is reached by an error alone
	case !f.Sure:
	case p.handlers > 0:
		f.Sure, f.Text = false, f.Text+", if the error before it gets here"
	case p.caughtErrors > 0 && f.Severity == Error:
		f.Sure, f.Text = false, f.Text+"; the error is caught here"
	}
	if p.Src.fixed {
		f.Fix = nil
	}
	key := place{p.Src.Path, r, f.From, f.Text}
	if old := p.found[key]; old != nil && (old.Sure || !f.Sure) {
		return
	}
	if p.unless != nil && p.unless(p) {
		return
	}
	p.sources[p.Src.Path] = p.Src
	p.found[key] = &f
}

// Unless calls look, whose findings are kept where the condition does not hold, and are suspected where doubt says why. Both are asked when there is
// a finding: most calls have none.
func (p *Pass) Unless(condition func(*Pass) bool, doubt func(*Pass) string, look func(*Pass, *Call), c *Call) {
	p.unless, p.doubt = condition, doubt
	look(p, c)
	p.unless, p.doubt = nil, nil
}

// Text of the source that a node has.
func (p *Pass) Text(n pyast.Node) string { return p.mod.File.Source(n) }

// module is the value of an imported name: a file of the project, or an API.
func (p *Pass) module(name string) *Value {
	return &Value{Kind: API, Path: canonical(name), Mod: p.locate(p.mod.Path, name)}
}

// locate finds the project's file that `import name` gets in a file: beside it, or in a folder above it, down from the project's.
func (p *Pass) locate(from, name string) *Unit {
	top, _, _ := strings.Cut(name, ".")
	switch top {
	case "torch", "numpy", "os", "sys", "typing", "math", "time", "json", "random", "functools", "collections", "argparse", "logging", "re", "tqdm", "pathlib":
		return nil
	}
	return p.unit(p.project.locate(filepath.Dir(from), name))
}

// maxModules bounds the files that are followed from one.
const maxModules = 60

// at is the module of a path without its ending.
func (p *Pass) at(stem string) *Unit { return p.unit(p.project.find(stem)) }

// unit is the module in a file; nil for the path "".
func (p *Pass) unit(path string) *Unit {
	if path == "" {
		return nil
	}
	m := p.modules[path]
	if m == nil && len(p.modules) < maxModules {
		m = newModule(path, nil)
		p.modules[path] = m
	}
	return m
}

func newModule(path string, f *parsed) *Unit {
	m := &Unit{Path: path, parsed: f, funcs: map[*pyast.FunctionDef]*Func{}, classes: map[*pyast.ClassDef]*Class{}}
	if f != nil {
		m.Src, m.File = f.src, f.file
	}
	return m
}

// member is a name of a module of the project; nil if it has none.
func (p *Pass) member(m *Unit, name string) *Value {
	p.open(m)
	p.demand(m, name)
	if v := m.env.get(name); v != nil {
		if v.lazy {
			v = p.resolve(v)
			m.env.put(name, v)
		}
		return v
	}
	if filepath.Base(m.Path) == "__init__.py" {
		if sub := p.at(filepath.Join(filepath.Dir(m.Path), name)); sub != nil {
			return &Value{Kind: API, Path: name, Mod: sub}
		}
	}
	return nil
}

// resolve looks a name up that was imported from a module of the project.
func (p *Pass) resolve(v *Value) *Value {
	if p.depth >= maxDepth {
		return unknown
	}
	p.depth++
	defer func() { p.depth-- }()
	if found := p.member(v.Mod, v.Text); found != nil {
		return found
	}
	return unknown
}

func (p *Pass) imported(name string, at pyast.Stmt) {
	top, _, _ := strings.Cut(name, ".")
	p.imports[top] = true
	if !p.quiet {
		p.pseudo("import "+name, at, nil, nil)
	}
}

// importFrom binds what the statement names; only: that name alone, where it is not "".
func (p *Pass) importFrom(s *pyast.ImportFrom, only string) {
	var m *Unit
	name := s.Module
	if s.Level > 0 {
		dir := filepath.Dir(p.mod.Path)
		for range s.Level - 1 {
			dir = filepath.Dir(dir)
		}
		if name == "" {
			m = p.at(dir)
			if m == nil {
				m = p.at(filepath.Join(dir, "__init__"))
			}
		} else {
			m = p.at(filepath.Join(dir, filepath.Join(strings.Split(name, ".")...)))
		}
	} else {
		p.imported(name, s)
		m = p.locate(p.mod.Path, name)
	}
	for _, a := range s.Names {
		as := a.AsName
		if as == "" {
			as = a.Name
		}
		switch {
		case only != "" && as != only:
		case a.Name == "*":
			if m != nil {
				for _, k := range p.public(m) {
					if !strings.HasPrefix(k, "_") {
						p.env.set(k, &Value{lazy: true, Mod: m, Text: k})
					}
				}
			} else if stars := p.shared.star(name); stars != nil {
				for _, n := range stars {
					p.env.set(n, &Value{Kind: API, Path: canonical(name + "." + n)})
				}
			}
		case m != nil:
			p.env.set(as, &Value{lazy: true, Mod: m, Text: a.Name})
		case s.Level > 0:
			p.env.set(as, unknown)
		default:
			path := canonical(name + "." + a.Name)
			if !p.quiet {
				p.pseudo("import "+path, s, nil, nil)
			}
			p.env.set(as, p.apiMember(name, a.Name, path))
		}
	}
}

// answers are what the atlas says, asked once for all files.
type answers struct {
	target *Target
	mu     sync.Mutex
	ops    map[string]operators
	names  []string
}

type operators struct {
	API   atlas.API
	Needs []atlas.Need // forward
	Back  []atlas.Need
	known bool
}

// operators of a Python name, with their states in the release aimed at.
func (p *Pass) operators(path string) (operators, bool) {
	a := p.shared
	a.mu.Lock()
	defer a.mu.Unlock()
	o, asked := a.ops[path]
	if !asked {
		if api, ok := a.target.Atlas.API(path); ok && api.Name == path {
			o = operators{API: api, known: true}
			o.Needs, _ = a.target.Atlas.Needs(a.target.Torch, api.Forward)
			o.Back, _ = a.target.Atlas.Needs(a.target.Torch, api.Backward)
		}
		a.ops[path] = o
	}
	return o, o.known
}

// Operators that a Python name comes down to, forward and backward, in the release aimed at; false where the atlas does not know the name.
func (p *Pass) Operators(path string) (forward, backward []atlas.Need, ok bool) {
	o, known := p.operators(path)
	return o.Needs, o.Back, known
}

// star is what `from torch.nn import *` binds, as far as the atlas knows.
func (a *answers) star(name string) []string {
	if name != "torch.nn" && name != "torch.nn.functional" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		a.names = a.target.Atlas.APIs()
	}
	var list []string
	for _, n := range a.names {
		if rest, ok := strings.CutPrefix(n, name+"."); ok && !strings.ContainsAny(rest, ".(") {
			list = append(list, rest)
		}
	}
	return list
}

// outcome is what came of one file. Its tree is not kept: the trees of all files together are many times their size.
type outcome struct {
	src      *Source // nil where no comment allows anything
	comments [][2]int
	findings map[string][]Finding // by path
	sources  map[string]*Source
	trouble  []Trouble
}

// Check looks at files and reports what it found, in the order of files and places.
func Check(o *Options) (*Report, error) {
	if o.Target.Atlas == nil {
		o.Target.Atlas = &atlas.Atlas{}
	}
	base, err := filepath.Abs(o.Base)
	if err != nil {
		return nil, err
	}
	o.Base = base
	// Most of what a file's tree and values take is garbage when the file is done: a larger heap saves half of the collector's work.
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	rules := sorted(o.Rules)
	pr := &project{base: base, changed: maps.Clone(o.Changed), names: make(map[string]string, len(o.Files)), files: map[string]*parsed{}, stems: map[string]string{}, imports: map[[2]string]string{}, folders: map[string]map[string]fs.FileMode{}}
	for _, name := range o.Files {
		pr.names[o.absolute(name)] = name
	}
	shared := &answers{target: &o.Target, ops: map[string]operators{}}
	outcomes := make([]*outcome, len(o.Files))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(1, len(o.Files))) {
		wait.Go(func() {
			rules, memo := sorted(o.Rules), newMemo()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(o.Files) {
					return
				}
				outcomes[i] = o.checkFile(o.Files[i], rules, memo, pr, shared)
			}
		})
	}
	wait.Wait()
	return o.gather(outcomes, rules)
}

func (o *Options) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.Base, path)
}

func (o *Options) checkFile(path string, rules *ruleSet, memo *memo, pr *project, shared *answers) (out *outcome) {
	out = &outcome{findings: map[string][]Finding{}, sources: map[string]*Source{}}
	trouble := func(err error) *outcome {
		out.trouble = append(out.trouble, Trouble{File: path, Text: err.Error()})
		return out
	}
	defer func() { // a mistake of ours in one file must not hide what was found in the others
		if r := recover(); r != nil {
			out.trouble = append(out.trouble, Trouble{File: path, Text: fmt.Sprintf("a mistake in assay: %v (%s); please report it with the file", r, firstOwnFrame(debug.Stack()))})
		}
	}()
	name := path
	read := func() ([]byte, error) { return pr.read(o.absolute(name)) }
	if path == "-" {
		name = o.StdinAs
		read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(o.Stdin, maxSource+1)) }
	}
	switch kind := KindOf(name); kind {
	case "requirements", "pyproject", "environment":
		raw, err := read()
		if err != nil {
			return trouble(plain(err))
		}
		t := &Text{Kind: kind, Path: name, Src: &Source{Path: name, Text: raw, Raw: raw}, Target: &o.Target}
		out.sources[name], out.src, out.comments = t.Src, t.Src, hashComments(raw)
		for _, r := range rules.texts {
			for _, f := range r.Text(t) {
				f.Rule = r
				if f.Severity == "" {
					f.Severity = r.Severity
				}
				out.findings[name] = append(out.findings[name], f)
			}
		}
		return out
	}
	var f *parsed
	if path == "-" {
		raw, err := read()
		if err != nil {
			return trouble(plain(err))
		}
		f = parse(name, raw)
	} else {
		f = pr.load(o.absolute(name))
	}
	if f.err != nil {
		if errors.Is(f.err, ErrNotPython) {
			return out
		}
		return trouble(f.err)
	}
	if bytes.Contains(f.src.Text, []byte("assay:")) {
		out.src = f.src
		for _, c := range f.file.Comments {
			out.comments = append(out.comments, [2]int{int(c.From), int(c.To)})
		}
	}
	for i, e := range f.file.Errors {
		if i == 20 {
			out.trouble = append(out.trouble, Trouble{File: name, Text: fmt.Sprintf("%d more syntax errors", len(f.file.Errors)-i)})
			break
		}
		at := f.src.Place(e.Pos())
		out.trouble = append(out.trouble, Trouble{File: name, Line: at.Line, cell: at.Cell, Text: "syntax error: " + e.Message, syntax: true})
	}
	if !f.relevant {
		return out
	}
	p := &Pass{Target: &o.Target, Src: f.src, rules: rules, memo: memo, project: pr, shared: shared, defaultType: "float32", modules: map[string]*Unit{},
		found: map[place]*Finding{}, sources: map[string]*Source{}, imports: map[string]bool{}, notes: map[string]any{},
		numbers: map[any]uint32{}}
	m := newModule(o.absolute(name), f)
	p.Main, p.mod = m, m
	p.modules[m.Path] = m
	p.whole(m)
	for key, f := range p.found {
		out.findings[key.path] = append(out.findings[key.path], *f)
		out.sources[key.path] = p.sources[key.path]
	}
	return out
}

// whole interprets the file that is checked: its top, then each function that nothing called.
func (p *Pass) whole(m *Unit) {
	m.env = &env{}
	m.env.put("__name__", text("__main__"))
	m.env.put("__file__", &Value{Kind: Str, Soft: true})
	p.env = m.env
	p.block(m.File.Body)
	device, dtype := p.defaultDevice, p.defaultType
	for i := 0; i < len(m.order); i++ { // functions that are met on the way are appended
		f := m.order[i]
		if f.called || f.Node == nil {
			continue
		}
		p.defaultDevice, p.defaultType = device, dtype
		p.loops, p.blocks, p.guarded, p.caughtErrors, p.maybe, p.main = nil, nil, 0, 0, 0, 0
		p.env, p.frame, p.mod, p.Src = m.env, nil, m, m.Src
		p.lone = true
		p.alone(f)
		p.lone = false
	}
	p.env, p.frame, p.mod, p.Src = m.env, nil, m, m.Src
	for _, r := range p.rules.files {
		p.rule = r
		r.File(p)
	}
}

// alone interprets a function that the file itself never calls: its parameters are open.
func (p *Pass) alone(f *Func) {
	f.called = true
	var self *Value
	if f.Class != nil && !p.static(f) {
		self = p.instance(f.Class)
	}
	if f.seen == nil {
		f.seen = map[string]*Value{}
	}
	if _, done := f.seen["alone"]; done {
		return
	}
	scope := &env{outer: f.env}
	if scope.outer == nil {
		scope.outer = p.env
	}
	p.parameters(f, scope, self, nil, nil, false)
	p.run(f, scope, "alone")
}

func (p *Pass) static(f *Func) bool {
	v := f.Class.own(f.Name)
	return v != nil && v.Path == "static"
}

// instance is an object of a class that nothing in the file makes: where it lives is open.
func (p *Pass) instance(c *Class) *Value {
	if c.open != nil {
		return c.open
	}
	v := &Value{Kind: Instance, Class: c, Attrs: map[string]*Value{}}
	module := c.IsModule()
	if module {
		v.Kind, v.Where = Module, OnCPU // while it is being made
	}
	c.open = v
	if m := c.Method("__init__"); m != nil && m.Node != nil && m.busy == 0 {
		scope := &env{outer: m.env}
		p.parameters(m, scope, v, nil, nil, false)
		if m.seen == nil {
			m.seen = map[string]*Value{}
		}
		m.called = true
		p.run(m, scope, "alone")
	}
	if module {
		v.Where = Open
	}
	return v
}

// gather puts the files' findings together: one for each place and rule, sure ones first; suppressed and known ones apart.
func (o *Options) gather(outcomes []*outcome, rules *ruleSet) (*Report, error) {
	r := &Report{Schema: "assay.check/1", Version: o.Version, Target: ReportTarget{Device: o.Target.Device, Torch: o.Target.Torch.Version},
		Items: []Item{}, Troubles: []Trouble{}, rules: rules.all}
	if o.Target.MacOS[0] > 0 {
		r.Target.MacOS = fmt.Sprintf("%d.%d", o.Target.MacOS[0], o.Target.MacOS[1])
	}
	checked := map[string]int{} // path as reported → its index
	for i := range outcomes {
		name := o.Files[i]
		if name == "-" {
			name = o.StdinAs
		}
		checked[filepath.Clean(name)] = i
	}
	all := make([]map[place]Finding, len(outcomes))
	sources := make([]*Source, len(outcomes))
	for _, out := range outcomes {
		r.Files++
		r.Troubles = append(r.Troubles, out.trouble...)
		for path, list := range out.findings {
			i, ok := checked[filepath.Clean(path)]
			if !ok {
				continue // a file that was followed, but not asked about
			}
			if all[i] == nil {
				all[i] = map[place]Finding{}
				sources[i] = out.sources[path]
			}
			for _, f := range list {
				key := place{path, f.Rule, f.From, f.Text}
				if old, there := all[i][key]; !there || f.Sure && !old.Sure {
					all[i][key] = f
				}
			}
		}
	}
	names := map[string]*Rule{UnusedAllow.Name: UnusedAllow, BareAllow.Name: BareAllow}
	for _, rule := range rules.all {
		names[rule.Name] = rule
	}
	for i, out := range outcomes {
		name := o.Files[i]
		if name == "-" {
			name = o.StdinAs
		}
		src := sources[i]
		if out.src != nil {
			src = out.src
		}
		if src == nil {
			continue
		}
		allow := allows(src, out.comments)
		var list []Finding
		for _, f := range all[i] {
			list = append(list, f)
		}
		slices.SortFunc(list, func(a, b Finding) int {
			if a.From != b.From {
				return a.From - b.From
			}
			return strings.Compare(a.Rule.Name+a.Text, b.Rule.Name+b.Text)
		})
		list = oncePerPlace(list)
		var kept []Finding
		for _, f := range list {
			switch {
			case allowed(src, allow, f):
				r.Counts.Suppressed++
			case !f.Sure && (o.Sure || f.Severity == Notice && !o.All):
			default:
				kept = append(kept, f)
			}
		}
		kept = append(kept, left(src, allow, func(name string) (bool, bool) {
			_, ok := names[name]
			return ok || slices.ContainsFunc(o.Known, func(r *Rule) bool { return r.Name == name }), ok
		}, func(name string) string { return Near(o.Known, name) })...)
		if o.Fix != "" && !src.fixed {
			if rest, fixed, err := o.fix(o.absolute(name), src, kept); err != nil {
				r.Troubles = append(r.Troubles, Trouble{File: name, Text: err.Error()})
			} else {
				kept = rest
				r.Counts.Fixed += fixed
			}
		}
		for _, f := range kept {
			it := item(src, f)
			if o.Baseline.has(it) {
				r.Counts.Baseline++
				continue
			}
			r.add(it)
		}
	}
	r.sort()
	return r, nil
}

// Owns reports whether a call stands in the code that is being looked at.
func (p *Pass) Owns(c *Call) bool { return c.unit == p.mod }

// AtHome reports whether the code that is being looked at stands in the file that is checked.
func (p *Pass) AtHome() bool { return p.mod == p.Main }

// Global is what the file binds a name to at its top, as it is written; nil if it does not.
func (p *Pass) Global(name string) pyast.Expr {
	for _, s := range p.mod.File.Body {
		if a, ok := s.(*pyast.Assign); ok && len(a.Targets) == 1 {
			if n, ok := a.Targets[0].(*pyast.Name); ok && n.ID == name {
				return a.Value
			}
		}
	}
	return nil
}

// DefaultDevice is what torch.set_default_device has set, 0 if it was not called.
func (p *Pass) DefaultDevice() Devices { return p.defaultDevice }

// Place is where a value that is given as a device puts things.
func (p *Pass) Place(v *Value) Devices { return v.place() }

// Within reports whether one of the functions in whose text the place stands is as asked.
func (p *Pass) Within(at pyast.Node, is func(*Func) bool) bool {
	for s, f := range p.mod.funcs {
		if s.Pos() <= at.Pos() && at.End() <= s.End() && is(f) {
			return true
		}
	}
	return false
}

// FromTop reports whether the code that is being looked at was reached from the top of the file, by calls that stand there.
func (p *Pass) FromTop() bool { return !p.lone }

// Under reports whether one of the tests of the ifs around here, whose outcome is open, is as asked.
func (p *Pass) Under(test func(pyast.Expr) bool) bool {
	mod := p.mod
	defer func() { p.mod = mod }()
	for _, t := range p.tests {
		p.mod = t.unit
		if test(t.Expr) {
			return true
		}
	}
	return false
}

// openTest is the test of an if, with the file that it stands in.
type openTest struct {
	pyast.Expr
	unit *Unit
}

// InHandler reports whether an except clause stands around.
func (p *Pass) InHandler() bool { return p.handlers > 0 }
