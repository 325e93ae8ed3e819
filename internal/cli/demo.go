package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"assay/examples"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/target"
)

func newDemoCommand(env *Env) *cobra.Command {
	epochs := 8
	out := ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train the example on this machine, measure it, rehearse it for a Mac, and write the reports",
		Long: `Makes a Python environment with pinned packages (once; on Linux PyTorch's builds without CUDA where PyTorch's own index is reached, else
some 5 GB on disk), trains examples/digits in it, a small vision transformer on scikit-learn's handwritten digits, under assay run, and writes the
report. Then it rehearses the same script on a double of MPS, and shows what three small scripts of examples/double meet there: a detector, one
that computes in float64, one written for CUDA.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&epochs, "epochs", epochs, "`epochs` to train")
	cmd.Flags().StringVar(&out, "out", "",
		"`folder` of the run; default .assay/runs/TIME-NAME; the rehearsal's has -double behind it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runDemo(cmd.Context(), env, epochs, out) }
	return cmd
}

// demoRelease is what the demo rehearses, and demoMeets the scripts that meet something: the detector on a release
// before torchvision's kernels.
const demoRelease = "2.8"

var demoMeets = []struct{ script, torch string }{{"rcnn.py", "2.0"}, {"float64.py", demoRelease},
	{"nvidia.py", demoRelease}}

func runDemo(ctx context.Context, env *Env, epochs int, out string) error {
	if epochs < 1 {
		return fault.Exit(fmt.Errorf("--epochs %d: at least 1", epochs), fault.Usage)
	}
	cache, err := python.CacheDir(env.Environ)
	if err != nil {
		return err
	}
	interpreter, err := python.Ensure(ctx, cache, python.Rehearsal(), env.Stderr)
	if err != nil {
		return err
	}
	temp, err := file.Temp(env.Environ, env.Dir, "demo")
	if err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	defer temp.Remove()
	folder := temp.Path
	script := filepath.Join(folder, "train.py")
	if err := os.WriteFile(script, examples.Digits, 0o644); err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	train := func(opts runOptions, epochs int) error {
		res, err := runSubject(ctx, env, opts, []string{interpreter, script, "--epochs", strconv.Itoa(epochs)})
		if err != nil {
			return err
		}
		res.LetGo()
		if res.Exit != 0 {
			return fault.Hint(fmt.Errorf("the example ended with status %d", res.Exit), "see "+res.Dir)
		}
		return nil
	}
	fmt.Fprintf(env.Stderr, "assay run -- python examples/digits/train.py --epochs %d\n\n", epochs)
	if err := train(runOptions{asked: target.Words{On: target.Auto}, profile: "auto", warnEpoch: defaultWarnEpoch,
		out: out}, epochs); err != nil {
		return err
	}
	double := runOptions{asked: target.Words{On: evidence.OnDouble, Torch: demoRelease}, profile: "off",
		warnEpoch: defaultWarnEpoch, out: out}
	if out != "" {
		double.out = filepath.Clean(out) + "-double"
	}
	fmt.Fprintf(env.Stderr, "\nassay run --on double --torch %s -- python examples/digits/train.py --epochs %d\n\n",
		demoRelease, min(epochs, 2))
	if err := train(double, min(epochs, 2)); err != nil {
		return err
	}
	for _, m := range demoMeets {
		if err := demoMeet(ctx, env, interpreter, folder, m.script, m.torch); err != nil {
			return err
		}
	}
	return nil
}

// demoMeet rehearses a script that the device refuses something, and says what.
func demoMeet(ctx context.Context, env *Env, interpreter, folder, script, torch string) error {
	source, err := examples.Double.ReadFile("double/" + script)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, script), source, 0o644)
	}
	if err != nil {
		return fmt.Errorf("unpack examples/double/%s: %w", script, err)
	}
	fmt.Fprintf(env.Stderr, "\nassay run --on double --torch %s -- python examples/double/%s\n", torch, script)
	var said bytes.Buffer
	apart := *env
	apart.Dir, apart.Stdin, apart.Stdout, apart.Stderr = folder, nil, io.Discard, &said
	opts := runOptions{asked: target.Words{On: evidence.OnDouble, Torch: torch}, profile: "off",
		warnEpoch: defaultWarnEpoch,
		out:       filepath.Join(folder, script+"-run"), quiet: true}
	var res *probe.Result
	if res, err = runSubject(ctx, &apart, opts, []string{interpreter, script}); err != nil {
		return err
	}
	res.LetGo()
	if res.Run.Rehearsal == nil || len(res.Run.Rehearsal.Refusals) == 0 {
		return fmt.Errorf("the double refused nothing to examples/double/%s, which ended with status %d: %s", script,
			res.Exit, said.String())
	}
	for _, r := range res.Run.Rehearsal.Refusals {
		if !r.Ended {
			continue
		}
		w := width(env, env.Stderr)
		text, _, _ := strings.Cut(r.Text, "\n")
		if r.Cause == "missing" {
			text = "no kernel for MPS in torch " + torch
		}
		var b strings.Builder
		wrapTo(&b, fmt.Sprintf("%s: %s raised %s: %s", r.Where, r.Operator, r.Error, text), "  ", "    ", w)
		if r.Remedy != "" {
			wrapTo(&b, "do: "+r.Remedy, "  ", "    ", w)
		}
		fmt.Fprint(env.Stderr, b.String())
	}
	return nil
}
