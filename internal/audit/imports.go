package audit

import (
	"path/filepath"
	"strings"

	"assay/internal/pyast"
)

// top is what the top of a file binds: a file that others import is interpreted name by name, as they ask for them.
type top struct {
	names   map[string][]int // by name, the statements at the top that bind or change it
	stars   []int            // from … import *
	imports []string         // packages that they import
}

// top of a file, found once.
func (f *parsed) top() *top {
	f.once.Do(func() {
		t := &f.names
		t.names = map[string][]int{}
		if !f.relevant {
			return
		}
		for i, s := range f.file.Body {
			t.add(i, s)
		}
	})
	return &f.names
}

func (t *top) bind(i int, name string) {
	if list := t.names[name]; len(list) == 0 || list[len(list)-1] != i {
		t.names[name] = append(list, i)
	}
}

// target notes the names that an assignment binds, or whose value it changes.
func (t *top) target(i int, e pyast.Expr) {
	switch e := e.(type) {
	case *pyast.Name:
		t.bind(i, e.ID)
	case *pyast.Attribute:
		t.target(i, e.Value)
	case *pyast.Subscript:
		t.target(i, e.Value)
	case *pyast.Starred:
		t.target(i, e.Value)
	case *pyast.Call:
		t.target(i, e.Func)
	case *pyast.Tuple:
		for _, x := range e.Elts {
			t.target(i, x)
		}
	case *pyast.List:
		for _, x := range e.Elts {
			t.target(i, x)
		}
	}
}

func (t *top) block(i int, body []pyast.Stmt) {
	for _, s := range body {
		t.add(i, s)
	}
}

func (t *top) add(i int, s pyast.Stmt) {
	switch s := s.(type) {
	case *pyast.Assign:
		for _, x := range s.Targets {
			t.target(i, x)
		}
	case *pyast.AnnAssign:
		t.target(i, s.Target)
	case *pyast.AugAssign:
		t.target(i, s.Target)
	case *pyast.Delete:
		for _, x := range s.Targets {
			t.target(i, x)
		}
	case *pyast.ExprStmt: // parser.add_argument(…), list.append(…), setup(model)
		if c, ok := s.Value.(*pyast.Call); ok {
			t.target(i, c.Func)
			for _, a := range c.Args {
				t.target(i, a)
			}
		}
	case *pyast.FunctionDef:
		t.bind(i, s.Name)
	case *pyast.ClassDef:
		t.bind(i, s.Name)
	case *pyast.TypeAlias:
		t.bind(i, s.Name.ID)
	case *pyast.Import:
		for _, a := range s.Names {
			first, _, _ := strings.Cut(a.Name, ".")
			t.imports = append(t.imports, first)
			if a.AsName != "" {
				first = a.AsName
			}
			t.bind(i, first)
		}
	case *pyast.ImportFrom:
		if s.Level == 0 {
			first, _, _ := strings.Cut(s.Module, ".")
			t.imports = append(t.imports, first)
		}
		for _, a := range s.Names {
			switch {
			case a.Name == "*":
				if len(t.stars) == 0 || t.stars[len(t.stars)-1] != i {
					t.stars = append(t.stars, i)
				}
			case a.AsName != "":
				t.bind(i, a.AsName)
			default:
				t.bind(i, a.Name)
			}
		}
	case *pyast.If:
		t.block(i, s.Body)
		t.block(i, s.Orelse)
	case *pyast.For:
		t.target(i, s.Target)
		t.block(i, s.Body)
		t.block(i, s.Orelse)
	case *pyast.While:
		t.block(i, s.Body)
		t.block(i, s.Orelse)
	case *pyast.With:
		for _, w := range s.Items {
			t.target(i, w.OptionalVars)
		}
		t.block(i, s.Body)
	case *pyast.Try:
		t.block(i, s.Body)
		for _, h := range s.Handlers {
			t.block(i, h.Body)
		}
		t.block(i, s.Orelse)
		t.block(i, s.Finalbody)
	case *pyast.Match:
		for _, c := range s.Cases {
			for _, name := range patternNames(c.Pattern, nil) {
				t.bind(i, name)
			}
			t.block(i, c.Body)
		}
	case *pyast.Bad:
		t.block(i, s.Body)
	}
}

// open makes a file that others import ready to be asked for names.
func (p *Pass) open(m *Unit) {
	if m.env != nil {
		return
	}
	m.env = &env{unit: m}
	m.env.put("__name__", text("module"))
	if m.parsed == nil {
		m.parsed = p.project.load(m.Path)
	}
	f := m.parsed
	if f.err != nil {
		f = &parsed{src: &Source{}, file: &pyast.File{}}
		m.parsed = f
	}
	m.Src, m.File = f.src, f.file
	m.asked, m.ran = map[string]bool{}, make([]bool, len(f.file.Body))
	for _, name := range f.top().imports {
		p.imports[name] = true
	}
}

// demand interprets, without a word, the statements at the top of a file that others import which bind a name.
func (p *Pass) demand(m *Unit, name string) {
	if m.asked == nil || m.asked[name] { // the file that is checked is interpreted from its first line to its last
		return
	}
	m.asked[name] = true
	t := m.parsed.top()
	list, bound := t.names[name]
	for _, i := range list {
		if s, ok := m.File.Body[i].(*pyast.ImportFrom); ok && !m.ran[i] { // of a long list one name alone
			p.apart(m, m.env, func() { p.importFrom(s, name) })
			continue
		}
		p.runTop(m, i)
	}
	if !bound {
		for _, i := range t.stars {
			p.runTop(m, i)
		}
	}
}

func (p *Pass) runTop(m *Unit, i int) {
	if m.ran[i] {
		return
	}
	m.ran[i] = true
	p.apart(m, m.env, func() { p.stmt(m.File.Body[i]) })
}

// apart interprets something of another file without a word, in a scope of that file.
func (p *Pass) apart(m *Unit, scope *env, what func()) {
	outer, frame, mod, src, quiet, loops, blocks, main := p.env, p.frame, p.mod, p.Src, p.quiet, p.loops, p.blocks, p.main
	p.env, p.frame, p.mod, p.Src, p.quiet, p.loops, p.blocks, p.main = scope, nil, m, m.Src, true, nil, nil, 0
	what()
	p.env, p.frame, p.mod, p.Src, p.quiet, p.loops, p.blocks, p.main = outer, frame, mod, src, quiet, loops, blocks, main
}

// public lists the names that `from m import *` takes.
func (p *Pass) public(m *Unit) []string {
	p.open(m)
	var list []string
	if m.asked == nil {
		for name := range m.env.all {
			list = append(list, name)
		}
		return list
	}
	t := m.parsed.top()
	for _, i := range t.stars {
		p.runTop(m, i)
	}
	for name := range t.names {
		list = append(list, name)
	}
	for name := range m.env.all {
		if _, there := t.names[name]; !there {
			list = append(list, name)
		}
	}
	return list
}

// lookup is the value of a name where the Pass is; nil if nothing is known to bind it.
func (p *Pass) lookup(name string) *Value {
	first := true
	for e := p.env; e != nil; e, first = e.outer, false {
		if e.class && !first {
			continue
		}
		if e.unit != nil {
			p.demand(e.unit, name)
		} else if e.defs != nil {
			p.defineLater(e, p.mod, name)
		}
		if v := e.get(name); v != nil {
			return v
		}
	}
	return nil
}

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
