package fold

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/target"
)

// stream builds the events of a run whose answers can be worked out by hand.
type stream struct {
	f     *Fold
	parts [6]int64 // ms of a step, by former's names
}

var former = []string{"data", "h2d", "forward", "backward", "optimizer", "rest"}

func newStream() *stream {
	s := &stream{New(), [6]int64{1, 2, 3, 4, 5, 5}}
	s.own("start", StartEvent{ID: "test", Wall: time.Unix(1000, 0), Target: target.Target{Device: "auto"},
		Subject: evidence.Subject{Kind: "script", Dir: "/home/u/p"}})
	s.send(1, map[string]any{"ev": "hello", "version": 1, "pid": 7, "python": "3.12.1", "wall": 1000.0, "clock": 0})
	s.send(1, map[string]any{"ev": "framework", "name": "torch", "version": "2.8.0"})
	return s
}

func (s *stream) send(conn int, event map[string]any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	s.f.Add(conn, line)
}

func (s *stream) own(ev string, body any) {
	data, _ := json.Marshal(body)
	s.f.Add(Supervisor, append([]byte(`{"ev":"`+ev+`",`), data[1:]...))
}

// steps adds n steps of an epoch, each of 20 ms, the first at start ms.
func (s *stream) steps(epoch, first, n int, start float64, kind func(number int) string) {
	cols, parts := map[string][]any{}, map[string][]int64{}
	put := func(name string, v any) { cols[name] = append(cols[name], v) }
	for i := range n {
		number := first + i
		k := kind(number)
		scale := int64(1e6)
		if k == "sync" {
			scale = 1.1e6
		}
		put("number", number)
		put("start", int64((start+float64(i)*20)*1e6))
		put("total", 20*scale)
		for j, name := range former {
			parts[name] = append(parts[name], s.parts[j]*scale)
		}
		put("epoch", epoch)
		put("micro", 1)
		put("evals", 0)
		put("kind", k)
		put("live", int64(1000*number))
		put("pool", int64(5000))
		put("opts", 1)
		put("outside", 0)
	}
	event := map[string]any{"ev": "steps", "phases": parts}
	for name, col := range cols {
		event[name] = col
	}
	s.send(1, event)
}

func plainSteps(int) string { return "" }

func want(t *testing.T, run *evidence.Run, name string, value float64) {
	t.Helper()
	fig := run.Figure(name)
	if !fig.Known() || math.Abs(*fig.Value-value) > 1e-9*math.Max(1, math.Abs(value)) {
		t.Errorf("%s: %+v, want %g", name, fig, value)
	}
}

func wantUnknown(t *testing.T, run *evidence.Run, name, reason string) {
	t.Helper()
	if fig := run.Figure(name); fig.Known() || !strings.Contains(fig.Missing, reason) {
		t.Errorf("%s: %+v, want unknown: …%s…", name, fig, reason)
	}
}

func finding(run *evidence.Run, name string) *evidence.Finding {
	for i, f := range run.Findings {
		if f.Name == name {
			return &run.Findings[i]
		}
	}
	return nil
}

// TestSplitOnCPU: every step has its split; copies to a device do not exist there.
func TestSplitOnCPU(t *testing.T) {
	s := newStream()
	s.parts = [6]int64{1, 0, 3, 4, 5, 7}
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 10, "workers": 0})
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 10, 0, plainSteps)
	s.steps(2, 11, 10, 200, plainSteps)
	run := s.f.Finish()
	want(t, run, "step.time", 0.020)
	want(t, run, "split.forward", 0.003)
	want(t, run, "share.backward", 0.2)
	want(t, run, "samples.rate", 16/0.020)
	wantUnknown(t, run, "split.h2d", "CPU")
	wantUnknown(t, run, "memory.growth", "three epochs")
	if w := run.Windows[0]; w.Name != "steady" || w.First != 11 || w.Last != 20 || w.Steps != 10 {
		t.Errorf("steady window %+v", w)
	}
	if run.Outcome.Complete || !strings.Contains(run.Outcome.Reason, "assay itself was ended") {
		t.Errorf("outcome %+v: no exit event came", run.Outcome)
	}
}

