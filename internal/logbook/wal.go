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

// CheckWAL looks at the write-ahead log beside a logbook, before anything opens that: SQLite ends its recovery at the first frame that is not as it
// was written, without a word, and what was committed behind it is gone. The format: sqlite.org/fileformat2.html#walformat.
//
// A frame that does not follow from the one before is normal at the end of the log, where a writer was cut off or frames of an earlier round lie. It
// is none where a frame of this round that ends a transaction stands there or behind it.
func CheckWAL(path string) ([]string, error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify the write-ahead log: %w", err)
	}
	defer f.Close()
	var head [32]byte
	if n, err := io.ReadFull(f, head[:]); err != nil {
		if n == 0 {
			return nil, nil // empty: all is in the file
		}
		return nil, nil // cut off in its header: nothing was committed through it
	}
	word := func(b []byte, i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	size := int(word(head[:], 2))
	var order binary.ByteOrder = binary.LittleEndian
	switch word(head[:], 0) {
	case 0x377f0682:
	case 0x377f0683:
		order = binary.BigEndian
	default:
		return []string{"the write-ahead log: its header is not one: what was committed through it cannot be read"}, nil
	}
	if size == 1 {
		size = 65536
	}
	var a, b uint32
	sum := func(data []byte) {
		for i := 0; i+8 <= len(data); i += 8 {
			a += order.Uint32(data[i:]) + b
			b += order.Uint32(data[i+4:]) + a
		}
	}
	if sum(head[:24]); size < 512 || size > 65536 || size&(size-1) != 0 || a != word(head[:], 6) || b != word(head[:], 7) {
		return []string{"the write-ahead log: its header is changed: what was committed through it cannot be read"}, nil
	}
	frame := make([]byte, 24+size)
	broken := 0
	for n := 1; ; n++ {
		if _, err := io.ReadFull(f, frame); err != nil {
			return nil, nil
		}
		ours := bytes.Equal(frame[8:12], head[16:20]) || bytes.Equal(frame[12:16], head[20:24])
		if broken == 0 {
			sum(frame[:8])
			sum(frame[24:])
			if bytes.Equal(frame[8:16], head[16:24]) && a == word(frame, 4) && b == word(frame, 5) {
				continue
			}
			broken = n
		}
		if ours && word(frame, 1) != 0 {
			return []string{fmt.Sprintf("the write-ahead log: frame %d is not what was written, and SQLite drops what was committed from there on "+
				"(up to frame %d at least); only where a writer was killed in its last commit is that no change", broken, n)}, nil
		}
	}
}
