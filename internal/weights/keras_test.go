package weights

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/fault"
)

// kerasFiles are files that Keras wrote, with what h5py reads from them: testdata/keras/record.py writes both.
func kerasFiles(t *testing.T) map[string]map[string]struct {
	Shape  []int64
	SHA256 string
} {
	t.Helper()
	data, err := os.ReadFile("testdata/keras/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	files := map[string]map[string]struct {
		Shape  []int64
		SHA256 string
	}{}
	for name, raw := range all {
		if strings.HasPrefix(name, "versions ") {
			continue
		}
		one := files[name]
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		files[name] = one
	}
	return files
}

// TestKerasAsH5py: names, shapes and elements are those that h5py finds, in whole models and weights of Keras 2 and 3.
func TestKerasAsH5py(t *testing.T) {
	for name, want := range kerasFiles(t) {
		f := openKerasFile(t, name)
		if len(f.Tensors) != len(want) || f.Format != "keras" {
			t.Errorf("%s: %d tensors of a file of %s, and h5py has %d", name, len(f.Tensors), f.Format, len(want))
		}
		for _, tensor := range f.Tensors {
			w, ok := want[tensor.Name]
			r, err := tensor.Open()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			sum := sha256.New()
			n, err := io.Copy(sum, r)
			if !ok || err != nil || n != tensor.Bytes || !slices.Equal(tensor.Shape, w.Shape) ||
				hex.EncodeToString(sum.Sum(nil)) != w.SHA256 {
				t.Errorf("%s: %s of shape %v and %d bytes, %v; h5py has shape %v, or other elements", name, tensor.Name,
					tensor.Shape, n, err, w.Shape)
			}
		}
	}
}

