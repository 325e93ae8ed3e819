package report

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/evidence"
	"assay/internal/target"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// phase is one part of a step, as it is drawn: by its place among the others.
type phase struct {
	Key   string // in the names of figures: split.KEY, share.KEY
	Name  string // for a reader
	What  string // one line of explanation
	Class string // of its colour on the page: page.css
	Glyph string // how the text bar draws it without colour
	ANSI  string // and with colour
}

// Colours come again after the fifth phase, glyphs after the twelfth.
var (
	phaseColours = []string{"33", "36", "34", "31", "32"}
	phaseGlyphs  = []string{"█", "▚", "▓", "▒", "░", "▞", "▙", "▟", "▛", "▜", "▌", "▐"}
)

// phasesOf are the phases of the run's steps in the order in which they are drawn. The last is what lies between the
// others.
func phasesOf(run *evidence.Run) []phase {
	list := run.Steps.Phases
	drawn := make([]phase, len(list))
	for i, p := range list {
		colour := i % len(phaseColours)
		drawn[i] = phase{Key: p.Name, Name: clean.Line(orElse(p.Title, p.Name)), What: clean.Line(p.Doc),
			Class: strconv.Itoa(colour + 1), Glyph: phaseGlyphs[i%len(phaseGlyphs)], ANSI: phaseColours[colour]}
		if i == len(list)-1 {
			drawn[i].Class, drawn[i].Glyph, drawn[i].ANSI = "rest", "·", "90"
		}
	}
	return drawn
}

// epochLimit is the length of an epoch, in seconds, above which it counts as long: the limit that the run was judged
// by, and for a reader "30 min". Evidence of an earlier assay does not keep its limit: there it is the default.
func epochLimit(run *evidence.Run) (seconds float64, text string) {
	seconds = evidence.LongEpoch
	if limit, ok := run.Limit("long-epoch"); ok {
		seconds = limit.Value
	}
	return seconds, roundZeros.ReplaceAllString(unit.Seconds(seconds), " ")
}

// roundZeros are the digits of 30.0 min and 3.00 h that a limit, which is exact, does not need.
var roundZeros = regexp.MustCompile(`\.0+ `)

// beyond says how an epoch of so many seconds compares with the limit: long where it lies above; "" where that is not
// known, since an earlier assay kept no limit and found by another one that the epoch is long.
func beyond(run *evidence.Run, seconds float64) (text string, long bool) {
	limit, name := epochLimit(run)
	if seconds > limit {
		return "longer than " + name, true
	}
	if _, kept := run.Limit("long-epoch"); !kept && slices.ContainsFunc(run.Findings,
		func(f evidence.Finding) bool { return f.Name == "long-epoch" }) {
		return "", false
	}
	return "below " + name, false
}

// count prints "1 step", "1,234 steps".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	if n < 0 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// stepsSeen is the number of the last step that the evidence knows of: the series may be thinned.
func stepsSeen(run *evidence.Run) int {
	n := 0
	for _, s := range run.Steps.Number {
		n = max(n, s)
	}
	for _, w := range run.Windows {
		n = max(n, w.Last)
	}
	for _, e := range run.Epochs {
		n = max(n, e.Last)
	}
	for _, p := range run.Processes {
		if p.Observed {
			n = max(n, p.Steps)
		}
	}
	return n
}

// subjectName is what a reader calls the subject.
func subjectName(run *evidence.Run) string {
	switch {
	case run.Subject.Script != "":
		return run.Subject.Script
	case len(run.Subject.Command) > 0:
		return strings.Join(run.Subject.Command, " ")
	}
	return "the subject"
}

// place shortens file:line to its last element where the file lies in the subject's folder.
func place(run *evidence.Run, where string) string {
	if dir := strings.TrimSuffix(run.Subject.Dir, "/"); dir != "" {
		if rel, ok := strings.CutPrefix(where, dir+"/"); ok {
			return rel
		}
	}
	return where
}

// deviceName names the device on which the steps ran: "mps (Apple M2 Max)".
func deviceName(t evidence.Target) string {
	switch {
	case t.Device == "":
		return ""
	case t.Name == "" || t.Name == t.Device:
		return t.Device
	}
	return t.Device + " (" + t.Name + ")"
}

