package python

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/internal/fault"
	"assay/internal/testset"
	"assay/internal/text"
)

func TestMain(m *testing.M) { os.Exit(testset.Run(m)) }

// base is an interpreter that can make environments, or the test is skipped.
func base(t *testing.T) Interpreter {
	t.Helper()
	in, err := chooseBase(t.Context(), os.Environ())
	if err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("makes virtual environments")
	}
	if out, err := exec.CommandContext(t.Context(), in.Path, "-I", "-c",
		"import venv, ensurepip").CombinedOutput(); err != nil {
		t.Skipf("%s cannot make environments: %s", in.Path, out)
	}
	return in
}

// wheel writes a package of pure Python, so that an installation needs no network.
func wheel(t *testing.T, name string) string { return wheelOf(t, name, "1.0", "py3-none-any") }

func wheelOf(t *testing.T, name, version, tag string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+"-"+version+"-"+tag+".whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	info := name + "-" + version + ".dist-info/"
	for _, file := range [][2]string{
		{name + ".py", "answer = 42\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: assay\nRoot-Is-Purelib: true\nTag: " + tag + "\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(file[0])
		if err == nil {
			_, err = io.WriteString(w, file[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyPip hides uv, and keeps pip from the network.
func onlyPip(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", "")
}

func TestEnsure(t *testing.T) {
	testset.FullOnly(t)
	in := base(t)
	onlyPip(t)
	cache := t.TempDir()
	low := Spec{Name: "low", Requirements: []string{wheel(t, "assaylow")}}
	high := Spec{Name: "high", Requirements: []string{wheel(t, "assayhigh")}, On: &low}

	var log bytes.Buffer
	python, err := ensure(t.Context(), cache, in, low, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if out, err := exec.Command(python, "-c", "import assaylow; print(assaylow.answer)").CombinedOutput(); err != nil ||
		string(out) != "42\n" {
		t.Fatalf("%v: %s", err, out)
	}
	log.Reset()
	if again, err := ensure(t.Context(), cache, in, low, &log); err != nil || again != python || log.Len() > 0 {
		t.Fatalf("second time: %s, %v, log %q", again, err, log.String())
	}
	// Whatever python3 names today, the environment that is there is taken.
	if dir := existingEnvironment(cache, high); dir != filepath.Dir(filepath.Dir(python)) {
		t.Errorf("existing environment: %q", dir)
	}
	if dir := existingEnvironment(cache, Spec{Name: "low", Requirements: []string{"other==1"}}); dir != "" {
		t.Errorf("an environment of other pins was taken: %q", dir)
	}
	// Processes that come together make it once, in the same folder.
	var wait sync.WaitGroup
	logs := make([]bytes.Buffer, 3)
	for i := range logs {
		wait.Go(func() {
			p, err := ensure(t.Context(), cache, in, high, &logs[i])
			if err != nil || p != python {
				t.Errorf("on top: %s, %v", p, err)
			}
		})
	}
	wait.Wait()
	made := 0
	for i := range logs {
		made += strings.Count(logs[i].String(), "installing 1 packages for high")
		if strings.Contains(logs[i].String(), "making a virtual environment") {
			t.Error("the environment below was made again")
		}
	}
	if made != 1 {
		t.Errorf("installed %d times", made)
	}
	if out, err := exec.Command(python, "-c", "import assaylow, assayhigh").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// What a killed run leaves has no marker: it is made again.
	dir := filepath.Dir(filepath.Dir(python))
	if err := os.Remove(marker(dir, low)); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "left-over")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ensure(t.Context(), cache, in, low, io.Discard); err != nil {
		t.Fatal(err)
	}
	if exists(left) {
		t.Error("the incomplete environment was kept")
	}
}

func TestEnsureFails(t *testing.T) {
	in := base(t)
	onlyPip(t)
	cache := t.TempDir()
	_, err := ensure(t.Context(), cache, in, Spec{Name: "no", Requirements: []string{"assay-no-such-package==1"}},
		io.Discard)
	if err == nil || !strings.Contains(err.Error(), "assay-no-such-package") || fault.HintOf(err) == "" {
		t.Errorf("error %v, hint %q", err, fault.HintOf(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = ensure(ctx, cache, in, Spec{Name: "cancelled"}, writer(func([]byte) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	folders, _ := filepath.Glob(filepath.Join(cache, "python", "*"))
	for _, f := range folders {
		if !strings.HasSuffix(f, ".lock") {
			t.Errorf("left behind: %s", f)
		}
	}
}

// writer calls a function at every write.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestExplain(t *testing.T) {
	for _, c := range []struct{ said, hint string }{
		{"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"},
		{"WARNING: Retrying … NewConnectionError('…: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')\nERROR: No matching distribution found for torch", "not reached"},
		{"ERROR: Could not find a version that satisfies the requirement torch==2.15.0 (from versions: none)\nERROR: No matching distribution found for torch==2.15.0", "or it was not reached"},
		{"ERROR: Could not find a version that satisfies the requirement torch==2.15.0 (from versions: 2.2.0, 2.2.1, 2.2.2)\nERROR: No matching distribution found for torch==2.15.0", "no such package for this system"},
	} {
		out := &text.Tail{Limit: 8 << 10}
		io.WriteString(out, c.said)
		err := explain(t.Context(), "install", out, errors.New("exit status 1"))
		if !strings.Contains(fault.HintOf(err), c.hint) {
			t.Errorf("%s: hint %q", c.said, fault.HintOf(err))
		}
	}
}

// Debian's Python without python3-venv, and one that fails in a way of its own.
func TestEnsureWithoutVenv(t *testing.T) {
	onlyPip(t)
	root := t.TempDir()
	tree(t, root, map[string]string{
		"debian": "#!/bin/sh\nmkdir -p \"$4\"\necho 'The virtual environment was not created successfully because ensurepip is not available.'\nexit 1\n",
		"broken": "#!/bin/sh\necho 'Error: libpython3.11.so: cannot open shared object file' >&2\nexit 127\n",
	})
	for name, want := range map[string]string{"debian": "apt install python3.11-venv", "broken": ""} {
		_, err := ensure(t.Context(), root, Interpreter{Path: filepath.Join(root, name), Version: "3.11.2"},
			Spec{Name: "x"}, io.Discard)
		if err == nil || !strings.Contains(fault.HintOf(err), want) || want == "" &&
			!strings.Contains(err.Error(), "libpython3.11.so") {
			t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "python", "*")); len(left) != 1 ||
		!strings.HasSuffix(left[0], ".lock") {
		t.Errorf("left behind: %v", left)
	}
}

func TestSpecs(t *testing.T) {
	demo, test := Demo(), Test()
	for _, s := range []Spec{demo, test} {
		for _, r := range s.Requirements {
			name, rest, ok := strings.Cut(r, "==")
			if !ok || rest == "" || strings.HasPrefix(name, "nvidia") || strings.HasPrefix(name, "cuda") {
				t.Errorf("%s: %q is not a pin, or NVIDIA's", s.Name, r)
			}
		}
	}
	if test.On == nil || test.On.Name != "demo" || len(demo.Requirements) < 10 {
		t.Errorf("test is not on top of demo: %+v", test)
	}
}

func TestCacheDir(t *testing.T) {
	home := t.TempDir()
	if dir, err := CacheDir([]string{"HOME=" + home, "ASSAY_CACHE=/big/assay"}); err != nil || dir != "/big/assay" {
		t.Error(dir, err)
	}
	if dir, err := CacheDir([]string{"HOME=" + home}); err != nil || !strings.HasPrefix(dir, home+"/") ||
		filepath.Base(dir) != "assay" {
		t.Error(dir, err)
	}
	if _, err := CacheDir([]string{"HOME=" + home + "/gone"}); fault.HintOf(err) == "" {
		t.Error("a home that is not there, and no hint")
	}
	// Without $HOME it is the home folder that the user database names, where there is one.
	if dir, err := CacheDir(nil); (err == nil) != (dir != "") || err != nil && fault.HintOf(err) == "" {
		t.Errorf("%q, %v", dir, err)
	}
}
