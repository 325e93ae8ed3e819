package attempt

import (
	"cmp"
	"io"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
)

// Result is what came of all models: a document of evidence, and the JSON of `assay try`. Figures of a model are
// labelled with it.
type Result struct {
	evidence.Envelope
	Tried `json:"body"`
}

// Tried is what a result has beyond the envelope.
type Tried struct {
	Basis   evidence.Basis   `json:"basis"` // rehearsed on the double, measured on a device
	On      string           `json:"on"`
	Torch   string           `json:"torch"` // the one installed
	Python  string           `json:"python"`
	Double  *target.Settings `json:"double,omitempty"`
	Package string           `json:"package,omitempty"`
	Counts  map[string]int   `json:"counts"` // by outcome
	Models  []*Attempt       `json:"models"`
	Stopped string           `json:"stopped,omitempty"` // set where it was stopped: after 12 of 121 models

	printed bool // the line of each model has been written already
}

// Attempt is one model and what happened to it.
type Attempt struct {
	Name       string    `json:"name"`
	Outcome    string    `json:"outcome"`
	Phase      string    `json:"phase"` // where it ended: build, inputs, move, forward, backward, done
	Model      string    `json:"model,omitempty"`
	Inputs     []string  `json:"inputs"`
	Parameters int64     `json:"parameters"`
	Data       bool      `json:"data"` // false: shapes alone
	Backward   bool      `json:"backward"`
	Operator   string    `json:"operator,omitempty"`
	NativeFrom string    `json:"native_from,omitempty"` // of a missing operator: the first release with a kernel
	Error      string    `json:"error,omitempty"`
	Text       string    `json:"text,omitempty"`
	Where      string    `json:"where,omitempty"` // the user's line, else the innermost of a library's
	Remedy     string    `json:"remedy,omitempty"`
	Seconds    float64   `json:"seconds"` // on this machine
	Peak       int64     `json:"peak,omitempty"`
	Ran        *Shares   `json:"ran,omitempty"`      // on the double: what was called
	Fallback   *Fallback `json:"fallback,omitempty"` // the same with PYTORCH_ENABLE_MPS_FALLBACK=1
	CPU        string    `json:"cpu,omitempty"`      // where it failed: ok on the CPU, or the error there
	// Met are known facts about MPS that calls met, the worst first; on the double alone
	Met   []evidence.Met `json:"met,omitempty"`
	Notes []string       `json:"notes,omitempty"`
}

// Shares are an attempt's operators, and which part of them is without a kernel: 0 to 1, nil where it is not known.
type Shares struct {
	Operators int      `json:"operators"`
	Calls     int      `json:"calls"`
	OfCalls   *float64 `json:"share_of_calls"` // of all calls with tensors on the device
	OfFLOPs   *float64 `json:"share_of_flops"`
	OfTime    *float64 `json:"share_of_time"` // of the operators' time on this machine's CPU; nil without data
	FLOPs     float64  `json:"flops"`
}

// Fallback is how it went with PYTORCH_ENABLE_MPS_FALLBACK=1.
type Fallback struct {
	Outcome   string     `json:"outcome"`
	Text      string     `json:"text,omitempty"`
	Shares    Shares     `json:"shares"`
	Operators []FellBack `json:"operators"`
}

// FellBack is an operator that ran on the CPU, from one line.
type FellBack struct {
	Operator string `json:"operator"`
	Calls    int    `json:"calls"`
	Where    string `json:"where,omitempty"`
}

// document puts into the envelope what came of the models.
func (r *Result) document() {
	for _, m := range r.Models {
		labels := evidence.Labels{"model": m.Name}
		add := func(name, unit string, v *float64) {
			if v != nil {
				r.Figures = append(r.Figures, evidence.Figure{Name: name, Labels: labels, Value: v, Unit: unit,
					Basis: r.Basis})
			}
		}
		if m.Peak > 0 {
			peak := float64(m.Peak)
			add("memory.pool.peak", "B", &peak)
		}
		if m.Ran != nil {
			add("fallback.calls", "ratio", m.Ran.OfCalls)
			add("fallback.flops", "ratio", m.Ran.OfFLOPs)
			add("fallback.time", "ratio", m.Ran.OfTime)
		}
		if r.Double != nil {
			for _, outcome := range []string{outcomeWrong, outcomeAborts} {
				n := float64(len(evidence.MetBy(m.Met, true, outcome)))
				add("facts."+outcome, "1", &n)
			}
			n := float64(len(evidence.MetBy(m.Met, false, outcomeWrong)))
			add("facts.perhaps", "1", &n)
		}
		if m.Outcome != outcomeOK {
			severity := evidence.Error
			if m.Outcome == outcomeCPU || m.Outcome == outcomeNotBuilt {
				severity = evidence.Note // it says nothing about the device
			}
			r.Findings = append(r.Findings, evidence.Finding{Name: "try-" +
				strings.ReplaceAll(strings.ToLower(m.Outcome), " ", "-"), Severity: severity,
				Text: m.Name + ": " + cmp.Or(m.Text, m.Outcome), Where: m.Where, Hint: m.Remedy, Basis: r.Basis})
		}
	}
}

// JSON writes the record.
func (r *Result) JSON(w io.Writer) error {
	return evidence.Write(w, r)
}

// Status is what `assay try` ends with: fault.OK where all that can run at all ran, GateFailed where one did not,
// Failed where nothing could be tried. Of a package, a model that the CPU does not run either is nobody's failure.
func (r *Result) Status() int {
	reached := 0
	for _, m := range r.Models {
		switch m.Outcome {
		case outcomeOK, outcomeCPU:
			reached++
		case outcomeNotBuilt:
		default:
			return fault.GateFailed
		}
		if r.Package == "" && m.Outcome == outcomeCPU {
			return fault.GateFailed
		}
	}
	if reached == 0 {
		return fault.Failed
	}
	return fault.OK
}