// usualBasis is the basis of figures that carry no mark: measured, or rehearsed in a rehearsal.
func usualBasis(run *evidence.Run) evidence.Basis {
	if run.Rehearsal != nil {
		return evidence.Rehearsed
	}
	return evidence.Measured
}

// doubleName names what a rehearsal stood for.
func doubleName(d *evidence.Double) string {
	s := fmt.Sprintf("a double of torch %s MPS, %s with %s, macOS %s", d.Release, d.Chip, unit.Bytes(float64(d.Memory)),
		d.MacOS)
	if d.ShapeOnly {
		s += ", shapes alone"
	}
	return s
}

// rehearsedText says in one line what the double saw.
func rehearsedText(run *evidence.Run) string {
	calls, refused := 0, 0
	for _, o := range run.Rehearsal.Operators {
		calls += o.Calls
	}
	for _, r := range run.Rehearsal.Refusals {
		refused += r.Count
	}
	s := fmt.Sprintf("%s of %s, %s refused", count(calls, "call"), count(len(run.Rehearsal.Operators), "operator"),
		thousands(refused))
	var parts []string
	for _, x := range [][2]string{{"fallback.calls", " of calls"}, {"fallback.flops", " of FLOPs"},
		{"fallback.time", " of CPU time"}} {
		if f := run.Figure(x[0]); f.Known() {
			parts = append(parts, number(f)+x[1])
		}
	}
	if parts != nil {
		s += "; without a kernel: " + strings.Join(parts, ", ")
	}
	sure := len(evidence.MetBy(run.Rehearsal.Met, true, "wrong"))
	if may := len(evidence.MetBy(run.Rehearsal.Met, false, "wrong")); sure+may > 0 {
		s += fmt.Sprintf("; known wrong results: %d met, %d possible", sure, may)
	}
	if run.Rehearsal.Met == nil {
		s += "; known wrong results were not looked for by the assay that rehearsed"
	}
	return s
}

// testsText says in a sentence how pytest's tests ended.
func testsText(t *evidence.Tests) string {
	s := fmt.Sprintf("%s passed, %s failed", thousands(t.Passed), thousands(t.Failed))
	for _, x := range []struct {
		n    int
		what string
	}{{t.Skipped, "skipped"}, {t.XFailed, "failed as expected"}, {t.XPassed, "passed unexpectedly"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %s %s", thousands(x.n), x.what)
		}
	}
	var parts []string
	for _, c := range t.Causes {
		what := c.Cause
		switch c.Cause {
		case "missing":
			what = "missing operator " + c.Operator
		case "CPU too":
			what = "on the CPU too"
		case "other":
			what = "without a refusal by the device"
		default:
			what += " " + c.Operator
		}
		parts = append(parts, fmt.Sprintf("%s %s", thousands(c.Tests), strings.TrimSpace(what)))
	}
	if parts != nil {
		s += "; of those: " + strings.Join(parts, ", ")
	}
	if t.CPU != "" {
		s += " (" + t.CPU + ")"
	}
	return s
}

// where the run happened, and with what: "on cpu (…) with torch 2.8.0, Python 3.12.4, Linux 6.1".
func setting(run *evidence.Run) string {
	t := run.Target
	var s string
	if run.Rehearsal != nil && t.Double != nil {
		s = "on " + doubleName(t.Double)
	} else if d := deviceName(t); d != "" {
		s = "on " + d
	} else if want := target.Asked(t).MustShow(); want != "" {
		s = "asked for " + want + ", no device seen in use,"
	} else {
		s = "with no device seen in use,"
	}
	var with []string
	if t.Framework != "" && run.Rehearsal != nil {
		with = append(with, strings.TrimSpace(t.Framework+" "+t.Release)+" installed")
	} else if t.Framework != "" {
		with = append(with, t.With())
	} else {
		with = append(with, "no framework seen")
	}
	if t.Python != "" {
		with = append(with, "Python "+t.Python)
	}
	if t.System != "" {
		with = append(with, t.System)
	}
	if strings.HasSuffix(s, ",") {
		return s + " " + strings.Join(with, ", ")
	}
	return s + " with " + strings.Join(with, ", ")
}

