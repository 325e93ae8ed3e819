// Package pickle reads Python's pickles (protocols 0 to 5) and runs nothing: a name that a pickle asks for is looked up
// in a list of Go functions, an unknown class becomes an Object that is only named, and anything else is refused with
// its name and the byte at which it stands.
//
// What a hostile pickle can cost is bounded: operations, bytes of text, digits of integers, depth of calls. Values may
// refer to themselves, as Python's can: who walks them counts his steps.
package pickle

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A Value is nil, bool, int64, *big.Int, float64, complex128, string, []byte, *List, *Tuple, *Dict, *Set, *Class,
// *Object, *Array, *DType, *Function, or whatever Options.Lookup and Options.Persistent give.
type Value any

// A List is Python's list, or deque.
type List struct{ Items []Value }

// A Tuple is Python's tuple.
type Tuple struct{ Items []Value }

// A Set is Python's set or frozenset, in the order of the file and with what stands twice twice.
type Set struct{ Items []Value }

// A Dict is Python's dict, OrderedDict, defaultdict or Counter, in the order in which keys first came.
type Dict struct {
	Keys, Values []Value
	Attributes   Value // what BUILD set on it, such as an OrderedDict's _metadata

	index map[any]int
}

// Set sets a key, as Python does: the last value stays, at the place of the first.
func (d *Dict) Set(key, value Value) {
	k, known := hashed(key)
	if known {
		if i, found := d.index[k]; found {
			d.Values[i] = value
			return
		}
		if d.index == nil {
			d.index = map[any]int{}
		}
		d.index[k] = len(d.Keys)
	}
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
}

// Get is the value of a key that is text.
func (d *Dict) Get(key string) (Value, bool) {
	if i, found := d.index[key]; found {
		return d.Values[i], true
	}
	return nil, false
}

// none is the hash of None, which is a key like others; bytesKey that of bytes, which are no text.
type (
	none     struct{}
	bytesKey string
)

// hashed is what makes two keys one, where the key is simple: True, 1 and 1.0 are one key in Python.
func hashed(key Value) (any, bool) {
	switch k := key.(type) {
	case nil:
		return none{}, true
	case string, int64:
		return k, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int64(k), true
		}
		return k, k == k
	case []byte:
		return bytesKey(k), true
	}
	return nil, false
}

// A Class is a name that stands on no list, and that nothing was done with.
type Class struct{ Name string }

// An Object is what an unknown class would have been made with: nothing of it was run.
type Object struct {
	Class string
	Args  []Value
	State Value // what BUILD was given; nil where nothing
	Items *Dict // what was set in it by key, as in a class derived from dict; nil where nothing
	List  *List // what was appended to it; nil where nothing
}

// Attribute of the object by its state.
func (o *Object) Attribute(name string) (Value, bool) {
	state := o.State
	if pair, ok := state.(*Tuple); ok && len(pair.Items) == 2 { // (__dict__, slots)
		if slots, ok := pair.Items[1].(*Dict); ok {
			if v, found := slots.Get(name); found {
				return v, true
			}
		}
		state = pair.Items[0]
	}
	if attributes, ok := state.(*Dict); ok {
		return attributes.Get(name)
	}
	return nil, false
}

// A Function is a name of the list that may be called.
type Function struct {
	Name string
	Do   func(d *Decoder, args []Value) (Value, error)
}

// A Builder takes the state that BUILD gives it.
type Builder interface{ Build(state Value) error }

// Text of a value that is simple, or of a short list of such, at most limit bytes of it; false for what is neither.
func Text(v Value, limit int) (string, bool) {
	s, ok := scalarText(v, limit)
	if ok {
		return shorten(s, limit), true
	}
	var items []Value
	open, closed := "[", "]"
	switch v := v.(type) {
	case *List:
		items = v.Items
	case *Tuple:
		items, open, closed = v.Items, "(", ")"
	case *Set:
		items, open, closed = v.Items, "{", "}"
	default:
		return "", false
	}
	var b strings.Builder
	b.WriteString(open)
	for i, item := range items {
		s, ok := scalarText(item, limit)
		if !ok {
			return "", false
		}
		if b.Len() < limit {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(s)
		}
	}
	b.WriteString(closed)
	return shorten(b.String(), limit), true
}

func scalarText(v Value, limit int) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "None", true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	case int64:
		return strconv.FormatInt(v, 10), true
	case *big.Int:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case complex128:
		return strings.Replace(strconv.FormatComplex(v, 'g', -1, 128), "i)", "j)", 1), true
	case string:
		return strings.ToValidUTF8(v[:min(len(v), 4*limit)], "\ufffd"), true
	case []byte:
		return strconv.Itoa(len(v)) + " bytes", true
	case *Class:
		return shorten(v.Name, limit), true
	case *Function:
		return v.Name, true
	case *DType:
		return v.String(), true
	}
	return "", false
}

// shorten cuts a text to so many bytes, at the end of a character.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
