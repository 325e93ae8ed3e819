package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func TestVersions(t *testing.T) {
	for tag, want := range map[string]string{
		"v0.9.0": "0.9.0", "v10.20.30": "10.20.30", "v1.0.0-rc.1": "1.0.0rc1", "v1.0.0-alpha.2": "1.0.0a2",
		"v1.0.0-beta.0": "1.0.0b0",
	} {
		if v, err := parseVersion(tag); err != nil || v.python != want || v.tag != tag {
			t.Errorf("%s: %+v, %v, want %s", tag, v, err, want)
		}
	}
	for _, tag := range []string{"", "v1", "v1.2", "1.2.3", "v01.2.3", "v1.2.3.4", "v1.2.3-rc1", "v1.2.3-dev.1",
		"v1.2.3+x", "v1.2.3-rc.01", "v1.2.3 ", "v1.2.3\nv1.2.4", "v1.2.3 -X main.x=y"} {
		if v, err := parseVersion(tag); err == nil || fault.HintOf(err) == "" {
			t.Errorf("%q: %+v, %v, want an error with a hint", tag, v, err)
		}
	}
}

// repository makes a repository of these files with one commit, the same wherever it is made.
func repository(t *testing.T, folder string, tags ...string) string {
	t.Helper()
	git(t, folder, "init", "-q", "-b", "main")
	git(t, folder, "add", "--all", "--force")
	git(t, folder, "commit", "-q", "-m", "all of it")
	for _, tag := range tags {
		git(t, folder, "tag", tag)
	}
	return folder
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=assay", "-c", "user.email=assay@example.invalid",
		"-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWhichVersion: the tag says it; without one, with several, with another than was asked for, or of a tree that is
// not what was committed, there is no release, and nothing is left behind.
func TestWhichVersion(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "README.md"), "one\n")
	repository(t, root)
	ctx := context.Background()
	open := func(o options) (*source, error) {
		t.Helper()
		o.root = root
		s, err := openSource(ctx, o)
		if err == nil {
			t.Cleanup(s.close)
		}
		return s, err
	}
	is := func(o options, want string) {
		t.Helper()
		if s, err := open(o); err != nil || s.version.tag != want {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	refused := func(o options, want string) {
		t.Helper()
		if _, err := open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	commit := strings.TrimSpace(git(t, root, "rev-parse", "HEAD"))[:12]
	refused(options{}, "it has no tag")
	is(options{version: "v0.9.0"}, "v0.9.0")
	is(options{dev: true}, "0.0.0.dev1+g"+commit)
	refused(options{dev: true, version: "v0.9.0"}, "one of them")
	refused(options{version: "0.9"}, "not of the form v1.2.3")

	git(t, root, "tag", "some-name")
	git(t, root, "tag", "v0.9.0")
	is(options{}, "v0.9.0")
	refused(options{version: "v0.9.1"}, "is v0.9.0")
	refused(options{epoch: "yesterday"}, "SOURCE_DATE_EPOCH")
	refused(options{epoch: "0"}, "1980")
	git(t, root, "tag", "v0.9.1")
	refused(options{}, "several tags: v0.9.0, v0.9.1")
	git(t, root, "tag", "-d", "v0.9.1")

	write(t, filepath.Join(root, "more.txt"), "two\n")
	refused(options{}, "differs from its commit (?? more.txt)")
	is(options{dev: true}, "0.0.0.dev1+g"+commit+".dirty")
	s, err := open(options{dev: true})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(s.tree, "more.txt")); err != nil || string(data) != "two\n" {
		t.Errorf("the tree as it stands: %q, %v", data, err)
	}
	if said := git(t, root, "status", "--porcelain"); said != "?? more.txt\n" {
		t.Errorf("the repository's own index was touched: %s", said)
	}

	out := filepath.Join(t.TempDir(), "dist")
	write(t, filepath.Join(out, "mine"), "")
	if err := release(ctx, options{root: root, out: out, dev: true, said: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "there already") {
		t.Errorf("a folder with files in it: %v", err)
	}
	out = filepath.Join(t.TempDir(), "dist")
	if err := release(ctx, options{root: root, out: out, dev: true, said: io.Discard}); err == nil {
		t.Error("a release of a tree that is no assay")
	}
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNothingButPlatforms(t *testing.T) {
	if got, err := choosePlatforms("darwin/arm64,linux/amd64"); err != nil || len(got) != 2 || got[0].os != "darwin" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choosePlatforms("linux/riscv64"); err == nil {
		t.Error("linux/riscv64 was taken")
	}
}

// TestRecord: what the wheel's RECORD says of each file is what lies in the wheel (PyPA, binary distribution format),
// and the program among the scripts can be executed.
func TestRecord(t *testing.T) {
	w := wheel{about: about{version: "1.2.3", summary: "short", description: "long\n"},
		binary: &built{platform: platform{"linux", "arm64"}, data: []byte("ELF")},
		plugin: []packed{{name: "assay_mps/__init__.py", data: []byte("x = 1\n")}},
		date:   time.Unix(1700000001, 0).UTC(), licences: []packed{{name: "LICENSE", data: []byte("text")}}}
	folder := t.TempDir()
	if err := w.write(folder); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(folder,
		"assay_mps-1.2.3-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	contents := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[f.Name] = string(data)
		executable := f.Mode()&0o111 != 0
		if executable != strings.HasSuffix(f.Name, "scripts/assay") {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
		if f.Modified.UTC().Unix() != 1700000001 {
			t.Errorf("%s is of %v", f.Name, f.Modified)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(contents["assay_mps-1.2.3.dist-info/RECORD"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(contents) {
		t.Errorf("%d rows for %d files", len(rows), len(contents))
	}
	for _, row := range rows {
		data, found := contents[row[0]]
		if !found {
			t.Errorf("no file %s", row[0])
		}
		if strings.HasSuffix(row[0], "/RECORD") {
			continue
		}
		sum := sha256.Sum256([]byte(data))
		if row[1] != "sha256="+base64.RawURLEncoding.EncodeToString(sum[:]) || row[2] != strconv.Itoa(len(data)) {
			t.Errorf("%v for %d bytes", row, len(data))
		}
	}
}

// TestDescriptionStandsAlone: what the index shows of the README points at no file of the repository.
func TestDescriptionStandsAlone(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	said := opening(string(readme))
	if !strings.Contains(said, "pip install "+distribution) || len(said) > 2000 {
		t.Errorf("the README's opening, %d bytes, does not say how to install, or is long:\n%s", len(said), said)
	}
	if link := regexp.MustCompile(`\]\((?:[^h)]|h[^t])[^)]*\)`).FindString(said); link != "" {
		t.Errorf("README.md, before its first heading: %s means nothing on the index: put it below", link)
	}
}

// TestManualIsRead: troff prints what the help says, to the letter, and lines of it are never taken for requests.
func TestManualIsRead(t *testing.T) {
	text := ".TH is no request here\n'nor this\n\nbackslash \\n, --flag, <this>, *.toml, `x`, it's ~5 ^2"
	page := ".TH X 1 \"\" assay\n.SH NAME\nx \\- y\n.SH DESCRIPTION\n" + paragraphs(text)
	for line := range strings.Lines(paragraphs(text)) {
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && line != ".PP\n" {
			t.Errorf("a request: %s", line)
		}
	}
	man, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not here: how the page is shown was not looked at")
	}
	cmd := exec.Command(man, "-man", "-Tutf8", "-P-cbou", "-rLL=200n")
	cmd.Stdin = strings.NewReader(page)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{".TH is no request here 'nor this",
		"backslash \\n, --flag, <this>, *.toml, `x`, it's ~5 ^2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("not shown: %s\nin %s", want, out)
		}
	}
}

// TestEachCommandHasAPage: of the manual, and each shell its completions.
func TestEachCommandHasAPage(t *testing.T) {
	folder := t.TempDir()
	if err := writePages(folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"completions/bash/assay", "completions/zsh/_assay", "completions/fish/assay.fish",
		"man/man1/assay.1", "man/man1/assay-ops.1", "man/man1/assay-signatures-replay.1"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Contains(data, []byte("assay")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "man/man1/assay-witness.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

// TestBuiltOtherwise: what was built otherwise than asked for is no release: here the program of this test.
func TestBuiltOtherwise(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	b := &built{platform: platform{"linux", "amd64"}, info: info}
	if err := b.check(); err == nil || !strings.Contains(err.Error(), "built with") {
		t.Errorf("%v, want that it was built otherwise", err)
	}
}
