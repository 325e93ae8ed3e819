//go:build !linux && !darwin

package host

import (
	"context"
	"errors"

	"assay/internal/evidence"
)

func loadNow() (float64, error) { return 0, errors.New(notRead) }
func niceNow() (int, error)     { return 0, errors.New(notRead) }

func awakeNow(context.Context) []evidence.Fact { return []evidence.Fact{noFact("sleep", "", notRead)} }
