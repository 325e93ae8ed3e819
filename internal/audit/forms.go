package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/ci"
	"assay/internal/claims"
	"assay/internal/target"
	clean "assay/internal/text"
)

// Form writes a report for one kind of reader.
type Form struct {
	Name  string
	Write func(io.Writer, *Report) error
}

// Forms are the forms that `assay check --format` knows.
var Forms = []Form{{"text", writeText}, {"concise", writeConcise}, {"json", writeJSON}, {"sarif", writeSARIF},
	{"github", writeGitHub}, {"junit", writeJUnit}}

// Report is what a check found. docs/check.md describes its JSON.
type Report struct {
	Schema   string       `json:"schema"` // assay.check/1
	Version  string       `json:"assay"`
	Target   ReportTarget `json:"target"`
	Files    int          `json:"files"` // read
	Items    []Item       `json:"findings"`
	Troubles []Trouble    `json:"not_checked"` // files that could not be read or parsed as a whole
	Counts   Counts       `json:"counts"`
	rules    []*Rule
	aim      target.Aim
}

// ReportTarget is what the code was judged for.
type ReportTarget struct {
	Device string `json:"device"`
	Torch  string `json:"torch"`
	From   string `json:"torch_from,omitempty"` // why that one, as target.Aim has it
	// what else was found of the release, or could not be read
	Beside []string `json:"torch_beside,omitempty"`
	MacOS  string   `json:"macos,omitempty"`
}

// Counts of a report's findings.
type Counts struct {
	Errors     int `json:"errors"`
	Warnings   int `json:"warnings"`
	Notes      int `json:"notes"`
	Suspected  int `json:"suspected"` // of those
	Suppressed int `json:"suppressed"`
	Baseline   int `json:"in_baseline"`
	Fixed      int `json:"fixed"`
	Fixable    int `json:"fixable"`        // by --fix
	Unsafe     int `json:"unsafe_fixable"` // by --fix --unsafe-fixes
}

// Item is a finding as it is written.
type Item struct {
	Rule      string   `json:"rule"`
	Severity  Severity `json:"severity"`
	Certainty string   `json:"certainty"` // sure, suspected
	Basis     string   `json:"basis"`     // derived: from the source, by the rule
	File      string   `json:"file"`
	Cell      int      `json:"cell,omitempty"` // code cells, from 1
	Line      int      `json:"line"`           // from 1, of the cell in a notebook
	Column    int      `json:"column"`         // from 1, in characters
	EndLine   int      `json:"end_line"`
	EndColumn int      `json:"end_column"`
	Text      string   `json:"text"`
	Hint      string   `json:"hint,omitempty"`
	Source    string   `json:"source,omitempty"`
	Fact      string   `json:"fact,omitempty"` // row of the facts that is behind it: assay ops FACT
	Fix       *ItemFix `json:"fix,omitempty"`
	Claims    []string `json:"claims,omitempty"` // numbers: `assay claims N` tells one

	excerpt []string // lines of source
	first   int      // number of the first
	raw     int      // line of the file, in a notebook as well
	under   [2]int   // runes of the finding's line to mark
}

// ItemFix is a fix as it is written; bytes are of the file's Python (of a notebook: of its cells one after the other).
type ItemFix struct {
	Safety Safety     `json:"safety"`
	Title  string     `json:"title"`
	Edits  []ItemEdit `json:"edits"`
}

// ItemEdit replaces bytes from…to.
type ItemEdit struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
}

// Trouble is a file that was not checked, or not as a whole.
type Trouble struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
	cell int

	syntax bool // Python cannot read it either
}

// Cell is the code cell of Line, 0 outside notebooks.
func (t Trouble) Cell() int { return t.cell }

func (t Trouble) where() string {
	switch {
	case t.cell > 0:
		return fmt.Sprintf("%s:cell %d:%d", atStart(t.File), t.cell, t.Line)
	case t.Line > 0:
		return fmt.Sprintf("%s:%d", atStart(t.File), t.Line)
	}
	return atStart(t.File)
}

func (i Item) where() string {
	if i.Cell > 0 {
		return fmt.Sprintf("%s:cell %d:%d:%d", atStart(i.File), i.Cell, i.Line, i.Column)
	}
	return fmt.Sprintf("%s:%d:%d", atStart(i.File), i.Line, i.Column)
}

