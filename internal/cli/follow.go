package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/host"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/text"
)

const (
	lookEvery  = 250 * time.Millisecond // as often as assay run writes
	drawEvery  = time.Second
	lineEvery  = 10 * time.Second // where what is drawn goes into a pipe
	newestRuns = 20               // are looked at for one that is under way
	evidenceBy = 10 * time.Second // from a run's last event to its evidence: assay run reads the trace and the packages
)

// awaitRun is the folder of the run that is under way below .assay/runs, of several the newest. Where there is none it
// waits for one to begin.
func awaitRun(ctx context.Context, env *Env) (string, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for said := false; ; said = true {
		if dir := underWay(env.Path(runsFolder)); dir != "" {
			return dir, nil
		}
		if !said {
			fmt.Fprintf(env.Stderr, "assay: no run is under way below %s: waiting for one; Ctrl-C ends the waiting\n",
				text.Line(runsFolder))
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}

// underWay is the newest run of a folder that somebody writes; "" where there is none.
func underWay(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	entries = entries[max(0, len(entries)-newestRuns):]
	for _, entry := range slices.Backward(entries) { // names begin with the time
		dir := filepath.Join(folder, entry.Name())
		if run, err := probe.Follow(dir); err == nil {
			abandoned := run.Abandoned()
			run.Close()
			if !abandoned {
				return dir
			}
		}
	}
	return ""
}

// follower draws a run that is under way.
type follower struct {
	env      *Env
	run      *probe.Following
	inPlace  bool // on a terminal
	screen   host.Screen
	drawn    time.Time
	took     time.Duration // to draw it
	lined    time.Time
	epochs   int
	findings map[string]bool
}

// followRun draws the run in dir as it goes on. It returns when the run has ended or was cut off, and the whole can be
// shown.
func followRun(ctx context.Context, env *Env, dir string) error {
	run, err := probe.Follow(dir)
	if errors.Is(err, os.ErrNotExist) {
		if _, _, loaded := probe.Load(dir); loaded == nil {
			return nil // evidence alone: it has ended
		}
	}
	if err != nil {
		return err
	}
	defer run.Close()
	f := &follower{env: env, run: run, inPlace: isTerminal(env.Stdout) && env.Getenv("TERM") != "dumb",
		findings: map[string]bool{}}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var ended time.Time
	came, silent := false, 0
	for {
		more, err := run.More()
		if err != nil {
			return err
		}
		came = came || more
		if silent++; more {
			silent = 0
		}
		switch now := env.Now(); {
		case run.Ended() && ended.IsZero():
			ended = now
		case run.Ended() && (run.Written() || run.Abandoned() || now.Sub(ended) > evidenceBy):
			return f.finish()
		case run.Ended():
		case silent > 1 && run.Abandoned():
			if err := f.finish(); err != nil {
				return err
			}
			fmt.Fprintln(env.Stderr, "assay: the run was cut off: the assay run that wrote it has ended; what came until then:")
			return nil
		case (came || f.resized()) && now.Sub(f.drawn) >= max(drawEvery, 10*f.took):
			if err := f.draw(now); err != nil {
				return err
			}
			came = false
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// resized says whether the terminal has another size than when it was drawn.
func (f *follower) resized() bool {
	screen, _ := host.ScreenOf(f.env.Stdout)
	return f.inPlace && screen != f.screen
}

// draw the run as far as it has come.
func (f *follower) draw(now time.Time) error {
	began := time.Now()
	soFar, ahead := f.run.Run(), f.ahead()
	first := f.drawn.IsZero()
	f.drawn = now
	if !f.inPlace {
		err := f.lines(now, soFar, ahead)
		f.took = time.Since(began)
		return err
	}
	screen, _ := host.ScreenOf(f.env.Stdout)
	var b strings.Builder
	if first || screen != f.screen {
		b.WriteString(clearScreen)
	}
	f.screen = screen
	b.WriteString(cursorHome)
	live := report.Live{Width: columns(f.env, f.env.Stdout), Height: screen.Rows, Color: colours(f.env, f.env.Stdout)}
	if screen.Columns > 0 {
		live.Width = min(live.Width, screen.Columns) // a line that is wider would take two
	}
	for _, line := range live.Frame(soFar, ahead) {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(f.env.Stdout, b.String())
	f.took = time.Since(began)
	return err
}

// lines writes for a pipe: a line whenever an epoch has begun or some time has passed, and each finding when it comes.
func (f *follower) lines(now time.Time, soFar *evidence.Run, ahead report.Ahead) error {
	for _, finding := range soFar.Findings {
		which := finding.Name + " " + finding.Where // its text may change as the run goes on
		if f.findings[which] || finding.Name == "loop-not-recognised" {
			continue
		}
		f.findings[which] = true
		line := string(finding.Severity) + ": "
		if finding.Where != "" {
			line += finding.Where + ": "
		}
		line += finding.Text
		if finding.Hint != "" {
			line += " → " + finding.Hint
		}
		if _, err := fmt.Fprintln(f.env.Stdout, text.Line(line)); err != nil {
			return err
		}
	}
	if len(soFar.Epochs) == f.epochs && now.Sub(f.lined) < lineEvery {
		return nil
	}
	f.lined, f.epochs = now, len(soFar.Epochs)
	_, err := fmt.Fprintln(f.env.Stdout, report.Live{}.Line(soFar, ahead))
	return err
}

func (f *follower) ahead() report.Ahead {
	e, ok := f.run.Estimate()
	if !ok {
		return report.Ahead{}
	}
	return report.Ahead{Of: e.Of, Steps: e.Steps, Seconds: e.Seconds, Low: e.Low, High: e.High}
}

// finish makes room for the whole.
func (f *follower) finish() error {
	s := "\n"
	switch {
	case f.inPlace && !f.drawn.IsZero():
		s = clearScreen
	case f.drawn.IsZero():
		s = ""
	}
	_, err := io.WriteString(f.env.Stdout, s)
	return err
}

// ECMA-48: CUP takes the cursor to the upper left corner, ED and EL clear the screen, what is below, the rest of the
// line.
const (
	cursorHome  = "\x1b[H"
	clearScreen = cursorHome + "\x1b[2J"
	clearBelow  = "\x1b[J"
	clearLine   = "\x1b[K"
)