// ending says how the run ended: a clause that follows the name of the subject.
func ending(o evidence.Outcome) string {
	switch {
	case !o.Started:
		return "was not started"
	case o.Stopped != "":
		return "was ended as asked, " + o.Stopped + ","
	case o.Error != "" && o.Where != "":
		return fmt.Sprintf("ended with %s at %s (exit status %d)", o.Error, o.Where, o.Exit)
	case o.Error != "":
		return fmt.Sprintf("ended with %s (exit status %d)", o.Error, o.Exit)
	case o.Signal != "":
		return fmt.Sprintf("was ended by %s (exit status %d)", o.Signal, o.Exit)
	case o.Exit < 0:
		return "had not ended, as far as its events go,"
	case o.Exit != 0:
		return fmt.Sprintf("ended with exit status %d", o.Exit)
	}
	return "ran to its end"
}

// extent says how far the run came: "135 steps in 3 epochs, 4.21 s".
func extent(run *evidence.Run) string {
	n := stepsSeen(run)
	s := count(n, "training step")
	if n == 0 {
		s = "no training step was seen"
	}
	whole := 0
	for _, e := range run.Epochs {
		if e.Complete {
			whole++
		}
	}
	how := epochsTold(run)
	if run.Loop != nil && run.Loop.Steps == evidence.ByHand {
		s += ", updated by hand,"
	}
	switch all := len(run.Epochs); {
	case all > 0 && whole == all:
		s += " in " + count(all, "epoch")
	case all == 1:
		s += " in 1 epoch, which was not completed"
	case all > 0:
		s += " in " + count(all, "epoch")
		how = strings.TrimSuffix(fmt.Sprintf("%d complete; %s", whole, how), "; ")
	}
	if how != "" && len(run.Epochs) > 0 {
		s += " (" + how + ")"
	}
	s = strings.TrimSuffix(s, ",")
	trained := 0
	for _, p := range run.Processes {
		if p.Steps > 0 {
			trained++
		}
	}
	if trained > 1 {
		s += fmt.Sprintf(" in one of %d processes that trained", trained)
	}
	if f := run.Figure("run.time"); f.Known() {
		s += ", " + unit.Seconds(*f.Value)
	} else if d := run.Ended.Sub(run.Started).Seconds(); d > 0 {
		s += ", " + unit.Seconds(d)
	}
	return s
}

// noEpoch says why there is no epoch.
func noEpoch(run *evidence.Run) string {
	if f := run.Figure("epoch.time"); f.Missing != "" {
		return strings.TrimPrefix(f.Missing, "no epoch was seen: ")
	}
	return "no training loader was seen"
}

// epochsTold says how epochs were told, where that was not by a loader's passes; "" where it was, or is not known.
func epochsTold(run *evidence.Run) string {
	if run.Loop == nil {
		return ""
	}
	switch run.Loop.Epochs {
	case evidence.ByLoop:
		return strings.TrimSuffix(fmt.Sprintf("turns of the loop over %s, %s", run.Loop.Name,
			place(run, run.Loop.Where)), ", ")
	case evidence.ByScheduler:
		return "from one step of the learning rate's scheduler to the next"
	case evidence.ByEvaluation:
		return "from one evaluation to the next"
	}
	return ""
}

// happened says in one sentence what was run, where, and how it ended.
func happened(run *evidence.Run) string {
	if !run.Outcome.Started {
		return subjectName(run) + " was not started."
	}
	o := run.Outcome
	o.Where = place(run, o.Where)
	if run.Rehearsal != nil {
		return fmt.Sprintf("%s, rehearsed %s, %s: %s.", subjectName(run), setting(run), ending(o), extent(run))
	}
	return fmt.Sprintf("%s %s %s: %s.", subjectName(run), ending(o), setting(run), extent(run))
}

