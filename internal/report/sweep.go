package report

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
)

//go:embed sweep.html.tmpl
var sweepSource string

// The tables of a sweep are drawn as those of a run: both pages share the templates.
var sweepTemplate = template.Must(template.Must(page.Clone()).New("sweep").Parse(sweepSource))

// Sweep is the page of trials with one batch after another. A pointer that is nil: not known.
type Sweep struct {
	Title, ID string
	Target    evidence.Target
	Started   time.Time
	Grid      string // name of the second parameter; "": none
	Answers   []SweepAnswer
	Trials    []SweepTrial
	Bought    []SweepBought
	Notes     []string
	Limit     *float64 // bytes that the allocator may hold
	LimitBy   string
}

// SweepAnswer is an answer of a sweep; a batch of 0: there is none.
type SweepAnswer struct {
	Name  string
	Batch int
	Text  string
}

// SweepTrial is a row of the table, and a point of the plots where it fits.
type SweepTrial struct {
	Number, Batch, Steps              int
	Cell, For, Ending, Text, Why, Run string
	Fits                              bool
	Peak, Rate, Step, Swap            *float64 // B, rows/s, s, B
}

// SweepBought is what a remedy changes beside the plain trial: ratios.
type SweepBought struct {
	Remedy, Loss string
	Memory, Time *float64
}

type sweepData struct {
	Sweep
	Started        string
	Lead, Policy   string
	CSS            template.CSS
	JS             template.JS
	Tiles          []tile
	Plots          []template.HTML
	Rows, Remedies table
}

// Write the page.
func (s Sweep) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	err := sweepTemplate.Execute(out, s.data())
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the page of the sweep: %w", err)
	}
	return nil
}

func (s Sweep) data() sweepData {
	d := sweepData{Sweep: s, Started: s.Started.UTC().Format("2006-01-02 15:04 UTC"), CSS: template.CSS(pageCSS),
		JS: template.JS(pageJS), Policy: policyOfPage()}
	d.Lead = count(len(s.Trials), "trial") + " on " + orElse(deviceName(s.Target), "a device that was not seen") + "."
	basis := string(evidence.Measured)
	if s.Target.Double != nil {
		basis = string(evidence.Rehearsed)
		d.Lead += " Times of a rehearsal say nothing about the Mac, and are not shown."
	}
	if s.Limit != nil {
		d.Lead += " The allocator may hold " + quantity(*s.Limit, "B") + " (" + s.LimitBy + ")."
	}
	for _, a := range s.Answers {
		t := tile{Name: a.Name, Value: thousands(a.Batch), Detail: a.Text, Basis: basis}
		if a.Batch == 0 {
			t.Value, t.Unknown, t.Basis = "unknown", true, ""
		}
		d.Tiles = append(d.Tiles, t)
	}
	d.Plots = s.plots()
	d.Rows = s.table()
	if len(s.Bought) > 0 {
		d.Remedies = table{ID: "t-remedies", Caption: "What each remedy changes",
			Cols: []column{{Name: "remedy"}, {Name: "memory", Num: true}, {Name: "time of a step", Num: true},
				{Name: "loss"}}}
		for _, b := range s.Bought {
			d.Remedies.Rows = append(d.Remedies.Rows, []cell{text(b.Remedy), ratioCell(b.Memory), ratioCell(b.Time),
				text(b.Loss)})
		}
	}
	return d
}

func ratioCell(v *float64) cell {
	if v == nil {
		return unknownCell()
	}
	return cell{Text: percent(*v), Num: true, Sort: full(*v)}
}

// plots are peak and throughput against the batch, a line for each value of the grid.
func (s Sweep) plots() (drawn []template.HTML) {
	for _, p := range []struct {
		id, title, unit string
		of              func(SweepTrial) *float64
	}{{"peak", "Peak of memory", "B", func(t SweepTrial) *float64 { return t.Peak }},
		{"rate", "Throughput", "1", func(t SweepTrial) *float64 { return t.Rate }}} {
		c := &chart{ID: "c-" + p.id, Title: p.title, Unit: p.unit, XUnit: "1", XName: "rows of a batch", Zero: true,
			XMin: math.Inf(1), XMax: math.Inf(-1)}
		if p.id == "rate" {
			c.Note = "rows a second"
		}
		byCell := map[string]map[float64]float64{}
		var cells []string
		for _, t := range s.Trials {
			v := p.of(t)
			if v == nil || !t.Fits || t.Batch == 0 {
				continue
			}
			if byCell[t.Cell] == nil {
				byCell[t.Cell] = map[float64]float64{}
				cells = append(cells, t.Cell)
			}
			byCell[t.Cell][float64(t.Batch)] = max(byCell[t.Cell][float64(t.Batch)], *v)
			c.XMin, c.XMax = min(c.XMin, float64(t.Batch)), max(c.XMax, float64(t.Batch))
		}
		next := math.Inf(1) // the limit is drawn as far as the next batch, which does not fit
		for _, t := range s.Trials {
			if b := float64(t.Batch); !t.Fits && b > c.XMax {
				next = min(next, b)
			}
		}
		if !math.IsInf(next, 1) {
			c.XMax = next
		}
		for i, name := range cells {
			line := series{Name: orElse(strings.TrimSpace(s.Grid+" "+name), "trials that fit"), Class: fmt.Sprint("s",
				i%5+1)}
			for x := range byCell[name] {
				line.X = append(line.X, x)
			}
			slices.Sort(line.X)
			for _, x := range line.X {
				line.Y = append(line.Y, byCell[name][x])
			}
			c.Series = append(c.Series, line)
		}
		if s.Limit != nil && p.id == "peak" && len(cells) > 0 {
			c.Series = append(c.Series, series{Name: "limit", Class: "s5", X: []float64{c.XMin, c.XMax},
				Y: []float64{*s.Limit, *s.Limit}})
		}
		c.Desc = p.title + " against the rows of a batch"
		if len(cells) > 0 && c.drawn() {
			drawn = append(drawn, c.render())
		}
	}
	return drawn
}

func (s Sweep) table() table {
	t := table{ID: "t-trials", Caption: "Trials", Cols: []column{{Name: "#", Num: true}}}
	if s.Grid != "" {
		t.Cols = append(t.Cols, column{Name: s.Grid})
	}
	t.Cols = append(t.Cols, column{Name: "batch", Num: true}, column{Name: "ended"}, column{Name: "peak", Num: true},
		column{Name: "of limit", Num: true}, column{Name: "rows/s", Num: true}, column{Name: "step", Num: true},
		column{Name: "swap", Num: true}, column{Name: "for"}, column{Name: "run"})
	for _, x := range s.Trials {
		row := []cell{whole(x.Number)}
		if s.Grid != "" {
			row = append(row, text(x.Cell))
		}
		batch := whole(x.Batch)
		if x.Batch == 0 {
			batch = cell{Text: "as it is", Num: true}
		}
		share := unknownCell()
		if x.Peak != nil && s.Limit != nil && *s.Limit > 0 {
			share = measure(*x.Peak / *s.Limit, "ratio")
		}
		ended := text(x.Ending)
		ended.Small = x.Text
		row = append(row, batch, ended, maybe(x.Peak, "B"), share, maybe(x.Rate, "1"), maybe(x.Step, "s"),
			maybe(x.Swap, "B"),
			text(x.For+": "+x.Why), code(x.Run))
		t.Rows = append(t.Rows, row)
	}
	return t
}
