package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/agent"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/host"
	"assay/internal/launch"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/report"
	"assay/internal/secret"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// runOptions are the flags of `assay run`.
type runOptions struct {
	asked                      target.Words
	python, out, profile, only string
	steps                      int
	forTime, warnEpoch         string
	quiet                      bool
	logbook                    string // "": $ASSAY_LOGBOOK or .assay/logbook.db; off: none
	noCPU                      bool
	policy                     string        // of the gates at the end
	held                       *held         // what policy names, read; nil: no gates were asked
	levers                     *probe.Levers // what the agent switches on in the script; nil: nothing
	proven                     bool          // the device was proven to compute, in a run before
	signatures                 bool          // record operator calls: the run lies in signaturesFolder
	record                     *probe.Recording
	releases                   bool        // with a rehearsal: each call is asked of every release
	suite                      probe.Suite // follows the tests of a suite; nil: nobody does
}

// defaultWarnEpoch is the threshold as the flag has it: 30m.
var defaultWarnEpoch = strings.TrimSuffix(time.Duration(evidence.LongEpoch*float64(time.Second)).String(), "0s")

func newRunCommand(env *Env) *cobra.Command {
	opts := runOptions{asked: target.Words{On: target.Auto}, profile: "auto", warnEpoch: defaultWarnEpoch}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Run a training script, unmodified, and measure it",
		Long: `Runs COMMAND with assay's agent in every Python process that it starts, and writes what was seen to a folder.

COMMAND is a program (python, torchrun, accelerate, …), a Python script (train.py), a module (-m pkg.train) or a notebook
(train.ipynb). The script's output, exit status and signals are its own; the summary goes to standard error when it has ended.

While it runs, how long an epoch takes is estimated from its first settled steps and kept in the run's folder; where that is a minute or more, or
longer than --warn-epoch, a terminal on standard error gets one line that says so, unless the script draws a progress bar. A file or a pipe gets
none. assay show --follow draws the run from another terminal.

--on double rehearses without a Mac: the script meets MPS as the release of PyTorch that --torch names has it, on the Mac that --chip and
--macos describe, with values computed by this machine's CPU. --shape-only computes no values at all: operators and memory alone.
Where COMMAND is pytest, the outcomes of its tests are told by cause; those that failed are run once more on the CPU when it has ended, to tell
which fail there as well.

Exit status: the script's own; 125 where assay failed before the script was started, 126 where the command cannot be executed,
127 where it was not found. With --policy, and where the script itself ended with 0: 3 where a gate fails, 4 where one cannot be told.`,
		Example: `  assay run -- python train.py --epochs 3
  assay run --on cpu --steps 200 -- train.py
  assay run --only data -- python -m pkg.train
  assay run --on double --torch 2.8 --chip m3-ultra-96gb -- python train.py
  assay run -- torchrun --nproc-per-node 2 train.py`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.asked.On, "on", opts.asked.On, "`device` to run on: auto, cpu, mps, cuda, double")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter for scripts, modules and notebooks")
	f.IntVar(&opts.steps, "steps", 0, "end the run after so many training `steps`")
	f.StringVar(&opts.forTime, "for", "", "end the run after a `time`: 90s, 2m")
	f.StringVar(&opts.out, "out", "", "`folder` of the run; default .assay/runs/TIME-NAME")
	f.StringVar(&opts.profile, "profile", opts.profile, "hot operators over fifty steps after warm-up, `auto|off`")
	f.StringVar(&opts.only, "only", "", "after some ordinary steps, run one `side` alone: data or forward")
	f.StringVar(&opts.warnEpoch, "warn-epoch", opts.warnEpoch, "warn of epochs longer than this `time`")
	f.StringVar(&opts.asked.Torch, "torch", "",
		"with --on double: `release` of PyTorch to stand for, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&opts.asked.Chip, "chip", "",
		"with --on double: `chip` of the Mac, as m2-pro or m3-ultra-96gb; default that of assay.toml, else "+
			target.DefaultChip)
	f.StringVar(&opts.asked.MacOS, "macos", "",
		"with --on double: `release` of macOS, 15 or 15.5; default that of assay.toml, else 15, or what that release of "+
			"PyTorch needs")
	f.BoolVar(&opts.asked.ShapeOnly, "shape-only", false, "with --on double: carry shapes and no data")
	f.BoolVar(&opts.noCPU, "no-cpu", false,
		"with --on double and pytest: do not run the tests that failed once more on the CPU")
	f.StringVar(&opts.policy, "policy", "",
		"hold the run against the gates of a `file`, or of default, when it has ended")
	f.StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook to record in, or off; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.BoolVarP(&opts.quiet, "quiet", "q", false, "no summary on standard error")
	f.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.policy != "" {
			policy, err := loadPolicy(env, opts.policy)
			if err != nil {
				// before the run: a mistake in it must not cost one
				return fault.Exit(err, fault.NotStarted)
			}
			opts.held = &held{policy: policy}
		}
		res, err := runSubject(cmd.Context(), env, opts, args)
		if err != nil {
			return err
		}
		var gates error
		if opts.held != nil {
			survive(env, "holding the run against the gates", func() { gates = sayGates(env, opts, res) })
		}
		if err := endAs(res); err != nil { // the script's own ending comes first
			return err
		}
		return gates
	}
	return cmd
}

