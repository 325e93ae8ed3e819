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
}

// running is a test that has begun.
type running struct {
	pid    int
	worker string // of xdist; "" where there is none
	since  time.Time
}

func newJournal() *journal {
	return &journal{tests: map[string]*Test{}, running: map[string]running{}, known: map[string]bool{}}
}

// maxID is the longest id of a test that is kept, bytes.
const maxID = 64 << 10

// add takes what was appended to the file, seen now. A line that is none of ours is passed over: tests can write there.
func (j *journal) add(data []byte, now time.Time) {
	j.left = append(j.left, data...)
	for {
		line, rest, whole := bytes.Cut(j.left, []byte("\n"))
		if !whole {
			return
		}
		j.left = rest
		j.line(line, now)
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
			if !j.known[id] && len(id) <= maxID {
				j.known[id] = true
				j.collected = append(j.collected, id)
			}
		}
	case e.Start != "":
		j.running[e.Start] = running{pid: e.PID, worker: e.Worker, since: now}
	case e.End != nil:
		j.ended = e.End
	case e.ID != "" && len(e.ID) <= maxID && e.Outcome != "":
		delete(j.running, e.ID)
		t := e.Test
		j.tests[e.ID] = &t
	}
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
