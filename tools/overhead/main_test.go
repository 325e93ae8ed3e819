package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRoundsGoForwardsAndBackwards(t *testing.T) {
	if got := append(order(3, 0), order(3, 1)...); !slices.Equal(got, []int{0, 1, 2, 2, 1, 0}) {
		t.Errorf("order %v", got)
	}
}

func TestBootstrap(t *testing.T) {
	got := bootstrap([]float64{1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09})
	if got.N != 10 || got.Low >= got.Median || got.High <= got.Median || got.Low < 1 || got.High > 1.09 {
		t.Errorf("interval %+v", got)
	}
	if one := bootstrap([]float64{1.5}); *one != (interval{Median: 1.5, Low: 1.5, High: 1.5, N: 1}) {
		t.Errorf("interval of one pair %+v", one)
	}
}

func TestLastObject(t *testing.T) {
	var m measured
	if err := lastObject([]byte("hello\n{\"median\": 0.002, \"loss\": \"0x1p+0\"}\nsome tool's last word\n"),
		&m); err != nil || m.Median != 0.002 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := lastObject([]byte("nothing\n"), &m); err == nil {
		t.Error("figures out of nothing")
	}
}

func TestCompare(t *testing.T) {
	runs := []measured{
		{Variant: "bare", Round: 0, Median: 2, Mean: 2, Wall: 5, Loss: "a"},
		{Variant: "assay", Round: 0, Median: 2.1, Mean: 2.2, Wall: 6, Loss: "a",
			Told: &told{Step: 2.02, Share: 0.08, Low: 0.05, High: 0.11, Basis: "measured"}},
		{Variant: "bare", Round: 1, Median: 4, Mean: 4, Wall: 5, Loss: "a"},
		{Variant: "assay", Round: 1, Median: 4.2, Mean: 4.4, Wall: 6, Loss: "b",
			Told: &told{Step: 4.04, Share: 0.02, Low: 0.01, High: 0.03, Basis: "measured"}},
		{Variant: "torch.profiler", Round: 0, Missing: "it broke"},
	}
	bare, got := compare([]variant{{name: "bare"}, {name: "assay"}, {name: "torch.profiler"}}, runs)
	if bare != 3 || len(got) != 2 {
		t.Fatalf("bare %g, %d ratios", bare, len(got))
	}
	if m := got[0].Median; m.N != 2 || m.Median < 1.049 || m.Median > 1.051 || got[0].SameLoss {
		t.Errorf("assay %+v %+v", got[0], m)
	}
	if c := got[0]; c.Measured != 2 || c.Holds != 1 || c.Step.Median < 1.009 || c.Step.Median > 1.011 {
		t.Errorf("what assay says: %+v, step %+v", c, c.Step)
	}
	var out strings.Builder
	show(&out, &record{Pairs: 2, Workloads: []workload{{Ratios: got}}})
	for _, want := range []string{"DIFFERS", "missing: it broke"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