// TestSplitOnDevice: the step is that of the unsynchronised steps, the split that of the synchronised ones.
func TestSplitOnDevice(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 40})
	s.send(1, map[string]any{"ev": "device", "type": "mps", "name": "Apple M3"})
	s.send(1, map[string]any{"ev": "limit", "bytes": 10000, "source": "torch.mps.recommended_max_memory"})
	kind := func(n int) string {
		if n%20 == 0 {
			return "sync"
		}
		return ""
	}
	s.steps(1, 1, 40, 0, kind)
	s.steps(2, 41, 40, 800, kind)
	run := s.f.Finish()
	want(t, run, "step.time", 0.020)
	want(t, run, "step.time.synchronised", 0.022)
	want(t, run, "split.backward", 0.0044)
	want(t, run, "memory.pool.peak", 5000)
	want(t, run, "memory.live.peak", 80000)
	want(t, run, "memory.watermark", 0.5)
	sum := 0.0
	for _, name := range former {
		sum += *run.Figure("share." + name).Value
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("shares add up to %g", sum)
	}
}

// TestShortDeviceRun: with no synchronised step the split is unknown, never guessed from host times.
func TestShortDeviceRun(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cuda"})
	s.steps(1, 1, 15, 0, plainSteps)
	run := s.f.Finish()
	want(t, run, "step.time", 0.020)
	wantUnknown(t, run, "split.forward", "no step was synchronised")
	wantUnknown(t, run, "share.forward", "no step was synchronised")
}

// TestGrowth: a line through 100, 110, 120, 130 from the second epoch on gains 30 % of its start; the first is left
// out.
func TestGrowth(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "mps"})
	for e := 1; e <= 5; e++ {
		s.steps(e, 10*e-9, 10, float64(200*e), plainSteps)
		live := 90 + 10*(e-1)
		if e == 1 {
			live = 5
		}
		s.send(1, map[string]any{"ev": "epoch", "number": e, "step": 10 * e, "live": live, "pool": 500, "resident": -1})
	}
	run := s.f.Finish()
	want(t, run, "memory.growth", 0.3)
	if finding(run, "memory-growth") == nil {
		t.Error("no finding: 10 % an epoch is far above the pace of 26 % over ten")
	}
	if run.Epochs[1].Resident != nil || *run.Epochs[1].Live != 100 {
		t.Errorf("epoch %+v", run.Epochs[1])
	}
}

// TestLongEpoch: the warning compares with the setting.
func TestLongEpoch(t *testing.T) {
	s := newStream()
	s.own("start", StartEvent{ID: "test", Wall: time.Unix(1000, 0), WarnLong: 1})
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 1000})
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 30, 0, plainSteps)
	run := s.f.Finish()
	want(t, run, "epoch.estimate", 20)
	if f := run.Figure("epoch.steps"); f.Basis != evidence.Declared || *f.Value != 1000 {
		t.Errorf("epoch.steps %+v", f)
	}
	if f := finding(run, "long-epoch"); f == nil || f.Basis != evidence.Derived {
		t.Errorf("long epoch: %+v", f)
	}
	if l, ok := run.Limit("long-epoch"); !ok || l.Value != 1 || l.Unit != "s" || l.Source != "--warn-epoch" {
		t.Errorf("the evidence does not keep the limit that it was judged by: %+v", run.Limits)
	}
}

// TestLimits: each finding that compares with a number has that number in the evidence, the default where nothing else
// was asked for.
func TestLimits(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 30, 0, plainSteps)
	run := s.f.Finish()
	for name, value := range map[string]float64{"long-epoch": 1800, "data-wait": 0.30, "memory-growth": 0.026,
		"cpu-contention": 0.05, "cpu-quota": 0.05,
		"thermal-throttling": 0.05, "swapping": 1 << 20} {
		if l, ok := run.Limit(name); !ok || math.Abs(l.Value-value) > 1e-12 || l.Unit == "" ||
			!strings.HasPrefix(l.Source, "default") {
			t.Errorf("%s: %+v, want %g by default", name, l, value)
		}
	}
}

