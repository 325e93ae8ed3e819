package cli

import (
	"fmt"
	"strings"

	"assay/internal/facts"
)

// opsFact is a row of the facts in an answer of `assay ops`, with how it is met.
type opsFact struct {
	*facts.Fact
	Sure     bool   `json:"sure"` // each call meets it; false: it depends on what is given, as `when` says
	Operator string `json:"met_by,omitempty"`
	Backward bool   `json:"in_backward,omitempty"`
}

func opsFacts(said []facts.Said) []opsFact {
	var list []opsFact
	for _, s := range said {
		list = append(list, opsFact{s.Fact, s.Sure(), s.Operator, s.Backward})
	}
	return list
}

// opsFactsShown is how many facts that do no harm unseen are told one by one; wrong results are told all, and so is what
// every call meets.
const opsFactsShown = 12

// factsText tells facts, the worst first. Those about any tensor are named in one line, but for wrong results.
func factsText(b *strings.Builder, list []opsFact, w int) {
	var folded, everywhere []string
	told := 0
	if len(list) > 0 {
		b.WriteString("\n")
	}
	for _, f := range list {
		grave := f.Outcome == facts.Wrong || f.Outcome == facts.Aborts || f.Sure && f.Outcome == facts.Refused
		switch {
		case f.Everywhere() && f.Outcome != facts.Wrong:
			everywhere = append(everywhere, f.Name)
			continue
		case !grave && told >= opsFactsShown:
			folded = append(folded, f.Name)
			continue
		}
		if !grave {
			told++
		}
		wrapTo(b, factLine(f), "· ", "    ", w)
	}
	if len(folded) > 0 {
		wrapTo(b, fmt.Sprintf("%d more, each told by its name, as `assay ops %s`: %s", len(folded), folded[0],
			strings.Join(folded, ", ")), "· ", "    ", w)
	}
	if len(everywhere) > 0 {
		wrapTo(b, "known of any tensor on MPS: "+strings.Join(everywhere, ", ")+" (`assay ops "+everywhere[0]+"` tells one)",
			"· ", "    ", w)
	}
}

// outcomeWords say what happens, in capitals where nobody would notice it.
var outcomeWords = map[facts.Outcome]string{facts.Wrong: "WRONG RESULT", facts.Aborts: "ENDS THE PROCESS",
	facts.Refused: "refused", facts.CPU: "goes to the CPU by itself", facts.Slow: "slow", facts.Warns: "warns",
	facts.Ignored: "ignored"}

func factLine(f opsFact) string {
	var line strings.Builder
	name := f.Name
	if f.Operator != "" {
		name = short(f.Operator)
	}
	fmt.Fprintf(&line, "%s %s", name, outcomeWords[f.Outcome])
	if f.Backward && f.Direction != "forward" {
		line.WriteString(" in the backward pass")
	}
	if f.Sure {
		line.WriteString(", each call")
	}
	fmt.Fprintf(&line, ": %s", f.When)
	if f.Wrong != "" {
		fmt.Fprintf(&line, ": %s", f.Wrong)
	}
	if f.MacOS != "" {
		fmt.Fprintf(&line, ", macOS %s", f.MacOS)
	}
	if f.Text != "" {
		fmt.Fprintf(&line, ": %s“%s”", strings.TrimPrefix(f.Error+" ", " "), strings.TrimSpace(f.Text))
	}
	switch {
	case f.Fixed != "":
		fmt.Fprintf(&line, "; right from %s on", f.Fixed)
	case f.Until != "":
		fmt.Fprintf(&line, "; seen up to %s", f.Until)
	case f.Outcome == facts.Wrong && f.Open:
		line.WriteString("; open, no release with a fix is known")
	case f.Outcome == facts.Wrong:
		line.WriteString("; no release with a fix is known")
	}
	if f.Remedy != "" {
		fmt.Fprintf(&line, " → %s", f.Remedy)
	}
	fmt.Fprintf(&line, " (%s; %s)", f.Known, f.Source)
	return line.String()
}
