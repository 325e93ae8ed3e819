// Package replay replays signatures on a device, each call where it may end the process, and says what a replay means
// for what the tables hold. agent/assay_agent/replay does the calls; docs/formats/replay.md is the file that comes of
// it.
package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/signature"
	"assay/internal/target"
	"assay/internal/text"
)

// Options say what to replay, and where.
type Options struct {
	Name    string // of the file of signatures, as it is shown
	Path    string
	Out     string // path of the file that is written, or gone on with
	OutName string // as it is shown
	On      target.Target
	Double  *target.Double // what the double stands for, where On is a rehearsal; else nil
	For     time.Duration  // no call begins later; 0: no bound
	Limit   time.Duration  // that a call may take
	Seed    int64
	Memory  int64 // bytes that a call's tensors may take, and its results; 0: a part of the machine's
	Untimed bool  // calls are not timed
	Machine Machine

	Interpreter string // path
	Cache       string // folder that the agent is unpacked in
	Environ     []string
	Dir         string // working folder of the workers
	Narration   io.Writer
	Now         func() time.Time

	program string // worker.py
}

// Begun so often without an end, a call is not begun again: it takes assay with it, or the machine.
const maxBegun = 3

// Run replays what is left to replay, and gives the file as it then is. An error leaves what was recorded; begun again,
// it goes on. stopped says why not all was replayed; "" where it was.
func Run(ctx context.Context, o Options) (done *File, stopped string, err error) {
	began := o.Now()
	doing := func(err error) error { return fmt.Errorf("replay %s: %w", o.Name, err) }
	of, list, err := signature.Load(o.Path)
	if err != nil {
		return nil, "", err
	}
	sum, err := digest(o.Path)
	if err != nil {
		return nil, "", doing(err)
	}
	installed, err := agent.Install(o.Cache)
	if err != nil {
		return nil, "", err
	}
	if o.program == "" {
		o.program = installed.Replay
	}
	j, there, err := openJournal(o.Out)
	if err != nil {
		return nil, "", doing(err)
	}
	defer func() { err = errors.Join(err, j.close()) }()
	settings, remove, err := o.settings()
	if err != nil {
		return nil, "", doing(err)
	}
	defer remove()
	header := Header{Version: Version, Of: *of, SHA256: sum, Total: len(list), Device: o.On.Device, Machine: o.Machine,
		Seed: o.Seed, Limit: o.Limit.Seconds(), Order: orderWords}
	if settings != nil {
		header.Double = &signature.Double{Release: settings.Release, MacOS: settings.MacOS.String()}
	}
	if there != nil && there.Header.Proof.State == ProofBroken {
		there, j.at = nil, 0 // nothing was replayed: it is proved anew
	}
	if there != nil {
		if err := there.continues(header, o.OutName); err != nil {
			return nil, "", doing(err)
		}
		o.say("%s: %d of %d are replayed", o.OutName, len(there.Results), len(list))
	}
	run := &running{o: &o, j: j, list: list, settings: settings, home: homeOf(of.Device), done: there, header: header}
	stopped, err = run.all(ctx, began)
	if err != nil {
		return nil, "", doing(err)
	}
	return run.done, stopped, nil
}

// homeOf is the device that signatures were recorded on, as tensors name it.
func homeOf(device string) string {
	if device == evidence.OnDouble {
		return "mps"
	}
	return device
}

func (o *Options) say(format string, a ...any) {
	fmt.Fprintln(o.Narration, text.Lines(fmt.Sprintf(format, a...)))
}

