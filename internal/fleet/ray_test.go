package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
)

// rayAs names what the fake driver is to do; it stands in its environment.
const rayAs = "ASSAY_TEST_RAY_AS"

// TestMain is the fake driver, too: a process of its own, as Ray's is.
func TestMain(m *testing.M) {
	if as := os.Getenv(rayAs); as != "" {
		fakeRay(as)
		return
	}
	os.Exit(m.Run())
}

// fakeRay speaks as ray_driver.py does, of a cluster of two nodes.
func fakeRay(as string) {
	out := os.NewFile(3, "answers")
	say := func(kind string, v any, body ...byte) {
		line := map[string]any{kind: v}
		if len(body) > 0 {
			line["body"] = len(body)
		}
		b, _ := json.Marshal(line)
		_, _ = out.Write(append(append(b, '\n'), body...))
	}
	amount := 1
	if as == "bare" {
		amount = 0
	}
	var mu sync.Mutex
	stop := map[string]string{}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r rayRequest
		if json.Unmarshal(line, &r) != nil {
			os.Exit(3)
		}
		switch {
		case r.Hello != nil && as == "open" && !r.Hello.Insecure:
			say("trouble", rayTrouble{"open", "it answers without a token"})
			return
		case r.Hello != nil:
			say("hello", rayWelcome{Version: rayVersion, Ray: "2.60.0", Python: "3.11.7", Open: true, Nodes: []rayNode{
				{"mini", "10.0.0.1", true, amount}, {"mini", "10.0.0.2", true, amount}, {"old", "10.0.0.3", false, 0}}})
		case r.Start != nil:
			mu.Lock()
			fakeTask(as, r.Start.Job, say)
			mu.Unlock()
		case r.Stop != nil && stop[r.Stop.Name] == "":
			stop[r.Stop.Name] = r.Stop.Why
			say("ended", rayState{Name: r.Stop.Name, State: node.State{Phase: node.Ended, Why: r.Stop.Why}})
			say("over", rayOver{Name: r.Stop.Name})
		}
	}
}

// fakeTask is a run on a node: it prints two lines, and ends with 0 and one file, if nothing is against it.
func fakeTask(as string, j node.Job, say func(string, any, ...byte)) {
	first := strings.HasSuffix(j.Name, "-a1")
	if as == "refused" && first {
		say("over", rayOver{j.Name, "RuntimeEnvSetupError", "no space left. And more."})
		return
	}
	say("begin", rayBegin{Name: j.Name, Host: "mini", Address: "10.0.0.2", System: "linux/amd64"})
	say("state", rayState{Name: j.Name, State: node.State{Phase: node.Running}})
	say("data", rayData{j.Name, node.Stdout, 0}, []byte("one\n")...)
	switch {
	case as == "holds":
		return
	case as == "dies" && first:
		say("over", rayOver{j.Name, "NodeDiedError", "Task failed because the node is dead. See the logs."})
		return
	case as == "quits" && first:
		os.Exit(7)
	case as == "climbs":
		say("data", rayData{j.Name, "../../x", 0}, []byte("x")...)
		return
	case as == "noise":
		_, _ = os.NewFile(3, "answers").Write([]byte("{]\n"))
		return
	case as == "long":
		say("data", map[string]any{"name": j.Name, "file": node.Stdout, "at": 4}, make([]byte, node.MaxBody+1)...)
		return
	}
	say("data", rayData{j.Name, node.Stdout, 0}, []byte("one\n")...) // what came already is no harm
	say("data", rayData{j.Name, node.Stdout, 4}, []byte("two\n")...)
	say("data", rayData{j.Name, "evidence.json", 0}, []byte("{}")...)
	zero := 0
	say("ended", rayState{Name: j.Name, State: node.State{Phase: node.Ended, Exit: &zero},
		Files: map[string]int64{node.Stdout: 8, "evidence.json": 2}})
	say("over", rayOver{Name: j.Name})
}

