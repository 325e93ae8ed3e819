// Package evidence is the waist of assay: the types in which every room says what it knows, and how it knows it.
// Types and their JSON, no logic. docs/formats/evidence.md describes the file, evidence.schema.json is its schema.
package evidence

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Basis says how a figure is known.
type Basis string

const (
	Measured  Basis = "measured"  // read off a clock or a counter during this run, on the device named
	Rehearsed Basis = "rehearsed" // observed on the double
	Predicted Basis = "predicted" // computed by a model from something else
	Derived   Basis = "derived"   // computed from source, binaries or measured figures by a stated rule
	Declared  Basis = "declared"  // said by a person, a file or a program, and taken at its word
)

// Figure is one number with its unit and basis. Units are base units: s, B, B/s, W, Hz, 1/s, ratio (1 = 100 %), 1 (a
// count), level, °C. Exactly one of Value and Missing is set: a figure that is not known has no value and says why.
type Figure struct {
	Name    string   `json:"name"`
	Labels  Labels   `json:"labels,omitempty"` // what tells it apart from others of its name
	Value   *float64 `json:"value,omitempty"`
	Unit    string   `json:"unit"`
	Low     *float64 `json:"low,omitempty"`  // first quartile of the sample
	High    *float64 `json:"high,omitempty"` // third quartile of the sample
	N       int      `json:"n,omitempty"`    // sample size
	Basis   Basis    `json:"basis,omitempty"`
	Window  string   `json:"window,omitempty"` // name of the Window that the sample was taken from
	Note    string   `json:"note,omitempty"`   // what a reader must know to use the figure
	Missing string   `json:"missing,omitempty"`

	// Disturbed says what else on the machine changed the figure while it was taken, and how much of that there was:
	// contention, throttling, swap, power. "" where nothing is known to have.
	Disturbed string `json:"disturbed,omitempty"`
}

// Labels tell figures of one name apart: batch=32, or layer=conv1 and dtype=float16.
type Labels map[string]string

// Key is the name with the labels in the order of theirs, as gates and the logbook write it:
// step.time{batch=32,dtype=float16}. Characters that would make two keys out of one are quoted as in Go.
func (f Figure) Key() string {
	if len(f.Labels) == 0 {
		return f.Name
	}
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(f.Labels)) {
		value := f.Labels[name]
		if strings.ContainsAny(value, "{},=\"") || value == "" {
			value = strconv.Quote(value)
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + name + "=" + value)
	}
	return f.Name + b.String() + "}"
}

// Known reports whether the figure has a value.
func (f Figure) Known() bool { return f.Value != nil }

// Known makes a figure with a value.
func Known(name string, value float64, unit string, basis Basis) Figure {
	return Figure{Name: name, Value: &value, Unit: unit, Basis: basis}
}

// Unknown makes a figure that is not known, with the reason.
func Unknown(name, unit, reason string) Figure {
	return Figure{Name: name, Unit: unit, Missing: reason}
}

// Subject is what was run.
type Subject struct {
	Kind    string   `json:"kind"` // script, module, notebook, command
	Command []string `json:"command"`
	Script  string   `json:"script,omitempty"`
	Dir     string   `json:"dir"`
}

// Target is where it ran: what was asked for, and what was seen.
type Target struct {
	Asked string `json:"asked"` // the --on flag: auto, cpu, mps, cuda, double

	// The rest of what was asked for, as internal/target reads it. Earlier assays kept the device alone.
	AskedRelease   string `json:"asked_release,omitempty"`    // of the framework: the --torch flag
	AskedChip      string `json:"asked_chip,omitempty"`       // the --chip flag
	AskedMacOS     string `json:"asked_macos,omitempty"`      // the --macos flag
	AskedShapeOnly bool   `json:"asked_shape_only,omitempty"` // the --shape-only flag
	AskedHost      string `json:"asked_host,omitempty"`       // the machine to run on; absent: this one

	// type of the device that the training steps used; empty when none was seen
	Device    string `json:"device,omitempty"`
	Name      string `json:"name,omitempty"` // the device's own name
	Framework string `json:"framework,omitempty"`
	Release   string `json:"release,omitempty"`
	// what computes for the framework, where that is another: Keras on jax, tensorflow, torch, mlx
	Backend        string `json:"backend,omitempty"`
	BackendRelease string `json:"backend_release,omitempty"`

	Python string `json:"python,omitempty"`
	System string `json:"system"`

	Double *Double `json:"double,omitempty"` // of a rehearsal
}

