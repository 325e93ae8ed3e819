package abstract

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/pyast"
)

// seenOf interprets main.py of a project and gives what each of its calls of see came to, in the order of lines; "-"
// where it was not reached.
func seenOf(t *testing.T, files map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "main.py" {
			text = "from probe import see, here\n" + text
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return seenLines(t, dir)
}

func seenLines(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "main.py"))
	if err != nil {
		t.Fatal(err)
	}
	met := seenIn(t, dir, "main.py", "mps")
	var list []string
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "see(") {
			if met[i+1] == nil {
				list = append(list, "-")
			}
			list = append(list, met[i+1]...)
		}
	}
	return list
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// many joins what form makes of 0 to n-1.
func many(n int, form string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(form, "#", fmt.Sprint(i)))
	}
	return b.String()
}

func one(source string) map[string]string { return map[string]string{"main.py": source} }

// TestBounds: what is too long, too deep or too much is left unknown, and the interpretation ends.
func TestBounds(t *testing.T) {
	expect(t, "many expressions", seenOf(t, one("see(1)\nx = ["+many(maxSteps-1000, "1,")+"]\nsee(2)\ny = ["+many(2000,
		"1,")+"]\nsee(3)\n")),
		"number 1", "number 2", "-")
	expect(t, "nested", seenOf(t, one(strings.Repeat("-", maxNesting-50)+"see(1)\n"+strings.Repeat("-",
		maxNesting+50)+"see(2)\nsee(3)\n")),
		"number 1", "-", "number 3")
	expect(t, "many calls", seenOf(t, one(many(maxCalls+1, "def f#(): return #\n")+many(maxCalls-1, "f#()\n")+
		fmt.Sprintf("see(f%d())\nsee(f%d())\n", maxCalls-1, maxCalls))), fmt.Sprintf("number %d", maxCalls-1),
		"unknown")
	expect(t, "many arguments", seenOf(t, one("def f(x): return x\n"+many(maxContexts-1,
		"f(#)\n")+"see(f(100))\nsee(f(101))\nsee(f(0))\n")),
		"number 100", "unknown", "number 0")
	expect(t, "a long list", seenOf(t, one("x = ["+many(100, "#,")+"]\nsee(x[63])\nsee(x[64])\n")), "number 63",
		"unknown")
	expect(t, "a list that grows", seenOf(t, one("x = ['a']\n"+many(maxItems-1,
		"x.append('a')\n")+"x.append(1)\nsee(x[0])\n")), `text "a"`)
	expect(t, "a list that holds itself", seenOf(t, one(`
import torch
a, b = [], []
a.append(a); b.append(b)
def f(x): return 1
see(f(a))
see(torch.tensor(a))
see(torch.cat(a))
c = a if unheard_of else b
see(c is None)
`)), "number 1", "tensor cpu sized", "tensor open", "false")
	expect(t, "imports in a circle", seenOf(t, map[string]string{"main.py": "from a import x\nsee(x)\n",
		"a.py": "from b import x", "b.py": "from a import x"}),
		"unknown")
	expect(t, "a long choice", seenOf(t, one("if x: pass\n"+many(maxNesting+50, "elif x#: pass\n")+
		"else:\n    def deep(): return 1\nsee(deep())\nif x: pass\n"+many(maxNesting-50, "elif x#: pass\n")+
		"else:\n    def less(): return 1\nsee(less())\n")), "unknown", "number 1")
	expect(t, "a statement too long", seenOf(t, one("x = ["+many(maxSteps, "1,")+"\nsee(2)]\n")), "-")
	way := map[string]string{"main.py": "from m0 import x\nsee(x)\n", "m0.py": "from m1 import x",
		"m1.py": "from m2 import x", "m2.py": "from m3 import x", "m3.py": "from m4 import x",
		"m4.py": "from m5 import x",
		"m5.py": "from m6 import x", "m6.py": "from m7 import x", "m7.py": "from m8 import x", "m8.py": "x = 1"}
	expect(t, "a long way", seenOf(t, way), "unknown")
	way["main.py"] = "from m1 import x\nsee(x)\n"
	expect(t, "a way not too long", seenOf(t, way), "number 1")
	files := one("")
	for i := range maxModules + 5 {
		files[fmt.Sprintf("m%d.py", i)] = fmt.Sprintf("x = %d", i)
	}
	last := maxModules - 2 // main is a file as well
	files["main.py"] = many(maxModules+5, "import m#\n") + fmt.Sprintf("see(m%d.x)\nsee(m%d.x)\n", last, last+1)
	expect(t, "many files", seenOf(t, files), fmt.Sprintf("number %d", last), fmt.Sprintf("api m%d.x", last+1))
}

// TestKnots: classes that are their own bases, however often, end neither the interpreter nor its patience.
func TestKnots(t *testing.T) {
	source := "import torch\nfor i in x:\n    class A(" + strings.Repeat("A, ", 9) +
		"torch.nn.Module):\n        pass\n    a = A()\n    a.to('mps')\nsee(a)\nsee(a.b)\n"
	expect(t, "bases", seenOf(t, one(source)), "module mps A", "api torch.nn.Module.b")
}

