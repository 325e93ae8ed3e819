package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/models"
	"assay/internal/target"
)

// adviseOptions are the flags of `assay advise`.
type adviseOptions struct {
	Torch, Chip, MacOS string
	JSON               bool
}

func newAdviseCommand(env *Env) *cobra.Command {
	var opts adviseOptions
	cmd := &cobra.Command{
		Use:   "advise TASK",
		Short: "Name architectures for a task that a Mac can train, with the reasons",
		Long: `Makes a short list for a task from the table of assay models: what runs forward and backward in that release of PyTorch, since when, which
wrong results it meets, what falls back to the CPU, and whether training fits the working set that Metal recommends on that Mac, at batch 8, else
at batch 1. What is left out is named, and why. What TASK
can be, the error about an unknown one says: classification, detection, instance segmentation, text, speech and others.

It goes by the table alone, at the sizes that stands there: how accurate or how fast a model is it does not know, and says so.`,
		Example: `  assay advise detection --chip m2-16gb
  assay advise instance segmentation --chip m4-max-64gb --torch 2.8 --json`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.Chip, "chip", "", "`chip` of the Mac, as m2-16gb or m3-ultra-96gb; default that of assay.toml, else "+
		target.DefaultChip)
	f.StringVar(&opts.MacOS, "macos", "", "`release` of macOS, 15 or 15.5; default that of assay.toml, else 15")
	f.StringVar(&opts.Torch, "torch", "", "`release` of PyTorch, 2.8 or 2.8.0 ("+torchDefault+")")
	f.BoolVar(&opts.JSON, "json", false, "print the record ("+models.AdviceSchema+")")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runAdvise(env, opts, args) }
	return cmd
}

func runAdvise(env *Env, opts adviseOptions, args []string) error {
	t := models.Open()
	if len(args) == 0 {
		return usage(errors.New("advise: no task"), "there are: "+strings.Join(t.Tasks(), ", "))
	}
	task, err := modelsTask(t, "advise", strings.Join(args, " "))
	if err != nil {
		return err
	}
	aim, release, err := modelsRelease(env, t, "advise",
		target.Words{Torch: opts.Torch, Chip: opts.Chip, MacOS: opts.MacOS})
	if err != nil {
		return err
	}
	limit, err := adviseLimit(t, aim)
	if err != nil {
		return err
	}
	advice := t.Advise(task, release, limit)
	if opts.JSON {
		return advice.JSON(env.Stdout)
	}
	if err := advice.Text(env.Stdout, width(env, env.Stdout)); err != nil {
		return err
	}
	return sayAim(env.Stdout, env, aim)
}

// adviseLimit is the memory of the Mac aimed at.
func adviseLimit(t *models.Table, aim target.Aim) (models.Limit, error) {
	name := aim.Chip
	if name == "" {
		name = target.DefaultChip
	}
	chip, err := target.ParseChip(name)
	if err != nil {
		return models.Limit{}, fault.Exit(fmt.Errorf("advise: %w", err), fault.Usage)
	}
	macOS := target.DefaultMacOS
	if aim.MacOS != "" {
		if macOS, err = target.ParseMacOS(aim.MacOS); err != nil {
			return models.Limit{}, fault.Exit(fmt.Errorf("advise: %w", err), fault.Usage)
		}
	}
	limit, known := t.Limit(chip.Memory, macOS[0])
	if !known {
		err := fmt.Errorf("advise: the working set that Metal recommends on a Mac with %d GiB under macOS %s is not known",
			chip.Memory, macOS)
		return limit, fault.Hint(err, "name another --macos, or another --chip")
	}
	return limit, nil
}
