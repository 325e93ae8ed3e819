package report

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
	"unicode/utf8"

	"assay/internal/evidence"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// textLines is the height of the summary: it fits a terminal of 34 lines, whatever the run.
const textLines = 34

// Text is the summary for a terminal: one screen of at most 34 lines. Long lists are folded; the page has them whole.
type Text struct {
	Width    int    // columns; 0 means 100
	Color    bool   // ANSI colours
	Report   string // path of report.html, for the last lines; "" leaves the line out
	Evidence string // path of evidence.json
}

// Name of the form.
func (Text) Name() string { return "text" }

// Write the summary.
func (t Text) Write(w io.Writer, run *evidence.Run) error {
	if t.Width <= 0 {
		t.Width = 100
	}
	t.Width = max(t.Width, 60)
	s := &screen{Text: t, run: run, device: run.Target.Device}
	out := bufio.NewWriter(w)
	for _, line := range s.lines() {
		if !t.Color { // with colours each part has been cleaned by itself
			line = clean.Line(line)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// screen lays one run out.
type screen struct {
	Text
	run    *evidence.Run
	device string
}

// label is the width of the left column.
const label = 11

func (s *screen) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) row(name, text string) string {
	return s.paint("1", pad(name, label)) + cut(text, s.Width-label)
}

// lines puts the parts together. The lists share what the fixed parts leave of the screen.
func (s *screen) lines() []string {
	run := s.run
	head := s.head()
	step := s.step()
	mid := append(s.time(), s.memory()...)
	if run.Rehearsal != nil {
		mid = append(mid, s.row("rehearsed", clean.Line(rehearsedText(run))))
		if t := run.Rehearsal.Tests; t != nil {
			for i, line := range wrapAfter(clean.Line(testsText(t)), s.Width-label, 3) {
				mid = append(mid, s.row(first(i, "tests"), line))
			}
		}
	}
	lists := []*list{
		{name: "syncs", rows: s.syncs(), empty: noSyncs(run), most: 3},
		{name: "fallbacks", rows: s.fallbacks(), empty: noFallbacks(run), most: 3},
		{name: "operators", rows: s.operators(), empty: profileText(run.Profile), most: 3, part: true},
	}
	findings := &list{name: "findings", rows: s.findings(), empty: noFindings(run), most: 9}
	health := wrapAfter(clean.Line(numerics(run)), s.Width-label, 2)
	tail := s.tail()

	left := textLines - len(head) - len(step) - len(mid) - len(health) - len(tail)
	if shown := left - findings.height() - height(lists); shown > 0 {
		left -= min(shown, 3) // the blank lines between the parts come out of what the lists do not need
	}
	share(left, append([]*list{findings}, lists...))

	var parts [][]string
	parts = append(parts, head, step, mid)
	var body []string
	for _, l := range lists {
		body = append(body, l.draw(s)...)
	}
	for i, h := range health {
		body = append(body, s.row(first(i, "numerics"), h))
	}
	body = append(body, findings.draw(s)...)
	parts = append(parts, body, tail)
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	var out []string
	for i, p := range parts {
		if i > 0 && total < textLines {
			out = append(out, "")
			total++
		}
		out = append(out, p...)
	}
	return out
}

func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// head is the paragraph, and the basis of every figure that carries no mark.
func (s *screen) head() []string {
	run := s.run
	basis := " All figures are measured unless marked."
	if s.device != "" {
		basis = " All figures are measured on " + clean.Line(s.device) + " unless marked."
	}
	if run.Rehearsal != nil {
		basis = " All figures are rehearsed unless marked; times are this machine's and say nothing about the Mac."
	}
	text := clean.Line(verdict(run))
	lines := wrapAfter(text+basis, s.Width, 5)
	if len(lines) == 5 { // a long error: the sentence about the basis must not be what is cut
		lines = append(wrapAfter(text, s.Width, 4), strings.TrimSpace(basis))
	}
	lines[0] = s.paint("1", lines[0])
	return lines
}

// mark prints a figure and, where it is another than the usual, its basis.
func (s *screen) mark(f evidence.Figure) string { return clean.Line(number(f) + s.basisMark(f)) }

// join puts the known figures in one line, each behind its name, and says once why the others are unknown.
func (s *screen) join(parts ...named) string {
	var out []string
	var missing []string
	why := ""
	for _, p := range parts {
		switch {
		case p.f.Known():
			out = append(out, p.name+" "+number(p.f)+p.what+s.basisMark(p.f))
		case why == "" || why == reason(p.f):
			why = reason(p.f)
			missing = append(missing, p.name)
		default:
			out = append(out, p.name+" "+clean.Line(number(p.f)))
		}
	}
	if why != "" {
		out = append(out, strings.Join(missing, ", ")+" unknown: "+clean.Line(why))
	}
	return strings.Join(out, "; ")
}

type named struct {
	name string
	f    evidence.Figure
	what string // behind a known value: of what it is a part
}

// step is the median step, its window, the bar and one row per phase.
func (s *screen) step() []string {
	run := s.run
	var out []string
	median := run.Figure("step.time")
	line := s.mark(median)
	if median.Known() {
		line = "median " + line
		if q := spread(median); q != "" {
			line += ", Q1–Q3 " + q
		}
		for _, name := range []string{"step.rate", "samples.rate"} {
			if f := run.Figure(name); f.Known() {
				line += "; " + strings.TrimSuffix(unit.Format(*f.Value, f.Unit), " /s")
				line += map[string]string{"step.rate": " steps/s", "samples.rate": " samples/s"}[name] + s.basisMark(f)
			}
		}
	}
	out = append(out, s.row("step", line))
	if w, ok := windowNamed(run, median.Window); ok && median.Known() {
		out = append(out, s.row("", clean.Line(windowText(w))))
	}

	var splits, shares []evidence.Figure
	phases := phasesOf(run)
	if len(phases) == 0 {
		return out
	}
	for _, p := range phases {
		splits = append(splits, run.Figure("split."+p.Key))
		shares = append(shares, run.Figure("share."+p.Key))
	}
	if why := commonReason(splits...); why != "" {
		if why != reason(median) || median.Known() {
			out = append(out, s.row("split", "unknown: "+clean.Line(why)))
		}
		return out
	}
	window := ""
	for _, f := range splits {
		if f.Known() && f.Window != "" {
			window = f.Window
			break
		}
	}
	if window != median.Window {
		line := "from the " + window + " window"
		if w, ok := windowNamed(run, window); ok {
			line = windowText(w)
		}
		if f := run.Figure("step.time.synchronised"); f.Known() {
			line += "; a step there takes " + s.mark(f)
		}
		out = append(out, s.row("split", clean.Line(line)))
	}
	if bar := s.bar(phases, shares, s.Width-label); bar != "" {
		out = append(out, strings.Repeat(" ", label)+bar)
	}
	shareMark := s.basisMark(shares[0])
	for _, f := range shares {
		if s.basisMark(f) != shareMark {
			shareMark = "" // they differ: each row carries its own
		}
	}
	out = append(out, s.row("", s.paint("2", "  "+pad("phase", 11)+padLeft("median", 9)+"   "+pad("Q1–Q3",
		18)+"  share"+shareMark)))
	for i, p := range phases {
		f, share := splits[i], shares[i]
		line := s.paint(p.ANSI, p.Glyph) + " " + pad(p.Name, 11)
		if !f.Known() {
			out = append(out, strings.Repeat(" ", label)+line+cut("unknown: "+clean.Line(reason(f)), s.Width-label-13))
			continue
		}
		part := "share unknown"
		if share.Known() {
			part = number(share)
			if shareMark == "" {
				part += s.basisMark(share)
			}
		}
		out = append(out, strings.Repeat(" ", label)+line+
			cut(padLeft(number(f), 9)+s.basisMark(f)+"   "+pad(orElse(spread(f), "no spread"), 18)+padLeft(part, 7),
				s.Width-label-13))
	}
	return out
}

func (s *screen) basisMark(f evidence.Figure) string {
	if f.Known() && f.Disturbed != "" {
		if f.Basis != usualBasis(s.run) && f.Basis != "" {
			return " (" + string(f.Basis) + ", disturbed)"
		}
		return " (disturbed)"
	}
	if f.Known() && f.Basis != usualBasis(s.run) && f.Basis != "" {
		return " (" + string(f.Basis) + ")"
	}
	return ""
}

// bar draws the shares, one glyph a phase. Widths are rounded so that they add up to the whole.
func (s *screen) bar(phases []phase, shares []evidence.Figure, width int) string {
	var sum float64
	for _, f := range shares {
		if f.Known() && *f.Value > 0 {
			sum += *f.Value
		}
	}
	if sum <= 0 {
		return ""
	}
	var b strings.Builder
	at, drawn := 0.0, 0
	for i, f := range shares {
		if !f.Known() || *f.Value <= 0 {
			continue
		}
		at += *f.Value / sum * float64(width)
		n := int(at+.5) - drawn
		drawn += n
		b.WriteString(s.paint(phases[i].ANSI, strings.Repeat(phases[i].Glyph, n)))
	}
	return b.String()
}

// time is the first epoch apart, and how long an epoch takes.
func (s *screen) time() []string {
	run := s.run
	startup, firstEpoch := run.Figure("run.startup"), run.Figure("step.first_epoch")
	epoch := run.Figure("epoch.time")
	if why := commonReason(startup, firstEpoch, epoch); why != "" {
		if why == reason(run.Figure("step.time")) {
			return nil // said above
		}
		return []string{s.row("epochs", "unknown: "+clean.Line(why))}
	}
	line := "a step " + s.mark(firstEpoch)
	if q := spread(firstEpoch); q != "" && firstEpoch.Known() {
		line += ", Q1–Q3 " + q
	}
	out := []string{s.row("1st epoch", line+"; first step after "+s.mark(startup))}

	line = ""
	if steps := run.Figure("epoch.steps"); steps.Known() {
		line = s.mark(steps) + " steps, "
	}
	long := 0.0
	if epoch.Known() {
		line += s.mark(epoch)
		if q := spread(epoch); q != "" {
			line += ", Q1–Q3 " + q
		}
		long = *epoch.Value
	} else if est := run.Figure("epoch.estimate"); est.Known() {
		line += "about " + s.mark(est) + ", none was complete"
		long = *est.Value
	} else {
		line += s.mark(epoch)
	}
	warning := ""
	if long > 0 && run.Rehearsal == nil { // the Mac's epoch is another
		switch text, over := beyond(run, long); {
		case over:
			warning = "warning: " + text
		case text != "":
			line += "; " + text
		}
	}
	switch {
	case warning == "":
		return append(out, s.row("epoch", line))
	case utf8.RuneCountInString(line+"; "+warning) > s.Width-label:
		return append(out, s.row("epoch", line), s.row("", s.paint("33", warning)))
	}
	return append(out, s.row("epoch", line+"; "+s.paint("33", warning)))
}

func (s *screen) memory() []string {
	run := s.run
	live, pool, resident := run.Figure("memory.live.peak"), run.Figure("memory.pool.peak"),
		run.Figure("memory.resident.peak")
	mark, growth, swap := run.Figure("memory.watermark"), run.Figure("memory.growth"), run.Figure("swap.used.peak")
	if why := commonReason(live, pool, resident, mark, growth); why != "" {
		return []string{s.row("memory", "unknown: "+clean.Line(why))}
	}
	text := s.join(named{"peak live", live, ""}, named{"peak pool", pool, ""}, named{"peak resident", resident, ""},
		named{"swap", swap, ""}, named{"watermark", mark, " of the recommended maximum"},
		named{"growth", growth, " from the second epoch to the last"})
	if at := epochEnds(run.Epochs); at != "" {
		text += "; " + at
	}
	var out []string
	for i, l := range wrapAfter(text, s.Width-label, 3) {
		out = append(out, s.row(first(i, "memory"), l))
	}
	return out
}

// epochEnds lists memory at the end of each epoch, in the most telling column there is: "live at epoch ends 3.1, 3.2
// GiB".
func epochEnds(epochs []evidence.Epoch) string {
	for _, col := range []struct {
		name string
		of   func(evidence.Epoch) *float64
	}{
		{"live", func(e evidence.Epoch) *float64 { return e.Live }},
		{"resident", func(e evidence.Epoch) *float64 { return e.Resident }},
	} {
		var ends []string
		for i, e := range epochs {
			v := col.of(e)
			if v == nil || (i >= 3 && i < len(epochs)-1) { // the first three and the last
				continue
			}
			if i == len(epochs)-1 && i > 3 {
				ends = append(ends, "…")
			}
			ends = append(ends, unit.Bytes(*v))
		}
		if len(ends) > 1 {
			return col.name + " at epoch ends " + strings.Join(ends, ", ")
		}
	}
	return ""
}

func (s *screen) syncs() []string {
	var out []string
	rows := append([]evidence.SyncPoint(nil), s.run.Syncs...)
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Lost > rows[j].Lost })
	for _, p := range rows {
		waits := "nothing to wait for"
		if p.Waits && s.run.Rehearsal != nil {
			waits = "the host would wait"
		} else if p.Waits {
			waits = "host waited " + unit.Seconds(p.Lost)
		}
		out = append(out, fmt.Sprintf("%s %s %s× in %s; %s", pad(cut(clean.Line(p.Call), 24), 18),
			pad(tailOf(clean.Line(place(s.run, p.Where)), 30), 22),
			padLeft(thousands(p.Count), 6), count(p.Steps, "step"), waits))
	}
	return out
}

