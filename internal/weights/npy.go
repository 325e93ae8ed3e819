package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// maxNPYHeader is how many bytes a header may have. NumPy reads 10,000 (_MAX_HEADER_SIZE in lib/_format_impl.py)
// and writes 65,535 in version 1; what is longer is of a structured type, which is not read.
const maxNPYHeader = 1 << 16

const npyMagic = "\x93NUMPY"

var npyFormat = format{"npy", isNPY, openNPY}

func isNPY(head []byte, _ string) bool { return bytes.HasPrefix(head, []byte(npyMagic)) }

func openNPY(f *os.File, size int64) (*File, error) {
	t, err := readNPY(f, size)
	if err != nil {
		return nil, err
	}
	t.Name = strings.TrimSuffix(filepath.Base(f.Name()), ".npy")
	t.Where = fmt.Sprintf("byte %d", t.begin)
	t.Open = t.rowMajor(f)
	return &File{Format: "npy", Meta: map[string]string{}, Tensors: []Tensor{t.Tensor}, Closers: []io.Closer{f}}, nil
}

// An array is a tensor as NumPy stored it: its data are the bytes begin to end of what it was read from.
type array struct {
	span
	fortran, swapped bool
}

// rowMajor gives the elements of an array that lies in from as Tensor.Open does.
func (a array) rowMajor(from io.ReaderAt) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		var r io.Reader = io.NewSectionReader(from, a.begin, a.Bytes)
		if a.fortran {
			r = newGather(from, a.begin, a.Shape, a.DType.Size(), gatherBlock)
		}
		if a.swapped {
			r = swapping(r, a.DType)
		}
		return io.NopCloser(r), nil
	}
}

// readNPY reads the header of an array in size bytes; the array then fills them to the end.
func readNPY(r io.ReaderAt, size int64) (a array, err error) {
	var start [12]byte
	n, err := r.ReadAt(start[:], 0)
	if err != nil && err != io.EOF {
		return a, err
	}
	if n < 10 || string(start[:6]) != npyMagic {
		return a, errors.New("it does not begin as an array of NumPy does")
	}
	begin, length := int64(10), int64(binary.LittleEndian.Uint16(start[8:]))
	switch version := [2]byte(start[6:8]); {
	case version == [2]byte{1, 0}:
	case version == [2]byte{2, 0} || version == [2]byte{3, 0}:
		begin, length = 12, int64(binary.LittleEndian.Uint32(start[8:]))
	default:
		return a, fmt.Errorf("it is of version %d.%d of NumPy's format, and known are 1.0, 2.0 and 3.0", start[6], start[7])
	}
	switch {
	case length > maxNPYHeader:
		return a, fmt.Errorf("its header has %d bytes, and those that are read have %d at most", length, maxNPYHeader)
	case begin+length > size:
		return a, fault.Hint(errors.New("its header does not lie in it whole"), fetchAgain)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(r, begin, length), header); err != nil {
		return a, err
	}
	if a, err = parseNPY(string(header)); err != nil {
		return a, err
	}
	a.begin = begin + length
	a.end = a.begin + a.Bytes
	if has := size - a.begin; has < a.Bytes {
		return a, fault.Hint(fmt.Errorf("%v of %s has %d bytes, and %d follow the header", a.Shape, a.DType,
			a.Bytes, has), fetchAgain)
	} else if has > a.Bytes {
		return a, fmt.Errorf("%d bytes follow its data", has-a.Bytes)
	}
	return a, nil
}

// parseNPY reads what a header says of an array: a dictionary as Python writes it.
func parseNPY(header string) (a array, err error) {
	value, err := parseLiteral(header)
	if err != nil {
		return a, fmt.Errorf("its header: %w", err)
	}
	d, _ := value.(dict)
	fortran, isBool := d["fortran_order"].(bool)
	shape, isTuple := d["shape"].(tuple)
	descr := d["descr"]
	if !isBool || !isTuple || descr == nil || len(d) != 3 {
		return a, errors.New("its header is no dictionary of descr, fortran_order and shape")
	}
	if a.DType, a.swapped, err = npyDescr(descr); err != nil {
		return a, err
	}
	a.Shape = make([]int64, len(shape))
	for i, d := range shape {
		n, ok := d.(int64)
		if !ok || n < 0 {
			return a, fmt.Errorf("its shape is %v", shape)
		}
		a.Shape[i] = n
	}
	n, ok := a.Elements()
	if !ok || n > (1<<63-1)/a.DType.Size() || len(shape) > maxNPYDims {
		return a, fmt.Errorf("its shape is %v", shape)
	}
	a.Bytes = n * a.DType.Size()
	var notes []string
	if a.swapped {
		notes = append(notes, "big-endian")
	}
	if fortran && n > 1 && len(shape) > 1 { // what has one axis has one order
		a.fortran = true
		notes = append(notes, "in Fortran order")
	}
	a.Note = strings.Join(notes, ", ")
	return a, nil
}

