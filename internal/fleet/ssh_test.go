package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/node"
	"assay/internal/testset"
)

var errKilled = errors.New("killed")

// home is what lies on this side: queue, runs, and what was recorded.
type home struct {
	t        *testing.T
	dir      string
	mu       sync.Mutex
	recorded map[string]string // folder → what was recorded of it
}

func newHome(t *testing.T) *home { return &home{t: t, dir: t.TempDir(), recorded: map[string]string{}} }

func (h *home) options(dead func() bool) Options {
	return Options{Folder: filepath.Join(h.dir, "queue"), Runs: filepath.Join(h.dir, "runs"), Name: "q", Lease: 45,
		Retries: 50, Record: func(folder string) error {
			if dead() {
				return errKilled
			}
			b, err := os.ReadFile(filepath.Join(folder, "evidence.json"))
			if err != nil {
				b, _ = os.ReadFile(filepath.Join(folder, "events.jsonl"))
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			name := filepath.Base(folder)
			if was, ok := h.recorded[name]; ok && was != string(b) {
				h.t.Errorf("%s was recorded as %q, and again as %q", name, was, b)
			}
			h.recorded[name] = string(b)
			return nil
		}}
}

// drive works the queue off once; crash is asked at each step of the journal.
func (h *home) drive(ctx context.Context, w *world, crash func(string) error, tasks ...Task) (*Queue, error) {
	var killed atomic.Bool
	q, err := Open(h.options(killed.Load))
	if err != nil {
		return nil, err
	}
	q.journal.crash = func(step string) error {
		if killed.Load() {
			return errKilled
		}
		if crash != nil {
			if err := crash(step); err != nil {
				killed.Store(true)
				return err
			}
		}
		return nil
	}
	for _, t := range tasks {
		if err := q.Add(t); err != nil {
			q.Close()
			return q, err
		}
	}
	e := &SSH{Dial: func(_ context.Context, h Host) (node.Client, error) { return w.dial(h, killed.Load) }}
	for _, n := range []string{"a", "b", "c"} {
		if w.hosts[n] != nil {
			e.Hosts = append(e.Hosts, Host{Name: n, Slots: 1})
		}
	}
	err = e.Run(ctx, q)
	return q, errors.Join(err, q.Close())
}

func tasks(n int) []Task {
	var all []Task
	for i := range n {
		all = append(all, Task{Name: fmt.Sprintf("%02d", i+1), Command: []string{"train", fmt.Sprint(i)},
			Device: "gpu"})
	}
	return all
}

func TestQueueIsWorkedOff(t *testing.T) {
	h := newHome(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, "a", "b", "c")
		w.exit = func(j node.Job) int { return map[string]int{"03": 7}[taskOf(j.Name)] }
		q, err := h.drive(t.Context(), w, nil, tasks(7)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range q.Rows() {
			want := Done
			if r.Task.Name == "03" {
				want = Failed
			}
			if r.Phase != want || r.Attempts != 1 {
				t.Errorf("%s: %s after %d attempts: %s", r.Task.Name, r.Phase, r.Attempts, r.Why)
			}
			if got := h.recorded[r.Attempt]; !strings.HasPrefix(got, "evidence of "+r.Attempt) {
				t.Errorf("%s: recorded %q", r.Attempt, got)
			}
		}
		for n, host := range w.hosts {
			if len(host.jobs) > 0 {
				t.Errorf("%s has %d jobs left", n, len(host.jobs))
			}
		}
		time.Sleep(time.Minute)
	})
}

// A host that is cut off: its job starts elsewhere when its lease has run out there, and not before; what had come of
// it is recorded.
func TestLostHost(t *testing.T) {
	h := newHome(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, "a", "b")
		w.long = func(node.Job) time.Duration { return 40 * time.Second }
		time.AfterFunc(20*time.Second, func() { w.cut("a", true) })
		q, err := h.drive(t.Context(), w, nil, tasks(2)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range q.Rows() {
			if r.Phase != Done {
				t.Errorf("%s: %s: %s", r.Task.Name, r.Phase, r.Why)
			}
		}
		if got := h.recorded[q.Owner()+"-01-a1"]; !strings.HasPrefix(got, "event 0") {
			t.Errorf("of the lost attempt was recorded %q", got)
		}
		if r := q.Rows()[0]; r.Attempts != 2 || r.Host != "b" {
			t.Errorf("job 01: attempt %d on %s", r.Attempts, r.Host)
		}
		time.Sleep(time.Minute)
	})
}

func (w *world) cut(name string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name].down = down
}

func (w *world) restart(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name].boot++
}

