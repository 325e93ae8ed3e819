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
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/agent"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
	"assay/internal/target"
)

const (
	maxLine     = 64 << 20               // bytes of one event
	drain       = 500 * time.Millisecond // how long after the script's end its last events are waited for
	stopGrace   = 30 * time.Second       // from the agent's SystemExit to our SIGTERM, and from that to SIGKILL
	sampleEvery = time.Second
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
	On        string   // auto, cpu, mps, cuda, double
	Double    *Double  // the Mac to rehearse on, with On double
	CPUToo    bool     // run pytest's tests that failed on the double once more on the CPU
	Quiet     bool     // say nothing of that
	Steps     int      // end the run after so many steps; 0: never
	For       float64  // end it after so many seconds; 0: never
	Only      string   // "", data, forward
	Profile   string   // auto, off
	WarnEpoch float64  // seconds
	Out       string   // the run's folder; must not exist or be empty
	Home      string   // assay's own folder, which holds Out; "": Out lies elsewhere
	Own       []string // other files and folders of assay's: what lies there is no change of the project's
	Cache     string   // where the agent is unpacked
	Version   string   // of assay
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
}

// Run runs the subject to its end. An error means that the subject was not started; its exit code is one of fault's.
func Run(ctx context.Context, o Options) (*Result, error) {
	path, err := lookPath(o.Command[0], o.Environ, o.Dir)
	if err != nil {
		return nil, err
	}
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return nil, fault.Exit(fault.Hint(err, "set ASSAY_CACHE to a folder that can be written"), fault.NotStarted)
	}
	listener, socket, err := listen()
	if err != nil {
		return nil, fault.Exit(fmt.Errorf("run %s: open a socket for the agent: %w", o.Command[0], err), fault.NotStarted)
	}
	defer os.RemoveAll(filepath.Dir(socket))
	defer listener.Close()
	if err := newRunDir(o.Home, o.Out); err != nil {
		return nil, fault.Exit(err, fault.NotStarted)
	}
	// What is secret on the command line and in the environment is so wherever it turns up in this run.
	secrets := &secret.Set{}
	secrets.Environ(o.Environ)
	secrets.Words(o.Command)
	rec, err := newRecorder(o.Out, secrets)
	if err != nil {
		return nil, fault.Exit(fmt.Errorf("run %s: %w", o.Command[0], err), fault.NotStarted)
	}
	defer rec.close()

	started := o.Now()
	config := map[string]any{"socket": socket, "run": o.Out, "on": o.On, "profile": o.Profile, "wall": float64(started.UnixNano()) / 1e9}
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
		settings.Table = filepath.Join(filepath.Dir(socket), "double.json")
		data, err := json.Marshal(o.Double.Table)
		if err == nil {
			err = os.WriteFile(settings.Table, data, 0o600)
		}
		if err != nil {
			return nil, fault.Exit(fmt.Errorf("run %s: write the double's table: %w", o.Command[0], err), fault.NotStarted)
		}
		config["double"] = settings
		settings.Table = ""
		double = &settings
	}
	environ := childEnviron(o.Environ, installed.Boot, config, o.On)
	rec.own("start", startEvent{ID: o.ID, Wall: started.UTC(), Subject: o.Subject, Asked: o.On,
		System: runtime.GOOS + "/" + runtime.GOARCH, Assay: o.Version, Environ: relevant(o.Environ, secrets), WarnLong: o.WarnEpoch,
		Options: map[string]string{"profile": o.Profile, "only": o.Only}, Double: double})

	cmd := &exec.Cmd{Path: path, Args: o.Command, Env: environ, Dir: o.Dir, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	interactive := foreground()
	cmd.SysProcAttr = childAttributes(interactive)

	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // a signal that nohup ignores stays ignored in the script
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	// The script is to end with assay (Linux: parent-death signal), which the kernel ties to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		os.Remove(filepath.Join(o.Out, eventsFile))
		os.Remove(o.Out)
		return nil, fault.Exit(fmt.Errorf("start %s: %w", path, err), fault.NotRunnable)
	}
	pid := cmd.Process.Pid

	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	conns := newConnections(rec)
	go conns.accept(listener)
	var background sync.WaitGroup
	watch(work, &background, rec, o, pid, started, conns)

	ended := make(chan struct{})
	var stoppedBy string
	var guard sync.WaitGroup
	guard.Add(1)
	go func() {
		defer guard.Done()
		stoppedBy = steer(o, pid, signals, ended, interactive, started, conns)
	}()
	waitErr := cmd.Wait()
	close(ended)
	guard.Wait()
	conns.drain(drain)
	cancel()
	background.Wait()
	if o.Outside.Apps != nil {
		last, stop := context.WithTimeout(context.Background(), factsLimit)
		if apps, err := o.Outside.Apps(last, pid, 12); err == nil {
			rec.own("host", hostEvent{At: "end", Apps: apps})
		}
		stop()
	}

	res := &Result{Dir: o.Out}
	state := cmd.ProcessState
	if state == nil {
		return nil, fault.Exit(fmt.Errorf("wait for %s: %w", path, waitErr), fault.NotStarted)
	}
	exit := exitEvent{Wall: o.Now().UTC(), Stopped: stoppedBy}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal = ws.Signal()
		res.Exit = 128 + int(res.Signal)
		exit.Signal = signalName(res.Signal)
	} else {
		res.Exit = state.ExitCode()
	}
	exit.Code = res.Exit
	if failed := rec.failedTests(); len(failed) > 0 && o.CPUToo && res.Signal == 0 && stoppedBy == "" && res.Exit != interrupted {
		if !o.Quiet {
			fmt.Fprintf(o.Stderr, "assay: %d tests failed on the double: the same on the CPU, to tell which fail there as well\n", len(failed))
		}
		rec.own("retest", retest(o, path, installed.Boot, failed, signals))
	}
	if why := rec.trouble(); why != "" {
		exit.Trouble = append(exit.Trouble, why)
	}
	rec.own("exit", exit)
	res.Run = rec.finish()
	operators(res.Run, o.Out, secrets)
	if o.Outside.Packages != nil {
		if list := o.Outside.Packages(rec.paths()); list != nil {
			for i, line := range list {
				list[i] = secrets.Text(line)
			}
			res.Run.Provenance.Packages = list
		}
	}
	if why := rec.trouble(); why != "" {
		res.Trouble = append(res.Trouble, why)
		res.Run.Outcome.Complete = false
		if !strings.Contains(res.Run.Outcome.Reason, why) {
			res.Run.Outcome.Reason = strings.TrimPrefix(res.Run.Outcome.Reason+"; "+why, "; ")
		}
	}
	return res, nil
}

