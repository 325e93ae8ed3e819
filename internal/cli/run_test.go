package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"assay/internal/evidence"
	"assay/internal/testkit"
)

const subjects = "../../testdata/subjects"

// outcome of a command: what a person who started it can tell.
type outcome struct {
	stdout, stderr string
	code           int
	signal         syscall.Signal
}

func execute(t *testing.T, dir string, environ []string, args ...string) outcome {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcomeOf(cmd, stdout.String(), stderr.String())
}

func outcomeOf(cmd *exec.Cmd, stdout, stderr string) outcome {
	o := outcome{stdout: stdout, stderr: stderr, code: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o
}

func loadRun(t *testing.T, dir string) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	return &run
}

// volatile is what differs between two runs of the same script: process ids, clocks, addresses.
var volatile = regexp.MustCompile(`0x[0-9a-f]{6,}|\d{10,}|[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ \d+|\d\d:\d\d:\d\d|\d{3,}:\d{3,}`)

// sameBehaviour runs a subject bare and under assay and compares what came out, byte for byte.
func sameBehaviour(t *testing.T, script string, environ ...string) *evidence.Run {
	t.Helper()
	python, assay := testkit.Python(t), testkit.Assay(t)
	dir := filepath.Dir(filepath.Join(subjects, script))
	out := filepath.Join(t.TempDir(), "run")
	name := filepath.Base(script)
	bare := execute(t, dir, environ, python, name)
	watched := execute(t, dir, environ, assay, "run", "-q", "--out", out, "--", python, name)
	if bare.code != watched.code || bare.signal != watched.signal {
		t.Errorf("status: bare %d %v, watched %d %v\n%s", bare.code, bare.signal, watched.code, watched.signal, watched.stderr)
	}
	for _, s := range []struct{ name, bare, watched string }{{"stdout", bare.stdout, watched.stdout}, {"stderr", bare.stderr, watched.stderr}} {
		b, w := volatile.ReplaceAllString(s.bare, "…"), volatile.ReplaceAllString(s.watched, "…")
		if b != w {
			t.Errorf("%s differs\nbare:\n%s\nwatched:\n%s", s.name, tail(b), tail(w))
		}
	}
	run := loadRun(t, out)
	for _, p := range run.Processes {
		if len(p.Trouble) > 0 {
			t.Errorf("trouble in %s: %q", p.Role, p.Trouble)
		}
	}
	return run
}

func tail(s string) string { return s[max(0, len(s)-1500):] }

// TestLoops: scripts of every shape behave as without assay, bit for bit, and are understood. What is to be seen stands in the
// first line of each, counted by hand from its source.
func TestLoops(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(subjects, "*.py"))
	if err != nil || len(scripts) < 15 {
		t.Fatal(scripts, err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".py"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			line, _, _ := strings.Cut(string(source), "\n")
			run := sameBehaviour(t, filepath.Base(path))
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
		sum := s.Data[i] + s.H2D[i] + s.Fwd[i] + s.Bwd[i] + s.Opt[i] + s.Rest[i]
		if diff := sum - total; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("step %d: phases add up to %g s, the step took %g s", s.Number[i], sum, total)
			return
		}
		if s.Rest[i] < 0 || s.Fwd[i] < 0 || s.Data[i] < 0 {
			t.Errorf("step %d: a phase is negative", s.Number[i])
		}
	}
}

// TestSyncPoints: each call that would wait for a device, by its line.
func TestSyncPoints(t *testing.T) {
	run := sameBehaviour(t, "syncs.py")
	want := map[string]string{"item": "17", "numpy": "18", "tolist": "19", "bool(tensor)": "20", "print(tensor)": "21", "float(tensor)": "22", "format(tensor)": "23"}
	for _, s := range run.Syncs {
		if s.Where == "syncs.py:"+want[s.Call] && s.Count == 10 && !s.Waits {
			delete(want, s.Call)
		}
	}
	if len(want) > 0 {
		t.Errorf("not seen: %v in %+v", want, run.Syncs)
	}
}

