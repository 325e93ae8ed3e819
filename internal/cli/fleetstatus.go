package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/node"
	"assay/internal/probe"
	"assay/internal/text"
	"assay/internal/unit"
)

func newFleetStatus(env *Env) *cobra.Command {
	var queue string
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the runs of a queue stand",
		Long: `Prints each run of the queue that changed last, or of --queue: how it stands, on which host, in which attempt, its steps and loss, what is left of
its lease, and why it waits. It works beside a driver, and without one: then it says what was known when the last one ended.

Exit status: 0 where the queue could be read, 2 where there is none.`,
		Example: `  assay fleet status
  assay fleet status --queue train-3f2a91c4 --json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&queue, "queue", "", "`name` of the queue; default the one that changed last")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "runs that are done, too, where there are more than fifty")
	cmd.RunE = func(*cobra.Command, []string) error {
		name, err := chosenQueue(env, queue)
		if err != nil {
			return err
		}
		q, busy, err := fleet.Read(queueFolder(env, name), runsPath(env))
		if err != nil {
			return err
		}
		rows := q.Rows()
		if asJSON {
			return writeFleetJSON(env.Stdout, q, rows)
		}
		return writeFleetStatus(env.Stdout, q, rows, busy, all)
	}
	return cmd
}

// statusRows is how many rows are shown before those that are done are left out.
const statusRows = 50

func writeFleetStatus(w io.Writer, q *fleet.Queue, rows []fleet.Row, busy, all bool) error {
	how := "a driver works on it"
	if !busy {
		how = "no driver works on it"
	}
	n, live := map[string]int{}, 0
	for _, r := range rows {
		n[r.Phase]++
		if r.Phase == fleet.Placed {
			live++
		}
	}
	fmt.Fprintf(w, "queue %s: %s, %s\n\n", q.Name(), tally(rows), how)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSTATE\tHOST\tATTEMPT\tRAN\tSTEPS\tLOSS\tLEASE\tWHY")
	shown := 0
	for _, r := range rows {
		if !all && len(rows) > statusRows && (r.Phase == fleet.Done || shown >= statusRows) {
			continue
		}
		shown++
		steps, loss := progress(q, r)
		lease, attempts := "-", "-"
		if r.Phase == fleet.Placed && busy && r.State.Left > 0 {
			lease = unit.Seconds(r.State.Left)
		}
		host := r.Host
		if r.Phase == fleet.Queued {
			host = "" // that of the last attempt
		}
		if r.Attempts > 0 {
			attempts = fmt.Sprint(r.Attempts)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", text.Line(r.Task.Name), fleetPhase(r),
			dash(text.Line(host)), attempts, dash(ranFor(r)), dash(steps), dash(loss), lease, text.Short(r.Why, 200))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if shown < len(rows) {
		fmt.Fprintf(w, "… and %d more, %d of them done: --all shows them\n", len(rows)-shown, n[fleet.Done])
	}
	if live > 0 && !busy {
		fmt.Fprintf(w, "\n%s may go on until the lease has run out; assay fleet run --queue %s goes on with the "+
			"queue\n",
			count(live, "run"), q.Name())
	} else if !busy && n[fleet.Queued] > 0 {
		fmt.Fprintf(w, "\nassay fleet run --queue %s goes on with the queue\n", q.Name())
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// progress is how far the run of a row has come, by its folder here.
func progress(q *fleet.Queue, r fleet.Row) (steps, loss string) {
	if r.Attempt == "" || r.Phase != fleet.Placed {
		return "", ""
	}
	f, err := probe.Follow(q.Folder(r.Attempt))
	if err != nil {
		return "", ""
	}
	defer f.Close()
	if _, err := f.More(); err != nil {
		return "", ""
	}
	run := f.Run()
	if run == nil {
		return "", ""
	}
	if n := len(run.Steps.Number); n > 0 {
		steps = fmt.Sprint(run.Steps.Number[n-1])
	}
	if v := figureValue(run, "loss.last"); v != nil {
		loss = fmt.Sprintf("%.4g", *v)
	}
	return steps, loss
}

func figureValue(run *evidence.Run, name string) *float64 {
	for i := range run.Figures {
		if run.Figures[i].Name == name {
			return run.Figures[i].Value
		}
	}
	return nil
}

func newFleetLogs(env *Env) *cobra.Command {
	var queue string
	var follow, errors bool
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print what a run of a queue printed",
		Long: `Prints the output of the last attempt of a run, as far as it has come here: standard output and standard error, of which each is kept apart,
first the one and then the other. --follow prints what comes, until the run has ended.`,
		Example: `  assay fleet logs lr-0.1
  assay fleet logs run --follow`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&queue, "queue", "", "`name` of the queue; default the one that changed last")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended; Ctrl-C ends it")
	cmd.Flags().BoolVar(&errors, "stderr", false, "standard error alone")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := chosenQueue(env, queue)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return fleetLogs(ctx, env, name, args[0], follow, errors)
	}
	return cmd
}

func fleetLogs(ctx context.Context, env *Env, queue, job string, follow, stderr bool) error {
	at := map[string]int64{}
	attempt := ""
	out := text.NewWriter(env.Stdout) // it comes from another machine
	defer out.Flush()
	for {
		q, busy, err := fleet.Read(queueFolder(env, queue), runsPath(env))
		if err != nil {
			return err
		}
		rows := q.Rows()
		i := slices.IndexFunc(rows, func(r fleet.Row) bool { return r.Task.Name == job })
		if i < 0 {
			return fault.Exit(fault.Hint(fmt.Errorf("the queue %s has no job %s", queue, text.Line(job)),
				"see: assay fleet status"), fault.Usage)
		}
		r := rows[i]
		if r.Attempt != attempt {
			if attempt != "" {
				fmt.Fprintf(env.Stderr, "assay: attempt %d on %s\n", r.Attempts, text.Line(r.Host))
			}
			attempt, at = r.Attempt, map[string]int64{}
		}
		files := []string{node.Stdout, node.Stderr}
		if stderr {
			files = files[1:]
		}
		for _, name := range files {
			if attempt == "" {
				break
			}
			n, err := copyFrom(out, filepath.Join(q.Folder(attempt), name), at[name])
			if err != nil {
				return err
			}
			at[name] += n
		}
		over := fleet.Final(r.Phase) && (r.Home || !busy)
		if !follow || over || !busy {
			if attempt == "" {
				fmt.Fprintf(env.Stderr, "assay: job %s has not begun%s\n", text.Line(job), why(r))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return status(128 + int(syscall.SIGINT))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// copyFrom copies a file from an offset, as far as it goes. One that is not there yet has nothing.
func copyFrom(w io.Writer, path string, at int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, f)
}
