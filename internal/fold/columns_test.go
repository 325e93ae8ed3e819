package fold

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// columnTexts are lists as encoding/json takes them or refuses them, which is the oracle.
var columnTexts = []string{`[]`, `[ ]`, `[1]`, `[1,2,3]`, ` [ 1 , 22 ,	-3 ] `,
	`[0,-0,9223372036854775807,-9223372036854775808]`, `[9223372036854775808]`, `[1.5]`, `[1e3]`, `[null,1]`,
	`["1"]`, `[[1]]`, `[{}]`, `null`, `{}`, `3`, `"x"`, `[true]`, `[123456789012345678901234567890]`,
	`[1,"nan","inf","-inf",2.5e-3]`, `["a,b",1]`, `["\"",1]`, `["na\u006e"]`, `[1e400]`, `[0.1, -7]`, `["inf" , 1]`,
	`["]"]`}

func TestColumns(t *testing.T) {
	for _, text := range columnTexts {
		checkColumn(t, []byte(text))
	}
}

func checkColumn(t *testing.T, text []byte) {
	t.Helper()
	var got struct{ C integers }
	var want struct{ C []int64 }
	line := fmt.Appendf(nil, `{"C":%s}`, text)
	errGot, errWant := json.Unmarshal(line, &got), json.Unmarshal(line, &want)
	if (errGot == nil) != (errWant == nil) || errWant == nil && !slices.Equal(got.C, want.C) {
		t.Errorf("%s: %v %v, encoding/json %v %v", text, got.C, errGot, want.C, errWant)
	}
	var loss struct{ C losses }
	var plain struct{ C []any }
	errGot, errWant = json.Unmarshal(line, &loss), json.Unmarshal(line, &plain)
	if (errGot == nil) != (errWant == nil) || errWant == nil && len(loss.C) != len(plain.C) {
		t.Errorf("%s: %v %v, encoding/json %v %v", text, loss.C, errGot, plain.C, errWant)
		return
	}
	if errWant == nil {
		for i, v := range plain.C {
			if a, b := loss.C[i], lossOf(v); a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
				t.Errorf("%s: %v at %d, want %v", text, a, i, b)
			}
		}
	}
}

// kindTexts are events as the agent writes them, and as nobody does.
var kindTexts = []string{`{"ev":"hello"}`, `{"ev":"start","id":"x"}`, `{}`, `[1]`, `null`, `{"ev":"st\u0065ps"}`,
	`{"ev":"é"}`, `{"ev":3}`, `{"ev":""}`,
	`{"n":1,"ev":"late"}`, `"x"`, `{"ev":null}`}

func TestKindOf(t *testing.T) {
	for _, event := range kindTexts {
		var kind struct {
			Ev string `json:"ev"`
		}
		known := json.Unmarshal([]byte(event), &kind) == nil
		if ev, ok := KindOf([]byte(event)); ok != known || ok && ev != kind.Ev && !twice([]byte(event)) {
			t.Errorf("%q: %q %v, want %q %v", event, ev, ok, kind.Ev, known)
		}
	}
}

// twice: of an event that names its kind again, the first name counts here, and the last one in encoding/json. No agent
// sends one.
func twice(event []byte) bool {
	var all map[string]json.RawMessage
	n := 0
	if json.Unmarshal(event, &all) == nil {
		for name := range all {
			if len(name) == 2 && (name[0]|0x20) == 'e' && (name[1]|0x20) == 'v' {
				n++
			}
		}
	}
	return n > 1
}

func FuzzColumns(f *testing.F) {
	for _, text := range columnTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if json.Valid(text) {
			checkColumn(t, text)
		}
	})
}

// TestManyOfEach: a stream of ten thousand connections, and one whose epoch is a number near 2^63, is folded; what is
// kept is bounded.
func TestManyOfEach(t *testing.T) {
	s := newStream()
	for i := range maxProcesses + 50 {
		s.send(i+2, map[string]any{"ev": "hello", "version": 1, "token": fmt.Sprint("t", i), "pid": i + 10})
	}
	// the stream of one of them goes on
	s.send(maxProcesses+1000, map[string]any{"ev": "hello", "version": 1, "token": "t7", "pid": 99})
	if s.f.conns[maxProcesses+1000] == nil || s.f.conns[maxProcesses+1000] != s.f.conns[9] {
		t.Error("a stream that goes on under its token is not known again")
	}
	if len(s.f.order) != maxProcesses || s.f.unread != 51 {
		t.Errorf("%d processes kept, %d events not read", len(s.f.order), s.f.unread)
	}
	s.steps(1, 1, 30, 0, func(int) string { return "" })
	s.steps(math.MaxInt64-1, 31, 30, 2000, func(int) string { return "" })
	done := make(chan bool)
	go func() { s.f.Finish(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute): // it counted the epochs between
		t.Fatal("an epoch's number near 2^63 is not folded in a minute")
	}
}
