package hdf5

import (
	"fmt"
	"math/bits"
	"sync"
)

// A fractal holds small objects, as links and attributes (section III.G, "Fractal Heap").
type fractal struct {
	address   uint64
	idLength  int
	flags     uint8
	most      uint64 // bytes of a managed object
	huge      uint64 // B-tree of huge objects
	width     uint64
	start     uint64 // bytes of the first block
	direct    uint64 // bytes of the largest direct block
	bits      int
	root      uint64
	rows      int // of the root; 0: it is a direct block
	indirects map[uint64][]uint64
	hugeSeen  map[uint64]block // by number
}

func (s *source) fractalHeap(address uint64) (*fractal, error) {
	c, err := s.checked(address, uint64(22+12*s.f.l+3*s.f.o+4), "FRHP")
	if err != nil {
		// With filters the header is longer, and its checksum lies elsewhere.
		if head, again := s.signed(address, 9, "FRHP"); again == nil {
			if head.skip(3); head.u16() > 0 {
				return nil, refused(address, "fractal heap with filters")
			}
		}
		return nil, err
	}
	if version := c.u8(); version != 0 {
		return nil, refused(address, fmt.Sprintf("fractal heap version %d", version))
	}
	h := &fractal{address: address, indirects: map[uint64][]uint64{}}
	h.idLength = int(c.u16())
	if c.u16() > 0 {
		return nil, refused(address, "fractal heap with filters")
	}
	h.flags = c.u8()
	h.most = uint64(c.u32())
	c.length()
	h.huge = c.offset()
	c.length()
	c.offset()
	for range 8 {
		c.length()
	}
	h.width = uint64(c.u16())
	h.start, h.direct = c.length(), c.length()
	h.bits = int(c.u16())
	c.u16()
	h.root = c.offset()
	h.rows = int(c.u16())
	if c.err != nil {
		return nil, c.err
	}
	if bits.OnesCount64(h.start) != 1 || bits.OnesCount64(h.direct) != 1 || bits.OnesCount64(h.width) != 1 ||
		h.start > h.direct || h.direct > 1<<32 || h.bits > 64 || h.bits == 0 || h.rows > 64 {
		return nil, broken(address, "a fractal heap whose blocks have no sizes")
	}
	return h, nil
}

// object gives one by its id (section III.G, "Fractal Heap ID").
func (h *fractal) object(s *source, id []byte) (*cursor, error) {
	c := &cursor{b: id, o: s.f.o, l: s.f.l}
	first := c.u8()
	if c.err != nil || first>>6 != 0 {
		return nil, broken(h.address, "an id of a fractal heap of an unknown version")
	}
	switch first >> 4 & 3 {
	case 0:
		offset := c.uint((h.bits + 7) / 8)
		n := c.uint(min((bits.Len64(h.direct)-1+7)/8, widthOf(h.most)))
		if c.err != nil {
			return nil, c.err
		}
		return h.managed(s, offset, n)
	case 1:
		return h.large(s, c)
	case 2:
		n := int(first&15) + 1
		if h.idLength > 17 {
			n = (int(first&15)<<8 | int(c.u8())) + 1
		}
		return c.within(n), c.err
	}
	return nil, broken(h.address, "an id of a fractal heap of an unknown kind")
}

// blockOf gives the bytes of a block in a row of the doubling table: the first two rows are alike, each further one
// doubles.
func (h *fractal) blockOf(row int) uint64 { return h.start << max(row-1, 0) }

