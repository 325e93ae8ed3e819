package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/stats"
	clean "assay/internal/text"
	"assay/internal/trajectory"
	"assay/internal/unit"
)

// Outcome of a condition or a gate.
type Outcome string

const (
	Pass     Outcome = "pass"
	Fail     Outcome = "fail"
	Unknown  Outcome = "cannot tell" // no pass
	NotAsked Outcome = "not asked"   // its when does not hold
)

// level of every interval here.
const level = stats.Level

// History gives earlier runs of a subject, newest first or in any order; those of other machines and releases are left
// out here.
type History interface {
	Past(of *evidence.Run) ([]*evidence.Run, error)
}

// Set is what a policy is held against: the first run and those like it are judged, the others are there to compare
// with.
type Set struct {
	Runs    []*evidence.Run
	History History // nil: there is no baseline
}

// Device that a run was on; double for a rehearsal.
func Device(run *evidence.Run) string { return evidence.Device(run) }

// judged are the runs like the first one: same subject, device, machine, releases.
func (s *Set) judged() []*evidence.Run {
	var like []*evidence.Run
	for _, run := range s.Runs {
		if unlike(s.Runs[0], run) == "" {
			like = append(like, run)
		}
	}
	return like
}

// On gives the runs on a device that do the same work; "" means those that are judged.
func (s *Set) On(device string) (runs []*evidence.Run, other string) {
	if len(s.Runs) == 0 {
		return nil, "no run was given"
	}
	if device == "" {
		return s.judged(), ""
	}
	if Device(s.Runs[0]) == device {
		return s.judged(), ""
	}
	var first *evidence.Run
	for _, run := range s.Runs {
		switch {
		case Device(run) != device:
		case first == nil || unlike(first, run) == "":
			if why := evidence.OtherWork(s.Runs[0], run); why != "" {
				other = fmt.Sprintf("%s is no match: %s", run.ID, why)
				continue
			}
			if first == nil {
				first = run
			}
			runs = append(runs, run)
		}
	}
	return runs, other
}

// Answer says how a condition came out.
type Answer struct {
	Condition string          `json:"condition"`
	Outcome   Outcome         `json:"outcome"`
	Figure    evidence.Figure `json:"figure"`
	Each      []float64       `json:"each,omitempty"` // of several runs, one value for each
	Runs      []string        `json:"runs"`           // identifiers of those it was taken from
	Text      string          `json:"text"`           // the comparison in words, or why it cannot be told
	Needs     string          `json:"needs,omitempty"`
	Compared  *Compared       `json:"baseline,omitempty"`
	Left      string          `json:"left_out,omitempty"` // of the runs judged, and why
}

