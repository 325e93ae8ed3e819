package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/text"
	"assay/internal/unit"
)

// Ray is the Engine that has a cluster of Ray make the runs: a task each, which asks for the resources. Ray chooses the
// node, and begins no task anew: the queue does. Tasks end with the driver that submitted them, so what another driver
// had under way is waited for until its lease has run out, and then begun again.
type Ray struct {
	Address   string   // of Ray Client: HOST:PORT
	Resources []string // of each a run that takes a GPU has 1; the first is "mps" where nobody says otherwise
	Insecure  bool     // the user insists on a cluster that asks for no token
	Python    string   // interpreter here that has Ray
	Program   string   // ray_driver.py
	Agent     string   // folder that assay_agent lies in
	Environ   []string // for the driver, which reads the cluster's token there
	// Binary finds assay for a system such as darwin/arm64, and Code a snapshot by its SHA-256; nil: there is none.
	Binary func(system string) (RayFile, error)
	Code   func(sum string) (RayFile, error)
	// Ahead is how many runs are given to Ray beyond what its nodes have room for: 2 where it is 0.
	Ahead int
	// Abandon, when it is closed, has Run return at once, whatever is under way. nil: never.
	Abandon <-chan struct{}
	Say     func(string) // about the cluster, a line each; nil: nobody is told
	Looked  func([]View) // how its nodes stand, when that changes; nil

	slack time.Duration // for tests: what a node may take to end a run whose lease is over; 0: slack
	pause time.Duration // and before a driver is started anew; 0: a second
}

func (e *Ray) past(heard time.Time, lease float64) bool {
	given := e.slack
	if given == 0 {
		given = slack
	}
	return time.Since(heard) > time.Duration(lease*float64(time.Second))+given
}

// rayHost is where an attempt is until Ray has chosen a node.
const rayHost = "ray"

const (
	rayAhead = 2
	// rayTries is how often in a row the driver is started anew before anything came home.
	rayTries = 5
	// rayEmpty is how long a cluster may be without a node that has the resources, where it had one.
	rayEmpty = 2 * time.Minute
)

// rayRun is a Run.
type rayRun struct {
	e       *Ray
	q       *Queue
	driver  *rayDriver
	tasks   map[string]*rayTask // attempts that are not settled
	names   map[string]string   // address of a node → what it is called
	nodes   []rayNode
	empty   time.Time // since when no node has the resources; zero: one has
	tries   int
	stopped time.Time
}

// rayTask is an attempt as this driver knows it.
type rayTask struct {
	ours  bool      // submitted by the driver that is there now
	heard time.Time // of it, last; of another driver's, when we came
	asked bool      // to stop
	over  bool      // Ray is done with it
	why   string    // what Ray says of that
	kind  string
}

// said is the first sentence of what Ray says.
func (t *rayTask) said() string {
	first, _, _ := strings.Cut(t.why, ". ")
	return text.Short(strings.TrimSuffix(strings.TrimPrefix(t.kind+": "+first, ": "), "."), 300)
}

func (r *rayRun) say(format string, a ...any) {
	if r.e.Say != nil {
		r.e.Say(fmt.Sprintf(format, a...))
	}
}

// Run works the queue off.
func (e *Ray) Run(ctx context.Context, q *Queue) error {
	if err := rayAble(q.Queued()); err != nil {
		return err
	}
	r := &rayRun{e: e, q: q, tasks: map[string]*rayTask{}, names: map[string]string{}}
	pause := e.pause
	if pause == 0 {
		pause = time.Second
	}
	for ; ; pause = min(2*pause, 30*time.Second) {
		for _, s := range q.Open() { // another driver's, which may have lived until a moment ago
			r.tasks[s.Name] = &rayTask{heard: time.Now()}
		}
		err := r.session(ctx)
		if !errors.Is(err, errRayAgain) || !r.stopped.IsZero() {
			return err
		}
		if r.tries++; r.tries >= rayTries {
			return err
		}
		r.say("%v; another attempt in %s", err, unit.Seconds(pause.Seconds()))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		case <-e.Abandon:
			return nil
		}
	}
}

