// Command audit measures `assay check` against ruff, uncached, over one corpus, by turns and on two cores, and says how
// long each takes and how much memory.
//
//	go run ./tools/audit [-out docs/audit-speed.md] [-ruff PATH] [-machine TEXT] DIR…
//
// Without DIR the packages of the interpreter named by -python are read. ruff comes from -ruff, the PATH, or PyPI (into
// a folder that is removed again).
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ruffVersion is taken from PyPI where no ruff is at hand.
const ruffVersion = "0.17.6"

const cores = "2"

func main() {
	out := flag.String("out", "", "write the page to this `file`, too")
	ruff := flag.String("ruff", "", "the ruff to compare with")
	python := flag.String("python", "python3", "the `interpreter` whose packages are read where no folder is named")
	runs := flag.Int("runs", 5, "so many runs of each")
	machine := flag.String("machine", "", "the machine in `words`, for the page")
	flag.Parse()
	if err := run(*out, *ruff, *python, *machine, *runs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

// measured is what the runs of one program took.
type measured struct {
	name   string
	wall   []time.Duration
	cpu    []time.Duration
	memory int64 // bytes, the largest
}

func run(out, ruff, python, machine string, runs int, dirs []string) error {
	work, err := os.MkdirTemp("", "assay-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	assay := filepath.Join(work, "assay")
	if text, err := exec.Command("go", "build", "-o", assay, "./cmd/assay").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, text)
	}
	if ruff, err = findRuff(ruff, python, work); err != nil {
		return err
	}
	version, err := exec.Command(ruff, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", ruff, err)
	}
	if len(dirs) == 0 {
		text, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").Output()
		if err != nil {
			return fmt.Errorf("%s: %w", python, err)
		}
		dirs = []string{strings.TrimSpace(string(text))}
	}
	files, size, err := count(dirs)
	if err != nil {
		return err
	}
	if machine == "" {
		machine = fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	}
	for i, d := range dirs {
		if dirs[i], err = filepath.Abs(d); err != nil {
			return err
		}
	}

	check := append([]string{"check", "--all", "--exit-zero"}, dirs...)
	lint := append([]string{"check", "--no-cache", "--isolated", "--exit-zero"}, dirs...)
	type pair struct {
		form       string
		us, them   *measured
		ours, lint []string
	}
	// Their own output with excerpts, as people read it, and JSON, as programs do.
	pairs := []pair{
		{"text", &measured{name: "assay check"}, &measured{name: "ruff check"}, check, lint},
		{"JSON", &measured{name: "assay check --format json"}, &measured{name: "ruff check --output-format json"},
			append(slices.Clone(check), "--format", "json"), append(slices.Clone(lint), "--output-format", "json")},
	}
	for i := range runs + 1 { // the first counts for nothing: it finds the files on the disk
		for _, p := range pairs {
			first, second := func() error { return p.us.take(assay, p.ours, io.Discard, i > 0) },
				func() error { return p.them.take(ruff, p.lint, io.Discard, i > 0) }
			if i%2 == 1 { // neither is always the one that comes after the other
				first, second = second, first
			}
			if err := first(); err != nil {
				return err
			}
			if err := second(); err != nil {
				return err
			}
		}
	}
	many, err := manyFindings(assay, work)
	if err != nil {
		return err
	}
	// Counted last: a child's peak memory includes what this program had when it was started.
	var found, foundThere bytes.Buffer
	if err := pairs[1].us.take(assay, pairs[1].ours, &found, false); err != nil {
		return err
	}
	if err := pairs[1].them.take(ruff, pairs[1].lint, &foundThere, false); err != nil {
		return err
	}
	ours, err := items(found.Bytes())
	if err != nil {
		return err
	}
	var theirs []json.RawMessage
	if err := json.Unmarshal(foundThere.Bytes(), &theirs); err != nil {
		return fmt.Errorf("ruff's report: %w", err)
	}

	var b strings.Builder
	fmt.Fprintf(&b, "# Speed of the audit\n\nWritten by `go run ./tools/audit`; every figure is measured.\n\n")
	fmt.Fprintf(&b, "`assay check --all` and %s with its default rules, uncached, by turns over the same %d Python files (%.0f MB), GOMAXPROCS and RAYON_NUM_THREADS at %s. Machine: %s. "+
		"Findings: %d and %d.\n\n", strings.TrimSpace(string(version)), files, float64(size)/1e6, cores, machine, ours,
		len(theirs))
	fmt.Fprintf(&b, "| | median of %d | fastest | CPU time | peak memory |\n|---|---|---|---|---|\n", runs)
	for _, p := range pairs {
		for _, m := range []*measured{p.us, p.them} {
			fmt.Fprintf(&b, "| %s | %.2f s | %.2f s | %.2f s | %.0f MB |\n", m.name, median(m.wall).Seconds(),
				slices.Min(m.wall).Seconds(), median(m.cpu).Seconds(), float64(m.memory)/1e6)
		}
	}
	fmt.Fprintln(&b)
	for i, p := range pairs {
		if i > 0 {
			fmt.Fprint(&b, " ")
		}
		fmt.Fprintf(&b, "With %s `assay check` takes %.2f times as long as ruff by the clock, %.2f times by CPU time.",
			p.form,
			median(p.us.wall).Seconds()/median(p.them.wall).Seconds(),
			median(p.us.cpu).Seconds()/median(p.them.cpu).Seconds())
	}
	fmt.Fprintf(&b, "\n\n%s\n", many)
	fmt.Print(b.String())
	if out == "" {
		return nil
	}
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// take runs a program once; the run counts where counted says so.
func (m *measured) take(program string, args []string, out io.Writer, counted bool) error {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+cores, "RAYON_NUM_THREADS="+cores)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out != io.Discard { // else the system's null device
		cmd.Stdout = out
	}
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return fmt.Errorf("%s: %w\n%.2000s", m.name, err, errs.String())
	}
	if counted {
		m.wall = append(m.wall, wall)
		m.cpu = append(m.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			kept := int64(u.Maxrss)
			if runtime.GOOS == "linux" { // kilobytes there, bytes on macOS
				kept <<= 10
			}
			m.memory = max(m.memory, kept)
		}
	}
	return nil
}

