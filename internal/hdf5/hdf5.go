// Package hdf5 reads what h5py writes for Keras, and writes what Keras reads, without the library of HDF5.
//
// It follows the HDF5 File Format Specification, version 3.0; comments name its sections. It is no reader of all that
// HDF5 can be: what goes beyond is refused by its name and address, so that a user can have it rewritten.
//
// A file is hostile until it is parsed: every address and size is held against the file before memory is taken, what
// is read to learn the structure has a budget, and no structure is entered twice.
package hdf5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"assay/internal/fault"
)

// Bounds of our own, far above what Keras writes.
const (
	mostDepth   = 64       // groups within groups
	mostLinks   = 1 << 20  // links of all groups
	mostPaths   = 64 << 20 // bytes of all paths
	mostRank    = 32       // of HDF5 itself: H5S_MAX_RANK
	leastBudget = 64 << 20 // bytes of structure that may be read of any file
	mostBudget  = 1 << 30  // and of a large one
	mostStrings = 64 << 20 // bytes of the strings of one attribute
	mostSlab    = 1 << 30  // bytes that a row of chunks takes in memory
	mostInflate = 1032     // to one: what deflate can do at most (zlib's technical notes)
)

// Signature begins a file, or stands at 512, 1024, 2048, .. behind a block of the user's (section II.A).
const Signature = "\x89HDF\r\n\x1a\n"

// A File is an open file. Its methods may be called from several goroutines.
type File struct {
	Groups   []*Object  // by path, the root first
	Datasets []*Dataset // by path
	Notes    []string   // what was left out, and why

	Superblock int // its version

	s      *source
	heaps  collections
	r      io.ReaderAt
	size   int64 // of r, bytes
	base   int64 // where r begins in the file
	o, l   int   // bytes of an address, of a length
	links  int
	paths  int
	softs  []soft
	groups map[uint64]string // by address: where each was entered
}

// An Object is a group, or what a dataset has in common with one.
type Object struct {
	Path    string // from the root, without a slash before it; the root is ""
	Address uint64

	f        *File
	messages []message
}

