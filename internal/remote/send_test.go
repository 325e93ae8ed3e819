package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/testkit"
	"assay/internal/testset"
)

const senderVariable = "ASSAY_TEST_SENDER"

// errand is what a sender is to do.
type errand struct {
	Options Options
	Sending Sending
}

func (o Options) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"Host": o.Host, "SSH": o.SSH, "Version": o.Version, "Binary": o.Binary})
}

func (s Sending) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"Path": s.Path, "Sum": s.Sum, "Size": s.Size, "To": s.To,
		"Patience": s.Patience})
}

// sender sends, as a process of its own.
func sender(job string) int {
	var e struct {
		Options struct {
			Host, Version, Binary string
			SSH                   []string
		}
		Sending struct {
			Path, Sum, To string
			Size          int64
			Patience      time.Duration
		}
	}
	if err := json.Unmarshal([]byte(job), &e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o, s := e.Options, e.Sending
	_, err := Send(context.Background(), Options{Host: o.Host, Version: o.Version, Binary: o.Binary, SSH: o.SSH},
		Sending{Path: s.Path, Sum: s.Sum, Size: s.Size, To: s.To, Patience: s.Patience})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parcel is a file of random bytes, and how it is sent to a host.
func parcel(t *testing.T, ssh *testkit.SSH, host string, size int) ([]byte, Options, Sending) {
	t.Helper()
	b := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = source.Read(b)
	path := filepath.Join(t.TempDir(), "bundle.tar.zst")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	words, err := Words(ssh.Words)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Host: host, SSH: words, Version: "v1.2.3", Log: func(s string) { t.Log(s) }}
	return b, o, Sending{Path: path, Sum: sum(b), Size: int64(size), To: "~/assay-bundles/bundle.tar.zst",
		Patience: 3 * time.Minute}
}

// arrived looks at what lies there: the file with these bytes, and nothing else; or nil: nothing but parts.
func arrived(t *testing.T, host *testkit.SSHHost, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(host.Home, "assay-bundles", "bundle.tar.zst"))
	switch {
	case want == nil && !errors.Is(err, fs.ErrNotExist):
		t.Fatalf("half a file has its name: %d bytes, %v", len(got), err)
	case want != nil && (err != nil || !bytes.Equal(got, want)):
		t.Fatalf("there lie %d bytes, %v", len(got), err)
	}
	entries, _ := os.ReadDir(filepath.Join(host.Home, "assay-bundles"))
	if len(entries) > 1 || want == nil && len(entries) > 0 {
		t.Errorf("there lie %v", entries)
	}
	blobs, _ := os.ReadDir(filepath.Join(host.Node, "blobs"))
	for _, e := range blobs {
		if want != nil || !strings.HasPrefix(e.Name(), ".part-") {
			t.Errorf("among the blobs lies %s", e.Name())
		}
	}
}

// TestSendKilled: the sender is killed at random points, and the host's sshd with all its sessions; the next goes on.
func TestSendKilled(t *testing.T) {
	testset.FullOnly(t)
	ssh := testkit.SSHD(t, "mini")
	mini := ssh.Hosts["mini"]
	source := rand.New(rand.NewPCG(21, 3))
	resumed := 0
	for round := range 8 {
		b, o, s := parcel(t, ssh, "mini", 100<<20+round)
		job, err := json.Marshal(errand{o, s})
		if err != nil {
			t.Fatal(err)
		}
		kills := 0
		for ; ; kills++ {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), senderVariable+"="+string(job))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			wait := time.Duration(source.IntN(900)) * time.Millisecond
			if kills > 15 {
				wait = 2 * time.Minute
			}
			select {
			case err = <-done:
			case <-time.After(wait):
				err = errors.New("killed")
				if kills%3 == 2 { // the host loses its power; the sender tries again by itself
					mini.Stop()
					if startErr := mini.Start(); startErr != nil {
						t.Fatal(startErr)
					}
				}
				if kills%2 == 0 {
					_ = cmd.Process.Kill() // alone: its ssh notices by itself
				} else {
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				}
				<-done
			}
			if err == nil {
				break
			}
			if info, err := os.Stat(filepath.Join(mini.Node, "blobs", ".part-"+s.Sum)); err == nil && info.Size() > 0 {
				resumed++
			}
			if got, err := os.ReadFile(filepath.Join(mini.Home, "assay-bundles", "bundle.tar.zst")); err == nil &&
				!bytes.Equal(got, b) {
				t.Fatalf("round %d: half a file has its name", round)
			}
		}
		arrived(t, mini, b)
		t.Logf("round %d: %d kills", round, kills)
		if err := os.RemoveAll(filepath.Join(mini.Home, "assay-bundles")); err != nil {
			t.Fatal(err)
		}
	}
	if resumed == 0 {
		t.Error("no part was ever gone on with")
	}
}

