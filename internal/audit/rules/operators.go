package rules

import (
	"assay/internal/abstract"
	"strings"
)

// meets reports whether a call's arguments are those under which a known bug shows.
func meets(c *abstract.Call, bug string) bool {
	made := func(at int, name string) *abstract.Value {
		if c.Self == nil || c.Self.Made == nil {
			return nil
		}
		return c.Self.Made.Arg(at, name)
	}
	layers, _ := number(made(2, "num_layers"))
	switch bug {
	case "lstm-bidirectional":
		return layers > 1 || isTrue(made(6, "bidirectional"))
	case "lstm-backward-dropout":
		dropout, _ := number(made(5, "dropout"))
		return layers > 1 && dropout > 0
	case "cumsum-integer":
		v := c.Self
		if v == nil {
			v = c.Arg(0, "input")
		}
		return v != nil && v.Kind == abstract.Tensor && (strings.HasPrefix(v.Type, "int") || v.Type == "bool")
	}
	return false
}

// everywhere are operators that every program has: a note at each would hide the rest.
var everywhere = map[string]bool{"aten::copy_": true, "aten::_to_copy": true, "aten::fill_.Scalar": true,
	"aten::mul.Tensor": true, "aten::add.Tensor": true,
	"aten::linear": true, "aten::addmm": true, "aten::mm": true, "aten::bmm": true, "aten::clone": true,
	"aten::sum": true, "aten::mean": true}
