// Package sweep finds the largest batch that trains, where the throughput stops growing, and what would let a larger
// one in: trials of an unmodified script, each a run of its own.
//
//	search.go   which batch comes next: a bracket, a line through the peaks, halves. Pure
//	trial.go    what a run came to: how it ended, what it held, how fast it was
//	plan.go     which trial comes next, from the trials so far: a sweep that was stopped goes on by that alone. Pure
//	answer.go   the largest batch, the knee, the recommended one; what each remedy buys
//	sweep.go    makes the trials one after another, and keeps them in a file
package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"assay/internal/evidence"
	"assay/internal/secret"
	"assay/internal/unit"
)

// How a trial ended.
const (
	Fits        = "ok"          // it trained its steps
	OutOfMemory = "memory"      // it ran out of memory, whether or not the script went on after that
	Crashed     = "crash"       // it failed otherwise
	Swapped     = "swap"        // it trained, and the machine swapped: that is no room for the batch
	OutOfTime   = "time"        // the time for a trial was over before its steps were
	Interrupted = "interrupted" // somebody stopped it: it says nothing
	Untrained   = "untrained"   // no training step was seen
	OtherBatch  = "batch"       // the steps had another batch than was asked for
)

// Ask is a trial that is to be made.
type Ask struct {
	For      string   `json:"for"`            // search, again, proof, knee, remedy
	Batch    int      `json:"batch"`          // rows; 0: as the script has it
	Cell     string   `json:"cell,omitempty"` // value of the grid's parameter
	Remedy   string   `json:"remedy,omitempty"`
	Steps    int      `json:"steps"`
	Longest  bool     `json:"longest,omitempty"`  // the longest batch of the data first, an evaluation and a save
	Remedies []string `json:"remedies,omitempty"` // that the agent switches on
	// Accumulate batches make one update; the rows of an update stay.
	Accumulate int    `json:"accumulate,omitempty"`
	Why        string `json:"why"` // for a reader: where the batch comes from
}

// What a trial is for.
const (
	ForSearch = "search"
	ForAgain  = "again" // its batch failed, and others say that it should not
	ForProof  = "proof" // of the largest batch: longer
	ForKnee   = "knee"
	ForRemedy = "remedy"
)

// Seen is what came of a trial.
type Seen struct {
	Run         *evidence.Run
	Exit        int
	Signal      syscall.Signal
	Tail        string // the end of what the script wrote to standard error
	Folder      string // of the run
	Interrupted bool   // somebody wanted the sweep to stop
}

// Trial is a trial that was made. A pointer that is nil: not known.
type Trial struct {
	Ask
	Number  int      `json:"number"` // from 1
	Ending  string   `json:"ending"`
	Text    string   `json:"text,omitempty"`    // what a reader must know of the ending
	Peak    *float64 `json:"peak,omitempty"`    // bytes that the device's allocator held at most; without one resident
	PeakOf  string   `json:"peak_of,omitempty"` // the figure that it is
	Live    *float64 `json:"live,omitempty"`    // bytes of tensors at most
	Limit   *float64 `json:"limit,omitempty"`   // bytes that the allocator may hold, as this trial says it
	LimitBy string   `json:"limit_by,omitempty"`
	Rows    *int     `json:"rows,omitempty"`     // of the batches that were seen in training steps
	Trained int      `json:"trained"`            // training steps
	Step    *float64 `json:"step,omitempty"`     // s
	StepLow *float64 `json:"step_low,omitempty"` // s, first quartile
	StepTop *float64 `json:"step_high,omitempty"`
	Rate    *float64 `json:"rate,omitempty"` // rows a second
	// Split is the share of a step by phase, ratio.
	Split   map[string]float64 `json:"split,omitempty"`
	Swap    *float64           `json:"swap,omitempty"`    // bytes in use at most, machine-wide
	Workers *int               `json:"workers,omitempty"` // of the loader that trained
	Seeds   []string           `json:"seeds,omitempty"`   // as the script set them, in words
	Loss    []*float64         `json:"loss,omitempty"`    // step by step
	Items   *int               `json:"items,omitempty"`   // of the training data: no batch has more rows
	Run     string             `json:"run,omitempty"`     // folder of the run
	Seconds float64            `json:"seconds"`           // that it took in all
	Aside   bool               `json:"aside,omitempty"`   // it ended the search, and was made again later
	Levers  []string           `json:"levers,omitempty"`  // what the agent says of what it was to switch on
}

