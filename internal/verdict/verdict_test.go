package verdict

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/gate"
)

var update = flag.Bool("update", false, "rewrite the table of docs/verdict.md")

const page = "../../docs/verdict.md"

// TestPage: the table in docs/verdict.md is that of the code.
func TestPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rules: go test ./internal/verdict -run TestPage -update -->\n", "<!-- end of rules -->"
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the marks of the table are missing")
	}
	want := before + begin + RulesMarkdown() + "\n" + StopRule + ". Because " + StopBecause + ".\n" + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(data) {
		t.Error("docs/verdict.md is stale: go test ./internal/verdict -run TestPage -update")
	}
}

// TestRules: those that rule a lane out stand first, what is named exists, and each says why, whence and what next.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	lanes := false
	for _, r := range Rules {
		if seen[r.Name] || r.Because == "" || r.Source == "" || r.Next == "" || len(r.When) == 0 ||
			(r.Lane == "") == (r.RuleOut == "") {
			t.Errorf("rule %+v", r)
		}
		lanes = lanes || r.Lane != ""
		if r.RuleOut != "" && lanes {
			t.Errorf("%s rules a lane out after lanes were named", r.Name)
		}
		for _, c := range r.When {
			if c.Unless != "" && !seen[c.Unless] {
				t.Errorf("%s speaks of %s, which does not stand before it", r.Name, c.Unless)
			}
		}
		seen[r.Name] = true
	}
}

func load(t *testing.T, name string) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	return &run
}

// on is a run as it would be on a device: there is no Mac here to record one.
func on(device, id string, step float64, change ...func(*evidence.Run)) *evidence.Run {
	run := evidence.NewRun(id)
	run.Started = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	run.Subject = evidence.Subject{Kind: "script", Command: []string{"python", "train.py", "--epochs", "10"},
		Script: "train.py"}
	run.Target = evidence.Target{Device: device, Framework: "torch", Release: "2.8.0"}
	run.Outcome = evidence.Outcome{Started: true, Complete: true}
	run.Provenance.Datasets = []evidence.Dataset{{Type: "d", Length: 1437, Batch: 32}}
	run.Figures = []evidence.Figure{evidence.Known("step.time", step, "s", evidence.Measured)}
	if device == "mps" {
		gpu(0.6)(run)
		growing(0)(run)
		run.Operators = []evidence.Operator{{Name: "aten::mm", Self: 9}, {Name: "aten::copy_", Self: 8},
			{Name: "aten::conv", Self: 7}, {Name: "aten::add", Self: 1}}
		run.Figures = append(run.Figures, evidence.Known("share.data", 0.05, "ratio", evidence.Measured))
	}
	for _, c := range change {
		c(run)
	}
	return run
}

func put(name string, v float64, unit string) func(*evidence.Run) {
	return func(run *evidence.Run) {
		run.Figures = slices.DeleteFunc(run.Figures, func(f evidence.Figure) bool { return f.Name == name })
		run.Figures = append(run.Figures, evidence.Known(name, v, unit, evidence.Measured))
	}
}

func gpu(busy float64) func(*evidence.Run) { return put("gpu.busy.mean", busy, "ratio") }

func growing(perEpoch float64) func(*evidence.Run) {
	return func(run *evidence.Run) {
		run.Epochs = nil
		for e := 1; e <= 10; e++ {
			v := 1e9 * (1 + perEpoch*float64(e-2))
			run.Epochs = append(run.Epochs, evidence.Epoch{Number: e, Complete: true, Live: &v})
		}
	}
}

func losses(values ...float64) func(*evidence.Run) {
	return func(run *evidence.Run) {
		for i, v := range values {
			run.Loss.Step, run.Loss.Value = append(run.Loss.Step, i+1), append(run.Loss.Value, &v)
		}
	}
}

func failed(run *evidence.Run) { run.Outcome.Exit, run.Outcome.Error = 1, "RuntimeError: x" }

func batch(n int) func(*evidence.Run) {
	return func(run *evidence.Run) { run.Provenance.Datasets[0].Batch = n }
}

func pressure(run *evidence.Run) {
	run.Host.Samples = []evidence.Sample{{Figures: []evidence.Figure{evidence.Known("host.pressure", 2, "level",
		evidence.Measured)}}}
}

