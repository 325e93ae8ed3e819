package suite_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/suite"
	"assay/internal/testkit"
	"assay/internal/testset"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// tested runs the subject's tests with assay test, and gives the one run of the result and how assay ended.
func tested(t *testing.T, subject string, flags []string, pytest ...string) (suite.Run, testkit.Outcome) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	command := append([]string{testkit.Assay(t), "test", "--on", "double", "--torch", "2.8", "--out", out}, flags...)
	command = append(command, "--", testkit.Python(t), "-m", "pytest", "-q", "-p", "no:cacheprovider")
	command = append(command, pytest...)
	o := testkit.Execute(t, filepath.Join(testkit.Subjects(), subject), []string{"CUDA_VISIBLE_DEVICES="}, command...)
	r, err := suite.Open(out)
	if err != nil || len(r.Runs) != 1 {
		t.Fatalf("%v %+v\n%s", err, r, testkit.Tail(o.Stderr))
	}
	return r.Runs[0], o
}

// junit is what pytest itself says of its tests: name to outcome.
func junit(t *testing.T, path string) map[string]suite.Outcome {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Cases []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure []struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Error   []struct{} `xml:"error"`
			Skipped []struct {
				Type string `xml:"type,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	became := map[string]suite.Outcome{}
	for _, c := range x.Cases {
		id := c.Class + "::" + c.Name
		switch {
		case len(c.Failure) > 0 || len(c.Error) > 0:
			became[id] = suite.Failed
		case became[id] != "": // a test whose teardown failed stands there twice
		case len(c.Skipped) > 0 && c.Skipped[0].Type == "pytest.xfail":
			became[id] = suite.XFailed
		case len(c.Skipped) > 0:
			became[id] = suite.Skipped
		default:
			became[id] = suite.Passed
		}
	}
	return became
}

// agrees holds a run against pytest's own report of it. The report has no word for an unexpected pass.
func agrees(t *testing.T, run suite.Run, path string) {
	t.Helper()
	there := junit(t, path)
	for _, x := range run.Tests {
		file, name, _ := strings.Cut(x.ID, "::")
		class := strings.TrimSuffix(file, ".py")
		if c, test, in := strings.Cut(name, "::"); in {
			class, name = class+"."+c, test
		}
		got := x.Outcome
		if got == suite.XPassed {
			got = suite.Passed
		}
		if want := there[class+"::"+name]; got != want {
			t.Errorf("%s: %s, and pytest says %q", x.ID, x.Outcome, want)
		}
		delete(there, class+"::"+name)
	}
	if len(there) > 0 {
		t.Errorf("pytest reports more: %v", there)
	}
}

// TestAsPytestSays: each test's outcome is the one that pytest's own report of the same run has, and what a test met is
// what PyTorch 2.8's MPS says.
func TestAsPytestSays(t *testing.T) {
	testset.FullOnly(t)
	t.Parallel()
	xml := filepath.Join(t.TempDir(), "junit.xml")
	run, o := tested(t, "suite", nil, "--junitxml", xml)
	agrees(t, run, xml)
	if o.Code != 1 || run.Status != 1 || run.Missing != "" || run.Torch != "2.8.0" || len(run.Tests) != 27 {
		t.Errorf("status %d, %+v", o.Code, run)
	}
	c := run.Count()
	if c.Bad != 11 || c.CPUToo != 2 || c.Wrong != 1 {
		t.Errorf("%+v", c)
	}
	if rows := run.Rows(); len(rows) != 5 || len(rows[0].Tests) != 4 || len(rows[1].Tests) != 4 {
		t.Errorf("%+v", rows)
	}
	for _, x := range run.Tests {
		switch strings.TrimPrefix(x.ID, "test_library.py::") {
		case "test_missing_behind_another_error":
			if x.Error != "ValueError" || x.Operator != "aten::linalg_eig" || x.How != "raised" ||
				x.Where != "library.py:14" {
				t.Errorf("%+v", x)
			}
		case "test_missing_and_swallowed":
			if x.How != "met" || x.Error != "AssertionError" {
				t.Errorf("%+v", x)
			}
		case "test_teardown_fails":
			if x.Phase != "teardown" {
				t.Errorf("%+v", x)
			}
		case "test_skipped":
			if x.Device || x.Line != 114 {
				t.Errorf("%+v", x)
			}
		}
	}
}

// TestEndings: tests that take their process with them, or have no end, are told as that, and the others are run; with
// xdist, where it is installed, as well.
func TestEndings(t *testing.T) {
	testset.FullOnly(t)
	want := map[string][2]suite.Outcome{ // here, on the CPU; the subject says why
		"test_first": {suite.Passed}, "test_between": {suite.Passed}, "test_last": {suite.Passed},
		"test_leaves": {suite.Ended, suite.Passed}, "test_falls": {suite.Ended, suite.Passed},
		"test_aborts_anywhere": {suite.Ended, suite.Ended}, "test_hangs": {suite.Hung, suite.Passed},
		"test_needs_the_server": {suite.Failed, suite.Failed}, "test_has_no_tensor": {suite.Passed},
		"test_subtests": {suite.Failed, suite.Failed}, "test_strict": {suite.Failed, suite.Failed},
		"test_import.py": {suite.Failed, suite.Passed},
	}
	ways := map[string][]string{"alone": {}}
	if exec.Command(testkit.Python(t), "-c", "import xdist").Run() == nil {
		ways["with xdist"] = []string{"-n", "2"}
	}
	for name, args := range ways {
		t.Run(name, func(t *testing.T) {
			args = append([]string{"--continue-on-collection-errors", "-p", "no:faulthandler", "--tb=no"}, args...)
			run, o := tested(t, "outcomes", []string{"--limit", "10s"}, args...)
			if o.Code != 1 || run.Missing != "" || len(run.Tests) != len(want)+6 {
				t.Errorf("status %d, %d tests, %s\n%s", o.Code, len(run.Tests), run.Missing, testkit.Tail(o.Stderr))
			}
			for _, x := range run.Tests {
				id := x.ID[strings.LastIndex(x.ID, "::")+1:]
				id = strings.TrimPrefix(id, ":")
				w, known := want[id]
				if !known {
					w[0] = suite.Passed // test_word
				}
				if x.Outcome != w[0] || x.CPU != w[1] {
					t.Errorf("%s: %s, on the CPU %q: %s", x.ID, x.Outcome, x.CPU, x.Text)
				}
				if id == "test_import.py" && (x.Cause != "dtype" || x.Where != "test_import.py:5") {
					t.Errorf("%+v", x)
				}
			}
		})
	}
}
