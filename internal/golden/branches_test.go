package golden

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// behind gives the made net a ReLU behind bn1, and a pool of 2 × 2 behind that whose values are those of its input.
func behind(m *made) *made {
	m.Calls[2].From = from(-1)
	x := m.tensors["call/1"]
	relu := array{x.shape, slices.Clone(x.values)}
	for i, v := range relu.values {
		relu.values[i] = max(v, 0)
	}
	m.put("fed/2", relu)
	out := array{[]int64{1, 4, 3, 4}, nil}
	for c := range 4 {
		for y := range 3 {
			for x := range 4 {
				at := c*48 + 2*y*8 + 2*x
				v := relu.values
				out.values = append(out.values, max(v[at], v[at+1], v[at+8], v[at+9]))
			}
		}
	}
	m.put("call/2", out)
	return m
}

// grown changes gradients by a part of them, in every other value.
func (m *made) grown(by float64, names ...string) *made {
	for _, name := range names {
		values := m.tensors["gradient/"+name].values
		for i := range values {
			values[i] *= 1 + by*float64(i%2)
		}
	}
	return m
}

// near makes two values of bn1's second channel, in one window, a and b.
func (m *made) near(a, b float64) *made {
	m.tensors["call/1"].values[48], m.tensors["call/1"].values[49] = a, b
	return m
}

