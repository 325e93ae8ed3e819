package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/secret"
)

// Options are how a queue is opened.
type Options struct {
	Folder      string // of the queue: .assay/fleet/NAME
	Runs        string // the folder that runs come home to: .assay/runs
	Name        string
	Lease       float64                    // seconds
	Retries     int                        // attempts of a task that may be lost beyond the first
	RetryFailed int                        // attempts that may fail beyond the first
	Environ     []string                   // the driver's own, NAME=value: of what tasks name
	HostEnviron func(host string) []string // NAME=value for jobs of a host; nil: none
	Now         func() time.Time
	// Record keeps the run in a folder in the logbook. It may be called again for the same folder, and must keep it
	// once. nil: nothing is recorded.
	Record func(folder string) error
	// Tell is called after each change, with no lock held; nil: nobody is told.
	Tell func(Change)
}

// Change is what a queue tells of itself.
type Change struct {
	Task    string
	Phase   string // of the task, now
	Attempt string // "": of none
	Host    string
	What    string // a line for people: "began on studio", "lost: …"
}

// Queue is the tasks of one `assay fleet run`, and what has become of each. Its methods may be called from several
// goroutines. An error of a method that changes it means that its journal could not be written: what was to be done
// must not be done.
type Queue struct {
	o       Options
	mu      sync.Mutex
	journal *journal
	id      string
	tasks   []*task
	byName  map[string]*task
	live    map[string]*attempt // attempts that are not settled
	told    []Change
	held    bool
	heard   int64         // bytes of cancel.jsonl that were heeded
	changed chan struct{} // closed and made anew with each change
}

type task struct {
	Task
	sum      string // of the words as they were given
	redacted bool   // the words in Command are not all of it: a secret was left out
	phase    string
	why      string // why it waits, or how it ended
	attempts int    // made
	lost     int
	failed   int
	last     *attempt
	away     map[string]bool // hosts that could not start it, or were lost with it
}

type attempt struct {
	Attempt
	owner  *task
	began  bool
	state  node.State // the last that was told
	ended  *node.State
	lost   string
	home   bool
	closed bool // no more of its files comes
	stop   string
	taken  time.Time
	folder *folder
}

// entry is a line of the journal: one thing that changed.
type entry struct {
	At    time.Time   `json:"at"`
	Queue *queueEntry `json:"queue,omitempty"`
	Task  *taskEntry  `json:"task,omitempty"`
	Take  *takeEntry  `json:"take,omitempty"`
	Began *nameEntry  `json:"began,omitempty"`
	Back  *nameEntry  `json:"back,omitempty"`
	Ended *stateEntry `json:"ended,omitempty"`
	Lost  *nameEntry  `json:"lost,omitempty"`
	Close *nameEntry  `json:"close,omitempty"` // its files stay as they are now: they are about to be recorded
	Home  *nameEntry  `json:"home,omitempty"`
	Done  *nameEntry  `json:"settled,omitempty"`
	Stop  *nameEntry  `json:"cancel,omitempty"`
	Heard int64       `json:"heard,omitempty"` // bytes of cancel.jsonl that were heeded
}

type queueEntry struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	ID      string `json:"id"`
}

type taskEntry struct {
	Task
	Sum      string `json:"sum"`
	Redacted bool   `json:"redacted,omitempty"`
}

type takeEntry struct {
	Task   string `json:"task"`
	Name   string `json:"name"`
	Number int    `json:"number"`
	Host   string `json:"host"`
}

type nameEntry struct {
	Name string  `json:"name"`
	Why  string  `json:"why,omitempty"`
	Host string  `json:"host,omitempty"` // of one that began: where, if not where it was to
	Task *become `json:"task,omitempty"` // of lost and back
}

type stateEntry struct {
	Name  string     `json:"name"`
	State node.State `json:"state"`
	Task  *become    `json:"task,omitempty"` // nil: it counted as lost before
}

