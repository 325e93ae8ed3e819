package weights

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
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

// oneOfEach are the endings of the formats.
var oneOfEach = []string{".safetensors", ".npz", ".weights.h5", ".pt"}

// manyTensors are of every size that matters: none, less than a buffer of a zip file, more than a block.
func manyTensors(ending string) []Tensor {
	list := []Tensor{madeTensor("a", F32), madeTensor("b", F64, 0, 3), madeTensor("c", I32, 9, 7),
		madeTensor("d", U8, 1<<20+5), madeTensor("e", F32, 3, 5, 2, 2, 41), madeTensor("f", F32, 70000)}
	for i := range list {
		if ending == ".weights.h5" {
			list[i].Name = "layers/" + list[i].Name + "/vars/0"
		}
	}
	return list
}

// cut gives as many bytes, and then the error of a disk.
func cut(r io.Reader, n int64) io.Reader {
	return io.MultiReader(io.LimitReader(r, n), iotest.ErrReader(errors.New("the disk is gone")))
}

// putSome puts tensors, and of the last one some bytes alone; it gives how many stood before.
func putSome(t *testing.T, w *Writer, from []Tensor, until int, bytes int64) (stood int) {
	t.Helper()
	by := map[string]Tensor{}
	for _, one := range from {
		by[one.Name] = one
	}
	stood = w.Done()
	for i, one := range w.Plan() {
		if i < stood || i > until {
			continue
		}
		r, err := by[one.Name].Open()
		if err != nil {
			t.Fatal(err)
		}
		if i < until {
			err = w.Put(r)
		} else if err = w.Put(cut(r, min(bytes, one.Bytes))); err != nil {
			err = nil
		} else {
			t.Error("a tensor that was cut off stands")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return stood
}

// TestWriterResumes: in each format, wherever it was cut off, what stood whole is taken over, and the file is the one
// that would have been written at once. What is left when a process is killed is what Leave leaves: it writes nothing.
func TestWriterResumes(t *testing.T) {
	for _, ending := range oneOfEach {
		list := manyTensors(ending)
		meta := map[string]string{"assay.layout": "mlx"}
		if ending == ".weights.h5" {
			meta = nil
		}
		dir := t.TempDir()
		once := filepath.Join(dir, "once"+ending)
		if err := writeAll(once, meta, list); err != nil {
			t.Fatal(err)
		}
		want, _ := os.ReadFile(once)
		path := filepath.Join(dir, "x"+ending)
		for until := range list {
			for _, part := range []int64{3, 1 << 20} {
				w, err := Create(path, meta, list)
				if err != nil {
					t.Fatal(err)
				}
				putSome(t, w, list, until, part)
				if err := w.Leave(); err != nil {
					t.Fatal(err)
				}
				w, err = Resume(path, meta, list, "")
				if err != nil {
					t.Fatal(err)
				}
				if stood := putSome(t, w, list, len(list), 0); stood != until {
					t.Errorf("%s cut at %d bytes of tensor %d: %d stand", ending, part, until, stood)
				}
				if err := w.finish(); err != nil { // Commit, and all that it syncs, is tested once
					t.Fatal(err)
				}
				if got, _ := os.ReadFile(w.part.Name()); !bytes.Equal(got, want) {
					t.Fatalf("%s cut at %d bytes of tensor %d is another file", ending, part, until)
				}
				w.Remove()
				folderHas(t, dir, "once"+ending)
			}
		}
	}
}

// TestWriterResumesNothingElse: of another plan, other metadata, or made of something else nothing is taken over, and of
// a file that was changed what stood before the change.
func TestWriterResumesNothingElse(t *testing.T) {
	for _, ending := range oneOfEach {
		list := manyTensors(ending)
		reversed := slices.Clone(list)
		reversed[0].DType = I32
		meta := map[string]string{}
		if ending == ".weights.h5" {
			meta["layer:layers/a"] = "first"
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "x"+ending)
		part := filepath.Join(dir, ".part-x"+ending)
		change := func(name string, change func(b []byte) []byte) func() {
			return func() {
				b, err := os.ReadFile(name)
				if err == nil {
					err = os.WriteFile(name, change(b), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, c := range map[string]struct {
			change func()
			meta   map[string]string
			plan   []Tensor
			from   string
			want   int
		}{
			"the same":          {func() {}, meta, list, "input", 4},
			"another input":     {func() {}, meta, list, "other", 0},
			"another type":      {func() {}, meta, reversed, "input", 0},
			"other metadata":    {func() {}, map[string]string{"layer:layers/a": "1"}, list, "input", 0},
			"cut file":          {change(part, func(b []byte) []byte { return b[:len(b)-300] }), meta, list, "input", 3},
			"nothing":           {change(part, func(b []byte) []byte { return nil }), meta, list, "input", 0},
			"another head":      {change(part, func(b []byte) []byte { b[3]++; return b }), meta, list, "input", 0},
			"a bit of the last": {change(part, func(b []byte) []byte { b[len(b)-300] ^= 4; return b }), meta, list, "input", 3},
			"half a note":       {change(part+".note", func(b []byte) []byte { return b[:len(b)-4] }), meta, list, "input", 3},
			"no note":           {func() { os.Remove(part + ".note") }, meta, list, "input", 0},
			"a note of another": {change(part+".note", func(b []byte) []byte { return []byte("so\n00000000\n") }), meta, list,
				"input", 0},
			"a note of too many": {change(part+".note", func(b []byte) []byte {
				return append(b, strings.Repeat("00000000\n", 99)...)
			}), meta, list, "input", 0},
		} {
			w, err := Resume(path, meta, list, "input")
			if err != nil {
				t.Fatal(err)
			}
			putSome(t, w, list, 4, 0)
			w.Leave()
			c.change()
			w, err = Resume(path, c.meta, c.plan, c.from)
			if err != nil {
				t.Fatal(err)
			}
			if w.Done() != c.want {
				t.Errorf("%s, %s: %d tensors stand, want %d", ending, name, w.Done(), c.want)
			}
			putSome(t, w, c.plan, len(list), 0)
			if err := errors.Join(w.finish(), w.readBack()); err != nil {
				t.Errorf("%s, %s: %v", ending, name, err)
			}
			w.Remove()
			folderHas(t, dir)
		}
	}
}

// TestWriterAlone: who writes to a path is the only one that does.
func TestWriterAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	w, err := Create(path, nil, twoTensors)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if _, err := Create(path, nil, twoTensors); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second writer: %v", err)
	}
	folderHas(t, filepath.Dir(path), ".part-x.npz", ".part-x.npz.note")
}

// TestVerify: what does not lie in the file as it was written is named.
func TestVerify(t *testing.T) {
	for _, ending := range oneOfEach {
		list := manyTensors(ending)
		path := filepath.Join(t.TempDir(), "x"+ending)
		w, err := Create(path, nil, list)
		if err != nil {
			t.Fatal(err)
		}
		putSome(t, w, list, len(list), 0)
		w.part.WriteAt([]byte{77}, w.part.at-1000)
		name := w.Plan()[len(list)-1].Name
		if err := w.Verify(); err == nil || !strings.Contains(err.Error(), "read back: tensor \""+name+"\"") {
			t.Errorf("%s: %v", ending, err)
		}
		if err := w.Remove(); err != nil {
			t.Error(err)
		}
		folderHas(t, filepath.Dir(path))
	}
}