// TestMemoIsBounded: values that many expressions share are kept for a worker's whole life, so many and no more.
func TestMemoIsBounded(t *testing.T) {
	kept := map[int]*Value{}
	for i := range keepValues + 10 {
		keepValue(kept, i, unknown)
		if len(kept) > keepValues {
			t.Fatal(len(kept))
		}
	}
	if kept[keepValues+9] == nil || len(kept) != 10 {
		t.Error(len(kept))
	}
}

// TestLone: a function that its file never calls is a library's. What it calls in other files is followed for so many
// steps, argument lists and bytes.
func TestLone(t *testing.T) {
	helper := "def far1(x): return x\ndef far2(x): return far1(x)\ndef far3(x): return far2(x)\ndef big(x):\n    '''" +
		strings.Repeat("x", loneBytes) + "'''\n    return x\n"
	main := `from helper import *
def never_called():
    see(far1(1))
    see(far2(1))
    see(far1(3))
    see(far1(4))
    see(far1(5))
    see(big(1))
    see(own3(1))
def own1(x): return x
def own2(x): return own1(x)
def own3(x): return own2(x)
see(far3(1))
see(big(2))
`
	expect(t, "called by itself and not", seenOf(t, map[string]string{"main.py": main, "helper.py": helper}),
		"number 1", "number 1", "number 3", "number 4", "unknown", "unknown", "number 1", "number 1", "number 2")
	main = "from helper import *\ndef never_called():\n    see(far3(1))\n    see(far2(1))\n"
	expect(t, "from one that nobody calls", seenOf(t, map[string]string{"main.py": main, "helper.py": helper}),
		"unknown", "unknown")
}

// TestFinder: an import gets a file beside it, else one in a folder above, up to the project's own and no further; a
// package before a module of its name.
func TestFinder(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "project")
	for _, name := range []string{"project/sub/deep/here.py", "project/sub/above.py", "project/top.py", "outside.py",
		"project/both/__init__.py", "project/both.py",
		"project/space/part.py", "project/sub/deep/__init__.py", "project/sub/__init__.py"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "top.py"), filepath.Join(base, "link.py")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "none"), filepath.Join(base, "broken.py")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "folder.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(base, "sub/deep")
	for range 2 { // the second time from what it remembers
		f := NewFinder(base)
		for name, want := range map[string]string{"here": "sub/deep/here.py", "above": "sub/above.py", "top": "top.py",
			"outside": "", "both": "both/__init__.py",
			"space.part": "space/part.py", "space": "space/__init__.py", "link": "link.py", "broken": "", "folder": "",
			"none": "", "sub.above": "sub/above.py"} {
			if want != "" {
				want = filepath.Join(base, want)
			}
			for range 2 {
				if got := f.locate(deep, name); got != want {
					t.Errorf("import %s: %q, want %q", name, got, want)
				}
			}
		}
		if got := f.Package(deep); got != "sub/deep/" {
			t.Errorf("the package of %s is %q", deep, got)
		}
		if got := f.Package(base); got != "" {
			t.Errorf("the package of %s is %q", base, got)
		}
		for i := range listed { // a folder of data: each name is asked for
			for _, name := range []string{"data%d", "data%d.json", "m%d.py"} {
				if err := os.WriteFile(filepath.Join(deep, fmt.Sprintf(name, i)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range 50 {
		name := fmt.Sprint("m", i)
		if got := NewFinder(base).locate(deep, name); got != filepath.Join(deep, name+".py") {
			t.Errorf("import %s, beside many files: %q", name, got)
		}
	}
}

// TestOnlyWhatRuns is shown of another file: what its functions do when they are called, and not what its top does to
// bind a name.
func TestOnlyWhatRuns(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"main.py": "from helper import x, f\nf()\nx\n",
		"helper.py": "from probe import see\nx = see(1)\nfor i in y:\n    x = see(2)\ndef f():\n    see(3)\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "calls elsewhere", seenIn(t, dir, "main.py", "mps")[elsewhere], "number 3")
}

// TestKeptCalls: a call that somebody has kept stays what it was, however many come after it.
func TestKeptCalls(t *testing.T) {
	tree := pyast.Parse([]byte("import lib\n"+many(100, "lib.other(x, #)\nlib.kept(#)\nlib.other(#)\n")),
		pyast.Options{})
	var kept []*Call
	watch := &Watch{Call: func(c *Call) bool {
		if c.Path == "lib.kept" {
			kept = append(kept, c)
		}
		return c.Path == "lib.kept"
	}}
	New(&World{Device: "mps", Finder: NewFinder(t.TempDir())}, watch, NewMemo(), "main.py", tree).Run()
	for i, c := range kept {
		if c.Path != "lib.kept" || len(c.Args) != 1 || c.Args[0].Num != float64(i) {
			t.Fatalf("call %d became %s of %d arguments", i, c.Path, len(c.Args))
		}
	}
	if len(kept) != 100 {
		t.Error(len(kept))
	}
}
