package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/logbook"
	"assay/internal/report"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/trajectory"
)

// runsComparison compares the losses of two recorded runs.
type runsComparison struct {
	metrics, with, allow []string
	absolute             float64
	bitwise, repeats     bool
	smooth               int
	markdown, html       string

	all *pflag.FlagSet
	own []string
}

func (c *runsComparison) flags(cmd *cobra.Command) {
	f := pflag.NewFlagSet("runs", pflag.ContinueOnError)
	f.StringSliceVar(&c.metrics, "metric", nil,
		"of runs: the `series` that decides, as the script logged it, or loss; may be repeated")
	f.Float64Var(&c.absolute, "within-absolute", 0,
		"of runs: `difference` that a loss may have, beside --within or alone")
	f.BoolVar(&c.repeats, "within-repeats", false, "of runs: losses may differ as much as repeats of A do")
	f.BoolVar(&c.bitwise, "bitwise", false, "of runs: losses have to be the same to the last bit")
	f.IntVar(&c.smooth, "smooth", 0, "of runs: judge the mean over so many `steps` in place of each step")
	f.StringSliceVar(&c.allow, "allow", nil, "of runs: what may differ, as what is to be judged, by these `words`: "+
		strings.Join(trajectory.Allowable(), ", "))
	f.StringSliceVar(&c.with, "with", nil, "of runs: more `runs`: repeats of A, or with one of the changes alone")
	f.StringVar(&c.markdown, "markdown", "",
		"of runs: write the table for review to this `file`, - for standard output")
	f.StringVar(&c.html, "html", "", "of runs: write the page for review to this `file`, - for standard output")
	f.VisitAll(func(one *pflag.Flag) { c.own = append(c.own, one.Name) })
	cmd.Flags().AddFlagSet(f)
	c.all = cmd.Flags()
}

func (c *runsComparison) String() string { return "a comparison of two runs" }

func (c *runsComparison) reads() []string { return append([]string{"within"}, c.own...) }

// takes two words of which one names a run; or any where a flag of this form alone was given.
func (c *runsComparison) takes(env *Env, words []string, dash int) bool {
	if dash >= 0 {
		return false
	}
	if slices.ContainsFunc(c.own, c.all.Changed) {
		return true
	}
	return len(words) == 2 && (namesRun(env, words[0]) || namesRun(env, words[1]))
}

// mostHead is how much of a file is read to tell whether it is evidence, bytes: the schema is its first line.
const mostHead = 4 << 10

// namesRun reports whether a word names a recorded run: a folder of assay run, an evidence.json, a record of the
// logbook.
func namesRun(env *Env, word string) bool {
	path := env.Path(word)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir() && !strings.HasSuffix(strings.TrimRight(word, "/"), ".steps"):
		for _, name := range []string{"evidence.json", "events.jsonl"} {
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				return true
			}
		}
		return false
	case err == nil && info.Mode().IsRegular() && !isModelFile(word):
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		head, _ := io.ReadAll(io.LimitReader(f, mostHead))
		return strings.Contains(string(head), `"schema": "assay.evidence/`) || strings.Contains(string(head),
			`"schema":"assay.evidence/`)
	case !errors.Is(err, fs.ErrNotExist):
		return false
	}
	if isModelFile(word) || !logbook.Exists(logbookPath(env, "")) {
		return false
	}
	_, err = loadRun(env, word)
	return err == nil
}

