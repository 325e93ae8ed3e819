package convert

import (
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"assay/internal/weights"
)

// A Sink takes the tensors of a plan, one after the other, and makes a file of them.
type Sink interface {
	Plan() []weights.Tensor // in the order in which Put wants them
	Put(r io.Reader) error
	Commit() error
}

// A Sum is what was written of a tensor: its bytes and their CRC-32C. It guards against what a disk or a program gets
// wrong, and not against somebody who wants it wrong.
type Sum struct {
	Bytes int64
	CRC   uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sums are what was written, by the names of tensors.
type Sums struct {
	mu sync.Mutex
	of map[string]Sum
}

// Outs are the tensors that a plan writes, each summed as it is read.
func (p *Plan) Outs() ([]weights.Tensor, *Sums) {
	sums := &Sums{of: map[string]Sum{}}
	var outs []weights.Tensor
	for _, step := range p.Steps {
		t, open := step.Out, step.Out.Open
		t.Open = func() (io.ReadCloser, error) {
			r, err := open()
			if err != nil {
				return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			return &summed{r: r, name: t.Name, sums: sums, crc: crc32.New(castagnoli)}, nil
		}
		outs = append(outs, t)
	}
	return outs, sums
}

type summed struct {
	r     io.ReadCloser
	name  string
	sums  *Sums
	crc   hash.Hash32
	bytes int64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.crc.Write(p[:n])
	s.bytes += int64(n)
	return n, err
}

func (s *summed) Close() error {
	s.sums.mu.Lock()
	s.sums.of[s.name] = Sum{s.bytes, s.crc.Sum32()}
	s.sums.mu.Unlock()
	return s.r.Close()
}

// Write writes the tensors of outs to a sink. A tensor that moves is held whole, one at a time; it is permuted while
// what came before is written.
func Write(outs []weights.Tensor, to Sink) error {
	byName := map[string]weights.Tensor{}
	for _, t := range outs {
		byName[t.Name] = t
	}
	for _, planned := range to.Plan() {
		if err := put(byName[planned.Name], to); err != nil {
			return err
		}
	}
	return to.Commit()
}

func put(t weights.Tensor, to Sink) error {
	in, err := t.Open()
	if err != nil {
		return err
	}
	r := readAhead(in)
	err = to.Put(r)
	r.stop()
	if close := in.Close(); err == nil {
		err = close
	}
	return err
}

// ahead reads blocks of a reader in a goroutine of its own, two at most beyond the one that is being used.
type ahead struct {
	blocks chan []byte
	free   chan []byte
	end    chan struct{}
	ended  chan struct{}
	err    error // of the reader, once blocks is closed
	now    []byte
	left   []byte
}

func readAhead(in io.Reader) *ahead {
	a := &ahead{blocks: make(chan []byte, 2), free: make(chan []byte, 3), end: make(chan struct{}),
		ended: make(chan struct{})}
	for range 3 {
		a.free <- nil
	}
	go func() {
		defer close(a.ended)
		defer close(a.blocks)
		for {
			var b []byte
			select {
			case b = <-a.free:
			case <-a.end:
				return
			}
			if b == nil {
				b = *blocks.Get().(*[]byte)
			}
			n, err := io.ReadFull(in, b[:block])
			if n > 0 {
				select {
				case a.blocks <- b[:n]:
				case <-a.end:
					return
				}
			}
			if err == io.ErrUnexpectedEOF && n > 0 {
				// less than a block, and the reader ended: it may also have been cut off, which it then says again
				_, err = in.Read(make([]byte, 1))
			}
			if err != nil {
				a.err = err
				return
			}
		}
	}()
	return a
}

// Read gives the next bytes.
func (a *ahead) Read(p []byte) (int, error) {
	if len(a.left) == 0 {
		if a.now != nil {
			a.free <- a.now
			a.now = nil
		}
		b, ok := <-a.blocks
		if !ok {
			return 0, a.err
		}
		a.now, a.left = b, b
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// stop ends the goroutine, and waits until it has let go of the reader.
func (a *ahead) stop() {
	close(a.end)
	<-a.ended
	for b := range a.blocks {
		b = b[:block]
		blocks.Put(&b)
	}
	if a.now != nil {
		b := a.now[:block]
		blocks.Put(&b)
	}
	for len(a.free) > 0 {
		if b := <-a.free; b != nil {
			b = b[:block]
			blocks.Put(&b)
		}
	}
	a.now, a.left = nil, nil
}

// blocks are those of readers ahead.
var blocks = sync.Pool{New: func() any { b := make([]byte, block); return &b }}

// Compare reads a file that was written back, and names the first tensor that is not as it was written.
func Compare(f *weights.File, sums *Sums) error {
	read := map[string]bool{}
	for _, t := range f.Tensors {
		want, ok := sums.of[t.Name]
		if !ok {
			return fmt.Errorf("%s read back: tensor %q was not written", f.Path, t.Name)
		}
		in, err := t.Open()
		if err != nil {
			return fmt.Errorf("%s read back: tensor %q: %w", f.Path, t.Name, err)
		}
		crc := crc32.New(castagnoli)
		n, err := io.CopyBuffer(struct{ io.Writer }{crc}, struct{ io.Reader }{in}, make([]byte, block))
		if close := in.Close(); err == nil {
			err = close
		}
		if err != nil {
			return fmt.Errorf("%s read back: tensor %q: %w", f.Path, t.Name, err)
		}
		if got := (Sum{n, crc.Sum32()}); got != want {
			return fmt.Errorf("%s read back: tensor %q is not what was written: %d bytes with CRC-32C %08x, written were "+
				"%d with %08x", f.Path, t.Name, got.Bytes, got.CRC, want.Bytes, want.CRC)
		}
		read[t.Name] = true
	}
	if len(read) != len(sums.of) {
		return fmt.Errorf("%s read back: %d tensors, written were %d", f.Path, len(read), len(sums.of))
	}
	return nil
}
