package audit

import (
	"strings"
)

// Kind is what a value is, as far as it matters here.
type Kind uint8

const (
	Unknown   Kind = iota
	API            // something imported, by its dotted name: torch.nn.functional.conv2d
	Str            // Text
	Number         // Num; Text is how it was written
	Bool           // Yes
	None           //
	Seq            // list, tuple or set: Items, where they are known
	Dict           // Attrs by constant key
	Device         // torch.device: Where
	DType          // torch.dtype or numpy.dtype: Type
	Tensor         // Where, Type
	Array          // numpy.ndarray: Type
	Module         // torch.nn.Module: Path of its class, or Class; Where
	Optimizer      // Path
	Loader         // torch.utils.data.DataLoader
	Made           // another object of a class that is imported: Path of the class
	Parsed         // argparse.Namespace and the like: Attrs
	Function       // of the project: Func
	ClassDef       // of the project: Class
	Instance       // of a class of the project that is no Module: Class
	StateDict      // what state_dict() or torch.load() gives
)

// Devices is a set of places where a tensor may live.
type Devices uint8

const (
	OnCPU Devices = 1 << iota
	OnMPS
	OnCUDA
	OnOther // meta, xla, …
	Open    // not known
)

// Surely reports that it can be nowhere else.
func (d Devices) Surely(where Devices) bool { return d == where }

// May reports that it is seen to be there on some way through the program; an open place alone is no sight.
func (d Devices) May(where Devices) bool { return d&where != 0 }

func (d Devices) String() string {
	var list []string
	for i, name := range []string{"cpu", "mps", "cuda", "another device", "an unknown device"} {
		if d&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, " or ")
}

// deviceOf reads a device's name: "cuda:0", "mps".
func deviceOf(name string) Devices {
	kind, _, _ := strings.Cut(name, ":")
	switch kind {
	case "cpu":
		return OnCPU
	case "mps":
		return OnMPS
	case "cuda":
		return OnCUDA
	}
	return OnOther
}

// Value is what is known of an expression. Values are shared and not changed, but for the place of a Module, which moves where it stands.
type Value struct {
	Kind   Kind
	Yes    bool
	Soft   bool // a user may say otherwise: a default of the command line, of a function's argument, of the environment
	OrNone bool // on another way through the program it is None
	Where  Devices
	Type   string // float64, int64, complex64, …; "" is not known
	Path   string
	Text   string
	Num    float64
	Items  []*Value
	Attrs  map[string]*Value
	Func   *Func
	Class  *Class
	Mod    *Unit   // of an API that is a module of the project
	Self   *Value  // of a bound method
	Made   *Call   // the call that made it
	bound  []Named // keyword arguments that functools.partial has given
	lazy   bool    // a name of Mod that nobody has asked for yet: Text
}

var (
	unknown  = &Value{Where: Open}
	noneVal  = &Value{Kind: None}
	trueVal  = &Value{Kind: Bool, Yes: true}
	falseVal = &Value{Kind: Bool}
)

func boolean(yes bool) *Value {
	if yes {
		return trueVal
	}
	return falseVal
}

func text(s string) *Value { return &Value{Kind: Str, Text: s} }

// Truth says whether a value counts as true: known is false where that depends on the run.
func (v *Value) Truth() (yes, known bool) {
	switch v.Kind {
	case Bool:
		return v.Yes, !v.Soft && (!v.OrNone || !v.Yes)
	case None:
		return false, !v.Soft
	case Str:
		return v.Text != "", !v.Soft && (!v.OrNone || v.Text == "")
	case Number:
		return v.Num != 0, !v.Soft && (!v.OrNone || v.Num == 0)
	case Function, ClassDef, Module, Device:
		return true, !v.Soft && !v.OrNone
	case API: // a function, a class or a module; an attribute of what is not known may be anything
		return true, v.Self == nil && !v.OrNone && (strings.HasPrefix(v.Path, "torch.nn.") && !strings.HasPrefix(v.Path, "torch.nn.Module.") || strings.HasPrefix(v.Path, "builtins."))
	}
	return false, false
}

// same reports that two values say the same, so that nothing is lost by keeping one.
func (v *Value) same(w *Value) bool {
	return v == w || v.Kind == w.Kind && v.Kind != Seq && v.Kind != Dict && v.Yes == w.Yes && v.Soft == w.Soft && v.OrNone == w.OrNone && v.Where == w.Where && v.Type == w.Type &&
		v.Path == w.Path && v.Text == w.Text && v.Num == w.Num && v.Func == w.Func && v.Class == w.Class && v.Self == w.Self && v.Made == w.Made
}

// join is what is known where either value may be there.
func join(v, w *Value) *Value { return joined(v, w, 0) }

