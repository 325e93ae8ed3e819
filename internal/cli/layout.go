package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"assay/internal/convert"
	"assay/internal/layout"
	"assay/internal/weights"
)

// withLayout gives `assay tensors` its --layout.
func withLayout(env *Env, cmd *cobra.Command) *cobra.Command {
	var expected string
	cmd.Flags().StringVar(&expected, "layout", "",
		"say which layout kernels have, and why; `EXPECTED` torch, keras or mlx makes it a check, any none")
	cmd.Long += `

With --layout the layout of each kernel and dense layer is said instead, with the reason, how sure it is and what would tell (docs/convert.md). Its
exit status is 3 where a file is not as EXPECTED, is mixed or was converted twice, and 4 where that cannot be told.`
	cmd.Example += "\n  assay tensors --layout mlx model.safetensors"
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if expected == "" {
			return list(cmd, args)
		}
		for _, other := range []string{"json", "stats", "names"} {
			if cmd.Flags().Changed(other) {
				return usage(fmt.Errorf("tensors: --layout and --%s do not go together", other), "ask twice")
			}
		}
		return runLayout(env, expected, args)
	}
	return cmd
}

// runLayout says which layout the kernels of files have, and holds it against the one that is expected.
func runLayout(env *Env, word string, paths []string) error {
	expected, known := layout.ParseFramework(word)
	if !known && word != "any" {
		return usage(fmt.Errorf("tensors: --layout %q is no layout that is known", word),
			"there are torch (OIHW), keras (HWIO), mlx (OHWI); any says what it is")
	}
	var failed []error
	for i, path := range paths {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := sayLayout(env, path, expected); err != nil {
			failed = append(failed, fmt.Errorf("tensors: %w", err))
		}
	}
	return errors.Join(failed...)
}

func sayLayout(env *Env, path string, expected layout.Framework) error {
	f, err := weights.Open(env.Path(path))
	if err != nil {
		return err
	}
	defer f.Close()
	f.Path = path
	return convert.WriteLayout(env.Stdout, f, expected)
}
