package host

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What follows is of the form that `route -n get` and `networksetup -listallhardwareports` print; addresses are made
// up.
const (
	routeGateway = `   route to: 192.0.2.9
destination: default
       mask: default
    gateway: 198.51.100.1
  interface: en0
      flags: <UP,GATEWAY,DONE,STATIC,PRCLONING,GLOBAL>
 recvpipe  sendpipe  ssthresh  rtt,msec    rttvar  hopcount      mtu     expire
       0         0         0         0         0         0      1500         0
`
	routeNeighbour = `   route to: 169.254.7.2
destination: 169.254.7.2
    gateway: 36:0:5e:0:53:1
  interface: bridge0
      flags: <UP,HOST,DONE,LLINFO,WASCLONED,IFSCOPE,IFREF>
 recvpipe  sendpipe  ssthresh  rtt,msec    mtu        weight    expire
       0         0         0         0      9000         1         0
`
	hardwarePorts = `
Hardware Port: Ethernet
Device: en1
Ethernet Address: 00:00:5e:00:53:01

Hardware Port: Wi-Fi
Device: en0
Ethernet Address: 00:00:5e:00:53:02

Hardware Port: Thunderbolt Bridge
Device: bridge0
Ethernet Address: 00:00:5e:00:53:03

Hardware Port: Thunderbolt 1
Device: en2
Ethernet Address: 00:00:5e:00:53:04

Hardware Port: USB 10/100/1000 LAN
Device: en7
Ethernet Address: 00:00:5e:00:53:05

Hardware Port: iPhone USB
Device: en9
Ethernet Address: 00:00:5e:00:53:06

VLAN Configurations
===================
`
)

func TestMacRoute(t *testing.T) {
	for text, want := range map[string]Hop{
		routeGateway:   {Interface: "en0", Gateway: "198.51.100.1", MTU: 1500},
		routeNeighbour: {Interface: "bridge0", MTU: 9000},
	} {
		h, err := parseRouteGet([]byte(text))
		if err != nil || h.Interface != want.Interface || h.Gateway != want.Gateway || h.MTU != want.MTU {
			t.Errorf("%+v %v, not %+v", h, err, want)
		}
	}
	if _, err := parseRouteGet([]byte("route: writing to routing socket: not in table\n")); err == nil {
		t.Error("no route was taken for one")
	}
	ports := parseHardwarePorts([]byte(hardwarePorts))
	for device, want := range map[string]string{"en0": LinkWiFi, "en1": LinkEthernet, "en7": LinkEthernet,
		"bridge0": LinkThunderbolt,
		"en2":     LinkThunderbolt, "lo0": LinkLoopback, "utun4": LinkTunnel, "vmenet0": LinkVirtual, "en9": "",
		"en33": ""} {
		if kind, why := macLink(device, ports); kind != want || kind == "" && why == "" {
			t.Errorf("%s is %q (%s), not %q", device, kind, why, want)
		}
	}
}

