package cli

import (
	"cmp"
	"context"
	"fmt"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/python"
	"assay/internal/target"
)

// rehearsal makes the double of a target: what it leaves open is taken from the project here, and from the interpreter
// that the command runs in.
func rehearsal(ctx context.Context, env *Env, on target.Target, command []string) (*target.Double, error) {
	installed := ""
	in, notFound := interpreterOf(ctx, env, command)
	if notFound == nil {
		if torch, ok, err := python.ReadTorch(in, python.Packages(in.Site)); ok && err == nil {
			installed = torch.Version
		}
	}
	a := &atlas.Atlas{}
	aim, err := target.AimAt(a, env.Dir, target.Words{Torch: on.Release, Chip: on.Chip, MacOS: on.MacOS},
		func() (torch, release, where string) {
			return installed, in.Version, cmp.Or(in.Chosen, in.Path)
		})
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("--on double: %w", err), fault.HintOf(err))
	}
	if aim.Guessed {
		why := notFound
		if why == nil {
			why = fmt.Errorf("none is installed for %s", in.Path)
		}
		err := fmt.Errorf("--on double: which release of PyTorch? None is named, and %w", why)
		return nil, fault.Hint(err, "name one, as --torch 2.8")
	}
	return on.Double(a, aim, installed, func(release string) string {
		floor, _ := python.MacFloor(release) // of one that was not looked at it is empty
		return floor.Backend
	})
}
