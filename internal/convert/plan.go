// Package convert makes of one file of weights another: layouts, types and names of PyTorch, Keras and MLX.
//
// How a tensor is permuted follows from the kind of its module, which a recipe says, or the user, or the layout where
// that is certain; what is not certain is refused by name. A plan says all of it before anything is written.
package convert

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/weights"
)

// Options of a conversion; empty ones are found out.
type Options struct {
	From, To layout.Framework // From: as the file's layout is judged; To: as From
	Recipe   string           // name of a recipe
	Names    string           // form of the recipe whose names are written; else the first of To
	DType    weights.DType    // of floats; else as they are
	Kinds    []Rule           // of tensors that no recipe names
	Flatten  []Rule           // what the inputs of dense layers are flattened from
	KeepRest bool             // copy what the recipe does not name
	Keras    bool             // the names written are those of a .weights.h5
}

// A Rule is NAME=VALUE, where NAME may have * in it.
type Rule struct {
	Pattern, Value string
	used           bool
}

// ParseRule reads NAME=VALUE.
func ParseRule(text string) (Rule, error) {
	pattern, value, ok := strings.Cut(text, "=")
	if _, err := path.Match(pattern, ""); err != nil || !ok || pattern == "" || value == "" {
		return Rule{}, fmt.Errorf("%q is no NAME=VALUE", text)
	}
	return Rule{Pattern: pattern, Value: value}, nil
}

// find is the first rule whose pattern a name fits, with or without the ending of a kernel.
func find(rules []Rule, name string) *Rule {
	stem := name
	for _, ending := range []string{".weight", "/kernel", "/embeddings"} {
		stem = strings.TrimSuffix(stem, ending)
	}
	for i := range rules {
		// a slash is a letter as any other here
		for _, n := range []string{name, stem} {
			flat := strings.ReplaceAll(n, "/", "\x00")
			if ok, _ := path.Match(strings.ReplaceAll(rules[i].Pattern, "/", "\x00"), flat); ok {
				return &rules[i]
			}
		}
	}
	return nil
}

// A Step is one tensor of what is written. Its Open gives it permuted and of its type.
type Step struct {
	Out   weights.Tensor
	From  []string // tensors that it is made of
	Kind  layout.Kind
	Why   string // by what its kind is known
	Order string // "OIHW to HWIO", or "" where nothing moves
}

// An Unmade is a tensor that is left out, or refused.
type Unmade struct{ Name, Why, Tell string }

// A Plan is what a conversion does.
type Plan struct {
	From, To layout.Framework
	FromWhy  string
	Recipe   *Recipe
	In, Out  Form // of the recipe
	Steps    []Step
	Dropped  []Unmade
	Refused  []Unmade
	Missing  []Unmade // what the recipe expects and the file has not
	Notes    []string
	Same     bool              // it is as asked already
	Meta     map[string]string // of what is written
	Layers   map[string]string // names of Keras's groups, with Options.Keras

	overflow *atomic.Int64
	spare    atomic.Pointer[[]byte]
	largest  int64 // bytes of the largest tensor that moves
	taken    map[string]bool
	summed   []string // what the sum of two biases becomes
	opts     Options
	file     *weights.File
}

// Overflow counts finite values that the type written could not hold and that became infinite; it is whole once every
// tensor has been read.
func (p *Plan) Overflow() int64 { return p.overflow.Load() }

// Layout judges the layout of a file as layout.Judge does, with the names of the recipes: for `assay tensors`.
func Layout(f *weights.File) layout.Report {
	return layout.Judge(f, knownBy(f, findForm(f, Recipes())))
}

// knownBy says of the tensors of a matched recipe, and of recurrent layers, what they are.
func knownBy(f *weights.File, m *match) layout.Known {
	type fact struct {
		kind layout.Kind
		why  string
	}
	facts := map[string]fact{}
	if m != nil {
		for _, module := range m.modules {
			for _, name := range module.Names[m.form] {
				for i, p := range module.parts() {
					t, ok := m.lookup(name, p, i)
					if !ok {
						continue
					}
					kind := kindOf(module.word())
					switch {
					case !p.kernel:
						kind = layout.Vector
					case module.word() == "drop":
						kind = layout.Plain
					}
					facts[t.Name] = fact{kind, "the recipe " + m.recipe.Name + " names it"}
				}
			}
		}
	}
	for _, c := range cells(f) {
		for part, t := range c.parts {
			kind := layout.Vector
			if part == inputs || part == states {
				kind = layout.Dense
			}
			if _, ok := facts[t.Name]; !ok {
				facts[t.Name] = fact{kind, "its name is that of a recurrent layer's"}
			}
		}
	}
	return func(name string) (layout.Kind, string, bool) {
		if f, ok := facts[name]; ok {
			return f.kind, f.why, true
		}
		return "", "", false
	}
}

