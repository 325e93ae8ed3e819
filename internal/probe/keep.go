package probe

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"assay/internal/evidence"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/secret"
)

// table is what one trace of the profiler's adds up to, and its compressed copy.
type table struct {
	name  string // of the trace's file
	done  chan struct{}
	ops   []evidence.Operator
	err   error // of reading it
	kept  error // of the copy
	known int   // secrets that were known when the copy was made
}

// readTrace adds up a trace and makes the copy beside it, without secrets. guard is deferred by what runs beside.
func readTrace(dir, name string, rehearsed bool, secrets *secret.Set, guard func(doing string)) *table {
	t := &table{name: name, done: make(chan struct{}), err: errors.New("the trace was not read")}
	path := filepath.Join(dir, name)
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		defer both.Done()
		defer guard("adding up the trace")
		data, err := os.Open(path)
		if err != nil {
			t.err = fmt.Errorf("the trace was not written: %w", err)
			return
		}
		defer data.Close()
		t.ops, t.err = fold.ReadTrace(data, rehearsed)
	}()
	go func() {
		defer both.Done()
		t.kept = errors.New("an error in assay itself")
		defer guard("compressing the trace")
		t.known = secrets.Known()
		t.kept = compress(path, secrets)
	}()
	go func() {
		both.Wait()
		close(t.done)
	}()
	return t
}

func compress(path string, secrets *secret.Set) error {
	data, err := os.Open(path)
	if err != nil {
		return err
	}
	defer data.Close()
	return file.Write(path+".gz", 0o600, func(w io.Writer) error {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
		if err := copyWithout(z, data, secrets); err != nil {
			return err
		}
		return z.Close()
	})
}

// operators puts the table of the profiler's trace into the evidence, and keeps the trace compressed, without secrets.
// early: the table that was made while the script ran, or nil. What fails is said in the evidence. Traces of processes
// that the evidence is not about are not kept.
func operators(run *evidence.Run, dir string, secrets *secret.Set, early *table, guard func(doing string)) {
	name := run.Profile.Trace
	if early != nil {
		<-early.done
		if early.name != name {
			os.Remove(filepath.Join(dir, early.name+".gz"))
		}
	}
	others, _ := filepath.Glob(filepath.Join(dir, "trace-*.json")) // the pattern is a good one
	if strings.HasPrefix(name, "trace-") {
		others = append(others, filepath.Join(dir, "trace.json"))
	}
	for _, other := range others {
		if filepath.Base(other) != name {
			os.Remove(other)
		}
	}
	if name == "" {
		return
	}
	run.Profile.Trace = ""
	path := filepath.Join(dir, name)
	if early == nil || early.name != name {
		early = readTrace(dir, name, run.Rehearsal != nil, secrets, guard)
		<-early.done
	}
	if early.err != nil {
		os.Remove(path + ".gz")
		run.Profile.Missing = early.err.Error()
		return
	}
	run.Operators = early.ops
	if early.kept == nil && early.known != secrets.Known() {
		early.kept = compress(path, secrets) // something has turned out to be secret since
	}
	if early.kept != nil {
		os.Remove(path + ".gz")
		run.Profile.Trace = name
		return
	}
	os.Remove(path)
	run.Profile.Trace = name + ".gz"
}

// copyWithout copies JSON without the secrets in its texts, line by line: the profiler's engine writes a field a line,
// and no text over two.
func copyWithout(w io.Writer, r io.Reader, secrets *secret.Set) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadSlice('\n') // of a longer line: in parts
		if _, werr := w.Write(secrets.JSON(line)); werr != nil {
			return werr
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return err
		}
	}
}
