package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// deviceName is a name in scope that holds the device to use; "" if there is none.
func deviceName(p *audit.Pass) string {
	for _, name := range []string{"device", "DEVICE", "dev", "torch_device"} {
		v := p.Value(&pyast.Name{ID: name})
		if v.Kind == abstract.Device && !v.Where.May(abstract.OnCUDA) {
			return name
		}
	}
	return ""
}

// replace is the edit that writes text in the place of a node.
func replace(n pyast.Node, text string) audit.Edit {
	return audit.Edit{From: n.Pos(), To: n.End(), Text: text}
}

// removeKeyword takes name=value out of a call, with the comma that goes with it.
func removeKeyword(p *audit.Pass, call *pyast.Call, k *pyast.Keyword) (audit.Edit, bool) {
	src := p.Src().Text
	from, to := k.Pos(), k.End()
	for i := to; i < call.End(); i++ { // up to the next argument
		switch src[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case ',':
			to = i + 1
			for to < call.End() && (src[to] == ' ' || src[to] == '\t') {
				to++
			}
			return audit.Edit{From: from, To: to}, true
		}
		break
	}
	for i := from - 1; i > call.Pos(); i-- { // the last one: the comma before it
		switch src[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case ',':
			return audit.Edit{From: i, To: to}, true
		case '(':
			return audit.Edit{From: from, To: to}, true
		}
		break
	}
	return audit.Edit{}, false
}

// keyword is the node of a keyword argument; nil if it is not there.
func keyword(c *abstract.Call, names ...string) *pyast.Keyword {
	for _, n := range c.Named {
		for _, name := range names {
			if n.Name == name && n.Node != nil && n.Node.Arg == name {
				return n.Node
			}
		}
	}
	return nil
}
