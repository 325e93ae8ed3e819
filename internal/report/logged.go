package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"assay/internal/evidence"
)

// mostCurves is how many of the script's own curves are drawn; of the others the table has the last values.
const mostCurves = 24

// loggedCharts draws what the script logged itself: learning rates together, as lines that change where they were
// changed, then each other series that has two values or more.
func loggedCharts(run *evidence.Run) []*chart {
	var out []*chart
	rates := &chart{ID: "plot-lr", Title: "Learning rate", Unit: "1", XUnit: "1", XName: "step", Low: true,
		Bands: epochSpans(run), XMin: 1, XMax: float64(max(2, stepsSeen(run))), Zero: true,
		Desc: "The learning rate of each group of parameters, over the number of the step."}
	for _, s := range run.Logged {
		if s.Door == evidence.DoorOptimizer && len(rates.Series) < len(rateClasses) {
			if line := rateLine(s, rates.XMax); len(line.X) > 1 {
				line.Class = rateClasses[len(rates.Series)]
				rates.Series = append(rates.Series, line)
			}
		}
	}
	if rates.drawn() {
		out = append(out, rates)
	}
	n := 0
	for _, s := range run.Logged {
		if s.Door == evidence.DoorOptimizer || n == mostCurves {
			continue
		}
		if c := loggedChart(run, s, n); c.drawn() {
			out = append(out, c)
			n++
		}
	}
	return out
}

var rateClasses = []string{"s1", "s4", "s3", "s2", "s5"}

// rateLine holds a rate until the step that changes it, and the last one to the last step.
func rateLine(s evidence.Series, last float64) series {
	line := series{Name: s.Name}
	for i, v := range s.Value {
		if v == nil || i >= len(s.Step) {
			continue
		}
		at := math.Max(1, float64(s.Step[i]))
		if n := len(line.Y); n > 0 {
			line.X, line.Y = append(line.X, at), append(line.Y, line.Y[n-1])
		}
		line.X, line.Y = append(line.X, at), append(line.Y, *v)
	}
	if n := len(line.Y); n > 0 && line.X[n-1] < last {
		line.X, line.Y = append(line.X, last), append(line.Y, line.Y[n-1])
	}
	return line
}

func loggedChart(run *evidence.Run, s evidence.Series, n int) *chart {
	c := &chart{ID: fmt.Sprintf("plot-logged-%d", n), Title: s.Name, Unit: "1", XUnit: "1", XName: "step", Low: true,
		Bands: epochSpans(run), XMin: 1, XMax: float64(max(2, stepsSeen(run))), Note: "by " + s.Door,
		Desc: "What the script logged under this name, over the number of the step."}
	if s.Thin > 1 {
		c.Note += fmt.Sprintf("; every %s value is drawn", ordinal(s.Thin))
	}
	if s.Note != "" {
		c.Note += "; " + s.Note
	}
	xs, own := floats(s.Step), stepsSeen(run) == 0
	if own { // no step of ours: those that the script gave, or one value after the other
		c.Bands, c.XMin, c.XMax = nil, math.Inf(1), math.Inf(-1)
		for i := range xs {
			xs[i] = float64(i + 1)
			if i < len(s.Own) && s.Own[i] != nil {
				xs[i] = float64(*s.Own[i])
			}
			c.XMin, c.XMax = math.Min(c.XMin, xs[i]), math.Max(c.XMax, xs[i])
		}
		c.Note += "; by the script’s own steps"
	}
	if len(xs) != len(s.Value) {
		return c
	}
	line := series{Name: s.Name, Class: "s3", X: xs}
	for _, v := range s.Value {
		if v == nil {
			line.Y = append(line.Y, math.NaN())
			continue
		}
		line.Y = append(line.Y, *v)
	}
	c.Series = []series{line}
	return c
}

// loggedTable lists every series with its last value.
func loggedTable(run *evidence.Run) table {
	t := table{ID: "t-logged", Caption: "Logged by the script", Note: "declared by the script",
		Empty: "nothing was logged through a door that assay knows",
		Cols: []column{{"name", false}, {"by", false}, {"first", true}, {"last", true}, {"values", true},
			{"note", false}}}
	if run.Logged == nil {
		t.Empty = "not looked at in this run"
	}
	for _, s := range run.Logged {
		first, last := unknownCell(), unknownCell()
		if n := len(s.Value); n > 0 {
			first, last = plainNumber(s.Value[0]), plainNumber(s.Value[n-1])
		}
		t.Rows = append(t.Rows, []cell{code(s.Name), text(s.Door), first, last, whole(s.Points), text(s.Note)})
	}
	return t
}

func plainNumber(v *float64) cell {
	if v == nil {
		return cell{Text: "not finite", Num: true}
	}
	return cell{Text: strconv.FormatFloat(*v, 'g', 4, 64), Sort: full(*v), Num: true}
}

// rateWords says the learning rates on one line: "AdamW 0.001 → 1e-05".
func rateWords(run *evidence.Run) string {
	var all []string
	for _, s := range run.Logged {
		if s.Door != evidence.DoorOptimizer || len(s.Value) == 0 {
			continue
		}
		words, last := plainNumber(s.Value[0]).Text, plainNumber(s.Value[len(s.Value)-1]).Text
		if last != words {
			words += " → " + last
		}
		all = append(all, s.Name+" "+words)
	}
	if len(all) > 4 {
		all = append(all[:3:3], fmt.Sprintf("%d groups more", len(all)-3))
	}
	return strings.Join(all, ", ")
}

// randomnessTable is what can make the next run come out otherwise: seeds and deterministic settings.
func randomnessTable(run *evidence.Run) table {
	t := table{ID: "t-randomness", Caption: "Seeds and deterministic settings",
		Note: "what can make the next run come out otherwise", Empty: "none was seen",
		Cols: []column{{"setting", false}, {"value", false}, {"state", false}, {"line", false}, {"note", false}}}
	if run.Provenance.Randomness == nil {
		t.Empty = "not looked at in this run"
	}
	for _, s := range run.Provenance.Randomness {
		t.Rows = append(t.Rows, []cell{code(s.Name), code(orElse(s.Value, "–")), text(string(s.State)),
			code(orElse(place(run, s.Where), "–")), text(s.Note)})
	}
	return t
}

// drawnCurves renders what can be drawn of the script's own curves.
func drawnCurves(run *evidence.Run) []template.HTML {
	var out []template.HTML
	for _, c := range loggedCharts(run) {
		out = append(out, c.render())
	}
	return out
}
