package replay

import (
	"cmp"
	"slices"

	"assay/internal/signature"
)

// orderWords says in the header what Order does.
const orderWords = "one signature of each operator first, those that the tables say may fail before others, by count; " +
	"then the next of each"

// Order is in which order signatures are replayed, so that the first minute says most: of each operator one, then of
// each the next. Within a round those that the tables say may fail (risky) come first, then those that were called
// most.
func Order(list []*signature.Signature, risky func(*signature.Signature) bool) []int {
	type place struct {
		n, round int
		safe     bool
		count    int64
	}
	of := map[string][]place{}
	for n, s := range list {
		of[s.Name()] = append(of[s.Name()], place{n: n, safe: !risky(s), count: s.Count})
	}
	within := func(a, b place) int {
		safe := func(p place) int {
			if p.safe {
				return 1
			}
			return 0
		}
		return cmp.Or(safe(a)-safe(b), cmp.Compare(b.count, a.count), a.n-b.n)
	}
	var all []place
	for _, places := range of {
		slices.SortFunc(places, within)
		for round := range places {
			places[round].round = round
		}
		all = append(all, places...)
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(a.round-b.round, within(a, b)) })
	order := make([]int, len(all))
	for i, p := range all {
		order[i] = p.n
	}
	return order
}
