package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// wanted finds the word BAD and can replace it; UGLY unsafely. It stands for a rule in tests of what is around the
// rules.
var wanted = &Rule{Name: "bad-word", Title: "the word BAD", Severity: Error, Fixable: true,
	Doc: Doc{Why: "It <is> \"bad\" & so on.", Bad: "BAD\n", Good: "good\n"}, File: func(p *Pass) {
		for word, fix := range map[string]Fix{"BAD": {Safety: Safe, Title: "write good"},
			"UGLY": {Safety: Unsafe, Title: "write nice"}} {
			text := string(p.Src().Text)
			for at := 0; ; {
				i := strings.Index(text[at:], word)
				if i < 0 {
					break
				}
				from := at + i
				at = from + len(word)
				f := fix
				f.Edits = []Edit{{from, at, map[string]string{"BAD": "good", "UGLY": "nice"}[word]}}
				p.Report(nil, Finding{Sure: word == "BAD", From: from, To: at,
					Text: word + " stands here: 100 %, a::b\nand more", Hint: "do not", Fix: &f})
			}
		}
	}}

// checked checks files of a folder by that rule.
func checked(t *testing.T, dir string, fix Safety, names ...string) (*Report, *Options) {
	t.Helper()
	o := &Options{Base: dir, Files: names, Rules: []*Rule{wanted, UnusedAllow, BareAllow},
		Known: []*Rule{wanted, UnusedAllow, BareAllow}, Target: Target{Device: "mps"}, All: true, Fix: fix,
		Version: "test"}
	r, err := Check(o)
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// TestPlaces: columns count characters from 1, whatever the line ends, the encoding and what stands before.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "import torch\nBAD\n", "2:1-2:4"},
		{"tab", "import torch\nif 1:\n\t\tBAD\n", "3:3-3:6"},
		{"other letters", "import torch\nx = '字é𝔘'; BAD\n", "2:12-2:15"},
		{"CRLF", "import torch\r\nx = 1\r\n  \\\r\nBAD\r\n", "4:1-4:4"},
		{"CR", "import torch\rBAD\r", "2:1-2:4"},
		{"mark", "\uFEFFBAD; import torch\n", "1:1-1:4"},
		{"mark, second line", "\uFEFFimport torch\n\uFEFF BAD\n", "2:3-2:6"},
		{"form feed", "import torch\n\f\nBAD\n", "3:1-3:4"},
		{"latin-1", "# coding: latin-1\nimport torch\nx = '\xe9\xe8'; BAD\n", "3:11-3:14"},
		{"no end", "import torch\nBAD", "2:1-2:4"},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "x.py"), c.text)
		r, _ := checked(t, dir, "", "x.py")
		if len(r.Items) != 1 {
			t.Errorf("%s: %d found, %v", c.name, len(r.Items), r.Troubles)
			continue
		}
		i := r.Items[0]
		if got := fmt.Sprintf("%d:%d-%d:%d", i.Line, i.Column, i.EndLine, i.EndColumn); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		var b bytes.Buffer
		if err := writeText(&b, r); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n") // the mark stands below the word
		var word, mark int
		for n, l := range lines {
			if strings.Contains(l, "^^^") {
				mark = utf8.RuneCountInString(l[:strings.Index(l, "^^^")])
				word = utf8.RuneCountInString(lines[n-1][:strings.Index(lines[n-1], "BAD")])
			}
		}
		if mark == 0 || mark != word {
			t.Errorf("%s: marked at %d, the word stands at %d\n%s", c.name, mark, word, b.String())
		}
	}
}

