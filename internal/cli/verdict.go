package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/verdict"
)

type verdictOptions struct {
	declared []string
	policy   string
	against  []string
	json     bool
	rules    bool
}

func newVerdictCommand(env *Env) *cobra.Command {
	var opts verdictOptions
	cmd := &cobra.Command{
		Use:   "verdict [RUN…]",
		Short: "Say where training belongs: CPU, MPS, MLX, remote or CUDA, and why",
		Long: `Names the lane by a table of rules over the evidence of the runs, and for each reason the figure, its basis and the run. Where that does
not suffice it says so, with the commands that would supply what is missing. --rules prints the table.

The first RUN names the subject: a run's folder, an evidence.json, or a record of the logbook. Without one it is the newest below
.assay/runs, or else of the logbook ($ASSAY_LOGBOOK, else .assay/logbook.db), and the others there of the same script and batch stand
beside it. A rehearsal can rule MPS out (a missing operator, numbers that are known to come out wrong, memory); it can never prove that MPS is fast.

What no evidence says has to be declared: ` + declarationList() + `.

The stopping rule looks at the same runs and at those that --against names: two iterations at least a week apart, both failing a gate with
data loading normalised and the same three operators on top, mean to change the contract instead of tuning on.

Exit status: 0 where a lane is named, 4 where the evidence does not suffice, 3 where the stopping rule holds.`,
		Example: `  assay verdict
  assay verdict mps-run cpu-run rehearsal --declare inference
  assay verdict --rules`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringSliceVar(&opts.declared, "declare", nil,
		"a `word` about the work that no evidence says; may be given again")
	f.StringVar(&opts.policy, "policy", "", "`file` of gates for the stopping rule, or default")
	f.StringArrayVar(&opts.against, "against", nil,
		"`folder` or logbook of earlier runs; may be given again; default .assay/runs and the logbook")
	f.BoolVar(&opts.json, "json", false, "print the record ("+evidence.Schema+", a verdict's)")
	f.BoolVar(&opts.rules, "rules", false, "print the rules")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runVerdict(env, opts, args) }
	return cmd
}

func declarationList() string {
	var all []string
	for _, d := range verdict.Declarations {
		all = append(all, d[0]+" ("+d[1]+")")
	}
	return strings.Join(all, ", ")
}

func runVerdict(env *Env, opts verdictOptions, args []string) error {
	if opts.rules {
		verdict.RulesText(env.Stdout, width(env, env.Stdout))
		return nil
	}
	for _, word := range opts.declared {
		if !slices.ContainsFunc(verdict.Declarations, func(d [2]string) bool { return d[0] == word }) {
			return fault.Exit(fmt.Errorf("verdict --declare %s: what can be declared is %s", word, declarationList()),
				fault.Usage)
		}
	}
	policy, err := loadPolicy(env, opts.policy)
	if err != nil {
		return err
	}
	if err := checkAgainst(env, opts.against); err != nil {
		return err
	}
	runs, paths, err := loadRuns(env, args)
	if err != nil {
		return err
	}
	h := pastOf(env, opts.against, "")
	var past []*evidence.Run
	if h != nil {
		var subject *evidence.Run // nil: the newest
		if len(runs) > 0 {
			subject = runs[0]
		}
		if past, err = h.Past(subject); err != nil {
			return err
		}
		if len(runs) == 0 && len(h.read) > 0 { // the newest here; what the logbook has of it comes beside it
			if past, err = h.Past(h.read[0]); err != nil {
				return err
			}
		}
		for id, path := range h.paths {
			if paths[id] == "" {
				paths[id] = path
			}
		}
	}
	if len(runs) == 0 {
		if len(past) == 0 {
			return fault.Exit(fault.Hint(errors.New("verdict: no run is kept below "+runsFolder+" or in the logbook"),
				"name runs, or make one: assay run --on double -- python train.py"), fault.CannotTell)
		}
		runs = append(runs, past[0]) // the newest
		for _, run := range past[1:] {
			if evidence.OtherWork(past[0], run) == "" {
				runs = append(runs, run)
			}
		}
	}
	rep := verdict.Judge(runs, verdict.Options{Declared: opts.declared, Policy: policy, Past: past, Paths: paths})
	if err := aimOfVerdict(env, rep, runs[0]); err != nil {
		return err
	}
	if opts.json {
		err = verdict.JSON(env.Stdout, rep)
	} else {
		err = verdict.Text(env.Stdout, rep, width(env, env.Stdout))
	}
	switch {
	case err != nil:
		return fmt.Errorf("print the verdict: %w", err)
	case rep.Stop.Outcome == "yes":
		return status(fault.GateFailed)
	case rep.Lane == verdict.None:
		return status(fault.CannotTell)
	}
	return nil
}

// aimOfVerdict says for which release a verdict is given, that of the run that names the subject, and where the project
// here aims at another one by now.
func aimOfVerdict(env *Env, rep *verdict.Report, run *evidence.Run) error {
	rep.Torch, rep.From = "", "the run shows no PyTorch"
	if name, release := run.Target.Computes(); name == "torch" { // Keras may compute by it
		rep.Torch, rep.From = release, "as it ran"
	}
	if double := run.Target.Double; double != nil {
		rep.Torch, rep.From = double.Release, "as it was rehearsed"
		if asked := run.Target.AskedRelease; asked != "" {
			rep.From += ", --torch " + asked
		}
	}
	aim, err := aimAt(env, env.Dir, target.Words{})
	if err != nil || aim.Guessed || rep.Torch == "" || atlas.CompareReleases(aim.Torch, rep.Torch) == 0 {
		return err
	}
	rep.Beside = append([]string{"the project here aims at " + aim.String() + ", of which this says nothing"},
		aim.Besides...)
	return nil
}
