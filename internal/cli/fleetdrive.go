package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/text"
	"assay/internal/unit"
)

// runFleet is `assay fleet run`.
func runFleet(ctx context.Context, env *Env, opts fleetOptions, args []string) error {
	tasks, err := opts.tasks(env, args)
	if err != nil {
		return err
	}
	pool, err := openPool(env, opts)
	if err != nil {
		return err
	}
	code, err := withCode(ctx, env, opts, tasks)
	if err != nil {
		return fault.Exit(err, fault.Failed)
	}
	if isRay(opts.on) && (opts.dryRun || opts.fits) {
		return fleetUsage("--dry-run and --fits ask hosts, and over Ray there are none to ask")
	}
	if opts.fits {
		if err := foresee(ctx, env, opts, pool, tasks); err != nil {
			return err
		}
	}
	if opts.dryRun {
		return dryRun(ctx, env, opts, pool, tasks)
	}
	name, err := queueFor(env, opts, args, tasks)
	if err != nil {
		return err
	}
	d, err := openDriver(ctx, env, opts, pool, name)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if err := d.queue.Add(t); err != nil {
			return errors.Join(fault.Exit(err, fault.Usage), d.close())
		}
	}
	if older := d.queue.Codes(); code != "" && len(older) > 0 && (len(older) > 1 || !older[code]) {
		d.screen.say("the code is another than when this queue was begun: its runs keep that; --queue NAME begins " +
			"another")
	}
	err = d.drive(ctx)
	if e := errors.Join(d.close(), sweepSnapshots(env)); err == nil && e != nil {
		err = e
	}
	rows := d.queue.Rows()
	if opts.json {
		if e := writeFleetJSON(env.Stdout, d.queue, rows); err == nil {
			err = e
		}
	} else {
		writeFleetEnd(env.Stdout, rows)
	}
	if err != nil {
		return fault.Exit(err, fault.Failed)
	}
	return d.status(rows)
}

// openPool reads the hosts, and what the command line says over them.
func openPool(env *Env, opts fleetOptions) (*fleet.Hosts, error) {
	pool, err := &fleet.Hosts{Path: opts.on, Lease: fleet.DefaultLease, Retries: fleet.DefaultRetries}, error(nil)
	if !isRay(opts.on) { // Ray knows its own
		if pool, err = readHosts(env, opts.on); err != nil {
			return nil, err
		}
	}
	if opts.lease != "" {
		if pool.Lease, err = fleet.ParseLease(opts.lease); err != nil {
			return nil, fleetUsage("--lease %v", err)
		}
	}
	if opts.retriesSaid {
		if pool.Retries = opts.retries; opts.retries < 0 {
			return nil, fleetUsage("--retries %d: a number from 0", opts.retries)
		}
	}
	if opts.label != "" && !isRay(opts.on) && !slices.ContainsFunc(pool.Hosts, func(h fleet.Host) bool {
		return slices.Contains(h.Labels, opts.label)
	}) {
		return nil, fleetUsage("--label %s: no host of %s has it", opts.label, opts.on)
	}
	return pool, nil
}

// queueFor names the queue of a command line. The same command, script and wishes find theirs again while anything of
// it is left to do, and get a new one when all of it has ended.
func queueFor(env *Env, opts fleetOptions, args []string, tasks []fleet.Task) (string, error) {
	if opts.queue != "" {
		if !fleet.IsName(opts.queue) || opts.queue == "code" {
			return "", fleetUsage("--queue %q: letters, digits, \".\", \"_\" and \"-\", 64 at most", opts.queue)
		}
		if _, err := os.Stat(queueFolder(env, opts.queue)); len(tasks) == 0 && err != nil {
			_, err := chosenQueue(env, opts.queue)
			return "", err
		}
		return opts.queue, nil
	}
	bare := slices.Clone(tasks)
	for i := range bare {
		bare[i].Code, bare[i].Needs.Excluded = "", nil
	}
	base := queueName(args, []any{bare, scriptSum(env, args), opts.on})
	for i := 1; ; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s.%d", base, i)
		}
		q, busy, err := fleet.Read(queueFolder(env, name), runsPath(env))
		if errors.Is(err, os.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if busy || !q.Finished() || len(q.Rows()) == 0 {
			return name, nil
		}
	}
}

