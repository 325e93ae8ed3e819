//go:build unix

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Local is the Launcher of this machine. What it starts stands in our own process group and session: what is sent to
// the group, by a terminal, a shell, timeout or the end of a session, reaches it as it would without assay. Signals
// that reach assay alone are passed on.
type Local struct {
	signals chan os.Signal
	witness *witness
	caught  bool // signals come to us
}

// NewLocal makes one. The command runs Witness; an empty one runs none: then a signal that went to the whole group
// arrives twice. Close ends it.
func NewLocal(witnessCommand []string) *Local {
	return &Local{signals: make(chan os.Signal, 64), witness: newWitness(witnessCommand)}
}

// Close ends the witness.
func (l *Local) Close() { l.witness.close() }

// Release lets signals end assay again.
func (l *Local) Release() {
	signal.Stop(l.signals)
	l.caught = false
}

// Start starts the command.
func (l *Local) Start(c Command) (Process, error) {
	l.catch()
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Environ, Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout,
		Stderr: c.Stderr}
	script, err := startChild(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	l.passOnWaiting(script)
	guard := c.Guard
	if guard == nil {
		guard = func(string) {}
	}
	go func() {
		defer guard("passing signals on")
		l.passOn(script)
	}()
	return script, nil
}

// catch catches what can be caught, from now on until Release. Not SIGCHLD, which tells of our own children; nor SIGURG
// and SIGPROF, which Go's runtime sends itself and never hands on; nor 32 to 34, which C libraries keep for threads and
// Go leaves alone; nor a signal that was ignored when assay was started, as SIGHUP is under nohup: it stays ignored in
// the script. Go tells of SIGHUP and SIGINT alone whether they were; a shell without job control that ignores SIGINT
// for what it puts into the background ignores SIGQUIT as well (POSIX, sh, asynchronous lists).
func (l *Local) catch() {
	if l.caught {
		return
	}
	l.caught = true
	l.witness.ready()
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if caught(s) && !signal.Ignored(s) {
			signal.Notify(l.signals, s)
		}
	}
}

func caught(s syscall.Signal) bool {
	switch s {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF, 32, 33, 34:
		return false
	}
	return true
}

// child is a process that assay started and waits for.
type child struct {
	cmd    *exec.Cmd
	status syscall.WaitStatus
	err    error         // nobody can say how it ended
	ended  chan struct{} // closed when it has been waited for
	stops  chan syscall.Signal
}

func startChild(cmd *exec.Cmd) (*child, error) {
	// where output goes through us (not to a file), one that outlives the child may hold it open
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, ended: make(chan struct{}), stops: make(chan syscall.Signal, 16)}
	go c.wait()
	return c, nil
}

func (c *child) wait() {
	defer close(c.ended)
	for {
		_, err := syscall.Wait4(c.PID(), &c.status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			c.err = err
			return
		case c.status.Stopped():
			c.stopped(c.status.StopSignal())
		case c.status.Continued():
			c.stopped(0)
		default:
			_ = c.cmd.Wait() // finds the child waited for, and ends what copies its output
			return
		}
	}
}

func (c *child) stopped(s syscall.Signal) {
	select {
	case c.stops <- s:
	default:
	}
}

// PID is the number of its process.
func (c *child) PID() int { return c.cmd.Process.Pid }

// Signal sends it a signal, if it has not ended.
func (c *child) Signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(c.PID(), s)
	}
}

// Ended is closed when it has been waited for.
func (c *child) Ended() <-chan struct{} { return c.ended }

// Ending says how it ended.
func (c *child) Ending() (Ending, error) {
	switch {
	case c.err != nil:
		return Ending{}, fmt.Errorf("wait for %s: %w", c.cmd.Path, c.err)
	case c.status.Signaled():
		s := c.status.Signal()
		return Ending{Exit: 128 + int(s), Signal: s}, nil
	}
	return Ending{Exit: c.status.ExitStatus()}, nil
}

// jobs follows the job control of a child: where a terminal or a shell stops it and us, we stop as it does, so that the
// shell sees its job stopped.
type jobs struct {
	by syscall.Signal // what has stopped the child; 0: it runs
}

// jobStop says whether the signal is one of those by which terminals and shells stop a job.
func jobStop(s syscall.Signal) bool {
	return s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU
}

// heard takes a signal that reached us, and hands it to the child unless it went to our whole process group: then the
// child has it already.
func (j *jobs) heard(l *Local, c *child, s syscall.Signal) {
	if !l.witness.saw(s) && !(jobStop(s) && j.stopped(c)) {
		// of several that came at once the witness may have seen fewer than we
		c.Signal(s)
	}
}

// stopped says whether the child is stopped now.
func (j *jobs) stopped(c *child) bool {
	for {
		select {
		case j.by = <-c.stops:
		default:
			return j.by != 0
		}
	}
}

// follow stops us where the child has stopped as a job does, or in whatever way while a shell waits for the foreground
// job that we are. A child in the background that somebody stops by SIGSTOP, to continue it later, is not followed:
// nobody would continue us.
func (j *jobs) follow(l *Local, c *child) {
	if j.by == 0 || !jobStop(j.by) && !foreground() {
		return
	}
	time.Sleep(settle) // what stopped the child and continued it at once is behind us then
	for range len(l.signals) {
		j.heard(l, c, (<-l.signals).(syscall.Signal))
	}
	if !j.stopped(c) {
		return
	}
	by := j.by
	j.by = 0
	stopBy(by)
	// What stopped us is behind us, even where this process hears of it only now: handed on, it would stop the child
	// once more, and us with it.
	time.Sleep(settle)
	for range len(l.signals) {
		if s := (<-l.signals).(syscall.Signal); !jobStop(s) {
			j.heard(l, c, s)
		}
	}
}

// passOn hands signals that reach us on until the child has ended, and stops us where the child's job is stopped.
func (l *Local) passOn(c *child) {
	var job jobs
	for {
		select {
		case <-c.ended:
			return
		case s := <-l.signals:
			job.heard(l, c, s.(syscall.Signal))
		case job.by = <-c.stops:
		}
		job.follow(l, c)
	}
}

// passOnWaiting hands on what came while the child was being started: it was no member of the group yet, or may not
// have been. One that was gets it twice, which is better than never.
func (l *Local) passOnWaiting(c *child) {
	for {
		select {
		case s := <-l.signals:
			c.Signal(s.(syscall.Signal))
		default:
			return
		}
	}
}

// foreground says whether we are of the group that a terminal takes for its foreground job.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// SignalName is SIGTERM for 15, and a number where there is no name.
func SignalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