func TestLanes(t *testing.T) {
	missing, large, fits := load(t, "missing-operator.json"), load(t, "too-large.json"), load(t, "fits.json")
	same := func(run *evidence.Run, of *evidence.Run) *evidence.Run {
		run.Subject, run.Provenance.Datasets = of.Subject, of.Provenance.Datasets
		return run
	}
	cpu := on("cpu", "cpu", 0.100)
	rehearsed := func(figure string, n float64) *evidence.Run { // of the same work
		run := same(load(t, "fits.json"), cpu)
		put(figure, n, "1")(run)
		return run
	}
	wrong, ends, right := rehearsed("facts.wrong", 1), rehearsed("facts.aborts", 1), rehearsed("facts.wrong", 0)
	fallback := func(run *evidence.Run) { run.Fallbacks = []evidence.Fallback{{Operator: "aten::mm", Count: 3}} }
	for _, c := range []struct {
		name     string
		runs     []*evidence.Run
		declared []string
		lane     Lane
		rule     string
		out      bool
		needs    string
	}{
		{"nothing", nil, nil, None, "", false, "assay run --on double"},
		{"cpu alone", []*evidence.Run{cpu}, nil, None, "", false, "assay run --on mps -- python train.py"},
		{"a rehearsal that fits proves no speed", []*evidence.Run{fits, same(on("cpu", "c", 9), fits)}, nil, None, "",
			false, "assay run --on mps"},
		{"missing operator, nothing else", []*evidence.Run{missing}, nil, None, "", true,
			"assay run --on cpu -- python eigen.py"},
		{"missing operator, short on the CPU", []*evidence.Run{missing,
			same(on("cpu", "c", 1, put("epoch.estimate", 60, "s")), missing)}, nil, CPU, "cpu-is-enough", true, ""},
		{"missing operator, long on the CPU", []*evidence.Run{missing, same(on("cpu", "c", 1,
			put("epoch.estimate", 7200, "s")), missing)}, nil, None, "", true, "assay run --on cuda"},
		{"missing operator, ran on CUDA", []*evidence.Run{missing, same(on("cuda", "c", 1), missing)}, nil, CUDA,
			"cuda-instead", true, ""},
		{"missing operator, ran in MLX", []*evidence.Run{missing, same(on("mlx", "c", 1), missing)}, nil, MLX,
			"mlx-instead", true, ""},
		{"missing operator: another Mac lacks it too", []*evidence.Run{missing}, []string{Service}, None, "", true, ""},
		{"too large", []*evidence.Run{large}, nil, Remote, "more-memory", true, ""},
		{"faster on MPS", []*evidence.Run{on("mps", "m", 0.05), cpu}, nil, MPS, "mps", false, ""},
		{"faster on MPS, and the rehearsal met a wrong result", []*evidence.Run{on("mps", "m", 0.05), cpu, wrong},
			nil, None, "", true, "assay run --on cuda"},
		{"a known wrong result, short on the CPU", []*evidence.Run{wrong,
			same(on("cpu", "c", 1, put("epoch.estimate", 60,
				"s")), wrong)}, nil, CPU, "cpu-is-enough", true, ""},
		{"a known end of the process", []*evidence.Run{ends}, nil, None, "", true, "assay run --on cpu"},
		{"a known wrong result: another Mac gives it too", []*evidence.Run{wrong}, []string{Service}, None, "",
			true, ""},
		{"faster on MPS, and the rehearsal met none", []*evidence.Run{on("mps", "m", 0.05), cpu, right}, nil, MPS,
			"mps", false, ""},
		{"little faster, GPU at work", []*evidence.Run{on("mps", "m", 0.09), cpu}, nil, MPS, "mps", false, ""},
		{"little faster, GPU idle", []*evidence.Run{on("mps", "m", 0.09, gpu(0.1)), cpu}, nil, None, "data-plane",
			false, ""},
		{"slower, GPU at work", []*evidence.Run{on("mps", "m", 0.12), cpu}, nil, CPU, "cpu-is-faster", false, ""},
		{"another batch is no comparison", []*evidence.Run{on("mps", "m", 0.05, batch(64)), cpu}, nil, None, "", false,
			"assay run --on cpu"},
		{"memory grows", []*evidence.Run{on("mps", "m", 0.05, growing(0.05)), cpu}, nil, Remote, "memory-grows", false,
			""},
		{"too few epochs", []*evidence.Run{on("mps", "m", 0.05, func(r *evidence.Run) { r.Epochs = r.Epochs[:3] }),
			cpu}, nil, None, "", false, "a run of 10 epochs"},
		{"short of memory, long", []*evidence.Run{on("mps", "m", 0.05, pressure, put("epoch.estimate", 7200, "s")),
			cpu}, nil, Remote, "shared-memory", false, ""},
		{"short of memory, short", []*evidence.Run{on("mps", "m", 0.05, pressure, put("epoch.estimate", 60, "s")), cpu},
			nil, MPS, "mps", false, ""},
		{"fails on MPS, runs on CUDA", []*evidence.Run{on("mps", "m", 0.05, failed), cpu, on("cuda", "u", 0.01)}, nil,
			CUDA, "cuda-instead", true, ""},
		{"hotspot on the CPU", []*evidence.Run{on("mps", "m", 0.09, fallback), cpu, on("cuda", "u", 0.01)}, nil, CUDA,
			"cuda-instead", true, ""},
		{"hotspot on the CPU, and fast all the same", []*evidence.Run{on("mps", "m", 0.05, fallback), cpu}, nil, MPS,
			"mps", false, ""},
		{"has to follow CUDA, and does", []*evidence.Run{on("mps", "m", 0.05, losses(2, 1)), cpu,
			on("cuda", "u", 0.01, losses(2, 1.0001))}, []string{MatchCUDA}, MPS, "mps", false, ""},
		{"has to follow CUDA, and drifts", []*evidence.Run{on("mps", "m", 0.05, losses(2, 1)), cpu,
			on("cuda", "u", 0.01, losses(2, 1.1))}, []string{MatchCUDA}, CUDA, "drift-to-cuda", true, ""},
		{"drifts, and need not follow", []*evidence.Run{on("mps", "m", 0.05, losses(2, 1)), cpu,
			on("cuda", "u", 0.01, losses(2, 1.1))}, nil, MPS, "mps", false, ""},
		{"has to follow CUDA, never compared", []*evidence.Run{on("mps", "m", 0.05), cpu}, []string{MatchCUDA}, None,
			"", false, "assay run --on cuda"},
		{"queues", []*evidence.Run{on("mps", "m", 0.05), cpu}, []string{Service}, Remote, "service", false, ""},
		{"inference, MLX faster", []*evidence.Run{on("mps", "m", 0.05), on("mlx", "x", 0.04)}, []string{Inference}, MLX,
			"mlx-inference", false, ""},
		{"inference, MLX faster, portable", []*evidence.Run{on("mps", "m", 0.05), cpu, on("mlx", "x", 0.04)},
			[]string{Inference, Portable}, None, "", false, ""},
		{"training, MLX faster, not asked to rewrite", []*evidence.Run{on("mps", "m", 0.05), cpu, on("mlx", "x", 0.01)},
			nil, MPS, "mps", false, ""},
		{"training, MLX faster, may be rewritten", []*evidence.Run{on("mps", "m", 0.05), cpu, on("mlx", "x", 0.01)},
			[]string{Rewrite}, MLX, "mlx-training", false, ""},
	} {
		rep := Judge(c.runs, Options{Declared: c.declared})
		if rep.Lane != c.lane || rep.Rule != c.rule || slices.Contains(rep.RuledOut, MPS) != c.out {
			t.Errorf("%s: %s by %q, out %v; want %s by %q, out %v", c.name, rep.Lane, rep.Rule, rep.RuledOut, c.lane,
				c.rule, c.out)
		}
		if all := strings.Join(rep.Needs, "\n"); !strings.Contains(all, c.needs) || rep.Lane != None &&
			len(rep.Needs) > 0 {
			t.Errorf("%s: needs %q, want %q", c.name, all, c.needs)
		}
		if c.out && strings.Contains(strings.Join(rep.Needs, "\n"), "--on mps") {
			t.Errorf("%s: MPS is out, and a run on it is asked for", c.name)
		}
		if rep.Lane != None && len(rep.Next) == 0 {
			t.Errorf("%s: no next action", c.name)
		}
		var b bytes.Buffer
		if err := Text(&b, rep, 100); err != nil || !strings.HasPrefix(b.String(), "verdict: "+string(c.lane)+"\n") {
			t.Errorf("%s: %v %s", c.name, err, b.String())
		}
	}
}

