package layout

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/weights"
)

// A Certainty is how well something is known.
type Certainty int

// Shapes alone never make it more than Likely.
const (
	Unknown Certainty = iota
	Likely
	Sure
)

func (c Certainty) String() string { return [...]string{"unknown", "likely", "sure"}[c] }

// A Judgement is what is known of one tensor.
type Judgement struct {
	Name    string
	Shape   []int64
	Kind    Kind        // "" where it is not known
	Kinds   []Kind      // those that it can be
	In      []Framework // those whose layout it can have; all where it is the same in each
	Order   string      // letters; "" where more than one is possible, "-" where there is nothing to order
	Certain Certainty   // of Order
	KindIs  Certainty   // of Kind
	Why     string
	Tell    string // what would tell, where Certain is not Sure
	Twice   bool   // its shape is one that no framework has, and that a permutation applied twice gives
	Against string // what it speaks against: "the file's format, torch"; else ""
	Outputs int64  // how many the bias or norm beside it has; 0 where none is there
	Beside  string // which that is
}

// A Verdict is what is said of a file as a whole.
type Verdict string

// What a file can be.
const (
	One       Verdict = "one layout"
	Mixed     Verdict = "mixed"
	Converted Verdict = "already converted" // it says one framework, and its kernels are another's
	Twice     Verdict = "converted twice"
	None      Verdict = "no kernel"
	Untold    Verdict = "cannot be told"
)

// A Report is what is known of a file.
type Report struct {
	Tensors []Judgement
	Verdict Verdict
	Layout  Framework // with One and Converted
	Claim   Framework // what the file says of itself, by its format or metadata
	Why     string
	Tell    string   // what would tell, with Untold
	Named   []string // the tensors that show it, with Mixed and Twice
}

// Known is what somebody who knows names says of a tensor: its kind, and by what. False where the name says nothing.
type Known func(name string) (kind Kind, why string, ok bool)

// Judge says which layout the tensors of a file have. known may be nil.
func Judge(f *weights.File, known Known) Report {
	j := judge{file: f, known: known, shapes: map[string][]int64{}}
	for _, t := range f.Tensors {
		j.shapes[t.Name] = t.Shape
	}
	var r Report
	var claimWhy string
	r.Claim, claimWhy = claim(f)
	for _, t := range f.Tensors {
		r.Tensors = append(r.Tensors, j.tensor(t, r.Claim, claimWhy))
	}
	r.whole(claimWhy)
	return r
}

// claim is the framework that a file says it is of.
func claim(f *weights.File) (Framework, string) {
	if said, ok := ParseFramework(f.Meta["assay.layout"]); ok {
		return said, "the file's metadata says assay.layout: " + f.Meta["assay.layout"]
	}
	switch {
	case f.Format == "keras":
		return Keras, "Keras's files have HWIO kernels and in × out dense layers by definition"
	case strings.HasPrefix(f.Format, "torch"):
		return Torch, "a pickle of PyTorch has OIHW kernels and out × in dense layers"
	}
	if said, ok := ParseFramework(f.Meta["format"]); ok {
		return said, "the file's metadata says format: " + f.Meta["format"]
	}
	return "", ""
}

type judge struct {
	file   *weights.File
	known  Known
	shapes map[string][]int64
}

// tensor judges one tensor; what the file claims limits what it can be, unless its shape speaks against.
func (j judge) tensor(t weights.Tensor, claimed Framework, claimWhy string) Judgement {
	g := Judgement{Name: t.Name, Shape: t.Shape, In: Frameworks}
	kind, kindWhy, named := Kind(""), "", false
	if j.known != nil {
		kind, kindWhy, named = j.known(t.Name)
	}
	if named {
		g.Kind, g.KindIs = kind, Sure
	}
	switch rank := len(t.Shape); {
	case named && Order(kind, Torch) == "":
		g.Order, g.Certain, g.Why = "-", Sure, kindWhy
		return g
	case named && kind == Embedding:
		g.Order, g.Certain, g.Why = "VE", Sure, kindWhy
		return g
	case rank < 2:
		g.Kind, g.KindIs, g.Order, g.Certain, g.Why = Vector, Sure, "-", Sure, "a vector has nothing to order"
		return g
	case rank == 3 && !named && !j.beside(t.Name):
		g.Why = "three dimensions without a bias are as often a parameter as a kernel"
		g.Tell = "--kind '" + t.Name + "=conv' or plain"
		return g
	case rank > 5:
		g.Why, g.Tell = "no kernel has six dimensions", "--kind NAME=plain where it is the same in each framework"
		return g
	case rank == 2 && !named:
		if isEmbedding(t.Name) {
			g.Kind, g.KindIs, g.Order, g.Certain = Embedding, Likely, "VE", Likely
			g.Why, g.Tell = "its name is that of an embedding", "--kind '"+t.Name+"=embedding'"
			return g
		}
	}
	outputs, beside := j.outputs(t.Name)
	g.Outputs, g.Beside = outputs, beside
	fits := candidates(t.Shape, kind, named, outputs)
	g.settle(fits, outputs, beside, kindWhy, claimed, claimWhy)
	return g
}

