package replay

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/signature"
)

// Tables are what is known of one release of PyTorch on one macOS.
type Tables struct {
	atlas  *atlas.Atlas
	facts  *facts.Table
	column string // of the atlas; "": the release is not known
	torch  string
	macos  [2]int
}

// NewTables asks for a release as torch.__version__ says it, and a macOS, 15.5; "" is any.
func NewTables(a *atlas.Atlas, f *facts.Table, torch, macos string) *Tables {
	t := &Tables{atlas: a, facts: f}
	if r, err := a.Release("torch", torch); err == nil {
		t.column, t.torch = r.Column, r.Version
	}
	if major, minor, _ := strings.Cut(macos, "."); major != "" {
		t.macos[0], _ = strconv.Atoi(major)
		minor, _, _ = strings.Cut(minor, ".")
		t.macos[1], _ = strconv.Atoi(minor)
	}
	return t
}

// Expectation is what the tables say of one call.
type Expectation struct {
	State atlas.State // Unknown where the release or the operator is not known
	Lacks string      // the operator without a kernel that a composed one comes down to; ""
	Said  []facts.Said
}

// Expect is what the tables say of a call.
func (t *Tables) Expect(s *signature.Signature) Expectation {
	e := Expectation{State: atlas.Unknown}
	if t.column == "" {
		return e
	}
	name := s.Name()
	if op, ok := t.atlas.Operator(name); ok {
		if op.Package == "torch" {
			e.State = op.At(t.column)
		} else if r, ok := t.atlas.Beside(op.Package, t.torch); ok {
			e.State = op.At(r.Column)
		}
	}
	if e.State == atlas.Composed {
		e.Lacks = t.atlas.Lacks(t.column, name)
	}
	args := &called{s: s, schema: t.atlas.Schema(name)}
	e.Said = t.facts.Ask(t.atlas, facts.Question{Torch: t.torch, MacOS: t.macos,
		Operators: []atlas.Call{{Operator: name}}, Everyone: true,
		Arguments: func(string) facts.Arguments { return args },
		Outcomes:  []facts.Outcome{facts.Wrong, facts.Aborts, facts.Refused}})
	return e
}

// Absent says that the atlas says that there is no kernel, and why.
func (e Expectation) Absent() (string, bool) {
	switch e.State {
	case atlas.Missing, atlas.NoStub, atlas.Raises:
		return e.State.String(), true
	}
	if e.Lacks != "" {
		return "it comes down to " + e.Lacks + ", which is missing", true
	}
	return "", false
}

// Risky says whether the tables know of something that may fail, or know nothing.
func (e Expectation) Risky() bool {
	_, absent := e.Absent()
	return absent || e.State == atlas.Unknown || e.State == atlas.Undefined ||
		slices.ContainsFunc(e.Said, func(s facts.Said) bool { return !s.Everywhere() || s.Met == facts.Yes })
}

// called is facts.Arguments of a signature.
type called struct {
	s      *signature.Signature
	schema []atlas.Parameter
}

// value is the argument at a position of the schema, or of a name.
func (c *called) value(position int, name string) (signature.Value, bool) {
	if position < 0 {
		position = slices.IndexFunc(c.schema, func(p atlas.Parameter) bool { return p.Name == name })
	}
	if position >= 0 && position < len(c.s.Args) {
		return c.s.Args[position], true
	}
	if position >= 0 && position < len(c.schema) {
		if v, ok := c.s.Kwargs[c.schema[position].Name]; ok {
			return v, true
		}
	}
	v, ok := c.s.Kwargs[name]
	return v, ok
}

// Tensor is the one at a position, of a list its first.
func (c *called) Tensor(position int) (facts.Tensor, bool) {
	v, _ := c.value(position, "")
	if v.Kind == signature.List && len(v.List) > 0 {
		v = v.List[0]
	}
	if v.Tensor == nil {
		return facts.Tensor{}, false
	}
	return known(v.Tensor), true
}

func known(t *signature.Tensor) facts.Tensor {
	contiguous := facts.No
	if t.Layout == "strided" && Contiguous(t) {
		contiguous = facts.Yes
	}
	return facts.Tensor{DType: t.Dtype, Rank: len(t.Shape), Sizes: t.Shape, Contiguous: contiguous}
}

// Contiguous says whether a strided tensor lies row after row.
func Contiguous(t *signature.Tensor) bool {
	step := int64(1)
	for i := len(t.Shape) - 1; i >= 0; i-- {
		switch {
		case t.Shape[i] == 0:
			return true
		case t.Shape[i] != 1 && (i >= len(t.Stride) || t.Stride[i] != step):
			return false
		}
		step *= t.Shape[i]
	}
	return true
}

// Tensors are all operands. A fraction among them makes another type of integers: then they are not all there is.
func (c *called) Tensors() (list []facts.Tensor, complete bool) {
	for _, t := range c.s.Tensors() {
		list = append(list, known(t))
	}
	fraction := slices.ContainsFunc(c.s.Args, func(v signature.Value) bool {
		return v.Kind == signature.Float && v.Float != math.Trunc(v.Float) || v.Kind == signature.Complex
	})
	return list, !fraction
}

// Value of an argument that is no tensor.
func (c *called) Value(position int, name string) (value any, given, known bool) {
	v, ok := c.value(position, name)
	if !ok {
		return nil, false, true
	}
	switch v.Kind {
	case signature.Null:
		return nil, true, true
	case signature.Bool:
		return v.Bool, true, true
	case signature.Int:
		return v.Int, true, true
	case signature.Float:
		return v.Float, true, true
	case signature.Text, signature.Dtype:
		return v.Text, true, true
	}
	return nil, true, false
}

// Result is what the call gave when it was recorded.
func (c *called) Result() (facts.Tensor, bool) {
	if len(c.s.Out) == 0 {
		return facts.Tensor{}, false
	}
	return known(&c.s.Out[0]), true
}
