package hdf5

import (
	"bytes"
	"fmt"
	"strings"
)

// An Attribute is a small value beside an object.
type Attribute struct {
	Name  string
	Type  Type
	Shape []int64 // empty: a scalar
	Null  bool    // it has a type, and no value

	f    *File
	data *cursor
}

// Attributes reads all of them.
func (o *Object) Attributes() ([]Attribute, error) {
	s := o.f.s
	var list []Attribute
	for _, m := range o.messages {
		switch m.kind {
		case kindAttribute:
			a, err := s.attribute(m.open())
			if err != nil {
				return nil, fmt.Errorf("an attribute of %s: %w", quoted(o.Path), err)
			}
			list = append(list, a)
		case kindAttrInfo:
			more, err := s.denseAttributes(m.open())
			if err != nil {
				return nil, fmt.Errorf("attributes of %s: %w", quoted(o.Path), err)
			}
			list = append(list, more...)
		}
	}
	return list, nil
}

// Attribute reads one; nil where there is none of the name.
func (o *Object) Attribute(name string) (*Attribute, error) {
	list, err := o.Attributes()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, nil
}

// Text is the attribute of this name where it is one text; false where there is none.
func (o *Object) Text(name string) (string, bool, error) {
	a, err := o.Attribute(name)
	if a == nil || err != nil {
		return "", false, err
	}
	if a.Type.Name != "string" && a.Type.Name != "strings" {
		return "", false, nil
	}
	texts, err := a.Strings()
	if err != nil || len(texts) != 1 {
		return "", false, err
	}
	return texts[0], true, nil
}

// attribute reads a message of one (section IV.A.2.m).
func (s *source) attribute(c *cursor) (Attribute, error) {
	at := c.here()
	version, flags := c.u8(), c.u8()
	if c.err == nil && (version < 1 || version > 3) {
		return Attribute{}, refused(at, fmt.Sprintf("attribute message version %d", version))
	}
	nameSize, typeSize, spaceSize := int(c.u16()), int(c.u16()), int(c.u16())
	if version == 3 {
		c.skip(1) // character set
	}
	padded := func(n int) int {
		if version == 1 {
			return (n + 7) / 8 * 8
		}
		return n
	}
	name := c.take(padded(nameSize))
	typed, spaced := c.within(padded(typeSize)), c.within(padded(spaceSize))
	if c.err != nil {
		return Attribute{}, c.err
	}
	a := Attribute{Name: string(bytes.TrimRight(name, "\x00")), f: s.f}
	if version == 1 {
		flags = 0
	}
	var err error
	if flags&1 != 0 {
		if typed, err = s.shared(message{kind: kindDatatype, body: typed}); err != nil {
			return a, err
		}
	}
	if flags&2 != 0 {
		if spaced, err = s.shared(message{kind: kindDataspace, body: spaced}); err != nil {
			return a, err
		}
	}
	if a.Type, err = parseType(typed, 0); err != nil {
		return a, err
	}
	sp, err := parseSpace(spaced)
	if err != nil {
		return a, err
	}
	a.Shape, a.Null = sp.shape, sp.null
	n, ok := sp.elements()
	if !ok || n > uint64(c.left())/uint64(a.Type.Size) {
		return a, broken(at, fmt.Sprintf("the attribute %q is longer than its message", a.Name))
	}
	a.data = c.within(int(n) * a.Type.Size)
	return a, c.err
}

// denseAttributes reads those in a fractal heap (section IV.A.2.v, "Attribute Info").
func (s *source) denseAttributes(c *cursor) ([]Attribute, error) {
	var list []Attribute
	const byName = 8 // kind of record (section III.A.2)
	err := s.dense(c, "attribute", 2, byName, func(heap *fractal, record *cursor) error {
		id := record.take(heap.idLength)
		if flags := record.u8(); flags&2 != 0 {
			return refused(record.here(), "an attribute shared between objects")
		}
		if record.err != nil {
			return record.err
		}
		body, err := heap.object(s, id)
		if err != nil {
			return err
		}
		a, err := s.attribute(body)
		list = append(list, a)
		return err
	})
	return list, err
}

// Bytes are its elements in row-major order, little-endian; of numbers alone.
func (a *Attribute) Bytes() ([]byte, error) {
	if !a.Type.Number() {
		return nil, refused(a.data.address, fmt.Sprintf("the attribute %q, %s,", a.Name, a.Type.Wrong))
	}
	b := bytes.Clone(a.data.b)
	if a.Type.Big {
		swap(b, a.Type.unit)
	}
	return b, nil
}

// Strings are its texts in row-major order; those of a scalar are one.
func (a *Attribute) Strings() ([]string, error) {
	c := *a.data
	n := len(c.b) / a.Type.Size
	texts := make([]string, 0, n)
	switch a.Type.Name {
	case "string":
		for range n {
			texts = append(texts, fixed(c.take(a.Type.Size), a.Type.pad))
		}
		return texts, c.err
	case "strings":
		if a.Type.Size != 8+c.o {
			return nil, broken(c.address, fmt.Sprintf("texts of variable length in %d bytes", a.Type.Size))
		}
		s, total := a.f.s, 0
		for range n {
			length, address, index := int(c.u32()), c.offset(), c.u32()
			if c.err != nil {
				return nil, c.err
			}
			if length == 0 || address == undefined || address == 0 {
				texts = append(texts, "")
				continue
			}
			object, err := a.f.heaps.object(s, address, uint16(index))
			if err != nil {
				return nil, err
			}
			if total += length; total > mostStrings {
				return nil, refused(c.address, fmt.Sprintf("the attribute %q of more than %d bytes", a.Name,
					mostStrings))
			}
			text := object.take(length)
			if object.err != nil {
				return nil, object.err
			}
			texts = append(texts, strings.TrimRight(string(text), "\x00"))
		}
		return texts, nil
	}
	return nil, refused(c.address, fmt.Sprintf("the attribute %q, no text but %s,", a.Name, a.Type.Name))
}

// fixed takes the padding off a text: 0, it ends with a zero; 1, zeros fill it; 2, spaces do (section IV.A.2.d).
func fixed(b []byte, pad uint8) string {
	switch pad {
	case 0:
		if i := bytes.IndexByte(b, 0); i >= 0 {
			b = b[:i]
		}
		return string(b)
	case 2:
		return strings.TrimRight(string(b), " ")
	}
	return strings.TrimRight(string(b), "\x00")
}

// swap changes the order of bytes within each unit.
func swap(b []byte, unit int) {
	for ; len(b) >= unit; b = b[unit:] {
		for i, j := 0, unit-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
}
