package suite

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// journal is what the agents of one suite have told so far, in a file to which they append
// (agent/assay_agent/watch/suite.py describes its lines).
type journal struct {
	tests     map[string]*Test
	running   map[string]running // by ID: begun, and not over
	collected []string           // of the first process that told, and what others have beside it
	known     map[string]bool    // those of collected
	root      string             // pytest's rootdir
	maxFail   int                // after so many pytest ends; 0: never
	ended     *int               // pytest's status; nil: it did not say
	left      []byte             // of a line that is not whole yet
	long      bool               // the line is longer than maxLine: what comes of it is passed over
	lost      int                // lines that were too long, or too many
}

// running is a test that has begun.
type running struct {
	pid    int
	worker string // of xdist; "" where there is none
	since  time.Time
	hung   time.Duration // the limit that it went beyond; 0: it has not
}

func newJournal() *journal {
	return &journal{tests: map[string]*Test{}, running: map[string]running{}, known: map[string]bool{}}
}

// What is kept of a journal, to which any test can write: a line with the ids of 200,000 tests is some 30 MiB.
const (
	maxLine  = 128 << 20 // bytes
	maxID    = 64 << 10  // bytes
	maxTests = 1_000_000
	maxText  = 4000 // bytes of a message: the agent sends 1,000 characters
)

// add takes what was appended to the file, seen now. A line that is none of ours is passed over: tests can write there.
func (j *journal) add(data []byte, now time.Time) {
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !j.long {
			j.left = append(j.left, line...)
		}
		if j.long = j.long || len(j.left) > maxLine; j.long {
			j.left = nil
		}
		if !whole {
			return
		}
		if j.long {
			j.lost++
		} else {
			j.line(j.left, now)
		}
		j.left, j.long, data = j.left[:0], false, rest
	}
}

func (j *journal) line(line []byte, now time.Time) {
	var e struct {
		Collected *[]string `json:"collected"`
		Root      string    `json:"root"`
		MaxFail   int       `json:"maxfail"`
		Start     string    `json:"start"`
		PID       int       `json:"pid"`
		Worker    string    `json:"worker"`
		Down      string    `json:"down"`
		End       *int      `json:"end"`
		Test
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch {
	case e.Collected != nil:
		j.root, j.maxFail = e.Root, e.MaxFail
		for _, id := range *e.Collected {
			if len(id) > maxID || len(j.collected) >= maxTests {
				j.lost++
			} else if !j.known[id] {
				j.known[id] = true
				j.collected = append(j.collected, id)
			}
		}
	case e.Start != "" && len(e.Start) <= maxID && len(j.running) < maxTests:
		j.running[e.Start] = running{pid: e.PID, worker: e.Worker, since: now}
	case e.Down != "":
		for id, r := range j.running {
			if r.worker == e.Down {
				j.gone(id, "the process of xdist's worker "+r.worker+" ended during the test")
			}
		}
	case e.End != nil:
		j.ended = e.End
	case e.ID == "" || e.Outcome == "":
	case len(e.ID) > maxID || len(j.tests) >= maxTests:
		j.lost++
	default:
		delete(j.running, e.ID)
		t := e.Test
		if len(t.Text) > maxText {
			t.Text = strings.ToValidUTF8(t.Text[:maxText], "")
		}
		j.tests[e.ID] = &t
	}
}

// hung notes that a running test has had no end within a limit: it is being ended.
func (j *journal) hung(id string, limit time.Duration) {
	r := j.running[id]
	r.hung = limit
	j.running[id] = r
}

// gone makes a test that was running one that had no end, or ended its process in the way said.
func (j *journal) gone(id, how string) {
	t := &Test{ID: id, Outcome: Ended, Phase: "call", Text: how}
	if limit := j.running[id].hung; limit > 0 {
		t.Outcome, t.Text = Hung, "no end within "+limit.String()+": its process was ended by SIGKILL"
	}
	j.tests[id] = t
	delete(j.running, id)
}

// over are the ids of tests that have an outcome.
func (j *journal) over() []string {
	ids := []string{}
	for id, t := range j.tests {
		if t.Phase != Collecting {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// failures is how many tests count for pytest's maxfail.
func (j *journal) failures() int {
	n := 0
	for _, t := range j.tests {
		if t.Outcome.fails() {
			n++
		}
	}
	return n
}

// all are the tests by id: those that were collected and have no outcome as NotRun.
func (j *journal) all() []Test {
	list := []Test{}
	for _, t := range j.tests {
		list = append(list, *t)
	}
	for _, id := range j.collected {
		if j.tests[id] == nil {
			list = append(list, Test{ID: id, Outcome: NotRun})
		}
	}
	slices.SortFunc(list, func(a, b Test) int { return strings.Compare(a.ID, b.ID) })
	return list
}
