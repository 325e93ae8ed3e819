package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"assay/agent"
	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/launch"
	"assay/internal/secret"
	"assay/internal/target"
)

// played is a process of no machine: it ends when it has been sent the signal that it heeds.
type played struct {
	heeds  syscall.Signal
	got    []syscall.Signal
	ended  chan struct{}
	ending launch.Ending
	err    error
}

func (p *played) PID() int                       { return 1 }
func (p *played) Ended() <-chan struct{}         { return p.ended }
func (p *played) Ending() (launch.Ending, error) { return p.ending, p.err }
func (p *played) Signal(s syscall.Signal) {
	if p.got = append(p.got, s); s == p.heeds {
		close(p.ended)
	}
}

// TestSteer: a run that was to end and does not is asked to after half a minute, and made to after another; nothing is
// sent to one that nobody asked to end.
func TestSteer(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit float64
		stops time.Duration // the agent ends the script; 0: never
		heeds syscall.Signal
		got   []syscall.Signal
		after time.Duration
		why   string
	}{
		{"--for, a script without steps", 100, 0, syscall.SIGTERM, []syscall.Signal{syscall.SIGTERM}, 130 * time.Second,
			"SIGTERM"},
		{"--for, one that will not end", 100, 0, syscall.SIGKILL, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL},
			160 * time.Second, "SIGKILL"},
		{"the agent's SystemExit is caught", 0, 5 * time.Second, syscall.SIGTERM, []syscall.Signal{syscall.SIGTERM},
			35 * time.Second, "SIGTERM"},
		{"it ends by itself", 0, 0, 0, nil, time.Hour, ""},
		{"it ends by itself in time", 7200, 0, 0, nil, time.Hour, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &played{heeds: c.heeds, ended: make(chan struct{})}
			rec := &recorder{stopping: make(chan struct{}, 1)}
			begun, why := time.Now(), ""
			if c.stops > 0 {
				time.AfterFunc(c.stops, func() { rec.stopping <- struct{}{} })
			}
			if c.heeds == 0 {
				time.AfterFunc(time.Hour, func() { close(p.ended) })
			}
			steer(Options{For: c.limit}, p, rec, &why)
			if !slices.Equal(p.got, c.got) || time.Since(begun) != c.after || !strings.Contains(why, c.why) ||
				(why == "") != (c.why == "") {
				t.Errorf("%s: %v after %v, %q", c.name, p.got, time.Since(begun), why)
			}
		})
	}
}

// player starts processes that answer as a test says.
type player struct {
	launch.Launcher
	start func(launch.Command) (launch.Process, error)
}

func (p player) Start(c launch.Command) (launch.Process, error) { return p.start(c) }

