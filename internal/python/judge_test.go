package python

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/text"
)

// TestGateVerdicts: what each answer of a child is worth. Nothing but a product that agrees is a pass, and what was not
// tried is unknown.
func TestGateVerdicts(t *testing.T) {
	mac, linux := Interpreter{Platform: "darwin", System: "13.0"}, Interpreter{Platform: "linux2"}
	good := gateDevice{On: "gpu:0", Agrees: true, Finite: true, Worst: 1e-6, Largest: 1}
	device := func(name string, change func(*gateDevice)) []gateDevice {
		d := good
		d.Name = name
		change(&d)
		return []gateDevice{{Name: "other"}, d}
	}
	asIs := func(*gateDevice) {}
	driver := exists("/dev/nvidiactl") || exists("/dev/kfd") || exists("/dev/dxg")
	cudaBasis := evidence.Derived
	if driver {
		cudaBasis = evidence.Measured
	}
	for name, c := range map[string]struct {
		got          Gate
		state        State
		detail, hint string // "": none
		basis        evidence.Basis
	}{
		"linux": {mpsGate(linux, gateAnswer{}), Fail, "no Metal on linux", "", evidence.Derived},
		"linux, built": {mpsGate(linux, gateAnswer{Version: "2", Built: true}), Fail, "torch 2 is built with MPS",
			"", evidence.Derived},
		"mps": {mpsGate(mac, gateAnswer{Devices: device("mps", asIs)}), Pass, "within 1.0e-06", "",
			evidence.Measured},
		"mps absent": {mpsGate(mac, gateAnswer{Stage: "absent"}), Unknown, "torch is not installed", "",
			evidence.Measured},
		"mps not built": {mpsGate(mac, gateAnswer{Version: "2.8.0"}), Fail, "built without MPS", "arm64 build",
			evidence.Measured},
		"mps not there": {mpsGate(mac, gateAnswer{Version: "2.9.1", Built: true}), Fail, "is_available() is False",
			"needs macOS 14.0 (this is 13.0)", evidence.Measured},
		"mps, new torch": {mpsGate(mac, gateAnswer{Version: "9.9.1", Built: true}), Fail, "is_available() is False",
			"", evidence.Measured},
		"mps not tried": {mpsGate(mac, gateAnswer{Built: true, MPS: true}), Unknown, "was not tried", "",
			evidence.Measured},
		"crashed": {mpsGate(mac, gateAnswer{Version: "2", ended: "ended by abort", crashed: true,
			Stage: "trying mps"}), Fail,
			"torch 2: ended by abort while trying mps", "", evidence.Measured},
		"did not start": {mpsGate(mac, gateAnswer{ended: "exit 1"}), Unknown, "torch: exit 1 (starting)", "",
			evidence.Measured},
		"failed": {mpsGate(mac, gateAnswer{Stage: "failed", Error: "E", FailedAt: "importing"}), Fail,
			"torch: E (importing)", "",
			evidence.Measured},
		"not finite": {mpsGate(mac, gateAnswer{Devices: device("mps", func(d *gateDevice) { d.Finite = false })}), Fail,
			"not finite", "", evidence.Measured},
		"disagrees": {mpsGate(mac, gateAnswer{Devices: device("mps", func(d *gateDevice) { d.Agrees = false })}), Fail,
			"differs from the CPU's by 1e-06 of 1", "", evidence.Measured},
		"error": {mpsGate(mac, gateAnswer{Devices: device("mps", func(d *gateDevice) { d.Error = "E" })}), Fail,
			"the matrix product failed: E", "virtual machines", evidence.Measured},
		"cuda": {cudaGate(linux, gateAnswer{DeviceName: "H100", Devices: device("cuda", asIs)}), Pass,
			"on H100: 64×64", "", evidence.Measured},
		"cuda unnamed": {cudaGate(linux, gateAnswer{Version: "2", Devices: device("cuda", asIs)}), Pass,
			"torch 2: 64×64", "", evidence.Measured},
		"cuda on Mac": {cudaGate(mac, gateAnswer{Devices: device("cuda", asIs)}), Fail, "no CUDA on a Mac", "",
			evidence.Derived},
		"cuda absent": {cudaGate(linux, gateAnswer{Stage: "absent"}), Unknown, "not installed", "", evidence.Measured},
		"no cuda": {cudaGate(linux, gateAnswer{Version: "2"}), Fail, "torch.cuda.is_available() is False", "",
			cudaBasis},
		"mlx": {mlxGate(mac, gateAnswer{Kind: "gpu", Devices: device("mlx", asIs)}), Pass, "64×64", "",
			evidence.Measured},
		"mlx on CPU": {mlxGate(mac, gateAnswer{Kind: "cpu", Default: "cpu", Devices: device("mlx", asIs)}), Fail,
			"the default device is cpu, not the GPU", "mx.metal.is_available()", evidence.Measured},
		"mlx on Linux": {mlxGate(linux, gateAnswer{Version: "0.32.4", Kind: "cpu",
			Devices: device("mlx", asIs)}), Fail, "no Metal on linux; mlx 0.32.4: 64×64 matrix product on", "",
			evidence.Derived},
		"mlx, CUDA": {mlxGate(linux, gateAnswer{Kind: "gpu", Devices: device("mlx", asIs)}), Pass,
			"equal to Python's arithmetic", "", evidence.Measured},
		"mlx wrong on the CPU": {mlxGate(mac, gateAnswer{Kind: "cpu", Devices: device("mlx",
			func(d *gateDevice) { d.Agrees = false })}),
			Fail, "differs from Python's arithmetic", "", evidence.Measured},
		"mlx not tried": {mlxGate(mac, gateAnswer{}), Unknown, "was not tried", "", evidence.Measured},
		"mlx absent": {mlxGate(mac, gateAnswer{Stage: "absent"}), Unknown, "mlx is not installed", "",
			evidence.Measured},
		"tf": {tensorflowGate(gateAnswer{Devices: device("tensorflow", asIs)}), Pass, "64×64", "",
			evidence.Measured},
		"tf without": {tensorflowGate(gateAnswer{}), Fail, "is empty", "", evidence.Measured},
		"tf plug-in": {tensorflowGate(gateAnswer{Stage: "failed", Error: "metal_plugin: no symbol"}), Fail,
			"metal_plugin",
			"do not fit each other", evidence.Measured},
		"tf, other": {tensorflowGate(gateAnswer{Stage: "failed", Error: "E"}), Fail, "E", "", evidence.Measured},
		"tf unknown": {tensorflowGate(gateAnswer{ended: "metal_plugin"}), Unknown, "metal_plugin", "",
			evidence.Measured},
	} {
		g := c.got
		if g.State != c.state || !strings.Contains(g.Detail, c.detail) || g.Basis != c.basis ||
			(c.hint == "") != (g.Hint == "") || !strings.Contains(g.Hint, c.hint) {
			t.Errorf("%s: %+v", name, g)
		}
	}
	yes, no := true, false
	for _, c := range []struct {
		translated *bool
		want       State
	}{{nil, Unknown}, {&yes, Fail}, {&no, Pass}} {
		if g, ok := nativeGate(Interpreter{Platform: "darwin", Translated: c.translated}); !ok || g.State != c.want {
			t.Errorf("%+v", g)
		}
	}
	if g := cudaGate(linux, gateAnswer{Version: "2"}); strings.Contains(g.Detail, "no driver") == driver {
		t.Errorf("%+v", g)
	}
}

