package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SSH is hosts of a test: real sshds, each with a key, a home and a node's folder of its own, and a client's
// configuration that knows them. Nothing of the user's ssh is read.
type SSH struct {
	Words  string // for $ASSAY_SSH
	Folder string // config, known_hosts, and the user's key id
	Hosts  map[string]*SSHHost
	sshd   string
}

// SSHHost is one of them.
type SSHHost struct {
	Alias string   // that ssh knows it by
	Home  string   // $HOME of who logs in
	Node  string   // $ASSAY_NODE there
	Addr  string   // 127.0.0.1, unless it was put elsewhere
	Port  int      //
	Log   string   // what its sshd says
	In    []string // words before sshd, such as: ip netns exec NAME
	ssh   *SSH
	cmd   *exec.Cmd
}

// SSHD starts an sshd on 127.0.0.1 for each of these aliases. Where there is no sshd the test is skipped.
func SSHD(t testing.TB, aliases ...string) *SSH {
	t.Helper()
	s := NewSSH(t)
	for _, alias := range aliases {
		h := s.Host(t, alias)
		if err := h.Start(); err != nil {
			if said, _ := os.ReadFile(h.Log); bytes.Contains(said, []byte("account is locked")) {
				t.Skip("nobody can log in here: this user's account is locked")
			}
			t.Fatal(err)
		}
	}
	return s
}

// NewSSH makes the user's side, without a host.
func NewSSH(t testing.TB) *SSH {
	t.Helper()
	s := &SSH{Hosts: map[string]*SSHHost{}}
	for _, name := range []string{"sshd", "ssh", "ssh-keygen"} {
		path, err := exec.LookPath(name)
		if err != nil && name == "sshd" {
			path, err = exec.LookPath("/usr/sbin/sshd")
		}
		if err != nil {
			t.Skipf("no %s here: %v", name, err)
		}
		if name == "sshd" {
			s.sshd = path
		}
	}
	if os.Getuid() == 0 { // where sshd locks its children in, when root starts it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skipf("sshd cannot be started by root here: %v", err)
		}
	}
	var err error
	if s.Folder, err = os.MkdirTemp("", "assay-ssh-"); err != nil { // short: a control socket may come to lie here
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, h := range s.Hosts {
			h.Stop()
		}
		os.RemoveAll(s.Folder)
	})
	s.keygen(t, s.path("id"))
	s.Words = "ssh -F " + s.path("config")
	s.write(t)
	return s
}

func (s *SSH) path(name string) string { return filepath.Join(s.Folder, name) }

func (s *SSH) keygen(t testing.TB, path string) {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
}

// Host adds a host, which Start starts. Its address, port and the words before its sshd may be changed until then.
func (s *SSH) Host(t testing.TB, alias string) *SSHHost {
	t.Helper()
	h := &SSHHost{Alias: alias, Home: s.path(alias + ".home"), Node: s.path(alias + ".home/node"), Addr: "127.0.0.1",
		Log: s.path(alias + ".log"), ssh: s}
	if err := os.Mkdir(h.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	s.keygen(t, s.path(alias+".key"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.Port = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	s.Hosts[alias] = h
	s.write(t)
	return h
}

// Know writes known_hosts and the client's configuration anew, as the hosts are now.
func (s *SSH) Know(t testing.TB) { s.write(t) }

func (s *SSH) write(t testing.TB) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	var config, known bytes.Buffer
	for _, h := range s.Hosts {
		key, err := os.ReadFile(s.path(h.Alias + ".key.pub"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&known, "%s %s", h.Alias, key)
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port %d\n  HostKeyAlias %s\n", h.Alias, h.Addr, h.Port, h.Alias)
	}
	fmt.Fprintf(&config, "Host *\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n"+
		"  GlobalKnownHostsFile /dev/null\n  UpdateHostKeys no\n", me.Username, s.path("id"), s.path("known_hosts"))
	for name, content := range map[string][]byte{"config": config.Bytes(), "known_hosts": known.Bytes()} {
		if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Start starts the host's sshd, and waits until it answers.
func (h *SSHHost) Start() error {
	s := h.ssh
	config := fmt.Sprintf("ListenAddress %s\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\n"+
		"StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"+
		"PermitUserEnvironment no\nPrintMotd no\nMaxStartups 100:30:200\nSetEnv HOME=%s ASSAY_NODE=%s\n", h.Addr, h.Port,
		s.path(h.Alias+".key"), s.path("id.pub"), h.Home, h.Node)
	path := s.path(h.Alias + ".sshd")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(h.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	words := append(append([]string{}, h.In...), s.sshd, "-D", "-e", "-f", path)
	h.cmd = exec.Command(words[0], words[1:]...)
	h.cmd.Stderr = log
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("start sshd: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		// It is the user's own program that has to get through, wherever the host is: its network may be another.
		probe := exec.CommandContext(ctx, "ssh", "-F", s.path("config"), "-o", "BatchMode=yes", h.Alias, "true")
		out, err := probe.CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			said, _ := os.ReadFile(h.Log)
			h.Stop()
			return fmt.Errorf("sshd of %s does not answer: %v\n%s\n%s", h.Alias, err, out, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop ends the host's sshd with every session that it has, at once, as when the host loses its power. What its
// sessions started and left behind stays.
func (h *SSHHost) Stop() {
	if h.cmd == nil {
		return
	}
	pids := descendants(h.cmd.Process.Pid)
	_ = h.cmd.Process.Kill()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = h.cmd.Wait()
	h.cmd = nil
}

// Pid is that of its sshd; 0 where it does not run.
func (h *SSHHost) Pid() int {
	if h.cmd == nil {
		return 0
	}
	return h.cmd.Process.Pid
}

// descendants are the children of a process and theirs.
func descendants(pid int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for line := range strings.SplitSeq(string(out), "\n") {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		child, err1 := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if errors.Join(err1, err2) == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var list []int
	for at := []int{pid}; len(at) > 0; at = at[1:] {
		list = append(list, children[at[0]]...)
		at = append(at, children[at[0]]...)
	}
	return list
}
