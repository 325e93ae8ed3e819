package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/layout"
	"assay/internal/weights"
)

// byKind plans a file that no recipe knows: by rules of the user's, and by kinds that are certain.
func (p *Plan) byKind(report layout.Report) {
	shapes := map[string][]int64{}
	kernels := 0
	for _, t := range p.file.Tensors {
		shapes[t.Name] = t.Shape
	}
	for _, g := range report.Tensors {
		if len(g.Shape) >= 3 && g.Kind != layout.Plain {
			kernels++
		}
	}
	p.recurrent()
	for i, t := range p.file.Tensors {
		if p.taken[t.Name] {
			continue
		}
		g := report.Tensors[i]
		kind, why := g.Kind, g.Why
		var flatten []int64
		if rule := find(p.opts.Kinds, t.Name); rule != nil {
			word, multiple, _ := ParseKind(rule.Value)
			if told, ok := layout.ParseKind(word, len(t.Shape)); ok && (told != layout.Plain || len(t.Shape) > 1) {
				kind, why, rule.used = told, "--kind "+rule.Pattern+"="+rule.Value, true
				g.KindIs, g.Certain = layout.Sure, layout.Sure
				if multiple > 1 {
					flatten = []int64{multiple}
				}
			}
		}
		flat := find(p.opts.Flatten, t.Name)
		if flat != nil && len(t.Shape) == 2 {
			flat.used = true
			kind, why, g.KindIs, g.Certain = layout.Dense, "--flatten "+flat.Pattern+"="+flat.Value, layout.Sure,
				layout.Sure
			extent, err := ParseExtent(flat.Value)
			if err != nil {
				p.Refused = append(p.Refused, Unmade{Name: t.Name, Why: err.Error()})
				continue
			}
			flatten = extent
		}
		if u, refused := p.uncertain(t, g, kind, kernels, strings.HasPrefix(why, "--")); refused {
			p.Refused = append(p.Refused, u)
			continue
		}
		if kind == "" { // the same permutation whichever it is
			kind = anyKind(len(t.Shape))
		}
		p.add([]weights.Tensor{t}, []piece{{t, 0, t.Bytes}}, t.Shape, p.rename(t, kind, shapes), kind, flatten, why)
	}
}

// ParseKind reads what --kind says a tensor is: one of layout.Kinds; depthwise:2 has two outputs for each input.
func ParseKind(text string) (word string, multiple int64, err error) {
	word, number, many := strings.Cut(text, ":")
	multiple = 1
	if many {
		multiple, err = strconv.ParseInt(number, 10, 64)
	}
	if !slices.Contains(layout.Kinds(), word) || many && (err != nil || multiple < 1 || word != "depthwise") {
		return "", 0, fmt.Errorf("%q is no kind", text)
	}
	return word, multiple, nil
}

// anyKind stands for those that are permuted alike.
func anyKind(rank int) layout.Kind {
	return map[int]layout.Kind{2: layout.Dense, 3: layout.Conv1D, 4: layout.Conv2D, 5: layout.Conv3D}[rank]
}

