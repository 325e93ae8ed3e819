// Command atlas derives the tables of internal/atlas from released macOS wheels.
//
//	go run ./tools/atlas torch==2.16.0      download that release with pip, and add it
//	go run ./tools/atlas FILE.whl...        add releases from wheels at hand
//	go run ./tools/atlas -all               derive every release that the tables hold anew; the files come out byte for byte
//
// A torch wheel is read twice, independently. The operator list that it packs for its code generator
// (native_functions.yaml) says which kernels were meant to be there; the code of libtorch_cpu.dylib says which are
// registered when it is loaded: each TORCH_LIBRARY_IMPL makes a function that names the operators it implements, and
// wheels for macOS keep those functions' symbols. No code of a wheel is run. All wheels are read before the first table
// is written, and each table is replaced whole.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"assay/internal/atlas"
)

func main() {
	var opts options
	flag.StringVar(&opts.tables, "tables", "internal/atlas/tables", "folder of the tables")
	flag.StringVar(&opts.wheels, "wheels", "",
		"folder in which downloaded wheels are kept; without it they are removed again")
	flag.StringVar(&opts.python, "python", "python3", "interpreter whose pip downloads wheels")
	flag.BoolVar(&opts.all, "all", false, "derive every release of the tables anew")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, opts, flag.Args(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "atlas:", err)
		os.Exit(1)
	}
}

type options struct {
	tables, wheels, python string
	all                    bool
	texts                  messages
}

func run(ctx context.Context, opts options, wanted []string, log io.Writer) error {
	releases, err := loadReleases(opts.tables)
	if err != nil {
		return err
	}
	opts.texts = loadMessages()
	if opts.all {
		for _, r := range releases {
			wanted = append(wanted, r.Package+"=="+r.Version)
		}
	}
	if len(wanted) == 0 {
		return errors.New("name releases (torch==2.15.0) or wheels, or say -all")
	}
	if opts.wheels == "" {
		if opts.wheels, err = os.MkdirTemp("", "assay-atlas-wheels-"); err != nil {
			return err
		}
		defer os.RemoveAll(opts.wheels)
	}
	found := make([]*derived, len(wanted))
	errs := make([]error, len(wanted))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(2, runtime.NumCPU()) { // a library takes up to half a gigabyte of memory
		workers.Go(func() {
			for i := range next {
				if found[i], errs[i] = derive(ctx, opts, wanted[i]); errs[i] == nil {
					r := found[i].release
					fmt.Fprintf(log, "%s %s: %s\n", r.Package, r.Version, found[i].summary())
				}
			}
		})
	}
	for i := range wanted {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nno table was touched", err)
	}
	slices.SortFunc(found, func(a, b *derived) int {
		return cmp.Or(strings.Compare(a.release.Package, b.release.Package),
			atlas.CompareReleases(a.release.Version, b.release.Version))
	})
	if opts.all {
		releases = nil
	}
	return write(opts.tables, releases, found, opts.all)
}

// derive reads one release, from a wheel at hand or from pip.
func derive(ctx context.Context, opts options, wanted string) (*derived, error) {
	file := wanted
	if name, version, ok := strings.Cut(wanted, "=="); ok {
		var err error
		if file, err = download(ctx, opts, name, version); err != nil {
			return nil, err
		}
	}
	w, err := openWheel(file)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	switch w.name {
	case "torch":
		return deriveTorch(w, opts.texts)
	case "torchvision", "torchaudio":
		return deriveExtension(w)
	case "tensorflow-metal":
		return deriveMetal(w)
	}
	return nil, fmt.Errorf("read %s: a wheel of %s: torch, torchvision, torchaudio and tensorflow-metal are what the atlas holds", file, w.name)
}

// download fetches the macOS wheel of a release for any CPython that has one, with pip and so from where pip is set to
// look.
func download(ctx context.Context, opts options, name, version string) (string, error) {
	underscored := strings.ReplaceAll(name, "-", "_")
	var said []byte
	for _, minor := range []string{"11", "12", "13", "10", "9", "14"} {
		if have, _ := filepath.Glob(filepath.Join(opts.wheels,
			underscored+"-"+version+"-cp3"+minor+"-*macosx*arm64.whl")); len(have) > 0 {
			return have[0], nil
		}
		args := []string{"-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
			"--only-binary=:all:", "--implementation", "cp",
			"--python-version", "3." + minor, "--abi", "cp3" + minor, "--abi", "abi3", "--abi", "none", "--dest",
			opts.wheels}
		for macos := 11; macos <= 26; macos++ {
			args = append(args, "--platform", fmt.Sprintf("macosx_%d_0_arm64", macos))
		}
		cmd := exec.CommandContext(ctx, opts.python, append(args, name+"=="+version)...)
		var err error
		if said, err = cmd.CombinedOutput(); err == nil {
			if have, _ := filepath.Glob(filepath.Join(opts.wheels, underscored+"-"+version+"-*.whl")); len(have) > 0 {
				return have[0], nil
			}
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return "", fmt.Errorf("download %s==%s for macOS on arm64: %s", name, version, lines[len(lines)-1])
}

func loadReleases(tables string) ([]atlas.Release, error) {
	text, err := os.ReadFile(filepath.Join(tables, "releases.txt"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return atlas.ParseReleases(text)
}
