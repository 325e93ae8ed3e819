package cli

import (
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
		Use:   "show [RUN]",
		Short: "Show an earlier run",
		Long: `Shows a run's folder, or an evidence.json: the summary, or with --html and --json the whole, on standard output. --trace
prints the path of the profiler's trace, which ui.perfetto.dev opens. A run that was cut off before its evidence was written is
shown as far as its events go.

--follow shows a run that is under way, from its folder alone; without RUN the one that is under way below .assay/runs, or the next that
begins there. On a terminal it is drawn in place: how far the epoch is and how long it takes, the last steps, the split, the losses, memory, the
machine, and what is to be read already. Elsewhere it is a line whenever an epoch begins or ten seconds have passed. When the run has ended, or
was cut off, the summary follows. Ctrl-C ends the looking, and not the run.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if follow {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&html, "html", false, "the report page")
	cmd.Flags().BoolVar(&json, "json", false, "the evidence itself")
	cmd.Flags().BoolVar(&trace, "trace", false, "the path of the trace")
	cmd.Flags().BoolVar(&follow, "follow", false, "draw a run as it goes on, until it ends")
	cmd.MarkFlagsMutuallyExclusive("html", "json", "trace", "follow")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
