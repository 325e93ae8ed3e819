package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/internal/testkit"
)

// bareEnviron is the environment of a unit, a container or launchd: a short PATH and nothing else but what is named.
func bareEnviron(t *testing.T, dir string, environ []string, args ...string) testkit.Outcome {
	t.Helper()
	words := append([]string{"env", "-i", "PATH=/usr/bin:/bin"}, environ...)
	return testkit.Execute(t, dir, nil, append(words, args...)...)
}

// TestPlaces: a run starts, is watched and is kept wherever there is a folder for it, as Python's tempfile finds one.
func TestPlaces(t *testing.T) {
	python, assay := testkit.Python(t), testkit.Assay(t)
	for _, c := range []struct {
		name    string
		environ []string
	}{
		{"TMPDIR that is not there", []string{"TMPDIR=/no/such/folder"}},
		{"TMPDIR that is a file", []string{"TMPDIR=/etc/passwd"}},
		{"TMPDIR that is too long for a socket", []string{"TMPDIR={dir}/" + strings.Repeat("long", 25)}},
		{"no HOME", nil},
		{"HOME that is not there", []string{"HOME=/nonexistent"}},
		{"HOME that is a file", []string{"HOME=/etc/passwd"}},
		{"cache that cannot be made", []string{"ASSAY_CACHE=/etc/passwd/cache"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_ = os.Mkdir(filepath.Join(dir, strings.Repeat("long", 25)), 0o755)
			var environ []string
			for _, e := range c.environ {
				environ = append(environ, strings.ReplaceAll(e, "{dir}", dir))
			}
			got := bareEnviron(t, dir, environ, append(unrecorded(t, dir), python, "-c",
				"print('trained'); raise SystemExit(6)")...)
			if got.Code != 6 || got.Stdout != "trained\n" || got.Stderr != "" {
				t.Errorf("%+v", got)
			}
			if run := testkit.LoadRun(t, filepath.Join(dir, "run")); len(run.Processes) != 1 {
				t.Errorf("not watched: %+v", run.Outcome)
			}
		})
	}
	t.Run("nowhere", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("root alone can take every folder away from a user that has no entry and no home")
		}
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			t.Skip(err)
		}
		dir := t.TempDir() // of root: the user may enter it, and not write
		for d := dir; d != "/"; d = filepath.Dir(d) {
			if info, err := os.Stat(d); err != nil || info.Mode()&1 == 0 {
				_ = os.Chmod(d, 0o755)
			}
		}
		binary := filepath.Join(dir, "assay")
		if data, err := os.ReadFile(assay); err != nil || os.WriteFile(binary, data, 0o755) != nil {
			t.Fatal(err)
		}
		as := []string{setpriv, "--reuid=54321", "--regid=54321", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"}
		got := testkit.Execute(t, dir, nil, append(as, binary, "run", "--", "sh", "-c", "echo trained; exit 6")...)
		if got.Code != 6 || got.Stdout != "trained\n" || !strings.Contains(got.Stderr, "the run is kept in /") {
			t.Errorf("a user without entry, home, or a working folder to write to: %+v", got)
		}
		private := "/tmp/assay-uid-54321"
		defer os.RemoveAll(private)
		if info, err := os.Lstat(private); err != nil || info.Mode().Perm() != 0o700 ||
			info.Sys().(*syscall.Stat_t).Uid != 54321 {
			t.Errorf("%v %v", info, err)
		}
		if kept, _ := filepath.Glob(filepath.Join(private, "runs", "*", "evidence.json")); len(kept) != 1 {
			t.Errorf("kept: %v", kept)
		}
		// Someone else was there first, with a folder or a link of that name: it is not entered.
		for i, make := range []func(path string) error{
			func(path string) error { return os.Mkdir(path, 0o777) },
			func(path string) error { return os.Symlink(dir, path) },
		} {
			os.RemoveAll(private)
			if err := make(private); err != nil {
				t.Fatal(err)
			}
			got := testkit.Execute(t, dir, nil, append(as, binary, "run", "--", "sh", "-c", "echo trained; exit 6")...)
			if got.Code != 6 || strings.Contains(got.Stderr, " "+private) &&
				!strings.Contains(got.Stderr, "another user's") && !strings.Contains(got.Stderr, "no folder") {
				t.Errorf("%d: %+v", i, got)
			}
			if entries, _ := os.ReadDir(private); i == 0 && len(entries) > 0 {
				t.Errorf("%d: %v", i, entries)
			}
			os.RemoveAll("/var/tmp/assay-uid-54321")
		}
	})
}