// uncertain says whether a tensor's kind is not known well enough to convert it, and what would tell.
func (p *Plan) uncertain(t weights.Tensor, g layout.Judgement, kind layout.Kind, kernels int,
	told bool) (Unmade, bool) {
	quoted := "--kind '" + t.Name + "="
	u := Unmade{Name: t.Name}
	rank := len(t.Shape)
	switch {
	case p.From == p.To || rank < 2:
		return u, false
	case gates(t.Name):
		u.Why = "it holds gates, whose order and biases differ between frameworks, and is of no layer that is known"
		u.Tell = "nn.LSTM, nn.GRU and nn.RNN are converted, and Keras's and MLX's; " + quoted + "plain' copies it"
		return u, !told
	case told:
		return u, false
	case g.Against != "":
		u.Why = g.Why + ": that is not " + g.Against + "'s"
		u.Tell = quoted + "dense-in-out', if that is what it is"
		return u, true
	case rank == 2 && kernels > 0 && kind != layout.Embedding && (p.From == layout.Torch) != (p.To == layout.Torch):
		u.Why = "a dense layer behind a flatten is permuted too, and nothing in the file says whether it is one"
		u.Tell = "--flatten '" + t.Name + "=CxHxW' if it is, " + quoted + "dense' if not"
		return u, true
	case rank == 2 && strings.Contains(t.Name, "c_attn") || strings.Contains(t.Name, "c_proj.") ||
		strings.Contains(t.Name, "c_fc."):
		u.Why, u.Tell = "transformers keeps layers of this name as in × out", quoted+"dense-in-out' or "+quoted+"dense'"
		return u, true
	case g.KindIs == layout.Sure:
		return u, false
	case rank == 2 && layout.Order(layout.Dense, p.From) == layout.Order(layout.Dense, p.To),
		rank > 2 && p.alike(g.Kinds): // one of two dimensions may be a table, or a parameter
		return u, false
	case kind != "" && g.KindIs == layout.Likely:
		u.Why = fmt.Sprintf("it may be a %s, and that is not certain: %s", kind, g.Why)
	default:
		u.Why = "its kind is not known: " + g.Why
	}
	word := "dense' or embedding"
	if rank >= 3 {
		word = "conv', conv-transpose, depthwise or plain"
	}
	u.Tell = quoted + word + "; the code of the module tells"
	return u, true
}

// gates says whether a name is one of PyTorch's or Keras's recurrent layers.
func gates(name string) bool {
	last := name[strings.LastIndexAny(name, "./")+1:]
	return strings.HasPrefix(last, "weight_ih") || strings.HasPrefix(last, "weight_hh") ||
		strings.HasPrefix(last, "bias_ih") || strings.HasPrefix(last, "bias_hh") || last == "recurrent_kernel"
}

// alike says whether a kernel is permuted in the same way whichever of these it is: a plain convolution and a depthwise
// one between PyTorch and MLX.
func (p *Plan) alike(kinds []layout.Kind) bool {
	for _, k := range kinds {
		if layout.Shown(k, p.From) != layout.Shown(kinds[0], p.From) ||
			layout.Shown(k, p.To) != layout.Shown(kinds[0], p.To) {
			return false
		}
	}
	return len(kinds) > 0
}

// rename gives a name of one framework's in another: PyTorch's and MLX's are the same.
func (p *Plan) rename(t weights.Tensor, kind layout.Kind, shapes map[string][]int64) string {
	keras := p.From == layout.Keras
	if keras == (p.To == layout.Keras) {
		return t.Name
	}
	if keras {
		name := kerasKey(p.file, t.Name, false)
		at := strings.LastIndex(name, "/")
		stem, last := strings.ReplaceAll(name[:max(at, 0)], "/", "."), name[at+1:]
		i := slices.Index([]string{"kernel", "depthwise_kernel", "embeddings", "gamma", "#0"}, last)
		switch {
		case i >= 0:
			last = "weight"
		case last == "beta", last == "#1":
			last = "bias"
		case last == "moving_mean", last == "#2":
			last = "running_mean"
		case last == "moving_variance", last == "#3":
			last = "running_var"
		}
		return strings.TrimPrefix(stem+"."+last, ".")
	}
	at := strings.LastIndex(t.Name, ".")
	if at < 0 {
		return t.Name
	}
	stem, last := t.Name[:at], t.Name[at+1:]
	weight, hasWeight := shapes[stem+".weight"]
	norm := hasWeight && len(weight) == 1
	switch {
	case last == "weight" && kind == layout.Embedding:
		last = "embeddings"
	case last == "weight" && len(t.Shape) == 1:
		last = "gamma"
	case last == "weight":
		last = "kernel"
	case last == "bias" && norm:
		last = "beta"
	case last == "running_mean":
		last = "moving_mean"
	case last == "running_var":
		last = "moving_variance"
	}
	return strings.ReplaceAll(stem, ".", "/") + "/" + last
}
