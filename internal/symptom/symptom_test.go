package symptom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/facts"
)

var update = flag.Bool("update", false, "rewrite docs/symptoms.md")

func scan(t *testing.T, text string) *Report {
	t.Helper()
	rep, err := Scan("log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func rules(rep *Report) []string {
	var names []string
	for _, s := range rep.Symptoms {
		names = append(names, s.Rule)
	}
	return names
}

func printed(t *testing.T, rep *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, rep, 100000); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReported puts what people reported to the rules: the one that explains it is found, nothing else is said to be
// the cause, and no line of it is left unknown. Each rule has such a case.
func TestReported(t *testing.T) {
	data, err := os.ReadFile("testdata/reported.toml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Case []struct {
			Source, Rule, Text, Where string
			Says                      []string
		}
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, c := range file.Case {
		rep := scan(t, c.Text)
		met[c.Rule] = true
		if len(rep.Symptoms) == 0 || rep.Symptoms[0].Rule != c.Rule {
			t.Errorf("%s: %v, want %s first:\n%s", c.Source, rules(rep), c.Rule, c.Text)
			continue
		}
		for _, s := range rep.Symptoms[1:] {
			if !s.After && s.Rule != "mlir-abort" && s.Rule != "wheel-platform" && s.Rule != c.Rule {
				t.Errorf("%s: %s beside %s", c.Source, s.Rule, c.Rule)
			}
		}
		for _, u := range rep.Unknown {
			t.Errorf("%s: not known: %q", c.Source, u.Text)
		}
		s := rep.Symptoms[0]
		if c.Where != "" && s.Found[0].Where != c.Where {
			t.Errorf("%s: the user's line is %q, want %q", c.Source, s.Found[0].Where, c.Where)
		}
		out := printed(t, rep)
		for _, want := range c.Says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: does not say %q:\n%s", c.Source, want, out)
			}
		}
		if m := regexp.MustCompile(`\{[a-z_0-9]+\}`).FindString(s.Cause + strings.Join(s.Remedy, " ")); m != "" &&
			!strings.Contains(c.Text, m) {
			t.Errorf("%s: %s is not filled in: %s", c.Source, m, s.Cause)
		}
	}
	for _, r := range Rules() {
		if !met[r.Name] && !strings.HasPrefix(r.Name, "atlas/") {
			t.Errorf("no case for the rule %s", r.Name)
		}
	}
}

// TestNearMisses: no rule takes for its own what only resembles it. Each rule has a case.
func TestNearMisses(t *testing.T) {
	data, err := os.ReadFile("testdata/nearmiss.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range Rules() {
		known[r.Name] = true
	}
	met := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rule, text, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if !ok || !known[rule] && rule != "atlas/index-out-of-range-2" {
			t.Fatalf("no rule: %s", line)
		}
		met[rule] = true
		for _, s := range scan(t, text).Symptoms {
			if s.Rule == rule {
				t.Errorf("%s is said of: %s", rule, text)
			}
			if !s.Likely && strings.HasPrefix(s.Rule, "atlas/") && !namesDevice.MatchString(text) {
				t.Errorf("%s is said as certain of a line that names no device: %s", s.Rule, text)
			}
		}
	}
	for _, r := range Rules() {
		if !met[r.Name] && !strings.HasPrefix(r.Name, "atlas/") {
			t.Errorf("no near miss for the rule %s", r.Name)
		}
	}
}

