package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/unit"
)

const (
	partOf   = ".part-"           // and the sum: a file of which not all is there
	claimed  = 20 * time.Second   // without Data after which another connection may have the part
	keptPart = 7 * 24 * time.Hour // that a part is kept for whoever goes on with it
	spare    = 16 << 20           // bytes that stay free on the disk
)

// wellFormed are the names of blobs: a path cannot be made of one.
var wellFormed = regexp.MustCompile(`^[0-9a-f]{64}$`)

// blobs takes files in, for one connection. A file that is under way is locked by the connection that brings it, so
// that two never write one; the lock ends with the process, or when it has said nothing for a while.
type blobs struct {
	folder string // Root/blobs
	home   string
	open   map[string]*part // by sum
	swept  bool
}

// part is a file that this connection brings. Its f is nil when its claim was given up.
type part struct {
	f    *os.File
	size int64 // bytes that are in it
	want int64
	last time.Time // when it grew
}

func (b *blobs) path(sum string) string { return filepath.Join(b.folder, sum) }
func (b *blobs) part(sum string) string { return filepath.Join(b.folder, partOf+sum) }

// close gives every claim up. The parts stay for whoever goes on with them.
func (b *blobs) close() { b.rest(time.Time{}) }

// rest gives up the claims of this connection on what has not grown for a while; the zero time: on everything.
func (b *blobs) rest(now time.Time) {
	for _, p := range b.open {
		if p.f != nil && (now.IsZero() || now.Sub(p.last) > claimed) {
			p.f.Close()
			p.f = nil
		}
	}
}

func (p Put) check() error {
	if !wellFormed.MatchString(p.Sum) || p.Size < 0 {
		return fmt.Errorf("take a file in: %.80q of %d bytes is no file's SHA-256 and size", p.Sum, p.Size)
	}
	return nil
}

// whole is what a file that is there answers; of a file that is not, Whole is false.
func (b *blobs) whole(p Put) Have {
	info, err := os.Lstat(b.path(p.Sum))
	if err != nil || !info.Mode().IsRegular() || info.Size() != p.Size {
		return Have{}
	}
	return Have{Size: p.Size, Whole: true, Path: b.path(p.Sum)}
}

// put says how much of a file is here, and claims it for this connection.
func (b *blobs) put(p Put) (Have, error) {
	if err := p.check(); err != nil {
		return Have{}, err
	}
	if !b.swept {
		b.swept = true
		sweepParts(b.folder, time.Now())
	}
	if have := b.whole(p); have.Whole {
		return have, nil
	}
	own, err := b.claim(p)
	if err != nil {
		return Have{}, err
	}
	if have := b.whole(p); have.Whole { // who had it has finished it
		b.forget(p.Sum)
		return have, nil
	}
	if own.size > p.Size { // another file's, or a fault's
		if err := own.f.Truncate(0); err != nil {
			return Have{}, fmt.Errorf("begin %s anew: %w", b.part(p.Sum), err)
		}
		own.size = 0
	}
	if err := room(b.folder, p.Size-own.size); err != nil {
		if own.size == 0 {
			b.forget(p.Sum)
		}
		return Have{}, err
	}
	return Have{Size: own.size}, nil
}

// claim locks the part of a file for this connection.
func (b *blobs) claim(p Put) (*part, error) {
	if own := b.open[p.Sum]; own != nil && own.f != nil {
		own.want, own.last = p.Size, time.Now()
		return own, nil
	}
	f, err := lockPart(b.part(p.Sum))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("take a file in: %w", err)
	}
	if b.open == nil {
		b.open = map[string]*part{}
	}
	own := &part{f: f, size: info.Size(), want: p.Size, last: time.Now()}
	b.open[p.Sum] = own
	return own, nil
}

// lockPart opens and locks the part at path, which is made where there is none.
func lockPart(path string) (*os.File, error) {
	for range 100 { // somebody else may finish it, or sweep it, between the opening and the lock
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, noRoom(fmt.Errorf("take a file in: %w", err), filepath.Dir(path), 0)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, &Refused{Text: "another connection is sending the same file here", Busy: true,
					Hint: "wait until it has ended"}
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if same(f, path) {
			return f, nil
		}
		f.Close()
	}
	return nil, &Refused{Text: "others take the same file in and away here", Busy: true}
}

// same says whether the file is the one that lies at path.
func same(f *os.File, path string) bool {
	opened, err := f.Stat()
	there, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(opened, there)
}

