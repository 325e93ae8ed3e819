package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/signature"
	"assay/internal/target"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// standIns is a worker in which an operator of aten misbehaves on the device and not on the CPU: how many elements its
// argument has says how.
const standIns = `
import os, runpy, sys, time
import torch
worker = runpy.run_path(%[1]q, run_name="worker")
stage = worker["stage"]

def misbehave(x):
    if stage[0] == "device":
        how = x.numel()
        if how == 13: os.abort()
        if how == 14: time.sleep(3600)
        if how == 15: return torch.zeros_like(x) - 3
        if how == 16: raise RuntimeError("an error of the device\nwith a second line")
        if how == 17: return torch.maximum(x, torch.zeros_like(x)).to(torch.float64)
        if how == 18: os.kill(os.getppid(), 9); os._exit(1)
    if stage[0] == "cpu" and x.numel() == 19: os.abort()
    if stage[0] == "cpu" and x.numel() == 20: raise RuntimeError("not on a CPU")
    return torch.maximum(x, torch.zeros_like(x))

library = torch.library.Library("aten", "IMPL")
library.impl("relu", misbehave, "CPU")
if %[2]q == "aborting":
    library.impl("exp", lambda x: os.abort(), "CPU")
if %[2]q == "broken":
    def broken(*args):
        if args[0].shape == (3, 4): raise RuntimeError("Failed to create pipeline state object")
        raise RuntimeError("no")
    for name in ("mul.Tensor", "exp", "sum.dim_IntList", "_softmax", "index.Tensor"):
        library.impl(name, broken, "CPU")
worker["main"]()
`

