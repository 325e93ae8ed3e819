package cli

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
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/fold"
	"assay/internal/python"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// tryOptions are the flags of `assay try`.
type tryOptions struct {
	on, python, torch, chip, macOS, limit string
	inputs, args                          []string
	shapeOnly, all, eval, json            bool
}

// trySchema names the version of the JSON form of `assay try`.
const trySchema = "assay.try/1"

// tried is what `assay try` prints.
type tried struct {
	Schema  string           `json:"schema"`
	Basis   evidence.Basis   `json:"basis"` // rehearsed on the double, measured on a device
	On      string           `json:"on"`
	Torch   string           `json:"torch"` // the one installed
	Python  string           `json:"python"`
	Double  *target.Settings `json:"double,omitempty"`
	Package string           `json:"package,omitempty"`
	Counts  map[string]int   `json:"counts"` // by outcome
	Models  []*attempt       `json:"models"`
}

// attempt is one model and what happened to it.
type attempt struct {
	Name       string       `json:"name"`
	Outcome    string       `json:"outcome"`
	Phase      string       `json:"phase"` // where it ended: build, inputs, move, forward, backward, done
	Model      string       `json:"model,omitempty"`
	Inputs     []string     `json:"inputs"`
	Parameters int64        `json:"parameters"`
	Data       bool         `json:"data"` // false: shapes alone
	Backward   bool         `json:"backward"`
	Operator   string       `json:"operator,omitempty"`
	NativeFrom string       `json:"native_from,omitempty"` // of a missing operator: the first release with a kernel
	Error      string       `json:"error,omitempty"`
	Text       string       `json:"text,omitempty"`
	Where      string       `json:"where,omitempty"` // the user's line, or the innermost of a library's where there is none
	Remedy     string       `json:"remedy,omitempty"`
	Seconds    float64      `json:"seconds"` // on this machine
	Peak       int64        `json:"peak,omitempty"`
	Ran        *tryShares   `json:"ran,omitempty"`      // on the double: what was called
	Fallback   *tryFallback `json:"fallback,omitempty"` // the same with PYTORCH_ENABLE_MPS_FALLBACK=1
	CPU        string       `json:"cpu,omitempty"`      // where it failed: ok on the CPU, or the error there
	Notes      []string     `json:"notes,omitempty"`
}

// tryShares are an attempt's operators, and which part of them has no kernel.
type tryShares struct {
	Operators int      `json:"operators"`
	Calls     int      `json:"calls"`
	Fell      *float64 `json:"share_of_calls"` // of calls with tensors on the device, those of an operator without a kernel
	FLOPs     *float64 `json:"share_of_flops"`
	Time      *float64 `json:"share_of_time"` // of the operators' time on this machine's CPU; absent without data
	Total     float64  `json:"flops"`
}

type tryFallback struct {
	Outcome   string    `json:"outcome"`
	Text      string    `json:"text,omitempty"`
	Shares    tryShares `json:"shares"`
	Operators []fellOp  `json:"operators"`
}

type fellOp struct {
	Operator string `json:"operator"`
	Calls    int    `json:"calls"`
	Where    string `json:"where,omitempty"`
}

// attemptAnswer is a line of agent/assay_agent/attempt.py.
type attemptAnswer struct {
	Fatal string    `json:"fatal"`
	Text  string    `json:"text"`
	Torch string    `json:"torch"`
	Py    string    `json:"python"`
	All   []string  `json:"models"`
	Error *tryError `json:"error"`
}

type attemptRest struct {
	Target     string       `json:"target"`
	Model      string       `json:"model"`
	Phase      string       `json:"phase"`
	Error      *tryError    `json:"error"`
	Refused    *tryRefusal  `json:"refused"`
	Inputs     []string     `json:"inputs"`
	Parameters int64        `json:"parameters"`
	Backward   bool         `json:"backward"`
	Data       bool         `json:"data"`
	Seconds    float64      `json:"seconds"`
	Peak       int64        `json:"peak"`
	StandIns   int          `json:"stand_ins"`
	Ops        [][]any      `json:"ops"`       // operator, calls, state, ns, FLOPs or null
	Fallbacks  [][]any      `json:"fallbacks"` // operator, line, calls, ns, bytes
	Notes      [][]any      `json:"notes"`     // operator, kind, text, line, calls
	Fallback   *attemptRest `json:"fallback"`
}

