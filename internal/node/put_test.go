package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// random are n bytes that a seed gives, and how a file of them is named.
func random(n int, seed uint64) ([]byte, Put) {
	b := make([]byte, n)
	source := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(source.Uint32())
	}
	sum := sha256.Sum256(b)
	return b, Put{Sum: hex.EncodeToString(sum[:]), Size: int64(n)}
}

func reader(b []byte) func([]byte, int64) (int, error) { return bytes.NewReader(b).ReadAt }

// holdsOnly looks that the blobs are these alone, with these bytes, and that parts are there or not.
func holdsOnly(t *testing.T, root string, parts int, blobs ...[]byte) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(root, "blobs", e.Name())
		if strings.HasPrefix(e.Name(), partOf) {
			parts--
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(got)
		if hex.EncodeToString(sum[:]) != e.Name() {
			t.Errorf("%s has other bytes than its name says", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
		found := false
		for _, b := range blobs {
			found = found || bytes.Equal(b, got)
		}
		if !found {
			t.Errorf("%s should not be there", e.Name())
		}
	}
	if parts != 0 {
		t.Errorf("%d parts too few", parts)
	}
}

func TestPut(t *testing.T) {
	root := t.TempDir()
	c, _ := pair(t, Options{Root: root})
	for _, n := range []int{0, 1, chunk, 3*chunk + 17, 2*window*chunk + 1} {
		b, p := random(n, uint64(n))
		var last int64
		path, err := c.Put(p, reader(b), func(have int64) { last = have })
		if err != nil || last != p.Size {
			t.Fatalf("%d bytes: %v, told of %d", n, err, last)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if _, err := c.Put(p, nil, nil); err != nil { // whole: nothing is read
			t.Error(err)
		}
	}
}

// frail carries this many bytes from the client, and then breaks.
type frail struct {
	net.Conn
	left int
}

func (c *frail) Write(b []byte) (int, error) {
	if len(b) > c.left {
		n, _ := c.Conn.Write(b[:c.left])
		c.left = 0
		c.Close()
		return n, io.ErrClosedPipe
	}
	c.left -= len(b)
	return c.Conn.Write(b)
}

// TestPutCut: a link that breaks again and again, anywhere: each time what has come is gone on with, nothing is under
// the file's name before all of it is there, and in the end its bytes are the file's.
func TestPutCut(t *testing.T) {
	source := rand.New(rand.NewPCG(21, 7))
	for round := range 12 {
		root := t.TempDir()
		b, p := random(window*chunk+source.IntN(2*window*chunk), uint64(round))
		cuts, before := 0, int64(0)
		for {
			here, there := net.Pipe()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = Serve(context.Background(), there, there, Options{Root: root})
				there.Close()
			}()
			left := source.IntN(len(b)/2) + 2000
			if cuts > 20 {
				left = 2 * len(b)
			}
			var path string
			first := int64(-1)
			c, err := NewClient(&frail{here, left}, here.Close, "v1")
			if err == nil {
				path, err = c.Put(p, reader(b), func(have int64) {
					if first < 0 {
						first = have
					}
				})
				c.Close()
			}
			<-ended
			if first >= 0 && first < before {
				t.Fatalf("round %d: %d bytes were there, and then %d", round, before, first)
			}
			if err == nil {
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
					t.Fatalf("round %d: %v", round, err)
				}
				holdsOnly(t, root, 0, b)
				break
			}
			var refused *Refused
			if errors.As(err, &refused) {
				t.Fatalf("round %d: %v", round, err)
			}
			cuts++
			if info, err := os.Stat(filepath.Join(root, "blobs", partOf+p.Sum)); err == nil {
				before = info.Size()
			}
			if _, err := os.Stat(filepath.Join(root, "blobs", p.Sum)); err == nil {
				continue // all was there, and the answer was what broke
			}
		}
		if cuts == 0 {
			t.Errorf("round %d: nothing broke", round)
		}
	}
}

