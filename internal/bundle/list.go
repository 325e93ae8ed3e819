package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// junk are folders that tools leave in a project, and that none of its code is in.
var junk = []string{".git", ".hg", ".svn", ".assay", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox",
	".eggs", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", "__pypackages__", ".pixi"}

// never are folders that are not packed even where git tracks what is in them.
var never = []string{".git", ".assay"}

const (
	deepest     = 64               // folders below one another
	nested      = 8                // working copies of git below one another
	gitPatience = 60 * time.Second // a status of a large working copy on a slow disk
)

// list fills in the entries of the folder abs, an absolute path without links.
func (p *packer) list(ctx context.Context, abs string) error {
	if p.opts.All && p.opts.Only != "" {
		return p.add(p.opts.Only)
	}
	if p.opts.All {
		return p.walk(ctx, "", 0)
	}
	top, err := Top(ctx, abs)
	if err != nil {
		return err
	}
	if top == "" {
		return p.walk(ctx, "", 0)
	}
	if !p.opts.Here && top != abs {
		rel, err := filepath.Rel(top, abs)
		if err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("git names %s as its top", top)
		}
		p.s.Root, p.s.Dir = top, filepath.ToSlash(rel)
	}
	if commit, err := git(ctx, p.s.Root, "rev-parse", "--verify", "HEAD"); err == nil {
		p.s.Commit = strings.TrimSpace(string(commit))
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	changes, err := git(ctx, p.s.Root, "-c", "status.renames=false", "status", "--porcelain",
		"--untracked-files=all", "-z", "--", ".")
	if err != nil {
		return err
	}
	p.s.Dirty = p.dirty(changes)
	return p.tracked(ctx, "", 0)
}

// dirty says how many changes git's status lists, less those in what is never packed.
func (p *packer) dirty(status []byte) string {
	n := len(changesIn(status, p.s.Root, p.opts.Skip))
	if n == 0 {
		return "clean"
	}
	return fmt.Sprintf("dirty (%d files)", n)
}

// tracked adds what git tracks below rel, a working copy, and what is new there.
func (p *packer) tracked(ctx context.Context, rel string, depth int) error {
	dir := filepath.Join(p.s.Root, filepath.FromSlash(rel))
	for _, which := range []string{"--cached", "--others"} {
		if which == "--others" && p.opts.Tracked {
			break
		}
		out, err := git(ctx, dir, "ls-files", "-z", which, "--exclude-standard")
		if err != nil {
			return err
		}
		left := ""
		for name := range strings.SplitSeq(string(out), "\x00") {
			if name == "" {
				continue
			}
			name = path.Join(rel, strings.TrimSuffix(name, "/"))
			list := never
			if which == "--others" {
				list = junk
			}
			if at := within(name, list); at != "" {
				if which == "--others" && at != left && !slices.Contains(never, path.Base(at)) {
					p.leave(at, "made by a tool, and git does not ignore it")
				}
				left = at
				continue
			}
			full := filepath.Join(p.s.Root, filepath.FromSlash(name))
			if info, err := os.Lstat(full); err != nil || !info.IsDir() {
				if at := p.environment(name); which == "--others" && at != "" {
					if at != left {
						p.leave(at, "an environment of Python")
					}
					left = at
				} else if err := p.add(name); err != nil {
					return err
				}
				continue
			}
			// A submodule, or another working copy that lies here.
			switch _, err := os.Lstat(filepath.Join(full, ".git")); {
			case err != nil:
				p.leave(name, "a submodule that is not checked out")
			case depth >= nested:
				p.leave(name, "working copies nested too deep")
			default:
				if err := p.tracked(ctx, name, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// walk adds what lies below rel where there is no git.
func (p *packer) walk(ctx context.Context, rel string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Join(p.s.Root, filepath.FromSlash(rel)))
	if err != nil {
		if rel == "" {
			return plain(err)
		}
		p.leave(rel, "cannot be read: "+plain(err).Error())
		return nil
	}
	for _, d := range list {
		name := path.Join(rel, d.Name())
		switch {
		case !d.IsDir():
			if err := p.add(name); err != nil {
				return err
			}
		case slices.Contains(p.opts.Skip, name) || slices.Contains(never, d.Name()):
		case slices.Contains(junk, d.Name()):
			p.leave(name, "made by a tool")
		case isEnvironment(filepath.Join(p.s.Root, filepath.FromSlash(name))):
			p.leave(name, "an environment of Python")
		case depth >= deepest:
			p.leave(name, "folders nested too deep")
		default:
			if err := p.walk(ctx, name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// within gives the first folder on the way to a name, or the name itself, that is called like one of the list; "":
// none.
func within(name string, list []string) string {
	for at := 0; at <= len(name); {
		end := strings.IndexByte(name[at:], '/')
		if end < 0 {
			end = len(name) - at
		}
		if slices.Contains(list, name[at:at+end]) {
			return name[:at+end]
		}
		at += end + 1
	}
	return ""
}

// environment gives the environment of Python that a name lies in; "": none.
func (p *packer) environment(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		is, known := p.environments[dir]
		if !known {
			is = isEnvironment(filepath.Join(p.s.Root, filepath.FromSlash(dir)))
			if p.environments == nil {
				p.environments = map[string]bool{}
			}
			p.environments[dir] = is
		}
		if is {
			return dir
		}
	}
	return ""
}

// isEnvironment says that a folder is an environment of venv (pyvenv.cfg) or of conda (conda-meta).
func isEnvironment(dir string) bool {
	for _, sign := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := os.Lstat(filepath.Join(dir, sign)); err == nil {
			return true
		}
	}
	return false
}

// Top is the top of git's working copy that the folder lies in, without links; "" where it lies in none. Where it lies
// in one that git refuses to read, that is an error: without what git ignores, a snapshot would be another.
func Top(ctx context.Context, dir string) (string, error) {
	marked := false
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			marked = true
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if !marked {
		return "", nil
	}
	out, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	top, err := filepath.EvalSymlinks(strings.TrimSuffix(string(out), "\n"))
	if err != nil {
		return "", plain(err)
	}
	return top, nil
}

// git asks git about the working copy at dir, and takes no lock there. With an error comes what git wrote before it.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.fsmonitor=false",
		"-c", "core.quotePath=false"}, args...)...)
	cmd.Env = append(cleanGit(os.Environ()), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", words(args), ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(exit.Stderr)), "fatal: "), "\n")
		err = fmt.Errorf("git %s: %s", words(args), said)
		if strings.Contains(said, "dubious ownership") {
			err = fault.Hint(err, "git config --global --add safe.directory "+dir)
		}
		return out, err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Hint(fmt.Errorf("git %s: git is not installed", words(args)),
			"install git: it knows what of the folder is code")
	}
	return nil, fmt.Errorf("git %s: %w", words(args), err)
}

// words is the word of git's arguments that says what was asked.
func words(args []string) string {
	for len(args) > 2 && args[0][0] == '-' {
		args = args[map[bool]int{true: 2, false: 1}[args[0] == "-c"]:]
	}
	return args[0]
}

// cleanGit takes out the variables that would make git look elsewhere than in the folder: a hook has them.
func cleanGit(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE":
			return true
		}
		return false
	})
}
