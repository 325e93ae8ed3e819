package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// A DType is numpy's type of elements.
type DType struct {
	Kind byte  // 'f', 'i', 'u', 'b', 'c', and others whose elements are not read
	Size int64 // of an element in bytes
	Big  bool  // big-endian
}

func (t *DType) String() string { return string(t.Kind) + strconv.FormatInt(t.Size, 10) }

// Numeric says whether elements are numbers of a fixed size.
func (t *DType) Numeric() bool {
	switch t.String() {
	case "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16":
		return true
	}
	return false
}

// Build takes the state of a dtype: (version, byte order, ...).
func (t *DType) Build(state Value) error {
	s, ok := state.(*Tuple)
	if !ok || len(s.Items) < 2 {
		return errors.New("the state of a numpy.dtype is no tuple")
	}
	t.Big = textOf(s.Items[1]) == ">"
	return nil
}

// An Array is a numpy array that lies in the pickle.
type Array struct {
	DType   *DType
	Shape   []int64
	Fortran bool
	Data    []byte // nil where the elements are objects
}

// Build takes the state of an array: (version, shape, dtype, Fortran order, bytes).
func (a *Array) Build(state Value) error {
	s, ok := state.(*Tuple)
	if !ok || len(s.Items) != 5 {
		return errors.New("the state of a numpy array is no tuple of 5")
	}
	fortran, _ := s.Items[3].(bool)
	return a.fill(s.Items[1], s.Items[2], s.Items[4], fortran)
}

func (a *Array) fill(shape, dtype, data Value, fortran bool) error {
	dims, ok := Ints(shape)
	if !ok {
		return errors.New("the shape of a numpy array is no tuple of integers")
	}
	if a.DType, ok = dtype.(*DType); !ok {
		return errors.New("the type of a numpy array is no numpy.dtype")
	}
	a.Shape, a.Fortran, a.Data = dims, fortran, nil
	bytes, ok := bytesOf(data)
	if !ok { // a list, where the elements are objects
		return nil
	}
	want := a.DType.Size
	for _, d := range dims {
		if d < 0 || d > 0 && want > math.MaxInt64/d {
			return fmt.Errorf("a numpy array has the shape %v", dims)
		}
		want *= d
	}
	if want != int64(len(bytes)) {
		return fmt.Errorf("a numpy array of %v in %s has %d bytes where it needs %d", dims, a.DType, len(bytes), want)
	}
	a.Data = bytes
	return nil
}

// Ints are the integers of a tuple or list.
func Ints(v Value) ([]int64, bool) {
	from, ok := items(v)
	if _, isDict := v.(*Dict); !ok || isDict || len(from) > 64 { // numpy has at most 64 dimensions, torch too
		return nil, false
	}
	made := make([]int64, len(from))
	for i, item := range from {
		if made[i], ok = item.(int64); !ok {
			return nil, false
		}
	}
	return made, true
}

func textOf(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// bytesOf bytes, or of the text that Python 2 kept them in.
func bytesOf(v Value) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

func newDType(_ *Decoder, args []Value) (Value, error) {
	if len(args) == 0 {
		return nil, errors.New("it has no arguments")
	}
	name := textOf(args[0])
	if name == "" {
		return nil, fmt.Errorf("its type is %s", kindOf(args[0]))
	}
	t := &DType{Kind: name[0]}
	size, err := strconv.ParseInt(name[1:], 10, 32)
	if err == nil && size >= 0 {
		t.Size = size
		if t.Kind == 'U' {
			t.Size *= 4
		}
	}
	return t, nil
}

func numpyReconstruct(*Decoder, []Value) (Value, error) { return &Array{DType: &DType{Kind: 'V'}}, nil }

// numpyFromBuffer is what protocol 5 has: (buffer, dtype, shape, order).
func numpyFromBuffer(_ *Decoder, args []Value) (Value, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("it has %d arguments where it takes 4", len(args))
	}
	a := &Array{}
	return a, a.fill(args[2], args[1], args[0], textOf(args[3]) == "F")
}

// numpyScalar is a number with a numpy type: (dtype, bytes).
func numpyScalar(_ *Decoder, args []Value) (Value, error) {
	if len(args) == 0 {
		return nil, errors.New("it has no arguments")
	}
	t, ok := args[0].(*DType)
	if !ok {
		return nil, fmt.Errorf("its type is %s", kindOf(args[0]))
	}
	if len(args) < 2 {
		return &Object{Class: "numpy." + t.String()}, nil
	}
	raw, ok := bytesOf(args[1])
	if !ok || int64(len(raw)) != t.Size {
		if t.Kind == 'O' || t.Kind == 'V' {
			return &Object{Class: "numpy." + t.String(), Args: args[1:]}, nil
		}
		return nil, fmt.Errorf("a numpy scalar of type %s has %d bytes", t, len(raw))
	}
	var order binary.ByteOrder = binary.LittleEndian
	if t.Big {
		order = binary.BigEndian
	}
	switch t.String() {
	case "f8":
		return math.Float64frombits(order.Uint64(raw)), nil
	case "f4":
		return float64(math.Float32frombits(order.Uint32(raw))), nil
	case "i8":
		return int64(order.Uint64(raw)), nil
	case "i4":
		return int64(int32(order.Uint32(raw))), nil
	case "i2":
		return int64(int16(order.Uint16(raw))), nil
	case "i1":
		return int64(int8(raw[0])), nil
	case "u4":
		return int64(order.Uint32(raw)), nil
	case "u2":
		return int64(order.Uint16(raw)), nil
	case "u1":
		return int64(raw[0]), nil
	case "b1":
		return raw[0] != 0, nil
	}
	return &Object{Class: "numpy." + t.String(), Args: args[1:]}, nil
}
