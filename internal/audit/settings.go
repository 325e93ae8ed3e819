package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Settings are what a project says of its checks: the table [check] of assay.toml, or [tool.assay.check] of
// pyproject.toml.
// The command line goes first.
type Settings struct {
	Torch    string   `toml:"torch"`    // read by target.FindProjectSettings, for every command
	MacOS    string   `toml:"macos"`    // likewise; earlier assays wrote both here
	Chip     string   `toml:"chip"`     // likewise
	Device   string   `toml:"device"`   // mps, cpu, cuda
	Select   []string `toml:"select"`   // rules to look for; all where empty
	Ignore   []string `toml:"ignore"`   // rules not to look for
	Exclude  []string `toml:"exclude"`  // in .gitignore's form
	Baseline string   `toml:"baseline"` // file, beside the settings
	Sure     bool     `toml:"sure"`     // leave out what is only suspected

	Path string `toml:"-"` // the file they come from; "" for none
}

// FindSettings reads the settings of the nearest folder, from dir upwards, that has any.
func FindSettings(dir string) (Settings, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Settings{}, err
	}
	for {
		for _, name := range []string{"assay.toml", "pyproject.toml"} {
			path := filepath.Join(dir, name)
			raw, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return Settings{}, fmt.Errorf("read the settings: %w", err)
			}
			s, found, err := parseSettings(name, raw)
			if err != nil {
				return Settings{}, fmt.Errorf("read the settings in %s: %w", path, err)
			}
			if found {
				s.Path = path
				return s, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return Settings{}, nil
		}
		dir = filepath.Dir(dir)
	}
}

func parseSettings(name string, raw []byte) (s Settings, found bool, err error) {
	var ours struct {
		Check Settings `toml:"check"`
	}
	var pyproject struct {
		Tool struct {
			Assay *struct {
				Check *Settings `toml:"check"`
			} `toml:"assay"`
		} `toml:"tool"`
	}
	into, table := any(&ours), []string{"check"}
	if name == "pyproject.toml" {
		into, table = &pyproject, []string{"tool", "assay", "check"}
	}
	err = toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields().Decode(into)
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		err = nil
		for _, e := range strict.Errors { // other tables belong to others
			if key := e.Key(); len(key) > len(table) && slices.Equal([]string(key[:len(table)]), table) {
				row, column := e.Position()
				return s, false, fmt.Errorf("line %d, column %d: [%s] has no setting %q", row, column,
					strings.Join(table, "."), strings.Join(key[len(table):], "."))
			}
		}
	}
	if err != nil {
		return s, false, tomlError(err)
	}
	if name != "pyproject.toml" {
		return ours.Check, true, nil
	}
	if a := pyproject.Tool.Assay; a != nil && a.Check != nil {
		return *a.Check, true, nil
	}
	return s, false, nil
}

func tomlError(err error) error {
	var d *toml.DecodeError
	if errors.As(err, &d) {
		row, column := d.Position()
		return fmt.Errorf("line %d, column %d: %w", row, column, err)
	}
	return err
}

// Excludes are the settings' patterns, which speak of the folder that the settings stand in.
func (s Settings) Excludes() []Exclude {
	if s.Path == "" || len(s.Exclude) == 0 {
		return nil
	}
	return []Exclude{{filepath.Dir(s.Path), s.Exclude}}
}
