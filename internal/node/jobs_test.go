package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/internal/bundle"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/testkit"
)

// shell is a job whose command is a shell's.
func shell(name, script string) Job {
	return Job{Name: name, Owner: "test", Command: []string{"sh", "-c", script}, Device: "cpu", Lease: 30}
}

func newJobs(t *testing.T) *Jobs {
	t.Helper()
	t.Setenv("SHELL", "/bin/sh")
	n, err := NewRuns(t.TempDir(), testkit.Assay(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nothing of a failed test outlives it
		_, _ = n.Cancel(Which{})
		for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(pollEvery) {
			entries, _ := os.ReadDir(filepath.Join(n.root, "jobs"))
			if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
				return validName(e.Name()) && !n.folder(e.Name()).alone()
			}) {
				return
			}
		}
	})
	return n
}

// until waits until the job stands so.
func until(t *testing.T, n *Jobs, name string, is func(State) bool) State {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, err := n.state(name)
		if err != nil {
			t.Fatal(err)
		}
		if is(s) {
			return s
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(n.folder(name).file(logFile))
			t.Fatalf("job %s stands so: %+v\n%s", name, s, log)
		}
	}
}

func isOver(s State) bool    { return s.Phase == Ended || s.Phase == Lost }
func isRunning(s State) bool { return s.Phase == Running }

// TestStartOnce: however often and from wherever a job is asked for, it runs once; what it printed can be read; when it
// is forgotten nothing of it is left.
func TestStartOnce(t *testing.T) {
	n := newJobs(t)
	other, err := NewRuns(n.root, n.program)
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	j := shell("once", `echo ran >> `+ran+`; printf %s "$TOKEN" | wc -c; echo to stderr >&2; exit 3`)
	j.Environ = []string{"TOKEN=hf_abcdefghij0123456789"}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if s, err := []*Jobs{n, other}[i%2].Start(j); err != nil || s.Phase == "" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	all.Wait()
	s := until(t, n, "once", isOver)
	if s.Phase != Ended || s.Exit == nil || *s.Exit != 3 || s.Why != "" || s.Error != "" || s.Ran <= 0 {
		t.Errorf("%+v", s)
	}
	if again, err := other.Start(j); err != nil || !isOver(again) {
		t.Errorf("asked for once more: %+v, %v", again, err)
	}
	if text, _ := os.ReadFile(ran); string(text) != "ran\n" {
		t.Errorf("it ran so often: %q", text)
	}
	into := make([]byte, 100)
	count, piece, err := n.Read(Read{Name: "once", File: Stdout, Most: len(into)}, into)
	if got := strings.TrimSpace(string(into[:count])); err != nil || got != "23" || !piece.Final {
		t.Errorf("stdout %q, %+v, %v", got, piece, err)
	}
	count, _, err = n.Read(Read{Name: "once", File: Stderr, At: 3, Most: 6}, into)
	if string(into[:count]) != "stderr" {
		t.Errorf("stderr %q, %v", into[:count], err)
	}
	for name := range s.Files {
		if _, piece, err := n.Read(Read{Name: "once", File: name, Most: 10}, into); err != nil ||
			piece.Size != s.Files[name] {
			t.Errorf("%s: %+v, want %d bytes; %v", name, piece, s.Files[name], err)
		}
	}
	if s.Files["evidence.json"] == 0 || s.Files["events.jsonl"] == 0 {
		t.Errorf("no evidence: %v", s.Files)
	}
	// A secret that was handed over stands in one file, its owner's alone.
	if said, _ := json.Marshal(s); strings.Contains(string(said), "hf_abc") {
		t.Errorf("the state tells a secret: %s", said)
	}
	_ = filepath.WalkDir(string(n.folder("once")), func(path string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		if err != nil {
			return err
		}
		if text, _ := os.ReadFile(path); strings.Contains(string(text), "hf_abc") && d.Name() != jobFile {
			t.Errorf("a secret stands in %s", path)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	})
	if err := n.Forget(Which{Names: []string{"once", "never"}}); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(n.root, "jobs")); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	if s, err := n.state("once"); err != nil || s.Phase != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOneAtATime: one job has the GPU at a time, in the order in which they came; one that waits says for whom, and can
// be cancelled; one without a device waits for nobody.
func TestOneAtATime(t *testing.T) {
	n := newJobs(t)
	log := filepath.Join(t.TempDir(), "log")
	go1 := filepath.Join(t.TempDir(), "go")
	start := func(name string) {
		j := shell(name, fmt.Sprintf("echo +%s >>%s; while ! test -e %s; do sleep 0.02; done; echo -%s >>%s", name, log,
			go1, name, log))
		j.Device = "gpu"
		if _, err := n.Start(j); err != nil {
			t.Fatal(err)
		}
	}
	if got := Holds(n.root); got != "" {
		t.Errorf("before any: %q", got)
	}
	start("a")
	until(t, n, "a", isRunning)
	for _, name := range []string{"b", "c", "d"} {
		start(name)
		if s := until(t, n, name, func(s State) bool { return s.Holder != "" }); s.Holder != "a" || s.Phase != Waiting {
			t.Errorf("%+v", s)
		}
	}
	if got := Holds(n.root); got != "a" {
		t.Errorf("it is held by %q", got)
	}
	if err := n.Forget(Which{Names: []string{"b"}}); err == nil || fault.HintOf(err) != "" {
		var refused *Refused
		if !errors.As(err, &refused) || !refused.Busy {
			t.Errorf("one that waits is forgotten: %v", err)
		}
	}
	if _, err := n.Cancel(Which{Names: []string{"c"}, Why: "moved"}); err != nil {
		t.Fatal(err)
	}
	if s := until(t, n, "c", isOver); s.Why != "moved" || s.Exit != nil || s.Phase != Ended {
		t.Errorf("%+v", s)
	}
	free := shell("free", "true")
	if _, err := n.Start(free); err != nil {
		t.Fatal(err)
	}
	until(t, n, "free", isOver)
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "d"} {
		if s := until(t, n, name, isOver); s.Exit == nil || *s.Exit != 0 {
			t.Errorf("%+v", s)
		}
	}
	if text, _ := os.ReadFile(log); string(text) != "+a\n-a\n+b\n-b\n+d\n-d\n" {
		t.Errorf("%q", text)
	}
}

