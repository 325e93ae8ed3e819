package probe_test

import (
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestKnownWrongTraining: an R-CNN that trains to its end on the double of 2.8 is told first of all that its gradients
// come out wrong on MPS, at the line whose backward pass it is; on a release that is right nothing of it is said. That
// they do, vision PR 9563 and the kernel's source say.
func TestKnownWrongTraining(t *testing.T) {
	testset.FullOnly(t)
	t.Parallel()
	for release, wrong := range map[string]float64{"2.8": 1, "2.14": 0} {
		out := filepath.Join(t.TempDir(), "run")
		o := testkit.Execute(t, filepath.Join(testkit.Subjects(), "detection"), []string{"CUDA_VISIBLE_DEVICES="},
			testkit.Assay(t), "run", "--on", "double", "--torch", release, "--profile=off", "--out", out, "--",
			testkit.Python(t), "rcnn.py")
		if o.Code != 0 || o.Stdout != "done\n" {
			t.Fatalf("%s: status %d\n%s\n%s", release, o.Code, testkit.Tail(o.Stdout), testkit.Tail(o.Stderr))
		}
		run := testkit.LoadRun(t, out)
		if figure := run.Figure("facts.wrong"); !figure.Known() || *figure.Value != wrong {
			t.Errorf("%s: %+v, %+v", release, figure, run.Rehearsal.Met)
		}
		leads := strings.Contains(o.Stderr, "Numbers come out wrong on MPS: gradients too large") &&
			run.Findings[0].Name == "wrong-result" && run.Findings[0].Where == "rcnn.py:27"
		if leads != (wrong > 0) {
			t.Errorf("%s: %+v\n%s", release, run.Findings[0], testkit.Tail(o.Stderr))
		}
	}
}
