package evidence

// Limit is a threshold that a run was judged by. Its name is that of the finding which says that it was crossed;
// whether a limit is crossed from the value on or above it, the finding's text says.
type Limit struct {
	Name   string  `json:"name"` // of the finding: long-epoch, data-wait, …
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`   // a base unit, as of a figure
	Source string  `json:"source"` // who set it: --warn-epoch, or where the default is from
}

// Limit returns the limit of that name that the run was judged by; ok is false where the evidence has none: an earlier
// assay kept none.
func (r *Run) Limit(name string) (limit Limit, ok bool) {
	for _, l := range r.Limits {
		if l.Name == name {
			return l, true
		}
	}
	return Limit{}, false
}

// PerEpoch is the pace of memory.growth, ratio an epoch: its N is the number of epochs whose ends the line goes
// through. known is false where there are fewer than two.
func (f Figure) PerEpoch() (pace float64, known bool) {
	if f.Value == nil || f.N < 2 {
		return 0, false
	}
	return *f.Value / float64(f.N-1), true
}

// The thresholds that assay comes with. Findings, summary, page, default gates, symptoms and verdicts go by these and
// by no others; a policy sets its own. S0 and S4 are the guides that docs/claims.md lists.
const (
	// LongEpoch, s: an epoch above it earns a warning, and counts as a long job (S0 part 6). --warn-epoch sets another
	// for a run.
	LongEpoch = 30 * 60.0

	// DataWait, ratio of a step: from here on a step waits for its data, and its profile is the loader's (S4 §12 tells
	// data planes from devices, and names no share; this one is assay's own).
	DataWait = 0.30

	// MemoryGrowth, ratio over GrowthEpochs epochs: memory that rises by more is held by somebody (S4 §4, second
	// threshold).
	MemoryGrowth = 0.26
	GrowthEpochs = 10
	GrowthPace   = MemoryGrowth / GrowthEpochs // ratio an epoch: the same of a run of any length

	// Speedup, ratio: a step on MPS that is less shorter than on the CPU gains little (S4 §4, first threshold).
	Speedup = 0.22

	// GPUBusy, ratio of the time: below it the GPU waits for work (S4 §4, first threshold).
	GPUBusy = 0.18

	// LossDrift, |a − b| / |b|: losses that lie within follow one another (S4 §4, third threshold, which names no
	// tolerance: 1e-3 suits float32 over some hundred steps).
	LossDrift = 1e-3
)

// What disturbs a measurement, from which on a figure bears a mark: docs/quiet.md has the measurements that they are
// from.
const (
	LostCPU   = 0.05 // ratio of the processor time that the run could have used, taken by others
	QuotaTime = 0.05 // ratio of the time, in which the cgroup's quota was used up
	HeatTime  = 0.05 // ratio of the time, in which the processor was slowed down for its heat
	// B/s in and out: 256 pages of 4 KiB a second, some 0.1 ms each from a good disk, are 2.5 % of a processor's time
	SwapRate = 1 << 20
)