// Make plans a conversion. What is refused and missing stands in the plan; an error is said where nothing can be
// planned.
func Make(f *weights.File, opts Options) (*Plan, error) {
	among := Recipes()
	if opts.Recipe != "" {
		r, err := FindRecipe(opts.Recipe)
		if err != nil {
			return nil, fault.Exit(err, fault.Usage)
		}
		among = []*Recipe{r}
	}
	m := findForm(f, among)
	if m == nil && opts.Recipe != "" {
		return nil, fault.Hint(fmt.Errorf("the names in %s are none that the recipe %s knows", f.Path, opts.Recipe),
			"`assay tensors` lists them; without --recipe it is converted by the kinds of its tensors")
	}
	p := &Plan{overflow: &atomic.Int64{}, taken: map[string]bool{}, opts: opts, file: f}
	report := layout.Judge(f, knownBy(f, m))
	if err := p.settleFrom(m, report); err != nil {
		return nil, err
	}
	p.To = opts.To
	if p.To == "" {
		p.To = p.From
	}
	p.Meta = map[string]string{}
	for k, v := range f.Meta {
		if k != "format" && k != "config" && !strings.HasPrefix(k, "layer:") {
			p.Meta[k] = v
		}
	}
	if p.To != "" {
		p.Meta["assay.layout"] = string(p.To)
		p.Meta["format"] = map[layout.Framework]string{layout.Torch: "pt", layout.Keras: "tf", layout.MLX: "mlx"}[p.To]
	}
	p.Same = opts.To != "" && p.From == p.To
	if m != nil {
		if err := p.forms(m); err != nil {
			return nil, err
		}
		p.byRecipe(m)
	}
	if opts.Keras && p.Layers == nil {
		return nil, fault.Hint(errors.New("a .weights.h5 numbers its layers by class and order, which only a recipe knows"),
			"write .safetensors, whose names are layers' and variables'; docs/convert.md lists the recipes")
	}
	p.leave()
	if m == nil {
		p.byKind(report)
	} else {
		p.rest()
	}
	for _, rule := range append(slices.Clone(p.opts.Kinds), p.opts.Flatten...) {
		if !rule.used {
			return nil, fault.Exit(fault.Hint(fmt.Errorf("%s=%s fits no tensor that it could be of", rule.Pattern,
				rule.Value),
				"a tensor that a recipe names needs none; conv has 3 to 5 dimensions, dense and embedding 2"), fault.Usage)
		}
	}
	return p, p.twins()
}

// settleFrom says which framework's layout the file has.
func (p *Plan) settleFrom(m *match, report layout.Report) error {
	switch {
	case p.opts.From != "":
		p.From, p.FromWhy = p.opts.From, "--from says so"
		return nil
	case report.Verdict == layout.One || report.Verdict == layout.Converted || report.Layout != "":
		p.From, p.FromWhy = report.Layout, report.Why
		return nil
	case report.Verdict == layout.Mixed || report.Verdict == layout.Twice:
		return fault.Hint(fmt.Errorf("%s: %s: %s: %s", p.file.Path, report.Verdict, report.Why, few(report.Named)),
			"it would come out as wrong as it is: take the file from which it was made")
	case m != nil && !m.shared():
		p.From = m.recipe.Forms[m.form].Framework
		p.FromWhy = "its names are those of " + m.recipe.Forms[m.form].Name
		return nil
	case p.opts.To == "":
		return nil // nothing is permuted
	}
	if one := spoken(p.file); one != "" && !slices.ContainsFunc(report.Tensors, func(g layout.Judgement) bool {
		return g.Order != "-" && !slices.Contains(g.In, one)
	}) {
		p.From, p.FromWhy = one, "its recurrent layers have the names that "+string(one)+" gives them"
		return nil
	}
	return fault.Hint(fmt.Errorf("%s: which layout it has cannot be told: %s", p.file.Path, report.Why),
		"say it: --from torch, keras or mlx")
}

