package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/golden"
)

// KindDepartures is the kind of document that a Result is.
const KindDepartures = "departures"

// Answers of a comparison, beside golden's Same, Departs and NotKnown.
const Drifts = "drift"

// Options are what a user may say of a comparison.
type Options struct {
	// Within is the relative difference that every row may have; 0: by type, or measured.
	Within float64
	// Moved is A recorded again with its inputs moved by one unit in the last place; nil: none.
	Moved *Recording
}

// Result is what is said of two recordings: a document of evidence.
type Result struct {
	evidence.Envelope
	Compared `json:"body"`
}

// Compared is what a result has beyond the envelope.
type Compared struct {
	Answer    string    `json:"answer"`
	Why       string    `json:"why"`
	A         Side      `json:"a"`
	B         Side      `json:"b"`
	Tolerance string    `json:"tolerance"` // by what it was judged
	Start     []Start   `json:"start"`     // what differs in how the two began
	Settings  []Setting `json:"settings"`  // of modules, that differ
	Operators Judged    `json:"operators"`
	Modules   Judged    `json:"modules"`
	Weights   Judged    `json:"weights"`   // after each step, by how far they were moved
	Gradients Judged    `json:"gradients"` // of each weight, in each step
	// Fed is the first whose input departs where what it comes of agrees, or has no partner
	Fed       *Row        `json:"fed_otherwise"`
	Unaligned []Unaligned `json:"unaligned"`
	AloneA    []string    `json:"alone_a"` // modules and weights that one side has alone
	AloneB    []string    `json:"alone_b"`
	Ties      []Row       `json:"ties"`   // that went the other way
	Random    []Row       `json:"random"` // that drew other numbers
	Depth     []Depth     `json:"depth"`
	Steps     []Step      `json:"by_step"`
	Batches   []ByBatch   `json:"batches,omitempty"`
}

// Side is one of the two.
type Side struct {
	Path     string `json:"path"`
	Torch    string `json:"torch"`
	Device   string `json:"device"`
	System   string `json:"system"`
	Steps    int    `json:"steps"`
	Batch    *int64 `json:"batch"`
	Rows     int    `json:"rows"`
	Complete bool   `json:"complete"`
	Why      string `json:"why"`
}

// Judged is what was said of rows of one kind.
type Judged struct {
	Compared int      `json:"compared"`
	Equal    int      `json:"equal"`  // every hash is
	Within   int      `json:"within"` // the tolerance
	Beyond   int      `json:"beyond"`
	Largest  *Row     `json:"largest"` // of those within
	First    *Row     `json:"first"`   // whose input agrees and whose output departs
	Left     int      `json:"left"`    // whose gradient is rounding alone: not judged
	LeftOut  []string `json:"left_out"`
	Others   []Row    `json:"others"`  // such ones after it
	Unequal  *Row     `json:"unequal"` // the first that is not equal
}

// Row is a row of A beside its partner in B.
type Row struct {
	What      string  `json:"what"` // operator, module, weight, gradient
	Name      string  `json:"name"` // the operator, the module's class, the weight
	Module    string  `json:"module"`
	Step      int     `json:"step"`
	Phase     string  `json:"phase"`
	Call      int     `json:"call"`
	A         int     `json:"row_a"`
	B         int     `json:"row_b"`
	Shape     []int64 `json:"shape"` // of the output that is furthest off
	DType     string  `json:"dtype"`
	Relative  float64 `json:"relative"`
	Exact     bool    `json:"exact"`     // else the size is an estimate
	Tolerance float64 `json:"tolerance"` // relative
	Share     float64 `json:"share"`     // of the sampled elements that are not equal
	Note      string  `json:"note,omitempty"`

	Input     string  `json:"input"`          // agrees, departs, not known
	InputOff  float64 `json:"input_relative"` // of the argument that is furthest off
	InputFrom string  `json:"input_from,omitempty"`
	InputNote string  `json:"input_note,omitempty"`
	Origin    string  `json:"origin,omitempty"` // the row at which what departs began
}

