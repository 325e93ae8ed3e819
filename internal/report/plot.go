package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"sort"
	"strconv"
	"strings"

	"assay/internal/evidence"
)

// A plot is geometry in an SVG that stretches with the page, and labels in HTML beside it, which do not: so the text of
// a plot keeps its size on a phone, and every colour is a CSS variable that follows dark mode.
const (
	plotWidth  = 1000.0 // of the viewBox; all x are in it
	plotHeight = 200.0
	mostPoints = 1500 // of one line. A longer series is drawn as the envelope of minimum and maximum
)

// series is one line; a value that is NaN is a gap.
type series struct {
	Name  string
	Class string // s1 … s5: colour and dash
	X, Y  []float64
}

func (s series) known() int {
	n := 0
	for _, y := range s.Y {
		if !math.IsNaN(y) {
			n++
		}
	}
	return n
}

// span is a stretch of the x axis.
type span struct {
	From, To float64
	Label    string
	Faint    bool
}

// lane is a thin row under a plot on the same x axis: stretches, or single ticks.
type lane struct {
	Name  string
	Spans []span
	Ticks []float64
}

type chart struct {
	ID, Title, Note, Desc string
	Unit, XUnit, XName    string
	Series                []series
	Bands                 []span // behind the lines
	Lanes                 []lane
	Zero                  bool // the y axis starts at 0
	MayLog                bool // a logarithmic y axis, where a few values would flatten the rest
	Low                   bool // a low panel
	XMin, XMax            float64
	log                   bool
}

// drawn reports whether there is a line to draw.
func (c *chart) drawn() bool {
	for _, s := range c.Series {
		if s.known() > 1 {
			return true
		}
	}
	return false
}

// allZero reports whether every value is zero, and how many there are: that is a sentence, not a plot.
func (c *chart) allZero() (n int, zero bool) {
	for _, s := range c.Series {
		for _, y := range s.Y {
			if y != 0 {
				return 0, false
			}
			n++
		}
	}
	return n, n > 0
}

