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
	var html, json, trace bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show an earlier run",
		Long: `Shows a run's folder, or an evidence.json: the summary, or with --html and --json the whole, on standard output. --trace
prints the path of the profiler's trace, which ui.perfetto.dev opens. A run that was cut off before its evidence was written is
shown as far as its events go.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&html, "html", false, "the report page")
	cmd.Flags().BoolVar(&json, "json", false, "the evidence itself")
	cmd.Flags().BoolVar(&trace, "trace", false, "the path of the trace")
	cmd.MarkFlagsMutuallyExclusive("html", "json", "trace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		run, dir, err := probe.Load(env.Path(args[0]))
		if err != nil {
			return err
		}
		switch {
		case trace:
			if run.Profile.Trace == "" {
				return fault.Hint(fmt.Errorf("show %s: no trace: %s", args[0], run.Profile.Missing), "a trace is written unless --profile=off")
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
		return report.Text{Width: width(env)}.Write(env.Stdout, run)
	}
	return cmd
}

// width of the terminal as $COLUMNS says it, between 60 and 120; 100 where it does not.
func width(env *Env) int {
	var n int
	if _, err := fmt.Sscan(env.Getenv("COLUMNS"), &n); err != nil || n <= 0 {
		return 100
	}
	return min(max(n, 60), 120)
}
