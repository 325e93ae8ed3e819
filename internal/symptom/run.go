package symptom

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/target"
	"assay/internal/unit"
)

// Run explains the evidence of a run: the error that ended it, what the double refused, what fell back, what its
// findings say, and the symptoms that show in its figures only.
func (asked For) Run(name string, run *evidence.Run) *Report {
	s := newScanner(name)
	s.asked = asked
	c := &s.rep.Context
	if name, release := run.Target.Computes(); name == "torch" {
		c.Torch = release
	}
	if d := run.Target.Double; d != nil {
		c.Torch, c.MacOS = d.Release, d.MacOS
	}
	c.Torch, _, _ = strings.Cut(c.Torch, "+")
	for _, d := range run.Provenance.Datasets { // the training loader's, where there are several the largest
		if d.Batch > c.Batch {
			c.Batch, c.BatchFrom = d.Batch, "the run's loader"
		}
	}
	s.text("the error that ended it", run.Outcome.Error, run.Outcome.Where, 1)
	if sig := run.Outcome.Signal; sig == "SIGKILL" && run.Outcome.Stopped == "" {
		s.text("how it ended", "Killed: 9", "", 1)
	}
	if r := run.Rehearsal; r != nil {
		for _, refusal := range r.Refusals {
			if refusal.Ended && strings.HasSuffix(run.Outcome.Error, refusal.Text) {
				continue // said above
			}
			s.text("refused on the double", refusal.Error+": "+refusal.Text, refusal.Where, refusal.Count)
		}
		if r.Tests != nil {
			for _, f := range r.Tests.Failures {
				if f.OnCPU == "passed" || f.OnCPU == "unknown" {
					s.text("test "+f.ID, f.Error+": "+f.Text, f.Where, 1)
				}
			}
		}
	}
	for _, f := range run.Fallbacks {
		s.text("fallbacks", "The operator '"+f.Operator+"' is not currently supported on the MPS backend and will fall back to run on the CPU.", f.Where,
			f.Count)
	}
	for _, p := range run.Processes {
		for _, t := range p.Trouble {
			s.text(fmt.Sprintf("trouble of process %d", p.PID), t, "", 1)
		}
	}
	if n := run.Numerics.NonFiniteLosses; len(n) > 0 {
		s.text("losses", fmt.Sprintf("loss: nan (first at step %d)", n[0]), "", len(n))
	}
	for _, o := range Observations {
		if o.Timed && run.Rehearsal != nil { // its times are those of the machine that rehearsed
			continue
		}
		if text, ok := o.Sees(run); ok {
			sym := o.symptomOf(run.Target.Framework)
			sym.Count, sym.Found = 1, []Found{{Place: "figures", Text: text}}
			s.rep.Symptoms = append(s.rep.Symptoms, sym)
		}
	}
	for _, f := range run.Findings {
		if f.Severity == evidence.Note {
			continue
		}
		remedy := []string{}
		if f.Hint != "" {
			remedy = append(remedy, sentence(f.Hint))
		}
		s.rep.Symptoms = append(s.rep.Symptoms, Symptom{Rule: "finding/" + f.Name, Topic: "findings",
			Severity: string(f.Severity), Title: f.Name,
			Cause: f.Text, Remedy: remedy,
			Source: "the run's finding, " + string(f.Basis), Count: 1, Found: []Found{{Place: "findings", Text: f.Text,
				Where: f.Where}}})
	}
	return s.finish()
}

// text looks at a text of the evidence that may have several lines.
func (s *scanner) text(place, text, where string, count int) {
	known := false
	var first string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); len(line) > longest {
			line = line[:longest]
		}
		if first == "" {
			first = line
		}
		s.found = s.finder.in([]byte(line), s.found[:0])
		before := len(s.rep.Symptoms)
		if len(s.found) > 0 && s.match(line, Found{Place: place, Where: where}) {
			known = true
			if len(s.rep.Symptoms) > before && count > 1 {
				s.rep.Symptoms[len(s.rep.Symptoms)-1].Count = count
			}
		}
	}
	if !known && first != "" {
		s.unknown(Found{Place: place, Text: shorten(first), Where: where})
	}
}

// Observation is a symptom that no line says: it shows in the figures of a run.
type Observation struct {
	Name       string
	Title      string
	Hypothesis string
	Actions    []string
	Source     string
	Headings   []string // by which guides call it, in lower case
	Timed      bool     // by clocks: a rehearsal has nothing to say
	Sees       func(run *evidence.Run) (text string, ok bool)
}

func (o Observation) symptom() Symptom {
	return Symptom{Rule: o.Name, Topic: "figures", Severity: "warning", Title: o.Title, Cause: o.Hypothesis,
		Remedy: o.Actions, Source: o.Source}
}

