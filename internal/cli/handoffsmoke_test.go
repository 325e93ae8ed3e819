package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/handoff"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// smoked runs assay in dir, and gives its status and what it said.
func smoked(t *testing.T, dir string, environ []string, words ...string) (int, string, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Assay(t), words...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ, &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// smokeProject is a project with data that lies elsewhere, and a bundle of a run of it.
func smokeProject(t *testing.T, environ []string) (dir, rows, packed string) {
	t.Helper()
	dir, rows = t.TempDir(), t.TempDir()
	script, err := os.ReadFile("../handoff/testdata/train.py")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "train.py"), script, 0o600),
		os.WriteFile(filepath.Join(rows, "0.bin"), bytes.Repeat([]byte{0, 0, 128, 63, 0, 0, 0, 191}, 64*1024), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if code, _, said := smoked(t, dir, environ, "run", "-q", "--profile", "off", "--steps", "150", "--python",
		testkit.Python(t), "--", "train.py", rows); code != 0 {
		t.Fatalf("run: %d %s", code, said)
	}
	runs, _ := filepath.Glob(filepath.Join(dir, ".assay/runs/*"))
	if code, _, said := smoked(t, dir, environ, "handoff", "pack", runs[0], "-o", "run.tar.zst", "--code",
		"now"); code != 0 {
		t.Fatalf("pack: %d %s", code, said)
	}
	return dir, rows, filepath.Join(dir, "run.tar.zst")
}

func smokeDocument(t *testing.T, out, said string) *handoff.Document {
	t.Helper()
	d := &handoff.Document{}
	if err := json.Unmarshal([]byte(out), d); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, said)
	}
	return d
}

func factorsOf(d *handoff.Document) map[string]string {
	all := map[string]string{}
	if d.Body.Comparison == nil {
		return all
	}
	for _, x := range d.Body.Comparison.Differences {
		all[x.Factor] = x.Text
	}
	return all
}

