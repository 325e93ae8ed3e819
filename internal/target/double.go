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
	Aim      Aim // why it is this Mac
	Settings Settings
	Table    Table
}

// Double makes what the double is told of the Mac aimed at; t is what was typed. installed is the release of the
// framework in the subject's environment, "" where it is not known. floor says which macOS a release needs to have MPS,
// "" where that is not known. Where no macOS is named it is DefaultMacOS, or what the release needs if that is newer.
func (t Target) Double(a *atlas.Atlas, aim Aim, installed string, floor func(release string) string) (*Double, error) {
	release := aim.Release
	chip, err := Target{Chip: aim.Chip}.chip()
	if err != nil {
		return nil, Run.doing(err)
	}
	macOS, err := Target{MacOS: aim.MacOS}.macOS()
	if err != nil {
		return nil, Run.doing(err)
	}
	least := floor(release.Version)
	if needed, err := ParseMacOS(least); err == nil && macOS.Before(needed) {
		if aim.MacOS != "" {
			err := fmt.Errorf("--on double: torch %s has no MPS on macOS %s: it needs %s", release.Version, macOS,
				least)
			return nil, fault.Hint(err, "name a newer --macos, or an older --torch")
		}
		macOS = needed
	}
	settings := NewSettings(release, chip, macOS)
	settings.ShapeOnly, settings.Installed = t.ShapeOnly, installed
	assume := func(sentence string) { settings.Assumed = append(settings.Assumed, sentence) }
	if t.Release == "" {
		assume(aim.String())
		settings.Assumed = append(settings.Assumed, aim.Besides...)
	}
	switch {
	case aim.Chip == "":
		assume("the Mac: " + chip.Short + ", since --chip names none")
	case aim.ChipAt != "":
		assume("the Mac: " + chip.Short + ", as " + aim.ChipAt + " says")
	}
	if aim.Chip != "" && chip.Chosen != "" {
		assume(chip.Chosen)
	}
	switch {
	case aim.MacOS == "":
		assume("macOS " + macOS.String() + ", since --macos names none")
	case aim.MacOSAt != "":
		assume("macOS " + macOS.String() + ", as " + aim.MacOSAt + " says")
	}
	return &Double{Aim: aim, Settings: settings, Table: NewTable(a, release, installed)}, nil
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

// ParseRelease finds a release of torch, 2.8 or 2.8.0; the error says what to write, or names those that are known.
func ParseRelease(a *atlas.Atlas, version string) (atlas.Release, error) {
	if _, ok := parseVersion(version); !ok {
		return atlas.Release{}, fault.Hint(fmt.Errorf("torch %q is no release: write 2.8 or 2.8.0", version),
			"known: "+strings.Join(releaseNames(a.Releases("torch")), " "))
	}
	r, err := a.Release("torch", version)
	var unknown *atlas.UnknownRelease
	if errors.As(err, &unknown) {
		err = fault.Hint(err, fmt.Sprintf("the nearest it has is %s; all: %s", unknown.Nearest(),
			strings.Join(releaseNames(unknown.Known), " ")))
	}
	return r, err
}

func releaseNames(releases []atlas.Release) []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.Version)
	}
	return names
}