// become is what an attempt's end does to its task. It is journaled, for another driver may have other retries.
type become struct {
	Phase string `json:"phase"`
	Why   string `json:"why,omitempty"`
	Count string `json:"count,omitempty"` // lost or failed: what it counts as
}

// journalVersion is that of the entries.
const journalVersion = 1

// MaxTasks of a queue.
const MaxTasks = 100_000

// Open opens the queue in a folder, or makes it. Another driver that has it is an error that wraps ErrBusy.
func Open(o Options) (*Queue, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	q := &Queue{o: o, byName: map[string]*task{}, live: map[string]*attempt{}, changed: make(chan struct{})}
	j, err := openJournal(o.Folder, q.apply)
	if err != nil {
		return nil, err
	}
	q.journal = j
	if q.id == "" {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, errors.Join(err, j.close())
		}
		err := q.put(entry{Queue: &queueEntry{Version: journalVersion, Name: o.Name, ID: hex.EncodeToString(b[:])}})
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	return q, nil
}

// Close lets the queue go: another driver may open it.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.live {
		a.folder.close()
	}
	return q.journal.close()
}

// Owner is whose a queue's jobs are on the hosts: no other queue's is the same.
func (q *Queue) Owner() string { return owner(q.o.Name, q.id) }

func owner(name, id string) string {
	if len(name) > 40 {
		name = name[:40]
	}
	return name + "-" + id
}

// Lease is how many seconds without a renewal end a job, and Retries how often a lost one is begun anew.
func (q *Queue) Lease() float64 { return q.o.Lease }

// put writes an entry, has it on the disk, and applies it. The lock is held.
func (q *Queue) put(e entry) error {
	e.At = q.o.Now().UTC().Round(0)
	if err := q.journal.append(e); err != nil {
		return err
	}
	if err := q.apply(e); err != nil { // of our own making: what was written can be read
		return err
	}
	close(q.changed)
	q.changed = make(chan struct{})
	return nil
}

// Changed is closed when the queue has changed.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// unlock lets go of the lock, and tells what has changed.
func (q *Queue) unlock() {
	told := q.told
	q.told = nil
	q.mu.Unlock()
	if q.o.Tell != nil {
		for _, c := range told {
			q.o.Tell(c)
		}
	}
}

func (q *Queue) say(t *task, a *attempt, format string, args ...any) {
	c := Change{Task: t.Name, Phase: t.phase, What: fmt.Sprintf(format, args...)}
	if a != nil {
		c.Attempt, c.Host = a.Name, a.Host
	}
	q.told = append(q.told, c)
}

