package bundle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
)

// TakeCommit makes a snapshot of a commit, from the objects of the working copy that dir lies in: what lies there now
// does not matter. The files are as git keeps them.
func TakeCommit(ctx context.Context, dir, commit string, opts SnapshotOptions) (Snapshot, error) {
	return opts.take(dir, func(p *packer, abs string) error {
		top, err := Top(ctx, abs)
		if err != nil {
			return err
		}
		if top == "" {
			return errors.New("no working copy of git")
		}
		rel, err := filepath.Rel(top, abs)
		if err != nil {
			return err
		}
		p.s.Root, p.s.Dir = top, filepath.ToSlash(rel)
		return p.commit(ctx, commit)
	})
}

func (p *packer) commit(ctx context.Context, commit string) error {
	tree, err := git(ctx, p.s.Root, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	if err != nil {
		return fault.Hint(fmt.Errorf("commit %s: %w", commit, err),
			"the commit is not in this working copy: git fetch, or name another with --dir")
	}
	blobs, err := openBlobs(ctx, p.s.Root)
	if err != nil {
		return err
	}
	defer blobs.Close()
	p.s.Commit, p.s.Dirty = commit, "clean"
	for line := range strings.SplitSeq(string(tree), "\x00") {
		about, name, ok := strings.Cut(line, "\t")
		words := strings.Fields(about) // mode, type, object, size
		if !ok || len(words) != 4 || within(name, never) != "" {
			continue
		}
		if below(name, p.opts.Skip) {
			continue
		}
		if why := badName(name); why != "" {
			p.leave(strings.ToValidUTF8(name, "\uFFFD"), why)
			continue
		}
		e := entry{name: name, mode: 0o644, blob: words[2]}
		e.size, _ = strconv.ParseInt(words[3], 10, 64)
		switch words[0] {
		case "100755":
			e.mode = 0o755
		case "120000":
			link, err := blobs.read(e.blob, mostPath+1)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			e.link, e.size = string(link), 0
		case "160000":
			p.leave(name, "a submodule: its commit is "+words[2])
			continue
		}
		if err := p.admit(e); err != nil {
			return err
		}
	}
	p.open = func(e entry) (io.ReadCloser, error) { return blobs.open(e.blob) }
	return p.pack(ctx)
}

// blobs reads objects of git through one process of it.
type blobs struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	cancel context.CancelFunc
}

func openBlobs(ctx context.Context, dir string) (*blobs, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "git", "-C", dir, "cat-file", "--batch")
	cmd.Env = append(cleanGit(os.Environ()), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &blobs{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), cancel: cancel}, nil
}

// open asks for an object. What it gives is to be read to its end, and closed, before the next.
func (b *blobs) open(sum string) (io.ReadCloser, error) {
	if _, err := io.WriteString(b.in, sum+"\n"); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	line, err := b.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	words := strings.Fields(line) // object, type, size; or "missing"
	if len(words) != 3 || words[1] != "blob" {
		return nil, fmt.Errorf("git has no file %s", sum)
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &blob{from: b.out, left: n}, nil
}

func (b *blobs) read(sum string, most int64) ([]byte, error) {
	r, err := b.open(sum)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, most))
}

// Close ends the process.
func (b *blobs) Close() {
	b.in.Close()
	b.cancel()
	_ = b.cmd.Wait() // killed, most times
}

// blob is one object within the stream.
type blob struct {
	from *bufio.Reader
	left int64
}

func (b *blob) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close reads what is left, and the line end behind it.
func (b *blob) Close() error {
	_, err := io.CopyN(io.Discard, b.from, b.left+1)
	b.left = 0
	return err
}

// change is a file that differs from the commit.
type change struct {
	name string
	new  bool // git does not track it
}

// changes lists what differs from the commit in the working copy, less what tools leave there and what is assay's.
func changes(ctx context.Context, top string, skip []string) ([]change, error) {
	status, err := git(ctx, top, "-c", "status.renames=false", "status", "--porcelain", "--untracked-files=all", "-z")
	if err != nil {
		return nil, err
	}
	return changesIn(status, top, skip), nil
}

// changesIn reads what git's status lists.
func changesIn(status []byte, top string, skip []string) []change {
	var all []change
	for line := range strings.SplitSeq(string(status), "\x00") {
		if len(line) < 4 {
			continue
		}
		c := change{name: strings.TrimSuffix(line[3:], "/"), new: line[0] == '?'} // behind two letters and a space
		if c.new && (within(c.name, junk) != "" || isOurs(top, c.name)) || within(c.name, never) != "" ||
			below(c.name, skip) {
			continue
		}
		all = append(all, c)
	}
	return all
}

// below says that a name is one of the list, or lies below one.
func below(name string, list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
}

// isOurs says that a file is one that assay wrote, or is writing, into the project.
func isOurs(top, name string) bool {
	return strings.HasPrefix(path.Base(name), partName) || isBundle(filepath.Join(top, filepath.FromSlash(name)))
}

