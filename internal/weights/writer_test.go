package weights

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var twoTensors = []Tensor{{Name: "b", DType: F32, Shape: []int64{2, 1}}, {Name: "a", DType: I64, Shape: nil},
	{Name: "c", DType: Bool, Shape: []int64{3, 0}}}

var kerasTensors = []Tensor{{Name: "layers/a/vars/0", DType: F32, Shape: []int64{2, 1}}, {Name: "vars/0", DType: I64}}

// writeAll writes tensors with what they hold.
func writeAll(path string, meta map[string]string, tensors []Tensor) error {
	w, err := Create(path, meta, tensors)
	if err != nil {
		return err
	}
	defer w.Remove()
	by := map[string]Tensor{}
	for _, t := range tensors {
		by[t.Name] = t
	}
	for _, t := range w.Plan() {
		r, err := by[t.Name].Open()
		if err != nil {
			return err
		}
		if err := w.Put(r); err != nil {
			return err
		}
	}
	if err := w.Verify(); err != nil {
		return err
	}
	return w.Commit()
}

func write(t *testing.T, path string, meta map[string]string, plan []Tensor) {
	t.Helper()
	w, err := Create(path, meta, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	for i, p := range w.Plan() {
		if err := w.Put(bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, int(p.Bytes)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func folderHas(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

// TestWriterGivesTheSameBytesTwice, and leaves nothing beside the file.
func TestWriterGivesTheSameBytesTwice(t *testing.T) {
	for _, ext := range Writable() {
		dir := t.TempDir()
		var meta map[string]string
		plan := twoTensors
		if ext == ".weights.h5" {
			plan = kerasTensors
		} else {
			meta = map[string]string{"format": "pt", "a": "1", "z": "2"}
		}
		var files [][]byte
		for range 2 {
			path := filepath.Join(dir, "x"+ext)
			write(t, path, meta, plan)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, data)
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: other bytes the second time", ext)
		}
		folderHas(t, dir, "x"+ext)
	}
}

// TestWriterRefuses: what it cannot write it says, and what lay there stays.
func TestWriterRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file string
		meta       map[string]string
		plan       []Tensor
		want       string
	}{
		{"ending", "x.gguf", nil, nil, `no format that is written ends in ".gguf"`},
		{"twice", "x.npz", nil, []Tensor{{Name: "a", DType: F32}, {Name: "a", DType: F32}}, `two tensors named "a"`},
		{"bfloat16 in npz", "x.npz", nil, []Tensor{{Name: "a", DType: BF16}}, `tensor "a": npz holds no BF16`},
		{"complex128", "x.safetensors", nil, []Tensor{{Name: "a", DType: C128}}, `safetensors holds no C128`},
		{"blocks", "x.safetensors", nil, []Tensor{{Name: "a", DType: "Q4_K"}}, `safetensors holds no Q4_K`},
		{"name", "x.safetensors", nil, []Tensor{{Name: "__metadata__", DType: F32}}, "keeps that name"},
		{"not UTF-8", "x.safetensors", nil, []Tensor{{Name: "\xff", DType: F32}}, "not in UTF-8"},
		{"NUL in npz", "x.npz", nil, []Tensor{{Name: "a\x00b", DType: F32}}, "no name in a zip file"},
		{"a long name in npz", "x.npz", nil, []Tensor{{Name: strings.Repeat("a", 60_001), DType: F32}},
			"no name in a zip file"},
		{"dimensions in npz", "x.npz", nil, []Tensor{{Name: "a", DType: F32, Shape: make([]int64, 65)}},
			"at most 64 dimensions"},
		{"metadata not UTF-8", "x.safetensors", map[string]string{"a": "\xff"}, nil, "not in UTF-8"},
		{"negative", "x.safetensors", nil, []Tensor{{Name: "a", DType: F32, Shape: []int64{-1}}}, "shape [-1]"},
		{"too large", "x.safetensors", nil, []Tensor{{Name: "a", DType: F32, Shape: []int64{1 << 61, 1}},
			{Name: "b", DType: F32, Shape: []int64{1 << 60, 1}}}, "shape [2305843009213693952 1]"},
		{"too large in all", "x.safetensors", nil, []Tensor{{Name: "a", DType: F32, Shape: []int64{1 << 60}},
			{Name: "b", DType: F32, Shape: []int64{1 << 60}}}, "larger than a file can be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte("there"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Create(path, c.meta, c.plan)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), "writing weights to "+path+": ") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			folderHas(t, dir, c.file)
		})
	}
}

// TestWriterHoldsToThePlan: too few bytes, too many, too few tensors, too many.
func TestWriterHoldsToThePlan(t *testing.T) {
	for _, ext := range Writable() {
		for _, n := range []int{3, 5} {
			dir := t.TempDir()
			w, err := Create(filepath.Join(dir, "x"+ext), nil, []Tensor{{Name: "vars/0", DType: F32}})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Commit(); err == nil || !strings.Contains(err.Error(), `the first is "vars/0"`) {
				t.Errorf("commit without a tensor: %v", err)
			}
			err = w.Put(bytes.NewReader(make([]byte, n)))
			if err == nil || !strings.Contains(err.Error(), "4 bytes came") {
				t.Errorf("%d bytes for 4: %v", n, err)
			}
			if err := w.Remove(); err != nil {
				t.Error(err)
			}
			folderHas(t, dir)
		}
	}
}

// TestWriterResumes: what stood whole is taken over, half a tensor and what is of another plan is not, and the file is
// the one that would have been written at once.
func TestWriterResumes(t *testing.T) {
	dir := t.TempDir()
	path, once := filepath.Join(dir, "x.safetensors"), filepath.Join(dir, "once.safetensors")
	write(t, once, nil, twoTensors)
	w, err := Create(path, nil, twoTensors)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, nil, twoTensors); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Put(bytes.NewReader(bytes.Repeat([]byte{1}, 8))); err != nil {
		t.Fatal(err)
	}
	if err := w.Put(bytes.NewReader([]byte{2, 2, 2, 2, 2})); err == nil {
		t.Fatal("half a tensor is one")
	}
	if err := w.Leave(); err != nil {
		t.Fatal(err)
	}
	folderHas(t, dir, ".part-x.safetensors", ".part-x.safetensors.note", "once.safetensors")

	other, err := Resume(path+".safetensors", nil, twoTensors[:1], "")
	if err != nil || other.Done() != 0 {
		t.Fatalf("of nothing %d tensors, %v", other.Done(), err)
	}
	if err := other.Remove(); err != nil {
		t.Fatal(err)
	}
	w, err = Resume(path, nil, twoTensors, "")
	if err != nil {
		t.Fatal(err)
	}
	if w.Done() != 1 || w.Plan()[1].Name != "b" {
		t.Fatalf("%d tensors stand, want 1", w.Done())
	}
	for i, p := range w.Plan()[w.Done():] {
		if err := w.Put(bytes.NewReader(bytes.Repeat([]byte{byte(i + 2)}, int(p.Bytes)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	want, _ := os.ReadFile(once)
	if !bytes.Equal(got, want) || len(want) == 0 {
		t.Errorf("resumed: %q, at once: %q", got, want)
	}

	w, err = Create(path, nil, twoTensors)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Leave(); err != nil {
		t.Fatal(err)
	}
	w, err = Resume(path, map[string]string{"from": "elsewhere"}, twoTensors, "")
	if err != nil || w.Done() != 0 {
		t.Errorf("of another plan %d tensors, %v", w.Done(), err)
	}
	w.Remove()
}
