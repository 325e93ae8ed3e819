package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// Waits of a client.
const (
	answerIn = 2 * time.Minute // for an answer; the connection counts as lost then
	pace     = 20 << 20        // bytes a second that the slowest disk reads, for what is hashed there
)

// window is how many pieces of a file are under way at once, and how long each is: 2 MiB keep a link of 100 ms busy at
// 20 MB/s, and a request behind them does not wait for long on a slow one.
const (
	window = 8
	chunk  = 256 << 10
)

// Source is that a file to be put could not be read here; the connection stands.
type Source struct{ Err error }

func (s *Source) Error() string { return s.Err.Error() }
func (s *Source) Unwrap() error { return s.Err }

// Gone is that the connection is lost, or closed, and why.
type Gone struct{ Err error }

func (g *Gone) Error() string { return g.Err.Error() }
func (g *Gone) Unwrap() error { return g.Err }

// conn is a Client over a stream.
type conn struct {
	out    writer
	closer func() error
	hello  Hello
	end    chan struct{} // closed when the connection is lost or closed
	once   sync.Once
	err    error // why; set before end is closed

	mu     sync.Mutex
	last   int64
	greet  int64         // ID of the last hello that was answered
	greetT time.Duration // and when that was, by elapsed
	asking map[int64]chan<- reply
}

type reply struct {
	Answer
	body []byte
}

// NewClient speaks with the node at the other end of rw, which version of assay this is, and says hello. closer ends
// what carries rw; it is called once, and may be nil. Where the hello fails it has been called.
func NewClient(rw io.ReadWriter, closer func() error, version string) (Client, error) {
	c := &conn{out: writer{w: rw}, closer: closer, end: make(chan struct{}), asking: map[int64]chan<- reply{}}
	go c.read(rw)
	r, err := c.greeting(version)
	switch {
	case err != nil:
	case r.Hello == nil:
		err = errors.New("the node did not say hello")
	case r.Hello.Protocol != Protocol:
		err = &Refused{Text: fmt.Sprintf("assay %s there speaks protocol %d with a client; assay %s speaks %d",
			r.Hello.Version, r.Hello.Protocol, version, Protocol),
			Hint: "use the same release of assay on both sides"}
	}
	if err != nil {
		c.lose(err)
		return nil, err
	}
	c.hello = *r.Hello
	go c.beat(version)
	return c, nil
}

// greeting says hello, from whose answer on both sides count time.
func (c *conn) greeting(version string) (reply, error) {
	us := &Hello{Protocol: Protocol, Version: version, System: runtime.GOOS + "/" + runtime.GOARCH}
	r, err := c.ask(Request{Hello: us}, nil, answerIn)
	if err == nil {
		c.mu.Lock()
		c.greet, c.greetT = r.ID, elapsed()
		c.mu.Unlock()
	}
	return r, err
}

// beat says hello again and again, so that the node knows that somebody is there, and the clocks stay together.
func (c *conn) beat(version string) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-c.end:
			return
		case <-tick.C:
			if _, err := c.greeting(version); err != nil {
				return
			}
		}
	}
}

// read gives each answer to who waits for it.
func (c *conn) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		var a reply
		var err error
		a.body, err = readMessage(in, &a.Answer, &a.Answer.Body)
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = errors.New("the connection was closed there")
			}
			c.lose(err)
			return
		}
		c.mu.Lock()
		waits := c.asking[a.ID]
		delete(c.asking, a.ID)
		c.mu.Unlock()
		if waits != nil {
			waits <- a // has room for it
		} else if a.Error != "" && a.ID == 0 { // what we sent could not be read there
			c.lose(errors.New(a.Error))
			return
		}
	}
}

// lose ends the connection. The first reason is the one that each call gives from then on.
func (c *conn) lose(err error) {
	c.once.Do(func() {
		c.err = &Gone{err}
		close(c.end)
		if c.closer != nil {
			_ = c.closer()
		}
	})
}

// send asks; where the answer will come is waited for by await.
func (c *conn) send(r Request, body []byte) (<-chan reply, error) {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.last++
	r.ID = c.last
	if r.Start != nil || r.Renew != nil {
		r.Sent = &Sent{Hello: c.greet, After: (elapsed() - c.greetT).Seconds()}
	}
	c.asking[r.ID] = answer
	c.mu.Unlock()
	r.Body = len(body)
	select {
	case <-c.end:
		return nil, c.err
	default:
	}
	stuck := time.AfterFunc(answerIn, func() { c.lose(fmt.Errorf("nothing was taken there for %v", answerIn)) })
	err := c.out.send(r, body)
	stuck.Stop()
	if err != nil {
		if errors.Is(err, errLong) { // nothing was sent
			c.mu.Lock()
			delete(c.asking, r.ID)
			c.mu.Unlock()
			return nil, &Refused{Text: "the request is too long: " + err.Error()}
		}
		select { // what ended the connection says more than that a pipe is broken
		case <-c.end:
		case <-time.After(time.Second):
			c.lose(err)
		}
		return nil, c.err
	}
	return answer, nil
}

func (c *conn) await(answer <-chan reply, wait time.Duration) (reply, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a := <-answer:
		return given(a)
	case <-c.end:
		select {
		case a := <-answer: // came before the end
			return given(a)
		default:
		}
		return reply{}, c.err
	case <-timer.C:
		c.lose(fmt.Errorf("no answer came for %v", wait))
		return reply{}, c.err
	}
}