// Open reads the structure of a file of this many bytes: its groups, and what its datasets are. The reader must stay
// open while datasets are read.
func Open(r io.ReaderAt, size int64) (*File, error) {
	base, err := find(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{r: io.NewSectionReader(r, base, size-base), size: size - base, base: base, groups: map[uint64]string{},
		heaps: collections{at: map[uint64]map[uint16]*cursor{}}}
	f.s = f.source()
	root, err := f.superblock(size)
	if err != nil {
		return nil, err
	}
	s := f.s
	if err := f.enter(s, root, "", 0); err != nil {
		return nil, err
	}
	f.follow()
	slices.SortStableFunc(f.Groups, func(a, b *Object) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(f.Datasets, func(a, b *Dataset) int { return strings.Compare(a.Path, b.Path) })
	return f, nil
}

// find says where the superblock lies (section II.A).
func find(r io.ReaderAt, size int64) (int64, error) {
	head := make([]byte, len(Signature))
	for at := int64(0); at+int64(len(head)) <= size; at = max(512, at*2) {
		if _, err := r.ReadAt(head, at); err != nil {
			return 0, err
		}
		if string(head) == Signature {
			return at, nil
		}
	}
	return 0, fmt.Errorf("it has no signature of HDF5")
}

// superblock reads the superblock (section II.A) of a file of so many bytes, and gives the address of the root's
// header.
func (f *File) superblock(whole int64) (uint64, error) {
	head := make([]byte, 16)
	if f.size < 48 {
		return 0, broken(0, "the superblock is cut off")
	}
	if _, err := f.r.ReadAt(head, 0); err != nil {
		return 0, err
	}
	f.Superblock = int(head[8])
	switch f.Superblock {
	case 0, 1:
		f.o, f.l = int(head[13]), int(head[14])
	case 2, 3:
		f.o, f.l = int(head[9]), int(head[10])
	default:
		return 0, refused(0, fmt.Sprintf("superblock version %d", f.Superblock))
	}
	for _, n := range []int{f.o, f.l} {
		if n != 2 && n != 4 && n != 8 {
			return 0, broken(0, fmt.Sprintf("addresses of %d bytes and lengths of %d", f.o, f.l))
		}
	}
	s := f.s
	var root, end uint64
	if f.Superblock < 2 {
		n := 24 + 4*f.o
		if f.Superblock == 1 {
			n += 4
		}
		c, err := s.read(0, uint64(n+2*f.o))
		if err != nil {
			return 0, err
		}
		c.skip(n - 2*f.o) // versions, sizes, K's of trees; base, free space
		end = c.offset()
		c.skip(f.o) // driver information
		c.skip(f.o) // name of the root
		root = c.offset()
	} else {
		c, err := s.checked(0, uint64(12+4*f.o+4), Signature[:4])
		if err != nil {
			return 0, err
		}
		c.skip(8)        // the rest of the signature, version, sizes, flags
		c.skip(2 * f.o)  // base, extension
		end = c.offset() // counted from the base
		root = c.offset()
	}
	if end != undefined && end > uint64(whole) {
		return 0, broken(0, fmt.Sprintf("the file has %d bytes, and its superblock says %d", whole, end))
	}
	return root, nil
}

// enter reads the object at an address, and what lies below it.
func (f *File) enter(s *source, address uint64, name string, depth int) error {
	if depth > mostDepth {
		return refused(address, fmt.Sprintf("%q, more than %d groups deep,", name, mostDepth))
	}
	if first, ok := f.groups[address]; ok {
		f.note("%s is the group %s once more: it is not entered again", quoted(name), quoted(first))
		return nil
	}
	messages, err := s.header(address)
	if err != nil {
		return fmt.Errorf("%s: %w", quoted(name), err)
	}
	object := Object{Path: name, Address: address, f: f, messages: messages}
	group, dataset := false, false
	for _, m := range messages {
		switch m.kind {
		case kindSymbolTable, kindLinkInfo, kindLink, kindGroupInfo:
			group = true
		case kindLayout:
			dataset = true
		}
	}
	switch {
	case dataset:
		d, err := s.dataset(object)
		if err != nil {
			return fmt.Errorf("%s: %w", quoted(name), err)
		}
		f.Datasets = append(f.Datasets, d)
		return nil
	case !group && depth > 0: // a named datatype
		return nil
	}
	f.groups[address] = name
	f.Groups = append(f.Groups, &object)
	links, err := s.linksOf(messages)
	if err != nil {
		return fmt.Errorf("%s: %w", quoted(name), err)
	}
	slices.SortStableFunc(links, func(a, b link) int { return strings.Compare(a.name, b.name) })
	for i, l := range links {
		if i > 0 && links[i-1].name == l.name {
			return fmt.Errorf("%s: %w", quoted(name), broken(address, fmt.Sprintf("two links are named %q", l.name)))
		}
		full := l.name
		if name != "" {
			full = name + "/" + l.name
		}
		f.links++
		f.paths += len(full)
		if f.links > mostLinks || f.paths > mostPaths {
			return refused(address, fmt.Sprintf("a file of more than %d links, or with longer paths than %d bytes,",
				mostLinks, mostPaths))
		}
		switch {
		case l.kind == linkHard:
			if err := f.enter(s, l.address, full, depth+1); err != nil {
				return err
			}
		case l.kind == linkSoft:
			f.softs = append(f.softs, soft{full, l.value})
		case l.kind == linkExternal:
			f.note("%s is a link into another file, at %#x: it is not followed", quoted(full), address)
		default:
			f.note("%s is a link of a user's kind, %d, at %#x: it is not followed", quoted(full), l.kind, address)
		}
	}
	return nil
}

// A soft link waits until everything is known that it could lead to.
type soft struct{ name, value string }

// follow makes datasets of the soft links that lead to one; those that lead elsewhere are told.
func (f *File) follow() {
	datasets, groups := map[string]*Dataset{}, map[string]bool{}
	for _, d := range f.Datasets {
		datasets[d.Path] = d
	}
	for _, g := range f.Groups {
		groups[g.Path] = true
	}
	for _, l := range f.softs {
		to := path.Join("/", path.Dir(l.name), l.value)
		if strings.HasPrefix(l.value, "/") {
			to = path.Clean(l.value)
		}
		to = strings.TrimPrefix(to, "/")
		if d := datasets[to]; d != nil {
			again := *d
			again.Path, again.Link = l.name, l.value
			f.Datasets = append(f.Datasets, &again)
		} else if groups[to] {
			f.note("%s is a soft link to the group %s: it is not entered again", quoted(l.name), quoted(l.value))
		} else {
			f.note("%s is a soft link to %s, where nothing lies that could be followed", quoted(l.name), quoted(l.value))
		}
	}
}

// note keeps what was left out; a hundred of them tell as much as a million.
func (f *File) note(format string, values ...any) {
	const most = 100
	if len(f.Notes) < most {
		f.Notes = append(f.Notes, fmt.Sprintf(format, values...))
	} else if len(f.Notes) == most {
		f.Notes = append(f.Notes, "there is more of the kind")
	}
}

func quoted(name string) string {
	if name == "" {
		return "the root"
	}
	return fmt.Sprintf("%q", name)
}

// refused names what this reader does not know, and where it lies.
func refused(address uint64, what string) error {
	return refusedAs(fmt.Sprintf("%s at %#x", what, address))
}

func refusedAs(what string) error {
	return fault.Hint(fmt.Errorf("%s is not read here", what),
		"h5repack, or h5py, can write it anew as plain contiguous datasets of numbers")
}

// broken names what contradicts itself or the file, and where.
func broken(address uint64, what string) error {
	return fault.Hint(fmt.Errorf("at %#x: %s", address, what), "the file is cut off or damaged: fetch it again")
}

// undefined is the address of what is not there, whatever the size of addresses.
const undefined = ^uint64(0)

// A source reads structure, within a budget.
type source struct {
	f      *File
	budget *atomic.Int64 // bytes
}

// source begins a budget: eight times the file, since much is looked at twice, within bounds. There is one for groups
// and all their attributes, which may lie in one heap, and one for each index of chunks.
func (f *File) source() *source {
	s := &source{f: f, budget: new(atomic.Int64)}
	s.budget.Store(min(max(leastBudget, 8*f.size), mostBudget))
	return s
}

// read gives bytes of structure.
func (s *source) read(address, n uint64) (*cursor, error) {
	size := uint64(s.f.size)
	if address == undefined || address > size || n > size-address {
		return nil, broken(address, fmt.Sprintf("%d bytes lie beyond the file, which has %d", n, size))
	}
	if s.budget.Add(-int64(n)-16) < 0 {
		return nil, refused(address, "a structure that is larger than what it describes")
	}
	b := make([]byte, n)
	if _, err := s.f.r.ReadAt(b, int64(address)); err != nil {
		return nil, err
	}
	return &cursor{b: b, address: address, o: s.f.o, l: s.f.l}, nil
}

// trusting leaves checksums unread, so that a fuzzer comes behind them: whoever forges a file forges its sums.
var trusting bool

// checked reads a block that begins with a signature and ends with its checksum, and gives what lies between.
func (s *source) checked(address, n uint64, signature string) (*cursor, error) {
	c, err := s.read(address, n)
	if err != nil {
		return nil, err
	}
	if n < uint64(len(signature))+4 || string(c.b[:len(signature)]) != signature {
		return nil, broken(address, fmt.Sprintf("here should be %q", signature))
	}
	end := len(c.b) - 4
	if !trusting && binary.LittleEndian.Uint32(c.b[end:]) != lookup3(c.b[:end]) {
		return nil, broken(address, fmt.Sprintf("the checksum of %q does not agree", signature))
	}
	c.b = c.b[:end]
	c.at = len(signature)
	return c, nil
}

// signed reads a block that begins with a signature and has no checksum.
func (s *source) signed(address, n uint64, signature string) (*cursor, error) {
	c, err := s.read(address, n)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(c.b, []byte(signature)) {
		return nil, broken(address, fmt.Sprintf("here should be %q", signature))
	}
	c.at = len(signature)
	return c, nil
}

// A cursor reads fields, little-endian. Beyond the end it gives zeros and keeps the error.
type cursor struct {
	b       []byte
	at      int
	address uint64 // of b[0]
	o, l    int
	err     error
}

// here is the address of what is read next.
func (c *cursor) here() uint64 { return c.address + uint64(c.at) }

func (c *cursor) left() int { return len(c.b) - c.at }

func (c *cursor) take(n int) []byte {
	if c.err == nil && (n < 0 || n > c.left()) {
		c.err = broken(c.here(), fmt.Sprintf("%d bytes are wanted where %d are left", n, c.left()))
	}
	if c.err != nil {
		return make([]byte, min(max(n, 0), 8))
	}
	b := c.b[c.at : c.at+n]
	c.at += n
	return b
}

func (c *cursor) skip(n int) { c.take(n) }

// uint reads a number of up to eight bytes.
func (c *cursor) uint(n int) uint64 {
	v := uint64(0)
	for i, b := range c.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

func (c *cursor) u8() uint8      { return uint8(c.uint(1)) }
func (c *cursor) u16() uint16    { return uint16(c.uint(2)) }
func (c *cursor) u32() uint32    { return uint32(c.uint(4)) }
func (c *cursor) length() uint64 { return c.uint(c.l) }

// offset reads an address.
func (c *cursor) offset() uint64 {
	v := c.uint(c.o)
	if c.o < 8 && v == 1<<(8*c.o)-1 {
		return undefined
	}
	return v
}

// within gives the next n bytes as a cursor of their own.
func (c *cursor) within(n int) *cursor {
	sub := &cursor{address: c.here(), o: c.o, l: c.l}
	sub.b, sub.err = c.take(n), c.err
	return sub
}

// word reads a text that ends with a zero, and what pads it to a multiple.
func (c *cursor) word(multiple int) string {
	if c.err != nil {
		return ""
	}
	n := bytes.IndexByte(c.b[c.at:], 0)
	if n < 0 {
		c.err = broken(c.here(), "a name does not end")
		return ""
	}
	b := c.take((n + multiple) / multiple * multiple)
	if c.err != nil {
		return ""
	}
	return string(b[:n])
}

// lookup3 is the checksum of HDF5's structures: Bob Jenkins' hashlittle of 2006 with initial value 0, public domain
// (the specification calls it "Jenkins' lookup3 algorithm").
func lookup3(k []byte) uint32 {
	a := 0xdeadbeef + uint32(len(k))
	b, c := a, a
	rot := func(x uint32, n uint) uint32 { return x<<n | x>>(32-n) }
	if len(k) == 0 {
		return c
	}
	for len(k) > 12 {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a -= c
		a ^= rot(c, 4)
		c += b
		b -= a
		b ^= rot(a, 6)
		a += c
		c -= b
		c ^= rot(b, 8)
		b += a
		a -= c
		a ^= rot(c, 16)
		c += b
		b -= a
		b ^= rot(a, 19)
		a += c
		c -= b
		c ^= rot(b, 4)
		b += a
		k = k[12:]
	}
	var last [12]byte
	copy(last[:], k)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	c ^= b
	c -= rot(b, 14)
	a ^= c
	a -= rot(c, 11)
	b ^= a
	b -= rot(a, 25)
	c ^= b
	c -= rot(b, 16)
	a ^= c
	a -= rot(c, 4)
	b ^= a
	b -= rot(a, 14)
	c ^= b
	c -= rot(b, 24)
	return c
}
