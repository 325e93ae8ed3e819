package attempt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
)

// forever is longer than any test waits: what waits for it hangs.
const forever = time.Hour

func failsOnDouble(s *stand) {
	s.begin()
	for i, n := range s.names() {
		if s.request.Device == evidence.OnDouble && i < 2 {
			s.send(raised(n, "", "shape '[2]' is invalid"))
		} else {
			s.send(told(n))
		}
	}
	s.send(done)
}

// scenarios are what a process at the other end of the wire may do.
var scenarios = map[string]func(*stand){
	"ran": ran,
	"prints": func(s *stand) {
		fmt.Println("\x1b]0;owned\x07loss \u202e0.5")
		fmt.Fprint(os.Stderr, "warning\r")
		ran(s)
	},
	"prints and fails on the double": func(s *stand) {
		fmt.Println("printed on " + s.request.Device)
		failsOnDouble(s)
	},
	"environment": func(s *stand) {
		for _, name := range []string{"ASSAY_AGENT", "CUDA_VISIBLE_DEVICES", "KEPT"} {
			value, set := os.LookupEnv(name)
			fmt.Printf("%s=%q %v\n", name, value, set)
		}
		ran(s)
	},
	"request": func(s *stand) { // told back as the model's inputs
		s.begin()
		table := ""
		if s.request.Double != nil {
			data, err := os.ReadFile(s.request.Double.Table)
			table = fmt.Sprint(string(data), " ", err)
		}
		r := s.request
		r.Double = nil
		s.send(told(s.names()[0], "2,3 float32", strings.ReplaceAll(fmt.Sprintf("%+v %s", r, table), `"`, "'")), done)
	},
	"dies at once":             func(*stand) { fmt.Fprintln(os.Stderr, "line one\nSegmentation fault"); os.Exit(139) },
	"ends well without a word": func(*stand) {},
	"dies after offering":      func(s *stand) { s.begin(); die() },
	"dies after one":           func(s *stand) { s.begin(); s.send(told(s.names()[0])); die() },
	"exits after offering":     func(s *stand) { s.begin() },
	"cut off":                  func(s *stand) { s.begin(); s.wire.WriteString(told(s.names()[0])[:80]); die() },
	"garbage": func(s *stand) {
		s.send(hello,
			"Traceback (most recent call last):")
		time.Sleep(forever)
	},
	"floods the wire": func(s *stand) {
		s.send(hello)
		for {
			s.wire.Write(bytes.Repeat([]byte("x"), 1<<16))
		}
	},
	"floods its output": func(s *stand) {
		for range 64 {
			os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
		fmt.Println("\nthe end")
		os.Exit(1)
	},
	"another version": func(s *stand) {
		s.send(strings.Replace(hello, `"version":2`, `"version":3`,
			1))
		time.Sleep(forever)
	},
	"silent":     func(s *stand) { s.begin(); s.send(told(s.names()[0])); time.Sleep(forever) },
	"never ends": func(s *stand) { ran(s); time.Sleep(forever) },
	"leaves a child": func(s *stand) { // which has the wire and the outputs, and lives on
		child := exec.Command("sleep", "3600")
		child.ExtraFiles, child.Stdout, child.Stderr = []*os.File{s.wire}, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("child", child.Process.Pid)
		s.begin()
		if s.request.Eval {
			os.Exit(0)
		}
		die()
	},
	"crashes on the double": func(s *stand) {
		s.begin()
		for i, n := range s.names() {
			switch {
			case s.request.Device == evidence.OnCPU || i == 2:
				s.send(told(n))
			case i == 0:
				s.send(raised(n, kindCrash, "its process ended by signal 11"))
			default: // without data, and too large to be tried with it
				s.send(strings.NewReplacer(`"data":true`, `"data":false`, `"parameters":6`,
					`"parameters":500000001`).Replace(raised(n, "", "x")))
			}
		}
		s.send(done)
	},
	"no torch": func(s *stand) {
		s.send(strings.Replace(hello, "2.15.0", "", 1),
			refused("torch", "ImportError", "No module named 'torch'", ""))
	},
	"no such model": func(s *stand) {
		s.send(hello, refused("target", "", "net.py has no Nte; near it: Net", ""))
	},
	"import raised": func(s *stand) {
		s.send(hello, refused("import", "KeyError", "'x'", "lib.py:3"))
	},
	"wrong input": func(s *stand) {
		s.send(hello, refused("input", "", "--input 2;3: write SHAPE", ""))
	},
	"no input": func(s *stand) {
		s.begin()
		s.send(raised(s.names()[0], kindInput, "no --input, and none is known for a Net"), done)
	},
	"no models":           func(s *stand) { s.send(hello, `{"answer":"offered","models":[]}`, done) },
	"fails on the double": failsOnDouble,
	"asks for values": func(s *stand) {
		s.begin()
		shapes := s.request.Double.ShapeOnly
		for i, n := range s.names() {
			switch line := told(n, `"data":true`, fmt.Sprintf(`"data":%v`, !shapes)); {
			case shapes && i == 0:
				s.send(strings.Replace(line, `"stand_ins":0`, `"stand_ins":2`, 1))
			case shapes && i == 1:
				s.send(strings.NewReplacer(`"stand_ins":0`, `"stand_ins":2`, `"parameters":6`,
					`"parameters":500000001`).Replace(line))
			default:
				s.send(line)
			}
		}
		s.send(done)
	},
}

// refused is the answer where nothing can be tried.
func refused(kind, name, text, via string) string {
	return fmt.Sprintf(`{"answer":"refused","error":{"kind":%q,"type":%q,"text":%q,"where":"","via":%q}}`,
		kind, name, text, via)
}

// ran tells of each model that it ran.
func ran(s *stand) {
	s.begin()
	for _, n := range s.names() {
		s.send(told(n))
	}
	s.send(done)
}

func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	time.Sleep(forever)
}

