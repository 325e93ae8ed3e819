package abstract

import (
	"sync"

	"strings"

	"assay/internal/pyast"
)

// File is a file of the project, parsed. Interpreters share it.
type File struct {
	Tree *pyast.File
	Idle bool // nothing in it is of any interest: its names are not looked for

	once  sync.Once
	names top
}

// top is what the top of a file binds: a file that others import is interpreted name by name, as they ask for them.
type top struct {
	names   map[string][]int // by name, the statements at the top that bind or change it
	stars   []int            // from … import *
	imports []string         // packages that they import
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

// top of a file, found once.
func (f *File) top() *top {
	f.once.Do(func() {
		t := &f.names
		t.names = map[string][]int{}
		if f.Idle {
			return
		}
		for i, s := range f.Tree.Body {
			t.add(i, s)
		}
	})
	return &f.names
}

func patternNames(pattern pyast.Pattern, list []string) []string {
	switch m := pattern.(type) {
	case *pyast.MatchAs:
		if m.Name != "" {
			list = append(list, m.Name)
		}
		if m.Pattern != nil {
			list = patternNames(m.Pattern, list)
		}
	case *pyast.MatchStar:
		if m.Name != "" {
			list = append(list, m.Name)
		}
	case *pyast.MatchSequence:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
	case *pyast.MatchMapping:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
		if m.Rest != "" {
			list = append(list, m.Rest)
		}
	case *pyast.MatchClass:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
		for _, q := range m.KwdPatterns {
			list = patternNames(q, list)
		}
	case *pyast.MatchOr:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
	}
	return list
}
