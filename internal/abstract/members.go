package abstract

import (
	"strings"

	"assay/internal/pyast"
)

func (in *Interp) attribute(base *Value, e *pyast.Attribute) *Value {
	name := e.Attr
	if base == unknown {
		if v := in.memo.methods[name]; v != nil {
			return v
		}
		name = strings.Clone(name)
		return keepValue(in.memo.methods, name, &Value{Kind: API, Path: "?." + name, Self: unknown})
	}
	switch base.Kind {
	case API:
		key := [2]string{base.Path, name}
		v := in.memo.members[key]
		if v == nil {
			key = [2]string{strings.Clone(base.Path), strings.Clone(name)}
			v = keepValue(in.memo.members, key, in.apiMember(key[0], key[1], canonical(key[0]+"."+key[1])))
		}
		if base.Mod != nil && v.Kind == API {
			if v := in.member(base.Mod, name); v != nil {
				return v
			}
			return unknown
		}
		return v
	case Tensor:
		switch name {
		case "device":
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft, Follows: true}
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "data", "grad":
			return base
		case "T", "H", "mT", "mH", "real", "imag":
			return viewOf(base, name)
		case "shape", "ndim", "layout", "names", "grad_fn", "itemsize", "nbytes", "requires_grad", "is_leaf":
			return unknown
		case "is_cuda":
			if single(base.Where) {
				return boolean(base.Where == OnCUDA)
			}
			return unknown
		case "is_mps":
			if single(base.Where) {
				return boolean(base.Where == OnMPS)
			}
			return unknown
		}
		return &Value{Kind: API, Path: "torch.Tensor." + name, Self: base}
	case Array:
		switch name {
		case "T", "real", "imag", "flat":
			return base
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "shape", "ndim", "size":
			return unknown
		}
		return &Value{Kind: API, Path: "numpy.ndarray." + name, Self: base}
	case Module:
		if v := base.Attrs[name]; v != nil {
			if v.Kind == Module {
				return in.child(base, v)
			}
			// a parameter or buffer
			if v.Kind == Tensor && v.Where == OnCPU && base.Where != OnCPU && (v.Role != Plain || moves(base.Class)) {
				t := *v
				t.Where = base.Where
				return &t
			}
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return in.bound(v, base)
			}
		}
		if name == "device" {
			return &Value{Kind: Device, Where: base.Where, Follows: true}
		}
		if name == "training" {
			return unknown
		}
		return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base}
	case Instance:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return in.bound(v, base)
			}
		}
		return &Value{Kind: API, Path: "?." + name, Self: base}
	case ClassDef:
		if v := base.Class.lookup(name); v != nil {
			return v
		}
	case Parsed:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return unknown
	case Device:
		if name == "type" {
			if single(base.Where) && base.Where != OnOther {
				return &Value{Kind: Str, Text: base.Where.String(), Soft: base.Soft}
			}
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft}
		}
		return unknown
	case Optimizer:
		return &Value{Kind: API, Path: "torch.optim.Optimizer." + name, Self: base}
	case Loader:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return &Value{Kind: API, Path: "torch.utils.data.DataLoader." + name, Self: base}
	case StateDict:
		return &Value{Kind: API, Path: "state_dict." + name, Self: base}
	case Dict:
		return &Value{Kind: API, Path: "dict." + name, Self: base}
	case Seq:
		return &Value{Kind: API, Path: "list." + name, Self: base}
	case Str:
		return &Value{Kind: API, Path: "str." + name, Self: base}
	case Made:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return &Value{Kind: API, Path: base.Path + "." + name, Self: base}
	case Super:
		for _, b := range base.Class.Bases {
			if b.Kind == ClassDef {
				if v := b.Class.lookup(name); v != nil {
					return in.bound(v, base.Self)
				}
			}
		}
		if base.Self != nil && base.Self.Kind == Module {
			return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base.Self}
		}
		return &Value{Kind: API, Path: "?." + name, Self: base.Self}
	}
	return &Value{Kind: API, Path: "?." + name, Self: base}
}

// bound is a member of a class as an instance gives it.
func (in *Interp) bound(v *Value, self *Value) *Value {
	if v.Kind != Function || v.Binding == AsStatic {
		return v
	}
	if v.Binding == AsProperty {
		return in.apply(v.Func, self, nil, nil, false)
	}
	return &Value{Kind: Function, Func: v.Func, Self: self, Binding: v.Binding}
}

// child is a part of a module, which lives where the whole does.
func (in *Interp) child(whole, part *Value) *Value {
	if whole.Type != "" && part.Type != whole.Type || whole.evaluates && !part.evaluates {
		p := *part
		if whole.Type != "" {
			p.Type = whole.Type
		}
		p.evaluates = part.evaluates || whole.evaluates
		part = &p
	}
	if whole.Where == part.Where || part.Where&^OnCPU != 0 && part.Where != Open && !whole.Where.May(OnMPS) {
		return part
	}
	if whole.Where == OnCPU || whole.Where == 0 {
		return part
	}
	c := *part
	c.Where = whole.Where
	c.Soft = c.Soft || whole.Soft
	return &c
}
