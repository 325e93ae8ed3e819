package convert

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"assay/internal/weights"
)

// floats are the types that --dtype changes; integers and booleans are left as they are.
var floats = map[weights.DType]bool{weights.F16: true, weights.BF16: true, weights.F32: true, weights.F64: true}

// ParseDType reads what --dtype names.
func ParseDType(word string) (weights.DType, error) {
	switch word {
	case "f16", "float16", "F16":
		return weights.F16, nil
	case "bf16", "bfloat16", "BF16":
		return weights.BF16, nil
	case "f32", "float32", "F32":
		return weights.F32, nil
	}
	return "", fmt.Errorf("%q is no type that weights are converted to: f16, bf16, f32", word)
}

// A caster reads elements of one float type and gives them as another, rounded to the nearest, ties to even.
type caster struct {
	from     io.Reader
	in, out  weights.DType
	overflow *atomic.Int64 // finite values that became infinite
	raw      []byte
	kept     int // bytes in raw that are no whole element yet
	buffer   []byte
	left     []byte
}

func newCaster(from io.Reader, in, out weights.DType, overflow *atomic.Int64) *caster {
	return &caster{from: from, in: in, out: out, overflow: overflow, raw: make([]byte, block)}
}

// Read gives the next bytes.
func (c *caster) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		n, err := c.from.Read(c.raw[c.kept:])
		n += c.kept
		size := int(c.in.Size())
		whole := n / size
		if whole == 0 && err != nil {
			if err == io.EOF && n > 0 {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, err
		}
		c.cast(whole)
		c.kept = copy(c.raw, c.raw[whole*size:n])
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *caster) cast(n int) {
	size := int(c.out.Size())
	if cap(c.buffer) < n*size {
		c.buffer = make([]byte, block/int(c.in.Size())*size)
	}
	c.left = c.buffer[:n*size]
	little := binary.LittleEndian
	var over int64
	switch { // the common ones, by their bits
	case c.in == weights.F32 && c.out == weights.BF16:
		c.overflow.Add(brainsOf(c.raw, c.left, n))
		return
	case c.in == weights.F32 && c.out == weights.F16:
		c.overflow.Add(halvesOf(c.raw, c.left, n))
		return
	}
	for i := range n {
		// every float type here is exact as float64, so that what follows rounds once
		var v float64
		switch c.in {
		case weights.F64:
			v = math.Float64frombits(little.Uint64(c.raw[i*8:]))
		case weights.F32:
			v = float64(math.Float32frombits(little.Uint32(c.raw[i*4:])))
		case weights.BF16:
			v = float64(math.Float32frombits(uint32(little.Uint16(c.raw[i*2:])) << 16))
		case weights.F16:
			v = fromHalf(little.Uint16(c.raw[i*2:]))
		}
		infinite := false
		switch c.out {
		case weights.F32:
			f := float32(v)
			infinite = math.IsInf(float64(f), 0)
			little.PutUint32(c.left[i*4:], math.Float32bits(f))
		case weights.BF16:
			b := toNarrow(v, 8, 7)
			infinite = b&0x7fff == 0x7f80
			little.PutUint16(c.left[i*2:], b)
		case weights.F16:
			h := toNarrow(v, 5, 10)
			infinite = h&0x7fff == 0x7c00
			little.PutUint16(c.left[i*2:], h)
		}
		if infinite && !math.IsInf(v, 0) {
			over++
		}
	}
	c.overflow.Add(over)
}

// brainsOf makes n bfloat16 of as many float32, and counts the finite ones that became infinite.
func brainsOf(from, to []byte, n int) (over int64) {
	from, to = from[:4*n], to[:2*n]
	for len(from) >= 4 && len(to) >= 2 {
		b := binary.LittleEndian.Uint32(from)
		h := uint16((b + 0x7fff + b>>16&1) >> 16)
		if h&0x7f80 == 0x7f80 {
			if b&0x7fffffff > 0x7f800000 { // a NaN, which rounding could make infinite
				h = uint16(b>>16)&0x8000 | 0x7fc0
			} else if b&0x7fffffff != 0x7f800000 {
				over++
			}
		}
		binary.LittleEndian.PutUint16(to, h)
		from, to = from[4:], to[2:]
	}
	return over
}

// halvesOf makes n float16 of as many float32, and counts the finite ones that became infinite.
func halvesOf(from, to []byte, n int) (over int64) {
	from, to = from[:4*n], to[:2*n]
	for len(from) >= 4 && len(to) >= 2 {
		b := binary.LittleEndian.Uint32(from)
		sign, size := uint16(b>>16&0x8000), b&0x7fffffff
		var h uint16
		switch {
		case size > 0x7f800000: // a NaN
			h = 0x7e00
		case size == 0x7f800000:
			h = 0x7c00
		case size >= 0x477ff000: // 65520, from which on it rounds to more than the largest
			h = 0x7c00
			over++
		case size >= 0x38800000: // 2^-14, the least normal one
			h = uint16((size - 112<<23 + 0xfff + size>>13&1) >> 13)
		default: // the last bit of 0.5 as a float32 is that of the subnormals: the sum rounds as they do
			h = uint16(math.Float32bits(math.Float32frombits(size)+0.5) - 126<<23)
		}
		binary.LittleEndian.PutUint16(to, sign|h)
		from, to = from[4:], to[2:]
	}
	return over
}

func fromHalf(h uint16) float64 {
	sign, exponent, fraction := float64(1), int(h>>10&31), float64(h&1023)
	if h>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 31:
		if fraction == 0 {
			return sign * math.Inf(1)
		}
		return math.NaN()
	case 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// toNarrow is v in an IEEE format of this many bits of exponent and fraction, sixteen bits in all with the sign:
// rounded to the nearest, ties to even, subnormal where it is small; a NaN is a quiet one.
func toNarrow(v float64, exponentBits, fractionBits int) uint16 {
	bias := 1<<(exponentBits-1) - 1
	top := uint16(1)<<exponentBits - 1
	sign := uint16(0)
	if math.Signbit(v) {
		sign = 1 << 15
	}
	switch {
	case math.IsNaN(v):
		return sign | top<<fractionBits | 1<<(fractionBits-1)
	case v == 0:
		return sign
	case math.IsInf(v, 0):
		return sign | top<<fractionBits
	}
	_, exponent := math.Frexp(v) // v = f × 2^exponent with f in [0.5, 1)
	unit := max(exponent-1, 1-bias) - fractionBits
	steps := math.RoundToEven(math.Ldexp(math.Abs(v), -unit)) // exact: a power of two, and at most 2^53
	// steps counts units; those of a normal number begin at 2^fractionBits, and a carry goes into the exponent
	bits := uint64(steps) + uint64(unit+fractionBits-(1-bias))<<fractionBits
	if bits >= uint64(top)<<fractionBits {
		return sign | top<<fractionBits
	}
	return sign | uint16(bits)
}
