package fold

import (
	"assay/internal/facts"
	"fmt"
	"sort"

	"assay/internal/atlas"
	"assay/internal/evidence"
)

// testsEvent are counts so far.
type testsEvent struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	XFailed int `json:"xfailed"`
	XPassed int `json:"xpassed"`
}

type testFailedEvent struct {
	ID    string `json:"id"`
	Op    string `json:"op"`
	Cause string `json:"cause"`
	How   string `json:"how"`
	Error string `json:"error"`
	Text  string `json:"text"`
	Where string `json:"where"`
}

// RetestEvent says how the failed tests ended on the CPU.
type RetestEvent struct {
	Rows    [][3]string `json:"rows"` // id, outcome, error
	Missing string      `json:"missing"`
}

// add counts what several processes of pytest have told.
func (t *testsEvent) add(e testsEvent) {
	t.Passed += e.Passed
	t.Failed += e.Failed
	t.Skipped += e.Skipped
	t.XFailed += e.XFailed
	t.XPassed += e.XPassed
}

// tests adds how pytest's tests ended; nothing where there were none.
func (b *builder) tests() {
	var counts testsEvent
	var failed []testFailedEvent
	for _, c := range b.f.order {
		r := &b.f.conns[c].rehearsed
		counts.add(r.tests)
		failed = append(failed, r.failed...)
	}
	if b.run.Rehearsal == nil || counts == (testsEvent{}) && len(failed) == 0 {
		return
	}
	t := &evidence.Tests{Passed: counts.Passed, Failed: counts.Failed, Skipped: counts.Skipped, XFailed: counts.XFailed,
		XPassed: counts.XPassed,
		Causes:  []evidence.TestCause{}, Failures: []evidence.TestFailure{}}
	b.run.Rehearsal.Tests = t
	onCPU := map[string][3]string{}
	if b.f.retest != nil {
		t.CPU = b.f.retest.Missing
		for _, row := range b.f.retest.Rows {
			onCPU[row[0]] = row
		}
	} else if len(failed) > 0 {
		t.CPU = "the tests that failed were not run on the CPU"
	}
	remedies := facts.Load().Remedies(&atlas.Atlas{}, b.p.rehearsed.double.Release)
	causes := map[[2]string]*evidence.TestCause{}
	var order [][2]string
	for _, e := range failed {
		row := evidence.TestFailure{ID: e.ID, Cause: e.Cause, Operator: e.Op, Error: e.Error, Text: e.Text,
			Where: b.place(e.Where), OnCPU: "unknown"}
		if row.Cause == "" {
			row.Cause = "other"
		}
		if again, known := onCPU[e.ID]; known {
			row.OnCPU = again[1]
			switch {
			case again[1] == "failed" && facts.NamesMPS(again[2]):
				row.OnCPU = "unknown" // it asks for MPS by name
			case again[1] == "failed":
				row.Cause, row.Operator = "CPU too", ""
			}
		}
		key := [2]string{row.Cause, row.Operator}
		if causes[key] == nil {
			causes[key] = &evidence.TestCause{Cause: row.Cause, Operator: row.Operator, Where: row.Where}
			if row.Cause != "CPU too" && row.Cause != "other" {
				causes[key].Remedy = remedies.Of(e.Op, e.Cause, e.Text)
			}
			order = append(order, key)
		}
		causes[key].Tests++
		if len(t.Failures) < maxRows {
			t.Failures = append(t.Failures, row)
		}
	}
	for _, key := range order {
		t.Causes = append(t.Causes, *causes[key])
	}
	sort.SliceStable(t.Causes, func(i, j int) bool { return t.Causes[i].Tests > t.Causes[j].Tests })
	for i, c := range t.Causes {
		if i == shownRefusals {
			b.find("tests-failed", evidence.Warning, evidence.Rehearsed, "", "",
				"%d more causes of failed tests are in the table", len(t.Causes)-i)
			break
		}
		what, n := c.Cause, fmt.Sprintf("%d tests fail", c.Tests)
		if c.Tests == 1 {
			n = "1 test fails"
		}
		switch {
		case c.Cause == "CPU too":
			b.find("tests-cpu", evidence.Note, evidence.Measured, c.Where, "",
				"%s on the CPU as well: they say nothing about the device", n)
			continue
		case c.Cause == "other":
			what = "no refusal by the device was met"
		case c.Cause == "missing":
			what = c.Operator + " has no kernel for MPS"
		case c.Operator != "":
			what = c.Operator + " refused by " + c.Cause
		}
		b.find("tests-"+c.Cause, evidence.Warning, evidence.Rehearsed, c.Where, c.Remedy, "%s on the double: %s", n,
			what)
	}
}
