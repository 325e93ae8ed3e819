package abstract

import (
	"path/filepath"

	"assay/internal/pyast"
)

// Bounds of an interpretation: what goes further is left unknown.
const (
	maxDepth    = 8       // calls of the project's functions within each other
	maxCalls    = 4000    // of the project's functions, for each file
	maxContexts = 12      // argument lists with which one function is looked at
	maxSteps    = 400_000 // expressions, for each file
	maxNesting  = 400     // expressions and statements within each other

	// A function that its file never calls is a library's: what it calls in other files is followed less far than what
	// a program calls.
	loneDepth    = 2
	loneContexts = 3
	loneBytes    = 1500 // of source: longer functions of other files are left to the check of those files
)

// World is what an interpretation has to be told: the target, the libraries, the project's files. Interpreters share
// it; its functions may be called by several at once.
type World struct {
	Device   string                       // that the program is to run on: mps, cpu, cuda
	Since    func(release string) bool    // whether the PyTorch aimed at is that release or a later one
	Operator func(path string) bool       // whether a dotted name is a function of PyTorch that comes down to operators
	Exports  func(module string) []string // what `from module import *` binds; nil where that is not known
	Finder   *Finder
	Load     func(path string) *File // a file of the project that Finder has found; never nil
}

// Watch is who is shown what the interpreter meets. What it goes over only to know what is bound (the first turn of a
// loop, another file's top) is not shown.
type Watch struct {
	// a call with its arguments, before it changes anything; kept: somebody asked for it, and may hold it
	Call  func(*Call) (kept bool)
	Kinds [256]bool        // the nodes that Node is shown
	Node  func(pyast.Node) // when its parts have been interpreted
	End   func(pyast.Stmt) // the if or assert where the program gives up for want of what the target does not have
}

// Interp is the interpretation of one file, with what it calls of others.
type Interp struct {
	context

	world *World
	watch *Watch
	memo  *Memo
	main  *Unit // the file that is checked

	// What the program has done so far.
	modules       map[string]*Unit
	imported      map[string]bool
	defaultDevice Devices
	defaultType   string

	steps int
	calls int

	// where an expression leads to statements, and a call to expressions: the interpreter's circle closes here alone
	recurse struct {
		expr func(pyast.Expr) *Value
		body func([]pyast.Stmt) control
	}

	print    []byte         // fingerprint's buffer
	numbers  map[any]uint32 // and its numbers: identity
	spare    []*Call        // calls that are done with
	callRoom []Call         // room for more
	argRoom  []*Value
}

// context is where the interpreter is. Whoever goes elsewhere takes a copy and puts it back as a whole: saved :=
// in.context … in.context = saved.
type context struct {
	unit      *Unit // whose code is looked at
	env       *env
	frame     *currentFrame // nil at the top of a file
	loops     []Loop        // around, the innermost last: those of callers too
	blocks    []Block       // with blocks around
	openTests []openTest    // of the ifs around whose outcome is open

	quiet         bool // nothing is shown
	uncertain     bool // under a condition that is not known
	inMain        bool // under if __name__ == "__main__"
	inHandler     bool // in an except clause
	importsCaught bool // in a try that takes a failed import
	errorsCaught  bool // in one that takes a failed call
	lone          bool // in a function that the file itself never calls

	depth   int // calls of the project's functions around
	nesting int // expressions and statements around
}

// control says how a block was left.
type control uint8

const (
	onward control = iota
	jumped         // break, continue
	gone           // return, raise
)

// Memo keeps values that many expressions share, for one worker: nothing in them belongs to a file.
type Memo struct {
	texts   map[string]*Value    // by content
	numbers map[string]*Value    // by how they are written
	members map[[2]string]*Value // of APIs, by path and name
	methods map[string]*Value    // of unknown values, by name
}

// keepValues bounds each of the maps.
const keepValues = 20_000

// NewMemo is an empty one.
func NewMemo() *Memo {
	return &Memo{map[string]*Value{}, map[string]*Value{}, map[[2]string]*Value{}, map[string]*Value{}}
}

func keepValue[K comparable](in map[K]*Value, key K, v *Value) *Value {
	if len(in) >= keepValues {
		clear(in)
	}
	in[key] = v
	return v
}

// currentFrame is the function that is being interpreted.
type currentFrame struct {
	fn      *Func
	result  *Value
	returns bool
}

// openTest is the test of an if, with the file that it stands in.
type openTest struct {
	pyast.Expr
	unit *Unit
}

// Loop is a loop around the place where the interpreter is.
type Loop struct {
	Node pyast.Node // For, While or a comprehension
	Over *Value     // what a for loop goes over
	Func *Func      // the function that it stands in
}

// Block is a with block around the place where the interpreter is.
type Block struct {
	Path string // of the context manager
	Call *Call  // nil where it is no call
}

// Unit is the file whose code is looked at.
func (in *Interp) Unit() *Unit { return in.unit }

// AtHome reports whether the code that is looked at stands in the file that is checked.
func (in *Interp) AtHome() bool { return in.unit == in.main }

// Func is the function around, nil at the top of a file.
func (in *Interp) Func() *Func {
	if in.frame == nil {
		return nil
	}
	return in.frame.fn
}

// File is the tree of the code that is being looked at.
func (in *Interp) File() *pyast.File { return in.unit.File }

