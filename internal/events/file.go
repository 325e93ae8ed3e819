package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// FileName is the name of the file of events in a run's folder: {"c": connection, "e": event}, one a line.
const FileName = "events.jsonl"

// flushEvery is how long an event may lie in memory before it is written: as often as the agent sends.
const flushEvery = 250 * time.Millisecond

// Log writes events to a file, in the order in which they come. Its methods may be called from several goroutines.
type Log struct {
	mu     sync.Mutex
	file   *os.File // nil: nothing is kept
	out    *bufio.Writer
	failed error // the first of writing: nothing is written after it
	quit   chan struct{}
	done   chan struct{}
}

// ErrNoFolder is why a Log without a folder keeps nothing.
var ErrNoFolder = errors.New("there is no folder to keep them in")

// Create makes the file of events in dir, which must not have one. With "" there is no file, and Err says so.
func Create(dir string) (*Log, error) {
	l := &Log{quit: make(chan struct{}), done: make(chan struct{})}
	if dir == "" {
		l.failed = ErrNoFolder
		close(l.done)
		return l, nil
	}
	file, err := os.OpenFile(filepath.Join(dir, FileName), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// As long as it is held somebody writes; it goes with the process, however that ends. Where the file system has no
	// locks there is none, and nobody can tell.
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	l.file, l.out = file, bufio.NewWriterSize(file, 1<<16)
	go l.flushes()
	return l, nil
}

func (l *Log) flushes() {
	defer close(l.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-tick.C:
			l.do(l.out.Flush)
		}
	}
}

func (l *Log) do(write func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = write()
	}
}

// Append writes one event of a connection.
func (l *Log) Append(connection int, event []byte) {
	l.do(func() error {
		_, err := fmt.Fprintf(l.out, "{\"c\":%d,\"e\":%s}\n", connection, event)
		return err
	})
}

// Sync brings what was appended to the disk.
func (l *Log) Sync() {
	l.do(func() error {
		if err := l.out.Flush(); err != nil {
			return err
		}
		return l.file.Sync()
	})
}

// Err is the first error of writing; what came after it is not in the file.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close writes what is left.
func (l *Log) Close() {
	close(l.quit)
	<-l.done
	if l.file == nil {
		return
	}
	l.do(l.out.Flush)
	l.file.Close()
}

// Tail reads a file of events as far as it goes, and on when it has grown.
type Tail struct {
	file    *os.File
	in      *bufio.Reader
	partial []byte // of a line whose end has not been written
	skip    bool   // the line is longer than maxLine
}

// Open opens the file of events in a run's folder. The error wraps os.ErrNotExist where there is none.
func Open(dir string) (*Tail, error) {
	file, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	return &Tail{file: file, in: bufio.NewReaderSize(file, 1<<16)}, nil
}

// Abandoned reports whether nobody writes the file any more: the process that did has ended.
func (t *Tail) Abandoned() bool {
	fd := int(t.file.Fd())
	if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return false
	}
	_ = syscall.Flock(fd, syscall.LOCK_UN)
	return true
}

// Close closes the file.
func (t *Tail) Close() { t.file.Close() }

// More hands the sink the events that were written whole since it was last called, and says how many lines that were.
func (t *Tail) More(sink Sink) (lines int, err error) {
	for {
		piece, err := t.in.ReadSlice('\n')
		if !t.skip && len(t.partial)+len(piece) > maxLine {
			t.partial, t.skip = t.partial[:0], true
		}
		switch {
		case err == nil && t.skip:
			t.skip = false
			sink.Unreadable()
			lines++
		case err == nil:
			line := piece
			if len(t.partial) > 0 {
				line = append(t.partial, piece...)
			}
			t.hand(sink, line)
			t.partial = t.partial[:0]
			lines++
		default:
			if !t.skip {
				t.partial = append(t.partial, piece...)
			}
			if errors.Is(err, io.EOF) {
				return lines, nil
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return lines, err
			}
		}
	}
}

// Rest hands over a last line without an end: that of a run that was cut off, mostly no whole event.
func (t *Tail) Rest(sink Sink) {
	switch {
	case t.skip:
		sink.Unreadable()
	case len(t.partial) > 0:
		t.hand(sink, t.partial)
	}
	t.partial, t.skip = nil, false
}

func (t *Tail) hand(sink Sink, line []byte) {
	if connection, event, ok := envelope(line); ok {
		sink.Add(connection, event)
	} else {
		sink.Unreadable()
	}
}

// envelope reads a line of the file, {"c":1,"e":{…}}: the connection, and the event's text. The form in which assay
// writes it is taken apart without being read twice; the event itself is checked where it is decoded.
func envelope(line []byte) (conn int, event []byte, ok bool) {
	const head, mid = `{"c":`, `,"e":`
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
	if len(line) > len(head) && string(line[:len(head)]) == head {
		i, n := len(head), 0
		for i < len(line) && line[i] >= '0' && line[i] <= '9' && i < len(head)+9 {
			n = n*10 + int(line[i]-'0')
			i++
		}
		number := n > 0 && line[len(head)] != '0' || i == len(head)+1
		if i > len(head) && len(line) > i+len(mid)+1 && string(line[i:i+len(mid)]) == mid && line[len(line)-1] == '}' &&
			number {
			if event = line[i+len(mid) : len(line)-1]; json.Valid(event) {
				return n, event, true
			}
		}
	}
	var any struct {
		C *int            `json:"c"`
		E json.RawMessage `json:"e"`
	}
	if json.Unmarshal(line, &any) != nil || any.C == nil {
		return 0, nil, false
	}
	return *any.C, any.E, true
}