// render writes the figure. The same chart gives the same bytes.
func (c *chart) render() template.HTML {
	lo, hi := math.Inf(1), math.Inf(-1)
	var all []float64
	for _, s := range c.Series {
		for _, y := range s.Y {
			if !math.IsNaN(y) {
				lo, hi = math.Min(lo, y), math.Max(hi, y)
				all = append(all, y)
			}
		}
	}
	sort.Float64s(all)
	if c.MayLog && lo > 0 && hi > 8*all[len(all)/2] {
		c.log = true
	}
	var ticks []tick
	if c.log {
		lo, hi, ticks = logTicks(lo, hi, c.Unit)
	} else {
		if c.Zero {
			lo = math.Min(lo, 0)
		}
		lo, hi, ticks = ticksOf(lo, hi, c.Unit, 4)
	}
	y := func(v float64) float64 {
		if c.log {
			return plotHeight * (1 - (math.Log(v)-math.Log(lo))/(math.Log(hi)-math.Log(lo)))
		}
		return plotHeight * (1 - (v-lo)/(hi-lo))
	}
	if c.XMax <= c.XMin {
		c.XMax = c.XMin + 1
	}
	x := func(v float64) float64 {
		return math.Max(0, math.Min(plotWidth, plotWidth*(v-c.XMin)/(c.XMax-c.XMin)))
	}

	var b strings.Builder
	class := "plot"
	if c.Low {
		class += " low"
	}
	fmt.Fprintf(&b, `<figure class="%s" id="%s"><figcaption><b>%s</b>`, class, c.ID, html.EscapeString(c.Title))
	for _, s := range c.Series {
		fmt.Fprintf(&b, ` <span class="key %s"><svg width="18" height="8" aria-hidden="true"><path class="line" d="M0 4H18"/></svg>%s</span>`, s.Class, html.EscapeString(s.Name))
	}
	note := c.Note
	if c.log {
		note = strings.TrimPrefix(note+"; logarithmic scale", "; ")
	}
	if note != "" {
		fmt.Fprintf(&b, ` <span class="sub">%s</span>`, html.EscapeString(note))
	}
	b.WriteString("</figcaption>\n<div class=\"grid\">")

	b.WriteString(`<div class="yax" aria-hidden="true">`)
	for _, t := range ticks {
		fmt.Fprintf(&b, `<span style="top:%s%%">%s</span>`, num(y(t.At)/plotHeight*100), html.EscapeString(t.Label))
	}
	b.WriteString("</div>\n")
	fmt.Fprintf(&b, `<div class="area" data-x0="%s" data-x1="%s" data-y0="%s" data-y1="%s" data-unit="%s" data-xunit="%s" data-xname="%s"%s>`,
		full(c.XMin), full(c.XMax), full(lo), full(hi), html.EscapeString(c.Unit), html.EscapeString(c.XUnit),
		html.EscapeString(c.XName), map[bool]string{true: ` data-log=""`}[c.log])
	fmt.Fprintf(&b, `<svg viewBox="0 0 1000 200" preserveAspectRatio="none" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		c.ID, c.ID, c.ID, html.EscapeString(c.Title), c.ID, html.EscapeString(c.Desc))
	for i, s := range c.Bands {
		if i%2 == 1 {
			fmt.Fprintf(&b, `<rect class="band" x="%s" y="0" width="%s" height="200"/>`, num(x(s.From)),
				num(x(s.To)-x(s.From)))
		}
	}
	b.WriteString(`<path class="gridline" d="`)
	for _, t := range ticks {
		fmt.Fprintf(&b, "M0 %sH1000", num(y(t.At)))
	}
	b.WriteString(`"/>`)
	for _, s := range c.Series {
		fmt.Fprintf(&b, `<g class="%s" data-name="%s">`, s.Class, html.EscapeString(s.Name))
		drawSeries(&b, s, x, y)
		b.WriteString("</g>")
	}
	b.WriteString("</svg></div>\n")

	for _, l := range c.Lanes {
		fmt.Fprintf(&b, `<div class="lname">%s</div><div class="lane">`, html.EscapeString(l.Name))
		fmt.Fprint(&b, `<svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">`)
		for i, s := range l.Spans {
			kind := "span"
			if i%2 == 1 || s.Faint {
				kind = "span odd"
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%s" y="0" width="%s" height="10"/>`, kind, num(x(s.From)),
				num(math.Max(.5, x(s.To)-x(s.From))))
		}
		if len(l.Ticks) > 0 {
			b.WriteString(`<path class="tick" d="`)
			last := -1.0
			for _, t := range l.Ticks {
				if at := math.Round(x(t)*2) / 2; at-last >= 1 || last < 0 { // what would lie on one pixel is drawn once
					fmt.Fprintf(&b, "M%s 0V10", num(at))
					last = at
				}
			}
			b.WriteString(`"/>`)
		}
		b.WriteString("</svg>")
		for _, s := range l.Spans {
			if w := x(s.To) - x(s.From); s.Label != "" && w >= 22 {
				fmt.Fprintf(&b, `<span style="left:%s%%;width:%s%%">%s</span>`, num(x(s.From)/10), num(w/10),
					html.EscapeString(s.Label))
			}
		}
		b.WriteString("</div>\n")
	}

	fmt.Fprintf(&b, `<div class="xname" aria-hidden="true">%s</div><div class="xax" aria-hidden="true">`,
		html.EscapeString(c.XName))
	most := 8
	if c.XUnit == "1" { // between two steps, or two runs, is none
		most = min(most, max(1, int(c.XMax-c.XMin)))
	}
	_, _, xt := ticksOf(c.XMin, c.XMax, c.XUnit, most)
	for _, t := range xt {
		if t.At >= c.XMin && t.At <= c.XMax {
			edge := ""
			switch at := x(t.At); {
			case at < 20:
				edge = ` class="at0"`
			case at > plotWidth-20:
				edge = ` class="at1"`
			}
			fmt.Fprintf(&b, `<span%s style="left:%s%%">%s</span>`, edge, num(x(t.At)/10), html.EscapeString(t.Label))
		}
	}
	b.WriteString("</div></div></figure>")
	return template.HTML(b.String())
}

func drawSeries(b *strings.Builder, s series, x, y func(float64) float64) {
	if len(s.X) > mostPoints {
		drawEnvelope(b, s, x, y)
		return
	}
	for i := 0; i < len(s.Y); {
		if math.IsNaN(s.Y[i]) {
			i++
			continue
		}
		from := i
		for i < len(s.Y) && !math.IsNaN(s.Y[i]) {
			i++
		}
		b.WriteString(`<polyline class="line" points="`)
		for j := from; j < i; j++ {
			fmt.Fprintf(b, "%s,%s ", num(x(s.X[j])), num(y(s.Y[j])))
		}
		if i == from+1 { // a point alone is drawn as a dash
			fmt.Fprintf(b, "%s,%s ", num(x(s.X[from])+2), num(y(s.Y[from])))
		}
		b.WriteString(`"/>`)
	}
}

// drawEnvelope draws a band from the smallest to the largest value of each bucket: what stands out stays visible.
func drawEnvelope(b *strings.Builder, s series, x, y func(float64) float64) {
	const buckets = mostPoints / 2
	type bucket struct{ x, lo, hi float64 }
	var out []bucket
	for i := range buckets {
		from, to := i*len(s.X)/buckets, (i+1)*len(s.X)/buckets
		k := bucket{x(s.X[(from+to)/2]), math.Inf(1), math.Inf(-1)}
		for _, v := range s.Y[from:to] {
			if !math.IsNaN(v) {
				k.lo, k.hi = math.Min(k.lo, v), math.Max(k.hi, v)
			}
		}
		if k.lo <= k.hi {
			out = append(out, k)
		}
	}
	b.WriteString(`<polygon class="line env" points="`)
	for _, k := range out {
		fmt.Fprintf(b, "%s,%s ", num(k.x), num(y(k.hi)))
	}
	for i := len(out) - 1; i >= 0; i-- {
		fmt.Fprintf(b, "%s,%s ", num(out[i].x), num(y(out[i].lo)))
	}
	b.WriteString(`"/>`)
}

// num prints a coordinate with one decimal, without a trailing zero.
func num(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v+0, 'f', 1, 64), ".0")
}

