package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
