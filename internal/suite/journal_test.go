package suite

import (
	"strings"
	"testing"
	"time"
)

const told = `{"collected":["a::one","a::two","a::three"],"root":"/w","maxfail":2}
{"start":"a::one","pid":5,"worker":"gw0"}
no JSON at all
["a list"]
{"id":"a::one","outcome":"failed","phase":"call","error":"E","text":"é","device":true,"seconds":0.5}
{"start":"a::two","pid":5,"worker":"gw0"}
{"down":"gw0"}
{"collected":["a::one","a::two","a::three","a::four"],"root":"/w","maxfail":2}
`

// TestJournalInPieces: what is read does not hang on where the file was cut when it was read.
func TestJournalInPieces(t *testing.T) {
	for size := 1; size <= len(told); size += 7 {
		j := newJournal()
		for at := 0; at < len(told); at += size {
			j.add([]byte(told[at:min(at+size, len(told))]), time.Unix(0, 0))
		}
		all := j.all()
		if len(all) != 4 || all[1].ID != "a::one" || all[1].Outcome != Failed || all[1].Text != "é" || !all[1].Device ||
			all[3].Outcome != Ended || !strings.Contains(all[3].Text, "gw0") || all[0].Outcome != NotRun ||
			j.maxFail != 2 || j.failures() != 2 || len(j.running) != 0 || j.ended != nil {
			t.Fatalf("in pieces of %d bytes: %+v", size, all)
		}
	}
}

// TestJournalIsBounded: a line longer than any of ours is passed over and counted, and what follows is read.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal()
	piece := []byte(strings.Repeat("x", 1<<20))
	for range maxLine>>20 + 2 {
		j.add(piece, time.Time{})
	}
	if len(j.left) > maxLine || cap(j.left) > 2*maxLine {
		t.Errorf("%d bytes are kept", cap(j.left))
	}
	j.add([]byte("\n"+`{"id":"`+strings.Repeat("y", maxID+1)+`","outcome":"passed"}`+"\n"), time.Time{})
	j.add([]byte(`{"id":"b","outcome":"passed","text":"`+strings.Repeat("é", maxText)+`"}`+"\n"+`{"end":0}`+"\n"),
		time.Time{})
	if j.lost != 2 || len(j.tests) != 1 || len(j.tests["b"].Text) > maxText || j.ended == nil {
		t.Errorf("%d lost, %d tests", j.lost, len(j.tests))
	}
}
