package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fold"
	"assay/internal/secret"
)

// write makes a file and its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGitState: the commit is git's own; what differs from it is counted, assay's own files are not, and what git
// cannot say is unknown.
func TestGitState(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // no settings of a user's
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	base := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", base, "-c", "user.name=a", "-c", "user.email=a@b"},
			args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for _, name := range []string{"a.py", "b.py", "sub/c.py"} {
		write(t, filepath.Join(base, name), name)
	}
	git("add", ".")
	git("commit", "-q", "-m", "first")
	head := git("rev-parse", "HEAD")

	for _, c := range []struct {
		name  string
		files map[string]string // written; "-": removed
		own   []string
		want  string
	}{
		{"nothing", nil, []string{""}, "clean"},
		{"a change", map[string]string{"a.py": "x"}, nil, "dirty (1 files)"},
		{"a new file", map[string]string{"x": "x"}, nil, "dirty (1 files)"},
		{"a new name of three letters, and one removed", map[string]string{"new": "x", "b.py": "-"}, nil,
			"dirty (2 files)"},
		{"moved: two changes", map[string]string{"a.py": "-", "moved.py": "a.py"}, nil, "dirty (2 files)"},
		{"ours, and beside it", map[string]string{"log.db": "", "log.db-wal": "", "log.db-shm": ""}, []string{"log.db"},
			"clean"},
		{"no more than its name", map[string]string{"log.db2": ""}, []string{"log.db"}, "dirty (1 files)"},
		{"our folder", map[string]string{"runs/1/a": "", "runs/2/b": ""}, []string{"runs"}, "clean"},
		{"ours in a new folder", map[string]string{"out/run/a": "", "out/run/b": ""}, []string{"out/run"}, "clean"},
		{"ours and the user's in a new folder", map[string]string{"out/run/a": "", "out/net.pt": ""},
			[]string{"out/run"}, "dirty (1 files)"},
		{"the user's in a new folder, ours elsewhere", map[string]string{"out/net.pt": "", "run/a": ""},
			[]string{"run"}, "dirty (1 files)"},
		{"the working copy itself is never ours", map[string]string{"x": "x"}, []string{"."}, "dirty (1 files)"},
		{"a folder above it neither", map[string]string{"x": "x"}, []string{".."}, "dirty (1 files)"},
		{"a tracked file in our place", map[string]string{"sub/c.py": "x"}, []string{"sub"}, "clean"},
	} {
		for name, text := range c.files {
			if path := filepath.Join(base, name); text == "-" {
				os.Remove(path)
			} else {
				write(t, path, text)
			}
		}
		var own []string
		for _, name := range c.own {
			own = append(own, filepath.Join(base, name))
		}
		for _, dir := range []string{base, filepath.Join(base, "sub")} {
			commit, dirty := gitState(context.Background(), dir, own)
			if commit != head || dirty != c.want {
				t.Errorf("%s, from %s: %s %q, want %q", c.name, filepath.Base(dir), commit, dirty, c.want)
			}
		}
		git("reset", "-q", "--hard")
		git("clean", "-qfdx")
	}

	link := filepath.Join(t.TempDir(), "link") // what is ours is so by any way to it
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(base, "mine"), "")
	own := []string{filepath.Join(link, "mine"), filepath.Join(link, "not", "there")}
	if _, dirty := gitState(context.Background(), base, own); dirty != "clean" {
		t.Errorf("ours by a link: %q", dirty)
	}
	if got, want := resolved(filepath.Join(link, "not", "there")), filepath.Join(resolved(base),
		"not/there"); got != want {
		t.Errorf("%q, want %q", got, want)
	}

	unknown := func(want, dir string, ctx context.Context, known string) {
		t.Helper()
		if commit, dirty := gitState(ctx, dir, nil); commit != known || dirty != "unknown: "+want {
			t.Errorf("%q %q, want unknown: %s", commit, dirty, want)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	unknown("git did not answer in time", base, ended, "")
	unknown("no git commit at the working folder", t.TempDir(), context.Background(), "")
	write(t, filepath.Join(base, ".git/index"), "damaged")
	unknown("git status failed", base, context.Background(), head)
	unknown("git status failed", filepath.Join(base, ".git"), context.Background(), head) // no working copy there
	t.Setenv("PATH", t.TempDir())
	unknown("git is not installed", base, context.Background(), "")
}

// TestRelevant: of the environment what can change a run is kept, and of a secret among it the name alone.
func TestRelevant(t *testing.T) {
	const token = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
	got := relevant([]string{"PYTORCH_ENABLE_MPS_FALLBACK=1", "OMP_NUM_THREADS=", "HOME=/home/u", "MY_CUDA_=1",
		"CUDA_VISIBLE_DEVICES", "PYTHONPATH=a=b", "HF_TOKEN=" + token}, &secret.Set{})
	hidden, named := got["HF_TOKEN"]
	delete(got, "HF_TOKEN")
	want := map[string]string{"PYTORCH_ENABLE_MPS_FALLBACK": "1", "OMP_NUM_THREADS": "", "PYTHONPATH": "a=b"}
	if !maps.Equal(got, want) || !named || strings.Contains(hidden, token) {
		t.Errorf("%v and %q, want %v", got, hidden, want)
	}
}

// printOf takes the fingerprint of paths.
func printOf(ctx context.Context, dir string, paths ...string) (set evidence.Dataset) {
	fingerprint(ctx, &set, paths, dir)
	return set
}

// TestFingerprint: the same data has the same fingerprint wherever it lies, other data another; it is the SHA-256 that
// its name says.
func TestFingerprint(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one/a"), "alpha")
	write(t, filepath.Join(dir, "one/deep/b"), "")
	write(t, filepath.Join(dir, "one/deep/c"), "gamma")
	sum := sha256.Sum256([]byte("a\x005\x00alpha" + "deep/b\x000\x00" + "deep/c\x005\x00gamma"))
	first := printOf(ctx, dir, "one")
	if first.Fingerprint != fmt.Sprintf("sha256-whole:%x", sum) || first.Files != 3 || first.Bytes != 10 ||
		first.Path != filepath.Join(dir, "one") || first.Missing != "" {
		t.Errorf("%+v", first)
	}
	if parts := printOf(ctx, "/", filepath.Join(dir, "one/deep"), filepath.Join(dir, "one/a")); parts != first {
		t.Errorf("by its parts: %+v, want %+v", parts, first)
	}
	if err := os.Symlink(filepath.Join(dir, "one/a"), filepath.Join(dir, "one/link")); err != nil {
		t.Fatal(err)
	}
	if linked := printOf(ctx, dir, "one"); linked != first {
		t.Errorf("a link is no file: %+v", linked)
	}
	for _, name := range []string{"one/deep/missing", "nothing"} {
		if set := printOf(ctx, dir, name); set.Fingerprint != "" || !strings.Contains(set.Missing,
			"could not be found") {
			t.Errorf("%s: %+v", name, set)
		}
	}
	if some := printOf(ctx, dir, "nothing", "one"); some.Fingerprint != first.Fingerprint {
		t.Errorf("a path that is not there hides those that are: %+v", some)
	}
	write(t, filepath.Join(dir, "one/a"), "Alpha")
	if other := printOf(ctx, dir, "one"); other.Fingerprint == first.Fingerprint || other.Fingerprint == "" {
		t.Errorf("changed data: %+v", other)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if set := printOf(ended, dir, "one"); set.Fingerprint != "" || !strings.Contains(set.Missing, "the run ended") {
		t.Errorf("%+v", set)
	}
	many := slices.Repeat([]string{filepath.Join(dir, "one/a")}, fingerprintFiles+1)
	if set := printOf(ctx, dir, many...); set.Fingerprint != "" || !strings.Contains(set.Missing, "more than 50000") {
		t.Errorf("too many files: %+v", set)
	}
	if os.Geteuid() != 0 {
		if err := os.Chmod(filepath.Join(dir, "one/a"), 0); err != nil {
			t.Fatal(err)
		}
		if set := printOf(ctx, dir, "one"); set.Fingerprint != "" || !strings.HasPrefix(set.Missing, "a: ") {
			t.Errorf("a file that cannot be read: %+v", set)
		}
	}
}

// TestFingerprintOfMuch: of more than 64 MiB the ends of each file are read, and the fingerprint's name says so; bytes
// are read once.
func TestFingerprintOfMuch(t *testing.T) {
	const ends = 64 << 10
	dir := t.TempDir()
	sparse := func(name string, size int64, at map[int64]string) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for offset, text := range at {
			f.WriteAt([]byte(text), offset)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
	}
	const big = 64 << 20
	sparse("big", big, map[int64]string{0: "head", ends: "between", big - 4: "tail"})
	sparse("edge", ends, map[int64]string{ends - 4: "edge"})
	sparse("more", ends+2, map[int64]string{ends: "xy"})
	sum := sha256.New()
	zeros := func(n int) string { return string(make([]byte, n)) }
	fmt.Fprintf(sum, "big\x00%d\x00head%s%stail", big, zeros(ends-4), zeros(ends-4))
	fmt.Fprintf(sum, "edge\x00%d\x00%sedge", ends, zeros(ends-4))
	fmt.Fprintf(sum, "more\x00%d\x00%sxy", ends+2, zeros(ends))
	set := printOf(context.Background(), dir, ".")
	if want := fmt.Sprintf("sha256-ends:%x", sum.Sum(nil)); set.Fingerprint != want || set.Bytes != big+2*ends+2 {
		t.Errorf("%+v, want %s", set, want)
	}
	if set = printOf(context.Background(), dir, "big"); !strings.HasPrefix(set.Fingerprint, "sha256-whole:") {
		t.Errorf("64 MiB are read whole: %+v", set)
	}
	sparse("big", ends*3, map[int64]string{ends: "between"})
	before := printOf(context.Background(), dir, "big")
	sparse("big", ends*3, map[int64]string{ends: "changed"})
	if after := printOf(context.Background(), dir, "big"); after.Fingerprint == before.Fingerprint {
		t.Error("a change amid a small file is not seen")
	}
}

// TestFingerprints: each dataset is told of once, as its loader says it; a program that makes ever new ones fills
// nothing.
func TestFingerprints(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data"), "x")
	rec, err := newRecorder(t.TempDir(), &secret.Set{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.log.Close()
	rec.loaders = make(chan fold.LoaderEvent) // the next is taken when the one before has been looked at
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { fingerprints(ctx, rec, dir); close(done) }()
	length, batch := 100, 16
	loader := fold.LoaderEvent{Dataset: "D", Length: &length, Batch: &batch, Workers: 2, Paths: []string{"data"}}
	rec.loaders <- loader
	rec.loaders <- loader
	rec.loaders <- fold.LoaderEvent{Dataset: "Bare"}
	for i := range 40 {
		rec.loaders <- fold.LoaderEvent{Dataset: fmt.Sprint("More", i)}
	}
	rec.loaders <- loader
	cancel()
	<-done
	sets := rec.finish().Provenance.Datasets
	if len(sets) != 32 {
		t.Fatalf("%d datasets", len(sets))
	}
	if s := sets[0]; s.Type != "D" || s.Length != 100 || s.Batch != 16 || s.Workers != 2 || s.Files != 1 ||
		!strings.HasPrefix(s.Fingerprint, "sha256-whole:") {
		t.Errorf("%+v", s)
	}
	if s := sets[1]; s.Type != "Bare" || s.Length != 0 || s.Batch != 0 || s.Fingerprint != "" ||
		!strings.Contains(s.Missing, "names no file") {
		t.Errorf("%+v", s)
	}
}

// TestRecorder: what an agent says of its own command line is secret from then on; what asks something of us is heard
// from agents alone, and waits for nobody.
func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	rec, err := newRecorder(dir, &secret.Set{})
	if err != nil {
		t.Fatal(err)
	}
	const password = "correct-horse-battery-17"
	rec.Add(fold.Supervisor, []byte(`{"ev":"stopping","why":"x"}`))
	rec.Add(fold.Supervisor, []byte(`{"ev":"loader","dataset":"D"}`))
	if len(rec.stopping) != 0 || len(rec.loaders) != 0 {
		t.Error("the supervisor's own events ask something of it")
	}
	rec.Add(1, []byte(`{"ev":"hello","pid":7,"path":["/lib/python"],"argv":["train.py","--password","`+password+`"]}`))
	for range 70 {
		rec.Add(1, []byte(`{"ev":"stopping","why":"it knew `+password+`"}`))
		rec.Add(1, []byte(`{"ev":"loader","dataset":"D"}`))
	}
	rec.Add(1, []byte(`{"ev":"loader","dataset":5}`))
	if len(rec.stopping) != 1 || len(rec.loaders) != cap(rec.loaders) {
		t.Errorf("%d asked to stop, %d loaders wait", len(rec.stopping), len(rec.loaders))
	}
	rec.own("host", struct{}{})
	rec.own("host", map[string]any{"x": func() {}}) // no JSON: left out
	if !slices.Equal(rec.paths(), []string{"/lib/python"}) || len(rec.failedTests()) != 0 {
		t.Errorf("%q, %q", rec.paths(), rec.failedTests())
	}
	run := rec.finish()
	rec.log.Close()
	data, _ := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	kept, _ := json.Marshal(run)
	if bytes.Contains(data, []byte(password)) || bytes.Contains(kept, []byte(password)) {
		t.Error("a password of the process's command line was kept")
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if last := lines[len(lines)-1]; !bytes.Contains(last, []byte(`{"ev":"host"}`)) {
		t.Errorf("the last line is %s", last)
	}
	for i := range 50 {
		rec.blame("work", i/2)
	}
	if n := len(rec.troubles()); n != 20 {
		t.Errorf("%d troubles", n)
	}
}