// runSubject runs the command, writes evidence and report into the run's folder and prints the summary.
func runSubject(ctx context.Context, env *Env, opts runOptions, args []string) (*probe.Result, error) {
	usage := func(format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay run --help"), fault.NotStarted)
	}
	on, err := target.Run.Parse(opts.asked)
	if err == nil {
		err = target.Run.OfDouble(on, "--no-cpu", opts.noCPU)
	}
	if err != nil {
		return nil, fault.Exit(err, fault.NotStarted)
	}
	if opts.profile != "auto" && opts.profile != "off" {
		return nil, usage("--profile=%s: auto or off", opts.profile)
	}
	if opts.only != "" && opts.only != "data" && opts.only != "forward" {
		return nil, usage("--only %s: data or forward", opts.only)
	}
	if opts.only != "" && on.Rehearsal() {
		return nil, usage("--only %s compares times, and those of a rehearsal say nothing about the Mac", opts.only)
	}
	if opts.steps < 0 {
		return nil, usage("--steps %d: a number of steps above 0", opts.steps)
	}
	limit, warn := 0.0, 0.0
	if opts.forTime != "" {
		if limit, err = unit.ParseSeconds(opts.forTime); err != nil || limit == 0 {
			return nil, usage("--for %s: a time such as 90s or 2m", opts.forTime)
		}
	}
	if warn, err = unit.ParseSeconds(opts.warnEpoch); err != nil {
		return nil, usage("--warn-epoch %s: a time such as 90s or 30m", opts.warnEpoch)
	}
	if len(args) == 0 {
		return nil, usage("no command to run: write it after --")
	}
	if opts.only != "" {
		opts.profile = "off" // the thirty ordinary steps before the takeover are for comparing
	}
	cache, noAgent := agentCache(env)
	subject, command, err := resolve(ctx, env, opts.python, args, cache)
	if err != nil {
		return nil, err
	}
	if on.NeedsProof() && !opts.proven {
		if err := requireDevice(ctx, env, on.Device, command); err != nil {
			return nil, err
		}
	}
	var double *target.Double
	var beside []target.Double
	if on.Rehearsal() {
		if double, err = rehearsal(ctx, env, on, command); err != nil {
			return nil, fault.Exit(err, fault.NotStarted)
		}
		if opts.releases {
			beside = releasesBeside(on, double)
		}
	}
	id, own := runName(env, subject), []string{env.Path(ownFolder), logbookPath(env, opts.logbook)}
	out, home := env.Path(opts.out), ""
	var elsewhere func(error) string
	if opts.out == "" {
		folder := runsFolder
		if opts.signatures {
			folder = signaturesFolder
		}
		out, home = env.Path(filepath.Join(folder, id)), env.Path(ownFolder)
		elsewhere = func(why error) string { return keptElsewhere(env, id, why) }
	}
	// A reader of our output who goes away ends us by SIGPIPE, where it is not caught: the script's status would be
	// lost.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	here := launch.NewLocal(env.Witness)
	defer here.Close()
	var tell func(fold.EstimateEvent, probe.Telling)
	if !opts.quiet {
		tell = sayAhead(env, out)
	}
	res, err := probe.Run(probe.Options{
		Tell: tell,
		ID:   id, Subject: subject, Command: command, Environ: env.Environ, Dir: env.Dir, On: on, Steps: opts.steps,
		For: limit, Only: opts.only, Levers: opts.levers, Signatures: opts.signatures, Record: opts.record,
		Suite:   opts.suite,
		Profile: opts.profile, WarnEpoch: warn, Out: out, Home: home, Own: own, Elsewhere: elsewhere, Cache: cache,
		NoAgent:  noAgent,
		Launcher: here, Version: Version(), Double: double, Beside: beside,
		CPUToo: double != nil && !opts.noCPU, Quiet: opts.quiet,
		Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr, Now: env.Now, Outside: outside(),
	})
	if err != nil {
		return nil, err
	}
	survive(env, "keeping the evidence", func() { keepEvidence(env, opts, res) })
	if double != nil && !opts.quiet {
		sayAim(env.Stderr, env, double.Aim)
	}
	survive(env, "recording the run in the logbook", func() { recordRun(ctx, env, opts, res) })
	return res, nil
}

