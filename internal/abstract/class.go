package abstract

import (
	"slices"
	"strings"
)

// maxBases bounds the classes that are asked where one is asked: in a loop a class can become its own base, and more
// than once.
const maxBases = 60

// eachBase goes over a class and its bases within the project, as Python looks names up but for diamonds, until one is
// found.
func (c *Class) eachBase(found func(*Class) bool) bool {
	left := maxBases
	var visit func(*Class) bool
	visit = func(c *Class) bool {
		if left--; left < 0 {
			return false
		}
		if found(c) {
			return true
		}
		for _, b := range c.Bases {
			if b.Kind == ClassDef && visit(b.Class) {
				return true
			}
		}
		return false
	}
	return visit(c)
}

// Derives reports whether one of the class's bases, at any distance, is the API class of that dotted name.
func (c *Class) Derives(path string) bool {
	return c.eachBase(func(c *Class) bool {
		return slices.ContainsFunc(c.Bases, func(b *Value) bool { return b.Kind == API && b.Path == path })
	})
}

// moduleBases are classes whose instances are torch.nn.Modules.
var moduleBases = []string{"torch.nn.Module", "torch.nn.Sequential", "pytorch_lightning.LightningModule",
	"lightning.LightningModule", "lightning.pytorch.LightningModule",
	"torch.nn.ModuleList", "transformers.PreTrainedModel", "torch.jit.ScriptModule"}

// IsModule reports whether instances are torch.nn.Modules, as far as the source says.
func (c *Class) IsModule() bool {
	for _, b := range moduleBases {
		if c.Derives(b) {
			return true
		}
	}
	for _, b := range c.Bases {
		if b.Kind == API && strings.HasPrefix(b.Path, "torch.nn.") && !lower(lastPart(b.Path)) {
			return true
		}
	}
	return false
}

// own is what the class's body itself binds a name to, nil if it does not.
func (c *Class) own(name string) *Value {
	if c.env == nil { // its body is being interpreted
		return nil
	}
	c.define(name)
	v := c.env.get(name)
	if v != nil && v.Kind == Function && v.Func.Class == nil {
		v.Func.Class = c
	}
	return v
}

// lookup is what the class or one of its bases within the project binds a name to, the nearest first; nil if none does.
func (c *Class) lookup(name string) (v *Value) {
	c.eachBase(func(c *Class) bool {
		v = c.own(name)
		return v != nil
	})
	return v
}

// Method is the class's function of that name, its own or inherited within the project; nil if there is none.
func (c *Class) Method(name string) *Func {
	if v := c.lookup(name); v != nil && v.Kind == Function {
		return v.Func
	}
	return nil
}

// moves reports whether a class has its own way of moving what it holds.
func moves(c *Class) bool {
	return c != nil && (c.lookup("_apply") != nil || c.lookup("to") != nil || c.lookup("cuda") != nil ||
		c.lookup("__getattr__") != nil)
}
