package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/events"
)

// ReleasesVersion of the file of a forecast; a reader refuses another.
const ReleasesVersion = 1

// ReleasesName of the file, which lies beside suite.json.
const ReleasesName = "releases.json"

const (
	maxCalls    = 1 << 20 // distinct calls of all processes that are read of a run's events
	maxForeseen = 1 << 20
	maxAsked    = 1000 // releases
)

// Forecast says of a suite that ran once, on the double of one release, what it would come to on others
// (docs/releases.md). Each call of the run was asked of every release; kept are those that some refuse and others do
// not.
type Forecast struct {
	Version int        `json:"releases"`
	Assay   string     `json:"assay"`
	On      string     `json:"on"`      // the release of the run
	Asked   []string   `json:"asked"`   // oldest first, that of the run among them
	Missing string     `json:"missing"` // why it is not about all of the suite; ""
	Calls   []Asked    `json:"calls"`
	Proof   *Proof     `json:"proof,omitempty"` // tests that were run on the releases where they change
	Tests   []Recorded `json:"tests"`           // by ID
}

// Asked is one distinct call that some release refuses and another does not.
type Asked struct {
	Operator string   `json:"op"`   // as it was called: aten::add.Tensor
	Call     string   `json:"call"` // types and shapes: float32[2,3], 4
	Refused  []Refuse `json:"refused"`
	// Apart are releases that were not asked: there the call is a part of another that they have, or lack, as a whole.
	Apart []string `json:"apart,omitempty"`
}

// Refuse is what some releases say to a call.
type Refuse struct {
	Operator string   `json:"op"` // as the error names it
	Cause    string   `json:"cause"`
	Error    string   `json:"error"` // class of the exception
	Text     string   `json:"text"`  // of the newest of them
	In       []string `json:"in"`
}

