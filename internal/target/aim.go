package target

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/atlas"
	"assay/internal/fault"
)

// Aim is the Mac that a project is judged for, and why. As JSON it stands in the answers of commands.
type Aim struct {
	Torch   string   `json:"torch"`                // release: 2.8.0
	Why     string   `json:"torch_from"`           // torch==2.8.0 in requirements.txt
	Besides []string `json:"torch_beside"`         // what else was found, or could not be read, a sentence each
	Chip    string   `json:"chip,omitempty"`       // as ParseChip takes it; "": none is named
	ChipAt  string   `json:"chip_from,omitempty"`  // the file that names it; "" where it was typed
	MacOS   string   `json:"macos,omitempty"`      // as ParseMacOS takes it; "": none is named
	MacOSAt string   `json:"macos_from,omitempty"` // the file that names it; "" where it was typed

	Release atlas.Release `json:"-"`
	Guessed bool          `json:"-"` // nothing names a release: it is the newest known
}

// String is a line for a reader: torch 2.8.0 (torch==2.8.0 in requirements.txt).
func (a Aim) String() string { return "torch " + a.Torch + " (" + a.Why + ")" }

// Text is String, and what else was found, a line each. The zero value has none.
func (a Aim) Text() string {
	if a.Torch == "" {
		return ""
	}
	return "judged for " + strings.Join(append([]string{a.String()}, a.Besides...), "\n  ") + "\n"
}

// Installed tells which torch is installed where the project would run, and of which release that Python is; each is ""
// where it is not known. Where names the environment. It is asked only where it matters.
type Installed func() (torch, python, where string)

// AimAt says which Mac the project in a folder is judged for. The release of PyTorch is the one typed (flag), else that
// of assay.toml, else the one release that the project's files ask for, else that of a lock file, else the one
// installed, else the newest known; a range leaves those out that it does not allow. Words typed go before assay.toml
// for the chip and macOS as well. An error, with a hint, says which word or which line of a setting is wrong; a release
// that is not known is one, where it was typed or set, and is the nearest where the project's files name it.
func AimAt(a *atlas.Atlas, dir string, typed Words, installed Installed) (Aim, error) {
	aim := Aim{Besides: []string{}, Chip: typed.Chip, MacOS: typed.MacOS}
	settings, err := FindProjectSettings(dir)
	if err != nil {
		return Aim{}, err
	}
	for _, s := range []struct {
		value, at *string
		set       Setting
		parse     func(string) error
	}{
		{&aim.Chip, &aim.ChipAt, settings.Chip, func(s string) error { _, err := ParseChip(s); return err }},
		{&aim.MacOS, &aim.MacOSAt, settings.MacOS, func(s string) error { _, err := ParseMacOS(s); return err }},
	} {
		if *s.value != "" || s.set.Value == "" {
			continue
		}
		if err := s.parse(s.set.Value); err != nil {
			return Aim{}, fault.Hint(fmt.Errorf("%s: %w", s.set.At, err), "mend "+s.set.At)
		}
		*s.value, *s.at = s.set.Value, s.set.At
	}
	switch {
	case typed.Torch != "":
		aim.Release, err = ParseRelease(a, typed.Torch)
		aim.Why = "--torch " + typed.Torch
	case settings.Torch.Value != "":
		if aim.Release, err = ParseRelease(a, settings.Torch.Value); err != nil {
			err = fault.Hint(fmt.Errorf("%s: %w", settings.Torch.At, err), fault.HintOf(err))
		}
		aim.Why = fmt.Sprintf("torch = %q in %s", settings.Torch.Value, settings.Torch.At)
	default:
		aim.fromProject(a, dir, installed)
	}
	aim.Torch = aim.Release.Version
	return aim, err
}

