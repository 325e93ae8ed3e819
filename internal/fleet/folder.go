package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"assay/internal/events"
	"assay/internal/file"
	"assay/internal/node"
)

// fileForm is what a file of a run's folder may be called: no path, and none that is hidden.
var fileForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// maxFile bounds a file that comes home, bytes.
const maxFile = 4 << 30

// arriving is how the name of a file begins of which a part has come.
const arriving = ".arriving-"

// grows reports whether a file comes home while it is written.
func grows(name string) bool {
	return name == events.FileName || name == node.Stdout || name == node.Stderr
}

// folder is the folder of a run that comes home from elsewhere. While its events come, its file of events is locked as
// by an assay run here, so that who follows the run knows that it goes on.
type folder struct {
	path   string
	mu     sync.Mutex
	open   map[string]*os.File
	sealed bool // settled: nothing more is written
}

func (f *folder) exists() bool {
	_, err := os.Stat(f.path)
	return err == nil
}

// file opens one for writing, and keeps it open. The lock is held.
func (f *folder) file(name string) (*os.File, error) {
	if !fileForm.MatchString(name) {
		return nil, fmt.Errorf("a run has no file %q", name)
	}
	if o := f.open[name]; o != nil {
		return o, nil
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return nil, err
	}
	at := name
	if !grows(name) {
		at = arriving + name
	}
	o, err := os.OpenFile(filepath.Join(f.path, at), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if name == events.FileName {
		_ = syscall.Flock(int(o.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // where the file system has locks
	}
	if f.open == nil {
		f.open = map[string]*os.File{}
	}
	f.open[name] = o
	return o, nil
}

func (f *folder) append(name string, at int64, b []byte) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sealed {
		return at + int64(len(b)), nil
	}
	o, err := f.file(name)
	if err != nil {
		return 0, err
	}
	info, err := o.Stat()
	if err != nil {
		return 0, err
	}
	have := info.Size()
	switch {
	case at < 0 || at > have:
		return have, fmt.Errorf("%s of %s: a piece at %d, and %d bytes are here", name, filepath.Base(f.path), at, have)
	case at+int64(len(b)) <= have:
		return have, nil
	case at+int64(len(b)) > maxFile:
		return have, fmt.Errorf("%s of %s is larger than %d bytes", name, filepath.Base(f.path), int64(maxFile))
	}
	b = b[have-at:]
	n, err := o.Write(b)
	return have + int64(n), err
}

func (f *folder) have(name string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !fileForm.MatchString(name) {
		return 0, fmt.Errorf("a run has no file %q", name)
	}
	at := name
	if !grows(name) {
		if info, err := os.Stat(filepath.Join(f.path, name)); err == nil {
			return info.Size(), nil
		}
		at = arriving + name
	}
	info, err := os.Stat(filepath.Join(f.path, at))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// whole puts a file of this size into its place.
func (f *folder) whole(name string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sealed {
		return nil
	}
	if !grows(name) {
		if _, err := os.Stat(filepath.Join(f.path, name)); err == nil {
			return nil
		}
	}
	o, err := f.file(name)
	if err != nil {
		return err
	}
	info, err := o.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("%s of %s: %d bytes are here of %d", name, filepath.Base(f.path), info.Size(), size)
	}
	if grows(name) {
		return nil
	}
	delete(f.open, name)
	if err := file.Settle(o, filepath.Join(f.path, name)); err != nil {
		o.Close()
		return err
	}
	return nil
}

// settle brings what has come to the disk, lets it go, and removes what has not come whole.
func (f *folder) settle() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed = true
	var err error
	for name, o := range f.open {
		if grows(name) {
			err = errors.Join(err, o.Sync())
		}
		err = errors.Join(err, o.Close())
	}
	f.open = nil
	entries, readErr := os.ReadDir(f.path)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		return errors.Join(err, readErr)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), arriving) {
			err = errors.Join(err, os.Remove(filepath.Join(f.path, e.Name())))
		}
	}
	return err
}

// close lets the files go, as a driver's end does.
func (f *folder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.open {
		o.Close()
	}
	f.open = nil
}
