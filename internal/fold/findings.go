package fold

import (
	"fmt"
	"sort"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

func (b *builder) findings() {
	p, run := b.p, b.run
	warn := b.limits()
	if b.rehearsal() { // first: a wrong number goes before time, memory and all else
		b.factFindings()
	}
	for _, name := range []string{"epoch.time", "epoch.estimate"} {
		if fig := run.Figure(name); fig.Known() && *fig.Value > warn && !b.rehearsal() {
			b.find("long-epoch", evidence.Warning, fig.Basis, "",
				"try a smaller resolution or subset first, or another lane; --warn-epoch sets the limit",
				"an epoch takes %s, more than %s", unit.Seconds(*fig.Value), unit.Seconds(warn))
			break
		}
	}
	suite := run.Rehearsal != nil && run.Rehearsal.Tests != nil
	if len(p.steps) == 0 && p.framework != nil && !suite {
		b.find("loop-not-recognised", evidence.Warning, evidence.Measured, "",
			p.words().step, "%s", b.noSteps())
	}
	b.threads()
	if p.loop != nil && p.loop.Strangers {
		b.find("other-threads", evidence.Note, evidence.Measured, "", "",
			"other threads of the process made backward passes or optimizer steps as well: they are in no figure")
	}
	asked := b.f.start.Target
	if want, got := asked.MustShow(), run.Target.Device; want != "" && got != "" && got != want && !asked.Rehearsal() {
		b.find("other-device", evidence.Error, evidence.Measured, "", "pass the script's own device option as well",
			"%s was asked for, and the losses were on %s", want, got)
	}
	if share := run.Figure("share.data"); share.Known() && *share.Value >= evidence.DataWait && !b.rehearsal() {
		workers := 0
		if l, ok := b.trainingLoader(); ok {
			workers = l.Workers
		}
		b.find("data-wait", evidence.Warning, share.Basis, "",
			"assay run --only data tells what the loader can give alone; num_workers is worth trying",
			"%.0f %% of the step is spent waiting for data (num_workers=%d)", 100**share.Value, workers)
	}
	n := run.Numerics
	if len(n.NonFiniteLosses) > 0 {
		b.find("non-finite-loss", evidence.Error, b.basis, "",
			"look at the step before it: learning rate, half precision, log or division",
			"the loss is not finite at step %s", few(n.NonFiniteLosses))
	}
	if len(n.NonFiniteGrads) > 0 {
		sev := evidence.Error
		if n.Scaler {
			sev = evidence.Note // a GradScaler finds its scale by overflowing now and then
		}
		b.find("non-finite-gradient", sev, b.basis, "", "",
			"gradients are not finite at step %s (%d of %d steps were checked)", few(n.NonFiniteGrads), n.GradSteps,
			len(p.steps))
	}
	if len(n.SkippedSteps) > 0 {
		b.find("skipped-steps", evidence.Note, b.basis, "", "", "the GradScaler skipped %d steps: %s",
			len(n.SkippedSteps), few(n.SkippedSteps))
	}
	if strings.HasPrefix(n.LossScaled, "not seen") {
		b.find("unscaled-accumulation", evidence.Warning, evidence.Derived, "",
			fmt.Sprintf("divide the loss by %g before backward, or scale the learning rate knowingly", n.MicroSteps),
			"%g batches are gathered for one optimizer step, and the loss was not seen to be divided to match (%s)",
			n.MicroSteps, n.LossScaled)
	}
	for _, r := range run.Retained {
		b.find("retained-tensors", evidence.Warning, b.basis, r.Where,
			"keep numbers (loss.item(), now and then) or detached copies on the CPU",
			"%d tensors (%s) made in %d traced steps were still alive at the end of the epoch", r.Tensors,
			unit.Bytes(float64(r.Bytes)), r.Steps)
	}
	var ends []int
	for e := range p.alive {
		ends = append(ends, e)
	}
	sort.Ints(ends)
	for i := len(ends) - 1; i >= 0; i-- {
		if g := p.alive[ends[i]].Graph; g != nil {
			b.find("retained-graph", evidence.Warning, b.basis, b.place(g.Name),
				"add loss.detach(), or loss.item() now and then",
				"a tensor holds the graph of %d additions: a running total of losses keeps every step's graph alive",
				g.Additions)
			break
		}
	}
	g := run.Figure("memory.growth")
	if pace, known := g.PerEpoch(); known && pace > evidence.GrowthPace { // here it only earns a line; gates judge
		b.find("memory-growth", evidence.Warning, g.Basis, "", "see the retained tensors",
			"memory grew by %.0f %% over the epochs (%s)", 100**g.Value, g.Note)
	}
	b.mlx()
	waits, lost, first := 0, 0.0, ""
	for _, s := range run.Syncs {
		if s.Waits && s.Steps > 0 && !s.Computes {
			if waits == 0 {
				first = s.Where
			}
			waits += s.Steps
			lost += s.Lost
		}
	}
	seen := ""
	if w := b.watched(); w > 0 {
		seen = fmt.Sprintf(" of the %d of %d steps that were watched", w, len(p.steps))
	}
	if steps := b.hooked(); waits > 0 && steps > 0 && b.rehearsal() {
		b.find("synchronisation", evidence.Note, b.basis, run.Syncs[0].Where,
			"read values every so many steps, or keep them on the device until the end of the epoch",
			"%.1f calls a step would make the host wait for the device", float64(waits)/float64(steps))
	} else if needed := p.words().needed; waits > 0 && steps > 0 && needed != "" {
		b.find("synchronisation", evidence.Note, evidence.Measured, first,
			"read values every so many steps, or evaluate them with the step's own "+needed,
			"%.1f calls a step besides %s wait until arrays are computed, %s in all", float64(waits)/float64(steps),
			needed, unit.Seconds(lost))
	} else if waits > 0 && steps > 0 {
		b.find("synchronisation", evidence.Note, evidence.Measured, first,
			"read values every so many steps, or keep them on the device until the end of the epoch",
			"%.1f calls a step make the host wait for the device, %s in all%s", float64(waits)/float64(steps),
			unit.Seconds(lost), seen)
	}
	for _, fb := range run.Fallbacks {
		if fb.Basis == evidence.Measured {
			b.find("fallback", evidence.Warning, fb.Basis, fb.Where, "", "operator %s ran on the CPU", fb.Operator)
		}
	}
	b.doubleFindings()
	for _, l := range p.late {
		b.find("variable-too-late", evidence.Warning, evidence.Measured, "",
			"set it before import torch, or in the shell",
			"%s was set to %q after PyTorch had read it (as %q): it has no effect", l.Name, l.Now, l.Then)
	}
	b.compiled()
	b.noSplit()
	if p.compiled {
		b.find("compiled", evidence.Note, evidence.Measured, "", "",
			"torch.compile is in use: forward is the compiled module's call, or all the time up to the backward pass")
	}
	if p.hello.Translated != nil && *p.hello.Translated == 1 {
		b.find("translated", evidence.Error, evidence.Measured, "",
			"install an arm64 Python; Rosetta has no Metal for PyTorch", "Python runs translated by Rosetta")
	}
	order := map[evidence.Severity]int{evidence.Error: 0, evidence.Warning: 1, evidence.Note: 2}
	sort.SliceStable(run.Findings, func(i,
		j int) bool {
		return order[run.Findings[i].Severity] < order[run.Findings[j].Severity]
	})
}

// limits keeps what the findings are judged by, and gives the length of an epoch, in seconds, above which one is long.
func (b *builder) limits() (epoch float64) {
	epoch, source := longEpoch(b.f.start), "--warn-epoch"
	if epoch == evidence.LongEpoch {
		source = "default (S0 part 6)"
	}
	b.run.Limits = []evidence.Limit{
		{Name: "long-epoch", Value: epoch, Unit: "s", Source: source},
		{Name: "data-wait", Value: evidence.DataWait, Unit: "ratio", Source: "default"},
		{Name: "memory-growth", Value: evidence.GrowthPace, Unit: "ratio",
			Source: fmt.Sprintf("default, an epoch: %s over %d (S4 §4)", unit.Format(evidence.MemoryGrowth, "ratio"),
				evidence.GrowthEpochs)},
		{Name: "cpu-contention", Value: evidence.LostCPU, Unit: "ratio", Source: "default (docs/quiet.md)"},
		{Name: "cpu-quota", Value: evidence.QuotaTime, Unit: "ratio", Source: "default (docs/quiet.md)"},
		{Name: "thermal-throttling", Value: evidence.HeatTime, Unit: "ratio", Source: "default (docs/quiet.md)"},
		{Name: "swapping", Value: evidence.SwapRate, Unit: "B/s", Source: "default (docs/quiet.md)"},
	}
	return epoch
}

func longEpoch(start StartEvent) float64 {
	if start.WarnLong == 0 {
		return evidence.LongEpoch
	}
	return start.WarnLong
}

func few(xs []int) string {
	s := make([]string, 0, 6)
	for i, x := range xs {
		if i == 5 {
			s = append(s, fmt.Sprintf("… %d in all", len(xs)))
			break
		}
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, ", ")
}

// threads says which threads an exception ended while the script went on: what they were to do is not in the run.
func (b *builder) threads() {
	seen := map[threadErrorEvent]int{}
	var first []threadErrorEvent
	for _, e := range b.p.threads {
		key := e
		key.Thread = ""
		if seen[key]++; seen[key] == 1 {
			first = append(first, e)
		}
	}
	for i, e := range first {
		if i == shownRefusals {
			b.find("thread-failed", evidence.Warning, evidence.Measured, "", "", "%d more threads were ended so",
				len(first)-i)
			break
		}
		key := e
		key.Thread = ""
		text, _, _ := strings.Cut(e.Text, "\n")
		more := ""
		if n := seen[key] - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		b.find("thread-failed", evidence.Warning, evidence.Measured, b.place(e.Where), "",
			"an exception ended the thread %s%s, and the script went on: %s: %s", e.Thread, more, e.Type, text)
	}
}
