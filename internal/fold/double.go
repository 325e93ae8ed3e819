package fold

import (
	"assay/internal/facts"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/target"
	"assay/internal/unit"
)

// rehearsed is what the double of one process has told. Its events are totals so far: a later one replaces an earlier.
type rehearsed struct {
	double    *doubleEvent
	ops       opsEvent
	account   *accountEvent
	fallbacks totals[fallbackOpEvent]
	refusals  totals[refusedEvent]
	notes     totals[noteEvent]
	met       totals[metEvent]
	tests     testsEvent
	failed    []testFailedEvent
}

// totals keeps the last event of each key, in the order in which the keys came.
type totals[E any] struct {
	at   map[string]int
	list []E
	full bool // there were more than maxRows
}

func (t *totals[E]) put(e E, key ...string) {
	k := strings.Join(key, "\x00")
	if i, known := t.at[k]; known {
		t.list[i] = e
		return
	}
	if len(t.list) >= maxRows {
		t.full = true
		return
	}
	if t.at == nil {
		t.at = map[string]int{}
	}
	t.at[k] = len(t.list)
	t.list = append(t.list, e)
}

// add takes an event of the double; known is false where it is another's.
func (r *rehearsed) add(ev string, into func(any) bool) (known, ok bool) {
	switch ev {
	case "double":
		r.double = &doubleEvent{}
		return true, into(r.double)
	case "ops":
		r.ops = opsEvent{}
		return true, into(&r.ops)
	case "account":
		r.account = &accountEvent{}
		return true, into(r.account)
	case "fallback_op":
		var e fallbackOpEvent
		ok = into(&e)
		r.fallbacks.put(e, e.Op, e.Where)
		return true, ok
	case "refused":
		var e refusedEvent
		ok = into(&e)
		r.refusals.put(e, e.Op, e.Cause, e.Error, e.Text, e.Where)
		return true, ok
	case "note":
		var e noteEvent
		ok = into(&e)
		r.notes.put(e, e.Op, e.Kind, e.Text, e.Where)
		return true, ok
	case "met":
		var e metEvent
		ok = into(&e)
		r.met.put(e, e.Op, e.Fact, e.Where, strconv.FormatBool(e.Sure))
		return true, ok
	case "tests":
		r.tests = testsEvent{}
		return true, into(&r.tests)
	case "test_failed":
		var e testFailedEvent
		ok = into(&e)
		if len(r.failed) < maxTests {
			r.failed = append(r.failed, e)
		}
		return true, ok
	}
	return false, false
}

// maxTests is how many failed tests of a process are kept.
const maxTests = 100_000

// rehearsal says whether the evidence is of a double, which is certain only when the double itself has said so.
func (b *builder) rehearsal() bool { return b.p != nil && b.p.rehearsed.double != nil }

// notTheMacs stands behind every length of a rehearsal.
const notTheMacs = "on this machine's CPU, with what the double costs: it says nothing about the Mac"

// doubleTarget names the Mac that the run stood for: as it was asked for, and as the double understood it.
func (b *builder) doubleTarget() {
	asked := b.f.start.Double
	if asked == nil && !b.rehearsal() {
		return
	}
	d := &evidence.Double{Assumed: []string{}, Limits: []string{}}
	if asked != nil {
		d.Release, d.Installed, d.MacOS, d.Chip = asked.Release, asked.Installed, asked.MacOS.String(), asked.ChipName
		d.Memory, d.Recommended, d.Cores, d.ShapeOnly, d.Assumed = asked.Memory, asked.Recommended, asked.Cores,
			asked.ShapeOnly, append(d.Assumed, asked.Assumed...)
	}
	if b.rehearsal() {
		said := b.p.rehearsed.double
		d.Release, d.MacOS, d.Memory = said.Release, target.MacOS(said.MacOS).String(), said.Memory
		d.Recommended, d.Ground, d.Limits = said.Recommended, said.RecommendedKnown, append(d.Limits, said.Limits...)
		if said.Installed != "" {
			d.Installed = said.Installed
		}
		if d.Chip == "" {
			d.Chip = said.Chip
		}
	}
	b.run.Target.Double = d
}

