// Package fit judges whether a script's training fits into the memory of a Mac, from a rehearsal's account of memory
// and the chip's limits. docs/fits.md says by which rules. It is pure: it opens nothing and starts nothing.
package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// How far the account was off where it was held against a GPU: docs/double-memory.md, which a test compares. Under:
// the GPU's allocator had reserved more than was accounted (t5, -12.94 %, since mended: r3d_18, -7.61 %; the wider
// one is kept); that much is added before a yes. Over: more was accounted than the GPU had allocated
// (frozen_resnet50, 5.91 %; one workload is left out whose gradients overflowed there and not in a rehearsal without
// data); that much is taken off before a no.
const (
	Under = 0.1294
	Over  = 0.0591
)

// Answers about a chip.
const (
	Fits     = "fits"
	DoesNot  = "does not fit"
	TooClose = "too close to call"
	NotKnown = "not known"
)

// Mac is what a chip's memory allows a process. Sizes are bytes; nil is not known.
type Mac struct {
	Chip        string `json:"chip"` // as --chip takes it
	Name        string `json:"name"`
	Memory      int64  `json:"memory"` // unified
	MacOS       string `json:"macos"`
	Recommended *int64 `json:"recommended,omitempty"` // Metal's recommended working set
	Ground      string `json:"ground,omitempty"`      // how that is known: observed, derived
	Seen        string `json:"seen,omitempty"`        // where it was read
	// High is where PyTorch's allocator refuses, Low where it begins to give cached memory back.
	High *int64 `json:"high,omitempty"`
	Low  *int64 `json:"low,omitempty"`
	// LargestBuffer is Metal's limit of one buffer, with how that is known and where it was read.
	LargestBuffer *int64 `json:"largest_buffer,omitempty"`
	LargestGround string `json:"largest_ground,omitempty"`
	LargestSeen   string `json:"largest_seen,omitempty"`
	// HighRatio is High by Recommended: PYTORCH_MPS_HIGH_WATERMARK_RATIO; 0: nothing is refused.
	HighRatio float64 `json:"high_ratio"`
	// Rest is taken for macOS and other programs: what Metal leaves to them on the smallest Mac that is sold.
	Rest int64 `json:"rest"`
}

// Margin is how far a need stays below a limit.
type Margin struct {
	Limit  string         `json:"limit"`
	Need   *int64         `json:"need,omitempty"`
	Most   *int64         `json:"most,omitempty"` // nil: not known, and Why says why
	Left   *int64         `json:"left,omitempty"` // negative: so much is missing
	Basis  evidence.Basis `json:"basis,omitempty"`
	Source string         `json:"source,omitempty"` // of the limit
	Why    string         `json:"why,omitempty"`
}

// Judgement is what is said of one Mac.
type Judgement struct {
	Mac    Mac    `json:"mac"`
	Answer string `json:"answer"`
	Why    string `json:"why"`
	// Low and High are the band about the peak: what it is at least, and at most, by the errors of the account.
	Low      *int64            `json:"low,omitempty"`
	High     *int64            `json:"high,omitempty"`
	Margins  []Margin          `json:"margins"`
	Batch    *Batches          `json:"batch,omitempty"`
	Try      []string          `json:"try"` // what may help
	Refusal  *evidence.Refusal `json:"refusal,omitempty"`
	Refused  string            `json:"refused,omitempty"` // when: step 3, backward
	Run      string            `json:"run,omitempty"`     // the rehearsal that it is judged by
	Step     *Step             `json:"step,omitempty"`
	account  *evidence.RehearsedMemory
	rehearse Rehearsed
}

// Step is how long a step is predicted to take on the Mac, in seconds; without a band Why says why there is none.
type Step struct {
	Low   *float64       `json:"low,omitempty"`
	Mid   *float64       `json:"mid,omitempty"`
	High  *float64       `json:"high,omitempty"`
	Basis evidence.Basis `json:"basis,omitempty"`
	Why   string         `json:"why"`
	// Held of so many published Figures lay in bands made without their source.
	Held    int      `json:"held,omitempty"`
	Figures int      `json:"figures,omitempty"`
	Unknown []string `json:"unknown,omitempty"` // operators of which nothing is known
}

