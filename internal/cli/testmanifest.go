package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"assay/internal/fault"
	"assay/internal/suite"
)

// testManifest holds a suite against its file of expected failures, and writes that.
type testManifest struct {
	env      *Env
	path     string // as typed
	update   bool
	manifest *suite.Manifest
	chosen   suite.Selection
	asked    int              // runs
	judged   *suite.Judgement // after the runs
}

func (m *testManifest) flags(f *pflag.FlagSet) {
	f.StringVar(&m.path, "manifest", "",
		"`file` of the failures that are expected on MPS: a new failure and an unexpected pass give exit status 1 "+
			"(docs/formats/manifest.md)")
	f.BoolVar(&m.update, "update", false, "write the manifest anew from what the tests come to, and say what changed")
}

func (m *testManifest) before(r *testRun) (err error) {
	if m.path == "" {
		if m.update {
			return fault.Hint(fmt.Errorf("--update: there is no manifest to write"), "name it: --manifest FILE")
		}
		return nil
	}
	for _, t := range r.targets {
		if !t.IsMPS() {
			return fault.Hint(fmt.Errorf("--manifest %s: it has failures on MPS, and the tests are to run on %s", m.path,
				t.Device), "leave --manifest out, or run them with --on double or --on mps")
		}
	}
	m.asked = len(r.targets)
	m.chosen = suite.Select(r.command, m.env.Getenv("PYTEST_ADDOPTS"), func(word string) bool {
		_, err := os.Lstat(m.env.Path(word))
		return err == nil
	})
	m.manifest, err = suite.OpenManifest(m.env.Path(m.path), m.update)
	if err == nil && m.update { // before the tests have run for hours
		_, err = os.Stat(filepath.Dir(m.env.Path(m.path)))
	}
	return err
}

func (m *testManifest) after(r *suite.Result) (int, error) {
	if m.path == "" {
		return -1, nil
	}
	width := width(m.env, m.env.Stderr)
	if m.update {
		change, err := m.manifest.Update(r.Runs, m.asked, m.chosen)
		if err == nil {
			err = m.manifest.Write(m.env.Path(m.path))
		}
		if err == nil {
			err = change.Text(m.env.Stderr, m.path, width)
		}
		if err != nil {
			return -1, err
		}
	}
	judged, err := m.manifest.Judge(r.Runs, m.chosen)
	if err != nil {
		return -1, err
	}
	m.judged = judged
	return judged.Status(r.Runs), judged.Text(m.env.Stderr, m.path, width)
}
