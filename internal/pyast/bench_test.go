package pyast

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkParse reads the Python files below $PYAST_CORPUS, by default those of this repository.
func BenchmarkParse(b *testing.B) {
	root := os.Getenv("PYAST_CORPUS")
	if root == "" {
		root = filepath.Join("..", "..", "agent")
	}
	var sources [][]byte
	size := 0
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".py" && size < 64<<20 {
			data, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			sources = append(sources, data)
			size += len(data)
		}
		return nil
	})
	if len(sources) == 0 {
		b.Skip("no Python files below " + root)
	}
	for name, run := range map[string]func([]byte){
		"tokens": func(src []byte) {
			t := tokenizer{src: string(src), toks: make([]token, 0, len(src)/3)}
			t.run(0)
		},
		"tree":   func(src []byte) { Parse(src, Options{}) },
		"scopes": func(src []byte) { NewScopes(Parse(src, Options{}), "m") },
	} {
		b.Run(name, func(b *testing.B) {
			runtime.GC()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				for _, src := range sources {
					run(src)
				}
			}
			// Of processor time, the collector's included: what a machine that others use, too, can still tell.
			b.ReportMetric(float64(size)*float64(b.N)/1e6/(cpu()-before).Seconds(), "MB/cpu-s")
		})
	}
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
