package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/internal/fault"
)

// recorded is what the libraries that own the formats said of the files that they wrote: testdata/make.py.
type recordedTensor struct {
	Name   string
	DType  DType
	Shape  []int64
	Bytes  int64
	SHA256 string
	Note   string
	Stats  *struct {
		Min, Max        *json.Number
		Mean, Std       *float64
		Zeros, NaN, Inf int64
	}
}

func readRecorded(t *testing.T, folder string) map[string][]recordedTensor {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Files map[string][]recordedTensor
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.Files
}

func openFor(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatalf("%v (%s)", err, fault.HintOf(err))
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestRecordedFiles: names, types, shapes, checksums and statistics are those that the libraries tell.
func TestRecordedFiles(t *testing.T) {
	holdToRecord(t, "testdata")
}

func holdToRecord(t *testing.T, folder string) {
	for name, want := range readRecorded(t, folder) {
		t.Run(name, func(t *testing.T) {
			f := openFor(t, filepath.Join(folder, name))
			format := strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(name, indexName)), ".")
			if f.Format != format {
				t.Errorf("format %q, want %q", f.Format, format)
			}
			if len(f.Tensors) != len(want) {
				t.Errorf("%d tensors, want %d", len(f.Tensors), len(want))
			}
			for _, w := range want {
				i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == w.Name })
				if i < 0 {
					t.Errorf("no tensor %q", w.Name)
					continue
				}
				holdTensor(t, f.Tensors[i], w)
			}
		})
	}
}

func holdTensor(t *testing.T, got Tensor, want recordedTensor) {
	t.Helper()
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || got.Bytes != want.Bytes ||
		got.Note != want.Note {
		t.Errorf("%q: %s %v, %d bytes, %q; want %s %v, %d, %q", got.Name, got.DType, got.Shape, got.Bytes, got.Note,
			want.DType, want.Shape, want.Bytes, want.Note)
		return
	}
	for range 2 { // Open gives the same again
		sum, err := got.Sum()
		if err != nil {
			t.Error(err)
			return
		}
		if sum.SHA256 != want.SHA256 {
			t.Errorf("%q: checksum %s, want %s", got.Name, sum.SHA256, want.SHA256)
		}
		if (sum.Stats == nil) != (want.Stats == nil) || (sum.Stats == nil) != (sum.Why != "") {
			t.Errorf("%q: statistics %v, want %v", got.Name, sum, want.Stats)
		} else if s, w := sum.Stats, want.Stats; s != nil {
			if s.Zeros != w.Zeros || s.NaN != w.NaN || s.Inf != w.Inf || !sameNumber(s.Min, w.Min, got.DType) ||
				!sameNumber(s.Max, w.Max, got.DType) || !near(s.Mean, w.Mean) || !near(s.Std, w.Std) {
				a, _ := json.Marshal(s)
				b, _ := json.Marshal(w)
				t.Errorf("%q: statistics %s, want %s", got.Name, a, b)
			}
		}
	}
}

// sameNumber compares integers by their digits, and others as what their type has: numpy's are written as float64.
func sameNumber(a, b *json.Number, d DType) bool {
	if a == nil || b == nil {
		return a == b
	}
	if *a == *b {
		return true
	}
	x, _ := a.Float64()
	y, _ := b.Float64()
	if d == F64 {
		return x == y
	}
	return strings.ContainsAny(a.String()+b.String(), ".e") && float32(x) == float32(y)
}

func near(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b || math.Abs(*a-*b) <= 1e-12*max(math.Abs(*a), math.Abs(*b))
}

// TestMixed: what is no tensor is left out by name with its type, and what it is told.
func TestMixed(t *testing.T) {
	notes := strings.Join(openFor(t, "testdata/mixed.npz").Notes, "\n")
	for _, want := range []string{`"objects.npy"`, "objects, which only Python could unpickle",
		`"<U2", strings`, `"<V2", bytes of which`,
		"structured type [[a <f4] [b <i4 [2]]]", `"<M8[D]", times`, `"<f16", extended precision`} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
}

// TestFolder: a folder stands for the index in it; what the index leaves out is told.
func TestFolder(t *testing.T) {
	f := openFor(t, "testdata/model")
	if len(f.Tensors) != 2 || f.Tensors[0].Shard != "two.safetensors" {
		t.Errorf("%+v", f.Tensors)
	}
	if notes := strings.Join(f.Notes, "\n"); !strings.Contains(notes, `left out 1 tensors of two.safetensors`) {
		t.Errorf("notes: %s", notes)
	}
}

// TestKnownByContent: whatever its name is, a file is what is in it.
func TestKnownByContent(t *testing.T) {
	formats := map[string]string{"plain.safetensors": "safetensors", "stored.npz": "npz", "big.npy": "npy",
		"blocks.gguf": "gguf"}
	for name, format := range formats {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "download")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if f := openFor(t, path); f.Format != format {
			t.Errorf("%s is %q", name, f.Format)
		}
	}
}

