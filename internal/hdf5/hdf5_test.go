package hdf5

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what h5py says of a file: testdata/record.py writes it.
type told struct {
	Datasets map[string]struct {
		DType  string
		Shape  []int64
		Bytes  int64
		SHA256 string
	}
	Groups []string
	Texts  map[string][]string
}

// TestReadsAsH5py holds names, types, shapes, elements and texts against what h5py read from the same file. The big
// set is made by testdata/record.py --big FOLDER, and compared where ASSAY_HDF5_SET names that folder.
func TestReadsAsH5py(t *testing.T) {
	folders := []string{"testdata"}
	if more := os.Getenv("ASSAY_HDF5_SET"); more != "" {
		folders = append(folders, more)
	}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.h5"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no files in %s: %v", folder, err)
		}
		for _, name := range names {
			t.Run(filepath.Base(name), func(t *testing.T) { readsAsH5py(t, name) })
		}
	}
}

func readsAsH5py(t *testing.T, name string) {
	data, err := os.ReadFile(strings.TrimSuffix(name, ".h5") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var want told
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, name)
	var groups []string
	texts := map[string][]string{}
	keep := func(o *Object) {
		list, err := o.Attributes()
		if err != nil {
			t.Error(err)
		}
		for _, a := range list {
			if a.Null || a.Type.Name != "string" && a.Type.Name != "strings" {
				continue
			}
			if texts[o.Path+"@"+a.Name], err = a.Strings(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, g := range f.Groups {
		groups = append(groups, g.Path)
		keep(g)
	}
	seen, total := 0, int64(0)
	for _, d := range f.Datasets {
		if d.Link != "" {
			continue
		}
		keep(&d.Object)
		w, ok := want.Datasets[d.Path]
		if !ok {
			t.Errorf("%s: h5py has no such dataset", d.Path)
			continue
		}
		seen++
		if d.Type.Name != w.DType || !slices.Equal(d.Shape, w.Shape) {
			t.Errorf("%s: %s %v, and h5py says %s %v", d.Path, d.Type.Name, d.Shape, w.DType, w.Shape)
		}
		if w.SHA256 == "" {
			if d.Wrong == "" {
				t.Errorf("%s: a %s should be refused", d.Path, w.DType)
			}
			continue
		}
		r, err := d.Open()
		if err != nil {
			t.Errorf("%s: %v", d.Path, err)
			continue
		}
		sum := sha256.New()
		n, err := io.Copy(sum, r)
		if err != nil || n != w.Bytes || n != d.Bytes || hex.EncodeToString(sum.Sum(nil)) != w.SHA256 {
			t.Errorf("%s (%s): %d bytes, said %d, h5py has %d; elements equal: %v; %v", d.Path, d.Layout(), n, d.Bytes,
				w.Bytes, hex.EncodeToString(sum.Sum(nil)) == w.SHA256, err)
		}
		total += n
	}
	if seen != len(want.Datasets) {
		t.Errorf("%d datasets, and h5py has %d", seen, len(want.Datasets))
	}
	slices.Sort(groups)
	if diff := cmp.Diff(want.Groups, groups); diff != "" {
		t.Errorf("groups (-h5py +here):\n%s", diff)
	}
	if diff := cmp.Diff(want.Texts, texts); diff != "" {
		t.Errorf("texts (-h5py +here):\n%s", diff)
	}
	t.Logf("%d datasets, %d groups, %d texts, %d bytes", seen, len(groups), len(texts), total)
}

func openFile(t testing.TB, name string) *File {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// TestOldLayouts: messages of versions 1 and 2, which HDF5 wrote before 1.6.3 and h5py's HDF5 no longer writes, by the
// fields of section IV.A.2.i. Files of that time, which PyTables carries, were compared by hand.
func TestOldLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		want    layout
	}{
		"compact": {"\x02\x01\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00" + "\x02\x00\x00\x00ab",
			layout{class: compact, data: []byte("ab")}},
		"contiguous": {"\x01\x01\x01\x00\x00\x00\x00\x00" + "\x00\x10\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00",
			layout{class: contiguous, address: 0x1000, size: undefined}},
		"chunked": {"\x01\x02\x02\x00\x00\x00\x00\x00" + "\x00\x10\x00\x00\x00\x00\x00\x00" +
			"\x05\x00\x00\x00\x04\x00\x00\x00",
			layout{class: chunked, address: 0x1000, chunk: []uint64{5, 4}}},
	} {
		var d Dataset
		if err := d.parseLayout(&cursor{b: []byte(c.message), o: 8, l: 8}); err != nil || d.Wrong != "" {
			t.Errorf("%s: %v %s", name, err, d.Wrong)
		}
		if diff := cmp.Diff(c.want, d.layout, cmp.AllowUnexported(layout{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
