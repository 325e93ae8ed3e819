package trajectory

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/evidence"
	"assay/internal/text"
)

// Section is a part of the table that a reviewer signs: the three forms print the same ones.
type Section struct {
	Title   string
	Says    []string // sentences
	Columns []string
	Rows    [][]string
	Note    string // below the table
}

// Sections lists them in their order.
func (r *Result) Sections() []Section {
	b := &r.Body
	return []Section{r.runs(), {Title: "Comparable", Says: b.comparable()}, r.departures(), r.noise(), r.delta(),
		r.known(), r.isolated(), {Title: "What is left", Says: b.Left}, r.types(),
		{Title: "Not known", Says: b.Unknown}, {Title: "What to do next", Says: b.Next}}
}

// Headline is the answer in one sentence.
func (r *Result) Headline() string {
	label := ""
	if r.Body.Rehearsed {
		label = " (rehearsed)"
	}
	return r.Body.Answer + label + ": " + r.Body.Why
}

func (r *Result) runs() Section {
	s := Section{Title: "The two runs", Columns: []string{"what", "A: what B is held against", "B", "how known"}}
	row := func(name, how string, of func(Side) string) {
		s.Rows = append(s.Rows, []string{name, orUnknown(of(r.Body.A)), orUnknown(of(r.Body.B)), how})
	}
	row("run", "recorded", func(x Side) string { return x.ID })
	row("began", "recorded", func(x Side) string { return x.Began })
	row("command", "recorded", func(x Side) string { return x.Command })
	row("ran on", "recorded", func(x Side) string { return x.Place })
	row("commit", "recorded", func(x Side) string { return x.Commit })
	row("SHA-256 of the evidence", "worked out of its bytes", func(x Side) string { return x.Document })
	return s
}

func (b *Body) comparable() []string {
	if len(b.Bars) == 0 {
		return []string{"Script, arguments, data, samples of an update, seeds and learning rates are the same as far as they were " +
			"recorded, and both runs came to their end."}
	}
	var says []string
	for _, bar := range b.Bars {
		says = append(says, fmt.Sprintf("%s; allowed (--allow %s), as what is to be judged", bar.Why, bar.Name))
	}
	return says
}

func (r *Result) departures() Section {
	b := &r.Body
	s := Section{Title: "How far B departs from A", Columns: []string{"what", "value", "how known"},
		Says: []string{"Tolerance: " + b.Within.Words() + " (" + b.Within.Source + ").",
			"The figures are derived from what both runs recorded: the losses that the agent saw, or what the script logged."}}
	if b.Smooth > 0 {
		s.Says = append(s.Says, fmt.Sprintf("Judged is the mean over the last %d steps (--smooth).", b.Smooth))
	}
	for i := range b.Series {
		s.Rows = append(s.Rows, b.Series[i].rows(b.Rehearsed)...)
	}
	return s
}

