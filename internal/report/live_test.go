package report

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/evidence"
)

// underWay is the digits' run in its third epoch.
func underWay() *evidence.Run {
	run := digitsRun()
	run.Outcome = evidence.Outcome{Started: true, Exit: -1, Reason: "the run is under way"}
	n := 102
	s := &run.Steps
	s.Number, s.Start, s.Total, s.Epoch, s.Kind = s.Number[:n], s.Start[:n], s.Total[:n], s.Epoch[:n], s.Kind[:n]
	run.Windows, run.Processes = nil, []evidence.Process{{PID: 7, Observed: true, Steps: n}}
	run.Epochs[2].Last, run.Epochs[2].Complete = n, false
	run.Loss.Step, run.Loss.Value = run.Loss.Step[:n], run.Loss.Value[:n]
	run.Ended = run.Started
	return run
}

var aheadOfIt = Ahead{Of: "epoch", Steps: 45, Seconds: 1.4, Low: 1.3, High: 1.5}

// TestLiveFrame: a run under way as it is drawn, in a terminal of the usual size and in a small one.
func TestLiveFrame(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 12}} {
		lines := Live{Width: size[0], Height: size[1]}.Frame(underWay(), aheadOfIt)
		text := strings.Join(lines, "\n") + "\n"
		if len(lines) >= size[1] {
			t.Errorf("%d lines in %d:\n%s", len(lines), size[1], text)
		}
		golden(t, fmt.Sprintf("live-%d.txt", size[0]), []byte(text))
	}
}

// TestLiveFits: whatever the terminal, no line is wider and there are no more than it has; colour is only paint; a
// script may be named so that a terminal would obey it.
func TestLiveFits(t *testing.T) {
	for name, run := range samples() {
		run.Subject.Script = "evil\x1b]0;title\x07" + strings.Repeat("long", 40) + ".py"
		for _, width := range []int{1, 20, 39, 40, 80, 200} {
			for _, height := range []int{1, 2, 7, 24, 80} {
				plain := Live{Width: width, Height: height}.Frame(run, aheadOfIt)
				painted := Live{Width: width, Height: height, Color: true}.Frame(run, aheadOfIt)
				if len(plain) > max(height-1, 1) {
					t.Errorf("%s: %d lines in %d", name, len(plain), height)
				}
				for i, line := range plain {
					if n := utf8.RuneCountInString(line); n > width {
						t.Errorf("%s: %d columns in %d: %s", name, n, width, line)
					}
					if strings.ContainsAny(line, "\x1b\x07") {
						t.Errorf("%s: %q reached the terminal", name, line)
					}
					if unpaint(painted[i]) != unpaint(line) {
						t.Errorf("%s: colour changes the text: %q %q", name, painted[i], line)
					}
				}
			}
		}
	}
}

// TestLiveLine: the same for a pipe.
func TestLiveLine(t *testing.T) {
	loop := underWay()
	loop.Epochs = nil
	begun := underWay()
	begun.Steps, begun.Epochs, begun.Processes = evidence.StepSeries{}, nil, []evidence.Process{{PID: 7}}
	late := *underWay()
	late.Epochs = append(late.Epochs[:2:2], evidence.Epoch{Number: 3, First: 91, Last: 200})
	for _, c := range []struct {
		run   *evidence.Run
		ahead Ahead
		want  string
	}{
		{underWay(), aheadOfIt,
			"step 102, epoch 3: 12 of 45 steps, 26 %, about 1.03 s to go (953 ms – 1.10 s)"},
		{underWay(), Ahead{}, "step 102, 30.8 ms a step"},
		{loop, Ahead{Of: "loop", Steps: 204, Seconds: 8, Low: 8, High: 8},
			"loop: 102 of 204 steps, 50 %, about 4.00 s to go (4.00–4.00 s), 8.00 s in all"},
		{loop, Ahead{Of: "epoch", Steps: 50, Seconds: 8, Low: 8, High: 8}, "epoch: 2 of 50 steps, 4 %"},
		{&late, aheadOfIt, "epoch 3: 45 of 45 steps, 100 %, 1.40 s in all"},
		{begun, Ahead{}, "train.py: no training step yet"},
	} {
		if got := (Live{}).Line(c.run, c.ahead); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		xs        []float64
		low, high float64
		want      string
	}{
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 99, -1}, 0, 8, "▁▂▃▄▅▆▇███▁"}, {[]float64{5, 5}, 5, 5, "▁▁"},
		{nil, 0, 1, ""},
	} {
		if got := sparkline(c.xs, c.low, c.high); got != c.want {
			t.Errorf("%v: %s, want %s", c.xs, got, c.want)
		}
	}
	if got := means([]float64{1, 3, 5, 7, 9, 11}, 3); len(got) != 3 || got[0] != 2 || got[2] != 10 {
		t.Error(got)
	}
}