// TestUnwatched: where nothing can be written anywhere the training starts all the same, and assay says at once that it
// will know nothing.
func TestUnwatched(t *testing.T) {
	assay := testkit.Assay(t)
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and unshare to mount everything read-only")
	}
	const readOnly = `for m in $(awk '{print $2}' /proc/mounts | sort -r); do mount -o remount,bind,ro "$m" 2>/dev/null; done; cd /; exec "$@"`
	got := testkit.Execute(t, "/", nil, unshare, "-m", "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh",
		"-c",
		"touch /tmp/probe-assay 2>/dev/null; "+readOnly, "sh", "sh", "-c",
		`if touch /tmp/assay-probe 2>/dev/null; then rm /tmp/assay-probe; exit 99; fi; exec "$@"`, "sh",
		assay, "run", "--", "sh", "-c", "echo trained; exit 6")
	if got.Code == 99 || strings.Contains(got.Stderr, "unshare") {
		t.Skip("nothing can be mounted read-only here: ", got.Stderr)
	}
	if got.Code != 6 || got.Stdout != "trained\n" || !strings.Contains(got.Stderr,
		"\nassay: the script runs unwatched: ") {
		t.Errorf("%+v", got)
	}
}

// TestSwept: what a killed run left in the folder for temporary files is removed by the next; what lives, and what is
// not assay's, stays.
func TestSwept(t *testing.T) {
	python, dir := testkit.Python(t), t.TempDir()
	temp := filepath.Join(dir, "t")
	if err := os.MkdirAll(filepath.Join(temp, "assay-run-notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(temp, "assay-2026", "s"), 0o755); err != nil { // a user's own: no socket in it
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(temp, "assay-run-1")); err != nil {
		t.Fatal(err)
	}
	testkit.Assay(t) // built before TMPDIR changes: it lies in there
	t.Setenv("TMPDIR", temp)
	sockets := func() []string {
		found, _ := filepath.Glob(filepath.Join(temp, "assay-run-*", "s"))
		return found
	}
	start := func(name string) *talk {
		k := startTalk(t, dir, testkit.Assay(t), "run", "-q", "--logbook", "off", "--out", name, "--", python, "-c",
			"print('ready', flush=True); input()")
		k.line(t)
		return k
	}
	killed, living := start("killed"), start("living")
	_ = killed.cmd.Process.Kill()
	killed.wait(t, 0)
	next := func() {
		testkit.Execute(t, dir, nil, append(unrecorded(t, t.TempDir()), "true")...)
	}
	if next(); len(sockets()) != 2 {
		t.Errorf("the socket of a script that has outlived its assay, or of one that lives, is gone: %v", sockets())
	}
	killed.in.Close() // the script ends
	for killed.lines != nil {
		if _, err := killed.lines.ReadString('\n'); err != nil {
			break
		}
	}
	// Its parent is whoever adopts orphans: until that one has waited for it, it is still there.
	for range 100 {
		if next(); len(sockets()) == 1 {
			break
		}
	}
	if len(sockets()) != 1 {
		t.Errorf("not swept: %v", sockets())
	}
	_, _ = living.in.Write([]byte("\n"))
	if got := ending(living.wait(t, 0)); got != "status 0" {
		t.Error(got)
	}
	if left, _ := os.ReadDir(temp); fmt.Sprint(left) != "[d assay-2026/ L assay-run-1 d assay-run-notes/]" {
		t.Errorf("%v", left)
	}
}

// TestDetached: started as a long run is, without a terminal, a home or an end of the session, the run is watched and
// kept.
func TestDetached(t *testing.T) {
	python := testkit.Python(t)
	for _, c := range []struct{ name, shell string }{
		{"nohup", `nohup "$@" </dev/null >out 2>&1 & wait $!`},
		{"setsid", `setsid -w "$@" </dev/null >out 2>&1`},
		{"background", `"$@" </dev/null >out 2>&1 & wait $!`},
		{"unit", `cd "$PWD" && exec env -i PATH=/usr/bin:/bin setsid -w "$@" </dev/null >out 2>&1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("setsid"); err != nil && strings.Contains(c.shell, "setsid") {
				t.Skip(err)
			}
			dir := t.TempDir()
			script := "import signal\nprint([signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)])\nraise SystemExit(6)"
			run := func(args ...string) string {
				args = append([]string{"bash", "-c", c.shell, "bash"}, args...)
				got := testkit.Execute(t, dir, nil, append(args, python, "-c", script)...)
				out, _ := os.ReadFile(filepath.Join(dir, "out"))
				return fmt.Sprintf("%s%s%d", strings.ReplaceAll(string(out), "nohup: ignoring input\n", ""), got.Stderr,
					got.Code)
			}
			bare, watched := run(), run(unrecorded(t, dir)...)
			if bare != watched {
				t.Errorf("bare %s, watched %s", bare, watched)
			}
			if run := testkit.LoadRun(t, filepath.Join(dir, "run")); !run.Outcome.Started || len(run.Processes) != 1 {
				t.Errorf("%+v", run.Outcome)
			}
		})
	}
}
