package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"assay/internal/fault"
)

var npzFormat = format{"npz", isNPZ, openNPZ}

// zipMagic begins a zip file's first entry; one without entries begins with its end.
const zipMagic = "PK\x03\x04"

func isNPZ(head []byte, name string) bool {
	if strings.HasSuffix(name, ".npz") {
		return true
	}
	if len(head) < 30 || !bytes.HasPrefix(head, []byte(zipMagic)) {
		return false
	}
	end := 30 + int(binary.LittleEndian.Uint16(head[26:])) // the first entry's name
	return end <= len(head) && bytes.HasSuffix(head[:end], []byte(".npy"))
}

// maxDeflate is how many bytes deflate makes of one at most: 258 of two bits.
const maxDeflate = 1032

func openNPZ(f *os.File, size int64) (*File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		if errors.Is(err, zip.ErrFormat) {
			err = fault.Hint(fmt.Errorf("it is no whole zip file: %w", err),
				"a zip file that was cut off has no end: fetch it again")
		}
		return nil, err
	}
	file := &File{Format: "npz", Meta: readComment(z.Comment), Closers: []io.Closer{f}}
	seen, packed := map[string]bool{}, uint64(0)
	for _, entry := range z.File {
		name := entry.Name
		if seen[name] {
			return nil, fmt.Errorf("two entries are named %q", name)
		}
		seen[name] = true
		if packed += entry.CompressedSize64; entry.CompressedSize64 > uint64(size) || packed > uint64(size) {
			return nil, fmt.Errorf("entry %q: the entries are larger together than the file: they lie on each other", name)
		}
		if !strings.HasSuffix(name, ".npy") {
			file.Notes = append(file.Notes, fmt.Sprintf("left out %q: it is no array of NumPy", name))
			continue
		}
		t, err := openEntry(f, size, entry)
		if err != nil {
			if errors.Is(err, errNoTensor) {
				file.Notes = append(file.Notes, fmt.Sprintf("left out %q: %v", name, err))
				continue
			}
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
		file.Tensors = append(file.Tensors, t)
	}
	return file, nil
}

// openEntry reads the header of an array in a zip file.
func openEntry(f *os.File, size int64, entry *zip.File) (Tensor, error) {
	t := Tensor{Name: strings.TrimSuffix(entry.Name, ".npy")}
	has := entry.UncompressedSize64
	switch {
	case entry.Flags&1 != 0:
		return t, errors.New("it is encrypted")
	case entry.Method != zip.Store && entry.Method != zip.Deflate:
		return t, fmt.Errorf("it is packed by method %d, and known are 0 (stored) and 8 (deflate)", entry.Method)
	case entry.Method == zip.Store && has != entry.CompressedSize64,
		has > 1<<62, has/maxDeflate > entry.CompressedSize64:
		return t, fmt.Errorf("%d bytes cannot be packed in %d", has, entry.CompressedSize64)
	}
	at, err := entry.DataOffset()
	if err != nil {
		return t, err
	}
	if at > size || entry.CompressedSize64 > uint64(size-at) {
		return t, fault.Hint(errors.New("it does not lie in the file whole"), fetchAgain)
	}
	var from io.ReaderAt = io.NewSectionReader(f, at, int64(has))
	if entry.Method == zip.Deflate {
		stream := &forward{open: entry.Open}
		defer stream.Close()
		from = stream
	}
	a, err := readNPY(from, int64(has))
	if err != nil {
		return t, err
	}
	a.Name = t.Name
	if entry.Method == zip.Deflate {
		a.Where, a.Open = fmt.Sprintf("packed from byte %d", at), a.unpacked(entry.Open)
	} else {
		a.Where, a.Open = fmt.Sprintf("byte %d", at+a.begin), a.rowMajor(from)
	}
	return a.Tensor, nil
}

// unpacked is rowMajor for an array in a stream, which holds a checksum of its own: it is looked at where the stream is
// read to its end.
func (a array) unpacked(open func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if a.fortran {
			stream := &forward{open: open}
			r, err := a.rowMajor(stream)()
			return closing{r, stream}, err
		}
		stream, err := open()
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, stream, a.begin); err != nil {
			stream.Close()
			return nil, unexpected(err)
		}
		var r io.Reader = stream
		if a.swapped {
			r = swapping(r, a.DType)
		}
		return closing{r, stream}, nil
	}
}

// closing is a reader that closes what it reads from.
type closing struct {
	io.Reader
	io.Closer
}