// Batches are a batch, and the largest that is predicted to fit.
type Batches struct {
	Rows  int            `json:"rows"`
	Fits  int            `json:"fits"` // 0: none does
	Basis evidence.Basis `json:"basis"`
	Why   string         `json:"why"`
}

// Judge says of a Mac whether what was rehearsed fits. r is a rehearsal with memory enough; own one on this very Mac,
// nil where there was none, since the first came nowhere near its limits.
func Judge(r Rehearsed, own *Rehearsed, mac Mac) Judgement {
	j := Judgement{Mac: mac, Margins: []Margin{}, Try: []string{}, Run: r.Run, account: r.Account, rehearse: r}
	if own != nil {
		j.refused(own)
		if own.Refused == nil && own.Ended == "" && own.Account != nil { // its course was that of this Mac
			r = *own
			j.Run, j.account, j.rehearse = r.Run, r.Account, r
		}
	}
	if why := unusable(r); why != "" {
		j.Answer, j.Why = NotKnown, why
		return j
	}
	a := r.Account
	low, high := int64(float64(a.AllocatedPeak)/(1+Over)), int64(math.Ceil(float64(a.Peak)/(1-Under)))
	j.Low, j.High = &low, &high
	j.margins(a, r.Host)
	j.Answer, j.Why = j.judge(r, low, high)
	j.batch(a, r.Host)
	return j
}

// unusable says why a rehearsal cannot be judged, "" where it can.
func unusable(r Rehearsed) string {
	switch {
	case r.Refused != nil:
		return "even " + r.Chip + ", which has the most memory, ran out of it: what the script needs was not seen; it " +
			"is more than " + r.Refused.Text
	case r.Ended != "":
		return r.Ended + ": what it needs beyond that was not seen"
	case r.Account == nil:
		return "the rehearsal has no account of memory: no tensor was on the device"
	case r.Steps == 0:
		return "no training step was seen: the script never trained, or not where the agent could tell"
	}
	return ""
}

// refused keeps where a rehearsal on this Mac ran out of memory.
func (j *Judgement) refused(own *Rehearsed) {
	if own.Refused == nil {
		return
	}
	j.Refusal, j.Refused = own.Refused, fmt.Sprintf("after %d steps", own.Steps)
	switch {
	case own.Steps == 0:
		j.Refused = "before a step was over"
	case own.Steps == 1:
		j.Refused = "after 1 step"
	}
	if own.Account != nil && own.Account.At.Phase != "" {
		j.Refused += fmt.Sprintf("; most was in use in %s", own.Account.At.Phase)
	}
}

