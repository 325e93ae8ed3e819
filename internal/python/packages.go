package python

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Package is an installed distribution, as its own records say.
type Package struct {
	Name      string   `json:"name"` // as it spells itself
	Version   string   `json:"version"`
	Location  string   `json:"location"`            // the folder of its records
	Tags      []string `json:"tags,omitempty"`      // of the wheel: cp311-cp311-macosx_14_0_arm64
	Installer string   `json:"installer,omitempty"` // pip, uv, conda, …
	// where it came from, when that was no index (PEP 610); no password
	URL            string `json:"url,omitempty"`
	Commit         string `json:"commit,omitempty"`          // of a version-control URL
	Editable       bool   `json:"editable,omitempty"`        // a link to a working copy
	RequiresPython string `json:"requires_python,omitempty"` // >=3.11
}

// Bounds of what is read. METADATA carries the whole README, of which only the head is wanted.
const (
	maxPackages = 20000
	maxMetadata = 256 << 10
	maxRecord   = 64 << 10
)

// Packages reads the dist-info and egg-info records of package folders, in their order, by name within each. What
// cannot be read is left out. Nothing is imported.
func Packages(site []string) []Package {
	var found []Package
	for _, folder := range site {
		f, err := os.Open(folder)
		if err != nil {
			continue
		}
		entries, _ := f.ReadDir(maxPackages)
		f.Close()
		first := len(found)
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			var p Package
			var ok bool
			switch {
			case strings.HasSuffix(e.Name(), ".dist-info"):
				p, ok = distInfo(path)
			case strings.HasSuffix(e.Name(), ".egg-info"):
				p, ok = eggInfo(path)
			}
			if ok {
				found = append(found, p)
			}
		}
		slices.SortFunc(found[first:], func(a, b Package) int {
			if c := strings.Compare(foldName(a.Name), foldName(b.Name)); c != 0 {
				return c
			}
			return strings.Compare(a.Location, b.Location)
		})
	}
	return found
}

// Named returns the packages of that name, spelt in any way; several when records of an older version were left behind.
func Named(packages []Package, name string) []Package {
	return slices.DeleteFunc(slices.Clone(packages), func(p Package) bool { return foldName(p.Name) != foldName(name) })
}

var separators = regexp.MustCompile(`[-_.]+`)

// foldName is the comparison form of names (PEP 503).
func foldName(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

func distInfo(path string) (Package, bool) {
	p := Package{Location: path}
	if !p.metadata(filepath.Join(path, "METADATA")) {
		return p, false
	}
	if text, err := readBounded(filepath.Join(path, "WHEEL"), maxRecord); err == nil {
		for _, field := range fields(text) {
			if field[0] == "tag" {
				p.Tags = append(p.Tags, field[1])
			}
		}
	}
	if text, err := readBounded(filepath.Join(path, "INSTALLER"), 1<<10); err == nil {
		p.Installer = strings.TrimSpace(string(text))
	}
	if text, err := readBounded(filepath.Join(path, "direct_url.json"), maxRecord); err == nil {
		var direct struct {
			URL string `json:"url"`
			Dir struct {
				Editable bool `json:"editable"`
			} `json:"dir_info"`
			VCS struct {
				Commit string `json:"commit_id"`
			} `json:"vcs_info"`
		}
		if json.Unmarshal(text, &direct) == nil {
			p.URL, p.Editable, p.Commit = withoutPassword(direct.URL), direct.Dir.Editable, direct.VCS.Commit
		}
	}
	return p, true
}

func withoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	u.User = nil
	return u.String()
}

func eggInfo(path string) (Package, bool) {
	p := Package{Location: path}
	return p, p.metadata(filepath.Join(path, "PKG-INFO")) || p.metadata(path)
}

func (p *Package) metadata(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMetadata))
	if err != nil {
		return false
	}
	for _, field := range fields(text) {
		switch field[0] {
		case "name":
			p.Name = field[1]
		case "version":
			p.Version = field[1]
		case "requires-python":
			p.RequiresPython = field[1]
		}
	}
	return p.Name != ""
}

// fields reads the head of a message in the form of RFC 822, up to the empty line; keys in lower case.
func fields(text []byte) [][2]string {
	var found [][2]string
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxMetadata)
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" {
			break
		}
		if key, value, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
			found = append(found, [2]string{strings.ToLower(key), strings.TrimSpace(value)})
		}
	}
	return found
}

