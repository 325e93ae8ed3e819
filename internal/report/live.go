package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/evidence"
	"assay/internal/stats"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// Live draws a run that is under way: as a frame that fits a terminal and is drawn in place, or as lines for a pipe.
type Live struct {
	Width  int // columns; 0 means 80
	Height int // lines; 0 means 24
	Color  bool
}

// Ahead is how long something will take, as far as can be told by now. The zero one: nothing can be told.
type Ahead struct {
	Of                 string // epoch, loop, run
	Steps              int    // of the whole of it
	Seconds, Low, High float64
}

// Frame is the run as lines, no wider and no more than the terminal has.
func (l Live) Frame(run *evidence.Run, ahead Ahead) []string {
	if l.Width <= 0 {
		l.Width = usualWidth
	}
	if l.Height <= 0 {
		l.Height = 24
	}
	s := &screen{Text: Text{Width: min(max(l.Width, 20), widest), Color: l.Color}, run: run, device: run.Target.Device,
		steps: stepsSeen(run) > 0}
	var out []string
	for _, part := range []func() []string{s.liveHead, func() []string { return s.liveProgress(ahead) }, s.liveSteps,
		s.liveSplit, s.liveLoss, s.liveMemory, s.liveHost, s.liveFindings} {
		out = append(out, part()...)
	}
	if most := max(l.Height-1, 1); len(out) > most { // the cursor stands below
		out = append(out[:most-1], s.short("", "… more in assay show, when the run has ended"))
	}
	for i := range out {
		out[i] = fit(out[i], l.Width)
	}
	return out
}

// fit cuts a line that may have colours to so many columns: one that is wider would take two lines of the terminal.
func fit(line string, width int) string {
	n, within, after := 0, false, ""
	for at, r := range line {
		switch {
		case r == '\x1b':
			within, after = true, "\x1b[0m"
		case within:
			within = r != 'm'
		default:
			if n++; n > width {
				return line[:at] + after
			}
		}
	}
	return line
}

// Line is the run in one line.
func (l Live) Line(run *evidence.Run, ahead Ahead) string {
	var parts []string
	n := stepsSeen(run)
	if n == 0 {
		return clean.Line(subjectName(run) + ": " + noStepYet(run))
	}
	parts = append(parts, unit.Seconds(elapsed(run)), fmt.Sprintf("step %s", thousands(n)))
	if p := progressOf(run, ahead); p.of != "" {
		parts = append(parts, p.text())
	}
	if step, _ := lately(run); step > 0 {
		parts = append(parts, unit.Seconds(step)+" a step")
	}
	if v, _, ok := lastLoss(run); ok {
		parts = append(parts, "loss "+unit.Format(v, "1"))
	}
	if m := memoryNow(run); m != "" {
		parts = append(parts, m)
	}
	return clean.Line(strings.Join(parts, ", "))
}

// short is one line behind a name, cut to the screen.
func (s *screen) short(name, text string) string {
	head, _ := s.margin(name)
	return s.paint("1", head) + cut(clean.Line(text), s.Width-utf8.RuneCountInString(head))
}

// drawn is a drawing behind a name, and text after it.
func (s *screen) drawn(name, code, drawing, text string) string {
	head, _ := s.margin(name)
	left := s.Width - utf8.RuneCountInString(head) - utf8.RuneCountInString(drawing)
	return s.paint("1", head) + s.paint(code, drawing) + cut(clean.Line(text), left)
}

// room is how many columns a drawing has beside its text.
func (s *screen) room() int { return max((s.Width-label)/2, 8) }

func (s *screen) liveHead() []string {
	run := s.run
	text := subjectName(run)
	if d := deviceName(run.Target); d != "" {
		text += " on " + d
	}
	if run.Target.Framework != "" {
		text += ", " + strings.TrimSpace(run.Target.Framework+" "+run.Target.Release)
	}
	text += ", under way for " + unit.Seconds(elapsed(run))
	line := cut(clean.Line(text), s.Width)
	if n := stepsSeen(run); n == 0 {
		return []string{s.paint("1", line), s.short("steps", noStepYet(run))}
	}
	return []string{s.paint("1", line)}
}

// noStepYet says of a run without a step what it has come to.
func noStepYet(run *evidence.Run) string {
	switch {
	case len(run.Processes) == 0:
		return "no Python has begun yet"
	case run.Target.Framework == "":
		return "no framework imported yet"
	}
	return "no training step yet"
}