// forget removes a part that this connection has.
func (b *blobs) forget(sum string) {
	own := b.open[sum]
	if own == nil || own.f == nil {
		return
	}
	if same(own.f, b.part(sum)) {
		os.Remove(b.part(sum))
	}
	own.f.Close()
	delete(b.open, sum)
}

// data goes on with a part that this connection has claimed.
func (b *blobs) data(d Data, body []byte) (Have, error) {
	own := b.open[d.Sum]
	if own == nil {
		return Have{}, fmt.Errorf("go on with the file %.80q: nobody said of this connection that it would come", d.Sum)
	}
	if own.f == nil { // it said nothing for so long that others could have it
		again, err := b.claim(Put{Sum: d.Sum, Size: own.want})
		if err != nil {
			return Have{}, err
		}
		own = again
	}
	if d.At != own.size {
		return Have{}, &Refused{Text: fmt.Sprintf("go on with the file %s at byte %d: %d are here", d.Sum, d.At,
			own.size), Busy: true, Hint: "ask how much is here"}
	}
	if int64(len(body)) > own.want-own.size {
		return Have{}, fmt.Errorf("go on with the file %s: %d bytes at %d are more than its %d", d.Sum, len(body), d.At,
			own.want)
	}
	n, err := own.f.WriteAt(body, own.size)
	own.size += int64(n) // what was written stands, and is gone on with
	own.last = time.Now()
	if err != nil {
		return Have{}, noRoom(fmt.Errorf("write the file %s: %w", d.Sum, err), b.folder, own.want-own.size)
	}
	return Have{Size: own.size}, nil
}

// commit looks whether a part is what its name says, and gives it its name. What is not is removed: nothing tells which
// of its bytes are wrong.
func (b *blobs) commit(p Put) (Have, error) {
	if err := p.check(); err != nil {
		return Have{}, err
	}
	if have := b.whole(p); have.Whole {
		b.forget(p.Sum)
		return have, nil
	}
	if b.open[p.Sum] == nil {
		return Have{}, fmt.Errorf("finish the file %s: nobody said of this connection that it would come", p.Sum)
	}
	own, err := b.claim(p)
	if err != nil {
		return Have{}, err
	}
	if own.size != p.Size {
		return Have{}, &Refused{Text: fmt.Sprintf("finish the file %s: %d of its %d bytes are here", p.Sum, own.size,
			p.Size), Busy: true, Hint: "ask how much is here"}
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(own.f, 0, p.Size)); err != nil {
		return Have{}, fmt.Errorf("read the file %s again: %w", p.Sum, err)
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != p.Sum {
		b.forget(p.Sum)
		return Have{}, fault.Hint(fmt.Errorf("finish the file %s: what came has the SHA-256 %s, and was removed", p.Sum,
			sum), "send it anew; was it changed while it was sent?")
	}
	// The lock goes with the descriptor, which Settle closes after the sync and before the rename: who claims the part
	// in between finds another file at its path a moment later, and looks again.
	if err := own.f.Sync(); err != nil {
		return Have{}, noRoom(fmt.Errorf("write the file %s: %w", p.Sum, err), b.folder, 0)
	}
	if err := os.Rename(b.part(p.Sum), b.path(p.Sum)); err != nil {
		return Have{}, fmt.Errorf("finish the file %s: %w", p.Sum, err)
	}
	own.f.Close()
	delete(b.open, p.Sum)
	if err := file.SyncFolder(b.folder); err != nil {
		return Have{}, fmt.Errorf("finish the file %s: %w", p.Sum, err)
	}
	return Have{Size: p.Size, Whole: true, Path: b.path(p.Sum)}, nil
}

// room says why this many bytes cannot be taken in; nil where they can, or where nobody knows.
func room(folder string, need int64) error {
	free, err := Free(folder)
	if err != nil || free-spare >= need {
		return nil
	}
	return full(folder, need, free)
}

func full(folder string, need, free int64) error {
	return &Refused{Text: fmt.Sprintf("take a file in: the disk of %s has %s free, and %s are to come", folder,
		unit.Bytes(float64(free)), unit.Bytes(float64(need))),
		Hint: "make room there, and send it again: what has come is gone on with"}
}

// noRoom tells a full disk in the words of room, and leaves every other error as it is. need is how much is to come.
func noRoom(err error, folder string, need int64) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	free, ferr := Free(folder)
	if errors.Is(err, syscall.EDQUOT) || ferr != nil || free > need {
		return fault.Hint(err, "make room there, and send it again: what has come is gone on with")
	}
	return full(folder, need, free)
}

