// Package host reads the machine that a run uses: what it is (Facts), what it does while the run goes on (Sampler),
// which programs hold its memory (Apps), and its raw answers for a bug report (Record).
//
// A reading has one of two outcomes: a value, or the reason why there is none. Zero is a value. On a Mac the order of
// trust is sysctl, then IOKit, IOReport, SMC and notify called without cgo, then the text of a tool; on Linux it is
// /proc and /sys, then nvidia-smi. Nothing here asks for root, and nothing waits longer than about a second.
//
// Nobody has run the macOS half on a Mac yet. Its logic and parsers are tested on outputs that others recorded
// (testdata/mac/SOURCES.md), behind an interface; its system calls are only compiled. The Linux half runs in its own
// tests.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/evidence"
)

// Limits of one reading. A tool of the system answers in 10–300 ms (wandb#12680, mbcheck); what needs longer is stuck.
const (
	toolLimit  = 800 * time.Millisecond
	mountLimit = 300 * time.Millisecond
	toolOutput = 1 << 20 // bytes of a tool's output that are looked at
)

// machine is one kind of host.
type machine interface {
	facts(ctx context.Context, paths []string) []evidence.Fact
	source(pid int) source
	programs(ctx context.Context) ([]program, error)
	recordings() []recording
}

// Facts reads what does not change during a run, in a fixed order: chip, model, cores, GPU, memory, system, power,
// for each path the file system that it (or its nearest existing parent) lies on, and what stands round the run.
// Values are text for a reader. Facts does not fail: a fact that could not be read says why. The call takes well under
// a second, unless a tool or a file system is stuck; then about one second.
func Facts(ctx context.Context, paths ...string) []evidence.Fact {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	return together(ctx, func(ctx context.Context) []evidence.Fact { return thisMachine().facts(ctx, paths) }, around)
}

// together runs the groups at the same time and returns their facts in the order of the groups.
func together(ctx context.Context, groups ...func(context.Context) []evidence.Fact) []evidence.Fact {
	parts := make([][]evidence.Fact, len(groups))
	var wg sync.WaitGroup
	for i, group := range groups {
		wg.Go(func() { parts[i] = group(ctx) })
	}
	wg.Wait()
	var all []evidence.Fact
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func fact(name, value, source string) evidence.Fact {
	return evidence.Fact{Name: name, Value: value, Source: source}
}

func noFact(name, source, reason string) evidence.Fact {
	return evidence.Fact{Name: name, Source: source, Missing: reason}
}

// factOr makes a fact of a value, or a missing one of the error.
func factOr(name, value, source string, err error) evidence.Fact {
	switch {
	case err != nil:
		return noFact(name, source, reason(err))
	case value == "":
		return noFact(name, source, "empty answer")
	}
	return fact(name, value, source)
}

// reason turns an error into the words of a Missing field.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not on this system"
	case errors.Is(err, fs.ErrPermission):
		return "not permitted"
	}
	return err.Error()
}

// toolFunc runs a program and returns its standard output.
type toolFunc func(ctx context.Context, path string, args ...string) ([]byte, error)

// runTool runs a program of the system: plain locale, no input, bounded output. It lasts as long as the context, ten
// seconds at most.
func runTool(ctx context.Context, path string, args ...string) ([]byte, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	var out bounded
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout = &out
	// a stop of our group is not to catch it while it is being started (probe, gitState)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer in %v", path, time.Since(begun).Round(100*time.Millisecond))
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", path, err)
	}
	return out.kept.Bytes(), nil
}

// bounded keeps the first toolOutput bytes and swallows the rest, so that a chatty tool is not blocked. The buffer is
// not embedded: its ReadFrom would let io.Copy past the bound.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := toolOutput - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// within calls f in a goroutine and gives up after the limit. A call that hangs in the kernel is left behind. A panic
// of f is an error: a reading must not end assay, and with it what is known of a training.
func within[T any](ctx context.Context, limit time.Duration, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	c := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = failedInAssay(p)
			}
			c <- a
		}()
		a.value, a.err = f()
	}()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case a := <-c:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("did not answer in %v", limit)
	}
}

func failedInAssay(p any) error { return fmt.Errorf("an error in assay itself: %v", p) }

// lines yields the lines of a text without their ends; a line of a hostile file is cut at 64 KiB.
func lines(text []byte, f func(line string)) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		f(strings.TrimRight(string(line[:min(len(line), 1<<16)]), "\r"))
	}
}

// keyMissing is the error of a parser that did not find what it was asked for.
func keyMissing(what, key string) error { return fmt.Errorf("%s: no %q", what, key) }
