package golden

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"assay/agent"
	"assay/internal/fault"
	"assay/internal/text"
)

// Request is what record.py is asked for, and what a user may say of it.
type Request struct {
	File     string  `json:"file"`     // a Python file
	Function string  `json:"function"` // that gives the model, or the model itself
	Inputs   string  `json:"inputs"`   // .npy or .npz; "": see Shape
	Shape    []int64 `json:"shape"`    // of an input that is drawn; empty: the file's own inputs()
	Scale    float64 `json:"scale"`    // its values are 0 to this
	Layout   string  `json:"layout"`   // NCHW or NHWC: of Inputs or Shape; "": as the model takes them
	Eval     bool    `json:"eval"`     // not in training mode
	Float64  bool    `json:"float64"`  // weights, inputs and all that is computed
	Device   string  `json:"device"`   // cpu, cuda, mps, auto
	Steps    int     `json:"steps"`    // updates
	Timed    int     `json:"timed"`    // steps that are timed after them
	Rate     float64 `json:"rate"`     // of Adam, where the file has no optimizer
	Out      string  `json:"out"`
}

// Recorder records golden files.
type Recorder struct {
	Program   string // agent.Installed.Golden
	Dir       string
	Environ   []string
	Narration io.Writer // what the user's file prints
}

// maxAnswer bounds the answer.
const maxAnswer = 64 << 10

// afterEnd is for reading what was written before the process ended.
const afterEnd = 2 * time.Second

// Record has interpreter make the golden file r.Out. It appears whole, or not at all.
func (rec Recorder) Record(ctx context.Context, interpreter string, r Request) (err error) {
	doing := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("recording %s:%s: %w", r.File, r.Function, err)
	}
	out := r.Out
	temp, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+"-*.part")
	if err != nil {
		return doing(err)
	}
	temp.Close()
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	r.Out = temp.Name()
	asked, err := json.Marshal(r)
	if err != nil {
		return doing(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return doing(err)
	}
	defer read.Close()
	shown := text.NewWriter(rec.Narration)
	cmd := exec.CommandContext(ctx, interpreter, rec.Program)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay, cmd.ExtraFiles = rec.Dir, bytes.NewReader(asked), afterEnd, []*os.File{write}
	cmd.Stdout, cmd.Stderr = shown, shown
	for _, e := range rec.Environ {
		if name, _, _ := strings.Cut(e, "="); name != agent.Variable {
			cmd.Env = append(cmd.Env, e)
		}
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return doing(fmt.Errorf("start %s: %w", interpreter, err))
	}
	told, _ := io.ReadAll(io.LimitReader(read, maxAnswer))
	how := cmd.Wait()
	shown.Flush()
	if ctx.Err() != nil {
		return doing(errors.New("stopped"))
	}
	var answer struct {
		OK           bool
		Error, Where string
	}
	if json.Unmarshal(told, &answer) != nil || !answer.OK && answer.Error == "" {
		return doing(fmt.Errorf("%s ended without an answer: %v", interpreter, how))
	}
	if !answer.OK {
		said := text.Line(answer.Error)
		if answer.Where != "" {
			said += " (" + text.Line(answer.Where) + ")"
		}
		return doing(fault.Hint(errors.New(said), "what it printed stands above"))
	}
	return doing(commit(temp.Name(), out))
}

// commit syncs a file and gives it its name.
func commit(temp, out string) error {
	f, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp, out)
}
