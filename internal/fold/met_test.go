package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

const (
	doubleOf28 = `{"ev":"double","release":"2.8.0","installed":"2.8.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb",` +
		`"memory":103079215104,"recommended":null,"recommended_known":"","limits":[]}`
	opsOf28 = `{"ev":"ops","rows":[{"op":"aten::mm","n":90,"state":"N","cpu_ns":6000000000}]}`
)

// met is an event as the agent sends it.
func met(op, fact string, sure bool, where string, n int) string {
	return fmt.Sprintf(`{"ev":"met","op":%q,"fact":%q,"sure":%v,"where":%q,"n":%d}`, op, fact, sure, where, n)
}

// rehearsedWith is a rehearsal of 2.8 that went well, with these events.
func rehearsedWith(lines ...string) *evidence.Run {
	s := newRehearsal()
	for _, line := range append([]string{doubleOf28, `{"ev":"device","type":"mps"}`, opsOf28}, lines...) {
		s.f.Add(1, []byte(line))
	}
	s.steps(1, 1, 20, 0, plainSteps)
	s.own("exit", ExitEvent{Wall: time.Unix(1002, 0)})
	return s.f.Finish()
}

// TestWrongResultLeads: a run that meets a known wrong result for sure says so before all else, an error of the script
// among it, with the line, what comes out, when, in which releases, what to do and the source.
func TestWrongResultLeads(t *testing.T) {
	run := rehearsedWith(
		`{"ev":"loss","step":[1],"value":["nan"]}`,
		met("torchvision::_roi_align_backward", "roi-backward-accumulates", true, "/home/u/p/train.py:20", 3),
		met("torchvision::_roi_align_backward", "roi-backward-accumulates", true, "/home/u/p/train.py:20", 40),
		met("torchvision::_roi_align_backward", "roi-backward-accumulates", true, "/home/u/p/train.py:9", 2))
	first := run.Findings[0]
	if first.Name != "wrong-result" || first.Severity != evidence.Error || first.Where != "train.py:20" ||
		!strings.Contains(first.Hint, "torch 2.14") {
		t.Fatalf("the first finding is %+v", first)
	}
	for _, want := range []string{"gradients too large", "torchvision::_roi_align_backward 42 times from 2 lines",
		"more than 512 gradients", "torch 2.1.0 to 2.13.0, right from 2.14.0 on", "vision PR 9510",
		"[roi-backward-accumulates]"} {
		if !strings.Contains(first.Text, want) {
			t.Errorf("no %q in %s", want, first.Text)
		}
	}
	want(t, run, "facts.wrong", 1)
	want(t, run, "facts.aborts", 0)
	if note := run.Figure("facts.wrong").Note; !strings.Contains(note, "roi-backward-accumulates") ||
		!strings.Contains(note, "right from torch 2.14.0 on") {
		t.Errorf("a gate that fails by it does not say by what, and what to do: %s", note)
	}
	if rows := run.Rehearsal.Met; len(rows) != 2 || rows[0].Count != 40 || rows[0].Wrong == "" || rows[0].Source == "" {
		t.Errorf("%+v", rows)
	}
}