// shared says whether another framework's form has the very names of the one found.
func (m *match) shared() bool {
	for at, form := range m.recipe.Forms {
		if form.Framework == m.recipe.Forms[m.form].Framework {
			continue
		}
		same := true
		for _, module := range m.modules {
			same = same && slices.Equal(module.Names[at], module.Names[m.form])
		}
		if same && form.Framework != layout.Keras && m.recipe.Forms[m.form].Framework != layout.Keras {
			return true
		}
	}
	return false
}

// forms chooses the names that are written, and says or refuses what stands between the two networks.
func (p *Plan) forms(m *match) error {
	r := m.recipe
	p.Recipe, p.In = r, r.Forms[m.form]
	if p.To == "" {
		p.From, p.To = p.In.Framework, p.In.Framework
	}
	at := slices.IndexFunc(r.Forms, func(f Form) bool { return f.Framework == p.To && !f.Groups })
	if p.In.Framework == p.To && !p.In.Groups {
		at = m.form
	}
	var names []string
	for _, f := range r.Forms {
		names = append(names, f.Name+" ("+string(f.Framework)+")")
	}
	if p.opts.Names != "" {
		at = slices.IndexFunc(r.Forms, func(f Form) bool { return f.Name == p.opts.Names })
		if at < 0 || r.Forms[at].Framework != p.To {
			return fault.Exit(fault.Hint(fmt.Errorf("the recipe %s has no names %q for %s", r.Name, p.opts.Names, p.To),
				"it has "+strings.Join(names, ", ")), fault.Usage)
		}
	}
	if at < 0 {
		return fault.Hint(fmt.Errorf("the recipe %s has no names for %s", r.Name, p.To),
			"it has "+strings.Join(names, ", "))
	}
	p.Out = r.Forms[at]
	p.Meta["assay.recipe"], p.Meta["assay.names"] = r.Name, p.Out.Name
	p.Same = p.Same && p.In.Name == p.Out.Name
	for _, n := range r.Notes {
		if p.In.Name == p.Out.Name || !slices.Contains(n.Between, p.In.Name) || !slices.Contains(n.Between,
			p.Out.Name) {
			continue
		}
		if n.Refuse {
			return fault.Hint(fmt.Errorf("%s and %s of the recipe %s are not one network: %s", p.In.Name, p.Out.Name, r.Name,
				n.Text), "port the network itself, and convert between forms of one: "+strings.Join(names, ", "))
		}
		p.Notes = append(p.Notes, n.Text)
	}
	return nil
}

// byRecipe plans the tensors that the recipe names.
func (p *Plan) byRecipe(m *match) {
	out := slices.IndexFunc(m.recipe.Forms, func(f Form) bool { return f.Name == p.Out.Name })
	group := -1 // form with the groups of a .weights.h5
	if p.opts.Keras {
		group = slices.IndexFunc(m.recipe.Forms, func(f Form) bool { return f.Groups })
		if group >= 0 {
			p.Layers = map[string]string{}
		}
	}
	for _, module := range m.modules {
		a, b := module.Names[m.form], module.Names[out]
		there := slices.ContainsFunc(a, func(name string) bool { return m.has(module, name) })
		for i, part := range module.parts() {
			var tensors []weights.Tensor
			absent := ""
			for _, name := range a {
				t, ok := m.lookup(name, part, i)
				if !ok {
					absent = key(p.In, name, part)
					continue
				}
				p.taken[t.Name] = true
				tensors = append(tensors, t)
			}
			switch {
			case module.word() == "drop":
				for _, t := range tensors {
					p.Dropped = append(p.Dropped, Unmade{Name: t.Name, Why: "the recipe says that it is no weight"})
				}
				continue
			case !there && module.Optional:
				continue
			case absent != "":
				p.Missing = append(p.Missing, Unmade{Name: absent, Why: "the recipe " + m.recipe.Name + " expects it"})
				continue
			case len(b) == 0:
				for _, t := range tensors {
					p.Dropped = append(p.Dropped, Unmade{Name: t.Name, Why: p.Out.Name + " has no such module"})
				}
				continue
			case len(a) == 0:
				if !module.Optional {
					p.Missing = append(p.Missing, Unmade{Name: key(p.Out, b[0], part), Why: p.Out.Name +
						" has it, and " +
						p.In.Name + " has not"})
				}
				continue
			}
			kind := layout.Vector
			if part.kernel {
				kind = kindOf(module.word())
			}
			var names []string
			for at, name := range b {
				written := key(p.Out, name, part)
				if group >= 0 && len(module.Names[group]) == len(b) {
					g := module.Names[group][at]
					written = fmt.Sprintf("%s/vars/%d", g, i)
					p.Layers[g] = name
				}
				names = append(names, written)
			}
			why := "recipe " + m.recipe.Name
			p.pair(tensors, names, kind, module.Flatten, why)
		}
	}
}

