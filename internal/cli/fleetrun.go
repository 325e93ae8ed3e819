package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/probe"
	"assay/internal/text"
	"assay/internal/unit"
)

// fleetOptions are the flags of `assay fleet run`, and those of `assay fleet sweep` that are the same.
type fleetOptions struct {
	on, queue, jobs, device          string
	matrix, environ, paths, runFlags []string
	repeat, retries, retryFailed     int
	memory, chip, label, power       string
	disk, lease, limit, python       string
	forTime, logbook                 string
	steps                            int
	battery, fits, noCode, here      bool
	dryRun, json, leave              bool
	retriesSaid                      bool
	ray                              rayOptions
}

// common adds the flags that say where jobs may go and how they are kept.
func (opts *fleetOptions) common(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&opts.on, "on", hostsFile, "`file` of the hosts, or ray://ADDRESS")
	f.StringVar(&opts.queue, "queue", "",
		"`name` of the queue; default one for each command, script and what was asked")
	f.StringVar(&opts.device, "device", "auto",
		"`device` that the runs take there: auto, mps, cuda, cpu, double; cpu and double hold no GPU")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter there; default that of the host in the file")
	f.StringArrayVar(&opts.environ, "env", nil, "pass this `variable` on, with the value that it has here")
	f.StringArrayVar(&opts.paths, "needs-path", nil, "only hosts that have this `path`; data is not moved")
	f.StringVar(&opts.memory, "memory", "", "only hosts where a run may take so much: a `size` such as 24GiB")
	f.StringVar(&opts.chip, "chip", "", "only hosts with this `chip`: m4-max, ultra")
	f.StringVar(&opts.label, "label", "", "only hosts with this `label`")
	f.StringVar(&opts.power, "power", "", "`mains`: only hosts that say they are on it")
	f.BoolVar(&opts.battery, "battery", false, "hosts on battery and in Low Power Mode too")
	f.StringVar(&opts.disk, "disk", "", "only hosts with so much free disk: a `size`; default 1GiB")
	f.StringVar(&opts.lease, "lease", "", "a host ends a job of which it hears nothing for this `time`; default 45s")
	f.IntVar(&opts.retries, "retries", fleet.DefaultRetries,
		"begin a run that was lost with its host anew so many `times`")
	f.StringVar(&opts.limit, "limit", "", "end a run after this `time`; default none")
	f.BoolVar(&opts.noCode, "no-code", false, "send no code: the command finds all that it needs there")
	f.BoolVar(&opts.here, "here", false, "send this folder alone, not the whole working copy of git that it is in")
	f.StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook to record the runs in, or off; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.BoolVar(&opts.leave, "leave", false,
		"Ctrl-C leaves the runs to their hosts, which end them when the lease has run out; default it cancels them")
	f.BoolVar(&opts.json, "json", false, "print what became of each run as JSON; lines go to standard error")
	opts.ray.flags(cmd)
	f.SetInterspersed(false)
}

