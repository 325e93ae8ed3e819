package weights

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/fault"
)

var ggufFormat = format{"gguf", isGGUF, openGGUF}

func isGGUF(head []byte, _ string) bool { return bytes.HasPrefix(head, []byte("GGUF")) }

// A block is a type of GGUF: so many elements lie in so many bytes.
type block struct {
	name            DType
	elements, bytes int64
}

// blocks are the types by their numbers: GGMLQuantizationType and GGML_QUANT_SIZES of gguf 0.19.0's constants.py. Those
// with one element are types of ours.
var blocks = map[uint32]block{
	0: {F32, 1, 4}, 1: {F16, 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 40}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66},
	17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18},
	21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136}, 24: {I8, 1, 1}, 25: {I16, 1, 2},
	26: {I32, 1, 4}, 27: {I64, 1, 8}, 28: {F64, 1, 8}, 29: {"IQ1_M", 256, 56}, 30: {BF16, 1, 2}, 34: {"TQ1_0", 256, 54},
	35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17}, 40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18},
}

const (
	maxGGUFEntries = 1 << 20  // tensors, or entries of metadata
	maxGGUFText    = 16 << 20 // bytes of names and texts that are kept
	maxGGUFWord    = 1 << 16  // bytes of one text of metadata that are kept; chat templates have some ten thousand
	maxGGUFDims    = 4        // GGML_MAX_DIMS in ggml.h
	maxGGUFName    = 1 << 16  // of a tensor or a key; the format's page gives keys 65535, GGML_MAX_NAME tensors 64
)

func openGGUF(f *os.File, size int64) (*File, error) {
	p := newGGUF(f, size)
	if err := p.read(); err != nil {
		return nil, unexpectedEnd(err)
	}
	file := &File{Format: "gguf", Meta: p.meta, Notes: p.notes, Closers: []io.Closer{f}}
	for _, t := range p.tensors {
		at := p.data + t.begin
		t.Where, t.Open = fmt.Sprintf("byte %d", at), section(f, at, t.Bytes)
		file.Tensors = append(file.Tensors, t.Tensor)
	}
	return file, nil
}

// unexpectedEnd adds what to do where a file ended too early.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.Hint(fmt.Errorf("%w", unexpected(err)), fetchAgain)
	}
	return err
}

// A gguf is a file of that kind while its head is read: docs/gguf.md of ggml says what stands where.
type gguf struct {
	r        *bufio.Reader
	at, size int64 // where it reads, and where the file ends
	kept     int64 // bytes of texts
	err      error // the first: what is read after it is zero

	meta    map[string]string
	notes   []string
	tensors []span
	data    int64 // where the tensors' bytes begin
	align   int64
}

func newGGUF(from io.ReaderAt, size int64) *gguf {
	r := bufio.NewReaderSize(io.NewSectionReader(from, 0, size), 1<<16)
	return &gguf{r: r, size: size, meta: map[string]string{}}
}

