// Package python finds Python interpreters, tells what they are from their files, reads what is installed in them,
// checks the environment that a training run would start in, and makes environments with pinned packages. It never
// imports torch to find something out; only Gates runs a framework, in a child of its own.
package python

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/text"
)

// Interpreter is a Python, as its files describe it and as it answers for itself.
type Interpreter struct {
	Path   string `json:"path"`             // as it was found; run this one: a virtual environment is known by the path
	Real   string `json:"real"`             // the binary, after links, `#!` and shims
	Chosen string `json:"chosen,omitempty"` // why this one: "$VIRTUAL_ENV", "python3 on PATH", …
	// Passed are places that were named and hold no usable interpreter, each with the reason.
	Passed []string `json:"passed,omitempty"`

	Version       string   `json:"version,omitempty"`        // 3.11.7
	VersionSource string   `json:"version_source,omitempty"` // what said so: the interpreter, pyvenv.cfg, …
	Format        string   `json:"format"`                   // ELF, Mach-O, Mach-O fat
	Arch          []string `json:"arch"`                     // what the binary can run as
	Machine       string   `json:"machine,omitempty"`        // what it ran as when it was asked (platform.machine())
	Platform      string   `json:"platform,omitempty"`       // sys.platform, as it was asked
	// macOS release as Python says it, "" where macOS does not tell it the truth; elsewhere the kernel's release
	System     string   `json:"system,omitempty"`
	Translated *bool    `json:"translated,omitempty"`  // ran under Rosetta; absent: not a Mac, or not asked
	Origin     string   `json:"origin"`                // venv, uv venv, virtualenv, or as BaseOrigin
	BaseOrigin string   `json:"base_origin"`           // uv, conda, pyenv, Homebrew, python.org, system, Xcode, …
	Prefix     string   `json:"prefix,omitempty"`      // sys.prefix: where packages go
	BasePrefix string   `json:"base_prefix,omitempty"` // where the standard library is
	Site       []string `json:"site"`                  // existing package folders, in import order
	Stdlib     string   `json:"stdlib,omitempty"`      // folder of the standard library
	// ExternallyManaged: the distribution forbids pip to install into it (PEP 668).
	ExternallyManaged bool   `json:"externally_managed"`
	NotAsked          string `json:"not_asked,omitempty"` // why it did not answer for itself; empty when it did
}

// askLimit: a Python that only prints needs some 20 ms; the first start on a cold disk or with an antivirus some
// seconds.
const askLimit = 20 * time.Second

// Find chooses the interpreter that a person working in dir would get: the explicit path or name, else $VIRTUAL_ENV,
// $CONDA_PREFIX, .venv or venv in dir or a parent of it up to the root of the git repository, else python3 and python
// on the PATH of environ. Its errors carry a hint.
func Find(ctx context.Context, environ []string, dir, explicit string) (Interpreter, error) {
	if explicit != "" {
		return findExplicit(ctx, environ, dir, explicit)
	}
	var passed []string
	for path, chosen := range candidates(environ, dir, func(why string) { passed = append(passed, why) }) {
		in, err := Inspect(ctx, environ, dir, path)
		if err == nil && in.NotAsked != "" {
			err = errors.New(in.NotAsked)
		}
		if err == nil {
			in.Chosen, in.Passed = chosen, passed
			return in, nil
		}
		passed = append(passed, fmt.Sprintf("%s: %v", chosen, err))
	}
	if err := ctx.Err(); err != nil {
		return Interpreter{}, fmt.Errorf("find python: %w", err)
	}
	err := errors.New("find python: no virtual environment, and no python3 or python on PATH")
	if len(passed) > 0 {
		err = fmt.Errorf("find python: none can be used: %s", strings.Join(passed, "; "))
	}
	return Interpreter{}, fault.Hint(err, "name one with --python PATH")
}

