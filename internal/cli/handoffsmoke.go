package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/handoff"
	"assay/internal/host"
	"assay/internal/python"
	"assay/internal/replay"
	"assay/internal/secret"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// smokeOptions are the flags of `assay handoff smoke`.
type smokeOptions struct {
	on, python, forTime, replayFor, expect, out, logbook, device, assay string
	steps, repeat                                                       int
	with, reach, moved, facts                                           []string
	json, keep, noReplay                                                bool
}

func newHandoffSmoke(env *Env) *cobra.Command {
	opts := smokeOptions{forTime: "30s", replayFor: "2m", repeat: 3}
	cmd := &cobra.Command{
		Use:   "smoke [flags] BUNDLE",
		Short: "Try a bundle on a machine, and say how that differs from where it came from",
		Long: `Unpacks a bundle into a private folder, makes its environment from its lock, runs its command for a short window with the same probe, and replays
its signatures. Then here, where the bundle came from, is held against there, where it was tried: throughput, split, memory, losses, packages,
variables, threads, disks, power, load, the network. What explains a change is ranked by how it is known, and a change that nothing explains says
so, in either direction.

The bundle lies on this machine, or on another: user@host:PATH, or --on user@host PATH, has the same done there over ssh, and what came of it is
kept here. docs/handoff.md has the table of what is looked at.

The window is run --repeat times: how far the runs lie apart is the noise that a change has to exceed.

Exit status: 0 where nothing differs by more than noise, or only by what another machine differs in; 3 where something is not as it should be;
4 where a change has no explanation, or something could not be looked at; 1 where it could not be done; 2 where the command line is wrong.`,
		Example: `  assay handoff smoke run.tar.zst
  assay handoff smoke ada@studio.local:run.tar.zst --expect-link thunderbolt`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&opts.on, "on", "", "`host` that has the bundle, as ssh takes it")
	f.StringVar(&opts.python, "python", "",
		"`path` of an interpreter that has the packages: none is made from the lock")
	f.StringVar(&opts.device, "device", "", "`device` to train on (default: as the run was asked for)")
	f.IntVar(&opts.steps, "steps", 0, "end each run after so many training `steps` (default: by time)")
	f.StringVar(&opts.forTime, "for", opts.forTime, "how long a `time` each run trains, its start apart")
	f.IntVar(&opts.repeat, "repeat", opts.repeat, "how `often` the window is run")
	f.StringArrayVar(&opts.with, "with", nil,
		"another `run` from where the bundle comes from, a folder or evidence.json; may be repeated")
	f.StringVar(&opts.replayFor, "replay-for", opts.replayFor, "begin no operator call after this `time`")
	f.BoolVar(&opts.noReplay, "no-replay", false, "do not replay the bundle's signatures")
	f.StringVar(&opts.expect, "expect-link", "", "the `kind` of link that was meant: "+strings.Join(host.LinkKinds(),
		", "))
	f.StringArrayVar(&opts.reach, "reach", nil,
		"`host:port` that the training reads from: its route is looked up and timed; may be repeated")
	f.StringArrayVar(&opts.moved, "data", nil,
		"`FROM=TO`: the bundle's data of this name, or what its words have at this path, lies at TO; may be repeated")
	f.StringVar(&opts.out, "out", "", "also write the document to a `file`")
	f.StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook to keep it in, or off; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.StringVar(&opts.assay, "assay", "",
		"`file` of assay for the other host's system, where this one is no program for it")
	f.BoolVar(&opts.keep, "keep", false, "leave the folder that it was unpacked to")
	f.BoolVar(&opts.json, "json", false, "print the document ("+evidence.Schema+", a smoke's)")
	f.StringArrayVar(&opts.facts, "fact", nil, "")
	_ = f.MarkHidden("fact")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return runSmoke(ctx, env, opts, args[0])
	}
	return cmd
}