func (s *screen) fallbacks() []string {
	var out []string
	for _, f := range s.run.Fallbacks {
		line := fmt.Sprintf("%s %s %s×", pad(cut(clean.Line(f.Operator), 34), 18),
			pad(tailOf(clean.Line(place(s.run, f.Where)), 30), 22), padLeft(thousands(f.Count), 6))
		if f.Basis != usualBasis(s.run) && f.Basis != "" {
			line += " (" + string(f.Basis) + ")"
		}
		out = append(out, line)
	}
	return out
}

func (s *screen) operators() []string {
	var out []string
	rows := append([]evidence.Operator(nil), s.run.Operators...)
	sort.SliceStable(rows, func(i, j int) bool { return hot(rows[i]) > hot(rows[j]) })
	for i, o := range rows {
		line := pad(cut(clean.Line(o.Name), 32), 32) + " "
		if o.Device != nil {
			line += "device " + padLeft(unit.Seconds(*o.Device), 8) + ", "
		}
		line += fmt.Sprintf("self %s, %s×", padLeft(unit.Seconds(o.Self), 8), thousands(o.Calls))
		if i == 0 {
			line += " in " + stepRange(s.run.Profile.First, s.run.Profile.Last)
		}
		out = append(out, line)
	}
	return out
}

// hot is what operators are ranked by: time on the device where it is known, and time on the host otherwise.
func hot(o evidence.Operator) float64 {
	if o.Device != nil {
		return *o.Device
	}
	return o.Self
}