// symptomOf a run of that framework: what only PyTorch has is no remedy in MLX.
func (o Observation) symptomOf(framework string) Symptom {
	s := o.symptom()
	if framework != "mlx" {
		return s
	}
	s.Remedy = []string{}
	for _, action := range o.Actions {
		if !strings.Contains(action, "--only") { // it takes over a DataLoader's loop
			s.Remedy = append(s.Remedy, inMLX.Replace(action))
		}
	}
	return s
}

// inMLX are PyTorch's words for what MLX has as well.
var inMLX = strings.NewReplacer("torch.mps.empty_cache()", "mx.clear_cache()", "empty_cache()", "mx.clear_cache()",
	"loss.detach()", "mx.stop_gradient(loss)", "hidden.detach()", "mx.stop_gradient(hidden)")

// Observations are the fallback table and the observability matrix of S4 §5 and §9, as far as one run can show them.
// Loss drift and a speedup near 1 need a second run: gate and verdict compare.
var Observations = []Observation{
	{
		Name: "starts-fast-then-slow", Timed: true, Title: "Steps became slower as the run went on",
		Headings:   []string{"fast start then cliff", "cache pressure"},
		Source:     "S4 §5: fast start then cliff; the steps of this run",
		Hypothesis: "Memory fills: the allocator's cache, kept tensors or swap. A Mac that gets hot, or another program on the GPU, looks the same.",
		Actions: []string{"Lower the batch; gc.collect(); torch.mps.empty_cache() at the end of each epoch.",
			"Compare memory.growth and " +
				"swap.used.peak of this run; the retained lines in the report say which tensors stay.",
			"Where memory is flat: powermetrics --samplers thermal, Low Power Mode, the list of programs at the run's end."},
		Sees: slower,
	},
	{
		Name: "one-operator-takes-most", Title: "One operator takes most of the time",
		Headings:   []string{"one layer slow", "kernel gap"},
		Source:     "S4 §5: one layer slow; the profile of this run",
		Hypothesis: "A gap in the kernels: the operator runs on the CPU, or by a slow way on this device.",
		Actions: []string{"assay ops NAME says whether it has a kernel in this release, and since when.",
			"Replace the layer by one with native " +
				"operators, or move just it to the CPU; compare by --profile."},
		Sees: oneOperator,
	},
	{
		Name: "device-not-used", Title: "The steps did not run on the device that was asked for",
		Source:     "S4 §9: speedup near 1x, check the real device",
		Hypothesis: "The tensors stayed on the CPU.",
		Actions: []string{"print(next(model.parameters()).device); model.to(device) and the batch as well.",
			"assay doctor proves the device."},
		Sees: func(run *evidence.Run) (string, bool) {
			asked, got := target.Asked(run.Target), run.Target.Device
			return fmt.Sprintf("asked for %s, trained on %s", asked.Device, got), asked.NeedsProof() && got != "" &&
				got != asked.MustShow()
		},
	},
	{
		Name: "waits-for-the-device", Timed: true, Title: "The loop waits for the device",
		Headings: []string{"sync points", "synchronisation points", "synchronization points"},
		Source:   "S4 §9 and §12: sync points",
		Hypothesis: "Reading a value (.item(), print of a tensor, .cpu()) waits until the GPU has done all that was queued, and it idles until " +
			"more is. Part of the wait is its own work and stays.",
		Actions: []string{"Gather losses on the device, and read them once an epoch or every hundred steps.",
			"assay run --only forward shows " +
				"what the step takes without them."},
		Sees: waits,
	},
	{
		Name: "waits-for-data", Timed: true, Title: "The loop waits for data",
		Headings:   []string{"throughput hides in the dataloader", "gpu timeline looks idle", "waits for data"},
		Source:     "S4 §1 and §12; the steps of this run",
		Hypothesis: "Decoding, augmentation or collation on the CPU take longer than the step: a faster GPU changes nothing.",
		Actions: []string{"assay run --only data measures the loader alone.",
			"Workers, with persistent_workers=True and under the main guard; " +
				"decode and resize once, ahead; fewer Python-level transforms."},
		Sees: func(run *evidence.Run) (string, bool) {
			f := run.Figure("share.data")
			if !f.Known() {
				return "", false
			}
			return fmt.Sprintf("share.data %.0f %% (%s)", 100**f.Value, f.Basis), *f.Value >= evidence.DataWait
		},
	},
	{
		Name: "memory-grows", Title: "Memory grows from epoch to epoch",
		Headings: []string{"oom patterns", "dynamic graph chains", "memory looks like a leak",
			"memory pressure climbs", "session memory"},
		Source:     "S4 §4: 26 % over ten epochs, and §9: dynamic graph chains",
		Hypothesis: "Tensors or whole graphs are kept over steps: losses added up with their graph, outputs in a list, hidden states that were not detached.",
		Actions: []string{"total += loss.item() or loss.detach(); hidden = hidden.detach() between segments.",
			"The report's table of retained " +
				"tensors names the lines.", "empty_cache() frees only what no tensor holds."},
		Sees: func(run *evidence.Run) (string, bool) {
			f := run.Figure("memory.growth")
			if pace, known := f.PerEpoch(); !known || pace <= evidence.GrowthPace {
				return "", false
			}
			text := fmt.Sprintf("memory.growth %.0f %% (%s)", 100**f.Value, f.Basis)
			if len(run.Retained) > 0 {
				r := run.Retained[0]
				text += fmt.Sprintf("; most is kept at %s: %s in %d tensors", r.Where, unit.Bytes(float64(r.Bytes)),
					r.Tensors)
			}
			return text, true
		},
	},
	{
		Name: "several-processes-on-mps", Title: "Several processes train on one GPU",
		Headings:   []string{"multi-process oddities", "mps multiprocess limits"},
		Source:     "S4 §9 and §16: multi-process oddities",
		Hypothesis: "MPS has no collectives and shares no memory between processes; each holds its own model and cache, and they take turns on the GPU.",
		Actions:    []string{"One process with a larger batch.", "Another machine, or CUDA, for real parallelism."},
		Sees: func(run *evidence.Run) (string, bool) {
			n := 0
			for _, p := range run.Processes {
				if p.Steps > 0 {
					n++
				}
			}
			return fmt.Sprintf("%d processes made training steps on mps", n), n > 1 && run.Target.Device == "mps"
		},
	},
}