// check looks at the flags.
func (opts *smokeOptions) check() error {
	usage := func(format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay handoff smoke --help"), fault.Usage)
	}
	if v, err := unit.ParseSeconds(opts.forTime); err != nil || v <= 0 || v > maxLimit.Seconds() {
		return usage("--for %s: a time such as 90s or 2m", opts.forTime)
	}
	if v, err := unit.ParseSeconds(opts.replayFor); err != nil || v <= 0 || v > maxLimit.Seconds() {
		return usage("--replay-for %s: a time such as 90s or 2m", opts.replayFor)
	}
	switch {
	case opts.steps < 0:
		return usage("--steps %d: a number of steps above 0", opts.steps)
	case opts.repeat < 1 || opts.repeat > 20:
		return usage("--repeat %d: 1 to 20", opts.repeat)
	case opts.expect != "" && !slices.Contains(host.LinkKinds(), opts.expect):
		return usage("--expect-link %s: %s", opts.expect, strings.Join(host.LinkKinds(), ", "))
	}
	for _, m := range opts.moved {
		if from, to, ok := strings.Cut(m, "="); !ok || from == "" || to == "" {
			return usage("--data %s: FROM=TO, FROM the name of the bundle's data, or an absolute path", m)
		}
	}
	for _, r := range opts.facts {
		if !strings.Contains(r, "=") {
			return usage("--fact %s: NAME=VALUE", r)
		}
	}
	return nil
}

func runSmoke(ctx context.Context, env *Env, opts smokeOptions, named string) error {
	if err := opts.check(); err != nil {
		return err
	}
	on, path := opts.on, named
	if on == "" {
		on, path = splitHost(named)
	}
	var doc *handoff.Document
	var err error
	if on != "" {
		doc, err = smokeThere(ctx, env, opts, on, path)
	} else {
		doc, err = smokeHere(ctx, env, opts, path)
	}
	if doc == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "assay: %s\n", text.Lines(err.Error()))
	}
	if err := keepSmoke(ctx, env, opts, doc); err != nil {
		return err
	}
	if s := handoff.Status(doc.Body.Verdict); s != fault.OK {
		return status(s)
	}
	return nil
}

// splitHost parts user@host:PATH. What has a "/" before its ":" is a path of this machine, as it is to scp; so is what
// is there.
func splitHost(named string) (on, path string) {
	if _, err := os.Lstat(named); err == nil {
		return "", named
	}
	host, path, ok := strings.Cut(named, ":")
	if strings.HasPrefix(named, "[") { // [::1]:PATH
		if end := strings.Index(named, "]:"); end > 0 {
			return named[:end+1], named[end+2:]
		}
	}
	if !ok || host == "" || path == "" || strings.ContainsAny(host, "/ ") || strings.HasPrefix(host, "-") {
		return "", named
	}
	return host, path
}

// keepSmoke prints the document, and keeps it in the logbook.
func keepSmoke(ctx context.Context, env *Env, opts smokeOptions, doc *handoff.Document) error {
	var out strings.Builder
	if err := printJSON(&out, doc); err != nil {
		return err
	}
	clean := secret.JSON([]byte(out.String()))
	if opts.out != "" {
		if err := file.Write(env.Path(opts.out), 0o600, func(w io.Writer) error {
			_,
				err := w.Write(clean)
			return err
		}); err != nil {
			return fmt.Errorf("write the document of the smoke: %w", err)
		}
	}
	var err error
	if opts.json {
		_, err = env.Stdout.Write(clean)
	} else {
		err = doc.Body.Text(text.NewWriter(env.Stdout), width(env, env.Stdout))
	}
	if err != nil {
		return fmt.Errorf("print the smoke: %w", err)
	}
	if opts.logbook == "off" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer stop()
	book, err := writeLogbook(ctx, env, logbookPath(env, opts.logbook))
	if err == nil {
		_, err = book.Put(ctx, smokeRecord(doc, clean))
		err = errors.Join(err, book.Close())
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "assay: the smoke was not recorded in the logbook: %s\n", text.Lines(err.Error()))
	}
	return nil
}