// A candidate is a layout that a shape fits.
type candidate struct {
	kind  Kind
	in    Framework
	order string
}

// kindsOfRank are what an unnamed tensor may be.
var kindsOfRank = map[int][]Kind{
	2: {Dense},
	3: {Conv1D, ConvTranspose1D, Depthwise1D},
	4: {Conv2D, ConvTranspose2D, Depthwise2D},
	5: {Conv3D, ConvTranspose3D},
}

func candidates(shape []int64, kind Kind, named bool, outputs int64) (fits []candidate) {
	kinds := kindsOfRank[len(shape)]
	if named {
		kinds = []Kind{kind}
	}
	for _, k := range kinds {
		for _, in := range Frameworks {
			if order := Shown(k, in); fit(shape, k, order, outputs) {
				fits = append(fits, candidate{k, in, order})
			}
		}
	}
	return fits
}

// Shown is the order of a kind as the shape of its tensor has it: PyTorch and MLX keep a depthwise kernel's inputs and
// multiples in one dimension, O, beside an I of 1.
func Shown(k Kind, in Framework) string {
	switch {
	case k == Depthwise1D && in != Keras:
		return Order(Conv1D, in)
	case k == Depthwise2D && in != Keras:
		return Order(Conv2D, in)
	}
	return Order(k, in)
}

// fit says whether a shape can be of this order: the kernel's extent is a plausible one, and its outputs as many as the
// bias or norm beside it has (0: none is there).
func fit(shape []int64, kind Kind, order string, outputs int64) bool {
	if len(order) != len(shape) {
		return false
	}
	var extent []int64
	for i, letter := range order {
		switch letter {
		case 'D', 'H', 'W', 'K':
			extent = append(extent, shape[i])
		case 'I':
			alone := kind == Depthwise1D || kind == Depthwise2D
			if alone && !strings.ContainsRune(order, 'M') && shape[i] != 1 {
				return false
			}
		}
	}
	return plausible(extent) && (outputs == 0 || Outputs(shape, order) == outputs)
}

// Outputs is how many a kernel of this shape and order (Shown) gives; of a transposed convolution with groups, those of
// one group.
func Outputs(shape []int64, order string) int64 {
	out := int64(1)
	for i, letter := range order {
		if letter == 'O' || letter == 'M' || letter == 'I' && strings.ContainsRune(order, 'M') {
			out *= shape[i]
		}
	}
	return out
}

// plausible says whether a kernel may have this extent: square up to 32 (patches of vision transformers), a line, or
// small on each side. Where that errs, a layout stays unknown or a file is found mixed, and a person looks.
func plausible(extent []int64) bool {
	if len(extent) == 0 {
		return true
	}
	small, long := slices.Min(extent), slices.Max(extent)
	switch {
	case small < 1:
		return false
	case len(extent) == 1:
		return long <= 64
	case small == 1:
		return long <= 64
	}
	return long <= 11 || small == long && long <= 32
}

// outputs is how many a kernel has by the bias or norm beside it, and which that is; 0 where none is there.
func (j judge) outputs(name string) (int64, string) {
	for _, beside := range besides(name) {
		if shape, ok := j.shapes[beside]; ok && len(shape) == 1 {
			return shape[0], beside
		}
	}
	return 0, ""
}

func (j judge) beside(name string) bool { n, _ := j.outputs(name); return n > 0 }