// TestReasonsPointAtEvidence: each reason names the run, the figure, its value and its basis.
func TestReasonsPointAtEvidence(t *testing.T) {
	rep := Judge([]*evidence.Run{on("mps", "m-run", 0.05), on("cpu", "c-run", 0.1)}, Options{})
	for _, a := range rep.Rules {
		if a.Name != rep.Rule {
			continue
		}
		for _, answer := range a.Answers {
			if answer.Outcome != gate.Pass || answer.Figure.Name == "inference" {
				continue
			}
			if answer.Figure.Value == nil || answer.Figure.Basis == "" || len(answer.Runs) == 0 {
				t.Errorf("%+v", answer)
			}
		}
	}
	var b bytes.Buffer
	if err := Text(&b, rep, 300); err != nil || !strings.Contains(b.String(),
		"speedup(mps, cpu) is 50.0 %, as asked (>= 22.0 %) (derived; 1 − step.time(mps) / step.time(cpu): 50.0 ms against 100 ms; of m-run, c-run)") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestStoppingRule: two iterations a week apart that fail alike for the same operators end the tuning; nothing less
// does.
func TestStoppingRule(t *testing.T) {
	cpu := on("cpu", "cpu", 0.100)
	at := func(day int) func(*evidence.Run) {
		return func(run *evidence.Run) { run.Started = time.Date(2026, 3, day, 9, 0, 0, 0, time.UTC) }
	}
	poor := func(id string, day int, change ...func(*evidence.Run)) *evidence.Run {
		return on("mps", id, 0.09, append([]func(*evidence.Run){gpu(0.1), at(day)}, change...)...)
	}
	ops := func(names ...string) func(*evidence.Run) {
		return func(run *evidence.Run) {
			run.Operators = nil
			for i, n := range names {
				run.Operators = append(run.Operators, evidence.Operator{Name: n, Self: 9 - float64(i)})
			}
		}
	}
	print := func(of string) func(*evidence.Run) {
		return func(run *evidence.Run) { run.Provenance.Datasets[0].Fingerprint = of }
	}
	disturb := func(name string) func(*evidence.Run) {
		return func(run *evidence.Run) {
			for i := range run.Figures {
				if run.Figures[i].Name == name {
					run.Figures[i].Disturbed = "others"
				}
			}
		}
	}
	for _, c := range []struct {
		name string
		runs []*evidence.Run
		want string
		says string
	}{
		{"two iterations", []*evidence.Run{poor("b", 10), poor("a", 2), cpu}, "yes",
			"change the contract: 8 days apart"},
		{"in another order of time", []*evidence.Run{poor("b", 10, ops("aten::conv", "aten::mm", "aten::copy_")),
			poor("a", 2), cpu}, "yes", "data-plane failing in both"},
		{"six days", []*evidence.Run{poor("b", 8), poor("a", 2), cpu}, "no", "no two runs on MPS lie a week apart"},
		{"a week to the hour", []*evidence.Run{poor("b", 9), poor("a", 2), cpu}, "yes", "7 days apart"},
		{"one", []*evidence.Run{poor("a", 2), cpu}, "no", "fewer than two"},
		{"other operators", []*evidence.Run{poor("b", 10, ops("aten::mm", "aten::copy_", "aten::sort")), poor("a", 2),
			cpu}, "no", "the hottest operators changed"},
		{"another batch", []*evidence.Run{poor("b", 10, batch(64)), poor("a", 2), cpu}, "no", "batch 32, then 64"},
		{"data loading moved", []*evidence.Run{poor("b", 10, put("share.data", 0.2, "ratio")), poor("a", 2), cpu}, "no",
			"data take 5 % of a step, then 20 %"},
		{"data loading moved by five points, no more", []*evidence.Run{poor("b", 10, put("share.data", 0.1, "ratio")),
			poor("a", 2), cpu}, "yes", "data loading normalised"},
		{"other data", []*evidence.Run{poor("b", 10, func(r *evidence.Run) { r.Provenance.Datasets[0].Length = 99 }),
			poor("a", 2), cpu}, "no", "the data differ"},
		{"data of another kind", []*evidence.Run{poor("b", 10,
			func(r *evidence.Run) { r.Provenance.Datasets[0].Type = "e" }), poor("a", 2), cpu}, "no",
			"the data differ"},
		{"the same data, changed", []*evidence.Run{poor("b", 10, print("sha256:1")), poor("a", 2, print("sha256:2")),
			cpu}, "no", "the data differ"},
		{"data without a fingerprint", []*evidence.Run{poor("b", 10, print("sha256:1")), poor("a", 2), cpu}, "yes",
			"data loading normalised"},
		{"no loader", []*evidence.Run{poor("b", 10, func(r *evidence.Run) { r.Provenance.Datasets = nil }),
			poor("a", 2), cpu}, "cannot tell", "no loader was seen"},
		{"more workers", []*evidence.Run{poor("b", 10, func(r *evidence.Run) { r.Provenance.Datasets[0].Workers = 4 }),
			poor("a", 2), cpu}, "no", "0 workers, then 4"},
		{"data loading disturbed", []*evidence.Run{poor("b", 10, disturb("share.data")), poor("a", 2), cpu},
			"cannot tell", "share.data was disturbed: others"},
		{"the last of three decides", []*evidence.Run{poor("b", 10), poor("c", 12, put("step.time", 0.05, "s")),
			poor("a", 2), cpu}, "yes", "8 days apart"},
		{"the same run twice", []*evidence.Run{poor("a", 2), poor("a", 2), cpu}, "no", "fewer than two"},
		{"waits for data", []*evidence.Run{poor("b", 10, put("share.data", 0.4, "ratio")),
			poor("a", 2, put("share.data", 0.4, "ratio")), cpu}, "no", "waiting for data"},
		{"waits for data from the limit on", []*evidence.Run{poor("b", 10, put("share.data", 0.30, "ratio")),
			poor("a", 2, put("share.data", 0.28, "ratio")), cpu}, "no", "30 % of a step is spent waiting for data"},
		{"waits for data less than the limit", []*evidence.Run{poor("b", 10, put("share.data", 0.29, "ratio")),
			poor("a", 2, put("share.data", 0.28, "ratio")), cpu}, "yes", "data loading normalised"},
		{"no longer fails", []*evidence.Run{poor("b", 10, put("step.time", 0.05, "s")), poor("a", 2), cpu}, "no",
			"no gate fails in both"},
		{"no profile", []*evidence.Run{poor("b", 10, ops()), poor("a", 2), cpu}, "cannot tell", "a profile of one"},
		{"no run on the CPU", []*evidence.Run{poor("b", 10), poor("a", 2)}, "cannot tell",
			"the gate data-plane cannot be told"},
		{"share of data unknown", []*evidence.Run{poor("b", 10, func(r *evidence.Run) { r.Figures = r.Figures[:1] }),
			poor("a", 2), cpu}, "cannot tell", "whether data loading was normalised"},
		{"another script", []*evidence.Run{poor("b", 10), poor("a", 2,
			func(r *evidence.Run) { r.Subject.Script = "other.py" }), cpu}, "no", "fewer than two"},
		{"on a CPU", []*evidence.Run{on("cpu", "b", 1, at(10), ops("a", "b", "c")),
			on("cpu", "a", 1, at(2), ops("a", "b", "c"))}, "no", "fewer than two"},
	} {
		s := StoppingRule(c.runs, nil, map[string]string{"a": "runs/a", "b": "runs/b"})
		if s.Outcome != c.want || !strings.Contains(s.Text, c.says) {
			t.Errorf("%s: %s %q, want %s %q", c.name, s.Outcome, s.Text, c.want, c.says)
		}
		if s.Outcome == "yes" && (len(s.Runs) != 2 || s.Runs[0].Path != "runs/a" || s.Runs[1].Path != "runs/b" ||
			len(s.Operators) != 3 || len(s.Gates) == 0) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, Judge([]*evidence.Run{load(t, "too-large.json")}, Options{})); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Schema != evidence.Schema ||
		back.Kind != evidence.KindVerdict || back.Lane != Remote || len(back.Rules) != len(Rules) ||
		strings.Contains(b.String(), "null") {
		t.Errorf("%v %+v", err, back)
	}
}

// TestDisturbedChoosesNoLane: a step that something else slowed down names no lane, and the answer says what it was.
func TestDisturbedChoosesNoLane(t *testing.T) {
	mark := func(run *evidence.Run) {
		for i := range run.Figures {
			if run.Figures[i].Name == "step.time" {
				run.Figures[i].Disturbed = "cpu contention: others took 1.9 of 2 processors"
			}
		}
	}
	for _, runs := range [][]*evidence.Run{{on("mps", "m", 0.05), on("cpu", "c", 0.1, mark)},
		{on("mps", "m", 0.2, mark), on("cpu", "c", 0.1)}} {
		rep := Judge(runs, Options{})
		var b bytes.Buffer
		if err := Text(&b, rep, 300); err != nil || rep.Lane != None ||
			!strings.Contains(b.String(), "was disturbed: cpu contention") || len(rep.Needs) == 0 {
			t.Errorf("%s by %s: %v\n%s", rep.Lane, rep.Rule, err, b.String())
		}
	}
}

// TestTextSaysWhatTheStoppingRuleSaw: both runs with their day and where they lie, why it holds, or what would tell;
// where it does not hold, nothing.
func TestTextSaysWhatTheStoppingRuleSaw(t *testing.T) {
	day := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	refs := []RunRef{{ID: "first-run", Path: "runs/a", Started: day}, {ID: "second-run", Started: day.AddDate(0, 0, 8)}}
	for outcome, want := range map[string][]string{
		"yes": {"stopping rule: so it is\n", "  2026-03-02 runs/a\n", "  2026-03-10 second-run\n",
			"because: tuning goes on without end"},
		"cannot tell": {"stopping rule: so it is\n", "  2026-03-02 runs/a\n", "to know: a profile\n"},
		"no":          nil,
	} {
		rep := Judge([]*evidence.Run{on("cpu", "c", 1)}, Options{})
		rep.Stop = Stop{Outcome: outcome, Text: "so it is", Runs: refs}
		if outcome == "cannot tell" {
			rep.Stop.Needs = "a profile"
		}
		var b bytes.Buffer
		if err := Text(&b, rep, 200); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", outcome, w, b.String())
			}
		}
		if strings.Contains(b.String(), "stopping rule") != (outcome != "no") ||
			strings.Contains(b.String(), "without end") != (outcome == "yes") ||
			strings.Contains(b.String(), "to know: \n") {
			t.Errorf("%s:\n%s", outcome, b.String())
		}
	}
}

