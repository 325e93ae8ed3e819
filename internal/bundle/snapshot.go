package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/secret"
	"assay/internal/unit"
)

// Bounds of what is packed and unpacked.
const (
	DefaultMostFile = 100 << 20 // bytes of one file of code: beyond it, it is data
	mostEntries     = 200_000   // files and links of a snapshot
	mostBytes       = 16 << 30  // bytes of them, unpacked
	mostPath        = 1000      // bytes of a path; macOS takes 1024 in all (PATH_MAX, sys/syslimits.h)
	mostName        = 255       // bytes of one name in it (NAME_MAX)
	mostLooked      = 4 << 20   // bytes of a file that is looked through for secrets
	mostFound       = 1000      // of each list
)

// partName begins the names of files and folders that are not whole yet, as those of file.Write.
const partName = ".part-"

// SnapshotOptions say what is packed, and where to.
type SnapshotOptions struct {
	Into     string      // folder for the file, which is named by its sum; "": one for temporary files
	Here     bool        // the folder alone, not the whole working copy of git that it lies in
	MostFile int64       // bytes: a longer file is left out; 0: DefaultMostFile
	Secrets  *secret.Set // values to look for beside those that their shape tells; nil: none
	All      bool        // everything in the folder, whatever git says of it
	Only     string      // with All: this file alone
	Skip     []string    // paths with slashes below the folder that is packed, left out with all below them
}

// Snapshot is a folder's code in a file, a tar compressed by zstd. The same content gives the same bytes: the entries
// are files and links in the order of their names' bytes, without times and owners, with the modes 0644 and 0755.
type Snapshot struct {
	Path    string  // of the file
	Sum     string  // its SHA-256, hexadecimal
	Size    int64   // its bytes
	Root    string  // folder that was packed: the top of git's working copy, or the one that was named
	Dir     string  // the folder that was named, below Root, with slashes; ".": Root itself
	Commit  string  // of git; "" where there is none
	Dirty   string  // clean, dirty (3 files), or unknown: why
	Files   int     // files and links in it
	Bytes   int64   // of the files, unpacked
	Left    []Left  // what was left out, in the order of the paths
	Secrets []Place // where secrets stand in files that are in it
	Notes   []string
}

// Left is what was left out, and why. Of a folder it stands for all below it.
type Left struct {
	Path string `json:"path"` // with slashes, below Root
	Why  string `json:"why"`
}

// Place is a line of a file.
type Place struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.Path, p.Line) }

// Take makes a snapshot of the folder as it is now: what git tracks, files that were changed as they were changed, and
// what is new there and not ignored; without git all but what tools leave there (__pycache__, .venv, node_modules, …).
// Files that are credentials by their name are left out, and so are those that are too long, links that leave the
// folder, and what is no file. Nothing lies at Into where it fails.
func Take(ctx context.Context, dir string, opts SnapshotOptions) (Snapshot, error) {
	return opts.take(dir, func(p *packer, abs string) error {
		if err := p.list(ctx, abs); err != nil {
			return err
		}
		p.open = p.plain
		return p.pack(ctx)
	})
}