// sweepSnapshots removes snapshots that no queue needs any more.
func sweepSnapshots(env *Env) error {
	needed := map[string]bool{}
	names, err := queues(env)
	if err != nil {
		return err
	}
	for _, n := range names {
		q, _, err := fleet.Read(queueFolder(env, n), runsPath(env))
		if err != nil {
			return nil // of a queue that cannot be read it is not known
		}
		maps.Copy(needed, q.Codes())
	}
	folder := env.Path(filepath.Join(fleetFolder, "code"))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // there are none
	}
	for _, e := range entries {
		info, err := e.Info()
		// One that was just made may be another command's, which has not written its queue yet.
		if sum, ok := strings.CutSuffix(e.Name(), ".tar.zst"); !ok || needed[sum] || err != nil ||
			env.Now().Sub(info.ModTime()) < time.Minute {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// driver works a queue off.
type driver struct {
	env      *Env
	opts     fleetOptions
	queue    *fleet.Queue
	engine   fleet.Engine
	abandon  chan struct{}
	stopped  os.Signal
	closeLog func() error
	screen   *fleetScreen
	before   map[string]string // task → its phase when this driver came
}

func openDriver(ctx context.Context, env *Env, opts fleetOptions, pool *fleet.Hosts, name string) (*driver, error) {
	record, closeBook, err := recorder(ctx, env, opts.logbook)
	if err != nil {
		return nil, err
	}
	d := &driver{env: env, opts: opts, abandon: make(chan struct{}), closeLog: closeBook,
		screen: newFleetScreen(env), before: map[string]string{}}
	q, err := fleet.Open(fleet.Options{Folder: queueFolder(env, name), Runs: runsPath(env), Name: name,
		Lease:   pool.Lease,
		Retries: pool.Retries, RetryFailed: opts.retryFailed, Environ: env.Environ,
		HostEnviron: hostEnviron(pool.Hosts), Record: record, Tell: d.screen.tell})
	if err != nil {
		return nil, errors.Join(err, closeBook())
	}
	d.queue = q
	d.screen.queue = q
	for _, r := range q.Rows() {
		d.before[r.Task.Name] = r.Phase
	}
	if isRay(opts.on) {
		d.engine, err = rayEngine(ctx, env, opts, openSnapshot(env), d.screen.say, d.abandon)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		return d, nil
	}
	d.engine = &fleet.SSH{Hosts: pool.Hosts, Dial: dialHost(env), Code: openSnapshot(env), Speed: measuredSpeed(ctx,
		env, opts),
		Leave: opts.leave, Abandon: d.abandon, Say: d.screen.say, Looked: d.screen.looked}
	return d, nil
}

func (d *driver) close() error { return errors.Join(d.queue.Close(), d.closeLog()) }

// drive runs the engine until the queue is worked off, or somebody stops it: asked once, what runs is cancelled; asked
// again, it is left.
func (d *driver) drive(ctx context.Context) error {
	done := 0
	for _, r := range d.queue.Rows() {
		if fleet.Final(r.Phase) {
			done++
		}
	}
	d.screen.say(fmt.Sprintf("queue %s: %s, %d of them ended before", d.queue.Name(), count(len(d.queue.Rows()),
		"run"), done))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		said, at := false, time.Time{}
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				if d.stopped != nil && time.Since(at) < time.Second { // the same one: to us, and to our group
					continue
				}
				if d.stopped != nil {
					close(d.abandon)
					return
				}
				d.stopped, at = s, time.Now()
				if d.opts.leave {
					d.screen.say("stopped: what runs is left to its hosts, which end it when its lease has run out; " +
						"the same command goes on")
				} else {
					d.screen.say("stopping: what runs is cancelled, and the same command goes on with the rest; once " +
						"more leaves at once")
				}
				stop()
			case <-tick.C:
				if err := errors.Join(d.queue.Heed(), d.queue.Post()); err != nil && !said {
					d.screen.say(err.Error())
					said = true
				}
			}
		}
	})
	d.screen.begin()
	err := d.engine.Run(ctx, d.queue)
	close(over)
	wg.Wait()
	d.screen.end()
	return err
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// status is the error that the end of a queue deserves.
func (d *driver) status(rows []fleet.Row) error {
	if d.stopped != nil {
		return status(128 + int(d.stopped.(syscall.Signal)))
	}
	code := fault.OK
	for _, r := range rows {
		switch r.Phase {
		case fleet.Failed:
			code = fault.Failed
		case fleet.Done:
		default:
			if code == fault.OK {
				code = fault.CannotTell
			}
		}
	}
	if away := d.queue.Open(); len(away) > 0 {
		hosts := map[string]bool{}
		var names []string
		for _, s := range away {
			if !hosts[s.Host] {
				hosts[s.Host] = true
				names = append(names, s.Host)
			}
		}
		fmt.Fprintf(d.env.Stderr, "assay: the evidence of %s is still on %s; assay fleet run --queue %s brings it "+
			"when the "+
			"host answers again\n", count(len(away), "run"), text.Line(strings.Join(names, ", ")), d.queue.Name())
		if code == fault.OK {
			code = fault.CannotTell
		}
	}
	if code == fault.OK {
		return nil
	}
	return status(code)
}

