package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/evidence"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// Widths of the summary, in columns.
const (
	narrowest  = 40
	widest     = 120 // longer lines are hard to read
	usualWidth = 80  // where nobody says how wide the terminal is
)

// mostFindings are shown, each whole and with its hint; the page has them all.
const mostFindings = 12

// Text is the summary for a terminal: a line or a few for each part, as wide as the terminal, between 40 columns and
// 120. Sentences are wrapped and never cut; long lists are folded, and the page has them whole.
type Text struct {
	Width    int    // columns; 0 means 80
	Color    bool   // ANSI colours
	Report   string // path of report.html, for the last lines; "" leaves the line out
	Evidence string // path of evidence.json
}

// Name of the form.
func (Text) Name() string { return "text" }

// Write the summary.
func (t Text) Write(w io.Writer, run *evidence.Run) error {
	if t.Width <= 0 {
		t.Width = usualWidth
	}
	t.Width = min(max(t.Width, narrowest), widest)
	s := &screen{Text: t, run: run, device: run.Target.Device, steps: stepsSeen(run) > 0}
	out := bufio.NewWriter(w)
	for _, line := range s.lines() {
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// screen lays one run out. Each part of it is a method that gives its lines; none where there is nothing to say.
type screen struct {
	Text
	run    *evidence.Run
	device string
	steps  bool // a training step was seen
}

// label is the width of the left column. Where the screen is narrow only the first line of a part keeps clear of it.
const label = 11

// narrow says whether there is no room for a left column and wide tables.
func (s *screen) narrow() bool { return s.Width < 72 }

func (s *screen) paint(code, text string) string {
	if !s.Color || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// row is a sentence behind its name, made harmless and wrapped; none where there is no sentence.
func (s *screen) row(name, text string) []string {
	if text == "" {
		return nil
	}
	head, next := s.margin(name)
	lines := wrap(clean.Line(text), head, next, s.Width)
	lines[0] = s.paint("1", head) + strings.TrimPrefix(lines[0], head)
	return lines
}

// item is one of several sentences behind a name, each of them hanging; its first word is coloured.
func (s *screen) item(name, word, text, code string) []string {
	head, next := s.margin(name)
	lines := wrap(clean.Line(word+" "+text), head, next+"  ", s.Width)
	rest := strings.TrimPrefix(lines[0], head)
	if after, ok := strings.CutPrefix(rest, word); ok && code != "" {
		rest = s.paint(code, word) + after
	}
	lines[0] = s.paint("1", head) + rest
	return lines
}

// margin is what stands before the first line of a part and before the others.
func (s *screen) margin(name string) (head, next string) {
	head, next = pad(name, label), strings.Repeat(" ", label)
	if s.narrow() {
		head, next = name+"  ", "  "
	}
	if name == "" {
		head = next
	}
	return head, next
}

// table is rows of cells behind a name, each column as wide as its widest cell. Where that is too wide for the screen
// each row is a sentence of its own. right: the columns that stand flush right.
func (s *screen) table(name string, rows [][]string, right ...int) []string {
	var widths []int
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var lines []string
	wide := s.narrow()
	for _, cells := range rows {
		line := ""
		for n, c := range cells {
			if widths[n] == 0 {
				continue // a column in which nothing stands
			}
			if n > 0 {
				line += " "
			}
			if slices.Contains(right, n) {
				line += padLeft(c, widths[n])
			} else {
				line += pad(c, widths[n])
			}
		}
		lines = append(lines, strings.TrimRight(clean.Line(line), " "))
		wide = wide || label+utf8.RuneCountInString(lines[len(lines)-1]) > s.Width
	}
	var out []string
	for i, line := range lines {
		if wide {
			out = append(out, s.item(first(i, name), "", line, "")...)
		} else {
			out = append(out, s.paint("1", pad(first(i, name), label))+line)
		}
	}
	return out
}

// folded are the first rows of a list, and how many the page has beyond them.
func (s *screen) folded(rows [][]string, most int) (shown [][]string, more []string) {
	if len(rows) <= most {
		return rows, nil
	}
	return rows[:most], s.row("", fmt.Sprintf("… %d more in report.html", len(rows)-most))
}

// lines puts the parts together, a blank line between the groups.
func (s *screen) lines() []string {
	if s.notBegun() {
		return s.threeLines()
	}
	groups := [][]func() []string{
		{s.head},
		{s.step, s.split},
		{s.time, s.memory},
		{s.syncs, s.fallbacks, s.operators, s.numerics},
		{s.findings},
		{s.cost, s.tail},
	}
	if s.run.Rehearsal != nil { // what it is for comes first, and this machine's split says nothing about the Mac
		groups = [][]func() []string{
			{s.head},
			{s.tests, s.rehearsed, s.fallbacks, s.memory},
			{s.syncs, s.operators, s.numerics},
			{s.step, s.time},
			{s.findings},
			{s.cost, s.tail},
		}
	}
	var out []string
	for _, group := range groups {
		var lines []string
		for _, part := range group {
			lines = append(lines, part()...)
		}
		if len(lines) > 0 && len(out) > 0 {
			out = append(out, "")
		}
		out = append(out, lines...)
	}
	return out
}

func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// notBegun says whether the run came to nothing that could be shown: no step, no tensor, no call, no test, and no
// finding but that no loop was seen.
func (s *screen) notBegun() bool {
	run := s.run
	tables := len(run.Fallbacks) + len(run.Syncs) + len(run.Shapes) + len(run.Operators)
	return !s.steps && run.Rehearsal == nil && tables == 0 &&
		!run.Figure("memory.live.peak").Known() && s.device == "" && run.Outcome.Started &&
		!slices.ContainsFunc(run.Findings, func(f evidence.Finding) bool { return f.Name != "loop-not-recognised" })
}

// threeLines are what happened, where, and what to do, of a run that came to nothing else; and where it is kept.
func (s *screen) threeLines() []string {
	run := s.run
	lines := wrap(clean.Line(cameToNothing(run)), "", "", s.Width)
	lines[0] = s.paint("1", lines[0])
	return slices.Concat(lines, s.row("where", whereText(run)), s.row("to do", toDo(run)), s.tail())
}

// head is what happened, and the basis of every figure that carries no mark.
func (s *screen) head() []string {
	run := s.run
	basis := " All figures are measured unless marked."
	if s.device != "" {
		basis = " All figures are measured on " + s.device + " unless marked."
	}
	if run.Rehearsal != nil {
		basis = " All figures are rehearsed unless marked; times are this machine's and say nothing about the Mac."
	}
	lines := wrap(clean.Line(verdict(run)+basis), "", "", s.Width)
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

// step is the median step and its window.
func (s *screen) step() []string {
	run := s.run
	median := run.Figure("step.time")
	if !median.Known() {
		if run.Rehearsal != nil && !s.steps {
			return nil // a test suite, mostly
		}
		return s.row("step", s.mark(median))
	}
	line := "median " + s.mark(median)
	if q := spread(median); q != "" {
		line += ", Q1–Q3 " + q
	}
	for _, name := range []string{"step.rate", "samples.rate"} {
		if f := run.Figure(name); f.Known() {
			line += "; " + strings.TrimSuffix(unit.Format(*f.Value, f.Unit), " /s")
			line += map[string]string{"step.rate": " steps/s", "samples.rate": " samples/s"}[name] + s.basisMark(f)
		}
	}
	out := s.row("step", line)
	if w, ok := windowNamed(run, median.Window); ok {
		out = append(out, s.row("", windowText(w))...)
	}
	return out
}

// split is the bar and one row per phase.
func (s *screen) split() []string {
	run, median, phases := s.run, s.run.Figure("step.time"), phasesOf(s.run)
	if !s.steps || len(phases) == 0 {
		return nil
	}
	var splits, shares []evidence.Figure
	for _, p := range phases {
		splits = append(splits, run.Figure("split."+p.Key))
		shares = append(shares, run.Figure("share."+p.Key))
	}
	if why := commonReason(splits...); why != "" {
		if why == reason(median) && !median.Known() {
			return nil // said above
		}
		return s.row("split", "unknown: "+why)
	}
	window := ""
	for _, f := range splits {
		if f.Known() && f.Window != "" {
			window = f.Window
			break
		}
	}
	var out []string
	whole := median // of a step that the split is taken from
	if window != median.Window {
		line := "from the " + window + " window"
		if w, ok := windowNamed(run, window); ok {
			line = windowText(w)
		}
		whole = run.Figure("step.time.synchronised")
		if whole.Known() {
			line += "; a step there takes " + s.mark(whole)
		}
		out = append(out, s.row("split", line)...)
	}
	indent, spreads := label, true
	if s.narrow() {
		indent, spreads = 2, false
	}
	left := strings.Repeat(" ", indent)
	if bar := s.bar(phases, shares, s.Width-indent); bar != "" {
		out = append(out, left+bar)
	}
	shareMark, splitMark := s.commonMark(shares), s.commonMark(splits)
	if splitMark != shareMark {
		splitMark = "" // one mark stands for both, or each row carries its own
	}
	row := func(name, value, quartiles, share string) string {
		if !spreads {
			return pad(name, 12) + padLeft(value, 8) + padLeft(share, 8)
		}
		return pad(name, 13) + padLeft(value, 9) + "   " + pad(quartiles, 18) + padLeft(share, 7)
	}
	out = append(out, left+s.paint("2", row("  phase", "median", "Q1–Q3", "share")+shareMark))
	for i, p := range phases {
		f, share := splits[i], shares[i]
		if !f.Known() {
			lines := wrap("unknown: "+clean.Line(reason(f)), left+pad(p.Glyph+" "+p.Name, 13), left+"    ", s.Width)
			out = append(out, strings.Replace(lines[0], p.Glyph, s.paint(p.ANSI, p.Glyph), 1))
			out = append(out, lines[1:]...)
			continue
		}
		part := "share unknown"
		if share.Known() {
			part = number(share)
			if shareMark == "" {
				part += s.basisMark(share)
			}
		}
		value := number(f)
		if splitMark == "" {
			value += s.basisMark(f)
		}
		line := row(p.Glyph+" "+p.Name, value, orElse(spread(f), "no spread"), part)
		out = append(out, left+strings.Replace(clean.Line(line), p.Glyph, s.paint(p.ANSI, p.Glyph), 1))
	}
	return append(out, s.row("", sharesText(splits, shares, whole))...)
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

// commonMark is the mark that all known figures carry; "" where they differ.
func (s *screen) commonMark(figures []evidence.Figure) string {
	marks := map[string]bool{}
	mark := ""
	for _, f := range figures {
		if f.Known() {
			mark = s.basisMark(f)
			marks[mark] = true
		}
	}
	if len(marks) > 1 {
		return ""
	}
	return mark
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
	if !s.steps {
		return nil
	}
	if why := commonReason(startup, firstEpoch, epoch); why != "" {
		if why == reason(run.Figure("step.time")) {
			return nil // said above
		}
		return s.row("epochs", "unknown: "+why)
	}
	if why := commonReason(firstEpoch, epoch); why != "" {
		return s.row("epochs", "unknown: "+why+"; first step after "+s.mark(startup))
	}
	line := "a step " + s.mark(firstEpoch)
	if q := spread(firstEpoch); q != "" && firstEpoch.Known() {
		line += ", Q1–Q3 " + q
	}
	out := s.row("1st epoch", line+"; first step after "+s.mark(startup))

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
		line += "about " + s.mark(est)
		if q := spread(est); q != "" {
			line += ", 95 % interval " + q
		}
		line += ", none was complete"
		long = *est.Value
	} else {
		line += s.mark(epoch)
	}
	if long == 0 || run.Rehearsal != nil { // the Mac's epoch is another
		return append(out, s.row("epoch", line)...)
	}
	text, over := beyond(run, long)
	if !over {
		return append(out, s.row("epoch", strings.TrimSuffix(line+"; "+text, "; "))...)
	}
	out = append(out, s.row("epoch", line)...)
	return append(out, s.item("", "warning:", text, "33")...)
}

func (s *screen) memory() []string {
	run := s.run
	parts := []named{{"peak live", run.Figure("memory.live.peak"), ""},
		{"peak pool", run.Figure("memory.pool.peak"), ""},
		{"peak resident", run.Figure("memory.resident.peak"), ""}, {"swap", run.Figure("swap.used.peak"), ""},
		{"watermark", run.Figure("memory.watermark"), " of the recommended maximum"},
		{"growth", run.Figure("memory.growth"), " from the second epoch to the last"}}
	if !s.steps { // of what did not train, what is known
		parts = slices.DeleteFunc(parts, func(p named) bool { return !p.f.Known() })
	}
	var figures []evidence.Figure
	for _, p := range parts {
		if p.name != "swap" {
			figures = append(figures, p.f)
		}
	}
	if len(figures) == 0 {
		return nil
	}
	if why := commonReason(figures...); why != "" {
		return s.row("memory", "unknown: "+why)
	}
	text := s.join(parts...)
	if at := epochEnds(run.Epochs); at != "" {
		text += "; " + at
	}
	return s.row("memory", text)
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

// mostRows are shown of each list; the page has them all.
const mostRows = 3

func (s *screen) rehearsed() []string {
	if s.run.Rehearsal == nil {
		return nil
	}
	return s.row("rehearsed", rehearsedText(s.run))
}

func (s *screen) tests() []string {
	if s.run.Rehearsal == nil || s.run.Rehearsal.Tests == nil {
		return nil
	}
	return s.row("tests", testsText(s.run.Rehearsal.Tests))
}

func (s *screen) syncs() []string {
	if len(s.run.Syncs) == 0 {
		return s.nothing("syncs", noSyncs(s.run))
	}
	list := slices.Clone(s.run.Syncs)
	slices.SortStableFunc(list, func(a, b evidence.SyncPoint) int { return cmp.Compare(b.Lost, a.Lost) })
	var rows [][]string
	for _, p := range list {
		waits := "nothing to wait for"
		if p.Waits && s.run.Rehearsal != nil {
			waits = "the host would wait"
		} else if p.Waits {
			waits = waited(p) + unit.Seconds(p.Lost)
		}
		rows = append(rows, []string{p.Call, place(s.run, p.Where) + " ", thousands(p.Count) + "×",
			within(s.run, s.steps, p) + waits})
	}
	rows, more := s.folded(rows, mostRows)
	return append(s.table("syncs", rows, 2), more...)
}

// within says in how many steps a call was met; nothing of a run without a step.
func within(run *evidence.Run, steps bool, p evidence.SyncPoint) string {
	if !steps {
		return ""
	}
	return "in " + inSteps(run, p) + "; "
}

func (s *screen) fallbacks() []string {
	if len(s.run.Fallbacks) == 0 {
		return s.nothing("fallbacks", noFallbacks(s.run))
	}
	var rows [][]string
	for _, f := range s.run.Fallbacks {
		basis := ""
		if f.Basis != usualBasis(s.run) && f.Basis != "" {
			basis = "(" + string(f.Basis) + ")"
		}
		rows = append(rows, []string{f.Operator, place(s.run, f.Where) + " ", thousands(f.Count) + "×", basis})
	}
	rows, more := s.folded(rows, mostRows)
	return append(s.table("fallbacks", rows, 2), more...)
}

// operators are a top few by intent: what is left out is not announced.
func (s *screen) operators() []string {
	if len(shownOperators(s.run)) == 0 {
		return s.nothing("operators", profileText(s.run.Profile))
	}
	list := slices.Clone(shownOperators(s.run))
	slices.SortStableFunc(list, func(a, b evidence.Operator) int { return cmp.Compare(hot(b), hot(a)) })
	var rows [][]string
	for i, o := range list[:min(mostRows, len(list))] {
		row := []string{o.Name + " ", "", "", "self", unit.Seconds(o.Self) + ",", thousands(o.Calls) + "×", ""}
		if o.Device != nil {
			row[1], row[2] = "device", unit.Seconds(*o.Device)+","
		}
		if i == 0 {
			row[6] = "in " + stepRange(s.run.Profile.First, s.run.Profile.Last)
		}
		rows = append(rows, row)
	}
	return s.table("operators", rows, 2, 4, 5)
}

// nothing is the row of a list in which nothing stands; of a run without a step none, since that says nothing.
func (s *screen) nothing(name, why string) []string {
	if !s.steps {
		return nil
	}
	return s.row(name, why)
}

func (s *screen) numerics() []string {
	if !s.steps && len(s.run.Loss.Value) == 0 {
		return nil
	}
	return s.row("numerics", numerics(s.run))
}

// hot is what operators are ranked by: time on the device where it is known, and time on the host otherwise.
func hot(o evidence.Operator) float64 {
	if o.Device != nil {
		return *o.Device
	}
	return o.Self
}

// findings are what a person should read, each whole and with what to do.
func (s *screen) findings() []string {
	if len(s.run.Findings) == 0 {
		return s.nothing("findings", noFindings(s.run))
	}
	colours := map[evidence.Severity]string{evidence.Error: "31", evidence.Warning: "33", evidence.Note: "36"}
	var out []string
	list := bySeverity(s.run.Findings)
	for i, f := range list[:min(mostFindings, len(list))] {
		text := f.Text
		if f.Where != "" {
			text = place(s.run, f.Where) + ": " + text
		}
		if f.Basis != usualBasis(s.run) && f.Basis != "" {
			text += " (" + string(f.Basis) + ")"
		}
		severity := clean.Line(string(f.Severity)) + ":"
		out = append(out, s.item(first(i, "findings"), severity, text, colours[f.Severity])...)
		if f.Hint != "" {
			out = append(out, s.item("", "→", f.Hint, "2")...)
		}
	}
	if n := len(list) - mostFindings; n > 0 {
		out = append(out, s.row("", fmt.Sprintf("… %d more in report.html", n))...)
	}
	return out
}

// cost is assay's own.
func (s *screen) cost() []string {
	if !s.steps {
		return nil
	}
	cost := s.run.Figure("agent.step")
	if cost.Known() && cost.Low != nil && cost.High != nil {
		whole, parts := costWords(s.run, s.mark)
		return append(s.row("assay cost", whole), s.row("", parts)...)
	}
	line := s.mark(cost)
	if cost.Known() {
		line += " a step"
		if f := s.run.Figure("agent.share"); f.Known() {
			line += ", " + s.mark(f) + " of it"
		}
		if f := s.run.Figure("agent.total"); f.Known() {
			line += ", " + s.mark(f) + " in all"
		}
	}
	return s.row("assay cost", line)
}

// tail is where the rest is to be read.
func (s *screen) tail() []string {
	if s.Report != "" && s.Evidence != "" && path.Dir(s.Report) == path.Dir(s.Evidence) {
		return s.row("report", s.Report+", and "+path.Base(s.Evidence)+" beside it")
	}
	var out []string
	if s.Report != "" {
		out = append(out, s.row("report", s.Report)...)
	}
	if s.Evidence != "" {
		out = append(out, s.row("evidence", s.Evidence)...)
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

// wrap breaks text into lines as wide as the screen. A number stays with its unit.
func wrap(s, first, next string, width int) []string {
	lines := clean.Wrap(strings.ReplaceAll(together(s), "\u00a0", joined), first, next, width)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], joined, " ")
	}
	return lines
}

// joined stands for a space at which no line is broken, in text that was made harmless and so holds none of it.
const joined = "\x00"
