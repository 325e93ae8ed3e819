package file

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestHome(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ofUser := ""
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		if info, err := os.Stat(u.HomeDir); err == nil && info.IsDir() {
			ofUser = u.HomeDir
		}
	}
	for _, c := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"as the environment says", []string{"HOME=" + dir}, dir},
		{"the last one counts", []string{"HOME=" + filepath.Join(dir, "none"), "HOMES=x", "HOME=" + dir}, dir},
		{"a home that must not be made", []string{"HOME=" + filepath.Join(dir, "none")}, ""},
		{"a file", []string{"HOME=" + file}, ""},
		{"not from the root", []string{"HOME=."}, ""},
		{"of the user database", nil, ofUser},
		{"empty is none", []string{"HOME="}, ofUser},
	} {
		if got := Home(c.environ); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTemps: the folders that Python's tempfile tries, in its order (Lib/tempfile.py, _candidate_tempdir_list).
func TestTemps(t *testing.T) {
	got := Temps([]string{"TMP=/c", "TMPDIR=here", "TEMP="}, "/work")
	if want := []string{"/work/here", "/c", "/tmp", "/var/tmp", "/usr/tmp", "/work"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Temps(nil, "/work"); len(got) != 4 {
		t.Errorf("nothing is set: %q", got)
	}
}

func TestTempTakesTheFirstThatLets(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "none"), t.TempDir()
	f, err := Temp([]string{"TMPDIR=" + first, "TEMP=" + second}, "/", "run")
	if err != nil {
		t.Fatal(err)
	}
	name, info := filepath.Base(f.Path), stat(t, f.Path)
	if filepath.Dir(f.Path) != second || !left.MatchString(name) || !strings.HasPrefix(name, "assay-run-") ||
		info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%s, %v", f.Path, info.Mode())
	}
	if _, free := lockFolder(f.Path); free {
		t.Error("it is not locked")
	}
	f.Remove()
	if _, err := os.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is not removed: %v", err)
	}
	if f, err := TempIn(first, "run"); f != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v, %v", f, err)
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// deadProcess is the number of a process that has ended and been waited for.
func deadProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestSweep: what killed runs left goes; whatever is in use, another's, or may be anything else stays.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	make := func(name string, files ...string) string {
		path := filepath.Join(parent, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(path, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	listen := func(path string) net.Listener { // an abandoned socket file stays where it is
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(path, "s"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return l
	}
	pid := func(path string, pid int) string {
		(&Folder{Path: path}).Leave(pid)
		return path
	}
	inUse, err := TempIn(parent, "run")
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Remove()
	stays := map[string]string{
		"a run that is under way":          inUse.Path,
		"a script that outlived its assay": pid(make("assay-run-11"), os.Getpid()),
		"another program's":                make("assay-run-x"),
		"a folder that lasts":              make("assay-uid-0"),
		"not ours":                         make("other-run-12"),
		"of an earlier assay, empty":       make("assay-100"),
		"a file called s is no socket":     make("assay-102", "s"),
	}
	goes := map[string]string{
		"what a killed run left":               make("assay-run-13", "events", "double.json"),
		"of another command":                   make("assay-try-14"),
		"its script has ended":                 pid(make("assay-run-15"), deadProcess(t)),
		"process 1 is nobody's script":         pid(make("assay-run-16"), 1),
		"the number of the process is garbled": pid(make("assay-demo-17"), 0),
	}
	old, alive := make("assay-103", "double.json"), make("assay-104")
	listen(old).Close()
	goes["of an earlier assay, its socket dead"] = old
	mixed := make("assay-101", "thesis.txt")
	listen(mixed).Close()
	stays["a dead socket beside other files"] = mixed
	defer listen(alive).Close()
	stays["of an earlier assay, under way"] = alive
	target := make("precious", "thesis.txt")
	link, plain := filepath.Join(parent, "assay-run-18"), filepath.Join(parent, "assay-run-19")
	if err := errors.Join(os.Symlink(target, link), os.WriteFile(plain, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	stays["what a link points to"], stays["a link"], stays["a file"] = filepath.Join(target, "thesis.txt"), link, plain
	if os.Getuid() == 0 {
		path := make("assay-run-20")
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		stays["another user's"] = path
	}
	Sweep([]string{"TMPDIR=" + parent, "TEMP=" + filepath.Join(parent, "none")}, parent)
	for what, path := range stays {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone: %v", what, err)
		}
	}
	for what, path := range goes {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", what, err)
		}
	}
}

// TestPrivate: the folder is this user's alone, is the same the next time, and where somebody else may have made it
// first, the next place is taken.
func TestPrivate(t *testing.T) {
	name := "assay-uid-" + strconv.Itoa(os.Getuid())
	for what, occupy := range map[string]func(path string) error{
		"nothing is in the way": func(string) error { return nil },
		"a link":                func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":                func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"open to others": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700),
				os.Chmod(path, 0o750))
		},
		"no folder to make it in": func(path string) error { return os.Remove(filepath.Dir(path)) },
		"another user's": func(path string) error {
			if os.Getuid() != 0 {
				return os.Symlink("/", path)
			}
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 12345, 12345))
		},
	} {
		first, second := t.TempDir(), t.TempDir()
		if err := occupy(filepath.Join(first, name)); err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(second, name)
		if what == "nothing is in the way" {
			want = filepath.Join(first, name)
		}
		for range 2 {
			got, err := Private([]string{"TMPDIR=" + first, "TEMP=" + second}, "/")
			if err != nil || got != want {
				t.Fatalf("%s: %s, %v; want %s", what, got, err, want)
			}
			if mode := stat(t, got).Mode(); mode != fs.ModeDir|0o700 {
				t.Errorf("%s: %v", what, mode)
			}
			holds(t, got)
		}
	}
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	if err := Writable(dir); err != nil {
		t.Error(err)
	}
	holds(t, dir) // nothing is left of the trial
	if err := Writable(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
