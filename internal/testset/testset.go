// Package testset says how much is tested: what plain `go test ./...` leaves out, and how all of it is run. It stands
// apart from testkit, whose imports the rooms below it cannot take.
package testset

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// Variable chooses the set: Full runs every test, and no value, as in plain `go test ./...`, the short set: each hook,
// each kind of fault, each outcome of a command once.
const (
	Variable = "ASSAY_TEST"
	Full     = "full"
)

// command runs every test; Go's own limit, ten minutes for a package, is for the short set.
const command = Variable + "=" + Full + " go test -timeout 60m ./..."

// leftOut counts the tests of this process that the short set leaves out.
var leftOut atomic.Int32

// IsFull tells whether every test is to run. It panics where the variable has a value that means nothing: a misspelt
// one would leave tests out.
func IsFull() bool {
	switch set := os.Getenv(Variable); set {
	case "":
		return false
	case Full:
		return true
	default:
		panic(fmt.Sprintf("%s=%s: known is %s, or nothing for the short set", Variable, set, Full))
	}
}

// FullOnly leaves the test out of the short set, and says so.
func FullOnly(t testing.TB) {
	t.Helper()
	if !IsFull() {
		leftOut.Add(1)
		t.Skip("left out of the short set; to run it: " + command)
	}
}

// Run runs the tests of a package and says how many of them were left out. It returns the status for os.Exit.
func Run(m *testing.M) int {
	IsFull() // a misspelt variable ends the package, whichever tests are asked for
	status := m.Run()
	if n := leftOut.Load(); n > 0 {
		fmt.Printf("short set: %d tests of this package left out; to run all: %s\n", n, command)
	}
	return status
}
