package gate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestOn: the runs of a device are those of the same work that are alike among themselves; of the device that is
// judged, those like the first run.
func TestOn(t *testing.T) {
	changed := func(id, device string, change func(*evidence.Run)) *evidence.Run {
		run := made(id, device)
		change(run)
		return run
	}
	set := &Set{Runs: []*evidence.Run{made("a", "mps"), made("b", "mps"),
		// the same work, and another release
		changed("newer", "mps", func(r *evidence.Run) { r.Target.Release = "2.9.0" }),
		changed("other", "cpu", func(r *evidence.Run) { r.Provenance.Datasets[0].Batch = 64 }),
		made("c", "cpu"), changed("d", "cpu", func(r *evidence.Run) { r.Host.Facts[0].Value = "Apple M4" })}}
	for device, want := range map[string][]string{"": {"a", "b"}, "mps": {"a", "b"}, "cpu": {"c"}, "cuda": nil} {
		runs, why := set.On(device)
		var got []string
		for _, run := range runs {
			got = append(got, run.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("on %q: %q, want %q", device, got, want)
		}
		if device == "cpu" && why != "other is no match: batch 64 there, 32 here" {
			t.Errorf("why a run was left out: %q", why)
		}
	}
	if runs, why := (&Set{}).On("mps"); runs != nil || why == "" {
		t.Errorf("no runs: %v %q", runs, why)
	}
}

// TestTextOfOneAndOfSeveral: the outcome stands before each condition where there are several, and before none where
// there is one.
func TestTextOfOneAndOfSeveral(t *testing.T) {
	run := made("a", "mps", measured("loss.last", 2, "1"), measured("step.time", 0.1, "s"))
	for rule, want := range map[string]string{"loss.last <= 1": "\n             loss.last is 2",
		"loss.last <= 1 and step.time <= 50 ms": "\n             fail: loss.last is 2"} {
		policy, err := Load("p", []byte("[[gate]]\nname = \"g\"\nrule = \""+rule+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (Text{Width: 200}).Write(&b, Judge(policy, &Set{Runs: []*evidence.Run{run}})); err != nil ||
			!strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s%v", rule, want, b.String(), err)
		}
	}
}

// TestHintAfterACondition: a word behind a whole condition is told how conditions go on; a sign is not.
func TestHintAfterACondition(t *testing.T) {
	for rule, hinted := range map[string]bool{"loss.last <= 1 over 3 runs then": true, "loss.last <= 1 )": false} {
		_, err := Parse(rule)
		var m *Mistake
		if !errors.As(err, &m) || strings.Contains(m.Hint, "joined by and, or") != hinted {
			t.Errorf("%s: %+v", rule, err)
		}
	}
	if got := Value(evidence.Unknown("x", "s", "why")); got != "not known" {
		t.Errorf("%q", got)
	}
	if leftOut(0) != "" || !strings.HasPrefix(leftOut(2), "2 runs left out") {
		t.Errorf("%q %q", leftOut(0), leftOut(2))
	}
	if names := signedFigures(); !slices.Contains(names, "memory.growth") || slices.Contains(names, "step.time") {
		t.Errorf("%q", names)
	}
}
