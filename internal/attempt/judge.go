package attempt

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
)

// The outcomes of an attempt. Where the double refuses, the outcome is its cause.
const (
	outcomeOK       = "ok"
	outcomeWrong    = "wrong"  // it ran, and numbers are known to come out wrong
	outcomeAborts   = "aborts" // it ran here, and the process is known to end on a Mac
	outcomeMissing  = "missing operator"
	outcomeDtype    = "dtype"
	outcomeArgument = "argument"
	outcomeDevice   = "device"
	outcomeMemory   = "memory"
	outcomeOther    = "other"
	outcomeCrash    = "crash"
	outcomeLate     = "not done in time"
	outcomeCPU      = "CPU too"
	outcomeNotBuilt = "not built"
)

// outcomes is the order in which they are counted.
var outcomes = []string{outcomeOK, outcomeWrong, outcomeAborts, outcomeMissing, outcomeDtype, outcomeArgument,
	outcomeDevice, outcomeMemory, outcomeOther, outcomeCrash,
	outcomeLate, outcomeCPU, outcomeNotBuilt}

// mpsErrors tell the cause of a real device's error, whose texts are PyTorch's.
var mpsErrors = []struct {
	outcome string
	text    *regexp.Regexp
}{
	{outcomeMissing, regexp.MustCompile(`is not currently implemented for the MPS device|` +
		`missing (MPS kernel|kernel for mps)`)},
	{outcomeMemory, regexp.MustCompile(`MPS backend out of memory|Invalid buffer size`)},
	{outcomeDtype, regexp.MustCompile(`Cannot convert a MPS Tensor to|MPS framework doesn't support|` +
		`not supported on MPS`)},
	{outcomeDevice, regexp.MustCompile(`on the same device|Placeholder storage`)},
}

// outcome names the cause of an attempt's end, before the CPU was asked.
func (a *attemptAnswer) outcome() string {
	switch {
	case a.Error == nil:
		return a.ran()
	case a.Error.Kind == kindCrash:
		return outcomeCrash
	case a.Error.Kind == kindLate:
		return outcomeLate
	case a.Error.Kind != "":
		return outcomeNotBuilt
	case a.Refusal != nil && a.Refusal.Cause == causeMissing:
		return outcomeMissing
	case a.Refusal != nil && a.Refusal.Cause == causeRank:
		return outcomeArgument
	case a.Refusal != nil && a.Refusal.Cause == facts.Values:
		return outcomeOther
	case a.Refusal != nil:
		return a.Refusal.Cause
	case a.Phase == phaseBuild || a.Phase == phaseInputs:
		return outcomeNotBuilt
	}
	for _, e := range mpsErrors {
		if e.text.MatchString(a.Error.Text) {
			return e.outcome
		}
	}
	return outcomeOther
}

// ran is the outcome of what raised nothing: ok, but where a call is known to come out wrong or to end the process.
func (a *attemptAnswer) ran() string {
	outcome, table := outcomeOK, facts.Load()
	for _, row := range a.Met {
		switch f := table.Fact(row.Fact); {
		case f == nil || !row.Sure:
		case f.Outcome == facts.Wrong:
			return outcomeWrong
		case f.Outcome == facts.Aborts:
			outcome = outcomeAborts
		}
	}
	return outcome
}

// judge makes outcomes of what attempt.py told, by the atlas.
type judge struct {
	atlas    *atlas.Atlas
	remedies *facts.Remedies
}

func newJudge(a *atlas.Atlas, release string) *judge {
	return &judge{a, facts.Load().Remedies(a, release)}
}

// attempt judges a model; onCPU is what happened there, nil where it was not tried.
func (j *judge) attempt(a, onCPU *attemptAnswer) *Attempt {
	m := &Attempt{Name: a.Target, Outcome: a.outcome(), Phase: a.Phase, Model: a.Model,
		Inputs:     append([]string{}, a.Inputs...),
		Parameters: a.Parameters, Data: a.Data, Backward: a.Backward, Seconds: a.Seconds, Peak: a.Peak}
	if len(a.Ops) > 0 {
		shares := sharesOf(a)
		m.Ran = &shares
	}
	m.met(a)
	for _, n := range a.Notes {
		if n.Kind != standIn && n.Kind != toldVersion {
			m.Notes = append(m.Notes, n.Op+": "+n.Text)
		}
	}
	if a.Error == nil {
		if !a.Backward {
			m.Notes = append(m.Notes, "forward alone: no float of its output needs a gradient")
		}
		if len(a.Fallbacks) > 0 { // the user has set PYTORCH_ENABLE_MPS_FALLBACK
			m.Fallback = fallbackOf(a)
		}
		m.badly()
		return m
	}
	m.Error, m.Text, m.Where = a.Error.Type, a.Error.Text, a.Error.at()
	if a.Refusal != nil {
		m.Operator, m.Remedy = a.Refusal.Op, j.remedy(a)
		if op, ok := j.atlas.Operator(m.Operator); ok && m.Outcome == outcomeMissing {
			m.NativeFrom = op.NativeFrom()
		}
	}
	if a.Fallback != nil {
		m.Fallback = fallbackOf(a.Fallback)
	}
	if onCPU == nil {
		return m
	}
	m.CPU = outcomeOK
	if onCPU.Error != nil {
		m.CPU = onCPU.Error.told()
		if !facts.NamesMPS(onCPU.Error.Text) && m.Outcome != outcomeNotBuilt {
			m.Outcome, m.Remedy = outcomeCPU, "it fails on the CPU as well: mend it there first"
			if a.Refusal != nil && strings.Contains(a.Error.Text, "CUDA") {
				m.Remedy = j.remedy(a)
			}
		}
	}
	return m
}

