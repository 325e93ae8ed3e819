package weights

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestReadersPassOverTheComment: they give the arrays and no more, with a comment as long as it may be; MLX's reader
// too, where ASSAY_MLX_PYTHON names one.
func TestReadersPassOverTheComment(t *testing.T) {
	testset.FullOnly(t)
	var list []Tensor
	want := map[string]int64{}
	for _, one := range everyType() {
		if npyType(one.DType) != "" && one.DType != C128 { // which MLX has not
			list = append(list, one)
			want[one.Name] = one.Bytes
		}
	}
	meta := map[string]string{"assay.layout": "mlx", "long": ""}
	for len(metaComment(meta)) < mostComment {
		meta["long"] += "x"
	}
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := writeAll(path, meta, list); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Meta["long"]) != len(meta["long"]) || f.Meta["assay.layout"] != "mlx" {
		t.Errorf("it says %v", f.Meta)
	}
	f.Close()
	for python, script := range map[string]string{
		testkit.Python(t):             "import numpy; found = dict(numpy.load(sys.argv[1], allow_pickle=False))",
		os.Getenv("ASSAY_MLX_PYTHON"): "import mlx.core; found = mlx.core.load(sys.argv[1])",
	} {
		if python == "" {
			continue
		}
		out, err := exec.Command(python, "-c", "import sys, json\n"+script+
			"\nprint(json.dumps({k: v.nbytes for k, v in found.items()}))", path).Output()
		if err != nil {
			var exit *exec.ExitError
			errors.As(err, &exit)
			t.Fatalf("%v: %+v", err, exit)
		}
		got := map[string]int64{}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		for name, bytes := range want {
			if got[name] != bytes {
				t.Errorf("%s reads %q with %d bytes, want %d", python, name, got[name], bytes)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s reads %d arrays, want %d", python, len(got), len(want))
		}
	}
}
