package verdict

import (
	"assay/internal/evidence"
	"fmt"
	"strings"
)

// Lane is where training belongs.
type Lane string

// The lanes. None is no lane: what is known does not suffice.
const (
	CPU    Lane = "CPU"
	MPS    Lane = "MPS"
	MLX    Lane = "MLX"
	Remote Lane = "remote"
	CUDA   Lane = "CUDA"
	None   Lane = "not enough evidence"
)

// What a person may declare of the work: nothing in the evidence says it.
const (
	Inference = "inference"  // it is deployed, not trained
	Service   = "service"    // it has to answer day and night, or a queue of jobs is to be worked off
	MatchCUDA = "match-cuda" // its losses have to follow those of CUDA
	Portable  = "portable"   // its code has to run on other machines than Apple's as well
	Rewrite   = "rewrite"    // it may be rewritten for MLX
)

// Declarations lists the words with their meaning.
var Declarations = [][2]string{
	{Inference, "the model is deployed, not trained"},
	{Service, "it has to answer day and night, or works off a queue"},
	{MatchCUDA, "its losses have to follow those of CUDA"},
	{Portable, "its code has to run on other machines than Apple's"},
	{Rewrite, "it may be rewritten for MLX"},
}

// Condition is one thing that a rule asks for. Exactly one of its fields is set; Where may stand beside Evidence.
type Condition struct {
	Evidence string // a rule as gates have it
	Where    string // Evidence is asked only where this was declared
	Said     string // this was declared
	NotSaid  string // this was not declared
	Out      Lane   // an earlier rule has ruled this lane out
	Unless   string // that earlier rule does not hold
}

func (c Condition) String() string {
	switch {
	case c.Where != "":
		return "where " + c.Where + " is declared, " + c.Evidence
	case c.Said != "":
		return c.Said + " is declared"
	case c.NotSaid != "":
		return c.NotSaid + " is not declared"
	case c.Out != "":
		return string(c.Out) + " is ruled out"
	case c.Unless != "":
		return c.Unless + " does not hold"
	}
	return c.Evidence
}

// Rule says what follows when all its conditions hold: a lane, or that a lane is out.
type Rule struct {
	Name    string
	When    []Condition
	Lane    Lane // the lane; None: another thing has to be done first
	RuleOut Lane // instead of a lane
	Because string
	Source  string
	Next    string // what to do
}

// Then says what follows.
func (r Rule) Then() string {
	if r.RuleOut != "" {
		return string(r.RuleOut) + " is out"
	}
	return string(r.Lane)
}

// The thresholds of assay (evidence/limit.go), as a rule writes them.
var (
	leastGain    = fmt.Sprintf("%g %%", 100*evidence.Speedup)
	idleGPU      = fmt.Sprintf("%g %%", 100*evidence.GPUBusy)
	lossDrift    = strings.Replace(fmt.Sprintf("%.0e", evidence.LossDrift), "e-0", "e-", 1)
	memoryGrowth = fmt.Sprintf("%g %% over %d epochs", 100*evidence.MemoryGrowth, evidence.GrowthEpochs)
	longEpoch    = fmt.Sprintf("%g min", evidence.LongEpoch/60)
)

// noRoom: the step asks for more than Metal gives to one process.
const noRoom = "refusals(memory) >= 1 or memory.watermark(double) > 100 % or memory.watermark(mps) > 100 %"

// knownWrong: the rehearsal met, for sure, what is known to come out wrong or to end the process.
const knownWrong = "facts.wrong(double) >= 1 or facts.aborts(double) >= 1"

