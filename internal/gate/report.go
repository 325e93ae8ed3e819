package gate

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// Report is what a policy says of a set of runs: a document of evidence, whose subject and target are those of the
// first run. Its figures are those that the gates went by, its findings the gates that do not pass, its limits the
// bounds.
type Report struct {
	evidence.Envelope
	Ruling `json:"body"`
}

// Ruling is what a report has beyond the envelope.
type Ruling struct {
	Policy  string   `json:"policy"`
	Outcome Outcome  `json:"outcome"` // fail where a gate fails, else cannot tell where one cannot be told, else pass
	Counts  Counts   `json:"counts"`
	Runs    []RunRef `json:"runs"`
	Gates   []Result `json:"gates"`
}

// Counts of the gates by outcome.
type Counts struct {
	Pass     int `json:"pass"`
	Fail     int `json:"fail"`
	Unknown  int `json:"cannot_tell"`
	NotAsked int `json:"not_asked"`
}

// RunRef points at a run.
type RunRef struct {
	ID string `json:"id"`
	// SHA-256 of the evidence: two runs of earlier assays may have one id
	Document string    `json:"document,omitempty"`
	Started  time.Time `json:"started"`
	Device   string    `json:"device"`
	Judged   bool      `json:"judged"` // false: there to compare with
}

