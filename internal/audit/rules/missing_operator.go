package rules

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
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
	}, Calls: asks(either(under("torch."), isThirdParty), mpsOnly(runMissingOperator))}

// thirdParty are functions of other libraries and the operators that they reach whatever their arguments; sources: the
// libraries' own code.
var thirdParty = map[string][]string{
	"torchvision.ops.deform_conv2d":      {"torchvision::deform_conv2d"},
	"torchvision.ops.DeformConv2d":       {"torchvision::deform_conv2d"},
	"torchvision.ops.nms":                {"torchvision::nms"},
	"torchvision.ops.batched_nms":        {"torchvision::nms"},
	"torchvision.ops.roi_align":          {"torchvision::roi_align"},
	"torchvision.ops.RoIAlign":           {"torchvision::roi_align"},
	"torchvision.ops.MultiScaleRoIAlign": {"torchvision::roi_align"},
	"torchvision.ops.roi_pool":           {"torchvision::roi_pool"},
	"torchvision.ops.RoIPool":            {"torchvision::roi_pool"},
	"torchvision.ops.ps_roi_align":       {"torchvision::ps_roi_align"},
	"torchvision.ops.PSRoIAlign":         {"torchvision::ps_roi_align"},
	"torchvision.ops.ps_roi_pool":        {"torchvision::ps_roi_pool"},
	"torchvision.ops.PSRoIPool":          {"torchvision::ps_roi_pool"},
	"torchaudio.functional.lfilter":      {"torchaudio::_lfilter"},
	"torchaudio.functional.forced_align": {"torchaudio::forced_align"},
	"torchaudio.functional.rnnt_loss":    {"torchaudio::rnnt_loss_forward"},
	"torchaudio.transforms.RNNTLoss":     {"torchaudio::rnnt_loss_forward"},
	"torch.nn.EmbeddingBag":              {"aten::_embedding_bag"}, // torch/nn/modules/sparse.py
	"torch.nn.functional.embedding_bag":  {"aten::_embedding_bag"},
	// torch/distributions/*.py
	"torch.distributions.Gamma.sample":           {"aten::_standard_gamma"},
	"torch.distributions.Gamma.rsample":          {"aten::_standard_gamma"},
	"torch.distributions.Chi2.sample":            {"aten::_standard_gamma"},
	"torch.distributions.Chi2.rsample":           {"aten::_standard_gamma"},
	"torch.distributions.StudentT.sample":        {"aten::_standard_gamma"},
	"torch.distributions.StudentT.rsample":       {"aten::_standard_gamma"},
	"torch.distributions.InverseGamma.sample":    {"aten::_standard_gamma"},
	"torch.distributions.InverseGamma.rsample":   {"aten::_standard_gamma"},
	"torch.distributions.FisherSnedecor.rsample": {"aten::_standard_gamma"},
	"torch.distributions.Dirichlet.sample":       {"aten::_sample_dirichlet"},
	"torch.distributions.Dirichlet.rsample":      {"aten::_sample_dirichlet"},
	"torch.distributions.Beta.sample":            {"aten::_sample_dirichlet"},
	"torch.distributions.Beta.rsample":           {"aten::_sample_dirichlet"},
	"torch.distributions.Poisson.sample":         {"aten::poisson"},
	"torch.distributions.Binomial.sample":        {"aten::binomial"},
	"mmcv.ops.deform_conv2d":                     {"mmcv::deform_conv"},
	"torch_scatter.scatter":                      {"torch_scatter::scatter"},
	"torch_geometric.nn.pool.fps":                {"torch_cluster::fps"},
	"detectron2.layers.deform_conv":              {"detectron2::deform_conv"},
	"detectron2.layers.ModulatedDeformConv":      {"detectron2::modulated_deform_conv"},
}

func isThirdParty(path string) bool {
	_, known := thirdParty[strings.TrimSuffix(path, ".__call__")]
	return known
}

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
	if p.In("torch.no_grad", "torch.inference_mode") == nil && (strings.HasPrefix(path, "torch.nn.") || inForward(p)) {
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

// certain reports that a call reaches the operator that the traces saw for some inputs only, by its arguments.
func certain(c *abstract.Call, path string) bool {
	switch path {
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

func hintMissing(p *audit.Pass, ops []string) string {
	from := ""
	for _, op := range ops {
		o, known := p.Target.Atlas.Operator(op)
		if !known {
			return "run this call on the CPU, or write it with other operators"
		}
		n := o.NativeFrom()
		if n == "" {
			return fmt.Sprintf("no release up to torch %s has it: run this call on the CPU, or write it with other "+
				"operators", newest(p.Target.Atlas))
		}
		if from == "" || atlas.CompareReleases(n, from) > 0 {
			from = n
		}
	}
	return fmt.Sprintf("torch %s and later have it; or run this call on the CPU", from)
}

func newest(a *atlas.Atlas) string {
	r := a.Releases("torch")
	return r[len(r)-1].Version
}

// lacking lists the operators that a Python name comes down to and MPS lacks: whatever its inputs, for some of them,
// and backward.
func lacking(p *audit.Pass, path string) (missing, sometimes, backward []string) {
	if ops, known := thirdParty[path]; known && ops != nil {
		for _, name := range ops {
			op, there := p.Target.Atlas.Operator(name)
			if !there {
				missing = append(missing, name)
				continue
			}
			r, ok := p.Target.Atlas.Beside(op.Package, p.Target.Torch.Version)
			if s := op.At(r.Column); ok && (s == atlas.Missing || s == atlas.NoStub) {
				missing = append(missing, name)
			}
		}
		return
	}
	forward, back, ok := p.Operators(path)
	if !ok { // a name that was not traced, and that an operator of the same name stands behind
		if o, known := p.Target.Atlas.Operator(namesake(path)); known {
			if s := o.At(p.Target.Torch.Column); s == atlas.Missing || s == atlas.NoStub {
				missing = append(missing, namesake(path))
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
