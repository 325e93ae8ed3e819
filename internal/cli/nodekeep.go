package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/node"
)

// mostJob is how long a file with a job may be: its environment may be long.
const mostJob = 1 << 20

// newNodeKeepCommand keeps a job of a node: in the foreground, as a task of Ray does, or as the process that a guard
// starts.
func newNodeKeepCommand(env *Env) *cobra.Command {
	var root, name, path string
	cmd := &cobra.Command{
		Use:    "keep --job FILE [--root DIR]",
		Short:  "Start a job of the node and see it to its end",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.Flags().StringVar(&root, "root", "", "`folder` of the node; default $ASSAY_NODE or ~/.assay-node")
	cmd.Flags().StringVar(&path, "job", "", "`file` with the job as JSON; it ends when standard input does")
	cmd.Flags().StringVar(&name, "name", "", "`name` of a job whose guard starts this")
	cmd.MarkFlagsMutuallyExclusive("job", "name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		root, err := nodeRoot(env, root)
		if err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find assay itself: %w", err)
		}
		switch {
		case name != "":
			return node.Keep(root, name, program)
		case path == "":
			return fault.Exit(fault.Hint(errors.New("keep a job: none is named"), "name its file with --job"),
				fault.Usage)
		}
		job, err := readJob(env.Path(path))
		if err != nil {
			return err
		}
		runs, err := node.NewRuns(root, program)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer stop()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // who reads no more has closed standard input too
		return keepForeground(ctx, env, runs, job)
	}
	return cmd
}

func keepForeground(ctx context.Context, env *Env, runs *node.Jobs, job node.Job) error {
	_, err := node.Foreground(ctx, runs, job, env.Stdin, env.Stdout)
	return err
}

func readJob(path string) (node.Job, error) {
	var job node.Job
	f, err := os.Open(path)
	if err != nil {
		return job, fmt.Errorf("read the job: %w", err)
	}
	defer f.Close()
	in := json.NewDecoder(io.LimitReader(f, mostJob))
	in.DisallowUnknownFields()
	if err := in.Decode(&job); err != nil {
		return job, fmt.Errorf("read the job in %s: %w", path, err)
	}
	return job, nil
}

// newNodeGuardCommand is what a node starts beside each job.
func newNodeGuardCommand(env *Env) *cobra.Command {
	var root, name string
	var beside bool
	cmd := &cobra.Command{
		Use:    "guard --root DIR --name JOB",
		Short:  "Stand by a job of the node until nothing of it lives",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find assay itself: %w", err)
			}
			return node.Guard(env.Path(root), name, program, beside)
		},
	}
	cmd.Flags().StringVar(&root, "root", "", "`folder` of the node")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the job")
	cmd.Flags().BoolVar(&beside, "beside", false, "another keeps it: wait for its end")
	return cmd
}

// newNodeEnvironCommand says what environment a login shell gives it.
func newNodeEnvironCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:    "environ",
		Short:  "Print the environment that a job would be started with",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(env.Stdout, node.Environ(env.Environ))
			return err
		},
	}
}
