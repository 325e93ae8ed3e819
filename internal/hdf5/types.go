package hdf5

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Type is that of an element (section IV.A.2.d).
type Type struct {
	// Name as NumPy has it: "bool", "int8" to "uint64", "float16", "float32", "float64", "bfloat16", "complex64",
	// "complex128"; and for what is no number "opaque", "string", "strings" (of variable length), or HDF5's name of
	// the class.
	Name  string
	Size  int    // of an element in the file, bytes
	Wrong string // why elements cannot be read as numbers; else empty
	Big   bool   // big-endian
	Enum  bool   // the numbers have names

	unit   int   // bytes that change places where it is big-endian
	signed bool  // of an integer
	pad    uint8 // of a string
}

// Number says whether elements are numbers that can be read.
func (t Type) Number() bool { return t.Wrong == "" && t.unit > 0 }

// Classes of datatypes.
const (
	classFixed    = 0
	classFloat    = 1
	classString   = 3
	classBits     = 4
	classOpaque   = 5
	classCompound = 6
	classEnum     = 8
	classVariable = 9
)

var classes = []string{"fixed-point", "floating-point", "time", "string", "bit field", "opaque", "compound",
	"reference", "enumeration", "variable-length", "array", "complex"}

// A layoutOfFloat says where a number of so many bits has its parts.
type layoutOfFloat struct{ size, exponentAt, exponent, mantissa, bias uint32 }

// floats that have a name: IEEE 754's, and the upper half of a float32.
var floats = map[layoutOfFloat]string{
	{2, 10, 5, 10, 15}:    "float16",
	{2, 7, 8, 7, 127}:     "bfloat16",
	{4, 23, 8, 23, 127}:   "float32",
	{8, 52, 11, 52, 1023}: "float64",
}

// parseType reads a datatype message. A type that this reader does not know is no error: it says what it is.
func parseType(c *cursor, depth int) (Type, error) {
	at := c.here()
	first := c.u8()
	class, version := first&15, first>>4
	flags := uint32(c.uint(3))
	size := c.u32()
	if c.err != nil {
		return Type{}, c.err
	}
	if int(class) >= len(classes) || version == 0 || version > 5 || depth > 8 {
		return Type{}, refused(at, fmt.Sprintf("datatype class %d, version %d", class, version))
	}
	if size == 0 || size > 1<<30 {
		return Type{}, broken(at, fmt.Sprintf("a datatype of %d bytes", size))
	}
	t := Type{Name: classes[class], Size: int(size), unit: 0}
	t.Wrong = fmt.Sprintf("%s datatype at %#x", t.Name, at)
	switch class {
	case classFixed, classBits:
		offset, precision := c.u16(), c.u16()
		t.Big, t.signed = flags&1 != 0, class == classFixed && flags&8 != 0
		if offset != 0 || uint32(precision) != 8*size || bits.OnesCount32(size) != 1 || size > 8 {
			t.Wrong = fmt.Sprintf("%s datatype of %d bits in %d bytes at %#x", t.Name, precision, size, at)
			break
		}
		t.Name, t.Wrong, t.unit = fmt.Sprintf("int%d", precision), "", int(size)
		if !t.signed {
			t.Name = "u" + t.Name
		}
	case classFloat:
		offset, precision := c.u16(), c.u16()
		exponentAt, exponent, mantissaAt, mantissa := c.u8(), c.u8(), c.u8(), c.u8()
		bias := c.u32()
		t.Big = flags&1 != 0
		l := layoutOfFloat{size, uint32(exponentAt), uint32(exponent), uint32(mantissa), bias}
		name := floats[l]
		const implied = 2 << 4 // the mantissa's first bit is 1 and not stored
		if name == "" || offset != 0 || mantissaAt != 0 || uint32(precision) != 8*size || flags&0x40 != 0 ||
			flags&0x30 != implied || flags>>8&0xff != 8*size-1 {
			t.Wrong = fmt.Sprintf("floating-point datatype of %d bits, exponent of %d with bias %d, at %#x", precision,
				exponent, bias, at)
			break
		}
		t.Name, t.Wrong, t.unit = name, "", int(size)
	case classString:
		t.Name, t.pad = "string", uint8(flags&15)
	case classOpaque:
		c.skip(int(flags & 0xff))
	case classVariable:
		if flags&15 == 1 {
			t.Name = "strings"
		}
	case classEnum:
		return parseEnum(c, t, version, int(flags&0xffff), depth)
	case classCompound:
		return parseCompound(c, t, version, int(flags&0xffff), depth, at)
	}
	return t, c.err
}

