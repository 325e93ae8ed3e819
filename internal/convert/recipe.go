package convert

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/weights"
)

//go:embed recipes/*.toml
var recipeFiles embed.FS

// A Recipe says how the modules of networks of one kind are named in several files, and what each is. Of blocks that
// repeat, the file says how many there are: match.modules are those of one file.
type Recipe struct {
	Name   string
	About  string
	Forms  []Form
	Notes  []Note
	blocks []rowBlock // in the order in which Keras numbers their modules, where a form is numbered
}

// A rowBlock is rows of a recipe for each choice of its values.
type rowBlock struct {
	each []map[string]values
	rows [][]string
}

// values are what a letter in a block stands for. Those that are open go on from the last one for as long as the names
// of a file do.
type values struct {
	of   []int
	open bool
}

// A Form is one way of naming the modules.
type Form struct {
	Name      string
	Framework layout.Framework
	Source    string   // where the names were read
	Prefixes  []string // that a name may have before it
	// names are `layers/CLASS_N`, by class and order: Keras's .weights.h5 without the names of layers
	Numbered bool
	Groups   bool // names are groups of a .weights.h5, and not layers
}

// A Module is a row of a recipe.
type Module struct {
	Word     string     // conv2d, batchnorm ...: a key of moduleParts
	Names    [][]string // by form: none, one, or several that are slices of the others' outputs
	Flatten  []int64    // C H W of what a dense layer's input is flattened from; nil: none
	Optional bool       // may be missing: a top
}

// A Note is said where both forms meet, or either where one is "".
type Note struct {
	Between []string
	Text    string
	Refuse  bool // the two are not the same network
}

// A part is a tensor of a module: PyTorch's name for it (MLX's is the same) and Keras's.
type part struct {
	torch, keras string
	kernel       bool // of the module's kind, else a vector
}

var weightAndBias = []part{{torch: "weight", keras: "kernel", kernel: true}, {torch: "bias", keras: "bias"}}

// moduleParts are the tensors of a module in the order in which Keras numbers them, by the word of a recipe. Sources:
// torch.nn.modules, keras.layers (build), mlx.nn.layers.
var moduleParts = map[string][]part{
	"batchnorm": {{torch: "weight", keras: "gamma"}, {torch: "bias", keras: "beta"},
		{torch: "running_mean", keras: "moving_mean"}, {torch: "running_var", keras: "moving_variance"}},
	"layernorm": {{torch: "weight", keras: "gamma"}, {torch: "bias", keras: "beta"}},
	"embedding": {{torch: "weight", keras: "embeddings", kernel: true}},
	"plain":     {{kernel: true}},
	"drop":      {{kernel: true}},
}

// kerasClasses are the names by which Keras numbers the groups of a file.
var kerasClasses = map[string]string{"conv1d": "conv1d", "conv2d": "conv2d", "conv3d": "conv3d", "dense": "dense",
	"depthwise2d": "depthwise_conv2d", "batchnorm": "batch_normalization", "layernorm": "layer_normalization",
	"embedding": "embedding", "conv-transpose2d": "conv2d_transpose"}

func partsOf(word string, noBias bool) []part {
	if parts, ok := moduleParts[word]; ok {
		return parts
	}
	if noBias {
		return weightAndBias[:1]
	}
	return weightAndBias
}

// kindOf is the kind of a module's kernel.
func kindOf(word string) layout.Kind { return layout.Kind(word) }

// Recipes are those that are built in, by name.
var Recipes = sync.OnceValue(func() []*Recipe {
	names, err := fs.Glob(recipeFiles, "recipes/*.toml")
	if err != nil {
		panic(err)
	}
	var all []*Recipe
	for _, name := range names {
		text, err := recipeFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		r, err := parseRecipe(strings.TrimSuffix(path.Base(name), ".toml"), text)
		if err != nil {
			panic(fmt.Errorf("recipe %s: %w", name, err)) // it is built in, and a test reads each
		}
		all = append(all, r)
	}
	return all
})

