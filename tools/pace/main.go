// Command pace makes the table by which internal/pace predicts the time of a training step, and the page that says how
// good it is, from published figures:
//
//	go run ./tools/pace        writes internal/pace/efficiency.csv and docs/pace.md
//
// The figures lie in tools/pace/data: operators.csv (times of single operators), steps.csv (times of whole training
// steps), launches.csv (times of starting and waiting) and rehearsed.csv (what the double counted of those steps'
// operators: `python tools/pace/rehearse.py`). kornia.csv and kornia-counted.csv are the same of kornia's functions.
package main

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/evidence"
	"assay/internal/pace"
	"assay/internal/target"
)

func main() {
	root := flag.String("root", ".", "the repository's `folder`")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "pace:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	d, err := load(filepath.Join(root, "tools/pace/data"))
	if err != nil {
		return err
	}
	table := d.fit(func(step) bool { return true })
	held := d.held(table)
	if err := os.WriteFile(filepath.Join(root, "internal/pace/efficiency.csv"), []byte(d.csv(table, held)),
		0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs/pace.md"), []byte(d.page(table, held)), 0o644)
}

// shortest is the least time that an operator must take at the chip's full rates for its efficiency to be taken: a
// published time has a wait in it, of which 0.27 ms are known (launches.csv).
const shortest = 0.3e-3

// operator is a published time of one operator.
type operator struct {
	chip, cores, framework, name string
	class                        pace.Class
	bound                        pace.Bound
	share                        float64 // of the rate that bounds it
	ideal                        float64 // seconds at the full rate
}

// step is a published time of a training step.
type step struct {
	source, chip, workload, loading, note string
	cores, rows                           int
	seconds                               float64
	rates                                 pace.Rates
	fresh                                 bool // found when the band was made: never used to make it
}

func (s step) on() string { return fmt.Sprintf("%s, %d cores", s.chip, s.cores) }

// group is what of steps is one figure: batches of one workload on one Mac err alike.
func (s step) group() string { return s.source + "|" + s.on() + "|" + s.workload }

type data struct {
	operators []operator
	steps     []step
	calls     []step // of kornia's functions, which are no training steps: looked up, never used to make a band
	leftOut   [][]string
	rehearsed map[string][]evidence.RehearsedOp // workload and rows
	counted   map[string]int                    // steps that it was counted of
	launches  []float64                         // published times of starting a kernel in a chain
	waits     []float64
	said      map[string]string // of each row of launches.csv, its source
}

func load(folder string) (*data, error) {
	d := &data{rehearsed: map[string][]evidence.RehearsedOp{}, counted: map[string]int{}, said: map[string]string{}}
	for _, name := range []string{"rehearsed.csv", "kornia-counted.csv"} {
		rows, err := table(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			key := r["workload"] + "-" + r["rows"]
			op := evidence.RehearsedOp{Operator: r["operator"], Calls: whole(r["calls"]), State: r["state"]}
			op.FLOPs, op.Bytes = maybe(r["flops"]), maybe(r["bytes"])
			d.rehearsed[key] = append(d.rehearsed[key], op)
			d.counted[key] = whole(r["steps"])
		}
	}
	rows, err := table(filepath.Join(folder, "kornia.csv"))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		s := step{source: "kornia/kornia", chip: r["chip"], workload: r["workload"], cores: whole(r["cores"]),
			rows: whole(r["rows"]), seconds: number(r["seconds"])}
		if s.rates, err = rates(s.chip, s.cores); err != nil {
			return nil, err
		}
		if d.counted[s.key()] == 0 {
			return nil, fmt.Errorf("kornia.csv: %s was not counted", s.key())
		}
		d.calls = append(d.calls, s)
	}
	if rows, err = table(filepath.Join(folder, "steps.csv")); err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r["left_out"] != "" {
			d.leftOut = append(d.leftOut, []string{r["source"], r["chip"], r["workload"] + ", batch " + r["rows"],
				r["left_out"]})
			continue
		}
		s := step{source: strings.Fields(r["source"])[0], chip: r["chip"], workload: r["workload"],
			loading: r["loading"], note: r["note"], cores: whole(r["cores"]), rows: whole(r["rows"]),
			seconds: number(r["seconds"]), fresh: r["fresh"] != ""}
		if s.rates, err = rates(s.chip, s.cores); err != nil {
			return nil, err
		}
		if d.counted[s.key()] == 0 {
			return nil, fmt.Errorf("steps.csv: %s was not rehearsed", s.key())
		}
		d.steps = append(d.steps, s)
	}
	if rows, err = table(filepath.Join(folder, "launches.csv")); err != nil {
		return nil, err
	}
	for _, r := range rows {
		d.said[r["what"]] = r["source"] + ": " + r["note"]
		if r["what"] == "wait" {
			d.waits = append(d.waits, number(r["seconds"]))
		} else {
			d.launches = append(d.launches, number(r["seconds"]))
		}
	}
	if rows, err = table(filepath.Join(folder, "operators.csv")); err != nil {
		return nil, err
	}
	for _, r := range rows {
		o, err := efficiency(r)
		if err != nil {
			return nil, err
		}
		if o.ideal >= shortest {
			d.operators = append(d.operators, o)
		}
	}
	return d, nil
}

