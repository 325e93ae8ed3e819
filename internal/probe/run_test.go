package probe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/agent"
	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fold"
	"assay/internal/launch"
	"assay/internal/secret"
	"assay/internal/target"
)

func options(t *testing.T, command ...string) Options {
	t.Helper()
	local := launch.NewLocal(nil)
	t.Cleanup(local.Close)
	return Options{Command: command, Environ: os.Environ(), Dir: t.TempDir(), On: target.Target{Device: target.Auto},
		Profile: "off", Cache: t.TempDir(),
		Out: filepath.Join(t.TempDir(), "run"), Now: time.Now, Launcher: local}
}

type brokenSampler struct{}

func (brokenSampler) Sample(context.Context) []evidence.Figure { panic("the sampler is broken") }
func (brokenSampler) Close()                                   {}

// TestErrorsInAssay: whatever of assay fails beside a script, and however badly, the script ends as it does, and the
// evidence names what failed.
func TestErrorsInAssay(t *testing.T) {
	broken := func() { panic("broken") }
	for _, c := range []struct {
		name, want string
		outside    Outside
	}{
		{"sampler", "sampling the host", Outside{Sampler: func(int) Sampler { return brokenSampler{} }}},
		{"sampler that cannot be made", "sampling the host",
			Outside{Sampler: func(int) Sampler { broken(); return nil }}},
		{"facts", "reading the host's facts", Outside{Facts: func(context.Context,
			...string) []evidence.Fact {
			broken()
			return nil
		}}},
		{"programs", "looking at the host", Outside{Apps: func(context.Context, int, int) ([]evidence.App,
			error) {
			broken()
			return nil, nil
		}}},
		{"packages", "the packages", Outside{Packages: func([]string) []string { broken(); return nil }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t, "sh", "-c", "echo trained; exit 7")
			var stdout bytes.Buffer
			o.Stdout, o.Outside = &stdout, c.outside
			res, err := Run(o)
			if err != nil {
				t.Fatal(err)
			}
			defer res.LetGo()
			if res.Exit != 7 || stdout.String() != "trained\n" || res.Run == nil || res.Run.Outcome.Exit != 7 {
				t.Errorf("%+v, printed %q", res, stdout.String())
			}
			said := func(why string) bool { return strings.Contains(why, c.want) && strings.Contains(why, "broken") }
			if !slices.ContainsFunc(res.Trouble, said) || res.Run.Outcome.Complete || !said(res.Run.Outcome.Reason) {
				t.Errorf("trouble %q, outcome %+v", res.Trouble, res.Run.Outcome)
			}
		})
	}
}

// brokenFold breaks on each hello.
type brokenFold struct {
	*fold.Fold
	unread int
}

func (f *brokenFold) Add(connection int, event []byte) {
	if kind, _ := fold.KindOf(event); kind == "hello" {
		panic("broken")
	}
	f.Fold.Add(connection, event)
}

func (f *brokenFold) Unreadable() { f.unread++ }

// TestErrorInTheFold: an event that breaks the adding up is counted as unreadable, kept in the file, and ends nothing.
func TestErrorInTheFold(t *testing.T) {
	dir := t.TempDir()
	rec, err := newRecorder(dir, &secret.Set{})
	if err != nil {
		t.Fatal(err)
	}
	broken := &brokenFold{Fold: fold.New()}
	rec.fold = broken
	rec.own("start", fold.StartEvent{ID: "x"})
	rec.Add(1, []byte(`{"ev":"hello","version":1}`))
	rec.own("exit", fold.ExitEvent{Code: 7})
	run := rec.finish()
	rec.log.Close()
	data, _ := os.ReadFile(filepath.Join(dir, events.FileName))
	if run == nil || run.Outcome.Exit != 7 || bytes.Count(data, []byte("\n")) != 3 || broken.unread != 1 {
		t.Errorf("%+v, %d unread\n%s", run, broken.unread, data)
	}
	if all := rec.troubles(); len(all) == 0 || !strings.Contains(all[0], "adding up an event") {
		t.Errorf("%q", all)
	}
}

// TestUnwatched: a run whose agent has no place is started all the same, says so at once and in its evidence; one whose
// flags are the agent's doing is not.
func TestUnwatched(t *testing.T) {
	o := options(t, "sh", "-c", `echo "[$ASSAY_AGENT]"; exit 7`)
	var stdout, stderr bytes.Buffer
	o.NoAgent, o.Stdout, o.Stderr = os.ErrPermission, &stdout, &stderr
	res, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	res.LetGo()
	if res.Exit != 7 || stdout.String() != "[]\n" || !strings.HasPrefix(stderr.String(),
		"assay: the script runs unwatched: ") ||
		!strings.Contains(res.Run.Outcome.Reason, "the script ran unwatched") {
		t.Errorf("%+v %q %q", res.Run.Outcome, stdout.String(), stderr.String())
	}
	o = options(t, "true")
	o.NoAgent, o.Steps = os.ErrPermission, 3
	if _, err := Run(o); err == nil {
		t.Error("started with --steps, and nobody to count them")
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a run that was not started left a folder")
	}
}

// TestWithoutAgent: the environment is the user's, but for an agent around us; on the CPU and on the double no CUDA
// device is seen.
func TestWithoutAgent(t *testing.T) {
	environ := []string{"A=1", agent.Variable + "={}", "CUDA_VISIBLE_DEVICES=0,1", "B=2"}
	for device, want := range map[string][]string{
		"auto":   {"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2"},
		"mps":    {"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2"},
		"cuda":   {"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2"},
		"cpu":    {"A=1", "B=2", "CUDA_VISIBLE_DEVICES="},
		"double": {"A=1", "B=2", "CUDA_VISIBLE_DEVICES="},
	} {
		if got := withoutAgent(environ, target.Target{Device: device}); !slices.Equal(got, want) {
			t.Errorf("%s: %v", device, got)
		}
	}
}
