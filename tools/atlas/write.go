package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/file"
	clean "assay/internal/text"
)

const madeBy = "Made by `go run ./tools/atlas`; do not edit. releases.txt names the wheels; disagreements.txt where their two readings differ.\n"

const legend = `
N  native: a kernel of its own is registered for MPS
C  composed of other operators, which calls.txt names: it runs on MPS as far as they do
F  registered to run on the CPU, with copies, whether or not PYTORCH_ENABLE_MPS_FALLBACK is set
X  registered to raise an error
S  registered by way of a dispatch stub that has no function for MPS: raises
-  missing: raises NotImplementedError, or runs on the CPU under PYTORCH_ENABLE_MPS_FALLBACK=1
?  not known: it has one function for all devices, which is not read
.  the release has no such operator

`

// heads are the comments at the top of the tables, by file. The tables of torch share their columns.
var heads = map[string]string{
	"torch.txt": "PyTorch's operators on MPS, dense tensors: an overload a line, a release a column.\n" + legend +
		"A functional or in-place overload that is only generated around an out= overload is missing where that one is; the error then\n" +
		"names the out= overload.\n" + madeBy,
	"autocast.txt": "How torch.autocast('mps') treats an operator: L runs it in the lower precision, F in float32, W in the widest type of its inputs;\n" +
		". leaves it alone. Read from the registrations under the key AutocastMPS, which the first release has in 2.5.\n" + madeBy,
	"sparse.txt": "PyTorch's operators that have kernels for sparse tensors on MPS: O for COO layouts, R for compressed ones (CSR and the like),\n" +
		"B for both; . for none.\n" + madeBy,
	"texts.txt": "In which wheels of torch the message of a condition occurs: T where it stands among its libraries' constants or in its Python\n" +
		"files, . where it does not. A condition is a fact, which has the message (internal/facts/rows). Searched is a message's\n" +
		"longest sentence or clause that does not vary; of 8 letters or more.\n" + madeBy,
	"torchvision.txt": "torchvision's operators on MPS, by torchvision release.\n" + legend + madeBy,
	"torchaudio.txt":  "torchaudio's operators on MPS, by torchaudio release.\n" + legend + madeBy,
	"tensorflow-metal.txt": "TensorFlow operators with a GPU kernel in the tensorflow-metal plugin, by release of the plugin: N has one, . has none.\n" +
		"TensorFlow places an operator without one on the CPU, unless it registers it itself for any plugged-in device (Identity, Reshape\n" +
		"and the like). Ten Stateless* random operators are registered from macOS 13 on; element types: tensorflow-metal-types.txt.\n" + madeBy,
}

// tables holds what is in the folder of tables, while releases are added.
type tables struct {
	folder   string
	byFile   map[string]*atlas.Table
	releases []atlas.Release
	differ   map[string][]string // lines, by package and column
	made     map[string]generated
	types    map[string]string // of TensorFlow's kernels, by operator and column
}

func loadTables(folder string, releases []atlas.Release, anew bool) (*tables, error) {
	t := &tables{folder: folder, byFile: map[string]*atlas.Table{}, releases: releases, differ: map[string][]string{},
		made: map[string]generated{}, types: map[string]string{}}
	for file := range heads {
		t.byFile[file] = &atlas.Table{}
		text, err := os.ReadFile(filepath.Join(folder, file))
		if os.IsNotExist(err) || anew {
			continue
		}
		if err != nil {
			return nil, err
		}
		if t.byFile[file], err = atlas.ParseTable(text); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, file), err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "generated.txt"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" && !anew {
			t.made[f[0]] = generated{f[1], f[2]}
		}
	}
	text, err = os.ReadFile(filepath.Join(folder, "tensorflow-metal-types.txt"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] != "#" && !anew {
			t.types[f[0]+" "+f[1]] = strings.Join(f[2:], " ")
		}
	}
	text, err = os.ReadFile(filepath.Join(folder, "disagreements.txt"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] != "#" && !anew {
			t.differ[f[0]+" "+f[1]] = append(t.differ[f[0]+" "+f[1]], strings.TrimSpace(line))
		}
	}
	return t, nil
}