// TestFaults: whatever a script does to itself, it does as without assay, and what was seen by then is kept.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		script   string
		steps    int
		complete bool
		environ  []string
	}{
		{"raises.py", 36, false, nil}, {"exits.py", 60, true, nil}, {"os_exit.py", 20, true, nil}, {"execs.py", 60, true, nil},
		{"forks.py", 60, true, nil}, {"forkwarns.py", 0, true, nil}, {"closefds.py", 120, true, nil}, {"prints.py", 0, true, nil},
		{"chdir.py", 60, true, nil}, {"ownsite.py", 0, true, []string{"PYTHONPATH=ownsite"}}, {"patches.py", 120, true, nil},
		{"notorch.py", 0, true, nil}, {"terminates.py", 12, true, nil}, {"kills.py", 29, false, nil}, {"threads.py", 60, true, nil},
		{"profiles.py", 120, true, nil}, {"hooks.py", 60, false, nil}, {"looks.py", 0, true, []string{"PYTHONPATH="}},
	} {
		t.Run(strings.TrimSuffix(c.script, ".py"), func(t *testing.T) {
			t.Parallel()
			run := sameBehaviour(t, filepath.Join("faults", c.script), c.environ...)
			if got := len(run.Steps.Number); got != c.steps {
				t.Errorf("%d steps, want %d", got, c.steps)
			}
			if run.Outcome.Complete != c.complete || c.complete != (run.Outcome.Reason == "") {
				t.Errorf("complete %v (%q), want %v", run.Outcome.Complete, run.Outcome.Reason, c.complete)
			}
			if c.script == "raises.py" && (run.Outcome.Where != "raises.py:32" && !strings.HasSuffix(run.Outcome.Where, "/raises.py:32") || !strings.HasPrefix(run.Outcome.Error, "ValueError: step 37")) {
				t.Errorf("error %q at %q", run.Outcome.Error, run.Outcome.Where)
			}
		})
	}
}

// TestSignals: a signal sent to assay is the script's; its answer, and assay's status, are what they would be without.
func TestSignals(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	for _, c := range []struct {
		name    string
		signals []syscall.Signal // each sent when the line before it has been printed
		lines   []string
	}{
		{"interrupt-twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, []string{"ready", "interrupted"}},
		{"interrupt-terminate", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, []string{"ready", "interrupted"}},
		{"terminate", []syscall.Signal{syscall.SIGTERM}, []string{"ready"}},
		{"hangup", []syscall.Signal{syscall.SIGHUP}, []string{"ready"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			drive := func(args ...string) outcome {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = filepath.Join(subjects, "faults")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
				pipe, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				var all bytes.Buffer
				for i, sig := range c.signals {
					for !strings.Contains(all.String(), c.lines[i]+"\n") {
						buf := make([]byte, 4096)
						n, err := pipe.Read(buf)
						all.Write(buf[:n])
						if err != nil {
							t.Fatalf("%v before %q: %s", err, c.lines[i], stderr.String())
						}
					}
					_ = cmd.Process.Signal(sig)
				}
				rest, _ := io.ReadAll(pipe)
				all.Write(rest)
				_ = cmd.Wait()
				return outcomeOf(cmd, all.String(), stderr.String())
			}
			out := filepath.Join(t.TempDir(), "run")
			bare, watched := drive(python, "waits.py"), drive(assay, "run", "-q", "--out", out, "--", python, "waits.py")
			if bare != watched {
				t.Errorf("bare:\n%+v\nwatched:\n%+v", bare, watched)
			}
			// A signal that kills leaves what the agent had sent, up to a quarter of a second before.
			if run := loadRun(t, out); watched.signal == 0 && len(run.Steps.Number) != 60 || run.Outcome.Complete != (watched.signal == 0) {
				t.Errorf("%d steps, complete %v", len(run.Steps.Number), run.Outcome.Complete)
			}
		})
	}
}

// TestOutOfDisk: where the evidence cannot be kept, the script does not notice, and assay says what is missing.
func TestOutOfDisk(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	// A soft limit on file size fails writes as a full disk does, for assay and not for the script, whose own limit it raises.
	out := filepath.Join(t.TempDir(), "run")
	got := execute(t, subjects, nil, "bash", "-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$@\"", "bash",
		assay, "run", "-q", "--out", out, "--", python, "plain.py")
	bare := execute(t, subjects, nil, python, "plain.py")
	if got.stdout != bare.stdout || got.code != 0 {
		t.Errorf("status %d, stdout differs: %v", got.code, got.stdout != bare.stdout)
	}
	if !strings.Contains(got.stderr, "events could not be written") || !strings.Contains(got.stderr, "evidence.json was not written") {
		t.Errorf("stderr: %s", got.stderr)
	}
	for _, name := range []string{"evidence.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); err == nil {
			t.Errorf("%s is there, though it cannot be whole", name)
		}
	}
}