// TestFallbacks: what PyTorch warned of is measured; what the dispatcher says of the profiled window is derived.
func TestFallbacks(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "mps"})
	s.send(1, map[string]any{"ev": "fallback", "operator": "aten::_linalg_eigh", "where": "/home/u/p/train.py:3",
		"count": 1})
	s.send(1, map[string]any{"ev": "profile", "first": 11, "last": 60, "file": "trace.json",
		"kernels": []any{[]any{"aten::mode", 50}}})
	run := s.f.Finish()
	if len(run.Fallbacks) != 2 || run.Fallbacks[0].Where != "train.py:3" ||
		run.Fallbacks[0].Basis != evidence.Measured ||
		run.Fallbacks[1].Operator != "aten::mode" || run.Fallbacks[1].Count != 50 ||
		run.Fallbacks[1].Basis != evidence.Derived {
		t.Errorf("%+v", run.Fallbacks)
	}
}

// TestWhichProcess: of several the one that trained is the evidence; of ranks alike, rank 0.
func TestWhichProcess(t *testing.T) {
	s := newStream()
	for conn, rank := range map[int]string{2: "1", 3: "0"} {
		s.send(conn, map[string]any{"ev": "hello", "version": 1, "pid": 10 + conn, "rank": rank, "wall": 1000.0,
			"token": fmt.Sprint(conn)})
		for n := range 20 {
			s.send(conn, map[string]any{"ev": "loss", "step": []int{n}, "value": []any{1.5}})
		}
	}
	s.f.conns[2].steps, s.f.conns[3].steps = make([]step, 21), make([]step, 20)
	run := s.f.Finish()
	for _, p := range run.Processes {
		if p.Observed != (p.Rank == "0") {
			t.Errorf("%+v", p)
		}
	}
	// A stream that broke and came back is the same process.
	s.send(9, map[string]any{"ev": "hello", "version": 1, "pid": 13, "token": "3"})
	if s.f.conns[9] != s.f.conns[3] {
		t.Error("a process that came back is counted twice")
	}
}

// TestNonFinite: losses that are no JSON numbers.
func TestNonFinite(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.send(1, map[string]any{"ev": "loss", "step": []int{1, 2, 3}, "value": []any{2.5, "nan", "-inf"}})
	run := s.f.Finish()
	if got := run.Numerics.NonFiniteLosses; len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("%v", got)
	}
	wantUnknown(t, run, "loss.last", "not finite")
	if _, err := json.Marshal(run); err != nil {
		t.Error(err)
	}
}

// TestNoPython: a command that starts no Python has evidence that says so.
func TestNoPython(t *testing.T) {
	s := &stream{f: New()}
	s.own("start", StartEvent{ID: "x", Wall: time.Unix(1000, 0)})
	s.own("exit", ExitEvent{Wall: time.Unix(1002, 0), Code: 3})
	run := s.f.Finish()
	if run.Outcome.Complete || run.Outcome.Exit != 3 || run.Outcome.Reason == "" {
		t.Errorf("%+v", run.Outcome)
	}
	wantUnknown(t, run, "step.time", "never said hello")
	want(t, run, "run.time", 2)
}