func full(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }

type tick struct {
	At    float64
	Label string
}

// scaleOf finds the unit in which an axis up to hi is labelled.
func scaleOf(hi float64, unit string) (factor float64, name string) {
	type step struct {
		from, factor float64
		name         string
	}
	pick := func(steps ...step) (float64, string) {
		for _, x := range steps {
			if hi >= x.from {
				return x.factor, " " + x.name
			}
		}
		last := steps[len(steps)-1]
		return last.factor, " " + last.name
	}
	switch unit {
	case "s":
		return pick(step{7200, 3600, "h"}, step{300, 60, "min"}, step{1, 1, "s"}, step{1e-3, 1e-3, "ms"},
			step{1e-6, 1e-6, "µs"}, step{1e-9, 1e-9, "ns"})
	case "B":
		return pick(step{1 << 40, 1 << 40, "TiB"}, step{1 << 30, 1 << 30, "GiB"}, step{1 << 20, 1 << 20, "MiB"},
			step{1 << 10, 1 << 10, "KiB"}, step{1, 1, "B"})
	case "ratio":
		return .01, " %"
	case "1", "":
		if hi >= 1e6 {
			return 1e6, " M"
		}
		return 1, ""
	}
	if f, ok := map[string]float64{"h": 3600, "min": 60}[unit]; ok {
		return f, " " + unit
	}
	return 1, " " + unit
}

// ticksOf finds about n round values that hold lo…hi between them.
func ticksOf(lo, hi float64, unit string, n int) (float64, float64, []tick) {
	if hi <= lo {
		d := math.Max(math.Abs(hi)*.1, 1e-9)
		if unit == "B" || unit == "1" {
			d = math.Max(d, 1)
		}
		if lo == 0 {
			hi = lo + d
		} else {
			lo, hi = lo-d, hi+d
		}
	}
	f, name := scaleOf(math.Max(math.Abs(lo), math.Abs(hi)), unit)
	step := niceStep((hi - lo) / f / float64(n))
	if unit == "1" && f == 1 {
		step = math.Max(step, niceStep(1e-9)) // counts and plain numbers alike
	}
	first, last := math.Floor(lo/f/step+1e-9), math.Ceil(hi/f/step-1e-9)
	var out []tick
	for k := first; k <= last; k++ {
		out = append(out, tick{k * step * f, axisNumber(k*step, step) + name})
	}
	return first * step * f, last * step * f, out
}

func niceStep(raw float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*p*1.0000001 {
			return m * p
		}
	}
	return 10 * p
}

