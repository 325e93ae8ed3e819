package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/weights"
)

func recorded(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(into); err != nil {
		t.Fatal(err)
	}
}

type oracle struct {
	Moves []struct {
		From, To string
		Shape    []int64
		Flat     []uint32
	}
	Casts []struct{ From, In, F16, F32, BF16 string }
}

// The oracle is numpy's transpose, for elements of one to eight bytes.
func TestMovesAreNumpys(t *testing.T) {
	var o oracle
	recorded(t, "numpy.json.gz", &o)
	for _, m := range o.Moves {
		mv, err := between(m.From, m.To, m.Shape)
		if err != nil {
			t.Fatal(err)
		}
		for _, element := range []int{1, 2, 4, 8} {
			in, want := make([]byte, len(m.Flat)*element), make([]byte, len(m.Flat)*element)
			for i, v := range m.Flat {
				putNumber(in[i*element:], uint32(i), element)
				putNumber(want[i*element:], v, element)
			}
			moved, err := readMoved(bytes.NewReader(in), mv, element, held)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(moved)
			plain, _ := io.ReadAll(newMover(in, mv, element))
			if err != nil || !bytes.Equal(got, want) || !bytes.Equal(plain, want) {
				t.Errorf("%s to %s of %d bytes: not numpy's transpose (%v)", m.From, m.To, element, err)
			}
		}
	}
}

func held(size int) []byte { return make([]byte, size) }

func putNumber(to []byte, v uint32, size int) {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], v)
	copy(to[:size], b[:])
}

// A tensor larger than a block comes in several, and is the same as element by element.
func TestMovesOfSeveralBlocks(t *testing.T) {
	for _, c := range []struct {
		from, to string
		shape    []int64
	}{
		{"OIHW", "HWIO", []int64{300, 100, 3, 3}}, {"OI", "IO", []int64{1, 270000}}, {"OI", "IO", []int64{3, 100001}},
		{"IO", "OI", []int64{100001, 3}}, {"OIHW", "OHWI", []int64{2, 2, 300, 301}}, {"OI", "IO", []int64{0, 5}},
		{"HWIO", "OIHW", []int64{1, 1, 500, 600}},
	} {
		mv, err := between(c.from, c.to, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := weights.Product(c.shape)
		in := make([]byte, n*4)
		for i := range n {
			binary.LittleEndian.PutUint32(in[i*4:], uint32(i)*2654435761)
		}
		var got []byte
		if mv.same() {
			got = in
		} else {
			moved, err := readMoved(bytes.NewReader(in), mv, 4, held)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(moved); err != nil {
				t.Fatal(err)
			}
		}
		if want := slowly(in, mv); !bytes.Equal(got, want) {
			t.Errorf("%s to %s of %v: not what moving it element by element gives", c.from, c.to, c.shape)
		}
	}
}

// slowly moves elements of four bytes one by one, by their indices.
func slowly(in []byte, m move) []byte {
	strides, step := make([]int64, len(m.shape)), int64(1)
	for i := len(m.shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= m.shape[i]
	}
	var out []byte
	index := make([]int64, len(m.by))
	for range step {
		at := int64(0)
		for d, i := range m.by {
			at += index[d] * strides[i]
		}
		out = append(out, in[at*4:at*4+4]...)
		for d := len(index) - 1; d >= 0; d-- {
			if index[d]++; index[d] < m.shape[m.by[d]] {
				break
			}
			index[d] = 0
		}
	}
	return out
}

// The oracle is numpy's astype, and ml_dtypes' for bfloat16.
func TestCastsAreNumpys(t *testing.T) {
	var o oracle
	recorded(t, "numpy.json.gz", &o)
	for _, c := range o.Casts {
		in, err := hex.DecodeString(c.In)
		if err != nil {
			t.Fatal(err)
		}
		for to, text := range map[weights.DType]string{weights.F16: c.F16, weights.F32: c.F32, weights.BF16: c.BF16} {
			if text == "" {
				continue
			}
			want, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			var over atomic.Int64
			got, err := io.ReadAll(newCaster(&stutter{in: in}, weights.DType(c.From), to, &over))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(want); i += int(to.Size()) {
				if end := i + int(to.Size()); !bytes.Equal(got[i:end], want[i:end]) {
					t.Errorf("%s to %s: element %d is %x, numpy's %x", c.From, to, i/int(to.Size()), got[i:end],
						want[i:end])
					break
				}
			}
			if c.From == "F64" && to == weights.F16 && over.Load() == 0 {
				t.Error("65520 and 1e300 fit no half, and none was counted")
			}
		}
	}
}

// The quick way to halves rounds as the general one, which is held against numpy's: at each half, at each border between
// two, and beside both.
func TestHalvesByTheirBits(t *testing.T) {
	var in []byte
	for h := range uint32(0x7c00) {
		at := math.Float32bits(float32(fromHalf(uint16(h))))
		border := math.Float32bits(float32((fromHalf(uint16(h)) + fromHalf(uint16(h+1))) / 2))
		if h == 0x7bff {
			border = math.Float32bits(65520)
		}
		for _, b := range []uint32{at, at + 1, border - 1, border, border + 1} {
			in = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(in, b), b|1<<31)
		}
	}
	for _, b := range []uint32{0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 1, 0x80000000} {
		in = binary.LittleEndian.AppendUint32(in, b)
	}
	n := len(in) / 4
	got, want, finite := make([]byte, 2*n), []byte{}, int64(0)
	over := halvesOf(in, got, n)
	for i := range n {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:])))
		h := toNarrow(v, 5, 10)
		if h&0x7fff == 0x7c00 && !math.IsInf(v, 0) {
			finite++
		}
		want = binary.LittleEndian.AppendUint16(want, h&0x7fff|uint16(in[4*i+3]&0x80)<<8) // of a NaN the sign may be lost
	}
	if !bytes.Equal(got, want) || over != finite || finite == 0 {
		t.Errorf("%d became infinite, want %d; or others differ", over, finite)
	}
}

