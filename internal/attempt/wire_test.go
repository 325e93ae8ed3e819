package attempt

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/atlas"
	"assay/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite testdata/answers.jsonl")

const (
	samples = "testdata/answers.jsonl"
	program = "../../agent/assay_agent/attempt.py"
	page    = "../../docs/formats/attempts.md"
)

// sampled are the values of testdata/encode.py.
func sampled() []any {
	flops := 64.0
	fell := attemptAnswer{Target: "net.py:Net", Phase: "done", Model: "Net", Inputs: []string{"2,3 float32"},
		Parameters: 12, Data: true, Backward: true, Seconds: 0.25,
		Peak: 4096, Ops: []opsPart{{"aten::add.Tensor", 3, "N", 1500, nil}, {"aten::mm", 2, "-", 500, &flops}},
		Fallbacks: []fallbacksPart{{"aten::mm", "net.py:7", 2, 500, 96}},
		Met:       []metPart{{"aten::mm", "matmul-large-output", true, "net.py:7", 2}},
		Notes:     []notesPart{}}
	missing := fell
	missing.Answer, missing.Phase, missing.Backward, missing.StandIns, missing.Fallbacks,
		missing.Fallback = "attempt", "forward", false, 1, []fallbacksPart{}, &fell
	missing.Error = &failurePart{"", "NotImplementedError", "no kernel\né\ufffd", "net.py:7", "lib.py:3"}
	missing.Refusal = &refusalPart{"aten::mm", "missing"}
	missing.Met, missing.Notes = []metPart{}, []notesPart{{"aten::std", "wrong", "another value", "net.py:8", 1}}
	gone := attemptAnswer{Answer: "attempt", Target: "Gone", Inputs: []string{}, Ops: []opsPart{},
		Fallbacks: []fallbacksPart{}, Met: []metPart{}, Notes: []notesPart{},
		Error: &failurePart{Kind: "crash", Text: "its process ended by signal 6"}}
	return []any{
		&helloAnswer{"hello", 2, "2.15.0", "3.11.7"},
		&refusedAnswer{"refused", &failurePart{"import", "KeyError", "'x'", "", "lib.py:3"}},
		&offeredAnswer{"offered", []string{"net.py:Net", "Gone"}},
		&missing,
		&gone,
		&doneAnswer{"done"},
	}
}

