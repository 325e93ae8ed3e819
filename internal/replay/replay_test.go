package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/fault"
	"assay/internal/signature"
	"assay/internal/testkit"
	"assay/internal/testset"
)

var update = flag.Bool("update", false, "write docs/confirmed.md anew")

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// tensor is a contiguous one on the CPU, with a range.
func tensor(dtype string, shape ...int64) signature.Value {
	t := &signature.Tensor{Shape: shape, Stride: make([]int64, len(shape)), Dtype: dtype, Layout: "strided",
		Device: "cpu", Range: []json.Number{"-1", "1"}, Values: "floats", Storage: 1}
	if shape == nil {
		t.Shape = []int64{}
	}
	for i := len(shape) - 1; i >= 0; i-- {
		t.Stride[i] = t.Storage
		t.Storage *= shape[i]
	}
	return signature.Value{Kind: signature.OfTensor, Tensor: t}
}

func number(n int64) signature.Value { return signature.Value{Kind: signature.Int, Int: n} }

func listOf(values ...signature.Value) signature.Value {
	return signature.Value{Kind: signature.List, List: values}
}

func call(name string, args ...signature.Value) *signature.Signature {
	op, overload, _ := strings.Cut(name, ".")
	return &signature.Signature{Op: op, Overload: overload, Phase: "forward", Count: 1, Args: args,
		Kwargs: map[string]signature.Value{}, Out: []signature.Tensor{}, Alias: [][]int{}}
}

