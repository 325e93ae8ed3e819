package convert

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/weights"
)

// The oracle is the frameworks: of each kind one layer is recorded as PyTorch, Keras and MLX hold it, with which the
// three give the same output (testdata/record_layers.py). From each to each other it comes out as that one has it.
func TestLayersAreTheFrameworks(t *testing.T) {
	type held struct {
		Shape []int64
		Data  string
	}
	var o struct {
		Layers map[string]map[string]json.RawMessage
	}
	recorded(t, "layers.json.gz", &o)
	if len(o.Layers) != 10 {
		t.Fatalf("%d layers are recorded", len(o.Layers))
	}
	for name, layer := range o.Layers {
		var kind string
		if err := json.Unmarshal(layer["kind"], &kind); err != nil {
			t.Fatal(err)
		}
		as := map[layout.Framework]weights.Tensor{}
		for _, f := range layout.Frameworks {
			var h held
			if err := json.Unmarshal(layer[string(f)], &h); err != nil {
				t.Fatal(err)
			}
			data, err := hex.DecodeString(h.Data)
			if err != nil {
				t.Fatal(err)
			}
			as[f] = weights.Tensor{Name: map[bool]string{true: "a/kernel", false: "a.weight"}[f == layout.Keras],
				DType: weights.F32, Shape: h.Shape, Bytes: int64(len(data)),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
		}
		for _, from := range layout.Frameworks {
			for _, to := range layout.Frameworks {
				opts := Options{From: from, To: to, Kinds: []Rule{{Pattern: "a", Value: kind}}}
				if name == "flat" {
					opts.Kinds, opts.Flatten = nil, []Rule{{Pattern: "a", Value: "3x2x5"}}
				}
				p, err := Make(fileOf("npz", nil, as[from]), opts)
				if err != nil || p.Err() != nil {
					t.Fatalf("%s from %s to %s: %v %v", name, from, to, err, p.Err())
				}
				got, want := p.Steps[0].Out, as[to]
				if got.Name != want.Name || !slices.Equal(got.Shape, want.Shape) ||
					!bytes.Equal(content(t, got), content(t, want)) {
					t.Errorf("%s from %s to %s: %s %v is not as %s holds it: %s %v", name, from, to, got.Name, got.Shape,
						to, want.Name, want.Shape)
				}
			}
		}
	}
}

// permuted is a tensor whose shape says that somebody transposed it.
func permuted(f *weights.File, name string, by ...int) *weights.File {
	for i, t := range f.Tensors {
		if t.Name == name {
			shape := make([]int64, len(by))
			for at, from := range by {
				shape[at] = t.Shape[from]
			}
			f.Tensors[i] = tensor(name, t.DType, shape...)
		}
	}
	return f
}

func without(f *weights.File, name string) *weights.File {
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t weights.Tensor) bool { return t.Name == name })
	return f
}

// Ten faults, each in a file that is right otherwise: found by the check of the layout, or refused by name.
func TestSeededFaults(t *testing.T) {
	vgg := func() *weights.File { return namesOf(t, "vgg16 torch", "torch", nil) }
	pt := map[string]string{"format": "pt"}
	all := func(f *weights.File, by ...int) *weights.File {
		for _, x := range slices.Clone(f.Tensors) {
			if len(x.Shape) == 4 {
				f = permuted(f, x.Name, by...)
			}
		}
		return f
	}
	for _, c := range []struct {
		fault string
		file  *weights.File
		named string // in the error
		check int    // exit status of the check for PyTorch's layout; 0: only converting finds it
	}{
		{"a kernel as HWIO", permuted(vgg(), "features.10.weight", 2, 3, 1, 0), "features.10.weight", fault.GateFailed},
		{"a kernel as OHWI", permuted(vgg(), "features.5.weight", 0, 2, 3, 1), "features.5.weight", fault.GateFailed},
		{"a kernel with inputs and outputs exchanged", permuted(vgg(), "features.17.weight", 1, 0, 2, 3),
			"features.17.weight",
			fault.GateFailed},
		{"a dense layer transposed", permuted(vgg(), "classifier.0.weight", 1, 0), "classifier.0.weight",
			fault.GateFailed},
		{"all to OHWI twice", all(vgg(), 0, 3, 1, 2), "", fault.GateFailed},
		{"to OHWI, and says pt", all(namesOf(t, "vgg16 torch", "safetensors", pt), 0, 2, 3, 1), "", fault.GateFailed},
		{"a second transposition of one", permuted(vgg(), "features.12.weight", 0, 3, 1, 2), "features.12.weight",
			fault.GateFailed},
		{"a bias dropped", without(vgg(), "features.7.bias"), "features.7.bias", 0},
		{"a kernel dropped", without(vgg(), "features.28.weight"), "features.28.weight", 0},
		{"a statistic dropped", without(namesOf(t, "mobilenet_v2 torch", "torch", nil),
			"features.3.conv.0.1.running_var"),
			"features.3.conv.0.1.running_var", 0},
	} {
		err := CheckLayout("in", Layout(c.file), layout.Torch)
		if c.check != 0 {
			if fault.CodeOf(err) != c.check || !strings.Contains(err.Error(), c.named) {
				t.Errorf("%s: the check says %v (%d)", c.fault, err, fault.CodeOf(err))
			}
			if c.fault == "to OHWI, and says pt" {
				continue // it is MLX's, converted rightly by that
			}
		}
		p, err := Make(c.file, Options{To: layout.Keras})
		if err == nil {
			err = p.Err()
		}
		if err == nil || !strings.Contains(err.Error(), c.named) {
			t.Errorf("%s: converting it says %v", c.fault, err)
		}
	}
	if err := CheckLayout("in", Layout(vgg()), layout.Torch); err != nil {
		t.Errorf("no fault: %v", err)
	}
	if err := CheckLayout("in", Layout(vgg()), layout.MLX); fault.CodeOf(err) != fault.GateFailed {
		t.Errorf("of PyTorch, held against MLX: %v", err)
	}
}

