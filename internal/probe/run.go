// Package probe starts a subject under the agent, receives its events, and folds them into evidence.
//
// A run has a folder of its own:
//
//	events.jsonl     every event in the order in which it came, secrets taken out, one a line: {"c": connection, "e": event}; connection 0 is the supervisor's
//	evidence.json    what the events add up to (docs/formats/evidence.md)
//	report.html      the same for a reader
//	trace.json.gz    the profiled steps as a Chrome trace, which Perfetto opens
//
// events.jsonl grows while the run goes on; the other files appear whole (temporary name, sync, rename) or not at all. What a
// killed run left behind is folded by Load.
package probe

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/agent"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/secret"
	"assay/internal/target"
)

const (
	maxLine     = 64 << 20               // bytes of one event
	drain       = 500 * time.Millisecond // how long after the script's end its last events are waited for
	quiet       = 100 * time.Millisecond // and how long where nothing comes: what a process sent before it ended is there at once
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
	ID        string // name of the run, of its own wherever its folder is
	Subject   evidence.Subject
	Command   []string // as executed; the first word is looked up on PATH of Environ
	Environ   []string
	Dir       string
	On        string                 // auto, cpu, mps, cuda, double
	Double    *Double                // the Mac to rehearse on, with On double
	CPUToo    bool                   // run pytest's tests that failed on the double once more on the CPU
	Quiet     bool                   // say nothing of that
	Steps     int                    // end the run after so many steps; 0: never
	For       float64                // end it after so many seconds; 0: never
	Only      string                 // "", data, forward
	Profile   string                 // auto, off
	WarnEpoch float64                // seconds
	Out       string                 // the run's folder; must not exist or be empty. "": nothing is kept
	Home      string                 // assay's own folder, which holds Out; "": Out lies elsewhere
	Own       []string               // other files and folders of assay's: what lies there is no change of the project's
	Elsewhere func(why error) string // where to keep the run if Out cannot be made; nil: it is not started then
	Cache     string                 // where the agent is unpacked
	NoAgent   error                  // why there is no such place
	Witness   []string               // command that runs Witness
	Version   string                 // of assay
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Now       func() time.Time
	Outside   Outside
}

