package facts

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"assay/internal/atlas"
)

var update = flag.Bool("update", false, "write what is generated from the facts")

// unreadMessages is how many rows were added since the wheels were last read.
const unreadMessages = 1

// TestRows: each row names operators and releases that exist, and its message stands in the wheels of the releases for
// which the row says so (internal/atlas/tables/texts.txt, read from the wheels).
func TestRows(t *testing.T) {
	a := &atlas.Atlas{}
	known := map[string]bool{"*": true}
	for _, pkg := range atlas.Packages {
		for _, r := range a.Table(pkg).Rows {
			base, _, _ := strings.Cut(r.Name, ".")
			known[r.Name], known[base] = true, true
		}
	}
	var versions []string
	for _, r := range a.Releases("torch") {
		versions = append(versions, r.Version)
	}
	kinds := strings.Fields("dtype rank shape value mode layout device size macos grad stub environment")
	// Their messages are not PyTorch's, or reach it in pieces that are too short to look for.
	unseen := []string{"ndarray-over-2-32-bytes", "sparse-coo", "qr-batch", "autocast-dtype-3",
		"autocast-unsupported-2-0", "addmm-imaginary", "addbmm-imaginary", "int64-cumsum-2", "int64-cumprod",
		"arange-uint8-negative-float"}
	gap := []string{"rank-over-16"} // written out by instructions rather than stored in some releases
	texts := a.Table("texts")
	seen := map[string]string{}
	for _, r := range texts.Rows {
		seen[r.Name] = r.Cells
	}
	byText := map[string]string{} // rows that share a message were one when the wheels were read
	for _, f := range Load().All {
		if seen[f.Name] != "" {
			byText[f.Text] = seen[f.Name]
		}
	}
	unread := 0
	for _, f := range Load().All {
		for _, op := range f.Meets {
			if !known[op] && !strings.HasPrefix(op, "c10d::") {
				t.Errorf("%s: no operator is called %s", f.Name, op)
			}
		}
		for _, v := range []string{f.From, f.Until, f.Fixed} {
			if v != "" && !slices.Contains(versions, v) && atlas.CompareReleases(v, versions[0]) >= 0 {
				t.Errorf("%s: %s is no release", f.Name, v)
			}
		}
		if f.Kind != "" && !slices.Contains(kinds, f.Kind) {
			t.Errorf("%s: kind %q", f.Name, f.Kind)
		}
		if f.Outcome != Refused || f.Known != "derived" || slices.Contains(unseen, f.Name) ||
			slices.Contains(gap, f.Name) {
			continue
		}
		cells := cmp.Or(seen[f.Name], byText[f.Text])
		if cells == "" {
			unread++
			t.Logf("%s: its message was not looked for in the wheels", f.Name)
			continue
		}
		for i, v := range texts.Columns {
			if f.Holds(v) && cells[i] != 'T' {
				t.Errorf("%s: its message is not in the wheel of %s", f.Name, v)
			}
		}
	}
	if unread > unreadMessages {
		t.Errorf("the messages of %d rows were not looked for in the wheels: go run ./tools/atlas -all", unread)
	}
}

// TestHolds: a row speaks of the releases from its first to its last, and of none in which it is right.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		fact     Fact
		yes, nay string
	}{
		{Fact{From: "2.1.0", Until: "2.8.0"}, "2.1.0 2.2.2 2.8.0", "2.0.1 2.9.0"},
		{Fact{Fixed: "2.10.0"}, "2.0.0 2.9.1", "2.10.0 2.11.0"},
		{Fact{}, "2.0.0 2.15.0", ""},
	} {
		for _, v := range strings.Fields(c.yes) {
			if !c.fact.Holds(v) {
				t.Errorf("%+v does not hold in %s", c.fact, v)
			}
		}
		for _, v := range strings.Fields(c.nay) {
			if c.fact.Holds(v) {
				t.Errorf("%+v holds in %s", c.fact, v)
			}
		}
	}
}

// TestOn: a row that is bound to a macOS speaks of no other.
func TestOn(t *testing.T) {
	for bound, c := range map[string]struct{ yes, nay [2]int }{
		"< 14.0": {[2]int{13, 6}, [2]int{14, 0}}, ">= 26.0": {[2]int{26, 0}, [2]int{15, 9}},
		">= 14.4, < 15.0": {[2]int{14, 4}, [2]int{15, 0}}, "< 13": {[2]int{12, 9}, [2]int{13, 0}},
	} {
		f := Fact{MacOS: bound}
		if !f.On(c.yes) || f.On(c.nay) || !f.On([2]int{}) {
			t.Errorf("%s: %v %v %v", bound, f.On(c.yes), f.On(c.nay), f.On([2]int{}))
		}
	}
}

// TestAbout: a name without an overload stands for all of them, and for no longer name.
func TestAbout(t *testing.T) {
	f := Fact{Meets: []string{"aten::sum", "aten::add.Tensor"}}
	for op, want := range map[string]bool{"aten::sum": true, "aten::sum.dim_IntList": true, "aten::add.Tensor": true,
		"aten::add.Scalar": false, "aten::summary": false} {
		if f.About(op) != want {
			t.Errorf("%s: %v", op, !want)
		}
	}
}

