package convert

import (
	"fmt"
	"io"
	"slices"
	"unsafe"

	"assay/internal/weights"
)

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

// How much of a tensor is read and moved at a time: about chunk bytes, which fit into a core's second cache together with
// what they become, and at most mostSlice of it where one index of the first dimension is more than a chunk.
const (
	chunk     = 1 << 19
	mostSlice = 4 << 20
)

// readMoved gives the elements of in, moved, as a stream. Where the first dimension stays the first, as in OIHW to OHWI,
// no more than a chunk is held. Else it is all held, in memory, and each chunk is moved before it is put there: what is
// left then is to put runs of the chunks one behind the other, and no element is fetched from far away by itself.
func readMoved(in io.Reader, m move, element int, memory func(size int) []byte) (io.Reader, error) {
	m = m.merged()
	total := element
	for _, d := range m.shape {
		total *= int(d)
	}
	if total == 0 {
		return in, nil
	}
	slice := total / int(m.shape[0])
	some := min(max(chunk/slice, 8), int(m.shape[0])) // slices of a chunk; 8: as many as tile takes at once
	for some > 1 && some*slice > mostSlice {
		some--
	}
	if m.by[0] == 0 && slice <= mostSlice {
		some = max(1, min(some, chunk/slice))
		return &streamed{in: in, box: boxOf(m, some), element: element, raw: make([]byte, some*slice), slice: slice,
			slices: int(m.shape[0])}, nil
	}
	whole := memory(total)
	if slice > mostSlice { // of few outputs and very many inputs: as it comes
		if _, err := io.ReadFull(in, whole); err != nil {
			return nil, unexpected(err)
		}
		return newMover(whole, m, element), nil
	}
	t := &turned{whole: whole, span: some * slice, row: total, outer: 1}
	for _, i := range m.by[:slices.Index(m.by, 0)] {
		t.outer *= int(m.shape[i])
	}
	t.row /= t.outer
	t.run = t.row / int(m.shape[0]) * some
	return t, t.fill(in, m, slice, element)
}

// fill reads a chunk while the one before it is moved.
func (t *turned) fill(in io.Reader, m move, slice, element int) error {
	type part struct {
		raw []byte
		at  int
	}
	free, read := make(chan []byte, 2), make(chan part)
	free <- make([]byte, t.span)
	free <- make([]byte, t.span)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range read {
			boxOf(m, len(p.raw)/slice).gather(p.raw, t.whole[p.at:p.at+len(p.raw)], element)
			free <- p.raw[:t.span]
		}
	}()
	defer func() { close(read); <-done }()
	for at := 0; at < len(t.whole); at += t.span {
		raw := (<-free)[:min(t.span, len(t.whole)-at)]
		if _, err := io.ReadFull(in, raw); err != nil {
			return unexpected(err)
		}
		read <- part{raw, at}
	}
	return nil
}

// A box is a range of elements of what is read, in the order of what is written: dimension d of what is written has
// shape[d] elements, strides[d] elements apart in what is read; the first is element at.
type box struct {
	at             int
	shape, strides []int
}

// boxOf is the box of all that a merged move moves, with so many indices of the first dimension that is read.
func boxOf(m move, first int) box {
	b := box{}
	strides, step := make([]int, len(m.shape)), 1
	for i := len(strides) - 1; i >= 0; i-- {
		strides[i] = step
		step *= int(m.shape[i])
	}
	for _, i := range m.by {
		size := int(m.shape[i])
		if i == 0 {
			size = first
		}
		b.shape, b.strides = append(b.shape, size), append(b.strides, strides[i])
	}
	return b
}

// A streamed gives a tensor whose first dimension stays, some slices of it at a time.
type streamed struct {
	in      io.Reader
	box     box
	element int
	raw     []byte // whole slices
	slice   int    // bytes of one
	slices  int    // that are left to be read
	out     []byte
	left    []byte
}

// Read gives the next bytes.
func (s *streamed) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		if s.slices == 0 {
			return 0, io.EOF
		}
		n := min(len(s.raw)/s.slice, s.slices)
		raw := s.raw[:n*s.slice]
		if _, err := io.ReadFull(s.in, raw); err != nil {
			return 0, unexpected(err)
		}
		s.slices -= n
		s.box.shape[0] = n
		if len(p) >= len(raw) && isAligned(p, s.element) {
			s.box.gather(raw, p[:len(raw)], s.element)
			return len(raw), nil
		}
		if s.out == nil {
			s.out = make([]byte, len(s.raw))
		}
		s.left = s.out[:len(raw)]
		s.box.gather(raw, s.left, s.element)
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// unexpected is the error of a reader that ended before a tensor did.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A turned gives a tensor whose first dimension is another in what is written, from chunks that are moved each for
// itself. A row is what is written for one index of the dimensions before that one, a run what a chunk has of it.
type turned struct {
	whole          []byte
	span           int // bytes of a chunk; the last may have less
	row, run       int // bytes
	outer          int // rows
	at, chunk, off int // row, chunk and byte of its run that come next
}

// Read gives the next bytes: whole rows, where there is room for one.
func (t *turned) Read(p []byte) (int, error) {
	if t.at == t.outer {
		return 0, io.EOF
	}
	if rows := min(len(p)/t.row, t.outer-t.at); rows > 0 && t.chunk == 0 && t.off == 0 {
		for begin, to := 0, 0; begin < len(t.whole); begin, to = begin+t.span, to+t.run {
			run := min(t.run, t.row-to)
			from := t.whole[begin+t.at*run:][:rows*run]
			for r := range rows {
				copy(p[r*t.row+to:][:run], from[r*run:])
			}
		}
		t.at += rows
		return rows * t.row, nil
	}
	run := min(t.run, t.row-t.chunk*t.run)
	begin := t.chunk*t.span + t.at*run
	n := copy(p, t.whole[begin+t.off:begin+run])
	if t.off += n; t.off == run {
		t.off = 0
		if t.chunk++; t.chunk*t.run >= t.row {
			t.chunk = 0
			t.at++
		}
	}
	return n, nil
}

