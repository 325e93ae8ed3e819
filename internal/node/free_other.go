//go:build !darwin

package node

import "errors"

func bootSession() (string, error) { return "", errors.ErrUnsupported }
