package audit

import (
	"slices"
	"strings"

	"assay/internal/pyast"
)

// env is a scope: names and what they are bound to, so far. The names that have been met stay in their order, so that what they are bound to on one
// way through the program is a list, and a branch is taken and joined without looking names up.
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

// few names are compared one by one.
const few = 16

func (e *env) slot(name string) int {
	if e.index != nil {
		if i, ok := e.index[name]; ok {
			return i
		}
		return -1
	}
	for i, k := range e.keys {
		if k == name {
			return i
		}
	}
	return -1
}

// get is what a name is bound to in this scope; nil if it is not.
func (e *env) get(name string) *Value {
	if i := e.slot(name); i >= 0 && i < len(e.values) {
		return e.values[i]
	}
	return nil
}

// put binds a name in this scope; nil unbinds it.
func (e *env) put(name string, v *Value) {
	i := e.slot(name)
	if i < 0 {
		i = len(e.keys)
		if i == 0 {
			e.keys = make([]string, 0, few/2)
		}
		e.keys = append(e.keys, name)
		if e.index != nil {
			e.index[name] = i
		} else if len(e.keys) > few {
			e.index = make(map[string]int, 4*few)
			for i, k := range e.keys {
				e.index[k] = i
			}
		}
	}
	e.values = e.values.upTo(i)
	e.values[i] = v
}

func (b bindings) upTo(i int) bindings {
	if i < len(b) {
		return b
	}
	if i >= cap(b) {
		more := make(bindings, len(b), max(8, 2*(i+1)))
		copy(more, b)
		b = more
	}
	return b[:i+1] // what lies behind the end of a list was never used
}

// all goes over the names that are bound.
func (e *env) all(yield func(string, *Value) bool) {
	for i, v := range e.values {
		if v != nil && !yield(e.keys[i], v) {
			return
		}
	}
}

func (e *env) set(name string, v *Value) {
	if e.global[name] {
		for o := e.outer; o != nil; o = o.outer {
			if old := o.get(name); old != nil || o.outer == nil {
				o.put(name, join(old, v))
				return
			}
		}
	}
	e.put(name, v)
}

// copy is taken before a branch; the values of outer scopes are shared.
func (e *env) copy() bindings { return slices.Clone(e.values) }

// join adds what another way through the program has bound.
func (b bindings) join(other bindings) bindings {
	b = b.upTo(len(other) - 1)
	for i, v := range other {
		if v != nil && b[i] != v {
			b[i] = join(b[i], v)
		}
	}
	return b
}

func (e *env) merge(other bindings) { e.values = e.values.join(other) }

// Func is a function or method of the project.
type Func struct {
	Name   string
	Node   *pyast.FunctionDef // nil for a lambda
	Lambda *pyast.Lambda
	Module *Unit
	Class  *Class
	Local  bool // defined within a function: it cannot be pickled
	env    *env // in which it was defined
	seen   map[string]*Value
	busy   int
	called bool
	noGrad bool // decorated so
}

// Class is a class of the project.
type Class struct {
	Name   string
	Node   *pyast.ClassDef
	Module *Unit
	Bases  []*Value
	Local  bool
	scope  *env
	pass   *Pass
	open   *Value // an instance whose place is open
}

// Derives reports whether one of the class's bases, at any distance, is the API class of that dotted name.
func (c *Class) Derives(path string) bool { return c.derives(path, 0) }

func (c *Class) derives(path string, depth int) bool {
	for _, b := range c.Bases {
		if b.Kind == API && b.Path == path || b.Kind == ClassDef && depth < 20 && b.Class.derives(path, depth+1) {
			return true
		}
	}
	return false
}

// moduleBases are classes whose instances are torch.nn.Modules.
var moduleBases = []string{"torch.nn.Module", "torch.nn.Sequential", "pytorch_lightning.LightningModule", "lightning.LightningModule", "lightning.pytorch.LightningModule",
	"torch.nn.ModuleList", "transformers.PreTrainedModel", "torch.jit.ScriptModule"}

// IsModule reports whether instances are torch.nn.Modules, as far as the source says.
func (c *Class) IsModule() bool {
	for _, b := range moduleBases {
		if c.Derives(b) {
			return true
		}
	}
	for _, b := range c.Bases {
		if b.Kind == API && strings.HasPrefix(b.Path, "torch.nn.") && !lower(b.Path[strings.LastIndexByte(b.Path, '.')+1:]) {
			return true
		}
	}
	return false
}

// own is what the class's body itself binds a name to, nil if it does not.
func (c *Class) own(name string) *Value {
	if c.scope == nil { // its body is being interpreted
		return nil
	}
	c.pass.defineLater(c.scope, c.Module, name)
	v := c.scope.get(name)
	if v != nil && v.Kind == Function && v.Func.Class == nil {
		v.Func.Class = c
	}
	return v
}

func (c *Class) lookup(name string) *Value {
	for depth := 0; c != nil && depth < 20; depth++ {
		if v := c.own(name); v != nil {
			return v
		}
		var next *Class
		for _, b := range c.Bases {
			if b.Kind == ClassDef {
				if next == nil {
					next = b.Class
				} else if v := b.Class.lookup(name); v != nil {
					return v
				}
			}
		}
		c = next
	}
	return nil
}

// Method is the class's function of that name, its own or inherited within the project; nil if there is none.
func (c *Class) Method(name string) *Func {
	if v := c.lookup(name); v != nil && v.Kind == Function {
		return v.Func
	}
	return nil
}

// Loop is a loop around the place where the Pass is.
type Loop struct {
	Node pyast.Node // For, While or a comprehension
	Over *Value     // what a for loop goes over
	Func *Func      // the function that it stands in
}

// Block is a with block around the place where the Pass is.
type Block struct {
	Path string // of the context manager
	Call *Call  // nil where it is no call
}
