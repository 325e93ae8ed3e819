package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/fit"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/secret"
	"assay/internal/sweep"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// sweepOptions are the flags of `assay sweep`.
type sweepOptions struct {
	asked                target.Words
	python, out, logbook string
	environ, grid        string
	from, to, multiple   int
	first, steps, batch  int
	forTime, limit       string
	remedies, json       bool
	shapesSaid           bool // --shape-only was given, with either value
}

// sweepsFolder has a folder for each sweep, named by its command.
const sweepsFolder = ownFolder + "/sweeps"

// Steps of a trial: ten of warm-up and as many that count; a rehearsal needs no times, and its memory settles when the
// optimizer has made its state.
const (
	trialSteps     = 20
	rehearsalSteps = 4
)

func newSweepCommand(env *Env) *cobra.Command {
	opts := sweepOptions{asked: target.Words{On: target.Auto}, from: 1, multiple: 1, forTime: "10m"}
	cmd := &cobra.Command{
		Use:   "sweep [flags] -- COMMAND [ARG…]",
		Short: "Find the largest batch that trains, and from which on more rows buy nothing",
		Long: `Runs COMMAND again and again for a few steps with another batch each time, and answers with three: the largest that fits, the knee (the
smallest tried whose throughput is within 5 % of the best), and a recommended one, with a margin made of what the peak was seen to vary.

Each {} in COMMAND becomes the batch: --batch {}, or batch={} for Hydra. With --set-env BATCH it is that variable's value. Without either the agent sets
the batch of the loader that trains, in the script as it is. A trial counts only where the steps had the batch that was asked for, and nothing
ran out of memory on the way, whether the script went on or not.

Each trial is a run of its own, below the folder of the sweep. What was tried is kept when it has ended: the same command again goes on
where it was stopped. A crash that is no want of memory ends the search.

--grid workers=0,2,4 searches for each value of a second placeholder, {workers}; --grid mlx.cache_limit=0,1GiB sets that limit of MLX's (memory_limit and
wired_limit as well). --remedies searches nothing: it runs the same batch (--batch) as it is and
once with each remedy that the agent can switch on, and says what each buys in memory, costs in time, and changes in the loss.

Exit status: 0 where the largest batch was found, 3 where none fits, 4 where it is not known (stopped, no time left, or memory grows from step to step), 1 where a trial
failed otherwise, 2 where the command line is wrong.`,
		Example: `  assay sweep -- python train.py --batch {}
  assay sweep --set-env BATCH --multiple 8 -- python train.py
  assay sweep --on double --chip m4-16gb --torch 2.8 --shape-only -- python train.py --batch {}
  assay sweep --grid workers=0,2,4 -- python train.py --batch {} --workers {workers}
  assay sweep --remedies --batch 32 -- python train.py --batch {}`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.asked.On, "on", opts.asked.On, "`device` to run on: auto, cpu, mps, cuda, double")
	f.StringVar(&opts.asked.Torch, "torch", "",
		"with --on double: `release` of PyTorch to stand for, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&opts.asked.Chip, "chip", "",
		"with --on double: `chip` of the Mac, as m2-pro or m3-ultra-96gb; default that of assay.toml, else "+
			target.DefaultChip)
	f.StringVar(&opts.asked.MacOS, "macos", "",
		"with --on double: `release` of macOS, 15 or 15.5; default that of assay.toml, else 15, or what that release of "+
			"PyTorch needs")
	f.BoolVar(&opts.asked.ShapeOnly, "shape-only", false, "with --on double: carry shapes and no data, also where that "+
		"does not do; =false: data from the first trial on; default shapes, and data where a script fails at that")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter for scripts and modules")
	f.IntVar(&opts.from, "from", opts.from, "smallest batch to try, `rows`")
	f.IntVar(&opts.to, "to", 0, "largest batch to try, `rows`; default as far as it goes")
	f.IntVar(&opts.multiple, "multiple", opts.multiple, "try multiples of so many `rows` alone")
	f.IntVar(&opts.first, "first", 0, "batch to begin with, `rows`; default 8")
	f.StringVar(&opts.environ, "set-env", "", "environment `variable` that takes the batch")
	f.StringVar(&opts.grid, "grid", "", "a second parameter and its values: `name=value,value`; {name} in COMMAND becomes "+
		"each, and a name such as mlx.memory_limit is set in MLX")
	f.IntVar(&opts.steps, "steps", 0, fmt.Sprintf("training `steps` of a trial; default %d, of a rehearsal %d",
		trialSteps,
		rehearsalSteps))
	f.StringVar(&opts.forTime, "for", opts.forTime, "end a trial after this `time`")
	f.StringVar(&opts.limit, "limit", "", "begin no trial after this `time`")
	f.BoolVar(&opts.remedies, "remedies", false, "what each remedy buys at one batch, in the place of a search")
	f.IntVar(&opts.batch, "batch", 0, "with --remedies: batch to try them at, `rows`; default the script's own")
	f.StringVar(&opts.out, "out", "", "`folder` of the sweep; default .assay/sweeps/NAME, one for each command")
	f.StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook to record the trials in, or off; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.BoolVar(&opts.json, "json", false, "print JSON; the table goes to standard error")
	f.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.shapesSaid = cmd.Flags().Changed("shape-only")
		return runSweep(cmd.Context(), env, opts, args)
	}
	return cmd
}

