// Overhead measures what assay adds to a training step.
//
//	go run ./tools/overhead [--python PATH] [--assay PATH] [--device cpu|cuda|mps] [--net NET] [--loops LIST] …
//
// The same script (step.py, beside this file) runs bare, under `assay run --profile=off`, under `assay run`, under
// torch.profiler from the first step to the last and, where --peer names a virtual environment with TraceML, under
// `traceml run`. The script times its own steps, so that one clock serves every variant. Rounds go forwards and
// backwards in turn (ABCD DCBA), so that a machine that warms up or slows down does so for all. Each ratio is over the
// bare run of the same round; the interval is a bootstrap over rounds.
//
// Beside that stands what assay says of itself: the steady step that its evidence gives, over the bare one, and whether
// the interval that it prints for its own cost holds the difference that was seen from outside.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/stats"
)

//go:embed step.py
var stepScript []byte

// floorSource is the least that a static Go binary can do: what is left of a start-up is the system's and the
// runtime's.
const floorSource = "package main\n\nfunc main() {}\n"

type options struct {
	python, assay, device, peer, json string
	net                               string
	loops, tools                      []string
	pairs, starts, steps, batch       int
	targets                           []float64 // milliseconds
}

func main() {
	var opts options
	targets := flag.String("targets", "2,50", "wanted step times, in `milliseconds`")
	flag.StringVar(&opts.python, "python", "python3", "`path` of a Python with PyTorch")
	flag.StringVar(&opts.assay, "assay", "", "`path` of the binary; default: built from this checkout")
	flag.StringVar(&opts.device, "device", "cpu", "device to train on: cpu, cuda or mps")
	flag.StringVar(&opts.net, "net", "line", "network: line or resnet, whose many small kernels wait for their launch")
	flag.IntVar(&opts.batch, "batch", 0, "`samples` of a step; default: by device")
	loops := flag.String("loops", "loader", "kinds of loop: loader, list, generator, forever, hand, two")
	tools := flag.String("tools", "", "names of what is run beside the bare script; default: all")
	flag.StringVar(&opts.peer, "peer", "", "virtual environment, a `folder`, with PyTorch and traceml-ai")
	flag.IntVar(&opts.pairs, "pairs", 10, "`rounds`: each gives every variant one pair with the bare run")
	flag.IntVar(&opts.starts, "starts", 40, "`runs` of each binary whose start-up is timed; 0 for none")
	flag.IntVar(&opts.steps, "steps", 0, "`steps` of a run; default: as many as last five seconds, 100 at least")
	flag.StringVar(&opts.json, "json", "", "`file` for every run's figures")
	flag.Parse()
	comma := func(r rune) bool { return r == ',' }
	opts.loops, opts.tools = strings.FieldsFunc(*loops, comma), strings.FieldsFunc(*tools, comma)
	for _, word := range strings.FieldsFunc(*targets, comma) {
		ms, err := strconv.ParseFloat(word, 64)
		if err != nil || !(ms > 0) {
			fmt.Fprintf(os.Stderr, "overhead: --targets %s: numbers above 0, separated by commas\n", *targets)
			os.Exit(2)
		}
		opts.targets = append(opts.targets, ms)
	}
	if opts.pairs < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "overhead: --pairs is 1 at least, and there are no arguments beside the flags")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, opts, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// A measured run of step.py. Times in seconds.
type measured struct {
	Variant string  `json:"variant"`
	Round   int     `json:"round"`
	Median  float64 `json:"median"` // of blocks of steps: the steady step
	Mean    float64 `json:"mean"`   // with what a tool does only now and then
	Wall    float64 `json:"wall"`   // of the whole process, from outside
	Loss    string  `json:"loss"`   // of the last step, to the last bit
	Missing string  `json:"missing,omitempty"`
	Torch   string  `json:"torch,omitempty"`
	Device  string  `json:"device,omitempty"`
	Told    *told   `json:"told,omitempty"`
}

// told is what assay says of the run that it watched. Seconds, and shares of the step.
type told struct {
	Step  float64 `json:"step"`  // step.time
	Share float64 `json:"share"` // agent.share
	Low   float64 `json:"low"`   // its interval
	High  float64 `json:"high"`
	Basis string  `json:"basis"` // measured, or derived where the run was too short for that
}

// An interval is a median over rounds, with a 95 % bootstrap interval around it.
type interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	N      int     `json:"n"`
}

