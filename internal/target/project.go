package target

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Bounds of what is read of a project: its files may be anybody's.
const (
	maxManifest = 1 << 20  // bytes of a file that people write
	maxLock     = 32 << 20 // bytes of one that a tool writes; the largest that we know has some 5 MiB
	maxEntries  = 10_000   // of a folder
	maxFiles    = 64       // of a folder that are read, and of those that they include
	maxDepth    = 100      // folders that are looked at from the one given upwards
	maxSaid     = 1000     // statements of a folder
	maxNotes    = 16       // of a folder
	maxNote     = 200      // characters of one
)

// statement is what one line of a project's file says of torch.
type statement struct {
	File string // relative to the folder that it was found from
	Text string // torch==2.0.1
	asks specifier
	rank rank
}

func (s statement) String() string { return s.Text + " in " + s.File }

// rank orders statements, the smallest first: what is said for other systems or under a condition comes after what is
// said for all, one release before several, and files in the order in which people take them.
type rank struct {
	system    int // 0: for Macs; 1: for any system; 2: for another
	optional  bool
	precision int // 0: one release; 1: some; 2: any
	file      int // place in manifests
}

func (r rank) compare(s rank) int {
	optional := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(max(r.system, 1), max(s.system, 1)), // for another system: last of all
		cmp.Compare(optional(r.optional), optional(s.optional)), cmp.Compare(r.system, s.system),
		cmp.Compare(r.precision, s.precision), cmp.Compare(r.file, s.file))
}

// project is what the files of a project say of torch.
type project struct {
	pins  []statement // by rank
	locks []statement // by rank
	notes []string    // files that could not be read or understood, and why
}

// manifest is a kind of file that names what a project needs.
type manifest struct {
	fits func(name string) bool
	lock bool
	read func(*fileReader, []byte) error
}

