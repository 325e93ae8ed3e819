package python

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/testset"
)

// indexOf serves these wheels as PyTorch's index does, a page for each package.
func indexOf(t *testing.T, wheels ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range wheels {
			base := filepath.Base(path)
			name, _, _ := strings.Cut(base, "-")
			switch {
			case r.URL.Path == "/whl/cpu/"+name+"/":
				fmt.Fprintf(w, "<a href=\"/whl/cpu/%s\">%s</a><br>\n",
					strings.ReplaceAll(base, "+", "%2B"), base)
				return
			case r.URL.Path == "/whl/cpu/"+base:
				http.ServeFile(w, r, path)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/whl/cpu"
}

func linuxTag(minor string) string {
	tag := "cp" + strings.ReplaceAll(minor, ".", "")
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return tag + "-" + tag + "-manylinux_2_28_" + arch
}

func TestCPUBuildOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("builds without CUDA are Linux's")
	}
	wheel := wheelOf(t, "torch", "2.15.0+cpu", linuxTag("3.11"))
	index := indexOf(t, wheel)
	info, err := os.Stat(wheel)
	if err != nil {
		t.Fatal(err)
	}
	b := cpuBuildOf(t.Context(), index, "torch==2.15.0", "3.11")
	if b == nil || b.requirement != "torch==2.15.0+cpu" || b.size != info.Size() {
		t.Fatalf("found %+v", b)
	}
	for why, got := range map[string]*cpuBuild{
		"another release":            cpuBuildOf(t.Context(), index, "torch==2.15", "3.11"),
		"another Python":             cpuBuildOf(t.Context(), index, "torch==2.15.0", "3.14"),
		"no such package":            cpuBuildOf(t.Context(), index, "torchvision==0.29.2", "3.11"),
		"an index that is not there": cpuBuildOf(t.Context(), "http://127.0.0.1:1/whl", "torch==2.15.0", "3.11"),
	} {
		if got != nil {
			t.Errorf("%s: %+v", why, got)
		}
	}
}

// TestWithoutCUDA: where the index is reached its build is installed, and what only CUDA's builds need is not; what
// lies on top of it comes from there too. Where it is not, all is as it was.
func TestWithoutCUDA(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("builds without CUDA are Linux's")
	}
	testset.FullOnly(t)
	in := base(t)
	minor := minorOf(in.Version)
	t.Setenv("PATH", "/usr/bin:/bin") // no uv
	low := Spec{Name: "low", CPU: []string{"torch"}, OnlyCUDA: []string{"triton"},
		Requirements: []string{"torch==1.0", "triton==3.9.0; sys_platform == \"linux\"", wheel(t, "assayrest")},
		cpuIndex:     indexOf(t, wheelOf(t, "torch", "1.0+cpu", linuxTag(minor)))}
	var log bytes.Buffer
	t.Setenv("PIP_NO_INDEX", "")
	t.Setenv("PIP_FIND_LINKS", "")
	python, err := ensure(t.Context(), t.TempDir(), in, low, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	out, err := exec.Command(python, "-c", `
import importlib.metadata as m
print(m.version("torch"), m.version("assayrest"))
m.version("triton")`).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "1.0+cpu 1.0\n") ||
		!strings.Contains(string(out), "PackageNotFoundError") {
		t.Errorf("%v: %s", err, out)
	}
	said := log.String()
	before, _, found := strings.Cut(said, "Collecting")
	if !found || !strings.Contains(before, "torch==1.0+cpu from PyTorch's own index of builds without CUDA: ") {
		t.Errorf("not said before it begins:\n%s", said)
	}
	dir := filepath.Dir(filepath.Dir(python))
	high := Spec{Name: "high", Requirements: []string{"torchvision==1.0"}, On: &low, CPU: []string{"torchvision"},
		cpuIndex: indexOf(t, wheelOf(t, "torchvision", "1.0+cpu", linuxTag(minor)))}
	if builds, rest := high.withoutCUDA(t.Context(), dir, minor, io.Discard); len(builds) != 1 || len(rest) != 0 {
		t.Errorf("on top: %d builds, %q left", len(builds), rest)
	}
	low.cpuIndex = "http://127.0.0.1:1/whl"
	log.Reset()
	if builds, rest := low.withoutCUDA(t.Context(), t.TempDir(), minor, &log); builds != nil || len(rest) != 3 ||
		!strings.Contains(log.String(), "5 GB") {
		t.Errorf("not reached: %v, %q, %q", builds, rest, log.String())
	}
}
