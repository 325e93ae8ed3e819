package python

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/evidence"
	"assay/internal/text"
)

//go:embed gates.py
var gateProgram string

// State of a gate. Unknown is no pass.
type State string

const (
	Pass    State = "pass"
	Fail    State = "fail"
	Unknown State = "unknown"
)

// Gate is one statement about a device that a framework can or cannot use here.
type Gate struct {
	Name   string         `json:"name"` // one of GateNames
	State  State          `json:"state"`
	Detail string         `json:"detail"`
	Basis  evidence.Basis `json:"basis"`
	Hint   string         `json:"hint,omitempty"`
}

// GateNames are the gates that can be required, in the order of the output.
func GateNames() []string {
	return []string{"native", "mps", "cuda", "mlx", "tensorflow", "tensorflow-metal", "jax", "keras"}
}

// gateLimit for one framework: importing TensorFlow from a cold disk takes some 20 s.
const gateLimit = 60 * time.Second

// Gates proves the devices that the interpreter's frameworks can use: each in a child of its own that imports it,
// computes a matrix product on the device and compares it with the CPU's. That a device says it is available is not
// enough: virtual Macs say so, and fail to allocate (pytorch/pytorch issues #125197, #177819). A framework that is not
// installed makes its gates unknown. It takes some seconds, at most a minute a framework, and ends with ctx.
func Gates(ctx context.Context, in Interpreter, environ []string) []Gate {
	return gates(ctx, in, environ, gateLimit)
}

func gates(ctx context.Context, in Interpreter, environ []string, limit time.Duration) []Gate {
	var all []Gate
	if g, ok := nativeGate(in); ok {
		all = append(all, g)
	}
	if in.NotAsked != "" {
		for _, name := range []string{"mps", "cuda", "mlx", "tensorflow", "jax", "keras"} {
			all = append(all, Gate{Name: name, State: Unknown, Detail: "the interpreter does not run here",
				Basis: evidence.Measured})
		}
		return all
	}
	t := runGate(ctx, in, environ, "torch", limit)
	all = append(all, mpsGate(in, t), cudaGate(in, t))
	all = append(all, mlxGate(in, runGate(ctx, in, environ, "mlx", limit)))
	packages := Packages(in.Site)
	all = append(all, tensorflowGate(runGate(ctx, in, environ, "tensorflow", limit)))
	if g, ok := pairGate(in, packages); ok {
		all = append(all, g)
	}
	return append(all, jaxGate(in, packages, runGate(ctx, in, environ, "jax", limit)),
		kerasGate(in, packages, runGate(ctx, in, environ, "keras", limit)))
}

func nativeGate(in Interpreter) (Gate, bool) {
	if in.Platform != "darwin" {
		return Gate{}, false
	}
	g := Gate{Name: "native", Basis: evidence.Measured}
	switch {
	case in.Translated == nil:
		g.State, g.Detail = Unknown, "sysctl.proc_translated could not be read by the interpreter"
	case *in.Translated:
		g.State, g.Detail = Fail, "the interpreter runs as "+in.Machine+" under Rosetta"
		g.Hint = "PyTorch's builds for x86_64 Macs ended with " + lastIntel + ": use an arm64 Python"
	default:
		g.State, g.Detail = Pass, "the interpreter runs as "+in.Machine+", not translated"
	}
	return g, true
}

// gateAnswer is the last line that the child printed, and how it ended.
type gateAnswer struct {
	Stage      string       `json:"stage"`
	Installed  bool         `json:"installed"`
	Version    string       `json:"version"`
	Built      bool         `json:"built"`
	MPS        bool         `json:"mps_available"`
	CUDA       bool         `json:"cuda_available"`
	DeviceName string       `json:"name"`
	Default    string       `json:"default"`
	Kind       string       `json:"kind"`
	GPUs       []string     `json:"gpus"`
	Error      string       `json:"error"`
	FailedAt   string       `json:"failed_at"`
	Devices    []gateDevice `json:"devices"`
	ended      string       // why it did not finish; empty when it did
	said       bool
	crashed    bool
}

