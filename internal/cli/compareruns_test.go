package cli

import (
	"slices"
	"testing"

	"assay/internal/evidence"
	"assay/internal/facts"
)

// TestKnownWrongWhereItRan: of a run on MPS the wrong results of its release about operators of its profile are cited,
// of a rehearsal those that it met, and of a CPU none.
func TestKnownWrongWhereItRan(t *testing.T) {
	const release = "2.8.0"
	known := knownWrong(release, "")
	i := slices.IndexFunc(known, func(s facts.Said) bool {
		return len(s.Meets) > 0 && !s.Everywhere() &&
			s.MacOS == ""
	})
	if i < 0 {
		t.Fatal("no known wrong result of torch " + release)
	}
	run := evidence.NewRun("r")
	run.Target = evidence.Target{Device: "mps", Framework: "torch", Release: release}
	run.Operators = []evidence.Operator{{Name: known[i].Meets[0]}}
	cited := func() (names []string) {
		for _, c := range wrongWhere(run) {
			names = append(names, c.Name)
		}
		return names
	}
	if got := cited(); !slices.Contains(got, known[i].Name) {
		t.Errorf("%s is not among %q", known[i].Name, got)
	}
	run.Operators[0].Name = "aten::no_such"
	if got := cited(); len(got) != 0 {
		t.Errorf("%q of an operator that nothing is known of", got)
	}
	run.Rehearsal = &evidence.Rehearsal{Met: []evidence.Met{{Fact: "met", Outcome: "wrong", Sure: true},
		{Fact: "perhaps", Outcome: "wrong"}, {Fact: "slow", Outcome: "slow", Sure: true}}}
	if got := cited(); !slices.Equal(got, []string{"met"}) {
		t.Errorf("of a rehearsal: %q", got)
	}
	run.Rehearsal, run.Target.Device, run.Operators[0].Name = nil, "cpu", known[i].Meets[0]
	if got := cited(); len(got) != 0 {
		t.Errorf("on a CPU: %q", got)
	}
}

// TestShare: a ratio is written as gates write one.
func TestShare(t *testing.T) {
	for words, want := range map[string]float64{"1%": 0.01, "0.01": 0.01, "1 %": 0.01, "0": 0, "250%": 2.5,
		"1e-5": 1e-5, "1": 1} {
		var s share
		if err := s.Set(words); err != nil || float64(s) != want {
			t.Errorf("%q: %v, %v", words, s, err)
		}
	}
	for _, words := range []string{"", "%", "5", "-1%", "NaN", "Inf", "1%%", "a", "0.01abs"} {
		var s share
		if s.Set(words) == nil {
			t.Errorf("%q is %v", words, s)
		}
	}
}
