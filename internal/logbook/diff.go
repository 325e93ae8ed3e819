package logbook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/stats"
)

// Diff is what changed from one run, or group of runs, to another.
type Diff struct {
	A, B        []string // identifiers
	Environment []Changed
	Figures     []FigureChange
	Operators   []OperatorChange
	Remarks     []string
}

// Changed is one thing that is not the same: "" means not there, or not known.
type Changed struct{ Part, Name, A, B string }

// FigureChange compares one figure.
type FigureChange struct {
	Name, Unit     string
	A, B           float64 // of groups the medians
	AKnown, BKnown bool
	AWhy, BWhy     string // why one is not known
	Basis          string
	Change         float64 // ratio; NaN where A is 0
	// that such a difference is noise, adjusted for the number of figures compared; NaN: cannot be told
	P      float64
	N      [2]int
	Noise  bool   // may be noise
	Ground string // how P is known, or why it is not

	// 95 % interval of Change, for this figure alone; absent where no spread is known, or Change is no ratio
	Low  *float64 `json:",omitempty"`
	High *float64 `json:",omitempty"`
}

// interval keeps the interval of a difference of logarithms as one of the ratio.
func (c *FigureChange) interval(low, high float64) {
	low, high = math.Expm1(low), math.Expm1(high)
	if !math.IsNaN(low) && !math.IsInf(low, 0) && !math.IsNaN(high) && !math.IsInf(high, 0) {
		c.Low, c.High = &low, &high
	}
}

// OperatorChange is an operator that came, went, or changed.
type OperatorChange struct{ Name, What string }

// compared is how sure a difference has to be.
const compared = 1 - stats.Level

// Group is one side of a comparison: runs, and of runs like them what the figures were.
type Group struct {
	IDs  []string
	Runs []*evidence.Run
	// by figure: of the runs in the logbook that are alike (evidence.Unlike) and of the same source, the group's first
	// among them
	Like map[string][]float64
}

// Group reads the runs, and finds the others in the logbook that are like the first.
func (b *Book) Group(ctx context.Context, ids ...string) (*Group, error) {
	g := &Group{Like: map[string][]float64{}}
	for _, id := range ids {
		run, err := b.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		g.IDs, g.Runs = append(g.IDs, id), append(g.Runs, run)
	}
	// Of the same source: what a change of it did is the question, and not noise. A run that failed says nothing about
	// how long one takes, nor does one that something else on the machine slowed down.
	var like []string
	err := each(ctx, b.db,
		`SELECT r.id FROM record a JOIN record r ON r.kind = a.kind AND r.title IS a.title AND r.commit_id IS a.commit_id AND r.dirty IS a.dirty
		AND r.python IS a.python AND r.resolution IS a.resolution AND r.exit = 0 WHERE a.id = ?1
		ORDER BY r.device IS a.device AND r.torch IS a.torch AND r.system IS a.system AND r.chip IS a.chip DESC,
			r.at DESC, r.id LIMIT ?2`,
		func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			like = append(like, id)
			return err
		}, ids[0], evidence.MostAlike)
	if err != nil {
		return nil, err
	}
	for _, id := range like {
		run, err := b.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		if evidence.Unlike(g.Runs[0], run) != "" {
			continue
		}
		for _, f := range run.Figures {
			if f.Known() && f.Disturbed == "" {
				g.Like[f.Name] = append(g.Like[f.Name], *f.Value)
			}
		}
	}
	return g, nil
}

// Compare says what changed from a to b.
func Compare(a, b *Group) *Diff {
	d := &Diff{A: a.IDs, B: b.IDs}
	x, y := a.Runs[0], b.Runs[0]
	d.Environment = Environment(x, y)
	d.Figures = figureChanges(a, b)
	d.Operators = operatorChanges(x, y)
	if work := func(r *evidence.Run) string { return strings.Join(r.Subject.Command, " ") }; work(x) != work(y) {
		d.Remarks = append(d.Remarks, "the commands differ: the figures may be those of different work")
	}
	if (x.Rehearsal == nil) != (y.Rehearsal == nil) {
		d.Remarks = append(d.Remarks,
			"one is a rehearsal: its times are those of this machine's CPU and say nothing about the Mac")
	}
	if !x.Outcome.Complete || !y.Outcome.Complete {
		d.Remarks = append(d.Remarks, "the evidence of one is not complete: "+cmp.Or(x.Outcome.Reason,
			y.Outcome.Reason))
	}
	for _, run := range slices.Concat(a.Runs, b.Runs) {
		if by := run.Figure("step.time").Disturbed; by != "" {
			d.Remarks = append(d.Remarks,
				fmt.Sprintf("the times of %s were disturbed (%s): what changed may be the machine's", run.ID, by))
		}
	}
	return d
}

