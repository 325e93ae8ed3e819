package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/report"
	"assay/internal/serve"
)

// serveOptions are the flags of `assay serve`.
type serveOptions struct {
	logbook, addr, policy string
	hosts                 []string
	tokenFile, cert, key  string
	selfSigned            bool
}

const (
	tokenVariable = "ASSAY_SERVE_TOKEN"
	shortestToken = 16 // characters: what a stranger cannot try
	headersWithin = 10 * time.Second
	answerWithin  = 60 * time.Second
	closeWithin   = 3 * time.Second
)

func newServeCommand(env *Env) *cobra.Command {
	opts := serveOptions{addr: "127.0.0.1:7788"}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Show the logbook as pages in a browser",
		Long: `Serves the logbook as pages until Ctrl-C: runs, one run, two beside each other, sweeps, gates over time, notes, and the atlas and the models to
search. A run under way (below .assay/runs) is followed as it goes on. /metrics is for Prometheus. The pages only read: nothing that is sent to them
changes anything, and the logbook can be written meanwhile.

It listens on this machine alone. Beyond it, with --addr, it asks everybody for a token and speaks TLS: --token-file (or $` + tokenVariable + `) and
--tls-cert with --tls-key, or --tls-self-signed, which makes a certificate for this start and prints its fingerprint. It answers to loopback's names and
those given by --host, and to no other: a page of a stranger's cannot read it by a name that was bound to this machine.

assay log export --html writes the same pages as files.`,
		Example: `  assay serve
  assay serve --logbook team.db --addr 127.0.0.1:0
  assay serve --addr 0.0.0.0:7788 --host studio.local --token-file token --tls-self-signed`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.addr, "addr", opts.addr, "`address` to listen on; port 0 takes a free one")
	f.StringVar(&opts.logbook, "logbook", "", "`file` of the logbook; default $ASSAY_LOGBOOK or .assay/logbook.db")
	f.StringVar(&opts.policy, "policy", "",
		"gates of a `file`, or of default; default gates.toml here, if there is one")
	f.StringSliceVar(&opts.hosts, "host", nil, "`name` or address that browsers use for this machine")
	f.StringVar(&opts.tokenFile, "token-file", "",
		"`file` with the token that is asked of everybody; default $"+tokenVariable)
	f.StringVar(&opts.cert, "tls-cert", "", "`file` of a certificate in PEM")
	f.StringVar(&opts.key, "tls-key", "", "`file` of its private key in PEM")
	f.BoolVar(&opts.selfSigned, "tls-self-signed", false, "make a certificate for this start")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), env, opts) }
	return cmd
}