// TestRetest: how the tests ended on the CPU is taken as it was told; of those that were not run the reason is said.
func TestRetest(t *testing.T) {
	ids := []string{"a", "b"}
	for _, c := range []struct {
		name, answers string
		ending        launch.Ending
		err, notBegun error
		rows          int
		missing       string
	}{
		{"both", `["a","passed",""]` + "\n" + `["b","failed","x"]` + "\n", launch.Ending{Exit: 1}, nil, nil, 2, ""},
		{"one", `["a","passed",""]` + "\nnoise\n", launch.Ending{Signal: syscall.SIGSEGV}, nil, nil, 1,
			"of 2 tests that failed, 1 were run on the CPU: it ended by SIGSEGV"},
		{"none", "", launch.Ending{Exit: 4}, nil, nil, 0, "0 were run on the CPU: it ended with status 4"},
		{"none, and well", "", launch.Ending{}, nil, nil, 0, "0 were run on the CPU"},
		{"nobody knows", "", launch.Ending{}, errors.New("lost"), nil, 0, "0 were run on the CPU: lost"},
		{"not begun", "", launch.Ending{}, nil, errors.New("no memory"), 0, "were not run on the CPU: no memory"},
	} {
		o := Options{Environ: []string{"PYTHONPATH=/lib", "TMPDIR=" + t.TempDir()}, Dir: t.TempDir(),
			Command: []string{"pytest"}}
		var folder string
		o.Launcher = player{start: func(cmd launch.Command) (launch.Process, error) {
			if c.notBegun != nil {
				return nil, c.notBegun
			}
			var config struct{ Tests struct{ Only, Out string } }
			for _, e := range cmd.Environ {
				if value, ok := strings.CutPrefix(e, agent.Variable+"="); ok {
					json.Unmarshal([]byte(value), &config)
				}
			}
			folder = filepath.Dir(config.Tests.Out)
			if data, _ := os.ReadFile(config.Tests.Only); string(data) != `["a","b"]` {
				t.Errorf("asked for %s", data)
			}
			if !slices.Contains(cmd.Environ, "CUDA_VISIBLE_DEVICES=") ||
				!slices.Contains(cmd.Environ, "PYTHONPATH=/boot:/lib") {
				t.Errorf("not on the CPU: %q", cmd.Environ)
			}
			if c.answers != "" {
				write(t, config.Tests.Out, c.answers)
			}
			p := &played{ending: c.ending, err: c.err, ended: make(chan struct{})}
			close(p.ended)
			return p, nil
		}}
		e := retest(o, "/bin/pytest", "/boot", ids)
		if len(e.Rows) != c.rows || !strings.HasSuffix(e.Missing, c.missing) || (c.missing == "") != (e.Missing == "") {
			t.Errorf("%s: %q, %q", c.name, e.Rows, e.Missing)
		}
		if _, err := os.Stat(folder); folder != "" && err == nil {
			t.Errorf("%s: %s was left behind", c.name, folder)
		}
	}
}

// TestChildEnviron: the agent stands first on PYTHONPATH, what the user has there behind it.
func TestChildEnviron(t *testing.T) {
	auto := target.Target{Device: target.Auto}
	for given, want := range map[string]string{"A=1": "PYTHONPATH=/boot", "PYTHONPATH=": "PYTHONPATH=/boot",
		"PYTHONPATH=/x:/y": "PYTHONPATH=/boot:/x:/y"} {
		got := childEnviron([]string{given, agent.Variable + "=old"}, "/boot", map[string]any{"steps": 3}, auto)
		if !slices.Contains(got, want) || !slices.Contains(got, agent.Variable+`={"steps":3}`) ||
			slices.Contains(got, agent.Variable+"=old") || given != "A=1" && len(got) != 2 {
			t.Errorf("%s: %q", given, got)
		}
	}
}

// TestWhatTheAgentIsTold: the agent is told what the user asked for, and nothing else; where nothing is kept it makes
// no trace.
func TestWhatTheAgentIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   map[string]any // of steps, for, only, profile
	}{
		{"nothing", func(*Options) {}, map[string]any{"profile": "auto"}},
		{"all", func(o *Options) { o.Steps, o.For, o.Only = 1, 0.5, "data" },
			map[string]any{"profile": "auto", "steps": 1.0, "for": 0.5, "only": "data"}},
		{"kept nowhere", func(o *Options) { o.Out = "" }, map[string]any{"profile": "off"}},
	} {
		o := options(t, "sh")
		o.Profile = "auto"
		c.change(&o)
		rec, err := newRecorder("", &secret.Set{})
		if err != nil {
			t.Fatal(err)
		}
		environ, agents, _, err := letIn(o, rec, time.Unix(5, 0))
		if err != nil {
			t.Fatal(err)
		}
		agents.close()
		config := map[string]any{}
		for _, e := range environ {
			if value, ok := strings.CutPrefix(e, agent.Variable+"="); ok {
				json.Unmarshal([]byte(value), &config)
			}
		}
		if config["socket"] == "" || config["run"] != o.Out || config["wall"] != 5.0 {
			t.Errorf("%s: %v", c.name, config)
		}
		for _, key := range []string{"steps", "for", "only", "profile", "double"} {
			if config[key] != c.want[key] {
				t.Errorf("%s: %s is %v, want %v", c.name, key, config[key], c.want[key])
			}
		}
	}
}