// TestNotebookCells: cells have numbers of their own; what IPython alone understands is passed over, and what Python
// understands is not.
func TestNotebookCells(t *testing.T) {
	for _, c := range []struct{ name, cell, want string }{ // want: the places of BAD, in order
		{"line magics", "%matplotlib inline\n!pip install x\n?torch\ntorch?\nBAD", "5:1"},
		{"in a block", "if 1:\n    !ls\n    BAD\n", "3:5"},
		{"assigned", "files = !ls *.py\nx, y = %who BAD\nBAD", "3:1"},
		{"continued", "!ls \\\n  BAD \\\n  BAD\nBAD", "4:1"},
		{"cell magic of the shell", "%%bash\nBAD=1; echo $BAD", ""},
		{"cell magic around Python", "%%time\nBAD", "2:1"},
		{"remainder in brackets", "x = (7\n% 4); BAD", "2:7"},
		{"remainder after a backslash", "x = 7 \\\n% 4; BAD", "2:6"},
		{"in a string", "x = '''\n%BAD\n!ls'''\nBAD", "2:2 4:1"},
		{"assigned remainder", "x %= 3; BAD", "1:9"},
		{"names an encoding", "# -*- coding: latin-1 -*-\nx = 'é'; BAD", "2:10"},
		{"CRLF", "%ls\r\nBAD\r\n", "2:1"},
	} {
		dir := t.TempDir()
		raw, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{},
			"cells": []any{
				map[string]any{"cell_type": "markdown", "source": "BAD"},
				map[string]any{"cell_type": "code", "source": "import torch\rx = 1", "outputs": []any{}},
				map[string]any{"cell_type": "code", "source": c.cell, "outputs": []any{}},
				map[string]any{"cell_type": "code", "source": "\n\nBAD", "outputs": []any{}}}})
		if err != nil {
			t.Fatal(err)
		}
		if c.name == "names an encoding" { // which only the first lines of a source can
			raw = bytes.Replace(raw, []byte(`import torch\rx = 1`), []byte(`# coding: latin-1\nimport torch`), 1)
		}
		put(t, filepath.Join(dir, "n.ipynb"), string(raw))
		r, _ := checked(t, dir, "", "n.ipynb")
		var got []string
		last := ""
		for _, i := range r.Items {
			if i.Cell == 2 {
				got = append(got, fmt.Sprintf("%d:%d", i.Line, i.Column))
			} else {
				last += fmt.Sprintf("%d:%d:%d", i.Cell, i.Line, i.Column)
			}
		}
		if strings.Join(got, " ") != c.want || last != "3:3:1" || len(r.Troubles) > 0 {
			t.Errorf("%s: found at %q and %q, want %q; %v", c.name, got, last, c.want, r.Troubles)
		}
	}
}

// TestNotebooksNotRead: what is no notebook of Python, and what is damaged.
func TestNotebooksNotRead(t *testing.T) {
	for text, trouble := range map[string]string{
		`{"cells": [{"cell_type": "code", "source": "BAD"}], "metadata": {"language_info": {"name": "julia"}}}`: "",
		`{"worksheets": []}`: "nbformat 4", `{"cells": 1}`: "no notebook", `{"cells": [{"source": {}}]}`: "no notebook",
		`[]`: "nbformat 4", ``: "nbformat 4", `{"cells": [`: "notebook",
		`{"cells": [], "metadata": 3}`: "", "\xff": "UTF-8",
		`{"cells": [{"cell_type": "code", "source": [1]}]}`: "notebook",
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "n.ipynb"), text)
		r, _ := checked(t, dir, "", "n.ipynb")
		if len(r.Items) > 0 || (trouble == "") != (len(r.Troubles) == 0) || trouble != "" &&
			!strings.Contains(r.Troubles[0].Text, trouble) {
			t.Errorf("%s: %v %v", text, r.Items, r.Troubles)
		}
	}
}

// TestNotebookLanguages: Python goes by two names, and by none.
func TestNotebookLanguages(t *testing.T) {
	for metadata, read := range map[string]bool{`{}`: true, `{"language_info": {"name": "python"}}`: true,
		`{"language_info": {"name": "ipython"}}`: true, `{"language_info": {"name": "Python"}}`: true,
		`{"kernelspec": {"language": "python"}}`: true, `{"kernelspec": {"language": "R"}}`: false,
		`{"language_info": {"name": "julia"}}`: false} {
		_, err := NewSource("n.ipynb", []byte(`{"cells": [], "metadata": `+metadata+`}`))
		if (err == nil) != read {
			t.Errorf("%s: %v", metadata, err)
		}
	}
}