// pair plans tensors of one part of a module: one for one, or slices of the outputs of one.
func (p *Plan) pair(tensors []weights.Tensor, names []string, kind layout.Kind, flatten []int64, why string) {
	if len(tensors) == len(names) {
		for i, t := range tensors {
			p.add([]weights.Tensor{t}, []piece{{t, 0, t.Bytes}}, t.Shape, names[i], kind, flatten, why)
		}
		return
	}
	first := tensors[0]
	order := layout.Order(kind, p.From)
	if kind != layout.Vector && !strings.HasPrefix(order, "O") || len(first.Shape) == 0 {
		p.Refused = append(p.Refused, Unmade{Name: first.Name, Why: "its outputs lie inside, and are not cut or joined"})
		return
	}
	shape := slices.Clone(first.Shape)
	if len(names) == 1 {
		var pieces []piece
		shape[0] = 0
		for _, t := range tensors {
			if len(t.Shape) != len(shape) || !slices.Equal(t.Shape[1:], shape[1:]) || t.DType != first.DType {
				p.Refused = append(p.Refused, Unmade{Name: t.Name, Why: "it cannot be joined with " + first.Name})
				return
			}
			shape[0] += t.Shape[0]
			pieces = append(pieces, piece{t, 0, t.Bytes})
		}
		p.add(tensors, pieces, shape, names[0], kind, flatten, why+", joined")
		return
	}
	n := int64(len(names))
	if len(tensors) != 1 || shape[0]%n != 0 {
		p.Refused = append(p.Refused, Unmade{Name: first.Name, Why: fmt.Sprintf("its outputs cannot be cut into %d",
			n)})
		return
	}
	shape[0] /= n
	for i, name := range names {
		size := first.Bytes / n
		p.add(tensors, []piece{{first, int64(i) * size, size}}, shape, name, kind, flatten,
			fmt.Sprintf("%s, part %d of %d", why, i+1, n))
	}
}

// add plans one tensor that is written. flatten is what its inputs are flattened from; of a depthwise kernel it is one
// number, the outputs for each input.
func (p *Plan) add(from []weights.Tensor, pieces []piece, shape []int64, name string, kind layout.Kind, flatten []int64,
	why string) {
	source := from[0]
	refuse := func(why, tell string) { p.Refused = append(p.Refused, Unmade{Name: source.Name, Why: why, Tell: tell}) }
	step := Step{Kind: kind, Why: why}
	for _, t := range from {
		step.From = append(step.From, t.Name)
	}
	out := weights.Tensor{Name: name, DType: source.DType, Shape: shape}
	var mv *move
	if order := layout.Order(kind, p.From); order != "" && p.From != p.To && kind != layout.Embedding {
		multiple := int64(1)
		if (kind == layout.Depthwise1D || kind == layout.Depthwise2D) && len(flatten) == 1 {
			multiple, flatten = flatten[0], nil
		}
		view, err := viewOf(kind, p.From, shape, flatten, multiple)
		if err != nil {
			refuse(err.Error(), "")
			return
		}
		after := letters(kind, p.To, view.multiple, flatten)
		made, err := between(view.order, after, view.dims)
		if err != nil {
			refuse(err.Error(), "")
			return
		}
		out.Shape = shown(kind, p.To, view, flatten)
		if before, then := layout.Shown(kind, p.From), layout.Shown(kind, p.To); before != then || flatten != nil {
			step.Order = view.order + " to " + after
			if flatten == nil {
				step.Order = before + " to " + then
			}
		}
		if !made.same() {
			if source.DType.Size() == 0 {
				refuse(fmt.Sprintf("blocks of %s cannot be permuted", source.DType), "")
				return
			}
			mv = &made
			if n, ok := weights.Product(shape); ok {
				p.largest = max(p.largest, n*source.DType.Size())
			}
		}
	}
	to := p.opts.DType
	if to != "" && floats[source.DType] {
		out.DType = to
	}
	elements, ok := weights.Product(shape)
	size := out.DType.Size()
	switch {
	case !ok:
		refuse("its shape is none", "")
		return
	case size == 0:
		out.Bytes = 0
		for _, piece := range pieces {
			out.Bytes += piece.bytes
		}
	default:
		out.Bytes = elements * size
	}
	out.Where, out.Note = source.Where, ""
	out.Open = func() (io.ReadCloser, error) {
		in, err := openPieces(pieces)
		if err != nil {
			return nil, err
		}
		return p.stream(in, source.DType, out.DType, mv, elements)
	}
	step.Out = out
	p.Steps = append(p.Steps, step)
}

