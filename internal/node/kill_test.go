package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// python is an interpreter itself, and no script that looks for one.
var python = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-S", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// A scene is one job under a driver, a process that renews its lease.
type scene struct {
	t      *testing.T
	assay  string
	root   string
	job    Job
	pids   string // file of the training's
	driver *exec.Cmd
	stdin  *os.File // the driver's, its other end
	mark   string
	began  time.Duration // elapsed when the driver was started
}

func newScene(t *testing.T, lease float64, stubborn, seconds string) *scene {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what lives is looked up in /proc")
	}
	interpreter, err := python()
	if err != nil {
		t.Skip("there is no python3: ", err)
	}
	training, err := filepath.Abs("testdata/training.py")
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, assay: testkit.Assay(t), root: t.TempDir()}
	s.pids = filepath.Join(s.root, "pids")
	s.job = Job{Name: "job", Owner: "test", Device: "gpu", Lease: lease,
		Command: []string{interpreter, "-S", training, s.pids, stubborn, seconds}}
	t.Cleanup(func() { // nothing of a failed test outlives it
		for _, p := range s.alive() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return s
}

// drive starts the driver.
func (s *scene) drive() {
	s.t.Helper()
	path := filepath.Join(s.root, "asked.json")
	data, err := json.Marshal(s.job)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.driver = exec.Command(s.assay, "node", "keep", "--job", path, "--root", s.root)
	s.driver.Stdin, s.driver.SysProcAttr = r, &syscall.SysProcAttr{Setsid: true}
	s.driver.Env = append(os.Environ(), "SHELL=/bin/sh", "HOME="+s.root)
	s.driver.Stderr = os.Stderr
	s.stdin, s.began = w, elapsed()
	if err := s.driver.Start(); err != nil {
		s.t.Fatal(err)
	}
	r.Close()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.driver.Wait() }()
	s.t.Cleanup(func() { w.Close(); _ = s.driver.Process.Kill(); <-done })
}

func (s *scene) place() folder { return folder(filepath.Join(s.root, "jobs", s.job.Name)) }

// alive lists what lives of the job: whatever has its mark, and whatever the training says that it started.
func (s *scene) alive() []process {
	if s.mark == "" {
		if k, err := s.place().asked(); err == nil {
			s.mark = markVariable + "=" + k.Mark
		}
	}
	list, err := processes()
	if err != nil {
		s.t.Fatal(err)
	}
	started := map[int]bool{}
	if text, err := os.ReadFile(s.pids); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if _, pid, ok := strings.Cut(line, " "); ok {
				n, _ := strconv.Atoi(pid)
				started[n] = true
			}
		}
	}
	var found []process
	for _, p := range list {
		if p.dead {
			continue
		}
		marked := s.mark != "" && hasVariable(environOf(p.pid), s.mark)
		if marked || started[p.pid] && time.Duration(p.start)*tick >= s.began-time.Second {
			found = append(found, p)
		}
	}
	return found
}

// tick is what Linux counts the starts of processes in: USER_HZ, 100 everywhere.
const tick = 10 * time.Millisecond

// ours lists assay's own processes beside the job by what they are.
func (s *scene) ours() map[string][]int {
	found := map[string][]int{}
	list, _ := processes()
	for _, p := range list {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err != nil || p.dead {
			continue
		}
		words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		has := func(w string) bool { return slices.Contains(words, w) }
		switch {
		case len(words) > 2 && strings.HasPrefix(words[2], "read x; exec") &&
			hasVariable(environOf(p.pid), "R="+s.root):
			found["sentinel"] = append(found["sentinel"], p.pid)
		case has("guard") && has(s.root):
			found["guard"] = append(found["guard"], p.pid)
		case has("keep") && has("--name") && has(s.root):
			found["keeper"] = append(found["keeper"], p.pid)
		case has("run") && has(s.place().file(runFolder)):
			found["run"] = append(found["run"], p.pid)
		}
	}
	return found
}

// victims are the processes of this kind; nil: none is there now.
func (s *scene) victims(kind string) []int {
	switch kind {
	case "driver":
		return []int{s.driver.Process.Pid}
	case "script", "worker", "apart":
		text, _ := os.ReadFile(s.pids)
		living := s.alive()
		var list []int
		for _, line := range strings.Split(string(text), "\n") {
			if what, pid, ok := strings.Cut(line, " "); ok && what == kind {
				n, _ := strconv.Atoi(pid)
				if slices.ContainsFunc(living, func(p process) bool { return p.pid == n }) {
					list = append(list, n)
				}
			}
		}
		return list[:min(len(list), 1)]
	}
	ours := s.ours()
	switch kind {
	case "keeper+guard":
		if len(ours["keeper"]) > 0 {
			return slices.Concat(ours["keeper"], ours["guard"])
		}
		return nil
	case "assay": // pkill -9 assay
		return slices.Concat(ours["keeper"], ours["guard"], ours["run"], []int{s.driver.Process.Pid})
	case "all": // and the shell as well: nobody of ours is left
		return slices.Concat(ours["sentinel"], ours["keeper"], ours["guard"], ours["run"],
			[]int{s.driver.Process.Pid})
	}
	return ours[kind]
}

