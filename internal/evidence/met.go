package evidence

import "slices"

// MetBy lists the facts of an outcome that were met for sure, or perhaps: each with its rows, in their order.
func MetBy(met []Met, sure bool, outcome string) [][]Met {
	var list [][]Met
	for _, m := range met {
		if m.Sure != sure || m.Outcome != outcome {
			continue
		}
		i := slices.IndexFunc(list, func(rows []Met) bool { return rows[0].Fact == m.Fact })
		if i < 0 {
			list = append(list, []Met{m})
			continue
		}
		list[i] = append(list[i], m)
	}
	return list
}
