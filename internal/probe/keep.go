package probe

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/evidence"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/secret"
)

// operators reads the profiler's trace into the table and keeps it compressed, without secrets. What fails is said in
// the evidence. Traces of processes that the evidence is not about are not kept.
func operators(run *evidence.Run, dir string, secrets *secret.Set) {
	name := run.Profile.Trace
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
	data, err := os.Open(path)
	if err != nil {
		run.Profile.Missing = "the trace was not written: " + err.Error()
		return
	}
	defer data.Close()
	ops, err := fold.ReadTrace(data, run.Rehearsal != nil)
	if err != nil {
		run.Profile.Missing = err.Error()
		return
	}
	run.Operators = ops
	if _, err := data.Seek(0, io.SeekStart); err == nil {
		err = file.Write(path+".gz", 0o600, func(w io.Writer) error {
			z := gzip.NewWriter(w)
			if err := copyWithout(z, data, secrets); err != nil {
				return err
			}
			return z.Close()
		})
		if err == nil {
			os.Remove(path)
			run.Profile.Trace = name + ".gz"
			return
		}
	}
	run.Profile.Trace = name
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
