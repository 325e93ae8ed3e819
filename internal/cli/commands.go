package cli

import "github.com/spf13/cobra"

// commands is the explicit list, in the order of the help page.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newDemoCommand(env),
		newRunCommand(env),
		newShowCommand(env),
		newDoctorCommand(env),
		newOpsCommand(env),
		newVersionCommand(env),
	}
}
