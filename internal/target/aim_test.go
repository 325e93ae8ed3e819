package target

import (
	"os"
	"path/filepath"
	"testing"

	"assay/internal/atlas"
)

// write makes a folder that holds files, by their paths.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aimAt is the aim of a folder with files, in an environment with a torch.
func aimAt(t *testing.T, a *atlas.Atlas, files map[string]string, on Target, installed string) (Aim, error) {
	t.Helper()
	dir := write(t, files)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil { // nothing above it is looked at
		t.Fatal(err)
	}
	return AimAt(a, dir, Words{Torch: on.Release, Chip: on.Chip, MacOS: on.MacOS},
		func() (torch, python, where string) { return installed, "3.11.7", "here" })
}