// writeFleetEnd says what became of the runs: those that did not end well, and how many did.
func writeFleetEnd(w io.Writer, rows []fleet.Row) {
	shown := 0
	for i, r := range rows {
		alike := func(o fleet.Row) bool { return o.Phase == r.Phase && o.Why == r.Why && r.Phase == fleet.Queued }
		if r.Phase == fleet.Done || i > 0 && alike(rows[i-1]) {
			continue
		}
		if shown++; shown > 20 {
			continue
		}
		more, n := "", 0
		for _, o := range rows[i+1:] {
			if !alike(o) {
				break
			}
			n++
		}
		if n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(w, "%s%s  %s%s\n", text.Line(r.Task.Name), more, fleetPhase(r), why(r))
		if r.Phase == fleet.Failed && r.Attempt != "" {
			fmt.Fprintf(w, "  assay fleet logs %s   assay show %s\n", text.Line(r.Task.Name),
				ownFolder+"/runs/"+r.Attempt)
		}
	}
	if shown > 20 {
		fmt.Fprintf(w, "… and %d more: assay fleet status\n", shown-20)
	}
	fmt.Fprintln(w, tally(rows))
}

// tally counts rows by their phase: "12 runs: 10 done, 2 failed".
func tally(rows []fleet.Row) string {
	n := map[string]int{}
	for _, r := range rows {
		n[r.Phase]++
	}
	var parts []string
	for _, p := range []string{fleet.Done, fleet.Failed, fleet.Lost, fleet.Cancelled, fleet.Placed, fleet.Queued} {
		if n[p] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[p], phaseWords[p]))
		}
	}
	if len(parts) == 0 {
		return count(len(rows), "run")
	}
	return count(len(rows), "run") + ": " + strings.Join(parts, ", ")
}

var phaseWords = map[string]string{fleet.Done: "done", fleet.Failed: "failed", fleet.Lost: "lost",
	fleet.Cancelled: "cancelled", fleet.Queued: "waiting", fleet.Placed: "under way"}

func why(r fleet.Row) string {
	if r.Why == "" {
		return ""
	}
	return ": " + text.Short(r.Why, 400)
}

// fleetPhase is how a row stands, in a word or two.
func fleetPhase(r fleet.Row) string {
	if r.Phase != fleet.Placed {
		return phaseWords[r.Phase]
	}
	switch r.State.Phase {
	case "":
		return "starting"
	case "waiting":
		return "waits for the GPU"
	}
	if r.Stop != "" {
		return "being cancelled"
	}
	return "running"
}

// fleetJSON is a row as --json prints it.
type fleetJSON struct {
	Job      string   `json:"job"`
	Cell     string   `json:"cell,omitempty"`
	Phase    string   `json:"phase"`
	Why      string   `json:"why,omitempty"`
	Host     string   `json:"host,omitempty"`
	Attempts int      `json:"attempts"`
	Run      string   `json:"run,omitempty"` // folder of the last attempt's run
	Exit     *int     `json:"exit,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Left     float64  `json:"lease_left,omitempty"`
	Steps    *float64 `json:"steps,omitempty"`
	Loss     *float64 `json:"loss,omitempty"`
}

func writeFleetJSON(w io.Writer, q *fleet.Queue, rows []fleet.Row) error {
	out := struct {
		Queue string      `json:"queue"`
		Jobs  []fleetJSON `json:"jobs"`
	}{q.Name(), []fleetJSON{}}
	for _, r := range rows {
		j := fleetJSON{Job: r.Task.Name, Cell: r.Task.Cell, Phase: r.Phase, Why: r.Why, Host: r.Host,
			Attempts: r.Attempts,
			Exit:     r.State.Exit, Signal: r.State.Signal, Seconds: r.State.Ran}
		if r.Attempt != "" {
			j.Run = ownFolder + "/runs/" + r.Attempt
		}
		if r.Phase == fleet.Placed {
			j.Left = r.State.Left
		}
		out.Jobs = append(out.Jobs, j)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// ranFor is how long a row's run has run, for people.
func ranFor(r fleet.Row) string {
	if r.State.Ran <= 0 {
		return ""
	}
	return unit.Seconds(r.State.Ran)
}
