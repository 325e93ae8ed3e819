package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/bundle"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/launch"
)

// Reasons why a job was ended by assay, and by nobody who gave another.
const (
	Cancelled  = "cancelled"
	LeaseOut   = "lease"      // nobody asked for it any more
	LimitOut   = "limit"      // it has run for as long as it may
	Terminated = "terminated" // somebody on the host told its keeper to end
	RunKilled  = "killed"     // `assay run` was killed in it
)

// watchEvery is how often lease, limit and cancel are looked at.
const watchEvery = 200 * time.Millisecond

// devicePath is the file whose lock is the GPU.
func devicePath(root string) string { return filepath.Join(root, "locks", "gpu") }

// Holds is the job that has the GPU now; "": it is free. A training that was started without assay holds nothing.
func Holds(root string) string {
	f, err := os.Open(devicePath(root))
	if err != nil {
		return ""
	}
	defer f.Close()
	if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return ""
	}
	if name := readHolder(f); name != "" {
		return name
	}
	return "another job" // that has not said its name yet
}

// readHolder is the job that said last that it has the device; "": none ever did.
func readHolder(f *os.File) string {
	b := make([]byte, MaxName+1)
	n, _ := f.ReadAt(b, 0)
	if name := strings.TrimSpace(string(b[:n])); validName(name) {
		return name
	}
	return ""
}

// keeper is the process that starts a job and sees it to its end.
type keeper struct {
	root    string
	program string
	folder  folder
	job     Job
	mark    string
	record  record
	tree    *tree
	device  *os.File // its lock is the GPU's
	lock    *os.File // the job's
	guard   int      // process that guards this one
	began   time.Duration
	told    chan os.Signal
	printed []*printed
	unsaid  bool // the state could not be written
}

// Keep is the keeper's process, which a guard starts. The error: it is none.
func Keep(root, name, program string) error {
	p := folder(filepath.Join(root, "jobs", name))
	lock, device := os.NewFile(lockFD, lockFile), os.NewFile(deviceFD, "gpu")
	if !p.holds(lock) {
		return fault.Hint(fmt.Errorf("keep job %s: nobody guards it", name),
			"assay starts this itself; to keep a job in the foreground: assay node keep --job FILE")
	}
	for _, fd := range []int{lockFD, deviceFD, pipeFD} {
		syscall.CloseOnExec(fd)
	}
	asked, err := p.asked()
	if err != nil {
		return fmt.Errorf("keep job %s: %w", name, err)
	}
	k := &keeper{root: root, program: program, folder: p, job: asked.Job, mark: asked.Mark, lock: lock, device: device,
		tree: newTree(asked.Mark, os.Getpid()), guard: os.Getppid(), began: elapsed(), told: make(chan os.Signal, 8)}
	if k.record, _, err = p.record(); err != nil {
		return fmt.Errorf("keep job %s: %w", name, err)
	}
	signal.Notify(k.told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // caught: no write of ours ends us
	go k.guarded()
	k.keep()
	return nil
}

// keep sees the job to its end, and says how it came to it.
func (k *keeper) keep() {
	why, err := k.prepare()
	if why == "" && err == nil {
		why = k.over()
	}
	s := &k.record.State
	var ending *os.ProcessState
	if why == "" && err == nil {
		ending, why, err = k.run()
	}
	s.Phase, s.Why, s.Holder = Ended, why, ""
	if given, asked := k.folder.cancelled(); asked && (why == Cancelled || why == given) {
		s.Why = given
	}
	if err != nil {
		s.Error = err.Error()
	}
	if ending != nil {
		status := ending.Sys().(syscall.WaitStatus)
		code := status.ExitStatus()
		if status.Signaled() {
			s.Signal, code = launch.SignalName(status.Signal()), 128+int(status.Signal())
		}
		s.Exit = &code
	}
	for _, p := range k.printed {
		if trouble := p.trouble(); trouble != "" {
			s.Trouble = append(s.Trouble, trouble)
		}
		p.close()
	}
	for {
		err := k.say()
		if err == nil || errors.Is(err, fs.ErrNotExist) { // somebody has removed the job's folder
			break
		}
		// A disk that is full for now. Nothing of the job lives, and others may have the device.
		_ = flock(k.device, syscall.LOCK_UN)
		time.Sleep(time.Second)
	}
	_ = os.Remove(k.folder.file(ballastFile))
}

// say writes the state.
func (k *keeper) say() error {
	err := k.folder.write(k.record)
	k.unsaid = err != nil
	return err
}

// over says why the job is to end; "": it is not.
func (k *keeper) over() string {
	select {
	case <-k.told:
		return Terminated
	default:
	}
	if why, asked := k.folder.cancelled(); asked {
		return why
	}
	if k.folder.left(duration(k.job.Lease), k.began) <= 0 {
		return LeaseOut
	}
	return ""
}

// during does something that cannot be stopped, and leaves it to the end of this process where the job is to end first.
func (k *keeper) during(do func() error) (why string, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return "", err
		case <-tick.C:
			if why := k.over(); why != "" {
				return why, nil
			}
		}
	}
}