type gateDevice struct {
	Name    string  `json:"name"`
	On      string  `json:"on"`
	Agrees  bool    `json:"agrees"`
	Finite  bool    `json:"finite"`
	Worst   float64 `json:"worst"`
	Largest float64 `json:"largest"`
	Error   string  `json:"error"`
}

func runGate(ctx context.Context, in Interpreter, environ []string, framework string, limit time.Duration) gateAnswer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, in.Path, "-c", gateProgram, framework)
	cmd.Env = append(without(environ, "__PYVENV_LAUNCHER__"), "TF_CPP_MIN_LOG_LEVEL=2")
	cmd.WaitDelay = 2 * time.Second
	out, errs := &text.Tail{Limit: 64 << 10}, &text.Tail{Limit: 8 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	var a gateAnswer
	lines := bytes.Split(out.Bytes(), []byte("\n"))
	for i := len(lines) - 1; i >= 0 && !a.said; i-- {
		if text, ok := bytes.CutPrefix(lines[i], []byte("assay ")); ok {
			a.said = json.Unmarshal(text, &a) == nil
		}
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.ended = fmt.Sprintf("no answer within %v", limit)
	case ctx.Err() != nil:
		a.ended = "interrupted"
	case errors.As(err, &exit):
		// The stage "done" was reached when something in the interpreter's own end failed: the proof stands.
		if a.Stage != "done" && a.Stage != "absent" && a.Stage != "failed" {
			// Without a stage Python itself did not start, which says nothing of the framework.
			a.ended, a.crashed = exit.String(), a.Stage != ""
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				a.ended = "ended by " + ws.Signal().String()
			}
			if text := complaint(errs); text != "" {
				a.ended += ": " + text
			}
		}
	case err != nil:
		a.ended = err.Error()
	case !a.said:
		a.ended = "it printed no answer"
	}
	return a
}

// complaint is the last line that names an error, else the last line.
func complaint(errs *text.Tail) string {
	lines := strings.Split(errs.Last(40), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "rror") {
			return strings.TrimSpace(line)
		}
	}
	return lines[len(lines)-1]
}

// common judges what every framework shares; ok is false when there is nothing more to say.
func (a gateAnswer) common(g *Gate, framework string) (ok bool) {
	name := framework
	if a.Version != "" {
		name += " " + a.Version
	}
	switch {
	case a.Stage == "absent":
		g.State, g.Detail = Unknown, framework+" is not installed"
	case a.ended != "" && a.crashed:
		g.State, g.Detail = Fail, fmt.Sprintf("%s: %s while %s", name, a.ended, a.stage())
	case a.ended != "":
		g.State, g.Detail = Unknown, fmt.Sprintf("%s: %s (%s)", name, a.ended, a.stage())
	case a.Stage == "failed":
		g.State, g.Detail = Fail, fmt.Sprintf("%s: %s (%s)", name, a.Error, a.FailedAt)
	default:
		return true
	}
	return false
}

func (a gateAnswer) stage() string {
	if a.Stage == "" {
		return "starting"
	}
	return a.Stage
}

func (a gateAnswer) device(name string) (gateDevice, bool) {
	for _, d := range a.Devices {
		if d.Name == name {
			return d, true
		}
	}
	return gateDevice{}, false
}

// proven turns the product computed on a device into a verdict: it is held against the CPU's.
func (g *Gate) proven(what string, d gateDevice) { g.provenBy(what, d, "the CPU's") }

// provenBy is proven where the product is held against another's.
func (g *Gate) provenBy(what string, d gateDevice, whose string) {
	switch {
	case d.Error != "":
		g.State, g.Detail = Fail, what+" says the device is available, and the matrix product failed: "+d.Error
		g.Hint = "usual in virtual machines, containers and sandboxes without a GPU of their own"
	case !d.Finite:
		g.State, g.Detail = Fail, fmt.Sprintf("%s: the matrix product on %s has values that are not finite, %s has none", what,
			d.On, whose)
	case !d.Agrees:
		g.State, g.Detail = Fail, fmt.Sprintf("%s: the matrix product on %s differs from %s by %.3g of %.3g",
			what, d.On, whose, d.Worst, d.Largest)
	default:
		g.State, g.Detail = Pass, fmt.Sprintf("%s: 64×64 matrix product on %s, equal to %s within %.1e", what,
			d.On, whose, d.Worst/max(d.Largest, 1e-30))
	}
}

