package golden

import (
	"fmt"
	"math"
	"slices"
)

// Difference is how far two tensors are apart.
type Difference struct {
	Relative float64 `json:"relative"`       // |a-b| / max(|a|, |b|) in the Euclidean norm, 0 to 2
	Max      float64 `json:"max"`            // largest difference of one value
	Cosine   float64 `json:"cosine"`         // of the angle between them; 1 where both are zero
	Note     string  `json:"note,omitempty"` // what is known of the difference beside its size

	apart, a, b, dot float64 // sums of squares, and of products
}

// apartAll is the relative difference of what cannot be compared value by value.
const apartAll = 2

func (d *Difference) add(a, b float64) {
	d.apart += (a - b) * (a - b)
	d.a, d.b, d.dot = d.a+a*a, d.b+b*b, d.dot+a*b
	d.Max = max(d.Max, math.Abs(a-b))
}

// join adds the sums of another difference.
func (d *Difference) join(e Difference) {
	d.apart, d.a, d.b, d.dot = d.apart+e.apart, d.a+e.a, d.b+e.b, d.dot+e.dot
	d.Max = max(d.Max, e.Max)
}

func (d *Difference) settle() {
	d.Relative, d.Cosine = 0, 1
	if most := max(d.a, d.b); most > 0 {
		d.Relative = math.Sqrt(d.apart / most)
	}
	if d.a > 0 && d.b > 0 {
		d.Cosine = d.dot / math.Sqrt(d.a) / math.Sqrt(d.b)
	}
}

// differ compares values in their order.
func differ(a, b []float64) Difference {
	var d Difference
	strange := 0
	for i := range a {
		if special(a[i]) || special(b[i]) {
			if !(a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i])) {
				strange++
			}
			continue
		}
		d.add(a[i], b[i])
	}
	d.settle()
	if strange > 0 {
		d.Relative, d.Note = apartAll, fmt.Sprintf("%d values are NaN or infinite on one side alone", strange)
	}
	return d
}

func special(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// permuted is an array with its axes in another order.
func permuted(a array, order []int) array {
	shape, stride := make([]int64, len(order)), make([]int64, len(order))
	own := make([]int64, len(order))
	for i, n := len(a.shape)-1, int64(1); i >= 0; i-- {
		own[i], n = n, n*a.shape[i]
	}
	for i, axis := range order {
		shape[i], stride[i] = a.shape[axis], own[axis]
	}
	out := array{shape: shape, values: make([]float64, 0, len(a.values))}
	if len(a.values) == 0 {
		return out
	}
	at, index := int64(0), make([]int64, len(order))
	for {
		out.values = append(out.values, a.values[at])
		i := len(order) - 1
		for ; i >= 0; i-- {
			index[i]++
			at += stride[i]
			if index[i] < shape[i] {
				break
			}
			at -= stride[i] * shape[i]
			index[i] = 0
		}
		if i < 0 {
			return out
		}
	}
}

// channelsFirst is an array with its last axis second: a picture, signal or volume of a framework that has channels
// last.
func channelsFirst(a array) array {
	order := []int{0, len(a.shape) - 1}
	for i := 1; i < len(a.shape)-1; i++ {
		order = append(order, i)
	}
	return permuted(a, order)
}

// orders are all orders of n axes but the one that changes nothing.
func orders(n int) [][]int {
	var all [][]int
	var grow func(order []int)
	grow = func(order []int) {
		if len(order) == n {
			if !slices.IsSorted(order) {
				all = append(all, slices.Clone(order))
			}
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				grow(append(order, i))
			}
		}
	}
	grow(nil)
	return all
}

// inAnotherOrder says what makes b of a where its axes or its values are in another order, or "".
func inAnotherOrder(a, b array, tolerance float64) string {
	if len(a.values) != len(b.values) || len(a.values) < 2 {
		return ""
	}
	if n := len(a.shape); n == len(b.shape) && n > 1 && n < 6 {
		for _, order := range orders(n) {
			turned := permuted(a, order)
			if slices.Equal(turned.shape, b.shape) && differ(turned.values, b.values).Relative <= tolerance {
				return fmt.Sprintf("B has the values of A with the axes in the order %v: transposed once too often or once too seldom", order)
			}
		}
		for axis := range n {
			if turned := flipped(a, axis); slices.Equal(a.shape, b.shape) &&
				differ(turned.values, b.values).Relative <= tolerance {
				return fmt.Sprintf("B has the values of A with axis %d reversed", axis)
			}
		}
	}
	one, other := slices.Clone(a.values), slices.Clone(b.values)
	slices.Sort(one)
	slices.Sort(other)
	if differ(one, other).Relative <= tolerance {
		return "B has the values of A in another order, as behind a flatten of channels first and last"
	}
	return ""
}

// flipped is an array with one axis reversed.
func flipped(a array, axis int) array {
	inner := int64(1)
	for _, d := range a.shape[axis+1:] {
		inner *= d
	}
	out, n := make([]float64, len(a.values)), a.shape[axis]
	for i := range a.values {
		at := int64(i)
		of := at / inner % n
		out[at+(n-1-2*of)*inner] = a.values[i]
	}
	return array{a.shape, out}
}
