package hdf5

import (
	"bytes"
	"fmt"
	"io"
)

// A Dataset is an array.
type Dataset struct {
	Object
	Type  Type
	Shape []int64 // outermost first; empty: a scalar
	Null  bool    // it has a type, and no elements
	Link  string  // where it was found by a soft link: what the link says; else empty
	Bytes int64   // what Open gives
	Wrong string  // why it cannot be read; else empty

	where   uint64 // address of its elements, or of the index to its chunks
	layout  layout
	most    []uint64 // what each dimension may grow to; undefined: without end
	filters []filter
	fill    []byte // an element where nothing was written, in the file's order; nil: zeros
}

// Kinds of layouts (section IV.A.2.i).
const (
	compact    = 0
	contiguous = 1
	chunked    = 2
	virtual    = 3
)

// Indices of chunks in a layout of version 4; the tree of version 1 is that of layout 3.
const (
	indexTree1      = 0
	indexSingle     = 1
	indexImplicit   = 2
	indexFixed      = 3
	indexExtensible = 4
	indexTree2      = 5
)

type layout struct {
	class   uint8
	address uint64 // of the data, or of the index
	size    uint64 // of contiguous data
	data    []byte // compact
	chunk   []uint64
	index   uint8
	whole   bool   // chunks that stand out at the edge have no filters
	single  uint64 // bytes of the one chunk, after its filters
	mask    uint32 // of the one chunk
}

type filter struct {
	id     uint16
	values []uint32
}

// Filters (section IV.A.2.l).
const (
	filterDeflate  = 1
	filterShuffle  = 2
	filterFletcher = 3
	filterLZF      = 32000 // h5py's own, registered with the HDF Group
)

var filterNames = map[uint16]string{4: "szip", 5: "nbit", 6: "scaleoffset", 305: "lzo", 307: "bzip2", 32001: "blosc",
	32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32026: "blosc2"}

// Where says at which byte of the file its elements lie, or the index to its chunks.
func (d *Dataset) Where() string {
	switch {
	case d.layout.class != compact && d.layout.address == undefined:
		return "nowhere: it was never written"
	case d.layout.class == chunked:
		return fmt.Sprintf("chunks, their index at byte %d", d.f.base+int64(d.where))
	}
	return fmt.Sprintf("byte %d", d.f.base+int64(d.where))
}

// Layout is "compact", "contiguous" or "chunked", with the filters' names.
func (d *Dataset) Layout() string {
	name := []string{"compact", "contiguous", "chunked", "virtual"}[d.layout.class]
	for _, f := range d.filters {
		name += ", " + f.name()
	}
	return name
}

func (f filter) name() string {
	switch f.id {
	case filterDeflate:
		return "deflate"
	case filterShuffle:
		return "shuffle"
	case filterFletcher:
		return "fletcher32"
	case filterLZF:
		return "lzf"
	}
	if name := filterNames[f.id]; name != "" {
		return name
	}
	return fmt.Sprintf("filter %d", f.id)
}

// dataset reads what a dataset is. What this reader cannot read is no error: Wrong says it.
func (s *source) dataset(object Object) (*Dataset, error) {
	d := &Dataset{Object: object, where: object.Address}
	var sp space
	var seen [256]bool
	for _, m := range object.messages {
		if m.kind < 256 {
			seen[m.kind] = true
		}
		var err error
		c := m.open()
		switch m.kind {
		case kindDatatype:
			d.Type, err = parseType(c, 0)
		case kindDataspace:
			sp, err = parseSpace(c)
		case kindLayout:
			err = d.parseLayout(c)
		case kindFilters:
			d.filters, err = parseFilters(c)
		case kindFill, kindOldFill:
			if fill, ferr := parseFill(c, m.kind == kindOldFill); ferr != nil {
				err = ferr
			} else if fill != nil {
				d.fill = fill
			}
		case kindExternal:
			d.wrong("data in other files at %#x", c.here())
		}
		if err != nil {
			return nil, err
		}
	}
	if !seen[kindDatatype] || !seen[kindDataspace] {
		return nil, broken(object.Address, "a dataset without a type or a shape")
	}
	d.Shape, d.Null = sp.shape, sp.null
	elements, ok := sp.elements()
	if !ok || elements > 1<<62/uint64(d.Type.Size) {
		return nil, broken(object.Address, fmt.Sprintf("a dataset of shape %v", sp.shape))
	}
	need := elements * uint64(d.Type.Size)
	d.Bytes = int64(need)
	if len(d.fill) != d.Type.Size {
		if len(d.fill) > 0 {
			return nil, broken(object.Address, fmt.Sprintf("a value of %d bytes fills elements of %d", len(d.fill),
				d.Type.Size))
		}
		d.fill = nil
	}
	if d.Type.Wrong != "" && d.Type.Name != "opaque" {
		d.wrong("%s", d.Type.Wrong)
	}
	if d.Wrong != "" {
		return d, nil
	}
	return d, d.agree(need, sp)
}

