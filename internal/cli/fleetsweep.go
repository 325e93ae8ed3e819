package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/launch"
	"assay/internal/node"
	"assay/internal/probe"
	"assay/internal/secret"
	"assay/internal/sweep"
	"assay/internal/target"
	"assay/internal/text"
)

func newFleetSweep(env *Env) *cobra.Command {
	opts := fleetOptions{}
	s := sweepOptions{asked: target.Words{On: target.Auto}, from: 1, multiple: 1, forTime: "10m"}
	each := "chip"
	cmd := &cobra.Command{
		Use:   "sweep [flags] -- COMMAND [ARG…]",
		Short: "Find the largest batch that trains, on each distinct Mac of a pool",
		Long: `Runs the search of assay sweep on several hosts at once: on one of each chip and memory (--each chip), or on each (--each host). Every trial is a run of
the queue on that host; which batch comes next, and the answers, are those of assay sweep, and each search has a folder of its own.

The batch gets into COMMAND by {} or --set-env. What was tried is kept: the same command again goes on where it was stopped.

Exit status: 0 where the largest batch was found on each, 3 where none fits on one, 4 where it is not known on one, 1 where a trial failed otherwise or no
host could be reached, 2 where the command line is wrong.`,
		Example: `  assay fleet sweep -- python train.py --batch {}
  assay fleet sweep --each host --set-env BATCH --multiple 8 -- python train.py`,
		Args: cobra.ArbitraryArgs,
	}
	opts.common(cmd)
	f := cmd.Flags()
	f.StringVar(&each, "each", each, "search on one host of each `chip`, or on each host: chip, host")
	f.IntVar(&s.from, "from", s.from, "smallest batch to try, `rows`")
	f.IntVar(&s.to, "to", 0, "largest batch to try, `rows`; default as far as it goes")
	f.IntVar(&s.multiple, "multiple", s.multiple, "try multiples of so many `rows` alone")
	f.IntVar(&s.first, "first", 0, "batch to begin with, `rows`; default 8")
	f.StringVar(&s.environ, "set-env", "", "environment `variable` that takes the batch")
	f.IntVar(&s.steps, "steps", 0, fmt.Sprintf("training `steps` of a trial; default %d", trialSteps))
	f.StringVar(&s.forTime, "for", s.forTime, "end a trial after this `time`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.retriesSaid = cmd.Flags().Changed("retries")
		if each != "chip" && each != "host" {
			return fleetSweepUsage("--each %s: chip or host", each)
		}
		return runFleetSweep(cmd.Context(), env, opts, s, each, args)
	}
	return cmd
}

func fleetSweepUsage(format string, a ...any) error {
	return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay fleet sweep --help"), fault.Usage)
}

// fanned is the search on one host.
type fanned struct {
	host   string
	what   string // the Mac that it is
	folder string
	doc    *sweep.Document
	err    error
}

