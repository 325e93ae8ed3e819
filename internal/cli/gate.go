package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/gate"
	"assay/internal/probe"
)

type gateOptions struct {
	policy  string
	against []string
	json    bool
	junit   string
	github  bool
	check   bool
	figures bool
	print   bool
}

// policyFile is looked for where no policy is named.
const policyFile = "gates.toml"

func newGateCommand(env *Env) *cobra.Command {
	var opts gateOptions
	cmd := &cobra.Command{
		Use:   "gate RUN…",
		Short: "Hold runs against a policy: pass, fail or cannot tell",
		Long: `Holds the first RUN, and those of the others that are like it, against the gates of a policy; the other runs are there to compare with,
as a run on the CPU beside one on MPS. RUN is a run's folder, an evidence.json, or a record of the logbook (3f2a91).

A gate is a rule over figures of the evidence: memory.growth <= 26 % over 10 epochs, or step.time within 5 % of baseline. The
policy is read before anything else, and a mistake in it is shown with its place. Without --policy it is gates.toml here, or else the
policy that comes with assay (--policy default; --default prints it).

A baseline is made of earlier runs of the same command on the same chip, system and release: those below the folders that --against
names, or in the logbooks that it names, by default .assay/runs and the logbook ($ASSAY_LOGBOOK, else .assay/logbook.db). It fails where a
change for the worse is certain beyond what runs differ anyway.

Exit status: 0 where every gate that was asked passes, 3 where one fails, 4 where none fails and one cannot be told; what cannot be told
is no pass, and the answer says what would tell.`,
		Example: `  assay gate .assay/runs/20261121-101500-train-1f2e3d
  assay gate mps-run cpu-run --policy strict.toml --junit gates.xml
  assay gate new1 new2 new3 new4 --against .assay/runs
  assay gate --check --policy gates.toml`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.policy, "policy", "", "`file` of gates, or default")
	f.StringArrayVar(&opts.against, "against", nil,
		"`folder` or logbook of earlier runs for baselines; may be given again")
	f.BoolVar(&opts.json, "json", false, "print the record ("+evidence.Schema+", a gate's)")
	f.StringVar(&opts.junit, "junit", "", "write JUnit XML to a `file`")
	f.BoolVar(&opts.github, "github", false, "append a summary to the file that $GITHUB_STEP_SUMMARY names")
	f.BoolVar(&opts.check, "check", false, "only read the policy")
	f.BoolVar(&opts.figures, "figures", false, "list the figures that a rule can name")
	f.BoolVar(&opts.print, "default", false, "print the policy that comes with assay")
	cmd.MarkFlagsMutuallyExclusive("check", "figures", "default")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runGate(env, opts, args) }
	return cmd
}

func runGate(env *Env, opts gateOptions, args []string) error {
	switch {
	case opts.figures:
		gate.FiguresText(env.Stdout)
		return nil
	case opts.print:
		_, err := env.Stdout.Write(gate.DefaultText)
		return err
	}
	policy, err := loadPolicy(env, opts.policy)
	if err != nil {
		return err
	}
	if opts.check {
		_, err := fmt.Fprintf(env.Stdout, "policy %s: no mistake in it; gates: %d\n", policy.Name, len(policy.Gates))
		return err
	}
	if len(args) == 0 {
		return fault.Exit(fault.Hint(errors.New("gate: no run to judge"), "name the folder that assay run printed"),
			fault.Usage)
	}
	summary := env.Getenv("GITHUB_STEP_SUMMARY")
	if opts.github && summary == "" {
		return fault.Exit(errors.New("gate --github: GITHUB_STEP_SUMMARY is not set: this is no job of GitHub Actions"),
			fault.Usage)
	}
	if err := checkAgainst(env, opts.against); err != nil {
		return err
	}
	runs, _, err := loadRuns(env, args)
	if err != nil {
		return err
	}
	rep := gate.Judge(policy, &gate.Set{Runs: runs, History: runHistory(env, opts.against, "")})
	if opts.junit != "" {
		err := file.Write(env.Path(opts.junit), 0o644, // for another program to read, which may run as another user
			func(w io.Writer) error { return gate.JUnit{}.Write(w, rep) })
		if err != nil {
			return fmt.Errorf("gate --junit %s: %w", opts.junit, err)
		}
	}
	if opts.github {
		if err := appendTo(env.Path(summary), func(w io.Writer) error {
			return gate.GitHub{}.Write(w,
				rep)
		}); err != nil {
			return fmt.Errorf("gate --github: %w", err)
		}
	}
	var form gate.Form = gate.Text{Width: width(env, env.Stdout)}
	if opts.json {
		form = gate.JSON{}
	}
	if err := form.Write(env.Stdout, rep); err != nil {
		return fmt.Errorf("print the gates: %w", err)
	}
	return gateStatus(rep)
}

// gateStatus is the exit status of a report.
func gateStatus(rep *gate.Report) error {
	switch rep.Outcome {
	case gate.Fail:
		return status(fault.GateFailed)
	case gate.Unknown:
		return status(fault.CannotTell)
	}
	return nil
}

func appendTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// loadPolicy reads the policy that was named: "" means gates.toml here, or else the one that comes with assay.
func loadPolicy(env *Env, name string) (*gate.Policy, error) {
	if name == "" {
		if _, err := os.Stat(env.Path(policyFile)); err == nil {
			name = policyFile
		}
	}
	if name == "" || name == "default" {
		return gate.Default(), nil
	}
	f, err := os.Open(env.Path(name))
	if err != nil {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("read the policy: %w", err),
			"assay gate --default prints one to begin with"), fault.Usage)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20)) // more is refused by its size
	if err != nil {
		return nil, fault.Exit(fmt.Errorf("read the policy %s: %w", name, err), fault.Usage)
	}
	return gate.Load(name, data)
}

// held is the policy that a run is held against when it has ended, and what came of it.
type held struct {
	policy *gate.Policy
	report *gate.Report // nil before that
}

// judge holds the run against the policy, once.
func (h *held) judge(env *Env, opts runOptions, res *probe.Result) *gate.Report {
	if h.report == nil {
		h.report = gate.Judge(h.policy, &gate.Set{Runs: []*evidence.Run{res.Run},
			History: runHistory(env, nil, opts.logbook)})
	}
	return h.report
}

// keepGates holds a run that has just ended against its policy, and keeps the answer in its folder.
func keepGates(env *Env, opts runOptions, res *probe.Result) {
	rep := opts.held.judge(env, opts, res)
	if err := file.Write(filepath.Join(res.Dir, gatesFile), 0o600,
		func(w io.Writer) error { return gate.JSON{}.Write(w, rep) }); err != nil {
		res.Trouble = append(res.Trouble, fmt.Sprintf("%s was not written: %v", gatesFile, err))
	}
}

// sayGates prints how the gates came out; the error is the exit status that they mean.
func sayGates(env *Env, opts runOptions, res *probe.Result) error {
	rep := opts.held.judge(env, opts, res)
	fmt.Fprintln(env.Stderr)
	if err := (gate.Text{Width: width(env, env.Stderr)}).Write(env.Stderr, rep); err != nil {
		return fmt.Errorf("print the gates: %w", err)
	}
	return gateStatus(rep)
}
