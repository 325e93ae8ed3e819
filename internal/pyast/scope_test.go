package pyast

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// TestPaths: each line that ends in a comment holds, after "want", the path of the expression of its statement.
func TestPaths(t *testing.T) {
	src := `
import torch, os.path
import numpy as np
import torch.nn.functional as F
from torch import nn as n, Tensor
from torch.nn import *
from . import sibling
from .utils import helper as h
from .. import up
from ..other.deep import thing
T = torch.Tensor
U = T
conv = n.functional.conv2d
late = None
late = torch.zeros
declared: Tensor
try:
    import optional
except ImportError:
    optional = None
torch.zeros  # want torch.zeros
np.random.default_rng  # want numpy.random.default_rng
F.conv2d  # want torch.nn.functional.conv2d
n.Linear  # want torch.nn.Linear
T  # want torch.Tensor
U.double  # want torch.Tensor.double
conv  # want torch.nn.functional.conv2d
os.path.join  # want os.path.join
sibling.f  # want project.sub.sibling.f
h  # want project.sub.utils.helper
up.x  # want project.up.x
thing  # want project.other.deep.thing
optional.x  # want optional.x
late  # want torch.zeros
print  # want builtins.print
Linear  # want torch.nn.Linear
torch.zeros(1).to  # want
class C(n.Module):
    attr = torch.ones
    attr  # want torch.ones
    def method(self, torch, p=F.relu):
        torch.zeros  # want
        attr  # want torch.nn.attr
        np.x  # want numpy.x
        self.x  # want
        def inner():
            nonlocal torch
            torch  # want
            global F
            F.x  # want
        import scipy as sp
        lambda np: np.y  # want
        lambda z: sp.y  # want scipy.y
        [np.a for np in range(3)]  # want
        [sp.a for q in np.b]  # want scipy.a
        C.method  # want project.sub.module.C.method
        inner  # want project.sub.module.C.method.<locals>.inner
    method  # want project.sub.module.C.method
def g():
    global F
    F = 1
def k(x):
    x = np
    x.array  # want numpy.array
    x = torch
    x.array  # want torch.array
    if (w := np.zeros):
        w  # want numpy.zeros
    [v := np.ones for _ in x]
    v  # want numpy.ones
    for m in x: pass
    m.z  # want
def local(x):
    np.x  # want
    for np in x: pass
def early():
    def cb():
        nonlocal found
        found  # want torch.zeros
        found = None
    found = torch.zeros
    found  # want torch.zeros
def generic[K: torch.Tensor](a: K) -> np.ndarray:
    K  # want
a = b
b = a
a.x  # want
with open('f') as stream:
    stream.x  # want
match a:
    case {'k': np2, **rest}:
        np2  # want
`
	f := Parse([]byte(src), Options{})
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	s := NewScopes(f, "project.sub.module")
	wants := map[int]string{}
	for _, c := range f.Comments {
		line, _ := f.Position(int(c.From))
		wants[line] = strings.TrimSpace(strings.TrimPrefix(f.Text[c.From:c.To], "# want"))
	}
	seen := 0
	f.Walk(func(n Node) bool {
		e, ok := n.(*ExprStmt)
		if !ok {
			return true
		}
		line, _ := f.Position(e.Pos())
		want, ok := wants[line]
		if !ok {
			return true
		}
		seen++
		v := e.Value
		switch x := v.(type) {
		case *Lambda:
			v = x.Body
		case *ListComp:
			v = x.Elt
		}
		if got := s.Path(v); got != want {
			t.Errorf("line %d: %s is %q, not %q", line, f.Source(v), got, want)
		}
		return true
	})
	if seen != len(wants) {
		t.Errorf("%d of %d lines were looked at", seen, len(wants))
	}
}

// TestHostileScopes: aliases of aliases of aliases are answered at once.
func TestHostileScopes(t *testing.T) {
	var b strings.Builder
	for i := range 30 {
		for range 30 {
			fmt.Fprintf(&b, "a%d = a%d\n", i, i+1)
		}
	}
	b.WriteString("a0\n" + "a" + strings.Repeat(".a", 10000) + "\n" + strings.Repeat("x = y.z\nx.w\n", 3000))
	f := Parse([]byte(b.String()), Options{})
	s := NewScopes(f, "m")
	f.Walk(func(n Node) bool {
		if e, ok := n.(Expr); ok {
			s.Path(e)
		}
		return true
	})
}

