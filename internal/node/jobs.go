package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/fault"
)

const (
	beginLimit = 30 * time.Second // for a guard, on however busy a host
	beginPoll  = 5 * time.Millisecond
	partAge    = time.Hour // of a folder that somebody who is gone was making; by a clock that may be wrong
	mostLease  = 24 * time.Hour
)

// Jobs are those of a node's root. Several processes may have the same ones.
type Jobs struct {
	root    string
	program string // assay

	mu     sync.Mutex
	guards map[string]chan struct{} // that this process has started, each closed when it has ended
}

var _ Runs = (*Jobs)(nil)

// NewRuns gives the jobs of the node's root, an absolute path; what it holds is made where it is not there. Jobs that
// nobody keeps any more are ended beside it. program is assay itself, with an absolute path.
func NewRuns(root, program string) (*Jobs, error) {
	for _, folder := range []string{"jobs", "locks"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
			return nil, fmt.Errorf("make the node's folder: %w", err)
		}
	}
	n := &Jobs{root: root, program: program, guards: map[string]chan struct{}{}}
	n.sweep()
	return n, nil
}

// sweep sees to what a killed node, a killed keeper or a restart of the host left.
func (n *Jobs) sweep() {
	entries, err := os.ReadDir(filepath.Join(n.root, "jobs"))
	if err != nil {
		return // the first that is asked of it says so
	}
	for _, e := range entries {
		path := filepath.Join(n.root, "jobs", e.Name())
		switch {
		case strings.HasPrefix(e.Name(), gonePrefix):
			_ = removeAll(path)
		case strings.HasPrefix(e.Name(), newPrefix):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > partAge {
				_ = removeAll(path)
			}
		case validName(e.Name()):
			n.settle(e.Name())
		}
	}
}

// folder is that of a job, whether it is there or not.
func (n *Jobs) folder(name string) folder { return folder(filepath.Join(n.root, "jobs", name)) }

// validName says whether a job can be called so: its name is a folder's.
func validName(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	for i, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// check says what is wrong with a job that was asked for.
func check(j Job) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("start job %.*q: %w", MaxName, j.Name, fmt.Errorf(format, a...))
	}
	word := func(s string) bool { return !strings.Contains(s, "\x00") }
	switch {
	case !validName(j.Name):
		return bad("a name has letters, digits, %q, %q and %q, and at most %d of them", ".", "_", "-", MaxName)
	case len(j.Command) == 0:
		return bad("it has no command")
	case !slices.ContainsFunc(j.Command, func(w string) bool { return w != "" }) || !all(j.Command, word) ||
		!all(j.Flags, word) || !word(j.Python):
		return bad("a word of its command is none")
	case j.Device != "gpu" && j.Device != "cpu":
		return bad("device %.20q: gpu or cpu", j.Device)
	case !(j.Lease > 0 && duration(j.Lease) <= mostLease):
		return bad("lease %g: seconds above 0, and %.0f at most", j.Lease, mostLease.Seconds())
	case !(j.Limit >= 0):
		return bad("limit %g: seconds", j.Limit)
	case j.Dir != "" && !filepath.IsLocal(filepath.FromSlash(j.Dir)):
		return bad("folder %.200q lies outside of its code", j.Dir)
	case j.Code != "" && !validSum(j.Code):
		return bad("its code is named by no checksum")
	}
	for _, f := range j.Flags {
		if name, _, _ := strings.Cut(f, "="); name == "--" || name == "--out" || name == "--logbook" {
			return bad("flag %s is the node's own", name)
		}
	}
	for _, e := range j.Environ {
		name, _, ok := strings.Cut(e, "=") // its value may be a secret
		if !ok || name == "" || !word(e) {
			return bad("a variable is not NAME=value")
		}
	}
	return nil
}

func all(words []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !ok(w) })
}

func validSum(sum string) bool {
	return len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
}

