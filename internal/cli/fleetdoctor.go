package cli

import "github.com/spf13/cobra"

// newFleetDoctor is helper smoke's: replace this file.
func newFleetDoctor(_ *Env) *cobra.Command { return &cobra.Command{Use: "doctor", Hidden: true} }