// TestCutOff: assay itself is killed. The script ends with it, and what was recorded can be shown.
func TestCutOff(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	out := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(assay, "run", "--profile=off", "--out", out, "--", python, "waits.py")
	cmd.Dir = filepath.Join(subjects, "faults")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for !strings.Contains(all.String(), "ready") {
		buf := make([]byte, 4096)
		n, err := pipe.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
	}
	// The steps are on disk as soon as the agent has sent them and the recorder has written them out.
	for {
		data, _ := os.ReadFile(filepath.Join(out, "events.jsonl"))
		if n := bytes.Count(data, []byte(`"ev":"steps"`)); n > 0 && bytes.Contains(data, []byte(",59,60]")) || bytes.Contains(data, []byte(`"number":[60]`)) {
			break
		}
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, pipe) // ends when the script has ended too
	_ = cmd.Wait()
	shown := execute(t, subjects, nil, assay, "show", out, "--json")
	var run evidence.Run
	if err := json.Unmarshal([]byte(shown.stdout), &run); err != nil {
		t.Fatal(err, shown.stderr)
	}
	if len(run.Steps.Number) < 59 || run.Outcome.Complete || !strings.Contains(run.Outcome.Reason, "assay itself was ended") {
		t.Errorf("%d steps, complete %v, %q", len(run.Steps.Number), run.Outcome.Complete, run.Outcome.Reason)
	}
}

// TestFlags: what the flags of run promise.
func TestFlags(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	start := func(t *testing.T, flags []string, command ...string) (outcome, *evidence.Run) {
		out := filepath.Join(t.TempDir(), "run")
		args := append([]string{assay, "run", "--out", out}, flags...)
		got := execute(t, subjects, nil, append(append(args, "--"), command...)...)
		return got, loadRun(t, out)
	}
	t.Run("steps", func(t *testing.T) {
		got, run := start(t, []string{"--steps", "25"}, python, "plain.py")
		if got.code != 0 || len(run.Steps.Number) != 25 || !strings.Contains(run.Outcome.Stopped, "25 steps") {
			t.Errorf("status %d, %d steps, stopped %q", got.code, len(run.Steps.Number), run.Outcome.Stopped)
		}
		if !run.Figure("epoch.estimate").Known() {
			t.Error("no estimate of the epoch")
		}
	})
	t.Run("for", func(t *testing.T) {
		got, run := start(t, []string{"--for", "6s", "--profile=off"}, python, "plain.py", "--epochs", "1000000")
		if got.code != 0 || !strings.Contains(run.Outcome.Stopped, "--for") || len(run.Steps.Number) < 10 {
			t.Errorf("status %d, %d steps, stopped %q", got.code, len(run.Steps.Number), run.Outcome.Stopped)
		}
	})
	for _, what := range []string{"data", "forward"} {
		t.Run("only "+what, func(t *testing.T) {
			got, run := start(t, []string{"--only", what, "--profile=off"}, python, "plain.py", "--epochs", "50")
			if got.code != 0 || run.Only == nil || run.Only.What != what || run.Only.Each.N < 5 || run.Only.Verdict == "" || !run.Only.Step.Known() {
				t.Errorf("status %d, only %+v\n%s", got.code, run.Only, got.stderr)
			}
		})
	}
	t.Run("script by name, module, notebook", func(t *testing.T) {
		for _, c := range []struct {
			command []string
			kind    string
			steps   int
		}{{[]string{"plain.py", "--epochs", "2"}, "script", 40}, {[]string{"-m", "pkg.train"}, "module", 60}, {[]string{"notebook.ipynb"}, "notebook", 16},
			{[]string{"python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29611", "plain.py"}, "module", 60}} {
			got, run := start(t, []string{"--python", python, "--profile=off"}, c.command...)
			if got.code != 0 || run.Subject.Kind != c.kind || len(run.Steps.Number) != c.steps {
				t.Errorf("%v: status %d, %s, %d steps\n%s", c.command, got.code, run.Subject.Kind, len(run.Steps.Number), tail(got.stderr))
			}
		}
	})
	t.Run("profile", func(t *testing.T) {
		_, run := start(t, nil, python, "plain.py", "--epochs", "4")
		if run.Profile.Steps != 50 || run.Profile.First != 11 || len(run.Operators) == 0 || run.Profile.Trace == "" {
			t.Fatalf("profile %+v, %d operators", run.Profile, len(run.Operators))
		}
		// The oracle is arithmetic: fifty steps of a model with two linear layers call addmm a hundred times.
		for _, op := range run.Operators {
			if op.Name == "aten::addmm" && op.Calls != 100 {
				t.Errorf("addmm was called %d times", op.Calls)
			}
		}
	})
}