func newFleetRun(env *Env) *cobra.Command {
	opts := fleetOptions{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Run a command, or many, on the hosts of a file",
		Long: `Queues COMMAND, once for each combination of --matrix, and works the queue off on the hosts of hosts.toml. Each run is one of assay run there: its
events, output and evidence come here while it goes on, into .assay/runs, and into the logbook when it has ended.

The code of the working folder goes with it, as it is now. Data does not: --needs-path PATH keeps to hosts that have it.

A host has one training at a time, whoever asks. A run goes to a free host that has what it needs, of these to the one on which the logbook
measured the same command as fastest. Why a run waits is said: here, and by assay fleet status.

A run whose host has been lost is begun on another when its lease must have run out there, so that it never trains twice at once. A run that
fails is not begun again, unless --retry-failed says so.

Ctrl-C begins nothing more and cancels what runs; the same command again goes on with what is left. Killed in any other way, hosts end the
runs when their lease has run out, and the same command finds those that still go on.

Exit status: 0 where all runs ended with 0, 1 where some failed, 4 where some were lost, cancelled or had no host, 2 where the command line is wrong.`,
		Example: `  assay fleet run -- python train.py --epochs 3
  assay fleet run --matrix lr=0.1,0.01 --repeat 3 -- python train.py --lr {lr} --seed {repeat}
  assay fleet run --on hosts.toml --jobs jobs.txt --memory 24GiB
  assay fleet run --dry-run --fits -- python train.py`,
		Args: cobra.ArbitraryArgs,
	}
	opts.common(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.jobs, "jobs", "", "`file` of commands, one a line, or TOML with a [[job]] each")
	f.StringArrayVar(&opts.matrix, "matrix", nil,
		"a run for each value: `name=value,value`; {name} in COMMAND becomes it")
	f.IntVar(&opts.repeat, "repeat", 1, "each run so many `times`; {repeat} in COMMAND becomes the number")
	f.IntVar(&opts.retryFailed, "retry-failed", 0, "begin a run that failed anew so many `times`")
	f.IntVar(&opts.steps, "steps", 0, "end a run after so many training `steps`")
	f.StringVar(&opts.forTime, "for", "", "end the training after a `time`: 90s, 2m; the run ends well")
	f.StringArrayVar(&opts.runFlags, "run-flag", nil, "another `flag` of assay run, as --run-flag=--profile=off")
	f.BoolVar(&opts.fits, "fits", false, "rehearse the first run here for each chip, and leave hosts out where it "+
		"does not fit")
	f.BoolVar(&opts.dryRun, "dry-run", false, "ask the hosts, and say which run would go where, and why; begin nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.retriesSaid = cmd.Flags().Changed("retries")
		return runFleet(cmd.Context(), env, opts, args)
	}
	return cmd
}

func fleetUsage(format string, a ...any) error {
	return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay fleet run --help"), fault.Usage)
}

// like is a task with all that the flags say, but for its command.
func (opts fleetOptions) like() (fleet.Task, error) {
	t := fleet.Task{Device: "gpu", Python: opts.python, Environ: opts.environ}
	t.Needs = fleet.Needs{Chip: opts.chip, Label: opts.label, Power: opts.power, Paths: opts.paths}
	switch opts.device {
	case "auto", "mps", "cuda":
	case "cpu", "double":
		t.Device = "cpu"
	default:
		return t, fleetUsage("--device %s: auto, mps, cuda, cpu or double", opts.device)
	}
	if opts.device != "auto" {
		t.Flags = append(t.Flags, "--on", opts.device)
	}
	if opts.steps < 0 {
		return t, fleetUsage("--steps %d: a number of steps above 0", opts.steps)
	}
	if opts.steps > 0 {
		t.Flags = append(t.Flags, "--steps", fmt.Sprint(opts.steps))
	}
	if opts.forTime != "" {
		if s, err := unit.ParseSeconds(opts.forTime); err != nil || s == 0 {
			return t, fleetUsage("--for %s: a time such as 90s or 10m", opts.forTime)
		}
		t.Flags = append(t.Flags, "--for", opts.forTime)
	}
	for _, w := range opts.runFlags {
		if !strings.HasPrefix(w, "--") || w == "--" {
			return t, fleetUsage("--run-flag %s: a flag of assay run with its value, as --profile=off", w)
		}
		if name, _, _ := strings.Cut(w, "="); slices.Contains([]string{"--out", "--logbook", "--on", "--python"},
			name) {
			return t, fleetUsage("--run-flag %s: that is the fleet's own", w)
		}
		t.Flags = append(t.Flags, w)
	}
	var err error
	if opts.memory != "" {
		if t.Needs.Memory, err = fleet.ParseSize(opts.memory); err != nil {
			return t, fleetUsage("--memory: %v", err)
		}
	}
	if opts.disk != "" {
		if t.Needs.Disk, err = fleet.ParseSize(opts.disk); err != nil {
			return t, fleetUsage("--disk: %v", err)
		}
	}
	if opts.limit != "" {
		if t.Limit, err = unit.ParseSeconds(opts.limit); err != nil || t.Limit == 0 {
			return t, fleetUsage("--limit %s: a time such as 30m or 2h", opts.limit)
		}
	}
	switch {
	case opts.power != "" && opts.power != "mains":
		return t, fleetUsage("--power %s: mains, or nothing", opts.power)
	case opts.power != "" && opts.battery:
		return t, fleetUsage("--power mains and --battery: one of them")
	case opts.battery:
		t.Needs.Power = "any"
	}
	for _, name := range opts.environ {
		if name == "" || strings.ContainsAny(name, "= \x00") {
			return t, fleetUsage("--env %q: the name of a variable; its value is the one that it has here", name)
		}
	}
	return t, nil
}

