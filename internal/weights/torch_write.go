package weights

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
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

// planTorch is a state dict as torch.save writes it: an OrderedDict of tensors by their whole names, each with a storage of
// its own. torch.load reads it with weights_only=True, and with mmap=True.
func planTorch(meta map[string]string, plan []Tensor) ([]Tensor, frames, error) {
	list, err := planned(plan, "PyTorch's files hold", func(d DType) bool { _, ok := torchWritten[d]; return ok })
	if err != nil {
		return nil, nil, err
	}
	for _, t := range list {
		if len(t.Shape) > 64 {
			return nil, nil, fmt.Errorf("tensor %q: shape %v is none", t.Name, t.Shape)
		}
	}
	pickled := torchPickle(list)
	begun := int64(-1) // where the content of the last entry begins
	record := func(e *zipped, name string) (io.Writer, error) {
		if err := e.zip.Flush(); err != nil {
			return nil, err
		}
		at := e.to.at
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
		return e.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store,
			Extra: append(extra, make([]byte, padding)...),
			//lint:ignore SA1019 Modified would add a field, and the records would no longer be aligned
			ModifiedDate: 1<<5 | 1}) // 1980-01-01, the first day of a zip file
	}
	small := func(e *zipped, name, content string) error {
		w, err := record(e, name)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		return err
	}
	return list, &zipped{list: list, comment: metaComment(meta),
		first: func(e *zipped) error {
			begun = -1
			return errors.Join(small(e, "data.pkl", pickled), small(e, "byteorder", "little"))
		},
		entry: func(e *zipped, i int) (io.Writer, error) { return record(e, "data/"+strconv.Itoa(i)) },
		last:  func(e *zipped) error { return small(e, "version", "3\n") },
	}, nil
}

// torchPickle is the pickle of a state dict, in protocol 2 as torch.save has it.
func torchPickle(tensors []Tensor) string {
	b := []byte("\x80\x02ccollections\nOrderedDict\n)R(")
	for i, t := range tensors {
		kind := torchWritten[t.DType]
		n, _ := t.Elements()
		rebuild, class, counted := "_rebuild_tensor_v2", "torch\n"+kind.storage, n
		if kind.storage == "" {
			rebuild, class, counted = "_rebuild_tensor_v3", "torch.storage\nUntypedStorage", t.Bytes
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
	return string(append(b, "u."...))
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
