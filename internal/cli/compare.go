package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/golden"
	"assay/internal/steps"
)

// A comparison is one form of `assay compare`, told by what its arguments are.
type comparison interface {
	// flags adds those that this form alone has.
	flags(cmd *cobra.Command)
	// takes says whether the words are of this form: dash of them stand before "--", all of them where dash is -1.
	takes(env *Env, words []string, dash int) bool
	// compare prints what it found, as JSON where asked for, and gives the exit status of the answer.
	compare(ctx context.Context, env *Env, words []string, json bool) (int, error)
}

// comparisons are the forms, in the order in which they are asked; the last takes whatever is left.
func comparisons() []comparison {
	golden := &goldenComparison{}
	commands := &stepsComparison{shared: &golden.record}
	forms := []comparison{commands, &recordedComparison{}, golden}
	commands.forms = forms
	return forms
}

func newCompareCommand(env *Env) *cobra.Command {
	var json bool
	forms := comparisons()
	cmd := &cobra.Command{
		Use:   "compare [flags] A B | -- COMMAND [ARG…]",
		Short: "Find where one model begins to differ between two frameworks, devices or releases",
		Long: `A and B are golden files (assay golden), or Python files with a model, [PYTHON@]FILE.py[:FUNCTION], which are recorded first, each under its
Python. Compared are inputs, weights and settings (epsilon, padding, momentum, the optimizer's), then outputs, module by module in the order of
their calls, the loss, gradients and some updates. The first module whose output departs is named, with what is known of its input, its
weights and its settings; then the time of a step and the memory of both, measured in the same run.

Kernels are compared in one layout, pictures with channels first. Weights are paired by their names; what has other names is paired by kind, shape and
order, and said. What has no partner is named; with a weight that has none nothing is called the same.

A.steps and B.steps are recordings of training steps: the first operator and the first module whose input agrees and whose output departs are
named; what differs in the start first. Several pairs, one for each batch size, say from which size on. Tolerances are by type, or measured (--moved).

` + goldenFile + `

` + stepsForm + `

Exit status: 0 where all agrees; 3 where something departs; 4 where it cannot be told; 1 where nothing could be compared; 2 where the command line
is wrong.`,
		Example: `  assay compare --shape 2x3x64x80 --layout NCHW net_torch.py mlx-env/bin/python@net_mlx.py
  assay compare torch.golden net_mlx.py --input batch.npy --layout NCHW
  assay compare cpu.steps cuda.steps --moved moved.steps
  assay compare --on cpu --on mps -- python train.py
  assay compare --record cpu.steps --on cpu -- python train.py`,
		Args: cobra.ArbitraryArgs,
	}
	for _, form := range forms {
		form.flags(cmd)
	}
	cmd.Flags().BoolVar(&json, "json", false, "print the record ("+evidence.Schema+", kind "+golden.KindComparison+
		"; of recorded steps "+steps.KindDepartures+")")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		for _, form := range forms {
			if !form.takes(env, words, cmd.ArgsLenAtDash()) {
				continue
			}
			s, err := form.compare(ctx, env, words, json)
			if err != nil {
				return err
			}
			if s != fault.OK {
				return status(s)
			}
			return nil
		}
		return fault.Exit(fault.Hint(fmt.Errorf("nothing to compare"), "see: assay compare --help"), fault.Usage)
	}
	return cmd
}