// ArchMismatch says why the package's binaries cannot be loaded by the interpreter, by system or architecture; "" when
// one of its tags fits, or when either side is not known. Against what the interpreter ran as, where it was asked.
func (p Package) ArchMismatch(in Interpreter) string {
	if len(p.Tags) == 0 {
		return ""
	}
	system, arch := in.Platform, in.Arch
	if system == "" {
		switch {
		case in.Format == "ELF":
			system = "linux"
		case strings.HasPrefix(in.Format, "Mach-O"):
			system = "darwin"
		}
	}
	if in.Machine != "" {
		arch = []string{in.Machine}
	}
	var why string
	for _, platform := range p.platforms() {
		ok, reason := platformFits(platform, strings.TrimRight(system, "2"), arch) // linux2: what Python 2 said
		if ok {
			return ""
		}
		why = reason
	}
	return why
}

// platforms are the third parts of the tags; one tag may name several, joined by dots.
func (p Package) platforms() []string {
	var all []string
	for _, tag := range p.Tags {
		if parts := strings.Split(tag, "-"); len(parts) == 3 {
			all = append(all, strings.Split(parts[2], ".")...)
		}
	}
	return all
}

func platformFits(platform, system string, arch []string) (ok bool, why string) {
	var wants, machine string
	switch {
	case platform == "any":
		return true, ""
	case strings.HasPrefix(platform, "macosx_"):
		wants = "darwin"
		if parts := strings.SplitN(platform, "_", 4); len(parts) == 4 {
			machine = parts[3]
		}
	case strings.HasPrefix(platform, "manylinux"), strings.HasPrefix(platform, "musllinux"),
		strings.HasPrefix(platform, "linux_"):
		wants = "linux"
		for _, m := range []string{"x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64",
			"loongarch64"} {
			if strings.HasSuffix(platform, "_"+m) {
				machine = m
			}
		}
	case strings.HasPrefix(platform, "win"):
		return false, "built for Windows (" + platform + ")"
	}
	if wants == "" || system == "" {
		return true, ""
	}
	if wants != system {
		return false, fmt.Sprintf("built for %s, under an interpreter for %s", platform, systemName(system))
	}
	switch machine {
	case "", "universal2", "fat64", "intel", "universal":
		if machine != "intel" && machine != "fat64" {
			return true, ""
		}
		machine = "x86_64"
	}
	if len(arch) == 0 || slices.ContainsFunc(arch, func(a string) bool { return sameArch(a, machine) }) {
		return true, ""
	}
	return false, fmt.Sprintf("built for %s, under an interpreter that runs as %s", platform,
		strings.Join(arch, " or "))
}

var cpython = regexp.MustCompile(`^cp([23])([0-9]+)$`)

// PythonMismatch says why the package cannot work under the interpreter's release of Python: its wheel is for another
// one, or it says that it requires another one. "" when it fits, or when it cannot be told.
func (p Package) PythonMismatch(in Interpreter) string {
	if in.Version == "" {
		return ""
	}
	minor := minorOf(in.Version)
	var why string
tags:
	for _, tag := range p.Tags {
		parts := strings.Split(tag, "-")
		if len(parts) != 3 {
			why = ""
			break
		}
		for _, implementation := range strings.Split(parts[0], ".") {
			m := cpython.FindStringSubmatch(implementation)
			if m == nil {
				why = ""
				break tags
			}
			built := m[1] + "." + m[2]
			c := compareVersions(minor, built)
			if c == 0 || c > 0 && strings.Contains(parts[1], "abi3") {
				why = ""
				break tags
			}
			why = "built for Python " + built + ", under " + minor
		}
	}
	if why != "" {
		return why
	}
	if p.RequiresPython != "" && !allows(p.RequiresPython, in.Version) {
		return "requires Python " + p.RequiresPython + ", under " + in.Version
	}
	return ""
}

// allows judges a version specifier (PEP 440) for plain releases; a clause that it does not know allows.
func allows(specifier, version string) bool {
	for _, clause := range strings.Split(specifier, ",") {
		clause = strings.TrimSpace(clause)
		i := strings.IndexFunc(clause, func(r rune) bool { return !strings.ContainsRune("<>=!~ ", r) })
		if i < 0 {
			continue
		}
		op, want := strings.TrimSpace(clause[:i]), strings.TrimSpace(clause[i:])
		prefix, star := strings.CutSuffix(want, ".*")
		c := compareVersions(version, prefix)
		if n := strings.Count(prefix, ".") + 1; star {
			parts := strings.Split(version, ".")
			c = compareVersions(strings.Join(parts[:min(n, len(parts))], "."), prefix)
		}
		ok := true
		switch op {
		case ">=":
			ok = c >= 0
		case ">":
			ok = c > 0
		case "<=":
			ok = c <= 0
		case "<":
			ok = c < 0
		case "==":
			ok = c == 0
		case "!=":
			ok = c != 0
		case "~=":
			head, _, _ := strings.Cut(want, ".")
			if i := strings.LastIndex(want, "."); i > 0 {
				head = want[:i]
			}
			ok = c >= 0 && strings.HasPrefix(version+".", head+".")
		}
		if !ok {
			return false
		}
	}
	return true
}

