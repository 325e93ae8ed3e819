package weights

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// A stridedReader gives a view's elements in row-major order, a band of them at a time.
type stridedReader struct {
	at      io.ReaderAt
	offset  int64 // byte of the view's first element
	size    int64 // of an element in bytes
	shape   []int64
	strides []int64 // in elements

	next  []int64 // index of the band that comes next, over the dimensions above inner
	inner int     // dimensions from here on are one band
	rows  int64   // how many of dimension inner-1 a band has at most; 1 where inner is 0
	done  bool
	out   []byte // what is not yet taken of the band
	block []byte
	band  []byte
}

const (
	leastBand = 8 << 20   // bytes of a band, which is all that is held of the result
	mostBand  = 256 << 20 // of one that is more, since each band walks through all of the storage
	bands     = 16        // as many are meant where that is so
	maxBlock  = 1 << 20   // bytes of the storage that are read at once
)

// newStrided reads a view that lies in bounds.
func newStrided(at io.ReaderAt, offset, size int64, shape, strides []int64) *stridedReader {
	r := &stridedReader{at: at, offset: offset, size: size, rows: 1}
	for i, d := range shape { // a dimension of one has no stride that matters
		if d != 1 {
			r.shape, r.strides = append(r.shape, d), append(r.strides, strides[i])
		}
	}
	r.done = slices.Contains(shape, 0)
	r.inner = len(r.shape)
	bytes, whole, maxBand := size, size, int64(leastBand)
	for _, d := range r.shape {
		whole *= d
	}
	if !slices.IsSortedFunc(r.strides, func(a, b int64) int { return cmp.Compare(b, a) }) { // not from slow to fast
		maxBand = min(mostBand, max(leastBand, whole/bands))
	}
	for r.inner > 0 && bytes*r.shape[r.inner-1] <= maxBand {
		r.inner--
		bytes *= r.shape[r.inner]
	}
	if r.inner > 0 {
		r.rows = max(1, maxBand/bytes)
	}
	r.next = make([]int64, r.inner)
	return r
}

func (r *stridedReader) Close() error { return nil }

func (r *stridedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.out) == 0 {
		if r.done {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// fill makes the next band: some rows of the dimension above inner, each with all that lies below.
func (r *stridedReader) fill() error {
	start := int64(0)
	for i, at := range r.next {
		start += at * r.strides[i]
	}
	shape, strides := r.shape[r.inner:], r.strides[r.inner:]
	if last := r.inner - 1; last >= 0 {
		rows := min(r.rows, r.shape[last]-r.next[last])
		shape = append([]int64{rows}, shape...)
		strides = append([]int64{r.strides[last]}, strides...)
		r.next[last] += rows
		for i := last; i >= 0 && r.next[i] == r.shape[i]; i-- {
			r.next[i] = 0
			if i == 0 {
				r.done = true
			} else {
				r.next[i-1]++
			}
		}
	} else {
		r.done = true
	}
	n := r.size
	for _, d := range shape {
		n *= d
	}
	if int64(cap(r.band)) < n {
		r.band = make([]byte, n)
	}
	r.out = r.band[:n]
	if err := r.gather(start, shape, strides); err != nil {
		r.out, r.done = nil, true
		return err
	}
	return nil
}

// A stridedAxis is one of a band: how many, how far apart in the storage and in the result (elements).
type stridedAxis struct{ n, from, to int64 }

// gather fills the band, whose element 0 is element start of the view. The storage is read in blocks, along the axes
// whose elements lie nearest to one another there.
func (r *stridedReader) gather(start int64, shape, strides []int64) error {
	axes, to := make([]stridedAxis, len(shape)), int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		axes[i] = stridedAxis{shape[i], strides[i], to}
		to *= shape[i]
	}
	slices.SortStableFunc(axes, func(a, b stridedAxis) int { return cmp.Compare(a.from, b.from) })
	within, extent := 0, int64(1) // axes of a block, and elements of the storage that it reaches over
	for within < len(axes) {
		grown := extent + (axes[within].n-1)*axes[within].from
		if grown*r.size > maxBlock {
			break
		}
		extent, within = grown, within+1
	}
	if within < len(axes) { // as much of the next axis as a block holds
		whole := axes[within]
		if part := min(whole.n, 1+(maxBlock/r.size-extent)/max(1, whole.from)); part > 1 {
			for at := int64(0); at < whole.n; at += part {
				n := min(part, whole.n-at)
				block := append(slices.Clone(axes[:within]), stridedAxis{n, whole.from, whole.to})
				err := r.blocks(start+at*whole.from, at*whole.to, axes[within+1:], block, extent+(n-1)*whole.from)
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	return r.blocks(start, 0, axes[within:], slices.Clone(axes[:within]), extent)
}

// blocks goes through the axes above those of a block, and reads one for each step.
func (r *stridedReader) blocks(from, to int64, above, block []stridedAxis, extent int64) error {
	// the result is written in its order: the block is small enough to lie in a cache, and the result is not
	slices.SortFunc(block, func(a, b stridedAxis) int { return cmp.Compare(a.to, b.to) })
	if last := len(above) - 1; last >= 0 {
		for i := range above[last].n {
			err := r.blocks(from+i*above[last].from, to+i*above[last].to, above[:last], block, extent)
			if err != nil {
				return err
			}
		}
		return nil
	}
	if int64(cap(r.block)) < extent*r.size {
		r.block = make([]byte, extent*r.size)
	}
	content := r.block[:extent*r.size]
	if n, err := r.at.ReadAt(content, r.offset+from*r.size); n < len(content) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("reading a view: %w", err)
	}
	r.scatter(content, 0, to, block)
	return nil
}

func (r *stridedReader) scatter(block []byte, from, to int64, axes []stridedAxis) {
	size := r.size
	if len(axes) == 0 {
		copy(r.out[to*size:(to+1)*size], block[from*size:])
		return
	}
	last := axes[len(axes)-1]
	switch {
	case len(axes) > 1:
		for i := range last.n {
			r.scatter(block, from+i*last.from, to+i*last.to, axes[:len(axes)-1])
		}
	case last.from == 1 && last.to == 1:
		copy(r.out[to*size:(to+last.n)*size], block[from*size:])
	case size == 4: // the commonest, without a call for each element
		for i := range last.n {
			o, b := (to+i*last.to)*4, (from+i*last.from)*4
			*(*[4]byte)(r.out[o:]) = *(*[4]byte)(block[b:])
		}
	default:
		for i := range last.n {
			o, b := (to+i*last.to)*size, (from+i*last.from)*size
			copy(r.out[o:o+size], block[b:b+size])
		}
	}
}