// settings are the double's, kept where a worker reads them; nil without one.
func (o *Options) settings() (*target.Settings, func(), error) {
	if o.Double == nil {
		return nil, func() {}, nil
	}
	folder, err := file.Temp(o.Environ, o.Dir, "replay")
	if err != nil {
		return nil, nil, fmt.Errorf("keep the double's table: %w", err)
	}
	kept, err := o.Double.Keep(filepath.Join(folder.Path, "double.json"))
	if err != nil {
		folder.Remove()
		return nil, nil, fmt.Errorf("keep the double's table: %w", err)
	}
	return &kept, folder.Remove, nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// continues says why a replay that is there is none of these signatures on this device.
func (f *File) continues(h Header, name string) error {
	was := f.Header
	differs := ""
	switch {
	case was.SHA256 != h.SHA256:
		differs = "another file of signatures"
	case was.Device != h.Device:
		differs = "a replay on " + was.Device
	case was.Machine != h.Machine:
		differs = "a replay on another machine"
	case was.Seed != h.Seed:
		differs = fmt.Sprintf("a replay with values of seed %d", was.Seed)
	case (was.Double == nil) != (h.Double == nil) || was.Double != nil && *was.Double != *h.Double:
		differs = "a replay on a double of another Mac"
	default:
		return nil
	}
	return fault.Hint(fmt.Errorf("%s holds %s", name, text.Line(differs)), "name another --out")
}

// running is a replay under way.
type running struct {
	o        *Options
	j        *journal
	list     []*signature.Signature
	settings *target.Settings
	home     string
	header   Header
	done     *File // nil: nothing yet
	w        *worker
}

// all replays what is left. The answer says why something is; "" where nothing is.
func (r *running) all(ctx context.Context, began time.Time) (stopped string, err error) {
	if r.done != nil && r.done.Done {
		return "", nil
	}
	defer func() {
		if r.w != nil {
			r.w.kill()
		}
	}()
	if r.w, err = r.o.start(ctx, r.settings, r.home, true); err != nil {
		return "", interrupted(ctx, err)
	}
	if err := r.ready(); err != nil {
		return "", err
	}
	seen, calls := map[int]bool{}, 0
	for _, result := range r.done.Results {
		seen[result.N] = true
	}
	told := began
	for _, n := range Order(r.list, r.risky()) {
		if seen[n] {
			continue
		}
		now := r.o.Now()
		if ctx.Err() != nil {
			return "it was interrupted", nil
		}
		if r.o.For > 0 && now.Sub(began) >= r.o.For {
			return fmt.Sprintf("the time of %s is over", r.o.For), nil
		}
		if now.Sub(told) >= 10*time.Second {
			told = now
			r.o.say("%d of %d replayed", len(r.done.Results), len(r.list))
		}
		if err := r.one(ctx, n); err != nil {
			if ctx.Err() != nil {
				return "it was interrupted", nil
			}
			return "", err
		}
		calls++
	}
	r.done.Done = true
	return "", r.j.write(end{Done: true}, true)
}

func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("it was interrupted before it began")
	}
	return err
}

// ready writes the header, or holds the release against the one that is there.
func (r *running) ready() error {
	said := r.w.hello
	r.header.Torch, r.header.Python = said.Torch, said.Python
	r.header.Proof = Proof{State: said.Proof, Why: said.Why}
	if r.done != nil && r.done.Header.Torch != said.Torch {
		return fault.Hint(fmt.Errorf("%s holds a replay with torch %s, and this is %s", r.o.OutName,
			text.Line(r.done.Header.Torch), said.Torch), "name another --out")
	}
	if said.Proof != ProofOK {
		if r.done == nil {
			if err := r.j.header(r.header); err != nil {
				return err
			}
		}
		err := fmt.Errorf("the machine is broken, not PyTorch: on %s %s", r.o.On.Device, text.Line(said.Why))
		return fault.Hint(err,
			"nothing is replayed; virtual Macs with macOS 26 compile no shader: take a real one, or macOS 15")
	}
	if r.done == nil {
		r.done = &File{Header: r.header}
		return r.j.header(r.header)
	}
	return nil
}

// risky says whether the tables know of something that a call may meet on the device.
func (r *running) risky() func(*signature.Signature) bool {
	if r.o.tensors() != evidence.OnMPS {
		return func(*signature.Signature) bool { return false }
	}
	release := r.header.Torch
	if r.header.Double != nil {
		release = r.header.Double.Release
	}
	t := NewTables(&atlas.Atlas{}, facts.Load(), release, "")
	return func(s *signature.Signature) bool { return t.Expect(s).Risky() }
}

// one replays a call and records what became of it.
func (r *running) one(ctx context.Context, n int) error {
	times := 1
	if b := r.done.begun; b != nil {
		r.done.begun = nil
		if b.Begun == n {
			times = b.Times + 1
		}
	}
	result := &Result{N: n, Signature: r.list[n]}
	if times > maxBegun {
		result.Outcome, result.CPU = Ends, ""
		result.Text = fmt.Sprintf("begun %d times, and each time assay or the machine ended before it did", maxBegun)
		return r.put(result)
	}
	if err := r.j.begin(n, times); err != nil {
		return err
	}
	if r.w == nil {
		w, err := r.o.start(ctx, r.settings, r.home, false)
		if err != nil {
			return err
		}
		r.w = w
	}
	result, alive, err := r.w.replay(ctx, n, r.list[n], r.o.Limit)
	if !alive {
		r.w = nil
	}
	if err != nil {
		return err
	}
	return r.put(result)
}

func (r *running) put(result *Result) error {
	if err := r.j.put(result); err != nil {
		return err
	}
	r.done.Results = append(r.done.Results, result)
	return nil
}
