package python

import (
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func TestPackages(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"site/Torch_Thing-1.0.dist-info/METADATA":        "Metadata-Version: 2.1\r\nName: Torch.Thing\r\nVersion: 1.0\r\nRequires-Python: >=3.11\r\n\r\nName: not this\r\n",
		"site/Torch_Thing-1.0.dist-info/WHEEL":           "Wheel-Version: 1.0\nTag: cp311-cp311-macosx_14_0_arm64\nTag: cp311-cp311-macosx_14_0_x86_64\n",
		"site/Torch_Thing-1.0.dist-info/INSTALLER":       "uv\n",
		"site/Torch_Thing-1.0.dist-info/direct_url.json": `{"url": "https://user:secret@example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}`,
		"site/edit-0.1.dist-info/METADATA":               "Name: edit\nVersion: 0.1\n",
		"site/edit-0.1.dist-info/direct_url.json":        `{"url": "file:///u/edit", "dir_info": {"editable": true}}`,
		"site/old.egg-info/PKG-INFO":                     "Name: old\nVersion: 2\n",
		"site/older.egg-info":                            "Name: older\nVersion: 3\n",
		"site/broken.dist-info/METADATA":                 "\x00\xff",
		"site/empty.dist-info/x":                         "",
		"site/plain/__init__.py":                         "",
	})
	ps := Packages([]string{filepath.Join(root, "none"), filepath.Join(root, "site")})
	if len(ps) != 4 || ps[0].Name != "edit" || ps[1].Name != "old" || ps[2].Name != "older" {
		t.Fatalf("%+v", ps)
	}
	p := ps[3]
	if p.Name != "Torch.Thing" || p.Version != "1.0" || len(p.Tags) != 2 || p.Installer != "uv" || p.Commit != "abc" ||
		p.RequiresPython != ">=3.11" {
		t.Errorf("%+v", p)
	}
	if strings.Contains(p.URL, "secret") || !ps[0].Editable {
		t.Errorf("%+v %+v", p, ps[0])
	}
	if got := Named(ps, "torch-thing"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestArchMismatch(t *testing.T) {
	arm := Interpreter{Format: "Mach-O", Arch: []string{"arm64"}}
	intel := Interpreter{Format: "Mach-O", Arch: []string{"x86_64"}}
	fat := Interpreter{Format: "Mach-O fat", Arch: []string{"x86_64", "arm64"}}
	translated := Interpreter{Format: "Mach-O fat", Arch: []string{"x86_64", "arm64"}, Platform: "darwin",
		Machine: "x86_64"}
	linux := Interpreter{Format: "ELF", Arch: []string{"x86_64"}, Platform: "linux2", Machine: "x86_64"}
	pi := Interpreter{Format: "ELF", Arch: []string{"aarch64"}}
	for _, c := range []struct {
		in   Interpreter
		tags string
		fits bool
	}{
		{arm, "cp311-cp311-macosx_14_0_arm64", true},
		{arm, "cp311-cp311-macosx_10_9_x86_64", false},
		{arm, "cp311-cp311-macosx_10_9_universal2", true},
		{arm, "cp27-cp27m-macosx_10_6_intel", false},
		{arm, "py3-none-any", true},
		{arm, "cp311-cp311-manylinux_2_28_aarch64", false},
		{arm, "cp311-cp311-macosx_10_9_x86_64 cp311-cp311-macosx_11_0_arm64", true},
		{arm, "cp311-cp311-macosx_10_9_x86_64.macosx_11_0_arm64", true},
		{arm, "", true},
		{arm, "py3-none-plan9_x", true},
		{intel, "cp311-cp311-macosx_14_0_arm64", false},
		{fat, "cp311-cp311-macosx_14_0_arm64", true},
		{translated, "cp311-cp311-macosx_14_0_arm64", false},
		{linux, "cp311-cp311-manylinux1_x86_64.manylinux2010_x86_64", true},
		{linux, "cp311-cp311-manylinux_2_28_aarch64", false},
		{linux, "cp311-cp311-linux_x86_64", true},
		{linux, "cp311-cp311-macosx_14_0_arm64", false},
		{linux, "cp311-cp311-win_amd64", false},
		{pi, "cp311-cp311-musllinux_1_2_aarch64", true},
		{pi, "cp311-cp311-musllinux_1_2_x86_64", false},
	} {
		why := Package{Tags: strings.Fields(c.tags)}.ArchMismatch(c.in)
		if (why == "") != c.fits {
			t.Errorf("%s under %v: %q", c.tags, c.in, why)
		}
	}
}

func TestPythonMismatch(t *testing.T) {
	in := Interpreter{Version: "3.12.1"}
	for _, c := range []struct {
		tags, requires string
		fits           bool
	}{
		{"cp312-cp312-macosx_14_0_arm64", "", true},
		{"cp311-cp311-macosx_14_0_arm64", "", false},
		{"cp39-abi3-macosx_14_0_arm64", "", true},
		{"cp313-abi3-macosx_14_0_arm64", "", false},
		{"py2.py3-none-any", "", true},
		{"py3-none-any", ">=3.13", false},
		{"py3-none-any", ">=3.8, !=3.9.*, <4", true},
		{"py3-none-any", "!=3.12.*", false},
		{"py3-none-any", "~=3.12", true},
		{"py3-none-any", "~=3.12.0", true},
		{"py3-none-any", "~=3.11.0", false},
		{"py3-none-any", "<3.12", false},
		{"", "==3.*", true},
		{"", "nonsense", true},
	} {
		why := Package{Tags: strings.Fields(c.tags), RequiresPython: c.requires}.PythonMismatch(in)
		if (why == "") != c.fits {
			t.Errorf("%s %s: %q", c.tags, c.requires, why)
		}
	}
}

func TestReadTorch(t *testing.T) {
	for _, c := range []struct{ text, version, release, flavour, commit string }{
		{"__version__ = '2.15.0+cu132'\ndebug = False\ncuda: Optional[str] = '13.2'\ngit_version = 'd0f2af8b66b20da4baa50644c0cd3f887a2eae2e'\nhip: Optional[str] = None\n", "2.15.0+cu132", "2.15.0", "CUDA 13.2", "d0f2af8b66b20da4baa50644c0cd3f887a2eae2e"},
		{"__version__ = '2.0.1'\ndebug = False\ncuda = None\ngit_version = 'e9ebda29d87ce0916ab08c06ab26fd3766a870e5'\nhip = None\n", "2.0.1", "2.0.1", "CPU", "e9ebda29d87ce0916ab08c06ab26fd3766a870e5"},
		{"from typing import Optional\n\n__all__ = ['__version__']\n__version__ = \"2.16.0a0+gitabcdef\"\nhip: Optional[str] = '6.4'\ngit_version = 'Unknown'\n", "2.16.0a0+gitabcdef", "2.16.0", "ROCm 6.4", ""},
		{"import os\nos.system('false')\n", "", "", "CPU", ""},
	} {
		got := parseTorchVersion([]byte(c.text))
		if got.Version != c.version || got.Release != c.release || got.Flavour != c.flavour || got.Commit != c.commit {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
	root := t.TempDir()
	tree(t, root, map[string]string{
		"site/torch/version.py":                  "__version__ = '2.4.1'\ncuda = None\n",
		"conda-meta/pytorch-2.4.1-py3.11_0.json": `{"channel": "https://conda.anaconda.org/pytorch/osx-arm64"}`,
		"bad/torch/version.py":                   "\n",
	})
	in := Interpreter{Prefix: root, Platform: "darwin", Site: []string{filepath.Join(root, "none"),
		filepath.Join(root, "site")}}
	got, ok, err := ReadTorch(in, nil)
	if err != nil || !ok || got.Flavour != "macOS" || !strings.Contains(got.Origin, "conda") {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	in.Site = in.Site[:1]
	if _, ok, err := ReadTorch(in, nil); ok || err != nil {
		t.Error("found where there is none", err)
	}
	in.Site = []string{filepath.Join(root, "bad")}
	if _, ok, err := ReadTorch(in, nil); !ok || err == nil {
		t.Error("an empty version.py was taken")
	}
}

func TestChecks(t *testing.T) {
	yes, no := true, false
	names := func(found []evidence.Finding) string {
		var s []string
		for _, f := range found {
			s = append(s, f.Name+" "+string(f.Severity))
		}
		return strings.Join(s, "|")
	}
	mac := Interpreter{Version: "3.12.1", Platform: "darwin", Machine: "arm64", System: "14.5", Translated: &no,
		Format: "Mach-O", Arch: []string{"arm64"}}
	rosetta := mac
	rosetta.Machine, rosetta.Translated = "x86_64", &yes
	old := Interpreter{Version: "2.7.18", Platform: "linux2"}
	for _, c := range []struct {
		in   Interpreter
		want string
	}{{mac, ""}, {rosetta, "interpreter-translated error"}, {old, "interpreter-old error"},
		{Interpreter{NotAsked: "exec format error"}, "interpreter-silent error"}} {
		if got := names(CheckInterpreter(c.in)); got != c.want {
			t.Errorf("%+v: %s", c.in, got)
		}
	}
	for _, c := range []struct {
		in    Interpreter
		torch string
		want  string
	}{
		{mac, "2.14.1", ""},
		{mac, "2.15.0", "torch-macos error"}, // MPS from macOS 15
		{mac, "2.99.0", ""},                  // not looked at
		{rosetta, "2.2.2", ""},
		{rosetta, "2.3.1", "torch-architecture error"},
	} {
		if got := names(CheckPackages(c.in, nil, &Torch{Version: c.torch, Release: c.torch})); got != c.want {
			t.Errorf("torch %s under %s: %s", c.torch, c.in.Machine, got)
		}
	}
	twice := []Package{{Name: "numpy", Version: "2.4.6"}, {Name: "NumPy", Version: "1.26.4"}, {Name: "a", Version: "1"},
		{Name: "a", Version: "1"}}
	if got := names(CheckPackages(mac, twice, nil)); got != "package-twice warning" {
		t.Error(got)
	}
	for _, c := range []struct{ release, backend, install string }{{"2.0.1", "12.3", "11"}, {"2.8.0", "13.0", "11"},
		{"2.11.0", "14.0", "11"}, {"2.12.1", "14.0", "14"}, {"2.15.0", "15.0", "14"}} {
		if f, ok := MacFloor(c.release); !ok || f.Backend != c.backend || f.Install != c.install {
			t.Errorf("%s: %+v %v", c.release, f, ok)
		}
	}
	if _, ok := MacFloor("1.13.1"); ok {
		t.Error("1.13 was not looked at")
	}
}
