package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// Settings are what a project says of its checks: the table [check] of assay.toml, or [tool.assay.check] of pyproject.toml.
// The command line goes first.
type Settings struct {
	Torch    string   `toml:"torch"`    // release aimed at: "2.8"
	Device   string   `toml:"device"`   // mps, cpu, cuda
	MacOS    string   `toml:"macos"`    // "15"
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
	if name == "pyproject.toml" {
		var p struct {
			Tool struct {
				Assay *struct {
					Check map[string]any `toml:"check"`
				} `toml:"assay"`
			} `toml:"tool"`
		}
		if err := toml.Unmarshal(raw, &p); err != nil {
			return s, false, tomlError(err)
		}
		if p.Tool.Assay == nil || p.Tool.Assay.Check == nil {
			return s, false, nil
		}
		raw, err = toml.Marshal(map[string]any{"check": p.Tool.Assay.Check})
		if err != nil {
			return s, false, err
		}
	}
	var t struct {
		Check Settings `toml:"check"`
	}
	d := toml.NewDecoder(bytes.NewReader(raw))
	if name == "pyproject.toml" {
		d = d.DisallowUnknownFields()
	}
	if err := d.Decode(&t); err != nil {
		return s, false, tomlError(err)
	}
	if name != "pyproject.toml" { // other tables of assay.toml belong to other commands
		var tables map[string]any
		if err := toml.Unmarshal(raw, &tables); err != nil {
			return s, false, tomlError(err)
		}
		if c, ok := tables["check"].(map[string]any); ok {
			known := map[string]bool{"torch": true, "device": true, "macos": true, "select": true, "ignore": true, "exclude": true, "baseline": true, "sure": true}
			for key := range c {
				if !known[key] {
					return s, false, fmt.Errorf("[check] has no setting %q", key)
				}
			}
		}
	}
	return t.Check, true, nil
}

func tomlError(err error) error {
	var d *toml.DecodeError
	if errors.As(err, &d) {
		row, column := d.Position()
		return fmt.Errorf("line %d, column %d: %w", row, column, err)
	}
	var s *toml.StrictMissingError
	if errors.As(err, &s) && len(s.Errors) > 0 {
		return fmt.Errorf("[tool.assay.check] has no setting %q", s.Errors[0].Key()[len(s.Errors[0].Key())-1])
	}
	return err
}
