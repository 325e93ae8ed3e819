package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestFollow: a run that is under way is drawn from its file as epochs end, and as a whole when it has ended; nobody
// but the file is asked.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(format string, a ...any) { fmt.Fprintf(file, format+"\n", a...) }
	epoch := func(number int) {
		for i := range 10 {
			n := (number-1)*10 + i + 1
			write(`{"c":1,"e":{"ev":"steps","number":[%d],"start":[%d],"total":[20000000],"rest":[20000000],"data":[0],"h2d":[0],"forward":[0],"backward":[0],`+
				`"optimizer":[0],"epoch":[%d],"micro":[1],"evals":[0],"kind":[""],"live":[-1],"pool":[-1],"opts":[1],"outside":[0]}}`, n, n*20000000, number)
		}
		write(`{"c":1,"e":{"ev":"epoch","number":%d,"step":%d,"live":-1,"pool":-1,"resident":-1}}`, number, number*10)
	}
	write(`{"c":0,"e":{"ev":"start","id":"r","wall":"2026-01-02T03:04:05Z","subject":{"kind":"script","script":"train.py","dir":"/p"},"asked":"auto"}}`)
	write(`{"c":1,"e":{"ev":"hello","version":1,"pid":7,"python":"3.12.1","wall":1767323045.0,"clock":0}}`)
	write(`{"c":1,"e":{"ev":"torch","version":"2.8.0"}}`)
	epoch(1)

	var out, stderr lockedBuffer
	began := time.Now()
	fast := func() time.Time { return began.Add(100 * time.Since(began)) } // a second in ten milliseconds
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr, Dir: dir, Now: fast}
	done := make(chan int)
	go func() { done <- Main(env, []string{"show", "--follow", dir}) }()
	await := func(text string) {
		t.Helper()
		limit, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for !strings.Contains(out.String(), text) {
			select {
			case status := <-done:
				t.Fatalf("ended with %d before it said %q:\n%s%s", status, text, out.String(), stderr.String())
			case <-limit.Done():
				t.Fatalf("did not say %q:\n%s", text, out.String())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	await("10 training steps")
	epoch(2)
	await("20 training steps")
	if s := out.String(); strings.Count(s, "had not ended") != 2 || strings.Contains(s, "\x1b") {
		t.Errorf("%s", s)
	}
	write(`{"c":1,"e":{"ev":"bye","how":"exit","clock":500000000}}`)
	write(`{"c":0,"e":{"ev":"exit","wall":"2026-01-02T03:04:09Z","code":0}}`)
	// assay run writes the evidence now; it was killed before it could, and what the events say is shown.
	if status := <-done; status != 0 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if s := out.String(); !strings.Contains(s[strings.LastIndex(s, "train.py"):], "ran to its end") {
		t.Errorf("%s", s)
	}
}
