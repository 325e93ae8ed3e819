package host

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

func thisMachine() machine {
	h := &procHost{tool: runTool, read: readSmall, self: ownTime}
	for _, p := range []string{"nvidia-smi", "/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"} {
		if found, err := exec.LookPath(p); err == nil {
			h.smi = found
			break
		}
	}
	return h
}

// ownTime is the processor time of this process, in seconds.
func ownTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// readSmall reads a file of /proc or /sys. os.ReadFile would also stat it and offer it to the poller, which doubles the
// cost of a sample with hundreds of processes.
func readSmall(path string) ([]byte, error) {
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	text := make([]byte, 0, 1024)
	for {
		n, err := ignoringEINTR(func() (int, error) { return syscall.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n <= 0 {
			return text, nil
		}
		text = text[:len(text)+n]
		if len(text) > 16<<20 {
			return nil, &os.PathError{Op: "read", Path: path, Err: errors.Join(io.ErrShortBuffer,
				errors.New("larger than 16 MiB"))}
		}
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
	}
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
