package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/internal/evidence"
)

// Kinds of links.
const (
	LinkThunderbolt = "thunderbolt" // IP over Thunderbolt, by cable
	LinkEthernet    = "ethernet"    // by cable
	LinkWiFi        = "wifi"
	LinkLoopback    = "loopback"
	LinkTunnel      = "tunnel"  // a VPN: what is below it is not told
	LinkVirtual     = "virtual" // a bridge, a pair of interfaces, a virtual machine's
)

// LinkKinds are those that somebody can mean a route to go by.
func LinkKinds() []string { return []string{LinkThunderbolt, LinkEthernet, LinkWiFi} }

// Hop is the way that packets leave this machine by.
type Hop struct {
	Interface string        // en0
	Kind      string        // one of the above; "": not known
	Why       string        // why the kind is not known
	MTU       int           // bytes; 0: not known
	Gateway   string        // "": the other end is on the same network
	RTT       time.Duration // median of how long a TCP connection takes to be made; 0: see Unreached
	N         int           // connections that it is the median of
	Unreached error         // none could be made
	Source    string
}

// rttConnects is of how many connections the median is taken, rttLimit how long one may take.
const (
	rttConnects = 9
	rttLimit    = 2 * time.Second
)

// Route looks up by which interface packets to the address (host:port, or a host alone) leave, and times nine TCP
// connections to it one after another: the time of one is that of a round trip. It ends within some seconds. The error
// is that the address is none, or that there is no route; a host that does not answer has a Hop with Unreached.
func Route(ctx context.Context, addr string) (Hop, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		name, port = strings.Trim(addr, "[]"), ""
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(limited, "ip", name)
	if err != nil {
		return Hop{}, fmt.Errorf("look up %s: %w", name, err)
	}
	var hop Hop
	err = errors.New("it has no address")
	for _, ip := range ips {
		if hop, err = routeTo(limited, ip.Unmap()); err == nil {
			if port != "" {
				hop.time(ctx, net.JoinHostPort(ip.Unmap().String(), port))
			}
			return hop, nil
		}
	}
	return Hop{}, fmt.Errorf("find the route to %s: %w", name, err)
}

// time makes the connections.
func (h *Hop) time(ctx context.Context, addr string) {
	var took []time.Duration
	dialer := net.Dialer{Timeout: rttLimit}
	for range rttConnects {
		began := time.Now()
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			if h.Unreached = err; len(took) == 0 {
				return
			}
			break
		}
		took = append(took, time.Since(began))
		c.Close()
	}
	slices.Sort(took)
	h.RTT, h.N, h.Unreached = took[len(took)/2], len(took), nil
}

// Facts says the hop as facts of the host: link, link.mtu, link.gateway, link.rtt in milliseconds.
func (h Hop) Facts() []evidence.Fact {
	link := noFact("link", h.Source, h.Why)
	if h.Kind != "" {
		link = fact("link", h.Kind+" ("+h.Interface+")", h.Source)
	}
	facts := []evidence.Fact{link}
	if h.MTU > 0 {
		facts = append(facts, fact("link.mtu", strconv.Itoa(h.MTU)+" B", h.Source))
	}
	gateway := "none: the same network"
	if h.Gateway != "" {
		gateway = h.Gateway
	}
	facts = append(facts, fact("link.gateway", gateway, h.Source))
	source := fmt.Sprintf("median of %d TCP connections", h.N)
	switch {
	case h.N > 0:
		facts = append(facts, fact("link.rtt", fmt.Sprintf("%.3g ms", float64(h.RTT)/1e6), source))
	case h.Unreached != nil:
		facts = append(facts, noFact("link.rtt", "TCP connection", h.Unreached.Error()))
	}
	if text := h.LocalNetworkSuspected(); text != "" {
		facts = append(facts, fact("local-network.suspected", text, "errno of connect(2), route"))
	}
	return facts
}

// LocalNetworkSuspected says why macOS may be keeping this program from the local network: there is a route to an
// address of it, on its own network, and connections are refused at once with "no route to host". macOS 15 and later
// ask a person for the permission, and refuse so until it is given (Apple, TN3179: Understanding local network
// privacy). A host that is off answers alike after some seconds, so it is no more than suspected. "": nothing of the
// kind.
func (h Hop) LocalNetworkSuspected() string { return suspected(h, onMac) }

func suspected(h Hop, mac bool) string {
	if !mac || h.Gateway != "" || h.Unreached == nil || !errors.Is(h.Unreached, syscall.EHOSTUNREACH) {
		return ""
	}
	return fmt.Sprintf("there is a route by %s, and connections fail with \"no route to host\": Local Network may not be "+
		"allowed for the program that started this, or the other host is off", h.Interface)
}

