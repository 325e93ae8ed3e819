//go:build !linux && !darwin

package host

import (
	"context"
	"errors"
	"net/netip"
)

const onMac = false

func routeTo(context.Context, netip.Addr) (Hop, error) { return Hop{}, errors.New(notRead) }
