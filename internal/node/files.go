package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"assay/internal/fault"
)

// runFiles are what can be read of a run's folder; nothing else of a job can be, beside what it printed.
var runFiles = []string{"events.jsonl", "evidence.json", "report.html", "trace.json.gz"}

// open opens one of a job's files by its name in the protocol. What lies there was made by the job: a link, a folder, a
// pipe is none of it.
func (p folder) open(name string) (*os.File, int64, error) {
	path := name
	switch {
	case slices.Contains(runFiles, name):
		path = filepath.Join(runFolder, name)
	case name != Stdout && name != Stderr:
		return nil, 0, fault.Hint(fmt.Errorf("read %q: no such file of a job", name),
			"stdout, stderr and the files of its run's folder can be read")
	}
	within, err := os.OpenRoot(string(p))
	if err != nil {
		return nil, 0, err
	}
	defer within.Close()
	if slices.Contains(runFiles, name) {
		if folder, err := within.Lstat(runFolder); err != nil || !folder.IsDir() {
			return nil, 0, fs.ErrNotExist
		}
	}
	there, err := within.Lstat(path)
	if err != nil {
		return nil, 0, err
	}
	if !there.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("read %s: it is no ordinary file", path)
	}
	f, err := within.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, there) {
		f.Close()
		return nil, 0, errors.Join(err, fs.ErrNotExist)
	}
	return f, info.Size(), nil
}

// sizes are the job's files that are there, with their bytes.
func (p folder) sizes() map[string]int64 {
	all := map[string]int64{}
	for _, name := range slices.Concat([]string{Stdout, Stderr}, runFiles) {
		path := p.file(name)
		if slices.Contains(runFiles, name) {
			path = filepath.Join(string(p), runFolder, name)
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			all[name] = info.Size()
		}
	}
	return all
}

// read reads a piece of one of the job's files.
func (p folder) read(name string, at int64, into []byte) (n int, size int64, err error) {
	f, size, err := p.open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if at < 0 {
		return 0, 0, fmt.Errorf("read %s at %d: before its first byte", name, at)
	}
	n, err = f.ReadAt(into, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if n > 0 {
		size = max(size, at+int64(n)) // it has grown meanwhile
	}
	return n, size, err
}

// Bounds of what a job prints: a loop that prints without end fills no disk.
const (
	mostPrinted = 64 << 20  // bytes of each of stdout and stderr that are kept from the beginning
	lastPrinted = 256 << 10 // bytes of the end that are kept beside them: a traceback stands there
)

// printed keeps what a job prints to one of its streams. The job itself never waits for a disk, nor hears that it is
// full.
type printed struct {
	mu     sync.Mutex
	out    *os.File
	room   int64  // bytes that may still be kept
	last   []byte // of what came behind them
	left   int64  // bytes that came behind them
	failed int64  // bytes that could not be written
	why    error
	done   chan struct{} // closed when nobody can print any more
}

func newPrinted(path string) (*printed, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &printed{out: f, room: mostPrinted, done: make(chan struct{})}, nil
}

// copy takes what is printed until its end.
func (p *printed) copy(r io.Reader) {
	defer close(p.done)
	b := make([]byte, 64<<10)
	for {
		n, err := r.Read(b)
		p.take(b[:n])
		if err != nil {
			return
		}
	}
}

func (p *printed) take(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := b[:min(int64(len(b)), p.room)]
	p.room -= int64(len(keep))
	p.write(keep)
	if rest := b[len(keep):]; len(rest) > 0 {
		p.left += int64(len(rest))
		if p.last = append(p.last, rest...); len(p.last) > 2*lastPrinted {
			p.last = append(p.last[:0], p.last[len(p.last)-lastPrinted:]...)
		}
	}
}

func (p *printed) write(b []byte) {
	if n, err := p.out.Write(b); err != nil {
		p.failed, p.why = p.failed+int64(len(b)-n), err
	}
}

// trouble is what of it could not be kept; "": nothing.
func (p *printed) trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == 0 {
		return ""
	}
	why := p.why
	var path *fs.PathError
	if errors.As(why, &path) {
		why = path.Err
	}
	return fmt.Sprintf("%d bytes of %s are not kept: %v", p.failed, filepath.Base(p.out.Name()), why)
}

// close writes the end of what was printed, and says what was left out before it.
func (p *printed) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.last = p.last[max(0, len(p.last)-lastPrinted):]
		if out := p.left - int64(len(p.last)); out > 0 {
			p.write(fmt.Appendf(nil, "\nassay: %d bytes are left out here: more than %d MiB were printed\n", out,
				mostPrinted>>20))
		}
		p.write(p.last)
		p.left, p.last = 0, nil
	}
	p.out.Close()
}