func (s *screen) findings() []string {
	var out []string
	color := map[evidence.Severity]string{evidence.Error: "31", evidence.Warning: "33", evidence.Note: "36"}
	for _, f := range bySeverity(s.run.Findings) {
		text := clean.Line(f.Text)
		if f.Where != "" {
			text = tailOf(clean.Line(place(s.run, f.Where)), 30) + "  " + text
		}
		if f.Basis != usualBasis(s.run) && f.Basis != "" {
			text += " (" + clean.Line(string(f.Basis)) + ")"
		}
		out = append(out, s.paint(color[f.Severity], pad(clean.Line(string(f.Severity)), 8))+cut(text, s.Width-label-8))
	}
	return out
}

// tail is assay's own cost and where the rest is to be read.
func (s *screen) tail() []string {
	run := s.run
	cost := run.Figure("agent.step")
	line := s.mark(cost)
	if cost.Known() {
		line += " a step"
		if f := run.Figure("agent.share"); f.Known() {
			line += ", " + s.mark(f) + " of it"
		}
		if f := run.Figure("agent.total"); f.Known() {
			line += ", " + s.mark(f) + " in all"
		}
	}
	out := []string{s.row("assay cost", line)}
	beside := s.Report != "" && s.Evidence != "" && path.Dir(s.Report) == path.Dir(s.Evidence)
	if beside {
		return append(out, s.row("report",
			clean.Line(s.Report)+", and "+clean.Line(path.Base(s.Evidence))+" beside it"))
	}
	if s.Report != "" {
		out = append(out, s.row("report", clean.Line(s.Report)))
	}
	if s.Evidence != "" {
		out = append(out, s.row("evidence", clean.Line(s.Evidence)))
	}
	return out
}

