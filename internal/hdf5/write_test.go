package hdf5

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// made is an array with its elements.
type made struct {
	Array
	data []byte
}

func madeOf(path, kind string, shape []int64, data []byte) made {
	return made{Array{Path: path, Type: kind, Shape: shape}, data}
}

// fileOf writes a file.
func fileOf(t testing.TB, all []made, texts map[string]map[string]string) []byte {
	t.Helper()
	var arrays []Array
	var data []byte
	for _, m := range all {
		arrays = append(arrays, m.Array)
		data = append(data, m.data...)
	}
	head, err := Head(arrays, texts)
	if err != nil {
		t.Fatal(err)
	}
	return append(head, data...)
}

// everyType are datasets of each type that can be written, and of odd shapes.
func everyType() []made {
	var all []made
	for kind, each := range sizesOfTypes {
		data := make([]byte, 6*each)
		for i := range data {
			data[i] = byte(i%7) * 3
		}
		if kind == "bool" {
			data = []byte{0, 1, 1, 0, 1, 0}
		}
		all = append(all, madeOf("layers/"+kind+"/vars/0", kind, []int64{2, 3}, data))
	}
	all = append(all, madeOf("vars/0", "float32", nil, []byte{0, 0, 128, 63}),
		madeOf("layers/none/vars/0", "float32", []int64{0, 4}, nil))
	for i := range 100 {
		all = append(all, madeOf(fmt.Sprintf("layers/many_%d/vars/0", i), "uint8", []int64{1}, []byte{byte(i)}))
	}
	return all
}

// TestWriteReadsBack: what is written is read here as it was; h5py and Keras read it in internal/weights.
func TestWriteReadsBack(t *testing.T) {
	all := everyType()
	texts := map[string]map[string]string{"": {"empty": ""}, "layers/flatten/vars": {"name": "flatten"},
		"layers/bool/vars": {"name": "Gr\u00f6\u00dfe"}}
	b := fileOf(t, all, texts)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*Dataset{}
	for _, d := range f.Datasets {
		byPath[d.Path] = d
	}
	if len(f.Datasets) != len(all) {
		t.Errorf("%d datasets of %d", len(f.Datasets), len(all))
	}
	for _, want := range all {
		d := byPath[want.Path]
		if d == nil {
			t.Errorf("%s is not there", want.Path)
			continue
		}
		r, err := d.Open()
		if want.Type == "bfloat16" {
			if text, _, err := d.Text("dtype"); text != "bfloat16" || err != nil {
				t.Errorf("%s: dtype %q, %v", want.Path, text, err)
			}
			d.Type.Name = "bfloat16"
		}
		if err != nil || d.Type.Name != want.Type || fmt.Sprint(d.Shape) != fmt.Sprint(want.Shape) {
			t.Errorf("%s: %s %v, %v", want.Path, d.Type.Name, d.Shape, err)
			continue
		}
		got, _ := io.ReadAll(r)
		if !bytes.Equal(got, want.data) {
			t.Errorf("%s: % x, and % x was written", want.Path, got, want.data)
		}
	}
	for _, g := range f.Groups {
		for name, want := range texts[g.Path] {
			if got, ok, err := g.Text(name); got != want || !ok || err != nil {
				t.Errorf("%q: %s is %q, %v", g.Path, name, got, err)
			}
		}
		delete(texts, g.Path)
	}
	if len(texts) > 0 {
		t.Errorf("groups that are not there: %v", texts)
	}
}

// TestWriteForH5py: h5py finds in it what was written, and what is read here. internal/weights has Keras load a file.
func TestWriteForH5py(t *testing.T) {
	python := os.Getenv("ASSAY_KERAS_PYTHON")
	if python == "" {
		t.Skip("ASSAY_KERAS_PYTHON names no interpreter that has h5py")
	}
	name := filepath.Join(t.TempDir(), "written.h5")
	texts := map[string]map[string]string{"": {"empty": ""}, "layers/flatten/vars": {"name": "Gr\u00f6\u00dfe"}}
	for i := range 500 {
		texts[fmt.Sprintf("layers/many_%d/vars", i)] = map[string]string{"name": fmt.Sprintf("layer %d", i), "b": "c"}
	}
	if err := os.WriteFile(name, fileOf(t, everyType(), texts), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "testdata/record.py", "--tell", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	readsAsH5py(t, name)
}

// TestWriteRefuses: what would make a file that cannot be read, or another than was asked for.
func TestWriteRefuses(t *testing.T) {
	scalar := func(path string) Array { return Array{Path: path, Type: "float32"} }
	for want, all := range map[string][]Array{
		"twice":               {scalar("a"), scalar("a")},
		"dataset and a group": {scalar("a"), scalar("a/b")},
		"no path":             {scalar("a//b")},
		"no type":             {{Path: "a", Type: "float8"}},
		"no array":            {{Path: "a", Type: "int8", Shape: []int64{1 << 40, 1 << 40}}},
		"larger than a file": {{Path: "a", Type: "int8", Shape: []int64{1 << 62}},
			{Path: "b", Type: "int8", Shape: []int64{1 << 62}}},
		"64 dimensions": {{Path: "a", Type: "int8", Shape: make([]int64, 64)}},
	} {
		if _, err := Head(all, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	texts := map[string]map[string]string{"a": {"b": "c"}}
	if _, err := Head([]Array{scalar("a")}, texts); err == nil {
		t.Error("texts of a dataset are written as a group's")
	}
}

// deflated packs so many zeros.
func deflated(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	if _, err := z.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
