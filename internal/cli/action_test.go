package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// action is action/action.yml, all that GitHub's metadata syntax has for a composite action.
type action struct {
	Name, Description string
	Inputs            map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	Name, ID, Shell, Run, Uses, If string
	WorkingDirectory               string `yaml:"working-directory"`
	Env                            map[string]string
}

func readAction(t *testing.T) action {
	t.Helper()
	raw, err := os.ReadFile("../../action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

// TestAction: no expression stands in a script, since what it comes to would be run; each input reaches a step, and
// what a step reads is handed to it.
func TestAction(t *testing.T) {
	a := readAction(t)
	used := map[string]bool{}
	for _, s := range a.Runs.Steps {
		if s.Run == "" || s.Shell != "bash" {
			t.Errorf("step %s has no script, or no shell", s.Name)
		}
		if expression.MatchString(s.Run) {
			t.Errorf("step %s: an expression in its script", s.Name)
		}
		for _, m := range regexp.MustCompile(`ASSAY_ACTION_[A-Z]+`).FindAllString(s.Run, -1) {
			if _, ok := s.Env[m]; !ok {
				t.Errorf("step %s reads %s, which it is not handed", s.Name, m)
			}
		}
		for name, value := range s.Env {
			if !strings.Contains(s.Run, name) {
				t.Errorf("step %s is handed %s, and does not read it", s.Name, name)
			}
			used[strings.TrimPrefix(expression.FindStringSubmatch(value)[1], "inputs.")] = true
		}
		used[strings.TrimPrefix(expression.FindStringSubmatch(s.WorkingDirectory)[1], "inputs.")] = true
	}
	for name := range a.Inputs {
		if !used[name] {
			t.Errorf("no step takes the input %s", name)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("a step takes the input %s, which there is not", name)
	}
	script := a.Runs.Steps[1].Run
	for name, o := range a.Outputs {
		if o.Value != "${{ steps.test.outputs."+name+" }}" || !strings.Contains(script, name+"=") {
			t.Errorf("the output %s is not given", name)
		}
	}
}

// TestWorkflows: the workflows take only inputs and outputs that the action has, and leave macos-latest alone.
func TestWorkflows(t *testing.T) {
	a := readAction(t)
	for _, name := range []string{"pull-request.yml", "nightly.yml"} {
		raw, err := os.ReadFile("../../action/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			Jobs map[string]struct {
				RunsOn string `yaml:"runs-on"`
				Steps  []struct {
					Uses, Run string
					With      map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		for _, job := range w.Jobs {
			if strings.Contains(job.RunsOn, "latest") {
				t.Errorf("%s runs on %s: the machine changes under it", name, job.RunsOn)
			}
			for _, s := range job.Steps {
				if expression.MatchString(s.Run) {
					t.Errorf("%s: an expression in a script", name)
				}
				if !strings.Contains(s.Uses, "assay/action@") {
					continue
				}
				for input := range s.With {
					if _, ok := a.Inputs[input]; !ok {
						t.Errorf("%s hands in %s, which the action does not have", name, input)
					}
				}
			}
		}
		for _, m := range regexp.MustCompile(`steps\.mps\.outputs\.(\w+)`).FindAllStringSubmatch(string(raw), -1) {
			if _, ok := a.Outputs[m[1]]; !ok {
				t.Errorf("%s reads the output %s, which the action does not have", name, m[1])
			}
		}
	}
}

// runStep runs a step's script as GitHub's runner does, and gives what it wrote to its outputs.
func runStep(t *testing.T, s actionStep, dir string, environ ...string) (output, said string, status int) {
	t.Helper()
	temp := t.TempDir()
	script, outputs := filepath.Join(temp, "script.sh"), filepath.Join(temp, "outputs")
	if err := os.WriteFile(script, []byte(s.Run), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_OUTPUT="+outputs,
		"GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary.md"))
	for name := range s.Env {
		cmd.Env = append(cmd.Env, name+"=")
	}
	cmd.Env = append(cmd.Env, environ...)
	told, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(outputs)
	if err != nil {
		t.Fatalf("%v\n%s", err, told)
	}
	return string(raw), string(told), cmd.ProcessState.ExitCode()
}

// TestActionPassesWords: an input stays one argument whatever it holds, and nothing of it is run.
func TestActionPassesWords(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	words := filepath.Join(dir, "words")
	for name, text := range map[string]string{"py thon": "#!/bin/sh\necho " + bin + "\n",
		"bin/assay": "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + words + "\nexit 3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	evil := "$(touch pwned) `touch pwned`; touch pwned \" ' \\"
	python := filepath.Join(dir, "py thon")
	output, said, status := runStep(t, readAction(t).Runs.Steps[1], dir, "ASSAY_ACTION_PYTHON="+python,
		"ASSAY_ACTION_ON="+evil, "ASSAY_ACTION_TORCH="+evil, "ASSAY_ACTION_MANIFEST="+evil, "ASSAY_ACTION_BASE="+evil,
		"ASSAY_ACTION_ARGS=tests dir\n-k\n"+evil+"\n*\n")
	if status != 3 || output != "status=3\n" || !strings.Contains(said, "there is no base yet") {
		t.Errorf("status %d, output %q, said %q", status, output, said)
	}
	raw, err := os.ReadFile(words)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	want := []string{"--", python, "-m", "pytest", "tests dir", "-k", evil, "*"}
	if at := slices.Index(got, "--"); at < 0 || !slices.Equal(got[at:], want) {
		t.Errorf("the command: %q", got)
	}
	for _, option := range []string{"--on", "--torch", "--manifest"} {
		if at := slices.Index(got, option); at < 0 || got[at+1] != evil {
			t.Errorf("%s is not handed on: %q", option, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("an input was run")
	}
}

// TestActionTests: the step tests a suite with assay itself, and its outputs are there.
func TestActionTests(t *testing.T) {
	testset.FullOnly(t)
	dir := t.TempDir()
	source := "import torch\n\ndef test_fine():\n    torch.ones(2, device='mps')\n\n" +
		"def test_refused():\n    torch.linalg.eig(torch.ones(2, 2, device='mps'))\n"
	if err := os.WriteFile(filepath.Join(dir, "test_small.py"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	output, said, status := runStep(t, readAction(t).Runs.Steps[1], dir, "ASSAY_ACTION_PYTHON="+testkit.Python(t),
		"ASSAY_ACTION_ON=double", "ASSAY_ACTION_TORCH=2.8", "ASSAY_ACTION_ARGS=-q")
	if status != 1 || !strings.Contains(said, "::error title=assay%3A aten%3A%3Alinalg_eig") {
		t.Errorf("status %d:\n%s", status, said)
	}
	for name := range readAction(t).Outputs {
		_, after, found := strings.Cut("\n"+output, "\n"+name+"=")
		value, _, _ := strings.Cut(after, "\n")
		if _, err := os.Stat(value); !found || name != "status" && err != nil {
			t.Errorf("the output %s: %q, %v", name, value, err)
		}
	}
}
