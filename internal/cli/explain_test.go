package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/symptom"
)

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const placeholder = "RuntimeError: Placeholder storage has not been allocated on MPS device!"
	write("train.log", "epoch 1\n"+placeholder+"\n")
	write("fine.log", "epoch 1 loss 0.3\n")
	write("odd.log", "FrobError: off by 3\n")
	run := evidence.Run{Schema: evidence.Schema, ID: "r1", Outcome: evidence.Outcome{Error: placeholder, Where: "train.py:3"}}
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	write("run/evidence.json", string(data))
	write(".assay/runs/r1/evidence.json", string(data))

	for _, c := range []struct {
		name, stdin string
		args        []string
		status      int
		says        string
	}{
		{"a log", "", []string{"train.log"}, fault.OK, "line 2: " + placeholder},
		{"standard input", placeholder, []string{"-"}, fault.OK, "operand-on-cpu"},
		{"a message", "", []string{placeholder}, fault.OK, "x.to(device)"},
		{"a run's folder", "", []string{"run"}, fault.OK, "the error that ended it"},
		{"its evidence", "", []string{"run/evidence.json"}, fault.OK, "[train.py:3]"},
		{"the newest run", "", nil, fault.OK, "[train.py:3]"},
		{"nothing wrong", "", []string{"fine.log"}, fault.OK, "nothing found"},
		{"an error that is not known", "", []string{"odd.log"}, fault.CannotTell, "off by 3"},
		{"no file", "", []string{"none.log"}, fault.Usage, "no such file"},
		{"the rules", "", []string{"--rules"}, fault.OK, "### float64"},
	} {
		var out, errors bytes.Buffer
		env := &Env{Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &errors, Dir: dir}
		if got := Main(env, append([]string{"explain"}, c.args...)); got != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, got, c.status, errors.String())
		}
		if all := strings.Join(strings.Fields(out.String()+errors.String()), " "); !strings.Contains(all, c.says) {
			t.Errorf("%s: does not say %q:\n%s", c.name, c.says, all)
		}
	}

	var out bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir}
	if got := Main(env, []string{"explain", "--json", "train.log"}); got != fault.OK {
		t.Fatalf("status %d: %s", got, out.String())
	}
	var rep symptom.Report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil || rep.Schema != symptom.Schema || len(rep.Symptoms) != 1 || rep.Symptoms[0].Found[0].Line != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
}
