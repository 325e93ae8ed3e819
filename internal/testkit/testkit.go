// Package testkit holds what tests share: a Python with the frameworks, and the binary.
package testkit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"assay/internal/python"
)

var environment = sync.OnceValues(func() (string, error) {
	cache, err := python.CacheDir(os.Environ())
	if err != nil {
		return "", err
	}
	var log bytes.Buffer
	path, err := python.Ensure(context.Background(), cache, python.Test(), &log)
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, log.String())
	}
	return path, nil
})

// Python is the interpreter of an environment with pinned packages: PyTorch, transformers, accelerate, Lightning. It is made
// once below the user's cache folder (or $ASSAY_CACHE) and reused by every later test and by `assay demo`; the first time it
// takes minutes and, on Linux, some 6 GB.
func Python(t testing.TB) string {
	t.Helper()
	path, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "assay")
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "build", "-o", path, "./cmd/assay")
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build assay: %w\n%s", err, out)
	}
	return path, nil
})

// Assay is the path of the binary, built once a test process.
func Assay(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
