package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"assay/internal/file"
	"assay/internal/launch"
)

// Limits of a suite's processes.
const (
	// MaxRestarts is how often pytest is started once more, without the tests that are over, where one has ended it.
	MaxRestarts = 50
	followEvery = 50 * time.Millisecond // how often the journal is read while the suite runs
)

// Options say how a suite is followed.
type Options struct {
	Environ []string // for the place of temporary files
	Dir     string
	Limit   time.Duration // of one test with its fixtures; 0: none
	Only    []string      // run these tests alone; nil: all
	Default string        // device that the suite's own tensors are made on where they name none; "": as PyTorch has it
	// Stopped says whether the user has asked for the end: nothing is started once more then.
	Stopped func() bool
	Say     func(string) // a line about a process that is started once more
	Now     func() time.Time
}

// Supervisor follows the tests of one suite on one device, from outside its processes: where one of them ends or hangs,
// pytest goes on without it. probe.Suite describes its part in a run.
type Supervisor struct {
	o        Options
	folder   *file.Folder
	mu       sync.Mutex
	journal  *journal
	offset   int64
	restarts int
	status   int // pytest's own worst
	missing  string
}

// NewSupervisor makes one; Close removes its files.
func NewSupervisor(o Options) (*Supervisor, error) {
	folder, err := file.Temp(o.Environ, o.Dir, "suite")
	if err != nil {
		return nil, fmt.Errorf("follow the tests: %w", err)
	}
	s := &Supervisor{o: o, folder: folder, journal: newJournal()}
	err = s.write("skip.json", []string{})
	if err == nil && o.Only != nil {
		err = s.write("only.json", o.Only)
	}
	if err != nil {
		folder.Remove()
		return nil, fmt.Errorf("follow the tests: %w", err)
	}
	return s, nil
}

// Close removes its files.
func (s *Supervisor) Close() { s.folder.Remove() }

func (s *Supervisor) path(name string) string { return filepath.Join(s.folder.Path, name) }

func (s *Supervisor) write(name string, ids []string) error {
	data, err := json.Marshal(ids)
	if err == nil {
		err = os.WriteFile(s.path(name), data, 0o600)
	}
	return err
}

// Settings are what the agent is told, below "suite" in its configuration.
func (s *Supervisor) Settings() map[string]any {
	settings := map[string]any{"journal": s.path("journal"), "skip": s.path("skip.json")}
	if s.o.Only != nil {
		settings["only"] = s.path("only.json")
	}
	if s.o.Default != "" {
		settings["default"] = map[string]string{"module": "torch", "device": s.o.Default}
	}
	return settings
}

// Follow reads what the tests of a process tell until it has ended, and ends those that go beyond the limit.
func (s *Supervisor) Follow(p launch.Process) {
	s.folder.Leave(p.PID())
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.Ended():
			s.read()
			return
		case <-tick.C:
			s.read()
			s.endHung(p)
		}
	}
}

// read takes what was appended to the journal.
func (s *Supervisor) read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.path("journal"))
	if err != nil {
		return // no test has told anything yet
	}
	defer f.Close()
	if _, err := f.Seek(s.offset, io.SeekStart); err != nil {
		return
	}
	piece := make([]byte, 256<<10)
	for {
		n, err := f.Read(piece)
		s.offset += int64(n)
		s.journal.add(piece[:n], s.o.Now())
		if err != nil {
			return
		}
	}
}

// endHung ends the processes whose test goes on beyond the limit: xdist's worker, which xdist then replaces, or pytest
// itself.
func (s *Supervisor) endHung(p launch.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.journal.running {
		if s.o.Limit > 0 && s.o.Now().Sub(r.since) > s.o.Limit && r.hung == 0 {
			s.journal.hung(id, s.o.Limit)
			if r.pid == p.PID() || r.worker == "" {
				p.Signal(syscall.SIGKILL)
			}
			if r.pid != p.PID() && r.pid > 1 {
				_ = syscall.Kill(r.pid, syscall.SIGKILL)
			}
		}
	}
}