// TestWholeNumbers: no rule reads a part of a number or of a name's digits. Each number of what was reported, and of
// the atlas's texts, is made longer; where a rule is still met, what its groups hold, and what it matched, ends where
// the number ends.
func TestWholeNumbers(t *testing.T) {
	var file struct{ Case []struct{ Text string } }
	data, err := os.ReadFile("testdata/reported.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range file.Case {
		lines = append(lines, strings.Split(c.Text, "\n")...)
	}
	for _, c := range facts.Load().All {
		if c.Text != "" {
			lines = append(lines, cmp.Or(c.Error, "UserWarning")+": "+sample(c.Text))
		}
	}
	digit := func(s string, i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	number := regexp.MustCompile(`\d+`)
	n := 0
	for _, line := range lines {
		for _, at := range append([][]int{{0, 0}}, number.FindAllStringIndex(line, -1)...) {
			longer := line
			if at[1] > 0 {
				longer = line[:at[1]] + "0123456789" + line[at[1]:]
			}
			lower := strings.ToLower(longer)
			for i := range must().patterns {
				p := &must().patterns[i]
				if !slices.ContainsFunc(p.anchors, func(a string) bool { return strings.Contains(lower, a) }) {
					continue
				}
				m := p.re.FindStringSubmatchIndex(longer)
				for g := 0; g+1 < len(m); g += 2 {
					if m[g] < 0 || m[g] == m[g+1] {
						continue
					}
					n++
					if digit(longer, m[g+1]-1) && digit(longer, m[g+1]) || digit(longer, m[g]) &&
						digit(longer, m[g]-1) {
						t.Errorf("%s reads %q of: %s", p.rule.Name, longer[m[g]:m[g+1]], longer)
					}
				}
			}
		}
	}
	if n < 1000 {
		t.Errorf("%d readings", n)
	}
}

// TestLogsThatEndInAnError: a log whose last line says that the program failed is never taken for one in which nothing
// is wrong: a rule knows it, or it is listed as not known.
func TestLogsThatEndInAnError(t *testing.T) {
	for _, end := range []string{
		"Killed", "Killed: 9", "zsh: killed     python train.py", "[1]    4711 killed     python train.py",
		"./run.sh: line 3:  4711 Killed                  python train.py",
		"Segmentation fault: 11", "Segmentation fault (core dumped)", "zsh: segmentation fault  python train.py",
		"./run.sh: line 3:  4711 Segmentation fault: 11  python train.py",
		"Abort trap: 6", "Aborted (core dumped)", "Aborted", "zsh: abort      python train.py", "Trace/BPT trap: 5",
		"zsh: trace trap  python train.py", "Bus error: 10",
		"zsh: bus error  python train.py", "Illegal instruction: 4", "Illegal instruction (core dumped)",
		"zsh: illegal hardware instruction  python train.py",
		"Floating point exception: 8", "Floating point exception (core dumped)", "Bad system call: 12",
		"Terminated: 15", "Terminated", "Quit: 3", "User defined signal 1: 30", "Hangup: 1",
		"Alarm clock: 14", "Cputime limit exceeded: 24",
		"libc++abi: terminating due to uncaught exception of type std::runtime_error: frob",
		"libc++abi.dylib: terminating with uncaught foreign exception", "libc++abi: Pure virtual function called!",
		"Fatal Python error: init_fs_encoding: failed to get the Python codec",
		"Fatal Python error: Segmentation fault",
		"Fatal Python error: _PyInterpreterState_Get: no current thread state",
		"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
		"terminate called without an active exception",
		"*** Terminating app due to uncaught exception 'NSInvalidArgumentException', reason: '-[X y]: unrecognized selector'",
		"python: frob.cc:12: void frob(): Assertion `x > 0' failed.",
		"Assertion failed: (x > 0), function frob, file frob.c, line 12.",
		"F0000 00:00:1700000000.000000  1 frob.cc:3] Check failed: x > 0",
		"Out of memory: Killed process 4711 (python)", "_pickle.FrobbingError: no",
		"frob._exceptions._FrobMemoryError: no room", "FrobError", "KeyboardInterrupt", "AssertionError",
		"[rank0]: FrobError: off by 3", "[default3]:FrobError: off by 3", "(f pid=12, ip=10.0.0.1) FrobError: off by 3",
		"E       FrobError: off by 3", "  | FrobError: off by 3",
		"frob.FrobError(ValueError): f() failed", "[rank1]:[E ProcessGroupFrob.cpp:12] something went wrong",
		"MemoryError", "MemoryError: Unable to frob",
		"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nfrob",
		"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nfrob.gone: 3",
		"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"x.py\", line 1, in <module>\n[rank0]: frob.Gone: 3",
		"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    frob(",
		"*** Received signal 11 ***", "python(1,0x1) malloc: *** error for object 0x315008234: pointer being freed was not allocated", "free(): invalid pointer",
		"double free or corruption (!prev)", "*** stack smashing detected ***: terminated",
		"(W pid=2) [x E 2 2] logging.cc:113: Unhandled exception: what(): x",
		"The worker group startup timed out after 30.0 seconds waiting for 8 workers.", "Could not find the frob",
		"training failed", "the frob is not supported here",
		"\x1b[31mFrobError: off by 3\x1b[0m", "\x1b]0;t\x07FrobError: off by 3",
	} {
		for _, tail := range []string{"", "\n", "\r\n"} {
			if rep := scan(t, "epoch 1 loss 0.3\n"+end+tail); !rep.Known() && len(rep.Unknown) == 0 {
				t.Errorf("nothing is found in a log that ends in %q", end+tail)
			}
		}
	}
}

// TestConditions: every text of the atlas, as it would be printed, is explained, by a cause, a remedy and a source.
func TestConditions(t *testing.T) {
	n := 0
	for _, c := range facts.Load().All {
		if c.Text == "" {
			continue
		}
		n++
		class := c.Error
		if class == "" {
			class = "UserWarning"
		}
		rep := scan(t, class+": "+sample(c.Text))
		if len(rep.Symptoms) == 0 {
			t.Errorf("%s is not explained: %s", c.Name, sample(c.Text))
			continue
		}
		s := rep.Symptoms[0]
		if s.Cause == "" || len(s.Remedy) == 0 || s.Remedy[0] == "" || s.Source == "" {
			t.Errorf("%s: incomplete: %+v", c.Name, s)
		}
	}
	if n < 400 {
		t.Errorf("%d texts", n)
	}
}

// TestDouble goes through the texts that the double raises or warns with of itself, as they stand in its sources; those
// of facts: TestAtlas.
func TestDouble(t *testing.T) {
	// What a script does not see, or what is no matter of the device.
	ours := []string{"a heap without room was chosen", "read the double's table ", "put up the double: ",
		"the block is free already", "cannot allocate ",
		"got an unexpected keyword argument"} // Python's own words, of any function
	follows := map[string]string{"Undefined type ": "Undefined type Float",
		"state object for: ": "state object for: cumsum_bool", "Invalid buffer size: ": "Invalid buffer size: 9.02 GB",
		"is supported on ": "is supported on MacOS 13.0+.", "dummy base class ": "dummy base class _CudaStreamBase",
		"Tried to allocate ": "Tried to allocate 1.00 GiB", "module 'mps'": "module 'torch.mps'",
		"'mps' is deprecated":            "'torch.mps.nope' is deprecated",
		"mps is only implemented on CPU": "apply_ is only implemented on CPU",
		"from the 'mps' backend":         "from the 'SparseMPS' backend",
		"assay: mps mps":                 "assay: torch.mps.compile_shader runs Metal code, which cannot be rehearsed without a Mac's GPU"}
	n := 0
	root := "../../agent/assay_agent/double"
	var files []string
	for _, pattern := range []string{"*.py", "*/*.py"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range raised(string(source)) {
			if slices.ContainsFunc(ours, func(s string) bool { return strings.Contains(text, s) }) {
				continue
			}
			n++
			for computed, is := range follows { // what the code puts behind a literal, or into it
				text = strings.ReplaceAll(text, computed, is)
			}
			if rep := scan(t, "RuntimeError: "+text); len(rep.Symptoms) == 0 {
				t.Errorf("%s: not explained: %s", file, text)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d texts found in the double's sources", n)
	}
}

var (
	raising  = regexp.MustCompile(`(?:\b(?:Runtime|Type|NotImplemented|Value|Assertion|Attribute|Index)Error|warnings\.warn|return)\(\s*["'rf]|, [RTNVI], +|, [RTNVI],\n\s+|^FLOAT64 = |\n_FLOAT64 = |\n_\w+_TEXT = \(?`)
	pyText   = regexp.MustCompile(`^\s*(?:[rf]?("(?:[^"\\\n]|\\.)*")|[rf]?('(?:[^'\\\n]|\\.)*')|\+?\s*(POOL_TAIL|POOL|TOPK|OVER_65536_TAIL|OVER_65536|FLOAT64)\b\s*\+?)`)
	percent_ = regexp.MustCompile(`%[-0-9.]*[sdgr]`)
	braces   = regexp.MustCompile(`\{[^{}]*\}`)
)

// raised finds the texts of exceptions, warnings and rows of a table: literals that stand where one is made, joined.
func raised(source string) []string {
	constants := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(POOL_TAIL|POOL|TOPK|OVER_65536_TAIL|OVER_65536|FLOAT64) = \(?`).FindAllStringSubmatchIndex(source, -1) {
		text, _ := literalsAt(source[m[1]:], constants)
		constants[source[m[2]:m[3]]] = text
	}
	var texts []string
	for _, at := range raising.FindAllStringIndex(source, -1) {
		from := at[1]
		for from > at[0] && strings.ContainsRune(`"'rf`, rune(source[from-1])) {
			from--
		}
		text, _ := literalsAt(source[from:], constants)
		if len(text) < 10 || !strings.Contains(text, " ") && !strings.Contains(text, "%") {
			continue
		}
		text = percent_.ReplaceAllStringFunc(text, func(v string) string {
			if v == "%s" || v == "%r" {
				return "mps"
			}
			return "3"
		})
		texts = append(texts, braces.ReplaceAllString(text, "3"))
	}
	return texts
}

func literalsAt(source string, constants map[string]string) (string, int) {
	var b strings.Builder
	at := 0
	for {
		m := pyText.FindStringSubmatch(source[at:])
		if m == nil {
			return b.String(), at
		}
		at += len(m[0])
		switch {
		case m[3] != "":
			b.WriteString(constants[m[3]])
		case m[1] != "":
			b.WriteString(unquote(m[1]))
		default:
			b.WriteString(unquote(m[2]))
		}
	}
}

func unquote(s string) string {
	s = s[1 : len(s)-1]
	return strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\'`, `'`, `\\`, `\`).Replace(s)
}

// TestOrdinaryLogs: what training prints when all is well is neither a symptom nor an unknown error.
func TestOrdinaryLogs(t *testing.T) {
	for _, line := range []string{
		"Epoch 1/5:   9%|9         | 432/4580 [06:56<1:06:37,  1.04img/s, loss=0.231, error=0.12]",
		"epoch 3 train_loss 0.2311 val_error 0.0712 error: 0.07",
		"Error: 0.0712, Accuracy: 98.2%",
		"ERROR: 12.3 | acc 88.1",
		"  error rate 0.12",
		"test error: 1.2e-3",
		"step 11570: train loss 3.2412, val loss 5.7422",
		"11570 | loss 7.3546 | lr 2.876832e-05 | 64916.63ms | mfu 0.34%",
		"{'loss': 0.6931, 'grad_norm': 1.4, 'learning_rate': 5e-05, 'epoch': 0.1}",
		"mean absolute error 0.3, max error 1.2, banana loss 0.4, finance: nan values dropped: no",
		"/usr/lib/python3/dist-packages/sklearn/metrics.py:12: mean_squared_error",
		"INFO: fault tolerance off; abort on first exception: no; killed tasks: 0",
		"nan_to_num is used for the mask; loss.nan_policy = skip",
		"Downloading: 100%|##########| 570M/570M [00:12<00:00, 45.1MB/s]",
		"[INFO] 2026-01-02 10:11:12 errors=0 warnings=0",
		"GPU 0 has 24 GiB; batch size 64; mps available: True",
		"Using device: mps", "memory allocated: 9.57 GiB", "pip install triton later", "num_workers=8 spawn",
		"Test passed: test_error_handling PASSED",
		"workers terminated: 3", "Terminated: 3 workers, all well", "INFO: trace saved; abort: no",
		"Quit: 3 of 5 players", "the process was killed by signal: no",
		"| loss | 0.3 |", "E   12 0.3", "[rank0]: epoch 1 loss 0.3", "(f pid=12) epoch 1 loss 0.3",
		"  what do you say: nothing", "Assertion rate 0.3",
		"0 errors, 0 failures", "Total parameters: 11.7M", "RMSError 0.4",
		"Best model saved (val_loss=0.1, error=0.05) to checkpoints/best.pt",
	} {
		rep := scan(t, line+"\r"+line+"\n")
		if len(rep.Symptoms) > 0 || len(rep.Unknown) > 0 {
			t.Errorf("%q: %v %v", line, rules(rep), rep.Unknown)
		}
	}
}

func TestUnknown(t *testing.T) {
	rep := scan(t, `epoch 1
Traceback (most recent call last):
  File "/Users/x/train.py", line 7, in step
    frobnicate()
  File "/Users/x/lib/site-packages/frob/core.py", line 70, in frobnicate
    raise FrobError("the frob is off by 3")
frob.FrobError: the frob is off by 3
[ERROR] 12:01:03 giving up
`)
	if rep.Known() || len(rep.Unknown) != 2 {
		t.Fatalf("%v %v", rules(rep), rep.Unknown)
	}
	if u := rep.Unknown[0]; u.Line != 7 || u.Where != "/Users/x/train.py:7, in step" ||
		!strings.Contains(u.Text, "off by 3") {
		t.Errorf("%+v", u)
	}
	if out := printed(t, rep); !strings.Contains(out, "no rule knows them") {
		t.Errorf("does not say so:\n%s", out)
	}
}

func TestGroups(t *testing.T) {
	oom := "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: %d.00 MB, max allowed: 18.13 GB). Tried to allocate 2.00 GB on private pool.\n"
	var b strings.Builder
	b.WriteString("args: batch_size=64 eval_batch_size=256\n")
	for i := range 50 {
		fmt.Fprintf(&b, oom, i)
	}
	b.WriteString("UserWarning: The operator 'aten::a' is not currently supported on the MPS backend and will fall back\nUserWarning: The operator 'aten::b' is not currently supported on the MPS backend and will fall back\n")
	rep := scan(t, b.String())
	if got := rules(rep); !slices.Equal(got, []string{"mps-out-of-memory", "operator-fallback", "operator-fallback"}) {
		t.Fatal(got)
	}
	if s := rep.Symptoms[0]; s.Count != 50 || len(s.Found) != mostSeen || s.Found[0].Line != 2 {
		t.Errorf("%+v", s)
	}
}

// TestBatch: the batch that is proposed keeps to the proportion that is stated, whatever the unit, and never exceeds
// what was tried.
func TestBatch(t *testing.T) {
	say := func(batch, allocated, other, limit, tried string) string {
		return printed(t, scan(t, "config: batch_size="+batch+"\nRuntimeError: MPS backend out of memory (MPS allocated: "+allocated+", other allocations: "+other+", max allowed: "+limit+
			"). Tried to allocate "+tried+" on private pool.\n"))
	}
	// (18 - 0) / (17 + 7) = 3/4 of 64
	if out := say("64", "17.00 GB", "0 bytes", "18.00 GB", "7.00 GB"); !strings.Contains(out,
		"Batch 48 at most instead of 64") || !strings.Contains(out, "begin with 32") || !strings.Contains(out, "33 %") {
		t.Error(out)
	}
	if out := say("1", "17.00 GiB", "0 bytes", "18.00 GiB", "7.00 GiB"); !strings.Contains(out, "No batch fits") {
		t.Error(out)
	}
	if out := say("64", "1.00 GiB", "0 bytes", "18.00 GiB", "30.00 GiB"); !strings.Contains(out,
		"larger than the limit") || strings.Contains(out, "at most instead") {
		t.Error(out)
	}
	none := printed(t, scan(t, "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 0 bytes, max allowed: 18.00 GB). Tried to allocate 7.00 GB on private pool.\n"))
	if !strings.Contains(none, "shrink by 25 %") || strings.Contains(none, "at most instead") {
		t.Error(none)
	}
	cuda := printed(t, scan(t, "--batch-size 32\nCUDA out of memory. Tried to allocate 4.00 GiB (GPU 0; 12.00 GiB total capacity; 8.00 GiB already allocated; 1.00 GiB free; 9.00 GiB reserved in total by PyTorch)"))
	if !strings.Contains(cuda, "Batch 24 at most instead of 32") { // (8 + 1) / (8 + 4)
		t.Error(cuda)
	}
}

// TestReleases: since when an operator has a kernel comes from the atlas.
func TestReleases(t *testing.T) {
	a := &atlas.Atlas{}
	n := 0
	for _, r := range a.Table("torch").Rows {
		op, _ := a.Operator(r.Name)
		since := op.NativeFrom()
		if since == "" || since == op.Columns[0] || op.At(op.Columns[0]) != atlas.Missing || n >= 20 {
			continue
		}
		n++
		out := printed(t, scan(t, "torch==2.0.0\nNotImplementedError: The operator '"+r.Name+"' is not currently implemented for the MPS device."))
		if !strings.Contains(out, "from torch "+since) || !strings.Contains(out, "this log says PyTorch 2.0.0") ||
			!strings.Contains(out, "pip install 'torch>="+since) && !strings.Contains(out, "It runs from "+since) &&
				!strings.Contains(out, "a wrong result is known") {
			t.Error(out)
		}
	}
	if n < 20 {
		t.Errorf("%d operators became native since the first release", n)
	}
	if out := printed(t, scan(t, "The operator 'mylib::frob' is not currently implemented for the MPS device")); !strings.Contains(out, "the atlas does not have mylib::frob") {
		t.Error(out)
	}
}

// TestContext: what a log says of itself is taken from where it says it, and not from the prose of messages.
func TestContext(t *testing.T) {
	for _, c := range []struct {
		text  string
		torch string
		macos string
		batch int
	}{
		{"PyTorch version: 2.4.1\nOS: macOS 14.5 (arm64)\n", "2.4.1", "14.5", 0},
		{"Ultralytics YOLOv8.1.42 Python-3.9.19 torch-2.2.2 CPU (Apple M2)\nPython platform: macOS-15.2-arm64-arm-64bit", "2.2.2", "15.2", 0},
		{"[pip3] torch==2.0.0\n[pip3] torchvision==0.15.1", "2.0.0", "", 0},
		{"In PyTorch 2.6, we changed the default\nMPS: randperm op is supported natively starting from macOS 13.0.", "",
			"", 0},
		{"        Batch size:      16\n", "", "", 16},
		{"{'per_device_train_batch_size': 8, 'x': 1}", "", "", 8},
		{"python train.py --batch-size 32 --val-batch-size 99", "", "", 32},
		{"eval_batch_size=256", "", "", 0},
	} {
		if got := scan(t, c.text).Context; got.Torch != c.torch || got.MacOS != c.macos || got.Batch != c.batch {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
}

// TestHostileInput: what a log may be without being one. Reading stays bounded, and the report is JSON.
func TestHostileInput(t *testing.T) {
	oom := "MPS backend out of memory (MPS allocated: 1.00 GB, other allocations: 1.00 GB, max allowed: 1.00 GB). Tried to allocate 1.00 GB on private pool."
	for name, text := range map[string]string{
		"empty": "", "nul": "\x00\x00\n\x00", "no end": oom, "carriage returns": "\r\r\r\n" + oom + "\r",
		"long": strings.Repeat("x", 3<<20) + oom, "long before": oom + strings.Repeat("y", 3<<20),
		"latin 1": "caf\xe9 " + oom, "colours": "\x1b[31m" + strings.ReplaceAll(oom, "out", "\x1b[1mout\x1b[0m") +
			"\x1b[0m", "many": strings.Repeat("FooError: "+oom+"\n", 5000),
		"numbers": strings.ReplaceAll(oom, "1.00", strings.Repeat("9", 400)),
		"nested":  strings.Repeat("Traceback (most recent call last):\n", 1000) + oom,
		"braces":  "The operator '{op}' is not currently implemented for the MPS device",
	} {
		rep := scan(t, text)
		var b bytes.Buffer
		if err := JSON(&b, rep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !json.Valid(b.Bytes()) || b.Len() > 200<<10 {
			t.Errorf("%s: %d bytes of JSON", name, b.Len())
		}
		printed(t, rep)
		if want := name != "empty" && name != "nul" && name != "long" && name != "braces"; want &&
			len(rep.Symptoms) == 0 {
			t.Errorf("%s: not found", name)
		}
		if name == "long" && rep.Cut != 1 {
			t.Errorf("a cut line is not counted: %d", rep.Cut)
		}
	}
}

// FuzzScan: any input gives a report that prints.
func FuzzScan(f *testing.F) {
	f.Add([]byte("Traceback (most recent call last):\nRuntimeError: Invalid buffer size: 9.02 GB\n"))
	f.Add([]byte("CUDA out of memory. Tried to allocate 1 (GPU 0; x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := Scan("f", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := JSON(&b, rep); err != nil {
			t.Fatal(err)
		}
		if err := Text(&b, rep, 60); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRun(t *testing.T) {
	growth := 0.4
	run := evidence.NewRun("r")
	run.Target = evidence.Target{Asked: "double", Device: "mps", Double: &evidence.Double{Release: "2.3.0",
		MacOS: "14.5"}}
	run.Outcome = evidence.Outcome{Error: "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 0 bytes, max allowed: 18.00 GB). Tried to allocate 7.00 GB on private pool.", Where: "train.py:12"}
	run.Provenance.Datasets = []evidence.Dataset{{Type: "D", Batch: 64}}
	run.Fallbacks = []evidence.Fallback{{Operator: "aten::nonzero", Count: 9, Where: "model.py:3"}}
	run.Figures = []evidence.Figure{{Name: "memory.growth", Value: &growth, Unit: "ratio", N: 11,
		Basis: evidence.Rehearsed}}
	run.Retained = []evidence.Retained{{Where: "train.py:9", Tensors: 12, Bytes: 4096}}
	run.Findings = []evidence.Finding{{Name: "growing", Severity: evidence.Warning, Text: "memory grows",
		Hint: "detach", Basis: evidence.Rehearsed}}
	for i := range 200 {
		run.Steps.Number = append(run.Steps.Number, i+1)
		run.Steps.Kind = append(run.Steps.Kind, "")
		run.Steps.Total = append(run.Steps.Total, 0.1+0.001*float64(i))
	}
	rep := Run("r", run)
	got := rules(rep)
	for _, want := range []string{"mps-out-of-memory", "operator-fallback", "memory-grows", "starts-fast-then-slow",
		"finding/growing"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing: %v", want, got)
		}
	}
	out := printed(t, rep)
	for _, want := range []string{"Batch 48 at most instead of 64", "train.py:12", "train.py:9", "(9 times)"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	for _, s := range run.Steps.Number { // steps that stay as they are show nothing
		run.Steps.Total[s-1] = 0.1
	}
	run.Figures = nil
	if got := rules(Run("r", run)); slices.Contains(got, "starts-fast-then-slow") ||
		slices.Contains(got, "memory-grows") {
		t.Errorf("seen in a run that does not have it: %v", got)
	}
}

func TestPage(t *testing.T) {
	const page = "../../docs/symptoms.md"
	got := Page()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil || string(want) != got {
		t.Errorf("docs/symptoms.md is stale (%v): go test ./internal/symptom -run TestPage -update", err)
	}
}

func BenchmarkScan(b *testing.B) {
	line := "Epoch 3:  45%|####      | 1234/2749 [06:56<1:06:37,  1.04it/s, train_loss=0.2311, val_error=0.0712, lr=0.0001]\n"
	log := strings.Repeat(line, (64<<20)/len(line))
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := Scan("b", strings.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestClocksOfARehearsal: what shows in times is said of a run on the device, and not of a rehearsal, whose times are
// another machine's.
func TestClocksOfARehearsal(t *testing.T) {
	share := 0.9
	run := evidence.NewRun("r")
	run.Target.Device, run.Outcome.Started = "mps", true
	run.Figures = []evidence.Figure{{Name: "share.data", Value: &share, Unit: "ratio", Basis: evidence.Measured}}
	run.Operators = []evidence.Operator{{Name: "PythonDispatchMode", Self: 9}, {Name: "aten::mm", Self: 1}}
	for i := range 200 {
		run.Steps.Number, run.Steps.Total = append(run.Steps.Number, i+1),
			append(run.Steps.Total, 0.01*float64(1+i/100))
	}
	clocks := []string{"starts-fast-then-slow", "one-operator-takes-most", "waits-for-data"}
	for _, name := range clocks {
		if !slices.Contains(rules(Run("r", run)), name) {
			t.Errorf("a run on mps: %s is not said: %v", name, rules(Run("r", run)))
		}
	}
	run.Rehearsal = &evidence.Rehearsal{}
	for _, name := range clocks {
		if slices.Contains(rules(Run("r", run)), name) {
			t.Errorf("a rehearsal: %s", name)
		}
	}
}

// TestSymptomsGoByTheFindingsLimits: what a finding warns of is a symptom as well, and below its limit neither is said.
// Growth is judged by its pace: 12 % over four epochs' ends are 4 % an epoch, 30 % over forty are less than 1 %.
func TestSymptomsGoByTheFindingsLimits(t *testing.T) {
	for _, c := range []struct {
		figure string
		value  float64
		n      int
		rule   string
		said   bool
	}{
		{"share.data", 0.29, 20, "waits-for-data", false},
		{"share.data", 0.30, 20, "waits-for-data", true},
		{"memory.growth", 0.12, 4, "memory-grows", true},
		{"memory.growth", 0.30, 40, "memory-grows", false},
		{"memory.growth", 0.30, 1, "memory-grows", false}, // no pace is known of one epoch
	} {
		run := evidence.NewRun("r")
		run.Target.Device, run.Outcome.Started = "mps", true
		run.Figures = []evidence.Figure{{Name: c.figure, Value: &c.value, Unit: "ratio", N: c.n,
			Basis: evidence.Measured}}
		if got := slices.Contains(rules(Run("r", run)), c.rule); got != c.said {
			t.Errorf("%s %g of %d: %s said: %v, want %v", c.figure, c.value, c.n, c.rule, got, c.said)
		}
	}
}
