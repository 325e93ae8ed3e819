package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/unit"
)

//go:embed page.html.tmpl
var pageSource string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var page = template.Must(template.New("page").Parse(pageSource))

// HTML is one page that holds everything: style, script and plots. It asks the network for nothing, and its content
// security policy lets no script run but its own, whatever a file name or an operator name says.
type HTML struct {
	Judged *Judged // what gates and verdict say of the run; nil: nobody asked
	Beside *Beside // the run that it is held beside; nil: none
}

// Name of the form.
func (HTML) Name() string { return "html" }

// Write the page.
func (h HTML) Write(w io.Writer, run *evidence.Run) error {
	out := bufio.NewWriter(w)
	if err := page.Execute(out, h.pageOf(listed(run))); err != nil {
		return fmt.Errorf("write the report page: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the report page: %w", err)
	}
	return nil
}

// pageData is what the template prints.
type pageData struct {
	Title, Lead, State string
	Incomplete         string
	Run                *evidence.Run
	Started, Ended     string
	CSS                template.CSS
	JS                 template.JS
	Policy             string
	Nav                []link
	Judged             judgedView
	Beside             *besideView
	Baseline           table
	Tiles              []tile
	Tests              string // how a suite's tests ended; "" where the run is none
	Findings           []finding
	NoFindings         string
	Split              splitView
	Steps, Loss        template.HTML
	Time               []template.HTML
	Curves             []template.HTML // that the script logged, learning rates first
	Level              []string        // what was the same throughout: a sentence, and no plot
	Numerics           string
	Epoch              []tile
	Tables             map[string]table
	About              table
	Has                map[string]bool // sections that have something to show
	Absent             []absent
	Basis              string // of what is drawn step by step
	Rehearsed          string
}

type link struct{ ID, Text string }

// absent is what the page has nothing to show of, and why: one line for all that share a reason.
type absent struct{ What, Why string }

// tile is a figure with its label, and how it is known.
type tile struct {
	Name, Doc, Value, Range, Basis, Detail string
	Unknown                                bool
}

type finding struct {
	Severity, Text, Where, Hint, Basis, Name string
}

type splitView struct {
	Window  string
	Note    string
	Parts   []part
	Bar     template.HTML
	Missing string
	Each    *onlyView
	Sum     *splitSum // nil where a part is not known
}

// splitSum is the last row of the split: what the parts are together, and why medians are not the step's.
type splitSum struct{ Share, Value, Why string }

type part struct {
	Class, Name, What      string
	Value, Range, Share    string
	Basis, ShareBasis, How string
	Missing                string
}

type onlyView struct {
	What, Verdict string
	Tiles         []tile
}

// table is a list that sorts on a click.
type table struct {
	ID, Caption, Note, Empty string
	Cols                     []column
	Rows                     [][]cell
	Plain                    bool // two columns of names and values: nothing to sort
	Alone                    bool // the heading above says the caption already
}

type column struct {
	Name string
	Num  bool
}

type cell struct {
	Text  string
	Small string // under or behind the text
	Sort  string // what the column sorts by, where it is not the text
	Num   bool
	Code  bool
	Faint bool // unknown
	Bar   string
}

// Long reports whether the cell holds prose, which must not be squeezed into a column of single words.
func (c cell) Long() bool { return len(c.Text)+len(c.Small) > 24 }

func text(s string) cell { return cell{Text: s} }
func code(s string) cell { return cell{Text: s, Code: true} }
func whole(n int) cell   { return cell{Text: thousands(n), Sort: strconv.Itoa(n), Num: true} }
func unknownCell() cell  { return cell{Text: "–", Faint: true, Num: true, Sort: ""} }
func yes(b bool) cell    { return cell{Text: map[bool]string{true: "yes", false: "no"}[b]} }

// foldAt is how many rows of a table stand open; the others unfold on demand, and on paper.
const foldAt = 15

// Folds says how a table that folds is unfolded; "" where it does not.
func (t table) Folds() string {
	if len(t.Rows) <= foldAt {
		return ""
	}
	return fmt.Sprintf("all %s rows", thousands(len(t.Rows)))
}

// Prose reports whether the table has a cell of prose, or more columns than a phone has room for: on a narrow screen
// each of its rows is then shown as a paragraph, every cell behind the name of its column.
func (t table) Prose() bool {
	for _, row := range t.Rows {
		for _, c := range row {
			if !t.Plain && (!c.Code && c.Long() || len(t.Cols) > 4) {
				return true
			}
		}
	}
	return false
}

// measure is a cell with a quantity, sorted by its value.
func measure(v float64, u string) cell {
	return cell{Text: quantity(v, u), Sort: full(v), Num: true}
}

func maybe(v *float64, u string) cell {
	if v == nil {
		return unknownCell()
	}
	return measure(*v, u)
}

func tileOf(run *evidence.Run, label, name string) tile {
	return tileFrom(label, run.Figure(name))
}

func tileFrom(label string, f evidence.Figure) tile {
	row, _ := catalogue.Find(f.Name)
	if !f.Known() {
		return tile{Name: label, Doc: row.Doc, Value: "unknown", Detail: reason(f), Unknown: true}
	}
	t := tile{Name: label, Doc: row.Doc, Value: number(f), Range: spread(f), Basis: string(f.Basis), Detail: remark(f)}
	if f.N > 1 {
		t.Range = strings.TrimPrefix(t.Range+", n "+thousands(f.N), ", ")
	}
	return t
}

