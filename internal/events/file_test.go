package events

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// envelopeTexts are lines as assay writes them, and as nobody does.
var envelopeTexts = []string{`{"c":1,"e":{"ev":"hello"}}`, `{"c":0,"e":{"ev":"start","id":"x"}}`,
	`{"c":123456789012,"e":{}}`,
	`{"c":01,"e":{}}`, `{"c":-1,"e":{}}`, `{"c":1.5,"e":{}}`,
	`{"e":{"ev":"x"},"c":3}`, ` {"c":1,"e":{}} `, `{"c":1,"e":{},"z":{}}`, `{"c":1,"e":{}`, `{"c":1}`, `{"e":{}}`,
	`{"c":1,"e":}`,
	`{"c":1,"e":{"ev":"a"},"e":{"ev":"b"}}`, `{"c":1,"e":[1]}`, `{"c":1,"e":null}`, ``, `{`, `null`,
	`{"c":null,"e":{}}`, `{"c":"1","e":{}}`, `{"c":1,"e":{"ev":"st\u0065ps"}}`, `{"c":1,"e":{"ev":"é"}}`,
	`{"c":1,"e":{"ev":3}}`, `{"c":1,"e":{"ev":""}}`, `{"c":1,"e":{"n":1,"ev":"late"}}`, `{"c":1,"e":"x"}`}

func TestEnvelope(t *testing.T) {
	for _, line := range envelopeTexts {
		checkEnvelope(t, []byte(line))
	}
}

func checkEnvelope(t *testing.T, line []byte) {
	t.Helper()
	var want struct {
		C *int            `json:"c"`
		E json.RawMessage `json:"e"`
	}
	readable := json.Unmarshal(line, &want) == nil && want.C != nil
	connection, event, ok := envelope(line)
	if ok != readable {
		t.Fatalf("%q: %v, encoding/json says %v", line, ok, readable)
	}
	if ok && (connection != *want.C || string(event) != string(want.E)) {
		t.Errorf("%q: %d %s, want %d %s", line, connection, event, *want.C, want.E)
	}
}

// sunk are the events that came, and how many lines were none.
type sunk struct {
	events     []string
	unreadable int
}

func (s *sunk) Add(connection int, event []byte) {
	s.events = append(s.events, fmt.Sprintf("%d %s", connection, event))
}
func (s *sunk) Unreadable() { s.unreadable++ }

func TestLog(t *testing.T) {
	dir := t.TempDir()
	log, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	log.Append(0, []byte(`{"ev":"start"}`))
	log.Append(12, []byte(`{"ev":"hello"}`))
	log.Sync()
	tail, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got sunk
	if n, err := tail.More(&got); n != 2 || err != nil ||
		fmt.Sprint(got) != `{[0 {"ev":"start"} 12 {"ev":"hello"}] 0}` {
		t.Errorf("%d %v %v", n, err, got)
	}
	log.Append(1, []byte(`{"ev":"late"}`))
	log.Close()
	if n, err := tail.More(&got); n != 1 || err != nil || got.events[2] != `1 {"ev":"late"}` {
		t.Errorf("%d %v %v", n, err, got)
	}
	if _, err := Create(dir); err == nil {
		t.Error("what is recorded was written over")
	}
	if info, err := os.Stat(filepath.Join(dir, FileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: others may read it", info, err)
	}
}

// TestLogThatFails: the first error stays, and what comes after it is not written: a file with a hole in it would be
// folded wrongly.
func TestLogThatFails(t *testing.T) {
	log, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log.file.Close()
	log.Append(1, []byte(`{}`))
	log.Sync()
	first := log.Err()
	log.Append(1, []byte(`{}`))
	log.Close()
	if first == nil || log.Err() != first {
		t.Errorf("%v, then %v", first, log.Err())
	}
	none, err := Create("")
	if err != nil || none.Err() != ErrNoFolder {
		t.Errorf("%v %v", none, err)
	}
	none.Append(1, []byte(`{}`))
	none.Sync()
	none.Close()
	if _, err := Open(t.TempDir()); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// TestTailOfPieces: whatever the pieces are in which a file grows, the same events come out of it, each once and when
// it is whole.
func TestTailOfPieces(t *testing.T) {
	long := `{"c":2,"e":{"ev":"` + strings.Repeat("x", 1<<17) + `"}}`
	whole := `{"c":1,"e":{"ev":"a"}}` + "\n" + long + "\r\nno event\n" + `{"c":3,"e":{"ev":"b"}}` + "\n" +
		`{"c":4,"e":{"ev":"cut`
	for _, size := range []int{1, 7, 1000, 1 << 16, 1 << 20} {
		if size == 1 {
			whole = strings.Replace(whole, strings.Repeat("x", 1<<16), "", 1)
		}
		path := filepath.Join(t.TempDir(), FileName)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		tail, err := Open(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		var got sunk
		for rest := whole; rest != ""; {
			n := min(size, len(rest))
			if _, err := f.WriteString(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if _, err := tail.More(&got); err != nil {
				t.Fatal(err)
			}
		}
		if len(got.events) != 3 || got.unreadable != 1 || !strings.HasPrefix(got.events[1], `2 {"ev":"xxx`) ||
			got.events[2] != `3 {"ev":"b"}` {
			t.Errorf("in pieces of %d: %d events, %d unreadable", size, len(got.events), got.unreadable)
		}
		tail.Rest(&got)
		tail.Rest(&got) // nothing is left
		if len(got.events) != 3 || got.unreadable != 2 {
			t.Errorf("the line that was cut off: %d events, %d unreadable", len(got.events), got.unreadable)
		}
		tail.Close()
		f.Close()
	}
}

// TestTailOfLongLine: a line beyond the limit is counted and passed over, with bounded memory; what follows is read.
func TestTailOfLongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(3 * maxLine); err != nil { // zeros without a line's end
		t.Fatal(err)
	}
	tail, err := Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got sunk
	if n, err := tail.More(&got); n != 0 || err != nil || cap(tail.partial) > 2*maxLine {
		t.Fatalf("%d lines, %v, %d bytes held", n, err, cap(tail.partial))
	}
	if _, err := f.WriteAt([]byte("\n"+`{"c":1,"e":{"ev":"a"}}`+"\n"), 3*maxLine); err != nil {
		t.Fatal(err)
	}
	if n, err := tail.More(&got); n != 2 || err != nil || got.unreadable != 1 || len(got.events) != 1 {
		t.Errorf("%d lines, %v, %v", n, err, got)
	}
	tail.file.Close()
	if _, err := tail.More(&got); err == nil {
		t.Error("a file that cannot be read is one in which nothing has come")
	}
}