// Asynchronous reports whether the device that trained works behind the script's back, so that the length of one step
// is that of its launching. The double computes where it is called.
func (t Target) Asynchronous() bool { return t.Device != "" && t.Device != "cpu" && t.Double == nil }

// Double is the Mac and the release of PyTorch that a rehearsal stood for.
type Double struct {
	Release     string   `json:"release"`   // of PyTorch: 2.8.0
	Installed   string   `json:"installed"` // of the PyTorch that was run
	MacOS       string   `json:"macos"`
	Chip        string   `json:"chip"`                  // Apple M3 Ultra
	Memory      int64    `json:"memory"`                // bytes of unified memory
	Recommended *int64   `json:"recommended,omitempty"` // Metal's recommended working set, bytes
	Ground      string   `json:"ground,omitempty"`      // how Recommended is known: observed, derived, declared
	Cores       int      `json:"cores"`                 // of the GPU
	ShapeOnly   bool     `json:"shape_only"`            // no values were computed
	Assumed     []string `json:"assumed"`               // what was chosen where the command line left it open
	Limits      []string `json:"limits"`                // what is not imitated
}

// Rehearsal is what the double saw.
type Rehearsal struct {
	Operators []RehearsedOp   `json:"operators"`
	Refusals  []Refusal       `json:"refusals"`
	Remarks   []RehearsedNote `json:"remarks"`
	// Met are the known facts about MPS that calls met, the worst first; nil in the evidence of assays that kept none.
	Met   []Met  `json:"met,omitzero"`
	Tests *Tests `json:"tests,omitempty"` // of pytest
	// NeedsData are calls that shapes alone do not do for (--shape-only), as refusals of cause "values". The device
	// would refuse none of them: what one of them ended was not rehearsed to its end.
	NeedsData []Refusal `json:"needs_data,omitempty"`
	// Memory is nil where no tensor was on the device, or nobody kept account.
	Memory *RehearsedMemory `json:"memory,omitempty"`
}

// RehearsedMemory is the double's account of the device's memory, in bytes: what PyTorch's MPS allocator would hold. At
// is the moment at which most was in use, and Kinds what was in use then.
type RehearsedMemory struct {
	// Peak is the most that driver_allocated_memory() would say: heaps with their cached room, and Metal's own.
	Peak int64 `json:"peak"`
	// AllocatedPeak is the most that current_allocated_memory() would say.
	AllocatedPeak int64           `json:"allocated_peak"`
	At            MemoryMoment    `json:"at"`
	Kinds         MemoryKinds     `json:"kinds"`            // they add up to AllocatedPeak
	Steady        *int64          `json:"steady,omitempty"` // in use when the last step was over; nil where none was
	LargestBuffer int64           `json:"largest_buffer"`   // the largest single one that was asked for
	Batch         *RehearsedBatch `json:"batch,omitempty"`  // nil where no loader was read
	Evaluated     bool            `json:"evaluated"`        // the model was called in evaluation mode
	Saved         bool            `json:"saved"`            // torch.save wrote tensors of the device
	Pieces        []MemoryPiece   `json:"pieces"`
	Limits        MemoryLimits    `json:"limits"`
}

// MemoryMoment is where in the script it was.
type MemoryMoment struct {
	Step  int    `json:"step"`  // from 1; 0: before the first, or it is not known
	Phase string `json:"phase"` // setup, between, forward, backward, optimizer, evaluation, saving
}

// MemoryKinds are bytes by what they are for.
type MemoryKinds struct {
	Weights     int64 `json:"weights"`     // parameters and buffers of modules
	Gradients   int64 `json:"gradients"`   // .grad of parameters
	Optimizer   int64 `json:"optimizer"`   // the optimizers' state
	Activations int64 `json:"activations"` // made by a forward pass, and kept for the backward pass
	Workspace   int64 `json:"workspace"`   // gone before the phase that made them was over
	Data        int64 `json:"data"`        // copied to the device, and none of the above
	Other       int64 `json:"other"`
}

