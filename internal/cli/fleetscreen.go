package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"assay/internal/fleet"
	"assay/internal/text"
)

// fleetScreen is what a driver says while it works: a line for each thing that happens, and on a terminal below them a
// line on how the queue stands.
type fleetScreen struct {
	env   *Env
	live  bool
	queue *fleet.Queue
	mu    sync.Mutex
	views []fleet.View
	drawn bool
	stop  chan struct{}
	over  chan struct{}
}

func newFleetScreen(env *Env) *fleetScreen {
	return &fleetScreen{env: env, live: isTerminal(env.Stderr) && env.Getenv("TERM") != "dumb"}
}

// say prints a line.
func (s *fleetScreen) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	fmt.Fprintf(s.env.Stderr, "fleet: %s\n", text.Line(line))
}

func (s *fleetScreen) wipe() {
	if s.drawn {
		fmt.Fprint(s.env.Stderr, "\r"+clearLine)
		s.drawn = false
	}
}

// tell prints what has happened to a run.
func (s *fleetScreen) tell(c fleet.Change) {
	if c.What == "queued" { // of a thousand, each would be said
		return
	}
	s.say(c.Task + ": " + c.What)
}

func (s *fleetScreen) looked(views []fleet.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views = views
}

func (s *fleetScreen) begin() {
	if !s.live {
		return
	}
	s.stop, s.over = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.over)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			s.draw()
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
		}
	}()
}

func (s *fleetScreen) end() {
	if s.stop != nil {
		close(s.stop)
		<-s.over
		s.stop = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

// draw shows how the queue stands: how many have ended, and what each host does.
func (s *fleetScreen) draw() {
	rows := s.queue.Rows()
	ended, on := 0, map[string]string{}
	for _, r := range rows {
		switch {
		case fleet.Final(r.Phase):
			ended++
		case r.Phase == fleet.Placed:
			on[r.Host] = strings.TrimSpace(r.Task.Name + " " + ranFor(r))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	filled := 0
	if len(rows) > 0 {
		filled = barCells * ended / len(rows)
	}
	line := fmt.Sprintf("[%s%s] %d of %d", strings.Repeat("#", filled), strings.Repeat(".", barCells-filled), ended,
		len(rows))
	for _, v := range s.views {
		what := on[v.Name]
		switch {
		case what != "":
		case !v.Up:
			what = "away"
		default:
			what = "free"
		}
		line += fmt.Sprintf("  %s: %s", v.Name, what)
	}
	if n := columns(s.env, s.env.Stderr); n > 1 {
		line = text.Short(line, max(n-2, 1))
	}
	fmt.Fprintf(s.env.Stderr, "\r%s%s", clearLine, line)
	s.drawn = true
}