// randomNotebook writes a notebook as one of the programs that write them would, and says in which strings BAD stands.
func randomNotebook(random *rand.Rand) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	quote := func(s string) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(random.IntN(2) == 0)
		e.Encode(s)
		quoted := strings.TrimSpace(b.String())
		if random.IntN(3) == 0 { // as Python's json with ensure_ascii
			quoted = strings.NewReplacer("é", `\u00e9`, "𝔘", `\ud835\udd18`, "/", `\/`).Replace(quoted)
		}
		return quoted
	}
	space := pick("", " ", "\n ", "\r\n\t")
	var cells []string
	for range random.IntN(6) {
		var lines []string
		for range random.IntN(6) {
			lines = append(lines, pick("import torch", "BAD", "x = BAD  # <é> / 𝔘", "", "y = 'é\\t\"'", "if 1: BAD",
				"%magic BAD", "!ls", "s = \"\u2028\"", "z = '/'; BAD; BAD"))
		}
		text := strings.Join(lines, pick("\n", "\n", "\r\n"))
		source := quote(text)
		if random.IntN(3) > 0 {
			var parts []string
			for line := range strings.Lines(text) {
				parts = append(parts, quote(line))
			}
			source = "[" + space + strings.Join(parts, ","+space) + space + "]"
		}
		fields := []string{`"cell_type":` + pick(`"code"`, `"code"`, `"markdown"`), `"source":` + space + source,
			`"outputs": [{"text": ["BAD\u00e9", 1.0e5, 1E+05]}]`, `"metadata": {"BAD": null}`,
			`"execution_count":` + pick("null", "12")}
		random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		cells = append(cells, "{"+space+strings.Join(fields, ","+space)+"}")
	}
	top := []string{`"cells":` + space + "[" + space + strings.Join(cells, ", ") + "]",
		`"metadata": {"kernelspec": {"language": "python"}}`, `"nbformat": 4`, `"nbformat_minor": 5`}
	random.Shuffle(len(top), func(i, j int) { top[i], top[j] = top[j], top[i] })
	return space + "{" + strings.Join(top, ","+space) + "}" + pick("", "\n")
}

// TestNotebookFixes: with encoding/json as oracle, of whatever notebook only the sources of code cells change, and
// there only the word, its magics apart; every byte outside the strings that change stays.
func TestNotebookFixes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	path := filepath.Join(dir, "n.ipynb")
	changed := 0
	for range 400 {
		before := randomNotebook(random)
		put(t, path, before)
		_, o := checked(t, dir, Safe, "n.ipynb")
		after, ok := o.Changed[path]
		if !ok {
			after = []byte(before)
		} else {
			changed++
		}
		var a, b map[string]any
		if err := json.Unmarshal([]byte(before), &a); err != nil {
			t.Fatalf("%v in %s", err, before)
		}
		if err := json.Unmarshal(after, &b); err != nil {
			t.Fatalf("%v in what was\n%s\nand is\n%s", err, before, after)
		}
		relevant := false
		for _, c := range a["cells"].([]any) {
			if c := c.(map[string]any); c["cell_type"] == "code" && strings.Contains(sourceText(c["source"]), "torch") {
				relevant = true
			}
		}
		for n, c := range a["cells"].([]any) {
			c := c.(map[string]any)
			source := sourceText(c["source"])
			if c["cell_type"] == "code" && relevant {
				fixed := strings.ReplaceAll(source, "BAD", "good")
				source = strings.ReplaceAll(fixed, "%magic good", "%magic BAD")
			}
			d := b["cells"].([]any)[n].(map[string]any)
			if got := sourceText(d["source"]); got != source {
				t.Fatalf("cell %d: %q, want %q, in\n%s", n, got, source, before)
			}
			if _, list := c["source"].([]any); list != isList(d["source"]) {
				t.Fatalf("cell %d: its source has another form", n)
			}
		}
		if got := untouched(after); got != untouched([]byte(before)) {
			t.Fatalf("what lies outside the sources changed:\n%s\nto\n%s", before, after)
		}
		// Lines of the file without the word are as they were.
		x, y := strings.Split(before, "\n"), strings.Split(string(after), "\n")
		if len(x) != len(y) {
			t.Fatalf("%d lines became %d:\n%s\nto\n%s", len(x), len(y), before, after)
		}
		for n := range x {
			if x[n] != y[n] && !strings.Contains(x[n], "BAD") {
				t.Fatalf("line %d became %s, was %s", n+1, y[n], x[n])
			}
		}
	}
	if changed < 50 {
		t.Errorf("only %d notebooks changed", changed)
	}
}

func isList(v any) bool { _, ok := v.([]any); return ok }

func sourceText(source any) string {
	if s, ok := source.(string); ok {
		return s
	}
	var b strings.Builder
	for _, s := range source.([]any) {
		b.WriteString(s.(string))
	}
	return b.String()
}

// untouched is a notebook's text with what stands for a source taken out, by encoding/json's own offsets.
func untouched(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	var b strings.Builder
	at := 0
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		if token == "source" {
			b.Write(raw[at:d.InputOffset()])
			b.WriteString("…")
			if token, _ := d.Token(); token == json.Delim('[') {
				for d.More() {
					d.Token()
				}
				d.Token()
			}
			at = int(d.InputOffset())
		}
	}
	b.Write(raw[at:])
	return b.String()
}