type tryRefusal struct{ Op, Cause string }

type tryError struct{ Type, Text, Where, Via, Kind string }

func newTryCommand(env *Env) *cobra.Command {
	opts := tryOptions{on: "double", limit: "10m"}
	cmd := &cobra.Command{
		Use:   "try [flags] MODULE:MODEL | FILE.py:MODEL | PACKAGE --all",
		Short: "Try a model, forward and backward, on the double, a CPU or MPS: what happens, and by which cause",
		Long: `Imports MODEL from a module or a Python file, calls it if it is a class or a function (with --args), moves it to the device, and runs it
forward and backward: the sum of all floats in its output. Nothing is trained. The answer is the outcome by cause, with the operator, the line
and what to do; a model that fails is tried on the CPU as well, and where an operator is missing also with the CPU fallback.

--all tries every model of a package: those that its list_models() names (torchvision, timm); else each torch.nn.Module, class of one, and
function annotated to return one, that can be built without arguments; of a Python file, every function without arguments. A function may
return a model and its inputs. Each model has a process of its own. Inputs of torchvision's, timm's and transformers' models are known.

--input NAME:SHAPE:TYPE, once for each: 1,3,224,224 is float32; ids:8x128 is int64, as for names that end in ids, mask, labels or target;
x:2,3:float16 names a type; batch.ids:8x128 is the key ids of a dictionary named batch. A name that forward has is given by name. FILE.py:NAME
is a value or a function: a tuple is arguments in order, a dictionary arguments by name, anything else one argument.

Exit status: 0 where the model ran; 3 where it did not, and under --all where a model that runs on the CPU did not; 1 where nothing could be
tried; 2 where the command line is wrong.`,
		Example: `  assay try torchvision.models:resnet50 --input 1,3,224,224
  assay try model.py:Net --args width=64 --input ids:8x128 --input mask:8x128 --torch 2.8
  assay try torchvision.models --all --shape-only --torch 2.15`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.on, "on", opts.on, "`device` to try it on: double, cpu, mps")
	f.StringArrayVar(&opts.inputs, "input", nil, "an `input` of the model: 1,3,224,224 or ids:8x128 or inputs.py:make; more than once for more")
	f.StringArrayVar(&opts.args, "args", nil, "`key=value` for the class or function that makes the model; the value is a Python literal or a word")
	f.BoolVar(&opts.all, "all", false, "every model that the package offers")
	f.BoolVar(&opts.eval, "eval", false, "call the model's eval() first")
	f.StringVar(&opts.torch, "torch", "", "with --on double: `release` of PyTorch to stand for, 2.8 or 2.8.0; default the one installed")
	f.StringVar(&opts.chip, "chip", "", "with --on double: `chip` of the Mac, as m2-pro or m3-ultra-96gb; default "+target.DefaultChip)
	f.StringVar(&opts.macOS, "macos", "", "with --on double: `release` of macOS, 15 or 15.5; default 15, or what that release of PyTorch needs")
	f.BoolVar(&opts.shapeOnly, "shape-only", false, "with --on double: carry shapes and no data, where the model allows")
	f.StringVar(&opts.limit, "limit", opts.limit, "with --all: end a model after this `time`")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter")
	f.BoolVar(&opts.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTry(cmd.Context(), env, opts, args) }
	return cmd
}