func (c *Compared) rows(rehearsed bool) (rows [][]string) {
	name := text.Short(c.Name, 60)
	measured := "derived from what both runs logged through " + c.Door
	if c.Door == "" {
		measured = "derived from the measured losses of both"
	}
	if rehearsed {
		measured = strings.Replace(measured, "measured", "rehearsed", 1)
	}
	add := func(what, value string) { rows = append(rows, []string{name + ": " + what, value, measured}) }
	if c.Judged {
		add("answer", c.Answer+": "+c.Why)
	}
	if c.Steps == 0 {
		add("compared", "no step is in both")
		return rows
	}
	at := func(p *Point) string {
		if p == nil {
			return "none"
		}
		words := fmt.Sprintf("step %d: %s in A, %s in B", p.Step, value(p.A), value(p.B))
		if p.Relative != nil && p.Difference != nil {
			words += fmt.Sprintf(" (%s, %+.3g)", percent(*p.Relative), *p.Difference)
		}
		return words
	}
	if !c.Judged {
		add("not judged", fmt.Sprintf("%d values, %d the same to the last bit; largest difference at %s", c.Steps,
			c.Equal,
			at(c.Largest)))
		return rows
	}
	add("compared", fmt.Sprintf("%d values, %s %d to %d; %d the same to the last bit", c.Steps, c.By, c.From, c.To,
		c.Equal))
	add("first beyond the tolerance", at(c.First))
	if c.Equal < c.Steps {
		add("first that is not the same", at(c.FirstDiff))
		add("largest difference", at(c.Largest))
		add("last", at(c.Final))
		if c.Area != nil && c.Bias != nil {
			add("area between", fmt.Sprintf("%.3g over %d steps; B is %+.3g beside A in the mean", *c.Area,
				c.To-c.From, *c.Bias))
		}
		trend := orUnknown(c.Trend)
		if len(c.Quarters) > 0 {
			var q []string
			for _, v := range c.Quarters {
				q = append(q, percent(v))
			}
			trend += "; medians of four stretches " + strings.Join(q, ", ")
		} else {
			trend += ": fewer than 12 values"
		}
		add("trend of the difference", trend)
		if d := c.Smoothed; d != nil {
			add(fmt.Sprintf("smoothed, mean over %d", c.Window),
				fmt.Sprintf("largest at %s; beyond the tolerance %d of %d, first at %s",
					at(d.Largest), d.Beyond, d.Steps, at(d.First)))
		}
	}
	if n := c.LostA + c.LostB + c.LostBoth; n > 0 {
		add("not finite", fmt.Sprintf("%d in A alone, %d in B alone, %d in both; first at step %d", c.LostA, c.LostB,
			c.LostBoth, c.FirstNaN.Step))
	}
	for _, n := range c.Notes {
		rows = append(rows, []string{name + ": note", n, "recorded"})
	}
	return rows
}

func (r *Result) noise() Section {
	p := r.Body.Repeats
	s := Section{Title: "What repeats of A do"}
	if p.Most == nil {
		s.Says = []string{"Not known: " + p.Why + "."}
		return s
	}
	s.Columns = []string{"run", "largest departure from A", "how known"}
	for i, id := range p.Runs {
		s.Rows = append(s.Rows, []string{id, percent(p.Largest[i]), "derived from the measured losses of both"})
	}
	if p.Equal {
		s.Says = append(s.Says, "They are the same as A to the last bit: what departs from A does so for a reason.")
	}
	s.Note = fmt.Sprintf("One run more that differs in nothing lies farther from A than all of these with a chance of 1 in %d.",
		len(p.Runs)+1)
	return s
}

func (r *Result) delta() Section {
	s := Section{Title: "What changed from A to B", Columns: []string{"what", "A", "B", "can it explain a difference",
		"does it",
		"how known"}}
	idle := 0
	for _, row := range r.Body.Changes {
		if row.Can == Cannot && row.Part != "subject" && row.Part != "target" {
			idle++
			continue
		}
		does, how := row.Does, "recorded in both"
		switch {
		case row.Does == Open:
			does = "–"
		case row.By != "":
			how = "recorded in both; by " + row.By
		}
		can := row.Can
		if row.Why != "" {
			can += ": " + row.Why
		}
		if row.Judged {
			can += " (allowed)"
		}
		s.Rows = append(s.Rows, []string{strings.TrimSpace(row.Part + " " + row.Name), orNone(row.From),
			orNone(row.To), can, does, how})
	}
	if len(s.Rows) == 0 {
		s.Says = append(s.Says, "Nothing that was recorded and could matter is another.")
	}
	if idle > 0 {
		s.Note = fmt.Sprintf("%d more changed that change no number (power, memory, mounts, other programs): --json has them.", idle)
	}
	return s
}

func (r *Result) known() Section {
	s := Section{Title: "Known wrong numbers where they ran", Columns: []string{"fact", "run", "what it says",
		"whether it was met",
		"source"}}
	seen := map[string]bool{}
	for _, row := range r.Body.Changes {
		for _, f := range row.Facts {
			if seen[f.Run+f.Name] {
				continue
			}
			seen[f.Run+f.Name] = true
			met := "possible: an operator that it is about was called"
			if f.Met {
				met = "met in the rehearsal"
			}
			s.Rows = append(s.Rows, []string{f.Name, f.Run, f.Says, met, f.Source})
		}
	}
	return s
}

