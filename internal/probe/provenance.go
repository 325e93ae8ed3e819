package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"

	"assay/internal/evidence"
	"assay/internal/fold"
	"assay/internal/secret"
)

const (
	fingerprintFiles = 50_000   // files looked at
	fingerprintWhole = 64 << 20 // bytes: data up to this size is read whole
	fingerprintEnds  = 64 << 10 // bytes of each end of a file that are read otherwise
)

// gitState returns the commit of the working copy at dir and whether it is clean. Unknown is said, never guessed. What
// lies in assay's own files and folders (absolute paths) is no change of the project's.
func gitState(ctx context.Context, dir string, own []string) (commit, dirty string) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
		// Out of our group: stopped with it while it is being started, it would keep our own thread, which waits for
		// its exec, from stopping.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.Output()
		return strings.TrimRight(string(out), "\n"), err
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		if ctx.Err() != nil {
			return "", "unknown: git did not answer in time"
		}
		if _, lookErr := exec.LookPath("git"); lookErr != nil {
			return "", "unknown: git is not installed"
		}
		return "", "unknown: no git commit at the working folder"
	}
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return commit, "unknown: git status failed"
	}
	var ours []string // below the working copy, as git names them
	for _, path := range own {
		path = resolved(path)
		if rel, err := filepath.Rel(resolved(top), path); err == nil && rel != "." && filepath.IsLocal(rel) {
			ours = append(ours, filepath.ToSlash(rel))
		}
	}
	isOurs := func(name string) bool {
		for _, o := range ours {
			if rest, ok := strings.CutPrefix(name, o); ok && (rest == "" || rest[0] == '/' || rest == "-wal" ||
				rest == "-shm") {
				return true
			}
		}
		return false
	}
	status, err := git("-c", "status.renames=false", "status", "--porcelain", "--untracked-files=normal", "-z")
	if err != nil {
		return commit, "unknown: git status failed"
	}
	changes := 0
	for _, entry := range strings.Split(status, "\x00") {
		if len(entry) < 4 {
			continue
		}
		name := entry[3:] // behind two letters and a space
		holds := func(o string) bool { return strings.HasPrefix(o, name) }
		switch {
		case isOurs(strings.TrimSuffix(name, "/")):
		case strings.HasSuffix(name, "/") && slices.ContainsFunc(ours, holds): // a new folder with ours in it
			files, err := git("-C", top, "ls-files", "--others", "--exclude-standard", "-z", "--",
				":(top,literal)"+name)
			if err != nil {
				return commit, "unknown: git status failed"
			}
			if slices.ContainsFunc(strings.Split(files, "\x00"), func(f string) bool { return f != "" && !isOurs(f) }) {
				changes++
			}
		default:
			changes++
		}
	}
	if changes == 0 {
		return commit, "clean"
	}
	return commit, fmt.Sprintf("dirty (%d files)", changes)
}

// resolved follows the links of a path, as far as it is there: git names its working copy so.
func resolved(path string) string {
	for head, tail := path, ""; ; {
		if real, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(real, tail)
		}
		parent := filepath.Dir(head)
		if parent == head {
			return path
		}
		head, tail = parent, filepath.Join(filepath.Base(head), tail)
	}
}

// relevantPrefixes name the environment variables that can change a run.
var relevantPrefixes = []string{"PYTORCH_", "TORCH", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_OVERRIDE", "NCCL_",
	"OMP_", "MKL_", "KMP_",
	"VECLIB_", "OPENBLAS_",
	"NUMEXPR_", "TOKENIZERS_", "PYTHON", "MTL_", "MLX_", "TF_", "KERAS_", "ACCELERATE_", "HF_", "TRANSFORMERS_",
	"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_",
	"VIRTUAL_ENV", "CONDA_PREFIX", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_",
	"METAL_", "JAX_", "XLA_", "GOMP_", "MALLOC_", "MallocStackLogging", "MallocScribble", "MallocGuardEdges"}

// relevant gives the variables that can change a run. Of one that holds a secret the name stays: that it was set may
// matter.
func relevant(environ []string, secrets *secret.Set) map[string]string {
	out := map[string]string{}
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if ok && slices.ContainsFunc(relevantPrefixes, func(prefix string) bool {
			return strings.HasPrefix(name,
				prefix)
		}) {
			out[name] = secrets.Variable(name, value)
		}
	}
	return out
}

