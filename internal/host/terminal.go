package host

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Screen is the size of a terminal in characters; 0 where it does not say.
type Screen struct{ Columns, Rows int }

// ScreenOf asks the terminal that w writes to for its size; not ok where that is none.
func ScreenOf(w io.Writer) (screen Screen, ok bool) {
	ask(w, func(fd int) {
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			screen, ok = Screen{int(size.Col), int(size.Row)}, true
		}
	})
	return screen, ok
}

// Quiet says whether a line written to the terminal w disturbs nobody who draws there: we are of its foreground job,
// and no program has taken it over, as editors, debuggers and prompts do that read key by key (ICANON is off).
func Quiet(w io.Writer) (quiet bool) {
	ask(w, func(fd int) {
		modes, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return
		}
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		quiet = err == nil && group == unix.Getpgrp() && modes.Lflag&unix.ICANON != 0 && modes.Oflag&unix.OPOST != 0
	})
	return quiet
}

// ask calls f with the descriptor of a file; not at all where w is none.
func ask(w io.Writer, f func(fd int)) {
	file, isFile := w.(*os.File)
	if !isFile {
		return
	}
	if conn, err := file.SyscallConn(); err == nil { // Fd would make the file block, for the script as well
		_ = conn.Control(func(fd uintptr) { f(int(fd)) })
	}
}
