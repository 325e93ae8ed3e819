package atlas

import (
	"slices"
	"strings"
	"testing"
)

// TestPlainNames: a function's plain name has the plain operator, and nothing of torch._foreach_*, whose functions go
// by the same names inside PyTorch's databases (74 names were said to be missing in 2.3).
func TestPlainNames(t *testing.T) {
	a := &Atlas{}
	for _, name := range a.APIs() {
		api, _ := a.API(name)
		if strings.Contains(name, "_foreach") || !strings.HasPrefix(name, "torch.") || a.Namesake(name) == "" {
			continue
		}
		for _, c := range slices.Concat(api.Forward, api.Backward) {
			if strings.Contains(c.Operator, "_foreach") {
				t.Errorf("%s calls %s", name, c.Operator)
			}
		}
	}
	release, err := a.Release("torch", "2.3")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("abs add addcdiv addcmul ceil cos div erf exp floor frac lerp log max " +
		"maximum mul neg pow reciprocal sigmoid sign sin sqrt sub tan tanh trunc") {
		api, ok := a.API("torch." + name)
		if !ok {
			t.Errorf("torch.%s is not known", name)
		}
		needs, untraced := a.Needs(release, api.Forward)
		for _, n := range needs {
			if n.State != Native {
				t.Errorf("torch.%s in 2.3: %s is %s", name, n.Operator, n.State)
			}
		}
		if len(untraced) > 0 {
			t.Errorf("torch.%s: not known what %v call", name, untraced)
		}
	}
}