// stream is what a step writes: in, moved and of another type. What readMoved holds of it is memory that the next one
// takes over.
func (p *Plan) stream(in io.ReadCloser, from, to weights.DType, mv *move, elements int64) (io.ReadCloser, error) {
	var r io.Reader = in
	var end io.Closer = in
	if mv != nil {
		var held []byte
		moved, err := readMoved(in, *mv, int(from.Size()), func(size int) []byte {
			held = p.memory(int64(size))
			return held
		})
		if err != nil {
			return nil, errors.Join(err, in.Close())
		}
		r, end = moved, closer(func() error {
			if held != nil {
				p.spare.CompareAndSwap(nil, &held)
			}
			return in.Close()
		})
	}
	if from != to {
		r = newCaster(r, from, to, p.overflow)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, end}, nil
}

// memory is that of the tensor before where it is large enough, else as much as the largest that moves wants.
func (p *Plan) memory(size int64) []byte {
	if last := p.spare.Swap(nil); last != nil && int64(cap(*last)) >= size {
		return (*last)[:size]
	}
	return make([]byte, size, max(size, p.largest))
}

type closer func() error

func (c closer) Close() error { return c() }

// A view is a tensor as its letters say it.
type view struct {
	order    string
	dims     []int64
	multiple bool // a depthwise kernel, as inputs and multiples
}

// viewOf is a tensor of a framework as letters say it: a depthwise kernel has its inputs and multiples apart, a dense
// layer behind a flatten its channels, height and width.
func viewOf(kind layout.Kind, in layout.Framework, shape, flatten []int64, multiple int64) (view, error) {
	order := layout.Shown(kind, in)
	if len(shape) != len(order) {
		return view{}, fmt.Errorf("a %s has %d dimensions, and it has the shape %s", kind, len(order),
			layout.Text(shape))
	}
	depthwise := kind == layout.Depthwise1D || kind == layout.Depthwise2D
	switch {
	case depthwise && in == layout.Keras:
		if said := shape[len(shape)-1]; multiple != 1 && said != multiple {
			return view{}, fmt.Errorf("it has %d outputs for each input, and %d were said", said, multiple)
		}
		return view{order, shape, true}, nil
	case depthwise:
		at := strings.IndexByte(order, 'I')
		if shape[at] != 1 {
			return view{}, fmt.Errorf("a depthwise kernel has one input, and %s has %d", layout.Text(shape), shape[at])
		}
		if shape[0]%multiple != 0 {
			return view{}, fmt.Errorf("its %d outputs are not %d for each input", shape[0], multiple)
		}
		dims := []int64{shape[0] / multiple, multiple}
		for i, letter := range order {
			if letter == 'H' || letter == 'W' || letter == 'K' {
				dims = append(dims, shape[i])
			}
		}
		return view{layout.Order(kind, in), dims, true}, nil
	case flatten != nil:
		at := strings.IndexByte(order, 'I')
		product, ok := weights.Product(flatten)
		if !ok || product != shape[at] {
			return view{}, fmt.Errorf("it has %d inputs, and the flatten before it gives %d", shape[at], product)
		}
		extent := slices.Clone(flatten)
		if in != layout.Torch {
			extent = append(extent[1:], extent[0])
		}
		dims := append(append(slices.Clone(shape[:at]), extent...), shape[at+1:]...)
		return view{letters(kind, in, false, flatten), dims, false}, nil
	}
	return view{order, shape, false}, nil
}

