// Package node is the side of assay that works on a host for an assay elsewhere: it takes files in, starts jobs, keeps
// the promise that one training has a GPU at a time, ends what nobody asks for any more, and hands over what it saw.
//
// The assay elsewhere starts `assay node` there, over the user's own ssh or in a Ray task, and speaks with it over its
// standard input and output. A message is one line of JSON, a Request or an Answer, and behind it as many raw bytes as
// its Body says. Requests are answered in their order. What a connection began lives on when the connection ends: jobs
// go on until their lease has run out, and a file of which a part has come is gone on with.
//
// Nothing is believed of the other's clock: leases count seconds of this host's own.
package node

import "time"

// Protocol is the version of the messages; the two sides must have the same.
const Protocol = 1

// Bounds of what is read from the other side.
const (
	MaxLine = 1 << 20 // bytes of a message's line
	MaxBody = 1 << 20 // bytes behind it
	MaxName = 128     // bytes of a job's name: letters, digits, ".", "_" and "-", the first one a letter or a digit
)

// Request asks for one thing: the one field that is set, beside ID and Body.
type Request struct {
	ID   int64 `json:"id"`
	Body int   `json:"body,omitempty"` // raw bytes that follow the line
	// Sent is when a Start or a Renew was asked. One that lay in a stalled link for long is refused: who asked has gone
	// on by then as if it had been lost.
	Sent *Sent `json:"sent,omitempty"`

	Hello  *Hello `json:"hello,omitempty"`
	Facts  *Ask   `json:"facts,omitempty"`
	Put    *Put   `json:"put,omitempty"`    // how much of a file is here; claims it for this connection
	Data   *Data  `json:"data,omitempty"`   // the body goes on with it
	Commit *Put   `json:"commit,omitempty"` // it is whole: verified, synced, and under its name
	Place  *Place `json:"place,omitempty"`  // gives a whole file the name that its user knows it by
	Start  *Job   `json:"start,omitempty"`
	Renew  *Renew `json:"renew,omitempty"`
	States *Which `json:"states,omitempty"`
	Read   *Read  `json:"read,omitempty"`
	Cancel *Which `json:"cancel,omitempty"`
	Forget *Which `json:"forget,omitempty"` // removes jobs that have ended, with their files
}

// Stale is how late a Start or a Renew may come.
const Stale = 10 * time.Second

// Sent is a time in the asker's clock, which the two sides share by a Hello: its ID, one of the last that were
// answered, and the seconds that went by since its answer came.
type Sent struct {
	Hello int64   `json:"hello"`
	After float64 `json:"after"`
}

// Answer is what a Request came to: Error, or the field of the same name.
type Answer struct {
	ID    int64  `json:"id"`
	Body  int    `json:"body,omitempty"`
	Error string `json:"error,omitempty"` // what was done, to what, why
	Hint  string `json:"hint,omitempty"`  // what to do next
	Busy  bool   `json:"busy,omitempty"`  // the error is that another has it now: the same may do later

	Hello  *Hello  `json:"hello,omitempty"`
	Facts  *Facts  `json:"facts,omitempty"`
	Put    *Have   `json:"put,omitempty"` // of Put, Data, Commit and Place
	States []State `json:"states,omitempty"`
	Read   *Piece  `json:"read,omitempty"` // the body is the piece
}

// Hello says who speaks.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`        // of assay
	System   string `json:"system"`         // runtime.GOOS/GOARCH
	Boot     string `json:"boot,omitempty"` // tells one start of the host from the next; "": not known
	Root     string `json:"root,omitempty"` // folder of the node's files
}

// Ask names what facts are asked about.
type Ask struct {
	Paths  []string `json:"paths,omitempty"`  // folders whose mount and free space matter
	Python string   `json:"python,omitempty"` // interpreter that jobs are to have; "": none is asked about
}

// Facts is what a host is like, now. What is not known is nil or "".
type Facts struct {
	Host      string    `json:"host"`                // its own name
	Chip      string    `json:"chip,omitempty"`      // "Apple M2 Pro"
	Memory    int64     `json:"memory,omitempty"`    // bytes
	Available *int64    `json:"available,omitempty"` // bytes of it that a program could take now
	GPU       string    `json:"gpu,omitempty"`       // name of the device that trainings take
	GPUMemory *int64    `json:"gpu_memory,omitempty"`
	Device    string    `json:"device"`          // cpu, mps, cuda: what a job with Device auto takes
	Power     string    `json:"power,omitempty"` // mains, battery
	LowPower  *bool     `json:"low_power,omitempty"`
	Thermal   string    `json:"thermal,omitempty"`
	Load      *float64  `json:"load,omitempty"` // processes that run or wait, mean of a minute
	CPUs      int       `json:"cpus"`
	DiskFree  *int64    `json:"disk_free,omitempty"` // bytes, where Root lies
	Clock     time.Time `json:"clock"`
	Holds     string    `json:"holds,omitempty"` // job that has the GPU now; "": it is free
	More      []Fact    `json:"more,omitempty"`  // everything that the host room says, as in evidence
}