// remark is what a reader must know to use a figure. By what it was disturbed is said by a word: the finding and the
// table of all figures say the rest.
func remark(f evidence.Figure) string {
	if f.Disturbed == "" {
		return f.Note
	}
	return strings.TrimSuffix("disturbed: "+disturbedBy(f)+"; "+f.Note, "; ")
}

func disturbedBy(f evidence.Figure) string {
	by, _, _ := strings.Cut(f.Disturbed, ":")
	return by
}

// lead is the headline: what happened, where the time goes, what to read first.
func lead(run *evidence.Run) string {
	s := knownBad(run) + rehearsalLead(run) + happened(run)
	if run.Rehearsal != nil { // its times say nothing about the Mac
		if t := tally(run.Findings); t != "" {
			s += " Findings: " + t + "."
		}
		return together(s)
	}
	step := run.Figure("step.time")
	if step.Known() {
		s += fmt.Sprintf(" A step takes %s in the median", number(step))
		if step.Disturbed != "" {
			s += " (disturbed: " + disturbedBy(step) + ")"
		}
		if p, share, ok := heaviest(run); ok {
			s += fmt.Sprintf("; the largest part of it, %s, is %s (%s)", unit.Format(share, "ratio"), p.Name, p.What)
		}
		s += "."
	} else if !strings.Contains(s, reason(step)) {
		s += " The length of a step is unknown: " + reason(step) + "."
	}
	if f := run.Figure("memory.growth"); f.Known() {
		switch {
		case math.Abs(*f.Value) < .01:
			s += fmt.Sprintf(" Memory is level over the epochs (%s).", number(f))
		case *f.Value > 0:
			s += fmt.Sprintf(" Memory grows by %s from the second epoch to the last.", number(f))
		default:
			s += fmt.Sprintf(" Memory shrinks by %s from the second epoch to the last.",
				unit.Format(-*f.Value, "ratio"))
		}
	}
	if t := tally(run.Findings); t != "" {
		s += " Findings: " + t + "."
	}
	return together(s)
}

// together keeps a number and its unit on one line.
func together(s string) string { return numberUnit.ReplaceAllString(s, "$1\u00a0$2") }

var numberUnit = regexp.MustCompile(`(\d) ((?:ns|µs|ms|s|min|h|B|[KMGT]iB|W)\b|%|/s)`)

// state is the one word at the top: how the run ended.
func state(run *evidence.Run) string {
	o := run.Outcome
	switch {
	case !o.Started:
		return "not started"
	case run.Rehearsal != nil && slices.ContainsFunc(run.Rehearsal.Refusals,
		func(r evidence.Refusal) bool { return r.Ended }):
		return "refused on MPS"
	case run.Rehearsal != nil && run.Rehearsal.Tests != nil && run.Rehearsal.Tests.Failed > 0:
		t := run.Rehearsal.Tests
		return fmt.Sprintf("%s of %s fail", thousands(t.Failed),
			count(t.Passed+t.Failed+t.Skipped+t.XFailed+t.XPassed, "test"))
	case o.Stopped != "":
		return "stopped as asked"
	case o.Error != "" || o.Signal != "" || o.Exit != 0:
		return "failed"
	case !o.Complete:
		return "incomplete"
	case run.Rehearsal != nil && len(evidence.MetBy(run.Rehearsal.Met, true, "wrong")) > 0:
		return "wrong numbers on MPS"
	case run.Rehearsal != nil && len(evidence.MetBy(run.Rehearsal.Met, true, "aborts")) > 0:
		return "would end on a Mac"
	}
	return "finished"
}

// sections of the page that its navigation names, in their order.
var sections = []link{{"tests", "Tests"}, {"baseline", "Baseline"}, {"beside", "Difference"}, {"findings", "Findings"},
	{"run", "What was run"}, {"rehearsal", "Rehearsal"}, {"split", "Split"}, {"steps", "Steps"}, {"logged", "Logged"},
	{"memory", "Memory"}, {"epochs", "Epochs"}, {"syncs", "Synchronisation"}, {"fallbacks", "Fallbacks"},
	{"operators", "Operators"}, {"numerics", "Numerics"}, {"absent", "Not here"}, {"host", "Host"},
	{"provenance", "Provenance"}, {"figures", "All figures"}}

