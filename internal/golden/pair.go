package golden

import (
	"slices"
	"strings"
)

// pairing says which names of B stand for those of A, and how that was found.
type pairing struct {
	to  map[string]string // name of A -> name of B
	how map[string]string // name of A -> why
	// alone are those that have no partner, in the order of their side
	aloneA, aloneB []string
}

// named is what is paired: a name, what it has to have in common with its partner ("": nothing), and where it stands.
type named struct {
	name, same string
	at         int
}

// The ways in which names are paired, from the surest on.
const (
	byName  = "same name"
	bySpell = "same name but for separators"
	byEnd   = "one name ends with the other"
	byOrder = "same kind and shape, in the same order"
)

var separators = strings.NewReplacer("/", "", ".", "", "_", "")

func spelled(name string) string { return strings.ToLower(separators.Replace(name)) }

// pair pairs names: those that are the same, those that are but for separators, those of which one ends with the other,
// and what is left by what they have in common, in order.
func pair(a, b []named) pairing {
	p := pairing{to: map[string]string{}, how: map[string]string{}}
	taken := map[string]bool{}
	left := func() []named {
		return slices.DeleteFunc(slices.Clone(a), func(n named) bool { return p.how[n.name] != "" })
	}
	free := func() []named {
		return slices.DeleteFunc(slices.Clone(b), func(n named) bool { return taken[n.name] })
	}
	join := func(one, other named, how string) {
		p.to[one.name], p.how[one.name] = other.name, how
		taken[other.name] = true
	}
	for _, way := range []struct {
		how string
		key func(name string) string
	}{{byName, func(name string) string { return name }}, {bySpell, spelled}} {
		ones, others := map[string][]named{}, map[string][]named{}
		for _, n := range left() {
			ones[way.key(n.name)] = append(ones[way.key(n.name)], n)
		}
		for _, n := range free() {
			others[way.key(n.name)] = append(others[way.key(n.name)], n)
		}
		for key, one := range ones {
			if other := others[key]; len(one) == 1 && len(other) == 1 {
				join(one[0], other[0], way.how)
			}
		}
	}
	p.byEnds(left(), free(), join)
	byPlace := func(n []named) []named {
		slices.SortStableFunc(n, func(x, y named) int { return x.at - y.at })
		return n
	}
	rest, others := byPlace(left()), byPlace(free())
	for _, at := range common(rest, others) {
		join(rest[at[0]], others[at[1]], byOrder)
	}
	for _, n := range left() {
		p.aloneA = append(p.aloneA, n.name)
	}
	for _, n := range free() {
		p.aloneB = append(p.aloneB, n.name)
	}
	return p
}

// byEnds joins names of which one ends with the other, where on both sides there is one such alone.
func (p *pairing) byEnds(a, b []named, join func(one, other named, how string)) {
	if len(a) > mostLeft || len(b) > mostLeft {
		return
	}
	ends := make([]string, len(b))
	for i, n := range b {
		ends[i] = spelled(n.name)
	}
	found := make([][]int, len(a))
	wanted := make([]int, len(b))
	for i, one := range a {
		name := spelled(one.name)
		for j, other := range b {
			if one.same == other.same && (strings.HasSuffix(name, ends[j]) || strings.HasSuffix(ends[j], name)) {
				found[i] = append(found[i], j)
				wanted[j]++
			}
		}
	}
	for i, one := range a {
		if len(found[i]) == 1 && wanted[found[i][0]] == 1 {
			join(one, b[found[i][0]], byEnd)
		}
	}
}

// mostLeft bounds what is paired by ends and by order: the work is of the square.
const mostLeft = 4000

// common is the longest common subsequence of two lists by what their members have in common: pairs of places.
func common(a, b []named) [][2]int {
	if len(a) > mostLeft || len(b) > mostLeft {
		return nil
	}
	length := make([][]int32, len(a)+1)
	for i := range length {
		length[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			length[i][j] = max(length[i+1][j], length[i][j+1])
			if a[i].same == b[j].same {
				length[i][j] = max(length[i][j], length[i+1][j+1]+1)
			}
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].same == b[j].same && length[i][j] == length[i+1][j+1]+1:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