// slower compares the first with the last quarter of the steady steps: half as long again, with the quartiles apart.
func slower(run *evidence.Run) (string, bool) {
	first, kind := 10, ""
	for _, w := range run.Windows {
		if w.Name == "steady" {
			first, kind = w.First, w.Kind
		}
	}
	var t []float64
	for i, n := range run.Steps.Number {
		if n >= first && i < len(run.Steps.Total) && (i >= len(run.Steps.Kind) || run.Steps.Kind[i] == kind) {
			t = append(t, run.Steps.Total[i])
		}
	}
	if len(t) < 40 {
		return "", false
	}
	a, b := slices.Clone(t[:len(t)/4]), slices.Clone(t[len(t)-len(t)/4:])
	slices.Sort(a)
	slices.Sort(b)
	q := func(v []float64, p float64) float64 { return v[int(math.Round(p*float64(len(v)-1)))] }
	before, after := stats.Median(a), stats.Median(b)
	text := fmt.Sprintf("median step %s in the first quarter of the steady steps, %s in the last", unit.Seconds(before),
		unit.Seconds(after))
	if f := run.Figure("memory.growth"); f.Known() {
		text += fmt.Sprintf("; memory.growth %.0f %%", 100**f.Value)
	}
	if f := run.Figure("swap.used.peak"); f.Known() && *f.Value > 0 {
		text += "; swap in use up to " + unit.Bytes(*f.Value)
	}
	return text, before > 0 && after >= 1.5*before && q(b, 0.25) > q(a, 0.75)
}

func oneOperator(run *evidence.Run) (string, bool) {
	if f := run.Figure("fallback.time"); f.Known() && *f.Value >= 0.3 && len(run.Fallbacks) > 0 {
		return fmt.Sprintf("%.0f %% of the operators' time on this machine's CPU is in calls that have no kernel on the device, first of them %s (%s)",
			100**f.Value, run.Fallbacks[0].Operator, f.Basis), true
	}
	if run.Target.Device != "mps" || run.Rehearsal != nil || len(run.Operators) == 0 {
		return "", false
	}
	sum, top := 0.0, run.Operators[0]
	for _, o := range run.Operators {
		sum += o.Self
		if o.Self > top.Self {
			top = o
		}
	}
	return fmt.Sprintf("%s: %.0f %% of the operators' own time", top.Name, 100*top.Self/sum), sum > 0 &&
		top.Self >= 0.6*sum
}

func waits(run *evidence.Run) (string, bool) {
	total := 0.0
	for _, t := range run.Steps.Total {
		total += t
	}
	total *= float64(max(1, run.Steps.Thin))
	all := len(run.Steps.Total) * max(1, run.Steps.Thin)
	watched := all
	if w := run.Steps.Watched; w > 0 && w < all { // waits are seen in these alone
		total *= float64(w) / float64(all)
		watched = w
	}
	lost, calls, worst := 0.0, 0, evidence.SyncPoint{}
	for _, p := range run.Syncs {
		if p.Waits && p.Steps > 0 && !p.Computes {
			lost, calls = lost+p.Lost, calls+p.Count
			if p.Lost > worst.Lost {
				worst = p
			}
		}
	}
	// One read a step waits for work that has to be done anyway; several make the GPU idle in between.
	if total <= 0 || lost < 0.2*total || calls < 2*watched {
		return "", false
	}
	return fmt.Sprintf("%.0f %% of the steps' time is spent waiting, most of it in %s at %s (%d calls)",
		100*min(1, lost/total), worst.Call,
		worst.Where, worst.Count), true
}