// interrupted is pytest's exit status after Ctrl-C: ExitCode.INTERRUPTED.
const interrupted = 2

// steer passes signals on and sees that a run that was to end does end. It returns why assay ended the run, if it did.
func steer(o Options, pid int, signals <-chan os.Signal, ended <-chan struct{}, interactive bool, started time.Time, conns *connections) string {
	var limit, kill <-chan time.Time
	stopping := conns.stopping
	if o.For > 0 {
		// The agent ends the run between two steps; this is for a script without steps, or one that will not end.
		limit = time.After(time.Duration(o.For*float64(time.Second)) + stopGrace)
	}
	why := ""
	for {
		select {
		case <-ended:
			return why
		case s := <-signals:
			if interactive && (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGHUP) {
				continue // the terminal has sent it to the script as well
			}
			_ = syscall.Kill(pid, s.(syscall.Signal))
		case <-stopping:
			limit, stopping = time.After(stopGrace), nil
		case <-limit:
			why = "assay sent SIGTERM: the script did not end between two steps in the time asked for"
			_ = syscall.Kill(pid, syscall.SIGTERM)
			limit, kill = nil, time.After(stopGrace)
		case <-kill:
			why = "assay sent SIGKILL: the script did not end on SIGTERM"
			_ = syscall.Kill(pid, syscall.SIGKILL)
			kill = nil
		}
	}
}

