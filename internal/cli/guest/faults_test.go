package guest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"assay/internal/evidence"
	"assay/internal/target"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// shortFaults are the scripts of the short set, and the kind of fault that each stands for.
var shortFaults = map[string]string{
	"forks.py": "fork", "forkwarns.py": "fork without torch",
	"notorch.py": "no torch", "raises.py": "an exception, its traceback",
}

// TestFaults: whatever a script does to itself, it does as without assay, and what was seen by then is kept.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		script   string
		steps    int
		complete bool
		environ  []string
	}{
		{"raises.py", 36, false, nil}, {"exits.py", 60, true, nil}, {"os_exit.py", 20, true, nil},
		{"execs.py", 60, true, nil},
		{"forks.py", 60, true, nil}, {"forkwarns.py", 0, true, nil}, {"closefds.py", 120, true, nil},
		{"prints.py", 0, true, nil},
		{"chdir.py", 60, true, nil}, {"ownsite.py", 0, true, []string{"PYTHONPATH=ownsite"}},
		{"patches.py", 120, true, nil},
		{"notorch.py", 0, true, nil}, {"terminates.py", 12, true, nil}, {"kills.py", 29, false, nil},
		{"threads.py", 60, true, nil},
		{"profiles.py", 120, true, nil}, {"hooks.py", 60, false, nil}, {"looks.py", 0, true, []string{"PYTHONPATH="}},
	} {
		t.Run(strings.TrimSuffix(c.script, ".py"), func(t *testing.T) {
			if shortFaults[c.script] == "" {
				testset.FullOnly(t)
			}
			t.Parallel()
			same := testkit.SameBehaviour // tracebacks, the process as it was started, no torch
			switch c.script {
			case "closefds.py", "forks.py", "kills.py", "os_exit.py", "patches.py", "terminates.py":
				same = testkit.SameTraining
			}
			run := same(t, filepath.Join("faults", c.script), c.environ...)
			if got := len(run.Steps.Number); got != c.steps {
				t.Errorf("%d steps, want %d", got, c.steps)
			}
			if run.Outcome.Complete != c.complete || c.complete != (run.Outcome.Reason == "") {
				t.Errorf("complete %v (%q), want %v", run.Outcome.Complete, run.Outcome.Reason, c.complete)
			}
			if c.script == "raises.py" && (run.Outcome.Where != "raises.py:32" &&
				!strings.HasSuffix(run.Outcome.Where, "/raises.py:32") ||
				!strings.HasPrefix(run.Outcome.Error, "ValueError: step 37")) {
				t.Errorf("error %q at %q", run.Outcome.Error, run.Outcome.Where)
			}
		})
	}
}

// ignoredAtStart is how this process was started, as by nohup. signal.Ignored forgets it where a command that a
// test called has asked for the signal meanwhile.
var ignoredAtStart = map[syscall.Signal]bool{syscall.SIGHUP: signal.Ignored(syscall.SIGHUP),
	syscall.SIGINT: signal.Ignored(syscall.SIGINT)}

// TestSignals: a signal sent to assay is the script's; its answer, and assay's status, are what they would be without.
func TestSignals(t *testing.T) {
	testset.FullOnly(t) // without torch: TestSignalToAssay
	t.Parallel()
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
			for _, sig := range c.signals {
				if ignoredAtStart[sig] { // as under nohup: the script would not hear it either, and wait for ever
					t.Skipf("%v is ignored here, and whatever is started inherits that", sig)
				}
			}
			drive := func(args ...string) testkit.Outcome {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = filepath.Join(testkit.Subjects(), "faults")
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
				return testkit.OutcomeOf(cmd, all.String(), stderr.String())
			}
			out := filepath.Join(t.TempDir(), "run")
			bare, watched := drive(python, "waits.py"), drive(assay, "run", "-q", "--out", out, "--", python,
				"waits.py")
			if bare != watched {
				t.Errorf("bare:\n%+v\nwatched:\n%+v", bare, watched)
			}
			// A signal that kills leaves what the agent had sent, up to a quarter of a second before.
			if run := testkit.LoadRun(t, out); watched.Signal == 0 && len(run.Steps.Number) != 60 ||
				run.Outcome.Complete != (watched.Signal == 0) {
				t.Errorf("%d steps, complete %v", len(run.Steps.Number), run.Outcome.Complete)
			}
		})
	}
}