// errNoTensor is in the error of an array whose elements are not numbers: of several arrays the others are read.
var errNoTensor = errors.New("its elements are no numbers that are read")

// npyDescr is the type that a descr names, and whether its bytes are the wrong way round. What is refused is so by its
// name: an object is a pickle, and only Python could run that.
func npyDescr(descr any) (DType, bool, error) {
	s, ok := descr.(string)
	if !ok {
		return "", false, fmt.Errorf("%w: they are of the structured type %.200s", errNoTensor, fmt.Sprint(descr))
	}
	order, name := "", s
	if s != "" && strings.Contains("<>|=", s[:1]) {
		order, name = s[:1], s[1:]
	}
	if t, ok := npyTypes[name]; ok {
		if t.Size() > 1 && order != "<" && order != ">" {
			return "", false, fmt.Errorf("its type %q does not say in which order its bytes are", s)
		}
		return t, order == ">" && t.Size() > 1, nil
	}
	kind := "a type that is not known"
	if name != "" {
		switch name[0] {
		case 'O':
			kind = "objects, which only Python could unpickle: that would run code"
		case 'U', 'S', 'a':
			kind = "strings"
		case 'V':
			return "", false, fault.Hint(fmt.Errorf("%w: %.50q, bytes of which NumPy does not know what they are",
				errNoTensor, s), "so it saves bfloat16 and float8: keep those in safetensors")
		case 'M', 'm':
			kind = "times"
		case 'f', 'c':
			kind = "extended precision, whose bytes differ between machines"
		}
	}
	return "", false, fmt.Errorf("%w: %.50q, %s", errNoTensor, s, kind)
}

// Values of a Python literal: string, bool, int64, nil for None, and these.
type (
	dict  map[string]any
	tuple []any // and a list
)

// maxLiteral is how deep containers may stand in each other.
const maxLiteral = 16

// parseLiteral reads what Python's ast.literal_eval reads, as far as NumPy writes it: dictionaries with strings for
// keys, tuples and lists, strings without escapes, True, False, None, integers.
func parseLiteral(text string) (any, error) {
	p := literal{text}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("%.20q follows what Python would read", p.rest)
	}
	return v, nil
}

type literal struct{ rest string }

func (p *literal) space() { p.rest = strings.TrimLeft(p.rest, " \t\n\r\f") }

// take takes s where it comes next.
func (p *literal) take(s string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *literal) value(depth int) (any, error) {
	if depth > maxLiteral {
		return nil, fmt.Errorf("more than %d brackets stand in each other", maxLiteral)
	}
	p.space()
	switch {
	case p.take("{"):
		return p.dict(depth)
	case p.take("("):
		return p.list(")", depth)
	case p.take("["):
		return p.list("]", depth)
	case strings.HasPrefix(p.rest, "'") || strings.HasPrefix(p.rest, `"`):
		return p.text()
	}
	end := strings.IndexAny(p.rest, " \t\n\r\f,:(){}[]'\"")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	switch word {
	case "True":
		return true, nil
	case "False":
		return false, nil
	case "None":
		return nil, nil
	}
	if n, err := strconv.ParseInt(strings.TrimSuffix(word, "L"), 10, 64); err == nil { // 3L: written by Python 2
		return n, nil
	}
	if word == "" {
		return nil, fmt.Errorf("%.20q stands where a value should", p.rest)
	}
	return nil, fmt.Errorf("%.50q is no value that NumPy writes", word)
}

// text reads a string. NumPy writes names with escapes in structured types alone.
func (p *literal) text() (string, error) {
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok {
		return "", errors.New("a string does not end")
	}
	if strings.ContainsAny(s, "\\\n") {
		return "", fmt.Errorf("the string %.50q has an escape", s)
	}
	p.rest = rest
	return s, nil
}

func (p *literal) dict(depth int) (any, error) {
	d := dict{}
	for !p.take("}") {
		key, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("%v stands where a key should", key)
		}
		if _, twice := d[name]; twice {
			return nil, fmt.Errorf("%q stands there twice", name)
		}
		if !p.take(":") {
			return nil, fmt.Errorf("no value follows %q", name)
		}
		if d[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if !p.take(",") {
			if p.take("}") {
				break
			}
			return nil, errors.New("a dictionary does not end")
		}
	}
	return d, nil
}

// list reads what stands before its closing bracket. One value in parentheses without a comma is that value.
func (p *literal) list(closing string, depth int) (any, error) {
	list := tuple{}
	for !p.take(closing) {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if !p.take(",") {
			if !p.take(closing) {
				return nil, fmt.Errorf("no %s ends a list", closing)
			}
			if closing == ")" && len(list) == 1 {
				return list[0], nil
			}
			break
		}
	}
	return list, nil
}
