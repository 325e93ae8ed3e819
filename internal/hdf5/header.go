package hdf5

import (
	"bytes"
	"fmt"
)

// Kinds of messages (section IV.A.2).
const (
	kindDataspace    = 0x01
	kindLinkInfo     = 0x02
	kindDatatype     = 0x03
	kindOldFill      = 0x04
	kindFill         = 0x05
	kindLink         = 0x06
	kindExternal     = 0x07
	kindLayout       = 0x08
	kindGroupInfo    = 0x0a
	kindFilters      = 0x0b
	kindAttribute    = 0x0c
	kindContinuation = 0x10
	kindSymbolTable  = 0x11
	kindAttrInfo     = 0x15
)

// A message of an object's header.
type message struct {
	kind  uint16
	flags uint8 // bit 1: what stands here is a reference to where the message lies
	body  *cursor
}

// open gives the message's fields, from their start.
func (m message) open() *cursor {
	c := *m.body
	return &c
}

// header reads the messages of an object (section IV.A.1).
func (s *source) header(address uint64) ([]message, error) {
	messages, err := s.messages(address)
	if err != nil {
		return nil, err
	}
	for i, m := range messages {
		if m.flags&2 != 0 {
			if messages[i].body, err = s.shared(m); err != nil {
				return nil, err
			}
		}
	}
	return messages, nil
}

// messages reads those of a header as they stand: what they share with others is not looked up.
func (s *source) messages(address uint64) ([]message, error) {
	c, err := s.read(address, 4)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(c.b, []byte("OHDR")) {
		return s.header2(address)
	}
	if c.b[0] == 1 {
		return s.header1(address)
	}
	return nil, broken(address, "here should be the header of an object")
}

// A block of messages: that of the header, or one that continues it.
type block struct{ address, size uint64 }

// take takes a message that was read, or the block that it names.
func take(m message, messages *[]message, blocks *[]block) error {
	if m.kind != kindContinuation {
		*messages = append(*messages, m)
		return nil
	}
	body := m.open()
	*blocks = append(*blocks, block{body.offset(), body.length()})
	return body.err
}

func (s *source) header1(address uint64) ([]message, error) {
	c, err := s.read(address, 16)
	if err != nil {
		return nil, err
	}
	c.skip(2)
	left := int(c.u16())
	c.skip(4)
	blocks := []block{{address + 16, uint64(c.u32())}}
	var messages []message
	for i := 0; i < len(blocks); i++ { // it grows; the budget ends a loop of continuations
		c, err := s.read(blocks[i].address, blocks[i].size)
		if err != nil {
			return nil, err
		}
		for ; left > 0 && c.left() >= 8; left-- {
			m := message{kind: c.u16()}
			n := int(c.u16())
			m.flags = c.u8()
			c.skip(3)
			m.body = c.within(n)
			if c.err != nil {
				return nil, c.err
			}
			if err := take(m, &messages, &blocks); err != nil {
				return nil, err
			}
		}
	}
	return messages, nil
}

func (s *source) header2(address uint64) ([]message, error) {
	const most = 4 + 1 + 1 + 16 + 4 + 8 // signature, version, flags, times, phase change, size
	c, err := s.read(address, min(most, uint64(s.f.size)-address))
	if err != nil {
		return nil, err
	}
	c.skip(4)
	if version := c.u8(); version != 2 {
		return nil, refused(address, fmt.Sprintf("object header version %d", version))
	}
	flags := c.u8()
	if flags&0x20 != 0 {
		c.skip(16)
	}
	if flags&0x10 != 0 {
		c.skip(4)
	}
	size := c.uint(1 << (flags & 3))
	if c.err != nil {
		return nil, c.err
	}
	prefix := uint64(c.at)
	if size > uint64(s.f.size) {
		return nil, broken(address, "the header is larger than the file")
	}
	blocks := []block{{address, prefix + size + 4}}
	var messages []message
	for i := 0; i < len(blocks); i++ {
		signature, skip := "OCHK", uint64(4)
		if i == 0 {
			signature, skip = "OHDR", prefix
		}
		c, err := s.checked(blocks[i].address, blocks[i].size, signature)
		if err != nil {
			return nil, err
		}
		c.at = int(skip)
		least := 4
		if flags&0x04 != 0 {
			least += 2
		}
		for c.left() >= least { // what is shorter is a gap
			m := message{kind: uint16(c.u8())}
			n := int(c.u16())
			m.flags = c.u8()
			c.skip(least - 4) // order of creation
			m.body = c.within(n)
			if c.err != nil {
				return nil, c.err
			}
			if err := take(m, &messages, &blocks); err != nil {
				return nil, err
			}
		}
	}
	return messages, nil
}

// shared reads a message that lies in another object's header, as a named datatype does (section IV.A.2.. "Shared
// Message").
func (s *source) shared(m message) (*cursor, error) {
	c := m.open()
	at := c.here()
	version, kind := c.u8(), c.u8()
	switch {
	case version == 1:
		c.skip(6)
	case version == 2 || version == 3 && kind == 2:
	default:
		return nil, refused(at, fmt.Sprintf("shared message version %d of kind %d", version, kind))
	}
	address := c.offset()
	if c.err != nil {
		return nil, c.err
	}
	return s.committed(address, m.kind)
}

// committed finds a message of a kind in the header at an address. One that is shared itself is refused: there is no
// chain of them.
func (s *source) committed(address uint64, kind uint16) (*cursor, error) {
	messages, err := s.messages(address)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.kind == kind && m.flags&2 == 0 {
			return m.open(), nil
		}
	}
	return nil, broken(address, fmt.Sprintf("no message %#x lies here, to which another refers", kind))
}