// TestGateEnds: how a child ended is told from what it printed last; a proof that stands is not lost at its end.
func TestGateEnds(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"silent":  "#!/bin/sh\n",
		"garbage": "#!/bin/sh\necho 'assay {'\n",
		"later":   "#!/bin/sh\necho 'assay {\"stage\": \"done\", \"version\": \"1\"}'\necho talk\nexit 3\n",
		"broken":  "#!/bin/sh\necho 'assay {\"stage\": \"importing\"}'\necho 'an Error: x' >&2\necho 'bye' >&2\nexit 3\n",
		"unborn":  "#!/bin/sh\necho 'no such option' >&2\nexit 2\n",
		"killed":  "#!/bin/sh\necho 'assay {\"stage\": \"importing\"}'\nkill -KILL $$\n",
	})
	for name, want := range map[string]struct {
		ended         string
		said, crashed bool
	}{
		"silent": {"it printed no answer", false, false}, "garbage": {"it printed no answer", false, false},
		"later": {"", true, false}, "broken": {"exit status 3: an Error: x", true, true},
		"unborn": {"exit status 2: no such option", false, false}, "killed": {"ended by killed", true, true},
		"absent": {"no such file", false, false},
	} {
		a := runGate(t.Context(), Interpreter{Path: filepath.Join(root, name)}, nil, "torch", gateLimit)
		if (want.ended == "") != (a.ended == "") || !strings.Contains(a.ended, want.ended) || a.said != want.said ||
			a.crashed != want.crashed {
			t.Errorf("%s: %+v", name, a)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := runGate(ctx, Interpreter{Path: filepath.Join(root, "silent")}, nil, "torch",
		gateLimit); a.ended != "interrupted" {
		t.Errorf("%+v", a)
	}
}

// TestMetalPairs: a pair fails where it was seen to, or where each is named with others only; of what nobody named
// nothing is known.
func TestMetalPairs(t *testing.T) {
	for _, c := range []struct {
		tf, metal string
		fails     bool
	}{{"2.18.0", "1.1.0", true}, {"2.18.0", "1.2.0", false}, {"2.14.0", "1.1.0", false}, {"2.17.1", "1.1.0", false},
		{"2.17.1", "1.2.0", true}, {"2.13.0", "1.1.0", true}, {"2.99.0", "1.1.0", false}, {"2.13.0", "7.0.0", false},
		{"2.4.0", "0.1.0", false}, {"", "1.1.0", false}, {"2.20.0", "1.2.0", true}} {
		if fails, source := MetalPairFails(c.tf, c.metal); fails != c.fails || source == "" {
			t.Errorf("%+v: %v", c, fails)
		}
	}
	// The name up to 2.12 counts as well.
	packages := []Package{{Name: "tensorflow-metal", Version: "0.8.0"}, {Name: "tensorflow-macos", Version: "2.12.0"}}
	for macos, want := range map[string]State{"12.1": Pass, "12.0": Fail, "": Pass} {
		g, ok := pairGate(Interpreter{Version: "3.10.1", System: macos}, packages)
		if !ok || g.State != want || (g.Hint == "") != (want == Pass) {
			t.Errorf("macOS %q: %+v", macos, g)
		}
	}
}

// TestFindings: what is said of an interpreter and of its packages, and what is not.
func TestFindings(t *testing.T) {
	names := func(found []evidence.Finding) string {
		var s []string
		for _, f := range found {
			s = append(s, f.Name+" "+string(f.Severity))
		}
		return strings.Join(s, "|")
	}
	no := false
	for _, c := range []struct {
		in   Interpreter
		want string
	}{
		{Interpreter{Version: "3.8.0"}, ""}, {Interpreter{Version: "3.7.9"}, "interpreter-old error"},
		{Interpreter{Platform: "darwin"}, "interpreter-translation-unknown note"},
		{Interpreter{Platform: "darwin", Translated: &no}, ""}, {Interpreter{Platform: "linux"}, ""},
		{Interpreter{Platform: "darwin", NotAsked: "x"}, "interpreter-silent error"},
		{Interpreter{Origin: "Xcode stub"}, "interpreter-of-xcode note"},
		{Interpreter{Origin: "Xcode", BaseOrigin: "Xcode"}, "interpreter-of-xcode note"},
		{Interpreter{Origin: "venv", BaseOrigin: "Xcode"}, ""}, {Interpreter{Origin: "venv", BaseOrigin: "venv"}, ""},
		{Interpreter{ExternallyManaged: true}, "interpreter-managed note"},
	} {
		if got := names(CheckInterpreter(c.in)); got != c.want {
			t.Errorf("%+v: %s", c.in, got)
		}
	}
	mac := func(system, machine string) Interpreter {
		return Interpreter{Version: "3.12.1", Platform: "darwin", System: system, Machine: machine}
	}
	for _, c := range []struct {
		in    Interpreter
		list  []Package
		torch *Torch
		want  string
	}{
		{mac("13.6", "arm64"), nil, &Torch{Release: "2.12.0"}, "torch-macos error"}, // package from 14
		{mac("14.0", "arm64"), nil, &Torch{Release: "2.12.0"}, ""},
		{mac("13.6", "arm64"), nil, &Torch{Release: "2.9.0"}, "torch-macos error"}, // backend from 14
		{mac("14.0", "arm64"), nil, &Torch{Release: "2.9.0"}, ""},
		{mac("", "arm64"), nil, &Torch{Release: "2.15.0"}, ""},
		{mac("15.0", "arm64"), nil, &Torch{}, ""},
		{mac("15.0", "x86_64"), nil, &Torch{Release: "2.2.9"}, ""},
		{mac("15.0", "x86_64"), nil, &Torch{Release: "2.3.0"}, "torch-architecture error"},
		{Interpreter{Platform: "linux", Machine: "x86_64", System: "6.1"}, nil, &Torch{Release: "2.15.0"}, ""},
		{mac("15.0", "arm64"), []Package{{Name: "a", Tags: []string{"cp312-cp312-macosx_10_9_x86_64"}}}, nil,
			"wheel-architecture error"},
		{mac("15.0", "arm64"), []Package{{Name: "a", Tags: []string{"cp311-cp311-macosx_11_0_arm64"}}}, nil,
			"wheel-python error"},
		{mac("15.0", "arm64"), []Package{{Name: "a", RequiresPython: ">=3.13"}}, nil, "wheel-python warning"},
	} {
		if got := names(CheckPackages(c.in, c.list, c.torch)); got != c.want {
			t.Errorf("%+v %+v %+v: %q, want %q", c.in, c.list, c.torch, got, c.want)
		}
	}
	for release, want := range map[string]bool{"2.5.1": true, "2.99": false, "": false, "x": false, "1.9.0": false} {
		if _, ok := MacFloor(release); ok != want {
			t.Errorf("%q: %v", release, ok)
		}
	}
}

// TestTorchOrigin: where a PyTorch came from, as its records say. A password in an address is not repeated.
func TestTorchOrigin(t *testing.T) {
	root := t.TempDir()
	site, other := filepath.Join(root, "site"), filepath.Join(root, "other")
	tree(t, root, map[string]string{"site/torch/version.py": "__version__ = '2.8.0'\nxpu = '1'\ndebug = True\n",
		"conda/conda-meta/pytorch-2.8.0-x.json":   `{"channel": "https://ann:pw@c.example/pytorch"}`,
		"none/conda-meta/pytorch-2.8.0-x.json":    `{"channel": ""}`,
		"broken/conda-meta/libtorch-2.8.0-x.json": `{`})
	at := func(folder string, p Package) []Package {
		p.Name, p.Location = "torch", filepath.Join(folder, "torch-2.8.0.dist-info")
		return []Package{p}
	}
	for _, c := range []struct {
		prefix string
		list   []Package
		origin string
	}{
		{"", nil, "no record of what installed it"}, {"", at(other, Package{Installer: "pip"}),
			"no record of what installed it"},
		{"", at(site, Package{Installer: "pip"}), "pip, from an index"}, {"", at(site, Package{Installer: "conda"}),
			"conda"},
		{"", at(site, Package{URL: "file:///x.whl", Installer: "pip"}), "file:///x.whl"},
		{"", at(site, Package{URL: "file:///w", Editable: true}), "a working copy at file:///w"},
		{"", at(site, Package{}), "no record of what installed it"},
		{"conda", nil, "conda, channel https://c.example/pytorch"}, {"none", nil, "no record of what installed it"},
		{"broken", at(site, Package{Installer: "pip"}), "pip, from an index"},
	} {
		in := Interpreter{Site: []string{site}, Prefix: filepath.Join(root, "empty", c.prefix)}
		if c.prefix != "" {
			in.Prefix = filepath.Join(root, c.prefix)
		}
		got, ok, err := ReadTorch(in, c.list)
		if err != nil || !ok || got.Origin != c.origin || got.Flavour != "XPU 1" || !got.Debug {
			t.Errorf("%+v: %+v %v", c, got, err)
		}
	}
	got, ok, err := ReadTorch(Interpreter{}, at(other, Package{Version: "2.9.0+cpu", URL: "file:///w"}))
	if err != nil || !ok || got.Release != "2.9.0" || got.Flavour != "unknown" || got.Origin != "file:///w" {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	tree(t, root, map[string]string{"large/torch/version.py": "__version__ = '2.8.0'\n" + strings.Repeat("#",
		maxRecord)})
	if _, ok, err := ReadTorch(Interpreter{Site: []string{filepath.Join(root, "large")}}, nil); !ok || err == nil {
		t.Errorf("a version.py beyond the bound was read: %v %v", ok, err)
	}
	if got := withoutPassword("http://[::1"); strings.Contains(got, "::1") {
		t.Errorf("an address that cannot be read is repeated: %s", got)
	}
}

// TestRecords: records that cannot be read, or are none, are left out; of a message only the head counts.
func TestRecords(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"b.egg-info/PKG-INFO":            "Name: b\nVersion: 1\n",
		"a.egg-info":                     "name: a\n version: 9\n\tversion: 8\nno field\nVersion: 2\n\nVersion: 3\n",
		"n.dist-info/METADATA":           "Version: 1\n",
		"empty.dist-info/RECORD":         "",
		"folder.dist-info/METADATA/x":    "",
		"text.txt":                       "Name: no\n",
		"z.dist-info/METADATA":           "Name: z\nVersion: 1\n",
		"z.dist-info/direct_url.json":    "{",
		"long.dist-info/METADATA":        "Name: long\nVersion: 1\n\n" + strings.Repeat("x", 2*maxMetadata),
		"vcs.dist-info/METADATA":         "Name: vcs\n",
		"vcs.dist-info/INSTALLER":        strings.Repeat("x", 2<<10),
		"vcs.dist-info/direct_url.json":  `{"url": "https://u:p@h/r", "vcs_info": {"commit_id": "abc"}}`,
		"vcs.dist-info/WHEEL":            "Tag: py3-none-any\nTag: a-b-c\nRoot: x\n",
		"zz-1.0.dist-info/METADATA":      "Name: z\nVersion: 2\n",
		"twice/x.dist-info/METADATA":     "Name: x\n",
		"twice-last.dist-info/METADATA2": "Name: x\n",
	})
	var got []string
	for _, p := range Packages([]string{filepath.Join(root, "none"), root, filepath.Join(root, "twice")}) {
		got = append(got, strings.TrimSpace(fmt.Sprint(p.Name, " ", p.Version, " ", p.URL, p.Commit, p.Installer,
			len(p.Tags))))
	}
	want := []string{"a 2 0", "b 1 0", "long 1 0", "vcs  https://h/rabc2", "z 1 0", "z 2 0", "x  0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAllows: the clauses of a version specifier (PEP 440), at their bounds.
func TestAllows(t *testing.T) {
	for _, c := range []struct {
		specifier, version string
		want               bool
	}{
		{">=3.11", "3.11.0", true}, {">=3.11", "3.10.9", false}, {">3.11", "3.11", false}, {">3.11", "3.12", true},
		{"<=3.11", "3.11", true}, {"<=3.11", "3.12", false}, {"<3.12", "3.12", false}, {"<3.12", "3.11.9", true},
		{"==3.11.*", "3.11.4", true}, {"==3.11.*", "3.12.4", false}, {"==3.11", "3.11.0", true}, {"==3.11", "3.11.1",
			false},
		{"!=3.11", "3.11", false}, {"!=3.11.*", "3.12.0", true}, {"~=3.11", "3.12", true}, {"~=3.11", "4.0", false},
		{"~=3.11.2", "3.11.1", false}, {"~=3.11.2", "3.11.9", true}, {"~=3.11.2", "3.12.0", false}, {"~=3", "3.9",
			true},
		{"==3.11.4.*", "3.11", false}, {">=3.8,<3.12", "3.12.1", false}, {">=3.8,<3.12", "3.7", false}, {"", "3.1",
			true},
		{"===x", "3.1", true}, {">=", "3.1", true},
	} {
		if got := allows(c.specifier, c.version); got != c.want {
			t.Errorf("%s of %s: %v", c.version, c.specifier, got)
		}
	}
	for _, c := range []struct {
		tags, requires, want string
	}{
		{"cp312-abi3-x", "", ""}, {"cp313-cp313-x", "", "built for Python 3.13, under 3.12"}, {"a-b", "", ""},
		{"cp311-cp311-x cp312-cp312-x", "", ""}, {"cp310.cp311-none-x", "", "built for Python 3.11, under 3.12"},
		{"cp310-cp310-x bad", "", ""}, {"py3-none-any", ">=3.13", "requires Python >=3.13, under 3.12.4"},
		{"cp311-cp311-x", ">=3.13", "built for Python 3.11, under 3.12"}, {"cp311-none-x", "",
			"built for Python 3.11, under 3.12"},
	} {
		p := Package{Tags: strings.Fields(c.tags), RequiresPython: c.requires}
		if got := p.PythonMismatch(Interpreter{Version: "3.12.4"}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		if got := p.PythonMismatch(Interpreter{}); got != "" {
			t.Errorf("%+v, of a Python that is not known: %q", c, got)
		}
	}
	for _, c := range []struct {
		platform, system string
		arch             []string
		fits             bool
	}{
		{"macosx_10_9_fat64", "darwin", []string{"x86_64"}, true}, {"macosx_10_9_fat64", "darwin", []string{"arm64"},
			false},
		{"macosx_10_9_universal", "darwin", []string{"arm64"}, true}, {"macosx_11_0_arm64", "darwin", nil, true},
		{"macosx_11_0_arm64", "", []string{"x86_64"}, true}, {"win32", "", nil, false}, {"any", "darwin", nil, true},
		{"linux_armv7l", "linux", []string{"armv6l"}, true}, {"linux_x86_64", "linux", []string{"aarch64"}, false},
		{"macosx_11", "darwin", []string{"arm64"}, true},
	} {
		if ok, why := platformFits(c.platform, c.system, c.arch); ok != c.fits || (why == "") != c.fits {
			t.Errorf("%+v: %v %q", c, ok, why)
		}
	}
}

// TestOrigins: who installed an interpreter, and its version, by the folders that installers use.
func TestOrigins(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{"env/conda-meta/python-3.11.7-h955_0.json": "", "py/shims/python": "",
		"py/versions/3.12.1/bin/python": "", "one/include/python3.9/patchlevel.h": "#define PY_VERSION \"3.9.2+\"\n",
		"two/include/python3.9/patchlevel.h":  "#define PY_VERSION \"3.9.2\"\n",
		"two/include/python3.11/patchlevel.h": "#define PY_VERSION \"3.11.2\"\n",
		"bad/include/python3.9/patchlevel.h":  "\n", "odd/conda-meta/python-3.json": ""})
	for _, c := range []struct{ real, prefix, want string }{
		{"/Applications/Xcode.app/x/python3", "", "Xcode"}, {"/Library/Developer/CommandLineTools/usr/bin/python3",
			"", "Xcode"},
		{"/x/python", root + "/env", "conda"}, {"/x/uv/python/cpython-3.11.7-macos/bin/python", "", "uv"},
		{"/u/.asdf/installs/python/3.11.7/bin/python", "", "asdf"}, {"/u/mise/installs/python/3.11.7/bin/python", "",
			"mise"},
		{root + "/py/versions/3.12.1/bin/python", "", "pyenv"}, {root + "/no/versions/3.12.1/bin/python", "", "other"},
		{"/u/.pyenv/versions/3.12.1/bin/python", "", "pyenv"}, {"/opt/homebrew/x/python", "", "Homebrew"},
		{"/usr/local/Cellar/python@3.11/3.11.7_1/bin/python", "", "Homebrew"},
		{"/Library/Frameworks/Python.framework/Versions/3.11/bin/python", "", "python.org"},
		{"/nix/store/x/python", "", "Nix"}, {"/opt/local/bin/python", "", "MacPorts"}, {"/usr/bin/python3.11", "",
			"system"},
		{"/bin/python", "", "system"}, {"/opt/py/bin/python", "", "other"},
	} {
		if got := baseOrigin("/x", c.real, filepath.Join(root, "none", c.prefix)); c.prefix == "" && got != c.want {
			t.Errorf("%s: %s, want %s", c.real, got, c.want)
		}
		if got := baseOrigin("/x", c.real, c.prefix); c.prefix != "" && got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.real, c.prefix, got, c.want)
		}
	}
	for _, c := range []struct{ real, prefix, version, source string }{
		{"/u/versions/3.11.7/bin/python", "", "3.11.7", "folder name"},
		{"/o/Cellar/python@3.11/3.11.7_1/bin/python", "", "3.11.7", "folder name"},
		{"/u/cpython-3.11.7-macos-aarch64-none/bin/python", "", "3.11.7", "folder name"}, {"/x", "env", "3.11.7",
			"conda-meta"},
		{"/x", "one", "3.9.2", "patchlevel.h"}, {"/x", "two", "", ""}, {"/x", "bad", "", ""}, {"/x", "odd", "", ""},
		{"/x", "none", "", ""},
	} {
		if v, s := versionOf(c.real, filepath.Join(root, c.prefix)); v != c.version || s != c.source {
			t.Errorf("%+v: %q %q", c, v, s)
		}
	}
	for path, want := range map[string]string{"/x/versions/3.12.1/bin/python3.12": "3.12.1",
		"/x/cpython-3.13.0-linux/b": "3.13.0",
		"/usr/bin/python3":          ""} {
		if got := folderVersion(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	for _, c := range []struct {
		environ []string
		home    string
		want    string
	}{{nil, "", ""}, {nil, "/h", "/h/.local/share/uv/python"}, {[]string{"XDG_DATA_HOME=/d"}, "/h", "/d/uv/python"},
		{[]string{"UV_PYTHON_INSTALL_DIR=/i"}, "/h", "/i /h/.local/share/uv/python"}} {
		if got := strings.Join(uvRoots(c.environ, c.home), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestAnswers: what an interpreter says of itself, of a Mac above all. What macOS does not tell truly is not repeated.
func TestAnswers(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{"site/x": "", "lib/EXTERNALLY-MANAGED": ""})
	site, lib := filepath.Join(root, "site"), filepath.Join(root, "lib")
	for _, c := range []struct {
		in         Interpreter
		said       answer
		system     string
		translated string
		managed    bool
		site       int
	}{
		{Interpreter{}, answer{Platform: "darwin", System: "10.16", Translated: "1", Stdlib: lib}, "", "true", true, 0},
		{Interpreter{}, answer{Platform: "darwin", System: "15.1", Translated: "0"}, "15.1", "false", false, 0},
		{Interpreter{}, answer{Platform: "darwin", System: "15.1", Translated: "absent"}, "15.1", "false", false, 0},
		{Interpreter{}, answer{Platform: "darwin", System: "15.1"}, "15.1", "<nil>", false, 0},
		{Interpreter{}, answer{Platform: "linux", System: "10.16", Translated: "1", Site: []string{site, site,
			root + "/no"}},
			"10.16", "<nil>", false, 1},
		{Interpreter{Prefix: "/e", BasePrefix: "/b", Site: []string{site}}, answer{Stdlib: lib, Site: []string{lib}},
			"",
			"<nil>", false, 2},
	} {
		c.in.fromAnswer(c.said)
		translated := "<nil>"
		if c.in.Translated != nil {
			translated = fmt.Sprint(*c.in.Translated)
		}
		if c.in.System != c.system || translated != c.translated || c.in.ExternallyManaged != c.managed ||
			len(c.in.Site) != c.site {
			t.Errorf("%+v: %+v (translated %s)", c.said, c.in, translated)
		}
	}
}

// TestBoundsOfReading: what is longer than its bound, no file, or no header is refused.
func TestBoundsOfReading(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{"four": "abcd", "empty": "", "folder/x": "", "short": "#!"})
	for _, c := range []struct {
		name  string
		limit int64
		want  string
		fails bool
	}{{"four", 4, "abcd", false}, {"four", 3, "", true}, {"empty", 0, "", false}, {"folder", 9, "", true}, {"none", 9,
		"", true}} {
		text, err := readBounded(filepath.Join(root, c.name), c.limit)
		if string(text) != c.want || (err != nil) != c.fails {
			t.Errorf("%+v: %q %v", c, text, err)
		}
	}
	for name, want := range map[string]string{"short": "", "folder": "not a regular file", "none": "no such file",
		"empty": "0 bytes are too few"} {
		if _, _, err := readHeader(filepath.Join(root, name)); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		head, want string
	}{{"#!/usr/bin/python3 -I\nx", "/usr/bin/python3"}, {"#!\n", ""}, {"#!python3\n", ""}, {"#!/bin/sh\n", ""}} {
		got, err := throughScript([]byte(c.head))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q %v", c.head, got, err)
		}
	}
	// A slice may end where the file ends, and not a byte later; the header may not be cut within a slice.
	if _, err := ParseHeader(fatHead(1, false), 0x1010); err != nil {
		t.Error(err)
	}
	if _, err := ParseHeader(fatHead(1, false), 0x100f); err == nil {
		t.Error("a slice past the end was taken")
	}
	if h, err := ParseHeader(fatHead(2, false), 1<<20); err != nil || len(h.Arch) != 2 {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := ParseHeader(fatHead(2, false)[:47], 1<<20); err == nil {
		t.Error("a header that is cut short was taken")
	}
	if _, err := ParseHeader(append(fatHead(0, false), make([]byte, 40)...), 1<<20); err == nil {
		t.Error("no slice was taken for one")
	}
	if _, err := ParseHeader(make([]byte, 19), 19); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Error(err)
	}
	mach := func(magic uint32, order binary.ByteOrder, cpu, sub uint32) []byte {
		b := make([]byte, 20)
		binary.BigEndian.PutUint32(b, magic)
		order.PutUint32(b[4:], cpu)
		order.PutUint32(b[8:], sub)
		return b
	}
	// Numbers of mach/machine.h and elf.h.
	for want, b := range map[string][]byte{
		"arm64e": mach(0xcffaedfe, binary.LittleEndian, 0x0100000c, 0x80000002), "x86_64h": mach(0xcffaedfe,
			binary.LittleEndian, 0x01000007, 8),
		"i386": mach(0xcefaedfe, binary.LittleEndian, 7, 3), "ppc": mach(0xfeedface, binary.BigEndian, 18, 0),
		"ppc64": mach(0xfeedfacf, binary.BigEndian, 0x01000012, 0), "arm": mach(0xcefaedfe, binary.LittleEndian, 12, 0),
		"cpu 0x63": mach(0xcefaedfe, binary.LittleEndian, 99, 0), "loongarch": elfHead(binary.LittleEndian, 1, 258),
		"riscv": elfHead(binary.LittleEndian, 1, 243), "machine 7": elfHead(binary.LittleEndian, 1, 7),
	} {
		if h, err := ParseHeader(b, 1<<20); err != nil || !slices.Equal(h.Arch, []string{want}) {
			t.Errorf("%s: %+v %v", want, h, err)
		}
	}
}

// fakeBase makes "environments" without Python: venv makes a folder whose python is a script that notes that pip was
// asked, and fails as $FAIL says.
const fakeBase = `#!/bin/sh
mkdir -p "$4/bin"
cat > "$4/bin/python" <<'END'
#!/bin/sh
echo "asked" >> "$(dirname "$0")/../asked"
if [ -n "$FAIL" ]; then echo "$FAIL"; exit 1; fi
END
chmod +x "$4/bin/python"
touch "$4/bin/pip"
`

// TestEnsureSteps: an environment is made once, a failed one leaves nothing, and a failed set on top leaves what lies
// below it.
func TestEnsureSteps(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	root := t.TempDir()
	tree(t, root, map[string]string{"base": fakeBase})
	in := Interpreter{Path: filepath.Join(root, "base"), Version: "3.12.1"}
	low := Spec{Name: "low", Requirements: []string{"a==1"}}
	high := Spec{Name: "high", Requirements: []string{"b==1"}, On: &low}
	asked := func(python string) int {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(python), "..", "asked"))
		return strings.Count(string(text), "asked")
	}
	folders := func() int {
		list, _ := filepath.Glob(filepath.Join(root, "python", "low-3.12-*[^k]"))
		return len(list)
	}
	t.Setenv("FAIL", "ERROR: [Errno 28] No space left on device")
	if _, err := ensure(t.Context(), root, in, low, io.Discard); err == nil || !strings.Contains(fault.HintOf(err),
		"disk is full") {
		t.Errorf("%v", err)
	}
	if folders() != 0 {
		t.Error("a failed environment is left")
	}
	t.Setenv("FAIL", "")
	var log bytes.Buffer
	python, err := ensure(t.Context(), root, in, low, &log)
	if err != nil || !strings.Contains(log.String(), "making a virtual environment") || asked(python) != 1 {
		t.Fatalf("%v, asked %d\n%s", err, asked(python), log.String())
	}
	log.Reset()
	if again, err := ensure(t.Context(), root, in, low, &log); err != nil || again != python || log.Len() > 0 ||
		asked(python) != 1 {
		t.Errorf("made again: %v %s", err, log.String())
	}
	t.Setenv("FAIL", "x")
	if _, err := ensure(t.Context(), root, in, high, io.Discard); err == nil || fault.HintOf(err) != "" {
		t.Errorf("%v", err)
	}
	if _, err := ensure(t.Context(), root, in, low, io.Discard); err != nil || folders() != 1 {
		t.Errorf("what lies below is gone: %v", err)
	}
	t.Setenv("FAIL", "")
	if top, err := ensure(t.Context(), root, in, high, io.Discard); err != nil || top != python || asked(python) != 3 {
		t.Errorf("%s %v, asked %d", top, err, asked(python))
	}
	// Other pins, another interpreter: another environment, or the set on top anew.
	high.Requirements = []string{"b==2"}
	if _, err := ensure(t.Context(), root, in, high, io.Discard); err != nil || asked(python) != 4 {
		t.Errorf("a changed set on top is not installed: %v", err)
	}
	in.Version = "3.12.2"
	if other, err := ensure(t.Context(), root, in, low, io.Discard); err != nil || other == python {
		t.Errorf("another Python shares the environment: %v", err)
	}
	// Without a base nothing that was removed is made again.
	if _, err := ensureIn(t.Context(), filepath.Join(root, "python", "gone"), Interpreter{}, low,
		io.Discard); err == nil ||
		!strings.Contains(err.Error(), "removed meanwhile") {
		t.Error(err)
	}
	if p, err := ensureIn(t.Context(), filepath.Dir(filepath.Dir(python)), Interpreter{}, low,
		io.Discard); err != nil || p != python {
		t.Errorf("%s %v", p, err)
	}
	if err := install(t.Context(), filepath.Join(root, "none"), Spec{}, io.Discard); err != nil {
		t.Errorf("nothing to install: %v", err)
	}
	// The lock of another process is waited for, and said so; who gives up says which.
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(root, "lock")
	unlock, err := lockFile(ctx, path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	_, err = lockFile(ctx, path, writer(func([]byte) { said++; cancel() }))
	if !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("%v, said %d times", err, said)
	}
	unlock()
	if unlock, err = lockFile(t.Context(), path, writer(func([]byte) { t.Error("it waits for nobody") })); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := lockFile(t.Context(), filepath.Join(root, "no", "lock"), io.Discard); err == nil {
		t.Error("a lock in no folder")
	}
}

