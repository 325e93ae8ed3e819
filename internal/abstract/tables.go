package abstract

import "strings"

// outcome is what a call of a package's function gives; name is its dotted name within the package. nil says nothing:
// others may know.
type outcome func(in *Interp, c *Call, name string) *Value

func nothingKnown(*Interp, *Call, string) *Value { return unknown }

// madeObject is an object of a class of which nothing but the name matters.
func madeObject(_ *Interp, c *Call, _ string) *Value {
	return &Value{Kind: Made, Path: c.Path, Made: c}
}

// madeModule is a module that is made on the CPU, as those of other libraries are.
func madeModule(_ *Interp, c *Call, _ string) *Value {
	return &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
}

// effect is what a call gives, and what it does to what is known.
type effect func(*Interp, *Call) *Value

// byName takes a table apart whose keys are lists of names. A name that stands there twice is a mistake, which no
// program gets past.
func byName[V any](table map[string]V) map[string]V {
	each := make(map[string]V, 2*len(table))
	for names, v := range table {
		for _, name := range strings.Fields(names) {
			if _, twice := each[name]; twice {
				panic("two outcomes for " + name)
			}
			each[name] = v
		}
	}
	return each
}

// argument is the one at a position, as far as it is known.
func (c *Call) argument(at int) *Value {
	if at < len(c.Args) {
		return c.Args[at]
	}
	return unknown
}
