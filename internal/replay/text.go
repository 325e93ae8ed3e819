package replay

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/text"
	"assay/internal/unit"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// shown is how many operators of an outcome are listed.
const shown = 12

// Text writes what became of the calls, the worst first, in lines of at most width columns where their words allow.
func (f *File) Text(out io.Writer, width int) error {
	var b strings.Builder
	row := func(name, said string) {
		b.WriteString(text.Wrapped(said, fmt.Sprintf("%-12s ", name), strings.Repeat(" ", 13), width))
	}
	h := f.Header
	where := "on " + text.Line(h.Device)
	if h.Double != nil {
		where = fmt.Sprintf("on the double of torch %s, macOS %s", text.Line(h.Double.Release),
			text.Line(h.Double.MacOS))
	}
	said := fmt.Sprintf("%d of %d signatures %s, torch %s", len(f.Results), h.Total, where, text.Line(h.Torch))
	for _, s := range []string{h.Machine.Chip, h.Machine.Memory} {
		if s != "" {
			said += ", " + text.Line(s)
		}
	}
	row("replayed", said)
	row("fallback", "PYTORCH_ENABLE_MPS_FALLBACK is off for the replay"+f.detours())
	byOutcome := map[Outcome][]*Result{}
	for _, r := range f.Results {
		byOutcome[r.Outcome] = append(byOutcome[r.Outcome], r)
	}
	for _, o := range Outcomes {
		if n := len(byOutcome[o]); n > 0 {
			said := counted(byOutcome[o])
			loose := 0
			for _, r := range byOutcome[o] {
				if r.Text != "" {
					loose++
				}
			}
			if o == OK && loose > 0 {
				said += fmt.Sprintf("; %d of them not by PyTorch's tolerances alone: the file says how", loose)
			}
			row(string(o), said)
		}
	}
	for _, o := range Outcomes {
		if o == OK || len(byOutcome[o]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", headings[o])
		type group struct {
			op, text string
			n        int
		}
		var groups []*group
		for _, r := range byOutcome[o] {
			i := slices.IndexFunc(groups, func(g *group) bool { return g.op == r.Signature.Name() })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &group{op: r.Signature.Name(), text: r.Text})
			}
			groups[i].n++
		}
		slices.SortStableFunc(groups, func(x, y *group) int { return cmp.Or(y.n-x.n, strings.Compare(x.op, y.op)) })
		for i, g := range groups {
			if i == shown {
				fmt.Fprintf(&b, "  and %d operators more; they are in the file\n", len(groups)-shown)
				break
			}
			b.WriteString(text.Wrapped(fmt.Sprintf("%d × %s", g.n, text.Short(text.Line(g.text), 240)),
				"  "+text.Line(g.op)+"  ", "      ", width))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

var headings = map[Outcome]string{Wrong: "Other results than the CPU's", Ends: "Ended the process", Hangs: "Hung",
	Refused: "Refused, and the CPU computes it", Missing: "No kernel",
	NotReplayed: "Not replayed: nothing is said of the device"}

// detours says which operators went to the CPU by themselves all the same.
func (f *File) detours() string {
	of := map[string]bool{}
	for _, r := range f.Results {
		if r.Fallback {
			of[r.Signature.Name()] = true
		}
	}
	if len(of) == 0 {
		return ""
	}
	list := sortedKeys(of)
	more := ""
	if len(list) > shown {
		list, more = list[:shown], fmt.Sprintf(" and %d more", len(list)-shown)
	}
	return "; to the CPU by themselves go " + text.Line(strings.Join(list, ", ")) + more
}

// counted is a number of calls and of operators, with the time of calls where they were timed.
func counted(list []*Result) string {
	of := map[string]bool{}
	var alone, chain []float64
	for _, r := range list {
		of[r.Signature.Name()] = true
		if r.Alone != nil && r.Chain != nil {
			alone, chain = append(alone, *r.Alone), append(chain, *r.Chain)
		}
	}
	said := fmt.Sprintf("%d calls of %d operators", len(list), len(of))
	if len(alone) > 0 {
		slices.Sort(alone)
		slices.Sort(chain)
		said += fmt.Sprintf("; median of a call %s waited for, %s in a chain", unit.Seconds(alone[len(alone)/2]/1e6),
			unit.Seconds(chain[len(chain)/2]/1e6))
	}
	return said
}

// JSON writes the document.
func (c *Confirmation) JSON(out io.Writer) error { return evidence.Write(out, c) }

// Text writes what the replays say of the tables: counts, and what is found as rows that can be added.
func (c *Confirmation) Text(out io.Writer, width int) error {
	var b strings.Builder
	for _, r := range c.Body.Replays {
		said := fmt.Sprintf("%s, torch %s", text.Line(cmp.Or(r.Machine.Chip, "a machine that is not named")),
			text.Line(r.Torch))
		if r.Machine.MacOS != "" {
			said += ", macOS " + text.Line(r.Machine.MacOS)
		}
		b.WriteString(text.Wrapped(said, text.Line(r.File)+"  ", "    ", width))
		if r.NoProof != "" {
			b.WriteString(text.Wrapped("no evidence: "+text.Line(r.NoProof), "    ", "    ", width))
			continue
		}
		for _, v := range Verdicts {
			if r.Calls[v] > 0 {
				said := fmt.Sprintf("%d calls, %d operators: %s", r.Calls[v], r.Operators[v], verdictWords[v])
				b.WriteString(text.Wrapped(said, fmt.Sprintf("    %-13s", v), "    ", width))
			}
		}
		if len(r.Rows) > 0 {
			b.WriteString(text.Wrapped(strings.Join(r.Rows, ", "), "    rows confirmed: ", "      ", width))
		}
		if r.Left > 0 {
			fmt.Fprintf(&b, "    %d signatures were not come to\n", r.Left)
		}
	}
	for _, v := range []Verdict{Contradicted, New} {
		first := true
		for _, f := range c.Body.Found {
			if f.Verdict != v || v == New && f.Outcome == OK {
				continue
			}
			if first {
				head := map[Verdict]string{Contradicted: "Contradicted", New: "New"}[v]
				fmt.Fprintf(&b, "\n# %s: for internal/facts/rows/*.toml\n", head)
				first = false
			}
			fmt.Fprintf(&b, "\n# %s: %s\n%s", text.Line(f.Operator), text.Line(f.Why), f.Row())
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

var verdictWords = map[Verdict]string{Confirmed: "as the tables say", Contradicted: "not as the tables say",
	New: "nothing is known of them", Open: "the tables say that such calls may fail, and these did not", Unasked: "not replayed"}
