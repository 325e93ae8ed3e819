package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/launch"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/secret"
	"assay/internal/suite"
	"assay/internal/target"
	"assay/internal/unit"
)

// testsFolder is where the results of suites lie.
var testsFolder = filepath.Join(ownFolder, "tests")

// testOptions are the flags of `assay test`.
type testOptions struct {
	asked         target.Words // Torch: one or several releases, with commas
	python, out   string
	limit         string
	deviceDefault bool
	noCPU, json   bool
}

// testRun is one `assay test`, as the extras see it: before may change what is run.
type testRun struct {
	opts       testOptions
	command    []string        // as typed after --
	targets    []target.Target // one for each run, in order
	folder     string          // of the result, absolute; it is made before the first run
	signatures bool            // record the distinct operator calls of each run
	releases   bool            // ask every release of each call: docs/releases.md
}

// testExtra is something that `assay test` can do beside: its flags, what is done before the first run and after the
// last. A status of after below 0 leaves the exit status as it is.
type testExtra interface {
	flags(*pflag.FlagSet)
	before(*testRun) error
	after(*suite.Result) (status int, err error)
}

// testExtras is the explicit list, in the order in which they are asked; of several statuses the last one stands.
func testExtras(env *Env) []testExtra {
	manifest := &testManifest{env: env}
	return []testExtra{manifest, &testReports{env: env, manifest: manifest}, &testReleases{env: env}}
}

func newTestCommand(env *Env) *cobra.Command {
	opts := testOptions{asked: target.Words{On: target.Auto}, limit: "5m"}
	extras := testExtras(env)
	cmd := &cobra.Command{
		Use:   "test [flags] -- pytest [ARG…]",
		Short: "Run a suite of tests, unmodified, as a Mac would: what fails there, by operator",
		Long: `Runs pytest with the suite as it is, and writes what became of each test to a file, suite.json (docs/formats/suite.md). What pytest prints passes
through; the answer comes on standard error when it has ended: operators first, each with the tests that it fails, the line that calls it and what to
do.

Where this machine has an MPS that computes, --on auto means that one; elsewhere the double, as the release of PyTorch that --torch names has MPS.
Several releases, with commas, run one after the other, on the double.

Tests that fail are run once more on the CPU: those that fail there as well say nothing about the device, and are set apart. A test that ends its
process, or has no end within --limit, is told as that, and the others go on in a new process.

Exit status: 0 where no test failed that passes on the CPU; 1 where one did; else pytest's own (2 interrupted or not collected, 3, 4, 5 no tests);
125 where nothing was started.`,
		Example: `  assay test -- pytest
  assay test --torch 2.6,2.14 -- pytest -n 4 tests
  assay test --on mps -- python -m pytest tests/test_ops.py`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.asked.On, "on", opts.asked.On, "`device` to run on: auto, cpu, mps, cuda, double")
	f.StringVar(&opts.asked.Torch, "torch", "",
		"`releases` of PyTorch to stand for, with commas: 2.8 or 2.6,2.14 ("+torchDefault+")")
	f.StringVar(&opts.asked.Chip, "chip", "",
		"with the double: `chip` of the Mac, as m2-pro or m3-ultra-96gb; default that of assay.toml, else "+
			target.DefaultChip)
	f.StringVar(&opts.asked.MacOS, "macos", "",
		"with the double: `release` of macOS, 15 or 15.5; default that of assay.toml, else 15, or what that release of "+
			"PyTorch needs")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter for -m pytest and scripts")
	f.StringVar(&opts.out, "out", "", "`folder` of the result; default .assay/tests/TIME-NAME")
	f.StringVar(&opts.limit, "limit", opts.limit, "end a test that takes longer than this `time`, its fixtures included")
	f.BoolVar(&opts.deviceDefault, "device-default", false,
		"have the suite make its tensors on the device where it names none (torch.set_default_device)")
	f.BoolVar(&opts.noCPU, "no-cpu", false, "do not run the tests that failed once more on the CPU")
	f.BoolVar(&opts.json, "json", false, "print the result as JSON; what pytest prints goes to standard error")
	for _, e := range extras {
		e.flags(f)
	}
	f.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runTest(cmd.Context(), env, opts, extras, args)
	}
	cmd.AddCommand(newTestShowCommand(env))
	return cmd
}

