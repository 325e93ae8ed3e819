package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/text"
)

func newShowCommand(env *Env) *cobra.Command {
	var html, json, trace, follow bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show an earlier run",
		Long: `Shows a run's folder, or an evidence.json: the summary, or with --html and --json the whole, on standard output. --trace
prints the path of the profiler's trace, which ui.perfetto.dev opens. A run that was cut off before its evidence was written is
shown as far as its events go.

--follow shows a run that is under way, from its folder alone: on a terminal it is drawn anew each second in which something came, elsewhere
whenever an epoch has ended, and once more as a whole when the run has ended. Ctrl-C ends the looking, and not the run.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&html, "html", false, "the report page")
	cmd.Flags().BoolVar(&json, "json", false, "the evidence itself")
	cmd.Flags().BoolVar(&trace, "trace", false, "the path of the trace")
	cmd.Flags().BoolVar(&follow, "follow", false, "draw the summary again as the run goes on, until it ends")
	cmd.MarkFlagsMutuallyExclusive("html", "json", "trace", "follow")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if follow {
			if err := followRun(cmd.Context(), env, env.Path(args[0])); err != nil {
				return err
			}
		}
		run, dir, err := probe.Load(env.Path(args[0]))
		if err != nil {
			return err
		}
		switch {
		case trace:
			if run.Profile.Trace == "" {
				return fault.Hint(fmt.Errorf("show %s: no trace: %s", args[0], run.Profile.Missing),
					"a trace is written unless --profile=off")
			}
			// The name comes from a file: only its last part is used.
			name := filepath.Base(run.Profile.Trace)
			if text.Line(name) != name { // what a shell and a terminal would take for something else
				return fault.Hint(fmt.Errorf("show %s: the trace: %q is no name that assay gives", args[0], name),
					"the folder was changed, or is not one of assay run: look at it with ls -b")
			}
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("show %s: the trace: %w", args[0], err)
			}
			_, err := fmt.Fprintln(env.Stdout, path)
			return err
		case html:
			return report.HTML{}.Write(env.Stdout, run)
		case json:
			return report.JSON{}.Write(env.Stdout, run)
		}
		return summary(env, env.Stdout).Write(env.Stdout, run)
	}
	return cmd
}

const (
	lookEvery  = 250 * time.Millisecond // as often as assay run writes
	drawEvery  = time.Second
	evidenceBy = 10 * time.Second // from a run's last event to its evidence: assay run reads the trace and the packages
)

// followRun draws the run in dir as it goes on. It returns when the run has ended, its evidence is written, and the
// whole can be shown.
func followRun(ctx context.Context, env *Env, dir string) error {
	run, err := probe.Follow(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	terminal, form := isTerminal(env.Stdout), summary(env, env.Stdout)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var drawn, ended time.Time
	came, epochs := false, -1
	for {
		more, err := run.More()
		if err != nil {
			return err
		}
		came = came || more
		switch now := env.Now(); {
		case run.Ended() && ended.IsZero():
			ended = now
		case run.Ended() && (run.Written() || now.Sub(ended) > evidenceBy):
			if terminal {
				fmt.Fprint(env.Stdout, clearScreen)
			}
			return nil
		case run.Ended() || !came || now.Sub(drawn) < drawEvery:
		default:
			soFar := run.Run()
			if !terminal && len(soFar.Epochs) == epochs {
				break
			}
			came, drawn, epochs = false, now, len(soFar.Epochs)
			if terminal {
				fmt.Fprint(env.Stdout, clearScreen)
			}
			if err := form.Write(env.Stdout, soFar); err != nil {
				return err
			}
			if !terminal {
				fmt.Fprintln(env.Stdout)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// clearScreen takes the cursor to the upper left corner and clears what is there (ECMA-48: CUP, ED).
const clearScreen = "\x1b[H\x1b[2J"
