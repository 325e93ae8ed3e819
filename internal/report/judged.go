package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
)

// Judged is what a policy and the rules of the verdict say of a run. The rooms that judge stand beside this one, so
// that the command hands over what they say.
type Judged struct {
	Policy  string // its name; "" where the run was held against none
	NoGates string // why it was held against none, and how to do it: one sentence
	Outcome string // pass, fail, cannot tell
	Summary string
	Gates   []JudgedGate
	// the figures that gates held against a baseline: There is its centre
	Baseline []FigureBeside
	Verdict  *Verdict // nil: not asked for
}

// JudgedGate is one gate of a policy with its answer.
type JudgedGate struct {
	Name, Rule, Outcome string   // Outcome: pass, fail, cannot tell, not asked
	Says                []string // a line for each condition: the comparison in words
	Needs               []string // what would tell, where it cannot be told
	Because             string   // the policy's reason; with its source
}

// Verdict is a lane with its reasons.
type Verdict struct {
	Lane    string
	Named   bool     // false: the evidence does not suffice for a lane
	Reasons []Reason // the rules that hold
	Needs   []string // commands that would supply what is missing
	Next    []string
	For     string // release of PyTorch that it is given for
}

// Reason is a rule of the verdict that holds.
type Reason struct {
	Then    string   // what follows: MPS, MPS is out
	Rule    string   // its name
	Because string   // with its source
	By      []string // what it went by
}

// Beside is a run held beside another one, the earlier or the other device's.
type Beside struct {
	Name    string   // what a reader calls the other run
	Against string   // why times cannot be compared; "" where they can
	Remarks []string // what else limits the comparison
	Changed []Changed
	Figures []FigureBeside
	Run     *evidence.Run // the other one
}

// Changed is one thing about the two runs that is not the same: "" means not there, or not known.
type Changed struct{ Part, Name, There, Here string }

// FigureBeside is one figure of both runs.
type FigureBeside struct {
	Name, Unit  string
	There, Here *float64 // nil: not known, and Why says why
	WhyThere    string
	WhyHere     string
	Change      float64  // ratio of Here to There, less 1; NaN where it cannot be said
	Low, High   *float64 // 95 % interval of Change; nil where no spread is known
	Noise       bool     // the difference may be noise
	Ground      string   // how that is known, or why it is not
}

// noGates is what the page says where nobody asked for gates.
const noGates = "No gates were asked: write rules into gates.toml, or give assay run --policy default; assay gate RUN holds this one against " +
	"those that come with assay."

// judgedView is Judged as the template prints it.
type judgedView struct {
	Judged
	Chip string // class of the outcome
	Rows []gateRow
	Pass []string // names of the gates that pass, where others do not
}

type gateRow struct {
	JudgedGate
	Chip string
}

// chipOf is the class of an outcome: a word from a file is never one itself.
func chipOf(outcome string) string {
	switch outcome {
	case "pass":
		return "good"
	case "fail":
		return "bad"
	case "cannot tell":
		return "open"
	}
	return "off"
}

// judgedOf puts the gates that do not pass first: they decide.
func judgedOf(j *Judged) judgedView {
	if j == nil {
		j = &Judged{}
	}
	v := judgedView{Judged: *j, Chip: chipOf(j.Outcome)}
	if j.Policy == "" {
		v.NoGates = orElse(j.NoGates, noGates)
	}
	rank := map[string]int{"fail": 0, "cannot tell": 1, "pass": 2}
	for _, g := range j.Gates {
		v.Rows = append(v.Rows, gateRow{g, chipOf(g.Outcome)})
	}
	slices.SortStableFunc(v.Rows, func(a, b gateRow) int {
		of := func(g gateRow) int {
			if r, ok := rank[g.Outcome]; ok {
				return r
			}
			return 3
		}
		return of(a) - of(b)
	})
	return v
}

// besideView is a comparison as the template prints it.
type besideView struct {
	Name, Against string
	Remarks       []string
	Figures       table
	Changed       table
	Loss          template.HTML
}

// headline are the figures that a reviewer looks for first; the others follow as they differ.
var headline = []string{"step.time", "samples.rate", "epoch.time", "epoch.estimate", "memory.live.peak",
	"memory.pool.peak", "memory.resident.peak", "memory.growth", "loss.last", "fallback.calls",
	"facts.wrong", "facts.aborts"}

// grounds leaves out of a ground what the note of the table says once.
var grounds = strings.NewReplacer("; how much one run differs from the next is not known: one run a side", "",
	"one value a side: no spread is known", "no spread is known", "a count: nothing in it is by chance", "a count")

// isClock reports whether a figure of that unit tells how long something takes.
func isClock(u string) bool { return u == "s" || u == "1/s" }

