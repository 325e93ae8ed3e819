package facts

import (
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/evidence"
)

// Fill puts what is known of the fact beside what met it.
func (f *Fact) Fill(m *evidence.Met) {
	m.Outcome, m.When, m.Wrong = string(f.Outcome), f.When, f.Wrong
	m.Span, m.Remedy, m.Source = f.Span(), f.ToDo(), f.Source
}

// Sort puts what was met for sure first, the worst outcome first, and what was met most first.
func Sort(met []evidence.Met) {
	rank := func(m evidence.Met) int {
		if i := slices.Index(Outcomes, Outcome(m.Outcome)); i >= 0 {
			return i
		}
		return len(Outcomes)
	}
	slices.SortStableFunc(met, func(x, y evidence.Met) int {
		switch {
		case x.Sure != y.Sure && x.Sure:
			return -1
		case x.Sure != y.Sure:
			return 1
		case rank(x) != rank(y):
			return rank(x) - rank(y)
		}
		return y.Count - x.Count
	})
}

// Span says of which releases of torch and which macOS the row speaks: torch 2.1.0 to 2.13.0, right from 2.14.0 on.
func (f *Fact) Span() string {
	s := "torch"
	switch {
	case f.From != "" && f.From == f.Until:
		s += " " + f.From
	case f.From != "" && f.Until != "":
		s += " " + f.From + " to " + f.Until
	case f.From != "":
		s += ", seen from " + f.From + " on"
	case f.Until != "":
		s += " up to " + f.Until
	case f.Fixed == "":
		s += ", first and last release not known"
	}
	if f.Fixed != "" {
		s += ", right from " + f.Fixed + " on"
	}
	if f.MacOS != "" {
		s += "; macOS " + f.MacOS
	}
	return s
}

// ToDo is the remedy, and the release that is right, with what is known to be wrong in a release that is named; ""
// where neither is known.
func (f *Fact) ToDo() string {
	right := ""
	if f.Fixed != "" {
		right = "right from torch " + f.Fixed + " on"
	}
	text := strings.TrimPrefix(strings.TrimSuffix(f.Remedy+"; "+right, "; "), "; ")
	return Load().Warned(&atlas.Atlas{}, text, f.Meets)
}
