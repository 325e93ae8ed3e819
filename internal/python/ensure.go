package python

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
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
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/text"
)

//go:embed requirements/demo.txt
var demoRequirements string

//go:embed requirements/test.txt
var testRequirements string

// Spec is a set of pinned packages. On names the set whose environment it shares and on top of which it is installed:
// PyTorch for Linux is gigabytes with CUDA, and is wanted once.
type Spec struct {
	Name         string
	Requirements []string // as in a requirements file; comments are left out
	On           *Spec
	CPU          []string // names of those that come from PyTorch's own index, without CUDA, where it is reached
	OnlyCUDA     []string // and of those that are not needed then

	cpuIndex string // in the place of PyTorch's own: tests
}

// Demo is what the built-in example needs.
func Demo() Spec {
	return Spec{Name: "demo", Requirements: requirements(demoRequirements), CPU: []string{"torch"},
		OnlyCUDA: []string{"triton"}}
}

// Rehearsal is what the scripts need that the demo rehearses: Demo's environment, and torchvision.
func Rehearsal() Spec {
	demo := Demo()
	return Spec{Name: "rehearsal", Requirements: []string{"pillow==13.0.0", "torchvision==0.29.2"}, On: &demo,
		CPU: []string{"torchvision"}}
}

// Test is what assay's own tests need: Demo's environment, with more in it.
func Test() Spec {
	demo := Demo()
	return Spec{Name: "test", Requirements: requirements(testRequirements), On: &demo}
}

func requirements(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Pythons that Ensure builds on. Below: torch 2.15.0 and numpy 2.4.6 say Requires-Python >=3.11. Above: numpy 2.4.6,
// scipy 1.17.1 and scikit-learn 1.9.1 have wheels up to 3.14 (their classifiers).
const (
	oldestBase = "3.11"
	newestBase = "3.14"
)

// CacheDir is where assay keeps what it can make again: $ASSAY_CACHE, else assay in the user's cache folder
// (~/Library/Caches on a Mac, $XDG_CACHE_HOME or ~/.cache elsewhere). An error means that there is no home folder
// (file.Home).
func CacheDir(environ []string) (string, error) {
	if dir := getenv(environ, "ASSAY_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home := file.Home(environ)
	if runtime.GOOS != "darwin" {
		if dir := getenv(environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "assay"), nil
		}
	}
	if home == "" {
		return "", fault.Hint(errors.New("find the cache folder: there is no home folder, by $HOME or by the user database"), "set ASSAY_CACHE to a folder")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Caches", "assay"), nil
	}
	return filepath.Join(home, ".cache", "assay"), nil
}

// Ensure returns the interpreter of a virtual environment that holds spec's packages. It is made once, under
// cache/python/KEY, and found again afterwards; KEY depends on the pins and on the base interpreter. Processes that
// want the same one wait for each other. Progress goes to log. An environment that is not complete, because a run was
// killed or ctx ended, is removed and made again. Errors carry a hint: no suitable Python, no venv module, no network,
// no space.
func Ensure(ctx context.Context, cache string, spec Spec, log io.Writer) (python string, err error) {
	// An environment that is there serves whatever python3 names today: it holds gigabytes and is assay's own.
	if dir := existingEnvironment(cache, spec); dir != "" {
		return ensureIn(ctx, dir, Interpreter{}, spec, log)
	}
	base, err := chooseBase(ctx, os.Environ())
	if err != nil {
		return "", err
	}
	return ensure(ctx, cache, base, spec, log)
}

func ensure(ctx context.Context, cache string, base Interpreter, spec Spec, log io.Writer) (string, error) {
	root := spec.layers()[0]
	dir := filepath.Join(cache, "python", fmt.Sprintf("%s-%s-%s", root.Name, minorOf(base.Version),
		environmentKey(root, base)))
	return ensureIn(ctx, dir, base, spec, log)
}

// layers are the set and those below it, the lowest first.
func (s Spec) layers() []Spec {
	if s.On == nil {
		return []Spec{s}
	}
	return append(s.On.layers(), s)
}

// existingEnvironment is a folder in which the lowest set is complete and whose interpreter can run here: a home folder
// may be shared by machines of several kinds.
func existingEnvironment(cache string, spec Spec) string {
	root := spec.layers()[0]
	found, _ := filepath.Glob(filepath.Join(cache, "python", root.Name+"-*"))
	for _, dir := range slices.Backward(found) {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "bin", "python"))
		if err != nil || !complete(dir, []Spec{root}) {
			continue
		}
		h, _, err := readHeader(real)
		if err == nil && (h.Format == "ELF") == (runtime.GOOS == "linux") &&
			slices.ContainsFunc(h.Arch, func(a string) bool { return sameArch(a, runtime.GOARCH) }) {
			return dir
		}
	}
	return ""
}

