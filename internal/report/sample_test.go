package report

import (
	"math"
	"time"

	"assay/internal/evidence"
	"assay/internal/stats"
)

// The samples are built, not recorded, but add up as recorded ones do: every figure follows from the columns.

var epoch0 = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func samples() map[string]*evidence.Run {
	return map[string]*evidence.Run{"digits-cpu": digitsRun(), "resnet-cuda": cudaRun(), "killed": killedRun(),
		"double": doubleRun()}
}

// noise is a small generator of its own, so that goldens do not hang on math/rand.
type noise uint64

// next is uniform in [0, 1).
func (n *noise) next() float64 {
	*n = *n*6364136223846793005 + 1442695040888963407
	return float64(uint64(*n)>>11) / (1 << 53)
}

// round keeps goldens readable and the same on machines that fuse multiplications.
func round(v float64) float64 { return math.Round(v*1e7) / 1e7 }

func ptr[T any](v T) *T { return &v }

// train fills the columns of a training loop: mean seconds of the six phases, and which kind each step is.
func train(run *evidence.Run, epochs, perEpoch int, mean [6]float64, startup, outside float64,
	kind func(step int) string) {
	rnd := noise(7)
	s := &run.Steps
	at, step := startup, 0
	for e := 1; e <= epochs; e++ {
		begin := at
		for i := range perEpoch {
			step++
			k := kind(step)
			slow := 1.0
			if e == 1 && i < 3 {
				slow = 9 / float64(1+3*i)
			}
			if k == "profile" || k == "trace" {
				slow *= 1.9
			}
			if rnd.next() > .96 {
				slow *= 1.6
			}
			var part [6]float64
			total := 0.0
			for p, m := range mean {
				part[p] = round(m * slow * (.92 + .2*rnd.next()))
				total += part[p]
			}
			s.Number = append(s.Number, step)
			s.Start = append(s.Start, round(at))
			s.Total = append(s.Total, round(total))
			for p := range s.Phases {
				s.Phases[p].Seconds = append(s.Phases[p].Seconds, part[p])
			}
			s.Epoch = append(s.Epoch, e)
			s.Micro = append(s.Micro, 1)
			s.Kind = append(s.Kind, k)
			at += total
			run.Loss.Step = append(run.Loss.Step, step)
			run.Loss.Value = append(run.Loss.Value, ptr(round(2.3*math.Exp(-float64(step)/45)+.05+.1*rnd.next())))
		}
		at += outside
		run.Epochs = append(run.Epochs, evidence.Epoch{Number: e, First: step - perEpoch + 1, Last: step,
			Seconds: round(at - begin), Outside: round(outside), Complete: true})
	}
}

func summary(name, u, window string, basis evidence.Basis, xs []float64) evidence.Figure {
	s := stats.Summarize(xs)
	f := evidence.Known(name, round(s.Median), u, basis)
	f.Low, f.High, f.N, f.Window = ptr(round(s.Q1)), ptr(round(s.Q3)), s.N, window
	return f
}

// split adds the split.* and share.* figures from the steps that count.
func split(run *evidence.Run, window string, in func(i int) bool) {
	phases := run.Steps.Phases
	sums := make([]float64, len(phases))
	all := 0.0
	for p := range phases {
		var xs []float64
		for i, v := range phases[p].Seconds {
			if in(i) {
				xs = append(xs, v)
				sums[p] += v
				all += v
			}
		}
		run.Figures = append(run.Figures, summary("split."+phases[p].Name, "s", window, evidence.Measured, xs))
	}
	for p := range phases {
		f := evidence.Known("share."+phases[p].Name, round(sums[p]/all), "ratio", evidence.Derived)
		f.Window, f.Note = window, "sum over the window, by sum of the steps"
		run.Figures = append(run.Figures, f)
	}
}

func pick(xs []float64, in func(i int) bool) []float64 {
	var out []float64
	for i, x := range xs {
		if in(i) {
			out = append(out, x)
		}
	}
	return out
}

