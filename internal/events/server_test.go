package events

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shared is a sink for several goroutines.
type shared struct {
	mu sync.Mutex
	sunk
}

func (s *shared) Add(connection int, event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sunk.Add(connection, event)
}

func (s *shared) Unreadable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sunk.Unreadable()
}

const hello = `{"ev":"hello","version":1}` + "\n"

// TestServer: what several processes sent before they hung up is there when the server is drained, and nothing of a
// stranger's.
func TestServer(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		events     []string
		unreadable int
	}{
		{"an agent", hello + `{"ev":"bye"}` + "\n", []string{strings.TrimSpace(hello), `{"ev":"bye"}`}, 0},
		{"no JSON, an empty line", hello + "{\n\n" + `{"ev":"bye"}` + "\n",
			[]string{strings.TrimSpace(hello), `{"ev":"bye"}`}, 2},
		{"another protocol", `{"ev":"hello","version":2}` + "\n" + `{"ev":"bye"}` + "\n", nil, 0},
		{"no version", `{"ev":"hello"}` + "\n" + `{"ev":"bye"}` + "\n", nil, 0},
		{"no hello", `{"ev":"steps","version":1}` + "\n", nil, 0},
		{"no object", "[1]\n" + hello, nil, 0},
	} {
		var sink shared
		server, err := Listen([]string{"TMPDIR=" + t.TempDir()}, "", 1, &sink)
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve()
		for range 3 {
			conn, err := net.Dial("unix", server.Socket())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(conn, c.sent)
			conn.Close()
		}
		server.Drain(time.Minute)
		slices.Sort(sink.events)
		var want []string
		for _, event := range c.events {
			for n := 1; n <= 3; n++ {
				want = append(want, fmt.Sprint(n, " ", event))
			}
		}
		slices.Sort(want)
		if !slices.Equal(sink.events, want) || sink.unreadable != 3*c.unreadable {
			t.Errorf("%s: %q, %d unreadable, want %q, %d", c.name, sink.events, sink.unreadable, want, 3*c.unreadable)
		}
		socket := server.Socket()
		server.Close()
		if _, err := os.Stat(socket); err == nil {
			t.Errorf("%s: the socket is left", c.name)
		}
	}
}

// TestDrainEnds: a process that holds its connection open and says nothing, as a child that outlives the script, is not
// waited for.
func TestDrainEnds(t *testing.T) {
	var sink shared
	server, err := Listen([]string{"TMPDIR=" + t.TempDir()}, "", 1, &sink)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go server.Serve()
	conn, err := net.Dial("unix", server.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, hello)
	drained := make(chan bool)
	go func() { server.Drain(time.Hour); close(drained) }()
	select {
	case <-drained:
	case <-time.After(time.Minute):
		t.Fatal("it is waited for a connection on which nothing comes")
	}
	if len(sink.events) != 1 {
		t.Errorf("%q", sink.events)
	}
	var none *Server // of a run whose agents have no way in
	none.Drain(time.Hour)
	none.Leave(1)
	none.Close()
}

// broken is a sink with an error in it.
type broken struct{ shared }

func (*broken) Add(int, []byte) { panic("broken") }

// TestGuard: an error of ours while an event is taken in ends neither the run nor the other connections.
func TestGuard(t *testing.T) {
	server, err := Listen([]string{"TMPDIR=" + t.TempDir()}, "", 1, &broken{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	guarded := make(chan string, 2)
	server.Guard = func(doing string) {
		if p := recover(); p != nil {
			guarded <- fmt.Sprint(doing, ": ", p)
		}
	}
	go server.Serve()
	for range 2 {
		conn, err := net.Dial("unix", server.Socket())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, hello)
		if got := <-guarded; got != "reading what the agent sent: broken" {
			t.Errorf("%q", got)
		}
		conn.Close()
	}
	server.Drain(time.Minute)
}

// TestNoFolderForTheSocket: the error says why, for each folder that was tried.
func TestNoFolderForTheSocket(t *testing.T) {
	long := t.TempDir() + "/" + strings.Repeat("x", 100)
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := Listen([]string{"TMPDIR=" + long}, long, 1, &shared{})
	if err == nil {
		server.Close() // another folder for temporary files could be written
	} else if !strings.Contains(err.Error(), "too long a path for a socket") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(long); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
