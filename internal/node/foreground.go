package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"assay/internal/fault"
)

const (
	sayEvery        = time.Second
	foregroundLease = 15.0 // seconds: the one who renews stands beside the job
)

// Foreground starts a job and sees it to its end: it writes each state that differs from the one before as a line of
// JSON, and ends the job where in ends or ctx does. Where this process is killed, the job ends with its lease, 15 s at
// most.
func Foreground(ctx context.Context, n *Jobs, j Job, in io.Reader, out io.Writer) (State, error) {
	if j.Lease == 0 || j.Lease > foregroundLease {
		j.Lease = foregroundLease
	}
	s, err := n.Start(j)
	if err != nil {
		return s, err
	}
	if s.Phase == "" {
		return s, fault.Hint(fmt.Errorf("start job %s: it was not begun", j.Name),
			"see "+n.folder(j.Name).file(logFile))
	}
	left := make(chan struct{})
	go func() { defer close(left); _, _ = io.Copy(io.Discard, in) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var said State
	var saidAt, renewed time.Time
	for first := true; ; first = false {
		over := s.Phase == Ended || s.Phase == Lost
		changed := s.Phase != said.Phase || s.Holder != said.Holder || s.Error != said.Error
		if first || over || changed || time.Since(saidAt) >= sayEvery && !maps.Equal(s.Files, said.Files) {
			said, saidAt = s, time.Now()
			line, err := json.Marshal(s)
			if err != nil {
				return s, err
			}
			_, _ = out.Write(append(line, '\n')) // nobody reads it: in has ended then, or is about to
		}
		if over {
			return s, nil
		}
		if s.Phase == "" {
			return s, fmt.Errorf("keep job %s: somebody removed its folder", j.Name)
		}
		select {
		case <-tick.C:
		case <-left:
			if _, err := n.Cancel(Which{Names: []string{j.Name}, Why: "whoever started it has gone"}); err != nil {
				return s, err
			}
			left = nil
		case <-ctx.Done():
			if _, err := n.Cancel(Which{Names: []string{j.Name}, Why: "interrupted"}); err != nil {
				return s, err
			}
			ctx = context.Background()
		}
		if time.Since(renewed) >= duration(j.Lease/4) {
			renewed = time.Now()
			if _, err := n.Renew([]string{j.Name}); err != nil {
				return s, err
			}
		}
		if s, err = n.state(j.Name); err != nil {
			return s, err
		}
	}
}
