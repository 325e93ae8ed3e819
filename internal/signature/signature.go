// Package signature has files of signatures: the distinct operator calls of a run, without its data
// (docs/formats/signatures.md).
package signature

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Version of the format; a reader refuses another.
const Version = 1

// Suffix of a file's name.
const Suffix = ".signatures"

// Phases are what a call was part of; update is an optimizer's step.
var Phases = []string{"forward", "backward", "update", "other"}

// Header is the first line of a file: where the signatures come from.
type Header struct {
	Version    int     `json:"signatures"`
	Torch      string  `json:"torch"`
	Python     string  `json:"python"`
	Device     string  `json:"device"` // cpu, cuda, mps, double
	DeviceName string  `json:"device_name"`
	System     string  `json:"system"` // linux/amd64
	Double     *Double `json:"double"` // nil: no rehearsal
	Steps      int64   `json:"steps"`  // of the run, 0 or more
	Looked     int64   `json:"looked"` // steps of them whose calls were looked at
	Seen       int64   `json:"seen"`   // calls that were looked at, 0 or more
	Complete   bool    `json:"complete"`
	Why        string  `json:"why"` // why it is not complete, or what it leaves out
}

// Double is what a rehearsal stood for.
type Double struct {
	Release string `json:"release"` // of PyTorch
	MacOS   string `json:"macos"`
}

// Signature is one distinct call of an operator.
type Signature struct {
	Op       string           `json:"op"`       // aten::convolution
	Overload string           `json:"overload"` // "": default
	Phase    string           `json:"phase"`    // one of Phases; that of the first call
	Count    int64            `json:"count"`    // calls that were seen, 1 or more
	First    int64            `json:"first"`    // number of the first call in the run, from 0
	Args     []Value          `json:"args"`
	Kwargs   map[string]Value `json:"kwargs"`
	Out      []Tensor         `json:"out"` // results; no range, no values
	// Alias: tensors that share a storage, by their number among all of Args and Kwargs (by name), those of lists
	// included.
	Alias [][]int `json:"alias"`
}

// Kind of a Value, which says which of its fields is meant.
type Kind int

const (
	Null         Kind = iota
	Bool              // Bool
	Int               // Int
	Float             // Float, which may be infinite or NaN
	Text              // Text
	OfTensor          // Tensor
	List              // List
	Complex           // Complex
	Dtype             // Text: float32
	Device            // Text: mps, the type alone
	Layout            // Text: strided
	MemoryFormat      // Text: channels_last
	Generator         // a generator was handed in
	Symbol            // Text: what cannot be replayed, and why
)

// named are the kinds that are an object with one text.
var named = map[Kind]string{Dtype: "dtype", Device: "device", Layout: "layout", MemoryFormat: "memory_format",
	Symbol: "symbol"}

// Value is an argument.
type Value struct {
	Kind    Kind
	Bool    bool
	Int     int64
	Float   float64
	Text    string
	Complex [2]float64 // real, imaginary
	Tensor  *Tensor
	List    []Value
}

// Tensor is what is known of one: its form, and of what was in it at the first call no more than a range.
type Tensor struct {
	Shape   []int64 `json:"shape"`
	Stride  []int64 `json:"stride"`  // elements; empty where the layout has none
	Offset  int64   `json:"offset"`  // elements
	Dtype   string  `json:"dtype"`   // float32
	Layout  string  `json:"layout"`  // strided, sparse_coo, …
	Storage int64   `json:"storage"` // elements that the storage holds
	Device  string  `json:"device"`  // cpu, cuda, mps
	// Range of the finite elements, integers exact, others rounded outward; of bools the share that is true, rounded
	// down and up. nil: not looked at, or none.
	Range []json.Number `json:"range"`
	// Values: ints, floats, bools, zero, one, constant, nan, unknown; "" of a result.
	Values string `json:"values,omitempty"`
	Grad   bool   `json:"grad,omitempty"` // it required a gradient
}

// MarshalJSON writes a value as the format has it; a whole float keeps its point.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case Null:
		return []byte("null"), nil
	case Bool:
		return strconv.AppendBool(nil, v.Bool), nil
	case Int:
		return strconv.AppendInt(nil, v.Int, 10), nil
	case Float:
		return floatJSON(v.Float), nil
	case Text:
		return plain(v.Text)
	case OfTensor:
		return object("t", v.Tensor)
	case List:
		if v.List == nil {
			v.List = []Value{}
		}
		return object("l", v.List)
	case Complex:
		return append(append(append(append([]byte(`{"complex":[`), floatJSON(v.Complex[0])...), ','),
			floatJSON(v.Complex[1])...), "]}"...), nil
	case Generator:
		return []byte(`{"generator":true}`), nil
	}
	return object(named[v.Kind], v.Text)
}

func object(key string, value any) ([]byte, error) {
	data, err := plain(value)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"`+key+`":`), data...), '}'), nil
}

// plain is JSON that leaves <, > and & as they are.
func plain(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func floatJSON(f float64) []byte {
	switch {
	case math.IsNaN(f):
		return []byte(`{"float":"nan"}`)
	case math.IsInf(f, 1):
		return []byte(`{"float":"inf"}`)
	case math.IsInf(f, -1):
		return []byte(`{"float":"-inf"}`)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return []byte(s)
}

// Tensors are those among the arguments, in the order that Alias counts them in.
func (s *Signature) Tensors() []*Tensor {
	var list []*Tensor
	var walk func(v Value)
	walk = func(v Value) {
		if v.Tensor != nil {
			list = append(list, v.Tensor)
		}
		for _, item := range v.List {
			walk(item)
		}
	}
	for _, v := range s.Args {
		walk(v)
	}
	for _, name := range names(s.Kwargs) {
		walk(s.Kwargs[name])
	}
	return list
}

// Name is the operator with its overload: aten::add.Tensor.
func (s *Signature) Name() string {
	if s.Overload == "" {
		return s.Op
	}
	return s.Op + "." + s.Overload
}

// Identity is what makes two calls the same: operator and arguments, and nothing of what was in the tensors.
func (s *Signature) Identity() (string, error) {
	var bare func(v Value) Value
	bare = func(v Value) Value {
		if v.Tensor != nil {
			t := *v.Tensor
			t.Range, t.Values, t.Grad = nil, "", false
			v.Tensor = &t
		}
		if v.List != nil {
			list := make([]Value, len(v.List))
			for i, item := range v.List {
				list[i] = bare(item)
			}
			v.List = list
		}
		return v
	}
	args, kwargs := bare(Value{List: s.Args}).List, map[string]Value{}
	for name, v := range s.Kwargs {
		kwargs[name] = bare(v)
	}
	data, err := plain([]any{s.Op, s.Overload, args, kwargs, s.Alias})
	return string(data), err
}