func hostSamples(run *evidence.Run, seconds, every, resident, swap float64, gpu bool) {
	rnd := noise(11)
	for at := 0.0; at <= seconds; at += every {
		grow := 1 - math.Exp(-6*at/seconds)
		fs := []evidence.Figure{
			evidence.Known("process.resident", math.Round(resident*(.3+.7*grow)), "B", evidence.Measured),
			evidence.Known("host.swap.used", math.Round(swap*(1+.02*rnd.next())), "B", evidence.Measured),
			evidence.Known("host.cpu", round(.55+.4*rnd.next()), "ratio", evidence.Measured),
		}
		if gpu {
			fs = append(fs, evidence.Known("gpu.busy", round(.8+.2*rnd.next()), "ratio", evidence.Measured),
				evidence.Known("gpu.power", round(260+60*rnd.next()), "W", evidence.Measured))
		}
		run.Host.Samples = append(run.Host.Samples, evidence.Sample{At: round(at), Figures: fs})
	}
}

// digitsRun is an ordinary run: a small network on a CPU, three epochs of 45 steps, everything seen.
func digitsRun() *evidence.Run {
	run := &evidence.Run{
		Envelope: evidence.Envelope{
			Schema: evidence.Schema, Kind: evidence.KindRun,
			ID:      "20260314-092653-digits",
			Started: epoch0,
			Ended:   epoch0.Add(9700 * time.Millisecond),
			Subject: evidence.Subject{Kind: "script", Command: []string{"python", "train.py", "--epochs", "3"},
				Script: "train.py", Dir: "/home/ana/digits"},
			Target: evidence.Target{Asked: "auto", Device: "cpu", Name: "Apple M2 Max", Framework: "torch",
				Release: "2.8.0", Python: "3.12.4", System: "macOS 15.5 arm64"},
		},
		RunBody: evidence.RunBody{
			Steps:   evidence.StepSeries{Phases: evidence.FormerPhases()},
			Outcome: evidence.Outcome{Started: true, Complete: true},
		},
	}
	train(run, 3, 45, [6]float64{.0021, .0002, .0093, .0148, .0031, .0009}, 3.1, .11, func(step int) string {
		switch {
		case step >= 60 && step < 66:
			return "profile"
		case step == 80 || step == 120:
			return "trace"
		}
		return ""
	})
	steady := func(i int) bool { return run.Steps.Number[i] > 45 && run.Steps.Kind[i] == "" }
	run.Windows = []evidence.Window{
		{Name: "first-epoch", First: 1, Last: 45, Steps: 45},
		{Name: "steady", First: 46, Last: 135, Steps: 82, Excluded: "without profiled and traced ones"},
		{Name: "profiled", First: 60, Last: 65, Steps: 6},
	}
	step := summary("step.time", "s", "steady", evidence.Measured, pick(run.Steps.Total, steady))
	run.Figures = append(run.Figures, step,
		evidence.Unknown("step.time.synchronised", "s", "not needed: a cpu does not run ahead of the host"))
	split(run, "steady", steady)
	rate := evidence.Known("step.rate", round(1 / *step.Value), "1/s", evidence.Derived)
	samplesRate := evidence.Known("samples.rate", round(32 / *step.Value), "1/s", evidence.Derived)
	samplesRate.Note = "32 samples a step, from the first dimension of the input"
	epoch := summary("epoch.time", "s", "", evidence.Measured, []float64{run.Epochs[0].Seconds, run.Epochs[1].Seconds,
		run.Epochs[2].Seconds})
	growth := evidence.Known("memory.growth", .004, "ratio", evidence.Derived)
	growth.Note = "resident memory at the end of the last epoch against the first"
	run.Figures = append(run.Figures, rate, samplesRate,
		summary("step.first_epoch", "s", "first-epoch", evidence.Measured, run.Steps.Total[:45]),
		epoch, evidence.Known("epoch.steps", 45, "1", evidence.Measured),
		evidence.Unknown("epoch.estimate", "s", "not needed: an epoch was complete"),
		evidence.Known("run.time", 9.7, "s", evidence.Measured), evidence.Known("run.startup", 3.1, "s",
			evidence.Measured),
		evidence.Unknown("memory.live.peak", "B", "the cpu allocator keeps no count"),
		evidence.Unknown("memory.pool.peak", "B", "the cpu allocator keeps no count"),
		evidence.Known("memory.resident.peak", 412<<20, "B", evidence.Measured), growth,
		evidence.Unknown("memory.watermark", "ratio", "the cpu allocator keeps no count"),
		evidence.Known("swap.used.peak", 1.1*(1<<30), "B", evidence.Measured),
		evidence.Known("agent.step", 41e-6, "s", evidence.Measured), evidence.Known("agent.share", .0013, "ratio",
			evidence.Derived),
		evidence.Known("agent.total", .0123, "s", evidence.Measured),
		evidence.Known("host.cpu.mean", .74, "ratio", evidence.Measured),
		evidence.Unknown("gpu.busy.mean", "ratio", "powermetrics needs root"),
		evidence.Unknown("gpu.power.mean", "W", "powermetrics needs root"),
		evidence.Known("loss.first", *run.Loss.Value[0], "1", evidence.Measured),
		evidence.Known("loss.last", *run.Loss.Value[134], "1", evidence.Measured))
	for range run.Steps.Number {
		run.Steps.Live = append(run.Steps.Live, -1)
		run.Steps.Pool = append(run.Steps.Pool, -1)
	}
	for i := range run.Epochs {
		run.Epochs[i].Resident, run.Epochs[i].Tensors = ptr(float64(409+i)*(1<<20)), ptr(61)
	}
	run.Syncs = []evidence.SyncPoint{
		{Call: "Tensor.item", Where: "/home/ana/digits/train.py:41", Count: 135, Lost: .0009, Steps: 135},
		{Call: "Tensor.item", Where: "/home/ana/digits/train.py:58", Count: 3, Lost: .00004},
	}
	for p, name := range []string{"forward", "backward", "optimizer"} {
		run.Memory = append(run.Memory, evidence.PhaseMem{Phase: name, Resident: ptr(float64(405+2*p) * (1 << 20)),
			Swap: ptr(1.1 * (1 << 30)), N: 12})
	}
	run.Operators = []evidence.Operator{
		{Name: "aten::convolution_backward", Calls: 12, Self: .0412, Total: .0433},
		{Name: "aten::mkldnn_convolution", Calls: 12, Self: .0288, Total: .0291},
		{Name: "aten::addmm", Calls: 12, Self: .0061, Total: .0070},
		{Name: "aten::max_pool2d_with_indices", Calls: 12, Self: .0042, Total: .0042},
		{Name: "aten::_foreach_addcdiv_", Calls: 6, Self: .0021, Total: .0023},
	}
	run.Profile = evidence.Profile{First: 60, Last: 65, Steps: 6, Trace: "trace.json.gz"}
	run.Numerics = evidence.Numerics{GradSteps: 14, MicroSteps: 1, LossScaled: "not needed: every parameter is float32"}
	run.Shapes = []evidence.Shape{{Model: "Net", Inputs: "f32[32,1,8,8] on cpu", Steps: 132, First: 1},
		{Model: "Net", Inputs: "f32[13,1,8,8] on cpu", Steps: 3, First: 45}}
	run.Findings = []evidence.Finding{
		{Name: "ragged-batch", Severity: evidence.Note, Text: "the last batch of an epoch has 13 samples instead of 32",
			Where: "/home/ana/digits/train.py:22", Hint: "drop_last=True keeps one shape", Basis: evidence.Measured},
		{Name: "no-workers", Severity: evidence.Warning,
			Text:  "the loader runs in the training process: 7 % of a step waits for data",
			Where: "/home/ana/digits/train.py:22", Hint: "num_workers=2, persistent_workers=True",
			Basis: evidence.Measured},
	}
	hostSamples(run, 9.5, .5, 412<<20, 1.08*(1<<30), false)
	run.Host.Facts = []evidence.Fact{
		{Name: "chip", Value: "Apple M2 Max", Source: "sysctl machdep.cpu.brand_string"},
		{Name: "memory", Value: "64 GiB", Source: "sysctl hw.memsize"},
		{Name: "power", Value: "AC Power", Source: "pmset -g batt"},
		{Name: "gpu power", Source: "powermetrics", Missing: "needs root"},
	}
	run.Host.Apps = []evidence.App{{Name: "Google Chrome", Bytes: 3.1e9, Count: 24},
		{Name: "python3.12", Bytes: 2.2e8, Count: 1, Ours: true}}
	run.Host.AppsEnd = []evidence.App{{Name: "Google Chrome", Bytes: 3.2e9, Count: 24},
		{Name: "python3.12", Bytes: 4.3e8, Count: 1, Ours: true}}
	run.Processes = []evidence.Process{{PID: 4711, Parent: 4700, Role: "main",
		Argv: []string{"train.py", "--epochs", "3"}, Python: "3.12.4", Steps: 135, Framework: "torch", Release: "2.8.0",
		Ended: "bye", Observed: true}}
	run.Provenance = evidence.Provenance{Build: "cpu, mps built", Commit: "9f2c1e7d0b", Dirty: "dirty (1 file)",
		Assay:       "0.1.0",
		Interpreter: "/home/ana/.venv/bin/python", Environment: map[string]string{"PYTORCH_ENABLE_MPS_FALLBACK": "1",
			"OMP_NUM_THREADS": "8"},
		Packages: []string{"numpy==2.1.0", "torch==2.8.0", "typing_extensions==4.12.2"},
		Randomness: []evidence.Setting{
			{Name: "torch.manual_seed", Value: "0", State: evidence.Set, Where: "train.py:3"},
			{Name: "numpy.random.seed", State: evidence.NotSet}},
		Datasets: []evidence.Dataset{{Type: "DigitsDataset", Length: 1437, Batch: 32, Path: "/home/ana/digits/data",
			Files: 1, Bytes: 57523, Fingerprint: "sha256-first-64k:4a1f09"}}}
	return run
}