// TestLocalNetwork: what a refusal says is suspected only where it can be that.
func TestLocalNetwork(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	for name, c := range map[string]struct {
		hop  Hop
		mac  bool
		want bool
	}{
		"a neighbour, at once":  {Hop{Interface: "en0", Unreached: refused}, true, true},
		"beyond a gateway":      {Hop{Interface: "en0", Gateway: "192.0.2.1", Unreached: refused}, true, false},
		"Linux":                 {Hop{Interface: "en0", Unreached: refused}, false, false},
		"refused by its port":   {Hop{Interface: "en0", Unreached: syscall.ECONNREFUSED}, true, false},
		"reached":               {Hop{Interface: "en0"}, true, false},
		"no answer in its time": {Hop{Interface: "en0", Unreached: context.DeadlineExceeded}, true, false},
	} {
		if got := suspected(c.hop, c.mac); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestLinuxRoute(t *testing.T) {
	files := map[string]string{
		"proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
			"wlan0\t00000000\t016433C6\t0003\t0\t0\t600\t00000000\t0\t0\t0\n" +
			"tb0\t0007FEA9\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" +
			"wlan0\t006433C6\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n" +
			"dead\t0A0200C0\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n" + "broken\tx\n",
		"proc/net/ipv6_route": "20010db8000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n" +
			"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200201       lo\n",
		"sys/class/net/eth0/mtu": "1500\n", "sys/class/net/eth0/type": "1\n",
		"sys/class/net/eth0/device/uevent": "DRIVER=e1000e\n",
		"sys/class/net/wlan0/uevent":       "DEVTYPE=wlan\nINTERFACE=wlan0\n", "sys/class/net/wlan0/type": "1\n",
		"sys/class/net/tb0/device/uevent": "DRIVER=thunderbolt-net\n", "sys/class/net/tb0/type": "1\n",
	}
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &procHost{root: root, read: os.ReadFile}
	for addr, want := range map[string]Hop{
		"192.0.2.10":   {Interface: "eth0", Kind: LinkEthernet, Gateway: "192.0.2.1", MTU: 1500},
		"203.0.113.1":  {Interface: "eth0", Kind: LinkEthernet, Gateway: "192.0.2.1", MTU: 1500}, // the lower metric
		"198.51.100.4": {Interface: "wlan0", Kind: LinkWiFi},
		"169.254.7.3":  {Interface: "tb0", Kind: LinkThunderbolt},
		"2001:db8::7":  {Interface: "eth0", Kind: LinkEthernet, MTU: 1500},
		"127.0.0.1":    {Interface: "lo", Kind: LinkLoopback, MTU: 65536},
	} {
		got, err := h.routeTo(netip.MustParseAddr(addr), nil)
		if err != nil || got.Interface != want.Interface || got.Kind != want.Kind || got.Gateway != want.Gateway ||
			got.MTU != want.MTU {
			t.Errorf("%s: %+v %v, not %+v", addr, got, err, want)
		}
	}
	if _, err := h.routeTo(netip.MustParseAddr("fd00::1"), nil); err == nil {
		t.Error("a route that rejects was taken")
	}
}

// TestRouteTimes: connections to a listener of our own are timed, and one that refuses is told.
func TestRouteTimes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hop, err := Route(t.Context(), l.Addr().String())
	if err != nil || hop.N != rttConnects || hop.RTT <= 0 || hop.RTT > rttLimit || hop.Kind != LinkLoopback {
		t.Errorf("%+v %v", hop, err)
	}
	if facts := factsByName(hop.Facts()); facts["link"].Value != "loopback (lo)" ||
		!strings.HasSuffix(facts["link.rtt"].Value, " ms") {
		t.Errorf("%+v", facts)
	}
	l.Close()
	hop, err = Route(t.Context(), l.Addr().String())
	if err != nil || hop.N != 0 || !errors.Is(hop.Unreached, syscall.ECONNREFUSED) {
		t.Errorf("%+v %v", hop, err)
	}
	if f := factsByName(hop.Facts())["link.rtt"]; f.Missing == "" || f.Value != "" {
		t.Errorf("a host that refuses has a round trip: %+v", f)
	}
}

func TestAround(t *testing.T) {
	facts := factsByName(around(t.Context()))
	if facts["process.nice"].Missing != "" || facts["limit.files"].Missing != "" {
		t.Errorf("%+v", facts)
	}
	if f := Load(t.Context()); !f.Known() {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{"256\n": "256", "unlimited\n": "1000000000 (no limit)", "": "", "x": "",
		"0": ""} {
		if got, err := parseFiles([]byte(text)); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	if v, err := parseLoadavg([]byte("1.50 1.2 0.9 2/300 4242\n")); err != nil || v != 1.5 {
		t.Error(v, err)
	}
	if _, err := parseLoadavg([]byte("nan 1\n")); err == nil {
		t.Error("no number was taken for a load")
	}
	raw := make([]byte, 24) // 1.5 of a scale of 2048
	raw[1], raw[17] = 0x0c, 0x08
	if v, err := parseLoadSysctl(raw); err != nil || v != 1.5 {
		t.Error(v, err)
	}
	for _, b := range [][]byte{nil, raw[:20], make([]byte, 24)} {
		if _, err := parseLoadSysctl(b); err == nil {
			t.Errorf("%d bytes were taken for a load", len(b))
		}
	}
}

func TestAwake(t *testing.T) {
	recorded, err := os.ReadFile("testdata/mac/pmset-g-applesilicon-mbp-2022.txt")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(recorded): "never (SleepDisabled)",
		strings.Replace(string(recorded), "SleepDisabled\t\t1", "SleepDisabled\t\t0", 1): "after 1 min",
		"Currently in use:\n sleep                0 (sleep prevented by powerd)\n":       "never",
		"AC Power:\n sleep                10\n":                                          "",
		"Currently in use:\n sleep                x\n":                                   "",
	} {
		if got, err := parseSleep([]byte(text)); got != want || (err != nil) != (want == "") {
			t.Errorf("%q %v, not %q", got, err, want)
		}
	}
	for text, want := range map[string]string{"FileVault is On.\n": "FileVault on",
		"FileVault is Off.\n": "FileVault off", "Error: x": ""} {
		if got, err := parseFileVault([]byte(text)); got != want || (err != nil) != (want == "") {
			t.Errorf("%q %v", got, err)
		}
	}
	tool := func(_ context.Context, path string, args ...string) ([]byte, error) {
		switch strings.Join(append([]string{filepath.Base(path)}, args...), " ") {
		case "pmset -g":
			return []byte("Currently in use:\n sleep                0\n"), nil
		case "pmset -g custom":
			return []byte("AC Power:\n autorestart          1\n"), nil
		case "fdesetup status":
			return []byte("FileVault is On.\n"), nil
		}
		return nil, os.ErrNotExist
	}
	checkFacts(t, macAwake(t.Context(), tool, func(string) bool { return true }), map[string]string{"sleep": "never",
		"sleep.inhibitor": "/usr/bin/caffeinate", "restart.power-loss": "on", "disk.encryption": "FileVault on"})
	none := func(context.Context, string, ...string) ([]byte, error) { return nil, os.ErrNotExist }
	checkFacts(t, macAwake(t.Context(), none, func(string) bool { return false }), map[string]string{"sleep": "",
		"sleep.inhibitor": "", "restart.power-loss": "", "disk.encryption": ""})
	if facts := Awake(t.Context()); len(facts) == 0 {
		t.Error("nothing is said of this machine")
	}
}
