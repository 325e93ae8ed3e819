package suite

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// series is a minor release of PyTorch, 2.14, as a number that orders them; patches of one count as that one.
type series int

const (
	perMajor             = 1000 // more minor releases than a major one ever has
	first, last   series = 0, math.MaxInt32
	maxSeriesText        = 1000 // characters of a set
)

var seriesForm = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})(?:[.a-z+].*)?$`)

// seriesOf takes 2.14 from 2.14, 2.14.0 and 2.14.0a0+git.
func seriesOf(release string) (series, bool) {
	m := seriesForm.FindStringSubmatch(release)
	if m == nil {
		return 0, false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return series(major*perMajor + minor), true
}

func (s series) String() string { return fmt.Sprintf("%d.%d", s/perMajor, s%perMajor) }

// span are the releases from one to another, both counted.
type span struct{ from, to series }

// releases is a set of releases: spans that ascend and do not touch. nil: every release.
type releases []span

// parseReleases reads what follows torch=: 2.6,2.9..2.14 or 2.9.. or ..2.8.
func parseReleases(s string) (releases, error) {
	wrong := func(part string) error {
		return fmt.Errorf("torch=%s: write releases such as 2.6,2.8 or 2.6..2.8; 2.8.. is all from 2.8 on", part)
	}
	if len(s) > maxSeriesText {
		return nil, fmt.Errorf("torch= has %d characters; %d are read", len(s), maxSeriesText)
	}
	var set releases
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(part, "..")
		one := span{first, last}
		ends := []struct {
			text string
			at   *series
		}{{from, &one.from}, {to, &one.to}}
		if !ranged {
			ends[1].text = from
		}
		for _, end := range ends {
			if end.text == "" && ranged {
				continue
			}
			value, ok := seriesOf(end.text)
			if !ok || value.String() != end.text {
				return nil, wrong(part)
			}
			*end.at = value
		}
		if one.from > one.to {
			return nil, wrong(part)
		}
		set = append(set, one)
	}
	return set.joined(), nil
}

// joined orders the spans and puts those that touch together.
func (r releases) joined() releases {
	slices.SortFunc(r, func(a, b span) int { return int(a.from) - int(b.from) })
	out := releases{}
	for _, s := range r {
		if n := len(out); n > 0 && (out[n-1].to == last || s.from <= out[n-1].to+1) {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r releases) has(one series) bool {
	return r == nil || slices.ContainsFunc(r, func(s span) bool { return s.from <= one && one <= s.to })
}

func (r releases) with(one series) releases {
	if r == nil {
		return nil
	}
	return append(slices.Clone(r), span{one, one}).joined()
}

// without leaves one out of a set that is not every release.
func (r releases) without(one series) releases {
	out := releases{}
	for _, s := range r {
		if one < s.from || s.to < one {
			out = append(out, s)
			continue
		}
		if s.from < one {
			out = append(out, span{s.from, one - 1})
		}
		if one < s.to {
			out = append(out, span{one + 1, s.to})
		}
	}
	return out
}

// meets says whether two sets have a release in common.
func (r releases) meets(other releases) bool {
	if r == nil || other == nil {
		return true
	}
	for _, s := range r {
		if slices.ContainsFunc(other, func(o span) bool { return s.from <= o.to && o.from <= s.to }) {
			return true
		}
	}
	return false
}

// least is the first release of the set.
func (r releases) least() series {
	if len(r) == 0 {
		return first
	}
	return r[0].from
}

// String is what stands behind torch=; "" for every release.
func (r releases) String() string {
	var parts []string
	for _, s := range r {
		switch {
		case s.from == s.to:
			parts = append(parts, s.from.String())
		case s.from == first:
			parts = append(parts, ".."+s.to.String())
		case s.to == last:
			parts = append(parts, s.from.String()+"..")
		default:
			parts = append(parts, s.from.String()+".."+s.to.String())
		}
	}
	return strings.Join(parts, ",")
}