// mlxGrid is how the names of a grid begin that the agent sets in MLX.
const mlxGrid = "mlx."

var binarySizes = map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// mlxLimit is a limit of MLX's for a value of the grid, in bytes or with a binary unit.
func mlxLimit(name, value string) (*probe.MLXLimits, error) {
	number := strings.TrimRight(value, "BGKMi")
	size, ok := binarySizes[value[len(number):]]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok || n < 0 || n > math.MaxInt64/size {
		return nil, fmt.Errorf("%s is no size: bytes, or a number with KiB, MiB or GiB", value)
	}
	n *= size
	switch name {
	case mlxGrid + "memory_limit":
		return &probe.MLXLimits{Memory: &n}, nil
	case mlxGrid + "cache_limit":
		return &probe.MLXLimits{Cache: &n}, nil
	case mlxGrid + "wired_limit":
		return &probe.MLXLimits{Wired: &n}, nil
	}
	return nil, fmt.Errorf("of MLX are known %[1]smemory_limit, %[1]scache_limit and %[1]swired_limit", mlxGrid)
}

// place is how a batch and a value of the grid get into a command.
type place struct {
	words   []string
	environ string // variable that takes the batch
	grid    string // name of the second placeholder
	byAgent bool
	on      target.Target
}

// fill makes the command of a trial, and its environment.
func (p place) fill(env *Env, ask sweep.Ask) (words, environ []string) {
	batch := strconv.Itoa(ask.Batch)
	for _, w := range p.words {
		if p.grid != "" {
			w = strings.ReplaceAll(w, "{"+p.grid+"}", ask.Cell)
		}
		words = append(words, strings.ReplaceAll(w, "{}", batch))
	}
	environ = env.Environ
	if p.environ != "" {
		environ = append(slices.Clone(environ), p.environ+"="+batch)
	}
	return words, environ
}

