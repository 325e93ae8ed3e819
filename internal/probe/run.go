// Package probe starts a subject under the agent, receives its events, and folds them into evidence.
//
// A run has a folder of its own:
//
//	events.jsonl     every event in the order in which it came, secrets taken out, one a line: {"c": connection, "e": event}; connection 0 is the supervisor's
//	evidence.json    what the events add up to (docs/formats/evidence.md)
//	report.html      the same for a reader
//	trace.json.gz    the profiled steps as a Chrome trace, which Perfetto opens
//
// events.jsonl grows while the run goes on; the other files appear whole (temporary name, sync, rename) or not at all.
// What a killed run left behind is folded by Load.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/agent"
	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/launch"
	"assay/internal/secret"
	"assay/internal/target"
)

const (
	drain       = 500 * time.Millisecond // how long after the script's end its last events are waited for
	stopGrace   = 30 * time.Second       // from the agent's SystemExit to our SIGTERM, and from that to SIGKILL
	sampleEvery = time.Second
	gitAfter    = time.Second // or when the script has ended
	factsLimit  = 3 * time.Second
)

// Sampler reads the host's counters; internal/host has one.
type Sampler interface {
	Sample(ctx context.Context) []evidence.Figure
	Close()
}

// Outside is what other rooms know and the probe asks for: cli hands it over.
type Outside struct {
	Facts    func(ctx context.Context, paths ...string) []evidence.Fact
	Sampler  func(pid int) Sampler
	Apps     func(ctx context.Context, pid, n int) ([]evidence.App, error)
	Packages func(path []string) []string // name==version of what is installed below sys.path
}

// Options say what to run and how to watch it.
type Options struct {
	ID         string // name of the run, of its own wherever its folder is
	Subject    evidence.Subject
	Command    []string // as executed; the first word is looked up on PATH of Environ
	Environ    []string
	Dir        string
	On         target.Target
	Double     *target.Double  // the Mac to rehearse on, where On is a rehearsal
	Beside     []target.Double // other releases that are asked of each call, that of Double among them; nil: none
	CPUToo     bool            // run pytest's tests that failed on the double once more on the CPU
	Quiet      bool            // say nothing of that
	Steps      int             // end the run after so many steps; 0: never
	For        float64         // end it after so many seconds; 0: never
	Only       string          // "", data, forward
	Levers     *Levers         // what the agent switches on in the script; nil: nothing
	Suite      Suite           // follows the tests that the command runs; nil: nobody does
	Record     *Recording      // what of its first steps is recorded; nil: nothing
	Signatures bool            // record the distinct operator calls: events of signatures
	Profile    string          // auto, off
	WarnEpoch  float64         // seconds
	Out        string          // the run's folder; must not exist or be empty. "": nothing is kept
	Home       string          // assay's own folder, which holds Out; "": Out lies elsewhere
	// other files and folders of assay's: what lies there is no change of the project's
	Own       []string
	Elsewhere func(why error) string // where to keep the run if Out cannot be made; nil: it is not started then
	Cache     string                 // where the agent is unpacked
	NoAgent   error                  // why there is no such place
	Launcher  launch.Launcher        // starts the command; it is the caller's to close, after Result.LetGo
	Version   string                 // of assay
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Now       func() time.Time
	Outside   Outside
	// Tell is called while the run goes on with each estimate of how long it takes; nil: nobody is told.
	Tell func(fold.EstimateEvent, Telling)
}

// Suite follows the tests of a suite that the command runs; internal/suite's Supervisor is one.
type Suite interface {
	Settings() map[string]any        // for the agent, below "suite" of its configuration
	Follow(p launch.Process)         // returns when the process has ended
	Again(ending launch.Ending) bool // whether the command is started once more: a test has ended its process
}

// Result is a run that was started.
type Result struct {
	Dir     string
	Run     *evidence.Run
	Exit    int            // status to end with: the script's own
	Signal  syscall.Signal // the signal that ended the script; 0: none
	Trouble []string       // what of the evidence could not be kept
	release func()
}

// LetGo gives signals their effect on assay back. Until then, from the script's start on, none of them ends assay: what
// was seen is still to be kept when the script has ended.
func (r *Result) LetGo() {
	if r.release != nil {
		r.release()
	}
}

