package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errLong is a line that nobody ended within MaxLine.
var errLong = fmt.Errorf("a line is longer than %d bytes", MaxLine)

// readLine reads a line of at most MaxLine bytes, without its end. io.EOF: there is none; io.ErrUnexpectedEOF: it has
// no end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > MaxLine {
			return nil, errLong
		}
		switch {
		case err == nil:
			line = append(line, piece...)
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			line = append(line, piece...)
		case err == io.EOF && len(line)+len(piece) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// readMessage reads a message into v and gives its body; size is where v says how long that is. An error means that the
// stream is over, or that it is none of ours and cannot be read on.
func readMessage(r *bufio.Reader, v any, size *int) (body []byte, err error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return nil, fmt.Errorf("a line is no message: %w", err)
	}
	if *size < 0 || *size > MaxBody {
		return nil, fmt.Errorf("a message has a body of %d bytes; %d are the most", *size, MaxBody)
	}
	if *size == 0 {
		return nil, nil
	}
	body = make([]byte, *size)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return body, nil
}

// writer sends messages, each whole.
type writer struct {
	mu sync.Mutex
	w  io.Writer
}

// send writes the message and its body, whose length the message says already.
func (w *writer) send(v any, body []byte) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line)+1 > MaxLine {
		return errLong
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(append(line, '\n'), body...)) // one write: a packet, mostly
	return err
}
