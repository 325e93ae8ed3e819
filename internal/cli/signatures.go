package cli

import "github.com/spf13/cobra"

func newSignaturesCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signatures",
		Short: "Record the distinct operator calls of a run, to try them on a Mac in minutes",
		Long: `A signature is one distinct call of an operator: its name, and shapes, strides, types and scalars of what it was called with. A training has
some hundreds of them. Recorded where the training runs, they fit into one small file, with no data of the user's; docs/signatures.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newSignaturesReplayCommand(env),
	)
	return cmd
}
