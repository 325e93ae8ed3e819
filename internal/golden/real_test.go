package golden

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// recorded has testdata/faults.py record its nets, and gives the folder of the files.
func recorded(t *testing.T, python, framework string) string {
	t.Helper()
	folder := t.TempDir()
	agent, err := filepath.Abs("../../agent")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/faults.py", agent, folder, framework)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("faults.py: %v\n%s", err, out)
	}
	return folder
}

// realFaults holds each faulty net that was recorded against the right one.
func realFaults(t *testing.T, folder string) (found int) {
	t.Helper()
	open := func(name string) *Golden {
		g, err := Open(filepath.Join(folder, name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	right := open("right")
	if r := compared(t, right, open("right")); r.Answer != Same {
		t.Errorf("beside itself the right net is %q", r.Answer)
	}
	for name, f := range faults {
		if _, err := os.Stat(filepath.Join(folder, name+".safetensors")); err != nil {
			continue
		}
		found++
		t.Run(name, func(t *testing.T) { f.check(t, compared(t, right, open(name))) })
	}
	return found
}

// The faults in a net of PyTorch's: the oracle of made files is what the recorder writes of a real one.
func TestFaultsInTorch(t *testing.T) {
	testset.FullOnly(t)
	if n := realFaults(t, recorded(t, testkit.Python(t), "torch")); n != len(faults)-1 {
		t.Errorf("%d faults of %d", n, len(faults))
	}
}

// Adam's bias correction is an option of MLX's alone.
func TestFaultsInMLX(t *testing.T) {
	testset.FullOnly(t)
	if n := realFaults(t, recorded(t, pythonOf(t, "ASSAY_MLX_PYTHON"), "mlx")); n != 1 {
		t.Errorf("%d faults", n)
	}
}

func pythonOf(t *testing.T, variable string) string {
	t.Helper()
	python := os.Getenv(variable)
	if python == "" {
		t.Skip(variable + " names no Python")
	}
	return python
}
