//go:build !linux

package file

import "os"

// WriteEarly does nothing here: only Linux has a call for it.
func WriteEarly(*os.File, int64, int64) {}
