package node

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// markVariable is in the environment of every process of a job.
	markVariable = "ASSAY_JOB_MARK"
	nameVariable = "ASSAY_JOB"

	// A lease of 45 s that has just been renewed, grace and finish come to less than a minute.
	grace   = 5 * time.Second  // from SIGTERM to SIGKILL where nobody waits for the job any more
	parting = 20 * time.Second // where somebody does: a training that is told to end may write a checkpoint
	finish  = 5 * time.Second  // from the end of the training to that of `assay run`, which writes the evidence then

	firstLook = time.Second            // for processes that take their environment off later, at first,
	lookEvery = 10 * time.Second       // and in the end
	pollEvery = 25 * time.Millisecond  // for the end of those that were told to
	slowly    = 500 * time.Millisecond // the same, of those that cannot be ended: the GPU's driver has them
)

// tree is what lives of a job: each process that has its mark, that comes from one of those or, on Linux, was left to
// this process by one of them, and that was one of them when last looked at. The last tells those that take their
// environment off and leave their parents; one that does both before it was ever seen, where its keeper is killed as
// well, is not found.
type tree struct {
	mu     sync.Mutex
	mark   string
	self   int
	ours   map[int]bool  // children of this process that are no part of the job
	run    int           // child of this process that is, and that another waits for
	adopts bool          // orphans come to this process
	seen   map[like]bool // what was ever found
}

func newTree(mark string, self int) *tree {
	return &tree{mark: markVariable + "=" + mark, self: self, ours: map[int]bool{}, adopts: adoptOrphans(),
		seen: map[like]bool{}}
}

// start starts a command beside the job, which is no part of it.
func (t *tree) start(cmd *exec.Cmd) error {
	t.mu.Lock() // nobody takes it for one of the job's before it is known to be ours
	defer t.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	t.ours[cmd.Process.Pid] = true
	return nil
}

// look lists what lives of the job now.
func (t *tree) look() ([]like, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := processes()
	if err != nil {
		return nil, err
	}
	members := map[int]bool{}
	var open []process
	for _, p := range all {
		child := p.parent == t.self && !t.ours[p.pid]
		switch {
		case p.pid == t.self:
		case p.dead:
			if child && t.adopts && p.pid != t.run {
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
		case p.parent == t.self && t.ours[p.pid]:
		case t.seen[p.like()] || child && t.adopts || hasVariable(environOf(p.pid), t.mark):
			members[p.pid] = true
		default:
			open = append(open, p)
		}
	}
	for more := true; more; {
		more = false
		for _, p := range open {
			if members[p.parent] && !members[p.pid] {
				members[p.pid], more = true, true
			}
		}
	}
	seen := map[like]bool{}
	var list []like
	for _, p := range all {
		if members[p.pid] {
			seen[p.like()] = true
			list = append(list, p.like())
		}
	}
	t.seen = seen
	return list, nil
}

// end ends all that lives of the job, and returns when nothing does. run is `assay run` in it, nil where there is none:
// that alone is told first, which hands it on to the training, so that its workers live as long as it wants to use
// them. What is left after the time given is killed, `assay run` a little later, as it writes the evidence last. slow
// is told where processes cannot be ended.
func (t *tree) end(run *like, given time.Duration, slow func(left int)) error {
	const (
		told   = iota // run was
		all           // everybody was
		others        // all but run were killed
		killed        // everybody was
	)
	list, err := t.look()
	if err != nil {
		return err
	}
	stage, since := told, time.Now()
	if run == nil || !has(list, *run) {
		stage, given = all, min(given, grace)
		signalAll(list, nil, syscall.SIGTERM)
	} else {
		send(*run, syscall.SIGTERM)
	}
	for said := false; ; {
		if list, err = t.look(); err != nil {
			return err
		}
		if len(list) == 0 {
			return nil
		}
		past, runs := time.Since(since), run != nil && has(list, *run)
		switch {
		case stage == told && !runs: // it has ended in time; what it left behind is told, and has little
			stage, since, given = all, time.Now(), min(given, grace)
			signalAll(list, nil, syscall.SIGTERM)
		case stage == told && past > given:
			stage, since = others, time.Now()
		case stage == all && past > given, stage == others && (!runs || past > finish):
			stage, since = killed, time.Now()
		case stage == killed && past > grace && !said:
			said = true
			slow(len(list))
		}
		switch stage { // each time anew: one that is killed may have begun another a moment before
		case others:
			signalAll(list, run, syscall.SIGKILL)
		case killed:
			signalAll(list, nil, syscall.SIGKILL)
		}
		if said {
			time.Sleep(slowly)
		} else {
			time.Sleep(pollEvery)
		}
	}
}

func has(list []like, one like) bool {
	for _, l := range list {
		if l == one {
			return true
		}
	}
	return false
}

func signalAll(list []like, but *like, s syscall.Signal) {
	for _, l := range list {
		if but == nil || l != *but {
			send(l, s)
		}
	}
}
