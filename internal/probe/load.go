package probe

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/fold"
	"assay/internal/secret"
)

// Load reads the evidence of a run's folder, or of an evidence.json itself. Where a run was cut off before its evidence
// was written, its events are folded now, and the evidence says that it is incomplete.
func Load(path string) (*evidence.Run, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: %w", path, err),
			"name a run's folder, or an evidence.json")
	}
	from, dir := path, filepath.Dir(path)
	if info.IsDir() {
		from, dir = filepath.Join(path, evidenceFile), path
	}
	data, err := readLimited(from, maxEvidence)
	if errors.Is(err, os.ErrNotExist) && info.IsDir() {
		run, err := loadEvents(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, "", fault.Hint(fmt.Errorf("read the run %s: no %s and no %s in it", path, evidenceFile,
				events.FileName), "name the folder that assay run printed")
		}
		if err != nil {
			return nil, "", err
		}
		operators(run, dir, &secret.Set{}, nil, func(string) {})
		return run, dir, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the run %s: %w", from, err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: not the evidence of a run: %w", from, err),
			"name the folder that assay run printed, or its evidence.json; this file is damaged, or something else")
	}
	if run.Schema == evidence.Schema && run.Kind != evidence.KindRun {
		err := fmt.Errorf("read the run %s: it is evidence of another kind: %q", from, run.Kind)
		return nil, "", fault.Hint(err, "name the folder that assay run printed, or its evidence.json")
	}
	if !run.IsRun() {
		return nil, "", fault.Hint(fmt.Errorf("read the run %s: schema %q, and this assay reads %q", from, run.Schema,
			evidence.Schema), "use the assay that wrote it, or a newer one")
	}
	run.Document = fmt.Sprintf("%x", sha256.Sum256(data))
	return &run, dir, nil
}

const maxEvidence = 512 << 20 // bytes

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return data, err
}

func loadEvents(dir string) (*evidence.Run, error) {
	tail, err := events.Open(dir)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	f := fold.New()
	if _, err := tail.More(f); err != nil {
		return nil, fmt.Errorf("read the run %s: %w", dir, err)
	}
	tail.Rest(f)
	if !f.Begun() {
		return nil, noRun(dir)
	}
	return f.Finish(), nil
}

func noRun(dir string) error {
	err := fmt.Errorf("read the run %s: not the events of a run", filepath.Join(dir, events.FileName))
	return fault.Hint(err, "name the folder that assay run printed")
}

// Following reads a run while it goes on, from its folder alone: in another process than assay's, by another user's
// leave.
type Following struct {
	dir  string
	tail *events.Tail
	fold *fold.Fold
}

// Follow opens a run's folder to be followed. Close it.
func Follow(dir string) (*Following, error) {
	tail, err := events.Open(dir)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("follow the run %s: %w", dir, err),
			"name the folder of a run that assay run has begun")
	}
	return &Following{dir, tail, fold.New()}, nil
}

// Close ends it.
func (f *Following) Close() { f.tail.Close() }

// More reads what was written since it was last called, and says whether anything was. The error: the file is not that
// of a run.
func (f *Following) More() (bool, error) {
	lines, err := f.tail.More(f.fold)
	if err != nil {
		return false, fmt.Errorf("follow the run %s: %w", f.dir, err)
	}
	if lines > 0 && !f.fold.Begun() {
		return false, noRun(f.dir)
	}
	return lines > 0, nil
}

// Ended reports whether the run has ended.
func (f *Following) Ended() bool { return f.fold.Ended() }

// Abandoned reports whether the assay that wrote the run has ended: a run that has not ended by then was cut off.
func (f *Following) Abandoned() bool { return f.tail.Abandoned() }

// Rest reads a last line that was cut off.
func (f *Following) Rest() { f.tail.Rest(f.fold) }

// Estimate is how long an epoch, the loop or the run takes, as far as can be told by now.
func (f *Following) Estimate() (fold.EstimateEvent, bool) { return f.fold.Estimate() }

// Run is the run as far as it goes.
func (f *Following) Run() *evidence.Run { return f.fold.SoFar() }

// Written reports whether the run's evidence has been written: some moments after it ended.
func (f *Following) Written() bool {
	_, err := os.Stat(filepath.Join(f.dir, evidenceFile))
	return err == nil
}