// TestEnded: why assay ended a job.
func TestEnded(t *testing.T) {
	n := newJobs(t)
	jobs := map[string]func(j *Job){
		LeaseOut:    func(j *Job) { j.Lease = 0.3 },
		LimitOut:    func(j *Job) { j.Limit = 0.3 },
		Terminated:  nil,
		Cancelled:   nil,
		"too dear":  nil,
		"no folder": func(j *Job) { j.Dir = "none" },
	}
	for why, change := range jobs {
		j := shell(strings.ReplaceAll(why, " ", "-"), "echo begun; exec sleep 60")
		if change != nil {
			change(&j)
		}
		if _, err := n.Start(j); err != nil {
			t.Fatal(err)
		}
	}
	begun := func(s State) bool { return s.Files[Stdout] > 0 }
	until(t, n, Cancelled, begun)
	until(t, n, "too-dear", begun)
	if _, err := n.Cancel(Which{Names: []string{Cancelled}}); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{"too dear", "not this one"} {
		if _, err := n.Cancel(Which{Names: []string{"too-dear"}, Why: again}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, n, Terminated, begun)
	for pid, line := range lines(t) {
		if slices.Contains(line, "keep") && slices.Contains(line, Terminated) && slices.Contains(line, n.root) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	for why := range jobs {
		s := until(t, n, strings.ReplaceAll(why, " ", "-"), isOver)
		if why == "no folder" {
			if s.Phase != Ended || !strings.Contains(s.Error, "no such file") || s.Exit != nil {
				t.Errorf("%s: %+v", why, s)
			}
			continue
		}
		if s.Phase != Ended || s.Why != why || s.Signal != "SIGTERM" || s.Error != "" {
			t.Errorf("%s: %+v", why, s)
		}
	}
}

// lines are the command lines of this user's processes.
func lines(t *testing.T) map[int][]string {
	t.Helper()
	list, err := processes()
	if err != nil {
		t.Skip(err)
	}
	all := map[int][]string{}
	for _, p := range list {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err == nil && !p.dead {
			all[p.pid] = strings.Split(string(text), "\x00")
		}
	}
	return all
}

// TestHalfStarted: what is there when a Start was killed between any two steps is no job yet, or one that is lost.
func TestHalfStarted(t *testing.T) {
	n := newJobs(t)
	// A folder under a temporary name.
	if err := os.Mkdir(filepath.Join(n.root, "jobs", newPrefix+"1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if list, err := n.States(Which{}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	// Nothing but the folder: it is as if nobody had asked, and can be asked for.
	made := func(name string) folder {
		p, _, err := makeFolder(n.root, shell(name, "true"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	made("half")
	if s, err := n.state("half"); err != nil || s.Phase != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := n.Start(shell("half", "true")); err != nil {
		t.Fatal(err)
	}
	if s := until(t, n, "half", isOver); s.Phase != Ended {
		t.Errorf("%+v", s)
	}
	// Cancelled before it began: nobody begins it.
	made("unwanted")
	if list, err := n.Cancel(Which{Names: []string{"unwanted"}, Why: "moved"}); err != nil || list[0].Why != "moved" {
		t.Errorf("%+v, %v", list, err)
	}
	if s, err := n.Start(shell("unwanted", "true")); err != nil || s.Phase != Ended || s.Why != "moved" {
		t.Errorf("%+v, %v", s, err)
	}
	// A state, and nobody who keeps it. The process that it names is another by now: it is left alone.
	bystander := exec.Command("sleep", "60")
	bystander.Env = append(os.Environ(), markVariable+"=another")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	for name, c := range map[string]struct {
		boot, phase, why string
	}{
		"waited":  {Boot(), Waiting, "its keeper was killed before it began"},
		"ran":     {Boot(), Running, "its keeper was killed"},
		"earlier": {"another", Running, "the host was started anew"},
	} {
		r := record{Boot: c.boot, State: State{Name: name, Owner: "test", Phase: c.phase},
			Run: &like{bystander.Process.Pid, 1}, Awake: 1}
		if err := made(name).write(r); err != nil {
			t.Fatal(err)
		}
		if s := until(t, n, name, isOver); s.Phase != Lost || s.Why != c.why {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("somebody else's process was ended: %v", err)
	}
	// A state that cannot be read is one of a job that was begun.
	p := made("garbled")
	if err := os.WriteFile(p.file(stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Start(shell("garbled", "true")); err == nil {
		t.Error("a state that cannot be read is none")
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(pollEvery) {
		if r, _, err := p.record(); err == nil && r.State.Phase == Lost && r.State.Name == "garbled" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is not lost")
		}
	}
}

// TestTree: only what belongs to a job is found, a child that took its environment off too.
func TestTree(t *testing.T) {
	if _, err := processes(); err != nil {
		t.Skip(err)
	}
	const mark = "0123456789abcdef0123456789abcdef"
	script := "env -i sleep 61 & sleep 62 & wait"
	start := func(variable string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), variable}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		return cmd
	}
	mine := start(markVariable + "=" + mark)
	start(markVariable + "=" + mark + "0")
	start("X" + markVariable + "=" + mark)
	tree := &tree{mark: markVariable + "=" + mark, self: os.Getpid(), ours: map[int]bool{}, seen: map[like]bool{},
		run: mine.Process.Pid}
	var list []like
	for end := time.Now().Add(10 * time.Second); len(list) != 3 && time.Now().Before(end); time.Sleep(pollEvery) {
		list, _ = tree.look()
	}
	if len(list) != 3 {
		t.Fatalf("%v, want the shell and its two children", list)
	}
	go func() { _ = mine.Wait() }()
	if err := mine.Process.Kill(); err != nil { // its children are nobody's now, and one has no environment
		t.Fatal(err)
	}
	slow := func(n int) { t.Errorf("%d do not end", n) }
	if err := tree.end(&like{mine.Process.Pid, 0}, time.Second, slow); err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if alive(l) {
			t.Errorf("%v lives", l)
		}
	}
	left := 0
	for _, line := range lines(t) {
		if len(line) > 2 && line[2] == script {
			left++
		}
	}
	if left != 2 {
		t.Errorf("of the two that are not of the job %d live", left)
	}
}

// TestStartRefuses: what is no job.
func TestStartRefuses(t *testing.T) {
	n := &Jobs{root: t.TempDir(), guards: map[string]chan struct{}{}}
	for want, change := range map[string]func(*Job){
		"a name has letters":       func(j *Job) { j.Name = "../escape" },
		"digits":                   func(j *Job) { j.Name = strings.Repeat("a", MaxName+1) },
		"a name has":               func(j *Job) { j.Name = "" },
		"no command":               func(j *Job) { j.Command = nil },
		"a word of its command":    func(j *Job) { j.Command = []string{"a\x00b"} },
		"gpu or cpu":               func(j *Job) { j.Device = "tpu" },
		"lease 0":                  func(j *Job) { j.Lease = 0 },
		"lease 1e+06":              func(j *Job) { j.Lease = 1e6 },
		"limit -1":                 func(j *Job) { j.Limit = -1 },
		"lies outside of its code": func(j *Job) { j.Dir = "a/../../b" },
		"named by no checksum":     func(j *Job) { j.Code = "../../etc/passwd" },
		"its code is not here":     func(j *Job) { j.Code = strings.Repeat("a", 64) },
		"flag --out":               func(j *Job) { j.Flags = []string{"--out=/tmp/x"} },
		"flag --":                  func(j *Job) { j.Flags = []string{"--"} },
		"is not NAME=value":        func(j *Job) { j.Environ = []string{"hf_secret"} },
	} {
		j := shell("job", "true")
		change(&j)
		_, err := n.Start(j)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hf_secret") {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(n.root, "jobs")); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestOwners: which jobs are meant, and that a name is one queue's.
func TestOwners(t *testing.T) {
	n := newJobs(t)
	for name, owner := range map[string]string{"a": "one", "b": "two", "c": "one"} {
		j := shell(name, "true")
		j.Owner = owner
		p, _, err := makeFolder(n.root, j)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.write(record{State: State{Name: name, Owner: owner, Phase: Ended}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		which Which
		want  string
	}{
		{Which{}, "a b c"},
		{Which{Owner: "one"}, "a c"},
		{Which{Names: []string{"b", "a"}}, "b a"},
		{Which{Owner: "one", Names: []string{"b", "a", "none"}}, "a none"},
		{Which{Owner: "nobody"}, ""},
	} {
		list, err := n.States(c.which)
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%+v: %q, want %q; %v", c.which, got, c.want, err)
		}
	}
	if _, err := n.States(Which{Names: []string{"../b"}}); err == nil {
		t.Error("a path is a name")
	}
	if _, err := n.Start(shell("a", "true")); err == nil || !strings.Contains(err.Error(), "another queue") {
		t.Errorf("another's name: %v", err)
	}
}

// TestLease: a lease is renewed, runs out, and knows nothing of times that a clock shows.
func TestLease(t *testing.T) {
	p, made, err := makeFolder(jobsFolder(t), shell("job", "true"))
	if err != nil || !made {
		t.Fatal(made, err)
	}
	const lease = 45 * time.Second
	if left := p.left(lease, 0); left > lease || left < lease-10*time.Second {
		t.Errorf("of a new one %v is left", left)
	}
	at := func(d time.Duration) {
		if err := os.Chtimes(p.file(leaseFile), time.Time{}, time.Unix(0, int64(d))); err != nil {
			t.Fatal(err)
		}
	}
	now := elapsed()
	at(now - lease - time.Second)
	if left := p.left(lease, 0); left > 0 {
		t.Errorf("of one that is over %v is left", left)
	}
	if err := p.renew(); err != nil || p.left(lease, 0) < lease-10*time.Second {
		t.Errorf("renewed, %v is left, %v", p.left(lease, 0), err)
	}
	// touch, or a clock that was set: what the keeper began with counts.
	if err := os.Chtimes(p.file(leaseFile), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if left := p.left(lease, elapsed()-lease); left > 0 {
		t.Errorf("by the time of day %v is left", left)
	}
	if why, asked := p.cancelled(); asked {
		t.Errorf("cancelled before anybody asked: %q", why)
	}
	for _, why := range []string{strings.Repeat("x", 2*mostWhy), "later"} {
		if err := p.cancel(why); err != nil {
			t.Fatal(err)
		}
	}
	if why, asked := p.cancelled(); !asked || why != strings.Repeat("x", mostWhy) {
		t.Errorf("%v %.20q", asked, why)
	}
	if a, b := elapsed(), awake(); a < b-time.Second || b <= 0 {
		t.Errorf("with sleep %v, without %v", a, b)
	}
}

func jobsFolder(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestFullDisk: on a full disk a job is not half there, what it prints is lost and said to be, and how it ended is
// written all the same.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := mountSmall(disk); err != nil {
		t.Skip("a small disk needs root on Linux: ", err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	fill := func() {
		f, err := os.OpenFile(filepath.Join(disk, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for b := make([]byte, 1<<20); len(b) > 0; {
			if _, err := f.Write(b); err != nil {
				b = b[:len(b)/2]
			}
		}
	}
	if err := os.Mkdir(filepath.Join(disk, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(disk, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, _, err := makeFolder(disk, shell("there", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(record{State: State{Phase: Running}}); err != nil {
		t.Fatal(err)
	}
	out, err := newPrinted(p.file(Stdout))
	if err != nil {
		t.Fatal(err)
	}
	fill()
	n := &Jobs{root: disk, guards: map[string]chan struct{}{}}
	_, err = n.Start(shell("new", "true"))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(fault.HintOf(err), "make room") {
		t.Errorf("%v, %s", err, fault.HintOf(err))
	}
	entries, _ := os.ReadDir(filepath.Join(disk, "jobs"))
	if len(entries) != 1 || len(file.Parts(string(p))) > 0 {
		t.Errorf("half a job is there: %v", entries)
	}
	out.take(make([]byte, 1<<20))
	if got := out.trouble(); !strings.Contains(got, "bytes of stdout are not kept: no space left on device") {
		t.Errorf("what was lost: %q", got)
	}
	out.close()
	if err := p.renew(); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if err := p.cancel("moved"); err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, asked := p.cancelled(); !asked {
		t.Error("nobody asked for its end")
	}
	if err := p.write(record{State: State{Phase: Ended, Trouble: []string{strings.Repeat("x", 10<<10)}}}); err != nil {
		t.Errorf("the state: %v", err)
	}
	if r, _, err := p.record(); err != nil || r.State.Phase != Ended {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCode: a job runs within the code that was sent for it; what is no snapshot is said, and nothing is run.
func TestCode(t *testing.T) {
	n := newJobs(t)
	blobs, project := filepath.Join(n.root, "blobs"), t.TempDir()
	for _, err := range []error{
		os.Mkdir(blobs, 0o700), os.Mkdir(filepath.Join(project, "sub"), 0o755),
		os.WriteFile(filepath.Join(project, "sub", "train.sh"), []byte("cat ../data; pwd\n"), 0o644),
		os.WriteFile(filepath.Join(project, "data"), []byte("of the project\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := bundle.Take(t.Context(), project, bundle.SnapshotOptions{Into: blobs, Here: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(snapshot.Path, filepath.Join(blobs, snapshot.Sum)); err != nil {
		t.Fatal(err)
	}
	broken := strings.Repeat("ab", 32)
	if err := os.WriteFile(filepath.Join(blobs, broken), []byte("no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	good, bad := shell("good", ". ./train.sh"), shell("bad", "true")
	good.Code, good.Dir, bad.Code = snapshot.Sum, "sub", broken
	for _, j := range []Job{good, bad} {
		if _, err := n.Start(j); err != nil {
			t.Fatal(err)
		}
	}
	if s := until(t, n, "good", isOver); s.Exit == nil || *s.Exit != 0 {
		t.Errorf("%+v", s)
	}
	want := "of the project\n" + filepath.Join(string(n.folder("good")), workFolder, "sub") + "\n"
	if text, _ := os.ReadFile(n.folder("good").file(Stdout)); string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	if s := until(t, n, "bad", isOver); s.Phase != Ended || !strings.Contains(s.Error, "unpack") || s.Exit != nil {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(n.folder("bad").file(runFolder)); err == nil {
		t.Error("something was run")
	}
}
