package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// TestErrorsInReadings: a reading that panics, on whatever goroutine, is a missing figure with that reason.
func TestErrorsInReadings(t *testing.T) {
	if _, err := within(t.Context(), time.Minute, func() (int, error) { panic("broken") }); err == nil ||
		!strings.Contains(err.Error(), "broken") {
		t.Errorf("within: %v", err)
	}
	s := &slow{what: "the tool", every: time.Hour, limit: time.Minute, gives: []quantity{{"gpu.power", "W"}}}
	s.begin(false, func() (func(context.Context) []evidence.Figure, func()) {
		return func(context.Context) []evidence.Figure { panic("broken") }, func() {}
	})
	defer s.close()
	now := time.Now()
	s.latest(now)
	settle(s)
	if got := s.latest(now); len(got) != 1 || got[0].Known() || !strings.Contains(got[0].Missing, "broken") {
		t.Errorf("%+v", got)
	}
	open := &slow{what: "the tool", every: time.Hour, limit: time.Minute}
	open.begin(false, func() (func(context.Context) []evidence.Figure, func()) { panic("broken") })
	<-open.done
}