func (h HTML) pageOf(run *evidence.Run) *pageData {
	d := &pageData{
		Title: base(subjectName(run)), Lead: lead(run), State: state(run), Run: run,
		Started: run.Started.Format("2006-01-02 15:04:05 -07:00"),
		Ended:   run.Ended.Format("2006-01-02 15:04:05 -07:00"),
		CSS:     template.CSS(pageCSS), JS: template.JS(pageJS),
		Judged: judgedOf(h.Judged), Beside: besideOf(run, h.Beside), Baseline: baselineOf(h.Judged),
		Tables: map[string]table{}, Has: map[string]bool{}, Basis: string(usualBasis(run)),
	}
	sum := sha256.Sum256([]byte(pageJS))
	d.Policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if !run.Outcome.Complete {
		d.Incomplete = orElse(run.Outcome.Reason, "no reason was recorded")
	}
	if run.Rehearsal != nil {
		d.Rehearsed = sentence(rehearsedText(run))
		d.Tiles = rehearsalTiles(run)
		if run.Rehearsal.Tests != nil {
			d.Tests = sentence(testsText(run.Rehearsal.Tests))
		}
	} else {
		d.Tiles = d.known(run, trainingTiles(run))
	}
	for _, f := range bySeverity(run.Findings) {
		d.Findings = append(d.Findings, finding{string(f.Severity), f.Text, place(run, f.Where), f.Hint,
			string(f.Basis), f.Name})
	}
	d.NoFindings = sentence(noFindings(run))
	if d.Split = splitOf(run); d.Split.Missing != "" {
		d.without(run, "the split of a step", d.Split.Missing)
	}
	d.Has["split"] = d.Split.Missing == "" || d.Split.Each != nil

	if c := stepChart(run); c.drawn() {
		d.Steps = c.render()
	} else {
		d.without(run, "step by step", fewSteps)
	}
	if c := lossChart(run); c.drawn() {
		d.Loss = c.render()
	} else {
		d.without(run, "a curve of the loss", orElse(run.Loss.Note, fewValues))
	}
	for _, c := range timeCharts(run) {
		if n, zero := c.allZero(); zero {
			d.Level = append(d.Level, fmt.Sprintf("%s: %s throughout, in %s", c.Title, quantity(0, c.Unit),
				count(n, "sample")))
		} else if c.drawn() {
			d.Time = append(d.Time, c.render())
		} else {
			d.without(run, lower(c.Title), whyNotDrawn(run, c))
		}
	}
	epochs, why := run.Figure("epoch.time"), ""
	if len(run.Epochs) == 0 && !epochs.Known() && !run.Figure("epoch.estimate").Known() {
		why = reason(epochs)
		d.without(run, "epochs", why)
	} else {
		length := tileOf(run, "length of an epoch", "epoch.time")
		if !epochs.Known() { // an estimate beside a measured length is one figure too many
			length = tileOf(run, "estimate of an epoch", "epoch.estimate")
		}
		d.Epoch = d.known(run, []tile{tileOf(run, "step of the first epoch", "step.first_epoch"), length,
			tileOf(run, "steps of an epoch", "epoch.steps")})
	}
	if d.Numerics = numerics(run); blind(run) != "" && len(run.Loss.Value) == 0 {
		d.Numerics = ""
	}
	for _, t := range tables(run) {
		d.Tables[t.ID] = t
		if len(t.Rows) == 0 && (t.ID != "t-epochs" || why == "") {
			d.without(run, lower(t.Caption), t.Empty)
		}
	}
	d.About = aboutRun(run)
	has := func(id string, tables ...string) {
		for _, t := range tables {
			d.Has[id] = d.Has[id] || len(d.Tables[t].Rows) > 0
		}
	}
	d.Has["steps"] = d.Steps != "" || d.Loss != ""
	has("steps", "t-windows")
	d.Curves = drawnCurves(run)
	d.Has["logged"] = len(d.Curves) > 0
	has("logged", "t-logged")
	d.Has["memory"] = len(d.Time) > 0
	has("memory", "t-memory", "t-retained")
	d.Has["epochs"] = len(d.Epoch) > 0
	has("epochs", "t-epochs")
	has("syncs", "t-syncs")
	has("fallbacks", "t-fallbacks")
	has("operators", "t-operators")
	d.Has["numerics"] = d.Numerics != ""
	has("numerics", "t-shapes")
	has("host", "t-facts", "t-counters", "t-apps", "t-processes")
	has("figures", "t-figures")
	d.Has["rehearsal"], d.Has["tests"] = d.Rehearsed != "", d.Tests != ""
	d.Has["baseline"] = len(d.Baseline.Rows) > 0
	d.Has["beside"], d.Has["absent"] = d.Beside != nil, len(d.Absent) > 0
	for _, id := range []string{"run", "findings", "provenance"} {
		d.Has[id] = true
	}
	for _, l := range sections {
		if d.Has[l.ID] {
			d.Nav = append(d.Nav, l)
		}
	}
	return d
}

// What is missing of steps is so because there are none, where there are none.
const (
	fewSteps  = "fewer than two steps were recorded"
	fewValues = "fewer than two values were recorded"
)

// without notes what the page has nothing to show of. What an earlier thing lacks for the same reason shares its line.
func (d *pageData) without(run *evidence.Run, what, why string) {
	if b := blind(run); b != "" && (why == "" || strings.Contains(why, "no training step was seen") ||
		strings.Contains(why, b) || why == fewSteps || why == fewValues) {
		why = b
	}
	why = sentence(why)
	for i := range d.Absent {
		if d.Absent[i].Why == why {
			if !slices.Contains(strings.Split(lower(d.Absent[i].What), ", "), what) {
				d.Absent[i].What += ", " + what
			}
			return
		}
	}
	d.Absent = append(d.Absent, absent{strings.ToUpper(what[:1]) + what[1:], why})
}

