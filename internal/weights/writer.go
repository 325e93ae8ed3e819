package weights

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"assay/internal/fault"
	"assay/internal/file"
)

// A written is a format that a Writer writes: how its files end, and what makes of a plan its tensors in the order in
// which they lie, with their Bytes, and what stands round them.
type written struct {
	ending string
	plan   func(meta map[string]string, plan []Tensor) ([]Tensor, frames, error)
}

var writable = []written{
	{".safetensors", planSafetensors},
	{".npz", planNPZ},
	{".weights.h5", planKeras},
	{".pt", planTorch},
	{".pth", planTorch},
	{".bin", planTorch},
}

// Writable are the endings of files that Create writes.
func Writable() []string {
	var endings []string
	for _, w := range writable {
		endings = append(endings, w.ending)
	}
	return endings
}

// frames are what stands round the tensors of a file. What they write depends on the plan alone, and on the elements.
type frames interface {
	begin(to *partFile) error      // what stands before the first tensor
	next(i int) (io.Writer, error) // what stands between tensor i and the one before; it gives what takes its elements
	flush() error                  // after the elements of a tensor: they are in the file
	end() error                    // what stands behind the last
}

// rows are tensors that follow a header, with nothing between them.
type rows struct {
	header []byte
	to     *partFile
}

func (r *rows) begin(to *partFile) error {
	r.to = to
	_, err := to.Write(r.header)
	return err
}
func (r *rows) next(int) (io.Writer, error) { return r.to, nil }
func (r *rows) flush() error                { return nil }
func (r *rows) end() error                  { return nil }

// A Writer writes a file of tensors one after the other, under a temporary name until it is whole. It holds no tensor.
//
// Beside the file it keeps a note of what stands: by what it was planned, and of each tensor the CRC-32C of its
// elements. Both are gone after Commit or Remove.
type Writer struct {
	path   string
	plan   []Tensor
	sums   []uint32 // CRC-32C of the elements of those that stand
	frames frames
	ended  bool // what stands behind the last tensor is written
	part   *partFile
	note   *os.File
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create begins a file at path, in the format that its ending names (Writable). The plan says which tensors there will
// be: of each its Name, DType and Shape. meta is what the file says of itself, as far as its format has a place for it.
// The same plan and meta give the same bytes.
//
// What a Writer of this path had left (Leave, or a killed process) is overwritten; Resume goes on with it. Another
// process that writes to this path is an error, and what lies at path stays until Commit.
func Create(path string, meta map[string]string, plan []Tensor) (*Writer, error) {
	return begin(path, meta, plan, nil)
}

// Resume is Create, and takes over the tensors that stand whole in what a Writer of the same plan and meta had left,
// made of the same: from says what the tensors are made of, and how. Done counts those taken over. Each was read and
// its elements have the CRC-32C that they had.
func Resume(path string, meta map[string]string, plan []Tensor, from string) (*Writer, error) {
	return begin(path, meta, plan, &from)
}

func begin(path string, meta map[string]string, plan []Tensor, from *string) (*Writer, error) {
	w := &Writer{path: path}
	if err := w.begin(meta, plan, from); err != nil {
		_ = w.Remove()
		return nil, fmt.Errorf("writing weights to %s: %w", path, err)
	}
	return w, nil
}

func (w *Writer) begin(meta map[string]string, plan []Tensor, from *string) error {
	at := slices.IndexFunc(writable, func(f written) bool { return strings.HasSuffix(strings.ToLower(w.path), f.ending) })
	if at < 0 {
		return fault.Hint(fmt.Errorf("no format that is written ends in %q", filepath.Ext(w.path)),
			"formats that are written: "+strings.Join(Writable(), ", "))
	}
	var err error
	if w.plan, w.frames, err = writable[at].plan(meta, plan); err != nil {
		return err
	}
	if info, err := os.Stat(w.path); err == nil && !info.Mode().IsRegular() {
		return errors.New("there is something that is no regular file")
	}
	name := filepath.Join(filepath.Dir(w.path), ".part-"+filepath.Base(w.path))
	part, err := openPart(name)
	if err != nil {
		return err
	}
	if err := lock(part); err != nil {
		part.Close()
		return err
	}
	w.part = &partFile{File: part}
	if w.note, err = openPart(name + ".note"); err != nil { // the lock is for both
		return err
	}
	stand := []uint32{}
	head := noteHead(meta, plan, from)
	if from != nil {
		stand = readNote(w.note, head)
	}
	for {
		good, err := w.retrace(stand)
		if err != nil {
			return err
		}
		if good == len(stand) {
			break
		}
		stand = stand[:good] // what a note says and the file has not: power was lost, or somebody changed it
	}
	return w.startNote(head)
}

// openPart opens a file for writing without emptying it. A link that somebody else put there is not followed.
func openPart(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) { // file systems without locks
		err = nil
	}
	if err == nil { // whoever had the lock may have committed the file meanwhile: it is no part any more
		var ours, there fs.FileInfo
		if ours, err = f.Stat(); err == nil {
			if there, err = os.Lstat(f.Name()); err != nil || !os.SameFile(ours, there) {
				err = syscall.EWOULDBLOCK
			}
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is writing it")
	}
	return err
}

// noteHead is the first line of a note: it differs where the file would.
func noteHead(meta map[string]string, plan []Tensor, from *string) string {
	type entry struct {
		Name  string
		DType DType
		Shape []int64
	}
	of := struct {
		From string
		Meta map[string]string
		Plan []entry
	}{Meta: meta}
	if from != nil {
		of.From = *from
	}
	for _, t := range plan {
		of.Plan = append(of.Plan, entry{t.Name, t.DType, t.Shape})
	}
	text, _ := json.Marshal(of) // of texts and numbers
	return fmt.Sprintf("assay part/1 %x", sha256.Sum256(text))
}

// readNote gives the sums of the tensors that stand, by a note with this head; what follows a line that is none is lost.
func readNote(r io.Reader, head string) (sums []uint32) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != head {
		return nil
	}
	for lines.Scan() {
		sum, err := strconv.ParseUint(lines.Text(), 16, 32)
		if err != nil || len(lines.Text()) != 8 {
			break
		}
		sums = append(sums, uint32(sum))
	}
	return sums
}