// apply is what an entry does to the queue: when it is made, and when the journal is read again.
func (q *Queue) apply(e entry) error {
	of := func(n *nameEntry) (*attempt, error) {
		if a := q.live[n.Name]; a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("no attempt %q is under way", n.Name)
	}
	switch {
	case e.Queue != nil:
		if e.Queue.Version != journalVersion {
			return fmt.Errorf("version %d, and this assay reads %d", e.Queue.Version, journalVersion)
		}
		if !nameForm.MatchString(e.Queue.Name) || !nameForm.MatchString(e.Queue.ID) {
			return fmt.Errorf("no name of a queue: %q", e.Queue.Name)
		}
		q.id = e.Queue.ID
		if q.o.Name == "" {
			q.o.Name = e.Queue.Name
		}
	case e.Task != nil:
		if q.byName[e.Task.Name] != nil || !nameForm.MatchString(e.Task.Name) {
			return fmt.Errorf("task %q is there, or has no name", e.Task.Name)
		}
		t := &task{Task: e.Task.Task, sum: e.Task.Sum, redacted: e.Task.Redacted, phase: Queued,
			away: map[string]bool{}}
		q.tasks = append(q.tasks, t)
		q.byName[t.Name] = t
	case e.Take != nil:
		t := q.byName[e.Take.Task]
		if t == nil || t.phase != Queued {
			return fmt.Errorf("task %q is not queued", e.Take.Task)
		}
		a := &attempt{Attempt: Attempt{Task: t.Task, Name: e.Take.Name, Number: e.Take.Number, Host: e.Take.Host},
			owner: t, taken: e.At, folder: &folder{path: filepath.Join(q.o.Runs, e.Take.Name)}}
		a.Task.Command = t.Command
		q.live[a.Name] = a
		t.last, t.phase, t.why, t.attempts = a, Placed, "", max(t.attempts, a.Number)
	case e.Began != nil:
		a, err := of(e.Began)
		if err != nil {
			return err
		}
		a.began, a.Host = true, or(e.Began.Host, a.Host)
	case e.Back != nil:
		a, err := of(e.Back)
		if err != nil {
			return err
		}
		delete(q.live, a.Name)
		return a.become(e.Back.Task)
	case e.Ended != nil:
		a, err := of(&nameEntry{Name: e.Ended.Name})
		if err != nil {
			return err
		}
		s := e.Ended.State
		a.ended = &s
		return a.become(e.Ended.Task)
	case e.Lost != nil:
		a, err := of(e.Lost)
		if err != nil {
			return err
		}
		a.lost = or(e.Lost.Why, "the host is lost")
		return a.become(e.Lost.Task)
	case e.Close != nil:
		a, err := of(e.Close)
		if err != nil {
			return err
		}
		a.closed = true
	case e.Home != nil:
		a, err := of(e.Home)
		if err != nil {
			return err
		}
		a.home = true
	case e.Done != nil:
		a, err := of(e.Done)
		if err != nil {
			return err
		}
		delete(q.live, a.Name)
	case e.Heard > 0:
		q.heard = e.Heard
	case e.Stop != nil:
		t := q.byName[e.Stop.Name]
		if t == nil {
			return fmt.Errorf("no task %q", e.Stop.Name)
		}
		switch t.phase {
		case Queued:
			t.phase, t.why = Cancelled, e.Stop.Why
		case Placed:
			t.last.stop = or(e.Stop.Why, byUser)
		}
	}
	return nil
}

// become does to the task of an attempt what its end came to; nil: nothing.
func (a *attempt) become(b *become) error {
	t := a.owner
	if b == nil || t.last != a || t.phase != Placed {
		return nil
	}
	if b.Phase != Queued && !Final(b.Phase) {
		return fmt.Errorf("attempt %q: no phase %q", a.Name, b.Phase)
	}
	t.phase, t.why = b.Phase, b.Why
	switch b.Count {
	case Lost:
		t.lost++
		t.away[a.Host] = true
	case Failed:
		t.failed++
	}
	return nil
}

// again has a task wait again, unless it was to be cancelled.
func (a *attempt) again(why string) *become {
	if a.stop != "" {
		return &become{Phase: Cancelled, Why: a.stop}
	}
	return &become{Phase: Queued, Why: why}
}

// gone is what a lost attempt does to its task.
func (q *Queue) gone(a *attempt, why string) *become {
	b := a.again(why)
	b.Count = Lost
	if n := a.owner.lost + 1; a.stop == "" && n > q.o.Retries {
		b.Phase = Lost
		if n > 1 {
			b.Why = fmt.Sprintf("%s; %d of its attempts were lost", why, n)
		}
	}
	return b
}

// Words of State.Why with which a node says why it ended a job.
const (
	WhyCancelled   = "cancelled"
	WhyLease       = "lease"
	WhyLimit       = "limit"
	byUser         = "by assay fleet cancel"
	whyInterrupted = "interrupted" // Ctrl-C here: the queue goes on with it another time
	whyMoved       = "moved"       // it waited there, and another host is free
)

