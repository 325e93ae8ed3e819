package attempt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"assay/agent"
	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/text"
)

// Times that a process of ours gets beyond what it was asked for.
const (
	// grace is for reporting a model whose time is up, and for forking the next one.
	grace = 30 * time.Second
	// saidKept is how many bytes are kept of what a process prints: its last line is told where it ends too soon.
	saidKept = 4 << 10
	// afterEnd is for reading what was written before it ended: a program that the model started may hold the pipes
	// open.
	afterEnd = 2 * time.Second
)

// heard is what one process told.
type heard struct {
	torch, python string
	offered       int              // models
	attempts      []*attemptAnswer // of each model offered, in their order; where it was stopped, of those told of
}

// try has attempt.py try models once: those named, of the package or by themselves, or all of the package. d is told of
// each as it is answered; nil: nobody is.
func (o *Options) try(ctx context.Context, on target.Target, double *target.Settings, names []string,
	d *doneModels) (*heard, error) {
	if names == nil {
		names = []string{}
	}
	asked := request{Version: Version, Device: on.Device, Double: double, Targets: names, Inputs: o.Inputs,
		Args:  o.Args,
		Eval:  o.Eval,
		Limit: o.Limit.Seconds()}
	if o.All {
		asked.Package = o.Name
	}
	data, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("try %s: %w", o.Name, err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("try %s: %w", o.Name, err)
	}
	defer read.Close()
	said := &text.Tail{Limit: saidKept}
	cmd := o.command(ctx, data, said, on)
	cmd.ExtraFiles = []*os.File{write}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Interpreter, err)
	}
	ended := make(chan struct{})
	var how error
	go func() {
		how = cmd.Wait()
		close(ended)
	}()
	c := &conversation{}
	broken := o.listen(c, read, ended, func() {
		if d != nil {
			d.offered(c)
		}
		if o.All && len(names) == 0 {
			o.say("%d models of %s, %s", len(c.offered), o.Name, o.where())
		}
	}, func(a *attemptAnswer) {
		if d != nil {
			d.told(a)
		}
	})
	if broken == nil {
		select {
		case <-ended:
		case <-time.After(o.grace()): // all is told; what keeps it, a thread of the model's, is not waited for
		}
	}
	cmd.Process.Kill()
	<-ended
	if f, ok := cmd.Stderr.(*shownWriter); ok {
		f.shown.Flush()
	}
	switch {
	case broken != nil:
		return nil, fmt.Errorf("try %s: its answer cannot be read: %w", o.Name, broken)
	case c.refused != nil:
		return nil, o.refusal(c.refused)
	case ctx.Err() != nil && c.offered != nil && len(c.untold()) < len(c.offered): // what was told stands
	case ctx.Err() != nil:
		return nil, fmt.Errorf("try %s: stopped before anything was told", o.Name)
	case c.hello == nil || c.offered == nil || o.All && len(c.offered) > 0 && len(c.untold()) == len(c.offered):
		return nil, fmt.Errorf("try %s: %s ended without an answer (%s): %s", o.Name, o.Interpreter, endedBy(how),
			said.Last(1))
	case len(c.offered) == 0:
		err := fmt.Errorf("%s offers no model that can be built without arguments", o.Name)
		return nil, fault.Hint(err, "name one: assay try MODULE:MODEL --args KEY=VALUE")
	}
	h := &heard{torch: c.hello.Torch, python: c.hello.Python, offered: len(c.offered)}
	for _, name := range c.offered {
		a := c.told[name]
		if a == nil && ctx.Err() != nil {
			continue
		}
		if a == nil {
			a = &attemptAnswer{Target: name, Data: double == nil || !double.ShapeOnly,
				Error: &failurePart{Kind: kindCrash, Text: "the process ended without an answer: " + endedBy(how)}}
		}
		h.attempts = append(h.attempts, a)
	}
	return h, nil
}