// smokeInterpreter is the interpreter that a smoke runs with: the one that somebody named, else that of an
// environment made
// from the bundle's lock.
func smokeInterpreter(ctx context.Context, env *Env, opts smokeOptions, m *bundle.Manifest,
	root string) (handoff.Environment, error) {
	began := time.Now()
	if opts.python != "" {
		in, err := python.Find(ctx, env.Environ, env.Dir, opts.python)
		if err != nil {
			return handoff.Environment{}, err
		}
		return handoff.Environment{Python: in.Path, How: "--python " + opts.python +
			": as it is, nothing was installed"}, nil
	}
	install := m.Environment.Install
	if install == "" {
		return handoff.Environment{}, fault.Hint(fmt.Errorf("make the environment: the bundle has no lock: %s",
			cmp.Or(m.Environment.Why, "none was found")), "name an interpreter that has the packages by --python")
	}
	lock, err := python.LockOf(filepath.Join(root, filepath.FromSlash(install)))
	for _, l := range m.Environment.Locks {
		if l.Path != install {
			continue
		}
		lock.Kind = l.Kind
		if l.Kind == bundle.UV && l.Of != "" { // beside its pyproject.toml
			lock.Path = filepath.Join(root, bundle.CodePlace, filepath.FromSlash(l.Of))
			lock.Project = filepath.Dir(lock.Path)
		}
		err = nil
	}
	if err != nil {
		return handoff.Environment{}, err
	}
	lock.Python, lock.Whole = m.Run.Python, install == bundle.MadeLock
	cache, err := python.CacheDir(env.Environ)
	if err != nil {
		return handoff.Environment{}, err
	}
	fmt.Fprintf(env.Stderr, "making the environment of %s, or finding it\n", text.Line(install))
	made, err := python.EnsureLocked(ctx, env.Environ, cache, lock, text.NewWriter(env.Stderr))
	if err != nil {
		return handoff.Environment{}, err
	}
	return handoff.Environment{Python: made.Python, How: made.How, Lock: install, Cached: made.Cached,
		Seconds: time.Since(began).Seconds()}, nil
}

// filled replaces what stands for places in a bundle's words and variables: the folder that it was unpacked to, the
// environment's, and what somebody says lies elsewhere.
func filled(opts smokeOptions, m *bundle.Manifest, root, interpreter string) func(string) string {
	bin := filepath.Dir(interpreter)
	moved := map[string]string{}
	for _, given := range opts.moved {
		from, to, _ := strings.Cut(given, "=")
		moved[from] = to
		for _, d := range m.Data {
			if (d.Name == from || d.Path == from) && d.Place != "" {
				moved[bundle.Root+"/"+d.Place] = to
			}
		}
	}
	return func(s string) string {
		if s == bundle.Root+"/"+bundle.EnvPlace+"/bin/python" {
			return interpreter
		}
		s = strings.ReplaceAll(s, bundle.Root+"/"+bundle.EnvPlace+"/bin/", bin+"/")
		for _, from := range slices.Sorted(maps.Keys(moved)) {
			to := moved[from]
			if rest, ok := strings.CutPrefix(s, from); ok && (rest == "" || rest[0] == '/') {
				s = to + rest
			} else {
				s = strings.ReplaceAll(s, "="+from, "="+to) // --data=FROM
			}
		}
		return bundle.Fill(s, root)
	}
}

// machineFacts are what is looked up of the machine for a smoke, beyond what the runs' evidence has.
func machineFacts(ctx context.Context, environ []string, opts smokeOptions, paths map[string]string) []evidence.Fact {
	var facts []evidence.Fact
	var places []string
	for _, role := range slices.Sorted(maps.Keys(paths)) {
		places = append(places, paths[role])
	}
	for _, f := range host.Facts(ctx, places...) {
		p, ok := strings.CutPrefix(f.Name, "mount:")
		if !ok {
			continue // in the runs' evidence
		}
		for _, role := range slices.Sorted(maps.Keys(paths)) {
			if paths[role] == p {
				f.Name = "mount:" + role
				facts = append(facts, f)
			}
		}
	}
	load := host.Load(ctx)
	if load.Known() {
		facts = append(facts, evidence.Fact{Name: load.Name, Value: fmt.Sprintf("%.3g", *load.Value),
			Source: "mean of a minute"})
	}
	for i, addr := range opts.reach {
		hop, err := host.Route(ctx, addr)
		if err != nil {
			facts = append(facts, evidence.Fact{Name: "link", Source: "route", Missing: err.Error()})
			continue
		}
		if i == 0 {
			facts = append(facts, hop.Facts()...)
		}
	}
	if opts.expect != "" && len(opts.reach) > 0 {
		facts = append(facts, evidence.Fact{Name: "link.expected", Value: opts.expect, Source: "--expect-link"})
	}
	for _, f := range opts.facts { // of the machine that asked for this smoke
		name, value, _ := strings.Cut(f, "=")
		facts = append(facts, evidence.Fact{Name: name, Value: value, Source: "looked up from the machine that asked"})
	}
	return facts
}

// cacheRoles are the variables that say where caches lie; a training that reads them over the network waits for it.
var cacheRoles = []string{"HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR",
	"XDG_CACHE_HOME",
	"KERAS_HOME", "MPLCONFIGDIR", "TMPDIR"}

