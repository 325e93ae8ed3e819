package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/attempt"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/python"
	"assay/internal/target"
	"assay/internal/unit"
)

// tryOptions are the flags of `assay try`.
type tryOptions struct {
	asked           target.Words
	python, limit   string
	inputs, args    []string
	all, eval, json bool
}

// maxLimit is the most that --limit can mean: beyond it no clock of Python's counts.
const maxLimit = 365 * 24 * time.Hour

func newTryCommand(env *Env) *cobra.Command {
	opts := tryOptions{asked: target.Words{On: evidence.OnDouble}, limit: "10m"}
	cmd := &cobra.Command{
		Use:   "try [flags] MODULE:MODEL | FILE.py:MODEL | PACKAGE --all",
		Short: "Try a model, forward and backward, on the double, a CPU or MPS: what happens, and by which cause",
		Long: `Imports MODEL from a module or a Python file, calls it if it is a class or a function (with --args), moves it to the device, and runs it
forward and backward: the sum of all floats in its output. Nothing is trained. The answer is the outcome by cause, with the operator, the line
and what to do; a model that fails is tried on the CPU as well, and where an operator is missing also with the CPU fallback.

--all tries every model of a package: those that its list_models() names (torchvision, timm); else each torch.nn.Module, class of one, and
function annotated to return one, that can be built without arguments; of a Python file, every function without arguments. Classes without a
forward of their own, losses, and those that methods of another class name are parts and no models. A function may return a model and
its inputs. Each model has a process of its own, and its line is printed when it is done (with --json on standard error): an interrupt
ends with what is known so far. Inputs of torchvision's, timm's and transformers' models are known.

--input NAME:SHAPE:TYPE, once for each: 1,3,224,224 is float32; ids:8x128 is int64, as for names that end in ids, mask, labels or target;
x:2,3:float16 names a type; batch.ids:8x128 is the key ids of a dictionary named batch. A name that forward has is given by name. FILE.py:NAME
is a value or a function: a tuple is arguments in order, a dictionary arguments by name, anything else one argument.

Exit status: 0 where the model ran; 3 where it did not, and under --all where a model that runs on the CPU did not; 1 where nothing could be
tried; 2 where the command line is wrong.`,
		Example: `  assay try torchvision.models:resnet50 --input 1,3,224,224
  assay try model.py:Net --args width=64 --input ids:8x128 --input mask:8x128 --torch 2.8
  assay try torchvision.models --all --shape-only --torch 2.15`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.asked.On, "on", opts.asked.On, "`device` to try it on: double, cpu, mps")
	f.StringArrayVar(&opts.inputs, "input", nil,
		"an `input` of the model: 1,3,224,224 or ids:8x128 or inputs.py:make; more than once for more")
	f.StringArrayVar(&opts.args, "args", nil,
		"`key=value` for the class or function that makes the model; the value is a Python literal or a word")
	f.BoolVar(&opts.all, "all", false, "every model that the package offers")
	f.BoolVar(&opts.eval, "eval", false, "call the model's eval() first")
	f.StringVar(&opts.asked.Torch, "torch", "",
		"with --on double: `release` of PyTorch to stand for, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&opts.asked.Chip, "chip", "",
		"with --on double: `chip` of the Mac, as m2-pro or m3-ultra-96gb; default that of assay.toml, else "+
			target.DefaultChip)
	f.StringVar(&opts.asked.MacOS, "macos", "",
		"with --on double: `release` of macOS, 15 or 15.5; default that of assay.toml, else 15, or what that release of "+
			"PyTorch needs")
	f.BoolVar(&opts.asked.ShapeOnly, "shape-only", false,
		"with --on double: carry shapes and no data, where the model allows")
	f.StringVar(&opts.limit, "limit", opts.limit, "with --all: end a model after this `time`")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter")
	f.BoolVar(&opts.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTry(cmd.Context(), env, opts, args) }
	return cmd
}

func runTry(ctx context.Context, env *Env, opts tryOptions, args []string) error {
	o, err := opts.attempt(env, args)
	if err != nil {
		return err
	}
	if o.Interpreter, o.Cache, o.Double, err = placeOf(ctx, env, o.On, opts.python); err != nil {
		return err
	}
	if opts.all { // what was printed stands; what an interrupt finds done is told as a whole
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		o.Lines = env.Stdout
		if opts.json {
			o.Lines = env.Stderr
		}
	}
	result, err := attempt.Run(ctx, o)
	if err != nil {
		return err
	}
	if opts.json {
		err = result.JSON(env.Stdout)
	} else {
		err = result.Text(env.Stdout, width(env, env.Stdout))
		if err == nil && o.Double != nil {
			err = sayAim(env.Stdout, env, o.Double.Aim)
		}
	}
	if result.Stopped != "" && err == nil {
		return fmt.Errorf("try %s: stopped %s", o.Name, result.Stopped)
	}
	if s := result.Status(); err == nil && s != fault.OK {
		return status(s)
	}
	return err
}

// attempt makes options of the flags, but for the interpreter and the Mac.
func (opts tryOptions) attempt(env *Env, args []string) (attempt.Options, error) {
	usage := func(format string, a ...any) (attempt.Options, error) {
		return attempt.Options{}, fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay try --help"), fault.Usage)
	}
	if len(args) != 1 {
		return usage("one model or package to try, not %d", len(args))
	}
	on, err := target.Try.Parse(opts.asked)
	switch {
	case err != nil:
		return attempt.Options{}, fault.Exit(err, fault.Usage)
	case !opts.all && !strings.Contains(args[0], ":"):
		return usage("%s: write MODULE:MODEL or FILE.py:MODEL, or add --all for every model of the package", args[0])
	case opts.all && strings.Contains(args[0], ":"):
		return usage("%s --all: write the package alone", args[0])
	}
	seconds, err := unit.ParseSeconds(opts.limit)
	limit := time.Duration(min(seconds, maxLimit.Seconds()) * float64(time.Second))
	if err != nil || limit <= 0 {
		return usage("--limit %s: a time such as 90s or 10m", opts.limit)
	}
	return attempt.Options{
		Name: args[0], All: opts.all, On: on, Inputs: opts.inputs, Args: opts.args, Eval: opts.eval, Limit: limit,
		Environ: env.Environ, Dir: env.Dir, Narration: env.Stderr, Now: env.Now,
	}, nil
}

// placeOf is where a program of ours runs that calls PyTorch: the interpreter, the folder that has the agent, and where
// it is a rehearsal the double. The device is proven before.
func placeOf(ctx context.Context, env *Env, on target.Target, named string) (interpreter, cache string,
	double *target.Double, err error) {
	in, err := python.Find(ctx, env.Environ, env.Dir, named)
	if err != nil {
		return "", "", nil, err
	}
	if on.NeedsProof() {
		if err := requireDevice(ctx, env, on.Device, []string{in.Path}); err != nil {
			return "", "", nil, fault.Exit(err, fault.Failed)
		}
	}
	if cache, err = agentCache(env); err != nil {
		return "", "", nil, err
	}
	if on.Rehearsal() {
		if double, err = rehearsal(ctx, env, on, []string{in.Path}); err != nil {
			return "", "", nil, fault.Exit(err, fault.Usage)
		}
	}
	return in.Path, cache, double, nil
}
