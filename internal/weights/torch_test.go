package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// An oracleTensor is what torch.load finds, by testdata/torch/make.py. Without elements it has no checksum.
type oracleTensor struct {
	Name   string  `json:"name"`
	DType  DType   `json:"dtype"`
	Shape  []int64 `json:"shape"`
	SHA256 string  `json:"sha256"`
}

func torchChecksum(t *testing.T, tensor Tensor) string {
	t.Helper()
	r, err := tensor.Open()
	if err != nil {
		t.Fatalf("%s: %v", tensor.Name, err)
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err != nil {
		t.Fatalf("%s: %v", tensor.Name, err)
	}
	if n != tensor.Bytes {
		t.Errorf("%s: %d bytes came where %d were told", tensor.Name, n, tensor.Bytes)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// asTorchLoads holds files of a folder against its expected.json.
func asTorchLoads(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected struct{ Files map[string][]oracleTensor }
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	if len(expected.Files) < 2 {
		t.Fatalf("%d files are expected", len(expected.Files))
	}
	for name, want := range expected.Files {
		t.Run(name, func(t *testing.T) {
			file, err := Open(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var got []oracleTensor
			for _, tensor := range file.Tensors {
				if strings.Contains(tensor.Note, "state_dict leaves out") { // which the oracle's has not
					continue
				}
				found := oracleTensor{Name: tensor.Name, DType: tensor.DType, Shape: tensor.Shape}
				if !strings.Contains(tensor.Note, "without data") {
					found.SHA256 = torchChecksum(t, tensor)
				}
				got = append(got, found)
			}
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(want):
					t.Errorf("%+v is not in what torch loads", got[i])
				case i >= len(got):
					t.Errorf("%+v of what torch loads is missing", want[i])
				case got[i].Name != want[i].Name || got[i].DType != want[i].DType ||
					!slices.Equal(got[i].Shape, want[i].Shape) || got[i].SHA256 != want[i].SHA256:
					t.Errorf("tensor %d: got %+v, torch loads %+v", i, got[i], want[i])
				}
			}
		})
	}
}

// TestTorchFiles holds the reader against what torch.load found in files that stand beside the script that made them.
func TestTorchFiles(t *testing.T) { asTorchLoads(t, "testdata/torch") }

// TestTorchFilesOfThisRelease makes them anew, and large ones with views, with the PyTorch that is installed.
func TestTorchFilesOfThisRelease(t *testing.T) {
	testset.FullOnly(t)
	folder := t.TempDir()
	cmd := exec.Command(testkit.Python(t), "-W", "ignore", "testdata/torch/make.py", folder, "big")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asTorchLoads(t, folder)
}

// TestTorchSays: what of a file is no tensor is kept as text, and what is unusual about one stands in its note.
func TestTorchSays(t *testing.T) {
	opened := func(name string) *File {
		file, err := Open(filepath.Join("testdata/torch", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	training := opened("training.pt")
	for key, want := range map[string]string{"epoch": "3", "best": "0.25", "args.lr": "0.001",
		"args.layers": "[1, 2, 3]", "args.out": "pathlib.PurePosixPath(a, b)",
		"optimizer.param_groups.0.eps": "1e-08", "none": "None", "yes": "True",
		"big": "1180591620717411303424", "z": "(1+2j)", "device": "cpu", "dtype": "torch.float16", "size": "(1, 2)",
		"history.1": "(1, 0.25)", "byteorder": "little"} {
		if got := training.Meta[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	module := opened("module.pt")
	if got := module.Meta["body.0.__class__"]; got != "torch.nn.modules.conv.Conv2d" {
		t.Errorf("body.0 is a %q", got)
	}
	notes := map[string]string{}
	for _, name := range []string{"module.pt", "kinds.pt", "shared.pt", "big-endian.pt", "deflated.pt", "arrays.pt"} {
		for _, tensor := range opened(name).Tensors {
			notes[name+" "+tensor.Name] = tensor.Note
		}
	}
	for key, want := range map[string]string{
		"module.pt fleeting":    "a buffer that state_dict leaves out",
		"module.pt plain":       "an attribute that state_dict leaves out",
		"module.pt head.weight": "",
		"kinds.pt transposed":   "a view with strides [1 6]; shares its storage with five",
		"kinds.pt meta":         "meta tensor, without data",
		"kinds.pt steps":        "a view with strides [3]; shares its storage with five",
		"shared.pt whole":       "",
		"shared.pt tail":        "shares its storage with whole",
		"big-endian.pt a":       "big-endian",
		"deflated.pt a":         "compressed",
		"arrays.pt fortran":     "a numpy array; in Fortran order",
	} {
		if got, found := notes[key]; !found || got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := strings.Join(opened("odd.pt").Notes, "\n"); got != "sparse is a sparse tensor (torch.sparse_coo): left out\n"+
		"csr is a sparse tensor (torch.sparse_csr): left out\nquantised is a quantised tensor: left out" {
		t.Errorf("odd.pt says %q", got)
	}
	for _, tensor := range opened("kinds.pt").Tensors {
		if tensor.Name == "meta" {
			if _, err := tensor.Open(); err == nil || !strings.Contains(err.Error(), "no elements to give") {
				t.Errorf("a meta tensor is opened: %v", err)
			}
			if sum, err := tensor.Sum(); err != nil || sum.SHA256 != "" || !strings.Contains(sum.Why, "no elements") {
				t.Errorf("of a meta tensor %+v is told, %v", sum, err)
			}
		}
	}
}

// countingUp is a storage of any size: the first byte of each element of 4 is the element's number.
type countingUp struct{}

func (countingUp) ReadAt(p []byte, at int64) (int, error) {
	for i := 0; i < len(p); i += 4 {
		p[i] = byte((at + int64(i)) / 4)
	}
	return len(p), nil
}

// TestStridedMemory: a view of 64 MB is read in a sixth of that.
func TestStridedMemory(t *testing.T) {
	testset.FullOnly(t)
	for what, v := range map[string]struct{ shape, strides []int64 }{
		"transposed": {[]int64{4 << 10, 4 << 10}, []int64{1, 4 << 10}},
		"one long":   {[]int64{16 << 20}, []int64{3}},
		"thin":       {[]int64{8 << 20, 2}, []int64{1, 8 << 20}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := newStrided(countingUp{}, 0, 4, v.shape, v.strides)
		index, buffer := make([]int64, len(v.shape)), make([]byte, 4*2048)
		for at := 0; at < 16<<20; at += 2048 {
			if _, err := io.ReadFull(r, buffer); err != nil {
				t.Fatal(err)
			}
			for i := range 2048 {
				if i%512 == 0 { // some, for time
					rest, from := int64(at+i), int64(0)
					for d := len(index) - 1; d >= 0; d-- {
						from += rest % v.shape[d] * v.strides[d]
						rest /= v.shape[d]
					}
					if buffer[4*i] != byte(from) {
						t.Fatalf("%s: element %d is %d, want %d", what, at+i, buffer[4*i], byte(from))
					}
				}
			}
		}
		if n, err := r.Read(buffer); n > 0 || err != io.EOF {
			t.Errorf("%s: %d bytes more, %v", what, n, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 11<<20 {
			t.Errorf("%s: %d bytes of memory taken", what, took)
		}
	}
}
