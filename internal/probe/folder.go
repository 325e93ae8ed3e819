package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"assay/internal/fault"
)

// OwnFolder makes assay's own folder (.assay), which only its owner can enter and git passes over: what is kept there
// is no change of the project's. One that an earlier assay left open to others is closed. A .gitignore that is there
// stays as it is.
func OwnFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Hint(fmt.Errorf("make the folder %s: %w", dir, err),
			"choose another place with --out, or --logbook")
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 && isMine(info) {
		_ = os.Chmod(dir, 0o700) // a file system without permissions has none to change
	}
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString("*\n")
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	return nil
}

// isMine says whether a file belongs to the user who runs assay.
func isMine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// newRunDir makes the run's folder for its owner alone, in assay's own folder where one is named.
func newRunDir(home, dir string) error {
	if home != "" {
		if err := OwnFolder(home); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Hint(fmt.Errorf("make the run's folder: %w", err), "choose another with --out")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the run's folder: %w", err)
	}
	if len(entries) > 0 {
		return fault.Hint(fmt.Errorf("the run's folder %s is not empty", dir),
			"name a new one with --out; what is recorded is never written over")
	}
	return nil
}
