package weights

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
)

// A Sum is what a pass over a tensor's bytes tells.
type Sum struct {
	// SHA256, in hexadecimal, of what Tensor.Open gives: the elements in row-major order, little-endian, without name,
	// shape and type. Equal tensors have equal ones, whatever format they lie in. Empty where there are no elements.
	SHA256 string `json:"sha256,omitempty"`
	// Stats are nil where Why says why: complex numbers, blocks of GGUF, types that are not known, no elements.
	Stats *Stats `json:"stats,omitempty"`
	Why   string `json:"no_stats,omitempty"`
}

// Stats are of a tensor's elements. Min, Max, Mean and Std are of the finite ones, and nil where there are none; Mean
// and Std also where they pass a float64. The others are counted.
type Stats struct {
	// as short as they can be and still be told from their neighbours; of integers and bools exact, whatever their size
	Min *json.Number `json:"min"`
	Max *json.Number `json:"max"`
	// in float64: mean and deviation of each part of statsBlock elements, put together as Chan, Golub and LeVeque do
	// ("Updating formulae and a pairwise algorithm for computing sample variances", 1979)
	Mean *float64 `json:"mean"`
	Std  *float64 `json:"std"` // of all of them (ddof=0), as NumPy's std is

	Zeros int64 `json:"zeros"` // -0 too
	NaN   int64 `json:"nan"`
	Inf   int64 `json:"inf"` // of both signs
}

const (
	sumBlock   = 1 << 18 // bytes that are held at once, twice; a multiple of each element's size
	statsBlock = 1 << 10 // elements
)

// Sum reads a tensor once. It holds sumBlock bytes of it and no more.
func (t Tensor) Sum() (Sum, error) {
	s, err := t.sum()
	if err != nil {
		err = fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return s, err
}

func (t Tensor) sum() (s Sum, err error) {
	r, err := t.Open()
	if errors.Is(err, ErrNoData) {
		return Sum{Why: err.Error()}, nil
	}
	if err != nil {
		return s, err
	}
	defer r.Close()
	count := counters[t.DType]
	var of stats
	if count == nil {
		switch {
		case t.DType == C64 || t.DType == C128:
			s.Why = "complex numbers have no order"
		default:
			s.Why = fmt.Sprintf("elements of %s are not decoded", t.DType)
		}
	}
	// The next block is read and hashed while this one is counted.
	type read struct {
		data []byte
		err  error
	}
	blocks, free := make(chan read), make(chan []byte, 2)
	free <- make([]byte, min(t.Bytes, sumBlock))
	free <- make([]byte, min(t.Bytes, sumBlock))
	digest := sha256.New()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(blocks)
		readBlocks(r, t.Bytes, digest, free, stop, func(data []byte, err error) bool {
			select {
			case blocks <- read{data, err}:
				return err == nil
			case <-stop:
				return false
			}
		})
	}()
	defer func() { close(stop); <-ended }() // before r is closed
	for b := range blocks {
		if b.err != nil {
			return s, b.err
		}
		if count != nil {
			count(&of, b.data)
		}
		free <- b.data[:cap(b.data)]
	}
	s.SHA256 = hex.EncodeToString(digest.Sum(nil))
	if count != nil {
		s.Stats = of.result(t.DType)
	}
	return s, nil
}

// readBlocks reads n bytes, no more and no less, and gives them on by blocks once they are in the digest.
func readBlocks(r io.Reader, n int64, digest hash.Hash, free <-chan []byte, stop <-chan struct{},
	give func([]byte, error) bool) {
	for at := int64(0); at < n; {
		var block []byte
		select {
		case block = <-free:
		case <-stop:
			return
		}
		block = block[:min(n-at, sumBlock)]
		got, err := io.ReadFull(r, block)
		if at += int64(got); err != nil {
			give(nil, fmt.Errorf("only %d of its %d bytes came: %w", at, n, unexpected(err)))
			return
		}
		digest.Write(block)
		if !give(block, nil) {
			return
		}
	}
	// to the end: a packed stream holds a checksum there
	var more [1]byte
	if got, err := io.ReadFull(r, more[:]); got > 0 {
		give(nil, fmt.Errorf("more than its %d bytes came", n))
	} else if err != io.EOF {
		give(nil, err)
	}
}

// stats are gathered in one pass.
type stats struct {
	n             int64 // finite elements
	mean, m2      float64
	min, max      float64
	imin, imax    int64 // of signed integers, exact
	umin, umax    uint64
	zeros         int64
	nan, inf      int64
	values        [statsBlock]float64
	signed, whole bool // which of min, imin and umin stand
}

