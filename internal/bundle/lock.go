package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"assay/internal/evidence"
)

// Installed is a distribution in the run's environment, as its records in this machine's folders say.
type Installed struct {
	Name, Version string
	Installer     string // pip, uv, conda, poetry, …
	Records       string // folder of its records: NAME-VERSION.dist-info
}

// Surroundings are what the run's interpreter says of its environment.
type Surroundings struct {
	Packages []Installed
	Prefix   string // folder of the environment
	Origin   string // venv, uv venv, virtualenv, conda, …
	Missing  string // why the interpreter was not asked
}

const mostLock = 64 << 20 // bytes of a lock

// lockNames are the files that pin packages, the surest first, and by what an environment is made that comes of each.
var lockNames = []struct{ name, kind string }{{"uv.lock", UV}, {"poetry.lock", Poetry}, {"pdm.lock", PDM},
	{"Pipfile.lock", Pipenv}, {"pixi.lock", Pixi}, {"conda-lock.yml", CondaLock}, {"conda-lock.yaml", CondaLock},
	{"pylock.toml", PyLock}, {"environment.yml", Conda}, {"environment.yaml", Conda}}

// foundLock is a file of the project that pins packages.
type foundLock struct {
	of   string // with slashes, below the top of the code
	kind string
	text []byte
	pins []pin
	bad  string // why it cannot be read
}

// pin is a package at a version; a lock may have several of one package, for several systems.
type pin struct{ name, version string }

// findLocks reads the files that pin packages, in the folder the run was started in and above it up to the top.
func findLocks(top, dir string) []foundLock {
	var found []foundLock
	for at := dir; ; at = path.Dir(at) {
		folder := filepath.Join(top, filepath.FromSlash(at))
		add := func(name, kind string) {
			full := filepath.Join(folder, name)
			f, err := openPlain(full)
			if err != nil {
				return
			}
			defer f.Close()
			l := foundLock{of: path.Join(at, name), kind: kind}
			if l.text, err = io.ReadAll(io.LimitReader(f, mostLock+1)); err != nil || len(l.text) > mostLock {
				return
			}
			if l.pins, err = pins(kind, l.text, folder); err != nil {
				l.bad = err.Error()
			}
			if kind == Requirements && len(l.pins) == 0 {
				return // names without versions pin nothing
			}
			found = append(found, l)
		}
		for _, n := range lockNames {
			add(n.name, n.kind)
		}
		for _, pattern := range []string{"requirements*.txt", "requirements*.lock", "requirements/*.txt"} {
			names, _ := filepath.Glob(filepath.Join(globbed(folder), pattern))
			slices.Sort(names)
			for _, n := range names {
				if rel, err := filepath.Rel(folder, n); err == nil {
					add(filepath.ToSlash(rel), Requirements)
				}
			}
		}
		if at == "." {
			return found
		}
	}
}

// globbed quotes what a pattern would obey in a folder's name.
func globbed(folder string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(folder)
}

// pins reads what a lock pins.
func pins(kind string, text []byte, folder string) ([]pin, error) {
	switch kind {
	case UV, Poetry, PDM, PyLock:
		var doc struct {
			Package  []lockedPackage `toml:"package"`
			Packages []lockedPackage `toml:"packages"` // of PEP 751
		}
		if err := toml.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("not the TOML of a lock: %w", err)
		}
		var all []pin
		for _, p := range append(doc.Package, doc.Packages...) {
			if _, own := p.Source["virtual"]; p.Version == "" || own {
				continue
			}
			if p.Source["editable"] == "." || p.Source["directory"] == "." {
				continue // the project itself
			}
			all = append(all, pin{p.Name, p.Version})
		}
		return all, nil
	case Pipenv:
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("not the JSON of a lock: %w", err)
		}
		var all []pin
		for _, section := range []string{"default", "develop"} {
			var some map[string]struct{ Version string }
			if json.Unmarshal(doc[section], &some) != nil {
				continue
			}
			for name, p := range some {
				if v, ok := strings.CutPrefix(p.Version, "=="); ok {
					all = append(all, pin{name, v})
				}
			}
		}
		slices.SortFunc(all, func(a, b pin) int { return strings.Compare(a.name+" "+a.version, b.name+" "+b.version) })
		return all, nil
	case CondaLock, Pixi, Conda:
		return condaPins(text)
	}
	return requirementPins(text, folder, 0), nil
}

