package rules

import (
	"regexp"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// MPSNeverChosen finds the choice between CUDA and the CPU that leaves MPS out.
var MPSNeverChosen = &audit.Rule{Name: "mps-never-chosen", Title: "the choice of a device leaves MPS out",
	Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
		Why: "Without CUDA the program runs on the CPU, although the Mac has a GPU that PyTorch can use.",
		Bad: "device = \"cuda\" if torch.cuda.is_available() else \"cpu\"\n",
		Good: "device = \"cuda\" if torch.cuda.is_available() else \"mps\" if torch.backends.mps.is_available() else " +
			"\"cpu\"\n",
	}, Kinds: []pyast.Kind{pyast.KindIfExp, pyast.KindIf}, Node: func(p *audit.Pass, n pyast.Node) {
		if s, ok := n.(*pyast.If); ok {
			chosenByIf(p, s)
			return
		}
		e := n.(*pyast.IfExp)
		if p.Target.Device != "mps" || !strings.Contains(p.Text(e.Test), "cuda") {
			return
		}
		if yes, known := p.Value(e.Test).Truth(); known && yes {
			return
		}
		body, other := p.Value(e.Body), p.Value(e.Orelse)
		if !namesCUDA(body) || !(other.Kind == abstract.Str && other.Text == "cpu" || other.Kind == abstract.Device &&
			other.Where == abstract.OnCPU) {
			return
		}
		_, known := p.Value(e.Test).Truth()
		f := audit.Finding{Sure: known, Text: "on a Mac this is the CPU: MPS is never chosen",
			Hint: "ask torch.backends.mps.is_available() as well"}
		if k, ok := e.Orelse.(*pyast.Constant); ok && k.IsString() && strings.HasPrefix(p.Text(e.Test), "torch.") {
			quote := p.Text(k)[:1]
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "choose MPS where it is available", Edits: []audit.Edit{
				{From: e.Orelse.Pos(), To: e.Orelse.Pos(), Text: quote + "mps" + quote +
					" if torch.backends.mps.is_available() else "}}}
		}
		p.Report(e, f)
	}}

var knowsMPS = regexp.MustCompile(`["']mps|\bmps\.`)

// chosenByIf finds `if torch.cuda.is_available(): device = "cuda"` in a file that knows nothing of MPS, where the name
// is the CPU otherwise.
func chosenByIf(p *audit.Pass, s *pyast.If) {
	if p.Target.Device != "mps" || len(s.Body) == 0 || !strings.Contains(p.Text(s.Test), "cuda") {
		return
	}
	if yes, known := p.Value(s.Test).Truth(); !known || yes {
		return
	}
	var chosen, other pyast.Expr
	switch b := s.Body[len(s.Body)-1].(type) {
	case *pyast.Assign:
		chosen, other = b.Value, b.Targets[0] // what the name holds now
	case *pyast.Return:
		chosen = b.Value
		if len(s.Orelse) == 1 {
			if r, ok := s.Orelse[0].(*pyast.Return); ok {
				other = r.Value
			}
		} else if f := p.Func(); f != nil && f.Node != nil { // the return behind it
			for i, t := range f.Node.Body {
				if t == pyast.Stmt(s) && i+1 < len(f.Node.Body) {
					if r, ok := f.Node.Body[i+1].(*pyast.Return); ok {
						other = r.Value
					}
				}
			}
		}
	}
	if chosen == nil || other == nil {
		return
	}
	if cpu := p.Value(other); namesCUDA(p.Value(chosen)) &&
		(cpu.Kind == abstract.Str && cpu.Text == "cpu" || cpu.Kind == abstract.Device && cpu.Where == abstract.OnCPU) &&
		!knowsMPS.Match(p.Src().Text) {
		p.Report(s.Test, audit.Finding{Sure: true, Text: "on a Mac this is the CPU: MPS is never chosen",
			Hint: "ask torch.backends.mps.is_available() as well"})
	}
}

func namesCUDA(v *abstract.Value) bool {
	return v.Kind == abstract.Str && strings.HasPrefix(v.Text, "cuda") || v.Kind == abstract.Device &&
		v.Where == abstract.OnCUDA
}