func mpsGate(in Interpreter, a gateAnswer) Gate {
	g := Gate{Name: "mps", Basis: evidence.Measured}
	if in.Platform != "darwin" {
		// linux2: what Python 2 says
		g.State, g.Basis, g.Detail = Fail, evidence.Derived, "no Metal on "+strings.TrimRight(in.Platform, "2")
		if a.Version != "" {
			g.Detail += fmt.Sprintf("; torch %s is built %s MPS", a.Version,
				map[bool]string{true: "with", false: "without"}[a.Built])
		}
		return g
	}
	if d, ok := a.device("mps"); ok {
		g.proven("torch "+a.Version, d)
		return g
	}
	if !a.common(&g, "torch") {
		return g
	}
	switch {
	case !a.Built:
		g.State, g.Detail = Fail, "torch "+a.Version+" is built without MPS"
		g.Hint = "install an arm64 build from the package index"
	case !a.MPS:
		g.State, g.Detail = Fail, "torch "+a.Version+" is built with MPS, and torch.backends.mps.is_available() is False"
		if f, ok := MacFloor(a.Version); ok {
			g.Hint = fmt.Sprintf("this release needs macOS %s (this is %s) and a Metal device", f.Backend,
				cmp.Or(in.System, "not known"))
		}
	default:
		g.State, g.Detail = Unknown, "the matrix product was not tried"
	}
	return g
}

func cudaGate(in Interpreter, a gateAnswer) Gate {
	g := Gate{Name: "cuda", Basis: evidence.Measured}
	if in.Platform == "darwin" {
		g.State, g.Basis, g.Detail = Fail, evidence.Derived, "no CUDA on a Mac"
		return g
	}
	if d, ok := a.device("cuda"); ok {
		what := "torch " + a.Version
		if a.DeviceName != "" {
			what += " on " + a.DeviceName
		}
		g.proven(what, d)
		return g
	}
	if a.common(&g, "torch") {
		g.State, g.Detail = Fail, "torch "+a.Version+": torch.cuda.is_available() is False"
		if !exists("/dev/nvidiactl") && !exists("/dev/kfd") && !exists("/dev/dxg") {
			// NVIDIA, AMD, and either under WSL
			g.Basis = evidence.Derived
			g.Detail += ", and no driver of a GPU is loaded"
		}
	}
	return g
}

func tensorflowGate(a gateAnswer) Gate {
	g := Gate{Name: "tensorflow", Basis: evidence.Measured}
	if d, ok := a.device("tensorflow"); ok {
		g.proven("tensorflow "+a.Version, d)
		return g
	}
	if !a.common(&g, "tensorflow") {
		if g.State == Fail && strings.Contains(g.Detail, "metal_plugin") {
			g.Hint = "tensorflow-metal and tensorflow do not fit each other: see the gate tensorflow-metal"
		}
		return g
	}
	g.State, g.Detail = Fail, "tensorflow "+a.Version+": tf.config.list_physical_devices('GPU') is empty"
	return g
}

// pair is a statement about a TensorFlow series and a tensorflow-metal series.
type pair struct {
	first, last string // tensorflow, minor releases
	metal       string // minor release
	macos       string // lowest
	works       State
	basis       evidence.Basis
	source      string
}

// What is said about pairs. Apple's own table stands in the description of tensorflow-metal 1.2.0 on the package index,
// the last release (2025-01-31). It lists 1.1.0 up to TensorFlow 2.18; users found that 2.18 does not load it, and
// 1.2.0 is what fixed that.
const (
	fromPlugin = "table in the description of tensorflow-metal 1.2.0"
	lastMetal  = "1.2"
	// Wheels of 1.2.0 stop at CPython 3.12.
	lastMetalPython = "3.12"
)

