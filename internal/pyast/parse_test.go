package pyast

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// snippets reads a file of sources (or trees) that stand one below the other.
func snippets(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n----8<----\n")
}

// TestAccept: sources of every construct from 3.8 to 3.14 give the trees that CPython 3.14 gave (testdata/SOURCES.md).
func TestAccept(t *testing.T) {
	sources, trees := snippets(t, "accept/snippets.txt"), snippets(t, "accept/snippets.trees")
	if len(sources) != len(trees) || len(sources) < 100 {
		t.Fatalf("%d sources, %d trees", len(sources), len(trees))
	}
	for i, src := range sources {
		f := Parse([]byte(src), Options{})
		if err := f.Err(); err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		if got := string(f.Dump(nil, DumpOptions{})); got != trees[i] {
			t.Errorf("%q:\n got  %s\n want %s", src, got, trees[i])
		}
	}
}

// TestReject: CPython 3.14 rejects each of these; so do we, and say where.
func TestReject(t *testing.T) {
	for _, src := range snippets(t, "reject/snippets.txt") {
		f := Parse([]byte(src), Options{})
		if f.Err() == nil {
			t.Errorf("%q is accepted: %s", src, f.Dump(nil, DumpOptions{}))
			continue
		}
		for _, e := range f.Errors {
			if e.From < 0 || e.To < e.From || int(e.To) > len(f.Text)+1 || e.Message == "" {
				t.Errorf("%q: the error %+v stands outside", src, e)
			}
		}
	}
}

// TestRecovery: what is broken does not hide what is not.
func TestRecovery(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string // names that are called, in order
		errors    int
	}{
		{"a statement", "a()\nx = = 1\nb()\n", []string{"a", "b"}, 1},
		{"Python 2", "a()\nprint 'x'\nexec y\nb()\n", []string{"a", "b"}, 2},
		{"a header", "if a() = b:\n    c()\nd()\n", []string{"c", "d"}, 1},
		{"inside a class", "class A:\n    def f(self:\n        a()\n    def g(self):\n        b()\nc()\n",
			[]string{"a", "b", "c"}, 2},
		{"a bracket that stays open", "x = f(a(),\ny = 1\nz = f(b())\n", []string{"f", "b"}, 1},
		{"an open bracket", "x = f(a(),\ndef g():\n    b()\nc()\n", []string{"b", "c"}, 1},
		{"an open bracket, indented", "def h():\n    x = [1,\n    return a()\nb()\n", []string{"a", "b"}, 1},
		{"a closing bracket too many", "a()\nx = 1)\nb()\n", []string{"a", "b"}, 1},
		{"a string", "a()\nx = 'abc\nb()\n", []string{"a", "b"}, 1},
		{"an f-string", "a()\nx = f'{a b}'\ny = f'{c'\nb()\n", []string{"a", "b"}, 2},
		{"a target", "f(a()) = 1\nb()\n", []string{"f", "a", "b"}, 1},
		{"try without except", "try:\n    a()\nb()\n", []string{"a", "b"}, 1},
		{"a broken handler", "try:\n    a()\nexcept A B:\n    b()\nc()\n", []string{"a", "b", "c"}, 1},
		{"an else alone", "a()\nelse:\n    b()\nc()\n", []string{"a", "b", "c"}, 1},
		{"a case", "match x:\n    case 1:\n        a()\n    case +:\n        b()\n    case 2:\n        c()\nd()\n",
			[]string{"a", "b", "c", "d"}, 2},
		{"indentation", "a()\n    b()\nc()\n", []string{"a", "b", "c"}, 1},
		{"no block", "if x:\na()\n", []string{"a"}, 1},
		{"a dedent between levels", "if x:\n        a()\n    b()\nc()\n", []string{"a", "b", "c"}, 1},
		{"a character", "a()\nb() $ c\nd()\n", []string{"a", "b", "d"}, 1},
	} {
		f := Parse([]byte(c.src), Options{})
		var got []string
		f.Walk(func(n Node) bool {
			if call, ok := n.(*Call); ok {
				got = append(got, call.Func.(*Name).ID)
			}
			return true
		})
		if strings.Join(got, " ") != strings.Join(c.want, " ") || len(f.Errors) == 0 || len(f.Errors) > c.errors {
			t.Errorf("%s: calls of %v (want %v), errors %v", c.name, got, c.want, f.Errors)
		}
	}
}