// Double is what the agent is told of the Mac that a rehearsal stands for.
type Double struct {
	Settings target.Settings
	Table    target.Table
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

// LetGo gives signals their effect on assay back. Until then, from the script's start on, none of them ends assay: what was seen is
// still to be kept when the script has ended.
func (r *Result) LetGo() {
	if r.release != nil {
		r.release()
	}
}

// Run runs the subject to its end. An error means that the subject was not started; its exit code is one of fault's.
func Run(ctx context.Context, o Options) (*Result, error) {
	path, err := lookPath(o.Command[0], o.Environ, o.Dir)
	if err != nil {
		return nil, err
	}
	witness := newWitness(o.Witness)
	defer witness.close()
	return run(o, path, witness)
}

func run(o Options, path string, witness *witness) (*Result, error) {
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
	defer rec.close()
	leave := func() { // nothing was started: nothing is recorded
		if o.Out != "" {
			os.Remove(filepath.Join(o.Out, eventsFile))
			os.Remove(o.Out)
		}
	}

	started := o.Now()
	environ, conns, double, err := letIn(o, rec, started)
	if err != nil {
		if o.Double != nil || o.Steps > 0 || o.Only != "" { // what was asked for is the agent's doing
			leave()
			return nil, notStarted(err)
		}
		// The training comes first; and who waits for hours is to know now that nothing is measured.
		fmt.Fprintf(o.Stderr, "assay: the script runs unwatched: %v\n", err)
		environ, conns = withoutAgent(o.Environ, o.On), newConnections(rec)
		rec.blamed = append(rec.blamed, "the script ran unwatched: "+err.Error())
	}
	defer conns.close()
	rec.own("start", startEvent{ID: o.ID, Wall: started.UTC(), Subject: o.Subject, Asked: o.On,
		System: runtime.GOOS + "/" + runtime.GOARCH, Assay: o.Version, Environ: relevant(o.Environ, secrets), WarnLong: o.WarnEpoch,
		Options: map[string]string{"profile": o.Profile, "only": o.Only}, Double: double})

	cmd := &exec.Cmd{Path: path, Args: o.Command, Env: environ, Dir: o.Dir, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	witness.ready()
	signals := newRelay(witness)
	script, err := startChild(cmd)
	if err != nil {
		signals.release()
		leave()
		return nil, fault.Exit(fmt.Errorf("start %s: %w", path, err), fault.NotRunnable)
	}
	signals.passOnWaiting(script)
	pid := script.pid()
	if conns.folder != nil {
		conns.folder.Leave(pid)
	}

	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	var background sync.WaitGroup
	watch(work, &background, rec, o, pid, started, conns)

	stoppedBy := make(chan string, 1)
	go func() {
		why := ""
		defer func() { stoppedBy <- why }()
		defer rec.guard("passing signals on")
		steer(o, script, signals, started, conns, &why)
	}()
	<-script.ended
	if script.err != nil {
		signals.release()
		return nil, fault.Exit(fmt.Errorf("wait for %s: %w", path, script.err), fault.NotStarted)
	}
	res := &Result{Dir: o.Out, release: signals.release}
	exit := exitEvent{Stopped: <-stoppedBy}
	if script.status.Signaled() {
		res.Signal = script.status.Signal()
		res.Exit = 128 + int(res.Signal)
		exit.Signal = signalName(res.Signal)
	} else {
		res.Exit = script.status.ExitStatus()
	}
	exit.Code, exit.Wall = res.Exit, o.Now().UTC()
	conns.drain(drain)
	cancel()
	background.Wait()
	func() {
		defer rec.guard("looking at the host")
		if o.Outside.Apps == nil {
			return
		}
		last, stop := context.WithTimeout(context.Background(), factsLimit)
		defer stop()
		if apps, err := o.Outside.Apps(last, pid, 12); err == nil {
			rec.own("host", hostEvent{At: "end", Apps: apps})
		}
	}()
	if failed := rec.failedTests(); len(failed) > 0 && o.CPUToo && res.Signal == 0 && exit.Stopped == "" && res.Exit != interrupted {
		if !o.Quiet {
			fmt.Fprintf(o.Stderr, "assay: %d tests failed on the double: the same on the CPU, to tell which fail there as well\n", len(failed))
		}
		rec.own("retest", retest(o, path, conns.boot, failed, signals))
	}
	exit.Trouble = rec.troubles()
	rec.own("exit", exit)
	res.Run = rec.finish()
	func() {
		defer rec.guard("adding up the trace and the packages")
		operators(res.Run, o.Out, secrets)
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

// letIn makes what the agent needs, and gives the environment that brings it into the script.
func letIn(o Options, rec *recorder, started time.Time) ([]string, *connections, *target.Settings, error) {
	if o.NoAgent != nil {
		return nil, nil, nil, o.NoAgent
	}
	conns := newConnections(rec)
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return nil, nil, nil, fault.Hint(err, "set ASSAY_CACHE to a folder that can be written")
	}
	conns.boot = installed.Boot
	if conns.listener, conns.folder, err = listen(o.Environ, o.Dir); err != nil {
		return nil, nil, nil, fmt.Errorf("open a socket for the agent: %w", err)
	}
	config := map[string]any{"socket": conns.at(socketFile), "run": o.Out, "on": o.On, "profile": o.Profile,
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
	var double *target.Settings
	if o.Double != nil {
		settings := o.Double.Settings
		settings.Table = conns.at("double.json")
		data, err := json.Marshal(o.Double.Table)
		if err == nil {
			err = os.WriteFile(settings.Table, data, 0o600)
		}
		if err != nil {
			conns.close()
			return nil, nil, nil, fmt.Errorf("write the double's table: %w", err)
		}
		config["double"] = settings
		settings.Table = ""
		double = &settings
	}
	go conns.accept()
	return childEnviron(o.Environ, installed.Boot, config, o.On), conns, double, nil
}

// interrupted is pytest's exit status after Ctrl-C: ExitCode.INTERRUPTED.
const interrupted = 2

// steer passes signals on and sees that a run that was to end does end. why is set where assay ended the run.
func steer(o Options, script *child, signals *relay, started time.Time, conns *connections, why *string) {
	var limit, kill <-chan time.Time
	stopping := conns.stopping
	if o.For > 0 {
		// The agent ends the run between two steps; this is for a script without steps, or one that will not end.
		limit = time.After(time.Duration(o.For*float64(time.Second)) + stopGrace)
	}
	var job jobs
	for {
		select {
		case <-script.ended:
			return
		case s := <-signals.signals:
			job.heard(signals, script, s.(syscall.Signal))
		case job.by = <-script.stops:
		case <-stopping:
			limit, stopping = time.After(stopGrace), nil
		case <-limit:
			*why = "assay sent SIGTERM: the script did not end between two steps in the time asked for"
			script.signal(syscall.SIGTERM)
			limit, kill = nil, time.After(stopGrace)
		case <-kill:
			*why = "assay sent SIGKILL: the script did not end on SIGTERM"
			script.signal(syscall.SIGKILL)
			kill = nil
		}
		job.follow(signals, script)
	}
}

// watch starts what is looked at beside the script: the host's facts and samples, the largest programs, the commit, the data.
func watch(ctx context.Context, wg *sync.WaitGroup, rec *recorder, o Options, pid int, started time.Time, conns *connections) {
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
		// Not while the script starts: whoever stops it then, as a test or a shell that has thought better of it, could catch git before its
		// exec, and us with it (gitState).
		select {
		case <-ctx.Done():
		case <-time.After(gitAfter):
		}
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), factsLimit) // a script may be over before git has answered
		defer stop()
		commit, dirty := gitState(limited, o.Dir, append([]string{o.Out}, o.Own...))
		rec.own("host", hostEvent{Commit: commit, Dirty: dirty})
	})
	if o.Outside.Facts != nil {
		spawn("reading the host's facts", func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			rec.own("host", hostEvent{Facts: o.Outside.Facts(limited, o.Dir)})
		})
	}
	if o.Outside.Apps != nil {
		spawn("listing programs by memory", func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			if apps, err := o.Outside.Apps(limited, pid, 12); err == nil {
				rec.own("host", hostEvent{At: "start", Apps: apps})
			}
		})
	}
	spawn("fingerprinting data", func() { fingerprints(ctx, rec, conns, o.Dir) })
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
				rec.own("host", hostEvent{Sample: &evidence.Sample{At: o.Now().Sub(started).Seconds(), Figures: figs}})
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

