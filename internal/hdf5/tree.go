package hdf5

import (
	"fmt"
	"math/bits"
)

// tree1 walks a B-tree of version 1 (section III.A.1) and gives the key before each child of its leaves. Keys have a
// number of bytes that only who asks can know.
func (s *source) tree1(address uint64, kind uint8, key int, leaf func(key *cursor, child uint64) error) error {
	if address == undefined {
		return nil
	}
	seen := map[uint64]bool{}
	var node func(address uint64, level int) error
	node = func(address uint64, level int) error {
		if seen[address] {
			return broken(address, "a node of a tree is met twice")
		}
		seen[address] = true
		head, err := s.signed(address, uint64(8+2*s.f.o), "TREE")
		if err != nil {
			return err
		}
		if k := head.u8(); k != kind {
			return broken(address, fmt.Sprintf("a tree of kind %d where %d is wanted", k, kind))
		}
		own := int(head.u8())
		if level >= 0 && own != level {
			return broken(address, fmt.Sprintf("a node of level %d where %d is wanted", own, level))
		}
		n := int(head.u16())
		c, err := s.read(address+uint64(8+2*s.f.o), uint64(n*(key+s.f.o)))
		if err != nil {
			return err
		}
		for range n {
			k, child := c.within(key), c.offset()
			if c.err != nil {
				return c.err
			}
			if own > 0 {
				err = node(child, own-1)
			} else {
				err = leaf(k, child)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return node(address, -1)
}

// widthOf is how many bytes a number up to this takes: H5VM_limit_enc_size of the library, to which the specification
// refers for the fields of a node's pointers.
func widthOf(most uint64) int { return (max(bits.Len64(most), 1)-1)/8 + 1 }

// tree2 walks a B-tree of version 2 of one of these kinds (section III.A.2), record by record, in order.
func (s *source) tree2(address uint64, kinds []uint8, record func(kind uint8, c *cursor) error) error {
	if address == undefined {
		return nil
	}
	c, err := s.checked(address, uint64(16+s.f.o+2+s.f.l+4), "BTHD")
	if err != nil {
		return err
	}
	if version := c.u8(); version != 0 {
		return refused(address, fmt.Sprintf("B-tree version 2, header version %d,", version))
	}
	kind := c.u8()
	known := false
	for _, k := range kinds {
		known = known || k == kind
	}
	if !known {
		return refused(address, fmt.Sprintf("B-tree version 2 with records of kind %d", kind))
	}
	size, each, depth := int(c.u32()), int(c.u16()), int(c.u16())
	c.skip(2)
	root, rootRecords := c.offset(), int(c.u16())
	const frame = 10 // signature, version, kind, checksum
	if each == 0 || size < frame+each || int64(size) > s.f.size || depth > mostDepth {
		return broken(address, fmt.Sprintf("a tree of depth %d with nodes of %d bytes and records of %d", depth,
			size, each))
	}
	if root == undefined || rootRecords == 0 {
		return nil
	}
	// How many records a node of each level can have, and all below it: from these follow the widths of the fields.
	most, all := []uint64{uint64((size - frame) / each)}, []uint64{uint64((size - frame) / each)}
	wide := []int{0}
	recordsWide := widthOf(most[0])
	for level := 1; level <= depth; level++ {
		pointer := s.f.o + recordsWide + wide[level-1]
		if size < frame+pointer+each {
			return broken(address, "a tree whose nodes are too small for it")
		}
		n := uint64((size - frame - pointer) / (each + pointer))
		high, low := bits.Mul64(n+1, all[level-1])
		if high != 0 || low > 1<<62 {
			return broken(address, "a tree that is too deep for its nodes")
		}
		most, all = append(most, n), append(all, low+n)
		wide = append(wide, widthOf(low+n))
	}
	seen := map[uint64]bool{}
	var node func(address uint64, n, level int) error
	node = func(address uint64, n, level int) error {
		if seen[address] {
			return broken(address, "a node of a tree is met twice")
		}
		seen[address] = true
		if uint64(n) > most[level] {
			return broken(address, fmt.Sprintf("a node of %d records, where %d have room", n, most[level]))
		}
		signature, bytes := "BTLF", 6+n*each+4
		if level > 0 {
			signature, bytes = "BTIN", bytes+(n+1)*(s.f.o+recordsWide+wide[level-1])
		}
		c, err := s.checked(address, uint64(bytes), signature)
		if err != nil {
			return err
		}
		c.skip(2)
		records := make([]*cursor, n)
		for i := range records {
			records[i] = c.within(each)
		}
		for i := range n + 1 {
			if level > 0 {
				child, count := c.offset(), int(c.uint(recordsWide))
				c.skip(wide[level-1])
				if c.err != nil {
					return c.err
				}
				if err := node(child, count, level-1); err != nil {
					return err
				}
			}
			if i < n {
				if err := record(kind, records[i]); err != nil {
					return err
				}
			}
		}
		return c.err
	}
	return node(root, rootRecords, depth)
}
