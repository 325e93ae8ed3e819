package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/testkit"
)

// statusFile is where assay, under a transcript, leaves the status that it ends with.
const statusFile = "SCRIPT_STATUS"

// tests are this package's; what was made for them is removed when they are through.
type tests struct{ m *testing.M }

func (t tests) Run() int { return testkit.Main(t.m) }

// TestMain runs the tests, or is assay itself: transcripts start this binary under that name, and hosts that it copied
// itself to under the one that it has there (internal/remote).
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(strings.TrimPrefix(name, ".part-"), "assay-") {
		os.Exit(Main(OSEnv(), os.Args[1:]))
	}
	testscript.Main(tests{m}, map[string]func(){"assay": func() {
		status := Main(OSEnv(), os.Args[1:])
		if path := os.Getenv(statusFile); path != "" && (len(os.Args) < 2 || os.Args[1] != "witness") {
			os.WriteFile(path, []byte(strconv.Itoa(status)),
				0o600) // the test that asks for it fails where it is not there
		}
		os.Exit(status)
	}})
}
