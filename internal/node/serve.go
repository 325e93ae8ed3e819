package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"assay/internal/fault"
)

// silence is how long a node waits for a request before it takes the other side for gone: a link that broke without a
// word leaves a connection that TCP believes in for hours. A client speaks every pulse.
const (
	silence = 90 * time.Second
	pulse   = 15 * time.Second
)

// Options is what a node's server works with.
type Options struct {
	Root    string // folder of the node's files; made where there is none
	Home    string // of the user; "": none is known
	Version string // of this assay
	// Facts says what this host is like, now. nil: an error says that it cannot.
	Facts func(context.Context, Ask) (Facts, error)
	Runs  Runs          // nil: jobs are refused
	Boot  string        // tells one start of the host from the next; "": it is looked up
	Quiet time.Duration // without a request after which Serve ends; 0: a minute and a half
}

// Serve answers requests until in ends or nobody has asked for long. What comes in is not believed: each request is
// bounded, an unknown one is answered with an error, and so is one that made this side panic. The error is nil where
// the other side just went away.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	if o.Quiet == 0 {
		o.Quiet = silence
	}
	if o.Boot == "" {
		o.Boot = Boot()
	}
	s := &server{ctx: ctx, o: o, out: writer{w: out}}
	defer s.blobs.close()
	if err := s.open(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan message)
	go read(ctx, in, asked)
	timer := time.NewTimer(o.Quiet)
	defer timer.Stop()
	rest := time.NewTicker(claimed / 4)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
			s.blobs.rest(time.Now())
			continue
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("answer an assay elsewhere: it has said nothing for %v", o.Quiet)
		case m := <-asked:
			if m.err == io.EOF {
				return nil
			}
			if m.err != nil {
				err := fmt.Errorf("read what is asked: %w", m.err)
				if !errors.Is(m.err, io.ErrUnexpectedEOF) { // somebody may be there to hear it
					_ = s.out.send(failed(0, err), nil)
				}
				return err
			}
			if err := s.answer(m); err != nil {
				return err
			}
			timer.Reset(o.Quiet)
		}
	}
}

// message is what was read: a request with its body, or why there are no more.
type message struct {
	Request
	body []byte
	err  error
}

func read(ctx context.Context, in io.Reader, asked chan<- message) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var m message
		m.body, m.err = readMessage(r, &m.Request, &m.Request.Body)
		select {
		case asked <- m:
		case <-ctx.Done():
			return
		}
		if m.err != nil {
			return
		}
	}
}

type server struct {
	ctx   context.Context
	o     Options
	out   writer
	blobs blobs
	met   bool // the other side has said hello, and speaks as we do
	// hellos are the last that were answered, and when that was, by elapsed.
	hellos []greeting
}

type greeting struct {
	id int64
	at time.Duration
}

// late says how late a request came; one that does not say when it was asked is not. What counts from a hello that is
// long past, or never was, is as late as can be.
func (s *server) late(sent *Sent) time.Duration {
	if sent == nil {
		return 0
	}
	for _, h := range s.hellos {
		if h.id == sent.Hello {
			return elapsed() - h.at - time.Duration(sent.After*float64(time.Second))
		}
	}
	return time.Hour
}

// open makes the node's folder, for this user alone.
func (s *server) open() error {
	root, err := filepath.Abs(s.o.Root)
	if err != nil {
		return err
	}
	s.o.Root = root
	s.blobs = blobs{folder: filepath.Join(root, "blobs"), home: s.o.Home}
	if err := os.MkdirAll(s.blobs.folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of the node's files: %w", err)
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return fmt.Errorf("close the folder of the node's files to others: %w", err)
	}
	return nil
}

// answer does what is asked and says what came of it. An error means that nobody can be told.
func (s *server) answer(m message) error {
	a, body := s.try(m)
	if len(body) > MaxBody {
		a, body = failed(m.ID, fmt.Errorf("a piece of %d bytes is too large to send", len(body))), nil
	}
	a.ID, a.Body = m.ID, len(body)
	err := s.out.send(a, body)
	if errors.Is(err, errLong) {
		err = s.out.send(failed(m.ID, fmt.Errorf("the answer is longer than %d bytes: ask for less", MaxLine)), nil)
	}
	if err != nil {
		return fmt.Errorf("answer an assay elsewhere: %w", err)
	}
	return nil
}

