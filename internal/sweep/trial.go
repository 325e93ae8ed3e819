// Package sweep finds the largest batch that trains, where the throughput stops growing, and what would let a larger
// one in: trials of an unmodified script, each a run of its own.
//
//	search.go   which batch comes next: a bracket, a line through the peaks, halves. Pure
//	trial.go    what a run came to: how it ended, what it held, how fast it was
//	plan.go     which trial comes next, from the trials so far: a sweep that was stopped goes on by that alone. Pure
//	growth.go   memory that grows from step to step, and lengths that vary. Pure
//	answer.go   the largest batch, the knee, the recommended one; what each remedy buys
//	sweep.go    makes the trials one after another, and keeps them in a file
package sweep

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// What a trial can come to beside the endings of its process.
const (
	EndedUntrained  EndingKind = "untrained" // no training step was seen
	EndedOtherBatch EndingKind = "batch"     // the steps had another batch than was asked for
)

// Ask is a trial that is to be made.
type Ask struct {
	For      string   `json:"for"`            // search, again, proof, knee, remedy
	Batch    int      `json:"batch"`          // rows; 0: as the script has it
	Cell     string   `json:"cell,omitempty"` // value of the grid's parameter
	Remedy   string   `json:"remedy,omitempty"`
	Steps    int      `json:"steps"`
	Longest  bool     `json:"longest,omitempty"`  // the longest batch of the data first
	Remedies []string `json:"remedies,omitempty"` // that the agent switches on
	// Accumulate batches make one update; the rows of an update stay.
	Accumulate int `json:"accumulate,omitempty"`
	// Data: a rehearsal computes values, since with shapes alone one failed.
	Data bool   `json:"data,omitempty"`
	Why  string `json:"why"` // for a reader: where the batch comes from
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
	Data        bool   // it was rehearsed with data
}

// Trial is a trial that was made. A pointer that is nil: not known.
type Trial struct {
	Ask
	Number int        `json:"number"` // from 1
	Ending EndingKind `json:"ending"`
	Text   string     `json:"text,omitempty"`    // what a reader must know of the ending
	Peak   *float64   `json:"peak,omitempty"`    // bytes that the allocator held at most; without one resident
	PeakOf string     `json:"peak_of,omitempty"` // the figure that it is
	Live   *float64   `json:"live,omitempty"`    // bytes of tensors at most
	// Fixed is what of Live weights, gradients and the optimizer's state were, bytes: no more rows make it more. nil:
	// nobody kept account
	Fixed *float64 `json:"fixed,omitempty"`
	// Needs is what the allocator would have held had it given what it refused, bytes: the batch needs that at least.
	Needs   *float64 `json:"needs,omitempty"`
	Limit   *float64 `json:"limit,omitempty"` // bytes that the allocator may hold, as this trial says it
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
	// Evaluated and Saved are whether an evaluation and the saving of a checkpoint came in it; nil: that was not looked
	// for.
	Evaluated *bool   `json:"evaluated,omitempty"`
	Saved     *bool   `json:"saved,omitempty"`
	Growth    *Growth `json:"growth,omitempty"` // memory that grew from step to step; nil: none was seen to
	Varied    bool    `json:"varied,omitempty"` // the batches differed in more than their rows
	// Reordered: rows of the data have several lengths, and the agent put the longest first.
	Reordered bool `json:"reordered,omitempty"`
}

// leastSteps is how many training steps show that a batch trains: the optimizer makes its state in the first.
const leastSteps = 2

// judge makes a trial of what was seen.
func judge(ask Ask, byAgent bool, seen Seen, high func(*evidence.Run) (bytes float64, by string)) Trial {
	t := Trial{Ask: ask, Run: seen.Folder, Ending: EndedWell}
	t.Data = ask.Data || seen.Data
	if seen.Interrupted {
		t.Ending, t.Text = EndedByPerson, "stopped before its end"
		return t
	}
	run := seen.Run
	t.read(run)
	if high != nil {
		if bytes, by := high(run); bytes > 0 {
			t.Limit, t.LimitBy = &bytes, by
		}
	}
	run, counted := t.withoutCounted(run)
	end := EndingOf(run, seen.Exit, seen.Signal, seen.Tail)
	if end.Limit > 0 && (t.Limit == nil || math.Abs(*t.Limit/end.Limit-1) > rounded) {
		t.Limit, t.LimitBy = &end.Limit, "the allocator's own text"
	}
	t.Ending, t.Text = end.Kind, end.Reason
	if needs := neededBytes(end.Reason); end.Kind == EndedByMemory && needs > 0 {
		t.Needs = &needs
	}
	if t.Ending == EndedByTime && t.Trained >= leastSteps { // time enough to see what it needs
		t.Ending = EndedWell
	}
	if t.Ending != EndedWell {
		return t
	}
	if text := t.unchanged(byAgent); text != "" {
		t.Ending, t.Text = EndedOtherBatch, text
		return t
	}
	if text := t.otherBatch(run); text != "" {
		t.Ending, t.Text = EndedOtherBatch, text
		return t
	}
	switch {
	case t.Trained == 0:
		t.Ending = EndedUntrained
		t.Text = "no training step was seen: " + cmp.Or(run.Outcome.Reason, "the script ended without one")
	case t.Trained < leastSteps:
		t.Text = "one step alone: what later ones need is not seen"
	case counted > 0:
		t.Text = fmt.Sprintf("the allocator refused %d requests, and no step was lost: most likely a library asked for "+
			"less then, as cuDNN does of another algorithm's workspace", counted)
	}
	return t
}

