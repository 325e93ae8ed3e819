package bundle

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
)

const (
	mostManifest = 64 << 20 // bytes of it
	mostInBundle = 2000     // files of a bundle: its parts, not those of the code
)

// Bundle is one that was read, and verified: its files are those that its manifest lists.
type Bundle struct {
	Path     string
	Sum      string // SHA-256 of the file
	Size     int64  // its bytes
	Manifest Manifest
	manifest []byte // as it was read
}

// Open reads a bundle, and verifies every file in it against the manifest. It is a stranger's file.
func Open(file string) (*Bundle, error) {
	b := &Bundle{Path: file}
	if err := b.each(nil); err != nil {
		return nil, fmt.Errorf("read the bundle %s: %w", file, err)
	}
	return b, nil
}

// each reads the bundle from its beginning, verifies it, and hands each file's content to take as it comes; nil: to
// nobody. What take was given is to be believed only when each has ended without an error.
func (b *Bundle) each(take func(f File, r io.Reader) error) error {
	f, err := openPlain(b.Path)
	if err != nil {
		return plain(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return plain(err)
	}
	all := sha256.New()
	limits := usual
	limits.entries = mostInBundle
	var left []File // of the manifest, in its order
	begun := false
	err = limits.read(io.TeeReader(f, all), info.Size(), func(h *tar.Header, r io.Reader) error {
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("entry %q is no file", h.Name)
		}
		if !begun {
			if h.Name != ManifestFile {
				return fault.Hint(fmt.Errorf("no bundle: it begins with %q, and not with %s", h.Name, ManifestFile),
					"a bundle is what assay handoff pack wrote")
			}
			begun = true
			var m Manifest
			var err error
			if b.manifest, err = readManifest(h.Size, r, &m); err != nil {
				return err
			}
			left = m.Files
			b.Manifest = m
			return nil
		}
		if len(left) == 0 || left[0].Path != h.Name {
			return fmt.Errorf("entry %q is not where its manifest says", h.Name)
		}
		want := left[0]
		left = left[1:]
		if h.Size != want.Size {
			return fmt.Errorf("%q has %d bytes, and by its manifest %d", h.Name, h.Size, want.Size)
		}
		sum := sha256.New()
		through := io.TeeReader(r, sum)
		if take != nil {
			if err := take(want, through); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, through); err != nil {
			return damaged(err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want.Sum {
			return fmt.Errorf("%q is not what its manifest says: its SHA-256 is %s, and by the manifest %s", h.Name, got,
				want.Sum)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("it is damaged: %q is missing", left[0].Path)
	}
	b.Sum, b.Size = hex.EncodeToString(all.Sum(nil)), info.Size()
	return nil
}

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

func readManifest(size int64, r io.Reader, m *Manifest) ([]byte, error) {
	if size > mostManifest {
		return nil, fmt.Errorf("its manifest has %d bytes, and %d at most are read", size, mostManifest)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, damaged(err)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("its manifest is damaged: %w", err)
	}
	if m.Schema != Schema {
		return nil, fault.Hint(fmt.Errorf("its manifest is of schema %q, and this assay reads %q", m.Schema, Schema),
			"use the assay that wrote it, or a newer one")
	}
	return data, m.check()
}

// check refuses a manifest that would lead out of the folder, or contradicts itself.
func (m *Manifest) check() error {
	bad := func(what, name string) error { return fmt.Errorf("its manifest is damaged: %s %q", what, name) }
	seen := map[string]bool{}
	for _, f := range m.Files {
		first, _, _ := strings.Cut(f.Path, "/")
		switch {
		case badName(f.Path) != "" || slices.Contains([]string{ManifestFile, CodePlace, EnvPlace, LogPlace}, first):
			return bad("a file", f.Path)
		case seen[f.Path]:
			return bad("twice the file", f.Path)
		case f.Size < 0 || !hexSum.MatchString(f.Sum):
			return bad("the size or the sum of", f.Path)
		}
		seen[f.Path] = true
	}
	local := func(name string) bool { return name == "." || badName(name) == "" }
	if !seen[CodeFile] || !seen[EvidenceFile] {
		return bad("there is no", CodeFile+", "+EvidenceFile)
	}
	if !local(m.Code.Dir) {
		return bad("the folder", m.Code.Dir)
	}
	if m.Environment.Install != "" && !seen[m.Environment.Install] {
		return bad("the lock", m.Environment.Install)
	}
	for _, l := range m.Environment.Locks {
		if !seen[l.Path] || l.Of != "" && badName(l.Of) != "" {
			return bad("the lock", l.Path)
		}
	}
	for _, e := range m.Environment.Elsewhere {
		if e.Code != "" && !local(e.Code) {
			return bad("a package's folder", e.Code)
		}
	}
	for _, d := range m.Data {
		within := strings.HasPrefix(d.Place, CodePlace+"/") || strings.HasPrefix(d.Place, DataPlace+"/")
		if d.Place != "" && (badName(d.Place) != "" || !within) {
			return bad("the place of data", d.Place)
		}
		if d.File != "" && (!seen[d.File] || d.Place == "") {
			return bad("the data", d.File)
		}
	}
	for name, value := range m.Command.Variables {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return bad("the variable", name)
		}
	}
	return nil
}

// Read gives the content of one of its files, so many bytes at most.
func (b *Bundle) Read(name string, most int64) ([]byte, error) {
	var content []byte
	found := false
	err := b.each(func(f File, r io.Reader) error {
		if f.Path != name {
			return nil
		}
		if found = true; f.Size > most {
			return fmt.Errorf("%q has %d bytes, and %d at most are read", name, f.Size, most)
		}
		var err error
		content, err = io.ReadAll(r)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no %s in it", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the bundle %s: %w", b.Path, err)
	}
	return content, nil
}

// Unpack makes the folder into of the bundle, which is not there yet or empty: its files as they are, the code in
// CodePlace, and each snapshot of data at its place. Whole or not at all.
func (b *Bundle) Unpack(into string) error {
	err := whole(into, func(root *os.Root) error {
		u := &unpacker{root: root, most: mostInBundle, dirs: map[string]bool{}}
		was := b.Sum
		if err := b.each(func(f File, r io.Reader) error {
			return u.file(f.Path, &tar.Header{Mode: 0o644, Size: f.Size}, r)
		}); err != nil {
			return err
		}
		if was != "" && b.Sum != was {
			return errors.New("it has changed since it was opened")
		}
		if err := root.WriteFile(ManifestFile, b.manifest, 0o644); err != nil {
			return plainly(err)
		}
		if err := part(root, CodeFile, CodePlace); err != nil {
			return fmt.Errorf("%s: %w", CodeFile, err)
		}
		for _, d := range b.Manifest.Data {
			if d.File == "" {
				continue
			}
			if err := part(root, d.File, d.Place); err != nil {
				return fmt.Errorf("%s: %w", d.File, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("unpack %s: %w", b.Path, err)
	}
	return nil
}

// part unpacks a snapshot below root into a folder there, which may have something in it already.
func part(root *os.Root, name, place string) error {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return plainly(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return plainly(err)
	}
	for at := range len(place) + 1 {
		if at < len(place) && place[at] != '/' {
			continue
		}
		if err := root.Mkdir(filepath.FromSlash(place[:at]), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return plainly(err)
		}
	}
	// Each part on the way is a folder and no link of the code's.
	for p := place; p != "."; p = path.Dir(p) {
		if info, err := root.Lstat(filepath.FromSlash(p)); err != nil || !info.IsDir() {
			return fmt.Errorf("%q is no folder", p)
		}
	}
	below, err := root.OpenRoot(filepath.FromSlash(place))
	if err != nil {
		return plainly(err)
	}
	defer below.Close()
	return usual.into(f, info.Size(), below, place != CodePlace)
}

// Fill puts the folder that a bundle was unpacked to, an absolute path, in the place of Root.
func Fill(s, root string) string { return strings.ReplaceAll(s, Root, root) }

// isBundle says that a file is a bundle of assay's, by its name and its beginning.
func isBundle(path string) bool {
	if !strings.HasSuffix(path, ".tar.zst") {
		return false
	}
	f, err := openPlain(path)
	if err != nil {
		return false
	}
	defer f.Close()
	is := false
	stop := errors.New("seen")
	_ = usual.read(f, 1<<40, func(h *tar.Header, r io.Reader) error {
		head, _ := io.ReadAll(io.LimitReader(r, 64))
		is = h.Name == ManifestFile && strings.Contains(string(head), `"assay.bundle/`)
		return stop
	})
	return is
}
