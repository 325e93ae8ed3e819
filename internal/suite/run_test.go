package suite

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/launch"
)

// process is one that has ended, or one that ends by the first signal.
type process struct {
	ended chan struct{}
	got   []syscall.Signal
}

func (p *process) PID() int                       { return os.Getpid() }
func (p *process) Ended() <-chan struct{}         { return p.ended }
func (p *process) Ending() (launch.Ending, error) { return launch.Ending{}, nil }
func (p *process) Signal(s syscall.Signal)        { p.got = append(p.got, s); close(p.ended) }
func over() *process                              { p := &process{ended: make(chan struct{})}; close(p.ended); return p }
func write(t *testing.T, s *Supervisor, l ...string) {
	t.Helper()
	appendTo(t, s, strings.Join(l, "\n")+"\n")
}

func appendTo(t *testing.T, s *Supervisor, text string) {
	t.Helper()
	f, err := os.OpenFile(s.Settings()["journal"].(string), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func supervisor(t *testing.T, o Options) *Supervisor {
	t.Helper()
	o.Dir, o.Environ = t.TempDir(), []string{"TMPDIR=" + t.TempDir()}
	if o.Now == nil {
		o.Now = time.Now
	}
	s, err := NewSupervisor(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ending is how the process of a run ended, after what its tests told.
type ending struct {
	told  []string
	how   launch.Ending
	again bool
}

// TestAgain: pytest goes on without the tests that are over as long as a test has ended it, and no longer.
func TestAgain(t *testing.T) {
	abort, fine := launch.Ending{Exit: 134, Signal: syscall.SIGABRT}, launch.Ending{}
	collected := `{"collected":["a","b","c"],"maxfail":%d}`
	passed := func(id string) string {
		return `{"start":"` + id + `"}` + "\n" + `{"id":"` + id + `","outcome":"passed"}`
	}
	for name, c := range map[string]struct {
		stopped bool
		endings []ending
		status  int
		missing string
		want    string
	}{
		"to its end": {endings: []ending{{[]string{fmt.Sprintf(collected, 0), passed("a"), passed("b"), passed("c"),
			`{"end":0}`}, fine, false}}, want: "a passed, b passed, c passed"},
		"a test leaves with status 0": {endings: []ending{
			{[]string{fmt.Sprintf(collected, 0), passed("a"), `{"start":"b"}`}, fine, true},
			{[]string{fmt.Sprintf(collected, 0), passed("c"), `{"end":0}`}, fine, false}},
			want: "a passed, b ended, c passed"},
		"the last one aborts": {endings: []ending{
			{[]string{fmt.Sprintf(collected, 0), passed("a"), passed("b"), `{"start":"c"}`}, abort, false}}, status: 1,
			want: "a passed, b passed, c ended"},
		"before any test": {endings: []ending{{nil, abort, false}}, status: 1,
			missing: "before it had collected the tests: its process ended by SIGABRT"},
		"between two tests": {endings: []ending{{[]string{fmt.Sprintf(collected, 0), passed("a")}, abort, false}},
			status: 1, missing: "2 tests were not run: pytest ended between two tests",
			want: "a passed, b not run, c not run"},
		"the user ends it": {stopped: true, endings: []ending{
			{[]string{fmt.Sprintf(collected, 0), `{"start":"a"}`}, launch.Ending{Exit: 143, Signal: syscall.SIGTERM},
				false}}, status: 1, missing: "2 tests were not run: it was ended by a signal",
			want: "a ended, b not run, c not run"},
		"after so many failures": {endings: []ending{
			{[]string{fmt.Sprintf(collected, 1), `{"start":"a"}`}, abort, false}}, status: 1,
			missing: "pytest was to end after 1 failures", want: "a ended, b not run, c not run"},
		"interrupted": {endings: []ending{{[]string{fmt.Sprintf(collected, 0), passed("a"), `{"end":2}`},
			launch.Ending{Exit: 2}, false}}, status: 2, missing: "2 tests were not run",
			want: "a passed, b not run, c not run"},
	} {
		s := supervisor(t, Options{Stopped: func() bool { return c.stopped }})
		for i, e := range c.endings {
			write(t, s, e.told...)
			s.Follow(over())
			if again := s.Again(e.how); again != e.again {
				t.Errorf("%s: ending %d: started once more: %v", name, i, again)
			}
		}
		var r Run
		s.Into(&r)
		var got []string
		for _, x := range r.Tests {
			got = append(got, x.ID+" "+string(x.Outcome))
		}
		if strings.Join(got, ", ") != c.want || r.Status != c.status || !strings.Contains(r.Missing, c.missing) ||
			c.missing == "" && r.Missing != "" {
			t.Errorf("%s: %q, status %d, %s", name, got, r.Status, r.Missing)
		}
	}
}

// TestRestartsHaveAnEnd: a suite each of whose tests ends its process is given up, and says so.
func TestRestartsHaveAnEnd(t *testing.T) {
	s := supervisor(t, Options{})
	var ids []string
	for i := range MaxRestarts + 9 {
		ids = append(ids, fmt.Sprintf(`"t%02d"`, i))
	}
	write(t, s, `{"collected":[`+strings.Join(ids, ",")+`]}`)
	started := 0
	for {
		write(t, s, `{"start":`+ids[started]+`}`)
		started++
		if !s.Again(launch.Ending{Exit: 139, Signal: syscall.SIGSEGV}) {
			break
		}
	}
	var r Run
	s.Into(&r)
	if started != MaxRestarts+1 ||
		!strings.Contains(r.Missing, "8 tests were not run: tests ended pytest's process more") {
		t.Errorf("started %d times: %s", started, r.Missing)
	}
}

// TestHung: a test beyond the limit has its process ended, is told as hung, and the others go on.
func TestHung(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { now = now.Add(40 * time.Second); return now }
	s := supervisor(t, Options{Limit: time.Minute, Now: clock})
	write(t, s, `{"collected":["a","b"]}`, `{"start":"a","pid":0}`)
	p := &process{ended: make(chan struct{})}
	s.Follow(p)
	if len(p.got) != 1 || p.got[0] != syscall.SIGKILL || !s.Again(launch.Ending{Exit: 137, Signal: syscall.SIGKILL}) {
		t.Fatalf("%v", p.got)
	}
	var r Run
	s.Into(&r)
	if r.Tests[0].Outcome != Hung || !strings.Contains(r.Tests[0].Text, "1m0s") || r.Tests[1].Outcome != NotRun {
		t.Errorf("%+v", r.Tests)
	}
}

// TestStatus: what fails on the CPU too is no failure of the device's, and what was not run is no pass.
func TestStatus(t *testing.T) {
	for want, runs := range map[int][]Run{
		0: {{Status: 1, Tests: []Test{{Outcome: Failed, CPU: Failed}, {Outcome: Ended, CPU: Hung}, {Outcome: Passed}}}},
		1: {{Status: 1, Tests: []Test{{Outcome: Failed, CPU: Failed}, {Outcome: Failed}}}, {}},
		2: {{Status: 1, Tests: []Test{{Outcome: Failed}}}, {Status: 2}},
		5: {{Status: 5}},
	} {
		if got := (&Result{Runs: runs}).Status(); got != want {
			t.Errorf("%d, not %d: %+v", got, want, runs)
		}
	}
	if got := (&Result{Runs: []Run{{Missing: "pytest ended"}}}).Status(); got != 1 {
		t.Errorf("not all tests were run: %d", got)
	}
}

// TestText: strangers' words draw nothing on a terminal, and a table has no line wider than it needs.
func TestText(t *testing.T) {
	r := Result{Runs: []Run{{On: "double", Torch: "2.8.0", Tests: []Test{
		{ID: "a::\x1b[31mred\nnew", Outcome: Failed, Error: "E\x07", Text: "first\nsecond", Device: true},
		{ID: "a::pool", Outcome: Failed, Operator: "aten::max_pool3d_with_indices", Cause: "missing", Where: "m.py:3",
			Device: true, CPU: Passed}}}}}
	var b strings.Builder
	if err := r.Text(&b, 80); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") || !strings.Contains(b.String(), "2.9      m.py:3") ||
		!strings.Contains(b.String(), "2 fail here alone") {
		t.Errorf("%q", b.String())
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}