// sweepPlan makes a plan of the flags.
func (opts sweepOptions) plan(args []string) (p place, plan sweep.Plan, seconds, limit float64, err error) {
	usage := func(format string, a ...any) (place, sweep.Plan, float64, float64, error) {
		return place{}, sweep.Plan{}, 0, 0,
			fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay sweep --help"), fault.Usage)
	}
	if len(args) == 0 {
		return usage("no command to sweep: write it after --")
	}
	on, err := target.Sweep.Parse(opts.asked)
	if err != nil {
		return place{}, sweep.Plan{}, 0, 0, fault.Exit(err, fault.Usage)
	}
	named := slices.ContainsFunc(args, func(w string) bool { return strings.Contains(w, "{}") })
	p = place{words: args, environ: opts.environ, byAgent: !named && opts.environ == "", on: on}
	plan = sweep.Plan{Range: sweep.Range{From: opts.from, To: opts.to, Multiple: opts.multiple}, First: opts.first,
		Steps: opts.steps, Timed: !on.Rehearsal()}
	switch {
	case opts.from < 1:
		return usage("--from %d: a number of rows above 0", opts.from)
	case opts.multiple < 1:
		return usage("--multiple %d: a number of rows above 0", opts.multiple)
	case opts.to != 0 && opts.to/opts.multiple*opts.multiple < opts.from:
		return usage("--from %d --to %d --multiple %d: no batch lies there", opts.from, opts.to, opts.multiple)
	case opts.first < 0 || opts.first > 0 && (opts.first < opts.from || opts.to > 0 && opts.first > opts.to):
		return usage("--first %d: it does not lie between --from and --to", opts.first)
	case opts.steps < 0:
		return usage("--steps %d: a number of steps above 0", opts.steps)
	case opts.steps == 1:
		return usage("--steps 1: two at least, for the optimizer makes its state in the first")
	case named && opts.environ != "":
		return usage("--set-env %s: the command has a {} for the batch already", opts.environ)
	case strings.ContainsAny(opts.environ, "= \x00"):
		return usage("--set-env %q: no name of a variable", opts.environ)
	case opts.batch < 0 || opts.batch > 0 && !opts.remedies:
		return usage("--batch %d: it is for --remedies, a number of rows above 0", opts.batch)
	case opts.remedies && opts.batch == 0 && !p.byAgent:
		return usage("--remedies: at which batch? Name it with --batch, since the command takes one")
	case opts.remedies && opts.grid != "":
		return usage("--remedies and --grid: one of them")
	}
	if plan.Steps == 0 {
		plan.Steps = trialSteps
		if on.Rehearsal() {
			plan.Steps = rehearsalSteps
		}
	}
	if opts.grid != "" {
		name, values, _ := strings.Cut(opts.grid, "=")
		plan.Grid, p.grid = name, name
		for v := range strings.SplitSeq(values, ",") {
			if v = strings.TrimSpace(v); v != "" && !slices.Contains(plan.Cells, v) {
				plan.Cells = append(plan.Cells, v)
			}
		}
		if name == "" || len(plan.Cells) == 0 {
			return usage("--grid %s: write a name and its values, as workers=0,2,4", opts.grid)
		}
		if strings.HasPrefix(name, mlxGrid) {
			for _, v := range plan.Cells {
				if _, err := mlxLimit(name, v); err != nil {
					return usage("--grid %s: %v", opts.grid, err)
				}
			}
		} else if !slices.ContainsFunc(args, func(w string) bool { return strings.Contains(w, "{"+name+"}") }) {
			return usage("--grid %s: no word of the command has {%s} in it", opts.grid, name)
		}
	}
	if opts.remedies {
		plan.Range, plan.Batch = sweep.Range{}, opts.batch
		plan.Remedies = probe.Remedies()
		if opts.batch == 0 || opts.batch%2 == 0 {
			plan.Remedies = append(plan.Remedies, sweep.Halves)
		}
	}
	if seconds, err = unit.ParseSeconds(opts.forTime); err != nil || seconds == 0 {
		return usage("--for %s: a time such as 90s or 10m", opts.forTime)
	}
	if opts.limit != "" {
		if limit, err = unit.ParseSeconds(opts.limit); err != nil || limit == 0 {
			return usage("--limit %s: a time such as 30m or 2h", opts.limit)
		}
	}
	return p, plan, seconds, limit, nil
}