func (s step) key() string { return fmt.Sprintf("%s-%d", s.workload, s.rows) }

func rates(chip string, cores int) (pace.Rates, error) {
	if cores == 0 { // not published: the part with most
		for _, p := range target.Parts() {
			if p.Chip == chip {
				cores = max(cores, p.Cores)
			}
		}
	}
	return pace.RatesOf(target.Chip{Name: "Apple " + chip, Cores: cores})
}

// table reads a CSV with a head into rows by column.
func table(path string) ([]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out, nil
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // our own file; a test reads it
	}
	return v
}

func whole(text string) int {
	if text == "" {
		return 0
	}
	return int(number(text))
}

func maybe(text string) *float64 {
	if text == "" {
		return nil
	}
	v := number(text)
	return &v
}

// efficiency works out what a published operator has to compute and to move, by its shapes as the benchmark writes
// them: channels last in convolutions (stride 1), row indices in gathers. Elements are of four bytes.
func efficiency(r map[string]string) (operator, error) {
	var dims [][]float64
	for _, field := range strings.Fields(r["shape"]) {
		if strings.Contains(field, "=") {
			continue // axi=0
		}
		var d []float64
		for _, n := range strings.Split(field, "x") {
			d = append(d, number(n))
		}
		dims = append(dims, d)
	}
	size := func(i int) float64 { return product(dims[i]) }
	var flops, moved float64
	o := operator{chip: r["chip"], cores: r["cores"], framework: r["framework"], name: r["operator"]}
	switch o.name {
	case "square matmul":
		n := dims[0][0]
		o.class, flops, moved = pace.Matmul, 2*n*n*n, 12*n*n
	case "MatMul", "Linear":
		a, b := dims[0], dims[1]
		out := product(a[:len(a)-1]) * b[len(b)-1]
		o.class, flops, moved = pace.Matmul, 2*out*a[len(a)-1], 4*(size(0)+size(1)+out)
	case "Conv1d", "Conv2d":
		a, w := dims[0], dims[1]
		out := product(a[:len(a)-1]) * w[0]
		o.class, flops, moved = pace.Convolution, 2*out*product(w[1:]), 4*(size(0)+size(1)+out)
	case "ScaledDotProductAttention":
		q, k := dims[0], dims[1]
		o.class, flops, moved = pace.Attention, 4*q[0]*q[1]*q[2]*k[2]*q[3], 8*(size(0)+size(1))
	case "Softmax":
		o.class, moved = pace.Attention, 8*size(0)
	case "Sum", "SumAll", "Argmax":
		o.class, moved = pace.Reduction, 4*size(0)
	case "BCE", "LayerNorm":
		o.class, moved = pace.Reduction, 8*size(0)
	case "Concat":
		o.class, moved = pace.Copying, 8*(size(0)+size(1))
	case "Sort":
		o.class, moved = pace.Sorting, 8*size(0)
	case "Gather", "Scatter", "ScatterMax", "ScatterSum":
		o.class, moved = pace.Gathering, 8*dims[1][0]*dims[0][1]
	case "LeakyReLU", "PReLU", "ReLU", "SeLU", "Sigmoid", "Softplus":
		o.class, moved = pace.Elementwise, 8*size(0)
	default:
		return o, fmt.Errorf("operators.csv: %s is not known", o.name)
	}
	chip, err := rates(o.chip, whole(o.cores))
	if err != nil {
		return o, err
	}
	o.bound, o.ideal = pace.ByBandwidth, moved/chip.Bytes
	if t := flops / chip.FLOPS; t > o.ideal {
		o.bound, o.ideal = pace.ByCompute, t
	}
	o.share = o.ideal / (number(r["ms"]) / 1e3)
	return o, nil
}

