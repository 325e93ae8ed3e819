package facts

import (
	"fmt"
	"slices"
)

// Clause is one condition of a row as data: a subject and one test on it.
type Clause struct {
	// Of is the tensors that the test is about: a position among the operator's arguments, a list of such (one of
	// them), common (the type to which the operands are promoted), any (any tensor operand) or result (the type that
	// a factory is asked for).
	Of any `toml:"of" json:"of,omitempty"`
	// Argument is what is no tensor, by position and name, or by name alone where it is given by keyword only.
	Argument any `toml:"argument" json:"argument,omitempty"`
	Default  any `toml:"default" json:"default,omitempty"` // of an argument that is left out

	// Tests on tensors: names of torch's types, or of classes of types (Classes)
	DType    []string `toml:"dtype" json:"dtype,omitempty"`
	NotDType []string `toml:"not_dtype" json:"not_dtype,omitempty"`
	// from that of the tensor at this position
	UnequalDType  *int   `toml:"unequal_dtype" json:"unequal_dtype,omitempty"`
	Rank          *int   `toml:"rank" json:"rank,omitempty"`
	NotRank       *int   `toml:"not_rank" json:"not_rank,omitempty"`
	RankAbove     *int   `toml:"rank_above" json:"rank_above,omitempty"`
	RankBelow     *int   `toml:"rank_below" json:"rank_below,omitempty"`
	ElementsAbove *int64 `toml:"elements_above" json:"elements_above,omitempty"`
	SizeAbove     *int64 `toml:"size_above" json:"size_above,omitempty"` // of any axis
	Contiguous    *bool  `toml:"contiguous" json:"contiguous,omitempty"`

	// Tests on arguments
	Is        any   `toml:"is" json:"is,omitempty"`
	Not       any   `toml:"not" json:"not,omitempty"`
	Above     any   `toml:"above" json:"above,omitempty"`
	Below     any   `toml:"below" json:"below,omitempty"`
	NotAbove  any   `toml:"not_above" json:"not_above,omitempty"` // NaN is not above anything
	Outside   []any `toml:"outside" json:"outside,omitempty"`     // below the first or above the second
	Among     []any `toml:"among" json:"among,omitempty"`
	NotAmong  []any `toml:"not_among" json:"not_among,omitempty"`
	Imaginary *bool `toml:"imaginary" json:"imaginary,omitempty"`
	Truthy    *bool `toml:"truthy" json:"truthy,omitempty"`
	Absent    *bool `toml:"absent" json:"absent,omitempty"`

	// Predicate is a function of the double's predicates.py, where no test says it; With its settings.
	Predicate string `toml:"predicate" json:"predicate,omitempty"`
	With      []any  `toml:"with" json:"with,omitempty"`
}

// Classes of element types, by the names that rows use.
var Classes = map[string][]string{
	"float":     {"float16", "bfloat16", "float32"},
	"complex":   {"complex32", "complex64", "complex128"},
	"integer":   {"int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"},
	"unsigned":  {"uint16", "uint32", "uint64"},
	"index":     {"int32", "int64"},
	"not_float": {"int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool"},
}

// types are those that torch has and rows may name.
var types = []string{"float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128", "int8",
	"uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2",
	"float8_e4m3fnuz", "float8_e5m2fnuz", "quint8", "qint8", "qint32"}

func (c Clause) check() error {
	subjects, tests := 0, 0
	count := func(n *int, there ...bool) {
		for _, yes := range there {
			if yes {
				*n++
			}
		}
	}
	count(&subjects, c.Of != nil, c.Argument != nil, c.Predicate != "")
	count(&tests, c.DType != nil, c.NotDType != nil, c.UnequalDType != nil, c.Rank != nil, c.NotRank != nil,
		c.RankAbove != nil, c.RankBelow != nil, c.ElementsAbove != nil, c.SizeAbove != nil, c.Contiguous != nil)
	ofTensor := tests
	count(&tests, c.Is != nil, c.Not != nil, c.Above != nil, c.Below != nil, c.NotAbove != nil, c.Outside != nil,
		c.Among != nil,
		c.NotAmong != nil, c.Imaginary != nil, c.Truthy != nil, c.Absent != nil)
	switch {
	case subjects != 1:
		return fmt.Errorf("it has %d subjects: one of of, argument and predicate", subjects)
	case c.Predicate != "":
		if tests > 0 {
			return fmt.Errorf("a predicate has no test beside it")
		}
		return nil
	case tests != 1:
		return fmt.Errorf("it has %d tests, one is due", tests)
	case (c.Of != nil) != (ofTensor == 1):
		return fmt.Errorf("the test is not one on its subject")
	case c.Outside != nil && len(c.Outside) != 2:
		return fmt.Errorf("outside has %d bounds, two are due", len(c.Outside))
	}
	if c.Of != nil {
		if _, ok := c.positions(); !ok && !slices.Contains([]any{"common", "any", "result"}, c.Of) {
			return fmt.Errorf("of is %v, no position, list of positions, common, any or result", c.Of)
		}
	} else if _, name := c.argument(); name == "" {
		return fmt.Errorf("argument is %v, no name and no [position, name]", c.Argument)
	}
	for _, t := range slices.Concat(c.DType, c.NotDType) {
		if Classes[t] == nil && !slices.Contains(types, t) {
			return fmt.Errorf("%q is no type of torch and no class of types", t)
		}
	}
	return nil
}

