package fold

import (
	"fmt"
	"slices"

	"assay/internal/evidence"
)

// maxName is how long a variable's name may be, and a place, bytes.
const maxName = 1000

// loop says how steps and epochs were told, and gives the steps their epochs accordingly. Where no loader counts,
// epochs come to be known at the end of the first: the steps until then were told none, and are its own.
func (b *builder) loop() {
	e := b.p.loop
	if e == nil {
		return
	}
	l := &evidence.Loop{}
	steps := []string{evidence.ByOptimizer, evidence.ByHand, evidence.ByCompiled}
	if slices.Contains(steps, e.Steps) && len(b.p.steps) > 0 {
		l.Steps = e.Steps
	}
	if slices.Contains([]string{evidence.ByLoader, evidence.ByLoop, evidence.ByScheduler, evidence.ByEvaluation},
		e.Epochs) {
		l.Epochs = e.Epochs
	}
	if l.Epochs == evidence.ByLoop && len(e.Name) <= maxName && len(e.Where) <= maxName {
		l.Name, l.Where = e.Name, e.Where
	}
	b.run.Loop = l
	if l.Epochs == evidence.ByLoader {
		return
	}
	for i := range b.p.steps {
		s := &b.p.steps[i]
		s.epoch = 0 // what seemed to be an epoch's end has turned out to be none
		if l.Epochs != "" {
			s.epoch = max(1, s.told)
		}
	}
}

// byHand reports whether parameters are updated by hand.
func (b *builder) byHand() bool { return b.run.Loop != nil && b.run.Loop.Steps == evidence.ByHand }

// fromLoader reports whether a loader gives the training steps their batches.
func (b *builder) fromLoader() bool {
	return len(b.p.loaders) > 0 && (b.p.loop == nil || b.p.loop.Loader > 0)
}

// byPasses reports whether epochs are passes of a loader.
func (b *builder) byPasses() bool {
	return len(b.p.loaders) > 0 && (b.run.Loop == nil || b.run.Loop.Epochs == evidence.ByLoader)
}

// trainingLoader is the loader that gives the training steps their batches. Earlier agents did not say which: then the
// first that was read, since a training loop reads its own before it evaluates, with few exceptions; where several
// exist the one whose number of batches fits the steps of an epoch.
func (b *builder) trainingLoader() (LoaderEvent, bool) {
	if !b.fromLoader() {
		return LoaderEvent{}, false
	}
	if b.p.loop != nil {
		for _, l := range b.p.loaders {
			if l.ID == b.p.loop.Loader {
				return l, true
			}
		}
		return LoaderEvent{}, false
	}
	per := 0
	for _, s := range b.p.steps {
		if s.epoch == 1 {
			per++
		}
	}
	micro := max(1, medianMicro(b.p.steps))
	for _, l := range b.p.loaders {
		if l.Batches != nil && per > 0 && (*l.Batches+micro-1)/micro == per {
			return l, true
		}
	}
	return b.p.loaders[0], true
}

// noLoader says why no loader gives the steps their batches.
func (b *builder) noLoader() string {
	if len(b.p.loaders) > 0 {
		return "the DataLoader that was read gave no training step its batch"
	}
	return b.p.words().noLoader
}

// noEpochs says why there are no epochs.
func (b *builder) noEpochs() string {
	if b.run.Loop == nil && len(b.p.loaders) > 0 {
		return "no epoch was seen"
	}
	why := "no epoch was seen: " + b.noLoader()
	if l, ok := b.trainingLoader(); ok && l.Endless {
		why = "no epoch was seen: the loader's sampler goes on without end"
	}
	if b.run.Loop != nil {
		why += ", and no loop around it, scheduler or evaluation divides its steps"
	}
	return why
}

// noSteps says why there is no step to speak of.
func (b *builder) noSteps() string {
	p := b.p
	switch {
	case p.framework == nil:
		return "the script imported no framework that the agent knows (" + watched() + ")"
	case len(p.steps) == 1:
		return "only one step was seen"
	case len(p.steps) > 0:
		return fmt.Sprintf("only %d steps were seen", len(p.steps))
	case p.loop != nil && p.loop.Backward:
		return "backward passes were seen, but no optimizer stepped after them, and what their gradients are of " +
			"was not changed otherwise"
	case p.loop != nil && p.loop.Module:
		return "models were called, but there was neither a backward pass nor an optimizer step"
	case p.device.Type != "" && (p.loop == nil || p.framework.Name != "torch"):
		return p.words().noStep
	}
	return "no training step was seen: neither a backward pass nor an optimizer step"
}
