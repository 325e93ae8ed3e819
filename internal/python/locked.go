package python

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/file"
)

// Lock says from what an environment is to be made.
type Lock struct {
	Kind    string // uv: a project with uv.lock; pylock: pylock.toml; pip: a requirements file
	Path    string // of the lock
	Project string // of uv: the folder with pyproject.toml and uv.lock
	Python  string // release that it was made for: 3.11.7; "": any that assay builds on
	// Whole: the lock names all that there was, with what they need: nothing is resolved beyond it.
	Whole bool
}

// Kinds of locks that environments are made from here.
const (
	LockUV     = "uv"
	LockPyLock = "pylock"
	LockPip    = "pip"
)

// Locked is an environment that was made from a lock, or found again.
type Locked struct {
	Python string // its interpreter
	How    string // by what it was made, as a person would type it
	Key    string // of its folder: changes with the lock, the interpreter and the system
	Cached bool   // it was there
}

// EnsureLocked makes the environment of a lock below cache/locked/KEY, once: the same lock, Python and system find it
// again. Processes that want the same one wait for each other, and what was not finished is made anew. Progress goes to
// log. The project itself is not installed into it: its code lies elsewhere each time. Errors carry a hint.
func EnsureLocked(ctx context.Context, environ []string, cache string, lock Lock, log io.Writer) (made Locked,
	err error) {
	if !slices.Contains([]string{LockUV, LockPyLock, LockPip}, lock.Kind) {
		return made, fault.Hint(fmt.Errorf("make the environment of %s: a lock of %s is not installed by assay",
			filepath.Base(lock.Path), lock.Kind),
			"make it by "+lock.Kind+" there, and name its interpreter by --python")
	}
	data, err := os.ReadFile(lock.Path)
	if err != nil {
		return made, fmt.Errorf("make the environment: read its lock: %w", err)
	}
	uv, uvErr := exec.LookPath("uv")
	if uvErr != nil && lock.Kind != LockPip {
		return made, fault.Hint(fmt.Errorf("make the environment of %s: uv is not installed here",
			filepath.Base(lock.Path)),
			"install uv, or name an interpreter that has the packages by --python")
	}
	minor := minorOf(lock.Python)
	base, err := baseOf(ctx, environ, minor)
	if err != nil && uvErr != nil {
		return made, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s %s\n%s %s\n", lock.Kind, minor, runtime.GOOS, runtime.GOARCH, base.Real, base.Version)
	h.Write(data)
	if lock.Kind == LockUV { // which groups are installed stands there
		project, err := os.ReadFile(filepath.Join(lock.Project, "pyproject.toml"))
		if err != nil {
			return made, fmt.Errorf("make the environment: uv.lock needs its pyproject.toml: %w", err)
		}
		h.Write(project)
	}
	made.Key = hex.EncodeToString(h.Sum(nil))[:16]
	dir := filepath.Join(cache, "locked", made.Key)
	made.Python = filepath.Join(dir, "bin", "python")
	mark := filepath.Join(dir, ".assay-complete")
	whole := func() bool {
		how, err := os.ReadFile(mark)
		made.How = strings.TrimSpace(string(how))
		return err == nil && isExecutable(made.Python)
	}
	if made.Cached = whole(); made.Cached {
		return made, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return made, spaceError(fmt.Errorf("make the environment: %w", err))
	}
	unlock, err := lockFile(ctx, dir+".lock", log)
	if err != nil {
		return made, fmt.Errorf("make the environment: %w", err)
	}
	defer unlock()
	if made.Cached = whole(); made.Cached { // by the process that was waited for
		return made, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return made, fmt.Errorf("remove the incomplete environment %s: %w", dir, err)
	}
	if made.How, err = makeLocked(ctx, uv, base, minor, dir, lock, log); err == nil {
		err = file.Write(mark, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, made.How+"\n")
			return err
		})
	}
	if err != nil {
		os.RemoveAll(dir)
		return made, err
	}
	return made, nil
}

