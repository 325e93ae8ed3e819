package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// sent is a stream of what is written in a test, line for line.
func sent(t testing.TB, o Options, in string) (answers []Answer, err error) {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	var out bytes.Buffer
	err = Serve(t.Context(), strings.NewReader(in), &out, o)
	r := bufio.NewReader(&out)
	for {
		var a Answer
		if _, err := readMessage(r, &a, &a.Body); err != nil {
			if err != io.EOF {
				t.Fatalf("what was answered is no message: %v", err)
			}
			break
		}
		answers = append(answers, a)
	}
	return answers, err
}

const hallo = `{"id":1,"hello":{"protocol":1,"version":"v1","system":"linux/amd64"}}` + "\n"

func TestServe(t *testing.T) {
	panics := func(context.Context, Ask) (Facts, error) { panic("oh") }
	for name, c := range map[string]struct {
		in    string
		o     Options
		wants []string // of the errors, in their order; "" for none
		err   string
	}{
		"nothing":   {in: ""},
		"hello":     {in: hallo, wants: []string{""}},
		"not hello": {in: `{"id":7,"states":{}}` + "\n", wants: []string{"first request has to say hello"}},
		"other protocol": {in: `{"id":1,"hello":{"protocol":99,"version":"v9"}}` + "\n" + `{"id":2,"states":{}}` + "\n",
			wants: []string{"assay v1.0 here speaks protocol 1 with a node; assay v9 speaks 99", "say hello"}},
		"unknown": {in: hallo + `{"id":2,"dance":{}}` + "\n", wants: []string{"", "does not know what is asked"}},
		"no jobs": {in: hallo + `{"id":2,"states":{}}` + "\n", wants: []string{"", "takes no jobs"}},
		"a panic": {in: hallo + `{"id":2,"facts":{}}` + "\n" + `{"id":3,"hello":{"protocol":1}}` + "\n",
			o: Options{Facts: panics}, wants: []string{"", "a fault of assay's own: oh", ""}},
		"no message": {in: hallo + "hello?\n", wants: []string{"", "a line is no message"}, err: "no message"},
		"a long line": {in: hallo + strings.Repeat(" ", MaxLine+1), wants: []string{"", "a line is longer"},
			err: "longer"},
		"a long body": {in: hallo + fmt.Sprintf(`{"id":2,"body":%d}`, MaxBody+1) + "\n",
			wants: []string{"", "a body of 1048577 bytes"}, err: "body"},
		"less than none": {in: hallo + `{"id":2,"body":-1}` + "\n", wants: []string{"", "a body of -1"}, err: "body"},
		"half a body": {in: hallo + `{"id":2,"body":10,"data":{}}` + "\nabc", wants: []string{""},
			err: "unexpected EOF"},
		"half a line": {in: hallo + `{"id":2,`, wants: []string{""}, err: "unexpected EOF"},
		"a path for a sum": {in: hallo + `{"id":2,"put":{"sum":"../../x","size":3}}` + "\n",
			wants: []string{"", "no file's SHA-256"}},
		"data unasked": {in: hallo + `{"id":2,"body":1,"data":{"sum":"x","at":0}}` + "\nx",
			wants: []string{"", "nobody said"}},
		"place without a name": {in: hallo + `{"id":2,"place":{"sum":"` + strings.Repeat("0", 64) +
			`","size":1,"to":"~/"}}` + "\n", wants: []string{"", "is none"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Version = "v1.0"
			answers, err := sent(t, c.o, c.in)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("ended with %v, want %q", err, c.err)
			}
			if len(answers) != len(c.wants) {
				t.Fatalf("answered %+v", answers)
			}
			for i, want := range c.wants {
				if got := answers[i].Error; (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("answer %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}

// TestQuiet: a node whose other side says nothing any more ends by itself.
func TestQuiet(t *testing.T) {
	in, _ := io.Pipe()
	err := Serve(t.Context(), in, io.Discard, Options{Root: t.TempDir(), Quiet: 1})
	if err == nil || !strings.Contains(err.Error(), "said nothing") {
		t.Fatal(err)
	}
}

// fakeRuns answers what it is asked, and notes it.
type fakeRuns struct{ Runs }

func (fakeRuns) Start(j Job) (State, error) { return State{Name: j.Name, Phase: Running}, nil }
func (fakeRuns) Renew(names []string) ([]State, error) {
	var all []State
	for _, n := range names {
		all = append(all, State{Name: n})
	}
	return all, nil
}
func (fakeRuns) Read(r Read, into []byte) (int, Piece, error) {
	return copy(into, "hello"), Piece{Size: 5, Final: true}, nil
}
func (fakeRuns) States(Which) ([]State, error) {
	return nil, &Refused{Text: "not now", Hint: "later", Busy: true}
}

// pair is a client of a node in this process.
func pair(t testing.TB, o Options) (Client, func()) {
	t.Helper()
	here, there := net.Pipe()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Serve(context.Background(), there, there, o)
		there.Close()
	}()
	c, err := NewClient(here, here.Close, "v1")
	if err != nil {
		t.Fatal(err)
	}
	end := func() {
		c.Close()
		<-ended
	}
	t.Cleanup(end)
	return c, end
}

func TestClient(t *testing.T) {
	c, end := pair(t, Options{Runs: fakeRuns{}, Version: "v2", Boot: "b"})
	if h := c.Hello(); h.Version != "v2" || h.Boot != "b" || h.Protocol != Protocol {
		t.Errorf("%+v", h)
	}
	if s, err := c.Start(Job{Name: "a"}); err != nil || s.Name != "a" {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := c.Renew("x", "y"); err != nil || len(s) != 2 {
		t.Errorf("%+v %v", s, err)
	}
	if b, p, err := c.Read(Read{Most: 1 << 30}); err != nil || string(b) != "hello" || !p.Final {
		t.Errorf("%q %+v %v", b, p, err)
	}
	_, err := c.States(Which{})
	var refused *Refused
	if !errors.As(err, &refused) || *refused != (Refused{Text: "not now", Hint: "later", Busy: true}) {
		t.Errorf("%#v", err)
	}
	if _, err := c.Facts(Ask{}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	end()
	_, first := c.States(Which{})
	_, second := c.Facts(Ask{})
	if first == nil || errors.As(first, &refused) || first != second {
		t.Errorf("after the end: %v, %v", first, second)
	}
}

// TestStale: what lay in the link for long is not done.
func TestStale(t *testing.T) {
	now := elapsed()
	s := &server{o: Options{Runs: fakeRuns{}}, met: true, hellos: []greeting{{id: 4, at: now - time.Minute}}}
	for after, late := range map[float64]bool{60: false, 55: false, 61: false, 40: true, 0: true} {
		for _, r := range []Request{{Start: &Job{}}, {Renew: &Renew{}}} {
			r.Sent = &Sent{Hello: 4, After: after}
			_, _, err := s.do(message{Request: r})
			var refused *Refused
			if errors.As(err, &refused) != late {
				t.Errorf("asked %v s after a hello a minute ago: %v", after, err)
			}
		}
	}
	if late := s.late(&Sent{Hello: 3}); late < time.Minute {
		t.Errorf("of no hello that is known: %v", late)
	}
	if late := s.late(nil); late != 0 {
		t.Errorf("of one that does not say: %v", late)
	}
}

// FuzzServe: whatever comes in, the node answers with messages and ends, and nothing appears beside its folders.
func FuzzServe(f *testing.F) {
	for _, r := range []Request{{Put: &Put{Sum: strings.Repeat("a", 64), Size: 3}}, {Facts: &Ask{}},
		{Data: &Data{Sum: strings.Repeat("a", 64)}}, {Commit: &Put{Sum: strings.Repeat("a", 64), Size: 3}},
		{Place: &Place{Sum: strings.Repeat("a", 64), Size: 3, To: "x"}}, {Start: &Job{Name: "a"}},
		{Renew: &Renew{}, Sent: &Sent{}}} {
		line, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(hallo + string(line) + "\n")
	}
	sum := strings.Repeat("a", 64)
	f.Add(hallo + `{"put":{"sum":"` + sum + `","size":3}}` + "\n" + `{"body":3,"data":{"sum":"` + sum + `"}}` +
		"\nabc" + `{"commit":{"sum":"` + sum + `","size":3}}` + "\n")
	f.Fuzz(func(t *testing.T, in string) {
		root := t.TempDir()
		_, _ = sent(t, Options{Root: root + "/node", Home: root + "/home", Runs: fakeRuns{}}, in)
		entries, err := os.ReadDir(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "node" && e.Name() != "home" {
				t.Errorf("%s appeared", e.Name())
			}
		}
	})
}
