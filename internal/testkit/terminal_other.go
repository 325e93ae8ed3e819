//go:build !linux

package testkit

import (
	"errors"
	"os"
)

func openTerminal() (far, screen *os.File, err error) {
	return nil, nil, errors.New("only opened on Linux by these tests")
}