// tolerance is that of the flags.
func (c *runsComparison) tolerance() (trajectory.Tolerance, error) {
	wrong := func(hint, format string, args ...any) (trajectory.Tolerance, error) {
		return trajectory.Tolerance{}, fault.Exit(fault.Hint(fmt.Errorf(format, args...), hint), fault.Usage)
	}
	var given []string
	for _, name := range []string{"bitwise", "within-repeats", "within", "within-absolute"} {
		if c.all.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	t := trajectory.Tolerance{Absolute: c.absolute, Bitwise: c.bitwise, Repeats: c.repeats, Source: strings.Join(given,
		", ")}
	switch {
	case (c.bitwise || c.repeats) && len(given) > 1:
		return wrong("one of them", "%s: each is a tolerance of its own", strings.Join(given, " and "))
	case math.IsNaN(c.absolute) || c.absolute < 0 || math.IsInf(c.absolute, 0):
		return wrong("a number from 0 on", "--within-absolute %v", c.absolute)
	case c.smooth < 0 || c.smooth == 1 || c.smooth > 1_000_000:
		return wrong("a number of steps, from 2 to 1000000", "--smooth %d", c.smooth)
	case c.smooth > 0 && (c.bitwise || c.repeats):
		return wrong("judge each step, or name a tolerance", "--smooth with %s", given[0])
	case c.all.Changed("within"):
		t.Relative, _ = strconv.ParseFloat(c.all.Lookup("within").Value.String(), 64)
	case len(given) == 0:
		t.Relative, t.Source = evidence.LossDrift, "what gates go by where no tolerance is named"
	}
	for _, name := range c.allow {
		if !slices.Contains(trajectory.Allowable(), name) {
			return wrong("it takes "+strings.Join(trajectory.Allowable(), ", "), "--allow %s", name)
		}
	}
	return t, nil
}

func (c *runsComparison) compare(_ context.Context, env *Env, words []string, json bool) (int, error) {
	if len(words) != 2 {
		return 0, fault.Exit(fault.Hint(fmt.Errorf("two runs to compare, not %d", len(words)),
			"see: assay compare --help"),
			fault.Usage)
	}
	if err := c.oneOutput(); err != nil {
		return 0, err
	}
	q := trajectory.Asked{Metrics: c.metrics, Smooth: c.smooth, Allow: c.allow, Changed: changedBetween,
		Known: wrongWhere}
	var err error
	if q.Within, err = c.tolerance(); err != nil {
		return 0, err
	}
	var runs []*evidence.Run
	for _, word := range slices.Concat(words, c.with) {
		run, err := loadRun(env, word)
		if err != nil {
			return 0, err
		}
		runKey(run) // names what was folded from events
		runs = append(runs, run)
	}
	q.A, q.B, q.With = runs[0], runs[1], runs[2:]
	for _, path := range []string{c.markdown, c.html} { // it may bear a signature
		if _, err := os.Lstat(env.Path(path)); path != "" && path != "-" && err == nil {
			return 0, fault.Hint(fmt.Errorf("compare: write %s: it is there already", path),
				"name another file, or move it away: it may have been signed")
		}
	}
	if h := pastOf(env, nil, ""); h != nil {
		if q.Past, err = h.Past(q.A); err != nil {
			return 0, err
		}
	}
	r, err := trajectory.Compare(q)
	if err != nil {
		return 0, fmt.Errorf("compare %s with %s: %w", words[0], words[1], err)
	}
	for _, form := range []struct {
		path  string
		write func(io.Writer) error
	}{{c.markdown, r.Markdown}, {c.html, reviewOf(r).Write}} {
		if form.path == "" || form.path == "-" {
			continue
		}
		path := env.Path(form.path)
		if err := file.Write(path, 0o644, form.write); err != nil {
			return 0, fmt.Errorf("compare: write %s: %w", form.path, err)
		}
	}
	switch {
	case json:
		err = r.JSON(env.Stdout)
	case c.markdown == "-":
		err = r.Markdown(env.Stdout)
	case c.html == "-":
		err = reviewOf(r).Write(env.Stdout)
	default:
		err = r.Text(env.Stdout, width(env, env.Stdout))
	}
	if err != nil {
		return 0, fmt.Errorf("print what was compared: %w", err)
	}
	return r.Status(), nil
}

// oneOutput refuses two forms on one standard output.
func (c *runsComparison) oneOutput() error {
	out := 0
	for _, asked := range []bool{c.markdown == "-", c.html == "-", c.all.Changed("json")} {
		if asked {
			out++
		}
	}
	if out > 1 {
		return fault.Exit(fault.Hint(errors.New("two forms for one standard output"), "name a file for one of them"),
			fault.Usage)
	}
	return nil
}

// changedBetween is what assay log diff says of the environment.
func changedBetween(from, to *evidence.Run) (list []trajectory.Change) {
	for _, c := range logbook.Environment(from, to) {
		list = append(list, trajectory.Change{Part: c.Part, Name: c.Name, From: c.A, To: c.B})
	}
	return list
}

// wrongWhere cites what is known about wrong numbers on MPS where a run was: the facts that a rehearsal met, or else
// those about operators of its profile.
func wrongWhere(run *evidence.Run) (cites []trajectory.Cite) {
	if run.Rehearsal != nil {
		for _, rows := range evidence.MetBy(run.Rehearsal.Met, true, string(facts.Wrong)) {
			m := rows[0]
			cites = append(cites, trajectory.Cite{Name: m.Fact, Says: m.Wrong, Source: m.Source, Met: true})
		}
		return cites
	}
	if evidence.Device(run) != evidence.OnMPS {
		return nil
	}
	var called []atlas.Call
	for _, op := range run.Operators {
		called = append(called, atlas.Call{Operator: op.Name})
	}
	_, system, release := evidence.Place(run)
	release, _, _ = strings.Cut(release, "+")
	on, err := target.ParseMacOS(strings.TrimPrefix(system, "macOS "))
	if err != nil {
		on = target.MacOS{} // any
	}
	for _, s := range facts.Load().Ask(nil, facts.Question{Torch: release, MacOS: [2]int{on[0], on[1]},
		Operators: called, Outcomes: []facts.Outcome{facts.Wrong}}) {
		cites = append(cites, trajectory.Cite{Name: s.Name, Says: s.Wrong, Source: s.Source})
	}
	return cites
}

// reviewOf is the page of a comparison.
func reviewOf(r *trajectory.Result) report.Review {
	outcome := map[string]string{trajectory.Within: "pass", trajectory.Beyond: "fail"}[r.Body.Answer]
	if outcome == "" {
		outcome = "cannot tell"
	}
	page := report.Review{Title: text.Line(r.Title()), ID: text.Line(r.ID), Outcome: outcome, Answer: r.Body.Answer,
		Lead: text.Line(r.Body.Why), Sign: trajectory.Signed()}
	for _, s := range r.Sections() {
		s.Says = slices.Clone(s.Says) // the record's own
		for i := range s.Says {
			s.Says[i] = text.Line(s.Says[i])
		}
		for _, row := range s.Rows {
			for i := range row {
				row[i] = text.Line(row[i])
			}
		}
		page.Parts = append(page.Parts, report.ReviewPart(s))
	}
	for _, c := range r.Curves() {
		page.Curves = append(page.Curves, report.ReviewCurve{Name: text.Line(c.Name), X: c.By, Step: c.Step, A: c.A,
			B: c.B})
	}
	return page
}
