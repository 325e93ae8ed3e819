package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"assay/internal/unit"
)

// Bounds of what a packed file may unpack to: code of a few megabytes is text, of which zstd makes a tenth; a table of
// zeros is packed some thousand times.
const (
	freeBytes  = 1 << 30 // so much is unpacked however small the file is
	mostRatio  = 2000    // bytes unpacked for each that is packed, beyond that
	mostWindow = 64 << 20
)

// bounds of one file that is read.
type bounds struct {
	entries int   // of the tar
	free    int64 // bytes that are unpacked however small the file is
}

var usual = bounds{entries: mostEntries, free: freeBytes}

// Unpack unpacks a snapshot into the folder into, which is not there yet or empty. The file is a stranger's: a path or
// a link that leaves the folder, a device, a name that comes twice or that the file system takes for another's, more
// than is bearable, and a file that is cut off or has something behind its end are each one error, and then nothing is
// there.
func Unpack(from, into string) error {
	f, err := openPlain(from)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", from, plain(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", from, plain(err))
	}
	if err := UnpackFrom(f, info.Size(), into); err != nil {
		return fmt.Errorf("unpack %s: %w", from, err)
	}
	return nil
}

// UnpackFrom is Unpack of a stream of so many bytes; what it does not read of them is an error too.
func UnpackFrom(r io.Reader, packed int64, into string) error { return usual.unpack(r, packed, into) }

func (b bounds) unpack(r io.Reader, packed int64, into string) error {
	return whole(into, func(root *os.Root) error { return b.into(r, packed, root, false) })
}

// whole hands make a new folder that becomes into when it is done; into is not there yet, or empty. Where make fails,
// nothing of it stays.
func whole(into string, make func(root *os.Root) error) (err error) {
	into = filepath.Clean(into)
	if err := os.MkdirAll(filepath.Dir(into), 0o700); err != nil {
		return plainly(err)
	}
	if list, err := os.ReadDir(into); err == nil && len(list) > 0 {
		return fmt.Errorf("%s is not empty", into)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plainly(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(into), partName)
	if err != nil {
		return plainly(err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	root, err := os.OpenRoot(temp)
	if err != nil {
		return plainly(err)
	}
	defer root.Close()
	if err := make(root); err != nil {
		return err
	}
	if err := os.Remove(into); err != nil && !errors.Is(err, fs.ErrNotExist) { // which was empty
		return plainly(err)
	}
	if err := os.Rename(temp, into); err != nil {
		return plainly(err)
	}
	return nil
}

// into unpacks below root; with among, beside what lies there already.
func (b bounds) into(r io.Reader, packed int64, root *os.Root, among bool) error {
	u := &unpacker{root: root, most: b.entries, among: among, dirs: map[string]bool{}}
	if err := b.read(r, packed, u.take); err != nil {
		return err
	}
	for _, l := range u.links { // last: no file can be written through one
		if err := u.link(l); err != nil {
			return err
		}
	}
	return nil
}

// read reads a compressed tar of so many bytes, and shows each entry to take: its header, and the file's bytes, of
// which it reads as many as it likes. Bounded in their number and in what they unpack to.
func (b bounds) read(r io.Reader, packed int64, take func(h *tar.Header, from io.Reader) error) error {
	z, err := zstd.NewReader(io.LimitReader(r, packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecoderMaxMemory(mostBytes))
	if err != nil {
		return damaged(err)
	}
	defer z.Close()
	most := min(mostBytes, max(b.free, packed*mostRatio))
	bounded := &bound{from: z, left: most, packed: packed}
	t := tar.NewReader(bounded)
	n, sizes := 0, int64(0)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(err)
		}
		if n++; n > b.entries {
			return fmt.Errorf("it holds more than %d entries", b.entries)
		}
		if sizes += h.Size; h.Size < 0 || h.Size > most || sizes > most { // a file of holes is read from nowhere
			return bounded.bomb()
		}
		if err := take(h, t); err != nil {
			return err
		}
	}
	if n == 0 {
		return errors.New("there is nothing in it")
	}
	// Behind the tar there is nothing but zeros, and the sum of what was packed.
	rest := make([]byte, 32<<10)
	for {
		n, err := bounded.Read(rest)
		if strings.Trim(string(rest[:n]), "\x00") != "" {
			return errors.New("it is damaged: there is something behind its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}

// bound reads so many bytes at most.
type bound struct {
	from         io.Reader
	left, packed int64
}

var errBomb = errors.New("too much")

func (b *bound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.bomb()
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *bound) bomb() error {
	return fmt.Errorf("%w: %s would become more than is bearable", errBomb, unit.Bytes(float64(b.packed)))
}

func damaged(err error) error {
	if errors.Is(err, errBomb) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is damaged: it ends too early")
	}
	return fmt.Errorf("it is damaged: %w", err)
}

type link struct{ name, to string }

type unpacker struct {
	root  *os.Root
	most  int             // folders
	dirs  map[string]bool // made
	links []link
	among bool // a folder may be there already
}

func (u *unpacker) take(h *tar.Header, from io.Reader) error {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if why := badName(name); why != "" {
		return fmt.Errorf("entry %q: %s", name, why)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeSymlink:
		if why := badLink(name, h.Linkname); why != "" {
			return fmt.Errorf("entry %q: %s (%q)", name, why, h.Linkname)
		}
		u.links = append(u.links, link{name, h.Linkname})
		return nil
	case tar.TypeReg:
		return u.file(name, h, from)
	}
	return fmt.Errorf("entry %q: it is neither a file nor a folder nor a link (type %q)", name, h.Typeflag)
}

func (u *unpacker) file(name string, h *tar.Header, from io.Reader) error {
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := u.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return u.cannot(name, err)
	}
	if _, err := io.Copy(f, from); err != nil {
		f.Close()
		var at *fs.PathError
		if errors.As(err, &at) { // of the disk
			return fmt.Errorf("write %q: %w", name, at.Err)
		}
		return damaged(err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %q: %w", name, plain(err))
	}
	return nil
}

// folder makes the folder, and those above it.
func (u *unpacker) folder(name string) error {
	if name == "." || u.dirs[name] {
		return nil
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	if len(u.dirs) >= u.most {
		return fmt.Errorf("it holds more than %d folders", u.most)
	}
	if err := u.root.Mkdir(filepath.FromSlash(name), 0o755); err != nil {
		info, bad := u.root.Lstat(filepath.FromSlash(name))
		if !u.among || bad != nil || !info.IsDir() {
			return u.cannot(name, err)
		}
	}
	u.dirs[name] = true
	return nil
}

func (u *unpacker) link(l link) error {
	if err := u.folder(path.Dir(l.name)); err != nil {
		return err
	}
	if err := u.root.Symlink(l.to, filepath.FromSlash(l.name)); err != nil {
		return u.cannot(l.name, err)
	}
	return nil
}

// cannot says why an entry cannot be made.
func (u *unpacker) cannot(name string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("entry %q: it comes twice, or this file system takes its name for another's", name)
	}
	return fmt.Errorf("entry %q: %w", name, plainly(err))
}

// plainly takes off the temporary path.
func plainly(err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return plain(err)
}
