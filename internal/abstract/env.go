package abstract

import (
	"slices"
)

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