type comparison struct {
	Variant  string    `json:"variant"`
	Median   *interval `json:"median,omitempty"` // ratio of the steady steps
	Mean     *interval `json:"mean,omitempty"`   // ratio of the mean steps
	Extra    *interval `json:"extra,omitempty"`  // seconds of wall time over the bare run
	Step     *interval `json:"step,omitempty"`   // ratio of the step that assay gives to the steady one of the bare run
	Share    *interval `json:"share,omitempty"`  // what assay says that it cost
	Measured int       `json:"measured"`         // runs in which it measured that
	Holds    int       `json:"holds"`            // of these, runs whose interval holds the mean step's ratio, less 1
	SameLoss bool      `json:"same_loss"`
	Missing  string    `json:"missing,omitempty"`
}

type workload struct {
	Net      string       `json:"net"`
	Loop     string       `json:"loop"`
	TargetMS float64      `json:"target_ms"`
	Width    int          `json:"width"`
	Steps    int          `json:"steps"`
	Bare     float64      `json:"bare"` // median over rounds of the steady step, in seconds
	Ratios   []comparison `json:"ratios"`
	Runs     []measured   `json:"runs"`
}

type startup struct {
	Name   string  `json:"name"`
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	N      int     `json:"n"`
}

type record struct {
	Machine   string     `json:"machine"`
	Device    string     `json:"device"`
	Torch     string     `json:"torch"`
	Assay     string     `json:"assay"`
	Pairs     int        `json:"pairs"`
	Workloads []workload `json:"workloads"`
	Startup   []startup  `json:"startup"`
}

type variant struct {
	name    string
	command func(script, out string, args []string) []string
}

func variants(opts options) []variant {
	list := []variant{
		{"bare", func(script, _ string, args []string) []string {
			return append([]string{opts.python, script},
				args...)
		}},
		{"assay --profile=off", func(script, out string, args []string) []string {
			return append([]string{opts.assay, "run", "--profile=off", "--quiet", "--out", out, "--", opts.python,
				script}, args...)
		}},
		{"assay", func(script, out string, args []string) []string {
			return append([]string{opts.assay, "run", "--quiet", "--out", out, "--", opts.python, script}, args...)
		}},
		{"torch.profiler", func(script, _ string, args []string) []string {
			return append([]string{opts.python, script, "--profiler"}, args...)
		}},
	}
	if opts.peer != "" {
		list = append(list, variant{"traceml", func(script, out string, args []string) []string {
			command := []string{filepath.Join(opts.peer, "bin", "traceml"), "run", script, "--logs-dir", out,
				"--run-name", "run", "--args", "--traceml"}
			return append(command, args...)
		}})
	}
	return slices.DeleteFunc(list, func(v variant) bool {
		return v.name != "bare" && len(opts.tools) > 0 && !slices.Contains(opts.tools, v.name)
	})
}

func run(ctx context.Context, opts options, stdout, stderr io.Writer) error {
	folder, err := os.MkdirTemp("", "assay-overhead-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	script := filepath.Join(folder, "step.py")
	if err := os.WriteFile(script, stepScript, 0o644); err != nil {
		return err
	}
	if opts.assay == "" {
		opts.assay = filepath.Join(folder, "assay")
		if err := build(ctx, opts.assay, "assay/cmd/assay"); err != nil {
			return err
		}
	}
	if opts.python, err = exec.LookPath(opts.python); err != nil {
		return err
	}
	// Tools run in a folder of their own: relative paths would lead elsewhere.
	for _, path := range []*string{&opts.python, &opts.assay, &opts.peer} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}

	rec := record{Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Pairs: opts.pairs}
	if out, err := exec.CommandContext(ctx, opts.assay, "version").Output(); err == nil {
		rec.Assay, _, _ = strings.Cut(string(out), "\n")
	}
	for _, target := range opts.targets {
		args := []string{"--device", opts.device, "--net", opts.net}
		if opts.batch > 0 {
			args = append(args, "--batch", strconv.Itoa(opts.batch))
		}
		fmt.Fprintf(stderr, "step of %g ms: calibrating\n", target)
		calibrate := append([]string{opts.python, script, "--target-ms", fmt.Sprint(target)}, args...)
		out, err := output(ctx, folder, calibrate...)
		if err != nil {
			return fmt.Errorf("step of %g ms: %w", target, err)
		}
		for _, loop := range opts.loops {
			w := &workload{Net: opts.net, Loop: loop, TargetMS: target}
			if err := lastObject(out, w); err != nil {
				return fmt.Errorf("step of %g ms: %w", target, err)
			}
			if err := w.measure(ctx, opts, folder, script, args, stderr); err != nil {
				return fmt.Errorf("step of %g ms, %s: %w", target, loop, err)
			}
			for _, m := range w.Runs {
				if m.Variant == "bare" {
					rec.Torch, rec.Device = m.Torch, m.Device
				}
			}
			rec.Workloads = append(rec.Workloads, *w)
		}
	}
	if opts.starts > 0 {
		if rec.Startup, err = startups(ctx, opts, folder); err != nil {
			return err
		}
	}
	show(stdout, &rec)
	if opts.json == "" {
		return nil
	}
	data, err := json.MarshalIndent(&rec, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(opts.json, append(data, '\n'), 0o644)
}

func build(ctx context.Context, to, from string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, from)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", from, err, out)
	}
	return nil
}

