package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// project is a working copy with one commit, and the options that pack a run of it.
func project(t *testing.T, all map[string]string) (string, Options) {
	t.Helper()
	dir := files(t, t.TempDir(), all)
	inGit(t, dir, "init", "-q")
	inGit(t, dir, "add", "-A")
	inGit(t, dir, "commit", "-qm", "one")
	return dir, options(t, dir)
}

func options(t *testing.T, dir string) Options {
	t.Helper()
	out, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	run := &evidence.Run{Envelope: evidence.NewEnvelope(evidence.KindRun)}
	run.ID, run.Started = "20261123-100000-train-a1b2c3", time.Now()
	run.Subject = evidence.Subject{Kind: "script", Command: []string{"python", "train.py"}, Dir: dir}
	run.Target = evidence.Target{Framework: "torch", Release: "2.15.0+cu132", Python: "3.11.7", System: "linux/amd64"}
	run.Provenance.Commit, run.Provenance.Dirty = strings.TrimSpace(string(out)), "clean"
	run.Provenance.Packages = []string{"numpy==2.4.6", "torch==2.15.0"}
	return Options{Run: run, Evidence: []byte("{}"), Dir: dir, Assay: "devel", Temp: t.TempDir(), MostData: 1 << 20,
		Around: Surroundings{Missing: "not asked"}}
}

// packedTo packs, opens, and unpacks into a folder.
func packedTo(t *testing.T, o Options) (*Bundle, string) {
	t.Helper()
	path, root := filepath.Join(t.TempDir(), "b.tar.zst"), filepath.Join(t.TempDir(), "root")
	if _, err := WriteFile(context.Background(), o, path, false); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Unpack(root); err != nil {
		t.Fatal(err)
	}
	return b, root
}

var small = map[string]string{"train.py": "import net\n", "net.py": "x = 1\n", ".gitignore": "data/\n"}

func TestPackOfACleanRun(t *testing.T) {
	dir, o := project(t, small)
	b, root := packedTo(t, o)
	if diff := cmp.Diff(small, there(t, filepath.Join(root, "code"))); diff != "" {
		t.Error(diff)
	}
	if c := b.Manifest.Code; c.Basis != evidence.Measured || c.Dir != "." || c.Commit != o.Run.Provenance.Commit {
		t.Errorf("%+v", c)
	}

	// The project moves on; the bundle does not.
	files(t, dir, map[string]string{"net.py": "x = 2\n", "later.py": ""})
	inGit(t, dir, "add", "-A")
	inGit(t, dir, "commit", "-qm", "two")
	later, root := packedTo(t, o)
	if diff := cmp.Diff(small, there(t, filepath.Join(root, "code"))); diff != "" {
		t.Error(diff)
	}
	if later.Manifest.Code.Sum != b.Manifest.Code.Sum || later.Manifest.Code.Basis != evidence.Measured {
		t.Errorf("%+v", later.Manifest.Code)
	}
	o.Now = true
	now, root := packedTo(t, o)
	if got := there(t, filepath.Join(root, "code")); got["net.py"] != "x = 2\n" ||
		now.Manifest.Code.Basis != evidence.Declared {
		t.Errorf("%v %+v", got, now.Manifest.Code)
	}
}

