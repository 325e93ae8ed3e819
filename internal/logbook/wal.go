package logbook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// CheckWAL looks at the write-ahead log beside a logbook, before anything opens that: SQLite ends its recovery at the
// first frame that is not as it was written, without a word, and what was committed behind it is gone. The format:
// sqlite.org/fileformat2.html#walformat.
//
// A frame that does not follow from the one before is normal at the end of the log, where a writer was cut off or
// frames of an earlier round lie. It is none where a frame of this round that ends a transaction stands there or behind
// it.
func CheckWAL(path string) ([]string, error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify the write-ahead log: %w", err)
	}
	defer f.Close()
	w, ok := readWALHeader(f)
	switch {
	case !ok && w == nil:
		return nil, nil // empty, or cut off in its header: nothing was committed through it
	case !ok:
		return []string{"the write-ahead log: its header is not one, or is changed: what was committed through it cannot be read"}, nil
	}
	word := func(b []byte, i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	frame := make([]byte, 24+w.page)
	broken := 0
	for n := 1; ; n++ {
		if _, err := io.ReadFull(f, frame); err != nil {
			return nil, nil
		}
		same := bytes.Equal(frame[8:12], w.head[16:20]) || bytes.Equal(frame[12:16], w.head[20:24]) // of this round
		if broken == 0 {
			if w.follows(frame) {
				continue
			}
			broken = n
		}
		if same && word(frame, 1) != 0 {
			return []string{fmt.Sprintf("the write-ahead log: frame %d is not what was written, and SQLite drops what was committed from there on "+
				"(up to frame %d at least); only where a writer was killed in its last commit is that no change",
				broken, n)}, nil
		}
	}
}

// walReader holds frames of a write-ahead log to the one before them.
type walReader struct {
	head  [32]byte
	page  int // bytes of a page
	order binary.ByteOrder
	a, b  uint32 // the running checksum
}

// readWALHeader reads the header of a log. ok is false where there is no good one; then the reader is nil if the file
// ends before its header does.
func readWALHeader(f io.Reader) (w *walReader, ok bool) {
	w = &walReader{order: binary.LittleEndian}
	if _, err := io.ReadFull(f, w.head[:]); err != nil {
		return nil, false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(w.head[4*i:]) }
	switch word(0) {
	case 0x377f0682:
	case 0x377f0683:
		w.order = binary.BigEndian
	default:
		return w, false
	}
	if w.page = int(word(2)); w.page == 1 {
		w.page = 65536
	}
	w.sum(w.head[:24])
	return w, w.page >= 512 && w.page <= 65536 && w.page&(w.page-1) == 0 && w.a == word(6) && w.b == word(7)
}

func (w *walReader) sum(data []byte) {
	for i := 0; i+8 <= len(data); i += 8 {
		w.a += w.order.Uint32(data[i:]) + w.b
		w.b += w.order.Uint32(data[i+4:]) + w.a
	}
}

// follows reports whether a frame is whole and follows from the one before. Where it does not, nothing behind it does.
func (w *walReader) follows(frame []byte) bool {
	w.sum(frame[:8])
	w.sum(frame[24:])
	return bytes.Equal(frame[8:16], w.head[16:24]) && w.a == binary.BigEndian.Uint32(frame[16:]) &&
		w.b == binary.BigEndian.Uint32(frame[20:])
}
