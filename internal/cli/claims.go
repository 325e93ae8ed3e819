package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"assay/internal/claims"
)

func newClaimsCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "claims [NUMBER]",
		Short: "Say what is true of what circulates about training on a Mac",
		Long: `Lists claims that guides make about training on a Mac, a line each: number, verdict, and what is true of it. With a number it tells one in full:
the verdict release by release, why, what to do instead, what is not known, and the evidence with its sources. What a verdict rests on is asked of the
atlas each time. 12 stands for 12a to 12f. docs/claims.md holds the same.`,
		Example: `  assay claims
  assay claims 5
  assay claims 16 --json`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the record ("+claims.Schema+")")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runClaims(env, args, asJSON) }
	return cmd
}

func runClaims(env *Env, args []string, asJSON bool) error {
	l := claims.Open()
	list := l.Claims
	if len(args) > 0 {
		if list = l.Find(args[0]); len(list) == 0 {
			return usage(fmt.Errorf("claims: there is no claim %q", args[0]),
				"`assay claims` lists them with their numbers")
		}
	}
	switch {
	case asJSON:
		return l.JSON(env.Stdout, list)
	case len(args) > 0:
		return l.Full(env.Stdout, list, width(env, env.Stdout))
	}
	return l.List(env.Stdout, list, width(env, env.Stdout))
}