func runTry(ctx context.Context, env *Env, opts tryOptions, args []string) error {
	usage := func(format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay try --help"), fault.Usage)
	}
	if len(args) != 1 {
		return usage("one model or package to try, not %d", len(args))
	}
	switch {
	case opts.on != "double" && opts.on != "cpu" && opts.on != "mps":
		return usage("--on %s: the devices are double, cpu and mps", opts.on)
	case opts.on != "double" && (opts.torch != "" || opts.chip != "" || opts.macOS != "" || opts.shapeOnly):
		return usage("--torch, --chip, --macos and --shape-only describe the Mac that the double stands for, and the try is --on %s", opts.on)
	case !opts.all && !strings.Contains(args[0], ":"):
		return usage("%s: write MODULE:MODEL or FILE.py:MODEL, or add --all for every model of the package", args[0])
	case opts.all && strings.Contains(args[0], ":"):
		return usage("%s --all: write the package alone", args[0])
	}
	limit, err := unit.ParseSeconds(opts.limit)
	if err != nil || limit <= 0 {
		return usage("--limit %s: a time such as 90s or 10m", opts.limit)
	}
	t := &trial{env: env, opts: opts, name: args[0], limit: limit, atlas: &atlas.Atlas{}}
	defer t.close()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	result, err := t.run(ctx)
	if err != nil {
		return err
	}
	if opts.json {
		encoder := json.NewEncoder(env.Stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(result)
	} else {
		err = result.text(env.Stdout, width(env))
	}
	if err != nil {
		return err
	}
	return result.status()
}

// status is what the command ends with.
func (r *tried) status() error {
	reached := 0
	for _, m := range r.Models {
		switch m.Outcome {
		case outcomeOK, outcomeCPU:
			reached++
		case outcomeNotBuilt:
		default:
			return status(fault.GateFailed)
		}
		if r.Package == "" && m.Outcome == outcomeCPU {
			return status(fault.GateFailed)
		}
	}
	if reached == 0 {
		return status(fault.Failed)
	}
	return nil
}

// The outcomes of an attempt; those of refusals are the double's causes.
const (
	outcomeOK       = "ok"
	outcomeMissing  = "missing operator"
	outcomeCPU      = "CPU too"
	outcomeNotBuilt = "not built"
	outcomeCrash    = "crash"
	outcomeLate     = "not done in time"
	outcomeOther    = "other"
)

// outcomes is the order in which they are counted.
var outcomes = []string{outcomeOK, outcomeMissing, "dtype", "argument", "device", "memory", outcomeOther, outcomeCrash, outcomeLate, outcomeCPU, outcomeNotBuilt}

// trial is one call of the command.
type trial struct {
	env         *Env
	opts        tryOptions
	name        string
	limit       float64
	atlas       *atlas.Atlas
	interpreter python.Interpreter
	program     string
	settings    *target.Settings
	folder      *file.Folder
}

func (t *trial) close() {
	if t.folder != nil {
		t.folder.Remove()
	}
}

// prepare finds the interpreter and unpacks what it is given.
func (t *trial) prepare(ctx context.Context) error {
	in, err := python.Find(ctx, t.env.Environ, t.env.Dir, t.opts.python)
	if err != nil {
		return err
	}
	t.interpreter = in
	if t.opts.on == "mps" {
		if err := requireDevice(ctx, t.env, "mps", []string{in.Path}); err != nil {
			return fault.Exit(err, fault.Failed)
		}
	}
	cache, err := agentCache(t.env)
	if err != nil {
		return err
	}
	installed, err := agent.Install(cache)
	if err != nil {
		return err
	}
	t.program = installed.Attempt
	if t.opts.on != "double" {
		return nil
	}
	double, err := rehearsal(ctx, t.env, runOptions{torch: t.opts.torch, chip: t.opts.chip, macOS: t.opts.macOS, shapeOnly: t.opts.shapeOnly}, []string{in.Path})
	if err != nil {
		return fault.Exit(err, fault.Usage)
	}
	if t.folder, err = file.Temp(t.env.Environ, t.env.Dir, "try"); err != nil {
		return fmt.Errorf("keep the double's table: %w", err)
	}
	settings := double.Settings
	settings.Table = filepath.Join(t.folder.Path, "double.json")
	data, err := json.Marshal(double.Table)
	if err == nil {
		err = os.WriteFile(settings.Table, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the double's table: %w", err)
	}
	t.settings = &settings
	return nil
}

// needsValues is how many parameters a model may have to be tried once more with data, when its shapes turned out to depend on values.
const needsValues = 500_000_000

// run tries the models; those that need values once more with data, and those that fail once more on the CPU.
func (t *trial) run(ctx context.Context) (*tried, error) {
	result := &tried{Schema: trySchema, Basis: evidence.Rehearsed, On: t.opts.on, Counts: map[string]int{}, Models: []*attempt{}}
	if t.opts.on != "double" {
		result.Basis = evidence.Measured
	}
	if t.opts.all {
		result.Package = t.name
	}
	var names []string
	if !t.opts.all {
		names = []string{t.name}
	}
	answers, about, err := t.attempts(ctx, t.opts.on, t.settings, names)
	if err != nil {
		return nil, err
	}
	result.Torch, result.Python = about.Torch, about.Py
	if t.settings != nil {
		shown := *t.settings
		shown.Table, shown.Installed = "", about.Torch
		result.Double = &shown
	}
	notes := map[string]string{}
	if t.opts.shapeOnly {
		var again []string
		for _, a := range answers {
			if a.StandIns == 0 && (a.Error == nil || a.Refused != nil || a.Error.Kind != "" || a.Phase != "forward" && a.Phase != "backward") {
				continue
			}
			if a.Parameters > needsValues {
				notes[a.Target] = "without data, and a value was asked for: it was taken for 0"
				continue
			}
			notes[a.Target] = "with data: without, a value was asked for"
			again = append(again, a.Target)
		}
		if len(again) > 0 {
			t.say("%d of them ask for values: those with data", len(again))
			whole := *t.settings
			whole.ShapeOnly = false
			more, _, err := t.attempts(ctx, t.opts.on, &whole, again)
			if err != nil {
				return nil, err
			}
			replace(answers, more)
		}
	}
	if first := answers[0]; !t.opts.all && first.Error != nil && (first.Error.Kind == "target" || first.Error.Kind == "input") {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("try %s: %s", t.name, first.Error.Text), "see: assay try --help"), fault.Usage)
	}
	cpu := map[string]*attemptRest{}
	if t.opts.on != "cpu" {
		var failed []string
		for _, a := range answers {
			if a.Error == nil || a.Error.Kind == "target" || a.Error.Kind == "input" || a.Error.Kind == "late" {
				continue
			}
			if !a.Data && a.Parameters > needsValues {
				notes[a.Target] = "not tried on the CPU: too large with data"
				continue
			}
			failed = append(failed, a.Target)
		}
		if len(failed) > 0 {
			if t.opts.all {
				t.say("%d failed: those on the CPU", len(failed))
			}
			more, _, err := t.attempts(ctx, "cpu", nil, failed)
			if err != nil {
				return nil, err
			}
			for _, a := range more {
				cpu[a.Target] = a
			}
		}
	}
	release := about.Torch
	if t.settings != nil {
		release = t.settings.Release
	}
	remedy := fold.Remedies(t.atlas, release)
	for _, a := range answers {
		m := t.judged(a, cpu[a.Target], remedy)
		if n := notes[a.Target]; n != "" {
			m.Notes = append(m.Notes, n)
		}
		result.Counts[m.Outcome]++
		result.Models = append(result.Models, m)
	}
	return result, nil
}

