package convert

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"assay/internal/weights"
)

// block is about how many bytes are written at a time.
const block = 1 << 20

// Fingerprint is another one where what the plan writes would be another file: for weights.Resume. It is empty where
// nothing tells whether the file that is read has changed.
func (p *Plan) Fingerprint(version string) string {
	of, ok := p.file.Fingerprint()
	if !ok {
		return ""
	}
	var steps []string
	for _, s := range p.Steps {
		steps = append(steps, fmt.Sprintln(s.Out.Name, s.Out.DType, s.Out.Shape, s.From, s.Kind, s.Order))
	}
	text, _ := json.Marshal([]any{version, of, p.From, p.To, p.opts, steps}) // of texts and numbers
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// Outs are the tensors that a plan writes.
func (p *Plan) Outs() []weights.Tensor {
	var outs []weights.Tensor
	for _, step := range p.Steps {
		outs = append(outs, step.Out)
	}
	return outs
}

// Write writes those of the tensors that do not stand yet. A tensor is read and moved while what came before is
// written; where it is held whole, there is one at a time.
func Write(outs []weights.Tensor, to *weights.Writer) error {
	byName := map[string]weights.Tensor{}
	for _, t := range outs {
		byName[t.Name] = t
	}
	var list []weights.Tensor
	for _, planned := range to.Plan()[to.Done():] {
		list = append(list, byName[planned.Name])
	}
	a := readAhead(list)
	defer a.stop()
	for range list {
		if err := to.Put(a); err != nil {
			return err
		}
	}
	return nil
}

// ahead reads tensors, one after the other, in a goroutine of its own: blocks of them, three of which there are.
type ahead struct {
	read  chan ofTensor
	free  chan []byte
	end   chan struct{}
	ended chan struct{}
	left  []byte // of the block that Read gives
	now   []byte
}

// ofTensor is a block of a tensor, or its end (io.EOF), or why there is no more.
type ofTensor struct {
	block []byte
	err   error
}

func readAhead(list []weights.Tensor) *ahead {
	const blocks = 3
	a := &ahead{read: make(chan ofTensor, blocks), free: make(chan []byte, blocks), end: make(chan struct{}),
		ended: make(chan struct{})}
	for range blocks {
		a.free <- make([]byte, block)
	}
	go func() {
		defer close(a.ended)
		for _, t := range list {
			if !a.tensor(t) {
				return
			}
		}
	}()
	return a
}

// tensor reads one, and says whether there may be another.
func (a *ahead) tensor(t weights.Tensor) bool {
	in, err := t.Open()
	for err == nil {
		var b []byte
		select {
		case b = <-a.free:
		case <-a.end:
			in.Close()
			return false
		}
		n := 0
		for n < len(b)/2 && err == nil { // readers give whole rows, which need not fill a block
			var m int
			m, err = in.Read(b[n:])
			n += m
		}
		if !a.give(ofTensor{b[:n], nil}) {
			in.Close()
			return false
		}
	}
	if in != nil {
		if close := in.Close(); err == io.EOF && close != nil {
			err = close
		}
	}
	return a.give(ofTensor{nil, err}) && err == io.EOF
}

func (a *ahead) give(b ofTensor) bool {
	select {
	case a.read <- b:
		return true
	case <-a.end:
		return false
	}
}

// Read gives the next bytes of a tensor; after its end, those of the next one.
func (a *ahead) Read(p []byte) (int, error) {
	for len(a.left) == 0 {
		if a.now != nil {
			a.free <- a.now[:block]
			a.now = nil
		}
		b := <-a.read
		if b.err != nil {
			return 0, b.err
		}
		a.now, a.left = b.block, b.block
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// WriteTo writes what is left of a tensor, block by block as it was read.
func (a *ahead) WriteTo(w io.Writer) (n int64, err error) {
	for {
		b := <-a.read
		if b.err == io.EOF {
			return n, nil
		}
		if b.err != nil {
			return n, b.err
		}
		m, err := w.Write(b.block)
		n += int64(m)
		a.free <- b.block[:block]
		if err != nil {
			return n, err
		}
	}
}

// stop ends the goroutine, and waits until it has let go of what it read.
func (a *ahead) stop() {
	close(a.end)
	<-a.ended
}
