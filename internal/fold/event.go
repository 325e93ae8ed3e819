package fold

import "assay/internal/evidence"

// The events of a stream, one struct each; docs/formats/events.md describes them. Times named ns or clock are
// nanoseconds of the sending process's monotonic clock.

type helloEvent struct {
	Version    int      `json:"version"`
	Token      string   `json:"token"`
	Python     string   `json:"python"`
	Executable string   `json:"executable"`
	Path       []string `json:"path"`
	Argv       []string `json:"argv"`
	Rank       string   `json:"rank"`
	PID        int      `json:"pid"`
	PPID       int      `json:"ppid"`
	Wall       float64  `json:"wall"`
	Clock      int64    `json:"clock"`
	Translated *int     `json:"translated"`
}

// frameworkEvent is sent once for each framework that the script has imported. Before there were several it was called
// torch.
type frameworkEvent struct {
	Name             string `json:"name"`
	BackendVersion   string `json:"backend_version"`
	Version          string `json:"version"`
	Git              string `json:"git"`
	Cuda             string `json:"cuda"`
	MPSBuilt         bool   `json:"mps_built"`
	Threads          int    `json:"threads"`
	FallbackAtImport string `json:"fallback_at_import"`
	DefaultDevice    string `json:"default_device"` // MLX's
	Metal            *bool  `json:"metal"`          // MLX's; nil: of another
}

// trainsEvent names the framework whose loop it is.
type trainsEvent struct {
	Framework string `json:"framework"`
	Backend   string `json:"backend"`
}

// compilesEvent rows: function, times, ns of tracing, ns of compiling, the last step, whether it trains. Totals so far.
type compilesEvent struct {
	Rows [][]any `json:"rows"`
}

// stepsEvent holds columns of equal length.
type stepsEvent struct {
	Number    integers     `json:"number"`
	Start     integers     `json:"start"`
	Total     integers     `json:"total"`
	Phases    phaseColumns `json:"phases"`
	Rest      integers     `json:"rest"` // this and the next five instead of phases: of earlier agents
	Data      integers     `json:"data"`
	H2D       integers     `json:"h2d"`
	Forward   integers     `json:"forward"`
	Backward  integers     `json:"backward"`
	Optimizer integers     `json:"optimizer"`
	Epoch     integers     `json:"epoch"`
	Micro     integers     `json:"micro"`
	Evals     integers     `json:"evals"`
	Kind      []string     `json:"kind"`
	Live      integers     `json:"live"`
	Pool      integers     `json:"pool"`
	Opts      integers     `json:"opts"`
	Outside   integers     `json:"outside"`
	Raw       integers     `json:"raw"` // not in those of earlier agents
}

// even reports whether every column but those of phases has the length of the first: what comes over a socket may be
// anything.
func (r stepsEvent) even() bool {
	for _, l := range []int{len(r.Start), len(r.Total), len(r.Epoch), len(r.Micro), len(r.Evals), len(r.Kind),
		len(r.Live), len(r.Pool), len(r.Opts), len(r.Outside)} {
		if l != len(r.Number) {
			return false
		}
	}
	return r.Raw == nil || len(r.Raw) == len(r.Number)
}

// LoaderEvent is a loader of data that was read.
type LoaderEvent struct {
	ID      int      `json:"id"`
	Loader  string   `json:"loader"`
	Dataset string   `json:"dataset"`
	Batch   *int     `json:"batch"`
	Workers int      `json:"workers"`
	Length  *int     `json:"length"`
	Batches *int     `json:"batches"`
	Endless bool     `json:"endless"`
	Paths   []string `json:"paths"`

	Generator  *string `json:"generator"`   // the seed of its own generator
	WorkerInit *string `json:"worker_init"` // name of its worker_init_fn
}

// loopEvent says how steps and epochs are told; the last one counts.
type loopEvent struct {
	Steps     string `json:"steps"`
	Epochs    string `json:"epochs"`
	Loader    int    `json:"loader"`
	Name      string `json:"name"`
	Where     string `json:"where"`
	Backward  bool   `json:"backward"`
	Module    bool   `json:"module"`
	Strangers bool   `json:"strangers"`
}

