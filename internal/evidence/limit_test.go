package evidence

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

func TestPerEpoch(t *testing.T) {
	value := 0.3
	for _, c := range []struct {
		name  string
		fig   Figure
		pace  float64
		known bool
	}{
		{"four ends are three epochs", Figure{Value: &value, N: 4}, 0.1, true},
		{"two ends", Figure{Value: &value, N: 2}, 0.3, true},
		{"one end has no pace", Figure{Value: &value, N: 1}, 0, false},
		{"how many is not known", Figure{Value: &value}, 0, false},
		{"growth is not known", Figure{N: 4, Missing: "stopped"}, 0, false},
	} {
		if pace, known := c.fig.PerEpoch(); known != c.known || math.Abs(pace-c.pace) > 1e-12 {
			t.Errorf("%s: %g, %v", c.name, pace, known)
		}
	}
}

func TestLimitAndFigureByName(t *testing.T) {
	run := NewRun("")
	run.Limits = []Limit{{Name: "data-wait", Value: 0.3, Unit: "ratio"}, {Name: "long-epoch", Value: 60, Unit: "s"}}
	run.Figures = []Figure{Known("step.time", 0.5, "s", Measured), Unknown("memory.growth", "ratio",
		"stopped before epoch 2")}
	if l, ok := run.Limit("long-epoch"); !ok || l.Value != 60 {
		t.Errorf("%+v, %v", l, ok)
	}
	if l, ok := run.Limit("swapping"); ok {
		t.Errorf("a limit that is not there: %+v", l)
	}
	if f := run.Figure("step.time"); !f.Known() || *f.Value != 0.5 || f.Basis != Measured {
		t.Errorf("%+v", f)
	}
	if f := run.Figure("memory.growth"); f.Known() || f.Missing != "stopped before epoch 2" {
		t.Errorf("%+v", f)
	}
	if f := run.Figure("gpu.busy.mean"); f.Known() || f.Missing == "" { // unknown, with a reason
		t.Errorf("a figure that is not there: %+v", f)
	}
}

// TestPagesNameTheThresholds: what the pages say is what is gone by.
func TestPagesNameTheThresholds(t *testing.T) {
	percent := func(v float64) string { return fmt.Sprintf("%g %%", 100*v) }
	for file, says := range map[string][]string{
		"../../docs/quiet.md": {"| " + percent(LostCPU) + " of the processor time that the run could have had |",
			"| `cpu-quota` | " + percent(QuotaTime) + " of the time |",
			"| `thermal-throttling` | " + percent(HeatTime) + " of the time |",
			fmt.Sprintf("| `swapping` | %d MiB a second, in and out |", SwapRate>>20)},
		"../../docs/gates.md": {fmt.Sprintf("memory.growth <= %s over %d epochs", percent(MemoryGrowth),
			GrowthEpochs), "speedup(mps, cpu) >= " + percent(Speedup)},
		"../../docs/commands.md": {fmt.Sprintf("--warn-epoch time    warn of epochs longer than this time (default \"%gm\")", LongEpoch/60)},
		"../../docs/verdict.md":  {"data below " + percent(DataWait) + " of the step"},
		"../../docs/measured.md": {fmt.Sprintf("a warning above %g minutes", LongEpoch/60)},
	} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range says {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
	}
}