// parseEnum reads an enumeration: its numbers are read as those of its base, and h5py's truth values as such.
func parseEnum(c *cursor, t Type, version uint8, members, depth int) (Type, error) {
	base, err := parseType(c, depth+1)
	if err != nil {
		return t, err
	}
	multiple := 8
	if version >= 3 {
		multiple = 1
	}
	var names []string
	for range min(members, 3) { // two tell a truth value
		names = append(names, c.word(multiple))
	}
	if base.Size != t.Size {
		return t, broken(c.address, "an enumeration is not as large as its base")
	}
	base.Enum = true
	if slices.Equal(names, []string{"FALSE", "TRUE"}) && base.Size == 1 && base.Number() {
		values := c.take(2)
		if values[0] == 0 && values[1] == 1 {
			base.Name, base.Enum = "bool", false
		}
	}
	return base, c.err
}

// parseCompound reads a compound of two floats r and i, which is how h5py writes a complex number; others it names.
func parseCompound(c *cursor, t Type, version uint8, members, depth int, at uint64) (Type, error) {
	var names []string
	var types []Type
	complex := members == 2
	for i := range min(members, 8) {
		multiple := 8
		if version >= 3 {
			multiple = 1
		}
		names = append(names, c.word(multiple))
		offset := uint64(0)
		if version >= 3 {
			offset = c.uint(widthOf(uint64(t.Size)))
		} else {
			offset = uint64(c.u32())
		}
		if version == 1 {
			c.skip(28) // dimensions of an array
		}
		if c.err != nil {
			return t, c.err
		}
		member, err := parseType(c, depth+1)
		if err != nil {
			return t, err
		}
		if member.Name == classes[classCompound] || !member.Number() && member.Name != "string" {
			members = min(members, len(names)) // its end is not known: the rest is not read
		}
		types = append(types, member)
		complex = complex && offset == uint64(i*member.Size) && 2*member.Size == t.Size
		if i+1 >= members {
			break
		}
	}
	t.Wrong = fmt.Sprintf("compound datatype {%s} at %#x", strings.Join(names, ", "), at)
	if complex && len(types) == 2 && slices.Equal(names, []string{"r", "i"}) && types[0] == types[1] &&
		strings.HasPrefix(types[0].Name, "float") && types[0].Number() && types[0].Size >= 4 {
		t.Name, t.Wrong, t.unit = fmt.Sprintf("complex%d", 8*t.Size), "", types[0].unit
		t.Big = types[0].Big
	}
	return t, c.err
}

// A space is a dataspace (section IV.A.2.b).
type space struct {
	shape []int64 // empty: a scalar
	most  []uint64
	null  bool
}

func parseSpace(c *cursor) (space, error) {
	at := c.here()
	version, rank, flags := c.u8(), int(c.u8()), c.u8()
	var sp space
	switch version {
	case 1:
		c.skip(5)
	case 2:
		sp.null = c.u8() == 2
	default:
		if c.err == nil {
			return sp, refused(at, fmt.Sprintf("dataspace version %d", version))
		}
	}
	if rank > mostRank {
		return sp, broken(at, fmt.Sprintf("a dataspace of %d dimensions", rank))
	}
	for range rank {
		n := c.length()
		if n > 1<<62 {
			return sp, broken(at, fmt.Sprintf("a dimension of %d", n))
		}
		sp.shape, sp.most = append(sp.shape, int64(n)), append(sp.most, n)
	}
	if flags&1 != 0 {
		for i := range sp.most {
			sp.most[i] = c.length()
			if c.l < 8 && sp.most[i] == 1<<(8*c.l)-1 {
				sp.most[i] = undefined
			}
		}
	}
	return sp, c.err
}

// elements of a shape, and false where they pass an int64.
func (sp space) elements() (uint64, bool) {
	if sp.null || slices.Contains(sp.shape, 0) {
		return 0, true
	}
	n := uint64(1)
	for _, d := range sp.shape {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > 1<<62 {
			return 0, false
		}
		n = low
	}
	return n, true
}