// atStart is a file's name fit to begin a line: GitHub's runner takes a printed line that begins with :: for a command
// of the workflow.
func atStart(file string) string {
	if strings.HasPrefix(strings.TrimSpace(clean.Line(file)), "::") {
		return "./" + file
	}
	return file
}

func (i Item) kind() string {
	if i.Certainty == "suspected" {
		return "suspected " + string(i.Severity)
	}
	return string(i.Severity)
}

func item(src *Source, f Finding) Item {
	from, to := src.Place(f.From), src.Place(f.To)
	i := Item{Rule: f.Rule.Name, Severity: f.Severity, Certainty: "suspected", Basis: "derived", File: src.Path,
		Cell: from.Cell, Line: from.Line, Column: from.Column,
		EndLine: to.Line, EndColumn: to.Column, Text: f.Text, Hint: f.Hint, Source: f.Source, Fact: f.Fact,
		Claims: slices.Clone(f.Rule.Claims)}
	for _, n := range claims.Open().OfFact(f.Fact) {
		if !slices.Contains(i.Claims, n) {
			i.Claims = append(i.Claims, n)
		}
	}
	if f.Sure {
		i.Certainty = "sure"
	}
	if f.Fix != nil {
		i.Fix = &ItemFix{Safety: f.Fix.Safety, Title: f.Fix.Title}
		for _, e := range f.Fix.Edits {
			i.Fix.Edits = append(i.Fix.Edits, ItemEdit(e))
		}
	}
	line, start := src.Line(f.From)
	i.first, i.raw = from.Line, src.rawLine(f.From)
	if trimmed, ok := strings.CutPrefix(line, "\uFEFF"); ok {
		line, start = trimmed, start+len("\uFEFF")
	}
	i.excerpt = []string{clean.Line(line)}
	end := min(f.To, start+len(line))
	a := utf8.RuneCountInString(line[:max(0, min(len(line), f.From-start))])
	i.under = [2]int{a, max(a+1, utf8.RuneCountInString(line[:max(0, end-start)]))}
	return i
}

const excerptWidth = 120

func writeText(w io.Writer, r *Report) error {
	b := &strings.Builder{}
	for _, i := range r.Items {
		fmt.Fprintf(b, "%s: %s: %s [%s]\n", clean.Line(i.where()), i.kind(), clean.Line(i.Text), i.Rule)
		runes := []rune(i.excerpt[0])
		from, to := i.under[0], i.under[1]
		cut := 0
		if to > excerptWidth { // a long line: show the part around the finding
			cut = max(0, from-excerptWidth/3)
		}
		shown := runes[min(cut, len(runes)):]
		if len(shown) > excerptWidth {
			shown = shown[:excerptWidth]
		}
		number := fmt.Sprint(i.Line)
		fmt.Fprintf(b, "  %s | %s\n", number, string(shown))
		if n := min(to-cut, len(shown)) - (from - cut); n > 0 {
			fmt.Fprintf(b, "  %s | %s%s\n", strings.Repeat(" ", len(number)), strings.Repeat(" ", from-cut),
				strings.Repeat("^", n))
		}
		if i.Hint != "" {
			fmt.Fprintf(b, "  do: %s\n", clean.Line(i.Hint))
		}
		if i.Fix != nil {
			fmt.Fprintf(b, "  fix (%s): %s\n", i.Fix.Safety, clean.Line(i.Fix.Title))
		}
		for _, line := range claims.Open().Lines(i.Claims) {
			fmt.Fprintf(b, "  %s\n", line)
		}
		b.WriteByte('\n')
	}
	for _, t := range r.Troubles {
		fmt.Fprintf(b, "%s: not checked: %s\n", clean.Line(t.where()), clean.Line(t.Text))
	}
	b.WriteString(r.Summary())
	_, err := io.WriteString(w, clean.Lines(b.String()))
	return err
}

func writeConcise(w io.Writer, r *Report) error {
	b := &strings.Builder{}
	for _, i := range r.Items {
		fmt.Fprintf(b, "%s: %s: %s [%s]\n", clean.Line(i.where()), i.kind(), clean.Line(i.Text), i.Rule)
	}
	for _, t := range r.Troubles {
		fmt.Fprintf(b, "%s: not checked: %s\n", clean.Line(t.where()), clean.Line(t.Text))
	}
	b.WriteString(r.Summary())
	_, err := io.WriteString(w, clean.Lines(b.String()))
	return err
}

