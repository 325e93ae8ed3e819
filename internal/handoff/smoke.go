package handoff

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"assay/internal/bundle"
	"assay/internal/evidence"
	"assay/internal/text"
	"assay/internal/unit"
)

// Kind of the document that a smoke is kept as.
const Kind = "smoke"

// Document is what came of a smoke.
type Document = evidence.Document[Smoke]

// Smoke is a bundle that was tried on a machine, and how that differs from where it came from.
type Smoke struct {
	Bundle      Bundle          `json:"bundle"`
	Host        string          `json:"host,omitempty"` // as the user called it; "": this machine
	Environment Environment     `json:"environment"`
	Window      string          `json:"window"` // what was run, in words
	Here        []string        `json:"here"`   // documents of the runs that it was held against, SHA-256
	There       []string        `json:"there"`  // identifiers of the runs that were made
	Facts       []evidence.Fact `json:"facts"`  // of the machine, beyond those of the runs' evidence
	Checks      []Check         `json:"checks"`
	Plateau     Plateau         `json:"plateau"`
	Signatures  *Signatures     `json:"signatures,omitempty"` // nil: the bundle has none
	Comparison  *Comparison     `json:"comparison,omitempty"` // nil: no run was made
	Verdict     string          `json:"verdict"`
}

// Bundle names the bundle.
type Bundle struct {
	Name string `json:"name"`
	Sum  string `json:"sha256"`
	Run  string `json:"run"` // the run that was packed
}

// Environment is what the runs had for packages.
type Environment struct {
	Python  string  `json:"python"` // path of the interpreter
	How     string  `json:"how"`    // by what it was made, or that somebody named it
	Lock    string  `json:"lock,omitempty"`
	Cached  bool    `json:"cached"`
	Seconds float64 `json:"seconds"` // that making it took
}

// Signatures is what became of the bundle's operator calls on the device there.
type Signatures struct {
	Device   string         `json:"device"`
	Total    int            `json:"total"`
	Replayed int            `json:"replayed"`
	Outcomes map[string]int `json:"outcomes"`
	Worst    []string       `json:"worst"` // calls that did not come out right, by operator: at most ten
}

// Check is one thing that has to hold there.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"` // pass, fail, unknown
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
}

// States of a check.
const (
	Pass    = "pass"
	Fail    = "fail"
	NotKnow = "unknown"
)

func check(name, state, format string, args ...any) Check {
	return Check{Name: name, State: state, Text: fmt.Sprintf(format, args...)}
}

// Judge makes the checks of a smoke, and its verdict, of the runs there and of what the bundle says. here are the runs
// that it is held against, the bundle's own first; there those that were made, in their order.
func (s *Smoke) Judge(m *bundle.Manifest, here, there Side) {
	there.Facts = append(slices.Clone(s.Facts), there.Facts...)
	last := there.Runs[len(there.Runs)-1]
	s.Comparison = Compare(here, there)
	s.Plateau = plateau(last)
	s.Checks = append(s.Checks, runs(there), s.plateau())
	if s.Signatures != nil {
		s.Checks = append(s.Checks, s.Signatures.check())
	}
	s.Checks = append(s.Checks, data(m, there)...)
	s.Settle()
}

// Settle takes the verdict from the checks and the comparison: the worse of the two.
func (s *Smoke) Settle() {
	s.Verdict = CannotTell
	if s.Comparison != nil {
		s.Verdict = s.Comparison.Verdict
	}
	for _, c := range s.Checks {
		switch {
		case c.State == Fail:
			s.Verdict = Wrong
		case c.State == NotKnow && s.Verdict != Wrong:
			s.Verdict = CannotTell
		}
	}
}

// runs says how the runs ended.
func runs(there Side) Check {
	for _, run := range there.Runs {
		if o := run.Outcome; o.Exit != 0 {
			c := check("window", Fail, "the command ended with status %d", o.Exit)
			if o.Signal != "" {
				c.Text = "the command was ended by " + o.Signal
			}
			if o.Error != "" {
				c.Text += ": " + o.Error
			}
			return c
		}
	}
	steps := 0
	if n := there.run().Steps.Number; len(n) > 0 {
		steps = n[len(n)-1]
	}
	if steps == 0 {
		return check("window", NotKnow, "no training step was seen")
	}
	times := "once"
	if n := len(there.Runs); n > 1 {
		times = fmt.Sprintf("%d times", n)
	}
	return check("window", Pass, "it trains: %d steps, %s", steps, times)
}