// TestOutOfDisk: where the evidence cannot be kept, the script does not notice, and assay says what is missing.
func TestOutOfDisk(t *testing.T) {
	t.Parallel()
	python, assay := testkit.Python(t), testkit.Assay(t)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	// A soft limit on file size fails writes as a full disk does, for assay and not for the script, whose own limit it
	// raises.
	out := filepath.Join(t.TempDir(), "run")
	got := testkit.Execute(t, testkit.Subjects(), nil, "bash", "-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$@\"",
		"bash",
		assay, "run", "-q", "--out", out, "--", python, "plain.py")
	bare := testkit.Bare(t, testkit.Subjects(), nil, "plain.py")
	if got.Stdout != bare.Stdout || got.Code != 0 {
		t.Errorf("status %d, stdout differs: %v", got.Code, got.Stdout != bare.Stdout)
	}
	if !strings.Contains(got.Stderr, "events could not be written") || !strings.Contains(got.Stderr,
		"evidence.json was not written") {
		t.Errorf("stderr: %s", got.Stderr)
	}
	for _, name := range []string{"evidence.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); err == nil {
			t.Errorf("%s is there, though it cannot be whole", name)
		}
	}
}

// TestFlags: what the flags of run promise.
func TestFlags(t *testing.T) {
	t.Parallel()
	python, assay := testkit.Python(t), testkit.Assay(t)
	start := func(t *testing.T, flags []string, command ...string) (testkit.Outcome, *evidence.Run) {
		out := filepath.Join(t.TempDir(), "run")
		args := append([]string{assay, "run", "--out", out}, flags...)
		got := testkit.Execute(t, testkit.Subjects(), nil, append(append(args, "--"), command...)...)
		return got, testkit.LoadRun(t, out)
	}
	t.Run("steps", func(t *testing.T) {
		got, run := start(t, []string{"--steps", "25"}, python, "plain.py")
		if got.Code != 0 || len(run.Steps.Number) != 25 || !strings.Contains(run.Outcome.Stopped, "25 steps") {
			t.Errorf("status %d, %d steps, stopped %q", got.Code, len(run.Steps.Number), run.Outcome.Stopped)
		}
		if !run.Figure("epoch.estimate").Known() {
			t.Error("no estimate of the epoch")
		}
	})
	t.Run("for", func(t *testing.T) {
		testset.FullOnly(t)
		// The time counts from the start, and a busy machine is long at importing torch: double it until the run has
		// got to a step.
		var got testkit.Outcome
		var run *evidence.Run
		for seconds := 6; run == nil || len(run.Steps.Number) == 0 && seconds < 600; seconds *= 2 {
			got, run = start(t, []string{"--for", strconv.Itoa(seconds) + "s", "--profile=off"}, python, "plain.py",
				"--epochs", "1000000")
		}
		if got.Code != 0 || !strings.Contains(run.Outcome.Stopped, "--for") || len(run.Steps.Number) == 0 {
			t.Errorf("status %d, %d steps, stopped %q", got.Code, len(run.Steps.Number), run.Outcome.Stopped)
		}
	})
	for _, what := range []string{"data", "forward"} {
		t.Run("only "+what, func(t *testing.T) {
			testset.FullOnly(t)
			got, run := start(t, []string{"--only", what, "--profile=off"}, python, "plain.py", "--epochs", "50")
			if got.Code != 0 || run.Only == nil || run.Only.What != what || run.Only.Each.N < 5 ||
				run.Only.Verdict == "" || !run.Only.Step.Known() {
				t.Errorf("status %d, only %+v\n%s", got.Code, run.Only, got.Stderr)
			}
		})
	}
	t.Run("script by name, module, notebook", func(t *testing.T) {
		for _, c := range []struct {
			command []string
			kind    string
			steps   int
			short   bool // in the short set too
		}{
			{[]string{"plain.py", "--epochs", "2"}, "script", 40, false},
			{[]string{"-m", "pkg.train"}, "module", 60, false},
			{[]string{"notebook.ipynb"}, "notebook", 16, true},
			{[]string{"python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "plain.py"},
				"module", 60, false},
		} {
			t.Run(strings.Join(c.command, " "), func(t *testing.T) {
				if !c.short {
					testset.FullOnly(t)
				}
				got, run := start(t, []string{"--python", python, "--profile=off"}, c.command...)
				if got.Code != 0 || run.Subject.Kind != c.kind || len(run.Steps.Number) != c.steps {
					t.Errorf("%v: status %d, %s, %d steps\n%s", c.command, got.Code, run.Subject.Kind,
						len(run.Steps.Number), testkit.Tail(got.Stderr))
				}
			})
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
		{[]string{"run", "--on", "tpu", "--", "true"}, 125, "auto, cpu, mps, cuda and double"},
		{[]string{"run", "--steps", "-3", "--", "true"}, 125, "--steps"},
		{[]string{"run", "--for", "soon", "--", "true"}, 125, "90s"},
		{[]string{"run", "--nonsense", "--", "true"}, 125, "nonsense"},
		{[]string{"run", "--out", full, "--", "true"}, 125, "not empty"},
		{[]string{"run", "--", "no-such-program-here"}, 127, "not found"},
		{[]string{"run", "--", "./no-such-file"}, 127, "no such file"},
		{[]string{"run", "--", "./plain.txt"}, 126, "cannot be executed"},
		{[]string{"run", "--torch", "2.8", "--", "true"}, 125,
			"--torch describes the Mac that a rehearsal stands for, and the run is --on auto"},
		{[]string{"run", "--on", "cpu", "--shape-only", "--", "true"}, 125, "--shape-only describes"},
		{[]string{"run", "--on", "double", "--torch", "2.99", "--", "true"}, 125,
			"the nearest it has is 2.15.0; all: 2.0.0 2.0.1"},
		{[]string{"run", "--on", "double", "--torch", "2.8", "--chip", "m3-ulta", "--", "true"}, 125,
			"known: m3 m3-pro m3-max m3-ultra"},
		{[]string{"run", "--on", "double", "--torch", "2.8", "--chip", "m3-ultra-64gb", "--", "true"}, 125,
			"was not sold with 64 GiB of memory\n  known: m3-ultra-96gb m3-ultra-256gb m3-ultra-512gb"},
		{[]string{"run", "--on", "double", "--torch", "2.8", "--macos", "17", "--", "true"}, 125,
			"there is no macOS 17"},
		{[]string{"run", "--on", "double", "--torch", "2.9", "--macos", "13", "--", "true"}, 125,
			"torch 2.9.1 has no MPS on macOS 13: it needs 14.0"},
		{[]string{"run", "--on", "double", "--torch", "2.8", "--only", "data", "--", "true"}, 125,
			"say nothing about the Mac"},
		{[]string{"show", "nothing-here"}, 1, "no such file"},
		{[]string{"show", full}, 1, "no evidence.json"},
		{[]string{"show", plain}, 1, "not the evidence of a run"},
		{[]string{"nonsense"}, 2, "unknown command"},
	} {
		got := testkit.Execute(t, dir, nil, append([]string{assay}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.Stderr, c.want) || got.Stdout != "" {
			t.Errorf("%v: status %d, want %d; stdout %q, stderr %q", c.args, got.Code, c.code, got.Stdout, got.Stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, ".assay", "runs")); err == nil {
			t.Errorf("%v left a run's folder behind", c.args)
		}
	}
	if got := testkit.Execute(t, dir, nil, assay, "run", "-q", "--", "sh", "-c", "echo out; exit 42"); got.Code != 42 ||
		got.Stdout != "out\n" {
		t.Errorf("%+v", got)
	}
}

// TestDoubleSettings: what the flags of a rehearsal become for the agent, and that the table lies where it says, for
// this user alone.
func TestDoubleSettings(t *testing.T) {
	assay := testkit.Assay(t)
	settings := func(flags ...string) (target.Settings, target.Table, string) {
		args := append([]string{assay, "run", "-q", "--on", "double"}, flags...)
		args = append(args, "--", "sh", "-c",
			`printf '%s\n' "$ASSAY_AGENT"; t=${ASSAY_AGENT#*\"table\":\"}; cat "${t%%\"*}"; echo; ls -l "${t%%\"*}"; echo "cuda=$CUDA_VISIBLE_DEVICES."`)
		got := testkit.Execute(t, t.TempDir(), []string{"CUDA_VISIBLE_DEVICES=0"}, args...)
		lines := strings.SplitN(got.Stdout, "\n", 3)
		var config struct{ Double target.Settings }
		var table target.Table
		if got.Code != 0 || len(lines) != 3 || json.Unmarshal([]byte(lines[0]), &config) != nil ||
			json.Unmarshal([]byte(lines[1]), &table) != nil {
			t.Fatalf("%v: status %d\n%s%s", flags, got.Code, testkit.Tail(got.Stdout), got.Stderr)
		}
		config.Double.Table = ""
		return config.Double, table, lines[2]
	}
	got, table, rest := settings("--torch", "2.8", "--chip", "m3-ultra-60core-96gb", "--macos", "15.5", "--shape-only")
	want := target.Settings{Release: "2.8.0", Series: [2]int{2, 8}, MacOS: target.MacOS{15, 5}, Chip: "m3-ultra-96gb",
		ChipName: "Apple M3 Ultra", Memory: 96 << 30, Cores: 60,
		ShapeOnly: true, Installed: got.Installed, Assumed: []string{}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if table.Release != "2.8.0" || table.Ops["aten::mm"] != "N" || table.Structured["aten::sgn"] != "aten::sgn.out" ||
		len(table.Commit) != 40 {
		t.Errorf("table of %s, %d operators, commit %q", table.Release, len(table.Ops), table.Commit)
	}
	if !strings.HasPrefix(rest, "-rw-------") || !strings.HasSuffix(rest, "cuda=.\n") {
		t.Errorf("%s", rest)
	}
	// Without --torch it is the release that is installed, and a script that imports no torch has rehearsed nothing.
	out := filepath.Join(t.TempDir(), "run")
	testkit.Execute(t, t.TempDir(), nil, assay, "run", "-q", "--on", "double", "--out", out, "--", testkit.Python(t),
		"-c", "pass")
	if run := testkit.LoadRun(t, out); run.Target.Double == nil || strings.Split(run.Target.Double.Installed,
		"+")[0] != run.Target.Double.Release || run.Outcome.Complete {
		t.Errorf("target %+v, outcome %+v", run.Target, run.Outcome)
	}
	got, _, _ = settings("--torch", "2.15.0")
	if got.Chip != "m1-16gb" || got.MacOS != (target.MacOS{15, 0}) || len(got.Assumed) != 2 ||
		!strings.Contains(got.Assumed[0], "the Mac: m1-16gb") {
		t.Errorf("%+v", got)
	}
}

// TestTwoAtOnce: two runs from one folder do not meet.
func TestTwoAtOnce(t *testing.T) {
	testset.FullOnly(t)
	python, assay := testkit.Python(t), testkit.Assay(t)
	dir := t.TempDir()
	script, err := filepath.Abs(filepath.Join(testkit.Subjects(), "plain.py"))
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
		sum += len(testkit.LoadRun(t, f).Steps.Number)
	}
	if len(folders) != 2 || sum != 100 {
		t.Errorf("%d folders, %d steps", len(folders), sum)
	}
}
