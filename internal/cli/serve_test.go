package cli

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServe: the address that it prints answers, over TLS with the certificate of the fingerprint that it prints, and
// it
// ends when it is asked to.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, print := io.Pipe()
	env := &Env{Stdout: print, Stderr: io.Discard, Dir: t.TempDir(), Now: time.Now,
		Environ: []string{tokenVariable + "=0123456789abcdef"}}
	ended := make(chan error, 1)
	go func() {
		ended <- runServe(ctx, env, serveOptions{addr: "127.0.0.1:0", selfSigned: true})
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	address := regexp.MustCompile(`https://\S+`).FindString(lines.Text())
	lines.Scan()
	var seen string
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			seen = strings.ToUpper(fmt.Sprintf("% x", sha256.Sum256(s.PeerCertificates[0].Raw)))
			return nil
		}}}}
	for token, want := range map[string]int{"": http.StatusUnauthorized,
		"Bearer 0123456789abcdef": http.StatusNotFound} {
		r, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want { // there is no logbook yet
			t.Errorf("with %q: %d", token, resp.StatusCode)
		}
	}
	if !strings.HasSuffix(lines.Text(), seen) {
		t.Errorf("the fingerprint is %s, and it prints %s", seen, lines.Text())
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