// keepEvidence writes evidence and report into the run's folder, and prints the summary.
func keepEvidence(env *Env, opts runOptions, res *probe.Result) {
	form := summary(env, env.Stderr)
	for _, kept := range []struct {
		name string
		form report.Form
		said *string // what the summary names it by: only what is there
	}{{"evidence.json", report.JSON{}, &form.Evidence}, {"report.html", nil, &form.Report}} {
		if res.Dir == "" {
			continue
		}
		if kept.form == nil { // the page, which has what is said of the evidence by now
			page := report.HTML{}
			if opts.held != nil {
				survive(env, "keeping the gates", func() { keepGates(env, opts, res) })
			}
			survive(env, "judging the run for its page", func() {
				var err error
				if page, err = pageOf(env, res.Run, res.Dir, nil); err != nil {
					res.Trouble = append(res.Trouble, err.Error())
				}
			})
			kept.form = page
		}
		path, sum := filepath.Join(res.Dir, kept.name), sha256.New()
		if err := file.Write(path, 0o600, func(w io.Writer) error {
			return kept.form.Write(io.MultiWriter(w, sum),
				res.Run)
		}); err != nil {
			res.Trouble = append(res.Trouble, fmt.Sprintf("%s was not written: %v", kept.name, err))
			continue
		}
		if kept.name == "evidence.json" {
			res.Run.Document = hex.EncodeToString(sum.Sum(nil))
		}
		if rel, err := filepath.Rel(env.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
			path = rel
		}
		*kept.said = path
	}
	if form.Report != "" {
		form.Evidence = "" // it lies beside the page, which says so
	}
	if !opts.quiet {
		fmt.Fprintln(env.Stderr)
		if err := form.Write(env.Stderr, res.Run); err != nil {
			res.Trouble = append(res.Trouble, err.Error())
		}
	}
	for _, why := range res.Trouble {
		fmt.Fprintf(env.Stderr, "assay: %s\n", text.Lines(why))
	}
}

