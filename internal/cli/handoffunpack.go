package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/fault"
)

func newHandoffUnpackCommand(env *Env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "unpack BUNDLE -o FOLDER",
		Short: "Verify a bundle, and unpack it into a folder",
		Long: `Makes FOLDER of the bundle, which is not there yet or empty: the code in FOLDER/code, data that were packed along where they belong, an empty
FOLDER/logs for units, and the bundle's files beside them. Whole or not at all; a bundle that is damaged, or leads out of the folder, is refused.
Nothing in it is run.`,
		Example: "  assay handoff unpack bundle.tar.zst -o ~/runs/vit",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "`folder` to make")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if out == "" {
			return fault.Exit(fault.Hint(errors.New("no folder to make: name it with -o"),
				"see: assay handoff unpack --help"), fault.Usage)
		}
		b, err := bundle.Open(env.Path(args[0]))
		if err != nil {
			return err
		}
		folder := env.Path(out)
		if err := b.Unpack(folder); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(folder, bundle.LogPlace), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", args[0], err)
		}
		m := b.Manifest
		_, err = fmt.Fprintf(env.Stdout, "%s: code, %d files; packages by %s; nothing was run\n", out, m.Code.Files,
			orNone(m.Environment.Install))
		return err
	}
	return cmd
}
