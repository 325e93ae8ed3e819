package probe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// shortLoops are the subjects of the short set, and what each of them stands for; that of a plain loop is in cli's
// TestFlags, of calls that wait in TestSyncPoints. A subject that is not named here runs in the full set alone.
var shortLoops = map[string]string{
	"accumulate": "several backward passes a step", "amp": "GradScaler, skipped steps",
	"evaluate":   "passes without training; pickle, copy",
	"functional": "no module, no loader",
	"workers":    "processes of a loader",
}

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// TestLoops: scripts of every shape behave as without assay, bit for bit, and are understood. What is to be seen stands
// in the first line of each, counted by hand from its source.
func TestLoops(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(testkit.Subjects(), "*.py"))
	if err != nil || len(scripts) < 15 {
		t.Fatal(scripts, err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".py"), func(t *testing.T) {
			if shortLoops[strings.TrimSuffix(filepath.Base(path), ".py")] == "" {
				testset.FullOnly(t)
			}
			t.Parallel()
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			line, _, _ := strings.Cut(string(source), "\n")
			run := testkit.SameTraining(t, filepath.Base(path))
			checkExpectations(t, strings.TrimPrefix(line, "# expect: "), run)
			checkSplit(t, run)
			if !run.Outcome.Complete {
				t.Errorf("incomplete: %s", run.Outcome.Reason)
			}
		})
	}
}

func checkExpectations(t *testing.T, line string, run *evidence.Run) {
	t.Helper()
	for _, field := range strings.Fields(line) {
		key, want, _ := strings.Cut(field, "=")
		if want == "?" {
			continue
		}
		got := ""
		switch key {
		case "steps":
			got = strconv.Itoa(len(run.Steps.Number))
		case "epochs":
			got = strconv.Itoa(len(run.Epochs))
		case "micro":
			got = fmt.Sprint(run.Numerics.MicroSteps)
		case "scaled":
			got, _, _ = strings.Cut(strings.ReplaceAll(run.Numerics.LossScaled, ":", " "), " ")
		case "skipped":
			got = strings.Trim(strings.ReplaceAll(fmt.Sprint(run.Numerics.SkippedSteps), " ", ","), "[]")
		case "nonfinite":
			got = fmt.Sprint(append(run.Numerics.NonFiniteLosses, 0)[0])
		case "retained":
			for _, r := range run.Retained {
				if strings.HasSuffix(r.Where, ":"+want) {
					got = want
				}
			}
		case "graph":
			for _, f := range run.Findings {
				if f.Name == "retained-graph" && strings.HasPrefix(f.Where, want+",") {
					got = want
				}
			}
		case "evals":
			continue
		default:
			t.Fatalf("unknown expectation %q", field)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

// checkSplit: on a CPU the phases of each step add up to the step.
func checkSplit(t *testing.T, run *evidence.Run) {
	t.Helper()
	s := run.Steps
	for i, total := range s.Total {
		sum := 0.0
		for _, p := range s.Phases {
			sum += p.Seconds[i]
			if p.Seconds[i] < 0 {
				t.Errorf("step %d: %s is negative", s.Number[i], p.Name)
			}
		}
		if s.Kind[i] == "bare" || s.Kind[i] == "edge" {
			total = 0 // the hooks were off: its phases are not known
		}
		if diff := sum - total; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("step %d: phases add up to %g s, the step took %g s", s.Number[i], sum, total)
			return
		}
	}
}

// TestSyncPoints: each call that would wait for a device, by its line.
func TestSyncPoints(t *testing.T) {
	run := testkit.SameTraining(t, "syncs.py")
	want := map[string]string{"item": "17", "numpy": "18", "tolist": "19", "bool(tensor)": "20", "print(tensor)": "21",
		"float(tensor)": "22", "format(tensor)": "23"}
	for _, s := range run.Syncs {
		if s.Where == "syncs.py:"+want[s.Call] && s.Count == 10 && !s.Waits {
			delete(want, s.Call)
		}
	}
	if len(want) > 0 {
		t.Errorf("not seen: %v in %+v", want, run.Syncs)
	}
}
