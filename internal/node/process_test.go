package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// TestParseStat: lines of /proc/PID/stat, recorded on Linux 6.
func TestParseStat(t *testing.T) {
	const rest = " 0 -1 4194560 1 0 0 0 3 2 0 0 20 0 %d 0 425007 1 2"
	line := func(head, threads string) string { return head + strings.ReplaceAll(rest, "%d", threads) }
	for text, want := range map[string]process{
		line("8386 (assay-0.1-0) S 8370 8386 8386", "9"): {8386, 425007, 8370, false},
		line("12 (a) b) (c) R 1 1 1", "1"):               {12, 425007, 1, false},
		line("12 (gone) Z 7 1 1", "1"):                   {12, 425007, 7, true},
		line("12 (its threads go on) Z 7 1 1", "3"):      {12, 425007, 7, false},
		line("12 (new\nline) X 7 1 1", "1"):              {12, 425007, 7, true},
	} {
		if got, err := parseStat([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, want %+v; %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "12", "12 (a", ") 12 (", "x (a) " + rest, "12 (a) S 1 2 3",
		line("12 (a) S x 1 1", "1"), line("12 (a) S 1 1 1", "x")} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestParseProcargs: the form that xnu's sysctl_procargsx writes (bsd/kern/kern_sysctl.c).
func TestParseProcargs(t *testing.T) {
	const args = "/opt/python\x00\x00\x00\x00\x00python3\x00train.py\x00"
	const variables = "A=1\x00ASSAY_JOB_MARK=ab\x00"
	for text, want := range map[string]string{
		"\x02\x00\x00\x00" + args + variables + "\x00\x00executable_path=": variables,
		"\x02\x00\x00\x00" + args + "A=1\x00":                              "A=1\x00",
		"\x02\x00\x00\x00" + args:                                          "", // macOS tells none of its own programs
		"\x09\x00\x00\x00" + args:                                          "",
		"\xff\xff\xff\x7f" + args:                                          "",
		"\x02\x00\x00\x00/opt/python":                                      "",
		"\x02\x00":                                                         "",
		"":                                                                 "",
	} {
		if got := string(parseProcargs([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestHasVariable: the whole of a variable, and no part of another.
func TestHasVariable(t *testing.T) {
	for text, want := range map[string]bool{
		"A=1\x00M=ab\x00": true, "M=ab": true, "M=abc\x00": false, "XM=ab\x00": false, "A=M=ab\x00": false, "": false,
		"M=a\x00b\x00": false,
	} {
		if got := hasVariable([]byte(text), "M=ab"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestLoginEnviron: what profiles set is there, what they print is not, and what is the connection's own is left out.
func TestLoginEnviron(t *testing.T) {
	shell := filepath.Join(t.TempDir(), "shell")
	write := func(script string) {
		if err := os.WriteFile(shell, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SHELL", shell)
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent")
	t.Setenv("OF_CONNECTION", "1")
	write(`echo Welcome; FROM_PROFILE="two
lines" SSH_CLIENT=1; export FROM_PROFILE SSH_CLIENT; [ "$1 $2" = "-l -c" ] && eval "$3"; echo Bye`)
	got := loginEnviron(testkit.Assay(t))
	for _, want := range []string{"FROM_PROFILE=two\nlines", "OF_CONNECTION=1"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q: %q", want, got)
		}
	}
	write("echo this account is not available; exit 1")
	silent := loginEnviron(testkit.Assay(t))
	if !slices.Contains(silent, "OF_CONNECTION=1") {
		t.Errorf("a shell that says nothing: %q", silent)
	}
	for _, e := range slices.Concat(got, silent) {
		if strings.HasPrefix(e, "SSH_") || strings.Contains(e, "Welcome") || strings.Contains(e, "Bye") {
			t.Errorf("of the connection: %q", e)
		}
	}
}

// TestOpen: what can be read of a job is what the protocol names, as an ordinary file within its folder.
func TestOpen(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := makeFolder(jobsFolder(t), shell("job", "true"))
	if err != nil {
		t.Fatal(err)
	}
	run := p.file(runFolder)
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"evidence.json": func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"report.html":   func(path string) error { return os.Symlink(outside, path) },
		"events.jsonl":  func(path string) error { return os.Symlink("../job.json", path) },
		"trace.json.gz": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		if err := make(filepath.Join(run, name)); err != nil {
			t.Fatal(err)
		}
	}
	into := make([]byte, 10)
	if n, size, err := p.read("evidence.json", 1, into); err != nil || string(into[:n]) != "}" || size != 2 {
		t.Errorf("%q, %d, %v", into[:n], size, err)
	}
	if n, size, err := p.read("evidence.json", 9, into); err != nil || n != 0 || size != 2 {
		t.Errorf("behind its end: %d, %d, %v", n, size, err)
	}
	if _, _, err := p.read("evidence.json", -1, into); err == nil {
		t.Error("before its beginning")
	}
	for _, name := range []string{"report.html", "events.jsonl", "trace.json.gz", "job.json", "../job.json",
		"run/evidence.json", "state.json", "", ".", "stdout", outside} {
		if n, _, err := p.read(name, 0, into); err == nil || n > 0 {
			t.Errorf("%s: %q, %v", name, into[:n], err)
		}
	}
	if got := p.sizes(); len(got) != 1 || got["evidence.json"] != 2 {
		t.Errorf("%v", got)
	}
	// The folder itself is a link.
	if err := os.Rename(run, p.file("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", run); err != nil {
		t.Fatal(err)
	}
	if n, _, err := p.read("evidence.json", 0, into); err == nil {
		t.Errorf("through a link: %q", into[:n])
	}
}

// TestPrinted: of a job that prints without end the beginning and the end are kept, and how much is not is said.
func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		printed int // bytes beyond the room
		out     string
	}{{0, ""}, {-5, ""}, {lastPrinted, ""}, {lastPrinted + 1, "assay: 1 bytes are left out here"},
		{10 * lastPrinted, "assay: 2359296 bytes are left out here"}} {
		path := filepath.Join(t.TempDir(), Stdout)
		p, err := newPrinted(path)
		if err != nil {
			t.Fatal(err)
		}
		const room = 1000
		p.room = room
		all := bytes.Repeat([]byte("0123456789abcde\n"), (room+c.printed)/16+1)[:room+c.printed]
		p.copy(bytes.NewReader(all))
		p.close()
		<-p.done
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := all[:min(len(all), room)], all[len(all)-min(len(all), lastPrinted):]
		switch {
		case c.out == "" && !bytes.Equal(got, all):
			t.Errorf("%d: %d bytes, want %d", c.printed, len(got), len(all))
		case c.out != "" && (!bytes.HasPrefix(got, begin) || !bytes.HasSuffix(got, end) ||
			!bytes.Contains(got, []byte(c.out)) || len(got) > room+lastPrinted+100):
			t.Errorf("%d: %d bytes: %.100q", c.printed, len(got), got[room:])
		}
		if p.trouble() != "" {
			t.Error(p.trouble())
		}
	}
}
