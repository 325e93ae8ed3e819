package suite

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/text"
)

// Row is what one operator, or one other reason that the device gave, did to the tests of a run.
type Row struct {
	Operator string // "": the refusal names none
	Cause    string
	Tests    []*Test
	Where    string // the line at which most of them met it
	From     string // first release of PyTorch, as 2.9, from which on MPS runs the operator; "": none, or not known
	Remedy   string
}

// Rows are the tests of a run that failed by a refusal of the device, by operator and cause: most tests first.
func (r *Run) Rows() []Row {
	at := map[[2]string]int{}
	var rows []Row
	for i := range r.Tests {
		t := &r.Tests[i]
		if !t.Bad() || t.Cause == "" {
			continue
		}
		key := [2]string{t.Operator, t.Cause}
		if _, known := at[key]; !known {
			at[key] = len(rows)
			rows = append(rows, Row{Operator: t.Operator, Cause: t.Cause})
		}
		rows[at[key]].Tests = append(rows[at[key]].Tests, t)
	}
	a := &atlas.Atlas{}
	remedies := facts.Load().Remedies(a, r.Torch)
	for i := range rows {
		row := &rows[i]
		row.Where = commonest(row.Tests)
		row.Remedy = remedies.Of(row.Operator, row.Cause, row.Tests[0].Text)
		if op, ok := a.Operator(row.Operator); ok && row.Cause == "missing" {
			if runs := a.Runs(op); len(runs) > 0 {
				row.From = runs[0].From
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(len(b.Tests), len(a.Tests)), cmp.Compare(a.Operator, b.Operator),
			cmp.Compare(a.Cause, b.Cause))
	})
	return rows
}

// commonest is the line that most of the tests name, the first of those that are as many.
func commonest(tests []*Test) string {
	n, best := map[string]int{}, ""
	for _, t := range tests {
		if t.Where != "" {
			n[t.Where]++
		}
	}
	for _, t := range tests {
		if n[t.Where] > n[best] {
			best = t.Where
		}
	}
	return best
}

// Counts are how many tests of a run came out how, and which of them say something about the device.
type Counts struct {
	Of      map[Outcome]int
	Bad     int // Test.Bad
	CPUToo  int // failed, and on the CPU as well
	Touched int // had a tensor on the device
	Wrong   int // passed, and called what computes wrongly for sure
}

// Count counts the tests of a run.
func (r *Run) Count() Counts {
	c := Counts{Of: map[Outcome]int{}}
	for i := range r.Tests {
		t := &r.Tests[i]
		c.Of[t.Outcome]++
		if t.Bad() {
			c.Bad++
		} else if t.Outcome.fails() {
			c.CPUToo++
		}
		if t.Device {
			c.Touched++
		}
		if t.Outcome == Passed && len(t.Wrong) > 0 {
			c.Wrong++
		}
	}
	return c
}

// Status is the exit status of a result: 0 where no test failed that passes on the CPU, and all were run; 1 where one
// did or was not; pytest's own where that is of another kind: 2 interrupted, or a module that was not collected, 3, 4,
// 5.
func (r *Result) Status() int {
	worst := 0
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Status > 1 {
			worst = max(worst, run.Status)
		} else if run.Count().Bad > 0 || run.Missing != "" {
			worst = max(worst, 1)
		}
	}
	return worst
}

// maxListed is how many tests a part of the text names.
const maxListed = 20

// Text writes what a result comes to, in lines of at most width columns where their words allow. What strangers wrote
// moves no cursor and begins no line.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	for i := range r.Runs {
		if i > 0 {
			b.WriteString("\n")
		}
		r.Runs[i].text(&b, width)
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

// Name says on what a run was: torch 2.8.0 on the double.
func (r *Run) Name() string {
	on := map[string]string{"double": "the double", "mps": "MPS", "cuda": "CUDA", "cpu": "the CPU"}[r.On]
	return "torch " + cmp.Or(r.Torch, "(unknown release)") + " on " + cmp.Or(on, r.On)
}