// ensureIn makes what is missing in dir. base is not needed where the lowest set is complete.
func ensureIn(ctx context.Context, dir string, base Interpreter, spec Spec, log io.Writer) (string, error) {
	layers := spec.layers()
	python := filepath.Join(dir, "bin", "python")
	if complete(dir, layers) {
		return python, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", spaceError(fmt.Errorf("make the environment %s: %w", spec.Name, err))
	}
	unlock, err := lockFile(ctx, dir+".lock", log)
	if err != nil {
		return "", fmt.Errorf("make the environment %s: %w", spec.Name, err)
	}
	defer unlock()
	if complete(dir, layers) { // by the process that was waited for
		return python, nil
	}
	for i, layer := range layers {
		if complete(dir, layers[:i+1]) {
			continue
		}
		if i == 0 {
			if base.Path == "" {
				return "", fmt.Errorf("make the environment %s: %s was removed meanwhile", spec.Name, dir)
			}
			if err := os.RemoveAll(dir); err != nil {
				return "", fmt.Errorf("remove the incomplete environment %s: %w", dir, err)
			}
			if err := makeVenv(ctx, base, dir, log); err != nil {
				os.RemoveAll(dir)
				return "", err
			}
		}
		err := install(ctx, dir, layer, log)
		if err == nil {
			err = writeMarker(dir, layer)
		}
		if err != nil {
			if i == 0 { // a failed layer on top leaves what lies below as it was: everything in it is pinned
				os.RemoveAll(dir)
			}
			return "", err
		}
	}
	return python, nil
}

