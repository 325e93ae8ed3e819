package fold

import (
	"slices"

	"assay/internal/evidence"
)

// maxLevers is how many answers of a process are kept, and maxLeverText the bytes of each text in one.
const maxLevers, maxLeverText = 100, 2000

// leverEvent is the agent's answer to one lever.
type leverEvent struct {
	Lever string `json:"lever"`
	Done  bool   `json:"done"`
	Where string `json:"where"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Why   string `json:"why"`
	Note  string `json:"note"`
}

// outOfMemoryEvent is an exception for want of memory; totals so far.
type outOfMemoryEvent struct {
	Text  string `json:"text"`
	Where string `json:"where"`
	Count int    `json:"count"`
}

// pulled keeps an answer. One that is too long, or of no lever, is none.
func (p *process) pulled(e leverEvent) {
	if e.Lever == "" || len(p.levers) >= maxLevers {
		return
	}
	for _, text := range []string{e.Lever, e.Where, e.Why, e.Note} {
		if len(text) > maxLeverText {
			return
		}
	}
	p.levers = append(p.levers, evidence.Lever(e))
}

// levers are those of the process that trained. Where none came to a step, out of memory at once, it is the one that
// had changed something: a launcher, which is there first, found nothing to change.
func (b *builder) levers() []evidence.Lever {
	if len(b.p.steps) > 0 {
		return b.p.levers
	}
	for _, c := range b.f.order {
		if p := b.f.conns[c]; slices.ContainsFunc(p.levers, func(l evidence.Lever) bool { return l.Done }) {
			return p.levers
		}
	}
	return b.p.levers
}

// exhausted lists what was raised for want of memory in any process of the run.
func (b *builder) exhausted() {
	for _, c := range b.f.order {
		for _, e := range b.f.conns[c].exhausted.list {
			if len(b.run.OutOfMemory) < maxLevers {
				b.run.OutOfMemory = append(b.run.OutOfMemory, evidence.OutOfMemory(e))
			}
		}
	}
}
