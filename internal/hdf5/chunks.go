package hdf5

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"
)

// A chunk is where one lies, and which filters were left out for it (bit by position).
type chunk struct {
	address, size uint64
	mask          uint32
	number        uint64 // in row-major order among those that the dataset has now
}

// chunkReader puts chunks together, a row of them at a time: those that share the first coordinate.
type chunkReader struct {
	d     *Dataset
	rest  []chunk // by number: those of the rows to come
	grid  []uint64
	row   uint64 // that comes next
	slab  []byte
	next  io.Reader
	bytes uint64 // of a chunk
}

// mostChunks of a dataset, each of which takes 32 bytes in memory.
const mostChunks = 1 << 22

// chunks reads the index.
func (d *Dataset) chunks() (*chunkReader, error) {
	r := &chunkReader{d: d, bytes: 1}
	for _, n := range d.layout.chunk {
		r.bytes *= n
	}
	for i, n := range d.Shape {
		r.grid = append(r.grid, (uint64(n)+d.layout.chunk[i]-1)/d.layout.chunk[i])
	}
	if d.layout.address == undefined {
		return r, nil
	}
	s := d.f.source()
	add := func(c chunk, at []uint64) error {
		if c.address == undefined {
			return nil
		}
		for i := range at {
			if at[i] >= r.grid[i] {
				return nil // left from when the dataset was larger
			}
			c.number = c.number*r.grid[i] + at[i]
		}
		size := uint64(d.f.size)
		if c.address > size || c.size > size-c.address {
			return broken(c.address, fmt.Sprintf("a chunk of %d bytes lies beyond the file, which has %d", c.size, size))
		}
		if r.rest = append(r.rest, c); len(r.rest) > mostChunks {
			return refused(d.layout.address, fmt.Sprintf("an index of more than %d chunks", mostChunks))
		}
		return nil
	}
	var err error
	switch d.layout.index {
	case indexTree1:
		err = d.indexTree1(s, add)
	case indexSingle:
		c := chunk{address: d.layout.address, size: r.bytes, mask: d.layout.mask}
		if len(d.filters) > 0 && d.layout.single > 0 {
			c.size = d.layout.single
		}
		err = add(c, make([]uint64, len(d.Shape)))
	case indexImplicit:
		err = d.indexImplicit(r.bytes, add)
	case indexFixed:
		err = d.indexFixed(s, r.bytes, add)
	case indexExtensible:
		err = d.indexExtensible(s, r.bytes, add)
	case indexTree2:
		err = d.indexTree2(s, r.bytes, add)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(r.rest, func(a, b chunk) int { return cmp.Compare(a.number, b.number) })
	for i := range r.rest {
		if i > 0 && r.rest[i].number == r.rest[i-1].number {
			return nil, broken(r.rest[i].address, "two chunks have the same place")
		}
	}
	return r, nil
}

// indexTree1 reads an index of layout 3: its keys are size, mask and offset of a chunk (section III.A.1).
func (d *Dataset) indexTree1(s *source, add func(chunk, []uint64) error) error {
	key := 8 + 8*len(d.layout.chunk)
	return s.tree1(d.layout.address, 1, key, func(k *cursor, child uint64) error {
		c := chunk{address: child, size: uint64(k.u32()), mask: k.u32()}
		at := make([]uint64, len(d.Shape))
		for i := range d.Shape {
			offset := k.uint(8)
			if offset%d.layout.chunk[i] != 0 {
				return broken(k.address, fmt.Sprintf("a chunk at offset %d of dimension %d", offset, i))
			}
			at[i] = offset / d.layout.chunk[i]
		}
		if k.err != nil {
			return k.err
		}
		return add(c, at)
	})
}

// grid is how many chunks each dimension can have: by its largest extent, not by its present one.
func (d *Dataset) grid() []uint64 {
	grid := make([]uint64, len(d.Shape))
	for i, n := range d.most {
		grid[i] = 1 // without end: it counts the others alone
		if n != undefined {
			grid[i] = n/d.layout.chunk[i] + min(n%d.layout.chunk[i], 1)
		}
	}
	return grid
}

// place turns the number of a chunk into coordinates, for dimensions in an order of their own.
func place(number uint64, grid []uint64, order []int) []uint64 {
	at := make([]uint64, len(grid))
	for i := len(order) - 1; i > 0; i-- {
		n := max(grid[order[i]], 1)
		at[order[i]] = number % n
		number /= n
	}
	at[order[0]] = number
	return at
}

func natural(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// indexImplicit: all chunks lie one after the other (section VII, "Implicit Index").
func (d *Dataset) indexImplicit(bytes uint64, add func(chunk, []uint64) error) error {
	grid, order, total := d.grid(), natural(len(d.Shape)), uint64(1)
	for _, n := range grid {
		high, low := bits.Mul64(total, n)
		if high != 0 || low > uint64(d.f.size) {
			return broken(d.layout.address, "more chunks than the file has bytes")
		}
		total = low
	}
	for i := range total {
		c := chunk{address: d.layout.address + i*bytes, size: bytes}
		if err := add(c, place(i, grid, order)); err != nil {
			return err
		}
	}
	return nil
}

// An element of an array of chunks: an address, and where there are filters a size and a mask (section VII).
func (c *cursor) chunk(filtered bool, each int, bytes uint64) chunk {
	at := chunk{address: c.offset(), size: bytes}
	if filtered {
		at.size = c.uint(each - c.o - 4)
		at.mask = c.u32()
	}
	return at
}

// elementsAre holds the size of an array's elements against what they are.
func elementsAre(s *source, at uint64, kind uint8, each int) (bool, error) {
	filtered := kind == 1
	if kind > 1 || !filtered && each != s.f.o || filtered && (each < s.f.o+5 || each > s.f.o+12) {
		return false, broken(at, fmt.Sprintf("an array of chunks of kind %d with elements of %d bytes", kind, each))
	}
	return filtered, nil
}

// indexFixed reads a fixed array (section VII.C, "Fixed Array Index").
func (d *Dataset) indexFixed(s *source, bytes uint64, add func(chunk, []uint64) error) error {
	address := d.layout.address
	c, err := s.checked(address, uint64(8+s.f.l+s.f.o+4), "FAHD")
	if err != nil {
		return err
	}
	version, kind, each, pageBits := c.u8(), c.u8(), int(c.u8()), int(c.u8())
	if version != 0 || pageBits > 32 {
		return refused(address, fmt.Sprintf("fixed array version %d", version))
	}
	filtered, err := elementsAre(s, address, kind, each)
	if err != nil {
		return err
	}
	total, data := c.length(), c.offset()
	if c.err != nil || data == undefined {
		return c.err
	}
	if total > uint64(s.f.size) {
		return broken(address, fmt.Sprintf("an array of %d chunks", total))
	}
	grid, order := d.grid(), natural(len(d.Shape))
	elements := func(c *cursor, first, n uint64) error {
		for i := range n {
			e := c.chunk(filtered, each, bytes)
			if c.err != nil {
				return c.err
			}
			if err := add(e, place(first+i, grid, order)); err != nil {
				return err
			}
		}
		return nil
	}
	page := uint64(1) << pageBits
	prefix := uint64(6 + s.f.o)
	if total <= page {
		c, err := s.checked(data, prefix+total*uint64(each)+4, "FADB")
		if err != nil {
			return err
		}
		c.at = int(prefix)
		return elements(c, 0, total)
	}
	pages := (total + page - 1) / page
	flags := (pages + 7) / 8
	if c, err = s.checked(data, prefix+flags+4, "FADB"); err != nil {
		return err
	}
	c.at = int(prefix)
	made := c.take(int(flags))
	at := data + prefix + flags + 4
	for i := range pages {
		n := min(page, total-i*page)
		if made[i/8]&(0x80>>(i%8)) != 0 {
			c, err := s.checked(at, n*uint64(each)+4, "")
			if err != nil {
				return err
			}
			if err := elements(c, i*page, n); err != nil {
				return err
			}
		}
		at += n*uint64(each) + 4
	}
	return nil
}

// indexExtensible reads an extensible array (section VII.D, "Extensible Array Index"): of a dataset with one dimension
// without end, which the array counts first.
func (d *Dataset) indexExtensible(s *source, bytes uint64, add func(chunk, []uint64) error) error {
	address := d.layout.address
	c, err := s.checked(address, uint64(12+6*s.f.l+s.f.o+4), "EAHD")
	if err != nil {
		return err
	}
	version, kind, each := c.u8(), c.u8(), int(c.u8())
	mostBits, inIndex, least := int(c.u8()), uint64(c.u8()), uint64(c.u8())
	leastPointers, pageBits := uint64(c.u8()), int(c.u8())
	if version != 0 {
		return refused(address, fmt.Sprintf("extensible array version %d", version))
	}
	filtered, err := elementsAre(s, address, kind, each)
	if err != nil {
		return err
	}
	if mostBits > 64 || pageBits > 32 || bits.OnesCount64(least) != 1 || bits.OnesCount64(leastPointers) != 1 ||
		leastPointers < 2 || mostBits < bits.Len64(least)-1 {
		return broken(address, "an extensible array whose blocks have no sizes")
	}
	for range 4 {
		c.length()
	}
	set := c.length() // the highest that was set, and one
	c.length()
	index := c.offset()
	if c.err != nil || index == undefined {
		return c.err
	}
	order := natural(len(d.Shape))
	endless := slices.Index(d.most, undefined)
	if endless < 0 {
		return broken(address, "an extensible array for a dataset that cannot grow")
	}
	order = append([]int{endless}, slices.Delete(order, endless, endless+1)...)
	grid := d.grid()
	number := uint64(0)
	elements := func(c *cursor, n uint64) error {
		for range n {
			e := c.chunk(filtered, each, bytes)
			if c.err != nil {
				return c.err
			}
			if number < set {
				if err := add(e, place(number, grid, order)); err != nil {
					return err
				}
			}
			number++
		}
		return nil
	}
	// Sizes of super blocks: H5EA__hdr_init of the library, to which section VII.D's figures agree.
	inBlock := func(super int) (blocks, elements uint64) { return 1 << (super / 2), least << ((super + 1) / 2) }
	supers := 1 + mostBits - (bits.Len64(least) - 1)
	direct := 2 * (bits.Len64(leastPointers) - 1) // super blocks whose data blocks the index names itself
	directBlocks := 2 * (leastPointers - 1)
	beyond := max(supers-direct, 0)
	offsetWide := (mostBits + 7) / 8
	page := uint64(1) << pageBits

	// dataBlock reads one, whose pages were made where the bits from first on say so.
	dataBlock := func(at, n uint64, made []byte, first uint64) error {
		if at == undefined || number >= set {
			number += n
			return nil
		}
		prefix := uint64(6 + s.f.o + offsetWide)
		if n <= page {
			if n > uint64(s.f.size) {
				return broken(at, "a data block that is larger than the file")
			}
			c, err := s.checked(at, prefix+n*uint64(each)+4, "EADB")
			if err != nil {
				return err
			}
			c.at = int(prefix)
			return elements(c, n)
		}
		if _, err := s.checked(at, prefix+4, "EADB"); err != nil {
			return err
		}
		at += prefix + 4
		for i := range n / page {
			bit := first + i
			if bit/8 >= uint64(len(made)) || made[bit/8]&(0x80>>(bit%8)) == 0 {
				number += page
			} else {
				c, err := s.checked(at, page*uint64(each)+4, "")
				if err != nil {
					return err
				}
				if err := elements(c, page); err != nil {
					return err
				}
			}
			at += page*uint64(each) + 4
		}
		return nil
	}

	size := uint64(6+s.f.o) + inIndex*uint64(each) + (directBlocks+uint64(beyond))*uint64(s.f.o) + 4
	if c, err = s.checked(index, size, "EAIB"); err != nil {
		return err
	}
	c.at = 6 + s.f.o
	if err := elements(c, inIndex); err != nil {
		return err
	}
	for super := range direct {
		blocks, n := inBlock(super)
		for range blocks {
			if err := dataBlock(c.offset(), n, nil, 0); err != nil {
				return err
			}
		}
	}
	for super := direct; super < supers && number < set; super++ {
		blocks, n := inBlock(super)
		at := c.offset()
		if at == undefined {
			number += blocks * n
			continue
		}
		flags := uint64(0) // bytes that a block adds to the bits of pages, which stand together all the same
		if n > page {
			flags = (n/page + 7) / 8
		}
		if blocks > uint64(s.f.size) || flags > uint64(s.f.size) {
			return broken(at, "a super block that is larger than the file")
		}
		prefix := uint64(6 + s.f.o + offsetWide)
		sb, err := s.checked(at, prefix+blocks*flags+blocks*uint64(s.f.o)+4, "EASB")
		if err != nil {
			return err
		}
		sb.at = int(prefix)
		made := sb.take(int(blocks * flags))
		for i := range blocks {
			if err := dataBlock(sb.offset(), n, made, i*(n/page)); err != nil {
				return err
			}
		}
	}
	return c.err
}

// indexTree2 reads an index for a dataset that grows in several dimensions (section VII.E).
func (d *Dataset) indexTree2(s *source, bytes uint64, add func(chunk, []uint64) error) error {
	const plain, filtered = 10, 11 // kinds of records (section III.A.2)
	return s.tree2(d.layout.address, []uint8{plain, filtered}, func(kind uint8, c *cursor) error {
		each := c.left() - 8*len(d.Shape)
		if kind == filtered && (each < c.o+5 || each > c.o+12) {
			return broken(c.address, fmt.Sprintf("records of %d bytes", c.left()))
		}
		e := c.chunk(kind == filtered, each, bytes)
		at := make([]uint64, len(d.Shape))
		for i := range at {
			at[i] = c.uint(8)
		}
		if c.err != nil {
			return c.err
		}
		return add(e, at)
	})
}

// Read gives the elements in row-major order.
func (r *chunkReader) Read(p []byte) (int, error) {
	for {
		if r.next != nil {
			if n, err := r.next.Read(p); n > 0 || err != io.EOF {
				return n, err
			}
			r.next = nil
		}
		done := r.row * r.d.layout.chunk[0]
		if done >= uint64(r.d.Shape[0]) {
			return 0, io.EOF
		}
		if err := r.fillSlab(done); err != nil {
			return 0, fmt.Errorf("%s: %w", quoted(r.d.Path), err)
		}
		r.row++
	}
}

// fillSlab reads a row of chunks.
func (r *chunkReader) fillSlab(first uint64) error {
	d := r.d
	height := min(d.layout.chunk[0], uint64(d.Shape[0])-first)
	size := height * (uint64(d.Bytes) / uint64(d.Shape[0]))
	inRow := uint64(1)
	for _, n := range r.grid[1:] {
		inRow *= n
	}
	n := 0
	for n < len(r.rest) && r.rest[n].number/inRow == r.row {
		n++
	}
	chunks := r.rest[:n]
	r.rest = r.rest[n:]
	if n == 0 {
		r.next = &filled{fill: d.fill, left: int64(size)}
		return nil
	}
	if size > mostSlab {
		return refused(chunks[0].address, fmt.Sprintf("a row of chunks of %d bytes, more than %d,", size, mostSlab))
	}
	if uint64(cap(r.slab)) < size {
		r.slab = make([]byte, size)
	}
	r.slab = r.slab[:size]
	if _, err := io.ReadFull(&filled{fill: d.fill, left: int64(size)}, r.slab); err != nil {
		return err
	}
	shape := []uint64{height}
	for _, n := range d.Shape[1:] {
		shape = append(shape, uint64(n))
	}
	for _, c := range chunks {
		at := place(c.number, r.grid, natural(len(r.grid)))
		data, err := r.decode(c, at)
		if err != nil {
			return err
		}
		at[0] = 0
		scatter(r.slab, data, shape, d.layout.chunk, at, uint64(d.Type.Size))
	}
	r.next = bytes.NewReader(r.slab)
	return nil
}

// scatter copies a chunk to its place, run by run along the innermost dimension.
func scatter(slab, data []byte, shape, chunk, at []uint64, element uint64) {
	var copyRuns func(dimension int, slab, data []byte)
	copyRuns = func(dimension int, slab, data []byte) {
		first := at[dimension] * chunk[dimension]
		n := min(chunk[dimension], shape[dimension]-first)
		slabStep, dataStep := element, element
		for i := dimension + 1; i < len(shape); i++ {
			slabStep *= shape[i]
			dataStep *= chunk[i]
		}
		if dimension == len(shape)-1 {
			copy(slab[first*element:][:n*element], data)
			return
		}
		for i := range n {
			copyRuns(dimension+1, slab[(first+i)*slabStep:], data[i*dataStep:])
		}
	}
	copyRuns(0, slab, data)
}

// decode reads the chunk at a place and takes its filters off, the last first.
func (r *chunkReader) decode(c chunk, at []uint64) ([]byte, error) {
	d := r.d
	if c.size > mostSlab+1<<20 {
		return nil, refused(c.address, fmt.Sprintf("a chunk of %d bytes", c.size))
	}
	data := make([]byte, c.size)
	if _, err := d.f.r.ReadAt(data, int64(c.address)); err != nil {
		return nil, err
	}
	filters := d.filters
	if d.layout.whole {
		for i := range at {
			if (at[i]+1)*d.layout.chunk[i] > uint64(d.Shape[i]) {
				filters = nil
			}
		}
	}
	most := int(r.bytes) + 4*len(filters) // checksums
	for i := len(filters) - 1; i >= 0; i-- {
		if i < 32 && c.mask&(1<<i) != 0 {
			continue
		}
		var err error
		switch filters[i].id {
		case filterDeflate:
			data, err = inflate(data, most)
		case filterShuffle:
			data = unshuffle(data, filters[i].values, d.Type.Size)
		case filterFletcher:
			data, err = unsum(data)
		case filterLZF:
			data, err = unlzf(data, most)
		}
		if err != nil {
			return nil, broken(c.address, fmt.Sprintf("a chunk, filter %s: %v", filters[i].name(), err))
		}
	}
	if uint64(len(data)) != r.bytes {
		return nil, broken(c.address, fmt.Sprintf("a chunk has %d bytes where %d are wanted", len(data), r.bytes))
	}
	return data, nil
}

// inflaters are kept: each has 40 KiB, and chunks may be small and many.
var inflaters sync.Pool

func inflate(data []byte, most int) ([]byte, error) {
	z, _ := inflaters.Get().(io.ReadCloser)
	if z == nil {
		var err error
		if z, err = zlib.NewReader(bytes.NewReader(data)); err != nil {
			return nil, err
		}
	} else if err := z.(zlib.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	defer inflaters.Put(z)
	var out bytes.Buffer
	out.Grow(min(most, len(data)*4) + 512)
	n, err := io.Copy(&out, io.LimitReader(z, int64(most)+1))
	if err == nil && n > int64(most) {
		err = fmt.Errorf("it unpacks to more than %d bytes", most)
	}
	return out.Bytes(), err
}

// unshuffle: the first bytes of all elements stood first, then the second bytes, and so on; what is left over at the
// end stands as it was.
func unshuffle(data []byte, values []uint32, element int) []byte {
	if len(values) > 0 && values[0] > 0 && values[0] <= 1<<16 {
		element = int(values[0])
	}
	n := len(data) / element
	if element < 2 || n < 2 {
		return data
	}
	out := make([]byte, len(data))
	for i := range element {
		from := data[i*n:]
		for j := range n {
			out[j*element+i] = from[j]
		}
	}
	copy(out[n*element:], data[n*element:])
	return out
}

// unsum takes a checksum off and holds it against the data: Fletcher's, of big-endian words of 16 bits, as
// H5_checksum_fletcher32 of the library has it.
func unsum(data []byte) ([]byte, error) {
	if len(data) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	kept := binary.LittleEndian.Uint32(data[len(data)-4:])
	data = data[:len(data)-4]
	if found := fletcher32(data); found != kept {
		return nil, fmt.Errorf("the checksum is %#x and should be %#x", found, kept)
	}
	return data, nil
}

func fletcher32(data []byte) uint32 {
	one, two := uint32(0), uint32(0)
	for len(data) >= 2 {
		n := min(len(data)/2, 360) // sums stay below 32 bits
		for range n {
			one += uint32(data[0])<<8 | uint32(data[1])
			two += one
			data = data[2:]
		}
		one, two = one&0xffff+one>>16, two&0xffff+two>>16
	}
	if len(data) == 1 {
		one += uint32(data[0]) << 8
		two += one
		one, two = one&0xffff+one>>16, two&0xffff+two>>16
	}
	one, two = one&0xffff+one>>16, two&0xffff+two>>16
	return two<<16 | one
}

// unlzf unpacks h5py's own filter: LibLZF's format, runs of literals and references to what came before.
func unlzf(data []byte, most int) ([]byte, error) {
	var out []byte
	for len(data) > 0 {
		control := int(data[0])
		data = data[1:]
		if control < 32 {
			n := control + 1
			if n > len(data) || len(out)+n > most {
				return nil, io.ErrUnexpectedEOF
			}
			out = append(out, data[:n]...)
			data = data[n:]
			continue
		}
		n := control >> 5
		if n == 7 && len(data) > 0 {
			n += int(data[0])
			data = data[1:]
		}
		if len(data) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		back := (control&31)<<8 + int(data[0]) + 1
		data = data[1:]
		n += 2
		if back > len(out) || len(out)+n > most {
			return nil, fmt.Errorf("it refers to %d bytes before its start", back-len(out))
		}
		for range n {
			out = append(out, out[len(out)-back])
		}
	}
	return out, nil
}