// tasks makes the tasks of the command line, all but their code.
func (opts fleetOptions) tasks(env *Env, args []string) ([]fleet.Task, error) {
	like, err := opts.like()
	if err != nil {
		return nil, err
	}
	var all []fleet.Task
	switch {
	case opts.jobs != "" && len(args) > 0:
		return nil, fleetUsage("--jobs and a command: one of them")
	case opts.jobs != "" && (len(opts.matrix) > 0 || opts.repeat != 1):
		return nil, fleetUsage("--jobs with --matrix or --repeat: write the runs into the file")
	case opts.jobs != "":
		if all, err = fleet.ReadJobs(env.Path(opts.jobs), like); err != nil {
			return nil, fault.Exit(err, fault.Usage)
		}
	case len(args) == 0 && opts.queue == "":
		return nil, fleetUsage("no command to run: write it after --")
	case len(args) == 0: // a queue that is there goes on
		return nil, nil
	case opts.repeat < 1 || opts.repeat > fleet.MaxTasks:
		return nil, fleetUsage("--repeat %d: a number from 1 to %d", opts.repeat, fleet.MaxTasks)
	default:
		var axes []fleet.Axis
		for _, m := range opts.matrix {
			a, err := fleet.ParseAxis(m)
			if err != nil {
				return nil, fleetUsage("--matrix %v", err)
			}
			axes = append(axes, a)
		}
		like.Command = args
		if all, err = fleet.Expand(like, axes, opts.repeat); err != nil {
			return nil, fleetUsage("--matrix: %v", err)
		}
	}
	fleet.NameTasks(all)
	return all, nil
}

// withCode takes a snapshot of the working folder into the queues' folder, and has the tasks run in it.
func withCode(ctx context.Context, env *Env, opts fleetOptions, all []fleet.Task) (string, error) {
	if opts.noCode || len(all) == 0 {
		return "", nil
	}
	if err := probe.OwnFolder(env.Path(ownFolder)); err != nil {
		return "", err
	}
	into := env.Path(filepath.Join(fleetFolder, "code"))
	if err := os.MkdirAll(into, 0o700); err != nil {
		return "", err
	}
	s, err := bundle.Take(ctx, env.Dir, bundle.SnapshotOptions{Into: into, Here: opts.here})
	if err != nil {
		return "", fault.Hint(err, "--no-code sends none, --here this folder alone")
	}
	for i := range all {
		all[i].Code, all[i].Dir = s.Sum, s.Dir
	}
	say := fmt.Sprintf("code: %s of %d files, packed %s", unit.Bytes(float64(s.Bytes)), s.Files,
		unit.Bytes(float64(s.Size)))
	if s.Commit != "" {
		say += fmt.Sprintf(", commit %s %s", text.Short(s.Commit, 12), s.Dirty)
	}
	fmt.Fprintf(env.Stderr, "fleet: %s; data is not sent\n", text.Line(say))
	for i, l := range s.Left {
		if i == 3 {
			fmt.Fprintf(env.Stderr, "fleet: not sent: and %d more\n", len(s.Left)-i)
			break
		}
		fmt.Fprintf(env.Stderr, "fleet: not sent: %s: %s\n", text.Line(l.Path), text.Line(l.Why))
	}
	for i, p := range s.Secrets {
		if i == 3 {
			break
		}
		fmt.Fprintf(env.Stderr, "fleet: a secret goes with the code: %s\n", text.Line(p.String()))
	}
	return s.Sum, nil
}

// openSnapshot opens a snapshot of the queues' folder.
func openSnapshot(env *Env) func(string) (fleet.CodeFile, error) {
	return func(sum string) (fleet.CodeFile, error) {
		path := env.Path(filepath.Join(fleetFolder, "code", filepath.Base(sum)+".tar.zst"))
		f, err := fleet.OpenCode(path)
		if errors.Is(err, os.ErrNotExist) {
			return f, fault.Hint(err, "the snapshot was removed: run the command anew with another --queue")
		}
		return f, err
	}
}