func axisNumber(v, step float64) string {
	d := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	s := strconv.FormatFloat(v, 'f', d, 64)
	if d == 0 && math.Abs(v) < 1e15 {
		return thousands(int(v))
	}
	return s
}

// logTicks are 1, 2 and 5 times powers of ten; only powers of ten where that would be too many.
func logTicks(lo, hi float64, unit string) (float64, float64, []tick) {
	p0, p1 := math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi))
	ms := []float64{1, 2, 5}
	if p1-p0 > 3 {
		ms = ms[:1]
	}
	var at []float64
	for p := p0; p <= p1; p++ {
		for _, m := range ms {
			at = append(at, m*math.Pow(10, p))
		}
	}
	for len(at) > 2 && at[1] <= lo*.85 {
		at = at[1:]
	}
	for len(at) > 2 && at[len(at)-2] >= hi*.9999999 {
		at = at[:len(at)-1]
	}
	var out []tick
	for _, v := range at {
		f, name := scaleOf(v*1.0000001, unit)
		out = append(out, tick{v, strconv.FormatFloat(v/f, 'g', 4, 64) + name})
	}
	return at[0], at[len(at)-1], out
}

// charts of a run, in the order of the page; those with nothing to draw are left out by the page, which says why.

func stepChart(run *evidence.Run) *chart {
	s := run.Steps
	c := &chart{ID: "plot-steps", Title: "Step time", Unit: "s", XUnit: "1", XName: "step", Zero: true, MayLog: true,
		XMin: 1, XMax: float64(max(2, stepsSeen(run)))}
	c.Series = []series{{Name: "step time", Class: "s1", X: floats(s.Number), Y: known(s.Total)}}
	if len(s.Number) != len(s.Total) {
		c.Series = nil
	}
	if s.Thin > 1 {
		c.Note = fmt.Sprintf("every %s step is drawn", ordinal(s.Thin))
	} else if len(s.Number) > mostPoints {
		c.Note = "drawn as the envelope of minimum and maximum"
	}
	c.Bands = epochSpans(run)
	c.Desc = fmt.Sprintf("Seconds of each of %s over its number.", count(stepsSeen(run), "step"))
	if f := run.Figure("step.time"); f.Known() {
		c.Desc += " Median of the window " + f.Window + ": " + number(f) + "."
	}
	if len(c.Bands) > 0 {
		c.Lanes = append(c.Lanes, lane{Name: "epoch", Spans: c.Bands})
	}
	if w, ok := windowNamed(run, "steady"); ok {
		c.Lanes = append(c.Lanes, lane{Name: "steady", Spans: []span{{From: float64(w.First), To: float64(w.Last)}}})
		c.Desc += " " + windowText(w) + "."
	}
	for _, kind := range []string{"sync", "profile", "trace", "bare"} {
		var at []float64
		for i, k := range s.Kind {
			if k == kind && i < len(s.Number) {
				at = append(at, float64(s.Number[i]))
			}
		}
		if len(at) > 0 {
			c.Lanes = append(c.Lanes, lane{Name: kind, Ticks: at})
			c.Desc += fmt.Sprintf(" %s of kind %s.", count(len(at), "step"), kind)
		}
	}
	return c
}

func lossChart(run *evidence.Run) *chart {
	l := run.Loss
	c := &chart{ID: "plot-loss", Title: "Loss", Unit: "1", XUnit: "1", XName: "step", Low: true, Bands: epochSpans(run),
		XMin: 1, XMax: float64(max(2, stepsSeen(run))), Note: l.Note,
		Desc: "The loss as passed to backward, over the number of the step."}
	var ys, bad []float64
	for i, v := range l.Value {
		if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
			ys = append(ys, math.NaN())
			if i < len(l.Step) {
				bad = append(bad, float64(l.Step[i]))
			}
			continue
		}
		ys = append(ys, *v)
	}
	if len(l.Step) == len(ys) {
		c.Series = []series{{Name: "loss", Class: "s2", X: floats(l.Step), Y: ys}}
	}
	if len(bad) > 0 {
		c.Lanes = []lane{{Name: "not finite", Ticks: bad}}
		c.Desc += fmt.Sprintf(" It was not finite in %s.", count(len(bad), "step"))
	}
	return c
}

// hostPanel is a panel over time of counters of one unit.
type hostPanel struct {
	id, title, unit string
	names           []string // of the figures in a sample
	labels          []string
}