func runSweep(ctx context.Context, env *Env, opts sweepOptions, args []string) error {
	p, plan, seconds, limit, err := opts.plan(args)
	if err != nil {
		return err
	}
	on, _ := target.Sweep.Parse(opts.asked)
	asked := sweep.Asked{Command: secret.Words(args), Script: scriptSum(env, args), Environ: opts.environ,
		ByAgent: p.byAgent, Target: evidenceTarget(on), For: seconds, Plan: plan,
		Data: on.Rehearsal() && opts.shapesSaid && !opts.asked.ShapeOnly}
	folder := env.Path(opts.out)
	if opts.out == "" {
		if err := probe.OwnFolder(env.Path(ownFolder)); err != nil {
			return err
		}
		folder = env.Path(filepath.Join(sweepsFolder, sweepName(env, args, asked)))
	}
	table := sweep.Table{Plan: plan}
	out := env.Stdout
	if opts.json {
		out = env.Stderr
	}
	// Ctrl-C reaches the script as well; here it ends the sweep when the script has ended, and what is known is kept.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	var stopped os.Signal
	bar := sweepBar{env: env, live: isTerminal(env.Stderr) && env.Getenv("TERM") != "dumb", began: env.Now()}
	again := func(run *evidence.Run) bool { // with data
		if len(stop) > 0 || fit.NeedsData(run) == "" {
			return false
		}
		bar.end()
		return needsData(env, run)
	}
	try := func(number int, ask sweep.Ask) (sweep.Seen, error) {
		seen, err := tryBatch(ctx, env, opts, p, folder, seconds, number, ask, again)
		select {
		case stopped = <-stop:
		default:
			if seen.Signal == syscall.SIGINT { // it came to the script alone
				stopped = syscall.SIGINT
			}
		}
		seen.Interrupted = stopped != nil
		return seen, err
	}
	shown, head := env.Path(folder), false
	if rel, err := filepath.Rel(env.Dir, folder); err == nil && filepath.IsLocal(rel) {
		shown = rel
	}
	if on.Rehearsal() && !opts.shapesSaid {
		fmt.Fprintln(env.Stderr, "assay: each trial is rehearsed with shapes alone, and with data where that does not do "+
			"(--shape-only=false: with data at once)")
	}
	made := 0
	d, err := sweep.Run(sweep.Options{Asked: asked, Folder: folder, Subject: evidence.Subject{Kind: "command",
		Command: asked.Command, Dir: env.Dir}, Version: Version(), Limit: limit, Now: env.Now, Try: try,
		High: highWatermark(env),
		Begin: func(number, about int, ask sweep.Ask) {
			made++
			bar.begin(number, about, ask)
		},
		Tell: func(t sweep.Trial, limit float64) {
			bar.end()
			if !head {
				fmt.Fprintln(out, table.Head())
				head = true
			}
			fmt.Fprintln(out, table.Line(t, limit))
		}})
	bar.end()
	if d == nil {
		return err
	}
	if err != nil && len(d.Body.Trials) == 0 {
		return fault.Exit(err, fault.Failed)
	}
	if e := keepSweepPage(folder, d); e != nil {
		err = errors.Join(err, e)
	}
	if made > 0 {
		recordSweep(ctx, env, opts, d, shown)
	}
	if opts.json {
		err = errors.Join(err, evidence.Write(env.Stdout, d))
	} else {
		err = errors.Join(err, sweep.WriteAnswers(out, d))
	}
	fmt.Fprintf(env.Stderr, "sweep: %s\n", text.Line(filepath.Join(shown, sweepPage)))
	if err != nil {
		return fault.Exit(err, fault.Failed)
	}
	if stopped != nil {
		return status(128 + int(stopped.(syscall.Signal)))
	}
	return sweepStatus(d, shown)
}