// judge is what an attempt that ended does to its task.
func (q *Queue) judge(a *attempt, s node.State) *become {
	zero := s.Exit != nil && *s.Exit == 0 && s.Signal == ""
	switch {
	case s.Error != "":
		b := q.gone(a, "it could not be started on "+a.Host+": "+s.Error)
		if b.Phase == Lost {
			b.Phase = Failed
		}
		return b
	case s.Phase == node.Lost:
		return q.gone(a, "lost on "+a.Host+": "+or(s.Why, "nobody kept it"))
	case s.Why == WhyLease:
		return q.gone(a, "its lease ran out on "+a.Host)
	case zero && s.Why == "":
		return &become{Phase: Done}
	case s.Why == WhyLimit:
		return &become{Phase: Failed, Why: "it ran longer than its limit"}
	case s.Why == whyInterrupted || s.Why == whyMoved || s.Why != "" && a.stop != "":
		return a.again(s.Why)
	case s.Why != "": // somebody else had it cancelled there
		return &become{Phase: Cancelled, Why: s.Why + " on " + a.Host}
	}
	b := &become{Phase: Failed, Count: Failed, Why: "exit status unknown"}
	if s.Exit != nil {
		b.Why = fmt.Sprintf("exit status %d", *s.Exit)
	}
	if s.Signal != "" {
		b.Why = "ended by " + s.Signal
	}
	if a.owner.failed < q.o.RetryFailed && a.stop == "" {
		b.Phase = Queued
	}
	return b
}

// Add puts a task at the queue's end. One that is there by the same name and is the same stays as it is: it is given
// the words that the journal left out as secret. One of that name that is another is an error.
func (q *Queue) Add(t Task) error {
	if !nameForm.MatchString(t.Name) {
		return fmt.Errorf("job %q: a name is letters, digits, \".\", \"_\" and \"-\", 64 at most", t.Name)
	}
	if len(t.Command) == 0 {
		return fmt.Errorf("job %s has no command", t.Name)
	}
	sum := taskSum(t)
	q.mu.Lock()
	defer q.unlock()
	if have := q.byName[t.Name]; have != nil {
		if have.sum != sum {
			return fault.Hint(fmt.Errorf("the queue %s has another job %s", q.o.Name, t.Name),
				"give this one another --queue")
		}
		have.Command, have.Flags, have.redacted = t.Command, t.Flags, false
		return nil
	}
	if len(q.tasks) >= MaxTasks {
		return fmt.Errorf("the queue has %d jobs, and that is the most", MaxTasks)
	}
	kept := t
	kept.Command, kept.Flags = secret.Words(t.Command), secret.Words(t.Flags)
	redacted := !slices.Equal(kept.Command, t.Command) || !slices.Equal(kept.Flags, t.Flags)
	if err := q.put(entry{Task: &taskEntry{Task: kept, Sum: sum, Redacted: redacted}}); err != nil {
		return err
	}
	have := q.byName[t.Name]
	have.Command, have.Flags, have.redacted = t.Command, t.Flags, false
	q.say(have, nil, "queued")
	return nil
}

// taskSum tells a task from another of its name. What was foreseen about hosts is no part of it, and the code is
// none: a queue goes on with the code that it began with.
func taskSum(t Task) string {
	t.Needs.Excluded, t.Code, t.Dir = nil, "", ""
	b, _ := json.Marshal(t) // of texts and numbers
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Queued are the tasks that wait for a host, in their order.
func (q *Queue) Queued() []Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []Task
	for _, t := range q.tasks {
		if t.phase == Queued && !t.redacted {
			all = append(all, t.Task)
		}
	}
	return all
}

// Away are the hosts that were lost with a task, or could not start it: better another.
func (q *Queue) Away(name string) map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	away := map[string]bool{}
	if t := q.byName[name]; t != nil {
		for h := range t.away {
			away[h] = true
		}
	}
	return away
}

// Waits says why a task waits; it is not journaled.
func (q *Queue) Waits(name, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.byName[name]; t != nil && t.phase == Queued {
		t.why = why
	}
}

