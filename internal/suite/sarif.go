package suite

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"assay/internal/ci"
	"assay/internal/text"
)

// WriteSARIF writes one run of SARIF for all devices, for GitHub takes one of a tool: a rule for each operator and
// cause, a result for each line of the user's at which tests fail by it, and notes for known wrong results that passing
// tests met. Tests that fail on the CPU too are no results. GitHub shows the first ci.SARIFResults; what is beyond is
// left out, and a note of the run says how much.
func (r *Result) WriteSARIF(w io.Writer) error {
	var on []string
	s := ci.SARIF{Version: text.Line(r.Assay)}
	rules := map[string]bool{}
	rule := func(id, title, level, full string) bool {
		if !rules[id] && len(rules) == ci.SARIFMost {
			return false
		}
		if !rules[id] {
			rules[id] = true
			s.Rules = append(s.Rules, ci.SARIFRule{ID: id, Title: title, Level: level, Full: full})
		}
		return true
	}
	left := 0
	add := func(result ci.SARIFResult, title, full string) {
		if len(s.Results) == ci.SARIFResults || !rule(result.Rule, title, result.Level, full) {
			left++
			return
		}
		s.Results = append(s.Results, result)
	}
	for _, p := range r.problems(nil) {
		title := text.Short(p.Group.Title(), 200)
		id, full := "suite-"+identifier(title), "Tests fail on the device with "+title+"."
		if p.Group.Kind == KindOperator {
			full = fmt.Sprintf("The device refuses %s. assay ops %s tells on which releases, and what to do.", title,
				text.Short(p.Group.Operator, 100))
		}
		add(ci.SARIFResult{Rule: id, Level: "error", Text: p.says(20),
			Place:      ci.SARIFPlace{File: text.Line(p.Place.File), Line: p.Place.Line},
			Properties: map[string]any{"runs": oneLiners(p.On), "tests": len(p.Tests)}}, title, full)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		on = append(on, text.Line(run.Label()))
		sum := SumOf(run)
		for _, k := range sum.Wrong {
			name := text.Short(k.Name, 200)
			place, _ := r.InRepository(Place{k.Tests[0].File(), max(0, k.Tests[0].Line)})
			add(ci.SARIFResult{Rule: "suite-wrong-" + identifier(name), Level: "warning",
				Text: fmt.Sprintf("%s passed on %s and met %s, a known wrong result", count(len(k.Tests), "test"),
					text.Line(run.Label()), name), Place: ci.SARIFPlace{File: text.Line(place.File), Line: place.Line},
				Properties: map[string]any{"runs": []string{text.Line(run.Label())}, "tests": len(k.Tests)}},
				"known wrong result: "+name, "The device computes "+name+" wrong for some values; a test that passes "+
					"may have used others.")
		}
		if why := sum.Unknown(); why != "" {
			s.Notes = append(s.Notes, ci.SARIFNote{Text: text.Line(run.Label() + ": not known: " + why)})
		}
	}
	if left > 0 {
		s.Notes = append(s.Notes, ci.SARIFNote{Text: count(left, "result") + " beyond GitHub's limits were left out"})
	}
	s.Properties = map[string]any{"runs": oneLiners(on)}
	return s.Write(w)
}

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// identifier makes of a title what a rule may be called.
func identifier(s string) string {
	if id := strings.Trim(notIdentifier.ReplaceAllString(s, "-"), "-"); id != "" {
		return id
	}
	return "unnamed"
}

func oneLiners(list []string) []string {
	out := []string{}
	for _, s := range list {
		out = append(out, text.Line(s))
	}
	return out
}