func replace(answers, by []*attemptRest) {
	for _, b := range by {
		if i := slices.IndexFunc(answers, func(a *attemptRest) bool { return a.Target == b.Target }); i >= 0 {
			answers[i] = b
		}
	}
}

func (t *trial) say(format string, a ...any) {
	fmt.Fprintln(t.env.Stderr, text.Lines(fmt.Sprintf(format, a...)))
}

// attempts runs attempt.py once, for models by name or for all of the package.
func (t *trial) attempts(ctx context.Context, on string, settings *target.Settings, names []string) ([]*attemptRest, attemptAnswer, error) {
	request := map[string]any{"device": on, "inputs": t.opts.inputs, "args": t.opts.args, "eval": t.opts.eval, "limit": t.limit, "double": settings, "targets": names}
	if t.opts.all {
		request["package"] = t.name
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, attemptAnswer{}, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, attemptAnswer{}, fmt.Errorf("try %s: %w", t.name, err)
	}
	defer read.Close()
	cmd := exec.CommandContext(ctx, t.interpreter.Path, t.program)
	cmd.Dir, cmd.Stdin, cmd.ExtraFiles = t.env.Dir, bytes.NewReader(data), []*os.File{write}
	for _, e := range t.env.Environ {
		if name, _, _ := strings.Cut(e, "="); name != agent.Variable && name != "CUDA_VISIBLE_DEVICES" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES=")
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if !t.opts.all && on == t.opts.on { // what the user's own model prints
		cmd.Stdout, cmd.Stderr = t.env.Stderr, io.MultiWriter(t.env.Stderr, &said)
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return nil, attemptAnswer{}, fmt.Errorf("start %s: %w", t.interpreter.Path, err)
	}
	var about attemptAnswer
	var found []*attemptRest
	var fatal error
	lines := bufio.NewReader(read)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var head attemptAnswer
			var rest attemptRest
			if json.Unmarshal(line, &head) != nil || json.Unmarshal(line, &rest) != nil {
				fatal = fmt.Errorf("try %s: its answer cannot be read: %.200s", t.name, line)
				continue
			}
			switch {
			case head.Fatal != "":
				fatal = t.fatal(head)
			case head.Torch != "":
				about = head
			case head.All != nil:
				if t.opts.all && names == nil {
					t.say("%d models of %s, %s", len(head.All), t.name, t.where())
				}
				if len(head.All) == 0 {
					fatal = fault.Hint(fmt.Errorf("%s offers no model that can be built without arguments", t.name), "name one: assay try MODULE:MODEL --args KEY=VALUE")
				}
			default:
				found = append(found, &rest)
			}
		}
		if err != nil {
			break
		}
	}
	waited := cmd.Wait()
	if fatal != nil {
		return nil, about, fatal
	}
	if len(found) == 0 {
		if about.Torch == "" || t.opts.all {
			return nil, about, fmt.Errorf("try %s: %s ended without an answer (%w): %s", t.name, t.interpreter.Path, waited, said.last())
		}
		text := "the process ended without an answer: " + waited.Error()
		found = []*attemptRest{{Target: names[0], Error: &tryError{Kind: "crash", Text: text}, Data: settings == nil || !settings.ShapeOnly}}
	}
	return found, about, nil
}

