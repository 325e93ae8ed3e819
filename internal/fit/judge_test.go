package fit

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fault"
)

const gib = 1 << 30

func ptr(n int64) *int64 { return &n }
func length(n int) *int  { return &n }

// mac is one of 16 GiB under macOS 15: limits as the double has them.
func mac() Mac {
	return Mac{Chip: "m4-16gb", Name: "Apple M4", Memory: 16 * gib, MacOS: "15", Recommended: ptr(11453251584),
		Ground: "observed", Seen: "a log", High: ptr(19470527692), Low: ptr(16034552217), HighRatio: 1.7,
		Rest: 2863300608}
}

// rehearsed is one whose peak is so many bytes, with as much allocated, a quarter of it for the weights and what goes
// with them.
func rehearsed(peak int64) Rehearsed {
	a := &evidence.RehearsedMemory{Peak: peak, AllocatedPeak: peak, LargestBuffer: peak / 10,
		Evaluated: true, Saved: true,
		Kinds: evidence.MemoryKinds{Weights: peak / 8, Gradients: peak / 8, Activations: peak - peak/8*2},
		Batch: &evidence.RehearsedBatch{Rows: 64, Length: length(3), Longest: length(3), LongestSeenOf: 10}}
	a.At.Step, a.At.Phase = 2, "backward"
	return Rehearsed{Chip: "m4-16gb", Steps: 4, Account: a, Host: ptr(gib), Run: "a-run", Folder: "runs/a-run"}
}

// TestAnswers: the rules of docs/fits.md, one by one.
func TestAnswers(t *testing.T) {
	refusal := &evidence.Refusal{Operator: "aten::empty.memory_format", Cause: "memory", Error: "RuntimeError",
		Text: "MPS backend out of memory (MPS allocated: 17.90 GiB)", Where: "train.py:9"}
	for _, c := range []struct {
		name   string
		change func(r *Rehearsed, own **Rehearsed, m *Mac)
		peak   int64
		answer string
		why    string
	}{
		{"small", nil, 2 * gib, Fits, "up to 2.30 GiB are taken, within Metal's recommended working set of 10.7 GiB"},
		{"above all limits", nil, 30 * gib, DoesNot, "PyTorch refuses beyond 18.1 GiB"},
		{"above the memory, below the watermark", nil, 18 * gib, DoesNot, "it would swap"},
		{"between working set and memory", nil, 12 * gib, TooClose, "more than Metal's recommended working set"},
		{"with a host that fills the Mac",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Host = ptr(9 * gib) }, 6 * gib,
			DoesNot, "9.00 GiB in the script's own processes"},
		{"within the error of the account", nil, 10 * gib, TooClose, "up to 11.5 GiB may be taken"},
		{"with a large host", func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Host = ptr(7 * gib) }, 6 * gib, TooClose,
			"it may swap"},
		{"a buffer that Metal does not make",
			func(_ *Rehearsed, _ **Rehearsed, m *Mac) { m.LargestBuffer = ptr(gib / 8) },
			2 * gib, DoesNot, "one buffer of 205 MiB is asked for"},
		{"limits that are not known",
			func(_ *Rehearsed, _ **Rehearsed, m *Mac) { m.Recommended, m.High, m.Low = nil, nil, nil },
			2 * gib, NotKnown, "recommended working set for 16.0 GiB under macOS 15 is not known"},
		{"limits that are not known, and more than the Mac has", func(_ *Rehearsed, _ **Rehearsed, m *Mac) {
			m.Recommended, m.High, m.Low = nil, nil, nil
		}, 20 * gib, DoesNot, "the 16.0 GiB that the Mac has"},
		{"a watermark that was switched off",
			func(_ *Rehearsed, _ **Rehearsed, m *Mac) { m.High, m.HighRatio = nil, 0 },
			30 * gib, DoesNot, "it would swap"},
		{"a peak that still grows",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Account.At.Step = 4 }, 2 * gib, TooClose,
			"most was in use in step 4, the last"},
		{"a longer batch in the data",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Account.Batch.Longest = length(9) }, 2 * gib,
			TooClose, "length 3, and the data have 9"},
		{"a script that never trained", func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Steps = 0 }, 2 * gib, NotKnown,
			"never trained"},
		{"no tensor on the device", func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Account = nil }, 2 * gib, NotKnown,
			"no account"},
		{"a script that failed",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Ended = "the script ended with KeyError: 1" },
			2 * gib, NotKnown, "the script ended with KeyError: 1: what it needs"},
		{"a script that was killed",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Ended = "the script was ended by SIGKILL" },
			2 * gib, NotKnown, "SIGKILL"},
		{"refused on the largest Mac",
			func(r *Rehearsed, _ **Rehearsed, _ *Mac) { r.Refused = refusal }, 2 * gib, NotKnown,
			"ran out of it"},
		{"refused there, within the error of the account", func(r *Rehearsed, own **Rehearsed, _ *Mac) {
			r.Account.AllocatedPeak = 12 * gib
			small := *r
			small.Refused, small.Steps = refusal, 2
			*own = &small
		}, 19 * gib, TooClose, "by less than the account may be off"},
		{"refused there", func(r *Rehearsed, own **Rehearsed, _ *Mac) {
			small := *r
			small.Refused, small.Steps = refusal, 2
			*own = &small
		}, 22 * gib, DoesNot, "PyTorch refuses beyond 18.1 GiB"},
		{"rehearsed there as well: cached memory was given back", func(r *Rehearsed, own **Rehearsed, _ *Mac) {
			r.Account.AllocatedPeak = 9 * gib
			small := rehearsed(9 * gib)
			small.Run = "its-own"
			*own = &small
		}, 17 * gib, Fits, "up to 10.3 GiB are taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := rehearsed(c.peak), mac()
			var own *Rehearsed
			if c.change != nil {
				c.change(&r, &own, &m)
			}
			j := Judge(r, own, m)
			if j.Answer != c.answer || !strings.Contains(j.Why, c.why) {
				t.Errorf("%s: %s\nwant %s: … %s …", j.Answer, j.Why, c.answer, c.why)
			}
			if own != nil && own.Refused == nil && j.Run != "its-own" {
				t.Errorf("judged by %s, and it was rehearsed on this Mac", j.Run)
			}
			if own != nil && own.Refused != nil && (j.Refusal == nil || !strings.Contains(j.Refused, "after 2 steps")) {
				t.Errorf("where it was refused is lost: %+v %q", j.Refusal, j.Refused)
			}
		})
	}
}