// TestRefusals: what cannot be run is one clear line and a status of its own, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	assay := testkit.Assay(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.txt")
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run"}, 125, "no command"},
		{[]string{"run", "--on", "tpu", "--", "true"}, 125, "auto, cpu, mps and cuda"},
		{[]string{"run", "--steps", "-3", "--", "true"}, 125, "--steps"},
		{[]string{"run", "--for", "soon", "--", "true"}, 125, "90s"},
		{[]string{"run", "--nonsense", "--", "true"}, 125, "nonsense"},
		{[]string{"run", "--out", full, "--", "true"}, 125, "not empty"},
		{[]string{"run", "--", "no-such-program-here"}, 127, "not found"},
		{[]string{"run", "--", "./no-such-file"}, 127, "no such file"},
		{[]string{"run", "--", "./plain.txt"}, 126, "cannot be executed"},
		{[]string{"show", "nothing-here"}, 1, "no such file"},
		{[]string{"show", full}, 1, "no evidence.json"},
		{[]string{"show", plain}, 1, "not the evidence of a run"},
		{[]string{"nonsense"}, 2, "unknown command"},
	} {
		got := execute(t, dir, nil, append([]string{assay}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.want) || got.stdout != "" {
			t.Errorf("%v: status %d, want %d; stdout %q, stderr %q", c.args, got.code, c.code, got.stdout, got.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, ".assay", "runs")); err == nil {
			t.Errorf("%v left a run's folder behind", c.args)
		}
	}
	if got := execute(t, dir, nil, assay, "run", "-q", "--", "sh", "-c", "echo out; exit 42"); got.code != 42 || got.stdout != "out\n" {
		t.Errorf("%+v", got)
	}
}

// TestTwoAtOnce: two runs from one folder do not meet.
func TestTwoAtOnce(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	dir := t.TempDir()
	script, err := filepath.Abs(filepath.Join(subjects, "plain.py"))
	if err != nil {
		t.Fatal(err)
	}
	var cmds []*exec.Cmd
	for i := range 2 {
		cmd := exec.Command(assay, "run", "-q", "--", python, script, "--epochs", strconv.Itoa(2+i))
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	folders, _ := filepath.Glob(filepath.Join(dir, ".assay", "runs", "*"))
	sum := 0
	for _, f := range folders {
		sum += len(loadRun(t, f).Steps.Number)
	}
	if len(folders) != 2 || sum != 100 {
		t.Errorf("%d folders, %d steps", len(folders), sum)
	}
}
