package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"assay/agent"
	"assay/internal/fault"
	"assay/internal/golden"
	"assay/internal/python"
)

// goldenOptions are the flags of `assay golden`, and of `assay compare` where it records.
type goldenOptions struct {
	out, input, shape, layout, device string
	python                            []string // one at most; a comparison of commands takes two
	scale, rate                       float64
	steps, timed                      int
	eval, float64                     bool
}

func (o *goldenOptions) flags(cmd *cobra.Command) {
	*o = goldenOptions{device: "auto", scale: 1, rate: 1e-3, steps: 3, timed: 5}
	f := cmd.Flags()
	f.StringArrayVar(&o.python, "python", nil, "`path` of the interpreter; PYTHON@FILE.py names one for a file")
	f.StringVar(&o.input, "input", "", "`file` of the inputs, .npy or .npz; default those of inputs() in the Python file")
	f.StringVar(&o.shape, "shape", "", "`shape` of an input that is drawn, as 2x3x64x80, the same on each side")
	f.Float64Var(&o.scale, "scale", o.scale, "values of a drawn input are 0 to this")
	f.StringVar(&o.layout, "layout", "", "`layout` of --input or --shape, NCHW or NHWC; a framework that takes the other gets it turned")
	f.StringVar(&o.device, "device", o.device, "`device`: cpu, cuda, mps, or auto, the framework's own choice")
	f.BoolVar(&o.eval, "eval", false, "in evaluation mode: no dropout, running statistics of batch norm")
	f.BoolVar(&o.float64, "float64", false, "in float64, to tell rounding from a fault: weights, inputs and all that is computed, on the CPU")
	f.IntVar(&o.steps, "steps", o.steps, "updates of the weights that are recorded")
	f.IntVar(&o.timed, "timed", o.timed, "steps that are timed after them")
	f.Float64Var(&o.rate, "rate", o.rate, "learning rate of the framework's Adam, where the file has no optimizer(model)")
}

const goldenFile = `The Python file has a function that gives the model, "model" where no other is named (FILE.py:NAME), and, where it likes,
    loss(model, *inputs)    a scalar; else the outputs times fixed numbers
    targets()               a tuple of numpy arrays that loss takes behind the inputs, and the model does not
    optimizer(model)        else the framework's Adam, with its own settings
    inputs()                a tuple of numpy arrays, as this model takes them
Its framework is the model's: PyTorch, MLX, or Keras 3 on any backend (KERAS_BACKEND).`

func newGoldenCommand(env *Env) *cobra.Command {
	var opts goldenOptions
	cmd := &cobra.Command{
		Use:   "golden [flags] --out FILE [PYTHON@]FILE.py[:FUNCTION]",
		Short: "Record what a model computes, module by module, to hold another framework, device or release against it",
		Long: `Builds the model and writes its weights, its inputs, the output of every module, the loss, the gradients and its weights after each of some
updates into a golden file, for assay compare: on a Mac without the framework that it was recorded with, or after an upgrade.

` + goldenFile,
		Example: `  assay golden --out torch.golden --shape 2x3x64x80 --layout NCHW net_torch.py
  assay golden --out keras.golden --input batch.npy --layout NHWC net_keras.py:build`,
		Args: cobra.ArbitraryArgs,
	}
	opts.flags(cmd)
	cmd.Flags().StringVar(&opts.out, "out", "", "`file` to write")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		usage := func(err error) error {
			return fault.Exit(fault.Hint(err, "see: assay golden --help"), fault.Usage)
		}
		switch {
		case len(args) != 1:
			return usage(fmt.Errorf("one Python file, not %d", len(args)))
		case opts.out == "":
			return usage(errors.New("no file to write: name one with --out"))
		case !isModelFile(args[0]):
			return usage(fmt.Errorf("%s: no Python file", args[0]))
		}
		if _, err := os.Lstat(env.Path(opts.out)); err == nil {
			return fault.Hint(fmt.Errorf("--out %s: it is there already", opts.out),
				"name another: what is recorded is never written over")
		}
		if err := recordGolden(cmd.Context(), env, opts, args[0], env.Path(opts.out)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(env.Stdout, "golden file:", opts.out)
		return err
	}
	return cmd
}

// isModelFile says whether an argument names a Python file, and no golden file.
func isModelFile(name string) bool {
	_, _, ok := strings.Cut(name+":", ".py:")
	return ok
}

// recordGolden records what an argument names.
func recordGolden(ctx context.Context, env *Env, opts goldenOptions, name, out string) error {
	interpreter, file := "", name
	if len(opts.python) > 0 {
		interpreter = opts.python[0]
	}
	if at := strings.LastIndex(name, "@"); at > 0 {
		interpreter, file = name[:at], name[at+1:]
	}
	function := "model"
	if before, after, ok := strings.Cut(file, ".py:"); ok {
		file, function = before+".py", after
	}
	r := golden.Request{File: env.Path(file), Function: function, Layout: opts.layout, Eval: opts.eval,
		Float64: opts.float64,
		Device:  opts.device, Steps: opts.steps, Timed: opts.timed, Rate: opts.rate, Scale: opts.scale, Out: out}
	usage := func(format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay golden --help"), fault.Usage)
	}
	switch {
	case len(opts.python) > 1:
		return usage("--python: one of them goes with a Python file; PYTHON@FILE.py names one for each")
	case opts.layout != "" && opts.layout != "NCHW" && opts.layout != "NHWC":
		return usage("--layout %s: NCHW or NHWC", opts.layout)
	case opts.input != "" && opts.shape != "":
		return usage("--input and --shape: one of them")
	case opts.steps < 0 || opts.timed < 0:
		return usage("--steps and --timed: numbers from 0 on")
	}
	if opts.input != "" {
		r.Inputs = env.Path(opts.input)
	}
	if opts.shape != "" {
		for _, d := range strings.Split(opts.shape, "x") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil || n < 1 {
				return usage("--shape %s: numbers with x between them, as 2x3x64x80", opts.shape)
			}
			r.Shape = append(r.Shape, n)
		}
	}
	if _, err := os.Stat(r.File); err != nil {
		return fmt.Errorf("recording %s: %w", name, err)
	}
	in, err := python.Find(ctx, env.Environ, env.Dir, interpreter)
	if err != nil {
		return err
	}
	cache, err := agentCache(env)
	if err != nil {
		return err
	}
	installed, err := agent.Install(cache)
	if err != nil {
		return err
	}
	rec := golden.Recorder{Program: installed.Golden, Dir: env.Dir, Environ: env.Environ, Narration: env.Stderr}
	return rec.Record(ctx, in.Path, r)
}
