package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/node"
)

// world is a pool of hosts that are only told of: their jobs take time, and nothing else. It sees whether any task runs
// twice at once.
type world struct {
	t     *testing.T
	mu    sync.Mutex
	rnd   *rand.Rand
	hosts map[string]*fakeHost
	alive map[string]string // task → attempt that runs
	ran   map[string]int    // attempt → how often it was begun
	whole map[string]bool   // attempts whose evidence was written
	long  func(job node.Job) time.Duration
	exit  func(job node.Job) int
	rude  bool // links lose requests and answers
}

func newWorld(t *testing.T, seed uint64, names ...string) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), hosts: map[string]*fakeHost{}, alive: map[string]string{},
		ran: map[string]int{}, whole: map[string]bool{},
		long: func(node.Job) time.Duration { return 10 * time.Second }, exit: func(node.Job) int { return 0 }}
	for _, n := range names {
		w.hosts[n] = &fakeHost{w: w, name: n, jobs: map[string]*fakeJob{},
			skew: time.Duration(w.rnd.Int64N(1e18)) - 5e17}
	}
	return w
}

type fakeHost struct {
	w     *world
	name  string
	facts node.Facts
	down  bool // the link is cut: jobs go on
	skew  time.Duration
	jobs  map[string]*fakeJob
	order []*fakeJob // that wait for the GPU, or have it
	conns []*fakeConn
	boot  int
}

type fakeJob struct {
	node.Job
	host    *fakeHost
	state   node.State
	files   map[string]string
	expires time.Time
	stop    chan string
}

// task of an attempt's name, less owner and number.
func taskOf(name string) string {
	parts := strings.Split(name, "-")
	return strings.Join(parts[2:len(parts)-1], "-")
}

// fakeConn is a connection of a driver. killed: the driver's end has gone.
type fakeConn struct {
	h      *fakeHost
	mu     sync.Mutex
	closed chan struct{}
	dead   func() bool
}

var errCut = errors.New("the link is cut")

func (w *world) dial(h Host, dead func() bool) (node.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host := w.hosts[h.Name]
	if host == nil || host.down || dead() {
		return nil, errCut
	}
	c := &fakeConn{h: host, closed: make(chan struct{}), dead: dead}
	host.conns = append(host.conns, c)
	return c, nil
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
}

