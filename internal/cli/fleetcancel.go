package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/text"
)

func newFleetCancel(env *Env) *cobra.Command {
	var opts fleetOptions
	var all bool
	cmd := &cobra.Command{
		Use:   "cancel [JOB…]",
		Short: "End runs of a queue",
		Long: `Ends runs of the queue that changed last, or of --queue: those that wait at once, those that run on their hosts. Where a driver works on the queue it
is asked to; without one the hosts are asked directly, and a host that does not answer ends the run when its lease has run out.

Exit status: 0 where all of them have ended, 4 where a driver was asked, or a host did not answer, and that is not known yet, 2 where there is no such
queue or job.`,
		Example: `  assay fleet cancel lr-0.1
  assay fleet cancel --all`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&opts.queue, "queue", "", "`name` of the queue; default the one that changed last")
	cmd.Flags().StringVar(&opts.on, "on", hostsFile, "`file` of the hosts")
	cmd.Flags().BoolVar(&all, "all", false, "all runs of the queue that have not ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return fault.Exit(fault.Hint(errors.New("name the jobs, or --all"), "see: assay fleet cancel --help"),
				fault.Usage)
		}
		return fleetCancel(cmd.Context(), env, opts, args)
	}
	return cmd
}

// cancelWait is how long a driver that was asked is waited for.
const cancelWait = 20 * time.Second

func fleetCancel(ctx context.Context, env *Env, opts fleetOptions, jobs []string) error {
	name, err := chosenQueue(env, opts.queue)
	if err != nil {
		return err
	}
	folder := queueFolder(env, name)
	q, busy, err := fleet.Read(folder, runsPath(env))
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range q.Rows() {
		known[r.Task.Name] = true
	}
	for _, j := range jobs {
		if !known[j] {
			return fault.Exit(fault.Hint(fmt.Errorf("the queue %s has no job %s", name, text.Line(j)),
				"see: assay fleet status"), fault.Usage)
		}
	}
	if err := fleet.Ask(folder, jobs...); err != nil {
		return err
	}
	if busy {
		return awaitCancelled(ctx, env, name, jobs)
	}
	return cancelThere(ctx, env, opts, name, jobs)
}

// awaitCancelled waits a while for a driver to do what it was asked.
func awaitCancelled(ctx context.Context, env *Env, name string, jobs []string) error {
	until := time.Now().Add(cancelWait)
	for {
		q, busy, err := fleet.Read(queueFolder(env, name), runsPath(env))
		if err != nil {
			return err
		}
		left := notEnded(q, jobs)
		if len(left) == 0 {
			fmt.Fprintf(env.Stdout, "ended: %s\n", text.Short(strings.Join(ended(q, jobs), ", "), 400))
			return nil
		}
		if !busy || time.Now().After(until) {
			fmt.Fprintf(env.Stdout, "asked to end: %s; assay fleet status says when they have\n",
				text.Short(strings.Join(left, ", "), 400))
			return status(fault.CannotTell)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func wanted(jobs []string, name string) bool {
	if len(jobs) == 0 {
		return true
	}
	for _, j := range jobs {
		if j == name {
			return true
		}
	}
	return false
}

func notEnded(q *fleet.Queue, jobs []string) (left []string) {
	for _, r := range q.Rows() {
		if wanted(jobs, r.Task.Name) && !fleet.Final(r.Phase) {
			left = append(left, r.Task.Name)
		}
	}
	return left
}

func ended(q *fleet.Queue, jobs []string) (names []string) {
	for _, r := range q.Rows() {
		if wanted(jobs, r.Task.Name) && fleet.Final(r.Phase) {
			names = append(names, r.Task.Name+" ("+phaseWords[r.Phase]+")")
		}
	}
	return names
}

// cancelThere is a driver that begins nothing: it cancels what was asked, brings home what there is of it, and goes.
func cancelThere(ctx context.Context, env *Env, opts fleetOptions, name string, jobs []string) error {
	pool, err := openPool(env, opts)
	if err != nil {
		return err
	}
	d, err := openDriver(ctx, env, opts, pool, name)
	if errors.Is(err, fleet.ErrBusy) { // one has come meanwhile, and heeds what was asked
		return awaitCancelled(ctx, env, name, jobs)
	}
	if err != nil {
		return err
	}
	err = d.queue.Heed()
	if err == nil {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = d.cancelOnly(ctx)
	}
	left, done := notEnded(d.queue, jobs), ended(d.queue, jobs)
	if err = errors.Join(err, d.close()); err != nil {
		return err
	}
	if len(done) > 0 {
		fmt.Fprintf(env.Stdout, "ended: %s\n", text.Short(strings.Join(done, ", "), 400))
	}
	if len(left) > 0 {
		fmt.Fprintf(env.Stdout, "not known yet: %s; hosts end them when their lease has run out\n",
			text.Short(strings.Join(left, ", "), 400))
		return status(fault.CannotTell)
	}
	return nil
}

// cancelOnly asks hosts for a while to end what is to be cancelled.
func (d *driver) cancelOnly(ctx context.Context) error {
	waits := false
	for _, s := range d.queue.Open() {
		waits = waits || s.Stop != ""
	}
	if !waits {
		return nil
	}
	e, ok := d.engine.(*fleet.SSH)
	if !ok {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	return e.Cancel(ctx, d.queue)
}