// TestPackTheSameBytes packs one run from two clones of its project, whose files have other times.
func TestPackTheSameBytes(t *testing.T) {
	dir, o := project(t, small)
	clone := filepath.Join(t.TempDir(), "clone")
	inGit(t, dir, "clone", "-q", dir, clone)
	old := time.Date(2001, 1, 1, 0, 0, 0, 1, time.UTC)
	if err := os.Chtimes(filepath.Join(clone, "net.py"), old, old); err != nil {
		t.Fatal(err)
	}
	var one, two, three bytes.Buffer
	for to, dir := range map[*bytes.Buffer]string{&one: dir, &two: clone, &three: clone} {
		o.Dir = dir
		if _, err := Pack(context.Background(), o, to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) || !bytes.Equal(two.Bytes(), three.Bytes()) {
		t.Error("three times the same run, and not the same bytes")
	}
}

func TestPackOfADirtyRun(t *testing.T) {
	dir, o := project(t, map[string]string{"train.py": "a\nb\n", "gone.py": "x\n", "bin": "\x00\x01", "k/.env": "A=1"})
	files(t, dir, map[string]string{"train.py": "a\nc\n", "new/x.py": "y\n", "new/z.py": "no line end",
		"bin": "\x00\x02", ".env": "A=b", "k/.env": "A=2", "__pycache__/x.pyc": "x"})
	if err := os.Remove(filepath.Join(dir, "gone.py")); err != nil {
		t.Fatal(err)
	}
	o.Run.Provenance.Dirty = "dirty (6 files)" // train.py, gone.py, bin, k/.env, new/, .env
	o.Run.Started = time.Now().Add(time.Hour)
	b, root := packedTo(t, o)
	c := b.Manifest.Code
	if c.Basis != evidence.Derived {
		t.Fatalf("%+v", c)
	}
	if want := []string{"bin", "gone.py", "new/x.py", "new/z.py", "train.py"}; !slices.Equal(c.Patch, want) {
		t.Errorf("the patch is of %v", c.Patch)
	}
	// What git makes of the commit and the patch is the code.
	clone := filepath.Join(t.TempDir(), "clone")
	inGit(t, dir, "clone", "-q", dir, clone)
	inGit(t, clone, "apply", filepath.Join(root, PatchFile))
	made := there(t, clone)
	for name := range made {
		if strings.HasPrefix(name, ".git/") || name == "k/.env" {
			delete(made, name)
		}
	}
	if diff := cmp.Diff(made, there(t, filepath.Join(root, "code"))); diff != "" {
		t.Error(diff)
	}

	for name, change := range map[string]func(o *Options){
		"train.py was written since":           func(o *Options) { o.Run.Started = time.Now().Add(-time.Hour) },
		"the number of changed files is 5 now": func(o *Options) { o.Run.Provenance.Dirty = "dirty (9 files)" },
		"git could not be asked":               func(o *Options) { o.Run.Provenance.Dirty = "unknown: it failed" },
		"the working copy is at another com":   func(o *Options) { inGit(t, dir, "commit", "-qam", "two") },
	} {
		moved, run := o, *o.Run
		moved.Run = &run
		change(&moved)
		if strings.Contains(name, "git could not") {
			moved.Run.Started = time.Now().Add(time.Hour)
		}
		b, root := packedTo(t, moved)
		want := map[string]string{"train.py": "a\nb\n", "gone.py": "x\n", "bin": "\x00\x01"}
		if diff := cmp.Diff(want, there(t, filepath.Join(root, "code"))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c := b.Manifest.Code; c.Basis != evidence.Declared || c.Patch != nil {
			t.Errorf("%s: %+v", name, c)
		}
		if !slices.ContainsFunc(b.Manifest.Missing, func(m Missing) bool {
			return m.What == "the run's changes to its code"
		}) {
			t.Errorf("%s: not said: %+v", name, b.Manifest.Missing)
		}
	}
}

func TestPackRefusesSecrets(t *testing.T) {
	dir, o := project(t, map[string]string{"train.py": "\ntoken = 'hf_abcdefghijklmnopqrstuvwxyz0123'\n"})
	_, err := Pack(context.Background(), o, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "train.py:2") ||
		!strings.Contains(fault.HintOf(err), "--allow-secrets") {
		t.Errorf("%v", err)
	}
	// Taken out, but not committed: the patch has it.
	files(t, dir, map[string]string{"train.py": "\ntoken = None\n"})
	o.Now = true
	_, err = Pack(context.Background(), o, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), PatchFile) {
		t.Errorf("%v", err)
	}
	o.AllowSecrets = true
	if m, err := Pack(context.Background(), o, &bytes.Buffer{}); err != nil || len(m.Code.Secrets) != 1 {
		t.Errorf("%v %+v", err, m.Code)
	}
}

func TestPackData(t *testing.T) {
	dir, o := project(t, small)
	files(t, dir, map[string]string{"data/a.bin": "12", "data/sub/b.bin": "3"})
	far := files(t, t.TempDir(), map[string]string{"cifar/x": "45", "cifar/y": "6", "other/z": "7"})
	o.Fingerprint = func(_ context.Context, paths []string) evidence.Dataset {
		n := 0
		for _, content := range there(t, paths[0]) {
			n += len(content)
		}
		return evidence.Dataset{Fingerprint: strings.Repeat("x", n)}
	}
	o.Data, o.Fetch = true, map[string]string{"other": "scp store:z .", "more": "https://example.org/more"}
	o.Run.Subject.Command = []string{"python", "train.py", "--data=" + far + "/cifar", dir + "/net.py", "/etc/x"}
	o.Run.Provenance.Datasets = []evidence.Dataset{
		{Type: "A", Path: dir + "/data", Files: 2, Bytes: 3, Fingerprint: "xxx"},
		{Type: "B", Path: far + "/cifar", Files: 2, Bytes: 3, Fingerprint: "xxx"},
		{Type: "B", Path: far + "/cifar", Files: 2, Bytes: 3, Fingerprint: "xxx"},
		{Type: "C", Path: far + "/other", Files: 1, Bytes: 1, Fingerprint: "changed"},
		{Type: "D", Missing: "the dataset names no file in its attributes"}}
	b, root := packedTo(t, o)
	want := map[string]string{"a.bin": "12", "sub/b.bin": "3"}
	if diff := cmp.Diff(want, there(t, filepath.Join(root, "code/data"))); diff != "" {
		t.Error(diff)
	}
	want = map[string]string{"x": "45", "y": "6"}
	if diff := cmp.Diff(want, there(t, filepath.Join(root, "data/cifar"))); diff != "" {
		t.Error(diff)
	}
	var said []string
	for _, d := range b.Manifest.Data {
		said = append(said, d.Name+" "+d.Place+" "+d.File+" "+d.Fetch+" "+d.Missing)
	}
	if diff := cmp.Diff([]string{"data code/data data/data.tar.zst  ", "cifar data/cifar data/cifar.tar.zst  ",
		"other data/other  scp store:z . not packed: what lies there now is not, or not alone, what the run read",
		"D    the dataset names no file in its attributes",
		"more   https://example.org/more the run's evidence names no such data: there is no fingerprint"},
		said); diff != "" {
		t.Error(diff)
	}
	words := []string{"@ROOT@/env/bin/python", "train.py", "--data=@ROOT@/data/cifar", "@ROOT@/code/net.py", "/etc/x"}
	if diff := cmp.Diff(words, b.Manifest.Command.Words); diff != "" {
		t.Error(diff)
	}
	if l := b.Manifest.Command.Local; len(l) != 1 || l[0].What != "/etc/x" {
		t.Errorf("%+v", l)
	}
}

func TestPackCommand(t *testing.T) {
	dir, o := project(t, small)
	o.Run.Provenance.Interpreter = dir + "/.venv/bin/python"
	o.Run.Provenance.Environment = map[string]string{"HF_TOKEN": "(redacted)", "OMP_NUM_THREADS": "4",
		"VIRTUAL_ENV": dir + "/.venv", "HF_HOME": "/big/hf", "PYTHONPATH": dir + "/src:/home/x/lib:" + dir,
		"TORCH_LOGS": "a\x1bb", "KERAS_HOME": dir, "WANDB_URL": "https://u:s3cr3tpassw0rd@host/x"}
	for want, command := range map[string][]string{
		"@ROOT@/env/bin/python train.py":            {dir + "/.venv/bin/python3.11", "train.py"},
		"@ROOT@/env/bin/python -m a":                {"python3", "-m", "a"},
		"@ROOT@/env/bin/python run.py":              {"run.py"},
		"@ROOT@/env/bin/python x.py --a":            {"uv", "run", "x.py", "--a"},
		"@ROOT@/env/bin/torchrun -n 1":              {"torchrun", "-n", "1"},
		"@ROOT@/env/bin/mine":                       {dir + "/.venv/bin/mine"},
		"@ROOT@/code/go.sh x":                       {"./go.sh", "x"},
		"/usr/bin/env make train":                   {"make", "train"},
		"@ROOT@/code/go.sh":                         {dir + "/go.sh"},
		"@ROOT@/env/bin/python x":                   {"uv", "run", "--frozen", "--no-sync", "python", "x"},
		"@ROOT@/env/bin/python -m x":                {"uv", "run", "-m", "x"},
		"/usr/bin/env uv run --with y python x":     {"uv", "run", "--with", "y", "python", "x"},
		"@ROOT@/env/bin/python t.py --k (redacted)": {"python", "t.py", "--k", "(redacted)"},
	} {
		o.Run.Subject.Command = command
		m, err := Pack(context.Background(), o, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(m.Command.Words, " "); got != want {
			t.Errorf("%v: %s, want %s", command, got, want)
		}
		hasUnit := slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == SystemdFile })
		if hasUnit == strings.Contains(want, "redacted") || hasUnit == (m.Command.Why != "") {
			t.Errorf("%v: unit %v, %q", command, hasUnit, m.Command.Why)
		}
	}
	m, err := Pack(context.Background(), o, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"OMP_NUM_THREADS": "4", "PYTHONPATH": "@ROOT@/code/src:@ROOT@/code",
		"TORCH_LOGS": "a\x1bb", "KERAS_HOME": "@ROOT@/code"}, m.Command.Variables); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(m.Command.Needed, []string{"HF_TOKEN", "WANDB_URL"}) || len(m.Command.Dropped) != 3 {
		t.Errorf("%+v", m.Command)
	}
	if u := m.Unit("", "/r"); u.Variables["TORCH_LOGS"] != "" || u.Variables["KERAS_HOME"] != "/r/code" ||
		u.Name != "assay."+m.Run.ID {
		t.Errorf("%+v", u)
	}
}

