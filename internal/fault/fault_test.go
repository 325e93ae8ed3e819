package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestHintAndCodeTravel(t *testing.T) {
	inner := Exit(Hint(io.ErrUnexpectedEOF, "fetch it again"), NotFound)
	outer := fmt.Errorf("read the weights: %w", inner)
	if got := outer.Error(); got != "read the weights: unexpected EOF" {
		t.Errorf("message %q: hint and code are no part of it", got)
	}
	if !errors.Is(outer, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if got := HintOf(outer); got != "fetch it again" {
		t.Errorf("hint %q", got)
	}
	if got := CodeOf(outer); got != NotFound {
		t.Errorf("code %d", got)
	}
}

// The outermost wins: who is nearer to the user knows better.
func TestOutermostWins(t *testing.T) {
	err := Exit(Hint(fmt.Errorf("run: %w", Exit(Hint(io.EOF, "inner"), Usage)), "outer"), NotStarted)
	if HintOf(err) != "outer" || CodeOf(err) != NotStarted {
		t.Errorf("hint %q, code %d", HintOf(err), CodeOf(err))
	}
}

func TestPlain(t *testing.T) {
	if Hint(nil, "x") != nil || Exit(nil, Usage) != nil {
		t.Error("no error became one")
	}
	if CodeOf(nil) != OK || CodeOf(io.EOF) != Failed || HintOf(io.EOF) != "" || HintOf(nil) != "" {
		t.Error("defaults")
	}
}

// TestJoined: what several errors bring along is found, that of the first before that of the second.
func TestJoined(t *testing.T) {
	plain := errors.New("plain")
	hinted := Hint(Exit(errors.New("a"), Usage), "do this")
	for _, c := range []struct {
		err  error
		hint string
		code int
	}{
		{errors.Join(plain, hinted), "do this", Usage},
		{errors.Join(hinted, Exit(plain, CannotTell)), "do this", Usage},
		{fmt.Errorf("both: %w and %w", plain, hinted), "do this", Usage},
		{Exit(errors.Join(plain, hinted), GateFailed), "do this", GateFailed},
		{errors.Join(plain), "", Failed},
	} {
		if HintOf(c.err) != c.hint || CodeOf(c.err) != c.code {
			t.Errorf("%v: %q, %d", c.err, HintOf(c.err), CodeOf(c.err))
		}
	}
}