// Rules in their order. Those that rule a lane out come first; of the others the first that holds, and whose lane is
// not out, is the verdict. Numbers are the seeds' own. A rehearsal can rule MPS out, never prove that it is fast: gates
// do not take its times.
var Rules = []Rule{
	{Name: "missing-operator", RuleOut: MPS, When: []Condition{{Evidence: "refusals(missing) >= 1"}},
		Because: "An operator without a kernel for MPS ends the script in that release of PyTorch.",
		Source:  "S0 part 9, S4 §1 §5",
		Next:    "swap the operator; assay ops NAME says which release has it; PYTORCH_ENABLE_MPS_FALLBACK=1 lets it run on the CPU, and a rehearsal under it shows how much then would"},
	{Name: "refused-type", RuleOut: MPS, When: []Condition{{Evidence: "refusals(dtype) >= 1"}},
		Because: "MPS refuses a data type that the script puts there, float64 above all.", Source: "S0 part 1, S4 §5",
		Next: "cast to float32 before the tensor goes to the device, and rehearse again"},
	{Name: "known-wrong", RuleOut: MPS, When: []Condition{{Evidence: knownWrong}},
		Because: "A call of the script is known to give wrong numbers on MPS in that release, or to end the process, and nothing says so there.",
		Source:  "docs/knowledge.md",
		Next:    "do what the fact's remedy says: another release, or that part on the CPU; then rehearse again with --torch of that release"},
	{Name: "too-large", RuleOut: MPS, When: []Condition{{Evidence: noRoom}},
		Because: "The step does not fit into what Metal gives to one process on that chip.", Source: "S4 §5 §9 §15",
		Next: "lower the batch, or checkpoint; a Mac with more memory is the same lane elsewhere"},
	{Name: "fails-on-mps", RuleOut: MPS, When: []Condition{{Evidence: "failures(mps) >= 1"}},
		Because: "The script was run on MPS and ended with an error.", Source: "S4 §1",
		Next: "read the error; assay run --on double says whether an operator, a type or memory is behind it"},
	{Name: "hotspots-fall-back", RuleOut: MPS, When: []Condition{{Evidence: "hot.fallbacks(mps) >= 1"},
		{Evidence: "speedup(mps, cpu) < " + leastGain}},
		Because: "Operators among the three that take most time run on the CPU, and the step gains little by the rest: the hotspots stay on fallback.", Source: "S4 §3.5 §6",
		Next: "write the operators' names down; swap them, or split: that layer on the CPU on purpose"},
	{Name: "drift", RuleOut: MPS, When: []Condition{{Said: MatchCUDA}, {Evidence: "parity.loss(mps, cuda) > " +
		lossDrift}},
		Because: "Losses have to follow those of CUDA, and drift further than the tolerance.", Source: "S4 §4 §14",
		Next: "restrict MPS to preprocessing; where another tolerance is agreed, write it down as a gate"},

	{Name: "drift-to-cuda", Lane: CUDA, When: []Condition{{Said: MatchCUDA},
		{Evidence: "parity.loss(mps, cuda) > " + lossDrift}},
		Because: "What has to match CUDA bit for bit, or nearly, is trained where it has to match.",
		Source:  "S4 §4 §14",
		Next:    "train on CUDA; keep MPS for preprocessing and trials"},
	{Name: "service", Lane: Remote, When: []Condition{{Said: Service}, {Unless: "missing-operator"},
		{Unless: "refused-type"}, {Unless: "known-wrong"}},
		Because: "Queues and what has to answer day and night belong on a machine that nobody closes: laptops iterate, shared nodes promise.", Source: "S4 §2 §8 §10",
		Next: "run a short smoke on the remote host first, with the same data, command and environment"},
	{Name: "more-memory", Lane: Remote, When: []Condition{{Evidence: noRoom}, {Unless: "missing-operator"},
		{Unless: "refused-type"}, {Unless: "known-wrong"}},
		Because: "The same code fits on Apple silicon with more unified memory.", Source: "S4 §10 §15",
		Next: "rehearse with --chip of a larger Mac, to see that it fits there; then sweep the batch anew"},
	{Name: "memory-grows", Lane: Remote, When: []Condition{{Evidence: "memory.growth(mps) > " + memoryGrowth}},
		Because: "Memory rises by more than " + memoryGrowth + ": suspect retained tensors, and plan a dedicated host.",
		Source:  "S4 §4",
		Next:    "look at the retained tensors of the report first; only what is left goes to another host"},
	{Name: "shared-memory", Lane: Remote, When: []Condition{{Evidence: "pressure.peak(mps) >= 2"},
		{Evidence: "epoch.estimate(mps) > " + longEpoch}},
		Because: "The machine is short of memory, by macOS's own measure, and the job is long: conferencing and browsers fight it for unified memory.", Source: "S4 §6 §10, S0 part 6",
		Next: "move long queues to a dedicated Mac; short runs stay here, with other programs closed"},
	{Name: "mlx-inference", Lane: MLX, When: []Condition{{Said: Inference}, {NotSaid: Portable},
		{Evidence: "speedup(mlx, mps) > 0 %"}},
		Because: "For deployment MLX is made for Apple silicon, and it was faster here.", Source: "S0 part 9, S4 §2 §6",
		Next: "prove the converted weights by parity before they are deployed"},
	{Name: "mlx-training", Lane: MLX, When: []Condition{{Said: Rewrite}, {NotSaid: Portable},
		{Evidence: "speedup(mlx, mps) >= " + leastGain}},
		Because: "MLX for training, where the most speed is wanted, its younger ecosystem accepted, and no other platform needed. Else MPS trains (S0 part 9).", Source: "S3 §7.10",
		Next: "keep the PyTorch loop until losses of both agree"},
	{Name: "data-plane", Lane: None, When: []Condition{{Evidence: "speedup(mps, cpu) < " + leastGain},
		{Evidence: "gpu.util(mps) < " + idleGPU}},
		Because: "The step gains less than " + leastGain + " while the GPU is busy for less than " + idleGPU +
			" of the time: this compares data planes, not devices.", Source: "S4 §4 §12",
		Next: "assay run --only data; fix loader and batch, then compare again"},
	{Name: "mps", Lane: MPS, When: []Condition{{NotSaid: Inference}, {Evidence: "failures(mps) == 0"},
		{Evidence: "speedup(mps, cpu) >= " + leastGain + " or speedup(mps, cpu) > 0 % and gpu.util(mps) >= " + idleGPU},
		{Evidence: "memory.growth(mps) <= " + memoryGrowth}, {Where: MatchCUDA,
			Evidence: "parity.loss(mps, cuda) within " + lossDrift}},
		Because: "MPS with PyTorch for training: it is faster than the CPU here, and its memory holds still.",
		Source:  "S0 part 9, S4 §2 §4",
		Next:    "sweep the batch, and keep these thresholds as gates"},
	{Name: "mps-inference", Lane: MPS, When: []Condition{{Said: Inference}, {Evidence: "failures(mps) == 0"},
		{Evidence: "speedup(mps, cpu) > 0 %"}, {Evidence: "speedup(mlx, mps) <= 0 %"}},
		Because: "MLX was tried for deployment and is no faster here.", Source: "S0 part 9, S4 §7",
		Next: "stay with PyTorch"},
	{Name: "cpu-is-faster", Lane: CPU, When: []Condition{{Evidence: "speedup(mps, cpu) <= 0 %"},
		{Evidence: "gpu.util(mps) >= " + idleGPU}},
		Because: "The GPU is at work, and the CPU is faster all the same: the work is too small for it.",
		Source:  "S4 §2 §9",
		Next:    "stay on the CPU; compare again with a larger batch or model"},
	{Name: "cuda-instead", Lane: CUDA, When: []Condition{{Out: MPS}, {Evidence: "failures(cuda) == 0"}},
		Because: "MPS is out, and the same work ran on CUDA: hardware whose contract is trusted already.",
		Source:  "S4 §4 §20",
		Next:    "train there; rehearse again when a new release of PyTorch is out"},
	{Name: "mlx-instead", Lane: MLX, When: []Condition{{Out: MPS}, {NotSaid: Portable},
		{Evidence: "failures(mlx) == 0"}},
		Because: "MPS is out, and the same work ran in MLX.", Source: "S4 §3.5",
		Next: "prove the two by parity"},
	{Name: "cpu-is-enough", Lane: CPU, When: []Condition{{Out: MPS}, {Evidence: "failures(cpu) == 0"},
		{Evidence: "epoch.estimate(cpu) <= " + longEpoch}},
		Because: "MPS is out, and an epoch on the CPU takes at most " + longEpoch + ".", Source: "S0 part 6, S4 §2",
		Next: "train on the CPU; rehearse again when a new release of PyTorch is out"},
}

// RulesMarkdown is the table of docs/verdict.md.
func RulesMarkdown() string {
	var b strings.Builder
	b.WriteString("| rule | when all of | then | because | next |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range Rules {
		var when []string
		for _, c := range r.When {
			text := c.String()
			if c.Evidence != "" {
				text = strings.Replace(text, c.Evidence, "`"+c.Evidence+"`", 1)
			}
			when = append(when, text)
		}
		fmt.Fprintf(&b, "| %s | %s | **%s** | %s (%s) | %s |\n", r.Name, strings.Join(when, "<br>"), r.Then(),
			r.Because, r.Source, r.Next)
	}
	return b.String()
}