// parseRouteGet reads what `route -n get ADDRESS` prints on macOS: rows of `key: value`, and a table of metrics.
func parseRouteGet(text []byte) (h Hop, err error) {
	h.Source = "route -n get"
	column := -1 // of mtu, in the row below the heads; which columns there are differs by release
	lines(text, func(line string) {
		if words := strings.Fields(line); column >= 0 {
			if column < len(words) {
				h.MTU = int(min(atoi([]byte(words[column])), 1<<20))
			}
			column = -1
			return
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case ok && key == "interface":
			h.Interface = value
		case ok && key == "gateway":
			h.Gateway = value
		case strings.Contains(line, "recvpipe") && strings.Contains(line, "mtu"):
			column = slices.Index(strings.Fields(line), "mtu")
		}
	})
	if _, bad := netip.ParseAddr(h.Gateway); bad != nil { // link#12, index: 12 lo0, or a hardware address
		h.Gateway = ""
	}
	if h.Interface == "" {
		return h, keyMissing("route -n get", "interface")
	}
	return h, nil
}

// parseHardwarePorts reads `networksetup -listallhardwareports`: blocks of `Hardware Port: NAME` and `Device: en0`.
func parseHardwarePorts(text []byte) map[string]string {
	ports, name := map[string]string{}, ""
	lines(text, func(line string) {
		key, value, ok := strings.Cut(line, ": ")
		switch {
		case ok && key == "Hardware Port":
			name = strings.TrimSpace(value)
		case ok && key == "Device" && name != "" && len(ports) < 1024:
			ports[strings.TrimSpace(value)] = name
			name = ""
		}
	})
	return ports
}

// macLink is what kind of link an interface of a Mac is, by the name of its hardware port. The names are those of
// English systems, of which networksetup prints no other.
func macLink(device string, ports map[string]string) (kind, why string) {
	port := ports[device]
	lower := strings.ToLower(port)
	switch {
	case strings.HasPrefix(device, "lo"):
		return LinkLoopback, ""
	case strings.HasPrefix(device, "utun") || strings.HasPrefix(device, "ipsec") || strings.HasPrefix(device, "ppp"):
		return LinkTunnel, ""
	case strings.Contains(lower, "ethernet") || strings.Contains(lower, " lan"):
		return LinkEthernet, "" // Thunderbolt Ethernet is an adapter: what is behind it is Ethernet
	case strings.Contains(lower, "thunderbolt"):
		return LinkThunderbolt, ""
	case strings.Contains(lower, "wi-fi") || strings.Contains(lower, "airport"):
		return LinkWiFi, ""
	case strings.HasPrefix(device, "bridge") || strings.HasPrefix(device, "vmenet") || strings.HasPrefix(device,
		"vmnet"):
		return LinkVirtual, ""
	case port == "":
		return "", "networksetup lists no hardware port of " + device
	}
	return "", fmt.Sprintf("the hardware port is %q", cut(port, 60))
}

// routes of Linux, main table of IPv4 and of IPv6, as /proc/net has them.
type procRoute struct {
	device  string
	prefix  netip.Prefix
	gateway netip.Addr
	metric  uint64
}

// parseProcRoute reads /proc/net/route: hexadecimal words in the machine's own byte order, which is little-endian on
// all that assay is built for.
func parseProcRoute(text []byte) (all []procRoute) {
	lines(text, func(line string) {
		words := strings.Fields(line)
		if len(words) < 8 || len(all) >= 1<<14 {
			return
		}
		destination, err1 := strconv.ParseUint(words[1], 16, 32)
		gateway, err2 := strconv.ParseUint(words[2], 16, 32)
		flags, err3 := strconv.ParseUint(words[3], 16, 32)
		metric, err4 := strconv.ParseUint(words[6], 10, 64)
		mask, err5 := strconv.ParseUint(words[7], 16, 32)
		if errors.Join(err1, err2, err3, err4, err5) != nil || flags&1 == 0 { // RTF_UP
			return
		}
		addr := func(v uint64) netip.Addr {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(v))
			return netip.AddrFrom4(b)
		}
		ones := 0
		for m := mask; m != 0; m &= m - 1 {
			ones++
		}
		r := procRoute{device: words[0], prefix: netip.PrefixFrom(addr(destination), ones), metric: metric}
		if flags&2 != 0 { // RTF_GATEWAY
			r.gateway = addr(gateway)
		}
		all = append(all, r)
	})
	return all
}

