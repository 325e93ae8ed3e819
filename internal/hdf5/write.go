package hdf5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/fault"
)

// An Array is a dataset to be written: contiguous and little-endian.
type Array struct {
	Path  string
	Type  string // "bool", "int8" to "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"
	Shape []int64
}

// Head is the structure of a file of arrays and of the groups of their paths. The elements follow it, those of one
// array after those of another, in their order, row-major and little-endian, with nothing between: so a file is written
// as a stream. texts are attributes of groups, by path and name, and make groups that hold nothing. HDF5 reads such a
// file from release 1.8 on.
//
// A bfloat16 is written as Keras does it: two opaque bytes, with the attribute dtype.
func Head(arrays []Array, texts map[string]map[string]string) ([]byte, error) {
	p := &plan{groups: map[string]*node{}, arrays: map[string]*node{}}
	root := p.group("")
	for i := range arrays {
		if err := p.add(&arrays[i]); err != nil {
			return nil, err
		}
	}
	for group, attributes := range texts {
		if err := validPath(group); err != nil && group != "" {
			return nil, err
		}
		p.group(group).texts = attributes
	}
	for path := range p.arrays {
		if p.groups[path] != nil {
			return nil, fmt.Errorf("%q would be a dataset and a group", path)
		}
	}
	// Where everything lies follows from how large it is, and no header's size from an address.
	slices.SortFunc(p.nodes, func(a, b *node) int { return strings.Compare(a.path, b.path) })
	at := uint64(superblockSize)
	for _, n := range p.nodes {
		n.address = at
		at += uint64(len(p.header(n)))
	}
	p.heapAt = at
	heap, err := p.collection()
	if err != nil {
		return nil, err
	}
	at += uint64(len(heap))
	at = (at + alignment - 1) / alignment * alignment
	size := at
	for _, a := range arrays {
		n := p.arrays[a.Path]
		n.dataAt = at
		if at += n.size; at > 1<<62 {
			return nil, errors.New("the arrays are larger than a file can be")
		}
	}
	p.heap = nil
	b := superblockOf(root.address, at)
	for _, n := range p.nodes {
		b = append(b, p.header(n)...)
	}
	b = append(b, heap...)
	return append(b, make([]byte, size-uint64(len(b)))...), nil
}

const (
	superblockSize = 48
	alignment      = 64      // of the first element: a cache line, as in NumPy's files
	leastHeap      = 4096    // H5HG_MINSIZE of the library
	mostObjects    = 1 << 16 // of a global heap, whose indices have 16 bits
)

// A plan is a file to be written.
type plan struct {
	nodes  []*node
	groups map[string]*node // by path
	arrays map[string]*node
	heap   []string // texts
	heapAt uint64
}

// A node is a group or a dataset.
type node struct {
	path     string
	children []*node // of a group
	texts    map[string]string
	data     *Array
	size     uint64
	address  uint64 // of its header
	dataAt   uint64
}

func validPath(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) || !utf8.ValidString(part) ||
			len(part) > 1<<15 {
			return fmt.Errorf("%q is no path of HDF5", path)
		}
	}
	return nil
}

func (p *plan) group(path string) *node {
	if g := p.groups[path]; g != nil {
		return g
	}
	g := &node{path: path}
	p.groups[path] = g
	p.nodes = append(p.nodes, g)
	if path != "" {
		p.hang(g)
	}
	return g
}

// hang puts a node below its group.
func (p *plan) hang(n *node) {
	parent := ""
	if i := strings.LastIndexByte(n.path, '/'); i >= 0 {
		parent = n.path[:i]
	}
	g := p.group(parent)
	g.children = append(g.children, n)
}

func (p *plan) add(d *Array) error {
	if err := validPath(d.Path); err != nil {
		return err
	}
	each := sizesOfTypes[d.Type]
	if each == 0 {
		return fault.Hint(fmt.Errorf("%s: HDF5 has no type for %s here", d.Path, d.Type), "convert it to float32 first")
	}
	n := &node{path: d.Path, data: d, size: each}
	if len(d.Shape) > mostRank {
		return fmt.Errorf("%s: %d dimensions, and HDF5 has %d at most", d.Path, len(d.Shape), mostRank)
	}
	for _, size := range d.Shape {
		high, low := bits.Mul64(n.size, uint64(size))
		if size < 0 || high != 0 || low > 1<<62 {
			return fmt.Errorf("%s: no array can have the shape %v", d.Path, d.Shape)
		}
		n.size = low
	}
	if p.arrays[d.Path] != nil {
		return fmt.Errorf("%q is to be written twice", d.Path)
	}
	p.arrays[d.Path] = n
	p.nodes = append(p.nodes, n)
	p.hang(n)
	return nil
}

// header encodes an object's header of version 2 (section IV.A.1.b).
func (p *plan) header(n *node) []byte {
	var m []byte
	message := func(kind uint8, body []byte) {
		m = append(m, kind)
		m = binary.LittleEndian.AppendUint16(m, uint16(len(body)))
		m = append(append(m, 0), body...)
	}
	texts := n.texts
	if n.data == nil {
		nowhere := bytes.Repeat([]byte{0xff}, 16)
		message(kindLinkInfo, append([]byte{0, 0}, nowhere...))
		message(kindGroupInfo, []byte{0, 0})
		for _, child := range n.children {
			name := child.path[strings.LastIndexByte(child.path, '/')+1:]
			body := []byte{1, 0x10 | 1, 1} // version; a character set is told, the length has two bytes; UTF-8
			body = binary.LittleEndian.AppendUint16(body, uint16(len(name)))
			body = append(body, name...)
			message(kindLink, binary.LittleEndian.AppendUint64(body, child.address))
		}
	} else {
		if n.data.Type == "bfloat16" {
			texts = map[string]string{"dtype": "bfloat16"}
		}
		message(kindDataspace, spaceOf(n.data.Shape))
		message(kindDatatype, encodings[n.data.Type])
		message(kindFill, []byte{3, 0x0a}) // allocated late, written where a value is set; none is
		body, at := []byte{3, contiguous}, n.dataAt
		if n.size == 0 {
			at = undefined
		}
		body = binary.LittleEndian.AppendUint64(body, at)
		message(kindLayout, binary.LittleEndian.AppendUint64(body, n.size))
	}
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		message(kindAttribute, p.attribute(name, texts[name]))
	}
	b := append([]byte("OHDR"), 2, 2) // version; the size has four bytes
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m)))
	b = append(b, m...)
	return binary.LittleEndian.AppendUint32(b, lookup3(b))
}