// Result of one gate.
type Result struct {
	Name    string   `json:"name"`
	Rule    string   `json:"rule"`
	When    string   `json:"when,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Because string   `json:"because,omitempty"`
	Source  string   `json:"source,omitempty"`
	Answers []Answer `json:"conditions"`
}

// Needs lists what would make a gate known, without repetition.
func (r *Result) Needs() []string {
	var needs []string
	seen := map[string]bool{}
	for _, a := range r.Answers {
		if a.Outcome == Unknown && a.Needs != "" && !seen[a.Needs] {
			seen[a.Needs] = true
			needs = append(needs, a.Needs)
		}
	}
	return needs
}

// Judge holds the runs of the set against the policy.
func Judge(p *Policy, s *Set) *Report {
	rep := &Report{Envelope: evidence.NewEnvelope(evidence.KindGate), Ruling: Ruling{Policy: p.Name, Outcome: Pass,
		Runs: []RunRef{}, Gates: []Result{}}}
	if len(s.Runs) > 0 {
		rep.About(s.Runs[0])
	}
	for _, run := range s.Runs {
		rep.Runs = append(rep.Runs, RunRef{ID: run.ID, Document: run.Document, Started: run.Started,
			Device: Device(run), Judged: unlike(s.Runs[0], run) == ""})
	}
	for i := range p.Gates {
		g := &p.Gates[i]
		r := Result{Name: g.Name, Rule: g.Rule, When: g.When, Because: g.Because, Source: g.Source, Answers: []Answer{}}
		asked := Pass
		if g.when != nil {
			var answers []Answer
			if asked, answers = s.Answer(g.when); asked != Pass {
				r.Answers = append(r.Answers, answers...)
			}
		}
		switch asked {
		case Fail:
			r.Outcome = NotAsked
		case Unknown:
			r.Outcome = Unknown
		default:
			r.Outcome, r.Answers = s.Answer(g.rule)
		}
		switch r.Outcome {
		case Pass:
			rep.Counts.Pass++
		case Fail:
			rep.Counts.Fail++
		case Unknown:
			rep.Counts.Unknown++
		case NotAsked:
			rep.Counts.NotAsked++
		}
		rep.Gates = append(rep.Gates, r)
		rep.document(g, r)
	}
	switch {
	case rep.Counts.Fail > 0:
		rep.Outcome = Fail
	case rep.Counts.Unknown > 0 || rep.Counts.Pass == 0:
		rep.Outcome = Unknown
	}
	return rep
}

// document puts into the envelope what a gate says.
func (rep *Report) document(g *Gate, r Result) {
	if r.Outcome == NotAsked {
		return
	}
	rep.Figures = append(rep.Figures, Figures("gate", g.Name, r.Answers)...)
	for _, c := range g.rule.Conditions() {
		unit := c.known.Unit
		if c.Baseline {
			unit = "ratio"
		}
		rep.Limits = append(rep.Limits, evidence.Limit{Name: g.Name, Value: c.Bound, Unit: unit, Source: rep.Policy +
			": " + c.Text})
	}
	if r.Outcome == Pass {
		return
	}
	var texts []string
	for _, a := range r.Answers {
		texts = append(texts, a.Text)
	}
	severity := evidence.Error
	if r.Outcome == Unknown {
		severity = evidence.Warning
	}
	rep.Findings = append(rep.Findings, evidence.Finding{Name: g.Name, Severity: severity,
		Text: strings.Join(texts, "; "),
		Hint: strings.Join(r.Needs(), "; "), Basis: evidence.Derived})
}

// Figures are those that answers went by, with a label for what asked.
func Figures(label, name string, answers []Answer) []evidence.Figure {
	var all []evidence.Figure
	for _, a := range answers {
		fig := a.Figure
		fig.Labels = evidence.Labels{label: name, "condition": a.Condition}
		all = append(all, fig)
	}
	return all
}

// Answer evaluates a rule. What is not known counts as neither true nor false: "a or b" holds where a does, whatever b
// is; where neither is known to hold and one is not known, neither is the whole.
func (s *Set) Answer(e *Expr) (Outcome, []Answer) {
	if e.Cond != nil {
		a := s.evaluate(e.Cond)
		return a.Outcome, []Answer{a}
	}
	out, decisive := Pass, Fail
	if e.Op == "or" {
		out, decisive = Fail, Pass
	}
	var answers []Answer
	for _, term := range e.Terms {
		o, more := s.Answer(term)
		answers = append(answers, more...)
		switch {
		case o == decisive:
			out = decisive
		case o == Unknown && out != decisive:
			out = Unknown
		}
	}
	return out, answers
}

// How says from what the figure of an answer is known.
func (a *Answer) How() string {
	if !a.Figure.Known() {
		return ""
	}
	parts := []string{string(a.Figure.Basis)}
	if a.Figure.Window != "" {
		parts = append(parts, a.Figure.Window+" window")
	}
	if a.Figure.N > 0 && a.Compared == nil && len(a.Each) < 2 {
		parts = append(parts, fmt.Sprintf("n=%d", a.Figure.N))
	}
	if a.Figure.Note != "" && a.Compared == nil {
		parts = append(parts, clean.Lines(a.Figure.Note))
	}
	if len(a.Runs) > 0 {
		ids := a.Runs
		if len(ids) > 4 {
			ids = append(append([]string{}, ids[:3]...), fmt.Sprintf("%d more", len(ids)-3))
		}
		parts = append(parts, "of "+clean.Lines(strings.Join(ids, ", ")))
	}
	return strings.Join(parts, "; ")
}

// Form is one way to write a report down.
type Form interface {
	Name() string
	Write(w io.Writer, r *Report) error
}

// Forms is the explicit list.
func Forms() []Form { return []Form{Text{}, JSON{}, JUnit{}, GitHub{}} }

// Text is for a terminal.
type Text struct{ Width int }

// Name of the form.
func (Text) Name() string { return "text" }

// Write the report.
func (t Text) Write(w io.Writer, rep *Report) error {
	out := bufio.NewWriter(clean.NewWriter(w))
	width := t.Width
	if width <= 0 {
		width = 100
	}
	name := 0
	for _, r := range rep.Gates {
		name = max(name, len(r.Name))
	}
	name = min(name, 24)
	left := strings.Repeat(" ", 13)
	for _, r := range rep.Gates {
		fmt.Fprintf(out, "%-11s  %-*s  %s\n", r.Outcome, name, r.Name, clean.Lines(oneLine(r.Rule)))
		if r.Outcome == NotAsked {
			Wrap(out, left, "when "+oneLine(r.When)+" does not hold: "+texts(r.Answers), width)
			continue
		}
		for _, a := range r.Answers {
			line := a.Text
			if len(r.Answers) > 1 {
				line = string(a.Outcome) + ": " + line
			}
			if how := a.How(); how != "" {
				line += " (" + how + ")"
			}
			Wrap(out, left, line, width)
		}
		if r.Outcome == Unknown {
			for _, need := range r.Needs() {
				Wrap(out, left, "to know: "+need, width)
			}
		}
		if r.Outcome != Pass && r.Because != "" {
			source := ""
			if r.Source != "" {
				source = " [" + r.Source + "]"
			}
			Wrap(out, left, "because: "+r.Because+source, width)
		}
	}
	fmt.Fprintln(out, rep.Summary())
	return out.Flush()
}

// Summary is one line.
func (rep *Report) Summary() string {
	c := rep.Counts
	parts := []string{}
	for _, x := range []struct {
		n    int
		what string
	}{{c.Fail, "failed"}, {c.Unknown, "cannot be told"}, {c.Pass, "passed"}, {c.NotAsked, "not asked"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return fmt.Sprintf("policy %s: %s (%s)", clean.Lines(rep.Policy), rep.Outcome, strings.Join(parts, ", "))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func texts(answers []Answer) string {
	var all []string
	for _, a := range answers {
		if a.Outcome != Pass {
			all = append(all, a.Text)
		}
	}
	return strings.Join(all, "; ")
}

// Wrap prints text in lines of at most width columns behind the indent.
func Wrap(w io.Writer, indent, text string, width int) {
	io.WriteString(w, clean.Wrapped(clean.Lines(text), indent, indent+"  ", width))
}

// JSON is the record itself.
type JSON struct{}

// Name of the form.
func (JSON) Name() string { return "json" }

// Write the report.
func (JSON) Write(w io.Writer, rep *Report) error {
	return evidence.Write(w, rep)
}

// JUnit is the XML that CI servers read. A gate that cannot be told is an error there: it is no pass.
type JUnit struct{}

// Name of the form.
func (JUnit) Name() string { return "junit" }

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Write the report.
func (JUnit) Write(w io.Writer, rep *Report) error {
	suite := junitSuite{Name: "assay gate " + clean.Lines(rep.Policy), Tests: len(rep.Gates), Failures: rep.Counts.Fail,
		Errors: rep.Counts.Unknown, Skipped: rep.Counts.NotAsked}
	for _, r := range rep.Gates {
		c := junitCase{Name: r.Name, Class: "assay.gate"}
		detail := clean.Lines(details(&r))
		switch r.Outcome {
		case Fail:
			c.Failure = &junitText{Message: clean.Lines(r.Rule), Text: detail}
		case Unknown:
			c.Error = &junitText{Message: "cannot tell: " + clean.Lines(r.Rule), Text: detail}
		case NotAsked:
			c.Skipped = &junitText{Message: "when " + clean.Lines(r.When) + " does not hold", Text: detail}
		default:
			c.Out = detail
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func details(r *Result) string {
	var lines []string
	for _, a := range r.Answers {
		line := a.Text
		if how := a.How(); how != "" {
			line += " (" + how + ")"
		}
		lines = append(lines, line)
	}
	if r.Outcome == Unknown {
		for _, need := range r.Needs() {
			lines = append(lines, "to know: "+need)
		}
	}
	if r.Because != "" && r.Outcome != Pass {
		lines = append(lines, "because: "+r.Because)
	}
	return strings.Join(lines, "\n")
}

// GitHub is the Markdown of a job's summary.
type GitHub struct{}

// Name of the form.
func (GitHub) Name() string { return "github" }

// Write the report.
func (GitHub) Write(w io.Writer, rep *Report) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "### assay: %s\n\n| gate | outcome | rule | evidence |\n| --- | --- | --- | --- |\n",
		markdown(rep.Summary()))
	for _, r := range rep.Gates {
		mark := map[Outcome]string{Pass: "✅ pass", Fail: "❌ **fail**", Unknown: "❔ **cannot tell**",
			NotAsked: "not asked"}[r.Outcome]
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", markdown(r.Name), mark, markdown(oneLine(r.Rule)),
			markdown(details(&r)))
	}
	fmt.Fprintf(out, "\nRuns: %s\n\n", markdown(runList(rep.Runs)))
	return out.Flush()
}

func runList(runs []RunRef) string {
	var all []string
	for _, r := range runs {
		text := r.ID + " on " + orNone(r.Device)
		if !r.Judged {
			text += " (to compare with)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// markdown takes from a text what Markdown and HTML would read as theirs.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range clean.Lines(s) {
		switch {
		case r == '\n': // a row of a table is one line
			b.WriteString("<br>")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune("|`*_[]\\#~@!", r):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.NewReplacer("://", ":&#47;&#47;", "www.", "www&#46;").Replace(b.String()) // no links
}

// FiguresText lists what a rule can name, for `assay gate --figures`.
func FiguresText(w io.Writer) {
	for _, f := range figures {
		over, note := "", ""
		if f.args == "" {
			over = "over N " + strings.Join(append(slices.Sorted(maps.Keys(f.windows)), "runs"), " or ")
		}
		if f.From == catalogue.Gate {
			note = f.Doc
		}
		if f.Name == aliases["gpu.util"] {
			note = "gpu.util and gpu.busy are the same"
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-24s %-6s %-15s %-22s %s", f.Name, f.Unit, f.Better, over,
			note), " "))
	}
}

// Value prints a figure for a reader.
func Value(f evidence.Figure) string {
	if !f.Known() {
		return "not known"
	}
	return unit.Format(*f.Value, f.Unit)
}