// fingerprints describes each loader's dataset as the loaders appear, in the background.
func fingerprints(ctx context.Context, rec *recorder, dir string) {
	sets := []evidence.Dataset{}
	seen := map[string]bool{}
	for {
		var e fold.LoaderEvent
		select {
		case <-ctx.Done():
			return
		case e = <-rec.loaders:
		}
		length := 0
		if e.Length != nil {
			length = *e.Length
		}
		set := evidence.Dataset{Type: e.Dataset, Length: length, Workers: e.Workers}
		if e.Batch != nil {
			set.Batch = *e.Batch
		}
		key := fmt.Sprint(set.Type, set.Length, set.Batch, set.Workers, e.Paths)
		if seen[key] || len(sets) >= 32 {
			continue
		}
		seen[key] = true
		if len(e.Paths) == 0 {
			set.Missing = "the dataset names no file in its attributes"
		} else {
			fingerprint(ctx, &set, e.Paths, dir)
		}
		sets = append(sets, set)
		rec.own("host", fold.HostEvent{Datasets: sets})
	}
}

// Fingerprint sums up the files that lie at or below the paths now, as the evidence of a run does of those that its
// datasets name: Path, Files, Bytes and Fingerprint, or Missing with the reason.
func Fingerprint(ctx context.Context, paths []string) evidence.Dataset {
	var set evidence.Dataset
	fingerprint(ctx, &set, paths, "")
	return set
}

// fingerprint hashes the files that a dataset names: SHA-256 over each file's path below the common folder, its size,
// and its content; of more than 64 MiB in all only the first and last 64 KiB of each file are read, and the method's
// name says so.
func fingerprint(ctx context.Context, set *evidence.Dataset, paths []string, dir string) {
	var files []string
	var total int64
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		err := filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return fs.SkipAll
			}
			if d.Type().IsRegular() {
				if len(files) >= fingerprintFiles {
					return fs.SkipAll
				}
				if info, err := d.Info(); err == nil {
					total += info.Size()
					files = append(files, path)
				}
			}
			return nil
		})
		_ = err
	}
	switch {
	case ctx.Err() != nil:
		set.Missing = "the run ended before the files were read"
		return
	case len(files) == 0:
		set.Missing = "the files that the dataset names could not be found"
		return
	case len(files) >= fingerprintFiles:
		set.Missing = fmt.Sprintf("more than %d files", fingerprintFiles)
		return
	}
	sort.Strings(files)
	root := filepath.Dir(files[0])
	for _, f := range files {
		for !strings.HasPrefix(f, root+string(filepath.Separator)) && root != string(filepath.Separator) {
			root = filepath.Dir(root)
		}
	}
	method := "sha256-whole"
	if total > fingerprintWhole {
		method = "sha256-ends"
	}
	sum := sha256.New()
	for _, path := range files {
		if ctx.Err() != nil {
			set.Missing = "the run ended before the files were read"
			return
		}
		rel, _ := filepath.Rel(root, path)
		f, err := os.Open(path)
		if err != nil {
			set.Missing = fmt.Sprintf("%s: %v", rel, err)
			return
		}
		info, err := f.Stat()
		if err == nil {
			fmt.Fprintf(sum, "%s\x00%d\x00", filepath.ToSlash(rel), info.Size())
			if method == "sha256-whole" {
				_, err = io.Copy(sum, f)
			} else {
				_, err = io.Copy(sum, io.LimitReader(f, fingerprintEnds))
				if err == nil && info.Size() > fingerprintEnds {
					_, err = io.Copy(sum, io.NewSectionReader(f, max(fingerprintEnds, info.Size()-fingerprintEnds),
						fingerprintEnds))
				}
			}
		}
		f.Close()
		if err != nil {
			set.Missing = fmt.Sprintf("%s: %v", rel, err)
			return
		}
	}
	set.Path, set.Files, set.Bytes = root, len(files), total
	set.Fingerprint = method + ":" + hex.EncodeToString(sum.Sum(nil))
}
