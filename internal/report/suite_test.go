package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"assay/internal/suite"
)

// testedSuite has failures of each kind on two releases, 40 of them by one operator.
func testedSuite() *suite.Result {
	wide := strings.Repeat("a_long_name_", 12)
	var tests []suite.Test
	for i := range 40 {
		tests = append(tests, suite.Test{
			ID:      fmt.Sprintf("tests/geometry/test_pose.py::TestPose::test_svd[%d-%s]", i, wide),
			Outcome: suite.Failed, Phase: "call", Error: "NotImplementedError", Operator: "aten::linalg_svd",
			Cause: "missing", How: "raised", Where: fmt.Sprintf("kornia/geometry/linalg.py:%d", 100+i%3), Line: 12,
			CPU: suite.Passed, Device: true,
			Text: "The operator 'aten::linalg_svd' is not currently implemented for the MPS device."})
	}
	tests = append(tests,
		suite.Test{ID: "tests/test_a.py::test_f64", Outcome: suite.Failed, Error: "TypeError", Operator: "aten::to",
			Cause: "dtype", How: "raised", Where: "kornia/core.py:7", Device: true, Text: "no float64 on MPS"},
		suite.Test{ID: "tests/test_a.py::test_abort", Outcome: suite.Ended, Text: "SIGABRT", Device: true, Line: 4},
		suite.Test{ID: "tests/test_a.py::test_close", Outcome: suite.Failed, Error: "AssertionError",
			Text: "Tensor-likes are not close!", Where: "tests/test_a.py:30", Device: true, CPU: suite.Passed},
		suite.Test{ID: "tests/test_a.py::test_too", Outcome: suite.Failed, Error: "KeyError", Text: "'a'",
			CPU: suite.Failed})
	for i := range 300 {
		t := suite.Test{ID: fmt.Sprintf("tests/test_b.py::test_fine[%d]", i), Outcome: suite.Passed, Device: i > 20}
		if i > 290 {
			t.Wrong = []string{"cumsum-int64-2.14"}
		}
		tests = append(tests, t)
	}
	return &suite.Result{Version: 1, Assay: "0.20", Command: []string{"pytest", "tests"}, Folder: "kornia",
		Commit: "3f2c1ab", Runs: []suite.Run{
			{On: "double", Torch: "2.14.0", Installed: "2.15.0", Tests: tests},
			{On: "double", Torch: "2.6.0", Installed: "2.15.0", Tests: tests[39:], Missing: "the run was cut off"}}}
}

func pageOfSuite(t *testing.T, s Suite) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSuitePage: a person reads what fails by operator, what is not known, what a green test may hide, and what
// changed.
func TestSuitePage(t *testing.T) {
	r := testedSuite()
	base := testedSuite()
	base.Runs[0].Tests = base.Runs[0].Tests[5:]
	d, err := r.Since(base)
	if err != nil {
		t.Fatal(err)
	}
	html := pageOfSuite(t, Suite{r, d})
	for _, want := range []string{"MPS 2.14, rehearsed", "Refused by the device", "aten::linalg_svd",
		"and 2 other lines", "Other failures", "ended the process", "Known wrong results that passing tests met",
		"Failing on the CPU too", "Not all is known:</b> MPS 2.6, rehearsed: the run was cut off",
		"failing, not known before", "all 43 rows", `<span class="state bad">tests fail</span>`} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !strings.Contains(pageOfSuite(t, Suite{Result: &suite.Result{}}), "not all known") {
		t.Error("a result without a run is not marked as unknown")
	}
}

// TestSuitePageHostile: what tests are called and say stays text.
func TestSuitePageHostile(t *testing.T) {
	bad := "<script>alert(1)</script>\x1b[31m\x00\u202e\"'><img src=x onerror=alert(1)>]]>\n"
	r := &suite.Result{Assay: bad, Command: []string{bad}, Folder: bad, Commit: bad}
	run := suite.Run{On: bad, Torch: bad, Installed: bad, Missing: bad}
	for i := range 10_000 {
		run.Tests = append(run.Tests, suite.Test{ID: fmt.Sprint(bad, i), Outcome: suite.Failed, Error: bad, Text: bad,
			Operator: bad, Cause: bad, Where: bad, CPU: suite.Outcome(bad), Wrong: []string{bad}})
	}
	r.Runs = []suite.Run{run}
	html := pageOfSuite(t, Suite{Result: r})
	if n := strings.Count(html, "<script"); n != 1 || strings.Contains(html, "<img") ||
		strings.ContainsAny(html, "\x1b\x00\u202e") {
		t.Errorf("%d scripts, or what a browser obeys", n)
	}
}

// TestSuiteBrowser: nothing is wider than a phone, tables fold, and nothing is asked of the network.
func TestSuiteBrowser(t *testing.T) {
	r := testedSuite()
	d, err := r.Since(testedSuite())
	if err != nil {
		t.Fatal(err)
	}
	b := browse(t, pageOfSuite(t, Suite{r, d}))
	for _, width := range []int64{1100, 390} {
		b.do(t, chromedp.EmulateViewport(width, 900))
		if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("%d wide on a screen of %d", got, width)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.media(t, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}}})
			if got := eval[string](t, b, `getComputedStyle(document.body).backgroundColor`); (got ==
				"rgb(255, 255, 255)") != (scheme == "light") {
				t.Errorf("%s: the ground is %s", scheme, got)
			}
		}
	}
	open := `[...document.querySelectorAll("#run-1-tests tbody tr")].filter(r => r.offsetParent !== null).length`
	if got := eval[int64](t, b, open); got != foldAt {
		t.Errorf("%d rows stand open", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaint) > 0 || len(b.requests) != 1 {
		t.Errorf("complaints %q, requests %q", b.complaint, b.requests)
	}
}