// Sum is all of them.
func (k MemoryKinds) Sum() int64 {
	return k.Weights + k.Gradients + k.Optimizer + k.Activations + k.Workspace + k.Data + k.Other
}

// RehearsedBatch is the batch that was rehearsed, and the longest that the data would give. A length is the number of
// elements that the batch's first tensor has in a row: 512 for 512 tokens, 150,528 for an image of 3 × 224 × 224.
type RehearsedBatch struct {
	Rows          int    `json:"rows"`              // of the largest batch rehearsed
	Of            string `json:"of"`                // what was counted
	Length        *int   `json:"length,omitempty"`  // longest that was rehearsed
	Lengths       int    `json:"lengths,omitempty"` // different ones among those rehearsed, 100: or more; 0: not known
	Longest       *int   `json:"longest,omitempty"` // longest found in the data; nil: Why says why
	LongestSeenOf int    `json:"longest_seen_of"`   // how many items of the data were looked at for it
	Items         *int   `json:"items,omitempty"`   // how many there are
	Why           string `json:"why,omitempty"`     // why the longest is not known, or not of all items
}

// MemoryPiece is the most that was in use during a part of the run.
type MemoryPiece struct {
	What string `json:"what"` // training step, evaluation, saving
	Peak int64  `json:"peak"` // of current_allocated_memory()
	// Host is the most that copies on the CPU took beside it, which a Mac has in the same memory: of saving.
	Host *int64 `json:"host,omitempty"`
}

// MemoryLimits are those of the Mac that was rehearsed; one that is not known is nil.
type MemoryLimits struct {
	Recommended   *int64            `json:"recommended,omitempty"`    // Metal's recommendedMaxWorkingSetSize
	High          *int64            `json:"high,omitempty"`           // PyTorch refuses what is beyond it
	Low           *int64            `json:"low,omitempty"`            // beyond it PyTorch gives back what is cached
	LargestBuffer *int64            `json:"largest_buffer,omitempty"` // Metal's maxBufferLength
	Wired         *int64            `json:"wired,omitempty"`          // sysctl iogpu.wired_limit_mb, where it is set
	Source        map[string]string `json:"source"`                   // limit → how it is known
}

// Tests are how pytest's tests ended, the failed ones by cause.
type Tests struct {
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	XFailed  int           `json:"xfailed"` // failed, as they say that they would
	XPassed  int           `json:"xpassed"`
	Causes   []TestCause   `json:"causes"` // most tests first
	Failures []TestFailure `json:"failures"`
	CPU      string        `json:"cpu,omitempty"` // why it is not known of all of them whether they fail on the CPU
}

// TestCause is a cause for which tests failed: those of refusals, "CPU too" for tests that fail there as well, "other"
// where no refusal was met.
type TestCause struct {
	Cause    string `json:"cause"`
	Operator string `json:"operator,omitempty"`
	Tests    int    `json:"tests"`
	Where    string `json:"where,omitempty"` // the user's line in one of them
	Remedy   string `json:"remedy,omitempty"`
}

// TestFailure is a test that failed on the double.
type TestFailure struct {
	ID       string `json:"id"` // as pytest names it
	Cause    string `json:"cause"`
	Operator string `json:"operator,omitempty"`
	Error    string `json:"error"`
	Text     string `json:"text"`
	Where    string `json:"where"`
	OnCPU    string `json:"on_cpu"` // passed, failed, skipped, …; unknown
}

// RehearsedOp is an operator that was called with tensors on the device.
type RehearsedOp struct {
	Operator string   `json:"operator"`
	Calls    int      `json:"calls"`
	State    string   `json:"state"`                 // native, composed, on the CPU, missing, … as `assay ops` says it
	Seconds  *float64 `json:"cpu_seconds,omitempty"` // on the CPU of the machine that rehearsed
	FLOPs    *float64 `json:"flops,omitempty"`
	// BF16FLOPs are those of FLOPs in bfloat16; nil: none, or an agent that did not tell them apart.
	BF16FLOPs *float64 `json:"bf16_flops,omitempty"`
	Bytes     *float64 `json:"bytes,omitempty"` // of the tensors read and written: arguments and results, once a call
}

