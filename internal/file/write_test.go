package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func put(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

// holds says what the folder holds, and the permissions of one file of it.
func holds(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if len(got) != len(names) {
		t.Errorf("the folder holds %q, want %q", got, names)
	}
}

func isFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != content {
		t.Errorf("%s: %q, %v; want %q", path, data, err, content)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: %v, want %v", path, info.Mode(), mode)
	}
}

// TestWrite: the file is whole, has the permissions asked for whatever the umask and whatever was there, and nothing
// lies beside it.
func TestWrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	path := filepath.Join(dir, "evidence.json")
	for _, c := range []struct {
		text string
		mode fs.FileMode
	}{{"one", 0o600}, {"two", 0o644}, {"", 0o600}} {
		if err := Write(path, c.mode, put(c.text)); err != nil {
			t.Fatal(err)
		}
		isFile(t, path, c.text, c.mode)
		holds(t, dir, "evidence.json")
	}
	// A link is taken away, not followed: in a folder that all may write to it could point anywhere.
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("mine"), 0o600), os.Remove(path), os.Symlink(other, path),
		Write(path, 0o600, put("new"))); err != nil {
		t.Fatal(err)
	}
	isFile(t, path, "new", 0o600)
	isFile(t, other, "mine", 0o600)
}

// TestWriteThatFails: what lay there lies there still, nothing lies beside it, and the error is the cause itself.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "evidence.json")
	if err := Write(path, 0o600, put("old")); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no more of it")
	err := Write(path, 0o600, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil { // more than is buffered: it lies on the disk
			t.Fatal(err)
		}
		if parts := Parts(dir); len(parts) != 1 {
			t.Errorf("while it is written there are %q", parts)
		}
		return cause
	})
	if err != cause {
		t.Errorf("%v, want the cause", err)
	}
	isFile(t, path, "old", 0o600)
	holds(t, dir, "evidence.json")

	if err := Write(filepath.Join(dir, "none", "x"), 0o600, put("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), 0o600, put("x")); err == nil { // the rename fails
		t.Error("a folder was replaced by a file")
	}
	holds(t, dir, "evidence.json", "folder")
}

// TestWriteOnAFullDisk: what does not fit is an error, also where it is found only when the rest of a buffer is
// written. The limit of a file's size stands for the disk's.
func TestWriteOnAFullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "evidence.json")
	if err := Write(path, 0o600, put("old")); err != nil {
		t.Fatal(err)
	}
	small := before
	small.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := Write(path, 0o600, put(strings.Repeat("x", 1000)))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v, want %v", err, syscall.EFBIG)
	}
	isFile(t, path, "old", 0o600)
	holds(t, dir, "evidence.json")
}

// TestRewrite: the file's permissions stay, a link stays a link, and a new file can be read by all.
func TestRewrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.py"), filepath.Join(dir, "link.py")
	if err := errors.Join(os.WriteFile(real, []byte("old"), 0o700), os.Symlink("real.py", link),
		Rewrite(link, []byte("new"))); err != nil {
		t.Fatal(err)
	}
	isFile(t, real, "new", 0o700)
	if target, err := os.Readlink(link); err != nil || target != "real.py" {
		t.Errorf("the link is %q, %v", target, err)
	}
	fresh := filepath.Join(dir, "fresh")
	if err := Rewrite(fresh, []byte("new")); err != nil {
		t.Fatal(err)
	}
	isFile(t, fresh, "new", 0o644)
	holds(t, dir, "real.py", "link.py", "fresh")
	if err := Rewrite(filepath.Join(fresh, "below"), nil); err == nil {
		t.Error("a file below a file")
	}
}
