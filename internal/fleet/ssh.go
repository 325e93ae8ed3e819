package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/text"
	"assay/internal/unit"
)

// SSH is the Engine that asks nodes on hosts, a connection each. All that it knows of a job stands in the queue: it
// looks at what is there and does the next thing, and one that was started anew does the same.
type SSH struct {
	Hosts []Host
	Dial  func(context.Context, Host) (node.Client, error)
	// Code opens a snapshot by its SHA-256. nil: no task has one.
	Code  func(sum string) (CodeFile, error)
	Speed Speed // nil: no host is known to be faster
	// Leave has jobs go on when Run is stopped: until their lease has run out, unless a driver comes before.
	Leave bool
	// Abandon, when it is closed, has Run return at once, whatever is under way. nil: never.
	Abandon <-chan struct{}
	Say     func(string)      // about hosts, a line each; nil: nobody is told
	Placed  func([]Placement) // what was decided, each time that anything was; nil
	Looked  func([]View)      // how the hosts stand, about once a second; nil
}

// CodeFile is a snapshot's file.
type CodeFile struct {
	io.ReaderAt
	io.Closer
	Size int64
}

// What a driver waits for. A lease counts on the host, from when a renewal came there.
const (
	// slack is how long a node may take to end a job whose lease has run out: it asks, waits, and kills.
	slack = 15 * time.Second
	// firstPoll and slowPoll are how often a host is asked about its jobs: soon after something happened, and later
	// less.
	firstPoll = 100 * time.Millisecond
	slowPoll  = 2 * time.Second
	// factsEvery is how old facts may be by which tasks are placed; asking costs a Mac some tenths of a second.
	factsEvery = 15 * time.Second
	// factsOld is how old they may be at most: a laptop may have been unplugged since.
	factsOld = time.Minute
	// firstRetry and lastRetry are the pauses between attempts to connect.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// stopLimit is how long a driver that was stopped waits for its jobs to end.
	stopLimit = 60 * time.Second
	// stopAgain is how long it waits for a host that has just gone: Ctrl-C may have reached ssh as well.
	stopAgain = 10 * time.Second
	// movedEvery is how often a task may be taken away from a host where it only waits.
	movedEvery = time.Minute
	// pieceSize is how much of a file is asked for at once, so that a renewal never waits long behind it.
	pieceSize = 256 << 10
	// fetchFor is how long files are fetched before a host is looked at again.
	fetchFor = time.Second
	// maxFiles of a run that are brought home.
	maxFiles = 64
)

// pool is a Run.
type pool struct {
	e        *SSH
	q        *Queue
	workers  []*worker
	mu       sync.Mutex
	stopping bool
	trouble  error // of the journal, or of this machine's disk: nothing can go on
	moved    map[string]time.Time
}