func named(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

var (
	otherRequirements = regexp.MustCompile(`(?i)requirements[^/]*\.(txt|in)$|^(requirements|reqs)/[^/]*\.(txt|in)$`)
	constraintFiles   = regexp.MustCompile(`(?i)^constraints[^/]*\.txt$`)
	environmentFiles  = regexp.MustCompile(`(?i)^(environment|conda)[^/]*\.ya?ml$`)
	condaLocks        = regexp.MustCompile(`^(.*\.)?conda-lock\.ya?ml$`)
)

// manifests in the order in which one goes before another that says as much. The names are those that pip, uv, Poetry,
// PDM, pipenv, pixi and conda read, and people use.
var manifests = []manifest{
	{fits: named("pyproject.toml"), read: readPyproject},
	{fits: named("requirements.txt"), read: readRequirements},
	{fits: named("setup.cfg"), read: readSetupCfg},
	{fits: named("setup.py"), read: readSetupPy},
	{fits: named("environment.yml", "environment.yaml"), read: readEnvironment},
	{fits: named("pixi.toml"), read: readPixi},
	{fits: named("Pipfile"), read: readPipfile},
	{fits: otherRequirements.MatchString, read: readRequirements},
	{fits: constraintFiles.MatchString, read: readRequirements},
	{fits: func(name string) bool { return environmentFiles.MatchString(name) && !condaLocks.MatchString(name) },
		read: readEnvironment},

	{fits: named("uv.lock"), lock: true, read: readPackageBlocks},
	{fits: named("poetry.lock"), lock: true, read: readPackageBlocks},
	{fits: named("pdm.lock"), lock: true, read: readPackageBlocks},
	{fits: named("pylock.toml"), lock: true, read: readPackageBlocks},
	{fits: named("Pipfile.lock"), lock: true, read: readPipfileLock},
	{fits: named("pixi.lock"), lock: true, read: readCondaBlocks},
	{fits: condaLocks.MatchString, lock: true, read: readCondaBlocks},
}

// readProject reads what the files of the nearest folder that says anything of torch say of it, from dir upwards to the
// root of the git repository; lock files may lie in a folder above. python is the release of the Python that would run
// it, "" where that is not known. What cannot be read is noted, and says nothing.
func readProject(dir, python string) project {
	var p project
	folder := dir
	for range maxDepth {
		r := &folderReader{manifests: manifests, base: dir, folder: folder, python: python, lock: len(p.locks) > 0,
			pins: len(p.pins) > 0}
		r.read()
		if len(p.pins) == 0 {
			p.pins = r.found[false]
		}
		if len(p.locks) == 0 {
			p.locks = r.found[true]
		}
		p.notes = append(p.notes, r.notes...)
		_, err := os.Stat(filepath.Join(folder, ".git"))
		if err == nil || filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	for _, list := range [][]statement{p.pins, p.locks} {
		slices.SortStableFunc(list, func(a, b statement) int { return a.rank.compare(b.rank) })
	}
	return p
}

// folderReader reads the files of one folder.
type folderReader struct {
	manifests            []manifest
	base, folder, python string
	lock, pins           bool // are known already
	found                map[bool][]statement
	notes                []string
	done                 []string // files that were read, relative to the folder
}

func (r *folderReader) read() {
	r.found = map[bool][]statement{}
	names, err := listFolder(r.folder)
	if err != nil {
		r.note("not read: %v", err)
	}
	for i, m := range r.manifests {
		if m.lock && r.lock || !m.lock && r.pins {
			continue
		}
		for _, name := range names {
			if m.fits(name) {
				r.file(name, i)
			}
		}
	}
}

// note keeps what could not be read, as far as a reader takes it.
func (r *folderReader) note(format string, a ...any) {
	switch text := []rune(fmt.Sprintf(format, a...)); {
	case len(r.notes) == maxNotes:
		r.notes = append(r.notes, "and more that was not read or understood")
	case len(r.notes) < maxNotes && len(text) > maxNote:
		r.notes = append(r.notes, string(text[:maxNote])+"…")
	case len(r.notes) < maxNotes:
		r.notes = append(r.notes, string(text))
	}
}

// listFolder names the regular files of a folder that may be manifests, those of its folder requirements among them.
func listFolder(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && (e.Name() == "requirements" || e.Name() == "reqs") {
			below, _ := listFolder(filepath.Join(folder, e.Name()))
			for _, name := range below {
				names = append(names, e.Name()+"/"+name)
			}
			continue
		}
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, err
}

// file reads one file, once, as the manifest of that place in the list.
func (r *folderReader) file(name string, kind int) {
	if slices.Contains(r.done, name) || len(r.done) >= maxFiles {
		return
	}
	r.done = append(r.done, name)
	m := r.manifests[kind]
	limit := int64(maxManifest)
	if m.lock {
		limit = maxLock
	}
	f := &fileReader{folder: r, name: name, kind: kind}
	data, err := readRegular(filepath.Join(r.folder, name), limit)
	if err == nil {
		err = m.read(f, data)
	}
	if err != nil {
		r.note("%s was not read: %v", r.shown(name), err)
	}
}

// shown is a file's name for a reader: relative to the folder that was given.
func (r *folderReader) shown(name string) string {
	path := filepath.Join(r.folder, name)
	if rel, err := filepath.Rel(r.base, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// readRegular reads a regular file, or says why not: nothing that waits, and nothing that has no end.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("no regular file")
	}
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("larger than %d MiB", limit>>20)
	}
	if err != nil {
		return nil, plain(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // it may grow
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return inUTF8(data), plain(err)
}

// inUTF8 takes a byte order mark off, and what PowerShell writes, UTF-16, for what it is.
func inUTF8(data []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, []byte("\uFEFF")):
		return data[len("\uFEFF"):]
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	case !bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return data
	}
	units := make([]uint16, 0, len(data)/2)
	for rest := data[2:]; len(rest) >= 2; rest = rest[2:] {
		units = append(units, order.Uint16(rest))
	}
	return []byte(string(utf16.Decode(units)))
}

// plain is an error without the path, which stands beside it.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// fileReader takes what a file says of torch.
type fileReader struct {
	folder *folderReader
	name   string
	kind   int
}

// Names of files that are for Macs, and for other systems.
var (
	macNames   = regexp.MustCompile(`(?i)(^|[-_./])(mac|macos|osx|darwin|mps|apple|arm64|m1|silicon)([-_.\d]|$)`)
	otherNames = regexp.MustCompile(`(?i)(^|[-_./])(linux|ubuntu|windows|win(32|64)?|cuda|cu\d+|gpu|rocm|` +
		`xpu|npu|hpu|tpu|docker|colab|kaggle|runpod|jetson)([-_.\d]|$)`)
)

// said is how a line speaks of torch.
type said struct {
	text     string // as it is shown
	asks     string // what it asks for
	by       dialect
	marker   string // of PEP 508
	optional bool   // an extra, or a group for developers
	mac      bool   // said for Macs alone
	other    bool   // said for another system
}

// add keeps what a line says of torch, unless its marker keeps it from a Mac.
func (f *fileReader) add(s said) {
	asks, err := parseSpecifier(s.asks, s.by)
	if err != nil {
		f.folder.note("%s in %s was not understood: %v", shorten(s.text), f.folder.shown(f.name), err)
		return
	}
	at := rank{system: 1, optional: s.optional, precision: 1, file: f.kind}
	switch {
	case asks.exact() != "":
		at.precision = 0
	case len(asks) == 0:
		at.precision = 2
	}
	if s.marker != "" {
		switch onMac(s.marker, f.folder.python) {
		case no:
			return
		case unknown:
			at.optional = true
		case yes:
			if strings.Contains(s.marker, "darwin") || strings.Contains(s.marker, "Darwin") ||
				strings.Contains(s.marker, "arm64") {
				at.system = 0
			}
		}
	}
	base := strings.TrimPrefix(strings.TrimPrefix(f.name, "requirements/"), "reqs/")
	switch {
	case s.mac || macNames.MatchString(base):
		at.system = 0
	case s.other || otherNames.MatchString(base):
		at.system = 2
	}
	lock := f.folder.manifests[f.kind].lock
	if len(f.folder.found[lock]) >= maxSaid {
		return
	}
	f.folder.found[lock] = append(f.folder.found[lock], statement{File: f.folder.shown(f.name), Text: shorten(s.text),
		asks: asks, rank: at})
}

// shorten keeps a line short enough for a sentence.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 80 {
		text = string(r[:80]) + "…"
	}
	return text
}
