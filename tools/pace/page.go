package main

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/pace"
)

// csv is internal/pace/efficiency.csv.
func (d *data) csv(t pace.Table, h holds) string {
	var b strings.Builder
	b.WriteString(`# What published figures say of Apple's GPUs under PyTorch's MPS: made by "go run ./tools/pace" (docs/pace.md).
# compute, bandwidth: share of the chip's FP32 rate and of its memory's bandwidth that operators reached.
# factor: a step's time over that which the medians give. seconds: of starting a kernel, of a wait.
# low, mid, high: tenth, fiftieth, ninetieth of a hundred figures.
# coverage: steps held, steps tried, High/Low, with each source of steps left out in turn.
class,measure,low,mid,high,n,source
`)
	row := func(class, measure string, q pace.Quantiles, n int, source string) {
		fmt.Fprintf(&b, "%s,%s,%.4g,%.4g,%.4g,%d,%s\n", class, measure, q.Low, q.Mid, q.High, n, source)
	}
	row(string(pace.Matmul), "compute", t.Compute[pace.Matmul], len(d.shares(mps, pace.Matmul, pace.ByCompute, all)),
		"TristanBilot/mlx-benchmark; chsasank/device-benchmarks PR 7 and 13")
	for _, class := range pace.Classes() {
		row(string(class), "bandwidth", t.Bandwidth[class], len(d.shares(mps, class, pace.ByBandwidth, all)),
			"TristanBilot/mlx-benchmark")
	}
	device, launch := d.groups()
	row("step", "factor", t.Step, device, "tools/pace/data/steps.csv")
	row("launch", "seconds", t.Launch, launch+len(d.launches), "tools/pace/data/steps.csv; kornia/kornia issue 4521")
	row("wait", "seconds", t.Wait, len(d.waits), "kornia/kornia issue 4521")
	held, n, _, _ := count(h.bySource)
	fmt.Fprintf(&b, "step,coverage,%d,%d,%.4g,%d,tools/pace/data/steps.csv\n", held, n, t.Step.High/t.Step.Low, n)
	return b.String()
}

// groups counts the groups of steps that the device bounds, and those that starting does.
func (d *data) groups() (device, launch int) {
	seen := map[string]bool{}
	for _, s := range d.steps {
		if seen[s.group()] || s.fresh {
			continue
		}
		seen[s.group()] = true
		if launching[s.workload] {
			launch++
		} else {
			device++
		}
	}
	return device, launch
}

