package report

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
)

// rehearsedCalls counts the calls of operators with tensors on the device, and those of them that were refused.
func rehearsedCalls(r *evidence.Rehearsal) (calls, refused int) {
	for _, o := range r.Operators {
		calls += o.Calls
	}
	for _, x := range r.Refusals {
		refused += x.Count
	}
	return calls, refused
}

// rehearsalTiles are what a rehearsal is for: what the device refuses, gets wrong, leaves to the CPU, and whether it
// fits.
func rehearsalTiles(run *evidence.Run) []tile {
	r := run.Rehearsal
	rehearsed := string(evidence.Rehearsed)
	calls, n := rehearsedCalls(r)
	var tiles []tile
	if t := r.Tests; t != nil {
		tiles = append(tiles, tile{Name: "tests that fail", Basis: rehearsed, Value: thousands(t.Failed),
			Detail: "of " + thousands(t.Passed+t.Failed+t.Skipped+t.XFailed+t.XPassed)})
	}
	refused := tile{Name: "refused", Value: "none", Basis: rehearsed, Detail: "of " + count(calls, "call")}
	switch {
	case n > 0:
		refused.Value, refused.Detail = count(n, "call"), fmt.Sprintf("of %s: %s", thousands(calls), refusedOf(r))
		if parts := shareOf(run, "refused"); parts != "" {
			refused.Detail += "; " + parts
		}
	case calls == 0:
		refused = tile{Name: "refused", Value: "unknown", Unknown: true,
			Detail: "no operator was called with a tensor on MPS"}
	}
	tiles = append(tiles, refused)

	wrong := tile{Name: "known wrong results", Value: "unknown", Unknown: true,
		Detail: "not looked for by the assay that rehearsed"}
	if r.Met != nil {
		sure, may := len(evidence.MetBy(r.Met, true, "wrong")), len(evidence.MetBy(r.Met, false, "wrong"))
		wrong = tile{Name: "known wrong results", Value: "none", Basis: rehearsed}
		if sure > 0 {
			wrong.Value, wrong.Detail = thousands(sure), shareOf(run, "wrong")
		}
		if may > 0 {
			if wrong.Detail != "" {
				wrong.Detail += "; "
			}
			wrong.Detail += thousands(may) + map[bool]string{true: " more"}[sure > 0] +
				" possible: one call’s arguments do not tell"
		}
	}
	tiles = append(tiles, wrong)
	if n := len(evidence.MetBy(r.Met, true, "aborts")); n > 0 {
		tiles = append(tiles, tile{Name: "would end the process", Value: thousands(n), Basis: rehearsed})
	}

	fallen := tileOf(run, "without a kernel", "fallback.calls")
	if !fallen.Unknown {
		fallen.Value += " of calls"
		fallen.Detail, fallen.Range = shareOf(run, "fallback"), ""
	}
	tiles = append(tiles, fallen)

	peak := tileOf(run, "peak memory", "memory.live.peak")
	if d := run.Target.Double; !peak.Unknown && d != nil {
		peak.Detail = "of " + quantity(float64(d.Memory), "B") + ": " + d.Chip
		if w := run.Figure("memory.watermark"); w.Known() && d.Recommended != nil {
			peak.Detail = fmt.Sprintf("with the pool %s of the %s that Metal recommends there (%s, %s)", number(w),
				quantity(float64(*d.Recommended), "B"), d.Chip, quantity(float64(d.Memory), "B"))
		}
	}
	return append(tiles, peak)
}

// shareOf says which share of FLOPs and of the operators' time the calls of a cause have: refused, wrong, fallback; ""
// where neither is known.
func shareOf(run *evidence.Run, cause string) string {
	var parts []string
	for _, x := range [][2]string{{".flops", " of FLOPs"}, {".time", " of the operators’ time here"}} {
		if f := run.Figure(cause + x[0]); f.Known() {
			parts = append(parts, number(f)+x[1])
		}
	}
	return strings.Join(parts, ", ")
}

