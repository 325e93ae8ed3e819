package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/events"
	"assay/internal/fold"
	"assay/internal/target"
)

// manyEvents are events.jsonl files of any size, by what they are full of.
var manyEvents = []struct {
	name string
	line func(i int) (conn int, event string)
}{
	{"steps", func(i int) (int, string) { return 1, stepsLine(i*50, 50) }}, // four times a second, of a step of 5 ms
	{"single-steps", func(i int) (int, string) { return 1, stepsLine(i, 1) }},
	{"syncs", func(i int) (int, string) { // totals so far, of a hundred lines
		var rows []string
		for k := range 100 {
			rows = append(rows, fmt.Sprintf(`["item","/home/u/project/train.py:%d","/site-packages/torch/optim/adam.py:%d",%d,%d,true,%d]`, k, k, i, i*1000, i))
		}
		return 1, `{"ev":"syncs","rows":[` + strings.Join(rows, ",") + `]}`
	}},
	{"losses", func(i int) (int, string) {
		var steps, values []string
		for k := range 50 {
			steps, values = append(steps, fmt.Sprint(i*50+k)), append(values, fmt.Sprintf("%.6f", 1/float64(i+k+1)))
		}
		return 1, `{"ev":"loss","step":[` + strings.Join(steps, ",") + `],"value":[` + strings.Join(values, ",") + `]}`
	}},
	{"gradients", func(i int) (int, string) {
		return 1, fmt.Sprintf(`{"ev":"gradients","step":[%d],"finite":[true]}`,
			i)
	}},
	{"shapes", func(i int) (int, string) {
		return 1, fmt.Sprintf(`{"ev":"shape","model":"Net","inputs":"(64, 3, %d, 32) float32","first":%d,"calls":1}`, i,
			i)
	}},
	{"memory", func(i int) (int, string) {
		return 1, fmt.Sprintf(`{"ev":"memory","phases":{"data":[[%d,2,3,4]],"forward":[[1,2,3,4]],"backward":[[1,2,3,4]]}}`, i)
	}},
	{"connections", func(i int) (int, string) { // workers that come and go
		return i + 2, fmt.Sprintf(`{"ev":"hello","version":1,"token":"t%d","pid":%d,"ppid":1,"python":"3.12.1","argv":["train.py"],"wall":1000.0,"clock":0}`, i, i+10)
	}},
	{"host", func(i int) (int, string) {
		return 0, fmt.Sprintf(`{"ev":"host","sample":{"at":%d.5,"cpu":0.5}}`, i)
	}},
	{"unknown", func(i int) (int, string) {
		return 1, fmt.Sprintf(`{"ev":"of-a-later-agent","n":%d,"text":"%s"}`, i, strings.Repeat("x", 200))
	}},
	{"fallbacks", func(i int) (int, string) {
		return 1, fmt.Sprintf(`{"ev":"fallback","operator":"aten::x%d","where":"train.py:%d","via":"","count":1,"source":"warning"}`, i, i)
	}},
}

func stepsLine(first, n int) string {
	var b strings.Builder
	b.WriteString(`{"ev":"steps"`)
	for _, c := range []struct {
		name  string
		value func(i int) string
	}{
		{"number", func(i int) string { return fmt.Sprint(i + 1) }}, {"start",
			func(i int) string { return fmt.Sprint(i * 5_000_000) }}, {"total",
			func(i int) string { return fmt.Sprint(4_900_000 + i%1000) }},
		{"rest", func(int) string { return "100000" }}, {"data", func(int) string { return "200000" }},
		{"h2d", func(int) string { return "0" }},
		{"forward", func(int) string { return "2000000" }}, {"backward", func(int) string { return "2000000" }},
		{"optimizer", func(int) string { return "600000" }},
		{"epoch", func(i int) string { return fmt.Sprint(i / 1000) }}, {"micro", func(int) string { return "1" }},
		{"evals", func(int) string { return "0" }}, {"kind", func(int) string { return `""` }},
		{"live", func(i int) string { return fmt.Sprint(1_000_000 + i) }},
		{"pool", func(int) string { return "5000000" }}, {"opts", func(int) string { return "1" }},
		{"outside", func(int) string { return "0" }},
	} {
		b.WriteString(`,"` + c.name + `":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(c.value(first + i))
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	return b.String()
}

// writeEvents makes an events.jsonl of about so many bytes, full of one kind of event.
func writeEvents(tb testing.TB, path string, size int, line func(i int) (int, string)) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	start, _ := json.Marshal(fold.StartEvent{ID: "big", Wall: time.Unix(1000, 0),
		Target: target.Target{Device: "auto"}})
	fmt.Fprintf(w, `{"c":0,"e":{"ev":"start",%s}`+"\n", start[1:])
	fmt.Fprintln(w, `{"c":1,"e":{"ev":"hello","version":1,"pid":7,"python":"3.12.1","wall":1000.0,"clock":0}}`)
	fmt.Fprintln(w, `{"c":1,"e":{"ev":"torch","version":"2.8.0"}}`)
	for i, n := 0, 0; n < size; i++ {
		conn, event := line(i)
		k, _ := fmt.Fprintf(w, `{"c":%d,"e":%s}`+"\n", conn, event)
		n += k
	}
	fmt.Fprintln(w, `{"c":0,"e":{"ev":"exit","code":0}}`)
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkFold reads events of each kind, and says how many times as long it takes as one plain pass of encoding/json
// over the same lines (×json).
func BenchmarkFold(b *testing.B) {
	const size = 16 << 20
	for _, c := range manyEvents {
		b.Run(c.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), events.FileName)
			writeEvents(b, path, size, c.line)
			data, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			for line := range strings.Lines(string(data)) {
				var v any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					b.Fatal(err)
				}
			}
			plain := time.Since(began)
			b.SetBytes(int64(len(data)))
			b.ResetTimer()
			for b.Loop() {
				if _, err := loadEvents(filepath.Dir(path)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(plain), "×json")
		})
	}
}