// prepare makes all that the job needs, and has the device where it returns neither a reason to end nor an error.
func (k *keeper) prepare() (why string, err error) {
	work := k.folder.file(workFolder)
	why, err = k.during(func() error {
		if k.job.Code == "" {
			if err := os.Mkdir(work, 0o700); err != nil {
				return fmt.Errorf("start job %s: %w", k.job.Name, err)
			}
			return nil
		}
		if err := bundle.Unpack(filepath.Join(k.root, "blobs", k.job.Code), work); err != nil {
			return fmt.Errorf("start job %s: %w", k.job.Name, err)
		}
		return nil
	})
	if why != "" || err != nil || k.job.Device != "gpu" {
		return why, err
	}
	if flock(k.device, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		k.record.State.Holder = Holds(k.root)
		_ = k.say()
		// The kernel hands it out in the order in which it was asked for.
		why, err = k.during(func() error { return flock(k.device, syscall.LOCK_EX) })
		if err != nil {
			err = fmt.Errorf("start job %s: wait for the GPU: %w", k.job.Name, err)
		}
		if why != "" || err != nil {
			return why, err
		}
	}
	if why, err := k.afterLast(); why != "" || err != nil {
		return why, err
	}
	k.record.State.Holder = ""
	// As long as any name, so that it needs no room on a full disk where one stands there already.
	if _, err := k.device.WriteAt(fmt.Appendf(nil, "%-*s\n", MaxName, k.job.Name), 0); err != nil {
		return "", fmt.Errorf("start job %s: say who has the GPU: %w", k.job.Name, err)
	}
	return "", nil
}

// afterLast waits until nothing lives of the job that had the device last. Where all that kept it were killed at once,
// the lock is free before that.
func (k *keeper) afterLast() (why string, err error) {
	last := readHolder(k.device)
	if last == "" || last == k.job.Name {
		return "", nil
	}
	runs := &Jobs{root: k.root, program: k.program, guards: map[string]chan struct{}{}}
	for {
		s, err := runs.state(last) // which has it ended where nobody keeps it
		if err != nil || s.Phase != Running {
			return "", nil // gone, over, or nobody can say
		}
		if k.record.State.Holder != last {
			k.record.State.Holder = last
			_ = k.say()
		}
		why, err := k.during(func() error { time.Sleep(watchEvery); return nil })
		if why != "" || err != nil {
			return why, err
		}
	}
}

// command is `assay run` as it is to be started.
func (k *keeper) command() *exec.Cmd {
	words := []string{"run", "--out", k.folder.file(runFolder), "--logbook", "off", "--quiet"}
	if python := k.job.Python; python != "" {
		if rest, ok := strings.CutPrefix(python, "~/"); ok {
			python = filepath.Join(file.Home(os.Environ()), rest)
		}
		words = append(words, "--python", python)
	}
	words = append(words, k.job.Flags...)
	cmd := exec.Command(k.program, append(append(words, "--"), k.job.Command...)...)
	cmd.Env = slices.Concat(os.Environ(), k.job.Environ, []string{nameVariable + "=" + k.job.Name,
		markVariable + "=" + k.mark})
	cmd.Dir = filepath.Join(k.folder.file(workFolder), filepath.FromSlash(k.job.Dir))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if k.job.Device == "gpu" {
		cmd.ExtraFiles = []*os.File{k.device} // freed when the last of them has ended
	}
	return cmd
}