// smokeRuns makes the window, as often as it was asked for. startup is how long it may take from the start of Python to
// the first step, seconds, until a run says how long it takes there.
func smokeRuns(ctx context.Context, env *Env, opts smokeOptions, m *bundle.Manifest, folder string, words []string,
	device string,
	startup float64) ([]*evidence.Run, error) {
	var all []*evidence.Run
	train, err := unit.ParseSeconds(opts.forTime)
	if err != nil {
		return nil, err
	}
	for i := range opts.repeat {

		fmt.Fprintf(env.Stderr, "window %d of %d\n", i+1, opts.repeat)
		said := &text.Tail{Limit: saidKept}
		apart := *env
		apart.Stdin, apart.Stdout, apart.Stderr = nil, io.Discard, said
		t := m.Run.Target
		res, err := runSubject(ctx, &apart, runOptions{
			asked: target.Words{On: device, Torch: t.AskedRelease, Chip: t.AskedChip, MacOS: t.AskedMacOS,
				ShapeOnly: t.AskedShapeOnly},
			profile: "off", steps: opts.steps, forTime: fmt.Sprintf("%.3fs", train+startup),
			warnEpoch: defaultWarnEpoch,
			out:       filepath.Join(folder, fmt.Sprint("run-", i+1)), quiet: true, proven: i > 0,
			logbook: "off"}, words)
		if err != nil {
			return all, fault.Exit(err, fault.Failed)
		}
		res.LetGo()
		if ctx.Err() != nil {
			return all, fmt.Errorf("smoke the bundle: interrupted in window %d of %d", i+1, opts.repeat)
		}
		all = append(all, res.Run)
		if f := res.Run.Figure("run.startup"); f.Known() {
			startup = *f.Value
		}
		if res.Run.Outcome.Exit != 0 {
			fmt.Fprintf(env.Stderr, "%s\n", text.Lines(said.Last(12)))
			break
		}
	}
	return all, nil
}

// smokeReplay replays the bundle's signatures on the device that trained.
func smokeReplay(ctx context.Context, env *Env, opts smokeOptions, path, folder, interpreter,
	device string) (*handoff.Signatures, error) {
	if device == "" || device == evidence.OnDouble || !slices.Contains(evidence.Devices(), device) ||
		device == evidence.OnMLX {
		return &handoff.Signatures{Device: cmp.Or(device, "no device"), Outcomes: map[string]int{}, Worst: []string{}},
			nil
	}
	fmt.Fprintf(env.Stderr, "replaying the signatures on %s\n", device)
	words := replayOptions{asked: target.Words{On: device}, python: interpreter, time: opts.replayFor, each: "30s",
		out: filepath.Join(folder, "smoke"+replay.Suffix)}
	o, err := words.replay(env, []string{path})
	if err != nil {
		return nil, err
	}
	if o.Interpreter, o.Cache, o.Double, err = placeOf(ctx, env, o.On, interpreter); err != nil {
		return nil, err
	}
	o.Machine = machineHere(ctx)
	o.Narration = io.Discard
	done, _, err := replay.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &handoff.Signatures{Device: device, Total: done.Header.Total, Replayed: len(done.Results),
		Outcomes: map[string]int{}, Worst: []string{}}
	for _, outcome := range replay.Outcomes {
		for _, r := range done.Results {
			if r.Outcome != outcome {
				continue
			}
			s.Outcomes[string(outcome)]++
			if outcome != replay.OK && outcome != replay.NotReplayed && len(s.Worst) < 10 && r.Signature != nil {
				if call := r.Signature.Op + " " + string(outcome); !slices.Contains(s.Worst, call) {
					s.Worst = append(s.Worst, call)
				}
			}
		}
	}
	return s, nil
}

// runsOf reads runs that somebody names: folders, or evidence.
func runsOf(env *Env, named []string) (all []*evidence.Run, err error) {
	for _, name := range named {
		path := env.Path(name)
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			path = filepath.Join(path, "evidence.json")
		}
		data, err := readEvidence(path)
		if err != nil {
			return nil, fmt.Errorf("read --with %s: %w", name, err)
		}
		run, err := readRun(data)
		if err != nil {
			return nil, fmt.Errorf("read --with %s: %w", name, err)
		}
		all = append(all, run)
	}
	return all, nil
}

func readRun(data []byte) (*evidence.Run, error) {
	run := &evidence.Run{}
	if err := json.Unmarshal(data, run); err != nil {
		return nil, err
	}
	if !run.IsRun() {
		return nil, errors.New("it is no evidence of a run")
	}
	return run, nil
}
