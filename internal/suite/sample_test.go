package suite

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"assay/internal/testset"
)

// sample is a suite on two releases, with a test of each kind: three fail by an operator at two lines, one met a
// refusal and failed by something else, one ends the process, one hangs, one fails by its own fault, one on the CPU
// too.
func sample() *Result {
	newer := []Test{
		{ID: "tests/test_a.py::test_fine", Outcome: Passed, Device: true, Line: 3, Seconds: .01},
		{ID: "tests/test_a.py::test_hung", Outcome: Hung, Device: true, Line: 60, Text: "no end within 60 s",
			CPU: Passed},
		{ID: "tests/test_a.py::test_killed", Outcome: Ended, Device: true, Line: 50, Text: "SIGABRT", CPU: Passed},
		{ID: "tests/test_a.py::test_meets", Outcome: Failed, Phase: "call", Error: "AssertionError", Text: "not close",
			Operator: "aten::svd", Cause: "missing", How: "met", Where: "tests/test_a.py:41", Line: 40, CPU: Passed,
			Device: true},
		{ID: "tests/test_a.py::test_own", Outcome: Failed, Phase: "setup", Error: "ValueError", Text: "no, no",
			Where: "tests/test_a.py:31", Line: 30, Device: true},
		{ID: "tests/test_a.py::test_too", Outcome: Failed, Phase: "call", Error: "KeyError", Text: "'a'", CPU: Failed,
			Line: 20, Device: true},
		{ID: "tests/test_a.py::test_untouched", Outcome: Passed, Line: 70},
		{ID: "tests/test_a.py::test_wrong", Outcome: Passed, Device: true, Line: 80, Wrong: []string{"cumsum-2.14"}},
		{ID: "tests/test_b.py::TestB::test_svd[x::y]", Outcome: Failed, Phase: "call", Error: "NotImplementedError",
			Text: "aten::svd", Operator: "aten::svd", Cause: "missing", How: "raised", Where: "lib/linalg.py:12",
			Line: 5, CPU: Passed, Device: true},
		{ID: "tests/test_b.py::TestB::test_svd[z]", Outcome: Failed, Phase: "call", Error: "NotImplementedError",
			Text: "aten::svd", Operator: "aten::svd", Cause: "missing", How: "raised", Where: "lib/linalg.py:12",
			Line: 5, CPU: Passed, Device: true},
		{ID: "tests/test_b.py::test_double", Outcome: Failed, Phase: "call", Error: "TypeError", Text: "no float64",
			Operator: "aten::to", Cause: "dtype", How: "raised", Where: "/usr/lib/python3/site-packages/x.py:7",
			Line: 9,
			CPU:  Passed, Device: true},
		{ID: "tests/test_b.py::test_skip", Outcome: Skipped, Text: "no reason"},
		{ID: "tests/test_b.py::test_xfail", Outcome: XFailed, Device: true},
		{ID: "tests/test_b.py::test_xpass", Outcome: XPassed, Device: true},
	}
	older := []Test{
		{ID: "tests/test_a.py::test_fine", Outcome: Passed, Device: true, Line: 3},
		{ID: "tests/test_b.py::TestB::test_svd[z]", Outcome: Failed, Phase: "call", Error: "NotImplementedError",
			Text: "aten::svd", Operator: "aten::svd", Cause: "missing", How: "raised", Where: "lib/linalg.py:12",
			Line: 5, CPU: Passed, Device: true},
		{ID: "tests/test_b.py::test_double", Outcome: NotRun},
	}
	return &Result{Version: Version, Assay: "1.0", Command: []string{"pytest", "-q", "tests"}, Folder: "python",
		Commit: "abc123-dirty", Runs: []Run{
			{On: "double", Torch: "2.14.0", Installed: "2.15.0+cpu", Status: 1, Seconds: 3.14159, Tests: newer},
			{On: "double", Torch: "2.6.0", Installed: "2.15.0+cpu", Status: 2, Missing: "stopped: Ctrl-C",
				Tests: older},
		}}
}

// green is a suite of which all is known and all passed.
func green() *Result {
	r := sample()
	r.Runs = r.Runs[:1]
	r.Runs[0].Tests = r.Runs[0].Tests[:1]
	return r
}

// hostile is a text that each form would obey where it is not told otherwise.
const hostile = "tests/a.py::t[<script>alert(1)</script>]]>\x1b[31m\x00\ufffe\r\n::error::pwned%0A\u202e,:|`$(id)`\"' &amp;\xff"

// hostileResult has hostile text wherever a result holds text, in 1,000 tests, each failing at a line of its own; in
// the full set in 10,000.
func hostileResult() *Result {
	if testset.IsFull() {
		return hostileOf(5000)
	}
	return hostileOf(500)
}

func hostileOf(n int) *Result {
	r := &Result{Version: Version, Assay: hostile, Command: []string{hostile}, Folder: "a b/<c>", Commit: hostile}
	for _, torch := range []string{"2.14.0", hostile} {
		run := Run{On: "double", Torch: torch, Installed: hostile, Missing: hostile}
		for i := range n {
			t := Test{ID: fmt.Sprintf("%s%05d", hostile, i), Outcome: Failed, Phase: hostile, Error: hostile,
				Text: hostile, Operator: fmt.Sprintf("%s%d", hostile, i%70), Cause: hostile, How: "raised",
				Where: fmt.Sprintf("%s:%d", hostile, i+1), Line: -7, Device: true}
			switch i % 100 {
			case 0:
				t.Outcome, t.Wrong = Passed, []string{hostile, fmt.Sprint(hostile, i)}
			case 1:
				t.Outcome = Outcome(hostile)
			case 2:
				t.CPU = Failed
			}
			run.Tests = append(run.Tests, t)
		}
		r.Runs = append(r.Runs, run)
	}
	return r
}

func written(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("lacks %q:\n%.6000s", p, text)
		}
	}
}

func hasNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("has %q:\n%.3000s", p, text)
		}
	}
}
