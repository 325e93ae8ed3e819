package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/unit"
)

// Sending says which file is sent, and to where.
type Sending struct {
	Path     string // of the file here
	Sum      string // SHA-256 of it, hexadecimal
	Size     int64  // bytes of it
	To       string // path there; "~/" is its user's home
	Force    bool   // takes the place of a file with other bytes
	Patience time.Duration
	// Progress is told of the bytes that are there by now, from whichever goroutine. nil: nobody is.
	Progress func(have int64)
}

// Sent is what came of it.
type Sent struct {
	Path    string // there
	Already bool   // it lay there before, whole
	Links   int    // how often a connection was made
}

// Waits between two attempts.
const (
	firstWait = time.Second
	mostWait  = 30 * time.Second
)

// Send brings a file to a host: whole and verified under its name, or not at all. A link that breaks is made again, and
// what has come is gone on with, as long as something comes within Patience. A host that was never reached is an error
// at once.
func Send(ctx context.Context, o Options, s Sending) (sent Sent, err error) {
	if err := check(&o); err != nil {
		return sent, err
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return sent, err
	}
	defer f.Close()
	moved := make(chan struct{}, 1) // something came
	var best atomic.Int64
	progress := s.Progress
	s.Progress = func(have int64) {
		if have > best.Load() {
			best.Store(have)
			select {
			case moved <- struct{}{}:
			default:
			}
		}
		if progress != nil {
			progress(have)
		}
	}
	last, wait := time.Now(), firstWait
	for reached := false; ; {
		path, already, dialled, err := sendOnce(ctx, o, s, f)
		if dialled {
			sent.Links++
			reached = true
		}
		if err == nil {
			sent.Path, sent.Already = path, already
			return sent, nil
		}
		if ctx.Err() != nil {
			return sent, interrupted(s, best.Load())
		}
		select {
		case <-moved:
			last, wait = time.Now(), firstWait
		default:
		}
		var refused *node.Refused
		busy := errors.As(err, &refused) && refused.Busy
		if !busy && (!reached || !Lost(err)) {
			return sent, err
		}
		if left := s.Patience - time.Since(last); left < wait {
			return sent, fault.Hint(fmt.Errorf("nothing more has come there for %v, and %s of %s are there: %w",
				s.Patience, unit.Bytes(float64(best.Load())), unit.Bytes(float64(s.Size)), err),
				"the same command goes on from there")
		}
		o.Log(fmt.Sprintf("%v; trying again in %v", err, wait))
		select {
		case <-ctx.Done():
			return sent, interrupted(s, best.Load())
		case <-time.After(wait):
		}
		wait = min(2*wait, mostWait)
	}
}

func interrupted(s Sending, have int64) error {
	return fault.Hint(fmt.Errorf("interrupted: %s of %s are there", unit.Bytes(float64(have)),
		unit.Bytes(float64(s.Size))), "the same command goes on from there")
}

// sendOnce does it over one connection. dialled: the host was reached.
func sendOnce(ctx context.Context, o Options, s Sending, f io.ReaderAt) (path string, already, dialled bool,
	err error) {
	h, err := Dial(ctx, o)
	if err != nil {
		var f *Failure
		return "", false, errors.As(err, &f) && f.Reached, err
	}
	c, err := h.Node(ctx)
	if err != nil {
		return "", false, true, err
	}
	defer c.Close()
	place := node.Place{Sum: s.Sum, Size: s.Size, To: s.To, Force: s.Force}
	have, err := c.Place(place)
	if err != nil {
		return "", false, true, there(h, err)
	}
	if have.Whole {
		return have.Path, true, true, nil
	}
	if _, err := c.Put(node.Put{Sum: s.Sum, Size: s.Size}, f.ReadAt, s.Progress); err != nil {
		return "", false, true, there(h, err)
	}
	if have, err = c.Place(place); err != nil {
		return "", false, true, there(h, err)
	}
	if !have.Whole { // somebody took it away in between
		return "", false, true, &node.Refused{Text: "what was sent is gone again there", Busy: true}
	}
	return have.Path, false, true, nil
}

// there says of what a node refused where that was.
func there(h *Host, err error) error {
	var refused *node.Refused
	if !errors.As(err, &refused) {
		return err
	}
	return fault.Hint(fmt.Errorf("%s: %w", h.o.Host, err), refused.Hint)
}