func runFleetSweep(ctx context.Context, env *Env, opts fleetOptions, s sweepOptions, each string, args []string) error {
	like, err := opts.like()
	if err != nil {
		return err
	}
	if opts.device == "double" {
		return fleetSweepUsage("--device double: rehearse here, with assay sweep --on double")
	}
	s.asked.On, s.logbook = opts.device, opts.logbook
	p, plan, seconds, _, err := s.plan(args)
	if err != nil {
		return err
	}
	if p.byAgent {
		return fleetSweepUsage("how does the batch get into the command? Write {} in it, or name a variable with " +
			"--set-env")
	}
	if isRay(opts.on) {
		return fleetSweepUsage("--on %s: a search is made on a host, and Ray chooses its own", opts.on)
	}
	pool, err := openPool(env, opts)
	if err != nil {
		return err
	}
	one := []fleet.Task{like}
	one[0].Command = args
	if _, err := withCode(ctx, env, opts, one); err != nil {
		return fault.Exit(err, fault.Failed)
	}
	chosen, err := sweepHosts(ctx, env, opts, pool, one[0], each)
	if err != nil {
		return err
	}
	name := opts.queue
	if name == "" {
		name = queueName(args, []any{"sweep", plan, like, scriptSum(env, args), opts.on})
	}
	d, err := openDriver(ctx, env, opts, pool, name)
	if err != nil {
		return err
	}
	d.queue.Hold(true)
	var wg, driving sync.WaitGroup
	var driven error
	over := make(chan struct{}) // the engine has ended: no trial will
	driving.Go(func() { driven = d.drive(ctx); close(over) })
	on, _ := target.Sweep.Parse(s.asked)
	for _, f := range chosen {
		asked := sweep.Asked{Command: secret.Words(args), Script: scriptSum(env, args), Environ: s.environ,
			Target: evidenceTarget(on), For: seconds, Plan: plan}
		f.folder = env.Path(filepath.Join(sweepsFolder, sweepName(env, args, asked)+"-"+f.host))
		wg.Go(func() {
			t := trials{d: d, like: one[0], place: p, host: f.host, seconds: s.forTime, over: over}
			f.doc, f.err = sweep.Run(sweep.Options{Asked: asked, Folder: f.folder, Subject: evidence.Subject{
				Kind: "command", Command: asked.Command, Dir: env.Dir}, Version: Version(), Now: env.Now, Try: t.try,
				High: highWatermark(env), Begin: func(number, about int, ask sweep.Ask) {
					d.screen.say(fmt.Sprintf("%s: trial %d of about %d: batch %s, %s", f.host, number, about,
						batchWord(ask.Batch), ask.Why))
				}})
		})
	}
	wg.Wait()
	d.queue.Hold(false)
	driving.Wait()
	if err := errors.Join(driven, d.close(), sweepSnapshots(env)); err != nil {
		return fault.Exit(err, fault.Failed)
	}
	return fannedEnd(ctx, env, s, d, chosen)
}

// sweepHosts chooses the hosts to search on, of those that can have the command.
func sweepHosts(ctx context.Context, env *Env, opts fleetOptions, pool *fleet.Hosts, t fleet.Task,
	each string) ([]*fanned,
	error) {
	var chosen []*fanned
	seen := map[string]string{}
	var whys []string
	for _, v := range askPool(ctx, env, pool, opts.paths) {
		placed := fleet.Place([]fleet.Task{t}, []fleet.View{v}, func(string) map[string]bool { return nil }, nil)[0]
		if placed.Host == "" {
			whys = append(whys, v.Name+": "+placed.Why)
			fmt.Fprintf(env.Stderr, "fleet: not on %s: %s\n", text.Line(v.Name), text.Short(placed.Why, 400))
			continue
		}
		chip, _ := v.Chip()
		mac := fmt.Sprintf("%s, %d", chip, v.Facts.Memory>>30)
		if other := seen[mac]; each == "chip" && chip != "" && other != "" {
			fmt.Fprintf(env.Stderr, "fleet: not on %s: it is the same Mac as %s (--each host searches on both)\n",
				text.Line(v.Name), text.Line(other))
			continue
		}
		seen[mac] = v.Name
		chosen = append(chosen, &fanned{host: v.Name, what: fleet.Describe(v)})
	}
	if len(chosen) == 0 {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("no host can have it: %s", strings.Join(whys, "; ")),
			"see: assay fleet doctor"), fault.Failed)
	}
	return chosen, nil
}

// fannedEnd prints what was found on each host, records it, and says how it ended.
func fannedEnd(ctx context.Context, env *Env, s sweepOptions, d *driver, chosen []*fanned) error {
	var worst error
	worse := map[int]int{fault.OK: 0, fault.GateFailed: 1, fault.CannotTell: 2, fault.Failed: 3}
	code := fault.OK
	for i, f := range chosen {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		fmt.Fprintf(env.Stdout, "%s: %s\n", text.Line(f.host), text.Line(f.what))
		err := f.err
		if f.doc != nil {
			shown := shortPath(env, f.folder)
			if e := keepSweepPage(f.folder, f.doc); e != nil {
				err = errors.Join(err, e)
			}
			recordSweep(ctx, env, s, f.doc, shown)
			var out bytes.Buffer
			if e := showSweep(&out, f.doc); e != nil {
				err = errors.Join(err, e)
			}
			if _, e := env.Stdout.Write(out.Bytes()); e != nil {
				err = errors.Join(err, e)
			}
			fmt.Fprintf(env.Stderr, "sweep: %s\n", text.Line(filepath.Join(shown, sweepPage)))
			if err == nil {
				err = sweepStatus(f.doc, shown)
			}
		}
		var quiet status
		switch {
		case err == nil:
			continue
		case errors.As(err, &quiet):
			if worse[int(quiet)] > worse[code] {
				code, worst = int(quiet), err
			}
		default:
			fmt.Fprintf(env.Stdout, "%s: %s\n", text.Line(f.host), text.Lines(err.Error()))
			if hint := fault.HintOf(err); hint != "" {
				fmt.Fprintf(env.Stdout, "  %s\n", text.Lines(hint))
			}
			code, worst = fault.Failed, status(fault.Failed)
		}
	}
	if d.stopped != nil {
		return status(128 + int(d.stopped.(syscall.Signal)))
	}
	return worst
}