// sweepParts removes parts that nobody goes on with, by age. A time that cannot be, of a clock that was wrong once, is
// no age: such a part is young from now on.
func sweepParts(folder string, now time.Time) {
	for _, path := range parts(folder) {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		age := now.Sub(info.ModTime())
		if age >= 0 && age < keptPart {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && same(f, path) {
			if age < 0 || age > 10*365*24*time.Hour {
				_ = os.Chtimes(path, now, now)
			} else {
				os.Remove(path)
			}
		}
		f.Close()
	}
}

func parts(folder string) []string {
	entries, _ := os.ReadDir(folder)
	var list []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partOf) {
			list = append(list, filepath.Join(folder, e.Name()))
		}
	}
	return list
}

// place moves a file that is whole in the blobs to where its user looks for it.
func (b *blobs) place(p Place) (Have, error) {
	put := Put{Sum: p.Sum, Size: p.Size}
	if err := put.check(); err != nil {
		return Have{}, err
	}
	to, err := b.target(p.To)
	if err != nil {
		return Have{}, err
	}
	switch same, err := holds(to, put); {
	case err != nil:
		return Have{}, fmt.Errorf("look at what lies at %s: %w", to, err)
	case same:
		return Have{Size: p.Size, Whole: true, Path: to}, nil
	}
	if _, err := os.Lstat(to); err == nil && !p.Force {
		return Have{}, another(to)
	}
	if !b.whole(put).Whole {
		return Have{}, nil
	}
	folder := filepath.Dir(to)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Have{}, noRoom(fmt.Errorf("make the folder %s: %w", folder, err), b.folder, 0)
	}
	if err := b.move(put, to, p.Force); err != nil {
		return Have{}, err
	}
	os.Remove(b.path(p.Sum))
	if err := file.SyncFolder(folder); err != nil {
		return Have{}, fmt.Errorf("give the file its name %s: %w", to, err)
	}
	return Have{Size: p.Size, Whole: true, Path: to}, nil
}

func another(to string) error {
	return fault.Hint(fmt.Errorf("give the file its name: another lies at %s there", to),
		"look at it; --force puts this one in its place, --to FOLDER beside it")
}

// move gives the blob its name by a link, or as a copy where the file system has none between the two.
func (b *blobs) move(p Put, to string, force bool) error {
	if !force {
		err := os.Link(b.path(p.Sum), to) // never over another
		if err == nil || errors.Is(err, fs.ErrExist) {
			return placed(err, to)
		}
	}
	if force && os.Rename(b.path(p.Sum), to) == nil {
		return nil
	}
	from, err := os.Open(b.path(p.Sum))
	if err != nil {
		return fmt.Errorf("give the file its name %s: %w", to, err)
	}
	defer from.Close()
	if err := room(filepath.Dir(to), p.Size); err != nil {
		return err
	}
	if !force { // no link can be made here: what appears in this moment is lost to the rename
		if _, err := os.Lstat(to); err == nil {
			return another(to)
		}
	}
	err = file.Write(to, 0o600, func(w io.Writer) error { _, err := io.Copy(w, from); return err })
	if err != nil {
		return noRoom(fmt.Errorf("give the file its name %s: %w", to, err), filepath.Dir(to), p.Size)
	}
	return nil
}

func placed(err error, to string) error {
	if err != nil {
		return another(to)
	}
	return nil
}

// target is where a file is to lie: absolute, or within the user's home.
func (b *blobs) target(to string) (string, error) {
	rest := strings.TrimPrefix(to, "~/")
	switch {
	case to == "" || strings.ContainsRune(to, 0) || strings.HasSuffix(to, "/") || to == "~":
		return "", fmt.Errorf("give the file a name: %.200q is none", to)
	case filepath.IsAbs(to):
		return filepath.Clean(to), nil
	case b.home == "":
		return "", fmt.Errorf("give the file the name %.200q: no home folder is known there", to)
	}
	return filepath.Join(b.home, rest), nil
}

// holds says whether the file at path is this one, byte for byte as its sum tells.
func holds(path string, p Put) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return false, nil
		}
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != p.Size {
		return false, err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, p.Size+1)); err != nil {
		return false, err
	}
	return hex.EncodeToString(hash.Sum(nil)) == p.Sum, nil
}