// items counts the findings of our report.
func items(report []byte) (int, error) {
	var r struct{ Findings []json.RawMessage }
	if err := json.Unmarshal(report, &r); err != nil {
		return 0, fmt.Errorf("assay's report: %w", err)
	}
	return len(r.Findings), nil
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// manyFindings runs the audit over a project that earns ten thousand findings.
func manyFindings(assay, work string) (string, error) {
	const files, each = 100, 100
	dir := filepath.Join(work, "many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for i := range files {
		text := "import torch\n\n" + strings.Repeat("torch.cuda.synchronize()\n", each)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part_%03d.py", i)), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	m := &measured{name: "assay check"}
	var report bytes.Buffer
	if err := m.take(assay, []string{"check", "--all", "--exit-zero", "--format", "json", dir}, &report,
		true); err != nil {
		return "", err
	}
	n, err := items(report.Bytes())
	if err != nil {
		return "", err
	}
	if n != files*each {
		return "", fmt.Errorf("%d findings of %d were reported", n, files*each)
	}
	return fmt.Sprintf("A generated project with %d findings in %d files: all reported, in %.2f s with %.0f MB.", n,
		files, m.wall[0].Seconds(), float64(m.memory)/1e6), nil
}

// count says how many Python files there are below the folders, and their bytes.
func count(dirs []string) (files int, size int64, err error) {
	for _, dir := range dirs {
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".py") {
				info, err := d.Info()
				if err != nil {
					return err
				}
				files++
				size += info.Size()
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return files, size, nil
}

// findRuff is the ruff that is named, or on the PATH, or from PyPI.
func findRuff(named, python, work string) (string, error) {
	if named != "" {
		return named, nil
	}
	if path, err := exec.LookPath("ruff"); err == nil {
		return path, nil
	}
	venv := filepath.Join(work, "ruff")
	for _, args := range [][]string{{python, "-m", "venv", venv}, {filepath.Join(venv, "bin", "pip"), "install", "-q",
		"ruff==" + ruffVersion}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("get ruff: %s: %w", args[0], err)
		}
	}
	return filepath.Join(venv, "bin", "ruff"), nil
}
