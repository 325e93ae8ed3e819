package claims

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
)

// answer is a line that the atlas gives: a state for each of the columns.
type answer struct {
	of      string   // operator, or direction of a call
	columns []string // releases, oldest first
	states  []string
	details []string // what stands in the way, release by release
}

// ask puts a question to the atlas.
func (l *Ledger) ask(q Ask) ([]answer, error) {
	var list []answer
	switch {
	case q.API != "":
		api, ok := l.atlas.API(q.API)
		if !ok {
			return nil, fmt.Errorf("the atlas has no Python name %s", q.API)
		}
		list = append(list, l.across("forward", api.Forward), l.across("backward", api.Backward))
	case q.Model != "":
		model, ok := l.models[q.Model]
		if !ok {
			return nil, fmt.Errorf("models.txt has no model %s", q.Model)
		}
		for _, direction := range []string{"train", "backward", "predict"} {
			if roots := model[direction]; roots != nil {
				list = append(list, l.across(direction, roots))
			}
		}
	default:
		for _, name := range q.Operators {
			op, ok := l.atlas.Operator(name)
			if !ok {
				return nil, fmt.Errorf("the atlas has no operator %s", name)
			}
			a := answer{of: name, columns: op.Columns}
			for _, c := range op.Columns {
				a.states, a.details = append(a.states, op.At(c).String()), append(a.details, "")
			}
			list = append(list, a)
		}
	}
	return list, nil
}

// rank orders what a call comes to, best first.
var rank = []string{"native", "unknown", "on the CPU for some inputs", "on the CPU", "missing for some inputs",
	"missing"}

// across says what a call comes to in each release of torch, with the packages that go with it.
func (l *Ledger) across(direction string, roots []atlas.Call) answer {
	a := answer{of: direction, columns: l.torch()}
	for _, series := range a.columns {
		worst, ways := "native", map[string][]string{}
		for _, n := range l.needs(series, roots) {
			verdict := map[atlas.State]string{atlas.CPU: "on the CPU", atlas.Missing: "missing",
				atlas.NoStub: "missing", atlas.Raises: "missing",
				atlas.Unknown: "unknown", atlas.Undefined: "unknown"}[n.State]
			if verdict == "" || n.Sometimes && verdict == "unknown" {
				continue
			}
			if n.Sometimes {
				verdict += " for some inputs"
			}
			ways[verdict] = append(ways[verdict], strings.TrimPrefix(n.Operator, "aten::"))
			if slices.Index(rank, verdict) > slices.Index(rank, worst) {
				worst = verdict
			}
		}
		var details []string
		for _, verdict := range slices.Backward(rank) {
			if len(ways[verdict]) > 0 {
				slices.Sort(ways[verdict])
				details = append(details, verdict+": "+strings.Join(slices.Compact(ways[verdict]), ", "))
			}
		}
		a.states, a.details = append(a.states, worst), append(a.details, strings.Join(details, "; "))
	}
	return a
}

