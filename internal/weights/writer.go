package weights

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/file"
)

// firstDay is the first that a zip file can say, and what NumPy's say: the same bytes whenever they are written.
var firstDay = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Writable are the formats that Create writes, by the endings of their files.
var Writable = []string{".safetensors", ".npz"}

// A Writer writes a file of tensors one after the other, under a temporary name until it is whole. It holds no tensor.
type Writer struct {
	path string
	plan []Tensor
	put  int      // how many tensors of the plan stand
	part *os.File // under the temporary name, locked

	header int64       // safetensors: where the data begins
	zip    *zip.Writer // npz
}

// Create begins a file at path, in the format that its ending names. The plan says which tensors there will be: of each
// its Name, DType and Shape. meta is what the file says of itself; npz has no place for that, and refuses any. The same
// plan and meta give the same bytes.
//
// What a Writer of this path had left (Leave, or a killed process) is overwritten; Resume goes on with it. Another
// process that writes to this path is an error, and what lies at path stays until Commit.
func Create(path string, meta map[string]string, plan []Tensor) (*Writer, error) {
	return begin(path, meta, plan, false)
}

// Resume is Create, and takes over the tensors that stand whole in what a Writer of the same plan and meta had left:
// Done counts them. It compares the header alone: that they were made of the same input is for the caller to know, as
// by a fingerprint in meta. Of an npz nothing is taken over.
func Resume(path string, meta map[string]string, plan []Tensor) (*Writer, error) {
	return begin(path, meta, plan, true)
}

func begin(path string, meta map[string]string, plan []Tensor, resume bool) (*Writer, error) {
	w, err := beginPart(path, meta, plan, resume)
	if err != nil {
		return nil, fmt.Errorf("writing weights to %s: %w", path, err)
	}
	return w, nil
}

func beginPart(path string, meta map[string]string, plan []Tensor, resume bool) (*Writer, error) {
	w := &Writer{path: path}
	var header []byte
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		if w.plan, header, err = planSafetensors(meta, plan); err != nil {
			return nil, err
		}
	case ".npz":
		if w.plan, err = planNPZ(meta, plan); err != nil {
			return nil, err
		}
	default:
		return nil, fault.Hint(fmt.Errorf("no format that is written ends in %q", filepath.Ext(path)),
			"formats that are written: "+strings.Join(Writable, ", "))
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("there is something that is no regular file")
	}
	w.header = int64(len(header))
	name := filepath.Join(filepath.Dir(path), ".part-"+filepath.Base(path))
	// a link that somebody else put there is not followed
	w.part, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	if err := w.start(header, resume); err != nil {
		w.part.Close()
		return nil, err
	}
	return w, nil
}

func (w *Writer) start(header []byte, resume bool) error {
	if err := syscall.Flock(int(w.part.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errors.New("another process is writing it")
		}
		if !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOSYS) { // file systems without locks
			return err
		}
	}
	info, err := w.part.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", w.part.Name())
	}
	if header == nil {
		if err := w.part.Truncate(0); err != nil {
			return err
		}
		w.zip = zip.NewWriter(w.part)
		return nil
	}
	if resume && info.Size() >= w.header {
		there := make([]byte, len(header))
		if _, err := w.part.ReadAt(there, 0); err != nil {
			return err
		}
		if bytes.Equal(there, header) {
			end := w.header
			for w.put < len(w.plan) && end+w.plan[w.put].Bytes <= info.Size() {
				end += w.plan[w.put].Bytes
				w.put++
			}
			if err := w.part.Truncate(end); err != nil {
				return err
			}
			_, err := w.part.Seek(end, io.SeekStart)
			return err
		}
	}
	if err := w.part.Truncate(0); err != nil {
		return err
	}
	_, err = w.part.Write(header)
	return err
}

// Plan is the tensors in the order in which Put wants them, with their Bytes: that of the plan in an npz, and in a
// safetensors file that of its library, by types and then by names, which keeps each aligned.
func (w *Writer) Plan() []Tensor { return slices.Clone(w.plan) }

// Done counts the tensors at the head of Plan that stand.
func (w *Writer) Done() int { return w.put }

// Put writes the next tensor of Plan: exactly its Bytes, row-major and little-endian. After an error only Remove and
// Leave are of use.
func (w *Writer) Put(r io.Reader) error {
	if w.put >= len(w.plan) {
		return fmt.Errorf("writing weights to %s: more tensors than the %d planned", w.path, len(w.plan))
	}
	t := w.plan[w.put]
	if err := w.putTensor(t, r); err != nil {
		return fmt.Errorf("writing weights to %s: tensor %q: %w", w.path, t.Name, err)
	}
	w.put++
	return nil
}

func (w *Writer) putTensor(t Tensor, r io.Reader) error {
	var to io.Writer = w.part
	if w.zip != nil {
		entry, err := w.zip.CreateHeader(&zip.FileHeader{Name: t.Name + ".npy", Method: zip.Store,
			Modified: firstDay})
		if err != nil {
			return err
		}
		if _, err := entry.Write(npyHeader(t)); err != nil {
			return err
		}
		to = entry
	}
	// hidden from io.CopyBuffer, whose buffer a file or a reader with a way of its own would leave unused
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{io.LimitReader(r, t.Bytes)},
		make([]byte, min(max(t.Bytes, 1), 1<<20)))
	if err != nil {
		return err
	}
	if n < t.Bytes {
		return fmt.Errorf("only %d of its %d bytes came: %w", n, t.Bytes, io.ErrUnexpectedEOF)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return fmt.Errorf("more than its %d bytes came", t.Bytes)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// Commit ends the file: synced, and renamed to its path. Every tensor of the plan must stand.
func (w *Writer) Commit() error {
	err := w.commit()
	if err != nil {
		err = fmt.Errorf("writing weights to %s: %w", w.path, err)
	}
	return err
}

func (w *Writer) commit() error {
	if w.put < len(w.plan) {
		return fmt.Errorf("%d of %d tensors are missing, the first is %q", len(w.plan)-w.put, len(w.plan),
			w.plan[w.put].Name)
	}
	if w.zip != nil {
		if err := w.zip.Close(); err != nil {
			return err
		}
	}
	err := file.Settle(w.part, w.path)
	if err == nil {
		w.part = nil
	}
	return err
}

// Remove gives up: nothing of it stays. After Commit it does nothing, so that it can be deferred.
func (w *Writer) Remove() error {
	if w.part == nil {
		return nil
	}
	err := os.Remove(w.part.Name()) // before the lock is let go, so that nobody else's is removed
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	w.part.Close()
	w.part = nil
	return err
}

// Leave gives up for now: what stands is kept under the temporary name, for Resume. After Commit it does nothing.
func (w *Writer) Leave() error {
	if w.part == nil {
		return nil
	}
	err := errors.Join(w.part.Sync(), w.part.Close())
	w.part = nil
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
			return nil, fmt.Errorf("tensor %q: %s holds no %s", t.Name, format, t.DType)
		case !ok || n > (1<<63-1)/size:
			return nil, fmt.Errorf("tensor %q: shape %v is none", t.Name, t.Shape)
		}
		seen[t.Name] = true
		list[i] = Tensor{Name: t.Name, DType: t.DType, Shape: slices.Clone(t.Shape), Bytes: n * size}
	}
	return list, nil
}