// Torch is PyTorch as torch/version.py describes the build.
type Torch struct {
	Version  string `json:"version"` // 2.15.0+cu132
	Release  string `json:"release"` // 2.15.0
	Flavour  string `json:"flavour"` // CUDA 13.2, ROCm 6.4, XPU …, CPU, macOS
	Commit   string `json:"commit,omitempty"`
	Debug    bool   `json:"debug,omitempty"`
	Location string `json:"location"` // folder of the package
	// what put it there: pip from an index, conda channel, a URL, a working copy
	Origin  string `json:"origin,omitempty"`
	Channel string `json:"channel,omitempty"`
}

// ReadTorch reads the first torch on the package folders, as text: nothing is run. ok is false when there is none; an
// error means that there is one whose version cannot be read.
func ReadTorch(in Interpreter, packages []Package) (t Torch, ok bool, err error) {
	for _, folder := range in.Site {
		place := filepath.Join(folder, "torch")
		file := filepath.Join(place, "version.py")
		if !isFile(file) {
			continue
		}
		text, err := readBounded(file, maxRecord)
		if err != nil {
			return t, true, fmt.Errorf("read the version of torch: %w", err)
		}
		t = parseTorchVersion(text)
		t.Location = place
		if t.Version == "" {
			return t, true, fmt.Errorf("read the version of torch: %s has no __version__", file)
		}
		if t.Flavour == "CPU" && (in.Platform == "darwin" || strings.HasPrefix(in.Format, "Mach-O")) {
			t.Flavour = "macOS"
		}
		t.Origin = "no record of what installed it"
		for _, p := range Named(packages, "torch") {
			if filepath.Dir(p.Location) != folder {
				continue
			}
			switch {
			case p.Editable:
				t.Origin = "a working copy at " + p.URL
			case p.URL != "":
				t.Origin = p.URL
			case p.Installer == "conda":
				t.Origin = "conda"
			case p.Installer != "":
				t.Origin = p.Installer + ", from an index"
			}
			break
		}
		if channel := condaChannel(in.Prefix); channel != "" {
			t.Origin, t.Channel = "conda, channel "+channel, channel
		}
		return t, true, nil
	}
	// A working copy or a development install: the records exist and the folder is elsewhere.
	for _, p := range Named(packages, "torch") {
		return Torch{Version: p.Version, Release: release(p.Version), Flavour: "unknown", Location: p.Location,
			Origin: p.URL}, true, nil
	}
	return t, false, nil
}

// condaChannel looks for the record of conda's own PyTorch package.
func condaChannel(prefix string) string {
	for _, pattern := range []string{"pytorch-[0-9]*.json", "libtorch-[0-9]*.json"} {
		records, _ := filepath.Glob(filepath.Join(prefix, "conda-meta", pattern))
		for _, r := range records {
			text, err := readBounded(r, 32<<20) // the record lists every file of the package
			if err != nil {
				continue
			}
			var record struct{ Channel string }
			if json.Unmarshal(text, &record) == nil && record.Channel != "" {
				return withoutPassword(record.Channel)
			}
		}
	}
	return ""
}

// An assignment of a string or None at the start of a line, with or without an annotation, as PyTorch's build writes
// it.
var assignment = regexp.MustCompile(`(?m)^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?::[^=\n]*)?=[ \t]*(?:'([^'\n]*)'|"([^"\n]*)"|([A-Za-z0-9_.]+))`)

func parseTorchVersion(text []byte) Torch {
	var t Torch
	values := map[string]string{}
	for _, m := range assignment.FindAllSubmatch(text, -1) {
		value := string(m[2]) + string(m[3])
		if word := string(m[4]); word != "None" {
			value += word
		}
		values[string(m[1])] = value
	}
	t.Version = values["__version__"]
	if len(values["git_version"]) == 40 {
		t.Commit = values["git_version"]
	}
	t.Debug = values["debug"] == "True"
	t.Release = release(t.Version)
	switch {
	case values["cuda"] != "":
		t.Flavour = "CUDA " + values["cuda"]
	case values["hip"] != "":
		t.Flavour = "ROCm " + values["hip"]
	case values["xpu"] != "":
		t.Flavour = "XPU " + values["xpu"]
	default:
		t.Flavour = "CPU"
	}
	return t
}