// doubleTables adds what the double saw: operators, fallbacks, refusals, remarks, and the shares that follow.
func (b *builder) doubleTables() {
	if !b.rehearsal() {
		return
	}
	r, a := &evidence.Rehearsal{Operators: []evidence.RehearsedOp{}, Refusals: []evidence.Refusal{},
		Remarks: []evidence.RehearsedNote{}}, &atlas.Atlas{}
	b.run.Rehearsal = r
	release := b.p.rehearsed.double.Release
	var called []atlas.Called
	shapeOnly := b.f.start.Double != nil && b.f.start.Double.ShapeOnly
	for _, row := range b.p.rehearsed.ops.Rows {
		if row.State == "" || row.N <= 0 {
			continue
		}
		state := atlas.State(row.State[0])
		op := evidence.RehearsedOp{Operator: row.Op, Calls: row.N, State: state.String(), FLOPs: row.FLOPs,
			BF16FLOPs: row.BF16, Bytes: row.Bytes}
		if row.CPU != nil {
			seconds := float64(*row.CPU) / 1e9
			op.Seconds = &seconds
		}
		timed := op.Seconds
		if shapeOnly { // no operator computed anything
			timed = nil
		}
		called = append(called, atlas.Called{State: state, Calls: row.N, Seconds: timed, FLOPs: row.FLOPs})
		if len(r.Operators) < maxRows {
			r.Operators = append(r.Operators, op)
		}
	}
	shares := atlas.SharesOf(called)
	sort.SliceStable(r.Operators, func(i, j int) bool { return r.Operators[i].Calls > r.Operators[j].Calls })
	for _, e := range b.p.rehearsed.fallbacks.list {
		row := evidence.Fallback{Operator: e.Op, Count: e.N, Where: b.place(e.Where), Basis: evidence.Rehearsed}
		seconds, size := float64(e.CPU)/1e9, e.Bytes
		row.Seconds, row.Bytes = &seconds, &size
		row.Share, row.Note = shares.Part(seconds), facts.Load().Since(a, e.Op)
		b.run.Fallbacks = append(b.run.Fallbacks, row)
	}
	sort.SliceStable(b.run.Fallbacks, func(i,
		j int) bool {
		return seconds0(b.run.Fallbacks[i]) > seconds0(b.run.Fallbacks[j])
	})
	remedies := facts.Load().Remedies(a, release)
	for _, c := range b.f.order { // a worker's refusal is the run's as well
		p := b.f.conns[c]
		if p.hello.PID == 0 {
			continue
		}
		for _, e := range p.rehearsed.refusals.list {
			row := evidence.Refusal{Operator: e.Op, Cause: e.Cause, Error: e.Error, Text: e.Text,
				Where: b.place(e.Where), Count: e.N, Remedy: remedies.Of(e.Op, e.Cause, e.Text)}
			row.Ended = p == b.p && p.err != nil && strings.HasSuffix(p.err.Type, e.Error) && e.Text != "" &&
				strings.HasPrefix(p.err.Text, e.Text[:min(len(e.Text), maxErrorText)])
			list := &r.Refusals
			if e.Cause == facts.Values {
				list = &r.NeedsData
			}
			if len(*list) < maxRows {
				*list = append(*list, row)
			}
		}
	}
	for _, e := range b.p.rehearsed.notes.list {
		r.Remarks = append(r.Remarks, evidence.RehearsedNote{Operator: e.Op, Kind: e.Kind, Text: e.Text,
			Where: b.place(e.Where), Count: e.N})
	}
	b.met()
	r.Memory = b.account()
	if shares.OfCalls == nil {
		for _, name := range []string{"fallback.calls", "fallback.flops", "fallback.time", "refused.calls",
			"refused.flops", "refused.time", "wrong.calls", "wrong.flops", "wrong.time"} {
			b.unknown(name, "ratio", "no operator was called with a tensor on the device")
		}
		return
	}
	b.refusedAndWrong(shares, shapeOnly)
	note := fmt.Sprintf("of %d calls of operators with tensors on the device, those of an operator without a kernel for it", shares.Calls)
	if shares.UnknownState > 0 {
		note += fmt.Sprintf("; of %d calls the atlas does not know the state", shares.UnknownState)
	}
	b.known("fallback.calls", *shares.OfCalls, "ratio", evidence.Rehearsed, note)
	if shares.OfFLOPs != nil {
		b.known("fallback.flops", *shares.OfFLOPs, "ratio", evidence.Rehearsed,
			"of the floating-point operations of those calls whose FLOPs are counted")
	} else {
		b.unknown("fallback.flops", "ratio", "floating-point operations were not counted")
	}
	switch {
	case shapeOnly:
		b.unknown("fallback.time", "ratio", noTimes)
	case shares.RefusedAtOnce:
		b.unknown("fallback.time", "ratio",
			"the operators without a kernel were refused before they ran: PYTORCH_ENABLE_MPS_FALLBACK=1 lets them run")
	case shares.OfTime == nil:
		b.unknown("fallback.time", "ratio", "the operators were not timed")
	default:
		b.known("fallback.time", *shares.OfTime, "ratio", evidence.Rehearsed,
			"of the operators' time on this machine's CPU")
	}
}

