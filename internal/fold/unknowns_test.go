package fold

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// on is a stream of 30 steps on a device.
func on(device string) *stream {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": device})
	s.steps(1, 1, 30, 0, plainSteps)
	return s
}

// TestListsAreLists: readers of the JSON get [] and never null, of every kind of run.
func TestListsAreLists(t *testing.T) {
	none := &stream{f: New()}
	for name, s := range map[string]*stream{"nothing": none, "no steps": newStream(), "steps": on("cpu"),
		"rehearsal": newRehearsal()} {
		var walk func(path string, v reflect.Value)
		walk = func(path string, v reflect.Value) {
			if v.Kind() != reflect.Struct {
				return
			}
			for i := range v.NumField() {
				f, tag := v.Type().Field(i), v.Type().Field(i).Tag.Get("json")
				if f.Type.Kind() == reflect.Slice && v.Field(i).IsNil() && tag != "-" &&
					!strings.Contains(tag, "omitempty") {
					t.Errorf("%s: %s.%s is null", name, path, f.Name)
				}
				walk(path+"."+f.Name, v.Field(i))
			}
		}
		run := s.f.Finish()
		walk("run", reflect.ValueOf(run).Elem())
		for _, p := range run.Processes {
			walk("process", reflect.ValueOf(p))
		}
	}
}

// TestIncomplete: each thing that is missing from a run is named; with none the run is complete.
func TestIncomplete(t *testing.T) {
	bye := map[string]any{"ev": "bye", "how": "exit"}
	for _, c := range []struct {
		name   string
		change func(*stream)
		want   string // "": complete
	}{
		{"all is there", func(s *stream) { s.send(1, bye) }, ""},
		{"a stream that came back and ended", func(s *stream) {
			s.send(1, bye)
			s.send(1, map[string]any{"ev": "resumed"})
			s.send(1, bye)
		}, ""},
		{"one that came back and did not", func(s *stream) {
			s.send(1, bye)
			s.send(1, map[string]any{"ev": "resumed"})
		}, "without a goodbye"},
		{"no goodbye", func(*stream) {}, "without a goodbye"},
		{"an error", func(s *stream) {
			s.send(1, map[string]any{"ev": "error", "type": "ValueError", "text": "x", "where": "t.py:3"})
			s.send(1, bye)
		}, "ended with ValueError"},
		{"dropped", func(s *stream) { s.send(1, bye); s.send(1, map[string]any{"ev": "dropped", "count": 3}) },
			"3 events were dropped"},
		{"unreadable", func(s *stream) { s.send(1, bye); s.f.Unreadable() }, "1 lines of the event stream"},
		{"lost", func(s *stream) { s.send(1, bye); s.f.conns[1].lost = 2 }, "2 steps beyond the first"},
	} {
		s := on("cpu")
		c.change(s)
		s.own("exit", ExitEvent{Wall: time.Unix(1002, 0)})
		if o := s.f.Finish().Outcome; o.Complete != (c.want == "") || !strings.Contains(o.Reason, c.want) ||
			c.want == "" && o.Reason != "" {
			t.Errorf("%s: %+v, want %q", c.name, o, c.want)
		}
	}
	s := on("cpu")
	s.send(1, bye)
	if o := s.f.SoFar().Outcome; o.Complete || o.Reason != underWay {
		t.Errorf("under way: %+v", o)
	}
	s.own("exit", ExitEvent{Signal: "SIGTERM", Trouble: []string{"the disk is full"}})
	if o := s.f.Finish().Outcome; o.Complete || !strings.Contains(o.Reason, "ended by SIGTERM") ||
		!strings.Contains(o.Reason, "the disk is full") || o.Signal != "SIGTERM" {
		t.Errorf("%+v", o)
	}
	headless := New()
	headless.Add(Supervisor, []byte(`{"ev":"exit","code":1}`))
	if o := headless.Finish().Outcome; o.Started {
		t.Errorf("a run without its first event began: %+v", o)
	}
}

