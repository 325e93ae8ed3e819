package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/events"
	"assay/internal/fold"
	"assay/internal/secret"
)

// TestEstimateIsToldAsItGoes: the estimate is kept among the events and told as soon as a dozen steps can tell, again
// when there are twice as many, and that an epoch is long is said once, when it turns out to be.
func TestEstimateIsToldAsItGoes(t *testing.T) {
	dir := t.TempDir()
	rec, err := newRecorder(dir, &secret.Set{})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	rec.tell = func(e fold.EstimateEvent, about Telling) {
		told <- fmt.Sprintf("step %d: first %v, long %v", e.Last, about.First, about.Long)
	}
	rec.own("start", fold.StartEvent{ID: "r", WarnLong: 500})
	add := func(format string, a ...any) { rec.Add(1, fmt.Appendf(nil, format, a...)) }
	add(`{"ev":"hello","version":2,"pid":7}`)
	add(`{"ev":"loader","id":1,"batches":100}`)
	add(`{"ev":"length","loader":1}`)
	for i := range 64 {
		seconds := 3
		if i >= 20 {
			seconds = 9 // so that an epoch turns out to be longer than 500 s
		}
		add(`{"ev":"steps","number":[%d],"start":[%d],"total":[%d],"rest":[1],"data":[0],"h2d":[0],"forward":[0],"backward":[0],`+
			`"optimizer":[0],"epoch":[1],"micro":[1],"evals":[0],"kind":[""],"live":[-1],"pool":[-1],"opts":[1],"outside":[0]}`,
			i+1, i*9e9, seconds*1e9)
	}
	rec.log.Close()
	data, err := os.ReadFile(filepath.Join(dir, events.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), `{"c":0,"e":{"ev":"estimate","of":"epoch","steps":100,`); n != 3 {
		t.Errorf("%d estimates are kept, at 12, 24 and 48 steps:\n%s", n, data)
	}
	var all []string
	for range 3 {
		all = append(all, <-told)
	}
	said := strings.Join(all, "\n")
	for _, want := range []string{"step 12: first true, long false", "step 24: first false, long ",
		"step 48: first false, long "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if strings.Count(said, "long true") != 1 {
		t.Errorf("said to be long not once:\n%s", said)
	}
}
