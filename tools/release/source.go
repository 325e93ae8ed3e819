package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
)

// program is the command's name, and that of the archives.
const program = "assay"

// version of a release: in Go's way, which `assay version` prints, and in Python's, which file names have.
type version struct {
	tag    string // v0.9.0-rc.1; of a development version the same as python
	python string // 0.9.0rc1 (PEP 440)
}

func (v version) String() string { return v.tag }

// tagForm is a version that both worlds know how to order: Go's (semver.org) and Python's (PEP 440).
var tagForm = regexp.MustCompile(
	`^v((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*))(?:-(alpha|beta|rc)\.(0|[1-9]\d*))?$`)

// parseVersion reads v1.2.3, v1.2.3-alpha.1, v1.2.3-beta.1 and v1.2.3-rc.1.
func parseVersion(tag string) (version, error) {
	m := tagForm.FindStringSubmatch(tag)
	if m == nil {
		return version{}, fault.Hint(fmt.Errorf("version %q: not of the form v1.2.3", tag),
			"before a release: v1.2.3-alpha.1, v1.2.3-beta.1 or v1.2.3-rc.1")
	}
	short := map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]]
	return version{tag: tag, python: m[1] + short + m[3]}, nil
}

// source is what is released: one commit, and its files in a folder of their own, so that nothing that lies beside
// them in the work tree gets in.
type source struct {
	version version
	commit  string    // the commit that is archived
	date    time.Time // that every file of the release bears: SOURCE_DATE_EPOCH, else the commit's; UTC, whole seconds
	tree    string    // folder of the files
	root    string    // the repository
	scratch string
	index   string // an index of git's, apart from the repository's own
}

// openSource looks at the repository, says which version it is, and lays its files out.
func openSource(ctx context.Context, o options) (_ *source, err error) {
	s := &source{root: o.root}
	if s.scratch, err = os.MkdirTemp("", "assay-release-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.index, s.tree = filepath.Join(s.scratch, "index"), filepath.Join(s.scratch, "tree")
	if s.commit, err = s.git(ctx, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return nil, err
	}
	changed, err := s.git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" && !o.dev {
		first, _, _ := strings.Cut(changed, "\n")
		return nil, fault.Hint(fmt.Errorf("release %s: the work tree differs from its commit (%s)", o.root,
			strings.TrimSpace(first)), "commit it, or make a development version of it: --dev")
	}
	if s.version, err = s.chooseVersion(ctx, o, changed != ""); err != nil {
		return nil, err
	}
	if s.date, err = s.dateOf(ctx, o.epoch); err != nil {
		return nil, err
	}
	if _, err = s.git(ctx, "read-tree", "HEAD"); err != nil {
		return nil, err
	}
	if changed != "" {
		if err = s.commitChanges(ctx); err != nil {
			return nil, err
		}
	}
	_, err = s.git(ctx, "-c", "core.autocrlf=false", "checkout-index", "--all", "--prefix="+s.tree+"/")
	return s, err
}

// commitChanges makes a commit of the tree as it stands, on no branch, and takes it for the commit.
func (s *source) commitChanges(ctx context.Context) error {
	if _, err := s.git(ctx, "add", "--all"); err != nil {
		return err
	}
	tree, err := s.git(ctx, "write-tree")
	if err != nil {
		return err
	}
	s.commit, err = s.git(ctx, "commit-tree", tree, "-p", s.commit, "-m", "the tree as it stood")
	return err
}

func (s *source) close() { os.RemoveAll(s.scratch) }

// git runs git in the repository, with an index apart once that has been filled, and returns what it printed.
func (s *source) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.root
	cmd.Env = os.Environ()
	for _, who := range []string{"AUTHOR", "COMMITTER"} { // of a commit on no branch; the same whoever makes it
		cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=assay", "GIT_"+who+"_EMAIL=assay@example.invalid",
			fmt.Sprintf("GIT_%s_DATE=%d +0000", who, s.date.Unix()))
	}
	if args[0] != "status" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+s.index)
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w: %s", args[0], s.root, err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// chooseVersion is that of the tag on HEAD, unless another was asked for.
func (s *source) chooseVersion(ctx context.Context, o options, dirty bool) (version, error) {
	if o.dev {
		if o.version != "" {
			return version{}, fmt.Errorf("--dev and --version %s: one of them", o.version)
		}
		count, err := s.git(ctx, "rev-list", "--count", "HEAD")
		if err != nil {
			return version{}, err
		}
		v := "0.0.0.dev" + count + "+g" + s.commit[:12] // a local version: no index takes it
		if dirty {
			v += ".dirty"
		}
		return version{tag: v, python: v}, nil
	}
	tags, err := s.git(ctx, "tag", "--points-at", "HEAD", "--list", "v[0-9]*")
	if err != nil {
		return version{}, err
	}
	named := strings.Fields(tags)
	switch {
	case len(named) > 1:
		return version{}, fault.Hint(fmt.Errorf("version of %s: it has several tags: %s", s.commit[:12],
			strings.Join(named, ", ")), "leave it one of them")
	case len(named) == 1 && o.version != "" && o.version != named[0]:
		return version{}, fmt.Errorf("--version %s: the tag of %s is %s", o.version, s.commit[:12], named[0])
	case len(named) == 1:
		return parseVersion(named[0])
	case o.version != "":
		return parseVersion(o.version)
	}
	return version{}, fault.Hint(fmt.Errorf("version of %s: it has no tag of the form v1.2.3", s.commit[:12]),
		"git tag v1.2.3, or --version v1.2.3, or a development version: --dev")
}

// dateOf is SOURCE_DATE_EPOCH (reproducible-builds.org), in seconds since 1970, else the commit's date.
func (s *source) dateOf(ctx context.Context, epoch string) (time.Time, error) {
	from := "SOURCE_DATE_EPOCH"
	if epoch == "" {
		var err error
		if epoch, err = s.git(ctx, "show", "--no-patch", "--format=%ct", s.commit); err != nil {
			return time.Time{}, err
		}
		from = "the date of " + s.commit[:12]
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 0, 0, 0, 0, time.UTC)
	if t := time.Unix(n, 0).UTC(); err == nil && !t.Before(first) && t.Before(last) {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%s, %q: not in seconds since 1970, between 1980 and 2107, which zip can say", from,
		epoch)
}

// stem is how the names of a release's files begin; fileName that of a platform's.
func (s *source) stem() string               { return program + "_" + s.version.python }
func (s *source) fileName(p platform) string { return s.stem() + "_" + p.os + "_" + p.arch }
func (s *source) sourceName() string         { return s.stem() + "_source.tar.gz" }

// writeSources writes the archive of the sources, as git makes it of the commit, and returns its SHA-256.
func (s *source) writeSources(ctx context.Context, path string) (sum string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	zip, err := gzip.NewWriterLevel(io.MultiWriter(f, hash), gzip.BestCompression) // git's own would be the system's
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "-c", "tar.umask=0022", "archive", "--format=tar",
		"--prefix="+s.stem()+"/", s.commit)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, zip, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git archive in %s: %w: %s", s.root, err, strings.TrimSpace(said.String()))
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), f.Close()
}