// kill kills the victim, waited for a while where it is not there yet. It says when; 0: there was none.
func (s *scene) kill(kind string) time.Time {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if list := s.victims(kind); len(list) > 0 {
			for _, pid := range list {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return time.Now()
		}
	}
	return time.Time{}
}

// settled waits until nothing lives, neither of the job nor of what stood by it, and holds meanwhile that the device is
// free only when nothing of the job does.
func (s *scene) settled(kind string, limit time.Duration) (nothing time.Time) {
	s.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if kind == "all" { // the next who asks ends it
			s.state()
		}
		at, holder := elapsed(), Holds(s.root)
		living := s.alive()
		if holder == "" && kind != "all" {
			for _, p := range living {
				if time.Duration(p.start)*tick < at-5*tick {
					s.t.Errorf("the device is free, and %d of the job lives: %s", p.pid, commandOf(p.pid))
				}
			}
		}
		if len(living) == 0 && nothing.IsZero() {
			nothing = time.Now()
		} else if len(living) > 0 {
			nothing = time.Time{}
		}
		n := 0
		for _, list := range s.ours() {
			n += len(list)
		}
		if len(living) == 0 && n == 0 {
			// One that is about to end has no command line any more when its files are still open.
			for wait := time.Now().Add(2 * time.Second); Holds(s.root) != "" && time.Now().Before(wait); {
				time.Sleep(10 * time.Millisecond)
			}
			if holder := Holds(s.root); holder != "" {
				s.t.Errorf("nothing lives, and the device is held by %s", holder)
			}
			return nothing
		}
		if time.Now().After(end) {
			for _, p := range living {
				s.t.Errorf("%d lives after %v: %s", p.pid, limit, commandOf(p.pid))
			}
			s.t.Fatalf("after %v: %v", limit, s.ours())
		}
	}
}

func commandOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(line), "\x00", " ")
}

// ending asks another node how the job stands, until it is over: where all that kept it were killed, the first who asks
// has it ended.
func (s *scene) ending() State {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if state := s.state(); isOver(state) || state.Phase == "" || time.Now().After(end) {
			return state
		}
	}
}

// state asks another node how the job stands.
func (s *scene) state() State {
	s.t.Helper()
	runs, err := NewRuns(s.root, s.assay)
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := runs.States(Which{Names: []string{s.job.Name}})
	if err != nil {
		s.t.Fatal(err)
	}
	return list[0]
}

// evidence holds that each event that was written can be read, but for a last one that was cut off.
func (s *scene) evidence() (events int) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.place().file(runFolder), "events.jsonl"))
	if err != nil {
		return 0
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for _, line := range lines {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if !json.Valid(line) {
			s.t.Errorf("an event cannot be read: %.200q", line)
		}
		events++
	}
	return events
}

// round kills one victim some time after the job was asked for, and sees to it that everything ends. It says how long
// after the kill nothing lived any more.
func (s *scene) round(kind string, after time.Duration) (until time.Duration, state State, ok bool) {
	s.t.Helper()
	s.drive()
	time.Sleep(after)
	at := s.kill(kind)
	if at.IsZero() {
		return 0, State{}, false
	}
	switch kind {
	case "guard", "sentinel", "worker", "apart": // the job goes on
		time.Sleep(300 * time.Millisecond)
		s.stdin.Close()
		at = time.Now()
	}
	nothing := s.settled(kind, duration(s.job.Lease)+grace+finish+grace+10*time.Second)
	state = s.ending()
	if until = nothing.Sub(at); until < 0 {
		until = 0
	}
	return until, state, true
}

// told holds that the state says what happened.
func (s *scene) told(kind string, state State) {
	s.t.Helper()
	bad := func() { s.t.Errorf("%s was killed: %+v", kind, state) }
	if state.Phase == "" { // killed before anything of it was begun
		if kind != "driver" && kind != "guard" && kind != "assay" && kind != "all" {
			bad()
		}
		return
	}
	switch kind {
	case "keeper", "keeper+guard", "assay", "all":
		// A keeper that was being started when the others were looked up goes on until the lease is over.
		if (kind == "assay" || kind == "all") && state.Phase == Ended && state.Why == LeaseOut {
			return
		}
		if state.Phase != Lost || state.Why == "" {
			bad()
		}
	case "driver":
		if state.Phase != Ended || state.Why != LeaseOut {
			bad()
		}
	case "run":
		if state.Phase != Ended || state.Signal != "SIGKILL" || state.Why != RunKilled {
			bad()
		}
	case "script":
		if state.Phase != Ended || state.Signal != "SIGKILL" || state.Why != "" || state.Files["evidence.json"] == 0 {
			bad()
		}
	case "guard", "sentinel", "worker", "apart":
		lostAtStart := kind == "guard" && state.Phase == Lost && state.Files["events.jsonl"] == 0
		if state.Phase != Ended && !lostAtStart {
			bad()
		}
	}
}

