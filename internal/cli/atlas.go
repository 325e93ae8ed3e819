package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/replay"
)

func newAtlasCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "atlas",
		Short: "Hold what Macs answered against the tables",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAtlasConfirmCommand(env))
	return cmd
}

func newAtlasConfirmCommand(env *Env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "confirm [flags] FILE.replay...",
		Short: "Say what replays on a Mac confirm of the tables, and what they contradict",
		Long: `Each result of a replay (assay signatures replay) is held against what the tables say of its operator, in its release, with its arguments:
confirmed, contradicted, or new. What is contradicted or new is printed as rows for internal/facts/rows, with the smallest call that shows it.
A replay on the double, the CPU or CUDA is no evidence, nor is one of a machine that cannot compute. docs/replay.md.

Exit status: 0 where nothing is contradicted; 3 where something is; 1 where no file is evidence; 2 where the command line is wrong.`,
		Example: `  assay atlas confirm training.replay
  assay atlas confirm --json m1.replay m4.replay`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&json, "json", false,
		"print the record ("+evidence.Schema+", kind "+replay.KindConfirmation+")")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runConfirm(env, json, args) }
	return cmd
}

func runConfirm(env *Env, json bool, args []string) error {
	if len(args) == 0 {
		err := fault.Hint(errors.New("no replay to hold against the tables"), "see: assay atlas confirm --help")
		return fault.Exit(err, fault.Usage)
	}
	var files []*replay.File
	for _, name := range args {
		f, err := replay.Read(env.Path(name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	c, err := replay.Confirm(&atlas.Atlas{}, facts.Load(), args, files)
	if err != nil {
		return err
	}
	if json {
		err = c.JSON(env.Stdout)
	} else {
		err = c.Text(env.Stdout, width(env, env.Stdout))
	}
	if err != nil {
		return err
	}
	if s := c.Status(); s != fault.OK {
		return status(s)
	}
	return nil
}