func product(xs []float64) float64 {
	p := 1.0
	for _, x := range xs {
		p *= x
	}
	return p
}

// quantiles are order statistics of which a further figure lies between the outer two in at least 80 % of cases, where
// there are nine or more: the split conformal band. Of fewer they are the least and the greatest.
func quantiles(xs []float64) pace.Quantiles {
	xs = slices.Sorted(slices.Values(xs))
	n := float64(len(xs))
	low := max(int(math.Floor(0.1*(n+1)))-1, 0)
	high := min(int(math.Ceil(0.9*(n+1)))-1, len(xs)-1)
	return pace.Quantiles{Low: xs[low], Mid: xs[len(xs)/2], High: xs[high]}
}

// shares are those that operators of a class reached under PyTorch's MPS.
func (d *data) shares(framework string, class pace.Class, bound pace.Bound, of func(operator) bool) []float64 {
	var out []float64
	for _, o := range d.operators {
		if o.framework == framework && o.class == class && o.bound == bound && of(o) {
			out = append(out, o.share)
		}
	}
	return out
}

const mps, mlx = "pytorch-mps", "mlx-gpu"

func all(operator) bool { return true }

// fit makes the table from the steps that it is given. Single operators are always taken as they are: no step is made
// of their figures.
func (d *data) fit(use func(step) bool) pace.Table {
	t := pace.Table{Compute: map[pace.Class]pace.Quantiles{}, Bandwidth: map[pace.Class]pace.Quantiles{}}
	t.Compute[pace.Matmul] = quantiles(d.shares(mps, pace.Matmul, pace.ByCompute, all))
	for _, class := range pace.Classes() {
		t.Bandwidth[class] = quantiles(d.shares(mps, class, pace.ByBandwidth, all))
	}
	t.Wait = quantiles(d.waits)
	t.Step, t.Launch = pace.Quantiles{Low: 1, Mid: 1, High: 1}, quantiles(d.launches)
	device, launch := map[string][]float64{}, map[string][]float64{}
	for _, s := range d.steps {
		if s.fresh || !use(s) {
			continue
		}
		sum := d.sum(t, s)
		left := s.seconds - t.Wait.Mid*sum.Waits
		if launching[s.workload] {
			launch[s.group()] = append(launch[s.group()], left/sum.Kernels)
		} else {
			device[s.group()] = append(device[s.group()], left/sum.Device)
		}
	}
	t.Step = twice(quantiles(medians(device)))
	t.Launch = quantiles(append(medians(launch), d.launches...))
	return t
}

// narrowest is how wide the band of the device's work is at the least, High/Low: a judgement. Figures of five
// publishers, whose releases, loaders and cooling differ, cannot carry a narrower one; what each left out shows
// (docs/pace.md).
const narrowest = 2

func twice(q pace.Quantiles) pace.Quantiles {
	if by := math.Sqrt(narrowest / (q.High / q.Low)); by > 1 {
		q.Low, q.High = q.Low/by, q.High*by
	}
	return q
}

// launching are the workloads whose time the host's starting of kernels bounds: on each of the chips they take as long,
// whatever its rates. They tell what starting costs, the others what the device's work does.
var launching = map[string]bool{"resnet50-32": true, "tiny-bert-128": true}