// rayAble is an error where a task needs what Ray knows nothing of.
func rayAble(tasks []Task) error {
	for _, t := range tasks {
		n := t.Needs
		for _, x := range []struct {
			what string
			is   bool
		}{{"a host", t.Host != "" && t.Host != rayHost}, {"--chip", n.Chip != ""}, {"--memory", n.Memory > 0},
			{"--label", n.Label != ""}, {"--power", n.Power == "mains"}, {"--needs-path", len(n.Paths) > 0},
			{"--disk", n.Disk > 0}, {"--fits", len(n.Excluded) > 0}} {
			if x.is {
				err := fmt.Errorf("job %s names %s, and over Ray the cluster places runs, by resources alone", t.Name, x.what)
				return fault.Exit(fault.Hint(err, "give such nodes a resource of their own, as ray start "+
					"--resources='{\"mps\":1,\"m4\":1}', and ask for both: --resource mps --resource m4"), fault.Usage)
			}
		}
	}
	return nil
}

// session is a Run from a start of the driver to its end.
func (r *rayRun) session(ctx context.Context) error {
	h := rayHello{Version: rayVersion, Agent: r.e.Agent, Address: r.e.Address, Name: r.q.Owner(),
		Resources: r.e.Resources, Lease: r.q.Lease(), Insecure: r.e.Insecure}
	var err error
	if r.driver, err = r.e.startRay(h); err != nil {
		return err
	}
	defer r.driver.close()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	done, late, hello := ctx.Done(), time.After(rayConnect), false
	if !r.stopped.IsZero() {
		done = nil
	}
	for {
		changed := r.q.Changed()
		if hello {
			if over, err := r.plan(); over || err != nil {
				return err
			}
		} else if !r.stopped.IsZero() {
			return nil
		}
		select {
		case a, ok := <-r.driver.answers:
			if !ok && r.driver.broken != nil { // another would say no better
				return r.driver.broken
			}
			if !ok {
				return fmt.Errorf("%w: %w", errRayAgain, r.driver.died())
			}
			hello = hello || a.Hello != nil
			if err := r.take(a); err != nil {
				return err
			}
		case <-changed:
		case <-tick.C:
		case <-late:
			if !hello {
				return fmt.Errorf("reach ray://%s: Ray does not connect within %s", r.e.Address,
					unit.Seconds(rayConnect.Seconds()))
			}
		case <-r.e.Abandon:
			return nil
		case <-done:
			done, r.stopped = nil, time.Now()
		}
	}
}

// take does what an answer asks for.
func (r *rayRun) take(a rayAnswer) error {
	heard := func(name string) *rayTask {
		t := r.tasks[name]
		if t != nil && t.ours {
			t.heard = time.Now()
			return t
		}
		return nil
	}
	switch {
	case a.Trouble != nil:
		return r.e.trouble(*a.Trouble)
	case a.Hello != nil:
		return r.welcome(*a.Hello)
	case a.Nodes != nil:
		r.count(a.Nodes.Nodes)
	case a.Want != nil:
		r.driver.ask(rayRequest{Blob: r.blob(a.Want.Blob)})
	case a.Begin != nil:
		if heard(a.Begin.Name) != nil {
			return r.q.BeganOn(a.Begin.Name, r.host(*a.Begin))
		}
	case a.Beat != nil:
		heard(a.Beat.Name)
	case a.State != nil:
		if heard(a.State.Name) != nil {
			a.State.State.Name = a.State.Name
			r.q.Saw(a.State.Name, a.State.State)
		}
	case a.Data != nil:
		if heard(a.Data.Name) != nil {
			if _, err := r.q.Append(a.Data.Name, a.Data.File, a.Data.At, a.body); err != nil {
				return fmt.Errorf("keep %s of %s: %w", text.Line(a.Data.File), a.Data.Name, err)
			}
		}
	case a.Ended != nil:
		if heard(a.Ended.Name) != nil {
			return r.ended(*a.Ended)
		}
	case a.Over != nil:
		if t := r.tasks[a.Over.Name]; t != nil && t.ours {
			t.over, t.kind, t.why = true, a.Over.Kind, a.Over.Why
		}
	}
	return nil
}