// do is a request: it may come there late, or its answer may be lost.
func do[T any](c *fakeConn, f func() (T, error)) (T, error) {
	var none T
	time.Sleep(20 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock() // in their order
	select {
	case <-c.closed:
		return none, errCut
	default:
	}
	w := c.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.dead() {
		return none, errCut
	}
	lose := w.rude && w.rnd.IntN(40) == 0
	if c.h.down || lose && w.rnd.IntN(2) == 0 {
		close(c.closed)
		return none, errCut
	}
	got, err := f()
	if lose {
		close(c.closed)
		return none, errCut
	}
	return got, err
}

func (c *fakeConn) Hello() node.Hello { return node.Hello{Protocol: node.Protocol} }

func (c *fakeConn) Facts(node.Ask) (node.Facts, error) {
	return do(c, func() (node.Facts, error) {
		f := c.h.facts
		f.Host, f.Device, f.CPUs, f.Clock = c.h.name, "mps", 8, time.Now().Add(c.h.skew)
		if len(c.h.order) > 0 {
			f.Holds = c.h.order[0].Name
		}
		return f, nil
	})
}

func (c *fakeConn) Put(p node.Put, read func([]byte, int64) (int, error), _ func(int64)) (string, error) {
	return do(c, func() (string, error) {
		b := make([]byte, p.Size)
		if n, _ := read(b, 0); int64(n) != p.Size {
			return "", &node.Refused{Text: "short"}
		}
		return "/blobs/" + p.Sum, nil
	})
}

func (c *fakeConn) Start(j node.Job) (node.State, error) {
	return do(c, func() (node.State, error) {
		h := c.h
		if have := h.jobs[j.Name]; have != nil {
			return have.told(), nil
		}
		job := &fakeJob{Job: j, host: h, files: map[string]string{}, stop: make(chan string, 8),
			expires: time.Now().Add(secondsOf(j.Lease)),
			state:   node.State{Name: j.Name, Owner: j.Owner, Phase: node.Waiting, Began: time.Now().Add(h.skew)}}
		h.jobs[j.Name] = job
		h.order = append(h.order, job)
		h.w.ran[j.Name]++
		go job.keep()
		return job.told(), nil
	})
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// keep is the keeper of a job.
func (j *fakeJob) keep() {
	w, h := j.host.w, j.host
	task := taskOf(j.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	boot := h.boot
	var ends time.Time
	end := func(phase, why string, exit int) {
		if j.state.Phase == node.Running && w.alive[task] == j.Name {
			delete(w.alive, task)
		}
		h.order = slices.DeleteFunc(h.order, func(o *fakeJob) bool { return o == j })
		j.state.Phase, j.state.Why = phase, why
		if phase == node.Ended && why == "" {
			j.state.Exit = &exit
			j.files["evidence.json"] = "evidence of " + j.Name + strings.Repeat(".", w.rnd.IntN(1000))
			w.whole[j.Name] = true
		}
		j.files["events.jsonl"] += "end\n"
	}
	for {
		if h.boot != boot {
			end(node.Lost, "the host was restarted", 0)
			return
		}
		now := time.Now()
		select {
		case why := <-j.stop:
			end(node.Ended, why, 0)
			return
		default:
		}
		switch {
		case now.After(j.expires):
			end(node.Ended, WhyLease, 0)
			return
		case j.state.Phase == node.Waiting && h.order[0] == j:
			j.state.Phase = node.Running
			if other := w.alive[task]; other != "" {
				w.t.Errorf("%s begins on %s while %s runs", j.Name, h.name, other)
			}
			w.alive[task] = j.Name
			ends = now.Add(w.long(j.Job))
		case j.state.Phase == node.Running && now.After(ends):
			end(node.Ended, "", w.exit(j.Job))
			return
		}
		if j.state.Phase == node.Running {
			j.files["events.jsonl"] += fmt.Sprintf("event %d of %s\n", len(j.files["events.jsonl"]), j.Name)
		}
		w.mu.Unlock()
		time.Sleep(250 * time.Millisecond)
		w.mu.Lock()
	}
}

func (j *fakeJob) told() node.State {
	s := j.state
	if s.Phase == node.Waiting {
		s.Holder = j.host.order[0].Name
	}
	s.Files = map[string]int64{}
	for n, text := range j.files {
		s.Files[n] = int64(len(text))
	}
	return s
}

func (c *fakeConn) which(w node.Which) []*fakeJob {
	var all []*fakeJob
	for _, j := range c.h.jobs {
		if (w.Owner == "" || w.Owner == j.Owner) && (len(w.Names) == 0 || slices.Contains(w.Names, j.Name)) {
			all = append(all, j)
		}
	}
	return all
}

func toldAll(jobs []*fakeJob) []node.State {
	var all []node.State
	for _, j := range jobs {
		all = append(all, j.told())
	}
	return all
}

func (c *fakeConn) Renew(names ...string) ([]node.State, error) {
	return do(c, func() ([]node.State, error) {
		jobs := c.which(node.Which{Names: names})
		for _, j := range jobs {
			j.expires = time.Now().Add(secondsOf(j.Lease))
		}
		return toldAll(jobs), nil
	})
}

func (c *fakeConn) States(w node.Which) ([]node.State, error) {
	return do(c, func() ([]node.State, error) { return toldAll(c.which(w)), nil })
}

func (c *fakeConn) Read(r node.Read) ([]byte, node.Piece, error) {
	type both struct {
		b []byte
		p node.Piece
	}
	got, err := do(c, func() (both, error) {
		j := c.h.jobs[r.Name]
		if j == nil {
			return both{}, &node.Refused{Text: "no such job"}
		}
		text, ok := j.files[r.File]
		if !ok {
			return both{}, &node.Refused{Text: "no such file"}
		}
		from := min(int(r.At), len(text))
		return both{[]byte(text[from:min(len(text), from+100)]), node.Piece{Size: int64(len(text)),
			Final: over(j.state)}}, nil
	})
	return got.b, got.p, err
}

func (c *fakeConn) Cancel(w node.Which) ([]node.State, error) {
	return do(c, func() ([]node.State, error) {
		jobs := c.which(w)
		for _, j := range jobs {
			if !over(j.state) {
				select {
				case j.stop <- w.Why:
				default:
				}
			}
		}
		return toldAll(jobs), nil
	})
}

func (c *fakeConn) Forget(w node.Which) error {
	_, err := do(c, func() (any, error) {
		for _, j := range c.which(w) {
			if over(j.state) {
				delete(c.h.jobs, j.Name)
			}
		}
		return nil, nil
	})
	return err
}

func (c *fakeConn) Place(node.Place) (node.Have, error) { return node.Have{}, errCut }
