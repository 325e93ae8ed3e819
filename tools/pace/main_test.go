package main

import (
	"math"
	"os"
	"slices"
	"testing"

	"assay/internal/pace"
)

// figures reads the committed figures, and works the table and what was held out anew.
func figures(t *testing.T) (*data, pace.Table, holds) {
	t.Helper()
	d, err := load("data")
	if err != nil {
		t.Fatal(err)
	}
	table := d.fit(func(step) bool { return true })
	return d, table, d.held(table)
}

// TestFresh: the table and the page are those that the committed figures make.
func TestFresh(t *testing.T) {
	d, table, held := figures(t)
	for path, want := range map[string]string{"../../internal/pace/efficiency.csv": d.csv(table, held),
		"../../docs/pace.md": d.page(table, held)} {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is stale: go run ./tools/pace", path)
		}
	}
}

// TestCoverage: with its source, its chip or its model left out, four steps of five lie in the band, and where the
// device bounds a step the band is at most twice wide.
func TestCoverage(t *testing.T) {
	_, table, held := figures(t)
	for name, trials := range map[string][]trial{"source": held.bySource, "chip": held.byChip,
		"model": held.byWorkload} {
		in, all, pairs, allPairs := count(trials)
		t.Logf("its %s left out: %d of %d steps, %d of %d pairs", name, in, all, pairs, allPairs)
		if float64(in) < 0.8*float64(all) || float64(pairs) < 0.8*float64(allPairs) {
			t.Errorf("its %s left out, the band holds %d of %d steps and %d of %d pairs", name, in, all, pairs,
				allPairs)
		}
	}
	if width := table.Step.High / table.Step.Low; width > narrowest+1e-9 {
		t.Errorf("the band of the device's work is %.2f times wide", width)
	}
	if in, all, _, _ := count(held.bySource); pace.Load().Coverage.Held != in || pace.Load().Coverage.Figures != all {
		t.Errorf("the room says %+v, the figures %d of %d", pace.Load().Coverage, in, all)
	}
}

// A product of 4096² takes 2·4096³ operations: in 12.03842 ms that is 11.42 TFLOPS, as chsasank's README has it for the
// M3 Max (11.4), which computes 14.32 at most.
func TestEfficiencyByHand(t *testing.T) {
	o, err := efficiency(map[string]string{"chip": "M3 Max", "cores": "40", "operator": "square matmul",
		"shape": "4096x4096",
		"ms":    "12.03842"})
	if err != nil || o.bound != pace.ByCompute || math.Abs(o.share-11.4/14.32) > 0.002 {
		t.Errorf("%+v, %v: want 11.4 of 14.32 TFLOPS", o, err)
	}
	// 64·16·32·1024 elements of 4 bytes read and written in 3.32 ms: 80.8 GB/s of 204.8.
	o, err = efficiency(map[string]string{"chip": "M1 Pro", "cores": "16", "operator": "Softmax",
		"shape": "64x16x32x1024 axi=-1",
		"ms":    "3.32"})
	if err != nil || o.bound != pace.ByBandwidth || math.Abs(o.share-80.85/204.8) > 0.001 {
		t.Errorf("%+v, %v: want 80.85 of 204.8 GB/s", o, err)
	}
	if _, err = efficiency(map[string]string{"operator": "Dream", "shape": "1"}); err == nil {
		t.Error("an operator that nobody knows has an efficiency")
	}
}

func TestQuantiles(t *testing.T) {
	var xs []float64
	for i := 19; i >= 1; i-- {
		xs = append(xs, float64(i))
	}
	if q := quantiles(xs); q != (pace.Quantiles{Low: 2, Mid: 10, High: 18}) {
		t.Errorf("of 1 to 19: %v", q)
	}
	if q := quantiles([]float64{3, 1, 2}); q != (pace.Quantiles{Low: 1, Mid: 2, High: 3}) {
		t.Errorf("of few, the least and the greatest: %v", q)
	}
}

// No step of those that a band is tried on has a part in it.
func TestLeftOutIsLeftOut(t *testing.T) {
	d, _, _ := figures(t)
	odd := slices.Clone(d.steps)
	for i := range odd {
		if odd[i].source == "mrdbourke/mac-ml-speed-test" {
			odd[i].seconds *= 1000
		}
	}
	before := d.leaveOut(func(s step) string { return s.source })
	changed := *d
	changed.steps = odd
	after := changed.leaveOut(func(s step) string { return s.source })
	for i := range before {
		if before[i].source == "mrdbourke/mac-ml-speed-test" && (before[i].band.Low != after[i].band.Low ||
			before[i].band.High != after[i].band.High) {
			t.Fatalf("%s: its own source's figures are in its band", before[i].key())
		}
	}
}
