package sweep

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"assay/internal/unit"
)

// Answer is what a search came to, of one value of the grid's parameter. A batch of 0: there is none, and its text says
// why.
type Answer struct {
	Cell string `json:"cell,omitempty"`

	Largest     int    `json:"largest"`         // the largest batch that fits
	Fails       int    `json:"fails,omitempty"` // the next, which does not; 0: none was asked for
	LargestText string `json:"largest_text"`
	Proven      bool   `json:"proven"` // by the longer trial, over the longest batch, an evaluation and a save
	ProofText   string `json:"proof_text"`

	Knee     int    `json:"knee"`
	KneeText string `json:"knee_text"`

	Recommended     int    `json:"recommended"`
	RecommendedText string `json:"recommended_text"`

	// Spread of the peak, bytes: the margin is made of it. nil: it is not known.
	Spread  *float64 `json:"spread,omitempty"`
	Limit   *float64 `json:"limit,omitempty"` // bytes that the allocator may hold
	LimitBy string   `json:"limit_by,omitempty"`
	Trials  int      `json:"trials"`          // that the search took, those of the proof and of the knee apart
	Error   string   `json:"error,omitempty"` // the search was ended by something that is no want of memory
	Broken  int      `json:"broken,omitempty"`
	Done    bool     `json:"done"` // nothing more is to be tried
	// Leak is how memory grew from step to step with the largest batch, in the trial LeakTrial; nil: none was seen.
	Leak      *Growth `json:"leak,omitempty"`
	LeakTrial int     `json:"leak_trial,omitempty"`
}

// spreads is how many times the spread of the peak the margin is.
const spreads = 2

func (c cell) answer(name string) Answer {
	a := Answer{Cell: name}
	_, more := c.next(0)
	a.Done = !more
	for _, t := range c.trials {
		if t.For == ForSearch || t.For == ForAgain {
			a.Trials++
		}
	}
	if limit, by := c.limit(); limit > 0 {
		a.Limit, a.LimitBy = &limit, by
	}
	if t := c.broken(); t != nil {
		a.Error, a.Broken = fmt.Sprintf("batch %d, trial %d: %s: %s", t.Batch, t.Number, t.Ending, t.Text), t.Number
	}
	a.Largest, a.Fails = c.best()
	c.sayLargest(&a)
	c.sayKnee(&a)
	c.sayRecommended(&a)
	return a
}

func (c cell) sayLargest(a *Answer) {
	m := max(c.Range.Multiple, 1)
	switch {
	case len(c.trials) == 0:
		a.LargestText = "no trial came to its end"
		return
	case a.Largest == 0 && a.Fails > 0:
		a.LargestText = fmt.Sprintf("no batch from %d on fits", max(c.Range.From, 1))
		return
	case a.Largest == 0:
		a.LargestText = "no batch was seen to fit"
		return
	case a.Fails == a.Largest+m:
		a.LargestText = fmt.Sprintf("%d fits, and %d does not", a.Largest, a.Fails)
	case a.Fails > 0:
		a.LargestText = fmt.Sprintf("%d fits, and %d does not; what lies between was not tried", a.Largest, a.Fails)
	case c.Range.To > 0 && a.Largest+m > c.Range.To:
		a.LargestText = fmt.Sprintf("%d, the end of what was to be tried, fits", a.Largest)
		for _, t := range c.trials {
			if t.Items != nil && *t.Items == c.Range.To {
				a.LargestText = fmt.Sprintf("%d fits, and the training data has %d rows in all", a.Largest, *t.Items)
			}
		}
	default:
		a.LargestText = fmt.Sprintf("%d fits; no batch was seen that does not", a.Largest)
	}
	p, own := c.proof(a.Largest, true), c.proof(a.Largest, false)
	if t, g := c.leak(a.Largest); g != nil {
		limit, _ := c.limit()
		a.Leak, a.LeakTrial = g, t.Number
		a.LargestText = fmt.Sprintf("in trials of %s %s", steps(c.Steps), a.LargestText)
		a.ProofText = "not proven: " + g.words(t.most(), limit) + ": no batch is safe for long"
		if t.Ending == EndedByMemory {
			a.ProofText = fmt.Sprintf("not proven: %s, until it ran out of memory in trial %d: no batch is safe for long",
				g.words(0, 0), t.Number)
		}
		return
	}
	switch {
	case p == nil:
		a.ProofText = "not proven: the longer trial was not made"
	case p.Ending != EndedWell:
		a.ProofText = fmt.Sprintf("not proven: the longer trial ended by %s: %s", p.Ending, p.Text)
	default:
		missing := p.missing()
		inOrder := ""
		switch {
		case own != nil && own.Ending == EndedWell:
			inOrder = fmt.Sprintf(", and %d in the script's own order (trial %d)", own.Trained, own.Number)
		case own != nil:
			missing = fmt.Sprintf("in the script's own order it ended by %s: %s", own.Ending, own.Text)
		case c.longest():
			missing = "whether it is so in the script's own order"
		}
		a.Proven = missing == ""
		a.ProofText = fmt.Sprintf("%d steps fitted (trial %d)", p.Trained, p.Number)
		if missing != "" {
			a.ProofText += "; not proven: " + missing
		} else {
			a.ProofText = fmt.Sprintf("proven by %d steps (trial %d), over the longest batch, an evaluation and a save%s",
				p.Trained, p.Number, inOrder)
		}
	}
}

