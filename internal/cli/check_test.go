package cli

import (
	"bytes"
	"context"
	"encoding/json"
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

// input runs assay with something on standard input.
func input(t *testing.T, dir, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(&Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Dir: dir, Now: time.Now}, args)
	return out.String(), errs.String(), code
}

func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"train.py": onCUDA, "fine.py": "import torch\n", "broken.py": "import torch\ndef (:\n", "open.py": "import torch\n\ndef f(x):\n    return x.double()\n",
		"assay.toml": "[check]\nexclude = [\"skipped.py\"]\n", "skipped.py": onCUDA} {
		write(t, filepath.Join(dir, name), text)
	}
	for _, c := range []struct {
		args  string
		code  int
		says  string
		error string
	}{
		{"check", 3, "train.py:3:", ""},
		{"check .", 3, "broken.py:2: not checked: syntax error", ""},
		{"check train.py", 3, "[cuda-call]", ""},
		{"check train.py --exit-zero", 0, "[cuda-call]", ""},
		{"check fine.py", 0, "Nothing found in 1 file (for mps, torch 2.15.0)", ""},
		{"check fine.py --torch 2.8 --macos 15", 0, "torch 2.8.0", ""},
		{"check train.py --device cuda", 0, "cuda", ""},
		{"check train.py --ignore cuda-call", 0, "Nothing found", ""},
		{"check train.py --select nccl-backend", 0, "Nothing found", ""},
		{"check train.py --select cuda-cal", 2, "", "did you mean cuda-call?"},
		{"check none.py", 2, "", "no such file"},
		{"check train.py --torch 1.4", 2, "", "the nearest is"},
		{"check train.py --device tpu", 2, "", "no device to aim at"},
		{"check train.py --macos 9", 2, "", "no release of macOS"},
		{"check train.py --format xml", 2, "", "text, concise"},
		{"check train.py --unsafe-fixes", 2, "", "--diff"},
		{"check train.py --watch --fix", 2, "", "--watch only looks"},
		{"check skipped.py", 3, "[cuda-call]", ""}, // it is named
		{"check skipped.py --force-exclude", 0, "Nothing found in 0 files", ""},
		{"check train.py --baseline none.json", 2, "", "--write-baseline"},
		{"rule cuda-call", 0, "# cuda-call", ""},
		{"rule cuda-cal", 2, "", "did you mean cuda-call?"},
		{"rule", 0, "missing-operator", ""},
	} {
		out, errs, code := command(t, dir, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.says) || !strings.Contains(errs, c.error) || c.error == "" && errs != "" {
			t.Errorf("assay %s: status %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
	for settings, says := range map[string]string{
		"[check]\n\ntorhc = \"2.8\"\n":         "line 3, column 1",
		"[check]\nignore = [\"cuda-cal\"]\n":   "did you mean cuda-call?",
		"[check]\ntorch = \"1.4\"\n":           "the nearest is",
		"[check]\nbaseline = \"none.json\"\n":  "none.json",
		"[check]\ndevice = [\"mps\", \"x\"]\n": "line 2",
	} {
		write(t, filepath.Join(dir, "assay.toml"), settings)
		if _, errs, code := command(t, dir, nil, "check", "train.py"); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%q: status %d\n%s", settings, code, errs)
		}
	}
}

// TestCheckStdin: a source on standard input has its name in what is found; with --fix it goes to standard output.
func TestCheckStdin(t *testing.T) {
	dir := t.TempDir()
	out, _, code := input(t, dir, onCUDA, "check", "-", "--stdin-filename", "src/train.py", "--format", "concise")
	if code != 3 || !strings.Contains(out, "src/train.py:3:") {
		t.Errorf("status %d\n%s", code, out)
	}
	fixed := strings.Replace(onCUDA, "  # assay: allow cuda-call -- not any more", "", 1)
	out, errs, code := input(t, dir, onCUDA, "check", "-", "--fix")
	if out != fixed || code != 3 || !strings.Contains(errs, "1 finding fixed") {
		t.Errorf("status %d\n%s\n%s", code, out, errs)
	}
	if out, _, code := input(t, dir, "import torch\n", "check", "--fix", "-"); out != "import torch\n" || code != 0 {
		t.Errorf("status %d, %q", code, out)
	}
	if out, _, _ := input(t, dir, onCUDA, "check", "--diff", "-"); !strings.Contains(out, "--- stdin.py\n+++ stdin.py\n@@ -1,4 +1,4 @@\n") || strings.Contains(out, "[cuda-call]") {
		t.Errorf("%s", out)
	}
}

// TestCheckFix: --diff changes nothing and applies as a patch; --fix makes the same of the file, and a second time nothing.
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
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) || bytes.Count(got, []byte("\r\n")) != bytes.Count(got, []byte("\n")) && name == "a.py" {
			t.Errorf("%s: %v: fixed\n%q\npatched\n%q", name, err, got, want)
		}
	}
	if out, _, _ := command(t, dir, nil, "check", "--diff", "--unsafe-fixes"); out != "" {
		t.Errorf("there is more to fix:\n%s", out)
	}
}

