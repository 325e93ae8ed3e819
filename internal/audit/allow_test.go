package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSuppressions: what a comment allows, and what is said of comments that allow nothing, name no rule, or give no
// reason.
func TestSuppressions(t *testing.T) {
	for _, c := range []struct{ source, want string }{ // want: what is left, as LINE RULE
		{"BAD  # assay: allow bad-word -- it has to be", ""},
		{"BAD  #assay:allow bad-word -- it has to be", ""},
		{"BAD  # noqa: E1  # assay: allow bad-word -- it has to be", ""},
		{"# assay: allow bad-word -- the next line\nBAD\nBAD", "3 bad-word"},
		{"# assay: allow bad-word -- the next line of code\n# another comment\n\nBAD\nBAD", "5 bad-word"},
		{"if 1:\n    # assay: allow bad-word -- in a block\n    BAD", ""},
		{"x = (1,\n  BAD,  # assay: allow bad-word -- the line alone\n  BAD)", "3 bad-word"},
		{"BAD\nBAD\n# assay: allow-file bad-word -- all of it", ""},
		{"BAD  # assay: allow bad-word", "1 allow-without-reason"},
		{"BAD  # assay: allow bad-word --", "1 allow-without-reason"},
		{"x = 1  # assay: allow bad-word -- not there", "1 unused-allow"},
		{"x = 1  # assay: allow bad-word", "1 unused-allow"},
		{"x = 1  # assay: allow-file bad-word -- not there", "1 unused-allow"},
		{"BAD  # assay: allow bad-wort -- spelt wrong", "1 bad-word 1 unused-allow"},
		{"BAD  # assay: allow bad-word, unused-allow -- two", "1 unused-allow"},
		{"BAD  # assay: allow -- what", "1 bad-word 1 unused-allow"},
		{"x = '# assay: allow bad-word -- in a string'; BAD", "1 bad-word"},
		{"BAD  # see assay: it allows bad-word", "1 bad-word"},
		{"BAD; UGLY  # assay: allow bad-word -- both words are of one rule", ""},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "x.py"), c.source+"\n# torch\n")
		r, _ := checked(t, dir, "", "x.py")
		var got []string
		for _, i := range r.Items {
			got = append(got, fmt.Sprintf("%d %s", i.Line, i.Rule))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s\nleaves %q, want %q", c.source, got, c.want)
		}
		// What can be removed is removed, and then nothing is unused.
		if r, o := checked(t, dir, Safe, "x.py"); r.Counts.Fixed > 0 {
			after := string(o.Changed[filepath.Join(dir, "x.py")])
			put(t, filepath.Join(dir, "x.py"), after)
			if r, _ := checked(t, dir, Safe, "x.py"); r.Counts.Fixed > 0 {
				t.Errorf("%s\nis fixed again after\n%s", c.source, after)
			}
		}
	}
	// A hint names the rule that was meant.
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x.py"), "BAD  # assay: allow bad-wort -- spelt wrong; torch\n")
	r, _ := checked(t, dir, "", "x.py")
	if !slices.ContainsFunc(r.Items, func(i Item) bool { return i.Hint == "did you mean bad-word?" }) {
		t.Errorf("%+v", r.Items)
	}
}

// TestBaseline: what it holds is not found again, wherever its line stands now; once more of the same is.
func TestBaseline(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "src/x.py"), "import torch\nBAD\nBAD\nz = BAD\n")
	r, _ := checked(t, dir, "", "src/x.py")
	path := filepath.Join(dir, "ci", "known.json")
	put(t, path, "")
	if err := WriteBaseline(path, dir, r); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := func(base, name string) string {
		t.Helper()
		b, err := LoadBaseline(path, base)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Check(&Options{Base: base, Files: []string{name}, Rules: []*Rule{wanted},
			Target: Target{Device: "mps"}, Baseline: b})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d:", r.Counts.Baseline)
		for _, i := range r.Items {
			got += fmt.Sprintf(" %d", i.Line)
		}
		return got
	}
	if got := found(dir, "src/x.py"); got != "3:" {
		t.Errorf("the same: %s", got)
	}
	if got := found(filepath.Join(dir, "src"), "x.py"); got != "3:" {
		t.Errorf("from another folder: %s", got)
	}
	if got := found(dir, filepath.Join(dir, "src/x.py")); got != "3:" {
		t.Errorf("by its absolute path: %s", got)
	}
	put(t, filepath.Join(dir, "src/x.py"), "import torch\nBAD; BAD\n\nif 1:\n    z = BAD\n    BAD\n    BAD\n    BAD\n")
	if got := found(dir, "src/x.py"); got != "3: 2 2 8" {
		t.Errorf("moved, and more: %s", got)
	}
	if err := WriteBaseline(path, dir, r); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(first) {
		t.Errorf("the same findings gave another file: %v\n%s\n%s", err, first, again)
	}
	for text, says := range map[string]string{"{": "unexpected end",
		`{"schema": "assay.baseline/9"}`: "assay.baseline/9", "": "unexpected end"} {
		put(t, path, text)
		if _, err := LoadBaseline(path, dir); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "known.json") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