// fromProject takes the release from the project's files, what is installed, or what is known.
func (aim *Aim) fromProject(a *atlas.Atlas, dir string, installed Installed) {
	torch, python, where := installed()
	p := readProject(dir, python)
	known := a.Releases("torch")
	defer func() { aim.Besides = append(aim.Besides, p.notes...) }()

	asking := slices.DeleteFunc(slices.Clone(p.pins), func(s statement) bool { return len(s.asks) == 0 })
	others := append(slices.Clone(asking), p.locks...)
	// What is said for other systems comes last by its rank: it is better than nothing, and than nothing else.
	forOthers := func(s statement) bool { return s.rank.system == 2 }
	if len(p.locks) > 0 || len(asking) > 0 && !forOthers(asking[0]) {
		asking = slices.DeleteFunc(asking, forOthers)
	}
	defer func() { aim.disagree(others) }()
	take := func(release, why string) {
		r, ok := exactly(known, release)
		if !ok {
			r, _ = exactly(known, (&atlas.UnknownRelease{Version: release, Known: known}).Nearest())
			why = "the nearest known to " + why
		}
		aim.Release, aim.Why = r, why
	}
	// The first statement, and those that leave something of what it allows.
	var agreed []statement
	allowed := known
	for _, s := range asking {
		both := s.asks.of(allowed)
		switch {
		case len(agreed) == 0 && len(both) == 0: // none that is known
			take(s.asks.wanted(), s.String())
			return
		case len(agreed) == 0, len(both) > 0 && len(both) < len(allowed) &&
			(!s.rank.optional || agreed[0].rank.optional):
			agreed, allowed = append(agreed, s), both
		}
	}
	allows := func(release string) bool {
		return !slices.ContainsFunc(agreed, func(s statement) bool { return !s.asks.allows(release) })
	}
	if len(agreed) > 0 && agreed[0].asks.exact() != "" {
		take(agreed[0].asks.exact(), agreed[0].String())
		return
	}
	for _, s := range p.locks {
		if release := s.asks.exact(); release != "" && allows(release) { // those of other systems come last
			take(release, s.String())
			return
		}
	}
	if v, ok := parseVersion(torch); ok && allows(torch) {
		take(v.String(), "the installed torch "+torch+": "+where)
		return
	}
	if torch != "" {
		aim.Besides = append(aim.Besides, fmt.Sprintf("torch %s is installed, %s: not what is asked for", torch,
			where))
	}
	aim.Release = allowed[len(allowed)-1]
	switch {
	case len(agreed) > 0:
		var ask []string
		for _, s := range agreed {
			ask = append(ask, s.String())
		}
		aim.Why = "the newest known for " + strings.Join(ask, " and ")
	case len(p.pins) > 0:
		aim.Guessed = true
		aim.Why = "the newest known: " + p.pins[0].String() + " names no release"
	default:
		aim.Guessed = true
		aim.Why = "the newest known: no file of a project here names one"
	}
}

// exactly finds a known release by its numbers: 2.1 is 2.1.0 and not the last of its series.
func exactly(known []atlas.Release, release string) (atlas.Release, bool) {
	wanted, ok := parseVersion(release)
	if !ok {
		return atlas.Release{}, false
	}
	for _, r := range known {
		if v, ok := parseVersion(r.Version); ok && v.compare(wanted) == 0 {
			return r, true
		}
	}
	return atlas.Release{}, false
}

// disagree names the statements that ask for another release.
func (aim *Aim) disagree(others []statement) {
	var seen []string
	for _, s := range others {
		if text := s.String(); !s.asks.allows(aim.Release.Version) && !strings.HasSuffix(aim.Why, text) &&
			!slices.Contains(seen, text) && len(seen) < maxBesides {
			seen = append(seen, text)
			aim.Besides = append(aim.Besides, "another release is asked for: "+text)
		}
	}
}

// maxBesides is how many other statements an answer names.
const maxBesides = 4

// Setting is a value of a project's settings, and the file that it stands in.
type Setting struct{ Value, At string }