// attribute encodes a text of variable length, as h5py writes a str: it lies in the global heap.
func (p *plan) attribute(name, value string) []byte {
	p.heap = append(p.heap, value)
	body := []byte{3, 0}
	body = binary.LittleEndian.AppendUint16(body, uint16(len(name)+1))
	body = binary.LittleEndian.AppendUint16(body, uint16(len(encodedText)))
	body = binary.LittleEndian.AppendUint16(body, 4)
	body = append(body, 1) // the name is UTF-8
	body = append(append(body, name...), 0)
	body = append(body, encodedText...)
	body = append(body, spaceOf(nil)...)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(value)))
	body = binary.LittleEndian.AppendUint64(body, p.heapAt)
	return binary.LittleEndian.AppendUint32(body, uint32(len(p.heap)))
}

// collection encodes the global heap with all texts (section III.E).
func (p *plan) collection() ([]byte, error) {
	if len(p.heap) == 0 {
		return nil, nil
	}
	if len(p.heap) >= mostObjects {
		return nil, fmt.Errorf("%d texts, and a heap of HDF5 has fewer than %d", len(p.heap), mostObjects)
	}
	b := append([]byte("GCOL"), 1, 0, 0, 0)
	b = append(b, make([]byte, 8)...)
	for i, text := range p.heap {
		b = binary.LittleEndian.AppendUint16(b, uint16(i+1))
		b = append(b, 1, 0, 0, 0, 0, 0) // one refers to it
		b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
		b = append(append(b, text...), make([]byte, -len(text)&7)...)
	}
	if free := max(leastHeap-len(b), 16); free > 0 { // object 0 is what is left, itself included
		rest := make([]byte, free)
		binary.LittleEndian.PutUint64(rest[8:], uint64(free))
		b = append(b, rest...)
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(len(b)))
	return b, nil
}

func superblockOf(root, end uint64) []byte {
	b := append([]byte(Signature), 2, 8, 8, 0)
	for _, address := range []uint64{0, undefined, end, root} {
		b = binary.LittleEndian.AppendUint64(b, address)
	}
	return binary.LittleEndian.AppendUint32(b, lookup3(b))
}

func spaceOf(shape []int64) []byte {
	b := []byte{2, byte(len(shape)), 0, byte(min(len(shape), 1))}
	for _, n := range shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// sizesOfTypes are those of an element in bytes.
var sizesOfTypes = map[string]uint64{
	"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
	"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}

// encodedText is a text of variable length, UTF-8, of characters that are numbers of a byte.
var encodedText = append([]byte{1<<4 | classVariable, 1, 1, 0, 16, 0, 0, 0}, encodeFixed(1, false)...)

// encodings are the datatype messages of what can be written.
var encodings = func() map[string][]byte {
	all := map[string][]byte{}
	for _, size := range []uint32{1, 2, 4, 8} {
		all[fmt.Sprintf("int%d", 8*size)] = encodeFixed(size, true)
		all[fmt.Sprintf("uint%d", 8*size)] = encodeFixed(size, false)
	}
	for l, name := range floats {
		if name != "bfloat16" {
			all[name] = encodeFloat(l)
		}
	}
	// Two opaque bytes with an empty tag, as h5py writes NumPy's V2.
	all["bfloat16"] = []byte{1<<4 | classOpaque, 0, 0, 0, 2, 0, 0, 0}
	truth := append([]byte{3<<4 | classEnum, 2, 0, 0, 1, 0, 0, 0}, encodeFixed(1, true)...)
	all["bool"] = append(truth, "FALSE\x00TRUE\x00\x00\x01"...)
	for _, size := range []byte{4, 8} {
		b := []byte{3<<4 | classCompound, 2, 0, 0, 2 * size, 0, 0, 0}
		for i, name := range []string{"r", "i"} {
			b = append(append(b, name...), 0, byte(i)*size)
			b = append(b, all[fmt.Sprintf("float%d", 8*size)]...)
		}
		all[fmt.Sprintf("complex%d", 16*int(size))] = b
	}
	return all
}()

func encodeFixed(size uint32, signed bool) []byte {
	b := []byte{1<<4 | classFixed, 0, 0, 0}
	if signed {
		b[1] = 8
	}
	b = binary.LittleEndian.AppendUint32(b, size)
	b = binary.LittleEndian.AppendUint16(b, 0)
	return binary.LittleEndian.AppendUint16(b, uint16(8*size))
}

func encodeFloat(l layoutOfFloat) []byte {
	b := []byte{1<<4 | classFloat, 2 << 4, byte(8*l.size - 1), 0} // the mantissa's first bit is implied; the sign
	b = binary.LittleEndian.AppendUint32(b, l.size)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(8*l.size))
	b = append(b, byte(l.exponentAt), byte(l.exponent), 0, byte(l.mantissa))
	return binary.LittleEndian.AppendUint32(b, l.bias)
}
