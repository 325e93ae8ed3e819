package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/steps"
)

// recordedComparison compares recordings of training steps: A.steps B.steps, or such pairs of several batch sizes.
type recordedComparison struct {
	cmd   *cobra.Command
	moved string
}

func (c *recordedComparison) flags(cmd *cobra.Command) {
	c.cmd = cmd
	cmd.Flags().StringVar(&c.moved, "moved", "",
		"`C.steps`: A recorded again, its inputs moved by one unit in the last place, to measure tolerances of recorded steps")
}

func (c *recordedComparison) String() string { return "a comparison of recorded steps" }

func (c *recordedComparison) reads() []string { return []string{"moved", "within"} }

func (c *recordedComparison) takes(_ *Env, words []string, dash int) bool {
	if dash >= 0 || len(words) < 2 {
		return false
	}
	for _, w := range words {
		if !strings.HasSuffix(strings.TrimRight(w, "/"), ".steps") {
			return false
		}
	}
	return true
}

func (c *recordedComparison) compare(_ context.Context, env *Env, words []string, json bool) (int, error) {
	if len(words)%2 != 0 {
		return 0, fault.Exit(fault.Hint(fmt.Errorf("recordings are compared in pairs, and these are %d", len(words)),
			"see: assay compare --help"), fault.Usage)
	}
	var options steps.Options
	if within := c.cmd.Flags().Lookup("within"); within.Changed {
		options.Within = float64(*within.Value.(*share))
	}
	return compareRecorded(env, words, c.moved, options, json)
}

// compareRecorded compares folders of recordings, in pairs, and prints what it found. It gives the exit status.
func compareRecorded(env *Env, folders []string, moved string, options steps.Options, json bool) (int, error) {
	open := func(name string) (*steps.Recording, error) {
		r, err := steps.Open(env.Path(name))
		if err == nil {
			r.Name = name
		}
		return r, err
	}
	if moved != "" {
		m, err := open(moved)
		if err != nil {
			return 0, err
		}
		defer m.Close()
		options.Moved = m
	}
	var pairs [][2]*steps.Recording
	for i, name := range folders {
		r, err := open(name)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		if i%2 == 0 {
			pairs = append(pairs, [2]*steps.Recording{})
		}
		pairs[i/2][i%2] = r
	}
	r, err := steps.CompareBatches(pairs, options)
	if err != nil {
		return 0, fmt.Errorf("compare %s: %w", strings.Join(folders, " "), err)
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