func runServe(ctx context.Context, env *Env, opts serveOptions) error {
	host, _, err := net.SplitHostPort(opts.addr)
	if err != nil {
		return usage(fmt.Errorf("serve on %s: %w", opts.addr, err), "an address is written as 127.0.0.1:7788")
	}
	token, err := serveToken(env, opts.tokenFile)
	if err != nil {
		return err
	}
	config, print, err := opts.tls(env)
	if err != nil {
		return err
	}
	if !onLoopback(host) && (token == "" || config == nil) {
		return usage(fmt.Errorf("serve on %s: others reach that address, and it would show them what was run here, %s",
			opts.addr,
			map[bool]string{true: "in clear", false: "without asking who they are"}[token != ""]),
			"give --token-file (or $"+tokenVariable+") and --tls-cert with --tls-key, or --tls-self-signed; or leave it on 127.0.0.1 and use ssh -L")
	}
	site, err := siteOf(env, opts.logbook, opts.policy)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", opts.addr)
	if err != nil {
		return fault.Hint(fmt.Errorf("serve on %s: %w", opts.addr, err), "--addr 127.0.0.1:0 takes a port that is free")
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	site.Guard = serve.Guard{Hosts: lowered(opts.hosts), Port: port, Token: token, TLS: config != nil}
	if !onLoopback(host) && net.ParseIP(host) != nil && !net.ParseIP(host).IsUnspecified() {
		site.Guard.Hosts = append(site.Guard.Hosts, host)
	}
	server := &http.Server{Handler: serve.New(site), ReadHeaderTimeout: headersWithin, ReadTimeout: headersWithin,
		WriteTimeout: answerWithin, IdleTimeout: answerWithin, MaxHeaderBytes: 32 << 10, TLSConfig: config,
		ErrorLog: log.New(io.Discard, "", 0)}
	scheme, name := "http", host
	if config != nil {
		scheme = "https"
		listener = tls.NewListener(listener, config)
	}
	if ip := net.ParseIP(host); len(opts.hosts) > 0 {
		name = opts.hosts[0]
	} else if host == "" || ip != nil && ip.IsUnspecified() {
		name = "localhost" // all addresses: no browser asks for that one, and it answers to loopback's names alone
		fmt.Fprintln(env.Stderr, "it answers to localhost alone: give --host the name that others use for this machine")
	}
	fmt.Fprintf(env.Stdout, "assay serves the logbook at %s://%s/\n", scheme, net.JoinHostPort(name, port))
	if print != "" {
		fmt.Fprintf(env.Stdout, "the certificate's SHA-256 fingerprint: %s\n", print)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	server.BaseContext = func(net.Listener) context.Context { return ctx } // pages that follow a run end with it
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err = <-done:
		return fmt.Errorf("serve on %s: %w", opts.addr, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if err := server.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("end serving: %w", err)
	}
	return nil
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func lowered(names []string) (out []string) {
	for _, name := range names {
		out = append(out, strings.ToLower(strings.Trim(name, "[].")))
	}
	return out
}

// serveToken reads the token. It is taken from no flag, which everybody on the machine could read.
func serveToken(env *Env, path string) (string, error) {
	token := env.Getenv(tokenVariable)
	if path != "" {
		data, err := readAtMost(env.Path(path), 4096)
		if err != nil {
			return "", fault.Exit(fmt.Errorf("read the token: %w", err), fault.Usage)
		}
		if token = strings.TrimSpace(string(data)); token == "" {
			return "", usage(fmt.Errorf("read the token %s: it is empty", path),
				"head -c 24 /dev/urandom | base64 makes one")
		}
	}
	if token != "" && len(token) < shortestToken {
		return "", usage(fmt.Errorf("the token has %d characters: %d at least", len(token), shortestToken),
			"head -c 24 /dev/urandom | base64 makes one")
	}
	return token, nil
}

func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return data, err
}

// tls is the server's side of TLS, and of a certificate that was made for this start its fingerprint; nil: none.
func (opts serveOptions) tls(env *Env) (*tls.Config, string, error) {
	if (opts.cert == "") != (opts.key == "") || opts.selfSigned && opts.cert != "" {
		return nil, "", usage(errors.New("--tls-cert and --tls-key go together, and --tls-self-signed stands alone"),
			"see: assay serve --help")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case opts.cert != "":
		pair, err := tls.LoadX509KeyPair(env.Path(opts.cert), env.Path(opts.key))
		if err != nil {
			return nil, "", fault.Exit(fmt.Errorf("read the certificate: %w", err), fault.Usage)
		}
		config.Certificates = []tls.Certificate{pair}
		return config, "", nil
	case opts.selfSigned:
		pair, err := selfSigned(opts.hosts, env.Now())
		if err != nil {
			return nil, "", fmt.Errorf("make a certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
		sum := sha256.Sum256(pair.Certificate[0])
		return config, strings.TrimSuffix(strings.ToUpper(fmt.Sprintf("% x", sum)), " "), nil
	}
	return nil, "", nil
}

func selfSigned(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "assay serve"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 3, 0), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// siteOf is what the pages show, of this folder.
func siteOf(env *Env, book, policyName string) (serve.Options, error) {
	o := serve.Options{Logbook: logbookPath(env, book), Runs: env.Path(runsFolder), Version: Version(), Now: env.Now}
	if logbook.Exists(o.Logbook) {
		if err := logbook.MustBe(o.Logbook); err != nil {
			return o, err
		}
	} else if book != "" {
		return o, fault.Hint(fmt.Errorf("no logbook at %s", o.Logbook),
			"assay run makes it, and assay log import takes in earlier runs")
	}
	var policy *gate.Policy
	_, err := os.Stat(env.Path(policyFile))
	if policyName != "" || err == nil {
		if policy, err = loadPolicy(env, policyName); err != nil {
			return o, err
		}
		o.Policy = orName(policy.Name)
		o.Gates = func(run *evidence.Run) *gate.Report {
			return gate.Judge(policy, &gate.Set{Runs: []*evidence.Run{run}})
		}
	}
	o.Page = func(run, beside *evidence.Run) (report.HTML, error) { return pageOf(env, run, "", beside) }
	o.Sweep = func(doc []byte) string {
		d := sweepIn(doc)
		if d == nil {
			return ""
		}
		var out strings.Builder
		if err := showSweep(&out, d); err != nil {
			return ""
		}
		return out.String()
	}
	o.Ops = func(_ context.Context, pattern string) (string, error) {
		return printed(env, func(env *Env) error { return runOps(env, opsOptions{}, []string{pattern}) })
	}
	o.Models = func(_ context.Context, pattern string) (string, error) {
		return printed(env, func(env *Env) error { return runModels(env, modelsOptions{}, []string{pattern}) })
	}
	return o, nil
}

// printed is what a command prints.
func printed(env *Env, command func(*Env) error) (string, error) {
	var out bytes.Buffer
	own := *env
	own.Stdout, own.Stderr = &out, io.Discard
	err := command(&own)
	return out.String(), err
}
