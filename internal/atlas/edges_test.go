package atlas

import (
	"slices"
	"strings"
	"testing"
)

// TestReleasesRead: a line of releases.txt has all its fields, and a dash stands for what is not said.
func TestReleasesRead(t *testing.T) {
	list, err := ParseReleases([]byte("# head\n\ntorch 2.8.0 2.8 - - abc w.whl\n"))
	if err != nil || len(list) != 1 || list[0] != (Release{Package: "torch", Version: "2.8.0", Column: "2.8",
		SHA256: "abc",
		Wheel:  "w.whl"}) {
		t.Errorf("%+v %v", list, err)
	}
	for _, text := range []string{"torch 2.8.0 2.8 - - abc\n", "torch 2.8.0 2.8 - - abc w x\n"} {
		if _, err := ParseReleases([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	for _, c := range []struct {
		asks, torch string
		fits        bool
		close       int
	}{{"==2.8.0", "2.8.0", true, 2}, {"==2.8.0", "2.8.1", false, 2}, {">=2.8.0", "2.8.0", true, 1}, {">=2.8.0",
		"2.10.0", true, 1},
		{">=2.8.0", "2.7.1", false, 1}, {"", "2.0.0", true, 0}} {
		r := Release{Torch: c.asks}
		if r.fits(c.torch) != c.fits || r.closeness() != c.close {
			t.Errorf("%+v", c)
		}
	}
	e := &UnknownRelease{Package: "torch", Version: "2.9.5", Known: []Release{{Version: "2.8.0"}, {Version: "2.9.1"},
		{Version: "2.10.0"}}}
	for version, want := range map[string]string{"2.9.5": "2.9.1", "2.9.1": "2.9.1", "1.0": "2.8.0", "9.0": "2.10.0"} {
		if e.Version = version; e.Nearest() != want {
			t.Errorf("%s: %s", version, e.Nearest())
		}
	}
	a := &Atlas{}
	for _, pkg := range Packages {
		for _, r := range a.Releases("torch") {
			if found, ok := a.Beside(pkg, r.Version); ok && (found.Package != pkg || pkg == "torch" &&
				found.Version != r.Version) {
				t.Errorf("%s beside torch %s: %+v", pkg, r.Version, found)
			}
		}
	}
	if _, ok := a.Beside("torch", "1.0.0"); ok {
		t.Error("a torch that was not read goes with itself")
	}
}

// TestTableEdits: a table keeps what it is told, in the order of releases, and refuses what does not fit.
func TestTableEdits(t *testing.T) {
	const text = "# head\n\noperator 2.8 2.10\na N -\n\nb C C\n"
	table, err := ParseTable([]byte(text))
	if err != nil || table.Head != "head\n" || len(table.Rows) != 2 {
		t.Fatalf("%+v %v", table, err)
	}
	for _, bad := range []string{"operator 2.8\na N N\n", "operator 2.8 2.9\na NN\n", "operator 2.8\na NN\n",
		"operator 2.8\nb N\na N\n"} {
		if _, err := ParseTable([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if table.Column("2.9") != nil {
		t.Error("a release that is not there has a column")
	}
	table.SetColumn("2.9", map[string]byte{"c": 'F', "b": 'N'}, '.')
	var rows []string
	for _, r := range table.Rows {
		rows = append(rows, r.Name+r.Cells)
	}
	if !slices.Equal(table.Columns, []string{"2.8", "2.9", "2.10"}) || !slices.Equal(rows, []string{"aN.-", "bCNC",
		"c.F."}) {
		t.Errorf("%v %v", table.Columns, rows)
	}
	table.SetColumn("2.9", map[string]byte{"b": 'C'}, '.')
	if len(table.Columns) != 3 || len(table.Rows) != 2 || table.Column("2.9")["b"] != 'C' {
		t.Errorf("in place: %+v", table)
	}
	var out strings.Builder
	if _, err := table.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	again, err := ParseTable([]byte(out.String()))
	if err != nil || !slices.Equal(again.Rows, table.Rows) || again.Head != table.Head {
		t.Errorf("%v\n%s", err, out.String())
	}
	op := (&Atlas{}).operator("p", table, table.Rows[1])
	if len(op.Spans) != 1 || op.Spans[0].From != "2.8" || op.Spans[0].To != "2.10" || op.NativeFrom() != "" ||
		op.At("2.8") != Composed || op.At("9") != Undefined {
		t.Errorf("%+v", op)
	}
	for s := range strings.SplitSeq("N C F X S - . ?", " ") {
		if State(s[0]).String() == "" || strings.HasPrefix(State(s[0]).String(), "state ") {
			t.Errorf("no word for %s", s)
		}
	}
}

// TestAnswers: what a name finds, what is near it, and what changed; held against the tables themselves.
func TestAnswers(t *testing.T) {
	a := &Atlas{}
	torch := a.Table("torch")
	last := torch.Columns[len(torch.Columns)-1]
	before := torch.Columns[len(torch.Columns)-2]
	changes := a.Diff("torch", before, last)
	i, n := len(torch.Columns)-1, 0
	for _, r := range torch.Rows {
		if r.Cells[i] != r.Cells[i-1] {
			n++
		}
	}
	if len(changes) != n || n == 0 || a.Diff("torch", "1.0", last) != nil || a.Diff("torch", last, "1.0") != nil {
		t.Errorf("%d changes, the table has %d", len(changes), n)
	}
	if near := a.Near("aten::ad", 3); len(near) != 3 {
		t.Errorf("%q", near)
	}
	if near := a.Near("softmaxx", 1); len(near) != 1 || near[0] != "softmax" {
		t.Errorf("%q", near)
	}
	if got := nearest("abcdef", []string{"abcdef", "abcdxx", "abcxxx", "Abcdeg"}, 9); !slices.Equal(got,
		[]string{"abcdef", "Abcdeg", "abcdxx"}) {
		t.Errorf("%q", got)
	}
	if got := nearest("ab", []string{"cd", "cde"}, 9); !slices.Equal(got, []string{"cd"}) {
		t.Errorf("%q", got)
	}
	if near := a.NearAPI("torch.nn.Conv3D", 2); len(near) != 2 || near[1] != "torch.nn.Conv3d" {
		t.Errorf("%q", near)
	}
	if near := a.NearAPI("Conv3d", 1); len(near) != 1 || near[0] != "torch.conv3d" {
		t.Errorf("%q", near)
	}
	for _, name := range []string{"torch.nn.Conv3d", "nn.Conv3d", "Conv3d"} {
		if api, ok := a.API(name); !ok || api.Name != "torch.nn.Conv3d" {
			t.Errorf("%s: %+v", name, api)
		}
	}
	if api, ok := a.API("F.interpolate"); !ok || api.Name != "torch.nn.functional.interpolate" {
		t.Errorf("%+v", api)
	}
	if _, ok := a.API("torch.nothing"); ok {
		t.Error("a name that PyTorch does not have is found")
	}
	if a.Since("aten::nothing_at_all") != "" {
		t.Error("something is said of an operator that nobody knows")
	}
	for pattern, want := range map[string]string{"add.Tensor": "aten::add.Tensor",
		"aten::add.Tensor": "aten::add.Tensor",
		"[":                "", "no_such_operator": ""} {
		found := a.Find(pattern)
		if (len(found) == 1) != (want != "") || want != "" && found[0].Name != want {
			t.Errorf("%s: %d found", pattern, len(found))
		}
	}
	for _, op := range a.Find("aten::add") {
		if !strings.HasPrefix(op.Name, "aten::add.") && op.Name != "aten::add" {
			t.Errorf("aten::add finds %s", op.Name)
		}
	}
	if a.Types("aten::nothing_at_all", last) != nil || a.Types("aten::linalg_eig", last) != nil {
		t.Error("what has no kernel has types")
	}
	for operator, want := range map[string]string{"aten::_linalg_svd": "float32 complex64",
		"aten::add_.Tensor":        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 complex64",
		"aten::__ilshift__.Tensor": "uint8 int8 int16 int32 int64"} {
		if got := strings.Join(a.Types(operator, last), " "); got != want {
			t.Errorf("%s: %s", operator, got)
		}
	}
	if got := a.Types("aten::add.out", "2.2"); slices.Contains(got, "complex64") || slices.Contains(got, "bfloat16") {
		t.Errorf("add in 2.2: %v", got)
	}
	// Whatever comes down to an operator in the release calls it, directly or through composed ones.
	c := a.Callers(last)
	forward, _ := c.Of("aten::addmm")
	if !slices.IsSorted(forward) || !slices.Contains(forward, "torch.addmm") || slices.Contains(forward, "torch.sgn") {
		t.Errorf("%q", forward)
	}
}