// Environment says what is not the same from one run to another, its figures and operators apart.
func Environment(a, b *evidence.Run) []Changed {
	var all []Changed
	add := func(part, name, x, y string) {
		if x != y {
			all = append(all, Changed{part, name, x, y})
		}
	}
	tables := func(part string, x, y map[string]string) {
		names := map[string]bool{}
		for n := range x {
			names[n] = true
		}
		for n := range y {
			names[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(names)) {
			add(part, n, x[n], y[n])
		}
	}
	add("subject", "command", strings.Join(a.Subject.Command, " "), strings.Join(b.Subject.Command, " "))
	add("subject", "commit", a.Provenance.Commit, b.Provenance.Commit)
	add("subject", "working copy", a.Provenance.Dirty, b.Provenance.Dirty)
	add("target", "asked", a.Target.Asked, b.Target.Asked)
	add("target", "device", strings.TrimSpace(a.Target.Device+" "+a.Target.Name),
		strings.TrimSpace(b.Target.Device+" "+b.Target.Name))
	if name := a.Target.Framework; name != "" && name == b.Target.Framework {
		add("target", name, a.Target.Release, b.Target.Release)
	} else {
		add("target", "framework", strings.TrimSpace(name+" "+a.Target.Release),
			strings.TrimSpace(b.Target.Framework+" "+b.Target.Release))
	}
	add("target", "python", a.Target.Python, b.Target.Python)
	add("target", "system", a.Target.System, b.Target.System)
	tables("double", double(a), double(b))
	tables("host", hostFacts(a), hostFacts(b))
	tables("environment", a.Provenance.Environment, b.Provenance.Environment)
	tables("package", packages(a), packages(b))
	tables("data", datasets(a), datasets(b))
	tables("randomness", randomness(a), randomness(b))
	tables("learning rate", learningRates(a), learningRates(b))
	tables("lever", levers(a), levers(b))
	return all
}

// randomness has what was set; a setting that was not looked at is not known.
func randomness(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for _, s := range run.Provenance.Randomness {
		switch {
		case s.State == evidence.StateUnknown:
		case s.State == evidence.NotSet || s.Value == "":
			m[s.Name] = string(s.State)
		default:
			m[s.Name] = s.Value
		}
	}
	return m
}

// learningRates are those that training began with.
func learningRates(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for _, s := range run.Logged {
		if s.Door == evidence.DoorOptimizer && len(s.Value) > 0 && s.Value[0] != nil {
			if m[s.Name] = fmt.Sprintf("%g", *s.Value[0]); s.Points > 1 {
				m[s.Name] += fmt.Sprintf(" at first, %d values", s.Points)
			}
		}
	}
	return m
}

func levers(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for _, l := range run.Levers {
		m[l.Lever] = strings.TrimSpace(fmt.Sprintf("%s%d → %d %s", map[bool]string{false: "not done: "}[l.Done],
			l.From, l.To,
			l.Why))
	}
	return m
}

func double(run *evidence.Run) map[string]string {
	d := run.Target.Double
	if d == nil {
		return nil
	}
	return map[string]string{"release": d.Release, "macOS": d.MacOS, "chip": d.Chip, "memory": fmt.Sprint(d.Memory),
		"GPU cores":   fmt.Sprint(d.Cores),
		"shapes only": fmt.Sprint(d.ShapeOnly)}
}

func hostFacts(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for _, f := range run.Host.Facts {
		m[f.Name] = f.Value
	}
	return m
}

func packages(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for _, line := range run.Provenance.Packages {
		name, version, _ := strings.Cut(line, "==")
		m[name] = version
	}
	return m
}

func datasets(run *evidence.Run) map[string]string {
	m := map[string]string{}
	for i, s := range run.Provenance.Datasets {
		at := fmt.Sprintf("%d ", i)
		m[at+"type"], m[at+"fingerprint"], m[at+"batch"], m[at+"workers"] = s.Type, s.Fingerprint, fmt.Sprint(s.Batch),
			fmt.Sprint(s.Workers)
	}
	return m
}

func figureChanges(a, b *Group) []FigureChange {
	var names []string
	seen := map[string]evidence.Figure{}
	for _, run := range slices.Concat(a.Runs, b.Runs) {
		for _, f := range run.Figures {
			if old, ok := seen[f.Key()]; !ok || !old.Known() && f.Known() {
				if !ok {
					names = append(names, f.Key())
				}
				seen[f.Key()] = f
			}
		}
	}
	var all []FigureChange
	for _, name := range names {
		f := seen[name]
		if !f.Known() {
			continue // known on neither side
		}
		c := FigureChange{Name: name, Unit: f.Unit, P: math.NaN(), Change: math.NaN()}
		x, bx, wx := values(a.Runs, name)
		y, by, wy := values(b.Runs, name)
		c.N = [2]int{len(x), len(y)}
		c.AKnown, c.BKnown, c.AWhy, c.BWhy = len(x) > 0, len(y) > 0, wx, wy
		c.Basis = bx
		if by != "" && bx != "" && by != bx {
			c.Basis = bx + ", " + by
		} else if bx == "" {
			c.Basis = by
		}
		if len(x) > 0 {
			c.A = stats.Median(x)
		}
		if len(y) > 0 {
			c.B = stats.Median(y)
		}
		if c.AKnown && c.BKnown {
			if c.A != 0 {
				c.Change = c.B/c.A - 1
			}
			c.judge(a, b, x, y)
		}
		all = append(all, c)
	}
	adjust(all)
	for i := range all {
		c := &all[i]
		c.Noise = c.AKnown && c.BKnown && c.A != c.B && c.Ground != exact &&
			(math.IsNaN(c.P) || c.P >= compared || c.Ground == within)
	}
	return all
}

func values(runs []*evidence.Run, name string) (xs []float64, basis, why string) {
	for _, run := range runs {
		if f := run.Figure(name); f.Known() {
			xs, basis = append(xs, *f.Value), string(f.Basis)
		} else {
			why = f.Missing
		}
	}
	return xs, basis, why
}

// exactly reports whether the figure is counted, so that the same work gives the same number.
func exactly(name string) bool {
	row, _ := catalogue.Find(name)
	return row.Exact
}

// Grounds of a comparison.
const (
	exact   = "a count: nothing in it is by chance"
	within  = "within the two runs; how much one run differs from the next is not known: one run a side"
	noSigns = "one value a side: no spread is known"
)

// judge finds the probability that the difference is noise. Runs differ more from one to the next than steps of one run
// do, so that runs are what is counted where there are enough of them.
func (c *FigureChange) judge(a, b *Group, x, y []float64) {
	switch {
	case exactly(c.Name):
		c.Ground = exact
		return
	case c.A == c.B && len(x) == 1 && len(y) == 1:
		return
	}
	scale, ratio := identity, slices.Min(x) > 0 && slices.Min(y) > 0
	if ratio {
		scale = math.Log // ratios are what times and sizes differ by
	}
	if len(x) > 1 && len(y) > 1 {
		if d, ok := stats.Compare(each1(x, scale), each1(y, scale), 1-compared); ok {
			c.P, c.Ground = pValue(d.Value, d.Error, float64(d.Freedom)),
				fmt.Sprintf("%d against %d runs", len(x), len(y))
			if ratio {
				c.interval(d.Low, d.High)
			}
			return
		}
	}
	// The spread of all runs that were made in one of the two ways, those in question among them.
	lx, ly := a.Like[c.Name], b.Like[c.Name]
	if len(x) > len(lx) {
		lx = x
	}
	if len(y) > len(ly) {
		ly = y
	}
	if slices.Equal(lx, ly) {
		ly = nil // the same way: not to be counted twice
	}
	if sd, freedom := spread(each1(lx, scale), each1(ly, scale)); freedom >= 2 &&
		!slices.ContainsFunc(slices.Concat(lx, ly),
			func(v float64) bool { return v <= 0 }) {
		d := stats.Summarize(each1(y, scale)).Mean - stats.Summarize(each1(x, scale)).Mean
		se := sd * math.Sqrt(1/float64(len(x))+1/float64(len(y)))
		c.P = pValue(d, se, float64(freedom))
		if half := stats.StudentQuantile((1+stats.Level)/2, float64(freedom)) * se; ratio {
			c.interval(d-half, d+half)
		}
		c.Ground = fmt.Sprintf("by the spread of %d runs like them", len(lx)+len(ly))
		return
	}
	bx, by := blocks(a.Runs[0], c.Name), blocks(b.Runs[0], c.Name)
	if d, ok := stats.Compare(each1(bx, math.Log), each1(by, math.Log), 1-compared); ok && len(bx) >= 4 &&
		len(by) >= 4 {
		c.P, c.Ground = pValue(d.Value, d.Error, float64(d.Freedom)), within
		c.interval(d.Low, d.High)
		return
	}
	c.Ground = noSigns
}

func identity(v float64) float64 { return v }

func each1(xs []float64, f func(float64) float64) []float64 {
	out := make([]float64, 0, len(xs))
	for _, x := range xs {
		out = append(out, f(x))
	}
	return out
}

// pValue is two-sided. Without any spread a difference is no noise.
func pValue(difference, se, freedom float64) float64 {
	switch {
	case difference == 0:
		return 1
	case se == 0:
		return 0
	}
	return 2 * (1 - stats.Student(math.Abs(difference)/se, freedom))
}

// spread is the standard deviation of single values, pooled over samples.
func spread(samples ...[]float64) (sd float64, freedom int) {
	var squares float64
	for _, xs := range samples {
		if len(xs) < 2 {
			continue
		}
		mean := stats.Summarize(xs).Mean
		for _, x := range xs {
			squares += (x - mean) * (x - mean)
		}
		freedom += len(xs) - 1
	}
	if freedom == 0 {
		return math.NaN(), 0
	}
	return math.Sqrt(squares / float64(freedom)), freedom
}

// blocks are medians of up to twenty stretches of the steady steps, at least four steps each: neighbouring steps are
// alike, stretches less so.
func blocks(run *evidence.Run, name string) []float64 {
	var column []float64
	if phase, ok := strings.CutPrefix(name, "split."); ok {
		p, _ := run.Steps.Phase(phase)
		column = p.Seconds
	} else if name == "step.time" {
		column = run.Steps.Total
	}
	first, last, kind := 0, math.MaxInt, ""
	for _, w := range run.Windows {
		if w.Name == "steady" {
			first, last, kind = w.First, w.Last, w.Kind
		}
	}
	if name != "step.time" {
		kind = ""
		if run.Figure(name).Window == "synchronised" {
			kind = "sync" // only there can phases be trusted
		}
	}
	var xs []float64
	for i, v := range column {
		if i < len(run.Steps.Number) && i < len(run.Steps.Kind) && run.Steps.Kind[i] == kind &&
			run.Steps.Number[i] >= first &&
			run.Steps.Number[i] <= last && v > 0 {
			xs = append(xs, v)
		}
	}
	n := min(20, len(xs)/4)
	var out []float64
	for i := range n {
		sum := stats.Summarize(xs[i*len(xs)/n : (i+1)*len(xs)/n])
		if name == "step.time" && run.Target.Asynchronous() { // one step's length is that of its launching
			out = append(out, sum.Mean)
		} else {
			out = append(out, sum.Median)
		}
	}
	return out
}

// adjust accounts for the number of figures: of thirty, one or two would otherwise differ by chance alone. Of the
// differences that are then called real, one in twenty is not (Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995;
// it holds for figures that move together, too).
func adjust(all []FigureChange) {
	var with []*FigureChange
	for i := range all {
		if !math.IsNaN(all[i].P) {
			with = append(with, &all[i])
		}
	}
	sort.SliceStable(with, func(i, j int) bool { return with[i].P < with[j].P })
	least := 1.0
	for i, c := range slices.Backward(with) {
		least = min(least, c.P*float64(len(with))/float64(i+1))
		c.P = least
	}
}

// operatorChanges tells which operators came and went, and which were called another number of times a step, or changed
// their state.
func operatorChanges(a, b *evidence.Run) []OperatorChange {
	type seen struct {
		calls float64
		state string
	}
	read := func(run *evidence.Run) (map[string]seen, string) {
		m := map[string]seen{}
		if run.Rehearsal != nil {
			for _, o := range run.Rehearsal.Operators {
				m[o.Operator] = seen{float64(o.Calls), o.State}
			}
			return m, "calls"
		}
		for _, o := range run.Operators {
			m[o.Name] = seen{float64(o.Calls) / float64(max(1, run.Profile.Steps)), ""}
		}
		for _, f := range run.Fallbacks {
			s := m[f.Operator]
			s.state = "on the CPU"
			m[f.Operator] = s
		}
		return m, "calls a step"
	}
	x, unit := read(a)
	y, other := read(b)
	if unit != other || len(x) == 0 || len(y) == 0 {
		return nil // a profile and a rehearsal, or one side without either
	}
	names := maps.Keys(x)
	all := slices.Collect(names)
	for n := range y {
		if _, ok := x[n]; !ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	var out []OperatorChange
	for _, n := range all {
		p, was := x[n]
		q, is := y[n]
		switch {
		case !was:
			out = append(out, OperatorChange{n, strings.TrimSpace(fmt.Sprintf("appeared: %.3g %s %s", q.calls, unit,
				q.state))})
		case !is:
			out = append(out, OperatorChange{n, fmt.Sprintf("vanished: %.3g %s before", p.calls, unit)})
		case p.state != q.state:
			out = append(out, OperatorChange{n, fmt.Sprintf("%s, was %s", cmp.Or(q.state, "no fallback"),
				cmp.Or(p.state, "no fallback"))})
		case math.Abs(p.calls-q.calls) > 0.02*max(p.calls, q.calls):
			out = append(out, OperatorChange{n, fmt.Sprintf("%.3g %s, were %.3g", q.calls, unit, p.calls)})
		}
	}
	return out
}
