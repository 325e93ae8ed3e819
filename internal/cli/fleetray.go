package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/fleet"
)

// rayOptions are the flags of `assay fleet run` that only --on ray://… has.
type rayOptions struct{}

// flags adds them.
func (*rayOptions) flags(*cobra.Command) {}

// isRay reports whether --on names a Ray cluster.
func isRay(on string) bool { return strings.HasPrefix(on, "ray://") }

// rayEngine works a queue off over Ray. code opens a snapshot by its SHA-256, say prints a line, and abandon, when it
// is closed, has the engine return at once.
func rayEngine(context.Context, *Env, fleetOptions, func(string) (fleet.CodeFile, error), func(string),
	<-chan struct{}) (fleet.Engine, error) {
	return nil, fault.Exit(errors.New("--on ray://…: not here yet"), fault.Usage)
}
