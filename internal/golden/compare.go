package golden

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// Tolerances below which two sides are the same, as relative differences in the Euclidean norm.
type Tolerances struct {
	Output   float64 `json:"output"`   // of weights, inputs, modules' outputs, the model's outputs, the loss
	Gradient float64 `json:"gradient"` // of all gradients together
	Update   float64 `json:"update"`   // of all weights' changes together
}

// Usual tolerances for float32. Measured on MSI-Net's 23 convolutions in Keras, PyTorch and MLX against float64:
// outputs of modules are never more than 2.7e-6 off, and gradients up to 1.5e-3, since a branch goes another way;
// of an update by Adam, the weights whose gradient is nearly zero may go either way.
var Usual = Tolerances{Output: 1e-5, Gradient: 5e-3, Update: 5e-2}

// Exact are tolerances where both sides are of float64. Measured on MSI-Net in PyTorch, MLX and Keras on TensorFlow:
// outputs at most 2.7e-15 apart, gradients 4.7e-15, of one weight 1.8e-14. Updates stay as they are: an optimizer may
// keep its own numbers in float32.
var Exact = Tolerances{Output: 1e-12, Gradient: 1e-11, Update: Usual.Update}

// Answers of a comparison.
const (
	Same     = "the same"
	Departs  = "departs"
	NotKnown = "not known"
)

// KindComparison is the kind of document that a Result is.
const KindComparison = "comparison"

// Result is what is said of two golden files: a document of evidence, and the JSON of `assay compare`.
type Result struct {
	evidence.Envelope
	Compared `json:"body"`
}

// Compared is what a result has beyond the envelope.
type Compared struct {
	Answer   string     `json:"answer"`
	Why      string     `json:"why"`
	A        Side       `json:"a"`
	B        Side       `json:"b"`
	Within   Tolerances `json:"within"`
	Settings []Setting  `json:"settings"` // that differ
	Parts    []Part     `json:"parts"`
	Departs  *Departure `json:"departs,omitempty"`
	Backward *Backward  `json:"backward,omitempty"` // where gradients begin to differ, on the way back from the loss
	Branches []Branch   `json:"branches"`           // values behind a ReLU and windows of pools
	Modules  []Pair     `json:"modules"`            // calls of modules that were compared, in A's order
	Alone    Alone      `json:"unpaired"`           // what has no partner on the other side
	Paired   []Paired   `json:"paired_by"`          // pairs of weights whose names are not the same
}

// Side is one of the two.
type Side struct {
	Path      string   `json:"path"`
	Framework string   `json:"framework"`
	Release   string   `json:"release"`
	Device    string   `json:"device"`
	Float64   bool     `json:"float64"`
	Model     string   `json:"model"`
	Step      *float64 `json:"step_seconds"` // median of the timed steps
	Memory    *int64   `json:"memory"`       // bytes of the device's allocator
	Resident  int64    `json:"resident"`
	Loss      string   `json:"loss"`
}

// Part is one thing that is compared, over all its tensors.
type Part struct {
	What   string  `json:"what"` // inputs, targets, weights, outputs, loss, gradients, update 1, statistics 1, …
	Pairs  int     `json:"pairs"`
	Whole  float64 `json:"whole"` // relative difference of all together
	Worst  Pair    `json:"worst"`
	Within float64 `json:"within"`
	Agrees bool    `json:"agrees"`
	// Left out are weights whose gradient is rounding alone, which Adam makes a whole step of.
	Left []string `json:"left_out,omitempty"`
}

// Pair is a tensor of A and one of B.
type Pair struct {
	A    string `json:"a"`
	B    string `json:"b"`
	Kind string `json:"kind,omitempty"`
	Difference
}

// Paired is a weight that has another name in B.
type Paired struct {
	A   string `json:"a"`
	B   string `json:"b"`
	How string `json:"how"`
}