// known gives the tiles that have a value; the others join what is not there, with their reason.
func (d *pageData) known(run *evidence.Run, tiles []tile) []tile {
	var out []tile
	for _, t := range tiles {
		if t.Unknown {
			if t.Name != "epoch" { // of which a section says more
				d.without(run, t.Name, t.Detail)
			}
			continue
		}
		out = append(out, t)
	}
	return out
}

// trainingTiles are the figures that a run on a device leads with.
func trainingTiles(run *evidence.Run) []tile {
	memory := tileOf(run, "peak allocator memory", "memory.live.peak")
	if memory.Unknown {
		memory = tileOf(run, "peak process memory", "memory.resident.peak")
	}
	epoch := tileOf(run, "epoch", "epoch.time")
	if est := run.Figure("epoch.estimate"); epoch.Unknown && est.Known() {
		epoch = tileFrom("epoch, estimated", est)
	}
	cost := tileOf(run, "assay's cost a step", "agent.step")
	if f := run.Figure("agent.share"); f.Known() && !cost.Unknown {
		if step := run.Figure("agent.step"); f.Low != nil && step.Low != nil && step.High != nil {
			cost = tileFrom("assay's cost, of the loop's time", f)
			whole, parts := costWords(run, number)
			cost.Detail = whole + "; " + parts
		} else {
			cost.Detail = number(f) + " of the step (" + string(f.Basis) + ")"
		}
	}
	return []tile{tileOf(run, "step", "step.time"), tileOf(run, "samples", "samples.rate"), epoch, memory,
		tileOf(run, "until the first step", "run.startup"), cost}
}

// lower takes the capital off a heading that goes on in a list.
func lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// whyNotDrawn says why a plot over time is not there.
func whyNotDrawn(run *evidence.Run, c *chart) string {
	why := ""
	if c.ID == "plot-allocator" {
		why = commonReason(run.Figure("memory.live.peak"), run.Figure("memory.pool.peak"))
	}
	for _, p := range hostPanels {
		if p.id != c.ID || len(run.Host.Samples) == 0 {
			continue
		}
		for _, f := range run.Host.Samples[len(run.Host.Samples)-1].Figures {
			if slices.Contains(p.names, f.Name) && f.Known() {
				why = "" // of another name the panel would have a line
				break
			}
			if f.Name == p.names[0] {
				why = reason(f)
			}
		}
		why = orElse(why, "fewer than two samples hold it")
	}
	if len(run.Host.Samples) == 0 {
		why = orElse(why, "no host sample was taken")
	}
	return orElse(why, fewValues)
}

func splitOf(run *evidence.Run) splitView {
	var v splitView
	var splits, shares []evidence.Figure
	phases := phasesOf(run)
	for _, p := range phases {
		splits, shares = append(splits, run.Figure("split."+p.Key)), append(shares, run.Figure("share."+p.Key))
	}
	if o := run.Only; o != nil {
		v.Each = &onlyView{What: o.What, Verdict: o.Verdict, Tiles: []tile{tileFrom("a batch, "+o.What+" alone",
			o.Each), tileFrom("an ordinary step before it", o.Step)}}
	}
	if v.Missing = commonReason(splits...); len(phases) == 0 {
		v.Missing = "the run names no phases"
	}
	if v.Missing != "" {
		return v
	}
	for i, p := range phases {
		f, share := splits[i], shares[i]
		x := part{Class: p.Class, Name: p.Name, What: p.What}
		if !f.Known() {
			x.Missing = reason(f)
		} else {
			x.Value, x.Range, x.Basis, x.How = number(f), spread(f), string(f.Basis), remark(f)
			if v.Window == "" {
				v.Window = f.Window
				if w, ok := windowNamed(run, f.Window); ok {
					v.Window = windowText(w)
				}
			}
		}
		if share.Known() {
			x.Share, x.ShareBasis = number(share), string(share.Basis)
		}
		v.Parts = append(v.Parts, x)
	}
	if f := run.Figure("step.time.synchronised"); f.Known() {
		v.Note = "A step of this window takes " + number(f) +
			" in the median, because it waits for the device at its boundaries"
		if g := run.Figure("step.time"); g.Known() {
			v.Note += "; an ordinary one takes " + number(g)
		}
		v.Note += "."
	}
	v.Bar = splitBar(phases, shares)
	v.Sum = sumOf(run, splits, shares)
	return v
}

// sumOf adds the parts up, and says why their medians are not the median of the step.
func sumOf(run *evidence.Run, splits, shares []evidence.Figure) *splitSum {
	medians, share := 0.0, 0.0
	for i, f := range splits {
		if f.Known() {
			medians += *f.Value
		}
		if shares[i].Known() {
			share += *shares[i].Value
		}
	}
	if medians <= 0 || share <= 0 {
		return nil
	}
	sum := &splitSum{Share: unit.Format(share, "ratio"), Value: unit.Seconds(medians)}
	sum.Why = "Shares are of the sums over the window’s steps, so that they make up the whole. Each median is of its part alone: " +
		"together they need not be a step’s median"
	if step := run.Figure("step.time"); step.Known() {
		sum.Why += ", " + number(step)
		for _, f := range splits {
			if f.Known() && f.Window != step.Window {
				sum.Why += ", which moreover is of other steps: the window " + step.Window
				break
			}
		}
	}
	sum.Why += "."
	return sum
}

