package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/secret"
)

// files writes a folder: name → content; one that ends in "*" may be executed, "->" before the content makes a link.
func files(t *testing.T, dir string, all map[string]string) string {
	t.Helper()
	for name, content := range all {
		mode := fs.FileMode(0o644)
		if n, ok := strings.CutSuffix(name, "*"); ok {
			name, mode = n, 0o755
		}
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(content, "->"); ok {
			if err := os.Symlink(to, full); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(full, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// there reads a folder back in the same form.
func there(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			all[rel] = "->" + to
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 {
			rel += "*"
		}
		content, err := os.ReadFile(path)
		all[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func inGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c",
		"init.defaultBranch=main", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func take(t *testing.T, dir string, opts SnapshotOptions) Snapshot {
	t.Helper()
	if opts.Into == "" {
		opts.Into = t.TempDir()
	}
	s, err := Take(context.Background(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unpacked(t *testing.T, s Snapshot) map[string]string {
	t.Helper()
	into := filepath.Join(t.TempDir(), "a", "b")
	if err := Unpack(s.Path, into); err != nil {
		t.Fatal(err)
	}
	return there(t, into)
}

var plainCode = map[string]string{"train.py": "print(1)\n", "run.sh*": "#!/bin/sh\n", "src/model/net.py": "",
	"näme.txt":    "x",
	"src/link.py": "->../train.py", "src/here": "->model"}

func TestSnapshot(t *testing.T) {
	dir := files(t, t.TempDir(), plainCode)
	files(t, dir, map[string]string{"__pycache__/a.pyc": "x", "env/pyvenv.cfg": "", "env/lib/x.py": "",
		".assay/runs/x": "",
		".env":          "A=b", "big.bin": strings.Repeat("x", 2000), "out": "->../elsewhere", "abs": "->/etc/passwd",
		"odd": "->src/../train.py"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := take(t, dir, SnapshotOptions{MostFile: 1000})
	if diff := cmp.Diff(plainCode, unpacked(t, s)); diff != "" {
		t.Error(diff)
	}
	want := []Left{{".env", "holds credentials, by its name"}, {"__pycache__", "made by a tool"},
		{"abs", "a link to an absolute path"}, {"big.bin", "1.95 KiB, more than 1000 B: data travel on their own"},
		{"env", "an environment of Python"}, {"odd", "a link that goes up after it went down"},
		{"out", "a link that leaves the folder"}, {"pipe", "no file: a pipe"}}
	if diff := cmp.Diff(want, s.Left); diff != "" {
		t.Error(diff)
	}
	if s.Commit != "" || s.Dirty != "" || s.Dir != "." || s.Files != len(plainCode) {
		t.Errorf("%+v", s)
	}
}

// TestSameBytes holds the bytes themselves: of another folder, with other times and another mask, and as the machine
// had them on which the sum below was written down.
func TestSameBytes(t *testing.T) {
	a := files(t, t.TempDir(), plainCode)
	b := files(t, filepath.Join(t.TempDir(), "elsewhere"), plainCode)
	old := time.Date(2001, 1, 1, 0, 0, 0, 1, time.UTC)
	for name := range plainCode {
		_ = os.Chtimes(filepath.Join(b, strings.TrimSuffix(name, "*")), old, old)
	}
	if err := os.Chmod(filepath.Join(b, "train.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := take(t, a, SnapshotOptions{}), take(t, b, SnapshotOptions{})
	if one.Sum != two.Sum {
		t.Errorf("%s and %s", one.Sum, two.Sum)
	}
	const known = "cfd54120be71da499463fa0f89475662d48fe68a852e1e25babd2902ad5be86e"
	if one.Sum != known {
		t.Errorf("the sum is %s, and was %s", one.Sum, known)
	}
	if filepath.Base(one.Path) != one.Sum+".tar.zst" {
		t.Errorf("its file is %s", one.Path)
	}
}

func TestSnapshotOfAWorkingCopy(t *testing.T) {
	dir := files(t, t.TempDir(), map[string]string{"train.py": "1\n", "gone.py": "", ".gitignore": "data/\n*.log\n",
		"data/x.bin": "x", "a.log": "x", "sub/model.py": "", "node_modules/kept.js": "tracked"})
	inGit(t, dir, "init", "-q")
	inGit(t, dir, "add", "-f", "train.py", "gone.py", ".gitignore", "sub", "node_modules")
	inGit(t, dir, "commit", "-qm", "x")
	if s := take(t, dir, SnapshotOptions{}); s.Dirty != "clean" || len(s.Commit) != 40 {
		t.Errorf("%q %q", s.Commit, s.Dirty)
	}
	files(t, dir, map[string]string{"train.py": "2\n", "new.py": "", "__pycache__/x.pyc": "", ".venv/pyvenv.cfg": "",
		".venv/a/b": ""})
	if err := os.Remove(filepath.Join(dir, "gone.py")); err != nil {
		t.Fatal(err)
	}
	s := take(t, filepath.Join(dir, "sub"), SnapshotOptions{Skip: []string{"node_modules"}})
	want := map[string]string{"train.py": "2\n", "new.py": "", ".gitignore": "data/\n*.log\n", "sub/model.py": ""}
	if diff := cmp.Diff(want, unpacked(t, s)); diff != "" {
		t.Error(diff)
	}
	if s.Dirty != "dirty (3 files)" || s.Dir != "sub" {
		t.Errorf("%q %q", s.Dirty, s.Dir)
	}
	left := []Left{{".venv", "made by a tool, and git does not ignore it"},
		{"__pycache__", "made by a tool, and git does not ignore it"}}
	if diff := cmp.Diff(left, s.Left); diff != "" {
		t.Error(diff)
	}
	if here := take(t, filepath.Join(dir, "sub"), SnapshotOptions{Here: true}); !cmp.Equal(unpacked(t, here),
		map[string]string{"model.py": ""}) || here.Dirty != "clean" || here.Dir != "." {
		t.Errorf("%+v", here)
	}
}

func TestSnapshotFindsSecrets(t *testing.T) {
	set := &secret.Set{}
	set.Environ([]string{"DB_PASSWORD=violet-hammer-77"})
	dir := files(t, t.TempDir(), map[string]string{
		"a.py":    "x = 1\ntoken = \"hf_abcdefghijklmnopqrstuvwxyz012345\"\n",
		"b.py":    "connect(password=password, token=None)\nlogin(api_key='your-key-here')\n",
		"c.yaml":  "\n\n\nhost: x\nsay: violet-hammer-77\n",
		"key.pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0123456789\n-----END RSA PRIVATE KEY-----\n",
		"bin":     "\x00hf_abcdefghijklmnopqrstuvwxyz012345"})
	s := take(t, dir, SnapshotOptions{Secrets: set})
	var got []string
	for _, p := range s.Secrets {
		got = append(got, p.String())
	}
	if want := []string{"a.py:2", "c.yaml:5", "key.pem:1"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestUnpackRefuses(t *testing.T) {
	file := func(name string) *tar.Header { return header(name, "", 0o644, 0) }
	other := func(kind byte, name, link string) *tar.Header {
		h := header(name, link, 0o644, 0)
		h.Typeflag = kind
		return h
	}
	for name, c := range map[string]struct {
		entries []*tar.Header
		want    string
	}{
		"absolute":       {[]*tar.Header{file("/etc/x")}, "leaves the folder"},
		"climbs":         {[]*tar.Header{file("a/../../x")}, "leaves the folder"},
		"dot":            {[]*tar.Header{file("./x")}, "leaves the folder"},
		"twice":          {[]*tar.Header{file("x"), file("x")}, "comes twice"},
		"file as folder": {[]*tar.Header{file("x"), file("x/y")}, "comes twice"},
		"link absolute":  {[]*tar.Header{header("l", "/etc", 0, 0)}, "absolute"},
		"link climbs":    {[]*tar.Header{header("a/l", "../../x", 0, 0)}, "leaves the folder"},
		"chain of links": {[]*tar.Header{header("x/y/d", "../..", 0, 0), header("e", "x/y/d/../..", 0, 0)},
			"goes up after"},
		"through a link":   {[]*tar.Header{header("l", "a", 0, 0), file("a/x"), file("l/y")}, "comes twice"},
		"link twice":       {[]*tar.Header{file("x"), header("x", "y", 0, 0)}, "comes twice"},
		"hard link":        {[]*tar.Header{file("x"), other(tar.TypeLink, "y", "x")}, "neither a file"},
		"device":           {[]*tar.Header{other(tar.TypeChar, "tty", "")}, "neither a file"},
		"pipe":             {[]*tar.Header{other(tar.TypeFifo, "p", "")}, "neither a file"},
		"no UTF-8":         {[]*tar.Header{other(tar.TypeReg, "a\xff", "")}, "no UTF-8"},
		"a long name":      {[]*tar.Header{file(strings.Repeat("n", 256))}, "more than 255 bytes"},
		"a long path":      {[]*tar.Header{file(strings.Repeat("n/", 600) + "x")}, "more than 1000 bytes"},
		"nothing":          {nil, "nothing in it"},
		"too many":         {slices.Repeat([]*tar.Header{other(tar.TypeDir, "d", "")}, 101), "more than 100 entries"},
		"too many folders": {[]*tar.Header{file(strings.Repeat("n/", 101) + "x")}, "more than 100 folders"},
		"behind its end":   {[]*tar.Header{file("x")}, "behind its end"},
		"cut off":          {[]*tar.Header{file("x")}, "too early"},
		"no zstd at all":   {[]*tar.Header{file("x")}, "damaged"},
		"a flipped bit":    {[]*tar.Header{file("x")}, "damaged"},
		"an empty file":    {nil, "nothing in it"},
		"a bomb of zeros":  {[]*tar.Header{header("z", "", 0o644, 8<<20)}, "more than is bearable"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := packed(&out, func(w *tar.Writer) error {
				for _, h := range c.entries {
					h := *h
					if h.Name == "a\xff" {
						h.Format = tar.FormatGNU
					}
					if err := w.WriteHeader(&h); err != nil {
						return err
					}
					if h.Size > 0 {
						zeros := make([]byte, 1<<20)
						for n := h.Size; n > 0; n -= int64(len(zeros)) {
							if _, err := w.Write(zeros[:min(n, int64(len(zeros)))]); err != nil {
								return err
							}
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			data := out.Bytes()
			switch name {
			case "behind its end":
				var more bytes.Buffer
				_ = packed(&more, func(w *tar.Writer) error { return w.WriteHeader(file("y")) })
				data = append(data, more.Bytes()...)
			case "cut off":
				data = data[:len(data)-8]
			case "no zstd at all":
				data = []byte("PK\x03\x04 something else")
			case "a flipped bit":
				data[len(data)/2] ^= 4
			case "an empty file":
				data = nil
			}
			dir := t.TempDir()
			path, into := filepath.Join(dir, "x.tar.zst"), filepath.Join(dir, "into")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			small := bounds{entries: 100, free: 4 << 20}
			err = small.unpack(bytes.NewReader(data), int64(len(data)), into)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if list, _ := os.ReadDir(dir); len(list) != 1 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// TestUnpackRefusesHoles: a file of GNU tar's that is one hole of a tebibyte (truncate -s 1T z; tar --sparse
// --format=posix). Its bytes stand nowhere, and so no count of what was read bounds them.
func TestUnpackRefusesHoles(t *testing.T) {
	into := filepath.Join(t.TempDir(), "into")
	err := Unpack(filepath.Join("testdata", "holes.tar.zst"), into)
	if err == nil || !strings.Contains(err.Error(), "more than is bearable") {
		t.Error(err)
	}
	if _, err := os.Lstat(into); err == nil {
		t.Error("something stays")
	}
}

func TestUnpackKeepsWhatIsThere(t *testing.T) {
	s := take(t, files(t, t.TempDir(), plainCode), SnapshotOptions{})
	into := files(t, t.TempDir(), map[string]string{"mine": "x"})
	if err := Unpack(s.Path, into); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
	if got := there(t, into); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if err := Unpack(s.Path, t.TempDir()); err != nil { // empty
		t.Error(err)
	}
}

// remade gives a bundle whose manifest and files were changed.
func remade(t *testing.T, bundle []byte, change func(m *Manifest, content map[string][]byte)) []byte {
	t.Helper()
	content, order := map[string][]byte{}, []string{}
	var m Manifest
	err := usual.read(bytes.NewReader(bundle), int64(len(bundle)), func(h *tar.Header, r io.Reader) error {
		text, err := io.ReadAll(r)
		if h.Name == ManifestFile {
			return json.Unmarshal(text, &m)
		}
		content[h.Name] = text
		order = append(order, h.Name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	change(&m, content)
	var out bytes.Buffer
	err = packed(&out, func(w *tar.Writer) error {
		text, err := m.encode()
		if err != nil {
			return err
		}
		content[ManifestFile] = text
		for _, name := range append([]string{ManifestFile}, order...) {
			text, ok := content[name]
			if !ok {
				continue
			}
			if err := w.WriteHeader(header(name, "", 0o644, int64(len(text)))); err != nil {
				return err
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