// network is a host behind a cable of its own.
func network(t *testing.T, mount string) (*testkit.Network, *testkit.SSH, *testkit.SSHHost) {
	t.Helper()
	testset.FullOnly(t)
	n := testkit.NewNetwork(t)
	ssh := testkit.NewSSH(t)
	h := ssh.Host(t, "far")
	h.Addr, h.Port, h.In = n.Addr, 22, n.In
	ssh.Know(t)
	if mount != "" { // its node's blobs lie on a small disk
		folder := filepath.Join(h.Node, "blobs")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size="+mount, "none", folder).
			CombinedOutput(); err != nil {
			t.Skipf("no small disk can be made here: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", folder).Run() })
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	return n, ssh, h
}

// at calls f once, when so many bytes are there.
func at(bytes int64, f func()) func(int64) {
	var once sync.Once
	return func(have int64) {
		if have >= bytes {
			once.Do(f)
		}
	}
}

// TestSendLinks: links that drop, stall and are reset while a file is sent: it arrives all the same.
func TestSendLinks(t *testing.T) {
	n, ssh, far := network(t, "")
	for name, c := range map[string]struct{ off, on func() }{
		"unplugged":         {n.Unplug, n.Plug},
		"stalled":           {n.Stall, n.Flow},
		"reset":             {n.Reset, n.Flow},
		"its host restarts": {far.Stop, func() { _ = far.Start() }},
	} {
		t.Run(name, func(t *testing.T) {
			b, o, s := parcel(t, ssh, "far", 24<<20+len(name))
			if _, err := Dial(t.Context(), o); err != nil { // assay is there
				t.Fatal(err)
			}
			n.Slow(80)
			back := make(chan struct{})
			var first []int64
			off := at(8<<20, func() {
				c.off()
				go func() {
					defer close(back)
					time.Sleep(25 * time.Second)
					arrivedNot(t, far)
					c.on()
				}()
			})
			s.Progress = func(have int64) {
				first = append(first, have)
				off(have)
			}
			sent, err := Send(t.Context(), o, s)
			<-back
			if err != nil {
				t.Fatal(err)
			}
			if sent.Links < 2 {
				t.Errorf("%d links", sent.Links)
			}
			again := false // began at what was there
			for i := 1; i < len(first); i++ {
				again = again || first[i] < first[i-1]
				if first[i] < 4<<20 && first[i-1] > 8<<20 {
					t.Errorf("%d were there, then %d", first[i-1], first[i])
				}
			}
			arrived(t, far, b)
			if err := os.RemoveAll(filepath.Join(far.Home, "assay-bundles")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func arrivedNot(t *testing.T, h *testkit.SSHHost) {
	if _, err := os.Stat(filepath.Join(h.Home, "assay-bundles", "bundle.tar.zst")); err == nil {
		t.Error("it arrived over a link that was down")
	}
}

// TestSendImpatient: a link that stays down ends the sending, and says how far it is; typed again it goes on.
func TestSendImpatient(t *testing.T) {
	n, ssh, far := network(t, "")
	b, o, s := parcel(t, ssh, "far", 16<<20)
	if _, err := Dial(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	n.Slow(80)
	s.Patience = 5 * time.Second
	s.Progress = at(4<<20, n.Unplug)
	_, err := Send(t.Context(), o, s)
	if err == nil || !strings.Contains(err.Error(), "nothing more has come there for 5s") ||
		fault.HintOf(err) != "the same command goes on from there" {
		t.Fatalf("%v (%s)", err, fault.HintOf(err))
	}
	arrived(t, far, nil)
	if _, err = Send(t.Context(), o, s); err == nil || Lost(err) == false { // still down: at once
		t.Fatal(err)
	}
	n.Plug()
	first := int64(-1)
	s.Patience = time.Minute
	s.Progress = func(have int64) {
		if first < 0 {
			first = have
		}
	}
	if _, err := Send(t.Context(), o, s); err != nil {
		t.Fatal(err)
	}
	if first < 2<<20 {
		t.Errorf("it began again at %d", first)
	}
	arrived(t, far, b)
}

// TestSendFull: a disk without room is said before anything is sent, one that fills meanwhile when it is full; with
// room made, it goes on.
func TestSendFull(t *testing.T) {
	n, ssh, far := network(t, "64m")
	b, o, s := parcel(t, ssh, "far", 30<<20)
	if _, err := Dial(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(far.Node, "blobs", "filler")
	if err := os.WriteFile(filler, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Send(t.Context(), o, s)
	if err == nil || !strings.Contains(err.Error(), "24.0 MiB free, and 30.0 MiB are to come") ||
		!strings.HasPrefix(fault.HintOf(err), "make room there") {
		t.Fatalf("%v (%s)", err, fault.HintOf(err))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	arrived(t, far, nil)
	n.Slow(160)
	s.Progress = at(8<<20, func() {
		_ = os.WriteFile(filler, make([]byte, 64<<20), 0o600) // as much as there is
	})
	_, err = Send(t.Context(), o, s)
	if err == nil || !strings.Contains(err.Error(), "0 B free, and ") || !strings.Contains(err.Error(), "far: ") {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	arrived(t, far, nil)
	s.Progress = nil
	if _, err := Send(t.Context(), o, s); err != nil {
		t.Fatal(err)
	}
	arrived(t, far, b)
}

// TestSendTwo: two senders at once: both say that it is there, and it is, once.
func TestSendTwo(t *testing.T) {
	n, ssh, far := network(t, "")
	b, o, s := parcel(t, ssh, "far", 16<<20)
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs { // both bring assay there
		both.Go(func() { _, errs[i] = Dial(t.Context(), o) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	n.Slow(40)
	var said sync.Map
	o.Log = func(line string) {
		said.Store(strings.Contains(line, "another connection is sending the same file"), line)
	}
	for i := range errs {
		both.Go(func() { _, errs[i] = Send(t.Context(), o, s) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if _, ok := said.Load(true); !ok {
		t.Error("neither heard of the other")
	}
	arrived(t, far, b)
	bins, err := os.ReadDir(filepath.Join(far.Node, "bin"))
	if err != nil || len(bins) != 1 {
		t.Errorf("among the programs lie %v, %v", bins, err)
	}
}

// TestConfigs: what a user's own config does: a host behind another, and one connection for all.
func TestConfigs(t *testing.T) {
	testset.FullOnly(t)
	ssh := testkit.SSHD(t, "door", "mini")
	config := filepath.Join(ssh.Folder, "config")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{
		"a jump": "Host mini\n  ProxyJump door\n",
		"one connection for all": "Host *\n  ControlMaster auto\n  ControlPersist 20\n  ControlPath " + ssh.Folder +
			"/c-%C\n",
		"forwards and commands": "Host mini\n  LocalForward 1 127.0.0.1:1\n  ExitOnForwardFailure yes\n" +
			"  RequestTTY force\n  RemoteCommand ls\n  StrictHostKeyChecking accept-new\n  LogLevel DEBUG3\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(config, append([]byte(more), before...), 0o600); err != nil {
				t.Fatal(err)
			}
			b, o, s := parcel(t, ssh, "mini", 1<<20+len(more))
			s.Force = true
			began := time.Now()
			if _, err := Send(t.Context(), o, s); err != nil {
				t.Fatal(err)
			}
			arrived(t, ssh.Hosts["mini"], b)
			t.Log(time.Since(began))
		})
	}
	words, err := Words(ssh.Words)
	if err != nil {
		t.Fatal(err)
	}
	_ = exec.Command(words[0], append(words[1:], "-O", "exit", "mini")...).Run()
}

// TestKeys: keys, users and hosts that are not as they should be, in the words of a user.
func TestKeys(t *testing.T) {
	ssh := testkit.SSHD(t, "mini")
	words, err := Words(ssh.Words)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Host: "mini", SSH: words, Version: "v1.2.3"}
	known := filepath.Join(ssh.Folder, "known_hosts")
	right, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(right))
	mine, err := os.ReadFile(filepath.Join(ssh.Folder, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(ssh.Folder, "config"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(ssh.Folder, "stranger")
	if err := os.WriteFile(stranger, bytes.ReplaceAll(config, []byte("/id\n"), []byte("/none\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		known, host, ssh string
		says, hint       string
		lost             bool
	}{
		"unknown key": {known: "", says: "reach mini: its key is not known here",
			hint: "ssh mini once and compare the fingerprint"},
		"changed key": {known: fields[0] + " " + string(mine), says: "its key is another than the one you know",
			hint: "ssh-keygen -R"},
		"another user": {known: string(right), ssh: "stranger", says: "it does not let you in: ",
			hint: "ssh mini has to work without a question"},
		"down": {known: string(right), ssh: " -o Port=1", says: "Connection refused", lost: true},
		"no name": {known: string(right), host: "no.such.host.invalid", says: "Could not resolve hostname", lost: true,
			hint: "look at the name"},
		"no ssh":    {ssh: "none", says: "there is no none here", hint: "install OpenSSH"},
		"an option": {host: "-oProxyCommand=touch x", says: "is no name of one", hint: "name it as ssh does"},
		"its own configuration": {known: string(right), ssh: " -o Oh=no", says: "onfiguration option",
			hint: "ssh does not take its own configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(known, []byte(c.known), 0o600); err != nil {
				t.Fatal(err)
			}
			o := o
			if c.host != "" {
				o.Host = c.host
			}
			switch {
			case c.ssh == "stranger":
				o.SSH = []string{"ssh", "-F", stranger}
			case c.ssh == "none":
				o.SSH = []string{"none"}
			case c.ssh != "":
				o.SSH = append(append([]string{}, words...), strings.Fields(c.ssh)...)
			}
			_, err := Dial(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(fault.HintOf(err), c.hint) ||
				Lost(err) != c.lost {
				t.Errorf("%v\n%s\nlost: %v", err, fault.HintOf(err), Lost(err))
			}
		})
	}
}