// positions are those of Of; false where it names none.
func (c Clause) positions() ([]int, bool) {
	switch of := c.Of.(type) {
	case int64:
		return []int{int(of)}, true
	case []any:
		var list []int
		for _, p := range of {
			n, ok := p.(int64)
			if !ok {
				return nil, false
			}
			list = append(list, int(n))
		}
		return list, len(list) > 0
	}
	return nil, false
}

// argument is the position (-1: given by keyword only) and the name of what the clause asks.
func (c Clause) argument() (int, string) {
	switch a := c.Argument.(type) {
	case string:
		return -1, a
	case []any:
		if len(a) == 2 {
			n, ok := a[0].(int64)
			if name, also := a[1].(string); ok && also {
				return int(n), name
			}
		}
	}
	return -1, ""
}

// Answer of a question that may be open.
type Answer int

// A condition holds, does not, or cannot be told.
const (
	Open Answer = iota
	Yes
	No
)

func yes(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

// Tensor is what is known of one. DType "" is not known; Rank -1; a size -1, and Sizes nil.
type Tensor struct {
	DType      string
	Rank       int
	Sizes      []int64
	Contiguous Answer
}

// Arguments is what is known of a call's arguments, by position in the operator's schema, and by name. A position of -1
// is of an argument that is given by keyword only.
type Arguments interface {
	// Tensor: false where it is not known which tensor stands there.
	Tensor(position int) (Tensor, bool)
	// Tensors are all operands; false where they are not all known.
	Tensors() ([]Tensor, bool)
	// Value of an argument that is no tensor: bool, int64, float64 or string, nil for None; given is whether it is
	// there at all; known is false where that or the value is not known.
	Value(position int, name string) (value any, given, known bool)
}

// Judge is Arguments that know what some predicates (agent/assay_agent/double/predicates.py) say of them.
type Judge interface {
	Predicate(name string, with []any) Answer
}

// Judged are the predicates that `assay check` knows (internal/audit/rules/layers.go); of the others it says nothing.
var Judged = []string{"adaptive_pool", "axis_over", "batch_above", "complex_second", "convolved_over", "far_dimension",
	"fft_dimensions", "float_bound", "has_elements", "heads_not_divisible", "imaginary", "index_tensors",
	"layered", "matrix_bytes_above", "negative_dimension", "negative_float", "one_of_two_complex", "projections",
	"scaled", "smaller_side_above", "weights_not_contiguous"}

// Resulting is Arguments that know what the call gives; false where that is not known. `of = "result"` is about it
// where no type is asked for by name.
type Resulting interface {
	Result() (Tensor, bool)
}

// MeetsCall says whether the row's condition holds for a call.
func (f *Fact) MeetsCall(args Arguments) Answer {
	if answer := f.Clauses(args); answer != Yes || !f.Partly {
		return answer
	}
	return Open
}

// Clauses says whether the row's clauses hold for a call, which is not all of its condition where that is Partly said.
func (f *Fact) Clauses(args Arguments) Answer {
	if f.If == nil || args == nil && len(f.If) > 0 {
		return Open
	}
	all := Yes
	for _, c := range f.If {
		switch c.holds(args) {
		case No:
			return No
		case Open:
			all = Open
		}
	}
	return all
}

func (c Clause) holds(args Arguments) Answer {
	switch {
	case c.Predicate != "":
		if judge, ok := args.(Judge); ok {
			return judge.Predicate(c.Predicate, c.With)
		}
		return Open
	case c.Argument != nil:
		return c.ofArgument(args)
	}
	if positions, ok := c.positions(); ok {
		some := No
		for _, p := range positions {
			t, known := args.Tensor(p)
			if !known {
				some = Open
				continue
			}
			switch c.ofTensor(t, args) {
			case Yes:
				return Yes
			case Open:
				some = Open
			}
		}
		return some
	}
	operands, complete := args.Tensors()
	switch c.Of {
	case "any":
		some := No
		for _, t := range operands {
			switch c.ofTensor(t, args) {
			case Yes:
				return Yes
			case Open:
				some = Open
			}
		}
		if !complete {
			return Open
		}
		return some
	case "common": // where all operands are of one type, it is that one
		if !complete || len(operands) == 0 {
			return Open
		}
		for _, t := range operands[1:] {
			if t.DType != operands[0].DType {
				return Open
			}
		}
		return c.ofTensor(Tensor{DType: operands[0].DType, Rank: -1}, args)
	}
	v, given, known := args.Value(-1, "dtype")
	if name, ok := v.(string); known && given && ok {
		if c.DType != nil || c.NotDType != nil {
			return c.ofTensor(Tensor{DType: name, Rank: -1}, args)
		}
	}
	if r, ok := args.(Resulting); ok {
		if t, known := r.Result(); known {
			return c.ofTensor(t, args)
		}
	}
	return Open
}

func (c Clause) ofTensor(t Tensor, args Arguments) Answer {
	switch {
	case c.DType != nil && t.DType != "":
		return yes(within(t.DType, c.DType))
	case c.NotDType != nil && t.DType != "":
		return yes(!within(t.DType, c.NotDType))
	case c.UnequalDType != nil && t.DType != "":
		if other, ok := args.Tensor(*c.UnequalDType); ok && other.DType != "" {
			return yes(t.DType != other.DType)
		}
	case c.Rank != nil && t.Rank >= 0:
		return yes(t.Rank == *c.Rank)
	case c.NotRank != nil && t.Rank >= 0:
		return yes(t.Rank != *c.NotRank)
	case c.RankAbove != nil && t.Rank >= 0:
		return yes(t.Rank > *c.RankAbove)
	case c.RankBelow != nil && t.Rank >= 0:
		return yes(t.Rank < *c.RankBelow)
	case c.Contiguous != nil && t.Contiguous != Open:
		return yes((t.Contiguous == Yes) == *c.Contiguous)
	case c.SizeAbove != nil && t.Sizes != nil:
		all := No
		for _, n := range t.Sizes {
			if n > *c.SizeAbove {
				return Yes
			}
			if n < 0 {
				all = Open
			}
		}
		return all
	case c.ElementsAbove != nil && t.Sizes != nil:
		n := 1.0 // exact far beyond what any tensor holds
		for _, size := range t.Sizes {
			if size < 0 {
				return Open
			}
			n *= float64(size)
		}
		return yes(n > float64(*c.ElementsAbove))
	}
	return Open
}

func within(dtype string, list []string) bool {
	return slices.ContainsFunc(list, func(t string) bool {
		return t == dtype || slices.Contains(Classes[t], dtype)
	})
}

func (c Clause) ofArgument(args Arguments) Answer {
	position, name := c.argument()
	v, given, known := args.Value(position, name)
	if !known {
		return Open
	}
	if c.Absent != nil {
		return yes((!given || v == nil) == *c.Absent)
	}
	if !given {
		v = c.Default
	}
	if v == nil && c.Is == nil { // None is compared with nothing
		return No
	}
	n, number := asNumber(v)
	bound := func(b any) float64 { m, _ := asNumber(b); return m }
	switch {
	case c.Is != nil:
		return yes(same(v, c.Is))
	case c.Not != nil:
		return yes(!same(v, c.Not))
	case c.Among != nil:
		return yes(slices.ContainsFunc(c.Among, func(a any) bool { return same(v, a) }))
	case c.NotAmong != nil:
		return yes(!slices.ContainsFunc(c.NotAmong, func(a any) bool { return same(v, a) }))
	case c.Truthy != nil:
		truth := v != "" && v != false && !(number && n == 0)
		return yes(truth == *c.Truthy)
	case c.Above != nil && number:
		return yes(n > bound(c.Above))
	case c.Below != nil && number:
		return yes(n < bound(c.Below))
	case c.Outside != nil && number:
		return yes(n < bound(c.Outside[0]) || n > bound(c.Outside[1]))
	case c.NotAbove != nil && number:
		return yes(!(n > bound(c.NotAbove)))
	}
	return Open
}

func same(a, b any) bool {
	x, ok := asNumber(a)
	y, also := asNumber(b)
	if ok && also {
		return x == y
	}
	return a == b
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case bool:
		if n {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