func (t *trial) where() string {
	if t.settings != nil {
		return doubleText(t.settings)
	}
	return "on " + t.opts.on
}

// fatal is the error where nothing could be tried.
func (t *trial) fatal(a attemptAnswer) error {
	switch a.Fatal {
	case "torch":
		return fault.Hint(fmt.Errorf("try %s: import torch in %s: %s", t.name, t.interpreter.Path, a.Text), "name an interpreter that has it: --python PATH")
	case "input", "args":
		return fault.Exit(fault.Hint(errors.New(a.Text), "see: assay try --help"), fault.Usage)
	}
	e := a.Error
	if e.Kind == "target" {
		return fault.Hint(fmt.Errorf("try %s: %s", t.name, e.Text), "looked for with "+t.interpreter.Path+"; --python names another")
	}
	at := e.Where
	if at == "" {
		at = e.Via
	}
	if at != "" {
		at = " at " + at
	}
	return fmt.Errorf("try %s: importing it raised %s%s: %s", t.name, e.Type, at, e.Text)
}

// judged makes of what the agent told an outcome.
func (t *trial) judged(a, onCPU *attemptRest, remedy func(operator, cause, text string) string) *attempt {
	m := &attempt{Name: a.Target, Phase: a.Phase, Model: a.Model, Inputs: append([]string{}, a.Inputs...), Parameters: a.Parameters, Data: a.Data, Backward: a.Backward,
		Seconds: a.Seconds, Peak: a.Peak}
	if len(a.Ops) > 0 {
		shares := sharesOf(a)
		m.Ran = &shares
	}
	for _, n := range a.Notes {
		if len(n) == 5 && n[1] != "stand-in" {
			m.Notes = append(m.Notes, fmt.Sprintf("%v: %v", n[0], n[2]))
		}
	}
	m.Outcome = outcomeOf(a)
	if a.Error == nil {
		if !a.Backward {
			m.Notes = append(m.Notes, "forward alone: no float of its output needs a gradient")
		}
		if len(a.Fallbacks) > 0 { // the user has set PYTORCH_ENABLE_MPS_FALLBACK
			m.Fallback = t.fallback(a)
		}
		return m
	}
	m.Error, m.Text, m.Where = a.Error.Type, a.Error.Text, a.Error.Where
	if m.Where == "" {
		m.Where = a.Error.Via
	}
	if a.Refused != nil {
		m.Operator, m.Remedy = a.Refused.Op, remedy(a.Refused.Op, a.Refused.Cause, a.Error.Text)
		if op, ok := t.atlas.Operator(m.Operator); ok && m.Outcome == outcomeMissing {
			m.NativeFrom = op.NativeFrom()
		}
	}
	if a.Fallback != nil {
		m.Fallback = t.fallback(a.Fallback)
	}
	if onCPU == nil {
		return m
	}
	m.CPU = "ok"
	if onCPU.Error != nil {
		m.CPU = strings.TrimPrefix(onCPU.Error.Type+": "+onCPU.Error.Text, ": ")
		if !fold.LacksMPS.MatchString(onCPU.Error.Text) && m.Outcome != outcomeNotBuilt {
			m.Outcome, m.Remedy = outcomeCPU, "it fails on the CPU as well: mend it there first"
			if a.Refused != nil && strings.Contains(a.Error.Text, "CUDA") {
				m.Remedy = remedy(a.Refused.Op, a.Refused.Cause, a.Error.Text)
			}
		}
	}
	return m
}