// recordSweep keeps the record of a sweep in the logbook, by the rules by which runs are kept there.
func recordSweep(ctx context.Context, env *Env, opts sweepOptions, d *sweep.Document, shown string) {
	path := logbookPath(env, opts.logbook)
	named := opts.logbook != "" || env.Getenv("ASSAY_LOGBOOK") != ""
	if opts.logbook == "off" || !named && opts.out != "" && !logbook.Exists(path) {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer stop()
	err := func() error {
		var doc bytes.Buffer
		if err := evidence.Write(&doc, d); err != nil {
			return err
		}
		book, err := writeLogbook(ctx, env, path)
		if err != nil {
			return err
		}
		defer book.Close()
		_, _, err = book.Add(ctx, doc.Bytes())
		return err
	}()
	if err != nil {
		fmt.Fprintf(env.Stderr, "assay: the sweep was not recorded in the logbook: %s; %s has everything\n",
			text.Lines(err.Error()), text.Line(filepath.Join(shown, sweep.FileName)))
	}
}

// sweepIn is the record of a sweep in a document of the logbook; nil: it is another's.
func sweepIn(doc []byte) *sweep.Document {
	var d sweep.Document
	if err := json.Unmarshal(secret.JSON(doc), &d); err != nil || d.Kind != sweep.Kind || d.Schema != evidence.Schema {
		return nil
	}
	return &d
}

// showSweep prints the trials and the answers of a sweep that was kept.
func showSweep(w io.Writer, d *sweep.Document) error {
	table := sweep.Table{Plan: d.Body.Asked.Plan}
	fmt.Fprintf(w, "sweep of %s\n\n  %s\n\n%s\n", d.Started.Local().Format(time.DateTime),
		text.Short(strings.Join(d.Body.Asked.Command, " "), 2000), table.Head())
	for _, t := range d.Body.Trials {
		limit := 0.0
		for _, a := range d.Body.Answers {
			if a.Cell == t.Cell && a.Limit != nil {
				limit = *a.Limit
			}
		}
		fmt.Fprintln(w, table.Line(t, limit))
	}
	return sweep.WriteAnswers(w, d)
}

// sweepBar is the line on a terminal that says which trial is made, and for how long; elsewhere nothing is drawn.
type sweepBar struct {
	env   *Env
	live  bool
	began time.Time // of the sweep
	stop  chan struct{}
	over  chan struct{}
}

// barCells is how wide the bar is.
const barCells = 20

func (b *sweepBar) begin(number, about int, ask sweep.Ask) {
	if !b.live {
		return
	}
	done := barCells * (number - 1) / max(about, number)
	since := b.env.Now()
	draw := func() {
		now := b.env.Now()
		line := fmt.Sprintf("[%s%s] trial %d of about %d: batch %s, %s … %s, %s in all", strings.Repeat("#", done),
			strings.Repeat(".", barCells-done), number, about, batchWord(ask.Batch), text.Line(ask.Why),
			unit.Seconds(math.Floor(now.Sub(since).Seconds())), unit.Seconds(math.Floor(now.Sub(b.began).Seconds())))
		if n := columns(b.env, b.env.Stderr); n > 1 {
			line = text.Short(line, max(n-2, 1))
		}
		fmt.Fprintf(b.env.Stderr, "\r%s%s", clearLine, line)
	}
	b.stop, b.over = make(chan struct{}), make(chan struct{})
	draw()
	go func() {
		defer close(b.over)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-tick.C:
				draw()
			}
		}
	}()
}

// end takes the line away again.
func (b *sweepBar) end() {
	if b.stop == nil {
		return
	}
	close(b.stop)
	<-b.over
	b.stop = nil
	fmt.Fprint(b.env.Stderr, "\r"+clearLine)
}

func batchWord(batch int) string {
	if batch == 0 {
		return "as it is"
	}
	return strconv.Itoa(batch)
}

// sweepStatus is the error that the end of a sweep deserves; nil where it was answered.
func sweepStatus(d *sweep.Document, shown string) error {
	for _, a := range d.Body.Answers {
		if a.Error != "" {
			hint := "its run is in " + shown
			for _, t := range d.Body.Trials {
				if t.Number == a.Broken && t.Run != "" {
					hint = "its run is in " + filepath.Join(shown,
						t.Run) + "; when that is mended, the same command tries it again"
				}
				if t.Number == a.Broken && t.Ending == sweep.EndedOtherBatch {
					hint = "give the batch by {} in the command or by --set-env, where the script takes it"
				}
				if t.Number == a.Broken && t.Ending == sweep.EndedByTime {
					hint = "give a trial more time with --for"
				}
			}
			return fault.Exit(fault.Hint(fmt.Errorf("the sweep was ended: %s", a.Error), hint), fault.Failed)
		}
	}
	if !d.Body.Done {
		return status(fault.CannotTell)
	}
	for _, a := range d.Body.Answers {
		if a.Leak != nil {
			return status(fault.CannotTell)
		}
		if a.Largest == 0 {
			return status(fault.GateFailed)
		}
	}
	return nil
}

