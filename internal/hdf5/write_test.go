package hdf5

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func madeOf(path, kind string, shape []int64, data []byte) Source {
	return Source{Path: path, Type: kind, Shape: shape,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// everyType are datasets of each type that can be written, and of odd shapes.
func everyType() []Source {
	var all []Source
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
	var out bytes.Buffer
	texts := map[string]map[string]string{"": {"empty": ""}, "layers/flatten/vars": {"name": "flatten"},
		"layers/bool/vars": {"name": "Gr\u00f6\u00dfe"}}
	if err := Write(&out, all, texts); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
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
		raw, _ := want.Open()
		if data, _ := io.ReadAll(raw); !bytes.Equal(got, data) {
			t.Errorf("%s: % x, and % x was written", want.Path, got, data)
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
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]map[string]string{"": {"empty": ""}, "layers/flatten/vars": {"name": "Gr\u00f6\u00dfe"}}
	for i := range 500 {
		texts[fmt.Sprintf("layers/many_%d/vars", i)] = map[string]string{"name": fmt.Sprintf("layer %d", i), "b": "c"}
	}
	all := everyType()
	if err := errors.Join(Write(f, all, texts), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "testdata/record.py", "--tell", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	readsAsH5py(t, name)
}

// TestWriteRefuses: what would make a file that cannot be read, or another than was asked for.
func TestWriteRefuses(t *testing.T) {
	one := []byte{0, 0, 0, 0}
	for name, all := range map[string][]Source{
		"twice":               {madeOf("a", "float32", nil, one), madeOf("a", "float32", nil, one)},
		"dataset and a group": {madeOf("a", "float32", nil, one), madeOf("a/b", "float32", nil, one)},
		"no path":             {madeOf("a//b", "float32", nil, one)},
		"no type":             {madeOf("a", "float8", nil, one)},
		"has others":          {madeOf("a", "float32", []int64{2}, one)},
		"its source":          {madeOf("a", "float32", nil, append(one, 0))},
		"no array":            {madeOf("a", "float32", []int64{1 << 40, 1 << 40}, nil)},
	} {
		if err := Write(io.Discard, all, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Write(io.Discard, []Source{madeOf("a", "int8", nil, one[:1])},
		map[string]map[string]string{"a": {"b": "c"}}); err == nil {
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