var mpsErrors = []struct {
	outcome string
	text    *regexp.Regexp
}{
	{outcomeMissing, regexp.MustCompile(`is not currently implemented for the MPS device|missing (MPS kernel|kernel for mps)`)},
	{"memory", regexp.MustCompile(`MPS backend out of memory|Invalid buffer size`)},
	{"dtype", regexp.MustCompile(`Cannot convert a MPS Tensor to|MPS framework doesn't support|not supported on MPS`)},
	{"device", regexp.MustCompile(`on the same device|Placeholder storage`)},
}

// outcomeOf names the cause of an attempt's end, before the CPU was asked.
func outcomeOf(a *attemptRest) string {
	switch {
	case a.Error == nil:
		return outcomeOK
	case a.Error.Kind == "crash":
		return outcomeCrash
	case a.Error.Kind == "late":
		return outcomeLate
	case a.Error.Kind != "":
		return outcomeNotBuilt
	case a.Refused != nil && a.Refused.Cause == "missing":
		return outcomeMissing
	case a.Refused != nil && a.Refused.Cause == "rank":
		return "argument"
	case a.Refused != nil:
		return a.Refused.Cause
	case a.Phase == "build" || a.Phase == "inputs":
		return outcomeNotBuilt
	}
	for _, e := range mpsErrors { // a real device
		if e.text.MatchString(a.Error.Text) {
			return e.outcome
		}
	}
	return outcomeOther
}

func (t *trial) fallback(a *attemptRest) *tryFallback {
	f := &tryFallback{Outcome: outcomeOf(a), Shares: sharesOf(a), Operators: []fellOp{}}
	if a.Error != nil {
		f.Text = strings.TrimPrefix(a.Error.Type+": "+a.Error.Text, ": ")
	}
	for _, row := range a.Fallbacks {
		if len(row) == 5 {
			op, _ := row[0].(string)
			where, _ := row[1].(string)
			n, _ := row[2].(float64)
			f.Operators = append(f.Operators, fellOp{op, int(n), where})
		}
	}
	slices.SortStableFunc(f.Operators, func(x, y fellOp) int { return y.Calls - x.Calls })
	return f
}

func sharesOf(a *attemptRest) tryShares {
	var s tryShares
	var fell, ns, fellNS, fellFLOPs float64
	for _, row := range a.Ops {
		if len(row) != 5 {
			continue
		}
		n, _ := row[1].(float64)
		state, _ := row[2].(string)
		spent, _ := row[3].(float64)
		flops, _ := row[4].(float64)
		on := state == string(rune(atlas.Missing)) || state == string(rune(atlas.CPU))
		s.Operators++
		s.Calls += int(n)
		s.Total += flops
		ns += spent
		if on {
			fell, fellNS, fellFLOPs = fell+n, fellNS+spent, fellFLOPs+flops
		}
	}
	share := func(part, whole float64) *float64 {
		if whole <= 0 {
			return nil
		}
		x := part / whole
		return &x
	}
	s.Fell, s.FLOPs = share(fell, float64(s.Calls)), share(fellFLOPs, s.Total)
	if a.Data && (fell == 0 || fellNS > 0) {
		s.Time = share(fellNS, ns)
	}
	return s
}