// doubleRun is the digits again, rehearsed without a Mac.
func doubleRun() *evidence.Run {
	run := digitsRun()
	run.ID = "20260314-092653-rehearsed"
	run.Target = evidence.Target{Asked: "double", Device: "mps", Framework: "torch", Release: "2.15.0+cpu",
		Python: "3.12.4", System: "linux/amd64",
		Double: &evidence.Double{Release: "2.8.0", Installed: "2.15.0+cpu", MacOS: "15", Chip: "Apple M3 Ultra",
			Memory: 96 << 30, Recommended: ptr(int64(72 << 30)), Ground: "observed",
			Cores: 80, Assumed: []string{"80 GPU cores, the most of 60, 80 cores"},
			Limits: []string{"the time that anything takes"}}}
	for i, f := range run.Figures {
		if f.Basis == evidence.Measured && f.Name != "memory.resident.peak" && f.Name != "host.cpu.mean" &&
			f.Name != "swap.used.peak" {
			run.Figures[i].Basis = evidence.Rehearsed
		}
		switch f.Name {
		case "memory.live.peak":
			run.Figures[i] = evidence.Known(f.Name, 31<<20, "B", evidence.Rehearsed)
		case "memory.pool.peak":
			run.Figures[i] = evidence.Known(f.Name, 64<<20, "B", evidence.Rehearsed)
		case "memory.watermark":
			run.Figures[i] = evidence.Known(f.Name, .00087, "ratio", evidence.Derived)
		}
	}
	run.Figures = append(run.Figures, evidence.Known("fallback.calls", .0031, "ratio", evidence.Rehearsed),
		evidence.Known("fallback.time", .021, "ratio", evidence.Rehearsed),
		evidence.Unknown("fallback.flops", "ratio", "floating-point operations were not counted"))
	run.Fallbacks = []evidence.Fallback{{Operator: "aten::grid_sampler_3d", Count: 135,
		Where: "/home/ana/digits/train.py:33", Basis: evidence.Rehearsed, Note: "native from torch 2.9 on",
		Seconds: ptr(.21), Share: ptr(.021), Bytes: ptr(int64(9 << 20))}}
	run.Rehearsal = &evidence.Rehearsal{
		Operators: []evidence.RehearsedOp{{Operator: "aten::addmm", Calls: 4050, State: "native", Seconds: ptr(1.2),
			FLOPs: ptr(2.1e12)},
			{Operator: "aten::grid_sampler_3d", Calls: 135, State: "missing", Seconds: ptr(.21)}},
		Refusals: []evidence.Refusal{{Operator: "aten::_to_copy", Cause: "dtype", Error: "TypeError",
			Where: "/home/ana/digits/train.py:40", Count: 2, Remedy: "use float32",
			Text: "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead."}},
		Remarks: []evidence.RehearsedNote{{Operator: "aten::index.Tensor", Kind: "wrong",
			Text: "an index out of range is not noticed", Where: "/home/ana/digits/train.py:41", Count: 135}},
		Met: []evidence.Met{{Fact: "roi-backward-accumulates", Outcome: "wrong", Sure: true,
			Operator: "torchvision::_roi_align_backward", Where: "/home/ana/digits/train.py:38", Count: 135,
			When: "more than 512 gradients", Wrong: "gradients too large",
			Span: "torch 2.1.0 to 2.13.0, right from 2.14.0 on", Remedy: "right from torch 2.14.0 on",
			Source: "vision PR 9563"},
			{Fact: "softmax-large", Outcome: "wrong", Operator: "aten::_softmax", Count: 1, When: "large tensors",
				Wrong: "NaN", Where: "/home/ana/digits/train.py:33", Span: "torch, seen from 2.0.0 on",
				Source: "pytorch issue 96602"}},
	}
	run.Findings = append(run.Findings, evidence.Finding{Name: "refused-dtype", Severity: evidence.Warning,
		Where: "/home/ana/digits/train.py:40", Hint: "use float32", Basis: evidence.Rehearsed,
		Text: "aten::_to_copy raised TypeError 2 times: Cannot convert a MPS Tensor to float64 dtype; the script went on"})
	return run
}

