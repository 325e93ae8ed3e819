package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/target"
)

// rehearsal makes of the flags the Mac that the double stands for.
func rehearsal(ctx context.Context, env *Env, opts runOptions, command []string) (*probe.Double, error) {
	usage := func(err error, hint string) error {
		return fault.Exit(fault.Hint(err, hint), fault.NotStarted)
	}
	installed := ""
	in, notFound := interpreterOf(ctx, env, command)
	if notFound == nil {
		if torch, ok, err := python.ReadTorch(in, python.Packages(in.Site)); ok && err == nil {
			installed = torch.Version
		}
	}
	a := &atlas.Atlas{}
	wanted := opts.torch
	if wanted == "" {
		switch {
		case notFound != nil:
			return nil, usage(fmt.Errorf("--on double: which release of PyTorch? None is named, and %w", notFound), "name one, as --torch 2.8")
		case installed == "":
			return nil, usage(fmt.Errorf("--on double: which release of PyTorch? None is named, and none is installed for %s", in.Path), "name one, as --torch 2.8")
		}
		wanted = installed
	}
	release, err := releaseOf(a, wanted)
	if err != nil {
		return nil, fault.Exit(fmt.Errorf("--on double: %w", err), fault.NotStarted)
	}
	name := opts.chip
	if name == "" {
		name = target.DefaultChip
	}
	chip, err := target.ParseChip(name)
	var unknown *target.ChipError
	if errors.As(err, &unknown) {
		return nil, usage(fmt.Errorf("--on double: %w", err), "known: "+strings.Join(unknown.Near, " "))
	}
	floor, floorKnown := python.MacFloor(release.Version)
	macOS := target.DefaultMacOS
	if opts.macOS != "" {
		if macOS, err = target.ParseMacOS(opts.macOS); err != nil {
			return nil, usage(fmt.Errorf("--on double: %w", err), "as --macos 15.5")
		}
	}
	if floorKnown {
		needed, err := target.ParseMacOS(floor.Backend)
		switch {
		case err != nil || !macOS.Before(needed):
		case opts.macOS != "":
			return nil, usage(fmt.Errorf("--on double: torch %s has no MPS on macOS %s: it needs %s", release.Version, macOS, floor.Backend), "name a newer --macos, or an older --torch")
		default:
			macOS = needed
		}
	}
	settings := target.NewSettings(release, chip, macOS)
	settings.ShapeOnly, settings.Installed = opts.shapeOnly, installed
	if opts.chip == "" {
		settings.Assumed = append(settings.Assumed, "the Mac: "+chip.Short+", since --chip names none")
	} else if chip.Chosen != "" {
		settings.Assumed = append(settings.Assumed, chip.Chosen)
	}
	if opts.macOS == "" {
		settings.Assumed = append(settings.Assumed, "macOS "+macOS.String()+", since --macos names none")
	}
	return &probe.Double{Settings: settings, Table: target.NewTable(a, release, installed)}, nil
}
