package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/gate"
)

const (
	apart     = 7 * 24 * time.Hour
	dataShift = 0.05 // shares of data loading that differ by less count as the same
)

// StopRule and StopBecause are the rule in words.
var (
	StopRule = fmt.Sprintf("when two profiled runs on MPS of the same script and data, at least a week apart, both fail a gate of the policy, both with data loading normalised "+
		"(same batch and workers; data below %.0f %% of the step, and within %.0f points of each other), and the same three operators take most of the time in both, "+
		"then change the contract: rewrite those layers, move them to the CPU on purpose, take another framework, or move the heavy phase to other hardware", 100*evidence.DataWait, 100*dataShift)
	StopBecause = "tuning goes on without end otherwise: no release will mend what has not moved in a week. Write the decision down, with what was tried and why it failed [S4 §20]"
)

// Stop is what the stopping rule says.
type Stop struct {
	Outcome   string   `json:"holds"` // yes, no, cannot tell
	Text      string   `json:"text"`
	Operators []string `json:"operators"`
	Gates     []string `json:"gates"` // that failed in both
	Runs      []RunRef `json:"runs"`
	Needs     string   `json:"needs,omitempty"`
}

// StoppingRule looks for two iterations that end the tuning.
func StoppingRule(runs []*evidence.Run, policy *gate.Policy, paths map[string]string) Stop {
	none := func(text string) Stop {
		return Stop{Outcome: "no", Text: text, Operators: []string{}, Gates: []string{}, Runs: []RunRef{}}
	}
	var iterations []*evidence.Run
	for _, run := range runs {
		same := func(other *evidence.Run) bool { return gate.Key(other) == gate.Key(run) }
		if gate.Device(run) == "mps" && !slices.ContainsFunc(iterations, same) &&
			evidence.Title(runs[0]) == evidence.Title(run) {
			iterations = append(iterations, run)
		}
	}
	sort.SliceStable(iterations, func(i, j int) bool { return iterations[i].Started.Before(iterations[j].Started) })
	if len(iterations) < 2 {
		return none("fewer than two runs on MPS")
	}
	if policy == nil {
		policy = gate.Default()
	}
	reports := map[*evidence.Run]*gate.Report{}
	judge := func(run *evidence.Run) *gate.Report {
		if reports[run] == nil {
			others := []*evidence.Run{run}
			for _, r := range runs { // to compare with, and no other iteration
				if gate.Device(r) != "mps" {
					others = append(others, r)
				}
			}
			reports[run] = gate.Judge(policy, &gate.Set{Runs: others})
		}
		return reports[run]
	}
	var open *Stop // the newest pair that cannot be told
	why := "no two runs on MPS lie a week apart"
	for j := len(iterations) - 1; j > 0; j-- { // the newest against the oldest that fits
		for i := range j {
			first, last := iterations[i], iterations[j]
			if last.Started.Sub(first.Started) < apart {
				continue
			}
			top, other := gate.Hottest(last), gate.Hottest(first)
			refs := []RunRef{ref(first, paths), ref(last, paths)}
			cannot := func(needs, format string, args ...any) {
				if open == nil {
					open = &Stop{Outcome: "cannot tell", Text: fmt.Sprintf(format, args...), Operators: top,
						Gates: []string{}, Runs: refs, Needs: needs}
				}
			}
			if len(top) < 3 || len(other) < 3 {
				cannot("two runs with a profile (--profile=auto)",
					"a profile of one of two runs a week apart is missing")
				continue
			}
			if !sameSet(top, other) {
				why = fmt.Sprintf("the hottest operators changed: %s, then %s", strings.Join(other, ", "),
					strings.Join(top, ", "))
				continue
			}
			if different, unknown := normalised(first, last); different != "" {
				why = "the same three operators, and data loading is not normalised: " + different
				continue
			} else if unknown != "" {
				cannot(gate.RunOn(last, "mps"),
					"the same three operators are on top, and whether data loading was normalised is not known: %s",
					unknown)
				continue
			}
			var both []string
			unknown := ""
			before, after := judge(first), judge(last)
			for k, r := range after.Gates {
				switch was := before.Gates[k].Outcome; {
				case r.Outcome == gate.Fail && was == gate.Fail:
					both = append(both, r.Name)
				case r.Outcome == gate.Unknown && was != gate.Pass && was != gate.NotAsked, was == gate.Unknown &&
					r.Outcome == gate.Fail:
					unknown = r.Name
					for _, need := range append(before.Gates[k].Needs(), r.Needs()...) {
						unknown += "; " + need
						break
					}
				}
			}
			switch {
			case len(both) > 0:
				return Stop{Outcome: "yes", Operators: top, Gates: both, Runs: refs,
					Text: fmt.Sprintf("change the contract: %.0f days apart, data loading normalised, %s failing in both, the same three operators take most of the time: %s",
						last.Started.Sub(first.Started).Hours()/24, strings.Join(both, " and "),
						strings.Join(top, ", "))}
			case unknown != "":
				name, needs, _ := strings.Cut(unknown, "; ")
				cannot(needs, "the same three operators are on top a week apart, and the gate %s cannot be told", name)
			default:
				why = "the same three operators are on top a week apart, and no gate fails in both runs"
			}
		}
	}
	if open != nil {
		return *open
	}
	return none(why)
}

func ref(run *evidence.Run, paths map[string]string) RunRef {
	path := paths[gate.Key(run)]
	if run.Document == "" {
		path = cmp.Or(path, paths[run.ID])
	}
	return RunRef{ID: run.ID, Document: run.Document, Started: run.Started, Device: gate.Device(run), Path: path}
}

func sameSet(a, b []string) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// normalised says in what the data loading of two runs differs, or what of it is not known.
func normalised(a, b *evidence.Run) (different, unknown string) {
	if len(a.Provenance.Datasets) == 0 || len(b.Provenance.Datasets) == 0 {
		return "", "no loader was seen"
	}
	x, y := a.Provenance.Datasets[0], b.Provenance.Datasets[0]
	switch {
	case x.Type != y.Type || x.Length != y.Length || x.Fingerprint != "" && y.Fingerprint != "" &&
		x.Fingerprint != y.Fingerprint:
		return "the data differ", ""
	case x.Batch != y.Batch:
		return fmt.Sprintf("batch %d, then %d", x.Batch, y.Batch), ""
	case x.Workers != y.Workers:
		return fmt.Sprintf("%d workers, then %d", x.Workers, y.Workers), ""
	}
	p, q := a.Figure("share.data"), b.Figure("share.data")
	for _, f := range []evidence.Figure{p, q} {
		if !f.Known() {
			return "", "share.data: " + f.Missing
		}
		if f.Disturbed != "" {
			return "", "share.data was disturbed: " + f.Disturbed
		}
		if *f.Value >= evidence.DataWait {
			return fmt.Sprintf("%.0f %% of a step is spent waiting for data", 100**f.Value), ""
		}
	}
	if math.Abs(*p.Value-*q.Value) > dataShift {
		return fmt.Sprintf("data take %.0f %% of a step, then %.0f %%", 100**p.Value, 100**q.Value), ""
	}
	return "", ""
}