// with are options whose Python is this test binary, playing the scenario; what is narrated goes to the buffer.
func with(t *testing.T, scenario string, change func(*Options)) (Options, *bytes.Buffer) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var narration bytes.Buffer
	o := Options{Name: "net.py:Net", On: target.CPU(), Limit: time.Minute, Interpreter: binary, Cache: t.TempDir(),
		Dir: t.TempDir(), Narration: &narration,
		Environ: append(os.Environ(), scenarioVariable+"="+scenario, "TMPDIR="+t.TempDir())}
	if change != nil {
		change(&o)
	}
	return o, &narration
}

func all(o *Options) { o.Name, o.All = "net", true }

func onDouble(o *Options) {
	o.On = target.Target{Device: evidence.OnDouble}
	o.Double = &target.Double{Settings: target.Settings{Release: "2.8.0", ChipName: "Apple M1",
		Memory: 16 << 30, MacOS: target.MacOS{15, 0}}}
}

func TestRan(t *testing.T) {
	o, _ := with(t, "ran", nil)
	r, err := Run(t.Context(), o)
	if err != nil || len(r.Models) != 1 || r.Models[0].Name != "net.py:Net" || r.Models[0].Outcome != outcomeOK ||
		r.Torch != "2.15.0" || r.Python != "3.11.7" {
		t.Fatalf("%v %+v", err, r)
	}
	o, narration := with(t, "ran", all)
	r, err = Run(t.Context(), o)
	if err != nil || len(r.Models) != 3 || r.Models[2].Name != "C" || r.Counts[outcomeOK] != 3 || r.Package != "net" {
		t.Fatalf("%v %+v", err, r)
	}
	if narration.String() != "3 models of net, on cpu\n" {
		t.Errorf("narrated: %q", narration)
	}
}