// add takes in a part of finite values.
func (s *stats) add(values []float64) {
	if len(values) == 0 {
		return
	}
	// four sums beside each other: one would wait for each addition
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(values); i += 4 {
		a += values[i]
		b += values[i+1]
		c += values[i+2]
		d += values[i+3]
	}
	for ; i < len(values); i++ {
		a += values[i]
	}
	n := float64(len(values))
	mean := (a + b + c + d) / n
	if math.IsInf(a+b+c+d, 0) { // of float64 near their end
		mean = 0
		for _, v := range values {
			mean += v / n
		}
	}
	a, b, c, d = 0, 0, 0, 0
	for i = 0; i+4 <= len(values); i += 4 {
		e, f, g, h := values[i]-mean, values[i+1]-mean, values[i+2]-mean, values[i+3]-mean
		a += e * e
		b += f * f
		c += g * g
		d += h * h
	}
	for ; i < len(values); i++ {
		e := values[i] - mean
		a += e * e
	}
	all := float64(s.n) + n
	delta := mean - s.mean
	s.m2 += a + b + c + d + delta*delta*(float64(s.n)*n/all)
	s.mean += delta * (n / all)
	s.n += int64(len(values))
}

func (s *stats) result(d DType) *Stats {
	r := &Stats{Zeros: s.zeros, NaN: s.nan, Inf: s.inf}
	if s.n == 0 {
		return r
	}
	var least, most json.Number
	switch {
	case s.whole && s.signed:
		least, most = json.Number(strconv.FormatInt(s.imin, 10)), json.Number(strconv.FormatInt(s.imax, 10))
	case s.whole:
		least, most = json.Number(strconv.FormatUint(s.umin, 10)), json.Number(strconv.FormatUint(s.umax, 10))
	default:
		bits := 32 // that is exact for what is narrower
		if d == F64 {
			bits = 64
		}
		least, most = number(s.min, bits), number(s.max, bits)
	}
	r.Min, r.Max = &least, &most
	if std := math.Sqrt(s.m2 / float64(s.n)); !math.IsInf(std, 0) && !math.IsNaN(std) {
		r.Std = &std
	}
	if !math.IsInf(s.mean, 0) && !math.IsNaN(s.mean) {
		r.Mean = &s.mean
	}
	return r
}

func number(v float64, bits int) json.Number {
	return json.Number(strconv.FormatFloat(v, 'g', -1, bits))
}

// counters take blocks of elements into stats, by type.
var counters = map[DType]func(*stats, []byte){
	Bool:   func(s *stats, b []byte) { unsigned(s, b, 1, func(b []byte) uint64 { return uint64(min(b[0], 1)) }) },
	U8:     func(s *stats, b []byte) { unsigned(s, b, 1, func(b []byte) uint64 { return uint64(b[0]) }) },
	U16:    func(s *stats, b []byte) { unsigned(s, b, 2, func(b []byte) uint64 { return uint64(le.Uint16(b)) }) },
	U32:    func(s *stats, b []byte) { unsigned(s, b, 4, func(b []byte) uint64 { return uint64(le.Uint32(b)) }) },
	U64:    func(s *stats, b []byte) { unsigned(s, b, 8, le.Uint64) },
	I8:     func(s *stats, b []byte) { signed(s, b, 1, func(b []byte) int64 { return int64(int8(b[0])) }) },
	I16:    func(s *stats, b []byte) { signed(s, b, 2, func(b []byte) int64 { return int64(int16(le.Uint16(b))) }) },
	I32:    func(s *stats, b []byte) { signed(s, b, 4, func(b []byte) int64 { return int64(int32(le.Uint32(b))) }) },
	I64:    func(s *stats, b []byte) { signed(s, b, 8, func(b []byte) int64 { return int64(le.Uint64(b)) }) },
	F8E4M3: byteFloats(float8E4M3),
	F8E5M2: byteFloats(float8E5M2),
	F16: func(s *stats, b []byte) {
		for len(b) > 0 {
			part := b[:min(len(b), 2*statsBlock)]
			for i := 0; i+2 <= len(part); i += 2 {
				s.values[i/2] = Float16(le.Uint16(part[i:]))
			}
			s.floats(s.values[:len(part)/2])
			b = b[len(part):]
		}
	},
	BF16: func(s *stats, b []byte) {
		for len(b) > 0 {
			part := b[:min(len(b), 2*statsBlock)]
			for i := 0; i+2 <= len(part); i += 2 {
				s.values[i/2] = float64(math.Float32frombits(uint32(le.Uint16(part[i:])) << 16))
			}
			s.floats(s.values[:len(part)/2])
			b = b[len(part):]
		}
	},
	F32: func(s *stats, b []byte) {
		for len(b) > 0 {
			part := b[:min(len(b), 4*statsBlock)]
			for i := 0; i+4 <= len(part); i += 4 {
				s.values[i/4] = float64(math.Float32frombits(le.Uint32(part[i:])))
			}
			s.floats(s.values[:len(part)/4])
			b = b[len(part):]
		}
	},
	F64: func(s *stats, b []byte) {
		for len(b) > 0 {
			part := b[:min(len(b), 8*statsBlock)]
			for i := 0; i+8 <= len(part); i += 8 {
				s.values[i/8] = math.Float64frombits(le.Uint64(part[i:]))
			}
			s.floats(s.values[:len(part)/8])
			b = b[len(part):]
		}
	},
}

