package logbook

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestMLX: what MLX did is found by its own name of the device, and a change of framework is none of release.
func TestMLX(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	x := keep(t, b, another(t, "x", nil))
	y := keep(t, b, another(t, "y", func(run *evidence.Run) {
		run.Target.Framework, run.Target.Release = "mlx", "0.32.4"
		run.Target.Device, run.Target.System = "gpu", "darwin/arm64"
	}))
	p, err := b.Group(ctx, x)
	if err != nil {
		t.Fatal(err)
	}
	q, err := b.Group(ctx, y)
	if err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprint(Compare(p, q).Environment)
	if !strings.Contains(said, "{target framework torch 2.3.1+cu121 mlx 0.32.4}") {
		t.Errorf("two frameworks differ by %s", said)
	}
	entries, err := b.List(ctx, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	devices := ""
	for _, e := range entries {
		devices += " " + e.Device
	}
	if !strings.Contains(devices, "mlx") || strings.Contains(devices, "gpu") {
		t.Errorf("the devices are%s", devices)
	}
}

// TestBlocksOfWhatWasTakenApart: the noise of a phase is that of the steps which its figure is of, on a CPU as well.
func TestBlocksOfWhatWasTakenApart(t *testing.T) {
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	run.Target.Device = "cpu"
	run.Windows = []evidence.Window{{Name: "steady", First: 1, Last: 400}}
	run.Steps = evidence.StepSeries{Phases: []evidence.Phase{{Name: "forward"}}}
	for n := range 400 {
		kind, forward := "", 0.001
		if n%20 == 0 {
			kind, forward = "sync", 0.008
		}
		run.Steps.Number = append(run.Steps.Number, n+1)
		run.Steps.Kind = append(run.Steps.Kind, kind)
		run.Steps.Phases[0].Seconds = append(run.Steps.Phases[0].Seconds, forward)
	}
	for window, want := range map[string]float64{"synchronised": 0.008, "steady": 0.001} {
		f := evidence.Known("split.forward", want, "s", evidence.Measured)
		f.Window = window
		run.Figures = []evidence.Figure{f}
		for _, got := range blocks(&run, "split.forward") {
			if got != want {
				t.Errorf("of the window %s: %v, want %v", window, got, want)
			}
		}
		if len(blocks(&run, "split.forward")) == 0 {
			t.Errorf("no block of the window %s", window)
		}
	}
}