// Depth is a piece of a step, in the order of its operators, or of its modules where those are not aligned.
type Depth struct {
	Phase   string  `json:"phase"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Median  float64 `json:"median"` // of the rows' relative differences
	Largest float64 `json:"largest"`
}

// Step is how far the two are apart in one step.
type Step struct {
	Step      int      `json:"step"`
	LossA     *float64 `json:"loss_a"`
	LossB     *float64 `json:"loss_b"`
	Loss      float64  `json:"loss_relative"`
	Gradients float64  `json:"gradients_relative"` // all together
	Updates   float64  `json:"updates_relative"`   // all weights' changes together
}

// ByBatch is what was said of one pair of several.
type ByBatch struct {
	Batch  *int64 `json:"batch"`
	Answer string `json:"answer"`
	Why    string `json:"why"`
	Where  string `json:"where"`
}

// States of what is compared.
const (
	agrees  = "agrees"
	departs = "departs"
	unknown = "not known"
)

// known is what is kept of one output of a row.
type known struct {
	relative, within, rms float64
	elements              float64
	a, b                  float64 // squares of the norms
	state                 string
	equal, back           bool // back: it is of the backward pass
	follows               bool // what departs comes of a tie, of random numbers or of drift
	origin                int32
}

const noOrigin = -1

// Phases of gradients, and of the optimizer.
const (
	backward = "backward"
	update   = "update"
)

type comparer struct {
	a, b     *Recording
	options  Options
	r        *Result
	last     int
	al       alignment
	moved    alignment
	outs     [][]known           // of A's rows
	weights  map[string]known    // as they are at this row
	own      map[string][]string // the weights of a module and of those in it
	batches  map[string]off      // of the start
	tensors  map[string][2]*Tensor
	unpaired map[int32]int   // rows of B in unaligned calls -> which
	grads    map[string]grad // of the step that is looked at
	found    []Row           // its gradients
	wholes   map[int]*wholes
	origins  []string         // what began to depart and is no row: origin -2 is the first, -3 the second
	begun    int32            // the first row at which something began to depart
	updated  *Row             // the weight that step 1 moved most otherwise
	soft     map[int32]bool   // rows at which a tie or random numbers began what departs
	inside   map[within]int32 // what departs in a module: its origin, and 1
	level    float64          // the largest difference so far that comes of no single row
	edge     *Row             // the first that is fed what departs, where what it is fed has no partner or agrees
	again    int64            // bytes that were read again
	rtol     float64
	tf32     bool
}

type grad struct {
	known
	step int
}

// wholes are sums over all gradients and all updates of a step.
type wholes struct {
	gradients, updates off
	lost               bool    // a gradient that is compared with none, of another shape, or NaN on one side
	moved              off     // of the gradients of the moved recording
	lossMoved          float64 // of its loss
}

// by is how many times its input an operator's output may be off, and how many times a moved input's the output, before
// the operator is held to be at fault: rounding errors of 64 operators that are independent add up to eight times that
// of one.
const by = 8

// Compare holds b against a.
func Compare(a, b *Recording, options Options) (*Result, error) {
	c := &comparer{a: a, b: b, options: options, r: &Result{Envelope: evidence.NewEnvelope(KindDepartures)},
		last: min(a.last, b.last), outs: make([][]known, len(a.rows)), weights: map[string]known{},
		own:    map[string][]string{},
		inside: map[within]int32{}, soft: map[int32]bool{}, begun: noOrigin,
		tensors: map[string][2]*Tensor{}, unpaired: map[int32]int{}, wholes: map[int]*wholes{},
		grads: map[string]grad{}}
	c.r.A, c.r.B = side(a), side(b)
	c.tf32 = a.tf32() || b.tf32()
	if m := options.Moved; m != nil {
		if m.Head.Moved == 0 {
			return nil, fault.Hint(fmt.Errorf("%s is no recording with moved inputs", m.Name),
				"record A again with its inputs moved by one unit in the last place")
		}
		if c.moved = align(a, m, c.last); !startsAs(a, m) {
			return nil, fmt.Errorf("%s was not recorded from the start of %s: what moved by itself cannot be told",
				m.Name, a.Name)
		}
	}
	c.tolerance()
	if err := c.start(); err != nil {
		return nil, err
	}
	c.al = align(a, b, c.last)
	for n, u := range c.al.unaligned {
		for _, j := range u.rowsB {
			c.unpaired[j] = n
		}
	}
	c.r.Unaligned, c.r.AloneA, c.r.AloneB = c.al.unaligned, c.al.alone[0], c.al.alone[1]
	seen := newSettings()
	for i := range a.rows {
		j := c.al.to[i]
		if j < 0 {
			continue
		}
		x, err := a.read(i)
		if err != nil {
			return nil, err
		}
		y, err := b.read(int(j))
		if err != nil {
			return nil, err
		}
		if x.Kind != kindGrad && len(c.found) > 0 {
			c.gradients()
		}
		switch x.Kind {
		case kindOp, kindModule:
			err = c.computed(i, int(j), x, y)
			seen.add(x, y)
		case kindWeight:
			err = c.weight(i, int(j), x, y)
		case kindGrad:
			err = c.gradient(i, int(j), x, y)
		case kindLoss:
			c.loss(i, x, y)
		}
		if err != nil {
			return nil, err
		}
	}
	c.gradients()
	c.r.Settings, c.r.Fed = seen.differ, c.edge
	c.endSteps()
	c.depth()
	c.answer()
	c.r.fill()
	return c.r, nil
}

func side(r *Recording) Side {
	s := Side{Path: r.Name, Torch: r.Torch, Device: r.Device, System: r.System, Steps: r.last, Batch: r.Batch,
		Rows: len(r.rows), Complete: r.ended && (r.Complete || r.Failed != nil && !*r.Failed), Why: r.Why}
	if r.DeviceName != "" && r.DeviceName != r.Device {
		s.Device += " (" + r.DeviceName + ")"
	}
	if !s.Complete && s.Why == "" {
		s.Why = "it has no end"
	}
	return s
}

// tf32 says whether float32 is computed of 10 bits of mantissa on this side: only CUDA does that.
func (r *Recording) tf32() bool {
	return strings.HasPrefix(r.Device, "cuda") && (r.Policy["matmul_tf32"] == true || r.Policy["cudnn_tf32"] == true)
}

// startsAs says whether m began with the weights and batches of a.
func startsAs(a, m *Recording) bool {
	return m.StartedFrom != "" && (m.StartedFrom == a.Start || m.StartedFrom == a.StartedFrom)
}

// tolerance says by what rows are judged.
func (c *comparer) tolerance() {
	switch {
	case c.options.Within > 0:
		c.r.Tolerance = fmt.Sprintf("%.1e of the norm, as asked for", c.options.Within)
	case c.options.Moved != nil:
		c.r.Tolerance = fmt.Sprintf("measured: %d times what a row moves where A's inputs move by one unit in the last "+
			"place, and PyTorch's relative one for the type at the least", by)
	default:
		c.r.Tolerance = "PyTorch's own by type (torch.testing.assert_close)"
	}
	if c.tf32 && c.options.Within == 0 {
		c.r.Tolerance += "; float32 as float16, since TF32 has its 10 bits of mantissa"
	}
}

// let is the relative difference that an output may have. PyTorch's absolute part is for values of about 1: of smaller
// ones, which gradients are, it would let everything pass, and is taken of their own size, or of that of what they are
// summed of (scale), where they are what is left of larger values that cancel.
func (c *comparer) let(x, y *Tensor, scale float64, moved *off) float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	if x == nil || y == nil {
		return 0
	}
	p, q := c.precision(x.DType), c.precision(y.DType)
	rtol, atol := max(p[0], q[0]), max(p[1], q[1])
	c.rtol = max(c.rtol, rtol)
	if moved != nil {
		return max(rtol, by*moved.relative)
	}
	if rms := max(x.rms(), y.rms()); rms > 0 {
		return rtol + atol*min(1, max(scale, rms))/rms
	}
	return rtol
}

func (c *comparer) precision(dtype string) [2]float64 {
	if c.tf32 && (dtype == "float32" || dtype == "complex64") {
		return precisions["float16"]
	}
	return precisions[dtype]
}

// argument is what is known of an operator's or module's input.
type argument struct {
	known
	note, from string
	broken     bool // it departs, and nothing before it is known to
}

// computed judges an operator or a module's call.
func (c *comparer) computed(i, j int, x, y *line) error {
	judged, what := &c.r.Operators, "operator"
	if x.Kind == kindModule {
		judged, what = &c.r.Modules, "module"
	}
	args, err := c.arguments(i, x, y)
	if err != nil {
		return err
	}
	row := Row{What: what, Name: cmp.Or(x.Op, x.Class), Module: x.Module, Step: x.Step, Phase: x.Phase, Call: x.Call,
		A: i, B: j}
	worst := judgeInputs(&row, args)
	var scale, gradient float64
	for _, arg := range args {
		scale = max(scale, arg.rms)
		if arg.back {
			gradient = max(gradient, arg.rms)
		}
	}
	if x.Phase == backward && gradient > 0 { // gradients are as small as those that they come of
		scale = gradient
	}
	var summed float64 // elements of the largest input
	for _, arg := range args {
		summed = max(summed, arg.elements)
	}
	third := c.third(i)
	outs := make([]known, max(len(x.Out), len(y.Out)))
	floatsAgree, hasFloat, allEqual := true, false, true
	first, integers := -1, false
	furthest, heft := -1.0, 1.0
	for k := range outs {
		p, q := at(x.Out, k), at(y.Out, k)
		if p == nil && q == nil || opaque(x.Op, p) {
			outs[k] = known{state: unknown, origin: noOrigin}
			continue
		}
		d := differ(p, q)
		var moved *off
		if third != nil {
			m := differ(p, at(third.Out, k))
			moved = &m
		}
		// the sum of n numbers of random signs is the root of n times as large as they are
		tol := c.let(p, q, scale*math.Sqrt(max(1, summed/p.size())), moved)
		o := known{relative: d.relative, within: tol, rms: max(p.rms(), q.rms()), a: d.a, b: d.b, equal: d.equal,
			elements: p.size(), back: x.Phase == backward, state: agrees, origin: noOrigin}
		if d.relative > tol && (d.exact || d.relative > tol*sure) {
			o.state = departs
		}
		allEqual = allEqual && d.equal
		isfloat := p == nil || q == nil || isFloat(p.DType) || isFloat(q.DType)
		if isfloat {
			hasFloat = true
			floatsAgree = floatsAgree && o.state == agrees
		} else if o.state == departs {
			integers = true
		}
		outs[k] = o
		if score := d.relative / max(tol, 1e-300); score > furthest && !d.equal || first < 0 {
			furthest, first = score, k
			if most := scale * math.Sqrt(max(1, summed/p.size())); x.Phase == backward && o.rms > 0 && most > o.rms {
				heft = o.rms / most // what is left of larger gradients that cancel is as uncertain as those are
			}
			row.Relative, row.Tolerance, row.Share, row.Note, row.Exact = d.relative, tol, d.share, d.note, d.exact
			if q := cmp.Or(p, q); q != nil {
				row.Shape, row.DType = q.Shape, q.DType
			}
		}
	}
	if worst != nil && worst.broken {
		if c.edge == nil {
			c.edge = &row
		}
		c.begins(i, int32(i))
		if worst.origin == noOrigin {
			worst.origin = int32(i)
		}
	}
	if first < 0 {
		c.outs[i] = outs
		return nil
	}
	judged.Compared++
	if allEqual {
		judged.Equal++
	} else if judged.Unequal == nil {
		judged.Unequal = &row
	}
	beyond := integers || hasFloat && !floatsAgree
	amplified, fed := math.Inf(1), row.InputOff
	if row.Input == unknown || fed > 0 && scale > filled {
		fed = max(fed, c.level)
	}
	if fed > 0 {
		amplified = row.Relative * heft / fed
	}
	tainted := c.tainted(&row, args)
	fresh := row.Input != departs && amplified >= by && tainted == noOrigin && // it made the difference, not its input
		(x.Phase != update || row.InputOff == 0) // an optimizer divides what is nearly 0 by what is nearly 0
	switch {
	case !beyond:
		if !allEqual {
			judged.Within++
			if judged.larger(&row) {
				judged.Largest = &row
			}
		}
	case x.Random && row.Input != departs:
		judged.Beyond++
		c.r.Random = appendRow(c.r.Random, row)
		follow(outs)
		tainted, c.soft[int32(i)] = int32(i), true
	case integers && (hasFloat && floatsAgree || row.InputOff > 0 && row.Input != departs),
		discontinuous[x.Op] && row.InputOff > 0 && row.Input != departs:
		judged.Beyond++
		c.r.Ties = appendRow(c.r.Ties, row)
		follow(outs)
		tainted, c.soft[int32(i)] = int32(i), true
	case fresh:
		judged.Beyond++
		tainted = int32(i)
		c.begins(i, tainted)
		judged.found(row)
	default:
		judged.Beyond++
		follows := c.soft[tainted] || tainted == noOrigin && row.Input != departs
		if worst != nil {
			follows = follows || worst.follows ||
				tainted == noOrigin && !worst.broken && worst.relative < by*c.level
		}
		for k := range outs {
			outs[k].follows = follows
		}
		if tainted != noOrigin {
			if !c.soft[tainted] {
				c.begins(i, tainted)
			}
			if tainted != int32(i) {
				row.Origin = c.originName(tainted)
			}
		}
		if what == "module" && judged.First == nil && !follows {
			judged.First = &row // its input departs already, or what lies in it: from where that comes is told
		}
	}
	for k := range outs {
		if outs[k].state == departs || !outs[k].equal && !c.soft[tainted] {
			outs[k].origin = tainted
		}
	}
	for _, o := range outs {
		if (o.state == agrees || o.follows) && o.within <= measurable*c.rtol {
			c.level = max(c.level, o.relative)
		}
	}
	c.outs[i] = outs
	return nil
}

// originOf is the origin of that name.
func (c *comparer) originOf(name string) int32 {
	i := slices.Index(c.origins, name)
	if i < 0 {
		i = len(c.origins)
		c.origins = append(c.origins, name)
	}
	return int32(-2 - i)
}

// originName says what an origin is.
func (c *comparer) originName(origin int32) string {
	if origin < noOrigin {
		return c.origins[-2-origin]
	}
	return c.rowName(int(origin))
}

// begins keeps that there is something in a row's module, and in those around it, that departs, and where it began.
func (c *comparer) begins(i int, origin int32) {
	one := c.a.rows[i]
	if c.begun == noOrigin && origin >= 0 && !c.soft[origin] {
		c.begun = origin
	}
	for module := one.module; ; module, _ = cutLast(module) {
		if at := (within{module, one.step}); c.inside[at] == noOrigin+1 {
			c.inside[at] = origin + 1
		}
		if module == "" {
			return
		}
	}
}

// within is a module in a step.
type within struct {
	module string
	step   int32
}

// tainted is the row at which what a row has in it, or is fed, began to depart, though it may have come to agree; or
// noOrigin.
func (c *comparer) tainted(row *Row, args []argument) int32 {
	for _, arg := range args {
		if arg.origin != noOrigin && !arg.equal {
			return arg.origin
		}
	}
	if row.What == "module" && c.begun >= 0 && row.Step > int(c.a.rows[c.begun].step) {
		return c.begun // by its weights
	}
	if at := c.inside[within{row.Module, int32(row.Step)}]; row.What == "module" && at != noOrigin+1 {
		return at - 1
	}
	if row.Input == unknown { // by all that is known it comes of what departed before
		return c.begun
	}
	return noOrigin
}

// found keeps a row at which something begins to depart, once for all steps.
func (j *Judged) found(row Row) {
	if j.First == nil {
		j.First = &row
		return
	}
	for _, o := range append(j.Others, *j.First) {
		if o.Name == row.Name && o.Module == row.Module && o.Phase == row.Phase {
			return
		}
	}
	j.Others = appendRow(j.Others, row)
}

// measurable is how many times its type's relative tolerance an output may be let for its size to say how far the two
// have drifted: what is let more is nearly 0, and may be rounding alone.
const measurable = 100

// filled is a root mean square that only a mask's fill makes (-1e9, the least of a type): beside it what else differs
// in a tensor is not seen, and how far the two have drifted is taken of the rows before.
const filled = 1e4

// follow marks outputs whose departure says nothing of those that read them.
func follow(outs []known) {
	for k := range outs {
		outs[k].follows = true
	}
}

// third is the row of the moved recording that stands for one of A, or nil.
func (c *comparer) third(i int) *line {
	m := c.options.Moved
	if m == nil || c.moved.to[i] < 0 {
		return nil
	}
	l, err := m.read(int(c.moved.to[i]))
	if err != nil {
		return nil
	}
	return l
}

// mostRowsKept of a list in a result.
const mostRowsKept = 20

func appendRow(rows []Row, row Row) []Row {
	if len(rows) < mostRowsKept {
		rows = append(rows, row)
	}
	return rows
}

func at(list []*Tensor, k int) *Tensor {
	if k < len(list) {
		return list[k]
	}
	return nil
}

// opaque are outputs whose bytes mean nothing to others: memory that is not written yet, and what a library keeps for
// its own backward pass.
func opaque(op string, t *Tensor) bool {
	return strings.Contains(op, "empty") || t != nil && !isFloat(t.DType) &&
		(strings.Contains(op, "cudnn") || strings.Contains(op, "miopen") || strings.Contains(op, "_scaled_dot_product"))
}

// discontinuous are operators whose output jumps where an input is near a tie, beside those whose output is of
// integers.
var discontinuous = map[string]bool{
	"aten::threshold_backward": true, "aten::max_pool2d_with_indices_backward": true, "aten::sign": true,
	"aten::floor": true, "aten::ceil": true, "aten::round": true, "aten::trunc": true, "aten::where": true,
	"aten::hardtanh_backward": true, "aten::leaky_relu_backward": true, "aten::hardswish_backward": true,
	"aten::hardsigmoid_backward": true, "aten::index": true, "aten::gather": true,
	"aten::fake_quantize_per_tensor_affine_cachemask": true, "aten::remainder": true, "aten::fmod": true,
}

// judgeInputs says of a row what is known of its inputs, and gives the one that is furthest off.
func judgeInputs(row *Row, args []argument) *argument {
	row.Input = agrees
	if len(args) == 0 {
		if row.What == "module" {
			row.Input = unknown // of its backward pass the gradients of its outputs alone are recorded
		}
		return nil
	}
	var worst *argument
	for k := range args {
		arg := &args[k]
		switch {
		case arg.state == departs && (worst == nil || worst.state != departs || arg.relative > worst.relative),
			arg.state == agrees && (worst == nil || worst.state == unknown ||
				worst.state == agrees && arg.relative > worst.relative),
			worst == nil:
			worst = arg
		}
	}
	row.Input, row.InputOff, row.InputFrom, row.InputNote = worst.state, worst.relative, worst.from, worst.note
	return worst
}

// arguments are what is known of each input of a row.
func (c *comparer) arguments(i int, x, y *line) ([]argument, error) {
	from, other := x.In.from, y.In.from
	if x.Kind == kindModule {
		from, other = x.InFrom, y.InFrom
	}
	var args []argument
	for k := range max(len(from), len(x.In.tensors), len(y.In.tensors)) {
		arg := argument{known: known{state: unknown, origin: noOrigin}}
		if k < len(from) {
			var err error
			if arg, err = c.source(from[k], other, k); err != nil {
				return nil, err
			}
		}
		if p, q := at(x.In.tensors, k), at(y.In.tensors, k); x.Kind == kindModule && (p != nil || q != nil) {
			if p == nil || q == nil {
				continue // one side has an argument more: a flag, a mask that is left out
			}
			d := differ(p, q)
			tol := c.let(p, q, 1, nil)
			if arg.state == agrees {
				tol = max(tol, arg.within)
			}
			held := known{relative: d.relative, within: tol, rms: max(p.rms(), q.rms()), equal: d.equal, state: agrees,
				origin: arg.origin, follows: arg.follows}
			if d.relative > tol && (d.exact || d.relative > tol*sure) {
				held.state = departs
				if d.relative < by*c.level {
					held.follows = true
				} else if arg.state == agrees && !arg.follows && arg.origin == noOrigin {
					arg.broken = true
					arg.note = strings.TrimPrefix(arg.note+"; what it comes of agrees, so that it is another view of it", "; ")
				}
			}
			arg.known = held
			arg.note = cmp.Or(d.note, arg.note)
		}
		args = append(args, arg)
	}
	if x.Kind == kindModule && x.Phase != backward {
		for _, name := range c.own[x.Module] {
			args = append(args, argument{known: c.weights[name], from: "its weight " + name})
		}
	}
	return args, nil
}

// mostAgain bounds the bytes that are read again to see what operators without partner gave.
const mostAgain = 1 << 30

// source is what is known of the origin of an argument.
func (c *comparer) source(s source, others []source, k int) (argument, error) {
	arg := argument{known: known{state: unknown, origin: noOrigin}}
	if k >= len(others) {
		arg.note = "B has no such argument"
		return arg, nil
	}
	o := others[k]
	switch {
	case s.kind == fromOp && o.kind == fromOp:
		arg.from = c.rowName(s.row)
		if c.al.to[s.row] == int32(o.row) && s.place == o.place {
			if outs := c.outs[s.row]; s.place < len(outs) {
				arg.known = outs[s.place]
			}
		} else if err := c.rewired(&arg, s, o); err != nil {
			return arg, err
		}
	case s.kind == fromWeight && o.kind == fromWeight && s.name == o.name:
		arg.from = "weight " + s.name
		if w, ok := c.weights[s.name]; ok {
			arg.known = w
		}
	case s.kind == fromBatch && o.kind == fromBatch && s.row == o.row && s.place == o.place:
		arg.from = fmt.Sprintf("batch %d, tensor %d", s.row, s.place)
		if d, ok := c.batches[fmt.Sprintf("%d/%d", s.row, s.place)]; ok {
			arg.known = known{relative: d.relative, equal: d.equal, rms: 1, state: agrees, origin: noOrigin}
			if d.relative > precisions["float32"][0] {
				arg.state, arg.origin = departs, c.originOf(arg.from)
			}
		}
	case s.kind == fromOther && o.kind == fromOther:
		arg.from = "elsewhere"
		if s.held != nil && o.held != nil {
			d := differ(s.held, o.held)
			arg.known = known{relative: d.relative, within: c.let(s.held, o.held, 1, nil),
				rms: max(s.held.rms(), o.held.rms()), equal: d.equal, state: agrees, origin: noOrigin}
			arg.note = d.note
			if d.relative > arg.within {
				arg.state, arg.origin = departs, c.originOf("a tensor from elsewhere")
				arg.note = strings.TrimSuffix("a tensor that no operator of these steps made: a mask, a buffer or a table kept from "+
					"before; "+d.note, "; ")
			}
		}
	case s.kind != o.kind || s.name != o.name:
		arg.from = fmt.Sprintf("%s in A, %s in B", c.named(c.a, s), c.named(c.b, o))
	}
	if v, w := s.view, o.view; v != nil && w != nil && !v.like(w) || (v == nil) != (w == nil) {
		arg.note = strings.TrimPrefix(arg.note+fmt.Sprintf("; the argument is %s in A, %s in B", v, w), "; ")
	}
	return arg, nil
}

// named says where a side's argument came from.
func (c *comparer) named(r *Recording, s source) string {
	switch s.kind {
	case fromOp:
		return rowName(r, s.row)
	case fromWeight:
		return "weight " + s.name
	case fromBatch:
		return fmt.Sprintf("batch %d, tensor %d", s.row, s.place)
	}
	return "elsewhere"
}

// rewired compares an argument that comes of operators that are no partners.
func (c *comparer) rewired(arg *argument, s, o source) error {
	arg.from = fmt.Sprintf("%s in A, %s in B, which are no partners", c.rowName(s.row), rowName(c.b, o.row))
	c.again += int64(c.a.rows[s.row].length) + int64(c.b.rows[o.row].length)
	if c.again > mostAgain {
		return nil
	}
	x, err := c.a.read(s.row)
	if err != nil {
		return err
	}
	y, err := c.b.read(o.row)
	if err != nil {
		return err
	}
	p, q := at(x.Out, s.place), at(y.Out, o.place)
	if p == nil || q == nil {
		return nil
	}
	d := differ(p, q)
	arg.known = known{relative: d.relative, within: c.let(p, q, 1, nil), rms: max(p.rms(), q.rms()), equal: d.equal,
		state: agrees, origin: noOrigin}
	if d.relative > arg.within*sure {
		arg.state = departs
		arg.broken = true
		for _, o := range c.outs[s.row] { // of an operator that itself departs it is no news
			if o.state == departs || o.origin != noOrigin {
				arg.broken, arg.origin = false, o.origin
			}
			arg.follows = arg.follows || o.follows
		}
		if d.relative < by*c.level {
			arg.broken, arg.follows = false, true
		}
	}
	arg.note = d.note
	return nil
}

func (c *comparer) rowName(i int) string { return rowName(c.a, i) }

// rowName is how a row is told.
func rowName(r *Recording, i int) string {
	one := r.rows[i]
	name := fmt.Sprintf("row %d, %s", i, one.name)
	if one.module != "" {
		name += " in " + one.module
	}
	return name
}

// weight judges a weight after a step, by how far it was moved.
func (c *comparer) weight(i, j int, x, y *line) error {
	before := c.tensors[x.What]
	c.tensors[x.What] = [2]*Tensor{x.Tensor, y.Tensor}
	d := differ(x.Tensor, y.Tensor)
	w := known{relative: d.relative, within: c.let(x.Tensor, y.Tensor, 1, nil), rms: x.Tensor.rms(), equal: d.equal,
		state: agrees, origin: noOrigin}
	if d.relative > w.within && (d.exact || d.relative > w.within*sure) {
		w.state = departs
	}
	if x.Step == 0 {
		w.state = agrees
		if !d.equal {
			c.startWeight(x.What, d, w.within)
			if d.relative > w.within {
				w.state, w.origin = departs, c.originOf("weight "+x.What+" at the start")
			}
		}
		if _, ok := c.weights[x.What]; !ok {
			for module := x.What; module != ""; {
				module, _ = cutLast(module)
				c.own[module] = append(c.own[module], x.What)
			}
		}
		c.weights[x.What] = w
		return nil
	}
	w.follows = w.state == departs // what became of it is told by itself
	c.weights[x.What] = w
	judged := &c.r.Weights
	judged.Compared++
	if d.equal {
		judged.Equal++
		return nil
	}
	row := Row{What: "weight", Name: x.What, Step: x.Step, A: i, B: j, Shape: x.Tensor.Shape, DType: x.Tensor.DType,
		Relative: d.relative, Exact: d.exact, Share: d.share, Note: d.note, Input: unknown,
		Tolerance: w.within}
	one, ok := moved(x.Tensor, before[0])
	other, too := moved(y.Tensor, before[1])
	if ok && too && len(one) == len(other) {
		var u off
		u.sum(one, other)
		if !c.dead(x.What, x.Step) {
			c.whole(x.Step).updates.join(u)
		}
		row.Relative, row.Tolerance = u.relative, max(golden.Usual.Update, by*c.rtol)
		// rounding of the weight itself: a unit of its type in each element
		if most := math.Sqrt(max(u.a, u.b)); most > 0 {
			row.Tolerance += unitOf(x.Tensor.DType) * math.Sqrt(max(norm(x.Tensor), norm(y.Tensor))) / most
		}
	}
	if c.options.Within > 0 {
		row.Tolerance = c.options.Within
	}
	if c.dead(x.What, x.Step) {
		judged.leave(x.What)
		return nil
	}
	beyond := row.Relative > row.Tolerance*sure || row.Note != ""
	if g, ok := c.grads[x.What]; ok && g.step == x.Step {
		row.Input, row.InputOff, row.InputFrom = g.state, g.relative, "its gradient"
	} else {
		row.Input, row.InputFrom = agrees, "" // a buffer: what it was before
	}
	switch {
	case !beyond:
		judged.Within++
		if judged.larger(&row) {
			judged.Largest = &row
		}
	default:
		judged.Beyond++
		switch {
		case row.Input != agrees || x.Step != 1:
		case row.InputOff == 0:
			judged.found(row)
		case c.updated == nil || row.Relative > c.updated.Relative:
			c.updated = &row // which is found where all updates together depart, see updates
		}
	}
	return nil
}

func cutLast(name string) (module, part string) {
	if i := strings.LastIndex(name, "."); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// unitOf is a unit in the last place of 1.
func unitOf(dtype string) float64 {
	switch dtype {
	case "float16":
		return math.Ldexp(1, -10)
	case "bfloat16":
		return math.Ldexp(1, -7)
	case "float64":
		return math.Ldexp(1, -52)
	}
	return math.Ldexp(1, -23)
}

func (c *comparer) whole(step int) *wholes {
	if c.wholes[step] == nil {
		c.wholes[step] = &wholes{}
	}
	return c.wholes[step]
}

// gradient judges that of a weight. All of a step together are judged in the answer: of one alone, as of a bias before
// a batch norm, there may be rounding alone.
func (c *comparer) gradient(i, j int, x, y *line) error {
	d := differ(x.Tensor, y.Tensor)
	if x.Tensor != nil && y.Tensor != nil {
		sum := c.whole(x.Step)
		sum.gradients.join(d)
		if m := c.third(i); m != nil {
			sum.moved.join(differ(x.Tensor, m.Tensor))
		}
		sum.lost = sum.lost || d.relative == apartAll
	}
	row := Row{What: "gradient", Name: x.What, Step: x.Step, A: i, B: j, Shape: x.Tensor.Shape, DType: x.Tensor.DType,
		Relative: d.relative, Exact: d.exact, Share: d.share, Note: d.note, Input: unknown,
		Tolerance: c.gradientsWithin()}
	g := grad{known: known{relative: d.relative, within: row.Tolerance, state: agrees, equal: d.equal, origin: noOrigin,
		a: d.a, b: d.b}, step: x.Step}
	if d.relative > row.Tolerance*sure || d.note != "" {
		g.state = departs
	}
	c.grads[x.What] = g
	c.found = append(c.found, row)
	return nil
}

// dead says whether a gradient is rounding alone: next to nothing of all gradients of its step, which are known by now.
func (c *comparer) dead(name string, step int) bool {
	g, ok := c.grads[name]
	all := c.whole(step).gradients
	return ok && g.step == step && max(g.a, g.b) < golden.Dead*max(all.a, all.b)
}

// gradients judges those of a step, once all are there.
func (c *comparer) gradients() {
	judged := &c.r.Gradients
	for k := range c.found {
		row := &c.found[k]
		judged.Compared++
		if judged.Unequal == nil && !c.grads[row.Name].equal {
			judged.Unequal = row
		}
		switch {
		case c.grads[row.Name].equal:
			judged.Equal++
		case c.dead(row.Name, row.Step):
			judged.leave(row.Name)
		case c.grads[row.Name].state == departs:
			judged.Beyond++
		default:
			judged.Within++
			if judged.larger(row) {
				judged.Largest = row
			}
		}
	}
	c.found = nil
}

// leave counts what is rounding alone, and names it.
func (j *Judged) leave(name string) {
	j.Left++
	if len(j.LeftOut) < mostRowsKept && !slices.Contains(j.LeftOut, name) {
		j.LeftOut = append(j.LeftOut, name)
	}
}

// Tolerances of what a step comes to: golden's, measured with float32, and by times the type's where that is more.
func (c *comparer) lossWithin(step int) float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	if step > 1 { // rounding that an update by Adam made whole steps of
		return max(golden.Usual.Update, by*c.rtol)
	}
	return max(golden.LossFactor*golden.Usual.Output, by*c.rtol)
}

func (c *comparer) gradientsWithin() float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	return max(golden.Usual.Gradient, by*c.rtol)
}

func (c *comparer) updatesWithin() float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	return max(golden.Usual.Update, by*c.rtol)
}

// step is what is said of one.
func (c *comparer) step(n int) *Step {
	for len(c.r.Steps) < n {
		c.r.Steps = append(c.r.Steps, Step{Step: len(c.r.Steps) + 1})
	}
	return &c.r.Steps[n-1]
}

func (c *comparer) loss(i int, x, y *line) {
	if x.Value == nil || y.Value == nil || x.Step < 1 || x.Step > mostSteps {
		return
	}
	s := c.step(x.Step)
	one, other := float64(*x.Value), float64(*y.Value)
	var d off
	switch {
	case one == other || math.IsNaN(one) && math.IsNaN(other):
	case math.IsNaN(one) || math.IsNaN(other) || math.IsInf(one, 0) || math.IsInf(other, 0):
		d.relative = apartAll
	default:
		d.sum([]float64{one}, []float64{other})
	}
	if m := c.third(i); m != nil && m.Value != nil {
		var by off
		by.sum([]float64{one}, []float64{float64(*m.Value)})
		c.whole(x.Step).lossMoved = by.relative
	}
	s.LossA, s.LossB, s.Loss = finite(one), finite(other), max(s.Loss, d.relative)
}

// mostSteps of which something is told.
const mostSteps = 10_000

func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func (c *comparer) endSteps() {
	for n, w := range c.wholes {
		if n < 1 || n > mostSteps {
			continue
		}
		w.gradients.settle()
		w.updates.settle()
		s := c.step(n)
		s.Gradients, s.Updates = w.gradients.relative, w.updates.relative
		if w.lost {
			s.Gradients = apartAll
		}
		if n == 1 && c.updated != nil && s.Updates > c.updatesWithin()*sure && s.Updates > by*s.Gradients {
			c.r.Weights.found(*c.updated) // an update by Adam makes whole steps of rounding; hardly in so many weights
		}
	}
}

// pieces into which a phase of the first step is cut.
const pieces = 8

// depth tells how the difference grows through the first step.
func (c *comparer) depth() {
	for _, phase := range []string{"forward", backward} {
		kind := kindOp
		if c.r.Operators.Compared == 0 {
			kind = kindModule
		}
		var rows []int
		var sizes []float64
		for i, one := range c.a.rows {
			if one.kind != kind || one.step != 1 || one.phase != phase {
				continue
			}
			size := -1.0
			for _, o := range c.outs[i] {
				if o.state != unknown && o.within <= measurable*c.rtol {
					size = max(size, o.relative)
				}
			}
			if size >= 0 {
				rows, sizes = append(rows, i), append(sizes, size)
			}
		}
		for n := range min(pieces, len(rows)) {
			k := min(pieces, len(rows))
			from, to := n*len(rows)/k, (n+1)*len(rows)/k
			part := slices.Sorted(slices.Values(sizes[from:to]))
			c.r.Depth = append(c.r.Depth, Depth{Phase: phase, From: c.place(rows[from]), To: c.place(rows[to-1]),
				Median: part[len(part)/2], Largest: part[len(part)-1]})
		}
	}
}

func (c *comparer) place(i int) string {
	one := c.a.rows[i]
	return cmp.Or(one.module, one.name)
}

// answer puts it together.
func (c *comparer) answer() {
	r := c.r
	say := func(answer, why string) { r.Answer, r.Why = answer, why }
	cause, bad, causes := "", "", 0
	for _, s := range r.Start {
		switch {
		case s.Weighs == spoils && bad == "":
			bad = s.Why
		case s.Weighs == explains && cause == "":
			cause = s.Why
		case s.Weighs == explains:
			causes++
		}
	}
	if causes > 0 {
		cause += fmt.Sprintf("; and %d more", causes)
	}
	first := r.Operators.First
	if m := r.Modules.First; first == nil {
		first = m
	}
	if first == nil {
		first = r.Weights.First
	}
	ends := c.ends()
	equal := r.Operators.Equal == r.Operators.Compared && r.Modules.Equal == r.Modules.Compared &&
		r.Weights.Equal == r.Weights.Compared && r.Gradients.Equal == r.Gradients.Compared
	edge := c.edge
	compared := r.Operators.Compared + r.Modules.Compared
	found := first != nil && (first.Input != departs || first.Origin != "")
	switch {
	case compared == 0:
		say(golden.NotKnown, "no operator and no module of A has a partner in B")
	case bad != "":
		say(golden.NotKnown, bad)
	case len(r.Random) > 0 && (first == nil || r.Random[0].A < first.A):
		say(golden.NotKnown, r.Random[0].title()+" drew other random numbers: what comes of them cannot be compared")
	case cause != "" && !equal && r.startDeparts():
		say(golden.Departs, cause)
	case edge != nil && (first == nil || edge.A <= first.A):
		say(golden.Departs, strings.TrimSuffix(edge.title()+" is fed otherwise: its input departs, and comes of "+
			edge.InputFrom+": "+edge.InputNote, ": "))
	case cause != "" && !equal && (found || len(ends) > 0 || r.Operators.Beyond+r.Modules.Beyond > 0):
		if first == nil {
			cause += "; " + c.drift()
		}
		say(golden.Departs, cause)
	case first != nil && first.What == "weight":
		say(golden.Departs, fmt.Sprintf("%s is moved otherwise by step %d, by %.1e, where what it is moved by agrees",
			first.Name, first.Step, first.Relative))
	case first != nil:
		said := "its input agrees"
		if first.Input != agrees {
			said = "its input " + first.Input
		}
		say(golden.Departs, fmt.Sprintf("%s is the first whose output departs, by %.1e; %s", first.title(), first.Relative, said)+
			r.settingOf(first.Module))
	case len(ends) > 0:
		say(Drifts, c.drift()+"; beyond the tolerance are "+strings.Join(ends, ", "))
	case !r.A.Complete || !r.B.Complete:
		say(golden.NotKnown, "what was recorded agrees, and a recording is not whole: "+cmp.Or(r.B.Why, r.A.Why))
	case len(r.AloneA)+len(r.AloneB) > 0 && r.Modules.Compared == 0:
		say(golden.NotKnown, "what was compared agrees, and some modules or weights have no partner")
	case equal && len(r.Unaligned) == 0:
		say(golden.Same, "bitwise: every hash is equal")
	case equal:
		say(golden.Same, "bitwise, as far as compared; some operators have no partner, and their modules were compared")
	case r.Operators.Beyond+r.Modules.Beyond > 0:
		say(golden.Same, fmt.Sprintf("equal within: loss, gradients and updates of step 1 agree, and the losses after it; %d "+
			"operators and modules are further apart than their type lets, none of them by itself: they pass on what they were fed", r.Operators.Beyond+
			r.Modules.Beyond))
	default:
		say(golden.Same, "equal within the tolerances, not bitwise")
	}
	if r.Answer == golden.Same && len(r.Settings) > 0 {
		r.Why += "; settings of modules differ, which these numbers do not show"
	}
}

// settingOf is what differs in the settings of a module.
func (r *Result) settingOf(module string) string {
	var said string
	for _, s := range r.Settings {
		if s.Module == module && module != "" {
			said += fmt.Sprintf("; its %s is %s in A and %s in B", s.What, s.A, s.B)
		}
	}
	for _, side := range []struct {
		name  string
		alone []string
	}{{"A", r.AloneA}, {"B", r.AloneB}} {
		for _, name := range side.alone {
			if weight, ok := strings.CutPrefix(name, "weight "); ok {
				if at, _ := cutLast(weight); at == module && module != "" {
					said += fmt.Sprintf("; %s is in %s alone", weight, side.name)
				}
			}
		}
	}
	return said
}

// ends are the results of the steps that are beyond their tolerance.
func (c *comparer) ends() []string {
	var ends []string
	for _, s := range c.r.Steps {
		w := c.whole(s.Step)
		w.moved.settle()
		if s.Loss > max(c.lossWithin(s.Step), by*w.lossMoved) {
			ends = append(ends, fmt.Sprintf("the loss of step %d (%.1e)", s.Step, s.Loss))
		}
		// behind an update the gradients of two runs that are right may have nothing in common: MobileNet v2 with
		// itself, on one thread and two, differs by 0.8 in the second step, where the losses agree to 5e-3
		if s.Gradients > max(c.gradientsWithin(), by*w.moved.relative)*sure && s.Step == 1 {
			ends = append(ends, fmt.Sprintf("the gradients of step %d (%.1e)", s.Step, s.Gradients))
		}
		if s.Updates > c.updatesWithin()*sure && s.Step == 1 {
			ends = append(ends, fmt.Sprintf("the updates of step %d (%.1e)", s.Step, s.Updates))
		}
		if len(ends) > 0 {
			break
		}
	}
	return ends
}

// drift says from where to where the difference grows.
func (c *comparer) drift() string {
	var rows []Depth
	for _, d := range c.r.Depth {
		if d.Phase == "forward" && d.Median > 0 || d.Phase == "forward" && len(rows) > 0 {
			rows = append(rows, d)
		}
	}
	if len(rows) == 0 {
		return "the difference comes in behind the forward pass, of no single operator"
	}
	first, last := rows[0], rows[len(rows)-1]
	return fmt.Sprintf("drift: it grows from %.1e at %s to %.1e at %s, of no single operator", first.Median, first.From,
		last.Median, last.To)
}

// mostLimit is the tolerance beyond which a row says nothing: what is let so much is rounding alone.
const mostLimit = 0.2

// larger says whether a row is nearer to its tolerance than the one that was nearest.
func (j *Judged) larger(row *Row) bool {
	l := j.Largest
	if row.Tolerance > mostLimit {
		return false
	}
	return l == nil || row.Relative*l.Tolerance > l.Relative*row.Tolerance
}

// title names a row.
func (r *Row) title() string {
	s := r.Name
	if r.What == "module" {
		s = cmp.Or(r.Module, "the model") + " (" + r.Name + ")"
	} else if r.Module != "" {
		s += " in " + r.Module
	}
	return fmt.Sprintf("%s, step %d, %s, row %d,", s, r.Step, cmp.Or(r.Phase, "forward"), r.A)
}

// startDeparts says whether something that the steps begin with is not the same.
func (r *Result) startDeparts() bool {
	return slices.ContainsFunc(r.Start, func(s Start) bool { return s.Weighs == explains && s.Begins })
}

// Status is the exit status that the result deserves.
func (r *Result) Status() int {
	switch r.Answer {
	case golden.Same:
		return fault.OK
	case golden.Departs:
		return fault.GateFailed
	}
	return fault.CannotTell
}

// fill makes lists that are not there empty ones.
func (r *Result) fill() {
	r.Start, r.Settings, r.Unaligned = listOf(r.Start), listOf(r.Settings), listOf(r.Unaligned)
	r.Ties, r.Random, r.Depth, r.Steps = listOf(r.Ties), listOf(r.Random), listOf(r.Depth), listOf(r.Steps)
	for _, j := range []*Judged{&r.Operators, &r.Modules, &r.Weights, &r.Gradients} {
		j.Others, j.LeftOut = listOf(j.Others), listOf(j.LeftOut)
	}
}

func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