// FuzzFold: whatever comes over the socket, the fold neither fails nor makes evidence that is no JSON.
func FuzzFold(f *testing.F) {
	for _, line := range []string{
		`{"ev":"hello","pid":1}`, `{"ev":"steps","number":[1],"start":[0]}`,
		`{"ev":"syncs","rows":[["item",3],[1,2,3,4,5,6,7]]}`,
		`{"ev":"memory","phases":{"data":[[1,2,3,4]]}}`, `{"ev":"alive","epoch":-1,"retained":[["x"]],"graph":{}}`,
		`{"ev":"loss","step":[1],"value":["x"]}`,
		`{"ev":"only","what":"data","ns":[]}`, `{"ev":"gradients","step":[1],"finite":[]}`, `{"ev":5}`, `[]`,
		`{"ev":"profile","kernels":[[1]]}`,
		`{"ev":"steps","number":[1,2],"start":[0,-9],"total":[0,0],"rest":[0,0],"data":[0,0],"h2d":[0,0],"forward":[0,0],"backward":[0,0],"optimizer":[0,0],"epoch":[1,1],"micro":[0,0],"evals":[0,0],"kind":["",""],"live":[-1,-1],"pool":[-1,-1],"opts":[1,1],"outside":[0,0]}`,
		`{"ev":"phases","rows":[{"name":"a"},{"name":"b"}]}`,
		`{"ev":"steps","number":[1],"start":[0],"total":[5],"phases":{"a":[5]},"epoch":[1],"micro":[0],"evals":[0],"kind":[""],"live":[-1],"pool":[-1],"opts":[1],"outside":[0]}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s := newStream()
		s.send(1, map[string]any{"ev": "device", "type": "cpu"})
		s.f.Add(1, line)
		s.f.Add(Supervisor, line)
		run := s.f.Finish()
		for _, fig := range run.Figures {
			if fig.Value != nil && (math.IsNaN(*fig.Value) || math.IsInf(*fig.Value, 0)) {
				t.Errorf("%s is %g", fig.Name, *fig.Value)
			}
			if (fig.Value == nil) == (fig.Missing == "") {
				t.Errorf("%s: neither known nor unknown: %+v", fig.Name, fig)
			}
		}
	})
}

// TestEachFigureIsPut: each figure that the catalogue has of every run stands in the evidence once, with the
// catalogue's unit, known or with a reason that is its own; and nothing stands there that the catalogue does not have.
func TestEachFigureIsPut(t *testing.T) {
	short := newStream()
	full := newStream()
	full.send(1, map[string]any{"ev": "device", "type": "cpu"})
	full.steps(1, 1, 30, 0, plainSteps)
	noPython := &stream{f: New()}
	noPython.own("start", StartEvent{ID: "none", Wall: time.Unix(1000, 0), Target: target.Target{Device: "auto"}})
	rehearsed := newRehearsal()
	for name, s := range map[string]*stream{"no steps": short, "steps": full, "no Python": noPython,
		"a rehearsal": rehearsed} {
		run := s.f.Finish()
		seen := map[string]bool{}
		for _, fig := range run.Figures {
			row, ok := catalogue.Find(fig.Name)
			if !ok || row.Unit != fig.Unit || row.From != catalogue.Run && row.From != catalogue.Rehearsal ||
				seen[fig.Name] {
				t.Errorf("%s: %+v is not in the catalogue with that unit, or stands there twice", name, fig)
			}
			if fig.Missing == notLookedAt {
				t.Errorf("%s: nothing works out %s", name, fig.Name)
			}
			seen[fig.Name] = true
		}
		from := []catalogue.From{catalogue.Run}
		if run.Rehearsal != nil {
			from = append(from, catalogue.Rehearsal)
		}
		for _, f := range from {
			for _, figure := range catalogue.Names(f, catalogue.Phases) {
				if !seen[figure] {
					t.Errorf("%s: %s is missing", name, figure)
				}
			}
		}
	}
}

// TestNoStepTakesNoTime: an event with such a step is none: rates and shares of it would be no numbers. The steps
// before it stay.
func TestNoStepTakesNoTime(t *testing.T) {
	for _, total := range []int64{0, -1, math.MinInt64} {
		s := newStream()
		s.send(1, map[string]any{"ev": "device", "type": "cpu"})
		s.steps(1, 1, 30, 0, plainSteps)
		column := func(v any) []any { return []any{v} }
		s.send(1, map[string]any{"ev": "steps", "number": column(31), "start": column(600e6), "total": column(total),
			"data": column(0), "h2d": column(0),
			"forward": column(0), "backward": column(0), "optimizer": column(0), "rest": column(0), "epoch": column(1),
			"micro": column(1), "evals": column(0),
			"kind": column(""), "live": column(-1), "pool": column(-1), "opts": column(1), "outside": column(0)})
		run := s.f.Finish()
		if run.Outcome.Complete || !strings.Contains(run.Outcome.Reason,
			"1 lines of the event stream could not be read") || run.Processes[0].Steps != 30 {
			t.Errorf("a step of %d ns: %d steps, %+v", total, run.Processes[0].Steps, run.Outcome)
		}
		want(t, run, "step.time", 0.02)
	}
}

// TestNoFigureIsNoNumber: what would be infinite or no number is unknown, with the reason, in its value and in its
// quartiles; JSON could not write it.
func TestNoFigureIsNoNumber(t *testing.T) {
	finite, nan, inf, minus := 1.0, math.NaN(), math.Inf(1), math.Inf(-1)
	for _, bad := range []*float64{&nan, &inf, &minus} {
		for _, fig := range []evidence.Figure{{Value: bad}, {Value: &finite, Low: bad, High: &finite},
			{Value: &finite, Low: &finite, High: bad}} {
			fig.Name, fig.Unit = "step.time", "s"
			b := &builder{run: &evidence.Run{}}
			b.put(fig)
			if got := b.run.Figures[0]; got.Known() || got.Missing == "" || got.Low != nil || got.High != nil ||
				got.Unit != "s" {
				t.Errorf("%g: %+v", *bad, got)
			}
		}
	}
	b := &builder{run: &evidence.Run{}}
	b.put(evidence.Known("step.time", 2, "s", evidence.Measured))
	if !b.run.Figures[0].Known() {
		t.Error("a number is unknown")
	}

	s := newStream() // and from an event: a loss beyond all numbers
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 10, 0, plainSteps)
	s.f.Add(1, []byte(`{"ev":"loss","step":[1,2],"value":["inf","-inf"]}`))
	run := s.f.Finish()
	for _, fig := range run.Figures {
		for _, v := range []*float64{fig.Value, fig.Low, fig.High} {
			if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
				t.Errorf("%s is %g", fig.Name, *v)
			}
		}
	}
	if _, err := json.Marshal(run); err != nil {
		t.Error(err)
	}
}

// TestAskedFor: what was asked for goes whole into the evidence, of earlier assays' files the word that they have, and
// a run on another device is found.
func TestAskedFor(t *testing.T) {
	for _, c := range []struct {
		start, seen, wrong string
		want               target.Target
	}{
		{`"asked":"mps"`, "cpu", "mps was asked for, and the losses were on cpu", target.Target{Device: "mps"}},
		{`"asked":"cpu"`, "cuda", "cpu was asked for, and the losses were on cuda", target.Target{Device: "cpu"}},
		{`"asked":"cuda"`, "cuda", "", target.Target{Device: "cuda"}},
		{`"asked":"cuda"`, "", "", target.Target{Device: "cuda"}},
		{`"asked":"auto"`, "mps", "", target.Target{Device: "auto"}},
		{`"asked":""`, "mps", "", target.Target{}},
		{`"asked":"double","asked_release":"2.8","asked_chip":"m3-ultra","asked_macos":"15.5","asked_shape_only":true,"asked_host":"mac"`, "cpu", "",
			target.Target{Device: "double", Release: "2.8", Chip: "m3-ultra", MacOS: "15.5", ShapeOnly: true,
				Host: "mac"}},
	} {
		s := &stream{New(), [6]int64{1, 2, 3, 4, 5, 5}}
		s.f.Add(Supervisor, []byte(`{"ev":"start","id":"r","wall":"2026-01-02T03:04:05Z","system":"linux/amd64",`+c.start+`}`))
		s.send(1, map[string]any{"ev": "hello", "version": 1, "pid": 7, "python": "3.12.1", "wall": 1000.0, "clock": 0})
		s.send(1, map[string]any{"ev": "framework", "name": "torch", "version": "2.8.0"})
		if c.seen != "" {
			s.send(1, map[string]any{"ev": "device", "type": c.seen})
		}
		s.steps(1, 1, 20, 0, plainSteps)
		run := s.f.Finish()
		if got := target.Asked(run.Target); got != c.want || run.Target.System != "linux/amd64" {
			t.Errorf("%s: %+v", c.start, run.Target)
		}
		f, text := finding(run, "other-device"), ""
		if f != nil {
			text = f.Text
		}
		if text != c.wrong {
			t.Errorf("%s, seen on %q: %q, want %q", c.start, c.seen, text, c.wrong)
		}
	}
}

// TestNoAgentYet: of a run without an end nobody knows whether an agent would have come.
func TestNoAgentYet(t *testing.T) {
	s := &stream{f: New()}
	s.own("start", StartEvent{ID: "early", Wall: time.Unix(1000, 0)})
	for want, run := range map[string]*evidence.Run{"the run is under way, and no agent had said hello": s.f.SoFar(),
		"assay itself was ended before the run was, and no agent had said hello": s.f.Finish()} {
		if run.Outcome.Reason != want || run.Outcome.Complete || run.Outcome.Exit != -1 {
			t.Errorf("%+v, want %q", run.Outcome, want)
		}
		wantUnknown(t, run, "step.time", want)
	}
}
