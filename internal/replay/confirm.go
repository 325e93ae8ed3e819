package replay

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/signature"
)

// KindConfirmation is the kind of document that Confirm gives.
const KindConfirmation = "confirmation"

// Verdict is what a result means for the tables.
type Verdict string

// The verdicts.
const (
	Confirmed    Verdict = "confirmed"    // it is as the tables say
	Contradicted Verdict = "contradicted" // it is not
	New          Verdict = "new"          // the tables know nothing of it
	Open         Verdict = "open"         // they say that such a call may fail, and this one did not
	Unasked      Verdict = "unasked"      // it was not replayed
)

// Verdicts lists them.
var Verdicts = []Verdict{Contradicted, New, Confirmed, Open, Unasked}

// Judge says what a result means for what was expected of it; row is the fact that it is about, nil: the atlas.
func Judge(e Expectation, r *Result) (v Verdict, why string, row *facts.Fact) {
	absent, isAbsent := e.Absent()
	refusal := r.Outcome == Missing || r.Outcome == Refused
	var sure, open *facts.Fact
	for _, s := range e.Said {
		if r.Outcome != OK && fits(s, r) && !isAbsent {
			return Confirmed, "", s.Fact
		}
		if s.Sure() && sure == nil {
			sure = s.Fact
		} else if open == nil && !s.Everywhere() {
			open = s.Fact
		}
	}
	unknown := e.State == atlas.Unknown || e.State == atlas.Undefined
	is := outcomeWords[r.Outcome]
	switch {
	case r.Outcome == NotReplayed:
		return Unasked, "", nil
	case isAbsent && refusal:
		return Confirmed, "", nil
	case isAbsent:
		return Contradicted, absent + ", and it " + is, nil
	case sure != nil:
		return Contradicted, fmt.Sprintf("said to be %s, and it %s", sure.Outcome, is), sure
	case unknown:
		return New, "the tables do not have it, and it " + is, nil
	case r.Outcome != OK:
		return Contradicted, e.State.String() + ", said to run, and it " + is, nil
	case open != nil:
		return Open, "", open
	}
	return Confirmed, "", nil
}

// fits says whether a result is what a row says: of one whose condition is open, with the row's very text; what may
// meet any tensor is said of none where its condition is open.
func fits(s facts.Said, r *Result) bool {
	anything := s.Everywhere() && !s.Sure()
	switch s.Outcome {
	case facts.Refused:
		if r.Outcome != Missing && r.Outcome != Refused {
			return false
		}
		return s.Sure() || s.Text != "" && holes.MatchString(s.Text) && textOf(s.Text).MatchString(r.Text) ||
			s.Text != "" && strings.Contains(r.Text, firstLine(s.Text))
	case facts.Aborts:
		return r.Outcome == Ends && !anything
	}
	return r.Outcome == Wrong && !anything
}

// holes are the parts of a row's text that vary.
var holes = regexp.MustCompile(`\{[^{}]*\}`)

