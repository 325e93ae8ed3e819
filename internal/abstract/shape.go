package abstract

import (
	"encoding/binary"
	"slices"
)

// Shape is what is known of a tensor's dimensions, whose number is known. Shapes are shared and not changed.
type Shape struct {
	Sizes   []int64 // -1: not known
	strides []int64 // in elements; nil: not known
	packed  bool    // contiguous, whatever the sizes are
}

// maxRank bounds the dimensions that are followed; MPS takes 16.
const maxRank = 64

// packedShape is that of a tensor that an operation has made, nil where a size is none.
func packedShape(sizes []int64) *Shape {
	if sizes == nil || len(sizes) > maxRank {
		return nil
	}
	s := &Shape{Sizes: sizes, packed: true}
	if !slices.Contains(sizes, -1) {
		s.strides = make([]int64, len(sizes))
		step := int64(1)
		for i := len(sizes) - 1; i >= 0; i-- {
			s.strides[i] = step
			step *= max(1, sizes[i])
			if step < 0 || step > 1<<50 { // no tensor is so large
				return nil
			}
		}
	}
	return s
}

// looseShape is that of a tensor of which it is not known how its elements lie.
func looseShape(sizes []int64) *Shape {
	if sizes == nil || len(sizes) > maxRank {
		return nil
	}
	return &Shape{Sizes: sizes}
}

// Contiguous says whether the elements lie as torch.contiguous_format has them; known is false where that cannot be
// told.
func (s *Shape) Contiguous() (yes, known bool) {
	switch {
	case s == nil:
		return false, false
	case s.packed || len(s.Sizes) == 0 || slices.Contains(s.Sizes, 0):
		return true, true
	case s.strides == nil:
		return false, false
	}
	step := int64(1)
	for i := len(s.Sizes) - 1; i >= 0; i-- {
		if s.Sizes[i] == 1 {
			continue
		}
		if s.strides[i] != step {
			return false, true
		}
		step *= s.Sizes[i]
	}
	return true, true
}

func (s *Shape) same(o *Shape) bool {
	return s == o || s != nil && o != nil && slices.Equal(s.Sizes, o.Sizes) && slices.Equal(s.strides, o.strides) &&
		(s.strides == nil) == (o.strides == nil) && s.packed == o.packed
}

// joinShapes is what is known where either may be there.
func joinShapes(a, b *Shape) *Shape {
	switch {
	case a.same(b):
		return a
	case a == nil || b == nil || len(a.Sizes) != len(b.Sizes):
		return nil
	}
	sizes := slices.Clone(a.Sizes)
	for i := range sizes {
		if sizes[i] != b.Sizes[i] {
			sizes[i] = -1
		}
	}
	return &Shape{Sizes: sizes, packed: a.packed && b.packed}
}

// axis is a dimension counted from the front; false where there is none.
func (s *Shape) axis(n int64, room int) (int, bool) {
	rank := int64(len(s.Sizes) + room)
	if n < 0 {
		n += rank
	}
	return int(n), n >= 0 && n < rank
}

// like is the shape of a tensor that is made for each element of another.
func (s *Shape) like() *Shape {
	if s == nil {
		return nil
	}
	if yes, known := s.Contiguous(); known && yes {
		return packedShape(s.Sizes)
	}
	return looseShape(s.Sizes) // its strides are kept where it has no gaps
}

// permuted is the shape with its dimensions in another order.
func (s *Shape) permuted(order []int) *Shape {
	p := &Shape{Sizes: make([]int64, len(order))}
	if s.strides != nil {
		p.strides = make([]int64, len(order))
	}
	for i, from := range order {
		p.Sizes[i] = s.Sizes[from]
		if s.strides != nil {
			p.strides[i] = s.strides[from]
		}
		p.packed = s.packed && slices.IsSorted(order)
	}
	return p
}

func (s *Shape) swapped(a, b int64) *Shape {
	i, ok := s.axis(a, 0)
	j, also := s.axis(b, 0)
	if !ok || !also {
		return nil
	}
	order := make([]int, len(s.Sizes))
	for k := range order {
		order[k] = k
	}
	order[i], order[j] = j, i
	return s.permuted(order)
}

