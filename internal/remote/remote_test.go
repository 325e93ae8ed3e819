package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/node"
	"assay/internal/testkit"
)

// TestMain is also the sender that a test kills: $ASSAY_TEST_SENDER has what to send, as JSON; and under the name that
// assay has on a host it is assay, as far as is asked of it here.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(strings.TrimPrefix(name, ".part-"), "assay-") {
		os.Exit(standIn())
	}
	if job := os.Getenv(senderVariable); job != "" {
		os.Exit(sender(job))
	}
	os.Exit(testkit.Main(m))
}

// standIn does what assay does that was copied to a host.
func standIn() int {
	switch strings.Join(os.Args[1:], " ") {
	case "node settle":
		fmt.Println("settled v1.2.3")
		return 0
	case "node --root " + os.Args[len(os.Args)-1]:
		err := node.Serve(context.Background(), os.Stdin, os.Stdout, node.Options{Root: os.Args[len(os.Args)-1],
			Home: os.Getenv("HOME"), Version: "v1.2.3"})
		if err == nil {
			return 0
		}
		fmt.Fprintln(os.Stderr, "assay:", err)
	}
	return 1
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestSSH: a real sshd: assay is brought there, a file is put, and the second time nothing is copied.
func TestSSH(t *testing.T) {
	ssh := testkit.SSHD(t, "mini")
	mini := ssh.Hosts["mini"]
	greeting := []byte("echo welcome\nprintf hallo\n")
	if err := os.WriteFile(filepath.Join(mini.Home, ".bashrc"), greeting, 0o600); err != nil {
		t.Fatal(err)
	}
	words, err := Words(ssh.Words)
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	o := Options{Host: "mini", SSH: words, Version: "v1.2.3",
		Log: func(s string) { log = append(log, s) }}
	for range 2 {
		h, err := Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if h.Root() != mini.Node || h.Home() != mini.Home ||
			!strings.HasPrefix(h.Assay(), mini.Node+"/bin/assay-v1.2.3-") {
			t.Fatalf("%+v", h)
		}
		c, err := h.Node(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("assay"), 300_000)
		put := node.Put{Sum: sum(data), Size: int64(len(data))}
		path, err := c.Put(put, bytes.NewReader(data).ReadAt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%v: %d bytes", err, len(got))
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.States(node.Which{}); err == nil {
			t.Fatal("a closed connection answers")
		}
		out, err := h.Output(t.Context(), "printf", "%s|", "it's", `a\b`, "x!y", "ü", "a\nb", "$HOME", "")
		if err != nil || string(out) != "it's|a\\b|x!y|ü|a\nb|$HOME||" {
			t.Fatalf("%q %v", out, err)
		}
	}
	if len(log) != 1 {
		t.Errorf("said %q", log)
	}
}

// TestWrap: what is wrapped arrives in every shell that is here.
func TestWrap(t *testing.T) {
	script := "printf '%s\\n' " + Quote("it's", `a\b\\`, "x!y", "ü\t", "a\nb", "$HOME `x`", "", "-n")
	want := "it's\n" + `a\b\\` + "\nx!y\nü\t\na\nb\n$HOME `x`\n\n-n\n"
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh", "mksh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		out, err := exec.CommandContext(context.Background(), path, "-c", wrap(script)).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v", shell, out, err)
		}
	}
}
