package python

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/unit"
)

// cpuIndex is where PyTorch offers its packages for Linux without CUDA (pytorch.org, Get Started, Platform CPU).
// The package index has those with it, which bring some 5 GB of NVIDIA's libraries.
const cpuIndex = "https://download.pytorch.org/whl/cpu"

// How long PyTorch's index may take before the package index is taken, and how much of a page is read: torch's
// lists every build since 2018.
const (
	cpuIndexWait = 8 * time.Second
	cpuIndexPage = 64 << 20
)

// cpuBuild is a build without CUDA that an index offers for this machine.
type cpuBuild struct {
	index       string
	requirement string // torch==2.15.0+cpu
	size        int64  // bytes to fetch; 0: the index does not say
}

// cpuBuildOf looks for the build of a pin, torch==2.15.0, for a Python as 3.11; nil where the index is not reached or
// has none.
func cpuBuildOf(ctx context.Context, index, pin, minor string) *cpuBuild {
	name, version, _ := strings.Cut(pin, "==")
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" || index == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cpuIndexWait)
	defer cancel()
	page := index + "/" + name + "/"
	body, _, err := fetched(ctx, http.MethodGet, page)
	if err != nil {
		return nil
	}
	tag := "cp" + strings.ReplaceAll(minor, ".", "")
	link := regexp.MustCompile(`href="([^"#]*\b` + regexp.QuoteMeta(name+"-"+version) + `(?:%2[Bb]|\+)cpu-` +
		tag + `-` + tag + `-[^"#/]*` + arch + `\.whl)`).FindSubmatch(body)
	if link == nil {
		return nil
	}
	b := &cpuBuild{index: index, requirement: name + "==" + version + "+cpu"}
	if base, err := url.Parse(page); err == nil {
		if wheel, err := base.Parse(string(link[1])); err == nil {
			if _, size, err := fetched(ctx, http.MethodHead, wheel.String()); err == nil {
				b.size = max(0, size)
			}
		}
	}
	return b
}

// fetched gives a body and the length that the answer declares, -1 where it declares none.
func fetched(ctx context.Context, method, address string) ([]byte, int64, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s: %s", address, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, cpuIndexPage))
	return body, res.ContentLength, err
}

// withoutCUDA says which packages of a set come from PyTorch's own index, and what is left for the package index. It
// says to log which it is, and what that comes to, before anything is fetched. What lies on top of a torch without CUDA
// has to come from there as well.
func (s Spec) withoutCUDA(ctx context.Context, dir, minor string, log io.Writer) (builds []*cpuBuild, rest []string) {
	rest = s.Requirements
	if runtime.GOOS != "linux" || len(s.CPU) == 0 {
		return nil, rest
	}
	there, _ := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages", "torch-*.dist-info"))
	if len(there) > 0 && !strings.Contains(filepath.Base(there[0]), "+cpu") {
		return nil, rest // with CUDA already
	}
	for _, pin := range s.Requirements {
		if name, _, _ := strings.Cut(pin, "=="); slices.Contains(s.CPU, name) {
			if b := cpuBuildOf(ctx, s.index(), pin, minor); b != nil {
				builds = append(builds, b)
			}
		}
	}
	if len(builds) < len(s.CPU) {
		fmt.Fprintln(log, "PyTorch's own index of builds without CUDA was not reached, or has none for this Python: those "+
			"with CUDA are some 5 GB on disk")
		return nil, rest
	}
	size, known := int64(0), true
	names := make([]string, len(builds))
	for i, b := range builds {
		size, known, names[i] = size+b.size, known && b.size > 0, b.requirement
	}
	said := ""
	if known {
		said = ": " + unit.Bytes(float64(size)) + " to fetch"
	}
	fmt.Fprintf(log, "%s from PyTorch's own index of builds without CUDA%s\n", strings.Join(names, ", "), said)
	return builds, slices.DeleteFunc(slices.Clone(rest), func(pin string) bool {
		name, _, _ := strings.Cut(pin, "==")
		return slices.Contains(s.CPU, name) || slices.Contains(s.OnlyCUDA, name)
	})
}

func (s Spec) index() string {
	if s.cpuIndex != "" {
		return s.cpuIndex
	}
	return cpuIndex
}
