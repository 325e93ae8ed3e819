package testkit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"assay/internal/testset"
)

// Bare runs a training script of a folder without assay, with variables added to the environment: the oracle of what it
// does under assay. In the full set that is a start of its own; in the short one it is Forked, which takes a second
// less. A script that looks at its process, or whose traceback is read, wants Execute.
func Bare(t *testing.T, dir string, environ []string, script string) Outcome {
	t.Helper()
	if testset.IsFull() {
		return Execute(t, dir, environ, Python(t), script)
	}
	return Forked(t, dir, environ, script)
}

// Forked runs a script in a fork of an interpreter that has imported torch: forks.py says what differs from a start of
// its own.
func Forked(t *testing.T, dir string, environ []string, script string) Outcome {
	t.Helper()
	python := Python(t)
	forked.Lock()
	defer forked.Unlock()
	if forked.requests == nil {
		if err := forked.start(python); err != nil {
			t.Fatal(err)
		}
	}
	o, err := forked.run(t.TempDir(), dir, append(os.Environ(), environ...), script)
	if err != nil {
		t.Fatalf("run %s in a fork: %v", script, err)
	}
	return o
}

// forked is the interpreter that forks, one a test process.
var forked forks

type forks struct {
	sync.Mutex
	requests *json.Encoder
	answers  *json.Decoder
}

func (f *forks) start(python string) error {
	cmd := exec.Command(python, filepath.Join(repository(), "internal", "testkit", "forks.py"), "torch",
		"torch._dynamo")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	cleanUp(func() {
		in.Close() // it ends when nothing more is asked for
		_ = cmd.Wait()
	})
	f.requests, f.answers = json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	return nil
}

func (f *forks) run(scratch, dir string, environ []string, script string) (Outcome, error) {
	stdout, stderr := filepath.Join(scratch, "stdout"), filepath.Join(scratch, "stderr")
	variables := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		variables[name] = value // the last of a name counts, as for a process that is started
	}
	request := map[string]any{"script": script, "dir": dir, "environ": variables, "stdout": stdout, "stderr": stderr}
	if err := f.requests.Encode(request); err != nil {
		return Outcome{}, err
	}
	var answer struct{ Status syscall.WaitStatus }
	if err := f.answers.Decode(&answer); err != nil {
		return Outcome{}, fmt.Errorf("no answer of the interpreter that forks: %w", err)
	}
	var o Outcome
	for path, into := range map[string]*string{stdout: &o.Stdout, stderr: &o.Stderr} {
		data, err := os.ReadFile(path)
		if err != nil {
			return Outcome{}, err
		}
		*into = string(data)
	}
	o.end(answer.Status)
	return o, nil
}
