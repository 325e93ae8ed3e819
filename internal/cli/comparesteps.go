package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/launch"
	"assay/internal/probe"
	"assay/internal/secret"
	"assay/internal/steps"
	"assay/internal/target"
	"assay/internal/text"

	"github.com/spf13/cobra"
)

const stepsForm = `With -- COMMAND two sides of one training are compared, its first --steps steps, the script as it is: --on twice (two devices), or --python twice
(two environments). Both are seeded; the second gets the first one's weights, batches and random numbers. --record FILE.steps records one side
alone, for another machine.`

// stepsComparison runs a training twice and has what its first steps computed compared.
type stepsComparison struct {
	shared             *goldenOptions // --python and --steps, which mean the same there
	recorded           *recordedComparison
	on, batches        []string
	record, from, seed string
	torch              string
	measure            bool
	dash               int // words before "--"
}

// comparisonsFolder has a folder for each comparison of two sides: their recordings and their runs.
const comparisonsFolder = ownFolder + "/compare"

func (c *stepsComparison) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.on, "on", nil, "with -- COMMAND: `device` of a side, twice: auto, cpu, mps, cuda, double")
	f.StringSliceVar(&c.batches, "batches", nil, "with -- COMMAND: compare at each of these `batches`: 8,32")
	f.StringVar(&c.torch, "torch", "", "with -- COMMAND: `release` of PyTorch that a side --on double stands for ("+torchDefault+")")
	f.StringVar(&c.record, "record", "", "with -- COMMAND: record one side alone, into the `folder` FILE.steps")
	f.StringVar(&c.from, "from", "", "with --record: begin with weights and batches of another side's `folder`")
	f.StringVar(&c.seed, "seed", "0", "with -- COMMAND: `seed` of both sides, set before the script begins")
	f.BoolVar(&c.measure, "measure", false,
		"with -- COMMAND: run the first side once more with inputs moved by one unit in the last place, to judge by that")
}

func (c *stepsComparison) String() string { return "a command that is run on two sides" }

func (c *stepsComparison) reads() []string {
	return []string{"on", "torch", "python", "batches", "record", "from", "seed", "measure", "steps", "within"}
}

func (c *stepsComparison) takes(_ *Env, _ []string, dash int) bool {
	c.dash = dash
	return dash >= 0
}

// A side is one of two to compare.
type side struct {
	name, on, python string
	torch            string // of a double
	batch            int    // 0: as the script has it
}

// asked is where the side runs; the release is that of a double alone.
func (s side) asked() target.Words {
	words := target.Words{On: s.on}
	if t, err := target.Run.Parse(words); err == nil && t.Rehearsal() {
		words.Torch = s.torch
	}
	return words
}

func (s side) String() string {
	words := "side " + s.name + " (--on " + s.on
	if torch := s.asked().Torch; torch != "" {
		words += ", --torch " + torch
	}
	if s.python != "" {
		words += ", --python " + s.python
	}
	if s.batch > 0 {
		words += ", batch " + strconv.Itoa(s.batch)
	}
	return words + ")"
}