// evaluate a condition.
func (s *Set) evaluate(c *Condition) Answer {
	a := s.value(c)
	a.Condition = c.Text
	if a.Outcome == Unknown {
		return a
	}
	if c.Baseline {
		s.againstBaseline(c, &a)
		return a.leaving()
	}
	bound := unit.Format(c.Bound, c.known.Unit)
	v := *a.Figure.Value
	good, bad := 0, 0
	for _, x := range a.Each {
		if c.holds(x) {
			good++
		} else {
			bad++
		}
	}
	shown := c.name() + " is " + unit.Format(v, c.known.Unit)
	if unit.Format(v, c.known.Unit) == bound && v != c.Bound {
		shown = fmt.Sprintf("%s is %.8g %s", c.name(), v, c.known.Unit) // 22.0 % is not less than 22.0 %
	}
	limit := c.Compare + " " + bound
	switch {
	case c.Figure == "speedup": // a run a side, or several: each step differs from run to run, and so does their ratio
		low, high := *a.Figure.Low, *a.Figure.High
		switch {
		case c.holds(low) && c.holds(high) && c.holds(v):
			a.Outcome, a.Text = Pass, shown+asAsked(Pass, limit)
		case !c.holds(low) && !c.holds(high) && !c.holds(v):
			a.Outcome, a.Text = Fail, shown+asAsked(Fail, limit)
		default:
			a.Outcome = Unknown
			a.Text = fmt.Sprintf("%s, and runs differ from one to the next: it lies between %s and %s, on both sides of %s", shown,
				unit.Format(low, c.known.Unit), unit.Format(high, c.known.Unit), limit)
			a.Needs = s.morePairs(c, v)
		}
	case len(a.Each) < 2 || c.Window == "runs":
		a.Outcome = outcome(c.holds(v))
		a.Text = shown + asAsked(a.Outcome, limit)
	case bad == 0 || good == 0:
		a.Outcome = outcome(bad == 0)
		a.Text = fmt.Sprintf("%s over %d %s, each%s", shown, len(a.Each), c.several(),
			strings.TrimPrefix(asAsked(a.Outcome, limit), ","))
	default: // runs disagree: what counts is where their centre lies
		low, high := a.Figure.Low, a.Figure.High
		switch {
		case low != nil && high != nil && c.holds(*low) && c.holds(*high) && c.holds(v):
			a.Outcome = Pass
		case low != nil && high != nil && !c.holds(*low) && !c.holds(*high) && !c.holds(v):
			a.Outcome = Fail
		default:
			a.Outcome, a.Needs = Unknown, s.moreRuns(c, a.Each, v)
		}
		a.Text = fmt.Sprintf("%s over %d %s, of which %d are %s", shown, len(a.Each), c.several(), good, limit)
		if low != nil && high != nil {
			a.Text += fmt.Sprintf("; the centre lies between %s and %s", unit.Format(*low, c.known.Unit),
				unit.Format(*high, c.known.Unit))
		}
	}
	return a.leaving()
}

// leaving adds to the text which runs were left out.
func (a Answer) leaving() Answer {
	if a.Left != "" {
		a.Text += "; " + a.Left
	}
	return a
}

// several is what there are more than one of.
func (c *Condition) several() string {
	if c.Figure == "speedup" {
		return "pairs of runs"
	}
	return "runs"
}

// name of the figure with what stands in its brackets.
func (c *Condition) name() string {
	if len(c.Args) == 0 {
		return c.Figure
	}
	return c.Figure + "(" + strings.Join(c.Args, ", ") + ")"
}

func outcome(holds bool) Outcome {
	if holds {
		return Pass
	}
	return Fail
}

func asAsked(o Outcome, limit string) string {
	if o == Pass {
		return ", as asked (" + limit + ")"
	}
	return ", not " + limit
}

func (c *Condition) holds(x float64) bool {
	switch c.Compare {
	case "<=":
		return x <= c.Bound
	case "<":
		return x < c.Bound
	case ">=":
		return x >= c.Bound
	case ">":
		return x > c.Bound
	case "==":
		return x == c.Bound
	}
	return math.Abs(x) <= c.Bound // within
}

// mostRuns is beyond what anybody would run to settle a gate.
const mostRuns = 50

