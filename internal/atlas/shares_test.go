package atlas

import "testing"

func number(x float64) *float64 { return &x }

func isShare(got *float64, want float64) bool { return got != nil && *got == want }

// TestSharesOf: of 40 calls 10 have no kernel; of 8 s they took 2, of 1000 FLOPs 250. What was not timed or counted is
// in no share.
func TestSharesOf(t *testing.T) {
	s := SharesOf([]Called{
		{Native, 25, number(5), number(750)},
		{Missing, 6, number(1.5), number(250)},
		{CPU, 4, number(0.5), nil},
		{Composed, 3, number(1), nil},
		{Unknown, 1, nil, nil},
		{Undefined, 1, nil, nil},
	})
	if s.Operators != 6 || s.Calls != 40 || s.UnknownState != 2 || s.FLOPs != 1000 || s.Seconds != 8 ||
		s.RefusedAtOnce {
		t.Errorf("%+v", s)
	}
	if !isShare(s.OfCalls, 0.25) || !isShare(s.OfFLOPs, 0.25) || !isShare(s.OfTime, 0.25) || !isShare(s.Part(4), 0.5) {
		t.Errorf("%v %v %v %v", *s.OfCalls, *s.OfFLOPs, *s.OfTime, *s.Part(4))
	}
}

// TestSharesNotKnown: what nobody counted has no share, and what was refused before it ran took no share of the time.
func TestSharesNotKnown(t *testing.T) {
	if s := SharesOf(nil); s.OfCalls != nil || s.OfFLOPs != nil || s.OfTime != nil || s.Part(1) != nil {
		t.Errorf("of nothing: %+v", s)
	}
	s := SharesOf([]Called{{Native, 3, nil, nil}, {Missing, 1, nil, nil}})
	if !isShare(s.OfCalls, 0.25) || s.OfFLOPs != nil || s.OfTime != nil || s.RefusedAtOnce {
		t.Errorf("neither timed nor counted: %+v", s)
	}
	s = SharesOf([]Called{{Native, 3, number(1), number(2)}, {Missing, 1, number(0), number(0)}})
	if s.OfTime != nil || !s.RefusedAtOnce || !isShare(s.OfFLOPs, 0) {
		t.Errorf("refused: %+v", s)
	}
	s = SharesOf([]Called{{Native, 3, number(1), number(2)}})
	if !isShare(s.OfCalls, 0) || !isShare(s.OfTime, 0) || s.RefusedAtOnce {
		t.Errorf("none fell: %+v", s)
	}
}

// TestOnCPU: an operator that raises runs nowhere.
func TestOnCPU(t *testing.T) {
	for _, s := range []State{Native, Composed, CPU, Raises, NoStub, Missing, Undefined, Unknown} {
		if s.OnCPU() != (s == CPU || s == Missing) {
			t.Errorf("%s: %v", s, s.OnCPU())
		}
	}
}
