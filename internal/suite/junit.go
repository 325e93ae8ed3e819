package suite

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"assay/internal/ci"
	"assay/internal/text"
)

// WriteJUnit writes a testsuite a run, names and classes as pytest's own --junitxml gives them. A failure is a test
// that failed in its call, an error one that failed around it, ended the process, hung or did not run. What fails on
// the CPU too says nothing about the device and is skipped, with that as its reason; so is, as pytest has it, what was
// expected to fail. With a judgement by a manifest, so is a failure that it expects, and a test that passes against it
// is a failure; j may be nil. Failures and errors together are thus what assay test is red for, and what is not known.
func (r *Result) WriteJUnit(w io.Writer, j *Judgement) error {
	var file ci.JUnit
	news, passing := j.failing(), map[*Test]bool{}
	for t := range j.passing() {
		passing[t] = true
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		s := ci.JUnitSuite{Name: clean(run.Label()), Time: ci.JUnitTime(run.Seconds),
			Properties: &ci.JUnitProperties{}}
		for _, p := range []ci.JUnitProperty{{Name: "assay", Value: r.Assay}, {Name: "on", Value: run.On},
			{Name: "torch", Value: run.Torch}, {Name: "torch installed", Value: run.Installed},
			{Name: "command", Value: strings.Join(r.Command, " ")}, {Name: "commit", Value: r.Commit},
			{Name: "not known", Value: run.Missing}, {Name: "pytest's status", Value: strconv.Itoa(run.Status)}} {
			if p.Value != "" {
				s.Properties.List = append(s.Properties.List, ci.JUnitProperty{Name: p.Name, Value: clean(p.Value)})
			}
		}
		for k := range run.Tests {
			t := &run.Tests[k]
			c := junitCase(t)
			switch {
			case passing[t]:
				c.Failure = &ci.JUnitCause{Type: "passes", Message: "passes, and the manifest expects a failure"}
			case j != nil && t.Bad() && !news[t]:
				why := cmp.Or(c.Failure, c.Error)
				why.Type = "expected by the manifest"
				c.Skipped, c.Failure, c.Error = why, nil, nil
			}
			s.Cases = append(s.Cases, c)
		}
		if run.Missing != "" { // a run that was cut off is no green one, whatever its tests say
			s.Cases = append(s.Cases, ci.JUnitCase{Name: "the run as a whole", Class: "assay test",
				Error: &ci.JUnitCause{Message: clean(run.Missing), Type: "not known", Text: clean(run.Missing)}})
		}
		file.Suites = append(file.Suites, s)
	}
	return file.Write(w)
}

// clean is a text of a stranger's without what a terminal or a viewer would obey.
func clean(s string) string { return text.Lines(s) }

func junitCase(t *Test) ci.JUnitCase {
	name, class := t.ID, ""
	// tests/test_a.py::TestB::test_c[x::y] is test_c[x::y] of tests.test_a.TestB (pytest, src/_pytest/junitxml.py,
	// mangle_test_address): the parameters may hold what separates names.
	plain, parameters := t.ID, ""
	if at := strings.IndexByte(t.ID, '['); at >= 0 {
		plain, parameters = t.ID[:at], t.ID[at:]
	}
	if parts := strings.Split(plain, "::"); len(parts) > 1 {
		parts[0] = strings.ReplaceAll(strings.TrimSuffix(parts[0], ".py"), "/", ".")
		name = parts[len(parts)-1] + parameters
		class = strings.Join(parts[:len(parts)-1], ".")
	}
	c := ci.JUnitCase{Name: text.Line(name), Class: text.Line(class), Time: ci.JUnitTime(t.Seconds)}
	why := ci.JUnitCause{Type: cmp.Or(t.Error, "exception not known"), Message: t.Text, Text: t.told()}
	switch {
	case t.Outcome == Passed || t.Outcome == XPassed:
		if len(t.Wrong) > 0 {
			c.Out = "passed, and met a known wrong result of the device: " + strings.Join(t.Wrong, ", ")
		}
		if t.Outcome == XPassed {
			c.Out = strings.TrimPrefix(c.Out+"\npassed, and was expected to fail", "\n")
		}
		c.Out = clean(c.Out)
		return c
	case t.Outcome == Skipped:
		c.Skipped = &why
		why.Type = "skipped"
	case t.Outcome == XFailed:
		c.Skipped = &why
		why.Type = "xfail"
	case t.Outcome == Failed || t.Outcome == Ended || t.Outcome == Hung:
		switch {
		case !t.Bad():
			c.Skipped = &why
			why.Type, why.Message = "fails on the CPU too", "fails on the CPU too: "+t.Short()
		case t.Outcome == Failed && (t.Phase == "" || t.Phase == "call"):
			c.Failure = &why
		default:
			c.Error = &why
			if t.Outcome != Failed {
				why.Type = string(t.Outcome)
			}
		}
		if t.Operator+t.Cause != "" && t.Bad() {
			why.Type = cause(t) + ": " + why.Type
		}
	default:
		c.Error = &why
		why.Type, why.Message = "not run", "not run: "+cmp.Or(t.Text, "the run was over before")
	}
	why.Type, why.Message, why.Text = text.Line(why.Type), clean(why.Message), clean(why.Text)
	return c
}

// cause is the refusal behind a failure in a few words.
func cause(t *Test) string {
	return strings.TrimSpace(cmp.Or(t.Operator, "refused") + " " + strings.TrimSuffix("("+t.Cause+")", "()"))
}

// Short is a failure in one line.
func (t *Test) Short() string {
	switch {
	case t.Error != "" && t.Text != "":
		return t.Error + ": " + t.Text
	case t.Error+t.Text != "":
		return t.Error + t.Text
	}
	return string(t.Outcome)
}

// told is all that is known of why a test did not pass, a line each.
func (t *Test) told() string {
	b := &strings.Builder{}
	b.WriteString(t.Short() + "\n")
	if t.Phase != "" {
		b.WriteString("in its " + t.Phase + "\n")
	}
	b.WriteString("at " + t.Place().String() + "\n")
	if t.Operator+t.Cause != "" {
		how := "the device refuses "
		if t.How == "met" {
			how = "met during the test, and not what it failed by: the device refuses "
		}
		b.WriteString(how + cause(t) + "\n")
	}
	if t.Outcome == Failed || t.Outcome == Ended || t.Outcome == Hung {
		b.WriteString("on the CPU: " + cmp.Or(string(t.CPU), "not known") + "\n")
	}
	return b.String()
}