// TestTextNamesEachReasonOnce: rules that stay open for the same want of evidence stand on one line.
func TestTextNamesEachReasonOnce(t *testing.T) {
	var b bytes.Buffer
	rep := Judge([]*evidence.Run{on("mps", "m", 0.05)}, Options{})
	if err := Text(&b, rep, 2000); err != nil || rep.Lane != None {
		t.Fatalf("%s %v", rep.Lane, err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		if reason, rules, ok := strings.Cut(line, ": cannot tell "); ok {
			if seen[reason] || reason == "" || rules == "\n" {
				t.Errorf("%q twice or without a rule", line)
			}
			seen[reason] = true
		}
	}
	if len(seen) == 0 || !strings.Contains(b.String(), "to know: ") {
		t.Errorf("it does not say what is open:\n%s", b.String())
	}
}

// TestRulesText: the first condition of a rule stands behind "when", the others behind "and".
func TestRulesText(t *testing.T) {
	var b bytes.Buffer
	RulesText(&b, 2000)
	for _, want := range []string{"missing-operator\n  when refusals(missing) >= 1\n  then MPS is out\n",
		"hotspots-fall-back\n  when hot.fallbacks(mps) >= 1\n  and speedup(mps, cpu) < 22 %\n  then MPS is out\n",
		"\nstopping rule\n"} {
		if !strings.Contains("\n"+b.String(), "\n"+strings.TrimPrefix(want, "\n")) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestDeclarationsAreTold: what was declared is a figure that is known; what was not says so, and decides otherwise.
func TestDeclarationsAreTold(t *testing.T) {
	for _, declared := range [][]string{nil, {Service}, {Inference, Portable}, {MatchCUDA, Rewrite}} {
		rep := Judge([]*evidence.Run{on("mps", "a", 0.1)}, Options{Declared: declared})
		seen := 0
		for i, a := range rep.Rules {
			for _, c := range Rules[i].When {
				word := c.Said + c.NotSaid
				at := slices.IndexFunc(a.Answers, func(x gate.Answer) bool { return x.Condition == c.String() })
				if word == "" || at < 0 {
					continue
				}
				seen++
				answer, said := a.Answers[at], slices.Contains(declared, word)
				text, missing := word+" was not declared", "nobody declared it"
				if said {
					text, missing = word+" was declared", ""
				}
				if answer.Text != text || answer.Figure.Missing != missing || answer.Figure.Known() != said ||
					(answer.Outcome == gate.Pass) != (said == (c.Said != "")) {
					t.Errorf("%q, rule %s: %+v", declared, a.Name, answer)
				}
			}
		}
		if seen < 8 {
			t.Errorf("only %d conditions are about declarations", seen)
		}
	}
}

// TestTextNamesWhatIsOpen: where there is no lane, exactly the rules that cannot be told, and could matter, are named.
func TestTextNamesWhatIsOpen(t *testing.T) {
	for _, runs := range [][]*evidence.Run{{on("cpu", "a", 0.1)}, {on("mps", "a", 0.1)},
		{on("mps", "a", 0.1, failed)}} {
		for _, declared := range [][]string{nil, {Inference}, {Rewrite}} {
			rep := Judge(runs, Options{Declared: declared})
			if rep.Rule != "" || rep.Lane != None {
				t.Fatalf("%q: %s", declared, rep.Rule)
			}
			var b strings.Builder
			if err := Text(&b, rep, 10000); err != nil {
				t.Fatal(err)
			}
			var named, want []string
			for line := range strings.Lines(b.String()) {
				if _, list, ok := strings.Cut(strings.TrimSpace(line), ": cannot tell "); ok {
					named = append(named, strings.Split(list, ", ")...)
				}
			}
			for _, a := range rep.Rules {
				if a.Holds == "cannot tell" && a.matters {
					want = append(want, a.Name)
				}
			}
			slices.Sort(named)
			slices.Sort(want)
			if !slices.Equal(named, want) {
				t.Errorf("%q: %q, want %q", declared, named, want)
			}
		}
	}
}

// TestNobodyIsSentToARewrite: where MPS is out, MLX is asked for only where its rewrite, or deployment, was declared.
func TestNobodyIsSentToARewrite(t *testing.T) {
	for word, want := range map[string]bool{Service: false, Inference: true, Rewrite: true} {
		rep := Judge([]*evidence.Run{on("mps", "a", 0.1, failed)}, Options{Declared: []string{word}})
		i := slices.IndexFunc(rep.Rules, func(a Applied) bool { return a.Name == "mlx-instead" })
		if a := rep.Rules[i]; a.Holds != "cannot tell" || a.matters != want {
			t.Errorf("%s: %s, matters %v", word, a.Holds, a.matters)
		}
	}
}

// TestKnownWrongIsNamed: the reason names the fact, and what to do about it.
func TestKnownWrongIsNamed(t *testing.T) {
	run := load(t, "fits.json")
	figure := evidence.Known("facts.wrong", 1, "1", evidence.Rehearsed)
	figure.Note = "roi-backward-accumulates (train.py:20; right from torch 2.14.0 on)"
	run.Figures = append(run.Figures, figure)
	var b bytes.Buffer
	if err := Text(&b, Judge([]*evidence.Run{run}, Options{}), 200); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MPS is out, by the rule known-wrong", "roi-backward-accumulates",
		"right from torch 2.14.0 on"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
}
