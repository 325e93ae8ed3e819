package convert

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/layout"
	"assay/internal/testset"
	"assay/internal/weights"
)

// convertFile converts a file as the command does.
func convertFile(t *testing.T, in, out string, opts Options) {
	t.Helper()
	f, err := weights.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := Make(f, opts)
	if err != nil || p.Err() != nil {
		t.Fatal(err, p.Err())
	}
	w, err := weights.Resume(out, p.Meta, p.Outs(), p.Fingerprint("test"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if err := errors.Join(Write(p.Outs(), w), w.Verify(), w.Commit()); err != nil {
		t.Fatal(err)
	}
}

// sums are the checksums of a file's tensors, in row-major order and little-endian.
func sums(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for _, one := range f.Tensors {
		sum, err := one.Sum()
		if err != nil {
			t.Fatal(err)
		}
		all[one.Name] = fmt.Sprint(one.DType, one.Shape, sum.SHA256)
	}
	return all
}

// Files that NumPy wrote, with arrays in Fortran order and big-endian, of five dimensions, of none and of no elements:
// what is written has the checksums that they have, which internal/weights holds against NumPy's.
func TestOddArrays(t *testing.T) {
	for _, name := range []string{"stored.npz", "deflated.npz", "fortran.npz"} {
		in := filepath.Join("../weights/testdata", name)
		want := sums(t, in)
		for _, ending := range []string{".npz", ".pt"} {
			out := filepath.Join(t.TempDir(), "out"+ending)
			opts := Options{From: layout.Torch, To: layout.Torch, Kinds: []Rule{{Pattern: "*", Value: "plain"}}}
			convertFile(t, in, out, opts)
			got := sums(t, out)
			if len(got) != len(want) || len(want) == 0 {
				t.Errorf("%s to %s: %d tensors of %d", name, ending, len(got), len(want))
			}
			for tensor, sum := range want {
				if got[tensor] != sum {
					t.Errorf("%s to %s: %s became %s, want %s", name, ending, tensor, got[tensor], sum)
				}
			}
		}
	}
}

// The same metadata that a safetensors file has is in an npz and in PyTorch's, so that nothing is permuted twice.
func TestTwiceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first.safetensors")
	one := tensor("a.weight", weights.F32, 64, 64, 3, 3)
	w, err := weights.Create(first, map[string]string{"format": "pt"}, []weights.Tensor{one})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := one.Open()
	if err := errors.Join(w.Put(r), w.Commit()); err != nil {
		t.Fatal(err)
	}
	kinds := func() []Rule { return []Rule{{Pattern: "a", Value: "conv"}} }
	for _, to := range []struct {
		framework layout.Framework
		names     []string
	}{{layout.MLX, []string{"a.safetensors", "a.npz"}}, {layout.Keras, []string{"k.npz"}},
		{layout.Torch, []string{"a.pt"}}} {
		for _, name := range to.names {
			once, twice := filepath.Join(dir, name), filepath.Join(dir, "twice-"+name)
			convertFile(t, first, once, Options{To: to.framework, Kinds: kinds()})
			f, err := weights.Open(once)
			if err != nil {
				t.Fatal(err)
			}
			said := layout.Judge(f, nil).Layout
			if f.Meta["assay.layout"] != string(to.framework) || said != to.framework {
				t.Errorf("%s says %v, and is judged %q", name, f.Meta, said)
			}
			f.Close()
			opts := Options{To: to.framework, Kinds: kinds()}
			convertFile(t, once, twice, opts)
			a, _ := os.ReadFile(once)
			b, _ := os.ReadFile(twice)
			if !slices.Equal(a, b) || len(a) == 0 {
				t.Errorf("%s converted twice is another file", name)
			}
		}
	}
}

// More than 4 GB in one tensor, which zip files count otherwise: a file with a hole is read, and what is written has
// its last elements where they belong.
func TestBeyond4GB(t *testing.T) {
	testset.FullOnly(t)
	dir := t.TempDir()
	const outputs, inputs = 1<<15 + 1, 3700 // 4.4 GB
	for _, c := range []struct {
		from, to layout.Framework
		shape    []int64
		name     string
	}{{layout.Torch, layout.MLX, []int64{outputs, inputs, 3, 3}, "big.npz"},
		{layout.MLX, layout.Torch, []int64{outputs, 3, 3, inputs}, "big.pt"},
		{layout.Torch, layout.MLX, []int64{outputs, inputs, 3, 3}, "big.safetensors"}} {
		in := filepath.Join(dir, "in.safetensors")
		head := fmt.Sprintf(`{"a.weight":{"dtype":"F32","shape":[%d,%d,%d,%d],"data_offsets":[0,%d]}}`, c.shape[0],
			c.shape[1], c.shape[2], c.shape[3], int64(outputs)*inputs*9*4)
		b := append([]byte{byte(len(head)), 0, 0, 0, 0, 0, 0, 0}, head...)
		if err := os.WriteFile(in, b, 0o600); err != nil {
			t.Fatal(err)
		}
		end := int64(len(b)) + int64(outputs)*inputs*9*4
		f, err := os.OpenFile(in, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{1, 2, 3, 4}, end-4)
		}
		if err == nil { // the first element of the last output
			_, err = f.WriteAt([]byte{5, 6, 7, 8}, end-inputs*9*4)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, c.name)
		convertFile(t, in, out, Options{From: c.from, To: c.to, Kinds: []Rule{{Pattern: "*", Value: "conv"}}})
		back, err := weights.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		r, err := back.Tensors[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		last := make([]byte, inputs*9*4)
		if _, err := io.CopyN(io.Discard, r, int64(outputs-1)*inputs*9*4); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, last); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(last[:4], []byte{5, 6, 7, 8}) || !slices.Equal(last[len(last)-4:], []byte{1, 2, 3, 4}) {
			t.Errorf("%s: % x ... % x", c.name, last[:4], last[len(last)-4:])
		}
		r.Close()
		back.Close()
		os.Remove(out)
	}
}
