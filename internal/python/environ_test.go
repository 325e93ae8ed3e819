package python

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func TestCheckEnviron(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{
		"shadow/types.py": "", "shadow/random/data.txt": "", "shadow/json/__init__.py": "", "shadow/mine.py": "",
		"checkout/torch/__init__.py": "", "plain/helpers.py": "", "lib.so": "",
	})
	const high, low, fallback = "PYTORCH_MPS_HIGH_WATERMARK_RATIO=", "PYTORCH_MPS_LOW_WATERMARK_RATIO=",
		"PYTORCH_ENABLE_MPS_FALLBACK="
	for _, c := range []struct {
		environ string // separated by spaces
		release string
		goos    string
		want    string // name severity text, of each finding in turn, separated by |; a part of each is enough
	}{
		{"HOME=/u PATH=/bin LANG=C", "2.15.0", "darwin", ""},
		{fallback + "0", "2.15.0", "darwin", ""},
		{fallback + "1", "2.15.0", "darwin", "env-fallback-on note"},
		{fallback + "-2", "2.15.0", "darwin", "env-fallback-on note"},
		{fallback + "1x", "2.15.0", "darwin", "env-misread warning is read as 1|env-fallback-on"},
		{fallback + "true", "2.15.0", "darwin", "env-breaks-import error"},
		{fallback, "2.15.0", "darwin", "env-breaks-import error"},
		{fallback + "99999999999", "2.15.0", "darwin", "env-breaks-import error 32-bit"},
		{fallback + "true", "2.15.0", "linux", "env-no-effect note on Linux"},
		{high + "1.7", "2.15.0", "darwin", ""},
		{high + "1.4", "2.15.0", "darwin", ""},
		{high + "2.0", "2.15.0", "darwin", ""},
		{high + "0.9", "2.15.0", "darwin", "env-range error `invalid low watermark ratio 1.4`"},
		{high + "0.9 " + low + "0.8", "2.15.0", "darwin", ""},
		{high + "0.9 " + low + "1.0", "2.15.0", "darwin", "env-range error PYTORCH_MPS_LOW_WATERMARK_RATIO=1.0"},
		{high + "2.1", "2.15.0", "darwin", "env-range error `invalid high watermark ratio 2.1`"},
		{high + "-1", "2.15.0", "darwin", "env-range error"},
		{high + "nan", "2.15.0", "darwin", "env-range error"},
		{high + "0.0", "2.15.0", "darwin", "env-no-limit warning"},
		{high + "0.0 " + low + "1.9", "2.15.0", "darwin", "env-no-limit warning"},
		{high + "0.0 " + low + "2.1", "2.15.0", "darwin", "env-no-limit warning|env-range error 0 to 2"},
		{high + "0,9", "2.15.0", "darwin", "env-misread warning read as 0|env-no-limit"},
		{high + "max", "2.15.0", "darwin", "env-misread warning read as 0|env-no-limit"},
		{low + "0.0", "2.15.0", "darwin", "env-set note"},
		{low + "1.8", "2.15.0", "darwin", "env-range error 0 to 1.7"},
		{"PYTORCH_DEBUG_MPS_ALLOCATOR=0x1f", "2.15.0", "darwin", "env-slows note"},
		{"PYTORCH_DEBUG_MPS_ALLOCATOR=verbose", "2.15.0", "darwin", "env-misread warning"},
		{"PYTORCH_DEBUG_MPS_ALLOCATOR=64", "2.15.0", "darwin", "env-range warning"},
		{"PYTORCH_MPS_LOG_PROFILE_INFO=4", "2.0.1", "darwin", "env-unread warning came with 2.1"},
		{"PYTORCH_MPS_PREFER_METAL=0", "2.15.0", "darwin", "env-misread warning turns it on"},
		{"PYTORCH_MPS_PREFER_METAL=1", "2.2.2", "darwin", "env-unread warning came with 2.3"},
		{"PYTORCH_MPS_FAST_MATH=false", "2.15.0", "darwin", "env-misread warning turns fast math on"},
		{"PYTORCH_MPS_FAST_MATH=0", "2.15.0", "darwin", ""},
		{"PYTORCH_MPS_METAL_VERSION=3.0", "2.15.0", "darwin", "env-range warning ignores"},
		{"PYTORCH_MPS_METAL_VERSION=3.2", "2.14.1", "darwin", "env-unread warning came with 2.15"},
		{"PYTORCH_MPS_METAL_VERSION=3.2", "", "darwin", "env-set note"},
		{"PYTORCH_MPS_LOG_LEVEL=1", "2.15.0", "darwin", "env-unread warning"},
		{"PYTORCH_MPS_ALLOCATOR_POLICY=x", "2.15.0", "linux", "env-unread warning"},
		{"PYTORCH_MPS_FAST_ALLOCATION=1", "2.15.0", "darwin", "env-unread warning does nothing"},
		{"PYTORCH_MPS_ENABLE_FALLBACK=1", "2.15.0", "darwin",
			"env-near-miss warning did you mean PYTORCH_ENABLE_MPS_FALLBACK"},
		{"PYTORCH_ENABLE_MPS_FALBACK=1", "2.15.0", "darwin",
			"env-near-miss warning did you mean PYTORCH_ENABLE_MPS_FALLBACK"},
		{"MPS_HIGH_WATERMARK_RATIO=1", "2.15.0", "darwin",
			"env-near-miss warning did you mean PYTORCH_MPS_HIGH_WATERMARK_RATIO"},
		{"OMP_NUM_THREAD=1 MPI_NUM_THREADS=2 BLIS_NUM_THREADS=2 CUDA_MPS_PIPE_DIRECTORY=/tmp", "2.15.0", "darwin",
			"env-near-miss warning did you mean OMP_NUM_THREADS"},
		{"OMP_NUM_THREADS=0", "", "linux", "env-range warning"},
		{"OMP_NUM_THREADS=4,2", "", "linux", ""},
		{"OMP_NUM_THREADS=1", "", "linux", "env-threads note one of 8"},
		{"MKL_NUM_THREADS=9", "", "linux", "env-threads warning 8 cores"},
		{"OMP_NUM_THREADS=4 MKL_NUM_THREADS=8", "", "linux", "env-contradiction note"},
		{"VECLIB_MAXIMUM_THREADS=4", "", "linux", "env-no-effect note"},
		{"KMP_DUPLICATE_LIB_OK=TRUE", "", "darwin", "env-duplicate-openmp warning"},
		{"KMP_DUPLICATE_LIB_OK=FALSE", "", "darwin", ""},
		{"PYTORCH_CUDA_ALLOC_CONF=x:1", "", "darwin", "env-no-effect note on a Mac"},
		{"PYTORCH_CUDA_ALLOC_CONF=x:1", "", "linux", "env-set note"},
		{"CUBLAS_WORKSPACE_CONFIG=:4096:8", "", "linux", ""},
		{"CUBLAS_WORKSPACE_CONFIG=4096:8", "", "linux", "env-range warning"},
		{"CUDA_VISIBLE_DEVICES=", "", "linux", "env-set note hides"},
		{"MTL_CAPTURE_ENABLED=1", "", "darwin", "env-slows warning"},
		{"MTL_CAPTURE_ENABLED=0", "", "darwin", ""},
		{"PYTHONHASHSEED=0 TOKENIZERS_PARALLELISM=false", "", "darwin", ""},
		{"PYTHONHASHSEED=4294967296", "", "darwin", "env-range error"},
		{"PYTHONHASHSEED=-1", "", "linux", "env-range error"},
		{"TOKENIZERS_PARALLELISM=none", "", "linux", "env-misread note counts as on"},
		{"PYTHONWARNINGS=ignore::DeprecationWarning", "", "linux", ""},
		{"PYTHONWARNINGS=error,ignore", "", "linux", "env-hides-warnings warning"},
		{"PYTHONOPTIMIZE=1", "", "linux", "env-set note"},
		{"PYTHONPATH=DIR/plain", "", "linux", ""},
		{"PYTHONPATH=plain", "", "linux", "env-import-path note relative"},
		{"PYTHONPATH=DIR/plain:", "", "linux", "env-import-path warning empty entry"},
		{"PYTHONPATH=DIR/none", "", "linux", "env-import-path note there is no"},
		{"PYTHONPATH=DIR/shadow", "", "linux", "env-shadows-stdlib warning json, types"},
		{"PYTHONPATH=DIR/checkout", "", "linux", "env-shadows-package warning torch"},
		{"LD_PRELOAD=DIR/lib.so", "", "linux", "env-preload warning"},
		{"DYLD_INSERT_LIBRARIES=DIR/no.dylib", "", "darwin", "env-preload error"},
		{"DYLD_LIBRARY_PATH=/x", "", "darwin", "env-preload note"},

		// On Linux, for a Mac: what that one reads, but for its files and cores.
		{high + "3.5", "2.15.0", "linux for a Mac", "env-range error valid are 0 to 2 (on the Mac aimed at)"},
		{high + "1.7", "2.15.0", "linux for a Mac", "env-no-effect note on Linux"},
		{fallback + "true", "2.15.0", "linux for a Mac", "env-breaks-import error (on the Mac aimed at)"},
		{"PYTORCH_MPS_FAST_MATH=1", "2.4.1", "linux for a Mac", "env-unread warning came with 2.5"},
		{"DYLD_INSERT_LIBRARIES=DIR/no.dylib", "", "linux for a Mac", "env-no-effect note"},
		{"VECLIB_MAXIMUM_THREADS=999", "", "linux for a Mac", "env-no-effect note"},
		{"CUDA_VISIBLE_DEVICES=", "", "linux for a Mac", "env-set note hides"},
	} {
		here, forMac := strings.CutSuffix(c.goos, " for a Mac")
		e := environCheck{environ: strings.Split(strings.ReplaceAll(c.environ, "DIR", dir), " "), release: c.release,
			goos: here, cores: 8, dir: dir, forMac: forMac}
		found := e.run()
		var want []string
		if c.want != "" {
			want = strings.Split(c.want, "|")
		}
		if len(found) != len(want) {
			t.Errorf("%s on %s with %s: %+v", c.environ, c.goos, c.release, found)
			continue
		}
		for i, f := range found {
			words := strings.SplitN(want[i], " ", 3)
			all := f.Text + " " + f.Hint
			if f.Name != words[0] || len(words) > 1 && f.Severity != evidence.Severity(words[1]) || len(words) > 2 &&
				!strings.Contains(all, words[2]) {
				t.Errorf("%s on %s: %+v, want %s", c.environ, c.goos, f, want[i])
			}
			if f.Basis == "" || f.Text == "" || strings.Contains(f.Text, "%!") {
				t.Errorf("%s: %+v", c.environ, f)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Variables() {
		if v.Source == "" || v.Meaning == "" || seen[v.Name] {
			t.Errorf("%s: source %q, meaning %q", v.Name, v.Source, v.Meaning)
		}
		seen[v.Name] = true
	}
	if len(stdlibNames) < 150 {
		t.Errorf("%d modules of the standard library", len(stdlibNames))
	}
	// Against the interpreter's own list.
	in := realPython(t)
	for _, name := range []string{"json", "random", "types", "logging"} {
		if !isFile(filepath.Join(in.Stdlib, name+".py")) && !isFile(filepath.Join(in.Stdlib, name, "__init__.py")) {
			t.Errorf("no %s in %s", name, in.Stdlib)
		}
	}
	_ = CheckEnviron(os.Environ(), "2.15.0", "darwin") // whatever this process has: no panic
}

func FuzzCheckEnviron(f *testing.F) {
	for _, s := range []string{"PYTORCH_MPS_HIGH_WATERMARK_RATIO=0x1p-2", "PYTORCH_ENABLE_MPS_FALLBACK=+1",
		"OMP_NUM_THREADS=,", "=", "PYTHONWARNINGS=:::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, finding := range CheckEnviron([]string{s}, "2.15.0", "darwin") {
			if finding.Name == "" || finding.Severity == "" {
				t.Errorf("%+v", finding)
			}
		}
	})
}