// managed finds an object by its offset in the space of the heap.
func (h *fractal) managed(s *source, offset, n uint64) (*cursor, error) {
	at, rows, size := h.root, h.rows, h.start
	directRows := bits.Len64(h.direct) - bits.Len64(h.start) + 2
	for depth := 0; rows > 0; depth++ {
		if depth > mostDepth {
			return nil, broken(h.address, "a fractal heap that is too deep")
		}
		children, err := h.indirect(s, at, rows, directRows)
		if err != nil {
			return nil, err
		}
		row, before := 0, uint64(0)
		for ; row < rows; row++ {
			if offset-before < h.blockOf(row)*h.width {
				break
			}
			before += h.blockOf(row) * h.width
		}
		if row == rows {
			return nil, broken(h.address, "an object lies beyond its fractal heap")
		}
		size = h.blockOf(row)
		column := (offset - before) / size
		offset = (offset - before) % size
		at = children[uint64(row)*h.width+column]
		if row < directRows {
			break
		}
		// Rows of an indirect block that spans so many bytes.
		rows = bits.Len64(size) - bits.Len64(h.start) - bits.Len64(h.width) + 2
	}
	head := uint64(5 + s.f.o + (h.bits+7)/8)
	if offset < head || n > size || offset > size-n {
		return nil, broken(h.address, "an object lies beyond its block of a fractal heap")
	}
	if _, err := s.signed(at, 5, "FHDB"); err != nil {
		return nil, err
	}
	return s.read(at+offset, n)
}

// indirect reads the children of an indirect block.
func (h *fractal) indirect(s *source, at uint64, rows, directRows int) ([]uint64, error) {
	if known, ok := h.indirects[at]; ok && len(known) == rows*int(h.width) {
		return known, nil
	}
	head := 5 + s.f.o + (h.bits+7)/8
	c, err := s.checked(at, uint64(head+rows*int(h.width)*s.f.o+4), "FHIB")
	if err != nil {
		return nil, err
	}
	c.at = head
	children := make([]uint64, rows*int(h.width))
	for i := range children {
		children[i] = c.offset()
	}
	h.indirects[at] = children
	return children, c.err
}

// large finds a huge object: by its number in a tree, or by the address that the id has.
func (h *fractal) large(s *source, id *cursor) (*cursor, error) {
	if h.idLength-1 >= s.f.o+s.f.l {
		at, n := id.offset(), id.length()
		if id.err != nil {
			return nil, id.err
		}
		return s.read(at, n)
	}
	if h.hugeSeen == nil {
		h.hugeSeen = map[uint64]block{}
		const byNumber = 1
		err := s.tree2(h.huge, []uint8{byNumber}, func(_ uint8, c *cursor) error {
			b := block{c.offset(), c.length()}
			h.hugeSeen[c.length()] = b
			return c.err
		})
		if err != nil {
			return nil, err
		}
	}
	b, ok := h.hugeSeen[id.uint(min(h.idLength-1, s.f.l))]
	if !ok {
		return nil, broken(h.address, "a huge object that the fractal heap does not have")
	}
	return s.read(b.address, b.size)
}

// collections are global heaps, where texts of variable length lie (section III.E). They are kept: one holds the texts
// of many attributes.
type collections struct {
	mu sync.Mutex
	at map[uint64]map[uint16]*cursor
}

// object gives one of a collection.
func (g *collections) object(s *source, address uint64, index uint16) (*cursor, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	objects, ok := g.at[address]
	if !ok {
		head, err := s.signed(address, uint64(8+s.f.l), "GCOL")
		if err != nil {
			return nil, err
		}
		head.skip(4)
		c, err := s.read(address, head.length())
		if err != nil {
			return nil, err
		}
		objects = map[uint16]*cursor{}
		c.skip(8 + s.f.l)
		for c.left() >= 8+s.f.l {
			i := c.u16()
			c.skip(6)
			n := c.length()
			if i == 0 { // what is left is free
				break
			}
			if n > uint64(c.left()) {
				return nil, broken(c.here(), "an object is larger than its global heap")
			}
			objects[i] = c.within(int(n))
			c.skip(min(int(-n&7), c.left()))
			if c.err != nil {
				return nil, c.err
			}
		}
		g.at[address] = objects
	}
	object, ok := objects[index]
	if !ok {
		return nil, broken(address, fmt.Sprintf("the global heap has no object %d", index))
	}
	again := *object
	return &again, nil
}