// A mover gives the elements of in, which are all there, moved.
type mover struct {
	in      []byte
	element int
	box     box
	done    int // elements given
	out     []byte
	left    []byte
}

func newMover(in []byte, m move, element int) *mover {
	m = m.merged()
	return &mover{in: in, element: element, box: boxOf(m, int(m.shape[0]))}
}

// Read gives the next bytes.
func (v *mover) Read(p []byte) (int, error) {
	if len(v.left) == 0 {
		if v.done*v.element >= len(v.in) {
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
	inner := len(v.in) / v.element
	level := 0
	for level < len(v.box.shape) {
		inner /= v.box.shape[level]
		if inner*v.element <= block {
			break
		}
		level++
	}
	index, rest, at := make([]int, len(v.box.shape)), v.done/inner, 0
	for d := level; d >= 0; d-- {
		index[d] = rest % v.box.shape[d]
		rest /= v.box.shape[d]
	}
	for d := range level + 1 {
		at += index[d] * v.box.strides[d]
	}
	rows := min(max(block/(inner*v.element), 1), v.box.shape[level]-index[level])
	size := rows * inner * v.element
	if cap(v.out) < size {
		v.out = make([]byte, size)
	}
	v.left = v.out[:size]
	part := box{at, append([]int{rows}, v.box.shape[level+1:]...), v.box.strides[level:]}
	part.gather(v.in, v.left, v.element)
	v.done += rows * inner
}

// gather writes the elements of a box, of 1, 2, 4, 8 or 16 bytes each, to the memory of to, which is aligned for them
// as from is.
func (b box) gather(from, to []byte, element int) {
	switch element {
	case 1:
		gather(b, from, to)
	case 2:
		gather(b, wordsOf[uint16](from), wordsOf[uint16](to))
	case 4:
		gather(b, wordsOf[uint32](from), wordsOf[uint32](to))
	case 8:
		gather(b, wordsOf[uint64](from), wordsOf[uint64](to))
	case 16:
		gather(b, wordsOf[[2]uint64](from), wordsOf[[2]uint64](to))
	default:
		panic(fmt.Sprintf("elements of %d bytes", element))
	}
}

// wordsOf is the same memory as elements, which are copied and never looked into: their byte order does not matter.
func wordsOf[T any](b []byte) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(one)))
}

func isAligned(b []byte, element int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(min(element, 8)) == 0
}

// gather writes the elements of a box by tiles of its last dimension and of that along which what is read lies closest.
func gather[T any](b box, from, to []T) {
	n := len(b.shape)
	if n == 1 {
		tile(to, from[b.at:], 1, b.shape[0], 0, b.strides[0], b.shape[0])
		return
	}
	near := n - 2
	for d := range n - 1 {
		if b.strides[d] < b.strides[near] {
			near = d
		}
	}
	pitches := make([]int, n)
	step := 1
	for d := n - 1; d >= 0; d-- {
		pitches[d] = step
		step *= b.shape[d]
	}
	var walk func(d, at, offset int)
	walk = func(d, at, offset int) {
		for d < n-1 && d == near {
			d++
		}
		if d >= n-1 {
			const edge = 32 // two tiles of 32 × 32 four-byte elements lie in the smallest level-one cache
			rows, columns := b.shape[near], b.shape[n-1]
			for r := 0; r < rows; r += edge {
				for c := 0; c < columns; c += edge {
					tile(to[offset+r*pitches[near]+c:], from[at+r*b.strides[near]+c*b.strides[n-1]:],
						min(edge, rows-r), min(edge, columns-c), b.strides[near], b.strides[n-1], pitches[near])
				}
			}
			return
		}
		for i := range b.shape[d] {
			walk(d+1, at+i*b.strides[d], offset+i*pitches[d])
		}
	}
	walk(0, b.at, 0)
}

// tile writes rows × columns elements: element (r, c) lies at r*down + c*across in what is read, and goes to r*pitch + c.
func tile[T any](to, from []T, rows, columns, down, across, pitch int) {
	c := 0
	switch {
	case across == 1:
		for r := range rows {
			copy(to[r*pitch:][:columns], from[r*down:])
		}
		return
	case down == 1: // eight columns at once: each line of what is written is touched once and not eight times
		for ; c+8 <= columns; c += 8 {
			s0 := from[c*across:][:rows]
			s1 := from[(c+1)*across:][:len(s0)]
			s2 := from[(c+2)*across:][:len(s0)]
			s3 := from[(c+3)*across:][:len(s0)]
			s4 := from[(c+4)*across:][:len(s0)]
			s5 := from[(c+5)*across:][:len(s0)]
			s6 := from[(c+6)*across:][:len(s0)]
			s7 := from[(c+7)*across:][:len(s0)]
			for r := range s0 {
				line := to[r*pitch+c:][:8]
				line[0], line[1], line[2], line[3] = s0[r], s1[r], s2[r], s3[r]
				line[4], line[5], line[6], line[7] = s4[r], s5[r], s6[r], s7[r]
			}
		}
	}
	for r := range rows {
		for c := c; c < columns; c++ {
			to[r*pitch+c] = from[r*down+c*across]
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
