package abstract

import (
	"assay/internal/pyast"
)

// bind gives targets their values.
func (in *Interp) bind(target pyast.Expr, v *Value, at pyast.Node) {
	switch t := target.(type) {
	case *pyast.Name:
		in.env.set(t.ID, v)
	case *pyast.Tuple:
		in.unpack(t.Elts, v, at)
	case *pyast.List:
		in.unpack(t.Elts, v, at)
	case *pyast.Starred:
		in.bind(t.Value, &Value{Kind: Seq}, at)
	case *pyast.Attribute:
		base := in.recurse.expr(t.Value)
		switch base.Kind {
		case Module, Instance, Parsed:
			if base.Attrs == nil {
				base.Attrs = map[string]*Value{}
			}
			if base.Kind == Module && v.Kind == Tensor && v.Origin == Sized && v.Role == NoRole && !in.quiet {
				w := *v
				w.Role = Plain
				v = &w
			}
			if in.uncertain {
				v = join(base.Attrs[t.Attr], v)
			}
			base.Attrs[t.Attr] = v
		case API:
			in.pseudo(base.Path+"."+t.Attr+".__set__", at, target, []*Value{v}, valueOf(at))
		case Tensor:
			if t.Attr == "data" && v.Kind == Tensor {
				base.Shape = nil
				if base.Type != v.Type {
					base.Type = ""
				}
				return
			}
		case Made, Optimizer, Loader:
			if base.Attrs == nil {
				base.Attrs = map[string]*Value{}
			}
			base.Attrs[t.Attr] = v
		}
	case *pyast.Subscript:
		base, index := in.recurse.expr(t.Value), in.recurse.expr(t.Slice)
		switch base.Kind {
		case API:
			in.pseudo(base.Path+".__setitem__", at, target, []*Value{index, v}, t.Slice, valueOf(at))
		case Dict:
			if index.Kind == Str {
				base.Attrs[index.Text] = v
			}
		}
	}
}

func valueOf(at pyast.Node) pyast.Expr {
	switch s := at.(type) {
	case *pyast.Assign:
		return s.Value
	case *pyast.AnnAssign:
		return s.Value
	case *pyast.AugAssign:
		return s.Value
	}
	return nil
}

func (in *Interp) unpack(targets []pyast.Expr, v *Value, at pyast.Node) {
	for i, t := range targets {
		e := unknown
		switch v.Kind {
		case Seq:
			if len(v.Items) == len(targets) {
				e = v.Items[i]
			}
		case Tensor:
			e = &Value{Kind: Tensor, Where: v.Where, Type: v.Type, Soft: v.Soft, Origin: v.Origin}
			if v.Shape != nil && len(v.Shape.Sizes) > 0 {
				e.Shape = v.Shape.without(0)
			}
		case Array:
			e = v
		}
		in.bind(t, e, at)
	}
}
