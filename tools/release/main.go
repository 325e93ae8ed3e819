// Command release makes all that a release of assay consists of, from one commit, the same bytes each time:
//
//	go run ./tools/release --out dist                  of the commit that HEAD is, which a tag v0.9.0 names
//	go run ./tools/release --out dist --version v0.9.0 of a commit that has no such tag yet
//	go run ./tools/release --out dist --dev            of the tree as it stands: 0.0.0.dev1062+gf94c333abcde
//	go run ./tools/release --pages FOLDER              the completions and manual pages alone
//
// In dist lie then the static binaries, wheels, archives, the source archive, assay.rb (a formula for Homebrew),
// the licences of what is linked in, an SBOM (CycloneDX), and SHA256SUMS over all of them. Nothing is uploaded:
// docs/releasing.md says what a person does next.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"assay/internal/fault"
	"assay/internal/unit"
)

// options are what a person asked for.
type options struct {
	root, out string
	version   string // as v0.9.0; "" takes that of the tag
	dev       bool   // a development version, of a dirty tree as well
	sourceURL string // of the source archive, for the formula
	homepage  string // for the wheels and the formula; "" leaves it out
	targets   []platform
	epoch     string // SOURCE_DATE_EPOCH, or ""
	said      io.Writer
}

func main() {
	o := options{said: os.Stderr, targets: platforms, epoch: os.Getenv("SOURCE_DATE_EPOCH")}
	flag.StringVar(&o.root, "root", ".", "the repository's `folder`")
	flag.StringVar(&o.out, "out", "dist", "`folder` to make; it must not be there, or be empty")
	flag.StringVar(&o.version, "version", "", "`version`, as v0.9.0 (default: that of the tag on HEAD)")
	flag.BoolVar(&o.dev, "dev", false, "a development version, of the tree as it stands, changes included")
	flag.StringVar(&o.sourceURL, "source-url", "", "`URL` of the source archive, for the formula")
	flag.StringVar(&o.homepage, "homepage", "", "`URL` of the project, for the wheels and the formula")
	only := flag.String("only", "", "`platforms` to build for, as linux/amd64,darwin/arm64 (default: all)")
	pages := flag.String("pages", "", "write the completions and manual pages to a `folder`, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := func() (err error) {
		switch {
		case flag.NArg() > 0:
			return fmt.Errorf("%q: release takes flags alone", flag.Arg(0))
		case *pages != "":
			return writePages(*pages)
		}
		if o.targets, err = choosePlatforms(*only); err != nil {
			return err
		}
		return release(ctx, o)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		if hint := fault.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, " ", hint)
		}
		os.Exit(1)
	}
}

// writePages writes the completions and manual pages into a folder: what the formula's build takes.
func writePages(folder string) error {
	pages, err := pagesOf()
	if err != nil {
		return err
	}
	for _, p := range pages {
		path := filepath.Join(folder, filepath.FromSlash(p.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, p.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// release makes the folder o.out whole, or not at all.
func release(ctx context.Context, o options) (err error) {
	if left, err := os.ReadDir(o.out); err == nil && len(left) > 0 {
		return fault.Hint(fmt.Errorf("make %s: it is there already", o.out), "remove it, or name another: --out")
	}
	src, err := openSource(ctx, o)
	if err != nil {
		return err
	}
	defer src.close()
	parent := filepath.Dir(filepath.Clean(o.out))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(parent, ".dist-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(part)
		}
	}()
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := fill(ctx, o, src, part); err != nil {
		return err
	}
	if err := os.Remove(o.out); err != nil && !errors.Is(err, os.ErrNotExist) { // empty, as seen above
		return err
	}
	if err := os.Rename(part, o.out); err != nil {
		return err
	}
	fmt.Fprintf(o.said, "%s %s in %s, %s\n", program, src.version, o.out, unit.Seconds(time.Since(began).Seconds()))
	return list(o.said, o.out)
}

// fill makes every file of the release in the folder.
func fill(ctx context.Context, o options, src *source, folder string) error {
	licence, err := os.ReadFile(filepath.Join(src.tree, "LICENSE"))
	if err != nil {
		return err
	}
	pages, err := pagesOf()
	if err != nil {
		return err
	}
	plugin, err := pluginOf(src.tree)
	if err != nil {
		return err
	}
	about, err := aboutOf(src, o.homepage)
	if err != nil {
		return err
	}
	binaries := make([]*built, 0, len(o.targets))
	linked := &linked{}
	for _, p := range o.targets {
		fmt.Fprintf(o.said, "building for %s\n", p)
		b, err := build(ctx, src, p, filepath.Join(folder, src.fileName(p)))
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
		if err := linked.add(ctx, src, p); err != nil {
			return err
		}
	}
	notices, err := linked.notices(src)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		files := append([]packed{{name: program, data: b.data, mode: 0o755}, {name: "LICENSE", data: licence},
			{name: noticesName, data: notices}}, pages...)
		if err := writeArchive(filepath.Join(folder, src.fileName(b.platform)+".tar.gz"),
			src.fileName(b.platform), files, src.date); err != nil {
			return err
		}
		w := wheel{about: about, binary: b, plugin: plugin, date: src.date,
			licences: []packed{{name: "LICENSE", data: licence}, {name: noticesName, data: notices}}}
		if err := w.write(folder); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, noticesName), notices, 0o644); err != nil {
		return err
	}
	sum, err := src.writeSources(ctx, filepath.Join(folder, src.sourceName()))
	if err != nil {
		return err
	}
	formula := formulaOf(src, sum, o.sourceURL, o.homepage)
	if err := os.WriteFile(filepath.Join(folder, program+".rb"), formula, 0o644); err != nil {
		return err
	}
	bom, err := billOfMaterials(src, binaries)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, src.stem()+".cdx.json"), bom, 0o644); err != nil {
		return err
	}
	return writeSums(folder)
}

// list says what lies in the folder, with sizes.
func list(w io.Writer, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%10s  %s\n", unit.Bytes(float64(info.Size())), e.Name())
	}
	return nil
}