// piecesShown is how many parts of a run have a peak of their own; there are three.
const piecesShown = 8

// account is the account of memory as the double told it; nil where it told none, or one whose parts contradict one
// another.
func (b *builder) account() *evidence.RehearsedMemory {
	told := b.p.rehearsed.account
	if told == nil {
		return nil
	}
	m := told.RehearsedMemory
	k, l := m.Kinds, m.Limits
	sizes := []int64{m.Peak, m.AllocatedPeak, m.LargestBuffer, int64(m.At.Step), k.Weights, k.Gradients, k.Optimizer,
		k.Activations, k.Workspace, k.Data, k.Other}
	known := []*int64{m.Steady, l.Recommended, l.High, l.Low, l.LargestBuffer, l.Wired}
	for _, piece := range m.Pieces {
		sizes, known = append(sizes, piece.Peak), append(known, piece.Host)
	}
	if batch := m.Batch; batch != nil {
		sizes = append(sizes, int64(batch.Rows), int64(batch.Lengths), int64(batch.LongestSeenOf))
		for _, n := range []*int{batch.Length, batch.Longest, batch.Items} {
			if n != nil {
				sizes = append(sizes, int64(*n))
			}
		}
	}
	for _, n := range known {
		if n != nil {
			sizes = append(sizes, *n)
		}
	}
	for _, n := range sizes {
		if n < 0 || n > math.MaxInt64>>4 { // a sum of the kinds does not overflow
			return nil
		}
	}
	if k.Sum() != m.AllocatedPeak {
		return nil
	}
	if m.Pieces = m.Pieces[:min(len(m.Pieces), piecesShown)]; m.Pieces == nil {
		m.Pieces = []evidence.MemoryPiece{}
	}
	if m.Limits.Source == nil || len(m.Limits.Source) > piecesShown {
		m.Limits.Source = map[string]string{}
	}
	return &m
}

