// Package weights reads and writes files of named tensors, without the framework that wrote them and without running
// anything that they hold.
//
// A file is hostile until it is parsed: what it says of sizes is held against what it has before memory is taken for
// it, and its tensors are read as streams.
package weights

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
)

// A DType is the type of an element, by the name that safetensors has for it; a type of GGUF's blocks ("Q4_K") has
// GGUF's name, and what has no size of its own ("object") is never read.
type DType string

// Types whose elements have a fixed size.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	U16    DType = "U16"
	I16    DType = "I16"
	U32    DType = "U32"
	I32    DType = "I32"
	U64    DType = "U64"
	I64    DType = "I64"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	F16    DType = "F16"
	BF16   DType = "BF16"
	F32    DType = "F32"
	F64    DType = "F64"
	C64    DType = "C64"  // two F32
	C128   DType = "C128" // two F64
)

var sizes = map[DType]int64{
	Bool: 1, U8: 1, I8: 1, U16: 2, I16: 2, U32: 4, I32: 4, U64: 8, I64: 8,
	F8E4M3: 1, F8E5M2: 1, F16: 2, BF16: 2, F32: 4, F64: 8, C64: 8, C128: 16,
}

// Size is that of an element in bytes; 0 where the type is none of those above, as that of a block.
func (d DType) Size() int64 { return sizes[d] }

// ErrNoData is that of Tensor.Open where a file names a tensor and has no elements of it.
var ErrNoData = errors.New("the file has no elements to give")

// A Tensor is one entry of a file.
type Tensor struct {
	Name  string
	DType DType
	Shape []int64 // outermost first, as the framework that wrote it says it; empty: a scalar
	Bytes int64   // what Open gives
	Where string  // in which file and at which offset it lies, for messages
	Note  string  // what is not as usual: "in Fortran order", "big-endian", "a view with strides [1 3]"; else empty
	Shard string  // file that it lies in, where a file names others; else empty

	// Open gives the elements in row-major order and little-endian, whatever the file has. It may be called again,
	// and from several goroutines.
	Open func() (io.ReadCloser, error)
}

// Elements is their number; 1 for a scalar, and false where it passes an int64.
func (t Tensor) Elements() (int64, bool) { return Product(t.Shape) }

// Product of dimensions, and false where one is negative or the product passes an int64.
func Product(shape []int64) (int64, bool) {
	if slices.Contains(shape, 0) {
		return 0, !slices.ContainsFunc(shape, func(d int64) bool { return d < 0 })
	}
	n := uint64(1)
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(d))
		if d < 0 || high != 0 || low > 1<<63-1 {
			return 0, false
		}
		n = low
	}
	return int64(n), true
}

// A File is an open file of weights, or several that one names.
type File struct {
	Path    string
	Format  string            // "safetensors", "npz", "npy", "torch", "torch (before 1.6)", "gguf", "keras", "hdf5"
	Meta    map[string]string // what the file says of itself
	Tensors []Tensor          // as the file orders them
	Notes   []string          // what was left out, and why; what is unusual
	Closers []io.Closer
}

// Fingerprint is another one where the file was changed: of the size and the time of change of each that it was read
// from, and of all that it says of itself and of its tensors. Elements are not read. False where there is no such file.
func (f *File) Fingerprint() (string, bool) {
	sum := sha256.New()
	found := false
	var files func(list []io.Closer)
	files = func(list []io.Closer) {
		for _, c := range list {
			switch c := c.(type) {
			case *File:
				files(c.Closers)
			case *os.File:
				if info, err := c.Stat(); err == nil {
					found = true
					fmt.Fprintln(sum, info.Size(), info.ModTime().UnixNano())
				}
			}
		}
	}
	files(f.Closers)
	for _, t := range f.Tensors {
		fmt.Fprintf(sum, "%q %s %v %d %q %q %q\n", t.Name, t.DType, t.Shape, t.Bytes, t.Where, t.Note, t.Shard)
	}
	for _, key := range slices.Sorted(maps.Keys(f.Meta)) {
		fmt.Fprintf(sum, "%q %q\n", key, f.Meta[key])
	}
	return fmt.Sprintf("%s %x", f.Format, sum.Sum(nil)), found
}

// Close closes what the file was read from.
func (f *File) Close() error {
	var first error
	for _, c := range f.Closers {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	f.Closers = nil
	return first
}