func openKerasFile(t *testing.T, name string) *File {
	t.Helper()
	f, err := Open(filepath.Join("testdata/keras", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestKerasTellsLayers: the layer's own name where the file has it, in the order in which the model has its layers.
func TestKerasTellsLayers(t *testing.T) {
	order := []string{"c1", "bn", "c0", "head"}
	for _, c := range []struct {
		file, first, group string
		layers             []string
	}{
		// Keras 3 orders groups by name; c0, made second, is the group conv2d_1.
		{"keras3.weights.h5", "layers/batch_normalization/vars/0", "layers/batch_normalization",
			[]string{"bn", "c1", "c0", "head"}},
		{"keras3.keras", "layers/batch_normalization/vars/0", "layers/batch_normalization",
			[]string{"bn", "c1", "c0", "head"}},
		{"keras3.h5", "model_weights/c1/small/c1/kernel", "model_weights/c1", order},
		{"keras2.h5", "model_weights/c1/c1/kernel:0", "model_weights/c1", order},
		{"keras2_weights.h5", "c1/c1/kernel:0", "c1", order},
		{"keras2.weights.h5", "layers/batch_normalization/vars/0", "", []string{""}},
	} {
		f := openKerasFile(t, c.file)
		var layers []string
		for _, tensor := range f.Tensors {
			if strings.HasPrefix(tensor.Name, "optimizer") {
				continue
			}
			_, layer, _ := f.Layer(tensor.Name)
			if len(layers) == 0 || layers[len(layers)-1] != layer {
				layers = append(layers, layer)
			}
		}
		group, _, _ := f.Layer(f.Tensors[0].Name)
		if !slices.Equal(layers, c.layers) || f.Tensors[0].Name != c.first || group != c.group {
			t.Errorf("%s: layers %q, the first is %s of the group %q", c.file, layers, f.Tensors[0].Name, group)
		}
	}
}

// TestKerasTellsVersions: which Keras wrote a file, where the file says so.
func TestKerasTellsVersions(t *testing.T) {
	for file, want := range map[string]string{"keras3.keras": "3.", "keras3.h5": "3.", "keras2.h5": "2.",
		"keras2_weights.h5": "2.", "keras3.weights.h5": ""} {
		f := openKerasFile(t, file)
		if got := f.Meta["keras"]; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: Keras %q", file, got)
		}
		whole := file == "keras3.keras" || file == "keras3.h5" || file == "keras2.h5"
		if whole != strings.Contains(f.Meta["config"], `"Conv2D"`) {
			t.Errorf("%s: config %q", file, f.Meta["config"])
		}
	}
}

// TestKerasBFloat16: Keras writes it as two opaque bytes, and says so in an attribute.
func TestKerasBFloat16(t *testing.T) {
	for _, tensor := range openKerasFile(t, "bfloat16.weights.h5").Tensors {
		if tensor.DType != BF16 {
			t.Errorf("%s: %s %s", tensor.Name, tensor.DType, tensor.Note)
		}
	}
}

// TestKerasPackedLeavesNothing: weights that a zip has packed are read from a temporary file that nobody sees, not even
// while it is open.
func TestKerasPackedLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	f, err := Open("testdata/keras/packed.keras")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, _ := os.ReadDir(folder); len(left) != 0 || len(f.Tensors) == 0 {
		t.Errorf("%d tensors; left behind: %v", len(f.Tensors), left)
	}
}

// TestKerasZipRefuses: zips that are no model, and one that would unpack to far more than it has.
func TestKerasZipRefuses(t *testing.T) {
	for want, make := range map[string]func(*zip.Writer){
		"has no model.weights.h5": func(z *zip.Writer) { put(t, z, "config.json", "{}") },
		"in several files": func(z *zip.Writer) {
			put(t, z, "model.weights.json", "{}")
		},
		"twice": func(z *zip.Writer) {
			put(t, z, "model.weights.h5", "x")
			put(t, z, "model.weights.h5", "x")
		},
		"no signature": func(z *zip.Writer) { put(t, z, "model.weights.h5", strings.Repeat("x", 100)) },
		"unpack to": func(z *zip.Writer) {
			w, err := z.CreateRaw(&zip.FileHeader{Name: "model.weights.h5", Method: zip.Deflate,
				CompressedSize64: 1, UncompressedSize64: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			w.Write([]byte{0})
		},
		"metadata.json": func(z *zip.Writer) { put(t, z, "metadata.json", "{") },
	} {
		path := filepath.Join(t.TempDir(), "x.keras")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z := zip.NewWriter(f)
		make(z)
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error()+fault.HintOf(err), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func put(t *testing.T, z *zip.Writer, name, text string) {
	t.Helper()
	w, err := z.Create(name)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHDF5ListsNumbers: of any .h5 what is numbers is a tensor, with what is unusual; what is none is a note.
func TestHDF5ListsNumbers(t *testing.T) {
	f, err := Open("../hdf5/testdata/types_latest.h5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Format != "hdf5" || len(f.Tensors) != 35 {
		t.Errorf("%d tensors of %s", len(f.Tensors), f.Format)
	}
	for _, tensor := range f.Tensors {
		want := ""
		if strings.HasPrefix(tensor.Name, "big/") && tensor.DType.Size() > 1 {
			want = "big-endian"
		}
		switch tensor.Name {
		case "null":
			want = "it has no elements"
		case "enum":
			want = "an enumeration"
		}
		if tensor.Note != want || !strings.HasPrefix(tensor.Where, "byte ") && tensor.Bytes > 0 {
			t.Errorf("%s: %q, %q", tensor.Name, tensor.Note, tensor.Where)
		}
	}
	notes := strings.Join(f.Notes, "\n")
	for _, want := range []string{`"pair" is left out, it has no numbers: compound datatype of 12 bytes at 0x`,
		`"bytes" is left out, it has no numbers: opaque datatype of 3 bytes`, `"string" is left`, `"strings" is left`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not told:\n%s", want, notes)
		}
	}
}

// TestWriteKeras: what is read from Keras's file and written again is, for this reader, the same.
func TestWriteKeras(t *testing.T) {
	rewriteKeras(t)
}

// rewriteKeras writes what Keras's file has, and gives the new one with its layers.
func rewriteKeras(t *testing.T) (string, map[string]string) {
	t.Helper()
	before := openKerasFile(t, "keras3.weights.h5")
	layers := map[string]string{}
	for key, name := range before.Meta {
		if group, ok := strings.CutPrefix(key, layerPrefix); ok {
			layers[group] = name
		}
	}
	path := filepath.Join(t.TempDir(), "again.weights.h5")
	if err := writeAll(path, before.Meta, before.Tensors); err != nil {
		t.Fatal(err)
	}
	after, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if len(after.Tensors) != len(before.Tensors) || len(layers) == 0 {
		t.Fatalf("%d tensors and %d layers", len(after.Tensors), len(layers))
	}
	for i, a := range after.Tensors {
		b := before.Tensors[i]
		if a.Name != b.Name || a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) || sumOf(t, a) != sumOf(t, b) {
			t.Errorf("%s %s %v became %s %s %v, or its elements are others", b.Name, b.DType, b.Shape, a.Name, a.DType,
				a.Shape)
		}
	}
	for group, name := range layers {
		if got := after.Meta[layerPrefix+group]; got != name {
			t.Errorf("%s: %q became %q", group, name, got)
		}
	}
	return path, layers
}

func sumOf(t *testing.T, tensor Tensor) string {
	t.Helper()
	r, err := tensor.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// TestKerasLoads: h5py finds in what is written here what Keras wrote, and Keras loads it.
func TestKerasLoads(t *testing.T) {
	python := os.Getenv("ASSAY_KERAS_PYTHON")
	if python == "" {
		t.Skip("ASSAY_KERAS_PYTHON names no interpreter that has Keras 3, a backend for it, and h5py")
	}
	path, layers := rewriteKeras(t)
	out, err := exec.Command(python, "testdata/keras/load.py", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Weights, Names map[string]string
		Listed         map[string]struct{ SHA256 string }
		Keras          string
	}
	if err := json.Unmarshal(out, &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := kerasFiles(t)["keras3.weights.h5"]
	loaded := map[string]bool{}
	for _, sum := range told.Weights {
		loaded[sum] = true
	}
	for name, w := range want {
		if told.Listed[name].SHA256 != w.SHA256 {
			t.Errorf("%s: h5py reads other elements than Keras wrote", name)
		}
		if strings.HasPrefix(name, "layers/") && !loaded[w.SHA256] {
			t.Errorf("%s: no weight of the model has its elements once Keras %s has loaded it", name, told.Keras)
		}
	}
	for group, name := range layers {
		if got := told.Names[strings.TrimPrefix(group+"/vars", "/")]; got != name {
			t.Errorf("%s: h5py reads the name %q, and %q was written", group, got, name)
		}
	}
}

// TestWriteKerasRefuses: names and types that Keras would not find.
func TestWriteKerasRefuses(t *testing.T) {
	one := openKerasFile(t, "keras3.weights.h5").Tensors[:1]
	for name, change := range map[string]func(*Tensor){
		"Keras 3 looks for": func(t *Tensor) { t.Name = "conv/kernel" },
		"none of them":      func(t *Tensor) { t.Name = "layers/conv/vars/1" },
		"files hold no":     func(t *Tensor) { t.DType = F8E4M3 },
		"bytes came":        func(t *Tensor) { t.Shape = []int64{1} },
	} {
		path := filepath.Join(t.TempDir(), "x.weights.h5")
		tensors := slices.Clone(one)
		change(&tensors[0])
		if err := writeAll(path, nil, tensors); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

// TestKerasShards: a model that Keras wrote into several files is the one that it wrote into one.
func TestKerasShards(t *testing.T) {
	want := map[string]string{}
	for _, tensor := range openKerasFile(t, "keras3.weights.h5").Tensors {
		if !strings.HasPrefix(tensor.Name, "optimizer/") {
			want[tensor.Name] = sumOf(t, tensor)
		}
	}
	f := openKerasFile(t, "sharded.weights.json")
	shards := map[string]bool{}
	for _, tensor := range f.Tensors {
		shards[tensor.Shard] = true
		if want[tensor.Name] != sumOf(t, tensor) {
			t.Errorf("%s has other elements than in one file", tensor.Name)
		}
		delete(want, tensor.Name)
	}
	if len(want) > 0 || len(shards) < 2 || f.Format != "keras" {
		t.Errorf("missing %v, of %v, %s", want, shards, f.Format)
	}
	if _, layer, _ := f.Layer("layers/conv2d/vars/0"); layer != "c1" {
		t.Errorf("the layer of conv2d is %q", layer)
	}

	// what is missing, or lies elsewhere, is named
	index, err := os.ReadFile("testdata/keras/sharded.weights.json")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ old, new, want string }{
		"a file that is not there":  {"sharded_00001", "other_00001", "other_00001.weights.h5, which it names, is not there"},
		"a file of another folder":  {"sharded_00001", "../sharded_00001", "no .weights.h5 of this folder"},
		"an index as a file":        {"sharded_00001.weights.h5", "sharded.weights.json", "no .weights.h5 of this folder"},
		"a group of another model":  {"/layers/dense/vars", "/layers/other/vars", "has none of layers/other/vars"},
		"a number for a file":       {`"weight_map": {`, `"weight_map": {"/x/vars": 1,`, "1 is no name of a file"},
		"a group in no file at all": {`"weight_map": {`, `"weight_map": {"/x/vars": [],`, "no list of them"},
		"no map":                    {"weight_map", "weights", "it has no weight_map"},
	} {
		folder := t.TempDir()
		for shard := range shards {
			data, err := os.ReadFile(filepath.Join("testdata/keras", shard))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, shard), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text := strings.ReplaceAll(string(index), c.old, c.new)
		if err := os.WriteFile(filepath.Join(folder, "x.weights.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(folder) // the folder stands for the index in it
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", what, err, c.want)
		}
	}
}
