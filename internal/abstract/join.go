package abstract

// same reports that two values say the same, so that nothing is lost by keeping one.
func (v *Value) same(w *Value) bool {
	return v == w || v.Kind == w.Kind && v.Kind != Seq && v.Kind != Dict && v.Yes == w.Yes && v.Soft == w.Soft &&
		v.OrNone == w.OrNone &&
		v.Follows == w.Follows && v.Where == w.Where && v.Origin == w.Origin && v.Role == w.Role &&
		v.Binding == w.Binding && v.Type == w.Type &&
		v.Path == w.Path && v.Text == w.Text && v.Num == w.Num && v.Func == w.Func && v.Class == w.Class &&
		v.Self == w.Self && v.Made == w.Made && v.Shape.same(w.Shape) &&
		v.evaluates == w.evaluates && v.graded == w.graded
}

// join is what is known where either value may be there.
func join(v, w *Value) *Value { return joined(v, w, 0) }

func joined(v, w *Value, depth int) *Value {
	if depth > 5 { // a list may hold itself
		return unknown
	}
	if v == nil || w == nil {
		if v == nil {
			v, w = w, v
		}
		return v // bound on one way only: what uses it came that way
	}
	if v.same(w) {
		return v
	}
	if v.Kind == None { // `x = None` first, the real thing later
		return w.orNone()
	}
	if w.Kind == None {
		return v.orNone()
	}
	if v.Kind == Str && w.Kind == Device || v.Kind == Device && w.Kind == Str {
		return &Value{Kind: Device, Where: v.Place() | w.Place(), Soft: v.Soft || w.Soft}
	}
	if v.Kind != w.Kind {
		return unknown
	}
	switch v.Kind {
	case Str:
		if isDevice(v.Text) && isDevice(w.Text) {
			return &Value{Kind: Device, Where: deviceOf(v.Text) | deviceOf(w.Text), Soft: v.Soft || w.Soft}
		}
	case Device, Tensor, Array, DType:
		j := &Value{Kind: v.Kind, Where: v.Where | w.Where, Soft: v.Soft || w.Soft, OrNone: v.OrNone || w.OrNone,
			Type: v.Type, Shape: joinShapes(v.Shape, w.Shape), graded: v.graded && w.graded}
		if v.Type != w.Type {
			j.Type = ""
		}
		return j
	case Module, Instance, Optimizer, Made, Super:
		if v.Path == w.Path && v.Class == w.Class {
			j := *v
			j.Where |= w.Where
			j.evaluates = v.evaluates && w.evaluates
			if v.Type != w.Type {
				j.Type = severalTypes
			}
			return &j
		}
		if v.Kind == Module {
			return &Value{Kind: Module, Where: v.Where | w.Where}
		}
	case Seq:
		if len(v.Items) == len(w.Items) {
			j := &Value{Kind: Seq}
			for i := range v.Items {
				j.Items = append(j.Items, joined(v.Items[i], w.Items[i], depth+1))
			}
			return j
		}
	case Dict, Parsed:
		j := &Value{Kind: v.Kind, Attrs: map[string]*Value{}}
		for k, a := range v.Attrs {
			if b := w.Attrs[k]; b != nil {
				j.Attrs[k] = joined(a, b, depth+1)
			} else {
				j.Attrs[k] = a
			}
		}
		for k, b := range w.Attrs {
			if j.Attrs[k] == nil {
				j.Attrs[k] = b
			}
		}
		return j
	case Bool:
		return &Value{Kind: Bool, Yes: v.Yes, Soft: true}
	}
	return unknown
}
