package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// distribution is the name on the Python index; in file names its hyphen is an underscore (PEP 427).
const distribution = "assay-mps"

// pluginFolder is the Python package that the wheel holds beside the binary, and entryPoints say where pytest finds its
// plugin.
const (
	pluginFolder = "python/assay_mps"
	entryPoints  = "[pytest11]\nassay_mps = assay_mps.pytest_plugin\n"
)

// pluginOf are the files of the package, by the paths that they are installed under.
func pluginOf(tree string) (files []packed, err error) {
	err = filepath.WalkDir(filepath.Join(tree, pluginFolder), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(filepath.Join(tree, filepath.Dir(pluginFolder)), path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, packed{name: filepath.ToSlash(name), data: data})
		return err
	})
	return files, err
}

// about is what METADATA says of a release (packaging.python.org, core metadata 2.4).
type about struct {
	version, summary, description, homepage string
}

func aboutOf(s *source, homepage string) (about, error) {
	readme, err := os.ReadFile(filepath.Join(s.tree, "README.md"))
	if err != nil {
		return about{}, err
	}
	return about{version: s.version.python, summary: commandLine().Short, homepage: homepage,
		description: opening(string(readme))}, nil
}

// opening is what a README says before its first heading below the title: it links to nothing of the repository.
func opening(readme string) string {
	text, _, _ := strings.Cut(readme, "\n## ")
	return strings.TrimSpace(text) + "\n"
}

func (a about) metadata(licences []packed) []byte {
	var b bytes.Buffer
	line := func(key, value string) { fmt.Fprintf(&b, "%s: %s\n", key, value) }
	line("Metadata-Version", "2.4")
	line("Name", distribution)
	line("Version", a.version)
	line("Summary", a.summary)
	line("License-Expression", "Apache-2.0")
	for _, l := range licences {
		line("License-File", l.name)
	}
	line("Requires-Python", ">=3.9")
	line("Keywords", "pytorch,mps,metal,apple-silicon,pytest")
	line("Classifier", "Environment :: Console")
	line("Classifier", "Framework :: Pytest")
	line("Classifier", "Operating System :: MacOS")
	line("Classifier", "Operating System :: POSIX :: Linux")
	line("Classifier", "Programming Language :: Python :: 3")
	if a.homepage != "" {
		line("Project-URL", "Homepage, "+a.homepage)
	}
	line("Description-Content-Type", "text/markdown; charset=UTF-8; variant=GFM")
	b.WriteString("\n" + a.description)
	return b.Bytes()
}

// wheel is the binary as pip installs it (packaging.python.org, binary distribution format): the executable among the
// scripts, so that no Python stands between a shell and it.
type wheel struct {
	about    about
	binary   *built
	plugin   []packed
	licences []packed
	date     time.Time
}

// write puts the wheel into the folder, under its name.
func (w wheel) write(folder string) error {
	tags, err := w.binary.tags()
	if err != nil {
		return err
	}
	base := strings.ReplaceAll(distribution, "-", "_") + "-" + w.about.version
	data, err := zipped(w.files(base, tags), w.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, base+"-py3-none-"+strings.Join(tags, ".")+".whl"), data, 0o644)
}

// files are those of the wheel, in their order: RECORD, which has the sums of the others, is the last.
func (w wheel) files(base string, tags []string) []packed {
	info := base + ".dist-info/"
	says := "Wheel-Version: 1.0\nGenerator: assay-release\nRoot-Is-Purelib: false\n"
	for _, tag := range tags {
		says += "Tag: py3-none-" + tag + "\n"
	}
	files := append(slices.Clone(w.plugin),
		packed{name: base + ".data/scripts/" + program, data: w.binary.data, mode: 0o755},
		packed{name: info + "METADATA", data: w.about.metadata(w.licences)},
		packed{name: info + "WHEEL", data: []byte(says)},
		packed{name: info + "entry_points.txt", data: []byte(entryPoints)})
	for _, l := range w.licences {
		l.name = info + "licenses/" + l.name
		files = append(files, l)
	}
	var record bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	return append(files, packed{name: info + "RECORD", data: record.Bytes()})
}

// zipped packs the files, all of one date.
func zipped(files []packed, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		h.SetMode(f.permissions())
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
