package weights

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// madeTensor is one whose bytes count up.
func madeTensor(name string, dtype DType, shape ...int64) Tensor {
	n, _ := Product(shape)
	content := make([]byte, n*dtype.Size())
	for i := range content {
		content[i] = byte(i % 97)
		if dtype == Bool {
			content[i] %= 2
		}
	}
	return Tensor{Name: name, DType: dtype, Shape: shape, Bytes: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

func everyType() []Tensor {
	list := []Tensor{madeTensor("a.scalar", F32), madeTensor("empty", F64, 0, 3),
		madeTensor("é.five", I16, 2, 1, 3, 2, 70), madeTensor("long", U8, 70000)}
	for _, dtype := range []DType{F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool, C64, C128, U16, U32, U64, F8E4M3,
		F8E5M2} {
		list = append(list, madeTensor("types."+string(dtype), dtype, 3, 5))
	}
	return list
}

// TestWriteTorch: what is written is read back, each record where torch's mmap wants it, and the same bytes each time.
func TestWriteTorch(t *testing.T) {
	folder := t.TempDir()
	want := everyType()
	for _, name := range []string{"one.pt", "two.pt"} {
		if err := writeAll(filepath.Join(folder, name), nil, want); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := os.ReadFile(filepath.Join(folder, "one.pt"))
	two, _ := os.ReadFile(filepath.Join(folder, "two.pt"))
	if !bytes.Equal(one, two) {
		t.Error("written twice, it is not the same")
	}
	file, err := Open(filepath.Join(folder, "one.pt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if len(file.Tensors) != len(want) {
		t.Fatalf("%d tensors of %d", len(file.Tensors), len(want))
	}
	for i, got := range file.Tensors {
		w := want[i]
		if got.Name != w.Name || got.DType != w.DType || !slices.Equal(got.Shape, w.Shape) ||
			torchChecksum(t, got) != torchChecksum(t, w) || got.Note != "" {
			t.Errorf("got %+v, wrote %+v", got, w)
		}
	}
	entries, _, err := zipEntriesOf(one)
	if err != nil {
		t.Fatal(err)
	}
	for name, entry := range entries {
		if at, err := entry.DataOffset(); err != nil || at%torchAlignment != 0 {
			t.Errorf("%s lies at byte %d: %v", name, at, err)
		}
	}
}

func zipEntriesOf(b []byte) (map[string]*zip.File, string, error) {
	archive, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, "", err
	}
	return zipEntries(archive, int64(len(b)))
}

// TestTorchReadsWhatIsWritten, with weights_only=True and with mmap=True.
func TestTorchReadsWhatIsWritten(t *testing.T) {
	testset.FullOnly(t)
	folder := t.TempDir()
	many := []Tensor{}
	for i := range 300 {
		many = append(many, madeTensor(strings.Repeat("x", i+1), F32, int64(i%7), 3))
	}
	for name, list := range map[string][]Tensor{"types.pt": everyType(), "none.pt": nil, "many.pt": many} {
		if err := writeAll(filepath.Join(folder, name), map[string]string{"assay.layout": "torch"}, list); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(testkit.Python(t), "-W", "error", "testdata/torch/make.py", "read", folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asTorchLoads(t, folder)
}

// TestWriteTorchFails: what cannot be written leaves what lay there, and nothing beside it.
func TestWriteTorchFails(t *testing.T) {
	short := madeTensor("short", F32, 4)
	short.Shape = []int64{5}
	long := madeTensor("long", F32, 4)
	long.Shape = []int64{3}
	broken := madeTensor("broken", F32, 4)
	broken.Open = func() (io.ReadCloser, error) { return nil, errors.New("the disk is gone") }
	for says, list := range map[string][]Tensor{
		`"short": only 16 of its 20 bytes`: {short},
		`"long": more than its 12 bytes`:   {long},
		"the disk is gone":                 {madeTensor("good", F32, 4), broken},
		"two tensors named":                {madeTensor("a", F32), madeTensor("a", F32)},
		"files hold no Q4_K":               {madeTensor("a", "Q4_K", 3)},
		"shape [-1]":                       {{Name: "a", DType: F32, Shape: []int64{-1}}},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "model.pt")
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := writeAll(path, nil, list)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		left, _ := os.ReadFile(path)
		names, _ := os.ReadDir(folder)
		if string(left) != "before" || len(names) != 1 {
			t.Errorf("%s: %q lies there, and %d files", says, left, len(names))
		}
	}
}
