package target

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/internal/atlas"
	"assay/internal/fault"
)

// write makes a folder that holds files, by their paths.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aimAt is the aim of a folder with files, in an environment with a torch.
func aimAt(t *testing.T, a *atlas.Atlas, files map[string]string, on Target, installed string) (Aim, error) {
	t.Helper()
	dir := write(t, files)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil { // nothing above it is looked at
		t.Fatal(err)
	}
	return AimAt(a, dir, Words{Torch: on.Release, Chip: on.Chip, MacOS: on.MacOS},
		func() (torch, python, where string) { return installed, "3.11.7", "here" })
}

// TestAimAt: which release a project aims at, and the words that say why. Each row is a folder; 2.15.0 is the newest
// known.
func TestAimAt(t *testing.T) {
	const (
		newest = "the newest known: no file of a project here names one"
		uvLock = "version = 1\n\n[[package]]\nname = \"numpy\"\nversion = \"9.9\"\n\n[[package]]\nname = \"torch\"\n" +
			"version = \"2.7.1\"\nsource = { registry = \"x\" }\n\n[[package]]\nname = \"zlib\"\nversion = \"1\"\n"
	)
	type files = map[string]string
	for _, c := range []struct {
		name      string
		files     files
		installed string
		torch     string
		release   string
		why       string
		besides   []string
	}{
		{"nothing", nil, "", "", "2.15.0", newest, nil},
		{"installed", nil, "2.8.0+cpu", "", "2.8.0", "the installed torch 2.8.0+cpu: here", nil},
		{"installed nightly", nil, "2.16.0.dev20260801+cpu", "", "2.15.0",
			"the nearest known to the installed torch 2.16.0.dev20260801+cpu: here", nil},
		{"a pin goes before what is installed", files{"requirements.txt": "numpy\ntorch==2.0.1  # old\n"}, "2.15.0", "",
			"2.0.1", "torch==2.0.1 in requirements.txt", nil},
		{"typed goes before a pin", files{"requirements.txt": "torch==2.0.1\n"}, "2.15.0", "2.8", "2.8.0",
			"--torch 2.8",
			nil},
		{"set goes before a pin", files{"requirements.txt": "torch==2.0.1\n",
			"assay.toml": "[target]\ntorch = \"2.8\"\n"},
			"", "", "2.8.0", `torch = "2.8" in assay.toml`, nil},
		{"set by an earlier assay", files{"assay.toml": "[check]\ntorch = \"2.7\"\nignore = []\n"}, "", "", "2.7.1",
			`torch = "2.7" in assay.toml`, nil},
		{"set in pyproject", files{"pyproject.toml": "[tool.assay.target]\ntorch = \"2.7\"\n"}, "", "", "2.7.1",
			`torch = "2.7" in pyproject.toml`, nil},
		{"== names one release, not a series", files{"requirements.txt": "torch==2.1\n"}, "", "", "2.1.0",
			"torch==2.1 in requirements.txt", nil},
		{"a build", files{"requirements.txt": "--index-url https://example.org/whl/cpu\n" +
			"torch==2.1.2+cpu --hash=sha256:ab\n"},
			"", "", "2.1.2", "torch==2.1.2+cpu in requirements.txt", nil},
		{"as PowerShell writes it", files{"requirements.txt": "\xff\xfet\x00o\x00r\x00c\x00h\x00=\x00=\x002\x00.\x001\x00\n\x00"},
			"", "", "2.1.0", "torch==2.1 in requirements.txt", nil},
		{"in capitals", files{"requirements.txt": "\uFEFFTorch == 2.1.2\n"}, "", "", "2.1.2",
			"Torch == 2.1.2 in requirements.txt", nil},
		{"with a password", files{"requirements.txt": "torch==2.1.2 --index-url https://u:secret@example.org\n"}, "", "",
			"2.1.2", "torch==2.1.2 in requirements.txt", nil},
		{"continued", files{"requirements.txt": "torch==2.1.2 \\\n    --hash=sha256:ab \\\n    --hash=sha256:cd\n"},
			"", "",
			"2.1.2", "torch==2.1.2 in requirements.txt", nil},
		{"others of that name",
			files{"requirements.txt": "torchvision==0.15.0\ntorch-geometric==2.3\npytorch-lightning==2.0\n"},
			"", "", "2.15.0", newest, nil},
		{"range", files{"requirements.txt": "torch>=2.1,<2.4\n"}, "", "", "2.3.1",
			"the newest known for torch>=2.1,<2.4 in requirements.txt", nil},
		{"range that what is installed meets", files{"requirements.txt": "torch>=2.1\n"}, "2.8.0", "", "2.8.0",
			"the installed torch 2.8.0: here", nil},
		{"range that it does not meet", files{"requirements.txt": "torch>=2.1,<2.4\n"}, "2.15.0", "", "2.3.1",
			"the newest known for torch>=2.1,<2.4 in requirements.txt",
			[]string{"torch 2.15.0 is installed, here: not what is asked for"}},
		{"two ranges", files{"requirements.txt": "torch<2.4\n",
			"pyproject.toml": "[project]\ndependencies = [\"torch>=2.1\"]\n"},
			"", "", "2.3.1", "the newest known for torch>=2.1 in pyproject.toml and torch<2.4 in requirements.txt",
			nil},
		{"bare", files{"requirements.txt": "torch\n"}, "", "", "2.15.0",
			"the newest known: torch in requirements.txt names no release", nil},
		{"newer than known", files{"requirements.txt": "torch==2.16.0\n"}, "2.8.0", "", "2.15.0",
			"the nearest known to torch==2.16.0 in requirements.txt", nil},
		{"range above", files{"requirements.txt": "torch>=2.16\n"}, "", "", "2.15.0",
			"the nearest known to torch>=2.16 in requirements.txt", nil},
		{"older than known", files{"requirements.txt": "torch==1.13.1\n"}, "", "", "2.0.0",
			"the nearest known to torch==1.13.1 in requirements.txt", nil},
		{"nightly index", files{"requirements.txt": "--pre\n" +
			"--extra-index-url https://example.org/whl/nightly/cpu\ntorch\n"},
			"", "", "2.15.0", "the nearest known to torch (a nightly build) in requirements.txt", nil},
		{"pinned nightly", files{"requirements.txt": "torch==2.16.0.dev20260801\n"}, "", "", "2.15.0",
			"the nearest known to torch==2.16.0.dev20260801 in requirements.txt", nil},
		{"marker for others", files{"requirements.txt": "torch==2.0.1; sys_platform != 'darwin'\n"}, "", "", "2.15.0",
			newest,
			nil},
		{"markers", files{"requirements.txt": "torch==2.8.0; sys_platform == 'linux'\n" +
			"torch==2.2.2; sys_platform == 'darwin'\n"},
			"", "", "2.2.2", "torch==2.2.2; sys_platform == 'darwin' in requirements.txt", nil},
		{"marker for a Mac before none",
			files{"requirements.txt": "torch==2.8.0\ntorch==2.2.2; platform_system == \"Darwin\"\n"},
			"", "", "2.2.2", `torch==2.2.2; platform_system == "Darwin" in requirements.txt`,
			[]string{"another release is asked for: torch==2.8.0 in requirements.txt"}},
		{"marker of Python", files{"requirements.txt": "torch==2.0.1; python_version < '3.10'\n" +
			"torch==2.4.1; python_version >= '3.10'\n"},
			"", "", "2.4.1", "torch==2.4.1; python_version >= '3.10' in requirements.txt", nil},
		{"conflict", files{"requirements.txt": "torch==2.0.1\n", "requirements-dev.txt": "torch==2.8.0\n"}, "", "",
			"2.0.1",
			"torch==2.0.1 in requirements.txt",
			[]string{"another release is asked for: torch==2.8.0 in requirements-dev.txt"}},
		{"one release before a range", files{"requirements.txt": "torch==2.0.1\n",
			"pyproject.toml": "[project]\ndependencies = [\"torch>=2.4\"]\n"}, "", "", "2.0.1",
			"torch==2.0.1 in requirements.txt",
			[]string{"another release is asked for: torch>=2.4 in pyproject.toml"}},
		{"file for Macs", files{"requirements.txt": "torch==2.0.1\n", "requirements-macos.txt": "torch==2.8.0\n"}, "",
			"",
			"2.8.0", "torch==2.8.0 in requirements-macos.txt",
			[]string{"another release is asked for: torch==2.0.1 in requirements.txt"}},
		{"file for others", files{"requirements-cuda.txt": "torch==2.0.1\n",
			"setup.cfg": "[options]\ninstall_requires =\n    torch>=2.4\n"},
			"", "", "2.15.0", "the newest known for torch>=2.4 in setup.cfg",
			[]string{"another release is asked for: torch==2.0.1 in requirements-cuda.txt"}},
		{"file for others alone", files{"requirements-cuda.txt": "torch==2.0.1\n"}, "", "", "2.0.1",
			"torch==2.0.1 in requirements-cuda.txt", nil},
		{"file for others and a lock", files{"requirements-cuda.txt": "torch==2.0.1\n", "uv.lock": uvLock}, "", "",
			"2.7.1", "torch 2.7.1 in uv.lock",
			[]string{"another release is asked for: torch==2.0.1 in requirements-cuda.txt"}},
		{"included", files{"requirements.txt": "-r more/base.txt\n-r ../outside.txt\n-r requirements.txt\n",
			"more/base.txt": "torch==2.5.1\n"}, "", "", "2.5.1", "torch==2.5.1 in more/base.txt", nil},
		{"folder of requirements", files{"requirements/base.txt": "torch==2.5.1\n"}, "", "", "2.5.1",
			"torch==2.5.1 in requirements/base.txt", nil},
		{"wheel", files{"requirements.txt": "https://example.org/whl/cpu/torch-2.1.0-cp311-none-macosx_11_0_arm64.whl\n"},
			"", "", "2.1.0", "torch 2.1.0 in requirements.txt", nil},
		{"wheels", files{"requirements.txt": "torch @ https://example.org/torch-2.4.0%2Bcu121-cp311-cp311-linux_x86_64.whl\n" +
			"torch @ https://example.org/torch-2.3.0-cp311-none-macosx_11_0_arm64.whl\n"}, "", "", "2.3.0",
			"torch 2.3.0 in requirements.txt",
			[]string{"another release is asked for: torch 2.4.0+cu121 in requirements.txt"}},
		{"optional", files{"pyproject.toml": "[project]\ndependencies = [\"torch>=2.4\"]\n" +
			"[project.optional-dependencies]\nold = [\"torch==2.0.1\"]\n"},
			"", "", "2.15.0", "the newest known for torch>=2.4 in pyproject.toml",
			[]string{"another release is asked for: torch==2.0.1 in pyproject.toml"}},
		{"group", files{"pyproject.toml": "[dependency-groups]\n" +
			"train = [\"torch==2.6.0\", {include-group = \"x\"}]\n"}, "", "",
			"2.6.0", "torch==2.6.0 in pyproject.toml", nil},
		{"poetry", files{"pyproject.toml": "[tool.poetry.dependencies]\npython = \"^3.11\"\ntorch = \"~2.2\"\n"}, "",
			"",
			"2.2.2", `the newest known for torch = "~2.2" in pyproject.toml`, nil},
		{"poetry by system", files{"pyproject.toml": "[tool.poetry.dependencies]\ntorch = [\n" +
			"{ version = \"2.8.0\", markers = \"sys_platform == 'linux'\" },\n" +
			"{ version = \"2.2.2\", platform = \"darwin\" }]\n"},
			"", "", "2.2.2", `torch = "2.2.2" in pyproject.toml`, nil},
		{"setup.py", files{"setup.py": "from setuptools import setup\nsetup(install_requires=[\n" +
			"  'numpy', # 'torch==2.8'\n  \"torch == 2.5.1\"])\n"},
			"", "", "2.5.1", "torch == 2.5.1 in setup.py", nil},
		{"setup.py that computes it",
			files{"setup.py": "v = '2.5.1'\nsetup(install_requires=['torch==' + v, 'torch'])\n"}, "",
			"", "2.15.0", newest, []string{"torch== in setup.py was not understood: \"==\" is no condition on a release"}},
		{"conda", files{"environment.yml": "name: x\ndependencies:\n  - python=3.11\n  - pytorch::pytorch=2.1\n" +
			"  - pip:\n    - numpy\n"},
			"", "", "2.1.2", "the newest known for pytorch::pytorch=2.1 in environment.yml", nil},
		{"conda and pip", files{"environment.yaml": "dependencies:\n  - python=3.11\n  - pip:\n" +
			"    - torch==2.5.1\n  - numpy\n"},
			"", "", "2.5.1", "torch==2.5.1 in environment.yaml", nil},
		{"pixi", files{"pixi.toml": "[dependencies]\npytorch = \"2.4.*\"\n[target.linux-64.dependencies]\n" +
			"pytorch = \"2.6.*\"\n"},
			"", "", "2.4.1", `the newest known for pytorch = "2.4.*" in pixi.toml`,
			[]string{`another release is asked for: pytorch = "2.6.*" in pixi.toml`}},
		{"Pipfile", files{"Pipfile": "[packages]\ntorch = \"==2.4.1\"\n"}, "", "", "2.4.1",
			`torch = "==2.4.1" in Pipfile`, nil},
		{"uv.lock", files{"uv.lock": uvLock}, "2.15.0", "", "2.7.1", "torch 2.7.1 in uv.lock", nil},
		{"uv.lock within a range", files{"uv.lock": uvLock,
			"pyproject.toml": "[project]\ndependencies = [\"torch>=2.1\"]\n"},
			"2.15.0", "", "2.7.1", "torch 2.7.1 in uv.lock", nil},
		{"uv.lock without a range", files{"uv.lock": uvLock,
			"pyproject.toml": "[project]\ndependencies = [\"torch<2.5\"]\n"},
			"", "", "2.4.1", "the newest known for torch<2.5 in pyproject.toml",
			[]string{"another release is asked for: torch 2.7.1 in uv.lock"}},
		{"a pin before uv.lock", files{"uv.lock": uvLock, "requirements.txt": "torch==2.5.0\n"}, "", "", "2.5.0",
			"torch==2.5.0 in requirements.txt", []string{"another release is asked for: torch 2.7.1 in uv.lock"}},
		{"forks of uv.lock", files{"uv.lock": "[[package]]\nname = \"torch\"\nversion = \"2.8.0+cu128\"\n" +
			"resolution-markers = [\n" +
			"  \"sys_platform == 'linux'\",\n  \"sys_platform == 'win32'\",\n]\n\n[[package]]\n" +
			"name = \"torch\"\nversion = \"2.8.0\"\n" +
			"resolution-markers = [\n  \"sys_platform == 'darwin'\",\n]\n"}, "", "", "2.8.0",
			"torch 2.8.0 in uv.lock", nil},
		{"first in poetry.lock",
			files{"poetry.lock": "[[package]]\nname = \"torch\"\nversion = \"2.6.0\"\n" +
				"markers = \"sys_platform == 'darwin'\"\n"},
			"", "", "2.6.0", "torch 2.6.0 in poetry.lock", nil},
		{"pdm.lock", files{"pdm.lock": "[metadata]\n\n[[package]]\nname = \"torch\"\nversion = \"2.6.0\"\n" +
			"groups = [\"default\"]\n"},
			"", "", "2.6.0", "torch 2.6.0 in pdm.lock", nil},
		{"pylock", files{"pylock.toml": "lock-version = \"1.0\"\n[[packages]]\nname = \"torch\"\n" +
			"version = \"2.6.0\"\n"}, "", "",
			"2.6.0", "torch 2.6.0 in pylock.toml", nil},
		{"Pipfile.lock", files{"Pipfile.lock": `{"default": {"torch": {"version": "==2.6.0"}}, "develop": {}}`}, "",
			"", "2.6.0",
			"torch==2.6.0 in Pipfile.lock", nil},
		{"pixi.lock", files{"pixi.lock": "version: 6\npackages:\n" +
			"- conda: https://example.org/conda-forge/linux-64/pytorch-2.7.0-cuda126_py312.conda\n" +
			"- conda: https://example.org/conda-forge/osx-arm64/pytorch-2.6.0-cpu_generic_py312.conda\n" +
			"  sha256: ab\n"}, "", "",
			"2.6.0", "torch 2.6.0 in pixi.lock", []string{"another release is asked for: torch 2.7.0 in pixi.lock"}},
		{"pixi.lock from PyPI",
			files{"pixi.lock": "packages:\n- pypi: https://example.org/torch-2.6.0-cp312-none-macosx_11_0_arm64.whl\n" +
				"  name: torch\n  version: 2.6.0\n"}, "", "", "2.6.0", "torch 2.6.0 in pixi.lock", nil},
		{"conda-lock of another system", files{"conda-lock.yml": "package:\n- name: pytorch\n  version: 2.0.1\n" +
			"  manager: conda\n  platform: linux-64\n"}, "2.15.0", "", "2.0.1", "torch 2.0.1 in conda-lock.yml", nil},
		{"conda-lock", files{"conda-lock.yml": "package:\n- name: numpy\n  version: 9.9.9\n  platform: osx-arm64\n" +
			"- name: pytorch\n  version: 2.6.0\n  manager: conda\n  platform: osx-arm64\n- name: pytorch\n" +
			"  version: 2.7.0\n  platform: linux-64\n"},
			"", "", "2.6.0", "torch 2.6.0 in conda-lock.yml",
			[]string{"another release is asked for: torch 2.7.0 in conda-lock.yml"}},
	} {
		aim, err := aimAt(t, &atlas.Atlas{}, c.files, Target{Release: c.torch}, c.installed)
		if err != nil || aim.Torch != c.release || aim.Release.Version != c.release || aim.Why != c.why ||
			!slices.Equal(aim.Besides, append([]string{}, c.besides...)) {
			t.Errorf("%s: torch %s (%s) %q, %v\nwant torch %s (%s) %q", c.name, aim.Torch, aim.Why, aim.Besides, err,
				c.release,
				c.why, c.besides)
		}
		if aim.Guessed != (strings.HasPrefix(aim.Why, "the newest known: ")) {
			t.Errorf("%s: guessed %v, %s", c.name, aim.Guessed, aim.Why)
		}
	}
}