// sweepName names a sweep by its script and by all that was asked, so that the same command finds its folder again.
func sweepName(env *Env, args []string, asked sweep.Asked) string {
	data, _ := json.Marshal(asked) // of plain values
	sum := sha256.Sum256(data)
	name := "sweep"
	for _, w := range args {
		if base := filepath.Base(w); strings.HasSuffix(base, ".py") {
			name = strings.TrimSuffix(base, ".py")
			break
		}
	}
	name = strings.Trim(unsafeName.ReplaceAllString(secret.Text(name), "-"), "-.")
	if name == "" || len(name) > 40 {
		name = "sweep"
	}
	return name + "-" + hex.EncodeToString(sum[:4])
}

// scriptSum is the SHA-256 of the script among the words, "" where there is none: an edited script is another sweep.
func scriptSum(env *Env, args []string) string {
	for _, w := range args {
		if !strings.HasSuffix(w, ".py") {
			continue
		}
		f, err := os.Open(env.Path(w))
		if err != nil {
			continue
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, io.LimitReader(f, 64<<20)); err == nil {
			return hex.EncodeToString(sum.Sum(nil))
		}
	}
	return ""
}

// saidKept is how many bytes are kept of what a trial or a side of a comparison prints.
const saidKept = 64 << 10

// tryBatch makes a trial: a run like any other, in a folder of the sweep's. A rehearsal carries shapes alone first, and
// is made again with data where again says so.
func tryBatch(ctx context.Context, env *Env, opts sweepOptions, p place, folder string, seconds float64, number int,
	ask sweep.Ask, again func(*evidence.Run) bool) (sweep.Seen, error) {
	name := fmt.Sprintf("%03d-batch-%d", number, ask.Batch)
	if ask.Cell != "" {
		name += "-" + strings.Trim(unsafeName.ReplaceAllString(secret.Text(ask.Cell), "-"), "-.")
	}
	if ask.Remedy != "" {
		name += "-" + ask.Remedy
	}
	said := &text.Tail{Limit: saidKept}
	words, environ := p.fill(env, ask)
	apart := *env
	apart.Environ, apart.Stdin, apart.Stdout, apart.Stderr = environ, nil, io.Discard, said
	levers := &probe.Levers{Longest: ask.Longest, Remedies: ask.Remedies, Accumulate: ask.Accumulate}
	if strings.HasPrefix(p.grid, mlxGrid) {
		limits, err := mlxLimit(p.grid, ask.Cell)
		if err != nil {
			return sweep.Seen{}, err
		}
		levers.MLX = limits
	}
	if p.byAgent {
		levers.Batch = ask.Batch
	}
	book := opts.logbook
	if book == "" && opts.out == "" { // where runs are recorded that lie in .assay/runs
		book = logbookPath(env, "")
	}
	rehearsal := p.on.Rehearsal()
	shapes := opts.asked.ShapeOnly || rehearsal && !ask.Data
	for {
		path := filepath.Join(folder, name)
		for i := 2; ; i++ { // a trial that was killed has left its folder, and what is in it
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				break
			}
			path = filepath.Join(folder, fmt.Sprintf("%s.%d", name, i))
		}
		asked := opts.asked
		asked.ShapeOnly = shapes
		res, err := runSubject(ctx, &apart, runOptions{asked: asked, python: opts.python, profile: "off",
			steps: ask.Steps, forTime: strconv.FormatFloat(seconds, 'f', -1, 64), warnEpoch: defaultWarnEpoch,
			out: path, quiet: true, proven: number > 1, logbook: book, levers: levers}, words)
		if err != nil {
			return sweep.Seen{}, err
		}
		res.LetGo()
		if shapes && !opts.asked.ShapeOnly && again(res.Run) {
			shapes, *said = false, text.Tail{Limit: saidKept}
			continue
		}
		return sweep.Seen{Run: res.Run, Exit: res.Exit, Signal: res.Signal, Tail: string(said.Bytes()),
			Folder: filepath.Base(path), Data: rehearsal && !shapes}, nil
	}
}

// evidenceTarget is what was asked for, as the record has it.
func evidenceTarget(on target.Target) evidence.Target {
	return evidence.Target{Asked: on.Device, AskedRelease: on.Release, AskedChip: on.Chip, AskedMacOS: on.MacOS,
		AskedShapeOnly: on.ShapeOnly, AskedHost: on.Host}
}

// highRatio is how many times Metal's recommended working set PyTorch's allocator takes before it refuses:
// default_high_watermark_ratio in ATen/mps/MPSAllocator.h.
const highRatio = 1.7

