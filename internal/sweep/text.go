package sweep

import (
	"fmt"
	"io"
	"math"
	"strings"

	clean "assay/internal/text"
	"assay/internal/unit"
)

// Table prints trials as lines of one width each: a line can be printed when its trial has ended, and stands.
type Table struct {
	Plan Plan
}

// Head is the line of the columns' names.
func (t Table) Head() string {
	grid := ""
	if t.Plan.Grid != "" {
		grid = fmt.Sprintf("%-10s ", cutTo(t.Plan.Grid, 10))
	}
	what := "for"
	if t.Plan.Remedies != nil {
		what = "with"
	}
	return fmt.Sprintf("%3s %s%7s  %-11s %10s %8s %10s %9s %9s  %s", "#", grid, "batch", "ended", "peak", "of limit",
		"rows/s",
		"a step", "swap", what)
}

// Line is the line of a trial; limit is what the allocator may hold, bytes, 0: not known.
func (t Table) Line(x Trial, limit float64) string {
	grid := ""
	if t.Plan.Grid != "" {
		grid = fmt.Sprintf("%-10s ", cutTo(x.Cell, 10))
	}
	batch := "as it is"
	if x.Batch > 0 {
		batch = fmt.Sprint(x.Batch)
	}
	share, rate, step, swap := "–", "–", "–", "–"
	peak := x.peakText()
	if x.Peak == nil {
		peak = "–"
	} else if limit > 0 {
		share = fmt.Sprintf("%.1f %%", 100**x.Peak/limit)
	}
	if x.Ending == EndedWell && t.Plan.Timed {
		if x.Rate != nil {
			rate = unit.Format(*x.Rate, "1")
		}
		if x.Step != nil {
			step = unit.Seconds(*x.Step)
		}
	}
	if x.Swap != nil {
		swap = unit.Bytes(*x.Swap)
	}
	what := x.For
	if t.Plan.Remedies != nil {
		if what = x.Remedy; what == "" {
			what = "nothing: as it is"
		}
	}
	line := fmt.Sprintf("%3d %s%7s  %-11s %10s %8s %10s %9s %9s  %s", x.Number, grid, batch, x.Ending, peak, share,
		rate, step,
		swap, what)
	if x.Ending != EndedWell && x.Text != "" {
		line += "\n      " + Brief(x.Text)
	}
	return clean.Lines(line)
}

// mostText is how many characters of an ending's text the table and the page have; the record has all of it.
const mostText = 110

// Brief is an ending's text as the table and the page have it.
func Brief(text string) string { return cutTo(clean.Line(text), mostText) }

func cutTo(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// WriteAnswers prints what a sweep came to.
func WriteAnswers(w io.Writer, d *Document) error {
	var b strings.Builder
	b.WriteByte('\n')
	if d.Body.Asked.Plan.Remedies != nil {
		writeBought(&b, d)
	}
	for _, a := range d.Body.Answers {
		if a.Cell != "" {
			fmt.Fprintf(&b, "%s %s\n", d.Body.Asked.Plan.Grid, a.Cell)
		}
		said := func(name string, batch int, text string) {
			value := "–"
			if batch > 0 {
				value = fmt.Sprint(batch)
			}
			fmt.Fprintf(&b, "%-11s %6s  %s\n", name, value, text)
		}
		said("largest", a.Largest, a.LargestText)
		if a.ProofText != "" {
			fmt.Fprintf(&b, "%-11s %6s  %s\n", "", "", a.ProofText)
		}
		said("knee", a.Knee, a.KneeText)
		said("recommended", a.Recommended, a.RecommendedText)
		if a.Limit != nil {
			fmt.Fprintf(&b, "%-11s %6s  %s (%s); %d trials to the largest\n", "limit", "", unit.Bytes(*a.Limit),
				a.LimitBy, a.Trials)
		}
		if a.Error != "" {
			fmt.Fprintf(&b, "%-11s %6s  %s\n", "ended by", "", a.Error)
		}
	}
	for _, text := range Steady(d) {
		fmt.Fprintf(&b, "%-11s %6s  %s\n", "note", "", text)
	}
	if d.Body.Stopped != "" {
		fmt.Fprintf(&b, "stopped: %s; the same command goes on\n", d.Body.Stopped)
	}
	_, err := io.WriteString(w, clean.Lines(b.String()))
	return err
}

// Steady says where the workers or the seeds of the trials were not the same, or nobody set a seed: the trials are then
// not of one script alone.
func Steady(d *Document) (notes []string) {
	workers, seeds := map[int]bool{}, map[string]bool{}
	first := map[string]Trial{}
	for _, t := range d.Body.Trials {
		if t.Trained == 0 {
			continue
		}
		if _, ok := first[t.Cell]; !ok {
			first[t.Cell] = t
		}
		if t.Workers != nil && len(d.Body.Asked.Plan.Cells) == 0 {
			workers[*t.Workers] = true
		}
		seeds[strings.Join(t.Seeds, "; ")] = true
	}
	if len(workers) > 1 {
		notes = append(notes, "the trials had different numbers of workers")
	}
	if len(seeds) > 1 {
		notes = append(notes, "the trials had different seeds: each has its own in the record")
	}
	return notes
}

func writeBought(b *strings.Builder, d *Document) {
	fmt.Fprintf(b, "%-14s %10s %10s  %s\n", "remedy", "memory", "time", "loss")
	for _, x := range d.Body.Bought {
		fmt.Fprintf(b, "%-14s %10s %10s  %s\n", x.Remedy, change(x.Memory), change(x.Time), x.LossText())
	}
}

// change is a ratio for a reader: −12.3 %.
func change(v *float64) string {
	if v == nil {
		return "–"
	}
	text := fmt.Sprintf("%+.1f %%", 100**v)
	if math.Abs(*v) < 0.0005 {
		text = "same"
	}
	return strings.Replace(text, "-", "−", 1)
}

// LossText says what became of the loss.
func (x Bought) LossText() string {
	text := "unknown"
	switch {
	case x.Loss != nil && *x.Loss == 0:
		text = fmt.Sprintf("equal in %d steps", x.Losses)
	case x.Loss != nil:
		text = fmt.Sprintf("differs by %s at most in %d steps", unit.Format(*x.Loss, "ratio"), x.Losses)
	}
	switch {
	case x.Text == "":
		return text
	case x.Memory == nil && x.Loss == nil: // it was no trial to compare with
		return x.Text
	}
	return text + "; " + x.Text
}
