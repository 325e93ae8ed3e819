package signature

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"assay/internal/events"
)

// Recorded is what a run's events come to.
type Recorded struct {
	Header     Header
	Signatures []*Signature
	Alike      int64 // calls that were counted with one from which they differ in numbers alone
	Processes  int   // that had something to say
}

// FromRun reads the events in a run's folder, also of one that was cut off.
func FromRun(folder string) (*Recorded, error) {
	tail, err := events.Open(folder)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	g := &gatherer{}
	if _, err := tail.More(g); err != nil {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	tail.Rest(g)
	return g.recorded()
}

// gatherer takes events of docs/formats/events.md.
type gatherer struct {
	processes []*process
	of        map[int]*process // by connection
	system    string
	exit      *sent
	unread    int
	total     int
}

// process is one life of a process, whose connections have one token.
type process struct {
	token, python, torch, device, name string
	double                             *Double
	rows                               map[int]*Signature
	told                               sent // the last event "signatures"
	counts                             map[int]int64
	error, stopping                    string
	compiled, bye                      bool
	dropped                            int64
}

// sent is what of all those events is read here.
type sent struct {
	Ev      string          `json:"ev"`
	Token   string          `json:"token"`
	Python  string          `json:"python"`
	Name    string          `json:"name"`
	Version any             `json:"version"`
	Type    string          `json:"type"`
	Release string          `json:"release"`
	MacOS   []int           `json:"macos"`
	N       int             `json:"n"`
	S       json.RawMessage `json:"s"`
	Seen    int64           `json:"seen"`
	Alike   int64           `json:"alike"`
	Steps   int64           `json:"steps"`
	Looked  int64           `json:"looked"`
	Long    int64           `json:"long"`
	Whole   int64           `json:"whole"`
	Counts  [][2]int64      `json:"counts"`
	Why     string          `json:"why"`
	Count   int64           `json:"count"`
	Signal  string          `json:"signal"`
	System  string          `json:"system"`
}

// maxProcesses of a run are gathered: the events' own bound.
const maxProcesses = 20_000

func (g *gatherer) Unreadable() { g.unread++ }

func (g *gatherer) Add(connection int, event []byte) {
	var e sent
	if err := json.Unmarshal(event, &e); err != nil {
		var only struct {
			Ev string `json:"ev"`
		}
		// what other events call by these names is of another form
		if json.Unmarshal(event, &only) == nil && strings.HasPrefix(only.Ev, "signature") {
			g.unread++
		}
		return
	}
	if connection == 0 {
		switch e.Ev {
		case "start":
			g.system = e.System
		case "exit":
			g.exit = &e
		}
		return
	}
	p := g.of[connection]
	if p == nil {
		if p = g.begun(connection, e); p == nil {
			return
		}
	}
	p.take(g, e)
}

// begun finds the process of a connection by its first event: one that a broken stream goes on with is there already.
func (g *gatherer) begun(connection int, e sent) *process {
	if len(g.of) >= maxProcesses {
		g.unread++
		return nil
	}
	if g.of == nil {
		g.of = map[int]*process{}
	}
	for _, p := range g.processes {
		if e.Token != "" && p.token == e.Token {
			g.of[connection] = p
			return p
		}
	}
	p := &process{token: e.Token, rows: map[int]*Signature{}, counts: map[int]int64{}}
	g.processes = append(g.processes, p)
	g.of[connection] = p
	return p
}

func (p *process) take(g *gatherer, e sent) {
	switch e.Ev {
	case "hello":
		p.python = e.Python
	case "framework":
		if v, ok := e.Version.(string); ok && e.Name == "torch" {
			p.torch = v
		}
	case "device":
		if p.device == "" || p.device == "cpu" {
			p.device, p.name = e.Type, e.Name
		}
	case "double":
		p.double = &Double{Release: e.Release, MacOS: joined(e.MacOS)}
	case "compile":
		p.compiled = true
	case "error":
		p.error = e.Type
	case "stopping":
		p.stopping = e.Why
	case "bye":
		p.bye = true
	case "resumed":
		p.bye = false
	case "dropped":
		p.dropped += e.Count
	case "signature":
		s, err := Parse(e.S)
		if err != nil || e.N < 0 || g.total >= MaxSignatures {
			g.unread++
			return
		}
		if p.rows[e.N] == nil {
			g.total++
		}
		p.rows[e.N] = s
	case "signatures":
		for _, c := range e.Counts {
			if c[0] >= 0 && c[0] < MaxSignatures {
				p.counts[int(c[0])] = c[1]
			}
		}
		if p.told.Why != "" {
			e.Why = p.told.Why // the first stays: after it nothing is recorded
		}
		p.told = e
		p.told.Counts = nil
	}
}

func joined(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ".")
}

