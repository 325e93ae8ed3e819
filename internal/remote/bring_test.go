package remote

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestTake: what is asked of a host's sh works in each that is here: it is looked at, and takes a program in; one that
// comes half, or is another than was said, or is none of ours, leaves nothing.
func TestTake(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(b []byte) []byte {
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, gzip.BestSpeed)
		_, _ = w.Write(b)
		w.Close()
		return z.Bytes()
	}
	packed := pack(whole)
	other := []byte("#!/bin/sh\necho hello\n")
	for _, words := range []string{"sh", "bash --posix", "busybox sh", "ksh", "mksh", "zsh --emulate sh"} {
		shell := strings.Fields(words)
		if _, err := exec.LookPath(shell[0]); err != nil {
			t.Logf("no %s here", shell[0])
			continue
		}
		t.Run(words, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "a home")
			bin := filepath.Join(home, "it's", "bin")
			run := func(script string, in []byte) (string, error) {
				cmd := exec.Command(shell[0], append(shell[1:], "-c", script)...)
				cmd.Env = append(os.Environ(), "HOME="+home, "ASSAY_NODE=it's")
				cmd.Stdin = bytes.NewReader(in)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			looked := func() answer {
				t.Helper()
				out, err := run("want=\n"+look, nil)
				if err != nil {
					t.Fatal(err, out)
				}
				a, err := parse([]byte(out))
				if err != nil || a.system != runtime.GOOS+"/"+runtime.GOARCH || a.home != home ||
					a.root != home+"/it's" || a.free <= 0 {
					t.Fatalf("%+v %v", a, err)
				}
				return a
			}
			if a := looked(); len(a.have) != 0 {
				t.Errorf("%v", a.have)
			}
			for _, c := range []struct {
				sum, says string
				in        []byte
			}{
				{sum(whole), "cannot write", packed[:len(packed)/2]},
				{sum(whole), "cannot write", nil},
				{sum(whole), "what came is not what was sent", pack(other)},
				{sum(other), "it is no assay of this kind: hello", pack(other)},
				{sum(whole), "taken", packed},
			} {
				left := filepath.Join(bin, ".part-assay-v1.99999999") // of one that was killed: no such process can be
				_ = os.WriteFile(left, nil, 0o600)
				out, err := run("d="+Quote(bin)+"; name=assay-v1; sum="+c.sum+"\n"+take, c.in)
				if (err == nil) != (c.says == "taken") || !strings.Contains(out, c.says) {
					t.Fatalf("%s: %v %s", c.says, err, out)
				}
				entries, _ := os.ReadDir(bin)
				if want := map[bool]int{true: 1}[c.says == "taken"]; len(entries) != want {
					t.Errorf("%s: there lie %v", c.says, entries)
				}
			}
			if a := looked(); a.have["assay-v1"] != int64(len(whole)) {
				t.Errorf("%v", a.have)
			}
			if info, err := os.Stat(bin); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v %v", info.Mode(), err)
			}
		})
	}
}

func TestSystem(t *testing.T) {
	for words, want := range map[string]string{
		"Darwin arm64 1": "darwin/arm64", "Darwin x86_64 1": "darwin/arm64", "Darwin x86_64 0": "darwin/amd64",
		"Darwin x86_64": "darwin/amd64", "Linux x86_64": "linux/amd64", "Linux aarch64": "linux/arm64",
		"FreeBSD amd64": "", "Linux riscv64": "", "Linux": "", "": "",
	} {
		if got, err := system(strings.Fields(words)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", words, got, err)
		}
	}
}

// TestParse: df as systems print it, and answers that are none.
func TestParse(t *testing.T) {
	const head = "system Linux x86_64 \nhome /h\nroot /h/.assay-node\n"
	for df, free := range map[string]int64{
		"df Filesystem     1024-blocks    Used Available Capacity Mounted on\n" +
			"df /dev/vda        263899620 4000 1000 9% /\n": 1000 << 10, // POSIX
		"df Filesystem   1024-blocks      Used Available Capacity  Mounted on\n" +
			"df map auto_home           0         0         0   100%    /System/Volumes/Data/home\n": 0, // two words
		"df /dev/disk3s5   482797652 400 2000    20%    /System/Volumes/Data\n": 2000 << 10,
		"df nonsense\n":                        -1,
		"":                                     -1,
		"df x 1 2 99999999999999999999 9% /\n": -1,
	} {
		a, err := parse([]byte(head + df + "end\n"))
		if err != nil || a.free != free {
			t.Errorf("%q: %d %v", df, a.free, err)
		}
	}
	for _, out := range []string{"", "end\n", head, "system Linux x86_64\nhome /\nroot x\nend\n",
		"system SunOS i86pc\nroot /x\nend\n"} {
		if a, err := parse([]byte(out)); err == nil {
			t.Errorf("%q: %+v", out, a)
		}
	}
}

// TestOtherSystem: for a host of another system the release's binary of that name is taken, and what is wrong is said.
func TestOtherSystem(t *testing.T) {
	folder := t.TempDir()
	h := &Host{o: Options{Host: "mini", Binaries: folder, Version: "v0.9.0"}, system: "plan9/arm64"}
	if _, err := h.binary(); err == nil || !strings.Contains(err.Error(), "mini is plan9/arm64, this machine is") {
		t.Error(err)
	}
	write := func(name string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("x"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("assay_0.8.0_plan9_arm64")
	write("assay_0.9.0_plan9_arm64.tar.gz")
	if got, err := h.binary(); err != nil || got != one {
		t.Error(got, err)
	}
	two := write("assay_0.9.0_plan9_arm64")
	if got, err := h.binary(); err != nil || got != two {
		t.Error(got, err)
	}
	h.o.Version = "v1"
	if got, err := h.binary(); err == nil {
		t.Error(got)
	}
	h.o.Binary = one
	if got, err := h.binary(); err != nil || got != one {
		t.Error(got, err)
	}
	if b, err := identify(one); err != nil || b.system != "no system that assay knows" || b.size != 1 {
		t.Errorf("%+v %v", b, err)
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		`ssh -F x`: "ssh|-F|x", ` ssh  "a b" 'c d' e\ f `: "ssh|a b|c d|e f", `ssh "a\"b\c" ''`: `ssh|a"b\c|`, "": "",
		`a"b"'c'd`: "abcd",
	} {
		got, err := Words(in)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	for _, in := range []string{`a "b`, `a 'b`, `a\`} {
		if got, err := Words(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}
