//go:build !linux && !darwin

package host

import (
	"context"
	"errors"
	"runtime"
	"time"

	"assay/internal/evidence"
)

// elsewhere is a system that assay does not read.
type elsewhere struct{}

func thisMachine() machine { return elsewhere{} }

const notRead = "assay does not read " + runtime.GOOS

func (elsewhere) facts(_ context.Context, paths []string) []evidence.Fact {
	facts := []evidence.Fact{fact("system", runtime.GOOS+"/"+runtime.GOARCH, "build of assay")}
	for _, p := range paths {
		facts = append(facts, noFact("mount:"+p, "", notRead))
	}
	return facts
}

func (elsewhere) source(int) source                                   { return elsewhere{} }
func (elsewhere) programs(context.Context) ([]program, error)         { return nil, errors.New(notRead) }
func (elsewhere) recordings() []recording                             { return nil }
func (elsewhere) sample(context.Context, time.Time) []evidence.Figure { return nil }
func (elsewhere) close()                                              {}