// command is attempt.py under the user's Python. What a model of the user's own prints is shown; of the others, and of
// what is tried on the CPU beside the device, the end is kept.
func (o *Options) command(ctx context.Context, request []byte, said *text.Tail, on target.Target) *exec.Cmd {
	cmd := exec.CommandContext(ctx, o.Interpreter, o.program)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = o.Dir, bytes.NewReader(request), afterEnd
	if o.All { // a group of its own: an interrupt of the terminal's is ours, and the model that is being tried ends too
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	for _, e := range o.Environ {
		if name, _, _ := strings.Cut(e, "="); name != agent.Variable && name != "CUDA_VISIBLE_DEVICES" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES=")
	cmd.Stdout, cmd.Stderr = said, said
	if !o.All && on == o.On {
		shown := &shownWriter{shown: text.NewWriter(o.Narration), said: said}
		cmd.Stdout, cmd.Stderr = shown, shown // one writer, so that neither stream writes while the other does
	}
	return cmd
}

// shownWriter shows what is said, made harmless, and keeps its end.
type shownWriter struct {
	shown *text.Writer
	said  *text.Tail
}

func (w *shownWriter) Write(p []byte) (int, error) {
	w.said.Write(p)
	w.shown.Write(p) // what nobody reads any more does not end the attempt
	return len(p), nil
}

// listen follows the answers until the last one, or until nothing more can come. An error is an answer that departs
// from the wire's page. offered is called when the models are known, told with each answer about one. Where models have
// a limit of time, silence beyond it is an error: attempt.py has to end a model that is late.
func (o *Options) listen(c *conversation, from io.Reader, ended <-chan struct{}, offered func(),
	told func(*attemptAnswer)) error {
	type next struct {
		line []byte
		err  error
	}
	lines, enough := make(chan next), make(chan struct{})
	defer close(enough)
	go func() {
		r := bufio.NewReaderSize(from, 64<<10)
		for {
			line, err := readLine(r)
			select {
			case lines <- next{line, err}:
			case <-enough:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var silence, over <-chan time.Time
	for !c.done {
		if o.All && c.offered != nil {
			silence = time.After(o.Limit + o.grace())
		}
		select {
		case n := <-lines:
			switch {
			case errors.Is(n.err, errLong):
				return n.err
			case n.err != nil: // it has ended
				return nil
			}
			first := c.offered == nil
			attempt, err := c.take(n.line)
			if err != nil {
				return err
			}
			if first && c.offered != nil {
				offered()
			}
			if attempt != nil {
				told(attempt)
			}
		case <-ended:
			ended, over = nil, time.After(afterEnd)
		case <-over:
			return nil
		case <-silence:
			return fmt.Errorf("nothing was told of %s for %s, and a model has %s", c.untold()[0], o.Limit+o.grace(),
				o.Limit)
		}
	}
	return nil
}

// refusal is the error where nothing can be tried.
func (o *Options) refusal(f *failurePart) error {
	switch f.Kind {
	case kindTorch:
		err := fmt.Errorf("try %s: import torch in %s: %s", o.Name, o.Interpreter, f.Text)
		return fault.Hint(err, "name an interpreter that has it: --python PATH")
	case kindInput, kindArgs:
		return fault.Exit(fault.Hint(errors.New(f.Text), "see: assay try --help"), fault.Usage)
	case kindTarget:
		return fault.Hint(fmt.Errorf("try %s: %s", o.Name, f.Text),
			"looked for with "+o.Interpreter+"; --python names another")
	}
	at := f.at()
	if at != "" {
		at = " at " + at
	}
	return fmt.Errorf("try %s: importing it raised %s%s: %s", o.Name, f.Type, at, f.Text)
}

// at is where it happened: the user's line, else a library's.
func (f *failurePart) at() string {
	if f.Where != "" {
		return f.Where
	}
	return f.Via
}

// told is the error as Python would print it.
func (f *failurePart) told() string { return strings.TrimPrefix(f.Type+": "+f.Text, ": ") }

// endedBy says how a process ended.
func endedBy(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return "exit status 0"
	case errors.As(err, &exit):
		return exit.Error()
	}
	return err.Error()
}