// run starts the job and returns when nothing of it lives. ending is nil where it could not be started.
func (k *keeper) run() (ending *os.ProcessState, why string, err error) {
	cmd := k.command()
	var writers []*os.File
	for _, name := range []string{Stdout, Stderr} {
		out, err := newPrinted(k.folder.file(name))
		if err != nil {
			return nil, "", fmt.Errorf("start job %s: %w", k.job.Name, err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, "", fmt.Errorf("start job %s: %w", k.job.Name, err)
		}
		defer r.Close()
		k.printed, writers = append(k.printed, out), append(writers, w)
		go out.copy(r)
	}
	cmd.Stdout, cmd.Stderr = writers[0], writers[1]
	s := &k.record.State
	// Whoever comes after us has to know that something may have been started.
	s.Phase = Running
	k.record.Awake = awake()
	if err := k.say(); err != nil {
		return nil, "", fmt.Errorf("start job %s: %w", k.job.Name, err)
	}
	if words := stayAwake(os.Getpid()); len(words) > 0 {
		_ = k.tree.start(exec.Command(words[0], words[1:]...)) // without it the Mac sleeps as it is set to
	}
	err = k.startRun(cmd)
	for _, w := range writers {
		w.Close()
	}
	if err != nil {
		return nil, "", fmt.Errorf("start job %s: %w", k.job.Name, err)
	}
	_ = k.say() // with its process
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	why = k.watch(ended)
	given := parting
	if why == LeaseOut || why == "" {
		given = grace
	}
	asked := why != ""
	slow := func(n int) {
		s.Trouble = []string{fmt.Sprintf("%d of its processes cannot be ended", n)}
		_ = k.say()
	}
	for { // who cannot see what lives of it does not let go of the device
		if err := k.tree.end(k.record.Run, given, slow); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	<-ended
	for _, p := range k.printed {
		select {
		case <-p.done:
		case <-time.After(time.Second): // one that is not of the job was handed the pipe
		}
	}
	s.Ran = seconds(awake() - k.record.Awake)
	if cmd.ProcessState == nil {
		return nil, why, fmt.Errorf("keep job %s: nobody can say how it ended", k.job.Name)
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !asked && status.Signal() == syscall.SIGKILL {
		if _, err := os.Stat(filepath.Join(k.folder.file(runFolder), "evidence.json")); err != nil {
			why = RunKilled // where the script alone is killed, the run is written before it ends
		}
	}
	return cmd.ProcessState, why, nil
}

// startRun starts `assay run`, and notes which process it is.
func (k *keeper) startRun(cmd *exec.Cmd) error {
	k.tree.mu.Lock()
	defer k.tree.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	k.tree.run = cmd.Process.Pid
	all, _ := processes() // where it is not found, all of the job are told to end at once
	for _, p := range all {
		if p.pid == cmd.Process.Pid {
			l := p.like()
			k.record.Run = &l
		}
	}
	return nil
}

// watch waits for the end of `assay run`, or for a reason to end it.
func (k *keeper) watch(ended <-chan struct{}) (why string) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	looked, every := time.Now(), firstLook
	for {
		select {
		case <-ended:
			return ""
		case <-tick.C:
		}
		if why := k.over(); why != "" {
			return why
		}
		if k.job.Limit > 0 && awake()-k.record.Awake >= duration(k.job.Limit) {
			return LimitOut
		}
		if time.Since(looked) >= every {
			looked, every = time.Now(), min(2*every, lookEvery)
			_, _ = k.tree.look()
			k.trouble()
		}
	}
}

// trouble says what of the output is lost while the job goes on.
func (k *keeper) trouble() {
	var all []string
	for _, p := range k.printed {
		if t := p.trouble(); t != "" {
			all = append(all, t)
		}
	}
	if k.unsaid || !slices.Equal(all, k.record.State.Trouble) {
		k.record.State.Trouble = all
		_ = k.say()
	}
}

// guarded has this process guarded as long as it lives.
func (k *keeper) guarded() {
	for os.Getppid() == k.guard {
		time.Sleep(watchEvery)
	}
	for {
		cmd := exec.Command(k.program, "node", "guard", "--beside", "--root", k.root, "--name", k.job.Name)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.ExtraFiles = []*os.File{k.device}
		if k.tree.start(cmd) == nil {
			_ = cmd.Wait()
		}
		time.Sleep(watchEvery)
	}
}
