package convert

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"assay/internal/layout"
	"assay/internal/weights"
)

// recordedTensor is what is recorded of a tensor.
type recordedTensor struct {
	Shape []int64
	Data  string
}

func (h recordedTensor) tensor(t *testing.T, name string) weights.Tensor {
	t.Helper()
	data, err := hex.DecodeString(h.Data)
	if err != nil {
		t.Fatal(err)
	}
	return weights.Tensor{Name: name, DType: weights.F32, Shape: h.Shape, Bytes: int64(len(data)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// The oracle is the frameworks: recurrent layers as PyTorch, Keras and MLX hold them, with which the three give the
// same output (testdata/record_recurrent.py). From each to each other they come out as that one has them, where
// PyTorch's second bias is zero for what has one bias.
func TestRecurrentAreTheFrameworks(t *testing.T) {
	var o struct {
		Nets map[string]map[layout.Framework]map[string]recordedTensor
	}
	recorded(t, "recurrent.json.gz", &o)
	if len(o.Nets) != 8 {
		t.Fatalf("%d nets are recorded", len(o.Nets))
	}
	for net, sides := range o.Nets {
		for from, tensors := range sides {
			f := fileOf("npz", map[string]string{"assay.layout": string(from)})
			for _, name := range sortedNames(tensors) {
				f.Tensors = append(f.Tensors, tensors[name].tensor(t, name))
			}
			for to, want := range sides {
				p, err := Make(f, Options{To: to})
				if err != nil || p.Err() != nil {
					t.Errorf("%s from %s to %s: %v %v", net, from, to, err, p.Err())
					continue
				}
				if len(p.Steps) != len(want) {
					t.Errorf("%s from %s to %s: %d tensors, want %d", net, from, to, len(p.Steps), len(want))
				}
				for _, s := range p.Steps {
					w := want[s.Out.Name]
					if !slices.Equal(w.Shape, s.Out.Shape) || hex.EncodeToString(content(t, s.Out)) != w.Data {
						t.Errorf("%s from %s to %s: %s %v is not as %s holds it: %v", net, from, to, s.Out.Name, s.Out.Shape,
							to, w.Shape)
					}
				}
			}
		}
	}
}

func sortedNames(tensors map[string]recordedTensor) []string {
	var names []string
	for name := range tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rnn is a module of PyTorch's.
func rnn(gates, width, wide int64, layers, directions int) *weights.File {
	f := fileOf("torch", nil)
	for l := range layers {
		in := wide
		if l > 0 {
			in = width * int64(directions)
		}
		for d := range directions {
			end := "_l" + string(rune('0'+l)) + []string{"", "_reverse"}[d]
			f.Tensors = append(f.Tensors, tensor("r.weight_ih"+end, weights.F32, gates*width, in),
				tensor("r.weight_hh"+end, weights.F32, gates*width, width),
				tensor("r.bias_ih"+end, weights.F32, gates*width), tensor("r.bias_hh"+end, weights.F32, gates*width))
		}
	}
	return f
}

func renamed(f *weights.File, from, to string) *weights.File {
	for i, t := range f.Tensors {
		if t.Name == from {
			f.Tensors[i].Name = to
		}
	}
	return f
}

// Two biases become one, which is said; a GRU's between PyTorch and Keras stay two, and come back bit for bit.
func TestTwoBiasesBecomeOne(t *testing.T) {
	for _, c := range []struct {
		file *weights.File
		to   layout.Framework
		said bool
	}{
		{rnn(4, 5, 3, 2, 2), layout.Keras, true}, {rnn(4, 5, 3, 1, 1), layout.MLX, true},
		{rnn(3, 5, 3, 1, 1), layout.MLX, true},
		{rnn(3, 5, 3, 2, 2), layout.Keras, false}, {rnn(1, 5, 3, 1, 1), layout.Keras, true},
	} {
		p, err := Make(c.file, Options{To: c.to})
		if err != nil || p.Err() != nil {
			t.Fatal(err, p.Err())
		}
		if said := strings.Contains(strings.Join(p.Notes, "\n"), "sum of two biases"); said != c.said {
			t.Errorf("to %s: notes %q", c.to, p.Notes)
		}
		if c.said {
			continue
		}
		there := fileOf("safetensors", p.Meta)
		for _, s := range p.Steps {
			there.Tensors = append(there.Tensors, s.Out)
		}
		back, err := Make(there, Options{To: layout.Torch})
		if err != nil || back.Err() != nil || len(back.Steps) != len(c.file.Tensors) {
			t.Fatal(err, back.Err())
		}
		for _, s := range back.Steps {
			i := slices.IndexFunc(c.file.Tensors, func(x weights.Tensor) bool { return x.Name == s.Out.Name })
			if i < 0 || !bytes.Equal(content(t, c.file.Tensors[i]), content(t, s.Out)) {
				t.Errorf("%s came back as another", s.Out.Name)
			}
		}
	}
}

// A sum is rounded once to the type, and what is added to zero stays as it is.
func TestSums(t *testing.T) {
	for _, c := range []struct {
		dtype       weights.DType
		a, b, total string
	}{
		{weights.F32, "0000803f", "000000bf", "0000003f"}, {weights.F32, "00000080", "00000000", "00000080"},
		{weights.F32, "0000803f", "00008033", "0000803f"}, // 1 + 2^-24: a tie, to even
		{weights.F64, "000000000000f03f", "000000000000f03f", "0000000000000040"},
		{weights.F16, "003c", "0010", "003c"}, {weights.BF16, "803f", "803f", "0040"},
		{weights.F16, "ff7b", "ff7b", "007c"},
	} {
		a, _ := hex.DecodeString(c.a)
		b, _ := hex.DecodeString(c.b)
		addFloat(c.dtype, a, b)
		if got := hex.EncodeToString(a); got != c.total {
			t.Errorf("%s: %s + %s = %s, want %s", c.dtype, c.a, c.b, got, c.total)
		}
	}
}

// What is not exact, or not whole, is refused by the tensor that shows it.
func TestRecurrentRefusals(t *testing.T) {
	keras := func(gates, width int64, bias ...int64) *weights.File {
		f := fileOf("keras", map[string]string{}, tensor("g/kernel", weights.F32, 3, gates*width),
			tensor("g/recurrent_kernel", weights.F32, width, gates*width))
		if bias != nil {
			f.Tensors = append(f.Tensors, tensor("g/bias", weights.F32, bias...))
		}
		return f
	}
	// dropped is a file without the tensors of a layer and direction
	dropped := func(f *weights.File, end string) *weights.File {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(t weights.Tensor) bool { return strings.HasSuffix(t.Name, end) })
		return f
	}
	for _, c := range []struct {
		what, named, why string
		file             *weights.File
		to               layout.Framework
	}{
		{"a GRU with reset_after=False", "g/bias", "reset_after=False", keras(3, 5, 15), layout.Torch},
		{"a GRU that does not say", "g/kernel", "does not say whether it has reset_after", keras(3, 5), layout.MLX},
		{"five gates", "g/recurrent_kernel", "no LSTM", keras(5, 5, 25), layout.Torch},
		{"a bias of another width", "g/bias", "(20)", keras(4, 5, 15), layout.Torch},
		{"a bias dropped", "r.weight_ih_l0", "one is not there", without(rnn(4, 5, 3, 1, 1), "r.bias_hh_l0"),
			layout.MLX},
		{"a kernel dropped", "r.bias_hh_l0", "r.weight_hh_l0", without(rnn(4, 5, 3, 1, 1), "r.weight_hh_l0"),
			layout.MLX},
		{"a layer dropped", "r.weight_ih_l1", "no layer 0", dropped(rnn(4, 5, 3, 2, 1), "_l0"), layout.Keras},
		{"a direction dropped", "r.weight_ih_l1", "takes 10 inputs", dropped(rnn(4, 5, 3, 2, 2), "_reverse"),
			layout.MLX},
		{"half of a direction dropped", "r.weight_ih_l1_reverse", "no layer 0",
			dropped(rnn(4, 5, 3, 2, 2), "_l0_reverse"), layout.MLX},
		{"a projection", "r.weight_hr_l0", "proj_size",
			renamed(rnn(4, 5, 3, 1, 1), "r.bias_hh_l0", "r.weight_hr_l0"), layout.MLX},
		{"a kernel transposed", "r.weight_ih_l0", "does not go with",
			permuted(rnn(4, 5, 3, 1, 1), "r.weight_ih_l0", 1, 0), layout.MLX},
	} {
		p, err := Make(c.file, Options{To: c.to})
		if err == nil {
			err = p.Err()
		}
		said := fmt.Sprint(err)
		if !strings.Contains(said, "refused: "+c.named+": ") || !strings.Contains(said, c.why) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// a user's own cell of Keras's is no LSTM, whatever its shapes are
	own := fileOf("keras", map[string]string{"layer:layers/rnn/cell": "my_cell"},
		tensor("layers/rnn/cell/vars/0", weights.F32, 3, 20), tensor("layers/rnn/cell/vars/1", weights.F32, 5, 20),
		tensor("layers/rnn/cell/vars/2", weights.F32, 20))
	if p, err := Make(own, Options{To: layout.Torch}); err != nil || len(p.Refused) == 0 {
		t.Errorf("a cell of the user's own: %v, refused %v", err, p.Refused)
	}
	// a rule of the user's is stronger
	p, err := Make(rnn(4, 5, 3, 1, 1), Options{To: layout.MLX, Kinds: []Rule{{Pattern: "r.*", Value: "plain"}}})
	if err != nil || p.Err() != nil || len(p.Steps) != 4 || p.Steps[0].Out.Name != "r.weight_ih_l0" {
		t.Errorf("copied as plain: %v", err)
	}
}

// Files as Keras writes them: cells in groups of .weights.h5, in .h5, and by the paths of variables.
func TestRecurrentOfKerasFiles(t *testing.T) {
	h5 := fileOf("keras", map[string]string{"layer:layers/lstm": "enc", "layer:layers/lstm/cell": "lstm_cell",
		"layer:layers/bidirectional": "bi", "layer:layers/bidirectional/forward_layer": "forward_gru",
		"layer:layers/bidirectional/forward_layer/cell":  "gru_cell",
		"layer:layers/bidirectional/backward_layer/cell": "gru_cell"},
		tensor("layers/lstm/cell/vars/0", weights.F32, 5, 16), tensor("layers/lstm/cell/vars/1", weights.F32, 4, 16),
		tensor("layers/lstm/cell/vars/2", weights.F32, 16))
	paths := fileOf("keras", map[string]string{}, tensor("s/enc/lstm_cell/kernel", weights.F32, 5, 16),
		tensor("s/enc/lstm_cell/recurrent_kernel", weights.F32, 4, 16), tensor("s/enc/lstm_cell/bias", weights.F32, 16))
	saved := fileOf("keras", map[string]string{},
		tensor("model_weights/enc/s/enc/lstm_cell/kernel", weights.F32, 5, 16),
		tensor("model_weights/enc/s/enc/lstm_cell/recurrent_kernel", weights.F32, 4, 16),
		tensor("model_weights/enc/s/enc/lstm_cell/bias", weights.F32, 16))
	for _, d := range []string{"forward", "backward"} {
		at := "layers/bidirectional/" + d + "_layer/cell/vars/"
		h5.Tensors = append(h5.Tensors, tensor(at+"0", weights.F32, 4, 9), tensor(at+"1", weights.F32, 3, 9),
			tensor(at+"2", weights.F32, 2, 9))
		for f, at := range map[*weights.File]string{paths: "s/bi/" + d + "_gru_1/gru_cell/",
			saved: "model_weights/bi/s/bi/" + d + "_gru/gru_cell/"} {
			f.Tensors = append(f.Tensors, tensor(at+"kernel", weights.F32, 4, 9),
				tensor(at+"recurrent_kernel", weights.F32, 3, 9), tensor(at+"bias", weights.F32, 2, 9))
		}
	}
	for f, module := range map[*weights.File]string{h5: "", paths: "s.", saved: ""} {
		p, err := Make(f, Options{To: layout.Torch})
		if err != nil || p.Err() != nil {
			t.Fatal(err, p.Err())
		}
		var names []string
		for _, s := range p.Steps {
			names = append(names, strings.TrimPrefix(s.Out.Name, module))
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "bi.bias_hh_l0 bi.bias_hh_l0_reverse bi.bias_ih_l0 bi.bias_ih_l0_reverse "+
			"bi.weight_hh_l0 bi.weight_hh_l0_reverse bi.weight_ih_l0 bi.weight_ih_l0_reverse "+
			"enc.bias_hh_l0 enc.bias_ih_l0 enc.weight_hh_l0 enc.weight_ih_l0" {
			t.Errorf("names: %s", got)
		}
	}
}

// A file that says nothing of itself says it by the names of its recurrent layers.
func TestRecurrentNamesTell(t *testing.T) {
	f := rnn(4, 5, 5, 1, 1)
	f.Format = "npz"
	p, err := Make(f, Options{To: layout.Keras})
	if err != nil || p.Err() != nil || p.From != layout.Torch {
		t.Fatal(err)
	}
}