// refusedOf names the operators that were refused, those with most calls first, and by what.
func refusedOf(r *evidence.Rehearsal) string {
	var names []string
	for _, x := range sorted(r.Refusals, func(a, b evidence.Refusal) bool { return a.Count > b.Count }) {
		if name := fmt.Sprintf("%s (%s)", x.Operator, x.Cause); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 3 {
		names = append(names[:2:2], fmt.Sprintf("%d more", len(names)-2))
	}
	return strings.Join(names, ", ")
}

// rehearsalLead says what a rehearsal is for before it says anything else; "" for a run on a device.
func rehearsalLead(run *evidence.Run) string {
	r := run.Rehearsal
	if r == nil {
		return ""
	}
	s := ""
	if t := r.Tests; t != nil && t.Failed > 0 {
		s = fmt.Sprintf("%s of %s on the double. ", failing(t.Failed),
			count(t.Passed+t.Failed+t.Skipped+t.XFailed+t.XPassed, "test"))
	}
	calls, refused := rehearsedCalls(r)
	switch {
	case calls == 0:
		return s + "No operator was called with a tensor on MPS: the rehearsal tells nothing of the device. "
	case refused > 0:
		s += fmt.Sprintf("MPS would refuse %s of %s: %s", thousands(refused), count(calls, "call"), refusedOf(r))
		for _, x := range r.Refusals {
			if x.Ended {
				s += fmt.Sprintf("; %s at %s ended the script", x.Operator,
					orElse(place(run, x.Where), "an unknown line"))
				break
			}
		}
		s += ". "
	default:
		s += fmt.Sprintf("MPS refuses none of %s. ", count(calls, "call"))
	}
	if f := run.Figure("fallback.calls"); f.Known() && *f.Value > 0 {
		s += number(f) + " of calls have no kernel there"
		if t := run.Figure("fallback.time"); t.Known() {
			s += fmt.Sprintf(", %s of the operators’ time on this machine", number(t))
		}
		s += ". "
	}
	return s
}

func failing(n int) string {
	if n == 1 {
		return "1 fails"
	}
	return thousands(n) + " fail"
}

// rehearsed are the tables of what the double saw, and of what it stood for.
func rehearsed(run *evidence.Run) []table {
	r := run.Rehearsal
	at := func(operator, where string) cell { return cell{Text: operator, Small: place(run, where), Code: true} }
	refusals := table{ID: "t-refusals", Caption: "Refusals", Note: "errors that the device would raise",
		Empty: "no operator was refused",
		Cols: []column{{"operator", false}, {"cause", false}, {"count", true}, {"error", false},
			{"ended the script", false}, {"what to do", false}}}
	for _, x := range r.Refusals {
		refusals.Rows = append(refusals.Rows, []cell{at(x.Operator, x.Where), text(x.Cause), whole(x.Count),
			{Text: x.Error, Small: x.Text}, yes(x.Ended), text(x.Remedy)})
	}
	met := table{ID: "t-met", Caption: "Known facts that were met",
		Note:  "about which MPS says nothing: wrong numbers, an end of the process, a slower way, the CPU (knowledge.md)",
		Empty: "none was met",
		Cols: []column{{"outcome", false}, {"operator", false}, {"count", true}, {"what comes out, and when", false},
			{"what to do", false}, {"releases", false}}}
	if r.Met == nil {
		met.Empty = "not looked for by the assay that rehearsed"
	}
	for _, x := range r.Met {
		outcome := cell{Text: x.Outcome, Small: x.Fact}
		if !x.Sure {
			outcome.Text = "perhaps " + x.Outcome
		}
		out := cell{Text: orElse(x.Wrong, x.When)}
		if x.Wrong != "" {
			out.Small = x.When
		}
		met.Rows = append(met.Rows, []cell{outcome, at(x.Operator, x.Where), whole(x.Count), out,
			text(orElse(x.Remedy, "–")), {Text: x.Span, Small: x.Source}})
	}
	remarks := table{ID: "t-remarks", Caption: "Remarks", Note: "what the device does otherwise, without an error",
		Empty: "none was made",
		Cols:  []column{{"operator", false}, {"kind", false}, {"line", false}, {"count", true}, {"what", false}}}
	for _, x := range r.Remarks {
		remarks.Rows = append(remarks.Rows, []cell{code(x.Operator), text(x.Kind), code(place(run, x.Where)),
			whole(x.Count), text(x.Text)})
	}
	ops := table{ID: "t-rehearsed", Caption: "Operators on the device",
		Note:  "calls with tensors on MPS; the state is the release's; times are this machine's",
		Empty: "no operator was called with a tensor on MPS",
		Cols: []column{{"operator", false}, {"state", false}, {"calls", true}, {"time, this machine", true},
			{"FLOPs", true}}}
	rank := func(x evidence.RehearsedOp) float64 { // what has no kernel first, then by time
		seconds := 0.0
		if x.Seconds != nil {
			seconds = *x.Seconds
		}
		if x.State != "native" && x.State != "composed" {
			seconds += 1e12
		}
		return seconds
	}
	for _, x := range sorted(r.Operators, func(a, b evidence.RehearsedOp) bool { return rank(a) > rank(b) }) {
		flops := unknownCell()
		if x.FLOPs != nil {
			flops = cell{Text: fmt.Sprintf("%.3g", *x.FLOPs), Sort: full(*x.FLOPs), Num: true}
		}
		ops.Rows = append(ops.Rows, []cell{code(x.Operator), text(x.State), whole(x.Calls), maybe(x.Seconds, "s"),
			flops})
	}
	out := []table{met, refusals, remarks, ops}
	if r.Tests != nil {
		causes := table{ID: "t-causes", Caption: "Failed tests by operator", Empty: "none failed",
			Cols: []column{{"operator", false}, {"cause", false}, {"tests", true}, {"line", false},
				{"what to do", false}}}
		for _, c := range r.Tests.Causes {
			cause := c.Cause
			switch c.Cause {
			case "CPU too":
				cause = "they fail on the CPU as well: nothing about the device"
			case "other":
				cause = "no refusal by the device was met"
			}
			causes.Rows = append(causes.Rows, []cell{code(orElse(c.Operator, "–")), text(cause), whole(c.Tests),
				code(place(run, c.Where)), text(orElse(c.Remedy, "–"))})
		}
		tests := table{ID: "t-tests", Caption: "Tests that failed", Empty: "none failed",
			Cols: []column{{"test", false}, {"cause", false}, {"operator", false}, {"on the CPU", false},
				{"line", false}, {"error", false}}}
		for _, x := range r.Tests.Failures {
			tests.Rows = append(tests.Rows, []cell{code(x.ID), text(x.Cause), code(x.Operator), text(x.OnCPU),
				code(place(run, x.Where)), {Text: x.Error, Small: firstSentence(x.Text)}})
		}
		out = append([]table{causes, tests}, out...)
	}
	if d := run.Target.Double; d != nil {
		t := table{ID: "t-double", Plain: true, Caption: "What it stood for",
			Cols: []column{{Name: "what"}, {Name: "value"}}}
		add := func(name, value, small string) {
			t.Rows = append(t.Rows, []cell{text(name), {Text: value, Small: small}})
		}
		add("release", "torch "+d.Release, orElse(d.Installed, "another")+" installed")
		add("Mac", fmt.Sprintf("%s with %s, %s", d.Chip, quantity(float64(d.Memory), "B"), count(d.Cores, "GPU core")),
			"macOS "+d.MacOS)
		if d.Recommended != nil {
			add("recommended working set", quantity(float64(*d.Recommended), "B"), d.Ground)
		} else {
			add("recommended working set", "unknown", "")
		}
		if d.ShapeOnly {
			add("values", "none: shapes alone", "")
		} else {
			add("values", "computed by this machine's CPU", "")
		}
		for _, x := range d.Assumed {
			add("assumed", x, "")
		}
		for _, x := range d.Limits {
			add("not imitated", x, "")
		}
		out = append(out, t)
	}
	return out
}

// firstSentence is what an error says first; the whole stands with the refusal, and in the evidence.
func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
