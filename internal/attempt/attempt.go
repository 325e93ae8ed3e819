// Package attempt tries models on the double, a CPU or MPS: whether one can be built, moved, run forward and backward,
// and by which cause not. attempt.py, under the user's Python, tries; this package tells it what, reads what happened
// (wire.go, docs/formats/attempts.md), and judges it.
package attempt

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// Options say what to try, and where.
type Options struct {
	Name   string // MODULE:MODEL or FILE.py:MODEL; with All a module or FILE.py
	All    bool   // every model of a package
	On     target.Target
	Double *target.Double // what the double stands for, where On is a rehearsal; else nil
	Inputs []string       // as --input takes them
	Args   []string       // KEY=VALUE
	Eval   bool           // call the model's eval() first
	Limit  time.Duration

	Interpreter string // path
	Cache       string // folder that the agent is unpacked in
	Environ     []string
	Dir         string // working folder of the attempts
	Narration   io.Writer
	// with All: gets a line for each model as it is done, which Result.Text then leaves out; nil: none
	Lines io.Writer

	program string           // attempt.py
	graceIs time.Duration    // 0: grace; a test's
	Now     func() time.Time // nil: the result does not say when it was
}

// needsValues is how many parameters a model may have to be tried once more with data, when its shapes turned out to
// depend on values.
const needsValues = 500_000_000

func (o *Options) grace() time.Duration {
	if o.graceIs > 0 {
		return o.graceIs
	}
	return grace
}

func (o *Options) say(format string, a ...any) {
	fmt.Fprintln(o.Narration, text.Lines(fmt.Sprintf(format, a...)))
}

// where says which device that is.
func (o *Options) where() string {
	if o.Double != nil {
		return doubleText(&o.Double.Settings)
	}
	return "on " + o.On.Device
}

// Run tries the models; those that need values once more with data, and those that fail once more on the CPU. The error
// says why nothing could be tried; a model that fails is no error.
func Run(ctx context.Context, o Options) (*Result, error) {
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return nil, err
	}
	o.program = installed.Attempt
	var settings *target.Settings
	if o.Double != nil {
		folder, err := file.Temp(o.Environ, o.Dir, "try")
		if err != nil {
			return nil, fmt.Errorf("keep the double's table: %w", err)
		}
		defer folder.Remove()
		kept, err := o.Double.Keep(filepath.Join(folder.Path, "double.json"))
		if err != nil {
			return nil, fmt.Errorf("keep the double's table: %w", err)
		}
		settings = &kept
	}
	return o.run(ctx, settings)
}

// run does what Run says once all is prepared; settings are the double's. Where ctx is done before the models are, the
// result has those that were told of, and says so.
func (o *Options) run(ctx context.Context, settings *target.Settings) (*Result, error) {
	var began time.Time
	if o.Now != nil {
		began = o.Now().UTC()
	}
	var names []string
	if !o.All {
		names = []string{o.Name}
	}
	d := &doneModels{o: o, settings: settings, notes: map[string]string{}, models: map[string]*Attempt{}}
	first, err := o.try(ctx, o.On, settings, names, d)
	if err != nil {
		return nil, err
	}
	if err := o.withData(ctx, first, d); err != nil {
		return nil, err
	}
	if e := first.attempts[0].Error; !o.All && e != nil && (e.Kind == kindTarget || e.Kind == kindInput) {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("try %s: %s", o.Name, e.Text), "see: assay try --help"),
			fault.Usage)
	}
	if err := o.onCPU(ctx, first, d); err != nil {
		return nil, err
	}
	result := &Result{Envelope: o.envelope(first, began), Tried: Tried{Basis: evidence.Measured, On: o.On.Device,
		Torch:  first.torch,
		Python: first.python, Counts: map[string]int{}, Models: []*Attempt{}}}
	if settings != nil {
		shown := *settings
		shown.Table, shown.Installed = "", first.torch
		result.Basis, result.Double = evidence.Rehearsed, &shown
	}
	if o.All {
		result.Package, result.printed = o.Name, o.Lines != nil
	}
	for _, a := range first.attempts {
		m := d.models[a.Target]
		if m == nil {
			if ctx.Err() != nil {
				d.note(a.Target, "stopped before it was tried once more, with data or on the CPU")
			}
			m = d.judged(a, nil)
		}
		result.Counts[m.Outcome]++
		result.Models = append(result.Models, m)
	}
	if ctx.Err() != nil {
		result.Stopped = fmt.Sprintf("after %d of %d models", len(result.Models), first.offered)
	}
	result.document()
	if o.Now != nil {
		result.Ended = o.Now().UTC()
	}
	return result, nil
}

// doneModels judges each model as soon as all is told of it, and prints its line.
type doneModels struct {
	o        *Options
	settings *target.Settings // the double's, nil off it
	judge    *judge
	width    int // of the names offered
	notes    map[string]string
	models   map[string]*Attempt // that are done
}

// offered is called when the models are known.
func (d *doneModels) offered(c *conversation) {
	if d.judge != nil {
		return
	}
	release := c.hello.Torch
	if d.settings != nil {
		release = d.settings.Release
	}
	d.judge = newJudge(&atlas.Atlas{}, release)
	for _, name := range c.offered {
		d.width = max(d.width, len(name))
	}
}