var le = binary.LittleEndian

// floats takes in a part of values, of which some may not be finite; it writes over them.
func (s *stats) floats(values []float64) {
	first := s.n == 0
	least, most := s.min, s.max
	if first {
		least, most = math.Inf(1), math.Inf(-1)
	}
	zeros, n := int64(0), 0
	for _, v := range values {
		if v-v != 0 { // NaN and the infinities alone
			if v != v {
				s.nan++
			} else {
				s.inf++
			}
			continue
		}
		if v == 0 {
			zeros++
		}
		if v < least {
			least = v
		}
		if v > most {
			most = v
		}
		values[n] = v
		n++
	}
	if s.zeros += zeros; n > 0 {
		s.min, s.max = least, most
		s.add(values[:n])
	}
}

// byteFloats counts by a table of all values that there are.
func byteFloats(decode func(uint8) float64) func(*stats, []byte) {
	var table [1 << 8]float64
	for i := range table {
		table[i] = decode(uint8(i))
	}
	return func(s *stats, b []byte) {
		for len(b) > 0 {
			part := b[:min(len(b), statsBlock)]
			for i, v := range part {
				s.values[i] = table[v]
			}
			s.floats(s.values[:len(part)])
			b = b[len(part):]
		}
	}
}

// small decodes a float of so many bits of exponent and mantissa; special says what the largest exponent holds.
func small(v uint32, exponent, mantissa uint, special func(fraction uint32) (float64, bool)) float64 {
	sign := 1.0
	if v>>(exponent+mantissa)&1 == 1 {
		sign = -1
	}
	e, f := v>>mantissa&(1<<exponent-1), v&(1<<mantissa-1)
	bias := 1<<(exponent-1) - 1
	if e == 1<<exponent-1 {
		if value, is := special(f); is {
			return sign * value
		}
	}
	if e == 0 {
		return sign * math.Ldexp(float64(f), 1-bias-int(mantissa))
	}
	return sign * math.Ldexp(float64(f+1<<mantissa), int(e)-bias-int(mantissa))
}

func ieee(fraction uint32) (float64, bool) {
	if fraction == 0 {
		return math.Inf(1), true
	}
	return math.NaN(), true
}

// float8E5M2 and float8E4M3 are those of "FP8 formats for deep learning" (Micikevicius and others, 2022, table 1): the
// second has no infinities, and one NaN of each sign.
func float8E5M2(v uint8) float64 { return small(uint32(v), 5, 2, ieee) }
func float8E4M3(v uint8) float64 {
	return small(uint32(v), 4, 3, func(f uint32) (float64, bool) { return math.NaN(), f == 7 })
}

// Float16 is the value of an IEEE 754 half.
func Float16(v uint16) float64 {
	sign, e, f := uint32(v)>>15<<31, uint32(v)>>10&31, uint32(v)&1023
	switch e {
	case 0:
		return math.Copysign(math.Ldexp(float64(f), -24), float64(1-2*int(v>>15)))
	case 31:
		return float64(math.Float32frombits(sign | 255<<23 | f<<13))
	}
	return float64(math.Float32frombits(sign | (e+127-15)<<23 | f<<13))
}

// countIntegers counts those of so many bytes; least and most are where those of the kind are kept.
func countIntegers[T int64 | uint64](s *stats, b []byte, size int, decode func([]byte) T, least, most *T) {
	for len(b) > 0 {
		part := b[:min(len(b), size*statsBlock)]
		if s.n == 0 && len(part) >= size {
			*least = decode(part)
			*most = *least
		}
		n := 0
		for i := 0; i+size <= len(part); i += size {
			v := decode(part[i:])
			*least, *most = min(*least, v), max(*most, v)
			if v == 0 {
				s.zeros++
			}
			s.values[n] = float64(v)
			n++
		}
		s.add(s.values[:n])
		b = b[len(part):]
	}
}

func unsigned(s *stats, b []byte, size int, decode func([]byte) uint64) {
	s.whole = true
	countIntegers(s, b, size, decode, &s.umin, &s.umax)
}

func signed(s *stats, b []byte, size int, decode func([]byte) int64) {
	s.whole, s.signed = true, true
	countIntegers(s, b, size, decode, &s.imin, &s.imax)
}