// welcome heeds what the driver says first.
func (r *rayRun) welcome(h rayWelcome) error {
	if h.Version != rayVersion {
		return fmt.Errorf("the driver of Ray speaks version %d, and this assay %d", h.Version, rayVersion)
	}
	r.count(h.Nodes)
	n := r.slots()
	if n == 0 && slices.ContainsFunc(r.q.Queued(), func(t Task) bool { return t.Device == "gpu" }) {
		err := fmt.Errorf("none of the %d nodes of ray://%s has the resource %s, and a run would wait for ever",
			len(r.nodes), r.e.Address, strings.Join(r.e.Resources, " and "))
		return fault.Hint(err, `start those with a GPU by: ray start --address=HEAD:6379 --resources='{"mps":1}'; or name `+
			"another that they have: --resource NAME")
	}
	r.say("Ray %s on Python %s at %s: room for %d at once on %d nodes", text.Line(h.Ray), text.Line(h.Python), r.e.Address, n,
		len(r.nodes))
	if h.Open {
		r.say("%s asks for no token: whoever reaches it runs programs there", r.e.Address)
	}
	return nil
}

// count takes in how the nodes stand.
func (r *rayRun) count(nodes []rayNode) {
	r.nodes = nil
	slices.SortFunc(nodes, func(a, b rayNode) int { return strings.Compare(a.Host+a.Address, b.Host+b.Address) })
	for _, n := range nodes {
		// A node keeps its name; of several on one host the address tells them apart.
		if r.names[n.Address] == "" {
			same := func(o rayNode) bool { return o.Host == n.Host && o.Address != n.Address }
			r.names[n.Address] = text.Short(n.Host, 60)
			if n.Host == "" || slices.ContainsFunc(nodes, same) {
				r.names[n.Address] = text.Short(n.Address, 60)
			}
		}
		if n.Alive {
			r.nodes = append(r.nodes, n)
		}
	}
	var views []View
	for _, n := range r.nodes {
		if n.Amount > 0 {
			views = append(views, View{Host: Host{Name: r.names[n.Address]}, Up: true})
		}
	}
	if r.slots() > 0 {
		r.empty = time.Time{}
	} else if r.empty.IsZero() {
		r.empty = time.Now()
	}
	if r.e.Looked != nil {
		r.e.Looked(views)
	}
}

func (r *rayRun) host(b rayBegin) string {
	return or(r.names[b.Address], or(text.Short(b.Host, 60), text.Short(b.Address, 60)))
}

// slots is how many runs the cluster has room for that each have the resources.
func (r *rayRun) slots() (n int) {
	for _, node := range r.nodes {
		n += max(node.Amount, 0)
	}
	return n
}

// blob finds what a node wants.
func (r *rayRun) blob(name string) *rayBlob {
	kind, which, _ := strings.Cut(name, " ")
	find := r.e.Binary
	if kind == "code" {
		find = r.e.Code
	}
	b := &rayBlob{Blob: name}
	if find == nil || kind != "code" && kind != "binary" {
		b.Error = fmt.Sprintf("no %s is here", text.Line(name))
		return b
	}
	f, err := find(which)
	if err != nil {
		b.Error = err.Error()
	}
	b.RayFile = f
	return b
}

// ended keeps a run that ended, as its task tells when all of it was sent.
func (r *rayRun) ended(s rayState) error {
	if s.State.Error == "" {
		for _, file := range slices.Sorted(maps.Keys(s.Files)) {
			if err := r.q.Whole(s.Name, file, s.Files[file]); err != nil {
				return fmt.Errorf("keep %s of %s: %w", text.Line(file), s.Name, err)
			}
		}
	}
	s.State.Name = s.Name
	if err := r.q.Ended(s.Name, s.State); err != nil {
		return err
	}
	r.tries = 0
	return r.settle(s.Name)
}

// settle records what is here of an attempt of which no more comes.
func (r *rayRun) settle(name string) error {
	if err := r.q.Home(name); err != nil {
		return err
	}
	if err := r.q.Settled(name); err != nil {
		return err
	}
	r.driver.ask(rayRequest{Home: &rayName{name}})
	delete(r.tasks, name)
	return nil
}