// knownBad says first what comes out wrong on a Mac, or would end the process there, of what the rehearsal met for
// sure; "" where nothing does.
func knownBad(run *evidence.Run) string {
	if run.Rehearsal == nil {
		return ""
	}
	s := ""
	for _, x := range []struct{ outcome, says string }{{"wrong", "Numbers come out wrong on MPS: "},
		{"aborts", "On a Mac the process would end: "}} {
		met := evidence.MetBy(run.Rehearsal.Met, true, x.outcome)
		if len(met) == 0 {
			continue
		}
		row := met[0][0]
		s += x.says + orElse(row.Wrong, orElse(row.When, row.Fact)) + " (" + row.Operator
		if row.Where != "" {
			s += ", " + place(run, row.Where)
		}
		s += ")"
		if row.Remedy != "" {
			s += ": " + row.Remedy
		}
		if n := len(met) - 1; n > 0 {
			s += fmt.Sprintf("; %d more such", n)
		}
		s += ". "
	}
	return s
}

// verdict is what happened, and whether evidence of it is missing.
func verdict(run *evidence.Run) string {
	o, s := run.Outcome, knownBad(run)+happened(run)
	switch {
	case o.Complete:
	case o.Reason != "":
		s += " The evidence is incomplete: " + strings.TrimSuffix(o.Reason, ".") + "."
	default:
		s += " The evidence is incomplete; no reason was recorded."
	}
	return s
}

// heaviest returns the phase with the largest known share.
func heaviest(run *evidence.Run) (p phase, share float64, ok bool) {
	for _, x := range phasesOf(run) {
		if f := run.Figure("share." + x.Key); f.Known() && *f.Value > share {
			p, share, ok = x, *f.Value, true
		}
	}
	return p, share, ok
}

// tally counts findings by severity: "1 error, 2 warnings".
func tally(fs []evidence.Finding) string {
	var parts []string
	for _, sev := range severities {
		n := 0
		for _, f := range fs {
			if f.Severity == sev {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, count(n, string(sev)))
		}
	}
	return strings.Join(parts, ", ")
}

var severities = []evidence.Severity{evidence.Error, evidence.Warning, evidence.Note}

// bySeverity lists errors first, and otherwise keeps the order. An unknown severity comes last rather than nowhere.
func bySeverity(fs []evidence.Finding) []evidence.Finding {
	rank := func(s evidence.Severity) int {
		for i, x := range severities {
			if s == x {
				return i
			}
		}
		return len(severities)
	}
	var out []evidence.Finding
	for r := range len(severities) + 1 {
		for _, f := range fs {
			if rank(f.Severity) == r {
				out = append(out, f)
			}
		}
	}
	return out
}

// number prints the value of a figure, or that it is unknown, and why.
func number(f evidence.Figure) string {
	if !f.Known() {
		return "unknown: " + reason(f)
	}
	return quantity(*f.Value, f.Unit)
}

// quantity prints a value with its unit. The host's counters have two units of their own beside the base units.
func quantity(v float64, u string) string {
	switch u {
	case "B/s":
		return unit.Bytes(v) + "/s"
	case "level":
		return "level " + unit.Format(v, "1")
	}
	return unit.Format(v, u)
}

func reason(f evidence.Figure) string {
	if f.Missing == "" {
		return "no reason was recorded"
	}
	return f.Missing
}

// spread prints the quartiles with one unit, "27.9–29.1 ms"; "" where there are none.
func spread(f evidence.Figure) string {
	if f.Low == nil || f.High == nil {
		return ""
	}
	lo, hi := quantity(*f.Low, f.Unit), quantity(*f.High, f.Unit)
	ln, lu, ok1 := strings.Cut(lo, " ")
	_, hu, ok2 := strings.Cut(hi, " ")
	if ok1 && ok2 && lu == hu {
		return ln + "–" + hi
	}
	return lo + " – " + hi
}

// windowNamed finds a window of the run.
func windowNamed(run *evidence.Run, name string) (evidence.Window, bool) {
	for _, w := range run.Windows {
		if w.Name == name {
			return w, true
		}
	}
	return evidence.Window{}, false
}