// survive does something of ours beside a script. An error in assay itself is told, and does not take the script's
// status away.
func survive(env *Env, doing string, do func()) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(env.Stderr, "assay: %s ended with an error in assay itself: %v\n", doing, p)
		}
	}()
	do()
}

// keptElsewhere is the folder of a run where the default one cannot be made, as in many containers: below the user's
// own temporary one. "" where there is none either: the run goes on, and is not kept.
func keptElsewhere(env *Env, name string, why error) string {
	private, err := file.Private(env.Environ, env.Dir)
	if err != nil {
		fmt.Fprintf(env.Stderr, "assay: the run is not kept: %v; %v\n", why, err)
		return ""
	}
	folder := filepath.Join(private, "runs", name)
	fmt.Fprintf(env.Stderr, "assay: the run is kept in %s: %v\n", folder, why)
	return folder
}

// agentCache is a folder in which the agent lies unpacked: assay's cache, or where that cannot be written, as without a
// home folder, the user's own temporary one.
func agentCache(env *Env) (string, error) {
	cache, err := python.CacheDir(env.Environ)
	if err == nil {
		if _, err = agent.Install(cache); err == nil {
			return cache, nil
		}
	}
	private, err2 := file.Private(env.Environ, env.Dir)
	if err2 == nil {
		_, err2 = agent.Install(private)
	}
	if err2 != nil {
		return "", fault.Hint(fmt.Errorf("unpack the agent: %w", errors.Join(err, err2)),
			"set ASSAY_CACHE to a folder that can be written")
	}
	return private, nil
}

// endAs ends assay as the script ended: with its exit status, or by the signal that ended it. Where the signal does not
// end assay, it ends with 128 + n, as a shell would say it.
func endAs(res *probe.Result) error {
	if res.Signal != 0 {
		launch.EndBy(res.Signal)
	}
	if res.Exit != 0 {
		return status(res.Exit)
	}
	return nil
}

// outside hands the probe what other rooms know.
func outside() probe.Outside {
	return probe.Outside{
		Facts:   host.Facts,
		Sampler: func(pid int) probe.Sampler { return host.NewSampler(pid) },
		Apps:    host.Apps,
		Packages: func(path []string) []string {
			var list []string
			seen := map[string]bool{}
			for _, p := range python.Packages(path) {
				if line := p.Name + "==" + p.Version; !seen[line] {
					seen[line] = true
					list = append(list, line)
				}
			}
			return list
		},
	}
}

// resolve makes of the words after -- what is executed, and names the subject.
func resolve(ctx context.Context, env *Env, interpreter string, args []string, cache string) (evidence.Subject,
	[]string, error) {
	subject := evidence.Subject{Kind: "command", Command: args, Dir: env.Dir}
	python3 := func() (string, error) {
		in, err := python.Find(ctx, env.Environ, env.Dir, interpreter)
		if err != nil {
			return "", fault.Exit(err, fault.NotStarted)
		}
		if path := env.Path(interpreter); interpreter != "" && isScript(path) {
			return path, nil // a wrapper, which sets what its Python is to run with
		}
		return in.Path, nil
	}
	first := args[0]
	switch {
	case first == "-m" || first == "-c" || strings.HasSuffix(first, ".py"):
		path, err := python3()
		if err != nil {
			return subject, nil, err
		}
		args = append([]string{path}, args...)
	case strings.HasSuffix(first, ".ipynb"):
		path, err := python3()
		if err != nil {
			return subject, nil, err
		}
		if cache == "" {
			return subject, nil, fault.Exit(errors.New("run a notebook: its runner could not be unpacked"),
				fault.NotStarted)
		}
		installed, err := agent.Install(cache)
		if err != nil {
			return subject, nil, fault.Exit(err, fault.NotStarted)
		}
		subject.Kind, subject.Script = "notebook", first
		return subject, append([]string{path, installed.Notebook}, args...), nil
	case pythonName.MatchString(first):
		if interpreter != "" {
			path, err := python3()
			if err != nil {
				return subject, nil, err
			}
			args = append([]string{path}, args[1:]...)
		} else if first == "python" && !onPath(env, "python") {
			// Debian and macOS have python3 alone.
			path, err := python3()
			if err != nil {
				return subject, nil, err
			}
			args = append([]string{path}, args[1:]...)
		}
	default:
		return subject, args, nil
	}
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == "-m" && i+1 < len(args):
			subject.Kind, subject.Script = "module", args[i+1]
		case args[i] == "-c":
			subject.Kind, subject.Script = "script", "-c"
		case strings.HasPrefix(args[i], "-W") || strings.HasPrefix(args[i], "-X"):
			if len(args[i]) == 2 {
				i++
			}
			continue
		case strings.HasPrefix(args[i], "-"):
			continue
		default:
			subject.Kind, subject.Script = "script", args[i]
		}
		break
	}
	return subject, args, nil
}

