package host

import (
	"context"
	"net"
	"net/netip"
)

const onMac = false

func routeTo(_ context.Context, ip netip.Addr) (Hop, error) {
	return (&procHost{tool: runTool, read: readSmall}).routeTo(ip, ownAddress)
}

// ownAddress reports whether the address is one of this machine's: the kernel's local table has it, which /proc does
// not show.
func ownAddress(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip.WithZone("") {
				return true
			}
		}
	}
	return false
}