// TestBatch: the batch that is named would get a yes by the same rules, and one more would not.
func TestBatch(t *testing.T) {
	at := func(rows int64) Rehearsed { // 1 GiB for the weights and what goes with them, 300 MiB for each row
		r := rehearsed(gib + rows*300<<20)
		r.Account.Kinds = evidence.MemoryKinds{Weights: gib, Activations: rows * 300 << 20}
		r.Account.Batch.Rows = int(rows)
		return r
	}
	j := Judge(at(64), nil, mac())
	if j.Answer != DoesNot || j.Batch == nil || j.Batch.Basis != evidence.Predicted {
		t.Fatalf("%s %+v", j.Answer, j.Batch)
	}
	if !strings.Contains(strings.Join(j.Try, "\n"), "in place of 64 (predicted") {
		t.Errorf("the batch is not named among what to try: %q", j.Try)
	}
	if got := Judge(at(int64(j.Batch.Fits)), nil, mac()).Answer; got != Fits {
		t.Errorf("a batch of %d, as named: %s", j.Batch.Fits, got)
	}
	if got := Judge(at(int64(j.Batch.Fits)+1), nil, mac()).Answer; got == Fits {
		t.Errorf("a batch of %d fits as well, and %d was named", j.Batch.Fits+1, j.Batch.Fits)
	}
	heavy := at(64)
	heavy.Account.Kinds.Weights, heavy.Account.AllocatedPeak, heavy.Account.Peak = 20*gib, 40*gib, 40*gib
	j = Judge(heavy, nil, mac())
	if j.Batch.Fits != 0 || !strings.Contains(strings.Join(j.Try, "\n"), "no batch fits") {
		t.Errorf("%+v %q", j.Batch, j.Try)
	}
}