// TestCheckBaseline: what is written is not found again, wherever assay is called; a new finding is; writing again keeps what is known.
func TestCheckBaseline(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), onCUDA)
	write(t, filepath.Join(dir, "assay.toml"), "[check]\nbaseline = \"known.json\"\n")
	if out, errs, _ := command(t, dir, nil, "check", "--write-baseline", "known.json"); errs != "" || !strings.Contains(out, "cuda-call") {
		t.Errorf("%s%s", out, errs)
	}
	first, err := os.ReadFile(filepath.Join(dir, "known.json"))
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, code := command(t, dir, nil, "check"); code != 0 || !strings.Contains(out, "2 findings in the baseline") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := command(t, filepath.Join(dir, "sub"), nil, "check", "../train.py"); code != 0 {
		t.Errorf("from below: status %d\n%s%s", code, out, errs)
	}
	command(t, dir, nil, "check", "--write-baseline", "known.json")
	if again, err := os.ReadFile(filepath.Join(dir, "known.json")); err != nil || !bytes.Equal(again, first) {
		t.Errorf("written again: %v\n%s\nwas\n%s", err, again, first)
	}
	write(t, filepath.Join(dir, "train.py"), onCUDA+"y = x.cuda()\n")
	if out, _, code := command(t, dir, nil, "check"); code != 3 || !strings.Contains(out, "train.py:5:") || strings.Contains(out, "train.py:3:") {
		t.Errorf("status %d\n%s", code, out)
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

// TestInit: a project gets its header, settings and entry; what is there is left; what is written is clean, and a Python without MPS is told so.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	out, errs, code := command(t, dir, nil, "init", "--torch", "2.8")
	if code != 0 || strings.Count(out, "written") != 3 {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	if out, _, code := command(t, dir, nil, "check", "--all"); code != 0 || !strings.Contains(out, "Nothing found in 1 file (for mps, torch 2.8.0)") {
		t.Errorf("status %d\n%s", code, out)
	}
	names := []string{"mps_header.py", "assay.toml", ".pre-commit-config.yaml"}
	before := map[string]string{}
	for _, n := range names {
		raw, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		before[n] = string(raw)
	}
	if out, _, code := command(t, dir, nil, "init", "--torch", "2.2"); code != 0 || strings.Count(out, "left as it is") != 3 {
		t.Errorf("status %d\n%s", code, out)
	}
	for _, n := range names {
		if raw, err := os.ReadFile(filepath.Join(dir, n)); err != nil || string(raw) != before[n] {
			t.Errorf("%s was written over: %v", n, err)
		}
	}
	var config struct {
		Repos []struct {
			Repo  string
			Hooks []struct{ ID, Entry, Language string }
		}
	}
	if err := yaml.Unmarshal([]byte(before[".pre-commit-config.yaml"]), &config); err != nil || len(config.Repos) != 1 || config.Repos[0].Hooks[0].ID != "assay" {
		t.Errorf("%v: %+v", err, config)
	}

	other := t.TempDir()
	write(t, filepath.Join(other, "pyproject.toml"), "[tool.assay.check]\ntorch = \"2.7\"\n")
	write(t, filepath.Join(other, ".pre-commit-config.yaml"), "repos: []\n")
	out, _, code = command(t, dir, nil, "init", other, "--module", "header.py")
	if code != 0 || !strings.Contains(out, "pyproject.toml has [tool.assay.check]") || !strings.Contains(out, "entry: assay check") {
		t.Errorf("status %d\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(other, "assay.toml")); err == nil {
		t.Error("a second file of settings was written")
	}
	for _, args := range [][]string{{"init", "none"}, {"init", "--module", "../x.py"}, {"init", "--module", "x"}, {"init", "--torch", "1.4"}} {
		if _, errs, code := command(t, other, nil, args...); code != 2 || errs == "" {
			t.Errorf("%v: status %d %s", args, code, errs)
		}
	}
}

// TestHeaderRuns: under CPython with a torch without MPS the header says what is wrong, and before that what else can be.
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

// TestCheckJSON: --json is --format json.
func TestCheckJSON(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), onCUDA)
	a, _, _ := command(t, dir, nil, "check", "--json")
	b, _, _ := command(t, dir, nil, "check", "--format", "json")
	if !json.Valid([]byte(a)) || a != b {
		t.Errorf("%s\n%s", a, b)
	}
}
