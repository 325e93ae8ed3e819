package file

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// partName is what a file is called while it is written: a dot, so that nothing takes it for one of its folder.
const partName = ".part-"

// Parts are the files that a killed Write left in the folder.
func Parts(folder string) []string {
	left, _ := filepath.Glob(filepath.Join(folder, partName+"*")) // of a pattern that is well formed
	return left
}

// Write writes a file whole, with these permissions, whatever lay there: under a temporary name beside it, synced, then
// renamed, and the folder synced. Where it fails, what lay there lies there still, and nothing beside it. An error of
// write is given back as it is.
func Write(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), partName)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err = write(w); err != nil {
		return err
	}
	if err = w.Flush(); err != nil {
		return err
	}
	if mode != 0o600 { // what it was made with; some file systems know no permissions, and refuse
		if err = f.Chmod(mode); err != nil {
			return err
		}
	}
	return Settle(f, path)
}

// Settle makes a file that was written under another name in the same folder the one at path: synced, closed, renamed,
// and the folder synced. Where it fails, the file under its own name is the caller's still.
func Settle(f *os.File, path string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Rewrite replaces the content of a file of somebody's, as Write does: its permissions stay, and a link stays a link. A
// new one has 0644.
func Rewrite(path string, content []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Write(path, mode, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// SyncFolder makes a rename in the folder last through a loss of power, on file systems that can: others refuse, and
// some folders may be written to and not opened.
func SyncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) &&
		!errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
