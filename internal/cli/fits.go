package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/fit"
	"assay/internal/pace"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// fitsOptions are the flags of `assay fits`.
type fitsOptions struct {
	chips                         []string
	torch, macos, python, logbook string
	steps                         int
	json                          bool
}

// fitsSteps are rehearsed where --steps names no number: the first makes the optimizer's state, the second has all of
// it, and two more show whether the peak stands still.
const fitsSteps = 4

func newFitsCommand(env *Env) *cobra.Command {
	opts := fitsOptions{steps: fitsSteps}
	cmd := &cobra.Command{
		Use:   "fits [flags] -- COMMAND [ARG…]",
		Short: "Say whether a training script fits into a Mac's memory, without running there",
		Long: `Rehearses COMMAND on the double, unmodified, for a few steps, and holds the account of its memory against the limits of each chip: Metal's
recommended working set, the watermark at which PyTorch refuses, the largest buffer, the Mac's memory. The answer is that it fits, that it does
not, or that it is too close to call; with the peak by kind, what is left of each limit, and what may help. docs/fits.md says by which rules.

Shapes alone are carried first. Where the script fails at that, as one does whose control flow asks for values, it is rehearsed again with data.
One rehearsal, on the chip with the most memory, serves every chip whose limits it stays clear of; on the others it is rehearsed as well. Each
has a folder and a record in the logbook, as those of assay run --on double have. The script's output goes to standard error.

Exit status: 0 where it fits on every chip; 3 where it does not on one; 4 where on one it is too close to call, or not known; 1 where nothing could
be rehearsed; 2 where the command line is wrong.`,
		Example: `  assay fits --chip m4-16gb,m3-ultra-96gb --torch 2.8 -- python train.py
  assay fits --chip m1-8gb --steps 200 -- train.py --batch 16`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringSliceVar(&opts.chips, "chip", nil, "`chips` of the Macs, as m2-pro or m3-ultra-96gb, with commas between "+
		"them; default that of assay.toml, else "+target.DefaultChip)
	f.StringVar(&opts.torch, "torch", "", "`release` of PyTorch to stand for, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&opts.macos, "macos", "", "`release` of macOS, 15 or 15.5; default that of assay.toml, else 15, or what "+
		"that release of PyTorch needs")
	f.IntVar(&opts.steps, "steps", opts.steps, "training `steps` to rehearse")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter for scripts, modules and notebooks")
	f.StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook to record in, or off; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.BoolVar(&opts.json, "json", false, "print the record ("+evidence.Schema+", kind "+fit.KindFit+")")
	f.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runFits(cmd.Context(), env, opts, args) }
	return cmd
}

func runFits(ctx context.Context, env *Env, opts fitsOptions, args []string) error {
	usage := func(err error) error { return fault.Exit(err, fault.Usage) }
	switch {
	case opts.steps < 1:
		return usage(fault.Hint(fmt.Errorf("--steps %d: a number of steps above 0", opts.steps),
			"see: assay fits --help"))
	case len(args) == 0:
		return usage(fault.Hint(errors.New("no command to rehearse: write it after --"), "see: assay fits --help"))
	}
	chips := opts.chips
	if len(chips) == 0 {
		settings, err := target.FindProjectSettings(env.Dir)
		if err != nil {
			return usage(err)
		}
		chips = []string{cmp.Or(settings.Chip.Value, target.DefaultChip)}
	}
	if opts.torch != "" {
		if _, err := target.ParseRelease(&atlas.Atlas{}, opts.torch); err != nil {
			return usage(err)
		}
	}
	var macs []target.Chip
	for _, name := range chips {
		// with all that was typed, so that a wrong release of macOS is told before anything is run
		if _, err := target.Run.Parse(target.Words{On: evidence.OnDouble, Chip: name, MacOS: opts.macos}); err != nil {
			return usage(err)
		}
		chip, err := target.ParseChip(name)
		if err != nil {
			return usage(err)
		}
		if !slices.ContainsFunc(macs, func(c target.Chip) bool { return c.Short == chip.Short }) {
			macs = append(macs, chip)
		}
	}
	result := &fit.Result{Envelope: evidence.NewEnvelope(fit.KindFit)}
	f := fitting{env: env, opts: opts, args: args, result: result}
	if err := f.judge(ctx, macs); err != nil {
		// 125 to 127 are what assay run says where it did not start the script.
		if code := fault.CodeOf(err); code >= fault.NotStarted {
			err = fault.Exit(err, fault.Failed)
		}
		return err
	}
	var err error
	if opts.json {
		err = result.JSON(env.Stdout)
	} else {
		err = result.Text(env.Stdout, width(env, env.Stdout))
	}
	if err != nil {
		return fmt.Errorf("print what fits: %w", err)
	}
	if s := result.Status(); s != fault.OK {
		return status(s)
	}
	return nil
}