// TestPackage: in a package's own file one dot is the package itself.
func TestPackage(t *testing.T) {
	f := Parse([]byte("from .a import b\nfrom . import c\nfrom .. import d\nb\nc\nd\ndef e(): pass\ne\n"), Options{})
	s := NewScopes(f, "top.pkg.__init__")
	var got []string
	for _, n := range f.Body {
		if e, ok := n.(*ExprStmt); ok {
			got = append(got, s.Path(e.Value))
		}
	}
	if want := "top.pkg.a.b top.pkg.c top.d top.pkg.e"; strings.Join(got, " ") != want {
		t.Errorf("%s, not %s", got, want)
	}
	b := s.Lookup("e", 0)
	if b == nil || len(b.Defs) != 1 || b.Defs[0].Kind != FunctionDefDef {
		t.Errorf("e is bound to %+v", b)
	}
}

// TestWalk: Walk meets each node that the dump writes, once.
func TestWalk(t *testing.T) {
	for _, src := range snippets(t, "accept/snippets.txt") {
		f := Parse([]byte(src), Options{})
		d := dumper{f: f}
		for _, s := range f.Body {
			d.node(s)
		}
		met := map[Node]bool{}
		f.Walk(func(n Node) bool {
			if met[n] {
				t.Errorf("%q: %s is met twice", src, n.Kind())
			}
			met[n] = true
			return true
		})
		if len(met) != d.nodes {
			t.Errorf("%q: %d nodes met, %d in the dump", src, len(met), d.nodes)
		}
	}
}

// TestSymbols compares the names that functions and classes bind with those of CPython's symtable, over part of its
// standard library.
func TestSymbols(t *testing.T) {
	python := testkit.Python(t)
	found, err := exec.Command(python, "-c", "import ast; print(ast.__file__)").Output()
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Dir(strings.TrimSpace(string(found)))
	var files []string
	for _, pattern := range []string{"*.py", "asyncio/*.py", "unittest/*.py", "email/*.py"} {
		names, _ := filepath.Glob(filepath.Join(lib, pattern))
		files = append(files, names...)
	}
	cmd := exec.Command(python, "-X", "utf8", "testdata/symbols.py")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := bytes.Split(out, []byte("\f\n"))
	if len(answers) != len(files)+1 || len(files) < 150 {
		t.Fatalf("%d answers for %d files", len(answers), len(files))
	}
	for i, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := NewScopes(Parse(src, Options{}), "")
		bound := make([][]string, len(s.Scopes))
		for key, b := range s.table {
			if key.scope == b.Scope {
				bound[key.scope] = append(bound[key.scope], s.mangled(key))
			}
		}
		var got []string
		for j, sc := range s.Scopes {
			kind := map[ScopeKind]string{ClassScope: "class", FunctionScope: "function"}[sc.Kind]
			if kind == "" {
				continue
			}
			slices.Sort(bound[j])
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, strings.Trim(sc.name, "<>"),
				strings.Join(bound[j], " "))))
		}
		slices.Sort(got)
		want := strings.Split(strings.TrimSuffix(string(answers[i]), "\n"), "\n")
		if len(answers[i]) == 0 {
			want = nil
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s: we have %s", path, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: symtable has %s", path, line)
			}
		}
	}
}

// mangled is the name as Python knows it: __x in a class C is _C__x.
func (s *Scopes) mangled(key scopeName) string {
	if !strings.HasPrefix(key.name, "__") || strings.HasSuffix(key.name, "__") {
		return key.name
	}
	for i := key.scope; i >= 0; i = s.Scopes[i].Parent {
		if s.Scopes[i].Kind == ClassScope {
			if class := strings.TrimLeft(s.Scopes[i].name, "_"); class != "" {
				return "_" + class + key.name
			}
			break
		}
	}
	return key.name
}