// textOf is a pattern of a row's text; a result has the first line of it.
func textOf(s string) *regexp.Regexp {
	parts := holes.Split(firstLine(s), -1)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

var outcomeWords = map[Outcome]string{OK: "runs", Missing: "is missing", Refused: "is refused", Wrong: "is wrong",
	Ends: "ends the process", Hangs: "hangs"}

// Confirmation is what replays say of the tables.
type Confirmation struct {
	evidence.Envelope
	Body ConfirmationBody `json:"body"`
}

// ConfirmationBody is what is said.
type ConfirmationBody struct {
	Replays []Confirming `json:"replays"`
	Found   []Found      `json:"found"` // contradicted and new, each operator, outcome and text once
}

// Confirming is one replay, and what it comes to.
type Confirming struct {
	File      string          `json:"file"`
	Device    string          `json:"device"`
	Machine   Machine         `json:"machine"`
	Torch     string          `json:"torch"`
	NoProof   string          `json:"no_proof,omitempty"` // why it is no evidence; then nothing is counted
	Calls     map[Verdict]int `json:"calls"`
	Operators map[Verdict]int `json:"operators"` // each by its worst verdict
	Rows      []string        `json:"rows"`      // names of the facts that it confirms, sorted
	Left      int             `json:"left"`      // signatures that were not come to
}

// Found is what the tables do not say, or say otherwise: the smallest call that shows it.
type Found struct {
	Name     string  `json:"name"` // of the row that can be added
	Verdict  Verdict `json:"verdict"`
	Operator string  `json:"operator"`
	Outcome  Outcome `json:"outcome"`
	Why      string  `json:"why"`
	Text     string  `json:"text"`
	Type     string  `json:"type,omitempty"`
	Fact     string  `json:"fact,omitempty"` // the row that is contradicted
	Calls    int     `json:"calls"`
	Elements int64   `json:"elements"` // of the smallest
	Call     string  `json:"call"`
	// Beside is the smallest call of the same operator that ran; "": none did.
	Beside    string               `json:"beside,omitempty"`
	Torch     string               `json:"torch"`
	Machine   Machine              `json:"machine"`
	Signature *signature.Signature `json:"signature"`
}

// same are broken: of so many results of a device, that share and more fail with one text.
const (
	sameLeast = 20
	sameShare = 0.9
)

// NoProof says why a replay is no evidence of what MPS does; "" where it is.
func (f *File) NoProof() string {
	switch h := f.Header; {
	case h.Device != evidence.OnMPS:
		return fmt.Sprintf("it ran on %s, and the tables speak of mps", h.Device)
	case h.Double != nil:
		return "it is a rehearsal, made from the very tables"
	case h.Proof.State != ProofOK:
		return "the machine is broken, not PyTorch: " + h.Proof.Why
	}
	texts, replayed := map[string]int{}, 0
	for _, r := range f.Results {
		if r.Outcome == NotReplayed {
			continue
		}
		replayed++
		if r.Outcome != OK && r.Outcome != Missing {
			texts[r.Text]++
		}
	}
	for text, n := range texts {
		if replayed >= sameLeast && float64(n) >= sameShare*float64(replayed) {
			return fmt.Sprintf("the machine is broken, not PyTorch: %d of %d calls fail with one text: %s", n, replayed,
				text)
		}
	}
	return ""
}

// Confirm holds replays against the tables. It is an error where none of them is evidence.
func Confirm(a *atlas.Atlas, t *facts.Table, names []string, files []*File) (*Confirmation, error) {
	c := &Confirmation{Envelope: evidence.NewEnvelope(KindConfirmation)}
	c.Body.Found = []Found{}
	proofs := 0
	for i, f := range files {
		one := Confirming{File: names[i], Device: f.Header.Device, Machine: f.Header.Machine, Torch: f.Header.Torch,
			NoProof: f.NoProof(), Calls: map[Verdict]int{}, Operators: map[Verdict]int{}, Rows: []string{},
			Left: f.Header.Total - len(f.Results)}
		if one.NoProof == "" {
			proofs++
			c.add(&one, NewTables(a, t, f.Header.Torch, f.Header.Machine.MacOS), f)
		}
		c.Body.Replays = append(c.Body.Replays, one)
	}
	if proofs == 0 {
		err := fmt.Errorf("confirm %s: %s", names[0], c.Body.Replays[0].NoProof)
		return nil, fault.Hint(err, "replay on a Mac: assay signatures replay FILE --on mps")
	}
	slices.SortStableFunc(c.Body.Found, func(x, y Found) int {
		return cmp.Or(slices.Index(Verdicts, x.Verdict)-slices.Index(Verdicts, y.Verdict),
			slices.Index(Outcomes, x.Outcome)-slices.Index(Outcomes, y.Outcome),
			strings.Compare(x.Operator, y.Operator))
	})
	named := map[string]int{}
	for i := range c.Body.Found {
		f := &c.Body.Found[i]
		f.Name = f.row()
		if named[f.Name]++; named[f.Name] > 1 {
			f.Name += fmt.Sprintf("-%d", named[f.Name])
		}
	}
	return c, nil
}

func (c *Confirmation) add(one *Confirming, tables *Tables, f *File) {
	worst, besides := map[string]Verdict{}, besides(f)
	for _, r := range f.Results {
		v, why, row := Judge(tables.Expect(r.Signature), r)
		one.Calls[v]++
		name := r.Signature.Name()
		if w, there := worst[name]; !there || slices.Index(Verdicts, v) < slices.Index(Verdicts, w) {
			worst[name] = v
		}
		if v == Confirmed && row != nil && !slices.Contains(one.Rows, row.Name) {
			one.Rows = append(one.Rows, row.Name)
		}
		if v == Contradicted || v == New {
			c.found(f, r, v, why, row, besides[r.Signature.Name()])
		}
	}
	for _, v := range worst {
		one.Operators[v]++
	}
	slices.Sort(one.Rows)
}

// besides are the smallest calls that ran, by operator.
func besides(f *File) map[string]string {
	smallest := map[string]*signature.Signature{}
	for _, r := range f.Results {
		name := r.Signature.Name()
		if s := smallest[name]; r.Outcome == OK && (s == nil || elements(r.Signature) < elements(s)) {
			smallest[name] = r.Signature
		}
	}
	calls := map[string]string{}
	for name, s := range smallest {
		calls[name] = Python(s, f.Header.Of.Device, false)
	}
	return calls
}

// found keeps a finding, or the smaller call of one that is there.
func (c *Confirmation) found(f *File, r *Result, v Verdict, why string, row *facts.Fact, beside string) {
	next := Found{Verdict: v, Operator: r.Signature.Name(), Outcome: r.Outcome, Why: why, Text: r.Text, Type: r.Type,
		Calls: 1, Elements: elements(r.Signature), Torch: f.Header.Torch, Machine: f.Header.Machine,
		Call: Python(r.Signature, f.Header.Of.Device, r.Outcome == Wrong), Signature: r.Signature}
	if r.Outcome == OK {
		next.Text = ""
	} else {
		next.Beside = beside
	}
	if row != nil {
		next.Fact = row.Name
	}
	for i := range c.Body.Found {
		was := &c.Body.Found[i]
		if was.Operator != next.Operator || was.Outcome != next.Outcome || was.Fact != next.Fact ||
			was.Torch != next.Torch || was.Machine != next.Machine || r.Outcome != Wrong && was.Text != next.Text {
			continue
		}
		next.Calls += was.Calls
		if was.Elements <= next.Elements {
			was.Calls = next.Calls
		} else {
			*was = next
		}
		return
	}
	c.Body.Found = append(c.Body.Found, next)
}

// elements of all tensors of a call.
func elements(s *signature.Signature) int64 {
	var sum int64
	for _, t := range s.Tensors() {
		n := int64(1)
		for _, size := range t.Shape {
			n *= size
		}
		sum += n
	}
	return sum
}

// Status is the exit status of the answer.
func (c *Confirmation) Status() int {
	if slices.ContainsFunc(c.Body.Found, func(f Found) bool { return f.Verdict == Contradicted }) {
		return fault.GateFailed
	}
	return fault.OK
}