// progress is how far the run has come in what an estimate is of.
type progress struct {
	of              string // "": not known
	number          int    // of the epoch
	done, whole     int    // steps
	left, low, high float64
	seconds         float64 // the whole of it
}

func progressOf(run *evidence.Run, ahead Ahead) progress {
	p := progress{of: ahead.Of, done: stepsSeen(run), whole: ahead.Steps, seconds: ahead.Seconds}
	if ahead.Of == "epoch" {
		if len(run.Epochs) == 0 { // declared, and not counted by the agent
			p.done = (p.done-1)%max(ahead.Steps, 1) + 1
		} else {
			e := run.Epochs[len(run.Epochs)-1]
			p.number, p.done = e.Number, e.Last-e.First+1
		}
	}
	if p.whole <= 0 {
		return progress{}
	}
	p.done = min(p.done, p.whole)
	part := float64(p.whole-p.done) / float64(p.whole)
	p.left, p.low, p.high = ahead.Seconds*part, ahead.Low*part, ahead.High*part
	return p
}

func (p progress) name() string {
	if p.number > 0 {
		return fmt.Sprintf("%s %d", p.of, p.number)
	}
	return p.of
}

// text says it in words: "epoch 3: 210 of 469 steps, 45 %, about 1.20 min to go (1.10–1.30 min), 2.30 min in all".
func (p progress) text() string {
	s := fmt.Sprintf("%s: %s of %s, %d %%", p.name(), thousands(p.done), count(p.whole, "step"), 100*p.done/p.whole)
	if p.done < p.whole {
		between := spread(evidence.Figure{Low: &p.low, High: &p.high, Unit: "s"})
		s += ", about " + unit.Seconds(p.left) + " to go (" + between + ")"
	}
	return s + ", " + unit.Seconds(p.seconds) + " in all"
}

func (s *screen) liveProgress(ahead Ahead) []string {
	run := s.run
	if !s.steps {
		return nil
	}
	p := progressOf(run, ahead)
	if p.of == "" {
		text := "step " + thousands(stepsSeen(run))
		if n := len(run.Epochs); n > 0 {
			text += fmt.Sprintf(" in epoch %d", run.Epochs[n-1].Number)
		}
		return []string{s.short("progress", text+"; how long it takes cannot be told yet")}
	}
	head, _ := s.margin("progress")
	width := s.Width - len(head)
	full := width * p.done / p.whole
	out := []string{s.drawn("progress", "32", strings.Repeat("█", full)+strings.Repeat("░", width-full), "")}
	out = append(out, s.row("", p.text())...)
	if ahead.Of == "epoch" && run.Rehearsal == nil {
		if text, over := beyond(run, ahead.Seconds); over {
			out = append(out, s.item("", "warning:", "an epoch is "+text, "33")...)
		}
	}
	return out
}

// lately is the median of the last fifty steps that no instrument touched, in seconds, and how many they are.
func lately(run *evidence.Run) (median float64, n int) {
	var xs []float64
	for i := len(run.Steps.Total) - 1; i >= 0 && len(xs) < 50; i-- {
		if k := run.Steps.Kind[i]; k == "" || k == "bare" {
			xs = append(xs, run.Steps.Total[i])
		}
	}
	if len(xs) == 0 {
		return 0, 0
	}
	return stats.Median(xs), len(xs)
}

func (s *screen) liveSteps() []string {
	total := s.run.Steps.Total
	median, n := lately(s.run)
	if n == 0 {
		return nil
	}
	last := total[max(0, len(total)-s.room()):]
	// One long step must not flatten the others.
	top := min(slices.Max(last), 3*median)
	return []string{s.drawn("step", "36", sparkline(last, 0, top), fmt.Sprintf(" %s, median of the last %d",
		unit.Seconds(median), n))}
}

func (s *screen) liveSplit() []string {
	phases := phasesOf(s.run)
	var shares []evidence.Figure
	var words []string
	for _, p := range phases {
		f := s.run.Figure("share." + p.Key)
		shares = append(shares, f)
		if f.Known() && *f.Value >= 0.005 {
			words = append(words, fmt.Sprintf("%s %.0f %%", p.Name, 100**f.Value))
		}
	}
	if words == nil {
		return nil
	}
	out := s.row("split", strings.Join(words, ", "))
	_, left := s.margin("")
	if bar := s.bar(phases, shares, s.Width-len(left)); bar != "" {
		out = append(out, left+bar)
	}
	return out
}