// text prints one model at length, or a line for each and the counts.
func (r *tried) text(out io.Writer, w int) error {
	var b strings.Builder
	if r.Package == "" && len(r.Models) == 1 {
		r.one(&b, r.Models[0], w)
	} else {
		r.list(&b)
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

func doubleText(s *target.Settings) string {
	text := fmt.Sprintf("on a double of torch %s MPS, %s with %s, macOS %s", s.Release, s.ChipName, unit.Bytes(float64(s.Memory)), s.MacOS)
	if s.ShapeOnly {
		text += ", shapes alone"
	}
	return text
}

// basis says where what is printed was seen.
func (r *tried) basis() string {
	if r.Double != nil {
		return fmt.Sprintf("%s, torch %s installed", doubleText(r.Double), r.Torch)
	}
	return fmt.Sprintf("on %s with torch %s", r.On, r.Torch)
}

func (r *tried) one(b *strings.Builder, m *attempt, w int) {
	wrapTo(b, fmt.Sprintf("%s: %s; %s, %s.", m.Name, m.Outcome, r.Basis, r.basis()), "", "  ", w)
	row := func(name, text string) {
		if text != "" {
			wrapTo(b, text, fmt.Sprintf("  %-9s ", name), strings.Repeat(" ", 12), w)
		}
	}
	model := strings.Join(m.Inputs, "; ")
	if m.Model != "" {
		model = strings.TrimPrefix(fmt.Sprintf("%s; %s, %d parameters", model, m.Model, m.Parameters), "; ")
	}
	row("input", model)
	row("operator", m.Operator)
	if m.Outcome != outcomeOK {
		at := m.Phase
		if m.Where != "" {
			at += " at " + m.Where
		}
		row("where", at)
		row("error", strings.TrimPrefix(m.Error+": "+m.Text, ": "))
		row("do", m.Remedy)
	}
	if f := m.Fallback; f != nil {
		row("fallback", "with PYTORCH_ENABLE_MPS_FALLBACK=1: "+f.told())
	}
	if m.CPU != "" {
		row("CPU", m.CPU)
	}
	if m.Ran != nil && m.Outcome == outcomeOK && m.Fallback == nil {
		row("called", fmt.Sprintf("%d operators %d times, each with a kernel", m.Ran.Operators, m.Ran.Calls))
	}
	if m.Peak > 0 && m.Outcome == outcomeOK {
		row("memory", unit.Bytes(float64(m.Peak))+" at the peak, as Metal's driver counts")
	}
	for _, n := range m.Notes {
		row("note", n)
	}
}

// told says how an attempt with the fallback went.
func (f *tryFallback) told() string {
	var parts []string
	for _, x := range []struct {
		share *float64
		of    string
	}{{f.Shares.Fell, "calls"}, {f.Shares.FLOPs, "FLOPs"}, {f.Shares.Time, "CPU time"}} {
		if x.share != nil {
			parts = append(parts, unit.Format(*x.share, "ratio")+" of the "+x.of)
		}
	}
	text := f.Outcome
	if f.Text != "" {
		text += " (" + f.Text + ")"
	}
	if len(f.Operators) > 0 {
		var ops []string
		for _, op := range f.Operators {
			ops = append(ops, fmt.Sprintf("%s %d×", op.Operator, op.Calls))
		}
		text += "; on the CPU: " + strings.Join(ops, ", ") + ": " + strings.Join(parts, ", ")
	}
	return text
}

func (r *tried) list(b *strings.Builder) {
	name, outcome := 0, 0
	for _, m := range r.Models {
		name, outcome = max(name, len(m.Name)), max(outcome, len(m.Outcome))
	}
	for _, m := range r.Models {
		line := fmt.Sprintf("%-*s  %-*s", name, m.Name, outcome, m.Outcome)
		var more []string
		switch {
		case m.Outcome == outcomeOK:
		case m.Operator != "" && m.Outcome != outcomeCPU:
			more = append(more, m.Operator+" in "+m.Phase)
			if m.Outcome == outcomeMissing && m.NativeFrom != "" {
				more = append(more, "native from "+m.NativeFrom)
			} else if m.Outcome == outcomeMissing {
				more = append(more, "in no release")
			}
			if m.Outcome != outcomeMissing {
				more = append(more, firstLine(m.Text))
			}
			if m.Fallback != nil {
				more = append(more, "with the fallback: "+m.Fallback.Outcome)
			}
		default:
			more = append(more, strings.TrimPrefix(m.Error+": "+firstLine(m.Text), ": "))
		}
		fmt.Fprintln(b, strings.TrimRight(line+"  "+strings.Join(append(more, m.Notes...), "; "), " "))
	}
	var counts []string
	for _, o := range outcomes {
		if r.Counts[o] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", r.Counts[o], o))
		}
	}
	fmt.Fprintln(b)
	wrapTo(b, fmt.Sprintf("%d models of %s, %s, %s: %s.", len(r.Models), r.Package, r.Basis, r.basis(), strings.Join(counts, ", ")), "", "  ", 100)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// tail keeps the end of what a process has said.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 8<<10 {
		t.data = t.data[len(t.data)-4<<10:]
	}
	return len(p), nil
}

// last is the last line that says something.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.data)), "\n")
	return lines[len(lines)-1]
}
