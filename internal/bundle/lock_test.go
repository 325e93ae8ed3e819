package bundle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/evidence"
)

// locks are one and the same environment, torch 2.8.0 and numpy 2.1.0, as each tool writes it down.
var locks = map[string]string{
	"uv.lock": `version = 1
[[package]]
name = "mine"
version = "0.1.0"
source = { virtual = "." }
[[package]]
name = "numpy"
version = "2.1.0"
source = { registry = "https://example.org/simple" }
[[package]]
name = "torch"
version = "2.8.0"
source = { registry = "https://example.org/simple" }
[[package]]
name = "torch"
version = "2.8.0+cpu"
source = { registry = "https://example.org/cpu" }
`,
	"poetry.lock":  "[[package]]\nname = \"numpy\"\nversion = \"2.1.0\"\n[[package]]\nname = \"torch\"\nversion = \"2.8.0\"\n",
	"pdm.lock":     "[metadata]\n[[package]]\nname = \"numpy\"\nversion = \"2.1.0\"\n[[package]]\nname = \"torch\"\nversion = \"2.8.0\"\n",
	"pylock.toml":  "lock-version = \"1.0\"\n[[packages]]\nname = \"numpy\"\nversion = \"2.1.0\"\n[[packages]]\nname = \"torch\"\nversion = \"2.8.0\"\n",
	"Pipfile.lock": `{"_meta": {}, "default": {"numpy": {"version": "==2.1.0"}, "torch": {"version": "==2.8.0"}}, "develop": {}}`,
	"pixi.lock": `version: 6
packages:
- conda: https://example.org/conda-forge/linux-64/numpy-2.1.0-py311h1234567_0.conda
  sha256: abc
- pypi: https://example.org/torch-2.8.0-cp311-none-macosx_11_0_arm64.whl
  name: torch
  version: 2.8.0
`,
	"conda-lock.yml": `version: 1
package:
- {name: numpy, version: 2.1.0, manager: conda, platform: linux-64}
- {name: pytorch, version: 2.8.0, manager: conda, platform: linux-64}
`,
	"environment.yml": `name: x
channels: [conda-forge]
dependencies:
- python>=3.11
- conda-forge::numpy=2.1.0=py311_0
- pip:
  - torch==2.8.0
`,
	"requirements.txt":          "# one\n-r requirements/base.txt\ntorch[opt]==2.8.0 ; python_version >= '3.9' \\\n  --hash=sha256:abc\nwandb>=1\n",
	"requirements/base.txt":     "numpy == 2.1.0\n",
	"requirements-unpinned.txt": "numpy\ntorch>=2\n",
}

func TestLocks(t *testing.T) {
	dir := files(t, t.TempDir(), locks)
	had := []pin{{"NumPy", "2.1.0"}, {"torch", "2.8.0+cu128"}, {"pip", "25"}}
	seen := map[string]bool{}
	for _, l := range findLocks(dir, ".") {
		seen[l.of] = true
		lock := l.compare(had, nil)
		want := 2
		if l.of == "requirements/base.txt" {
			want = 1
		}
		if lock.Same != want || lock.Missing != "" || len(lock.Differs) != 2-want {
			t.Errorf("%s: %+v of %v", l.of, lock, l.pins)
		}
	}
	for name := range locks {
		if !seen[name] && name != "requirements-unpinned.txt" {
			t.Errorf("%s was not found", name)
		}
	}
	if seen["requirements-unpinned.txt"] {
		t.Error("a list of names is taken for a lock")
	}
	if l := findLocks(dir, "requirements"); len(l) < len(locks)-2 {
		t.Errorf("from a folder below it: %d", len(l))
	}
}

func TestLockOutOfStep(t *testing.T) {
	l := foundLock{of: "uv.lock", kind: UV, text: []byte(locks["uv.lock"])}
	l.pins, _ = pins(UV, l.text, "")
	lock := l.compare([]pin{{"numpy", "2.0.1"}, {"torch", "2.8.0+cpu"}, {"tqdm", "4.1"}, {"own", "1"}},
		map[string]bool{"own": true})
	want := []Difference{{Package: "numpy", Run: "2.0.1", Lock: "2.1.0"}, {Package: "tqdm", Run: "4.1"}}
	if diff := cmp.Diff(want, lock.Differs); diff != "" || lock.Same != 1 || lock.InStep() {
		t.Errorf("%s %+v", diff, lock)
	}
	for _, bad := range []foundLock{{kind: UV, text: []byte("[[")}, {kind: Pixi, text: []byte("a: [")},
		{kind: Pipenv, text: []byte("{")}} {
		if _, err := pins(bad.kind, bad.text, ""); err == nil {
			t.Errorf("%s is read", bad.text)
		}
	}
}

func TestSameVersion(t *testing.T) {
	for _, c := range []struct {
		locked, had string
		same        bool
	}{{"1.0", "1.0.0", true}, {"2.8.0", "2.8.0+cu128", true}, {"2.8.0+cpu", "2.8.0+cu128", false},
		{"2.8.0+cpu", "2.8.0", true}, {"2.8.0", "2.8.1", false}, {"1.10", "1.1", false}, {"v1", "1", true}} {
		if got := sameVersion(c.locked, c.had); got != c.same {
			t.Errorf("%s, %s: %v", c.locked, c.had, got)
		}
	}
}