// lengthEvent says how long what the script does is, as something of it declares.
type lengthEvent struct {
	Loader int    `json:"loader"`
	Of     string `json:"of"`
	Steps  int    `json:"steps"`
	By     string `json:"by"`
}

type barEvent struct {
	By string `json:"by"`
}

type deviceEvent struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// Queued: what is called is computed later, and only steps of the kind sync have phases. Earlier agents do not say
	// it.
	Queued *bool `json:"queued"`
}

// queued reports whether phases can be trusted in synchronised steps alone.
func (d deviceEvent) queued() bool {
	if d.Queued != nil {
		return *d.Queued
	}
	return d.Type != "" && d.Type != "cpu"
}

// unseenEvent tells of phases that have no time why that is so.
type unseenEvent struct {
	Phases map[string]string `json:"phases"`
}

// allocatorEvent is a limit that the script has set its framework's allocator.
type allocatorEvent struct {
	Limit string  `json:"limit"` // memory, cache, wired
	Bytes float64 `json:"bytes"`
	Where string  `json:"where"`
}

type limitEvent struct {
	Bytes  float64 `json:"bytes"`
	Source string  `json:"source"`
}

type shapeEvent struct {
	Model  string `json:"model"`
	Inputs string `json:"inputs"`
	First  int    `json:"first"`
	Calls  int    `json:"calls"`
}

// syncsEvent rows: call, user line, library line, count, ns, waits, count inside steps. Totals so far.
type syncsEvent struct {
	Rows [][]any `json:"rows"`
}

type lossEvent struct {
	Step  integers `json:"step"`
	Value losses   `json:"value"` // number, or "nan", "inf", "-inf"
	What  string   `json:"what"`  // what they are, where they are not what was passed to backward
}

type loggedEvent struct {
	Door  string   `json:"door"`
	Name  string   `json:"name"`
	Step  integers `json:"step"`
	Own   []*int64 `json:"own"` // absent where no step was given
	Value losses   `json:"value"`
}

type loggedUnreadEvent struct {
	Door  string `json:"door"`
	Name  string `json:"name"` // "": of names beyond those that are told
	Count int    `json:"count"`
}

// seedsEvent rows: call, seed, user line, library line, calls, closed steps before the first. Totals so far.
type seedsEvent struct {
	Watched  []string `json:"watched"`
	HashSeed string   `json:"hash_seed"`
	Rows     [][]any  `json:"rows"`
}

// settingsEvent rows: name, value, value when the framework had been imported or null.
type settingsEvent struct {
	Step int         `json:"step"`
	Rows [][]*string `json:"rows"`
}

type gradientsEvent struct {
	Step   integers `json:"step"`
	Finite []bool   `json:"finite"`
}

type accumulationEvent struct {
	Grounds map[string]int `json:"grounds"`
}

type epochEvent struct {
	Number   int   `json:"number"`
	Step     int   `json:"step"`
	Live     int64 `json:"live"`
	Pool     int64 `json:"pool"`
	Resident int64 `json:"resident"`
}

type aliveEvent struct {
	Epoch    int     `json:"epoch"`
	Tensors  int     `json:"tensors"`
	Bytes    int64   `json:"bytes"`
	Retained [][]any `json:"retained"` // line, tensors, bytes
	Steps    int     `json:"steps"`
	Graph    *struct {
		Additions int    `json:"additions"`
		Name      string `json:"name"`
	} `json:"graph"`
}

type memoryEvent struct {
	Phases map[string][][4]int64 `json:"phases"` // live, pool, resident, swap; -1: not known
}

type peakEvent struct {
	Live   int64  `json:"live"`
	Pool   int64  `json:"pool"`
	Source string `json:"source"`
}

type fallbackEvent struct {
	Operator string `json:"operator"`
	Where    string `json:"where"`
	Via      string `json:"via"`
	Count    int    `json:"count"`
	Source   string `json:"source"`
}