// Recorded is what is known of a test by the one run.
type Recorded struct {
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`         // on the release of the run
	Error   string  `json:"error,omitempty"` // class of the exception
	CPU     Outcome `json:"cpu,omitempty"`   // on the CPU, of one that did not pass; "": not known
	// XFail are the classes of refusals that the test's mark xfail takes; nil where it has no such mark.
	XFail []string `json:"xfail,omitempty"`
	Calls []int    `json:"calls,omitempty"` // of Forecast.Calls, in the order in which they were first made
	// Unsure: not all calls of the test were kept.
	Unsure bool `json:"unsure,omitempty"`
}

// Foreseen is what a test comes to on a release.
type Foreseen struct {
	ID      string
	Outcome Outcome // Passed, Failed, Skipped, XFailed, XPassed; "": not known
	Why     string  // of one that is not known
	CPUToo  bool    // it fails, and on the CPU as well
	Refuse  *Refuse // what is refused first; nil: nothing that the release of the run does not refuse too
	Call    *Asked  // by which call
}

// At says what each test comes to on a release that was asked.
func (f *Forecast) At(release string) []Foreseen {
	list := make([]Foreseen, len(f.Tests))
	for i := range f.Tests {
		list[i] = f.expect(&f.Tests[i], release)
	}
	return list
}

func (f *Forecast) expect(t *Recorded, release string) Foreseen {
	e := Foreseen{ID: t.ID, CPUToo: t.CPU.fails()}
	for _, n := range t.Calls {
		c := &f.Calls[n]
		here, there := c.refusedIn(release), c.refusedIn(f.On)
		switch {
		case slices.Contains(c.Apart, release):
		case here != nil && there == nil:
			e.Outcome, e.Refuse, e.Call = Failed, here, c
			if slices.Contains(t.XFail, here.Error) {
				e.Outcome = XFailed
			}
			return e
		case here == nil && there != nil:
			e.Why = fmt.Sprintf("PyTorch %s refused %s, and what comes after it was not seen", f.On, there.Operator)
			e.Call = c
			return e
		}
	}
	switch {
	case t.Unsure && release != f.On:
		e.Why = "not all of its calls were kept"
	case t.Outcome == Ended || t.Outcome == Hung || t.Outcome == NotRun || t.Outcome == "":
		e.Why = "it did not run to its end"
	default:
		e.Outcome = t.Outcome
	}
	return e
}

func (c *Asked) refusedIn(release string) *Refuse {
	for i := range c.Refused {
		if slices.Contains(c.Refused[i].In, release) {
			return &c.Refused[i]
		}
	}
	return nil
}

// Tally is what a release comes to.
type Tally struct {
	Release                         string
	Failed, Passed, Unknown, Beside int         // Beside: skipped, failed as expected, or on the CPU too
	Operators                       []Operators // of those that fail by a refusal, the most first
}

// like says that two releases come to the same.
func (t Tally) like(o Tally) bool {
	return t.Failed == o.Failed && t.Passed == o.Passed && t.Unknown == o.Unknown &&
		slices.Equal(t.Operators, o.Operators)
}

// Operators is how many tests fail first by an operator.
type Operators struct {
	Operator, Cause string
	Tests           int
}

// Tallies are those of all releases that were asked, oldest first.
func (f *Forecast) Tallies() []Tally {
	var list []Tally
	for _, release := range f.Asked {
		t := Tally{Release: release}
		count := map[[2]string]int{}
		for _, e := range f.At(release) {
			switch e.Outcome {
			case Failed:
				if e.CPUToo {
					t.Beside++
					continue
				}
				t.Failed++
				if e.Refuse != nil {
					count[[2]string{e.Refuse.Operator, e.Refuse.Cause}]++
				}
			case Passed, XPassed:
				t.Passed++
			case "":
				t.Unknown++
			default:
				t.Beside++
			}
		}
		for key, n := range count {
			t.Operators = append(t.Operators, Operators{key[0], key[1], n})
		}
		slices.SortFunc(t.Operators, func(a, b Operators) int {
			if a.Tests != b.Tests {
				return b.Tests - a.Tests
			}
			return strings.Compare(a.Operator+a.Cause, b.Operator+b.Cause)
		})
		list = append(list, t)
	}
	return list
}

// Lowest is the oldest release from which on, up to the newest that was asked, no test fails and none is unknown; ""
// where the newest has such, or the forecast is not about all of the suite.
func (f *Forecast) Lowest() string {
	if f.Missing != "" {
		return ""
	}
	lowest := ""
	for _, t := range slices.Backward(f.Tallies()) {
		if t.Failed > 0 || t.Unknown > 0 {
			break
		}
		lowest = t.Release
	}
	return lowest
}

// Settled is the oldest release from which on all tests come out as on the newest that was asked.
func (f *Forecast) Settled() string {
	if len(f.Asked) == 0 {
		return ""
	}
	settled := f.Asked[len(f.Asked)-1]
	newest := f.At(settled)
	for _, release := range slices.Backward(f.Asked) {
		for i, e := range f.At(release) {
			if e.Outcome != newest[i].Outcome {
				return settled
			}
		}
		settled = release
	}
	return settled
}

// Need is an operator that some release refuses in a test of the suite.
type Need struct {
	Operator string   // as the errors name it
	Causes   []string // missing, dtype, …
	From     string   // the first release from which on none refuses any of its calls in the suite; "": the newest does
	Tests    int      // that call it so
}

// Needs are the operators by which releases differ, and the release to ask for because of each: those that need the
// newest first.
func (f *Forecast) Needs() []Need {
	type found struct {
		causes map[string]bool
		last   int
		tests  map[string]bool
	}
	by := map[string]*found{}
	for _, t := range f.Tests {
		for _, n := range t.Calls {
			for _, r := range f.Calls[n].Refused {
				o := by[r.Operator]
				if o == nil {
					o = &found{causes: map[string]bool{}, tests: map[string]bool{}}
					by[r.Operator] = o
				}
				o.causes[r.Cause], o.tests[t.ID] = true, true
				for _, release := range r.In {
					o.last = max(o.last, slices.Index(f.Asked, release))
				}
			}
		}
	}
	var list []Need
	last := map[string]int{}
	for name, o := range by {
		n := Need{Operator: name, Tests: len(o.tests)}
		for cause := range o.causes {
			n.Causes = append(n.Causes, cause)
		}
		slices.Sort(n.Causes)
		if o.last+1 < len(f.Asked) {
			n.From = f.Asked[o.last+1]
		}
		last[name] = o.last
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b Need) int {
		if last[a.Operator] != last[b.Operator] {
			return last[b.Operator] - last[a.Operator]
		}
		if a.Tests != b.Tests {
			return b.Tests - a.Tests
		}
		return strings.Compare(a.Operator, b.Operator)
	})
	return list
}

// With takes over what became of the tests of the run, in the one run and on the CPU. Those of which nothing was asked,
// as of one that ended its process, are not known elsewhere.
func (f *Forecast) With(run *Run) {
	at := map[string]int{}
	for i := range f.Tests {
		at[f.Tests[i].ID] = i
	}
	for _, t := range run.Tests {
		if t.Phase == Collecting {
			continue
		}
		i, there := at[t.ID]
		if !there {
			i = len(f.Tests)
			f.Tests = append(f.Tests, Recorded{ID: t.ID, Unsure: t.Outcome != Skipped})
		}
		r := &f.Tests[i]
		r.Outcome, r.CPU = t.Outcome, t.CPU
		if t.Error != "" {
			r.Error = t.Error
		}
	}
	slices.SortFunc(f.Tests, func(a, b Recorded) int { return strings.Compare(a.ID, b.ID) })
	if run.Deviceless(run.Count()) {
		f.Missing = strings.TrimPrefix(f.Missing+"; no test had a tensor on the device", "; ")
	}
	if run.Missing != "" {
		f.Missing = strings.TrimPrefix(f.Missing+"; "+run.Missing, "; ")
	}
}

// ForecastOf reads the events in the folder of a run that asked releases.
func ForecastOf(folder string) (*Forecast, error) {
	tail, err := events.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("read what the run in %s asked of other releases: %w", folder, err)
	}
	defer tail.Close()
	g := &asking{f: &Forecast{Version: ReleasesVersion}, token: map[int]string{},
		numbers: map[string]map[int]int{}, known: map[string]int{}, tests: map[string]int{}}
	if _, err := tail.More(g); err != nil {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	tail.Rest(g)
	slices.SortFunc(g.f.Tests, func(a, b Recorded) int { return strings.Compare(a.ID, b.ID) })
	if g.f.On == "" {
		return nil, fmt.Errorf("read what the run in %s asked of other releases: it asked none", folder)
	}
	if g.unread > 0 {
		g.f.Missing = fmt.Sprintf("%d lines of the run's record could not be read", g.unread)
	}
	return g.f, nil
}

// asking takes the events release_call and test_releases.
type asking struct {
	f       *Forecast
	token   map[int]string         // of a connection's process
	numbers map[string]map[int]int // of a process: its number of a call -> that in f
	known   map[string]int         // calls that several processes made
	tests   map[string]int
	unread  int
}

func (g *asking) Unreadable() { g.unread++ }

func (g *asking) Add(connection int, event []byte) {
	var e struct {
		Ev      string   `json:"ev"`
		Token   string   `json:"token"`
		N       int      `json:"n"`
		Op      string   `json:"op"`
		Call    string   `json:"call"`
		ID      string   `json:"id"`
		Outcome Outcome  `json:"outcome"`
		Error   string   `json:"error"`
		Calls   []int    `json:"calls"`
		XFail   []string `json:"xfail"`
		Cut     bool     `json:"cut"`
		Aside   []int    `json:"aside"`
		On      string   `json:"on"`
		Asked   []string `json:"asked"`
		Refused []struct {
			Op    string `json:"op"`
			Cause string `json:"cause"`
			Error string `json:"error"`
			Text  string `json:"text"`
			In    []int  `json:"in"`
		} `json:"refused"`
	}
	var only struct {
		Ev string `json:"ev"`
	}
	if connection == 0 || json.Unmarshal(event, &only) != nil {
		return
	}
	switch only.Ev {
	case "hello", "releases", "release_call", "test_releases":
	default:
		return // what other events call by these names is of another form
	}
	if json.Unmarshal(event, &e) != nil {
		g.unread++
		return
	}
	switch e.Ev {
	case "hello":
		g.token[connection] = e.Token
	case "releases": // of every process alike
		if g.f.On == "" && len(e.Asked) <= maxAsked && slices.Contains(e.Asked, e.On) {
			g.f.On, g.f.Asked = e.On, e.Asked
		}
	case "release_call":
		c := Asked{Operator: e.Op, Call: e.Call, Apart: g.releases(e.Aside)}
		for _, r := range e.Refused {
			c.Refused = append(c.Refused, Refuse{r.Op, r.Cause, r.Error, r.Text, g.releases(r.In)})
		}
		key, _ := json.Marshal(c)
		n, there := g.known[string(key)]
		if !there {
			if len(g.f.Calls) >= maxCalls {
				g.unread++
				return
			}
			n = len(g.f.Calls)
			g.known[string(key)], g.f.Calls = n, append(g.f.Calls, c)
		}
		process := g.token[connection]
		if g.numbers[process] == nil {
			g.numbers[process] = map[int]int{}
		}
		g.numbers[process][e.N] = n
	case "test_releases":
		t := Recorded{ID: e.ID, Outcome: e.Outcome, Error: e.Error, XFail: e.XFail, Unsure: e.Cut}
		if e.ID == "" || len(g.tests) >= maxForeseen {
			g.unread++
			return
		}
		for _, n := range e.Calls {
			if at, ok := g.numbers[g.token[connection]][n]; ok {
				t.Calls = append(t.Calls, at)
			} else {
				t.Unsure = true
			}
		}
		if at, again := g.tests[t.ID]; again { // run more than once: the last counts, as with pytest
			g.f.Tests[at] = t
			return
		}
		g.tests[t.ID] = len(g.f.Tests)
		g.f.Tests = append(g.f.Tests, t)
	}
}

func (g *asking) releases(numbers []int) []string {
	var list []string
	for _, n := range numbers {
		if n >= 0 && n < len(g.f.Asked) {
			list = append(list, g.f.Asked[n])
		}
	}
	return list
}

// OpenForecast reads the file of a forecast: it, or the folder that holds it.
func OpenForecast(path string) (*Forecast, error) {
	f := &Forecast{}
	path, err := readJSON(path, ReleasesName, "a forecast for releases", "assay test --releases", f)
	if err != nil {
		return nil, err
	}
	if f.Version != ReleasesVersion {
		return nil, fmt.Errorf("read a forecast for releases: %s: version %d, and this assay reads %d", path, f.Version,
			ReleasesVersion)
	}
	for _, t := range f.Tests {
		for _, n := range t.Calls {
			if n < 0 || n >= len(f.Calls) {
				return nil, fmt.Errorf("read a forecast for releases: %s: %q names call %d of %d", path, t.ID, n,
					len(f.Calls))
			}
		}
	}
	return f, nil
}

// Write writes it whole, readable by others.
func (f *Forecast) Write(path string) error {
	if f.Version != ReleasesVersion {
		return errors.New("write a forecast for releases: a version that is not this one's")
	}
	return writeJSON(path, f)
}