func shown(t *testing.T, r *Result) string {
	t.Helper()
	var text bytes.Buffer
	if err := r.Text(&text, 400); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

var firstGradients = []string{"conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias"}

// Gradients that differ from one module back name it, where nothing went another way.
func TestBackwardNamesTheModule(t *testing.T) {
	r := compared(t, behind(net()).open(t), behind(net()).grown(0.3, append([]string{"branch2.weight", "branch2.bias"},
		firstGradients...)...).open(t))
	b := r.Backward
	if r.Answer != Departs || b == nil || b.Module != "branch2" || b.Behind == nil || *b.Behind != 0 ||
		len(b.Weights) != 2 || b.Weights[0].Relative < 0.1 || b.Cosine > 0.999 {
		t.Errorf("%s, %+v", r.Answer, b)
	}
	text := shown(t, r)
	for _, want := range []string{"branch2 is the first to differ, by", "all behind it agree, within 0.0e+00",
		"none has another sign"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A weight that all together hide is judged by itself.
func TestBackwardOfASmallWeight(t *testing.T) {
	small := func(by float64) *Golden {
		m := net()
		for i := range m.tensors["gradient/mix.bias"].values {
			m.tensors["gradient/mix.bias"].values[i] *= 1e-3
		}
		return m.grown(by, "mix.bias").open(t)
	}
	for by, want := range map[string]string{"0.5": Departs, "0.01": Same} {
		r := compared(t, small(0), small(map[string]float64{"0.5": 0.5, "0.01": 0.01}[by]))
		if p := part(t, r, "gradients"); r.Answer != want || p.Whole > Usual.Gradient {
			t.Errorf("%s: %s: %+v", by, r.Answer, p)
		}
	}
}

// Where a value behind a ReLU, or a pool's largest one, went another way, gradients in front of it differ and those
// behind do not: that is no fault. It says nothing of gradients behind, nor of ones that differ by more than it can
// make.
func TestBranches(t *testing.T) {
	a := func(x, y float64) *Golden { return behind(net().near(x, y)).open(t) }
	b := func(x, y, by float64, names ...string) *Golden {
		return behind(net().near(x, y).grown(by, names...)).open(t)
	}
	for name, c := range map[string]struct {
		a, b  *Golden
		want  string
		found string
	}{
		"relu": {a(1e-7, 3), b(-1e-7, 3, 0.2, firstGradients...), NotKnown,
			"1 of 192 values of bn1 behind a ReLU have another sign"},
		"pool": {a(2, 2.000001), b(2.000001, 2, 0.2, firstGradients...), NotKnown,
			"1 of 48 windows of pool have their largest value elsewhere"},
		"behind it": {a(1e-7, 3), b(-1e-7, 3, 0.2, append([]string{"head.weight"}, firstGradients...)...), Departs,
			"of bn1 behind a ReLU"},
		"by too much":   {a(1e-7, 3), b(-1e-7, 3, -1.9, firstGradients...), Departs, "of bn1 behind a ReLU"},
		"and no more":   {a(1e-7, 3), b(-1e-7, 3, 0), Same, "of bn1 behind a ReLU"},
		"far from zero": {a(1e-7, 3), b(-1e-3, 3, 0.2, firstGradients...), Departs, ""},
		"nothing":       {a(1, 3), b(1, 3, 0.2, firstGradients...), Departs, "of 192 values behind a ReLU none"},
	} {
		t.Run(name, func(t *testing.T) {
			r := compared(t, c.a, c.b)
			if text := shown(t, r); r.Answer != c.want || !strings.Contains(text, c.found) {
				t.Errorf("%s\n%s", r.Answer, text)
			}
			hint := strings.Contains(r.Why, "record other inputs")
			if c.want == NotKnown && (r.Backward == nil || r.Backward.Module != "bn1" || !hint) {
				t.Errorf("%s, %+v", r.Why, r.Backward)
			}
		})
	}
}

// What comes of a ReLU is found in a concatenation, and what goes through none is not counted.
func TestPlanesBehindAReLU(t *testing.T) {
	x, free := random("x", 2, 3, 4, 5), random("free", 2, 3, 4, 5)
	y := array{x.shape, slices.Clone(x.values)}
	x.values[7], y.values[7] = -1e-9, 1e-9
	both := array{[]int64{2, 6, 4, 5}, nil}
	for n := range 2 {
		for _, v := range y.values[n*60 : n*60+60] {
			both.values = append(both.values, max(v, 0))
		}
		both.values = append(both.values, free.values[n*60:n*60+60]...)
	}
	p := newPlanes()
	p.saw(1, both)
	p.gave(0, "x", x, y, false, 1e-5)
	p.gave(1, "free", free, free, false, 1e-5)
	if found := p.relus(); len(found) != 1 || found[0].Module != "x" || found[0].Of != 120 || found[0].Other != 1 {
		t.Errorf("%+v", found)
	}
	p = newPlanes()
	p.gave(0, "x", x, y, true, 1e-5) // the layer has it within
	if found := p.relus(); len(found) != 1 || found[0].Of != 120 || found[0].Other != 1 {
		t.Errorf("%+v", found)
	}
}

// What is no pool of largest values, or cannot be told, has no winners.
func TestWinners(t *testing.T) {
	in := random("in", 1, 2, 4, 4)
	mean := array{[]int64{1, 2, 1, 1}, []float64{0.1, 0.2}}
	if _, ok := winners(in, in, mean, mean, 1e-5); ok {
		t.Error("a mean has winners")
	}
	zero := array{in.shape, make([]float64, 32)}
	most := array{mean.shape, []float64{0, 0}}
	if n, ok := winners(zero, zero, most, most, 1e-5); n != 0 || !ok {
		t.Errorf("of equal values %d", n)
	}
	if _, ok := winners(in, array{}, in, in, 1e-5); ok {
		t.Error("an input is missing")
	}
	none := array{[]int64{1, 2, 0, 4}, nil}
	if _, ok := winners(none, none, none, none, 1e-5); ok {
		t.Error("there are no values")
	}
}

// The loss of each step is compared; after updates that may differ, by their part of what it has moved.
func TestLossOfEachStep(t *testing.T) {
	with := func(losses ...Number) *Golden {
		m := net()
		m.Losses = losses
		for _, w := range netWeights {
			m.put("update/2/"+w.name, m.tensors["update/1/"+w.name])
		}
		return m.open(t)
	}
	for _, c := range []struct {
		b    []Number
		want string
	}{
		{[]Number{1.5, 1.2, 1.1}, ""},
		{[]Number{1.5, 1.201, 1.1}, ""},      // 1e-3 of the 0.3 that it moved
		{[]Number{1.5, 1.2, 1.3}, "loss 3"},  // it goes up again
		{[]Number{1.5, 1.25, 1.1}, "loss 2"}, // a sixth less
		{[]Number{1.501, 1.2, 1.1}, "loss"},
	} {
		r := compared(t, with(1.5, 1.2, 1.1), with(c.b...))
		var off []string
		for _, p := range r.Parts {
			if !p.Agrees {
				off = append(off, p.What)
			}
		}
		if !slices.Equal(off, slices.DeleteFunc([]string{c.want}, func(s string) bool { return s == "" })) {
			t.Errorf("%v: %v departs", c.b, off)
		}
	}
}