// Run runs the subject to its end. An error means that the subject was not started; its exit code is one of fault's.
func Run(o Options) (*Result, error) {
	path, err := o.Launcher.Look(o.Command[0], o.Environ, o.Dir)
	if err != nil {
		return nil, err
	}
	notStarted := func(err error) error {
		return fault.Exit(fmt.Errorf("run %s: %w", o.Command[0], err), fault.NotStarted)
	}
	if err := newRunDir(o.Home, o.Out); err != nil {
		if o.Elsewhere == nil {
			return nil, fault.Exit(err, fault.NotStarted)
		}
		if o.Out = o.Elsewhere(err); o.Out != "" {
			if err := newRunDir("", o.Out); err != nil {
				return nil, fault.Exit(err, fault.NotStarted)
			}
		}
	}
	// What is secret on the command line and in the environment is so wherever it turns up in this run.
	secrets := &secret.Set{}
	secrets.Environ(o.Environ)
	secrets.Words(o.Command)
	rec, err := newRecorder(o.Out, secrets)
	if err != nil {
		return nil, notStarted(err)
	}
	defer rec.log.Close()
	if o.Tell != nil {
		rec.tell = o.Tell
	}
	rec.double = o.Double != nil
	leave := func() { // nothing was started: nothing is recorded
		if o.Out != "" {
			os.Remove(filepath.Join(o.Out, events.FileName))
			os.Remove(o.Out)
		}
	}

	started := o.Now()
	environ, agents, double, err := letIn(o, rec, started)
	if err != nil {
		// what was asked for is the agent's doing
		if o.Double != nil || o.Steps > 0 || o.Only != "" || o.Levers.asked() || o.Signatures || o.Record != nil {
			leave()
			return nil, notStarted(err)
		}
		// The training comes first; and who waits for hours is to know now that nothing is measured.
		fmt.Fprintf(o.Stderr, "assay: the script runs unwatched: %v\n", err)
		environ = withoutAgent(o.Environ, o.On)
		rec.blamed = append(rec.blamed, "the script ran unwatched: "+err.Error())
	}
	defer agents.close()
	rec.own("start", fold.StartEvent{ID: o.ID, Wall: started.UTC(), Subject: o.Subject, Target: o.On,
		System: runtime.GOOS + "/" + runtime.GOARCH, Assay: o.Version, Environ: relevant(o.Environ, secrets),
		WarnLong: o.WarnEpoch,
		Options:  map[string]string{"profile": o.Profile, "only": o.Only, "steps": strconv.Itoa(o.Steps)},
		Double:   double})

	command := launch.Command{Path: path, Args: o.Command, Environ: environ, Dir: o.Dir,
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Guard: rec.guard}
	script, err := o.Launcher.Start(command)
	if err != nil {
		o.Launcher.Release()
		leave()
		return nil, fault.Exit(err, fault.NotRunnable)
	}
	agents.server.Leave(script.PID())

	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	var background sync.WaitGroup
	watch(work, &background, rec, o, script.PID(), started)

	stoppedBy := make(chan string, 1)
	go func() {
		why := ""
		defer func() { stoppedBy <- why }()
		defer rec.guard("ending the run")
		steer(o, script, rec, &why)
	}()
	ending, err := toItsEnd(o, command, script, rec.guard)
	if err != nil {
		o.Launcher.Release()
		return nil, fault.Exit(err, fault.NotStarted)
	}
	res := &Result{Dir: o.Out, Exit: ending.Exit, Signal: ending.Signal, release: o.Launcher.Release}
	exit := fold.ExitEvent{Stopped: <-stoppedBy}
	if ending.Signal != 0 {
		exit.Signal = launch.SignalName(ending.Signal)
	}
	exit.Code, exit.Wall = res.Exit, o.Now().UTC()
	agents.server.Drain(drain)
	cancel()
	background.Wait()
	func() {
		defer rec.guard("looking at the host")
		if o.Outside.Apps == nil {
			return
		}
		last, stop := context.WithTimeout(context.Background(), factsLimit)
		defer stop()
		if apps, err := o.Outside.Apps(last, script.PID(), 12); err == nil {
			rec.own("host", fold.HostEvent{At: "end", Apps: apps})
		}
	}()
	if failed := rec.failedTests(); len(failed) > 0 && o.CPUToo && res.Signal == 0 && exit.Stopped == "" &&
		res.Exit != interrupted {
		if !o.Quiet {
			fmt.Fprintf(o.Stderr, "assay: %d tests failed on the double: the same on the CPU, to tell which fail there as well\n", len(failed))
		}
		rec.own("retest", retest(o, path, agents.boot, failed))
	}
	exit.Trouble = rec.troubles()
	rec.own("exit", exit)
	res.Run = rec.finish()
	func() {
		defer rec.guard("adding up the trace and the packages")
		operators(res.Run, o.Out, secrets, rec.table(), rec.guard)
		if o.Outside.Packages != nil {
			if list := o.Outside.Packages(rec.paths()); list != nil {
				for i, line := range list {
					list[i] = secrets.Text(line)
				}
				res.Run.Provenance.Packages = list
			}
		}
	}()
	for _, why := range rec.troubles() {
		res.Trouble = append(res.Trouble, why)
		res.Run.Outcome.Complete = false
		if !strings.Contains(res.Run.Outcome.Reason, why) {
			res.Run.Outcome.Reason = strings.TrimPrefix(res.Run.Outcome.Reason+"; "+why, "; ")
		}
	}
	return res, nil
}

