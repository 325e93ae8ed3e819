package cli

import "github.com/spf13/cobra"

// commands is the explicit list, in the order of the help page.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newDemoCommand(env),
		newRunCommand(env),
		newTestCommand(env),
		newTryCommand(env),
		newSweepCommand(env),
		newFleetCommand(env),
		newGoldenCommand(env),
		newCompareCommand(env),
		newSignaturesCommand(env),
		newFitsCommand(env),
		newShowCommand(env),
		newGateCommand(env),
		newVerdictCommand(env),
		newExplainCommand(env),
		newLogCommand(env),
		newServeCommand(env),
		newHandoffCommand(env),
		newDoctorCommand(env),
		newOpsCommand(env),
		newAtlasCommand(env),
		newCheckCommand(env),
		newRuleCommand(env),
		newModelsCommand(env),
		newAdviseCommand(env),
		withLayout(env, newTensorsCommand(env)),
		newClaimsCommand(env),
		newConvertCommand(env),
		newLSPCommand(env),
		newInitCommand(env),
		newVersionCommand(env),
		newWitnessCommand(env),
		newNodeCommand(env),
	}
}
