package probe

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
)

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestOwnFolder: assay's folder is its owner's alone, also where an earlier one left it open; git passes over it, and a
// .gitignore that is there stays.
func TestOwnFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", ".assay")
	ignore := filepath.Join(dir, ".gitignore")
	for _, text := range []string{"*\n", "mine\n"} {
		if err := OwnFolder(dir); err != nil {
			t.Fatal(err)
		}
		if mode := modeOf(t, dir); mode != 0o700 {
			t.Errorf("%o", mode)
		}
		if data, _ := os.ReadFile(ignore); text == "*\n" && string(data) != text {
			t.Errorf(".gitignore %q", data)
		}
		os.WriteFile(ignore, []byte("mine\n"), 0o600)
		os.Chmod(dir, 0o755)
	}
	if err := OwnFolder(dir); err != nil || modeOf(t, dir) != 0o700 {
		t.Errorf("%v, %o", err, modeOf(t, dir))
	}
	if data, _ := os.ReadFile(ignore); string(data) != "mine\n" {
		t.Errorf(".gitignore was written over: %q", data)
	}
	if err := OwnFolder(ignore); err == nil || fault.HintOf(err) == "" {
		t.Errorf("a file in its place: %v", err)
	}
	for path, mine := range map[string]bool{dir: true, "/": os.Geteuid() == 0} {
		if info, err := os.Stat(path); err != nil || isMine(info) != mine {
			t.Errorf("%s is mine: want %v (%v)", path, mine, err)
		}
	}
}

// TestNewRunDir: a run gets an empty folder or none: what is recorded is never written over.
func TestNewRunDir(t *testing.T) {
	base := t.TempDir()
	home := filepath.Join(base, ".assay")
	run := filepath.Join(home, "runs", "1")
	for range 2 { // one that is there and empty is taken
		if err := newRunDir(home, run); err != nil || modeOf(t, run) != 0o700 {
			t.Fatalf("%v, %o", err, modeOf(t, run))
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".gitignore")); err != nil {
		t.Error(err)
	}
	elsewhere := filepath.Join(base, "out")
	if err := newRunDir("", elsewhere); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 {
		t.Errorf("a folder that the user named holds %v", entries)
	}
	write(t, filepath.Join(run, "events.jsonl"), "kept")
	write(t, filepath.Join(base, "file"), "")
	for _, c := range [][2]string{{home, run}, {"", run}, {filepath.Join(base, "file"), filepath.Join(base, "new")},
		{"", filepath.Join(base, "file")}, {"", filepath.Join(base, "file", "x")}} {
		if err := newRunDir(c[0], c[1]); err == nil || fault.HintOf(err) == "" {
			t.Errorf("%q: %v, %q", c, err, fault.HintOf(err))
		}
	}
	if data, _ := os.ReadFile(filepath.Join(run, "events.jsonl")); string(data) != "kept" {
		t.Errorf("%q", data)
	}
}

const (
	beginning = `{"c":0,"e":{"ev":"start","id":"r1","wall":"2026-01-01T00:00:00Z"}}` + "\n"
	ending    = `{"c":0,"e":{"ev":"exit","wall":"2026-01-01T00:00:05Z","code":3}}` + "\n"
	hello     = `{"c":1,"e":{"ev":"hello","version":1,"pid":7}}` + "\n"
)

// TestLoad: a run is read from its folder or its document; one that was cut off from its events, and says so; what is
// no run of this assay's is refused, with what to do.
func TestLoad(t *testing.T) {
	base := t.TempDir()
	good := `{"schema":"` + evidence.Schema + `","kind":"run","id":"r1"}`
	for name, text := range map[string]string{
		"good/evidence.json": good, "text/evidence.json": "hello", "list/evidence.json": "[]",
		"older/evidence.json": `{"schema":"assay.evidence/0","kind":"run"}`,
		"kind/evidence.json":  `{"schema":"` + evidence.Schema + `","kind":"attempts"}`,
		"cut/events.jsonl":    beginning + hello, "short/events.jsonl": beginning + hello + `{"c":1,"e":{"ev":`,
		"ended/events.jsonl": beginning + hello + ending,
		"other/events.jsonl": hello, "empty/events.jsonl": "", "damaged/events.jsonl": "not a line of it\n",
		"both/evidence.json": "damaged", "both/events.jsonl": beginning,
		"nothing/notes": "",
	} {
		write(t, filepath.Join(base, name), text)
	}
	if err := os.Mkdir(filepath.Join(base, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, fails string // what the error says
		incomplete  string
	}{
		{"good", "", ""}, {"good/evidence.json", "", ""},
		{"cut", "", "assay itself was ended"}, {"short", "", "assay itself was ended"}, {"ended", "", "goodbye"},
		{"text", "not the evidence of a run", ""}, {"list", "not the evidence of a run", ""},
		{"older", `schema "assay.evidence/0"`, ""}, {"kind", "another kind", ""},
		{"other", "not the events of a run", ""}, {"empty", "not the events of a run", ""},
		{"damaged", "not the events of a run", ""},
		{"both", "not the evidence of a run", ""}, {"nothing", "no evidence.json and no events.jsonl", ""},
		{"folder.json", "no evidence.json and no events.jsonl", ""}, {"not-there", "no such file", ""},
		{"nothing/notes", "not the evidence of a run", ""},
	} {
		run, dir, err := Load(filepath.Join(base, c.path))
		switch {
		case c.fails != "":
			if err == nil || run != nil || !strings.Contains(err.Error(), c.fails) || fault.HintOf(err) == "" {
				t.Errorf("%s: %v, %v (hint %q), want %s", c.path, run, err, fault.HintOf(err), c.fails)
			}
		case err != nil || run.ID != "r1" || dir != filepath.Join(base, strings.TrimSuffix(c.path, "/evidence.json")):
			t.Errorf("%s: %+v in %s, %v", c.path, run, dir, err)
		case c.incomplete != "":
			if run.Outcome.Complete || !strings.Contains(run.Outcome.Reason, c.incomplete) || run.Document != "" {
				t.Errorf("%s: %+v, document %q", c.path, run.Outcome, run.Document)
			}
		case run.Document != fmt.Sprintf("%x", sha256.Sum256([]byte(good))):
			t.Errorf("%s: document %q", c.path, run.Document)
		}
	}
	path := filepath.Join(base, "good/evidence.json")
	if data, err := readLimited(path, int64(len(good))); err != nil || string(data) != good {
		t.Errorf("as long as the limit: %v", err)
	}
	if _, err := readLimited(path, int64(len(good))-1); err == nil {
		t.Error("longer than the limit")
	}
	if _, err := readLimited(base, 5); err == nil {
		t.Error("a folder is read")
	}
}

// TestFollow: a run is followed as it is written; it has ended when its last event is there, and its evidence comes
// after that.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	if _, err := Follow(dir); err == nil || fault.HintOf(err) == "" {
		t.Errorf("no run there: %v", err)
	}
	path := filepath.Join(dir, events.FileName)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := Follow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for _, c := range []struct {
		text        string
		more, ended bool
	}{{"", false, false}, {beginning, true, false}, {"", false, false}, {hello + ending[:9], true, false},
		{"", false, false}, {ending[9:], true, true}, {"", false, true}} {
		io.WriteString(f, c.text)
		if more, err := run.More(); err != nil || more != c.more || run.Ended() != c.ended {
			t.Errorf("after %q: %v, %v, ended %v", c.text, more, err, run.Ended())
		}
	}
	if got := run.Run(); got.ID != "r1" || got.Outcome.Exit != 3 || run.Written() {
		t.Errorf("%+v, written %v", got.Outcome, run.Written())
	}
	write(t, filepath.Join(dir, evidenceFile), "{}")
	if !run.Written() {
		t.Error("its evidence is there")
	}
	other := t.TempDir()
	write(t, filepath.Join(other, events.FileName), hello)
	wrong, err := Follow(other)
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if more, err := wrong.More(); err == nil || more || fault.HintOf(err) == "" {
		t.Errorf("what is no run: %v, %v", more, err)
	}
}

