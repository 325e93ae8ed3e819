package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
	"assay/internal/suite"
	"assay/internal/target"
	"assay/internal/unit"
)

// proofSeed chooses the sample of --releases-prove: the same tests each time.
const proofSeed = 1

// testReleases says of a suite that ran once what it would come to on other releases (docs/releases.md).
type testReleases struct {
	env   *Env
	asked bool
	prove int
	run   *testRun
}

func (e *testReleases) flags(f *pflag.FlagSet) {
	f.BoolVar(&e.asked, "releases", false,
		"say from this one run what the suite comes to on every release of PyTorch: --torch is the newest then")
	f.IntVar(&e.prove, "releases-prove", 0,
		"run `N` of the tests whose outcome changes on the releases around the change, and say which came out so")
}

func (e *testReleases) before(r *testRun) error {
	if e.prove < 0 {
		return fault.Hint(fmt.Errorf("--releases-prove %d: a number of tests above 0", e.prove),
			"see: assay test --help")
	}
	e.asked = e.asked || e.prove > 0
	if !e.asked {
		return nil
	}
	if len(r.targets) != 1 || !r.targets[0].Rehearsal() {
		return fault.Hint(fmt.Errorf("--releases asks every release of one run on the double"),
			"name one release with --torch, or none, and leave --on open")
	}
	if r.opts.asked.Torch == "" {
		known := (&atlas.Atlas{}).Releases("torch")
		r.targets[0].Release = known[len(known)-1].Version
	}
	r.releases, e.run = true, r
	return nil
}

func (e *testReleases) after(result *suite.Result) (int, error) {
	if !e.asked || len(result.Runs) == 0 {
		return -1, nil
	}
	f, err := suite.ForecastOf(filepath.Join(e.run.folder, result.Runs[0].Dir))
	if err != nil {
		return -1, fault.Hint(err, "no process of the suite imported PyTorch, or the run was not kept")
	}
	f.Assay = Version()
	f.With(&result.Runs[0])
	if e.prove > 0 {
		f.Proof = f.Sample(e.prove, proofSeed)
		if err := e.proven(f); err != nil {
			f.Proof.Missing = err.Error()
		}
	}
	if err := e.keep(f); err != nil {
		return -1, err
	}
	fmt.Fprintln(e.env.Stderr)
	return -1, f.Text(e.env.Stderr, width(e.env, e.env.Stderr))
}

// proven runs the sample, a release after the other.
func (e *testReleases) proven(f *suite.Forecast) error {
	limit, err := unit.ParseSeconds(e.run.opts.limit)
	if err != nil {
		return err
	}
	one := &suiteRunner{env: e.env, run: e.run, limit: time.Duration(limit * float64(time.Second)),
		secrets: &secret.Set{}, result: &suite.Result{}}
	interrupted := one.catch()
	defer interrupted()
	runs := f.Proof.Runs()
	for _, release := range f.Asked {
		if len(runs[release]) == 0 {
			continue
		}
		if one.stopped.Load() {
			return fmt.Errorf("it was interrupted before torch %s", release)
		}
		one.say(fmt.Sprintf("%d tests on torch %s, to prove the forecast", len(runs[release]), release))
		run, err := e.sample(one, release, runs[release])
		if err != nil {
			return fmt.Errorf("torch %s: %w", release, err)
		}
		f.Proof.Came(release, run)
	}
	return nil
}

// sample runs some tests on the double of a release.
func (e *testReleases) sample(one *suiteRunner, release string, only []string) (*suite.Run, error) {
	on := e.run.targets[0]
	device := ""
	if e.run.opts.deviceDefault {
		device = evidence.OnMPS
	}
	follows, err := one.supervisor(only, device)
	if err != nil {
		return nil, err
	}
	defer follows.Close()
	apart := *e.env
	apart.Stdout, apart.Stderr = io.Discard, io.Discard
	res, err := runSubject(context.Background(), &apart, runOptions{asked: target.Words{On: on.Device, Torch: release,
		Chip: on.Chip, MacOS: on.MacOS}, python: e.run.opts.python, profile: "off", warnEpoch: defaultWarnEpoch,
		noCPU: true, out: filepath.Join(e.run.folder, "proof-"+release), quiet: true, proven: true, logbook: "off",
		suite: follows}, e.run.command)
	if err != nil {
		return nil, err
	}
	res.LetGo()
	run := &suite.Run{}
	follows.Into(run)
	return run, nil
}

// keep writes the forecast beside the result, secrets taken out.
func (e *testReleases) keep(f *suite.Forecast) error {
	secrets := &secret.Set{}
	secrets.Environ(e.env.Environ)
	secrets.Words(e.run.command)
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the forecast for releases: %w", err)
	}
	clean := &suite.Forecast{}
	if err := json.NewDecoder(bytes.NewReader(secrets.JSON(data))).Decode(clean); err != nil {
		return fmt.Errorf("write the forecast for releases: %w", err)
	}
	*f = *clean
	return f.Write(filepath.Join(e.run.folder, suite.ReleasesName))
}