// What is refused, and with what would tell.
func TestRefusals(t *testing.T) {
	conv := tensor("c.weight", weights.F32, 16, 8, 3, 3)
	bias := tensor("c.bias", weights.F32, 16)
	square := tensor("s.weight", weights.F32, 16, 16, 3, 3)
	for _, c := range []struct {
		what, tell string
		file       *weights.File
		to         layout.Framework
	}{
		{"a square kernel", "--kind 's.weight=conv'", fileOf("torch", nil, square, tensor("s.bias", weights.F32,
			16)), layout.MLX},
		{"a kernel without a bias", "--kind 's.weight=conv'", fileOf("torch", nil, square), layout.Keras},
		// it went through as a dense layer: nothing says that it is no table of anchors, or a parameter
		{"a table without a bias, from PyTorch", "--kind 't.weight=dense'", fileOf("torch", nil, tensor("t.weight",
			weights.F32, 100, 16)), layout.Keras},
		{"a table without a bias, from Keras", "--kind 't/anchors=dense'", fileOf("keras", nil, tensor("t/anchors",
			weights.F32, 100, 16)), layout.MLX},
		{"a dense layer, maybe behind a flatten", "--flatten 'd.weight=CxHxW'",
			fileOf("torch", nil, conv, bias, tensor("d.weight", weights.F32, 10, 144), tensor("d.bias", weights.F32,
				10)), layout.MLX},
		{"a cell that stands alone", "nn.LSTM", fileOf("torch", nil, tensor("r.weight_ih", weights.F32, 32, 8)),
			layout.MLX},
		{"a Conv1D of transformers", "dense-in-out", fileOf("torch", nil, tensor("h.c_attn.weight", weights.F32, 8, 24),
			tensor("h.c_attn.bias", weights.F32, 24)), layout.MLX},
		{"blocks", "", fileOf("torch", nil, weights.Tensor{Name: "c.weight", DType: "Q4_K", Shape: []int64{16, 8, 3,
			3}}, bias),
			layout.MLX},
	} {
		p, err := Make(c.file, Options{To: c.to})
		if err == nil {
			err = p.Err()
		}
		if err == nil || !strings.Contains(fault.HintOf(err), c.tell) {
			t.Errorf("%s: %v, hint %q; want %q", c.what, err, fault.HintOf(err), c.tell)
		}
	}
	untold := fileOf("npz", nil, tensor("a.weight", weights.F32, 64, 3, 3, 3), tensor("a.bias", weights.F32, 64))
	if _, err := Make(untold, Options{To: layout.Keras}); err == nil || !strings.Contains(fault.HintOf(err), "--from") {
		t.Errorf("a file that does not tell: %v", err)
	}
	unused := Options{To: layout.MLX, Kinds: []Rule{{Pattern: "nothing", Value: "conv"}}}
	if _, err := Make(fileOf("torch", nil, conv, bias), unused); fault.CodeOf(err) != fault.Usage {
		t.Errorf("a rule that fits nothing: %v", err)
	}
}

