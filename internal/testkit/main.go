package testkit

import (
	"os"
	"slices"
	"sync"
	"testing"

	"assay/internal/testset"
)

// Main runs the tests of a package that starts programs, and removes what was made for them. It returns the status for
// os.Exit.
func Main(m *testing.M) int {
	if os.Getenv("OMP_NUM_THREADS") == "" {
		// What the scripts compute is small. Beside other programs PyTorch's threads would wait for each other.
		os.Setenv("OMP_NUM_THREADS", "1")
	}
	status := testset.Run(m)
	for _, end := range slices.Backward(endings) {
		end()
	}
	return status
}

// endings are what Main does when the tests are through.
var (
	endingsMu sync.Mutex
	endings   []func()
)

func cleanUp(end func()) {
	endingsMu.Lock()
	defer endingsMu.Unlock()
	endings = append(endings, end)
}
