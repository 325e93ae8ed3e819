package weights

import (
	"io"
	"slices"
)

// swapping turns the bytes of each number round, both of a complex one for itself.
func swapping(r io.Reader, d DType) io.Reader {
	n := int(d.Size())
	if d == C64 || d == C128 {
		n /= 2
	}
	return &swapped{from: r, unit: n}
}

// A swapped gives what it reads with the bytes of each unit turned round: what is big-endian comes out little-endian.
type swapped struct {
	from io.Reader
	unit int
	buf  [1 << 16]byte // a multiple of every unit
	left []byte
}

func (s *swapped) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		n, err := io.ReadFull(s.from, s.buf[:])
		if n == 0 {
			return 0, err
		}
		if n%s.unit != 0 {
			return 0, io.ErrUnexpectedEOF
		}
		s.left = s.buf[:n]
		for at := 0; at < n; at += s.unit {
			slices.Reverse(s.buf[at : at+s.unit])
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

const (
	// gatherBlock is how many bytes of the row-major array a gather holds. Each block is one walk through the source:
	// where what it needs lies nearer together than gatherNear all is read, gatherAhead bytes at a time;
	// else that alone.
	gatherBlock = 32 << 20
	gatherAhead = 1 << 18
	gatherNear  = 1 << 16
)

// A gather reads an array that lies in Fortran order, and gives it in row-major order.
type gather struct {
	from  io.ReaderAt
	begin int64
	shape []int64
	size  int64 // of an element

	axis   int     // blocks are ranges of this axis, of one index of each axis before it
	inner  int64   // elements of the axes after it
	stride int64   // in the source, between elements that are neighbours along it
	rows   int64   // of a block
	outer  []int64 // the next block's indices of the axes before it
	row    int64   // and its first row
	done   bool

	block, left []byte
	window      []byte // of the source
	windowAt    int64
	near        bool // it is worth reading ahead
}

// newGather gathers an array of elements of so many bytes, whose first lies at begin, in blocks of so many bytes at
// most, or of one element.
func newGather(from io.ReaderAt, begin int64, shape []int64, size, block int64) *gather {
	g := &gather{from: from, begin: begin, shape: shape, size: size, stride: 1}
	g.inner, _ = Product(shape) // the caller's tensor has so many bytes: it fits
	for g.axis < len(shape) {
		g.inner /= max(shape[g.axis], 1)
		if g.inner*size <= block || g.axis == len(shape)-1 {
			break
		}
		g.stride *= shape[g.axis]
		g.axis++
	}
	g.done = len(shape) == 0 || g.inner == 0 || shape[g.axis] == 0
	if !g.done {
		g.rows = min(max(block/(g.inner*size), 1), shape[g.axis])
		g.outer = make([]int64, g.axis)
	}
	return g
}

func (g *gather) Read(p []byte) (int, error) {
	if len(g.left) == 0 {
		if g.done {
			return 0, io.EOF
		}
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.left)
	g.left = g.left[n:]
	return n, nil
}

// fill gathers the next block, and moves on.
func (g *gather) fill() error {
	rows := min(g.rows, g.shape[g.axis]-g.row)
	if g.block == nil {
		g.block = make([]byte, g.rows*g.inner*g.size)
	}
	base, step := g.row*g.stride, int64(1)
	for i, at := range g.outer {
		base += at * step
		step *= g.shape[i]
	}
	column := g.stride * g.shape[g.axis] // elements of the source between one inner index and the next
	after := g.shape[g.axis+1:]
	index := make([]int64, len(after)) // of the inner axes, the first of which moves fastest in the source
	weight := make([]int64, len(after))
	for i, w := len(after)-1, int64(1); i >= 0; i-- {
		weight[i] = w
		w *= after[i]
	}
	// how many rows are read at once, where others lie between them
	some := max(gatherAhead/(g.stride*g.size), 1)
	g.near = (column-rows*g.stride)*g.size < gatherNear && g.stride*g.size < gatherNear
	g.window = g.window[:0]
	to := int64(0)
	for k := range g.inner {
		for r := int64(0); r < rows; r += some {
			n := min(some, rows-r)
			data, err := g.get((base+k*column+r*g.stride)*g.size, ((n-1)*g.stride+1)*g.size)
			if err != nil {
				return err
			}
			scatter(g.block[(r*g.inner+to)*g.size:], data, n, g.inner*g.size, g.stride*g.size, g.size)
		}
		for i := range index {
			index[i]++
			to += weight[i]
			if index[i] < after[i] {
				break
			}
			to -= weight[i] * after[i]
			index[i] = 0
		}
	}
	g.left = g.block[:rows*g.inner*g.size]
	if g.row += rows; g.row == g.shape[g.axis] {
		g.row = 0
		i := g.axis - 1
		for ; i >= 0; i-- {
			if g.outer[i]++; g.outer[i] < g.shape[i] {
				break
			}
			g.outer[i] = 0
		}
		g.done = i < 0
	}
	return nil
}

// get is n bytes of the source from at; those before it are not asked for again in this block.
func (g *gather) get(at, n int64) ([]byte, error) {
	if begin := at - g.windowAt; len(g.window) > 0 && begin >= 0 && begin+n <= int64(len(g.window)) {
		return g.window[begin : begin+n], nil
	}
	ahead := n
	if g.near {
		total, _ := Product(g.shape)
		ahead = max(n, min(gatherAhead, total*g.size-at))
	}
	if int64(cap(g.window)) < ahead {
		g.window = make([]byte, ahead)
	}
	g.window, g.windowAt = g.window[:ahead], at
	if _, err := io.ReadFull(io.NewSectionReader(g.from, g.begin+at, ahead), g.window); err != nil {
		g.window = g.window[:0]
		return nil, unexpected(err)
	}
	return g.window[:n], nil
}

// scatter copies n elements, so many bytes apart in each.
func scatter(to, from []byte, n, toStep, fromStep, size int64) {
	for i := range n {
		copy(to[i*toStep:i*toStep+size], from[i*fromStep:i*fromStep+size])
	}
}

// forward makes of a stream, which can be begun anew, something that is read at any place: what lies before is read
// again from the start, what lies between is read over.
type forward struct {
	open func() (io.ReadCloser, error)
	r    io.ReadCloser
	at   int64
}

func (f *forward) ReadAt(p []byte, at int64) (int, error) {
	if f.r == nil || at < f.at {
		if err := f.Close(); err != nil {
			return 0, err
		}
		r, err := f.open()
		if err != nil {
			return 0, err
		}
		f.r, f.at = r, 0
	}
	n, err := io.CopyN(io.Discard, f.r, at-f.at)
	f.at += n
	if err != nil {
		return 0, err
	}
	got, err := io.ReadFull(f.r, p)
	f.at += int64(got)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return got, err
}

func (f *forward) Close() error {
	if f.r == nil {
		return nil
	}
	err := f.r.Close()
	f.r = nil
	return err
}