// A depthwise kernel of more than one output for each input comes back as it was where that is said, and what cannot be
// is refused.
func TestDepthwiseMultiple(t *testing.T) {
	start := tensor("a/kernel", weights.F32, 3, 5, 4, 2)
	there, err := Make(fileOf("keras", nil, start), Options{To: layout.Torch, Kinds: []Rule{{Pattern: "a",
		Value: "depthwise"}}})
	if err != nil || there.Err() != nil || !slices.Equal(there.Steps[0].Out.Shape, []int64{8, 1, 3, 5}) {
		t.Fatal(err, there.Err())
	}
	for value, want := range map[string][]int64{"depthwise:2": {3, 5, 4, 2}, "depthwise": {3, 5, 8, 1}, "depthwise:3": nil} {
		back, err := Make(fileOf("torch", nil, there.Steps[0].Out), Options{To: layout.Keras, Kinds: []Rule{{Pattern: "a",
			Value: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			if back.Err() == nil {
				t.Errorf("%s of eight outputs is not refused", value)
			}
			continue
		}
		if back.Err() != nil || !slices.Equal(back.Steps[0].Out.Shape, want) ||
			value == "depthwise:2" && !bytes.Equal(content(t, start), content(t, back.Steps[0].Out)) {
			t.Errorf("%s: %v", value, back.Err())
		}
	}
	for _, text := range []string{"depthwise:0", "depthwise:x", "conv:2", "depthwise:", "pooling"} {
		if _, _, err := ParseKind(text); err == nil {
			t.Errorf("%s is a kind", text)
		}
	}
}

// MSI-Net: in Keras 3's .weights.h5 a group is an attribute, and aspp_conv2 is the branch of dilation 4, whose layer is
// aspp_conv1_2; the layer aspp_conv2 is the group aspp_conv_out.
func TestMSINetsTrap(t *testing.T) {
	r, err := FindRecipe("msinet")
	if err != nil {
		t.Fatal(err)
	}
	f := fileOf("torch", nil)
	modules, err := r.modules(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		f.Tensors = append(f.Tensors, tensor(m.Names[0][0]+".weight", weights.F32, 16, 8, 3, 3),
			tensor(m.Names[0][0]+".bias", weights.F32, 16))
	}
	there, err := Make(f, Options{To: layout.Keras, Keras: true})
	if err != nil || there.Err() != nil || len(there.Steps) != 46 {
		t.Fatal(err, there.Err())
	}
	for _, s := range there.Steps {
		if s.From[0] == "aspp.conv1_2.weight" && s.Out.Name != "aspp_conv2/vars/0" ||
			s.From[0] == "aspp.conv2.weight" && s.Out.Name != "aspp_conv_out/vars/0" {
			t.Errorf("%s becomes %s", s.From[0], s.Out.Name)
		}
	}
	if there.Layers["aspp_conv2"] != "aspp_conv1_2" || there.Layers["aspp_conv_out"] != "aspp_conv2" {
		t.Errorf("names of layers: %v", there.Layers)
	}
	// back, from a file with the names of layers (Keras 3), and from one whose groups are numbered (Keras 2.15)
	named, numbered := fileOf("keras", map[string]string{}), fileOf("keras", map[string]string{})
	for group, layer := range there.Layers {
		named.Meta["layer:"+group] = layer
	}
	for i, s := range there.Steps {
		named.Tensors = append(named.Tensors, s.Out)
		group := "layers/conv2d"
		if i > 1 {
			group += "_" + strconv.Itoa(i/2)
		}
		out := s.Out
		out.Name = group + "/vars/" + strconv.Itoa(i%2)
		numbered.Tensors = append(numbered.Tensors, out)
	}
	if p, err := Make(numbered, Options{To: layout.Torch}); err != nil || p.Recipe != nil {
		t.Errorf("numbers alone are taken for a recipe's: %v", err)
	}
	for _, file := range []*weights.File{named, numbered} {
		back, err := Make(file, Options{To: layout.Torch, Recipe: "msinet"})
		if err != nil || back.Err() != nil || len(back.Steps) != 46 {
			t.Fatal(err, back.Err())
		}
		for i, s := range back.Steps {
			if s.Out.Name != f.Tensors[i].Name || !bytes.Equal(content(t, s.Out), content(t, f.Tensors[i])) {
				t.Errorf("%s comes back as %s, or another", f.Tensors[i].Name, s.Out.Name)
			}
		}
	}
	if _, err := Make(fileOf("torch", nil, tensor("a.bias", weights.F32, 3)), Options{To: layout.Keras,
		Keras: true}); err == nil {
		t.Error("a .weights.h5 without a recipe has no names")
	}
}

// From PyTorch to PyTorch nothing is lost, and half types are written without another word on layouts.
func TestTypesAlone(t *testing.T) {
	f := namesOf(t, "resnet50 torch", "torch", nil)
	for i, x := range f.Tensors {
		if strings.HasSuffix(x.Name, "num_batches_tracked") {
			f.Tensors[i] = tensor(x.Name, weights.I64)
		}
	}
	p, err := Make(f, Options{DType: weights.BF16})
	if err != nil || p.Err() != nil || len(p.Steps) != len(f.Tensors) {
		t.Fatalf("%d of %d tensors: %v %v", len(p.Steps), len(f.Tensors), err, p.Err())
	}
	for _, s := range p.Steps {
		integer := strings.HasSuffix(s.Out.Name, "num_batches_tracked")
		if s.Order != "" || integer && s.Out.DType != weights.I64 || !integer && s.Out.DType != weights.BF16 {
			t.Errorf("%s: %s, %q", s.Out.Name, s.Out.DType, s.Order)
		}
	}
}