// Loops around, the innermost last: those of callers too. Func says which are the function's own.
func (in *Interp) Loops() []Loop { return in.loops }

// Guarded reports whether a failing import is caught here; Caught the same of a failing call.
func (in *Interp) Guarded() bool { return in.importsCaught }

// Caught reports whether an exception of a call is caught here.
func (in *Interp) Caught() bool { return in.errorsCaught }

// InMain reports whether `if __name__ == "__main__"` stands around, or a function runs that only such code calls.
func (in *Interp) InMain() bool { return in.inMain }

// Maybe reports whether the code runs under a condition that is not known.
func (in *Interp) Maybe() bool { return in.uncertain }

// Imported reports whether the package has been imported so far, here or in a file that is imported.
func (in *Interp) Imported(name string) bool { return in.imported[name] }

// Text of the source that a node has.
func (in *Interp) Text(n pyast.Node) string { return in.unit.File.Source(n) }

// Owns reports whether a call stands in the code that is being looked at.
func (in *Interp) Owns(c *Call) bool { return c.unit == in.unit }

// Global is what the file binds a name to at its top, as it is written; nil if it does not.
func (in *Interp) Global(name string) pyast.Expr {
	for _, s := range in.unit.File.Body {
		if a, ok := s.(*pyast.Assign); ok && len(a.Targets) == 1 {
			if n, ok := a.Targets[0].(*pyast.Name); ok && n.ID == name {
				return a.Value
			}
		}
	}
	return nil
}

// DefaultDevice is what torch.set_default_device has set, 0 if it was not called.
func (in *Interp) DefaultDevice() Devices { return in.defaultDevice }

// Within reports whether one of the functions in whose text the place stands is as asked.
func (in *Interp) Within(at pyast.Node, is func(*Func) bool) bool {
	for s, f := range in.unit.funcs {
		if s.Pos() <= at.Pos() && at.End() <= s.End() && is(f) {
			return true
		}
	}
	return false
}

// FromTop reports whether the code that is being looked at was reached from the top of the file, by calls that stand
// there.
func (in *Interp) FromTop() bool { return !in.lone }

// Under reports whether one of the tests of the ifs around here, whose outcome is open, is as asked.
func (in *Interp) Under(test func(pyast.Expr) bool) bool {
	saved := in.context
	defer func() { in.context = saved }()
	for _, t := range in.openTests {
		in.unit = t.unit
		if test(t.Expr) {
			return true
		}
	}
	return false
}

// InHandler reports whether an except clause stands around.
func (in *Interp) InHandler() bool { return in.inHandler }

// In reports the innermost with block around here whose context manager has one of the dotted names, within the same
// function.
func (in *Interp) In(paths ...string) *Block {
	for i := len(in.blocks) - 1; i >= 0; i-- {
		for _, path := range paths {
			if in.blocks[i].Path == path {
				return &in.blocks[i]
			}
		}
	}
	return nil
}

// Value is what is known of an expression where the interpreter is; nothing is shown on the way.
func (in *Interp) Value(e pyast.Expr) *Value { return in.quietly(e) }

// quietly is the value of an expression that is looked at besides: a target that is read as well, an annotation.
func (in *Interp) quietly(e pyast.Expr) *Value {
	saved := in.quiet
	in.quiet = true
	v := in.recurse.expr(e)
	in.quiet = saved
	return v
}

// assume notes that what follows is only reached as an open test says.
func (in *Interp) assume(test pyast.Expr) {
	in.openTests = append(in.openTests, openTest{test, in.unit})
}

// pseudo shows as a call what is no call in the source: os.environ["X"] = y is os.environ.__setitem__("X", y).
func (in *Interp) pseudo(path string, at pyast.Node, target pyast.Expr, args []*Value, nodes ...pyast.Expr) {
	if in.quiet {
		return
	}
	if target != nil {
		at = target
	}
	in.report(&Call{At: at, Path: path, Args: args, nodes: nodes})
}

// report shows a call; false if nobody can have kept it.
func (in *Interp) report(c *Call) bool {
	if in.quiet {
		return false
	}
	return in.watch.Call(c)
}

// newCall takes a Call that has been done with, or a new one.
func (in *Interp) newCall(e *pyast.Call, f *Value) *Call {
	var c *Call
	if n := len(in.spare); n > 0 {
		c = in.spare[n-1]
		in.spare = in.spare[:n-1]
		*c = Call{Args: c.Args[:0], Named: c.Named[:0]}
	} else {
		if len(in.callRoom) == 0 {
			in.callRoom = make([]Call, 16)
		}
		c, in.callRoom = &in.callRoom[0], in.callRoom[1:]
		n := max(2, len(e.Args))
		if len(in.argRoom) < n {
			in.argRoom = make([]*Value, max(128, n))
		}
		c.Args, in.argRoom = in.argRoom[:0:n], in.argRoom[n:]
	}
	c.Node, c.At, c.Func, c.Self, c.unit = e, e.Func, f, f.Self, in.unit
	return c
}

// Package is the path of the code that is being looked at within its outermost package, without its file: "" for a
// script. Folders that hold the project, whatever they are called, do not count.
func (in *Interp) Package() string {
	if in.unit.within == nil {
		within := in.world.Finder.Package(filepath.Dir(in.unit.Path))
		in.unit.within = &within
	}
	return *in.unit.within
}
