package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
)

// doctorRun runs the command as Main would, and returns its output and exit status.
func doctorRun(t *testing.T, environ []string, args ...string) (stdout string, code int, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: environ, Dir: t.TempDir(), Now: time.Now}
	cmd := newDoctorCommand(env)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	var s status
	if errors.As(err, &s) {
		return out.String(), int(s), nil
	}
	return out.String(), fault.CodeOf(err), err
}

func somePython(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on PATH")
	}
	return path
}

func TestDoctor(t *testing.T) {
	path := somePython(t)
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}

	out, code, err := doctorRun(t, environ, "--python", path, "--no-gates")
	if err != nil || code != fault.OK {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	for _, want := range []string{"Interpreter\n", "Wheels\n", "Device gates\n", "Environment\n", "not tried (--no-gates)", "ok    no variable"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	// The record of the host is there whole, and nothing beside it.
	folder := t.TempDir()
	if _, code, err := doctorRun(t, environ, "--python", path, "--no-gates", "--record", filepath.Join(folder, "host.json")); err != nil || code != fault.OK {
		t.Errorf("exit %d, %v", code, err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 || left[0].Name() != "host.json" {
		t.Errorf("left behind: %v", left)
	}
	if _, code, err := doctorRun(t, environ, "--python", path, "--no-gates", "--record", filepath.Join(folder, "no", "host.json")); err == nil || code != fault.Failed {
		t.Errorf("exit %d, %v", code, err)
	}

	// A value that breaks Python itself fails the check on every system.
	out, code, err = doctorRun(t, append(environ, "PYTHONHASHSEED=many"), "--python", path, "--no-gates", "--json")
	var r doctorReport
	if err != nil || code != fault.GateFailed || json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	if r.Schema != doctorSchema || r.Interpreter == nil || len(r.Failed) != 1 || r.Failed[0] != "env-range" {
		t.Errorf("record: %+v", r)
	}
}

func TestDoctorRequire(t *testing.T) {
	path := somePython(t)
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	// No interpreter that this test meets has MLX and a device for it and TensorFlow's plug-in as well.
	out, code, err := doctorRun(t, environ, "--python", path, "--require", "tensorflow-metal")
	if err != nil || code != fault.GateFailed || !strings.Contains(out, "FAIL  tensorflow-metal: does not arise here (unknown, which is no pass)") {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	for _, args := range [][]string{{"--require", "gpu"}, {"--require", "mps", "--no-gates"}} {
		if _, code, err := doctorRun(t, environ, args...); code != fault.Usage || err == nil {
			t.Errorf("%v: exit %d, %v", args, code, err)
		}
	}
}

func TestDoctorNoInterpreter(t *testing.T) {
	out, code, err := doctorRun(t, []string{"PATH=" + t.TempDir()})
	if err != nil || code != fault.GateFailed || !strings.Contains(out, "FAIL  find python") || !strings.Contains(out, "--python PATH") {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	if _, code, err := doctorRun(t, nil, "--python", "/no/such/python"); err == nil || code != fault.Failed || fault.HintOf(err) == "" {
		t.Errorf("exit %d, %v", code, err)
	}
}