var pairs = []pair{
	{"2.5", "2.5", "0.1", "12.0", Pass, evidence.Declared, fromPlugin},
	{"2.6", "2.6", "0.2", "12.0", Pass, evidence.Declared, fromPlugin},
	{"2.7", "2.7", "0.3", "12.0", Pass, evidence.Declared, fromPlugin},
	{"2.8", "2.8", "0.4", "12.0", Pass, evidence.Declared, fromPlugin},
	{"2.9", "2.9", "0.5", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.10", "2.10", "0.6", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.11", "2.11", "0.7", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.12", "2.12", "0.8", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.13", "2.13", "1.0", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.14", "2.17", "1.1", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.18", "2.18", "1.1", "12.1", Fail, evidence.Declared,
		"tensorflow/tensorflow issues #81987, #84167: a symbol is missing when the plug-in is loaded"},
	{"2.18", "2.18", "1.2", "12.1", Pass, evidence.Declared, fromPlugin},
	{"2.20", "2.20", "1.2", "12.1", Fail, evidence.Declared,
		"tensorflow/tensorflow pull request #126254: a symbol is missing when the plug-in is loaded"},
}

// MetalPairFails reports whether a tensorflow-metal is known not to load with a tensorflow: such a pair was seen to
// fail, or each of the two is named with others only.
func MetalPairFails(tf, metal string) (bool, string) {
	knowsTF, knowsMetal := false, false
	for _, p := range pairs {
		a := tf != "" && compareVersions(minorOf(tf), p.first) >= 0 && compareVersions(minorOf(tf), p.last) <= 0
		b := minorOf(metal) == p.metal
		if a && b {
			return p.works == Fail, p.source
		}
		knowsTF, knowsMetal = knowsTF || a, knowsMetal || b
	}
	return knowsTF && knowsMetal, fromPlugin
}

// pairGate judges the installed tensorflow against the installed tensorflow-metal; ok is false when there is no
// plug-in.
func pairGate(in Interpreter, packages []Package) (Gate, bool) {
	metal := Named(packages, "tensorflow-metal")
	if len(metal) == 0 {
		return Gate{}, false
	}
	tf := Named(packages, "tensorflow")
	if len(tf) == 0 {
		tf = Named(packages, "tensorflow-macos") // the name up to 2.12
	}
	if len(tf) == 0 {
		return Gate{Name: "tensorflow-metal", State: Unknown, Detail: "tensorflow-metal " + metal[0].Version +
			" is installed, tensorflow is not", Basis: evidence.Derived}, true
	}
	return judgePair(in.System, in.Version, tf[0].Version, metal[0].Version), true
}

func judgePair(macos, python, tf, metal string) Gate {
	g := Gate{Name: "tensorflow-metal", State: Unknown, Basis: evidence.Derived,
		Detail: fmt.Sprintf("tensorflow %s with tensorflow-metal %s on Python %s, macOS %s: nothing is known about this pair", tf, metal, python, cmp.Or(macos, "not known"))}
	for _, p := range pairs {
		if minorOf(metal) != p.metal || compareVersions(minorOf(tf), p.first) < 0 ||
			compareVersions(minorOf(tf), p.last) > 0 {
			continue
		}
		g.State, g.Basis = p.works, p.basis
		g.Detail = fmt.Sprintf("tensorflow %s with tensorflow-metal %s: %s", tf, metal, p.source)
		if p.works == Pass && macos != "" && compareVersions(macos, p.macos) < 0 {
			g.State, g.Detail = Fail, fmt.Sprintf("tensorflow-metal %s needs macOS %s, this is %s (%s)", metal, p.macos,
				macos, p.source)
		}
	}
	if p := minorOf(python); minorOf(metal) == lastMetal && compareVersions(p, lastMetalPython) > 0 {
		g.State, g.Basis = Fail, evidence.Derived
		g.Detail = fmt.Sprintf("tensorflow-metal %s has no wheel for Python %s: its last one is for %s", metal, p,
			lastMetalPython)
	}
	if g.State != Pass {
		g.Hint = "the last pair that Apple names is tensorflow 2.18 with tensorflow-metal 1.2.0, on Python 3.9 to " +
			lastMetalPython
	}
	return g
}
