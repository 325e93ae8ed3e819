// Package golden records what a model computes from fixed weights and inputs, module by module (record.go, with the
// agent's golden/record.py), reads such files (golden.go), and holds one against another (compare.go): another
// framework, device or release.
package golden

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/weights"
)

// Version of golden files, docs/formats/golden.md.
const Version = 1

// A Golden is an open golden file.
type Golden struct {
	Meta
	Path    string
	file    *weights.File
	tensors map[string]weights.Tensor
}

// Meta is what a golden file says beside its tensors.
type Meta struct {
	Version   int               `json:"version"`
	Framework string            `json:"framework"` // torch, mlx, keras
	Release   string            `json:"release"`
	Device    string            `json:"device"`
	Python    string            `json:"python"`
	File      string            `json:"file"`
	Function  string            `json:"function"`
	Layout    string            `json:"layout"` // NCHW or NHWC: of the framework's images
	Training  bool              `json:"training"`
	Calls     []Call            `json:"calls"` // in the order in which they ended
	Losses    []float64         `json:"losses"`
	Loss      string            `json:"loss"`
	Optimizer map[string]any    `json:"optimizer"`
	Modules   []Module          `json:"modules"`
	Seconds   []float64         `json:"seconds"`  // of whole steps, after the updates
	Memory    *int64            `json:"memory"`   // bytes that the device's allocator had at most
	Resident  int64             `json:"resident"` // bytes of the process at most
	Kinds     map[string]string `json:"kinds"`    // of the module that holds a weight
}

// A Call is one of a module: its output is the tensor call/N, its input, where no call gave it, fed/N.
type Call struct {
	Module string `json:"module"` // "" for the model itself
	Kind   string `json:"kind"`
	Leaf   bool   `json:"leaf"`
	From   *int   `json:"from"` // the call that gave its first input, -1: none did; nil: it has none
}

// A Module is one of the model, with what it was made with.
type Module struct {
	Module   string         `json:"module"`
	Kind     string         `json:"kind"`
	Values   map[string]any `json:"values"`
	Training bool           `json:"training"`
}

// Open reads a golden file. Close it.
func Open(path string) (*Golden, error) {
	file, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	g := &Golden{Path: path, file: file, tensors: map[string]weights.Tensor{}}
	text, ok := file.Meta["golden"]
	if !ok {
		file.Close()
		return nil, fault.Hint(fmt.Errorf("%s is no golden file", path), "record one: assay golden --out FILE model.py")
	}
	if err := json.Unmarshal([]byte(text), &g.Meta); err != nil {
		file.Close()
		return nil, fmt.Errorf("reading the golden file %s: what it says of itself: %w", path, err)
	}
	if g.Version != Version {
		file.Close()
		return nil, fault.Hint(fmt.Errorf("the golden file %s is of version %d, and this assay reads %d", path, g.Version,
			Version), "record it again")
	}
	for _, t := range file.Tensors {
		g.tensors[t.Name] = t
	}
	return g, nil
}

// Close closes the file.
func (g *Golden) Close() error { return g.file.Close() }

// names of the tensors below a prefix, without it, sorted.
func (g *Golden) names(prefix string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(g.tensors)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, rest)
		}
	}
	return names
}

// array is a tensor's values.
type array struct {
	shape  []int64
	values []float64
}

// mostValues of one tensor that is compared: 8 GiB of them.
const mostValues = 1 << 30

// read gives the values of a tensor.
func (g *Golden) read(name string) (array, error) {
	t, ok := g.tensors[name]
	if !ok {
		return array{}, fmt.Errorf("%s has no tensor %q", g.Path, name)
	}
	n, ok := t.Elements()
	if !ok || n > mostValues {
		return array{}, fmt.Errorf("%s: %q has too many values to be compared", g.Path, name)
	}
	decode, ok := decoders[t.DType]
	if !ok {
		return array{}, fmt.Errorf("%s: %q is of type %s, which is not compared", g.Path, name, t.DType)
	}
	from, err := t.Open()
	if err != nil {
		return array{}, err
	}
	defer from.Close()
	a := array{shape: t.Shape, values: make([]float64, 0, min(n, 1<<20))}
	r, size := bufio.NewReaderSize(from, 1<<20), t.DType.Size()
	piece := make([]byte, size)
	for range n {
		if _, err := io.ReadFull(r, piece); err != nil {
			return array{}, fmt.Errorf("%s: %q: %w", g.Path, name, errors.Join(err, io.ErrUnexpectedEOF))
		}
		a.values = append(a.values, decode(piece))
	}
	return a, nil
}

var little = binary.LittleEndian

// decoders of the types that a golden file holds.
var decoders = map[weights.DType]func([]byte) float64{
	weights.F32:  func(b []byte) float64 { return float64(math.Float32frombits(little.Uint32(b))) },
	weights.F64:  func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) },
	weights.F16:  func(b []byte) float64 { return half(little.Uint16(b)) },
	weights.I64:  func(b []byte) float64 { return float64(int64(little.Uint64(b))) },
	weights.I32:  func(b []byte) float64 { return float64(int32(little.Uint32(b))) },
	weights.I16:  func(b []byte) float64 { return float64(int16(little.Uint16(b))) },
	weights.I8:   func(b []byte) float64 { return float64(int8(b[0])) },
	weights.U64:  func(b []byte) float64 { return float64(little.Uint64(b)) },
	weights.U32:  func(b []byte) float64 { return float64(little.Uint32(b)) },
	weights.U16:  func(b []byte) float64 { return float64(little.Uint16(b)) },
	weights.U8:   func(b []byte) float64 { return float64(b[0]) },
	weights.Bool: func(b []byte) float64 { return float64(b[0]) },
}

// half is an IEEE 754 half.
func half(b uint16) float64 {
	sign, exponent, fraction := 1.0, int(b>>10&31), float64(b&1023)
	if b>>15 != 0 {
		sign = -1
	}
	switch {
	case exponent == 31 && fraction == 0:
		return math.Inf(int(sign))
	case exponent == 31:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