// TestKilledOne: whichever process is killed, nothing of the job outlives it for long, and its state says so.
func TestKilledOne(t *testing.T) {
	for kind, stubborn := range map[string]string{"keeper": "leaves", "run": "no", "driver": "no", "keeper+guard": "no",
		"guard": "leaves", "script": "no", "all": "no"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 1, stubborn, "600")
			s.drive()
			end := time.Now().Add(20 * time.Second)
			for ; len(s.victims("apart")) == 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("it does not begin: %+v", s.state())
				}
			}
			at := s.kill(kind)
			switch kind {
			case "guard":
				s.stdin.Close()
			}
			s.settled(kind, 30*time.Second)
			s.told(kind, s.ending())
			t.Logf("nothing lived %v after the kill", time.Since(at))
		})
	}
}

// Test200Kills: 200 kills of a process drawn by lot, at a moment drawn by lot.
func Test200Kills(t *testing.T) {
	testset.FullOnly(t)
	const rounds, beside = 200, 3
	kinds := []string{"driver", "keeper", "guard", "sentinel", "run", "script", "worker", "apart", "keeper+guard",
		"assay", "all"}
	var mu sync.Mutex
	longest, counts, none := map[string]time.Duration{}, map[string]int{}, 0
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 0))
	limit := make(chan struct{}, beside)
	t.Run("rounds", func(t *testing.T) {
		for i := range rounds {
			kind, after := kinds[lot.IntN(len(kinds))], time.Duration(lot.IntN(1200))*time.Millisecond
			stubborn := []string{"yes", "no", "leaves"}[lot.IntN(3)]
			if stubborn == "leaves" && len(kind) > 6 || kind == "assay" || kind == "all" {
				stubborn = []string{"yes", "no"}[lot.IntN(2)] // nobody is left who would have seen it
			}
			t.Run(fmt.Sprintf("%d-%s-%v-%s", i, kind, after, stubborn), func(t *testing.T) {
				t.Parallel()
				limit <- struct{}{}
				defer func() { <-limit }()
				s := newScene(t, 2, stubborn, "600")
				until, state, ok := s.round(kind, after)
				if ok {
					s.told(kind, state)
				}
				events := s.evidence()
				mu.Lock()
				defer mu.Unlock()
				if !ok {
					none++
					return
				}
				counts[kind+" "+state.Phase]++
				longest[kind] = max(longest[kind], until)
				t.Logf("%v, %s %s, %d events", until, state.Phase, state.Why, events)
			})
		}
	})
	var all []string
	for what, n := range counts {
		all = append(all, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(all)
	t.Logf("%d rounds, %d without a victim: %s", rounds, none, strings.Join(all, ", "))
	t.Logf("longest until nothing lived: %v", longest)
}

// TestStoppedKeeper: a keeper that hangs is not waited for.
func TestStoppedKeeper(t *testing.T) {
	testset.FullOnly(t)
	s := newScene(t, 1, "no", "600")
	s.drive()
	for end := time.Now().Add(20 * time.Second); len(s.victims("apart")) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not begin: %+v", s.state())
		}
	}
	for _, pid := range s.victims("keeper") {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	_ = s.driver.Process.Kill()
	at := time.Now()
	s.settled("keeper", stuck+2*lookEvery+20*time.Second)
	if state := s.ending(); state.Phase != Lost {
		t.Errorf("%+v", state)
	}
	t.Logf("nothing lived %v later", time.Since(at))
}

// Test60KillsOfThree: three processes drawn by lot, one shortly after the other, with nobody who renews the lease.
func Test60KillsOfThree(t *testing.T) {
	testset.FullOnly(t)
	kinds := []string{"driver", "keeper", "guard", "sentinel", "run", "script", "worker", "keeper+guard"}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	var longest time.Duration
	counts := map[string]int{}
	t.Run("rounds", func(t *testing.T) {
		for i := range 60 {
			lot.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			three, after := slices.Clone(kinds[:3]), time.Duration(lot.IntN(1000))*time.Millisecond
			gap := time.Duration(lot.IntN(300)) * time.Millisecond
			t.Run(fmt.Sprintf("%d-%s-%v-%v", i, strings.Join(three, "-"), after, gap), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, 2, []string{"yes", "no"}[i%2], "600")
				s.drive()
				time.Sleep(after)
				for _, kind := range three {
					for _, pid := range s.victims(kind) { // those that are there
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
					time.Sleep(gap)
				}
				at := time.Now()
				_ = s.driver.Process.Kill()
				nothing := s.settled("all", 30*time.Second)
				state := s.ending()
				if !isOver(state) && state.Phase != "" {
					t.Errorf("%v were killed: %+v", three, state)
				}
				s.evidence()
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, nothing.Sub(at))
				counts[state.Phase]++
			})
		}
	})
	t.Logf("longest until nothing lived: %v; %v", longest, counts)
}
