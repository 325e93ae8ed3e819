package steps

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Tensor is what is recorded of one: no values but a sample.
type Tensor struct {
	Shape  []int64  `json:"shape"`
	DType  string   `json:"dtype"`
	Hash   string   `json:"hash"` // of all its bytes: it alone says that two are equal
	Stats  *numbers `json:"stats"`
	Sketch []byte   `json:"sketch"` // float64, sums of its elements with signs that position gives
	Sample []byte   `json:"sample"` // float64, elements at positions that its size gives
}

// numbers are of the finite elements, but for the counts.
type numbers struct {
	Min, Max, Mean, RMS number
	NaN, Inf, Zero      int64
}

// number may be one that JSON has not: "nan", "inf" or "-inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = number(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil && !math.IsInf(f, 0) {
		return fmt.Errorf("%.20q is no number", b)
	}
	*n = number(f)
	return nil
}

// Sizes of what is recorded of a tensor.
const (
	sketchNumbers = 64
	sampleNumbers = 256
	mostAxes      = 64 // of PyTorch's
)

// sketchError is one standard error of a norm that is estimated of 64 sums with random signs, as a part of it: the sum
// of 64 squares of normal numbers has the relative variance 2/64, and its root half of that deviation.
var sketchError = 1 / math.Sqrt(2*sketchNumbers)

// sure is how many times its tolerance a difference is where it is surely beyond: three standard errors.
var sure = 1 + 3*sketchError

func (t *Tensor) check() error {
	switch {
	case t == nil:
		return nil
	case len(t.Shape) > mostAxes || slices.ContainsFunc(t.Shape, func(d int64) bool { return d < 0 }):
		return fmt.Errorf("a tensor's shape is %.80s", fmt.Sprint(t.Shape))
	case len(t.DType) > mostAxes || len(t.Hash) > mostAxes:
		return errors.New("a tensor's type or hash is longer than any")
	case len(t.Sketch) != 0 && len(t.Sketch) != 8*sketchNumbers:
		return fmt.Errorf("a tensor's sketch has %d bytes, not %d", len(t.Sketch), 8*sketchNumbers)
	case len(t.Sample)%8 != 0 || len(t.Sample) > 2*8*sampleNumbers:
		return fmt.Errorf("a tensor's sample has %d bytes", len(t.Sample))
	}
	return nil
}

// elements is the number of them, -1 where it is more than any tensor has.
func (t *Tensor) elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		if d > 0 && n > math.MaxInt64/d {
			return -1
		}
		n *= d
	}
	return n
}

// size is the number of elements, 1 at least.
func (t *Tensor) size() float64 {
	if t == nil {
		return 1
	}
	return max(1, float64(t.elements()))
}

