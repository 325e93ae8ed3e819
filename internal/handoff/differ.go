package handoff

import (
	"fmt"
	"math"
	"slices"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// Comparison is here against there: what is not the same, which figures changed, and which explains which.
type Comparison struct {
	Differences []Difference `json:"differences"` // what is amiss first, then as certain as they explain
	Changes     []Change     `json:"changes"`
	Limits      []string     `json:"limits"` // what could not be compared, and why
	Verdict     string       `json:"verdict"`
}

// Verdicts.
const (
	Same       = "same"        // no figure changed by more than noise, and nothing is amiss
	Other      = "explained"   // figures changed, by what a handoff means to change
	Wrong      = "amiss"       // something is there that should not be
	CannotTell = "cannot tell" // a change that nothing explains, or nothing to compare
)

// Status is the exit status of a verdict.
func Status(verdict string) int {
	switch verdict {
	case Wrong:
		return fault.GateFailed
	case CannotTell:
		return fault.CannotTell
	}
	return fault.OK
}

// Compare holds the machine there against here. It looks at both directions alike: what is faster there without a
// reason is as open as what is slower.
func Compare(here, there Side) *Comparison {
	c := &Comparison{Differences: []Difference{}, Changes: []Change{}, Limits: []string{}}
	for _, f := range factors {
		for _, d := range f.find(here, there) {
			d.Factor = f.name
			c.Differences = append(c.Differences, d)
		}
	}
	slices.SortStableFunc(c.Differences, func(a, b Difference) int {
		if by := slices.Index(classes, a.Class) - slices.Index(classes, b.Class); by != 0 {
			return by
		}
		return rank(a.Ground) - rank(b.Ground)
	})
	switch h, t := here.run().Rehearsal != nil, there.run().Rehearsal != nil; {
	case h || t:
		c.Limits = append(c.Limits,
			"one is a rehearsal: its times are those of a CPU that stands in, and are not compared")
	default:
		var why []string
		c.Changes, why = changes(here, there)
		c.Limits = append(c.Limits, why...)
	}
	for i := range c.Changes {
		c.Changes[i].explain(c.Differences)
	}
	for _, s := range []struct {
		where string
		side  Side
	}{{"here", here}, {"there", there}} {
		if o := s.side.run().Outcome; !o.Complete {
			c.Limits = append(c.Limits, fmt.Sprintf("the evidence from %s is not complete: %s", s.where, o.Reason))
		}
	}
	c.Verdict = c.verdict()
	return c
}

func (c *Comparison) verdict() string {
	verdict := Same
	for _, x := range c.Changes {
		switch {
		case x.Noise:
		case x.Answer == Open || x.Answer == Perhaps:
			verdict = CannotTell
		case verdict == Same:
			verdict = Other
		}
	}
	if len(c.Changes) == 0 {
		verdict = CannotTell
	}
	if slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Class == Amiss }) {
		return Wrong
	}
	return verdict
}

func rank(g Ground) int {
	if i := slices.Index(grounds, g); i >= 0 {
		return i
	}
	return len(grounds)
}

// explain finds the differences that go in the change's direction. The change is explained where the bands of those
// that are more than possible, taken together, reach as far as the near end of its interval; what is known to have no
// bound explains nothing by that, unless it was measured at work.
func (c *Change) explain(all []Difference) {
	if c.Noise {
		return
	}
	near := c.Low // the end of the interval that is next to 1
	if c.Ratio < 1 {
		near = c.High
	}
	sized, known, any := 1.0, 1.0, 1.0 // ratios that causes reach
	for _, d := range all {
		if d.Ground == "" {
			continue
		}
		low, high, speaks := d.band(c.on)
		if !speaks {
			continue
		}
		if c.inverse {
			low, high = 1/high, 1/low
			if d.Factor == "batch" { // a batch of r times the rows takes 1 to r times as long: so much is a row's gain
				low, high = 1/high, 1/low
			}
		}
		reach := high
		if c.Ratio < 1 {
			reach = low
		}
		if c.Ratio > 1 && reach <= 1 || c.Ratio < 1 && reach >= 1 {
			continue
		}
		c.Causes = append(c.Causes, Cause{Factor: d.Factor, Name: d.Name, Text: d.Text, Ground: d.Ground,
			Size: size(reach, near, c.Ratio)})
		any *= reach
		bounded := reach != 0 && !math.IsInf(reach, 0)
		if d.Ground == Certain || d.Ground == Measured || d.Ground == Known && bounded {
			sized *= reach
		}
		if d.Ground != Possible {
			known *= reach
		}
	}
	slices.SortStableFunc(c.Causes, func(a, b Cause) int { return rank(a.Ground) - rank(b.Ground) })
	reaches := func(r float64) bool { return c.Ratio > 1 && r >= near || c.Ratio < 1 && r <= near }
	switch {
	case reaches(sized):
		c.Answer = Explained
	case reaches(known):
		c.Answer = Likely
	case reaches(any):
		c.Answer = Perhaps
	default:
		c.Answer = Open
	}
}

// band is what a difference can do to a kind of figure. What makes a step longer may do so in each of its phases.
func (d Difference) band(on string) (low, high float64, speaks bool) {
	low, high = 1, 1
	for _, e := range d.effects {
		phase := on != onTime && on != onMemory && on != onLoss
		if e.on == on || e.on == onTime && phase {
			low, high, speaks = min(low, e.low), max(high, e.high), true
		}
	}
	return low, high, speaks
}

// size says how much of a change a cause can be.
func size(reach, near, ratio float64) string {
	switch {
	case math.IsInf(reach, 0) || reach == 0:
		return "how much is not known"
	case ratio > 1 && reach >= near || ratio < 1 && reach <= near:
		return fmt.Sprintf("accounts for up to × %.3g: all of it", reach)
	}
	return fmt.Sprintf("accounts for up to × %.3g of × %.3g", reach, ratio)
}

// Device that the runs trained on, for the head of the page.
func (s Side) Device() string { return evidence.Device(s.run()) }
