package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"

	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fold"
	"assay/internal/secret"
)

// recorder keeps the events of a run: in the file, and in the fold. Secrets are taken out before either sees them. Its
// methods may be called from several goroutines.
type recorder struct {
	secrets  *secret.Set
	log      *events.Log
	mu       sync.Mutex
	fold     adder
	blamed   []string              // what of the evidence was lost by an error of ours
	stopping chan struct{}         // an agent ends the script, as it was told
	loaders  chan fold.LoaderEvent // as they are met; where nobody reads them, they are passed over
	tell     func(fold.EstimateEvent, Telling)
	last     int  // the last step that an estimate was made from; 0: none was
	next     int  // steps at which the next estimate is made
	warned   bool // of a long epoch
	dir      string
	double   bool
	trace    *table // of the first process that was profiled, which is read while the script goes on
}

// adder is a fold.Fold.
type adder interface {
	events.Sink
	Finish() *evidence.Run
	EndsAlone() *fold.Fold
	Paths() []string
	FailedTests() []string
	Steps() int
	Estimate() (fold.EstimateEvent, bool)
	LongEpoch() float64
	Drawing() string
}

// newRecorder makes one that writes to a new file in dir; with no folder it adds up, and keeps nothing.
func newRecorder(dir string, secrets *secret.Set) (*recorder, error) {
	log, err := events.Create(dir)
	if err != nil {
		return nil, err
	}
	return &recorder{secrets: secrets, log: log, dir: dir, fold: fold.New(), stopping: make(chan struct{}, 1),
		loaders: make(chan fold.LoaderEvent, 64), tell: func(fold.EstimateEvent, Telling) {}}, nil
}

// troubles are what of the evidence could not be kept, and why.
func (r *recorder) troubles() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.blamed)
	if err := r.log.Err(); err != nil {
		all = append(all, fmt.Sprintf("events could not be written: %v", err))
	}
	return all
}

// guard, deferred, makes of a panic of ours a line of evidence: what happens to assay must not happen to the script.
func (r *recorder) guard(doing string) {
	if p := recover(); p != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.blame(doing, p)
	}
}

func (r *recorder) blame(doing string, p any) {
	if why := fmt.Sprintf("%s ended with an error in assay itself: %v", doing, p); !slices.Contains(r.blamed, why) &&
		len(r.blamed) < 20 {
		r.blamed = append(r.blamed, why)
	}
}

// Add takes an event: of an agent, or of our own.
func (r *recorder) Add(connection int, event []byte) {
	if connection != fold.Supervisor {
		r.heed(event)
	}
	kind, _ := fold.KindOf(event)
	r.add(connection, r.secrets.JSON(event))
	if kind == "steps" && connection != fold.Supervisor {
		r.estimate()
	}
}

func (r *recorder) add(connection int, event []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Append(connection, event)
	defer func() {
		if p := recover(); p != nil {
			r.fold.Unreadable()
			r.blame("adding up an event", p)
		}
	}()
	r.fold.Add(connection, event)
}

// Telling is what there is to say of an estimate beside it.
type Telling struct {
	First   bool    // it is the first of the run
	Long    bool    // it is the first that lies above the limit
	Limit   float64 // seconds, above which an epoch is long
	Drawing string  // what draws a progress bar in the script; "": nothing was seen to
}

// estimate makes an estimate as soon as a dozen steps can tell, keeps it among the events and tells it; and again
// whenever the run has twice as many steps.
func (r *recorder) estimate() {
	e, t, ok := r.nextEstimate()
	if !ok {
		return
	}
	r.own("estimate", e)
	go func() { // a terminal may be stopped, and the events go on
		defer r.guard("telling an estimate")
		r.tell(e, t)
	}()
}

func (r *recorder) nextEstimate() (e fold.EstimateEvent, t Telling, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			ok, r.next = false, math.MaxInt
			r.blame("estimating how long the run takes", p)
		}
	}()
	steps := r.fold.Steps()
	if steps < r.next {
		return e, t, false
	}
	if e, ok = r.fold.Estimate(); !ok || e.Last == r.last { // or it is the one that was told
		r.next = steps + 1 + steps/10
		return e, t, false
	}
	t = Telling{First: r.last == 0, Limit: r.fold.LongEpoch(), Drawing: r.fold.Drawing()}
	t.Long = !r.warned && e.Of == "epoch" && e.Seconds > t.Limit
	r.last, r.next, r.warned = e.Last, 2*steps, r.warned || t.Long
	return e, t, true
}

// heed does what an agent's event asks of us while the run goes on.
func (r *recorder) heed(event []byte) {
	switch kind, _ := fold.KindOf(event); kind {
	case "hello":
		var hello struct {
			Argv []string `json:"argv"`
		}
		if json.Unmarshal(event, &hello) == nil {
			r.secrets.Words(hello.Argv) // a process may have been given what the command was not
		}
	case "profile":
		var profile struct {
			File string `json:"file"`
		}
		if json.Unmarshal(event, &profile) == nil && profile.File == firstTrace {
			r.read(profile.File)
		}
	case "stopping":
		select {
		case r.stopping <- struct{}{}:
		default:
		}
	case "loader":
		var loader fold.LoaderEvent
		if json.Unmarshal(event, &loader) == nil {
			select {
			case r.loaders <- loader:
			default:
			}
		}
	}
}

// firstTrace is the file of the first process that is profiled; others write beside it.
const firstTrace = "trace.json"

// read begins to add up a trace that is written. At the end of the run it would be waited for: two seconds of a network
// with many operators.
func (r *recorder) read(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trace == nil && r.dir != "" {
		r.trace = readTrace(r.dir, name, r.double, r.secrets, r.guard)
	}
}

// table is the one that read began, or nil.
func (r *recorder) table() *table {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trace
}

// Unreadable counts a line that is no event.
func (r *recorder) Unreadable() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold.Unreadable()
}

// own adds an event of the supervisor's: the fields of body, which is a struct.
func (r *recorder) own(ev string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		return // a figure that is no JSON number: the sample is left out
	}
	line := append([]byte(`{"ev":"`+ev+`",`), data[1:]...)
	if bytes.HasSuffix(line, []byte(",}")) {
		line = []byte(`{"ev":"` + ev + `"}`)
	}
	r.Add(fold.Supervisor, line)
}

func (r *recorder) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fold.Paths()
}

func (r *recorder) failedTests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fold.FailedTests()
}

// finish adds up. Where that fails, the run has no figures, and how it ended stands.
func (r *recorder) finish() (run *evidence.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Sync()
	defer func() {
		if p := recover(); p != nil {
			r.blame("adding up the events", p)
			run = r.fold.EndsAlone().Finish()
		}
	}()
	return r.fold.Finish()
}