// Refusal is an error that the device would have raised.
type Refusal struct {
	Operator string `json:"operator"`
	Cause    string `json:"cause"` // missing, dtype, rank, device, memory, argument; values
	Error    string `json:"error"` // class of the exception
	Text     string `json:"text"`  // its message
	Where    string `json:"where"` // the user's file:line
	Count    int    `json:"count"`
	Remedy   string `json:"remedy,omitempty"`
	Ended    bool   `json:"ended"` // it ended the script
}

// RehearsedNote is what runs on the device otherwise than on a CPU, without an error: a known wrong result, a detour, a
// warning.
type RehearsedNote struct {
	Operator string `json:"operator"`
	Kind     string `json:"kind"`
	Text     string `json:"text"`
	Where    string `json:"where"`
	Count    int    `json:"count"`
}

// Met is a fact about MPS that calls of an operator from one line met, and about which MPS says nothing: numbers come
// out wrong, the process ends, a slower way is taken, or the CPU. What was known of it stands beside it.
type Met struct {
	Fact     string `json:"fact"`    // its name
	Outcome  string `json:"outcome"` // wrong, aborts, cpu, slow; unknown where assay has no fact of that name
	Sure     bool   `json:"sure"`    // false: one call's arguments do not tell whether its condition holds
	Operator string `json:"operator"`
	Where    string `json:"where"` // the user's file:line
	Count    int    `json:"count"` // calls; of what is not sure 1
	When     string `json:"when,omitempty"`
	Wrong    string `json:"wrong,omitempty"` // what comes out instead
	Span     string `json:"span,omitempty"`  // releases of torch and macOS of which it speaks, in words
	Remedy   string `json:"remedy,omitempty"`
	Source   string `json:"source,omitempty"`
}

// Outcome says how the run ended. Complete is false when evidence is missing, and Reason then says why.
type Outcome struct {
	Started bool `json:"started"`
	// exit status of the script; 128+n where a signal ended it, as a shell says it; -1: no end was seen
	Exit     int    `json:"exit"`
	Signal   string `json:"signal,omitempty"` // SIGKILL, …
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"`
	Stopped  string `json:"stopped,omitempty"` // set where assay ended the run as asked: "after 200 steps (--steps)"
	Error    string `json:"error,omitempty"`   // type and message of the exception that ended the script
	Where    string `json:"where,omitempty"`   // user's line of that exception
}

// Window is a named set of steps: First…Last, less those that Excluded describes. Steps are numbered from 1.
type Window struct {
	Name     string `json:"name"` // steady, first-epoch, synchronised, profiled
	First    int    `json:"first"`
	Last     int    `json:"last"`
	Steps    int    `json:"steps"` // how many steps count
	Excluded string `json:"excluded,omitempty"`
	// Kind of the steps that count, in the series of steps: bare in a window of steps with the hooks off; empty in one
	// of ordinary steps
	Kind string `json:"kind,omitempty"`
}

// How steps and epochs of a loop are told, Loop.Steps and Loop.Epochs. "" where there are none.
const (
	ByOptimizer  = "optimizer"  // a step is a round of optimizer steps
	ByHand       = "hand"       // no optimizer steps: a step is a backward pass whose gradients were used or cleared
	ByCompiled   = "compiled"   // as by hand, and there is an optimizer: its step was compiled, and is not seen
	ByLoader     = "loader"     // an epoch is a pass of the loader that gives the steps their batches
	ByLoop       = "loop"       // an epoch is a turn of the loop around the loop
	ByScheduler  = "scheduler"  // an epoch ends where a scheduler of the learning rate steps
	ByEvaluation = "evaluation" // an epoch ends where a model is put into evaluation mode
)

