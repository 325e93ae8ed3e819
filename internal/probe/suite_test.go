package probe_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// volatile is what differs between two runs of pytest: how long it took, and addresses.
var volatile = regexp.MustCompile(`in \d+\.\d+s|0x[0-9a-f]+`)

// suite runs the subject's tests under the double, and what came out.
func suite(t *testing.T, environ []string, args ...string) (testkit.Outcome, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	command := append([]string{testkit.Assay(t), "run", "--on", "double", "--torch", "2.8", "--out", out, "--",
		testkit.Python(t)}, args...)
	return testkit.Execute(t, filepath.Join(testkit.Subjects(), "suite"), append(environ, "CUDA_VISIBLE_DEVICES="),
		command...), out
}

var pytest = []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"}

// TestSuiteByCause: what fails is put down to what it met, apart from what fails on a CPU as well. The outcomes were
// written down from PyTorch 2.8's MPS: linalg.eig has no kernel, float64 does not exist, a pool wants divisible sizes.
func TestSuiteByCause(t *testing.T) {
	t.Parallel()
	o, out := suite(t, nil, pytest...)
	if o.Code != 1 {
		t.Fatalf("status %d\n%s\n%s", o.Code, testkit.Tail(o.Stdout), testkit.Tail(o.Stderr))
	}
	run := testkit.LoadRun(t, out)
	if run.Rehearsal == nil || run.Rehearsal.Tests == nil {
		t.Fatalf("no tests: %+v", run.Rehearsal)
	}
	tests := run.Rehearsal.Tests
	// test_teardown_fails passes and then errs: pytest counts it as both, and here it is one test that failed.
	if tests.Passed != 9 || tests.Failed != 13 || tests.Skipped != 2 || tests.XFailed != 2 || tests.XPassed != 1 ||
		tests.CPU != "" {
		t.Errorf("%+v", tests)
	}
	if !strings.Contains(o.Stdout, "11 failed, 10 passed, 2 skipped, 2 xfailed, 1 xpassed, 2 errors") {
		t.Error(testkit.Tail(o.Stdout))
	}
	want := map[string][3]string{ // cause, operator, where
		"test_wrong_anywhere":               {"CPU too", "", "test_library.py:38"},
		"test_cuda":                         {"CPU too", "", "test_library.py:64"},
		"test_missing":                      {"missing", "aten::linalg_eig", "library.py:7"},
		"test_missing_behind_another_error": {"missing", "aten::linalg_eig", "library.py:14"},
		"test_missing_and_swallowed":        {"missing", "aten::linalg_eig", "test_library.py:50"},
		"test_eigenvalues":                  {"missing", "aten::linalg_eig", "library.py:7"},
		"test_float64":                      {"dtype", "aten::_to_copy", "library.py:25"},
		"test_dtype[dtype1]":                {"dtype", "", "test_library.py:88"},
		"test_fixture_fails":                {"dtype", "", "test_library.py:22"},
		"test_teardown_fails":               {"dtype", "aten::_to_copy", "test_library.py:28"},
		"test_mixed_devices":                {"device", "aten::mul.Tensor", "library.py:33"},
		"test_numpy":                        {"device", "numpy", "test_library.py:72"},
		"test_pool[7]":                      {"argument", "aten::_adaptive_avg_pool2d", "test_library.py:93"},
	}
	for _, f := range tests.Failures {
		id := f.ID[strings.LastIndex(f.ID, "::")+2:]
		w, known := want[id]
		delete(want, id)
		onCPU := map[bool]string{true: "failed", false: "passed"}[w[0] == "CPU too"]
		if !known || f.Cause != w[0] || w[1] != "" && f.Operator != w[1] || f.Where != w[2] || f.OnCPU != onCPU {
			t.Errorf("%s: %+v, not %q", id, f, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("not among the failures: %v", want)
	}
	if c := tests.Causes[0]; c.Tests != 4 || c.Cause != "missing" && c.Cause != "dtype" || c.Remedy == "" {
		t.Errorf("%+v", tests.Causes)
	}
	plain := strings.Join(strings.Fields(o.Stderr), " ")
	for _, told := range []string{"9 passed, 13 failed, 2 skipped, 2 failed as expected, 1 passed unexpectedly",
		"4 missing operator aten::linalg_eig", "2 on the CPU too"} {
		if !strings.Contains(plain, told) {
			t.Errorf("the summary lacks %q:\n%s", told, o.Stderr)
		}
	}
	// A test that passes, and calls what 2.8 is known to compute wrongly: the suite is not said to be right.
	if f := run.Findings[0]; f.Name != "wrong-result" || !strings.HasPrefix(f.Where, "library.py:") ||
		!strings.Contains(plain, "Numbers come out wrong on MPS") {
		t.Errorf("%+v", f)
	}
	if strings.Contains(o.Stdout, "assay_agent") {
		t.Errorf("pytest shows frames that a Mac has not:\n%s", o.Stdout)
	}
	if len(run.Fallbacks) != 1 && len(run.Fallbacks) != 2 || run.Fallbacks[0].Operator != "aten::_linalg_svd.U" &&
		run.Fallbacks[0].Operator != "aten::linalg_svd" {
		t.Errorf("fallbacks %+v", run.Fallbacks)
	}
}

// TestSuiteAsBare: where nothing of MPS is met, pytest prints and ends as it does alone.
func TestSuiteAsBare(t *testing.T) {
	testset.FullOnly(t)
	t.Parallel()
	environ := []string{"SUITE_DEVICE=cpu", "CUDA_VISIBLE_DEVICES="}
	// torch for Macs and torch for Linux say no to CUDA in other words
	args := append(append([]string{}, pytest...), "-k", "not cuda")
	bare := testkit.Execute(t, filepath.Join(testkit.Subjects(), "suite"), environ,
		append([]string{testkit.Python(t)}, args...)...)
	o, out := suite(t, environ, args...)
	if b, w := volatile.ReplaceAllString(bare.Stdout, ""), volatile.ReplaceAllString(o.Stdout, ""); b != w ||
		bare.Code != o.Code || o.Code != 1 {
		t.Errorf("bare, status %d:\n%s\nrehearsed, status %d:\n%s", bare.Code, testkit.Tail(b), o.Code, testkit.Tail(w))
	}
	if tests := testkit.LoadRun(t, out).Rehearsal.Tests; tests == nil || tests.Failed != 1 ||
		tests.Causes[0].Cause != "CPU too" {
		t.Errorf("%+v", tests)
	}
}

// TestSuiteStopsWhereItIsTold: the second run, on the CPU, keeps to what had failed; nothing that pytest keeps is
// written twice.
func TestSuiteStopsWhereItIsTold(t *testing.T) {
	testset.FullOnly(t)
	t.Parallel()
	xml := filepath.Join(t.TempDir(), "junit.xml")
	o, out := suite(t, nil, append(append([]string{}, pytest...), "--maxfail=2", "--junitxml", xml, "-k",
		"missing or wrong")...)
	tests := testkit.LoadRun(t, out).Rehearsal.Tests
	if o.Code != 1 || tests.Failed != 2 || tests.CPU != "" || !strings.Contains(o.Stdout, "stopping after 2 failures") {
		t.Errorf("status %d, %+v\n%s", o.Code, tests, testkit.Tail(o.Stdout))
	}
	data, err := os.ReadFile(xml)
	if err != nil || !strings.Contains(string(data), `failures="2"`) {
		t.Errorf("%v %s", err, data)
	}
	o, out = suite(t, nil, append(append([]string{}, pytest...), "-k", "passes or skip")...)
	if tests := testkit.LoadRun(t, out).Rehearsal.Tests; o.Code != 0 || tests.Failed != 0 || tests.Passed != 2 ||
		tests.Skipped != 2 {
		t.Errorf("status %d, %+v", o.Code, tests)
	}
}
