package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"assay/internal/evidence"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// What the pages of internal/serve share with the page of a run: its style, its script, its plots, and a run under way.

// Style is the style of every page.
func Style() string { return pageCSS }

// Script sorts tables and answers the pointer in plots.
func Script() string { return pageJS }

// Policy is the content security policy of a page that holds its style and script itself.
func Policy() string { return policyOfPage() }

// Over is a figure over time: a value a run.
type Over struct {
	ID, Title, Note, Unit string
	Value                 []float64 // NaN: not known
}

// Plot draws it; "" with fewer than two values. The x axis counts runs, in the order given: what lies between two of
// them, an hour or a month, says nothing about them.
func (o Over) Plot() template.HTML {
	s := series{Name: o.Title, Class: "s1"}
	for i, v := range o.Value {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, v)
		}
	}
	c := &chart{ID: o.ID, Title: o.Title, Note: o.Note, Unit: o.Unit, XUnit: "1", XName: "run", Zero: true, Low: true,
		XMin: 1, XMax: float64(len(o.Value)), Series: []series{s},
		Desc: fmt.Sprintf("%s of %d runs, oldest first", o.Title, len(o.Value))}
	if !c.drawn() {
		return ""
	}
	return c.render()
}

// livePage is the part of a page that shows a run under way.
var livePage = template.Must(template.New("live").Parse(`<h1>{{.Title}} <span class="state {{.Chip}}">{{.State}}</span></h1>
<p class="lead">{{.Lead}}</p>
{{if .Whole}}<p><progress max="{{.Whole}}" value="{{.Done}}" aria-label="{{.Of}}"></progress> <span class="sub">{{.Progress}}</span></p>
{{end}}<dl class="tiles">{{range .Tiles}}<div><dt>{{.Name}}</dt><dd><b>{{.Value}}</b>{{with .Detail}}<span class="detail">{{.}}</span>{{end}}</dd></div>
{{end}}</dl>
{{.Steps}}{{.Loss}}
{{if .Findings}}<section id="findings"><h2>Findings by now</h2>
<ul class="findings">{{range .Findings}}<li class="f-{{.Severity}}"><span class="sev">{{.Severity}}</span><div><p>{{with .Where}}<code>{{.}}</code>: {{end}}{{.Text}}</p>{{with .Hint}}<p class="hint">{{.}}</p>{{end}}</div></li>
{{end}}</ul></section>{{end}}`))

type liveData struct {
	Title, State, Chip, Lead, Of, Progress string
	Done, Whole                            int
	Tiles                                  []tile
	Steps, Loss                            template.HTML
	Findings                               []finding
}

// WritePart writes what a run under way has come to as a part of a page. state: under way, or what became of it.
func (l Live) WritePart(w io.Writer, run *evidence.Run, ahead Ahead, state string) error {
	run = listed(run)
	d := liveData{Title: base(subjectName(run)), State: state, Chip: "open", Lead: "under way for " +
		unit.Seconds(elapsed(run))}
	if device := deviceName(run.Target); device != "" {
		d.Lead = "On " + device + ", " + d.Lead
	}
	if run.Target.Framework != "" {
		d.Lead += ", " + strings.TrimSpace(run.Target.Framework+" "+run.Target.Release)
	}
	add := func(name, value, detail string) {
		if value != "" {
			d.Tiles = append(d.Tiles, tile{Name: name, Value: value, Detail: detail})
		}
	}
	n := stepsSeen(run)
	if n == 0 {
		add("steps", noStepYet(run), "")
	} else {
		detail := ""
		if e := len(run.Epochs); e > 0 {
			detail = fmt.Sprintf("in epoch %d", run.Epochs[e-1].Number)
		}
		add("step", thousands(n), detail)
	}
	if step, of := lately(run); of > 0 {
		add("time of a step", unit.Seconds(step), fmt.Sprintf("median of the last %d", of))
	}
	if v, at, ok := lastLoss(run); ok {
		add("loss", unit.Format(v, "1"), "at step "+thousands(at))
	}
	if bad := len(run.Numerics.NonFiniteLosses); bad > 0 {
		add("loss not finite", "in "+count(bad, "step"), "")
	}
	memory, rest, _ := strings.Cut(memoryNow(run), ", ")
	add("memory", memory, rest)
	machine := sampled(run, [][2]string{{"host.cpu", "CPU"}, {"gpu.busy", "GPU"}, {"gpu.power", "GPU power"},
		{"host.memory.available", "memory free"}, {"host.pressure", "memory pressure"}})
	if len(machine) > 0 {
		add("machine", machine[0], strings.Join(machine[1:], ", "))
	}
	if p := progressOf(run, ahead); p.of != "" {
		d.Of, d.Done, d.Whole, d.Progress = p.name(), p.done, p.whole, sentence(p.text())
	}
	if c := stepChart(run); c.drawn() {
		d.Steps = c.render()
	}
	if c := lossChart(run); c.drawn() {
		d.Loss = c.render()
	}
	for _, f := range bySeverity(run.Findings) {
		if f.Name == "loop-not-recognised" || f.Name == "long-epoch" { // none yet
			continue
		}
		d.Findings = append(d.Findings, finding{Severity: string(f.Severity), Text: clean.Line(f.Text),
			Where: place(run, f.Where), Hint: f.Hint})
	}
	if err := livePage.Execute(w, d); err != nil {
		return fmt.Errorf("write the part of a run under way: %w", err)
	}
	return nil
}