// trials makes the trials of one host, each a run of the queue.
type trials struct {
	d       *driver
	like    fleet.Task
	place   place
	host    string
	seconds string
	over    <-chan struct{}
}

func (t trials) try(number int, ask sweep.Ask) (sweep.Seen, error) {
	task := t.like
	bare := *t.d.env
	bare.Environ = nil
	task.Command, task.Set = t.place.fill(&bare, ask)
	task.Host = t.host
	task.Flags = append(append([]string{}, task.Flags...), "--profile=off", fmt.Sprintf("--steps=%d", ask.Steps),
		"--for="+t.seconds)
	for again := 1; ; again++ {
		task.Name = fmt.Sprintf("%s-%03d-batch-%d", t.host, number, ask.Batch)
		if again > 1 {
			task.Name += fmt.Sprintf(".%d", again)
		}
		r, known := t.row(task.Name)
		if known && (r.Phase == fleet.Cancelled || r.Phase == fleet.Lost) {
			continue // of an earlier time: once more, under another name
		}
		if err := t.d.queue.Add(task); err != nil {
			return sweep.Seen{}, err
		}
		return t.await(task.Name)
	}
}

func (t trials) row(name string) (fleet.Row, bool) {
	for _, r := range t.d.queue.Rows() {
		if r.Task.Name == name {
			return r, true
		}
	}
	return fleet.Row{}, false
}

// await waits for a trial's run to end and to come home.
func (t trials) await(name string) (sweep.Seen, error) {
	for {
		changed := t.d.queue.Changed()
		r, _ := t.row(name)
		switch {
		case fleet.Final(r.Phase) && r.Phase != fleet.Done && r.Phase != fleet.Failed:
			return sweep.Seen{}, fmt.Errorf("the trial on %s: %s%s", t.host, phaseWords[r.Phase], why(r))
		case r.Phase == fleet.Failed && r.State.Error != "":
			return sweep.Seen{}, fmt.Errorf("the trial on %s: %s", t.host, r.Why)
		case fleet.Final(r.Phase) && r.Home:
			return t.seen(r)
		}
		select {
		case <-changed:
		case <-t.over:
			return sweep.Seen{}, fmt.Errorf("the search on %s was stopped; the same command goes on", t.host)
		case <-time.After(time.Second):
		}
	}
}

func (t trials) seen(r fleet.Row) (sweep.Seen, error) {
	folder := t.d.queue.Folder(r.Attempt)
	run, _, err := probe.Load(folder)
	if err != nil {
		return sweep.Seen{}, err
	}
	s := sweep.Seen{Run: run, Tail: tailOf(filepath.Join(folder, node.Stderr)), Folder: r.Attempt,
		Interrupted: t.d.stopped != nil}
	if r.State.Exit != nil {
		s.Exit = *r.State.Exit
	}
	for n := syscall.Signal(1); r.State.Signal != "" && n < 32; n++ {
		if launch.SignalName(n) == r.State.Signal {
			s.Signal = n
		}
	}
	return s, nil
}

// tailOf is the end of a file, "" where it cannot be read.
func tailOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(info.Size(), saidKept))
	n, _ := f.ReadAt(b, info.Size()-int64(len(b)))
	return string(b[:n])
}
