package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// StateDictMoved finds .to() on a dictionary of weights.
var StateDictMoved = &audit.Rule{Name: "state-dict-moved", Title: ".to() of a state dict, which has none",
	Claims: []string{"6"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "state_dict() gives a dictionary, and torch.load of one as well: AttributeError. The module is what moves, " +
			"or map_location says where weights go.",
		Bad: "weights = model.state_dict().to(\"mps\")\n", Good: "model.to(\"mps\")\n",
	}, Calls: asks(named("state_dict.to", "state_dict.cuda", "state_dict.half", "state_dict.float"),
		func(p *audit.Pass, c *abstract.Call) {
			name := last(c.Path)
			sure := c.Self != nil && last(c.Self.Path) == "state_dict"
			f := audit.Finding{Sure: sure, Text: "a state dict has no ." + name + "(): AttributeError",
				Hint: "move the module, or load with map_location"}
			switch {
			case sure:
			case subscripted(p, c):
				f.Severity = audit.Warning
				f.Text = "what was loaded is used as a dictionary, which has no ." + name + "(): AttributeError"
			default:
				f.Severity = audit.Notice
				f.Text = "if the file holds a state dict, it has no ." + name + "(): AttributeError"
			}
			p.Report(c.At, f)
		})}

// subscripted reports whether the name that a method is called of is subscripted somewhere in the same function: as
// no module is.
func subscripted(p *audit.Pass, c *abstract.Call) bool {
	f, ok := c.At.(*pyast.Attribute)
	if !ok {
		return false
	}
	of, ok := f.Value.(*pyast.Name)
	if !ok {
		return false
	}
	body, found := p.File().Body, false
	if fn := p.Func(); fn != nil && fn.Node != nil {
		body = fn.Node.Body
	}
	for _, s := range body {
		pyast.Walk(s, func(n pyast.Node) bool {
			if sub, ok := n.(*pyast.Subscript); ok {
				name, ok := sub.Value.(*pyast.Name)
				found = found || ok && name.ID == of.ID
			}
			return !found
		})
	}
	return found
}
