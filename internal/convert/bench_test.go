package convert

import (
	"bytes"
	"io"
	"testing"
)

// BenchmarkMoves is what moving alone costs.
func BenchmarkMoves(b *testing.B) {
	for _, c := range []struct {
		from, to string
		shape    []int64
	}{
		{"OIHW", "OHWI", []int64{512, 512, 3, 3}}, {"OIHW", "HWIO", []int64{512, 512, 3, 3}},
		{"HWIO", "OHWI", []int64{3, 3, 512, 512}}, {"OI", "IO", []int64{4096, 4096}},
		{"OCHW", "HWCO", []int64{4096, 512, 7, 7}}, {"OCHW", "OHWC", []int64{4096, 512, 7, 7}},
		{"IO", "OI", []int64{25088, 4096}},
	} {
		b.Run(c.from+c.to, func(b *testing.B) {
			n := 4
			for _, d := range c.shape {
				n *= int(d)
			}
			in, whole, out := make([]byte, n), make([]byte, n), make([]byte, block)
			m, _ := between(c.from, c.to, c.shape)
			b.SetBytes(int64(n))
			for b.Loop() {
				r, err := readMoved(bytes.NewReader(in), m, 4, func(int) []byte { return whole })
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = r.Read(out)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}
