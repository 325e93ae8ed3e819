package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/models"
	"assay/internal/target"
)

// modelsOptions are the flags of `assay models`.
type modelsOptions struct {
	Torch, Task string
	JSON        bool
}

func newModelsCommand(env *Env) *cobra.Command {
	var opts modelsOptions
	cmd := &cobra.Command{
		Use:   "models [PATTERN]",
		Short: "Say which architectures run on MPS, forward and backward, in which release",
		Long: `Lists architectures of torchvision, timm, transformers, diffusers, and packages for segmentation, detection and audio, a line each:
whether one runs in a release of PyTorch, forward and backward, is slow, falls back to the CPU, meets a known wrong result, or stops; why; in which later
release it runs; its parameters, and the peak of memory in training at batch 1 and 8. PATTERN is a name, a part of a name, family or package, or a
pattern with * in it; where one model is left it is told in full, release by release. An id of the Hugging Face hub, one of the hundred most
used or one with the name of a model here, is answered with the model that stands for it by its architecture.

The table was made on the double and is built in: nothing runs, and no Mac was used. It speaks of the sizes and the versions of packages that it
names. What it has not is tried by assay try; docs/models.md says how it was made.`,
		Example: `  assay models
  assay models --task detection --torch 2.8
  assay models detr-resnet-50
  assay models sentence-transformers/all-MiniLM-L6-v2
  assay models 'timm/*' --json`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Torch, "torch", "", "`release` of PyTorch to speak of, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&opts.Task, "task", "", "`task` whose models to list; of an unknown one the error names those there are")
	f.BoolVar(&opts.JSON, "json", false, "print the record ("+models.Schema+")")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runModels(env, opts, args) }
	return cmd
}

func runModels(env *Env, opts modelsOptions, args []string) error {
	t := models.Open()
	aim, release, err := modelsRelease(env, t, "models", target.Words{Torch: opts.Torch})
	if err != nil {
		return err
	}
	task := ""
	if opts.Task != "" {
		if task, err = modelsTask(t, "models", opts.Task); err != nil {
			return err
		}
	}
	pattern := strings.Join(args, "")
	found := t.Find(pattern)
	var asked *models.Asked
	if len(found) == 0 {
		if one, known := t.Stands(pattern); known && one.Model == "" {
			return fault.Hint(fmt.Errorf("models: the table has no model for %s: it is %s", one.ID, one.About),
				"`assay try MODULE:MODEL` tries one that it has not")
		} else if known {
			asked, found = &one, t.Find(one.Model)
		}
	}
	var answers []models.Answer
	for _, m := range found {
		if task == "" || m.Task == task {
			answers = append(answers, t.At(m, release))
		}
	}
	if len(answers) == 0 {
		return fault.Hint(fmt.Errorf("models: the table has no model that %q fits", pattern),
			"`assay models` lists all; `assay try MODULE:MODEL` tries one that it has not")
	}
	switch {
	case opts.JSON:
		return t.JSON(env.Stdout, release, aim.Why, asked, answers)
	case len(answers) == 1:
		err = t.Full(env.Stdout, asked, answers[0], width(env, env.Stdout))
	default:
		err = t.List(env.Stdout, release, answers, width(env, env.Stdout))
	}
	if err != nil {
		return err
	}
	return sayAim(env.Stdout, env, aim)
}

// modelsRelease is the release aimed at, and the one of the table that speaks for it.
func modelsRelease(env *Env, t *models.Table, command string, words target.Words) (target.Aim, string, error) {
	aim, err := aimAt(env, env.Dir, words)
	if err != nil {
		return aim, "", err
	}
	release, known := t.Release(aim.Torch)
	if !known {
		err := fmt.Errorf("%s: the table was made before torch %s", command, aim.Torch)
		return aim, "", fault.Hint(err, "it has "+strings.Join(t.Releases, " ")+"; assay try tries a model on another")
	}
	return aim, release, nil
}

// modelsTask is the table's word for a task; the error names those that there are.
func modelsTask(t *models.Table, command, word string) (string, error) {
	task, known := t.Task(word)
	if !known {
		return "", usage(fmt.Errorf("%s: the table has no models for the task %q", command, word),
			"there are: "+strings.Join(t.Tasks(), ", "))
	}
	return task, nil
}