// add puts a release in. It shares the column of an earlier patch release of its series that agrees with it in all.
func (t *tables) add(d *derived) {
	r := d.release
	files := map[string]map[string]byte{r.Package + ".txt": d.cells}
	if r.Package == "torch" {
		files["autocast.txt"], files["sparse.txt"] = d.autocast, d.sparse
	}
	newest := !slices.ContainsFunc(t.releases, func(o atlas.Release) bool {
		return o.Package == r.Package && atlas.CompareReleases(o.Version, r.Version) > 0
	})
	for op, g := range d.made {
		if _, known := t.made[op]; newest || !known {
			t.made[op] = g
		}
	}
	main := t.byFile[r.Package+".txt"]
	series := atlas.Series(r.Version)
	r.Column = ""
	earlier := false
	for _, c := range slices.Backward(main.Columns) {
		if atlas.Series(c) != series {
			continue
		}
		earlier = earlier || t.holdsOther(r, c)
		same := true
		for file, cells := range files {
			same = same && maps.Equal(present(t.byFile[file].Column(c)), present(cells))
		}
		if same {
			r.Column = c
			break
		}
	}
	if r.Column == "" {
		if r.Column = series; earlier {
			r.Column = r.Version
		}
		for file, cells := range files {
			t.byFile[file].SetColumn(r.Column, cells, byte(atlas.Undefined))
		}
	}
	if len(d.texts) > 0 {
		t.byFile["texts.txt"].SetColumn(r.Version, d.texts, byte(atlas.Undefined)) // patch releases differ in these
	}
	t.releases = slices.DeleteFunc(t.releases, func(o atlas.Release) bool {
		return o.Package == r.Package &&
			o.Version == r.Version
	})
	t.releases = append(t.releases, r)
	var lines []string
	for _, x := range d.differ {
		lines = append(lines, fmt.Sprintf("%-11s %-7s %-42s %-12s %-12s %s", r.Package, r.Column, x.operator,
			word(x.list), word(x.library), x.why))
	}
	t.differ[r.Package+" "+r.Column] = lines
	for op, types := range d.types {
		t.types["tf::"+op+" "+r.Column] = types
	}
}

// holdsOther says whether a column holds a release other than r.
func (t *tables) holdsOther(r atlas.Release, column string) bool {
	return slices.ContainsFunc(t.releases, func(o atlas.Release) bool {
		return o.Package == r.Package && o.Column == column && o.Version != r.Version
	})
}

// present leaves out the cells that say that there is nothing.
func present(cells map[string]byte) map[string]byte {
	kept := map[string]byte{}
	for op, cell := range cells {
		if cell != byte(atlas.Undefined) {
			kept[op] = cell
		}
	}
	return kept
}

// word is a state in one word, for a file of columns.
func word(s atlas.State) string { return strings.ReplaceAll(s.String(), " ", "-") }