// TestCauses: what a tool's last lines show is named; what they do not show is not guessed.
func TestCauses(t *testing.T) {
	for said, hint := range map[string]string{"error: Disk quota exceeded": "the disk is full",
		"dns error":                     "was not reached",
		"no wheels with a matching tag": "no such package", "something else": ""} {
		out := &text.Tail{Limit: 100}
		io.WriteString(out, said)
		err := explain(t.Context(), "do it", out, errors.New("exit status 1"))
		if got := fault.HintOf(err); (got == "") != (hint == "") || !strings.Contains(got, hint) ||
			!strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, hint %q", said, err, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := explain(ctx, "do it", &text.Tail{Limit: 1}, errors.New("x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, c := range []struct {
		err  error
		hint bool
	}{{syscall.ENOSPC, true}, {syscall.EDQUOT, true}, {syscall.EACCES, false}} {
		if got := spaceError(fmt.Errorf("write: %w", c.err)); (fault.HintOf(got) != "") != c.hint || !errors.Is(got,
			c.err) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	for said, want := range map[string]string{"first\nAn error here\nlast\n": "An error here",
		"first\nlast\n": "last"} {
		out := &text.Tail{Limit: 100}
		io.WriteString(out, said)
		if got := complaint(out); got != want {
			t.Errorf("%q", got)
		}
	}
}