// environmentKey changes with whatever makes an environment unfit for reuse.
func environmentKey(root Spec, base Interpreter) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%s %s\n", root.Name, base.Version, base.Real, runtime.GOOS,
		strings.Join(base.Arch, " "))
	for _, r := range root.Requirements {
		fmt.Fprintln(h, r)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// marker is the file that is written last. Its name carries the pins, so that a changed set on top is installed anew.
func marker(dir string, layer Spec) string {
	sum := sha256.Sum256([]byte(strings.Join(layer.Requirements, "\n")))
	return filepath.Join(dir, ".complete-"+layer.Name+"-"+hex.EncodeToString(sum[:4]))
}

func complete(dir string, layers []Spec) bool {
	for _, l := range layers {
		if !isFile(marker(dir, l)) {
			return false
		}
	}
	// bin/python is a link: it dangles once the base interpreter has been removed.
	return isExecutable(filepath.Join(dir, "bin", "python"))
}

func writeMarker(dir string, layer Spec) error {
	list := strings.Join(layer.Requirements, "\n") + "\n"
	if err := file.Write(marker(dir, layer), 0o600, func(w io.Writer) error {
		_,
			err := io.WriteString(w, list)
		return err
	}); err != nil {
		return spaceError(fmt.Errorf("mark %s as complete: %w", dir, err))
	}
	return nil
}

// lockFile takes an exclusive lock and says so once when it has to wait. The file stays: removing it would let a second
// process lock a new one while a third still holds the old.
func lockFile(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, spaceError(err)
	}
	said := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said {
			fmt.Fprintln(log, "another process is making this environment: waiting for it")
			said = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func makeVenv(ctx context.Context, base Interpreter, dir string, log io.Writer) error {
	fmt.Fprintf(log, "making a virtual environment with Python %s (%s) in %s\n", base.Version, base.Path, dir)
	out, err := tool(ctx, log, base.Path, "-I", "-m", "venv", dir)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && looksLike(out, "ensurepip is not available", "No module named ensurepip",
		"No module named venv", "No module named 'venv'", "'ensurepip'") {
		// Debian and Ubuntu split venv and ensurepip off python3.
		if uv, lookErr := exec.LookPath("uv"); lookErr == nil {
			os.RemoveAll(dir)
			if _, err := tool(ctx, log, uv, "venv", "--python", base.Path, dir); err == nil {
				return nil
			}
		}
		return fault.Hint(fmt.Errorf("make a virtual environment with %s: it cannot (venv or ensurepip is missing)",
			base.Path),
			fmt.Sprintf("on Debian and Ubuntu: apt install python%s-venv; or put another Python %s to %s on PATH",
				minorOf(base.Version), oldestBase, newestBase))
	}
	return explain(ctx, "make a virtual environment with "+base.Path, out, err)
}

func install(ctx context.Context, dir string, layer Spec, log io.Writer) error {
	if len(layer.Requirements) == 0 {
		return nil
	}
	var minor string
	if lib, _ := filepath.Glob(filepath.Join(dir, "lib", "python*")); len(lib) > 0 {
		minor = strings.TrimPrefix(filepath.Base(lib[0]), "python")
	}
	builds, rest := layer.withoutCUDA(ctx, dir, minor, log)
	for _, b := range builds {
		// What they need is pinned and comes with the rest.
		if err := installed(ctx, dir, layer.Name, log, "--index-url", b.index, "--no-deps", b.requirement); err != nil {
			return err
		}
	}
	list := filepath.Join(dir, "requirements-"+layer.Name+".txt")
	if err := os.WriteFile(list, []byte(strings.Join(rest, "\n")+"\n"), 0o644); err != nil {
		return spaceError(fmt.Errorf("install the packages of %s: %w", layer.Name, err))
	}
	fmt.Fprintf(log, "installing %d packages for %s\n", len(rest), layer.Name)
	return installed(ctx, dir, layer.Name, log, "-r", list)
}

// installed installs by uv where it is there, else by pip.
func installed(ctx context.Context, dir, name string, log io.Writer, what ...string) error {
	python := filepath.Join(dir, "bin", "python")
	doing := "install the packages of " + name
	hasPip := exists(filepath.Join(dir, "bin", "pip"))
	if uv, err := exec.LookPath("uv"); err == nil {
		out, err := tool(ctx, log, uv, append([]string{"pip", "install", "--python", python}, what...)...)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !hasPip {
			return explain(ctx, doing, out, err)
		}
		// uv does not read pip's configuration: an index that is set there is only known to pip.
		fmt.Fprintln(log, "uv could not: trying pip")
	}
	bar := "off"
	if terminal(log) != nil {
		bar = "on"
	}
	out, err := tool(ctx, log, python, append([]string{"-I", "-m", "pip", "install", "--disable-pip-version-check",
		"--no-input", "--progress-bar", bar}, what...)...)
	if err != nil {
		return explain(ctx, doing, out, err)
	}
	return nil
}

// terminal is the file that log is, where that is a device such as a terminal; else nil.
func terminal(log io.Writer) *os.File {
	f, ok := log.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return f
}

// tool runs a command, its output to log, and returns the last of it. Interrupted first, so that pip removes its files.
// Where log is a terminal the command has it for its output, and draws its bars: what it says of errors, on the other
// stream, is kept all the same.
func tool(ctx context.Context, log io.Writer, name string, args ...string) (*text.Tail, error) {
	return toolWith(ctx, nil, log, name, args...)
}

// toolWith is tool with variables of its own.
func toolWith(ctx context.Context, environ []string, log io.Writer, name string, args ...string) (*text.Tail, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	// What would send packages elsewhere than into the environment.
	cmd.Env = append(without(os.Environ(), "PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV",
		"CONDA_PREFIX",
		"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN", "PIP_PYTHON"),
		"LC_ALL=C.UTF-8")
	cmd.Env = append(cmd.Env, environ...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	kept := &text.Tail{Limit: 8 << 10}
	both := io.MultiWriter(log, kept)
	cmd.Stdout, cmd.Stderr = both, both
	if f := terminal(log); f != nil {
		cmd.Stdout = f
	}
	return kept, cmd.Run()
}

// explain names the cause that the tool's last lines show.
func explain(ctx context.Context, doing string, out *text.Tail, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	whole := fmt.Errorf("%s: %w\n%s", doing, err, out.Last(6))
	switch {
	case looksLike(out, "No space left on device", "Disk quota exceeded", "os error 28"):
		return fault.Hint(whole, "the disk is full: PyTorch for Linux needs about 8 GB while it is installed, for a Mac about 1 GB; ASSAY_CACHE moves the folder")
	case looksLike(out, "NewConnectionError", "Failed to establish a new connection", "name resolution",
		"nodename nor servname",
		"Network is unreachable", "ConnectTimeout", "Read timed out", "ProxyError", "SSLError", "dns error",
		"error sending request", "Connection refused", "IncompleteRead"):
		return fault.Hint(whole, "the package index was not reached: check the network, or the proxy and index in pip's configuration")
	case looksLike(out, "from versions: none"):
		return fault.Hint(whole, fmt.Sprintf("the index has no build for this system (%s/%s) and Python, or it was not reached: check the network, or pip's configuration", runtime.GOOS, runtime.GOARCH))
	case looksLike(out, "No matching distribution found", "no wheels with a matching", "No solution found"):
		return fault.Hint(whole, fmt.Sprintf("no such package for this system (%s/%s): PyTorch has builds for Apple silicon, and none for Intel Macs since 2.3", runtime.GOOS, runtime.GOARCH))
	}
	return whole
}

func looksLike(out *text.Tail, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return bytes.Contains(out.Bytes(), []byte(t)) })
}

func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Hint(err, "the disk is full; ASSAY_CACHE moves the folder")
	}
	return err
}

