package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/logbook"
	"assay/internal/secret"
	"assay/internal/testkit"
)

// tells is a script that says whatever it was given in the ways in which assay hears of it: its own arguments, those of
// a Python that it starts, the names of files that a dataset reads, a warning, and the exception that ends it.
const tells = `
import os, subprocess, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset

words = sys.argv[1:]
subprocess.run([sys.executable, "-c", "import torch, torch.nn as nn; m = nn.Linear(2, 2); o = torch.optim.SGD(m.parameters(), 0.1); m(torch.ones(1, 2)).sum().backward(); o.step()"] + words)

class Files(Dataset):
    def __init__(self):
        self.paths = [w for w in words if "://" in w]
        self.root = self.paths[0]
    def __len__(self): return 8
    def __getitem__(self, i): return torch.ones(2)

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    for batch in DataLoader(Files(), batch_size=2):
        loss = model(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
given = os.environ["GIVEN"].split("\x1f")
assert len(words) > 40 and words[1].startswith("sk-") or True
warnings.warn("The operator 'aten::x' is not currently supported on the MPS backend and will fall back to run on the CPU: " + given[0])
raise ConnectionError("denied: " + " | ".join(given))
`

// scan looks into every file below a folder, compressed ones opened, and calls found for each text that stands in one.
func scan(t *testing.T, dir string, texts []string, skip func(path string) bool,
	found func(path, text string)) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || skip(path) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return err
			}
			if data, err = io.ReadAll(z); err != nil {
				return err
			}
		}
		files++
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				found(path, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestNoSecretInAnyFile: a hundred secrets and more, on the command line, in the environment and in what a script says,
// stand in no file that assay writes, and in nothing that it sends. The script itself gets them as they are.
func TestNoSecretInAnyFile(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	dir := t.TempDir()
	var secrets, argv, environ, given []string
	use := func(v string) string {
		secrets = append(secrets, v)
		return v
	}
	for seed := range uint64(2) {
		shaped := testkit.Secrets(20 + seed)
		for i, name := range slices.Sorted(maps.Keys(shaped)) {
			v := use(shaped[name])
			switch i % 4 {
			case 0:
				argv = append(argv, fmt.Sprintf("--note-%d", i), v) // its shape alone tells
			case 1:
				environ = append(environ, fmt.Sprintf("TORCH_THING_%d_%d=%s", seed, i, v))
			case 2:
				given = append(given, "by "+v)
			case 3:
				argv = append(argv, "-H", "Authorization: Bearer "+v)
			}
		}
		plain := func(n int) []string { return testkit.PlainSecrets(100*seed + uint64(n)) }
		for i, flag := range []string{"--api-key", "--password", "--wandb_token", "--client-secret", "--db.password",
			"--passphrase"} {
			for _, v := range plain(i) {
				argv = append(argv, flag, use(v))
				given = append(given, v) // learnt from the command line
			}
		}
		for _, v := range plain(20)[:3] {
			argv = append(argv, "--auth-token="+use(v), "postgres://me:"+use("x"+v)+"@db.example.com/train",
				"https://u:"+use("y"+v)+"%40z@hub.example.com/a")
			given = append(given, "y"+v+"@z")
		}
		for i, name := range []string{"HF_PAT", "TF_AUTH", "HF_TOKEN", "MLX_KEY", "KERAS_SECRET",
			"MY_DATABASE_PASSWORD"} {
			v := use(plain(30 + i)[2])
			environ = append(environ, fmt.Sprintf("%s_%d=%s", name, seed, v))
			given = append(given, "from "+name+": "+v)
		}
		environ = append(environ, fmt.Sprintf("HF_ENDPOINT_%d=https://u:%s@hub.example.com", seed, use(plain(40)[1])))
	}
	if len(secrets) < 150 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	// A place where nothing is secret and that has to be said.
	argv = append(argv, "--tokenizer", "bert-base", "--commit", "d0f2af8b66b20da4baa50644c0cd3f887a2eae2e")
	script := filepath.Join(dir, "train.py")
	if err := os.WriteFile(script, []byte(tells), 0o600); err != nil {
		t.Fatal(err)
	}
	environ = append(environ, "GIVEN="+strings.Join(given, "\x1f"))
	out := testkit.Execute(t, dir, environ, append([]string{assay, "run", "-q", "--", python, "train.py"}, argv...)...)
	if out.Code != 1 || !strings.Contains(out.Stderr, "ConnectionError: denied: "+given[0]) {
		t.Fatalf("status %d\n%s", out.Code, testkit.Tail(out.Stderr))
	}

	// Everything that can be made of the logbook.
	var sent bytes.Buffer
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&sent, r.Body)
		_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"1"},"run":{"info":{"run_id":"r","artifact_uri":"mlflow-artifacts:/1/r"}}}`)
	}))
	defer server.Close()
	var said bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Dir: dir, Now: time.Now,
		Environ: []string{"PATH=" + os.Getenv("PATH")}}
	shaped := slices.Sorted(maps.Values(testkit.Secrets(77)))
	secrets = append(secrets, shaped...)
	runs, _ := filepath.Glob(filepath.Join(dir, ".assay", "runs", "*"))
	if len(runs) != 1 {
		t.Fatalf("%q", runs)
	}
	for _, args := range [][]string{
		{"log", "note", filepath.Base(runs[0]), "it was " + shaped[0], "--issue", shaped[1]},
		{"log", "reject", "the key " + shaped[2], "--because", "curl -u me:" + shaped[3], filepath.Base(runs[0])},
		{"log", "facts", filepath.Base(runs[0]), "--rtt", "me:" + shaped[4] + "@nowhere:x"},
		{"log", "export", "--csv", "--out", "figures.csv"}, {"log", "export", "--csv", "--points", "--out",
			"points.csv"},
		{"log", "export", "--parquet", "--out", "figures.parquet"}, {"log", "export", "--markdown", "--out",
			"NOTES.md"}, {"log", "export", "--mlflow", server.URL},
		{"log", "verify"}, {"log", "show", filepath.Base(runs[0])}, {"show", runs[0]}, {"show", "--json", runs[0]},
		{"explain", runs[0]}, {"handoff", "pack", runs[0], "-o", "run.tar.zst"},
		{"handoff", "unpack", "run.tar.zst", "-o", "root"}, // packed files are not looked through
	} {
		if code := Main(env, args); code != fault.OK {
			t.Errorf("%v: %d\n%s", args, code, testkit.Tail(said.String()))
		}
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	book, err := logbook.OpenRead(t.Context(), filepath.Join(dir, ".assay", "logbook.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	list, err := book.List(t.Context(), logbook.Filter{All: true})
	if err != nil || len(list) < 4 {
		t.Fatalf("%d records, %v", len(list), err)
	}
	for _, e := range list {
		doc, err := book.Document(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(kept, e.ID), doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{"sent": sent.Bytes(), "said": said.Bytes()} {
		if len(data) < 1000 {
			t.Errorf("%s: %d bytes", name, len(data))
		}
		if err := os.WriteFile(filepath.Join(kept, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{dir, kept} {
		n := scan(t, folder, secrets, func(path string) bool { return path == script },
			func(path, text string) { t.Errorf("%s holds %q", path, text) })
		if n < 6 {
			t.Errorf("%d files looked at in %s", n, folder)
		}
	}

	// What is no secret is there, and so is the whole run.
	run := testkit.LoadRun(t, runs[0])
	command := strings.Join(run.Subject.Command, " ")
	contains(t, command, "--api-key "+secret.Mark, "postgres://me:"+secret.Mark+"@db.example.com/train",
		"Authorization: Bearer "+secret.Mark,
		"--tokenizer bert-base", "--commit d0f2af8b66b20da4baa50644c0cd3f887a2eae2e")
	if run.Provenance.Environment["HF_PAT_0"] != secret.Mark || len(run.Steps.Number) != 8 ||
		!strings.Contains(run.Outcome.Error, "denied: by "+secret.Mark) {
		t.Errorf("%q, %d steps, %q", run.Provenance.Environment["HF_PAT_0"], len(run.Steps.Number), run.Outcome.Error)
	}
	if len(run.Processes) != 2 {
		t.Errorf("%d processes", len(run.Processes))
	}

	// And all of it is its owner's alone.
	err = filepath.WalkDir(filepath.Join(dir, ".assay"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"figures.csv", "points.csv", "figures.parquet", "NOTES.md"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestCleanCommit: assay's own folder is no change of the project, in the first run and the second, and with --out
// inside it.
func TestCleanCommit(t *testing.T) {
	assay := testkit.Assay(t)
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com",
			"-c", "commit.gpgsign=false"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"train.sh", "sub/x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("true\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "-q", "-m", "first")
	head := git("rev-parse", "HEAD")
	state := func(in string, args ...string) string {
		t.Helper()
		got := testkit.Execute(t, filepath.Join(dir, in), nil, append(append([]string{assay, "run", "-q"}, args...),
			"--", "sh", "-c", "true")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Fatalf("%d %s", got.Code, got.Stderr)
		}
		folders, _ := filepath.Glob(filepath.Join(dir, "*", "runs", "*"))
		more, _ := filepath.Glob(filepath.Join(dir, "out", "*"))
		deep, _ := filepath.Glob(filepath.Join(dir, in, ".assay", "runs", "*"))
		newest, at := "", time.Time{}
		for _, f := range slices.Concat(folders, more, deep) {
			if info, err := os.Stat(filepath.Join(f, "evidence.json")); err == nil && info.ModTime().After(at) {
				newest, at = f, info.ModTime()
			}
		}
		run := testkit.LoadRun(t, newest)
		if run.Provenance.Commit != head {
			t.Errorf("commit %q", run.Provenance.Commit)
		}
		return run.Provenance.Dirty
	}
	for i, c := range []struct {
		in   string
		args []string
		want string
	}{{"", nil, "clean"}, {"", nil, "clean"}, {"sub", nil, "clean"}, {"", []string{"--out", "out/1"}, "clean"},
		{"", []string{"--logbook", "book.db"}, "dirty (1 files)"}} {
		if got := state(c.in, c.args...); got != c.want {
			t.Errorf("run %d: %s, want %s", i, got, c.want)
		}
	}
	if got := git("status", "--porcelain"); got != "?? book.db\n?? out/" {
		t.Errorf("git sees %q", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if got := state("", "--logbook", "book.db"); got != "clean" {
		t.Errorf("a logbook in the project: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, ".assay", ".gitignore"), []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := state("", "--logbook", "book.db"); got != "clean" {
		t.Errorf("with a .gitignore of the user's own: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, ".assay", ".gitignore")); err != nil || string(text) != "# mine\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train.sh"), []byte("false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := state("", "--logbook", "book.db"); got != "dirty (1 files)" {
		t.Errorf("a change: %s", got)
	}
}

// TestOwnFolderIsClosed: a folder that an earlier assay left open is closed when it is next written to.
func TestOwnFolderIsClosed(t *testing.T) {
	r := newLogRoom(t)
	r.folder("first", nil)
	own := filepath.Join(r.env.Dir, ".assay")
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	r.run(fault.OK, "import", ".assay/runs")
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(own, ".gitignore")); err != nil || string(text) != "*\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestForget: a value goes from the logbook and from the folders of runs; a record goes with its folder.
func TestForget(t *testing.T) {
	const hushed = `plum & "Orchard" 77`
	r := newLogRoom(t)
	dir := r.folder("first", func(run *evidence.Run) {
		run.Subject.Command = append(run.Subject.Command, "--name", hushed)
		run.Outcome.Error = "ValueError: " + hushed
	})
	other := r.folder("second", func(run *evidence.Run) { run.Started = run.Started.Add(time.Hour) })
	start, _ := json.Marshal(map[string]any{"c": 0, "e": map[string]any{"ev": "start", "id": "first",
		"subject": map[string]any{"command": []string{"x", hushed}}}})
	trace := bytes.Buffer{}
	z := gzip.NewWriter(&trace)
	escaped, _ := json.Marshal(hushed)
	fmt.Fprintf(z, "{\"traceEvents\": [\n{\"name\": %s}\n]}\n", escaped)
	z.Close()
	page := strings.NewReplacer("&", "&amp;", `"`, "&#34;").Replace(hushed)
	for name, data := range map[string][]byte{"events.jsonl": append(start, '\n'), "trace.json.gz": trace.Bytes(),
		"report.html": []byte("<p>" + page), "mine.txt": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.run(fault.OK, "import", ".assay/runs")
	r.run(fault.OK, "note", "first", "see "+hushed)
	r.run(fault.OK, "note", "first", "and this")

	r.run(fault.Usage, "forget", "first")
	contains(t, r.err.String(), "--because gives the reason")
	r.run(fault.Usage, "forget", "--value", hushed, "--because", "x")
	contains(t, r.err.String(), "write --value -")
	r.run(fault.Usage, "forget", "--because", "x")
	for value, why := range map[string]string{"ab\n": "the value has 2 bytes", "figures": "in a name",
		"": "0 bytes", "measured": "measured"} {
		r.env.Stdin = strings.NewReader(value)
		r.run(fault.Usage, "forget", "--value", "-", "--because", "x")
		contains(t, r.err.String(), why)
	}

	r.env.Stdin = strings.NewReader(hushed + "\n")
	contains(t, r.run(fault.OK, "forget", "--value", "-", "--because", "it was "+hushed), "0 records forgotten, 3 changed; 1 folders of runs changed")
	inner, _ := json.Marshal(hushed)
	texts := []string{hushed, string(inner[1 : len(inner)-1]), page, "plum &", `plum \u0026`}
	skip := func(string) bool { return false }
	scan(t, r.env.Dir, texts, skip, func(path, text string) { t.Errorf("%s holds %q", path, text) })
	said := r.run(fault.OK, "show", "--json", "first")
	if strings.Contains(said, "Orchard") || !strings.Contains(said, secret.Mark) {
		t.Errorf("%s", testkit.Tail(said))
	}
	contains(t, r.run(fault.OK, "verify"), "3 tombstones", "everything is as it was kept")
	contains(t, r.run(fault.OK, "query", "SELECT kind, because FROM forgotten", "--csv"), "it was "+secret.Mark)
	// The folder says the same as the logbook now.
	contains(t, r.run(fault.OK, "import", ".assay/runs"), "new: 0 records", "there already: 2")

	contains(t, r.run(fault.OK, "forget", "first", "--because", "private"), "3 records forgotten, 0 changed; 1 folders of runs changed", "plain.py")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "mine.txt" {
		t.Errorf("%q is left, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(other, "evidence.json")); err != nil {
		t.Error(err)
	}
	contains(t, r.run(fault.OK, "verify"), "1 records", "everything is as it was kept")
	r.run(fault.Usage, "forget", "first", "--because", "private")
}

// TestForgetSecrets: what an earlier assay kept goes, once it is asked for.
func TestForgetSecrets(t *testing.T) {
	const key = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
	r := newLogRoom(t)
	dir := r.folder("first", func(run *evidence.Run) {
		run.Subject.Command = []string{"python", "t.py", "--api-key", "plumOrchard", "--x", key}
	})
	indented := func(path string) {
		data, err := os.ReadFile(path)
		var out bytes.Buffer
		if err == nil {
			err = json.Indent(&out, data, "", "  ")
		}
		if err == nil {
			err = os.WriteFile(path, out.Bytes(), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	indented(filepath.Join(dir, "evidence.json")) // as assay run writes it: a command's words on lines of their own
	r.run(fault.OK, "import", ".assay/runs")
	contains(t, r.run(fault.OK, "forget", "--secrets", "--because", "kept earlier"), "1 folders of runs changed")
	held := func(path, text string) { t.Errorf("%s holds %q", path, text) }
	scan(t, r.env.Dir, []string{key, "plumOrchard"}, func(string) bool { return false }, held)
	contains(t, r.run(fault.OK, "import", ".assay/runs"), "new: 0 records", "there already: 1")
}

// TestForgetElsewhere: a folder is touched only where it is that of the record, whatever a record says it is called.
func TestForgetElsewhere(t *testing.T) {
	r := newLogRoom(t)
	r.folder("first", nil)
	precious := filepath.Join(r.env.Dir, "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(precious, "evidence.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.folder("second", func(run *evidence.Run) { run.ID = "../../precious"; run.Started = run.Started.Add(time.Hour) })
	r.run(fault.OK, "import", ".assay/runs")
	r.run(fault.OK, "forget", "../../precious", "--because", "x", "--folder", "precious")
	if _, err := os.Stat(filepath.Join(precious, "evidence.json")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(r.env.Dir, ".assay", "runs", "second")); err == nil {
		t.Error("the run's own folder is still there")
	}
	r.run(fault.Usage, "forget", "first", "--because", "x", "--folder", "nowhere")
}