// TestRequest: what the flags said arrives, the double's table with it, and the table is gone afterwards.
func TestRequest(t *testing.T) {
	var temp string
	o, _ := with(t, "request", func(o *Options) {
		onDouble(o)
		o.Double.Table.Commit = "c0ffee"
		o.Inputs, o.Args, o.Eval, o.Limit = []string{"2,3"}, []string{"width=4"}, true, 90*time.Second
		temp = strings.TrimPrefix(o.Environ[len(o.Environ)-1], "TMPDIR=")
	})
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Models[0].Inputs[0]
	for _, want := range []string{"Version:2", "Device:double", "Package: ", "Targets:[net.py:Net]", "Inputs:[2,3]",
		"Args:[width=4]", "Eval:true", "Limit:90",
		"'commit':'c0ffee'", "<nil>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if r.Double == nil || r.Double.Table != "" || r.Double.Installed != "2.15.0" || r.Basis != "rehearsed" {
		t.Errorf("%+v", r)
	}
}

// TestEnvironmentOfAttempts: no agent of a run around this one gets in, and no CUDA device is seen.
func TestEnvironmentOfAttempts(t *testing.T) {
	o, narration := with(t, "environment", func(o *Options) {
		o.Environ = append(o.Environ, "ASSAY_AGENT={}", "CUDA_VISIBLE_DEVICES=0", "KEPT=yes")
	})
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got, want := narration.String(),
		"ASSAY_AGENT=\"\" false\nCUDA_VISIBLE_DEVICES=\"\" true\nKEPT=\"yes\" true\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestWhatModelsPrint: of one model it is shown, made harmless; of a package's it is not.
func TestWhatModelsPrint(t *testing.T) {
	o, narration := with(t, "prints", nil)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := narration.String(); strings.ContainsAny(got, "\x1b\a\u202e\r") ||
		!strings.Contains(got, "owned\ufffdloss \ufffd0.5\n") || !strings.Contains(got, "warning") {
		t.Errorf("%q", got)
	}
	o, narration = with(t, "prints", all)
	if _, err := Run(t.Context(), o); err != nil || strings.Contains(narration.String(), "loss") {
		t.Errorf("%v %q", err, narration)
	}
}

// TestPrintedOnce: what a model prints again, when it is tried on the CPU beside the device, is not shown.
func TestPrintedOnce(t *testing.T) {
	o, narration := with(t, "prints and fails on the double", onDouble)
	r, err := Run(t.Context(), o)
	if err != nil || r.Models[0].CPU != "ok" {
		t.Fatalf("%v, %+v", err, r)
	}
	if got := narration.String(); !strings.Contains(got, "printed on double\n") || strings.Contains(got, "on cpu") {
		t.Errorf("%q", got)
	}
}

const killed = "the process ended without an answer: signal: killed"

// TestProcessesThatFail: however the other end behaves, the attempt ends, with one error that says why or with an
// outcome of the model's.
func TestProcessesThatFail(t *testing.T) {
	short := func(o *Options) { all(o); o.Limit, o.graceIs = time.Millisecond, 100*time.Millisecond }
	for _, c := range []struct {
		scenario string
		change   func(*Options)
		error    string // "": the model's outcome
		outcomes string
		hint     string
		status   int
	}{
		{"dies at once", nil, "try net.py:Net: PYTHON ended without an answer (exit status 139): Segmentation fault",
			"", "", fault.Failed},
		{"dies at once", all, "try net: PYTHON ended without an answer (exit status 139): Segmentation fault", "", "",
			fault.Failed},
		{"ends well without a word", nil, "ended without an answer (exit status 0): ", "", "", fault.Failed},
		{"dies after offering", nil, "", "crash: " + killed, "",
			fault.GateFailed},
		{"dies after offering", all, "try net: PYTHON ended without an answer (signal: killed): ", "", "",
			fault.Failed},
		{"dies after one", all, "",
			"ok crash: " + killed + " crash: " + killed, "", fault.GateFailed},
		{"exits after offering", nil, "", "crash: the process ended without an answer: exit status 0", "",
			fault.GateFailed},
		{"cut off", nil, "", "crash: " + killed, "", fault.GateFailed},
		{"garbage", nil, "cannot be read: invalid character 'T' looking for beginning of value: Traceback (most",
			"", "", fault.Failed},
		{"floods the wire", nil, "its answer cannot be read: a line is longer than 16 MiB", "", "", fault.Failed},
		{"floods its output", all, "ended without an answer (exit status 1): the end", "", "", fault.Failed},
		{"another version", nil, "it speaks version 3, and this assay version 2", "", "", fault.Failed},
		{"silent", short, "nothing was told of B for 101ms, and a model has 1ms", "", "", fault.Failed},
		{"never ends", func(o *Options) { o.graceIs = 100 * time.Millisecond }, "", "ok", "", fault.OK},
		{"no torch", nil, "try net.py:Net: import torch in PYTHON: No module named 'torch'", "", "--python PATH",
			fault.Failed},
		{"no such model", nil, "try net.py:Net: net.py has no Nte; near it: Net", "", "looked for with PYTHON",
			fault.Failed},
		{"import raised", nil, "try net.py:Net: importing it raised KeyError at lib.py:3: 'x'", "", "", fault.Failed},
		{"wrong input", nil, "--input 2;3: write SHAPE", "", "assay try --help", fault.Usage},
		{"no input", nil, "try net.py:Net: no --input, and none is known for a Net", "", "assay try --help",
			fault.Usage},
		{"no models", all, "net offers no model that can be built without arguments", "", "--args KEY=VALUE",
			fault.Failed},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			o, _ := with(t, c.scenario, c.change)
			want := strings.ReplaceAll(c.error, "PYTHON", o.Interpreter)
			r, err := Run(t.Context(), o)
			if c.error == "" {
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, m := range r.Models {
					got = append(got, strings.TrimSuffix(m.Outcome+": "+m.Text, ": "))
				}
				if strings.Join(got, " ") != c.outcomes || r.Status() != c.status {
					t.Errorf("status %d, %s", r.Status(), got)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) || fault.CodeOf(err) != c.status ||
				len(err.Error()) > 600 {
				t.Errorf("%v (status %d), want %s", err, fault.CodeOf(err), want)
			}
			if hint := fault.HintOf(err); !strings.Contains(hint,
				strings.ReplaceAll(c.hint, "PYTHON", o.Interpreter)) || c.hint == "" && hint != "" {
				t.Errorf("hint %q", hint)
			}
		})
	}
}

