package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"

	"assay/internal/fault"
)

// platform is one that binaries are built for, in Go's words.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

// choosePlatforms reads a list as linux/amd64,darwin/arm64; "" is all of them.
func choosePlatforms(list string) ([]platform, error) {
	if list == "" {
		return platforms, nil
	}
	var chosen []platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(platforms, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("--only %s: none of %v", name, platforms)
		}
		chosen = append(chosen, platforms[i])
	}
	return chosen, nil
}

// built is an executable of the release.
type built struct {
	platform platform
	data     []byte
	info     *debug.BuildInfo
}

// build compiles the command for the platform and keeps it at the path. Nothing of the machine gets in: no path
// (-trimpath), no state of git's, no C compiler, and the instructions that every processor of the kind has.
func build(ctx context.Context, s *source, p platform, path string) (*built, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X assay/internal/cli.release="+s.version.tag, "-o", path, "./cmd/assay")
	if err := runGo(cmd, s, p); err != nil {
		return nil, err
	}
	b := &built{platform: p}
	var err error
	if b.data, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if b.info, err = buildinfo.Read(bytes.NewReader(b.data)); err != nil {
		return nil, err
	}
	return b, b.check()
}

// baseline is the instruction set that is built for, by architecture.
var baseline = map[string][2]string{"amd64": {"GOAMD64", "v1"}, "arm64": {"GOARM64", "v8.0"}}

// runGo runs Go in the tree of the release, for the platform, whatever the user's environment says of how to build.
func runGo(cmd *exec.Cmd, s *source, p platform) error {
	cmd.Dir = s.tree
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOWORK=off",
		"GOFLAGS=-mod=readonly", "GOFIPS140=off", baseline[p.arch][0]+"="+baseline[p.arch][1])
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s for %s: %w: %s", strings.Join(cmd.Args[:2], " "), p, err,
			strings.TrimSpace(said.String()))
	}
	return nil
}

// check holds the executable against what was asked for: static, and by the settings above and no others.
func (b *built) check() error {
	want := map[string]string{"-buildmode": "exe", "-compiler": "gc", "-trimpath": "true", "CGO_ENABLED": "0",
		"GOOS": b.platform.os, "GOARCH": b.platform.arch, baseline[b.platform.arch][0]: baseline[b.platform.arch][1]}
	for _, s := range b.info.Settings {
		if s.Key == "DefaultGODEBUG" || s.Key == "-ldflags" {
			continue
		}
		if want[s.Key] != s.Value {
			return fault.Hint(fmt.Errorf("binary for %s: built with %s=%s, want %q", b.platform, s.Key, s.Value,
				want[s.Key]), "unset it: see go env")
		}
	}
	if b.platform.os != "linux" {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(b.data))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC
	}) {
		return fmt.Errorf("binary for %s: it is linked dynamically, and would not run everywhere", b.platform)
	}
	return nil
}

// tags are what Python's installers know the platform by: PEP 600, PEP 656, and for a Mac the oldest macOS that the
// binary says it runs on.
func (b *built) tags() ([]string, error) {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[b.platform.arch]
	if b.platform.os == "linux" { // static: it needs neither C library, and is tagged as running with either
		return []string{"manylinux_2_17_" + machine, "manylinux2014_" + machine, "musllinux_1_1_" + machine}, nil
	}
	major, err := oldestMacOS(b.data)
	if err != nil {
		return nil, fmt.Errorf("binary for %s: %w", b.platform, err)
	}
	return []string{fmt.Sprintf("macosx_%d_0_%s", major, b.platform.arch)}, nil
}

// oldestMacOS reads the major release from LC_BUILD_VERSION (mach-o/loader.h): command, size, platform, minos as
// xxxx.yy.zz. Go's linker writes there the oldest that this Go runs on (cmd/link/internal/ld/macho.go).
func oldestMacOS(data []byte) (major int, err error) {
	f, err := macho.NewFile(bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	const buildVersion, macOS = 0x32, 1
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) < 16 || binary.LittleEndian.Uint32(raw) != buildVersion {
			continue
		}
		if binary.LittleEndian.Uint32(raw[8:]) == macOS {
			return int(binary.LittleEndian.Uint32(raw[12:]) >> 16), nil
		}
	}
	return 0, errors.New("it does not say which macOS it needs")
}
