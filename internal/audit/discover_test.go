package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.excludesFile="}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: no path is ignored
		t.Fatalf("git %v: %v %s", args, err, errs.String())
	}
	return out.String()
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestIgnoredAsGitSays: of a repository with .gitignore files in several folders, what is searched is what `git
// check-ignore` does not name.
func TestIgnoredAsGitSays(t *testing.T) {
	patterns := []string{"*.py", "!keep.py", "a/", "/a", "a/*", "a/**", "**/b", "**/b/", "b/**/c.py", "c?py", "[ab]",
		"[!a-b].py", "!a/", "\\!x.py", "#no", "\\#x.py", "x.py ", "x.py\\ ",
		"a/b", "/a/b/", "*", "!*/", "!/keep.py", "b*", "*b*.py", "**", "[[:alpha:]].py", "a/**/c.py", "**/", "/", "[a",
		"a[/]b", "x.*", "é.py", "d/../a", "!b/keep.py", "[]a].py", "[^x].py", "\r", "c.py\r", "*/c.py", "/*/b"}
	names := []string{"keep.py", "x.py", "c.py", "!x.py", "#x.py", "a.py", "é.py", "b.py", "x.py "}
	dirs := []string{"", "a", "b", "d", "a/b", "a/d", "b/a", "a/b/d", "b/d"}
	random := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	var all []string
	for _, d := range dirs {
		for _, n := range names {
			all = append(all, filepath.ToSlash(filepath.Join(d, n)))
			put(t, filepath.Join(dir, d, n), "")
		}
	}
	for round := range 120 {
		said := ""
		os.Remove(filepath.Join(dir, ".git/info/exclude"))
		for _, d := range dirs {
			os.Remove(filepath.Join(dir, d, ".gitignore"))
		}
		for _, d := range append([]string{".git/info"}, dirs...) {
			if d != "" && random.IntN(3) > 0 {
				continue
			}
			var lines []string
			for range 1 + random.IntN(4) {
				lines = append(lines, patterns[random.IntN(len(patterns))])
			}
			name := ".gitignore"
			if d == ".git/info" {
				name = "exclude"
			}
			put(t, filepath.Join(dir, d, name), strings.Join(lines, "\n"))
			said += fmt.Sprintf("%s/%s: %q\n", d, name, lines)
		}
		ignored := strings.Split(strings.TrimSuffix(git(t, dir, strings.Join(all, "\x00")+"\x00", "check-ignore", "-z",
			"--stdin", "--no-index"), "\x00"), "\x00")
		var want []string
		for _, f := range all {
			if !slices.Contains(ignored, f) && KindOf(f) != "" {
				want = append(want, f)
			}
		}
		found, err := Discover(dir, []string{"."}, nil)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Fatalf("round %d:\n%sgit leaves %q\nsearched %q", round, said, want, found)
		}
		for _, f := range all {
			if KindOf(f) != "" && Excluded(dir, filepath.Join(dir, f), nil) == slices.Contains(want, f) {
				t.Fatalf("round %d: %s: Excluded and Discover disagree\n%s", round, f, said)
			}
		}
		sub, err := Discover(dir, []string{"d"}, nil) // patterns of the folders above hold in a part, too
		if err != nil {
			t.Fatal(err)
		}
		below := slices.DeleteFunc(slices.Clone(want), func(f string) bool { return !strings.HasPrefix(f, "d/") })
		slices.Sort(sub)
		if len(below) > 0 && !slices.Equal(sub, below) {
			t.Fatalf("round %d:\n%sof d, git leaves %q\nsearched %q", round, said, below, sub)
		}
	}
}

// TestDiscover: what is taken besides: named files always, environments and caches never, exclude's patterns from
// their own folder on.
func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"train.py", "n.ipynb", "notes.txt", "requirements-dev.txt", "pyproject.toml",
		"environment.yml", "src/m.py", "src/gen/g.py", "env/pyvenv.cfg", "env/lib/x.py",
		"node_modules/x.py", "other/gen/g.py", "run"} {
		put(t, filepath.Join(dir, f), "")
	}
	if err := os.Symlink(filepath.Join(dir, "train.py"), filepath.Join(dir, "link.py")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths   string
		exclude []Exclude
		want    string
	}{
		{".", nil, "environment.yml n.ipynb other/gen/g.py pyproject.toml requirements-dev.txt src/gen/g.py src/m.py " +
			"train.py"},
		{"src run", []Exclude{{dir, []string{"src/gen/"}}}, "src/m.py run"},
		{".", []Exclude{{filepath.Join(dir, "src"), []string{"gen/"}},
			{dir, []string{"*.ipynb", "!n.ipynb", "*.toml", "*.yml", "*.txt"}}},
			"n.ipynb other/gen/g.py src/m.py train.py"},
		{"src src/m.py src/gen/g.py", []Exclude{{dir, []string{"gen"}}}, "src/m.py src/gen/g.py"},
	} {
		found, err := Discover(dir, strings.Fields(c.paths), c.exclude)
		if got := strings.Join(found, " "); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", c.paths, err, got, c.want)
		}
	}
	if _, err := Discover(dir, []string{"none"}, nil); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("a path that is not there: %v", err)
	}
}

// TestDiscoverGoesOn: a folder below that cannot be read is passed over, the one that was named is not; a .gitignore
// that is no such file any more says nothing.
func TestDiscoverGoesOn(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := (&walker{}).walk(gone, "below", nil); err != nil {
		t.Errorf("a folder below: %v", err)
	}
	if err := (&walker{}).walk(gone, "", nil); err == nil {
		t.Error("the folder that was named")
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x.py"), "")
	for size, want := range map[int]int{10: 0, maxIgnore: 1} {
		put(t, filepath.Join(dir, ".gitignore"), "*.py\n"+strings.Repeat("#", size))
		if found, err := Discover(dir, []string{"."}, nil); err != nil || len(found) != want {
			t.Errorf("with %d bytes: %v %v", size, found, err)
		}
	}
}
