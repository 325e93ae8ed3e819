package bundle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nasty are values that a unit has to hand on as they are.
var nasty = map[string]string{"PLAIN": "1", "EMPTY": "", "SPACES": "  a  b ", "QUOTES": `a "b" 'c' ` + "`d`",
	"BACKSLASH": `a\b\n\`, "PERCENT": "100 % %h %%", "DOLLAR": "$HOME ${PATH} $$ $(id)", "LINES": "a\nb\n",
	"TAB": "a\tb", "SEMICOLON": "; # x", "XML": "<a>&amp;</a>]]>", "ÜNI_VALUE": "x", "UNI": "naïve 日本 🍏",
	"EQUALS": "a=b=c", "CONTINUED": "a \\\n b", "DASH": "--x", "_U": "@ROOT@"}

func nastyUnit() Unit {
	u := Unit{Name: "assay.x-1", Dir: "/srv/a b/100%/$x", Logs: "/srv/a b/100%/logs", Variables: map[string]string{}}
	u.Words = []string{"/srv/a b/%p/bin/python"}
	for name, value := range nasty {
		if Settable(name, value) == "" {
			u.Variables[name] = value
		}
		u.Words = append(u.Words, value)
	}
	u.Words = append(u.Words, ";", "-x", "@y")
	return u
}

func TestLaunchdReadBack(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the oracle is Python's plistlib, and there is no python3")
	}
	u := nastyUnit()
	u.Needed = []string{"HF_TOKEN", "WANDB_API_KEY"}
	text, err := u.Launchd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", "import json, plistlib, sys; json.dump(plistlib.loads(sys.stdin.buffer.read()), sys.stdout)")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, text)
	}
	var got struct {
		Label                string
		ProgramArguments     []string
		WorkingDirectory     string
		EnvironmentVariables map[string]string
		StandardOutPath      string
		RunAtLoad            bool
		ProcessType          string
		ExitTimeOut          int
		KeepAlive            any
		UserName             string
		Session              string `json:"LimitLoadToSessionType"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(u.Words, got.ProgramArguments); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(u.Variables, got.EnvironmentVariables); diff != "" {
		t.Error(diff)
	}
	if got.Label != u.Name || got.WorkingDirectory != u.Dir || got.StandardOutPath != u.Logs+"/stdout.log" ||
		!got.RunAtLoad || got.ProcessType != "Interactive" || got.ExitTimeOut != unitStop || got.KeepAlive != nil ||
		got.UserName != "" || got.Session != "Background" {
		t.Errorf("%+v", got)
	}
}

// TestSystemdReadBack reads the unit by the rules of systemd.syntax(7), and where it is installed asks systemd itself.
func TestSystemdReadBack(t *testing.T) {
	u := nastyUnit()
	text, err := u.Systemd()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, `\`) {
			t.Errorf("goes on in the next line: %s", line)
		}
		if value, ok := strings.CutPrefix(line, "Environment="); ok {
			words := systemdWords(t, value)
			if len(words) != 1 {
				t.Fatalf("%q", words)
			}
			name, value, _ := strings.Cut(words[0], "=")
			got[name] = value
		}
		if value, ok := strings.CutPrefix(line, "ExecStart="); ok {
			words := systemdWords(t, value)
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "$$", "$")
			}
			if diff := cmp.Diff(u.Words, words); diff != "" {
				t.Error(diff)
			}
		}
	}
	if diff := cmp.Diff(u.Variables, got); diff != "" {
		t.Error(diff)
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here to be asked as well")
	}
	path := filepath.Join(t.TempDir(), "x.service")
	u.Words[0], u.Dir, u.Logs = "/bin/true", "/", "/tmp"
	if text, err = u.Systemd(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(analyze, "verify", "--user", "--man=no", path)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=debug", "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, value := range u.Variables {
		if !strings.Contains(string(out), "Environment: "+name+"="+value+"\n") {
			t.Errorf("systemd does not read %s=%q", name, value)
		}
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "x.service:") && strings.Contains(line, "gnoring") {
			t.Error(line)
		}
	}
}

// systemdWords takes a line's value apart: words in double quotes, escapes as in C, specifiers doubled.
func systemdWords(t *testing.T, s string) []string {
	t.Helper()
	var words []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var b strings.Builder
		i := 1
		for ; s[i] != '"'; i++ {
			switch {
			case s[i] == '\\':
				i++
				b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', '\\': '\\', '"': '"'}[s[i]])
			case s[i] == '%':
				if i++; s[i] != '%' {
					t.Fatalf("the specifier %%%c", s[i])
				}
				b.WriteByte('%')
			default:
				b.WriteByte(s[i])
			}
		}
		words = append(words, b.String())
		s = s[i+1:]
	}
	return words
}

func TestUnitsRefuse(t *testing.T) {
	for _, u := range []Unit{
		{Words: []string{"/x", "a\x1b[0m"}, Dir: "/", Logs: "/"},
		{Words: []string{"/x"}, Dir: "/a\nb", Logs: "/"},
		{Words: []string{"/x"}, Dir: `/a\`, Logs: "/"},
		{Words: []string{"/x"}, Dir: "/", Logs: "/", Variables: map[string]string{"A": "\xff"}},
		{Words: []string{"/x"}, Dir: "/", Logs: "/", Variables: map[string]string{"A.B": "x"}},
		{Words: []string{"/x"}, Dir: "/", Logs: "/", Variables: map[string]string{"A": "a\rb"}},
		{Dir: "/", Logs: "/"},
		{Words: []string{"/x"}, Dir: "/", Logs: "/", Name: "a\nExecStartPre=/bin/false"},
		{Words: []string{"/x"}, Dir: "/", Logs: "/", Needed: []string{"A\nExecStartPre=/bin/false"}},
	} {
		if u.Name == "" {
			u.Name = "x"
		}
		if text, err := u.Launchd(); err == nil {
			t.Errorf("%+v: %s", u, text)
		}
		if text, err := u.Systemd(); err == nil {
			t.Errorf("%+v: %s", u, text)
		}
	}
}
