package fit

import (
	"encoding/json"
	"fmt"

	"assay/internal/evidence"
)

// Account is the double's account of a rehearsal's memory: rehearsal.memory of the evidence (docs/formats/evidence.md).
// Sizes are bytes.
type Account struct {
	Peak      int64 `json:"peak"`           // most that torch.mps.driver_allocated_memory() would say
	Allocated int64 `json:"allocated_peak"` // most that torch.mps.current_allocated_memory() would say
	At        struct {
		Step  int    `json:"step"` // from 1; 0: before the first
		Phase string `json:"phase"`
	} `json:"at"`
	Kinds         map[string]int64 `json:"kinds"`            // what was allocated then; they add up to Allocated
	Steady        *int64           `json:"steady,omitempty"` // at the end of a step
	LargestBuffer int64            `json:"largest_buffer"`
	Batch         *Batch           `json:"batch,omitempty"`
	Evaluated     bool             `json:"evaluated"`
	Saved         bool             `json:"saved"`
	Pieces        []Piece          `json:"pieces"`
	Limits        struct {
		LargestBuffer *int64            `json:"largest_buffer,omitempty"` // of Metal
		Source        map[string]string `json:"source"`
	} `json:"limits"`
}

// Batch is the largest batch that was rehearsed, and the longest that the data have.
type Batch struct {
	Rows    int64  `json:"rows"`
	Of      string `json:"of"`
	Length  *int64 `json:"length,omitempty"`
	Longest *int64 `json:"longest,omitempty"`
	SeenOf  int64  `json:"longest_seen_of"`
	Why     string `json:"why,omitempty"` // the longest is not known
}

// Piece is the most that was allocated in a part of the run.
type Piece struct {
	What string `json:"what"` // training step, evaluation, saving
	Peak int64  `json:"peak"`
}

// Rehearsed is what a rehearsal says about memory.
type Rehearsed struct {
	Chip    string // it stood for, as --chip takes it
	Data    bool   // values were computed; false: shapes alone
	Steps   int
	Account *Account // nil: the evidence has none
	// Host is the memory of the script's processes on the machine that rehearsed, without what tensors of the device
	// took there; nil: not known.
	Host    *int64
	Refused *evidence.Refusal // for want of memory; nil: none
	Ended   string            // how the script ended where it failed; "": it did not
	Where   string            // the user's line that it failed at
	Run     string            // id of the run
	Folder  string            // of the run
}

// Read takes out of a rehearsal's evidence what is judged. An account that cannot be read is an error.
func Read(run *evidence.Run) (Rehearsed, error) {
	r := Rehearsed{Run: run.ID, Steps: len(run.Steps.Number)}
	if d := run.Target.Double; d != nil {
		r.Data = !d.ShapeOnly
	}
	if !run.Outcome.Complete || run.Outcome.Exit != 0 || run.Outcome.Signal != "" {
		r.Ended, r.Where = run.Outcome.Reason, run.Outcome.Where
		switch {
		case run.Outcome.Error != "":
			r.Ended = "the script ended with " + run.Outcome.Error
		case run.Outcome.Signal != "":
			r.Ended = "the script was ended by " + run.Outcome.Signal
		case r.Ended == "" && run.Outcome.Exit != 0:
			r.Ended = fmt.Sprintf("the script ended with exit status %d", run.Outcome.Exit)
		}
	}
	if run.Rehearsal == nil {
		return r, nil
	}
	for i, refusal := range run.Rehearsal.Refusals {
		if refusal.Cause == "memory" && r.Refused == nil {
			r.Refused = &run.Rehearsal.Refusals[i]
		}
	}
	// The one place where the account is read: by the names that it has in evidence.json.
	data, err := json.Marshal(run.Rehearsal)
	if err != nil {
		return r, fmt.Errorf("read the account of %s: %w", run.ID, err)
	}
	var has struct {
		Memory *Account `json:"memory"`
	}
	if err := json.Unmarshal(data, &has); err != nil {
		return r, fmt.Errorf("read the account of %s: %w", run.ID, err)
	}
	r.Account = has.Memory
	if resident := run.Figure("memory.resident.peak"); resident.Known() {
		host := int64(*resident.Value)
		if r.Data && r.Account != nil { // the device's tensors lie in it
			host = max(0, host-r.Account.Allocated)
		}
		r.Host = &host
	}
	return r, nil
}
