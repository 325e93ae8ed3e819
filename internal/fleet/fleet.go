// Package fleet works a queue of runs off on several hosts.
//
// A Queue holds tasks, each a run that a user wants once. An attempt is one try of a task on a host; it has a name of
// its own, which is that of the node's job there and of the run's folder here. An Engine asks the queue for attempts,
// has hosts make them, and tells the queue what comes of each. The queue writes each change to its journal, and has
// it on the disk, before it answers: a driver that is killed anywhere and started again finds what it had begun.
//
// An attempt goes through these, and a task is ended by its last attempt:
//
//	Next, Take   it is to be made on a host; after this, and not before, the host may be asked to start it
//	Began        the host has it
//	Append, …    its files come home, into Folder(name)
//	Ended        its command ended there, or assay ended it; or
//	Lost         the host has not answered for so long that its lease must have run out there
//	Home         all of its files that will come are here: it is recorded
//	Settled      the host has forgotten it: nothing more is to be done
//
// Between Ended or Lost and Home, and between Home and Settled, a driver may be killed: Open tells the next which
// attempts stand where (Queue.Open), and each step may be made again.
package fleet

import (
	"context"

	"assay/internal/node"
)

// Engine works a queue off: over SSH, or over Ray.
type Engine interface {
	// Run returns when each task of the queue has ended and each attempt is settled, or when ctx is done and what was
	// under way has been stopped, or left. What became of the tasks is the queue's to tell. The error is about the
	// engine itself: not one host could be reached, the journal cannot be written.
	Run(ctx context.Context, q *Queue) error
}

// Task is a run that a user wants once.
type Task struct {
	Name    string   `json:"name"` // of its own in the queue
	Command []string `json:"command"`
	Flags   []string `json:"flags,omitempty"`   // of `assay run` on the host
	Environ []string `json:"environ,omitempty"` // names of variables whose values the driver has
	Set     []string `json:"set,omitempty"`     // NAME=value, of what is no secret
	Code    string   `json:"code,omitempty"`    // SHA-256 of the snapshot that it runs in; "": none
	Dir     string   `json:"dir,omitempty"`     // folder within it
	Python  string   `json:"python,omitempty"`  // "": the host's
	Device  string   `json:"device"`            // gpu, or cpu: what it holds while it runs
	Limit   float64  `json:"limit,omitempty"`   // seconds that it may run; 0: no limit
	Needs   Needs    `json:"needs,omitzero"`
	Host    string   `json:"host,omitempty"` // only there; "": anywhere that does
	Cell    string   `json:"cell,omitempty"` // "lr=0.1": of a matrix, for people
}

// Needs is what a host must have for a task.
type Needs struct {
	Memory int64    `json:"memory,omitempty"` // bytes
	Chip   string   `json:"chip,omitempty"`   // part of the chip's name, in any case
	Label  string   `json:"label,omitempty"`
	Power  string   `json:"power,omitempty"` // "mains": not on battery; "any"; "": battery is last
	Paths  []string `json:"paths,omitempty"` // that must be there
	Disk   int64    `json:"disk,omitempty"`  // bytes free
	// Excluded has the hosts on which it was foreseen not to fit, and why (--fits).
	Excluded map[string]string `json:"excluded,omitempty"`
}

// Attempt is one try of a task on a host.
type Attempt struct {
	Task   Task
	Name   string // of the node's job, and of the folder of its run here
	Number int    // from 1
	Host   string
}

// Phases of a task. While it is Placed, the last State of its attempt says more.
const (
	Queued    = "queued"    // it waits for a host
	Placed    = "placed"    // an attempt of it is under way
	Done      = "done"      // its command ended with 0
	Failed    = "failed"    // it ended otherwise, or could not be started
	Lost      = "lost"      // hosts were lost, and its retries are used up
	Cancelled = "cancelled" // by fleet cancel
)

// Final reports whether a phase is the end of a task.
func Final(phase string) bool {
	return phase == Done || phase == Failed || phase == Lost || phase == Cancelled
}

// Standing is where an attempt stands that is not settled.
type Standing struct {
	Attempt
	Began  bool        // a host has said that it has it
	Ended  *node.State // its last, where it ended or was lost there
	Lost   string      // why it counts as lost; "": it does not
	Closed bool        // no more of its files is taken: Home was called, and may not have come to its end
	Home   bool        // its files are here and recorded; only the host's are left
	Stop   string      // why it is to be cancelled; "": it is not
}

// Over reports whether nothing of it runs any more, as far as is known.
func (s Standing) Over() bool { return s.Ended != nil || s.Lost != "" }