// write adds what was derived and replaces the files that changed.
func write(folder string, releases []atlas.Release, found []*derived, anew bool) error {
	t, err := loadTables(folder, releases, anew)
	if err != nil {
		return err
	}
	for _, d := range found {
		t.add(d)
	}
	texts := map[string]*bytes.Buffer{"releases.txt": t.releasesText(), "disagreements.txt": t.disagreementsText(),
		"generated.txt":              t.generatedText(),
		"tensorflow-metal-types.txt": t.typesText()}
	for file, table := range t.byFile {
		if len(table.Columns) == 0 {
			continue
		}
		table.Head = heads[file]
		if file != "texts.txt" {
			table.Head += t.covered(strings.TrimSuffix(file, ".txt"))
		}
		texts[file] = &bytes.Buffer{}
		if _, err := table.WriteTo(texts[file]); err != nil {
			return err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if err := replace(filepath.Join(folder, file), texts[file].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// covered says which releases the columns stand for.
func (t *tables) covered(pkg string) string {
	if pkg == "autocast" || pkg == "sparse" {
		pkg = "torch"
	}
	text := ""
	for _, c := range t.byFile[pkg+".txt"].Columns {
		var versions []string
		for _, r := range t.releases {
			if r.Package == pkg && r.Column == c {
				versions = append(versions, r.Version)
			}
		}
		slices.SortFunc(versions, atlas.CompareReleases)
		if text += strings.Join(versions,
			" = "); c != t.byFile[pkg+".txt"].Columns[len(t.byFile[pkg+".txt"].Columns)-1] {
			text += ", "
		}
	}
	return clean.Wrapped(text+".", "Releases read: ", "", 119)
}

func (t *tables) releasesText() *bytes.Buffer {
	slices.SortFunc(t.releases, func(a, b atlas.Release) int {
		if a.Package != b.Package {
			return strings.Compare(a.Package, b.Package)
		}
		return atlas.CompareReleases(a.Version, b.Version)
	})
	out := bytes.NewBufferString("# The wheels that the tables were derived from, and the column of its package's table that holds each.\n" +
		"# A release shares a column with the earlier patch releases that agree with it in every operator.\n" +
		"# torch: the releases of torch that it asks for. commit: what version.py in it says it was built from. -: it does not say.\n")
	const layout = "%-18s %-8s %-7s %-9s %-41s %-65s %s\n"
	fmt.Fprintf(out, layout, "# package", "release", "column", "torch", "commit", "sha256", "wheel")
	for _, r := range t.releases {
		fmt.Fprintf(out, layout, r.Package, r.Version, r.Column, cmp.Or(r.Torch, "-"), cmp.Or(r.Commit, "-"), r.SHA256,
			r.Wheel)
	}
	return out
}

func (t *tables) disagreementsText() *bytes.Buffer {
	out := bytes.NewBufferString("# Where the two readings of a release differ. The library is what runs, and was believed in every case.\n" +
		"# list: for torch native_functions.yaml in the wheel; for the others what their Metal sources or names say.\n")
	fmt.Fprintf(out, "# %-9s %-7s %-42s %-12s %-12s %s\n", "package", "column", "operator", "list", "library", "why")
	keys := slices.SortedFunc(maps.Keys(t.differ), func(a, b string) int {
		pa, ca, _ := strings.Cut(a, " ")
		pb, cb, _ := strings.Cut(b, " ")
		if pa != pb {
			return strings.Compare(pa, pb)
		}
		return atlas.CompareReleases(ca, cb)
	})
	for _, k := range keys {
		for _, line := range t.differ[k] {
			out.WriteString(line + "\n")
		}
	}
	return out
}

func (t *tables) generatedText() *bytes.Buffer {
	out := bytes.NewBufferString("# Operators of torch whose kernels its code generator makes around another operator, in the newest release that has them.\n" +
		"# structured: allocates the result and calls the out= overload, whose name an error then bears.\n" +
		"# autogen: calls the other and copies.\n# " + madeBy)
	width := 0
	for op := range t.made {
		width = max(width, len(op))
	}
	for _, op := range slices.Sorted(maps.Keys(t.made)) {
		fmt.Fprintf(out, "%-*s  %-10s  %s\n", width, op, t.made[op].how, t.made[op].around)
	}
	return out
}

func (t *tables) typesText() *bytes.Buffer {
	out := bytes.NewBufferString("# For which element types tensorflow-metal has a kernel of an operator: operator, column, types. Where an operator has several\n" +
		"# type attributes it is T, or else dtype, Tparams, SrcT or Tidx. An operator without type attributes has no line.\n# " + madeBy)
	keys := slices.SortedFunc(maps.Keys(t.types), func(a, b string) int {
		oa, ca, _ := strings.Cut(a, " ")
		ob, cb, _ := strings.Cut(b, " ")
		return cmp.Or(strings.Compare(oa, ob), atlas.CompareReleases(ca, cb))
	})
	for _, k := range keys {
		op, column, _ := strings.Cut(k, " ")
		fmt.Fprintf(out, "%-48s %-5s %s\n", op, column, t.types[k])
	}
	return out
}

// replace writes a file whole, where it is not the same already.
func replace(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := file.Write(path, 0o644, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
