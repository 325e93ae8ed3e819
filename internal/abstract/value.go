package abstract

import (
	"strings"

	"assay/internal/pyast"
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
	Seq            // list, tuple or set: Items, which stand for what it holds as Form says
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
	StateDict      // what state_dict() or torch.load() gives: Path of the call
	Super          // super() in a method: Class that the method is of, Self
	Never          // of a call that does not come back: sys.exit(), pytest.skip()
)

// severalTypes is the type of a module whose parameters may be of one or another.
const severalTypes = "?"

// Form says how the Items of a sequence stand for what it holds.
type Form uint8

const (
	Listed     Form = iota // one for each, in order
	Loose                  // each for some of them: how many there are, and in which order, is not known
	Enumerated             // one: the sequence that is counted through
	Zipped                 // the sequences that are gone through side by side
	Counted                // one, for each number of a range
	Empty                  // a range of nothing
	Strung                 // of two sequences of which one is not Listed, put together
)

// Origin says how a tensor or an array came about, where that tells something of it.
type Origin uint8

const (
	Anyhow Origin = iota
	Sized         // made here with a size, or of what has one: it has dimensions
	Batch         // handed out by a loader
)

// Role is what a tensor is to the module whose attribute it is.
type Role uint8

const (
	NoRole Role = iota
	Parameter
	Buffer
	Plain // neither of them: .to() of the module leaves it behind
)

// Binding says how a function of a class's body becomes a member of an instance.
type Binding uint8

const (
	AsMethod Binding = iota
	AsProperty
	AsStatic
	AsClass
)

// Value is what is known of an expression. Values are shared and not changed, but for the place of a Module, which
// moves where it stands.
type Value struct {
	Kind   Kind
	Yes    bool
	Soft   bool // a user may say otherwise: a default of the command line, of a function's argument, of the environment
	OrNone bool // on another way through the program it is None
	// a device that was asked of a tensor or a module: what is sent there goes where the other is, wherever that may be
	Follows   bool
	evaluates bool // a Module after eval()
	graded    bool // a Tensor that a gradient is asked of
	lazy      bool // a name of Mod that nobody has asked for yet: Text
	Where     Devices
	Form      Form    // of a Seq
	Origin    Origin  // of a Tensor or an Array
	Role      Role    // of a Tensor
	Binding   Binding // of a Function
	Type      string  // float64, int64, complex64, …; "" is not known, of a Module: as it was made
	Shape     *Shape  // of a Tensor; nil is not known
	Path      string
	Text      string
	Num       float64
	Items     []*Value
	Attrs     map[string]*Value
	Options   map[string]*Value // of an argument parser: by the names that parse_args gives them
	Func      *Func
	Class     *Class
	Mod       *Unit   // of an API that is a module of the project
	Self      *Value  // of a bound method
	Made      *Call   // the call that made it
	bound     []Named // keyword arguments that functools.partial has given
}

// Func is a function or method of the project.
type Func struct {
	Name     string
	Node     *pyast.FunctionDef // nil for a lambda
	Lambda   *pyast.Lambda
	Module   *Unit
	Class    *Class
	Local    bool // defined within a function: it cannot be pickled
	env      *env // in which it was defined
	outcomes map[situation]*Value
	busy     int
	called   bool
	noGrad   bool // decorated so
}

// situation is in what a function was interpreted; one situation has one outcome.
type situation struct {
	arguments string // as fingerprint tells them apart
	quiet     bool   // nothing was reported
	alone     bool   // nothing called it
}

// Class is a class of the project.
type Class struct {
	Name   string
	Node   *pyast.ClassDef
	Module *Unit
	Bases  []*Value
	Local  bool
	env    *env
	define func(name string) // defines the functions of that name, where that was put off
	open   *Value            // an instance whose place is open
}

// Unit is a file of the project, as one Interp sees it.
type Unit struct {
	Path    string // absolute
	File    *pyast.File
	env     *env
	funcs   map[*pyast.FunctionDef]*Func
	classes map[*pyast.ClassDef]*Class
	order   []*Func
	source  *File
	asked   map[string]bool // names at the top of a file that others import, which have been asked for
	ran     []bool          // the statements at its top that have been interpreted for them
	within  *string         // Package
}

