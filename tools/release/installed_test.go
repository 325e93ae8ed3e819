package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestRelease makes a whole release twice and installs it as people do.
func TestRelease(t *testing.T) {
	testset.FullOnly(t) // it builds for three platforms
	first := releaseOf(t, filepath.Join(t.TempDir(), "one"))
	t.Run("again", func(t *testing.T) { sameAgain(t, first) })
	t.Run("sums", func(t *testing.T) {
		if _, err := exec.LookPath("sha256sum"); err != nil {
			t.Skip("sha256sum is not here")
		}
		succeeds(t, first, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	})
	t.Run("bill", func(t *testing.T) { isBill(t, first) })
	t.Run("sources", func(t *testing.T) { buildsFromSources(t, first) })
	t.Run("elsewhere", func(t *testing.T) { fitsElsewhere(t, first) })
	native := platform{runtime.GOOS, runtime.GOARCH}
	if !slices.Contains(platforms, native) {
		t.Skipf("no binary is made for %s", native)
	}
	t.Run("alone", func(t *testing.T) { runsAlone(t, first, native) })
	t.Run("pip", func(t *testing.T) { installsByPip(t, first) })
	t.Run("uv and pipx", func(t *testing.T) { installsByOthers(t, first) })
}

const releasedAs = "v9.9.9-rc.1"

// releaseOf makes a release of the tree as it stands, as a repository of its own with one commit and a tag.
func releaseOf(t *testing.T, folder string) string {
	t.Helper()
	root := filepath.Join(folder, "tree")
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), string(data))
	}
	repository(t, root, releasedAs)
	out := filepath.Join(folder, "dist")
	o := options{root: root, out: out, targets: platforms, said: os.Stderr}
	if err := release(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameAgain: the same commit gives the same bytes, in another folder, with another time zone, mask and language, and
// with settings of Go's that would change a build.
func sameAgain(t *testing.T, first string) {
	t.Setenv("TZ", "Pacific/Auckland")
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-buildvcs=true")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("TMPDIR", t.TempDir())
	defer syscall.Umask(syscall.Umask(0o077))
	second := releaseOf(t, filepath.Join(t.TempDir(), "another", "place"))
	if a, b := sumsOf(t, first), sumsOf(t, second); a != b {
		t.Errorf("not the same:\n%s\n%s", a, b)
	}
}

func sumsOf(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%x %s\n", sha256.Sum256(data), e.Name())
	}
	return b.String()
}

