package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/golden"
	"assay/internal/steps"
	"assay/internal/trajectory"
)

// A comparison is one form of `assay compare`, told by what its arguments are.
type comparison interface {
	// String is what it compares, as an error names it.
	fmt.Stringer
	// flags adds those that this form alone has.
	flags(cmd *cobra.Command)
	// reads names the flags that mean something to this form; the others are refused.
	reads() []string
	// takes says whether the words are of this form: dash of them stand before "--", all of them where dash is -1.
	takes(env *Env, words []string, dash int) bool
	// compare prints what it found, as JSON where asked for, and gives the exit status of the answer.
	compare(ctx context.Context, env *Env, words []string, json bool) (int, error)
}

// comparisons are the forms, in the order in which they are asked; the last takes whatever is left.
func comparisons() []comparison {
	golden, recorded := &goldenComparison{}, &recordedComparison{}
	commands := &stepsComparison{shared: &golden.record, recorded: recorded}
	return []comparison{commands, recorded, &runsComparison{}, golden}
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

Two recorded runs, as assay show names them: their losses against a tolerance, what changed between them, what of that can explain the difference
and what is left, as a table for a reviewer's signature (--markdown, --html). Runs that are not comparable are refused.

Exit status: 0 where all agrees; 3 where something departs; 4 where it cannot be told; 1 where nothing could be compared; 2 where the command line
is wrong.`,
		Example: `  assay compare --shape 2x3x64x80 --layout NCHW net_torch.py mlx-env/bin/python@net_mlx.py
  assay compare torch.golden net_mlx.py --input batch.npy --layout NCHW
  assay compare cpu.steps cuda.steps --moved moved.steps
  assay compare --on cpu --on mps -- python train.py
  assay compare --record cpu.steps --on cpu -- python train.py
  assay compare cuda-run mps-run --within 1% --html review.html`,
		Args: cobra.ArbitraryArgs,
	}
	for _, form := range forms {
		form.flags(cmd)
	}
	cmd.Flags().BoolVar(&json, "json", false, "print the record ("+evidence.Schema+", kind "+golden.KindComparison+
		"; of recorded steps "+steps.KindDepartures+", of runs "+trajectory.Kind+")")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		for _, form := range forms {
			if !form.takes(env, words, cmd.ArgsLenAtDash()) {
				continue
			}
			if err := otherFlags(cmd, form); err != nil {
				return err
			}
			s, err := form.compare(ctx, env, words, json)
			if fault.CodeOf(err) == fault.NotStarted { // so a run says it, and no run is what was asked for
				err = fault.Exit(err, fault.Failed)
			}
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

// otherFlags refuses what was given and means nothing to this form: nobody would see that it was not heeded.
func otherFlags(cmd *cobra.Command, form comparison) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != "json" && !slices.Contains(form.reads(), f.Name) {
			err = fault.Exit(fault.Hint(fmt.Errorf("--%s means nothing to %s", f.Name, form),
				"see: assay compare --help"), fault.Usage)
		}
	})
	return err
}

// share is a ratio on the command line, written as gates write one: 1% or 0.01.
type share float64

func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

func (s *share) Type() string { return "ratio" }

func (s *share) Set(words string) error {
	number, percent := strings.CutSuffix(words, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return errors.New("a ratio from 0 on: 1e-3 or 0.1%")
	}
	if percent {
		v /= 100
	} else if v > 1 { // 5 would be 500 %, and hold for ever: gates refuse it as well
		return fmt.Errorf("as a ratio it would be %g %%: write %s%%", 100*v, strings.TrimSpace(number))
	}
	*s = share(v)
	return nil
}