// TestFolders: one file stands for a folder, of several none does; what is no file is not waited for.
func TestFolders(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a[b]*")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(path, want string) {
		t.Helper()
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(folder, "a folder without a")
	write(t, filepath.Join(folder, "one.safetensors"), nil, twoTensors)
	f, want := openFor(t, folder), filepath.Join(folder, "one.safetensors")
	if len(f.Tensors) != len(twoTensors) || f.Path != want {
		t.Errorf("%+v", f)
	}
	write(t, filepath.Join(folder, "two.safetensors"), nil, twoTensors)
	refused(folder, "a folder with 2 files")
	pipe := filepath.Join(folder, "pipe.npz")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	refused(pipe, "it is no regular file")
}

// TestOtherTypes: what safetensors has beyond ours, and what nobody knows yet, is listed and summed, and says why it
// has no statistics.
func TestOtherTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	data := safetensorsFile(`{"four":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]},`+
		`"scale":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[2,3]},`+
		`"new":{"dtype":"F9_NEW","shape":[1],"data_offsets":[3,7]}}`, 7)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "", "a type that is not known here"} {
		one := openFor(t, path).Tensors[i]
		sum, err := one.Sum()
		if err != nil || sum.Stats != nil || sum.Why != "elements of "+string(one.DType)+" are not decoded" ||
			len(sum.SHA256) != 64 {
			t.Errorf("%s: %+v, %v", one.Name, sum, err)
		}
		if !strings.HasPrefix(one.Note, want) || want == "" && one.Note != "" {
			t.Errorf("%s: %q", one.Name, one.Note)
		}
	}
}

// TestHugeDoubles: what passes a float64 is not known, and no NaN in a record.
func TestHugeDoubles(t *testing.T) {
	var data []byte
	for _, v := range []float64{-math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	one := Tensor{DType: F64, Shape: []int64{4}, Bytes: 32, Open: section(bytes.NewReader(data), 0, 32)}
	sum, err := one.Sum()
	if err != nil {
		t.Fatal(err)
	}
	s := sum.Stats
	if *s.Min != "-1.7976931348623157e+308" || *s.Max != "1.7976931348623157e+308" || s.Std != nil {
		t.Errorf("%v .. %v ± %v", *s.Min, *s.Max, s.Std)
	}
	if _, err := json.Marshal(sum); err != nil {
		t.Error(err)
	}
}

// TestMeanStandsStill: a large offset does not eat the deviation, as it does that of sums of squares.
func TestMeanStandsStill(t *testing.T) {
	var data []byte
	for i := range 100_000 {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(1e9+float64(i%2)))
	}
	one := Tensor{DType: F64, Bytes: int64(len(data)), Open: section(bytes.NewReader(data), 0, int64(len(data)))}
	sum, err := one.Sum()
	if err != nil || *sum.Stats.Mean != 1e9+0.5 || math.Abs(*sum.Stats.Std-0.5) > 1e-12 {
		t.Errorf("%v ± %v, %v", *sum.Stats.Mean, *sum.Stats.Std, err)
	}
}

// TestHalves: each float16 that there is, by the definition.
func TestHalves(t *testing.T) {
	for v := range 1 << 16 {
		got, want := Float16(uint16(v)), small(uint32(v), 5, 10, ieee)
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%#x is %v, want %v", v, got, want)
		}
	}
}

// TestGGUFMetadata: what the file says of itself; of arrays how much there is.
func TestGGUFMetadata(t *testing.T) {
	meta := openFor(t, "testdata/blocks.gguf").Meta
	for key, want := range map[string]string{"general.architecture": "test", "general.name": "a model",
		"tokenizer.ggml.tokens": "3 values", "some.floats": "2 values", "some.float": "1e-05", "some.flag": "true",
		"some.long": "-5"} {
		if meta[key] != want {
			t.Errorf("%s is %q, want %q", key, meta[key], want)
		}
	}
}

// TestWriterWritesAsTheLibrary: read and written again the safetensors library's file is the same to the byte, and the
// arrays of an npz have the headers that NumPy gave them.
func TestWriterWritesAsTheLibrary(t *testing.T) {
	f := openFor(t, "testdata/plain.safetensors")
	path := filepath.Join(t.TempDir(), "again.safetensors")
	copyTensors(t, path, f.Meta, f.Tensors)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/plain.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("written again it is\n%q, and was\n%q", got, want)
	}

	f = openFor(t, "testdata/stored.npz")
	path = filepath.Join(t.TempDir(), "again.npz")
	copyTensors(t, path, nil, f.Tensors)
	again := openFor(t, path)
	for i, a := range f.Tensors {
		b := again.Tensors[i]
		if a.Name != b.Name || string(stored(t, "testdata/stored.npz", a)) != string(stored(t, path, b)) {
			t.Errorf("%q: NumPy wrote\n%q, and we\n%q", a.Name, stored(t, "testdata/stored.npz", a), stored(t, path, b))
		}
	}
}

// stored is an array of an npz that is not packed, with its header of 128 bytes: as NumPy writes it.
func stored(t *testing.T, path string, a Tensor) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	if _, err := fmt.Sscanf(a.Where, "byte %d", &at); err != nil {
		t.Fatal(err)
	}
	return data[at-128 : at+a.Bytes]
}

func copyTensors(t *testing.T, path string, meta map[string]string, from []Tensor) {
	t.Helper()
	w, err := Create(path, meta, from)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	for _, p := range w.Plan() {
		i := slices.IndexFunc(from, func(t Tensor) bool { return t.Name == p.Name })
		r, err := from[i].Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Put(r); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}