// isBill: each module that `go version -m` names stands in the SBOM.
func isBill(t *testing.T, dist string) {
	data, err := os.ReadFile(filepath.Join(dist, "assay_9.9.9rc1.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		said := succeeds(t, dist, nil, "go", "version", "-m", "assay_9.9.9rc1_"+p.os+"_"+p.arch)
		seen := 0
		for line := range strings.Lines(said) {
			fields := strings.Fields(line)
			if len(fields) != 4 || fields[0] != "dep" {
				continue
			}
			seen++
			if !slices.ContainsFunc(got.Components, func(c component) bool {
				return c.Name == fields[1] && c.Version == fields[2] &&
					slices.Contains(c.Properties, property{"assay:go.sum", fields[3]}) &&
					slices.Contains(c.Properties, property{"assay:linked", p.String()})
			}) {
				t.Errorf("%s is linked in for %s, and no component", line, p)
			}
		}
		if seen == 0 {
			t.Errorf("go version -m says nothing of %s", p)
		}
	}
}

// buildsFromSources: the formula names the archive's very bytes, and the pages that it installs come from them, where
// no git is.
func buildsFromSources(t *testing.T, dist string) {
	archive := filepath.Join(dist, "assay_9.9.9rc1_source.tar.gz")
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	formula, err := os.ReadFile(filepath.Join(dist, "assay.rb"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256 \"%x\"", sha256.Sum256(data)); !strings.Contains(string(formula), want) {
		t.Errorf("not in the formula: %s\n%s", want, formula)
	}
	if _, err := exec.LookPath("ruby"); err == nil {
		succeeds(t, dist, nil, "ruby", "-c", "assay.rb")
	}
	folder := t.TempDir()
	succeeds(t, folder, nil, "tar", "--extract", "--strip-components=1", "--file", archive)
	succeeds(t, folder, nil, "go", "run", "./tools/release", "--pages", "pages")
	named := regexp.MustCompile(`install (?:Dir\[)?"(pages/[^"]+)"`)
	installed := named.FindAllStringSubmatch(string(formula), -1)
	for _, m := range installed {
		if found, err := filepath.Glob(filepath.Join(folder, m[1])); err != nil || len(found) == 0 {
			t.Errorf("the formula installs %s: there is none", m[1])
		}
	}
	if len(installed) != 4 {
		t.Errorf("the formula installs %v", installed)
	}
}

// fitsElsewhere: pip finds a wheel for each kind of machine that there is one for, and none for others.
func fitsElsewhere(t *testing.T, dist string) {
	for name, found := range map[string]bool{
		"manylinux_2_17_x86_64": true, "manylinux2014_aarch64": true, "musllinux_1_1_x86_64": true,
		"musllinux_1_1_aarch64": true, "macosx_12_0_arm64": true,
		"macosx_11_0_arm64": false, "macosx_12_0_x86_64": false, "win_amd64": false, "manylinux_2_17_ppc64le": false,
	} {
		cmd := exec.Command("python3", "-m", "pip", "download", "--quiet", "--no-index", "--find-links", dist, "--pre",
			"--no-deps", "--only-binary", ":all:", "--platform", name, "--dest", t.TempDir(), distribution)
		if out, err := cmd.CombinedOutput(); (err == nil) != found {
			t.Errorf("%s: %v, found %v wanted: %s", name, err, found, out)
		}
	}
}

// runsAlone: the binary of the archive runs where there is nothing but itself: no shell, no C library, no /proc, no
// home.
func runsAlone(t *testing.T, dist string, p platform) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	folder := t.TempDir()
	name := "assay_9.9.9rc1_" + p.os + "_" + p.arch
	succeeds(t, folder, nil, "tar", "--extract", "--strip-components=1", "--file", filepath.Join(dist, name+".tar.gz"),
		name+"/assay")
	write(t, filepath.Join(folder, "train.py"), float64Script)
	alone := func(args ...string) (string, error) {
		cmd := exec.Command("/assay", args...)
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	answers(t, alone)
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("it left something behind: %v, %v", left, err)
	}
}

const float64Script = "import torch\nx = torch.zeros(3, dtype=torch.float64)\nx.to('mps')\n"

// answers asks what can be answered without Python: the version, an operator, what is wrong with train.py.
func answers(t *testing.T, assay func(args ...string) (string, error)) {
	t.Helper()
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"version"}, "assay " + releasedAs + " ", 0},
		{[]string{"ops", "softmax"}, "aten::softmax.int", 0},
		{[]string{"check", "train.py"}, "float64-on-mps", 3},
		{[]string{"claims", "5"}, "claim", 0},
	} {
		out, err := assay(c.args...)
		code := 0
		if err != nil {
			exit, ok := err.(*exec.ExitError)
			if !ok {
				t.Fatalf("assay %v: %v", c.args, err)
			}
			code = exit.ExitCode()
		}
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("assay %v ended with %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

// succeeds runs a program and returns what it wrote.
func succeeds(t *testing.T, dir string, environ []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, testkit.Tail(string(out)))
	}
	return string(out)
}

// wheelHere is the wheel for this machine, by its file's name.
func wheelHere(t *testing.T, dist string) string {
	t.Helper()
	machine := map[string]string{"linux/amd64": "linux_2_17_x86_64", "linux/arm64": "linux_2_17_aarch64",
		"darwin/arm64": "macosx"}[runtime.GOOS+"/"+runtime.GOARCH]
	found, err := filepath.Glob(filepath.Join(dist, "*"+machine+"*.whl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("wheels for %s: %v, %v", machine, found, err)
	}
	return found[0]
}

// installsByPip: into a clean environment, without an index; what it has then; and nothing is left when it goes.
func installsByPip(t *testing.T, dist string) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), float64Script)
	succeeds(t, dir, nil, "python3", "-m", "venv", "env")
	bin := filepath.Join(dir, "env", "bin")
	python := filepath.Join(bin, "python")
	before := filesIn(t, filepath.Join(dir, "env"))
	succeeds(t, dir, nil, python, "-m", "pip", "install", "--quiet", "--no-index", wheelHere(t, dist))

	answers(t, func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	})
	data, err := os.ReadFile(filepath.Join(bin, program))
	if err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) && runtime.GOOS == "linux" {
		t.Errorf("%v: what lies among the scripts is not the binary itself", err)
	}
	said := succeeds(t, dir, nil, python, "-c",
		"import assay_mps as a; print(a.__version__, a.binary())")
	if want := "9.9.9rc1 " + filepath.Join(bin, program); strings.TrimSpace(said) != want {
		t.Errorf("import assay_mps: %s, want %s", said, want)
	}
	// pytest itself comes from the environment of the tests; the plugin is found by its entry point.
	var site string
	if err := json.Unmarshal([]byte(succeeds(t, dir, nil, testkit.Python(t), "-c",
		"import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))")), &site); err != nil {
		t.Fatal(err)
	}
	said = succeeds(t, dir, []string{"PYTHONPATH=" + site}, python, "-m", "pytest", "--help")
	if !strings.Contains(said, "--mps-manifest") {
		t.Errorf("pytest does not see the plugin:\n%s", testkit.Tail(said))
	}
	succeeds(t, dir, nil, python, "-m", "pip", "check")
	succeeds(t, dir, nil, python, "-m", "pip", "uninstall", "--quiet", "--yes", distribution)
	if after := filesIn(t, filepath.Join(dir, "env")); after != before {
		t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
	}
}