func (opts SnapshotOptions) take(dir string, fill func(p *packer, abs string) error) (Snapshot, error) {
	if opts.MostFile == 0 {
		opts.MostFile = DefaultMostFile
	}
	if opts.Secrets == nil {
		opts.Secrets = &secret.Set{}
	}
	failed := func(err error) (Snapshot, error) { return Snapshot{}, fmt.Errorf("pack %s: %w", dir, err) }
	abs, err := filepath.Abs(dir)
	if err != nil {
		return failed(err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return failed(plain(err))
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return failed(errors.New("no folder"))
	}
	p := &packer{opts: opts}
	p.s.Root, p.s.Dir = abs, "."
	if err := fill(p, abs); err != nil {
		return failed(err)
	}
	return p.s, nil
}

// pack writes the entries that were listed.
func (p *packer) pack(ctx context.Context) (err error) {
	if err := p.check(); err != nil {
		return err
	}
	into := p.opts.Into
	if into == "" {
		into = os.TempDir()
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		return plain(err)
	}
	f, err := os.CreateTemp(into, partName)
	if err != nil {
		return plain(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	sum := &summed{to: f, sum: sha256.New()}
	if err := p.write(ctx, sum); err != nil {
		return plain(err)
	}
	p.s.Sum, p.s.Size = hex.EncodeToString(sum.sum.Sum(nil)), sum.n
	p.s.Path = filepath.Join(into, p.s.Sum+".tar.zst")
	if err := file.Settle(f, p.s.Path); err != nil {
		return plain(err)
	}
	p.finish()
	return nil
}

// entry is a file or a link on its way into a snapshot.
type entry struct {
	name string // with slashes, below the root
	link string // where it leads; "": a file
	mode int64
	size int64
	blob string // of git, where it is read from there
}

type packer struct {
	opts    SnapshotOptions
	s       Snapshot
	entries []entry
	left    int // more than Left lists

	open func(e entry) (io.ReadCloser, error)
	lfs  int // files that only say where git-lfs has them

	environments map[string]bool // folder → it is an environment of Python
}

func (p *packer) leave(name, why string) {
	if len(p.s.Left) >= mostFound {
		p.left++
		return
	}
	p.s.Left = append(p.s.Left, Left{Path: name, Why: why})
}

// add takes a name below the root, with slashes, that is there, or leaves it out.
func (p *packer) add(name string) error {
	if strings.HasPrefix(path.Base(name), partName) {
		return nil // a file that is being written, perhaps by us
	}
	if below(name, p.opts.Skip) {
		return nil
	}
	info, err := os.Lstat(filepath.Join(p.s.Root, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // git tracks it, and it was removed
	}
	if err != nil {
		return plain(err)
	}
	if why := badName(name); why != "" {
		p.leave(strings.ToValidUTF8(name, "\uFFFD"), why)
		return nil
	}
	if isBundle(filepath.Join(p.s.Root, filepath.FromSlash(name))) {
		p.leave(name, "a bundle of assay's")
		return nil
	}
	e := entry{name: name, mode: 0o644, size: info.Size()}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if e.link, err = os.Readlink(filepath.Join(p.s.Root, filepath.FromSlash(name))); err != nil {
			return plain(err)
		}
		e.size = 0
	case !info.Mode().IsRegular():
		p.leave(name, "no file: "+kind(info.Mode()))
		return nil
	case info.Mode()&0o100 != 0:
		e.mode = 0o755
	}
	return p.admit(e)
}

// admit takes an entry, or leaves it out.
func (p *packer) admit(e entry) error {
	switch {
	case e.link != "":
		if why := badLink(e.name, e.link); why != "" {
			p.leave(e.name, why)
			return nil
		}
	case secret.File(e.name):
		p.leave(e.name, "holds credentials, by its name")
		return nil
	case e.size > p.opts.MostFile:
		p.leave(e.name, fmt.Sprintf("%s, more than %s: data travel on their own", unit.Bytes(float64(e.size)),
			unit.Bytes(float64(p.opts.MostFile))))
		return nil
	}
	p.entries = append(p.entries, e)
	p.s.Bytes += e.size
	if len(p.entries) > mostEntries || p.s.Bytes > mostBytes {
		return fault.Hint(fmt.Errorf("more than %d files or %s", mostEntries, unit.Bytes(mostBytes)),
			"name in .gitignore what is no code, or pack the folder of the code alone")
	}
	return nil
}

// check puts the entries in order, each once, and remarks what another file system will not take.
func (p *packer) check() error {
	if len(p.entries) == 0 {
		return errors.New("there is no file in it that could be packed")
	}
	slices.SortFunc(p.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	p.entries = slices.CompactFunc(p.entries, func(a, b entry) bool { return a.name == b.name })
	folded := map[string]string{}
	for _, e := range p.entries {
		for name := e.name; name != "."; name = path.Dir(name) {
			low := strings.ToLower(name)
			if other, ok := folded[low]; !ok {
				folded[low] = name
			} else if other != name {
				p.s.Notes = append(p.s.Notes, fmt.Sprintf(
					"%s and %s are one name to a file system that does not tell capitals, as a Mac's: there it is refused",
					other, name))
			}
			if len(p.s.Notes) >= mostFound {
				return nil
			}
		}
	}
	return nil
}

func (p *packer) finish() {
	if p.lfs > 0 {
		p.s.Notes = append(p.s.Notes, fmt.Sprintf("%d files are only pointers of git-lfs: their content is not in it",
			p.lfs))
	}
	slices.SortFunc(p.s.Left, func(a, b Left) int { return strings.Compare(a.Path, b.Path) })
	if p.left > 0 {
		p.s.Left = append(p.s.Left, Left{Path: "…", Why: fmt.Sprintf("and %d more", p.left)})
	}
}

// write writes the entries as a compressed tar.
func (p *packer) write(ctx context.Context, to io.Writer) error {
	return packed(to, func(w *tar.Writer) error {
		for _, e := range p.entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.link != "" {
				if err := w.WriteHeader(header(e.name, e.link, 0o777, 0)); err != nil {
					return err
				}
				continue
			}
			if err := p.file(w, e); err != nil {
				return fmt.Errorf("%s: %w", e.name, plain(err))
			}
		}
		p.s.Files = len(p.entries)
		return nil
	})
}

// plain opens a file of the folder.
func (p *packer) plain(e entry) (io.ReadCloser, error) {
	return openPlain(filepath.Join(p.s.Root, filepath.FromSlash(e.name)))
}

func (p *packer) file(w *tar.Writer, e entry) error {
	f, err := p.open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(header(e.name, "", e.mode, e.size)); err != nil {
		return err
	}
	var head []byte // of a file that is looked through
	from := io.Reader(f)
	if e.size <= mostLooked {
		if head, err = io.ReadAll(io.LimitReader(f, e.size)); err != nil {
			return err
		}
		from = bytes.NewReader(head)
	}
	if n, err := io.CopyN(w, from, e.size); errors.Is(err, io.EOF) {
		return fmt.Errorf("became shorter while it was read (%d of %d bytes)", n, e.size)
	} else if err != nil {
		return err
	}
	if e.size < 1024 && bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")) {
		p.lfs++
	}
	if bytes.IndexByte(head[:min(len(head), 8<<10)], 0) >= 0 || len(p.s.Secrets) >= mostFound {
		return nil
	}
	text := string(head)
	for _, at := range p.opts.Secrets.Sure(text) {
		place := Place{Path: e.name, Line: 1 + strings.Count(text[:at], "\n")}
		if !slices.Contains(p.s.Secrets, place) {
			p.s.Secrets = append(p.s.Secrets, place)
		}
	}
	return nil
}

// packed hands write a tar that is compressed into to. One goroutine, one level: the bytes depend on the content alone.
func packed(to io.Writer, write func(*tar.Writer) error) error {
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	if err := write(w); err != nil {
		z.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

// header is that of an entry; nothing in it comes from the machine or the clock.
func header(name, link string, mode, size int64) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0),
		Format: tar.FormatPAX}
	if link != "" {
		h.Typeflag, h.Linkname = tar.TypeSymlink, link
	}
	return h
}

// badName says why a name cannot be in a snapshot; "": it can.
func badName(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "its name is no UTF-8"
	case strings.IndexByte(name, 0) >= 0:
		return "its name holds a zero"
	case len(name) > mostPath:
		return fmt.Sprintf("its path has more than %d bytes", mostPath)
	case name == "." || !fs.ValidPath(name):
		return "its name leaves the folder"
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > mostName {
			return fmt.Sprintf("its name has more than %d bytes", mostName)
		}
	}
	return ""
}

// badLink says why a link cannot be in a snapshot; "": it can. Its way goes up first and down then: so where each link
// of a chain stays within, all of it does.
func badLink(name, link string) string {
	if link == "" || len(link) > mostPath || !utf8.ValidString(link) || strings.IndexByte(link, 0) >= 0 {
		return "its link cannot be read on every system"
	}
	if strings.HasPrefix(link, "/") {
		return "a link to an absolute path"
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(link, "/") {
		switch part {
		case "", ".":
		case "..":
			if down {
				return "a link that goes up after it went down"
			}
			if depth--; depth < 0 {
				return "a link that leaves the folder"
			}
		default:
			down = true
		}
	}
	return ""
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode.IsDir():
		return "a folder"
	}
	return "of another kind"
}

// openPlain opens a file that is one: no link at its end, no pipe that would be waited for.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("is no file any more")
	}
	return f, nil
}

// plain takes the path off an error of a file, whose name the message has.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// summed passes on what is written, and adds it up.
type summed struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	return n, err
}