type lockedPackage struct {
	Name    string         `toml:"name"`
	Version string         `toml:"version"`
	Source  map[string]any `toml:"source"`
}

// condaFile is a file name of conda's: name-version-build.conda.
var condaFile = regexp.MustCompile(`/([^/]+)-([^-/]+)-[^-/]+\.(?:conda|tar\.bz2)$`)

// condaPins reads conda-lock.yml, pixi.lock and environment.yml.
func condaPins(text []byte) ([]pin, error) {
	var doc struct {
		Package []struct{ Name, Version string } `yaml:"package"` // conda-lock
		// pixi: conda names a file, pypi has its name and version
		Packages     []struct{ Conda, Pypi, Name, Version string } `yaml:"packages"`
		Dependencies []yaml.Node                                   `yaml:"dependencies"` // environment.yml
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("not the YAML of a lock: %w", err)
	}
	var all []pin
	for _, p := range doc.Package {
		all = append(all, pin{p.Name, p.Version})
	}
	for _, p := range doc.Packages {
		if m := condaFile.FindStringSubmatch(p.Conda); m != nil {
			all = append(all, pin{m[1], m[2]})
		} else if p.Pypi != "" && p.Version != "" {
			all = append(all, pin{p.Name, p.Version})
		}
	}
	for _, d := range doc.Dependencies {
		var word string
		var sub struct {
			Pip []string `yaml:"pip"`
		}
		if d.Decode(&word) == nil {
			word = word[strings.LastIndex(word, ":")+1:] // channel::name=version=build
			name, version, ok := strings.Cut(word, "=")
			version, _, _ = strings.Cut(strings.TrimPrefix(version, "="), "=")
			if ok && version != "" && !strings.ContainsAny(name+version, "<>*!~ ") {
				all = append(all, pin{name, version})
			}
		} else if d.Decode(&sub) == nil {
			all = append(all, requirementPins([]byte(strings.Join(sub.Pip, "\n")), "", 0)...)
		}
	}
	return all, nil
}

