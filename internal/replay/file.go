package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"assay/internal/fault"
	"assay/internal/signature"
)

// Version of the format (docs/formats/replay.md); a reader refuses another.
const Version = 1

// Suffix of a file's name.
const Suffix = ".replay"

// Outcome is what became of a call.
type Outcome string

// The outcomes. Only NotReplayed says nothing of the device.
const (
	OK          Outcome = "ok"
	Missing     Outcome = "missing" // no kernel for the device
	Refused     Outcome = "refused" // any other error, where the CPU gives a result
	Wrong       Outcome = "wrong"   // another result than the CPU's
	Ends        Outcome = "ends"    // the process ended
	Hangs       Outcome = "hangs"   // no answer within the limit
	NotReplayed Outcome = "not_replayed"
)

// Outcomes lists them, the worst for a user first.
var Outcomes = []Outcome{Wrong, Ends, Hangs, Refused, Missing, OK, NotReplayed}

// Header is the first line of a file.
type Header struct {
	Version int              `json:"replay"`
	Of      signature.Header `json:"of"`     // of the file of signatures
	SHA256  string           `json:"sha256"` // of that file
	Total   int              `json:"total"`  // signatures in it
	Torch   string           `json:"torch"`
	Python  string           `json:"python"`
	Device  string           `json:"device"` // mps, cuda, cpu, double
	// Double says what the rehearsal stood for; nil: no rehearsal.
	Double  *signature.Double `json:"double"`
	Machine Machine           `json:"machine"`
	Seed    int64             `json:"seed"`
	Limit   float64           `json:"limit_s"` // seconds that a call may take
	Proof   Proof             `json:"proof"`
	Order   string            `json:"order"` // in which the calls were replayed, in words
}

// Machine is where it ran, as far as it can be told.
type Machine struct {
	Chip   string `json:"chip"`
	Memory string `json:"memory"`
	MacOS  string `json:"macos"` // 15.5; "" elsewhere
	Model  string `json:"model"`
	System string `json:"system"`
}

// Proof says whether the device computes at all.
type Proof struct {
	State string `json:"state"` // ProofOK or ProofBroken
	Why   string `json:"why"`
}

// What a proof comes to.
const (
	ProofOK     = "ok"
	ProofBroken = "broken"
)

// Difference is by how much a result departs from the CPU's.
type Difference struct {
	MaxAbs     *float64 `json:"max_abs"` // nil: not finite, or no numbers
	MaxRel     *float64 `json:"max_rel"`
	AllowedAbs float64  `json:"allowed_abs"`
	AllowedRel float64  `json:"allowed_rel"`
	At         []int64  `json:"at"` // of the element that departs most
}

// Result is what became of one signature.
type Result struct {
	N          int                  `json:"n"` // its place among the signatures, from 0
	Signature  *signature.Signature `json:"-"`
	Outcome    Outcome              `json:"outcome"`
	Text       string               `json:"text"` // an error's first line, or what departs, or how it was compared
	Type       string               `json:"type"` // of the error
	CPU        string               `json:"cpu"`  // ok, or "refused: " and the text; "": it did not come to that
	Difference *Difference          `json:"difference"`
	Alone      *float64             `json:"alone_us"` // microseconds of a call that is waited for; nil: not timed
	Chain      *float64             `json:"chain_us"` // of one in a chain
	Fallback   bool                 `json:"fallback"` // it went to the CPU by itself
}

// line is a line of the file behind the header: a result, or what the supervisor notes.
type line struct {
	Result
	Signature json.RawMessage `json:"signature,omitempty"`
	Begun     *int            `json:"begun,omitempty"` // the call that is under way
	Times     int             `json:"times,omitempty"` // how often it was begun
	Done      *bool           `json:"done,omitempty"`  // all are replayed
	Left      int             `json:"left"`
	Why       string          `json:"why"`
}

// begun is the line of the call that is under way; its result is written over it.
type begun struct {
	Begun int `json:"begun"`
	Times int `json:"times"`
}

// end is the last line when all is done.
type end struct {
	Done bool   `json:"done"`
	Left int    `json:"left"`
	Why  string `json:"why"`
}

// Bounds of a reader: a file may come from anybody.
const (
	maxLine = signature.MaxLine + 64<<10
	maxFile = 512 << 20
)

// File is a replay as it was read.
type File struct {
	Header  Header
	Results []*Result
	Done    bool

	begun *begun // the call that was under way when it was cut off
	whole int64  // bytes up to the end of the last result
}

// Read reads a file, finished or not: what follows the last whole line was cut off, and is left out.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return read, nil
}

// errCut says that not even the header is whole.
var errCut = errors.New("its first line is cut off")