// Again is asked when a process of the command has ended, and says whether it is to be started once more: where a test
// has ended it, and others are left.
func (s *Supervisor) Again(ending launch.Ending) bool {
	s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journal
	fresh := len(j.running)
	because := "a test ended pytest's process (" + how(ending) + ")"
	for id, r := range j.running {
		if r.hung > 0 {
			because = "a test had no end within " + r.hung.String()
		}
		j.gone(id, how(ending))
	}
	if j.ended != nil {
		s.worst(*j.ended)
		return false
	}
	s.worst(ending.Exit)
	left := len(j.collected)
	for _, id := range j.collected {
		if j.tests[id] != nil {
			left--
		}
	}
	switch {
	case len(j.collected) == 0:
		s.missing = "pytest ended before it had collected the tests: " + how(ending)
	case s.o.Stopped != nil && s.o.Stopped():
		s.missing = "it was ended by a signal"
	case left == 0:
	case fresh == 0:
		s.missing = "pytest ended between two tests: " + how(ending)
	case j.maxFail > 0 && j.failures() >= j.maxFail:
		s.missing = fmt.Sprintf("pytest was to end after %d failures", j.maxFail)
	case s.restarts >= MaxRestarts:
		s.missing = fmt.Sprintf("tests ended pytest's process more than %d times", MaxRestarts)
	default:
		if err := s.write("skip.json", j.over()); err != nil {
			s.missing = "pytest could not go on without the tests that are over: " + err.Error()
			return false
		}
		s.restarts++
		if s.o.Say != nil {
			s.o.Say(fmt.Sprintf("%s: going on with the other %d", because, left))
		}
		return true
	}
	return false
}

// worst keeps the worst of pytest's statuses: one that is none of pytest's is that of a process which a test has ended,
// and counts as failed tests do.
func (s *Supervisor) worst(status int) {
	if status > 5 || status < 0 {
		status = 1
	}
	if status == 5 && s.status != 0 {
		return // no tests were left after those that ended it
	}
	s.status = max(s.status, status)
}

// how says how a process ended.
func how(e launch.Ending) string {
	if e.Signal == syscall.SIGKILL {
		return "its process ended by SIGKILL, as the kernel ends one where memory runs out"
	}
	if e.Signal != 0 {
		return "its process ended by " + launch.SignalName(e.Signal)
	}
	return fmt.Sprintf("its process ended with status %d", e.Exit)
}

// Into puts what the tests came to into a run.
func (s *Supervisor) Into(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Tests, r.Status, r.Missing = s.journal.all(), s.status, s.missing
	notRun, modules := 0, 0
	for _, t := range r.Tests {
		if t.Outcome == NotRun {
			notRun++
		}
		if t.Phase == Collecting {
			modules++
		}
	}
	if notRun > 0 && r.Missing == "" {
		r.Missing = "pytest ended before them"
		if modules > 0 {
			r.Missing = "pytest runs none where a module cannot be collected; with --continue-on-collection-errors it does"
		}
	}
	if s.journal.lost > 0 && r.Missing == "" {
		r.Missing = fmt.Sprintf("%d lines of what the tests told were too long or too many", s.journal.lost)
	}
	if notRun > 0 {
		r.Missing = fmt.Sprintf("%d tests were not run: %s", notRun, r.Missing)
	}
}

// Root is pytest's rootdir; "" where no test was collected.
func (s *Supervisor) Root() string { return s.journal.root }

// ToAskCPU are the ids of the tests whose outcome on the CPU says something: they failed here, or took their process
// with them.
func ToAskCPU(tests []Test) []string {
	ids := []string{}
	for _, t := range tests {
		if t.Outcome.fails() {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// OnCPU takes over how tests came out on the CPU; namesMPS says of a message whether it asks for MPS by name, which a
// CPU cannot answer. A test that has no outcome there stays without one.
func (r *Run) OnCPU(cpu *Run, namesMPS func(text string) bool) {
	there := map[string]*Test{}
	for i := range cpu.Tests {
		there[cpu.Tests[i].ID] = &cpu.Tests[i]
	}
	for i := range r.Tests {
		t := there[r.Tests[i].ID]
		if r.Tests[i].Phase == Collecting && t == nil && len(cpu.Tests) > 0 {
			r.Tests[i].CPU = Passed // it was collected there
		}
		if t == nil || r.Tests[i].Outcome == NotRun || t.Outcome == NotRun {
			continue
		}
		if t.Outcome == Failed && namesMPS(t.Error+": "+t.Text) {
			continue
		}
		r.Tests[i].CPU = t.Outcome
	}
}