// refusedAndWrong says which part of the work was refused, and of which part the numbers come out wrong for sure.
func (b *builder) refusedAndWrong(shares atlas.Shares, shapeOnly bool) {
	told := b.p.rehearsed.ops
	if told.WrongWholes == nil {
		for _, name := range []string{"refused.calls", "refused.flops", "refused.time", "wrong.calls", "wrong.flops",
			"wrong.time"} {
			b.unknown(name, "ratio", "the agent that rehearsed did not count it")
		}
		return
	}
	var refused, wrong int
	var refusedFLOPs, wrongFLOPs, wrongSeconds float64
	counted := true
	for _, row := range told.Rows {
		refused, wrong = refused+row.Refused, wrong+row.Wrong
		wrongFLOPs, wrongSeconds = wrongFLOPs+row.WrongFLOPs, wrongSeconds+float64(row.WrongNS)/1e9
		if row.RefusedFLOPs != nil {
			refusedFLOPs += *row.RefusedFLOPs
		} else if row.Refused > 0 {
			counted = false
		}
	}
	all := 0 // refusals, those of Python's functions among them, which no operator's call stands for
	for _, e := range b.p.rehearsed.refusals.list {
		if e.Cause != facts.Values {
			all += e.N
		}
	}
	all = max(all, refused)
	share := func(name string, part, whole float64, note string) {
		switch {
		case whole > 0 && part >= 0 && part <= whole:
			b.known(name, part/whole, "ratio", evidence.Rehearsed, note)
		case whole > 0:
			b.unknown(name, "ratio", "the events contradict one another")
		default:
			b.unknown(name, "ratio", "none was counted")
		}
	}
	calls := shares.Calls + all - refused
	share("refused.calls", float64(all), float64(calls), fmt.Sprintf("%d of %d calls", all, calls))
	switch {
	case !counted:
		b.unknown("refused.flops", "ratio", "what a refused call would have computed is not known")
	case all > refused:
		b.unknown("refused.flops", "ratio", "functions of PyTorch's Python were refused, which are no operators")
	default:
		share("refused.flops", refusedFLOPs, shares.FLOPs+refusedFLOPs,
			"what refused calls would have computed, of that and what was computed")
	}
	switch {
	case all > 0:
		b.unknown("refused.time", "ratio", "a refused call takes no time")
	case shapeOnly:
		b.unknown("refused.time", "ratio", noTimes)
	default:
		share("refused.time", 0, shares.Seconds, "")
	}
	wholes := max(0, *told.WrongWholes)
	calls = shares.Calls + wholes
	share("wrong.calls", float64(wrong+wholes), float64(calls), fmt.Sprintf("%d of %d calls", wrong+wholes, calls))
	if wholes > 0 {
		why := fmt.Sprintf("%d calls are of functions that PyTorch composes of operators: which of these they are is not"+
			" counted", wholes)
		b.unknown("wrong.flops", "ratio", why)
		b.unknown("wrong.time", "ratio", why)
		return
	}
	share("wrong.flops", wrongFLOPs, shares.FLOPs, "of the floating-point operations that are counted")
	if shapeOnly {
		b.unknown("wrong.time", "ratio", noTimes)
	} else {
		share("wrong.time", wrongSeconds, shares.Seconds, "of the operators' time on this machine's CPU")
	}
}

// noTimes is why a rehearsal of shapes has no times.
const noTimes = "shapes alone were carried (--shape-only): no operator computed"

// maxErrorText is how much the agent sends of an exception's message.
const maxErrorText = 4000

func seconds0(f evidence.Fallback) float64 {
	if f.Seconds == nil {
		return 0
	}
	return *f.Seconds
}

// shownRefusals is how many refusals and remarks become findings; the tables have them all.
const shownRefusals = 20

