package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// quietScript says when it is ready, by a pipe, and trains for some seconds: long enough to be sampled.
const quietScript = `
import time, torch
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
with open("ready", "w") as pipe:
    pipe.write("x")
x, until = torch.randn(64, 256), time.time() + 3
while time.time() < until:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
`

// TestRunBesideBusyPrograms: two busy programs for each processor are seen, the step bears the mark in every form, and
// a gate on it cannot be told, while one on the losses is as before.
func TestRunBesideBusyPrograms(t *testing.T) {
	testset.FullOnly(t)
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("nothing is sampled here")
	}
	python, dir := testkit.Python(t), t.TempDir()
	write(t, filepath.Join(dir, "busy.py"), quietScript)
	write(t, filepath.Join(dir, "p.toml"),
		"[[gate]]\nname = \"time\"\nrule = \"step.time <= 1 h\"\n[[gate]]\nname = \"loss\"\nrule = \"loss.last <= 1e6\"\n")
	if err := syscall.Mkfifo(filepath.Join(dir, "ready"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(filepath.Join(dir, "ready"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	ended := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { // once PyTorch has been imported, which would take them long
		var programs []*exec.Cmd
		for range 2 * runtime.NumCPU() {
			programs = append(programs, exec.Command("sh", "-c", "while :; do :; done"))
		}
		_, _ = pipe.Read(make([]byte, 1))
		for _, p := range programs {
			if err := p.Start(); err != nil {
				t.Error(err)
				break
			}
			defer func() { _ = p.Process.Kill(); _ = p.Wait() }()
		}
		<-ended
	})
	_, errs, code := command(t, dir, os.Environ(), "run", "--profile=off", "--policy", "p.toml", "--out", "out",
		"--logbook", "off", "--", python, "busy.py")
	close(ended)
	_, _ = pipe.WriteString("x") // where the script did not come so far
	beside.Wait()
	run := testkit.LoadRun(t, filepath.Join(dir, "out"))
	if by := run.Figure("step.time").Disturbed; !strings.Contains(by, "cpu contention") {
		t.Fatalf("step.time bears the mark %q; %+v, %+v", by, run.Figure("host.cpu.lost"), run.Findings)
	}
	if code != 4 {
		t.Errorf("status %d, want 4: the time cannot be told", code)
	}
	contains(t, errs, "(disturbed)", "other programs kept", "was disturbed: cpu contention", "loss.last")
	page, _, code := command(t, dir, nil, "show", "--html", "out")
	if code != 0 || !strings.Contains(page, "disturbed: cpu contention") {
		t.Errorf("the page says nothing of it (status %d)", code)
	}
}
