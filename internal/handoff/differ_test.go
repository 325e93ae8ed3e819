package handoff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// recorded is the run of testdata/here.json, a new one each time.
func recorded(t testing.TB) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile("testdata/here.json")
	if err != nil {
		t.Fatal(err)
	}
	run := &evidence.Run{}
	if err := json.Unmarshal(data, run); err != nil {
		t.Fatal(err)
	}
	return run
}

// longer makes each step of the run r times as long; phases as well.
func longer(run *evidence.Run, r float64) *evidence.Run {
	for i := range run.Steps.Total {
		run.Steps.Total[i] *= r
	}
	for _, p := range run.Steps.Phases {
		for i := range p.Seconds {
			p.Seconds[i] *= r
		}
	}
	for i, f := range run.Figures {
		if !f.Known() {
			continue
		}
		v := *f.Value
		switch {
		case f.Name == "step.time" || strings.HasPrefix(f.Name, "split."):
			v *= r
		case f.Name == "samples.rate" || f.Name == "step.rate":
			v /= r
		default:
			continue
		}
		run.Figures[i].Value = &v
	}
	return run
}

func setFact(run *evidence.Run, name, value string) {
	run.Host.Facts = slices.DeleteFunc(run.Host.Facts, func(f evidence.Fact) bool { return f.Name == name })
	run.Host.Facts = append(run.Host.Facts, evidence.Fact{Name: name, Value: value, Source: "test"})
}

func find(run *evidence.Run, name, text string) {
	run.Findings = append(run.Findings, evidence.Finding{Name: name, Severity: evidence.Warning, Text: text,
		Basis: evidence.Measured})
}

func setFigure(run *evidence.Run, name string, value float64) {
	for i, f := range run.Figures {
		if f.Name == name {
			run.Figures[i].Value, run.Figures[i].Missing = &value, ""
			return
		}
	}
	run.Figures = append(run.Figures, evidence.Known(name, value, "1", evidence.Measured))
}

// seed is a difference that was put between two hosts, and what has to be said of it.
type seed struct {
	name   string
	change func(run *evidence.Run) // of the run there
	here   func(run *evidence.Run) // of the run here
	facts  []evidence.Fact         // of the machine there
	slow   float64                 // ratio of the step's time; 0: as here
	memory float64                 // ratio of the peak; 0: as here
	factor string                  // that has to be found, and named first among the causes
	class  Class                   // of it
	answer map[string]string       // figure → answer; those that are not named are noise
	status string                  // verdict; "": amiss
	only   bool                    // nothing else is found
}

func variable(name, value string) func(*evidence.Run) {
	return func(run *evidence.Run) { run.Provenance.Environment[name] = value }
}

func hostFact(name, value string) func(*evidence.Run) {
	return func(run *evidence.Run) { setFact(run, name, value) }
}

var likely = map[string]string{"step.time": Likely, "samples.rate": Likely}

var times = map[string]string{"step.time": Explained, "samples.rate": Explained}