// onCPU are options for signatures of a file, on the CPU with stand-ins.
func onCPU(t *testing.T, mode string, list ...*signature.Signature) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Name: "some.signatures", Path: filepath.Join(dir, "some.signatures"), OutName: "some.replay",
		Out: filepath.Join(dir, "some.replay"), On: target.CPU(), Limit: 20 * time.Second, Untimed: true,
		Memory: 64 << 20, Interpreter: testkit.Python(t), Cache: t.TempDir(), Environ: os.Environ(), Dir: dir,
		Narration: &bytes.Buffer{}, Now: time.Now}
	if mode != "" {
		installed, err := agent.Install(o.Cache)
		if err != nil {
			t.Fatal(err)
		}
		o.program = filepath.Join(dir, "standins.py")
		if err := os.WriteFile(o.program, fmt.Appendf(nil, standIns, installed.Replay, mode), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	header := signature.Header{Torch: "2.15.0", Device: "cpu", Complete: true}
	if err := signature.Write(o.Path, header, list); err != nil {
		t.Fatal(err)
	}
	return o
}

func run(t *testing.T, o Options) *File {
	t.Helper()
	_, stopped, err := Run(context.Background(), o)
	if err != nil || stopped != "" {
		t.Fatalf("%s: %v", stopped, err)
	}
	return read(t, o.Out)
}

// outcomes are those by the numbers of signatures.
func outcomes(f *File) map[int]Outcome {
	of := map[int]Outcome{}
	for _, r := range f.Results {
		of[r.N] = r.Outcome
	}
	return of
}

func relu(n int64) *signature.Signature { return call("aten::relu", tensor("float32", n)) }

// TestOutcomes has each outcome once, by operators that end the process, hang, and so on; what comes after them is
// replayed all the same.
func TestOutcomes(t *testing.T) {
	testset.FullOnly(t)
	o := onCPU(t, "stand-ins", relu(12), relu(13), relu(14), relu(15), relu(16), relu(17), relu(19), relu(20),
		call("aten::exp", tensor("float32", 4)))
	o.Limit = 2 * time.Second
	f := run(t, o)
	want := map[int]Outcome{0: OK, 1: Ends, 2: Hangs, 3: Wrong, 4: Refused, 5: Wrong, 6: NotReplayed, 7: NotReplayed,
		8: OK}
	for n, got := range outcomes(f) {
		if got != want[n] {
			t.Errorf("call %d: %s, want %s", n, got, want[n])
		}
	}
	for _, r := range f.Results {
		switch says := map[int]string{1: "signal 6", 2: "not done within 2s", 4: "an error of the device", 5: "float64",
			6: "ended on the CPU", 7: "the CPU refuses"}[r.N]; {
		case !strings.Contains(r.Text, says):
			t.Errorf("call %d says %q, want %q", r.N, r.Text, says)
		case strings.Contains(r.Text, "second line"):
			t.Errorf("call %d says more than a line: %q", r.N, r.Text)
		}
		if r.N == 3 && (r.Difference == nil || r.Difference.MaxAbs == nil || r.Difference.AllowedAbs != 1e-5 ||
			r.Difference.AllowedRel != 1.3e-6) {
			t.Errorf("call 3 departs by %+v", r.Difference)
		}
	}
	if !f.Done || len(f.Results) != 9 {
		t.Errorf("done %v, %d results", f.Done, len(f.Results))
	}
}

// TestTimeIsOver: no call begins after the time, and the next replay goes on.
func TestTimeIsOver(t *testing.T) {
	testset.FullOnly(t)
	o := onCPU(t, "", relu(1), relu(2), relu(3), relu(4), relu(5))
	now := time.Unix(0, 0)
	o.For, o.Now = 3*time.Minute, func() time.Time { now = now.Add(time.Minute); return now }
	_, stopped, err := Run(context.Background(), o)
	if f := read(t, o.Out); err != nil || stopped != "the time of 3m0s is over" || len(f.Results) != 2 || f.Done {
		t.Fatalf("%s, %v: %d results", stopped, err, len(f.Results))
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.For, o.Now = 0, func() time.Time { now = now.Add(time.Minute); return now }
	o.Narration = writerFunc(func(p []byte) (int, error) { // the first word of progress
		if bytes.Contains(p, []byte("3 of 5 replayed")) {
			cancel()
		}
		return len(p), nil
	})
	_, stopped, err = Run(ctx, o)
	if f := read(t, o.Out); err != nil || stopped != "it was interrupted" || f.begun != nil || len(f.Results) == 5 {
		t.Fatalf("%s, %v: %d results, begun %v", stopped, err, len(f.Results), f.begun)
	}
	if f := run(t, o); len(f.Results) != 5 || !f.Done {
		t.Errorf("%d results", len(f.Results))
	}
	other := o
	other.Seed = 7
	if _, _, err := Run(context.Background(), other); err == nil || !strings.Contains(err.Error(), "values of seed 0") {
		t.Errorf("with another seed: %v", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestBrokenMachine: where plain operators fail, as where no shader compiles, nothing is replayed, and the file says
// why.
func TestBrokenMachine(t *testing.T) {
	testset.FullOnly(t)
	o := onCPU(t, "broken", relu(3))
	_, _, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "the machine is broken, not PyTorch") ||
		!strings.Contains(err.Error(), "Failed to create pipeline state object") {
		t.Fatalf("%v", err)
	}
	f := read(t, o.Out)
	if f.Header.Proof.State != ProofBroken || len(f.Results) != 0 || f.Done {
		t.Errorf("%+v", f)
	}
	aborting := onCPU(t, "aborting", relu(3))
	_, _, err = Run(context.Background(), aborting)
	if err == nil || !strings.Contains(err.Error(), "broken, not PyTorch: on cpu plain operators end the process (signal 6") {
		t.Errorf("%v", err)
	}
	o.program = "" // the machine is mended: the same command goes on
	if f = run(t, o); f.Header.Proof.State != ProofOK || len(f.Results) != 1 {
		t.Errorf("%+v", f)
	}
}

// TestCutOffFiveTimes kills the replay, and assay with it, five times: what is there in the end is what one replay
// writes that nobody kills, and a call that takes assay with it each time is not begun for ever.
func TestCutOffFiveTimes(t *testing.T) {
	testset.FullOnly(t)
	if os.Getenv(childVariable) != "" {
		childReplay(t)
		return
	}
	var list []*signature.Signature
	for n := range int64(60) {
		list = append(list, call("aten::exp", tensor("float32", n+1)),
			call("aten::mm", tensor("float32", n+1, 3), tensor("float32", 3, 2)))
	}
	o := onCPU(t, "stand-ins", list...)
	whole := run(t, o)
	data, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(o.Out)
	for cut := range 5 {
		childKilled(t, o, (cut+1)*20)
	}
	again := run(t, o)
	now, _ := os.ReadFile(o.Out)
	if !bytes.Equal(data, now) {
		t.Errorf("%d results uncut, %d after five cuts, or others:\n%.600s\n%.600s", len(whole.Results),
			len(again.Results), data, now)
	}

	o = onCPU(t, "stand-ins", relu(18), relu(12)) // the first kills whoever started it
	for range maxBegun {
		childKilled(t, o, 1000)
	}
	f := run(t, o)
	if got := outcomes(f); got[0] != Ends || got[1] != OK {
		t.Errorf("%v", got)
	}
}

// childVariable names a file with options of a replay for the test binary to make.
const childVariable = "REPLAY_CHILD"

// childKilled starts a replay in a process of its own, and kills that when the file has so many lines, or waits for its
// end.
func childKilled(t *testing.T, o Options, lines int) {
	t.Helper()
	data, err := json.Marshal(map[string]string{"path": o.Path, "out": o.Out, "program": o.program, "cache": o.Cache,
		"python": o.Interpreter})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.StartProcess(self, []string{self, "-test.run=TestCutOffFiveTimes"}, &os.ProcAttr{Dir: ".",
		Env: append(os.Environ(), childVariable+"="+string(data)), Files: []*os.File{nil, os.Stderr, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { child.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		if written, _ := os.ReadFile(o.Out); bytes.Count(written, []byte("\n")) >= lines {
			child.Signal(syscall.SIGKILL)
			<-ended
			return
		}
	}
}

func childReplay(t *testing.T) {
	var asked map[string]string
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &asked); err != nil {
		t.Fatal(err)
	}
	_, _, err := Run(context.Background(), Options{Name: "some.signatures", Path: asked["path"], Out: asked["out"],
		OutName: "some.replay", On: target.CPU(), Limit: 20 * time.Second, Untimed: true, Memory: 64 << 20,
		Interpreter: asked["python"], Cache: asked["cache"], Environ: os.Environ(), Dir: filepath.Dir(asked["path"]),
		Narration: &bytes.Buffer{}, Now: time.Now, program: asked["program"]})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDouble: what the double answers is what the tables say, of operators that are missing, refused and native there.
func TestDouble(t *testing.T) {
	testset.FullOnly(t)
	none := signature.Value{}
	x, pair := tensor("float32", 1, 1, 2, 4), func(n int64) signature.Value { return listOf(number(n), number(n)) }
	o := onCPU(t, "", relu(12), call("aten::linalg_eig", tensor("float32", 2, 2)),
		call("aten::relu", tensor("float64", 3)),
		call("aten::_scaled_dot_product_attention_math_for_mps", x, x, x, none,
			signature.Value{Kind: signature.Float, Float: 0.5}),
		call("aten::linalg_qr", tensor("float32", 4, 4)),
		call("aten::col2im", tensor("float32", 1, 4, 1), pair(2), pair(2), pair(1), pair(0), pair(1)))
	onDouble(t, &o, "2.6")
	f := run(t, o)
	// native_functions.yaml of 2.6 has no MPS entry for linalg_eig and linalg_qr; float64 is none of MPS's types
	want := map[int]Outcome{0: OK, 1: Missing, 2: Refused, 3: NotReplayed, 4: Missing, 5: OK}
	tables := NewTables(&atlas.Atlas{}, facts.Load(), f.Header.Double.Release, f.Header.Double.MacOS)
	for _, r := range f.Results {
		if r.Outcome != want[r.N] {
			t.Errorf("%s: %s (%s), want %s", r.Signature.Name(), r.Outcome, r.Text, want[r.N])
		}
		if v, why, _ := Judge(tables.Expect(r.Signature), r); v == Contradicted || v == New {
			t.Errorf("%s: the double is not as the tables are: %s, %s", r.Signature.Name(), v, why)
		}
		if r.Fallback != (r.N == 5) { // row col2im-always-falls-back
			t.Errorf("%s: fallback %v", r.Signature.Name(), r.Fallback)
		}
	}
}

// onDouble makes the replay one on the double of a release.
func onDouble(t *testing.T, o *Options, torch string) {
	t.Helper()
	words := target.Words{On: "double", Torch: torch}
	on, err := target.Replay.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	a := &atlas.Atlas{}
	nothing := func() (string, string, string) { return "", "", "" }
	aim, err := target.AimAt(a, o.Dir, target.Words{Torch: torch}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if o.Double, err = on.Double(a, aim, "", func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	o.On = on
}

// TestFirstReleases holds the double against what a project read of its own failures on an M1: from which release on
// MPS has a kernel of these operators (kornia/kornia issue 4159, comments of 2026-09-03: the table "first available",
// and what ran on the M1 with 2.14.0). The results behind kornia/kornia issue 4522, of 365 overloads, were not to be
// had: of the issue its beginning alone, and the repository as it was before it.
func TestFirstReleases(t *testing.T) {
	testset.FullOnly(t)
	text := func(s string) signature.Value { return signature.Value{Kind: signature.Text, Text: s} }
	yes := signature.Value{Kind: signature.Bool, Bool: true}
	no := signature.Value{Kind: signature.Bool}
	pivots := tensor("int32", 4)
	pivots.Tensor.Range, pivots.Tensor.Values = []json.Number{"1", "4"}, "ints"
	square := tensor("float32", 4, 4)
	published := []struct {
		since string // "": no release
		s     *signature.Signature
	}{
		{"2.12", call("aten::linalg_qr", square, text("reduced"))},
		{"2.13", call("aten::grid_sampler_2d_backward", tensor("float32", 1, 1, 3, 3), tensor("float32", 1, 1, 4, 4),
			tensor("float32", 1, 3, 3, 2), number(0), number(0), no, listOf(yes, yes))},
		{"2.13", call("aten::grid_sampler_3d_backward", tensor("float32", 1, 1, 2, 2, 2),
			tensor("float32", 1, 1, 3, 3, 3),
			tensor("float32", 1, 2, 2, 2, 3), number(0), number(0), no, listOf(yes, yes))},
		{"2.14", call("aten::_linalg_eigh", square, text("L"), yes)},
		{"2.14", call("aten::linalg_lu_solve", square, pivots, tensor("float32", 4, 2))},
		{"2.14", call("aten::_linalg_svd", square)},
		{"", call("aten::linalg_eig", square)},
		{"", call("aten::_linalg_eigvals", square)},
		{"", call("aten::adaptive_max_pool3d", tensor("float32", 1, 1, 4, 4, 4),
			listOf(number(2), number(2), number(2)))},
	}
	var list []*signature.Signature
	for _, p := range published {
		list = append(list, p.s)
	}
	same := 0
	for _, release := range []string{"2.9", "2.12", "2.13", "2.14"} {
		o := onCPU(t, "", list...)
		onDouble(t, &o, release)
		for _, r := range run(t, o).Results {
			since, want := published[r.N].since, Missing
			if since != "" && atlas.CompareReleases(release, since) >= 0 {
				want = OK
			}
			if r.Outcome != want {
				t.Errorf("%s on the double of %s: %s (%s), published: %s", r.Signature.Name(), release, r.Outcome,
					r.Text, want)
				continue
			}
			same++
		}
	}
	t.Logf("%d of %d are as published", same, 4*len(published))
}