// Next takes the first task that waits and that match says may go to the host; where it says no, why is what the task
// then says that it waits for. ok: there is one, and the host may now be asked to start it.
func (q *Queue) Next(host string, match func(Task) (may bool, why string)) (a Attempt, ok bool, err error) {
	q.mu.Lock()
	defer q.unlock()
	for _, t := range q.tasks {
		if t.phase != Queued || t.redacted || t.Host != "" && t.Host != host {
			continue
		}
		may, why := match(t.Task)
		if !may {
			t.why = or(why, t.why)
			continue
		}
		a, err = q.take(t, host)
		return a, err == nil, err
	}
	return Attempt{}, false, nil
}

// ErrTaken is of a task that does not wait any more.
var ErrTaken = errors.New("it does not wait any more")

// Take takes a task that waits, for a host.
func (q *Queue) Take(name, host string) (Attempt, error) {
	q.mu.Lock()
	defer q.unlock()
	t := q.byName[name]
	if t == nil || t.phase != Queued {
		return Attempt{}, fmt.Errorf("job %s: %w", name, ErrTaken)
	}
	return q.take(t, host)
}

func (q *Queue) take(t *task, host string) (Attempt, error) {
	n := t.attempts + 1
	name := fmt.Sprintf("%s-%s-a%d", q.Owner(), t.Name, n)
	if len(name) > node.MaxName {
		return Attempt{}, fmt.Errorf("job %s: %q is longer than a node's names", t.Name, name)
	}
	if err := q.put(entry{Take: &takeEntry{Task: t.Name, Name: name, Number: n, Host: host}}); err != nil {
		return Attempt{}, err
	}
	q.say(t, t.last, "goes to %s", host)
	a := t.last.Attempt
	a.Task = t.Task
	return a, nil
}

// Job is what a node is asked to start for an attempt. Variables come in this order, the later wins: the host's, what
// the driver has of those that the task names, the task's own.
func (q *Queue) Job(a Attempt) node.Job {
	j := node.Job{Name: a.Name, Owner: q.Owner(), Command: a.Task.Command, Flags: a.Task.Flags, Code: a.Task.Code,
		Dir: a.Task.Dir, Python: a.Task.Python, Device: a.Task.Device, Lease: q.o.Lease, Limit: a.Task.Limit}
	if q.o.HostEnviron != nil {
		j.Environ = append(j.Environ, q.o.HostEnviron(a.Host)...)
	}
	for _, name := range a.Task.Environ {
		for i := len(q.o.Environ) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(q.o.Environ[i], name+"="); ok {
				j.Environ = append(j.Environ, name+"="+v)
				break
			}
		}
	}
	j.Environ = append(j.Environ, a.Task.Set...)
	return j
}

