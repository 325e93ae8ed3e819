package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// RetainedGraph finds losses that are added up with their graphs.
var RetainedGraph = &audit.Rule{Name: "retained-graph", Title: "losses are added up with their graphs",
	Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
		Why: "A loss that backward went through still belongs to its graph: adding losses up over an epoch keeps what " +
			"every step left, and memory grows step by step.",
		Bad: "total = 0.0\nfor x in torch.utils.data.DataLoader(data):\n    loss = model(x).mean()\n    " +
			"loss.backward()\n    total += loss\n",
		Good: "total = 0.0\nfor x in torch.utils.data.DataLoader(data):\n    loss = model(x).mean()\n    " +
			"loss.backward()\n    total += loss.detach()\n",
		Source: "PyTorch FAQ, \"My model reports out of memory\"",
	}, Kinds: []pyast.Kind{pyast.KindAugAssign, pyast.KindAssign, pyast.KindCall},
	Node: func(p *audit.Pass, n pyast.Node) {
		if len(p.Loops()) == 0 {
			return
		}
		target, name := added(p, n)
		if name == nil || !strings.Contains(strings.ToLower(name.ID), "loss") || len(own(p)) == 0 {
			return
		}
		loop, ok := own(p)[len(own(p))-1].Node.(*pyast.For)
		if !ok || p.In("torch.no_grad", "torch.inference_mode") != nil {
			return
		}
		node, _ := n.(*pyast.Assign)
		backward, total := false, false
		for _, b := range loop.Body {
			pyast.Walk(b, func(n pyast.Node) bool {
				if c, ok := n.(*pyast.Call); ok {
					if a, ok := c.Func.(*pyast.Attribute); ok && a.Attr == "backward" {
						text := p.Text(a.Value)
						backward = backward || strings.Contains(text, name.ID)
						total = total || strings.Contains(text, target)
					}
				}
				if a, ok := n.(*pyast.Assign); ok && a != node && p.Text(a.Targets[0]) == target { // begun anew
					total = true
				}
				if a, ok := n.(*pyast.Assign); ok && len(a.Targets) == 1 && p.Text(a.Targets[0]) == name.ID {
					text := p.Text(a.Value)
					if strings.HasSuffix(text, ".item()") || strings.HasPrefix(text, "float(") ||
						strings.HasSuffix(text, ".detach()") {
						total = true
					}
				}
				return true
			})
		}
		if !backward || total {
			return
		}
		f := audit.Finding{Sure: p.Value(name).Kind == abstract.Tensor,
			Text: "the sum keeps the graph of every loss: memory grows with each step",
			Hint: "add loss.detach(), and .item() once at the end"}
		if c, list := n.(*pyast.Call); list {
			f.Text = "the list keeps the graph of every loss: memory grows with each step"
			// a meter's append may keep a number alone
			if to := p.Value(c.Func.(*pyast.Attribute).Value); to.Kind != abstract.Seq {
				f.Sure, f.Text = false, f.Text+", if append keeps what it gets"
			}
		}
		f.Fix = &audit.Fix{Safety: audit.Safe, Title: "add " + name.ID + ".detach()",
			Edits: []audit.Edit{{From: name.End(), To: name.End(), Text: ".detach()"}}}
		if !f.Sure {
			f.Fix.Safety = audit.Unsafe
		}
		p.Report(n, f)
	}}

// added is what a statement adds a name's value to: total += loss, total = total + loss, losses.append(loss).
func added(p *audit.Pass, n pyast.Node) (target string, name *pyast.Name) {
	switch n := n.(type) {
	case *pyast.AugAssign:
		if _, ok := n.Target.(*pyast.Name); ok && n.Op == pyast.Add {
			name, _ = n.Value.(*pyast.Name)
			target = p.Text(n.Target)
		}
	case *pyast.Assign:
		sum, ok := n.Value.(*pyast.BinOp)
		if !ok || sum.Op != pyast.Add || len(n.Targets) != 1 {
			return "", nil
		}
		to, isName := n.Targets[0].(*pyast.Name)
		left, also := sum.Left.(*pyast.Name)
		if isName && also && left.ID == to.ID {
			name, _ = sum.Right.(*pyast.Name)
			target = to.ID
		}
	case *pyast.Call:
		if f, ok := n.Func.(*pyast.Attribute); ok && f.Attr == "append" && len(n.Args) == 1 {
			name, _ = n.Args[0].(*pyast.Name)
			target = p.Text(f.Value)
		}
	}
	return target, name
}