// splitBar is the stacked bar. The numbers on it are HTML, so that they keep their size.
func splitBar(phases []phase, shares []evidence.Figure) template.HTML {
	var sum float64
	for _, f := range shares {
		if f.Known() && *f.Value > 0 {
			sum += *f.Value
		}
	}
	if sum <= 0 {
		return ""
	}
	var svg, labels, desc strings.Builder
	at := 0.0
	for i, f := range shares {
		if !f.Known() || *f.Value <= 0 {
			continue
		}
		w := *f.Value / sum * plotWidth
		fmt.Fprintf(&svg, `<rect class="p-%s" x="%s" y="0" width="%s" height="40"/>`, phases[i].Class, num(at), num(w))
		if at > 0 {
			fmt.Fprintf(&svg, `<path class="cut" d="M%s 0V40"/>`, num(at))
		}
		if w >= 75 {
			slim := ""
			if w < 180 { // on a phone the number would be cut
				slim = " slim"
			}
			fmt.Fprintf(&labels, `<span class="t-%s%s" style="left:%s%%;width:%s%%">%s</span>`, phases[i].Class, slim,
				num(at/10), num(w/10), unit.Format(*f.Value, "ratio"))
		}
		fmt.Fprintf(&desc, "%s %s, ", template.HTMLEscapeString(phases[i].Name), unit.Format(*f.Value, "ratio"))
		at += w
	}
	return template.HTML(`<div class="bar"><svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-labelledby="split-t split-d"><title id="split-t">Split of a step</title><desc id="split-d">` +
		strings.TrimSuffix(desc.String(), ", ") + `</desc>` + svg.String() + `</svg><div aria-hidden="true">` +
		labels.String() + `</div></div>`)
}

// aboutRun is what was run: what a second run must share before it can be compared with this one.
func aboutRun(run *evidence.Run) table {
	p := run.Provenance
	t := table{ID: "t-about", Plain: true, Alone: true, Caption: "What was run",
		Cols: []column{{Name: "what"}, {Name: "value"}}}
	add := func(name string, c cell) { t.Rows = append(t.Rows, []cell{text(name), c}) }
	missing := func(why string) cell { return cell{Text: "unknown: " + why, Faint: true} }
	declared := func(s, small string) cell { return cell{Text: s, Small: small} }

	command := cell{Text: strings.Join(run.Subject.Command, " "), Code: true, Small: "in " + run.Subject.Dir}
	if len(run.Subject.Command) == 0 {
		command = missing("no command was recorded")
	}
	add("command", command)
	switch {
	case run.Target.Framework != "":
		release := strings.TrimPrefix(run.Target.With(), run.Target.Framework+" ")
		add(run.Target.Framework, declared(release, strings.TrimPrefix(p.Build+", declared by the package",
			", ")))
	default:
		add("framework", missing("no process imported one that the agent knows"))
	}
	switch {
	case p.Commit != "":
		add("commit", declared(p.Commit, orElse(p.Dirty, "state of the working tree unknown")+"; declared by git"))
	default:
		add("commit", missing(strings.TrimPrefix(orElse(p.Dirty, "not looked at in this run"), "unknown: ")))
	}
	asked := "asked for " + orElse(run.Target.Asked, "nothing")
	switch d := run.Target.Double; {
	case run.Rehearsal != nil && d != nil:
		add("device", declared(doubleName(d), asked+"; "+orElse(d.Installed, "another release")+" installed"))
	case run.Target.Device != "":
		add("device", declared(deviceName(run.Target), asked+"; "+run.Target.System))
	default:
		add("device", missing("none was seen in use; "+asked))
	}
	var batches []string
	for _, d := range p.Datasets {
		if d.Batch > 0 {
			batches = append(batches, fmt.Sprintf("%d of %s", d.Batch, d.Type))
		}
	}
	var inputs []string
	for _, s := range run.Shapes {
		inputs = append(inputs, s.Inputs)
	}
	if len(inputs) > 3 {
		inputs = append(inputs[:3:3], fmt.Sprintf("… %d more under Numerics and shapes", len(run.Shapes)-3))
	}
	batch := "batch " + strings.Join(batches, ", ")
	switch {
	case len(batches) > 0 && len(inputs) > 0:
		add("batch and inputs", declared(batch+"; "+strings.Join(inputs, ", "),
			"declared by the loader; inputs measured"))
	case len(batches) > 0:
		add("batch and inputs", declared(batch+"; inputs unknown", "declared by the loader"))
	case len(inputs) > 0:
		why := "no loader was seen"
		if len(p.Datasets) > 0 {
			why = "the loader declares no batch size"
		}
		add("batch and inputs", declared(strings.Join(inputs, ", "), "measured; "+why))
	default:
		add("batch and inputs", missing(orElse(blind(run), "no input shape was seen")))
	}
	live, resident := run.Figure("memory.live.peak"), run.Figure("memory.resident.peak")
	switch {
	case live.Known():
		small := string(live.Basis)
		if resident.Known() {
			small += "; process " + number(resident) + ", " + string(resident.Basis)
		}
		add("peak memory", declared(number(live)+" allocator", small))
	case resident.Known():
		add("peak memory", declared(number(resident)+" process",
			string(resident.Basis)+"; allocator unknown: "+reason(live)))
	default:
		add("peak memory", missing(reason(live)))
	}
	flag, set := p.Environment["PYTORCH_ENABLE_MPS_FALLBACK"]
	value := "PYTORCH_ENABLE_MPS_FALLBACK not set"
	if set {
		value = "PYTORCH_ENABLE_MPS_FALLBACK=" + flag
	}
	add("fallback flags", declared(value, "declared by the environment"))
	if rates := rateWords(run); rates != "" {
		add("learning rate", declared(rates, "first and last"))
	}
	return t
}