// isScript says whether a file is a program that another one interprets.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begins := make([]byte, 2)
	_, err = io.ReadFull(f, begins)
	return err == nil && string(begins) == "#!"
}

var pythonName = regexp.MustCompile(`(^|/)python(\d+(\.\d+)?t?)?$`)

func onPath(env *Env, name string) bool {
	for _, folder := range filepath.SplitList(env.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// requireDevice proves, before hours are spent, that the device asked for computes: available is not enough.
func requireDevice(ctx context.Context, env *Env, device string, command []string) error {
	in, err := interpreterOf(ctx, env, command)
	if err != nil {
		return fault.Exit(err, fault.NotStarted)
	}
	for _, gate := range python.Gates(ctx, in, env.Environ) {
		if gate.Name != device {
			continue
		}
		if gate.State == "pass" {
			return nil
		}
		hint := gate.Hint
		if hint == "" {
			hint = "assay doctor tells more; --on auto leaves the choice to the script"
		}
		return fault.Exit(fault.Hint(fmt.Errorf("--on %s: %s", device, gate.Detail), hint), fault.NotStarted)
	}
	return fault.Exit(fmt.Errorf("--on %s: no gate of that name", device), fault.NotStarted)
}

// interpreterOf finds the Python that a command runs in: itself, or the one that its first line names.
func interpreterOf(ctx context.Context, env *Env, command []string) (python.Interpreter, error) {
	explicit := ""
	if pythonName.MatchString(command[0]) || filepath.IsAbs(command[0]) {
		explicit = command[0]
	} else if script := pythonScript(env, command[0]); script != "" {
		explicit = script
	}
	return python.Find(ctx, env.Environ, env.Dir, explicit)
}

// pythonScript is the program of that name on PATH where its first line names a Python, as pytest's and torchrun's
// does; else "".
func pythonScript(env *Env, name string) string {
	for _, folder := range filepath.SplitList(env.Getenv("PATH")) {
		path := filepath.Join(folder, name)
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		head := make([]byte, 256)
		n, _ := io.ReadFull(file, head)
		file.Close()
		line, _, _ := strings.Cut(string(head[:n]), "\n")
		if strings.HasPrefix(line, "#!") && strings.Contains(line, "python") {
			return path
		}
		return ""
	}
	return ""
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// runName names a run by its time, its subject and three random bytes: two runs at once do not meet.
func runName(env *Env, subject evidence.Subject) string {
	name := subject.Script
	if name == "" && len(subject.Command) > 0 {
		name = subject.Command[0]
	}
	name = filepath.Base(secret.Text(name))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".py"), ".ipynb")
	name = strings.Trim(unsafeName.ReplaceAllString(name, "-"), "-.")
	if len(name) > 40 {
		name = name[:40]
	}
	if name == "" {
		name = "run"
	}
	var tail [3]byte
	_, _ = rand.Read(tail[:])
	return env.Now().Format("20060102-150405") + "-" + name + "-" + hex.EncodeToString(tail[:])
}