// Start starts a job once, however often it is asked for, and gives its lease anew.
func (n *Jobs) Start(j Job) (State, error) {
	if err := check(j); err != nil {
		return State{}, err
	}
	p := n.folder(j.Name)
	before, err := p.asked()
	if errors.Is(err, fs.ErrNotExist) {
		if j.Code != "" {
			if _, err := os.Stat(filepath.Join(n.root, "blobs", j.Code)); err != nil {
				return State{}, fault.Hint(fmt.Errorf("start job %s: its code is not here: %w", j.Name, plain(err)),
					"send the code first")
			}
		}
		if kind := network(n.root); kind != "" {
			return State{}, fault.Hint(fmt.Errorf("start job %s: %s is on a network mount (%s), where locks are other hosts' too",
				j.Name, n.root, kind), "name a folder on a disk of the host's own with ASSAY_NODE")
		}
		if _, _, err := makeFolder(n.root, j); err != nil {
			return State{}, fault.Hint(fmt.Errorf("start job %s in %s: %w", j.Name, n.root, plain(err)),
				roomHint(err))
		}
		before, err = p.asked()
	}
	if err != nil {
		return State{}, fmt.Errorf("start job %s: %w", j.Name, plain(err))
	}
	if before.Job.Owner != j.Owner || before.Job.Name != j.Name { // on a disk where a and A are one
		return State{}, fmt.Errorf("start job %s: another queue has a job of this name here", j.Name)
	}
	if err := p.renew(); err != nil {
		return State{}, fmt.Errorf("start job %s: %w", j.Name, plain(err))
	}
	if err := n.begun(j.Name); err != nil {
		return State{}, err
	}
	return n.state(j.Name)
}

// plain is an error without the path in it: what lies where on a host is nothing to the one who asks.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

func roomHint(err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "make room on that disk, or give the node another folder with ASSAY_NODE"
	}
	return ""
}

// begun sees to it that the job has begun: it has a state then.
func (n *Jobs) begun(name string) error {
	p := n.folder(name)
	if _, begun, err := p.record(); begun || err != nil {
		n.settle(name)
		return nil
	}
	for end, tries := time.Now().Add(beginLimit), 0; ; tries++ {
		gone, err := n.startGuard(name)
		if err != nil {
			return fmt.Errorf("start job %s: %w", name, err)
		}
		for waits := true; waits; {
			if _, begun, err := p.record(); begun || err != nil {
				return nil
			}
			select {
			case <-gone:
				waits = false
			case <-time.After(beginPoll):
				waits = time.Now().Before(end)
			}
		}
		if _, begun, err := p.record(); begun || err != nil {
			return nil
		}
		// Another's guard may have it, and be about to begin; or what has ended is one that was still there of an
		// earlier job of the name.
		if p.alone() && tries > 0 || time.Now().After(end) {
			return fault.Hint(fmt.Errorf("start job %s: nobody began it: %s", name, p.log()),
				"the same may do later; else look at the host's disk and number of processes")
		}
	}
}

// log is the end of what the job's keeper had to say.
func (p folder) log() string {
	b, err := os.ReadFile(p.file(logFile))
	if err != nil || len(b) == 0 {
		return "its guard ended without a word"
	}
	lines := strings.Split(strings.TrimSpace(string(b[max(0, len(b)-2000):])), "\n")
	return strings.TrimPrefix(lines[0], "assay: ")
}

// startGuard starts a guard for the job, unless one that this process has started is still there.
func (n *Jobs) startGuard(name string) (gone <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if gone, ok := n.guards[name]; ok {
		return gone, nil
	}
	log, err := os.OpenFile(n.folder(name).file(logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, plain(err)
	}
	defer log.Close()
	cmd := exec.Command(n.program, "node", "guard", "--root", n.root, "--name", name)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.root, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	n.guards[name] = done
	go func() {
		_ = cmd.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.guards, name)
		close(done)
	}()
	return done, nil
}

// settle has what lives of a job ended where nobody keeps it any more.
func (n *Jobs) settle(name string) {
	p := n.folder(name)
	if r, begun, err := p.record(); (begun || err != nil) && !r.over() && p.alone() {
		_, _ = n.startGuard(name) // the next who asks tries again
	}
}

// state is how a job stands; its Phase is "" where there is none, or nothing of it was ever begun.
func (n *Jobs) state(name string) (State, error) {
	p := n.folder(name)
	k, err := p.asked()
	if errors.Is(err, fs.ErrNotExist) || err == nil && k.Job.Name != name {
		return State{Name: name}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("ask how job %s stands: %w", name, plain(err))
	}
	r, begun, err := p.record()
	if err != nil {
		return State{}, fmt.Errorf("ask how job %s stands: %w", name, plain(err))
	}
	if !begun {
		return State{Name: name, Owner: k.Job.Owner}, nil
	}
	s := r.State
	if !r.over() {
		n.settle(name)
		s.Left = max(0, seconds(p.left(duration(k.Job.Lease), 0)))
		if s.Phase == Running && r.Boot == Boot() {
			s.Ran = seconds(awake() - r.Awake)
		}
		if s.Holder != "" {
			s.Holder = Holds(n.root)
		}
	}
	s.Files = p.sizes()
	return s, nil
}

