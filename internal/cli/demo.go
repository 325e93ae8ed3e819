package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"assay/examples"
	"assay/internal/fault"
	"assay/internal/probe"
	"assay/internal/python"
)

func newDemoCommand(env *Env) *cobra.Command {
	epochs := 8
	out := ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train the example on this machine, measure it, and write the report",
		Long: `Makes a Python environment with pinned packages (once; PyTorch for Linux is some 5 GB on disk), trains examples/digits in it, a
small vision transformer on scikit-learn's handwritten digits, under assay run, and writes the report.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&epochs, "epochs", epochs, "`epochs` to train")
	cmd.Flags().StringVar(&out, "out", "", "`folder` of the run; default .assay/runs/TIME-NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runDemo(cmd.Context(), env, epochs, out) }
	return cmd
}

func runDemo(ctx context.Context, env *Env, epochs int, out string) error {
	if epochs < 1 {
		return fault.Exit(fmt.Errorf("--epochs %d: at least 1", epochs), fault.Usage)
	}
	cache, err := python.CacheDir(env.Environ)
	if err != nil {
		return err
	}
	interpreter, err := python.Ensure(ctx, cache, python.Demo(), env.Stderr)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "assay-demo-")
	if err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	defer os.RemoveAll(folder)
	script := filepath.Join(folder, "train.py")
	if err := os.WriteFile(script, examples.Digits, 0o644); err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	fmt.Fprintf(env.Stderr, "assay run -- python examples/digits/train.py --epochs %d\n\n", epochs)
	opts := runOptions{on: "auto", profile: "auto", warnEpoch: "30m", out: out}
	var res *probe.Result
	res, err = runSubject(ctx, env, opts, []string{interpreter, script, "--epochs", strconv.Itoa(epochs)})
	if err != nil {
		return err
	}
	if res.Exit != 0 {
		return fault.Hint(fmt.Errorf("the example ended with status %d", res.Exit), "see "+filepath.Join(res.Dir, "report.html"))
	}
	return nil
}
