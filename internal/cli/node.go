package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"assay/internal/fault"
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
	cmd.Flags().StringVar(&root, "root", "", "`folder` of the node's files (default $ASSAY_NODE, else ~/.assay-node)")
	cmd.AddCommand(newNodeKeepCommand(env), newNodeGuardCommand(env), newNodeEnvironCommand(env),
		newNodeSettleCommand(env))
	return cmd
}

func runNode(ctx context.Context, env *Env, root string) error {
	root, err := nodeRoot(env, root)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find assay itself: %w", err)
	}
	// Who reads no more is an error of the next write, and no signal: what is under way is left in order. What a job is
	// started with it does not change, as ignoring the signal would.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	runs, err := node.NewRuns(root, program)
	if err != nil {
		return err
	}
	facts := &nodeFacts{root: root}
	defer facts.close()
	err = node.Serve(ctx, env.Stdin, env.Stdout, node.Options{Root: root, Home: file.Home(env.Environ),
		Version: Version(), Facts: facts.facts, Runs: runs})
	if errors.Is(err, context.Canceled) { // a signal: what runs is kept by others
		return status(fault.Failed)
	}
	return err
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
		return "", fault.Hint(errors.New("find the folder of the node's files: this user has no home folder"),
			"name one by ASSAY_NODE")
	}
	return filepath.Join(home, ".assay-node"), nil
}

// newNodeSettleCommand is what a host that an assay was copied to runs first: that it runs there, and that its file
// lasts through a loss of power, which a shell cannot see to for one file.
func newNodeSettleCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:    "settle",
		Short:  "Sync the file of this program",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find assay itself: %w", err)
			}
			f, err := os.Open(path)
			if err != nil {
				return fmt.Errorf("sync %s: %w", path, err)
			}
			defer f.Close()
			if err := f.Sync(); err != nil {
				return fmt.Errorf("sync %s: %w", path, err)
			}
			_, err = fmt.Fprintln(env.Stdout, "settled", Version())
			return err
		},
	}
}