// TestHostile: sources that nobody wrote are answered, in memory that their size explains.
func TestHostile(t *testing.T) {
	const size = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, src := range map[string]string{
		"brackets":       fill("("),
		"mixed brackets": fill("([{"),
		"closing":        fill(")"),
		"minus":          fill("-") + "1",
		"not":            fill("not ") + "1",
		"lambda":         fill("lambda:") + "1",
		"conditions":     fill("a if b else ") + "1",
		"sums":           "a" + fill("+a"),
		"powers":         "a" + fill("**a"),
		"attributes":     "a" + fill(".a"),
		"calls":          "a" + fill("()"),
		"comparisons":    "a" + fill("<a"),
		"or":             "a" + fill(" or a"),
		"elif":           "if a: b\n" + fill("elif a: b\n"),
		"blocks": func() string {
			var b strings.Builder
			for i := range 1500 {
				b.WriteString(strings.Repeat(" ", i) + "if a:\n")
			}
			return b.String()
		}(),
		"f-strings":        fill("f'{"),
		"f-string quotes":  fill(`f"{f'{`),
		"specifications":   "f'{a" + fill(":{a"),
		"quotes":           fill("'"),
		"triple quotes":    fill(`'''a`),
		"broken lines":     fill("= 1\n"),
		"broken blocks":    fill("x = = 1\n  y\n"),
		"indents":          fill("if a:\n b\n c d\n"),
		"patterns":         "match a:\n case " + fill("a|") + "b: pass\n",
		"nested patterns":  "match a:\n case " + fill("["),
		"targets":          fill("a=") + "1",
		"starred":          fill("*") + "a = 1",
		"decorators":       fill("@a\n"),
		"with":             "with (" + fill("a,") + "b): pass\n",
		"with in brackets": fill("with ("),
		"semicolons":       fill("a;"),
		"continuation":     fill("\\\n"),
		"match":            fill("match (\n"),
		"zeros":            fill("\x00"),
		"high bytes":       fill("\xff"),
		"digits":           fill("1"),
		"underscores":      fill("1_"),
		"names":            fill("é"),
		"awaits":           fill("await "),
		"class":            fill("class A:"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f := Parse([]byte(src), Options{})
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 300*size {
				t.Errorf("%d MB for %d MB of source", used>>20, len(src)>>20)
			}
			if len(f.Errors) > maxErrors+1 {
				t.Errorf("%d errors", len(f.Errors))
			}
			whole(t, f)
		})
	}
}

// TestParallel: parsers come from a pool.
func TestParallel(t *testing.T) {
	sources, trees := snippets(t, "accept/snippets.txt"), snippets(t, "accept/snippets.trees")
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			files := make([]*File, len(sources))
			for i, src := range sources {
				files[i] = Parse([]byte(src), Options{})
			}
			for i, f := range files {
				if got := string(f.Dump(nil, DumpOptions{})); got != trees[i] {
					t.Errorf("%q:\n got  %s\n want %s", sources[i], got, trees[i])
				}
			}
		})
	}
	wait.Wait()
}

// whole checks what holds for every tree: nodes lie within the file, and a node that is no error lies within its
// parent, decorators and arguments aside.
func whole(t *testing.T, f *File) {
	t.Helper()
	f.Walk(func(n Node) bool {
		if n.Pos() < 0 || n.End() < n.Pos() || n.End() > len(f.Text) {
			t.Fatalf("%s at %d-%d of %d", n.Kind(), n.Pos(), n.End(), len(f.Text))
		}
		return true
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"accept/snippets.txt", "reject/snippets.txt"} {
		for _, s := range snippets(f, name) {
			f.Add([]byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file := Parse(src, Options{Tokens: true})
		whole(t, file)
		first := file.Dump(nil, DumpOptions{})
		if second := Parse(src, Options{}).Dump(nil, DumpOptions{}); !bytes.Equal(first, second) {
			t.Fatal("two readings differ")
		}
		NewScopes(file, "m").all(nil, 0)
		last := int32(-1)
		for _, k := range file.Tokens {
			if k.From < last || k.To < k.From {
				t.Fatalf("the token %+v goes back", k)
			}
			last = k.From
		}
	})
}

func TestPositions(t *testing.T) {
	src := "\ufeffx = 'é' # one\r\ny = (\n  2) # two"
	f := Parse([]byte(src), Options{Tokens: true})
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	if len(f.Comments) != 2 || f.Text[f.Comments[0].From:f.Comments[0].To] != "# one" ||
		f.Text[f.Comments[1].From:f.Comments[1].To] != "# two" {
		t.Errorf("comments: %v", f.Comments)
	}
	s := f.Body[0].(*Assign)
	if line, column := f.Position(s.Pos()); line != 1 || column != 0 {
		t.Errorf("x stands at %d:%d: the byte order mark does not count", line, column)
	}
	if got := f.Source(s.Value); got != "'é'" {
		t.Errorf("source %q", got)
	}
	v := f.Body[1].(*Assign).Value
	if line, column := f.Position(v.Pos()); line != 3 || column != 2 {
		t.Errorf("2 stands at %d:%d", line, column)
	}
	if n, ok := v.(*Constant).IntValue(); !ok || n != 2 {
		t.Errorf("the value is %d", n)
	}
	if last := f.Tokens[len(f.Tokens)-1]; last.Kind != 0 || int(last.From) != len(f.Text) {
		t.Errorf("the last token: %+v", last)
	}
}

func TestEncodings(t *testing.T) {
	for src, want := range map[string]string{
		"x = 'é'":                       "é",
		"# coding: latin-1\nx = '\xe9'": "é",
		"#!/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'": "€",
		"# -*- coding: iso-8859-15 -*-\nx = '\xa4'":                   "€",
		"# coding: koi8-r\nx = '\xc1'":                                "а",
		"# coding: gbk\nx = '\xc4\xe3'":                               "你",
	} {
		f := Parse([]byte(src), Options{})
		if err := f.Err(); err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		if got := f.Body[len(f.Body)-1].(*Assign).Value.(*Constant).StringValue(); got != want {
			t.Errorf("%q: %q", src, got)
		}
	}
	for _, src := range []string{"x = '\xe9'", "# coding: ascii\n# \xe9", "# coding: no-such\n",
		"\ufeff# coding: latin-1\n", "# coding: cp1252\n# \x81"} {
		if f := Parse([]byte(src), Options{}); f.Err() == nil {
			t.Errorf("%q is accepted", src)
		}
	}
}
