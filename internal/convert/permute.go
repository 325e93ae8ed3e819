package convert

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"assay/internal/weights"
)

// block is about how much of a tensor is permuted, or given another type, at a time.
const block = 1 << 20

// A move is how the elements of a tensor are put into another order: shape is that of what is read, and dimension i of
// what is written is dimension by[i] of what is read.
type move struct {
	shape []int64
	by    []int
}

// between is the move from one order of letters to another.
func between(from, to string, shape []int64) (move, error) {
	if len(from) != len(to) || len(from) != len(shape) {
		return move{}, fmt.Errorf("%s, %s and a shape of %d dimensions do not go together", from, to, len(shape))
	}
	m := move{shape: shape}
	for _, letter := range to {
		i := slices.Index([]rune(from), letter)
		if i < 0 {
			return move{}, fmt.Errorf("%s has no %c", from, letter)
		}
		m.by = append(m.by, i)
	}
	return m, nil
}

// same says that nothing moves: the order of the elements stays, dimensions of 1 aside.
func (m move) same() bool { return len(m.merged().by) < 2 }

// merged is the same move with as few dimensions as it has: those of 1 left out, and neighbours that stay neighbours
// made one. OIHW to OHWI has three: O, I and HW.
func (m move) merged() move {
	var order []int // of what is written, without dimensions of 1
	for _, i := range m.by {
		if m.shape[i] != 1 {
			order = append(order, i)
		}
	}
	kept := slices.Clone(order)
	slices.Sort(kept)
	size, place, last := map[int]int64{}, map[int]int{}, -1 // by the first dimension of a group
	var heads []int
	for at, i := range order {
		before := slices.Index(kept, i) - 1
		if at > 0 && before >= 0 && kept[before] == order[at-1] { // follows its neighbour in both
			size[last] *= m.shape[i]
			continue
		}
		last = i
		size[i] = m.shape[i]
		heads = append(heads, i)
	}
	sorted := slices.Clone(heads)
	slices.Sort(sorted)
	var out move
	for n, i := range sorted {
		place[i] = n
		out.shape = append(out.shape, size[i])
	}
	for _, i := range heads {
		out.by = append(out.by, place[i])
	}
	return out
}

// A mover gives the elements of in, moved, as a stream.
type mover struct {
	in      []byte
	element int
	shape   []int // of what is written
	strides []int // of what is read, in elements, by dimension of what is written
	done    int   // elements given
	total   int
	out     []byte
	left    []byte
}

func newMover(in []byte, m move, element int) *mover {
	merged := m.merged()
	strides := make([]int, len(merged.shape))
	step := 1
	for i := len(strides) - 1; i >= 0; i-- {
		strides[i] = step
		step *= int(merged.shape[i])
	}
	v := &mover{in: in, element: element, total: len(in) / element}
	for _, i := range merged.by {
		v.shape = append(v.shape, int(merged.shape[i]))
		v.strides = append(v.strides, strides[i])
	}
	return v
}

// readMoved reads a tensor into whole, and gives it moved. Where the last of three dimensions comes first, as in OIHW
// to HWIO, each slice of the first is turned as it is read: a pass for each place of the kernel would else use a few
// bytes of each line of memory that it touches.
func readMoved(in io.Reader, whole []byte, m move, element int) (*mover, error) {
	m = m.merged()
	if !slices.Equal(m.by, []int{2, 1, 0}) {
		_, err := io.ReadFull(in, whole)
		return newMover(whole, m, element), err
	}
	const most = 8 << 20 // of a slice
	size := int(m.shape[1]*m.shape[2]) * element
	if size > most || size == 0 {
		_, err := io.ReadFull(in, whole)
		return newMover(whole, m, element), err
	}
	slice := make([]byte, size)
	turn := move{shape: m.shape[1:], by: []int{1, 0}}
	for at := 0; at < len(whole); at += size {
		if _, err := io.ReadFull(in, slice); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(newMover(slice, turn, element), whole[at:at+size]); err != nil {
			return nil, err
		}
	}
	return newMover(whole, move{shape: []int64{m.shape[0], m.shape[2], m.shape[1]}, by: []int{1, 2, 0}}, element), nil
}

// Read gives the next bytes.
func (v *mover) Read(p []byte) (int, error) {
	if len(v.left) == 0 {
		if v.done >= v.total {
			return 0, io.EOF
		}
		v.next()
	}
	n := copy(p, v.left)
	v.left = v.left[n:]
	return n, nil
}