func seeds() []seed {
	fact := func(name, value string) []evidence.Fact {
		return []evidence.Fact{{Name: name, Value: value, Source: "test"}}
	}
	return []seed{
		{name: "one thread", change: variable("OMP_NUM_THREADS", "1"), slow: 1.6, factor: "threads", class: Amiss,
			answer: times, only: true},
		{name: "more threads", change: variable("OMP_NUM_THREADS", "8"), slow: 0.6, factor: "threads", class: Amiss,
			answer: likely, only: true},
		{name: "logs of torch", change: variable("TORCH_LOGS", "+dynamo"), slow: 1.4, factor: "debug", class: Amiss,
			answer: likely, only: true},
		{name: "Metal checks", change: variable("METAL_DEVICE_WRAPPER_TYPE", "1"), slow: 3, factor: "debug",
			class: Amiss, answer: likely, only: true},
		{name: "blocking launches", change: variable("CUDA_LAUNCH_BLOCKING", "1"), slow: 2, factor: "debug",
			class: Amiss, answer: likely, only: true},
		{name: "debug malloc", change: variable("PYTHONMALLOC", "debug"), slow: 1.3, memory: 1.3, factor: "debug",
			class:  Amiss,
			answer: map[string]string{"step.time": Likely, "samples.rate": Likely, "memory.resident.peak": Likely},
			only:   true},
		{name: "debugging here", here: variable("PYTHONDEVMODE", "1"), slow: 0.7, factor: "debug", class: Noted,
			answer: likely, status: Other, only: true},
		{name: "other NumPy", change: func(run *evidence.Run) { swap(run, "numpy==2.4.6", "numpy==2.3.0") }, slow: 1.2,
			factor: "package", class: Amiss, answer: map[string]string{"step.time": Perhaps, "samples.rate": Perhaps},
			only: true},
		{name: "a package that does not matter", change: func(run *evidence.Run) {
			swap(run, "filelock==4.2.11",
				"filelock==4.2.9")
		},
			factor: "package", class: Noted, status: Same, only: true},
		{name: "a package gone, and slower for nothing", change: func(run *evidence.Run) {
			swap(run, "sympy==1.14.0",
				"")
		}, slow: 1.5,
			factor: "package", class: Noted, answer: map[string]string{"step.time": Open, "samples.rate": Open},
			status: CannotTell, only: true},
		{name: "other torch", change: func(run *evidence.Run) {
			run.Target.Release = "2.14.0"
			swap(run,
				"torch==2.15.0", "torch==2.14.0")
		},
			slow: 1.1, factor: "framework", class: Amiss, answer: likely},
		{name: "other Python", change: func(run *evidence.Run) { run.Target.Python = "3.12.1" }, factor: "python",
			class: Amiss, only: true},
		{name: "half the batch", change: func(run *evidence.Run) {
			run.Provenance.Datasets[0].Batch = 8
			scaleRows(run,
				0.5)
		}, slow: 0.7,
			factor: "batch", class: Amiss, answer: times, only: true},
		{name: "half the batch, twice as slow",
			change: func(run *evidence.Run) { run.Provenance.Datasets[0].Batch = 8; scaleRows(run, 0.5) },
			slow:   2, factor: "batch", class: Amiss,
			answer: map[string]string{"step.time": Open, "samples.rate": Open},
			only:   true},
		{name: "workers", change: func(run *evidence.Run) { run.Provenance.Datasets[0].Workers = 4 }, slow: 0.5,
			factor: "workers", class: Amiss,
			answer: likely, only: true},
		{name: "other bytes",
			change: func(run *evidence.Run) { run.Provenance.Datasets[0].Fingerprint = "sha256-whole:00" },
			factor: "data",
			class:  Amiss, only: true},
		{name: "other bytes, by checksum", change: func(*evidence.Run) {}, facts: fact("data:rows", "sha256:1"),
			factor: "data", class: Amiss, only: true,
			here: hostFact("data:rows", "sha256:0")},
		{name: "other seed", change: func(run *evidence.Run) { setting(run, "torch.manual_seed", "1"); moreLoss(run) },
			factor: "seed", class: Amiss,
			answer: map[string]string{"loss": Explained}, only: true},
		{name: "TF32", change: func(run *evidence.Run) {
			setting(run, "torch.backends.cuda.matmul.fp32_precision",
				"tf32")
		}, slow: 0.6,
			factor: "precision", class: Amiss, answer: likely, only: true},
		{name: "data over the network", facts: fact("mount:data /srv/data", "nfs4, network, NAME:/PATH on /srv"),
			slow: 1.8, factor: "mount",
			class: Amiss, answer: likely, only: true},
		{name: "a user-space file system", change: hostFact("mount:/home/somebody/project",
			"fuse.x, user-space file system on /x"), slow: 1.8,
			factor: "mount", class: Amiss, answer: likely, only: true},
		{name: "a busy loop beside it", change: func(run *evidence.Run) {
			find(run, "cpu-contention", "other programs kept 1 of 2 processors busy")
			setFigure(run, "host.cpu.lost", 0.3)
		}, slow: 1.4, factor: "load", class: Amiss, answer: times, only: true},
		{name: "a quota", change: func(run *evidence.Run) {
			setFact(run, "cpu.usable", "2 of this process's processors, cgroup grants the time of 0.5")
		}, slow: 2.5, factor: "quota", class: Amiss, answer: likely, only: true},
		{name: "fewer processors", change: hostFact("cpu.usable", "1 of this process's processors"), slow: 1.5,
			factor: "cpus", class: Meant,
			answer: times, status: Other, only: true},
		{name: "fewer processors do not make it ten times slower", change: hostFact("cpu.usable",
			"1 of this process's processors"), slow: 10,
			factor: "cpus", class: Meant, answer: map[string]string{"step.time": Open, "samples.rate": Open},
			status: CannotTell, only: true},
		{name: "nice", change: hostFact("process.nice", "19"), here: hostFact("process.nice", "0"), slow: 1.3,
			factor: "priority", class: Amiss,
			answer: likely, only: true},
		{name: "swap", change: func(run *evidence.Run) { find(run, "swapping", "memory was swapped at 30 MiB/s") },
			slow: 4, factor: "swap",
			class: Amiss, answer: times, only: true},
		{name: "heat", change: func(run *evidence.Run) {
			find(run, "thermal-throttling",
				"thermal pressure was heavy")
		}, slow: 1.3, factor: "thermal",
			class: Amiss, answer: times, only: true},
		{name: "battery", change: hostFact("power.source", "Battery Power"), here: hostFact("power.source",
			"AC Power"), slow: 1.3, factor: "power",
			class: Amiss, answer: likely, only: true},
		{name: "low power mode", change: hostFact("power.low_power_mode", "on"), here: hostFact("power.low_power_mode",
			"off"), slow: 1.6,
			factor: "low-power", class: Amiss, answer: likely, only: true},
		{name: "governor", change: hostFact("power.profile", "governor powersave"), here: hostFact("power.profile",
			"governor performance"),
			slow: 1.5, factor: "governor", class: Amiss, answer: likely, only: true},
		{name: "Wi-Fi", facts: append(fact("link", "wifi (en0)"), fact("link.expected", "thunderbolt")...),
			factor: "link", class: Amiss, only: true},
		{name: "a permission that waits", facts: fact("local-network.suspected", "no route to host"),
			factor: "local-network", class: Amiss, only: true},
		{name: "clock", facts: fact("clock.offset", "3600 s ± 0.01 s"), factor: "clock", class: Noted, status: Same,
			only: true},
		{name: "few files", change: hostFact("limit.files", "256"), here: hostFact("limit.files", "1024"),
			factor: "files", class: Amiss, only: true},
		{name: "Rosetta", change: hostFact("system.translated", "assay runs under Rosetta"),
			here: hostFact("system.translated", "no"), slow: 2,
			factor: "translation", class: Amiss, answer: likely, only: true},
		{name: "a fallback", change: func(run *evidence.Run) {
			run.Fallbacks = append(run.Fallbacks, evidence.Fallback{Operator: "aten::x", Count: 3})
		}, slow: 2, factor: "fallback", class: Amiss, answer: likely, only: true},
		{name: "a faster chip", change: hostFact("chip", "Apple M3 Ultra"), slow: 0.3, factor: "chip", class: Meant,
			answer: likely, status: Other, only: true},
		{name: "the CPU instead", change: func(run *evidence.Run) {},
			here: func(run *evidence.Run) { run.Target.Device = "mps" }, slow: 5,
			factor: "device", class: Amiss, only: true},
		{name: "a variable", change: variable("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0"), memory: 1.5,
			factor: "variable", class: Amiss,
			answer: map[string]string{"memory.resident.peak": Perhaps}, only: true},
		{name: "slower, and only another kernel", change: hostFact("system.build", "Linux 7"), slow: 3,
			factor: "system", class: Meant,
			answer: map[string]string{"step.time": Perhaps, "samples.rate": Perhaps}, status: CannotTell, only: true},
		{name: "faster without a reason", slow: 0.5, answer: map[string]string{"step.time": Open,
			"samples.rate": Open}, status: CannotTell},
		{name: "more memory without a reason", memory: 2, answer: map[string]string{"memory.resident.peak": Open},
			status: CannotTell},
		{name: "other losses without a reason", change: moreLoss, answer: map[string]string{"loss": Open},
			status: CannotTell},
	}
}

