package rules

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/facts"
)

// MissingOperator is about operators that MPS does not have in the release aimed at.
var MissingOperator = &audit.Rule{Name: "missing-operator", Title: "an operator that MPS does not have",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "PyTorch's MPS backend has no kernel for an operator that this call comes down to, in the release aimed at. " +
			"It raises NotImplementedError, or runs " +
			"on the CPU where PYTORCH_ENABLE_MPS_FALLBACK=1 is set, with a copy there and back.",
		Bad:    "x = torch.randn(4, 4, device=\"mps\")\nvalues = torch.linalg.eigvals(x)\n",
		Good:   "x = torch.randn(4, 4, device=\"mps\")\nvalues = torch.linalg.eigvals(x.cpu())\n",
		Source: "the atlas: `assay ops --api NAME` shows the operators",
	}, Calls: asks(under(atlas.Libraries...), mpsOnly(runMissingOperator))}

func runMissingOperator(p *audit.Pass, c *abstract.Call) {
	path := trimCall(c.Path)
	made := path != c.Path
	where := tensorsOf(c)
	if where == 0 || where.Surely(abstract.OnCPU) || where.Surely(abstract.OnCUDA) || where.Surely(abstract.OnOther) {
		if where != 0 || !deviceArgument(c) {
			return
		}
		where = c.Arg(-1, "device").Where
	}
	if where&(abstract.OnMPS|abstract.Open) == 0 {
		return
	}
	// the traces have the one with a reduction, which is another operator
	if path == "torch.sparse.mm" && c.Arg(2, "reduce") == nil {
		return
	}
	missing, sometimes, backward := lacking(p, path)
	if mode := upsampling(c, path); mode != "" {
		sometimes = slices.DeleteFunc(sometimes, func(op string) bool {
			return !strings.Contains(op,
				"upsample_"+mode) || strings.HasSuffix(op, "_aa")
		})
		backward = slices.DeleteFunc(backward, func(op string) bool {
			return !strings.Contains(op, "upsample_"+mode) ||
				strings.Contains(op, "_aa")
		})
		if !isTrue(c.Arg(-1, "antialias")) {
			missing, sometimes = append(missing, sometimes...), nil
		}
	}
	if !padded(c, path) {
		sometimes = slices.DeleteFunc(sometimes,
			func(op string) bool { return op == "aten::_nested_tensor_from_mask_left_aligned" })
	}
	if len(missing) == 0 && certain(c, path) {
		missing, sometimes = sometimes, nil
	}
	if len(missing) == 0 && len(sometimes) > 0 {
		if where.Surely(abstract.OnMPS) || made {
			reportMissing(p, c, made, false, sometimes, "for some inputs ")
		}
		return
	}
	if len(missing) == 0 && len(backward) == 0 {
		return
	}
	sure := where.Surely(abstract.OnMPS) && !(c.Self != nil && c.Self.Soft) && !softArguments(c)
	if len(missing) > 0 {
		reportMissing(p, c, made, sure, missing, "")
		return
	}
	// layers: elsewhere few gradients are asked for
	if p.In("torch.no_grad", "torch.inference_mode") == nil && (strings.HasPrefix(path, "torch.nn.") || inForward(p) ||
		graded(c)) {
		reportMissing(p, c, made, false, backward, "in the backward pass ")
	}
}

// upsampling is the kind of interpolation where a call names one that stands for one operator.
func upsampling(c *abstract.Call, path string) string {
	var v *abstract.Value
	switch {
	case path == "torch.nn.functional.interpolate":
		v = c.Arg(3, "mode")
	case path == "torch.nn.Upsample" && c.Self != nil && c.Self.Made != nil:
		v = c.Self.Made.Arg(2, "mode")
	}
	if v == nil || v.Kind != abstract.Str || v.Soft || v.Text != "bilinear" && v.Text != "bicubic" &&
		v.Text != "trilinear" {
		return ""
	}
	return v.Text
}

// padded reports that a Transformer may be given a padding mask: its encoder then asks, in eval, whether that is
// left-aligned, before it asks for the device (torch/nn/modules/transformer.py).
func padded(c *abstract.Call, path string) bool {
	position := map[string]int{"torch.nn.TransformerEncoder": 2, "torch.nn.Transformer": 5}
	at, is := position[path]
	return !is || c.Open || c.Arg(at, "src_key_padding_mask") != nil
}

