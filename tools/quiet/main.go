// Quiet measures what busy programs beside a training do to its step, and whether assay sees them.
//
//	go run ./tools/quiet --python PATH [--assay PATH] [--rounds N] [--busy 0,1,2,6,20] [-- ARG…]
//
// Each round runs examples/digits (or the script after --) under `assay run --on cpu` once with each number of busy
// loops beside it, in an order that turns round from one to the next. It prints a row for each run, and then for each
// number the medians: the step, its ratio to the quietest number's, and what the evidence says of the others.
// docs/quiet.md has a table of it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/stats"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "busy" {
		for parent := os.Getppid(); os.Getppid() == parent; { // it does not outlive its parent
			for range 1 << 28 {
			}
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type row struct{ step, others, lost, found float64 }

func run() error {
	python := flag.String("python", "python3", "`path` of an interpreter with torch")
	assay := flag.String("assay", "assay", "`path` of assay")
	rounds := flag.Int("rounds", 5, "`number` of rounds")
	list := flag.String("busy", "0,1,2,6,20", "`numbers` of busy loops")
	flag.Parse()
	command := flag.Args()
	if len(command) == 0 {
		command = []string{"examples/digits/train.py", "--epochs", "8", "--device", "cpu"}
	}
	var counts []int
	for word := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return fmt.Errorf("--busy %s: numbers joined by commas", *list)
		}
		counts = append(counts, n)
	}
	dir, err := os.MkdirTemp("", "assay-quiet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := map[int][]row{}
	fmt.Printf("%s/%s, %d processors\nbusy\tstep ms\tothers\tlost\tload\tfindings\n", runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU())
	for round := range *rounds {
		order := slices.Clone(counts)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, n := range order {
			r, found, err := measure(*assay, *python, filepath.Join(dir, fmt.Sprint(round, "-", n)), n, command)
			if err != nil {
				return err
			}
			load, _ := os.ReadFile("/proc/loadavg")
			first, _, _ := strings.Cut(string(load), " ")
			fmt.Printf("%d\t%.2f\t%.2f\t%.3f\t%s\t%s\n", n, 1e3*r.step, r.others, r.lost, first, found)
			all[n] = append(all[n], r)
		}
	}
	median := func(n int, of func(row) float64) float64 {
		var xs []float64
		for _, r := range all[n] {
			xs = append(xs, of(r))
		}
		return stats.Median(xs)
	}
	base := median(counts[0], func(r row) float64 { return r.step })
	fmt.Println("\n| busy loops | median step | ratio | processors that others had | lost | marked |\n| --- | --- | --- | --- | --- | --- |")
	for _, n := range counts {
		marked := 0
		for _, r := range all[n] {
			marked += int(r.found)
		}
		step := median(n, func(r row) float64 { return r.step })
		fmt.Printf("| %d | %.1f ms | %.2f | %.2f | %.0f %% | %d of %d |\n", n, 1e3*step, step/base,
			median(n, func(r row) float64 { return r.others }),
			100*median(n, func(r row) float64 { return r.lost }), marked, len(all[n]))
	}
	return nil
}

// measure runs the training once beside n busy loops.
func measure(assay, python, out string, n int, command []string) (r row, found string, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, "", err
	}
	for range n {
		busy := exec.Command(self, "busy")
		busy.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := busy.Start(); err != nil {
			return r, "", err
		}
		defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	}
	time.Sleep(time.Second) // the load average and the scheduler follow
	args := append([]string{"run", "-q", "--on", "cpu", "--profile=off", "--logbook", "off", "--out", out, "--",
		python}, command...)
	if said, err := exec.Command(assay, args...).CombinedOutput(); err != nil {
		return r, "", fmt.Errorf("%v: %w\n%s", args, err, said)
	}
	data, err := os.ReadFile(filepath.Join(out, "evidence.json"))
	var run evidence.Run
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	if err != nil {
		return r, "", err
	}
	value := func(name string) float64 {
		if f := run.Figure(name); f.Known() {
			return *f.Value
		}
		return -1
	}
	r = row{value("step.time"), value("host.cpu.others.mean"), value("host.cpu.lost"), 0}
	if run.Figure("step.time").Disturbed != "" {
		r.found = 1
	}
	for _, f := range run.Findings {
		found += f.Name + " "
	}
	return r, found, nil
}