const (
	eventsFile   = "events.jsonl"
	evidenceFile = "evidence.json"
)

// recorder keeps events: in the file, and in the fold. Secrets are taken out before either sees them.
type recorder struct {
	secrets *secret.Set
	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	fold    *fold
	failed  error    // of writing events
	blamed  []string // what else of the evidence was lost
	quit    chan struct{}
	done    chan struct{}
}

// newRecorder makes one that writes to a new file in dir; with no folder it adds up, and keeps nothing.
func newRecorder(dir string, secrets *secret.Set) (*recorder, error) {
	r := &recorder{secrets: secrets, fold: newFold(), quit: make(chan struct{}), done: make(chan struct{})}
	if dir == "" {
		r.out, r.failed = bufio.NewWriter(io.Discard), errNoFolder
		go r.flushes()
		return r, nil
	}
	events, err := os.OpenFile(filepath.Join(dir, eventsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.file, r.out = events, bufio.NewWriterSize(events, 1<<16)
	go r.flushes()
	return r, nil
}

var errNoFolder = errors.New("there is no folder to keep them in")

// flushes writes out what has gathered four times a second: as often as the agent sends.
func (r *recorder) flushes() {
	defer close(r.done)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-tick.C:
			r.mu.Lock()
			r.fail(r.out.Flush())
			r.mu.Unlock()
		}
	}
}