// TestSmaller: a smaller batch counts as rehearsed only where the agent did set it and it gets a yes; where it does
// not, a smaller one still is named.
func TestSmaller(t *testing.T) {
	j := Judge(rehearsed(24*gib), nil, mac())
	rows := j.Smaller()
	if j.Answer != DoesNot || rows < 1 || rows >= 64 {
		t.Fatalf("%s, a batch of %d", j.Answer, rows)
	}
	small := rehearsed(6 * gib)
	small.Account.Batch.Rows = rows
	if j.Tried(rows, small) {
		t.Error("the agent did not set the batch, and the rehearsal counted")
	}
	small.Levers = []evidence.Lever{{Lever: "batch", Done: true, From: 64, To: int64(rows)}}
	failed := small
	failed.Ended = "the script ended with ValueError: no"
	if j.Tried(rows, failed) {
		t.Error("it failed, and it counted")
	}
	large := small
	account := *small.Account
	account.Peak, account.AllocatedPeak = 12*gib, 12*gib
	large.Account = &account
	if !j.Tried(rows, large) || j.Smaller() >= rows || j.Smaller() < 1 {
		t.Errorf("a batch of %d did not get a yes, and the next to try is %d", rows, j.Smaller())
	}
	if !j.Tried(rows, small) || j.Batch.Basis != evidence.Rehearsed || j.Batch.Fits != rows || j.Smaller() != 0 {
		t.Errorf("%+v", j.Batch)
	}
	if try := strings.Join(j.Try, "\n"); strings.Count(try, "a batch of ") != 1 || !strings.Contains(try, "rehearsed") {
		t.Errorf("%q", j.Try)
	}
}

// TestOwnFault: a script that is broken by itself is not rehearsed again with data, one whose course may depend on
// values is.
func TestOwnFault(t *testing.T) {
	for _, c := range []struct {
		ended  string
		steps  int
		device bool // a tensor was on it
		want   bool
	}{
		{"the script ended with ModuleNotFoundError: No module named 'peft'", 0, true, true},
		{"the script ended with FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", 0, true, true},
		{"the script ended with exit status 2", 0, false, true}, // argparse
		{"the script ended with KeyError: 1", 0, false, true},
		{"the script ended with KeyError: 1", 0, true, false},
		{"the script ended with NameError: name 'kept' is not defined", 0, true, false},
		{"the script ended with NotImplementedError: assay: aten::nonzero needs values", 0, true, false},
		{"the script ended with FileNotFoundError: 17.png", 2, true, false}, // a name made of a value
		{"", 4, false, false},
	} {
		r := Rehearsed{Ended: c.ended, Steps: c.steps}
		if c.device {
			r.Account = rehearsed(gib).Account
		}
		if r.OwnFault() != c.want {
			t.Errorf("%q after %d steps, on the device: %v: %v", c.ended, c.steps, c.device, !c.want)
		}
	}
}

// TestErrorsOfTheAccount: the band is no narrower than what docs/double-memory.md has of the errors.
func TestErrorsOfTheAccount(t *testing.T) {
	page, err := os.ReadFile("../../docs/double-memory.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]+\\|[^|]+\\|[^|]+\\| ([-+0-9.]+) % \\|[^|]+\\|[^|]+\\| ([-+0-9.]+) % \\|$")
	rows, under, over := row.FindAllStringSubmatch(string(page), -1), 0.0, 0.0
	for _, m := range rows {
		allocated, _ := strconv.ParseFloat(m[2], 64)
		reserved, _ := strconv.ParseFloat(m[3], 64)
		under = max(under, -reserved/100)
		if m[1] != "resnet50-adamw-fp16-8" { // values, not memory, as the page says
			over = max(over, allocated/100)
		}
	}
	if len(rows) < 50 || under > Under || over > Over {
		t.Errorf("%d workloads, %.4f too low and %.4f too high at worst; taken are %.4f and %.4f", len(rows), under, over,
			Under, Over)
	}
}