// cudaRun has an asynchronous device, a synchronised sample, every list full, and stops because it was asked to.
func cudaRun() *evidence.Run {
	run := &evidence.Run{
		Envelope: evidence.Envelope{
			Schema: evidence.Schema, Kind: evidence.KindRun,
			ID:      "20260314-092653-resnet",
			Started: epoch0,
			Ended:   epoch0.Add(214 * time.Second),
			Subject: evidence.Subject{Kind: "module", Command: []string{"python", "-m", "vision.train", "--arch",
				"resnet50"}, Dir: "/srv/vision"},
			Target: evidence.Target{Asked: "cuda", Device: "cuda", Name: "NVIDIA H200", Framework: "torch",
				Release: "2.7.1+cu128", Python: "3.11.9", System: "Linux 6.8 x86_64"},
		},
		RunBody: evidence.RunBody{
			Steps:   evidence.StepSeries{Phases: evidence.FormerPhases()},
			Outcome: evidence.Outcome{Started: true, Complete: true, Stopped: "after 800 steps (--steps)"},
		},
	}
	train(run, 1, 800, [6]float64{.041, .006, .052, .099, .012, .004}, 19.4, 0, func(step int) string {
		switch {
		case step >= 200 && step%40 == 0:
			return "sync"
		case step >= 300 && step < 310:
			return "profile"
		}
		return ""
	})
	run.Epochs[0].Complete = false
	steady := func(i int) bool { return run.Steps.Number[i] > 100 && run.Steps.Kind[i] == "" }
	synced := func(i int) bool { return run.Steps.Kind[i] == "sync" }
	step := summary("step.time", "s", "steady", evidence.Measured, pick(run.Steps.Total, steady))
	sync := summary("step.time.synchronised", "s", "synchronised", evidence.Measured, pick(run.Steps.Total, synced))
	run.Windows = []evidence.Window{
		{Name: "first-epoch", First: 1, Last: 800, Steps: 800},
		{Name: "steady", First: 101, Last: 800, Steps: step.N, Excluded: "without profiled and synchronised ones"},
		{Name: "synchronised", First: 200, Last: 800, Steps: sync.N, Excluded: "every 40th step"},
		{Name: "profiled", First: 300, Last: 309, Steps: 10},
	}
	run.Figures = append(run.Figures, step, sync)
	split(run, "synchronised", synced)
	estimate := evidence.Known("epoch.estimate", 5004**step.Value, "s", evidence.Predicted)
	estimate.Note = "steps of an epoch times the steady median"
	run.Figures = append(run.Figures,
		evidence.Known("step.rate", round(1 / *step.Value), "1/s", evidence.Derived),
		evidence.Known("samples.rate", round(256 / *step.Value), "1/s", evidence.Derived),
		summary("step.first_epoch", "s", "first-epoch", evidence.Measured, run.Steps.Total),
		evidence.Unknown("epoch.time", "s", "no epoch was complete"), evidence.Known("epoch.steps", 5004, "1",
			evidence.Declared), estimate,
		evidence.Known("run.time", 214, "s", evidence.Measured), evidence.Known("run.startup", 19.4, "s",
			evidence.Measured),
		evidence.Known("memory.live.peak", 21.4*(1<<30), "B", evidence.Measured),
		evidence.Known("memory.pool.peak", 24.9*(1<<30), "B", evidence.Measured),
		evidence.Known("memory.resident.peak", 5.2*(1<<30), "B", evidence.Measured),
		evidence.Unknown("memory.growth", "ratio", "stopped before epoch 2"),
		evidence.Known("memory.watermark", .178, "ratio", evidence.Derived),
		evidence.Known("swap.used.peak", 0, "B", evidence.Measured),
		evidence.Known("agent.step", 118e-6, "s", evidence.Measured), evidence.Known("agent.share", .00055, "ratio",
			evidence.Derived), evidence.Known("agent.total", .21, "s", evidence.Measured),
		evidence.Known("host.cpu.mean", .77, "ratio", evidence.Measured),
		evidence.Known("gpu.busy.mean", .91, "ratio", evidence.Measured),
		evidence.Known("gpu.power.mean", 288, "W", evidence.Measured),
		evidence.Known("loss.first", *run.Loss.Value[0], "1", evidence.Measured),
		evidence.Known("loss.last", *run.Loss.Value[799], "1", evidence.Measured))
	rnd := noise(5)
	for i := range run.Steps.Number {
		ramp := 1 - math.Exp(-float64(i)/9)
		run.Steps.Live = append(run.Steps.Live, math.Round(21.4*(1<<30)*ramp*(.97+.03*rnd.next())))
		run.Steps.Pool = append(run.Steps.Pool, math.Max(run.Steps.Live[i],
			math.Round(24.9*(1<<30)*(1-math.Exp(-float64(i/4)/4)))))
	}
	run.Loss.Value[411] = nil
	run.Epochs[0].Live, run.Epochs[0].Pool = ptr(3.1*(1<<30)), ptr(24.9*(1<<30))
	for _, s := range []struct {
		call, where string
		count       int
		lost        float64
	}{{"Tensor.item", "train.py:88", 800, 6.1}, {"Tensor.cpu", "metrics.py:31", 1600, 2.2},
		{"Tensor.__bool__", "clip.py:14", 800, .41},
		{"torch.cuda.synchronize", "timer.py:9", 16, .3}, {"Tensor.tolist", "log.py:77", 8, .02},
		{"Tensor.nonzero", "loss.py:120", 800, .015}} {
		run.Syncs = append(run.Syncs, evidence.SyncPoint{Call: s.call, Where: "/srv/vision/vision/" + s.where,
			Count: s.count, Lost: s.lost, Waits: true, Steps: min(s.count, 800)})
	}
	run.Syncs[1].Via = "/opt/py311/lib/python3.11/site-packages/torchmetrics/metric.py:482"
	run.Fallbacks = []evidence.Fallback{
		{Operator: "torchvision::nms", Count: 64, Where: "/srv/vision/vision/boxes.py:19", Basis: evidence.Measured},
		{Operator: "aten::unique_dim", Count: 8, Where: "/srv/vision/vision/loss.py:121", Basis: evidence.Derived,
			Note: "arguments were copied to the host by hand"},
	}
	for p, name := range []string{"data", "h2d", "forward", "backward", "optimizer"} {
		live := []float64{3.2, 3.3, 21.4, 6.0, 3.2}[p]
		run.Memory = append(run.Memory, evidence.PhaseMem{Phase: name, Live: ptr(live * (1 << 30)),
			Pool: ptr(24.9 * (1 << 30)), Resident: ptr(5.2 * (1 << 30)), N: 16})
	}
	run.Retained = []evidence.Retained{{Where: "/srv/vision/vision/train.py:95", Tensors: 400, Bytes: 400 * 512,
		Steps: 8, Epochs: []int{1}}}
	for i, o := range []string{"aten::cudnn_convolution", "aten::convolution_backward", "aten::native_batch_norm",
		"aten::native_batch_norm_backward", "aten::relu_", "aten::threshold_backward", "aten::add_", "aten::mm",
		"aten::_foreach_mul_", "void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x1_tn_align8>(Params)"} {
		v := 1.6 / float64(i+1)
		run.Operators = append(run.Operators, evidence.Operator{Name: o, Calls: 530 - 40*i, Self: round(v * .04),
			Total: round(v * .06), Device: ptr(round(v)), Queue: ptr(round(.004 * v))})
	}
	run.Profile = evidence.Profile{First: 300, Last: 309, Steps: 10, Trace: "trace.json"}
	run.Numerics = evidence.Numerics{NonFiniteLosses: []int{412}, GradSteps: 40, NonFiniteGrads: []int{412},
		SkippedSteps: []int{412}, Scaler: true, MicroSteps: 1,
		LossScaled: "yes: GradScaler seen, scale 65536 at the end"}
	run.Shapes = []evidence.Shape{{Model: "ResNet", Inputs: "f16[256,3,224,224] on cuda:0", Steps: 800, First: 1}}
	run.Limits = []evidence.Limit{{Name: "long-epoch", Value: 600, Unit: "s", Source: "--warn-epoch"}}
	run.Findings = []evidence.Finding{
		{Name: "long-epoch", Severity: evidence.Warning, Text: "an epoch of 5004 steps takes about 18 min at this rate",
			Hint: "start with a tenth of the data", Basis: evidence.Predicted},
		{Name: "non-finite-loss", Severity: evidence.Error,
			Text:  "the loss was not finite in step 412, and the scaler skipped that step",
			Where: "/srv/vision/vision/train.py:84",
			Hint:  "look at the batch of step 412; GradScaler hides it, the cause stays", Basis: evidence.Measured},
		{Name: "sync-in-step", Severity: evidence.Warning,
			Text:  "loss.item() waits for the device in every step: 6.1 s of 173 s",
			Where: "/srv/vision/vision/train.py:88", Hint: "collect the tensor and read it every 50 steps",
			Basis: evidence.Measured},
		{Name: "retained", Severity: evidence.Warning, Text: "tensors from this line outlive their step",
			Where: "/srv/vision/vision/train.py:95", Hint: "detach() before appending", Basis: evidence.Measured},
		{Name: "channels-last", Severity: evidence.Note, Text: "convolutions run in contiguous layout",
			Hint: "model.to(memory_format=torch.channels_last)", Basis: evidence.Derived},
	}
	hostSamples(run, 210, 2, 5.2*(1<<30), 0, true)
	run.Host.Facts = []evidence.Fact{{Name: "cpu", Value: "Intel Xeon Platinum 8480C, 16 cores",
		Source: "/proc/cpuinfo"}, {Name: "memory", Value: "128 GiB", Source: "/proc/meminfo"},
		{Name: "driver", Value: "570.86", Source: "nvidia-smi"}}
	run.Processes = []evidence.Process{
		{PID: 100, Parent: 99, Role: "main", Argv: []string{"-m", "vision.train", "--arch", "resnet50"},
			Python: "3.11.9", Steps: 800, Framework: "torch", Release: "2.7.1+cu128", Ended: "bye", Observed: true},
		{PID: 101, Parent: 100, Role: "child", Argv: []string{"-c", "from multiprocessing.spawn import spawn_main"},
			Python: "3.11.9", Ended: "exit without goodbye",
			Trouble: []string{"terminated while a batch was being written"}},
	}
	run.Provenance = evidence.Provenance{Build: "CUDA 12.8, cuDNN 9.8", Commit: "1c9d0aa", Dirty: "clean",
		Assay: "0.1.0", Interpreter: "/opt/py311/bin/python",
		Environment: map[string]string{"CUDA_VISIBLE_DEVICES": "0", "TORCH_CUDNN_V8_API_ENABLED": "1"},
		Packages:    []string{"numpy==1.26.4", "torch==2.7.1+cu128", "torchvision==0.22.1+cu128"},
		Datasets: []evidence.Dataset{{Type: "ImageFolder", Length: 1281167, Batch: 256, Workers: 8,
			Path: "/data/imagenet/train", Missing: "1281167 files: more than are read for a fingerprint"}},
		Randomness: []evidence.Setting{{Name: "torch.manual_seed", State: evidence.NotSet}}}
	return run
}