func (s *Set) moreRuns(c *Condition, each []float64, centre float64) string {
	sd := stats.Spread(each)
	for k := 1; k <= mostRuns && !math.IsNaN(sd); k++ {
		n := len(each) + k
		kept := 0.6 * float64(n) // by the trimmed mean
		half := stats.StudentQuantile((1+level)/2, math.Max(1, kept-1)) * sd / math.Sqrt(kept)
		if half < math.Abs(centre-c.Bound) {
			return fmt.Sprintf("about %s would tell: %s", count(k, "more run"), again(s.Runs[0]))
		}
	}
	return "the runs lie on both sides of the limit, and their centre too close to it for a number of runs that anybody would make"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unknown is the answer where the figure is not known: what would make it so, and why it is not.
func (c *Condition) unknown(needs, format string, args ...any) Answer {
	text := fmt.Sprintf(format, args...)
	return Answer{Outcome: Unknown, Figure: evidence.Unknown(c.Figure, c.known.Unit, text), Runs: []string{},
		Text: text, Needs: needs}
}

// value finds the condition's figure. Outcome is Unknown where there is none; otherwise Figure has a value.
func (s *Set) value(c *Condition) Answer {
	if len(s.Runs) == 0 {
		return c.unknown("name a run", "no run was given")
	}
	if c.known.all != nil {
		return c.known.all(s, c)
	}
	device := ""
	if c.known.args == "" && len(c.Args) == 1 {
		device = c.Args[0]
	}
	if c.Figure == "refusals" { // only a rehearsal has them
		device = "double"
	}
	runs, other := s.On(device)
	if len(runs) == 0 {
		return c.unknown(RunOn(s.Runs[0], device), "%s", noRun(device, other))
	}
	a := Answer{Runs: []string{}}
	var reason, needs string
	disturbed := 0
	for _, run := range runs {
		fig, need := c.of(run)
		if !fig.Known() {
			if run.Figure(c.Figure).Disturbed != "" {
				disturbed++
			}
			if reason == "" {
				reason, needs = fig.Missing, need
			}
			continue
		}
		a.Each, a.Runs = append(a.Each, *fig.Value), append(a.Runs, run.ID)
		if len(a.Each) == 1 {
			a.Figure = fig
		}
	}
	if len(a.Each) == 0 {
		return c.unknown(needs, "%s", reason)
	}
	a.Left = leftOut(disturbed)
	if c.Window == "runs" {
		if len(a.Each) < c.Over {
			return c.unknown(fmt.Sprintf("%s more: %s", count(c.Over-len(a.Each), "run"), again(runs[0])),
				"%s over %d runs: there are %d", c.Figure, c.Over, len(a.Each))
		}
		a.Each, a.Runs = a.Each[:c.Over], a.Runs[:c.Over]
	}
	if len(a.Each) > 1 {
		mean, low, high, ok := stats.Interval(a.Each, level)
		fig := evidence.Known(c.Figure, mean, c.known.Unit, a.Figure.Basis)
		fig.N, fig.Window, fig.Note = len(a.Each), a.Figure.Window, "trimmed mean over runs, with its 95 % interval"
		if c.Window == "runs" {
			m := stats.Median(a.Each)
			fig.Value, fig.Note = &m, "median over runs"
		} else if ok {
			fig.Low, fig.High = &low, &high
		}
		a.Figure = fig
	}
	return a
}

// notMacs is why a clock of a rehearsal proves nothing.
const notMacs = "rehearsed on a double: its times are those of the machine that rehearsed, and say nothing about the Mac"

// leftOut says of how many runs the figure was not taken.
func leftOut(disturbed int) string {
	if disturbed == 0 {
		return ""
	}
	return count(disturbed, "run") + " left out: disturbed while it was measured"
}

// of gives the figure of one run, and what would make it known. One that something else on the machine changed is not
// known.
func (c *Condition) of(run *evidence.Run) (evidence.Figure, string) {
	fig, need := c.taken(run)
	if by := run.Figure(c.Figure).Disturbed; fig.Known() && by != "" {
		return evidence.Unknown(c.Figure, c.known.Unit, fmt.Sprintf("%s of %s was disturbed: %s", c.Figure,
				clean.Short(run.ID, 80), clean.Short(by, 200))),
			"the same without that: " + again(run)
	}
	return fig, need
}

func (c *Condition) taken(run *evidence.Run) (evidence.Figure, string) {
	if c.known.Timed && Device(run) == "double" {
		return evidence.Unknown(c.Figure, c.known.Unit, notMacs), RunOn(run, "mps")
	}
	if c.known.of != nil {
		return c.known.of(c, run)
	}
	fig := run.Figure(c.Figure)
	if fig.Known() && fig.Unit != c.known.Unit {
		return evidence.Unknown(c.Figure, c.known.Unit, fmt.Sprintf("the evidence gives it in %q, and %q is meant",
			fig.Unit, c.known.Unit)), ""
	}
	if !fig.Known() {
		fig.Unit, fig.Missing = c.known.Unit, cmp.Or(fig.Missing, "the evidence says nothing of it")
	}
	if over := c.known.windows[c.Window]; over != nil {
		return over(run, fig, c.Over)
	}
	if !fig.Known() {
		return fig, hint(c.Figure, run)
	}
	return fig, ""
}

func hint(figure string, run *evidence.Run) string {
	switch {
	case strings.HasPrefix(figure, "gpu."):
		return "a run on a Mac, or with an NVIDIA GPU: " + RunOn(run, "mps")
	case strings.HasPrefix(figure, "fallback."), strings.HasPrefix(figure, "facts."),
		strings.HasPrefix(figure, "refused."), strings.HasPrefix(figure, "wrong."):
		return "a rehearsal: " + RunOn(run, "double")
	case figure == "memory.growth":
		return "a run of more epochs"
	case strings.HasPrefix(figure, "memory.") && figure != "memory.resident.peak" && Device(run) == "cpu":
		return "a run on a device that counts its memory: " + RunOn(run, "mps") + ", or " + RunOn(run, "double")
	}
	return ""
}

// tally is a number that was counted in a run, with what was counted.
func tally(c *Condition, basis evidence.Basis, names ...string) (evidence.Figure, string) {
	fig := evidence.Known(c.Figure, float64(len(names)), "1", basis)
	fig.Note = strings.Join(names, "; ")
	return fig, ""
}

// noTally is a number that nobody could count.
func noTally(c *Condition, needs, why string) (evidence.Figure, string) {
	return evidence.Unknown(c.Figure, "1", why), needs
}

// tallySoFar is a tally of what a run meets as it goes on: of one that ended early, none is no number.
func tallySoFar(c *Condition, run *evidence.Run, basis evidence.Basis, names []string) (evidence.Figure, string) {
	if len(names) == 0 && run.Outcome.Exit != 0 {
		return noTally(c, "a run that goes through: "+again(run),
			"none was seen, and the run ended early: "+short(cmp.Or(run.Outcome.Error, run.Outcome.Reason)))
	}
	return tally(c, basis, names...)
}

func findings(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	var names []string
	for _, f := range run.Findings {
		if string(f.Severity) == c.Args[0] {
			names = append(names, f.Name)
		}
	}
	return tally(c, evidence.Measured, names...)
}

func fallbacks(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	d := evidence.Device(run)
	if d != "mps" && d != "double" {
		return noTally(c, "a rehearsal: "+RunOn(run, "double"),
			"only MPS falls back to the CPU, and the run was on "+orNone(d))
	}
	var names []string
	basis := evidence.Measured
	for _, f := range run.Fallbacks {
		if !slices.Contains(names, f.Operator) {
			names = append(names, f.Operator)
		}
		basis = f.Basis
	}
	if d == "double" {
		basis = evidence.Rehearsed
	}
	return tallySoFar(c, run, basis, names)
}

func failures(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	if why := interrupted(run); why != "" {
		return noTally(c, "a run that goes through: "+again(run), why)
	}
	if run.Outcome.Exit != 0 || run.Outcome.Error != "" {
		return tally(c, evidence.Measured, run.Outcome.Error)
	}
	return tally(c, evidence.Measured)
}

func refusals(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	if run.Rehearsal == nil {
		return noTally(c, RunOn(run, "double"), "only a rehearsal counts what the device refuses")
	}
	var names []string
	for _, r := range run.Rehearsal.Refusals {
		if len(c.Args) == 0 || r.Cause == c.Args[0] {
			names = append(names, r.Operator)
		}
	}
	return tallySoFar(c, run, evidence.Rehearsed, names)
}

func hotFallbacks(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	if d := evidence.Device(run); d != "mps" {
		return noTally(c, RunOn(run, "mps"), "it needs a profile taken on MPS, and the run was on "+orNone(d))
	}
	top := Hottest(run)
	if len(top) < 3 {
		return noTally(c, RunOn(run, "mps"), "the profile is missing: "+run.Profile.Missing)
	}
	var names []string
	for _, op := range top {
		if slices.ContainsFunc(run.Fallbacks, func(f evidence.Fallback) bool { return bare(f.Operator) == bare(op) }) {
			names = append(names, op)
		}
	}
	return tally(c, evidence.Derived, names...)
}

func pressurePeak(c *Condition, run *evidence.Run) (evidence.Figure, string) {
	peak, seen := 0.0, false
	for _, s := range run.Host.Samples {
		for _, f := range s.Figures {
			if f.Name == "host.pressure" && f.Known() {
				peak, seen = max(peak, *f.Value), true
			}
		}
	}
	if !seen {
		return noTally(c, RunOn(run, "mps"), "no level of memory pressure was sampled: only macOS has one")
	}
	return evidence.Known(c.Figure, peak, "1", evidence.Measured), ""
}

// interrupted says by what somebody ended a run; "" for one that ended by itself.
func interrupted(run *evidence.Run) string {
	if run.Outcome.Exit < 0 {
		return "nobody saw how it ended: " + cmp.Or(run.Outcome.Reason, "it was cut off")
	}
	if slices.Contains([]string{"SIGINT", "SIGTERM", "SIGHUP"}, run.Outcome.Signal) {
		return "it was ended from outside, by " + run.Outcome.Signal
	}
	if strings.HasPrefix(run.Outcome.Error, "KeyboardInterrupt") {
		return "it was ended from outside, by KeyboardInterrupt"
	}
	return ""
}

// short is the beginning of an error's text.
func short(text string) string {
	if r := []rune(text); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return text
}

func orNone(device string) string {
	if device == "" {
		return "no device that was seen"
	}
	return device
}

// bare is an operator without namespace and overload.
func bare(op string) string {
	if i := strings.LastIndex(op, "::"); i >= 0 {
		op = op[i+2:]
	}
	op, _, _ = strings.Cut(op, ".")
	return op
}

// Hottest are the three operators with most time of their own in the profile: on the device where its time is known, on
// the host else.
func Hottest(run *evidence.Run) []string {
	ops := slices.Clone(run.Operators)
	device := slices.ContainsFunc(ops, func(o evidence.Operator) bool { return o.Device != nil && *o.Device > 0 })
	cost := func(o evidence.Operator) float64 {
		if !device {
			return o.Self
		}
		if o.Device == nil {
			return 0
		}
		return *o.Device
	}
	sort.SliceStable(ops, func(i, j int) bool { return cost(ops[i]) > cost(ops[j]) })
	var names []string
	for _, o := range ops {
		if len(names) < 3 && cost(o) > 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// lastSteps is the median over the last n steps of the figure's window.
func lastSteps(run *evidence.Run, whole evidence.Figure, n int) (evidence.Figure, string) {
	if !whole.Known() {
		return whole, hint(whole.Name, run)
	}
	if run.Steps.Thin > 1 {
		return evidence.Unknown(whole.Name, whole.Unit, fmt.Sprintf("only every %dth step of this long run is listed",
			run.Steps.Thin)), "leave the window out"
	}
	var xs []float64
	for _, w := range run.Windows {
		if w.Name != whole.Window {
			continue
		}
		for i, number := range run.Steps.Number {
			if number >= w.First && number <= w.Last && i < len(run.Steps.Total) && i < len(run.Steps.Kind) &&
				run.Steps.Kind[i] == w.Kind {
				xs = append(xs, run.Steps.Total[i])
			}
		}
	}
	if len(xs) < n {
		return evidence.Unknown(whole.Name, whole.Unit,
				fmt.Sprintf("%d ordinary steps in the window, and %d are asked for", len(xs), n)),
			fmt.Sprintf("a run that is longer by %d steps", n-len(xs))
	}
	sum := stats.Summarize(xs[len(xs)-n:])
	middle := sum.Median
	if run.Target.Asynchronous() { // one step's length is that of its launching: fold.stretches
		middle = sum.Mean
	}
	fig := evidence.Known(whole.Name, middle, whole.Unit, whole.Basis)
	fig.Low, fig.High, fig.N, fig.Window, fig.Note = &sum.Q1, &sum.Q3, n, whole.Window,
		fmt.Sprintf("the last %d of them", n)
	return fig, ""
}

// growth of the memory over n epochs, by the least-squares line through the memory at the ends of n epochs that follow
// one another, the first epoch's left out as memory.growth does. Of a longer run it is the worst stretch.
func growth(run *evidence.Run, _ evidence.Figure, n int) (evidence.Figure, string) {
	name := "memory.growth"
	var at, live, resident []float64
	for _, e := range run.Epochs {
		if e.Number < 2 || !e.Complete {
			continue
		}
		at = append(at, float64(e.Number))
		if e.Live != nil {
			live = append(live, *e.Live)
		}
		if e.Resident != nil {
			resident = append(resident, *e.Resident)
		}
	}
	what, ys := "live", live
	if len(live) != len(at) || len(at) == 0 {
		what, ys = "resident", resident
	}
	if len(ys) != len(at) || len(at) == 0 {
		return evidence.Unknown(name, "ratio", "no memory was read at the ends of whole epochs after the first"),
			fmt.Sprintf("a run of %d epochs", n)
	}
	over := func(i, j int) (float64, bool) { // the gain of the line over n epochs / its start
		a, slope, ok := stats.Line(at[i:j], ys[i:j])
		start := a + slope*at[i]
		return slope * float64(n) / start, ok && start > 0
	}
	worst, from, to, found := 0.0, 0, 0, false
	// The first epoch's end is left out, so ten epochs have nine ends to draw the line through.
	for i := 0; i+n-1 <= len(at); i++ {
		if g, ok := over(i, i+n-1); ok && (!found || g > worst) {
			worst, from, to, found = g, i, i+n-2, true
		}
	}
	if found {
		fig := evidence.Known(name, worst, "ratio", evidence.Derived)
		fig.N = n - 1
		fig.Note = fmt.Sprintf("%s memory, line through the ends of epochs %g to %g, its gain over %d epochs / its start", what, at[from], at[to], n)
		if len(at) > n-1 {
			fig.Note += "; the worst stretch of the run"
		}
		return fig, ""
	}
	more := count(n-1-len(at), "more epoch")
	so := ""
	if len(at) >= 3 {
		if _, slope, ok := stats.Line(at, ys); ok && ys[0] > 0 {
			so = fmt.Sprintf("; so far it changes by %+.2g %% an epoch", 100*slope/ys[0])
		}
	}
	return evidence.Unknown(name, "ratio", fmt.Sprintf("growth over %d epochs: %s run to the end%s", n,
			count(1+len(at), "epoch")+wasWere(1+len(at)), so)),
		fmt.Sprintf("a run of %d epochs: %s", n, more)
}

func wasWere(n int) string {
	if n == 1 {
		return " was"
	}
	return " were"
}

// runsOn counts the runs on a device, whatever they are runs of.
func runsOn(s *Set, c *Condition) Answer {
	ids := []string{}
	for _, run := range s.Runs {
		if evidence.Device(run) == c.Args[0] {
			ids = append(ids, run.ID)
		}
	}
	return Answer{Figure: evidence.Known(c.Figure, float64(len(ids)), "1", evidence.Derived), Runs: ids}
}

func speedup(s *Set, c *Condition) Answer {
	var logs [2][]float64
	var within float64 // variance of what is known of the steps of lone runs
	a := Answer{Runs: []string{}}
	disturbed := 0
	row, _ := catalogue.Find("step.time")
	step := &Condition{Figure: row.Name, known: &figure{Figure: row}}
	for i, device := range c.Args {
		runs, other := s.On(device)
		if device == "double" {
			return c.unknown(RunOn(s.Runs[0], "mps"), "%s", notMacs)
		}
		if len(runs) == 0 {
			return c.unknown(RunOn(s.Runs[0], device), "%s", noRun(device, other))
		}
		reason := ""
		for _, run := range runs {
			fig, _ := step.of(run)
			if fig.Known() && *fig.Value > 0 {
				logs[i], a.Runs = append(logs[i], math.Log(*fig.Value)), append(a.Runs, run.ID)
				if e := stepError(run, fig); len(runs) == 1 {
					within += e * e
				}
			} else {
				reason = fig.Missing
				if run.Figure("step.time").Disturbed != "" {
					disturbed++
				}
			}
		}
		if len(logs[i]) == 0 {
			return c.unknown(RunOn(s.Runs[0], device), "step.time on %s: %s", device, reason)
		}
	}
	for _, x := range logs[0] {
		for _, y := range logs[1] {
			a.Each = append(a.Each, 1-math.Exp(x-y))
		}
	}
	a.Left = leftOut(disturbed)
	d := comparePairs(logs[1], logs[0], math.Sqrt(within))
	v, low, high := 1-math.Exp(d.Value), 1-math.Exp(d.High), 1-math.Exp(d.Low)
	a.Figure = evidence.Known(c.Figure, v, "ratio", evidence.Derived)
	a.Figure.Low, a.Figure.High = &low, &high
	if len(a.Runs) > 2 {
		a.Figure.N = len(a.Runs)
	}
	a.Figure.Note = fmt.Sprintf("1 − step.time(%s) / step.time(%s): %s against %s", c.Args[0], c.Args[1],
		unit.Seconds(math.Exp(stats.Median(logs[0]))), unit.Seconds(math.Exp(stats.Median(logs[1]))))
	return a
}

// What is expected of a step's median from one run to the next, where the runs given are too few to tell: the standard
// deviation of its logarithm, and as how many degrees of freedom that counts. It is the laptop of the table in
// docs/gates.md; the same page has how often the interval is wrong where machines are quieter or less quiet than that.
const (
	expectedSpread = 0.025
	expectedWeight = 10
	ownFreedom     = 4 // degrees of freedom from which on runs speak for themselves: three on each side
)

// comparePairs is the interval of the difference of two samples of log step times. With enough degrees of freedom of
// their own the runs speak for themselves, as in a baseline; with fewer, what is expected of runs speaks with them.
func comparePairs(first, second []float64, within float64) stats.Difference {
	if d, ok := stats.Compare(first, second, level); ok && d.Freedom >= ownFreedom {
		return d
	}
	return stats.CompareFew(first, second, expectedSpread, expectedWeight, within, level)
}

// stepBlocks is in how many stretches the steps of a run are cut, to see how far its median is certain.
const stepBlocks = 10

// stepError is the standard error of the logarithm of a run's median step, from its own steps; 0 where they do not
// tell, since what runs differ by is larger.
func stepError(run *evidence.Run, fig evidence.Figure) float64 {
	var logs []float64
	for _, w := range run.Windows {
		if w.Name != fig.Window {
			continue
		}
		for i, number := range run.Steps.Number {
			if number >= w.First && number <= w.Last && i < len(run.Steps.Total) && i < len(run.Steps.Kind) &&
				run.Steps.Kind[i] == w.Kind && run.Steps.Total[i] > 0 {
				logs = append(logs, math.Log(run.Steps.Total[i]))
			}
		}
	}
	if e := stats.BlockError(logs, stepBlocks); !math.IsNaN(e) {
		return e
	}
	return 0
}

// morePairs says how many more runs on each side would tell a speedup from its limit.
func (s *Set) morePairs(c *Condition, v float64) string {
	a, _ := s.On(c.Args[0])
	b, _ := s.On(c.Args[1])
	distance := math.Abs(math.Log1p(-v) - math.Log1p(-min(c.Bound, 1-1e-9)))
	var logs [2][]float64
	for i, runs := range [][]*evidence.Run{a, b} {
		for _, run := range runs {
			if fig := run.Figure("step.time"); fig.Known() && fig.Disturbed == "" && *fig.Value > 0 {
				logs[i] = append(logs[i], math.Log(*fig.Value))
			}
		}
	}
	sd := expectedSpread
	if own := stats.Spread(logs[0], logs[1]); own > sd {
		sd = own
	}
	for k := 1; k <= mostRuns; k++ {
		if stats.HalfWidth(len(logs[0])+k, len(logs[1])+k, sd, level) < distance {
			return fmt.Sprintf("about %s on each side would tell: %s; %s", count(k, "more run"),
				RunOn(s.Runs[0], c.Args[0]), RunOn(s.Runs[0], c.Args[1]))
		}
	}
	return "it lies too close to the limit for a number of runs that anybody would make"
}

// parity of two loss streams.
func parity(s *Set, c *Condition) Answer {
	devices := []string{"", "cuda"}
	if len(c.Args) == 2 {
		devices = c.Args
	}
	var pair [2]*evidence.Run
	for i, device := range devices {
		runs, other := s.On(device)
		if len(runs) == 0 {
			return c.unknown(RunOn(s.Runs[0], device), "%s", noRun(device, other))
		}
		pair[i] = runs[0]
	}
	if len(c.Args) == 0 {
		if fig := pair[0].Figure("parity.loss"); fig.Known() {
			return Answer{Figure: fig, Runs: []string{pair[0].ID}}
		}
	}
	d, why, do := trajectory.DriftOf(pair[1], pair[0])
	if why != "" { // there A is what the other is held against
		return c.unknown(do, "%s (A: %s, B: %s)", why, pair[1].ID, pair[0].ID)
	}
	if d.LostA+d.LostB > 0 {
		return Answer{Figure: evidence.Figure{Name: c.Figure, Value: ptr(math.MaxFloat64), Unit: "ratio", N: d.Steps,
			Basis: evidence.Derived,
			Note:  fmt.Sprintf("at step %d the loss of one run is not finite", d.FirstNaN.Step)},
			Runs: []string{pair[0].ID, pair[1].ID}}
	}
	fig := evidence.Known(c.Figure, d.LargestRelative(), "ratio", evidence.Derived)
	fig.N, fig.Note = d.Steps, fmt.Sprintf("greatest at step %d, of %d steps that both runs list", d.Largest.Step,
		d.Steps)
	return Answer{Figure: fig, Runs: []string{pair[0].ID, pair[1].ID}}
}

func ptr(v float64) *float64 { return &v }

func noRun(device, other string) string {
	if device == "" {
		device = "the device"
	}
	text := "no run on " + device + " was given"
	if device == "double" {
		text = "no rehearsal was given"
	}
	if other != "" {
		text += " that fits; " + other
	}
	return text
}

// again is the command that would make another run like this one.
func again(run *evidence.Run) string { return RunOn(run, Device(run)) }

// RunOn is the command that would run the subject on a device; in words where another framework would have to compute.
func RunOn(run *evidence.Run, device string) string {
	var b strings.Builder
	b.WriteString("assay run")
	framework, _ := run.Target.Computes()
	switch {
	case (device == "mps" || device == "double") && (framework == "jax" || framework == "tensorflow"):
		return "the same training in PyTorch, under assay run --on " + device // MPS is PyTorch's
	case strings.Contains(device, "-"): // jax-mps, mlx-cpu: the script and its environment choose it
	case device == "mlx":
		return "the same training in MLX on a Mac's GPU, under assay run"
	case device != "":
		b.WriteString(" --on " + device)
	}
	if d := run.Target.Double; d != nil && device == "double" {
		b.WriteString(" --torch " + d.Release)
	}
	b.WriteString(" --")
	command := run.Subject.Command
	if len(command) > 0 && run.Subject.Script != "" && !strings.HasSuffix(command[0], ".py") &&
		!strings.HasSuffix(command[0], ".ipynb") && len(evidence.Words(run)) < len(command) {
		python := []string{"python"}
		if run.Subject.Kind == "module" {
			python = append(python, "-m")
		}
		command = append(python, command[len(command)-len(evidence.Words(run)):]...)
	}
	for i, word := range command {
		if i == 12 {
			b.WriteString(" …")
			break
		}
		if i > 0 && (command[i-1] == "--device" || command[i-1] == "-d") || strings.HasPrefix(word, "--device=") {
			// the script's own option
			name, value, joined := strings.Cut(word, "=")
			to := strings.Replace(device, "double", "mps", 1)
			switch {
			case device == "":
			case joined && slices.Contains(devices, value):
				word = name + "=" + to
			case slices.Contains(devices, word):
				word = to
			}
		}
		b.WriteString(" " + quote(clean.Lines(word)))
	}
	return b.String()
}

func quote(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\n\"'$&|;<>()*?[]#~`\\!{}") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