// page is docs/pace.md.
func (d *data) page(t pace.Table, h holds) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	held, n, groupsHeld, groups := count(h.bySource)
	device, launch := d.groups()
	p("# How long a step takes on a Mac, from a rehearsal\n")
	p("Made by `go run ./tools/pace`. The figures are published ones, read by us; nobody here measured on a Mac.\n")
	p("A rehearsal (`assay run --on double --shape-only`) counts of each operator the calls, floating-point operations and bytes. Of a chip its")
	p("FP32 rate and its memory's bandwidth are known (`internal/target/chips.csv`). A step is then predicted as a band:\n")
	p("    operator = max(FLOPs / (rate × efficiency), bytes / (bandwidth × efficiency))   medians of its class")
	p("    device   = factor × sum of the operators")
	p("    step     = max(device, kernels × launch) + waits × wait\n")
	p("- The factor's band is %.2f to %.2f (median %.2f): what published training steps took, over what the medians give, %d Mac-and-model pairs.",
		t.Step.Low, t.Step.High, t.Step.Mid, device)
	p("  Batches of one model on one Mac count as one pair. It is never made narrower than %d times, a judgement: the pairs come from five publishers.", narrowest)
	p("- Starting a kernel takes %.0f to %.0f µs (median %.0f): %d pairs whose time the host bounds, and kornia issue 4521 (17 µs in a chain, an M1).",
		t.Launch.Low*1e6, t.Launch.High*1e6, t.Launch.Mid*1e6, launch)
	p("  A wait of the host takes %.0f µs (kornia issue 4521, one kernel and `torch.mps.synchronize()`, an M1; no second figure was found).", t.Wait.Mid*1e6)
	p("- Convolutions are given the efficiency of matrix products. The published single ones have eight channels out and say nothing of training.")
	p("- Half precision moves half the bytes, which are counted as they are; its operations are taken at the rate of FP32, which float16 reaches (13.29 and 13.27 TFLOPS on an M4 Max: chsasank/device-benchmarks). On an M1 those in bfloat16 are taken at half of it (2.25 against")
	p("  4.28 TFLOPS in a product of 4096: zzc0721/torch-performance-test-data issue 191, an M1 Pro); of other generations no figure was found.")
	p("- A chip whose own FP32 rate is not known takes that of a core of its generation. Sources of these rates differ by a fifth: an M4's is given as 3.8")
	p("  TFLOPS by the table's source and as 4.6 by huggingface/huggingface.js pull request 1044.")
	p("- What an operator of which neither FLOPs nor bytes are known takes is not known: it widens the band by the longest call of the step, and is named.")
	p("  Where more than a tenth of the kernels are such, there is no band.")
	p("- Loading data is not in the band. Throttling, other programs, and memory that does not suffice are not either.\n")

	p("## How often it holds: figures held back\n")
	p("Each is left out with all others of its kind, the band is made again from the rest, and the figure looked up in it.\n")
	p("| left out | steps held | pairs held | share of steps |")
	p("| --- | --- | --- | --- |")
	for _, k := range []struct {
		name   string
		trials []trial
	}{{"its source", h.bySource}, {"its chip", h.byChip}, {"its model", h.byWorkload},
		{"nothing (the band has seen it)", h.within},
		{"found afterwards (the band never saw it)", h.fresh}} {
		a, all, g, gs := count(k.trials)
		p("| %s | %d of %d | %d of %d | %.0f %% |", k.name, a, all, g, gs, 100*float64(a)/float64(all))
	}
	var bound, slow []trial
	for _, x := range h.bySource {
		if launching[x.workload] {
			slow = append(slow, x)
		} else {
			bound = append(bound, x)
		}
	}
	da, dn, _, _ := count(bound)
	la, ln, _, _ := count(slow)
	p("\nThe band is held to 80 %% of the steps; with its source left out it held %d of %d (%.0f %%), and %d of %d pairs. By what bounds them:", held, n,
		100*float64(held)/float64(n), groupsHeld, groups)
	p("%d of %d steps that the device bounds, in a band of %.1f times; %d of %d that starting kernels bounds, where the band is %.1f times wide:", da, dn,
		t.Step.High/t.Step.Low, la, ln, t.Launch.High/t.Launch.Low)
	p("**launching is beyond what was asked for**, for what a kernel's start takes differs by release, processor and model, and few figures are published.\n")
	generation, workload := d.perKernel(t)
	ga, gn, _, _ := count(d.sameGeneration(source))
	ca, _, _, _ := count(d.sameGeneration(chip))
	var started []trial
	for _, x := range h.byChip {
		if launching[x.workload] {
			started = append(started, x)
		}
	}
	was, _, _, _ := count(started)
	us := func(r [2]float64) string { return fmt.Sprintf("%.0f to %.0f µs", r[0]*1e6, r[1]*1e6) }
	p("Splitting it was tried and dropped. A kernel of those steps took %s on the M1s and %s on the M3s, so that by the chip's generation", us(generation[1]),
		us(generation[3]))
	p("the figures lie %.1f and %.1f times apart. Such a band held %d of the %d with their source left out, in place of %d, and %d with their chip left out, in place of %d:",
		generation[1][1]/generation[1][0], generation[3][1]/generation[3][0], ga, gn, la, ca, was)
	p("narrower, and no better at what it has not seen. What is left is the model: %s in ResNet-50,", us(workload["resnet50-32"]))
	p("%s in the small BERT. A split by what the operators are would have one source with convolutions and one without, and nothing to hold back.\n",
		us(workload["tiny-bert-128"]))
	p("| chip | steps held, its source left out | its chip left out |")
	p("| --- | --- | --- |")
	var chips []string
	for _, s := range d.steps {
		if !s.fresh && !slices.Contains(chips, s.on()) {
			chips = append(chips, s.on())
		}
	}
	slices.Sort(chips)
	of := func(trials []trial, chip string) string {
		var some []trial
		for _, x := range trials {
			if x.on() == chip {
				some = append(some, x)
			}
		}
		a, all, _, _ := count(some)
		return fmt.Sprintf("%d of %d", a, all)
	}
	for _, c := range chips {
		p("| %s | %s | %s |", c, of(h.bySource, c), of(h.byChip, c))
	}

	row := func(trials []trial) {
		for _, x := range trials {
			yes := "yes"
			if !x.held() {
				yes = "no"
			}
			p("| %s | %s | %s, %d | %.3g s | %.3g to %.3g s | %s | %s |", x.source, x.on(), x.workload, x.rows, x.seconds,
				x.band.Low, x.band.High, yes, x.loading)
		}
	}
	p("\n## The steps\n")
	p("Published seconds a step, and the band that was made without its source. `loading`: whether loading data is in the publisher's time.\n")
	p("| source | chip | model, batch | published | band | held | loading |")
	p("| --- | --- | --- | --- | --- | --- | --- |")
	row(h.bySource)
	p("\nThe efficiencies, that a step takes the longer of the device's work and the starting, that convolutions have the")
	p("efficiency of products, and how narrow the band may be, were settled with these steps in sight: leaving one out does")
	p("not undo that. These were found when it was settled, and have no part in it:\n")
	p("| source | chip | model, batch | published | band | held | loading |")
	p("| --- | --- | --- | --- | --- | --- | --- |")
	row(h.fresh)
	p("\nWhat was taken where a source does not say:\n")
	var notes []string
	for _, s := range d.steps {
		if line := fmt.Sprintf("- %s, %s: %s.", s.source, s.workload, s.note); s.note != "" && !slices.Contains(notes,
			line) {
			notes = append(notes, line)
		}
	}
	p("%s", strings.Join(notes, "\n"))
	p("\nLeft out:\n")
	for _, l := range d.leftOut {
		p("- %s, %s, %s: %s.", strings.Fields(l[0])[0], l[1], l[2], l[3])
	}
	p("- everything of PyTorch before 2.0, which was two to ten times slower, and which assay does not rehearse.\n")

	p("## What is no training step: kornia's filters\n")
	p("kornia publishes times of its filters and geometry on an M1 and an M4 (0.9.0rc1, torch 2.9.1, pictures of 256, one wait a call). They were counted")
	p("on the double and looked up, after the band was made, and have no part in it. **The band is not made for such calls, and does not hold them:**\n")
	p("| chip | batch 1 | batch 8 | batch 32 |")
	p("| --- | --- | --- | --- |")
	for _, chip := range []string{"M1", "M4"} {
		line := "| " + chip
		for _, rows := range []int{1, 8, 32} {
			var some []trial
			for _, x := range h.calls {
				if x.chip == chip && x.rows == rows {
					some = append(some, x)
				}
			}
			held, tried, _, _ := count(some)
			line += fmt.Sprintf(" | %d of %d", held, tried)
		}
		p("%s |", line)
	}
	all66, tried66, _, _ := count(h.calls)
	p("\n%d of %d. The median filter and Canny take up to a hundred times longer than their bytes say (reductions over short last dimensions: kornia issue", all66, tried66)
	p("4522). On the M4 a wait takes less than 172 µs and a kernel as little as 5 µs, on the M1 362 and 20: starting kernels is faster on newer chips than")
	p("the published training steps, none of which starting bounds on an M4, say.\n")
	p("## Single operators\n")
	p("Shares of the chip's rate that published operators reached, where they would take %.1f ms or longer at the full rate. `held`: figures of a chip", shortest*1e3)
	p("that lie between the tenth and ninetieth of a hundred of the *other* chips' figures. `width`: how far those are apart, as times. Nothing here is")
	p("a band of a single operator: nearly all classes are wider than twice, releases differ tenfold in some (binary cross entropy took 21 ms and 1.5 ms on")
	p("chips of like bandwidth), and the source names none. Their errors even out in a step, which is what is predicted.\n")
	p("| framework | class | bound | n | low | median | high | width | held |")
	p("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, framework := range []string{mps, mlx} {
		for _, class := range pace.Classes() {
			for _, bound := range []pace.Bound{pace.ByCompute, pace.ByBandwidth} {
				xs := d.shares(framework, class, bound, all)
				if len(xs) < 5 {
					continue
				}
				q := quantiles(xs)
				in, tried := d.heldOperators(framework, class, bound)
				p("| %s | %s | %s | %d | %.2f | %.2f | %.2f | %.1f | %d of %d |", framework, class, bound, len(xs),
					q.Low, q.Mid, q.High, q.High/q.Low, in, tried)
			}
		}
	}
	p("\nGathers of MLX reach more than the bandwidth, for their rows stay in a cache. MLX is not rehearsed: its rows are for comparison.\n")
	p("## Sources\n")
	p("- Operators: TristanBilot/mlx-benchmark, `benchmarks/detailed_benchmark.md`, thirteen parts; chsasank/device-benchmarks, pull requests 7 and 13 (products).")
	p("- Steps: mrdbourke/mac-ml-speed-test at c0430a5 (December 2023; four Macs); lucadiliello/pytorch-apple-silicon-benchmarks at 4559602; LucasSte/MLX-vs-Pytorch,")
	p("  `raw_results.txt`; rasbt/machine-learning-notes issue 3; ml-explore/mlx issue 2770.")
	p("- Starting and waiting: kornia/kornia issue 4521. Filters: kornia/kornia at b4f5a78, `benchmarks/results/0.9.0rc1`; its augmentations were not counted.")
	p("- Chips: `internal/target/chips.csv`, with the source of each row.")
	return b.String()
}

// heldOperators looks each chip's figures up among those of the others.
func (d *data) heldOperators(framework string, class pace.Class, bound pace.Bound) (held, tried int) {
	for _, o := range d.operators {
		if o.framework != framework || o.class != class || o.bound != bound {
			continue
		}
		others := d.shares(framework, class, bound, func(x operator) bool { return x.chip != o.chip })
		if len(others) == 0 {
			continue
		}
		q := quantiles(others)
		tried++
		if q.Low <= o.share && o.share <= q.High {
			held++
		}
	}
	return held, tried
}