// Alone are names without a partner.
type Alone struct {
	WeightsA []string `json:"weights_a"`
	WeightsB []string `json:"weights_b"`
	CallsA   []string `json:"calls_a"`
	CallsB   []string `json:"calls_b"`
}

// Departure is the first module whose output departs.
type Departure struct {
	Pair
	Input    string    `json:"input"` // what is known of its input: "agrees", "departs", "not known"
	InputOff *float64  `json:"input_relative,omitempty"`
	InputHow string    `json:"input_note,omitempty"`
	Weights  string    `json:"weights"` // of the module, as they began; "": it has none
	Settings []Setting `json:"settings"`
}

type comparer struct {
	a, b    *Golden
	within  Tolerances
	result  *Result
	weights pairing
	modules map[string]string // name of A's module -> B's
	began   []Pair            // the weights that both began with
	dead    map[string]bool   // weights of A whose gradients are rounding alone
	relus   *planes
	turned  []Branch // those of the result's branches where something went another way
	doubt   bool     // gradients differ, and no more than such a branch makes them
}

// Compare holds b against a.
func Compare(a, b *Golden, within Tolerances) (*Result, error) {
	c := &comparer{a: a, b: b, within: within, dead: map[string]bool{}, relus: newPlanes(),
		result: &Result{Envelope: evidence.NewEnvelope(KindComparison)}}
	r := c.result
	r.A, r.B, r.Within = side(a), side(b), within
	c.pairWeights()
	c.pairModules()
	r.Settings = settings(a, b, c.modules)
	for _, step := range []func() error{c.inputs, c.heldWeights, c.calls, c.outputs, c.losses, c.gradients, c.updates} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	c.answer()
	if r.Departs != nil { // of many settings those come first that may be why
		slices.SortStableFunc(r.Settings, func(x, y Setting) int { return c.far(x) - c.far(y) })
	}
	return r, nil
}

func side(g *Golden) Side {
	s := Side{Path: g.Path, Framework: g.Framework, Release: g.Release, Device: g.Device,
		Float64: g.Float64, Model: g.File + ":" + g.Function, Memory: g.Memory, Resident: g.Resident, Loss: g.Loss}
	if n := len(g.Seconds); n > 0 {
		steps := slices.Sorted(slices.Values(g.Seconds))
		median := (steps[(n-1)/2] + steps[n/2]) / 2
		s.Step = &median
	}
	return s
}

func (c *comparer) pairWeights() {
	c.weights = pair(namedWeights(c.a), namedWeights(c.b))
	for _, t := range c.a.file.Tensors {
		name, ok := strings.CutPrefix(t.Name, "weight/")
		if how := c.weights.how[name]; ok && how != "" && how != byName {
			c.result.Paired = append(c.result.Paired, Paired{name, c.weights.to[name], how})
		}
	}
	c.result.Alone.WeightsA, c.result.Alone.WeightsB = c.weights.aloneA, c.weights.aloneB
}

// namedWeights are a side's weights, in the order in which modules are called. What partners share is the part that it
// is of its module, and its size.
func namedWeights(g *Golden) []named {
	called := map[string]int{}
	for i, call := range g.Calls {
		if _, ok := called[call.Module]; !ok {
			called[call.Module] = i
		}
	}
	var all []named
	for _, t := range g.file.Tensors {
		name, ok := strings.CutPrefix(t.Name, "weight/")
		if !ok {
			continue
		}
		module, part := cutLast(name)
		at, ok := called[module]
		if !ok {
			at = len(g.Calls)
		}
		all = append(all, named{name, fmt.Sprint(part, t.Shape), at})
	}
	return all
}

