package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/file"
)

// stillFor is how long nothing may come before a connection that is open is taken for one that has nothing more to say:
// what a process sent before it ended is there at once.
const stillFor = 100 * time.Millisecond

// Server takes events in over a Unix socket, from any number of processes at once. A nil one has no connections.
type Server struct {
	// Guard is deferred in each goroutine, with what it was doing: a panic of ours must not end the run. nil: none.
	Guard func(doing string)

	protocol int
	sink     Sink
	listener net.Listener
	folder   *file.Folder // that the socket lies in, which only this user can enter
	mu       sync.Mutex
	open     int
	next     int
	idle     *sync.Cond
	last     time.Time     // when the last line came
	caughtUp chan struct{} // closed when our own connection has been accepted
}

const (
	socketFile    = "s"
	ownSocketFile = "o"
)

// Listen opens a socket in a folder of its own that only this user can enter: in the first place for temporary files,
// as the environment and the working folder name them, that can be written. The path is short: 104 bytes with the zero
// at its end is all that macOS allows (sys/un.h). Streams that do not begin with a hello of this version of the
// protocol are not read.
func Listen(environ []string, dir string, protocol int, sink Sink) (*Server, error) {
	var all []error
	for _, parent := range file.Temps(environ, dir) {
		folder, err := file.TempIn(parent, "run")
		if err == nil {
			path := filepath.Join(folder.Path, socketFile)
			if len(path) > 103 {
				err = fmt.Errorf("%s is too long a path for a socket", path)
			} else {
				var l net.Listener
				if l, err = net.Listen("unix", path); err == nil {
					s := &Server{protocol: protocol, sink: sink, listener: l, folder: folder,
						caughtUp: make(chan struct{})}
					s.idle = sync.NewCond(&s.mu)
					return s, nil
				}
			}
			folder.Remove()
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

// Socket is the path that agents connect to.
func (s *Server) Socket() string { return s.Path(socketFile) }

// Path is where a file of that name lies beside the socket: it goes when the server is closed.
func (s *Server) Path(name string) string { return filepath.Join(s.folder.Path, name) }

// Leave says that a process uses the folder: it is not swept up while that lives, even if assay is killed.
func (s *Server) Leave(pid int) {
	if s != nil {
		s.folder.Leave(pid)
	}
}

// Close ends listening and takes the socket away.
func (s *Server) Close() {
	if s != nil {
		s.listener.Close()
		s.folder.Remove()
	}
}

// Serve accepts connections until the server is closed.
func (s *Server) Serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if from := conn.RemoteAddr(); from != nil && from.String() == s.Path(ownSocketFile) {
			conn.Close()
			close(s.caughtUp)
			continue
		}
		s.mu.Lock()
		s.next++
		number := s.next
		s.open++
		s.mu.Unlock()
		go s.receive(number, conn)
	}
}

func (s *Server) receive(number int, conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		s.open--
		s.idle.Broadcast()
		s.mu.Unlock()
	}()
	if s.Guard != nil {
		defer s.Guard("reading what the agent sent")
	}
	in := bufio.NewScanner(conn)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	defer func() {
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			s.sink.Unreadable()
		}
	}()
	for n := 0; in.Scan(); n++ {
		line := bytes.TrimSpace(in.Bytes())
		s.mu.Lock()
		s.last = time.Now()
		s.mu.Unlock()
		if len(line) == 0 || !json.Valid(line) {
			s.sink.Unreadable()
			continue
		}
		if n == 0 && !s.welcome(line) {
			return
		}
		s.sink.Add(number, line)
	}
}

// welcome reports whether a first line is the hello of an agent of this assay.
func (s *Server) welcome(line []byte) bool {
	var hello struct {
		Ev      string `json:"ev"`
		Version int    `json:"version"`
	}
	return json.Unmarshal(line, &hello) == nil && hello.Ev == "hello" && hello.Version == s.protocol
}

// catchUp waits until every connection that was made so far is accepted: they come in order, so that one of our own is
// the last.
func (s *Server) catchUp(limit time.Duration) {
	own, err := net.DialUnix("unix", &net.UnixAddr{Name: s.Path(ownSocketFile), Net: "unix"},
		&net.UnixAddr{Name: s.Socket(), Net: "unix"})
	if err != nil {
		return
	}
	defer own.Close()
	select {
	case <-s.caughtUp:
	case <-time.After(limit):
	}
}

// Drain waits until every agent has hung up, at most that long, and no longer than some of them still tell something:
// children that outlive the script go on without us. It is called once.
func (s *Server) Drain(limit time.Duration) {
	if s == nil {
		return
	}
	s.catchUp(limit)
	began := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open > 0 {
		now := time.Now()
		since := now.Sub(began)
		if s.last.After(began) {
			since = now.Sub(s.last)
		}
		if now.Sub(began) > limit || since > stillFor {
			return
		}
		timer := time.AfterFunc(stillFor/10, s.idle.Broadcast)
		s.idle.Wait()
		timer.Stop()
	}
}