// TestAimFromAbove: what the nearest folder says holds; a lock file may lie above it, and beyond the repository's root
// nothing is looked at.
func TestAimFromAbove(t *testing.T) {
	dir := write(t, map[string]string{
		"requirements.txt":             "torch==2.0.1\n",
		"repo/.git/HEAD":               "",
		"repo/uv.lock":                 "[[package]]\nname = \"torch\"\nversion = \"2.7.1\"\n",
		"repo/requirements.txt":        "torch==2.5.1\n",
		"repo/a/pyproject.toml":        "[project]\ndependencies = [\"torch>=2.4\"]\n",
		"repo/a/src/x.py":              "",
		"repo/b/src/x.py":              "",
		"other/.git":                   "a worktree's",
		"other/src/deep/down/x.py":     "",
		"repo/c/requirements.txt":      "numpy\n",
		"repo/c/deep/assay.toml":       "[check]\n",
		"repo/d/assay.toml":            "[target]\nchip = \"m2-pro-16gb\"\nmacos = \"14.5\"\n",
		"repo/d/deep/requirements.txt": "torch==2.6\n",
	})
	for folder, want := range map[string]string{
		"repo":           "torch 2.5.1 (torch==2.5.1 in requirements.txt)",
		"repo/a/src":     "torch 2.7.1 (torch 2.7.1 in ../../uv.lock)",
		"repo/b/src":     "torch 2.5.1 (torch==2.5.1 in ../../requirements.txt)",
		"repo/c":         "torch 2.5.1 (torch==2.5.1 in ../requirements.txt)",
		"other/src/deep": "torch 2.15.0 (the newest known: no file of a project here names one)",
		"repo/d/deep":    "torch 2.6.0 (torch==2.6 in requirements.txt)",
	} {
		aim, err := AimAt(&atlas.Atlas{}, filepath.Join(dir, folder), Words{}, func() (a, b, c string) { return })
		if err != nil || aim.String() != want {
			t.Errorf("%s: %s, %v; want %s", folder, aim, err, want)
		}
		if folder == "repo/d/deep" && (aim.Chip != "m2-pro-16gb" || aim.MacOS != "14.5" ||
			aim.MacOSAt != "../assay.toml") {
			t.Errorf("%s: %+v", folder, aim)
		}
	}
}

