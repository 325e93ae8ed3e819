package sweep

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
)

// Kind of document that a sweep is.
const Kind = "sweep"

// FileName is the file in a sweep's folder that has its trials.
const FileName = "sweep.json"

// Asked is the command line of a sweep: one with another goes on with no trial of it.
type Asked struct {
	Command []string        `json:"command"`           // with its {} in it, without secrets
	Script  string          `json:"script,omitempty"`  // SHA-256 of the script's file
	Environ string          `json:"environ,omitempty"` // variable that has the batch
	ByAgent bool            `json:"by_agent"`          // the agent sets the batch
	Target  evidence.Target `json:"target"`            // what was asked for
	Data    bool            `json:"data,omitempty"`    // rehearsals compute values from the first on
	For     float64         `json:"for,omitempty"`     // seconds for a trial
	Plan    Plan            `json:"plan"`
}

// Body is what a sweep has beyond the envelope.
type Body struct {
	Asked   Asked    `json:"asked"`
	Trials  []Trial  `json:"trials"`
	Answers []Answer `json:"answers"` // one for each value of the grid's parameter
	Bought  []Bought `json:"bought,omitempty"`
	Done    bool     `json:"done"`              // nothing more is to be tried
	Stopped string   `json:"stopped,omitempty"` // why it is not done
}

// Document is the record of a sweep.
type Document = evidence.Document[Body]

// Options say what to sweep.
type Options struct {
	Asked   Asked
	Folder  string // of the sweep; made if it is not there
	Subject evidence.Subject
	Version string // of assay
	// Limit ends the sweep: no trial begins when so many seconds are over. 0: never.
	Limit float64
	Now   func() time.Time
	// Try makes a trial. number counts the trials of the sweep from 1. An error ends the sweep.
	Try func(number int, ask Ask) (Seen, error)
	// High says how many bytes the device's allocator may hold, and how that is known; 0: not known. nil: nobody knows.
	High func(run *evidence.Run) (bytes float64, by string)
	// Tell is told of each trial, those of earlier times as well, and what the allocator may hold as far as that is
	// known by then, bytes, 0: it is not; nil: nobody is.
	Tell func(t Trial, limit float64)
	// Begin is told before each trial: its number, and how many there will be at about; nil: nobody is.
	Begin func(number, about int, ask Ask)
}

// maxFile bounds what is read of a sweep's file, bytes.
const maxFile = 64 << 20

// Load reads the record of a sweep from its folder. An error that is os.ErrNotExist: there is none.
func Load(folder string) (*Document, error) {
	path := filepath.Join(folder, FileName)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hint := "name another folder with --out, or remove this one"
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("read the sweep %s: %w", path, err), hint)
	}
	var d Document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fault.Hint(fmt.Errorf("read the sweep %s: not the record of a sweep: %w", path, err), hint)
	}
	if d.Schema != evidence.Schema || d.Kind != Kind {
		return nil, fault.Hint(fmt.Errorf("read the sweep %s: %q of schema %q is no sweep that this assay reads",
			path, d.Kind,
			d.Schema), hint)
	}
	return &d, nil
}

// Run makes the trials that are still to be made, keeps each in the sweep's file as soon as it has ended, and gives the
// record. An error beside a record: the sweep ended early, and the record has what is known.
func Run(o Options) (*Document, error) {
	d, err := begin(o)
	if err != nil {
		return nil, err
	}
	started := o.Now()
	tell := func(t Trial) {
		if o.Tell != nil {
			limit, _ := o.Asked.Plan.of(t.Cell, d.Body.Trials).limit()
			o.Tell(t, limit)
		}
	}
	for _, t := range d.Body.Trials {
		tell(t)
	}
	d.Body.Stopped = ""
	for {
		ask, more := o.Asked.Plan.next(d.Body.Trials)
		if !more {
			break
		}
		if o.Limit > 0 && o.Now().Sub(started).Seconds() >= o.Limit {
			d.Body.Stopped = "the time for the sweep was over (--limit)"
			break
		}
		number := 1
		if n := len(d.Body.Trials); n > 0 {
			number = d.Body.Trials[n-1].Number + 1
		}
		ask.Data = o.Asked.Data || slices.ContainsFunc(d.Body.Trials, func(t Trial) bool { return t.Data })
		if o.Begin != nil {
			o.Begin(number, number-1+o.Asked.Plan.left(d.Body.Trials), ask)
		}
		begun := o.Now()
		seen, err := o.Try(number, ask)
		if err != nil {
			d.Body.Stopped = fmt.Sprintf("trial %d was not made: %v", number, err)
			return d, errors.Join(fmt.Errorf("trial %d, batch %d: %w", number, ask.Batch, err), keep(o, d))
		}
		t := judge(ask, o.Asked.ByAgent, seen, o.High)
		t.Number, t.Seconds = number, o.Now().Sub(begun).Seconds()
		about(d, o, seen.Run)
		d.Body.Trials = append(d.Body.Trials, t)
		if t.Ending == EndedByPerson {
			d.Body.Stopped = "it was interrupted"
		}
		if err := keep(o, d); err != nil {
			return d, err
		}
		tell(t)
		if t.Ending == EndedByPerson {
			return d, nil
		}
	}
	return d, keep(o, d)
}