// TestSamples: what Python encodes is what Go decodes, for every answer and every part of one.
func TestSamples(t *testing.T) {
	encoded, err := exec.Command(testkit.Python(t), "testdata/encode.py", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(samples, encoded, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(samples)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(encoded)); diff != "" {
		t.Errorf("attempt.py encodes otherwise than %s: %s", samples, diff)
	}
	want := sampled()
	for i, line := range bytes.Split(bytes.TrimSpace(kept), []byte("\n")) {
		got, err := decode(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

var heading = regexp.MustCompile(`(?m)^### ([a-z_]+)$`)

// sections of the page: answer or part → its text; the request is "request".
func sections(t *testing.T) (string, map[string]string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	whole, found := string(data), map[string]string{}
	_, after, _ := strings.Cut(whole, "\n## The request\n")
	found["request"], _, _ = strings.Cut(after, "\n## ")
	at := heading.FindAllStringSubmatchIndex(whole, -1)
	for i, m := range at {
		end := len(whole)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		found[whole[m[2]:m[3]]], _, _ = strings.Cut(whole[m[1]:end], "\n## ")
	}
	return whole, found
}

var row = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|")

// described are the fields of a section's table.
func described(section string) []string {
	var names []string
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			names = append(names, strings.Trim(name, "`"))
		}
	}
	slices.Sort(names)
	return names
}

// TestPage: the page has a section for each answer and part, and in it each field, and no others.
func TestPage(t *testing.T) {
	whole, sections := sections(t)
	for name, of := range map[string]any{"request": request{}, "hello": helloAnswer{}, "refused": refusedAnswer{},
		"offered": offeredAnswer{}, "attempt": attemptAnswer{},
		"done": doneAnswer{}, "failure": failurePart{}, "refusal": refusalPart{}, "ops": opsPart{},
		"fallbacks": fallbacksPart{}, "met": metPart{}, "notes": notesPart{}} {
		text, there := sections[name]
		delete(sections, name)
		var fields []string
		for i := range reflect.TypeOf(of).NumField() {
			if field := reflect.TypeOf(of).Field(i).Tag.Get("json"); field != "answer" {
				fields = append(fields, field)
			}
		}
		slices.Sort(fields)
		if got := described(text); !there || !slices.Equal(got, fields) {
			t.Errorf("%s, %s: describes %v, and Go reads %v", page, name, got, fields)
		}
	}
	for name := range sections {
		t.Errorf("%s describes %s, which Go does not know", page, name)
	}
	source, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for text, in := range map[string]string{fmt.Sprintf("version all the same, which is %d ", Version): whole,
		fmt.Sprintf("\nVERSION = %d ", Version):    string(source),
		fmt.Sprintf("%d MiB at most", maxLine>>20): whole, fmt.Sprintf("\nLINE = %d << 20 ",
			maxLine>>20): string(source)} {
		if !strings.Contains(in, text) {
			t.Errorf("no %q", text)
		}
	}
	for _, list := range [][]string{refusedKinds, attemptKinds[1:], phases[1:], causes} {
		for _, word := range list {
			if !strings.Contains(whole, "`"+word+"`") {
				t.Errorf("%s does not name `%s`", page, word)
			}
		}
	}
}

// TestRefusedAnswers: what departs from the page is refused, whichever field it is in.
func TestRefusedAnswers(t *testing.T) {
	failed := func(field string) string { return strings.Replace(raised("A", "", "x"), `"kind":""`, field, 1) }
	ops := func(row string) string { return told("A", `"ops":[]`, `"ops":[`+row+`]`) }
	for name, line := range map[string]string{
		"no JSON": "hello", "a list": "[]", "empty": "", "null": "null", "no answer": "{}",
		"another answer": `{"answer":"frob"}`, "two": done + done,
		"done with more":           `{"answer":"done","x":1}`,
		"hello without a version":  `{"answer":"hello","torch":"2","python":"3"}`,
		"a version in words":       `{"answer":"hello","version":"1","torch":"2","python":"3"}`,
		"offered null":             `{"answer":"offered","models":null}`,
		"offered numbers":          `{"answer":"offered","models":[1]}`,
		"refused without an error": `{"answer":"refused","error":null}`,
		"refused by a crash":       refused("crash", "", "", ""),
		"no target":                told(""), "a field missing": told("A", `"peak":0,`, ""),
		"an unknown field":  told("A", `"peak":0`, `"peak":0,"peek":0`),
		"null for a number": told("A", `"peak":0`, `"peak":null`),
		"null for rows":     told("A", `"ops":[]`, `"ops":null`), "another phase": told("A", `"done"`, `"over"`),
		"NaN": told("A", "0.5", "NaN"), "Infinity": told("A", "0.5", "Infinity"), "1e400": told("A", "0.5", "1e400"),
		"negative seconds":          told("A", "0.5", "-0.5"),
		"parameters beyond int64":   told("A", `"parameters":6`, `"parameters":9223372036854775808`),
		"half a parameter":          told("A", `"parameters":6`, `"parameters":0.5`),
		"negative parameters":       told("A", `"parameters":6`, `"parameters":-6`),
		"negative peak":             told("A", `"peak":0`, `"peak":-1`),
		"negative stand-ins":        told("A", `"stand_ins":0`, `"stand_ins":-1`),
		"a failure of another kind": failed(`"kind":"torch"`),
		"a failure without a kind":  strings.Replace(failed(`"kind":""`), `"kind":"",`, "", 1),
		"another cause": strings.Replace(failed(`"kind":""`), `"refusal":null`,
			`"refusal":{"op":"a","cause":"frob"}`, 1),
		"refused and no error":  told("A", `"refusal":null`, `"refusal":{"op":"a","cause":"dtype"}`),
		"rows as lists":         ops(`["aten::mm",1,"N",1,null]`),
		"a row without calls":   ops(`{"op":"aten::mm","n":0,"state":"N","cpu_ns":1,"flops":null}`),
		"a row without a state": ops(`{"op":"aten::mm","n":1,"state":"","cpu_ns":1,"flops":null}`),
		"a state in words":      ops(`{"op":"aten::mm","n":1,"state":"native","cpu_ns":1,"flops":null}`),
		"negative time":         ops(`{"op":"aten::mm","n":1,"state":"N","cpu_ns":-1,"flops":null}`),
		"negative FLOPs":        ops(`{"op":"aten::mm","n":1,"state":"N","cpu_ns":1,"flops":-1}`),
		"a row without FLOPs":   ops(`{"op":"aten::mm","n":1,"state":"N","cpu_ns":1}`),
		"negative bytes": told("A", `"fallbacks":[]`,
			`"fallbacks":[{"op":"a","where":"","n":1,"cpu_ns":1,"bytes":-1}]`),
		"a negative note": told("A", `"notes":[]`,
			`"notes":[{"op":"a","kind":"b","text":"c","where":"","n":-1}]`),
		"a negative fact": told("A", `"met":[]`,
			`"met":[{"op":"a","fact":"b","sure":true,"where":"","n":-1}]`),
		"a bad fallback": told("A", `"fallback":null`, `"fallback":`+told("A", "0.5", "-1")),
		"a fallback of a fallback": told("A", `"fallback":null`,
			`"fallback":`+told("A", `"fallback":null`, `"fallback":`+told("A"))),
		"a deep fallback": strings.Repeat(`{"answer":"attempt","fallback":`, 9000) + "null" +
			strings.Repeat("}", 9000),
	} {
		if got, err := decode([]byte(line)); err == nil {
			t.Errorf("%s: taken, as %+v", name, got)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d characters", name, len(err.Error()))
		}
	}
	if _, err := decode([]byte(told("A"))); err != nil {
		t.Errorf("what is changed here is refused itself: %v", err)
	}
}

// TestTurns: an answer out of turn is refused.
func TestTurns(t *testing.T) {
	const offered = `{"answer":"offered","models":["A","B"]}`
	refused := refused("args", "", "x", "")
	for name, lines := range map[string][]string{
		"offered first": {offered}, "refused first": {refused}, "told first": {told("A")}, "done first": {done},
		"two hellos":          {hello, hello},
		"told before offered": {hello, told("A")}, "done before offered": {hello, done},
		"offered twice": {hello, offered, offered}, "refused after offered": {hello, offered, refused},
		"not offered": {hello, offered, told("C")}, "told twice": {hello, offered, told("A"), told("A")},
		"done too early": {hello, offered, told("A"), done},
		"one name twice": {hello, `{"answer":"offered","models":["A","A"]}`},
		"no name":        {hello, `{"answer":"offered","models":[""]}`},
		"version 0":      {strings.Replace(hello, `"version":2`, `"version":0`, 1)},
	} {
		c := &conversation{}
		for i, line := range lines {
			_, err := c.take([]byte(line))
			if last := i == len(lines)-1; last != (err != nil) {
				t.Errorf("%s: line %d: %v", name, i+1, err)
			}
		}
		if c.done {
			t.Errorf("%s: it counts as done", name)
		}
	}
	for _, lines := range [][]string{{hello, refused}, {hello, offered, told("B"), told("A"), done},
		{hello, `{"answer":"offered","models":[]}`, done}} {
		c := &conversation{}
		for _, line := range lines {
			if _, err := c.take([]byte(line)); err != nil || c.done != (line == lines[len(lines)-1]) {
				t.Errorf("%s: %v, done %v", line, err, c.done)
			}
		}
	}
}

// TestReadLine: lines of up to maxLine, and nothing of one that was cut off.
func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", maxLine-1)
	r := bufio.NewReaderSize(strings.NewReader("a\n\n"+long+"\nhalf"), 64)
	for _, want := range []string{"a\n", "\n", long + "\n"} {
		if got, err := readLine(r); err != nil || string(got) != want {
			t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if got, err := readLine(r); err == nil {
		t.Errorf("%q", got)
	}
	if _, err := readLine(bufio.NewReader(strings.NewReader(long + "x\n"))); err != errLong {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	data, err := os.ReadFile(samples)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := decode(line)
		if a, ok := got.(*attemptAnswer); ok && err == nil {
			newJudge(&atlas.Atlas{}, "2.8.0").attempt(a, a)
		}
	})
}