func cutLast(name string) (module, part string) {
	if i := strings.LastIndex(name, "."); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// pairModules pairs modules by their weights, and those without by their names.
func (c *comparer) pairModules() {
	c.modules = map[string]string{"": ""}
	taken := map[string]bool{"": true}
	for _, a := range slices.Sorted(maps.Keys(c.weights.to)) {
		one, _ := cutLast(a)
		other, _ := cutLast(c.weights.to[a])
		if _, ok := c.modules[one]; !ok && one != "" && other != "" {
			c.modules[one] = other
			taken[other] = true
		}
	}
	rest := func(calls []Call, gone func(string) bool) []named {
		var all []named
		seen := map[string]bool{}
		for i, call := range calls {
			if !gone(call.Module) && !seen[call.Module] {
				seen[call.Module] = true
				all = append(all, named{call.Module, call.Module, i}) // by order alone nothing is paired here
			}
		}
		return all
	}
	p := pair(rest(c.a.Calls, func(name string) bool { _, ok := c.modules[name]; return ok }),
		rest(c.b.Calls, func(name string) bool { return taken[name] }))
	for a, b := range p.to {
		c.modules[a] = b
	}
}

// Dead is which part of the square of all gradients or updates one tensor has where hardly more than rounding is in it,
// as in that of a bias before a batch norm, whose true gradient is 0. Where the two sides differ in it, it is left out.
const Dead = 1e-9

// part compares tensors pair by pair, and adds what it finds to the result.
func (c *comparer) part(what string, pairs []Pair, within float64, whole bool) {
	p := Part{What: what, Within: within}
	if strings.HasPrefix(what, "update") {
		pairs = slices.DeleteFunc(pairs, func(pair Pair) bool {
			if c.dead[pair.A] {
				p.Left = append(p.Left, pair.A)
			}
			return c.dead[pair.A]
		})
	}
	p.Pairs = len(pairs)
	var all Difference
	for _, pair := range pairs {
		all.join(pair.Difference)
	}
	all.settle()
	for i, pair := range pairs {
		if whole && max(pair.a, pair.b) < Dead*max(all.a, all.b) && pair.Note == "" {
			c.dead[pair.A] = c.dead[pair.A] || what == "gradients" && pair.Relative > within
			continue
		}
		if i == 0 || pair.Relative > p.Worst.Relative {
			p.Worst = pair
		}
	}
	p.Whole = all.Relative
	p.Agrees = len(pairs) > 0 && p.Worst.Relative <= within
	if whole {
		p.Agrees = len(pairs) > 0 && p.Whole <= within && p.Worst.Note == ""
	}
	c.result.Parts = append(c.result.Parts, p)
}

// channelled are kinds of modules whose pictures have channels where the framework has them, by a part of their name.
var channelled = []string{"Conv", "Pool", "BatchNorm", "BatchNormalization", "Upsampl", "GroupNorm",
	"InstanceNorm", "ZeroPadding"}

// held compares two tensors, of which those with three axes and more may have channels elsewhere.
func (c *comparer) held(nameA, nameB, kind string) (Difference, error) {
	x, err := c.a.read(nameA)
	if err != nil {
		return Difference{}, err
	}
	y, err := c.b.read(nameB)
	if err != nil {
		return Difference{}, err
	}
	return c.oriented(x, y, kind), nil
}

func (c *comparer) oriented(x, y array, kind string) Difference {
	type way struct{ x, y array }
	ways := []way{{x, y}}
	if n := len(x.shape); c.a.Layout != c.b.Layout && n == len(y.shape) && n > 2 {
		turned := way{x, channelsFirst(y)}
		if c.a.Layout == "NHWC" {
			turned = way{channelsFirst(x), y}
		}
		ways = append(ways, turned)
		if slices.ContainsFunc(channelled, func(part string) bool { return strings.Contains(kind, part) }) {
			ways = ways[1:]
		}
	}
	best := Difference{Relative: apartAll, Note: fmt.Sprintf("the shapes are %v and %v", x.shape, y.shape)}
	for i, w := range ways {
		if !slices.Equal(w.x.shape, w.y.shape) {
			continue
		}
		if d := differ(w.x.values, w.y.values); i == 0 || best.Note != "" || d.Relative < best.Relative {
			best = d
		}
	}
	if best.Relative > c.within.Output && best.Note == "" {
		w := ways[len(ways)-1]
		best.Note = inAnotherOrder(w.x, w.y, c.within.Output)
	}
	return best
}

// inputs are what the model got, and what its loss got beside that.
func (c *comparer) inputs() error {
	if err := c.numbered("inputs", "input/"); err != nil || len(c.a.names("target/"))+len(c.b.names("target/")) == 0 {
		return err
	}
	return c.numbered("targets", "target/")
}

func (c *comparer) outputs() error { return c.numbered("outputs", "output/") }

func (c *comparer) numbered(what, prefix string) error {
	var pairs []Pair
	a, b := c.a.names(prefix), c.b.names(prefix)
	for _, n := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) {
		pair := Pair{A: n, B: n}
		switch {
		case !slices.Contains(b, n):
			pair.Difference = Difference{Relative: apartAll, Note: "B has none"}
		case !slices.Contains(a, n):
			pair.Difference = Difference{Relative: apartAll, Note: "A has none"}
		default:
			d, err := c.held(prefix+n, prefix+n, "")
			if err != nil {
				return err
			}
			pair.Difference = d
		}
		pairs = append(pairs, pair)
	}
	c.part(what, pairs, c.within.Output, false)
	return nil
}