// candidates are the interpreters that a person working in dir would get, the first one first, each with why it is one.
// passed hears of places that are named and hold none.
func candidates(environ []string, dir string, passed func(why string)) iter.Seq2[string, string] {
	return func(yield func(path, chosen string) bool) {
		for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
			prefix := getenv(environ, name)
			if prefix == "" {
				continue
			}
			if exe := prefixPython(prefix); exe == "" {
				passed(fmt.Sprintf("$%s: %s has no bin/python", name, prefix))
			} else if !yield(exe, "$"+name) {
				return
			}
		}
		for folder := dir; ; folder = filepath.Dir(folder) {
			for _, name := range []string{".venv", "venv"} {
				prefix := filepath.Join(folder, name)
				if !isFile(filepath.Join(prefix, "pyvenv.cfg")) {
					continue
				}
				if exe := prefixPython(prefix); exe == "" {
					passed(prefix + ": it has no bin/python that can be run; was its base interpreter removed?")
				} else if !yield(exe, name+" in "+folder) {
					return
				}
			}
			if exists(filepath.Join(folder, ".git")) || filepath.Dir(folder) == folder {
				break
			}
		}
		for _, name := range []string{"python3", "python"} {
			for _, path := range onPath(environ, dir, name) {
				if !yield(path, name+" on PATH") {
					return
				}
			}
		}
	}
}

// InstalledTorch tells by files alone which torch the interpreter has that Find would choose in dir, and of which
// release that Python is; each is "" where that is not known. Where names the interpreter. Nothing is run, so that of a
// shim of pyenv or asdf nothing is known.
func InstalledTorch(environ []string, dir string) (torch, python, where string) {
	for path, chosen := range candidates(environ, dir, func(string) {}) {
		in := Interpreter{Path: path}
		var err error
		if in.Real, err = filepath.EvalSymlinks(path); err != nil {
			continue
		}
		head, _, err := readHeader(in.Real)
		if err != nil {
			continue
		}
		if head.Format == "script" {
			return "", "", ""
		}
		in.Format, in.Arch = head.Format, head.Arch
		in.fromFiles()
		if in.Prefix == in.BasePrefix && strings.HasPrefix(in.BasePrefix, "/usr") { // Debian's own has them elsewhere
			in.Site = append(in.Site, filepath.Join("/usr/local/lib", "python"+minorOf(in.Version), "dist-packages"),
				"/usr/lib/python3/dist-packages")
		}
		in.Site = existing(in.Site)
		t, ok, err := ReadTorch(in, nil)
		if !ok || err != nil {
			return "", in.Version, chosen
		}
		return t.Version, in.Version, chosen
	}
	return "", "", ""
}