// words are what was typed, for a rehearsal on one chip.
func (o fitsOptions) words(chip target.Chip) target.Words {
	return target.Words{On: evidence.OnDouble, Torch: o.torch, Chip: chip.Short, MacOS: o.macos}
}

// fitting is one question: what is to be rehearsed and how, and what was rehearsed so far.
type fitting struct {
	env    *Env
	opts   fitsOptions
	args   []string
	seen   []fit.Rehearsed
	result *fit.Result
	// longest says that the longest batch of the data is put first from here on
	longest bool
}

// judge rehearses on the Mac with the most memory, and where that came near another's limits on that one as well.
func (f *fitting) judge(ctx context.Context, macs []target.Chip) error {
	most := slices.MaxFunc(macs, func(a, b target.Chip) int { return cmp.Compare(a.Memory, b.Memory) })
	why := "it has the most memory of the chips asked for"
	if len(macs) == 1 {
		why = "it is the chip asked for"
	}
	first, run, err := f.rehearse(ctx, most, true, nil, why)
	if err != nil {
		return err
	}
	if largest := largestChip(); first.Refused != nil && largest.Memory > most.Memory {
		if first, run, err = f.rehearse(ctx, largest, !first.Data, nil,
			"on "+most.Short+" it ran out of memory, and the largest Mac shows what it needs"); err != nil {
			return err
		}
	}
	if first.Longer() && first.Refused == nil && first.Ended == "" {
		longest := &probe.Levers{Longest: true}
		r, again, err := f.rehearse(ctx, f.chipOf(first, macs), !first.Data, longest,
			"the data have a longer batch than those that came: it is put first")
		if err != nil {
			return err
		}
		if r.Switched("longest") {
			first, run, f.longest = r, again, true
		}
	}
	f.result.About(run)
	if run.Target.Double != nil {
		f.result.Release = run.Target.Double.Release
	}
	limits, err := f.limits(ctx, macs, run)
	if err != nil {
		return err
	}
	for i, chip := range macs {
		own, err := f.own(ctx, first, chip, limits[i])
		if err != nil {
			return err
		}
		j := fit.Judge(first, own, limits[i])
		if err := f.smaller(ctx, &j, chip, first); err != nil {
			return err
		}
		if j.Answer == fit.Fits || j.Answer == fit.TooClose { // one that does not fit has no pace
			j.Step = stepOf(run, chip)
		}
		f.result.Chips = append(f.result.Chips, j)
	}
	return nil
}

// stepOf predicts a step's time on a chip by what was rehearsed.
func stepOf(run *evidence.Run, chip target.Chip) *fit.Step {
	band, err := pace.Of(run, chip)
	if err != nil {
		return &fit.Step{Why: err.Error()}
	}
	return &fit.Step{Low: &band.Low, Mid: &band.Mid, High: &band.High, Basis: band.Basis, Why: band.Why,
		Held: band.Coverage.Held, Figures: band.Coverage.Figures, Unknown: band.Unknown}
}

// maxSmaller is how many smaller batches are rehearsed for a chip: the predicted one, and one more where that was not
// right.
const maxSmaller = 2

// smaller rehearses the batch that is predicted to fit, where the script's own does not and shapes alone do: with data
// it may take as long as the first rehearsal did.
func (f *fitting) smaller(ctx context.Context, j *fit.Judgement, chip target.Chip, first fit.Rehearsed) error {
	for range maxSmaller {
		rows := j.Smaller()
		if rows < 1 || first.Data {
			return nil
		}
		r, _, err := f.rehearse(ctx, chip, true, &probe.Levers{Batch: rows, Longest: f.longest},
			fmt.Sprintf("a batch of %d is predicted to fit", rows))
		if err != nil {
			return err
		}
		if !j.Tried(rows, r) {
			return nil
		}
	}
	return nil
}

// chipOf is the chip that a rehearsal stood for.
func (f *fitting) chipOf(r fit.Rehearsed, macs []target.Chip) target.Chip {
	for _, chip := range macs {
		if chip.Short == r.Chip {
			return chip
		}
	}
	return largestChip()
}

// own is a rehearsal on that very Mac, where the first one took so much that PyTorch would behave otherwise there; nil
// where it would not.
func (f *fitting) own(ctx context.Context, first fit.Rehearsed, chip target.Chip, mac fit.Mac) (*fit.Rehearsed, error) {
	for i := range f.seen {
		r := &f.seen[i]
		if r.Chip == chip.Short && r.Data == first.Data && r.Chip != first.Chip && len(r.Levers) == 0 && !f.longest {
			return r, nil
		}
	}
	if chip.Short == first.Chip || first.Ended != "" || first.Account == nil || mac.Low == nil ||
		first.Account.Peak <= *mac.Low {
		return nil, nil
	}
	var levers *probe.Levers
	if f.longest {
		levers = &probe.Levers{Longest: true}
	}
	r, _, err := f.rehearse(ctx, chip, !first.Data, levers, fmt.Sprintf("it takes more than %s, where PyTorch begins to give "+
		"memory back on that chip", unit.Bytes(float64(*mac.Low))))
	return &r, err
}