func (c *stepsComparison) compare(ctx context.Context, env *Env, words []string, json bool) (int, error) {
	usage := func(format string, a ...any) (int, error) {
		return 0, fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay compare --help"), fault.Usage)
	}
	batches := make([]int, len(c.batches))
	for i, b := range c.batches {
		n, err := strconv.Atoi(b)
		if err != nil || n < 1 {
			return usage("--batches %s: numbers from 1 on, as 8,32", strings.Join(c.batches, ","))
		}
		batches[i] = n
	}
	seed, err := strconv.ParseInt(c.seed, 10, 64)
	pythons, ons := c.shared.python, c.on
	sides := max(len(ons), len(pythons), 1)
	switch {
	case c.dash > 0:
		return usage("%s stands before --: a command is compared with itself", words[0])
	case len(words) == 0:
		return usage("no command to run: write it after --")
	case err != nil || seed < 0:
		return usage("--seed %s: a number from 0 on", c.seed)
	case c.shared.steps < 1:
		return usage("--steps %d: a number of steps from 1 on", c.shared.steps)
	case len(ons) > 2 || len(pythons) > 2:
		return usage("two sides are compared, not %d", sides)
	case c.record != "" && sides > 1:
		return usage("--record %s is of one side: --on and --python once", c.record)
	case c.record != "" && len(batches) > 1:
		return usage("--record %s is of one batch", c.record)
	case c.record == "" && c.from != "":
		return usage("--from %s goes with --record", c.from)
	case c.record == "" && sides == 1:
		return usage("one side: give --on or --python twice, or record it alone with --record FILE.steps")
	case c.measure && len(batches) > 1:
		return usage("--measure is of one batch, not of %d", len(batches))
	case c.record != "" && c.measure && c.from == "":
		return usage("--measure moves what --from gives")
	}
	if len(batches) == 0 {
		batches = []int{0}
	}
	nth := func(list []string, i int, otherwise string) string {
		if len(list) == 0 {
			return otherwise
		}
		return list[min(i, len(list)-1)]
	}
	rehearsed := false
	for _, on := range ons {
		t, err := target.Run.Parse(side{on: on, torch: c.torch}.asked())
		if err != nil {
			return usage("%w", err)
		}
		rehearsed = rehearsed || t.Rehearsal()
	}
	if c.torch != "" && !rehearsed {
		return usage("--torch %s is for a side --on double: give it by --python where another PyTorch is to run", c.torch)
	}
	home := env.Path(ownFolder)
	if err := probe.OwnFolder(home); err != nil {
		return 0, err
	}
	subject, _, err := resolve(ctx, env, nth(pythons, 0, ""), words, "")
	if err != nil {
		return 0, err
	}
	folder := env.Path(filepath.Join(comparisonsFolder, runName(env, subject)))
	r := stepsRecorder{env: env, words: words, steps: c.shared.steps, seed: seed, folder: folder}
	both := []side{{name: "A", on: nth(ons, 0, target.Auto), python: nth(pythons, 0, ""), torch: c.torch},
		{name: "B", on: nth(ons, 1, target.Auto), python: nth(pythons, 1, ""), torch: c.torch}}
	if err := r.proveDevices(ctx, both[:sides]); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, fmt.Errorf("make the comparison's folder: %w", err)
	}
	if c.record != "" {
		both[0].batch = batches[0]
		return 0, c.recordOne(ctx, r, both[0])
	}
	var recorded []string
	moved := ""
	for _, batch := range batches {
		at := ""
		if batch > 0 {
			at = "-" + strconv.Itoa(batch)
		}
		path := func(name string) string { return filepath.Join(folder, name+at+".steps") }
		a, b := both[0], both[1]
		a.batch, b.batch = batch, batch
		if err := r.side(ctx, a, path("a"), "", 0); err != nil {
			return 0, err
		}
		if err := r.side(ctx, b, path("b"), path("a"), 0); err != nil {
			return 0, err
		}
		if c.measure {
			moved = path("moved")
			if err := r.side(ctx, a, moved, path("a"), 1); err != nil {
				return 0, err
			}
		}
		recorded = append(recorded, path("a"), path("b"))
	}
	return c.read(ctx, env, recorded, moved, json)
}

// recordOne records one side for another machine.
func (c *stepsComparison) recordOne(ctx context.Context, r stepsRecorder, s side) error {
	out, from, moved := r.env.Path(c.record), "", 0
	if _, err := os.Lstat(out); err == nil {
		return fault.Hint(fmt.Errorf("--record %s: it is there already", c.record),
			"name another: what is recorded is never written over")
	}
	if c.from != "" {
		from = r.env.Path(c.from)
		if _, err := readSteps(from); err != nil {
			return fmt.Errorf("--from %s: %w", c.from, err)
		}
	}
	if c.measure {
		moved = 1
	}
	if err := r.side(ctx, s, out, from, moved); err != nil {
		return err
	}
	_, err := fmt.Fprintln(r.env.Stdout, "recording of steps:", c.record)
	return err
}

// read has recordings compared, a pair for each batch.
func (c *stepsComparison) read(ctx context.Context, env *Env, recorded []string, moved string, json bool) (int, error) {
	for i, path := range recorded {
		if rel, err := filepath.Rel(env.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
			recorded[i] = rel
		}
	}
	c.recorded.moved = moved
	return c.recorded.compare(ctx, env, recorded, json)
}

// stepsRecorder makes recordings of one command.
type stepsRecorder struct {
	env    *Env
	words  []string
	steps  int
	seed   int64
	folder string // of the comparison: each side's run lies there
	proven bool   // devices were proven to compute
}

// proveDevices has the devices of both sides proven before the first one runs: the other one would run in vain.
func (r *stepsRecorder) proveDevices(ctx context.Context, sides []side) error {
	cache, _ := agentCache(r.env)
	for _, s := range sides {
		on, err := target.Run.Parse(s.asked())
		if err != nil || !on.NeedsProof() {
			continue // what is wrong with the words was said before
		}
		_, command, err := resolve(ctx, r.env, s.python, r.words, cache)
		if err != nil {
			return err
		}
		if err := requireDevice(ctx, r.env, on.Device, command); err != nil {
			return err
		}
	}
	r.proven = true
	return nil
}

