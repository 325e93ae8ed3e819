package abstract

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/pyast"
)

func (in *Interp) binary(op pyast.Op, a, b *Value, at pyast.Node) *Value {
	if a.Kind == Tensor || b.Kind == Tensor {
		if !in.quiet && a.Kind == Tensor && b.Kind == Tensor {
			name := "torch.Tensor.__" + strings.ToLower(op.String()) + "__"
			in.pseudo(name, at, nil, []*Value{a, b})
		}
		if !in.quiet && (a.Kind == Array && a.Origin == Sized || b.Kind == Array && b.Origin == Sized) {
			in.pseudo("torch.Tensor.__array__", at, nil, []*Value{a, b})
		}
		v := &Value{Kind: Tensor, Where: orOpen(placesOf(a, b))}
		v.Type = promote(a, b, op)
		switch {
		case op == pyast.MatMult:
			v.Shape = productShape(shapeOf(a), shapeOf(b))
		case a.Kind == Tensor && b.Kind == Tensor:
			v.Shape = broadcast(shapeOf(a), shapeOf(b))
		case a.Kind == Number || b.Kind == Number:
			v.Shape = cmp.Or(shapeOf(a), shapeOf(b)).like()
		}
		v.graded = a.graded || b.graded
		v.Origin = a.Origin
		if a.Kind != Tensor {
			v.Origin = b.Origin
		}
		if v.Origin == Batch {
			v.Origin = Anyhow
		}
		return v
	}
	if (a.Kind == Array || b.Kind == Array) && a.Kind != Tensor && b.Kind != Tensor {
		v := &Value{Kind: Array, Type: a.Type}
		switch {
		case a.Kind == Array && b.Kind == Array:
			if a.Type != b.Type {
				v.Type = ""
				if a.Type == "float64" || b.Type == "float64" {
					v.Type = "float64"
				}
			}
		case b.Kind == Array:
			v.Type = b.Type
		}
		if op == pyast.Div && (strings.HasPrefix(v.Type, "int") || strings.HasPrefix(v.Type, "uint")) {
			v.Type = "float64"
		}
		return v
	}
	switch {
	case a.Kind == Str && b.Kind == Str && op == pyast.Add:
		return &Value{Kind: Str, Text: a.Text + b.Text, Soft: a.Soft || b.Soft}
	// "cuda:" + str(rank)
	case a.Kind == Str && op == pyast.Add && isDevice(strings.TrimSuffix(a.Text, ":")) &&
		strings.HasSuffix(a.Text, ":"):
		return &Value{Kind: Str, Text: a.Text + "0", Soft: a.Soft}
	case a.Kind == Number && b.Kind == Number && a.Text != "" && b.Text != "":
		v := &Value{Kind: Number, Type: a.Type, Soft: a.Soft || b.Soft}
		if b.Type == "float" || op == pyast.Div {
			v.Type = "float"
		}
		switch op {
		case pyast.Add:
			v.Num = a.Num + b.Num
		case pyast.Sub:
			v.Num = a.Num - b.Num
		case pyast.Mult:
			v.Num = a.Num * b.Num
		case pyast.Div:
			if b.Num == 0 {
				return unknown
			}
			v.Num = a.Num / b.Num
		case pyast.FloorDiv:
			if b.Num == 0 {
				return unknown
			}
			v.Num = float64(int64(a.Num / b.Num))
		case pyast.Pow:
			if v.Num = math.Pow(a.Num, b.Num); math.IsNaN(v.Num) || math.IsInf(v.Num, 0) ||
				a.Type == "complex" || b.Type == "complex" {
				return &Value{Kind: Number, Soft: true}
			}
			if b.Num < 0 {
				v.Type = "float"
			}
		default:
			return &Value{Kind: Number, Type: v.Type, Soft: true}
		}
		v.Text = strconv.FormatFloat(v.Num, 'g', -1, 64)
		return v
	case a.Kind == Seq && b.Kind == Seq && op == pyast.Add:
		return &Value{Kind: Seq, Items: append(append([]*Value{}, a.Items...), b.Items...),
			Form: strung(a.Form, b.Form)}
	case a.Kind == Seq && op == pyast.Mult:
		if n, known := whole(b, 0); known && b.Kind == Number && n > 0 && a.Form == Listed &&
			len(a.Items)*int(min(n, 64)) < 64 {
			return &Value{Kind: Seq, Items: slices.Repeat(a.Items, int(n))}
		}
		return &Value{Kind: Seq, Items: a.Items, Form: Loose}
	}
	return unknown
}

// promote is the dtype of an operation between tensors, or a tensor and a number, where it is clear.
func promote(a, b *Value, op pyast.Op) string {
	if a.Kind == Tensor && b.Kind == Tensor {
		switch {
		case a.Type == b.Type:
			if op == pyast.Div && a.Type != "" && typeAfter("div", a.Type) == "" &&
				!strings.HasPrefix(a.Type, "complex") {
				return "float32"
			}
			return a.Type
		case a.Type == "float64" || b.Type == "float64":
			return ""
		}
		return ""
	}
	t := a
	n := b
	if a.Kind != Tensor {
		t, n = b, a
	}
	if strings.HasPrefix(t.Type, "int") || t.Type == "bool" || strings.HasPrefix(t.Type, "uint") {
		if op == pyast.Div || n.Kind == Number && n.Type == "float" {
			return "float32"
		}
		if n.Kind != Number || t.Type == "bool" {
			return ""
		}
	}
	if n.Kind == Array || n.Kind == Number && n.Type != "int" && n.Type != "float" {
		return ""
	}
	return t.Type
}

// strung is the form of two sequences put together.
func strung(a, b Form) Form {
	switch {
	case a == Listed:
		return b
	case b == Listed:
		return a
	}
	return Strung
}