// windowText names a window with its step numbers: "steady: steps 46–135, 82 steps, without profiled ones".
func windowText(w evidence.Window) string {
	s := fmt.Sprintf("%s: steps %d–%d, %s", w.Name, w.First, w.Last, count(w.Steps, "step"))
	if w.First == w.Last {
		s = fmt.Sprintf("%s: step %d, %s", w.Name, w.First, count(w.Steps, "step"))
	}
	if w.Excluded != "" {
		s += ", " + without(w.Excluded)
	}
	return s
}

// without says of a window what it leaves out: "without the first epoch, profiled and traced steps".
func without(excluded string) string {
	for _, own := range []string{"without ", "every ", "one ", "all but "} { // it is a clause of its own
		if strings.HasPrefix(excluded, own) {
			return excluded
		}
	}
	if strings.HasPrefix(excluded, "first epoch") { // as an earlier assay wrote it
		excluded = "the " + excluded
	}
	return "without " + excluded
}

// sharesText says of medians and shares that stand beside each other why they do not add up alike: "" where nobody
// would ask. whole is the median step of those that the split is taken from.
func sharesText(splits, shares []evidence.Figure, whole evidence.Figure) string {
	sum, steps := 0.0, 0
	for i, f := range splits {
		if f.Known() {
			sum += *f.Value
		}
		steps = max(steps, shares[i].N)
	}
	if !whole.Known() || sum <= 0 || math.Abs(sum-*whole.Value) <= 0.02**whole.Value {
		return ""
	}
	of := "all steps"
	if steps > 1 {
		of = "all " + count(steps, "step")
	}
	return fmt.Sprintf("the medians add up to %s, and the median step takes %s: each is its own phase's; a share is the "+
		"phase's part of the time of %s", unit.Seconds(sum), unit.Seconds(*whole.Value), of)
}

// cameToNothing says how a run without a step ended, and what of its evidence is missing beyond what its end explains.
func cameToNothing(run *evidence.Run) string {
	o := run.Outcome
	o.Where = "" // whereText has it
	s := subjectName(run) + " " + strings.TrimSuffix(ending(o), ",")
	if f := run.Figure("run.time"); f.Known() {
		s += " after " + unit.Seconds(*f.Value)
	}
	s += ", and no training step was seen."
	if o.Error == "" && !o.Complete && o.Reason != "" {
		s += " The evidence is incomplete: " + strings.TrimSuffix(o.Reason, ".") + "."
	}
	return s
}

// whereText says of a run that came to nothing where it did: the line, and the interpreter.
func whereText(run *evidence.Run) string {
	var parts []string
	if run.Outcome.Where != "" {
		parts = append(parts, place(run, run.Outcome.Where))
	}
	if t := run.Target; t.Python != "" {
		in := "in Python " + t.Python
		if run.Provenance.Interpreter != "" {
			in += " (" + run.Provenance.Interpreter + ")"
		}
		with := ", no framework imported"
		if t.Framework != "" {
			with = ", " + strings.TrimSpace(t.Framework+" "+t.Release) + " imported"
		}
		parts = append(parts, in+with)
	}
	if parts == nil {
		parts = append(parts, "unknown: "+orElse(blind(run), "nothing was seen of it"))
	}
	return strings.Join(parts, "; ")
}

// toDo says of a run that came to nothing what to do.
func toDo(run *evidence.Run) string {
	o := run.Outcome
	kind, _, _ := strings.Cut(o.Error, ":")
	switch {
	case o.Exit < 0 && o.Signal == "":
		return "wait, or see whether the run goes on: assay show --follow"
	case kind == "ModuleNotFoundError" || kind == "ImportError":
		return "install what is missing for that Python, or name the Python that has it: --python, or its path after --"
	case o.Error != "":
		return "the traceback above says more; assay explain knows many errors, and reads this run"
	case o.Signal == "SIGKILL":
		return "SIGKILL comes from outside the script: often from the system, for want of memory; else from who ran it"
	case o.Signal != "":
		return "a signal ended it: what the script itself printed stands above"
	case o.Exit == 2 && run.Target.Python != "":
		return "status 2 is how argparse and its like refuse a command line: the script's own message stands above"
	case o.Exit != 0:
		return "what the script itself printed stands above; assay explain reads it from a file"
	case len(run.Processes) == 0:
		return "start a Python that reads site (no -I, -E or -S) after --"
	case run.Target.Framework == "":
		return "nothing to measure: " + reason(run.Figure("step.time")) + "; start the script that trains"
	}
	return "a step is recognised by its optimizer: " + reason(run.Figure("step.time"))
}

