package steps

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/golden"
	"assay/internal/testkit"
	"assay/internal/testset"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// recorded has testdata/record.py record train.py with faults, and gives the folder of the recordings.
func recorded(t *testing.T, faults []string, args ...string) string {
	t.Helper()
	testset.FullOnly(t)
	if _, err := os.Stat("../../agent/assay_agent/steps"); err != nil {
		t.Skip("this tree has no recorder of steps")
	}
	folder := t.TempDir()
	all := append([]string{"testdata/record.py", folder}, faults...)
	cmd := exec.Command(testkit.Python(t), append(append(all, "--"), args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("record.py: %v\n%s", err, out)
	}
	return folder
}

// What whole recordings have beyond those that are cut behind the first forward pass.
var wholeFaults = map[string][]string{
	"backward": {"departs", "aten::threshold_backward in second, step 1, backward", "its input is equal"},
	"rate":     {"departs", "step 1, update", "weight       ", "is moved otherwise by step 1"},
	"batch":    {"not known", "batch/1/0 is not the same"},
	"bfloat16": {"departs", "autocast is none in A and bfloat16 in B", "drift", "no single operator"},
	"kernel":   {"departs", "second.conv.weight", "in the order [0 1 3 2]"},
}

func TestFaultsRecordedHere(t *testing.T) {
	names := []string{"right"}
	all := map[string][]string{}
	for _, some := range []map[string][]string{faults, wholeFaults} {
		for name, wanted := range some {
			if all[name] == nil {
				names = append(names, name)
			}
			all[name] = wanted
		}
	}
	folder := recorded(t, names)
	for name, wanted := range all {
		t.Run(name, func(t *testing.T) {
			r := compared(t, filepath.Join(folder, "right.steps"), filepath.Join(folder, name+".steps"), Options{})
			r.says(t, wanted)
			want := fault.GateFailed
			if name == "batch" {
				want = fault.CannotTell
			}
			if r.Status() != want {
				t.Errorf("the exit status is %d, not %d", r.Status(), want)
			}
		})
	}
}

// A kernel that is wrong above a size is found by pairs of two batch sizes.
func TestWrongAboveASizeRecordedHere(t *testing.T) {
	var pairs [][2]*Recording
	for _, batch := range []string{"8", "32"} {
		folder := recorded(t, []string{"right", "large"}, "--batch", batch)
		pairs = append(pairs, [2]*Recording{opened(t, filepath.Join(folder, "right.steps")),
			opened(t, filepath.Join(folder, "large.steps"))})
	}
	r, err := CompareBatches(pairs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.says(t, []string{"departs", "agrees at a batch of 8, departs at a batch of 32", "aten::bmm in attend"})
}

// No alarm where the same net is computed with another number of threads, so that sums are in another order.
func TestThreadsRecordedHere(t *testing.T) {
	for _, args := range []string{"--batch 8 --size 8", "--batch 32 --size 16 --wide 16",
		"--batch 16 --size 16 --wide 32"} {
		t.Run(args, func(t *testing.T) {
			one := recorded(t, []string{"right"}, append(strings.Fields(args), "--threads", "1")...)
			two := recorded(t, []string{"right"}, append(strings.Fields(args), "--threads", "2")...)
			r := compared(t, filepath.Join(one, "right.steps"), filepath.Join(two, "right.steps"), Options{})
			if r.Answer != golden.Same || r.Status() != fault.OK {
				t.Errorf("%s", textOf(t, r))
			}
		})
	}
}