// certain reports that a call reaches the operator that the traces saw for some inputs only, by its arguments.
func certain(c *abstract.Call, path string) bool {
	switch path {
	case "torch.nn.EmbeddingBag", "torch.nn.functional.embedding_bag": // one kernel with a gradient, another without
		return true
	case "torch.nn.AdaptiveAvgPool3d", "torch.nn.functional.adaptive_avg_pool3d": // a size of 1 is a mean
		size := c.Arg(1, "output_size")
		if path == "torch.nn.AdaptiveAvgPool3d" {
			if c.Self == nil || c.Self.Made == nil {
				return false
			}
			size = c.Self.Made.Arg(0, "output_size")
		}
		if n, ok := number(size); ok {
			return n != 1
		}
		if size != nil && size.Kind == abstract.Seq {
			for _, i := range size.Items {
				if n, ok := number(i); ok && n != 1 {
					return true
				}
			}
		}
	}
	return false
}

func deviceArgument(c *abstract.Call) bool {
	d := c.Arg(-1, "device")
	return d != nil && d.Kind == abstract.Device
}

func reportMissing(p *audit.Pass, c *abstract.Call, made, sure bool, ops []string, when string) {
	name := c.Path
	at := c.At
	if made { // a module: what to change is where it was made
		name = strings.TrimSuffix(name, ".__call__")
		if m := c.Self.Made; m != nil && m.Node != nil && p.Owns(m) {
			at = m.At
		}
	}
	short := strings.TrimPrefix(strings.TrimPrefix(name, "torch.nn.functional."), "torch.")
	text := fmt.Sprintf("%s %suses %s, which MPS does not have in torch %s", short, when, strings.Join(ops, " and "),
		p.Target.Torch.Version)
	if !sure && when == "" {
		text += ", if it runs there"
	}
	p.Report(at, audit.Finding{Sure: sure, Text: text, Hint: hintMissing(p, ops), Source: "assay ops --api " + name})
}

// hintMissing names the release that has all of the operators, and none in which one of them is known to be wrong,
// where there is such a one.
func hintMissing(p *audit.Pass, ops []string) string {
	a := p.Target.Atlas
	var at facts.Upgrade // the latest that is needed
	wrong := ""
	for _, op := range ops {
		u, known := facts.Load().Upgrade(a, op)
		switch {
		case !known:
			return "run this call on the CPU, or write it with other operators"
		case u.Runs == "":
			of := a.Releases(u.Package)
			return fmt.Sprintf("no release up to %s %s has it: run this call on the CPU, or write it with other "+
				"operators", u.Package, atlas.Series(of[len(of)-1].Version))
		case u.Sound == "":
			wrong, u.Sound = u.Wrong[0].Wrong, u.Runs
		}
		if at.Sound == "" || atlas.CompareReleases(u.Torch, at.Torch) > 0 {
			at = u
		}
	}
	hint := fmt.Sprintf("%s %s and later have it", at.Package, atlas.Series(at.Sound))
	if wrong != "" {
		hint += ", with a known wrong result (" + wrong + ")"
	}
	return hint + "; or run this call on the CPU"
}

// lacking lists the operators that a Python name comes down to and MPS lacks: whatever its inputs, for some of them,
// and backward.
func lacking(p *audit.Pass, path string) (missing, sometimes, backward []string) {
	forward, back, ok := p.Operators(path)
	if !ok { // a name that was not traced, and that an operator of the same name stands behind
		name := p.Namesake(path)
		if direct, is := strings.CutPrefix(path, "torch.ops.aten."); is {
			name = "aten::" + direct
		}
		if o, known := p.Target.Atlas.Operator(name); known {
			if s := o.At(p.Target.Torch.Column); s == atlas.Missing || s == atlas.NoStub {
				missing = append(missing, name)
			}
		}
		return
	}
	lists := 0
	for _, n := range forward {
		if strings.HasPrefix(n.Operator, "aten::_foreach") && !strings.Contains(path, "foreach") {
			// for lists of tensors
			lists++
			continue
		}
		if n.State != atlas.Missing && n.State != atlas.NoStub {
			continue
		}
		if n.Sometimes {
			sometimes = append(sometimes, n.Operator)

		} else {
			missing = append(missing, n.Operator)
		}
	}
	if len(missing) == 0 && len(sometimes) > 0 && len(sometimes) == len(forward)-lists { // whichever way it takes
		missing, sometimes = sometimes, nil
	}
	for _, n := range back {
		if (n.State == atlas.Missing || n.State == atlas.NoStub) && !n.Sometimes {
			backward = append(backward, n.Operator)
		}
	}
	return
}