func TestCondaLock(t *testing.T) {
	prefix := files(t, t.TempDir(), map[string]string{
		"conda-meta/history": "",
		"conda-meta/numpy-2.1.0-py311_0.json": `{"name": "numpy", "version": "2.1.0", "md5": "0a", "subdir": "linux-64",
			"url": "https://u:p@example.org/t/tk-123/conda-forge/linux-64/numpy-2.1.0-py311_0.conda"}`,
		"conda-meta/pytorch-2.8.0-cpu_0.json": `{"name": "pytorch", "version": "2.8.0", "subdir": "linux-64",
			"url": "https://example.org/conda-forge/linux-64/pytorch-2.8.0-cpu_0.conda"}`,
		"conda-meta/bad.json": "{"})
	run := &evidence.Run{Envelope: evidence.NewEnvelope(evidence.KindRun)}
	run.Provenance.Packages = []string{"numpy==2.1.0", "torch==2.8.0", "tqdm==4.1"}
	env, texts := environment(run, Surroundings{Prefix: prefix, Origin: "conda"}, t.TempDir(), ".")
	want := `# What conda had installed, for linux-64 alone. Made by assay handoff pack; conda create --file takes it.
@EXPLICIT
https://example.org/conda-forge/linux-64/numpy-2.1.0-py311_0.conda#0a
https://example.org/conda-forge/linux-64/pytorch-2.8.0-cpu_0.conda
`
	if diff := cmp.Diff(want, string(texts[MadeCondaLock])); diff != "" {
		t.Error(diff)
	}
	if env.Made != Conda || len(env.Locks) != 2 || env.Locks[0].Same != 2 || len(env.Locks[0].Differs) != 1 {
		t.Errorf("%+v", env)
	}
}

func TestMadeLock(t *testing.T) {
	top := t.TempDir()
	records := func(name, direct string) Installed {
		folder := filepath.Join(t.TempDir(), name+"-1.0.dist-info")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if direct != "" {
			files(t, folder, map[string]string{"direct_url.json": direct})
		}
		return Installed{Name: name, Version: "1.0", Installer: "uv", Records: folder}
	}
	files(t, top, map[string]string{"lib/pyproject.toml": ""})
	around := Surroundings{Origin: "uv venv", Prefix: t.TempDir(), Packages: []Installed{
		records("plain", ""),
		records("ours", `{"url": "file://`+top+`/lib", "dir_info": {"editable": true}}`),
		records("far", `{"url": "file:///home/somebody/far", "dir_info": {"editable": true}}`),
		records("wheel", `{"url": "file:///tmp/wheel-1.0-py3-none-any.whl", "archive_info": {}}`),
		records("vcs", `{"url": "https://user:s3cret@example.org/vcs", "subdirectory": "py", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}`),
		records("moved", `{"url": "file://`+top+`/lib", "dir_info": {}}`)}}
	run := &evidence.Run{Envelope: evidence.NewEnvelope(evidence.KindRun)}
	run.Target = evidence.Target{Framework: "torch", Release: "2.15.0+cu132", System: "linux/amd64"}
	run.Provenance.Packages = []string{"torch==2.15.0", "triton==3.9.0", "nvidia-nccl-cu13==2.3", "plain==1.0",
		"ours==1.0", "far==1.0", "wheel==1.0", "vcs==1.0", "moved==0.9"}
	env, texts := environment(run, around, top, ".")
	want := `# What the run had installed. Made by assay handoff pack; install it with --no-deps.
# far 1.0: it was installed from a folder of the machine that packed, which is not in the code
moved==0.9
nvidia-nccl-cu13==2.3 ; sys_platform == "linux"
# ours 1.0: install it from the code, lib
plain==1.0
torch==2.15.0+cu132 ; sys_platform == "linux"
torch==2.15.0 ; sys_platform != "linux"
triton==3.9.0 ; sys_platform == "linux"
vcs @ git+https://example.org/vcs@abc123#subdirectory=py
# wheel 1.0: it was installed from a file of the machine that packed
`
	if diff := cmp.Diff(want, string(texts[MadeLock])); diff != "" {
		t.Error(diff)
	}
	if env.Install != MadeLock || env.Made != UV || len(env.Elsewhere) != 4 || len(env.Platform) != 3 {
		t.Errorf("%+v", env)
	}
	if !slices.Contains(env.Elsewhere, Elsewhere{Package: "ours", Version: "1.0", Code: "lib", Editable: true}) {
		t.Errorf("%+v", env.Elsewhere)
	}

	// With a lock that gives the same, that one; with one that does not, what the run had.
	run.Provenance.Packages = []string{"numpy==2.1.0", "torch==2.8.0"}
	run.Target.Release = "2.8.0"
	files(t, top, map[string]string{"requirements.txt": locks["poetry.lock"], "uv.lock": locks["uv.lock"]})
	if env, _ = environment(run, around, top, "."); env.Install != "lock/uv.lock" {
		t.Errorf("%+v", env)
	}
	alone := files(t, t.TempDir(), map[string]string{"poetry.lock": locks["poetry.lock"]})
	if env, _ = environment(run, around, alone, "."); env.Install != MadeLock ||
		!strings.Contains(env.Why, "poetry.lock gives what the run had") {
		t.Errorf("%+v", env)
	}
	run.Provenance.Packages = []string{"numpy==2.1.1", "torch==2.8.0"}
	if env, _ = environment(run, around, top, "."); env.Install != MadeLock ||
		!strings.Contains(env.Why, "uv.lock is not what the run had (packages that differ: 1)") {
		t.Errorf("%+v", env)
	}
}