// list is a part of the screen that can be folded.
type list struct {
	name  string
	rows  []string
	empty string
	most  int  // rows wanted
	part  bool // a top few by intent: what is left out is not announced
	show  int
}

func (l *list) height() int {
	n := min(len(l.rows), l.most)
	if l.part {
		return max(1, n)
	}
	if n < len(l.rows) {
		n++
	}
	return max(1, n)
}

func height(ls []*list) int {
	n := 0
	for _, l := range ls {
		n += l.height()
	}
	return n
}

// lines that the list takes when show rows of it are shown.
func (l *list) lines() int {
	n := max(1, l.show)
	if !l.part && l.show < len(l.rows) && len(l.rows) > 0 {
		n++
	}
	return n
}

// share gives each list one row and then deals the remaining lines out, in turn, in the order of the lists.
func share(lines int, ls []*list) {
	used := func() int {
		n := 0
		for _, l := range ls {
			n += l.lines()
		}
		return n
	}
	for _, l := range ls {
		l.show = min(1, len(l.rows))
	}
	for grew := true; grew; {
		grew = false
		for _, l := range ls {
			if l.show < min(l.most, len(l.rows)) {
				l.show++
				if used() > lines {
					l.show--
					continue
				}
				grew = true
			}
		}
	}
}

func (l *list) draw(s *screen) []string {
	if len(l.rows) == 0 {
		return []string{s.row(l.name, clean.Line(l.empty))}
	}
	var out []string
	for i, r := range l.rows[:l.show] {
		if strings.Contains(r, "\x1b[") { // painted, and cut already
			out = append(out, s.paint("1", pad(first(i, l.name), label))+r)
			continue
		}
		out = append(out, s.row(first(i, l.name), r))
	}
	if n := len(l.rows) - l.show; n > 0 && !l.part {
		out = append(out, s.row("", fmt.Sprintf("… %d more in report.html", n)))
	}
	return out
}

func pad(s string, n int) string {
	if w := utf8.RuneCountInString(s); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

func padLeft(s string, n int) string {
	if w := utf8.RuneCountInString(s); w < n {
		return strings.Repeat(" ", n-w) + s
	}
	return s
}

// cut shortens text to n columns; text with colours in it is short by construction and stays whole.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n || strings.Contains(s, "\x1b[") {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// tailOf keeps the end of a path, where the file and the line are.
func tailOf(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}

// wrapAfter breaks text into at most most lines of width columns; the last one is cut.
func wrapAfter(s string, width, most int) []string {
	lines := clean.Wrap(s, "", "", width)
	if len(lines) > most {
		lines = append(lines[:most-1], strings.Join(lines[most-1:], " "))
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}
