package replay

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
	"assay/internal/secret"
	"assay/internal/signature"
	"assay/internal/target"
	"assay/internal/text"
)

const (
	// starting is how long a worker may take until it can replay: importing torch from a cold disk and, on a GPU, its
	// first kernels.
	starting = 3 * time.Minute
	// ending is how long a killed process is waited for: one that hangs in a driver may not end at all.
	ending = 5 * time.Second
	// saidKept is how many bytes are kept of what a worker says beside its answers: its last line is told at its end.
	saidKept = 4 << 10
	// maxAnswer bounds a line of a worker's.
	maxAnswer = 1 << 20
	// stages of a call, worker.py: what ends the process after the last of these is the device's
	stageDraw, stageCPU, stageDevice, stageTime = "draw", "cpu", "device", "time"
)

// request is the first line that a worker gets.
type request struct {
	Version int              `json:"version"`
	Device  string           `json:"device"` // as tensors name it
	Double  *target.Settings `json:"double"`
	Home    string           `json:"home"` // the device that the signatures were recorded on, as tensors name it
	Seed    int64            `json:"seed"`
	Timed   bool             `json:"timed"`
	Memory  int64            `json:"memory"` // bytes that a call's tensors may take; 0: a part of the machine's
	Prove   bool             `json:"prove"`
}

// requestVersion is that of the requests and answers between this and worker.py.
const requestVersion = 1

// hello is what a worker says when it is ready.
type hello struct {
	Torch, Python, Error, Proof, Why string
}

// answer is a line of a worker's.
type answer struct {
	Result
	Hello *hello
	At    string
	Sick  bool // the device no longer computes in this process
}

// worker is a process that replays calls until one ends it.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed when nothing more comes
	ended chan struct{}
	how   error
	said  *text.Tail
	hello hello
	// its number may be another's once it was killed
	killed bool
}

// start starts a worker and waits until it is ready. prove has it prove the device.
func (o *Options) start(ctx context.Context, settings *target.Settings, home string, prove bool) (*worker, error) {
	r := request{Version: requestVersion, Device: o.tensors(), Double: settings, Home: home, Seed: o.Seed,
		Timed: !o.Untimed, Memory: o.Memory, Prove: prove}
	asked, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w := &worker{lines: make(chan []byte), ended: make(chan struct{}), said: &text.Tail{Limit: saidKept}}
	w.cmd = exec.Command(o.Interpreter, o.program)
	w.cmd.Dir, w.cmd.ExtraFiles, w.cmd.WaitDelay = o.Dir, []*os.File{write}, ending
	w.cmd.Stdout, w.cmd.Stderr = w.said, w.said
	// a group of its own: an interrupt of the terminal's is assay's, which ends the worker
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, e := range o.Environ {
		switch name, _, _ := strings.Cut(e, "="); {
		case name == agent.Variable, name == fallbackVariable:
		case name == "CUDA_VISIBLE_DEVICES" && o.On.HidesCUDA():
		default:
			w.cmd.Env = append(w.cmd.Env, e)
		}
	}
	w.cmd.Env = append(w.cmd.Env, fallbackVariable+"=0")
	if o.On.HidesCUDA() {
		w.cmd.Env = append(w.cmd.Env, "CUDA_VISIBLE_DEVICES=")
	}
	if w.in, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", o.Interpreter, err)
	}
	go func() {
		w.how = w.cmd.Wait()
		close(w.ended)
	}()
	go w.listen(read)
	if _, err := w.in.Write(append(asked, '\n')); err != nil {
		w.kill()
		return nil, fmt.Errorf("%s ended before it was ready (%s): %s", o.Interpreter, w.end(), w.said.Last(1))
	}
	a, late, err := w.next(ctx, starting)
	switch {
	case err != nil:
	case late:
		err = fmt.Errorf("%s is not ready after %s: %s", o.Interpreter, starting, w.said.Last(1))
	case a == nil:
		w.kill()
		err = fmt.Errorf("%s ended before it was ready (%s): %s", o.Interpreter, w.end(), w.said.Last(1))
	case a.Hello == nil:
		err = errors.New("a worker's first answer is no hello")
	case a.Hello.Torch == "":
		err = fmt.Errorf("import torch in %s: %s", o.Interpreter, a.Hello.Error)
	case prove:
		w.hello = *a.Hello
		err = w.prove(ctx)
		return w, err
	}
	if err != nil {
		w.kill()
		return nil, err
	}
	w.hello = *a.Hello
	return w, nil
}