func lastLoss(run *evidence.Run) (value float64, step int, ok bool) {
	for i := len(run.Loss.Value) - 1; i >= 0; i-- {
		if v := run.Loss.Value[i]; v != nil {
			return *v, run.Loss.Step[i], true
		}
	}
	return 0, 0, false
}

func (s *screen) liveLoss() []string {
	value, step, ok := lastLoss(s.run)
	if !ok {
		return nil
	}
	var xs []float64
	for _, v := range s.run.Loss.Value {
		if v != nil && !math.IsInf(*v, 0) && !math.IsNaN(*v) {
			xs = append(xs, *v)
		}
	}
	if len(xs) == 0 {
		return []string{s.short("loss", "not finite")}
	}
	text := " " + unit.Format(value, "1") + " at step " + thousands(step)
	if n := len(s.run.Numerics.NonFiniteLosses); n > 0 {
		text += fmt.Sprintf("; not finite in %s", count(n, "step"))
	}
	xs = means(xs, s.room())
	return []string{s.drawn("loss", "35", sparkline(xs, slices.Min(xs), slices.Max(xs)), text)}
}

// memoryNow is what memory is in use: the device's at the last reading, and the process's.
func memoryNow(run *evidence.Run) string {
	var parts []string
	for _, col := range []struct {
		name string
		xs   []float64
	}{{"live", run.Steps.Live}, {"pool", run.Steps.Pool}} {
		for i := len(col.xs) - 1; i >= 0; i-- {
			if col.xs[i] >= 0 {
				parts = append(parts, col.name+" "+unit.Bytes(col.xs[i]))
				break
			}
		}
	}
	return strings.Join(append(parts, sampled(run, [][2]string{{"process.footprint", "footprint"},
		{"process.resident", "resident"}, {"host.swap.used", "swap"}})...), ", ")
}

// sampled are those figures of the host's last sample that are known, each with its name.
func sampled(run *evidence.Run, names [][2]string) (parts []string) {
	if len(run.Host.Samples) == 0 {
		return nil
	}
	for _, name := range names {
		for _, f := range run.Host.Samples[len(run.Host.Samples)-1].Figures {
			if f.Name == name[0] && f.Known() {
				parts = append(parts, name[1]+" "+number(f))
			}
		}
	}
	return parts
}

func (s *screen) liveMemory() []string { return s.row("memory", memoryNow(s.run)) }

func (s *screen) liveHost() []string {
	return s.row("machine", strings.Join(sampled(s.run, [][2]string{{"host.cpu", "CPU"}, {"gpu.busy", "GPU"},
		{"gpu.power", "GPU power"}, {"power.system", "power"}, {"host.memory.available", "memory free"},
		{"host.pressure", "memory pressure"}}), ", "))
}

// liveFindings are what a person should read already. That no loop was seen is none yet.
func (s *screen) liveFindings() []string {
	early := *s.run
	early.Findings = slices.DeleteFunc(slices.Clone(early.Findings), func(f evidence.Finding) bool {
		return f.Name == "loop-not-recognised" || f.Name == "long-epoch" // liveProgress warns of that one
	})
	if len(early.Findings) == 0 {
		return nil
	}
	now := *s
	now.run = &early
	return now.findings()
}

// elapsed is how long the run goes on, in seconds, as far as its events tell.
func elapsed(run *evidence.Run) float64 {
	seconds := run.Ended.Sub(run.Started).Seconds()
	if n := len(run.Steps.Start); n > 0 {
		seconds = max(seconds, run.Steps.Start[n-1]+run.Steps.Total[n-1])
	}
	return max(seconds, 0)
}

// sparkline draws values as bars of eight heights between low and high; what lies beyond is drawn as these are.
func sparkline(xs []float64, low, high float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, x := range xs {
		at := 0.
		if high > low {
			at = (x - low) / (high - low)
		}
		b.WriteRune(bars[min(max(int(at*float64(len(bars))), 0), len(bars)-1)])
	}
	return b.String()
}

// means are the values, or the means of n stretches of them where they are more.
func means(xs []float64, n int) []float64 {
	if len(xs) <= n {
		return xs
	}
	out := make([]float64, n)
	for i := range out {
		part := xs[i*len(xs)/n : (i+1)*len(xs)/n]
		for _, x := range part {
			out[i] += x / float64(len(part))
		}
	}
	return out
}

// cut shortens text to n columns.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}
