// Package launch starts a command on a machine and says how it ended. What is done beside the command (watching, adding
// up) is not its business. Local, this machine, is the one Launcher there is.
package launch

import (
	"io"
	"syscall"
)

// Command is what a Launcher starts.
type Command struct {
	Path    string   // the program, as Look found it
	Args    []string // its name first
	Environ []string // name=value
	Dir     string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer

	// Guard is deferred in each goroutine that goes on beside the command, with what it was doing: recover() in it sees
	// a panic of ours, which must not happen to the command. nil: none.
	Guard func(doing string)
}

// Launcher starts commands on one machine, one after another.
type Launcher interface {
	// Look finds a program by the PATH and the folder that it is to run with; its error carries the exit status of a
	// shell (126, 127).
	Look(name string, environ []string, dir string) (path string, err error)
	// Start starts a command. From then on until Release signals that reach assay are the command's, and end assay no
	// more.
	Start(c Command) (Process, error)
	Release()
	Close()
}

// Process is a command that was started.
type Process interface {
	PID() int
	Ended() <-chan struct{}  // closed when it has been waited for
	Ending() (Ending, error) // of one that has ended; the error: nobody can say how
	Signal(s syscall.Signal) // sends it a signal; nothing where it has ended
}

// Ending is how a command ended.
type Ending struct {
	Exit   int            // its status; 128 + n where a signal ended it, as a shell says it
	Signal syscall.Signal // 0: none
}
