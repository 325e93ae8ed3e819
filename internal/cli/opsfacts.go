package cli

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
)

// opsFact is a row of the facts in an answer of `assay ops`, with how it is met.
type opsFact struct {
	*facts.Fact
	Sure     bool   `json:"sure"`    // each call meets it; false: it depends on what is given, as `when` says
	Certain  bool   `json:"certain"` // it is known to be so in this release; false: a report shows it in others
	Operator string `json:"met_by,omitempty"`
	Backward bool   `json:"in_backward,omitempty"`
}

func opsFacts(said []facts.Said) []opsFact {
	var list []opsFact
	for _, s := range said {
		list = append(list, opsFact{s.Fact, s.Sure(), s.Certain, s.Operator, s.Backward})
	}
	return list
}

// opsFactsShown is how many facts that do no harm unseen are told one by one; wrong results are told all, and so is
// what every call meets.
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
		wrapTo(b, "known of any tensor on MPS: "+strings.Join(everywhere,
			", ")+" (`assay ops "+everywhere[0]+"` tells one)",
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
	case f.Outcome == facts.Wrong && !f.Certain && f.From != "":
		fmt.Fprintf(&line, "; reported in %s, not known whether later releases have it", f.From)
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

// factOps answers with one row of the facts, asked for by its name.
func factOps(a *atlas.Atlas, opts opsOptions, f *facts.Fact) (*opsAnswer, error) {
	o, _, err := newAnswer(a, opts.Torch)
	if err != nil {
		return nil, err
	}
	o.Facts = []opsFact{{Fact: f}}
	return o, nil
}

// text tells a row in full, with the smallest call that meets it.
func (f opsFact) text(b *strings.Builder, w int) {
	fmt.Fprintf(b, "%s\n", f.Name)
	wrapTo(b, "meets: "+strings.Join(f.Meets, " "), "  ", "    ", w)
	namesText(b, "Python names", slices.Concat(f.Always, f.Python), w)
	var span []string
	for _, part := range []struct{ what, value string }{{"seen from", f.From}, {"to", f.Until}, {"right from", f.Fixed},
		{"macOS", f.MacOS}} {
		if part.value != "" {
			span = append(span, part.what+" "+part.value)
		}
	}
	if len(span) > 0 {
		fmt.Fprintf(b, "  %s\n", strings.Join(span, ", "))
	}
	for _, part := range []struct{ what, code string }{{"meets it", f.Call}, {"does not", f.Beside}} {
		if part.code != "" {
			fmt.Fprintf(b, "  %s:\n", part.what)
			for line := range strings.Lines(strings.TrimSpace(part.code)) {
				fmt.Fprintf(b, "    %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
	b.WriteString("\n")
	wrapTo(b, factLine(f), "· ", "    ", w)
}

// refuse has the verdict of a direction say that each call is refused, where the facts say so of the name.
func (d *opsAPI) refuse(list []opsFact) {
	for _, f := range list {
		if !f.Sure || f.Outcome != facts.Refused && f.Outcome != facts.Aborts || f.Everywhere() {
			continue
		}
		for _, way := range []struct {
			*opsDirection
			backward bool
		}{{d.Forward, false}, {d.Backward, true}} {
			if way.opsDirection == nil || way.backward != (f.Backward || f.Direction == "backward") {
				continue
			}
			if way.Verdict = "refused"; f.MacOS != "" {
				way.Verdict += " on macOS " + f.MacOS
			}
		}
	}
}

// ofNames adds what is known of the backward passes of the functions that are called as operators are: who asks for
// roi_align trains with torchvision.ops.roi_align.
func ofNames(a *atlas.Atlas, torch string, operators []opsState, list []facts.Said) []facts.Said {
	for _, s := range operators {
		base, _, _ := strings.Cut(s.Name, ".")
		name := map[string]string{"torch": "torch.", "torchvision": "torchvision.ops.",
			"torchaudio": "torchaudio.functional."}[s.Package] + base[strings.Index(base, "::")+2:]
		if api, ok := a.API(name); !ok || len(api.Backward) == 0 {
			continue
		}
		for _, said := range facts.Load().Ask(a, facts.Question{Torch: torch, Python: name}) {
			if said.Backward && !slices.ContainsFunc(list, func(x facts.Said) bool { return x.Fact == said.Fact }) {
				list = append(list, said)
			}
		}
	}
	slices.SortStableFunc(list, facts.Compare)
	return list
}