func (r *Result) isolated() Section {
	s := Section{Title: "Runs named beside them", Columns: []string{"run", "differs from A in", "departs from A",
		"departs from B",
		"tells"}}
	share := func(v *float64) string {
		if v == nil {
			return "unknown"
		}
		return percent(*v)
	}
	for _, is := range r.Body.Isolated {
		s.Rows = append(s.Rows, []string{is.ID, orNone(strings.Join(is.Changes, ", ")), share(is.FromA), share(is.ToB),
			is.What})
	}
	return s
}

func (r *Result) types() Section {
	s := Section{Title: "In which types they computed", Columns: []string{"part", "A", "B", "how known"}}
	for _, p := range r.Body.Policies {
		s.Rows = append(s.Rows, []string{p.What, orUnknown(p.A), orUnknown(p.B), p.How})
	}
	return s
}

// signed are the lines that a reviewer fills in.
var signed = []string{"Reviewed by", "Accepted / refused", "Reason", "Date", "Signature"}

// Signed lists what a reviewer fills in.
func Signed() []string { return signed }

// Title says what is compared.
func (r *Result) Title() string {
	return "Loss trajectories: " + evidence.Title(&evidence.Run{Envelope: r.Envelope})
}

// JSON writes the document.
func (r *Result) JSON(out io.Writer) error { return evidence.Write(out, r) }

// Text writes what was found, in lines of at most width columns where their words allow.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	b.WriteString(text.Wrapped(text.Lines(r.Headline()), "", "  ", width))
	for _, s := range r.Sections() {
		if len(s.Says)+len(s.Rows) == 0 {
			continue
		}
		b.WriteString("\n" + s.Title + "\n")
		for _, line := range s.Says {
			b.WriteString(text.Wrapped(text.Line(line), "  ", "    ", width))
		}
		for _, row := range s.Rows {
			first := "  " + text.Line(row[0])
			var rest []string
			for i, cell := range row[1:] {
				if s.Columns[i+1] == "how known" && strings.HasPrefix(cell, "derived from") {
					continue // the head of its section says so once
				}
				word := text.Line(cell)
				switch s.Columns[i+1] {
				case "value", "tells", "how known", "what it says", "largest departure from A":
				case "A", "A: what B is held against":
					word = "A " + word
				case "B":
					word = "B " + word
				case "can it explain a difference":
					word = "can explain: " + word
				case "does it":
					if cell == "–" {
						continue
					}
				case "source":
					word = "source: " + word
				default:
					word = s.Columns[i+1] + " " + word
				}
				rest = append(rest, word)
			}
			b.WriteString(text.Wrapped(strings.Join(rest, "; "), first+"  ", "      ", width))
		}
		if s.Note != "" {
			b.WriteString(text.Wrapped(text.Line(s.Note), "  ", "    ", width))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// most is how much of a stranger's text a cell of the table has, bytes.
const most = 500

// Markdown writes the table for a review, with lines for a signature.
func (r *Result) Markdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**\n", text.Markdown(r.Title(), most), text.Markdown(r.Headline(), 2*most))
	for _, s := range r.Sections() {
		if len(s.Says)+len(s.Rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", s.Title)
		for _, line := range s.Says {
			fmt.Fprintf(&b, "- %s\n", text.Markdown(line, 2*most))
		}
		if len(s.Rows) > 0 {
			if len(s.Says) > 0 {
				b.WriteString("\n")
			}
			line := func(cells []string) {
				for _, c := range cells {
					b.WriteString("| " + text.Markdown(c, most) + " ")
				}
				b.WriteString("|\n")
			}
			line(s.Columns)
			b.WriteString(strings.Repeat("| --- ", len(s.Columns)) + "|\n")
			for _, row := range s.Rows {
				line(row)
			}
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", text.Markdown(s.Note, most))
		}
	}
	b.WriteString("\n## Signature\n\nWhat is signed is this comparison of the two records named by their SHA-256 above.\n\n| | |\n| --- | --- |\n")
	for _, name := range Signed() {
		fmt.Fprintf(&b, "| %s | |\n", name)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Curve is a series of both for a plot; NaN is a gap.
type Curve struct {
	Name, By string
	Step     []float64
	A, B     []float64
}

// Curves are the series in the order of the table.
func (r *Result) Curves() []Curve { return r.curves }