// missing is what the trial did not come to of what a training meets sooner or later; "": nothing.
func (t *Trial) missing() string {
	var not []string
	if why := t.notLongest(); why != "" {
		not = append(not, "whether it is so over the longest batch ("+why+")")
	}
	for _, part := range []struct {
		came *bool
		what string
	}{{t.Evaluated, "an evaluation"}, {t.Saved, "saving a checkpoint"}} {
		switch {
		case part.came == nil:
			not = append(not, part.what+" (it was not looked for)")
		case !*part.came:
			not = append(not, part.what+" ("+t.none()+")")
		}
	}
	if g := t.Growth; g != nil {
		not = append(not, fmt.Sprintf("that memory stops growing (%s a step in steps %d to %d, which may be their lengths; a "+
			"larger --steps tells)", unit.Bytes(g.Each), g.From, g.To))
	}
	return strings.Join(not, ", ")
}

// none says how long the trial was beside an epoch, where something did not come in it, and what goes further.
func (t *Trial) none() string {
	text := "none came in " + steps(t.Trained)
	if t.Items == nil || t.Batch == 0 {
		return text + "; a larger --steps goes further"
	}
	epoch := (*t.Items + t.Batch - 1) / t.Batch
	if t.Trained > epoch {
		return fmt.Sprintf("%s, and an epoch has %d", text, epoch)
	}
	return fmt.Sprintf("%s; an epoch has %d: --steps %d goes beyond it", text, epoch, epoch/proofSteps+1)
}

// most is the peak of the tensors, where it is known, else that of the allocator; 0: neither.
func (t *Trial) most() float64 {
	switch {
	case t.Live != nil:
		return *t.Live
	case t.Peak != nil:
		return *t.Peak
	}
	return 0
}

// notLongest says why the trial was not over the longest batch; "" where it was.
func (t *Trial) notLongest() string {
	var not []string
	seen := false
	for _, l := range t.Levers {
		if rest, ok := strings.CutPrefix(l, "longest: "); ok {
			seen = true
			if why, ok := strings.CutPrefix(rest, "not done: "); ok {
				not = append(not, why)
			}
		}
	}
	if !seen {
		return "the agent did not say that it put the longest batch first"
	}
	return strings.Join(not, "; ")
}

