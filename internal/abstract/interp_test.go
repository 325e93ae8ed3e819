package abstract

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/pyast"
)

// kinds are the words for a value in the comments of testdata.
var kinds = map[Kind]string{Unknown: "unknown", API: "api", Str: "text", Number: "number", Bool: "bool", None: "none",
	Seq: "list", Dict: "dict",
	Device: "device", DType: "dtype", Tensor: "tensor", Array: "array", Module: "module", Optimizer: "optimizer",
	Loader: "loader", Made: "object",
	Parsed: "options", Function: "function", ClassDef: "class", Instance: "instance", StateDict: "state",
	Super: "super", Never: "never"}

// described is what a value says, in words: tensor mps float32 sized.
func described(v *Value) string {
	words := []string{kinds[v.Kind]}
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	switch v.Kind {
	case Device, Tensor, Module, StateDict:
		add(true, strings.ReplaceAll(v.Where.String(), "an unknown device", "open"))
	case Str:
		add(true, strconv.Quote(v.Text))
	case Number:
		add(v.Text != "", v.Text)
	case Bool:
		words = []string{strconv.FormatBool(v.Yes)}
	case Seq:
		var items []string
		for _, i := range v.Items {
			items = append(items, described(i))
		}
		add(true, []string{"", "loose ", "enumerated ", "zipped ", "counted ", "empty ",
			"strung "}[v.Form]+"["+strings.Join(items, ", ")+"]")
	case API, Optimizer, Made:
		add(true, v.Path)
	case Instance, ClassDef:
		add(true, v.Class.Name)
	case Function:
		add(true, v.Func.Name)
	}
	if v.Kind == Module {
		add(v.Path != "", v.Path)
		add(v.Class != nil, fmt.Sprint(v.Class.nameOr("")))
	}
	if v.Kind != Number {
		add(v.Type != "", v.Type)
	}
	add(v.Origin == Sized, "sized")
	add(v.Origin == Batch, "batch")
	add(v.Role == Parameter, "parameter")
	add(v.Role == Buffer, "buffer")
	add(v.Role == Plain, "plain")
	add(v.Follows, "follows")
	add(v.OrNone, "or none")
	add(v.Soft, "soft")
	return strings.Join(words, " ")
}

func (c *Class) nameOr(other string) string {
	if c == nil {
		return other
	}
	return c.Name
}

// shaped is what is known of a tensor's dimensions, in words: 2x3 contiguous.
func shaped(s *Shape) string {
	if s == nil {
		return "nothing"
	}
	var sizes []string
	for _, n := range s.Sizes {
		sizes = append(sizes, strings.Replace(strconv.FormatInt(n, 10), "-1", "?", 1))
	}
	yes, known := s.Contiguous()
	how := map[[2]bool]string{{true, true}: "contiguous", {false, true}: "strided"}[[2]bool{yes, known}]
	return cmp.Or(strings.Join(sizes, "x"), "scalar") + " " + cmp.Or(how, "unknown")
}

// surroundings are what is known of the place where the interpreter is, in words.
func surroundings(in *Interp) string {
	var words []string
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	if f := in.Func(); f != nil {
		words = append(words, "in "+f.Name)
	}
	add(in.Maybe(), "maybe")
	add(in.Caught(), "caught")
	add(in.Guarded(), "guarded")
	add(in.InHandler(), "handler")
	add(in.InMain(), "main")
	add(!in.FromTop(), "lone")
	add(len(in.Loops()) > 0, fmt.Sprintf("loops %d", len(in.Loops())))
	for _, b := range in.blocks {
		words = append(words, "with "+b.Path)
	}
	in.Under(func(test pyast.Expr) bool {
		words = append(words, "if "+in.Text(test))
		return false
	})
	if words == nil {
		return "top"
	}
	return strings.Join(words, ", ")
}

// seenIn interprets a file of a folder and says, line by line, what its calls of see(value) and here() come to. A
// line that is interpreted in several ways has one entry for each, in their order.
func seenIn(t *testing.T, dir, name, device string) map[int][]string {
	t.Helper()
	base, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	load := func(path string) *File {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("asked for a file that cannot be read: %v", err)
		}
		return &File{Tree: pyast.Parse(raw, pyast.Options{})}
	}
	world := &World{Device: device, Finder: NewFinder(base), Load: load,
		Since: func(release string) bool { return release <= "2.8" },
		Operator: func(path string) bool {
			return strings.HasPrefix(path, "torch.") && lower(lastPart(path)) &&
				strings.Count(path, ".") == 1
		},
		Exports: func(module string) []string {
			return map[string][]string{"torch.nn": {"Linear", "Module"}}[module]
		}}
	path := filepath.Join(base, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	met := map[int][]string{}
	var in *Interp
	watch := &Watch{}
	watch.Call = func(c *Call) bool {
		what := ""
		switch c.Path {
		case "probe.see":
			what = described(c.Args[0])
		case "probe.shape":
			what = shaped(c.Args[0].Shape)
		case "probe.here":
			what = surroundings(in)
		default:
			return false
		}
		line := 1 + strings.Count(string(text[:c.At.Pos()]), "\n")
		if !in.AtHome() {
			line = elsewhere
		}
		if !slices.Contains(met[line], what) {
			met[line] = append(met[line], what)
		}
		return true
	}
	watch.End = func(s pyast.Stmt) {
		line := 1 + strings.Count(string(text[:s.Pos()]), "\n")
		met[line] = append(met[line], "end")
	}
	in = New(world, watch, NewMemo(), path, pyast.Parse(text, pyast.Options{}))
	in.Run()
	return met
}

// elsewhere stands for the lines of other files.
const elsewhere = 0

// TestSeen: the files of testdata/values say in comments what is known of values, those of testdata/places where the
// interpreter is, and those of testdata/project what is known across files. Several ways to come there are parted by
// "; then".
func TestSeen(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.py")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".py"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			device := "mps"
			if first, ok := strings.CutPrefix(string(raw), "# device: "); ok {
				device, _, _ = strings.Cut(first, "\n")
			}
			met := seenIn(t, filepath.Dir(file), filepath.Base(file), device)
			for i, line := range strings.Split(string(raw), "\n") {
				code, want, expected := strings.Cut(line, "  # ")
				shows := strings.Contains(code, "see(") || strings.HasPrefix(code, "shape(") ||
					strings.Contains(code, "here()") || want == "end"
				if !shows && met[i+1] == nil || strings.Contains(code, "import") {
					continue
				}
				if got := strings.Join(met[i+1], "; then "); !expected || got != want {
					t.Errorf("%s:%d: %s\n got %s\nwant %s", file, i+1, strings.TrimSpace(code), got, want)
				}
			}
		})
	}
}