func (b *builder) doubleFindings() {
	run, d := b.run, b.run.Target.Double
	if d == nil {
		return
	}
	if !b.rehearsal() {
		b.find("not-rehearsed", evidence.Error, evidence.Measured, "", "",
			"a rehearsal was asked for, and the double was not put in: %s", b.noDouble())
		return
	}
	b.find("rehearsed", evidence.Note, evidence.Declared, "", strings.Join(d.Assumed, "; "),
		"rehearsed on a double of torch %s on MPS, %s with %s, macOS %s: times are this machine's and say nothing about the Mac", d.Release, d.Chip, unit.Bytes(float64(d.Memory)), d.MacOS)
	if before, _, _ := strings.Cut(d.Installed, "+"); before != "" && before != d.Release {
		sev := evidence.Warning
		if atlas.Series(before) == atlas.Series(d.Release) {
			sev = evidence.Note
		}
		b.find("other-release", sev, evidence.Measured, "",
			"install torch=="+d.Release+" to rehearse with its own code",
			"torch %s is installed, and the rehearsal is of %s: scripts see the version and the names of the second; the code behind them, what operators call and their values are those of the first", d.Installed, d.Release)
	}
	if d.Recommended == nil {
		b.find("memory-unlimited", evidence.Note, evidence.Derived, "", "",
			"Metal's recommended working set for %s under macOS %s is not known: the rehearsal ran without a limit of memory", unit.Bytes(float64(d.Memory)), d.MacOS)
	}
	if run.Target.Device != "" && run.Target.Device != "mps" {
		b.find("other-device", evidence.Warning, evidence.Rehearsed, "", "pass the script's own device option as well",
			"a Mac was rehearsed, and the losses were on %s", run.Target.Device)
	} else if len(run.Rehearsal.Operators)+len(run.Rehearsal.Refusals)+len(run.Rehearsal.NeedsData) == 0 {
		b.find("device-unused", evidence.Warning, evidence.Rehearsed, "", "pass the script's own device option as well",
			"no operator was called with a tensor on MPS")
	}
	for i, fb := range run.Fallbacks {
		if i == shownRefusals {
			b.find("fallbacks", evidence.Warning, evidence.Rehearsed, "", "", "%d more fallbacks are in the table",
				len(run.Fallbacks)-i)
			break
		}
		share := ""
		if fb.Share != nil {
			share = ", " + unit.Format(*fb.Share, "ratio") + " of the operators' time on this machine"
		}
		b.find("fallback", evidence.Warning, evidence.Rehearsed, fb.Where, fb.Note, "%s falls back to the CPU%s%s",
			fb.Operator, times(fb.Count), share)
	}
	for i, n := range run.Rehearsal.NeedsData {
		if i == shownRefusals {
			break
		}
		sev, then := evidence.Warning, "the script went on"
		if n.Ended {
			sev, then = evidence.Error, "it ended the script, and what comes after it was not rehearsed"
		}
		b.find("needs-data", sev, evidence.Rehearsed, n.Where, n.Remedy,
			"%s needs values, and shapes alone were carried%s; %s", n.Operator, times(n.Count), then)
	}
	b.tests()
	refusals := append([]evidence.Refusal(nil), run.Rehearsal.Refusals...)
	if run.Rehearsal.Tests != nil {
		refusals = nil // each is a test's, and tests are told of by cause
	}
	sort.SliceStable(refusals, func(i, j int) bool { return refusals[i].Ended && !refusals[j].Ended })
	for i, r := range refusals {
		if i == shownRefusals {
			b.find("refusals", evidence.Warning, evidence.Rehearsed, "", "", "%d more refusals are in the table",
				len(refusals)-i)
			break
		}
		sev, then := evidence.Warning, "the script went on"
		if r.Ended {
			sev, then = evidence.Error, "it ended the script"
		}
		text, _, _ := strings.Cut(r.Text, "\n")
		if r.Cause == "missing" {
			text = "no kernel for MPS in torch " + d.Release
		}
		b.find("refused-"+r.Cause, sev, evidence.Rehearsed, r.Where, r.Remedy, "%s raised %s%s: %s; %s", r.Operator,
			r.Error, times(r.Count), text, then)
	}
	remarks := b.pythonSide()
	for i, n := range remarks {
		if i == shownRefusals {
			b.find("remarks", evidence.Note, evidence.Rehearsed, "", "", "%d more remarks are in the table",
				len(remarks)-i)
			break
		}
		sev := evidence.Note
		if n.Kind == "wrong" {
			sev = evidence.Warning
		}
		b.find("remark-"+n.Kind, sev, evidence.Rehearsed, n.Where, "", "%s: %s", n.Operator, n.Text)
	}
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times", n)
}

// noDouble says why a rehearsal did not come about.
func (b *builder) noDouble() string {
	switch {
	case b.p == nil:
		return "the agent never said hello"
	case len(b.p.trouble) > 0:
		return b.p.trouble[0]
	case b.p.framework == nil:
		return "no process imported torch"
	}
	return "no reason was given"
}

// pythonSide says how far scripts met the release's own Python side: what they asked for and the installed PyTorch has
// no longer, and which libraries were told the release's version. It returns the remarks about something else.
func (b *builder) pythonSide() []evidence.RehearsedNote {
	d, told, gone := b.run.Target.Double, []string{}, 0
	var rest []evidence.RehearsedNote
	for _, n := range b.run.Rehearsal.Remarks {
		switch n.Kind {
		case "python-gone":
			if gone++; gone <= shownRefusals {
				b.find("python-gone", evidence.Warning, evidence.Rehearsed, n.Where,
					"install torch=="+d.Release+" to rehearse with its own code", "%s: %s", n.Operator, n.Text)
			}
		case "told-version":
			if len(told) < shownRefusals {
				told = append(told, n.Text+" at "+n.Where)
			}
		default:
			rest = append(rest, n)
		}
	}
	if gone > shownRefusals {
		b.find("python-gone", evidence.Warning, evidence.Rehearsed, "", "", "%d more such names are in the table",
			gone-shownRefusals)
	}
	if before, _, _ := strings.Cut(d.Installed, "+"); len(told) > 0 && before != d.Release {
		b.find("told-version", evidence.Note, evidence.Rehearsed, "", "",
			"the version of PyTorch: %s; what they do by it runs on %s", strings.Join(told, "; "), d.Installed)
	}
	return rest
}