// Summary is the last lines of the text form.
func (r *Report) Summary() string {
	c := r.Counts
	b := &strings.Builder{}
	if n := c.Errors + c.Warnings + c.Notes; n == 0 {
		fmt.Fprintf(b, "Nothing found in %s", count(r.Files, "file"))
	} else {
		fmt.Fprintf(b, "%s, %s, %s in %s", count(c.Errors, "error"), count(c.Warnings, "warning"),
			count(c.Notes, "note"), count(r.Files, "file"))
		if c.Suspected > 0 {
			fmt.Fprintf(b, "; %d of them suspected", c.Suspected)
		}
	}
	fmt.Fprintf(b, " (for %s, torch %s).\n", r.Target.Device, r.Target.Torch)
	b.WriteString(r.aim.Text())
	if c.Fixed > 0 {
		fmt.Fprintf(b, "%s fixed.\n", count(c.Fixed, "finding"))
	}
	if c.Fixable > 0 {
		fmt.Fprintf(b, "%d can be fixed with --fix.\n", c.Fixable)
	}
	if c.Unsafe > 0 {
		fmt.Fprintf(b, "%d more with --fix --unsafe-fixes; look at them with --diff.\n", c.Unsafe)
	}
	if c.Suppressed > 0 {
		fmt.Fprintf(b, "%s allowed by comments.\n", count(c.Suppressed, "finding"))
	}
	if c.Baseline > 0 {
		fmt.Fprintf(b, "%s in the baseline.\n", count(c.Baseline, "finding"))
	}
	files := map[string]bool{}
	for _, t := range r.Troubles {
		files[t.File] = true
	}
	if n := len(files); n > 0 {
		fmt.Fprintf(b, "%s not checked, or not as a whole.\n", count(n, "file"))
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func writeJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// writeGitHub writes workflow commands, which GitHub shows beside the lines of a pull request.
func writeGitHub(w io.Writer, r *Report) error {
	b := &strings.Builder{}
	command := map[Severity]string{Error: "error", Warning: "warning", Notice: "notice"}
	for _, i := range r.Items {
		a := ci.Annotation{Level: command[i.Severity], Title: "assay " + i.Rule, File: i.File, Text: i.Text}
		if i.Certainty == "suspected" && i.Severity == Error {
			a.Level = "warning"
		}
		if i.Hint != "" {
			a.Text += "\n" + i.Hint
		}
		if i.Cell > 0 {
			a.Line, a.Text = i.raw, fmt.Sprintf("cell %d, line %d: %s", i.Cell, i.Line, a.Text)
		} else {
			a.Line, a.EndLine, a.Column, a.EndColumn = i.Line, i.EndLine, i.Column, i.EndColumn
		}
		b.WriteString(a.String())
	}
	for _, t := range r.Troubles {
		b.WriteString(ci.Annotation{Level: "warning", Title: "assay", File: t.File, Line: max(1, t.Line),
			Text: "not checked: " + t.Text}.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeJUnit: a test case for each finding; what makes the command fail is a failure, the rest has passed.
func writeJUnit(w io.Writer, r *Report) error {
	s := ci.JUnitSuite{Name: "assay check"}
	for _, i := range r.Items {
		c := ci.JUnitCase{Name: i.Rule + " at " + strings.TrimPrefix(i.where(), i.File+":"),
			Class: filepath.ToSlash(i.File), File: filepath.ToSlash(i.File), Line: i.Line}
		if i.bad() {
			c.Failure = &ci.JUnitCause{Message: i.Text, Type: i.kind(),
				Text: i.where() + ": " + i.Text + "\n" + i.Hint}
		} else {
			c.Out = i.kind() + ": " + i.Text + "\n" + i.Hint
		}
		s.Cases = append(s.Cases, c)
	}
	for _, t := range r.Troubles {
		s.Cases = append(s.Cases, ci.JUnitCase{Name: "read", Class: filepath.ToSlash(t.File),
			File: filepath.ToSlash(t.File), Line: t.Line,
			Error: &ci.JUnitCause{Message: t.Text, Type: "not checked", Text: t.where() + ": " + t.Text}})
	}
	if len(s.Cases) == 0 {
		s.Cases = append(s.Cases, ci.JUnitCase{Name: fmt.Sprintf("nothing found in %s", count(r.Files, "file")),
			Class: "assay check"})
	}
	return ci.JUnit{Suites: []ci.JUnitSuite{s}}.Write(w)
}

func writeSARIF(w io.Writer, r *Report) error {
	level := map[Severity]string{Error: "error", Warning: "warning", Notice: "note"}
	log := ci.SARIF{Version: r.Version, Properties: map[string]any{"device": r.Target.Device,
		"torch": strings.TrimPrefix(r.aim.String(), "torch ")}}
	for _, rule := range r.rules {
		o := ci.SARIFRule{ID: rule.Name, Title: rule.Title, Level: level[rule.Severity], Full: rule.Doc.Why}
		if o.Full != "" {
			o.Help = o.Full + "\n\nBad:\n" + rule.Doc.Bad + "\nGood:\n" + rule.Doc.Good
			o.Markdown = o.Full + "\n\nBad:\n```python\n" + strings.TrimSpace(rule.Doc.Bad) +
				"\n```\nGood:\n```python\n" + strings.TrimSpace(rule.Doc.Good) + "\n```\n"
		}
		log.Rules = append(log.Rules, o)
	}
	for _, i := range r.Items {
		o := ci.SARIFResult{Rule: i.Rule, Level: level[i.Severity], Text: i.Text,
			Place: ci.SARIFPlace{File: i.File, Line: i.Line, Column: i.Column, EndLine: i.EndLine,
				EndColumn: i.EndColumn}, Properties: map[string]any{"certainty": i.Certainty, "basis": i.Basis}}
		if i.Cell > 0 { // lines of a cell are no lines of the file
			o.Text = fmt.Sprintf("cell %d, line %d: %s", i.Cell, i.Line, i.Text)
			o.Place = ci.SARIFPlace{File: i.File, Line: i.raw}
		}
		if i.Hint != "" {
			o.Text += ". " + strings.ToUpper(i.Hint[:1]) + i.Hint[1:]
		}
		if i.Certainty == "suspected" && i.Severity == Error {
			o.Level = "warning"
		}
		log.Results = append(log.Results, o)
	}
	for _, t := range r.Troubles {
		place := ci.SARIFPlace{File: t.File, Line: t.Line}
		if t.cell != 0 {
			place.Line = 0
		}
		log.Notes = append(log.Notes, ci.SARIFNote{Text: "not checked: " + t.Text, Place: place})
	}
	return log.Write(w)
}

// add counts an item in.
func (r *Report) add(i Item) {
	r.Items = append(r.Items, i)
	switch i.Severity {
	case Error:
		r.Counts.Errors++
	case Warning:
		r.Counts.Warnings++
	default:
		r.Counts.Notes++
	}
	if i.Certainty == "suspected" {
		r.Counts.Suspected++
	}
	if i.Fix != nil {
		switch i.Fix.Safety {
		case Safe:
			r.Counts.Fixable++
		case Unsafe:
			r.Counts.Unsafe++
		}
	}
}

// sort puts findings in the order in which a person reads: by file, place and rule.
func (r *Report) sort() {
	slices.SortStableFunc(r.Items, func(a, b Item) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		for _, c := range []int{a.Cell - b.Cell, a.Line - b.Line, a.Column - b.Column} {
			if c != 0 {
				return c
			}
		}
		return strings.Compare(a.Rule, b.Rule)
	})
}

// Bad reports whether anything was found that is sure and an error or a warning.
func (r *Report) Bad() bool {
	return slices.ContainsFunc(r.Troubles, func(t Trouble) bool { return t.syntax }) ||
		slices.ContainsFunc(r.Items, Item.bad)
}

func (i Item) bad() bool { return i.Certainty == "sure" && i.Severity != Notice }

// Page is a rule's page in Markdown.
func Page(r *Rule) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# %s\n\n%s%s (%s", r.Name, strings.ToUpper(r.Title[:1]), r.Title[1:], r.Severity)
	if r.Fixable {
		b.WriteString("; can be fixed")
	}
	fmt.Fprintf(b, ").\n\n%s\n\nEarns the finding:\n\n```\n%s\n```\n\nDoes not:\n\n```\n%s\n```\n", r.Doc.Why,
		strings.TrimSpace(r.Doc.Bad), strings.TrimSpace(r.Doc.Good))
	if r.Doc.Source != "" {
		fmt.Fprintf(b, "\nSource: %s.\n", r.Doc.Source)
	}
	for _, line := range claims.Open().Lines(r.Claims) {
		fmt.Fprintf(b, "\n%s\n", strings.ToUpper(line[:1])+line[1:])
	}
	fmt.Fprintf(b, "\nTo allow it in one place: `# assay: allow %s -- reason`.\n", r.Name)
	return b.String()
}
