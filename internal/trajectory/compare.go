package trajectory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/unit"
)

// Kind is the kind of document that a Result is.
const Kind = "trajectory"

// Answers of a comparison.
const (
	Within     = "within"
	Beyond     = "beyond"
	CannotTell = "cannot tell"
)

// Asked is what is compared, and how.
type Asked struct {
	A, B *evidence.Run
	// Metrics are the series that decide, Loss or names that the script logged; none: the loss
	Metrics []string
	Within  Tolerance
	// Smooth judges the mean over so many steps in place of each step; 0: each step
	Smooth int
	Allow  []string // bars that are what is to be judged

	With []*evidence.Run // named by the user: repeats, or runs with one of the changes alone
	Past []*evidence.Run // whatever earlier runs are at hand: repeats of A are looked for among them

	// Changed says what is not the same from one run to another, as assay log diff does
	Changed func(from, to *evidence.Run) []Change
	// Known cites what is known about wrong numbers where the run was; nil: nothing is
	Known func(run *evidence.Run) []Cite
}

// Result is what two runs beside one another come to.
type Result struct {
	evidence.Envelope
	Body Body `json:"body"`

	curves []Curve
}

// Body is what a comparison has beyond the envelope.
type Body struct {
	A         Side       `json:"a"`
	B         Side       `json:"b"`
	Within    Tolerance  `json:"within"`
	Smooth    int        `json:"smooth,omitempty"` // steps over which what is judged was smoothed
	Answer    string     `json:"answer"`           // within, beyond, cannot tell
	Why       string     `json:"why"`
	Rehearsed bool       `json:"rehearsed"` // one of the two is a rehearsal
	Bars      []Bar      `json:"allowed"`   // what would have stood against it, and was allowed
	Series    []Compared `json:"series"`
	Repeats   Repeats    `json:"repeats"`
	Changes   []Row      `json:"changes"` // those that can explain first
	Isolated  []Isolated `json:"isolated"`
	Policies  []Policy   `json:"types"`
	Unknown   []string   `json:"unknown"` // what would have to be known of both, and is not
	Left      []string   `json:"left"`    // what of the difference is not explained
	Next      []string   `json:"next"`
}

// Side is one of the two runs.
type Side struct {
	ID       string `json:"id"`
	Document string `json:"sha256"` // of its evidence
	Command  string `json:"command"`
	Place    string `json:"place"`
	Began    string `json:"began"`
	Commit   string `json:"commit"`
}