// which lists the names that are meant.
func (n *Jobs) which(w Which) ([]string, error) {
	for _, name := range w.Names {
		if !validName(name) {
			return nil, fmt.Errorf("job %.*q: no name of a job", MaxName, name)
		}
	}
	names := w.Names
	if len(names) == 0 {
		entries, err := os.ReadDir(filepath.Join(n.root, "jobs"))
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		for _, e := range entries {
			if validName(e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	if w.Owner == "" {
		return names, nil
	}
	var owned []string
	for _, name := range names {
		k, err := n.folder(name).asked()
		if err == nil && k.Job.Owner == w.Owner || len(w.Names) > 0 && errors.Is(err, fs.ErrNotExist) {
			owned = append(owned, name)
		}
	}
	return owned, nil
}

// States says how jobs stand. One that nobody keeps any more is ended from then on.
func (n *Jobs) States(w Which) ([]State, error) {
	names, err := n.which(w)
	if err != nil {
		return nil, err
	}
	return n.states(names)
}

func (n *Jobs) states(names []string) ([]State, error) {
	list := make([]State, 0, len(names))
	for _, name := range names {
		s, err := n.state(name)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Renew gives jobs their lease anew. Those that have ended are left as they are.
func (n *Jobs) Renew(names []string) ([]State, error) {
	names, err := n.which(Which{Names: names})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := n.folder(name).renew(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("renew the lease of job %s: %w", name, plain(err))
		}
	}
	return n.states(names)
}

// Cancel asks for the end of jobs, and does not wait for it.
func (n *Jobs) Cancel(w Which) ([]State, error) {
	names, err := n.which(w)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p := n.folder(name)
		if _, err := p.asked(); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r, begun, err := p.record()
		if err == nil && begun && r.over() {
			continue
		}
		if err := p.cancel(w.Why); err != nil {
			return nil, fmt.Errorf("cancel job %s: %w", name, plain(err))
		}
		if !begun && p.alone() { // else a Start that is still on its way would begin it
			_ = n.begun(name)
		}
	}
	return n.states(names)
}

// Forget removes jobs that have ended, or were never begun, with their files.
func (n *Jobs) Forget(w Which) error {
	names, err := n.which(w)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := n.forget(name); err != nil {
			return err
		}
	}
	return nil
}

func (n *Jobs) forget(name string) error {
	p := n.folder(name)
	lock, free, err := p.lock(false)
	for end := time.Now().Add(lockPatience); err == nil && !free && time.Now().Before(end); {
		if r, begun, _ := p.record(); begun && !r.over() {
			break
		}
		time.Sleep(pollEvery) // those who kept it are about to end
		lock, free, err = p.lock(false)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("forget job %s: %w", name, plain(err))
	}
	var r record
	begun := false
	if free {
		defer lock.Close()
		if !p.holds(lock) {
			return nil
		}
		r, begun, err = p.record()
	}
	if !free || err != nil || begun && !r.over() {
		return &Refused{Text: fmt.Sprintf("forget job %s: it has not ended", name), Hint: "cancel it first", Busy: true}
	}
	gone, err := os.MkdirTemp(filepath.Join(n.root, "jobs"), gonePrefix)
	if err == nil {
		err = os.Rename(string(p), filepath.Join(gone, name))
	}
	if err == nil {
		err = removeAll(gone)
	}
	if err != nil {
		return fmt.Errorf("forget job %s: %w", name, plain(err))
	}
	return nil
}

// removeAll removes a folder, and such folders in it too as nothing may be removed from.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// Read reads a piece of a job's file.
func (n *Jobs) Read(r Read, into []byte) (int, Piece, error) {
	if !validName(r.Name) {
		return 0, Piece{}, fmt.Errorf("read of job %.*q: no name of a job", MaxName, r.Name)
	}
	p := n.folder(r.Name)
	record, _, err := p.record() // before the file: what is over grows no more
	if err != nil {
		return 0, Piece{}, fmt.Errorf("read %s of job %s: %w", r.File, r.Name, plain(err))
	}
	into = into[:min(len(into), max(0, r.Most))]
	count, size, err := p.read(r.File, r.At, into)
	if err != nil {
		return 0, Piece{}, fault.Hint(fmt.Errorf("read %.40q of job %s: %w", r.File, r.Name, plain(err)),
			fault.HintOf(err))
	}
	return count, Piece{Size: size, Final: record.over()}, nil
}
