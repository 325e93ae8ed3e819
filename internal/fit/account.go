package fit

import (
	"fmt"
	"regexp"
	"slices"

	"assay/internal/evidence"
)

// Rehearsed is what a rehearsal says about memory.
type Rehearsed struct {
	Chip    string // it stood for, as --chip takes it
	Data    bool   // values were computed; false: shapes alone
	Steps   int
	Account *evidence.RehearsedMemory // nil: the evidence has none
	// Host is the memory of the script's processes on the machine that rehearsed, without what tensors of the device
	// took there; nil: not known.
	Host    *int64
	Refused *evidence.Refusal // for want of memory; nil: none
	Ended   string            // how the script ended where it failed; "": it did not
	Where   string            // the user's line that it failed at
	Levers  []evidence.Lever  // what the agent was asked to switch on, and what came of it
	Run     string            // id of the run
	Folder  string            // of the run
}

// Read takes out of a rehearsal's evidence what is judged.
func Read(run *evidence.Run) Rehearsed {
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
		return r
	}
	for i, refusal := range run.Rehearsal.Refusals {
		if refusal.Cause == "memory" && r.Refused == nil {
			r.Refused = &run.Rehearsal.Refusals[i]
		}
	}
	r.Account, r.Levers = run.Rehearsal.Memory, run.Levers
	if resident := run.Figure("memory.resident.peak"); resident.Known() {
		host := int64(*resident.Value)
		if r.Data && r.Account != nil { // the device's tensors lie in it
			host = max(0, host-r.Account.AllocatedPeak)
		}
		r.Host = &host
	}
	return r
}

// NeedsData says why a rehearsal with shapes alone has to be made once more with data: the script failed, and for no
// want of memory or fault of its own, so that its course may depend on values. "" where it has not.
func NeedsData(run *evidence.Run) string {
	r := Read(run)
	if r.Data || r.Refused != nil || r.OwnFault() || run.Outcome.Signal != "" {
		return ""
	}
	return r.Ended
}

// own are errors that no value of a tensor leads to: the script is not whole, or something it needs is not there.
var own = regexp.MustCompile(`^the script ended with (SyntaxError|IndentationError|TabError|ModuleNotFoundError|` +
	`ImportError|FileNotFoundError|NotADirectoryError|IsADirectoryError|PermissionError)\b`)

// OwnFault reports whether the script failed by itself, so that it would with data as well: before a tensor was on the
// device, or, before a step was over, with an error that no value leads to.
func (r Rehearsed) OwnFault() bool {
	return r.Ended != "" && (r.Account == nil || r.Steps == 0 && own.MatchString(r.Ended))
}

// Switched reports whether the agent did switch a lever on.
func (r Rehearsed) Switched(lever string) bool {
	return slices.ContainsFunc(r.Levers, func(l evidence.Lever) bool { return l.Lever == lever && l.Done })
}