func (w *Writer) startNote(head string) error {
	if err := w.note.Truncate(0); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(head + "\n")
	for _, sum := range w.sums {
		fmt.Fprintf(&b, "%08x\n", sum)
	}
	if _, err := w.note.WriteAt(b.Bytes(), 0); err != nil {
		return err
	}
	_, err := w.note.Seek(0, io.SeekEnd)
	return err
}

// errOther is that of a part file that is not what would be written.
var errOther = errors.New("something else stands there")

// retrace begins the file, and goes through the tensors that should stand in it as if they were written. It says how
// many do; where those are fewer, it has to be called again with so many. The file then ends behind them.
func (w *Writer) retrace(stand []uint32) (good int, err error) {
	w.sums = nil
	w.part.at, w.part.asked = 0, 0
	w.part.retraces = len(stand) > 0
	if !w.part.retraces {
		if err := w.part.Truncate(0); err != nil {
			return 0, err
		}
	}
	if err := w.frames.begin(w.part); err != nil {
		return 0, none(err)
	}
	if len(stand) > len(w.plan) {
		return 0, nil
	}
	for i, want := range stand {
		err := w.put(w.plan[i], io.LimitReader(standing{w.part}, w.plan[i].Bytes))
		if err == nil && w.sums[i] != want {
			err = errOther
		}
		if err != nil {
			return i, none(err)
		}
	}
	w.part.retraces = false
	w.part.asked = w.part.at
	return len(stand), w.part.Truncate(w.part.at)
}

