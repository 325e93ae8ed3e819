package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// fleetScript holds a lock of its task while it runs, as nobody else may.
const fleetScript = `import fcntl, os, sys, time
folder, task, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
lock = open(os.path.join(folder, task), "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(os.path.join(folder, "TWICE-" + task), "w").close()
for i in range(int(seconds * 10)):
    print("step", i, flush=True)
    time.sleep(0.1)
`

// pooled is a pool of real sshds, and a folder from which it is used.
type pooled struct {
	t       *testing.T
	ssh     *testkit.SSH
	assay   string
	dir     string
	locks   string
	environ []string
}

func newPooled(t *testing.T, lease string, names ...string) *pooled {
	p := &pooled{t: t, ssh: testkit.SSHD(t, names...), assay: testkit.Assay(t), dir: t.TempDir(), locks: t.TempDir()}
	hosts := fmt.Sprintf("[fleet]\nlease = %q\nretries = 20\n", lease)
	for _, n := range names {
		hosts += fmt.Sprintf("[[host]]\nname = %q\n", n)
	}
	for name, content := range map[string]string{"hosts.toml": hosts, "hold.py": fleetScript} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.environ = append(os.Environ(), "ASSAY_SSH="+p.ssh.Words)
	return p
}

func (p *pooled) command(words ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(p.assay, append([]string{"fleet"}, words...)...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.environ, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, &out
}

type pooledRow struct {
	Job, Phase, Why, Host, Run string
	Attempts                   int
}

func (p *pooled) status() []pooledRow {
	cmd := exec.Command(p.assay, "fleet", "status", "--json")
	cmd.Dir, cmd.Env = p.dir, p.environ
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("fleet status: %v", err)
	}
	var doc struct{ Jobs []pooledRow }
	if err := json.Unmarshal(out, &doc); err != nil {
		p.t.Fatal(err)
	}
	return doc.Jobs
}

// orphans are processes that hold for a task of this pool.
func (p *pooled) orphans() []string {
	out, _ := exec.Command("pgrep", "-f", p.locks).Output()
	return strings.Fields(string(out))
}

// powerCut ends a host's sshd and its sessions when a run has begun there, and starts it again later.
func (p *pooled) powerCut(name string, after time.Duration) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for _, r := range p.status() {
			if r.Host == name && r.Phase == "placed" {
				h := p.ssh.Hosts[name]
				h.Stop()
				time.Sleep(after)
				if err := h.Start(); err != nil {
					p.t.Error(err)
				}
				return
			}
		}
	}
}

// TestFleetOverSSH: a pool of three real sshds. The driver is killed again and again, a host loses its power and comes
// back. Each run ends well once, no task runs twice at once, the evidence of each attempt is in the logbook once, and
// nothing is left on the hosts.
func TestFleetOverSSH(t *testing.T) {
	testset.FullOnly(t)
	p := newPooled(t, "6s", "a", "b", "c")
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	words := []string{"run", "--no-code", "--repeat", "9", "--", "python3", filepath.Join(p.dir, "hold.py"), p.locks,
		"task-{repeat}", "8"}
	kills := 0
	for end := time.Now().Add(4 * time.Minute); ; {
		cmd, out := p.command(words...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kills == 8 { // the last driver: b loses its power when something runs there
			go p.powerCut("b", 25*time.Second)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		var after <-chan time.Time
		if kills < 8 {
			after = time.After(time.Duration(rnd.Int64N(int64(6 * time.Second))))
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("the driver: %v\n%s", err, out)
			}
		case <-after:
			_ = cmd.Process.Kill()
			<-done
			kills++
			continue
		case <-time.After(time.Until(end)):
			_ = cmd.Process.Kill()
			t.Fatalf("no end; %+v\n%s", p.status(), out)
		}
		break
	}
	lost := 0
	for _, r := range p.status() {
		if r.Phase != "done" {
			t.Errorf("%s: %s: %s", r.Job, r.Phase, r.Why)
		}
		lost += r.Attempts - 1
		if _, err := os.Stat(filepath.Join(p.dir, r.Run, "evidence.json")); err != nil {
			t.Errorf("%s: %v", r.Job, err)
		}
	}
	if t.Logf("%d kills of the driver, %d attempts were lost", kills, lost); lost == 0 {
		t.Error("b lost its power, and no attempt with it")
	}
	if twice, _ := filepath.Glob(filepath.Join(p.locks, "TWICE-*")); len(twice) > 0 {
		t.Errorf("at the same time twice: %v", twice)
	}
	runs, _ := filepath.Glob(filepath.Join(p.dir, ".assay/runs/*/events.jsonl"))
	query := exec.Command(p.assay, "log", "query", "--json", "SELECT count(*) AS n, count(DISTINCT id) AS d FROM runs")
	query.Dir, query.Env = p.dir, p.environ
	if got, err := query.Output(); err != nil || !bytes.Contains(got, []byte(fmt.Sprintf("%d", len(runs)))) {
		t.Errorf("the logbook has %s runs, and there are %d folders: %v", got, len(runs), err)
	}
	for end := time.Now().Add(time.Minute); len(p.orphans()) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("orphans after a minute: %v", p.orphans())
		}
	}
}
