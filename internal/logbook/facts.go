package logbook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/secret"
	"assay/internal/stats"
	clean "assay/internal/text"
)

const rttProbes = 9

// RTT measures the time of a round trip to a store by opening connections to it: host:port, or an address with http or
// https.
func RTT(ctx context.Context, store string) evidence.Figure {
	const name = "store.rtt"
	address, err := storeAddress(store)
	if err != nil {
		return evidence.Unknown(name, "s", err.Error())
	}
	var dialer net.Dialer
	host, port, _ := net.SplitHostPort(address)
	found, err := net.DefaultResolver.LookupHost(ctx, host) // the name server's answer is no part of a round trip
	if err != nil || len(found) == 0 {
		return evidence.Unknown(name, "s", fmt.Sprintf("%s: its name has no address", clean.Short(host, 80)))
	}
	var times []float64
	for range rttProbes {
		limited, stop := context.WithTimeout(ctx, 3*time.Second)
		begun := time.Now()
		conn, err := dialer.DialContext(limited, "tcp", net.JoinHostPort(found[0], port))
		took := time.Since(begun).Seconds()
		stop()
		if err != nil {
			return evidence.Unknown(name, "s", fmt.Sprintf("%s: %v", clean.Short(address, 80), err))
		}
		conn.Close()
		times = append(times, took)
	}
	s := stats.Summarize(times)
	f := evidence.Known(name, s.Median, "s", evidence.Measured)
	f.Low, f.High, f.N = &s.Q1, &s.Q3, s.N
	f.Note = "opening a TCP connection to " + address
	return f
}

func storeAddress(store string) (string, error) {
	if u, err := url.Parse(store); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "ssh": "22", "sftp": "22", "nfs": "2049",
				"smb": "445"}[u.Scheme]
		}
		if port == "" {
			return "", fmt.Errorf("the store %s: no port is known for %s: write host:port",
				clean.Short(u.Redacted(), 80), u.Scheme)
		}
		return net.JoinHostPort(u.Hostname(), port), nil
	}
	if _, _, err := net.SplitHostPort(store); err != nil {
		if at := strings.LastIndexByte(store, '@'); at >= 0 { // a name and a password, with no scheme to tell them by
			store = store[at+1:]
		}
		return "", fmt.Errorf("the store %q: write host:port, or an address with https",
			clean.Short(secret.Text(store), 80))
	}
	return store, nil
}

// Checksum reads every file below the path: SHA-256 over each file's name below it, its size and its content, in the
// order of the names. It is what a run's fingerprint says where that is called sha256-whole and the dataset is that
// folder.
func Checksum(ctx context.Context, path string) (sum string, files int, bytes int64, err error) {
	var all []string
	root := path
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, p)
		}
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		return "", 0, 0, fmt.Errorf("checksum of %s: %w", path, err)
	}
	if len(all) == 1 && all[0] == path {
		root = filepath.Dir(path)
	}
	sort.Strings(all)
	hash := sha256.New()
	for _, p := range all {
		rel, _ := filepath.Rel(root, p)
		n, err := hashFile(ctx, hash, filepath.ToSlash(rel), p)
		if err != nil {
			return "", 0, 0, fmt.Errorf("checksum of %s: %w", path, err)
		}
		bytes += n
	}
	if len(all) == 0 {
		return "", 0, 0, fmt.Errorf("checksum of %s: no file in it", path)
	}
	return "sha256-whole:" + hex.EncodeToString(hash.Sum(nil)), len(all), bytes, nil
}

func hashFile(ctx context.Context, into io.Writer, name, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(into, "%s\x00%d\x00", name, info.Size())
	return io.Copy(into, &reader{ctx, f})
}

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Conditions are the facts of a run that reviewers ask for, in words: power, mode, mounts, data, other programs, and
// what records of facts add.
func Conditions(run *evidence.Run, extra []*Record) []evidence.Fact {
	var all []evidence.Fact
	for _, f := range run.Host.Facts {
		if strings.HasPrefix(f.Name, "power.") || strings.HasPrefix(f.Name, "mount:") {
			all = append(all, f)
		}
	}
	for i, d := range run.Provenance.Datasets {
		f := evidence.Fact{Name: fmt.Sprintf("dataset %d", i), Value: d.Fingerprint, Source: d.Path, Missing: d.Missing}
		if f.Value == "" && f.Missing == "" {
			f.Missing = "not read"
		}
		all = append(all, f)
	}
	var apps []string
	for _, a := range run.Host.Apps {
		if !a.Ours && len(apps) < 6 {
			apps = append(apps, fmt.Sprintf("%s %.0f MiB", a.Name, a.Bytes/(1<<20)))
		}
	}
	f := evidence.Fact{Name: "other programs", Value: strings.Join(apps, ", "),
		Source: "largest by memory when the run began"}
	if f.Value == "" {
		f.Missing = "could not be listed"
	}
	all = append(all, f)
	named := false
	for _, r := range extra {
		all = append(all, r.Facts...)
		named = named || len(r.Figures) > 0
	}
	if !named {
		all = append(all, evidence.Fact{Name: "store.rtt", Source: "$ASSAY_STORE",
			Missing: "no store was named: ASSAY_STORE=host:port before the run, or assay log facts --rtt"})
	}
	return all
}

// About gives the records of a kind that are about this one, oldest first.
func (b *Book) About(ctx context.Context, id, kind string) ([]*Record, error) {
	return b.about(ctx, id, kind)
}