// TestChildThatLivesOn: a program that a model started holds the wire and the outputs open, and is not waited for.
func TestChildThatLivesOn(t *testing.T) {
	for well, how := range map[bool]string{false: "signal: killed", true: "exit status 0"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o, narration := with(t, "leaves a child", func(o *Options) { o.Eval = well })
			r, err := Run(t.Context(), o)
			var pid int
			if _, scanned := fmt.Sscanf(narration.String(), "child %d", &pid); scanned != nil {
				t.Fatalf("%v: %q", scanned, narration)
			}
			defer syscall.Kill(pid, syscall.SIGKILL)
			if err != nil || r.Models[0].Outcome != outcomeCrash || !strings.HasSuffix(r.Models[0].Text, how) {
				t.Errorf("%v %+v", err, r)
			}
		})
	}
}

// TestNoInterpreter: what cannot be started is named.
func TestNoInterpreter(t *testing.T) {
	o, _ := with(t, "ran", func(o *Options) { o.Interpreter = "/no/such/python" })
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "start /no/such/python") {
		t.Error(err)
	}
}

// TestOnTheCPUToo: what fails on the double is tried on the CPU, and nothing else is.
func TestOnTheCPUToo(t *testing.T) {
	o, narration := with(t, "fails on the double", func(o *Options) { all(o); onDouble(o) })
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"other ok", "other ok", "ok "} {
		if got := r.Models[i].Outcome + " " + r.Models[i].CPU; got != want {
			t.Errorf("%s: %q, want %q", r.Models[i].Name, got, want)
		}
	}
	if want := "3 models of net, on a double of torch 2.8.0 MPS, Apple M1 with 16.0 GiB, macOS 15\n" +
		"2 failed: those on the CPU\n"; narration.String() != want {
		t.Errorf("narrated %q", narration)
	}
}