// since gives the first of the changed files that was written since then; "": none was.
func since(top string, all []change, then time.Time) string {
	for _, c := range all {
		info, err := os.Lstat(filepath.Join(top, filepath.FromSlash(c.name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed: nothing has the time of that, and the count has to do
		}
		if err != nil {
			return c.name
		}
		at := info.ModTime()
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && changedAt(sys).After(at) {
			at = changedAt(sys)
		}
		if at.After(then) {
			return c.name
		}
	}
	return ""
}

// known is what the evidence says of the state of the project's code.
type known struct {
	commit string
	dirty  string // clean, dirty (3 files), unknown: why
	began  time.Time
}

// wasClean says it alike from where ever the commit is read: the same run gives the same bytes.
const wasClean = "the run's commit; nothing in it was changed then"

// code packs the code that a run had, as far as it can be known, and says how. dir is the run's working folder here.
func (k known) code(ctx context.Context, dir string, now bool, opts SnapshotOptions) (s Snapshot, c Code, err error) {
	defer func() {
		c.Commit, c.Dirty, c.Dir, c.Sum = s.Commit, s.Dirty, s.Dir, s.Sum
		c.Files, c.Bytes, c.Left, c.Secrets, c.Notes = s.Files, s.Bytes, s.Left, s.Secrets, s.Notes
	}()
	top, err := Top(ctx, dir)
	if err != nil {
		return s, c, err
	}
	if k.commit == "" || top == "" {
		s, err = Take(ctx, dir, opts)
		c.Basis, c.Why = evidence.Declared, "the folder as it is now: the run's evidence names no commit"
		if k.commit != "" {
			c.Why = "the folder as it is now: it is no working copy of git, and the run's was"
		}
		return s, c, err
	}
	head, err := git(ctx, top, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return s, c, err
	}
	all, err := changes(ctx, top, opts.Skip)
	if err != nil {
		return s, c, err
	}
	here := strings.TrimSpace(string(head)) == k.commit
	switch {
	case now:
		s, err = Take(ctx, dir, opts)
		c.Basis, c.Why = evidence.Declared, "the working copy as it is now, as --code now asked"
	case k.dirty == "clean" && here && len(all) == 0:
		s, err = Take(ctx, dir, opts)
		c.Basis, c.Why = evidence.Measured, wasClean
	case k.dirty == "clean":
		s, err = TakeCommit(ctx, dir, k.commit, opts)
		c.Basis, c.Why = evidence.Measured, wasClean
	case here && k.dirtyFiles() > 0 && k.same(ctx, top, all):
		s, err = Take(ctx, dir, opts)
		c.Basis = evidence.Derived
		c.Why = "the working copy as it is now: at the run's commit, as many files are changed as then, " +
			"and none of them since the run began"
	default:
		s, err = TakeCommit(ctx, dir, k.commit, opts)
		c.Basis = evidence.Declared
		c.Why = "the run's commit, from git's objects; what was changed then (" + k.dirty + ") is not known, for " +
			k.moved(top, here, all)
	}
	return s, c, err
}

// moved says in which way the working copy is another now.
func (k known) moved(top string, here bool, all []change) string {
	switch at := since(top, all, k.began); {
	case k.dirtyFiles() == 0:
		return "git could not be asked"
	case !here:
		return "the working copy is at another commit now"
	case at != "":
		return at + " was written since the run began"
	}
	return fmt.Sprintf("the number of changed files is %d now", len(all))
}

// dirtyFiles is the number in "dirty (3 files)"; 0 where it says something else.
func (k known) dirtyFiles() int {
	n := 0
	if _, err := fmt.Sscanf(k.dirty, "dirty (%d files)", &n); err != nil {
		return 0
	}
	return n
}

// same says whether the changes are those that the run had: as many, counted as then (a new folder as one, with what
// tools leave or without), and none of them since.
func (k known) same(ctx context.Context, top string, all []change) bool {
	status, err := git(ctx, top, "-c", "status.renames=false", "status", "--porcelain", "--untracked-files=normal",
		"-z")
	if err != nil || since(top, all, k.began) != "" {
		return false
	}
	least, most := 0, 0
	for line := range strings.SplitSeq(string(status), "\x00") {
		if len(line) < 4 {
			continue
		}
		name := strings.TrimSuffix(line[3:], "/")
		if within(name, never) != "" {
			continue
		}
		if most++; isOurs(top, name) { // a bundle that lay there already
			continue
		}
		if line[0] != '?' || slices.ContainsFunc(all, func(c change) bool {
			return c.name == name || strings.HasPrefix(c.name, name+"/")
		}) {
			least++
		}
	}
	return least <= k.dirtyFiles() && k.dirtyFiles() <= most
}

// patch gives the difference of a working copy to a commit as git writes it, new files as new: of files that hold
// credentials by their name nothing, and of those the packer left out nothing either.
func patch(ctx context.Context, top, commit string, skip []string, left []Left) ([]byte, []string, error) {
	all, err := changes(ctx, top, skip)
	if err != nil {
		return nil, nil, err
	}
	out := func(name string) bool {
		return secret.File(name) ||
			slices.ContainsFunc(left, func(l Left) bool { return below(name, []string{l.Path}) })
	}
	var tracked, names []string
	var text bytes.Buffer
	slices.SortFunc(all, func(a, b change) int { return strings.Compare(a.name, b.name) })
	for _, c := range all {
		if out(c.name) {
			continue
		}
		names = append(names, strings.ToValidUTF8(c.name, "\uFFFD"))
		if !c.new {
			tracked = append(tracked, c.name)
		}
	}
	form := []string{"--literal-pathspecs", "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c",
		"diff.algorithm=myers", "-c", "core.abbrev=40", "diff", "--binary", "--full-index", "--no-color",
		"--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "-U3"}
	for some := range slices.Chunk(tracked, 500) { // the longest command line is bounded
		diff, err := git(ctx, top, append(append(slices.Clone(form), commit, "--"), some...)...)
		if err != nil {
			return nil, nil, err
		}
		text.Write(diff)
	}
	for _, c := range all {
		if !c.new || out(c.name) {
			continue
		}
		info, err := os.Lstat(filepath.Join(top, filepath.FromSlash(c.name)))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		diff, err := git(ctx, top, append(slices.Clone(form), "--no-index", "--", "/dev/null", c.name)...)
		if err != nil && len(diff) == 0 { // 1: they differ
			return nil, nil, err
		}
		text.Write(diff)
	}
	return text.Bytes(), names, nil
}
