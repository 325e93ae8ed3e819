package gate

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/stats"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// How many runs a comparison takes. Times of one machine differ more from run to run than from step to step, so what is
// counted is runs.
const (
	leastPast = 5 // of the baseline: fewer say nothing of how runs scatter
	leastNow  = 4 // to fail: with three, two disturbed ones would do it. One is enough to pass
)

// Compared is what a baseline said.
type Compared struct {
	Baseline float64  `json:"baseline"` // centre of the baseline, in the figure's unit
	Change   float64  `json:"change"`   // ratio: 0.1 is 10 % more
	Low      float64  `json:"low"`      // 95 % interval of the change
	High     float64  `json:"high"`
	Past     int      `json:"past_runs"`
	Now      int      `json:"runs"`
	Spread   float64  `json:"spread"` // between runs, standard deviation as a ratio
	Runs     []string `json:"past"`   // identifiers
	Left     []string `json:"left_out,omitempty"`
}

// Key is the identity of a run: the hash of its document. Runs that were never one are told apart by name and start.
func Key(run *evidence.Run) string {
	if run.Document != "" {
		return run.Document
	}
	return run.ID + " " + run.Started.UTC().String()
}

// unlike says in what two runs differ that must not differ in a baseline; "" where they are alike.
func unlike(a, b *evidence.Run) string { return clean.Lines(evidence.Unlike(a, b)) }

// past gives the newest runs of the history that are like the one judged, older than it, and ended well; and why others
// were left out.
func (s *Set) past() (runs []*evidence.Run, left []string, err error) {
	if s.History == nil {
		return nil, nil, nil
	}
	judged := s.judged()
	all, err := s.History.Past(judged[0])
	if err != nil {
		return nil, nil, err
	}
	given := map[string]bool{} // a run in two places is one; two runs of one name are two
	first := judged[0].Started
	for _, run := range s.Runs {
		given[Key(run)] = true
	}
	for _, run := range judged {
		if run.Started.Before(first) {
			first = run.Started
		}
	}
	reasons := map[string]int{}
	for _, run := range all {
		why := ""
		switch {
		case given[Key(run)]:
			continue
		case !run.Started.Before(first):
			why = "began later than the run judged"
		case run.Outcome.Exit != 0 || !run.Outcome.Started:
			why = "did not end well"
		case run.Only != nil:
			why = "ran one side alone (--only)"
		default:
			why = unlike(judged[0], run)
		}
		if why != "" {
			reasons[why]++
			continue
		}
		runs = append(runs, run)
	}
	sort.SliceStable(runs, func(i, j int) bool { return runs[i].Started.After(runs[j].Started) })
	if len(runs) > evidence.MostAlike {
		runs = runs[:evidence.MostAlike]
	}
	for why, n := range reasons {
		left = append(left, fmt.Sprintf("%s: %s", count(n, "run"), why))
	}
	slices.Sort(left)
	return runs, left, nil
}

