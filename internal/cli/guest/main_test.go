// Package guest holds tests alone: scripts bare and under the binary, compared by what a person who started them can
// tell. They need no part of cli; in a package of their own they run beside its other tests.
package guest

import (
	"os"
	"testing"

	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
