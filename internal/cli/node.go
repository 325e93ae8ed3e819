package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/file"
	"assay/internal/node"
)

// newNodeCommand is what assay elsewhere starts on a host, over ssh or in a Ray task.
func newNodeCommand(env *Env) *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Answer an assay elsewhere, over standard input and output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNode(cmd.Context(), env, root)
		},
	}
	cmd.AddCommand(newNodeKeepCommand(env), newNodeGuardCommand(env), newNodeEnvironCommand(env))
	cmd.Flags().StringVar(&root, "root", "", "`folder` of the node's files (default $ASSAY_NODE, else ~/.assay-node)")
	return cmd
}

func runNode(ctx context.Context, env *Env, root string) error {
	home := file.Home(env.Environ)
	root, err := nodeRoot(env, root)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find assay itself: %w", err)
	}
	runs, err := node.NewRuns(root, program)
	if err != nil {
		return err
	}
	return node.Serve(ctx, env.Stdin, env.Stdout, node.Options{Root: root, Home: home, Version: Version(), Runs: runs})
}

// nodeRoot is the folder of a node's files on this machine.
func nodeRoot(env *Env, root string) (string, error) {
	if root == "" {
		root = env.Getenv("ASSAY_NODE")
	}
	if root != "" {
		return env.Path(root), nil
	}
	home := file.Home(env.Environ)
	if home == "" {
		return "", fmt.Errorf("find the folder of the node's files: there is no home folder, and no ASSAY_NODE")
	}
	return filepath.Join(home, ".assay-node"), nil
}
