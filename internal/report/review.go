package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed review.html.tmpl
var reviewSource string

// The tables of a review are drawn as those of a run: the pages share the templates.
var reviewTemplate = template.Must(template.Must(page.Clone()).New("review").Parse(reviewSource))

// Review is the page of a comparison that somebody signs.
type Review struct {
	Title, ID string
	Outcome   string // pass, fail, cannot tell: its colour
	Answer    string // the word that stands for it
	Lead      string
	Curves    []ReviewCurve
	Parts     []ReviewPart
	Sign      []string // what the reviewer fills in
}

// ReviewCurve is a series of both sides over the same X; NaN is a gap.
type ReviewCurve struct {
	Name, X    string
	Step, A, B []float64
}

// ReviewPart is a section: sentences, then a table.
type ReviewPart struct {
	Title   string
	Says    []string
	Columns []string
	Rows    [][]string
	Note    string
}

type reviewData struct {
	Review
	CSS    template.CSS
	JS     template.JS
	Policy string
	Chip   string
	Plots  []template.HTML
	Parts  []reviewPart
}

type reviewPart struct {
	ID, Title string
	Says      []string
	Table     table
}

// Write the page.
func (v Review) Write(w io.Writer) error {
	sum := sha256.Sum256([]byte(pageJS))
	d := reviewData{Review: v, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Chip: chipOf(v.Outcome)}
	d.Policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	for i, c := range v.Curves {
		d.Plots = append(d.Plots, c.plots(i)...)
	}
	for i, p := range v.Parts {
		if len(p.Says)+len(p.Rows) == 0 {
			continue
		}
		t := table{ID: fmt.Sprint("t-part-", i), Alone: true, Note: p.Note}
		for _, name := range p.Columns {
			t.Cols = append(t.Cols, column{Name: name})
		}
		for _, row := range p.Rows {
			var cells []cell
			for _, words := range row {
				cells = append(cells, text(words))
			}
			t.Rows = append(t.Rows, cells)
		}
		t.Plain = len(p.Columns) < 3
		d.Parts = append(d.Parts, reviewPart{ID: fmt.Sprint("part-", i), Title: p.Title, Says: p.Says, Table: t})
	}
	out := bufio.NewWriter(w)
	err := reviewTemplate.Execute(out, d)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the page of the comparison: %w", err)
	}
	return nil
}

// plots are both sides, and the difference between them.
func (c ReviewCurve) plots(n int) (drawn []template.HTML) {
	if len(c.Step) == 0 {
		return nil
	}
	first, last := c.Step[0], c.Step[len(c.Step)-1]
	of := &chart{ID: fmt.Sprint("c-both-", n), Title: c.Name, Unit: "1", XUnit: "1", XName: c.X, XMin: first,
		XMax:   last,
		Desc:   c.Name + " of both runs over " + c.X,
		Series: []series{{Name: "A", Class: "s1", X: c.Step, Y: c.A}, {Name: "B", Class: "s2", X: c.Step, Y: c.B}}}
	apart := make([]float64, len(c.Step))
	for i := range apart {
		apart[i] = math.Abs(c.B[i] - c.A[i])
	}
	off := &chart{ID: fmt.Sprint("c-apart-", n), Title: c.Name + ": |B − A|", Unit: "1", XUnit: "1", XName: c.X,
		XMin: first,
		XMax: last, Low: true, Zero: true, MayLog: true, Desc: "how far B lies from A over " + c.X,
		Series: []series{{Name: "difference", Class: "s3", X: c.Step, Y: apart}}}
	if of.drawn() {
		drawn = append(drawn, of.render())
	}
	if _, zero := off.allZero(); off.drawn() && !zero {
		drawn = append(drawn, off.render())
	}
	return drawn
}