// TestPutTwo: of two senders of a file the second hears that the first has it, until the first has gone; and what lies
// there then is whole.
func TestPutTwo(t *testing.T) {
	root := t.TempDir()
	b, p := random(4*chunk, 5)
	first, end := pair(t, Options{Root: root})
	second, _ := pair(t, Options{Root: root})
	stopped := errors.New("the disk is gone")
	_, err := first.Put(p, func(into []byte, at int64) (int, error) {
		if at >= 2*chunk {
			return 0, stopped
		}
		return reader(b)(into, at)
	}, nil)
	var source *Source
	if !errors.As(err, &source) || !errors.Is(err, stopped) {
		t.Fatalf("%v", err)
	}
	_, err = second.Put(p, reader(b), nil)
	var refused *Refused
	if !errors.As(err, &refused) || !refused.Busy {
		t.Fatalf("while another has it: %v", err)
	}
	end()
	var began []int64
	if _, err = second.Put(p, reader(b), func(have int64) { began = append(began, have) }); err != nil {
		t.Fatal(err)
	}
	if began[0] != 2*chunk {
		t.Errorf("went on at %d", began[0])
	}
	holdsOnly(t, root, 0, b)
}

// TestClaimRests: a connection that has stopped sending without ending does not keep others from going on; when it
// comes back it hears of them, and writes nothing into their file.
func TestClaimRests(t *testing.T) {
	folder := t.TempDir()
	ghost, other := &blobs{folder: folder}, &blobs{folder: folder}
	b, p := random(3000, 6)
	if _, err := ghost.put(p); err != nil {
		t.Fatal(err)
	}
	if _, err := ghost.data(Data{Sum: p.Sum}, b[:1000]); err != nil {
		t.Fatal(err)
	}
	ghost.rest(time.Now().Add(claimed / 2))
	if _, err := other.put(p); err == nil {
		t.Fatal("two have it")
	}
	ghost.rest(time.Now().Add(2 * claimed))
	have, err := other.put(p)
	if err != nil || have.Size != 1000 {
		t.Fatal(have, err)
	}
	var refused *Refused
	if _, err := ghost.data(Data{Sum: p.Sum, At: 1000}, b[1000:2000]); !errors.As(err, &refused) || !refused.Busy {
		t.Fatal(err)
	}
	if _, err := ghost.commit(p); !errors.As(err, &refused) || !refused.Busy {
		t.Fatal(err)
	}
	if _, err := other.data(Data{Sum: p.Sum, At: 1000}, b[1000:]); err != nil {
		t.Fatal(err)
	}
	if have, err = other.commit(p); err != nil || !have.Whole {
		t.Fatal(have, err)
	}
	if have, err = ghost.commit(p); err != nil || !have.Whole {
		t.Fatal(have, err)
	}
	other.close()
	ghost.close()
}

// TestPutWrong: what is not what its name says is removed, and said; what was wrong in the part that was gone on with
// is sent again by itself.
func TestPutWrong(t *testing.T) {
	root := t.TempDir()
	c, _ := pair(t, Options{Root: root})
	b, p := random(3*chunk, 8)
	other, _ := random(3*chunk, 9)
	if _, err := c.Put(p, reader(other), nil); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Fatal(err)
	}
	holdsOnly(t, root, 0)
	if err := os.WriteFile(filepath.Join(root, "blobs", partOf+p.Sum), other[:chunk], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(p, reader(b), nil); err != nil {
		t.Fatal(err)
	}
	holdsOnly(t, root, 0, b)
	long := append(bytes.Clone(other), other...) // a part longer than the file
	d, q := random(chunk, 10)
	if err := os.WriteFile(filepath.Join(root, "blobs", partOf+q.Sum), long, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(q, reader(d), nil); err != nil {
		t.Fatal(err)
	}
	holdsOnly(t, root, 0, b, d)
}

func TestPutOffsets(t *testing.T) {
	bl := &blobs{folder: t.TempDir()}
	defer bl.close()
	b, p := random(100, 11)
	if _, err := bl.put(p); err != nil {
		t.Fatal(err)
	}
	if _, err := bl.data(Data{Sum: p.Sum, At: 1}, b[1:]); err == nil {
		t.Error("a hole was taken")
	}
	if _, err := bl.data(Data{Sum: p.Sum}, append(b, 1)); err == nil {
		t.Error("more than the file was taken")
	}
	if _, err := bl.commit(p); err == nil {
		t.Error("nothing was taken for all")
	}
	if _, err := bl.put(Put{Sum: p.Sum, Size: 1 << 60}); err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("more than any disk has: %v", err)
	}
}

