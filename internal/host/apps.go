package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
)

// program is one process with the memory it holds.
type program struct {
	process
	bytes float64
}

// Apps returns the n programs that hold most memory (bytes: footprint on macOS, resident memory on Linux), largest
// first. Processes are grouped by the outermost application they belong to, else by their executable; those of the run
// that begins at pid (0: no run) are grouped apart and marked Ours. On macOS only this user's processes can be read.
// Neither arguments nor window titles are looked at. An error means that the list of processes could not be read at
// all.
func Apps(ctx context.Context, pid int, n int) ([]evidence.App, error) {
	programs, err := thisMachine().programs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list programs: %w", err)
	}
	return largest(programs, pid, n), nil
}

func largest(programs []program, pid, n int) []evidence.App {
	all := make([]process, len(programs))
	for i, p := range programs {
		all[i] = p.process
	}
	ours := map[int]bool{}
	for _, p := range newTree(pid).update(all) {
		ours[p] = true
	}
	type key struct {
		name string
		ours bool
	}
	sums := map[key]*evidence.App{}
	for _, p := range programs {
		if p.bytes <= 0 || p.name == "" {
			continue
		}
		k := key{p.name, ours[p.pid]}
		a := sums[k]
		if a == nil {
			a = &evidence.App{Name: p.name, Ours: k.ours}
			sums[k] = a
		}
		a.Bytes += p.bytes
		a.Count++
	}
	apps := make([]evidence.App, 0, len(sums))
	for _, a := range sums {
		apps = append(apps, *a)
	}
	slices.SortFunc(apps, func(a, b evidence.App) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name),
			cmp.Compare(fmt.Sprint(b.Ours), fmt.Sprint(a.Ours)))
	})
	return apps[:min(max(n, 0), len(apps))]
}

// appName is the name of the outermost .app in the path of an executable, else the name of the file.
func appName(path string) string {
	last := path
	for part := range strings.SplitSeq(path, "/") {
		if app, ok := strings.CutSuffix(part, ".app"); ok && app != "" {
			return app
		}
		last = part
	}
	return last
}
