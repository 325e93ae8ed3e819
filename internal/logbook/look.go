package logbook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"assay/internal/fault"
)

// A file is looked at before SQLite opens it: to open a file for writing is to change it (PRAGMA journal_mode=WAL
// rewrites its header for good), and to open one that has a write-ahead log, also for reading, makes files beside it.
// So the header is read here, from the file and from the log beside it: sqlite.org/fileformat2.html, 1.3 the database
// header and 4 the write-ahead log. Offsets in the header, big-endian:
const (
	headerSize    = 100
	atPageSize    = 16 // 2 bytes; 1 is 65536
	atChange      = 24 // 4 bytes: the change counter; atPages is valid where atValidFor says the same
	atPages       = 28 // 4 bytes
	atUserVersion = 60 // 4 bytes
	atApplication = 68 // 4 bytes
	atValidFor    = 92 // 4 bytes
)

// state of a file, as its header tells it.
type state int

const (
	absent state = iota
	blank        // an empty file: what a kill of an earlier assay left of a logbook that was about to be made
	ours
)

// look says what stands at the path, and changes nothing there. Whatever cannot be opened is an error: what is no file,
// no SQLite database, another program's, a newer assay's, or cut off.
func look(path string) (state, error) {
	refuse := func(hint, format string, args ...any) (state, error) {
		return absent, fault.Hint(fmt.Errorf("open the logbook %s: "+format, append([]any{path}, args...)...), hint)
	}
	const other = "--logbook or $ASSAY_LOGBOOK names another file; nothing was changed in this one"
	info, err := os.Stat(path) // before it is opened: a pipe would be waited for
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return absent, fmt.Errorf("open the logbook: %w", err)
	case !info.Mode().IsRegular():
		return refuse(other, "not a file")
	case info.Size() == 0:
		return blank, nil
	}
	head, err := readHeader(path)
	if err != nil {
		return absent, fmt.Errorf("open the logbook: %w", err)
	}
	if n := min(len(head), len(magic)); string(head[:n]) != magic[:n] || n < len(magic) {
		return refuse(other, "not a logbook: not a SQLite database")
	}
	if len(head) < headerSize {
		return refuse("", "damaged: cut off after %d bytes; nothing was changed in it", len(head))
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	log := false
	if word(atApplication) != application { // what a writer has committed may stand in the log alone
		page, err := firstPageInLog(path)
		if err != nil {
			return absent, fmt.Errorf("open the logbook: %w", err)
		}
		if log = page != nil; log {
			head = page
		} else if head, err = readHeader(path); err != nil || len(head) < headerSize {
			// a log that was moved into the file meanwhile
			return absent, fmt.Errorf("open the logbook %s: it could not be read: %v", path, err)
		}
	}
	if app, version := word(atApplication), word(atUserVersion); app != application {
		return refuse(other, "a SQLite database, and not a logbook of assay (application_id %d, user_version %d)",
			int32(app), int32(version))
	} else if version > uint32(len(schema())) {
		return refuse("a newer assay wrote it: use that one; nothing was changed",
			"its schema is version %d, and this assay knows %d", version, len(schema()))
	}
	size := int64(binary.BigEndian.Uint16(head[atPageSize:]))
	if size == 1 {
		size = 65536
	}
	whole := size * int64(word(atPages))
	if beside, err := os.Stat(path + "-wal"); (err != nil || beside.Size() == 0) && !log &&
		word(atChange) == word(atValidFor) && info.Size() < whole {
		return refuse("restore it from a copy, or assay log import .assay/runs into a new one: what folders of runs still hold is kept anew",
			"damaged: cut off after %d of %d bytes; nothing was changed in it", info.Size(), whole)
	}
	return ours, nil
}

// readHeader reads the first hundred bytes, or as many as there are.
func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headerSize)
	n, err := io.ReadFull(f, head)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// firstPageInLog is the beginning of the database's first page as the last transaction of the write-ahead log left it;
// nil where no transaction in it wrote that page, or there is no log.
func firstPageInLog(path string) (page []byte, err error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	w, ok := readWALHeader(f)
	if !ok {
		return nil, nil
	}
	var written []byte
	frame := make([]byte, 24+w.page)
	for {
		if _, err := io.ReadFull(f, frame); err != nil || !w.follows(frame) {
			return page, nil
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			written = bytes.Clone(frame[24 : 24+headerSize])
		}
		if binary.BigEndian.Uint32(frame[4:]) != 0 && written != nil { // it ends a transaction
			page, written = written, nil
		}
	}
}