// requirement is name==version at the beginning of a line of pip's, with extras between.
var requirement = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*===?\s*([A-Za-z0-9][A-Za-z0-9.!+_-]*)`)

// requirementPins reads pip's requirements, and those that they include from the same folder or below it.
func requirementPins(text []byte, folder string, depth int) []pin {
	var all []pin
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if m := requirement.FindStringSubmatch(line); m != nil {
			all = append(all, pin{m[1], m[2]})
			continue
		}
		words := strings.Fields(strings.Replace(line, "=", " ", 1))
		if len(words) < 2 || !slices.Contains([]string{"-r", "--requirement", "-c", "--constraint"}, words[0]) ||
			folder == "" || depth >= 8 || !filepath.IsLocal(words[1]) {
			continue
		}
		f, err := openPlain(filepath.Join(folder, words[1]))
		if err != nil {
			continue
		}
		more, err := io.ReadAll(io.LimitReader(f, 1<<20))
		f.Close()
		if err == nil {
			all = append(all, requirementPins(more, filepath.Dir(filepath.Join(folder, words[1])), depth+1)...)
		}
	}
	return all
}

var separators = regexp.MustCompile(`[-_.]+`)

// fold is the comparison form of a package's name (PEP 503).
func fold(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

// public is a version without its local part: 2.15.0 of 2.15.0+cu132 (PEP 440).
func public(version string) string {
	p, _, _ := strings.Cut(version, "+")
	return p
}

// tools are packages that an environment has to be made with, and no training needs.
var tools = map[string]bool{"pip": true, "setuptools": true, "wheel": true, "uv": true, "distribute": true}

// compare holds a lock against what the run had. own are packages of the code itself, which no lock pins.
func (l foundLock) compare(had []pin, own map[string]bool) Lock {
	lock := Lock{Of: l.of, Kind: l.kind, Basis: evidence.Declared, Differs: []Difference{}, Missing: l.bad}
	versions := map[string][]string{}
	for _, p := range l.pins {
		if p.version != "" {
			versions[fold(p.name)] = append(versions[fold(p.name)], p.version)
		}
	}
	lock.Pins = len(versions)
	if l.bad != "" {
		return lock
	}
	if len(had) == 0 {
		lock.Missing = "the run's evidence names no packages"
		return lock
	}
	if slices.Contains([]string{CondaLock, Conda, Pixi}, l.kind) {
		aliases(versions)
	}
	seen := map[string]bool{}
	for _, h := range had {
		name := fold(h.name)
		seen[name] = true
		switch locked := versions[name]; {
		case slices.ContainsFunc(locked, func(v string) bool { return sameVersion(v, h.version) }):
			lock.Same++
		case tools[name] && len(locked) == 0 || own[name]:
		default:
			slices.Sort(locked)
			lock.Differs = append(lock.Differs, Difference{Package: h.name, Run: h.version,
				Lock: strings.Join(slices.Compact(locked), ", ")})
		}
	}
	for name := range versions {
		if !seen[name] {
			lock.More++
		}
	}
	return lock
}

// aliases adds the names by which pip knows packages that conda calls otherwise.
func aliases(versions map[string][]string) {
	for conda, pip := range map[string]string{"pytorch": "torch", "pytorch-cpu": "torch",
		"matplotlib-base": "matplotlib", "py-opencv": "opencv-python", "msgpack-python": "msgpack"} {
		if v, ok := versions[conda]; ok {
			versions[pip] = append(versions[pip], v...)
		}
	}
}

// sameVersion says that what was installed is what the lock names: a lock that leaves the local part open is no other
// version, and neither is 1.0 another than 1.0.0.
func sameVersion(locked, had string) bool {
	if !strings.Contains(locked, "+") || !strings.Contains(had, "+") {
		locked, had = public(locked), public(had)
	}
	trim := func(v string) string {
		for strings.HasSuffix(v, ".0") {
			v = strings.TrimSuffix(v, ".0")
		}
		return strings.TrimPrefix(strings.ToLower(v), "v")
	}
	return trim(locked) == trim(had)
}

// linuxOnly and macOnly are packages whose wheels exist for one system alone.
var (
	linuxOnly = regexp.MustCompile(`^(nvidia-.*|triton|pytorch-triton.*|cuda-(bindings|pathfinder|toolkit|python)|cupy.*|` +
		`deepspeed|bitsandbytes-cuda.*|flash-attn|xformers|apex|torch-tensorrt|tensorrt.*|pynvml-cuda.*)$`)
	macOnly = regexp.MustCompile(`^(pyobjc.*|mlx-metal|tensorflow-metal|tensorflow-macos|jax-metal|applescript.*|coremltools-metal)$`)
)

// directURL is PEP 610's record of a package that came from no index.
type directURL struct {
	URL string `json:"url"`
	Dir *struct {
		Editable bool `json:"editable"`
	} `json:"dir_info"`
	VCS *struct {
		VCS    string `json:"vcs"`
		Commit string `json:"commit_id"`
	} `json:"vcs_info"`
	Subdirectory string `json:"subdirectory"`
}

// elsewhere reads from where a package was installed that comes from no index; ok is false for one that does.
func elsewhere(in Installed, top string) (e Elsewhere, ok bool) {
	text, err := readPlain(filepath.Join(in.Records, "direct_url.json"), 64<<10)
	var d directURL
	if err != nil || json.Unmarshal(text, &d) != nil || d.URL == "" {
		return e, false
	}
	e = Elsewhere{Package: in.Name, Version: in.Version}
	u, err := url.Parse(d.URL)
	if err != nil {
		e.Missing = "its address cannot be read"
		return e, true
	}
	if u.User != nil && u.User.Username() != "git" {
		u.User = nil // a password, or a token
	}
	if u.Scheme == "file" {
		e.URL = u.Path
		e.Editable = d.Dir != nil && d.Dir.Editable
		real, err := filepath.EvalSymlinks(u.Path)
		rel := ""
		if err == nil {
			rel, err = filepath.Rel(top, real)
		}
		switch {
		case err == nil && filepath.IsLocal(rel) && d.Dir != nil:
			e.Code, e.URL = filepath.ToSlash(rel), ""
		case d.Dir != nil:
			e.Missing = "it was installed from a folder of the machine that packed, which is not in the code"
		default:
			e.Missing = "it was installed from a file of the machine that packed"
		}
		return e, true
	}
	e.URL = u.String()
	if d.VCS != nil {
		e.Commit = d.VCS.Commit
		e.URL = d.VCS.VCS + "+" + e.URL
	}
	if d.Subdirectory != "" {
		e.URL += "#subdirectory=" + url.QueryEscape(d.Subdirectory)
	}
	return e, true
}

func readPlain(path string, most int64) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("longer than %d bytes", most)
	}
	return text, err
}

// makeLock makes a lock of what the run had, in pip's form, for any system: what one system alone has is asked for
// there alone, and a local build (2.15.0+cu132) on the system that the run had.
func makeLock(had []pin, from []Elsewhere, system string) (text []byte, platform []Difference) {
	var b strings.Builder
	b.WriteString("# What the run had installed. Made by assay handoff pack; install it with --no-deps.\n")
	here := "linux"
	if strings.HasPrefix(system, "darwin") {
		here = "darwin"
	}
	apart := map[string]Elsewhere{}
	for _, e := range from {
		apart[fold(e.Package)] = e
	}
	platform = []Difference{}
	had = slices.Clone(had)
	slices.SortStableFunc(had, func(a, b pin) int { return strings.Compare(fold(a.name), fold(b.name)) })
	for _, h := range had {
		e, is := apart[fold(h.name)]
		switch {
		case is && e.Missing != "":
			fmt.Fprintf(&b, "# %s %s: %s\n", h.name, h.version, e.Missing)
		case is && e.Code != "":
			fmt.Fprintf(&b, "# %s %s: install it from the code, %s\n", h.name, h.version, e.Code)
		case is:
			fmt.Fprintf(&b, "%s @ %s\n", h.name, e.pinned())
		case linuxOnly.MatchString(fold(h.name)):
			fmt.Fprintf(&b, "%s==%s ; sys_platform == \"linux\"\n", h.name, h.version)
			platform = append(platform, Difference{Package: h.name, Run: h.version, Why: "for Linux alone"})
		case macOnly.MatchString(fold(h.name)):
			fmt.Fprintf(&b, "%s==%s ; sys_platform == \"darwin\"\n", h.name, h.version)
			platform = append(platform, Difference{Package: h.name, Run: h.version, Why: "for macOS alone"})
		case strings.Contains(h.version, "+"):
			fmt.Fprintf(&b, "%s==%s ; sys_platform == %q\n%s==%s ; sys_platform != %q\n", h.name, h.version, here, h.name,
				public(h.version), here)
			platform = append(platform, Difference{Package: h.name, Run: h.version, Lock: public(h.version),
				Why: "a local build: it comes from an index of its own, and elsewhere the plain one is asked for"})
		default:
			fmt.Fprintf(&b, "%s==%s\n", h.name, h.version)
		}
	}
	return []byte(b.String()), platform
}

// pinned is the address with its commit.
func (e Elsewhere) pinned() string {
	if e.Commit == "" {
		return e.URL
	}
	address, sub, has := strings.Cut(e.URL, "#")
	if has {
		sub = "#" + sub
	}
	return address + "@" + e.Commit + sub
}

// environment says which lock makes the run's environment elsewhere.
func environment(run *evidence.Run, around Surroundings, top, dir string) (env Environment, texts map[string][]byte) {
	texts = map[string][]byte{}
	env = Environment{Locks: []Lock{}, Elsewhere: []Elsewhere{}, Platform: []Difference{}}
	var had []pin
	for _, p := range run.Provenance.Packages {
		if name, version, ok := strings.Cut(p, "=="); ok {
			had = append(had, pin{name, version})
		}
	}
	env.Packages = len(had)
	now := map[string]Installed{}
	for _, in := range slices.Backward(around.Packages) { // the first on the way counts
		now[fold(in.Name)] = in
	}
	own := map[string]bool{}
	for i, h := range had {
		in, ok := now[fold(h.name)]
		if !ok || public(in.Version) != public(h.version) {
			continue // another was installed since
		}
		had[i].version = in.Version
		if e, ok := elsewhere(in, top); ok {
			env.Elsewhere = append(env.Elsewhere, e)
			if e.Code != "" {
				own[fold(h.name)] = true
			}
		}
	}
	if local := run.Target.Release; strings.Contains(local, "+") { // the framework knows its build, its records may not
		for i, h := range had {
			if fold(h.name) == run.Target.Framework && h.version == public(local) {
				had[i].version = local
			}
		}
	}
	env.Made, env.MadeWhy = madeBy(around, now, had)
	best := -1
	for _, l := range findLocks(top, dir) {
		lock := l.compare(had, own)
		lock.Path = "lock/" + strings.ReplaceAll(l.of, "/", "-")
		if texts[lock.Path] != nil {
			continue
		}
		texts[lock.Path] = l.text
		env.Locks = append(env.Locks, lock)
		if i := len(env.Locks) - 1; best < 0 || better(lock, env.Locks[best], env.Made) {
			best = i
		}
	}
	if env.Made == Conda || env.Made == Pixi {
		if lock, text, ok := makeCondaLock(around.Prefix, had, own); ok {
			lock.Basis = evidence.Derived // from what lies there now
			texts[lock.Path] = text
			env.Locks = append(env.Locks, lock)
		}
	}
	if len(had) > 0 {
		made := Lock{Path: MadeLock, Kind: Requirements, Basis: evidence.Measured, Pins: len(had), Same: len(had),
			Differs: []Difference{}}
		texts[MadeLock], env.Platform = makeLock(had, env.Elsewhere, run.Target.System)
		env.Locks = append(env.Locks, made)
	}
	switch {
	case best >= 0 && env.Locks[best].InStep():
		env.Install, env.Why = env.Locks[best].Path, "the project's own lock, and it gives what the run had"
	case best >= 0 && len(had) > 0:
		env.Install = MadeLock
		env.Why = fmt.Sprintf("%s is not what the run had (packages that differ: %d): made of what it had",
			env.Locks[best].Of, len(env.Locks[best].Differs))
		if env.Locks[best].Missing != "" {
			env.Why = fmt.Sprintf("%s cannot be held against what the run had (%s): made of what it had",
				env.Locks[best].Of, env.Locks[best].Missing)
		}
	case best >= 0:
		env.Install, env.Why = env.Locks[best].Path, "the project's own lock; what the run had is not known"
	case len(had) > 0:
		env.Install, env.Why = MadeLock, "the project has no lock: made of what the run had"
	default:
		env.Why = "the project has no lock, and the run's evidence names no packages"
	}
	return env, texts
}

// better says that of two locks the first one is rather the one by which the environment was made.
func better(a, b Lock, made string) bool {
	if a.InStep() != b.InStep() {
		return a.InStep()
	}
	if mine, other := kindOf(a.Kind) == made, kindOf(b.Kind) == made; mine != other {
		return mine
	}
	if (a.Missing == "") != (b.Missing == "") {
		return a.Missing == ""
	}
	return a.Same > b.Same
}

// kindOf is what an environment is made by, of a kind of lock.
func kindOf(kind string) string {
	switch kind {
	case CondaLock:
		return Conda
	case PyLock:
		return UV
	}
	return kind
}

// madeBy says by what the environment was made: its own files say it, and those of the packages in it.
func madeBy(around Surroundings, now map[string]Installed, had []pin) (made, why string) {
	if around.Missing != "" {
		return "", around.Missing
	}
	slashed := filepath.ToSlash(around.Prefix)
	if strings.Contains(slashed, "/.pixi/envs/") {
		return Pixi, "its folder lies in .pixi/envs"
	}
	if info, err := os.Stat(filepath.Join(around.Prefix, "conda-meta")); err == nil && info.IsDir() {
		return Conda, "its folder has a conda-meta"
	}
	count := map[string]int{}
	for _, h := range had {
		if in, ok := now[fold(h.name)]; ok && in.Installer != "" && !tools[fold(h.name)] {
			word, _, _ := strings.Cut(strings.ToLower(in.Installer), " ") // "Poetry 2.1.0"
			count[word]++
		}
	}
	most := ""
	for word, n := range count {
		if n > count[most] || n == count[most] && word < most {
			most = word
		}
	}
	switch {
	case most == "pip" && around.Origin == "uv venv":
		return Requirements, "its packages were installed by pip, into an environment of uv's"
	case most != "":
		return most, fmt.Sprintf("%d of its packages say that %s installed them", count[most], most)
	case around.Origin == "uv venv":
		return UV, "its pyvenv.cfg names uv"
	}
	return "", "neither its folder nor the records of its packages say it"
}
