package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// outliving runs faults/outlives.py in dir, by the words before it. assay's end would hide how the script ended: a
// shell between them tells.
func outliving(t *testing.T, dir string, before []string, args ...string) *talk {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(testkit.Subjects(), "faults", "outlives.py"))
	if err != nil {
		t.Fatal(err)
	}
	words := append(append([]string{}, before...), "bash", "-c", `"$@" 2>stderr; echo "status $?"`, "bash",
		testkit.Python(t), script)
	return startTalk(t, dir, append(words, args...)...)
}

// left is what a run of outlives.py leaves: its output, its errors, its checkpoint.
type leftBehind struct{ stdout, stderr, checkpoint string }

func leftIn(t *testing.T, dir, stdout string) leftBehind {
	t.Helper()
	stderr, err := os.ReadFile(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := os.ReadFile(filepath.Join(dir, "checkpoint.pt"))
	if err != nil {
		t.Error(err)
	}
	return leftBehind{stdout, string(stderr), string(checkpoint)}
}

// TestCutOff: assay itself is killed. The script goes on as it would have, and what was recorded until then can be
// shown.
func TestCutOff(t *testing.T) {
	t.Parallel()
	assay, dir := testkit.Assay(t), t.TempDir()
	k := outliving(t, dir, nil)
	out, _ := io.ReadAll(k.lines)
	bare := leftIn(t, dir, string(out))
	if !strings.HasSuffix(bare.stdout, "status 5\n") {
		t.Fatalf("bare: %s%s", testkit.Tail(bare.stdout), bare.stderr)
	}
	for _, c := range []struct{ name, event string }{
		{"as the script starts", `"ev":"start"`},
		{"when the agent is there", `"ev":"hello"`},
		{"in the steps", `"ev":"steps"`},
		{"in the profiled window", ",19]"}, // steps 11 to 60
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "in the steps" {
				testset.FullOnly(t)
			}
			t.Parallel()
			dir := t.TempDir()
			events := filepath.Join(dir, "run", "events.jsonl")
			k := outliving(t, dir, unrecorded(t, dir), "wait")
			for { // the script waits at its twentieth step, so that what is looked for comes
				data, _ := os.ReadFile(events)
				if bytes.Contains(data, []byte(c.event)) || c.name == "in the profiled window" &&
					bytes.Contains(data, []byte(`"number":[19]`)) {
					break
				}
				if err := syscall.Kill(k.cmd.Process.Pid, 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
			_ = k.cmd.Process.Kill()
			if got := ending(k.wait(t, 0)); got != "ended by killed" {
				t.Errorf("assay: %s", got)
			}
			_, _ = k.in.Write(bytes.Repeat([]byte("\n"), 100))
			out, _ := io.ReadAll(k.lines)
			if got := leftIn(t, dir, string(out)); got != bare {
				t.Errorf("bare: %s%s\nassay killed: %s%s\ncheckpoints equal: %v", testkit.Tail(bare.stdout),
					bare.stderr,
					testkit.Tail(got.stdout), got.stderr, bare.checkpoint == got.checkpoint)
			}
			shown := testkit.Execute(t, dir, nil, assay, "show", "run", "--json")
			var run evidence.Run
			if err := json.Unmarshal([]byte(shown.Stdout), &run); err != nil {
				t.Fatal(err, shown.Stderr)
			}
			if run.Outcome.Complete || !strings.Contains(run.Outcome.Reason, "assay itself was ended") {
				t.Errorf("complete %v, %q", run.Outcome.Complete, run.Outcome.Reason)
			}
			if c.name == "in the profiled window" && len(run.Steps.Number) < 19 {
				t.Errorf("%d steps", len(run.Steps.Number))
			}
		})
	}
}

// TestKills kills assay at moments that chance names, ASSAY_KILLS times (three where it is not set).
func TestKills(t *testing.T) {
	testset.FullOnly(t)
	dir := t.TempDir()
	began := time.Now()
	k := outliving(t, dir, nil)
	out, _ := io.ReadAll(k.lines)
	bare, length := leftIn(t, dir, string(out)), time.Since(began)
	times := 3
	if n, err := strconv.Atoi(os.Getenv("ASSAY_KILLS")); err == nil {
		times = n
	}
	for i := range times {
		after := time.Duration(rand.Int64N(int64(length) + int64(length)/4))
		t.Run(fmt.Sprint(i, " after ", after.Round(time.Millisecond)), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			k := outliving(t, dir, unrecorded(t, dir))
			time.Sleep(after)
			_ = k.cmd.Process.Kill()
			k.wait(t, 0)
			out, _ := io.ReadAll(k.lines)
			if _, err := os.Stat(filepath.Join(dir, "stderr")); err != nil && len(out) == 0 {
				return // killed before the script was started
			}
			if got := leftIn(t, dir, string(out)); got != bare {
				t.Errorf("bare: %s%s\nassay killed: %s%s", testkit.Tail(bare.stdout), bare.stderr,
					testkit.Tail(got.stdout), got.stderr)
			}
		})
	}
}