// TestSettingsRefused: a setting that is wrong is one error, with its file; what was typed goes before it, but does not
// hide it.
func TestSettingsRefused(t *testing.T) {
	for content, want := range map[string]string{
		"[target]\n" +
			"torch = \"banana\"\n": `assay.toml: torch "banana" is no release: write 2.8 or 2.8.0`,
		"[target]\ntorch = \"2.99\"\n": "assay.toml: torch 2.99 is not in the atlas",
		"[target]\nchip = \"m9\"\n":    "assay.toml: chip m9: no such chip is known",
		"[target]\n" +
			"macos = \"9\"\n": "assay.toml: macOS 9 has no MPS in PyTorch: it begins with 12.3",
		"[target]\nreleas = \"2.8\"\n": `line 2, column 1: [target] has no setting "releas"`,
		"[target]\ntorch = 2.8\n":      "line 2, column 9: ",
		"[target]\ntorch = \"2.8\"\n[check]\n" +
			"torch = \"2.7\"\n": `[check] says torch = "2.7" and [target] "2.8": leave that of [check] out`,
		"[target\n": "line 1, column ",
	} {
		_, err := aimAt(t, &atlas.Atlas{}, map[string]string{"assay.toml": content}, Target{}, "")
		if err == nil || !strings.Contains(err.Error(), want) || fault.HintOf(err) == "" {
			t.Errorf("%q: %v (%s); want %s", content, err, fault.HintOf(err), want)
		}
	}
	// A pyproject.toml that is broken is not ours to judge: it is noted, and says nothing.
	aim, err := aimAt(t, &atlas.Atlas{}, map[string]string{"pyproject.toml": "[project\n"}, Target{}, "")
	if err != nil || len(aim.Besides) != 1 || !strings.HasPrefix(aim.Besides[0],
		"pyproject.toml was not read: line 1, column ") {
		t.Errorf("%+v, %v", aim, err)
	}
}