func (r *recorder) fail(err error) {
	if err != nil && r.failed == nil {
		r.failed = err
	}
}

// troubles are what of the evidence could not be kept, and why.
func (r *recorder) troubles() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.blamed)
	if r.failed != nil {
		all = append(all, fmt.Sprintf("events could not be written: %v", r.failed))
	}
	return all
}

// guard, deferred, makes of a panic of ours a line of evidence: what happens to assay must not happen to the script.
func (r *recorder) guard(doing string) {
	if p := recover(); p != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.blame(doing, p)
	}
}

func (r *recorder) blame(doing string, p any) {
	if why := fmt.Sprintf("%s ended with an error in assay itself: %v", doing, p); !slices.Contains(r.blamed, why) && len(r.blamed) < 20 {
		r.blamed = append(r.blamed, why)
	}
}

func (r *recorder) add(conn int, line []byte) {
	line = r.secrets.JSON(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		_, err := fmt.Fprintf(r.out, "{\"c\":%d,\"e\":%s}\n", conn, line)
		r.fail(err)
	}
	defer func() {
		if p := recover(); p != nil {
			r.fold.unread++
			r.blame("adding up an event", p)
		}
	}()
	r.fold.add(conn, line)
}

// unreadable counts a line that is no event.
func (r *recorder) unreadable() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold.unread++
}

func (r *recorder) own(ev string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		return // a figure that is no JSON number: the sample is left out
	}
	line := append([]byte(`{"ev":"`+ev+`",`), data[1:]...)
	if bytes.HasSuffix(line, []byte(",}")) {
		line = []byte(`{"ev":"` + ev + `"}`)
	}
	r.add(supervisor, line)
}

func (r *recorder) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.fold.main(); p != nil {
		return p.hello.Path
	}
	return nil
}

// finish adds up. Where that fails, the run has no figures, and how it ended stands.
func (r *recorder) finish() (run *evidence.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.fail(r.out.Flush())
		r.fail(r.file.Sync())
	}
	defer func() {
		if p := recover(); p != nil {
			r.blame("adding up the events", p)
			alone := newFold()
			alone.start, alone.exit = r.fold.start, r.fold.exit
			run = alone.finish()
		}
	}()
	return r.fold.finish()
}

func (r *recorder) close() {
	close(r.quit)
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.fail(r.out.Flush())
	}
	if r.file != nil {
		r.file.Close()
	}
}

// connections are the agents of the run's processes.
type connections struct {
	rec      *recorder
	listener net.Listener // nil: no agent comes in
	folder   *file.Folder // that the socket lies in
	boot     string       // where the agent is unpacked
	mu       sync.Mutex
	open     int
	next     int
	idle     *sync.Cond
	stopping chan struct{}
	loaders  chan loaderEvent
	last     time.Time // when the last line came
	caughtUp chan struct{}
}

func newConnections(rec *recorder) *connections {
	c := &connections{rec: rec, stopping: make(chan struct{}, 1), loaders: make(chan loaderEvent, 64), caughtUp: make(chan struct{})}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// close ends listening and takes the socket away.
func (c *connections) close() {
	if c.listener != nil {
		c.listener.Close()
		c.folder.Remove()
	}
}

func (c *connections) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		if from := conn.RemoteAddr(); from != nil && from.String() == c.at(ownSocketFile) {
			conn.Close()
			close(c.caughtUp)
			continue
		}
		c.mu.Lock()
		c.next++
		number := c.next
		c.open++
		c.mu.Unlock()
		go c.receive(number, conn)
	}
}

