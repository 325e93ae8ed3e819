// Command pyast compares our trees with CPython's ast, node by node with positions, over every Python file below the
// folders named, and says where they differ.
//
//	go run ./tools/pyast -python PATH DIR…
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"assay/internal/pyast"
)

func main() {
	python := flag.String("python", "python3", "`interpreter` to compare with")
	oracle := flag.String("oracle", "internal/pyast/testdata/oracle.py", "the script that dumps its trees")
	show := flag.Int("show", 5, "print so many `differences` in full")
	workers := flag.Int("j", 1, "so many interpreters")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "name folders or files")
		os.Exit(2)
	}
	ok, err := run(*python, *oracle, *show, *workers, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pyast:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

type totals struct {
	sync.Mutex
	files, bytes, equal, rejected, skipped, differ int
	ours                                           time.Duration
}

func run(python, oracle string, show, workers int, roots []string) (bool, error) {
	var files []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Type().IsRegular() && (strings.HasSuffix(path, ".py") || strings.HasSuffix(path, ".pyi") ||
				path == root) && !strings.Contains(path, "\n") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	var t totals
	paths := make(chan string)
	errs := make(chan error, workers)
	for range workers {
		go func() { errs <- compare(python, oracle, show, paths, &t) }()
	}
	go func() {
		for _, f := range files {
			paths <- f
		}
		close(paths)
	}()
	for range workers {
		if err := <-errs; err != nil {
			return false, err
		}
	}
	fmt.Printf("%d files, %.1f MB: %d trees equal, %d rejected by both, %d too complex for CPython, %d differ\n",
		t.files, float64(t.bytes)/1e6, t.equal, t.rejected, t.skipped, t.differ)
	fmt.Printf("our parser took %.2f s, %.0f MB/s of one core\n", t.ours.Seconds(),
		float64(t.bytes)/1e6/t.ours.Seconds())
	return t.differ == 0, nil
}

// compare takes paths until there are none.
func compare(python, oracle string, show int, paths <-chan string, t *totals) error {
	cmd := exec.Command(python, "-X", "utf8", oracle)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	out := bufio.NewReaderSize(stdout, 1<<20)
	var major, minor int
	if _, err := fmt.Fscanf(out, "%d.%d\n", &major, &minor); err != nil {
		return fmt.Errorf("read the version of %s: %w", python, err)
	}
	opts := pyast.DumpOptions{LooseFStrings: minor < 12}
	var ours []byte
	for path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(in, path); err != nil {
			return err
		}
		start := time.Now()
		file := pyast.Parse(src, pyast.Options{})
		took := time.Since(start)
		var status string
		var n int
		if _, err := fmt.Fscanf(out, "%s %d\n", &status, &n); err != nil {
			return fmt.Errorf("read the answer for %s: %w", path, err)
		}
		theirs := make([]byte, n)
		if _, err := io.ReadFull(out, theirs); err != nil {
			return err
		}
		t.Lock()
		t.files++
		t.bytes += len(src)
		t.ours += took
		problem := ""
		switch fault := file.Err(); {
		case status == "skip":
			t.skipped++
		case status == "error" && fault == nil:
			problem = "CPython rejects it: " + string(theirs)
		case status == "error":
			t.rejected++
		case fault != nil:
			problem = "we reject it: " + fault.Error()
		default:
			ours = file.Dump(ours[:0], opts)
			if bytes.Equal(ours, theirs) {
				t.equal++
			} else {
				problem = difference(ours, theirs)
			}
		}
		if problem != "" {
			t.differ++
			if t.differ <= show {
				fmt.Printf("%s: %s\n", path, problem)
			} else {
				fmt.Println(path)
			}
		}
		t.Unlock()
	}
	in.Close()
	return cmd.Wait()
}

// difference shows where two dumps part.
func difference(ours, theirs []byte) string {
	i := 0
	for i < min(len(ours), len(theirs)) && ours[i] == theirs[i] {
		i++
	}
	cut := func(b []byte) []byte { return b[max(0, i-200):min(len(b), i+120)] }
	return fmt.Sprintf("the trees differ\n  ours   %q\n  theirs %q", cut(ours), cut(theirs))
}
