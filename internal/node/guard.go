package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"assay/internal/fault"
)

// Two processes of ours stand by each job, in sessions of their own: the guard, and below it the keeper, which starts
// `assay run`. They hold the job's lock together, and with the job itself the device's; so the device is free when
// nothing of the job lives, and not before.
//
// The keeper is killed: the guard ends what lives of the job. On Linux all of that is below it.
// The guard is killed: the keeper starts another beside itself, which waits for the job's lock.
// Both are killed at once: a shell that waits for the end of a pipe which both hold open starts a guard again.
// All three are: the next assay that asks after the job does.
//
// Whoever comes late finds the lock taken, or the job over.

// Names of the files that a guard hands its keeper, by number.
const (
	lockFD   = 3
	deviceFD = 4
	pipeFD   = 5
)

const (
	stuck        = 30 * time.Second // a keeper that has not ended its job so long after the lease never will
	lockPatience = 2 * time.Second  // another may look for a moment whether the lock is free
	environLimit = 10 * time.Second // for a login shell
)

// Guard stands by a job until it is over. beside: another keeps it, whose end is waited for.
func Guard(root, name, program string, beside bool) error {
	deaf := make(chan os.Signal, 1) // caught, and not ignored, which its children would inherit
	signal.Notify(deaf, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	p := folder(filepath.Join(root, "jobs", name))
	k, err := p.asked()
	if err != nil {
		return fmt.Errorf("guard job %s: %w", name, err)
	}
	lock, free, err := p.lock(beside)
	for end := time.Now().Add(lockPatience); err == nil && !free && time.Now().Before(end); {
		time.Sleep(pollEvery)
		lock, free, err = p.lock(false)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // forgotten
	case err != nil:
		return fmt.Errorf("guard job %s: %w", name, err)
	case !free:
		return nil
	}
	defer lock.Close() // not before: whoever gets it takes this process for gone
	if !p.holds(lock) {
		return nil // forgotten, and perhaps made anew
	}
	r, begun, err := p.record()
	switch {
	case begun && r.over():
		return nil
	case begun || err != nil: // a state that cannot be read is one that was begun
		if device, err := os.OpenFile(devicePath(root), os.O_RDWR, 0); err == nil && k.Job.Device == "gpu" {
			defer device.Close()
			go func() { _ = flock(device, syscall.LOCK_EX) }() // when the last that has it ends, others may live
		}
		r.State.Name, r.State.Owner = name, k.Job.Owner
		return mopUp(newTree(k.Mark, os.Getpid()), p, r)
	}
	r = record{Boot: Boot(), State: State{Name: name, Owner: k.Job.Owner, Phase: Waiting, Began: time.Now()}}
	if why, asked := p.cancelled(); asked {
		r.State.Phase, r.State.Why = Ended, why
		return p.write(r)
	}
	if err := p.write(r); err != nil {
		return fault.Hint(fmt.Errorf("begin job %s: %w", name, err), "make room where "+root+" lies")
	}
	r, err = begin(root, program, p, k, lock)
	if err != nil {
		r.State.Phase, r.State.Error = Ended, err.Error()
		return errors.Join(err, p.write(r))
	}
	return nil
}

// holds says whether the lock is still the one that lies in the folder.
func (p folder) holds(lock *os.File) bool {
	mine, err := lock.Stat()
	there, err2 := os.Lstat(p.file(lockFile))
	return err == nil && err2 == nil && os.SameFile(mine, there)
}

// begin starts the keeper and waits for its end. The error: it could not be started.
func begin(root, program string, p folder, k asked, lock *os.File) (record, error) {
	r, _, err := p.record()
	if err != nil {
		return r, err
	}
	device, err := os.OpenFile(devicePath(root), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return r, fmt.Errorf("start job %s: %w", k.Job.Name, err)
	}
	defer device.Close()
	environ := loginEnviron(program)
	t := newTree(k.Mark, os.Getpid())
	if _, err := t.look(); err != nil {
		return r, fmt.Errorf("start job %s: its processes could not be told from others: %w", k.Job.Name, err)
	}
	ending, stand, err := os.Pipe()
	if err != nil {
		return r, fmt.Errorf("start job %s: %w", k.Job.Name, err)
	}
	defer stand.Close()
	sentinel := sentinelCommand(root, k.Job.Name, program, ending)
	sentinel.ExtraFiles = []*os.File{device} // the guard that it becomes has it from the beginning
	if err := t.start(sentinel); err != nil {
		return r, fmt.Errorf("start job %s: %w", k.Job.Name, err)
	}
	ending.Close()
	keeper := exec.Command(program, "node", "keep", "--root", root, "--name", k.Job.Name)
	keeper.Env = environ
	keeper.Stdout, keeper.Stderr = os.Stdout, os.Stderr
	keeper.ExtraFiles = []*os.File{lock, device, stand}
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := t.start(keeper); err != nil {
		_ = sentinel.Process.Kill()
		return r, fmt.Errorf("start job %s: its keeper: %w", k.Job.Name, err)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = keeper.Wait() }()
	began, overdue := elapsed(), time.Time{} // when the lease was first seen to be over
	for here, every := true, firstLook; here; every = min(2*every, lookEvery) {
		select {
		case <-gone:
			here = false
			continue
		case <-time.After(every):
			_, _ = t.look() // the next one may do
		}
		switch {
		case p.left(duration(k.Job.Lease), began) > 0:
			overdue = time.Time{}
		case overdue.IsZero():
			overdue = time.Now()
		case time.Since(overdue) > stuck: // stopped, or waiting for a disk
			_ = keeper.Process.Kill()
		}
	}
	r, _, err = p.record()
	if err != nil || !r.over() {
		err = mopUp(t, p, r)
	}
	_ = sentinel.Process.Kill() // nothing is left to watch
	_ = sentinel.Wait()
	if err != nil { // said in its log: it was started, and has its state
		fmt.Fprintln(os.Stderr, "assay:", err)
	}
	return r, nil
}

// sentinelCommand waits until nobody holds the other end of the pipe, and becomes a guard then. It is no assay before:
// whoever kills all that is called so leaves it.
func sentinelCommand(root, name, program string, ending *os.File) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", `read x; exec "$P" node guard --root "$R" --name "$N"`)
	cmd.Env = []string{"P=" + program, "R=" + root, "N=" + name, "PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME")}
	cmd.Stdin = ending
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// mopUp ends what lives of a job that nobody keeps any more, and says so in its state.
func mopUp(t *tree, p folder, r record) error {
	why := "its keeper was killed"
	switch boot := Boot(); {
	case boot != "" && r.Boot != "" && boot != r.Boot:
		why, r.Run = "the host was started anew", nil
	case r.State.Phase == Waiting:
		why = "its keeper was killed before it began"
	}
	err := t.end(r.Run, grace, func(n int) {
		r.State.Why = fmt.Sprintf("%s, and %d processes of it cannot be ended", why, n)
		_ = p.write(r)
	})
	if err != nil {
		return err
	}
	r.State.Phase, r.State.Why, r.State.Holder = Lost, why, ""
	if r.State.Ran == 0 && r.Awake > 0 && !strings.HasPrefix(why, "the host") {
		r.State.Ran = seconds(awake() - r.Awake)
	}
	return p.write(r)
}