// recorded adds the processes up: calls of several that are the same are one signature.
func (g *gatherer) recorded() (*Recorded, error) {
	out := &Recorded{}
	h := &out.Header
	h.Version, h.System = Version, g.system
	var cut, left []string
	known := map[[sha256.Size]byte]*Signature{}
	var before int64
	for _, p := range g.processes {
		if len(p.rows) == 0 && p.told.Why == "" {
			continue
		}
		out.Processes++
		if h.Torch == "" {
			h.Torch, h.Python, h.Device, h.DeviceName, h.Double = p.torch, p.python, p.device, p.name, p.double
		}
		lost := int64(0)
		for _, n := range names(p.rows) {
			s := p.rows[n]
			s.Count, s.First = max(s.Count, p.counts[n]), s.First+before
			identity, err := s.Identity()
			if err != nil {
				return nil, err
			}
			key := sha256.Sum256([]byte(identity))
			if first := known[key]; first != nil {
				first.Count += s.Count
				continue
			}
			known[key] = s
			out.Signatures = append(out.Signatures, s)
		}
		for n := range p.counts {
			if p.rows[n] == nil {
				lost++
			}
		}
		before += p.told.Seen
		out.Alike += p.told.Alike
		if p.told.Steps > h.Steps {
			h.Steps, h.Looked = p.told.Steps, p.told.Looked
		}
		p.left(&cut, &left, lost)
	}
	h.Seen = before
	slices.SortStableFunc(out.Signatures, func(a, b *Signature) int { return int(a.First - b.First) })
	switch {
	case g.exit == nil:
		cut = append(cut, "the run was cut off")
	case g.exit.Signal != "":
		cut = append(cut, "the run was ended by "+g.exit.Signal)
	}
	if g.unread > 0 {
		cut = append(cut, fmt.Sprintf("%d lines of its record could not be read", g.unread))
	}
	if h.Double != nil {
		h.Device, h.DeviceName = "double", ""
	} else if used := deviceOf(out.Signatures); used != h.Device {
		h.Device, h.DeviceName = used, ""
	}
	slices.Sort(cut)
	slices.Sort(left)
	h.Complete = len(cut) == 0
	h.Why = strings.Join(append(slices.Compact(cut), slices.Compact(left)...), "; ")
	h.Why = h.Why[:min(len(h.Why), maxText)]
	return out, nil
}

// left says why a process's record ends before the process did (cut), and what it leaves out.
func (p *process) left(cut, left *[]string, lost int64) {
	say := func(to *[]string, format string, a ...any) { *to = append(*to, fmt.Sprintf(format, a...)) }
	switch {
	case p.error != "":
		say(cut, "ended by %s", p.error)
	case p.stopping != "":
		say(cut, "ended %s", p.stopping)
	case !p.bye:
		say(cut, "a process was cut off")
	}
	if p.told.Why != "" {
		say(cut, "%s", p.told.Why)
	}
	if n := max(lost, p.dropped) + p.told.Long; n > 0 {
		say(cut, "%d signatures were lost, or too long to keep", n)
	}
	if p.compiled {
		say(left, "of what torch.compile compiled only the operators that it calls by name are here")
	}
	if p.told.Whole > 0 {
		say(left, "what %d calls of higher-order operators called is not here", p.told.Whole)
	}
}

// deviceOf is where the tensors were: the accelerator that most signatures name, cpu where none does.
func deviceOf(list []*Signature) string {
	count := map[string]int{}
	for _, s := range list {
		for _, t := range s.Tensors() {
			count[t.Device]++
		}
	}
	best := "cpu"
	for _, name := range names(count) {
		if name != "cpu" && name != "meta" && (best == "cpu" || count[name] > count[best]) {
			best = name
		}
	}
	return best
}
