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
type HTML struct{}

// Name of the form.
func (HTML) Name() string { return "html" }

// Write the page.
func (HTML) Write(w io.Writer, run *evidence.Run) error {
	out := bufio.NewWriter(w)
	if err := page.Execute(out, pageOf(listed(run))); err != nil {
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
	Tiles              []tile
	Findings           []finding
	NoFindings         string
	Split              splitView
	Steps, Loss        template.HTML
	NoSteps, NoLoss    string
	Time               []template.HTML
	NoTime             []string
	Numerics           string
	Epoch              []tile
	NoEpoch            string
	Tables             map[string]table
	Five               []table
	Command            string
	Basis              string // of what is drawn step by step
	Rehearsed          string
}

type link struct{ ID, Text string }

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
}

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

// remark is what a reader must know to use a figure.
func remark(f evidence.Figure) string {
	if f.Disturbed == "" {
		return f.Note
	}
	return strings.TrimSuffix("disturbed: "+f.Disturbed+"; "+f.Note, "; ")
}

// lead is the headline: what happened, where the time goes, what to read first.
func lead(run *evidence.Run) string {
	s := knownBad(run) + happened(run)
	step := run.Figure("step.time")
	if step.Known() {
		s += fmt.Sprintf(" A step takes %s in the median", number(step))
		if step.Disturbed != "" {
			s += " (disturbed: " + step.Disturbed + ")"
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

func pageOf(run *evidence.Run) *pageData {
	d := &pageData{
		Title: base(subjectName(run)), Lead: lead(run), State: state(run), Run: run,
		Started: run.Started.Format("2006-01-02 15:04:05 -07:00"),
		Ended:   run.Ended.Format("2006-01-02 15:04:05 -07:00"),
		CSS:     template.CSS(pageCSS), JS: template.JS(pageJS), Numerics: numerics(run),
		Command: strings.Join(run.Subject.Command, " "),
		Tables:  map[string]table{}, Basis: string(usualBasis(run)),
	}
	if run.Rehearsal != nil {
		d.Rehearsed = sentence(rehearsedText(run))
	}
	sum := sha256.Sum256([]byte(pageJS))
	d.Policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if !run.Outcome.Complete {
		d.Incomplete = orElse(run.Outcome.Reason, "no reason was recorded")
	}

	memory := tileOf(run, "peak allocator memory", "memory.live.peak")
	if memory.Unknown {
		memory = tileOf(run, "peak process memory", "memory.resident.peak")
	}
	epoch := tileOf(run, "epoch", "epoch.time")
	if est := run.Figure("epoch.estimate"); epoch.Unknown && est.Known() {
		epoch = tileFrom("epoch, estimated", est)
	}
	d.Tiles = []tile{tileOf(run, "step", "step.time"), tileOf(run, "samples", "samples.rate"), epoch, memory,
		tileOf(run, "until the first step", "run.startup"), tileOf(run, "assay's cost a step", "agent.step")}
	if f := run.Figure("agent.share"); f.Known() && !d.Tiles[5].Unknown {
		d.Tiles[5].Detail = number(f) + " of the step (" + string(f.Basis) + ")"
	}

	for _, f := range bySeverity(run.Findings) {
		d.Findings = append(d.Findings, finding{string(f.Severity), f.Text, place(run, f.Where), f.Hint,
			string(f.Basis), f.Name})
	}
	d.NoFindings = sentence(noFindings(run))
	d.Split = splitOf(run)

	if c := stepChart(run); c.drawn() {
		d.Steps = c.render()
	} else {
		d.NoSteps = "No plot of step time: " + orElse(blind(run), "fewer than two steps were recorded") + "."
	}
	if c := lossChart(run); c.drawn() {
		d.Loss = c.render()
	} else {
		d.NoLoss = "No plot of the loss: " + orElse(run.Loss.Note, orElse(blind(run),
			"fewer than two values were recorded")) + "."
	}
	for _, c := range timeCharts(run) {
		if n, zero := c.allZero(); zero {
			d.NoTime = append(d.NoTime, fmt.Sprintf("%s: %s throughout, in %s", c.Title, quantity(0, c.Unit),
				count(n, "sample")))
		} else if c.drawn() {
			d.Time = append(d.Time, c.render())
		} else {
			d.NoTime = append(d.NoTime, whyNotDrawn(run, c))
		}
	}
	for _, e := range [][2]string{{"first epoch, a step", "step.first_epoch"}, {"epoch", "epoch.time"},
		{"steps of an epoch", "epoch.steps"}, {"estimate", "epoch.estimate"}} {
		d.Epoch = append(d.Epoch, tileOf(run, e[0], e[1]))
	}
	if why := commonReason(run.Figure("step.first_epoch"), run.Figure("epoch.time"), run.Figure("epoch.steps"),
		run.Figure("epoch.estimate")); why != "" {
		d.NoEpoch = "The length of an epoch is unknown: " + why + "."
	}
	for _, t := range tables(run) {
		d.Tables[t.ID] = t
	}
	d.Five = []table{fiveTuple(run)}
	d.Nav = []link{{"findings", "Findings"}, {"rehearsal", "Rehearsal"}, {"split", "Split"}, {"steps", "Steps"},
		{"memory", "Memory"}, {"epochs", "Epochs"}, {"syncs", "Synchronisation"},
		{"fallbacks", "Fallbacks"}, {"operators", "Operators"}, {"numerics", "Numerics"}, {"host", "Host"},
		{"provenance", "Provenance"}, {"figures", "All figures"}}
	if run.Rehearsal == nil {
		d.Nav = slices.Delete(d.Nav, 1, 2)
	}
	return d
}

// whyNotDrawn says in a sentence why a plot over time is not there.
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
			if f.Name == p.names[0] && !f.Known() {
				why = reason(f)
			}
		}
		why = orElse(why, "fewer than two samples hold it")
	}
	if len(run.Host.Samples) == 0 {
		why = orElse(why, "no host sample was taken")
	}
	return c.Title + ": " + orElse(why, "fewer than two values were recorded")
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
	return v
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
			fmt.Fprintf(&labels, `<span class="t-%s" style="left:%s%%;width:%s%%">%s</span>`, phases[i].Class,
				num(at/10), num(w/10), unit.Format(*f.Value, "ratio"))
		}
		fmt.Fprintf(&desc, "%s %s, ", template.HTMLEscapeString(phases[i].Name), unit.Format(*f.Value, "ratio"))
		at += w
	}
	return template.HTML(`<div class="bar"><svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-labelledby="split-t split-d"><title id="split-t">Split of a step</title><desc id="split-d">` +
		strings.TrimSuffix(desc.String(), ", ") + `</desc>` + svg.String() + `</svg><div aria-hidden="true">` +
		labels.String() + `</div></div>`)
}