// besides are the names that the bias of a kernel can have, and the norm behind one.
func besides(name string) (names []string) {
	cut := func(suffix string, with ...string) {
		if stem, ok := strings.CutSuffix(name, suffix); ok {
			for _, w := range with {
				names = append(names, stem+w)
			}
		}
	}
	cut(".weight", ".bias")
	cut("kernel", "bias")
	cut("kernel:0", "bias:0")
	cut("depthwise_kernel:0", "bias:0")
	cut("/weights", "/biases")
	cut("/vars/0", "/vars/1")
	cut("_weight", "_bias")
	stem, ok := strings.CutSuffix(name, ".weight")
	if !ok {
		return names
	}
	folder, last := stem[:strings.LastIndex(stem, ".")+1], stem[strings.LastIndex(stem, ".")+1:]
	switch n := strings.TrimPrefix(last, "conv"); {
	case last == "conv":
		names = append(names, folder+"bn.running_mean", folder+"norm.running_mean")
	case n != last:
		names = append(names, folder+"bn"+n+".running_mean", folder+"norm"+n+".running_mean")
	default:
		var at int
		if _, err := fmt.Sscanf(last+";", "%d;", &at); err == nil {
			names = append(names, fmt.Sprintf("%s%d.running_mean", folder, at+1))
		}
	}
	return names
}

func isEmbedding(name string) bool {
	lower := strings.ToLower(name)
	return strings.Contains(lower, "embed") || strings.HasSuffix(lower, "wte.weight") ||
		strings.HasSuffix(lower, "wpe.weight")
}

// frameworks of candidates, each once.
func frameworks(fits []candidate) (in []Framework) {
	for _, f := range Frameworks {
		if slices.ContainsFunc(fits, func(c candidate) bool { return c.in == f }) {
			in = append(in, f)
		}
	}
	return in
}

func (g *Judgement) settle(fits []candidate, outputs int64, beside, kindWhy string, claimed Framework,
	claimWhy string) {
	rank := len(g.Shape)
	shape := "its shape " + Text(g.Shape)
	if outputs > 0 {
		shape += fmt.Sprintf(" and %s, whose length %d is the number of outputs", beside, outputs)
	}
	if len(fits) == 0 {
		g.In, g.Why = nil, shape+" fit no layout of a kernel"
		g.Tell = "--kind '" + g.Name + "=plain' where it is the same in each framework"
		if rank == 4 && twice(g.Shape) {
			g.Twice, g.Why = true, shape+" are none of a framework; a permutation applied twice gives it"
		}
		g.against(claimed, outputs)
		return
	}
	g.In = frameworks(fits)
	if claimed != "" {
		if kept := slices.DeleteFunc(slices.Clone(fits),
			func(c candidate) bool { return c.in != claimed }); len(kept) > 0 {
			fits = kept
			g.In = []Framework{claimed}
			if rank == 2 && g.Kind == Dense || rank == 2 && g.Kind == "" {
				g.In = sharing(Dense, claimed)
			}
			g.Certain, g.Why = Sure, claimWhy
		} else {
			g.against(claimed, outputs)
			if g.Against == "" { // without a bias it may be anything that this framework has
				g.In = []Framework{claimed}
				g.Certain, g.Why = Likely, claimWhy
			}
		}
	}
	kinds, found := map[Kind]bool{}, map[string]bool{}
	for _, c := range fits {
		kinds[c.kind], found[c.order] = true, true
	}
	if len(found) == 1 {
		g.Order = fits[0].order
		if g.Certain == Unknown {
			g.Certain, g.Why = Likely, "only "+g.Order+" fits "+shape
			if outputs > 0 {
				g.Certain = Sure
			}
		}
	} else {
		var texts []string
		for _, c := range fits {
			if !slices.Contains(texts, c.order) {
				texts = append(texts, c.order)
			}
		}
		g.Certain, g.Why = Unknown, strings.Join(texts, " and ")+" fit "+shape
		g.Tell = "the framework that wrote it (--from), or its module (--kind)"
	}
	if g.KindIs == Sure {
		g.Why += "; " + kindWhy
		return
	}
	g.kind(kinds, outputs, fits)
}

// kind says what an unnamed kernel is: a plain convolution where the bias leaves nothing else. A transposed or a
// depthwise one is never sure without a name: the shape of one with groups is that of another.
func (g *Judgement) kind(kinds map[Kind]bool, outputs int64, fits []candidate) {
	for _, k := range kindsOfRank[len(g.Shape)] {
		if kinds[k] {
			g.Kinds = append(g.Kinds, k)
		}
	}
	if len(kinds) != 1 {
		return
	}
	g.Kind, g.KindIs = fits[0].kind, Likely
	if outputs > 0 && (g.Kind == Conv1D || g.Kind == Conv2D || g.Kind == Conv3D || g.Kind == Dense) {
		g.KindIs = Sure
	}
}

// sharing are the frameworks that have the same order for a kind.
func sharing(kind Kind, as Framework) (same []Framework) {
	for _, f := range Frameworks {
		if Order(kind, f) == Order(kind, as) {
			same = append(same, f)
		}
	}
	return same
}