// begin reads what there is of the sweep, or begins a new one.
func begin(o Options) (*Document, error) {
	d, err := Load(o.Folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if what := differs(d.Body.Asked, o.Asked); what != "" {
			return nil, fault.Exit(fault.Hint(fmt.Errorf("go on with the sweep in %s: it was begun with %s", o.Folder,
				what),
				"give the same command to go on, or another folder with --out to begin anew"), fault.Usage)
		}
		for _, name := range o.Asked.Plan.cells() { // what ended it may have been mended since
			if t := o.Asked.Plan.of(name, d.Body.Trials).broken(); t != nil {
				for i := range d.Body.Trials {
					d.Body.Trials[i].Aside = d.Body.Trials[i].Aside || d.Body.Trials[i].Number == t.Number
				}
			}
		}
		return d, nil
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, fault.Hint(fmt.Errorf("make the sweep's folder: %w", err), "choose another with --out")
	}
	d = &Document{Envelope: evidence.NewEnvelope(Kind)}
	d.Started, d.ID = o.Now().UTC(), Kind+"-"+filepath.Base(o.Folder)
	d.Subject, d.Target, d.Provenance.Assay = o.Subject, o.Asked.Target, o.Version
	d.Body.Asked, d.Body.Trials = o.Asked, []Trial{}
	return d, keep(o, d)
}

// differs says what another command line differs in; "" for the same.
func differs(was, is Asked) string {
	plain := func(p Plan) Plan { p.Cells, p.Grid, p.Remedies = nil, "", nil; return p }
	switch {
	case !slices.Equal(was.Command, is.Command):
		return "the command " + strings.Join(was.Command, " ")
	case was.Script != is.Script:
		return "another content of the script"
	case was.Environ != is.Environ || was.ByAgent != is.ByAgent:
		return "the batch given in another way"
	case !reflect.DeepEqual(was.Target, is.Target):
		return "another target: " + cmp.Or(strings.Join(targetWords(was.Target), " "), "none named")
	case was.Data != is.Data:
		return "another --shape-only"
	case was.For != is.For:
		return "another --for"
	case was.Plan.Grid != is.Plan.Grid || !slices.Equal(was.Plan.Cells, is.Plan.Cells):
		return "another --grid"
	case (was.Plan.Remedies == nil) != (is.Plan.Remedies == nil) || !slices.Equal(was.Plan.Remedies, is.Plan.Remedies):
		return "other --remedies"
	case !reflect.DeepEqual(plain(was.Plan), plain(is.Plan)):
		return "other batches or steps: " + was.Plan.words() + fmt.Sprintf(", %d steps a trial", was.Plan.Steps)
	}
	return ""
}

func targetWords(t evidence.Target) []string {
	words := []string{"--on " + t.Asked}
	for _, w := range [][2]string{{"--torch ", t.AskedRelease}, {"--chip ", t.AskedChip}, {"--macos ", t.AskedMacOS}} {
		if w[1] != "" {
			words = append(words, w[0]+w[1])
		}
	}
	if t.AskedShapeOnly {
		words = append(words, "--shape-only")
	}
	return words
}

// about takes over what a trial's run says of all of them: device, releases, state of the project.
func about(d *Document, o Options, run *evidence.Run) {
	if run == nil || run.Target.Device == "" && d.Target.Framework != "" {
		return
	}
	d.Target = run.Target
	d.Provenance.Commit, d.Provenance.Dirty = run.Provenance.Commit, run.Provenance.Dirty
	d.Provenance.Build, d.Provenance.Interpreter = run.Provenance.Build, run.Provenance.Interpreter
}

// keep writes the record, with its answers as far as they are known.
func keep(o Options, d *Document) error {
	plan := o.Asked.Plan
	_, more := plan.next(d.Body.Trials)
	d.Body.Done, d.Ended = !more, o.Now().UTC()
	d.Body.Answers, d.Body.Bought = nil, nil
	if plan.Remedies != nil {
		d.Body.Bought = bought(d.Body.Trials, plan.Timed)
	} else {
		for _, name := range plan.cells() {
			d.Body.Answers = append(d.Body.Answers, plan.of(name, d.Body.Trials).answer(name))
		}
	}
	d.Figures = figures(plan, d.Body.Answers, d.Target.Double != nil)
	path := filepath.Join(o.Folder, FileName)
	if err := file.Write(path, 0o600, func(w io.Writer) error { return evidence.Write(w, d) }); err != nil {
		return fmt.Errorf("keep the sweep's record %s: %w", path, err)
	}
	return nil
}

// figures are the answers as other rooms read them.
func figures(plan Plan, answers []Answer, rehearsed bool) []evidence.Figure {
	basis := evidence.Measured
	if rehearsed {
		basis = evidence.Rehearsed
	}
	list := []evidence.Figure{}
	for _, a := range answers {
		for _, x := range []struct {
			name, text string
			batch      int
			basis      evidence.Basis
		}{{"batch.largest", a.LargestText, a.Largest, basis}, {"batch.knee", a.KneeText, a.Knee, evidence.Derived},
			{"batch.recommended", a.RecommendedText, a.Recommended, evidence.Derived}} {
			f := evidence.Unknown(x.name, "1", x.text)
			if x.batch > 0 {
				f = evidence.Known(x.name, float64(x.batch), "1", x.basis)
				f.Note = x.text
			}
			if a.Cell != "" {
				f.Labels = evidence.Labels{plan.Grid: a.Cell}
			}
			list = append(list, f)
		}
	}
	return list
}
