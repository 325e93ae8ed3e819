package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// command runs assay in a folder as a user would.
func command(t *testing.T, dir string, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: environ, Dir: dir, Now: time.Now}
	code = Main(env, args)
	return out.String(), errs.String(), code
}

const recordedRuns = "../gate/testdata/"

// recordedRun copies a recorded run into the folder, as assay run would have left it.
func recordedRun(t *testing.T, from, folder, name string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, name, "evidence.json"), string(data))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDefaultPolicyIsPrinted: what --default prints is the policy that is used.
func TestDefaultPolicyIsPrinted(t *testing.T) {
	if out, errs, code := command(t, t.TempDir(), nil, "gate", "--default"); code != 0 ||
		out != string(gate.DefaultText) {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
}

// TestGateBaseline: earlier runs of the folder are the baseline; a slower one fails, an unchanged one passes, too few
// cannot tell.
func TestGateBaseline(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(recordedRuns + "digits-runs.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []map[string]any
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	place := func(folder string, run map[string]any, day int) string {
		run["started"] = time.Date(2026, 5, day, 0, 0, 0, 0, time.UTC)
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, folder, run["id"].(string))
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, "evidence.json"), string(text))
		return path
	}
	var unchanged, slower []string
	for i, run := range runs { // every other run as it is becomes the baseline, the rest is judged
		switch asIs := strings.HasPrefix(run["id"].(string), "as-is"); {
		case asIs && i/2%2 == 0:
			place(".assay/runs", run, 1+i/4)
		case asIs:
			unchanged = append(unchanged, place("new", run, 15+i/4))
		default:
			slower = append(slower, place("slow", run, 15+len(slower)))
		}
	}
	write(t, filepath.Join(dir, "p.toml"), "[[gate]]\nname = \"speed\"\nrule = \"step.time within 5 % of baseline\"\n")
	for _, c := range []struct {
		runs []string
		code int
		says string
	}{
		{slower, 3, "against 12 runs"},
		{slower[:1], 4, "more runs would tell"},
		{unchanged, 0, "against 12 runs"},
	} {
		if out, errs, code := command(t, dir, nil, append([]string{"gate", "--policy", "p.toml"},
			c.runs...)...); code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), c.says) {
			t.Errorf("%d runs: status %d, want %d\n%s%s", len(c.runs), code, c.code, out, errs)
		}
	}
	// The same runs out of a logbook.
	book, err := logbook.Open(t.Context(), filepath.Join(dir, "team.db"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, ".assay/runs/*/evidence.json"))
	if err != nil || len(names) != 12 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := book.Add(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := command(t, dir, nil, append([]string{"gate", "--policy", "p.toml", "--against", "team.db",
		"--against", ".assay/runs"}, slower...)...); code != 3 || !strings.Contains(strings.Join(strings.Fields(out),
		" "), "against 12 runs") {
		t.Errorf("from the logbook, each run once: status %d\n%s%s", code, out, errs)
	}
	// The logbook that a team shares is a baseline without being named again, and its records can be judged by name.
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "p.toml"),
		"[[gate]]\nname = \"speed\"\nrule = \"step.time within 5 % of baseline\"\n")
	shared := append(os.Environ(), "ASSAY_LOGBOOK="+filepath.Join(dir, "team.db"))
	if out, errs, code := command(t, elsewhere, shared, append([]string{"gate", "--policy", "p.toml"},
		slower...)...); code != 3 || !strings.Contains(strings.Join(strings.Fields(out), " "), "against 12 runs") {
		t.Errorf("from $ASSAY_LOGBOOK: status %d\n%s%s", code, out, errs)
	}
	record := filepath.Base(filepath.Dir(names[11]))
	if out, errs, code := command(t, elsewhere, shared, "gate", "--policy", "p.toml", record); code != 4 ||
		!strings.Contains(out, "more runs would tell") || !strings.Contains(strings.Join(strings.Fields(out), " "),
		"of "+record) {
		t.Errorf("a record: status %d\n%s%s", code, out, errs)
	}
	if _, errs, code := command(t, elsewhere, shared, "gate", "--policy", "p.toml", "ffff"); code != 2 ||
		!strings.Contains(errs, "no file or folder") || !strings.Contains(errs, "see: assay log") {
		t.Errorf("no record: status %d\n%s", code, errs)
	}
	if out, _, code := command(t, dir, nil, "gate", "--policy", "p.toml", "--against",
		filepath.Join(dir, ".assay/runs/as-is-03"), unchanged[0]); code != 4 ||
		!strings.Contains(out, "4 runs more of the state to compare with") {
		t.Errorf("status %d\n%s", code, out)
	}
	if _, errs, code := command(t, dir, nil, "gate", "--policy", "p.toml", "--against", "nowhere",
		unchanged[0]); code != 2 || !strings.Contains(errs, "no such file") {
		t.Errorf("status %d\n%s", code, errs)
	}
}