// side runs a side and sees that its recording is there. An error says what happened, with the script's last lines.
func (r stepsRecorder) side(ctx context.Context, s side, out, from string, moved int) error {
	said := &text.Tail{Limit: saidKept}
	apart := *r.env
	apart.Environ, apart.Stdin, apart.Stdout, apart.Stderr = slices.Clone(r.env.Environ), nil, said, said
	if r.env.Getenv("PYTHONHASHSEED") == "" { // the order of a set is to be the same on both sides
		apart.Environ = append(apart.Environ, "PYTHONHASHSEED=0")
	}
	doing := s.String()
	if moved > 0 {
		doing += ", inputs moved"
	}
	fmt.Fprintf(r.env.Stderr, "assay: %s: %d steps\n", text.Line(doing), r.steps)
	o := runOptions{asked: s.asked(), python: s.python, profile: "off", steps: r.steps, proven: r.proven,
		warnEpoch: defaultWarnEpoch, quiet: true, logbook: "off",
		out:    filepath.Join(r.folder, strings.TrimSuffix(filepath.Base(out), ".steps")+".run"),
		record: &probe.Recording{Out: out, From: from, Seed: r.seed, Steps: r.steps, Moved: moved}}
	if s.batch > 0 {
		o.levers = &probe.Levers{Batch: s.batch}
	}
	res, err := runSubject(ctx, &apart, o, r.words)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	res.LetGo()
	failed := func(why string, hint string) error {
		lines := lastSaid(string(said.Bytes()))
		err := fmt.Errorf("%s: %s\n%s", doing, why, secret.Text(strings.Join(lines, "\n")))
		return fault.Exit(fault.Hint(err, hint), fault.Failed)
	}
	head, err := readSteps(out)
	kept := ""
	if err == nil {
		kept = "; what it had recorded is in " + out
	}
	byName := "run it alone, as: assay run --on " + s.on + " -- COMMAND"
	on, _ := target.Run.Parse(s.asked()) // it was parsed before
	if on.HidesCUDA() && strings.Contains(strings.ToLower(string(said.Bytes())), "cuda") {
		byName = "a side on the CPU sees no CUDA device, and a script that asks for one by name cannot run there: " +
			"let it take its device from an argument, or from torch.cuda.is_available()"
	}
	switch {
	case res.Signal != 0:
		return failed("it was ended by "+launch.SignalName(res.Signal)+kept, byName)
	case res.Exit != 0:
		return failed(fmt.Sprintf("it ended with status %d%s", res.Exit, kept), byName)
	case errors.Is(err, os.ErrNotExist):
		why := "no training step was seen, and nothing is recorded"
		if len(res.Run.Outcome.Reason) > 0 {
			why += ": " + text.Line(res.Run.Outcome.Reason)
		}
		return failed(why, "recorded are PyTorch's trainings of one process, which call a module with gradients on")
	case err != nil:
		return err
	}
	for _, l := range res.Run.Levers {
		if l.Lever == "batch" && !l.Done {
			return failed(fmt.Sprintf("its batch was not set to %d: %s", s.batch, l.Why),
				"give the batch in the command itself")
		}
	}
	if want := on.MustShow(); want != "" && !on.Rehearsal() && !strings.HasPrefix(head.Device, want) {
		return failed(fmt.Sprintf("it trained on %s: the script chooses its device itself", text.Line(head.Device)),
			"give it "+want+" by an argument of its own, or let it take what torch."+want+".is_available() says")
	}
	if !head.Complete {
		if head.Failed != nil && *head.Failed || head.Recorded == 0 {
			return failed(text.Line(head.Why), "")
		}
		fmt.Fprintf(r.env.Stderr, "assay: %s: %s\n", text.Line(doing), text.Line(head.Why))
	}
	return nil
}

// lastSaid is the end of what a side printed, told where it failed: the last traceback with the script's own line, of
// at most 40 lines, or 12 lines.
func lastSaid(said string) []string {
	lines := strings.Split(strings.TrimRight(said, "\n"), "\n")
	from := len(lines) - 12
	for i, line := range lines {
		if i >= len(lines)-40 && strings.HasPrefix(line, "Traceback (most recent call last)") {
			from = i
		}
	}
	return lines[max(0, from):]
}

// readSteps is what a recording says of itself, where it can be read whole.
func readSteps(folder string) (steps.Head, error) {
	r, err := steps.Open(folder)
	if err != nil {
		return steps.Head{}, err
	}
	defer r.Close()
	return r.Head, nil
}