// Loop is how the steps and the epochs of a training loop were told.
type Loop struct {
	Steps  string `json:"steps"`           // ByOptimizer, ByHand, ByCompiled or ""
	Epochs string `json:"epochs"`          // ByLoader, ByLoop, ByScheduler, ByEvaluation or ""
	Name   string `json:"name,omitempty"`  // with ByLoop: that loop's variable
	Where  string `json:"where,omitempty"` // with ByLoop: its file:line
}

// Epoch is one pass over the training data; Loop.Epochs says how it was told.
type Epoch struct {
	Number   int      `json:"number"` // from 1
	First    int      `json:"first"`  // step numbers
	Last     int      `json:"last"`
	Seconds  float64  `json:"seconds"`
	Outside  float64  `json:"outside_seconds"` // evaluation, checkpoints, and whatever else was no training step
	Complete bool     `json:"complete"`
	Live     *float64 `json:"live,omitempty"`     // bytes, at the end of the epoch
	Pool     *float64 `json:"pool,omitempty"`     // bytes
	Resident *float64 `json:"resident,omitempty"` // bytes
	Tensors  *int     `json:"tensors,omitempty"`  // tensors that Python held
}

// Severity of a finding.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is one sentence that a person should read, with the place it is about and what to do.
type Finding struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Where    string   `json:"where,omitempty"` // file:line
	Hint     string   `json:"hint,omitempty"`
	Basis    Basis    `json:"basis"`
}

// Fallback is an operator that ran on the CPU because the device has no kernel for it.
type Fallback struct {
	Operator string `json:"operator"`
	Count    int    `json:"count"`
	Where    string `json:"where"`
	Basis    Basis  `json:"basis"`
	Note     string `json:"note,omitempty"`

	Seconds *float64 `json:"cpu_seconds,omitempty"` // of a rehearsal: what the calls took this machine's CPU
	Share   *float64 `json:"cpu_share,omitempty"`   // of all operators' time there
	Bytes   *int64   `json:"bytes,omitempty"`       // of their arguments, which the device would have to copy
}

// SyncPoint is a call that makes the host wait for the device, by the user's line.
// Lost is the time inside the call; on a CPU nothing is waited for, and Waits is false.
type SyncPoint struct {
	Call  string  `json:"call"`
	Where string  `json:"where"`
	Via   string  `json:"via,omitempty"` // library line between, where the call was made inside one
	Count int     `json:"count"`
	Lost  float64 `json:"lost_seconds"`
	Waits bool    `json:"waits"` // the tensor was on an asynchronous device
	Steps int     `json:"in_steps"`
	// Computes: what the step has queued is computed in it, as in MLX's eval: its time is the step's own work
	Computes bool `json:"computes,omitempty"`
}

// PhaseMem is memory at the end of a phase, medians over the sampled steps, bytes; a missing column is absent.
type PhaseMem struct {
	Phase string `json:"phase"`
	// the allocator's tensors (torch.mps.current_allocated_memory, torch.cuda.memory_allocated)
	Live *float64 `json:"live,omitempty"`
	// what the allocator holds from the driver (driver_allocated_memory, memory_reserved)
	Pool     *float64 `json:"pool,omitempty"`
	Resident *float64 `json:"resident,omitempty"` // the process: footprint on macOS, resident set on Linux
	Swap     *float64 `json:"swap,omitempty"`     // machine-wide swap in use
	N        int      `json:"n"`
}

// Compile is what a framework says of a function that it has compiled.
type Compile struct {
	Function string  `json:"function"`
	Times    int     `json:"times"`
	Trace    float64 `json:"trace"`   // seconds of tracing and lowering
	Seconds  float64 `json:"seconds"` // of the compiler
	Step     int     `json:"step"`    // before which it was compiled last; 1: before the first
	Trains   bool    `json:"trains"`  // it computes gradients or updates
}

