package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/agent"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/launch"
	"assay/internal/target"
)

// maxAnswer is the longest line of how a test ended, bytes.
const maxAnswer = 64 << 20

// retest runs the tests that failed once more with the same command, on the CPU and without the double.
func retest(o Options, path, boot string, ids []string) fold.RetestEvent {
	folder, err := file.Temp(o.Environ, o.Dir, "tests")
	if err != nil {
		return fold.RetestEvent{Missing: "the tests that failed were not run on the CPU: " + err.Error()}
	}
	defer folder.Remove()
	dir := folder.Path
	only, out := filepath.Join(dir, "only.json"), filepath.Join(dir, "out.jsonl")
	data, err := json.Marshal(ids)
	if err == nil {
		err = os.WriteFile(only, data, 0o600)
	}
	if err != nil {
		return fold.RetestEvent{Missing: "the tests that failed were not run on the CPU: " + err.Error()}
	}
	config := map[string]any{"tests": map[string]string{"only": only, "out": out}, "on": target.CPU().Device}
	environ := append(childEnviron(o.Environ, boot, config, target.CPU()),
		"COVERAGE_FILE="+filepath.Join(dir, "coverage"))
	again, err := o.Launcher.Start(launch.Command{Path: path, Args: o.Command, Environ: environ, Dir: o.Dir,
		Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return fold.RetestEvent{Missing: "the tests that failed were not run on the CPU: " + err.Error()}
	}
	<-again.Ended()
	var e fold.RetestEvent
	if f, err := os.Open(out); err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, maxAnswer)
		for lines.Scan() {
			var row [3]string
			if json.Unmarshal(lines.Bytes(), &row) == nil {
				e.Rows = append(e.Rows, row)
			}
		}
	}
	if len(e.Rows) < len(ids) {
		e.Missing = fmt.Sprintf("of %d tests that failed, %d were run on the CPU", len(ids), len(e.Rows))
		switch ending, err := again.Ending(); {
		case err != nil:
			e.Missing += ": " + err.Error()
		case ending.Signal != 0:
			e.Missing += ": it ended by " + launch.SignalName(ending.Signal)
		case ending.Exit != 0:
			e.Missing += fmt.Sprintf(": it ended with status %d", ending.Exit)
		}
	}
	return e
}

// RunSuite runs the command with nothing but its tests followed, on a device that needs no double: nothing is measured,
// and what it prints is passed on as the options say. Signals are the command's until o.Launcher is released.
func RunSuite(o Options) error {
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return err
	}
	path, err := o.Launcher.Look(o.Command[0], o.Environ, o.Dir)
	if err != nil {
		return err
	}
	c := launch.Command{Path: path, Args: o.Command, Dir: o.Dir, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
		Environ: childEnviron(o.Environ, installed.Boot, map[string]any{"suite": o.Suite.Settings(),
			"on": o.On.Device}, o.On)}
	p, err := o.Launcher.Start(c)
	if err != nil {
		return err
	}
	_, err = toItsEnd(o, c, p, func(string) {})
	return err
}
