package target

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// askedNames are what a variable or a field is called that holds the word behind --on.
var askedNames = []string{"on", "asked", "askedon", "ondevice", "askeddevice"}

// askedWords are the words that only this room compares with them, and what stands for one.
var (
	askedWords  = []string{"auto", "cpu", "mps", "cuda", "double"}
	askedConsts = []string{"Auto", "OnCPU", "OnMPS", "OnCUDA", "OnDouble"}
)

// comparesAsked lists the lines of a source that compare what was asked for with one of the words, by ==, != or switch.
func comparesAsked(t *testing.T, path string, src any) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return slices.Contains(askedNames, strings.ToLower(e.Name))
		case *ast.SelectorExpr:
			name := strings.ToLower(e.Sel.Name)
			if of, ok := e.X.(*ast.SelectorExpr); ok && name == "device" { // o.On.Device
				name = strings.ToLower(of.Sel.Name)
			} else if of, ok := e.X.(*ast.Ident); ok && name == "device" { // on.Device
				name = strings.ToLower(of.Name)
			}
			return slices.Contains(askedNames, name)
		}
		return false
	}
	word := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(e.Value)
			return err == nil && e.Kind == token.STRING && slices.Contains(askedWords, text)
		case *ast.SelectorExpr:
			return slices.Contains(askedConsts, e.Sel.Name)
		}
		return false
	}
	var found []string
	at := func(n ast.Node) { found = append(found, fset.Position(n.Pos()).String()) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (asked(n.X) && word(n.Y) || word(n.X) && asked(n.Y)) {
				at(n)
			}
		case *ast.SwitchStmt:
			if n.Tag == nil || !asked(n.Tag) {
				break
			}
			for _, c := range n.Body.List {
				if slices.ContainsFunc(c.(*ast.CaseClause).List, word) {
					at(n)
					break
				}
			}
		}
		return true
	})
	return found
}

// TestNobodyElseCompares: a room that wants to know something of what was asked for asks Target.
func TestNobodyElseCompares(t *testing.T) {
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		here := path == filepath.Join(root, "internal/target")
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || here) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		for _, line := range comparesAsked(t, path, nil) {
			t.Errorf("%s compares a device that was asked for: ask target.Target, or give it a method", line)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("read %d files: %v", files, err)
	}
}

// TestComparesAsked: the forms in which five rooms compared once are found, and comparisons of other things are not.
func TestComparesAsked(t *testing.T) {
	for line, want := range map[string]bool{
		`_ = on == "cpu" || other`:            true,
		`_ = opts.on != "double"`:             true,
		`_ = "auto" == run.Target.Asked`:      true,
		`_ = o.On.Device == evidence.OnCPU`:   true,
		`_ = on.Device == target.Auto`:        true,
		`switch opts.on { case "x", "mps": }`: true,
		`_ = opts.profile != "auto"`:          false,
		`_ = run.Target.Device == "mps"`:      false,
		`_ = asked == ""`:                     false,
		`switch asked { case "x": }`:          false,
	} {
		if got := comparesAsked(t, "x.go", "package p\nfunc f() { "+line+" }"); (len(got) == 1) != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
