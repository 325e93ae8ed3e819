package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// StateDictMoved finds .to() on a dictionary of weights.
var StateDictMoved = &audit.Rule{Name: "state-dict-moved", Title: ".to() of a state dict, which has none",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "state_dict() gives a dictionary, and torch.load of one as well: AttributeError. The module is what moves, " +
			"or map_location says where weights go.",
		Bad: "weights = model.state_dict().to(\"mps\")\n", Good: "model.to(\"mps\")\n",
	}, Calls: asks(named("state_dict.to", "state_dict.cuda", "state_dict.half", "state_dict.float"),
		func(p *audit.Pass, c *abstract.Call) {
			name := last(c.Path)
			sure := c.Self != nil && last(c.Self.Path) == "state_dict"
			f := audit.Finding{Sure: sure, Text: "a state dict has no ." + name + "(): AttributeError",
				Hint: "move the module, or load with map_location"}
			if !sure {
				f.Severity = audit.Notice
				f.Text = "if the file holds a state dict, it has no ." + name + "(): AttributeError"
			}
			p.Report(c.At, f)
		})}