func swap(run *evidence.Run, was, is string) {
	i := slices.Index(run.Provenance.Packages, was)
	run.Provenance.Packages = slices.Clone(run.Provenance.Packages)
	if is == "" {
		run.Provenance.Packages = slices.Delete(run.Provenance.Packages, i, i+1)
		return
	}
	run.Provenance.Packages[i] = is
}

func setting(run *evidence.Run, name, value string) {
	for i, r := range run.Provenance.Randomness {
		if r.Name == name {
			run.Provenance.Randomness[i].Value, run.Provenance.Randomness[i].State = value, evidence.Set
		}
	}
}

func moreLoss(run *evidence.Run) {
	for i, v := range run.Loss.Value {
		w := *v * 1.02
		run.Loss.Value[i] = &w
	}
}

// scaleRows is what a batch of another size makes of the rate, before times.
func scaleRows(run *evidence.Run, r float64) {
	v := *run.Figure("samples.rate").Value * r
	setFigure(run, "samples.rate", v)
}

// TestSeeded: each difference that is put between two hosts is found, named first among the causes of what it changed,
// and nothing else is found beside it.
func TestSeeded(t *testing.T) {
	for _, c := range seeds() {
		t.Run(c.name, func(t *testing.T) {
			here, there := recorded(t), recorded(t)
			if c.here != nil {
				c.here(here)
			}
			if c.change != nil {
				c.change(there)
			}
			if c.slow != 0 {
				longer(there, c.slow)
			}
			if c.memory != 0 {
				setFigure(there, "memory.resident.peak", *there.Figure("memory.resident.peak").Value*c.memory)
			}
			got := Compare(Side{Runs: []*evidence.Run{here}}, Side{Runs: []*evidence.Run{there}, Facts: c.facts})
			var found []string
			for _, d := range got.Differences {
				found = append(found, d.Factor)
				if d.Factor == c.factor && d.Class != c.class {
					t.Errorf("%s is %s, not %s", d.Factor, c.class, d.Class)
				}
				if d.Text == "" {
					t.Errorf("%s says nothing", d.Factor)
				}
			}
			if c.factor != "" && !slices.Contains(found, c.factor) || c.only && len(slices.Compact(found)) != 1 {
				t.Errorf("found %q, not %s", found, c.factor)
			}
			want := c.status
			if want == "" {
				want = Wrong
			}
			if got.Verdict != want {
				t.Errorf("verdict %q, not %q", got.Verdict, want)
			}
			for _, x := range got.Changes {
				answer := c.answer[x.Name]
				if c.factor == "device" {
					continue
				}
				switch {
				case answer == "" && !x.Noise && !strings.HasPrefix(x.Name, "split."):
					t.Errorf("%s changed by × %.3g: %s", x.Name, x.Ratio, x.Answer)
				case answer != "" && (x.Noise || x.Answer != answer):
					t.Errorf("%s × %.3g is %q (noise %v), not %q: %v", x.Name, x.Ratio, x.Answer, x.Noise, answer,
						x.Causes)
				case (answer == Explained || answer == Likely) && x.Causes[0].Factor != c.factor:
					t.Errorf("%s: %v comes first", x.Name, x.Causes[0])
				}
			}
			var page bytes.Buffer
			if err := got.Text(&page, 100); err != nil || c.factor != "" && !strings.Contains(page.String(), c.factor) {
				t.Errorf("the page does not name it (%v):\n%s", err, page.String())
			}
		})
	}
}