// stutter gives five bytes at a time, so that elements are cut.
type stutter struct{ in []byte }

func (s *stutter) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 5)], s.in)
	s.in = s.in[n:]
	return n, nil
}

// tensor is one of made-up content: element i of tensor NAME is a number of both.
func tensor(name string, dtype weights.DType, shape ...int64) weights.Tensor {
	n, _ := weights.Product(shape)
	t := weights.Tensor{Name: name, DType: dtype, Shape: shape, Bytes: n * dtype.Size()}
	t.Open = func() (io.ReadCloser, error) {
		data := make([]byte, t.Bytes)
		for i := range data {
			data[i] = byte(i*7 + i>>8*13 + len(name))
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return t
}

func fileOf(format string, meta map[string]string, tensors ...weights.Tensor) *weights.File {
	return &weights.File{Path: "in", Format: format, Meta: meta, Tensors: tensors}
}

var recordedNames map[string]map[string]json.RawMessage

func networks(t *testing.T) map[string]map[string]json.RawMessage {
	t.Helper()
	if recordedNames == nil {
		recorded(t, "names.json.gz", &recordedNames)
	}
	return recordedNames
}

// namesOf are the tensors of a network, as a library has them, empty: of the right shapes and without bytes.
func namesOf(t *testing.T, name, format string, meta map[string]string) *weights.File {
	t.Helper()
	all := networks(t)
	f := fileOf(format, maps.Clone(meta))
	if f.Meta == nil {
		f.Meta = map[string]string{}
	}
	for _, tensorName := range slices.Sorted(maps.Keys(all[name])) {
		var shape []int64
		if err := json.Unmarshal(all[name][tensorName], &shape); err != nil {
			t.Fatal(err)
		}
		f.Tensors = append(f.Tensors, tensor(tensorName, weights.F32, shape...))
	}
	if len(f.Tensors) == 0 {
		t.Fatalf("%s is not recorded", name)
	}
	if network, h5 := strings.CutSuffix(name, " h5"); h5 {
		for group, raw := range all[network+" layers"] {
			var layer string
			if err := json.Unmarshal(raw, &layer); err != nil {
				t.Fatal(err)
			}
			f.Meta["layer:"+group] = layer
		}
	}
	return f
}

// Each network that a recipe knows, from each library to each other: every name and shape that comes out is the other
// library's, and every one of the other's comes out. The names were read from the libraries.
func TestRecipesGiveTheOthersNames(t *testing.T) {
	pt := map[string]string{"format": "pt"}
	for _, c := range []struct {
		from, format string
		meta         map[string]string
		to           layout.Framework
		want         string
		h5           bool
	}{
		{"vgg16 torch", "torch", nil, layout.Keras, "VGG16 keras", false},
		{"vgg16 torch", "torch", nil, layout.Keras, "VGG16 h5", true},
		{"VGG16 h5", "keras", nil, layout.Torch, "vgg16 torch", false},
		{"VGG16 keras", "npz", map[string]string{"format": "tf"}, layout.Torch, "vgg16 torch", false},
		{"resnet50 torch", "safetensors", pt, layout.MLX, "resnet50 mlx", false},
		{"resnet50 mlx", "safetensors", map[string]string{"format": "mlx"}, layout.Torch, "resnet50 torch", false},
		{"mobilenet_v2 torch", "torch", nil, layout.MLX, "mobilenet_v2 mlx", false},
		{"mobilenet_v2 torch", "torch", nil, layout.Keras, "MobileNetV2 keras", false},
		{"mobilenet_v2 torch", "torch", nil, layout.Keras, "MobileNetV2 h5", true},
		{"MobileNetV2 h5", "keras", nil, layout.MLX, "mobilenet_v2 mlx", false},
		{"vit_b_16 torch", "torch", nil, layout.MLX, "vit_base_patch16_224 mlx", false},
		{"vit_base_patch16_224 mlx", "safetensors", map[string]string{"format": "mlx"}, layout.Torch,
			"vit_b_16 torch", false},
		{"bert torch", "safetensors", pt, layout.MLX, "bert torch", false},
		// others of the same kinds: of more blocks, of fewer, wider
		{"resnet18 torch", "torch", nil, layout.MLX, "resnet18 mlx", false},
		{"resnet18 mlx", "safetensors", map[string]string{"format": "mlx"}, layout.Torch, "resnet18 torch", false},
		{"resnet101 torch", "torch", nil, layout.MLX, "resnet101 mlx", false},
		{"vit_l_16 torch", "torch", nil, layout.MLX, "vit_large_patch16_224 mlx", false},
		{"vit_large_patch16_224 mlx", "safetensors", map[string]string{"format": "mlx"}, layout.Torch, "vit_l_16 torch",
			false},
		{"vit_base_patch16_224 timm", "safetensors", pt, layout.MLX, "vit_base_patch16_224 mlx", false},
		{"mobilenet_v3_small torch", "torch", nil, layout.MLX, "mobilenet_v3_small mlx", false},
		{"mobilenet_v3_large torch", "torch", nil, layout.MLX, "mobilenet_v3_large mlx", false},
		{"mobilenet_v3_large mlx", "safetensors", map[string]string{"format": "mlx"}, layout.Torch,
			"mobilenet_v3_large torch", false},
		{"vgg19 torch", "torch", nil, layout.Keras, "VGG19 keras", false},
		{"vgg19 torch", "torch", nil, layout.Keras, "VGG19 h5", true},
		{"VGG19 h5", "keras", nil, layout.Torch, "vgg19 torch", false},
		{"bert-tiny torch", "safetensors", pt, layout.MLX, "bert-tiny torch", false},
	} {
		p, err := Make(namesOf(t, c.from, c.format, c.meta), Options{To: c.to, Keras: c.h5})
		if err != nil || p.Err() != nil {
			t.Errorf("%s to %s: %v %v", c.from, c.want, err, p.Err())
			continue
		}
		want := namesOf(t, c.want, "", nil)
		shapes := map[string][]int64{}
		for _, w := range want.Tensors {
			if !strings.HasSuffix(w.Name, "num_batches_tracked") {
				shapes[w.Name] = w.Shape
			}
		}
		for _, s := range p.Steps {
			if shape, ok := shapes[s.Out.Name]; !ok || !slices.Equal(shape, s.Out.Shape) {
				t.Errorf("%s to %s: %s %v is not the other's: %v", c.from, c.want, s.Out.Name, s.Out.Shape, shape)
			}
			delete(shapes, s.Out.Name)
		}
		for name := range shapes {
			t.Errorf("%s to %s: %s does not come out", c.from, c.want, name)
		}
	}
}

// Of each library's networks the right recipe is found, and each of their tensors has its place in it.
func TestEachNetworkHasItsRecipe(t *testing.T) {
	for network, recipe := range map[string]string{
		"vgg11 torch": "vgg11", "vgg13 torch": "vgg13", "vgg16 torch": "vgg16", "vgg19 torch": "vgg19",
		"vgg11_bn torch": "vgg11_bn", "vgg13_bn torch": "vgg13_bn", "vgg16_bn torch": "vgg16_bn",
		"vgg19_bn torch": "vgg19_bn",
		"resnet18 torch": "resnet-basic", "resnet50 torch": "resnet", "resnet101 torch": "resnet",
		"resnext50_32x4d torch": "resnet", "vit_b_16 torch": "vit", "vit_l_16 torch": "vit",
		"mobilenet_v2 torch": "mobilenet_v2", "mobilenet_v3_small torch": "mobilenet_v3_small",
		"mobilenet_v3_large torch": "mobilenet_v3_large", "bert-tiny torch": "bert", "gpt2-medium torch": "gpt2",
	} {
		p, err := Make(namesOf(t, network, "torch", nil), Options{To: layout.MLX})
		if err != nil || p.Err() != nil || p.Recipe == nil || p.Recipe.Name != recipe {
			t.Errorf("%s: %v; want the recipe %s", network, errors.Join(err, p.Err()), recipe)
		}
	}
}

// Of blocks that repeat the file says how many there are, and nothing else: what one of them lacks is missing by name,
// and what none has is refused by name.
func TestDepthIsTheFiles(t *testing.T) {
	tiny := func() *weights.File { return namesOf(t, "bert-tiny torch", "torch", nil) }
	with := func(f *weights.File, name string, shape ...int64) *weights.File {
		f.Tensors = append(f.Tensors, tensor(name, weights.F32, shape...))
		return f
	}
	for _, c := range []struct {
		what             string
		file             *weights.File
		missing, refused string
	}{
		{"a bias of a block dropped", without(tiny(), "encoder.layer.1.output.dense.bias"),
			"encoder.layer.1.output.dense.bias", ""},
		{"half of a pooler", without(tiny(), "pooler.dense.bias"), "pooler.dense.bias", ""},
		{"a block that is not whole", with(tiny(), "encoder.layer.2.output.dense.weight", 128, 512),
			"encoder.layer.2.attention.self.query.weight", ""},
		{"a number that no file of this size has",
			with(tiny(), "encoder.layer.999999999.output.dense.weight", 128, 512), "",
			"encoder.layer.999999999.output.dense.weight"},
		{"a number that does not end", with(tiny(), "encoder.layer.99999999999999999999.output.dense.weight", 1, 1),
			"", "encoder.layer.99999999999999999999.output.dense.weight"},
		{"a tensor of no module", with(tiny(), "encoder.layer.1.adapter.weight", 8, 8),
			"", "encoder.layer.1.adapter.weight"},
		{"a head of VGG16 without its bias", without(namesOf(t, "vgg16 torch", "torch", nil), "classifier.3.bias"),
			"classifier.3.bias", ""},
		{"VGG16 with another kernel", with(namesOf(t, "vgg16 torch", "torch", nil), "features.30.weight", 512, 512, 3,
			3), "", "features.30.weight"},
	} {
		p, err := Make(c.file, Options{To: layout.MLX})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if c.missing != "" && (len(p.Missing) == 0 || p.Missing[0].Name != c.missing) ||
			c.refused != "" && (len(p.Refused) != 1 || p.Refused[0].Name != c.refused) || p.Err() == nil {
			t.Errorf("%s: missing %v, refused %v", c.what, p.Missing, p.Refused)
		}
	}
	p, err := Make(namesOf(t, "gpt2-medium torch", "torch", nil), Options{To: layout.MLX})
	if err != nil || p.Err() != nil || !slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Out.Name == "model.h.23.mlp.c_proj.weight" && slices.Equal(s.Out.Shape, []int64{1024, 4096})
	}) {
		t.Errorf("the 24th block of gpt2-medium: %v", errors.Join(err, p.Err()))
	}
}