// TestSpellings: a name is found as people write it.
func TestSpellings(t *testing.T) {
	a := &Atlas{}
	for spelt, want := range map[string]string{
		"torch.optim.AdamW": "torch.optim.AdamW.step", "optim.AdamW": "torch.optim.AdamW.step",
		"AdamW": "torch.optim.AdamW.step", "torch.optim.adamw.AdamW": "torch.optim.AdamW.step",
		"F.interpolate": "torch.nn.functional.interpolate", "interpolate": "torch.nn.functional.interpolate",
		"torch.nn.modules.conv.Conv3d": "torch.nn.Conv3d", "nn.modules.conv.Conv3d": "torch.nn.Conv3d",
		"torchvision.ops.nms": "torchvision.ops.nms", "torchvision.ops.boxes.nms": "torchvision.ops.nms",
		"torchaudio.functional.lfilter": "torchaudio.functional.lfilter", "Tensor.add_": "torch.Tensor.add_",
		"torchvision.ops.RoIAlign":                   "torchvision.ops.RoIAlign",
		"torch.distributions.Gamma.rsample":          "torch.distributions.Gamma.rsample",
		"torchaudio.functional.functional.rnnt_loss": "torchaudio.functional.rnnt_loss",
	} {
		if api, ok := a.API(spelt); !ok || api.Name != want {
			t.Errorf("%s: %q, %v", spelt, api.Name, ok)
		}
	}
	for _, spelt := range []string{"torch.optim.Nothing", "torch.nn.Modules.conv.Conv3d", "conv.Conv3d", ""} {
		if api, ok := a.API(spelt); ok {
			t.Errorf("%s: %q", spelt, api.Name)
		}
	}
	for spelt, want := range map[string]string{
		"aten.add.Tensor": "aten::add.Tensor", "torch.ops.aten.add.Tensor": "aten::add.Tensor",
		"torch.ops.aten.abs.default": "aten::abs", "torch.ops.torchvision.nms": "torchvision::nms",
		"torchvision.roi_align": "torchvision::roi_align", "torch.ops.aten.sgn.out": "aten::sgn.out",
	} {
		if found := a.Named(spelt); len(found) != 1 || found[0].Name != want {
			t.Errorf("%s finds %d", spelt, len(found))
		}
	}
	if found := a.Named("torch.ops.aten.add"); len(found) < 3 {
		t.Errorf("a packet has its overloads: %d", len(found))
	}
	names := func(list []API) (names []string) {
		for _, api := range list {
			names = append(names, api.Name)
		}
		return names
	}
	if got := names(a.MatchAPIs("nn.Conv?d")); !slices.Equal(got,
		[]string{"torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d"}) {
		t.Errorf("nn.Conv?d: %v", got)
	}
	if got := names(a.MatchAPIs("torchvision.ops.*roi*")); !slices.Contains(got, "torchvision.ops.ps_roi_pool") {
		t.Errorf("%v", got)
	}
	if got := names(a.Ways("torch.optim.AdamW.step")); !slices.Equal(got,
		[]string{"torch.optim.AdamW.step(foreach=True)", "torch.optim.AdamW.step(fused=True)"}) {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]string{"torch.poisson": "aten::poisson",
		"torch.special.zeta": "aten::special_zeta",
		"torch.Tensor.geqrf": "aten::geqrf", "torch.nn.Conv3d": "", "torch.nothing_at_all": "", "numpy.add": "",
		"torch.linalg.eig": "aten::linalg_eig"} {
		if got := a.Namesake(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLaterReleases: what a later release composes, or runs on the CPU by itself, is not said to be in none; a name
// that no release runs is.
func TestLaterReleases(t *testing.T) {
	a := &Atlas{}
	for _, c := range []struct{ operator, since, at, later string }{
		{"aten::grid_sampler_3d", "native from torch 2.9 on", "2.8", "native from torch 2.9 on"},
		{"aten::linalg_svd", "on the CPU by itself from torch 2.0 on, composed of others from 2.14 on", "2.10",
			"composed of others from torch 2.14 on"},
		{"aten::linalg_eig", "no release up to torch 2.15 has a kernel", "2.8",
			"no release up to torch 2.15 has a kernel"},
		{"aten::embedding_renorm_", "on the CPU by itself from torch 2.0 on", "2.8",
			"no release up to torch 2.15 has a kernel"},
		{"aten::native_group_norm_backward", "composed of others from torch 2.0 on, native from 2.13 on", "2.10",
			"native from torch 2.13 on"},
		{"aten::add.Tensor", "native from torch 2.0 on", "2.8", ""},
		{"torchvision::nms", "native from torchvision 0.16 on", "0.15", "native from torchvision 0.16 on"},
	} {
		op, ok := a.Operator(c.operator)
		if !ok {
			t.Fatal(c.operator)
		}
		if since, later := a.Since(c.operator), a.Later(op, c.at); since != c.since || later != c.later {
			t.Errorf("%s: since %q, later than %s %q", c.operator, since, c.at, later)
		}
	}
	// Whatever the newest release composes of what it has, or runs, is in none only where it is not so.
	torch := a.Table("torch")
	newest := torch.Columns[len(torch.Columns)-1]
	for _, r := range torch.Rows {
		state := State(r.Cells[len(r.Cells)-1])
		none := strings.HasPrefix(a.Since(r.Name), "no release")
		if state == CPU && none || state == Composed && none && a.Lacks(newest, r.Name) == "" {
			t.Errorf("%s is %s in %s: %s", r.Name, state, newest, a.Since(r.Name))
		}
	}
}

// TestLibraries: functions of libraries come down to their operators; one in no table is one that MPS lacks.
func TestLibraries(t *testing.T) {
	a := &Atlas{}
	for _, c := range []struct {
		name, torch, operator string
		state                 State
		backward              bool
	}{
		{"torchvision.ops.nms", "2.0", "torchvision::nms", Missing, false},
		{"torchvision.ops.nms", "2.8", "torchvision::nms", Native, false},
		{"torchvision.ops.batched_nms", "2.0", "torchvision::nms", Missing, false},
		{"torchvision.ops.MultiScaleRoIAlign", "2.0", "torchvision::roi_align", Missing, false},
		{"torchvision.ops.DeformConv2d", "2.7", "torchvision::deform_conv2d", Missing, false},
		{"torchvision.ops.DeformConv2d", "2.15", "torchvision::_deform_conv2d_backward", Missing, true},
		{"torchaudio.functional.forced_align", "2.8", "torchaudio::forced_align", Missing, false},
		{"mmcv.ops.deform_conv2d", "2.15", "mmcv::deform_conv_forward", Missing, false},
		{"detectron2.layers.deform_conv", "2.15", "torchvision::deform_conv2d", Native, false},
		{"torch_scatter.scatter", "2.15", "torch_scatter::scatter_max", Missing, false},
	} {
		api, ok := a.API(c.name)
		release, err := a.Release("torch", c.torch)
		if !ok || err != nil {
			t.Fatal(c.name, err)
		}
		calls := api.Forward
		if c.backward {
			calls = api.Backward
		}
		needs, _ := a.Needs(release, calls)
		if i := slices.IndexFunc(needs, func(n Need) bool { return n.Operator == c.operator }); i < 0 ||
			needs[i].State != c.state {
			t.Errorf("%s in %s: %+v", c.name, c.torch, needs)
		}
	}
}

// TestTraced: of what MPS composes in the newest release few operators are left of which it is not known what they
// call.
func TestTraced(t *testing.T) {
	a := &Atlas{}
	torch := a.Table("torch")
	var left []string
	for _, r := range torch.Rows {
		if State(r.Cells[len(r.Cells)-1]) == Composed && a.Calls(r.Name) == nil {
			left = append(left, r.Name)
		}
	}
	if len(left) > 43 {
		t.Errorf("%d operators: %v", len(left), left)
	}
	for _, name := range []string{"torch.nn.GroupNorm", "torch.nn.TransformerEncoder", "torch.nn.EmbeddingBag"} {
		api, _ := a.API(name)
		for _, r := range a.Releases("torch") {
			_, untraced := a.Needs(r, slices.Concat(api.Forward, api.Backward))
			if len(untraced) > 0 {
				t.Errorf("%s in %s: %v", name, r.Version, untraced)
			}
		}
	}
}

// TestEncoderWithPadding: in eval an encoder asks of a padding mask whether it is left-aligned before it asks for the
// device, by an operator that MPS lacks: pytorch issue 141287.
func TestEncoderWithPadding(t *testing.T) {
	a := &Atlas{}
	api, _ := a.API("torch.nn.TransformerEncoder")
	ways := a.Ways(api.Name)
	if len(ways) != 1 || !slices.Contains(ways[0].Forward,
		Call{Operator: "aten::_nested_tensor_from_mask_left_aligned"}) {
		t.Errorf("in eval with a padding mask: %v", ways)
	}
	for _, r := range a.Releases("torch") {
		needs, _ := a.Needs(r, api.Forward)
		if !slices.Contains(needs, Need{"aten::_nested_tensor_from_mask_left_aligned", true, Missing}) {
			t.Errorf("%s: %v", r.Version, needs)
		}
	}
}

// TestSparseAlone: what has a kernel for sparse tensors alone is given no others, and is not missing.
func TestSparseAlone(t *testing.T) {
	a := &Atlas{}
	api, _ := a.API("torch.sparse_coo_tensor")
	for torch, want := range map[string]State{"2.8": Missing, "2.9": Native, "2.15": Native} {
		release, err := a.Release("torch", torch)
		if err != nil {
			t.Fatal(err)
		}
		needs, _ := a.Needs(release, api.Forward)
		if !slices.Contains(needs, Need{"aten::_sparse_coo_tensor_with_dims_and_tensors", true, want}) {
			t.Errorf("%s: %v", torch, needs)
		}
	}
	if got := a.Since("aten::_values"); got != "native from torch 2.9 on" {
		t.Error(got)
	}
	if op, _ := a.Operator("aten::_to_sparse_csr"); op.At("2.15") != Missing {
		t.Error("what no sparse tensor has a kernel for is there")
	}
}

// TestGroupNormBackward: PyTorch registers a decomposition from Python until 2.12, and what it calls has kernels.
func TestGroupNormBackward(t *testing.T) {
	a := &Atlas{}
	api, _ := a.API("torch.nn.GroupNorm")
	for _, r := range a.Releases("torch") {
		needs, untraced := a.Needs(r, api.Backward)
		for _, n := range needs {
			if n.State != Native {
				t.Errorf("%s: %s is %s", r.Version, n.Operator, n.State)
			}
		}
		if len(needs) == 0 || len(untraced) > 0 {
			t.Errorf("%s: %v, not known %v", r.Version, needs, untraced)
		}
	}
}

// TestEarlierPython: where an older release's own Python calls others, a name comes down to those: torch/nn/init.py
// drew a truncated normal by erfinv_ until 2.6 at least, and does so no more in 2.15.
func TestEarlierPython(t *testing.T) {
	a := &Atlas{}
	api, _ := a.API("torch.nn.init.trunc_normal_")
	for torch, want := range map[string]bool{"2.0": true, "2.4": true, "2.15": false} {
		release, err := a.Release("torch", torch)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(a.In(release, api).Forward, Call{Operator: "aten::erfinv_"}); got != want {
			t.Errorf("%s: erfinv_ is among its calls: %v", torch, got)
		}
	}
	for key, list := range a.earlier {
		if name, _, _ := strings.Cut(key, " "); len(list) == 0 || !slices.Contains(a.APIs(), name) {
			t.Errorf("%s is in no other table", key)
		}
	}
}