func given(a reply) (reply, error) {
	if a.Error != "" {
		return reply{}, &Refused{Text: a.Error, Hint: a.Hint, Busy: a.Busy}
	}
	return a, nil
}

func (c *conn) ask(r Request, body []byte, wait time.Duration) (reply, error) {
	answer, err := c.send(r, body)
	if err != nil {
		return reply{}, err
	}
	return c.await(answer, wait)
}

func (c *conn) Hello() Hello { return c.hello }

func (c *conn) Close() error {
	c.lose(errors.New("the connection was closed here"))
	return nil
}

func (c *conn) Facts(q Ask) (Facts, error) {
	r, err := c.ask(Request{Facts: &q}, nil, answerIn)
	if err != nil {
		return Facts{}, err
	}
	if r.Facts == nil {
		return Facts{}, c.odd("facts")
	}
	return *r.Facts, nil
}

// odd is an answer without what was asked for.
func (c *conn) odd(what string) error {
	return &Refused{Text: "the node answered without " + what}
}

func (c *conn) Start(j Job) (State, error) {
	r, err := c.ask(Request{Start: &j}, nil, answerIn)
	if err != nil {
		return State{}, err
	}
	if len(r.States) != 1 {
		return State{}, c.odd("the state of the job")
	}
	return r.States[0], nil
}

func (c *conn) Renew(names ...string) ([]State, error) {
	r, err := c.ask(Request{Renew: &Renew{Names: names}}, nil, answerIn)
	return r.States, err
}

func (c *conn) States(w Which) ([]State, error) {
	r, err := c.ask(Request{States: &w}, nil, answerIn)
	return r.States, err
}

func (c *conn) Cancel(w Which) ([]State, error) {
	r, err := c.ask(Request{Cancel: &w}, nil, answerIn)
	return r.States, err
}

func (c *conn) Forget(w Which) error {
	_, err := c.ask(Request{Forget: &w}, nil, answerIn)
	return err
}

func (c *conn) Read(q Read) ([]byte, Piece, error) {
	r, err := c.ask(Request{Read: &q}, nil, answerIn)
	if err != nil {
		return nil, Piece{}, err
	}
	if r.Read == nil {
		return nil, Piece{}, c.odd("the piece")
	}
	return r.body, *r.Read, nil
}

func (c *conn) Place(p Place) (Have, error) {
	r, err := c.ask(Request{Place: &p}, nil, hashing(p.Size))
	if err != nil {
		return Have{}, err
	}
	if r.Answer.Put == nil {
		return Have{}, c.odd("where the file is")
	}
	return *r.Answer.Put, nil
}

// hashing is how long a file of this size may take to be read there, twice.
func hashing(size int64) time.Duration {
	return answerIn + 2*time.Duration(max(size, 0)/pace)*time.Second
}

func (c *conn) Put(p Put, read func(b []byte, at int64) (int, error), progress func(have int64)) (string, error) {
	if progress == nil {
		progress = func(int64) {}
	}
	for again := false; ; again = true {
		began, path, err := c.put(p, read, progress)
		var refused *Refused
		if !again && began > 0 && errors.As(err, &refused) && !refused.Busy {
			// What was gone on with may be what was wrong: the node has thrown it away then.
			if have, err := c.claim(p); err == nil && have.Size == 0 {
				continue
			}
		}
		return path, err
	}
}

func (c *conn) claim(p Put) (Have, error) {
	r, err := c.ask(Request{Put: &p}, nil, answerIn)
	if err != nil {
		return Have{}, err
	}
	if r.Answer.Put == nil || r.Answer.Put.Size < 0 || r.Answer.Put.Size > p.Size {
		return Have{}, c.odd("how much of the file is there")
	}
	return *r.Answer.Put, nil
}

// put does it once; began is how much was there before.
func (c *conn) put(p Put, read func(b []byte, at int64) (int, error), progress func(have int64)) (began int64,
	path string, err error) {
	have, err := c.claim(p)
	if err != nil {
		return 0, "", err
	}
	progress(have.Size)
	if have.Whole {
		return have.Size, have.Path, nil
	}
	began = have.Size
	var under []<-chan reply // in the order in which they were asked
	next := func() error {
		r, err := c.await(under[0], answerIn)
		under = under[1:]
		if err != nil {
			return err
		}
		if r.Answer.Put != nil {
			progress(r.Answer.Put.Size)
		}
		return nil
	}
	buf := make([]byte, chunk)
	for at := began; at < p.Size; {
		n, err := read(buf[:min(chunk, p.Size-at)], at)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			err = &Source{fmt.Errorf("read the file to send: at byte %d: %w", at, err)}
			for len(under) > 0 && next() == nil {
			}
			return began, "", err
		}
		answer, err := c.send(Request{Data: &Data{Sum: p.Sum, At: at}}, buf[:n])
		if err != nil {
			return began, "", err
		}
		at += int64(n)
		if under = append(under, answer); len(under) == window {
			if err := next(); err != nil {
				return began, "", err
			}
		}
	}
	for len(under) > 0 {
		if err := next(); err != nil {
			return began, "", err
		}
	}
	r, err := c.ask(Request{Commit: &p}, nil, hashing(p.Size))
	if err != nil {
		return began, "", err
	}
	if r.Answer.Put == nil || !r.Answer.Put.Whole {
		return began, "", c.odd("the whole file")
	}
	return began, r.Answer.Put.Path, nil
}
