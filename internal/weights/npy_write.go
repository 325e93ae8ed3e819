package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxNPYDims is how many dimensions an array of NumPy 2 may have: NPY_MAXDIMS in ndarraytypes.h.
const maxNPYDims = 64

// npyTypes are NumPy's names of types, without the byte order; `|` stands before those of one byte.
var npyTypes = map[string]DType{
	"b1": Bool, "u1": U8, "i1": I8, "u2": U16, "i2": I16, "u4": U32, "i4": I32, "u8": U64, "i8": I64,
	"f2": F16, "f4": F32, "f8": F64, "c8": C64, "c16": C128,
}

func npyType(d DType) string {
	for name, t := range npyTypes {
		if t == d {
			if d.Size() == 1 {
				return "|" + name
			}
			return "<" + name
		}
	}
	return ""
}

func planNPZ(meta map[string]string, plan []Tensor) ([]Tensor, frames, error) {
	list, err := planned(plan, "npz holds", func(d DType) bool { return npyType(d) != "" })
	if err != nil {
		return nil, nil, err
	}
	for _, t := range list {
		if len(t.Shape) > maxNPYDims {
			return nil, nil, fmt.Errorf("tensor %q: NumPy has at most %d dimensions, and it has %d", t.Name, maxNPYDims,
				len(t.Shape))
		}
		if len(t.Name) > 60000 || strings.ContainsRune(t.Name, 0) || !utf8.ValidString(t.Name) {
			return nil, nil, fmt.Errorf("tensor %.100q: no name in a zip file can be that", t.Name)
		}
	}
	return list, &zipped{list: list, comment: metaComment(meta), entry: npzEntry}, nil
}

func npzEntry(e *zipped, i int) (io.Writer, error) {
	w, err := e.zip.CreateHeader(&zip.FileHeader{Name: e.list[i].Name + ".npy", Method: zip.Store, Modified: firstDay})
	if err == nil {
		_, err = w.Write(npyHeader(e.list[i]))
	}
	return w, err
}

// npyHeader is what numpy.save writes before an array in C order, byte for byte: _write_array_header and _wrap_header
// of NumPy 2.4's lib/_format_impl.py.
func npyHeader(t Tensor) []byte {
	shape := joined(t.Shape, ", ")
	if len(t.Shape) == 1 {
		shape += ","
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", npyType(t.DType), shape)
	if len(t.Shape) > 0 { // room to let the first axis grow: GROWTH_AXIS_MAX_DIGITS
		dict += strings.Repeat(" ", 21-len(fmt.Sprint(t.Shape[0])))
	}
	const before, align = 10, 64 // magic, version and length; ARRAY_ALIGN
	dict += strings.Repeat(" ", align-(before+len(dict)+1)%align) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(dict))))
	b.WriteString(dict)
	return b.Bytes()
}
