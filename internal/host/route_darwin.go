package host

import (
	"context"
	"net/netip"
)

const onMac = true

const (
	routePath        = "/sbin/route"
	networksetupPath = "/usr/sbin/networksetup"
)

func routeTo(ctx context.Context, ip netip.Addr) (Hop, error) {
	args := []string{"-n", "get"}
	if ip.Is6() {
		args = append(args, "-inet6")
	}
	out, err := runTool(ctx, routePath, append(args, ip.String())...)
	if err != nil {
		return Hop{}, err
	}
	hop, err := parseRouteGet(out)
	if err != nil {
		return Hop{}, err
	}
	hop.Source += ", networksetup -listallhardwareports"
	ports, err := runTool(ctx, networksetupPath, "-listallhardwareports")
	if err != nil {
		hop.Why = reason(err)
		return hop, nil
	}
	hop.Kind, hop.Why = macLink(hop.Interface, parseHardwarePorts(ports))
	return hop, nil
}
