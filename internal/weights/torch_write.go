package weights

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"assay/internal/file"
)

// torchWritten is how torch names the types that it can be given: the class of their storage, or where there is none a
// dtype over bytes.
var torchWritten = map[DType]struct{ storage, dtype string }{
	F64: {"DoubleStorage", ""}, F32: {"FloatStorage", ""}, F16: {"HalfStorage", ""}, BF16: {"BFloat16Storage", ""},
	I64: {"LongStorage", ""}, I32: {"IntStorage", ""}, I16: {"ShortStorage", ""}, I8: {"CharStorage", ""},
	U8: {"ByteStorage", ""}, Bool: {"BoolStorage", ""}, C64: {"ComplexFloatStorage", ""},
	C128: {"ComplexDoubleStorage", ""}, U16: {"", "uint16"}, U32: {"", "uint32"}, U64: {"", "uint64"},
	F8E4M3: {"", "float8_e4m3fn"}, F8E5M2: {"", "float8_e5m2"},
}

// torchAlignment of a record, in bytes: that of torch.save.
const torchAlignment = 64

// WriteTorch writes a state dict as torch.save does: an OrderedDict of tensors by their whole names, each with a
// storage of its own, whose elements come from its Open one after the other. What lay at path stays until the file is
// whole.
// The same tensors give the same bytes. torch.load reads it with weights_only=True, and with mmap=True.
func WriteTorch(path string, tensors []Tensor) error {
	pickled, err := torchPickle(tensors)
	if err == nil {
		err = file.Write(path, 0o644, func(to io.Writer) error { return writeTorchZip(to, pickled, tensors) })
	}
	if err != nil {
		return fmt.Errorf("writing weights to %s: %w", path, err)
	}
	return nil
}

// A torchCounter says how much was written through it.
type torchCounter struct {
	io.Writer
	n int64
}

func (c *torchCounter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

func writeTorchZip(to io.Writer, pickled []byte, tensors []Tensor) error {
	count := &torchCounter{Writer: to}
	archive := zip.NewWriter(count)
	begun := int64(-1) // where the content of the last entry begins
	record := func(name string) (io.Writer, error) {
		if err := archive.Flush(); err != nil {
			return nil, err
		}
		at := count.n
		switch { // a descriptor comes behind the content of the last: archive/zip writes it with the next entry
		case begun < 0:
		case at-begun >= 1<<32-1:
			at += 24
		default:
			at += 16
		}
		name = "archive/" + name
		const header = 30 + 4 // of an entry, and of the field that fills up, which torch calls FB
		padding := torchAlignment - (at+int64(header+len(name)))%torchAlignment
		begun = at + int64(header+len(name)) + padding
		extra := append([]byte("FB"), byte(padding), 0)
		return archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store,
			Extra: append(extra, make([]byte, padding)...),
			//lint:ignore SA1019 Modified would add a field, and the records would no longer be aligned
			ModifiedDate: 1<<5 | 1}) // 1980-01-01, the first day of a zip file
	}
	small := func(name, content string) error {
		w, err := record(name)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		return err
	}
	if err := errors.Join(small("data.pkl", string(pickled)), small("byteorder", "little")); err != nil {
		return err
	}
	buffer := make([]byte, 1<<20)
	for i, t := range tensors {
		w, err := record("data/" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		if err := copyTensor(w, t, buffer); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	if err := small("version", "3\n"); err != nil {
		return err
	}
	return archive.Close()
}

// copyTensor copies exactly as many bytes as the tensor has by its shape, through buffer, nil: one of its own.
func copyTensor(to io.Writer, t Tensor, buffer []byte) error {
	r, err := t.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, _ := t.Elements() // torchPickle held it against an int64
	want := n * t.DType.Size()
	got, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{io.LimitReader(r, want)}, buffer)
	if err != nil {
		return err
	}
	if got < want {
		return fmt.Errorf("only %d of its %d bytes came: %w", got, want, io.ErrUnexpectedEOF)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return fmt.Errorf("more than its %d bytes came", want)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// torchPickle is the pickle of a state dict, in protocol 2 as torch.save has it.
func torchPickle(tensors []Tensor) ([]byte, error) {
	seen := map[string]bool{}
	b := []byte("\x80\x02ccollections\nOrderedDict\n)R(")
	for i, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("there are two tensors named %q", t.Name)
		}
		seen[t.Name] = true
		kind, known := torchWritten[t.DType]
		n, ok := t.Elements()
		size := t.DType.Size()
		if !known {
			return nil, fmt.Errorf("tensor %q: torch has no type for %s", t.Name, t.DType)
		}
		if !ok || n > (1<<63-1)/size || len(t.Shape) > 64 {
			return nil, fmt.Errorf("tensor %q: shape %v is none", t.Name, t.Shape)
		}
		rebuild, class, counted := "_rebuild_tensor_v2", "torch\n"+kind.storage, n
		if kind.storage == "" {
			rebuild, class, counted = "_rebuild_tensor_v3", "torch.storage\nUntypedStorage", n*size
		}
		strides, step := make([]int64, len(t.Shape)), int64(1)
		for i := len(t.Shape) - 1; i >= 0; i-- {
			strides[i] = step
			step *= max(1, t.Shape[i])
		}
		b = pickledText(b, t.Name)
		b = append(b, "ctorch._utils\n"+rebuild+"\n(("...)
		b = append(pickledText(b, "storage"), "c"+class+"\n"...)
		b = pickledText(pickledText(b, strconv.Itoa(i)), "cpu")
		b = append(pickledInt(b, counted), "tQ"...) // a persistent id
		b = pickledInts(pickledInts(append(b, "K\x00"...), t.Shape), strides)
		b = append(b, "\x89ccollections\nOrderedDict\n)R"...) // requires no gradient, has no hooks
		if kind.dtype != "" {
			b = append(b, "ctorch\n"+kind.dtype+"\n"...)
		}
		b = append(b, "tR"...)
	}
	return append(b, "u."...), nil
}

func pickledText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...)
}

// pickledInt writes a number that is not negative, in the least room as CPython does: weights_only=True knows
// BININT1, BININT2, BININT and LONG1.
func pickledInt(b []byte, n int64) []byte {
	switch {
	case n < 1<<8:
		return append(b, 'K', byte(n))
	case n < 1<<16:
		return binary.LittleEndian.AppendUint16(append(b, 'M'), uint16(n))
	case n < 1<<31:
		return binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(n))
	}
	return binary.LittleEndian.AppendUint64(append(b, 0x8a, 8), uint64(n))
}

func pickledInts(b []byte, list []int64) []byte {
	b = append(b, '(')
	for _, n := range list {
		b = pickledInt(b, n)
	}
	return append(b, 't')
}
