package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"assay/internal/node"
	"assay/internal/secret"
)

// Row is how a task stands, for people.
type Row struct {
	Task     Task
	Phase    string
	Why      string // it waits, or how it ended
	Attempts int
	Attempt  string // the last one's name; "": none
	Host     string // its host
	State    node.State
	Home     bool // its files are here and recorded
	Stop     string
}

// Rows are all tasks, in their order.
func (q *Queue) Rows() []Row {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []Row
	for _, t := range q.tasks {
		r := Row{Task: t.Task, Phase: t.phase, Why: t.why, Attempts: t.attempts}
		if a := t.last; a != nil {
			r.Attempt, r.Host, r.State, r.Home, r.Stop = a.Name, a.Host, a.state, a.home, a.stop
			if a.ended != nil {
				r.State = *a.ended
			}
		}
		all = append(all, r)
	}
	return all
}

// Name of the queue.
func (q *Queue) Name() string { return q.o.Name }

// Read reads a queue that another may be working on: nothing of it is changed. busy: somebody works on it.
func Read(folder, runs string) (q *Queue, busy bool, err error) {
	path := filepath.Join(folder, JournalName)
	f, err := os.Open(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the queue: %w", err)
	}
	defer f.Close()
	q = &Queue{o: Options{Folder: folder, Runs: runs, Lease: DefaultLease, Now: time.Now}, byName: map[string]*task{},
		live: map[string]*attempt{}, changed: make(chan struct{})}
	if _, err := readJournal(f, path, q.apply); err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		q.posted()
		return q, true, nil
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return q, false, nil
}

// postName is the file in which a driver leaves what is not worth a line of the journal: why tasks wait, and the last
// that hosts told. It is written anew about once a second, and read while the driver lives.
const postName = "now.json"

// postMost is of how many tasks that wait it says why: the others wait for these.
const postMost = 100

type post struct {
	Waits map[string]string     `json:"waits,omitempty"`  // task → why
	State map[string]node.State `json:"states,omitempty"` // attempt → its last
}

// Post leaves how things stand for who reads the queue meanwhile.
func (q *Queue) Post() error {
	p := post{Waits: map[string]string{}, State: map[string]node.State{}}
	q.mu.Lock()
	for _, t := range q.tasks {
		if t.phase == Queued && t.why != "" && len(p.Waits) < postMost {
			p.Waits[t.Name] = secret.Text(t.why)
		}
	}
	for name, a := range q.live {
		if a.ended == nil {
			s := a.state
			s.Files = nil
			p.State[name] = s
		}
	}
	q.mu.Unlock()
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// Whole, and not synced: after a crash of the machine nobody asks for it.
	part := filepath.Join(q.o.Folder, ".part-"+postName)
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(q.o.Folder, postName))
}

// posted takes in what a driver left.
func (q *Queue) posted() {
	b, err := os.ReadFile(filepath.Join(q.o.Folder, postName))
	var p post
	if err != nil || json.Unmarshal(b, &p) != nil {
		return // it is for convenience
	}
	for name, why := range p.Waits {
		if t := q.byName[name]; t != nil && t.phase == Queued {
			t.why = why
		}
	}
	for name, s := range p.State {
		if a := q.live[name]; a != nil && a.ended == nil {
			a.state = s
		}
	}
}

// cancelName is the file by which others ask the driver of a queue to cancel: a line of JSON each, appended.
const cancelName = "cancel.jsonl"

// Asked is what is asked there.
type asked struct {
	Names []string `json:"names,omitempty"`
	All   bool     `json:"all,omitempty"`
}

// Ask asks the driver of the queue in a folder to cancel tasks; none named: all. It is asked even where none runs: the
// next one heeds it.
func Ask(folder string, names ...string) error {
	b, err := json.Marshal(asked{Names: names, All: len(names) == 0})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, cancelName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("ask the driver of the queue: %w", err)
	}
	defer f.Close()
	if _, err = f.Write(append(b, '\n')); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("ask the driver of the queue: %w", err)
	}
	return nil
}

// Heed does what was asked by Ask since it was last called.
func (q *Queue) Heed() error {
	q.mu.Lock()
	from := q.heard
	q.mu.Unlock()
	f, err := os.Open(filepath.Join(q.o.Folder, cancelName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // a line is not whole yet
		}
		from += int64(len(line))
		var a asked
		_ = json.Unmarshal(line, &a) // what is none asks for nothing
		if a.All {
			for _, r := range q.Rows() {
				if !Final(r.Phase) {
					a.Names = append(a.Names, r.Task.Name)
				}
			}
		}
		for _, n := range a.Names {
			q.mu.Lock()
			known := q.byName[n] != nil
			q.mu.Unlock()
			if known {
				if err := q.Cancel(n, byUser); err != nil {
					return err
				}
			}
		}
		q.mu.Lock()
		err = q.put(entry{Heard: from})
		q.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