func (p *gguf) read() error {
	p.skip(4)
	switch version := p.uint32(); {
	case p.err != nil:
		return p.err
	case version == 2 || version == 3:
	case version != 0 && version&0xffff == 0:
		return errors.New("it is big-endian GGUF, which is not read")
	default:
		return fmt.Errorf("it is of version %d of GGUF, and 2 and 3 are read", version)
	}
	tensors, entries := p.uint64(), p.uint64()
	if p.err == nil && max(tensors, entries) > maxGGUFEntries {
		return fmt.Errorf("it would have %d tensors and %d entries of metadata, and %d are read at most", tensors, entries,
			maxGGUFEntries)
	}
	p.align = 32 // GGUF_DEFAULT_ALIGNMENT
	for range entries {
		if err := p.entry(); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for range tensors {
		t, err := p.tensor()
		if err != nil {
			return err
		}
		if seen[t.Name] {
			return fmt.Errorf("two tensors are named %q", t.Name)
		}
		seen[t.Name] = true
		p.tensors = append(p.tensors, t)
	}
	if p.err != nil {
		return p.err
	}
	p.data = (p.at + p.align - 1) / p.align * p.align
	return p.placed()
}

// placed says what is wrong with where the tensors lie: each begins where the one before ended, aligned, as llama.cpp
// has it (gguf_init_from_file), and all lie in the file.
func (p *gguf) placed() error {
	at, before := int64(0), ""
	byPlace := slices.Clone(p.tensors)
	slices.SortStableFunc(byPlace, func(a, b span) int { return int(min(max(a.begin-b.begin, -1), 1)) })
	for _, t := range byPlace {
		switch {
		case t.end > p.size-p.data:
			return fault.Hint(fmt.Errorf("tensor %q ends at byte %d, and the file has %d", t.Name, p.data+t.end,
				p.size), fetchAgain)
		case t.begin%p.align != 0:
			return fmt.Errorf("tensor %q begins at byte %d of the data, which is no multiple of %d", t.Name, t.begin, p.align)
		case t.begin < at:
			return fmt.Errorf("tensor %q begins at byte %d of the data, where %q lies, up to byte %d", t.Name, t.begin,
				before, at)
		case t.begin-at >= p.align:
			return fmt.Errorf("no tensor has bytes %d to %d of the data, before %q", at, t.begin, t.Name)
		}
		at, before = t.end, t.Name
	}
	return nil
}

// entry reads one of metadata.
func (p *gguf) entry() error {
	key, whole := p.text(maxGGUFName)
	if p.err == nil && !(whole && utf8.ValidString(key)) {
		return fmt.Errorf("a key of its metadata, %.50q, is not in UTF-8 or has more than %d bytes", key, maxGGUFName)
	}
	kind := p.uint32()
	value := p.value(kind, false)
	if p.err != nil {
		return p.err
	}
	if _, twice := p.meta[key]; twice {
		return fmt.Errorf("%q stands in its metadata twice", key)
	}
	p.meta[key] = value
	if key == "general.alignment" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || kind != 4 || n <= 0 || n&(n-1) != 0 {
			return fmt.Errorf("its alignment is %.20q, and a power of two is one", value)
		}
		p.align = n
	}
	return nil
}

// scalars are the sizes of metadata's types by their numbers: uint8, int8, uint16, int16, uint32, int32, float32,
// bool; 8 is a text, 9 an array; uint64, int64, float64.
var scalars = [13]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// value reads a value; of an array only how much it holds is kept.
func (p *gguf) value(kind uint32, inArray bool) string {
	switch {
	case kind == 8:
		s, whole := p.text(maxGGUFWord)
		s = strings.ToValidUTF8(s, "\uFFFD") // a character may be cut in two
		if !whole {
			s += "…"
		}
		return s
	case kind == 9 && inArray: // the format's page allows it, and no reader that we know takes it
		p.fail(errors.New("an array of arrays stands in its metadata, which is not read"))
	case kind == 9:
		of, n := p.uint32(), p.uint64()
		switch {
		case p.err != nil:
		case of < 13 && scalars[of] > 0:
			if n > uint64(p.size) { // before it is multiplied
				p.fail(io.ErrUnexpectedEOF)
				break
			}
			p.skip(int64(n) * scalars[of])
		case of == 8:
			for i := uint64(0); i < n && p.err == nil; i++ {
				if length := p.uint64(); length > uint64(p.size) {
					p.fail(io.ErrUnexpectedEOF)
				} else {
					p.skip(int64(length))
				}
			}
		default:
			p.fail(fmt.Errorf("an array of type %d stands in its metadata, which is not read", of))
		}
		return fmt.Sprintf("%d values", n)
	case kind >= 13:
		p.fail(fmt.Errorf("a value of type %d stands in its metadata, which is not known", kind))
	default:
		var b [8]byte
		p.fill(b[:scalars[kind]])
		v := binary.LittleEndian.Uint64(b[:])
		switch kind {
		case 1:
			return strconv.Itoa(int(int8(v)))
		case 3:
			return strconv.Itoa(int(int16(v)))
		case 5:
			return strconv.Itoa(int(int32(v)))
		case 6:
			return strconv.FormatFloat(float64(math.Float32frombits(uint32(v))), 'g', -1, 32)
		case 7:
			return strconv.FormatBool(v != 0)
		case 11:
			return strconv.FormatInt(int64(v), 10)
		case 12:
			return strconv.FormatFloat(math.Float64frombits(v), 'g', -1, 64)
		}
		return strconv.FormatUint(v, 10)
	}
	return ""
}

