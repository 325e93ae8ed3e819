package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// packed is a file of an archive or a wheel. Mode 0 stands for 0644.
type packed struct {
	name string // with slashes
	data []byte
	mode fs.FileMode
}

func (p packed) permissions() fs.FileMode {
	if p.mode == 0 {
		return 0o644
	}
	return p.mode
}

// writeArchive writes a tar.gz of the files below a folder of this name: all of one date, owned by nobody in
// particular.
func writeArchive(path, folder string, files []packed, date time.Time) error {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	for _, f := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Size: int64(len(f.data)),
			Mode: int64(f.permissions()), ModTime: date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// writeSums writes SHA256SUMS over every file of the folder, as `sha256sum -c` and `shasum -a 256 -c` read it.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder) // in the order of their names
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), sums.Bytes(), 0o644)
}