// try is do, whose panics and errors become answers.
func (s *server) try(m message) (a Answer, body []byte) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "assay: answer an assay elsewhere: %v\n%s", r, debug.Stack())
			a, body = failed(m.ID, fmt.Errorf("a fault of assay's own: %v", r)), nil
		}
	}()
	a, body, err := s.do(m)
	if err != nil {
		return failed(m.ID, err), nil
	}
	return a, body
}

func failed(id int64, err error) Answer {
	a := Answer{ID: id, Error: err.Error(), Hint: fault.HintOf(err)}
	var refused *Refused
	if errors.As(err, &refused) {
		a.Busy = refused.Busy
		if a.Hint == "" {
			a.Hint = refused.Hint
		}
	}
	a.Error, a.Hint = cut(a.Error), cut(a.Hint)
	return a
}

// cut keeps an error within a message: it may quote what a stranger wrote.
func cut(s string) string {
	const most = 16 << 10
	if len(s) > most {
		return s[:most] + " …"
	}
	return s
}

func (s *server) do(m message) (a Answer, body []byte, err error) {
	if m.Hello != nil {
		return s.hello(m.ID, *m.Hello)
	}
	if !s.met {
		return a, nil, errors.New("the first request has to say hello")
	}
	var have Have
	switch {
	case m.Facts != nil:
		if s.o.Facts == nil {
			return a, nil, errors.New("this node knows nothing of its host")
		}
		facts, err := s.o.Facts(s.ctx, *m.Facts)
		a.Facts = &facts
		return a, nil, err
	case m.Put != nil:
		have, err = s.blobs.put(*m.Put)
		a.Put = &have
		return a, nil, err
	case m.Data != nil:
		have, err = s.blobs.data(*m.Data, m.body)
		a.Put = &have
		return a, nil, err
	case m.Commit != nil:
		have, err = s.blobs.commit(*m.Commit)
		a.Put = &have
		return a, nil, err
	case m.Place != nil:
		have, err = s.blobs.place(*m.Place)
		a.Put = &have
		return a, nil, err
	}
	if m.Start == nil && m.Renew == nil && m.States == nil && m.Read == nil && m.Cancel == nil && m.Forget == nil {
		return a, nil, fmt.Errorf("assay %s does not know what is asked of it", s.o.Version)
	}
	if s.o.Runs == nil {
		return a, nil, errors.New("this node takes no jobs")
	}
	if m.Start != nil || m.Renew != nil {
		if late := s.late(m.Sent); late > Stale {
			return a, nil, &Refused{Text: fmt.Sprintf("what was asked came %v late, and was not done", late.Round(
				time.Second)), Busy: true, Hint: "the link stalls: ask again"}
		}
	}
	return s.runs(m)
}

func (s *server) runs(m message) (a Answer, body []byte, err error) {
	switch {
	case m.Start != nil:
		var state State
		state, err = s.o.Runs.Start(*m.Start)
		a.States = []State{state}
	case m.Renew != nil:
		a.States, err = s.o.Runs.Renew(m.Renew.Names)
	case m.States != nil:
		a.States, err = s.o.Runs.States(*m.States)
	case m.Read != nil:
		var piece Piece
		body = make([]byte, min(max(m.Read.Most, 0), MaxBody))
		var n int
		n, piece, err = s.o.Runs.Read(*m.Read, body)
		body = body[:min(max(n, 0), len(body))]
		a.Read = &piece
	case m.Cancel != nil:
		a.States, err = s.o.Runs.Cancel(*m.Cancel)
	case m.Forget != nil:
		err = s.o.Runs.Forget(*m.Forget)
	}
	return a, body, err
}

// hello refuses an assay that speaks otherwise, whatever it asks next.
func (s *server) hello(id int64, h Hello) (a Answer, body []byte, err error) {
	if h.Protocol != Protocol {
		s.met = false
		return a, nil, fault.Hint(fmt.Errorf("assay %s here speaks protocol %d with a node; assay %s speaks %d",
			s.o.Version, Protocol, h.Version, h.Protocol), "use the same release of assay on both sides")
	}
	s.met = true
	s.hellos = append(s.hellos, greeting{id, elapsed()})
	if len(s.hellos) > 8 {
		s.hellos = s.hellos[1:]
	}
	a.Hello = &Hello{Protocol: Protocol, Version: s.o.Version, System: runtime.GOOS + "/" + runtime.GOARCH,
		Boot: s.o.Boot, Root: s.o.Root}
	return a, nil, nil
}