func TestResNetOfKerasIsRefused(t *testing.T) {
	_, err := Make(namesOf(t, "ResNet50 keras", "keras", nil), Options{To: layout.Torch})
	if err == nil || !strings.Contains(err.Error(), "not one network") || fault.HintOf(err) == "" {
		t.Errorf("refused with %v", err)
	}
}

// GPT-2's head is the embedding once more: it is refused by name, and what is left is mlx-lm's.
func TestGPT2(t *testing.T) {
	f := namesOf(t, "gpt2 torch", "torch", nil)
	p, err := Make(f, Options{To: layout.MLX})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Refused) != 1 || p.Refused[0].Name != "lm_head.weight" || len(p.Missing) != 0 {
		t.Errorf("refused %v, missing %v", p.Refused, p.Missing)
	}
	for _, s := range p.Steps {
		if s.Out.Name == "model.h.0.attn.c_attn.weight" && !slices.Equal(s.Out.Shape, []int64{2304, 768}) {
			t.Errorf("c_attn is %v, and mlx-lm has out × in", s.Out.Shape)
		}
	}
}

// There and back gives the very bytes, each kind between each two frameworks.
func TestThereAndBack(t *testing.T) {
	kinds := map[layout.Kind][]int64{
		layout.Conv1D: {8, 6, 5}, layout.Conv2D: {8, 6, 3, 5}, layout.Conv3D: {8, 6, 2, 3, 4},
		layout.ConvTranspose1D: {8, 6, 5}, layout.ConvTranspose2D: {8, 6, 3, 5}, layout.ConvTranspose3D: {8, 6, 2, 3,
			4},
		layout.Depthwise2D: {8, 1, 3, 5}, layout.Dense: {8, 6}, layout.Embedding: {8, 6}, layout.DenseInOut: {8, 6},
	}
	for kind, shape := range kinds {
		for _, over := range []layout.Framework{layout.Keras, layout.MLX} {
			word := strings.TrimRight(string(kind), "123d")
			if kind == layout.Embedding {
				word = "embedding"
			}
			start := tensor("a.weight", weights.F32, shape...)
			rule := func() []Rule { return []Rule{{Pattern: "*", Value: word}} }
			there, err := Make(fileOf("torch", nil, start), Options{To: over, Kinds: rule()})
			if err != nil || there.Err() != nil {
				t.Fatalf("%s to %s: %v %v", kind, over, err, there.Err())
			}
			back, err := Make(fileOf("safetensors", there.Meta, there.Steps[0].Out), Options{To: layout.Torch,
				Kinds: rule()})
			if err != nil || back.Err() != nil {
				t.Fatalf("%s from %s: %v %v", kind, over, err, back.Err())
			}
			if !bytes.Equal(content(t, start), content(t, back.Steps[0].Out)) {
				t.Errorf("%s to %s and back is another", kind, over)
			}
		}
	}
}