// FindRecipe gives the recipe of a name; the error names those that there are.
func FindRecipe(name string) (*Recipe, error) {
	var names []string
	for _, r := range Recipes() {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return nil, fault.Hint(fmt.Errorf("there is no recipe %q", name), "there are: "+strings.Join(names, ", "))
}

// recipeFile is the form of a recipe in TOML. A row of a block is the module's word with its options, then a name for
// each form, "" where a form has none; several names, parted by " | ", are slices of the outputs. {x} in a name is the
// block's x, and {x+1} one more: x is "2", "0-3", "0,3,6", or "0-" for as many as a file has (at least one).
type recipeFile struct {
	About string
	Form  []struct {
		Name, Framework, Source string
		Prefixes                []string
		Numbered, Groups        bool
	}
	Block []struct {
		Each []map[string]string
		Rows [][]string
	}
	Note []struct {
		Between []string
		Text    string
		Refuse  bool
	}
}

func parseRecipe(name string, text []byte) (*Recipe, error) {
	var f recipeFile
	d := toml.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	r := &Recipe{Name: name, About: f.About}
	for _, n := range f.Note {
		r.Notes = append(r.Notes, Note(n))
	}
	named := 0
	for _, form := range f.Form {
		framework, ok := layout.ParseFramework(form.Framework)
		if !ok || form.Source == "" {
			return nil, fmt.Errorf("form %q: framework %q, source %q", form.Name, form.Framework, form.Source)
		}
		if !form.Numbered {
			named++
		}
		r.Forms = append(r.Forms, Form{form.Name, framework, form.Source, form.Prefixes, form.Numbered,
			form.Groups || form.Numbered})
	}
	for _, b := range f.Block {
		for _, row := range b.Rows {
			if len(row) != named+1 {
				return nil, fmt.Errorf("row %q has %d names for %d forms", row[0], len(row)-1, named)
			}
		}
		made := rowBlock{rows: b.Rows}
		for _, texts := range b.Each {
			each, err := parseEach(texts, named < len(f.Form))
			if err != nil {
				return nil, err
			}
			made.each = append(made.each, each)
		}
		if b.Each == nil {
			made.each = []map[string]values{nil}
		}
		r.blocks = append(r.blocks, made)
	}
	_, err := r.modules(nil)
	return r, err
}

// parseEach reads the values of a block's letters, of which one may be open: none where a form is numbered, since
// the file that has it says nothing of what repeats.
func parseEach(texts map[string]string, numbered bool) (map[string]values, error) {
	each, open := map[string]values{}, 0
	for letter, text := range texts {
		var v values
		for span := range strings.SplitSeq(text, ",") {
			low, high, ranged := strings.Cut(span, "-")
			first, err := strconv.Atoi(low)
			if err != nil || v.open {
				return nil, fmt.Errorf("%s = %q is no range", letter, text)
			}
			last := first
			switch {
			case ranged && high == "":
				v.open = true
				open++
			case ranged:
				if last, err = strconv.Atoi(high); err != nil || last < first {
					return nil, fmt.Errorf("%s = %q is no range", letter, text)
				}
			}
			for n := first; n <= last; n++ {
				v.of = append(v.of, n)
			}
		}
		each[letter] = v
	}
	if open > 1 || open == 1 && numbered {
		return nil, fmt.Errorf("%v has more than one that is open, or one beside a form that is numbered", texts)
	}
	return each, nil
}

// product gives each choice of values.
func product(each map[string]values) func(func(map[string]int) bool) {
	letters := slices.Sorted(maps.Keys(each))
	return func(yield func(map[string]int) bool) {
		chosen := map[string]int{}
		var choose func(i int) bool
		choose = func(i int) bool {
			if i == len(letters) {
				return yield(maps.Clone(chosen))
			}
			for _, v := range each[letters[i]].of {
				chosen[letters[i]] = v
				if !choose(i + 1) {
					return false
				}
			}
			return true
		}
		choose(0)
	}
}

// modules are those of a network whose blocks that repeat end where last says; nil: after the first.
func (r *Recipe) modules(last func(row []string, each map[string]values, letter string) int) ([]Module, error) {
	var all []Module
	for _, b := range r.blocks {
		for _, each := range b.each {
			for letter, v := range each {
				if !v.open {
					continue
				}
				end := v.of[len(v.of)-1]
				for _, row := range b.rows {
					if last != nil {
						end = max(end, last(row, each, letter))
					}
				}
				each = maps.Clone(each)
				for n := v.of[len(v.of)-1] + 1; n <= end; n++ {
					v.of = append(slices.Clip(v.of), n)
				}
				each[letter] = v
			}
			for chosen := range product(each) {
				for _, row := range b.rows {
					m, err := r.module(row, chosen)
					if err != nil {
						return nil, fmt.Errorf("row %q: %w", row, err)
					}
					all = append(all, m)
				}
			}
		}
	}
	return all, r.number(all)
}

func (r *Recipe) module(row []string, chosen map[string]int) (Module, error) {
	words := strings.Fields(row[0])
	m := Module{Word: words[0]}
	for _, option := range words[1:] {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "optional":
			m.Optional = true
		case "no-bias":
			m.Word += " no-bias"
		case "flatten":
			extent, err := ParseExtent(value)
			if err != nil {
				return m, err
			}
			m.Flatten = extent
		default:
			return m, fmt.Errorf("no option %q", option)
		}
	}
	at := 1
	for _, form := range r.Forms {
		var names []string
		if !form.Numbered {
			for name := range strings.SplitSeq(row[at], " | ") {
				if name != "" {
					filled, err := fill(name, chosen)
					if err != nil {
						return m, err
					}
					names = append(names, filled)
				}
			}
			at++
		}
		m.Names = append(m.Names, names)
	}
	return m, nil
}

// fill puts values into {x} and {x+1}.
func fill(name string, chosen map[string]int) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(name, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inside, after, _ := strings.Cut(rest, "}")
		if inside == "part" { // key fills it
			b.WriteString("<part>")
			name = after
			continue
		}
		letter, more, _ := strings.Cut(inside, "+")
		value, known := chosen[letter]
		if !known {
			return "", fmt.Errorf("{%s}: no such value", inside)
		}
		if more != "" {
			n, err := strconv.Atoi(more)
			if err != nil {
				return "", err
			}
			value += n
		}
		b.WriteString(strconv.Itoa(value))
		name = after
	}
}