// Fact is one of evidence's facts about the host.
type Fact struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Source  string `json:"source,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// Put names a file by the SHA-256 of its bytes, hexadecimal. Where it is whole it lies at Root/blobs/SHA256.
type Put struct {
	Sum  string `json:"sum"`
	Size int64  `json:"size"` // bytes
}

// Data goes on with a file at an offset, which must be what is there of it.
type Data struct {
	Sum string `json:"sum"`
	At  int64  `json:"at"`
}

// Have is how much of a file is there.
type Have struct {
	Size  int64  `json:"size"`           // bytes
	Whole bool   `json:"whole"`          // all, and verified
	Path  string `json:"path,omitempty"` // of a whole one
}

// Place moves a file that is whole in Root/blobs to where its user looks for it. What lies there with the same bytes is
// left as it is; a file with others stays, and is an error, unless Force. Where the bytes are in neither place the
// answer is not whole.
type Place struct {
	Sum   string `json:"sum"`
	Size  int64  `json:"size"`  // bytes
	To    string `json:"to"`    // path; "~/" is the user's home, and what is relative begins there
	Force bool   `json:"force"` // takes the place of a file with other bytes
}

// Job is a run to be made. The same name is started once, however often it is asked for.
type Job struct {
	Name    string   `json:"name"`              // of its own; an attempt has another than the one before
	Owner   string   `json:"owner"`             // of the queue that it comes from
	Command []string `json:"command"`           // words after `assay run --`
	Flags   []string `json:"flags,omitempty"`   // of `assay run` before them, without --out and --logbook
	Environ []string `json:"environ,omitempty"` // NAME=value, beside what the host's own user has
	Code    string   `json:"code,omitempty"`    // SHA-256 of a snapshot that was put here; "": none
	Dir     string   `json:"dir,omitempty"`     // folder within it to run in, relative
	Python  string   `json:"python,omitempty"`  // interpreter; "~/" is the user's home
	Device  string   `json:"device"`            // what it holds while it runs: gpu, or cpu for nothing
	Lease   float64  `json:"lease"`             // seconds without a Renew after which it is ended
	Limit   float64  `json:"limit,omitempty"`   // seconds that it may run; 0: no limit
}

// Phases of a job.
const (
	Waiting = "waiting" // for the device, which another job holds
	Running = "running"
	Ended   = "ended" // its command has ended, by itself or by us: Exit, Signal and Why tell
	Lost    = "lost"  // nobody keeps it any more: killed, or the host restarted; what is left of it was ended
)

// State is how a job stands.
type State struct {
	Name   string `json:"name"`
	Owner  string `json:"owner"`
	Phase  string `json:"phase"` // "": no such job here
	Exit   *int   `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"`
	// Why assay ended it: Cancelled, LeaseOut, …, or what Cancel said; or why it is lost.
	Why   string           `json:"why,omitempty"`
	Error string           `json:"error,omitempty"` // it could not be started
	Ran   float64          `json:"ran"`             // seconds, of this host's clock that does not jump
	Left  float64          `json:"left"`            // seconds of its lease
	Began time.Time        `json:"began"`           // by this host's clock, which may be wrong
	Files map[string]int64 `json:"files,omitempty"` // what can be read of it, and how long it is by now, bytes
	// Holder is the job that has the device which this one waits for.
	Holder  string   `json:"holder,omitempty"`
	Trouble []string `json:"trouble,omitempty"` // what of it could not be kept or ended
}

// Names of a job's files beside those of its run's folder (events.jsonl, evidence.json, report.html, trace.json.gz).
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Which names jobs; none: all of the owner's; no owner either: all.
type Which struct {
	Owner string   `json:"owner,omitempty"`
	Names []string `json:"names,omitempty"`
	Why   string   `json:"why,omitempty"` // of Cancel
}

// Renew gives jobs their lease anew.
type Renew struct {
	Names []string `json:"names"`
}

// Read asks for a piece of a job's file.
type Read struct {
	Name string `json:"name"`
	File string `json:"file"`
	At   int64  `json:"at"`
	Most int    `json:"most"` // bytes; MaxBody at most
}

// Piece is what came of it.
type Piece struct {
	Size  int64 `json:"size"`  // bytes that the file has by now
	Final bool  `json:"final"` // it grows no more
}

// Client asks a node. Its methods may be called from several goroutines. An error that is a *Gone means that the
// connection is lost, and each later call gives the same; a *Refused is the node's answer, and a *Source says that the
// file to be put could not be read here.
type Client interface {
	Hello() Hello // the node's
	Facts(Ask) (Facts, error)
	// Put brings a file of this size there, gone on with where a part lies there; read reads it at an offset, progress
	// is told of the bytes that are there by now, and may be nil. path is where it lies whole.
	Put(p Put, read func(b []byte, at int64) (int, error), progress func(have int64)) (path string, err error)
	Place(Place) (Have, error)
	Start(Job) (State, error)
	Renew(names ...string) ([]State, error)
	States(Which) ([]State, error)
	Read(Read) ([]byte, Piece, error)
	Cancel(Which) ([]State, error)
	Forget(Which) error
	Close() error
}

// Refused is an answer with an error.
type Refused struct {
	Text, Hint string
	Busy       bool
}

func (r *Refused) Error() string { return r.Text }

// Runs is what a node does about jobs; the connection's server asks it.
type Runs interface {
	Start(Job) (State, error)
	Renew(names []string) ([]State, error)
	States(Which) ([]State, error)
	Read(r Read, into []byte) (n int, p Piece, err error)
	Cancel(Which) ([]State, error)
	Forget(Which) error
}
