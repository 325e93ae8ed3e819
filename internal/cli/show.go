package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/text"
)

func newShowCommand(env *Env) *cobra.Command {
	var html, json, trace, follow bool
	cmd := &cobra.Command{
		Use:   "show [RUN] [OTHER]",
		Short: "Show an earlier run",
		Long: `Shows a run's folder, or an evidence.json: the summary, or with --html and --json the whole, on standard output. The page has the run's
gates and its verdict on top: those that were kept with it (run --policy), or else those of gates.toml here. With --html, OTHER is a second run, and the
page has what differs from it; either may be a record of the logbook. --trace
prints the path of the profiler's trace, which ui.perfetto.dev opens. A run that was cut off before its evidence was written is
shown as far as its events go.

--follow shows a run that is under way, from its folder alone; without RUN the one that is under way below .assay/runs, or the next that
begins there. On a terminal it is drawn in place: how far the epoch is and how long it takes, the last steps, the split, the losses, memory, the
machine, and what is to be read already. Elsewhere it is a line whenever an epoch begins or ten seconds have passed. When the run has ended, or
was cut off, the summary follows. Ctrl-C ends the looking, and not the run.`,
		Example: `  assay show .assay/runs/20261121-101500-train-1f2e3d
  assay show --html after before > difference.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if follow {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.RangeArgs(1, 2)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&html, "html", false, "the report page")
	cmd.Flags().BoolVar(&json, "json", false, "the evidence itself")
	cmd.Flags().BoolVar(&trace, "trace", false, "the path of the trace")
	cmd.Flags().BoolVar(&follow, "follow", false, "draw a run as it goes on, until it ends")
	cmd.MarkFlagsMutuallyExclusive("html", "json", "trace", "follow")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 && !html {
			return fault.Exit(fault.Hint(errors.New("show: a second run is shown beside the first on the page alone"),
				"assay show --html RUN OTHER"), fault.Usage)
		}
		if follow {
			if len(args) == 0 {
				dir, err := awaitRun(cmd.Context(), env)
				if err != nil {
					return err
				}
				args = []string{dir}
			}
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
		return summary(env, env.Stdout).Write(env.Stdout, run)
	}
	return cmd
}
