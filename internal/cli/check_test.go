package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"assay/internal/audit"
	"assay/internal/audit/rules"
	"assay/internal/testkit"
)

const onCUDA = "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nx = torch.zeros(2)  # assay: allow cuda-call -- not any more\n"

// TestCheckFix: --diff changes nothing and applies as a patch; --fix makes the same of the file, and a second time
// nothing.
func TestCheckFix(t *testing.T) {
	dir, patched := t.TempDir(), t.TempDir()
	source := "import torch\r\n\r\nif torch.cuda.is_available():\r\n    device = \"cuda\"\r\nelse:\r\n    device = \"cpu\"\r\nx = torch.zeros(2).double().to(\"mps\")\r\n" +
		"y = torch.zeros(2)  # assay: allow cuda-call -- é\r\nm = torch.compile(torch.nn.Linear(2, 2), backend=\"mps\")"
	for _, d := range []string{dir, patched} {
		write(t, filepath.Join(d, "a.py"), source)
		write(t, filepath.Join(d, "b.py"), onCUDA)
	}
	diff, _, _ := command(t, dir, nil, "check", "--diff", "--unsafe-fixes")
	if raw, err := os.ReadFile(filepath.Join(dir, "a.py")); err != nil || string(raw) != source {
		t.Fatalf("--diff changed the file: %v", err)
	}
	cmd := exec.Command("patch", "--binary", "-s", "-p0")
	cmd.Dir, cmd.Stdin = patched, strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v %s\n%s", err, out, diff)
	}
	if out, errs, _ := command(t, dir, nil, "check", "--fix", "--unsafe-fixes"); !strings.Contains(out, "fixed.") {
		t.Errorf("%s%s", out, errs)
	}
	for _, name := range []string{"a.py", "b.py"} {
		want, err := os.ReadFile(filepath.Join(patched, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) ||
			bytes.Count(got, []byte("\r\n")) != bytes.Count(got, []byte("\n")) && name == "a.py" {
			t.Errorf("%s: %v: fixed\n%q\npatched\n%q", name, err, got, want)
		}
	}
	if out, _, _ := command(t, dir, nil, "check", "--diff", "--unsafe-fixes"); out != "" {
		t.Errorf("there is more to fix:\n%s", out)
	}
}

// TestWatch: each tick looks, and only a change checks again.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "train.py")
	write(t, path, "import torch\n")
	ticks, seen := make(chan time.Time), make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- watchFiles(ctx, &Env{Dir: dir, Stderr: os.Stderr}, []string{"."}, nil, ticks, func() error {
			text, err := os.ReadFile(path)
			seen <- string(text)
			return err
		})
	}()
	ticks <- time.Time{} // nothing has changed; that this one is over shows in the next being taken
	for _, text := range []string{"import torch  # one\n", "import torch, os\n"} {
		ticks <- time.Time{}
		write(t, path+".new", text) // a file half written would be seen as well
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		select {
		case ticks <- time.Time{}:
			if got := <-seen; got != text {
				t.Errorf("seen %q, want %q", got, text)
			}
		case got := <-seen: // the tick before has seen it already
			if got != text {
				t.Errorf("seen %q, want %q", got, text)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

const rulesPage = "../../docs/rules.md"

// TestRulesPage: docs/rules.md is what the rules say of themselves; -update rewrites it.
func TestRulesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Rules\n\nWhat `assay check` looks for. Made from the rules themselves: `go test ./internal/cli -run TestRulesPage -update` writes this page.\n" +
		"[check.md](check.md) says how the check is used.\n\n| rule | finds | is |\n| --- | --- | --- |\n")
	for _, r := range rules.All {
		title := strings.ReplaceAll(r.Title, "|", `\|`)
		b.WriteString("| [" + r.Name + "](#" + r.Name + ") | " + title + " | " + string(r.Severity) + " |\n")
	}
	for _, r := range rules.All {
		b.WriteString("\n#" + audit.Page(r))
	}
	if *update {
		if err := os.WriteFile(rulesPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page, err := os.ReadFile(rulesPage); err != nil || string(page) != b.String() {
		t.Errorf("docs/rules.md is stale (%v): go test ./internal/cli -run TestRulesPage -update", err)
	}
}

// TestInitEntry: what init writes for pre-commit is YAML that pre-commit can read.
func TestInitEntry(t *testing.T) {
	dir := t.TempDir()
	if out, errs, code := command(t, dir, nil, "init", "--torch", "2.8"); code != 0 {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	raw, err := os.ReadFile(filepath.Join(dir, ".pre-commit-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Repos []struct {
			Repo  string
			Hooks []struct{ ID, Entry, Language string }
		}
	}
	if err := yaml.Unmarshal(raw, &config); err != nil || len(config.Repos) != 1 ||
		config.Repos[0].Hooks[0].ID != "assay" {
		t.Errorf("%v: %+v", err, config)
	}
}

// TestHeaderRuns: under CPython with a torch without MPS the header says what is wrong, and before that what else can
// be.
func TestHeaderRuns(t *testing.T) {
	python := testkit.Python(t)
	dir := t.TempDir()
	if out, errs, code := command(t, dir, nil, "init"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	for _, c := range []struct{ source, variable, says string }{
		{"import mps_header", "", "was not built with MPS"},
		{"import mps_header", "PYTORCH_ENABLE_MPS_FALLBACK=1", "unset it"},
		{"import sys; sys.modules['torch'] = sys; import mps_header", "", "before torch"},
	} {
		cmd := exec.Command(python, "-c", c.source)
		cmd.Dir = dir
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, "PYTORCH_ENABLE_MPS_FALLBACK=") {
				cmd.Env = append(cmd.Env, e)
			}
		}
		if c.variable != "" {
			cmd.Env = append(cmd.Env, c.variable)
		}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s with %q: %v\n%s", c.source, c.variable, err, out)
		}
	}
}

// TestPreCommitHooks: the entry for pre-commit names a command and flags that there are.
func TestPreCommitHooks(t *testing.T) {
	raw, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct{ ID, Name, Entry, Language string }
	if err := yaml.Unmarshal(raw, &hooks); err != nil || len(hooks) == 0 {
		t.Fatalf("%v: %v", err, hooks)
	}
	for _, h := range hooks {
		words := strings.Fields(h.Entry)
		cmd, rest, err := newRootCommand(&Env{}).Find(words[1:])
		if err != nil || words[0] != "assay" || cmd.Name() != "check" {
			t.Errorf("%s: %v", h.Entry, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", h.Entry, err)
		}
	}
}