// Run works the queue off.
func (e *SSH) Run(ctx context.Context, q *Queue) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &pool{e: e, q: q, moved: map[string]time.Time{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, h := range e.Hosts {
		p.workers = append(p.workers, p.newWorker(h))
	}
	for _, w := range p.workers {
		wg.Go(func() { w.keep(inner) })
	}
	return p.plan(ctx)
}

// Cancel begins nothing: it asks the hosts to end what is to be cancelled, brings home what there is of it, and returns
// when that is done, or ctx. Other attempts are adopted, and left as they are.
func (e *SSH) Cancel(ctx context.Context, q *Queue) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &pool{e: e, q: q, moved: map[string]time.Time{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	open := q.Open()
	for _, h := range e.Hosts {
		if slices.ContainsFunc(open, func(s Standing) bool { return s.Host == h.Name && s.Stop != "" }) {
			w := p.newWorker(h)
			p.workers = append(p.workers, w)
			wg.Go(func() { w.keep(inner) })
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := p.failed(); err != nil {
			return err
		}
		if !slices.ContainsFunc(q.Open(), func(s Standing) bool { return s.Stop != "" && !s.Home }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// newWorker is the worker of a host, before it has connected.
func (p *pool) newWorker(h Host) *worker {
	w := &worker{p: p, host: h, why: "no connection yet", until: map[string]time.Time{}, put: map[string]bool{},
		downSince: time.Now()}
	for _, s := range p.q.On(h.Name) { // another driver's, which may have renewed them a moment ago
		w.until[s.Name] = time.Now().Add(node.Stale + w.lease())
	}
	return w
}

func (p *pool) say(format string, a ...any) {
	if p.e.Say != nil {
		p.e.Say(fmt.Sprintf(format, a...))
	}
}

func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil {
		p.trouble = err
	}
}

func (p *pool) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

func (p *pool) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// plan places tasks, finds what was lost, and sees the end.
func (p *pool) plan(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	done := ctx.Done()
	var stopped time.Time
	for {
		changed := p.q.Changed()
		p.lose()
		views := p.views()
		never := false
		if stopped.IsZero() {
			never = p.place(views)
		}
		if p.e.Looked != nil {
			p.e.Looked(views)
		}
		if err := p.failed(); err != nil {
			return err
		}
		if over, err := p.over(stopped, never); over {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-p.e.Abandon:
			return nil
		case <-done:
			done, stopped = nil, time.Now()
			p.mu.Lock()
			p.stopping = true
			p.mu.Unlock()
			for _, w := range p.workers {
				w.nudge()
			}
			if p.e.Leave {
				return nil
			}
		}
	}
}

// over sees whether anything is left to be done.
func (p *pool) over(stopped time.Time, never bool) (bool, error) {
	open, queued := p.q.Open(), p.q.Queued()
	var refused []string
	for _, w := range p.workers {
		if why := w.refusal(); why != "" {
			refused = append(refused, w.host.Name+": "+why)
		}
	}
	if len(refused) == len(p.workers) && len(open) == 0 && stopped.IsZero() && len(queued) > 0 {
		err := fmt.Errorf("no host could be reached: %s", strings.Join(refused, "; "))
		return true, fault.Hint(err, "see: assay fleet doctor")
	}
	if len(queued) > 0 && stopped.IsZero() && !(never && len(open) == 0) {
		return false, nil
	}
	if stopped.IsZero() && p.q.Held() {
		return false, nil
	}
	if len(open) == 0 {
		return true, nil
	}
	if slices.ContainsFunc(open, func(s Standing) bool { return !s.Over() }) {
		if stopped.IsZero() {
			return false, nil
		}
		// Of hosts that do not answer nothing is waited for: leases end what runs there.
		waits := slices.ContainsFunc(open, func(s Standing) bool {
			w := p.worker(s.Host)
			return !s.Over() && w != nil && (w.isUp() || w.down() < stopAgain)
		})
		return !waits || time.Since(stopped) > stopLimit, nil
	}
	// Nothing runs any more; files may have to come home yet.
	for _, s := range open {
		w := p.worker(s.Host)
		switch {
		case w != nil && w.isUp():
			if !stopped.IsZero() && time.Since(stopped) > stopLimit {
				continue
			}
			return false, nil
		case s.Home: // only the host has something left of it, and will be told another time
			if err := p.q.Settled(s.Name); err != nil {
				return true, err
			}
		case s.Lost != "": // what has come of it is all that there is
			if err := p.q.Home(s.Name); err != nil {
				return true, err
			}
			if err := p.q.Settled(s.Name); err != nil {
				return true, err
			}
		case w != nil && stopped.IsZero() && w.down() < w.lease()+slack:
			return false, nil
		}
	}
	return true, nil
}

func (p *pool) worker(host string) *worker {
	for _, w := range p.workers {
		if w.host.Name == host {
			return w
		}
	}
	return nil
}

// lose declares lost what was on hosts that have not answered for so long that nothing of it can run there any more.
func (p *pool) lose() {
	for _, s := range p.q.Open() {
		if s.Over() {
			continue
		}
		w := p.worker(s.Host)
		var why string
		if w == nil { // the hosts.toml is another than it was
			why = s.Host + " is no host of this fleet any more"
			w = p.stranger(s.Host)
		} else if w.isUp() {
			continue
		}
		if !w.asked(s.Name) {
			if err := p.q.Back(s.Name, or(why, s.Host+" does not answer")); err != nil {
				p.fail(err)
				return
			}
		} else if w.past(s.Name) {
			if why == "" {
				why = fmt.Sprintf("%s has not answered for %s: %s", s.Host,
					unit.Seconds(w.down().Round(time.Second).Seconds()),
					w.reason())
			}
			if err := p.q.Lost(s.Name, why); err != nil {
				p.fail(err)
				return
			}
		}
	}
}

// stranger stands for a host that jobs are on and that is not among ours.
func (p *pool) stranger(host string) *worker {
	w := &worker{p: p, host: Host{Name: host}, why: "it is no host of this fleet", put: map[string]bool{},
		until: map[string]time.Time{}, downSince: time.Now(), gone: true}
	for _, s := range p.q.On(host) {
		w.until[s.Name] = time.Now().Add(node.Stale + w.lease())
	}
	p.workers = append(p.workers, w) // of the planner's goroutine alone
	return w
}

func (p *pool) views() []View {
	gpu, cpu := map[string]int{}, map[string]int{}
	for _, s := range p.q.Open() {
		switch {
		case s.Over():
		case s.Task.Device == "gpu":
			gpu[s.Host]++
		default:
			cpu[s.Host]++
		}
	}
	var all []View
	for _, w := range p.workers {
		if w.gone {
			continue
		}
		v := w.view()
		v.GPU, v.CPU = gpu[v.Name], cpu[v.Name]
		if p.q.holds(v.Facts.Holds) {
			v.Facts.Holds = "" // ours: it is counted
		}
		all = append(all, v)
	}
	return all
}

// place takes tasks for hosts, as far as Place says. never: of all that wait none can go anywhere.
func (p *pool) place(views []View) (never bool) {
	queued := p.q.Queued()
	if len(queued) == 0 {
		return false
	}
	all := Place(queued[:min(len(queued), placeAhead)], views, p.q.Away, p.e.Speed)
	never = len(queued) <= placeAhead
	took := false
	for _, pl := range all {
		never = never && pl.Never
		if pl.Host == "" {
			p.q.Waits(pl.Task, pl.Why)
			continue
		}
		if _, err := p.q.Take(pl.Task, pl.Host); errors.Is(err, ErrTaken) {
			continue
		} else if err != nil {
			p.fail(err)
			return false
		}
		took = true
		p.worker(pl.Host).nudge()
	}
	if took && p.e.Placed != nil {
		p.e.Placed(all)
	}
	return never
}

// placeAhead is how many of the tasks that wait are looked at: those behind them wait for these.
const placeAhead = 512

// worker is a host, and the connection with it.
type worker struct {
	p    *pool
	host Host
	gone bool // no host of ours: nobody connects
	mu   sync.Mutex

	up        bool
	why       string // it is not up
	refused   bool   // the first attempt to connect failed
	downSince time.Time
	facts     node.Facts
	factsAt   time.Time
	absent    map[string]string
	until     map[string]time.Time // attempt → when its lease has run out for certain, as this machine's clock counts
	put       map[string]bool      // snapshots that are there, by this connection
	wake      chan struct{}
}

func (w *worker) lease() time.Duration { return time.Duration(w.p.q.Lease() * float64(time.Second)) }

func (w *worker) isUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

// refusal is why the host could not be reached at all; "": it was reached, or was not tried yet.
func (w *worker) refusal() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused {
		return w.why
	}
	return ""
}

func (w *worker) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

func (w *worker) down() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.downSince)
}

func (w *worker) view() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := View{Host: w.host, Up: w.up && !w.factsAt.IsZero(), Why: w.why, Facts: w.facts, Absent: w.absent}
	if v.Up && time.Since(w.factsAt) > factsOld { // it ran something, and was not asked meanwhile
		v.Up, v.Why = false, "it is being asked how it is"
	}
	return v
}

// past reports whether the lease of an attempt has run out on the host, and the time to end it too.
func (w *worker) past(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, ok := w.until[name]
	return !ok || time.Now().After(until.Add(slack))
}

// asked reports whether a host may have been asked to start an attempt.
func (w *worker) asked(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.until[name]
	return ok
}

// asking notes that a request is on its way that gives attempts their lease: it may come there as late as a node still
// obeys it, and count from then. answered notes that it has come.
func (w *worker) asking(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if until := time.Now().Add(node.Stale + w.lease()); until.After(w.until[name]) {
			w.until[name] = until
		}
	}
}