// measure runs a workload in every variant, round after round.
func (w *workload) measure(ctx context.Context, opts options, folder, script string, args []string,
	stderr io.Writer) error {
	w.Steps = opts.steps
	if w.Steps == 0 {
		w.Steps = max(100, int(5000/w.TargetMS)/10*10)
	}
	args = append(slices.Clip(args), "--loop", w.Loop, "--width", strconv.Itoa(w.Width), "--steps",
		strconv.Itoa(w.Steps))
	list := variants(opts)
	for round := range opts.pairs {
		for _, i := range order(len(list), round) {
			v := list[i]
			m := measured{Variant: v.name, Round: round}
			kept := filepath.Join(folder, fmt.Sprintf("out-%g-%s-%d-%d", w.TargetMS, w.Loop, round, i))
			command := v.command(script, kept, args)
			started := time.Now()
			out, err := output(ctx, folder, command...)
			m.Wall = time.Since(started).Seconds()
			if err == nil {
				err = lastObject(out, &m)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				m = measured{Variant: v.name, Round: round, Missing: err.Error()}
			}
			m.Told = readTold(filepath.Join(kept, "evidence.json"))
			w.Runs = append(w.Runs, m)
			fmt.Fprintf(stderr, "%s, step of %g ms, %s: round %d of %d: %s: %s\n", w.Net, w.TargetMS, w.Loop, round+1,
				opts.pairs, v.name, brief(m))
		}
	}
	w.Bare, w.Ratios = compare(list, w.Runs)
	return nil
}

// readTold reads what a run's evidence says of the step and of assay's cost; nil where it says nothing.
func readTold(file string) *told {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil
	}
	step, share := run.Figure("step.time"), run.Figure("agent.share")
	if !step.Known() || !share.Known() {
		return nil
	}
	t := &told{Step: *step.Value, Share: *share.Value, Low: *share.Value, High: *share.Value,
		Basis: string(share.Basis)}
	if share.Low != nil && share.High != nil {
		t.Low, t.High = *share.Low, *share.High
	}
	return t
}

func brief(m measured) string {
	if m.Missing != "" {
		return m.Missing
	}
	text := fmt.Sprintf("median %.3f ms, mean %.3f ms, wall %.1f s", m.Median*1e3, m.Mean*1e3, m.Wall)
	if t := m.Told; t != nil {
		text += fmt.Sprintf("; told %.3f ms, cost %.2f %% [%.2f, %.2f] %s", t.Step*1e3, t.Share*100, t.Low*100,
			t.High*100, t.Basis)
	}
	return text
}

// order of the variants in a round: forwards, then backwards.
func order(n, round int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

// output runs a command in the folder and returns what it printed on standard output.
func output(ctx context.Context, dir string, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(command[0]), err, lines[len(lines)-1])
	}
	return stdout.Bytes(), nil
}

// lastObject decodes the last line that is a JSON object: tools may print before and after the script.
func lastObject(out []byte, into any) error {
	lines := bytes.Split(out, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		if bytes.HasPrefix(line, []byte("{")) {
			return json.Unmarshal(line, into)
		}
	}
	return errors.New("the script printed no figures")
}

// compare pairs each run with the bare one of its round.
func compare(list []variant, runs []measured) (float64, []comparison) {
	bare := map[int]measured{}
	var steady []float64
	for _, m := range runs {
		if m.Variant == "bare" && m.Missing == "" {
			bare[m.Round] = m
			steady = append(steady, m.Median)
		}
	}
	var all []comparison
	for _, v := range list {
		if v.name == "bare" {
			continue
		}
		c := comparison{Variant: v.name, SameLoss: true}
		var median, mean, extra, step, share []float64
		for _, m := range runs {
			b, ok := bare[m.Round]
			if m.Variant != v.name || !ok {
				continue
			}
			if m.Missing != "" {
				c.Missing = m.Missing
				continue
			}
			median, mean, extra = append(median, m.Median/b.Median), append(mean, m.Mean/b.Mean),
				append(extra, m.Wall-b.Wall)
			c.SameLoss = c.SameLoss && m.Loss == b.Loss
			if t := m.Told; t != nil {
				step, share = append(step, t.Step/b.Median), append(share, t.Share)
				if t.Basis == string(evidence.Measured) {
					c.Measured++
					if outside := m.Mean/b.Mean - 1; t.Low <= outside && outside <= t.High {
						c.Holds++
					}
				}
			}
		}
		if len(median) > 0 {
			c.Median, c.Mean, c.Extra = bootstrap(median), bootstrap(mean), bootstrap(extra)
			if len(step) > 0 {
				c.Step, c.Share = bootstrap(step), bootstrap(share)
			}
		} else if c.Missing == "" {
			c.Missing = "no bare run to compare with"
		}
		all = append(all, c)
	}
	return stats.Median(steady), all
}