// without is the shape without a dimension, at one of whose places the rest is looked at.
func (s *Shape) without(axis int) *Shape {
	w := &Shape{Sizes: slices.Delete(slices.Clone(s.Sizes), axis, axis+1), packed: s.packed && axis == 0}
	if s.strides != nil {
		w.strides = slices.Delete(slices.Clone(s.strides), axis, axis+1)
	}
	return w
}

// with is the shape with one more dimension of size 1.
func (s *Shape) with(axis int) *Shape {
	w := &Shape{Sizes: slices.Insert(slices.Clone(s.Sizes), axis, 1), packed: s.packed}
	if s.strides != nil {
		w.strides = slices.Insert(slices.Clone(s.strides), axis, 1)
	}
	return w
}

// sliced is the shape with every so many-th element of a dimension, of which there are then so many (-1: not known).
func (s *Shape) sliced(axis int, size, step int64) *Shape {
	w := &Shape{Sizes: slices.Clone(s.Sizes), strides: slices.Clone(s.strides)}
	w.Sizes[axis] = size
	if w.strides != nil {
		w.strides[axis] *= step
	}
	w.packed = s.packed && axis == 0 && step == 1
	return w
}

// reduced is a new tensor's shape, from which dimensions are gone, or have size 1.
func (s *Shape) reduced(axes []int64, keep bool) *Shape {
	sizes := slices.Clone(s.Sizes)
	for _, a := range axes {
		i, ok := s.axis(a, 0)
		if !ok {
			return nil
		}
		sizes[i] = -2
	}
	if keep {
		for i := range sizes {
			if sizes[i] == -2 {
				sizes[i] = 1
			}
		}
	}
	return packedShape(slices.DeleteFunc(sizes, func(n int64) bool { return n == -2 }))
}

// broadcast is the shape of an operation between tensors of two shapes.
func broadcast(a, b *Shape) *Shape {
	if a == nil || b == nil {
		return nil
	}
	if len(a.Sizes) < len(b.Sizes) {
		a, b = b, a
	}
	sizes := slices.Clone(a.Sizes)
	more := len(a.Sizes) - len(b.Sizes)
	for i, n := range b.Sizes {
		switch m := sizes[more+i]; {
		case m == n:
		case m == 1:
			sizes[more+i] = n
		case n == 1:
		case m == -1 || n == -1: // the other, or 1
			sizes[more+i] = max(m, n)
		default:
			return nil // it fails
		}
	}
	dense := func(s *Shape) bool { yes, known := s.Contiguous(); return known && yes }
	if dense(a) && dense(b) {
		return packedShape(sizes)
	}
	return looseShape(sizes)
}

// elements counts them; false where a size is not known.
func (s *Shape) elements() (int64, bool) {
	n := int64(1)
	for _, size := range s.Sizes {
		if size < 0 {
			return 0, false
		}
		n *= size
	}
	return n, true
}

// viewed is the shape that view and reshape give, of which one size may be -1: what is left.
func (s *Shape) viewed(sizes []int64, open func(int) bool) *Shape {
	sizes = slices.Clone(sizes)
	rest, known := s.elements()
	at := -1
	for i, n := range sizes {
		switch {
		case open(i):
			known = false
		case n == -1:
			at = i
		case n > 0 && rest%n == 0:
			rest /= n
		default:
			known = false
		}
	}
	if at >= 0 && known {
		sizes[at] = rest
	}
	if yes, known := s.Contiguous(); known && yes {
		return packedShape(sizes)
	}
	return looseShape(sizes)
}

// print appends what tells shapes apart.
func (s *Shape) print(b []byte) []byte {
	b = append(b, 's', byte(len(s.Sizes)))
	for i, n := range s.Sizes {
		b = binary.AppendVarint(b, n)
		if s.strides != nil {
			b = binary.AppendVarint(b, s.strides[i])
		}
	}
	if s.packed {
		b = append(b, '!')
	}
	return b
}