func (w *worker) answered(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.until[name] = time.Now().Add(w.lease())
	}
}

func (w *worker) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.until, name)
}

// nudge has the host looked at now.
func (w *worker) nudge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake != nil {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// keep connects, again and again, and serves the connection.
func (w *worker) keep(ctx context.Context) {
	wait := firstRetry
	for ctx.Err() == nil {
		conn, err := w.p.e.Dial(ctx, w.host)
		if err == nil {
			began := time.Now()
			err = w.serve(ctx, conn)
			conn.Close()
			if time.Since(began) > lastRetry {
				wait = firstRetry
			}
		}
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		first := w.up || w.why != err.Error()
		if w.up {
			w.downSince = time.Now()
		} else if w.factsAt.IsZero() {
			w.refused = true
		}
		w.up, w.why, w.factsAt = false, err.Error(), time.Time{}
		w.mu.Unlock()
		if first {
			hint := ""
			if h := fault.HintOf(err); h != "" {
				hint = " (" + text.Line(h) + ")"
			}
			w.p.say("%s: %s%s", w.host.Name, text.Line(err.Error()), hint)
		}
		// A quarter at random, so that a pool that comes back is not asked by all at once.
		pause := wait + time.Duration(rand.Int64N(int64(wait/4)+1))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		wait = min(2*wait, lastRetry)
	}
}

// lost is an error of the connection; one of the node's answers is none.
func lost(err error) bool {
	var refused *node.Refused
	return err != nil && !errors.As(err, &refused)
}

// serve looks after a host over a connection until that is lost.
func (w *worker) serve(ctx context.Context, conn node.Client) error {
	guarded := &guard{Client: conn, limit: max(w.lease(), 20*time.Second)}
	wake := make(chan struct{}, 1)
	w.mu.Lock()
	w.wake, w.put = wake, map[string]bool{}
	w.mu.Unlock()
	if err := w.ask(guarded); err != nil {
		return err
	}
	w.mu.Lock()
	w.up, w.refused = true, false
	w.mu.Unlock()
	w.p.say("%s: connected, %s", w.host.Name, text.Line(Describe(w.view())))
	inner, stop := context.WithCancel(ctx)
	defer stop()
	broken := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	defer conn.Close() // a renewal under way ends
	wg.Go(func() { w.renewals(inner, guarded, broken) })
	pause := firstPoll
	for {
		busy, err := w.look(guarded)
		if lost(err) {
			return err
		}
		if err != nil {
			w.p.say("%s: %s", w.host.Name, text.Line(err.Error()))
		}
		if err == nil && time.Since(w.factsTime()) > factsEvery && w.p.q.waits(w.host.Name) {
			if err := w.ask(guarded); lost(err) {
				return err
			}
		}
		if busy {
			pause = firstPoll
		} else {
			pause = min(pause+pause/2, slowPoll)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case err := <-broken:
			timer.Stop()
			return err
		case <-wake:
			timer.Stop()
			pause = firstPoll
		case <-timer.C:
		}
	}
}

func (w *worker) factsTime() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.factsAt
}