// TestNotebookInsertion: into cells without text, and over the lines of one.
func TestNotebookInsertion(t *testing.T) {
	for _, c := range []struct {
		source string
		edits  []Edit
		want   string
	}{
		{`[]`, []Edit{{0, 0, "import a\nimport b\n"}}, "import a\nimport b\n"},
		{`""`, []Edit{{0, 0, "x"}}, "x"},
		{`["a\n", "b\n", "c"]`, []Edit{{1, 5, ""}}, "a"},
		{`["a\n", "b\n", "c"]`, []Edit{{2, 2, "x\n"}, {5, 5, "y"}}, "a\nx\nb\ncy"},
		{`["a\n", "b\n", "c"]`, []Edit{{0, 2, ""}, {2, 4, ""}}, "c"},
		{`"a\ud800b"`, []Edit{{0, 1, "x"}}, ""},
	} {
		raw := `{"cells": [{"cell_type": "code", "source": ` + c.source + `}, {"cell_type": "code", "source": ["z"]}]}`
		src, err := NewSource("n.ipynb", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" { // half a character of UTF-16: it would be lost
			if !src.fixed {
				t.Errorf("%s can be written back", c.source)
			}
			continue
		}
		after, err := src.Apply(c.edits)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		again, err := NewSource("n.ipynb", after)
		if err != nil || string(again.CellText(0)) != c.want || string(again.CellText(1)) != "z" {
			t.Errorf("%s: %v, %s", c.source, err, after)
		}
	}
	src, err := NewSource("n.ipynb",
		[]byte(`{"cells": [{"cell_type": "code", "source": "a"}, {"cell_type": "code", "source": "b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Apply([]Edit{{0, 3, ""}}); err == nil {
		t.Error("an edit over two cells was made")
	}
	if _, err := src.Apply([]Edit{{0, 1, ""}, {0, 1, ""}}); err == nil {
		t.Error("edits that overlap were made")
	}
}

// TestFixThatBreaks: a file that would no longer parse is left as it is, which is said; others are fixed.
func TestFixThatBreaks(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a.py"), "import torch\nWORSE\n")
	put(t, filepath.Join(dir, "b.py"), "import torch\nBAD\n")
	worse := &Rule{Name: "worse", File: func(p *Pass) {
		if from := bytes.Index(p.Src().Text, []byte("WORSE")); from >= 0 {
			p.Report(nil, Finding{Severity: Error, Sure: true, From: from, To: from + 5, Text: "worse",
				Fix: &Fix{Safety: Safe, Edits: []Edit{{from, from + 5, "((("}}}})
		}
	}}
	o := &Options{Base: dir, Files: []string{"a.py", "b.py"}, Rules: []*Rule{wanted, worse},
		Target: Target{Device: "mps"}, Fix: Safe}
	r, err := Check(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Troubles) != 1 || r.Troubles[0].File != "a.py" || len(r.Items) != 1 || r.Counts.Fixed != 1 ||
		len(o.Changed) != 1 || o.Changed[filepath.Join(dir, "b.py")] == nil {
		t.Errorf("%v %v %v", r.Troubles, r.Items, r.Counts)
	}
}

func FuzzNotebook(f *testing.F) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		f.Add(randomNotebook(random))
	}
	f.Fuzz(func(t *testing.T, text string) {
		src, err := NewSource("n.ipynb", []byte(text))
		if err != nil {
			return
		}
		for i := range len(src.Text) {
			src.Place(i)
			src.rawLine(i)
		}
		if after, err := src.Apply(nil); err != nil || string(after) != text {
			t.Fatalf("no edit, and yet: %v %q", err, after)
		}
	})
}

// TestFixesInOrder: safe ones alone, or unsafe ones too; a file in another encoding is not written.
func TestFixesInOrder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.py")
	for _, c := range []struct {
		text string
		fix  Safety
		want string
	}{
		{"import torch\r\nBAD; UGLY\r\n", Safe, "import torch\r\ngood; UGLY\r\n"},
		{"\uFEFFimport torch\nBAD; UGLY", Unsafe, "\uFEFFimport torch\ngood; nice"},
		{"# coding: latin-1\nimport torch # \xe9\nBAD\n", Unsafe, ""},
		{"import torch\nBAD  # assay: allow bad-word -- é\n", Unsafe, ""},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, o := checked(t, dir, c.fix, "x.py"); string(o.Changed[path]) != c.want {
			t.Errorf("%q: %q, want %q", c.text, o.Changed[path], c.want)
		}
	}
}
