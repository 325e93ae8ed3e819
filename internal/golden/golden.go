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
	"strconv"
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
	Float64   bool              `json:"float64"`
	Calls     []Call            `json:"calls"` // in the order in which they ended
	Losses    []Number          `json:"losses"`
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

// A Number may be one that JSON has not: "nan", "inf" or "-inf".
type Number float64

// UnmarshalJSON reads a number, or the word for one.
func (n *Number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil && !math.IsInf(f, 0) {
		return fmt.Errorf("%.20q is no number", b)
	}
	*n = Number(f)
	return nil
}

// Most that a golden file may say of itself, and have: a model of 2,000 layers has 6,000 modules, and of each of its
// weights five tensors where three updates are recorded.
const (
	mostText    = 32 << 20
	mostModules = 50_000
	mostTensors = 200_000
)

// Open reads a golden file. Close it.
func Open(path string) (*Golden, error) {
	file, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	g := &Golden{Path: path, file: file, tensors: map[string]weights.Tensor{}}
	if err := g.parse(); err != nil {
		file.Close()
		return nil, err
	}
	return g, nil
}

const recordAgain = "record it again: assay golden --out FILE model.py"

// parse reads what the file says of itself, and holds it against its tensors.
func (g *Golden) parse() error {
	about, ok := g.file.Meta["golden"]
	if !ok {
		return fault.Hint(fmt.Errorf("%s is no golden file", g.Path), "record one: assay golden --out FILE model.py")
	}
	wrong := func(format string, a ...any) error {
		return fault.Hint(fmt.Errorf("reading the golden file %s: %w", g.Path, fmt.Errorf(format, a...)), recordAgain)
	}
	if len(about) > mostText || len(g.file.Tensors) > mostTensors {
		return wrong("it has %d tensors and says %d bytes of itself: %d and %d are the most", len(g.file.Tensors),
			len(about), mostTensors, mostText)
	}
	var version struct{ Version int }
	if err := json.Unmarshal([]byte(about), &version); err != nil {
		return wrong("what it says of itself: %w", err)
	}
	if version.Version != Version {
		return wrong("it is of version %d, and this assay reads %d", version.Version, Version)
	}
	if err := json.Unmarshal([]byte(about), &g.Meta); err != nil {
		return wrong("what it says of itself: %w", err)
	}
	if len(g.Calls) > mostModules || len(g.Modules) > mostModules {
		return wrong("it has %d modules and %d calls: %d is the most", len(g.Modules), len(g.Calls), mostModules)
	}
	for _, t := range g.file.Tensors {
		g.tensors[t.Name] = t
	}
	for i, call := range g.Calls {
		if call.From != nil && (*call.From < -1 || *call.From >= i) {
			return wrong("call %d, of %q, has its input from call %d, which is none before it", i, call.Module, *call.From)
		}
		if _, ok := g.tensors[fmt.Sprintf("call/%d", i)]; !ok {
			return wrong("it lacks the output of call %d, of %q", i, call.Module)
		}
	}
	return nil
}

// fed is the name of the tensor that a call had as its first input, "" where none is recorded.
func (g *Golden) fed(call int) string {
	if from := g.Calls[call].From; from != nil && *from >= 0 {
		return fmt.Sprintf("call/%d", *from)
	}
	name := fmt.Sprintf("fed/%d", call)
	if _, ok := g.tensors[name]; !ok {
		return ""
	}
	return name
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
	return values(g.Path, t)
}

// values of a tensor of the file at path.
func values(path string, t weights.Tensor) (array, error) {
	n, ok := t.Elements()
	if !ok || n > mostValues {
		return array{}, fmt.Errorf("%s: %q has too many values to be compared", path, t.Name)
	}
	decode, ok := decoders[t.DType]
	if !ok {
		return array{}, fmt.Errorf("%s: %q is of type %s, which is not compared", path, t.Name, t.DType)
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
			return array{}, fmt.Errorf("%s: %q: %w", path, t.Name, errors.Join(err, io.ErrUnexpectedEOF))
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
	weights.F16:  func(b []byte) float64 { return weights.Float16(little.Uint16(b)) },
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