// killedRun is what is left when a process is killed before it came to anything: no torch, no step, no figures.
func killedRun() *evidence.Run {
	return &evidence.Run{
		Envelope: evidence.Envelope{
			Schema: evidence.Schema, Kind: evidence.KindRun,
			ID:      "20260314-092653-sh",
			Started: epoch0,
			Ended:   epoch0.Add(1500 * time.Millisecond),
			Subject: evidence.Subject{Kind: "command", Command: []string{"./prepare.sh", "--all"}, Dir: "/tmp/x"},
			Target:  evidence.Target{Asked: "auto", System: "Linux 6.8 x86_64"},
			Figures: []evidence.Figure{
				evidence.Unknown("step.time", "s", "no training step was seen"),
				evidence.Known("run.time", 1.5, "s", evidence.Measured),
			},
			Provenance: evidence.Provenance{Assay: "0.1.0", Dirty: "unknown: not a git repository"},
		},
		RunBody: evidence.RunBody{
			Steps: evidence.StepSeries{Phases: evidence.FormerPhases()},
			Outcome: evidence.Outcome{Started: true, Exit: 137, Signal: "SIGKILL",
				Reason: "the process was killed before the agent said anything"},
			Profile:  evidence.Profile{Missing: "no training step was seen"},
			Numerics: evidence.Numerics{LossScaled: "unknown: no loss was seen"},
			Loss:     evidence.LossSeries{Note: "no backward was seen"},
		},
	}
}