func TestWriteFileWholeOrNot(t *testing.T) {
	_, o := project(t, small)
	dir := t.TempDir()
	out := filepath.Join(dir, "b.tar.zst")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := WriteFile(ctx, o, out, false); err == nil {
		t.Error("written although it was interrupted")
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
	if _, err := WriteFile(context.Background(), o, out, false); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteFile(context.Background(), o, out, false); err == nil ||
		!strings.Contains(err.Error(), "there already") {
		t.Errorf("%v", err)
	}
	if _, err := WriteFile(context.Background(), o, out, true); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	_, o := project(t, small)
	var good bytes.Buffer
	if _, err := Pack(context.Background(), o, &good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(m *Manifest, content map[string][]byte)
		want   string
	}{
		"schema":        {func(m *Manifest, _ map[string][]byte) { m.Schema = "assay.bundle/9" }, "schema"},
		"climbs":        {func(m *Manifest, _ map[string][]byte) { m.Files[0].Path = "../x" }, "damaged"},
		"into the code": {func(m *Manifest, _ map[string][]byte) { m.Files[0].Path = "code/x" }, "damaged"},
		"place of data": {func(m *Manifest, _ map[string][]byte) {
			m.Data = []Data{{Name: "x", Place: "env/bin", File: CodeFile}}
		}, "place of data"},
		"place climbs": {func(m *Manifest, _ map[string][]byte) {
			m.Data = []Data{{Name: "x", Place: "data/../../x", File: CodeFile}}
		}, "place of data"},
		"another content": {func(_ *Manifest, c map[string][]byte) { c[EvidenceFile] = []byte("[]") },
			"not what its manifest"},
		"longer": {func(_ *Manifest, c map[string][]byte) { c[EvidenceFile] = []byte("{} ") },
			"by its manifest 2"},
		"one less": {func(_ *Manifest, c map[string][]byte) { delete(c, SystemdFile) }, "is missing"},
		"one more": {func(m *Manifest, _ map[string][]byte) { m.Files = m.Files[:len(m.Files)-1] }, "not where"},
		"no lock":  {func(m *Manifest, _ map[string][]byte) { m.Environment.Install = "lock/none" }, "the lock"},
		"folder":   {func(m *Manifest, _ map[string][]byte) { m.Code.Dir = "/etc" }, "the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b.tar.zst")
			if err := os.WriteFile(path, remade(t, good.Bytes(), c.change), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			b := &Bundle{Path: path}
			if err := b.Unpack(filepath.Join(filepath.Dir(path), "into")); err == nil {
				t.Error("unpacked")
			}
			if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

func TestManifestIsJSON(t *testing.T) {
	_, o := project(t, small)
	b, root := packedTo(t, o)
	text, err := os.ReadFile(filepath.Join(root, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("null")) {
		t.Errorf("a list is null: %s", text)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Manifest, m); diff != "" {
		t.Error(diff)
	}
	if _, err := b.Read(EvidenceFile, 1); err == nil {
		t.Error("read more than was wanted")
	}
	if got, err := b.Read(EvidenceFile, 10); err != nil || string(got) != "{}" {
		t.Errorf("%q %v", got, err)
	}
}