// TestCrashOnTheCPUToo: a crash is tried on the CPU as an error is; what is too large for data is not, and says so.
func TestCrashOnTheCPUToo(t *testing.T) {
	o, _ := with(t, "crashes on the double", func(o *Options) { all(o); onDouble(o) })
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"crash|ok|", "other||not tried on the CPU: too large with data", "ok||"} {
		m := r.Models[i]
		if got := m.Outcome + "|" + m.CPU + "|" + strings.Join(m.Notes, ";"); got != want {
			t.Errorf("%s: %q, want %q", m.Name, got, want)
		}
	}
}

// TestWithData: without data a model that asks for values is tried again with them, unless it is too large.
func TestWithData(t *testing.T) {
	o, narration := with(t, "asks for values",
		func(o *Options) { all(o); onDouble(o); o.Double.Settings.ShapeOnly = true })
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"true [with data: without, a value was asked for]",
		"false [without data, and a value was asked for: it was taken for 0]", "false []"} {
		if got := fmt.Sprint(r.Models[i].Data, " ", r.Models[i].Notes); got != want {
			t.Errorf("%s: %s, want %s", r.Models[i].Name, got, want)
		}
	}
	if !strings.HasSuffix(narration.String(), "macOS 15, shapes alone\n1 of them ask for values: those with data\n") {
		t.Errorf("narrated %q", narration)
	}
}

// cancelling is a writer that ends what it hears of.
type cancelling struct {
	strings.Builder
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	defer c.cancel()
	return c.Builder.Write(p)
}

// TestStopped: a model's line is written when it is done, while the next one is being tried; what is known when the
// whole is stopped is the result, in the record too, and says how far it came.
func TestStopped(t *testing.T) {
	o, _ := with(t, "silent", all)
	ctx, cancel := context.WithCancel(t.Context())
	lines := &cancelling{cancel: cancel}
	o.Lines = lines
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != "A  ok\n" {
		t.Errorf("written as it was done: %q", lines)
	}
	if len(r.Models) != 1 || r.Models[0].Name != "A" || r.Stopped != "after 1 of 3 models" || r.Counts[outcomeOK] != 1 {
		t.Errorf("%+v", r.Tried)
	}
	if got := shown(t, r, 100); !strings.HasPrefix(got, "\n1 models of net, stopped after 1 of 3 models, measured") {
		t.Errorf("the rest of the text: %q", got)
	}
	var record strings.Builder
	if err := r.JSON(&record); err != nil || !strings.Contains(record.String(), `"stopped": "after 1 of 3 models"`) {
		t.Errorf("%v %s", err, &record)
	}
}

// TestStoppedAtOnce: before anything is told, there is nothing to keep.
func TestStoppedAtOnce(t *testing.T) {
	o, _ := with(t, "silent", all)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, o); err == nil {
		t.Error("no error")
	}
}

// TestLines: models that are tried once more have their line when that is done, and each has one.
func TestLines(t *testing.T) {
	o, _ := with(t, "fails on the double", func(o *Options) { all(o); onDouble(o) })
	var lines strings.Builder
	o.Lines = &lines
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := "C  ok\nA  other             RuntimeError: shape '[2]' is invalid\n" +
		"B  other             RuntimeError: shape '[2]' is invalid\n"
	if lines.String() != want {
		t.Errorf("%q, want %q", &lines, want)
	}
}
