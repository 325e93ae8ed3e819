package suite

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/ci"
	"assay/internal/text"
)

// WriteGitHub writes annotations for a pull request on GitHub, of which a step shows ten errors and ten warnings: an
// error for each cause at a line, operators first, and warnings for known wrong results that passing tests met. The
// last warning says what was left out, the one before it what is not known. With a difference errors are of what is
// new, with a judgement by a manifest of what departs from that; either may be nil.
func (r *Result) WriteGitHub(w io.Writer, d *Difference, j *Judgement) error {
	var errs, warnings, last []ci.Annotation
	keep := d.failing()
	if j != nil {
		keep = j.failing()
	}
	problems := r.problems(keep)
	for _, p := range problems {
		errs = append(errs, ci.Annotation{Level: "error", Title: "assay: " + text.Short(p.Group.Title(), 100),
			File: text.Line(p.Place.File), Line: p.Place.Line, Text: p.says(5)})
	}
	for t, run := range j.passing() {
		place, _ := r.InRepository(Place{t.File(), max(0, t.Line)})
		errs = append(errs, ci.Annotation{Level: "error", Title: "assay: passes against the manifest",
			File: text.Line(place.File), Line: place.Line, Text: fmt.Sprintf(
				"%s passes on %s, and the manifest expects a failure: take it out", text.Short(t.ID, 300),
				text.Short(run.Label(), 100))})
	}
	for i := range r.Runs {
		sum := SumOf(&r.Runs[i])
		for _, k := range sum.Wrong {
			place, _ := r.InRepository(Place{k.Tests[0].File(), k.Tests[0].Line})
			warnings = append(warnings, ci.Annotation{Level: "warning",
				Title: "assay: known wrong result: " + text.Short(k.Name, 100), File: text.Line(place.File),
				Line: max(0, place.Line), Text: fmt.Sprintf(
					"%s passed on %s and met it; assay ops %s tells what comes out wrong",
					count(len(k.Tests), "test"), text.Short(sum.Run.Label(), 100), text.Short(k.Name, 100))})
		}
		if why := sum.Unknown(); why != "" {
			last = append(last, ci.Annotation{Level: "warning",
				Title: "assay: not known on " + text.Short(sum.Run.Label(), 100), Text: text.Short(why, 300)})
		}
	}
	var left []string
	if len(errs) > ci.ShownAnnotations {
		tests, shown := 0, min(len(problems), ci.ShownAnnotations)
		for _, p := range problems[shown:] {
			tests += len(p.Tests)
		}
		if n := len(problems) - shown; n > 0 {
			left = append(left, fmt.Sprintf("%s with %s", count(n, "further line"), count(tests, "failing test")))
		}
		if n := len(errs) - max(len(problems), ci.ShownAnnotations); n > 0 {
			left = append(left, count(n, "test")+" that passed against the manifest")
		}
		errs = errs[:ci.ShownAnnotations]
	}
	if len(last) > ci.ShownAnnotations-1 { // a run each
		left = append(left, count(len(last)-(ci.ShownAnnotations-1), "run")+" of which not all is known")
		last = last[:ci.ShownAnnotations-1]
	}
	if room := ci.ShownAnnotations - 1 - len(last); len(warnings) > room {
		left = append(left, count(len(warnings)-room, "known wrong result"))
		warnings = warnings[:room]
	}
	if j != nil && j.Expected > 0 {
		left = append(left, count(j.Expected, "failure")+" that the manifest expects")
	}
	if d != nil && j == nil {
		for i := range d.Runs {
			if n := len(d.Runs[i].StillFailing); n > 0 {
				left = append(left, fmt.Sprintf("%s of %s that failed before", count(n, "test"),
					text.Short(d.Runs[i].Run.Label(), 100)))
			}
		}
	}
	if len(left) > 0 {
		last = append(last, ci.Annotation{Level: "warning", Title: "assay: not shown beside the lines",
			Text: strings.Join(left, "; ") + ". The job's summary has them"})
	}
	b := &strings.Builder{}
	for _, list := range [][]ci.Annotation{errs, warnings, last} {
		for _, a := range list {
			b.WriteString(a.String())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