// agree holds what a dataset says of itself against the file.
func (d *Dataset) agree(need uint64, sp space) error {
	l, size := &d.layout, uint64(d.f.size)
	switch l.class {
	case compact:
		if uint64(len(l.data)) < need {
			return broken(d.Address, fmt.Sprintf("%d bytes where %d are wanted", len(l.data), need))
		}
	case contiguous:
		if l.address != undefined && need > 0 {
			if l.size < need {
				return broken(d.Address, fmt.Sprintf("%d bytes are kept where %d are wanted", l.size, need))
			}
			if l.address > size || need > size-l.address {
				return broken(l.address, fmt.Sprintf("%d bytes lie beyond the file, which has %d", need, size))
			}
		}
	case chunked:
		if len(l.chunk) != len(d.Shape)+1 {
			return broken(d.Address, fmt.Sprintf("chunks of %d dimensions in a dataset of %d", len(l.chunk)-1,
				len(d.Shape)))
		}
		if l.chunk[len(l.chunk)-1] != uint64(d.Type.Size) {
			return broken(d.Address, fmt.Sprintf("chunks of elements of %d bytes, which have %d",
				l.chunk[len(l.chunk)-1], d.Type.Size))
		}
		n := uint64(1)
		for _, c := range l.chunk {
			if c == 0 || c > mostSlab/n {
				d.wrong("a chunk of %v at %#x, larger than %d bytes", l.chunk, d.Address, mostSlab)
				return nil
			}
			n *= c
		}
		for _, f := range d.filters {
			switch f.id {
			case filterDeflate, filterShuffle, filterFletcher, filterLZF:
			default:
				d.wrong("%s filter at %#x", f.name(), d.Address)
			}
		}
	}
	// What was never written is filled, and what repeats packs well: both may be larger than the file, within reason.
	if need > leastBudget && need/mostInflate > size {
		d.wrong("a dataset of %d bytes in a file of %d at %#x", need, size, d.Address)
	}
	d.most = sp.most
	return nil
}

func (d *Dataset) wrong(format string, values ...any) {
	if d.Wrong == "" {
		d.Wrong = fmt.Sprintf(format, values...)
	}
}

// parseLayout reads a data layout message (section IV.A.2.i).
func (d *Dataset) parseLayout(c *cursor) error {
	at := c.here()
	version := c.u8()
	if version == 1 || version == 2 {
		return d.parseOldLayout(c)
	}
	if version != 3 && version != 4 {
		d.wrong("layout message version %d at %#x", version, at)
		return c.err
	}
	l := &d.layout
	l.class = c.u8()
	switch l.class {
	case compact:
		l.data = bytes.Clone(c.take(int(c.u16())))
		d.where = at + 4
	case contiguous:
		l.address, l.size = c.offset(), c.length()
		d.where = l.address
	case chunked:
		if version == 3 {
			rank := int(c.u8())
			l.address = c.offset()
			for range rank {
				l.chunk = append(l.chunk, uint64(c.u32()))
			}
		} else {
			d.parseChunked4(c)
		}
		d.where = l.address
	case virtual:
		d.wrong("virtual layout at %#x", at)
	default:
		return broken(at, fmt.Sprintf("a layout of class %d", l.class))
	}
	return c.err
}

// parseOldLayout reads what releases before 1.6.3 wrote.
func (d *Dataset) parseOldLayout(c *cursor) error {
	l := &d.layout
	rank := int(c.u8())
	l.class = c.u8()
	c.skip(5)
	switch l.class {
	case compact:
		c.skip(4 * rank)
		d.where = c.here() + 4
		l.data = bytes.Clone(c.take(int(c.u32())))
	case contiguous:
		l.address, l.size = c.offset(), undefined // no size is kept
		d.where = l.address
	case chunked:
		l.address = c.offset()
		d.where = l.address
		for range rank { // of an element, too
			l.chunk = append(l.chunk, uint64(c.u32()))
		}
	default:
		return broken(c.here(), fmt.Sprintf("a layout of class %d", l.class))
	}
	return c.err
}

