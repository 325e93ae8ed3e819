package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/fleet"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestRayAddress: the port may be left out, and what is no address is said.
func TestRayAddress(t *testing.T) {
	for on, want := range map[string]string{"ray://mini": "mini:10001", "ray://mini:7/": "mini:7",
		"ray://[fd00::1]:7": "[fd00::1]:7", "ray://fd00::1": "[fd00::1]:10001", "ray://": "", "ray://a/b:1": "",
		"ray://:1": "", "ray://u@h:1": ""} {
		got, err := rayAddress(on)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", on, got, err)
		}
	}
}

// rayCluster is a real Ray of three nodes on this machine, each with the resource mps.
type rayCluster struct {
	t      *testing.T
	python string
	root   string
	token  string
	said   *bytes.Buffer // by the driver
}

const rayPort = "127.0.0.2:21001"

func (c *rayCluster) node(n int) string { return filepath.Join(c.root, "node"+strconv.Itoa(n)) }

func (c *rayCluster) environ(n int) []string {
	var all []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAY_") {
			all = append(all, v)
		}
	}
	return append(all, "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN="+c.token, "RAY_USAGE_STATS_ENABLED=0",
		"ASSAY_NODE="+c.node(n))
}

func (c *rayCluster) ray(n int, args ...string) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(c.python), "ray"), args...)
	cmd.Env, cmd.WaitDelay = c.environ(n), time.Minute
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("ray %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
}

// start starts a node. They are started in turn: two at once on a busy machine give up.
func (c *rayCluster) start(n int) {
	ports := 25000 + 1000*n
	args := []string{"start", fmt.Sprintf("--node-ip-address=127.0.0.%d", n+1), "--num-cpus=4",
		`--resources={"mps":1}`, "--object-store-memory=200000000", fmt.Sprintf("--min-worker-port=%d", ports),
		fmt.Sprintf("--max-worker-port=%d", ports+999), fmt.Sprintf("--dashboard-agent-listen-port=%d", 52364+n)}
	if n == 1 {
		args = append(args, "--head", "--port=6399", "--ray-client-server-port=21001", "--include-dashboard=false",
			"--temp-dir="+c.root+"/s")
	} else {
		args = append(args, "--address=127.0.0.2:6399")
	}
	c.ray(n, args...)
}

// processes of a node, whose folder is in their environment or command line, or theirs: all, or those whose command
// holds a word.
func (c *rayCluster) processes(n int, word string) (all []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range names {
		environ, err := os.ReadFile(p + "/environ")
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(p + "/cmdline")
		folder, _ := os.Readlink(p + "/cwd")
		ours := bytes.Contains(append([]byte{0}, environ...), []byte("\x00ASSAY_NODE="+c.node(n)+"\x00")) ||
			bytes.Contains(command, []byte(c.node(n)+"/")) || strings.HasPrefix(folder, c.node(n)+"/")
		pid, _ := strconv.Atoi(filepath.Base(p))
		if ours && pid != os.Getpid() && bytes.Contains(command, []byte(word)) {
			all = append(all, pid)
		}
	}
	return all
}

func (c *rayCluster) kill(n int, word string) {
	for _, pid := range c.processes(n, word) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// trainings are the processes of runs on all nodes.
func (c *rayCluster) trainings() (n int) {
	for i := 1; i <= 3; i++ {
		n += len(c.processes(i, "train.py"))
	}
	return n
}

func (c *rayCluster) until(what string, limit time.Duration, is func() bool) time.Duration {
	c.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			c.t.Fatalf("%s: not within %s\n%s", what, limit, c.said)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return time.Since(began)
}

func newRayCluster(t *testing.T) *rayCluster {
	testset.FullOnly(t)
	python := os.Getenv("ASSAY_TEST_RAY")
	if python == "" {
		t.Skip("no interpreter with ray[default] is named by ASSAY_TEST_RAY")
	}
	root, err := os.MkdirTemp("", "r") // Ray's sockets have no room for a long path
	if err != nil {
		t.Fatal(err)
	}
	c := &rayCluster{t: t, python: python, root: root, token: strings.Repeat("0123456789abcdef", 4)}
	t.Cleanup(func() {
		for n := 3; n >= 1; n-- {
			c.kill(n, "")
		}
		os.RemoveAll(root)
	})
	for n := 1; n <= 3; n++ {
		c.start(n)
	}
	return c
}

// TestFleetOverRay: a node is killed with all its processes, of another its raylet alone; then the driver is.
func TestFleetOverRay(t *testing.T) {
	c := newRayCluster(t)
	dir := t.TempDir()
	script := "import sys, time\nfor i in range(int(sys.argv[1])):\n    print(i, flush=True)\n    time.sleep(1)\n"
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(seconds string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(testkit.Assay(t), "fleet", "run", "--on", "ray://"+rayPort, "--ray-python", c.python,
			"--lease", "10s", "--repeat", "4", "--", "python", "train.py", seconds)
		cmd.Env, cmd.Dir = append(c.environ(0), "ASSAY_LOGBOOK="+filepath.Join(dir, "logbook.db")), dir
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.said = &said
		return cmd, &said
	}
	all := func(said *bytes.Buffer) (lost int) {
		t.Helper()
		folders, _ := filepath.Glob(filepath.Join(dir, ".assay", "fleet", "train-*"))
		done := 0
		for _, f := range folders {
			q, _, err := fleet.Read(f, filepath.Join(dir, ".assay", "runs"))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range q.Rows() {
				if r.Phase != fleet.Done {
					t.Errorf("%s is %s: %s\n%s", r.Task.Name, r.Phase, r.Why, said)
				}
				for n := 1; n <= r.Attempts; n++ {
					name := fmt.Sprintf("%s%d", strings.TrimRight(r.Attempt, "0123456789"), n)
					_, err := os.Stat(filepath.Join(q.Folder(name), "evidence.json"))
					if whole := n == r.Attempts; whole != (err == nil) {
						t.Errorf("evidence of attempt %d of %d of %s: %v", n, r.Attempts, r.Task.Name, err)
					}
				}
				done, lost = done+1, lost+r.Attempts-1
			}
			os.RemoveAll(f)
		}
		if done != 4 {
			t.Errorf("%d runs of 4\n%s", done, said)
		}
		return lost
	}

	began := time.Now()
	cmd, said := run("12")
	c.until("both of the nodes have a run", 3*time.Minute, func() bool {
		return len(c.processes(2, "train.py")) > 0 && len(c.processes(3, "train.py")) > 0
	})
	c.kill(3, "")
	c.kill(2, "raylet/raylet")
	orphans := c.until("the run of the node without its raylet ends", time.Minute, func() bool {
		return len(c.processes(2, "train.py")) == 0
	})
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	lost := all(said)
	t.Logf("4 runs of 12 s: %s, %d attempts lost; the raylet's run had ended after %s", time.Since(began).Round(time.Second),
		lost, orphans.Round(100*time.Millisecond))
	if lost != 2 {
		t.Errorf("%d attempts lost, and 2 nodes were", lost)
	}

	cmd, _ = run("45")
	c.until("a run begins", 2*time.Minute, func() bool { return c.trainings() > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	orphans = c.until("the runs of a driver that was killed end", time.Minute, func() bool {
		return c.trainings() == 0
	})
	t.Logf("the run of a driver that was killed had ended after %s", orphans.Round(100*time.Millisecond))
	if orphans > 40*time.Second {
		t.Errorf("it ended by itself")
	}
	cmd, said = run("45")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if lost := all(said); lost < 1 {
		t.Errorf("%d attempts were cut off with the driver", lost)
	}
}