type doubleEvent struct {
	Release          string   `json:"release"`
	Installed        string   `json:"installed"`
	MacOS            [2]int   `json:"macos"`
	Chip             string   `json:"chip"`
	Memory           int64    `json:"memory"`
	Recommended      *int64   `json:"recommended"`
	RecommendedKnown string   `json:"recommended_known"`
	Limits           []string `json:"limits"`
}

// opsEvent rows are totals so far.
type opsEvent struct {
	Rows []struct {
		Op    string   `json:"op"`
		N     int      `json:"n"`
		State string   `json:"state"`
		CPU   *int64   `json:"cpu_ns"`
		FLOPs *float64 `json:"flops"`
		BF16  *float64 `json:"bf16_flops"`
		Bytes *float64 `json:"bytes"`

		Refused      int      `json:"refused"`
		RefusedFLOPs *float64 `json:"refused_flops"` // nil: not known
		Wrong        int      `json:"wrong"`
		WrongNS      int64    `json:"wrong_ns"`
		WrongFLOPs   float64  `json:"wrong_flops"`
	} `json:"rows"`
	WrongWholes *int `json:"wrong_wholes"` // nil: of an agent that did not count what is refused and wrong
}

// accountEvent is the account of memory, as the evidence has it.
type accountEvent struct {
	evidence.RehearsedMemory
}

type fallbackOpEvent struct {
	Op    string `json:"op"`
	Where string `json:"where"`
	N     int    `json:"n"`
	CPU   int64  `json:"cpu_ns"`
	Bytes int64  `json:"bytes"`
}

type refusedEvent struct {
	Op    string `json:"op"`
	Cause string `json:"cause"`
	Error string `json:"error"`
	Text  string `json:"text"`
	Where string `json:"where"`
	N     int    `json:"n"`
}

// metEvent is a fact that calls of an operator met; not sure: the arguments do not tell.
type metEvent struct {
	Op    string `json:"op"`
	Fact  string `json:"fact"`
	Sure  bool   `json:"sure"`
	Where string `json:"where"`
	N     int    `json:"n"`
}

type noteEvent struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Where string `json:"where"`
	N     int    `json:"n"`
}

type profileEvent struct {
	Missing string  `json:"missing"`
	First   int     `json:"first"`
	Last    int     `json:"last"`
	File    string  `json:"file"`
	Why     string  `json:"why"`
	Seconds float64 `json:"seconds"`
	Kernels [][]any `json:"kernels"` // operator without an MPS kernel, calls
}

type onlyEvent struct {
	What  string  `json:"what"`
	NS    []int64 `json:"ns"`
	After int     `json:"after"`
	Why   string  `json:"why"`
}

type costEvent struct {
	Steps    int   `json:"steps"`
	HooksNS  int64 `json:"hooks_ns"`
	HeavyNS  int64 `json:"heavy_ns"`
	ThreadNS int64 `json:"thread_ns"`
	EpochNS  int64 `json:"epoch_ns"`
	Bare     int   `json:"bare"`
	BareNS   int64 `json:"bare_ns"`
	KeptNS   int64 `json:"kept_ns"`
}

// blockEvent is a stretch of steps with the hooks on or off, timed as a whole.
type blockEvent struct {
	Number  int   `json:"number"`
	On      bool  `json:"on"`
	First   int   `json:"first"`
	Steps   int   `json:"steps"`
	NS      int64 `json:"ns"`
	Outside int64 `json:"outside"`
	Touched bool  `json:"touched"`
}

type errorEvent struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Where string `json:"where"`
}

type threadErrorEvent struct {
	Thread string `json:"thread"`
	Type   string `json:"type"`
	Text   string `json:"text"`
	Where  string `json:"where"`
}

type lateEvent struct {
	Name string `json:"name"`
	Then string `json:"then"`
	Now  string `json:"now"`
}

type textEvent struct {
	What  string `json:"what"`
	Why   string `json:"why"`
	How   string `json:"how"`
	Step  int    `json:"step"`
	Count int    `json:"count"`
	Clock int64  `json:"clock"`
}