var hostPanels = []hostPanel{
	{"plot-process", "Memory of the process", "B", []string{"process.footprint", "process.resident", "process.workers"},
		[]string{"footprint", "resident", "workers"}},
	{"plot-swap", "Swap of the machine", "B", []string{"host.swap.used"}, []string{"swap in use"}},
	{"plot-busy", "Utilisation of the machine", "ratio", []string{"host.cpu", "gpu.busy"}, []string{"CPU", "GPU"}},
	{"plot-power", "Power", "W", []string{"power.system", "gpu.power", "cpu.power"}, []string{"machine", "GPU", "CPU"}},
}

func timeCharts(run *evidence.Run) []*chart {
	var end float64
	for _, s := range run.Host.Samples {
		end = math.Max(end, s.At)
	}
	if n := min(len(run.Steps.Start), len(run.Steps.Total)); n > 0 {
		end = math.Max(end, run.Steps.Start[n-1]+run.Steps.Total[n-1])
	}
	bands := epochTimes(run, end)
	steps := run.Steps
	out := []*chart{{ID: "plot-allocator", Title: "Memory of the allocator", Unit: "B", Zero: true, Low: true,
		Note: "at the start of backward, each step",
		Desc: "Bytes of live tensors and of the pool that the allocator holds, at each step, over seconds since the start of the run."}}
	if len(steps.Live) == len(steps.Start) && len(steps.Pool) == len(steps.Start) {
		out[0].Series = []series{{Name: "live", X: steps.Start, Y: nonNegative(steps.Live)},
			{Name: "pool", X: steps.Start, Y: nonNegative(steps.Pool)}}
	}
	for _, p := range hostPanels {
		c := &chart{ID: p.id, Title: p.title, Unit: p.unit, Zero: true, Low: true, Desc: p.title +
			" over seconds since the start of the run."}
		for i, name := range p.names {
			s := series{Name: p.labels[i]}
			for _, sample := range run.Host.Samples {
				for _, f := range sample.Figures {
					if f.Name == name && f.Known() {
						s.X, s.Y = append(s.X, sample.At), append(s.Y, *f.Value)
					}
				}
			}
			c.Series = append(c.Series, s)
		}
		out = append(out, c)
	}
	for _, c := range out {
		c.XUnit, c.XName, c.XMax, c.Bands = "s", "time", end, bands
		var has []series
		for _, s := range c.Series {
			if s.known() > 1 {
				s.Class = []string{"s1", "s4", "s3"}[len(has)]
				has = append(has, s)
			}
		}
		c.Series = has
	}
	return out
}

func floats(ns []int) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = float64(n)
	}
	return out
}

// known turns what is not finite into a gap.
func known(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		if math.IsInf(x, 0) {
			x = math.NaN()
		}
		out[i] = x
	}
	return out
}

// nonNegative turns -1, which stands for not known, into a gap.
func nonNegative(xs []float64) []float64 {
	out := known(xs)
	for i, x := range out {
		if x < 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

// epochSpans are the epochs as stretches of steps. More than 200 would be a grey haze, and are left out.
func epochSpans(run *evidence.Run) []span {
	if len(run.Epochs) > 200 {
		return nil
	}
	var out []span
	for _, e := range run.Epochs {
		if e.Last >= e.First && e.First > 0 {
			out = append(out, span{From: float64(e.First) - .5, To: float64(e.Last) + .5,
				Label: strconv.Itoa(e.Number)})
		}
	}
	return out
}

// epochTimes are the same stretches in seconds, from the step that begins each.
func epochTimes(run *evidence.Run, end float64) []span {
	var out []span
	for _, s := range epochSpans(run) {
		i := sort.Search(len(run.Steps.Number), func(i int) bool { return float64(run.Steps.Number[i]) > s.From })
		if i == len(run.Steps.Start) || i >= len(run.Steps.Number) {
			continue
		}
		at := run.Steps.Start[i]
		if n := len(out); n > 0 {
			out[n-1].To = at
		}
		out = append(out, span{From: at, To: end, Label: s.Label})
	}
	return out
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
		return thousands(n) + "th"
	case n%10 == 1:
		return thousands(n) + "st"
	case n%10 == 2:
		return thousands(n) + "nd"
	case n%10 == 3:
		return thousands(n) + "rd"
	}
	return thousands(n) + "th"
}
