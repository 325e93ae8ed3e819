package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/facts"
)

// met is a fact that a call meets, or may meet.
type met struct {
	*facts.Fact
	operator string // "" for any tensor, and for a name of Python
	shown    bool   // the arguments show it, or it holds whatever they are
	backward bool   // in the backward pass
	partly   bool   // as far as they tell, or in some release that nobody has named
	sure     bool
	depends  string // on what, where that is one thing
}

// mostly is what a surface of facts looks at: PyTorch and its companions.
var mostly = under(atlas.Libraries...)

// meets lists the facts with one of these outcomes that a call on MPS meets, the worst first. Those whose condition
// cannot be told are left out, but where a fact names what is called: then the call may meet it.
func meets(p *audit.Pass, c *abstract.Call, outcomes ...facts.Outcome) []met {
	all := audit.Once(p, func() []met { return meetsAny(p, c) })
	var list []met
	for _, m := range all {
		if slices.Contains(outcomes, m.Outcome) {
			list = append(list, m)
		}
	}
	return list
}

func meetsAny(p *audit.Pass, c *abstract.Call) []met {
	where, soft := place(p, c)
	if where&(abstract.OnMPS|abstract.Open) == 0 {
		return nil
	}
	path := trimCall(c.Path)
	release := p.Target.Torch.Version
	onMPS := where.Surely(abstract.OnMPS) && !soft
	plausible, trains := gradients(p, c, path)
	var list []met
	add := func(f *facts.Fact, m met) {
		m.Fact = f
		if f.Direction == "backward" {
			m.backward = true
		}
		unbound := f.MacOS != "" && p.Target.MacOS == [2]int{}
		switch {
		case f.Outcome == facts.Warns || f.Outcome == facts.Ignored, m.backward && !plausible:
			return
		case unbound && strings.Contains(f.MacOS, "<"): // few run so old a macOS, and nothing says that this one does
			return
		case slices.ContainsFunc(list, func(o met) bool { return o.Fact == f }):
			return
		}
		if unbound {
			m.depends = ", on macOS " + strings.TrimPrefix(f.MacOS, ">= ") + " and later"
		} else if m.backward && !trains {
			m.depends = ", where a gradient is asked for"
		}
		m.partly = m.shown && (f.Partly || f.From == "" && !f.Certain(release))
		m.sure = m.shown && !m.partly && onMPS && m.depends == "" && f.Certain(release) && (!m.backward || trains)
		list = append(list, m)
	}
	looks := &looking{p: p, c: c}
	said := p.Said(path)
	for _, s := range said {
		switch {
		case s.Met == facts.Yes && !s.Sometimes:
			add(s.Fact, met{operator: s.Operator, shown: true, backward: s.Backward})
		case slices.Contains(s.Python, path) && !strings.HasPrefix(path, "torch."):
			// of what is no single operator the rest cannot be told
			if roi := roiGradient(p, c, path); roi == nil || s.MeetsCall(roi) != facts.No {
				add(s.Fact, met{backward: s.Backward, shown: roi != nil && s.MeetsCall(roi) == facts.Yes})
			}
		}
	}
	for _, r := range looks.reached(said) {
		for _, s := range p.SaidOf(r.operator) {
			if s.If != nil && r.meets(s.Fact) {
				add(s.Fact, met{operator: r.operator, shown: true, depends: r.depends})
			}
		}
		if !plausible {
			continue
		}
		for _, b := range r.gradients(p) {
			for _, s := range p.SaidOf(b.operator) {
				if s.If != nil && b.meets(s.Fact) {
					add(s.Fact, met{operator: b.operator, shown: true, backward: true})
				}
			}
		}
	}
	if every := p.Everywhere(); len(every) > 0 {
		whole := looks.whole()
		for _, s := range every {
			if s.MeetsCall(whole) == facts.Yes && !aboutTypes(s.Fact) {
				add(s.Fact, met{shown: true})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b met) int {
		if a.sure != b.sure {
			if a.sure {
				return -1
			}
			return 1
		}
		return a.Rank() - b.Rank()
	})
	return list
}

// graded reports whether a gradient is surely asked of one of a call's tensors.
func graded(c *abstract.Call) bool {
	return c.Self != nil && c.Self.Graded() || slices.ContainsFunc(c.Args, (*abstract.Value).Graded)
}

// roiGradient is the gradient of torchvision's box pooling, whose size the arguments show; nil for all else, and where
// they do not. Source: torchvision/ops/roi_align.py and those beside it.
func roiGradient(p *audit.Pass, c *abstract.Call, path string) *reached {
	name := last(path)
	if !strings.HasPrefix(path, "torchvision.ops.") || !strings.HasSuffix(name, "roi_align") &&
		!strings.HasSuffix(name, "roi_pool") {
		return nil
	}
	a := argumentsOf{p: p, positional: c.Args, named: c.Named}
	x, boxes, out := a.get(0, "input"), a.get(1, "boxes"), a.get(2, "output_size")
	if x == nil || boxes == nil || out == nil || x.Shape == nil || len(x.Shape.Sizes) != 4 || boxes.Shape == nil ||
		len(boxes.Shape.Sizes) != 2 {
		return nil
	}
	r := &reached{given: values{"output_size": out}}
	size, ok := r.numbers("output_size")
	if !ok || len(size) == 0 {
		return nil
	}
	channels := x.Shape.Sizes[1]
	if strings.HasPrefix(name, "ps_") && channels > 0 {
		channels /= max(1, size[0]*size[len(size)-1])
	}
	r.schema = []atlas.Parameter{{Name: "grad", Kind: 'T'}}
	r.given["grad"] = &abstract.Value{Kind: abstract.Tensor, Type: x.Type, Where: x.Where, Shape: &abstract.Shape{
		Sizes: []int64{boxes.Shape.Sizes[0], channels, size[0], size[len(size)-1]}}}
	return r
}

// aboutTypes reports whether a fact is about the type of a tensor that comes to MPS, which rules of its own find.
func aboutTypes(f *facts.Fact) bool {
	return slices.ContainsFunc(f.If, func(c facts.Clause) bool { return c.Of == "result" && c.DType != nil })
}

// refusedType is the fact that a tensor of a type cannot be made on MPS; nil where there is none.
func refusedType(p *audit.Pass, dtype string) *facts.Fact {
	made := &reached{result: &abstract.Value{Kind: abstract.Tensor, Type: dtype}}
	for _, s := range p.Everywhere() {
		old := p.Target.MacOS == [2]int{} && strings.Contains(s.MacOS, "<")
		if dtype != "" && !old && aboutTypes(s.Fact) && s.MeetsCall(made) == facts.Yes {
			return s.Fact
		}
	}
	return nil
}

// looking is the one look at a call's arguments that the facts need, where any does.
type looking struct {
	p *audit.Pass
	c *abstract.Call
}

func (l *looking) reached([]facts.Said) []*reached {
	list := reaches(l.p, l.c)
	for _, r := range list {
		base, _, _ := strings.Cut(r.operator, ".")
		for _, o := range list {
			if other, _, _ := strings.Cut(o.operator, "."); o != r && other == base && o.operator != base+".vec" {
				r.instead = append(r.instead, o)
			}
		}
	}
	return list
}

// whole is the call as any tensor's: all tensors among its arguments, and what it gives.
func (l *looking) whole() *reached {
	r := &reached{given: values{}, open: l.c.Open, result: result(l.p, l.c)}
	add := func(v *abstract.Value) {
		if v != nil && v.Kind == abstract.Tensor {
			name := fmt.Sprint(len(r.schema))
			r.schema = append(r.schema, atlas.Parameter{Name: name, Kind: 'T'})
			r.given[name] = v
		}
	}
	add(l.c.Self)
	for _, v := range l.c.Args {
		add(v)
	}
	for _, n := range l.c.Named {
		add(n.Value)
	}
	return r
}

// meets reports whether a fact's clauses hold of the operator, and of each other overload that the arguments may mean.
func (r *reached) meets(f *facts.Fact) bool {
	if f.Clauses(r) != facts.Yes {
		return false
	}
	return !slices.ContainsFunc(r.instead, func(o *reached) bool {
		return !f.About(o.operator) || f.Clauses(o) != facts.Yes
	})
}

// gradients are the operators that compute an operator's gradient, with what is known of their arguments: those of the
// same names, and for the gradient that comes in the result.
func (r *reached) gradients(p *audit.Pass) []*reached {
	base, _, _ := strings.Cut(r.operator, ".")
	names := []string{base + "_backward"}
	switch base {
	case "aten::_softmax", "aten::_log_softmax":
		names = []string{base + "_backward_data"}
	case "aten::lstm":
		names = []string{"aten::lstm_mps_backward"}
	}
	var list []*reached
	for _, name := range names {
		schema := p.Target.Atlas.Schema(name)
		if schema == nil {
			continue
		}
		b := &reached{operator: name, schema: schema, given: values{}, autocast: r.autocast,
			open: true}
		for _, q := range schema {
			v, there := r.given[q.Name]
			switch {
			case there:
				b.given[q.Name] = v
			case strings.HasPrefix(q.Name, "grad") && q.Kind == 'T':
				b.given[q.Name] = r.result
			case q.Name == "self" || q.Name == "input":
				if v := r.given["input"]; v != nil {
					b.given[q.Name] = v
				} else if v := r.given["self"]; v != nil {
					b.given[q.Name] = v
				}
			}
		}
		list = append(list, b)
	}
	return list
}

// tensorsOf is where the tensors live that a call works on.
func tensorsOf(c *abstract.Call) abstract.Devices {
	where := c.Tensors()
	if c.Self != nil && c.Self.Kind == abstract.Made && c.Self.Made != nil &&
		strings.HasPrefix(c.Path, "torch.distributions.") {
		where = c.Self.Made.Tensors() // a distribution is where its parameters are
	}
	// lengths and the like may lie on the CPU
	if len(c.Args) > 0 && c.Args[0].Kind == abstract.Tensor && c.Args[0].Where.Surely(abstract.OnMPS) {
		where = abstract.OnMPS
	}
	return where
}

// place is where a call's tensors live, and whether that may be elsewhere.
func place(p *audit.Pass, c *abstract.Call) (where abstract.Devices, soft bool) {
	where = tensorsOf(c)
	soft = c.Self != nil && c.Self.Soft || softArguments(c)
	if c.Path == "torch.Tensor.to" && !where.Surely(abstract.OnMPS) { // what arrives there
		if v := p.Result(c); v.Kind == abstract.Tensor && v.Where.Surely(abstract.OnMPS) {
			return v.Where, soft || v.Soft
		}
	}
	if where == 0 {
		if c.Node == nil || c.Self != nil && c.Self.Kind == abstract.Module {
			return 0, soft
		}
		if v := p.Result(c); v.Kind == abstract.Tensor && (c.Arg(-1, "device") != nil || p.DefaultDevice() != 0) {
			return v.Where, soft || v.Soft
		}
	}
	return where, soft
}

// gradients says whether a call's backward pass may come, and whether it surely does: a layer of a file that trains.
func gradients(p *audit.Pass, c *abstract.Call, path string) (plausible, sure bool) {
	if p.In("torch.no_grad", "torch.inference_mode") != nil || c.Self != nil && c.Self.Evaluates() {
		return false, false
	}
	layer := c.Self != nil && c.Self.Kind == abstract.Module && strings.HasSuffix(c.Path, ".__call__")
	return layer || p.Trains() || graded(c) || inForward(p), (layer || graded(c)) && p.Trains()
}

// trimCall is the name of a class whose instance is called.
func trimCall(path string) string { return strings.TrimSuffix(path, ".__call__") }

// shortName is what is called, in a finding.
func shortName(path string) string {
	path = trimCall(path)
	if symbol := symbols[last(path)]; symbol != "" {
		return symbol
	}
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "torch.nn.functional."), "torch."), "Tensor.")
}

var varies = regexp.MustCompile(`\{[^{}]*\}`)

// hintOf is what to do about a fact.
func (m met) hint() string {
	hint := m.Remedy
	if m.Fixed != "" {
		hint = strings.TrimPrefix(hint+"; right from torch "+m.Fixed+" on", "; ")
	}
	if hint == "" && m.Outcome == facts.Wrong {
		return "compare with the CPU, or run this call there"
	}
	if hint == "" {
		return "run this call on the CPU, or write it with other operators"
	}
	return hint
}

// pass is in which pass a fact is met.
func (m met) pass() string {
	if m.backward {
		return " in the backward pass"
	}
	return ""
}

// inForward reports whether the function around is a module's forward.
func inForward(p *audit.Pass) bool {
	f := p.Func()
	return f != nil && f.Name == "forward" && f.Class != nil && f.Class.IsModule()
}

func softArguments(c *abstract.Call) bool {
	return slices.ContainsFunc(c.Args, func(v *abstract.Value) bool { return v.Kind == abstract.Tensor && v.Soft })
}
