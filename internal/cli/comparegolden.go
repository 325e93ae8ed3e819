package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/golden"
)

// goldenComparison compares golden files, and models that it records first.
type goldenComparison struct {
	record goldenOptions
	within golden.Tolerances
	given  func(flag string) bool
}

func (c *goldenComparison) flags(cmd *cobra.Command) {
	c.within = golden.Usual
	c.given = func(flag string) bool { return cmd.Flags().Changed(flag) }
	c.record.flags(cmd)
	f := cmd.Flags()
	f.Var((*share)(&c.within.Output), "within",
		"relative `difference` that outputs and weights, or the losses of runs, may have: "+
			"1e-3, 0.1%; of models 1e-12 where both sides are of float64")
	f.Float64Var(&c.within.Gradient, "gradients-within", c.within.Gradient,
		"relative `difference` that all gradients together may have; 1e-11 where both sides are of float64")
	f.Float64Var(&c.within.Update, "updates-within", c.within.Update,
		"relative `difference` that all updates together may have")
}

func (c *goldenComparison) String() string { return "a comparison of models" }

func (c *goldenComparison) reads() []string {
	return []string{"python", "input", "shape", "layout", "scale", "device", "eval", "float64", "steps", "timed",
		"rate", "within", "gradients-within", "updates-within"}
}

// takes whatever is left: it is the last that is asked.
func (c *goldenComparison) takes(*Env, []string, int) bool { return true }

func (c *goldenComparison) compare(ctx context.Context, env *Env, words []string, json bool) (int, error) {
	if len(words) != 2 {
		return 0, fault.Exit(fault.Hint(fmt.Errorf("two to compare, not %d", len(words)), "see: assay compare --help"),
			fault.Usage)
	}
	folder, err := os.MkdirTemp("", "assay-compare-")
	if err != nil {
		return 0, fmt.Errorf("compare: a folder for what is recorded: %w", err)
	}
	defer os.RemoveAll(folder)
	var sides [2]*golden.Golden
	for i, name := range words {
		path := env.Path(name)
		if isModelFile(name) {
			path = filepath.Join(folder, strconv.Itoa(i))
			if err := recordGolden(ctx, env, c.record, name, path); err != nil {
				return 0, err
			}
		}
		g, err := golden.Open(path)
		if err != nil {
			return 0, err
		}
		defer g.Close()
		g.Path = name
		sides[i] = g
	}
	if sides[0].Float64 && sides[1].Float64 {
		if !c.given("within") {
			c.within.Output = golden.Exact.Output
		}
		if !c.given("gradients-within") {
			c.within.Gradient = golden.Exact.Gradient
		}
	}
	r, err := golden.Compare(sides[0], sides[1], c.within)
	if err != nil {
		return 0, fmt.Errorf("compare %s with %s: %w", words[0], words[1], err)
	}
	if json {
		err = r.JSON(env.Stdout)
	} else {
		err = r.Text(env.Stdout, width(env, env.Stdout))
	}
	if err != nil {
		return 0, fmt.Errorf("print what was compared: %w", err)
	}
	return r.Status(), nil
}
