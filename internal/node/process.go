package node

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// process is one of the host's. A number is given out again; with its start it is not.
type process struct {
	pid    int
	start  uint64 // as the system says it: Linux clock ticks since the host's start, macOS microseconds of its clock
	parent int
	dead   bool // ended, and not waited for yet
}

// like is what tells one process from every other of this start of the host.
type like struct {
	pid   int
	start uint64
}

func (p process) like() like { return like{p.pid, p.start} }

// parseStat reads /proc/PID/stat of Linux (proc(5)): number, name in parentheses, which may hold anything, then state,
// parent, … A leader that has ended while other threads of it go on is alive.
func parseStat(text []byte) (process, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return process{}, fmt.Errorf("no name in parentheses")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	fields := strings.Fields(string(text[end+1:]))
	if err != nil || len(fields) < 20 {
		return process{}, fmt.Errorf("%d fields behind the name", len(fields))
	}
	p := process{pid: pid}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return process{}, fmt.Errorf("parent: %w", err)
	}
	threads, err := strconv.Atoi(fields[17])
	if err != nil {
		return process{}, fmt.Errorf("threads: %w", err)
	}
	if p.start, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return process{}, fmt.Errorf("start: %w", err)
	}
	switch fields[0] {
	case "Z":
		p.dead = threads <= 1
	case "X", "x":
		p.dead = true
	}
	return p, nil
}

// parseProcargs takes the environment, name=value each ended by a NUL, out of what macOS's sysctl kern.procargs2 says
// of a process: the number of arguments as four bytes, the program's path, NULs, the arguments, the environment, an
// empty string. nil: there is none in it, as of Apple's own programs, of which macOS does not tell it.
func parseProcargs(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	n := int(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
	b = b[4:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return nil
	}
	b = bytes.TrimLeft(b[end:], "\x00")
	for range n {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return nil
		}
		b = b[end+1:]
	}
	if end := bytes.Index(b, []byte{0, 0}); end >= 0 {
		b = b[:end+1]
	}
	return b
}

// hasVariable says whether an environment, name=value each ended by a NUL, has exactly this variable.
func hasVariable(environ []byte, variable string) bool {
	for len(environ) > 0 {
		var one []byte
		one, environ, _ = bytes.Cut(environ, []byte{0})
		if string(one) == variable {
			return true
		}
	}
	return false
}

// seconds of a duration.
func seconds(d time.Duration) float64 { return d.Seconds() }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