// TestNotStarted: what cannot be started says with which status, and leaves no folder; a folder that cannot be made has
// another in its place, or none.
func TestNotStarted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fno program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, status := range map[string]int{"/nothing/here": fault.NotFound, program: fault.NotRunnable} {
		o := options(t, name)
		if _, err := Run(o); err == nil || fault.CodeOf(err) != status {
			t.Errorf("%s: %v, status %d, want %d", name, err, fault.CodeOf(err), status)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: a run that was not started left a folder", name)
		}
	}
	taken := t.TempDir()
	write(t, filepath.Join(taken, "mine"), "x")
	o := options(t, "true")
	o.Out = taken
	if _, err := Run(o); err == nil || fault.CodeOf(err) != fault.NotStarted {
		t.Errorf("a folder that is not empty: %v", err)
	}
	o.Elsewhere = func(error) string { return taken }
	if _, err := Run(o); err == nil || fault.CodeOf(err) != fault.NotStarted {
		t.Errorf("nor is the other one: %v", err)
	}
	o.Elsewhere = func(error) string { return "" }
	res, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	let := 0
	for _, r := range []*Result{res, {}, {release: func() { let++ }}} {
		r.LetGo()
	}
	if why := "events could not be written: " + events.ErrNoFolder.Error(); let != 1 || !slices.Equal(res.Trouble,
		[]string{why}) {
		t.Errorf("let go %d times, trouble %q", let, res.Trouble)
	}
	if entries, _ := os.ReadDir(taken); len(entries) != 1 || res.Dir != "" || res.Exit != 0 {
		t.Errorf("%v, %+v", entries, res)
	}
}

// TestWhatIsSeenBeside: the machine's facts, samples and programs, the packages and the ending reach the evidence; what
// is secret in them does not.
func TestWhatIsSeenBeside(t *testing.T) {
	const password = "correct-horse-battery-17"
	o := options(t, "sh", "-c", "sleep 0.2; kill -USR1 $$", "--password", password)
	o.ID = "r1"
	o.Outside = Outside{
		Facts: func(context.Context, ...string) []evidence.Fact {
			return []evidence.Fact{{Name: "host", Value: "it has " + password}}
		},
		Apps:     func(context.Context, int, int) ([]evidence.App, error) { return []evidence.App{{Name: "big"}}, nil },
		Packages: func([]string) []string { return []string{"torch==2.8.0", "x @ https://" + password + "@host"} },
		Sampler:  func(int) Sampler { return oneFigure{} },
	}
	res, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	res.LetGo()
	run := res.Run
	if res.Signal != syscall.SIGUSR1 || run.Outcome.Signal != "SIGUSR1" ||
		run.Outcome.Exit != 128+int(syscall.SIGUSR1) ||
		run.Outcome.Stopped != "" {
		t.Errorf("%+v", run.Outcome)
	}
	if len(run.Host.Facts) != 1 || len(run.Host.Apps) != 1 || len(run.Host.AppsEnd) != 1 ||
		len(run.Host.Samples) == 0 ||
		len(run.Provenance.Packages) != 2 || run.Provenance.Packages[0] != "torch==2.8.0" ||
		run.Provenance.Dirty == "" {
		t.Errorf("%+v, %+v", run.Host, run.Provenance)
	}
	kept, _ := json.Marshal(run)
	recorded, _ := os.ReadFile(filepath.Join(o.Out, events.FileName))
	if bytes.Contains(kept, []byte(password)) || bytes.Contains(recorded, []byte(password)) {
		t.Error("a password was kept")
	}
}

// oneFigure is a sampler that always reads the same.
type oneFigure struct{}

func (oneFigure) Sample(context.Context) []evidence.Figure {
	return []evidence.Figure{evidence.Known("host.cpu", 0.5, "ratio", evidence.Measured)}
}
func (oneFigure) Close() {}