func parse(from io.Reader) (*File, error) {
	in := bufio.NewReaderSize(io.LimitReader(from, maxFile+1), 1<<16)
	head, err := nextLine(in)
	if err == io.EOF {
		err = errCut
	}
	var file File
	if err == nil {
		err = file.Header.parse(head)
	}
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("no file of a replay: %w", err), "assay signatures replay writes such a file")
	}
	file.whole = int64(len(head)) + 1
	seen := map[int]bool{}
	for number, at := 2, file.whole; ; number++ {
		data, err := nextLine(in)
		if err == io.EOF {
			return &file, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		at += int64(len(data)) + 1
		if at > maxFile {
			return nil, fmt.Errorf("line %d: the file is longer than %d bytes", number, maxFile)
		}
		var l line
		broken := json.Unmarshal(data, &l)
		switch {
		case broken == nil && l.Done != nil:
			file.Done = true
			continue
		case broken == nil && l.Begun != nil:
			if *l.Begun < 0 || *l.Begun >= file.Header.Total {
				return nil, fmt.Errorf("line %d: call %d of %d", number, *l.Begun, file.Header.Total)
			}
			file.begun = &begun{*l.Begun, l.Times}
			continue
		}
		if broken == nil {
			broken = l.check(file.Header.Total, seen)
		}
		if broken != nil {
			if _, err := nextLine(in); err == io.EOF { // the last line, half of it written over another
				return &file, nil
			}
			return nil, fmt.Errorf("line %d: %w", number, broken)
		}
		seen[l.N], file.begun, file.Done, file.whole = true, nil, false, at
		r := l.Result
		file.Results = append(file.Results, &r)
	}
}

func (h *Header) parse(data []byte) error {
	var version struct {
		Replay *float64 `json:"replay"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	switch {
	case version.Replay == nil:
		return errors.New(`line 1 has no "replay"`)
	case *version.Replay != Version:
		return fmt.Errorf("line 1: version %v of the format, and this assay reads %d", *version.Replay, Version)
	}
	if err := json.Unmarshal(data, h); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	switch {
	case h.Total < 0 || h.Total > signature.MaxSignatures:
		return fmt.Errorf("line 1: %d signatures", h.Total)
	case h.Proof.State != ProofOK && h.Proof.State != ProofBroken:
		return fmt.Errorf("line 1: the proof is %q, neither %s nor %s", h.Proof.State, ProofOK, ProofBroken)
	}
	return nil
}

// check holds a result against the format, and reads its signature.
func (l *line) check(total int, seen map[int]bool) error {
	switch known := false; {
	case l.N < 0 || l.N >= total || seen[l.N]:
		return fmt.Errorf("result of signature %d, of %d, or a second one", l.N, total)
	default:
		for _, o := range Outcomes {
			known = known || o == l.Outcome
		}
		if !known {
			return fmt.Errorf("outcome %q", l.Outcome)
		}
	}
	s, err := signature.Parse(l.Signature)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	l.Result.Signature = s
	return nil
}

// nextLine is the next whole line, without its end; io.EOF where none follows.
func nextLine(in *bufio.Reader) ([]byte, error) {
	var data []byte
	for {
		part, err := in.ReadSlice('\n')
		data = append(data, part...)
		switch {
		case len(data) > maxLine:
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return nil, err
		}
		return bytes.TrimSuffix(data, []byte("\n")), nil
	}
}

// journal is a file that is being written. Each result stands whole when put returns; the call that is under way is
// noted before it begins, so that one that takes even assay with it is known afterwards.
type journal struct {
	f  *os.File
	at int64 // where the next result goes
}

// openJournal opens the file at path for writing, and reads what is there; nil where nothing is, or no whole header.
func openJournal(path string) (*journal, *File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, nil, fault.Hint(fmt.Errorf("%s: another replay writes it", path),
			"wait for it, or name another --out")
	}
	there, err := parse(f)
	if errors.Is(err, errCut) { // as when a machine went down in the first second
		info, statErr := f.Stat()
		if statErr == nil && info.Size() <= maxLine && halfHeader(f) {
			return &journal{f: f}, nil, nil
		}
	}
	if err != nil {
		f.Close()
		err = fault.Hint(err, "name another --out: what is there is no replay")
		return nil, nil, fmt.Errorf("go on with %s: %w", path, err)
	}
	return &journal{f: f, at: there.whole}, there, nil
}

// halfHeader says whether a file is empty, or the beginning of a header.
func halfHeader(f *os.File) bool {
	const first = `{"replay":`
	head := make([]byte, len(first))
	n, _ := f.ReadAt(head, 0)
	return first[:n] == string(head[:n])
}

// write puts a value as the line at the end, over what was noted there.
func (j *journal) write(value any, keep bool) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	if _, err := j.f.WriteAt(b.Bytes(), j.at); err != nil {
		return err
	}
	if err := j.f.Truncate(j.at + int64(b.Len())); err != nil {
		return err
	}
	if keep {
		j.at += int64(b.Len())
	}
	return nil
}

// header writes the first line, over whatever is there.
func (j *journal) header(h Header) error {
	j.at = 0
	if err := j.write(h, true); err != nil {
		return err
	}
	return j.f.Sync()
}

// begin notes that a call begins, for the n-th time.
func (j *journal) begin(n, times int) error { return j.write(begun{n, times}, false) }

// put writes a result.
func (j *journal) put(r *Result) error {
	data, err := json.Marshal(r.Signature)
	if err != nil {
		return err
	}
	return j.write(struct {
		N         int             `json:"n"`
		Signature json.RawMessage `json:"signature"`
		*Result
	}{r.N, data, r}, true)
}

// close takes back what was noted last, and syncs.
func (j *journal) close() error {
	return errors.Join(j.f.Truncate(j.at), j.f.Sync(), j.f.Close())
}
