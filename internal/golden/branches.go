package golden

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
)

// A Branch tells that values of a module's output, or of a pool's input, took another way on either side, both within
// the tolerance of outputs: one has another sign in front of a ReLU, or another value of a pool's window is the
// largest. What is computed forward hardly differs, and the gradient goes elsewhere.
type Branch struct {
	Module string `json:"module"` // of A
	At     string `json:"at"`     // relu or pool
	Other  int    `json:"other"`  // values, or windows, that went another way
	Of     int    `json:"of"`     // of so many
	call   int    // of A
}

// said is what a branch is in words.
func (b Branch) said() string {
	if b.At == "pool" {
		return fmt.Sprintf("%d of %d windows of %s have their largest value elsewhere", b.Other, b.Of, b.Module)
	}
	return fmt.Sprintf("%d of %d values of %s behind a ReLU have another sign", b.Other, b.Of, b.Module)
}

// spread is how much of what flows back is likely to go another way: the root of the share of the values, since what is
// at one of n places is about 1/√n of the norm of all.
func spread(branches []Branch) float64 {
	share := 0.0
	for _, b := range branches {
		share += float64(b.Other) / float64(b.Of)
	}
	return math.Sqrt(share)
}

// planes finds which outputs went through a ReLU, by the values: what a later module was fed has, in one of its
// channels, all of an output's channel but with 0 for what is negative. A concatenation in between is seen through.
type planes struct {
	seed maphash.Seed
	fed  [2]map[uint64]bool // of A and B: hashes of the channels of what modules were fed and gave
	wait []waiting
}

// waiting is a call whose values may have other signs, until it is known which of its channels are behind a ReLU.
type waiting struct {
	call, channels int
	module         string
	within         bool        // the layer has its ReLU within
	mixed          []int       // channels with values of both signs
	hash           [2][]uint64 // of those, on A and B, with 0 for what is negative
	other          []int       // values of those that have another sign
	size           int         // values of a channel
}

func newPlanes() *planes {
	return &planes{seed: maphash.MakeSeed(), fed: [2]map[uint64]bool{{}, {}}}
}

// channelSize is the number of values that lie together for one channel of an array with channels first: all of an
// example where there are no more than two axes.
func channelSize(a array) int {
	inner := a.shape[min(len(a.shape), 1):]
	if len(inner) > 1 {
		inner = inner[1:]
	}
	n := 1
	for _, d := range inner {
		n *= int(d)
	}
	return n
}

func (p *planes) hash(values []float64, relu bool) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	var piece [8]byte
	for _, v := range values {
		if relu && v < 0 || v == 0 {
			v = 0 // and no -0
		}
		little.PutUint64(piece[:], math.Float64bits(v))
		h.Write(piece[:])
	}
	return h.Sum64()
}

// saw adds the channels of what a module of one side was fed or gave.
func (p *planes) saw(side int, a array) {
	for size, at := channelSize(a), 0; size > 0 && at+size <= len(a.values); at += size {
		p.fed[side][p.hash(a.values[at:at+size], false)] = true
	}
}

// gave adds a pair of outputs that agree, with channels first; within: a ReLU is within the layer.
func (p *planes) gave(call int, module string, x, y array, within bool, tolerance float64) {
	size := channelSize(x)
	if size == 0 {
		return
	}
	w := waiting{call: call, module: module, within: within, size: size, channels: len(x.values) / size}
	least := tolerance * largest(x.values)
	for c := range w.channels {
		one, other := x.values[c*size:(c+1)*size], y.values[c*size:(c+1)*size]
		flips, below, above := 0, false, false
		for i, v := range one {
			below, above = below || v < 0 || other[i] < 0, above || v > 0 || other[i] > 0
			if (v > 0) != (other[i] > 0) && math.Abs(v) <= least && math.Abs(other[i]) <= least {
				flips++
			}
		}
		if !above || !below && !within {
			continue
		}
		w.mixed, w.other = append(w.mixed, c), append(w.other, flips)
		if !within {
			w.hash[0] = append(w.hash[0], p.hash(one, true))
			w.hash[1] = append(w.hash[1], p.hash(other, true))
		}
	}
	if len(w.mixed) > 0 {
		p.wait = append(p.wait, w)
	}
}

// relus are the values behind a ReLU, by module: how many there are, and of which the sign is another.
func (p *planes) relus() []Branch {
	var all []Branch
	for _, w := range p.wait {
		b := Branch{Module: w.module, At: "relu", call: w.call}
		for i := range w.mixed {
			if w.within || p.fed[0][w.hash[0][i]] || p.fed[1][w.hash[1][i]] {
				b.Of += w.size
				b.Other += w.other[i]
			}
		}
		if b.Of > 0 {
			all = append(all, b)
		}
	}
	return all
}

func largest(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		if !special(v) {
			most = max(most, math.Abs(v))
		}
	}
	return most
}

// isPool says whether a module may be one that takes the largest value of each window; the values tell (winners).
func isPool(kind string) bool { return strings.Contains(strings.ToLower(kind), "pool") }

// winners counts the windows of a pool whose largest value lies elsewhere on the other side, both candidates being as
// large within the tolerance. Where it lies is told by the values alone, so that neither window nor padding has to be
// known; one that is in its channel more than once tells nothing, as the 0 behind a ReLU, whose gradient is 0 anyway.
// ok is false where the output is not made of the input's values.
func winners(inA, inB, outA, outB array, tolerance float64) (other int, ok bool) {
	if len(inA.values) != len(inB.values) || len(outA.values) != len(outB.values) || len(outA.shape) < 3 {
		return 0, false
	}
	size, out := channelSize(inA), channelSize(outA)
	if size == 0 || out == 0 || len(inA.values)/size != len(outA.values)/out {
		return 0, false
	}
	least := tolerance * largest(inA.values)
	for c := range len(inA.values) / size {
		a, b := inA.values[c*size:(c+1)*size], inB.values[c*size:(c+1)*size]
		placesA, placesB := places(a), places(b)
		for i, v := range outA.values[c*out : (c+1)*out] {
			atA, hasA := placesA[v]
			atB, hasB := placesB[outB.values[c*out+i]]
			if !hasA || !hasB {
				return 0, false
			}
			if atA >= 0 && atB >= 0 && atA != atB && math.Abs(a[atA]-a[atB]) <= least {
				other++
			}
		}
	}
	return other, true
}

// places says where a value lies, -1 where it lies in two places.
func places(values []float64) map[float64]int {
	at := make(map[float64]int, len(values))
	for i, v := range values {
		if _, twice := at[v]; twice {
			i = -1
		}
		at[v] = i
	}
	return at
}