// told takes an answer: the model is done unless it is tried once more, with data or on the CPU.
func (d *doneModels) told(a *attemptAnswer) {
	if !d.again(a) && !d.asksCPU(a) {
		d.judged(a, nil)
	}
}

// judged is the model's result, with what the CPU told: the line of it is printed.
func (d *doneModels) judged(a, onCPU *attemptAnswer) *Attempt {
	m := d.judge.attempt(a, onCPU)
	if n := d.notes[a.Target]; n != "" {
		m.Notes = append(m.Notes, n)
	}
	d.models[a.Target] = m
	if d.o.All && d.o.Lines != nil {
		fmt.Fprintln(d.o.Lines, m.line(d.width))
	}
	return m
}

func (d *doneModels) note(model, note string) {
	if before := d.notes[model]; before != "" {
		note = before + "; " + note
	}
	d.notes[model] = note
}

// again: whether a model that was tried without data is tried with data.
func (d *doneModels) again(a *attemptAnswer) bool {
	if d.settings == nil || !d.settings.ShapeOnly || a.Data || !a.asksForValues() {
		return false
	}
	if a.Parameters > needsValues {
		d.notes[a.Target] = "without data, and a value was asked for: it was taken for 0"
		if a.Refusal != nil && a.Refusal.Cause == facts.Values {
			d.notes[a.Target] = "without data, and it ended where it needs them: too large to be tried with data"
		}
		return false
	}
	d.notes[a.Target] = "with data: without, a value was asked for"
	return true
}

// asksCPU: whether a model is tried on the CPU as well, with data: it failed on another device.
func (d *doneModels) asksCPU(a *attemptAnswer) bool {
	switch {
	case d.o.On == target.CPU() || a.Error == nil || a.Error.Kind != "" && a.Error.Kind != kindCrash:
		return false
	case !a.Data && a.Parameters > needsValues:
		d.notes[a.Target] = "not tried on the CPU: too large with data"
		return false
	}
	return true
}

// envelope is that of the result: what was tried, and where.
func (o *Options) envelope(first *heard, began time.Time) evidence.Envelope {
	e := evidence.NewEnvelope(evidence.KindAttempt)
	e.ID, e.Started = "attempt-"+o.Name, began
	e.Subject = evidence.Subject{Kind: "model", Command: []string{o.Name}, Dir: o.Dir}
	e.Target = evidence.Target{Framework: "torch", Release: first.torch, Python: first.python,
		System: runtime.GOOS + "/" + runtime.GOARCH}
	o.On.In(&e.Target)
	return e
}

// withData tries those of the models again whose shapes depend on values, and puts the new attempts in the place of the
// old ones.
func (o *Options) withData(ctx context.Context, first *heard, d *doneModels) error {
	var again []string
	for _, a := range first.attempts {
		if d.models[a.Target] == nil && d.again(a) {
			again = append(again, a.Target)
		}
	}
	if len(again) == 0 || ctx.Err() != nil {
		return nil
	}
	o.say("%d of them ask for values: those with data", len(again))
	settings := *d.settings
	settings.ShapeOnly = false
	more, err := o.try(ctx, o.On, &settings, again, d)
	if err != nil {
		return err
	}
	by := more.byTarget()
	for i, a := range first.attempts {
		if b := by[a.Target]; b != nil {
			first.attempts[i] = b
		}
	}
	return nil
}

// asksForValues: a value was asked for that was not there, the double said that it needs values, or the passes ended in
// an error that the device does not explain, which may be for the want of one.
func (a *attemptAnswer) asksForValues() bool {
	ran := a.Phase == phaseForward || a.Phase == phaseBackward
	needs := a.Refusal != nil && a.Refusal.Cause == facts.Values
	return a.StandIns > 0 || needs || a.Error != nil && a.Refusal == nil && a.Error.Kind == "" && ran
}

// onCPU tries on the CPU, with data, what failed on another device.
func (o *Options) onCPU(ctx context.Context, first *heard, d *doneModels) error {
	var failed []string
	by := first.byTarget()
	for _, a := range first.attempts {
		if d.models[a.Target] == nil && d.asksCPU(a) {
			failed = append(failed, a.Target)
		}
	}
	if len(failed) == 0 || ctx.Err() != nil {
		return nil
	}
	if o.All {
		o.say("%d failed: those on the CPU", len(failed))
	}
	more, err := o.try(ctx, target.CPU(), nil, failed, nil)
	if err != nil {
		return err
	}
	for _, onCPU := range more.attempts {
		d.judged(by[onCPU.Target], onCPU)
	}
	return nil
}

func (h *heard) byTarget() map[string]*attemptAnswer {
	by := make(map[string]*attemptAnswer, len(h.attempts))
	for _, a := range h.attempts {
		by[a.Target] = a
	}
	return by
}

func doubleText(s *target.Settings) string {
	text := fmt.Sprintf("on a double of torch %s MPS, %s with %s, macOS %s", s.Release, s.ChipName,
		unit.Bytes(float64(s.Memory)), s.MacOS)
	if s.ShapeOnly {
		text += ", shapes alone"
	}
	return text
}
