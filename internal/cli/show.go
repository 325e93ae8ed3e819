package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Use:   "show RUN [OTHER]",
		Short: "Show an earlier run",
		Long: `Shows a run's folder, or an evidence.json: the summary, or with --html and --json the whole, on standard output. The page has the run's
gates and its verdict on top: those that were kept with it (run --policy), or else those of gates.toml here. With --html, OTHER is a second run, and the
page has what differs from it; either may be a record of the logbook. --trace
prints the path of the profiler's trace, which ui.perfetto.dev opens. A run that was cut off before its evidence was written is
shown as far as its events go.

--follow shows a run that is under way, from its folder alone: on a terminal it is drawn anew each second in which something came, elsewhere
whenever an epoch has ended, and once more as a whole when the run has ended. Ctrl-C ends the looking, and not the run.`,
		Example: `  assay show .assay/runs/20261121-101500-train-1f2e3d
  assay show --html after before > difference.html`,
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.Flags().BoolVar(&html, "html", false, "the report page")
	cmd.Flags().BoolVar(&json, "json", false, "the evidence itself")
	cmd.Flags().BoolVar(&trace, "trace", false, "the path of the trace")
	cmd.Flags().BoolVar(&follow, "follow", false, "draw the summary again as the run goes on, until it ends")
	cmd.MarkFlagsMutuallyExclusive("html", "json", "trace", "follow")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 && !html {
			return fault.Exit(fault.Hint(errors.New("show: a second run is shown beside the first on the page alone"),
				"assay show --html RUN OTHER"), fault.Usage)
		}
		if follow {
			if err := followRun(cmd.Context(), env, env.Path(args[0])); err != nil {
				return err
			}
		}
		if html {
			return showPage(env, args)
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
		case json:
			return report.JSON{}.Write(env.Stdout, run)
		}
		return report.Text{Width: width(env)}.Write(env.Stdout, run)
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
	terminal, form := isTerminal(env.Stdout), report.Text{Width: width(env)}
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

// isTerminal reports whether what is written there is drawn on a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// width of the terminal as $COLUMNS says it, between 60 and 120; 100 where it does not.
func width(env *Env) int {
	var n int
	if _, err := fmt.Sscan(env.Getenv("COLUMNS"), &n); err != nil || n <= 0 {
		return 100
	}
	return min(max(n, 60), 120)
}