// filesIn lists a folder, without what Python compiles as it goes.
func filesIn(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == "__pycache__" {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return err
		}
		b.WriteString(path + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The installers that are tried beside pip, at these versions where they are not here already.
const uvVersion, pipxVersion = "0.13.9", "1.18.4"

// installsByOthers: uvx and pipx run the wheel without installing it, pipx installs it, and no index is asked.
func installsByOthers(t *testing.T, dist string) {
	tools := t.TempDir()
	succeeds(t, tools, nil, "python3", "-m", "venv", "env")
	bin := filepath.Join(tools, "env", "bin")
	if out, err := exec.Command(filepath.Join(bin, "python"), "-m", "pip", "install", "--quiet", "uv=="+uvVersion,
		"pipx=="+pipxVersion).CombinedOutput(); err != nil {
		t.Skipf("uv and pipx cannot be had here: %v: %s", err, testkit.Tail(string(out)))
	}
	dir := t.TempDir()
	python := filepath.Join(bin, "python")
	wheel, want := wheelHere(t, dist), "assay "+releasedAs+" "
	alone := []string{"UV_CACHE_DIR=" + filepath.Join(dir, "uv"), "UV_OFFLINE=1", "UV_NO_CONFIG=1", "PIP_NO_INDEX=1",
		"PIPX_HOME=" + filepath.Join(dir, "pipx"), "PIPX_BIN_DIR=" + filepath.Join(dir, "bin"),
		"PIPX_MAN_DIR=" + filepath.Join(dir, "man"), "PIPX_DEFAULT_PYTHON=" + python}
	for _, args := range [][]string{
		{filepath.Join(bin, "uvx"), "--python", python, "--from", wheel, "assay", "version"},
		{filepath.Join(bin, "pipx"), "run", "--spec", wheel, "assay", "version"},
	} {
		if said := succeeds(t, dir, alone, args...); !strings.Contains(said, want) {
			t.Errorf("%v: %s", args, said)
		}
	}
	pipx := filepath.Join(bin, "pipx")
	succeeds(t, dir, alone, pipx, "install", wheel)
	if said := succeeds(t, dir, alone, filepath.Join(dir, "bin", program), "version"); !strings.Contains(said, want) {
		t.Errorf("after pipx install: %s", said)
	}
	succeeds(t, dir, alone, pipx, "uninstall", distribution)
	if _, err := os.Lstat(filepath.Join(dir, "bin", program)); err == nil {
		t.Error("pipx uninstall left the program")
	}
	for system, found := range map[string]bool{"x86_64-unknown-linux-gnu": true, "x86_64-unknown-linux-musl": true,
		"aarch64-unknown-linux-musl": true, "aarch64-apple-darwin": true, "x86_64-pc-windows-msvc": false} {
		args := []string{"pip", "install", "--quiet", "--no-index", "--find-links", dist, "--prerelease", "allow",
			"--python-platform", system, "--target", filepath.Join(dir, system), distribution}
		cmd := exec.Command(filepath.Join(bin, "uv"), args...)
		cmd.Env = append(os.Environ(), alone...)
		if out, err := cmd.CombinedOutput(); (err == nil) != found {
			t.Errorf("uv for %s: %v, found %v wanted: %s", system, err, found, out)
		}
	}
}
