package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/report"
	"assay/internal/verdict"
)

// gatesFile is where a run's folder keeps how its gates came out.
const gatesFile = "gates.json"

// mostGates bounds what is read of a gates.json, bytes: 500 gates with their answers are below a tenth of it.
const mostGates = 16 << 20

// pageOf is the report page of a run with what the rooms that judge say of it: the run's own gates, which lie in its
// folder dir where it was run with --policy, or else those of gates.toml here; the verdict; and where another run is
// named, what differs from it. It is made for a reader, and changes no exit status.
func pageOf(env *Env, run *evidence.Run, dir string, beside *evidence.Run) (report.HTML, error) {
	runs := []*evidence.Run{run}
	if beside != nil {
		runs = append(runs, beside)
	}
	page := report.HTML{Judged: judgedOf(pageGates(env, runs, dir))}
	page.Judged.Verdict = pageVerdict(env, runs)
	if beside != nil {
		var err error
		if page.Beside, err = besideOf(env, run, beside); err != nil {
			return page, err
		}
	}
	return page, nil
}

// showPage prints the page of the first run, beside the second where there is one.
func showPage(env *Env, args []string) error {
	runs := make([]*evidence.Run, 2)
	for i, arg := range args {
		run, err := loadRun(env, arg)
		if err != nil {
			return err
		}
		runs[i] = run
	}
	dir := env.Path(args[0])
	if info, err := os.Stat(dir); err != nil {
		dir = "" // a record of the logbook
	} else if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	page, err := pageOf(env, runs[0], dir, runs[1])
	if err != nil {
		return err
	}
	return page.Write(env.Stdout, runs[0])
}

// pageGates gives the gates of a page; or where there are none, why.
func pageGates(env *Env, runs []*evidence.Run, dir string) (*gate.Report, string) {
	if dir != "" && len(runs) == 1 { // with a second run beside it the gates can tell more than they could alone
		rep, err := readGates(dir)
		switch {
		case err != nil:
			return nil, err.Error() + ": assay gate RUN judges anew."
		case rep != nil && rep.ID == evidence.KindGate+"-"+runs[0].ID:
			return rep, ""
		}
	}
	if _, err := os.Stat(env.Path(policyFile)); err != nil {
		return nil, ""
	}
	policy, err := loadPolicy(env, policyFile)
	if err != nil {
		return nil, policyFile + " has a mistake: assay gate --check shows it."
	}
	return gate.Judge(policy, &gate.Set{Runs: runs, History: runHistory(env, nil, "")}), ""
}