// commonReason is the one reason why none of the figures is known; "" where one is known or the reasons differ.
func commonReason(fs ...evidence.Figure) string {
	why := ""
	for _, f := range fs {
		if f.Known() || (why != "" && reason(f) != why) {
			return ""
		}
		why = reason(f)
	}
	return why
}

// numerics says in one line what the loss and the gradients showed.
func numerics(run *evidence.Run) string {
	n := run.Numerics
	var parts []string
	known := 0
	for _, v := range run.Loss.Value {
		if v != nil {
			known++
		}
	}
	switch bad := len(n.NonFiniteLosses); {
	case bad > 0:
		parts = append(parts, fmt.Sprintf("loss not finite in %s: %s", count(bad, "step"),
			intList(n.NonFiniteLosses, 5)))
	case known > 0:
		parts = append(parts, "all losses seen finite")
	default:
		parts = append(parts, "no loss was seen")
	}
	first, last := run.Figure("loss.first"), run.Figure("loss.last")
	if first.Known() && last.Known() {
		parts[0] += fmt.Sprintf(" (%s → %s)", number(first), number(last))
	}
	switch {
	case len(n.NonFiniteGrads) > 0:
		parts = append(parts, fmt.Sprintf("gradients not finite in %s: %s", count(len(n.NonFiniteGrads), "step"),
			intList(n.NonFiniteGrads, 5)))
	case n.GradSteps > 0:
		parts = append(parts, fmt.Sprintf("gradients finite in %s checked", count(n.GradSteps, "step")))
	default:
		parts = append(parts, "gradients not checked")
	}
	if len(n.SkippedSteps) > 0 {
		parts = append(parts, fmt.Sprintf("%s skipped by the scaler", count(len(n.SkippedSteps), "step")))
	}
	if n.MicroSteps > 1 {
		parts = append(parts, unit.Format(n.MicroSteps, "1")+" backward passes a step")
	}
	if n.LossScaled != "" {
		parts = append(parts, "loss scaling: "+n.LossScaled)
	}
	return strings.Join(parts, "; ")
}

