//go:build !linux && !darwin

package node

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

var started = time.Now()

func processes() ([]process, error) {
	return nil, errors.New("assay does not read the processes of " + runtime.GOOS)
}

func environOf(int) []byte      { return nil }
func alive(like) bool           { return false }
func send(like, syscall.Signal) {}
func adoptOrphans() bool        { return false }
func elapsed() time.Duration    { return time.Since(started) }
func awake() time.Duration      { return time.Since(started) }
func network(string) string     { return "" }
func stayAwake(int) []string    { return nil }

// Boot tells one start of the host from the next; "": not known.
func Boot() string { return "" }
