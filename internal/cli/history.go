package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/text"
)

// ownFolder is where assay keeps things by itself.
const ownFolder = ".assay"

// runsFolder is where assay run keeps runs.
var runsFolder = filepath.Join(ownFolder, "runs")

// mostKept is how many runs of the folders are read, the newest first.
const mostKept = 400

// loadRuns reads the runs named: folders, evidence.json files, records of the logbook.
func loadRuns(env *Env, args []string) ([]*evidence.Run, map[string]string, error) {
	var runs []*evidence.Run
	seen, paths := map[string]bool{}, map[string]string{}
	for _, arg := range args {
		run, err := loadRun(env, arg)
		if err != nil {
			return nil, nil, err
		}
		if key := runKey(run); !seen[key] {
			seen[key] = true
			runs = append(runs, run)
			paths[key] = arg
		}
	}
	return runs, paths, nil
}

// loadRun reads a run by its path, or where there is none by its name in the logbook.
func loadRun(env *Env, arg string) (*evidence.Run, error) {
	if _, err := os.Stat(env.Path(arg)); !errors.Is(err, fs.ErrNotExist) {
		run, _, err := probe.Load(env.Path(arg))
		return run, err
	}
	path := logbookPath(env, "")
	if !logbook.Exists(path) {
		run, _, err := probe.Load(env.Path(arg)) // says what is missing
		return run, err
	}
	ctx := context.Background()
	book, err := logbook.OpenRead(ctx, path)
	if err != nil {
		return nil, err
	}
	defer book.Close()
	id, err := book.Resolve(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("%s: no file or folder, and in the logbook %s %w", arg, path, err)
	}
	return book.Run(ctx, id)
}

// runKey tells runs apart: one may lie in a folder and in the logbook.
func runKey(run *evidence.Run) string {
	if run.Document == "" { // folded from events: what the logbook would keep of it
		sum := sha256.New()
		if (report.JSON{}).Write(sum, run) == nil {
			run.Document = hex.EncodeToString(sum.Sum(nil))
		}
	}
	return gate.Key(run)
}

// runHistory gives the runs below the folders and in the logbooks named; without any, those of .assay/runs and of the
// logbook: the one named, else $ASSAY_LOGBOOK, else .assay/logbook.db. nil where there is none of them.
func runHistory(env *Env, places []string, book string) gate.History {
	h := pastOf(env, places, book)
	if h == nil {
		return nil // not a nil pointer in an interface
	}
	return h
}

func pastOf(env *Env, places []string, book string) *past {
	h := &past{env: env, paths: map[string]string{}}
	if len(places) == 0 {
		if _, err := os.Stat(env.Path(runsFolder)); err == nil {
			h.folders = append(h.folders, runsFolder)
		}
		if path := logbookPath(env, book); book != "off" && logbook.Exists(path) {
			h.books = append(h.books, path)
		}
	}
	for _, place := range places {
		if path := env.Path(place); logbook.IsSQLite(path) {
			h.books = append(h.books, path)
		} else {
			h.folders = append(h.folders, place)
		}
	}
	if len(h.folders)+len(h.books) == 0 {
		return nil
	}
	return h
}

// checkAgainst refuses a history that is not there: it would read as one without runs.
func checkAgainst(env *Env, places []string) error {
	for _, place := range places {
		if _, err := os.Stat(env.Path(place)); err != nil {
			return fault.Exit(fmt.Errorf("--against: %w", err), fault.Usage)
		}
		if path := env.Path(place); logbook.IsSQLite(path) {
			if err := logbook.MustBe(path); err != nil {
				return fault.Exit(fault.Hint(fmt.Errorf("--against: %w", err), fault.HintOf(err)), fault.Usage)
			}
		}
	}
	return nil
}

// past is a history over folders that assay run wrote, and logbooks.
type past struct {
	env     *Env
	folders []string
	books   []string
	done    bool
	read    []*evidence.Run // of the folders, the newest first
	err     error
	paths   map[string]string // runKey → where it is
}