// none is nil for the errors of a part file that ends too early, or is another.
func none(err error) error {
	if errors.Is(err, errOther) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// A partFile is a file that is written from its beginning to its end. Where it retraces, what is written has to stand
// there already; elements are taken from there.
type partFile struct {
	*os.File
	at       int64 // of the next byte
	asked    int64 // so far the disk was asked to write
	asking   sync.WaitGroup
	busy     atomic.Bool // the disk is being asked
	retraces bool
	elements bool // what comes was read from the file, and stands there
}

// early is after how many bytes the disk is asked to write.
const early = 8 << 20

func (p *partFile) Write(b []byte) (int, error) {
	switch {
	case p.retraces && p.elements:
		p.at += int64(len(b))
		return len(b), nil
	case p.retraces:
		there := make([]byte, len(b))
		if _, err := p.ReadAt(there, p.at); err != nil {
			return 0, err
		}
		if !bytes.Equal(there, b) {
			return 0, errOther
		}
		p.at += int64(len(b))
		return len(b), nil
	}
	n, err := p.WriteAt(b, p.at)
	if p.at += int64(n); p.at-p.asked >= early && p.busy.CompareAndSwap(false, true) {
		from, to := p.asked, p.at
		p.asked = to
		p.asking.Go(func() { // to ask takes as long as to find room on the disk
			file.WriteEarly(p.File, from, to-from)
			p.busy.Store(false)
		})
	}
	return n, err
}

// Close closes the file once the disk is no longer asked.
func (p *partFile) Close() error {
	p.asking.Wait()
	return p.File.Close()
}

// A standing gives the elements that stand in a part file, from where it is written next.
type standing struct{ part *partFile }

func (s standing) Read(b []byte) (int, error) {
	n, err := s.part.ReadAt(b, s.part.at)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Plan is the tensors in the order in which Put wants them, with their Bytes: that of the plan in an npz and in
// PyTorch's, larger elements first in Keras's, and in a safetensors file that of its library, by types and then by
// names; which keeps each aligned.
func (w *Writer) Plan() []Tensor { return slices.Clone(w.plan) }

// Done counts the tensors at the head of Plan that stand.
func (w *Writer) Done() int { return len(w.sums) }

// Put writes the next tensor of Plan: exactly its Bytes, row-major and little-endian. A reader with a WriteTo of its own
// is asked for that. After an error only Remove and Leave are of use.
func (w *Writer) Put(r io.Reader) error {
	if len(w.sums) >= len(w.plan) {
		return fmt.Errorf("writing weights to %s: more tensors than the %d planned", w.path, len(w.plan))
	}
	t := w.plan[len(w.sums)]
	err := w.put(t, r)
	if err == nil {
		_, err = fmt.Fprintf(w.note, "%08x\n", w.sums[len(w.sums)-1])
	}
	if err != nil {
		return fmt.Errorf("writing weights to %s: tensor %q: %w", w.path, t.Name, err)
	}
	return nil
}

func (w *Writer) put(t Tensor, r io.Reader) error {
	to, err := w.frames.next(len(w.sums))
	if err != nil {
		return err
	}
	e := &elements{to: to, left: t.Bytes}
	w.part.elements = true
	defer func() { w.part.elements = false }()
	var buffer []byte
	if _, own := r.(io.WriterTo); !own {
		buffer = make([]byte, min(max(t.Bytes, 1), 1<<20))
	}
	_, err = io.CopyBuffer(e, r, buffer)
	switch {
	case errors.Is(err, errTooMany):
		return fmt.Errorf("more than its %d bytes came", t.Bytes)
	case err != nil:
		return err
	case e.left > 0:
		return fmt.Errorf("only %d of its %d bytes came: %w", t.Bytes-e.left, t.Bytes, io.ErrUnexpectedEOF)
	}
	if err := w.frames.flush(); err != nil {
		return err
	}
	w.sums = append(w.sums, e.sum)
	return nil
}

// elements are those of a tensor on their way, summed.
type elements struct {
	to   io.Writer
	left int64
	sum  uint32
}

var errTooMany = errors.New("more bytes than planned")

func (e *elements) Write(b []byte) (int, error) {
	if int64(len(b)) > e.left {
		return 0, errTooMany
	}
	n, err := e.to.Write(b)
	e.sum = crc32.Update(e.sum, castagnoli, b[:n])
	e.left -= int64(n)
	return n, err
}

// Verify ends the file and reads it back, as Open does, while the disk takes it: it has to have the tensors of the plan,
// and each the CRC-32C that was taken of it when it was written. What is read comes by way of the system's memory: that
// shows what assay got wrong, and not what a disk does later.
func (w *Writer) Verify() error {
	if err := w.finish(); err != nil {
		return fmt.Errorf("writing weights to %s: %w", w.path, err)
	}
	synced := make(chan error, 1)
	go func() { synced <- w.part.Sync() }()
	err := w.readBack()
	if err != nil {
		err = fmt.Errorf("%s read back: %w", w.path, err)
	}
	if sync := <-synced; err == nil && sync != nil {
		err = fmt.Errorf("writing weights to %s: %w", w.path, sync)
	}
	return err
}

func (w *Writer) readBack() error {
	f, err := openRegular(w.part.Name())
	if err != nil {
		return err
	}
	defer f.Close()
	byName := map[string]int{}
	for i, t := range w.plan {
		byName[t.Name] = i
	}
	errs := make([]error, len(f.Tensors))
	var next sync.Mutex
	at := 0
	take := func() (i int, more bool) {
		next.Lock()
		defer next.Unlock()
		at++
		return at - 1, at <= len(f.Tensors)
	}
	var readers sync.WaitGroup
	for range 2 { // one reads while another sums
		readers.Go(func() {
			buffer := make([]byte, 1<<18)
			for i, more := take(); more; i, more = take() {
				t := f.Tensors[i]
				planned, ok := byName[t.Name]
				if !ok {
					errs[i] = fmt.Errorf("tensor %q was not written", t.Name)
					continue
				}
				if err := w.holds(planned, t, buffer); err != nil {
					errs[i] = fmt.Errorf("tensor %q: %w", t.Name, err)
				}
			}
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if len(f.Tensors) != len(w.plan) {
		return fmt.Errorf("%d tensors, written were %d", len(f.Tensors), len(w.plan))
	}
	return nil
}

// holds holds a tensor that was read against tensor i of the plan.
func (w *Writer) holds(i int, t Tensor, buffer []byte) error {
	want := w.plan[i]
	if t.DType != want.DType || !slices.Equal(t.Shape, want.Shape) {
		return fmt.Errorf("%s %v, written was %s %v", t.DType, t.Shape, want.DType, want.Shape)
	}
	r, err := t.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	e := &elements{to: io.Discard, left: want.Bytes}
	if _, err := io.CopyBuffer(e, struct{ io.Reader }{r}, buffer); err != nil {
		return err
	}
	if e.left > 0 || e.sum != w.sums[i] {
		return fmt.Errorf("it is not what was written: %d bytes with CRC-32C %08x, written were %d with %08x",
			want.Bytes-e.left, e.sum, want.Bytes, w.sums[i])
	}
	return nil
}

// Commit ends the file: synced, and renamed to its path. Every tensor of the plan must stand.
func (w *Writer) Commit() error {
	if err := w.commit(); err != nil {
		return fmt.Errorf("writing weights to %s: %w", w.path, err)
	}
	return nil
}

// finish writes what stands behind the last tensor.
func (w *Writer) finish() error {
	if n := len(w.plan) - len(w.sums); n > 0 {
		return fmt.Errorf("%d of %d tensors are missing, the first is %q", n, len(w.plan), w.plan[len(w.sums)].Name)
	}
	if w.ended {
		return nil
	}
	w.ended = true
	return w.frames.end()
}

func (w *Writer) commit() error {
	if err := w.finish(); err != nil {
		return err
	}
	if err := w.forget(); err != nil {
		return err
	}
	w.part.asking.Wait()
	err := file.Settle(w.part.File, w.path)
	if err == nil {
		w.part = nil
	}
	return err
}

// forget removes the note.
func (w *Writer) forget() error {
	if w.note == nil {
		return nil
	}
	err := os.Remove(w.note.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	w.note.Close()
	w.note = nil
	return err
}

// Remove gives up: nothing of it stays. After Commit it does nothing, so that it can be deferred.
func (w *Writer) Remove() error {
	if w.part == nil {
		return nil
	}
	noted := w.forget()
	err := os.Remove(w.part.Name()) // before the lock is let go, so that nobody else's is removed
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	w.part.Close()
	w.part = nil
	return errors.Join(noted, err)
}

// Leave gives up for now: what stands is kept under the temporary name, for Resume. After Commit it does nothing.
func (w *Writer) Leave() error {
	if w.part == nil {
		return nil
	}
	err := errors.Join(w.note.Close(), w.part.Close())
	w.part, w.note = nil, nil
	return err
}

// planned are the tensors of a plan with their Bytes; an error names the one that cannot be written.
func planned(plan []Tensor, format string, known func(DType) bool) ([]Tensor, error) {
	seen := map[string]bool{}
	list := make([]Tensor, len(plan))
	for i, t := range plan {
		n, ok := t.Elements()
		size := t.DType.Size()
		switch {
		case seen[t.Name]:
			return nil, fmt.Errorf("the plan has two tensors named %q", t.Name)
		case size == 0 || !known(t.DType):
			return nil, fmt.Errorf("tensor %q: %s no %s", t.Name, format, t.DType)
		case !ok || n > (1<<62)/size:
			return nil, fmt.Errorf("tensor %q: shape %v is none", t.Name, t.Shape)
		}
		seen[t.Name] = true
		list[i] = Tensor{Name: t.Name, DType: t.DType, Shape: slices.Clone(t.Shape), Bytes: n * size}
	}
	return list, nil
}