func (q *Queue) attempt(name string) (*attempt, error) {
	if a := q.live[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("no attempt %q is under way", name)
}

// Began says that a host has an attempt: it was started there, now or before.
func (q *Queue) Began(name string) error { return q.BeganOn(name, "") }

// BeganOn is Began of an attempt for which others chose the host; "": it is on the one that it was to go to.
func (q *Queue) BeganOn(name, host string) error {
	q.mu.Lock()
	defer q.unlock()
	a, err := q.attempt(name)
	if err != nil || a.began {
		return err
	}
	if err := q.put(entry{Began: &nameEntry{Name: name, Host: host}}); err != nil {
		return err
	}
	q.say(a.owner, a, "began on %s", a.Host)
	return nil
}

// Saw keeps the last state of an attempt for who asks; it is not journaled.
func (q *Queue) Saw(name string, s node.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.live[name]; a != nil {
		a.state = s
	}
}

// Back takes an attempt back that its host never began, or refused while another had it: the task waits again, and
// none of its retries is used.
func (q *Queue) Back(name, why string) error {
	q.mu.Lock()
	defer q.unlock()
	a, err := q.attempt(name)
	if err != nil {
		return err
	}
	if a.began {
		return fmt.Errorf("attempt %s has begun: it cannot be taken back", name)
	}
	a.folder.close()
	if err := q.put(entry{Back: &nameEntry{Name: name, Why: why, Task: a.again(why)}}); err != nil {
		return err
	}
	q.say(a.owner, a, "taken back from %s: %s", a.Host, why)
	return nil
}

// Ended says that an attempt runs no more, as its host told. The task goes by it at once: done, failed, or queued
// again. Of an attempt that counts as lost already it is only kept.
func (q *Queue) Ended(name string, s node.State) error {
	q.mu.Lock()
	defer q.unlock()
	a, err := q.attempt(name)
	if err != nil || a.ended != nil {
		return err
	}
	s.Why, s.Error, s.Signal = secret.Text(s.Why), secret.Text(s.Error), secret.Text(s.Signal)
	s.Files = nil
	e := stateEntry{Name: name, State: s}
	if a.lost == "" {
		e.Task = q.judge(a, s)
	}
	if err := q.put(entry{Ended: &e}); err != nil {
		return err
	}
	q.tellEnd(a)
	return nil
}

// Lost says that the host of an attempt has not answered for so long that its lease must have run out there: nothing of
// it runs any more. The task is queued again, until its retries are used up.
func (q *Queue) Lost(name, why string) error {
	q.mu.Lock()
	defer q.unlock()
	a, err := q.attempt(name)
	if err != nil || a.ended != nil || a.lost != "" {
		return err
	}
	why = secret.Text(why)
	if err := q.put(entry{Lost: &nameEntry{Name: name, Why: why, Task: q.gone(a, why)}}); err != nil {
		return err
	}
	q.tellEnd(a)
	return nil
}

func (q *Queue) tellEnd(a *attempt) {
	t := a.owner
	switch {
	case t.phase == Done:
		q.say(t, a, "done on %s", a.Host)
	case t.why == "":
		q.say(t, a, "%s", t.phase)
	default:
		q.say(t, a, "%s: %s", t.phase, t.why)
	}
}

// Home says that all files of an attempt are here that will come. The run is recorded, once however often this is
// called, and then journaled.
func (q *Queue) Home(name string) error {
	q.mu.Lock()
	a, err := q.attempt(name)
	if err == nil && !a.home {
		err = a.folder.settle()
	}
	if err == nil && !a.home && !a.closed { // what is recorded now and, after a kill, once more is the same
		err = q.put(entry{Close: &nameEntry{Name: name}})
	}
	if err != nil || a.home {
		q.unlock()
		return err
	}
	path, made := a.folder.path, a.folder.exists()
	q.unlock()
	if made && q.o.Record != nil { // it may take its time: nobody waits for it with the lock
		if err := q.o.Record(path); err != nil {
			return fmt.Errorf("record the run %s: %w", path, err)
		}
	}
	q.mu.Lock()
	defer q.unlock()
	if a, err = q.attempt(name); err != nil || a.home {
		return err
	}
	return q.put(entry{Home: &nameEntry{Name: name}})
}

// Settled says that the host has nothing of an attempt any more, or never will be asked: the queue is done with it.
func (q *Queue) Settled(name string) error {
	q.mu.Lock()
	defer q.unlock()
	a, err := q.attempt(name)
	if err != nil {
		return err
	}
	if !a.home {
		return fmt.Errorf("attempt %s is not home yet", name)
	}
	return q.put(entry{Done: &nameEntry{Name: name}})
}

// Cancel ends a task: at once where it waits, else by its engine, which finds it in Open with Stop set. None of this
// name is an error; one that has ended is none.
func (q *Queue) Cancel(name, why string) error {
	q.mu.Lock()
	defer q.unlock()
	t := q.byName[name]
	if t == nil {
		return fault.Hint(fmt.Errorf("the queue %s has no job %s", q.o.Name, name), "see: assay fleet status")
	}
	if Final(t.phase) || t.phase == Placed && t.last.stop != "" {
		return nil
	}
	if err := q.put(entry{Stop: &nameEntry{Name: name, Why: or(why, byUser)}}); err != nil {
		return err
	}
	q.say(t, t.last, "to be cancelled")
	return nil
}

// Open are the attempts that are not settled, by name: what an engine has to look after, and what one that was started
// anew has to adopt.
func (q *Queue) Open() []Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []Standing
	for _, a := range q.live {
		s := Standing{Attempt: a.Attempt, Began: a.began, Ended: a.ended, Lost: a.lost, Closed: a.closed,
			Home: a.home, Stop: a.stop}
		s.Task = a.owner.Task
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// On is Open of one host.
func (q *Queue) On(host string) []Standing {
	return slices.DeleteFunc(q.Open(), func(s Standing) bool { return s.Host != host })
}

// state is the last that a host told of an attempt, its files too; ok: it told any.
func (q *Queue) state(name string) (s node.State, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.live[name]; a != nil && a.state.Phase != "" {
		return a.state, true
	}
	return node.State{}, false
}

// waits reports whether anything waits that might go to a host. Of one that runs something nothing is asked
// meanwhile: it would be in the way of what is measured there.
func (q *Queue) waits(host string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waits := slices.ContainsFunc(q.tasks, func(t *task) bool { return t.phase == Queued })
	for _, a := range q.live {
		switch {
		case a.ended != nil || a.lost != "":
		case a.Host == host && a.Task.Device == "gpu":
			return false
		case a.state.Phase == node.Waiting:
			waits = true
		}
	}
	return waits
}

// holds reports whether a job is an attempt of this queue that is under way.
func (q *Queue) holds(job string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.live[job]
	return a != nil && a.ended == nil
}

// paths are those that any task needs.
func (q *Queue) paths() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []string
	for _, t := range q.tasks {
		if !Final(t.phase) {
			for _, p := range t.Needs.Paths {
				if !slices.Contains(all, p) {
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// Stopped says why an attempt is to be cancelled; "": it is not.
func (q *Queue) Stopped(name string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.live[name]; a != nil {
		return a.stop
	}
	return ""
}

// Hold has engines go on while tasks may yet be added; with false they no more do.
func (q *Queue) Hold(more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = more
	close(q.changed)
	q.changed = make(chan struct{})
}

// Held reports whether tasks may yet be added.
func (q *Queue) Held() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// Codes are the snapshots that tasks which have not ended run in.
func (q *Queue) Codes() map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]bool{}
	for _, t := range q.tasks {
		if t.Code != "" && !Final(t.phase) {
			all[t.Code] = true
		}
	}
	return all
}

// Finished reports whether each task has ended and each attempt is settled.
func (q *Queue) Finished() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.live) == 0 && !slices.ContainsFunc(q.tasks, func(t *task) bool {
		return !Final(t.phase) && !(t.phase == Queued && t.redacted)
	})
}

// Folder is where the files of an attempt come home to.
func (q *Queue) Folder(name string) string { return filepath.Join(q.o.Runs, name) }

// Append keeps a piece of an attempt's file that begins at an offset, and says how much of it is here then. What is
// here already is left out, and so is what comes when Home was called; a piece behind a gap is refused. events.jsonl,
// stdout and stderr grow in their place; other files lie under another name until Whole.
func (q *Queue) Append(name, file string, at int64, b []byte) (have int64, err error) {
	a, closed, err := q.receiving(name)
	if err != nil {
		return 0, err
	}
	if closed {
		return at + int64(len(b)), nil
	}
	return a.folder.append(file, at, b)
}

// receiving is an attempt whose files come; closed: no more of them is taken.
func (q *Queue) receiving(name string) (a *attempt, closed bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, err = q.attempt(name); err != nil {
		return nil, false, err
	}
	return a, a.closed, nil
}

// Have is how much of an attempt's file is here, bytes.
func (q *Queue) Have(name, file string) (int64, error) {
	q.mu.Lock()
	a, err := q.attempt(name)
	q.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return a.folder.have(file)
}

// Whole puts a file of so many bytes into its place: all of it has come.
func (q *Queue) Whole(name, file string, size int64) error {
	a, closed, err := q.receiving(name)
	if err != nil || closed {
		return err
	}
	return a.folder.whole(file, size)
}
