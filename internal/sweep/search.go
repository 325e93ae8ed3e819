package sweep

import (
	"maps"
	"math"
	"slices"
)

// Range is where the largest batch is looked for: the multiples of Multiple from From to To.
type Range struct {
	From     int `json:"from"`     // rows, 1 or more
	To       int `json:"to"`       // rows; 0: as far as it goes
	Multiple int `json:"multiple"` // rows, 1 or more
}

// mostRows bounds a search that nothing else ends: no loader makes batches of that size.
const mostRows = 1 << 24

// ends are the range in multiples: the first and the last.
func (r Range) ends() (lo, hi int) {
	to := r.To
	if to <= 0 || to > mostRows {
		to = mostRows
	}
	m := max(r.Multiple, 1)
	return max((r.From+m-1)/m, 1), to / m
}

// Reading is what one trial tells the search.
type Reading struct {
	Batch int
	Fits  bool
	Peak  float64 // bytes that the allocator held at most; 0: not known
	Live  float64 // bytes of the tensors in it at most, until memory was refused where it was; 0: not known
	Fixed float64 // bytes of Live that do not grow with the rows, as far as an account knows it; 0: nobody kept one
	Needs float64 // bytes that a batch that does not fit needs at least, as the allocator said; 0: it did not
	Limit float64 // bytes that it may hold, as this trial told it; 0: it did not
}

// Step is what a search wants next.
type Step struct {
	Batch int    // rows to try
	Again bool   // a trial of this batch disagrees with others: this one decides
	Done  bool   // nothing more is to be tried
	Why   string // for a reader: where the batch comes from
}

// Next says which batch to try after these readings, in the order in which they were taken. first is tried first, 0:
// firstRows. limit is what the allocator may hold in bytes, 0: not known; a limit that a reading tells goes before it.
//
// It keeps a bracket: the largest batch that fits, and the smallest above it that does not. A line through what the
// tensors took in the trials that fitted says where in it the limit is met; where the line is wrong, growing steps
// lead away from it, and then halves. What it ends with was tried: the batch fits, and the next one does not.
func Next(r Range, first int, limit float64, readings []Reading) Step {
	s := newSearch(r, limit, readings)
	if b := s.doubtful(); b > 0 {
		return Step{Batch: b * s.m, Again: true, Why: "again, since it disagrees with other trials"}
	}
	if s.bad <= s.ok+1 {
		return Step{Done: true}
	}
	i, why := s.guess(first)
	return Step{Batch: min(max(i, s.ok+1), s.bad-1) * s.m, Why: why}
}

// Best is the largest batch that fits after these readings, and the smallest above it that does not; 0: none.
func Best(r Range, readings []Reading) (fits, fails int) {
	s := newSearch(r, 0, readings)
	_, hi := r.ends()
	if s.ok >= s.lo {
		fits = s.ok * s.m
	}
	if s.bad <= hi {
		fails = s.bad * s.m
	}
	return fits, fails
}

// firstRows is the batch that is tried first where nobody names one: small enough to fit nearly anywhere, and large
// enough that its peak is more than that of the parameters.
const firstRows = 8

// search is the state that readings lead to, in multiples.
type search struct {
	m, lo, hi int
	ok, bad   int // fits, lo-1: none known; does not fit, hi+1: none known
	limit     float64
	told      bool // the limit is one that a trial told
	points    []point
	failed    []int   // batches that do not fit
	needs     float64 // bytes that the smallest batch that does not fit needs at least; 0: not known
	held      float64 // bytes that were live in it when memory was refused; 0: not known
	readings  []Reading
	late      int // trials from the first that did not fit
}

// point is a batch that fits, with its peaks in bytes, by batch.
type point struct {
	i                 int
	peak, live, fixed float64
}

