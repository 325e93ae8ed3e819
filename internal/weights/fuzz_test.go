package weights

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzOpen: whatever a file has, it is opened or is an error, and each tensor gives as many bytes as it says, or an
// error; what it says is no more than the file can hold.
func FuzzOpen(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.*[yzfs]")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, filepath.Ext(path))
	}
	for _, c := range hostile {
		f.Add(c.data, filepath.Ext(c.file))
	}
	f.Fuzz(func(t *testing.T, data []byte, ext string) {
		if len(ext) > 20 || strings.ContainsAny(ext, "/\x00") {
			return
		}
		path := filepath.Join(t.TempDir(), "x"+ext)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Skip(err)
		}
		file, err := Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		for _, tensor := range file.Tensors {
			if tensor.Bytes < 0 || tensor.Bytes > int64(len(data))*maxDeflate {
				t.Fatalf("%q has %d bytes in a file of %d", tensor.Name, tensor.Bytes, len(data))
			}
			if _, ok := tensor.Elements(); !ok {
				t.Fatalf("%q: shape %v", tensor.Name, tensor.Shape)
			}
			r, err := tensor.Open()
			if err != nil {
				continue
			}
			n, err := io.Copy(io.Discard, r)
			if err == nil && n != tensor.Bytes {
				t.Errorf("%q gave %d bytes and says %d", tensor.Name, n, tensor.Bytes)
			}
			r.Close()
		}
	})
}

// FuzzLiteral: what Python would read or not ends, and is bounded.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", "[('a', '<f4', (2,))]", "(1L,)", "()", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := parseLiteral(s); err == nil {
			_, _ = parseNPY(s)
		}
	})
}

// FuzzIndex reads an index of shards.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 16, "of": "x"}, "weight_map": {"b": "two.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		places, _, err := parseIndex(bytes.NewReader(data), map[string]string{})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, p := range places {
			if seen[p.name] {
				t.Errorf("%q twice", p.name)
			}
			seen[p.name] = true
		}
	})
}

// FuzzSafetensors reads a header whose data have 16 bytes: the tensors that come of it cover those, each once.
func FuzzSafetensors(f *testing.F) {
	for _, c := range hostile {
		if filepath.Ext(c.file) == ".safetensors" && len(c.data) > 8 {
			f.Add(c.data[8:])
		}
	}
	f.Add([]byte(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}   `))
	f.Fuzz(func(t *testing.T, header []byte) {
		list, _, err := parseSafetensors(header, 16)
		if err != nil {
			return
		}
		sum := int64(0)
		for _, one := range list {
			if one.begin < 0 || one.end > 16 || one.Bytes != one.end-one.begin {
				t.Errorf("%q lies at %d to %d", one.Name, one.begin, one.end)
			}
			sum += one.Bytes
		}
		if sum != 16 {
			t.Errorf("%d bytes are covered", sum)
		}
	})
}

// FuzzNPY reads an array, and gathers it.
func FuzzNPY(f *testing.F) {
	for _, c := range hostile {
		if filepath.Ext(c.file) == ".npy" {
			f.Add(c.data)
		}
	}
	f.Add(npyFile("{'descr': '>c8', 'fortran_order': True, 'shape': (2, 1, 3), }", 48))
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		a, err := readNPY(from, int64(len(data)))
		if err != nil {
			return
		}
		r, err := a.rowMajor(from)()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != a.Bytes || a.end != int64(len(data)) {
			t.Errorf("%d bytes of %d, %v", n, a.Bytes, err)
		}
	})
}

// FuzzGGUF reads the head of a file: each tensor lies in the file.
func FuzzGGUF(f *testing.F) {
	for _, c := range hostile {
		if filepath.Ext(c.file) == ".gguf" {
			f.Add(c.data)
		}
	}
	if data, err := os.ReadFile("testdata/blocks.gguf"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		p := newGGUF(bytes.NewReader(data), size)
		if p.read() != nil {
			return
		}
		for _, one := range p.tensors {
			if one.begin < 0 || p.data+one.end > size || one.Bytes < 0 {
				t.Errorf("%q lies at %d to %d of %d", one.Name, p.data+one.begin, p.data+one.end, size)
			}
		}
	})
}