// met keeps the facts that calls of the attempt met, the worst first.
func (m *Attempt) met(a *attemptAnswer) {
	table := facts.Load()
	for _, row := range a.Met {
		met := evidence.Met{Fact: row.Fact, Outcome: "unknown", Sure: row.Sure, Operator: row.Op, Where: row.Where,
			Count: row.N}
		if f := table.Fact(row.Fact); f != nil {
			f.Fill(&met)
		}
		m.Met = append(m.Met, met)
	}
	facts.Sort(m.Met)
}

// badly says of a model that ran which fact makes its outcome wrong or aborts: the worst, met most.
func (m *Attempt) badly() {
	met := evidence.MetBy(m.Met, true, m.Outcome)
	if len(met) == 0 {
		return
	}
	row := met[0][0]
	m.Operator, m.Where, m.Remedy = row.Operator, row.Where, row.Remedy
	m.Text = fmt.Sprintf("%s, when: %s; %s; %s [%s]", cmp.Or(row.Wrong, "the process ends on a Mac"), row.When,
		row.Span, row.Source, row.Fact)
}

// remedy is what to do about the attempt's refusal.
func (j *judge) remedy(a *attemptAnswer) string {
	return j.remedies.Of(a.Refusal.Op, a.Refusal.Cause, a.Error.Text)
}

func fallbackOf(a *attemptAnswer) *Fallback {
	f := &Fallback{Outcome: a.outcome(), Shares: sharesOf(a), Operators: []FellBack{}}
	if a.Error != nil {
		f.Text = a.Error.told()
	}
	for _, row := range a.Fallbacks {
		f.Operators = append(f.Operators, FellBack{row.Op, row.N, row.Where})
	}
	slices.SortStableFunc(f.Operators, func(x, y FellBack) int { return y.Calls - x.Calls })
	return f
}

// told says how an attempt with the fallback went.
func (f *Fallback) told() string {
	text := f.Outcome
	if f.Text != "" {
		text += " (" + f.Text + ")"
	}
	if len(f.Operators) == 0 {
		return text
	}
	operators := make([]string, len(f.Operators))
	for i, op := range f.Operators {
		operators[i] = fmt.Sprintf("%s %d×", op.Operator, op.Calls)
	}
	return text + "; on the CPU: " + strings.Join(operators, ", ") + ": " + f.Shares.told()
}

func sharesOf(a *attemptAnswer) Shares {
	s := a.shares()
	return Shares{s.Operators, s.Calls, s.OfCalls, s.OfFLOPs, s.OfTime, s.FLOPs}
}

// Judge judges an answer of attempt.py's that a tool of ours had it give (tools/models), as `assay try` would judge it
// for that release of PyTorch. onCPU is the answer of an attempt on the CPU, nil where there was none. The error says
// why an answer cannot be read.
func Judge(answer, onCPU []byte, release string) (*Attempt, error) {
	read := func(data []byte) (*attemptAnswer, error) {
		decoded, err := decode(data)
		if err != nil {
			return nil, err
		}
		a, ok := decoded.(*attemptAnswer)
		if !ok {
			return nil, errors.New("it is no attempt")
		}
		return a, nil
	}
	a, err := read(answer)
	if err != nil {
		return nil, fmt.Errorf("read an attempt: %w", err)
	}
	var cpu *attemptAnswer
	if onCPU != nil {
		if cpu, err = read(onCPU); err != nil {
			return nil, fmt.Errorf("read an attempt on the CPU: %w", err)
		}
	}
	return newJudge(&atlas.Atlas{}, release).attempt(a, cpu), nil
}
