package abstract

import (
	"strings"

	"assay/internal/pyast"
)

// asksForCUDA reports whether a test that holds asks for CUDA by name: x.is_cuda, device.type == "cuda". It holds for
// a device that the program has set before, and which a machine without CUDA does not get: what stands under it is
// guarded, whatever device another run has.
func (in *Interp) asksForCUDA(test pyast.Expr) bool {
	if in.quiet || in.world.Device == "cuda" {
		return false
	}
	text := in.Text(test)
	return strings.Contains(text, "cuda") && (strings.Contains(text, "is_cuda") || strings.Contains(text, `"cuda`) ||
		strings.Contains(text, "'cuda"))
}

// moreThanOne reports whether a test is gpus > 1.
func (in *Interp) moreThanOne(test pyast.Expr) bool {
	c, ok := test.(*pyast.Compare)
	if !ok || len(c.Ops) != 1 || c.Ops[0] != pyast.Gt {
		return false
	}
	return in.Text(c.Comparators[0]) == "1"
}

// isMain reports whether a test is __name__ == "__main__".
func isMain(test pyast.Expr) bool {
	c, ok := test.(*pyast.Compare)
	if !ok || len(c.Ops) != 1 || c.Ops[0] != pyast.Eq {
		return false
	}
	n, ok := c.Left.(*pyast.Name)
	if !ok {
		n, ok = c.Comparators[0].(*pyast.Name)
	}
	return ok && n.ID == "__name__"
}

// aboutTarget reports whether a test asks what the machine has.
func (in *Interp) aboutTarget(test pyast.Expr) bool {
	found := false
	pyast.Walk(test, func(n pyast.Node) bool {
		if a, ok := n.(*pyast.Attribute); ok && (a.Attr == "is_available" || a.Attr == "device_count" ||
			a.Attr == "is_built") {
			found = true
		}
		if c, ok := n.(*pyast.Name); ok {
			if v := in.lookup(c.ID); v != nil && v.Kind == Bool && strings.Contains(strings.ToLower(c.ID), "cuda") {
				found = true
			}
		}
		return !found
	})
	return found
}

// exceptions are those whose handlers take a failed import, or a failed call of a framework: bare is `except:`.
var exceptions = map[string]struct{ imports, calls bool }{
	bare: {true, true}, "Exception": {true, true}, "BaseException": {true, true},
	"ImportError": {imports: true}, "ModuleNotFoundError": {imports: true},
	"RuntimeError": {calls: true}, "NotImplementedError": {calls: true}, "AssertionError": {calls: true},
	"TypeError": {calls: true},
}

const bare = ""

// exceptionNames adds to a list the exceptions that a handler names.
func exceptionNames(e pyast.Expr, list []string) []string {
	switch e := e.(type) {
	case nil:
		return append(list, bare)
	case *pyast.Name:
		return append(list, e.ID)
	case *pyast.Attribute:
		return append(list, e.Attr)
	case *pyast.Tuple:
		for _, x := range e.Elts {
			list = exceptionNames(x, list)
		}
	}
	return list
}
