package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
	"assay/internal/weights"
)

// A side is a framework of the live test: what makes its nets and loads what was converted.
type side struct {
	name, script, python string
}

func (s side) run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(s.python, append([]string{"testdata/live/" + s.script}, args...)...)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=2", "PYTHONDONTWRITEBYTECODE=1", "CUDA_VISIBLE_DEVICES=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", s.script, args, err, stderr.Bytes())
	}
	return out
}

// How far an output may lie from the first framework's, relative to the largest: what issue 18 asks for.
const liveTolerance = 1e-5

// holds loads each file, by name of the net, and compares the outputs.
func (s side) holds(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	args := []string{"check", folder}
	for name, path := range files {
		args = append(args, name+"="+path)
	}
	slices.Sort(args[2:])
	var worst map[string]float64
	if out := s.run(t, args...); json.Unmarshal(out, &worst) != nil || len(worst) != len(files) {
		t.Fatalf("%s: %s", s.name, out)
	}
	for name, w := range worst {
		t.Logf("%s in %s: %.1e", name, s.name, w)
		if !(w <= liveTolerance) {
			t.Errorf("%s in %s: outputs differ by %g of the largest", name, s.name, w)
		}
	}
}

// converted runs assay convert.
func converted(t *testing.T, in, out string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testkit.Assay(t), append([]string{"convert", in, out}, args...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("convert %s %s %v: %v\n%s", in, out, args, err, said)
	}
	return out
}

// sameFile: names, types, shapes and bytes; aside is what the way leaves out.
func sameFile(t *testing.T, first, again string, aside func(name string) bool) {
	t.Helper()
	open := func(path string) map[string]weights.Tensor {
		f, err := weights.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		tensors := map[string]weights.Tensor{}
		for _, x := range f.Tensors {
			if !aside(x.Name) {
				tensors[x.Name] = x
			}
		}
		return tensors
	}
	a, b := open(first), open(again)
	for name, x := range a {
		y, ok := b[name]
		if !ok || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(content(t, x), content(t, y)) {
			t.Errorf("%s: %s came back as another: %v %v", first, name, y.DType, y.Shape)
		}
		delete(b, name)
	}
	for name := range b {
		t.Errorf("%s: %s came back, and was not there", first, name)
	}
}

// countsAside: what PyTorch counts, and Keras's optimizer.
func countsAside(name string) bool {
	return strings.HasSuffix(name, "num_batches_tracked") || strings.HasPrefix(name, "optimizer/")
}

// What no recipe names in the nets of layers: their kinds, from the code of the net.
var liveKinds = map[string]string{
	"images": "--kind square=conv --kind point=conv --kind grouped=conv --kind depth=depthwise --kind up=conv-transpose " +
		"--kind top=dense --flatten dense=8x5x7",
	"lines":   "--kind one=conv --kind depth=depthwise --kind up=conv-transpose --flatten dense=6x15",
	"volumes": "--kind one=conv --kind up=conv-transpose --flatten dense=6x4x6x8",
}

// Real networks with random weights, made by one framework, converted, loaded strictly by the others: their outputs are
// the first's, and converted back the file is the first, bit for bit. The oracle is each framework.
func TestNetworksElsewhere(t *testing.T) {
	testset.FullOnly(t)
	torch := side{"PyTorch", "torch_side.py", testkit.Python(t)}
	var others []side
	for _, s := range []side{{"MLX", "mlx_side.py", os.Getenv("ASSAY_MLX_PYTHON")},
		{"Keras", "keras_side.py", os.Getenv("ASSAY_KERAS_PYTHON")}} {
		if s.python == "" {
			t.Logf("left out: %s, since ASSAY_%s_PYTHON names no Python", s.name, strings.ToUpper(s.name))
			continue
		}
		others = append(others, s)
	}
	if len(others) == 0 {
		t.Skip("neither ASSAY_MLX_PYTHON nor ASSAY_KERAS_PYTHON names a Python")
	}
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	torch.run(t, "make", folder)
	for _, s := range others {
		nets := []string{"images", "lines", "volumes", "lstm", "gru"}
		if s.name == "MLX" {
			nets = append(nets, "resnet18", "mobilenet_v2", "vgg11", "vgg11_bn", "vit", "bert", "gpt2")
		}
		to := strings.ToLower(s.name)
		files := map[string]string{}
		for i, net := range nets {
			first, kinds := at(net+[]string{".safetensors", ".pt"}[i%2]), strings.Fields(liveKinds[net])
			files[net] = converted(t, first, at(net+"."+to+".safetensors"), append(kinds, "--to", to)...)
			back := converted(t, files[net], at(net+".back.safetensors"), append(kinds, "--to", "torch")...)
			if net == "lstm" || net == "gru" && s.name == "MLX" {
				continue // two biases are summed to one, and that is not undone
			}
			sameFile(t, first, back, countsAside)
		}
		s.holds(t, folder, files)
		if s.name != "Keras" {
			continue
		}
		s.run(t, "make", folder)
		files = map[string]string{}
		files["Recurrent"] = converted(t, at("Recurrent.weights.h5"), at("Recurrent.safetensors"), "--to", "torch")
		for net, outputs := range map[string]string{"Multiple": "3", "Multiple1": "2"} {
			first := at(net + ".keras.safetensors")
			files[net] = converted(t, first, at(net+".safetensors"), "--to", "torch", "--kind", "depth=depthwise")
			back := converted(t, files[net], at(net+".back.safetensors"), "--to", "keras", "--kind",
				"depth=depthwise:"+outputs)
			sameFile(t, first, back, countsAside)
		}
		for net, recipe := range map[string]string{"VGG16": "vgg16", "VGG19": "vgg19", "MobileNetV2": "mobilenet_v2"} {
			first := at(net + ".weights.h5")
			files[net] = converted(t, first, at(net+".safetensors"), "--to", "torch")
			back := converted(t, files[net], at(net+".back.weights.h5"), "--to", "keras", "--recipe", recipe)
			sameFile(t, first, back, countsAside)
		}
		torch.holds(t, folder, files)
	}
}
