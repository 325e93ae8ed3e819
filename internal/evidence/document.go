package evidence

import (
	"encoding/json"
	"io"
	"time"
)

// Schema names the version of the JSON form. A change that an existing reader could misread raises the number.
const Schema = "assay.evidence/2"

// FormerSchema is the form before: a run alone, without the envelope. It is read on.
const FormerSchema = "assay.evidence/1"

// Kinds of document. A room that makes another kind says its own word; whoever reads one it does not know still has the
// envelope.
const (
	KindRun     = "run"     // a run or a rehearsal: Run
	KindAttempt = "attempt" // assay try
	KindDoctor  = "doctor"
	KindGate    = "gate"
	KindVerdict = "verdict"
)

// Envelope is what every document of evidence has, whatever it is evidence of.
type Envelope struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"`
	// a name of its own; of a run time, subject and random characters, of earlier assays the name of its folder
	ID string `json:"id,omitempty"`
	// zero where no clock was asked: what is judged is the same whenever it is judged
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`

	Subject  Subject   `json:"subject"`
	Target   Target    `json:"target"`
	Figures  []Figure  `json:"figures"`
	Findings []Finding `json:"findings"`
	Limits   []Limit   `json:"limits"` // that it was judged by; of earlier assays none

	Provenance Provenance `json:"provenance"`
}

// NewEnvelope makes one of that kind with nothing in it.
func NewEnvelope(kind string) Envelope {
	e := Envelope{Schema: Schema, Kind: kind}
	e.fill()
	return e
}

// fill makes lists that are not there empty ones: JSON readers get [] and never null.
func (e *Envelope) fill() {
	if e.Figures == nil {
		e.Figures = []Figure{}
	}
	if e.Findings == nil {
		e.Findings = []Finding{}
	}
	if e.Limits == nil {
		e.Limits = []Limit{}
	}
	if e.Subject.Command == nil {
		e.Subject.Command = []string{}
	}
	p := &e.Provenance
	if p.Environment == nil {
		p.Environment = map[string]string{}
	}
	if p.Packages == nil {
		p.Packages = []string{}
	}
	if p.Datasets == nil {
		p.Datasets = []Dataset{}
	}
}

// About takes over what a document says of the run that it is about: subject, target, and from which state of the
// project it comes. Its name is the kind and that of the run.
func (e *Envelope) About(run *Run) {
	e.ID, e.Subject, e.Target = e.Kind+"-"+run.ID, run.Subject, run.Target
	e.Provenance.Commit, e.Provenance.Dirty, e.Provenance.Assay = run.Provenance.Commit, run.Provenance.Dirty,
		run.Provenance.Assay
	e.fill()
}

// Figure returns the figure of that name, or with labels of that key; where there is none, an unknown one that says so.
func (e *Envelope) Figure(name string) Figure {
	for _, f := range e.Figures {
		if f.Name == name && len(f.Labels) == 0 || len(f.Labels) > 0 && f.Key() == name {
			return f
		}
	}
	return Unknown(name, "", "not looked at in this run")
}

// Document is evidence of any kind but a run: the envelope, and what its room has to say beyond.
type Document[Body any] struct {
	Envelope
	Body Body `json:"body"`
}

// Run is the evidence of one run of one subject on one target: the content of evidence.json.
type Run struct {
	Envelope
	RunBody `json:"body"`

	// Document is the SHA-256, in hex, of the bytes that the run was read from or written to: its identity. "" where
	// there are none.
	Document string `json:"-"`
}

// RunBody is what a run has beyond the envelope.
type RunBody struct {
	Outcome Outcome `json:"outcome"`

	Loop    *Loop    `json:"loop,omitempty"` // nil: not told; earlier assays did not say
	Windows []Window `json:"windows"`
	Epochs  []Epoch  `json:"epochs"`

	Fallbacks []Fallback  `json:"fallbacks"`
	Syncs     []SyncPoint `json:"syncs"`
	Memory    []PhaseMem  `json:"memory_by_phase"`
	Retained  []Retained  `json:"retained"`
	Operators []Operator  `json:"operators"`
	Profile   Profile     `json:"profile"`
	Numerics  Numerics    `json:"numerics"`
	Shapes    []Shape     `json:"shapes"`
	Only      *Only       `json:"only,omitempty"`
	Compiles  []Compile   `json:"compiles,omitempty"` // where the framework says it: JAX
	Rehearsal *Rehearsal  `json:"rehearsal,omitempty"`
	// what was raised for want of memory and seen, whether or not the script caught it
	OutOfMemory []OutOfMemory `json:"out_of_memory,omitempty"`
	Levers      []Lever       `json:"levers,omitempty"` // of a trial: what was asked for, and what came of it
	// whether an evaluation and the saving of a checkpoint came in it; nil: not looked for, or a run that ended before
	// it was told
	Reached *Reached `json:"reached,omitempty"`

	Steps StepSeries `json:"steps"` // columns, for plots and for later judgement
	Loss  LossSeries `json:"loss"`
	// what the script itself logged, learning rates first; nil in the evidence of assays that did not look
	Logged []Series `json:"logged,omitzero"`

	Host      HostReport `json:"host"`
	Processes []Process  `json:"processes"`
}

// Write writes a document as JSON, indented by a space: the same bytes for the same document.
func Write(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(document)
}

// NewRun makes the evidence of a run with nothing in it.
func NewRun(id string) *Run {
	run := &Run{Envelope: NewEnvelope(KindRun)}
	run.ID = id
	return run
}

// UnmarshalJSON reads a run as it is written today, or as the form before wrote it. What has another schema is left as
// it stands, for the caller to refuse.
func (r *Run) UnmarshalJSON(data []byte) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Schema == FormerSchema {
		return r.former(data)
	}
	var plain struct {
		Envelope
		Body RunBody `json:"body"`
	}
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	r.Envelope, r.RunBody = plain.Envelope, plain.Body
	return nil
}

// former reads the form before: the fields of envelope and body beside one another.
func (r *Run) former(data []byte) error {
	var e Envelope
	var b RunBody
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	e.Schema, e.Kind = Schema, KindRun
	if e.Limits == nil {
		e.Limits = []Limit{} // it kept none
	}
	r.Envelope, r.RunBody = e, b
	return nil
}

// IsRun reports whether the document is the evidence of a run, in the form of today.
func (r *Run) IsRun() bool { return r.Schema == Schema && r.Kind == KindRun }
