// Package agent carries the Python package that assay puts into a training process.
package agent

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// A bare folder name would leave out files that begin with an underscore: __init__.py among them.
//
//go:embed boot/*.py assay_agent/*.py assay_agent/*/*.py assay_agent/*/*/*.py assay_agent/*/*.txt assay_agent/*/*.json
var files embed.FS

// Variable is the environment variable that configures the agent; its value is JSON.
const Variable = "ASSAY_AGENT"

// Protocol is the version of the event stream that the embedded agent speaks (docs/formats/events.md).
const Protocol = 2

// Installed says where the agent lies on disk.
type Installed struct {
	Boot     string // folder to put first on PYTHONPATH
	Notebook string // program that runs a notebook's cells
	Attempt  string // program that tries models
	Limits   string // program that says the limits of memory of some Macs
	Golden   string // program that records what a model computes
	Replay   string // program that replays signatures
}

// Install writes the agent below cache, in a folder named by its content, unless it is there already. The folder
// appears whole: it is written under a temporary name and renamed.
func Install(cache string) (Installed, error) {
	names, err := list()
	if err != nil {
		return Installed{}, err
	}
	sum := sha256.New()
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return Installed{}, err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	root := filepath.Join(cache, "agent", hex.EncodeToString(sum.Sum(nil))[:16])
	at := Installed{Boot: filepath.Join(root, "boot"), Notebook: filepath.Join(root, "assay_agent", "notebook.py"),
		Attempt: filepath.Join(root, "assay_agent", "attempt.py"),
		Limits:  filepath.Join(root, "assay_agent", "limits.py"),
		Golden:  filepath.Join(root, "assay_agent", "golden", "record.py"),
		Replay:  filepath.Join(root, "assay_agent", "replay", "worker.py")}
	if _, err := os.Stat(filepath.Join(root, "boot", "sitecustomize.py")); err == nil {
		return at, nil
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return Installed{}, fmt.Errorf("install the agent: %w", err)
	}
	sweep(filepath.Dir(root))
	temp, err := os.MkdirTemp(filepath.Dir(root), ".new-")
	if err != nil {
		return Installed{}, fmt.Errorf("install the agent: %w", err)
	}
	defer os.RemoveAll(temp)
	for _, name := range names {
		data, _ := files.ReadFile(name)
		path := filepath.Join(temp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return Installed{}, fmt.Errorf("install the agent: %w", err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return Installed{}, fmt.Errorf("install the agent: %w", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return Installed{}, fmt.Errorf("install the agent: %w", err)
	}
	if err := os.Rename(temp, root); err != nil {
		// Another run was faster: what lies there has the same name and so the same content.
		if _, statErr := os.Stat(filepath.Join(root, "boot", "sitecustomize.py")); statErr != nil {
			return Installed{}, fmt.Errorf("install the agent: %w", err)
		}
	}
	return at, nil
}

// sweep removes what runs that were killed while they unpacked left behind: unpacking takes milliseconds.
func sweep(folder string) {
	left, _ := filepath.Glob(filepath.Join(folder, ".new-*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(path)
		}
	}
}

func list() ([]string, error) {
	var names []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	sort.Strings(names)
	return names, err
}