// largestChip is the Mac with the most memory that was sold.
func largestChip() target.Chip {
	var largest target.Chip
	for _, part := range target.Parts() {
		for _, gib := range part.Memories {
			if gib > largest.Memory {
				// a row of the table names a chip that there is
				largest, _ = target.ParseChip(fmt.Sprintf("%s %dgb", part.Chip, gib))
			}
		}
	}
	return largest
}

// rehearse runs the script on the double of a chip, with shapes alone and, where it fails at that, again with data.
func (f *fitting) rehearse(ctx context.Context, chip target.Chip, shapeOnly bool, levers *probe.Levers,
	why string) (fit.Rehearsed, *evidence.Run, error) {
	env := *f.env
	env.Stdout = f.env.Stderr // ours is for the answer
	asked := f.opts.words(chip)
	asked.ShapeOnly = shapeOnly
	res, err := runSubject(ctx, &env, runOptions{asked: asked, python: f.opts.python, profile: "off",
		warnEpoch: defaultWarnEpoch, steps: f.opts.steps, levers: levers, quiet: true,
		logbook: f.opts.logbook, noCPU: true}, f.args)
	if err != nil {
		return fit.Rehearsed{}, nil, err
	}
	res.LetGo()
	switch res.Signal {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP: // somebody wants it to end
		return fit.Rehearsed{}, nil, endAs(res)
	}
	r := fit.Read(res.Run)
	r.Chip, r.Data, r.Folder = chip.Short, !shapeOnly, res.Dir
	if rel, err := filepath.Rel(f.env.Dir, res.Dir); err == nil && filepath.IsLocal(rel) {
		r.Folder = rel
	}
	f.seen = append(f.seen, r)
	f.result.Rehearsals = append(f.result.Rehearsals, fit.Of(r, why))
	if shapeOnly && needsData(f.env, res.Run) {
		return f.rehearse(ctx, chip, false, levers, "with shapes alone it failed, and its course may depend on values")
	}
	return r, res.Run, nil
}

// needsData reports whether what was rehearsed with shapes alone is to be rehearsed again with data, and says why.
func needsData(env *Env, run *evidence.Run) bool {
	why := fit.NeedsData(run)
	if why == "" {
		return false
	}
	fmt.Fprintf(env.Stderr, "assay: with shapes alone %s: rehearsed again with data, since its course may depend on "+
		"values\n", text.Line(why))
	return true
}

// limits asks the agent, in which the double's limits of memory stand, for those of some Macs.
func (f *fitting) limits(ctx context.Context, macs []target.Chip, run *evidence.Run) ([]fit.Mac, error) {
	macOS := target.DefaultMacOS
	if d := run.Target.Double; d != nil {
		if v, err := target.ParseMacOS(d.MacOS); err == nil {
			macOS = v
		}
	}
	type question struct {
		Memory int64        `json:"memory"`
		MacOS  target.MacOS `json:"macos"`
	}
	var asked []question
	list := make([]fit.Mac, len(macs))
	for i, chip := range macs {
		list[i] = fit.Mac{Chip: chip.Short, Name: chip.Name, Memory: int64(chip.Memory) << 30, MacOS: macOS.String()}
		asked = append(asked, question{list[i].Memory, macOS})
	}
	in, err := interpreterOf(ctx, f.env, f.args) // any will do: nothing is imported but the standard library
	if err != nil || f.opts.python != "" {
		if in, err = python.Find(ctx, f.env.Environ, f.env.Dir, f.opts.python); err != nil {
			return nil, err
		}
	}
	cache, err := agentCache(f.env)
	if err != nil {
		return nil, err
	}
	installed, err := agent.Install(cache)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, limitsLimit)
	defer stop()
	program := exec.CommandContext(ctx, in.Path, "-I", installed.Limits)
	var said bytes.Buffer
	program.Env, program.Stdin, program.Stderr = f.env.Environ, bytes.NewReader(data), &said
	answer, err := program.Output()
	if err != nil {
		return nil, fmt.Errorf("ask the agent for the limits of memory: %w: %s", err, text.Short(said.String(), 300))
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list) != len(macs) {
		return nil, fmt.Errorf("ask the agent for the limits of memory: its answer is not one: %.100q", answer)
	}
	return list, nil
}

// limitsLimit is how long a Python may take to work out some numbers.
const limitsLimit = 30 * time.Second
