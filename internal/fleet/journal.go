package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"assay/internal/fault"
)

// JournalName is the file of a queue's changes: a line of JSON each, never rewritten.
const JournalName = "queue.jsonl"

// ErrBusy is of a queue that another driver has.
var ErrBusy = errors.New("another assay fleet works on it")

const maxEntry = 4 << 20 // bytes of a line

// journal is a file that grows, held by one process. A failed write ends it: what came after would not be found again.
type journal struct {
	f      *os.File
	path   string
	failed error
	crash  func(step string) error // of tests: the driver is killed here; nil: it is not
}

// openJournal opens the journal in a folder, or makes both, and hands each entry to apply. A last line without an end
// was being written when its driver was killed: nothing had been done by it, and it is cut off.
func openJournal(folder string, apply func(entry) error) (*journal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the queue: %w", err)
	}
	path := filepath.Join(folder, JournalName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	j := &journal{f: f, path: path}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fault.Hint(fmt.Errorf("open the queue %s: %w", folder, ErrBusy),
				"assay fleet status shows it; assay fleet cancel --all ends it")
		}
		return nil, fmt.Errorf("lock the queue %s: %w", path, err)
	}
	end, err := readJournal(f, path, apply)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		err = syncDir(folder)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// readJournal hands over each whole line, and says where the last of them ends.
func readJournal(r io.Reader, path string, apply func(entry) error) (end int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, fmt.Errorf("read the queue %s: %w", path, err)
		}
		var e entry
		if len(line) > maxEntry {
			err = errors.New("too long")
		} else if err = json.Unmarshal(line, &e); err == nil {
			err = apply(e)
		}
		if err != nil {
			return end, fault.Hint(fmt.Errorf("read the queue %s:%d: %w", path, n, err),
				"the file was changed by something else than assay; remove its folder to begin anew")
		}
		end += int64(len(line))
	}
}

// append writes an entry, and has it on the disk before it returns.
func (j *journal) append(e entry) error {
	if j.failed != nil {
		return j.failed
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e) // ends the line
	if err == nil && b.Len() > maxEntry {
		return fmt.Errorf("write the queue: %d bytes of one change, and %d are the most", b.Len(), maxEntry)
	}
	if err == nil {
		err = j.step("before")
	}
	if err == nil {
		_, err = j.f.Write(b.Bytes())
	}
	if err == nil {
		err = j.f.Sync()
	}
	if err == nil {
		err = j.step("after")
	}
	if err != nil {
		j.failed = fault.Hint(fmt.Errorf("write the queue %s: %w", j.path, err),
			"make room there and run the same again: it goes on")
		return j.failed
	}
	return nil
}

func (j *journal) step(name string) error {
	if j.crash != nil {
		return j.crash(name)
	}
	return nil
}

func (j *journal) close() error { return j.f.Close() }

// syncDir makes a new file in a folder last, on file systems that can.
func syncDir(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