func newSearch(r Range, limit float64, readings []Reading) *search {
	s := &search{m: max(r.Multiple, 1), limit: limit, readings: readings}
	s.lo, s.hi = r.ends()
	s.ok, s.bad = s.lo-1, s.hi+1
	fits, peaks, lives, fixed, needs, held := map[int]bool{}, map[int]float64{}, map[int]float64{}, map[int]float64{},
		map[int]float64{}, map[int]float64{}
	for _, x := range readings {
		i := x.Batch / s.m
		fits[i] = x.Fits // the last word
		if x.Fits {
			peaks[i], lives[i], fixed[i] = max(peaks[i], x.Peak), max(lives[i], x.Live), x.Fixed
		} else {
			held[i] = max(held[i], x.Live)
		}
		needs[i] = max(needs[i], x.Needs)
		if x.Limit > 0 && (!x.Fits || !s.told) {
			s.limit, s.told = x.Limit, s.told || !x.Fits
		}
	}
	for _, x := range readings {
		if s.limit > 0 && !s.told && x.Fits && x.Peak > s.limit { // it is not the limit that was named
			s.limit = beyond * x.Peak
		}
	}
	if n := slices.IndexFunc(readings, func(x Reading) bool { return !x.Fits }); n >= 0 {
		s.late = len(readings) - n
	}
	for i, f := range fits {
		if !f {
			s.bad = min(s.bad, i)
			s.failed = append(s.failed, i)
		}
	}
	for i := range fits {
		if i < s.bad && fits[i] {
			s.ok = max(s.ok, i)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(fits)) {
		if i <= s.ok && fits[i] && peaks[i] > 0 {
			s.points = append(s.points, point{i, peaks[i], lives[i], fixed[i]})
		}
	}
	s.needs, s.held = needs[s.bad], held[s.bad]
	return s
}

// beyond is what the limit is taken for, as a part of a peak that has been above the limit that was named.
const beyond = 2

// surprise is how far below the limit, as a part of it, a batch is expected whose failure is not believed at once.
const surprise = 0.8

// doubtful is a batch whose trial disagrees with others and was not run again: it failed where a larger one fits, or
// where the line is far below the limit that the failure itself told. 0: none.
func (s *search) doubtful() int {
	runs := map[int]int{}
	largest := 0
	for _, x := range s.readings {
		i := x.Batch / s.m
		runs[i]++
		if x.Fits {
			largest = max(largest, i)
		}
	}
	for _, x := range s.readings {
		i := x.Batch / s.m
		if x.Fits || runs[i] > 1 {
			continue
		}
		if i < largest {
			return i
		}
		slope, at, loose, ok := s.line()
		if ok && !loose && i <= 2*at.i && at.peak+slope*float64(i-at.i) < surprise*x.Limit {
			return i
		}
	}
	return 0
}

// line through the points: bytes a multiple, and the point from which it goes on. Of the slopes over all points and
// over the last two the steeper one: memory that grows faster than the batch is met from below. The measure is what the
// tensors take, where trials told it: what an allocator holds beyond them it gives up before it refuses. loose is
// whether it holds much beyond them: then some is lost between the tensors, and the limit is met somewhat earlier.
// ok is false where there are not two points, or memory does not grow.
func (s *search) line() (slope float64, at point, loose, ok bool) {
	n := len(s.points)
	if n < 2 {
		return 0, point{}, false, false
	}
	points := slices.Clone(s.points)
	first, last := points[0], points[n-1]
	if first.live > 0 && last.live > first.live {
		for i, p := range points {
			loose = loose || p.peak > slack*p.live
			points[i].peak = p.live
		}
		first, last = points[0], points[n-1]
	}
	slope = (last.peak - first.peak) / float64(last.i-first.i)
	// over neighbours the grain of the allocator is all that would be seen
	if before := points[n-2]; 10*(last.i-before.i) > last.i {
		slope = max(slope, (last.peak-before.peak)/float64(last.i-before.i))
	}
	return slope, last, loose, slope > 0
}

// slack is what an allocator holds for each byte of the tensors from which on it is loose.
const slack = 1.05

// patience is after how many trials from the first that did not fit a bracket is halved, whatever the line says.
const patience = 6

// guess is the next batch, in multiples; it may lie outside the bracket.
func (s *search) guess(first int) (i int, why string) {
	tried := len(s.readings) > 0
	switch {
	case !tried:
		if first <= 0 {
			first = firstRows
		}
		return max(first/s.m, s.lo), "the first"
	case s.ok < s.lo: // nothing fits so far
		return (s.ok + s.bad) / 2, "half of one that does not fit"
	case s.limit <= 0 || len(s.points) == 0, // nothing to reckon with
		s.late > patience: // or nothing that reckons right
		return s.halve()
	case len(s.points) == 1:
		p := s.points[0]
		if p.fixed > 0 && p.fixed < p.live && p.live < s.limit { // an account says what of it is due to the rows
			most := 1.0
			if p.peak > slack*p.live {
				most = nearly
			}
			if g := p.i + s.whole((most*s.limit-p.live)/(p.live-p.fixed)*float64(p.i)); g > s.ok {
				if g >= s.bad && s.bad <= s.hi {
					return s.below()
				}
				return g, "where the account of memory meets the limit"
			}
		}
		// Were the whole peak due to the rows, as many more of them would fit: what does not grow makes it fewer.
		most := s.limit / p.peak
		if p.live > 0 && p.live < p.peak {
			most = nearly * s.limit / p.live
		}
		safe := s.whole(float64(p.i) * max(most, s.limit/p.peak))
		// Peaks of batches near one another would tell little of a row.
		if bold := leap * p.i; safe < bold && s.bad > bold && p.i*s.m <= fewRows {
			return min(bold, s.hi), "much of the peak may not grow with the batch"
		}
		if safe <= s.ok {
			return s.ok + 1, "the next"
		}
		if safe >= s.bad && s.bad <= s.hi {
			return s.halve()
		}
		return safe, "fits if all of the peak grows with the batch"
	}
	slope, at, loose, ok := s.line()
	if !ok {
		return s.halve()
	}
	usable, where := s.limit, "where the line through the peaks meets the limit"
	switch {
	case !loose:
	case s.held > at.peak && s.held < s.limit:
		usable, where = s.held, "where the line through the peaks meets what was live when memory was refused"
	case at.peak < roomy*s.limit:
		usable, where = roomy*s.limit, "where the line through the peaks comes near the limit"
	}
	g := at.i + s.whole((usable-at.peak)/slope)
	if slices.ContainsFunc(s.failed, func(i int) bool { return i <= g }) { // the line was wrong
		if q, ok := s.curve(); ok {
			g, where = q, "where the curve through the peaks meets the limit"
		}
	}
	switch {
	case g > s.ok && g < s.bad:
		return g, where
	case g >= s.bad && s.bad > s.hi:
		return s.hi, "the last"
	case g >= s.bad:
		n := 0
		for _, i := range s.failed {
			if i <= g || loose && float64(i) < nearby*float64(s.bad) {
				n++
			}
		}
		i, why := s.away(n, -1, loose)
		// The line was drawn far beyond what fits: a point nearer to its end.
		if far := s.bad - s.ok; !loose && far > s.ok {
			i, why = s.bad-far/near, "below what does not fit"
		}
		if u, ok := s.lacking(); ok && u < i {
			return s.below()
		}
		return i, why
	}
	// The batch fits, and by the line it should not: the limit is met later.
	if full := at.i + s.whole((s.limit-at.peak)/slope); loose && full > s.ok {
		return (s.ok + min(full+1, s.bad)) / 2, "between what fits and where the line meets the limit"
	}
	n := 0
	for _, p := range s.points {
		if p.i >= g {
			n++
		}
	}
	return s.away(max(n, 1), 1, false)
}

// roomy is the part of the limit that tensors are taken to fill where an allocator holds more than they take. Of six
// networks on an H100 (docs/sweep.md) 0.93 to 0.97 of it was live in the largest batch of four, and 0.95 to 0.98 in the
// next one when it was refused; in the other two it was 0.79 and 0.80, and 0.81 and 0.88.
const roomy = 0.975

// curve is where a parabola through the first, a middle and the last point meets the limit, where memory grows faster
// than the rows.
func (s *search) curve() (int, bool) {
	n := len(s.points)
	if n < 3 {
		return 0, false
	}
	y := func(p point) float64 {
		if s.points[0].live > 0 && p.live > 0 {
			return p.live
		}
		return p.peak
	}
	first, last := s.points[0], s.points[n-1]
	mid := s.points[1]
	for _, p := range s.points[1 : n-1] { // the one that is farthest from both
		if min(p.i-first.i, last.i-p.i) > min(mid.i-first.i, last.i-mid.i) {
			mid = p
		}
	}
	before := (y(mid) - y(first)) / float64(mid.i-first.i)
	after := (y(last) - y(mid)) / float64(last.i-mid.i)
	bend := (after - before) / float64(last.i-first.i)
	slope := after + bend*float64(last.i-mid.i) // at the last point
	left := s.limit - y(last)
	if bend <= 0 || slope <= 0 || left <= 0 {
		return 0, false
	}
	return last.i + s.whole((math.Sqrt(slope*slope+4*bend*left)-slope)/(2*bend)), true
}

// below is a batch below the smallest that does not fit, as far below as what it lacks says: a line from the largest
// that fits to what that one needs at least; halfway where nothing is known of it.
func (s *search) below() (int, string) {
	if u, ok := s.lacking(); ok {
		return u, "as far below what does not fit as what it lacked says"
	}
	return s.halve()
}

// lacking is where a line from the largest batch that fits to what the smallest that does not needs at least meets the
// limit. No larger batch fits, if memory grows no faster than the rows.
func (s *search) lacking() (int, bool) {
	if len(s.points) == 0 || s.bad > s.hi {
		return 0, false
	}
	p := s.points[len(s.points)-1]
	at := p.live
	if at <= 0 {
		at = p.peak
	}
	if p.i != s.ok || at >= s.limit || s.needs <= s.limit {
		return 0, false
	}
	u := s.ok + s.whole((s.limit-at)/(s.needs-at)*float64(s.bad-s.ok))
	return u, u > s.ok && u < s.bad
}

// near is the part of a bracket that is left above a point, where the line was drawn to more than twice what fits.
const near = 3

// leap is how many times a first batch of fewRows or less the second has at least.
const (
	leap    = 2
	fewRows = 32
)

// nearly is how much of the limit tensors can take where memory is lost between them.
const nearly = 0.95

// whole makes a number of multiples of a quotient, however large.
func (s *search) whole(q float64) int {
	return int(math.Min(math.Max(math.Floor(q), -1), float64(s.hi)+1))
}

// strides are the steps by which a search goes away from a line that was wrong, as parts of the batch; losses those
// down from where an allocator should have had enough, and something was lost between the tensors.
var strides, losses = []float64{0, 0.02, 0.1}, []float64{0.02}

// nearby is how far above the smallest batch that does not fit, as a part of it, others that do not show that what is
// lost between the tensors is not told by what was live.
const nearby = 1.15

// away is the n-th step from the end of the bracket at which the line was wrong, up or down.
func (s *search) away(n, sign int, loose bool) (int, string) {
	strides := strides
	if loose {
		strides = losses
	}
	if n > len(strides) {
		return s.halve()
	}
	from := s.ok
	if sign < 0 {
		from = s.bad
	}
	by := max(1, int(strides[n-1]*float64(from)))
	if i := from + sign*by; s.ok < i && i < s.bad && by <= (s.bad-s.ok+1)/2 {
		return i, map[int]string{1: "above what fits", -1: "below what does not fit"}[sign]
	}
	return s.halve()
}

// halve is the middle of the bracket, or where it is open twice what fits.
func (s *search) halve() (int, string) {
	if s.bad > s.hi && s.ok < s.hi/2 {
		return 2 * s.ok, "twice what fits"
	}
	return (s.ok + s.bad) / 2, "between what fits and what does not"
}