// baselineOf is the table of what gates held against earlier runs.
func baselineOf(j *Judged) table {
	t := table{ID: "t-baseline", Alone: true, Caption: "Figures beside their baseline",
		Note: "The baseline is the centre of earlier runs that are alike; the interval is of 95 %",
		Cols: []column{{"figure", false}, {"baseline", true}, {"here", true}, {"change", true}, {"interval", true},
			{"runs", false}}}
	if j != nil {
		for _, f := range j.Baseline {
			t.Rows = append(t.Rows, f.cells(false))
		}
	}
	return t
}

// cells of a figure of two sides: name, both values, change, interval, and how sure that is. Between other work no
// change of a time is worked out.
func (f FigureBeside) cells(otherWork bool) []cell {
	side := func(x *float64, why string) cell {
		if x == nil {
			return cell{Text: "unknown", Small: why, Faint: true, Num: true}
		}
		return measure(*x, f.Unit)
	}
	change, interval, sure := unknownCell(), unknownCell(), text(grounds.Replace(f.Ground))
	switch {
	case f.There == nil || f.Here == nil:
		sure = text("")
	case otherWork && isClock(f.Unit):
		sure = cell{Text: "not compared", Faint: true}
	case *f.There == *f.Here:
		change = cell{Text: "=", Sort: "0", Num: true}
	case !math.IsNaN(f.Change):
		change = cell{Text: percent(f.Change), Sort: full(f.Change), Num: true}
		if f.Noise {
			change.Text += " ~"
		}
		if f.Low != nil && f.High != nil {
			interval = cell{Text: percent(*f.Low) + " to " + percent(*f.High), Sort: full(*f.Low), Num: true}
		}
	}
	return []cell{code(f.Name), side(f.There, f.WhyThere), side(f.Here, f.WhyHere), change, interval, sure}
}

func besideOf(run *evidence.Run, b *Beside) *besideView {
	if b == nil {
		return nil
	}
	v := &besideView{Name: b.Name, Against: b.Against, Remarks: b.Remarks}
	v.Figures = table{ID: "t-beside", Alone: true, Caption: "Figures of both runs",
		Note: "~: may be noise; of one run a side it is not known how much one run differs from the next. " +
			"Intervals are of 95 %, each of one figure alone", Empty: "No figure is known of both runs.",
		Cols: []column{{"figure", false}, {"there", true}, {"here", true}, {"change", true}, {"interval", true},
			{"how sure", false}}}
	figures := slices.Clone(b.Figures)
	rank := func(f FigureBeside) int {
		if i := slices.Index(headline, f.Name); i >= 0 {
			return i
		}
		switch known := f.There != nil && f.Here != nil; {
		case known && !f.Noise && *f.There != *f.Here:
			return len(headline)
		case known && *f.There != *f.Here:
			return len(headline) + 1
		case known:
			return len(headline) + 2
		}
		return len(headline) + 3
	}
	slices.SortStableFunc(figures, func(x, y FigureBeside) int { return rank(x) - rank(y) })
	for _, f := range figures {
		v.Figures.Rows = append(v.Figures.Rows, f.cells(b.Against != ""))
	}
	v.Changed = table{ID: "t-changed", Caption: "What is not the same", Empty: "Nothing that was recorded differs.",
		Cols: []column{{"part", false}, {"what", false}, {"there", false}, {"here", false}}}
	for _, c := range b.Changed {
		v.Changed.Rows = append(v.Changed.Rows, []cell{text(c.Part), text(c.Name), code(orElse(c.There, "–")),
			code(orElse(c.Here, "–"))})
	}
	if b.Run != nil {
		if c := lossesBeside(run, b.Run); c.drawn() && len(c.Series) == 2 {
			v.Loss = c.render()
		}
	}
	return v
}

// lossesBeside draws the losses of both runs over the number of the step.
func lossesBeside(run, other *evidence.Run) *chart {
	c := &chart{ID: "plot-losses", Title: "Loss of both runs", Unit: "1", XUnit: "1", XName: "step", Low: true, XMin: 1,
		XMax: float64(max(2, stepsSeen(run), stepsSeen(other))),
		Desc: "The loss as passed to backward of this run and of the other, over the number of the step."}
	for i, r := range []*evidence.Run{run, other} {
		drawn := lossChart(r).Series
		for _, s := range drawn {
			if s.known() > 1 {
				s.Name, s.Class = []string{"here", "there"}[i], []string{"s2", "s4"}[i]
				c.Series = append(c.Series, s)
			}
		}
	}
	return c
}

// percent prints a change with its sign.
func percent(change float64) string {
	s := fmt.Sprintf("%+.1f %%", 100*change)
	if math.Abs(change) >= 10 { // 1,000 %: times
		s = fmt.Sprintf("×%.3g", 1+change)
	}
	return strings.Replace(s, "-", "−", 1)
}