// next fills left with a range of the outermost dimensions: whole rows of what is written, as many as a block holds.
func (v *mover) next() {
	// level: the first dimension whose inner part is no larger than a block
	inner := v.total
	level := 0
	for level < len(v.shape) {
		inner /= v.shape[level]
		if inner*v.element <= block {
			break
		}
		level++
	}
	index, rest, at := make([]int, len(v.shape)), v.done/inner, 0
	for d := level; d >= 0; d-- {
		index[d] = rest % v.shape[d]
		rest /= v.shape[d]
	}
	for d := range level + 1 {
		at += index[d] * v.strides[d]
	}
	rows := min(max(block/(inner*v.element), 1), v.shape[level]-index[level])
	size := rows * inner * v.element
	if cap(v.out) < size {
		v.out = make([]byte, size)
	}
	v.left = v.out[:size]
	shape := append([]int{rows}, v.shape[level+1:]...)
	strides := v.strides[level:]
	switch v.element {
	case 4:
		gather(words32{v.in}, v.left, at, shape, strides, 4)
	default:
		gather(bytesOf{v.in, v.element}, v.left, at, shape, strides, v.element)
	}
	v.done += rows * inner
}

// A source copies a tile of two dimensions.
type source interface {
	// tile writes rows × columns elements: element (r, c) lies at + r*down + c*across in what is read, and goes to
	// byte (r*pitch + c) * the element's size of to.
	tile(to []byte, at, rows, columns, down, across, pitch int)
}

// gather writes the elements of a box: its last two dimensions, or the two along which what is read and what is
// written lie closest, as tiles.
func gather(from source, to []byte, at int, shape, strides []int, element int) {
	n := len(shape)
	if n == 1 {
		from.tile(to, at, 1, shape[0], 0, strides[0], shape[0])
		return
	}
	// the dimension of the box along which what is read lies closest, where it is not the last one
	near := n - 2
	for d := range n - 1 {
		if strides[d] < strides[near] {
			near = d
		}
	}
	pitches := make([]int, n)
	step := 1
	for d := n - 1; d >= 0; d-- {
		pitches[d] = step
		step *= shape[d]
	}
	var walk func(d, at, offset int)
	walk = func(d, at, offset int) {
		for d < n-1 && d == near {
			d++
		}
		if d >= n-1 {
			const edge = 32 // two tiles of 32 × 32 four-byte elements lie in the smallest level-one cache
			rows, columns := shape[near], shape[n-1]
			for r := 0; r < rows; r += edge {
				for c := 0; c < columns; c += edge {
					from.tile(to[(offset+r*pitches[near]+c)*element:], at+r*strides[near]+c*strides[n-1],
						min(edge, rows-r), min(edge, columns-c), strides[near], strides[n-1], pitches[near])
				}
			}
			return
		}
		for i := range shape[d] {
			walk(d+1, at+i*strides[d], offset+i*pitches[d])
		}
	}
	walk(0, at, 0)
}

type words32 struct{ in []byte }

func (w words32) tile(to []byte, at, rows, columns, down, across, pitch int) {
	for r := range rows {
		line := to[r*pitch*4:]
		from := (at + r*down) * 4
		for c := 0; c < columns; c++ {
			binary.LittleEndian.PutUint32(line[c*4:c*4+4], binary.LittleEndian.Uint32(w.in[from:from+4]))
			from += across * 4
		}
	}
}

type bytesOf struct {
	in      []byte
	element int
}

func (b bytesOf) tile(to []byte, at, rows, columns, down, across, pitch int) {
	e := b.element
	for r := range rows {
		line := to[r*pitch*e:]
		from := (at + r*down) * e
		for c := range columns {
			copy(line[c*e:c*e+e], b.in[from:from+e])
			from += across * e
		}
	}
}

// A piece is a range of bytes of a tensor.
type piece struct {
	tensor weights.Tensor
	from   int64
	bytes  int64
}

// openPieces gives the bytes of all, one after the other.
func openPieces(pieces []piece) (io.ReadCloser, error) { return &chain{pieces: pieces}, nil }

type chain struct {
	pieces []piece
	open   io.ReadCloser
	left   int64
}

func (c *chain) Read(p []byte) (int, error) {
	for c.open == nil {
		if len(c.pieces) == 0 {
			return 0, io.EOF
		}
		next := c.pieces[0]
		r, err := next.tensor.Open()
		if err != nil {
			return 0, err
		}
		if _, err := io.CopyN(io.Discard, r, next.from); err != nil {
			r.Close()
			return 0, fmt.Errorf("tensor %q: %w", next.tensor.Name, err)
		}
		c.open, c.left, c.pieces = r, next.bytes, c.pieces[1:]
	}
	if c.left == 0 {
		err := c.open.Close()
		c.open = nil
		if err != nil {
			return 0, err
		}
		return 0, nil
	}
	n, err := c.open.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == io.EOF {
		err = nil
		if c.left > 0 && n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Close closes what is open.
func (c *chain) Close() error {
	c.pieces = nil
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}
