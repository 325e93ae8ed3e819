package testkit

import (
	"strings"
	"testing"
	"time"
)

// endsSoon is a test whose package go test is about to end.
type endsSoon struct{ testing.TB }

func (endsSoon) Deadline() (time.Time, bool) { return time.Now().Add(patience), true }

// TestNoTimeForTheEnvironment: where go test would end the package first, the test says how the environment is made,
// and leaves none half made.
func TestNoTimeForTheEnvironment(t *testing.T) {
	t.Setenv("ASSAY_CACHE", t.TempDir())
	_, err := makeEnvironment(endsSoon{t})
	if err == nil || !strings.Contains(err.Error(), "go test -timeout 60m -run TestEnvironment ./internal/testkit") {
		t.Errorf("%v", err)
	}
}