// TestRunWithPolicy: gates at the end of a run, and a mistake before it.
func TestRunWithPolicy(t *testing.T) {
	python, dir := testkit.Python(t), t.TempDir()
	plain, err := filepath.Abs(filepath.Join(testkit.Subjects(), "plain.py"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "typo.toml"), "[[gate]]\nname = \"x\"\nrule = \"step.tme <= 1 s\"\n")
	write(t, filepath.Join(dir, "fail.toml"), "[[gate]]\nname = \"x\"\nrule = \"loss.last <= -1e6\"\n")
	write(t, filepath.Join(dir, "pass.toml"),
		"[[gate]]\nname = \"x\"\nrule = \"epoch.steps >= 1 and loss.last <= 1e6\"\n")
	write(t, filepath.Join(dir, "open.toml"), "[[gate]]\nname = \"x\"\nrule = \"gpu.util(mps) >= 18 %\"\n")
	ran := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	environ := os.Environ()
	if _, errs, code := command(t, dir, environ, "run", "-q", "--policy", "typo.toml", "--out", "t", "--", python,
		plain); code != 125 || ran("t") || !strings.Contains(errs, "did you mean step.time?") {
		t.Errorf("a mistake: status %d, ran %v\n%s", code, ran("t"), errs)
	}
	for policy, want := range map[string]int{"fail": 3, "pass": 0, "open": 4} {
		t.Run(policy, func(t *testing.T) {
			if policy != "fail" {
				testset.FullOnly(t)
			}
			_, errs, code := command(t, dir, environ, "run", "-q", "--profile=off", "--policy", policy+".toml", "--out",
				policy, "--", python, plain)
			if code != want || !strings.Contains(errs, "policy "+policy+".toml") || !ran(policy+"/gates.json") {
				t.Errorf("%s: status %d, want %d\n%s", policy, code, want, errs)
			}
		})
	}
	if _, errs, code := command(t, dir, environ, "run", "-q", "--policy", "fail.toml", "--out", "own", "--", python,
		"-c", "raise SystemExit(7)"); code != 7 {
		t.Errorf("the script's own status comes first: %d\n%s", code, errs)
	}
}

// TestTwoRunsOfOneName: earlier assays named a run after its folder, so that d1/report and d2/report have one name.
// They are two runs all the same: neither takes the other's place in a history, and a run that lies in a folder and in
// the logbook is one.
func TestTwoRunsOfOneName(t *testing.T) {
	dir := t.TempDir()
	var runs []*evidence.Run
	data, err := os.ReadFile(recordedRuns + "digits-runs.json")
	if err == nil {
		err = json.Unmarshal(data, &runs)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range runs[:7] {
		run.ID, run.Started = "report", time.Date(2026, 1, 1, i/2, 0, 0, 0, time.UTC) // two of them began at one moment
		doc, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, ".assay", "runs", fmt.Sprintf("d%d", i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "evidence.json"), string(doc))
	}
	write(t, filepath.Join(dir, "p.toml"), "[[gate]]\nname = \"x\"\nrule = \"step.time within 99 % of baseline\"\n")
	judge := func(args ...string) (gate.Report, string) {
		t.Helper()
		out, errs, code := command(t, dir, nil, append([]string{"gate", "--json", "--policy", "p.toml"}, args...)...)
		var rep gate.Report
		if err := json.Unmarshal([]byte(out), &rep); err != nil {
			t.Fatalf("status %d: %v\n%s%s", code, err, out, errs)
		}
		return rep, rep.Gates[0].Answers[0].Text
	}
	rep, text := judge(".assay/runs/d6")
	if c := rep.Gates[0].Answers[0].Compared; rep.Outcome != gate.Pass || c == nil || c.Past != 6 {
		t.Errorf("six earlier runs of the same name: %s\n%s", rep.Outcome, text)
	}
	if _, errs, code := command(t, dir, nil, "log", "import", ".assay/runs"); code != 0 {
		t.Fatal(errs)
	}
	if rep, text = judge(".assay/runs/d6"); rep.Gates[0].Answers[0].Compared == nil ||
		rep.Gates[0].Answers[0].Compared.Past != 6 {
		t.Errorf("kept in the logbook as well: %s", text)
	}
	if rep, _ = judge(".assay/runs/d5", ".assay/runs/d6"); len(rep.Runs) != 2 ||
		rep.Runs[0].Document == rep.Runs[1].Document {
		t.Errorf("two runs of one name were taken for one: %+v", rep.Runs)
	}
	out, errs, code := command(t, dir, nil, "log", "show", ".assay/runs/d3")
	if code != 0 || !strings.Contains(out, "record ") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
	if _, errs, code := command(t, dir, nil, "log", "show", "report"); code != 2 ||
		!strings.Contains(errs, "ambiguous") {
		t.Errorf("status %d\n%s", code, errs)
	}
}

// TestEachRunHasItsOwnName: wherever --out puts a run, its name is its own, in its events, its evidence and the
// logbook.
func TestEachRunHasItsOwnName(t *testing.T) {
	python, dir := testkit.Python(t), t.TempDir()
	names := map[string]bool{}
	for _, out := range []string{"d1/report", "d2/report"} {
		if _, errs, code := command(t, dir, os.Environ(), "run", "-q", "--logbook", "all.db", "--out", out, "--",
			python, "-c", "pass"); code != 0 {
			t.Fatal(errs)
		}
		run := testkit.LoadRun(t, filepath.Join(dir, out))
		events, err := os.ReadFile(filepath.Join(dir, out, "events.jsonl"))
		if err != nil || !strings.Contains(string(events), `"id":"`+run.ID+`"`) {
			t.Errorf("%s: the events have another name than %s (%v)", out, run.ID, err)
		}
		names[run.ID] = true
		if shown, errs, code := command(t, dir, nil, "log", "show", "--logbook", "all.db", run.ID); code != 0 {
			t.Errorf("%s%s", shown, errs)
		}
	}
	if len(names) != 2 || names["report"] {
		t.Errorf("%v", names)
	}
}
