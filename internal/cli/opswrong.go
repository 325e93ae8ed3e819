package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/facts"
	"assay/internal/target"
)

// knownWrong lists the wrong results that are known of a release of torch, on a macOS as target.ParseMacOS takes it
// ("": any).
func knownWrong(torch, macos string) []facts.Said {
	on, err := target.ParseMacOS(macos)
	if err != nil {
		on = target.MacOS{}
	}
	return facts.Load().Known(torch, [2]int{on[0], on[1]}, facts.Wrong)
}

// wrongOps is `assay ops --wrong`.
func wrongOps(env *Env, opts opsOptions, aim target.Aim) error {
	said := knownWrong(aim.Torch, aim.MacOS)
	if opts.JSON {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(&opsAnswer{Schema: opsSchema, Torch: aim.Torch, From: aim.Why, Beside: aim.Besides,
			Basis: "derived", Operators: []opsState{}, Facts: opsFacts(said), Sources: []opsRelease{}})
	}
	var b strings.Builder
	on := ""
	if aim.MacOS != "" {
		on = " and macOS " + aim.MacOS
	}
	fmt.Fprintf(&b, "%d known wrong results on MPS with torch %s%s, those that are certain first\n", len(said), aim.Torch, on)
	factsText(&b, opsFacts(said), width(env, env.Stdout))
	fmt.Fprintf(&b, "\n`assay ops NAME` tells one; `assay check` finds those that a project's code shows.\n")
	if _, err := env.Stdout.Write([]byte(b.String())); err != nil {
		return err
	}
	return sayAim(env.Stdout, env, aim)
}