// watch starts what is looked at beside the script: the host's facts and samples, the largest programs, the commit, the data.
func watch(ctx context.Context, wg *sync.WaitGroup, rec *recorder, o Options, pid int, started time.Time, conns *connections) {
	spawn := func(f func()) {
		wg.Add(1)
		go func() { defer wg.Done(); f() }()
	}
	spawn(func() {
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), factsLimit) // a script may be over before git has answered
		defer stop()
		commit, dirty := gitState(limited, o.Dir, append([]string{o.Out}, o.Own...))
		rec.own("host", hostEvent{Commit: commit, Dirty: dirty})
	})
	if o.Outside.Facts != nil {
		spawn(func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			rec.own("host", hostEvent{Facts: o.Outside.Facts(limited, o.Dir)})
		})
	}
	if o.Outside.Apps != nil {
		spawn(func() {
			limited, stop := context.WithTimeout(ctx, factsLimit)
			defer stop()
			if apps, err := o.Outside.Apps(limited, pid, 12); err == nil {
				rec.own("host", hostEvent{At: "start", Apps: apps})
			}
		})
	}
	spawn(func() { fingerprints(ctx, rec, conns, o.Dir) })
	if o.Outside.Sampler == nil {
		return
	}
	spawn(func() {
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
	failed  error
	pathsOf []string
	quit    chan struct{}
	done    chan struct{}
}

func newRecorder(dir string, secrets *secret.Set) (*recorder, error) {
	file, err := os.OpenFile(filepath.Join(dir, eventsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r := &recorder{secrets: secrets, file: file, out: bufio.NewWriterSize(file, 1<<16), fold: newFold(), quit: make(chan struct{}), done: make(chan struct{})}
	go r.flushes()
	return r, nil
}

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

func (r *recorder) trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		return ""
	}
	return fmt.Sprintf("events could not be written: %v", r.failed)
}

func (r *recorder) add(conn int, line []byte) {
	line = r.secrets.JSON(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold.add(conn, line)
	if r.failed == nil {
		_, err := fmt.Fprintf(r.out, "{\"c\":%d,\"e\":%s}\n", conn, line)
		r.fail(err)
	}
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

func (r *recorder) finish() *evidence.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.fail(r.out.Flush())
		r.fail(r.file.Sync())
	}
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
	r.file.Close()
}

// connections are the agents of the run's processes.
type connections struct {
	rec      *recorder
	mu       sync.Mutex
	open     int
	next     int
	idle     *sync.Cond
	stopping chan struct{}
	loaders  chan loaderEvent
	refused  bool
}

func newConnections(rec *recorder) *connections {
	c := &connections{rec: rec, stopping: make(chan struct{}, 1), loaders: make(chan loaderEvent, 64)}
	c.idle = sync.NewCond(&c.mu)
	return c
}

func (c *connections) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
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
	in := bufio.NewScanner(conn)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	defer func() {
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			c.rec.unreadable()
		}
	}()
	for n := 0; in.Scan(); n++ {
		line := bytes.TrimSpace(in.Bytes())
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

// drain waits until every agent has hung up, at most that long: children that outlive the script go on without us.
func (c *connections) drain(limit time.Duration) {
	timer := time.AfterFunc(limit, func() {
		c.mu.Lock()
		c.refused = true
		c.idle.Broadcast()
		c.mu.Unlock()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open > 0 && !c.refused {
		c.idle.Wait()
	}
}

// listen opens the socket in a folder of its own that only this user can enter. The path is short: 104 bytes is all that
// macOS allows (sys/un.h).
func listen() (net.Listener, string, error) {
	dir, err := os.MkdirTemp("", "assay-")
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, "s")
	if len(path) > 100 {
		os.RemoveAll(dir)
		if dir, err = os.MkdirTemp("/tmp", "assay-"); err != nil {
			return nil, "", err
		}
		path = filepath.Join(dir, "s")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		os.RemoveAll(dir)
		return nil, "", err
	}
	return l, path, nil
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

// childEnviron is the script's environment: the agent's folder first on PYTHONPATH, its configuration, and for --on cpu and
// --on double no CUDA device to be seen.
func childEnviron(environ []string, boot string, config map[string]any, on string) []string {
	hide := on == "cpu" || on == "double"
	data, _ := json.Marshal(config)
	out := make([]string, 0, len(environ)+3)
	path := boot
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "PYTHONPATH":
			if value != "" {
				path = boot + string(os.PathListSeparator) + value
			}
			continue
		case name == agent.Variable:
			continue
		case name == "CUDA_VISIBLE_DEVICES" && hide:
			continue
		}
		out = append(out, e)
	}
	if hide {
		out = append(out, "CUDA_VISIBLE_DEVICES=")
	}
	return append(out, "PYTHONPATH="+path, agent.Variable+"="+string(data))
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
		err = WriteFile(path+".gz", func(w io.Writer) error {
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

// WriteFile writes a file whole, for its owner alone: under a temporary name, synced, then renamed.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".part-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err = write(w); err != nil {
		return err
	}
	if err = w.Flush(); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Load reads the evidence of a run's folder, or of an evidence.json itself. Where a run was cut off before its evidence was
// written, its events are folded now, and the evidence says that it is incomplete.
func Load(path string) (*evidence.Run, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: %w", path, err), "name a run's folder, or an evidence.json")
	}
	file, dir := path, filepath.Dir(path)
	if info.IsDir() {
		file, dir = filepath.Join(path, evidenceFile), path
	}
	data, err := readLimited(file, maxEvidence)
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
		return nil, "", fmt.Errorf("read the run %s: %w", file, err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: not the evidence of a run: %w", file, err), "name the folder that assay run printed, or its evidence.json; this file is damaged, or something else")
	}
	if run.Schema != evidence.Schema {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: schema %q, and this assay reads %q", file, run.Schema, evidence.Schema), "use the assay that wrote it, or a newer one")
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