// Retained is a line whose tensors outlived the epoch's traced steps.
type Retained struct {
	Where   string `json:"where"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
	Steps   int    `json:"steps"` // how many traced steps they come from
	Epochs  []int  `json:"epochs"`
}

// Operator is one row of the profile, times in seconds summed over the profiled window.
type Operator struct {
	Name   string   `json:"name"`
	Calls  int      `json:"calls"`
	Self   float64  `json:"self_seconds"`
	Total  float64  `json:"total_seconds"`
	Device *float64 `json:"device_seconds,omitempty"`
	Queue  *float64 `json:"queue_seconds,omitempty"` // from launch on the host to start on the device
}

// ThroughDouble is what PyTorch's profiler calls the way of an operator through a TorchDispatchMode, and the double is
// one: in traces of rehearsals with torch 2.15 it took most time of all. It is no operator.
const ThroughDouble = "PythonDispatchMode"

// Profile says what the operator table covers.
type Profile struct {
	First   int    `json:"first,omitempty"`
	Last    int    `json:"last,omitempty"`
	Steps   int    `json:"steps"`
	Trace   string `json:"trace,omitempty"` // file in the run directory, Chrome trace format
	Missing string `json:"missing,omitempty"`
}

// Numerics is what the loss and gradient streams showed.
type Numerics struct {
	NonFiniteLosses []int   `json:"non_finite_loss_steps"`
	GradSteps       int     `json:"gradient_steps_checked"`
	NonFiniteGrads  []int   `json:"non_finite_gradient_steps"`
	SkippedSteps    []int   `json:"skipped_steps"` // steps that a GradScaler skipped
	Scaler          bool    `json:"grad_scaler"`
	MicroSteps      float64 `json:"micro_steps"` // backward passes per optimizer step, median
	LossScaled      string  `json:"loss_scaled"` // yes, not seen, not needed, unknown; with the ground
}

// Shape is one distinct signature of tensors that entered the model.
type Shape struct {
	Model  string `json:"model"`
	Inputs string `json:"inputs"` // f32[64,1,8,8] on cpu
	Steps  int    `json:"steps"`  // calls seen with it, of those looked at: the first 64, then one in sixteen
	First  int    `json:"first"`
}

// Only is the result of --only data or --only forward.
type Only struct {
	What    string `json:"what"`
	Each    Figure `json:"each"`      // seconds a batch, alone
	Step    Figure `json:"step"`      // seconds a step of the ordinary steps before it
	Verdict string `json:"statement"` // which side waits
}

// StepSeries is a table by columns; times in seconds.
type StepSeries struct {
	Number []int     `json:"number"`
	Start  []float64 `json:"start"` // since the start of the run
	Total  []float64 `json:"total"`
	Phases []Phase   `json:"phases"` // in the order in which they are drawn; the last is what no hook claims
	Epoch  []int     `json:"epoch"`  // 0: no epochs were seen
	Micro  []int     `json:"micro"`
	// "", sync, profile, trace; bare: the hooks were off, its phases are not known; edge: they were just changed
	Kind []string  `json:"kind"`
	Live []float64 `json:"live"` // bytes at the start of backward, -1: not known
	Pool []float64 `json:"pool"`
	// >1: only every Thin-th step is listed; figures were computed from all of them
	Thin int `json:"thin,omitempty"`
	// how many of the steps had all hooks on: calls by line, shapes and gradients are of these; absent: all had
	Watched int `json:"watched,omitempty"`
}

// LossSeries is the loss as passed to backward, unscaled. A value that was not finite is null in JSON.
type LossSeries struct {
	Step  []int      `json:"step"`
	Value []*float64 `json:"value"`
	Note  string     `json:"note,omitempty"`
}

// Series is a curve that the script logged itself, or a learning rate. A value that was not finite is null in JSON.
type Series struct {
	Door  string     `json:"door"`          // optimizer, TensorBoard, MLflow, W&B, Lightning, Trainer
	Name  string     `json:"name"`          // as it was logged; of a learning rate lr and the optimizer's class
	Step  []int      `json:"step"`          // the step last worked on when it was logged, 0: before the first
	Own   []*int64   `json:"own,omitempty"` // the step that the script gave; absent where it gave none at all
	Value []*float64 `json:"value"`
	// values that were logged; of a learning rate only those that differ from the one before
	Points int `json:"points"`
	// >1: only every Thin-th point is listed, and the last
	Thin int    `json:"thin,omitempty"`
	Note string `json:"note,omitempty"` // why there are none, or fewer than were logged
}

// DoorOptimizer is the door of learning rates.
const DoorOptimizer = "optimizer"

// HostReport is the machine: facts read once, samples over time, and the largest programs.
type HostReport struct {
	Facts   []Fact   `json:"facts"`
	Samples []Sample `json:"samples"`
	Apps    []App    `json:"apps_start"`
	AppsEnd []App    `json:"apps_end"`
}

// Fact is one statement about the host with its source; Missing says why there is none.
type Fact struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Source  string `json:"source"`
	Missing string `json:"missing,omitempty"`
}

// Sample is what the host's counters said at one time.
type Sample struct {
	At      float64  `json:"at"` // seconds since the start of the run
	Figures []Figure `json:"figures"`
}

// App is a program and the memory it holds.
type App struct {
	Name  string  `json:"name"`
	Bytes float64 `json:"bytes"`
	Count int     `json:"processes"`
	Ours  bool    `json:"ours"` // part of the run
}

// Process is one Python process that the agent entered.
type Process struct {
	PID       int      `json:"pid"`
	Parent    int      `json:"parent"`
	Role      string   `json:"role"` // main, rank 1, child
	Argv      []string `json:"argv"`
	Python    string   `json:"python"`
	Steps     int      `json:"steps"`
	Framework string   `json:"framework,omitempty"` // the first that it imported, of those that the agent knows
	Release   string   `json:"release,omitempty"`   // of it
	Ended     string   `json:"ended"`               // bye, exec, exit without goodbye, …
	Trouble   []string `json:"trouble,omitempty"`
	Dropped   int      `json:"dropped_events,omitempty"`
	Rank      string   `json:"rank,omitempty"`
	Observed  bool     `json:"observed"` // its steps are the ones in this evidence
}

// Provenance is what must be known to run it again.
type Provenance struct {
	// of the framework whose release the target names: its commit, where it says it
	Build       string            `json:"build,omitempty"`
	Commit      string            `json:"commit,omitempty"`
	Dirty       string            `json:"dirty,omitempty"` // clean, dirty (3 files), unknown: why
	Assay       string            `json:"assay"`
	Interpreter string            `json:"interpreter,omitempty"`
	Environment map[string]string `json:"environment"`
	Packages    []string          `json:"packages"` // name==version
	Datasets    []Dataset         `json:"datasets"`
	// what can make the next run come out otherwise; nil in the evidence of assays that did not look
	Randomness []Setting `json:"randomness,omitzero"`
}

// Setting is a seed, or a setting that decides whether a run can be repeated.
type Setting struct {
	Name  string `json:"name"`            // torch.manual_seed, PYTHONHASHSEED, …
	Value string `json:"value,omitempty"` // as text
	State State  `json:"state"`
	Where string `json:"where,omitempty"` // the user's file:line that set it, the first of several
	Note  string `json:"note,omitempty"`  // what a reader must know to use it
}

// Words says the setting on one line: torch.manual_seed 0 (train.py:3); numpy.random.seed not set.
func (s Setting) Words() string {
	words := s.Name
	if s.Value != "" {
		words += " " + s.Value
	}
	if s.State != Set {
		words += map[bool]string{true: ", ", false: " "}[s.Value != ""] + string(s.State)
	}
	if s.Where != "" {
		words += " (" + s.Where + ")"
	}
	if s.Note != "" {
		words += ": " + s.Note
	}
	return words
}

// State of a setting.
type State string

const (
	Set          State = "set"     // by the script, or for it
	NotSet       State = "not set" // nobody has: a seed is another in each run
	Default      State = "default" // the value is the one that the framework begins with
	StateUnknown State = "unknown" // Note says why
)

// Dataset is what a loader read, and its fingerprint where its files could be seen.
type Dataset struct {
	Type        string `json:"type"`
	Length      int    `json:"length,omitempty"`
	Batch       int    `json:"batch,omitempty"`
	Workers     int    `json:"workers"`
	Path        string `json:"path,omitempty"`
	Files       int    `json:"files,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"` // method:hex
	Missing     string `json:"missing,omitempty"`
}
