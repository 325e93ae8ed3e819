// Package testkit holds what tests share: a Python with the frameworks, and the binary.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"assay/internal/python"
)

// patience is what is kept of a test's time for saying why there is no environment: go test ends a package after ten
// minutes, and a package that is ended says only where it stood.
const patience = time.Minute

var (
	environmentMu   sync.Mutex
	environmentPath string
	environmentErr  error
)

// Python is the interpreter of an environment with pinned packages: PyTorch, transformers, accelerate, Lightning. It is
// made once below the user's cache folder (or $ASSAY_CACHE) and reused by every later test and by `assay demo`; the
// first time it takes minutes and, on Linux, some 6 GB. Where go test's limit comes first, the test fails and says how
// to have it made.
func Python(t testing.TB) string {
	t.Helper()
	environmentMu.Lock()
	defer environmentMu.Unlock()
	if environmentPath == "" && environmentErr == nil {
		environmentPath, environmentErr = makeEnvironment(t)
	}
	if environmentErr != nil {
		t.Fatal(environmentErr)
	}
	return environmentPath
}

func makeEnvironment(t testing.TB) (string, error) {
	cache, err := python.CacheDir(os.Environ())
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := limited.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end.Add(-patience))
			defer cancel()
		}
	}
	var log bytes.Buffer
	path, err := python.Ensure(ctx, cache, python.Test(), &log)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("the environment of the tests was not ready in the time that go test gives a package: %w\n"+
			"  make it without that limit, once: go test -timeout 60m -run TestEnvironment ./internal/testkit\n%s", err,
			log.String())
	case err != nil:
		return "", fmt.Errorf("%w\n%s", err, log.String())
	}
	return path, nil
}

// repository is the folder of go.mod.
func repository() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..")
}

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		return "", err
	}
	cleanUp(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "assay")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/assay")
	cmd.Dir = repository()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build assay: %w\n%s", err, out)
	}
	return path, seeSources()
})

// seeSources opens every folder that the binary is built of: go test keeps a result until something changes that the
// test itself opened.
func seeSources() error {
	for _, folder := range []string{"cmd", "internal", "agent", "examples", "testdata"} {
		err := filepath.WalkDir(filepath.Join(repository(), folder), func(path string, entry fs.DirEntry,
			err error) error {
			if entry != nil && entry.IsDir() && entry.Name() == "__pycache__" {
				return filepath.SkipDir
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("look at what assay is built of: %w", err)
		}
	}
	return nil
}

// Assay is the path of the binary, built once a test process.
func Assay(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
