package abstract

import (
	"path/filepath"
	"strings"

	"assay/internal/pyast"
)

// open makes a file that others import ready to be asked for names.
func (in *Interp) open(m *Unit) {
	if m.env != nil {
		return
	}
	m.env = &env{unit: m}
	m.env.put("__name__", text("module"))
	m.source = in.world.Load(m.Path)
	m.File = m.source.Tree
	m.asked, m.ran = map[string]bool{}, make([]bool, len(m.File.Body))
	for _, name := range m.source.top().imports {
		in.imported[name] = true
	}
}

// demand interprets, without a word, the statements at the top of a file that others import which bind a name.
func (in *Interp) demand(m *Unit, name string) {
	if m.asked == nil || m.asked[name] { // the file that is checked is interpreted from its first line to its last
		return
	}
	m.asked[name] = true
	t := m.source.top()
	list, bound := t.names[name]
	for _, i := range list {
		if s, ok := m.File.Body[i].(*pyast.ImportFrom); ok && !m.ran[i] { // of a long list one name alone
			in.apart(m, m.env, func() { in.importFrom(s, name) })
			continue
		}
		in.runTop(m, i)
	}
	if !bound {
		for _, i := range t.stars {
			in.runTop(m, i)
		}
	}
}

func (in *Interp) runTop(m *Unit, i int) {
	if m.ran[i] {
		return
	}
	m.ran[i] = true
	in.apart(m, m.env, func() { in.recurse.body(m.File.Body[i : i+1]) })
}

// apart interprets something of another file without a word, in a scope of that file.
func (in *Interp) apart(m *Unit, scope *env, what func()) {
	saved := in.context
	in.unit, in.env, in.frame, in.loops, in.blocks, in.quiet, in.inMain = m, scope, nil, nil, nil, true, false
	what()
	in.context = saved
}

// public lists the names that `from m import *` takes.
func (in *Interp) public(m *Unit) []string {
	in.open(m)
	var list []string
	if m.asked == nil {
		for name := range m.env.all {
			list = append(list, name)
		}
		return list
	}
	t := m.source.top()
	for _, i := range t.stars {
		in.runTop(m, i)
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

// defineLater defines the functions of a name in the body of a class of another file.
func (in *Interp) defineLater(scope *env, m *Unit, name string) {
	if scope.defs == nil || scope.made[name] {
		return
	}
	for _, s := range scope.defs {
		if f, def := s.(*pyast.FunctionDef); def && f.Name == name {
			if scope.made == nil {
				scope.made = map[string]bool{}
			}
			scope.made[name] = true
			in.apart(m, scope, func() { in.recurse.body([]pyast.Stmt{s}) })
		}
	}
}

// lookup is the value of a name where the Pass is; nil if nothing is known to bind it.
func (in *Interp) lookup(name string) *Value {
	first := true
	for e := in.env; e != nil; e, first = e.outer, false {
		if e.class && !first {
			continue
		}
		if e.unit != nil {
			in.demand(e.unit, name)
		} else if e.defs != nil {
			in.defineLater(e, in.unit, name)
		}
		if v := e.get(name); v != nil {
			return v
		}
	}
	return nil
}

// module is the value of an imported name: a file of the project, or an API.
func (in *Interp) module(name string) *Value {
	return &Value{Kind: API, Path: canonical(name), Mod: in.locate(in.unit.Path, name)}
}

// locate finds the project's file that `import name` gets in a file: beside it, or in a folder above it, down from the
// project's.
func (in *Interp) locate(from, name string) *Unit {
	top, _, _ := strings.Cut(name, ".")
	switch top {
	case "torch", "numpy", "os", "sys", "typing", "math", "time", "json", "random", "functools", "collections",
		"argparse", "logging", "re", "tqdm", "pathlib":
		return nil
	}
	return in.unitIn(in.world.Finder.locate(filepath.Dir(from), name))
}

// maxModules bounds the files that are followed from one.
const maxModules = 60

// at is the module of a path without its ending.
func (in *Interp) at(stem string) *Unit { return in.unitIn(in.world.Finder.find(stem)) }

// unit is the module in a file; nil for the path "".
func (in *Interp) unitIn(path string) *Unit {
	if path == "" {
		return nil
	}
	m := in.modules[path]
	if m == nil && len(in.modules) < maxModules {
		m = newUnit(path)
		in.modules[path] = m
	}
	return m
}

func newUnit(path string) *Unit {
	return &Unit{Path: path, funcs: map[*pyast.FunctionDef]*Func{}, classes: map[*pyast.ClassDef]*Class{}}
}

// member is a name of a module of the project; nil if it has none.
func (in *Interp) member(m *Unit, name string) *Value {
	in.open(m)
	in.demand(m, name)
	if v := m.env.get(name); v != nil {
		if v.lazy {
			v = in.resolve(v)
			m.env.put(name, v)
		}
		return v
	}
	if filepath.Base(m.Path) == "__init__.py" {
		if sub := in.at(filepath.Join(filepath.Dir(m.Path), name)); sub != nil {
			return &Value{Kind: API, Path: name, Mod: sub}
		}
	}
	return nil
}

// resolve looks a name up that was imported from a module of the project.
func (in *Interp) resolve(v *Value) *Value {
	if in.depth >= maxDepth {
		return unknown
	}
	saved := in.context
	defer func() { in.context = saved }()
	in.depth++
	if found := in.member(v.Mod, v.Text); found != nil {
		return found
	}
	return unknown
}

func (in *Interp) noteImport(name string, at pyast.Stmt) {
	top, _, _ := strings.Cut(name, ".")
	in.imported[top] = true
	if !in.quiet {
		in.pseudo("import "+name, at, nil, nil)
	}
}

// importFrom binds what the statement names; only: that name alone, where it is not "".
func (in *Interp) importFrom(s *pyast.ImportFrom, only string) {
	var m *Unit
	name := s.Module
	if s.Level > 0 {
		dir := filepath.Dir(in.unit.Path)
		for range s.Level - 1 {
			dir = filepath.Dir(dir)
		}
		if name == "" {
			m = in.at(dir)
			if m == nil {
				m = in.at(filepath.Join(dir, "__init__"))
			}
		} else {
			m = in.at(filepath.Join(dir, filepath.Join(strings.Split(name, ".")...)))
		}
	} else {
		in.noteImport(name, s)
		m = in.locate(in.unit.Path, name)
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
				for _, k := range in.public(m) {
					if !strings.HasPrefix(k, "_") {
						in.env.set(k, &Value{lazy: true, Mod: m, Text: k})
					}
				}
			} else if stars := in.world.Exports(name); stars != nil {
				for _, n := range stars {
					in.env.set(n, &Value{Kind: API, Path: canonical(name + "." + n)})
				}
			}
		case m != nil:
			in.env.set(as, &Value{lazy: true, Mod: m, Text: a.Name})
		case s.Level > 0:
			in.env.set(as, unknown)
		default:
			path := canonical(name + "." + a.Name)
			if !in.quiet {
				in.pseudo("import "+path, s, nil, nil)
			}
			in.env.set(as, in.apiMember(name, a.Name, path))
		}
	}
}

func (in *Interp) outer(names []string) {
	if in.env.global == nil {
		in.env.global = map[string]bool{}
	}
	for _, n := range names {
		in.env.global[n] = true
		in.lookup(n) // what the top of the file says of it comes before
	}
}
