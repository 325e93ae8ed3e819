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
	return on.Double(a, aim, installed, macFloor)
}

func macFloor(release string) string {
	floor, _ := python.MacFloor(release) // of one that was not looked at it is empty
	return floor.Backend
}

// releasesBeside are the same Mac with the last release of each series of PyTorch, oldest first, and with that of the
// double in its series' place. One that has no MPS on the macOS that was asked for is left out.
func releasesBeside(on target.Target, double *target.Double) []target.Double {
	a := &atlas.Atlas{}
	var list []target.Double
	at := map[string]int{}
	for _, r := range a.Releases("torch") {
		aim := double.Aim
		aim.Release, aim.Torch = r, r.Version
		d, err := on.Double(a, aim, double.Settings.Installed, macFloor)
		if err != nil {
			continue
		}
		series := atlas.Series(r.Version)
		n, again := at[series]
		switch {
		case !again:
			at[series] = len(list)
			list = append(list, *d)
		case list[n].Settings.Release != double.Settings.Release:
			list[n] = *d
		}
	}
	return list
}