// written is a file of a replay on a Mac with these results, as the journal writes it.
func written(t *testing.T, header Header, results ...*Result) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.replay")
	j, _, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	header.Version, header.Total = Version, len(results)
	if header.Proof.State == "" {
		header.Proof.State = ProofOK
	}
	if err := j.header(header); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		r.N = i
		if err := errors.Join(j.begin(i, 1), j.put(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func mac(torch string) Header {
	return Header{Of: signature.Header{Device: "cpu"}, Device: "mps", Torch: torch,
		Machine: Machine{Chip: "Apple M1", MacOS: "15.5"}}
}

func read(t *testing.T, path string) *File {
	t.Helper()
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCutOff cuts a file off after each of its bytes: what is whole is read, nothing else is lost, and going on from
// there ends in the very same bytes.
func TestCutOff(t *testing.T) {
	results := func() []*Result {
		return []*Result{{Signature: call("aten::relu", tensor("float32", 2, 3)), Outcome: OK, CPU: "ok"},
			{Signature: call("aten::exp", tensor("float32", 2)), Outcome: Refused, Text: "no <b>",
				Type: "RuntimeError"},
			{Signature: call("aten::mm", tensor("float16", 2, 2), tensor("float16", 2, 2)), Outcome: Ends}}
	}
	whole, err := os.ReadFile(written(t, mac("2.15.0"), results()...))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.replay")
	head := bytes.IndexByte(whole, '\n') + 1
	step := 1
	if !testset.IsFull() {
		step = 29
	}
	for n := 0; n <= len(whole); n += step {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		j, there, err := openJournal(path)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
		lines := bytes.Count(whole[:n], []byte("\n"))
		switch {
		case n < head && there != nil:
			t.Fatalf("cut after %d bytes, half a header: %+v", n, there)
		case n >= head && len(there.Results) != lines-1:
			t.Fatalf("cut after %d bytes: %d results of %d lines", n, len(there.Results), lines)
		}
		done := 0
		if there == nil {
			h := mac("2.15.0")
			h.Version, h.Total, h.Proof.State = Version, 3, ProofOK
			err = j.header(h)
		} else {
			done = len(there.Results)
		}
		for i, r := range results()[done:] {
			r.N = done + i
			err = errors.Join(err, j.begin(r.N, 1), j.put(r))
		}
		if err := errors.Join(err, j.close()); err != nil {
			t.Fatal(err)
		}
		if again, _ := os.ReadFile(path); !bytes.Equal(again, whole) {
			t.Fatalf("cut after %d bytes and gone on with: %s\nwant %s", n, again, whole)
		}
	}
}

// TestCutWhileWritten: a call is noted before it begins, and a result that was half written over the note is none.
func TestCutWhileWritten(t *testing.T) {
	path := written(t, mac("2.15.0"), &Result{Signature: call("aten::relu", tensor("float32", 2)), Outcome: OK},
		&Result{Signature: call("aten::exp", tensor("float32", 2)), Outcome: OK})
	data, _ := os.ReadFile(path)
	lines := strings.SplitAfter(string(data), "\n")
	note := `{"begun":1,"times":2}` + "\n"
	for name, last := range map[string]string{"the note": note,
		"half a result over the note": lines[2][:7] + note[7:]} {
		os.WriteFile(path, []byte(lines[0]+lines[1]+last), 0o644)
		f := read(t, path)
		if len(f.Results) != 1 || (f.begun != nil) != (name == "the note") || f.begun != nil && f.begun.Times != 2 {
			t.Errorf("%s: %d results, begun %+v", name, len(f.Results), f.begun)
		}
	}
	os.WriteFile(path, []byte(lines[0]+`{"n":0,"sig`+"\n"+lines[2]), 0o644)
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line in the middle: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	head := `{"replay":1,"total":2,"proof":{"state":"ok"}}` + "\n"
	one := `{"n":0,"signature":{"op":"aten::relu","overload":"","phase":"forward","count":1,"first":0,"args":[],"kwargs":{},"out":[],"alias":[]},"outcome":"ok"}` + "\n"
	for name, c := range map[string]struct{ text, says string }{
		"nothing":          {"", "cut off"},
		"another version":  {`{"replay":2}` + "\n", "version 2"},
		"another file":     {`{"signatures":1}` + "\n", `no "replay"`},
		"a picture":        {"\x89PNG\r\n", "line 1"},
		"too many":         {`{"replay":1,"total":1000000,"proof":{"state":"ok"}}` + "\n", "1000000 signatures"},
		"no proof":         {`{"replay":1,"total":1}` + "\n", "proof"},
		"twice":            {head + one + one + one, "second one"},
		"beyond":           {head + strings.Replace(one, `"n":0`, `"n":9`, 1) + one, "9, of 2"},
		"another outcome":  {head + strings.Replace(one, `"ok"`, `"fine"`, 1) + one, "fine"},
		"a signature":      {head + strings.Replace(one, "aten::relu", "os.system", 1) + one, "its signature"},
		"a long line":      {head + strings.Repeat("x", maxLine+1), "longer than"},
		"a long last line": {strings.Repeat("x", maxLine+1), "longer than"},
	} {
		path := filepath.Join(t.TempDir(), "f")
		os.WriteFile(path, []byte(c.text), 0o644)
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestJournalKeepsOthers: what is no replay is not written over.
func TestJournalKeepsOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thesis.txt")
	os.WriteFile(path, []byte("without a line's end"), 0o644)
	if _, _, err := openJournal(path); err == nil || fault.HintOf(err) == "" {
		t.Errorf("a text was taken for a replay: %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "without a line's end" {
		t.Errorf("it now holds %q", data)
	}
	path = written(t, mac("2.15.0"))
	j, _, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if _, _, err := openJournal(path); err == nil || !strings.Contains(err.Error(), "another replay") {
		t.Errorf("two at once: %v", err)
	}
}

func TestOrder(t *testing.T) {
	list := []*signature.Signature{call("aten::add"), call("aten::add"), call("aten::mm"),
		call("aten::exp"), call("aten::mm")}
	for i, n := range []int64{5, 50, 7, 9, 7} {
		list[i].Count = n
	}
	risky := list[2] // of mm, the first
	got := Order(list, func(s *signature.Signature) bool { return s == risky })
	if want := []int{2, 1, 3, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestJudge goes by what the tables say of operators that PyTorch's own documents name.
func TestJudge(t *testing.T) {
	a, table := &atlas.Atlas{}, facts.Load()
	relu := call("aten::relu", tensor("float32", 2))
	x := tensor("float32", 1, 1, 2, 4)
	attention := call("aten::_scaled_dot_product_attention_math_for_mps", x, x, x, signature.Value{},
		signature.Value{Kind: signature.Float, Float: 0.5})
	eig := call("aten::linalg_eig", tensor("float32", 2, 2)) // no kernel in any release, pytorch issue 154052
	for _, c := range []struct {
		s       *signature.Signature
		torch   string
		outcome Outcome
		text    string
		want    Verdict
	}{
		{relu, "2.15.0", OK, "", Confirmed},
		{relu, "2.15.0+cpu", Wrong, "", Contradicted},
		{relu, "2.15.0", Ends, "", Contradicted},
		{relu, "2.15.0", Hangs, "", Contradicted},
		{relu, "2.15.0", Missing, "", Contradicted},
		{relu, "2.15.0", NotReplayed, "", Unasked},
		{relu, "7.1.0", OK, "", New},
		{eig, "2.15.0", Missing, "", Confirmed},
		{eig, "2.15.0", OK, "", Contradicted},
		{call("aten::frobnicate", tensor("float32", 2)), "2.15.0", Refused, "", New},
		// row sdpa-dropout, whose condition is on this argument
		{attention, "2.6.0", Refused,
			"_scaled_dot_product_attention_math_for_mps: dropout_p != 0.0 is not supported", Confirmed},
		{attention, "2.6.0", OK, "", Contradicted},
		{call("aten::relu", tensor("float64", 2)), "2.15.0", Refused,
			"Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.",
			Confirmed},
	} {
		e := NewTables(a, table, c.torch, "15.5").Expect(c.s)
		got, why, _ := Judge(e, &Result{Signature: c.s, Outcome: c.outcome, Text: c.text})
		if got != c.want {
			t.Errorf("%s, %s, %s: %s (%s), want %s", c.s.Name(), c.torch, c.outcome, got, why, c.want)
		}
	}
}

// TestRowsCanBeAdded: what is contradicted is printed as rows that the table of facts takes, with the smallest call.
func TestRowsCanBeAdded(t *testing.T) {
	hostile := "shape '[2]' is invalid \"\"\" \\ \x1b[31m]]\n[[fact]]"
	path := written(t, mac("2.15.0"),
		&Result{Signature: call("aten::relu", tensor("float32", 512, 512)), Outcome: Refused, Text: hostile,
			Type: "RuntimeError"},
		&Result{Signature: call("aten::relu", tensor("float32", 2, 3)), Outcome: Refused, Text: hostile,
			Type: "RuntimeError"},
		&Result{Signature: call("aten::relu", tensor("float32", 0)), Outcome: Refused, Text: "empty",
			Type: "IndexError"},
		&Result{Signature: call("aten::mul.Tensor", tensor("float16", 4), tensor("float16", 4)), Outcome: Wrong,
			Text: "2 where the CPU has 1"},
		&Result{Signature: call("aten::exp", tensor("float32", 4)), Outcome: Ends, Text: "signal 6, aborted"},
		&Result{Signature: call("aten::exp", tensor("float32", 9)), Outcome: OK},
		&Result{Signature: call("aten::neg", tensor("float32", 4)), Outcome: Hangs},
		&Result{Signature: call("aten::sin", tensor("float32", 4)), Outcome: Missing},
		&Result{Signature: call("aten::linalg_eig", tensor("float32", 2, 2)), Outcome: OK})
	c, err := Confirm(&atlas.Atlas{}, facts.Load(), []string{"m1.replay"}, []*File{read(t, path)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status() != fault.GateFailed || c.Body.Replays[0].Calls[Contradicted] != 8 {
		t.Errorf("status %d, %+v", c.Status(), c.Body.Replays)
	}
	var rows strings.Builder
	for _, f := range c.Body.Found {
		rows.WriteString(f.Row() + "\n")
		if f.Operator == "aten::relu" && f.Type == "RuntimeError" && (f.Elements != 6 || f.Calls != 2 ||
			f.Call != "torch.ops.aten.relu.default(torch.ones([2, 3], device='mps'))") {
			t.Errorf("not the smallest: %+v", f)
		}
	}
	table, err := facts.Parse(fstest.MapFS{"rows/replayed.toml": {Data: []byte(rows.String())}})
	if err != nil {
		t.Fatalf("%v in\n%s", err, rows.String())
	}
	if len(table.All) != 4 || table.Fact("relu-refused-replayed-2").Outcome != facts.Refused ||
		table.Fact("mul-tensor-wrong-replayed").Outcome != facts.Wrong ||
		table.Fact("exp-aborts-replayed").Outcome != facts.Aborts {
		t.Errorf("%d rows are\n%s", len(table.All), rows.String())
	}
	for _, f := range table.All {
		if !f.Holds("2.15.0") || f.Holds("2.14.0") || f.Known != "reported" ||
			!strings.Contains(f.Source, "Apple M1, macOS 15.5") {
			t.Errorf("%+v", f)
		}
	}
	for _, says := range []string{"neg hangs", "sin is missing", "linalg_eig, missing, and it runs"} {
		if !strings.Contains(rows.String(), says) {
			t.Errorf("no %q in\n%s", says, rows.String())
		}
	}
	var text bytes.Buffer
	if err := c.Text(&text, 100); err != nil || strings.Contains(text.String(), "\x1b") {
		t.Errorf("%v: %q", err, text.String())
	}
}

// TestNoEvidence: what a double, a CPU or a machine that cannot compute answers confirms nothing.
func TestNoEvidence(t *testing.T) {
	relu := func(o Outcome, said string) *Result {
		return &Result{Signature: call("aten::relu", tensor("float32", 2)), Outcome: o, Text: said}
	}
	on := func(device string) Header { return Header{Device: device, Torch: "2.15.0"} }
	rehearsed := on("mps")
	rehearsed.Double = &signature.Double{Release: "2.15.0"}
	broken := on("mps")
	broken.Proof = Proof{ProofBroken, "5 of 8 plain operators fail"}
	var same []*Result
	for i := range 30 {
		same = append(same, relu(Refused, "Failed to create pipeline state object"))
		if i == 0 {
			same[0] = relu(OK, "")
		}
	}
	for says, path := range map[string]string{
		"it ran on cpu":         written(t, on("cpu"), relu(OK, "")),
		"it ran on cuda":        written(t, on("cuda"), relu(OK, "")),
		"it ran on double":      written(t, on("double"), relu(OK, "")),
		"rehearsal":             written(t, rehearsed, relu(OK, "")),
		"5 of 8 plain":          written(t, broken),
		"29 of 30 calls fail":   written(t, on("mps"), same...),
		"broken, not PyTorch: ": written(t, on("mps"), same...),
	} {
		_, err := Confirm(&atlas.Atlas{}, facts.Load(), []string{"x.replay"}, []*File{read(t, path)})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	// beside one that is evidence it is told apart
	c, err := Confirm(&atlas.Atlas{}, facts.Load(), []string{"a", "b"},
		[]*File{read(t, written(t, on("mps"), relu(OK, ""))), read(t, written(t, on("cpu"), relu(Wrong, "")))})
	if err != nil || c.Status() != fault.OK || c.Body.Replays[1].NoProof == "" || len(c.Body.Replays[1].Calls) != 0 {
		t.Errorf("%v %+v", err, c)
	}
}

func TestConfirmedPage(t *testing.T) {
	got, err := Page()
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../docs/confirmed.md"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Errorf("docs/confirmed.md is stale: go test ./internal/replay -run TestConfirmedPage -update")
	}
	if !strings.Contains(string(got), "Nothing is confirmed by a Mac yet") {
		t.Error("does a Mac's replay lie in confirmed/? Then this line goes")
	}
	c, err := Confirm(&atlas.Atlas{}, facts.Load(), []string{"x"}, []*File{read(t, written(t, mac("2.15.0"),
		&Result{Signature: call("aten::relu", tensor("float32", 2)), Outcome: OK}))})
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := c.JSON(&data); err != nil {
		t.Fatal(err)
	}
	one, err := page(fstest.MapFS{"confirmed/m1.json": {Data: data.Bytes()}})
	if err != nil || !strings.Contains(string(one), "| Apple M1 | 15.5 | 2.15.0 | 1 | 0 | 0 | 0 |") {
		t.Errorf("%v: %s", err, one)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"replay":1,"total":2,"proof":{"state":"ok"}}` + "\n" + `{"begun":1}` + "\n" +
		`{"n":0,"outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(bytes.NewReader(data))
		if err == nil && (file.whole > int64(len(data)) || len(file.Results) > file.Header.Total) {
			t.Error(fmt.Sprint(file))
		}
	})
}
