package golden

import (
	"cmp"
	"slices"
)

// Backward is where gradients begin to differ on the way back from the loss: the last module, in the order of calls,
// whose gradients do while those of all behind it agree.
type Backward struct {
	Module     string `json:"module"` // of A
	Difference        // of all its weights' gradients together
	Weights    []Pair `json:"weights"`
	// Behind is the largest difference of a module behind it, nil where it is the last one.
	Behind *float64 `json:"behind"`
}

const (
	// weightFactor is how much more than all gradients together those of one weight may differ: a bias, which is a sum
	// with much cancellation, was 4 times as far off as all (MSI-Net, MLX beside PyTorch, no branch in between).
	weightFactor = 10
	// branchFactor is how much more than the spread of the branches gradients in front of them may differ. One window
	// of 24,576 of MSI-Net's pool4 has a spread of 6.4e-3, and made 9.7e-4 right before it, 5.8e-3 ten layers before.
	branchFactor = 10
)

// backward finds where gradients begin to differ, and judges each weight: all together hide a small one. What a branch
// that went another way makes of gradients in front of it is no fault, as far as it can be that.
func (c *comparer) backward(pairs []Pair) {
	p := &c.result.Parts[len(c.result.Parts)-1]
	called := map[string]int{}
	for i, call := range c.a.Calls {
		called[call.Module] = i
	}
	var all Difference
	for _, pair := range pairs {
		all.join(pair.Difference)
	}
	type module struct {
		name    string
		at      int
		weights []Pair
		Difference
	}
	var modules []*module
	of := map[string]*module{}
	explained := p.Whole <= max(p.Within, branchFactor*spread(c.turned))
	for _, pair := range pairs {
		name, _ := cutLast(pair.A)
		at, ok := called[name]
		if max(pair.a, pair.b) < Dead*max(all.a, all.b) && pair.Note == "" {
			continue
		}
		if pair.Relative > weightFactor*p.Within {
			p.Agrees = p.Agrees && c.byBranches(pair, at, ok)
			explained = explained && c.byBranches(pair, at, ok)
		}
		if !ok || name == "" { // the model's own weights are used anywhere
			continue
		}
		if of[name] == nil {
			of[name] = &module{name: name, at: at}
			modules = append(modules, of[name])
		}
		of[name].weights = append(of[name].weights, pair)
		of[name].join(pair.Difference)
		of[name].Note = cmp.Or(of[name].Note, pair.Note)
	}
	slices.SortStableFunc(modules, func(x, y *module) int { return y.at - x.at })
	begin := min(LossFactor*c.within.Output, p.Within)
	var behind *float64
	for _, m := range modules {
		if m.settle(); m.Relative > begin || m.Note != "" {
			c.result.Backward = &Backward{m.name, m.Difference, m.weights, behind}
			explained = explained && slices.ContainsFunc(c.turned, func(b Branch) bool { return b.call >= m.at })
			break
		}
		most := m.Relative
		if behind != nil {
			most = max(most, *behind)
		}
		behind = &most
	}
	c.doubt = !p.Agrees && len(c.turned) > 0 && explained
}

// byBranches says whether branches behind a weight that is used in call at may be why its gradients differ.
func (c *comparer) byBranches(pair Pair, at int, placed bool) bool {
	var behind []Branch
	for _, b := range c.turned {
		if !placed || b.call >= at {
			behind = append(behind, b)
		}
	}
	return pair.Note == "" && pair.Relative <= branchFactor*spread(behind)
}