// toItsEnd waits for a command, which a suite may have started once more, and says how it ended.
func toItsEnd(o Options, c launch.Command, p launch.Process, guard func(string)) (launch.Ending, error) {
	for {
		if o.Suite != nil {
			func() {
				defer guard("following the tests")
				o.Suite.Follow(p)
			}()
		}
		<-p.Ended()
		ending, err := p.Ending()
		if err != nil || o.Suite == nil || !o.Suite.Again(ending) {
			return ending, err
		}
		if p, err = o.Launcher.Start(c); err != nil {
			return ending, err
		}
	}
}

// agents is the way in for the agents of the run's processes. The zero one lets nobody in.
type agents struct {
	server *events.Server
	boot   string // where the agent is unpacked
}

func (a agents) close() { a.server.Close() }

// letIn makes what the agent needs, and gives the environment that brings it into the script.
func letIn(o Options, rec *recorder, started time.Time) ([]string, agents, *target.Settings, error) {
	none := func(err error) ([]string, agents, *target.Settings, error) { return nil, agents{}, nil, err }
	if o.NoAgent != nil {
		return none(o.NoAgent)
	}
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return none(fault.Hint(err, "set ASSAY_CACHE to a folder that can be written"))
	}
	server, err := events.Listen(o.Environ, o.Dir, agent.Protocol, rec)
	if err != nil {
		return none(fmt.Errorf("open a socket for the agent: %w", err))
	}
	server.Guard = rec.guard
	config := map[string]any{"socket": server.Socket(), "run": o.Out, "on": o.On.Device, "profile": o.Profile,
		"wall": float64(started.UnixNano()) / 1e9}
	if o.Out == "" {
		config["profile"] = "off" // its trace would have no place
	}
	if o.Steps > 0 {
		config["steps"] = o.Steps
	}
	if o.For > 0 {
		config["for"] = o.For
	}
	if o.Only != "" {
		config["only"] = o.Only
	}
	if o.Levers.asked() {
		config["levers"] = o.Levers
	}
	if o.Signatures {
		config["signatures"] = true
	}
	if o.Suite != nil {
		config["suite"] = o.Suite.Settings()
	}
	if o.Record != nil {
		config["record"] = o.Record
	}
	var double *target.Settings
	if o.Double != nil {
		settings, err := o.Double.Keep(server.Path("double.json"))
		if err != nil {
			server.Close()
			return none(fmt.Errorf("write the double's table: %w", err))
		}
		config["double"] = settings
		settings.Table = ""
		double = &settings
	}
	var beside []target.Settings
	for _, d := range o.Beside {
		settings, err := d.Keep(server.Path("double-" + d.Settings.Release + ".json"))
		if err != nil {
			server.Close()
			return none(fmt.Errorf("write the table of PyTorch %s: %w", d.Settings.Release, err))
		}
		beside = append(beside, settings)
	}
	if beside != nil {
		config["releases"] = beside
	}
	go server.Serve()
	return childEnviron(o.Environ, installed.Boot, config, o.On), agents{server, installed.Boot}, double, nil
}