// judge is the rule itself: low and high are the band about the peak.
func (j *Judgement) judge(r Rehearsed, low, high int64) (answer, why string) {
	m, b := j.Mac, func(n int64) string { return unit.Bytes(float64(n)) }
	if m.LargestBuffer != nil && r.Account.LargestBuffer >= *m.LargestBuffer {
		return DoesNot, fmt.Sprintf("one buffer of %s is asked for, and Metal makes none of %s or more",
			b(r.Account.LargestBuffer), b(*m.LargestBuffer))
	}
	if m.High != nil && low > *m.High {
		return DoesNot, fmt.Sprintf("at least %s are in use at once, and PyTorch refuses beyond %s", b(low), b(*m.High))
	}
	host := int64(0)
	if r.Host != nil {
		host = *r.Host
	}
	if low+host+m.Rest > m.Memory {
		return DoesNot, fmt.Sprintf("at least %s are in use at once on the device, with %s in the script's own processes "+
			"and %s for macOS and other programs more than the %s that the Mac has: it would swap, whatever PyTorch allows",
			b(low), b(host), b(m.Rest), b(m.Memory))
	}
	if m.Recommended == nil {
		return NotKnown, fmt.Sprintf("Metal's recommended working set for %s under macOS %s is not known",
			b(m.Memory), m.MacOS)
	}
	if j.Refusal != nil {
		return TooClose, fmt.Sprintf("the rehearsal on it was refused memory, and by less than the account may be off: "+
			"at least %s are in use at once, and PyTorch refuses beyond %s", b(low), b(*m.High))
	}
	if high > *m.Recommended {
		said := fmt.Sprintf("up to %s may be taken, more than Metal's recommended working set of %s", b(high),
			b(*m.Recommended))
		if m.High != nil {
			said += fmt.Sprintf("; PyTorch refuses from %s on, what Metal and MPSGraph take beside it counted in, "+
				"which nobody can predict", b(*m.High))
		}
		return TooClose, said
	}
	if high+host+m.Rest > m.Memory {
		return TooClose, fmt.Sprintf("up to %s on the device, %s in the script's own processes and %s for macOS and other "+
			"programs are more than the %s that the Mac has: it may swap", b(high), b(host), b(m.Rest), b(m.Memory))
	}
	if r.growing() {
		return TooClose, fmt.Sprintf("most was in use in step %d, the last that was rehearsed: it may not stand still "+
			"yet; more --steps tell", r.Account.At.Step)
	}
	if r.Longer() {
		return TooClose, fmt.Sprintf("the longest batch rehearsed has length %d, and the data have %d: that one needs more",
			*r.Account.Batch.Length, *r.Account.Batch.Longest)
	}
	return Fits, fmt.Sprintf("up to %s are taken, within Metal's recommended working set of %s", b(high),
		b(*m.Recommended))
}

// settled is after how many steps a peak that comes in the last one is no longer that of a first step's making: the
// optimizer makes its state in the first, and the second has all of it.
const settled = 3

func (r Rehearsed) growing() bool {
	return r.Steps >= settled && r.Account.At.Step >= r.Steps && r.Account.At.Phase != "evaluation" &&
		r.Account.At.Phase != "saving"
}

// Longer reports whether the data have a longer batch than any that was rehearsed.
func (r Rehearsed) Longer() bool {
	if r.Account == nil {
		return false
	}
	b := r.Account.Batch
	return b != nil && b.Length != nil && b.Longest != nil && *b.Longest > *b.Length
}

// margins are the limits one by one.
func (j *Judgement) margins(a *evidence.RehearsedMemory, host *int64) {
	m := j.Mac
	add := func(limit string, need int64, most *int64, source, why string) {
		row := Margin{Limit: limit, Need: &need, Basis: evidence.Rehearsed}
		if most == nil {
			row.Why = why
		} else {
			left := *most - need
			row.Most, row.Left, row.Source = most, &left, source
		}
		j.Margins = append(j.Margins, row)
	}
	ground := func(known, seen string) string {
		if seen != "" {
			known += ", " + seen
		}
		return known
	}
	unknown := fmt.Sprintf("Metal's recommended working set for %s under macOS %s is not known",
		unit.Bytes(float64(m.Memory)), m.MacOS)
	add("recommended working set", a.Peak, m.Recommended, ground(m.Ground, m.Seen), unknown)
	add("wired limit", a.Peak, m.Recommended, "iogpu.wired_limit_mb is 0 unless somebody set it: then it is the "+
		"recommended working set", unknown)
	why := unknown
	if m.HighRatio == 0 {
		why = "PYTORCH_MPS_HIGH_WATERMARK_RATIO is 0: PyTorch refuses nothing"
	}
	add("high watermark", a.Peak, m.High, fmt.Sprintf("%g times that; PyTorch's MPSAllocator.h", m.HighRatio), why)
	add("largest buffer", a.LargestBuffer, m.LargestBuffer, ground(m.LargestGround, m.LargestSeen),
		"Metal's maxBufferLength for this Mac is not known")
	whole, memory := a.Peak+m.Rest, m.Memory
	said := fmt.Sprintf("with %s for macOS and other programs", unit.Bytes(float64(m.Rest)))
	if host != nil {
		whole += *host
		said += fmt.Sprintf(" and %s of the script's own", unit.Bytes(float64(*host)))
	} else {
		said += "; what the script's own processes take is not known"
	}
	add("unified memory", whole, &memory, said, "")
}

