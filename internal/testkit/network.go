package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// Network is a network of a test's own: a namespace with one cable from here into it.
type Network struct {
	Name string // of the namespace
	Addr string // within it
	In   []string
	here string // our end of the cable
	t    testing.TB
}

var networks atomic.Int32

// NewNetwork makes one, or skips the test where that takes rights or tools that are not there: Linux, root, iproute2
// and iptables.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("network namespaces need Linux and root")
	}
	for _, tool := range []string{"ip", "tc", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	id := os.Getpid()%10000*10 + int(networks.Add(1))
	name := fmt.Sprintf("assay%d", id)
	third := id % 250
	n := &Network{Name: name, Addr: fmt.Sprintf("10.213.%d.2", third), In: []string{"ip", "netns", "exec", name},
		here: fmt.Sprintf("as%d", id), t: t}
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("no network namespace can be made here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", n.here).Run()
		_ = exec.Command("ip", "netns", "del", name).Run()
	})
	n.do("ip", "link", "add", n.here, "type", "veth", "peer", "name", "host0", "netns", name)
	n.do("ip", "addr", "add", fmt.Sprintf("10.213.%d.1/30", third), "dev", n.here)
	n.do("ip", "link", "set", n.here, "up")
	n.within("ip", "link", "set", "lo", "up")
	n.within("ip", "addr", "add", n.Addr+"/30", "dev", "host0")
	n.within("ip", "link", "set", "host0", "up")
	return n
}

func (n *Network) do(words ...string) {
	n.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

func (n *Network) within(words ...string) {
	n.t.Helper()
	n.do(append(append([]string{}, n.In...), words...)...)
}

// Slow gives the way into it this many megabits a second.
func (n *Network) Slow(megabits int) {
	n.t.Helper()
	n.do("tc", "qdisc", "replace", "dev", n.here, "root", "tbf", "rate", fmt.Sprintf("%dmbit", megabits), "burst",
		"64kb", "latency", "100ms")
}

// Stall lets no packet through any more, either way, without a word to anybody; Flow lets them through again.
func (n *Network) Stall() {
	n.t.Helper()
	n.within("iptables", "-A", "INPUT", "-j", "DROP")
	n.within("iptables", "-A", "OUTPUT", "-j", "DROP")
}

func (n *Network) Flow() {
	n.t.Helper()
	n.within("iptables", "-F")
}

// Unplug takes the cable out, Plug puts it back.
func (n *Network) Unplug() {
	n.t.Helper()
	n.do("ip", "link", "set", n.here, "down")
}

func (n *Network) Plug() {
	n.t.Helper()
	n.do("ip", "link", "set", n.here, "up")
}

// Reset answers whoever speaks to the host that there is no such connection, until Flow.
func (n *Network) Reset() {
	n.t.Helper()
	n.within("iptables", "-A", "INPUT", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
}