// Compared is one series of both.
type Compared struct {
	Name   string `json:"name"`
	Door   string `json:"door,omitempty"`
	By     string `json:"by"` // what counts its steps
	Judged bool   `json:"judged"`
	Answer string `json:"answer,omitempty"` // of a series that is judged
	Why    string `json:"why,omitempty"`
	Departure
	// Repeats is how far repeats of A depart from it in this series, the largest ratio; nil: not known
	Repeats  *float64   `json:"repeats,omitempty"`
	Window   int        `json:"window"` // steps
	Smoothed *Departure `json:"smoothed,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

// Repeats are other runs of A's command, where A was: how far they depart from A is what nothing but chance does.
type Repeats struct {
	Runs    []string  `json:"runs"`
	Largest []float64 `json:"largest"`          // of each, by the series that decides: its largest ratio
	Most    *float64  `json:"most,omitempty"`   // of all; nil: there are no repeats
	Equal   bool      `json:"bitwise"`          // all are bitwise equal to A
	Why     string    `json:"why,omitempty"`    // why nothing is known
	Chance  *float64  `json:"chance,omitempty"` // 1 in n + 1
}

// Isolated is a run that was named beside the two.
type Isolated struct {
	ID      string   `json:"id"`
	What    string   `json:"what"`    // what it tells
	Changes []string `json:"changes"` // that it differs in from A and that can matter
	FromA   *float64 `json:"from_a,omitempty"`
	ToB     *float64 `json:"to_b,omitempty"` // largest ratio between it and B
}

// Status is the exit status of the answer.
func (r *Result) Status() int {
	switch r.Body.Answer {
	case Within:
		return fault.OK
	case Beyond:
		return fault.GateFailed
	}
	return fault.CannotTell
}

// Compare holds run B against run A. The error says why they cannot be compared, and what to do.
func Compare(q Asked) (*Result, error) {
	bars := Bars(q.A, q.B)
	if err := refuse(bars, q.Allow); err != nil {
		return nil, err
	}
	r := &Result{Envelope: evidence.NewEnvelope(Kind)}
	r.About(q.A)
	r.ID = Kind + "-" + q.A.ID + "-" + q.B.ID
	b := &r.Body
	b.A, b.B, b.Within, b.Smooth = sideOf(q.A), sideOf(q.B), q.Within, q.Smooth
	b.Bars, b.Isolated, b.Next = bars, []Isolated{}, []string{}
	if b.Bars == nil {
		b.Bars = []Bar{}
	}
	b.Rehearsed = q.A.Rehearsal != nil || q.B.Rehearsal != nil
	metrics := q.Metrics
	if len(metrics) == 0 {
		metrics = []string{Loss}
	}
	for _, name := range metrics {
		for _, s := range sides(q.A, q.B) {
			if _, has := named(s.run, name); !has {
				return nil, noSeries(s, name)
			}
		}
	}
	again := r.repeats(q, metrics[0])
	if q.Within.Repeats && b.Repeats.Most != nil {
		b.Within.Relative = *b.Repeats.Most
	}
	for _, name := range metrics {
		within, noise := b.Within, noiseOf(q.A, again, name)
		if q.Within.Repeats && noise != nil {
			within.Relative = *noise
		}
		c := r.series(q, name, within, true)
		c.Repeats = noise
		r.judge(&c)
		b.Series = append(b.Series, c)
	}
	for _, name := range append([]string{Loss}, MetricNames(q.A)...) {
		_, both := named(q.B, name)
		_, has := named(q.A, name)
		if has && both && !slices.Contains(metrics, name) {
			b.Series = append(b.Series, r.series(q, name, b.Within, false))
		}
	}
	r.changes(q)
	r.isolate(q, metrics[0])
	r.only(q)
	r.answer()
	b.Policies, b.Unknown = policies(q.A, q.B), unknowns(q.A, q.B)
	r.left(q)
	return r, nil
}

// refuse gives the error of the bars that nobody allowed, and marks the others.
func refuse(bars []Bar, allow []string) error {
	var whys, names, dos []string
	never := false
	for i := range bars {
		bar := &bars[i]
		if bar.Allowed = !bar.never && slices.Contains(allow, bar.Name); bar.Allowed {
			continue
		}
		whys = append(whys, bar.Why)
		if never = never || bar.never; !slices.Contains(names, bar.Name) {
			names = append(names, bar.Name)
		}
		if !slices.Contains(dos, bar.Do) {
			dos = append(dos, bar.Do)
		}
	}
	if len(whys) == 0 {
		return nil
	}
	hint := strings.Join(dos, "; ")
	if !never {
		hint += "; or, where that is what is to be judged: --allow " + strings.Join(names, ",")
	}
	return fault.Hint(errors.New("their losses cannot be compared: "+strings.Join(whys, "; ")), hint)
}

func noSeries(s side, name string) error {
	have := MetricNames(s.run)
	if len(s.run.Loss.Step) > 0 {
		have = append([]string{Loss}, have...)
	}
	if len(have) > 12 {
		have = append(have[:12], "…")
	}
	return fault.Hint(fmt.Errorf("%s has no series %q", s.name, name), "it has: "+orNone(strings.Join(have, ", ")))
}

func sideOf(run *evidence.Run) Side {
	chip, system, _ := evidence.Place(run)
	device := evidence.Device(run)
	if name := run.Target.Name; name != "" {
		device += " " + name
	}
	place := []string{orUnknown(device), orUnknown(run.Target.With())}
	for _, p := range []string{chip, system} {
		if p != "" {
			place = append(place, p)
		}
	}
	s := Side{ID: run.ID, Document: run.Document, Command: command(run), Place: strings.Join(place, ", "),
		Commit: run.Provenance.Commit}
	if !run.Started.IsZero() {
		s.Began = run.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if d := run.Provenance.Dirty; d != "" && d != "clean" {
		s.Commit = join(s.Commit, d)
	}
	return s
}

// both gives the series of that name of two runs, made comparable where their updates take other numbers of batches.
func both(a, b *evidence.Run, name string) (x, y Series, note string) {
	x, _ = named(a, name)
	y, _ = named(b, name)
	if name == Loss && perUpdate(a) != perUpdate(b) {
		note = fmt.Sprintf("an update takes %g batches in A, %g in B: compared is the mean loss of an update",
			perUpdate(a),
			perUpdate(b))
		x, y = x.averaged(), y.averaged()
	}
	return x, y, note
}

func (r *Result) series(q Asked, name string, within Tolerance, judged bool) Compared {
	x, y, note := both(q.A, q.B, name)
	c := Compared{Name: name, Door: x.Door, By: x.By, Judged: judged}
	if note != "" {
		c.Notes = append(c.Notes, note)
	}
	if x.By != y.By {
		x, y = byWork(q.A, name), byWork(q.B, name)
		c.By = "step"
		c.Notes = append(c.Notes, "one gave steps of its own and the other none: paired by the training step")
	}
	pairs, onlyA, onlyB := align(x, y)
	c.Departure = departed(pairs, onlyA, onlyB, within)
	c.Window = q.Smooth
	if c.Window == 0 {
		c.Window = usualWindow(len(pairs))
	}
	if even := smoothed(pairs, c.Window); len(even) > 1 {
		d := departed(even, 0, 0, within)
		c.Smoothed = &d
	}
	for i, s := range []Series{x, y} {
		if s.Note != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("%c: %s", 'A'+i, s.Note))
		}
	}
	if onlyA+onlyB > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("compared over the %d steps that both have; %d are A's alone, %d B's",
			len(pairs),
			onlyA, onlyB))
	}
	drawn := Curve{Name: name, By: c.By}
	for _, p := range pairs {
		drawn.Step = append(drawn.Step, float64(p.step))
		drawn.A, drawn.B = append(drawn.A, p.a), append(drawn.B, p.b)
	}
	r.curves = append(r.curves, drawn)
	return c
}

// byWork gives a logged series by the step last worked on.
func byWork(run *evidence.Run, name string) Series {
	without := *run
	without.Logged = slices.Clone(run.Logged)
	for i := range without.Logged {
		without.Logged[i].Own = nil
	}
	s, _ := named(&without, name)
	return s
}

// judge says how a series came out by itself.
func (r *Result) judge(c *Compared) {
	b := &r.Body
	d, what := c.Departure, "step"
	if b.Smooth > 0 {
		if c.Smoothed == nil {
			c.Answer, c.Why = CannotTell, fmt.Sprintf("fewer than two means over %d steps", b.Smooth)
			return
		}
		d, what = *c.Smoothed, fmt.Sprintf("mean over %d steps up to step", b.Smooth)
	}
	switch {
	case c.Steps == 0:
		c.Answer, c.Why = CannotTell, "no step is in both"
	case c.LostA+c.LostB > 0:
		c.Answer, c.Why = Beyond, fmt.Sprintf("at step %d the value is %s in A and %s in B", c.FirstNaN.Step,
			value(c.FirstNaN.A), value(c.FirstNaN.B))
	case b.Within.Repeats && c.Repeats == nil:
		c.Answer, c.Why = CannotTell, "what repeats of A do is not known: "+b.Repeats.Why
	case d.Beyond == 0 && b.Within.Bitwise && d.Equal+d.LostBoth < d.Steps:
		// +0 and −0 lie nowhere apart
		c.Answer, c.Why = Beyond, fmt.Sprintf("at %s %d the values are not the same to the last bit", what,
			d.FirstDiff.Step)
	case d.Beyond > 0 && c.Repeats != nil && b.Smooth == 0 && d.LargestRelative() <= *c.Repeats:
		c.Answer = CannotTell
		c.Why = fmt.Sprintf("beyond the tolerance first at step %d, by %s at most; but repeats of A depart from it by as much (%s): "+
			"the tolerance is below what chance does", d.First.Step, percent(d.LargestRelative()), percent(*c.Repeats))
	case d.Beyond > 0:
		c.Answer = Beyond
		c.Why = fmt.Sprintf("beyond the tolerance first at %s %d (%s in A, %s in B), at %d of %d; largest %s at step %d", what,
			d.First.Step, value(d.First.A), value(d.First.B), d.Beyond, d.Steps, percent(d.LargestRelative()),
			d.Largest.Step)
	case c.LostBoth > 0:
		c.Answer, c.Why = CannotTell,
			fmt.Sprintf("at %d steps, first %d, neither value is finite: NaN and infinities are kept "+
				"alike, so that they cannot be compared; the others are within the tolerance", c.LostBoth,
				c.FirstNaN.Step)
	case d.Equal == d.Steps:
		c.Answer, c.Why = Within, fmt.Sprintf("all %d values are the same to the last bit", d.Steps)
	default:
		c.Answer, c.Why = Within, fmt.Sprintf("all %d values are within the tolerance; largest %s at step %d", d.Steps,
			percent(d.LargestRelative()), d.Largest.Step)
	}
	if n := c.OnlyA + c.OnlyB; c.Steps > 0 && n > 0 {
		c.Why += fmt.Sprintf("; %d steps are in one of the two alone", n)
	}
}

func value(v *float64) string {
	if v == nil {
		return "not finite"
	}
	return number(*v)
}

func percent(v float64) string {
	if v > 1e4 {
		return fmt.Sprintf("%.3g times", v)
	}
	return unit.Format(v, "ratio")
}

// repeats finds other runs of A's command where A was, and how far they depart from A.
func (r *Result) repeats(q Asked, metric string) (again []*evidence.Run) {
	p := &r.Body.Repeats
	p.Runs, p.Largest, p.Equal = []string{}, []float64{}, true
	seen := map[string]bool{q.A.Document: true, q.B.Document: true}
	left := ""
	for _, run := range slices.Concat(q.With, q.Past) {
		if run.Document != "" && seen[run.Document] || len(p.Runs) == evidence.MostAlike {
			continue
		}
		seen[run.Document] = true
		if why := noRepeat(q, run); why != "" {
			if evidence.Title(run) == evidence.Title(q.A) {
				left = run.ID + " is none: " + why
			}
			continue
		}
		d, worst, ok := apart(q.A, run, metric)
		if !ok {
			continue
		}
		again = append(again, run)
		p.Runs, p.Largest = append(p.Runs, run.ID), append(p.Largest, worst)
		p.Equal = p.Equal && d.Equal == d.Steps
	}
	if len(p.Runs) == 0 {
		p.Equal = false
		p.Why = join("no other run of A's command, where A was, is at hand", left)
		return nil
	}
	most, chance := slices.Max(p.Largest), 1/float64(len(p.Runs)+1)
	p.Most, p.Chance = &most, &chance
	return again
}

// apart is how far a repeat departs from A; ok is false where no step is in both.
func apart(a, run *evidence.Run, metric string) (d Departure, worst float64, ok bool) {
	x, y, _ := both(a, run, metric)
	d = Depart(x, y, Tolerance{})
	worst = d.LargestRelative()
	if d.LostA+d.LostB > 0 {
		worst = math.MaxFloat64 // one of them has a value where the other's is not finite
	}
	return d, worst, d.Steps > 0
}

// noiseOf is how far repeats depart from A in a series; nil where none has it.
func noiseOf(a *evidence.Run, again []*evidence.Run, metric string) (most *float64) {
	for _, run := range again {
		if _, worst, ok := apart(a, run, metric); ok && (most == nil || worst > *most) {
			most = &worst
		}
	}
	return most
}

// noRepeat says why a run is no repeat of A; "": it is one.
func noRepeat(q Asked, run *evidence.Run) string {
	seeds := slices.Contains(q.Allow, "seed")
	for _, bar := range Bars(q.A, run) {
		switch {
		case bar.Name == "seed" && seeds: // where seeds are what is judged, another seed is a repeat
		default:
			return bar.Why
		}
	}
	there := *run
	if seeds { // what of the command is not the seed, Bars has looked at
		there.Subject = q.A.Subject
	}
	if why := evidence.Unlike(q.A, &there); why != "" {
		return why
	}
	x, y := q.A.Provenance, run.Provenance
	if x.Commit != y.Commit || x.Dirty != y.Dirty {
		return "it is of other code"
	}
	now := settings(run)
	for name, s := range settings(q.A) {
		if t := now[name]; !isSeed(name) && (s.State != t.State || s.Value != t.Value) {
			return fmt.Sprintf("%s is %s, and %s in A", name, setTo(t), setTo(s))
		}
	}
	return ""
}

// changes lists what is not the same.
func (r *Result) changes(q Asked) {
	b := &r.Body
	b.Changes = []Row{}
	for _, c := range q.Changed(q.A, q.B) {
		row := explain(q.A, q.B, c)
		if x, y := command(q.A), command(q.B); c.Part == "subject" && c.Name == "command" && x != y {
			row.From, row.To = x, y
		}
		row.Judged = slices.ContainsFunc(b.Bars, func(bar Bar) bool { return bar.Allowed && about(bar.Name, c) })
		if q.Known != nil && c.Part == "target" && row.Can == Can {
			for _, s := range sides(q.A, q.B) {
				for _, f := range q.Known(s.run) {
					f.Run = s.name
					row.Facts = append(row.Facts, f)
				}
			}
		}
		b.Changes = append(b.Changes, row)
	}
	rank := map[string]int{Can: 0, NotSure: 1, Cannot: 2}
	slices.SortStableFunc(b.Changes, func(x, y Row) int { return rank[x.Can] - rank[y.Can] })
}

// about reports whether a change is the one of a bar.
func about(bar string, c Change) bool {
	switch bar {
	case "script", "command":
		return c.Part == "subject" && c.Name == "command"
	case "data":
		return c.Part == "data" && !strings.HasSuffix(c.Name, "batch")
	case "batch":
		return c.Part == "data" && strings.HasSuffix(c.Name, "batch")
	case "seed":
		return c.Part == "randomness" && isSeed(c.Name)
	case "learning-rate":
		return c.Part == "learning rate"
	case "levers":
		return c.Part == "lever"
	}
	return false
}

// causes are the changes that can explain a difference. The command is how a change was asked for where another row
// says what it came to.
func causes(a, b *evidence.Run, changed []Change) (list []Row) {
	var command []Row
	for _, c := range changed {
		switch row := explain(a, b, c); {
		case row.Can != Can:
		case row.Part == "subject" && row.Name == "command":
			command = append(command, row)
		default:
			list = append(list, row)
		}
	}
	if len(list) == 0 {
		return command
	}
	return list
}

func (row Row) key() string { return row.Part + "\x00" + row.Name }

// isolate looks among the runs named for one that differs from A, or from B, in one of the changes alone.
func (r *Result) isolate(q Asked, metric string) {
	b := &r.Body
	all := causes(q.A, q.B, q.Changed(q.A, q.B))
	for _, run := range q.With {
		if run.Document != "" && (run.Document == q.A.Document || run.Document == q.B.Document) {
			continue
		}
		is := Isolated{ID: run.ID, Changes: []string{}}
		fromA := causes(q.A, run, q.Changed(q.A, run))
		for _, row := range fromA {
			is.Changes = append(is.Changes, strings.TrimSpace(row.Part+" "+row.Name))
		}
		x, y, _ := both(q.A, run, metric)
		near := Depart(x, y, b.Within)
		x, y, _ = both(run, q.B, metric)
		rest := Depart(x, y, b.Within)
		if near.Steps > 0 {
			is.FromA = known(near.LargestRelative())
		}
		if rest.Steps > 0 {
			is.ToB = known(rest.LargestRelative())
		}
		if slices.Contains(b.Repeats.Runs, run.ID) {
			is.What = "a repeat of A"
			b.Isolated = append(b.Isolated, is)
			continue
		}
		toB := causes(run, q.B, q.Changed(run, q.B))
		switch alone, without := oneOf(fromA, all), oneOf(toB, all); {
		case near.Steps == 0 || rest.Steps == 0:
			is.What = "tells nothing: it has no step of " + metric + " in common with both"
		case len(fromA) == 1 && alone != nil && fromA[0].To == alone.To:
			is.What = r.tell(alone, run, near, "with "+alone.Name+" changed alone the run")
		case len(toB) == 1 && without != nil && toB[0].From == without.From:
			// everything but this one changed: what is left to B is that one's
			is.What = r.tell(without, run, rest, "with everything but "+without.Name+" changed, B")
		default:
			is.What = fmt.Sprintf("isolates nothing: it differs from A in %d changes that can matter, from B in %d",
				len(fromA), len(toB))
		}
		b.Isolated = append(b.Isolated, is)
	}
}

// only marks a change that explains because it is the only one: repeats of A, which differ from it in nothing, depart
// by less than B does, and nothing else was recorded that may matter.
func (r *Result) only(q Asked) {
	b, decides := &r.Body, r.Body.Series[0]
	all := causes(q.A, q.B, q.Changed(q.A, q.B))
	unsure := slices.ContainsFunc(b.Changes, func(row Row) bool { return row.Can == NotSure })
	if len(all) != 1 || unsure || b.Repeats.Most == nil || decides.LostA+decides.LostB == 0 &&
		decides.LargestRelative() <= *b.Repeats.Most {
		return
	}
	for i := range b.Changes {
		if row := &b.Changes[i]; row.key() == all[0].key() && row.Does == Possible {
			row.Does, row.By = Explains,
				"its being the only change that was recorded, and repeats of A departing by less"
		}
	}
}

// oneOf finds the only row's counterpart among all; nil where there is none, or several rows.
func oneOf(rows, all []Row) *Row {
	if len(rows) != 1 {
		return nil
	}
	for i := range all {
		if all[i].key() == rows[0].key() {
			return &all[i]
		}
	}
	return nil
}

// tell marks the change by what the run that isolates it did.
func (r *Result) tell(cause *Row, run *evidence.Run, d Departure, what string) string {
	does, said := RuledOut, what+" stays within the tolerance"
	if d.Beyond > 0 || r.Body.Within.Bitwise && d.Equal < d.Steps {
		does, said = Explains, what+" departs by "+percent(d.LargestRelative())
	}
	for i := range r.Body.Changes {
		if row := &r.Body.Changes[i]; row.key() == cause.key() {
			row.Does, row.By = does, run.ID
		}
	}
	return said
}

// answer joins those of the series that decide: beyond before cannot tell before within.
func (r *Result) answer() {
	b := &r.Body
	for _, want := range []string{Beyond, CannotTell, Within} {
		for _, c := range b.Series {
			if c.Judged && c.Answer == want && b.Answer == "" {
				b.Answer, b.Why = want, c.Name+": "+c.Why
			}
		}
	}
	if b.Rehearsed && b.Answer == Within {
		b.Answer = CannotTell
		b.Why += "; but it is rehearsed: the double computes on this machine's CPU, and what a Mac's GPU would compute is not known"
	}
}

// unknowns lists what a reviewer would want to be the same, and the evidence of one does not tell.
func unknowns(a, b *evidence.Run) []string {
	list := []string{}
	for _, s := range sides(a, b) {
		say := func(format string, args ...any) { list = append(list, s.name+": "+fmt.Sprintf(format, args...)) }
		p := s.run.Provenance
		if p.Commit == "" {
			say("which code ran is not recorded (no commit)")
		}
		if len(p.Datasets) == 0 {
			say("no data loader was seen: whether the data are the same is not known")
		}
		for i, d := range p.Datasets {
			if d.Fingerprint == "" {
				say("dataset %d has no fingerprint (%s)", i, orNone(d.Missing))
			}
		}
		if p.Randomness == nil {
			say("seeds and deterministic settings were not looked at")
		}
		for _, setting := range p.Randomness {
			if setting.State == evidence.StateUnknown {
				say("%s: %s", setting.Name, setting.Note)
			}
		}
		if unseeded(s.run) {
			say("no seed was set: each run of it draws other numbers")
		}
		if len(rates(s.run)) == 0 {
			say("the learning rate was not seen")
		}
		if !s.run.Outcome.Complete && s.run.Outcome.Stopped == "" && cutShort(s.run) == "" {
			say("its evidence is not complete")
		}
	}
	return list
}

// left says what of the difference is explained by nothing, and what would tell.
func (r *Result) left(q Asked) {
	b := &r.Body
	decides := b.Series[0]
	same := decides.Steps > 0 && decides.Equal == decides.Steps
	if b.Repeats.Most == nil && !same {
		b.Next = append(b.Next,
			"how much repeats of A differ is not known; run A's command again, twice at least, and compare with "+
				"--with RUN,RUN: assay run -- "+strings.Join(q.A.Subject.Command, " "))
	}
	if same {
		b.Left = []string{"nothing: the two are the same to the last bit"}
		return
	}
	all := causes(q.A, q.B, q.Changed(q.A, q.B))
	var explains, possible []string
	for _, row := range b.Changes {
		name := strings.TrimSpace(row.Part + " " + row.Name)
		switch {
		case row.Does == Explains:
			explains = append(explains, name)
		case row.Does == Possible && slices.ContainsFunc(all, func(c Row) bool { return c.key() == row.key() }):
			possible = append(possible, name)
		}
	}
	most := percent(decides.LargestRelative()) + " at most"
	lost := decides.LostA+decides.LostB > 0
	if lost {
		most = "values of one that are not finite"
	}
	switch {
	case len(explains) > 0:
		b.Left = append(b.Left, strings.Join(explains, ", ")+": shown to make the difference, or a part of it")
		for _, is := range b.Isolated {
			if is.ToB != nil && is.FromA != nil && strings.HasPrefix(is.What, "with ") {
				b.Left = append(b.Left, fmt.Sprintf("%s departs from B by %s at most: what is left (of %s)", is.ID,
					percent(*is.ToB), most))
			}
		}
	case len(possible) > 0:
		b.Left = append(b.Left, fmt.Sprintf("all of it (%s): %s could explain it, and no run shows that one does", most,
			strings.Join(possible, ", ")))
	default:
		b.Left = append(b.Left, fmt.Sprintf("all of it (%s): nothing that was recorded changed and can explain it",
			most))
	}
	if len(possible) > 1 || len(possible) == 1 && len(explains) > 0 {
		b.Next = append(b.Next, "a run like A with one of these changes alone isolates it: "+strings.Join(possible,
			", ")+
			"; name it with --with RUN")
	}
	if b.Repeats.Most != nil && !lost && decides.LargestRelative() <= *b.Repeats.Most {
		b.Left = append(b.Left,
			fmt.Sprintf("chance alone does as much: repeats of A depart from it by up to %s (%d of them)",
				percent(*b.Repeats.Most), len(b.Repeats.Runs)))
	}
}
