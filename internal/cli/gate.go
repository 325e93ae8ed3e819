package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
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
as a run on the CPU beside one on MPS. RUN is a run's folder, or an evidence.json.

A gate is a rule over figures of the evidence: memory.growth <= 26 % over 10 epochs, or step.time within 5 % of baseline. The
policy is read before anything else, and a mistake in it is shown with its place. Without --policy it is gates.toml here, or else the
policy that comes with assay (--policy default; --default prints it).

A baseline is made of earlier runs of the same command on the same chip, system and release: those below the folders that --against
names, or in the logbooks (.db) that it names, by default .assay/runs and .assay/logbook.db. It fails where a change for the worse is certain beyond what runs differ anyway.

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
	f.StringArrayVar(&opts.against, "against", nil, "`folder` or logbook (.db) of earlier runs for baselines; may be given again")
	f.BoolVar(&opts.json, "json", false, "print the record ("+gate.Schema+")")
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
		return fault.Exit(fault.Hint(errors.New("gate: no run to judge"), "name the folder that assay run printed"), fault.Usage)
	}
	summary := env.Getenv("GITHUB_STEP_SUMMARY")
	if opts.github && summary == "" {
		return fault.Exit(errors.New("gate --github: GITHUB_STEP_SUMMARY is not set: this is no job of GitHub Actions"), fault.Usage)
	}
	if err := checkAgainst(env, opts.against); err != nil {
		return err
	}
	runs, err := loadRuns(env, args)
	if err != nil {
		return err
	}
	rep := gate.Judge(policy, &gate.Set{Runs: runs, History: earlierRuns(env, opts.against)})
	if opts.junit != "" {
		if err := probe.WriteFile(env.Path(opts.junit), func(w io.Writer) error { return gate.JUnit{}.Write(w, rep) }); err != nil {
			return fmt.Errorf("gate --junit %s: %w", opts.junit, err)
		}
	}
	if opts.github {
		if err := appendTo(env.Path(summary), func(w io.Writer) error { return gate.GitHub{}.Write(w, rep) }); err != nil {
			return fmt.Errorf("gate --github: %w", err)
		}
	}
	var form gate.Form = gate.Text{Width: width(env)}
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
		return nil, fault.Exit(fault.Hint(fmt.Errorf("read the policy: %w", err), "assay gate --default prints one to begin with"), fault.Usage)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20)) // more is refused by its size
	if err != nil {
		return nil, fault.Exit(fmt.Errorf("read the policy %s: %w", name, err), fault.Usage)
	}
	return gate.Load(name, data)
}