// plan looks after what is under way, and has Ray make as much as it has room for. over: nothing is left to be done.
func (r *rayRun) plan() (over bool, err error) {
	gpu, cpu := 0, 0
	for _, s := range r.q.Open() {
		if err := r.see(s); err != nil {
			return false, err
		}
		switch {
		case r.tasks[s.Name] == nil || !r.tasks[s.Name].ours:
		case s.Task.Device == "gpu":
			gpu++
		default:
			cpu++
		}
	}
	open := r.q.Open()
	if !r.stopped.IsZero() {
		return len(open) == 0 || time.Since(r.stopped) > stopLimit, nil
	}
	ahead := r.e.Ahead
	if ahead == 0 {
		ahead = rayAhead
	}
	room := map[string]int{"gpu": r.slots() + ahead - gpu, "cpu": len(r.nodes) + ahead - cpu}
	for room["gpu"] > 0 || room["cpu"] > 0 {
		a, ok, err := r.q.Next(rayHost, func(t Task) (bool, string) {
			return room[rayDevice(t)] > 0, "the cluster is taken"
		})
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		room[rayDevice(a.Task)]--
		r.tasks[a.Name] = &rayTask{ours: true, heard: time.Now()}
		r.driver.ask(rayRequest{Start: &rayStart{Job: r.q.Job(a)}})
		open = append(open, Standing{Attempt: a})
	}
	queued := len(r.q.Queued())
	if len(open) == 0 && queued == 0 {
		return !r.q.Held(), nil
	}
	if !r.empty.IsZero() && time.Since(r.empty) > rayEmpty && gpu == 0 && cpu == 0 {
		return false, fmt.Errorf("no node of ray://%s has had the resource %s for %s", r.e.Address,
			strings.Join(r.e.Resources, " and "), unit.Seconds(rayEmpty.Seconds()))
	}
	return false, nil
}

func rayDevice(t Task) string {
	if t.Device == "gpu" {
		return "gpu"
	}
	return "cpu"
}

// see does the next thing about an attempt that is not settled.
func (r *rayRun) see(s Standing) error {
	t := r.tasks[s.Name]
	switch {
	case t == nil: // none is taken but by us
		return nil
	case s.Over():
		return r.settle(s.Name)
	}
	past := r.e.past(t.heard, r.q.Lease())
	if !t.ours {
		if !past {
			return nil
		}
		// It ended with the driver that had it, which was no fault of its own: none of its retries is used.
		if err := r.q.Ended(s.Name, node.State{Name: s.Name, Phase: node.Ended, Why: whyInterrupted}); err != nil {
			return err
		}
		return r.settle(s.Name)
	}
	stop := s.Stop
	if stop == "" && !r.stopped.IsZero() {
		stop = whyInterrupted
	}
	if stop != "" && !t.asked {
		t.asked = true
		r.driver.ask(rayRequest{Stop: &rayStop{Name: s.Name, Why: stop, Pending: !s.Began}})
	}
	if !s.Began {
		return r.unbegun(s, t, stop)
	}
	if !past { // what Ray says of its task, that its node died, does not say that nothing of it runs there
		return nil
	}
	why := fmt.Sprintf("nothing was heard of %s for %s", s.Host,
		unit.Seconds(time.Since(t.heard).Round(time.Second).Seconds()))
	if t.over {
		why += ": " + t.said()
	}
	if !t.over {
		r.driver.ask(rayRequest{Kill: &rayName{s.Name}})
	}
	if err := r.q.Lost(s.Name, why); err != nil {
		return err
	}
	return r.settle(s.Name)
}

// unbegun sees after an attempt of which no node has said that it begins it.
func (r *rayRun) unbegun(s Standing, t *rayTask, stop string) error {
	if !t.over {
		return nil
	}
	state := node.State{Name: s.Name, Phase: node.Ended, Why: stop}
	if stop == "" {
		// It may have begun on a node that died before it could say so.
		if !r.e.past(t.heard, r.q.Lease()) {
			return nil
		}
		state.Error = or(t.said(), "its task ended before it began")
	}
	if err := r.q.Ended(s.Name, state); err != nil {
		return err
	}
	return r.settle(s.Name)
}