// TestSeverityOfFacts: what ends the process is as bad as a wrong number; what is slower or goes to the CPU warns, with
// its place; what is not sure is one line an outcome, in which those that come out wrong are named.
func TestSeverityOfFacts(t *testing.T) {
	run := rehearsedWith(
		met("aten::cumsum", "cumsum-far-dimension", true, "/home/u/p/a.py:1", 1),
		met("aten::_linalg_eigh", "eigh-small", true, "/home/u/p/a.py:2", 1),
		met("aten::mm", "mm-known-issue", true, "/home/u/p/a.py:3", 1),
		met("aten::linear", "linear-large-input", false, "/home/u/p/a.py:4", 1),
		met("aten::sum", "reductions-intermittent", false, "/home/u/p/a.py:5", 1))
	for name, want := range map[string]struct {
		severity    evidence.Severity
		where, says string
	}{
		"process-ends":         {evidence.Error, "a.py:1", "a Mac's process would end"},
		"goes-to-cpu":          {evidence.Warning, "a.py:2", "aten::_linalg_eigh"},
		"slow-way":             {evidence.Warning, "a.py:3", "aten::mm"},
		"wrong-result-perhaps": {evidence.Note, "", "2 (linear-large-input when "},
	} {
		f := finding(run, name)
		if f == nil || f.Severity != want.severity || f.Where != want.where || !strings.Contains(f.Text, want.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := finding(run, "wrong-result"); f != nil {
		t.Errorf("nothing is sure to come out wrong: %+v", f)
	}
	want(t, run, "facts.wrong", 0)
	want(t, run, "facts.aborts", 1)
	want(t, run, "facts.perhaps", 2)
}

// TestPerhapsIsBounded: many facts that may be met are one line, which says how many it does not name.
func TestPerhapsIsBounded(t *testing.T) {
	var lines []string
	for _, name := range []string{"linear-large-input", "reductions-intermittent", "clamp-after-clamp", "softmax-large",
		"conj-imag", "irfft", "inverse", "svd-not-orthogonal", "lu-factor-singular", "conj-in-einsum", "randn-complex",
		"one-hot-out-of-range", "interpolate-nearest-exact", "var-macos-27"} {
		lines = append(lines, met("aten::mm", name, false, "a.py:1", 1))
	}
	f := finding(rehearsedWith(lines...), "wrong-result-perhaps")
	if f == nil || !strings.Contains(f.Text, "14 (") || !strings.Contains(f.Text, "; 2 more in the table)") {
		t.Errorf("%+v", f)
	}
}

// TestFactsOfWorkers: a worker's wrong number is the run's, and one that both meet from one line is counted together.
func TestFactsOfWorkers(t *testing.T) {
	s := newRehearsal()
	for _, line := range []string{doubleOf28, opsOf28,
		met("aten::mm", "linear-strided-weight", true, "/home/u/p/a.py:1", 2)} {
		s.f.Add(1, []byte(line))
	}
	s.send(2, map[string]any{"ev": "hello", "version": 1, "pid": 8, "parent": 7, "python": "3.12.1", "wall": 1000.0,
		"clock": 0})
	for _, line := range []string{doubleOf28, met("aten::mm", "linear-strided-weight", true, "/home/u/p/a.py:1", 3),
		met("aten::mm", "sdpa-strided-inputs", true, "/home/u/p/w.py:1", 1)} {
		s.f.Add(2, []byte(line))
	}
	s.steps(1, 1, 20, 0, plainSteps)
	run := s.f.Finish()
	want(t, run, "facts.wrong", 2)
	if rows := run.Rehearsal.Met; len(rows) != 2 || rows[0].Count != 5 || rows[1].Where != "w.py:1" {
		t.Errorf("%+v", rows)
	}
}

// TestFactsNotAllTold: what exceeds the table is said to be missing from it, and a fact of another assay's table is no
// pass either.
func TestFactsNotAllTold(t *testing.T) {
	var lines []string
	for i := range maxRows + 1 {
		lines = append(lines, met("aten::mm", "linear-strided-weight", true, fmt.Sprintf("a.py:%d", i), 1))
	}
	run := rehearsedWith(lines...)
	if f := finding(run, "facts-not-told"); f == nil || len(run.Rehearsal.Met) != maxRows {
		t.Errorf("%d rows, %+v", len(run.Rehearsal.Met), f)
	}
	run = rehearsedWith(met("aten::mm", "of-tomorrow", true, "a.py:1", 1))
	if f := finding(run, "fact-unknown"); f == nil || !strings.Contains(f.Text, "of-tomorrow") {
		t.Errorf("%+v", f)
	}
	if f := finding(run, "facts-not-told"); f != nil {
		t.Errorf("%+v", f)
	}
}

// TestNoFactOfAShortRun: of a run that ended early it is not known that it meets nothing.
func TestNoFactOfAShortRun(t *testing.T) {
	early := func(lines ...string) *evidence.Run {
		s := newRehearsal()
		for _, line := range append([]string{doubleOf28, opsOf28}, lines...) {
			s.f.Add(1, []byte(line))
		}
		s.own("exit", ExitEvent{Wall: time.Unix(1002, 0), Code: 1})
		return s.f.Finish()
	}
	wantUnknown(t, early(), "facts.wrong", "ended early")
	run := early(met("aten::mm", "linear-strided-weight", true, "a.py:1", 1))
	want(t, run, "facts.wrong", 1)
	wantUnknown(t, run, "facts.aborts", "ended early")
}

// TestFallbackSaidOnce: a detour that is a fallback has the fallback's finding, and no second one.
func TestFallbackSaidOnce(t *testing.T) {
	run := rehearsedWith(
		`{"ev":"fallback_op","op":"aten::linalg_svd","where":"/home/u/p/a.py:2","n":1,"cpu_ns":1,"bytes":2}`,
		met("aten::linalg_svd", "linalg-svd-always-falls-back", true, "/home/u/p/a.py:2", 1))
	if finding(run, "fallback") == nil || finding(run, "goes-to-cpu") != nil || len(run.Rehearsal.Met) != 1 {
		t.Errorf("%+v", run.Findings)
	}
}