// shownOperators are those of the profile; what an earlier assay took of the double itself into it is no operator.
func shownOperators(run *evidence.Run) []evidence.Operator {
	if run.Rehearsal == nil {
		return run.Operators
	}
	return slices.DeleteFunc(slices.Clone(run.Operators),
		func(o evidence.Operator) bool { return o.Name == evidence.ThroughDouble })
}

func tables(run *evidence.Run) []table {
	var out []table
	add := func(t table) { out = append(out, t) }
	basis := string(usualBasis(run))

	t := table{ID: "t-epochs", Alone: true, Caption: "Epochs", Note: basis + "; memory at the end of the epoch",
		Empty: orElse(blind(run), noEpoch(run)),
		Cols: []column{{"epoch", true}, {"steps", true}, {"length", true}, {"outside steps", true}, {"live", true},
			{"pool", true}, {"resident", true}, {"tensors", true}, {"complete", false}}}
	for _, e := range run.Epochs {
		tensors := unknownCell()
		if e.Tensors != nil {
			tensors = whole(*e.Tensors)
		}
		length := measure(e.Seconds, "s")
		if text, long := beyond(run, e.Seconds); long && run.Rehearsal == nil {
			length.Small = text
		}
		t.Rows = append(t.Rows, []cell{whole(e.Number), {Text: fmt.Sprintf("%s–%s", thousands(e.First),
			thousands(e.Last)), Sort: strconv.Itoa(e.First), Num: true},
			length, measure(e.Outside, "s"), maybe(e.Live, "B"), maybe(e.Pool, "B"), maybe(e.Resident, "B"), tensors,
			yes(e.Complete)})
	}
	add(t)

	t = table{ID: "t-memory", Caption: "Memory by phase", Note: basis +
		"; medians over the sampled steps, at the end of the phase",
		Empty: orElse(blind(run), "no step was sampled for it"),
		Cols: []column{{"phase", false}, {"live", true}, {"pool", true}, {"resident", true},
			{"swap of the machine", true}, {"n", true}}}
	for _, m := range run.Memory {
		t.Rows = append(t.Rows, []cell{text(m.Phase), maybe(m.Live, "B"), maybe(m.Pool, "B"), maybe(m.Resident, "B"),
			maybe(m.Swap, "B"), whole(m.N)})
	}
	add(t)

	t = table{ID: "t-retained", Caption: "Tensors that outlive their step", Note: basis + " in the traced steps",
		Empty: noRetained(run),
		Cols:  []column{{"line", false}, {"tensors", true}, {"size", true}, {"traced steps", true}, {"epochs", false}}}
	for _, r := range run.Retained {
		t.Rows = append(t.Rows, []cell{code(place(run, r.Where)), whole(r.Tensors), measure(float64(r.Bytes), "B"),
			whole(r.Steps), text(intList(r.Epochs, 6))})
	}
	add(t)

	t = table{ID: "t-syncs", Alone: true, Caption: "Synchronisation points", Note: basis +
		"; time inside the call, by the user's line" + onlyWatched(run), Empty: noSyncs(run),
		Cols: []column{{"call", false}, {"line", false}, {"count", true}, {"in steps", true}, {"time", true},
			{"waits for the device", false}}}
	for _, s := range sorted(run.Syncs, func(a, b evidence.SyncPoint) bool { return a.Lost > b.Lost }) {
		waits := text(waiting(s))
		if run.Rehearsal != nil {
			waits = text("it would")
		}
		if !s.Waits {
			waits = text("no: not on an asynchronous device")
		}
		where := code(place(run, s.Where))
		if s.Via != "" {
			where.Small = "via " + place(run, s.Via)
		}
		t.Rows = append(t.Rows, []cell{code(s.Call), where, whole(s.Count), whole(s.Steps), measure(s.Lost, "s"),
			waits})
	}
	add(t)

	t = table{ID: "t-fallbacks", Alone: true, Caption: "Fallbacks",
		Note:  "operators that ran on the CPU because the device has no kernel for them",
		Empty: noFallbacks(run),
		Cols:  []column{{"operator", false}, {"line", false}, {"count", true}, {"basis", false}, {"note", false}}}
	if run.Rehearsal != nil {
		t.Cols = append(t.Cols, column{"time, this machine", true}, column{"of all operators", true},
			column{"copied", true})
	}
	for _, f := range run.Fallbacks {
		row := []cell{code(f.Operator), code(place(run, f.Where)), whole(f.Count), text(string(f.Basis)), text(f.Note)}
		if run.Rehearsal != nil {
			copied := unknownCell()
			if f.Bytes != nil {
				copied = measure(float64(*f.Bytes), "B")
			}
			row = append(row, maybe(f.Seconds, "s"), maybe(f.Share, "ratio"), copied)
		}
		t.Rows = append(t.Rows, row)
	}
	add(t)
	if run.Rehearsal != nil {
		out = append(out, rehearsed(run)...)
	}

	t = table{ID: "t-operators", Alone: true, Caption: "Operators", Note: basis + "; sums over " +
		stepRange(run.Profile.First, run.Profile.Last) +
		". Profiling slows these steps down: read the order, not the length.",
		Empty: strings.TrimPrefix(profileText(run.Profile), "no operators: "),
		Cols: []column{{"operator", false}, {"calls", true},
			{"self, host", true}, {"total, host", true}}}
	var device, queue bool
	top := 0.0
	for _, o := range shownOperators(run) {
		device, queue = device || o.Device != nil, queue || o.Queue != nil
		top = math.Max(top, hot(o))
	}
	if device {
		t.Cols = append(t.Cols, column{"device", true})
	}
	if queue {
		t.Cols = append(t.Cols, column{"queue", true})
	}
	for _, o := range sorted(shownOperators(run), func(a, b evidence.Operator) bool { return hot(a) > hot(b) }) {
		name := code(o.Name)
		if top > 0 {
			name.Bar = num(hot(o) / top * 100)
		}
		row := []cell{name, whole(o.Calls), measure(o.Self, "s"), measure(o.Total, "s")}
		if device {
			row = append(row, maybe(o.Device, "s"))
		}
		if queue {
			row = append(row, maybe(o.Queue, "s"))
		}
		t.Rows = append(t.Rows, row)
	}
	add(t)

	t = table{ID: "t-shapes", Caption: "Shapes that entered the model", Note: basis,
		Empty: orElse(blind(run), "none was seen"),
		Cols:  []column{{"model", false}, {"inputs", false}, {"steps", true}, {"first in step", true}}}
	for _, s := range run.Shapes {
		t.Rows = append(t.Rows, []cell{code(s.Model), code(s.Inputs), whole(s.Steps), whole(s.First)})
	}
	add(t)

	t = table{ID: "t-facts", Caption: "Facts", Note: "declared by the source named",
		Empty: "none was read", Cols: []column{{"fact", false}, {"value", false}, {"source", false}}}
	for _, f := range run.Host.Facts {
		v := text(f.Value)
		if f.Value == "" {
			v = cell{Text: "unknown: " + orElse(f.Missing, "no reason was recorded"), Faint: true}
		}
		t.Rows = append(t.Rows, []cell{text(f.Name), v, code(f.Source)})
	}
	add(t)
	add(counters(run))
	add(randomnessTable(run))
	add(loggedTable(run))

	t = table{ID: "t-apps", Caption: "Largest programs",
		Note: "measured; memory at the start and at the end of the run", Empty: "no list was taken",
		Cols: []column{{"program", false}, {"at the start", true}, {"at the end", true}, {"processes", true},
			{"part of the run", false}}}
	end := map[string]evidence.App{}
	for _, a := range run.Host.AppsEnd {
		end[a.Name] = a
	}
	seen := map[string]bool{}
	for _, a := range run.Host.Apps {
		last := unknownCell()
		if e, ok := end[a.Name]; ok {
			last = measure(e.Bytes, "B")
		}
		seen[a.Name] = true
		t.Rows = append(t.Rows, []cell{text(a.Name), measure(a.Bytes, "B"), last, whole(a.Count), yes(a.Ours)})
	}
	for _, a := range run.Host.AppsEnd {
		if !seen[a.Name] {
			t.Rows = append(t.Rows, []cell{text(a.Name), unknownCell(), measure(a.Bytes, "B"), whole(a.Count),
				yes(a.Ours)})
		}
	}
	add(t)

	t = table{ID: "t-processes", Caption: "Processes", Note: "Python processes that the agent entered",
		Empty: "the agent entered no Python process",
		Cols: []column{{"pid", true}, {"parent", true}, {"role", false}, {"arguments", false}, {"Python", false},
			{"framework", false}, {"steps", true}, {"ended", false}}}
	for _, p := range run.Processes {
		role := text(p.Role)
		if p.Observed {
			role.Small = "its steps are shown here"
		}
		ended := text(p.Ended)
		ended.Small = strings.Join(p.Trouble, "; ")
		if p.Dropped > 0 {
			ended.Small = strings.TrimPrefix(ended.Small+"; "+count(p.Dropped, "event")+" dropped", "; ")
		}
		t.Rows = append(t.Rows, []cell{{Text: strconv.Itoa(p.PID), Sort: strconv.Itoa(p.PID), Num: true},
			{Text: strconv.Itoa(p.Parent), Sort: strconv.Itoa(p.Parent), Num: true}, role,
			code(strings.Join(p.Argv, " ")), text(p.Python), text(orElse(strings.TrimSpace(p.Framework+" "+p.Release),
				"–")), whole(p.Steps), ended})
	}
	add(t)

	t = table{ID: "t-datasets", Caption: "Data", Note: "declared by the loader; fingerprint measured",
		Empty: orElse(blind(run), "no training loader was seen"),
		Cols: []column{{"dataset", false}, {"items", true}, {"batch", true}, {"workers", true}, {"path", false},
			{"size", true}, {"fingerprint", false}}}
	for _, s := range run.Provenance.Datasets {
		size, print := unknownCell(), code(s.Fingerprint)
		if s.Bytes > 0 {
			size = measure(float64(s.Bytes), "B")
			size.Small = count(s.Files, "file")
		}
		if s.Fingerprint == "" {
			print = cell{Text: "unknown: " + orElse(s.Missing, "no reason was recorded"), Faint: true}
		}
		t.Rows = append(t.Rows, []cell{code(s.Type), orUnknown(s.Length), orUnknown(s.Batch), whole(s.Workers),
			code(orElse(s.Path, "–")), size, print})
	}
	add(t)

	t = table{ID: "t-environment", Caption: "Environment", Empty: "no variable that changes how training runs was set",
		Cols: []column{{Name: "variable"}, {Name: "value"}}}
	var names []string
	for k := range run.Provenance.Environment {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		t.Rows = append(t.Rows, []cell{code(k), code(run.Provenance.Environment[k])})
	}
	add(t)

	t = table{ID: "t-windows", Caption: "Windows", Note: "the steps that figures were taken from",
		Empty: orElse(blind(run), "none was set"),
		Cols: []column{{"window", false}, {"first", true}, {"last", true}, {"steps that count", true},
			{"excluded", false}}}
	for _, w := range run.Windows {
		t.Rows = append(t.Rows, []cell{text(w.Name), whole(w.First), whole(w.Last), whole(w.Steps), text(w.Excluded)})
	}
	add(t)

	t = table{ID: "t-figures", Alone: true, Caption: "All figures",
		Note: "Q1 and Q3 are the quartiles of the sample of n", Empty: "none was recorded",
		Cols: []column{{"figure", false}, {"value", true}, {"Q1–Q3", true}, {"n", true}, {"window", false},
			{"basis", false}, {"note", false}}}
	for _, f := range run.Figures {
		if !f.Known() {
			t.Rows = append(t.Rows, []cell{code(f.Name), unknownCell(), text(""), text(""), text(f.Window),
				text(string(f.Basis)), {Text: "unknown: " + reason(f), Faint: true}})
			continue
		}
		note := f.Note
		if f.Disturbed != "" {
			note = strings.TrimSuffix("disturbed: "+f.Disturbed+"; "+note, "; ")
		}
		v := cell{Text: number(f), Sort: full(*f.Value), Num: true}
		n := text("")
		if f.N > 0 {
			n = whole(f.N)
		}
		q := cell{Text: spread(f), Num: true}
		if f.Low != nil {
			q.Sort = full(*f.Low)
		}
		t.Rows = append(t.Rows, []cell{code(f.Name), v, q, n, text(f.Window), text(string(f.Basis)), text(note)})
	}
	add(t)
	return out
}