// Past gives every run below the folders, and of the logbooks those of the same subject; without a subject the newest
// of each. What does not belong to a baseline is left out by the gate.
func (h *past) Past(of *evidence.Run) ([]*evidence.Run, error) {
	if !h.done {
		h.done = true
		h.read, h.err = h.load()
	}
	if h.err != nil {
		return nil, h.err
	}
	runs, seen := slices.Clone(h.read), map[string]bool{}
	for _, run := range runs {
		seen[runKey(run)] = true
	}
	for _, path := range h.books {
		kept, err := h.ofBook(path, of)
		if err != nil {
			return nil, err
		}
		for _, run := range kept {
			if key := runKey(run); !seen[key] {
				seen[key] = true
				runs = append(runs, run)
			}
		}
	}
	return runs, nil
}

func (h *past) ofBook(path string, of *evidence.Run) ([]*evidence.Run, error) {
	ctx := context.Background()
	book, err := logbook.OpenRead(ctx, path)
	if err != nil {
		return nil, err
	}
	defer book.Close()
	if of == nil {
		list, err := book.List(ctx, logbook.Filter{Runs: true, Limit: 1})
		if err != nil || len(list) == 0 {
			return nil, err
		}
		if of, err = book.Run(ctx, list[0].ID); err != nil {
			return nil, err
		}
	}
	runs, ids, err := book.Past(ctx, of)
	if err != nil {
		return nil, err
	}
	for i, run := range runs {
		if key := runKey(run); h.paths[key] == "" {
			h.paths[key] = "record " + ids[i][:12] + " of " + path
		}
		slim(run)
	}
	return runs, nil
}

func (h *past) load() ([]*evidence.Run, error) {
	type found struct {
		path string
		at   int64
	}
	var files []found
	for _, folder := range h.folders {
		path := h.env.Path(folder)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--against: %w", err)
		}
		candidates := []string{path}
		if info.IsDir() {
			candidates = []string{filepath.Join(path, "evidence.json")}
			entries, err := os.ReadDir(path)
			if err != nil {
				return nil, fmt.Errorf("--against: %w", err)
			}
			for _, e := range entries {
				candidates = append(candidates, filepath.Join(path, e.Name(), "evidence.json"))
			}
		}
		for _, c := range candidates {
			if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
				files = append(files, found{c, info.ModTime().UnixNano()})
			}
		}
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].at > files[j].at })
	if len(files) > mostKept {
		files = files[:mostKept]
	}
	var runs []*evidence.Run
	seen := map[string]bool{}
	for _, file := range files {
		run, _, err := probe.Load(file.path)
		if err != nil {
			fmt.Fprintf(h.env.Stderr, "assay: left out of the history: %s\n", text.Lines(err.Error()))
			continue
		}
		if key := runKey(run); !seen[key] {
			seen[key] = true
			h.paths[key] = filepath.Dir(file.path)
			runs = append(runs, slim(run))
		}
	}
	sort.SliceStable(runs, func(i, j int) bool { return runs[i].Started.After(runs[j].Started) })
	return runs, nil
}

// slim leaves out of a run what no rule asks of an earlier one: four hundred whole ones would be much.
func slim(run *evidence.Run) *evidence.Run {
	all := run.Steps
	run.Steps = evidence.StepSeries{Number: all.Number, Total: all.Total, Kind: all.Kind, Thin: all.Thin}
	for i, sample := range run.Host.Samples {
		run.Host.Samples[i].Figures = slices.DeleteFunc(sample.Figures,
			func(f evidence.Figure) bool { return f.Name != "host.pressure" })
	}
	run.Provenance.Packages, run.Processes, run.Shapes = nil, nil, nil
	return run
}

// newest is the newest run below .assay/runs, or else of the logbook, whole; nil where there is none.
func newest(env *Env) (*evidence.Run, string, error) {
	h := pastOf(env, nil, "")
	if h == nil {
		return nil, "", nil
	}
	runs, err := h.Past(nil)
	if err != nil || len(runs) == 0 {
		return nil, "", err
	}
	run := runs[0] // those of the folders stand first
	if len(h.read) == 0 && len(h.books) > 0 {
		for _, r := range runs {
			if r.Started.After(run.Started) {
				run = r
			}
		}
		ctx := context.Background()
		b, err := logbook.OpenRead(ctx, h.books[0])
		if err != nil {
			return nil, "", err
		}
		defer b.Close()
		whole, err := b.Run(ctx, run.Document)
		return whole, h.paths[runKey(run)], err
	}
	whole, _, err := probe.Load(h.paths[runKey(run)])
	return whole, h.paths[runKey(run)], err
}
