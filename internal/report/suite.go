package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path"
	"strings"

	"assay/internal/evidence"
	"assay/internal/suite"
	clean "assay/internal/text"
)

//go:embed suite.html.tmpl
var suiteSource string

var suiteTemplate = template.Must(template.Must(page.Clone()).New("suite").Parse(suiteSource))

// Suite is the page of what became of a suite's tests.
type Suite struct {
	Result *suite.Result
	Since  *suite.Difference // nil: no base was given
}

type suiteData struct {
	Title, Assay, Commit, Command string
	Lead, State, Chip, Policy     string
	Rehearsed                     bool
	Unknown                       []string
	CSS                           template.CSS
	JS                            template.JS
	Tiles                         []tile
	Nav                           []link
	Overview                      table
	Since                         *suiteSince
	Runs                          []suiteDevice
}

type suiteSince struct {
	Tallies, Remarks []string
	Changed          table
}

type suiteDevice struct {
	ID, Name, State, Chip, Lead, Beside string
	Tables                              []table
}

// Write the page.
func (s Suite) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	err := suiteTemplate.Execute(out, s.data())
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the page of the suite: %w", err)
	}
	return nil
}

// policyOfPage lets no script run but the page's own, and asks the network for nothing.
func policyOfPage() string {
	sum := sha256.Sum256([]byte(pageJS))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

// suiteStates are the words and the classes of a run's state.
var suiteStates = map[suite.State][2]string{suite.StateGood: {"all pass", "good"},
	suite.StateWrong: {"known wrong results", "open"}, suite.StateUnknown: {"not all known", "open"},
	suite.StateBad: {"tests fail", "bad"}}

func (s Suite) data() suiteData {
	r := s.Result
	d := suiteData{Title: clean.Short(cmp.Or(path.Base(r.Folder), "."), 100), Assay: clean.Short(r.Assay, 50),
		Commit: clean.Short(r.Commit, 50), Command: clean.Short(strings.Join(r.Command, " "), 1000),
		Policy: policyOfPage(), CSS: template.CSS(pageCSS), JS: template.JS(pageJS)}
	if d.Title == "." {
		d.Title = "Tests"
	}
	worst := suite.StateGood
	if len(r.Runs) == 0 {
		worst, d.Lead = suite.StateUnknown, "Nothing was run."
	}
	d.Overview = table{ID: "t-devices", Alone: true, Caption: "By device", Cols: []column{{Name: "device"},
		{Name: "passed", Num: true}, {Name: "failed", Num: true}, {Name: "known wrong", Num: true},
		{Name: "on the CPU too", Num: true}, {Name: "never on the device", Num: true}, {Name: "not run", Num: true}}}
	for i := range r.Runs {
		run := &r.Runs[i]
		sum := suite.SumOf(run)
		sum.Advise()
		worst = max(worst, sum.State())
		name := clean.Short(run.Label(), 100)
		d.Rehearsed = d.Rehearsed || run.Rehearsed()
		if why := sum.Unknown(); why != "" {
			d.Unknown = append(d.Unknown, name+": "+clean.Short(why, 500)+".")
		}
		if len(r.Runs) == 1 {
			d.Lead = clean.Short(name+": "+sum.Lead(), 700)
			d.Tiles = suiteTiles(&sum)
		} else {
			d.Overview.Rows = append(d.Overview.Rows, []cell{text(name), whole(sum.Passed), whole(sum.Failed),
				whole(len(sum.Wrong)), whole(len(sum.CPU)), whole(sum.Untouched), whole(sum.NotRun)})
		}
		id := fmt.Sprintf("run-%d", i+1)
		state := suiteStates[sum.State()]
		d.Runs = append(d.Runs, suiteDevice{ID: id, Name: name, State: state[0], Chip: state[1],
			Lead: clean.Short(sum.Lead(), 700), Beside: sum.Beside(), Tables: suiteTables(id, &sum)})
		d.Nav = append(d.Nav, link{id, name})
	}
	if len(r.Runs) > 1 {
		d.Lead = count(len(r.Runs), "device") + " or releases, each with the tests that fail there and why."
		d.Nav = append([]link{{"devices", "By device"}}, d.Nav...)
	}
	d.State, d.Chip = suiteStates[worst][0], suiteStates[worst][1]
	if s.Since != nil {
		d.Since = sinceOf(s.Since)
		d.Nav = append(d.Nav, link{"since", "Since the base"})
	}
	return d
}

func suiteTiles(s *suite.Sum) []tile {
	basis := string(evidence.Measured)
	if s.Run.Rehearsed() {
		basis = string(evidence.Rehearsed)
	}
	return []tile{{Name: "passed", Value: thousands(s.Passed), Detail: "that used the device", Basis: basis},
		{Name: "failed", Value: thousands(s.Failed), Detail: "and not on the CPU, or not known there", Basis: basis},
		{Name: "known wrong", Value: thousands(len(s.Wrong)), Detail: "results that passing tests met", Basis: basis},
		{Name: "on the CPU too", Value: thousands(len(s.CPU)), Detail: "fail there as well"},
		{Name: "never on the device", Value: thousands(s.Untouched), Detail: "passed without a tensor on it"}}
}

// suiteTables are what failed by operator, other failures, known wrong results, and the tests of each.
func suiteTables(id string, s *suite.Sum) []table {
	operators := table{ID: id + "-operators", Caption: "Refused by the device", Note: "most tests first",
		Cols: []column{{Name: "operator"}, {Name: "cause"}, {Name: "tests", Num: true}, {Name: "runs from"},
			{Name: "where"}, {Name: "what to do"}}}
	others := table{ID: id + "-others", Caption: "Other failures", Note: "that no refusal was met in",
		Cols: []column{{Name: "what"}, {Name: "tests", Num: true}, {Name: "where"}, {Name: "one of them"}}}
	tests := table{ID: id + "-tests", Caption: "Failing tests", Cols: []column{{Name: "test"}, {Name: "why"},
		{Name: "at"}, {Name: "on the CPU"}}}
	for i := range s.Groups {
		g := &s.Groups[i]
		where := code(clean.Short(g.Places[0].String(), 300))
		if n := len(g.Places) - 1; n > 0 {
			where.Small = "and " + count(n, "other line")
		}
		n, one := whole(len(g.Tests)), code(clean.Short(g.Tests[0].ID, 300))
		if g.Kind == suite.KindOperator {
			if g.Met > 0 {
				n.Small = fmt.Sprintf("%d met it, and failed by something else", g.Met)
			}
			operators.Rows = append(operators.Rows, []cell{code(clean.Short(cmp.Or(g.Operator, "–"), 200)),
				text(clean.Short(g.Cause, 200)), n, text(clean.Short(cmp.Or(g.From, "–"), 20)), where,
				text(clean.Short(g.Remedy, 500))})
		} else {
			others.Rows = append(others.Rows, []cell{text(clean.Short(g.Title(), 200)), n, where, one})
		}
		for _, t := range g.Tests {
			tests.Rows = append(tests.Rows, suiteTest(t))
		}
	}
	wrong := table{ID: id + "-wrong", Caption: "Known wrong results that passing tests met",
		Note: "they may have used other values",
		Cols: []column{{Name: "known as"}, {Name: "tests", Num: true}, {Name: "one of them"}}}
	for _, k := range s.Wrong {
		wrong.Rows = append(wrong.Rows, []cell{code(clean.Short(k.Name, 200)), whole(len(k.Tests)),
			code(clean.Short(k.Tests[0].ID, 300))})
	}
	cpu := table{ID: id + "-cpu", Caption: "Failing on the CPU too", Note: "they say nothing about the device",
		Cols: tests.Cols}
	for _, t := range s.CPU {
		cpu.Rows = append(cpu.Rows, suiteTest(t))
	}
	return []table{operators, others, wrong, tests, cpu}
}

// reasonOf is why a test did not pass: the refusal in front, the exception in small.
func reasonOf(t *suite.Test) cell {
	if t.Operator+t.Cause == "" {
		return text(clean.Short(t.Short(), 200))
	}
	c := text(clean.Short(strings.Trim(t.Operator+": "+t.Cause, ": "), 200))
	c.Small = clean.Short(t.Short(), 120)
	if t.How == "met" {
		c.Small = "met, and failed by " + c.Small
	}
	return c
}

func suiteTest(t *suite.Test) []cell {
	cpu := text(clean.Short(string(t.CPU), 50))
	if t.CPU == "" {
		cpu = cell{Text: "not known", Faint: true}
	}
	return []cell{code(clean.Short(t.ID, 300)), reasonOf(t), code(clean.Short(t.Place().String(), 300)), cpu}
}

func sinceOf(d *suite.Difference) *suiteSince {
	v := &suiteSince{Changed: table{ID: "t-since", Alone: true, Caption: "Since the base", Empty: "Nothing changed.",
		Cols: []column{{Name: "what"}, {Name: "test"}, {Name: "device"}, {Name: "why"}}}}
	for _, r := range d.Remarks {
		v.Remarks = append(v.Remarks, sentence(clean.Short(r, 800)))
	}
	for i := range d.Runs {
		name := clean.Short(d.Runs[i].Run.Label(), 100)
		v.Tallies = append(v.Tallies, name+": "+d.Runs[i].Tally()+".")
		for _, l := range d.Runs[i].Lists() {
			if l.Still {
				continue
			}
			for _, t := range l.Tests {
				v.Changed.Rows = append(v.Changed.Rows, []cell{text(l.Name), code(clean.Short(t.ID, 300)), text(name),
					reasonOf(t)})
			}
		}
	}
	return v
}
