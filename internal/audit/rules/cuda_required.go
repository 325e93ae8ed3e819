package rules

import (
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// CUDARequired finds where a program gives up without CUDA.
var CUDARequired = &audit.Rule{Name: "cuda-required", Title: "the program ends without CUDA", Severity: audit.Error,
	Doc: audit.Doc{
		Why:  "A test for CUDA ends the program, or the function, on every Mac, before anything that would have run on MPS.",
		Bad:  "if not torch.cuda.is_available():\n    raise RuntimeError(\"needs a GPU\")\n",
		Good: "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\n",
	}, End: func(p *audit.Pass, n pyast.Stmt) {
		if a, ok := n.(*pyast.Assert); ok {
			if p.Target.Device != "cuda" && strings.Contains(p.Text(a.Test), "cuda") {
				giveUp(p, a.Test)
			}
			return
		}
		s := n.(*pyast.If)
		body := s.Body
		if yes, known := p.Value(s.Test).Truth(); known && !yes {
			body = s.Orelse
		}
		if p.Target.Device == "cuda" || len(body) == 0 || !strings.Contains(p.Text(s.Test), "cuda") {
			return
		}
		switch end := body[len(body)-1].(type) {
		case *pyast.Raise:
		case *pyast.ExprStmt:
			_ = end
		default:
			return // a return: the function has another way
		}
		giveUp(p, s.Test)
	}}

func giveUp(p *audit.Pass, test pyast.Expr) {
	f := audit.Finding{Sure: p.Func() == nil || p.FromTop() && !p.Maybe(), Text: "the program ends here without CUDA",
		Hint: "accept MPS: torch.backends.mps.is_available()"}
	if !p.AtHome() { // what another file hands over decides, a device's name as a rule
		f.Sure, f.Text = false, f.Text+", where "+p.Home().Path+" calls it"
	}
	p.Report(test, f)
}