// withoutCounted is a run without what CUDA's allocator counted as refused and no exception was seen of, where every
// step that was asked for was taken all the same; and how many that were. A convolution of cuDNN's tries one
// algorithm after the other, and a refused workspace ends none of them.
func (t *Trial) withoutCounted(run *evidence.Run) (*evidence.Run, int) {
	if t.Trained < t.Steps {
		return run, 0
	}
	without, counted := *run, 0
	without.OutOfMemory = nil
	for _, o := range run.OutOfMemory {
		if o.Where == "" && strings.Contains(o.Text, "num_ooms") { // agent: watch/torch/exhausted.py
			counted += o.Count
			continue
		}
		without.OutOfMemory = append(without.OutOfMemory, o)
	}
	return &without, counted
}

// rounded is how far the limit in an allocator's text, of two decimals, may be from the one that is known otherwise
// and still be the same, as a part of it.
const rounded = 0.01

// read takes over what the evidence has.
func (t *Trial) read(run *evidence.Run) {
	value := func(name string) *float64 { return run.Figure(name).Value }
	for _, name := range []string{"memory.pool.peak", "memory.live.peak", "memory.footprint.peak",
		"memory.resident.peak"} {
		if v := value(name); v != nil && *v > 0 {
			t.Peak, t.PeakOf = v, name
			break
		}
	}
	// PyTorch's allocator on MPS keeps no peaks: what was read of its tensors, where backward passes began, is none.
	peaks := run.Target.Device != evidence.OnMPS || run.Target.Framework != "torch" && run.Target.Backend != "torch"
	if strings.HasPrefix(t.PeakOf, "memory.pool") && peaks {
		t.Live = value("memory.live.peak")
	}
	if w := value("memory.watermark"); w != nil && *w > 0 && t.Peak != nil {
		limit := *t.Peak / *w
		t.Limit, t.LimitBy = &limit, "memory.watermark"
	}
	if r := run.Rehearsal; r != nil && r.Memory != nil && r.Memory.AllocatedPeak > 0 { // an account of every moment
		peak, live := float64(r.Memory.Peak), float64(r.Memory.AllocatedPeak)
		k := r.Memory.Kinds
		fixed := float64(k.Weights + k.Gradients + k.Optimizer)
		t.Peak, t.PeakOf, t.Live, t.Fixed = &peak, "rehearsal.memory.peak", &live, &fixed
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
	t.Levers, t.Reordered = answered(run), reordered(run)
	t.Growth, t.Varied = growthOf(run), variedShapes(run)
	switch {
	case run.Reached != nil:
		t.Evaluated, t.Saved = &run.Reached.Evaluated, &run.Reached.Saved
	case run.Rehearsal != nil && run.Rehearsal.Memory != nil:
		t.Evaluated, t.Saved = &run.Rehearsal.Memory.Evaluated, &run.Rehearsal.Memory.Saved
	}
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
	for _, l := range run.Levers {
		words := l.Lever + ": "
		if !l.Done {
			words += "not done: "
		}
		words += strings.Trim(l.Where+": "+l.Why, ": ")
		if l.From != 0 || l.To != 0 {
			words += fmt.Sprintf(": %d to %d", l.From, l.To)
		}
		list = append(list, oneLine(words))
	}
	return list
}

// reordered reports whether the agent put longer rows before shorter ones.
func reordered(run *evidence.Run) bool {
	return slices.ContainsFunc(run.Levers, func(l evidence.Lever) bool {
		return l.Lever == "longest" && l.Done && l.From != l.To
	})
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

// Bytes of the peak for a reader.
func (t *Trial) peakText() string {
	if t.Peak == nil {
		return "unknown"
	}
	return unit.Bytes(*t.Peak)
}