// parseProcRoute6 reads /proc/net/ipv6_route.
func parseProcRoute6(text []byte) (all []procRoute) {
	hex16 := func(word string) (netip.Addr, error) {
		var b [16]byte
		if len(word) != 32 {
			return netip.Addr{}, errors.New("not 32 digits")
		}
		for i := range b {
			v, err := strconv.ParseUint(word[2*i:2*i+2], 16, 8)
			if err != nil {
				return netip.Addr{}, err
			}
			b[i] = byte(v)
		}
		return netip.AddrFrom16(b), nil
	}
	lines(text, func(line string) {
		words := strings.Fields(line)
		if len(words) < 10 || len(all) >= 1<<14 {
			return
		}
		destination, err1 := hex16(words[0])
		ones, err2 := strconv.ParseUint(words[1], 16, 8)
		gateway, err3 := hex16(words[4])
		metric, err4 := strconv.ParseUint(words[5], 16, 64)
		flags, err5 := strconv.ParseUint(words[8], 16, 64)
		// not up, or RTF_REJECT
		if errors.Join(err1, err2, err3, err4, err5) != nil || flags&1 == 0 || flags&0x200 != 0 || ones > 128 {
			return
		}
		r := procRoute{device: words[9], prefix: netip.PrefixFrom(destination, int(ones)), metric: metric}
		if !gateway.IsUnspecified() {
			r.gateway = gateway
		}
		all = append(all, r)
	})
	return all
}

// onRoute is the route that the address takes: the longest prefix, and of equals the lowest metric.
func onRoute(ip netip.Addr, all []procRoute) (best procRoute, found bool) {
	for _, r := range all {
		if !r.prefix.Contains(ip) {
			continue
		}
		if !found || r.prefix.Bits() > best.prefix.Bits() ||
			r.prefix.Bits() == best.prefix.Bits() && r.metric < best.metric {
			best, found = r, true
		}
	}
	return best, found
}

// procRouteTo finds the route by /proc/net and the link's kind by /sys/class/net.
func (h *procHost) routeTo(ip netip.Addr, own func(netip.Addr) bool) (Hop, error) {
	hop := Hop{Source: "/proc/net/route, /sys/class/net"}
	if ip.IsLoopback() || own != nil && own(ip) {
		hop.Interface, hop.Kind, hop.MTU = "lo", LinkLoopback, 65536
		return hop, nil
	}
	file, parse := "/proc/net/route", parseProcRoute
	if ip.Is6() {
		file, parse = "/proc/net/ipv6_route", parseProcRoute6
	}
	text, err := h.file(file)
	if err != nil {
		return hop, err
	}
	r, ok := onRoute(ip.WithZone(""), parse(text))
	if !ok {
		return hop, fmt.Errorf("%s has none", file)
	}
	hop.Interface = r.device
	if r.gateway.IsValid() {
		hop.Gateway = r.gateway.String()
	}
	dir := "/sys/class/net/" + r.device
	if mtu, err := h.word(dir + "/mtu"); err == nil {
		hop.MTU = int(atoi([]byte(mtu)))
	}
	hop.Kind, hop.Why = h.linkKind(dir, r.device)
	return hop, nil
}

// linkKind is what an interface of Linux is: the kernel's own marks, and for Ethernet that there is hardware behind it.
func (h *procHost) linkKind(dir, device string) (kind, why string) {
	uevent, _ := h.file(dir + "/uevent")
	devtype := ""
	lines(uevent, func(line string) {
		if v, ok := strings.CutPrefix(line, "DEVTYPE="); ok {
			devtype = v
		}
	})
	driver, _ := h.file(dir + "/device/uevent")
	wireless := h.exists(dir + "/wireless")
	phy := h.exists(dir + "/phy80211")
	number, err := h.word(dir + "/type")
	hardware := h.exists(dir + "/device")
	tun := h.exists(dir + "/tun_flags")
	switch {
	case devtype == "wlan" || wireless || phy:
		return LinkWiFi, ""
	case strings.Contains(string(driver), "DRIVER=thunderbolt-net") || strings.HasPrefix(device, "thunderbolt"):
		return LinkThunderbolt, ""
	case devtype == "wireguard" || devtype == "ppp" || tun:
		return LinkTunnel, ""
	case number == "772": // ARPHRD_LOOPBACK
		return LinkLoopback, ""
	case devtype != "" || number == "1" && !hardware: // bridge, bond, vlan, veth
		return LinkVirtual, ""
	case number == "1": // ARPHRD_ETHER
		return LinkEthernet, ""
	case err != nil:
		return "", dir + ": " + reason(err)
	}
	return "", fmt.Sprintf("an interface of type %s", cut(number, 20))
}

// exists of a file or folder below the root.
func (h *procHost) exists(p string) bool {
	_, err := os.Stat(h.root + p)
	return err == nil
}
