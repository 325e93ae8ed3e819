package steps

import (
	"fmt"

	"assay/internal/evidence"
	"assay/internal/fault"
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
	grown                 float64 // how far the roots of the mean squares are apart, relative
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
	tied     map[int32]bool   // those of ties: what comes of one is judged by how far that moved it
	inside   map[within]int32 // what departs in a module: its origin, and 1
	level    float64          // the largest difference so far that comes of no single row
	edge     *Row             // the first that is fed what departs, where what it is fed has no partner or agrees
	again    int64            // bytes that were read again
	rtol     float64
	endless  string // what is not finite on both sides, first
	tf32     lowered
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
	drifted            float64 // how far the rows before its loss had drifted
	ties               float64 // sum of the squares of what ties made rows of its backward pass be off
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
		inside: map[within]int32{}, soft: map[int32]bool{}, tied: map[int32]bool{}, begun: noOrigin,
		tensors: map[string][2]*Tensor{}, unpaired: map[int32]int{}, wholes: map[int]*wholes{},
		grads: map[string]grad{}}
	c.r.A, c.r.B = side(a), side(b)
	c.tf32 = a.tf32().or(b.tf32())
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
	if mac := r.rehearsed(); mac != "" {
		s.Device += " of " + mac
	}
	if !s.Complete && s.Why == "" {
		s.Why = "it has no end"
	}
	return s
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
	if c.tf32.any() && c.options.Within == 0 {
		c.r.Tolerance += "; of " + c.tf32.String() + " in float32 that of float16, since TF32 has its 10 bits of mantissa"
	}
}

// let is the relative difference that an output may have. PyTorch's absolute part is for values of about 1: of smaller
// ones, which gradients are, it would let everything pass, and is taken of their own size, or of that of what they are
// summed of (scale), where they are what is left of larger values that cancel. low: it was, or may have been, computed
// with TF32.
func (c *comparer) let(x, y *Tensor, scale float64, moved *off, low bool) float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	if x == nil || y == nil {
		return 0
	}
	p, q := precision(x.DType, low), precision(y.DType, low)
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

func precision(dtype string, low bool) [2]float64 {
	if low && (dtype == "float32" || dtype == "complex64") {
		return precisions["float16"]
	}
	return precisions[dtype]
}