// readGates reads how the gates of a run came out when it ended; nil where that was not kept.
func readGates(dir string) (*gate.Report, error) {
	f, err := os.Open(filepath.Join(dir, gatesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s could not be read", gatesFile)
	}
	defer f.Close()
	rep := &gate.Report{}
	if err := json.NewDecoder(io.LimitReader(f, mostGates)).Decode(rep); err != nil || rep.Kind != evidence.KindGate {
		return nil, fmt.Errorf("%s is no record of gates", gatesFile)
	}
	return rep, nil
}

// judgedOf puts what the gates say in the page's words.
func judgedOf(rep *gate.Report, none string) *report.Judged {
	j := &report.Judged{NoGates: none}
	if rep == nil {
		return j
	}
	j.Policy, j.Outcome, j.Summary = orName(rep.Policy), string(rep.Outcome), rep.Summary()
	for i := range rep.Gates {
		r := &rep.Gates[i]
		g := report.JudgedGate{Name: r.Name, Rule: strings.Join(strings.Fields(r.Rule), " "),
			Outcome: string(r.Outcome)}
		for _, a := range r.Answers {
			says := a.Text
			if len(rep.Runs) == 1 {
				a.Runs = nil // whose page it is
			}
			if how := a.How(); how != "" {
				says += " (" + how + ")"
			}
			if c := a.Compared; c != nil && c.Baseline > 0 {
				j.Baseline = append(j.Baseline, report.FigureBeside{Name: a.Figure.Name, Unit: a.Figure.Unit,
					There: &c.Baseline, Here: a.Figure.Value, WhyHere: a.Figure.Missing, Change: c.Change, Low: &c.Low,
					High: &c.High, Ground: fmt.Sprintf("%d against %d runs", c.Now, c.Past)})
			}
			g.Says = append(g.Says, says)
		}
		if r.Outcome == gate.NotAsked {
			g.Says = append([]string{"asked when " + strings.Join(strings.Fields(r.When), " ")}, g.Says...)
		}
		if r.Outcome == gate.Unknown {
			g.Needs = r.Needs()
		}
		if r.Outcome != gate.Pass && r.Outcome != gate.NotAsked && r.Because != "" {
			g.Because = r.Because
			if r.Source != "" {
				g.Because += " [" + r.Source + "]"
			}
		}
		j.Gates = append(j.Gates, g)
	}
	return j
}

func orName(policy string) string {
	if policy == "" {
		return "without a name"
	}
	return policy
}

// pageVerdict is the lane by the runs of the page alone, as `assay verdict RUN…` names it.
func pageVerdict(env *Env, runs []*evidence.Run) *report.Verdict {
	rep := verdict.Judge(runs, verdict.Options{Policy: gate.Default()})
	if err := aimOfVerdict(env, rep, runs[0]); err != nil {
		rep.Beside = nil // a project's file that cannot be read is no matter of the page
	}
	v := &report.Verdict{Lane: string(rep.Lane), Named: rep.Lane != verdict.None, Needs: rep.Needs, Next: rep.Next}
	for _, a := range rep.Rules {
		if a.Name != rep.Rule && (a.Holds != "yes" || !strings.HasSuffix(a.Then, " is out")) {
			continue
		}
		why := report.Reason{Then: a.Then, Rule: a.Name, Because: a.Because + " [" + a.Source + "]"}
		for _, answer := range a.Answers {
			if answer.Outcome == gate.Pass {
				why.By = append(why.By, answer.Text)
			}
		}
		v.Reasons = append(v.Reasons, why)
	}
	switch {
	case rep.Torch != "":
		v.For = "judged for torch " + rep.Torch + " (" + rep.From + ")"
	case rep.From != "":
		v.For = "judged for no release: " + rep.From
	}
	if rep.Beside != nil {
		v.For += "; " + strings.Join(rep.Beside, "; ")
	}
	return v
}

// besideOf compares a run with another one. Where the logbook knows them, their differences are told from noise by the
// runs in it that are like them.
func besideOf(env *Env, run, other *evidence.Run) (*report.Beside, error) {
	there, here, err := groupsOf(env, other, run)
	if err != nil {
		return nil, err
	}
	d := logbook.Compare(there, here)
	b := &report.Beside{Name: other.ID, Against: evidence.OtherWork(run, other), Remarks: d.Remarks, Run: other}
	if (run.Rehearsal == nil) != (other.Rehearsal == nil) && b.Against == "" {
		b.Against = "one is a rehearsal"
	}
	if unlike := evidence.Unlike(run, other); unlike != "" && unlike != b.Against {
		b.Remarks = append([]string{"not alike: " + unlike}, b.Remarks...)
	}
	for _, c := range d.Environment {
		b.Changed = append(b.Changed, report.Changed{Part: c.Part, Name: c.Name, There: c.A, Here: c.B})
	}
	for _, f := range d.Figures {
		x := report.FigureBeside{Name: f.Name, Unit: f.Unit, WhyThere: f.AWhy, WhyHere: f.BWhy, Change: f.Change,
			Low: f.Low, High: f.High, Noise: f.Noise, Ground: f.Ground}
		if f.AKnown {
			x.There = &f.A
		}
		if f.BKnown {
			x.Here = &f.B
		}
		if !math.IsNaN(f.P) {
			x.Ground = fmt.Sprintf("p = %.2g, %s", f.P, f.Ground)
		}
		b.Figures = append(b.Figures, x)
	}
	return b, nil
}

// groupsOf makes the two sides of a comparison, with the runs like them where the logbook has both.
func groupsOf(env *Env, there, here *evidence.Run) (a, b *logbook.Group, err error) {
	alone := func(run *evidence.Run) *logbook.Group {
		return &logbook.Group{IDs: []string{run.ID}, Runs: []*evidence.Run{run}}
	}
	a, b = alone(there), alone(here)
	path := logbookPath(env, "")
	if !logbook.Exists(path) {
		return a, b, nil
	}
	ctx := context.Background()
	book, err := logbook.OpenRead(ctx, path)
	if err != nil {
		return nil, nil, fault.Hint(fmt.Errorf("compare with the runs of the logbook: %w", err),
			"ASSAY_LOGBOOK names another one")
	}
	defer book.Close()
	for _, g := range []*logbook.Group{a, b} {
		id, err := book.Resolve(ctx, runDocument(g.Runs[0]))
		if err != nil {
			continue // not recorded there
		}
		if kept, err := book.Group(ctx, id); err == nil {
			g.Like = kept.Like
		}
	}
	return a, b, nil
}

// runDocument is the hash by which the logbook knows a run.
func runDocument(run *evidence.Run) string {
	runKey(run) // fills it in
	return run.Document
}
