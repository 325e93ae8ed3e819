package host

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/testkit"
)

// TestScreenOf: a terminal says its size; a file, a pipe, /dev/null and a buffer are none. Asking leaves the modes of
// the file as they were: the script has it as well.
func TestScreenOf(t *testing.T) {
	far, screen := testkit.Terminal(t)
	if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 91}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.FcntlInt(screen.Fd(), unix.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if size, ok := ScreenOf(screen); !ok || size != (Screen{91, 33}) {
		t.Errorf("%+v %v", size, ok)
	}
	if after, err := unix.FcntlInt(screen.Fd(), unix.F_GETFL, 0); err != nil || after != before {
		t.Errorf("flags %o, then %o (%v)", before, after, err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, ok := ScreenOf(null); ok {
		t.Error("/dev/null is a terminal")
	}
	if _, ok := ScreenOf(file); ok {
		t.Error("a file is a terminal")
	}
	if _, ok := ScreenOf(&bytes.Buffer{}); ok {
		t.Error("a buffer is a terminal")
	}
}

// TestQuiet: a terminal whose foreground job we are not is another's, and so is one that is none.
func TestQuiet(t *testing.T) {
	_, screen := testkit.Terminal(t) // of no session
	if Quiet(screen) || Quiet(&bytes.Buffer{}) {
		t.Error("written where another draws")
	}
}
