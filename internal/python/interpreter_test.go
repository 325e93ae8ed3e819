package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fault"
)

// tree makes files from path: content. A content of "-> x" makes a link; "macho" makes an arm64 program that nobody
// can run, so that only what the files say is known.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			if err == nil {
				err = os.Symlink(to, path)
			}
		} else {
			if content == "macho" {
				content = string(head(t, machArm64))
			}
			if err == nil {
				err = os.WriteFile(path, []byte(content), 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestInspectFromFiles(t *testing.T) {
	for _, c := range []struct {
		name, path, origin, base, version, source, prefix string
		files                                             map[string]string
	}{
		{"Homebrew", "opt/homebrew/bin/python3.11", "Homebrew", "Homebrew", "3.11.7", "folder name",
			"opt/homebrew/Cellar/python@3.11/3.11.7_1/Frameworks/Python.framework/Versions/3.11", map[string]string{
				"opt/homebrew/Cellar/python@3.11/3.11.7_1/Frameworks/Python.framework/Versions/3.11/bin/python3.11": "macho",
				"opt/homebrew/bin/python3.11": "-> ../Cellar/python@3.11/3.11.7_1/Frameworks/Python.framework/Versions/3.11/bin/python3.11",
			}},
		{"conda", "miniforge3/bin/python", "conda", "conda", "3.12.4", "conda-meta", "miniforge3", map[string]string{
			"miniforge3/bin/python3.12": "macho", "miniforge3/bin/python": "-> python3.12",
			"miniforge3/conda-meta/python-3.12.4-h99e199e_1.json": "{}",
			"miniforge3/conda-meta/python_abi-3.12-5_cp312.json":  "{}",
		}},
		{"uv", ".local/share/uv/python/cpython-3.13.1-macos-aarch64-none/bin/python3", "uv", "uv", "3.13.1",
			"folder name", ".local/share/uv/python/cpython-3.13.1-macos-aarch64-none", map[string]string{
				".local/share/uv/python/cpython-3.13.1-macos-aarch64-none/bin/python3.13": "macho",
				".local/share/uv/python/cpython-3.13.1-macos-aarch64-none/bin/python3":    "-> python3.13",
			}},
		{"venv of uv", "p/.venv/bin/python", "uv venv", "uv", "3.13.1", "pyvenv.cfg", "p/.venv", map[string]string{
			"uv/python/cpython-3.13.1-macos-aarch64-none/bin/python3.13": "macho",
			"p/.venv/bin/python": "-> ../../../uv/python/cpython-3.13.1-macos-aarch64-none/bin/python3.13",
			"p/.venv/pyvenv.cfg": "home = /u/bin\nimplementation = CPython\nuv = 0.9.2\nversion_info = 3.13.1\n",
		}},
		{"venv of pyenv", "p/venv/bin/python", "venv", "pyenv", "3.10.13", "pyvenv.cfg", "p/venv", map[string]string{
			".pyenv/versions/3.10.13/bin/python3.10": "macho", ".pyenv/shims/python3": "#!/bin/sh\n",
			"p/venv/bin/python":  "-> python3",
			"p/venv/bin/python3": "-> ../../../.pyenv/versions/3.10.13/bin/python3.10",
			"p/venv/pyvenv.cfg":  "home = /u/bin\nversion = 3.10.13\n",
		}},
		{"virtualenv", "v/bin/python", "virtualenv", "other", "3.9.18", "pyvenv.cfg", "v", map[string]string{
			"opt/py/bin/python3.9": "macho", "v/bin/python": "-> ../../opt/py/bin/python3.9",
			"v/pyvenv.cfg": "home = /opt/py\nvirtualenv = 20.29.1\nversion_info = 3.9.18.final.0\n",
		}},
		{"built by hand", "opt/py/bin/python3", "other", "other", "3.12.0", "patchlevel.h", "opt/py", map[string]string{
			"opt/py/bin/python3":                     "macho",
			"opt/py/include/python3.12/patchlevel.h": "#define PY_MAJOR_VERSION\t3\n#define PY_VERSION      \t\"3.12.0+\"\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			tree(t, root, c.files)
			in, err := Inspect(t.Context(), os.Environ(), root, filepath.Join(root, c.path))
			if err != nil {
				t.Fatal(err)
			}
			if in.Origin != c.origin || in.BaseOrigin != c.base || in.Version != c.version ||
				in.VersionSource != c.source || in.Prefix != filepath.Join(root, c.prefix) {
				t.Errorf("%+v", in)
			}
			if in.Format != "Mach-O" || len(in.Arch) != 1 || in.Arch[0] != "arm64" || in.NotAsked == "" {
				t.Errorf("header: %+v", in)
			}
		})
	}
}

func TestInspectRefuses(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"python": "print('hello')\n", "empty/python": "", "loop": "-> loop", "bin/script": "#!/bin/sh\nexit 3\n",
		"ruby":       "macho",
		"bin/python": "#!" + root + "/bin/python2\n", "bin/python2": "#!/bin/sh\n",
	})
	for _, name := range []string{"python", "empty/python", "loop", "nothing", "empty", "bin/script", "ruby",
		"bin/python"} {
		if in, err := Inspect(t.Context(), os.Environ(), root, filepath.Join(root, name)); err == nil {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// realPython is the Python that this machine has.
func realPython(t *testing.T) Interpreter {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on PATH")
	}
	in, err := Inspect(t.Context(), os.Environ(), t.TempDir(), path)
	if err != nil || in.NotAsked != "" {
		t.Skip(path, err, in.NotAsked)
	}
	return in
}

func TestInspectAsks(t *testing.T) {
	in := realPython(t)
	if in.Version == "" || in.VersionSource != "the interpreter" || in.Machine == "" || in.Stdlib == "" ||
		len(in.Arch) == 0 {
		t.Errorf("%+v", in)
	}
	if _, err := os.Stat(filepath.Join(in.Stdlib, "json")); err != nil {
		t.Error(err)
	}
	// A script with `#!` is followed once, and a virtual environment is known by its own path.
	root := t.TempDir()
	tree(t, root, map[string]string{"bin/tool": "#!" + in.Path + "\nprint()\n"})
	through, err := Inspect(t.Context(), os.Environ(), root, filepath.Join(root, "bin/tool"))
	if err != nil || through.Real != in.Real || through.Path != in.Path {
		t.Errorf("%+v, %v", through, err)
	}
	// A shim in another language says itself where it leads.
	tree(t, root, map[string]string{"shims/python3": "#!/bin/sh\nexec '" + in.Path + "' \"$@\"\n"})
	through, err = Inspect(t.Context(), os.Environ(), root, filepath.Join(root, "shims/python3"))
	if err != nil || through.Real != in.Real {
		t.Errorf("%+v, %v", through, err)
	}
}

func TestFind(t *testing.T) {
	in := realPython(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := "home = " + filepath.Dir(in.Real) + "\nversion = " + in.Version + "\n"
	tree(t, root, map[string]string{
		"active/bin/python": "-> " + in.Real, "active/pyvenv.cfg": cfg,
		"repo/.git/HEAD": "ref: refs/heads/main\n", "repo/.venv/bin/python": "-> " + in.Real,
		"repo/.venv/pyvenv.cfg": cfg, "repo/src/a.py": "",
		"dead/.git/HEAD": "", "dead/.venv/bin/python": "-> /no/such/python", "dead/.venv/pyvenv.cfg": cfg,
		"outer/.venv/bin/python": "-> " + in.Real, "outer/.venv/pyvenv.cfg": cfg, "outer/inner/.git/HEAD": "",
		"path/python3": "-> " + in.Real, "empty/x": "",
	})
	at := func(p string) string { return filepath.Join(root, p) }
	path := "PATH=" + at("path")
	for _, c := range []struct {
		name, dir, explicit string
		environ             []string
		want, chosen        string
	}{
		{"active environment", "repo/src", "", []string{path, "VIRTUAL_ENV=" + at("active")}, "active/bin/python",
			"$VIRTUAL_ENV"},
		{"conda", "repo/src", "", []string{path, "CONDA_PREFIX=" + at("active")}, "active/bin/python", "$CONDA_PREFIX"},
		{"of the repository", "repo/src", "", []string{path}, "repo/.venv/bin/python", ".venv in " + at("repo")},
		{"not past the repository", "outer/inner", "", []string{path}, "path/python3", "python3 on PATH"},
		{"active environment that is gone", "repo", "", []string{path, "VIRTUAL_ENV=" + at("gone")},
			"repo/.venv/bin/python", ".venv in " + at("repo")},
		{"environment whose base is gone", "dead", "", []string{path}, "path/python3", "python3 on PATH"},
		{"path", "empty", "../path/python3", []string{path}, "path/python3", "--python"},
		{"name", "empty", "python3", []string{path}, "path/python3", "--python"},
		{"folder", "empty", at("active"), []string{path}, "active/bin/python", "--python"},
	} {
		got, err := Find(t.Context(), c.environ, at(c.dir), c.explicit)
		if err != nil || got.Path != at(c.want) || got.Chosen != c.chosen {
			t.Errorf("%s: %s (%s), %v", c.name, got.Path, got.Chosen, err)
		}
		if gone := strings.HasSuffix(c.name, "gone"); gone != (len(got.Passed) > 0) {
			t.Errorf("%s: passed %q", c.name, got.Passed)
		}
		if got.Origin == "venv" && got.Prefix == got.BasePrefix {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for _, explicit := range []string{"python9", "./no/python", at("empty"), at("repo/src/a.py"), ""} {
		if got, err := Find(t.Context(), nil, at("empty"), explicit); err == nil || fault.HintOf(err) == "" {
			t.Errorf("%q: %+v, %v", explicit, got, err)
		}
	}
}

// TestInstalledTorch: the torch of the Python that Find would choose, by files alone: none of these can be run.
func TestInstalledTorch(t *testing.T) {
	in := realPython(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(root, "base/bin/python3.11")
	const cfg = "home = /nowhere\nversion = 3.11.7\n"
	tree(t, root, map[string]string{
		"a/.venv/bin/python": "-> " + base, "a/.venv/pyvenv.cfg": cfg, "a/.git/HEAD": "", "a/src/x.py": "",
		"a/.venv/lib/python3.11/site-packages/torch/version.py": "__version__ = '2.8.0+cpu'\n",
		"b/.venv/bin/python": "-> " + base, "b/.venv/pyvenv.cfg": cfg, "b/.git/HEAD": "",
		"c/.venv/bin/python": "-> /no/such/python", "c/.venv/pyvenv.cfg": cfg, "c/.git/HEAD": "",
		"d/.venv/bin/python": "-> " + base, "d/.venv/pyvenv.cfg": cfg, "d/.git/HEAD": "",
		"d/.venv/lib/python3.11/site-packages/torch/version.py": "raise SystemExit\n",
		"shims/python3": "#!/bin/sh\ntouch " + root + "/ran\n", "e/.git/HEAD": "",
	})
	head, err := os.ReadFile(in.Real)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(base), 0o755)
	}
	if err == nil { // a header, and nothing that runs
		err = os.WriteFile(base, head[:4096], 0o755)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(root, "shims/python3"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(root, p) }
	for _, c := range []struct {
		dir, variable        string
		torch, python, where string
	}{
		{"a/src", "", "2.8.0+cpu", "3.11.7", ".venv in " + at("a")},
		{"b", "", "", "3.11.7", ".venv in " + at("b")},
		{"b", "VIRTUAL_ENV=" + at("a/.venv"), "2.8.0+cpu", "3.11.7", "$VIRTUAL_ENV"},
		{"c", "", "", "", ""},
		{"d", "", "", "3.11.7", ".venv in " + at("d")},
		{"e", "PATH=" + at("shims"), "", "", ""},
	} {
		torch, python, where := InstalledTorch([]string{c.variable}, at(c.dir))
		if torch != c.torch || python != c.python || where != c.where {
			t.Errorf("%s, %s: %q, %q, %q", c.dir, c.variable, torch, python, where)
		}
	}
	if exists(at("ran")) {
		t.Error("a shim was run")
	}
}

func TestCompareVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"3.9", "3.10", -1}, {"3.11", "3.11.0", 0}, {"2.15.0", "2.9.1", 1}, {"15.3.1", "15", 1},
		{"2.15.0a0", "2.15", 0}} {
		if got := compareVersions(c.a, c.b); got != c.want {
			t.Errorf("%s against %s: %d", c.a, c.b, got)
		}
	}
}