// TestNotWellFormed: a row that lacks what belongs to it is not read, and the error names the file and the row.
func TestNotWellFormed(t *testing.T) {
	const good = "[[fact]]\nname = \"x\"\nmeets = [\"aten::sum\"]\nwhen = \"always\"\noutcome = \"slow\"\nsource = \"s\"\nknown = \"derived\"\n"
	read := func(text string) error {
		_, err := Parse(fstest.MapFS{"rows/f.toml": {Data: []byte(text)}})
		return err
	}
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[string]string{
		"outcome = \"slow\"|outcome = \"bad\"":     "outcome",
		"outcome = \"slow\"|outcome = \"wrong\"":   "what comes out",
		"outcome = \"slow\"|outcome = \"refused\"": "error belongs",
		"aten::sum|sum": "namespace",
		"known = \"derived\"|known = \"guessed\"":                                       "known",
		"known = \"derived\"|known = \"derived\"\nfrom = \"2.8\"":                       "from",
		"known = \"derived\"|known = \"derived\"\nmacos = \"old\"":                      "macos",
		"known = \"derived\"|known = \"derived\"\ncall = \"x\"":                         "belong together",
		"known = \"derived\"|known = \"derived\"\nsince = \"x\"":                        "missing in the target",
		"known = \"derived\"|known = \"derived\"\nif = [{ of = 0 }]":                    "tests",
		"known = \"derived\"|known = \"derived\"\nif = [{ is = 0 }]":                    "subjects",
		"known = \"derived\"|known = \"derived\"\nif = [{ of = \"first\", rank = 1 }]":  "of is first",
		"known = \"derived\"|known = \"derived\"\nif = [{ of = 0, is = 1 }]":            "subject",
		"known = \"derived\"|known = \"derived\"\nif = [{ of = 0, dtype = [\"int\"] }]": "int",
		"known = \"derived\"|known = \"derived\"\nholes = { page = \"x\" }":             "surfaces",
		"name = \"x\"|name = \"\"":                                                      "no name",
	} {
		from, to, _ := strings.Cut(change, "|")
		err := read(strings.Replace(good, from, to, 1))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rows/f.toml") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if err := read(good + good); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
}

// TestForTheDouble: the double's table is what is generated from the rows: `go test ./internal/facts -update` writes
// it.
func TestForTheDouble(t *testing.T) {
	want, err := Load().Double()
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "../../agent/assay_agent/double/facts.json", want)
}

func generated(t *testing.T, path string, want []byte) {
	t.Helper()
	path = filepath.FromSlash(path)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not what the facts say (%v): go test ./internal/facts -update", path, err)
	}
}

// TestPage: docs/knowledge.md is what is generated from the rows.
func TestPage(t *testing.T) { generated(t, "../../docs/knowledge.md", Load().Page()) }

// TestNamesLeadToRows: `ops` shows a row under each of the Python names that the row gives, in the newest release of
// which it speaks, and under the names that come down to its operators.
func TestNamesLeadToRows(t *testing.T) {
	a := &atlas.Atlas{}
	for _, f := range Load().All {
		release, ok := f.Newest(a)
		if !ok || f.Everywhere() {
			continue
		}
		ask := func(q Question) bool {
			q.Torch = release
			return slices.ContainsFunc(Load().Ask(a, q), func(s Said) bool { return s.Fact == f })
		}
		for _, name := range f.Python {
			if !ask(Question{Python: name}) {
				t.Errorf("%s is not told of %s in %s", f.Name, name, release)
			}
		}
		for _, op := range f.Meets {
			if !ask(Question{Operators: []atlas.Call{{Operator: op}}}) {
				t.Errorf("%s is not told of %s in %s", f.Name, op, release)
			}
		}
	}
}

// TestCertain: what was only reported is certain where a report shows it.
func TestCertain(t *testing.T) {
	for _, c := range []struct {
		fact     Fact
		yes, nay string
	}{
		{Fact{Known: "derived"}, "2.0.0 2.15.0", ""},
		{Fact{Known: "reported", From: "2.3.1"}, "2.3.1", "2.4.0 2.15.0"},
		{Fact{Known: "reported", From: "2.3.1", Open: true}, "2.3.1 2.15.0", ""},
		{Fact{Known: "reported", From: "2.3.1", Fixed: "2.9.0"}, "2.3.1 2.8.0", ""},
		{Fact{Known: "reported", Until: "2.8.0"}, "2.8.0", "2.0.0"},
	} {
		for _, v := range strings.Fields(c.yes) {
			if !c.fact.Certain(v) {
				t.Errorf("%+v is not certain in %s", c.fact, v)
			}
		}
		for _, v := range strings.Fields(c.nay) {
			if c.fact.Certain(v) {
				t.Errorf("%+v is certain in %s", c.fact, v)
			}
		}
	}
}

// TestPythonNameThatMayComeToIt: a row that its operator meets always is not met by each call of a Python name that
// comes to the operator for some arguments only.
func TestPythonNameThatMayComeToIt(t *testing.T) {
	for name, want := range map[string]bool{"torch.nn.Embedding": false, "torch.linalg.svd": true} {
		row := map[string]string{"torch.nn.Embedding": "embedding-renorm-always-falls-back",
			"torch.linalg.svd": "linalg-svd-always-falls-back"}[name]
		for _, s := range Load().Ask(&atlas.Atlas{}, Question{Torch: "2.8.0", Python: name}) {
			if s.Name == row && s.Sure() != want {
				t.Errorf("%s of %s: sure %v", row, name, !want)
			}
		}
	}
}