// against notes that a tensor cannot be what the file claims; without a bias beside it, it only seems so.
func (g *Judgement) against(claimed Framework, outputs int64) {
	if claimed != "" && (outputs > 0 || g.Twice) {
		g.Against = string(claimed)
	}
}

// twice says whether a shape of four dimensions has a small square kernel in two places in which no framework has it:
// OIHW to OHWI applied twice gives O W I H, OHWI to HWIO gives W I O H.
func twice(shape []int64) bool {
	for _, at := range [][2]int{{1, 3}, {0, 3}, {0, 2}} {
		k := shape[at[0]]
		if k != shape[at[1]] || k < 2 || k > 11 {
			continue
		}
		others := true
		for i, d := range shape {
			others = others && (i == at[0] || i == at[1] || d > 11)
		}
		if others {
			return true
		}
	}
	return false
}

// whole says what the file is, by its kernels and dense layers.
func (r *Report) whole(claimWhy string) {
	votes := map[Framework][]string{}
	left := slices.Clone(Frameworks)
	kernels, sure := 0, r.Claim != ""
	var twiceNamed, against []string
	for _, g := range r.Tensors {
		if g.Order == "-" || g.Order == "VE" {
			continue
		}
		if g.Twice {
			twiceNamed = append(twiceNamed, g.Name)
		}
		if g.Against != "" {
			against = append(against, g.Name)
		}
		if len(g.In) == 0 {
			continue
		}
		kernels++
		left = slices.DeleteFunc(left, func(f Framework) bool { return !slices.Contains(g.In, f) })
		if len(g.In) == 1 && g.Certain == Sure {
			votes[g.In[0]] = append(votes[g.In[0]], g.Name)
			sure = true
		}
	}
	switch {
	case len(twiceNamed) > 0:
		r.Verdict, r.Named = Twice, twiceNamed
		r.Why = "shapes that no framework has, and that a permutation applied twice gives"
	case kernels == 0 && len(against) == 0:
		r.Verdict, r.Layout, r.Why = None, r.Claim, "there is no kernel and no dense layer in it"
	case len(against) > 0 && len(against) < kernels || len(left) == 0:
		r.Verdict, r.Named = Mixed, against
		r.Why = "these are not in the layout of the others"
		if len(against) == 0 {
			r.Named, r.Why = minority(votes, r.Tensors)
		}
	case len(against) > 0 && len(left) == 1:
		r.Verdict, r.Layout = Converted, left[0]
		r.Why = fmt.Sprintf("%s, and all of its kernels are %s's", claimWhy, left[0])
	case r.Claim != "" && slices.Contains(left, r.Claim):
		r.Verdict, r.Layout, r.Why = One, r.Claim, claimWhy
	case len(left) == 1 && sure:
		r.Verdict, r.Layout = One, left[0]
		r.Why = fmt.Sprintf("%s and others fit no other framework", votes[left[0]][0])
		if len(votes[left[0]]) == 1 {
			r.Why = votes[left[0]][0] + " fits no other framework"
		}
	default:
		r.Verdict = Untold
		words := make([]string, len(left))
		for i, f := range left {
			words[i] = string(f)
		}
		r.Why = "the shapes fit " + strings.Join(words, " and ")
		if len(left) == 1 {
			r.Why += " alone, and shapes without a bias beside them are no proof"
		}
		r.Tell = "say which framework wrote it (--from), or write it with its metadata (format: pt, mlx)"
	}
}

// minority names the tensors that cannot be of the framework of which most can be; where as many can be of another,
// that of which more are certain.
func minority(votes map[Framework][]string, all []Judgement) (named []string, why string) {
	can := map[Framework]int{}
	for _, g := range all {
		for _, f := range g.In {
			if g.Order != "-" && g.Order != "VE" {
				can[f]++
			}
		}
	}
	most := Framework("")
	for _, f := range Frameworks {
		if can[f] > can[most] || can[f] == can[most] && len(votes[f]) > len(votes[most]) {
			most = f
		}
	}
	for _, g := range all {
		if g.Order != "-" && len(g.In) > 0 && !slices.Contains(g.In, most) {
			named = append(named, g.Name)
		}
	}
	return named, "most are " + string(most) + "'s, and these are not"
}

// Text is a shape as it is printed: (64, 3, 3, 3).
func Text(shape []int64) string {
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = fmt.Sprint(d)
	}
	return "(" + strings.Join(words, ", ") + ")"
}