// TestOperators: the profiler's trace becomes the table and is kept compressed, without what is secret; one that cannot
// be read is said to be missing, and stays.
func TestOperators(t *testing.T) {
	secrets := &secret.Set{}
	const password = "correct-horse-battery-17"
	secrets.Words([]string{"train.py", "--password", password})
	dir := t.TempDir()
	trace := `{"traceEvents": [
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5},
 {"ph":"M","name":"command","args":{"text":"` + password + `"}},
 {"ph":"M","name":"long","args":{"text":"` + strings.Repeat("x", 3<<20) + `"}}
]}`
	path := filepath.Join(dir, "trace.json")
	write(t, path, trace)
	run := withProfile(evidence.Profile{Trace: "trace.json"})
	operators(run, dir, secrets, nil, func(string) {})
	if len(run.Operators) != 1 || run.Operators[0].Name != "aten::mm" || run.Profile.Trace != "trace.json.gz" ||
		run.Profile.Missing != "" || modeOf(t, path+".gz") != 0o600 {
		t.Errorf("%+v, %+v", run.Operators, run.Profile)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the trace with its secrets is still there")
	}
	data, _ := os.ReadFile(path + ".gz")
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := io.ReadAll(z)
	if err != nil || bytes.Contains(kept, []byte(password)) || !bytes.Contains(kept, []byte("aten::mm")) ||
		!bytes.HasSuffix(kept, []byte("x\"}}\n]}")) {
		t.Errorf("%v, %d of %d bytes", err, len(kept), len(trace))
	}
	// Two processes had a window each, and the evidence is about the second: the first one's holds secrets as well.
	other := filepath.Join(dir, "trace-17.json")
	for _, name := range []string{path, other, filepath.Join(dir, "trace-18.json")} {
		write(t, name, trace)
	}
	run = withProfile(evidence.Profile{Trace: "trace-17.json"})
	operators(run, dir, secrets, nil, func(string) {})
	left, _ := filepath.Glob(filepath.Join(dir, "trace*"))
	want := []string{other + ".gz", path + ".gz"}
	if run.Profile.Trace != "trace-17.json.gz" || !slices.Equal(left, want) {
		t.Errorf("%+v, left %v", run.Profile, left)
	}
	write(t, path, "{")
	for name, want := range map[string]string{"nowhere.json": "was not written",
		"trace.json": "read the profiler's trace",
		"":           ""} {
		run := withProfile(evidence.Profile{Trace: name})
		if operators(run, dir, secrets, nil, func(string) {}); len(run.Operators) > 0 || run.Profile.Trace != "" ||
			!strings.Contains(run.Profile.Missing, want) || (want == "") != (run.Profile.Missing == "") {
			t.Errorf("%q: %+v, want %s", name, run.Profile, want)
		}
	}
	if err := copyWithout(refusing{}, strings.NewReader("{}\n"), secrets); err == nil {
		t.Error("what cannot be written is not said")
	}
	if err := copyWithout(io.Discard, refusing{}, secrets); err == nil {
		t.Error("what cannot be read is not said")
	}
}

// refusing neither reads nor writes.
type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, os.ErrPermission }
func (refusing) Read([]byte) (int, error)  { return 0, os.ErrPermission }

func withProfile(p evidence.Profile) *evidence.Run {
	run := evidence.NewRun("r1")
	run.Profile = p
	return run
}