func (s *Set) againstBaseline(c *Condition, a *Answer) {
	if len(c.Args) > 0 && c.Args[0] != Device(s.Runs[0]) {
		a.Outcome, a.Text, a.Needs = Unknown,
			"a baseline is kept for the run that is judged, which was on "+orNone(Device(s.Runs[0])),
			"name a run on "+c.Args[0]+" first"
		return
	}
	cannot := func(needs, format string, args ...any) {
		a.Outcome, a.Text, a.Needs = Unknown, fmt.Sprintf(format, args...), needs
	}
	if s.History == nil {
		cannot("--against FOLDER names earlier runs", "no earlier runs were given")
		return
	}
	chip, system, release := evidence.Place(s.Runs[0])
	for _, bound := range [][2]string{{"chip", chip}, {"system", system},
		{strings.TrimSpace(s.Runs[0].Target.Framework + " release"), release}} {
		if strings.TrimSpace(bound[1]) == "" {
			cannot("", "the %s of %s is not known, and a baseline is bound to it", bound[0], clean.Lines(s.Runs[0].ID))
			return
		}
	}
	past, left, err := s.past()
	if err != nil {
		cannot("", "the earlier runs: %v", err)
		return
	}
	b := &Compared{Left: left, Now: len(a.Each)}
	a.Compared = b
	var before, now []float64
	disturbed := 0
	for _, run := range past {
		if fig, _ := c.of(run); fig.Known() && *fig.Value > 0 {
			before, b.Runs = append(before, math.Log(*fig.Value)), append(b.Runs, run.ID)
		} else if run.Figure(c.Figure).Disturbed != "" {
			disturbed++
		}
	}
	if disturbed > 0 {
		left = append(left, count(disturbed, "run")+": disturbed while "+c.Figure+" was measured")
		b.Left = left
	}
	for _, v := range a.Each {
		if v <= 0 {
			cannot("", "%s is %s: only what is above zero can be compared by its ratio", c.Figure,
				unit.Format(v, c.known.Unit))
			return
		}
		now = append(now, math.Log(v))
	}
	if b.Past = len(before); b.Past < leastPast {
		text := fmt.Sprintf("%s of this subject on this chip, system and release, and a baseline takes %d",
			count(b.Past, "earlier run"), leastPast)
		if len(left) > 0 {
			text += " (left out: " + strings.Join(left, "; ") + ")"
		}
		cannot(fmt.Sprintf("%s more of the state to compare with: %s", count(leastPast-b.Past, "run"),
			again(s.Runs[0])), "%s", text)
		return
	}
	v := judge(before, now, c.Bound, c.known.Better)
	b.Baseline, b.Change, b.Spread = math.Exp(v.centre), math.Expm1(v.d.Value), math.Expm1(v.sd)
	b.Low, b.High = math.Expm1(v.d.Low), math.Expm1(v.d.High)
	a.Outcome = v.outcome
	a.Text = fmt.Sprintf("%s %s against %s: %+.1f %%, between %+.1f and %+.1f %% (%d against %d runs)", c.Figure,
		unit.Format(math.Exp(v.now), c.known.Unit),
		unit.Format(b.Baseline, c.known.Unit), 100*b.Change, 100*b.Low, 100*b.High, b.Now, b.Past)
	if v.outcome == Unknown {
		switch {
		case v.more > 0:
			a.Needs = fmt.Sprintf("about %s would tell: %s", count(v.more, "more run"), again(s.Runs[0]))
		default:
			a.Needs = fmt.Sprintf("no reasonable number of runs would tell: they differ by ±%.1f %% from one to the next, and the change lies too near %.3g %%; "+
				"quieten the machine, keep more earlier runs, or allow more", 100*b.Spread, 100*c.Bound)
		}
	}
}

// judgement of new runs against earlier ones, by logarithms.
type judgement struct {
	outcome     Outcome
	d           stats.Difference
	centre, now float64
	sd          float64
	more        int // runs that would tell, 0: none would
}

// judge compares by an interval, not by a bare ratio: it fails where the whole 95 % interval of the change is worse
// than the margin, passes where the whole of it is better, and cannot tell else. So a disturbed run makes the interval
// wide rather than the gate red.
func judge(past, now []float64, margin float64, way catalogue.Better) judgement {
	v := judgement{outcome: Unknown}
	d, ok := stats.Compare(past, now, level)
	if !ok {
		return v
	}
	v.d, v.sd = d, stats.Spread(past, now)
	v.centre = trimmedMean(past)
	v.now = v.centre + d.Value
	up, down := math.Log1p(margin), math.Log1p(-margin)
	worseUp, worseDown := way != catalogue.Higher, way != catalogue.Lower
	inside := (!worseUp || d.High <= up) && (!worseDown || d.Low >= down)
	outside := worseUp && d.Low > up || worseDown && d.High < down
	switch {
	case inside:
		v.outcome = Pass
		return v
	case outside && len(now) >= leastNow:
		v.outcome = Fail
		return v
	}
	distance := math.Inf(1)
	if worseUp {
		distance = math.Abs(d.Value - up)
	}
	if worseDown {
		distance = math.Min(distance, math.Abs(d.Value-down))
	}
	// The distance seen so far is itself uncertain: no more is planned for than narrows the interval by a third. Where
	// it is narrower than a quarter of the margin already, the change does lie at the margin, and more runs would not
	// move it.
	half := (d.High - d.Low) / 2
	if len(now) >= leastNow && half <= up/4 {
		return v
	}
	distance = math.Max(distance, 0.7*half)
	for k := max(1, leastNow-len(now)); k <= mostRuns; k++ {
		if stats.HalfWidth(len(past), len(now)+k, v.sd, level) < distance {
			v.more = k
			break
		}
	}
	return v
}

func trimmedMean(xs []float64) float64 {
	mean, _, _, _ := stats.Interval(xs, level)
	return mean
}