// number fills the names of numbered forms: by class, in the order of the modules that the form before it has.
func (r *Recipe) number(modules []Module) error {
	for at, form := range r.Forms {
		if !form.Numbered {
			continue
		}
		if at == 0 {
			return fmt.Errorf("form %q is numbered and has none before it", form.Name)
		}
		count := map[string]int{}
		for i := range modules {
			m := &modules[i]
			if len(m.Names[at-1]) == 0 {
				continue
			}
			class, known := kerasClasses[m.word()]
			if !known {
				return fmt.Errorf("form %q: Keras's class of %q is not known", form.Name, m.Word)
			}
			group := "layers/" + class
			if n := count[class]; n > 0 {
				group += "_" + strconv.Itoa(n)
			}
			count[class]++
			m.Names[at] = []string{group}
		}
	}
	return nil
}

func (m Module) word() string { word, _, _ := strings.Cut(m.Word, " "); return word }

func (m Module) parts() []part { return partsOf(m.word(), strings.HasSuffix(m.Word, " no-bias")) }

// key is the name of a part of a module in a form; {part} in a recipe's name, here <part>, stands where it goes.
func key(form Form, module string, p part) string {
	name, separator := p.torch, "."
	if form.Framework == layout.Keras {
		name, separator = p.keras, "/"
	}
	switch {
	case p.torch == "" && p.keras == "": // the name is the tensor's
		return module
	case strings.Contains(module, "<part>"):
		return strings.Replace(module, "<part>", name, 1)
	}
	return module + separator + name
}

// ParseExtent reads 512x7x7: channels, height and width.
func ParseExtent(text string) ([]int64, error) {
	var extent []int64
	for word := range strings.SplitSeq(text, "x") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 1 || len(extent) == 4 {
			return nil, fmt.Errorf("%q is no channels × height × width, as 512x7x7", text)
		}
		extent = append(extent, n)
	}
	if len(extent) < 2 {
		return nil, fmt.Errorf("%q is no channels × height × width, as 512x7x7", text)
	}
	return extent, nil
}

// A match is a recipe and the form in which a file has it.
type match struct {
	recipe  *Recipe
	modules []Module
	form    int
	prefix  string
	found   map[string]weights.Tensor // by key of the form
	hits    int
	wanted  int
}

// findForm is the form that fits a file best, of one recipe or of all; nil where less than six tenths of what a form
// needs is there. Numbers are the names of any network: a numbered form is one only where its recipe was asked for.
func findForm(f *weights.File, among []*Recipe) *match {
	var best *match
	for _, r := range among {
		for at, form := range r.Forms {
			if form.Numbered && len(among) > 1 {
				continue
			}
			for _, prefix := range append([]string{"", "module.", "_orig_mod."}, form.Prefixes...) {
				if prefix != "" && (form.Framework == layout.Keras || !prefixed(f, prefix)) {
					continue
				}
				m := &match{recipe: r, form: at, prefix: prefix, found: keyed(f, form, prefix)}
				m.repeat()
				for _, module := range m.modules {
					if module.Optional || module.word() == "drop" {
						continue
					}
					for _, name := range module.Names[at] {
						for i, p := range module.parts() {
							m.wanted++
							if _, ok := m.lookup(name, p, i); ok {
								m.hits++
							}
						}
					}
				}
				if m.hits*10 < m.wanted*6 || m.wanted == 0 {
					continue
				}
				if best == nil || m.hits > best.hits || m.hits == best.hits && m.wanted < best.wanted {
					best = m
				}
			}
		}
	}
	return best
}

func prefixed(f *weights.File, prefix string) bool {
	return slices.ContainsFunc(f.Tensors, func(t weights.Tensor) bool { return strings.HasPrefix(t.Name, prefix) })
}

// lookup finds a part of a module, the i-th by Keras's count.
func (m *match) lookup(module string, p part, i int) (weights.Tensor, bool) {
	form := m.recipe.Forms[m.form]
	name := key(form, module, p)
	if t, ok := m.found[name]; ok || form.Framework != layout.Keras {
		return t, ok
	}
	if t, ok := m.found[module+"/#"+strconv.Itoa(i)]; ok {
		return t, ok
	}
	// DepthwiseConv2D calls its kernel so in Keras 2
	t, ok := m.found[module+"/depthwise_"+p.keras]
	return t, ok
}

// keyed are the tensors of a file by the keys that a form has for them.
func keyed(f *weights.File, form Form, prefix string) map[string]weights.Tensor {
	found := map[string]weights.Tensor{}
	for _, t := range f.Tensors {
		if form.Framework != layout.Keras {
			if name, ok := strings.CutPrefix(t.Name, prefix); ok {
				found[name] = t
			}
			continue
		}
		found[kerasKey(f, t.Name, form.Groups)] = t
	}
	return found
}