// bootstrap gives the median and the 2.5th and 97.5th percentiles of the medians of 10000 resamples. The seed is fixed.
func bootstrap(xs []float64) *interval {
	random := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, 10000)
	sample := make([]float64, len(xs))
	for i := range medians {
		for j := range sample {
			sample[j] = xs[random.IntN(len(xs))]
		}
		medians[i] = stats.Median(sample)
	}
	slices.Sort(medians)
	return &interval{Median: stats.Median(xs), Low: medians[249], High: medians[9749], N: len(xs)}
}

// startups times `assay version` beside a Go program that does nothing and /bin/true, in turn.
func startups(ctx context.Context, opts options, folder string) ([]startup, error) {
	source, floor := filepath.Join(folder, "floor.go"), filepath.Join(folder, "floor")
	if err := os.WriteFile(source, []byte(floorSource), 0o644); err != nil {
		return nil, err
	}
	if err := build(ctx, floor, source); err != nil {
		return nil, err
	}
	list := []struct {
		name    string
		command []string
	}{{"assay version", []string{opts.assay, "version"}}, {"empty Go program", []string{floor}},
		{"true", []string{"true"}}}
	times := make([][]float64, len(list))
	for round := range opts.starts + 1 {
		for _, i := range order(len(list), round) {
			cmd := exec.CommandContext(ctx, list[i].command[0], list[i].command[1:]...)
			started := time.Now()
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("start %s: %w", list[i].name, err)
			}
			if round > 0 { // the first reads the file from disk
				times[i] = append(times[i], time.Since(started).Seconds())
			}
		}
	}
	all := make([]startup, len(list))
	for i, l := range list {
		s := stats.Summarize(times[i])
		all[i] = startup{Name: l.name, Min: s.Min, Median: s.Median, N: s.N}
	}
	return all, nil
}

func show(w io.Writer, rec *record) {
	fmt.Fprintf(w, "%s; device %s; PyTorch %s; %s; %d rounds\n", rec.Machine, rec.Device, rec.Torch, rec.Assay,
		rec.Pairs)
	for _, l := range rec.Workloads {
		fmt.Fprintf(w, "\n%s, %s: step of %.3g ms bare (wanted %g; width %d, %d steps)\n", l.Net, l.Loop, l.Bare*1e3,
			l.TargetMS, l.Width, l.Steps)
		fmt.Fprintf(w, "  %-20s  %-24s  %-24s  %-22s  %s\n", "", "steady step / bare", "mean step / bare",
			"wall − bare", "last loss")
		for _, c := range l.Ratios {
			if c.Median == nil {
				fmt.Fprintf(w, "  %-20s  missing: %s\n", c.Variant, c.Missing)
				continue
			}
			loss := "same"
			if !c.SameLoss {
				loss = "DIFFERS"
			}
			if c.Missing != "" {
				loss += fmt.Sprintf("  (%d of %d rounds: %s)", c.Median.N, rec.Pairs, c.Missing)
			}
			fmt.Fprintf(w, "  %-20s  %-24s  %-24s  %-22s  %s\n", c.Variant, ratio(c.Median), ratio(c.Mean),
				seconds(c.Extra), loss)
			if c.Step != nil {
				fmt.Fprintf(w, "  %-20s  %-24s  cost %s, measured in %d of %d runs, and held from outside in %d\n", "    it says",
					ratio(c.Step), ratio(c.Share), c.Measured, c.Share.N, c.Holds)
			}
		}
	}
	if len(rec.Startup) > 0 {
		fmt.Fprintf(w, "\nstart-up, %d runs each\n", rec.Startup[0].N)
		for _, s := range rec.Startup {
			fmt.Fprintf(w, "  %-20s  min %.2f ms   median %.2f ms\n", s.Name, s.Min*1e3, s.Median*1e3)
		}
	}
}

func ratio(i *interval) string { return fmt.Sprintf("%.3f  [%.3f, %.3f]", i.Median, i.Low, i.High) }

func seconds(i *interval) string {
	return fmt.Sprintf("%+.1f s  [%+.1f, %+.1f]", i.Median, i.Low, i.High)
}