// ask asks the host about itself.
func (w *worker) ask(conn node.Client) error {
	paths := w.p.q.paths()
	facts, err := conn.Facts(node.Ask{Paths: paths, Python: w.host.Python})
	if lost(err) {
		return fmt.Errorf("ask about the host: %w", err)
	}
	if err != nil { // what it does not say is not known
		w.p.say("%s: %s", w.host.Name, text.Line(err.Error()))
		facts = node.Facts{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts, w.factsAt, w.absent = facts, time.Now(), absent(facts, paths)
	return nil
}

// renewals renews the leases of what runs there, each third of them.
func (w *worker) renewals(ctx context.Context, conn node.Client, broken chan<- error) {
	tick := time.NewTicker(w.lease() / 3)
	defer tick.Stop()
	for {
		var names []string
		for _, s := range w.p.q.On(w.host.Name) {
			if !s.Over() && s.Began {
				names = append(names, s.Name)
			}
		}
		if len(names) > 0 {
			w.asking(names...)
			_, err := conn.Renew(names...)
			if lost(err) {
				broken <- err
				return
			}
			if err == nil {
				w.answered(names...)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look does what is next for each attempt on the host. busy: something happened, and more may soon. An error of the
// connection ends it; others are of one attempt, and the next look tries again.
func (w *worker) look(conn node.Client) (busy bool, err error) {
	q := w.p.q
	states, err := conn.States(node.Which{Owner: q.Owner()})
	if err != nil {
		return false, err
	}
	there := map[string]node.State{}
	for _, s := range states {
		if s.Phase != "" && s.Owner == q.Owner() {
			there[s.Name] = s
		}
	}
	open := q.On(w.host.Name)
	for _, st := range open {
		s, known := there[st.Name]
		delete(there, st.Name)
		did, err := w.step(conn, st, s, known)
		if lost(err) {
			return false, err
		}
		if err != nil {
			w.p.say("%s: %s: %s", w.host.Name, st.Task.Name, text.Line(err.Error()))
			continue
		}
		busy = busy || did
	}
	for name, s := range there { // nobody wants these any more: lost once, and settled without the host
		if over(s) {
			err = conn.Forget(node.Which{Owner: q.Owner(), Names: []string{name}})
		} else {
			_, err = conn.Cancel(node.Which{Owner: q.Owner(), Names: []string{name}, Why: "begun elsewhere"})
		}
		if lost(err) {
			return false, err
		}
	}
	more, err := w.fetch(conn)
	return busy || more, err
}

// over reports whether a job runs no more.
func over(s node.State) bool { return s.Phase == node.Ended || s.Phase == node.Lost }

// step does the next thing for an attempt, but for its files.
func (w *worker) step(conn node.Client, st Standing, s node.State, known bool) (did bool, err error) {
	q, stopping := w.p.q, w.p.isStopping()
	switch {
	case st.Home:
		if known && over(s) { // one that still runs is nobody's then, and is ended as that
			if err := conn.Forget(node.Which{Owner: q.Owner(), Names: []string{st.Name}}); err != nil {
				return false, err
			}
		}
		w.forget(st.Name)
		return true, w.own(q.Settled(st.Name))
	case st.Closed: // another driver was killed when it recorded it
		return true, w.own(q.Home(st.Name))
	case !known && st.Over(): // nothing is left there: what has come is all
		return true, w.own(q.Home(st.Name))
	case !known && !st.Began && (st.Stop != "" || stopping):
		// A request of an earlier connection may come there yet.
		if w.asked(st.Name) && !w.past(st.Name) {
			return false, nil
		}
		return true, w.own(q.Back(st.Name, "not begun"))
	case !known && !st.Began:
		return w.start(conn, st)
	case !known:
		if !w.past(st.Name) {
			return false, nil
		}
		return true, w.own(q.Lost(st.Name, w.host.Name+" knows nothing of it any more"))
	}
	if !st.Began {
		if err := w.own(q.Began(st.Name)); err != nil {
			return false, err
		}
	}
	q.Saw(st.Name, s)
	if over(s) {
		if st.Ended == nil {
			return true, w.own(q.Ended(st.Name, s))
		}
		return false, nil
	}
	why := ""
	switch {
	case st.Lost != "":
		why = "begun elsewhere"
	case st.Stop != "":
		why = WhyCancelled
	case stopping && !w.p.e.Leave:
		why = whyInterrupted
	case s.Phase == node.Waiting && s.Holder != "" && !q.holds(s.Holder) && w.p.better(w, st):
		why = whyMoved
	}
	if why == "" {
		return false, nil
	}
	_, err = conn.Cancel(node.Which{Owner: q.Owner(), Names: []string{st.Name}, Why: why})
	return true, err
}

// own marks an error of this machine: the queue could not be written.
func (w *worker) own(err error) error {
	if err != nil {
		w.p.fail(err)
	}
	return err
}

// better reports whether a task that only waits for a GPU would have one at once elsewhere.
func (p *pool) better(w *worker, st Standing) bool {
	if st.Task.Host != "" || st.Task.Device != "gpu" || len(p.q.Queued()) > 0 {
		return false
	}
	p.mu.Lock()
	recent := time.Since(p.moved[st.Task.Name]) < movedEvery
	p.mu.Unlock()
	if recent {
		return false
	}
	away := p.q.Away(st.Task.Name)
	for _, v := range p.views() {
		if v.Name == w.host.Name || away[v.Name] {
			continue
		}
		if never, busy := v.bars(st.Task); never == "" && busy == "" && v.Facts.Holds == "" {
			p.mu.Lock()
			p.moved[st.Task.Name] = time.Now()
			p.mu.Unlock()
			return true
		}
	}
	return false
}

// start brings the code there, and has the attempt started.
func (w *worker) start(conn node.Client, st Standing) (bool, error) {
	q := w.p.q
	refuse := func(err error) (bool, error) {
		var refused *node.Refused
		if errors.As(err, &refused) && refused.Busy {
			return false, nil // somebody else brings the same there: a moment later
		}
		if lost(err) {
			return false, err
		}
		return true, w.own(q.Ended(st.Name, node.State{Name: st.Name, Owner: q.Owner(), Phase: node.Ended,
			Error: err.Error()}))
	}
	if sum := st.Task.Code; sum != "" && !w.put[sum] {
		code, err := w.p.e.Code(sum)
		if err != nil {
			return false, w.own(fmt.Errorf("read the snapshot of the code: %w", err))
		}
		defer code.Close()
		if _, err := conn.Put(node.Put{Sum: sum, Size: code.Size}, code.ReadAt, nil); err != nil {
			return refuse(fmt.Errorf("bring the code there: %w", err))
		}
		w.put[sum] = true
	}
	w.asking(st.Name)
	s, err := conn.Start(w.host.of(q.Job(st.Attempt)))
	if err != nil {
		return refuse(err)
	}
	w.answered(st.Name)
	if err := w.own(q.Began(st.Name)); err != nil {
		return false, err
	}
	q.Saw(st.Name, s)
	return true, nil
}

// fetch brings files home, those of runs that have ended first, for a while.
func (w *worker) fetch(conn node.Client) (more bool, err error) {
	q, began := w.p.q, time.Now()
	open := q.On(w.host.Name)
	slices.SortStableFunc(open, func(a, b Standing) int { return b2i(b.Over()) - b2i(a.Over()) })
	for _, st := range open {
		s, ok := q.state(st.Name)
		if st.Home || st.Closed || !ok || len(s.Files) == 0 && !over(s) {
			continue
		}
		all := true
		for i, name := range sortedFiles(s.Files) {
			if i == maxFiles {
				break
			}
			if !fileForm.MatchString(name) || !over(s) && !grows(name) {
				continue
			}
			whole, err := w.bring(conn, st.Name, name, over(s), began)
			if err != nil {
				return false, err
			}
			if !whole {
				all, more = false, true
			}
		}
		if all && over(s) && st.Over() {
			if err := w.own(q.Home(st.Name)); err != nil {
				return false, err
			}
			more = true
		}
	}
	return more, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sortedFiles(files map[string]int64) []string {
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// bring goes on with a file. whole: all that there is now has come.
func (w *worker) bring(conn node.Client, name, file string, final bool, began time.Time) (whole bool, err error) {
	q := w.p.q
	for {
		have, err := q.Have(name, file)
		if err != nil {
			return false, err
		}
		b, piece, err := conn.Read(node.Read{Name: name, File: file, At: have, Most: pieceSize})
		var refused *node.Refused
		if errors.As(err, &refused) { // the file is not there, or not to be read: the others are
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if len(b) > 0 {
			if have, err = q.Append(name, file, have, b); err != nil {
				return false, w.own(fault.Hint(fmt.Errorf("keep what came of %s: %w", name, err),
					"runs go on until their lease has run out; when that is mended, the same command goes on"))
			}
		}
		if have >= piece.Size || len(b) == 0 {
			if final {
				err = q.Whole(name, file, piece.Size)
			}
			return true, err
		}
		if have > maxFile {
			return true, nil
		}
		if time.Since(began) > fetchFor {
			return false, nil
		}
	}
}

// Describe says what a host is, for people.
func Describe(v View) string {
	chip, _ := v.Chip()
	words := []string{or(chip, "chip not known")}
	if b, of := v.room(); b > 0 {
		words = append(words, unit.Bytes(float64(b))+" "+of)
	}
	words = append(words, v.Facts.Device)
	if v.Facts.Power != "" {
		words = append(words, "on "+v.Facts.Power)
	}
	if v.Facts.Holds != "" {
		words = append(words, "its GPU is held by "+v.Facts.Holds)
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), ", ")
}

// Look asks a host how it is, over a connection of its own.
func Look(ctx context.Context, dial func(context.Context, Host) (node.Client, error), h Host, paths []string) View {
	v := View{Host: h}
	conn, err := dial(ctx, h)
	if err == nil {
		defer conn.Close()
		v.Facts, err = (&guard{Client: conn, limit: 30 * time.Second}).Facts(node.Ask{Paths: paths, Python: h.Python})
	}
	if err != nil {
		v.Why = err.Error()
		return v
	}
	v.Up, v.Absent = true, absent(v.Facts, paths)
	return v
}

// absent finds which of the paths are not there, or not for certain, by what the host says about them.
func absent(f node.Facts, paths []string) map[string]string {
	missing := map[string]string{}
	for _, p := range paths {
		missing[p] = "whether it is there is not known"
		for _, fact := range f.More {
			if fact.Name != "path "+p {
				continue
			}
			if missing[p] = fact.Missing; fact.Value != "" {
				delete(missing, p)
			}
		}
	}
	return missing
}

// guard ends a connection whose answer does not come: the node there may have been stopped, and ssh knows nothing of
// it.
type guard struct {
	node.Client
	limit time.Duration
}

func (g *guard) watch() func() bool {
	t := time.AfterFunc(g.limit, func() { g.Client.Close() })
	return t.Stop
}

func (g *guard) Facts(a node.Ask) (node.Facts, error) {
	defer g.watch()()
	return g.Client.Facts(a)
}

func (g *guard) Put(p node.Put, read func([]byte, int64) (int, error), progress func(int64)) (string, error) {
	t := time.AfterFunc(g.limit, func() { g.Client.Close() })
	defer t.Stop()
	return g.Client.Put(p, read, func(have int64) {
		t.Reset(g.limit)
		if progress != nil {
			progress(have)
		}
	})
}

func (g *guard) Start(j node.Job) (node.State, error) {
	defer g.watch()()
	return g.Client.Start(j)
}

func (g *guard) Renew(names ...string) ([]node.State, error) {
	defer g.watch()()
	return g.Client.Renew(names...)
}

func (g *guard) States(w node.Which) ([]node.State, error) {
	defer g.watch()()
	return g.Client.States(w)
}

func (g *guard) Read(r node.Read) ([]byte, node.Piece, error) {
	defer g.watch()()
	return g.Client.Read(r)
}

func (g *guard) Cancel(w node.Which) ([]node.State, error) {
	defer g.watch()()
	return g.Client.Cancel(w)
}

func (g *guard) Forget(w node.Which) error {
	defer g.watch()()
	return g.Client.Forget(w)
}

// OpenCode opens a snapshot's file.
func OpenCode(path string) (CodeFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return CodeFile{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return CodeFile{}, err
	}
	return CodeFile{ReaderAt: f, Closer: f, Size: info.Size()}, nil
}
