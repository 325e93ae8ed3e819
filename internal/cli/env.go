// Package cli turns a command line into a call of one room and its answer into output. One file per command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/text"
)

// Env is what lies outside the process, so that a test can hand in its own.
type Env struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // NAME=value, as os.Environ gives them
	Dir     string   // working folder, absolute
	Now     func() time.Time
	Witness []string // command that runs `assay witness`
}

// OSEnv is the real outside.
func OSEnv() *Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	env := &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now}
	if path, err := os.Executable(); err == nil {
		env.Witness = []string{path, "witness"}
	}
	return env
}

// Getenv returns the last value of the variable, or "".
func (e *Env) Getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// Path makes a path given by the user absolute.
func (e *Env) Path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(e.Dir, p)
}

// status is an error that only sets the exit status: everything has been said already.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Main runs the command line and returns the exit status.
func Main(env *Env, args []string) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var s status
	switch {
	case err == nil:
		return fault.OK
	case errors.As(err, &s):
		return int(s)
	}
	for _, words := range []string{"unknown command", "if any flags in the group"} { // cobra's own
		if strings.HasPrefix(err.Error(), words) && fault.HintOf(err) == "" {
			err = fault.Exit(fault.Hint(err, "see: assay --help"), fault.Usage)
		}
	}
	fmt.Fprintf(env.Stderr, "assay: %s\n", text.Lines(err.Error()))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(env.Stderr, "  %s\n", text.Lines(hint))
	}
	return fault.CodeOf(err)
}

// Root is the command line itself, for what is made from it: completions and manual pages (tools/release).
func Root(env *Env) *cobra.Command { return newRootCommand(env) }

func newRootCommand(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "assay",
		Short: "Tells, with evidence, whether and how deep-learning code runs on an Apple GPU",
		// Errors are printed once, by Main.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.Exit(fault.Hint(err, "see: "+cmd.CommandPath()+" --help"), usageCode(cmd))
	})
	root.AddCommand(commands(env)...)
	countArguments(root)
	return root
}

// countArguments makes a wrong number of arguments a wrong command line, with its status and where to look.
func countArguments(cmd *cobra.Command) {
	if right := cmd.Args; right != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := right(cmd, args); err != nil {
				return fault.Exit(fault.Hint(err, "see: "+cmd.CommandPath()+" --help"), usageCode(cmd))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		countArguments(sub)
	}
}

// usageCode is the status of a wrong command line. Under run, 2 could be the script's own, so that run says 125.
func usageCode(cmd *cobra.Command) int {
	if cmd.Name() == "run" {
		return fault.NotStarted
	}
	return fault.Usage
}
