package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
)

// TestGather: of arrays of each shape and blocks of each size every element comes in its place, from a file and from a
// stream. An element is its place in row-major order; where it lies in Fortran order follows from the definition.
func TestGather(t *testing.T) {
	shapes := [][]int64{{7, 5}, {1, 4}, {4, 1}, {2, 3, 4}, {3, 1, 2, 5}, {2, 2, 2, 2, 2}, {1, 1, 6}, {64, 3}}
	for _, shape := range shapes {
		n, _ := Product(shape)
		source, want := make([]byte, 3+4*n), make([]byte, 4*n)
		for i := range n {
			at, step, rest := int64(0), int64(1), i
			index := make([]int64, len(shape))
			for k := len(shape) - 1; k >= 0; k-- {
				index[k], rest = rest%shape[k], rest/shape[k]
			}
			for k, d := range shape { // the first axis moves fastest
				at += index[k] * step
				step *= d
			}
			binary.LittleEndian.PutUint32(source[3+4*at:], uint32(i))
			binary.LittleEndian.PutUint32(want[4*i:], uint32(i))
		}
		stream := func() (io.ReadCloser, error) { return io.NopCloser(iotest.HalfReader(bytes.NewReader(source))), nil }
		for _, block := range []int64{1, 4, 12, 20, 40, 100, 1 << 20} {
			sources := map[string]io.ReaderAt{"file": bytes.NewReader(source), "stream": &forward{open: stream}}
			for name, from := range sources {
				got, err := io.ReadAll(newGather(from, 3, shape, 4, block))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v by %d bytes from a %s: %v, %v, want %v", shape, block, name, words(got), err,
						words(want))
				}
			}
		}
	}
}

func words(b []byte) string {
	list := make([]uint32, len(b)/4)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return fmt.Sprint(list)
}
