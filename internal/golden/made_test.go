package golden

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/weights"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// made is a golden file of a test's own: a small net with batch norm, two dilated branches, a pool that is padded on
// one side, and a resize. Its numbers are random: what is compared is what is written.
type made struct {
	Meta
	names   []string
	tensors map[string]array
}

// random values, the same for a name.
func random(name string, shape ...int64) array {
	seed := uint64(7)
	for _, c := range name {
		seed = seed*131 + uint64(c)
	}
	r, n := rand.New(rand.NewPCG(seed, 1)), int64(1)
	for _, d := range shape {
		n *= d
	}
	a := array{shape: shape, values: make([]float64, n)}
	for i := range a.values {
		a.values[i] = r.NormFloat64()
	}
	return a
}

func (m *made) put(name string, a array) {
	if _, ok := m.tensors[name]; !ok {
		m.names = append(m.names, name)
	}
	m.tensors[name] = a
}

var netWeights = []struct {
	name  string
	shape []int64
}{
	{"conv1.weight", []int64{4, 3, 3, 3}}, {"conv1.bias", []int64{4}},
	{"bn1.weight", []int64{4}}, {"bn1.bias", []int64{4}}, {"bn1.running_mean", []int64{4}},
	{"bn1.running_var", []int64{4}},
	{"branch2.weight", []int64{4, 4, 3, 3}}, {"branch2.bias", []int64{4}},
	{"branch4.weight", []int64{4, 4, 3, 3}}, {"branch4.bias", []int64{4}},
	{"mix.weight", []int64{4, 8, 1, 1}}, {"mix.bias", []int64{4}},
	{"head.weight", []int64{2, 4, 3, 3}}, {"head.bias", []int64{2}},
}

func from(n int) *int { return &n }

func net() *made {
	m := &made{tensors: map[string]array{}}
	conv := func(name string, dilation float64) Module {
		return Module{name, "Conv2d", map[string]any{"stride": []any{1.0, 1.0}, "padding": []any{dilation, dilation},
			"dilation": []any{dilation, dilation}, "kernel": []any{3.0, 3.0}, "groups": 1.0}, true}
	}
	m.Meta = Meta{Version: Version, Framework: "torch", Release: "0", Device: "cpu", File: "net.py", Function: "model",
		Layout: "NCHW", Training: true, Losses: []Number{1.5}, Loss: "the file's",
		Optimizer: map[string]any{"class": "Adam", "rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
			"bias_correction": true, "epsilon_after_correction": true},
		Modules: []Module{conv("conv1", 1),
			{"bn1", "BatchNorm2d", map[string]any{"epsilon": 1e-5, "momentum": 0.1}, true},
			{"pool", "SamePool", map[string]any{}, true}, conv("branch2", 2), conv("branch4", 4), conv("mix", 1),
			{"up", "Upsample", map[string]any{"mode": "bilinear", "align_corners": false, "scale": 2.0}, true},
			conv("head", 1)},
		Calls: []Call{{"conv1", "Conv2d", true, from(-1)}, {"bn1", "BatchNorm2d", true, from(0)},
			{"pool", "SamePool", true, from(-1)}, {"branch2", "Conv2d", true, from(2)},
			{"branch4", "Conv2d", true, from(2)},
			{"mix", "Conv2d", true, from(-1)}, {"up", "Upsample", true, from(5)}, {"head", "Conv2d", true, from(6)},
			{"", "Net", false, from(-1)}},
		Kinds: map[string]string{}}
	m.put("input/0", random("input", 1, 3, 6, 8))
	for _, w := range netWeights {
		module, _ := cutLast(w.name)
		m.Kinds[w.name] = "Conv2d"
		if module == "bn1" {
			m.Kinds[w.name] = "BatchNorm2d"
		}
		m.put("weight/"+w.name, random(w.name, w.shape...))
	}
	for i, call := range m.Calls {
		m.put("call/"+strconv.Itoa(i), random("call"+call.Module, 1, 4, 6, 8))
		if *call.From < 0 {
			m.put("fed/"+strconv.Itoa(i), random("fed"+call.Module, 1, 8, 6, 8))
		}
	}
	m.put("output/0", random("output", 1, 2, 12, 16))
	for _, w := range netWeights {
		if !strings.Contains(w.name, "running") {
			m.put("gradient/"+w.name, random("gradient"+w.name, w.shape...))
		}
		step, after := 0.001, random("update"+w.name, w.shape...)
		if strings.Contains(w.name, "running") {
			step = 1 // they move a thousand times as far
		}
		for i, v := range m.tensors["weight/"+w.name].values {
			after.values[i] = v + step*after.values[i]
		}
		m.put("update/1/"+w.name, after)
	}
	return m
}

// off makes a tensor another.
func (m *made) off(names ...string) {
	for _, name := range names {
		a := m.tensors[name]
		if a.values == nil {
			panic("no " + name)
		}
		m.tensors[name] = random("other "+name, a.shape...)
	}
}

// offFrom makes another of all that comes of call n: outputs, inputs, gradients, the update.
func (m *made) offFrom(n int) {
	for i := range m.Calls {
		if i >= n {
			m.off("call/" + strconv.Itoa(i))
		}
		if _, ok := m.tensors["fed/"+strconv.Itoa(i)]; ok && i > n {
			m.off("fed/" + strconv.Itoa(i))
		}
	}
	m.off("output/0")
	for _, name := range m.names {
		if strings.HasPrefix(name, "gradient/") || strings.HasPrefix(name, "update/") {
			m.off(name)
		}
	}
	m.Losses = []Number{1.6}
}

// drop takes a weight away, and all that is of it.
func (m *made) drop(weight string) {
	m.names = slices.DeleteFunc(m.names, func(name string) bool {
		return strings.HasSuffix(name, "/"+weight)
	})
}

// path of a file that the golden file is written to.
func (m *made) path(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(m.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return m.written(t, string(text))
}

func (m *made) written(t testing.TB, text string) string {
	t.Helper()
	var plan []weights.Tensor
	for _, name := range m.names {
		plan = append(plan, weights.Tensor{Name: name, DType: weights.F32, Shape: m.tensors[name].shape})
	}
	path := filepath.Join(t.TempDir(), "net.safetensors")
	w, err := weights.Create(path, map[string]string{"golden": text}, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, planned := range w.Plan() {
		var data []byte
		for _, v := range m.tensors[planned.Name].values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
		}
		if err := w.Put(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return path
}

// open gives the file as it is read.
func (m *made) open(t testing.TB) *Golden {
	t.Helper()
	g, err := Open(m.path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func compared(t *testing.T, a, b *Golden) *Result {
	t.Helper()
	r, err := Compare(a, b, Usual)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