// TestSweepParts: parts go by their age, unless their time cannot be, and never one that is under way.
func TestSweepParts(t *testing.T) {
	bl := &blobs{folder: t.TempDir()}
	defer bl.close()
	_, p := random(10, 12)
	if _, err := bl.put(p); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"new": time.Hour, "old": 8 * 24 * time.Hour, "1970": now.Sub(
		time.Unix(0, 0)), "tomorrow": -24 * time.Hour, p.Sum: 8 * 24 * time.Hour} {
		path := bl.part(name)
		if name != p.Sum {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	sweepParts(bl.folder, now)
	sweepParts(bl.folder, now.Add(24*time.Hour))
	left := strings.Join(parts(bl.folder), " ")
	for name, stays := range map[string]bool{"new": true, "old": false, "1970": true, "tomorrow": true, p.Sum: true} {
		if strings.Contains(left, name) != stays {
			t.Errorf("%s stays: %v", name, !stays)
		}
	}
	sweepParts(bl.folder, now.Add(9*24*time.Hour))
	if left := parts(bl.folder); len(left) != 1 || left[0] != bl.part(p.Sum) {
		t.Errorf("a week later there are %v", left)
	}
}

func TestPlace(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	c, _ := pair(t, Options{Root: root, Home: home})
	b, p := random(1000, 13)
	place := Place{Sum: p.Sum, Size: p.Size, To: "~/bundles/b.tar.zst"}
	path := filepath.Join(home, "bundles", "b.tar.zst")
	if have, err := c.Place(place); err != nil || have.Whole {
		t.Fatal(have, err)
	}
	put := func() {
		t.Helper()
		if _, err := c.Put(p, reader(b), nil); err != nil {
			t.Fatal(err)
		}
	}
	put()
	for range 2 { // the second time it lies there
		if have, err := c.Place(place); err != nil || !have.Whole || have.Path != path {
			t.Fatal(have, err)
		}
		holdsOnly(t, root, 0)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
		t.Fatal(err)
	}
	mine := []byte("mine")
	if err := os.WriteFile(path, mine, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Place(place); err == nil || !strings.Contains(err.Error(), "another lies at "+path) {
		t.Fatal(err)
	}
	put()
	if _, err := c.Place(place); err == nil {
		t.Fatal("it took the place of another")
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, mine) {
		t.Fatalf("another is %q now", got)
	}
	place.Force = true
	if have, err := c.Place(place); err != nil || !have.Whole {
		t.Fatal(have, err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, b) {
		t.Fatal("it is another still")
	}
	if err := os.Mkdir(filepath.Join(home, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	put()
	for _, to := range []string{"folder", "bundles/b.tar.zst/x", "", "~", "x/", "a\x00b"} {
		if have, err := c.Place(Place{Sum: p.Sum, Size: p.Size, To: to, Force: true}); err == nil {
			t.Errorf("%q: %+v", to, have)
		}
	}
	if have, err := c.Place(Place{Sum: p.Sum, Size: p.Size, To: "rel/x"}); err != nil || have.Path != home+"/rel/x" {
		t.Error(have, err)
	}
}