func content(t *testing.T, tensor weights.Tensor) []byte {
	t.Helper()
	r, err := tensor.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != tensor.Bytes {
		t.Fatalf("%s: %d bytes, said are %d", tensor.Name, len(data), tensor.Bytes)
	}
	return data
}

func TestWriteAndReadBack(t *testing.T) {
	f := fileOf("torch", nil, tensor("a.weight", weights.F32, 512, 700, 1, 3), tensor("a.bias", weights.F32, 512),
		tensor("n", weights.I64))
	p, err := Make(f, Options{To: layout.MLX, Kinds: []Rule{{Pattern: "a", Value: "conv"}}})
	if err != nil || p.Err() != nil {
		t.Fatal(err, p.Err())
	}
	outs := p.Outs()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	w, err := weights.Create(path, p.Meta, outs)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if err := errors.Join(Write(outs, w), w.Verify(), w.Commit()); err != nil {
		t.Fatal(err)
	}
	back, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	written := map[string][]byte{}
	for _, o := range back.Tensors {
		written[o.Name] = content(t, o)
	}
	for i, o := range outs {
		if want := content(t, p.Steps[i].Out); !bytes.Equal(written[o.Name], want) {
			t.Errorf("%s was written otherwise", o.Name)
		}
	}
	again, err := Make(back, Options{To: layout.MLX})
	if err != nil || !again.Same {
		t.Fatalf("%v, from %s to %s", err, again.From, again.To)
	}
	if !bytes.Equal(content(t, again.Steps[0].Out), written[again.Steps[0].Out.Name]) {
		t.Error("converting twice changed it")
	}
}