// tensor reads what is said of one.
func (p *gguf) tensor() (t span, err error) {
	name, whole := p.text(maxGGUFName)
	dims := p.uint32()
	if p.err == nil && (!whole || dims > maxGGUFDims) {
		return t, fmt.Errorf("tensor %.100q has %d dimensions, and GGUF has %d at most", name, dims, maxGGUFDims)
	}
	t.Name, t.Shape = name, []int64{}
	if p.err != nil {
		return t, p.err
	}
	if !utf8.ValidString(name) {
		return t, fmt.Errorf("tensor %.100q: its name is not in UTF-8", name)
	}
	for range dims {
		t.Shape = append(t.Shape, int64(p.uint64()))
	}
	slices.Reverse(t.Shape) // it has the innermost first
	kind, begin := p.uint32(), int64(p.uint64())
	if p.err != nil {
		return t, p.err
	}
	b, known := blocks[kind]
	if !known {
		return t, fmt.Errorf("tensor %.100q is of type %d, which is not known: no size follows from it", name, kind)
	}
	n, ok := t.Elements()
	inner := int64(1)
	if len(t.Shape) > 0 {
		inner = t.Shape[len(t.Shape)-1]
	}
	switch {
	case !ok || n/b.elements > (1<<63-1)/b.bytes:
		return t, fmt.Errorf("tensor %.100q: its shape is %v", name, t.Shape)
	case inner%b.elements != 0:
		return t, fmt.Errorf("tensor %.100q: its rows have %d elements, and a block of %s has %d", name, inner, b.name,
			b.elements)
	}
	t.DType, t.Bytes = b.name, n/b.elements*b.bytes
	if begin < 0 || begin > p.size || t.Bytes > p.size {
		return t, fault.Hint(fmt.Errorf("tensor %.100q has %d bytes from byte %d of the data, and the file has %d", name,
			t.Bytes, begin, p.size), fetchAgain)
	}
	t.begin, t.end = begin, begin+t.Bytes
	return t, nil
}

func (p *gguf) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *gguf) fill(b []byte) {
	if p.err != nil {
		return
	}
	if _, err := io.ReadFull(p.r, b); err != nil {
		p.fail(unexpected(err))
		clear(b)
	}
	p.at += int64(len(b))
}

// skip goes on without reading what is not kept.
func (p *gguf) skip(n int64) {
	switch {
	case p.err != nil:
	case n > p.size-p.at:
		p.fail(io.ErrUnexpectedEOF)
	default:
		p.at += n
		for n > 0 && p.err == nil {
			done, err := p.r.Discard(int(min(n, 1<<30)))
			if n -= int64(done); err != nil {
				p.fail(unexpected(err))
			}
		}
	}
}

func (p *gguf) uint32() uint32 {
	var b [4]byte
	p.fill(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (p *gguf) uint64() uint64 {
	var b [8]byte
	p.fill(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// text reads a text, and says whether it is whole: of a longer one limit bytes are kept.
func (p *gguf) text(limit uint64) (string, bool) {
	n := p.uint64()
	if p.err == nil && n > uint64(p.size-p.at) {
		p.fail(io.ErrUnexpectedEOF)
	}
	keep := min(n, limit)
	if p.kept += int64(keep); p.kept > maxGGUFText {
		p.fail(fmt.Errorf("its names and texts have more than %d bytes", maxGGUFText))
	}
	if p.err != nil {
		return "", true
	}
	b := make([]byte, keep)
	p.fill(b)
	p.skip(int64(n - keep))
	return string(b), n == keep
}