func floats(b []byte) []float64 {
	all := make([]float64, len(b)/8)
	for i := range all {
		all[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return all
}

// whole says that the sample is all of the tensor, in order.
func (t *Tensor) whole() bool {
	n := t.elements()
	return n >= 0 && n <= sampleNumbers && int64(len(t.Sample)) == 8*n
}

func (t *Tensor) rms() float64 {
	if t == nil || t.Stats == nil || math.IsNaN(float64(t.Stats.RMS)) {
		return 0
	}
	return float64(t.Stats.RMS)
}

// isFloat says whether the type rounds.
func isFloat(dtype string) bool {
	return strings.HasPrefix(dtype, "float") || strings.HasPrefix(dtype, "bfloat") ||
		strings.HasPrefix(dtype, "complex")
}

// Tolerances of PyTorch's own tests by type: relative, absolute. torch/testing/_comparison.py, _DTYPE_PRECISIONS, of
// 2.15. What is not in it has to be equal.
var precisions = map[string][2]float64{
	"float16":    {1e-3, 1e-5},
	"bfloat16":   {1.6e-2, 1e-5},
	"float32":    {1.3e-6, 1e-5},
	"float64":    {1e-7, 1e-7},
	"complex32":  {1e-3, 1e-5},
	"complex64":  {1.3e-6, 1e-5},
	"complex128": {1e-7, 1e-7},
}

// off is how far two tensors are apart.
type off struct {
	relative float64 // |a-b| / max(|a|, |b|) in the Euclidean norm, estimated of the sketches; 0 to 2
	equal    bool    // the hashes are
	exact    bool    // relative is no estimate: the samples are all there is
	share    float64 // of the sampled elements, the part that is not equal
	note     string  // what is known of the difference beside its size

	apart, a, b float64 // squares of the norms
}

// apartAll is the relative difference of what cannot be compared element by element.
const apartAll = 2

// differ holds two tensors against each other.
func differ(a, b *Tensor) off {
	if a == nil || b == nil {
		return off{relative: apartAll, note: "one side has none"}
	}
	if slices.Equal(a.Shape, b.Shape) && a.DType == b.DType && a.Hash == b.Hash && a.Hash != "" {
		return off{equal: true, a: norm(a), b: norm(b)}
	}
	if !slices.Equal(a.Shape, b.Shape) {
		d := off{relative: apartAll, note: fmt.Sprintf("the shapes are %v and %v", a.Shape, b.Shape)}
		if sameStatistics(a, b) {
			d.note += sameOrdered
		}
		return d
	}
	if x, y := a.Stats, b.Stats; x != nil && y != nil && (x.NaN != y.NaN || x.Inf != y.Inf) {
		return off{relative: apartAll, note: fmt.Sprintf("%d NaN and %d infinite in A, %d and %d in B",
			x.NaN, x.Inf, y.NaN, y.Inf)}
	}
	var d off
	one, other := floats(a.Sample), floats(b.Sample)
	if len(one) == len(other) && len(one) > 0 {
		unequal := 0
		for i := range one {
			if one[i] != other[i] && !(math.IsNaN(one[i]) && math.IsNaN(other[i])) {
				unequal++
			}
		}
		d.share = float64(unequal) / float64(len(one))
	}
	switch d.exact = a.whole() && b.whole(); {
	case d.exact:
		d.sum(one, other)
	case len(a.Sketch) > 0 && len(b.Sketch) > 0:
		d.sum(floats(a.Sketch), floats(b.Sketch))
	default:
		d.relative, d.note = apartAll, "how far they are apart is not recorded"
		return d
	}
	if d.relative > another && (sameStatistics(a, b) || d.exact && sameSorted(one, other)) {
		d.note = "B has the values of A in another order"
	}
	return d
}

const sameOrdered = ", and the numbers have the same least, most, mean and root of the mean square: " +
	"as those of A in another order"

// another is the least relative difference of values in another order; what is nearer is told by its size.
const another = 1e-3

func (d *off) sum(one, other []float64) {
	for i := range one {
		x, y := one[i], other[i]
		if math.IsNaN(x) || math.IsInf(x, 0) {
			x = 0
		}
		if math.IsNaN(y) || math.IsInf(y, 0) {
			y = 0
		}
		d.apart, d.a, d.b = d.apart+(x-y)*(x-y), d.a+x*x, d.b+y*y
	}
	d.settle()
}

func (d *off) settle() {
	if most := max(d.a, d.b); most > 0 && !math.IsInf(most, 0) {
		d.relative = min(math.Sqrt(d.apart/most), apartAll)
	}
}

// join adds the squares of another difference.
func (d *off) join(e off) {
	d.apart, d.a, d.b = d.apart+e.apart, d.a+e.a, d.b+e.b
}

// norm is the square of a tensor's norm.
func norm(t *Tensor) float64 {
	var d off
	if t.whole() {
		d.sum(floats(t.Sample), floats(t.Sample))
	} else {
		s := floats(t.Sketch)
		d.sum(s, s)
	}
	return d.a
}

// sameStatistics says that two tensors have the same numbers as far as their statistics tell: to eight digits, which a
// sum in another order keeps.
func sameStatistics(a, b *Tensor) bool {
	x, y := a.Stats, b.Stats
	if x == nil || y == nil || a.elements() != b.elements() || a.elements() < 2 || x.Min == x.Max {
		return false
	}
	most := math.Max(math.Abs(float64(x.Min)), math.Abs(float64(x.Max)))
	for _, pair := range [][2]number{{x.Min, y.Min}, {x.Max, y.Max}, {x.Mean, y.Mean}, {x.RMS, y.RMS}} {
		if !(math.Abs(float64(pair[0]-pair[1])) <= reordered*most) {
			return false
		}
	}
	return x.Zero == y.Zero
}

const reordered = 1e-6

func sameSorted(a, b []float64) bool {
	if len(a) < 2 || len(a) != len(b) {
		return false
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	var d off
	d.sum(a, b)
	return d.relative <= reordered
}

// moved is the tensor that a weight was moved by, as far as it is recorded: sketches are sums, so that their difference
// is that of the difference.
func moved(after, before *Tensor) ([]float64, bool) {
	if after == nil || before == nil || !slices.Equal(after.Shape, before.Shape) {
		return nil, false
	}
	x, y := floats(after.Sketch), floats(before.Sketch)
	if after.whole() && before.whole() {
		x, y = floats(after.Sample), floats(before.Sample)
	}
	if len(x) == 0 || len(x) != len(y) {
		return nil, false
	}
	for i := range x {
		x[i] -= y[i]
	}
	return x, true
}
