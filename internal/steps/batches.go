package steps

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"assay/internal/golden"
)

// CompareBatches compares several pairs, each of one batch size: a fault that begins beyond a size shows as the batch
// from which on they depart. The result is that of the smallest batch that departs, or else of the largest, with what
// was said of each.
func CompareBatches(pairs [][2]*Recording, options Options) (*Result, error) {
	if len(pairs) == 0 {
		return nil, errors.New("no recordings to compare")
	}
	pairs = slices.Clone(pairs)
	size := func(p [2]*Recording) int64 {
		if p[0].Batch == nil {
			return 0
		}
		return *p[0].Batch
	}
	slices.SortStableFunc(pairs, func(x, y [2]*Recording) int { return cmp.Compare(size(x), size(y)) })
	var chosen *Result
	var all []ByBatch
	agreed := ""
	for _, p := range pairs {
		r, err := Compare(p[0], p[1], options)
		if err != nil {
			return nil, err
		}
		by := ByBatch{Batch: p[0].Batch, Answer: r.Answer, Why: r.Why}
		if first := cmp.Or(r.Operators.First, r.Modules.First); first != nil && r.Answer == golden.Departs {
			by.Where = first.Name
			if first.Module != "" {
				by.Where += " in " + first.Module
			}
		}
		all = append(all, by)
		if chosen == nil || chosen.Answer != golden.Departs {
			chosen = r
			if r.Answer == golden.Departs && agreed != "" {
				r.Why = fmt.Sprintf("%s, departs at a batch of %d: %s", agreed, size(p), r.Why)
			}
			if r.Answer == golden.Same {
				agreed = fmt.Sprintf("agrees at a batch of %d", size(p))
			}
		}
	}
	if len(pairs) > 1 {
		chosen.Batches = all
	}
	return chosen, nil
}
