package cli

import (
	"fmt"

	"assay/internal/fold"
	"assay/internal/host"
	"assay/internal/probe"
	"assay/internal/text"
	"assay/internal/unit"
)

// worthSaying is how long an epoch has to be, in seconds, for a line about it while the script runs.
const worthSaying = 60

// sayAhead tells how long an epoch will take, or warns that it is long, while the script runs: a line on the terminal
// that is our standard error, and none anywhere else. The script's own streams stay its own: where they are a file or a
// pipe, ours is likely the same one, and a line in it would be found among the script's. None either where the script
// draws a progress bar, which says the same and would be torn, or has taken the terminal over. The run's folder has
// every estimate, and assay show --follow draws it.
func sayAhead(env *Env, run string) func(fold.EstimateEvent, probe.Telling) {
	return func(e fold.EstimateEvent, t probe.Telling) {
		worth := t.Long || t.First && e.Seconds >= worthSaying
		if !worth || t.Drawing != "" || !host.Quiet(env.Stderr) {
			return
		}
		// The script may have left the cursor in the midst of a line, which is not ours to go on with.
		fmt.Fprintf(env.Stderr, "\n%s", text.Wrapped(ahead(e, t)+followHint(run), "assay: ", "  ",
			width(env, env.Stderr)))
	}
}

// ahead says an estimate in a sentence: "an epoch will take about 41.2 min (38.0 min to 44.4 min, by steps 2–12 of
// 5004): longer than 30 min".
func ahead(e fold.EstimateEvent, t probe.Telling) string {
	of := map[string]string{"epoch": "an epoch", "loop": "the loop", "run": "the run"}[e.Of]
	s := fmt.Sprintf("%s will take about %s (%s to %s, by steps %d–%d of %d)", of, unit.Seconds(e.Seconds),
		unit.Seconds(e.Low), unit.Seconds(e.High), e.First, e.Last, e.Steps)
	if e.Of == "epoch" && e.Seconds > t.Limit {
		s += ": longer than " + unit.Seconds(t.Limit)
	}
	return s
}

func followHint(run string) string {
	if run == "" {
		return ""
	}
	return "; to watch the run from elsewhere: assay show --follow " + text.Line(run)
}
