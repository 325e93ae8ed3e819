package fold

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestLevers: answers stand in the evidence as they came; a launcher that found nothing to change does not speak for
// the process that ran out of memory before its first step.
func TestLevers(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "lever", "lever": "batch", "done": false, "why": "no DataLoader was read"})
	s.send(2, map[string]any{"ev": "lever", "lever": "batch", "done": true, "where": "DataLoader at /p/t.py:3",
		"from": 64, "to": 32, "note": "of 60000 rows"})
	s.send(2, map[string]any{"ev": "lever", "lever": "checkpoint", "done": false, "why": strings.Repeat("x", 3000)})
	s.send(2, map[string]any{"ev": "bye", "how": "exit"})
	want := []evidence.Lever{{Lever: "batch", Done: true, Where: "DataLoader at /p/t.py:3", From: 64, To: 32,
		Note: "of 60000 rows"}}
	if got := s.f.Finish().Levers; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	s.steps(1, 1, 20, 0, plainSteps) // of process 1, which is now the one that trained
	if got := s.f.Finish().Levers; len(got) != 1 || got[0].Done {
		t.Errorf("%+v", got)
	}
	for n := range 3 * maxLevers {
		s.send(1, map[string]any{"ev": "lever", "lever": fmt.Sprint(n)})
	}
	if got := s.f.Finish().Levers; len(got) != maxLevers {
		t.Errorf("%d answers kept", len(got))
	}
}

// TestReached: the last that was told, of the process that trained; where nobody looked it is not known.
func TestReached(t *testing.T) {
	s := newStream()
	s.steps(1, 1, 20, 0, plainSteps)
	if got := s.f.Finish().Reached; got != nil {
		t.Errorf("%+v", got)
	}
	s.send(1, map[string]any{"ev": "reached", "evaluated": true, "saved": false})
	s.send(1, map[string]any{"ev": "reached", "evaluated": true, "saved": true})
	s.send(2, map[string]any{"ev": "reached", "evaluated": false, "saved": false})
	if got := s.f.Finish().Reached; got == nil || *got != (evidence.Reached{Evaluated: true, Saved: true}) {
		t.Errorf("%+v", got)
	}
}

// TestOutOfMemory: what was raised stands in the evidence by text and line, totals as they were told last.
func TestOutOfMemory(t *testing.T) {
	s := newStream()
	for n := range 3 {
		s.send(1, map[string]any{"ev": "out_of_memory", "text": "MPS backend out of memory", "where": "/p/t.py:3",
			"count": n + 1})
	}
	s.send(2, map[string]any{"ev": "out_of_memory", "text": "CUDA out of memory", "where": "", "count": 1})
	s.send(2, map[string]any{"ev": "out_of_memory", "text": strings.Repeat("x", 3000), "count": 1})
	want := []evidence.OutOfMemory{{Text: "MPS backend out of memory", Where: "/p/t.py:3", Count: 3},
		{Text: "CUDA out of memory", Count: 1}}
	if got := s.f.Finish().OutOfMemory; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