// counters sums the host's samples up: a row for each figure in them.
func counters(run *evidence.Run) table {
	t := table{ID: "t-counters", Caption: "Counters", Note: fmt.Sprintf("over %s",
		count(len(run.Host.Samples), "host sample")), Empty: "no host sample was taken",
		Cols: []column{{"counter", false}, {"lowest", true}, {"highest", true}, {"last", true}, {"n", true},
			{"basis", false}, {"note", false}}}
	type row struct {
		lo, hi, last float64
		n            int
		f            evidence.Figure
		why          string
	}
	var names []string
	rows := map[string]*row{}
	for _, s := range run.Host.Samples {
		for _, f := range s.Figures {
			r := rows[f.Name]
			if r == nil {
				r = &row{lo: math.Inf(1), hi: math.Inf(-1), f: f}
				rows[f.Name] = r
				names = append(names, f.Name)
			}
			if !f.Known() {
				r.why = reason(f)
				continue
			}
			r.lo, r.hi, r.last, r.f = math.Min(r.lo, *f.Value), math.Max(r.hi, *f.Value), *f.Value, f
			r.n++
		}
	}
	for _, name := range names {
		r := rows[name]
		if r.n == 0 {
			t.Rows = append(t.Rows, []cell{code(name), unknownCell(), unknownCell(), unknownCell(), whole(0), text(""),
				{Text: "unknown: " + r.why, Faint: true}})
			continue
		}
		t.Rows = append(t.Rows, []cell{code(name), measure(r.lo, r.f.Unit), measure(r.hi, r.f.Unit),
			measure(r.last, r.f.Unit), whole(r.n), text(string(r.f.Basis)), text(r.f.Note)})
	}
	return t
}

func orUnknown(n int) cell {
	if n == 0 {
		return unknownCell()
	}
	return whole(n)
}

func sorted[T any](xs []T, less func(a, b T) bool) []T {
	out := append([]T(nil), xs...)
	sort.SliceStable(out, func(i, j int) bool { return less(out[i], out[j]) })
	return out
}

// sentence gives text a capital and a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}
