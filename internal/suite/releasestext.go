package suite

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/internal/text"
)

// maxOperators are named of a release.
const maxOperators = 3

// Text writes what the releases come to, the newest first, and what has to be asked for, in lines of at most width
// columns where their words allow.
func (f *Forecast) Text(out io.Writer, width int) error {
	var b strings.Builder
	line := func(indent, format string, a ...any) {
		b.WriteString(text.Wrapped(fmt.Sprintf(format, a...), indent, indent+"  ", width))
	}
	line("", "What %d tests would come to on MPS of other releases, by one run on torch %s:", len(f.Tests), f.On)
	fmt.Fprintf(&b, "  %-15s %6s %8s  %s\n", "torch", "fail", "unknown", "first by")
	tallies := f.Tallies()
	for n := len(tallies) - 1; n >= 0; n-- {
		t, last := tallies[n], tallies[n].Release
		for n > 0 && tallies[n-1].like(t) { // a row for releases that are alike
			n--
		}
		span := last
		if first := tallies[n].Release; first != last {
			span = first + " - " + last
		}
		var by []string
		for i, o := range t.Operators {
			if i == maxOperators {
				by = append(by, fmt.Sprintf("%d more", len(t.Operators)-i))
				break
			}
			name := o.Operator
			if o.Cause != "missing" {
				name += ": " + o.Cause
			}
			by = append(by, fmt.Sprintf("%s (%d)", name, o.Tests))
		}
		unknown := "-"
		if t.Unknown > 0 {
			unknown = fmt.Sprint(t.Unknown)
		}
		row := fmt.Sprintf("  %-15s %6d %8s  ", span, t.Failed, unknown)
		row = text.Wrapped(strings.Join(by, ", "), row, strings.Repeat(" ", 35), width)
		b.WriteString(strings.TrimRight(row, " \n") + "\n")
	}
	switch lowest, settled := f.Lowest(), f.Settled(); {
	case len(f.Tests) == 0:
		line("", "No test was asked about.")
	case f.Missing != "": // which is said below
	case lowest != "":
		line("", "As far as operators go, all pass from torch %s on.", lowest)
	default:
		newest := tallies[len(tallies)-1]
		line("", "On none do all pass: on the newest, torch %s, %s; from torch %s on it is the same.", newest.Release,
			counted(newest), settled)
	}
	if needs := f.Needs(); len(needs) > 0 {
		b.WriteString("The release to ask for because of an operator, and tests that call it so that an older one refuses it:\n")
		for i, n := range needs {
			if i == maxListed {
				fmt.Fprintf(&b, "  and %d more: %s has them\n", len(needs)-i, ReleasesName)
				break
			}
			name := n.Operator
			if causes := strings.Join(n.Causes, ", "); causes != "missing" {
				name += ": " + causes
			}
			fmt.Fprintf(&b, "  %-8s %7d  %s\n", cmp.Or(n.From, "none"), n.Tests, name)
		}
	}
	line("", "Asked are operators alone: of names in PyTorch's Python that an older release lacks it says nothing.")
	if f.Missing != "" {
		line("", "It is not about all of the suite, and so from which release on all pass is not known: %s.", f.Missing)
	}
	if p := f.Proof; p != nil {
		p.text(line)
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

func counted(t Tally) string {
	s := fmt.Sprintf("%d fail", t.Failed)
	if t.Unknown > 0 {
		s += fmt.Sprintf(", and %d are not known", t.Unknown)
	}
	return s
}

// Proof is a sample of tests, run on the double of the releases between which the forecast changes.
type Proof struct {
	Seed    uint64   `json:"seed"`
	Asked   int      `json:"asked"`             // tests that were asked for
	Tests   int      `json:"tests"`             // that were taken: there may be fewer whose forecast changes
	Missing string   `json:"missing,omitempty"` // why not all of them were run
	Rows    []Proven `json:"rows"`
}

// Proven is a test of the sample on a release.
type Proven struct {
	ID       string  `json:"id"`
	Release  string  `json:"torch"`
	Expected Outcome `json:"expected"`
	Operator string  `json:"op,omitempty"` // by which it was to fail
	Came     Outcome `json:"came"`         // "": it was not run
	Error    string  `json:"error,omitempty"`
	Text     string  `json:"text,omitempty"`
	By       string  `json:"by,omitempty"` // the operator by which it failed
}

// Agrees says that the test came out as it was to.
func (p Proven) Agrees() bool { return p.Expected.fails() == p.Came.fails() }

func (p *Proof) text(line func(indent, format string, a ...any)) {
	agree, ran := 0, 0
	for _, r := range p.Rows {
		if r.Came != "" {
			ran++
			if r.Agrees() {
				agree++
			}
		}
	}
	line("", "Proven on a sample of %d tests, on the double of the releases around the change: %d of %d came so.",
		p.Tests, agree, ran)
	for _, r := range p.Rows {
		if r.Came != "" && !r.Agrees() {
			line("  ", "otherwise: %s on torch %s: %s was expected%s, and it %s: %s", r.ID, r.Release, r.Expected,
				strings.TrimSuffix(" by "+r.Operator, " by "), r.Came, text.Short(r.Error+": "+r.Text, 200))
		}
	}
	if p.Missing != "" {
		line("", "Not all of the sample was run: %s.", p.Missing)
	}
}

// Sample takes n tests whose forecast changes between two releases, each with the two: of each operator one, then of
// each a second. The same seed takes the same.
func (f *Forecast) Sample(n int, seed uint64) *Proof {
	type change struct {
		test  int
		rows  [2]Proven
		under string
	}
	by := map[string][]change{}
	var all [][]Foreseen
	for _, release := range f.Asked {
		all = append(all, f.At(release))
	}
	for i := range f.Tests {
		for r := len(all) - 1; r > 0; r-- {
			before, after := all[r-1][i], all[r][i]
			if before.Outcome == "" || after.Outcome == "" || before.Outcome.fails() == after.Outcome.fails() {
				continue
			}
			c := change{test: i}
			for at, e := range []Foreseen{before, after} {
				c.rows[at] = Proven{ID: e.ID, Release: f.Asked[r-1+at], Expected: e.Outcome}
				if e.Refuse != nil {
					c.rows[at].Operator = e.Refuse.Operator
					c.under = e.Refuse.Operator + " " + f.Asked[r]
				}
			}
			by[c.under] = append(by[c.under], c)
			break
		}
	}
	p := &Proof{Seed: seed, Asked: n, Rows: []Proven{}}
	random := rand.New(rand.NewPCG(seed, 0))
	var groups [][]change
	for _, under := range sortedKeys(by) {
		random.Shuffle(len(by[under]), func(i, j int) { by[under][i], by[under][j] = by[under][j], by[under][i] })
		groups = append(groups, by[under])
	}
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for round, took := 0, true; took && p.Tests < n; round++ {
		took = false
		for _, g := range groups {
			if round < len(g) && p.Tests < n {
				p.Rows, took = append(p.Rows, g[round].rows[:]...), true
				p.Tests++
			}
		}
	}
	slices.SortFunc(p.Rows, func(a, b Proven) int {
		return cmp.Or(cmp.Compare(slices.Index(f.Asked, a.Release), slices.Index(f.Asked, b.Release)),
			strings.Compare(a.ID, b.ID))
	})
	return p
}

// Runs are the tests to run, by release.
func (p *Proof) Runs() map[string][]string {
	runs := map[string][]string{}
	for _, r := range p.Rows {
		runs[r.Release] = append(runs[r.Release], r.ID)
	}
	return runs
}

// Came takes over what became of the tests that were run on a release.
func (p *Proof) Came(release string, run *Run) {
	at := map[string]*Test{}
	for i := range run.Tests {
		at[run.Tests[i].ID] = &run.Tests[i]
	}
	for i := range p.Rows {
		if r, t := &p.Rows[i], at[p.Rows[i].ID]; r.Release == release && t != nil && t.Outcome != NotRun {
			r.Came, r.Error, r.Text, r.By = t.Outcome, t.Error, t.Text, t.Operator
		}
	}
	if run.Missing != "" {
		p.Missing = strings.TrimPrefix(p.Missing+"; torch "+release+": "+run.Missing, "; ")
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
