package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/host"
	"assay/internal/replay"
	"assay/internal/signature"
	"assay/internal/target"
	"assay/internal/unit"
)

// replayOptions are the flags of `assay signatures replay`.
type replayOptions struct {
	asked                   target.Words
	python, out, time, each string
	seed                    int64
}

func newSignaturesReplayCommand(env *Env) *cobra.Command {
	opts := replayOptions{asked: target.Words{On: evidence.OnMPS}, time: "10m", each: "30s"}
	cmd := &cobra.Command{
		Use:   "replay [flags] FILE.signatures",
		Short: "Replay recorded operator calls on a device, each held against the CPU",
		Long: `Calls each operator of the file with values that are drawn by a seed in the range that was recorded, on the device and on the CPU, in a
process that may die. What becomes of each is appended to FILE.replay: ok, missing (no kernel), refused, wrong (against the CPU, within
PyTorch's own tolerances by type), ends (the process), hangs; not_replayed says nothing of the device, and why. Begun again it goes on where
it was; one call of each operator comes first, so that the first minute says most. docs/replay.md.

First the device has to compute at all: a virtual GPU that compiles no shader is told from a bug of PyTorch's.

Exit status: 0 where all was replayed or the time was over; 1 where it could not be, or was interrupted; 2 where the command line is wrong.`,
		Example: `  assay signatures replay training.signatures --for 10m
  assay signatures replay training.signatures --on double --torch 2.8`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.asked.On, "on", opts.asked.On, "`device`: mps, cuda, cpu, double")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter")
	f.StringVar(&opts.time, "for", opts.time, "begin no call after this `time`; 0: all are replayed")
	f.StringVar(&opts.each, "limit", opts.each, "a call that takes longer than this `time` hangs")
	f.StringVar(&opts.out, "out", "", "`file` to write, or to go on with (FILE.replay)")
	f.Int64Var(&opts.seed, "seed", 0, "`number` that values are drawn by")
	f.StringVar(&opts.asked.Torch, "torch", "", "with --on double: `release` of PyTorch to stand for ("+torchDefault+")")
	f.StringVar(&opts.asked.Chip, "chip", "", "with --on double: `chip` of the Mac, as m2-pro")
	f.StringVar(&opts.asked.MacOS, "macos", "", "with --on double: `release` of macOS, 15 or 15.5")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return runReplay(ctx, env, opts, args)
	}
	return cmd
}

func runReplay(ctx context.Context, env *Env, opts replayOptions, args []string) error {
	o, err := opts.replay(env, args)
	if err != nil {
		return err
	}
	if o.Interpreter, o.Cache, o.Double, err = placeOf(ctx, env, o.On, opts.python); err != nil {
		return err
	}
	o.Machine = machineHere(ctx)
	done, stopped, err := replay.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := done.Text(env.Stdout, width(env, env.Stdout)); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "\nreplay: %s\n", o.OutName)
	switch left := done.Header.Total - len(done.Results); {
	case ctx.Err() != nil:
		return fault.Hint(fmt.Errorf("replay %s: %s, %d signatures are left", o.Name, stopped, left),
			"the same command goes on with it")
	case stopped != "":
		fmt.Fprintf(env.Stderr, "%s, %d signatures are left: the same command goes on with them\n", stopped, left)
	}
	return nil
}

// replay makes options of the flags, but for the interpreter, the Mac and the machine.
func (opts replayOptions) replay(env *Env, args []string) (replay.Options, error) {
	usage := func(err error) (replay.Options, error) {
		return replay.Options{}, fault.Exit(fault.Hint(err, "see: assay signatures replay --help"), fault.Usage)
	}
	if len(args) != 1 {
		return usage(fmt.Errorf("one file of signatures to replay, not %d", len(args)))
	}
	on, err := target.Replay.Parse(opts.asked)
	if err != nil {
		return replay.Options{}, fault.Exit(err, fault.Usage)
	}
	within, err := unit.ParseSeconds(opts.time)
	if opts.time == "0" {
		within, err = 0, nil
	}
	if err != nil || within < 0 || within > maxLimit.Seconds() {
		return usage(fmt.Errorf("--for %s: a time such as 90s or 10m, or 0", opts.time))
	}
	each, err := unit.ParseSeconds(opts.each)
	if err != nil || each <= 0 || each > maxLimit.Seconds() {
		return usage(fmt.Errorf("--limit %s: a time such as 10s or 1m", opts.each))
	}
	out := opts.out
	if out == "" {
		out = strings.TrimSuffix(args[0], signature.Suffix) + replay.Suffix
	}
	if out == args[0] {
		return usage(errors.New("--out is the file of signatures itself"))
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return replay.Options{Name: args[0], Path: env.Path(args[0]), Out: env.Path(out), OutName: out, On: on,
		For: seconds(within), Limit: seconds(each), Seed: opts.seed, Environ: env.Environ, Dir: env.Dir,
		Narration: env.Stderr, Now: env.Now}, nil
}

// machineHere is this machine as a replay names it: what kind it is, and nothing of whose.
func machineHere(ctx context.Context) replay.Machine {
	m := replay.Machine{}
	for _, f := range host.Facts(ctx) {
		switch f.Name {
		case "chip":
			m.Chip = f.Value
		case "memory":
			m.Memory = f.Value
		case "model":
			m.Model = f.Value
		case "system":
			m.System = f.Value
			if runtime.GOOS == "darwin" { // macOS 15.5
				m.MacOS = strings.TrimPrefix(f.Value, "macOS ")
			}
		}
	}
	return m
}