// TestTwins: runs that scatter as a laptop's do have nothing found between them. The scatter is that of docs/gates.md:
// 2.5 % from run to run, beside what the steps of the recording do.
func TestTwins(t *testing.T) {
	draw := rand.New(rand.NewPCG(21, 1))
	twin := func() *evidence.Run {
		run := longer(recorded(t), math.Exp(0.025*draw.NormFloat64()))
		n := len(run.Steps.Total)
		for i := range n { // steps are drawn anew from its own
			run.Steps.Total[i] = run.Steps.Total[draw.IntN(n)]
		}
		setFigure(run, "memory.resident.peak",
			*run.Figure("memory.resident.peak").Value*math.Exp(0.01*draw.NormFloat64()))
		return run
	}
	for _, n := range [][2]int{{1, 1}, {1, 3}, {3, 3}} {
		wrong := 0
		const pairs = 40
		for range pairs {
			var sides [2]Side
			for i := range sides {
				for range n[i] {
					sides[i].Runs = append(sides[i].Runs, twin())
				}
			}
			if got := Compare(sides[0], sides[1]); got.Verdict != Same || len(got.Differences) != 0 {
				wrong++
			}
		}
		if wrong > pairs*5/100 {
			t.Errorf("%d against %d runs: %d of %d twins were told apart", n[0], n[1], wrong, pairs)
		}
	}
}

// TestNothingToCompare: what cannot be compared is no pass.
func TestNothingToCompare(t *testing.T) {
	here, there := recorded(t), recorded(t)
	there.Steps = evidence.StepSeries{}
	there.Figures = nil
	if got := Compare(Side{Runs: []*evidence.Run{here}},
		Side{Runs: []*evidence.Run{there}}); got.Verdict != CannotTell || len(got.Limits) == 0 {
		t.Errorf("%q %q", got.Verdict, got.Limits)
	}
	there = recorded(t)
	there.Rehearsal = &evidence.Rehearsal{}
	if got := Compare(Side{Runs: []*evidence.Run{here}}, Side{Runs: []*evidence.Run{there}}); got.Verdict == Same {
		t.Errorf("a rehearsal's times passed: %q", got.Limits)
	}
}