func joined(v, w *Value, depth int) *Value {
	if depth > 5 { // a list may hold itself
		return unknown
	}
	if v == nil || w == nil {
		if v == nil {
			v, w = w, v
		}
		return v // bound on one way only: what uses it came that way
	}
	if v.same(w) {
		return v
	}
	if v.Kind == None { // `x = None` first, the real thing later
		return w.orNone()
	}
	if w.Kind == None {
		return v.orNone()
	}
	if v.Kind == Str && w.Kind == Device || v.Kind == Device && w.Kind == Str {
		return &Value{Kind: Device, Where: v.place() | w.place(), Soft: v.Soft || w.Soft}
	}
	if v.Kind != w.Kind {
		return unknown
	}
	switch v.Kind {
	case Str:
		if isDevice(v.Text) && isDevice(w.Text) {
			return &Value{Kind: Device, Where: deviceOf(v.Text) | deviceOf(w.Text), Soft: v.Soft || w.Soft}
		}
	case Device, Tensor, Array, DType:
		j := &Value{Kind: v.Kind, Where: v.Where | w.Where, Soft: v.Soft || w.Soft, OrNone: v.OrNone || w.OrNone, Type: v.Type}
		if v.Type != w.Type {
			j.Type = ""
		}
		return j
	case Module, Instance, Optimizer, Made:
		if v.Path == w.Path && v.Class == w.Class {
			j := *v
			j.Where |= w.Where
			return &j
		}
		if v.Kind == Module {
			return &Value{Kind: Module, Where: v.Where | w.Where}
		}
	case Seq:
		if len(v.Items) == len(w.Items) {
			j := &Value{Kind: Seq}
			for i := range v.Items {
				j.Items = append(j.Items, joined(v.Items[i], w.Items[i], depth+1))
			}
			return j
		}
	case Dict, Parsed:
		j := &Value{Kind: v.Kind, Attrs: map[string]*Value{}}
		for k, a := range v.Attrs {
			if b := w.Attrs[k]; b != nil {
				j.Attrs[k] = joined(a, b, depth+1)
			} else {
				j.Attrs[k] = a
			}
		}
		for k, b := range w.Attrs {
			if j.Attrs[k] == nil {
				j.Attrs[k] = b
			}
		}
		return j
	case Bool:
		return &Value{Kind: Bool, Yes: v.Yes, Soft: true}
	}
	return unknown
}

func isDevice(name string) bool {
	kind, number, cut := strings.Cut(name, ":")
	switch kind {
	case "cpu", "cuda", "mps", "meta", "xla", "xpu":
	default:
		return false
	}
	for _, c := range number {
		if c < '0' || c > '9' {
			return false
		}
	}
	return !cut || number != ""
}

// orNone is the value with the mark that it may be None as well. What moves keeps its identity: a module is asked for its truth too seldom to copy it.
func (v *Value) orNone() *Value {
	switch v.Kind {
	case Unknown, None, Module, Instance, Dict, Parsed, Loader:
		return v
	}
	if v.OrNone || v.lazy {
		return v
	}
	w := *v
	w.OrNone = true
	return &w
}

// mayBeNone reports whether a value that is no None here may be one when the program runs.
func (v *Value) mayBeNone() bool {
	switch v.Kind {
	case None:
		return false
	case Unknown, Module, Instance:
		return true
	case API:
		return v.Self != nil || v.OrNone || strings.HasPrefix(v.Path, "torch.nn.Module.") || v.Mod == nil && !strings.HasPrefix(v.Path, "torch.") && !strings.HasPrefix(v.Path, "builtins.")
	}
	return v.OrNone
}

// place is where a value used as a device= argument puts things.
func (v *Value) place() Devices {
	switch v.Kind {
	case Device, Tensor, Module:
		return v.Where
	case Str:
		if isDevice(v.Text) {
			return deviceOf(v.Text)
		}
	case Number: // an index: of the accelerator
		return OnCUDA
	}
	return Open
}

// softened is the value with the mark that a user may say otherwise.
func (v *Value) softened() *Value {
	if v.Soft || v.Kind == Unknown {
		return v
	}
	s := *v
	s.Soft = true
	return &s
}

// dtypes that torch knows, by all their names.
var dtypeNames = map[string]string{
	"float64": "float64", "double": "float64", "float32": "float32", "float": "float32", "float16": "float16", "half": "float16", "bfloat16": "bfloat16",
	"complex64": "complex64", "cfloat": "complex64", "complex128": "complex128", "cdouble": "complex128", "complex32": "complex32", "chalf": "complex32",
	"int64": "int64", "long": "int64", "int32": "int32", "int": "int32", "int16": "int16", "short": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool",
	"uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
}

// numpyTypes are numpy's names where they mean something else than torch's, or torch has none.
var numpyTypes = map[string]string{
	"float": "float64", "float_": "float64", "int": "int64", "int_": "int64", "complex": "complex128", "complex_": "complex128", "single": "float32",
	"longdouble": "float64", "f8": "float64", "f4": "float32", "i8": "int64", "i4": "int32", "d": "float64", "f": "float32", "bool_": "bool", "intp": "int64",
}

func numpyType(name string) string {
	if t := numpyTypes[name]; t != "" {
		return t
	}
	return dtypeNames[name]
}
