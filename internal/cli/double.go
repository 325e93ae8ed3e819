package cli

import (
	"context"
	"fmt"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/python"
	"assay/internal/target"
)

// rehearsal makes the double of a target: what it leaves open is taken from the interpreter that the command runs in.
func rehearsal(ctx context.Context, env *Env, on target.Target, command []string) (*target.Double, error) {
	installed := ""
	in, notFound := interpreterOf(ctx, env, command)
	if notFound == nil {
		if torch, ok, err := python.ReadTorch(in, python.Packages(in.Site)); ok && err == nil {
			installed = torch.Version
		}
	}
	if on.Release == "" && installed == "" {
		why := notFound
		if why == nil {
			why = fmt.Errorf("none is installed for %s", in.Path)
		}
		err := fmt.Errorf("--on double: which release of PyTorch? None is named, and %w", why)
		return nil, fault.Hint(err, "name one, as --torch 2.8")
	}
	return on.Double(&atlas.Atlas{}, installed, func(release string) string {
		floor, _ := python.MacFloor(release) // of one that was not looked at it is empty
		return floor.Backend
	})
}
