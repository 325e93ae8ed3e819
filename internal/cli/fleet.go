package cli

import (
	"github.com/spf13/cobra"
)

// fleetFolder has a folder for each queue.
const fleetFolder = ownFolder + "/fleet"

func newFleetCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Work a queue of runs off on several Macs",
	}
	cmd.AddCommand(newFleetUp(env), newFleetDoctor(env))
	return cmd
}
