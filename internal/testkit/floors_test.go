package testkit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors are the files of rooms that are built floor upon floor, the ground first: a file uses what the files before
// it declare. "*" stands for all files that the list does not name; of those none uses another. Tests stand on the
// roof.
var floors = map[string][]string{
	"internal/abstract": {"file.go", "devices.go", "dtypes.go", "shape.go", "value.go", "join.go", "env.go", "class.go",
		"arguments.go", "finder.go", "interp.go",
		"tables.go", "layouts.go", "facts.go", "names.go", "functions.go", "members.go", "targets.go",
		"python.go", "torch.go",
		"numpy.go", "results.go", "calls.go",
		"conditions.go", "operators.go", "expressions.go", "statements.go", "program.go"},
	"internal/audit": {"source.go", "load.go", "discover.go", "rule.go", "pass.go", "allow.go", "forms.go",
		"baseline.go", "fix.go", "check.go",
		"settings.go"},
	"internal/audit/rules": {"names.go", "values.go", "nodes.go", "around.go", "loops.go", "loaders.go", "tensors.go",
		"reached.go", "layers.go", "told.go", "environment.go", "log.go", "*",
		"all.go"},
}

// TestFloors: no file of these rooms uses what a file above it declares.
func TestFloors(t *testing.T) {
	for room, order := range floors {
		for _, up := range arrowsUp(t, filepath.Join(root, room), order) {
			t.Errorf("%s: %s", room, up)
		}
	}
}

// arrowsUp lists what the files of a folder use of files that do not stand below them: functions, types, variables,
// fields, and methods as far as the folder's own types tell them.
func arrowsUp(t *testing.T, dir string, order []string) []string {
	t.Helper()
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	there := map[string]bool{}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		there[filepath.Base(p)] = true
	}
	var list []string
	rest := slices.Index(order, "*")
	floor := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return rest
	}
	for _, name := range order {
		if name != "*" && !there[name] {
			list = append(list, name+" is in the list and not in the folder")
		}
	}
	for name := range there {
		if floor(name) < 0 {
			list = append(list, name+" is not in the list: say where it stands")
		}
	}
	// What other packages declare stays unknown: only this one's names matter, so that nothing outside it has to be
	// read.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: nothingElse{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(filepath.Base(dir), fset, files, info)
	used := map[string]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := filepath.Base(fset.Position(ident.Pos()).Filename),
			filepath.Base(fset.Position(object.Pos()).Filename)
		if from != to && floor(from) <= floor(to) {
			used[from+" uses "+object.Name()+" of "+to+", which does not stand below it"] = true
		}
	}
	for up := range used {
		list = append(list, up)
	}
	slices.Sort(list)
	return list
}

// nothingElse gives every import an empty package.
type nothingElse struct{}

func (nothingElse) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
