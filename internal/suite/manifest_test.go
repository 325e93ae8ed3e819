package suite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/fault"
)

func read(t *testing.T, lines ...string) *Manifest {
	t.Helper()
	m, err := ReadManifest(strings.NewReader(strings.Join(lines, "\n")+"\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// line is a line of a manifest, its tabs written as " | ".
func line(s string) string { return strings.ReplaceAll(s, " | ", "\t") }

func entriesOf(all ...string) []string {
	for i := range all {
		all[i] = line(all[i])
	}
	return all
}

func double(torch string, tests ...Test) Run {
	return Run{On: "double", Torch: torch, Tests: tests}
}

func failed(id, class, op string) Test {
	t := Test{ID: id, Outcome: Failed, Error: class, Operator: op, CPU: Passed, Device: true}
	if op != "" {
		t.How = "raised"
	}
	return t
}

func became(id string, outcome Outcome) Test { return Test{ID: id, Outcome: outcome, Device: true} }

// korniaForm is a manifest in the form of kornia's testing/known_failure_xfails/mps_float32.txt, which is held against
// real Macs: comments, then an exception and a test a line, by test.
var korniaForm = strings.Join([]string{
	"# Exact failure baseline of a run on macOS",
	"# Format: <exact exception type>\\t<pytest node ID>",
	"AssertionError\ttests/augmentation/_3d/test_affine.py::TestAffine3D::test_batch[mps-float32]",
	"NotImplementedError\ttests/geometry/test_quaternion.py::TestAverage::test_identity[mps-float32-10]",
	"NotImplementedError\ttests/geometry/test_quaternion.py::TestAverage::test_identity[mps-float32-1]",
	"NotImplementedError\ttests/geometry/transform/test_warp.py::test_empty[mps-float32-False-dsize0-warp_affine3d]",
	"pytest.fail.Exception\ttests/losses/test_hd.py::TestHausdorffLoss::test_smoke[mps-float32-Loss3D-shape1-mean]",
	"AssertionError\ttests/metrics/test_ssim3d.py::TestSSIM3d::test_smoke[mps-float32-shape0-same-5-1.0]",
}, "\n") + "\n"

// TestKorniasManifest: a manifest of a project that keeps one for real Macs is read as it is, and written as it was.
// ASSAY_MANIFEST names another file in that form.
func TestKorniasManifest(t *testing.T) {
	data := []byte(korniaForm)
	if path := os.Getenv("ASSAY_MANIFEST"); path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	m, err := ReadManifest(bytes.NewReader(data), false)
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for l := range strings.SplitSeq(string(data), "\n") {
		if l != "" && !strings.HasPrefix(l, "#") {
			entries++
		}
	}
	if len(m.entries) != entries || entries == 0 {
		t.Errorf("%d entries of %d", len(m.entries), entries)
	}
	if !bytes.Equal(m.Bytes(), data) {
		t.Error("written otherwise than it was read")
	}
	run := double("2.9.1")
	for _, e := range m.entries {
		run.Tests = append(run.Tests, failed(e.ID, e.Error, ""))
	}
	j, err := m.Judge([]Run{run}, Selection{})
	if err != nil || j.Expected != entries || j.Status([]Run{run}) != 0 {
		t.Errorf("%+v, %v", j, err)
	}
	c, err := m.Update([]Run{run}, 1, Selection{})
	if err != nil || !bytes.Equal(m.Bytes(), data) || len(c.Added)+len(c.Removed) > 0 {
		t.Errorf("an update that has nothing to say changes it: %+v, %v", c, err)
	}
}

// TestManifestRefuses: each kind of line that is none of a manifest is one error with its number.
func TestManifestRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"no tab", "line 1: no tab in it"},
		{"# fine\nRuntime Error\ta.py::b", "line 2: \"Runtime Error\" is no class"},
		{"RuntimeError\t", "is no id of a test"},
		{"RuntimeError\ta.py::b\top=foo", "op=aten::foo"},
		{"RuntimeError\ta.py::b\ttorch=2.x", "torch=2.x: write releases"},
		{"RuntimeError\ta.py::b\ttorch=2.8..2.6", "torch=2.8..2.6: write releases"},
		{"RuntimeError\ta.py::b\ttorch=2.8.1", "torch=2.8.1: write releases"},
		{"RuntimeError\ta.py::b\ttorch=", "torch=: write releases"},
		{"RuntimeError\ta.py::b\twhy", "\"why\" is neither op=, torch= nor # reason"},
		{"RuntimeError\ta.py::b\ttorch=2.8\top=aten::foo", "in that order"},
		{"RuntimeError\ta.py::b\nValueError\ta.py::b", "line 2: a.py::b is in line 1 already"},
		{"RuntimeError\ta.py::b\ttorch=2.6..2.8\nValueError\ta.py::b\ttorch=2.8", "line 2: a.py::b is in line 1"},
		{"<<<<<<< ours\nRuntimeError\ta.py::b", "line 1: <<<<<<< : a merge was left unsettled"},
		{"RuntimeError\ta.py::b\n=======", "line 2: =======: a merge was left unsettled"},
		{"RuntimeError\ta.py::b\x1b[31m", "line 1: it has the control character U+001B"},
		{"RuntimeError\ta.py::\xff", "line 1: it is no UTF-8"},
		{"RuntimeError\t" + strings.Repeat("a", maxManifestLine), "bytes; 131072 are read"},
		{"RuntimeError\ta.py::b\ttorch=" + strings.Repeat("2.8,", 400) + "2.8", "1000 are read"},
	} {
		_, err := ReadManifest(strings.NewReader(c.text), false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
	var many strings.Builder
	for i := range maxOfTest + 1 {
		fmt.Fprintf(&many, "E\ta.py::b\ttorch=3.%d\n", i)
	}
	if _, err := ReadManifest(strings.NewReader(many.String()), true); err == nil ||
		!strings.Contains(err.Error(), "line 101: a.py::b has more than 100 lines") {
		t.Errorf("many lines of a test: %v", err)
	}
	if _, err := ReadManifest(&endless{}, false); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a file without an end: %v", err)
	}
	_, err := OpenManifest(filepath.Join(t.TempDir(), "none"), false)
	if err == nil || fault.HintOf(err) != "--update writes one" {
		t.Errorf("no file: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

// TestJudge has each way in which a test can go by its manifest, or not.
func TestJudge(t *testing.T) {
	entry := "NotImplementedError | a.py::b | op=aten::foo"
	for _, c := range []struct {
		what, entry, torch string
		test               Test
		want               string
	}{
		{"as expected", entry, "2.8.0", failed("a.py::b", "NotImplementedError", "aten::foo"), ""},
		{"an overload of it", entry, "2.8.0", failed("a.py::b", "NotImplementedError", "aten::foo.out"), ""},
		{"any operator", "NotImplementedError | a.py::b", "2.8.0", failed("a.py::b", "NotImplementedError", "aten::x"),
			""},
		{"another exception", entry, "2.8.0", failed("a.py::b", "RuntimeError", "aten::foo"), OtherFailure},
		{"another operator", entry, "2.8.0", failed("a.py::b", "NotImplementedError", "aten::bar"), OtherFailure},
		{"no operator", entry, "2.8.0", failed("a.py::b", "NotImplementedError", ""), OtherFailure},
		{"a pass", entry, "2.8.0", became("a.py::b", Passed), UnexpectedRun},
		{"a pass without the device", entry, "2.8.0", Test{ID: "a.py::b", Outcome: Passed}, Untold},
		{"a mark of its own", entry, "2.8.0", became("a.py::b", XFailed), UnexpectedRun},
		{"skipped", entry, "2.8.0", became("a.py::b", Skipped), Untold},
		{"not run", entry, "2.8.0", became("a.py::b", NotRun), Untold},
		{"no longer there", entry, "2.8.0", became("a.py::c", Passed), Gone},
		{"new", "", "2.8.0", failed("a.py::b", "RuntimeError", ""), NewFailure},
		{"new on this release", entry + " | torch=2.6,2.9..", "2.8.0", failed("a.py::b", "NotImplementedError",
			"aten::foo"), NewFailure},
		{"passes on this release", entry + " | torch=2.6,2.9..", "2.8.0", became("a.py::b", Passed), ""},
		{"of this release", entry + " | torch=2.6,2.9..", "2.12.0", became("a.py::b", Passed), UnexpectedRun},
		{"ends its process", "ended | a.py::b", "2.8.0", became("a.py::b", Ended), ""},
		{"ends its process, newly", entry, "2.8.0", became("a.py::b", Ended), OtherFailure},
		{"hangs", "hung | a.py::b", "2.8.0", became("a.py::b", Hung), ""},
		{"without an exception", "failed | a.py::b", "2.8.0", failed("a.py::b", "", ""), ""},
		{"pytest.fail", "pytest.fail.Exception | a.py::b", "2.8.0", failed("a.py::b", "Failed", ""), ""},
		{"a class with its module", "torch.OutOfMemoryError | a.py::b", "2.8.0", failed("a.py::b", "OutOfMemoryError",
			""), ""},
	} {
		m := read(t, line(c.entry))
		runs := []Run{double(c.torch, c.test)}
		j, err := m.Judge(runs, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(j.Departures) > 0 {
			got = j.Departures[0].Kind
		}
		if got != c.want || len(j.Departures) > 1 {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if red := j.Status(runs) != 0; red != (c.want != "") {
			t.Errorf("%s: red %v", c.what, red)
		}
	}
}

// TestJudgeElsewhere: what fails on the CPU too is no failure of MPS's; on a Mac a message tells the operator, or
// nothing does; runs on other devices are not judged.
func TestJudgeElsewhere(t *testing.T) {
	both := failed("a.py::b", "RuntimeError", "")
	both.CPU = Failed
	j, err := (&Manifest{}).Judge([]Run{double("2.8.0", both)}, Selection{})
	if err != nil || len(j.Departures) > 0 || j.CPUToo != 1 {
		t.Errorf("on the CPU too: %+v, %v", j, err)
	}
	m := read(t, line("NotImplementedError | a.py::b | op=aten::foo"))
	for _, c := range []struct{ text, want string }{
		{"The operator 'aten::foo' is not currently implemented for the MPS device.", ""},
		{"The operator 'aten::bar' is not currently implemented for the MPS device.", OtherFailure},
		{"Conv3D is not supported on MPS", ""},
	} {
		test := failed("a.py::b", "NotImplementedError", "")
		test.Text = c.text
		j, err := m.Judge([]Run{{On: "mps", Torch: "2.9.1", Tests: []Test{test}}}, Selection{})
		if err != nil || (len(j.Departures) > 0) != (c.want != "") {
			t.Errorf("%s: %+v, %v", c.text, j, err)
		}
	}
	passed := Run{On: "mps", Torch: "2.9.1", Tests: []Test{{ID: "a.py::b", Outcome: Passed}}}
	j, err = m.Judge([]Run{passed}, Selection{})
	if err != nil || len(j.Departures) != 1 || j.Departures[0].Kind != UnexpectedRun {
		t.Errorf("a pass on a Mac: %+v, %v", j, err)
	}
	if _, err := m.Judge([]Run{{On: "cpu", Torch: "2.9.1"}}, Selection{}); err == nil {
		t.Error("no error for a run on the CPU")
	}
}

// TestSelect: what a command leaves out of its suite is not gone from it.
func TestSelect(t *testing.T) {
	for _, c := range []struct {
		command, addopts string
		why              string
		gone             bool // whether a.py::b of the folder tests counts as gone
	}{
		{"pytest", "", "", true},
		{"python -m pytest -q -n 4", "", "", true},
		{"python -m pytest -k lu", "", "-k", false},
		{"python -m pytest -klu", "", "-k", false},
		{"/env/bin/pytest -m slow", "", "-m", false},
		{"pytest", "-m slow", "-m", false},
		{"pytest --lf", "", "--lf", false},
		{"pytest --deselect=tests/a.py::c", "", "--deselect", false},
		{"pytest tests", "", "tests", true},
		{"pytest ./tests/", "", "./tests/", true},
		{"pytest other", "", "other", false},
		{"pytest tests/a.py", "", "tests/a.py", true},
		{"pytest tests/a.py::c", "", "tests/a.py::c", false},
		{"pytest .", "", "", true},
		{"pytest --device mps", "", "", true},
		{"pytest -c tests", "", "", true},
	} {
		exists := func(word string) bool {
			return slices.Contains([]string{"tests", "./tests/", "other", "tests/a.py", "."}, word)
		}
		s := Select(strings.Fields(c.command), c.addopts, exists)
		if s.Why != c.why {
			t.Errorf("%s: %q, want %q", c.command, s.Why, c.why)
		}
		j, err := read(t, line("RuntimeError | tests/a.py::b")).Judge([]Run{double("2.8.0", became("tests/a.py::c",
			Passed))}, s)
		if err != nil || (len(j.Departures) == 1) != c.gone || (j.NotChosen == 1) == c.gone {
			t.Errorf("%s: %+v, %v", c.command, j, err)
		}
	}
}

func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		what           string
		before, after  []string
		runs           []Run
		added, removed int
	}{
		{"the first", nil, entriesOf(newHead[0], newHead[1], "RuntimeError | a.py::b | op=aten::foo | torch=2.8"),
			[]Run{double("2.8.0", failed("a.py::b", "RuntimeError", "aten::foo"), became("a.py::c", Passed))}, 1, 0},
		{"several releases are one line", entriesOf("# mine"),
			entriesOf("# mine", "RuntimeError | a.py::b | torch=2.6..2.7,2.9"),
			[]Run{double("2.6.0", failed("a.py::b", "RuntimeError", "")), double("2.7.1", failed("a.py::b",
				"RuntimeError", "")), double("2.9.1", failed("a.py::b", "RuntimeError", ""))}, 1, 0},
		{"another release joins", entriesOf("RuntimeError | a.py::b | torch=2.6 | # see 12"),
			entriesOf("RuntimeError | a.py::b | torch=2.6..2.7 | # see 12"),
			[]Run{double("2.7.1", failed("a.py::b", "RuntimeError", ""))}, 1, 1},
		{"one leaves",
			entriesOf("# head", "ValueError | a.py::a", "# why", "RuntimeError | a.py::b | torch=2.6.. | # see 12"),
			entriesOf("# head", "ValueError | a.py::a", "# why", "RuntimeError | a.py::b | torch=2.6..2.7,2.9.. | # see 12"),
			[]Run{double("2.8.0", failed("a.py::a", "ValueError", ""), became("a.py::b", Passed))}, 1, 1},
		{"of every release, on some",
			entriesOf("RuntimeError | a.py::b"), entriesOf("RuntimeError | a.py::b | torch=2.6"),
			[]Run{double("2.6.0", failed("a.py::b", "RuntimeError", "")), double("2.7.1", became("a.py::b", Passed))},
			1, 1},
		{"a manifest of one release stays one", entriesOf("RuntimeError | a.py::a", "RuntimeError | a.py::c"),
			entriesOf("ValueError | a.py::b", "RuntimeError | a.py::c"),
			[]Run{double("2.6.0", became("a.py::a", Passed), failed("a.py::b", "ValueError", ""), failed("a.py::c",
				"RuntimeError", ""))}, 1, 1},
		{"another failure keeps its reason",
			entriesOf("ValueError | a.py::a", "# why", "RuntimeError | a.py::b | # see 12"),
			entriesOf("ValueError | a.py::a", "# why", "ValueError | a.py::b | # see 12"),
			[]Run{double("2.6.0", failed("a.py::a", "ValueError", ""), failed("a.py::b", "ValueError", ""))}, 1, 1},
		{"gone", entriesOf("ValueError | a.py::a", "", "# of the part", "", "# of b",
			"RuntimeError | a.py::b | torch=2.6..",
			"ValueError | a.py::c"), entriesOf("ValueError | a.py::a", "", "# of the part", "", "ValueError | a.py::c"),
			[]Run{double("2.8.0", failed("a.py::a", "ValueError", ""), failed("a.py::c", "ValueError", ""))}, 0, 1},
		{"not known", entriesOf("RuntimeError | a.py::b | torch=2.8", "RuntimeError | a.py::c"),
			entriesOf("RuntimeError | a.py::b | torch=2.8", "RuntimeError | a.py::c"),
			[]Run{double("2.8.0", became("a.py::b", Skipped), Test{ID: "a.py::c", Outcome: Passed})}, 0, 0},
		{"met on the way", nil, entriesOf(newHead[0], newHead[1], "AssertionError | a.py::b | torch=2.8"),
			[]Run{double("2.8.0", Test{ID: "a.py::b", Outcome: Failed, Error: "AssertionError", Operator: "aten::foo",
				How: "met"})}, 1, 0},
		{"a crash", nil, entriesOf(newHead[0], newHead[1], "ended | a.py::b | torch=2.8", "hung | a.py::c | torch=2.8"),
			[]Run{double("2.8.0", became("a.py::c", Hung), became("a.py::b", Ended))}, 2, 0},
		{"the CPU's own", entriesOf("# mine"), entriesOf("# mine"),
			[]Run{double("2.8.0", Test{ID: "a.py::b", Outcome: Failed,
				Error: "ValueError", CPU: Failed})}, 0, 0},
		{"a settled merge",
			entriesOf("<<<<<<< ours", "RuntimeError | a.py::a", "=======", "RuntimeError | a.py::b | # see",
				">>>>>>> theirs"), entriesOf("RuntimeError | a.py::a", "RuntimeError | a.py::b | # see"),
			[]Run{double("2.8.0", failed("a.py::a", "RuntimeError", ""), failed("a.py::b", "RuntimeError", ""))}, 0, 0},
		{"both sides changed the same", entriesOf("<<<<<<< ours", "RuntimeError | a.py::a | torch=2.6", "=======",
			"RuntimeError | a.py::a | torch=2.6,2.8 | # see", ">>>>>>> theirs"),
			entriesOf("RuntimeError | a.py::a | torch=2.6,2.8 | # see"), []Run{double("2.8.0", failed("a.py::a",
				"RuntimeError", ""))}, 1, 1},
	} {
		path := filepath.Join(t.TempDir(), "known.txt")
		if c.before != nil {
			if err := os.WriteFile(path, []byte(strings.Join(c.before, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, err := OpenManifest(path, true)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		change, err := m.Update(c.runs, len(c.runs), Selection{})
		if err == nil {
			err = m.Write(path)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		got, err := os.ReadFile(path)
		if want := strings.Join(c.after, "\n") + "\n"; err != nil || string(got) != want {
			t.Errorf("%s:\n%s\nwant:\n%s%v", c.what, got, want, err)
		}
		if len(change.Added) != c.added || len(change.Removed) != c.removed {
			t.Errorf("%s: %+v", c.what, change)
		}
		again, err := OpenManifest(path, false)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		_, err = again.Update(c.runs, len(c.runs), Selection{})
		if err != nil || string(again.Bytes()) != string(got) {
			t.Errorf("%s: the second update changes it: %v\n%s", c.what, err, again.Bytes())
		}
	}
}

// TestUpdateRefuses: what was not run whole writes nothing.
func TestUpdateRefuses(t *testing.T) {
	whole := double("2.8.0", became("a.py::b", Passed))
	missing, status := whole, whole
	missing.Missing, status.Status = "pytest was to end after 1 failures", 2
	for _, c := range []struct {
		runs  []Run
		asked int
	}{{[]Run{missing}, 1}, {[]Run{status}, 1}, {[]Run{whole}, 2}, {[]Run{double("2.8.0")}, 1}} {
		m := read(t, line("RuntimeError | a.py::b"))
		if _, err := m.Update(c.runs, c.asked, Selection{}); err == nil || len(m.entries) != 1 {
			t.Errorf("%+v: %v", c.runs, err)
		}
	}
	m := read(t, line("RuntimeError | a.py::b"), line("RuntimeError | a.py::c"))
	_, err := m.Update([]Run{double("2.8.0", became("a.py::b", Passed))}, 1, Selection{Why: "-k"})
	if err != nil || len(m.entries) != 1 || m.entries[0].ID != "a.py::c" {
		t.Errorf("a part: %v, %s", err, m.Bytes())
	}
}

// TestUpdateOrder: neither the order of tests nor that of releases shows in what is written.
func TestUpdateOrder(t *testing.T) {
	var want []byte
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var runs []Run
		for _, release := range []string{"2.6.0", "2.8.0", "2.14.0"} {
			run := double(release)
			for i := range 30 {
				op := fmt.Sprintf("aten::op%d", i%4+len(release)%2)
				run.Tests = append(run.Tests, failed(fmt.Sprintf("t.py::t[%d]", i), "RuntimeError", op))
			}
			r.Shuffle(len(run.Tests), func(i, j int) { run.Tests[i], run.Tests[j] = run.Tests[j], run.Tests[i] })
			runs = append(runs, run)
		}
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		m := &Manifest{}
		if _, err := m.Update(runs, 3, Selection{}); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = m.Bytes()
		}
		if !bytes.Equal(m.Bytes(), want) {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, m.Bytes(), want)
		}
	}
}

// TestMerge: two branches update the manifest, git merges them, and it says what both do. Its attribute merge=union is
// what docs/formats/manifest.md asks for; without it, what git leaves is settled by an update.
func TestMerge(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for _, attribute := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "known.txt")
		git := func(ok bool, args ...string) {
			t.Helper()
			as := []string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org"}
			cmd := exec.Command("git", append(as, args...)...)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			if out, err := cmd.CombinedOutput(); (err == nil) != ok {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		update := func(fails ...string) {
			t.Helper()
			m, err := OpenManifest(path, true)
			if err != nil {
				t.Fatal(err)
			}
			run := double("2.14.0", became("t.py::passes", Passed))
			for _, id := range fails {
				run.Tests = append(run.Tests, failed(id, "RuntimeError", "aten::foo"))
			}
			if _, err = m.Update([]Run{run}, 1, Selection{}); err == nil {
				err = m.Write(path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		git(true, "init", "-q", "-b", "base")
		if attribute {
			if err := os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("known.txt merge=union\n"),
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		update("t.py::b", "t.py::k", "t.py::x")
		git(true, "add", ".")
		git(true, "commit", "-q", "-m", "base")
		git(true, "checkout", "-q", "-b", "one")
		update("t.py::b", "t.py::c1", "t.py::k", "t.py::x", "t.py::y1") // both add at the same places
		git(true, "commit", "-q", "-am", "one")
		git(true, "checkout", "-q", "-b", "two", "base")
		update("t.py::b", "t.py::c2", "t.py::k", "t.py::l2", "t.py::x", "t.py::y2")
		git(true, "commit", "-q", "-am", "two")
		git(attribute, "merge", "-q", "-m", "both", "one")
		all := []string{"t.py::b", "t.py::c1", "t.py::c2", "t.py::k", "t.py::l2", "t.py::x", "t.py::y1", "t.py::y2"}
		if !attribute {
			if _, err := OpenManifest(path, false); err == nil || !strings.Contains(err.Error(), "unsettled") {
				t.Errorf("a conflict: %v", err)
			}
			update(all...)
		}
		m, err := OpenManifest(path, false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range m.entries {
			got = append(got, e.ID)
		}
		if slices.Sort(got); !slices.Equal(got, all) {
			t.Errorf("attribute %v: %v", attribute, got)
		}
		run := double("2.14.0")
		for _, id := range all {
			run.Tests = append(run.Tests, failed(id, "RuntimeError", "aten::foo"))
		}
		if j, err := m.Judge([]Run{run}, Selection{}); err != nil || j.Status([]Run{run}) != 0 {
			t.Errorf("attribute %v: %+v, %v", attribute, j, err)
		}
	}
}

// TestReleasesOfManifest: sets are written in one way, and what is taken out is out.
func TestReleasesOfManifest(t *testing.T) {
	for in, want := range map[string]string{"2.8,2.6": "2.6,2.8", "2.6,2.7,2.8": "2.6..2.8", "..2.8,2.9": "..2.9",
		"2.9..,2.8": "2.8..", "2.9,2.10": "2.9..2.10", "2.6..2.8,2.7..2.12": "2.6..2.12"} {
		r, err := parseReleases(in)
		if err != nil || r.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, r, err, want)
		}
	}
	for range 2000 {
		var set releases
		has := map[series]bool{}
		set = releases{}
		for range 12 {
			s := series(2000 + rand.IntN(16))
			if rand.IntN(3) > 0 {
				set, has[s] = set.with(s), true
			} else {
				set, has[s] = set.without(s), false
			}
		}
		for s := series(2000); s < 2016; s++ {
			if set.has(s) != has[s] {
				t.Fatalf("%s: %s", set, s)
			}
		}
		if again, err := parseReleases(set.String()); len(set) > 0 && (err != nil || !slices.Equal(again, set)) {
			t.Fatalf("%s: %s, %v", set, again, err)
		}
	}
}

// FuzzManifest: whatever is read is read again from what is written, and says the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(korniaForm), false)
	f.Add([]byte(line("# x\n\nended | a.py::b | op=aten::foo | torch=2.6..2.8,2.9.. | # why\n\n# end")), true)
	f.Add([]byte("<<<<<<< a\nE\tb\n||||||| c\nE\tc\n=======\nE\tb\ttorch=..2.8\n>>>>>>> d"), true)
	f.Fuzz(func(t *testing.T, data []byte, settle bool) {
		m, err := ReadManifest(bytes.NewReader(data), settle)
		if err != nil {
			return
		}
		written := bytes.Clone(m.Bytes())
		again, err := ReadManifest(bytes.NewReader(written), false)
		if err != nil {
			t.Fatalf("%v\n%q", err, written)
		}
		if !bytes.Equal(again.Bytes(), written) || len(again.entries) != len(m.entries) {
			t.Fatalf("%q\n%q", written, again.Bytes())
		}
	})
}