func (c cell) sayKnee(a *Answer) {
	if !c.Timed {
		a.KneeText = "not told: times of a rehearsal say nothing about the Mac"
		return
	}
	batches, _ := c.rates()
	if len(batches) == 0 {
		a.KneeText = "not told: the throughput of no batch is known"
		return
	}
	knee, below, above, best := c.knee()
	a.Knee = knee
	a.KneeText = fmt.Sprintf("the smallest batch tried that has %s or more of the best throughput, %s rows a second",
		unit.Format(enough, "ratio"), unit.Format(best, "1"))
	switch {
	case len(batches) == 1:
		a.KneeText += "; it is the only one whose throughput is known"
	case below > 0:
		a.KneeText += fmt.Sprintf("; %d has less", below)
	default:
		a.KneeText += "; none smaller was tried"
	}
	if above > 0 {
		a.KneeText += fmt.Sprintf("; at %d it is less again", above)
	}
}

// sayRecommended takes a margin from the largest batch: as many bytes as the peak was seen to vary, twice. What varies
// is how far peaks lie from the line through them, and how far trials of one batch lie apart, the longer one of the
// proof with them. The peak is that of the tensors where every trial told it: an allocator that keeps what is freed is
// at its limit long before memory is short, and gives it up. Nor is a batch recommended from which on training was
// seen to be slower.
func (c cell) sayRecommended(a *Answer) {
	if a.Largest == 0 {
		a.RecommendedText = "none: " + a.LargestText
		return
	}
	if a.Leak != nil {
		a.RecommendedText = "none: memory grows from step to step, and no batch is safe for long"
		return
	}
	var xs, ys []float64
	apart := map[int][2]float64{}
	again, live := false, true
	for _, t := range c.trials {
		live = live && (t.Ending != EndedWell || t.Live != nil)
	}
	for _, t := range c.trials {
		p := t.Peak
		if live {
			p = t.Live
		}
		if t.Ending != EndedWell || p == nil || t.Batch > a.Largest {
			continue
		}
		if r, ok := apart[t.Batch]; ok {
			again = true
			apart[t.Batch] = [2]float64{min(r[0], *p), max(r[1], *p)}
		} else {
			apart[t.Batch] = [2]float64{*p, *p}
		}
		xs, ys = append(xs, float64(t.Batch)), append(ys, *p)
	}
	if len(apart) < 2 || len(xs) < 3 && !again {
		a.RecommendedText = "not told: the peak is known of too few trials to know how far it varies"
		return
	}
	slope, at := fitted(xs, ys)
	spread := 0.0
	for i := range xs {
		spread = max(spread, math.Abs(ys[i]-at-slope*xs[i]))
	}
	for _, r := range apart {
		spread = max(spread, r[1]-r[0])
	}
	if spread < 1 { // a byte: what is left is rounding
		spread = 0
	}
	a.Spread = &spread
	room, of := apart[a.Largest][1], "that of the largest"
	if room == 0 {
		room = at + slope*float64(a.Largest)
	}
	if !live && a.Limit != nil && *a.Limit > room {
		room, of = *a.Limit, "the limit"
	}
	margin := spreads * spread
	m := max(c.Range.Multiple, 1)
	lo, _ := c.Range.ends()
	a.Recommended = a.Largest
	if slope > 0 {
		a.Recommended = min(a.Largest, int(math.Floor((room-margin-at)/slope/float64(m)+1e-6))*m)
	}
	if a.Recommended < lo*m {
		a.Recommended, a.RecommendedText = 0,
			"none: no batch has an expected peak that is "+unit.Bytes(margin)+" below "+of
		return
	}
	a.RecommendedText = fmt.Sprintf("its expected peak is %s below %s, %d times the %s by which peaks of the trials departed from the line through them or from one another",
		unit.Bytes(margin), of, spreads, unit.Bytes(spread))
	if spread == 0 {
		a.RecommendedText = "the peaks of the trials did not vary, so that no margin is taken"
	}
	if slower := c.slower(a.Recommended); slower > 0 {
		a.Recommended = slower
		a.RecommendedText += "; and no batch above it was seen to be as fast"
	}
	if a.Knee > 0 && a.Knee < a.Recommended {
		a.RecommendedText += fmt.Sprintf("; %d is as fast", a.Knee)
	}
}