const environBegin, environEnd = "\x00assay environ begins\x00", "\x00assay environ ends\x00"

// Environ prints this process's environment so that it can be told from what a login shell prints beside it.
func Environ(environ []string) string {
	return environBegin + strings.Join(environ, "\x00") + environEnd
}

// loginEnviron is the environment that the user's login shell gives a program: PATH and all that profiles set. What an
// ssh connection gives alone is less; where the shell says nothing in time it is that.
func loginEnviron(program string) []string {
	shell := os.Getenv("SHELL")
	if !filepath.IsAbs(shell) {
		shell = "/bin/sh"
	}
	ctx, cancel := context.WithTimeout(context.Background(), environLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-l", "-c", "'"+strings.ReplaceAll(program, "'", `'\''`)+"' node environ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	said, _ := cmd.Output()
	environ := os.Environ()
	if _, rest, ok := bytes.Cut(said, []byte(environBegin)); ok {
		if inner, _, ok := bytes.Cut(rest, []byte(environEnd)); ok {
			environ = strings.Split(string(inner), "\x00")
		}
	}
	kept := environ[:0:0]
	for _, e := range environ {
		name, _, ok := strings.Cut(e, "=")
		if ok && !ofConnection(name) {
			kept = append(kept, e)
		}
	}
	return kept
}

// ofConnection says whether a variable tells of the connection or the shell that a job was started from, which end
// before it does.
func ofConnection(name string) bool {
	switch name {
	case "PWD", "OLDPWD", "SHLVL", "_", "TERM", "XDG_SESSION_ID", "ASSAY_NODE", markVariable, nameVariable:
		return true
	}
	return strings.HasPrefix(name, "SSH_")
}
