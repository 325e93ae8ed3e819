package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/audit"
	"assay/internal/audit/rules"
	"assay/internal/lsp"
)

func newLSPCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: findings as diagnostics, hovers from the atlas, fixes as code actions",
		Long: `Speaks the Language Server Protocol on standard input and output; an editor starts it. Python files and notebooks that are open are checked as
` + "`assay check`" + ` would, as they stand in the editor, with the settings of their workspace folder. docs/check.md says how editors are set up.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Bool("stdio", true, "taken for editors that pass it; there is no other way")
	cmd.Flags().Int("clientProcessId", 0, "taken for VS Code, which passes it; the server ends with its input")
	cmd.Flags().MarkHidden("clientProcessId")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s := &lsp.Server{Version: Version(),
			Configure: func(folder string) (lsp.Config, error) { return lspConfig(env, folder) }}
		code, err := s.Run(cmd.Context(), env.Stdin, env.Stdout)
		if err != nil {
			return fmt.Errorf("lsp: %w", err)
		}
		if code != 0 {
			return status(code)
		}
		return nil
	}
	return cmd
}

// lspConfig is how the files of a folder are checked.
func lspConfig(env *Env, folder string) (lsp.Config, error) {
	s, err := audit.FindSettings(folder)
	if err != nil {
		return lsp.Config{}, err
	}
	target, err := checkTarget(env, checkOptions{}, s, folder)
	if err != nil {
		return lsp.Config{}, err
	}
	chosen, err := chosenRules(s.Select, s.Ignore)
	if err != nil {
		return lsp.Config{}, err
	}
	c := lsp.Config{Base: folder, Rules: chosen, Known: rules.All, Target: target, Sure: s.Sure, Exclude: s.Excludes()}
	if s.Baseline != "" {
		c.Baseline = filepath.Join(filepath.Dir(s.Path), s.Baseline)
	}
	return c, nil
}