// TestSmokeReal: differences that are put between a run and the smoke of its bundle on this machine, one at a time, are
// found. How long steps take is not asserted: what else the machine does is not known.
func TestSmokeReal(t *testing.T) {
	testset.FullOnly(t)
	home := t.TempDir()
	environ := append(os.Environ(), "HOME="+home, "ASSAY_CACHE="+filepath.Join(home, "cache"), "OMP_NUM_THREADS=2")
	dir, rows, packed := smokeProject(t, environ)
	python := testkit.Python(t)
	other := filepath.Join(t.TempDir(), "other") // the same packages, and another version of one that matters
	if out, err := exec.Command(python, "-m", "venv", "--without-pip", other).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	site, _ := filepath.Glob(filepath.Join(other, "lib", "python*", "site-packages"))
	theirs, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	info := filepath.Join(site[0], "numpy-1.0.dist-info")
	if err := errors.Join(os.WriteFile(filepath.Join(site[0], "theirs.pth"), theirs, 0o600), os.Mkdir(info, 0o700),
		os.WriteFile(filepath.Join(info, "METADATA"), []byte("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n"),
			0o600)); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.MkdirAll(changed, 0o700),
		os.WriteFile(filepath.Join(changed, "0.bin"), bytes.Repeat([]byte{0, 0, 128, 63, 0, 0, 0, 63}, 64*1024),
			0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		environ []string
		words   []string
		factor  string // found; "": none that is amiss
	}{
		{name: "a twin"},
		{name: "logs of torch", environ: []string{"TORCH_LOGS=+dynamo"}, factor: "debug"},
		{name: "debug malloc", environ: []string{"PYTHONMALLOC=debug"}, factor: "debug"},
		{name: "a variable", environ: []string{"MKL_DYNAMIC=FALSE"}, factor: "threads"},
		{name: "another variable", environ: []string{"PYTORCH_NVFUSER_DISABLE=fallback"}, factor: "variable"},
		{name: "other packages", words: []string{"--python", filepath.Join(other, "bin", "python")}, factor: "package"},
		{name: "other bytes", words: []string{"--data", filepath.Base(rows) + "=" + changed}, factor: "data"},
		{name: "the wrong link", words: []string{"--expect-link", "thunderbolt", "--reach", "127.0.0.1:1"},
			factor: "link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			words := append([]string{"handoff", "smoke", "--json", "--for", "3s", "--steps", "100", "--repeat", "1",
				"--logbook", "off",
				"--python", python, "--data", filepath.Base(rows) + "=" + rows}, c.words...)
			code, out, said := smoked(t, dir, append(environ, c.environ...), append(words, packed)...)
			d := smokeDocument(t, out, said)
			found := factorsOf(d)
			var amiss []string
			for _, x := range d.Body.Comparison.Differences {
				if x.Class == handoff.Amiss && x.Factor != "load" && x.Factor != "swap" {
					amiss = append(amiss, x.Factor+": "+x.Text)
				}
			}
			if c.factor == "" && len(amiss) > 0 || c.factor != "" && (found[c.factor] == "" || code != 3) {
				t.Errorf("status %d, found %q, amiss %q", code, found, amiss)
			}
			left, _ := filepath.Glob(filepath.Join(home, "cache", "handoff", "*"))
			if len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestSmokeElsewhere: a bundle on another host, over a real sshd, is smoked there, and what came of it is kept here.
func TestSmokeElsewhere(t *testing.T) {
	testset.FullOnly(t)
	ssh := testkit.SSHD(t, "mini")
	environ := append(os.Environ(), "HOME="+t.TempDir(), "ASSAY_CACHE="+filepath.Join(t.TempDir(), "cache"),
		"ASSAY_SSH="+ssh.Words)
	dir, rows, packed := smokeProject(t, environ)
	there := filepath.Join(ssh.Hosts["mini"].Home, "run.tar.zst")
	content, err := os.ReadFile(packed)
	if err == nil {
		err = os.WriteFile(there, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"handoff", "smoke", "--json", "--for", "3s", "--steps", "100", "--repeat", "1", "--python",
		testkit.Python(t),
		"--data", filepath.Base(rows) + "=" + rows, "--expect-link", "ethernet"}
	code, out, said := smoked(t, dir, environ, append(words, "mini:"+there)...)
	d := smokeDocument(t, out, said)
	if d.Body.Host != "mini" || len(d.Body.There) != 1 || factorsOf(d)["link"] == "" || code != 3 {
		t.Errorf("status %d: %+v\n%s", code, d.Body, said)
	}
	code, out, said = smoked(t, dir, environ, "log", "query", "SELECT kind FROM records WHERE kind = 'smoke'")
	if code != 0 || !strings.Contains(out, "smoke") {
		t.Errorf("the logbook has no smoke: %d %s %s", code, out, said)
	}
	if code, _, said = smoked(t, dir, environ, "handoff", "smoke", "mini:/nowhere.tar.zst"); code == 0 ||
		!strings.Contains(said, "nowhere.tar.zst") {
		t.Errorf("a bundle that is not there: %d %s", code, said)
	}
}

// TestFleetUpAndDoctor: hosts over real sshds; one of them is down.
func TestFleetUpAndDoctor(t *testing.T) {
	testset.FullOnly(t)
	ssh := testkit.SSHD(t, "mini", "studio")
	ssh.Hosts["studio"].Stop()
	dir := t.TempDir()
	hosts := fmt.Sprintf("[fleet]\npython = %q\n[[host]]\nname = \"mini\"\n[[host]]\nname = \"studio\"\n",
		testkit.Python(t))
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "ASSAY_SSH="+ssh.Words)
	for _, c := range []struct {
		words []string
		want  map[string]string // check of mini → state
	}{
		{[]string{"fleet", "up", "--json"}, map[string]string{"ssh": handoff.Pass, "folder": handoff.Pass,
			"python": handoff.Pass}},
		{[]string{"fleet", "doctor", "--json", "--data", dir, "--data", "/nowhere"},
			map[string]string{"ssh": handoff.Pass, "assay": handoff.Pass,
				"lock": handoff.Pass, "clock": handoff.Pass, "link": handoff.Pass, "throughput": handoff.Pass,
				"data": handoff.Fail}},
	} {
		code, out, said := smoked(t, dir, environ, c.words...)
		var doc struct {
			Hosts    []*handoff.Host
			Together []handoff.Check
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%v: %s %s", err, out, said)
		}
		if code != 3 || len(doc.Hosts) != 2 || doc.Hosts[1].Look != nil ||
			doc.Hosts[1].Checks[0].State != handoff.Fail {
			t.Errorf("%q: status %d, %+v", c.words, code, doc.Hosts)
		}
		got := map[string]string{}
		for _, x := range doc.Hosts[0].Checks {
			got[x.Name] = x.State
		}
		for name, state := range c.want {
			if got[name] != state {
				t.Errorf("%q: %s is %q, not %q: %+v", c.words, name, got[name], state, doc.Hosts[0].Checks)
			}
		}
	}
}