// letters are the order of a kind in a framework, with channels and extent for the inputs behind a flatten.
func letters(kind layout.Kind, in layout.Framework, multiple bool, flatten []int64) string {
	order := layout.Order(kind, in)
	if flatten == nil || multiple {
		return order
	}
	extent := map[int]string{1: "W", 2: "HW", 3: "DHW"}[len(flatten)-1]
	inside := extent + "C"
	if in == layout.Torch {
		inside = "C" + extent
	}
	return strings.Replace(order, "I", inside, 1)
}

// shown is the shape of a view in a framework.
func shown(kind layout.Kind, in layout.Framework, v view, flatten []int64) []int64 {
	size := map[rune]int64{}
	for i, letter := range v.order {
		size[letter] = v.dims[i]
	}
	if flatten != nil {
		size['I'], _ = weights.Product(flatten)
	}
	if v.multiple && in != layout.Keras {
		size['O'], size['I'] = size['I']*size['M'], 1
	}
	var shape []int64
	for _, letter := range layout.Shown(kind, in) {
		shape = append(shape, size[letter])
	}
	return shape
}

// leave leaves out what no network computes with.
func (p *Plan) leave() {
	for _, t := range p.file.Tensors {
		why := ""
		switch {
		case p.taken[t.Name]:
			continue
		case strings.HasSuffix(t.Name, "num_batches_tracked") && p.To != layout.Torch:
			why = "PyTorch's count of batches, which " + string(p.To) + " does not have"
		case strings.HasSuffix(t.Name, "num_batches_tracked") && p.Recipe != nil && p.In.Name == p.Out.Name:
			p.taken[t.Name] = true
			p.add([]weights.Tensor{t}, []piece{{t, 0, t.Bytes}}, t.Shape, t.Name, layout.Plain, nil,
				"a count of batches")
		case strings.HasSuffix(t.Name, "num_batches_tracked") && p.Recipe != nil:
			why = "PyTorch's count of batches, which it makes anew"
		case strings.HasPrefix(t.Name, "optimizer/"), strings.HasPrefix(t.Name, "optimizer_weights/"):
			why = "the optimizer's"
		}
		if why != "" {
			p.taken[t.Name] = true
			p.Dropped = append(p.Dropped, Unmade{Name: t.Name, Why: why})
		}
	}
}

// rest are the tensors that a recipe does not name.
func (p *Plan) rest() {
	for _, t := range p.file.Tensors {
		if p.taken[t.Name] {
			continue
		}
		if !p.opts.KeepRest {
			p.Refused = append(p.Refused, Unmade{Name: t.Name, Why: "the recipe " + p.Recipe.Name + " does not name it",
				Tell: "--keep-rest copies it as it is"})
			continue
		}
		p.add([]weights.Tensor{t}, []piece{{t, 0, t.Bytes}}, t.Shape, t.Name, layout.Plain, nil, "kept as it is")
	}
}

// twins refuses two tensors of one name.
func (p *Plan) twins() error {
	seen := map[string]string{}
	for _, s := range p.Steps {
		if other, twice := seen[s.Out.Name]; twice {
			return fmt.Errorf("%s and %s would both be named %s", other, strings.Join(s.From, ", "), s.Out.Name)
		}
		seen[s.Out.Name] = strings.Join(s.From, ", ")
	}
	return nil
}

// Err is what keeps a plan from being carried out: tensors refused or missing; nil where nothing does.
func (p *Plan) Err() error {
	var errs []error
	hint := ""
	for _, list := range []struct {
		what string
		of   []Unmade
	}{{"refused", p.Refused}, {"missing", p.Missing}} {
		if len(list.of) == 0 {
			continue
		}
		u := list.of[0]
		text := fmt.Sprintf("%s: %s: %s", list.what, u.Name, u.Why)
		if more := len(list.of) - 1; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		errs = append(errs, errors.New(text))
		if hint == "" && u.Tell != "" {
			hint = u.Tell
		}
	}
	if len(errs) == 0 {
		return nil
	}
	text := errs[0].Error()
	for _, err := range errs[1:] {
		text += "; " + err.Error()
	}
	err := fmt.Errorf("%s: %s", p.file.Path, text)
	if hint == "" {
		hint = "--explain names them all, and each pairing"
	}
	return fault.Hint(err, hint+"; nothing was written")
}

func few(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