func (d *data) sum(t pace.Table, s step) pace.Sum {
	return t.Roofline(d.rehearsed[s.key()], d.counted[s.key()], s.rates)
}

func medians(groups map[string][]float64) []float64 {
	var out []float64
	for _, xs := range groups {
		slices.Sort(xs)
		m := xs[len(xs)/2]
		if len(xs)%2 == 0 {
			m = (m + xs[len(xs)/2-1]) / 2
		}
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

// trial is a step and the band that was made without it.
type trial struct {
	step
	without string
	band    pace.Band
}

func (t trial) held() bool { return t.band.Low <= t.seconds && t.seconds <= t.band.High }

// leaveOut makes the band of each step without those of its kind.
func (d *data) leaveOut(kind func(step) string) []trial {
	var out []trial
	for _, s := range d.steps {
		if s.fresh {
			continue
		}
		t := d.fit(func(other step) bool { return kind(other) != kind(s) })
		out = append(out, trial{s, kind(s), t.Band(d.sum(t, s))})
	}
	return out
}

// perKernel are the least and the most time that starting a kernel took in the steps that it bounds, by the chip's
// generation and by workload, seconds.
func (d *data) perKernel(t pace.Table) (byGeneration map[int][2]float64, byWorkload map[string][2]float64) {
	byGeneration, byWorkload = map[int][2]float64{}, map[string][2]float64{}
	for _, s := range d.steps {
		if !launching[s.workload] || s.fresh {
			continue
		}
		sum := d.sum(t, s)
		took := (s.seconds - t.Wait.Mid*sum.Waits) / sum.Kernels
		byGeneration[s.rates.Generation] = widened(byGeneration[s.rates.Generation], took)
		byWorkload[s.workload] = widened(byWorkload[s.workload], took)
	}
	return byGeneration, byWorkload
}

func widened(r [2]float64, x float64) [2]float64 {
	if r == [2]float64{} {
		return [2]float64{x, x}
	}
	return [2]float64{min(r[0], x), max(r[1], x)}
}

// sameGeneration is leaveOut for the steps that starting bounds, the band made from chips of one generation alone.
func (d *data) sameGeneration(kind func(step) string) []trial {
	var out []trial
	for _, s := range d.steps {
		if s.fresh || !launching[s.workload] {
			continue
		}
		t := d.fit(func(other step) bool {
			return kind(other) != kind(s) && (!launching[other.workload] ||
				other.rates.Generation == s.rates.Generation)
		})
		out = append(out, trial{s, kind(s), t.Band(d.sum(t, s))})
	}
	return out
}

func source(s step) string { return s.source }
func chip(s step) string   { return s.chip }

type holds struct{ bySource, byChip, byWorkload, within, fresh, calls []trial }

func (d *data) held(t pace.Table) holds {
	h := holds{bySource: d.leaveOut(source), byChip: d.leaveOut(chip),
		byWorkload: d.leaveOut(func(s step) string { return s.workload })}
	for _, s := range d.steps {
		if x := (trial{s, "", t.Band(d.sum(t, s))}); s.fresh {
			h.fresh = append(h.fresh, x)
		} else {
			h.within = append(h.within, x)
		}
	}
	for _, s := range d.calls {
		sum := d.sum(t, s)
		sum.Waits++ // each is waited for
		h.calls = append(h.calls, trial{s, "", t.Band(sum)})
	}
	return h
}

// count says how many figures were held, each, and of how many groups most of the figures.
func count(trials []trial) (held, n, groupsHeld, groups int) {
	byGroup := map[string][2]int{}
	for _, t := range trials {
		g := byGroup[t.group()]
		g[1]++
		if t.held() {
			held++
			g[0]++
		}
		byGroup[t.group()] = g
	}
	for _, g := range byGroup {
		if 2*g[0] > g[1] {
			groupsHeld++
		}
	}
	return held, len(trials), groupsHeld, len(byGroup)
}
