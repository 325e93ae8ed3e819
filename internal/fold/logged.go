package fold

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
)

const (
	maxSeries = 128  // curves kept of a process: as many as the agent tells of (watch/logged.py)
	maxPoints = 1000 // of a curve that are listed at least where there are more, and twice that at most
)

// loggedSeries are the curves that one process has told of.
type loggedSeries struct {
	at         map[[2]string]*curve // by door and name
	turnedAway int                  // values under names beyond maxSeries
}

// curve keeps every every-th point of those that came.
type curve struct {
	points, every, unread int
	kept                  []loggedPoint
	last                  loggedPoint
	own                   bool // the script gave steps of its own
}

type loggedPoint struct {
	step  int
	own   *int64
	value float64
}

func (l *loggedSeries) of(door, name string) *curve {
	c := l.at[[2]string{door, name}]
	if c == nil && len(l.at) < maxSeries {
		if l.at == nil {
			l.at = map[[2]string]*curve{}
		}
		c = &curve{every: 1}
		l.at[[2]string{door, name}] = c
	}
	return c
}

// add takes the points of an event; false where its columns are not of one length.
func (l *loggedSeries) add(e loggedEvent) bool {
	if len(e.Step) != len(e.Value) || e.Own != nil && len(e.Own) != len(e.Value) || e.Name == "" {
		return false
	}
	c := l.of(e.Door, e.Name)
	if c == nil {
		l.turnedAway += len(e.Value)
		return true
	}
	for i, value := range e.Value {
		c.last = loggedPoint{step: int(e.Step[i]), value: value}
		if e.Own != nil {
			c.last.own = e.Own[i]
			c.own = c.own || e.Own[i] != nil
		}
		if c.points%c.every == 0 {
			c.kept = append(c.kept, c.last)
		}
		c.points++
		if len(c.kept) == 2*maxPoints {
			for n := range maxPoints {
				c.kept[n] = c.kept[2*n]
			}
			c.kept, c.every = c.kept[:maxPoints], 2*c.every
		}
	}
	return true
}

func (l *loggedSeries) leftOut(e loggedUnreadEvent) {
	if e.Name == "" {
		l.turnedAway += e.Count
	} else if c := l.of(e.Door, e.Name); c != nil {
		c.unread += e.Count
	}
}

// logged adds the curves that the script logged itself, learning rates first, then by name.
func (b *builder) logged() {
	l := &b.p.logged
	for key, c := range l.at {
		s := evidence.Series{Door: key[0], Name: key[1], Step: []int{}, Value: []*float64{}, Points: c.points}
		points := c.kept
		if c.every > 1 {
			s.Thin = c.every
			if (c.points-1)%c.every != 0 {
				points = append(slices.Clip(points), c.last)
			}
		}
		for _, at := range points {
			s.Step = append(s.Step, at.step)
			if c.own {
				s.Own = append(s.Own, at.own)
			}
			var v *float64
			if x := at.value; !math.IsNaN(x) && !math.IsInf(x, 0) {
				v = &x
			}
			s.Value = append(s.Value, v)
		}
		if c.unread > 0 {
			s.Note = fmt.Sprintf("%d values were not read: a device had them, and reading would have waited for it",
				c.unread)
		}
		b.run.Logged = append(b.run.Logged, s)
	}
	slices.SortFunc(b.run.Logged, func(x, y evidence.Series) int {
		if rate := x.Door == evidence.DoorOptimizer; rate != (y.Door == evidence.DoorOptimizer) {
			return map[bool]int{true: -1, false: 1}[rate]
		}
		return strings.Compare(x.Name+"\x00"+x.Door, y.Name+"\x00"+y.Door)
	})
	if l.turnedAway > 0 {
		b.find("logged-not-told", evidence.Note, evidence.Measured, "", "",
			"the script logs under more than %d names: %d values of those beyond are not in the evidence", maxSeries,
			l.turnedAway)
	}
}