// TestRead: what is judged comes from evidence.json as it is written.
func TestRead(t *testing.T) {
	var run evidence.Run
	document := `{"schema":"assay.evidence/2","kind":"run","id":"r","subject":{"kind":"script","command":[],"dir":"/"},
	 "target":{"asked":"double","system":"x","double":{"release":"2.8.0","chip":"Apple M4","memory":17179869184,"shape_only":false}},
	 "figures":[{"name":"memory.resident.peak","value":9000,"unit":"B","basis":"measured"}],
	 "body":{"outcome":{"started":true,"exit":1,"complete":false,"error":"RuntimeError: MPS backend out of memory","where":"t.py:3"},
	 "steps":{"number":[1,2]},
	 "rehearsal":{"operators":[],"remarks":[],"refusals":[{"operator":"o","cause":"dtype","text":"no"},
	 {"operator":"o","cause":"memory","text":"MPS backend out of memory","where":"t.py:3","ended":true}]}}}`
	if err := json.Unmarshal([]byte(document), &run); err != nil {
		t.Fatal(err)
	}
	r := Read(&run)
	if r.Refused == nil || r.Refused.Cause != "memory" || r.Steps != 2 || !r.Data || *r.Host != 9000 ||
		r.Ended != "the script ended with RuntimeError: MPS backend out of memory" || r.Account != nil {
		t.Errorf("%+v", r)
	}
	run.Outcome = evidence.Outcome{Started: true, Exit: 137, Signal: "SIGKILL", Complete: false}
	if r := Read(&run); !strings.Contains(r.Ended, "SIGKILL") {
		t.Errorf("killed: %q", r.Ended)
	}
	run.Outcome = evidence.Outcome{Started: true, Complete: true, Stopped: "after 4 steps"}
	if r := Read(&run); r.Ended != "" {
		t.Errorf("ended as asked: %q", r.Ended)
	}
}

// TestStatus: a no outweighs what cannot be told, and that a yes.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		answers string
		status  int
	}{{Fits, fault.OK}, {Fits + "," + TooClose, fault.CannotTell}, {NotKnown, fault.CannotTell},
		{TooClose + "," + DoesNot + "," + Fits, fault.GateFailed}} {
		var r Result
		for answer := range strings.SplitSeq(c.answers, ",") {
			r.Chips = append(r.Chips, Judgement{Answer: answer})
		}
		if got := r.Status(); got != c.status {
			t.Errorf("%s: %d, want %d", c.answers, got, c.status)
		}
	}
}

// TestText: the page says answer, peak, kinds, margins and what was not reached, and obeys no stranger.
func TestText(t *testing.T) {
	r := rehearsed(2 * gib)
	r.Account.Evaluated = false
	r.Account.Batch.Longest, r.Account.Batch.Why = nil, "the data are no map \x1b[2J of items"
	result := Result{Envelope: evidence.NewEnvelope(KindFit)}
	result.Chips = []Judgement{Judge(r, nil, mac())}
	result.Rehearsals = []Rehearsal{Of(r, "it is the chip asked for")}
	var b bytes.Buffer
	if err := result.Text(&b, 100); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m4-16gb: fits.", "weights 256 MiB", "2.00 GiB of 10.7 GiB, 8.67 GiB left",
		"buffer      not known", "an evaluation within the 4 steps", "rehearsed on m4-16gb, shapes alone, 4 steps"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a stranger's words move the cursor")
	}
	if strings.Contains(b.String(), "MPSGraph") {
		t.Error("batches of one length, or of lengths that nobody told, are said to differ")
	}
	r.Account.Batch.Lengths = 3
	result.Chips = []Judgement{Judge(r, nil, mac())}
	if b.Reset(); result.Text(&b, 300) != nil || !strings.Contains(b.String(), "the batches came in 3 lengths") {
		t.Errorf("that the lengths of the batches differ is not said:\n%s", b.String())
	}
	var doc bytes.Buffer
	if err := result.JSON(&doc); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || back.Kind != KindFit || back.Chips[0].Answer != Fits {
		t.Errorf("%v %+v", err, back)
	}
}