// baseOf finds an interpreter of that release, 3.11; of any that fits where minor is "".
func baseOf(ctx context.Context, environ []string, minor string) (Interpreter, error) {
	if minor == "" {
		return chooseBase(ctx, environ)
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	paths := slices.Concat(onPath(environ, dir, "python"+minor), onPath(environ, dir, "python3"))
	home := file.Home(environ)
	globs := []string{"/opt/homebrew/opt/python@" + minor + "/bin/python" + minor, "/opt/homebrew/bin/python" + minor,
		"/usr/local/bin/python" + minor, "/Library/Frameworks/Python.framework/Versions/" + minor + "/bin/python" +
			minor}
	if home != "" {
		globs = append(globs, filepath.Join(home, ".pyenv", "versions", minor+".*", "bin", "python"+minor))
	}
	for _, root := range uvRoots(environ, home) {
		globs = append(globs, filepath.Join(root, "cpython-"+minor+".*", "bin", "python"+minor))
	}
	for _, g := range globs {
		found, _ := filepath.Glob(g)
		paths = append(paths, found...)
	}
	for _, p := range paths {
		in, err := Inspect(ctx, environ, dir, p)
		if err == nil && in.NotAsked == "" && minorOf(in.Version) == minor && nativeEnough(in) {
			return in, nil
		}
		if ctx.Err() != nil {
			return Interpreter{}, fmt.Errorf("find Python %s: %w", minor, ctx.Err())
		}
	}
	return Interpreter{},
		fault.Hint(fmt.Errorf("find Python %s, with which the run was made: none on PATH, nor of pyenv, "+
			"Homebrew, python.org or uv", minor),
			"install it: uv python install "+minor+"; or name an interpreter by --python")
}

// makeLocked makes it in dir and says how.
func makeLocked(ctx context.Context, uv string, base Interpreter, minor, dir string, lock Lock, log io.Writer) (string,
	error) {
	doing := "make the environment of " + filepath.Base(lock.Path)
	if lock.Kind == LockUV {
		// The project is not installed: it would be linked to a folder that goes away.
		args := []string{"sync", "--frozen", "--no-install-project", "--project", lock.Project}
		if base.Path != "" {
			args = append(args, "--python", base.Path)
		} else if minor != "" {
			args = append(args, "--python", minor)
		}
		out, err := toolWith(ctx, []string{"UV_PROJECT_ENVIRONMENT=" + dir}, log, uv, args...)
		if err != nil {
			return "", explain(ctx, doing, out, err)
		}
		return "uv sync --frozen", nil
	}
	if base.Path == "" { // uv has one, or fetches it
		out, err := tool(ctx, log, uv, "venv", "--python", minor, dir)
		if err != nil {
			return "", explain(ctx, doing, out, err)
		}
	} else if err := makeVenv(ctx, base, dir, log); err != nil {
		return "", err
	}
	what := []string{"-r", lock.Path}
	if lock.Whole {
		what = append(what, "--no-deps")
	}
	if err := installed(ctx, dir, filepath.Base(lock.Path), log, what...); err != nil {
		return "", err
	}
	if uv != "" {
		return "uv pip install -r " + filepath.Base(lock.Path), nil
	}
	return "python -m venv, pip install -r " + filepath.Base(lock.Path), nil
}

// LockOf tells the kind of a lock by its name; an error where it is none that environments are made from here.
func LockOf(path string) (Lock, error) {
	name := filepath.Base(path)
	l := Lock{Path: path}
	switch {
	case name == "uv.lock":
		l.Kind, l.Project = LockUV, filepath.Dir(path)
	case strings.HasPrefix(name, "pylock.") && strings.HasSuffix(name, ".toml"):
		l.Kind = LockPyLock
	case strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".lock") && name != "poetry.lock" &&
		name != "pixi.lock":
		l.Kind = LockPip
	default:
		return l, fault.Hint(errors.New(name+" is no lock that assay makes an environment from"),
			"uv.lock, pylock.toml or a requirements file")
	}
	return l, nil
}