// rayOf is an engine on the fake driver, and a queue of tasks for it.
func rayOf(t *testing.T, as string, names ...string) (*Ray, *Queue, *[]string) {
	t.Helper()
	dir := t.TempDir()
	q, err := Open(Options{Folder: filepath.Join(dir, "q"), Runs: filepath.Join(dir, "runs"), Name: "q", Lease: 0.1,
		Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	for _, n := range names {
		if err := q.Add(Task{Name: n, Command: []string{"python", "t.py"}, Device: "gpu"}); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	e := &Ray{Address: "mini:10001", Resources: []string{"mps"}, Insecure: true, Python: self, Program: "ray_driver.py",
		Environ: append(os.Environ(), rayAs+"="+as), Say: func(s string) { said = append(said, s) },
		slack: 50 * time.Millisecond, pause: 10 * time.Millisecond}
	return e, q, &said
}

func TestRay(t *testing.T) {
	for _, c := range []struct {
		as       string
		attempts int    // that the first task took
		part     string // stdout of a first attempt that was cut off
	}{{"good", 1, ""}, {"dies", 2, "one\n"}, {"refused", 2, ""}, {"quits", 2, "one\n"}} {
		t.Run(c.as, func(t *testing.T) {
			names := []string{"a", "b", "c", "d", "e"}
			if c.as == "quits" {
				names = names[:1]
			}
			e, q, _ := rayOf(t, c.as, names...)
			if err := e.Run(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			for _, r := range q.Rows() {
				if r.Phase != Done || r.Host != "10.0.0.2" || r.Attempts != c.attempts {
					t.Errorf("%s: %s on %s, %d attempts: %s", r.Task.Name, r.Phase, r.Host, r.Attempts, r.Why)
				}
				folder := q.Folder(r.Attempt)
				for file, want := range map[string]string{node.Stdout: "one\ntwo\n", "evidence.json": "{}"} {
					if got, err := os.ReadFile(filepath.Join(folder, file)); err != nil || string(got) != want {
						t.Errorf("%s of %s: %q, %v", file, r.Attempt, got, err)
					}
				}
				before := filepath.Join(q.Folder(strings.TrimSuffix(r.Attempt, "2")+"1"), node.Stdout)
				if got, _ := os.ReadFile(before); c.part != "" && string(got) != c.part {
					t.Errorf("of the lost attempt %q is here", got)
				}
			}
			if !q.Finished() {
				t.Error("something is left to be done")
			}
		})
	}
}

// TestRayRefuses: what cannot go on says why, and what to do.
func TestRayRefuses(t *testing.T) {
	for _, c := range []struct{ as, says, hint string }{
		{"open", "asks for no token", "RAY_AUTH_MODE=token"},
		{"bare", "none of the 2 nodes of ray://mini:10001 has the resource mps", "ray start"},
		{"climbs", `no file "../../x"`, ""},
		{"noise", "cannot be read", ""},
		{"long", "1048576 is the most", ""},
	} {
		t.Run(c.as, func(t *testing.T) {
			e, q, _ := rayOf(t, c.as, "a")
			e.Insecure = c.as != "open"
			err := e.Run(t.Context(), q)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(fault.HintOf(err), c.hint) {
				t.Errorf("%v (%s)", err, fault.HintOf(err))
			}
		})
	}
	e, q, _ := rayOf(t, "good")
	if err := q.Add(Task{Name: "a", Command: []string{"x"}, Device: "gpu", Needs: Needs{Chip: "m4"}}); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context(), q); err == nil || !strings.Contains(fault.HintOf(err), "--resource m4") {
		t.Errorf("a chip: %v", err)
	}
	for kind, says := range map[string]string{"import": "--ray-python", "token": "auth_token", "version": "same Python",
		"unreachable": "10001", "connect": "logs"} {
		if err := e.trouble(rayTrouble{kind, "why"}); !strings.Contains(fault.HintOf(err), says) {
			t.Errorf("%s: %v (%s)", kind, err, fault.HintOf(err))
		}
	}
	if !errors.Is(e.trouble(rayTrouble{"lost", "x"}), errRayAgain) {
		t.Error("a connection that was lost is not tried again")
	}
}

// TestRayStops: a task that is cancelled is that, and one that is interrupted waits for another time.
func TestRayStops(t *testing.T) {
	e, q, _ := rayOf(t, "holds", "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx, q) }()
	wait := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			select {
			case <-q.Changed():
			case err := <-over:
				t.Fatalf("%s: it returned: %v", what, err)
			case <-time.After(30 * time.Second):
				t.Fatal(what)
			}
		}
	}
	begun := func() (n int) {
		for _, s := range q.Open() {
			if s.Began {
				n++
			}
		}
		return n
	}
	e.slack = time.Hour
	wait("both begin", func() bool { return begun() == 2 })
	if err := q.Cancel("a", ""); err != nil {
		t.Fatal(err)
	}
	wait("one is cancelled", func() bool { return q.Rows()[0].Phase == Cancelled })
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if r := q.Rows()[1]; r.Phase != Queued || len(q.Open()) != 0 {
		t.Errorf("the other is %s, %d open", r.Phase, len(q.Open()))
	}
}
