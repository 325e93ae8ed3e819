// Package file finds folders that can be written, whatever the environment says of them, and makes them for this user
// alone.
package file

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Home is the user's home folder: $HOME, else the one of the user database (units and containers often have no $HOME).
// "" where there is none, or where it is no folder: /nonexistent is a home that must not be made.
func Home(environ []string) string {
	home := value(environ, "HOME")
	if home == "" {
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			home = u.HomeDir
		}
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() || !filepath.IsAbs(home) {
		return ""
	}
	return home
}

// Temps are the folders for temporary files, the first to be tried first: those that Python's tempfile tries
// (_candidate_tempdir_list), so that assay finds one wherever the script does. dir is the working folder.
func Temps(environ []string, dir string) []string {
	var list []string
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		if v := value(environ, name); v != "" {
			if !filepath.IsAbs(v) {
				v = filepath.Join(dir, v)
			}
			list = append(list, v)
		}
	}
	return append(list, "/tmp", "/var/tmp", "/usr/tmp", dir)
}

// Folder is a temporary folder that only this user can enter. While the process that made it lives it holds a lock on
// it, so that Sweep tells those that were left behind from those in use.
type Folder struct {
	Path string
	lock *os.File
}

// Temp makes the folder assay-NAME-N in the first of Temps that lets it. The error names what every one of them said.
func Temp(environ []string, dir, name string) (*Folder, error) {
	var all []error
	for _, parent := range Temps(environ, dir) {
		f, err := TempIn(parent, name)
		if err == nil {
			return f, nil
		}
		all = append(all, err)
	}
	return nil, fmt.Errorf("make a temporary folder: %w", errors.Join(all...))
}

// TempIn makes the folder assay-NAME-N in parent.
func TempIn(parent, name string) (*Folder, error) {
	for range 100 { // a sweep that takes the new folder for an old one, before it is locked, has its way
		path, err := os.MkdirTemp(parent, "assay-"+name+"-")
		if err != nil {
			return nil, err
		}
		lock, free := lockFolder(path)
		if free {
			return &Folder{Path: path, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("lock a folder in %s: %w", parent, syscall.EAGAIN)
}

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() {
	os.RemoveAll(f.Path)
	f.lock.Close()
}

// Leave writes into the folder which process goes on using it when this one has ended: Sweep then waits for that one as
// well.
func (f *Folder) Leave(pid int) {
	_ = os.WriteFile(filepath.Join(f.Path, userFile), []byte(strconv.Itoa(pid)), 0o600)
}

const userFile = "pid"

// lockFolder locks the folder at path for this process. free is false where another has it, where it is gone, and where
// what lies there is no folder of this user's own.
func lockFolder(path string) (lock *os.File, free bool) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	lock = os.NewFile(uintptr(fd), path)
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, false
	}
	opened, err := lock.Stat()
	there, err2 := os.Lstat(path)
	if err != nil || err2 != nil || !os.SameFile(opened, there) ||
		opened.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		lock.Close()
		return nil, false
	}
	return lock, true
}

// left are the names of folders that Temp makes, and of those that assay made before it locked them: assay-123, with a
// socket.
var left = regexp.MustCompile(`^assay-((run|demo|try|tests|smoke|pack)-)?\d+$`)

// Sweep removes the folders that killed runs of this user left in Temps. One that a living process uses, or that
// anybody else may own, stays.
func Sweep(environ []string, dir string) {
	for _, parent := range Temps(environ, dir) {
		SweepIn(parent)
	}
}

// SweepIn is Sweep of one folder, for those that TempIn made there.
func SweepIn(parent string) {
	open, err := os.Open(parent)
	if err != nil {
		return
	}
	names, _ := open.Readdirnames(-1)
	open.Close()
	for _, name := range names {
		if left.MatchString(name) {
			sweep(filepath.Join(parent, name))
		}
	}
}

func sweep(path string) {
	lock, free := lockFolder(path)
	if !free {
		return
	}
	defer lock.Close()
	if data, err := os.ReadFile(filepath.Join(path, userFile)); err == nil {
		if pid, err := strconv.Atoi(string(data)); err == nil && pid > 1 &&
			!errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return // the script has outlived its assay
		}
	}
	if !strings.Contains(strings.TrimPrefix(filepath.Base(path), "assay-"), "-") {
		// Made by an assay that did not lock: nothing but its socket, dead, and its table tell that it was one.
		entries, err := os.ReadDir(path)
		if err != nil || len(entries) == 0 {
			return
		}
		for _, e := range entries {
			if e.Name() != "s" && e.Name() != "double.json" {
				return
			}
		}
		if info, err := os.Lstat(filepath.Join(path, "s")); err != nil || info.Mode()&os.ModeSocket == 0 {
			return // connect(2) refuses what is no socket, too
		}
		if !deadSocket(filepath.Join(path, "s")) {
			return
		}
	}
	os.RemoveAll(path)
}

// deadSocket says whether nobody listens at the Unix socket at path.
func deadSocket(path string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return errors.Is(syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}), syscall.ECONNREFUSED)
}

// Private is a folder of this user's own that lasts, assay-uid-N in the first of Temps that lets it: for what belongs
// below a home folder where there is none that can be written. In a folder that all may write to somebody else may have
// made it first, or put a link in its place: then the next is tried.
func Private(environ []string, dir string) (string, error) {
	var all []error
	for _, parent := range Temps(environ, dir) {
		path := filepath.Join(parent, "assay-uid-"+strconv.Itoa(os.Getuid()))
		err := os.Mkdir(path, 0o700)
		if err != nil && !errors.Is(err, os.ErrExist) {
			all = append(all, err)
			continue
		}
		info, err := os.Lstat(path)
		switch {
		case err != nil:
		case !info.IsDir():
			err = fmt.Errorf("%s is no folder", path)
		case info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()):
			err = fmt.Errorf("%s is another user's", path)
		case info.Mode().Perm()&0o077 != 0:
			err = fmt.Errorf("%s is open to other users", path)
		default:
			err = Writable(path)
		}
		if err == nil {
			return path, nil
		}
		all = append(all, err)
	}
	return "", fmt.Errorf("make a folder of this user's own: %w", errors.Join(all...))
}

// Writable says why nothing can be made in the folder; nil where it can. It tries: permissions do not tell of a file
// system that is mounted read-only.
func Writable(folder string) error {
	f, err := os.CreateTemp(folder, ".part-")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func value(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}