// heldWeights compares the weights that both began with; they lie in the same layout.
func (c *comparer) heldWeights() error {
	pairs, err := c.byWeight("weight/", "weight/", true)
	if err != nil {
		return err
	}
	c.began = pairs
	c.part("weights", pairs, c.within.Output, false)
	return nil
}

func (c *comparer) byWeight(a, b string, orders bool) ([]Pair, error) {
	var pairs []Pair
	for _, t := range c.a.file.Tensors {
		name, ok := strings.CutPrefix(t.Name, a)
		other := c.weights.to[name]
		if !ok || other == "" {
			continue
		}
		pair := Pair{A: name, B: other, Kind: c.a.Kinds[name]}
		if _, ok := c.b.tensors[b+other]; !ok {
			pair.Difference = Difference{Relative: apartAll, Note: "B has none"}
			pairs = append(pairs, pair)
			continue
		}
		x, err := c.a.read(a + name)
		if err != nil {
			return nil, err
		}
		y, err := c.b.read(b + other)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(x.shape, y.shape) {
			pair.Difference = Difference{Relative: apartAll,
				Note: fmt.Sprintf("the shapes are %v and %v", x.shape, y.shape)}
		} else {
			pair.Difference = differ(x.values, y.values)
		}
		if pair.Relative > c.within.Output && orders {
			pair.Note = cmp.Or(inAnotherOrder(x, y, c.within.Output), pair.Note)
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// activations that a layer of Keras's may have within, for one that has it beside it.
var activations = map[string]func(float64) float64{
	"relu":    func(v float64) float64 { return max(v, 0) },
	"sigmoid": func(v float64) float64 { return 1 / (1 + math.Exp(-v)) },
	"tanh":    math.Tanh,
}

// calls compares what modules gave, in A's order, and finds the first that departs.
func (c *comparer) calls() error {
	turn, used := map[string]int{}, map[int]bool{}
	calls := map[string][]int{} // of B's modules
	for j, call := range c.b.Calls {
		calls[call.Module] = append(calls[call.Module], j)
	}
	activations := [2]map[string]string{activationsOf(c.a), activationsOf(c.b)}
	for i, call := range c.a.Calls {
		other, ok := c.modules[call.Module]
		j := -1
		if n := turn[call.Module]; ok && n < len(calls[other]) {
			j = calls[other][n]
			turn[call.Module]++
		}
		if j < 0 {
			c.result.Alone.CallsA = append(c.result.Alone.CallsA, call.Module)
			continue
		}
		used[j] = true
		x, err := c.a.read(fmt.Sprintf("call/%d", i))
		if err != nil {
			return err
		}
		y, err := c.b.read(fmt.Sprintf("call/%d", j))
		if err != nil {
			return err
		}
		within := [2]string{activations[0][call.Module], activations[1][other]}
		if within[0] != within[1] {
			if !apply(within[1], within[0], &x) || !apply(within[0], within[1], &y) {
				continue // one side has an activation within that cannot be put beside the other
			}
		}
		pair := Pair{A: call.Module, B: other, Kind: call.Kind, Difference: c.oriented(x, y, call.Kind)}
		c.result.Modules = append(c.result.Modules, pair)
		relu := within[0] == "relu" || within[1] == "relu"
		if err := c.branches(i, j, pair, x, y, relu); err != nil {
			return err
		}
		if pair.Relative > c.within.Output && c.result.Departs == nil {
			if err := c.departs(i, j, pair); err != nil {
				return err
			}
		}
	}
	for j, call := range c.b.Calls {
		if !used[j] {
			c.result.Alone.CallsB = append(c.result.Alone.CallsB, call.Module)
		}
	}
	c.result.Branches = append(c.relus.relus(), c.result.Branches...)
	slices.SortStableFunc(c.result.Branches, func(x, y Branch) int { return x.call - y.call })
	for _, b := range c.result.Branches {
		if b.Other > 0 {
			c.turned = append(c.turned, b)
		}
	}
	return nil
}

// branches keeps what is needed to tell which values of a pair of calls went another way.
func (c *comparer) branches(i, j int, pair Pair, x, y array, relu bool) error {
	var fed [2]array
	for side, g := range []*Golden{c.a, c.b} {
		at := [2]int{i, j}[side]
		name := g.fed(at)
		if from := g.Calls[at].From; name == "" || from != nil && *from >= 0 && !isPool(pair.Kind) {
			continue
		}
		a, err := g.read(name)
		if err != nil {
			return err
		}
		fed[side] = c.first(side, a)
		c.relus.saw(side, fed[side])
	}
	x, y = c.first(0, x), c.first(1, y)
	c.relus.saw(0, x)
	c.relus.saw(1, y)
	if pair.Relative > c.within.Output || !slices.Equal(x.shape, y.shape) ||
		differ(x.values, y.values).Relative > c.within.Output {
		return nil
	}
	c.relus.gave(i, pair.A, x, y, relu, c.within.Output)
	if isPool(pair.Kind) {
		if n, ok := winners(fed[0], fed[1], x, y, c.within.Output); ok {
			c.result.Branches = append(c.result.Branches,
				Branch{Module: pair.A, At: "pool", Other: n, Of: len(x.values), call: i})
		}
	}
	return nil
}

// first is an array of a side's with its channels first.
func (c *comparer) first(side int, a array) array {
	if g := []*Golden{c.a, c.b}[side]; g.Layout == "NHWC" && len(a.shape) > 2 {
		return channelsFirst(a)
	}
	return a
}

// activationsOf are the activations within a side's modules.
func activationsOf(g *Golden) map[string]string {
	found := map[string]string{}
	for _, m := range g.Modules {
		if s, ok := m.Values["activation"].(string); ok {
			found[m.Module] = s
		}
	}
	return found
}

// apply puts an activation on values that have none yet, where the other side has one within.
func apply(wanted, has string, to *array) bool {
	if wanted == "" || has != "" {
		return has == "" || wanted == ""
	}
	f, ok := activations[wanted]
	if !ok {
		return false
	}
	values := make([]float64, len(to.values))
	for i, v := range to.values {
		values[i] = f(v)
	}
	to.values = values
	return true
}

// departs says what is known of the first module that departs.
func (c *comparer) departs(i, j int, pair Pair) error {
	d := &Departure{Pair: pair, Input: "not known"}
	c.result.Departs = d
	if a, b := c.a.fed(i), c.b.fed(j); a != "" && b != "" {
		off, err := c.held(a, b, pair.Kind)
		if err != nil {
			return err
		}
		d.InputOff, d.InputHow, d.Input = &off.Relative, off.Note, "agrees"
		if off.Relative > c.within.Output {
			d.Input = "departs"
		}
	}
	for _, s := range c.result.Settings {
		if s.Where == pair.A {
			d.Settings = append(d.Settings, s)
		}
	}
	for _, w := range c.began {
		if module, _ := cutLast(w.A); module != pair.A {
			continue
		}
		d.Weights = cmp.Or(d.Weights, "agree")
		if w.Relative > c.within.Output {
			d.Weights = fmt.Sprintf("%s departs by %.2g", w.A, w.Relative)
			if w.Note != "" {
				d.Weights += ": " + w.Note
			}
			break
		}
	}
	for _, side := range []struct {
		module, name string
		alone        []string
	}{{pair.A, "A", c.result.Alone.WeightsA}, {pair.B, "B", c.result.Alone.WeightsB}} {
		for _, name := range side.alone {
			if module, _ := cutLast(name); module == side.module && side.module != "" {
				d.Weights = strings.TrimPrefix(d.Weights+"; "+name+" is in "+side.name+" alone", "; ")
			}
		}
	}
	return nil
}

func (c *comparer) losses() error {
	if len(c.a.Losses) == 0 || len(c.b.Losses) == 0 {
		return nil
	}
	c.loss(0)
	return nil
}

// loss compares that of a step, counted from 0. After updates that may differ, what it has moved may too, by their
// part.
func (c *comparer) loss(step int) {
	if step >= min(len(c.a.Losses), len(c.b.Losses)) {
		return
	}
	moved := 0.0
	for i := range step {
		for _, losses := range [][]Number{c.a.Losses, c.b.Losses} {
			moved += math.Abs(float64(losses[i+1]-losses[i])) / 2
		}
	}
	a, b := float64(c.a.Losses[step]), float64(c.b.Losses[step])
	within, name, at := LossFactor*c.within.Output, "loss", "first step"
	if step > 0 {
		name, at = fmt.Sprint("loss ", step+1), fmt.Sprint("step ", step+1)
		if extra := c.within.Update * moved / max(math.Abs(a), math.Abs(b)); extra > 0 && !math.IsInf(extra, 0) {
			within += extra
		}
	}
	c.part(name, []Pair{{A: at, B: at, Difference: differ([]float64{a}, []float64{b})}}, within, false)
}

// LossFactor is how much more than an output a loss may be off: MLX sums in float32 one value after the other, which
// made 6e-5 of a sum over 19,200 values where the outputs agreed to 3e-6.
const LossFactor = 10

func (c *comparer) gradients() error {
	pairs, err := c.byWeight("gradient/", "gradient/", false)
	if err == nil && len(pairs) > 0 {
		c.part("gradients", pairs, c.within.Gradient, true)
		c.backward(pairs)
	}
	return err
}

// updates compares by how much weights were moved, after each update: those that the optimizer moves, and apart from
// them running statistics, which move a thousand times as far and would hide them.
func (c *comparer) updates() error {
	for n := 1; ; n++ {
		prefix := fmt.Sprintf("update/%d/", n)
		if len(c.a.names(prefix)) == 0 || len(c.b.names(prefix)) == 0 {
			return nil
		}
		var pairs, statistics []Pair
		for _, t := range c.a.file.Tensors {
			name, ok := strings.CutPrefix(t.Name, prefix)
			other := c.weights.to[name]
			if _, has := c.b.tensors[prefix+other]; !ok || other == "" || !has {
				continue
			}
			x, err := moved(c.a, prefix+name, "weight/"+name)
			if err != nil {
				return err
			}
			y, err := moved(c.b, prefix+other, "weight/"+other)
			if err != nil {
				return err
			}
			if !slices.Equal(x.shape, y.shape) {
				continue
			}
			pair := Pair{A: name, B: other, Difference: differ(x.values, y.values)}
			_, trained := c.a.tensors["gradient/"+name]
			if _, too := c.b.tensors["gradient/"+other]; trained || too {
				pairs = append(pairs, pair)
			} else {
				statistics = append(statistics, pair)
			}
		}
		c.part(fmt.Sprintf("update %d", n), pairs, c.within.Update, true)
		if slices.ContainsFunc(statistics, func(p Pair) bool { return p.a+p.b > 0 }) {
			c.part(fmt.Sprintf("statistics %d", n), statistics, c.within.Update, true)
		}
		c.loss(n)
	}
}

func moved(g *Golden, after, before string) (array, error) {
	x, err := g.read(after)
	if err != nil {
		return x, err
	}
	y, err := g.read(before)
	if err != nil || !slices.Equal(x.shape, y.shape) {
		return x, err
	}
	for i, v := range y.values {
		x.values[i] -= v
	}
	return x, nil
}

// answer puts the parts together.
func (c *comparer) answer() {
	r := c.result
	var off []string
	for _, p := range r.Parts {
		if !p.Agrees {
			off = append(off, p.What)
		}
	}
	random := c.random()
	switch {
	case len(c.weights.to) == 0:
		r.Answer, r.Why = NotKnown, "no weight of A has a partner in B"
	case slices.Contains(off, "inputs"):
		r.Answer, r.Why = NotKnown, "the inputs are not the same: what comes of them cannot be compared"
	case slices.Contains(off, "targets"):
		r.Answer, r.Why = NotKnown, "the targets of the loss are not the same: what comes of them cannot be compared"
	case len(off) > 0 && random != "":
		r.Answer, r.Why = NotKnown, random+" drops at random: what comes of it cannot be compared; record with --eval, or set its rate to 0"
	case len(off) > 0 && c.doubt && r.Departs == nil && !slices.ContainsFunc(off, forward):
		r.Answer, r.Why = NotKnown, "gradients differ by no more than values that went another way may make: record other inputs"
	case len(off) > 0:
		r.Answer, r.Why = Departs, strings.Join(off, ", ")+": beyond the tolerance"
	case r.Departs != nil:
		r.Answer, r.Why = Departs, "the output of "+cmp.Or(r.Departs.A, "the model")+" is beyond the tolerance"
	case len(r.Alone.WeightsA)+len(r.Alone.WeightsB) > 0:
		r.Answer, r.Why = NotKnown, "what was compared agrees, and some weights have no partner"
	default:
		r.Answer, r.Why = Same, "inputs, weights, outputs, gradients and updates agree within the tolerances"
	}
}

// forward says of a part that no gradient comes before it.
func forward(what string) bool {
	return what != "gradients" && !strings.HasPrefix(what, "update ") && !strings.HasPrefix(what, "loss ")
}

// far is 0 for a setting of the module that departs first, 1 for one of the whole, and 2 for another.
func (c *comparer) far(s Setting) int {
	switch s.Where {
	case c.result.Departs.A:
		return 0
	case "mode", "optimizer":
		return 1
	}
	return 2
}

// random is a module that drops at random on one side, or "".
func (c *comparer) random() string {
	for _, g := range []*Golden{c.a, c.b} {
		for _, m := range g.Modules {
			if rate := number(m.Values["rate"]); strings.Contains(m.Kind, "Drop") && m.Training && rate > 0 {
				return m.Module
			}
		}
	}
	return ""
}

// Status is the exit status that the result deserves.
func (r *Result) Status() int {
	switch r.Answer {
	case Same:
		return fault.OK
	case Departs:
		return fault.GateFailed
	}
	return fault.CannotTell
}
