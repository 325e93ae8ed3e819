package cli

import "github.com/spf13/cobra"

func newFleetSweep(env *Env) *cobra.Command { return &cobra.Command{Use: "sweep", Hidden: true} }