// needs follows composed operators down, as atlas.Needs does, but takes operators of other packages from the release
// that goes with a release of torch, and applies the mends.
func (l *Ledger) needs(series string, roots []atlas.Call) []atlas.Need {
	var list []atlas.Need
	seen := map[atlas.Call]bool{}
	var walk func(calls []atlas.Call, sometimes bool)
	walk = func(calls []atlas.Call, sometimes bool) {
		for _, c := range calls {
			c.Sometimes = c.Sometimes || sometimes
			if c.Operator == "-" || seen[c] || seen[atlas.Call{Operator: c.Operator}] {
				continue
			}
			seen[c] = true
			state := atlas.Unknown
			if op, ok := l.atlas.Operator(c.Operator); ok {
				column := series
				if op.Package != "torch" {
					r, _ := l.atlas.Beside(op.Package, l.last(series))
					column = r.Column
				}
				state = op.At(column)
			}
			called := l.atlas.Calls(c.Operator)
			if m, ok := l.mended(c.Operator, series); ok && (state != atlas.Composed || called == nil) {
				walk(operators(m.Calls), c.Sometimes)
				continue
			}
			switch {
			case state == atlas.Composed && called == nil:
				list = append(list, atlas.Need{Operator: c.Operator, Sometimes: c.Sometimes, State: atlas.Unknown})
			case state == atlas.Composed:
				walk(called, c.Sometimes)
			case state != atlas.Native:
				list = append(list, atlas.Need{Operator: c.Operator, Sometimes: c.Sometimes, State: state})
			}
		}
	}
	// Those that are always called come first, so that their operators are not taken for those of some inputs.
	sorted := slices.Clone(roots)
	slices.SortStableFunc(sorted, func(x, y atlas.Call) int {
		switch {
		case x.Sometimes == y.Sometimes:
			return 0
		case x.Sometimes:
			return 1
		}
		return -1
	})
	walk(sorted, false)
	always := map[string]bool{}
	for _, n := range list {
		always[n.Operator] = always[n.Operator] || !n.Sometimes
	}
	return slices.DeleteFunc(list, func(n atlas.Need) bool { return n.Sometimes && always[n.Operator] })
}

func (l *Ledger) mended(operator, series string) (mend, bool) {
	columns := l.torch()
	at := slices.Index(columns, series)
	for _, m := range l.Mends {
		from, until := bounds(columns, m.From, m.Until)
		if m.Operator == operator && from <= at && at <= until {
			return m, true
		}
	}
	return mend{}, false
}

// bounds are the first and the last column of a range; an end that is not given is open.
func bounds(columns []string, from, to string) (first, last int) {
	last = len(columns) - 1
	if from != "" {
		first = slices.Index(columns, from)
	}
	if to != "" {
		last = slices.Index(columns, to)
	}
	return first, last
}

// expected is what a verdict needs: the state of an operator or direction over a range of releases.
type expected struct{ of, state, from, to string }

// parseExpect reads
//
//	[DIRECTION] STATE RANGE
//
// RANGE is 2.0..2.7, 2.8.., ..2.7 or one release. DIRECTION is train, backward, predict or forward; without one each
// answer is meant.
func parseExpect(s string) (expected, error) {
	f := strings.Fields(s)
	if len(f) < 2 {
		return expected{}, fmt.Errorf("expectation %q: state and releases are wanted", s)
	}
	var e expected
	if slices.Contains([]string{"train", "backward", "predict", "forward"}, f[0]) {
		e.of, f = f[0], f[1:]
	}
	e.state = strings.Join(f[:len(f)-1], " ")
	var ranged bool
	if e.from, e.to, ranged = strings.Cut(f[len(f)-1], ".."); !ranged {
		e.to = e.from
	}
	return e, nil
}

// bears compares what the ledger expects with what the atlas says.
func (l *Ledger) bears(q Ask) error {
	answers, err := l.ask(q)
	if err != nil {
		return err
	}
	for _, s := range q.Expect {
		e, err := parseExpect(s)
		if err != nil {
			return err
		}
		met := false
		for _, a := range answers {
			if e.of != "" && e.of != a.of {
				continue
			}
			first, last := bounds(a.columns, e.from, e.to)
			if first < 0 || last < first {
				return fmt.Errorf("expectation %q: no such releases in %v", s, a.columns)
			}
			for i := first; i <= last; i++ {
				if a.states[i] != e.state {
					return fmt.Errorf("expectation %q: in %s the atlas says of %s: %s %s", s, a.columns[i], a.of,
						a.states[i], a.details[i])
				}
			}
			met = true
		}
		if !met {
			return fmt.Errorf("expectation %q: the atlas gives no such answer", s)
		}
	}
	for _, name := range q.Rows {
		if _, ok := l.row(name); !ok {
			return fmt.Errorf("the facts have no row %s", name)
		}
	}
	return nil
}

func (l *Ledger) row(name string) (*facts.Fact, bool) {
	f := facts.Load().Fact(name)
	return f, f != nil
}
