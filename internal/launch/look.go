package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
)

// Look finds the program as execvp would with the run's own PATH and folder.
func (*Local) Look(name string, environ []string, dir string) (string, error) {
	try := func(path string) (string, error) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return "", err
		case info.IsDir():
			return "", errors.New("is a folder")
		case info.Mode()&0o111 == 0:
			return "", os.ErrPermission
		}
		return path, nil
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if _, err := try(path); errors.Is(err, os.ErrNotExist) {
			return "", fault.Exit(fault.Hint(fmt.Errorf("run %s: no such file", name),
				"check the path; the command stands after --"), fault.NotFound)
		} else if err != nil {
			return "", fault.Exit(fmt.Errorf("run %s: cannot be executed: %w", name, err), fault.NotRunnable)
		}
		return path, nil
	}
	var paths string
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			paths = v
		}
	}
	var refused error
	for _, folder := range filepath.SplitList(paths) {
		if folder == "" {
			folder = "."
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		path, err := try(filepath.Join(folder, name))
		if err == nil {
			return path, nil
		}
		if errors.Is(err, os.ErrPermission) {
			refused = err
		}
	}
	if refused != nil {
		return "", fault.Exit(fmt.Errorf("run %s: cannot be executed: %w", name, refused), fault.NotRunnable)
	}
	return "", fault.Exit(fault.Hint(fmt.Errorf("run %s: not found on PATH", name),
		"name the program by its path, or the interpreter with --python"), fault.NotFound)
}