func runTest(ctx context.Context, env *Env, opts testOptions, extras []testExtra, args []string) error {
	limit, err := unit.ParseSeconds(opts.limit)
	switch {
	case err != nil || limit == 0:
		err = fault.Hint(fmt.Errorf("--limit %s: a time such as 90s or 5m", opts.limit), "see: assay test --help")
	case len(args) == 0:
		err = fault.Hint(fmt.Errorf("no command to run: write it after --"), "as: assay test -- pytest")
	}
	if err != nil {
		return fault.Exit(err, fault.NotStarted)
	}
	r := &testRun{opts: opts, command: args}
	if r.targets, err = testTargets(ctx, env, opts, args); err != nil {
		return fault.Exit(err, fault.NotStarted)
	}
	if r.folder, err = testFolder(env, opts.out); err != nil {
		return fault.Exit(err, fault.NotStarted)
	}
	for _, e := range extras {
		if err := e.before(r); err != nil {
			return fault.Exit(err, fault.NotStarted)
		}
	}
	secrets := &secret.Set{}
	secrets.Environ(env.Environ)
	secrets.Words(args)
	result := &suite.Result{Version: suite.Version, Assay: Version(), Command: args, Runs: []suite.Run{}}
	one := &suiteRunner{env: env, run: r, limit: time.Duration(limit * float64(time.Second)), secrets: secrets,
		result: result}
	interrupted := one.catch()
	defer interrupted()
	for i := range r.targets {
		if err := one.on(ctx, r.targets[i]); err != nil {
			return err
		}
		if one.stopped.Load() {
			break
		}
	}
	if err := one.keep(); err != nil {
		return err
	}
	if opts.json {
		e := json.NewEncoder(env.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		err = e.Encode(result)
	} else {
		fmt.Fprintln(env.Stderr)
		err = result.Text(env.Stderr, width(env, env.Stderr))
	}
	if err != nil {
		return err
	}
	exit := result.Status()
	for _, e := range extras {
		s, err := e.after(result)
		if err != nil {
			return err
		}
		if s >= 0 {
			exit = s
		}
	}
	if exit != 0 {
		return status(exit)
	}
	return nil
}

// testTargets are the devices that the suite runs on.
func testTargets(ctx context.Context, env *Env, opts testOptions, args []string) ([]target.Target, error) {
	words := opts.asked
	words.Torch = ""
	var releases []string
	for _, release := range strings.Split(opts.asked.Torch, ",") {
		if release = strings.TrimSpace(release); release != "" {
			releases = append(releases, release)
		}
	}
	if (target.Target{Device: words.On}).LeftOpen() {
		words.On = evidence.OnDouble
		if runtime.GOOS == "darwin" && words.Chip == "" && words.MacOS == "" && len(releases) < 2 &&
			requireDevice(ctx, env, evidence.OnMPS, args) == nil {
			words.On = evidence.OnMPS
		}
	}
	if len(releases) == 0 {
		releases = []string{""}
	}
	var all []target.Target
	for _, release := range releases {
		words.Torch = release
		if t, err := (target.Target{Device: words.On}), error(nil); release != "" && t.NeedsProof() {
			if err = onlyInstalled(ctx, env, t, release, args); err != nil {
				return nil, err
			}
			words.Torch = ""
		}
		t, err := target.Test.Parse(words)
		if err != nil {
			return nil, err
		}
		if t.NeedsProof() {
			if err := requireDevice(ctx, env, t.Device, args); err != nil {
				return nil, err
			}
		}
		if t.Rehearsal() {
			if _, err := rehearsal(ctx, env, t, args); err != nil { // before the first of them has run for hours
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// onlyInstalled is the error of a release that is asked for on a real device, where it is not the installed one.
func onlyInstalled(ctx context.Context, env *Env, t target.Target, release string, command []string) error {
	installed := installedTorch(ctx, env, command)
	if installed == release || strings.HasPrefix(installed, release+".") {
		return nil
	}
	return fault.Hint(fmt.Errorf("--torch %s: the tests run on this machine's %s, with the release that is installed, %s",
		release, strings.ToUpper(t.Device), cmp.Or(installed, "which is not known")),
		"leave --torch out, or stand for that release with --on double")
}

// installedTorch is the release of torch in the interpreter that a command runs in; "" where it is not known.
func installedTorch(ctx context.Context, env *Env, command []string) string {
	in, err := interpreterOf(ctx, env, command)
	if err != nil {
		return ""
	}
	torch, ok, err := python.ReadTorch(in, python.Packages(in.Site))
	if err != nil || !ok {
		return ""
	}
	return torch.Version
}

// testFolder makes the folder of a result.
func testFolder(env *Env, out string) (string, error) {
	folder := env.Path(out)
	if out == "" {
		folder = env.Path(filepath.Join(testsFolder, runName(env, evidence.Subject{Script: "pytest"})))
		if err := probe.OwnFolder(env.Path(ownFolder)); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fault.Hint(fmt.Errorf("make the result's folder: %w", err), "choose another with --out")
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		return "", fault.Hint(fmt.Errorf("the result's folder %s is not empty", folder),
			"name a new one with --out; what is recorded is never written over")
	}
	return folder, nil
}

// suiteRunner runs the suite on one device after the other, and adds to the result.
type suiteRunner struct {
	env     *Env
	run     *testRun
	limit   time.Duration
	secrets *secret.Set
	result  *suite.Result
	stopped atomic.Bool // by a signal of the user's
}

// catch notes signals by which the user ends the suite: they are the tests' as well, and nothing is started after one.
func (s *suiteRunner) catch() (release func()) {
	signals := make(chan os.Signal, 4)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case <-signals:
			s.stopped.Store(true)
		case <-done:
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

func (s *suiteRunner) say(line string) { fmt.Fprintf(s.env.Stderr, "assay: %s\n", line) }

func (s *suiteRunner) supervisor(only []string, device string) (*suite.Supervisor, error) {
	return suite.NewSupervisor(suite.Options{Environ: s.env.Environ, Dir: s.env.Dir, Limit: s.limit, Only: only,
		Default: device, Stopped: s.stopped.Load, Say: s.say, Now: s.env.Now})
}

// on runs the suite on one device, and the tests that failed there once more on the CPU.
func (s *suiteRunner) on(ctx context.Context, on target.Target) error {
	name, device := on.Device, ""
	if on.Rehearsal() {
		name = cmp.Or(on.Release, on.Device)
	}
	if s.run.opts.deviceDefault {
		device = on.Device
		if on.Rehearsal() {
			device = evidence.OnMPS
		}
	}
	if len(s.run.targets) > 1 {
		s.say("the suite as torch " + name + " on MPS has it")
	}
	follows, err := s.supervisor(nil, device)
	if err != nil {
		return fault.Exit(err, fault.NotStarted)
	}
	defer follows.Close()
	apart := *s.env
	if s.run.opts.json {
		apart.Stdout = s.env.Stderr
	}
	began := s.env.Now()
	res, err := runSubject(ctx, &apart, runOptions{asked: target.Words{On: on.Device, Torch: on.Release, Chip: on.Chip,
		MacOS: on.MacOS}, python: s.run.opts.python, profile: "off", warnEpoch: defaultWarnEpoch, noCPU: on.Rehearsal(),
		out: filepath.Join(s.run.folder, name), quiet: true, proven: true, logbook: "off",
		signatures: s.run.signatures, releases: s.run.releases, suite: follows}, s.run.command)
	if err != nil {
		return err
	}
	res.LetGo()
	run := suite.Run{On: on.Device, Dir: filepath.Base(res.Dir), Seconds: s.env.Now().Sub(began).Seconds()}
	follows.Into(&run)
	run.Torch, run.Installed = releasesOf(res.Run)
	if s.result.Folder == "" {
		s.result.Folder, s.result.Commit = whereTests(res.Run, follows.Root())
	}
	if only := suite.ToAskCPU(run.Tests); len(only) > 0 && !s.run.opts.noCPU && !s.stopped.Load() &&
		on.Device != target.CPU().Device {
		if err := s.onCPU(ctx, &run, only); err != nil {
			s.say("the tests that failed were not run on the CPU: " + err.Error())
		}
	}
	s.result.Runs = append(s.result.Runs, run)
	return s.keep()
}

// onCPU runs tests once more on the CPU.
func (s *suiteRunner) onCPU(ctx context.Context, run *suite.Run, only []string) error {
	if len(only) == 1 {
		s.say("1 test failed: the same on the CPU, to tell whether it fails there as well")
	} else {
		s.say(fmt.Sprintf("%d tests failed: the same on the CPU, to tell which fail there as well", len(only)))
	}
	follows, err := s.supervisor(only, "")
	if err != nil {
		return err
	}
	defer follows.Close()
	cache, err := agentCache(s.env)
	if err != nil {
		return err
	}
	_, command, err := resolve(ctx, s.env, s.run.opts.python, s.run.command, cache)
	if err != nil {
		return err
	}
	here := launch.NewLocal(s.env.Witness)
	defer here.Close()
	defer here.Release()
	if err := probe.RunSuite(probe.Options{Command: command, Environ: s.env.Environ, Dir: s.env.Dir, On: target.CPU(),
		Cache: cache, Launcher: here, Suite: follows, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		return err
	}
	cpu := suite.Run{}
	follows.Into(&cpu)
	run.OnCPU(&cpu, facts.NamesMPS)
	return nil
}

// keep writes the result so far, secrets taken out.
func (s *suiteRunner) keep() error {
	data, err := json.Marshal(s.result)
	if err != nil {
		return fmt.Errorf("write the result of a suite: %w", err)
	}
	clean := &suite.Result{}
	if err := json.NewDecoder(bytes.NewReader(s.secrets.JSON(data))).Decode(clean); err != nil {
		return fmt.Errorf("write the result of a suite: %w", err)
	}
	*s.result = *clean
	return s.result.Write(filepath.Join(s.run.folder, suite.Name))
}

// releasesOf are the release of PyTorch that a run was aimed at, and the one that is installed.
func releasesOf(run *evidence.Run) (aimed, installed string) {
	if d := run.Target.Double; d != nil {
		return d.Release, d.Installed
	}
	return run.Target.Release, run.Target.Release
}

// whereTests are the folder of the tests, from the top of their repository, and its commit.
func whereTests(run *evidence.Run, root string) (folder, commit string) {
	if !filepath.IsAbs(root) {
		return "", ""
	}
	for top := filepath.Clean(root); ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			if folder, err = filepath.Rel(top, root); err != nil || folder == "." {
				folder = ""
			}
			break
		}
		if top == filepath.Dir(top) {
			break
		}
	}
	commit = run.Provenance.Commit
	if commit != "" && strings.HasPrefix(run.Provenance.Dirty, "dirty") {
		commit += "-dirty"
	}
	return filepath.ToSlash(folder), commit
}