// batch predicts the largest batch with a yes: activations, workspace and data in proportion to the batch, the rest as
// it is.
func (j *Judgement) batch(a *evidence.RehearsedMemory, host *int64) {
	if a.Batch == nil || a.Batch.Rows <= 0 || j.Mac.Recommended == nil || a.AllocatedPeak <= 0 {
		return
	}
	room := j.Mac.Memory - j.Mac.Rest
	if host != nil {
		room -= *host
	}
	most := float64(min(*j.Mac.Recommended, room)) * (1 - Under) * float64(a.AllocatedPeak) / float64(max(a.Peak, 1))
	moves := moving(a.Kinds)
	fixed := a.AllocatedPeak - moves
	if moves <= 0 {
		return
	}
	rows := int(max(0, math.Floor((most-float64(fixed))/(float64(moves)/float64(a.Batch.Rows)))))
	j.Batch = &Batches{Rows: a.Batch.Rows, Fits: rows, Basis: evidence.Predicted,
		Why: "activations, workspace and data taken as proportional to the batch"}
	if j.Answer == Fits {
		return
	}
	j.tryBatch(fixed)
}

// tryBatch names a smaller batch among what may help; fixed are bytes that do not shrink with it.
func (j *Judgement) tryBatch(fixed int64) {
	if j.Batch.Fits < 1 {
		j.Try = append(j.Try, fmt.Sprintf("no batch fits: what does not shrink with it, weights, gradients, the optimizer's "+
			"state and the rest, takes %s", unit.Bytes(float64(fixed))))
	} else if j.Batch.Fits < j.Batch.Rows {
		j.Try = append(j.Try, fmt.Sprintf("a batch of %d in place of %d (%s: %s)", j.Batch.Fits, j.Batch.Rows,
			j.Batch.Basis, j.Batch.Why))
	}
}

// Smaller is the batch to rehearse next, where the rehearsed one did not get a yes and a smaller one may; 0: none.
func (j *Judgement) Smaller() int {
	if j.Answer == Fits || j.Batch == nil || j.Batch.Basis == evidence.Rehearsed || j.Batch.Fits >= j.Batch.Rows {
		return 0
	}
	return j.Batch.Fits
}

// Tried takes in a rehearsal on the same Mac with a smaller batch, which the agent set. Where that gets a yes the batch
// is known by rehearsal; where not, the next one is predicted from it. false: it tells nothing.
func (j *Judgement) Tried(rows int, r Rehearsed) bool {
	if !r.Switched("batch") || unusable(r) != "" {
		return false
	}
	again := Judge(r, nil, j.Mac)
	j.Try = slices.DeleteFunc(j.Try, func(s string) bool { return strings.HasPrefix(s, "a batch of ") })
	switch {
	case again.Answer == Fits:
		j.Batch.Fits, j.Batch.Basis = rows, evidence.Rehearsed
		j.Batch.Why = fmt.Sprintf("with up to %s", unit.Bytes(float64(*again.High)))
	case again.Batch != nil:
		j.Batch.Fits = min(again.Batch.Fits, rows-1)
	}
	j.tryBatch(r.Account.AllocatedPeak - moving(r.Account.Kinds))
	return true
}

// moving are the bytes that are taken as proportional to the batch.
func moving(k evidence.MemoryKinds) int64 { return k.Activations + k.Workspace + k.Data }