// TestStepsAreBounded: steps beyond those that are kept are counted, never silently left out.
func TestStepsAreBounded(t *testing.T) {
	p := &process{steps: make([]step, maxSteps-1, maxSteps)}
	line := `{"ev":"steps","number":[1,2,3],"start":[0,1,2],"total":[5,5,5],"data":[0,0,0],"h2d":[0,0,0],"forward":[0,0,0],"backward":[0,0,0],"optimizer":[0,0,0],"rest":[5,5,5],"epoch":[1,1,1],"micro":[1,1,1],"evals":[0,0,0],"kind":["","",""],"live":[-1,-1,-1],"pool":[-1,-1,-1],"opts":[1,1,1],"outside":[0,0,0]}`
	if !p.add("steps", []byte(line)) || len(p.steps) != maxSteps || p.lost != 2 {
		t.Errorf("%d steps, %d lost", len(p.steps), p.lost)
	}
}

// TestSeriesAreThinned: of a long run every so manieth step and loss is listed, and it is said which; figures are of
// all of them.
func TestSeriesAreThinned(t *testing.T) {
	s := on("cpu")
	p := s.f.conns[1]
	first := p.steps[0]
	p.steps = nil
	for i := range 2*listed + 1 {
		st := first
		st.number, st.start = i+1, int64(i)*20e6
		p.steps = append(p.steps, st)
		p.losses = append(p.losses, lossPoint{i + 1, float64(i)})
	}
	run := s.f.Finish()
	if n := len(run.Steps.Number); run.Steps.Thin != 3 || n != (2*listed+3)/3 || run.Steps.Number[1] != 4 ||
		len(run.Steps.Total) != n || len(run.Loss.Step) != n || run.Loss.Step[1] != 4 || *run.Loss.Value[1] != 3 {
		t.Errorf("thin %d, %d steps, %d losses", run.Steps.Thin, n, len(run.Loss.Step))
	}
	want(t, run, "loss.last", 2*listed)
	p.steps, p.losses = p.steps[:listed], p.losses[:listed]
	if run = s.f.Finish(); run.Steps.Thin != 0 || len(run.Steps.Number) != listed || len(run.Loss.Step) != listed {
		t.Errorf("as many as are listed: thin %d, %d", run.Steps.Thin, len(run.Steps.Number))
	}
}

// TestWhetherTheLossIsScaled: gathered batches whose loss was not seen to be divided are warned of; what the graph does
// not tell is unknown.
func TestWhetherTheLossIsScaled(t *testing.T) {
	for _, c := range []struct {
		micro   int
		grounds map[string]int
		says    string
		warned  bool
	}{
		{1, nil, "not needed", false}, {2, nil, "unknown: the graph", false},
		{4, map[string]int{"divided by 4": 3}, "yes: divided by 4", false},
		{4, map[string]int{"multiplied by 0.25": 3, "a sum": 2}, "yes: multiplied by 0.25", false},
		{4, map[string]int{"divided by 8": 3}, "unknown: divided by 8, for 4", false},
		{4, map[string]int{"multiplied by 2": 3}, "unknown: multiplied by 2, for 4", false},
		{4, map[string]int{"a sum": 3, "divided by 4": 2}, "not seen: a sum", true},
		{4, map[string]int{"b sum": 3, "a sum": 3}, "not seen: a sum", true},
	} {
		s := on("cpu")
		for i := range s.f.conns[1].steps {
			s.f.conns[1].steps[i].micro = c.micro
		}
		s.send(1, map[string]any{"ev": "accumulation", "grounds": c.grounds})
		run := s.f.Finish()
		if got := run.Numerics.LossScaled; !strings.HasPrefix(got, c.says) ||
			(finding(run, "unscaled-accumulation") != nil) != c.warned {
			t.Errorf("%d, %v: %q, want %q", c.micro, c.grounds, got, c.says)
		}
	}
	if got := newStream().f.Finish().Numerics.LossScaled; !strings.HasPrefix(got, "unknown: no training step") {
		t.Errorf("no steps: %q", got)
	}
}

