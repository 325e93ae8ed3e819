package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"assay/internal/atlas"
	"assay/internal/fault"
)

// Double is the Mac that the double stands for, and what the atlas has of its release.
type Double struct {
	Settings Settings
	Table    Table
}

// Double makes what the double is told. installed is the release of the framework in the subject's environment, ""
// where it is not known; it is taken where no release was asked for. floor says which macOS a release needs to have
// MPS, "" where that is not known. Where no macOS was asked for it is DefaultMacOS, or what the release needs if that
// is newer.
func (t Target) Double(a *atlas.Atlas, installed string, floor func(release string) string) (*Double, error) {
	wanted := t.Release
	if wanted == "" {
		wanted = installed
	}
	release, err := ParseRelease(a, wanted)
	if err != nil {
		return nil, fmt.Errorf("--on double: %w", err)
	}
	chip, err := t.chip()
	if err != nil {
		return nil, err
	}
	macOS, err := t.macOS()
	if err != nil {
		return nil, err
	}
	least := floor(release.Version)
	if needed, err := ParseMacOS(least); err == nil && macOS.Before(needed) {
		if t.MacOS != "" {
			err := fmt.Errorf("--on double: torch %s has no MPS on macOS %s: it needs %s", release.Version, macOS,
				least)
			return nil, fault.Hint(err, "name a newer --macos, or an older --torch")
		}
		macOS = needed
	}
	settings := NewSettings(release, chip, macOS)
	settings.ShapeOnly, settings.Installed = t.ShapeOnly, installed
	if t.Chip == "" {
		settings.Assumed = append(settings.Assumed, "the Mac: "+chip.Short+", since --chip names none")
	} else if chip.Chosen != "" {
		settings.Assumed = append(settings.Assumed, chip.Chosen)
	}
	if t.MacOS == "" {
		settings.Assumed = append(settings.Assumed, "macOS "+macOS.String()+", since --macos names none")
	}
	return &Double{Settings: settings, Table: NewTable(a, release, installed)}, nil
}

// Keep writes the table to a path, and gives the settings that name it.
func (d *Double) Keep(path string) (Settings, error) {
	settings := d.Settings
	settings.Table = path
	data, err := json.Marshal(d.Table)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	return settings, err
}

// ParseRelease finds a release of torch, 2.8 or 2.8.0; the error names those that are known.
func ParseRelease(a *atlas.Atlas, version string) (atlas.Release, error) {
	r, err := a.Release("torch", version)
	var unknown *atlas.UnknownRelease
	if errors.As(err, &unknown) {
		var known []string
		for _, r := range unknown.Known {
			known = append(known, r.Version)
		}
		err = fault.Hint(err, fmt.Sprintf("the nearest it has is %s; all: %s", unknown.Nearest(),
			strings.Join(known, " ")))
	}
	return r, err
}