// interrupted is pytest's exit status after Ctrl-C: ExitCode.INTERRUPTED.
const interrupted = 2

// steer sees that a run that was to end does end. why is set where assay ended it.
func steer(o Options, script launch.Process, rec *recorder, why *string) {
	var limit, kill <-chan time.Time
	stopping := rec.stopping
	if o.For > 0 {
		// The agent ends the run between two steps; this is for a script without steps, or one that will not end.
		limit = time.After(time.Duration(o.For*float64(time.Second)) + stopGrace)
	}
	for {
		select {
		case <-script.Ended():
			return
		case <-stopping:
			limit, stopping = time.After(stopGrace), nil
		case <-limit:
			*why = "assay sent SIGTERM: the script did not end between two steps in the time asked for"
			script.Signal(syscall.SIGTERM)
			limit, kill = nil, time.After(stopGrace)
		case <-kill:
			*why = "assay sent SIGKILL: the script did not end on SIGTERM"
			script.Signal(syscall.SIGKILL)
			kill = nil
		}
	}
}

// watch starts what is looked at beside the script: the host's facts and samples, the largest programs, the commit, the
// data.
func watch(ctx context.Context, wg *sync.WaitGroup, rec *recorder, o Options, pid int, started time.Time) {
	spawn := func(what string, f func()) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer rec.guard(what)
			f()
		}()
	}
	spawn("sweeping up after killed runs", func() { file.Sweep(o.Environ, o.Dir) })
	spawn("asking git for the commit", func() {
		// Not while the script starts: whoever stops it then, as a test or a shell that has thought better of it, could
		// catch git before its exec, and us with it (gitState).
		select {
		case <-ctx.Done():
		case <-time.After(gitAfter):
		}
		// a script may be over before git has answered
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), factsLimit)
		defer stop()
		commit, dirty := gitState(limited, o.Dir, append([]string{o.Out}, o.Own...))
		rec.own("host", fold.HostEvent{Commit: commit, Dirty: dirty})
	})
	if o.Outside.Facts != nil {
		spawn("reading the host's facts", func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			rec.own("host", fold.HostEvent{Facts: o.Outside.Facts(limited, o.Dir)})
		})
	}
	if o.Outside.Apps != nil {
		spawn("listing programs by memory", func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			if apps, err := o.Outside.Apps(limited, pid, 12); err == nil {
				rec.own("host", fold.HostEvent{At: "start", Apps: apps})
			}
		})
	}
	spawn("fingerprinting data", func() { fingerprints(ctx, rec, o.Dir) })
	if o.Outside.Sampler == nil {
		return
	}
	spawn("sampling the host", func() {
		sampler := o.Outside.Sampler(pid)
		defer sampler.Close()
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for n := 0; ; n++ {
			if figs := sampler.Sample(ctx); figs != nil && ctx.Err() == nil {
				rec.own("host", fold.HostEvent{Sample: &evidence.Sample{At: o.Now().Sub(started).Seconds(),
					Figures: figs}})
			}
			if n == 600 {
				ticker.Reset(10 * sampleEvery) // a run of hours needs no second-by-second record
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

const evidenceFile = "evidence.json"

// childEnviron is the script's environment: the agent's folder first on PYTHONPATH and its configuration.
func childEnviron(environ []string, boot string, config map[string]any, on target.Target) []string {
	data, _ := json.Marshal(config)
	path := boot
	out := slices.DeleteFunc(withoutAgent(environ, on), func(e string) bool {
		value, ok := strings.CutPrefix(e, "PYTHONPATH=")
		if ok && value != "" {
			path = boot + string(os.PathListSeparator) + value
		}
		return ok
	})
	return append(out, "PYTHONPATH="+path, agent.Variable+"="+string(data))
}

// withoutAgent is the environment as assay got it, without the settings of an agent around it, and for a target that
// hides CUDA devices with none to be seen.
func withoutAgent(environ []string, on target.Target) []string {
	hide := on.HidesCUDA()
	out := make([]string, 0, len(environ)+3)
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if name != agent.Variable && !(hide && name == "CUDA_VISIBLE_DEVICES") {
			out = append(out, e)
		}
	}
	if hide {
		out = append(out, "CUDA_VISIBLE_DEVICES=")
	}
	return out
}