// leastSteps is how many training steps show that a batch trains: the optimizer makes its state in the first.
const leastSteps = 2

// judge makes a trial of what was seen.
func judge(ask Ask, byAgent bool, seen Seen, high func(*evidence.Run) (bytes float64, by string)) Trial {
	t := Trial{Ask: ask, Run: seen.Folder, Ending: Fits}
	if seen.Interrupted {
		t.Ending, t.Text = Interrupted, "stopped before its end"
		return t
	}
	run := seen.Run
	t.read(run)
	if high != nil {
		if bytes, by := high(run); bytes > 0 {
			t.Limit, t.LimitBy = &bytes, by
		}
	}
	end := endedBy(run, seen.Exit, seen.Signal, seen.Tail)
	if end.limit > 0 && (t.Limit == nil || math.Abs(*t.Limit/end.limit-1) > rounded) {
		t.Limit, t.LimitBy = &end.limit, "the allocator's own text"
	}
	t.Ending, t.Text = end.kind, end.text
	if t.Ending != Fits {
		return t
	}
	if text := t.otherBatch(run); text != "" {
		t.Ending, t.Text = OtherBatch, text
		return t
	}
	if text := t.unchanged(byAgent); text != "" {
		t.Ending, t.Text = OtherBatch, text
		return t
	}
	switch {
	case t.Trained == 0:
		t.Ending, t.Text = Untrained, "no training step was seen: "+cmp.Or(run.Outcome.Reason, "the script ended without one")
	case t.Trained < ask.Steps && strings.Contains(run.Outcome.Stopped, "--for"),
		t.Trained < ask.Steps && strings.HasPrefix(run.Outcome.Stopped, "assay sent"):
		if t.Trained < leastSteps {
			t.Ending = OutOfTime
		}
		t.Text = fmt.Sprintf("%d of %d steps in the time for a trial", t.Trained, ask.Steps)
	case t.Trained < leastSteps:
		t.Text = "one step alone: what later ones need is not seen"
	case strings.Contains(run.Figure("step.time").Disturbed, "swap"):
		t.Ending, t.Text = Swapped, run.Figure("step.time").Disturbed
	}
	return t
}

// rounded is how far the limit in an allocator's text, of two decimals, may be from the one that is known otherwise
// and still be the same, as a part of it.
const rounded = 0.01

// read takes over what the evidence has.
func (t *Trial) read(run *evidence.Run) {
	value := func(name string) *float64 { return run.Figure(name).Value }
	for _, name := range []string{"memory.pool.peak", "memory.live.peak", "memory.footprint.peak", "memory.resident.peak"} {
		if v := value(name); v != nil && *v > 0 {
			t.Peak, t.PeakOf = v, name
			break
		}
	}
	if strings.HasPrefix(t.PeakOf, "memory.pool") {
		t.Live = value("memory.live.peak")
	}
	if w := value("memory.watermark"); w != nil && *w > 0 && t.Peak != nil {
		limit := *t.Peak / *w
		t.Limit, t.LimitBy = &limit, "memory.watermark"
	}
	if n := len(run.Steps.Number); n > 0 {
		t.Trained = run.Steps.Number[n-1]
	}
	step := run.Figure("step.time")
	t.Step, t.StepLow, t.StepTop, t.Rate = step.Value, step.Low, step.High, value("samples.rate")
	t.Swap = value("swap.used.peak")
	for _, f := range run.Figures {
		if phase, ok := strings.CutPrefix(f.Name, "share."); ok && f.Known() && len(f.Labels) == 0 {
			if t.Split == nil {
				t.Split = map[string]float64{}
			}
			t.Split[phase] = *f.Value
		}
	}
	for _, s := range run.Provenance.Randomness {
		if s.State != evidence.Default {
			t.Seeds = append(t.Seeds, s.Words())
		}
	}
	for i, v := range run.Loss.Value {
		if i == mostLosses {
			break
		}
		t.Loss = append(t.Loss, v)
	}
	t.Levers = answered(run)
	t.Rows = rowsOf(run)
	for _, d := range run.Provenance.Datasets {
		if t.Workers == nil || t.Rows != nil && d.Batch == *t.Rows {
			w := d.Workers
			t.Workers = &w
		}
	}
	for _, d := range run.Provenance.Datasets {
		if d.Batch == t.Batch && d.Length > 0 && (t.Items == nil || d.Length > *t.Items) {
			n := d.Length
			t.Items = &n
		}
	}
	if t.Rate == nil && t.Rows != nil && t.Step != nil && *t.Step > 0 {
		rate := float64(*t.Rows) / *t.Step // of what no loader made
		t.Rate = &rate
	}
}

