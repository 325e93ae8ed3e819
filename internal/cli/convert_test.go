package cli

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/testkit"
	"assay/internal/testset"
	"assay/internal/weights"
)

// noise is a tensor of numbers from 0 to 1.
func noise(name string, shape ...int64) weights.Tensor {
	n, _ := weights.Product(shape)
	t := weights.Tensor{Name: name, DType: weights.F32, Shape: shape, Bytes: n * 4}
	t.Open = func() (io.ReadCloser, error) {
		some := make([]byte, 1<<20)
		source := rand.New(rand.NewPCG(uint64(len(name)), uint64(n)))
		for i := 0; i < len(some); i += 4 {
			bits := source.Uint32()
			some[i], some[i+1], some[i+2], some[i+3] = byte(bits), byte(bits>>8), byte(bits>>16)&127, 0x3f
		}
		return io.NopCloser(io.LimitReader(&repeated{block: some}, t.Bytes)), nil
	}
	return t
}

type repeated struct {
	block []byte
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}

func writeWeights(t testing.TB, path string, tensors []weights.Tensor) {
	t.Helper()
	w, err := weights.Create(path, map[string]string{"format": "pt"}, tensors)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	for _, planned := range w.Plan() {
		r, err := tensors[slices.IndexFunc(tensors, func(t weights.Tensor) bool { return t.Name == planned.Name })].Open()
		if err == nil {
			err = w.Put(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// vgg16 is torchvision's: 528 MB.
func vgg16() []weights.Tensor {
	var list []weights.Tensor
	in := int64(3)
	for _, l := range []struct{ at, out int64 }{{0, 64}, {2, 64}, {5, 128}, {7, 128}, {10, 256}, {12, 256}, {14, 256},
		{17, 512}, {19, 512}, {21, 512}, {24, 512}, {26, 512}, {28, 512}} {
		name := fmt.Sprintf("features.%d", l.at)
		list = append(list, noise(name+".weight", l.out, in, 3, 3), noise(name+".bias", l.out))
		in = l.out
	}
	for _, l := range []struct{ at, out, in int64 }{{0, 4096, 25088}, {3, 4096, 4096}, {6, 1000, 4096}} {
		name := fmt.Sprintf("classifier.%d", l.at)
		list = append(list, noise(name+".weight", l.out, l.in), noise(name+".bias", l.out))
	}
	return list
}

// largeModel has 2 GB: kernels of convolutions, dense layers and an embedding.
func largeModel() []weights.Tensor {
	list := []weights.Tensor{noise("c.weight", 64, 3, 7, 7), noise("c.bias", 64),
		noise("e.weight", 50257, 768), noise("d.weight", 4096, 4096), noise("d.bias", 4096)}
	for i := range 40 {
		name := fmt.Sprintf("c%d", i)
		list = append(list, noise(name+".weight", 512, 512, 3, 3), noise(name+".bias", 512))
	}
	for i := range 28 {
		name := fmt.Sprintf("c%d", 40+i)
		list = append(list, noise(name+".weight", 1024, 1024, 3, 3), noise(name+".bias", 1024))
	}
	for i := range 22 {
		name := fmt.Sprintf("d%d", i)
		list = append(list, noise(name+".weight", 4096, 1024), noise(name+".bias", 4096))
	}
	return list
}

var largeKinds = []string{"--kind", "c*=conv", "--kind", "d*=dense", "--kind", "e*=embedding"}

// BenchmarkConvert holds `assay convert` against `cp` with a sync of the same file, run in turn. Of each it tells the
// median time in seconds, of their ratios the median, and the most memory that the process had, as a part of the largest
// tensor. It wants some 8 GB of disk.
//
//	go test ./internal/cli -run '^$' -bench Convert -benchtime 5x
func BenchmarkConvert(b *testing.B) {
	assay := testkit.Assay(b)
	dir := b.TempDir()
	in := map[string]string{}
	for name, tensors := range map[string][]weights.Tensor{"2 GB": largeModel(), "VGG16": vgg16()} {
		ending := map[string]string{"2 GB": ".safetensors", "VGG16": ".pt"}[name]
		in[name] = filepath.Join(dir, strings.ReplaceAll(name, " ", "")+ending)
		writeWeights(b, in[name], tensors)
	}
	largest := map[string]int64{"2 GB": 50257 * 768 * 4, "VGG16": 25088 * 4096 * 4}
	for _, c := range []struct {
		in, out string
		args    []string
	}{
		{"2 GB", "mlx.safetensors", append([]string{"--to", "mlx"}, largeKinds...)},
		{"2 GB", "keras.safetensors", append([]string{"--to", "keras"}, largeKinds...)},
		{"2 GB", "half.safetensors", []string{"--dtype", "bf16"}},
		{"VGG16", "mlx.safetensors", []string{"--to", "mlx"}},
		{"VGG16", "mlx.npz", []string{"--to", "mlx"}},
		{"VGG16", "keras.weights.h5", []string{"--to", "keras"}},
	} {
		b.Run(c.in+" to "+c.out, func(b *testing.B) {
			out, copied := filepath.Join(dir, c.out), filepath.Join(dir, "copied")
			var cps, ours, ratios []float64
			memory := int64(0)
			timed := func(result, name string, args ...string) float64 {
				syscall.Sync()
				cmd := exec.Command(name, args...)
				begun := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				took := time.Since(begun).Seconds()
				if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && name == assay {
					memory = max(memory, usage.Maxrss*1024) // kilobytes on Linux
				}
				if err := os.Remove(result); err != nil {
					b.Fatal(err)
				}
				return took
			}
			for b.Loop() {
				cp := timed(copied, "sh", "-c", `cp "$1" "$2" && sync "$2"`, "sh", in[c.in], copied)
				our := timed(out, assay, append([]string{"convert", in[c.in], out}, c.args...)...)
				cps, ours, ratios = append(cps, cp), append(ours, our), append(ratios, our/cp)
			}
			median := func(list []float64) float64 { slices.Sort(list); return list[len(list)/2] }
			b.ReportMetric(0, "ns/op") // of both together: of no use
			b.ReportMetric(median(cps), "cp-s")
			b.ReportMetric(median(ours), "convert-s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(float64(memory)/float64(largest[c.in]), "memory/largest")
			b.ReportMetric(float64(memory)/1e6, "MB")
		})
	}
}

// TestConvertFullDisk: where a file can no longer grow there is one error, nothing is left, and what lay there stays.
func TestConvertFullDisk(t *testing.T) {
	assay := testkit.Assay(t)
	for _, name := range []string{"out.safetensors", "out.npz"} {
		dir := t.TempDir()
		writeWeights(t, filepath.Join(dir, "in.safetensors"), []weights.Tensor{noise("c.weight", 64, 64, 3, 3),
			noise("c2.weight", 128, 64, 3, 3)})
		if err := os.WriteFile(filepath.Join(dir, name), []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", `ulimit -f 300; exec "$@"`, "sh", assay, "convert", "in.safetensors", name, "--to", "mlx",
			"--kind", "c*=conv")
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "file too large") || !strings.Contains(string(said), "nothing of it") {
			t.Errorf("%v\n%s", err, said)
		}
		left, _ := os.ReadFile(filepath.Join(dir, name))
		if names, _ := os.ReadDir(dir); string(left) != "before" || len(names) != 2 {
			t.Errorf("%q lies there, and beside it %v", left, names)
		}
	}
}

// TestConvertKilled: killed wherever it was, it goes on where it was when it is begun again, and the file is the one that
// is made at once; with other options it begins anew.
func TestConvertKilled(t *testing.T) {
	testset.FullOnly(t)
	assay := testkit.Assay(t)
	dir := t.TempDir()
	writeWeights(t, filepath.Join(dir, "in.safetensors"), vgg16())
	convert := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(assay, append([]string{"convert", "in.safetensors", name, "--to", "mlx"}, args...)...)
		cmd.Dir = dir
		return cmd
	}
	for _, name := range []string{"out.safetensors", "out.npz"} {
		once := "once-" + name
		if out, err := convert(once).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		part := filepath.Join(dir, ".part-"+name)
		for _, until := range []int64{1, 30 << 20, 450 << 20} {
			killed := convert(name)
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- killed.Wait() }()
			for over := false; !over; { // until it has written so much
				select {
				case err := <-ended:
					t.Fatalf("it ended before it was killed: %v", err)
				default:
					info, err := os.Stat(part)
					over = err == nil && info.Size() >= until
				}
			}
			killed.Process.Kill()
			<-ended
			if until == 450<<20 { // a copy, to be gone on with otherwise
				for _, ending := range []string{"", ".note"} {
					b, err := os.ReadFile(part + ending)
					if err == nil {
						err = os.WriteFile(filepath.Join(dir, ".part-other-"+name)+ending, b, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				out, err := convert("other-"+name, "--dtype", "f16").CombinedOutput()
				if err != nil || strings.Contains(string(out), "goes on there") {
					t.Errorf("with another type: %v\n%s", err, out)
				}
			}
			out, err := convert(name).CombinedOutput()
			if err != nil || until > 1 && !strings.Contains(string(out), "goes on there") {
				t.Errorf("killed after %d bytes: %v\n%s", until, err, out)
			}
			got, _ := os.ReadFile(filepath.Join(dir, name))
			want, _ := os.ReadFile(filepath.Join(dir, once))
			if !bytes.Equal(got, want) || len(got) == 0 {
				t.Errorf("%s killed after %d bytes: it became another file", name, until)
			}
			os.Remove(filepath.Join(dir, name))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".part-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
