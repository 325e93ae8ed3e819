package golden

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Setting is one that differs between the two sides.
type Setting struct {
	Where string `json:"where"` // module of A, or "optimizer", "mode"
	What  string `json:"what"`
	A     string `json:"a"`
	B     string `json:"b"`
	Why   string `json:"why,omitempty"` // what it does to the numbers
}

// whys say what a difference does.
var whys = map[string]string{
	"epsilon":                  "it is added where a variance or a second moment is small",
	"momentum":                 "running statistics move at another pace",
	"padding":                  "edges are computed otherwise",
	"align_corners":            "resized pictures are moved by up to half a pixel",
	"rate":                     "another part is dropped",
	"bias_correction":          "without it the first steps of Adam are more than three times too long (MLX's default)",
	"epsilon_after_correction": "Keras adds epsilon before the bias correction, so that no constant makes both equal",
	"weight_decay":             "weights shrink otherwise",
	"decay_decoupled":          "decay goes through the moments on one side",
	"training":                 "dropout and batch norm compute otherwise",
}

// optimizerSettings are compared, in this order.
var optimizerSettings = []string{"class", "rate", "beta1", "beta2", "momentum", "epsilon", "bias_correction",
	"epsilon_after_correction", "weight_decay", "decay_decoupled"}

// settings that differ between paired modules and the optimizers. What one side does not tell is not compared.
func settings(a, b *Golden, modules map[string]string) []Setting {
	var found []Setting
	add := func(where, what string, x, y any) {
		found = append(found, Setting{where, what, said(x), said(y), whys[what]})
	}
	if a.Training != b.Training {
		add("mode", "training", a.Training, b.Training)
	}
	of := map[string]Module{}
	for _, m := range b.Modules {
		of[m.Module] = m
	}
	for _, m := range a.Modules {
		name, paired := modules[m.Module]
		other, known := of[name]
		if !paired || !known || m.Module == "" {
			continue
		}
		if m.Training != other.Training && a.Training == b.Training {
			add(m.Module, "training", m.Training, other.Training)
		}
		for _, what := range sortedKeys(m.Values) {
			x, y := m.Values[what], other.Values[what]
			if y == nil || what == "data_format" || sameSetting(what, x, y, m, other) {
				continue
			}
			add(m.Module, what, x, y)
		}
	}
	if !strings.EqualFold(fmt.Sprint(a.Optimizer["class"]), fmt.Sprint(b.Optimizer["class"])) {
		add("optimizer", "class", a.Optimizer["class"], b.Optimizer["class"])
	}
	for _, what := range optimizerSettings[1:] {
		x, y := a.Optimizer[what], b.Optimizer[what]
		if x == nil || y == nil {
			if other := firstNonNil(x, y); what != "weight_decay" || other == nil || number(other) == 0 {
				continue
			}
			x, y = orZero(x), orZero(y)
		}
		if !sameSetting(what, x, y, Module{}, Module{}) {
			add("optimizer", what, x, y)
		}
	}
	return found
}

// said is a value as it is shown: seven digits tell any float32 from another.
func said(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', 7, 64)
	}
	return fmt.Sprint(v)
}

func firstNonNil(values ...any) any {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func orZero(v any) any {
	if v == nil {
		return 0
	}
	return v
}

func number(v any) float64 {
	f, ok := v.(float64)
	if !ok {
		return math.NaN()
	}
	return f
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sameWords are words of one framework for those of another.
var sameWords = map[string]string{"linear": "bilinear", "precise": "tanh", "fast": "tanh", "False": "none",
	"false": "none", "True": "tanh", "true": "tanh"}

func sameSetting(what string, x, y any, a, b Module) bool {
	if s, ok := y.(string); ok && what == "padding" {
		return samePadding(x, s, a)
	}
	if s, ok := x.(string); ok && what == "padding" {
		return samePadding(y, s, b)
	}
	if (what == "mode" || what == "approximate") && fmt.Sprint(x) != fmt.Sprint(y) {
		word := func(v any) string {
			s := fmt.Sprint(v)
			if other, ok := sameWords[s]; ok {
				return other
			}
			return s
		}
		return word(x) == word(y)
	}
	p, q := numbers(x), numbers(y)
	if p == nil || q == nil {
		return fmt.Sprint(x) == fmt.Sprint(y)
	}
	for i := range max(len(p), len(q)) { // 1 is [1 1]
		one, other := p[min(i, len(p)-1)], q[min(i, len(q)-1)]
		if math.Abs(one-other) > 1e-6*max(math.Abs(one), math.Abs(other)) {
			return false
		}
	}
	return true
}

// samePadding says whether a number of rows is what a word means, for a module without a stride; with one "same" is
// uneven, and not compared.
func samePadding(rows any, word string, of Module) bool {
	n := numbers(rows)
	if n == nil {
		return fmt.Sprint(rows) == word
	}
	kernel, dilation := numbers(of.Values["kernel"]), numbers(of.Values["dilation"])
	stride := numbers(of.Values["stride"])
	for i := range n {
		want := 0.0
		switch {
		case word == "valid":
		case word != "same":
			return false
		case len(kernel) == 0 || len(stride) > 0 && stride[min(i, len(stride)-1)] != 1:
			return true
		default:
			d := 1.0
			if len(dilation) > 0 {
				d = dilation[min(i, len(dilation)-1)]
			}
			want = d * (kernel[min(i, len(kernel)-1)] - 1) / 2
		}
		if n[i] != want {
			return false
		}
	}
	return true
}

func numbers(v any) []float64 {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case bool:
		if v {
			return []float64{1}
		}
		return []float64{0}
	case []any:
		var all []float64
		for _, e := range v {
			f, ok := e.(float64)
			if !ok {
				return nil
			}
			all = append(all, f)
		}
		return all
	}
	return nil
}