// mostLosses is how many losses a trial keeps.
const mostLosses = 200

var firstDimension = regexp.MustCompile(`\[(\d+)[,\]]`)

// rowsOf is how many rows most of the batches had that entered the model, as the first dimension of the first tensor
// tells; where no model was seen, what the loader says. nil: neither.
func rowsOf(run *evidence.Run) *int {
	calls := map[int]int{}
	best := 0
	for _, s := range run.Shapes {
		m := firstDimension.FindStringSubmatch(s.Inputs)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		calls[n] += s.Steps
		if best == 0 || calls[n] > calls[best] || calls[n] == calls[best] && n > best {
			best = n
		}
	}
	if best > 0 {
		return &best
	}
	for _, d := range run.Provenance.Datasets {
		if d.Batch > 0 {
			n := d.Batch
			return &n
		}
	}
	return nil
}

// otherBatch says how the batches of the training steps were not those that were asked for; "" where they were, or
// where nothing is known of them. A loader says it first: a model may see several rows of each, or them one by one.
func (t *Trial) otherBatch(run *evidence.Run) string {
	if t.Batch == 0 {
		return ""
	}
	var loaders []int
	for _, d := range run.Provenance.Datasets {
		if d.Batch > 0 {
			loaders = append(loaders, d.Batch)
		}
	}
	want := t.Batch
	if t.Accumulate > 1 {
		want /= t.Accumulate
	}
	byLoader := slices.Contains(loaders, want)
	switch {
	case t.Rows == nil, *t.Rows == want:
		return ""
	case byLoader && t.Items != nil && *t.Items < want:
		return fmt.Sprintf("the data has %d rows, and a batch of %d was asked for", *t.Items, want)
	case byLoader && !slices.Contains(loaders, *t.Rows) && (*t.Rows%want == 0 || *t.Rows > want):
		return "" // several crops, sequences or images of each row
	case byLoader && len(loaders) == 1:
		return "" // packed, or taken apart by the script
	}
	return fmt.Sprintf("most batches that entered the model had %d rows, and %d were asked for", *t.Rows, want)
}

// answered are the agent's answers to what it was to switch on, in words: "batch: DataLoader at train.py:12: 64 to 32",
// "longest: not done: no loader was seen". They are read by their names in JSON.
func answered(run *evidence.Run) (list []string) {
	var doc struct {
		Body struct {
			Levers []struct {
				Lever, Where, Why string
				Done              bool
				From, To          int64
			}
		}
	}
	if data, err := json.Marshal(run); err != nil || json.Unmarshal(data, &doc) != nil {
		return nil
	}
	for _, l := range doc.Body.Levers {
		words := l.Lever + ": "
		if !l.Done {
			words += "not done: "
		}
		words += strings.Trim(l.Where+": "+l.Why, ": ")
		if l.From != 0 || l.To != 0 {
			words += fmt.Sprintf(": %d to %d", l.From, l.To)
		}
		list = append(list, short(words))
	}
	return list
}

// unchanged says that something that the agent was to switch on was not; "" where it was. Of what the proof asks for
// beyond the batch the answer says it.
func (t *Trial) unchanged(byAgent bool) string {
	said := map[string]bool{}
	for _, l := range t.Levers {
		name, rest, _ := strings.Cut(l, ": ")
		said[name] = true
		if why, not := strings.CutPrefix(rest, "not done: "); not && name != "longest" {
			return name + " was not changed: " + why
		}
	}
	asked := slices.Clone(t.Remedies)
	if byAgent && t.Batch > 0 {
		asked = append(asked, "batch")
	}
	if t.Accumulate > 1 {
		asked = append(asked, "accumulate")
	}
	for _, name := range asked {
		if !said[name] && t.Trained > 0 {
			return name + " was not changed: the agent did not say that it changed it"
		}
	}
	return ""
}