// TestGradients: gradients that are not finite are an error; under a GradScaler, which finds its scale so, a remark.
func TestGradients(t *testing.T) {
	for _, scaler := range []bool{false, true} {
		s := on("cpu")
		s.send(1, map[string]any{"ev": "gradients", "step": []int{3, 5, 7}, "finite": []bool{true, false, true}})
		s.send(1, map[string]any{"ev": "gradients", "step": []int{5, 7}, "finite": []bool{true, false}})
		s.send(1, map[string]any{"ev": "gradients", "step": []int{9}, "finite": []bool{}})
		severity := evidence.Error
		if scaler {
			s.send(1, map[string]any{"ev": "skipped", "step": 5})
			severity = evidence.Note
		}
		run := s.f.Finish()
		n := run.Numerics
		if !slices.Equal(n.NonFiniteGrads, []int{5, 7}) || n.GradSteps != 3 || n.Scaler != scaler ||
			(len(n.SkippedSteps) == 1) != scaler {
			t.Errorf("scaler %v: %+v", scaler, n)
		}
		if f := finding(run, "non-finite-gradient"); f == nil || f.Severity != severity {
			t.Errorf("scaler %v: %+v", scaler, f)
		}
		if (finding(run, "skipped-steps") != nil) != scaler {
			t.Errorf("scaler %v: %+v", scaler, run.Findings)
		}
	}
	if run := on("cpu").f.Finish(); finding(run, "non-finite-gradient") != nil || finding(run,
		"non-finite-loss") != nil {
		t.Errorf("%+v", run.Findings)
	}
	for n, want := range map[int]string{1: "0", 5: "0, 1, 2, 3, 4", 6: "0, 1, 2, 3, 4, … 6 in all"} {
		var xs []int
		for i := range n {
			xs = append(xs, i)
		}
		if got := few(xs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEpochs: an epoch counts when it was run to its end: the last one only where it has as many steps as the one
// before it, or as the loader has batches.
func TestEpochs(t *testing.T) {
	for _, c := range []struct {
		name     string
		steps    []int // of each epoch
		batches  int   // 0: not known
		ended    int   // so many epochs said that they are over
		complete []bool
		time     float64 // epoch.time; 0: unknown
		perEpoch float64 // epoch.steps; 0: unknown
		basis    evidence.Basis
	}{
		{"two and a half", []int{10, 10, 5}, 10, 3, []bool{true, true, false}, 0.2, 10, evidence.Measured},
		{"three", []int{10, 10, 10}, 10, 3, []bool{true, true, true}, 0.2, 10, evidence.Measured},
		{"the last was not ended", []int{10, 10}, 10, 1, []bool{true, false}, 0, 10, evidence.Measured},
		{"one, whole", []int{10}, 10, 1, []bool{true}, 0.2, 10, evidence.Measured},
		{"one, cut", []int{9}, 10, 1, []bool{false}, 0, 10, evidence.Declared},
		{"one, of unknown length, cut off", []int{9}, 0, 1, []bool{false}, 0, 0, ""},
		{"none was ended", []int{9}, 0, 0, []bool{false}, 0, 0, ""},
	} {
		s := newStream()
		s.send(1, map[string]any{"ev": "device", "type": "cpu"})
		loader := map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16}
		if c.batches > 0 {
			loader["batches"] = c.batches
		}
		s.send(1, loader)
		next := 1
		for i, n := range c.steps {
			s.steps(i+1, next, n, float64(20*next), plainSteps)
			if next += n; i < c.ended {
				s.send(1, map[string]any{"ev": "epoch", "number": i + 1, "step": next - 1, "live": 5, "pool": -1})
			}
		}
		run := s.f.Finish()
		var got []bool
		for i, e := range run.Epochs {
			got = append(got, e.Complete)
			if i < c.ended && (e.Live == nil || *e.Live != 5 || e.Pool != nil) || i >= c.ended && e.Live != nil {
				t.Errorf("%s: %+v", c.name, e)
			}
		}
		if !slices.Equal(got, c.complete) {
			t.Errorf("%s: whole %v, want %v", c.name, got, c.complete)
		}
		if c.time > 0 {
			want(t, run, "epoch.time", c.time)
		} else {
			wantUnknown(t, run, "epoch.time", "no epoch was run to its end")
		}
		if c.perEpoch == 0 {
			wantUnknown(t, run, "epoch.steps", "length is not known")
			wantUnknown(t, run, "epoch.estimate", "are not known")
		} else if want(t, run, "epoch.steps", c.perEpoch); run.Figure("epoch.steps").Basis != c.basis {
			t.Errorf("%s: %+v", c.name, run.Figure("epoch.steps"))
		}
	}
	bare := newStream()
	bare.send(1, map[string]any{"ev": "device", "type": "cpu"})
	bare.steps(0, 1, 10, 0, plainSteps)
	for _, name := range []string{"step.first_epoch", "epoch.time"} {
		wantUnknown(t, bare.f.Finish(), name, "the loop reads no torch DataLoader")
	}
	wantUnknown(t, bare.f.Finish(), "samples.rate", "no loader with a fixed batch size")
}

// TestResidentPeak: the highest of the sampler's, the kernel's and the agent's readings, whichever it is; with none it
// is unknown, not zero.
func TestResidentPeak(t *testing.T) {
	at := func(name string, v float64) func(*stream) {
		return func(s *stream) {
			s.own("host", HostEvent{Sample: &evidence.Sample{At: 1, Figures: []evidence.Figure{
				evidence.Known(name, v, "B",
					evidence.Measured), evidence.Unknown("process.peak", "B", "x"), evidence.Known("other", 9e9, "B",
					evidence.Measured)}}})
		}
	}
	for name, c := range map[string]struct {
		change func(*stream)
		want   float64
	}{
		"the sampler's": {at("process.resident", 700), 700}, "the kernel's": {at("process.peak", 800), 800},
		"the agent's, at an epoch's end": {func(s *stream) {
			at("process.resident", 700)(s)
			s.send(1, map[string]any{"ev": "epoch", "number": 1, "step": 30, "resident": 900})
		}, 900},
		"the agent's, in a phase": {func(s *stream) {
			s.send(1, map[string]any{"ev": "memory", "phases": map[string]any{"data": [][]int{{-1, 5, 600, 0}}}})
		}, 600},
		"nobody's": {func(s *stream) { s.send(1, map[string]any{"ev": "epoch", "number": 1, "resident": -1}) }, -1},
	} {
		s := on("cpu")
		c.change(s)
		run := s.f.Finish()
		if c.want < 0 {
			wantUnknown(t, run, "memory.resident.peak", "not sampled")
		} else if want(t, run, "memory.resident.peak", c.want); t.Failed() {
			t.Log(name)
		}
		if name == "the agent's, in a phase" && (len(run.Memory) != 1 || run.Memory[0].Live != nil ||
			*run.Memory[0].Pool != 5 || *run.Memory[0].Swap != 0 || run.Memory[0].N != 1) {
			t.Errorf("%+v", run.Memory)
		}
	}
}

// TestRolesOfProcesses: each process is listed as what it is, with how it ended.
func TestRolesOfProcesses(t *testing.T) {
	s := on("cpu")
	s.send(2, map[string]any{"ev": "hello", "version": 1, "pid": 8, "rank": "1"})
	s.send(3, map[string]any{"ev": "hello", "version": 1, "pid": 9, "argv": []string{"-c",
		"from multiprocessing.spawn"}})
	s.send(4, map[string]any{"ev": "hello", "version": 1, "pid": 10, "argv": []string{"tool.py"}})
	s.send(4, map[string]any{"ev": "bye", "how": "os._exit"})
	s.send(5, map[string]any{"ev": "device", "type": "cpu"}) // it never said hello
	s.steps(1, 31, 10, 600, plainSteps)
	for range 60 {
		s.send(4, map[string]any{"ev": "trouble", "what": "x"})
	}
	var got []string
	run := s.f.Finish()
	for _, p := range run.Processes {
		got = append(got, fmt.Sprintf("%d %s %s %v %d", p.PID, p.Role, p.Ended, p.Observed, len(p.Trouble)))
	}
	if want := []string{"7 main no goodbye true 0", "8 rank 1 no goodbye false 0", "9 worker no goodbye false 0",
		"10 child os._exit false 50", "0 child no goodbye false 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	silent := &stream{f: New()} // what never said hello is no process that the evidence could be of
	silent.own("start", StartEvent{ID: "x", Wall: time.Unix(1000, 0)})
	silent.send(1, map[string]any{"ev": "device", "type": "cpu"})
	silent.own("exit", ExitEvent{Wall: time.Unix(1002, 0), Code: 3})
	wantUnknown(t, silent.f.Finish(), "step.time", "never said hello")
}

// TestOnly: what a part of the loop takes alone is set against the step; with no step there is nothing to set it
// against.
func TestOnly(t *testing.T) {
	for _, c := range []struct {
		what string
		ms   int64
		says string
	}{{"data", 19, "the device waits for the data"}, {"data", 17, "both sides count"}, {"data", 6, "both sides count"},
		{"data", 5, "the compute is what takes the time"}, {"forward", 5, "(25 %)"}} {
		s := on("cpu")
		s.send(1, map[string]any{"ev": "only", "what": c.what, "ns": []int64{c.ms * 1e6, c.ms * 1e6}, "why": "w"})
		run := s.f.Finish()
		if run.Only == nil || !strings.Contains(run.Only.Verdict, c.says) ||
			*run.Only.Each.Value != float64(c.ms)/1e3 ||
			finding(run, "only-"+c.what) == nil {
			t.Errorf("%+v: %+v", c, run.Only)
		}
	}
	s := newStream()
	s.send(1, map[string]any{"ev": "only", "what": "data", "ns": []int64{5e6}})
	if o := s.f.Finish().Only; o == nil || !strings.Contains(o.Verdict, "no steady step") {
		t.Errorf("%+v", o)
	}
	for _, event := range []map[string]any{nil, {"ev": "only", "what": "data", "ns": []int64{}}} {
		s = on("cpu")
		s.own("start", StartEvent{ID: "x", Wall: time.Unix(1000, 0), Options: map[string]string{"only": "data"}})
		if event != nil {
			s.send(1, event)
		}
		if run := s.f.Finish(); run.Only != nil || (finding(run, "only-not-reached") != nil) != (event == nil) {
			t.Errorf("%v: %+v, %+v", event, run.Only, run.Findings)
		}
	}
}

// TestCost: what the agent cost a step is known where steps were seen, and its share where a step's length is.
func TestCost(t *testing.T) {
	s := on("cpu")
	s.send(1, map[string]any{"ev": "cost", "steps": 30, "hooks_ns": 20e6, "thread_ns": 10e6, "heavy_ns": 5e6})
	run := s.f.Finish()
	want(t, run, "agent.step", 0.001)
	want(t, run, "agent.share", 0.05)
	want(t, run, "agent.total", 0.035)
	wantUnknown(t, on("cpu").f.Finish(), "agent.share", "no step was seen")
	s = newStream()
	s.send(1, map[string]any{"ev": "cost", "steps": 1, "hooks_ns": 20e6})
	wantUnknown(t, s.f.Finish(), "agent.share", "step.time is not known")
}

// TestRetained: what stays alive is told by line, most bytes first; of graphs the last epoch's.
func TestRetained(t *testing.T) {
	s := on("mps")
	s.send(1, map[string]any{"ev": "alive", "epoch": 2, "steps": 3, "tensors": 9,
		"graph": map[string]any{"additions": 20,
			"name": "/home/u/p/t.py:5"}, "retained": [][]any{{"/home/u/p/t.py:9", 2, 100}, {"short"}}})
	s.send(1, map[string]any{"ev": "alive", "epoch": 1, "steps": 3, "tensors": 9,
		"graph": map[string]any{"additions": 10,
			"name": "/home/u/p/t.py:4"}, "retained": [][]any{{"/home/u/p/t.py:9", 1, 50}, {"/elsewhere.py:1", 1, 151}}})
	s.send(1, map[string]any{"ev": "alive", "epoch": 3, "steps": 3, "tensors": 9})
	run := s.f.Finish()
	if r := run.Retained; len(r) != 2 || r[0].Where != "/elsewhere.py:1" || r[1].Where != "t.py:9" ||
		r[1].Tensors != 3 ||
		r[1].Bytes != 150 || r[1].Steps != 6 || !slices.Equal(r[1].Epochs, []int{1, 2}) {
		t.Errorf("%+v", r)
	}
	if f := finding(run, "retained-graph"); f == nil || f.Where != "t.py:5" || !strings.Contains(f.Text,
		"20 additions") {
		t.Errorf("%+v", f)
	}
}

// TestTraceOrder: an operator that begins with the one that called it is its child, whichever is written first; one
// that begins when another ends is none.
func TestTraceOrder(t *testing.T) {
	row := func(name string, ts, dur, tid int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":%q,"pid":1,"tid":%d,"ts":%d,"dur":%d}`, name, tid, ts, dur)
	}
	rows := []string{row("inner", 0, 40, 1), row("outer", 0, 100, 1), row("next", 100, 10, 1), row("late", 50, 50, 1),
		row("other", 20, 5, 2), row("early", 0, 110, 2)}
	for range 2 {
		ops, err := ReadTrace(strings.NewReader(`{"traceEvents":[`+strings.Join(rows, ",")+`]}`), false)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, op := range ops {
			got[op.Name] = math.Round(op.Self * 1e6)
		}
		if want := map[string]float64{"inner": 40, "outer": 10, "next": 10, "late": 50, "other": 5,
			"early": 105}; !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		slices.Reverse(rows)
	}
	rows = nil
	for i := range traceRows + 5 {
		rows = append(rows, row(fmt.Sprint("op", i), 10*i, 1+i%7, 1))
	}
	ops, err := ReadTrace(strings.NewReader(`{"traceEvents":[`+strings.Join(rows, ",")+`]}`), false)
	if err != nil || len(ops) != traceRows {
		t.Fatalf("%d operators, %v", len(ops), err)
	}
	for i := 1; i < len(ops); i++ {
		if a, b := ops[i-1], ops[i]; a.Self < b.Self || a.Self == b.Self && a.Name >= b.Name {
			t.Errorf("%s before %s", a.Name, b.Name)
		}
	}
}

// TestWhyNoDouble: a rehearsal that did not come about says why.
func TestWhyNoDouble(t *testing.T) {
	for want, events := range map[string][]string{
		"the agent never said hello":  nil,
		"no process imported torch":   {`{"ev":"hello","pid":7}`},
		"no reason was given":         {`{"ev":"hello","pid":7}`, `{"ev":"torch","version":"2.8.0"}`},
		"the table could not be read": {`{"ev":"hello","pid":7}`, `{"ev":"trouble","what":"the table could not be read"}`},
	} {
		s := newRehearsal()
		f := New()
		f.start = s.f.start
		for _, line := range events {
			f.Add(1, []byte(line))
		}
		run := f.Finish()
		if n := finding(run, "not-rehearsed"); n == nil || n.Severity != evidence.Error || !strings.Contains(n.Text,
			want) {
			t.Errorf("%s: %+v", want, run.Findings)
		}
	}
}

// TestStretchesOfDisturbance: a limit that is reached is passed; what touches memory alone marks memory; what was
// sampled for less than half of a stretch is not known.
func TestStretchesOfDisturbance(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      func(second int) map[string]float64
		finding string
		found   bool
	}{
		{"heat above the limit, Linux", func(int) map[string]float64 {
			return map[string]float64{"thermal.throttled": 1.01 * evidence.HeatTime}
		}, "thermal-throttling", true},
		{"heat below it", func(int) map[string]float64 {
			return map[string]float64{"thermal.throttled": 0.99 * evidence.HeatTime}
		}, "thermal-throttling", false},
		{"quota above the limit", func(int) map[string]float64 {
			return map[string]float64{"host.cpu.throttled": 1.01 * evidence.QuotaTime}
		}, "cpu-quota", true},
		{"swap at the limit", func(int) map[string]float64 {
			return map[string]float64{"host.swap.in": evidence.SwapRate}
		}, "swapping", true},
		{"heat, seldom looked for", func(second int) map[string]float64 {
			if second == 12 {
				return map[string]float64{"thermal.throttled": 1, "thermal.pressure": 3}
			}
			return nil
		}, "thermal-throttling", false},
	} {
		if f := finding(sampled("cpu", nil, c.at).f.Finish(), c.finding); (f != nil) != c.found {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	swap := func(live int) *evidence.Run {
		s := sampled("mps", nil, func(int) map[string]float64 { return map[string]float64{"host.swap.out": 1 << 30} })
		for e := 1; e <= 4; e++ {
			s.send(1, map[string]any{"ev": "epoch", "number": e, "live": live * e, "resident": 100 * e})
			s.steps(e+2, 801+10*e, 10, 16000+float64(200*e), plainSteps)
		}
		s.own("host", HostEvent{Sample: &evidence.Sample{At: 17, Figures: []evidence.Figure{evidence.Known(
			"process.resident", 5, "B", evidence.Measured)}}})
		return s.f.Finish()
	}
	for live, marked := range map[int]bool{5: false, -1: true} { // of the allocator, of the process
		run := swap(live)
		if f := run.Figure("memory.growth"); !f.Known() || (f.Disturbed != "") != marked {
			t.Errorf("live %d: %+v", live, f)
		}
		if f := run.Figure("memory.resident.peak"); f.Disturbed == "" {
			t.Errorf("%+v", f)
		}
	}
	s := on("cpu")
	s.own("host", HostEvent{Sample: &evidence.Sample{At: 0, Figures: []evidence.Figure{
		evidence.Unknown("host.cpu.others",
			"1", "no counters in this container")}}})
	wantUnknown(t, s.f.Finish(), "host.cpu.lost", "no counters in this container")
}

// TestLastEventsStand: what is told again replaces what was told; lists that a stream may fill for ever end somewhere.
func TestLastEventsStand(t *testing.T) {
	s := on("cpu")
	for i := range maxRows + 5 {
		s.send(1, map[string]any{"ev": "shape", "model": "Net", "inputs": fmt.Sprint(i), "calls": 1})
		s.send(1, map[string]any{"ev": "epoch", "number": i, "resident": i})
		s.send(1, map[string]any{"ev": "skipped", "step": i})
	}
	s.send(1, map[string]any{"ev": "shape", "model": "Net", "inputs": "0", "calls": 7})
	for i := range 3 {
		s.send(1, map[string]any{"ev": "loss_unread", "count": i})
	}
	run := s.f.Finish()
	p := s.f.conns[1]
	if len(run.Shapes) != maxRows || run.Shapes[0].Steps != 7 || len(p.epochs) != maxRows || len(p.skipped) != maxRows {
		t.Errorf("%d shapes, %+v, %d epochs, %d skipped", len(run.Shapes), run.Shapes[0], len(p.epochs), len(p.skipped))
	}
	if !strings.HasPrefix(run.Loss.Note, "3 losses were not read") {
		t.Errorf("%q", run.Loss.Note)
	}
	for range maxSamples + 3 {
		s.f.addOwn("host", []byte(`{"sample":{"at":1}}`))
	}
	if n := len(s.f.samples); n != maxSamples {
		t.Errorf("%d samples", n)
	}
	before := s.f.unread
	for _, line := range []string{`{"ev":"start","id":5}`, `{"ev":"exit","code":"x"}`, `{"ev":"host","sample":5}`,
		`{"ev":"retest","rows":5}`} {
		s.f.Add(Supervisor, []byte(line))
	}
	for _, line := range []string{`{"ev":"loss","step":[1,2],"value":[1]}`, `{"ev":"peak","live":"x"}`,
		`{"ev":"fallback","count":"x"}`, `{"ev":"loader","workers":"x"}`, `{"ev":"shape","calls":"x"}`} {
		s.f.Add(1, []byte(line))
	}
	if n := s.f.unread - before; n != 9 {
		t.Errorf("of 9 events that cannot be read %d are counted", n)
	}
	if len(p.fallbacks)+len(p.loaders) > 0 {
		t.Errorf("%+v, %+v", p.fallbacks, p.loaders)
	}
	if _, err := json.Marshal(s.f.Finish()); err != nil {
		t.Error(err)
	}
}