func (r *Run) text(b *strings.Builder, width int) {
	c := r.Count()
	if r.Deviceless(c) {
		b.WriteString(text.Wrapped("NO TEST HAD A TENSOR ON THE DEVICE: what follows says nothing about it. Give the "+
			"suite's own option for the device, as --device mps, if it has one; or have it make its tensors there where "+
			"it names no device: assay test --device-default.", "", "  ", width))
	}
	rows := r.Rows()
	if len(rows) > 0 {
		b.WriteString(text.Wrapped(fmt.Sprintf("By operator, %s:", r.Name()), "", "  ", width))
		operator := 8
		for _, row := range rows {
			operator = max(operator, len(row.title()))
		}
		operator = min(operator, 44)
		fmt.Fprintf(b, "  %-*s  %5s  %-7s  %s\n", operator, "operator", "tests", "from", "line")
		for _, row := range rows {
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  %5d  %-7s  %s", operator, row.title(), len(row.Tests),
				cmp.Or(row.From, "-"), cmp.Or(row.Where, "-")), " ") + "\n")
			if row.Remedy != "" {
				b.WriteString(text.Wrapped(row.Remedy, "      ", "      ", width))
			}
		}
	}
	part := func(title string, belongs func(*Test) bool, said func(*Test) string) {
		var lines []string
		for i := range r.Tests {
			if t := &r.Tests[i]; belongs(t) {
				lines = append(lines, text.Wrapped(strings.TrimSuffix(t.ID+"  "+said(t), "  "), "  ", "      ", width))
			}
		}
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(b, "%s (%d):\n", title, len(lines))
		for i, line := range lines {
			if i == maxListed {
				fmt.Fprintf(b, "  and %d more: suite.json has them\n", len(lines)-i)
				break
			}
			b.WriteString(line)
		}
	}
	message := func(t *Test) string {
		return text.Short(strings.TrimPrefix(strings.TrimSuffix(t.Error+": "+t.Text, ": "), ": "), 200)
	}
	part("Not collected", func(t *Test) bool { return t.Phase == Collecting && t.Bad() }, message)
	part("Failed without a refusal by the device",
		func(t *Test) bool { return t.Outcome == Failed && t.Phase != Collecting && t.Bad() && t.Cause == "" }, message)
	part("Failed on the CPU too", func(t *Test) bool {
		return !t.Bad() && t.Outcome.fails()
	}, func(t *Test) string { return "" })
	part("Ended their process", func(t *Test) bool { return t.Outcome == Ended && t.Bad() }, message)
	part("Had no end", func(t *Test) bool { return t.Outcome == Hung && t.Bad() }, message)
	part("Passed, and called what computes wrongly on MPS for some values",
		func(t *Test) bool { return t.Outcome == Passed && len(t.Wrong) > 0 },
		func(t *Test) string { return strings.Join(t.Wrong, ", ") })
	if r.Missing != "" {
		b.WriteString(text.Wrapped("Not all tests were run: "+r.Missing+".", "", "  ", width))
	}
	total := len(r.Tests)
	if untouched := total - c.Touched - c.Of[NotRun] - c.Of[Skipped]; c.Touched > 0 && untouched > 0 {
		b.WriteString(text.Wrapped(fmt.Sprintf("%d of %d tests had no tensor on the device: they say nothing about it.",
			untouched, total-c.Of[NotRun]), "", "  ", width))
	}
	b.WriteString(text.Wrapped(r.total(c), "", "  ", width))
}

// seesTensors are the devices on which the agent sees each call with a tensor on it.
var seesTensors = map[string]bool{"double": true}

// Deviceless says that no test of a run had a tensor on the device, where that is known.
func (r *Run) Deviceless(c Counts) bool {
	return seesTensors[r.On] && c.Touched == 0 && len(r.Tests) > c.Of[NotRun]+c.Of[Skipped]
}

func (row *Row) title() string {
	name := cmp.Or(row.Operator, "(no operator)")
	if row.Cause != "missing" {
		name += ": " + row.Cause
	}
	return name
}

// total is the run in a line.
func (r *Run) total(c Counts) string {
	parts := []string{fmt.Sprintf("%d passed", c.Of[Passed]), fmt.Sprintf("%d failed", c.Of[Failed])}
	for _, x := range []struct {
		of   Outcome
		what string
	}{{Ended, "ended their process"}, {Hung, "had no end"}, {Skipped, "skipped"}, {XFailed, "failed as expected"},
		{XPassed, "passed unexpectedly"}, {NotRun, "not run"}} {
		if c.Of[x.of] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Of[x.of], x.what))
		}
	}
	s := fmt.Sprintf("%s: %s.", r.Name(), strings.Join(parts, ", "))
	if c.CPUToo > 0 {
		s += fmt.Sprintf(" %d of the failed fail on the CPU too.", c.CPUToo)
	}
	if c.Bad == 0 && r.Missing == "" && len(r.Tests) > 0 {
		return s + " Nothing fails that passes on the CPU."
	}
	if c.Bad > 0 {
		verb := "fail"
		if c.Bad == 1 {
			verb = "fails"
		}
		s += fmt.Sprintf(" %d %s here alone.", c.Bad, verb)
	}
	return s
}