func intList(ns []int, most int) string {
	var parts []string
	for i, n := range ns {
		if i == most {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ", ")
}

// profileText says which steps the operator table covers.
func profileText(p evidence.Profile) string {
	switch {
	case p.Missing != "":
		return "no operators: " + p.Missing
	case p.Steps == 0:
		return "no step was profiled"
	}
	return fmt.Sprintf("profiled: %s, %s", stepRange(p.First, p.Last), count(p.Steps, "step"))
}

func stepRange(first, last int) string {
	if first == last {
		return "step " + strconv.Itoa(first)
	}
	return fmt.Sprintf("steps %d–%d", first, last)
}

// base is the last element of a path, for a title.
func base(p string) string {
	if p == "" {
		return p
	}
	return path.Base(strings.ReplaceAll(p, "\\", "/"))
}

// blind is why nothing could have been seen; "" when the agent was there to look.
func blind(run *evidence.Run) string {
	switch {
	case len(run.Processes) == 0:
		return "no Python process was observed"
	case stepsSeen(run) == 0:
		return "no training step was seen"
	}
	return ""
}

// unseen says of an empty list that it means nothing; "" when it means that there was nothing.
func unseen(run *evidence.Run) string {
	if why := blind(run); why != "" {
		return "unknown: " + why
	}
	return ""
}

func noSyncs(run *evidence.Run) string {
	return orElse(unseen(run), "no synchronisation point was seen")
}

// waited begins what is said of the time in a call that waits.
func waited(p evidence.SyncPoint) string {
	if p.Computes {
		return "computed there "
	}
	return "host waited "
}

// waiting says whether a call waits.
func waiting(p evidence.SyncPoint) string {
	if p.Computes {
		return "yes: what the step has queued is computed there"
	}
	return "yes"
}

// computedBy reports whether one of the frameworks computed the steps.
func computedBy(run *evidence.Run, frameworks ...string) bool {
	name, _ := run.Target.Computes()
	return slices.Contains(frameworks, name)
}

// noRetained says why no tensor is listed that outlives its step.
func noRetained(run *evidence.Run) string {
	if run.Target.Framework == "mlx" {
		return "not looked for: MLX's arrays are not told apart by the lines that make them"
	}
	if computedBy(run, "jax", "tensorflow") {
		return "not looked for: PyTorch's tensors alone are told apart by the lines that make them"
	}
	return orElse(unseen(run), "none was seen")
}

func noFallbacks(run *evidence.Run) string {
	if run.Rehearsal != nil {
		return "no operator fell back to the CPU"
	}
	if run.Target.Framework == "mlx" { // an operator without a kernel for the GPU raises
		return "none possible: MLX computes where it is told to, or raises"
	}
	if computedBy(run, "jax", "tensorflow") && run.Target.Device != "cpu" {
		return "not known: PyTorch alone says which operators it runs on the CPU"
	}
	if run.Target.Device == "cpu" {
		return "none possible: the run was on the CPU"
	}
	return orElse(unseen(run), "no operator was seen to fall back to the CPU")
}

func noFindings(run *evidence.Run) string {
	none := "none"
	if !run.Outcome.Complete {
		none = "none, on incomplete evidence"
	}
	if slices.ContainsFunc(run.Figures, func(f evidence.Figure) bool {
		return f.Name == "host.cpu.lost" &&
			!f.Known()
	}) && run.Rehearsal == nil &&
		run.Figure("step.time").Known() {
		none += "; not known whether the machine was quiet: " + reason(run.Figure("host.cpu.lost"))
	}
	return none
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// costWords says what assay itself cost, where that was measured: what all of it is of the loop's time, and what it is
// made of. mark writes a figure with its marks.
func costWords(run *evidence.Run, mark func(evidence.Figure) string) (whole, parts string) {
	step, share, total := run.Figure("agent.step"), run.Figure("agent.share"), run.Figure("agent.total")
	span := func(f evidence.Figure) string {
		low, high := f, f
		low.Value, high.Value = f.Low, f.High
		return " (" + number(low) + " to " + number(high) + ")"
	}
	if share.Known() && share.Low != nil && share.High != nil {
		whole = mark(share) + span(share) + " of the loop's time, "
	}
	whole += mark(total) + " in all"
	if *step.Low <= 0 && *step.High >= 0 {
		high := step
		high.Value = step.High
		parts = "the hooks cannot be told from nothing, at most " + number(high) + " a step"
	} else {
		parts = "the hooks " + number(step) + span(step) + " a step with them on"
	}
	if run.Steps.Watched > 0 {
		parts += fmt.Sprintf(", %s of %s", thousands(run.Steps.Watched), count(stepsSeen(run), "step"))
	}
	for _, of := range [][2]string{{"agent.windows", "windows"}, {"agent.synchronised", "synchronised steps"}} {
		if f := run.Figure(of[0]); f.Known() && *f.Value > 0 {
			parts += "; " + of[1] + " " + number(f)
		}
	}
	return whole, parts
}

// inSteps says in how many steps calls of a place were counted, of those that were watched: "40 of 300 watched steps".
func inSteps(run *evidence.Run, p evidence.SyncPoint) string {
	if run.Steps.Watched > 0 {
		return fmt.Sprintf("%s of %s watched steps", thousands(p.Steps), thousands(run.Steps.Watched))
	}
	return count(p.Steps, "step")
}

// onlyWatched says of what is counted by line in which steps it was looked for; empty where in all.
func onlyWatched(run *evidence.Run) string {
	if run.Steps.Watched == 0 {
		return ""
	}
	return fmt.Sprintf("; of the %s of %s in which the hooks were on", thousands(run.Steps.Watched),
		count(stepsSeen(run), "step"))
}
