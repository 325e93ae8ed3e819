package pace

import (
	"math"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
)

func f(v float64) *float64 { return &v }

func chipNamed(t *testing.T, name string) target.Chip {
	t.Helper()
	c, err := target.ParseChip(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rehearsed is a run of so many steps with these operators.
func rehearsed(steps int, ops ...evidence.RehearsedOp) *evidence.Run {
	run := &evidence.Run{}
	run.Rehearsal = &evidence.Rehearsal{Operators: ops}
	for i := range steps {
		run.Steps.Number = append(run.Steps.Number, i+1)
	}
	return run
}

// byHand has round numbers, so that a band can be worked out on paper.
func byHand() Table {
	t := Table{Compute: map[Class]Quantiles{Matmul: {0.25, 0.5, 1}}, Bandwidth: map[Class]Quantiles{},
		Step: Quantiles{0.8, 1, 1.6}, Launch: Quantiles{10e-6, 20e-6, 40e-6}, Wait: Quantiles{1e-3, 1e-3, 1e-3},
		Coverage: Coverage{4, 5, 2}}
	for _, c := range Classes() {
		t.Bandwidth[c] = Quantiles{0.25, 0.5, 1}
	}
	return t
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// An M1 computes 2.617 TFLOPS and moves 68.3 GB/s. In a step: a product of 2.617e11 operations at half the rate, 0.2 s,
// whose 6.83e8 bytes take 0.02 s; an addition of 6.83e9 bytes at half the bandwidth, 0.2 s; one wait.
func TestBandByHand(t *testing.T) {
	run := rehearsed(2,
		evidence.RehearsedOp{Operator: "aten::mm", Calls: 4, State: "native", FLOPs: f(2 * 2.617e11),
			Bytes: f(2 * 6.83e8)},
		evidence.RehearsedOp{Operator: "aten::add.Tensor", Calls: 20, State: "native", Bytes: f(2 * 6.83e9)},
		evidence.RehearsedOp{Operator: "aten::view", Calls: 1000, State: "native", Bytes: f(0)},
		evidence.RehearsedOp{Operator: "aten::_local_scalar_dense", Calls: 2, State: "native", Bytes: f(8)})
	b, err := byHand().of(run, chipNamed(t, "m1-8core-8gb"))
	if err != nil {
		t.Fatal(err)
	}
	if !near(b.Low, 0.8*0.4+1e-3) || !near(b.Mid, 0.4+1e-3) || !near(b.High, 1.6*0.4+1e-3) {
		t.Errorf("band %v to %v to %v, want 0.321, 0.401, 0.641", b.Low, b.Mid, b.High)
	}
	if got := b.Coverage.String(); got != "such a band held 4 of 5 published steps that it was not made from" {
		t.Errorf("coverage: %q", got)
	}
	if b.Basis != evidence.Predicted {
		t.Errorf("basis %q: a band is predicted", b.Basis)
	}
	for _, want := range []string{"matmul 50 % (most of it aten::mm), bounded by compute",
		"elementwise 50 % (most of it aten::add.Tensor), bounded by bandwidth"} {
		if !strings.Contains(b.Why, want) {
			t.Errorf("why: %q does not say %q", b.Why, want)
		}
	}
}

// A thousand small kernels a step, which take the device next to nothing.
func TestBFloat16IsSlowerOnAnM1(t *testing.T) {
	seconds := func(bf16 *float64, generation int) float64 {
		ops := []evidence.RehearsedOp{{Operator: "aten::mm", Calls: 1, State: "native", FLOPs: f(1e12), BF16FLOPs: bf16,
			Bytes: f(1e6)}}
		return byHand().Roofline(ops, 1, Rates{FLOPS: 1e12, Bytes: 1e12, Generation: generation}).Device
	}
	single := seconds(nil, 1)
	if got := seconds(f(1e12), 1); !near(got, single*4.28/2.25) {
		t.Errorf("a product in bfloat16 takes %g of FP32's time, published are 4.28/2.25", got/single)
	}
	if got := seconds(f(1e12), 4); !near(got, single) {
		t.Errorf("on an M4, of which nothing is published, %g of FP32's time", got/single)
	}
}

func TestLaunchingBounds(t *testing.T) {
	run := rehearsed(1, evidence.RehearsedOp{Operator: "aten::add_.Tensor", Calls: 1000, State: "native",
		Bytes: f(1000)})
	b, err := byHand().of(run, chipNamed(t, "m1-8gb"))
	if err != nil {
		t.Fatal(err)
	}
	if b.Bound != ByLaunching || !near(b.Low, 10e-3) || !near(b.Mid, 20e-3) || !near(b.High, 40e-3) {
		t.Errorf("%s: %v to %v to %v, want launching: 10, 20, 40 ms", b.Bound, b.Low, b.Mid, b.High)
	}
	if !strings.Contains(b.Why, "launching: 1000 kernels a step") {
		t.Errorf("why: %q", b.Why)
	}
	// of which nothing is published on later chips
	const later = "starting kernels as on chips up to the M3: later ones are faster"
	if slices.Contains(b.Assumed, later) {
		t.Errorf("an M1: %v", b.Assumed)
	}
	if b, err = byHand().of(run, chipNamed(t, "m4-16gb")); err != nil || !slices.Contains(b.Assumed, later) {
		t.Errorf("an M4: %v, %v; want %q", b.Assumed, err, later)
	}
}

// What published steps have next to nothing of is as wide as its own operators: sorting, here 4 times slower or 2
// faster.
func TestSeldomClassesWiden(t *testing.T) {
	table := byHand()
	table.Bandwidth[Sorting] = Quantiles{0.125, 0.5, 1}
	run := rehearsed(1, evidence.RehearsedOp{Operator: "aten::sort", Calls: 1, State: "native", Bytes: f(6.83e9)})
	b, err := table.of(run, chipNamed(t, "m1-8core-8gb"))
	if err != nil {
		t.Fatal(err)
	}
	if !near(b.Low, 0.1) || !near(b.Mid, 0.2) || !near(b.High, 0.8) {
		t.Errorf("%v to %v to %v, want 0.1, 0.2, 0.8", b.Low, b.Mid, b.High)
	}
}

// One kernel of eleven of which nothing is known is taken to last up to the longest known call, and is named.
func TestUnknownWidensAndIsNamed(t *testing.T) {
	known := evidence.RehearsedOp{Operator: "aten::add.Tensor", Calls: 10, State: "native", Bytes: f(6.83e9)}
	chip := chipNamed(t, "m1-8core-8gb")
	for _, unknown := range []evidence.RehearsedOp{
		{Operator: "aten::strange", Calls: 1, State: "native"},
		{Operator: "aten::linalg_svd", Calls: 1, State: "on the CPU", Bytes: f(4)},
	} {
		b, err := byHand().of(rehearsed(1, known, unknown), chip)
		if err != nil {
			t.Fatal(err)
		}
		if !near(b.Low, 0.8*0.2) || !near(b.High, 1.6*(0.2+0.02)) || !slices.Equal(b.Unknown,
			[]string{unknown.Operator}) {
			t.Errorf("%s: %v to %v, unknown %v; want 0.16 to 0.352 and its name", unknown.Operator, b.Low, b.High,
				b.Unknown)
		}
	}
}

// Steps are counted by their numbers, for the series of a long run lists some of them, or by the windows.
func TestStepsOf(t *testing.T) {
	run := &evidence.Run{}
	run.Steps.Number, run.Steps.Thin = []int{1, 11, 21}, 10
	if got := stepsOf(run); got != 21 {
		t.Errorf("of a thinned series that ends at 21: %d", got)
	}
	run.Windows = []evidence.Window{{Name: "steady", First: 2, Last: 30}}
	if got := stepsOf(run); got != 30 {
		t.Errorf("of a window that ends at 30: %d", got)
	}
}

func TestOfErrors(t *testing.T) {
	add := evidence.RehearsedOp{Operator: "aten::add.Tensor", Calls: 10, State: "native", Bytes: f(1e9)}
	m1 := chipNamed(t, "m1-8gb")
	for _, c := range []struct {
		name string
		run  *evidence.Run
		chip target.Chip
		want string
	}{
		{"no run", nil, m1, "was no rehearsal"},
		{"no rehearsal", &evidence.Run{}, m1, "was no rehearsal"},
		{"no step", rehearsed(0, add), m1, "saw no training step"},
		{"evidence without bytes", rehearsed(1, evidence.RehearsedOp{Operator: "aten::add.Tensor", Calls: 3}), m1,
			"of no operator FLOPs or bytes are known"},
		{"too much unknown", rehearsed(1, add, evidence.RehearsedOp{Operator: "aten::_thnn_fused_lstm_cell",
			Calls: 2}), m1,
			"of 2 of its 12 kernels neither FLOPs nor bytes are known (aten::_thnn_fused_lstm_cell)"},
		{"no such chip", rehearsed(1, add), target.Chip{Name: "Apple M1", Cores: 99},
			"99 GPU cores: it is not in the table"},
		{"no rate", rehearsed(1, add), target.Chip{Name: "Apple M6", Cores: 12}, "the FP32 rate of its GPU"},
	} {
		b, err := Of(c.run, c.chip)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.HintOf(err) == "" {
			t.Errorf("%s: %+v, error %v, hint %q; want %q and a hint", c.name, b, err, fault.HintOf(err), c.want)
		}
	}
}

// A chip with more of anything is not slower: among the parts of the table as well, where both rates are no less.
func TestFasterChipsAreNotSlower(t *testing.T) {
	ops := []evidence.RehearsedOp{
		{Operator: "aten::convolution", Calls: 50, State: "composed", FLOPs: f(5e12), Bytes: f(8e9)},
		{Operator: "aten::native_batch_norm", Calls: 50, State: "native", Bytes: f(9e9)},
		{Operator: "aten::addcmul_", Calls: 500, State: "native", Bytes: f(3e9)}}
	table := Load()
	was := math.Inf(1)
	for rate := 1e12; rate < 1e14; rate *= 1.3 {
		is := table.Band(table.Roofline(ops, 1, Rates{FLOPS: rate, Bytes: 1e11})).Mid
		if is > was {
			t.Errorf("%g FLOPS: %g s, with fewer %g s", rate, is, was)
		}
		was = is
	}
	was = math.Inf(1)
	for rate := 1e10; rate < 1e13; rate *= 1.3 {
		is := table.Band(table.Roofline(ops, 1, Rates{FLOPS: 1e13, Bytes: rate})).Mid
		if is > was {
			t.Errorf("%g B/s: %g s, with less %g s", rate, is, was)
		}
		was = is
	}
	type timed struct {
		name  string
		rates Rates
		mid   float64
	}
	var all []timed
	for _, p := range target.Parts() {
		chip := target.Chip{Name: "Apple " + p.Chip, Cores: p.Cores}
		rates, err := RatesOf(chip)
		if p.Generation == 6 {
			if err == nil {
				t.Errorf("%s: a rate, of a generation of which none is known", p.Chip)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := Of(rehearsed(1, ops...), chip)
		if err != nil {
			t.Fatal(err)
		}
		if !(0 < b.Low && b.Low < b.Mid && b.Mid < b.High) {
			t.Errorf("%s: %v, %v, %v are no band", p.Chip, b.Low, b.Mid, b.High)
		}
		all = append(all, timed{p.Chip, rates, b.Mid})
	}
	for _, a := range all {
		for _, b := range all {
			if a.rates.FLOPS >= b.rates.FLOPS && a.rates.Bytes >= b.rates.Bytes && a.mid > b.mid {
				t.Errorf("%s %v s, %s %v s", a.name, a.mid, b.name, b.mid)
			}
		}
	}
}

// A part whose own rate is not in the table takes that of a core of the same chip before another's, and says so.
func TestAssumedRate(t *testing.T) {
	r, err := RatesOf(target.Chip{Name: "Apple M4 Max", Cores: 40})
	if err != nil || !near(r.FLOPS, 13.74e12/32*40) || !strings.Contains(r.Assumed, "M4 Max") {
		t.Errorf("%+v, %v", r, err)
	}
	b, err := Of(rehearsed(1, evidence.RehearsedOp{Operator: "aten::mm", Calls: 1, FLOPs: f(1e12), Bytes: f(1e8)}),
		target.Chip{Name: "Apple M4 Max", Cores: 40})
	if err != nil || !slices.Contains(b.Assumed, r.Assumed) {
		t.Errorf("assumed %v, %v: want %q among it", b.Assumed, err, r.Assumed)
	}
}

func TestClassOf(t *testing.T) {
	for operator, want := range map[string]Class{
		"aten::mm": Matmul, "aten::addmm": Matmul, "aten::bmm": Matmul, "aten::convolution_backward": Convolution,
		"aten::_scaled_dot_product_attention_math_for_mps": Attention, "aten::_log_softmax_backward_data": Attention,
		"aten::native_batch_norm": Reduction, "aten::sum.dim_IntList": Reduction, "aten::nll_loss_forward": Reduction,
		"aten::max_pool2d_with_indices_backward": Reduction, "aten::max.dim": Reduction,
		"aten::add_.Tensor": Elementwise,
		"aten::maximum":     Elementwise, "aten::relu_": Elementwise, "aten::addcdiv_": Elementwise,
		"aten::gelu_backward":            Elementwise,
		"aten::embedding_dense_backward": Gathering, "aten::index.Tensor": Gathering,
		"aten::_index_put_impl_": Gathering,
		"aten::cat":              Copying, "aten::clone": Copying, "aten::zeros_like": Copying, "aten::sort": Sorting,
		"aten::topk": Sorting,
		"aten::view": nothing, "aten::t": nothing, "aten::empty.memory_format": nothing,
		"aten::_local_scalar_dense": waiting,
		"torchvision::nms":          Elementwise, "where": Elementwise,
	} {
		if got := ClassOf(operator); got != want {
			t.Errorf("%s: %s, want %s", operator, got, want)
		}
	}
}

func TestParseTable(t *testing.T) {
	text := string(efficiencyCSV)
	if _, err := parseTable([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text string }{
		{"empty", ""},
		{"a number that is none", strings.Replace(text, "matmul,compute,0", "matmul,compute,x", 1)},
		{"a rate of nothing", strings.Replace(text, "wait,seconds,0.00027", "wait,seconds,0", 1)},
		{"a measure that is none", strings.Replace(text, "matmul,compute", "matmul,warmth", 1)},
		{"a class without a row", strings.Replace(text, "sorting,bandwidth", "copying,bandwidth", 1)},
		{"no factor", text[:strings.Index(text, "step,factor")]},
	} {
		if _, err := parseTable([]byte(c.text)); err == nil {
			t.Errorf("%s: read without an error", c.name)
		}
	}
}
