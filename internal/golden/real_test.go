package golden

import (
	"bytes"
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

// MLX's own convolutions have not the precision of float64 that they say.
func TestFloat64OfMLXIsRefused(t *testing.T) {
	testset.FullOnly(t)
	python := pythonOf(t, "ASSAY_MLX_PYTHON")
	program, err := filepath.Abs("../../agent/assay_agent/golden/record.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source := "from mlx import nn\ndef model():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())\n"
	if err := os.WriteFile(filepath.Join(dir, "net.py"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	rec := Recorder{Program: program, Dir: dir, Narration: io.Discard,
		Environ: append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")}
	err = rec.Record(t.Context(), python, Request{File: filepath.Join(dir, "net.py"), Function: "model", Device: "cpu",
		Shape: []int64{1, 8, 8, 3}, Scale: 1, Float64: true, Out: filepath.Join(dir, "net.golden")})
	if err == nil || !strings.Contains(err.Error(), "layers.0 is an nn.Conv2d, and MLX computes") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "net.golden")); err == nil {
		t.Error("a file was written")
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

// MSI-Net, from one set of weights: Keras and MLX beside PyTorch, at 48 × 80. What is wanted of them is what
// examples/msinet/README.md says.
func TestMSINet(t *testing.T) {
	testset.FullOnly(t)
	type side struct{ name, python, file, backend string }
	sides := []side{{"MLX", os.Getenv("ASSAY_MLX_PYTHON"), "msinet_mlx.py", ""}}
	for _, backend := range []string{"tensorflow", "jax", "torch"} {
		sides = append(sides, side{"Keras on " + backend, os.Getenv("ASSAY_KERAS_PYTHON"), "msinet_keras.py", backend})
	}
	if sides[0].python == "" && sides[1].python == "" {
		t.Skip("neither ASSAY_MLX_PYTHON nor ASSAY_KERAS_PYTHON names a Python")
	}
	record := func(t *testing.T, s side, wide bool) *Golden {
		file, err := filepath.Abs("../../examples/msinet/" + s.file)
		if err != nil {
			t.Fatal(err)
		}
		program, err := filepath.Abs("../../agent/assay_agent/golden/record.py")
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "msinet.golden")
		rec := Recorder{Program: program, Dir: t.TempDir(), Narration: io.Discard,
			Environ: append(os.Environ(), "KERAS_BACKEND="+s.backend, "PYTHONDONTWRITEBYTECODE=1")}
		asked := Request{File: file, Function: "model", Device: "cpu", Steps: 1, Float64: wide, Out: out}
		err = rec.Record(t.Context(), s.python, asked)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Open(out)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	right := record(t, side{"PyTorch", testkit.Python(t), "msinet_torch.py", ""}, false)
	for _, s := range sides {
		t.Run(s.name, func(t *testing.T) {
			if s.python == "" {
				t.Skip("no Python of it is named")
			}
			r := compared(t, right, record(t, s, false))
			alone := len(r.Alone.WeightsA) + len(r.Alone.WeightsB) + len(r.Alone.CallsA)
			if r.Answer != Same || alone > 0 || len(r.Modules) != 32 {
				var text bytes.Buffer
				r.Text(&text, 100)
				t.Errorf("%d modules compared\n%s", len(r.Modules), text.String())
			}
			// Gradients begin to differ where a branch went another way, and nowhere else.
			turned := func(b Branch) bool { return b.Other > 0 }
			if b := r.Backward; b != nil && !slices.ContainsFunc(r.Branches, turned) {
				t.Errorf("from %s on gradients differ by %.1e, and no branch went another way", b.Module, b.Relative)
			}
		})
	}
	// In float64 it is the same model to fifteen digits: not Keras on JAX, whose mean is of float32, nor on PyTorch,
	// whose gradient of a kernel that does not lie in order is refused.
	wide := record(t, side{"PyTorch", testkit.Python(t), "msinet_torch.py", ""}, true)
	for _, s := range sides[:2] {
		t.Run(s.name+" in float64", func(t *testing.T) {
			if s.python == "" {
				t.Skip("no Python of it is named")
			}
			r, err := Compare(wide, record(t, s, true), Exact)
			if err != nil {
				t.Fatal(err)
			}
			if r.Answer != Same {
				var text bytes.Buffer
				r.Text(&text, 100)
				t.Error(text.String())
			}
		})
	}
}