// TestLossesOfOneStep: two losses that are told of one step are not held against each other.
func TestLossesOfOneStep(t *testing.T) {
	runs := []*evidence.Run{recorded(t), recorded(t)}
	for _, run := range runs {
		first, second := 2.0, 1.0
		run.Loss.Step = []int{1, 1, 3}
		run.Loss.Value = []*float64{&first, &second, &second}
	}
	got := Compare(Side{Runs: runs[:1]}, Side{Runs: runs[1:]})
	for _, c := range got.Changes {
		if c.Name == "loss" && !c.Noise {
			t.Errorf("equal losses differ: %+v", c)
		}
	}
	if got.Verdict != Same {
		t.Errorf("%s: %+v", got.Verdict, got.Changes)
	}
}

// TestLongAgainstShort: a run of hours is held against a short window by the same steps, so that what only its later
// steps were is not in it.
func TestLongAgainstShort(t *testing.T) {
	here, there := recorded(t), recorded(t)
	n := len(here.Steps.Number)
	for i := range n * 4 { // afterwards it was twice as slow
		here.Steps.Number = append(here.Steps.Number, n+i+1)
		here.Steps.Total = append(here.Steps.Total, 2*here.Steps.Total[i%n])
		here.Steps.Kind = append(here.Steps.Kind, "")
	}
	long, short := Side{Runs: []*evidence.Run{here}}, Side{Runs: []*evidence.Run{there}}
	for _, got := range []*Comparison{Compare(long, short), Compare(short, long)} {
		if got.Verdict != Same {
			t.Errorf("%s: %+v", got.Verdict, got.Changes)
		}
	}
}

func TestPlateau(t *testing.T) {
	run := func(live ...float64) *evidence.Run {
		r := evidence.NewRun("x")
		for i, v := range live {
			r.Steps.Number, r.Steps.Live = append(r.Steps.Number, i+1), append(r.Steps.Live, v)
		}
		return r
	}
	series := func(n int, f func(i int) float64) (all []float64) {
		for i := range n {
			all = append(all, f(i))
		}
		return all
	}
	for name, c := range map[string]struct {
		live []float64
		want string
	}{
		"flat":    {series(40, func(int) float64 { return 1e8 }), Flat},
		"a leak":  {series(40, func(i int) float64 { return 1e8 + 1e6*float64(i) }), Grows},
		"settles": {series(40, func(i int) float64 { return 1e8 + 1e6*math.Min(float64(i), 12) }), Flat},
		"grew, and jumps at its end": {series(40, func(i int) float64 {
			if i == 39 {
				return 1.3e8
			}
			return 1e8 + 1e6*math.Min(float64(i), 15)
		}), Flat},
		"up and down":  {series(40, func(i int) float64 { return 1e8 + 1e7*float64(i%5) }), Flat},
		"too few":      {series(6, func(i int) float64 { return 1e8 + 1e6*float64(i) }), Unknown},
		"nobody reads": {series(40, func(int) float64 { return -1 }), Unknown},
	} {
		if got := plateau(run(c.live...)); got.State != c.want || got.Text == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r := evidence.NewRun("x") // of a CPU: no allocator counts, its processes do
	for i := range 60 {
		r.Steps.Number, r.Steps.Start, r.Steps.Total = append(r.Steps.Number, i+1), append(r.Steps.Start, float64(i)),
			append(r.Steps.Total, 1)
		r.Host.Samples = append(r.Host.Samples, evidence.Sample{At: float64(i), Figures: []evidence.Figure{
			evidence.Known("process.resident", 1e8+2e6*float64(i), "B", evidence.Measured)}})
	}
	if got := plateau(r); got.State != Grows {
		t.Errorf("of samples: %+v", got)
	}
}

// TestFactorsPage: the table of docs/handoff.md is that of the code.
func TestFactorsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/handoff.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range factors {
		if row := fmt.Sprintf("| `%s` | %s |", f.name, f.doc); !strings.Contains(string(page), row) {
			t.Errorf("docs/handoff.md has no row %s", row)
		}
	}
}
