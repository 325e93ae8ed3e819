package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