// slower is the largest batch tried up to that one with enough of the best throughput, where all that were tried above
// it, that one or a larger one with them, have less; 0: it is not so, or no throughput is known.
func (c cell) slower(batch int) int {
	if !c.Timed {
		return 0
	}
	batches, rate := c.rates()
	_, _, _, best := c.knee()
	fast := 0
	for _, b := range batches {
		if rate[b] >= enough*best {
			fast = b
		}
	}
	if fast == 0 || fast >= batch {
		return 0
	}
	for _, b := range batches {
		if b > fast && b <= batch {
			return fast
		}
	}
	return 0
}

// fitted is the least-squares line.
func fitted(xs, ys []float64) (slope, at float64) {
	var mx, my float64
	for i := range xs {
		mx, my = mx+xs[i]/float64(len(xs)), my+ys[i]/float64(len(xs))
	}
	var above, below float64
	for i := range xs {
		above, below = above+(xs[i]-mx)*(ys[i]-my), below+(xs[i]-mx)*(xs[i]-mx)
	}
	if below > 0 {
		slope = above / below
	}
	return slope, my - slope*mx
}

// Bought is what a remedy changes beside the plain trial. A pointer that is nil: not known, and Text says why.
type Bought struct {
	Remedy string   `json:"remedy"`
	Number int      `json:"number"`           // of the trial
	Memory *float64 `json:"memory,omitempty"` // peak / peak of the plain trial − 1
	Time   *float64 `json:"time,omitempty"`   // time of a step / that of the plain trial − 1
	Loss   *float64 `json:"loss,omitempty"`   // greatest |a − b| / |b| of the losses, step by step; 0: equal
	Losses int      `json:"losses"`           // how many were compared
	Text   string   `json:"text,omitempty"`
}

// bought compares the trials of remedies with the plain one.
func bought(trials []Trial, timed bool) []Bought {
	var plain *Trial
	var list []Bought
	for i := range trials {
		t := &trials[i]
		switch {
		case t.For != ForRemedy || t.Ending == EndedByPerson:
		case t.Remedy == "":
			plain = t
		default:
			list = append(list, beside(plain, t, timed))
		}
	}
	return list
}

func beside(plain, t *Trial, timed bool) Bought {
	b := Bought{Remedy: t.Remedy, Number: t.Number}
	if t.Ending != EndedWell {
		b.Text = string(t.Ending) + ": " + t.Text
		if t.Ending == EndedOtherBatch {
			b.Text = t.Text
		}
		return b
	}
	if plain == nil || plain.Ending != EndedWell {
		b.Text = "it runs; the script as it is does not"
		return b
	}
	if plain.Peak != nil && t.Peak != nil && *plain.Peak > 0 {
		v := *t.Peak / *plain.Peak - 1
		b.Memory = &v
	}
	switch {
	case !timed:
		b.Text = "times of a rehearsal say nothing about the Mac"
	case plain.Step != nil && t.Step != nil && *plain.Step > 0:
		v := *t.Step / *plain.Step - 1
		b.Time = &v
	}
	worst := 0.0
	for i := range min(len(plain.Loss), len(t.Loss)) {
		x, y := plain.Loss[i], t.Loss[i]
		if x == nil || y == nil {
			continue
		}
		b.Losses++
		if d := math.Abs(*y - *x); d > 0 {
			worst = max(worst, d/max(math.Abs(*x), math.SmallestNonzeroFloat64))
		}
	}
	if t.Accumulate > 1 {
		b.Losses = 0 // each is of half the rows
		b.Text = cmp.Or(b.Text, "losses are of half the rows each")
	}
	if b.Losses > 0 {
		b.Loss = &worst
	}
	if t.Remedy == "smaller" { // whatever they are, they are not those of the script's own data: never equal
		if worst == 0 {
			b.Loss = nil
		}
		b.Text = strings.TrimPrefix(b.Text+"; losses are of smaller data", "; ")
	}
	return b
}