func (d *Dataset) parseChunked4(c *cursor) {
	l := &d.layout
	flags, rank, wide := c.u8(), int(c.u8()), int(c.u8())
	if wide > 8 {
		c.err = broken(c.here(), fmt.Sprintf("dimensions of %d bytes", wide))
		return
	}
	for range rank {
		l.chunk = append(l.chunk, c.uint(wide))
	}
	l.whole = flags&1 != 0
	l.index = c.u8()
	switch l.index {
	case indexSingle:
		if flags&2 != 0 {
			l.single, l.mask = c.length(), c.u32()
		}
	case indexImplicit:
	case indexFixed:
		c.skip(1)
	case indexExtensible:
		c.skip(5)
	case indexTree2:
		c.skip(6)
	default:
		d.wrong("chunk index %d of layout message version 4 at %#x", l.index, c.here())
		return
	}
	l.address = c.offset()
}

// parseFilters reads a filter pipeline (section IV.A.2.l).
func parseFilters(c *cursor) ([]filter, error) {
	at := c.here()
	version, n := c.u8(), int(c.u8())
	switch {
	case version == 1:
		c.skip(6)
	case version != 2 && c.err == nil:
		return nil, refused(at, fmt.Sprintf("filter pipeline version %d", version))
	}
	var filters []filter
	for range n {
		f := filter{id: c.u16()}
		name := 0
		if version == 1 || f.id >= 256 {
			name = int(c.u16())
		}
		c.skip(2) // flags
		values := int(c.u16())
		if version == 1 {
			name = (name + 7) / 8 * 8
		}
		c.skip(name)
		for range values {
			if c.err != nil {
				return nil, c.err
			}
			f.values = append(f.values, c.u32())
		}
		if version == 1 && values%2 == 1 {
			c.skip(4)
		}
		if c.err != nil {
			return nil, c.err
		}
		filters = append(filters, f)
	}
	return filters, nil
}

// parseFill reads the value of what was never written (sections IV.A.2.e and IV.A.2.f); nil where there is none.
func parseFill(c *cursor, old bool) ([]byte, error) {
	at := c.here()
	if !old {
		version := c.u8()
		switch version {
		case 1, 2:
			c.skip(2)
			if defined := c.u8(); version == 2 && defined == 0 {
				return nil, c.err
			}
		case 3:
			if c.u8()&0x20 == 0 {
				return nil, c.err
			}
		default:
			return nil, refused(at, fmt.Sprintf("fill value message version %d", version))
		}
	}
	n := c.u32()
	if n == 0 || n > 1<<16 {
		return nil, c.err
	}
	return bytes.Clone(c.take(int(n))), c.err
}

// Open gives the elements in row-major order and little-endian; those of an opaque type as they are.
func (d *Dataset) Open() (io.ReadCloser, error) {
	if d.Wrong != "" {
		return nil, fmt.Errorf("%s: %w", quoted(d.Path), refusedAs(d.Wrong))
	}
	if d.Bytes == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	var r io.Reader
	switch d.layout.class {
	case compact:
		r = bytes.NewReader(d.layout.data[:d.Bytes])
	case contiguous:
		if d.layout.address == undefined {
			r = &filled{fill: d.fill, left: d.Bytes}
		} else {
			r = io.NewSectionReader(d.f.r, int64(d.layout.address), d.Bytes)
		}
	case chunked:
		c, err := d.chunks()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quoted(d.Path), err)
		}
		r = c
	}
	if d.Type.Big && d.Type.unit > 1 {
		r = &swapped{r: r, unit: d.Type.unit}
	}
	return io.NopCloser(r), nil
}

// filled gives elements that were never written.
type filled struct {
	fill []byte
	left int64
	at   int
}

func (r *filled) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	if r.fill == nil {
		clear(p)
	} else {
		for i := range p {
			p[i] = r.fill[r.at]
			r.at = (r.at + 1) % len(r.fill)
		}
	}
	r.left -= int64(len(p))
	return len(p), nil
}

// swapped turns big-endian elements.
type swapped struct {
	r    io.Reader
	unit int
	buf  []byte
	have []byte
}

func (r *swapped) Read(p []byte) (int, error) {
	if len(r.have) == 0 {
		if r.buf == nil {
			r.buf = make([]byte, 1<<16)
		}
		n, err := io.ReadFull(r.r, r.buf)
		if n%r.unit != 0 {
			return 0, io.ErrUnexpectedEOF
		}
		if n == 0 {
			return 0, err
		}
		r.have = r.buf[:n]
		swap(r.have, r.unit)
	}
	n := copy(p, r.have)
	r.have = r.have[n:]
	return n, nil
}
