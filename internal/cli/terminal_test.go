package cli

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/testkit"
)

// TestWidthAndColours: the terminal is asked, and the environment by the usual conventions; a file, a pipe and
// /dev/null are no terminal.
func TestWidthAndColours(t *testing.T) {
	master, slave := testkit.Terminal(t)
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 57}); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		environ        []string
		onTerminal     bool // colours there
		elsewhere      bool // and in a pipe
		columns, piped int
	}{
		{nil, true, false, 57, 0},
		{[]string{"COLUMNS=99"}, true, false, 99, 99},
		{[]string{"COLUMNS=none"}, true, false, 57, 0},
		{[]string{"COLUMNS=-3"}, true, false, 57, 0},
		{[]string{"NO_COLOR=1"}, false, false, 57, 0},
		{[]string{"NO_COLOR="}, true, false, 57, 0},
		{[]string{"NO_COLOR=1", "FORCE_COLOR=1"}, false, false, 57, 0},
		{[]string{"FORCE_COLOR=1"}, true, true, 57, 0},
		{[]string{"FORCE_COLOR=0"}, true, false, 57, 0},
		{[]string{"CLICOLOR_FORCE=1", "TERM=dumb"}, true, true, 57, 0},
		{[]string{"CLICOLOR=0"}, false, false, 57, 0},
		{[]string{"TERM=dumb"}, false, false, 57, 0},
	} {
		env := &Env{Environ: c.environ}
		form := summary(env, slave)
		if form.Color != c.onTerminal || form.Width != c.columns {
			t.Errorf("%q: on a terminal %+v", c.environ, form)
		}
		if form := summary(env, &bytes.Buffer{}); form.Color != c.elsewhere || form.Width != c.piped {
			t.Errorf("%q: in a pipe %+v", c.environ, form)
		}
		if form := summary(env, null); form.Color != c.elsewhere || form.Width != c.piped {
			t.Errorf("%q: %s %+v", c.environ, os.DevNull, form)
		}
	}
}