func loadRuns(env *Env, args []string) ([]*evidence.Run, error) {
	var runs []*evidence.Run
	seen := map[string]bool{}
	for _, arg := range args {
		run, _, err := probe.Load(env.Path(arg))
		if err != nil {
			return nil, err
		}
		if id := run.ID + run.Started.String(); !seen[id] {
			seen[id] = true
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// earlierRuns is the history of the runs below the folders and in the logbooks named; without any, of .assay/runs and .assay/logbook.db.
func earlierRuns(env *Env, folders []string) gate.History {
	if len(folders) == 0 {
		for _, path := range []string{runsFolder, filepath.Join(".assay", "logbook.db")} {
			if _, err := os.Stat(env.Path(path)); err == nil {
				folders = append(folders, path)
			}
		}
	}
	if len(folders) == 0 {
		return nil
	}
	return &runFolders{env: env, folders: folders}
}

// checkAgainst refuses a history that is not there: it would read as one without runs.
func checkAgainst(env *Env, folders []string) error {
	for _, folder := range folders {
		if _, err := os.Stat(env.Path(folder)); err != nil {
			return fault.Exit(fmt.Errorf("--against: %w", err), fault.Usage)
		}
	}
	return nil
}

// runsFolder is where assay run keeps runs.
var runsFolder = filepath.Join(".assay", "runs")

// mostKept is how many runs of a folder are read, the newest first.
const mostKept = 400

// runFolders is a history over the folders that assay run wrote.
type runFolders struct {
	env     *Env
	folders []string
	done    bool
	read    []*evidence.Run
	err     error
}

// Past gives every run below the folders; those that do not belong to a baseline are left out by the gate.
func (h *runFolders) Past(*evidence.Run) ([]*evidence.Run, error) {
	if !h.done {
		h.done = true
		h.read, h.err = h.load()
	}
	return h.read, h.err
}

func (h *runFolders) load() (read []*evidence.Run, err error) {
	type found struct {
		path string
		at   int64
	}
	var files []found
	var kept []*evidence.Run
	for _, folder := range h.folders {
		path := h.env.Path(folder)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--against: %w", err)
		}
		if !info.IsDir() && filepath.Ext(path) == ".db" {
			runs, err := bookRuns(path)
			if err != nil {
				return nil, err
			}
			kept = append(kept, runs...)
			continue
		}
		candidates := []string{path}
		if info.IsDir() {
			candidates = []string{filepath.Join(path, "evidence.json")}
			entries, err := os.ReadDir(path)
			if err != nil {
				return nil, fmt.Errorf("--against: %w", err)
			}
			for _, e := range entries {
				candidates = append(candidates, filepath.Join(path, e.Name(), "evidence.json"))
			}
		}
		for _, c := range candidates {
			if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
				files = append(files, found{c, info.ModTime().UnixNano()})
			}
		}
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].at > files[j].at })
	if len(files) > mostKept {
		files = files[:mostKept]
	}
	for _, file := range files {
		run, _, err := probe.Load(file.path)
		if err != nil {
			fmt.Fprintf(h.env.Stderr, "assay: left out of the history: %v\n", err)
			continue
		}
		kept = append(kept, slim(run))
	}
	seen := map[string]bool{} // a run may lie in a folder and in the logbook
	for _, run := range kept {
		if id := run.ID + run.Started.String(); !seen[id] {
			seen[id] = true
			read = append(read, run)
		}
	}
	return read, nil
}

// slim leaves out of a run what no rule asks of an earlier one: four hundred whole ones would be much.
func slim(run *evidence.Run) *evidence.Run {
	all := run.Steps
	run.Steps = evidence.StepSeries{Number: all.Number, Total: all.Total, Kind: all.Kind, Thin: all.Thin}
	for i, sample := range run.Host.Samples {
		run.Host.Samples[i].Figures = slices.DeleteFunc(sample.Figures, func(f evidence.Figure) bool { return f.Name != "host.pressure" })
	}
	run.Provenance.Packages, run.Processes, run.Shapes = nil, nil, nil
	return run
}

// bookRuns are the newest runs and rehearsals of a logbook.
func bookRuns(path string) ([]*evidence.Run, error) {
	ctx := context.Background()
	book, err := logbook.OpenRead(ctx, path)
	if err != nil {
		return nil, err
	}
	defer book.Close()
	var runs []*evidence.Run
	for _, kind := range []string{logbook.KindRun, logbook.KindRehearsal} {
		entries, err := book.List(ctx, logbook.Filter{Kind: kind, Limit: mostKept})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			run, err := book.Run(ctx, e.ID)
			if err != nil {
				return nil, err
			}
			runs = append(runs, slim(run))
		}
	}
	return runs, nil
}

// gateRun holds a run that has just ended against the policy, and keeps the answer in its folder.
func gateRun(env *Env, policy *gate.Policy, res *probe.Result) error {
	rep := gate.Judge(policy, &gate.Set{Runs: []*evidence.Run{res.Run}, History: earlierRuns(env, nil)})
	if err := probe.WriteFile(filepath.Join(res.Dir, "gates.json"), func(w io.Writer) error { return gate.JSON{}.Write(w, rep) }); err != nil {
		fmt.Fprintf(env.Stderr, "assay: gates.json was not written: %v\n", err)
	}
	fmt.Fprintln(env.Stderr)
	if err := (gate.Text{Width: width(env)}).Write(env.Stderr, rep); err != nil {
		return fmt.Errorf("print the gates: %w", err)
	}
	return gateStatus(rep)
}
