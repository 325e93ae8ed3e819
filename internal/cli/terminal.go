package cli

import (
	"io"
	"strconv"

	"assay/internal/host"
	"assay/internal/report"
)

// isTerminal reports whether what is written there is drawn on a terminal.
func isTerminal(w io.Writer) bool {
	_, ok := host.ScreenOf(w)
	return ok
}

// columns is how wide what is written to w may be: as $COLUMNS says, else as the terminal does; 0 where nobody says.
func columns(env *Env, w io.Writer) int {
	if n, err := strconv.Atoi(env.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	screen, _ := host.ScreenOf(w)
	return screen.Columns
}

// width is columns as most texts want it: between 60 and 120, and 100 where nobody says.
func width(env *Env, w io.Writer) int {
	n := columns(env, w)
	if n == 0 {
		return 100
	}
	return min(max(n, 60), 120)
}

// colours says whether what is written to w may have colours: on a terminal, unless it is a dumb one or NO_COLOR or
// CLICOLOR=0 asks for none; elsewhere where FORCE_COLOR or CLICOLOR_FORCE asks for them (no-color.org,
// force-color.org, bixense.com/clicolors). NO_COLOR has the last word.
func colours(env *Env, w io.Writer) bool {
	if env.Getenv("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		if v := env.Getenv(name); v != "" && v != "0" {
			return true
		}
	}
	return isTerminal(w) && env.Getenv("TERM") != "dumb" && env.Getenv("CLICOLOR") != "0"
}

// summary is the form of a run's summary that suits w.
func summary(env *Env, w io.Writer) report.Text {
	return report.Text{Width: columns(env, w), Color: colours(env, w)}
}
