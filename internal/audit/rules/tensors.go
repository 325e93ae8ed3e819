package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// arriving is the dtype of a tensor that a call puts on MPS, "" where it puts none there.
func arriving(p *audit.Pass, c *abstract.Call) (dtype string, sure bool) {
	switch name := last(c.Path); {
	case c.Path == "torch.Tensor.to" || c.Path == "torch.Tensor.double" || c.Path == "torch.Tensor.type" ||
		c.Path == "torch.Tensor.cdouble":
		v := p.Result(c)
		if v.Kind != abstract.Tensor || !v.Where.May(abstract.OnMPS) {
			return "", false
		}
		if c.Self.Where == v.Where && c.Self.Type == v.Type { // it was there before
			return "", false
		}
		return v.Type, v.Where.Surely(abstract.OnMPS) && !c.Self.Soft && !softPlace(c)
	case c.Path == "torch.nn.Module.double":
		if c.Self.Where.May(abstract.OnMPS) {
			return "float64", c.Self.Where.Surely(abstract.OnMPS)
		}
	case c.Path == "torch.nn.Module.to":
		where, to := p.Destination(c)
		if to == "" && c.Self.Type == "float64" {
			to = "float64"
		}
		if where == 0 {
			where = c.Self.Where
		}
		if where.May(abstract.OnMPS) && to == "float64" {
			return to, where.Surely(abstract.OnMPS) && !softPlace(c)
		}
	case strings.HasPrefix(c.Path, "torch.") && c.Arg(-1, "device") == nil && dtypeOf(c.Arg(-1, "dtype")) != "" &&
		name != "DataLoader":
		where := c.Tensors()
		if c.Self == nil && where == 0 { // made where tensors are made
			v := p.Result(c)
			if v.Kind != abstract.Tensor {
				return "", false
			}
			where = v.Where
		}
		if c.Self != nil && c.Self.Kind == abstract.Module || !where.May(abstract.OnMPS) {
			return "", false
		}
		return dtypeOf(c.Arg(-1, "dtype")), where.Surely(abstract.OnMPS) && !(c.Self != nil && c.Self.Soft)
	case strings.HasPrefix(c.Path, "torch.") && c.Arg(-1, "device") != nil && !strings.Contains(c.Path, ".nn."):
		if name == "device" {
			return "", false
		}
		v := p.Result(c)
		if v.Kind == abstract.Tensor && v.Where.May(abstract.OnMPS) {
			return v.Type, v.Where.Surely(abstract.OnMPS) && !softPlace(c)
		}
	}
	return "", false
}

func dtypeOf(v *abstract.Value) string {
	if v == nil || v.Kind != abstract.DType {
		return ""
	}
	return v.Type
}

func softPlace(c *abstract.Call) bool {
	for _, a := range c.Args {
		if (a.Kind == abstract.Device || a.Kind == abstract.Str) && a.Soft {
			return true
		}
	}
	d := c.Arg(-1, "device")
	return d != nil && d.Soft
}

// together are operations that take all their tensors from one device: tried with each on a rehearsal of PyTorch 2.8.
// Copies, shapes taken from another tensor, lengths of sequences and torch.equal are none of them.
var together = set(`matmul mm bmm addmm addmv baddbmm dot mv outer einsum cat concat stack hstack vstack add sub
	mul div true_divide pow remainder fmod maximum minimum fmax fmin max min where lerp addcmul addcdiv atan2
	hypot cdist gather scatter scatter_add index_select masked_fill masked_select index_add clamp quantile
	allclose isclose logical_and logical_or eq ne lt le gt ge stft add_ sub_ mul_ div_ pow_ masked_fill_
	scatter_ scatter_add_ index_add_ lerp_ addcmul_ addcdiv_ cross kron`)

// generates are functions that draw from a generator, which lives where their tensor does.
var generates = map[string]bool{"torch.rand": true, "torch.randn": true, "torch.randint": true, "torch.randperm": true,
	"torch.normal": true, "torch.bernoulli": true,
	"torch.multinomial": true, "torch.utils.data.DataLoader": true, "torch.utils.data.random_split": true}