func (s *Smoke) plateau() Check {
	state := map[string]string{Flat: Pass, Grows: Fail, Unknown: NotKnow}[s.Plateau.State]
	c := check("memory", state, "%s", s.Plateau.Text)
	if state == Fail {
		c.Hint = "assay run there says which lines hold tensors from epoch to epoch"
	}
	return c
}

func (g *Signatures) check() Check {
	wrong := 0
	for outcome, n := range g.Outcomes {
		if outcome != "ok" && outcome != "not_replayed" {
			wrong += n
		}
	}
	ok := g.Outcomes["ok"]
	switch {
	case wrong > 0:
		return check("signatures", Fail, "%d of %d operator calls did not come out right on %s: %s", wrong, g.Replayed,
			g.Device,
			strings.Join(g.Worst, ", "))
	case ok == 0:
		return check("signatures", NotKnow, "none of the %d operator calls was replayed", g.Total)
	case ok < g.Total:
		return check("signatures", Pass, "%d of %d operator calls were replayed on %s, all right; the time was over",
			ok, g.Total, g.Device)
	}
	return check("signatures", Pass, "all %d operator calls come out right on %s", g.Total, g.Device)
}

// data says of each dataset that the bundle names whether it is there with the same bytes, by the checksums that the
// runs' own evidence has.
func data(m *bundle.Manifest, there Side) (all []Check) {
	is := there.run().Provenance.Datasets
	for i, d := range m.Data {
		name := cmp.Or(d.Name, d.Type, fmt.Sprintf("dataset %d", i+1))
		switch {
		case d.Fingerprint == "":
			continue // the bundle does not know it either, and says so
		case slices.ContainsFunc(is, func(s evidence.Dataset) bool { return s.Fingerprint == d.Fingerprint }):
			all = append(all, check("data", Pass, "%s has the same bytes (%d files, %s)", name, d.Files,
				unit.Bytes(float64(d.Bytes))))
		case slices.ContainsFunc(is, func(s evidence.Dataset) bool { return s.Fingerprint != "" && s.Type == d.Type }):
			c := check("data", Fail, "%s has other bytes there", name)
			c.Hint = cmp.Or(d.Fetch, "bring the data over again")
			all = append(all, c)
		default:
			why := "the runs there did not read it"
			for _, s := range is {
				if s.Type == d.Type && s.Missing != "" {
					why = s.Missing
				}
			}
			all = append(all, check("data", NotKnow, "whether %s has the same bytes is not known: %s", name, why))
		}
	}
	return all
}

// NewDocument puts a smoke into an envelope.
func NewDocument(s Smoke, about *evidence.Run, assay string, began, ended time.Time) *Document {
	d := &Document{Envelope: evidence.NewEnvelope(Kind), Body: s}
	if about != nil {
		d.About(about)
	}
	d.Provenance.Assay, d.Started, d.Ended = assay, began.UTC(), ended.UTC()
	return d
}

// Text writes a smoke for a reader.
func (s *Smoke) Text(w io.Writer, width int) error {
	var b strings.Builder
	line := func(first, next, format string, args ...any) {
		b.WriteString(text.Wrapped(text.Line(fmt.Sprintf(format, args...)), first, next, width))
	}
	on := "here"
	if s.Host != "" {
		on = "on " + s.Host
	}
	line("", "  ", "%s, of run %s, %s", s.Bundle.Name, s.Bundle.Run, on)
	if s.Environment.How != "" {
		made := ", made in " + unit.Seconds(s.Environment.Seconds)
		switch {
		case s.Environment.Lock == "":
			made = ""
		case s.Environment.Cached:
			made = ", found again"
		}
		line("  ", "    ", "environment: %s%s", s.Environment.How, made)
	}
	for _, c := range s.Checks {
		mark := map[string]string{Pass: "ok  ", Fail: "FAIL", NotKnow: "?   "}[c.State]
		line("  "+mark+"  ", "        ", "%s: %s", c.Name, c.Text)
		if c.Hint != "" && c.State != Pass {
			line("        ", "        ", "%s", c.Hint)
		}
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if s.Comparison != nil {
		if err := s.Comparison.Text(w, width); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", s.said())
	return err
}

// said is the verdict in words.
func (s *Smoke) said() string {
	switch s.Verdict {
	case Same:
		return "same: nothing differs by more than noise"
	case Other:
		return "explained: figures differ, by what another machine differs in"
	case Wrong:
		return "amiss: something there is not as it should be (see above)"
	}
	return "cannot tell: something differs that nothing explains, or could not be looked at (see above)"
}