// TestKills: drivers killed at any step of the journal, links that lose requests and answers, hosts that are cut off
// and come back, restarts. Each task ends once, no two attempts of one run at the same time, what was written of a
// run that ended is here and recorded once, and nothing is left on the hosts.
func TestKills(t *testing.T) {
	rounds, total := 8, 0
	if testset.IsFull() {
		rounds = 400
	}
	for seed := range rounds {
		h := newHome(t)
		kills := 0
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(seed), "a", "b", "c")
			w.rude = true
			w.long = func(node.Job) time.Duration { return time.Duration(w.rnd.Int64N(int64(90 * time.Second))) }
			over := make(chan struct{})
			go func() { // what befalls hosts
				names := []string{"a", "b", "c"}
				for {
					select {
					case <-over:
						return
					case <-time.After(20 * time.Second):
					}
					w.mu.Lock()
					name := names[w.rnd.IntN(3)]
					what := w.rnd.IntN(6)
					long := time.Duration(w.rnd.Int64N(int64(4 * time.Minute)))
					w.mu.Unlock()
					switch what {
					case 0:
						w.restart(name)
					case 1, 2:
						w.cut(name, true)
						time.AfterFunc(long, func() { w.cut(name, false) })
					}
				}
			}()
			steps := 0
			crash := func(string) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				steps++
				if kills < 12 && w.rnd.IntN(25) == 0 {
					kills++
					return errKilled
				}
				return nil
			}
			var q *Queue
			for round := 0; ; round++ {
				var err error
				q, err = h.drive(t.Context(), w, crash, tasks(6)...)
				if err == nil && q.Finished() {
					break
				}
				if err != nil && !errors.Is(err, errKilled) && !strings.Contains(err.Error(),
					"no host could be reached") {
					t.Fatal(err)
				}
				if round > 60 {
					for _, s := range q.Open() {
						t.Logf("open: %+v", s)
					}
					t.Fatalf("seed %d: no end", seed)
				}
				time.Sleep(time.Duration(w.rnd.Int64N(int64(2 * time.Minute))))
			}
			for _, r := range q.Rows() {
				if r.Phase != Done {
					t.Errorf("seed %d: %s: %s: %s", seed, r.Task.Name, r.Phase, r.Why)
				}
				if got := h.recorded[r.Attempt]; !strings.HasPrefix(got, "evidence of "+r.Attempt) {
					t.Errorf("seed %d: %s: recorded %q", seed, r.Attempt, got)
				}
			}
			for name, n := range w.ran {
				if n != 1 {
					t.Errorf("seed %d: %s was begun %d times", seed, name, n)
				}
				// Of one whose host was cut off before any file came there is no folder.
				_, err := os.Stat(q.Folder(name))
				if _, ok := h.recorded[name]; !ok && err == nil {
					t.Errorf("seed %d: nothing of %s was recorded", seed, name)
				}
			}
			close(over)
			time.Sleep(10 * time.Minute)
			if len(w.alive) > 0 {
				t.Errorf("seed %d: orphans: %v", seed, w.alive)
			}
		})
		if total += kills; t.Failed() {
			return
		}
	}
	t.Logf("%d lives, %d kills of the driver", rounds, total)
}

// TestMoved: somebody else's jobs have all GPUs. Ours waits behind one of them, and goes where one is free first.
func TestMoved(t *testing.T) {
	h := newHome(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, "a", "b")
		w.long = func(j node.Job) time.Duration {
			return map[string]time.Duration{"1": 5 * time.Minute, "2": 30 * time.Second,
				"01": 10 * time.Second}[taskOf(j.Name)]
		}
		for i, name := range []string{"a", "b"} {
			conn, err := w.dial(Host{Name: name}, func() bool { return false })
			ok(t, err)
			_, err = conn.Start(node.Job{Name: fmt.Sprintf("x-y-%d-a1", i+1), Owner: "x", Lease: 7200, Device: "gpu"})
			ok(t, err)
		}
		began := time.Now()
		q, err := h.drive(t.Context(), w, nil, tasks(1)...)
		ok(t, err)
		if r := q.Rows()[0]; r.Phase != Done || r.Host != "b" || time.Since(began) > 2*time.Minute {
			t.Errorf("%s on %s after %s, in %d attempts", r.Phase, r.Host, time.Since(began), r.Attempts)
		}
		time.Sleep(10 * time.Minute)
	})
}

// TestStopped: a driver that is stopped cancels what runs, and the next goes on with it.
func TestStopped(t *testing.T) {
	h := newHome(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, "a", "b")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, stop)
		began := time.Now()
		q, err := h.drive(ctx, w, nil, tasks(3)...)
		ok(t, err)
		if took := time.Since(began); took > 15*time.Second || len(w.alive) > 0 {
			t.Errorf("it took %s, and %v run", took, w.alive)
		}
		for _, r := range q.Rows() {
			if r.Phase != Queued {
				t.Errorf("%s: %s", r.Task.Name, r.Phase)
			}
		}
		q, err = h.drive(t.Context(), w, nil, tasks(3)...)
		ok(t, err)
		for _, r := range q.Rows() {
			if r.Phase != Done {
				t.Errorf("%s: %s: %s", r.Task.Name, r.Phase, r.Why)
			}
		}
		time.Sleep(time.Minute)
	})
}