func findExplicit(ctx context.Context, environ []string, dir, explicit string) (Interpreter, error) {
	fail := func(err error) (Interpreter, error) {
		return Interpreter{}, fault.Hint(fmt.Errorf("find python: %w", err),
			"--python takes an interpreter, its name on PATH, or the folder of an environment")
	}
	path := explicit
	if !strings.ContainsRune(explicit, filepath.Separator) {
		found := onPath(environ, dir, explicit)
		if len(found) > 0 {
			path = found[0]
		} else if p := filepath.Join(dir, explicit); exists(p) {
			path = p
		} else {
			return fail(fmt.Errorf("%s is not on PATH", explicit))
		}
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	st, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if st.IsDir() {
		exe := prefixPython(path)
		if exe == "" {
			return fail(fmt.Errorf("%s is a folder without bin/python", path))
		}
		path = exe
	}
	in, err := Inspect(ctx, environ, dir, path)
	if err != nil {
		return fail(err)
	}
	in.Chosen = "--python"
	return in, nil
}

// prefixPython is the interpreter of an environment's folder, or "".
func prefixPython(prefix string) string {
	for _, name := range []string{"bin/python", "bin/python3"} {
		if p := filepath.Join(prefix, name); isExecutable(p) {
			return p
		}
	}
	return ""
}

// onPath lists the executables of that name in the order of PATH. Relative entries are taken from dir, as a shell does.
func onPath(environ []string, dir, name string) []string {
	var found []string
	for _, folder := range filepath.SplitList(getenv(environ, "PATH")) {
		if folder == "" {
			folder = "."
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		if p := filepath.Join(folder, name); isExecutable(p) && !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	return found
}

// Inspect tells what the interpreter at path is. It resolves links, follows a `#!` once, reads the header and the files
// that lie round it, and then asks it (`python -I -S -c`, with a time limit, in dir and environ: a shim of pyenv or
// asdf answers according to both). An interpreter that does not answer is no error: NotAsked then says why, and what
// the files say stands. An error means that there is no interpreter at path.
func Inspect(ctx context.Context, environ []string, dir, path string) (Interpreter, error) {
	in := Interpreter{Path: path}
	if runtime.GOOS == "darwin" && path == "/usr/bin/python3" {
		// The stub opens a dialogue that offers the developer tools when they are missing. xcode-select only answers.
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		if err := exec.CommandContext(ctx, "/usr/bin/xcode-select", "-p").Run(); err != nil {
			return in, errors.New("/usr/bin/python3 is a stub of Apple's developer tools, which are not installed")
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return in, err
	}
	in.Real = real
	head, raw, err := readHeader(real)
	if err != nil {
		return in, fmt.Errorf("%s: %w", real, err)
	}
	var said answer
	if head.Format == "script" {
		if in.Real, err = throughScript(raw); err != nil {
			// A wrapper in another language, such as a shim: only it knows where it leads.
			if said, err = ask(ctx, environ, dir, path, ""); err != nil {
				return in, fmt.Errorf("%s is a script, and did not answer as a Python does: %w", path, err)
			}
			// The shim is run as another folder or variable may make it lead elsewhere: what it leads to now is fixed
			// here.
			in.Path = said.Executable
			if in.Real, err = filepath.EvalSymlinks(said.Executable); err != nil {
				return in, err
			}
		} else {
			in.Path = in.Real
			if in.Real, err = filepath.EvalSymlinks(in.Real); err != nil {
				return in, err
			}
		}
		if head, _, err = readHeader(in.Real); err != nil {
			return in, fmt.Errorf("%s: %w", in.Real, err)
		}
		if head.Format == "script" {
			return in, fmt.Errorf("%s: a script that leads to a script (%s)", path, in.Real)
		}
	}
	in.Format, in.Arch = head.Format, head.Arch
	in.fromFiles()

	if said.Executable == "" || in.Prefix != said.Prefix {
		said, err = ask(ctx, environ, dir, in.Path, in.Prefix)
		if err != nil {
			if name := filepath.Base(in.Real); !strings.HasPrefix(strings.ToLower(name), "py") &&
				in.Prefix == in.BasePrefix {
				return in, fmt.Errorf("%s is no Python: %w", path, err)
			}
			in.NotAsked = err.Error()
			in.Site = existing(in.Site)
			return in, nil
		}
	}
	in.fromAnswer(said)
	return in, nil
}

// throughScript follows a `#!` line to an interpreter whose name says Python.
func throughScript(head []byte) (string, error) {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 || !strings.HasPrefix(filepath.Base(words[0]), "python") || !filepath.IsAbs(words[0]) {
		return "", errors.New("not a Python script")
	}
	return words[0], nil
}

// fromFiles reads what can be known without running it.
func (in *Interpreter) fromFiles() {
	in.BasePrefix = filepath.Dir(filepath.Dir(in.Real))
	in.BaseOrigin = baseOrigin(in.Path, in.Real, in.BasePrefix)
	in.Origin, in.Prefix = in.BaseOrigin, in.BasePrefix
	// pyvenv.cfg lies beside the executable or one folder up (PEP 405), by the path that was run, not the resolved one.
	bin := filepath.Dir(in.Path)
	for _, folder := range []string{filepath.Dir(bin), bin} {
		cfg, err := readConfig(filepath.Join(folder, "pyvenv.cfg"))
		if err != nil {
			continue
		}
		in.Prefix, in.Origin = folder, "venv"
		if resolved, err := filepath.EvalSymlinks(folder); err == nil {
			in.Prefix = resolved
		}
		switch {
		case cfg["uv"] != "":
			in.Origin = "uv venv"
		case cfg["virtualenv"] != "":
			in.Origin = "virtualenv"
		}
		// The module venv writes version; virtualenv and uv write version_info, which may have two more fields.
		if v := release(cfg["version"]); v != "" {
			in.Version, in.VersionSource = v, "pyvenv.cfg"
		} else if v := release(cfg["version_info"]); v != "" {
			in.Version, in.VersionSource = v, "pyvenv.cfg"
		}
		break
	}
	if in.Version == "" {
		in.Version, in.VersionSource = versionOf(in.Real, in.BasePrefix)
	}
	if minor := minorOf(in.Version); minor != "" {
		in.Stdlib = filepath.Join(in.BasePrefix, "lib", "python"+minor)
		in.Site = []string{filepath.Join(in.Prefix, "lib", "python"+minor, "site-packages")}
		in.ExternallyManaged = in.Prefix == in.BasePrefix && isFile(filepath.Join(in.Stdlib, "EXTERNALLY-MANAGED"))
	}
}

func (in *Interpreter) fromAnswer(said answer) {
	if said.Version != "" {
		in.Version, in.VersionSource = said.Version, "the interpreter"
	}
	in.Machine, in.Platform, in.System, in.Stdlib = said.Machine, said.Platform, said.System, said.Stdlib
	if said.Platform == "darwin" {
		if strings.HasPrefix(said.System, "10.16") { // what macOS 11 and later tell programs built for older ones
			in.System = ""
		}
		switch said.Translated {
		case "0", "1":
			yes := said.Translated == "1"
			in.Translated = &yes
		case "absent": // ENOENT: an Intel Mac, or a system without Rosetta. Nothing to translate.
			no := false
			in.Translated = &no
		}
	}
	inEnv := in.Prefix != in.BasePrefix
	if said.BasePrefix != "" {
		in.BasePrefix = said.BasePrefix
		if !inEnv {
			in.Prefix = said.BasePrefix
		}
	}
	// The stub of the developer tools, and Homebrew's launcher, run another binary than the one that was named.
	if real, err := filepath.EvalSymlinks(said.Executable); err == nil && !inEnv && real != in.Real {
		if head, _, err := readHeader(real); err == nil && head.Format != "script" {
			in.Real, in.Format, in.Arch = real, head.Format, head.Arch
		}
	}
	if o := baseOrigin(in.Path, in.Real, in.BasePrefix); in.BaseOrigin == "other" || in.BaseOrigin == "" {
		if in.Origin == in.BaseOrigin {
			in.Origin = o
		}
		in.BaseOrigin = o
	}
	site := said.Site
	if inEnv {
		// Debian's Python answers with its own dist-packages for an environment too; a venv's folder is fixed (PEP
		// 405).
		for _, folder := range in.Site {
			if !slices.Contains(site, folder) {
				site = append(site, folder)
			}
		}
	}
	in.Site = existing(site)
	in.ExternallyManaged = !inEnv && isFile(filepath.Join(said.Stdlib, "EXTERNALLY-MANAGED"))
}

// baseOrigin tells who installed the base interpreter, by the places that the installers use.
func baseOrigin(path, real, prefix string) string {
	has := func(part string) bool { return strings.Contains(real, part) }
	switch {
	case path == "/usr/bin/python3" && runtime.GOOS == "darwin":
		return "Xcode stub"
	case has("/Applications/Xcode"), has("/Library/Developer/CommandLineTools/"):
		return "Xcode"
	case exists(filepath.Join(prefix, "conda-meta")):
		return "conda"
	case has("/uv/python/"):
		return "uv"
	case has("/.asdf/installs/"):
		return "asdf"
	case has("/mise/installs/"):
		return "mise"
	case has("/versions/") && exists(filepath.Join(before(real, "/versions/"), "shims")), has("/.pyenv/versions/"):
		return "pyenv"
	case has("/Cellar/python"), has("/opt/homebrew/"), has("/linuxbrew/"):
		return "Homebrew"
	case has("/Library/Frameworks/Python.framework/Versions/"):
		return "python.org"
	case has("/nix/store/"):
		return "Nix"
	case strings.HasPrefix(real, "/opt/local/"):
		return "MacPorts"
	case strings.HasPrefix(real, "/usr/bin/"), strings.HasPrefix(real, "/bin/"), strings.HasPrefix(real, "/System/"):
		return "system"
	}
	return "other"
}

// Folders that carry the version: pyenv …/versions/3.11.7/, Homebrew …/Cellar/python@3.11/3.11.7/ (a rebuild adds _1),
// uv …/python/cpython-3.11.7-macos-aarch64-none/, asdf and mise …/installs/python/3.11.7/.
var versionFolder = regexp.MustCompile(`/(?:versions|Cellar/python@[0-9.]+|installs/python)/([0-9]+\.[0-9]+\.[0-9]+)(?:_[0-9]+)?/|/cpython-([0-9]+\.[0-9]+\.[0-9]+)[-+]`)

// patchLevel is the line of patchlevel.h that names the release, in every CPython.
var patchLevel = regexp.MustCompile(`(?m)^#define\s+PY_VERSION\s+"([0-9]+\.[0-9]+\.[0-9]+)`)

// versionOf reads the version of a base interpreter off its folders; source is "" when they do not tell.
func versionOf(real, prefix string) (version, source string) {
	if m := versionFolder.FindStringSubmatch(real); m != nil {
		return m[1] + m[2], "folder name"
	}
	records, _ := filepath.Glob(filepath.Join(prefix, "conda-meta", "python-[0-9]*.json"))
	for _, r := range records {
		if v := release(strings.TrimPrefix(filepath.Base(r), "python-")); v != "" {
			return v, "conda-meta"
		}
	}
	headers, _ := filepath.Glob(filepath.Join(prefix, "include", "python3*", "patchlevel.h"))
	if len(headers) == 1 { // several: /usr/include serves more than one interpreter
		if text, err := readBounded(headers[0], 64<<10); err == nil {
			if m := patchLevel.FindSubmatch(text); m != nil {
				return string(m[1]), "patchlevel.h"
			}
		}
	}
	return "", ""
}

var releaseForm = regexp.MustCompile(`^\s*([0-9]+\.[0-9]+\.[0-9]+)`)

// release cuts 3.11.7.final.0 and 3.11.7-h955ad1f_0.json down to 3.11.7; "" when there is none.
func release(s string) string {
	if m := releaseForm.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

// minorOf cuts 3.11.7 down to 3.11.
func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// compareVersions compares dotted numbers; what is missing counts as 0, and a part's tail that is no number is ignored.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x = leadingInt(as[i])
		}
		if i < len(bs) {
			y = leadingInt(bs[i])
		}
		if x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return 0
}

func leadingInt(s string) int {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(s[:end])
	return n
}

// readConfig reads the key = value lines of a pyvenv.cfg; keys in lower case, as site.py takes them.
func readConfig(path string) (map[string]string, error) {
	text, err := readBounded(path, 64<<10)
	if err != nil {
		return nil, err
	}
	cfg := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			cfg[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return cfg, nil
}

type answer struct {
	Version    string   `json:"version"`
	Executable string   `json:"executable"`
	Prefix     string   `json:"prefix"`
	BasePrefix string   `json:"base_prefix"`
	Machine    string   `json:"machine"`
	Platform   string   `json:"platform"`
	System     string   `json:"system"`
	Stdlib     string   `json:"stdlib"`
	Site       []string `json:"site"`
	Translated string   `json:"translated"` // 0, 1, absent, or ""
}

// question is run by any Python from 2.7 on. Without -S's import of site, sys.prefix of a virtual environment is that
// of its base until 3.13, so the environment's folder is handed in; site's functions are pure and run nothing.
const question = `
import json, os, platform, sys, sysconfig
said = {"version": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable or "", "prefix": sys.argv[1] or sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix), "machine": platform.machine(), "platform": sys.platform,
        "system": platform.release(), "stdlib": sysconfig.get_path("stdlib") or "", "site": [], "translated": ""}
try:
    import site
    alone = said["prefix"] != said["base_prefix"]
    shared = False
    if alone:
        try:
            with open(os.path.join(said["prefix"], "pyvenv.cfg")) as f:
                for line in f:
                    key, _, value = line.partition("=")
                    if key.strip().lower() == "include-system-site-packages":
                        shared = value.strip().lower() == "true"
        except (IOError, OSError):
            pass
    folders = site.getsitepackages([said["prefix"]])
    if shared or not alone:
        if os.environ.get("PYTHONNOUSERSITE") in (None, ""):
            folders.append(site.getusersitepackages())
        folders += site.getsitepackages([said["base_prefix"]])
    said["site"] = folders
except Exception as e:
    said["site"] = [p for p in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) if p]
if sys.platform == "darwin":
    said["system"] = platform.mac_ver()[0] or said["system"]
    try:
        import ctypes, ctypes.util, errno
        c = ctypes.CDLL(ctypes.util.find_library("c") or "/usr/lib/libSystem.B.dylib", use_errno=True)
        n, size = ctypes.c_int(0), ctypes.c_size_t(4)
        if c.sysctlbyname(b"sysctl.proc_translated", ctypes.byref(n), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            said["translated"] = str(n.value)
        elif ctypes.get_errno() == errno.ENOENT:
            said["translated"] = "absent"
    except Exception:
        pass
print("\nassay " + json.dumps(said))
`

// ask runs the question. -I keeps the user's folders and variables out, -S keeps .pth files from running code.
func ask(ctx context.Context, environ []string, dir, path, prefix string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	run := func(flags ...string) (answer, string, error) {
		cmd := exec.CommandContext(ctx, path, append(flags, "-c", question, prefix)...)
		// __PYVENV_LAUNCHER__ is how a framework build on a Mac tells its child who it is: ours is not its child.
		cmd.Env = without(environ, "__PYVENV_LAUNCHER__", "PYTHONHOME")
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			cmd.Dir = dir
		}
		cmd.WaitDelay = time.Second
		out, errs := &text.Tail{Limit: 64 << 10}, &text.Tail{Limit: 4 << 10}
		cmd.Stdout, cmd.Stderr = out, errs
		err := cmd.Run()
		if err == nil {
			lines := bufio.NewScanner(bytes.NewReader(out.Bytes()))
			lines.Buffer(nil, 128<<10)
			for lines.Scan() {
				if text, ok := bytes.CutPrefix(lines.Bytes(), []byte("assay ")); ok {
					var said answer
					if err := json.Unmarshal(text, &said); err != nil {
						return said, "", fmt.Errorf("ask %s: %w", path, err)
					}
					return said, "", nil
				}
			}
			return answer{}, "", fmt.Errorf("ask %s: it printed no answer", path)
		}
		if ctx.Err() != nil {
			return answer{}, "", fmt.Errorf("ask %s: no answer within %v: %w", path, askLimit, ctx.Err())
		}
		return answer{}, errs.Last(1), fmt.Errorf("ask %s: %w", path, err)
	}
	said, complaint, err := run("-I", "-S")
	if err != nil && (strings.Contains(complaint, "-I") || strings.Contains(complaint, "usage") ||
		strings.Contains(complaint, "-h")) {
		said, complaint, err = run("-E", "-s", "-S") // before 3.4 there was no -I
	}
	if err != nil && complaint != "" {
		err = fmt.Errorf("%w: %s", err, complaint)
	}
	return said, err
}

func getenv(environ []string, name string) string {
	v, _ := lookup(environ, name)
	return v
}

// lookup takes the last one, as exec does for a child of Go.
func lookup(environ []string, name string) (string, bool) {
	for _, e := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

func before(s, sep string) string {
	b, _, _ := strings.Cut(s, sep)
	return b
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func isExecutable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

// existing keeps the folders that are there, each once: lib64 is often a link to lib.
func existing(folders []string) []string {
	kept := []string{}
	var seen []fs.FileInfo
	for _, folder := range folders {
		st, err := os.Stat(folder)
		if err != nil || !st.IsDir() || slices.ContainsFunc(seen, func(s fs.FileInfo) bool {
			return os.SameFile(s,
				st)
		}) {
			continue
		}
		seen = append(seen, st)
		kept = append(kept, folder)
	}
	return kept
}

// readBounded reads a small file; a larger one is an error and not read.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are read", path, st.Size(), limit)
	}
	text := make([]byte, st.Size())
	n, err := f.Read(text)
	if n == 0 && err != nil && st.Size() > 0 {
		return nil, err
	}
	return text[:n], nil
}
