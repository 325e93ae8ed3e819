package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"assay/internal/file"
)

// Root/jobs/NAME, of which all is made before it has that name:
//
//	job.json   what was asked for, and the mark by which its processes are told; its owner's alone, for secrets
//	lock       held as long as somebody keeps the job
//	lease      its time of modification is when it was last renewed, by elapsed
//	cancel     its time of modification is not 0 where somebody wants the job ended; it says why
//	ballast    given up where a full disk would keep the state from being written
//	state.json how the job stands; not there: nothing of it was ever begun
//	keep.log   what its keeper has to say, mostly nothing
//	work/      its code
//	run/       the folder of its run; stdout and stderr beside it
const (
	jobFile     = "job.json"
	lockFile    = "lock"
	leaseFile   = "lease"
	cancelFile  = "cancel"
	ballastFile = "ballast"
	stateFile   = "state.json"
	logFile     = "keep.log"
	workFolder  = "work"
	runFolder   = "run"

	newPrefix  = ".new-"  // a folder that is being made
	gonePrefix = ".gone-" // one that is being removed
)

const (
	ballastSize = 64 << 10
	mostState   = 1 << 20 // bytes of a state or a job that are read
)

// folder is that of a job.
type folder string

func (p folder) file(name string) string { return filepath.Join(string(p), name) }

// asked is job.json.
type asked struct {
	Job  Job    `json:"job"`
	Mark string `json:"mark"` // every process of the job has it in its environment, and no other has
}

// record is state.json.
type record struct {
	State State         `json:"state"`
	Boot  string        `json:"boot"`            // of the host
	Run   *like         `json:"-"`               // `assay run`
	PID   int           `json:"pid,omitempty"`   // of it
	Start uint64        `json:"start,omitempty"` // of it
	Awake time.Duration `json:"awake,omitempty"` // when it was started
}

// over says whether nothing of the job lives any more.
func (r record) over() bool { return r.State.Phase == Ended || r.State.Phase == Lost }

// makeFolder makes the folder of a job, whole or not at all. made is false where there is one already.
func makeFolder(root string, j Job) (p folder, made bool, err error) {
	p = folder(filepath.Join(root, "jobs", j.Name))
	if _, err := os.Lstat(string(p)); err == nil {
		return p, false, nil
	}
	var mark [16]byte
	if _, err := rand.Read(mark[:]); err != nil {
		return "", false, err
	}
	part, err := os.MkdirTemp(filepath.Join(root, "jobs"), newPrefix)
	if err != nil {
		return "", false, err
	}
	defer func() {
		if !made {
			os.RemoveAll(part)
		}
	}()
	in := folder(part)
	for _, name := range []string{lockFile, leaseFile, cancelFile} {
		if err := os.WriteFile(in.file(name), nil, 0o600); err != nil {
			return "", false, err
		}
	}
	if err := os.WriteFile(in.file(ballastFile), make([]byte, ballastSize), 0o600); err != nil {
		return "", false, err
	}
	if err := os.Chtimes(in.file(cancelFile), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		return "", false, err
	}
	if err := in.renew(); err != nil {
		return "", false, err
	}
	if err := in.writeJSON(jobFile, asked{j, hex.EncodeToString(mark[:])}); err != nil {
		return "", false, err
	}
	switch err := os.Rename(part, string(p)); {
	case err == nil:
		return p, true, nil
	case errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist): // another connection was faster
		return p, false, nil
	default:
		return "", false, err
	}
}

func (p folder) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return file.Write(p.file(name), 0o600, func(w io.Writer) error { _, err := w.Write(data); return err })
}

func (p folder) readJSON(name string, v any) error {
	f, err := os.Open(p.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*mostState))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// asked reads what was asked for. The error wraps fs.ErrNotExist where there is no such job.
func (p folder) asked() (asked, error) {
	var k asked
	return k, p.readJSON(jobFile, &k)
}

// record reads how the job stands. begun is false where nothing of it was ever begun.
func (p folder) record() (r record, begun bool, err error) {
	err = p.readJSON(stateFile, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if r.PID > 0 {
		r.Run = &like{r.PID, r.Start}
	}
	return r, err == nil, err
}

// write keeps how the job stands, on a full disk too.
func (p folder) write(r record) error {
	if r.Run != nil {
		r.PID, r.Start = r.Run.pid, r.Run.start
	}
	err := p.writeJSON(stateFile, r)
	if err != nil && os.Remove(p.file(ballastFile)) == nil {
		err = p.writeJSON(stateFile, r)
	}
	return err
}

// lock takes the job's lock for as long as the file is open, here or in a process that inherits it. free is false where
// another holds it.
func (p folder) lock(wait bool) (f *os.File, free bool, err error) {
	if f, err = os.OpenFile(p.file(lockFile), os.O_RDWR, 0); err != nil {
		return nil, false, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err := flock(f, how); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, true, nil
}

// alone says whether nobody keeps the job now.
func (p folder) alone() bool {
	f, err := os.Open(p.file(lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
