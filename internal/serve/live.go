package serve

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/events"
	"assay/internal/fault"
	"assay/internal/probe"
	"assay/internal/report"
	clean "assay/internal/text"
)

// Bounds of what follows runs.
const (
	mostFollowers = 32 // pages at once: each reads a file and folds it
	newest        = 50 // folders of runs, those written to last, are looked at for one that is under way
	foldersFor    = time.Second
	lookEvery     = 500 * time.Millisecond
	sendEvery     = time.Second
	beatEvery     = 15 * time.Second // a line that says nothing, so that a lost page is noticed
)

// followers bounds the pages that follow a run.
type followers struct {
	mu   sync.Mutex
	now  int
	most int
}

func (f *followers) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now >= f.most {
		return false
	}
	f.now++
	return true
}

func (f *followers) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
}

// folders are those of runs, and when somebody last wrote there; they are looked through once in foldersFor.
type folders struct {
	mu     sync.Mutex
	looked time.Time
	names  []string
}

// late gives the folders that were written to last, the latest first. Names say nothing of it: a fleet's begin with the
// queue's.
func (f *folders) late(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() && time.Since(f.looked) < foldersFor {
		return f.names
	}
	f.looked, f.names = time.Now(), nil
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	written := map[string]time.Time{}
	for _, entry := range entries {
		if !entry.IsDir() || badName(entry.Name()) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(dir, entry.Name(), events.FileName)); err == nil {
			f.names = append(f.names, entry.Name())
			written[entry.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(f.names, func(a, b string) int {
		return cmp.Or(written[b].Compare(written[a]), strings.Compare(b, a))
	})
	f.names = f.names[:min(len(f.names), newest)]
	return f.names
}

// underWay names the runs that somebody writes, the one that was written to last first.
func (s *Site) underWay() []string {
	if s.o.Runs == "" {
		return nil
	}
	var names []string
	for _, name := range s.folders.late(s.o.Runs) {
		run, err := s.follow(name)
		if err != nil {
			continue
		}
		if !run.Abandoned() {
			names = append(names, name)
		}
		run.Close()
	}
	return names
}

// badName reports whether a name is none of a run's folder: nothing else is opened.
func badName(name string) bool {
	return name == "" || strings.HasPrefix(name, ".") || len(name) > 255 || strings.ContainsAny(name, "/\\\x00")
}

// follow opens a run's folder by its name.
func (s *Site) follow(name string) (*probe.Following, error) {
	if s.o.Runs == "" || badName(name) {
		return nil, errNoPage
	}
	info, err := os.Lstat(filepath.Join(s.o.Runs, name))
	if err != nil || !info.IsDir() { // a link may lead anywhere
		return nil, errNoPage
	}
	run, err := probe.Follow(filepath.Join(s.o.Runs, name))
	if err != nil {
		return nil, errNoPage
	}
	return run, nil
}

type livePage struct {
	*frame
	Runs []liveRow
}

type liveRow struct{ Name, Line string }

// liveRuns lists the runs under way.
func (s *Site) liveRuns(w http.ResponseWriter, r *http.Request) error {
	p := &livePage{frame: &frame{Title: "Under way", Here: "live"}}
	for _, name := range s.underWay() {
		run, err := s.follow(name)
		if err != nil {
			continue
		}
		if _, err := run.More(); err == nil {
			p.Runs = append(p.Runs, liveRow{name, report.Live{}.Line(run.Run(), ahead(run))})
		}
		run.Close()
	}
	s.write(w, r, http.StatusOK, "live", p)
	return nil
}

type oneLivePage struct {
	*frame
	Name string
	Part template.HTML
	Over bool
}

// liveRun is the page of one run; its events bring what follows.
func (s *Site) liveRun(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	run, err := s.follow(name)
	if err != nil {
		return err
	}
	defer run.Close()
	if _, err := run.More(); err != nil {
		return fault.Exit(err, fault.Usage)
	}
	part, over, err := partOf(run)
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, "liverun", &oneLivePage{frame: &frame{Title: clean.Short(name, 120), Here: "live"},
		Name: name, Part: template.HTML(part), Over: over})
	return nil
}

// partOf is the run as far as it has come, and whether it has ended.
func partOf(run *probe.Following) (part []byte, over bool, err error) {
	state := "under way"
	switch {
	case run.Ended():
		state, over = "ended", true
	case run.Abandoned():
		state, over = "cut off", true
	}
	var b bytes.Buffer
	err = report.Live{}.WritePart(&b, run.Run(), ahead(run), state)
	return b.Bytes(), over, err
}

func ahead(run *probe.Following) report.Ahead {
	e, ok := run.Estimate()
	if !ok {
		return report.Ahead{}
	}
	return report.Ahead{Of: e.Of, Steps: e.Steps, Seconds: e.Seconds, Low: e.Low, High: e.High}
}

// liveEvents sends the page's part anew whenever the run has gone on (server-sent events, html.spec.whatwg.org), and an
// event "over" when it has ended.
func (s *Site) liveEvents(w http.ResponseWriter, r *http.Request) error {
	if !s.live.enter() {
		w.Header().Set("Retry-After", "10")
		return &status{http.StatusServiceUnavailable, fmt.Sprintf("%d pages follow a run already.", mostFollowers)}
	}
	defer s.live.leave()
	run, err := s.follow(r.PathValue("name"))
	if err != nil {
		return err
	}
	defer run.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	stream := http.NewResponseController(w)
	_ = stream.SetWriteDeadline(time.Time{}) // it goes on as long as the run does; each write has its own below
	send := func(event string, data []byte) bool {
		_ = stream.SetWriteDeadline(time.Now().Add(beatEvery))
		var b bytes.Buffer
		if event == "" {
			b.WriteString(":\n\n")
		} else {
			fmt.Fprintf(&b, "event: %s\n", event)
			for line := range bytes.Lines(data) {
				fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
			}
			b.WriteString("\n")
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return false
		}
		return stream.Flush() == nil
	}
	s.sendEvents(r.Context(), run, send)
	return nil
}

func (s *Site) sendEvents(ctx context.Context, run *probe.Following, send func(string, []byte) bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var sent, beat time.Time
	came := true
	for {
		more, err := run.More()
		if err != nil { // the file is no run's: asked again it would be none either
			send("over", []byte("over"))
			return
		}
		came = came || more
		over := run.Ended() || !more && run.Abandoned()
		now := time.Now()
		switch {
		case over || came && now.Sub(sent) >= sendEvery:
			part, _, err := partOf(run)
			if err != nil || !send("part", part) {
				return
			}
			if over {
				send("over", []byte("over"))
				return
			}
			sent, beat, came = now, now, false
		case now.Sub(beat) >= beatEvery:
			if !send("", nil) {
				return
			}
			beat = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
