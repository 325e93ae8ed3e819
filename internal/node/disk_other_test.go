//go:build !linux

package node

import "errors"

func mountSmall(string) error { return errors.ErrUnsupported }