// ended is how a trial ended, as its texts and its status tell.
type ended struct {
	kind, text string
	limit      float64 // bytes that the text says the allocator may hold; 0: it does not
}

// memoryTexts are what frameworks and systems say when memory is out: PyTorch's MPSAllocator and CUDACachingAllocator,
// its CPU allocator, MLX's metal::malloc, and C++.
var memoryTexts = regexp.MustCompile(`(?i)MPS backend out of memory|CUDA out of memory|OutOfMemoryError|` +
	`CUDA error: out of memory|can't allocate memory|\[metal::malloc\]|Insufficient Memory|std::bad_alloc|` +
	`Invalid buffer size|RESOURCE_EXHAUSTED|MemoryError`)

var allowedTexts = []*regexp.Regexp{
	regexp.MustCompile(`max allowed: ([\d.]+) (bytes|B|[KMGT]i?B)`), // MPSAllocator.mm
	regexp.MustCompile(`([\d.]+) (bytes|B|[KMGT]i?B) allowed`),      // CUDACachingAllocator.cpp, under a fraction
}

// endedBy tells the endings of a script apart.
func endedBy(run *evidence.Run, exit int, signal syscall.Signal, tail string) ended {
	texts := []string{run.Outcome.Error, tail}
	refused := ""
	if run.Rehearsal != nil {
		for _, r := range run.Rehearsal.Refusals {
			if r.Cause == "memory" && memoryTexts.MatchString(r.Text) {
				refused = cmp.Or(refused, r.Text)
				texts = append(texts, r.Text)
			}
		}
	}
	limit, said := 0.0, refused
	for _, text := range texts {
		if line := memoryLine(text); line != "" {
			said = cmp.Or(said, line)
		}
		if limit == 0 {
			limit = allowed(text)
		}
	}
	failed := exit != 0 || signal != 0
	switch {
	case said != "" && failed:
		return ended{OutOfMemory, short(said), limit}
	case refused != "" || said != "":
		return ended{OutOfMemory, "the script went on after it: " + short(said), limit}
	case signal == syscall.SIGKILL || exit == 128+int(syscall.SIGKILL):
		if strings.HasPrefix(run.Outcome.Stopped, "assay sent") {
			return ended{OutOfTime, run.Outcome.Stopped, 0}
		}
		return ended{OutOfMemory, "it was killed, as systems do that have no memory left", 0}
	case strings.HasPrefix(run.Outcome.Stopped, "assay sent"):
		return ended{OutOfTime, run.Outcome.Stopped, 0}
	case failed:
		last := strings.TrimSpace(tail)
		if i := strings.LastIndexByte(last, '\n'); i >= 0 {
			last = last[i+1:]
		}
		return ended{Crashed, short(cmp.Or(run.Outcome.Error, last, fmt.Sprintf("status %d", exit))), 0}
	}
	return ended{Fits, "", 0}
}

// memoryLine is the line of a text that says that memory is out; "": none does.
func memoryLine(text string) string {
	for line := range strings.Lines(text) {
		if memoryTexts.MatchString(line) {
			return line
		}
	}
	return ""
}

var sizes = map[byte]float64{'b': 1, 'B': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

// allowed is the limit that an allocator's text names, bytes; 0: none. PyTorch counts in powers of 1024 whether it
// writes GB or GiB.
func allowed(text string) float64 {
	for _, re := range allowedTexts {
		if m := re.FindStringSubmatch(text); m != nil {
			if v, err := strconv.ParseFloat(m[1], 64); err == nil {
				return v * sizes[m[2][0]]
			}
		}
	}
	return 0
}

// short is a stranger's text on one line, without secrets.
func short(s string) string {
	s = strings.Join(strings.Fields(secret.Text(s)), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:299]) + "…"
	}
	return s
}

// Bytes of the peak for a reader.
func (t *Trial) peakText() string {
	if t.Peak == nil {
		return "unknown"
	}
	return unit.Bytes(*t.Peak)
}