func (c *connections) receive(number int, conn net.Conn) {
	defer func() {
		conn.Close()
		c.mu.Lock()
		c.open--
		c.idle.Broadcast()
		c.mu.Unlock()
	}()
	defer c.rec.guard("reading what the agent sent")
	in := bufio.NewScanner(conn)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	defer func() {
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			c.rec.unreadable()
		}
	}()
	for n := 0; in.Scan(); n++ {
		line := bytes.TrimSpace(in.Bytes())
		c.mu.Lock()
		c.last = time.Now()
		c.mu.Unlock()
		if len(line) == 0 || !json.Valid(line) {
			c.rec.unreadable()
			continue
		}
		if n == 0 {
			var hello helloEvent
			if json.Unmarshal(line, &hello) != nil || hello.Version != agent.Protocol {
				return // an agent of another assay
			}
			c.rec.secrets.Words(hello.Argv) // a process may have been given what the command was not
		}
		c.rec.add(number, line)
		switch {
		case bytes.HasPrefix(line, []byte(`{"ev":"stopping"`)):
			select {
			case c.stopping <- struct{}{}:
			default:
			}
		case bytes.HasPrefix(line, []byte(`{"ev":"loader"`)):
			var e loaderEvent
			if json.Unmarshal(line, &e) == nil {
				select {
				case c.loaders <- e:
				default:
				}
			}
		}
	}
}

// catchUp waits until every connection that was made so far is accepted: they come in order, so that one of our own is the last.
func (c *connections) catchUp(limit time.Duration) {
	if c.listener == nil {
		return
	}
	own, err := net.DialUnix("unix", &net.UnixAddr{Name: c.at(ownSocketFile), Net: "unix"}, &net.UnixAddr{Name: c.at(socketFile), Net: "unix"})
	if err != nil {
		return
	}
	defer own.Close()
	select {
	case <-c.caughtUp:
	case <-time.After(limit):
	}
}

func (c *connections) at(name string) string { return filepath.Join(c.folder.Path, name) }

// drain waits until every agent has hung up, at most that long, and no longer than some of them still tell something: children
// that outlive the script go on without us.
func (c *connections) drain(limit time.Duration) {
	c.catchUp(limit)
	began := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open > 0 {
		now := time.Now()
		since := now.Sub(began)
		if c.last.After(began) {
			since = now.Sub(c.last)
		}
		if now.Sub(began) > limit || since > quiet {
			return
		}
		timer := time.AfterFunc(quiet/10, c.idle.Broadcast)
		c.idle.Wait()
		timer.Stop()
	}
}

const (
	socketFile    = "s"
	ownSocketFile = "o"
)

// listen opens the socket in a folder of its own that only this user can enter. The path is short: 104 bytes with the zero at its end
// is all that macOS allows (sys/un.h).
func listen(environ []string, dir string) (net.Listener, *file.Folder, error) {
	var all []error
	for _, parent := range file.Temps(environ, dir) {
		folder, err := file.TempIn(parent, "run")
		if err == nil {
			path := filepath.Join(folder.Path, socketFile)
			if len(path) > 103 {
				err = fmt.Errorf("%s is too long a path for a socket", path)
			} else {
				var l net.Listener
				if l, err = net.Listen("unix", path); err == nil {
					return l, folder, nil
				}
			}
			folder.Remove()
		}
		all = append(all, err)
	}
	return nil, nil, errors.Join(all...)
}

// lookPath finds the program as execvp would with the run's own PATH and folder.
func lookPath(name string, environ []string, dir string) (string, error) {
	try := func(path string) (string, error) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return "", err
		case info.IsDir():
			return "", errors.New("is a folder")
		case info.Mode()&0o111 == 0:
			return "", os.ErrPermission
		}
		return path, nil
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if _, err := try(path); errors.Is(err, os.ErrNotExist) {
			return "", fault.Exit(fault.Hint(fmt.Errorf("run %s: no such file", name), "check the path; the command stands after --"), fault.NotFound)
		} else if err != nil {
			return "", fault.Exit(fmt.Errorf("run %s: cannot be executed: %w", name, err), fault.NotRunnable)
		}
		return path, nil
	}
	var paths string
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			paths = v
		}
	}
	var refused error
	for _, folder := range filepath.SplitList(paths) {
		if folder == "" {
			folder = "."
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		path, err := try(filepath.Join(folder, name))
		if err == nil {
			return path, nil
		}
		if errors.Is(err, os.ErrPermission) {
			refused = err
		}
	}
	if refused != nil {
		return "", fault.Exit(fmt.Errorf("run %s: cannot be executed: %w", name, refused), fault.NotRunnable)
	}
	return "", fault.Exit(fault.Hint(fmt.Errorf("run %s: not found on PATH", name), "name the program by its path, or the interpreter with --python"), fault.NotFound)
}