// prove waits for the device's proof. A device on which plain operators end the process, or hang, is broken.
func (w *worker) prove(ctx context.Context) error {
	a, late, err := w.next(ctx, starting)
	switch {
	case err == nil && late:
		w.hello.Proof, w.hello.Why = ProofBroken, fmt.Sprintf("plain operators are not done within %s", starting)
	case err == nil && a == nil:
		w.kill()
		w.hello.Proof = ProofBroken
		w.hello.Why = fmt.Sprintf("plain operators end the process (%s): %s", w.end(), secret.Text(w.said.Last(1)))
	case err == nil && a.Hello == nil:
		err = errors.New("a worker's second answer is no hello")
	case err == nil:
		w.hello = *a.Hello
	}
	if err != nil || w.hello.Proof != ProofOK {
		w.kill()
	}
	return err
}

// fallbackVariable lets operators that have no kernel run on the CPU: a replay asks what the device does.
const fallbackVariable = "PYTORCH_ENABLE_MPS_FALLBACK"

// tensors is the device as tensors name it; the double's say that they are on mps.
func (o *Options) tensors() string {
	if o.On.Rehearsal() {
		return "mps"
	}
	return o.On.Device
}

func (w *worker) listen(from *os.File) {
	defer close(w.lines)
	defer from.Close()
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		data, err := nextLine(in)
		if err != nil || len(data) > maxAnswer {
			return
		}
		select {
		case w.lines <- data:
		case <-w.ended:
			select { // what was written before it ended
			case w.lines <- data:
			case <-time.After(ending):
				return
			}
		}
	}
}

// next is the next answer; nil where the process has ended, late where none came in time.
func (w *worker) next(ctx context.Context, within time.Duration) (a *answer, late bool, err error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case data, ok := <-w.lines:
		if !ok {
			return nil, false, nil
		}
		a = &answer{}
		dec := json.NewDecoder(bytes.NewReader(data))
		if err := dec.Decode(a); err != nil {
			return nil, false, fmt.Errorf("a worker's answer cannot be read: %w", err)
		}
		return a, false, nil
	case <-timer.C:
		return nil, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// replay has the worker replay one call, within the limit. alive says whether the worker can go on.
func (w *worker) replay(ctx context.Context, n int, s *signature.Signature, limit time.Duration) (r *Result, alive bool,
	err error) {
	asked, err := json.Marshal(map[string]any{"n": n, "signature": s})
	if err != nil {
		return nil, false, err
	}
	r = &Result{N: n, Signature: s}
	stage := stageDraw
	until := time.Now().Add(limit)
	written := make(chan struct{})
	go func() { // what is longer than a pipe holds is written while the worker reads; that it has ended is told below
		w.in.Write(append(asked, '\n'))
		close(written)
	}()
	for {
		a, late, err := w.next(ctx, time.Until(until))
		switch {
		case err != nil:
			w.kill()
			return nil, false, err
		case late:
			w.kill()
			r.late(stage, limit)
			return r, false, nil
		case a == nil:
			w.kill()
			r.ended(stage, w.end(), w.said.Last(1))
			return r, false, nil
		case a.N != n:
			w.kill()
			return nil, false, fmt.Errorf("a worker answers call %d, and was asked call %d", a.N, n)
		case a.At != "":
			stage = a.At
			if stage == stageDevice { // the device has the limit for itself
				until = time.Now().Add(limit)
			}
		default:
			<-written
			*r = a.Result
			r.Signature, r.Text, r.CPU = s, secret.Text(text.Line(r.Text)), secret.Text(text.Line(r.CPU))
			if a.Sick {
				w.kill()
			}
			return r, !a.Sick, nil
		}
	}
}

// late is the result of a call that was not done in time.
func (r *Result) late(stage string, limit time.Duration) {
	switch stage {
	case stageDraw, stageCPU:
		r.Outcome, r.Text = NotReplayed, fmt.Sprintf("the CPU has not done it within %s", limit)
	default:
		r.Outcome, r.CPU, r.Text = Hangs, "ok", fmt.Sprintf("not done within %s", limit)
	}
}

// ended is the result of a call that ended the process.
func (r *Result) ended(stage, how, said string) {
	said = secret.Text(text.Short(text.Line(said), 300))
	if said != "" {
		how += ": " + said
	}
	switch stage {
	case stageDraw, stageCPU:
		r.Outcome, r.Text = NotReplayed, "the process ended on the CPU, "+how
	case stageTime:
		r.Outcome, r.CPU, r.Text = Ends, "ok", "when it was repeated: "+how
	default:
		r.Outcome, r.CPU, r.Text = Ends, "ok", how
	}
}

// kill ends the worker and what it started, once, and waits a little for it.
func (w *worker) kill() {
	if w.killed {
		return
	}
	w.killed = true
	w.in.Close()
	syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	select {
	case <-w.ended:
	case <-time.After(ending):
	}
}

// end says how the process ended.
func (w *worker) end() string {
	select {
	case <-w.ended:
	default:
		return "it does not end"
	}
	var exit *exec.ExitError
	if errors.As(w.how, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return "signal " + fmt.Sprint(int(ws.Signal())) + ", " + ws.Signal().String()
		}
		return exit.Error()
	}
	return "exit status 0"
}
