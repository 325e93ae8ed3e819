package models

import (
	"cmp"
	"fmt"
	"slices"

	"assay/internal/atlas"
	"assay/internal/unit"
)

// Advice is what the table has for a task on a Mac: a short list, what else would do, what is left out, and why each.
type Advice struct {
	Task    string    `json:"task"`
	Torch   string    `json:"torch"`
	Limit   Limit     `json:"limit"`
	List    []Advised `json:"list"`
	Also    []string  `json:"also"` // that would do as well, by name
	LeftOut []Left    `json:"left_out"`
	Unknown []string  `json:"not_known"` // what the list does not go by
}

// Advised is a model of the short list, with the reasons.
type Advised struct {
	Name       string   `json:"name"`
	Family     string   `json:"family"`
	Package    string   `json:"package"`
	Parameters int64    `json:"parameters"`
	Input      string   `json:"input"`
	State      string   `json:"state"`
	Batch      int      `json:"batch"` // the largest of the table's that fits
	Peak       int64    `json:"peak"`  // bytes at that batch
	Reasons    []string `json:"reasons"`
	Perhaps    []string `json:"perhaps"` // facts of wrong results of which one call does not tell
}

// Left is a model that is left out, and why.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// longList is how many models are advised; each is of a family of its own.
const longList = 5

// unknown is what no list of ours goes by.
var unknown = []string{
	"how accurate a model is on any data: compare published results for the task",
	"how fast it is on that Mac: assay run measures, on the Mac",
	"other sizes, batches and precisions than the table's: assay run --on double rehearses your own script",
	"what else takes memory there: data loaders, a browser, an evaluation's larger batch",
}

// Advise makes the list for a task that the table has, in a release that it has, on a Mac with such a limit of memory.
// First comes what runs without a detour, then what has done so for longest, then what needs least memory: which of two
// that run is better nobody here knows.
func (t *Table) Advise(task, release string, limit Limit) *Advice {
	advice := &Advice{Task: task, Torch: release, Limit: limit, List: []Advised{}, Also: []string{}, LeftOut: []Left{},
		Unknown: unknown}
	var can []Answer
	for i := range t.Models {
		m := &t.Models[i]
		if m.Task != task {
			continue
		}
		a := t.At(m, release)
		if why := a.unfit(limit); why != "" {
			advice.LeftOut = append(advice.LeftOut, Left{m.Name, why})
			continue
		}
		can = append(can, a)
	}
	slices.SortStableFunc(can, func(x, y Answer) int {
		bx, px := x.fits(limit)
		by, py := y.fits(limit)
		return cmp.Or(cmp.Compare(slices.Index(States, x.State), slices.Index(States, y.State)),
			-cmp.Compare(bx, by), atlas.CompareReleases(x.Since, y.Since), cmp.Compare(px, py))
	})
	seen := map[string]bool{}
	for _, a := range can {
		if len(advice.List) == longList || seen[a.Model.Family] {
			advice.Also = append(advice.Also, a.Model.Name)
			continue
		}
		seen[a.Model.Family] = true
		batch, peak := a.fits(limit)
		advice.List = append(advice.List, Advised{a.Model.Name, a.Model.Family, a.Model.Package, a.Model.Parameters,
			a.Model.Input, a.State, batch, peak, a.reasons(limit, batch, peak),
			append([]string{}, a.Perhaps...)})
	}
	return advice
}

// Limit is the memory of a Mac with so much under a macOS; false where it is not known.
func (t *Table) Limit(gib, macos int) (Limit, bool) {
	for _, l := range t.Limits {
		if l.GiB == gib && l.MacOS == macos {
			return l, true
		}
	}
	return Limit{}, false
}

// fits is the largest batch of the table's whose peak is within the limit, and that peak; 0 where none is.
func (a Answer) fits(limit Limit) (batch int, peak int64) {
	for _, b := range Batches {
		if p, known := a.Model.Peak(b); known && p <= limit.Bytes {
			batch, peak = b, p
		}
	}
	return batch, peak
}

// unfit says why a model is left out; "" where it is not.
func (a Answer) unfit(limit Limit) string {
	switch a.State {
	case Wrong, Stops, NotKnown:
		why := a.State
		if a.Why != "" {
			why += ": " + a.Why
		}
		if a.Later != "" {
			why += "; runs in " + a.Later
		}
		return why
	}
	if part := a.Model.Part(); part != "" {
		return fmt.Sprintf("%s, and what the whole takes is not known: %s of it were rehearsed", a.State, part)
	}
	if batch, _ := a.fits(limit); batch > 0 {
		return ""
	}
	for _, b := range Batches {
		if peak, known := a.Model.Peak(b); known {
			return fmt.Sprintf("batch %d takes %s at %s, more than %s", b, unit.Bytes(float64(peak)), a.Model.Input,
				unit.Bytes(float64(limit.Bytes)))
		}
	}
	return "its peak is not known: " + a.Model.Peaks[0].Why
}

func (a Answer) reasons(limit Limit, batch int, peak int64) []string {
	first := fmt.Sprintf("%s forward and backward, since torch %s", a.State, a.Since)
	if a.Why != "" {
		first += ": " + a.Why
	}
	list := []string{first, fmt.Sprintf("batch %d takes %s of the %s that Metal recommends, at %s", batch,
		unit.Bytes(float64(peak)), unit.Bytes(float64(limit.Bytes)), a.Model.Input)}
	if largest := Batches[len(Batches)-1]; batch < largest {
		if p, known := a.Model.Peak(largest); known {
			list = append(list, fmt.Sprintf("batch %d would take %s", largest, unit.Bytes(float64(p))))
		}
	}
	if len(a.Perhaps) == 0 {
		list = append(list, "no wrong result is known that it meets")
	}
	return list
}

// ofAll are the facts that each of the list meets perhaps.
func (a *Advice) ofAll() []string {
	if len(a.List) < 2 {
		return nil
	}
	var all []string
	for _, fact := range a.List[0].Perhaps {
		if !slices.ContainsFunc(a.List, func(m Advised) bool { return !slices.Contains(m.Perhaps, fact) }) {
			all = append(all, fact)
		}
	}
	return all
}