// Call is a call whose function is known: an API by its dotted name, or a method of a known value, which has the name
// that the class gives it (torch.Tensor.to, torch.nn.Module.to, torch.optim.Optimizer.step).
type Call struct {
	Node   *pyast.Call // nil for what is no call in the source
	At     pyast.Node  // the function's expression, or what stands for the call: where a finding points
	Path   string
	Self   *Value // of a method
	Func   *Value
	Args   []*Value
	Named  []Named
	Open   bool // *args or **kwargs: there may be more
	Result *Value
	nodes  []pyast.Expr
	unit   *Unit
}

// Named is a keyword argument.
type Named struct {
	Name  string
	Value *Value
	Node  *pyast.Keyword
}

// env is a scope: names and what they are bound to, so far. The names that have been met stay in their order, so that
// what they are bound to on one way through the program is a list, and a branch is taken and joined without looking
// names up.
type env struct {
	keys   []string
	index  map[string]int // of keys, where there are many
	values bindings
	outer  *env
	global map[string]bool // declared global or nonlocal
	class  bool            // a class's body, which functions within do not see
	unit   *Unit           // the file that it is the top of, where others import it
	defs   []pyast.Stmt    // of a class of such a file: its body, whose functions are defined when they are asked for
	made   map[string]bool // those that were
}

// bindings are values in the order of a scope's keys; nil is unbound, and so is what lies beyond the end.
type bindings []*Value

var (
	unknown  = &Value{Where: Open}
	noneVal  = &Value{Kind: None}
	trueVal  = &Value{Kind: Bool, Yes: true}
	falseVal = &Value{Kind: Bool}
	never    = &Value{Kind: Never}
)

func boolean(yes bool) *Value {
	if yes {
		return trueVal
	}
	return falseVal
}

func text(s string) *Value { return &Value{Kind: Str, Text: s} }

// lastPart is the part of a dotted name behind its last dot.
func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// lower reports a name that is no class's, as Python is written.
func lower(name string) bool {
	return name != "" && (name[0] >= 'a' && name[0] <= 'z' || name[0] == '_')
}

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
		return true, v.Self == nil && !v.OrNone && (strings.HasPrefix(v.Path, "torch.nn.") &&
			!strings.HasPrefix(v.Path, "torch.nn.Module.") || strings.HasPrefix(v.Path, "builtins."))
	}
	return false, false
}

// mayBeNone reports whether a value that is no None here may be one when the program runs.
func (v *Value) mayBeNone() bool {
	switch v.Kind {
	case None:
		return false
	case Unknown, Module, Instance:
		return true
	case API:
		return v.Self != nil || v.OrNone || strings.HasPrefix(v.Path, "torch.nn.Module.") || v.Mod == nil &&
			!strings.HasPrefix(v.Path, "torch.") && !strings.HasPrefix(v.Path, "builtins.")
	}
	return v.OrNone
}

// Place is where a value used as a device= argument puts things.
func (v *Value) Place() Devices {
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

// orNone is the value with the mark that it may be None as well. What moves keeps its identity: a module is asked for
// its truth too seldom to copy it.
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

// typeOf is the dtype that a value used as dtype= names.
func typeOf(v *Value) string {
	switch {
	case v == nil:
		return ""
	case v.Kind == DType:
		return v.Type
	case v.Kind == Str:
		return numpyType(v.Text)
	case v.Kind == API && strings.HasPrefix(v.Path, "builtins."):
		return numpyType(strings.TrimPrefix(v.Path, "builtins."))
	}
	return ""
}

func literalType(v *Value, real string, depth int) string {
	if depth > 5 { // a list may hold itself
		return ""
	}
	switch v.Kind {
	case Number:
		switch {
		case strings.HasSuffix(v.Text, "j"):
			return "complex64"
		case v.Type == "float":
			return real
		case v.Type == "int":
			return "int64"
		}
	case Bool:
		return "bool"
	case Seq:
		found := ""
		for _, i := range v.Items {
			t := literalType(i, real, depth+1)
			if t == "" {
				return ""
			}
			if found == "" || found == "int64" {
				found = t
			}
		}
		return found
	}
	return ""
}