// highWatermark gives the function that says how much an MPS allocator may hold: PYTORCH_MPS_HIGH_WATERMARK_RATIO times
// the recommended working set. It is where the search looks first; what an allocator says itself is believed more.
func highWatermark(env *Env) func(*evidence.Run) (float64, string) {
	ratio, by := highRatio, "1.7 × the recommended working set"
	if v, err := strconv.ParseFloat(env.Getenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO"), 64); err == nil && v >= 0 {
		ratio, by = v, fmt.Sprintf("PYTORCH_MPS_HIGH_WATERMARK_RATIO=%g × the recommended working set", v)
	}
	return func(run *evidence.Run) (float64, string) {
		w, pool := run.Figure("memory.watermark").Value, run.Figure("memory.pool.peak").Value
		switch {
		case run.Rehearsal != nil:
			if m := run.Rehearsal.Memory; m != nil && m.Limits.High != nil {
				return float64(*m.Limits.High), m.Limits.Source["high"]
			}
		case ratio == 0: // PyTorch's word for no limit
		case run.Target.Device == evidence.OnMPS && w != nil && pool != nil && *w > 0:
			return ratio * *pool / *w, by
		}
		return 0, ""
	}
}

// sweepPage is the page of a sweep, in its folder.
const sweepPage = "sweep.html"

func keepSweepPage(folder string, d *sweep.Document) error {
	path := filepath.Join(folder, sweepPage)
	if err := file.Write(path, 0o600, func(w io.Writer) error { return sweepReport(d).Write(w) }); err != nil {
		return fmt.Errorf("write the page of the sweep: %w", err)
	}
	return nil
}

// sweepReport is what the page of a sweep shows.
func sweepReport(d *sweep.Document) report.Sweep {
	plan := d.Body.Asked.Plan
	page := report.Sweep{Title: strings.Join(d.Body.Asked.Command, " "), ID: d.ID, Target: d.Target, Started: d.Started,
		Grid: plan.Grid, Notes: sweep.Steady(d)}
	for _, a := range d.Body.Answers {
		in := ""
		if a.Cell != "" {
			in = plan.Grid + " " + a.Cell + ": "
		}
		for _, x := range []struct {
			name, text string
			batch      int
		}{{"largest", strings.TrimSuffix(a.LargestText+"; "+a.ProofText, "; "), a.Largest}, {"knee", a.KneeText,
			a.Knee},
			{"recommended", a.RecommendedText, a.Recommended}} {
			page.Answers = append(page.Answers, report.SweepAnswer{Name: in + x.name, Batch: x.batch, Text: x.text})
		}
		if a.Error != "" {
			page.Notes = append(page.Notes, in+"the search was ended: "+a.Error)
		}
		if a.Limit != nil && page.Limit == nil {
			page.Limit, page.LimitBy = a.Limit, a.LimitBy
		}
	}
	if page.Limit == nil { // of remedies
		for _, t := range d.Body.Trials {
			if t.Limit != nil {
				page.Limit, page.LimitBy = t.Limit, t.LimitBy
			}
		}
	}
	if d.Body.Stopped != "" {
		page.Notes = append(page.Notes, "not done: "+d.Body.Stopped)
	}
	for _, t := range d.Body.Trials {
		row := report.SweepTrial{Number: t.Number, Cell: t.Cell, Batch: t.Batch, For: t.For, Ending: string(t.Ending),
			Text: sweep.Brief(t.Text),
			Fits: t.Ending == sweep.EndedWell, Peak: t.Peak, Swap: t.Swap, Why: t.Why, Run: t.Run,
			Steps: t.Trained}
		if t.Remedy != "" {
			row.For = t.Remedy
		}
		if plan.Timed && row.Fits {
			row.Rate, row.Step = t.Rate, t.Step
		}
		page.Trials = append(page.Trials, row)
	}
	for _, b := range d.Body.Bought {
		page.Bought = append(page.Bought, report.SweepBought{Remedy: b.Remedy, Memory: b.Memory, Time: b.Time,
			Loss: b.LossText()})
	}
	return page
}