// fiveTuple comes first in the provenance: what a second run must share before it can be compared with this one.
func fiveTuple(run *evidence.Run) table {
	p := run.Provenance
	t := table{ID: "t-five", Plain: true, Cols: []column{{Name: "what"}, {Name: "value"}}}
	add := func(name string, c cell) { t.Rows = append(t.Rows, []cell{text(name), c}) }
	missing := func(why string) cell { return cell{Text: "unknown: " + why, Faint: true} }
	declared := func(s, small string) cell { return cell{Text: s, Small: small} }

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
		add("batch and inputs", declared(strings.Join(inputs, ", "), "measured; no loader was seen"))
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
	return t
}

func tables(run *evidence.Run) []table {
	var out []table
	add := func(t table) { out = append(out, t) }
	basis := string(usualBasis(run))

	t := table{ID: "t-epochs", Alone: true, Caption: "Epochs", Note: basis + "; memory at the end of the epoch",
		Empty: "No epoch: " + orElse(blind(run), "no training loader was seen") + ".",
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
		"; medians over the sampled steps, at the end of the phase", Empty: "No memory by phase: " +
		orElse(blind(run), "no step was sampled for it") + ".",
		Cols: []column{{"phase", false}, {"live", true}, {"pool", true}, {"resident", true},
			{"swap of the machine", true}, {"n", true}}}
	for _, m := range run.Memory {
		t.Rows = append(t.Rows, []cell{text(m.Phase), maybe(m.Live, "B"), maybe(m.Pool, "B"), maybe(m.Resident, "B"),
			maybe(m.Swap, "B"), whole(m.N)})
	}
	add(t)

	t = table{ID: "t-retained", Caption: "Tensors that outlive their step", Note: basis + " in the traced steps",
		Empty: sentence("tensors that outlive their step: " + orElse(unseen(run), "none was seen")),
		Cols:  []column{{"line", false}, {"tensors", true}, {"size", true}, {"traced steps", true}, {"epochs", false}}}
	for _, r := range run.Retained {
		t.Rows = append(t.Rows, []cell{code(place(run, r.Where)), whole(r.Tensors), measure(float64(r.Bytes), "B"),
			whole(r.Steps), text(intList(r.Epochs, 6))})
	}
	add(t)

	t = table{ID: "t-syncs", Alone: true, Caption: "Synchronisation points", Note: basis +
		"; time inside the call, by the user's line", Empty: sentence(noSyncs(run)),
		Cols: []column{{"call", false}, {"line", false}, {"count", true}, {"in steps", true}, {"time", true},
			{"waits for the device", false}}}
	for _, s := range sorted(run.Syncs, func(a, b evidence.SyncPoint) bool { return a.Lost > b.Lost }) {
		waits := text("yes")
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
		Empty: sentence(noFallbacks(run)),
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
		Empty: sentence(profileText(run.Profile)), Cols: []column{{"operator", false}, {"calls", true},
			{"self, host", true}, {"total, host", true}}}
	var device, queue bool
	top := 0.0
	for _, o := range run.Operators {
		device, queue = device || o.Device != nil, queue || o.Queue != nil
		top = math.Max(top, hot(o))
	}
	if device {
		t.Cols = append(t.Cols, column{"device", true})
	}
	if queue {
		t.Cols = append(t.Cols, column{"queue", true})
	}
	for _, o := range sorted(run.Operators, func(a, b evidence.Operator) bool { return hot(a) > hot(b) }) {
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

	t = table{ID: "t-shapes", Caption: "Shapes that entered the model", Note: basis, Empty: "No input shape: " +
		orElse(blind(run), "none was seen") + ".",
		Cols: []column{{"model", false}, {"inputs", false}, {"steps", true}, {"first in step", true}}}
	for _, s := range run.Shapes {
		t.Rows = append(t.Rows, []cell{code(s.Model), code(s.Inputs), whole(s.Steps), whole(s.First)})
	}
	add(t)

	t = table{ID: "t-facts", Caption: "Facts", Note: "declared by the source named",
		Empty: "No fact about the host was read.", Cols: []column{{"fact", false}, {"value", false}, {"source", false}}}
	for _, f := range run.Host.Facts {
		v := text(f.Value)
		if f.Value == "" {
			v = cell{Text: "unknown: " + orElse(f.Missing, "no reason was recorded"), Faint: true}
		}
		t.Rows = append(t.Rows, []cell{text(f.Name), v, code(f.Source)})
	}
	add(t)
	add(counters(run))

	t = table{ID: "t-apps", Caption: "Largest programs",
		Note: "measured; memory at the start and at the end of the run", Empty: "No list of programs was taken.",
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
		Empty: "The agent entered no Python process.",
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
		Empty: "No training loader was seen.",
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

	t = table{ID: "t-environment", Caption: "Environment", Empty: "No variable that changes how training runs was set.",
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
		Empty: "No window: " + orElse(blind(run), "none was set") + ".",
		Cols: []column{{"window", false}, {"first", true}, {"last", true}, {"steps that count", true},
			{"excluded", false}}}
	for _, w := range run.Windows {
		t.Rows = append(t.Rows, []cell{text(w.Name), whole(w.First), whole(w.Last), whole(w.Steps), text(w.Excluded)})
	}
	add(t)

	t = table{ID: "t-figures", Alone: true, Caption: "All figures",
		Note: "Q1 and Q3 are the quartiles of the sample of n", Empty: "No figure was recorded.",
		Cols: []column{{"figure", false}, {"value", true}, {"Q1–Q3", true}, {"n", true}, {"window", false},
			{"basis", false}, {"note", false}}}
	for _, f := range run.Figures {
		if !f.Known() {
			t.Rows = append(t.Rows, []cell{code(f.Name), unknownCell(), text(""), text(""), text(f.Window),
				text(string(f.Basis)), {Text: "unknown: " + reason(f), Faint: true}})
			continue
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
		t.Rows = append(t.Rows, []cell{code(f.Name), v, q, n, text(f.Window), text(string(f.Basis)), text(f.Note)})
	}
	add(t)
	return out
}

// rehearsed are the tables of what the double saw, and of what it stood for.
func rehearsed(run *evidence.Run) []table {
	r := run.Rehearsal
	refusals := table{ID: "t-refusals", Caption: "Refusals", Note: "errors that the device would raise",
		Empty: "No operator was refused.",
		Cols: []column{{"operator", false}, {"cause", false}, {"line", false}, {"count", true}, {"error", false},
			{"ended the script", false}, {"what to do", false}}}
	for _, x := range r.Refusals {
		refusals.Rows = append(refusals.Rows, []cell{code(x.Operator), text(x.Cause), code(place(run, x.Where)),
			whole(x.Count), {Text: x.Error, Small: x.Text}, yes(x.Ended), text(x.Remedy)})
	}
	met := table{ID: "t-met", Caption: "Known facts that were met",
		Note:  "about which MPS says nothing: wrong numbers, an end of the process, a slower way, the CPU (knowledge.md)",
		Empty: "No known fact was met.",
		Cols: []column{{"outcome", false}, {"operator", false}, {"line", false}, {"count", true}, {"when", false},
			{"what comes out", false}, {"what to do", false}, {"releases", false}}}
	if r.Met == nil {
		met.Empty = "Not looked for by the assay that rehearsed."
	}
	for _, x := range r.Met {
		outcome := cell{Text: x.Outcome, Small: x.Fact}
		if !x.Sure {
			outcome.Text = "perhaps " + x.Outcome
		}
		met.Rows = append(met.Rows, []cell{outcome, code(x.Operator), code(place(run, x.Where)), whole(x.Count),
			text(x.When), text(orElse(x.Wrong, "–")), text(orElse(x.Remedy, "–")), {Text: x.Span, Small: x.Source}})
	}
	remarks := table{ID: "t-remarks", Caption: "Remarks", Note: "what the device does otherwise, without an error",
		Empty: "No remark.",
		Cols:  []column{{"operator", false}, {"kind", false}, {"line", false}, {"count", true}, {"what", false}}}
	for _, x := range r.Remarks {
		remarks.Rows = append(remarks.Rows, []cell{code(x.Operator), text(x.Kind), code(place(run, x.Where)),
			whole(x.Count), text(x.Text)})
	}
	ops := table{ID: "t-rehearsed", Caption: "Operators on the device",
		Note:  "calls with tensors on MPS; the state is the release's; times are this machine's",
		Empty: "No operator was called with a tensor on MPS.",
		Cols: []column{{"operator", false}, {"state", false}, {"calls", true}, {"time, this machine", true},
			{"FLOPs", true}}}
	for _, x := range r.Operators {
		flops := unknownCell()
		if x.FLOPs != nil {
			flops = cell{Text: fmt.Sprintf("%.3g", *x.FLOPs), Sort: full(*x.FLOPs), Num: true}
		}
		ops.Rows = append(ops.Rows, []cell{code(x.Operator), text(x.State), whole(x.Calls), maybe(x.Seconds, "s"),
			flops})
	}
	out := []table{met, refusals, remarks, ops}
	if r.Tests != nil {
		tests := table{ID: "t-tests", Caption: "Tests that failed", Note: testsText(r.Tests), Empty: "No test failed.",
			Cols: []column{{"test", false}, {"cause", false}, {"operator", false}, {"on the CPU", false},
				{"line", false}, {"error", false}}}
		for _, x := range r.Tests.Failures {
			tests.Rows = append(tests.Rows, []cell{code(x.ID), text(x.Cause), code(x.Operator), text(x.OnCPU),
				code(place(run, x.Where)), {Text: x.Error, Small: x.Text}})
		}
		out = append([]table{tests}, out...)
	}
	if d := run.Target.Double; d != nil {
		t := table{ID: "t-double", Plain: true, Caption: "What it stood for",
			Cols: []column{{Name: "what"}, {Name: "value"}}}
		add := func(name, value, small string) {
			t.Rows = append(t.Rows, []cell{text(name), {Text: value, Small: small}})
		}
		add("release", "torch "+d.Release, orElse(d.Installed, "another")+" installed")
		add("Mac", fmt.Sprintf("%s with %s, %s", d.Chip, quantity(float64(d.Memory), "B"), count(d.Cores, "GPU core")),
			"macOS "+d.MacOS)
		if d.Recommended != nil {
			add("recommended working set", quantity(float64(*d.Recommended), "B"), d.Ground)
		} else {
			add("recommended working set", "unknown", "")
		}
		if d.ShapeOnly {
			add("values", "none: shapes alone", "")
		} else {
			add("values", "computed by this machine's CPU", "")
		}
		for _, x := range d.Assumed {
			add("assumed", x, "")
		}
		for _, x := range d.Limits {
			add("not imitated", x, "")
		}
		out = append(out, t)
	}
	return out
}

// counters sums the host's samples up: a row for each figure in them.
func counters(run *evidence.Run) table {
	t := table{ID: "t-counters", Caption: "Counters", Note: fmt.Sprintf("over %s",
		count(len(run.Host.Samples), "host sample")), Empty: "No host sample was taken.",
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