// chooseBase takes the interpreter that python3 names when it is suitable, else the newest suitable one that is found:
// on PATH, of pyenv, Homebrew, python.org, the system, uv.
func chooseBase(ctx context.Context, environ []string) (Interpreter, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	var seen []string
	suitable := func(in Interpreter) bool {
		if in.NotAsked != "" {
			return false
		}
		v := minorOf(in.Version)
		what := in.Version
		if !nativeEnough(in) {
			what += ", under Rosetta"
		}
		seen = append(seen, fmt.Sprintf("%s (%s)", in.Path, what))
		return compareVersions(v, oldestBase) >= 0 && compareVersions(v, newestBase) <= 0 && nativeEnough(in)
	}
	for _, path := range onPath(environ, dir, "python3") {
		if in, err := Inspect(ctx, environ, dir, path); err == nil {
			if suitable(in) {
				return in, nil
			}
			break
		}
	}
	var paths []string
	add := func(p string) {
		if isExecutable(p) && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	minors := []string{"3.14", "3.13", "3.12", "3.11"}
	home := file.Home(environ)
	pyenv := getenv(environ, "PYENV_ROOT")
	if pyenv == "" && home != "" {
		pyenv = filepath.Join(home, ".pyenv")
	}
	for _, minor := range minors {
		for _, p := range onPath(environ, dir, "python"+minor) {
			add(p)
		}
		for _, folder := range []string{"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/opt/python@" +
			minor + "/bin",
			"/Library/Frameworks/Python.framework/Versions/" + minor + "/bin"} {
			add(filepath.Join(folder, "python"+minor))
		}
		var globs []string
		if pyenv != "" {
			globs = append(globs, filepath.Join(pyenv, "versions", minor+".*", "bin", "python"+minor))
		}
		for _, root := range uvRoots(environ, home) {
			globs = append(globs, filepath.Join(root, "cpython-"+minor+".*", "bin", "python"+minor))
		}
		for _, g := range globs {
			found, _ := filepath.Glob(g)
			slices.SortFunc(found, func(a, b string) int {
				return -compareVersions(folderVersion(a),
					folderVersion(b))
			})
			for _, p := range found {
				add(p)
			}
		}
	}
	for _, p := range onPath(environ, dir, "python") {
		add(p)
	}
	// By descending minor version already: the first that answers and fits is the newest.
	for _, p := range paths {
		if in, err := Inspect(ctx, environ, dir, p); err == nil && suitable(in) {
			return in, nil
		}
		if ctx.Err() != nil {
			return Interpreter{}, fmt.Errorf("find a Python to build on: %w", ctx.Err())
		}
	}
	err = fmt.Errorf("find a Python %s to %s to build on: none on PATH, nor of pyenv, Homebrew, python.org or uv",
		oldestBase, newestBase)
	if len(seen) > 0 {
		err = fmt.Errorf("%w; found %s", err, strings.Join(seen, ", "))
	}
	hint := "install one: uv python install 3.13, or pyenv install 3.13"
	if runtime.GOOS == "darwin" {
		hint = "install one: brew install python@3.13, or uv python install 3.13"
	}
	return Interpreter{}, fault.Hint(err, hint)
}

// nativeEnough: on Apple silicon a translated interpreter would get x86_64 packages, which PyTorch no longer builds.
func nativeEnough(in Interpreter) bool {
	return runtime.GOOS != "darwin" || in.Translated == nil || !*in.Translated
}

func uvRoots(environ []string, home string) []string {
	var roots []string
	if dir := getenv(environ, "UV_PYTHON_INSTALL_DIR"); dir != "" {
		roots = append(roots, dir)
	}
	if dir := getenv(environ, "XDG_DATA_HOME"); dir != "" {
		roots = append(roots, filepath.Join(dir, "uv", "python"))
	} else if home != "" {
		roots = append(roots, filepath.Join(home, ".local", "share", "uv", "python"))
	}
	return roots
}

func folderVersion(path string) string {
	if m := versionFolder.FindStringSubmatch(path); m != nil {
		return m[1] + m[2]
	}
	return ""
}