// TestHostileProjects: files that are too large, are no files, or are made to cost much end in a note.
func TestHostileProjects(t *testing.T) {
	dir := write(t, map[string]string{".git/HEAD": "", "requirements.txt": strings.Repeat("torch==2.0.1\n", 100_000),
		"uv.lock/x": "", "poetry.lock": "[[package]]\nname = \"torch\"\nversion = [[[\n",
		"Pipfile.lock":      strings.Repeat("[", 100_000),
		"constraints.txt":   "-r constraints-b.txt\ntorch==" + strings.Repeat("9", 500) + "\n",
		"constraints-b.txt": "-r constraints.txt\n-r /etc/passwd\n",
		"setup.cfg":         strings.Repeat("[", 1000) + "\n = \n\t\n[options]\ninstall_requires = torch==x.y\n",
		"environment.yml":   "- pip:\n- - - -\n-\n- torch=\n",
		"pixi.lock":         strings.Repeat("- name: torch\n  version: 9\n", 10_000),
		"pyproject.toml": "dependencies = 1\n[project]\ndependencies = { a = 1 }\n[tool]\npoetry = 3\nuv = []\n" +
			"pixi = \"\"\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pdm.lock"), 0o600); err != nil { // opening it would wait for ever
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "Pipfile")); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(dir, "conda-lock.yml"))
	if err == nil {
		err = large.Truncate(maxLock + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	aim, err := AimAt(&atlas.Atlas{}, dir, Words{}, func() (a, b, c string) { return })
	said := strings.Join(aim.Besides, "\n")
	for _, want := range []string{"requirements.txt was not read: larger than 1 MiB",
		"uv.lock was not read: no regular file",
		"pdm.lock was not read: no regular file", "Pipfile was not read: no regular file",
		"Pipfile.lock was not read: ",
		"conda-lock.yml was not read: larger than 32 MiB", "poetry.lock was not read: the table of torch: ",
		"in constraints.txt was not understood", "torch==x.y in setup.cfg was not understood"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if err != nil || aim.Torch == "" || len(said) > 4000 {
		t.Errorf("%v, %v: %s", aim, err, said)
	}
}

// FuzzManifests: no file of a project makes the reading fail otherwise than by a note, or aim at what is not known.
func FuzzManifests(f *testing.F) {
	f.Add("torch==2.0.1 ; sys_platform == 'darwin'\n-r x\n")
	f.Add("[project]\ndependencies = ['torch>=2']\n")
	f.Add("[[package]]\nname = \"torch\"\nversion = \"2\"\n")
	f.Add("dependencies:\n - pytorch=2.1=x\n - pip:\n  - torch\n")
	f.Add(`{"default": {"torch": {"version": "==2"}}}`)
	a := &atlas.Atlas{}
	f.Fuzz(func(t *testing.T, content string) {
		r := &folderReader{base: "/", folder: "/none", manifests: manifests, found: map[bool][]statement{}}
		for i, m := range manifests {
			m.read(&fileReader{folder: r, name: "x", kind: i}, []byte(content))
		}
		for _, list := range r.found {
			for _, s := range list {
				s.asks.of(a.Releases("torch"))
				if len(s.Text) > 400 {
					t.Errorf("%d bytes are shown", len(s.Text))
				}
			}
		}
	})
}
