//go:build !linux && !darwin

package host

import "errors"

func loadNow() (float64, error) { return 0, errors.New(notRead) }
func niceNow() (int, error)     { return 0, errors.New(notRead) }