// childEnviron is the script's environment: the agent's folder first on PYTHONPATH and its configuration.
func childEnviron(environ []string, boot string, config map[string]any, on string) []string {
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

// withoutAgent is the environment as assay got it, without the settings of an agent around it, and for --on cpu and --on double with
// no CUDA device to be seen.
func withoutAgent(environ []string, on string) []string {
	hide := on == "cpu" || on == "double"
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

// operators reads the profiler's trace into the table and keeps it compressed, without secrets. What fails is said in the evidence.
func operators(run *evidence.Run, dir string, secrets *secret.Set) {
	name := run.Profile.Trace
	if name == "" {
		return
	}
	run.Profile.Trace = ""
	path := filepath.Join(dir, name)
	data, err := os.Open(path)
	if err != nil {
		run.Profile.Missing = "the trace was not written: " + err.Error()
		return
	}
	defer data.Close()
	ops, err := readTrace(data)
	if err != nil {
		run.Profile.Missing = err.Error()
		return
	}
	run.Operators = ops
	if _, err := data.Seek(0, io.SeekStart); err == nil {
		err = file.Write(path+".gz", 0o600, func(w io.Writer) error {
			z := gzip.NewWriter(w)
			if err := copyWithout(z, data, secrets); err != nil {
				return err
			}
			return z.Close()
		})
		if err == nil {
			os.Remove(path)
			run.Profile.Trace = name + ".gz"
			return
		}
	}
	run.Profile.Trace = name
}

// copyWithout copies JSON without the secrets in its texts, line by line: the profiler's engine writes a field a line, and no text over two.
func copyWithout(w io.Writer, r io.Reader, secrets *secret.Set) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadSlice('\n') // of a longer line: in parts
		if _, werr := w.Write(secrets.JSON(line)); werr != nil {
			return werr
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return err
		}
	}
}

// Load reads the evidence of a run's folder, or of an evidence.json itself. Where a run was cut off before its evidence was
// written, its events are folded now, and the evidence says that it is incomplete.
func Load(path string) (*evidence.Run, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: %w", path, err), "name a run's folder, or an evidence.json")
	}
	from, dir := path, filepath.Dir(path)
	if info.IsDir() {
		from, dir = filepath.Join(path, evidenceFile), path
	}
	data, err := readLimited(from, maxEvidence)
	if errors.Is(err, os.ErrNotExist) && info.IsDir() {
		run, err := loadEvents(filepath.Join(path, eventsFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil, "", fault.Hint(fmt.Errorf("read the run %s: no %s and no %s in it", path, evidenceFile, eventsFile), "name the folder that assay run printed")
		}
		if err != nil {
			return nil, "", err
		}
		operators(run, dir, &secret.Set{})
		return run, dir, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the run %s: %w", from, err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: not the evidence of a run: %w", from, err), "name the folder that assay run printed, or its evidence.json; this file is damaged, or something else")
	}
	if run.Schema != evidence.Schema {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: schema %q, and this assay reads %q", from, run.Schema, evidence.Schema), "use the assay that wrote it, or a newer one")
	}
	run.Document = fmt.Sprintf("%x", sha256.Sum256(data))
	return &run, dir, nil
}

const maxEvidence = 512 << 20 // bytes

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return data, err
}

func loadEvents(path string) (*evidence.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fold := newFold()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	for in.Scan() {
		conn, event, ok := envelope(in.Bytes())
		if !ok {
			fold.unread++ // the last line of a cut-off file, or damage
			continue
		}
		fold.add(conn, event)
	}
	if fold.start.ID == "" {
		return nil, fault.Hint(fmt.Errorf("read the run %s: not the events of a run", path), "name the folder that assay run printed")
	}
	return fold.finish(), nil
}
