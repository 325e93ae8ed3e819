package cli

import (
	"github.com/spf13/cobra"

	"assay/internal/launch"
)

// newWitnessCommand is what `assay run` starts beside the script, for itself.
func newWitnessCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:    "witness",
		Short:  "Tell which signals reach this process group",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run:    func(*cobra.Command, []string) { launch.Witness(env.Stdin, env.Stdout) },
	}
}
