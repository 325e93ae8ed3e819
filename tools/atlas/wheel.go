package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// A wheel is a zip file from elsewhere: what is read from it is bounded. The largest library so far, libtorch_cpu.dylib
// of torch 2.15.0, has 422 MB; the largest operator list 0.7 MB.
const (
	maxText    = 64 << 20
	maxLibrary = 4 << 30
)

// wheel is an opened wheel.
type wheel struct {
	path    string
	name    string // of the package, as its metadata says
	version string
	torch   string // what it requires of torch, as "==2.8.0"; "" when nothing
	zip     *zip.ReadCloser
}

var requiresTorch = regexp.MustCompile(`^torch ?\(?([=>]=[0-9.]+)\)?$`)

// openWheel reads the wheel's directory and its metadata.
func openWheel(file string) (*wheel, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, fmt.Errorf("open wheel %s: %w", file, err)
	}
	w := &wheel{path: file, zip: z}
	for _, f := range z.File {
		if dir, base := path.Split(f.Name); base != "METADATA" || !strings.HasSuffix(dir, ".dist-info/") ||
			strings.Count(dir, "/") != 1 {
			continue
		}
		text, err := w.read(f.Name)
		if err != nil {
			z.Close()
			return nil, err
		}
		header, _, _ := strings.Cut(string(text), "\n\n")
		for line := range strings.Lines(header) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "Requires-Dist":
				if m := requiresTorch.FindStringSubmatch(value); m != nil {
					w.torch = m[1]
				}
			case "Name":
				w.name = value
			case "Version":
				w.version, _, _ = strings.Cut(value, "+") // a local build label is not part of the release
			}
		}
	}
	if w.name == "" || w.version == "" {
		z.Close()
		return nil, fmt.Errorf("open wheel %s: no METADATA with a name and a version in it", file)
	}
	return w, nil
}

func (w *wheel) Close() error { return w.zip.Close() }

func (w *wheel) find(name string) *zip.File {
	for _, f := range w.zip.File {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// read returns a text file of the wheel. The zip reader checks its sum.
func (w *wheel) read(name string) ([]byte, error) {
	f := w.find(name)
	if f == nil {
		return nil, fmt.Errorf("read %s: no %s in it", w.path, name)
	}
	if f.UncompressedSize64 > maxText {
		return nil, fmt.Errorf("read %s: %s has %d bytes, more than %d", w.path, name, f.UncompressedSize64, maxText)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, name, err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, name, err)
	}
	return text, nil
}

// unpack copies a library of the wheel into a temporary file, which the caller removes.
func (w *wheel) unpack(name string) (file string, err error) {
	f := w.find(name)
	if f == nil {
		return "", fmt.Errorf("unpack %s: no %s in it", w.path, name)
	}
	if f.UncompressedSize64 > maxLibrary {
		return "", fmt.Errorf("unpack %s: %s has %d bytes, more than %d", w.path, name, f.UncompressedSize64,
			int64(maxLibrary))
	}
	r, err := f.Open()
	if err != nil {
		return "", fmt.Errorf("unpack %s: %s: %w", w.path, name, err)
	}
	defer r.Close()
	out, err := os.CreateTemp("", "assay-atlas-*"+path.Ext(name))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, r)
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(out.Name())
		return "", fmt.Errorf("unpack %s: %s: %w", w.path, name, err)
	}
	return out.Name(), nil
}