// ProjectSettings are what assay.toml ([target]), or pyproject.toml ([tool.assay.target]), says of the Mac aimed at.
// What earlier assays wrote to [check] is read as if it stood there.
type ProjectSettings struct{ Torch, Chip, MacOS Setting }

type settingsTable struct {
	Torch string `toml:"torch"`
	Chip  string `toml:"chip"`
	MacOS string `toml:"macos"`
}

// FindProjectSettings reads the settings of the nearest folder, from dir upwards, that has any. The error names the
// file and the line.
func FindProjectSettings(dir string) (ProjectSettings, error) {
	folder := dir
	for range maxDepth {
		for _, name := range []string{"assay.toml", "pyproject.toml"} {
			data, err := readRegular(filepath.Join(folder, name), maxManifest)
			if err != nil {
				continue // audit.FindSettings says so of one that is there; a project without one has none
			}
			s, found, err := parseProjectSettings(name, data)
			if err != nil && name == "pyproject.toml" && !bytes.Contains(data, []byte("tool.assay")) {
				continue // not ours to judge
			}
			if err != nil {
				err = fmt.Errorf("read the settings in %s: %w", filepath.Join(folder, name), err)
				return ProjectSettings{}, fault.Hint(err, "docs/check.md lists the settings")
			}
			if found {
				at := filepath.Join(folder, name)
				if rel, err := filepath.Rel(dir, at); err == nil {
					at = filepath.ToSlash(rel)
				}
				for _, setting := range []*Setting{&s.Torch, &s.Chip, &s.MacOS} {
					setting.At = at
				}
				return s, nil
			}
		}
		if filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	return ProjectSettings{}, nil
}

func parseProjectSettings(name string, data []byte) (ProjectSettings, bool, error) {
	type tables struct {
		Target *settingsTable `toml:"target"`
		Check  *settingsTable `toml:"check"`
	}
	var ours tables
	var pyproject struct {
		Tool struct {
			Assay *tables `toml:"assay"`
		} `toml:"tool"`
	}
	into, table := any(&ours), []string{"target"}
	if name == "pyproject.toml" {
		into, table = &pyproject, []string{"tool", "assay", "target"}
	}
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(into)
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		err = nil
		for _, e := range strict.Errors { // other tables belong to others
			if key := e.Key(); len(key) > len(table) && slices.Equal([]string(key[:len(table)]), table) {
				row, column := e.Position()
				return ProjectSettings{}, false, fmt.Errorf("line %d, column %d: [%s] has no setting %q", row, column,
					strings.Join(table, "."), strings.Join(key[len(table):], "."))
			}
		}
	}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		row, column := at.Position()
		err = fmt.Errorf("line %d, column %d: %w", row, column, err)
	}
	if err != nil {
		return ProjectSettings{}, false, err
	}
	if name == "pyproject.toml" {
		if pyproject.Tool.Assay == nil {
			return ProjectSettings{}, false, nil
		}
		ours = *pyproject.Tool.Assay
	}
	var s ProjectSettings
	for _, set := range []struct {
		of    *settingsTable
		table string
	}{{ours.Check, "check"}, {ours.Target, "target"}} {
		if set.of == nil {
			continue
		}
		for _, v := range []struct {
			into  *Setting
			value string
			key   string
		}{{&s.Torch, set.of.Torch, "torch"}, {&s.Chip, set.of.Chip, "chip"}, {&s.MacOS, set.of.MacOS, "macos"}} {
			if v.value == "" {
				continue
			}
			if v.into.Value != "" && v.into.Value != v.value {
				return ProjectSettings{}, false,
					fmt.Errorf("[check] says %s = %q and [target] %q: leave that of [check] out",
						v.key, v.into.Value, v.value)
			}
			v.into.Value = v.value
		}
	}
	return s, ours.Check != nil || ours.Target != nil || name == "assay.toml", nil
}
