package hdf5

import (
	"fmt"
)

// Kinds of links (section IV.A.2.g).
const (
	linkHard     = 0
	linkSoft     = 1
	linkExternal = 64
)

type link struct {
	name    string
	kind    uint8
	address uint64 // of a hard link
	value   string // of a soft link
}

// linksOf reads the links of a group, old or new.
func (s *source) linksOf(messages []message) ([]link, error) {
	var links []link
	for _, m := range messages {
		var more []link
		var err error
		switch m.kind {
		case kindSymbolTable:
			more, err = s.oldLinks(m.open())
		case kindLink:
			var l link
			l, err = parseLink(m.open())
			more = []link{l}
		case kindLinkInfo:
			more, err = s.denseLinks(m.open())
		}
		if err != nil {
			return nil, err
		}
		links = append(links, more...)
		if len(links) > mostLinks {
			return nil, refused(m.body.address, fmt.Sprintf("a group of more than %d links", mostLinks))
		}
	}
	return links, nil
}

// oldLinks reads a symbol table: a B-tree of version 1 whose leaves are symbol nodes (sections III.A, III.B, III.D).
func (s *source) oldLinks(c *cursor) ([]link, error) {
	tree, heap := c.offset(), c.offset()
	if c.err != nil {
		return nil, c.err
	}
	names, err := s.localHeap(heap)
	if err != nil {
		return nil, err
	}
	var links []link
	err = s.tree1(tree, 0, s.f.l, func(_ *cursor, child uint64) error {
		head, err := s.signed(child, 8, "SNOD")
		if err != nil {
			return err
		}
		head.skip(2)
		n := int(head.u16())
		entry := 2*s.f.o + 24
		c, err := s.read(child+8, uint64(n*entry))
		if err != nil {
			return err
		}
		for range n {
			name, err := names.text(c.offset())
			if err != nil {
				return err
			}
			l := link{name: name, kind: linkHard, address: c.offset()}
			cached := c.u32()
			c.skip(4)
			scratch := c.within(16)
			if cached == 2 { // a soft link: its value lies in the heap
				l.kind = linkSoft
				if l.value, err = names.text(uint64(scratch.u32())); err != nil {
					return err
				}
			}
			links = append(links, l)
		}
		return c.err
	})
	return links, err
}

// localHeap reads a local heap (section III.D).
func (s *source) localHeap(address uint64) (texts, error) {
	c, err := s.signed(address, uint64(8+2*s.f.l+s.f.o), "HEAP")
	if err != nil {
		return texts{}, err
	}
	c.skip(4)
	size := c.length()
	c.length()
	data, err := s.read(c.offset(), size)
	if err != nil {
		return texts{}, err
	}
	return texts{data}, nil
}

// texts are those of a local heap.
type texts struct{ c *cursor }

func (t texts) text(offset uint64) (string, error) {
	c := *t.c
	if offset >= uint64(len(c.b)) {
		return "", broken(c.address, fmt.Sprintf("a name at %d lies beyond the heap of %d bytes", offset, len(c.b)))
	}
	c.at = int(offset)
	name := c.word(1)
	return name, c.err
}

// parseLink reads a link message (section IV.A.2.g).
func parseLink(c *cursor) (link, error) {
	at := c.here()
	version, flags := c.u8(), c.u8()
	if c.err == nil && version != 1 {
		return link{}, refused(at, fmt.Sprintf("link message version %d", version))
	}
	l := link{kind: linkHard}
	if flags&0x08 != 0 {
		l.kind = c.u8()
	}
	if flags&0x04 != 0 {
		c.skip(8)
	}
	if flags&0x10 != 0 {
		c.skip(1)
	}
	n := c.uint(1 << (flags & 3))
	if n > uint64(c.left()) {
		return link{}, broken(at, "the name of a link is longer than its message")
	}
	l.name = string(c.take(int(n)))
	switch l.kind {
	case linkHard:
		l.address = c.offset()
	case linkSoft:
		l.value = string(c.take(int(c.u16())))
	}
	return l, c.err
}

// denseLinks reads links that lie in a fractal heap (section IV.A.2.c, "Link Info").
func (s *source) denseLinks(c *cursor) ([]link, error) {
	var links []link
	const byName = 5 // kind of record (section III.A.2)
	err := s.dense(c, "link", 8, byName, func(heap *fractal, record *cursor) error {
		record.skip(4) // hash of the name
		body, err := heap.object(s, record.take(record.left()))
		if err != nil {
			return err
		}
		l, err := parseLink(body)
		links = append(links, l)
		return err
	})
	return links, err
}

// dense goes through what lies in the fractal heap that an info message names, links or attributes, by the records of a
// kind in its B-tree. order is how many bytes the message has for the largest order of creation, where it has one.
func (s *source) dense(c *cursor, what string, order int, kind uint8, each func(*fractal, *cursor) error) error {
	version, flags := c.u8(), c.u8()
	if c.err == nil && version != 0 {
		return refused(c.address, fmt.Sprintf("%s info message version %d", what, version))
	}
	if flags&1 != 0 {
		c.skip(order)
	}
	address, tree := c.offset(), c.offset()
	if c.err != nil || address == undefined {
		return c.err
	}
	heap, err := s.fractalHeap(address)
	if err != nil {
		return err
	}
	return s.tree2(tree, []uint8{kind}, func(_ uint8, record *cursor) error { return each(heap, record) })
}
